# SPDX-License-Identifier: Apache-2.0
"""Flags of the training loop and the optimizer, and the values they become."""

import math

from absl import flags

from albert_tf.choices import ORIGINAL_CONSTANTS, OptimizerConstants
from albert_tf.cli import flag_groups, lazy
from albert_tf.cli.flag_groups import check_at_least, values_of
from albert_tf.errors import UserError

loop = lazy.module("albert_tf.training.loop")
profile = lazy.module("albert_tf.training.profile")

FLAGS = flags.FLAGS


PAPER_BATCH = 4096  # what the default learning rate of pre-training belongs to, section 4.1


def define(save_checkpoints_steps, counts_operations=False):
    """Flags on optimizer, memory, checkpoints and curves.

    Args:
        save_checkpoints_steps: int, the script's own default.
        counts_operations: bool, whether the script knows the operations of an update.
    """
    _define_optimizer_flags()
    _define_checkpoint_flags(save_checkpoints_steps)
    _define_memory_flags(counts_operations)


@flag_groups.subject("Checkpoints and curves")
def _define_checkpoint_flags(save_checkpoints_steps):
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
        "save_moments_for_best",
        False,
        "Keep the moments of the optimizer in model.ckpt-best, which is three times as large then.",
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


@flag_groups.subject("Memory and speed")
def _define_memory_flags(counts_operations):
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Parts in which a device computes its share of a batch, one after another. Less memory for "
        "the same batch.",
    )
    flags.DEFINE_bool(
        "recompute",
        False,
        "Compute the activations of each block again in the backward pass: less memory, more time.",
    )
    flags.DEFINE_string(
        "profile_steps",
        None,
        "Updates to profile for TensorBoard, first:last, such as 100:110; none by default.",
    )
    if counts_operations:
        flags.DEFINE_float(
            "peak_tflops",
            None,
            "What the devices could compute together, in 10^12 operations per second, to show "
            "which share of it the products of the model take.",
            lower_bound=0,
        )


@flag_groups.subject("Optimizer")
def _define_optimizer_flags():
    # What the original fixes of its optimizers, with the Model Garden's names.
    for name, text in (
        ("weight_decay_rate", "Weight decay of matrices, multiplied by the learning rate."),
        ("beta_1", "Decay rate of the mean of the gradients."),
        ("beta_2", "Decay rate of the mean of their squares."),
        ("epsilon", "Added to the root of the mean of squares."),
    ):
        flags.DEFINE_float(name, getattr(ORIGINAL_CONSTANTS, name), text)
    flags.DEFINE_float(
        "gradient_clip_norm", 1.0, "Gradients of a batch are scaled down to this joint norm."
    )


def check():
    """Raises UserError for values of the flags on loop and optimizer that make no run."""
    values_of(OptimizerConstants)
    if not 0 < FLAGS.gradient_clip_norm < math.inf:
        raise UserError(
            f"--gradient_clip_norm must be finite and above 0. Received: {FLAGS.gradient_clip_norm}"
        )
    profile.parse_steps(FLAGS.profile_steps)
    check_at_least(1, "gradient_accumulation_steps")
    if not (FLAGS.stop_on_divergence == 0 or 1 < FLAGS.stop_on_divergence < math.inf):
        raise UserError(
            "--stop_on_divergence must be finite and above 1, or 0 for never. Received: "
            f"{FLAGS.stop_on_divergence}"
        )


def read_settings(train_steps, keep_checkpoint_max):
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
        save_moments_for_best=FLAGS.save_moments_for_best,
        gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
        recompute=FLAGS.recompute,
        gradient_clip_norm=FLAGS.gradient_clip_norm,
        enable_xla=FLAGS.enable_xla,
        stop_on_divergence=FLAGS.stop_on_divergence,
        profile_steps=profile.parse_steps(FLAGS.profile_steps),
        peak_tflops=FLAGS["peak_tflops"].value if "peak_tflops" in FLAGS else None,
    )


def warn_of_warmup(warmup_steps, train_steps):
    """Prints a warning if the warm-up is as long as the training."""
    if warmup_steps >= train_steps:
        print(
            f"Warning: the warm-up of {warmup_steps} updates does not end before the training, of "
            f"{train_steps}: --learning_rate is never reached."
        )


def warn_of_batch_size():
    """Prints a warning if the default learning rate of pre-training meets a smaller batch."""
    if FLAGS.train_batch_size < PAPER_BATCH and FLAGS["learning_rate"].using_default_value:
        scaled = FLAGS.learning_rate * (FLAGS.train_batch_size / PAPER_BATCH) ** 0.5
        print(
            f"Warning: --learning_rate={FLAGS.learning_rate} is meant for batches of "
            f"{PAPER_BATCH}; for --train_batch_size={FLAGS.train_batch_size}, its square root rule "
            f"gives {scaled:.2g}."
        )
