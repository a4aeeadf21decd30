# SPDX-License-Identifier: Apache-2.0
"""Metrics of steps and evaluations: checks, the progress line and the curves of a run."""

import os
import shutil
import sys
import threading
import time

import numpy as np
import tensorflow as tf

from albert_tf import files, progress
from albert_tf.checkpoints import run_directory
from albert_tf.errors import UserError
from albert_tf.training import steps

CHECK_SECONDS = 5.0  # how often metrics are fetched from the device between points of the curves
_MOST_STEPS = 1000  # between two fetches
# Loss scaling halves the scale at each overflow: 15 halvings from 2 ** 15 to 1, plus a margin.
_MOST_OVERFLOWS = 20


class NonFiniteError(UserError):
    """The loss, a gradient or a variable is no longer a number."""


class Metrics:
    """Collects the rows of steps (`steps.TrainStep`), checks them and writes their means.

    Args:
        names: sequence of str, the task's metrics.
        writers: list of objects with `write(kind, step, metrics)`, as `TensorBoard` and
            `history.History` have it: the curves.
        scales_loss: bool, whether gradients may overflow now and then.

    Attributes:
        writers: list, to which writers may be added later.
        flops: int or None, floating-point operations of a step on one sequence, if known.
    """

    def __init__(self, names, writers, scales_loss=False):
        self.writers, self._names, self._scales_loss = writers, names, scales_loss
        self.flops = None
        self._overflows = 0  # consecutive
        self._unread, self._rows = [], np.zeros([0, 2 * len(names) + 3], np.float32)

    # --- Training ---

    def start(self, line, batch_size):
        """Prepares for training; call it once before.

        Args:
            line: Line.
            batch_size: int, sequences of a step.
        """
        self._line, self._batch_size = line, batch_size
        self.start_clock()

    def start_clock(self):
        """Restarts the clock; call it before steps that follow, for example, an evaluation."""
        self._start = self._read_at = time.monotonic()

    def add(self, rows, last_step):
        """Adds the rows of one call of a step; the device may still be computing them."""
        self._unread.append((rows, last_step))
        self._line.advance(len(rows))

    def is_due(self):
        """Whether it is time to `show` metrics."""
        return time.monotonic() - self._read_at >= CHECK_SECONDS

    def steps_in_check(self):
        """Estimates how many steps take CHECK_SECONDS (int), from those since the last reading."""
        seconds = max(time.monotonic() - self._read_at, 1e-6)
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
        self._unread, self._read_at = [], time.monotonic()
        means = self._means()
        self._line.show(means)
        return means

    def point(self, step, **more):
        """Adds a point to the curves: the means of the steps since the last one.

        Args:
            step: int, steps made.
            **more: float, further metrics.
        """
        self._write("train", step, self.show() | more)
        self._rows, self._start = self._rows[:0], time.monotonic()

    def _check(self, step, loss, norm, scale):
        # Infinite gradients are expected under loss scaling, which skips them.
        if not np.isfinite(loss) or not (np.isfinite(norm) or self._scales_loss):
            raise NonFiniteError(f"the loss or a gradient is not finite at step {step}")
        self._overflows = 0 if np.isfinite(norm) else self._overflows + 1
        if self._overflows > _MOST_OVERFLOWS:
            raise NonFiniteError(
                f"the gradients of {self._overflows} steps, up to {step}, overflow in float16: "
                "train with --dtype=bf16 or fp32"
            )

    def _means(self):
        loss, norms, scale = self._rows[:, -3], self._rows[:, -2], self._rows[-1, -1]
        finite = norms[np.isfinite(norms)]
        means = _plain_names(steps.means(self._rows, self._names))
        means["loss"] = loss.mean(dtype=np.float64)  # the minimized loss, each batch counted alike
        means["gradient_norm"] = finite.mean(dtype=np.float64) if len(finite) else 0.0
        if self._scales_loss:
            means["loss_scale"] = scale
        speed = len(self._rows) * self._batch_size / max(time.monotonic() - self._start, 1e-6)
        means["sequences_per_second"] = speed
        if self.flops:
            means["model_tflops_per_second"] = self.flops * speed / 1e12
        return {name: float(value) for name, value in means.items()}

    # --- Evaluation ---

    def evaluation(self, step, metrics, shown, best):
        """Adds an evaluation to the curves, and prints its line.

        Args:
            step: int, steps made.
            metrics: dict of name -> number.
            shown: iterable of str, the metrics to print.
            best: bool, whether the checkpoint is kept as the best.
        """
        self._write("eval", step, _plain_names(metrics))
        text = ", ".join(f"{name} {metrics[name]:.4f}" for name in shown)
        ending = f" (kept as {run_directory.BEST})" if best else ""
        progress.say(f"Evaluation at step {step}: {text}{ending}")

    def _write(self, kind, step, metrics):
        for writer in self.writers:
            writer.write(kind, step, metrics)


def _plain_names(metrics):
    """Metrics without the prefix `eval_`, so that training and evaluation share a curve.

    `eval_loss`, a mean over examples, replaces the original's `loss`, a mean over batches.
    """
    plain = {name.removeprefix("eval_"): value for name, value in metrics.items()}
    return plain | {n.removeprefix("eval_"): v for n, v in metrics.items() if n.startswith("eval_")}


class TensorBoard:
    """Writes the TensorBoard files of a run, in `train` and `eval` of its directory.

    Args:
        directory: str, the run's.
    """

    def __init__(self, directory):
        self._directory, self._writers = directory, {}

    def write(self, kind, step, metrics):
        """Adds a point to each curve.

        Args:
            kind: str, `train` or `eval`.
            step: int.
            metrics: dict of name -> number.
        """
        if kind not in self._writers:
            path = os.path.join(self._directory, kind)
            files.make_directory(path)  # names a file that stands there
            self._writers[kind] = tf.summary.create_file_writer(path)
        with self._writers[kind].as_default():
            for name, value in metrics.items():
                tf.summary.scalar(name, value, step=step)
        self._writers[kind].flush()


# --- The progress line --------------------------------------------------------------------------

GRAPH_SECONDS = 5.0  # without a step, after which a line explains the wait
_FORMAT = "{n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix} {bar}"
_OTHER_COLUMNS = len("/ 00:00:00<00:00:00,   ")  # of _FORMAT, without metrics and numbers of steps
_SHORT = {"masked_lm": "mlm", "sentence_order": "sop", "_accuracy": "", "sequences/s": "seq/s"}


def shown_metrics(metrics, columns=None):
    """The metrics of a progress line, the most important first.

    Args:
        metrics: dict of name -> number, `sequences_per_second` among them; losses, accuracies and
            speed are shown.
        columns: int or None, width available in a terminal: names are shortened to fit, and the
            parts of the loss are left out first.

    Returns:
        str.
    """
    losses, accuracies = [], []
    for name, value in metrics.items():
        if "accuracy" in name:
            accuracies.append(f"{name} {value:.1%}")
        elif "loss" in name and name != "loss_scale":
            losses.insert(0 if name == "loss" else len(losses), f"{name} {value:.3f}")
    speed = [f"{metrics['sequences_per_second']:.1f} sequences/s"]
    if "model_tflops_per_second" in metrics:
        speed.append(f"{metrics['model_tflops_per_second']:.3f} TFLOP/s")
    shown = [*losses[:1], *accuracies, *speed, *losses[1:]]
    if columns is not None:
        for long, brief in _SHORT.items():
            shown = [text.replace(long, brief) for text in shown]
        while len(shown) > 1 and len(", ".join(shown)) > columns:
            shown.pop()
    return ", ".join(shown)


class Line:
    """The progress line of a training: redrawn in a terminal, repeated in a log.

    Args:
        first_step: int, steps made before.
        last_step: int.
        visible: bool, whether this process is the one that shows it.
    """

    def __init__(self, first_step, last_step, visible=True):
        self._is_terminal = sys.stderr.isatty()
        self._other_columns = _OTHER_COLUMNS + 2 * len(str(last_step))
        self._bar = visible and progress.bar(
            "training", last_step, " steps", initial=first_step, bar_format=_FORMAT
        )
        self._first_step = threading.Timer(
            GRAPH_SECONDS, progress.say, ["Tracing the training step; only the first step is slow."]
        )
        self._first_step.daemon = True
        if visible:
            self._first_step.start()

    def advance(self, steps):
        """Adds steps that were made."""
        self._first_step.cancel()
        if self._bar:
            self._bar.update(steps)

    def show(self, metrics):
        """Shows those metrics that have a place in the line."""
        if self._bar:
            room = shutil.get_terminal_size().columns - self._other_columns
            shown = shown_metrics(metrics, room if self._is_terminal else None)
            self._bar.set_postfix_str(shown, refresh=False)

    def close(self):
        """Ends the line."""
        self._first_step.cancel()
        if self._bar:
            self._bar.close()
