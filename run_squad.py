# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on SQuAD 1.1 and 2.0, or on your own questions.

python run_squad.py \
  --albert_config_file=albert_config.json --spm_model_file=30k-clean.model \
  --init_checkpoint=albert_base --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
  --output_dir=output/squad --do_train --do_predict --train_batch_size=48 --learning_rate=5e-5 \
  --num_train_epochs=2 --warmup_proportion=0.1 --save_checkpoints_steps=1000
"""

import sys

from absl import flags

from albert_tf import options
from albert_tf.cli import finetuning_flags, flag_groups, launch
from albert_tf.errors import UserError

FLAGS = flags.FLAGS
KEEP_CHECKPOINTS = 3  # of those that were evaluated, besides the best, as in the original
RECORD_FLAGS = {"train": "train_feature_file", "predict": "predict_feature_file"}


def define_flags():
    """Defines the script's flags; names and defaults are those of the original's two."""
    flag_groups.define(
        options.Squad, *options.FINE_TUNING, options.SquadLeftovers, max_seq_length=384
    )
    for name in ("do_eval", "eval_batch_size"):  # prediction is evaluation here
        delattr(FLAGS, name)


def check_flags():
    """Raises UserError for invalid combinations of flags, before anything is read."""
    finetuning_flags.check()
    if FLAGS.ensemble_dirs and (FLAGS.do_train or FLAGS.export_dir):
        raise UserError("--ensemble_dirs cannot be combined with --do_train or --export_dir")
    needed = ["train_file"] * FLAGS.do_train + ["predict_file"] * FLAGS.do_predict
    for name in needed:
        if not FLAGS[name].value:
            raise UserError(f"--do_{name.removesuffix('_file')} needs --{name}")
    if FLAGS.do_train:
        check_lengths()
    flag_groups.check_exist("ensemble_dirs", *needed)
    finetuning_flags.check_model()


def check_lengths():
    """Raises UserError for invalid windows; without --do_train, lengths are those of the run."""
    for name in ("start_n_top", "end_n_top"):
        if FLAGS[name].value > FLAGS.max_seq_length:
            raise UserError(
                f"--{name} must be at most --max_seq_length={FLAGS.max_seq_length}. "
                f"Received: {FLAGS[name].value}"
            )
    options.check_windows(FLAGS.max_seq_length, FLAGS.doc_stride)


def main(_):
    """Checks the flags; then trains, evaluates, predicts and exports."""
    check_flags()

    from albert_tf.checkpoints import run_directory, source
    from albert_tf.cli import model_flags, training_flags
    from albert_tf.tasks.squad import squad
    from albert_tf.training import finetuning

    directory, prefixes = run_directory.RunDirectory(FLAGS.output_dir), []
    if FLAGS.ensemble_dirs:
        trained = map(run_directory.RunDirectory, FLAGS.ensemble_dirs)
        prefixes = [each.trained_or(None) for each in trained]
    elif not FLAGS.do_train:
        prefixes = [directory.trained_or(FLAGS.init_checkpoint)]
    version = squad.choose_version(prefixes, FLAGS.train_file, FLAGS.version_2_with_negative)
    for name in squad.SquadV2Task.answer_settings:
        if FLAGS[name].present and name not in version.answer_settings:
            print(f"--{name} has no effect: it belongs to SQuAD 2.0, and the model is of SQuAD 1.1")
    if FLAGS.ensemble_dirs:
        choices = model_flags.follow_all([source.find(prefix) for prefix in prefixes])
    else:
        choices = [model_flags.follow_run()]
    if not FLAGS.do_train:
        sources = [choice.source for choice in choices]
        model_flags.follow_recorded(sources, version.answer_settings)
    check_lengths()
    configs = [choice.config for choice in choices]
    given = flag_groups.values_of(options.Squad)
    task = version(model_flags.text_input(choices), given, FLAGS.output_dir)
    data = squad.SquadData(task, FLAGS.output_dir)
    data.check_thresholds(prefixes)
    steps = sys.maxsize  # without training, only the timeout ends a wait for checkpoints
    if FLAGS.do_train:
        # An epoch is as many examples as questions, as in the original; windows are more.
        steps = finetuning.steps_of_epochs(
            len(data.train_examples), FLAGS.train_batch_size, FLAGS.num_train_epochs
        )
    can_evaluate = FLAGS.do_predict and data.is_labelled and not FLAGS.ensemble_dirs
    evaluates = can_evaluate and bool(FLAGS.do_train or directory.trained)
    training_flags.fine_tune(
        data,
        configs[0],
        record_flags=RECORD_FLAGS,
        do_eval=evaluates,
        train_steps=steps,
        warmup_steps=int(steps * FLAGS.warmup_proportion),
        keep_checkpoint_max=KEEP_CHECKPOINTS,
        eval_batch_size=FLAGS.predict_batch_size,
        ensemble=tuple(zip(configs, prefixes, strict=True)) if FLAGS.ensemble_dirs else (),
    )


def run():
    """The command `albert-squad`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
