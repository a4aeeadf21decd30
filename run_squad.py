# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on SQuAD 1.1 and 2.0, or on questions of one's own.

python run_squad.py \
  --albert_config_file=albert_config.json --spm_model_file=30k-clean.model \
  --init_checkpoint=albert_base --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
  --output_dir=output/squad --do_train --do_predict --train_batch_size=48 --learning_rate=5e-5 \
  --num_train_epochs=2 --warmup_proportion=0.1 --save_checkpoints_steps=1000
"""

from absl import flags

from albert_tf.cli import finetuning_flags, flag_groups, launch, lazy, model_flags
from albert_tf.errors import UserError

squad = lazy.module("albert_tf.tasks.squad.task")
squad_features = lazy.module("albert_tf.tasks.squad.features")
finetuning = lazy.module("albert_tf.training.finetuning")
results = lazy.module("albert_tf.training.results")

FLAGS = flags.FLAGS
KEEP_CHECKPOINTS = 3  # of those that were evaluated, beside the best, as the original
RECORD_FLAGS = {"train": "train_feature_file", "predict": "predict_feature_file"}


def define_flags():
    """Defines the script's flags; names and defaults are those of the original's two."""
    _define_task_flags()
    finetuning_flags.define_flags(
        max_seq_length=384, learning_rate=5e-5, save_checkpoints_steps=1000
    )
    flag_groups.define_obsolete_flags("use_einsum", "predict_feature_left_file")
    FLAGS["init_checkpoint"].help = (
        "Weights to start from, the head among them if they are of a SQuAD model: a prefix, its "
        ".index file or a directory. Not read if --output_dir holds a run."
    )
    for name in ("do_eval", "eval_batch_size"):  # prediction is evaluation here
        delattr(FLAGS, name)
    flags.mark_flags_as_required(["output_dir"])


@flag_groups.subject("Questions and answers")
def _define_task_flags():
    flags.DEFINE_string("train_file", None, "SQuAD JSON to train on.")
    flags.DEFINE_string(
        "predict_file",
        None,
        "SQuAD JSON to answer. With answers in it, every checkpoint is evaluated on it and the one "
        "with the best f1 is kept.",
    )
    for purpose, flag in RECORD_FLAGS.items():
        text = f"TFRecord file for the features to {purpose}; in --output_dir by default."
        flags.DEFINE_string(flag, None, text)
    flags.DEFINE_bool(
        "version_2_with_negative",
        None,
        "Whether questions may have no answer (SQuAD 2.0). Read from --train_file by default or, "
        "without --do_train, from the checkpoint.",
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "Version 2: questions whose no-answer logit is not below it get no answer. By default it "
        "is tuned where --predict_file has answers, and else the one tuned last is taken.",
    )
    flags.DEFINE_list(
        "ensemble_dirs",
        [],
        "Directories of trained runs to predict with together: their scores are averaged. Each "
        "with its albert_config.json; in place of --albert_config_file and --init_checkpoint.",
    )
    flags.DEFINE_integer("doc_stride", 128, "Pieces from one window of a paragraph to the next.")
    flags.DEFINE_integer("max_query_length", 64, "Pieces of a question; the rest is cut off.")
    flags.DEFINE_integer("n_best_size", 20, "Longest list of answers to a question.")
    flags.DEFINE_integer("max_answer_length", 30, "Longest answer, in pieces.")
    flags.DEFINE_integer("start_n_top", 5, "Version 2: starts in the beam.")
    flags.DEFINE_integer("end_n_top", 5, "Version 2: ends in the beam of each start.")
    flags.DEFINE_float("dropout_prob", 0.1, "Version 2: dropout before the no-answer logit.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes, counted in questions and not in windows.")
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the updates for the linear warm-up.")


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    finetuning_flags.check()
    if FLAGS.ensemble_dirs and (FLAGS.do_train or FLAGS.export_dir):
        raise UserError("--ensemble_dirs cannot be combined with --do_train or --export_dir")
    for flag, file in (("do_train", "train_file"), ("do_predict", "predict_file")):
        if FLAGS[flag].value and not FLAGS[file].value:
            raise UserError(f"--{flag} needs --{file}")
    flag_groups.check_between(0, flag_groups.INT32_MAX, "num_train_epochs")
    flag_groups.check_between(0, 1.0, "warmup_proportion")
    flag_groups.check_between(0, 0.999, "dropout_prob")
    flag_groups.check_between(1, FLAGS.max_seq_length, "start_n_top", "end_n_top")
    flag_groups.check_at_least(1, "n_best_size", "max_answer_length", "max_query_length")
    flag_groups.values_of(squad.Settings)
    flag_groups.values_of(squad_features.WindowSettings)


def make_task(version, configs):
    """The task, for models of these configs."""
    text = model_flags.text_input(configs)
    return squad.SquadTask(
        version=version,
        settings=flag_groups.values_of(squad.Settings),
        text=text,
        windows=flag_groups.values_of(
            squad_features.WindowSettings,
            do_lower_case=text.do_lower_case,
            strip_accents=text.strip_accents,
        ),
        output_dir=FLAGS.output_dir,
        train_file=FLAGS.train_file,
        predict_file=FLAGS.predict_file,
        record_files={purpose: FLAGS[flag].value for purpose, flag in RECORD_FLAGS.items()},
    )


def main(_):
    """Makes values of the flags; then trains, evaluates, predicts and exports."""
    flag_groups.note_obsolete_flags()
    check_flags()
    prefixes = []
    if not FLAGS.do_train:
        given = model_flags.init_checkpoint()
        prefixes = squad.trained_checkpoints(FLAGS.output_dir, FLAGS.ensemble_dirs, given)
    finetuning_flags.follow_run()
    version = squad.choose_version(prefixes, FLAGS.train_file, FLAGS.version_2_with_negative)
    configs = model_flags.read_configs(prefixes, bool(FLAGS.ensemble_dirs))
    task = make_task(version, configs)
    task.check_thresholds(prefixes)
    steps = squad.last_step(FLAGS.output_dir, FLAGS.continuous_eval_timeout)
    if FLAGS.do_train:
        steps = task.train_steps(FLAGS.train_batch_size, FLAGS.num_train_epochs)
    can_evaluate = FLAGS.do_predict and task.is_labelled and not FLAGS.ensemble_dirs
    record_files = {flag: task.record_file(use) for use, flag in RECORD_FLAGS.items()}
    finetuning_flags.check_writable(**record_files)
    options = finetuning_flags.read_options(
        steps,
        int(steps * FLAGS.warmup_proportion),
        # Without evaluation, another process may evaluate later: until then all have to stay.
        KEEP_CHECKPOINTS if FLAGS.do_predict else None,
        do_eval=can_evaluate and bool(FLAGS.do_train or results.trained_in(FLAGS.output_dir)),
        eval_batch_size=FLAGS.predict_batch_size,
        ensemble=tuple(zip(configs, prefixes, strict=True)) if FLAGS.ensemble_dirs else (),
    )
    finetuning.fine_tune(task, configs[0], options, launch.set_up_devices())


def run():
    """The command `albert-squad`."""
    define_flags()
    launch.run(main)


if __name__ == "__main__":
    run()
