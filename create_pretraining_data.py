# SPDX-License-Identifier: Apache-2.0
r"""Makes pre-training records from text: one sentence per line, a blank line between documents.

python create_pretraining_data.py --input_file='text/*.txt' --output_file=train.tfrecord \
    --spm_model_file=30k-clean.model
"""

from absl import flags

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.Corpus,
        options.TextFormat,
        options.CorpusVocabulary,
        options.Selection,
        options.WordStart,
        options.Instances,
        options.RecordFiles,
        options.Runner,
        options.CorpusLeftovers,
    )


def beam_runner():
    """BeamRunner as the flags say, or None; without --runner, Beam is not imported."""
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

    return beam_pipeline.BeamRunner(FLAGS.runner, FLAGS.beam_pipeline_options)


def check_flags_without_masks():
    """Raises UserError for flags about masks. Prints a line if records are written repeatedly."""
    for name in ("do_permutation", "do_whole_word_mask", "favor_shorter_ngram", "ngram"):
        if FLAGS[name].value != FLAGS[name].default:
            raise UserError(f"--{name} needs masks; --masked_lm_prob=0 makes none: leave it out")
    if FLAGS["dupe_factor"].using_default_value:
        print(
            f"--masked_lm_prob=0 with --dupe_factor={FLAGS.dupe_factor}, the default: the text is "
            "written so many times, and --dupe_factor=1 is usually enough without masks."
        )


def main(_):
    """Reads the flags, makes the records, prints what was made."""
    flag_groups.check_vocabulary("making records")
    flag_groups.check_exist("input_file")

    from albert_tf import files
    from albert_tf.corpus import build, instances, text_files
    from albert_tf.records import schemas
    from albert_tf.text import tokenization

    settings = flag_groups.values_of(instances.Settings)
    if not settings.masked_lm_prob:
        check_flags_without_masks()
    inputs = files.expand_patterns(FLAGS.input_file, "input_file")
    outputs = schemas.expand_shards(FLAGS.output_file, FLAGS.num_output_shards)
    heldout = FLAGS.heldout_output_file
    heldout_outputs = schemas.expand_shards(heldout, flag="heldout_output_file") if heldout else []
    runner = beam_runner()
    tokenizer = tokenization.FullTokenizer(
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        spm_model_file=FLAGS.spm_model_file,
        strip_accents=FLAGS.strip_accents,
    )
    summary = build.create(
        inputs,
        outputs,
        tokenizer,
        settings,
        heldout_outputs=heldout_outputs,
        form=flag_groups.values_of(text_files.Format),
        selection=flag_groups.values_of(options.Selection),
        word_start=FLAGS.word_start,
        num_workers=FLAGS.num_workers,
        work_directory=FLAGS.work_directory,
        runner=runner,
    )
    print(summary)


def run():
    """The command `albert-data`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
