# SPDX-License-Identifier: Apache-2.0
"""The progress line of training, and lines above it."""

import shutil
import sys
import threading
import time

from tqdm import tqdm

from albert_tf import progress

CHECK_SECONDS = 5.0  # how often figures are fetched from the device within a loop
GRAPH_SECONDS = 5.0  # without a step, after which a line says what is being done
_MOST_STEPS = 1000  # between two of them
_FORMAT = "{n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix} {bar}"
_BESIDE_FIGURES = len("/ 00:00:00<00:00:00,   ")  # columns of _FORMAT; numbers of steps come to it
_SHORT = {"masked_lm": "mlm", "sentence_order": "sop"}
_UNITS = {"model_tflops_per_second": "TFLOP/s", "model_flops_utilization": "of peak"}


def say(text):
    """Prints a line above the progress line."""
    sys.stderr.flush()
    tqdm.write(text)
    sys.stdout.flush()


def shown_figures(figures, sequences_per_second, columns=None):
    """The figures of a progress line, the most important first.

    Args:
        figures: dict of name -> number; losses, accuracies and what the devices do are shown.
        sequences_per_second: float.
        columns: int or None, the room for them in a terminal: names are short then, and the parts
            of the loss are left out first.

    Returns:
        str.
    """
    short = {} if columns is None else _SHORT
    losses, accuracies = [], []
    for name, value in figures.items():
        words = name.removeprefix("eval_")  # fine-tuning's; the curves of both share a picture
        for long, brief in short.items():
            words = words.replace(long, brief)
        if "accuracy" in name:
            accuracies.append(f"{words.removesuffix('_accuracy') if short else words} {value:.1%}")
        elif "loss" in name and name not in ("loss_scale", "eval_loss"):
            losses.insert(0 if name == "loss" else len(losses), f"{words} {value:.3f}")
    speed = [f"{sequences_per_second:.1f} {'seq' if short else 'sequences'}/s"]
    speed += [f"{figures[name]:.3f} {unit}" for name, unit in _UNITS.items() if name in figures]
    shown = [*losses[:1], *accuracies, *speed, *losses[1:]]
    while columns is not None and len(shown) > 1 and len(", ".join(shown)) > columns:
        shown.pop()
    return ", ".join(shown)


class Progress:
    """One line: steps done, time left, figures, speed; redrawn in a terminal, repeated in a log."""

    def __init__(self, first_step, last_step, batch_size, visible):
        self.batch_size = batch_size
        self._interactive = sys.stderr.isatty()
        self._columns_beside = _BESIDE_FIGURES + 2 * len(str(last_step))
        self._bar = visible and progress.bar(
            "training", last_step, " steps", initial=first_step, bar_format=_FORMAT
        )
        self._last, self._unshown, self._speed = time.time(), 0, 0.0
        self._first_step = threading.Timer(
            GRAPH_SECONDS, say, ["Building the graph of a training step; only the first one waits."]
        )
        self._first_step.daemon = True
        if visible:
            self._first_step.start()

    def advance(self, steps):
        self._first_step.cancel()
        if self._bar:
            self._bar.update(steps)
        self._unshown += steps

    def is_due(self):
        return time.time() - self._last >= CHECK_SECONDS

    def steps_in_check(self):
        """About how many steps take CHECK_SECONDS: int, as those since the last figures went."""
        seconds = max(time.time() - self._last, 1e-6)
        return int(min(CHECK_SECONDS * self._unshown / seconds, _MOST_STEPS))

    def start_clock(self):
        """Leaves out of the speed what was done since the last figures."""
        self._last, self._unshown = time.time(), 0

    def sequences_per_second(self):
        """The speed since the last figures, or up to them if there was no step since."""
        if self._unshown:
            now = time.time()
            self._speed = self._unshown * self.batch_size / max(now - self._last, 1e-6)
            self._last, self._unshown = now, 0
        return self._speed

    def show(self, figures):
        """Shows those figures that have a place in the line."""
        if not self._bar:
            return
        columns = None
        if self._interactive:
            columns = shutil.get_terminal_size().columns - self._columns_beside
        self._bar.set_postfix_str(
            shown_figures(figures, self.sequences_per_second(), columns), refresh=False
        )

    def close(self):
        self._first_step.cancel()
        if self._bar:
            self._bar.close()
