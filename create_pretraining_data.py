# SPDX-License-Identifier: Apache-2.0
r"""Makes pre-training records from text: one sentence per line, a blank line between documents.

python create_pretraining_data.py --input_file='text/*.txt' --output_file=train.tfrecord \
    --spm_model_file=30k-clean.model
"""

from albert_tf import options, resolve
from albert_tf.cli import flag_groups, launch


def main(given):
    """Reads the flags, makes the records, prints what was made."""
    flag_groups.check_paths(given)
    flag_groups.need_vocabulary(given, "making records")

    from albert_tf import files
    from albert_tf.checkpoints import source
    from albert_tf.corpus import build, instances, text_files
    from albert_tf.records import graph_masking, schemas
    from albert_tf.text import text_losses, tokenization

    given = resolve.resolve(given.rows, given.typed(), source.of_vocabulary(given.typed()))
    settings = given.values_of(instances.Settings)
    if not settings.masked_lm_prob and given.origin("dupe_factor") == resolve.DEFAULT:
        print(f"Without masks, --dupe_factor=1 is usually enough, and not {given.dupe_factor}.")
    graph_masking.say_limit(settings, "masked_lm_prob")
    inputs = files.expand_patterns(given.input_file, "input_file")
    outputs = schemas.expand_shards(given.output_file, given.num_output_shards)
    if given.num_workers > len(outputs):
        print(
            f"--num_workers={given.num_workers}: {len(outputs)} are used, one for each file; give "
            "more --num_output_shards."
        )
    heldout = given.heldout_output_file
    heldout_outputs = schemas.expand_shards(heldout, flag="heldout_output_file") if heldout else []
    runner = None
    if given.runner:  # otherwise, Beam is not imported
        from albert_tf.corpus import beam_pipeline

        runner = beam_pipeline.BeamRunner(given.runner, given.beam_pipeline_options)
    tokenizer = tokenization.FullTokenizer(
        vocab_file=given.vocab_file,
        spm_model_file=given.spm_model_file,
        # the vocabulary may record other values than the defaults of the flags
        **given.typed("do_lower_case", "strip_accents"),
    )
    for warning in text_losses.unreachable(tokenizer):
        print(f"warning: {warning}")
    summary = build.create(
        inputs,
        outputs,
        tokenizer,
        settings,
        heldout_outputs=heldout_outputs,
        form=given.values_of(text_files.Format),
        selection=given.values_of(options.Selection),
        word_start=given.word_start,
        num_workers=given.num_workers,
        work_directory=given.work_directory,
        runner=runner,
    )
    print(summary)


run = launch.command(  # albert-data
    main,
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


if __name__ == "__main__":
    run()
