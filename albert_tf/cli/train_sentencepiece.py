# SPDX-License-Identifier: Apache-2.0
r"""Trains a SentencePiece model with the options of the published ALBERT models.

python train_sentencepiece.py --input_file='text/*.txt' --model_prefix=my-30k --vocab_size=30000

Writes my-30k.model and my-30k.vocab. The text is read as create_pretraining_data.py reads it, and
cleaned in the same way. Once the project is installed, `albert-spm` is the same command.
"""

import contextlib
import signal

from absl import flags, logging

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; those for training have SentencePiece's names."""
    flag_groups.define(
        options.Corpus, options.TextFormat, options.SentencePieceFile, options.SentencePiece
    )
    flags.mark_flags_as_required(["input_file", "model_prefix"])


class Sentences:
    """Iterable of cleaned sentences of text files, with a progress bar.

    Args:
        paths: list of str.
        form: text_files.Format.
        lower: bool, whether to lower-case.
        strip_accents: bool, whether to remove accents.
    """

    def __init__(self, paths, form, lower, strip_accents):
        self._paths, self._form = paths, form
        self._lower, self._strip_accents = lower, strip_accents
        self._skipped = 0

    def __iter__(self):
        from albert_tf import progress
        from albert_tf.corpus import text_files
        from albert_tf.text import tokenization

        with progress.bar("reading", text_files.total_size(self._paths), "B") as bar:
            for chunk in text_files.chunks(self._paths, self._form):
                lines, skipped = text_files.sentences(chunk)
                self._skipped += len(skipped)
                yield from tokenization.preprocess_lines(lines, self._lower, self._strip_accents)
                bar.update(len(chunk.content))

    def note(self):
        """Note on skipped lines; empty if there are none."""
        return f"; skipped: {self._skipped} lines that are not UTF-8" if self._skipped else ""


@contextlib.contextmanager
def signals_end_at_once():
    """Lets Ctrl-C and SIGTERM end the process while SentencePiece trains, outside of Python."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(_):
    """Trains the model, writes it and prints a summary."""
    flag_groups.check_exist("input_file")
    if not FLAGS.model_prefix or FLAGS.model_prefix.endswith("/"):
        raise UserError(
            f"--model_prefix={FLAGS.model_prefix}: give a name for the files, as dir/spm"
        )

    import tensorflow as tf

    from albert_tf import files
    from albert_tf.corpus import text_files
    from albert_tf.text import sentencepiece_training

    settings = flag_groups.values_of(options.SentencePiece)
    form = flag_groups.values_of(text_files.Format)
    input_files = files.expand_patterns(FLAGS.input_file, "input_file")
    outputs = [f"{FLAGS.model_prefix}{ending}" for ending in (".vocab", ".model")]
    for path in outputs:
        files.check_file_writable(path, "model_prefix")
    sentences = Sentences(input_files, form, FLAGS.do_lower_case, FLAGS.strip_accents)
    is_split = form.input_format != "sentences"
    sample = sentencepiece_training.Sample(sentences, settings, is_split)
    print(
        f"training on {len(sample.kept)} of {sample.read} sentences{sample.left_out()}"
        f"{sentences.note()}; --verbosity=0 shows SentencePiece's own messages",
        flush=True,
    )
    with signals_end_at_once():
        model = sentencepiece_training.train(sample.kept, settings, logging.level_info())
    contents = [sentencepiece_training.vocabulary_text(model).encode(), model]
    with files.replacing(*outputs) as names:
        for name, content in zip(names, contents, strict=True):
            with tf.io.gfile.GFile(name, "wb") as file:
                file.write(content)
    print(f"{outputs[-1]}: {settings.vocab_size} pieces")


def run():
    """The command `albert-spm`."""
    define_flags()
    launch.run(main)
