# SPDX-License-Identifier: Apache-2.0
r"""Makes pre-training records from text: one sentence per line, a blank line between documents.

python create_pretraining_data.py --input_file='text/*.txt' --output_file=train.tfrecord \
    --spm_model_file=30k-clean.model
"""

from absl import flags

from albert_tf import choices
from albert_tf.cli import flag_groups, launch, lazy, text_flags
from albert_tf.errors import UserError

files = lazy.module("albert_tf.files")
corpus_selection = lazy.module("albert_tf.corpus.corpus_selection")
pretraining = lazy.module("albert_tf.corpus.pretraining")
pretraining_files = lazy.module("albert_tf.corpus.pretraining_files")
schemas = lazy.module("albert_tf.records.schemas")
text_formats = lazy.module("albert_tf.corpus.text_formats")
tokenization = lazy.module("albert_tf.text.tokenization")

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    text_flags.define()
    _define_vocabulary_flags()
    _define_selection_flags()
    _define_instance_flags()
    _define_output_flags()
    _define_runner_flags()
    flags.mark_flags_as_required(["input_file", "output_file"])


@flag_groups.subject("Vocabulary")
def _define_vocabulary_flags():
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


@flag_groups.subject("Pairs and masks")
def _define_instance_flags():
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
        "Passes over the text, each with other pairs and masks. Disk space grows too. With "
        "--masked_lm_prob=0, one pass is usually enough.",
    )
    flags.DEFINE_float(
        "masked_lm_prob",
        0.15,
        "Share of the tokens to predict. 0 masks nothing: run_pretraining.py --masked_lm_budget "
        "masks such records while it reads them, anew in each epoch.",
    )
    flags.DEFINE_float(
        "short_seq_prob",
        0.1,
        "Probability, per document and pass, of instances shorter than --max_seq_length.",
    )


@flag_groups.subject("Choice of documents")
def _define_selection_flags():
    flags.DEFINE_bool(
        "drop_duplicates",
        False,
        "Leave out documents whose tokens are those of an earlier one; the summary counts them.",
    )
    flags.DEFINE_float(
        "drop_near_duplicates",
        0.0,
        "Leave out documents that are this similar to an earlier one, for instance 0.8: the share "
        "of their sequences of five tokens that both have. 0 keeps them.",
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
        choices.WORD_STARTS,
        "What begins a word. original: pieces with anything but the letters a-z and some "
        "punctuation, which suits English alone. piece: SentencePiece's mark of a space.",
    )


@flag_groups.subject("Output")
def _define_output_flags():
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
        "Directory on a local disk (with --runner: a shared one, such as gs://...) for the "
        "tokenised text and the state of the run. It is kept, "
        "and a later run with other settings takes the tokenised text from it. By default a hidden "
        "one beside the first output file, removed at the end.",
    )


@flag_groups.subject("Apache Beam")
def _define_runner_flags():
    flags.DEFINE_string(
        "runner",
        None,
        "Apache Beam runner that does the work: DataflowRunner, FlinkRunner, SparkRunner, "
        "DaskRunner, DirectRunner (this machine) or another one that Beam knows. All paths must be "
        "within reach of all machines. The records are those of a run without it.",
    )
    flags.DEFINE_list(
        "beam_pipeline_options",
        [],
        "With --runner: Beam's pipeline options, such as project=my-project,region=us-east1.",
    )


def beam_stages():
    """BeamStages as the flags say, or None; without --runner, Beam is not imported."""
    if not FLAGS.runner:
        if FLAGS.beam_pipeline_options:
            raise UserError("--beam_pipeline_options needs a --runner")
        return None
    if FLAGS["num_workers"].present:
        raise UserError(
            "--num_workers is for runs without --runner; the runner has options of its own in "
            "--beam_pipeline_options, such as direct_num_workers or dask_npartitions"
        )
    from albert_tf.corpus import beam_pipeline

    return beam_pipeline.BeamStages(FLAGS.runner, FLAGS.beam_pipeline_options)


def main(_):
    """Reads the flags, makes the records, prints what was made."""
    if FLAGS["input_file_mode"].present:
        print("--input_file_mode has no effect any more: input is read as UTF-8 text.")
    if not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise UserError("one of --spm_model_file and --vocab_file is needed, and none was given")
    settings = flag_groups.values_of(pretraining.Settings)
    if not settings.masked_lm_prob and FLAGS["dupe_factor"].using_default_value:
        print(
            f"--masked_lm_prob=0 with --dupe_factor={settings.dupe_factor}, the default: the text "
            "is written so many times, and --dupe_factor=1 is usually enough without masks."
        )
    paths = files.expand_patterns(FLAGS.input_file, "input_file")
    outputs = schemas.expand_shards(FLAGS.output_file, FLAGS.num_output_shards)
    heldout_outputs = []
    if FLAGS.heldout_output_file:
        heldout_outputs = schemas.expand_shards(FLAGS.heldout_output_file)
    flag_groups.check_at_least(1, "num_workers", "num_output_shards")
    stages = beam_stages()
    tokenizer = tokenization.FullTokenizer(
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        spm_model_file=FLAGS.spm_model_file,
        strip_accents=FLAGS.strip_accents,
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
        stages=stages,
    )
    print(summary)


def run():
    """The command `albert-data`."""
    define_flags()
    launch.run(main)


if __name__ == "__main__":
    run()
