# SPDX-License-Identifier: Apache-2.0
"""Settings of the training loop from flags, and warnings about them."""

from absl import flags

FLAGS = flags.FLAGS


POINTS = 100  # least number of points of a curve if the interval is not given
PAPER_BATCH = 4096  # batch size for the default learning rate, section 4.1 of the paper


def curve_steps(train_steps):
    """Number of updates between two points of the curves.

    Args:
        train_steps: int, updates to train for.
    """
    interval = FLAGS.iterations_per_loop
    if FLAGS["iterations_per_loop"].using_default_value:
        interval = min(max(train_steps // POINTS, 1), interval)
    return FLAGS.steps_per_loop or interval


def warn_of_warmup(warmup_steps, train_steps):
    """Prints a warning if the warm-up is as long as the training."""
    if warmup_steps >= train_steps:
        print(
            f"Warning: the warm-up of {warmup_steps} updates does not end before the training, of "
            f"{train_steps}: --learning_rate is never reached."
        )


def warn_of_batch_size():
    """Prints a warning if the default learning rate meets a batch smaller than PAPER_BATCH."""
    if FLAGS.train_batch_size < PAPER_BATCH and FLAGS["learning_rate"].using_default_value:
        scaled = FLAGS.learning_rate * (FLAGS.train_batch_size / PAPER_BATCH) ** 0.5
        print(
            f"Warning: --learning_rate={FLAGS.learning_rate} is meant for batches of "
            f"{PAPER_BATCH}; for --train_batch_size={FLAGS.train_batch_size}, its square root rule "
            f"gives {scaled:.2g}."
        )
