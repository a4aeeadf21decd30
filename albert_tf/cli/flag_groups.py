# SPDX-License-Identifier: Apache-2.0
"""Flags that several scripts share, and the checks of their values."""

import dataclasses
import math
import sys

from absl import flags

from albert_tf.errors import UserError
from albert_tf.model import optimization
from albert_tf.training import devices, loop, profile

FLAGS = flags.FLAGS

INT32_MAX = 2**31 - 1  # what TensorFlow's loops count in

# The original's flags without any meaning left (D20): name -> (default, what to know instead).
_OBSOLETE = {
    "master": (None, "--tpu_name takes a TPU's grpc address"),
    "num_tpu_cores": (8, "all cores of the TPU are used"),
    "predict_feature_left_file": (None, "what it held is computed in every run"),
    "use_einsum": (True, "there is one implementation, with the same results"),
}


def define_obsolete_flags(*names):
    """Defines flags that are accepted and do nothing; `note_obsolete_flags` says so."""
    for name in names:
        default, instead = _OBSOLETE[name]
        text = f"Accepted and without effect: {instead}."
        if isinstance(default, bool):
            flags.DEFINE_bool(name, default, text)
        elif isinstance(default, int):
            flags.DEFINE_integer(name, default, text)
        else:
            flags.DEFINE_string(name, default, text)


def note_obsolete_flags():
    """Prints a line for each flag without effect that the user gave."""
    for name, (_, instead) in _OBSOLETE.items():
        if name in FLAGS and FLAGS[name].present:
            print(f"--{name} has no effect any more: {instead}.")


def define_device_flags():
    """Flags on devices, precision and chance, with the Model Garden's names."""
    flags.DEFINE_enum(
        "distribution_strategy",
        "one_device",
        devices.STRATEGIES,
        "Where to train: one_device (a GPU if there is one), mirrored (all GPUs of this machine), "
        "multi_worker_mirrored (machines named in TF_CONFIG), tpu, or off.",
    )
    flags.DEFINE_integer("num_gpus", None, "GPUs to use; all by default.")
    flags.DEFINE_bool("use_tpu", False, "Same as --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Cloud TPU name or grpc address; none for a local TPU.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU, if it cannot be found out.")
    flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU, if it cannot be found out.")
    flags.DEFINE_enum(
        "dtype",
        "fp32",
        sorted(devices.PRECISIONS),
        "Computation type; variables stay in fp32. bf16 for TPUs and new CPUs, fp16 for GPUs.",
    )
    flags.DEFINE_bool("enable_xla", False, "Compile with XLA (GPU; a TPU always does).")
    flags.DEFINE_integer(
        "seed",
        None,
        "Fixes weights, dropout and the order of records. By default the seed of the run that is "
        "resumed, or a new one.",
    )
    define_obsolete_flags("master", "num_tpu_cores")


def values_of(kind, **others):
    """A dataclass with the values of the flags that are named as its fields.

    Args:
        kind: the dataclass.
        **others: values of fields that have no flag of their name.

    Raises:
        UserError: the dataclass refuses a value.
    """
    names = {field.name for field in dataclasses.fields(kind)} - others.keys()
    return kind(**{name: FLAGS[name].value for name in names}, **others)


def define_loop_flags(save_checkpoints_steps):
    """Flags on checkpoints and curves; the argument is the script's own default."""
    flags.DEFINE_integer(
        "save_checkpoints_steps", save_checkpoints_steps, "Updates between checkpoints."
    )
    flags.DEFINE_integer(
        "iterations_per_loop", 1000, "Updates between two points of the TensorBoard curves."
    )
    flags.DEFINE_integer(
        "steps_per_loop", None, "The Model Garden's name of --iterations_per_loop."
    )
    flags.DEFINE_float(
        "continuous_eval_timeout",
        0.0,
        "Without --do_train: seconds to wait for a newer checkpoint of a run that goes on "
        "elsewhere.",
    )
    flags.DEFINE_bool(
        "allow_changes_on_resume",
        False,
        "Resume a run even if optimizer, architecture or batch size are not those of its record, "
        "run.json, any more.",
    )
    flags.DEFINE_float(
        "stop_on_divergence",
        0.0,
        "End the training when the loss exceeds this multiple of its running mean, such as 2; 0 "
        "for never.",
    )
    flags.DEFINE_string(
        "profile_steps",
        None,
        "Updates to profile for TensorBoard, first:last, such as 100:110; none by default.",
    )


def check_training_flags():
    """Raises UserError for values of the flags on loop and optimizer that make no run."""
    values_of(optimization.Constants)
    if not 0 < FLAGS.gradient_clip_norm < math.inf:
        raise UserError(
            f"--gradient_clip_norm must be finite and above 0. Received: {FLAGS.gradient_clip_norm}"
        )
    profile.parse_steps(FLAGS.profile_steps)
    if not (FLAGS.stop_on_divergence == 0 or 1 < FLAGS.stop_on_divergence < math.inf):
        raise UserError(
            "--stop_on_divergence must be finite and above 1, or 0 for never. Received: "
            f"{FLAGS.stop_on_divergence}"
        )


def loop_settings(train_steps, keep_checkpoint_max):
    """What these flags ask for: training.Settings.

    Args:
        train_steps: int, updates to train for.
        keep_checkpoint_max: int or None for all.
    """
    return loop.Settings(
        output_dir=FLAGS.output_dir,
        train_steps=train_steps,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        steps_per_loop=FLAGS.steps_per_loop or FLAGS.iterations_per_loop,
        keep_checkpoint_max=keep_checkpoint_max,
    )


def define_optimizer_flags():
    """Flags on what the original fixes of its optimizers, with the Model Garden's names."""
    original = optimization.ORIGINAL
    for name, text in (
        ("weight_decay_rate", "Weight decay of matrices, multiplied by the learning rate."),
        ("beta_1", "Decay rate of the mean of the gradients."),
        ("beta_2", "Decay rate of the mean of their squares."),
        ("epsilon", "Added to the root of the mean of squares."),
    ):
        flags.DEFINE_float(name, getattr(original, name), text)
    flags.DEFINE_float(
        "gradient_clip_norm", 1.0, "Gradients of a batch are scaled down to this joint norm."
    )


def warn_of_warmup(warmup_steps, train_steps):
    """Prints a warning if the warm-up is as long as the training."""
    if warmup_steps >= train_steps:
        print(
            f"Warning: the warm-up of {warmup_steps} updates does not end before the training, of "
            f"{train_steps}: --learning_rate is never reached."
        )


def check_at_least(smallest, *names):
    """Raises UserError for a flag with a smaller value, infinity or beyond int32; None is none."""
    for name in names:
        value = FLAGS[name].value
        if value is not None and not value >= smallest:  # nan is neither
            raise UserError(f"--{name} must be at least {smallest}. Received: {value}")
        largest = INT32_MAX if isinstance(value, int) else sys.float_info.max
        if value is not None and value > largest:
            raise UserError(f"--{name} must be at most {largest}. Received: {value}")


def check_between(smallest, largest, *names):
    """Raises UserError for a flag whose value lies outside the two."""
    for name in names:
        if not smallest <= FLAGS[name].value <= largest:  # nan is not between
            raise UserError(
                f"--{name} must lie between {smallest} and {largest}. Received: {FLAGS[name].value}"
            )


def check_not_empty(*names):
    """Raises UserError for a flag of a path that is given and empty."""
    for name in names:
        if FLAGS[name].value == "":
            raise UserError(f"--{name} is empty: give a path, such as ./{name}")
