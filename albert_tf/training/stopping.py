# SPDX-License-Identifier: Apache-2.0
"""Ending a run between two steps: on a signal, and at the same step on all workers."""

import contextlib
import errno
import os
import threading

import tensorflow as tf

from albert_tf.errors import UserError, handling_signals, is_interrupt, one_line
from albert_tf.training import devices

# Errors of writing a file, for which TensorFlow raises the same type as for a lack of memory.
_OF_FILES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
# Raised in a worker when another one ended or cannot be reached.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class Stops:
    """Decides when to read metrics and whether to stop, on a signal to this process or another.

    A single process goes by its clock. Several workers have to sync at the same step, since none
    can go on while another has stopped: at each sync, they agree on the step of the next one.

    Args:
        strategy: tf.distribute.Strategy.
        metrics: metrics.Metrics.

    Attributes:
        is_over: bool, whether to stop.
    """

    def __init__(self, strategy, metrics):
        self._strategy, self._metrics = strategy, metrics
        self._workers = devices.num_workers(strategy)
        self._steps_left = 1
        self._asked = self._interrupts = self.is_over = False

    @contextlib.contextmanager
    def noted(self):
        """Context that notes the first signal instead of being interrupted; a second interrupts."""
        if threading.current_thread() is not threading.main_thread():  # it gets no signals
            yield
            return
        with handling_signals(self._note):
            yield

    def _note(self, *_):
        was_asked, self._asked = self._asked, True
        if was_asked or self._interrupts:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def interruptible(self):
        """Context within `noted` that a signal interrupts, also one that came before it.

        Several workers have to end at the same step, so none of them is interrupted.
        """
        if self._workers > 1:
            yield
            return
        self._interrupts = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            yield
        except RuntimeError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise
        finally:
            self._interrupts = False

    def is_due(self):
        """Whether to read the metrics now, after a step; also sets `is_over`."""
        if self._workers == 1:
            self.is_over = self._asked
            return self.is_over or self._metrics.is_due()
        self._steps_left -= 1
        if self._steps_left > 0:
            return False
        # Each proposes a number of steps by its own clock. Sums of integers are the same for all.
        steps, asked = devices.sum_over_workers(
            self._strategy, [self._metrics.steps_in_check(), int(self._asked)]
        )
        self.is_over = asked > 0
        self._steps_left = max(steps // self._workers, 1)
        return True


@contextlib.contextmanager
def naming_the_cause(strategy, output_dir):
    """Context that turns a lack of memory, disk space or a worker into a UserError.

    Args:
        strategy: tf.distribute.Strategy.
        output_dir: str, the run's.

    Raises:
        UserError: memory ran out, a file could not be written, or another worker is gone.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        if any(os.strerror(number) in str(error) for number in _OF_FILES):
            raise UserError(
                f"cannot write to --output_dir={output_dir} ({one_line(error)}): make room there"
            ) from error
        raise UserError(
            f"out of memory ({one_line(error)}): give a smaller batch. A training needs less with "
            "--dtype=bf16, --gradient_accumulation_steps or --recompute"
        ) from error
    except _LOST as error:
        if devices.num_workers(strategy) == 1:
            raise
        raise UserError(
            f"another worker ended or cannot be reached ({type(error).__name__}): see its output, "
            f"and start all workers again. They resume from the newest checkpoint in {output_dir}"
        ) from error
