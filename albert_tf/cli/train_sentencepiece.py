# SPDX-License-Identifier: Apache-2.0
r"""Trains a SentencePiece model with the options of the released ALBERT models.

python train_sentencepiece.py --input_file='text/*.txt' --model_prefix=my-30k --vocab_size=30000

Writes my-30k.model and my-30k.vocab. The text is read as create_pretraining_data.py reads it, and
cleaned in the same way. Once the project is installed, `albert-spm` is the same command.
"""

import signal

from absl import flags, logging

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError, handling_signals

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; those for training have SentencePiece's names."""
    flag_groups.define(
        options.Corpus, options.TextFormat, options.SentencePieceFile, options.SentencePiece
    )


def read_sentences(paths, form, skipped):
    """Yields the cleaned sentences of text files, with a progress bar.

    Args:
        paths: list of str.
        form: text_files.Format.
        skipped: list, to which the numbers of lines are added that are not UTF-8.
    """
    from albert_tf import progress
    from albert_tf.corpus import text_files
    from albert_tf.text import tokenization

    with progress.bar("reading", text_files.total_size(paths), "B") as bar:
        for chunk in text_files.chunks(paths, form):
            lines, numbers = text_files.sentences(chunk)
            skipped += numbers
            yield from tokenization.preprocess_lines(
                lines, FLAGS.do_lower_case, FLAGS.strip_accents
            )
            bar.update(len(chunk.content))


def main(_):
    """Trains the model, writes it and prints a summary."""
    flag_groups.check_exist("input_file")
    if not FLAGS.model_prefix or FLAGS.model_prefix.endswith("/"):
        raise UserError(
            f"--model_prefix={FLAGS.model_prefix}: give a name for the files, such as dir/spm"
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
    skipped, is_split = [], form.input_format != "sentences"
    sentences = read_sentences(input_files, form, skipped)
    sample = sentencepiece_training.Sample(sentences, settings, is_split)
    note = f"; skipped: {len(skipped)} lines that are not UTF-8" if skipped else ""
    print(
        f"training on {len(sample.kept)} of {sample.read} sentences{sample.left_out()}"
        f"{note}; --verbosity=0 shows SentencePiece's own messages",
        flush=True,
    )
    with handling_signals(signal.SIG_DFL):  # Python's handlers would wait for SentencePiece
        model = sentencepiece_training.train(sample.kept, settings, logging.level_info())
    contents = [sentencepiece_training.vocabulary_text(model).encode(), model]
    with files.replacing(*outputs) as names:
        for name, content in zip(names, contents, strict=True):
            with tf.io.gfile.GFile(name, "wb") as file:
                file.write(content)
    print(f"{outputs[-1]}: {settings.vocab_size} pieces")


def run():
    """The command `albert-spm`."""
    launch.run(main, define_flags)
