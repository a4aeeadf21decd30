# SPDX-License-Identifier: Apache-2.0
r"""Trains a SentencePiece model with the options of the released models, except that accents stay.

python train_sentencepiece.py --input_file='text/*.txt' --model_prefix=my-30k --vocab_size=30000

Writes my-30k.model and my-30k.vocab. The text is read as create_pretraining_data.py reads it. Give
--strip_accents to remove accents, as the released models need. The model file records casing and
accents, and later commands follow it. Once the project is installed, `albert-spm` is the same
command.
"""

import dataclasses
import signal
import unicodedata
from collections import Counter

from absl import logging

from albert_tf import options, resolve
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError, handling_signals


def read_sentences(paths, form, clean_up, skipped, read):
    """Yields the cleaned sentences of text files, with a progress bar.

    Args:
        paths: list of str.
        form: text_files.Format.
        clean_up: CleanUp.
        skipped: Counter, to which the numbers of lines that are left out are added, by reason, and
            that of all lines as text_lines.
        read: callable, gets the lines before and after the clean-up.
    """
    from albert_tf import progress
    from albert_tf.corpus import text_files

    has_text = False
    with progress.bar("reading", text_files.total_size(paths), "B") as bar:
        for chunk in text_files.chunks(paths, form):
            lines, left_out = text_files.sentences(chunk)
            skipped.update({reason: len(numbers) for reason, numbers in left_out.items()})
            skipped["text_lines"] += chunk.num_lines
            cleaned = clean_up.lines(lines)
            read(lines, cleaned)
            yield from cleaned
            has_text = has_text or any(lines)
            bar.update(len(chunk.content))
    text_files.check_not_empty(has_text, paths, skipped)


def say_left_out(skipped, sample):
    """Prints how many lines and sentences are left out, and why.

    Args:
        skipped: Counter, of `read_sentences`.
        sample: sentencepiece_training.Sample.
    """
    from albert_tf.corpus import text_files

    for reason, what in text_files.LEFT_OUT.items():
        if count := skipped[reason]:
            print(text_files.left_out(count, skipped["text_lines"], what))
    if count := skipped["words_joined"]:
        print(text_files.JOINED.format(count))
    total = sample.read + sample.too_long + sample.reserved
    for what, count in sample.left_out().items():
        print(text_files.left_out(count, total, f"sentences: {what}"))


def main(given):
    """Trains the model, writes it and prints a summary."""
    flag_groups.check_paths(given)
    if not given.model_prefix or given.model_prefix.endswith("/"):
        raise UserError(f"--model_prefix={given.model_prefix}: give a name such as dir/spm")

    from albert_tf import files, vocabulary_record
    from albert_tf.corpus import text_files
    from albert_tf.text import clean_up, sentencepiece_training, text_losses

    settings = given.values_of(options.SentencePiece)
    has_table = settings.normalization_rule_name != "identity"
    cleaning = clean_up.CleanUp(
        given.do_lower_case,
        given.strip_accents,
        decomposes=given.strip_accents or has_table,
        casing_language=given.casing_language,
    )
    symbols = sentencepiece_training.symbols_in_text(settings.user_defined_symbols, cleaning)
    settings = dataclasses.replace(settings, user_defined_symbols=symbols)
    form = given.values_of(text_files.Format)
    input_files = files.expand_patterns(given.input_file, "input_file")
    text_files.say_tables(input_files)
    outputs = [f"{given.model_prefix}{ending}" for ending in (".vocab", ".model")]
    taken = set(map(files.real_path, input_files))
    for path in outputs:
        files.check_file_writable(path, "model_prefix", taken)
    skipped, is_split = Counter(), form.input_format != "sentences"
    table = sentencepiece_training.table_of(settings.normalization_rule_name)
    meter, lost, characters = text_losses.Losses(cleaning, table), Counter(), Counter()

    def read(lines, cleaned):
        lost.update(meter.count(lines))
        characters.update(unicodedata.normalize("NFC", "\n".join(cleaned)))

    sentences = read_sentences(input_files, form, cleaning, skipped, read)
    sample = sentencepiece_training.Sample(sentences, settings, is_split)
    say_left_out(skipped, sample)
    print(
        f"training on {len(sample.kept)} of {sample.read} usable sentences; --verbosity=0 shows "
        "SentencePiece's own messages",
        flush=True,
    )
    with handling_signals(signal.SIG_DFL):  # Python's handlers would wait for SentencePiece
        model = sentencepiece_training.train(sample.kept, settings, logging.level_info())
    model = vocabulary_record.add(model, cleaning)
    contents = sentencepiece_training.vocabulary_text(model).encode(), model
    files.write_bytes(dict(zip(outputs, contents, strict=True)))
    records = vocabulary_record.values_of(cleaning).items()
    shown = " ".join(resolve.as_flag(name, value) for name, value in records)
    print(f"{outputs[-1]}: {settings.vocab_size} pieces; it records {shown}")
    unknown = sentencepiece_training.unknown_characters(model, characters)
    for warning in text_losses.warnings(lost, unknown):
        print(f"warning: {warning}")


run = launch.command(  # albert-spm
    main,
    options.Corpus,
    options.TextFormat,
    options.CasingLanguage,
    options.SentencePieceFile,
    options.SentencePiece,
    strip_accents=False,  # a vocabulary of the released models lacks accents; a new one need not
)
