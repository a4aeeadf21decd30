# SPDX-License-Identifier: Apache-2.0
"""Flags of the fine-tuning scripts, and the values that they become."""

from absl import flags

from albert_tf import choices
from albert_tf.cli import flag_groups, lazy, loop_flags, model_flags, text_flags
from albert_tf.errors import UserError

files = lazy.module("albert_tf.files")
finetuning = lazy.module("albert_tf.training.finetuning")
results = lazy.module("albert_tf.training.results")
served = lazy.module("albert_tf.publish.served")

FLAGS = flags.FLAGS
_AT_LEAST_1 = (
    "train_batch_size", "eval_batch_size", "predict_batch_size", "train_step",
    "save_checkpoints_steps", "iterations_per_loop", "steps_per_loop", "num_trials",
    "shuffle_buffer_size",
)  # fmt: skip
_AT_LEAST_0 = (
    "warmup_step", "keep_checkpoint_max", "num_keep_checkpoint", "learning_rate",
    "continuous_eval_timeout",
)  # fmt: skip


def define_flags(
    max_seq_length, learning_rate, save_checkpoints_steps, do_train=False, do_eval=False
):
    """Flags that the fine-tuning scripts share; the arguments are the script's own defaults."""
    _define_run_flags(do_train, do_eval)
    _define_model_flags(max_seq_length)
    _define_training_flags(learning_rate)
    loop_flags.define(save_checkpoints_steps)
    _define_export_flags()
    flag_groups.define_device_flags()
    flag_groups.define_obsolete_flags("master", "num_tpu_cores")


@flag_groups.subject("Model and text")
def _define_model_flags(max_seq_length):
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "JSON file with the model's architecture: albert_config.json, or config.json of the "
        "transformers library.",
    )
    flags.DEFINE_string(
        "spm_model_file", None, "SentencePiece model; empty or unset where --vocab_file is given."
    )
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary, for models without the former.")
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Encoder weights to start from: a prefix, its .index file, a directory, or "
        "model.safetensors of the transformers library. The head starts afresh. Without "
        "--do_train: a fine-tuned model to evaluate or predict with. Not read if --output_dir "
        "holds a run.",
    )
    flags.DEFINE_string(
        "albert_hub_module_handle",
        None,
        "Local directory of an exported module, of TensorFlow 1 or 2, in place of "
        "--albert_config_file, --init_checkpoint, --spm_model_file, --vocab_file and "
        "--do_lower_case.",
    )
    flags.DEFINE_integer("max_seq_length", max_seq_length, "Longest sequence, in pieces.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text, as the released models need.")
    text_flags.define_strip_accents()
    flags.DEFINE_bool("allow_random_init", False, "Train from random weights if none are given.")


@flag_groups.subject("What to do")
def _define_run_flags(do_train, do_eval):
    flags.DEFINE_string("output_dir", None, "Directory for checkpoints and results.")
    flags.DEFINE_bool("do_train", do_train, "Train.")
    flags.DEFINE_bool("do_eval", do_eval, "Evaluate every checkpoint and keep the best.")
    flags.DEFINE_bool("do_predict", False, "Predict the test set with the best checkpoint.")


@flag_groups.subject("Training and evaluation")
def _define_training_flags(learning_rate):
    flags.DEFINE_integer("train_batch_size", 32, "Examples of an update, over all replicas.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples of an evaluation batch.")
    flags.DEFINE_integer("predict_batch_size", 8, "Examples of a prediction batch.")
    flags.DEFINE_integer(
        "shuffle_buffer_size",
        choices.WINDOW,
        "Records that are shuffled together; more, up to all, where a larger file is sorted. 1 "
        "keeps the order.",
    )
    flags.DEFINE_float("learning_rate", learning_rate, "Peak learning rate.")
    flags.DEFINE_enum("optimizer", "adamw", choices.OPTIMIZERS, "Optimizer.")


@flag_groups.subject("Export")
def _define_export_flags():
    flags.DEFINE_string(
        "export_dir",
        None,
        "Where to write the best checkpoint as a SavedModel, in a folder named after the time: ids "
        "in or text in, predictions out. predict.py runs it. Settings of text are the training's.",
    )
    flags.DEFINE_bool(
        "export_text",
        True,
        "Let the SavedModel take text too, which needs tensorflow-text to be loaded; without, it "
        "takes ids alone and tensorflow suffices.",
    )
    flags.DEFINE_bool(
        "export_tflite",
        False,
        "Write TFLite files of the model into --export_dir too: float32, float16 and int8.",
    )


@flag_groups.subject("Training and evaluation")
def define_steps(train_step, warmup_step, keep_flag):
    """Flags of the scripts whose training is counted in updates; they name the last differently."""
    flags.DEFINE_integer("train_step", train_step, "Updates in all; the decay ends there.")
    flags.DEFINE_integer("warmup_step", warmup_step, "Updates of the linear warm-up.")
    flags.DEFINE_integer(
        keep_flag,
        5,
        "Checkpoints to keep of those that were evaluated, beside the best; 0 for all.",
    )


def check():
    """Raises UserError for values of shared flags that make no run, before anything is read."""
    flag_groups.check_not_empty("output_dir", "export_dir")
    wanted = [name for name in ("do_train", "do_eval", "do_predict") if name in FLAGS]
    if not (FLAGS.export_dir or any(FLAGS[name].value for name in wanted)):
        names = [f"--{name}" for name in wanted]
        raise UserError(f"nothing to do: give {', '.join(names)} or --export_dir")
    if FLAGS.export_tflite and not FLAGS.export_dir:
        raise UserError("--export_tflite needs --export_dir")
    if not (FLAGS.export_text or FLAGS.export_dir):
        raise UserError("--export_text=false needs --export_dir")
    for smallest, names in ((1, _AT_LEAST_1), (0, _AT_LEAST_0)):
        flag_groups.check_at_least(smallest, *(name for name in names if name in FLAGS))
    loop_flags.check()
    finetuning.check_strategy(FLAGS.distribution_strategy)


def check_writable(*directories, **record_files):
    """Raises UserError for a place that cannot be written to.

    Args:
        *directories: str, names of flags.
        **record_files: str, path of each file, by the flag that may name it.
    """
    for flag in ("output_dir", "export_dir", *directories):
        if FLAGS[flag].value:
            files.check_writable(FLAGS[flag].value, flag)
    for flag, path in record_files.items():
        files.check_file_writable(path, flag)


def follow_run(predicts_file=False):
    """Has an export of an earlier run follow what that was trained with (D24).

    Args:
        predicts_file: bool, whether a file is predicted that belongs to no data set; that does too.
    """
    if (FLAGS.export_dir or predicts_file) and not FLAGS.do_train:
        model_flags.follow_run(trained_checkpoint())


def trained_checkpoint():
    """The earlier run's: of --output_dir, or else --init_checkpoint; None if there is neither."""
    return results.trained_in(FLAGS.output_dir) or FLAGS.init_checkpoint


def given_checkpoint():
    """A fine-tuned model to use where --output_dir holds none; None in training."""
    return None if FLAGS.do_train else FLAGS.init_checkpoint


def read_options(train_steps, warmup_steps, keep_checkpoint_max, **others):
    """What the flags ask for.

    Args:
        train_steps: int, updates to train for, or the step that ends a wait for checkpoints.
        warmup_steps: int.
        keep_checkpoint_max: int or None for all.
        **others: further values of `finetuning.Options`, or others than those of the flags.

    Returns:
        finetuning.Options.
    """
    recipe = None
    if FLAGS.do_train:
        loop_flags.warn_of_warmup(warmup_steps, train_steps)
        recipe = flag_groups.values_of(
            finetuning.Recipe,
            train_steps=train_steps,
            warmup_steps=warmup_steps,
            batch_size=FLAGS.train_batch_size,
            constants=flag_groups.values_of(choices.OptimizerConstants),
        )
    values = {
        "recipe": recipe,
        "loop": loop_flags.read_settings(train_steps, keep_checkpoint_max),
        "eval_timeout": FLAGS.continuous_eval_timeout,
        "init_checkpoint": FLAGS.init_checkpoint,
        "num_trials": 1,
        "ensemble": (),
        "record": None,
        "export": _export_settings() if FLAGS.export_dir else None,
    }
    if FLAGS.do_train:
        model_flags.warn_of_vocabulary()
        values["init_checkpoint"] = model_flags.init_checkpoint()
        values["record"] = model_flags.record_of_flags()
    return flag_groups.values_of(finetuning.Options, **values | others)


def _export_settings():
    return served.Settings(
        directory=FLAGS.export_dir,
        vocabulary=model_flags.vocabulary_arguments(),
        vocabulary_file=model_flags.vocabulary_file(),
        max_seq_length=FLAGS.max_seq_length,
        with_text=FLAGS.export_text,
        with_tflite=FLAGS.export_tflite,
    )
