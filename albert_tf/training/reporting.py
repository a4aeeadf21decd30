# SPDX-License-Identifier: Apache-2.0
"""What becomes of the figures of training steps: checks, the progress line, the curves."""

import os
import time

import numpy as np
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.training import steps

# Loss scaling halves the scale at each step that overflows: from 2 ** 15 down to 1, and then some.
_MOST_OVERFLOWS = 20


class NonFiniteError(UserError):
    """The loss, a gradient or a variable is no longer a number."""


class Reporter:
    """Takes the rows of steps (`steps.TrainStep`), reads them now and then, checks and shows them.

    Args:
        names: sequence of str, the task's figures.
        progress: progress_line.Progress.
        scales_loss: bool, whether gradients may overflow now and then.
        flops: int or None, floating-point operations of an update on one sequence.
        peak_tflops: float or None, what the devices could do in 10^12 operations per second.
        watch: callable or None, called with the number of each step and its loss.
    """

    def __init__(self, names, progress, scales_loss, *, flops=None, peak_tflops=None, watch=None):
        self._names, self._progress = names, progress
        self._scales_loss, self._watch = scales_loss, watch
        self._flops, self._peak_tflops = flops, peak_tflops
        self._overflows = 0  # one after another
        self._unread, self._rows = [], np.zeros([0, 2 * len(names) + 3], np.float32)
        self.start_clock()

    def start_clock(self):
        """To be called before updates that follow on something else, such as an evaluation."""
        self._start = time.time()
        self._progress.start_clock()

    def add(self, rows, last_step):
        """Takes the rows of one call of a step, which may still be computed."""
        self._unread.append((rows, last_step))
        self._progress.advance(len(rows))

    def read(self):
        """Reads the rows that came, and shows the figures since the last point of the curves.

        Returns:
            dict of name -> number, these figures.

        Raises:
            NonFiniteError: a loss or gradient is not finite, or every gradient overflows.
        """
        for rows, last_step in self._unread:
            rows = rows.numpy()
            for step, row in enumerate(rows, start=last_step - len(rows) + 1):
                self._check(step, *row[-3:])
            self._rows = np.concatenate([self._rows, rows])
        self._unread = []
        figures = self._figures()
        self._progress.show(figures | self._speed(self._progress.sequences_per_second()))
        return figures

    def _check(self, step, loss, norm, scale):
        # Loss scaling meets infinite gradients by design, and skips them.
        if not np.isfinite(loss) or not (np.isfinite(norm) or self._scales_loss):
            raise NonFiniteError(f"the loss or a gradient is not finite at step {step}")
        self._overflows = 0 if np.isfinite(norm) else self._overflows + 1
        if self._overflows > _MOST_OVERFLOWS:
            raise NonFiniteError(
                f"the gradients of the last {self._overflows} steps, up to step {step}, overflow "
                f"in float16, whatever the loss scale (now {scale:g}): train with --dtype=bf16 or "
                "fp32"
            )
        if self._watch:
            self._watch(step, loss)

    def _figures(self):
        loss, norms, scale = self._rows[:, -3], self._rows[:, -2], self._rows[-1, -1]
        finite = norms[np.isfinite(norms)]
        figures = steps.means(self._rows, self._names)
        figures["loss"] = loss.mean(dtype=np.float64)
        figures["gradient_norm"] = finite.mean(dtype=np.float64) if len(finite) else 0.0
        return figures | ({"loss_scale": scale} if self._scales_loss else {})

    def point(self):
        """Figures of the steps since the last point: dict of name -> float."""
        figures = {name: float(value) for name, value in self.read().items()}
        count, seconds = len(self._rows), time.time() - self._start
        self._rows, self._start = self._rows[:0], time.time()
        speed = count * self._progress.batch_size / seconds
        return figures | {"sequences_per_second": speed} | self._speed(speed)

    def _speed(self, sequences_per_second):
        """What the model computes, and its share of what the devices could."""
        if not self._flops:
            return {}
        tflops = self._flops * sequences_per_second / 1e12
        speed = {"model_tflops_per_second": tflops}
        if self._peak_tflops:
            speed["model_flops_utilization"] = tflops / self._peak_tflops
        return speed


class Curves:
    """TensorBoard's files of a run, in `train` and `eval` of its directory.

    Args:
        directory: str, the run's; None for a worker that writes none.
    """

    def __init__(self, directory):
        self._directory, self._writers = directory, {}

    def write(self, kind, step, figures):
        """Adds a point to each curve.

        Args:
            kind: str, `train` or `eval`.
            step: int.
            figures: dict of name -> number.
        """
        if self._directory is None:
            return
        if kind not in self._writers:
            path = os.path.join(self._directory, kind)
            self._writers[kind] = tf.summary.create_file_writer(path)
        with self._writers[kind].as_default():
            for name, value in figures.items():
                tf.summary.scalar(name, value, step=step)
        self._writers[kind].flush()
