# SPDX-License-Identifier: Apache-2.0
r"""Makes pre-training records from text: one sentence per line, a blank line between documents.

python create_pretraining_data.py --input_file='text/*.txt' --output_file=train.tfrecord \
    --spm_model_file=30k-clean.model
"""

from absl import flags

from albert_tf import files
from albert_tf.cli import flag_groups, launch
from albert_tf.data import (
    corpus_selection,
    line_encoding,
    pretraining,
    pretraining_files,
    records,
    text_formats,
)
from albert_tf.errors import UserError
from albert_tf.text import tokenization

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Comma-separated glob patterns of UTF-8 text files, plain, .gz or .bz2: one sentence per "
        "line, a blank line between documents. See --input_format for other forms.",
    )
    flags.DEFINE_string(
        "spm_model_file",
        None,
        "SentencePiece model, for instance 30k-clean.model. Either this or --vocab_file is needed.",
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "WordPiece vocabulary, one token per line. Not used if there is a --spm_model_file.",
    )
    flags.DEFINE_string(
        "input_file_mode", "r", "Accepted and without effect: input is always read as UTF-8 text."
    )
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text. True for the published models.")
    flags.DEFINE_bool(
        "do_whole_word_mask", True, "Mask whole words; if false, the n-grams consist of pieces."
    )
    flags.DEFINE_bool(
        "do_permutation",
        False,
        "Also shuffle as many tokens as are masked, and predict them. The masked_lm_* features get "
        "twice as long: give run_pretraining.py twice this --max_predictions_per_seq.",
    )
    flags.DEFINE_bool(
        "favor_shorter_ngram",
        True,
        "Draw n-gram lengths n with probability proportional to 1/n; if false, the "
        "probabilities are reversed, so that the longest are the most frequent.",
    )
    flags.DEFINE_bool(
        "random_next_sentence",
        False,
        "What the sentence-level task is. False: sentence order (ALBERT), negatives are the two "
        "segments swapped. True: next sentence (BERT), the second segment of negatives is from a "
        "random document. "
        "In the records, next_sentence_labels is 0 for segments in order, 1 for swapped or random. "
        "A text of a single sentence cannot be swapped: it gets a random second segment, label 1, "
        "either way.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        512,
        "Tokens per instance at most, with [CLS] and both [SEP]; the rest is 0.",
    )
    flags.DEFINE_integer("ngram", 3, "Longest n-gram to mask, in words.")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Tokens to predict per instance at most.")
    flags.DEFINE_integer("random_seed", 12345, "Seed; the same seed gives the same records.")
    flags.DEFINE_integer(
        "dupe_factor",
        40,
        "Passes over the text, each with other pairs and masks. Disk space grows too.",
    )
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to predict; 0 masks nothing.")
    flags.DEFINE_float(
        "short_seq_prob",
        0.1,
        "Probability, per document and pass, of instances shorter than --max_seq_length.",
    )
    define_text_flags()
    define_output_flags()
    flags.mark_flags_as_required(["input_file", "output_file"])


def define_text_flags():
    """Flags that say how the text is to be read."""
    flags.DEFINE_enum(
        "input_format",
        "sentences",
        text_formats.FORMATS,
        "sentences: one per line, and a blank line between documents. documents: a blank line "
        "between them, or see --document_per_line. jsonl: one JSON object per line. Documents are "
        "split into sentences by the package sentence-splitter.",
    )
    flags.DEFINE_bool(
        "document_per_line", False, "With --input_format=documents: every line is a document."
    )
    flags.DEFINE_string("text_key", "text", "With --input_format=jsonl: the key of the text.")
    flags.DEFINE_string("language", "en", "Language of the documents to split, two letters.")
    flags.DEFINE_bool(
        "file_is_document", False, "The end of a file ends a document. It does not in the original."
    )
    flags.DEFINE_enum(
        "on_decode_error",
        "stop",
        text_formats.ON_DECODE_ERROR,
        "What to do with a line that is not UTF-8: stop, or skip it; the summary counts them.",
    )
    flags.DEFINE_bool(
        "drop_duplicates",
        False,
        "Leave out documents whose tokens are those of an earlier one; the summary counts them.",
    )
    flags.DEFINE_float(
        "heldout_fraction",
        0.0,
        "About which share of the documents goes to --heldout_output_file instead. The choice "
        "depends on the tokens of a document alone.",
    )
    flags.DEFINE_enum(
        "word_start",
        "original",
        line_encoding.WORD_STARTS,
        "What begins a word. original: pieces with anything but the letters a-z and some "
        "punctuation, which suits English alone. piece: SentencePiece's mark of a space.",
    )


def define_output_flags():
    """Flags that say what is written, where and by how many processes."""
    flags.DEFINE_string(
        "output_file",
        None,
        "Comma-separated names of the TFRecord files to write; the instances go to them in turn. "
        "Names that end in .gz are compressed. name@64 stands for 64 files: name-00000-of-00064 "
        "and so on.",
    )
    flags.DEFINE_string(
        "heldout_output_file", None, "As --output_file, for the documents held out."
    )
    flags.DEFINE_integer(
        "num_output_shards", None, "Files to write, if --output_file is a single name: as name@N."
    )
    flags.DEFINE_integer(
        "num_workers",
        1,
        "Processes. The records do not depend on it. Each file is written by one process, so name "
        "at least as many files.",
    )
    flags.DEFINE_string(
        "work_directory",
        None,
        "Directory on a local disk for the tokenised text and the state of the run. It is kept, "
        "and a later run with other settings takes the tokenised text from it. By default a hidden "
        "one beside the first output file, removed at the end.",
    )


def main(_):
    """Reads the flags, makes the records, prints what was made."""
    if FLAGS["input_file_mode"].present:
        print("--input_file_mode has no effect any more: input is read as UTF-8 text.")
    if not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise UserError("one of --spm_model_file and --vocab_file is needed, and none was given")
    settings = flag_groups.values_of(pretraining.Settings)
    paths = files.expand_patterns(FLAGS.input_file, "input_file")
    outputs = records.expand_shards(FLAGS.output_file, FLAGS.num_output_shards)
    heldout_outputs = []
    if FLAGS.heldout_output_file:
        heldout_outputs = records.expand_shards(FLAGS.heldout_output_file)
    flag_groups.check_at_least(1, "num_workers", "num_output_shards")
    tokenizer = tokenization.FullTokenizer(
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        spm_model_file=FLAGS.spm_model_file,
    )
    summary = pretraining_files.create(
        paths,
        outputs,
        tokenizer,
        settings,
        heldout_outputs=heldout_outputs,
        form=flag_groups.values_of(text_formats.Format),
        selection=flag_groups.values_of(corpus_selection.Selection),
        word_start=FLAGS.word_start,
        num_workers=FLAGS.num_workers,
        work_directory=FLAGS.work_directory,
    )
    print(summary)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
