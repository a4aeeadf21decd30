# SPDX-License-Identifier: Apache-2.0
"""Figures of steps and evaluations, for the progress line and the curves of a run."""

import os
import time

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import run_directory
from albert_tf.errors import UserError
from albert_tf.training import progress_line, steps

CHECK_SECONDS = 5.0  # how often figures are fetched from the device between points of the curves
_MOST_STEPS = 1000  # between two fetches
# Loss scaling halves the scale at each overflow: 15 halvings from 2 ** 15 to 1, plus a margin.
_MOST_OVERFLOWS = 20


class NonFiniteError(UserError):
    """The loss, a gradient or a variable is no longer a number."""


class Figures:
    """Collects the rows of steps (`steps.TrainStep`), checks them and writes their means.

    Args:
        names: sequence of str, the task's figures.
        writers: list of objects with `write(kind, step, figures)`, as `TensorBoard` and
            `history.History` have it: the curves. Writers may be added later.
        scales_loss: bool, whether gradients may overflow now and then.
        flops: int or None, floating-point operations of an update on one sequence.
        peak_tflops: float or None, what the devices could do in 10^12 operations per second.
        watch: callable or None, called with the number of each step and its loss.
    """

    def __init__(
        self, names, writers, *, scales_loss=False, flops=None, peak_tflops=None, watch=None
    ):
        self.writers = writers
        self._names, self._scales_loss, self._watch = names, scales_loss, watch
        self._flops, self._peak_tflops = flops, peak_tflops
        self._overflows = 0  # consecutive
        self._unread, self._rows = [], np.zeros([0, 2 * len(names) + 3], np.float32)

    # --- Training ---

    def start(self, line, batch_size):
        """Prepares for training; call it once before.

        Args:
            line: progress_line.Line.
            batch_size: int, sequences of an update.
        """
        self._line, self._batch_size = line, batch_size
        self.start_clock()

    def start_clock(self):
        """Restarts the clock; call it before updates that follow, for example, an evaluation."""
        self._start = self._read_at = time.time()

    def add(self, rows, last_step):
        """Adds the rows of one call of a step; the device may still be computing them."""
        self._unread.append((rows, last_step))
        self._line.advance(len(rows))

    def is_due(self):
        """Whether it is time to `show` figures."""
        return time.time() - self._read_at >= CHECK_SECONDS

    def steps_in_check(self):
        """Estimates how many steps take CHECK_SECONDS (int), from those since the last reading."""
        seconds = max(time.time() - self._read_at, 1e-6)
        unread = sum(len(rows) for rows, _ in self._unread)
        return int(min(CHECK_SECONDS * unread / seconds, _MOST_STEPS))

    def show(self):
        """Shows the means since the last point of the curves in the progress line.

        Returns:
            dict of name -> float, the means.

        Raises:
            NonFiniteError: a loss or gradient is not finite, or every gradient overflows.
        """
        for rows, last_step in self._unread:
            rows = rows.numpy()
            for step, row in enumerate(rows, start=last_step - len(rows) + 1):
                self._check(step, *row[-3:])
            self._rows = np.concatenate([self._rows, rows])
        self._unread, self._read_at = [], time.time()
        means = self._means()
        self._line.show(means)
        return means

    def point(self, step, **more):
        """Adds a point to the curves: the means of the steps since the last one.

        Args:
            step: int, updates made.
            **more: float, further figures.
        """
        self._write("train", step, self.show() | more)
        self._rows, self._start = self._rows[:0], time.time()

    def _check(self, step, loss, norm, scale):
        # Infinite gradients are expected under loss scaling, which skips them.
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

    def _means(self):
        loss, norms, scale = self._rows[:, -3], self._rows[:, -2], self._rows[-1, -1]
        finite = norms[np.isfinite(norms)]
        means = _plain_names(steps.means(self._rows, self._names))
        means["loss"] = loss.mean(dtype=np.float64)  # the minimized loss, each batch counted alike
        means["gradient_norm"] = finite.mean(dtype=np.float64) if len(finite) else 0.0
        if self._scales_loss:
            means["loss_scale"] = scale
        speed = len(self._rows) * self._batch_size / max(time.time() - self._start, 1e-6)
        means["sequences_per_second"] = speed
        if self._flops:
            means["model_tflops_per_second"] = self._flops * speed / 1e12
            if self._peak_tflops:
                share = means["model_tflops_per_second"] / self._peak_tflops
                means["model_flops_utilization"] = share
        return {name: float(value) for name, value in means.items()}

    # --- Evaluation ---

    def evaluation(self, step, figures, shown, best):
        """Adds an evaluation to the curves, and prints its line.

        Args:
            step: int, updates made.
            figures: dict of name -> number.
            shown: iterable of str, the figures to print.
            best: bool, whether the checkpoint is kept as the best.
        """
        self._write("eval", step, _plain_names(figures))
        text = ", ".join(f"{name} {figures[name]:.4f}" for name in shown)
        ending = f" (kept as {run_directory.BEST})" if best else ""
        progress_line.say(f"Evaluation at step {step}: {text}{ending}")

    def _write(self, kind, step, figures):
        for writer in self.writers:
            writer.write(kind, step, figures)


def _plain_names(figures):
    """Figures without the prefix `eval_`, so that training and evaluation share a curve.

    `eval_loss`, a mean over examples, replaces the original's `loss`, a mean over batches.
    """
    plain = {name.removeprefix("eval_"): value for name, value in figures.items()}
    return plain | {n.removeprefix("eval_"): v for n, v in figures.items() if n.startswith("eval_")}


class TensorBoard:
    """Writes the TensorBoard files of a run, in `train` and `eval` of its directory.

    Args:
        directory: str, the run's.
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
        if kind not in self._writers:
            path = os.path.join(self._directory, kind)
            self._writers[kind] = tf.summary.create_file_writer(path)
        with self._writers[kind].as_default():
            for name, value in figures.items():
                tf.summary.scalar(name, value, step=step)
        self._writers[kind].flush()
