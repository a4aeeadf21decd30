# SPDX-License-Identifier: Apache-2.0
"""The progress line of training, and lines above it."""

import shutil
import sys
import threading

from tqdm import tqdm

from albert_tf import progress

GRAPH_SECONDS = 5.0  # without a step, after which a line explains the wait
_FORMAT = "{n_fmt}/{total_fmt} {elapsed}<{remaining}{postfix} {bar}"
_OTHER_COLUMNS = len("/ 00:00:00<00:00:00,   ")  # of _FORMAT, without figures and numbers of steps
_SHORT = {"masked_lm": "mlm", "sentence_order": "sop"}
_UNITS = {"model_tflops_per_second": "TFLOP/s", "model_flops_utilization": "of peak"}


def say(text):
    """Prints a line above the progress line."""
    sys.stderr.flush()
    tqdm.write(text)
    sys.stdout.flush()


def shown_figures(figures, columns=None):
    """The figures of a progress line, the most important first.

    Args:
        figures: dict of name -> number, `sequences_per_second` among them; losses, accuracies and
            speed are shown.
        columns: int or None, width available in a terminal: names are shortened to fit, and the
            parts of the loss are left out first.

    Returns:
        str.
    """
    losses, accuracies = [], []
    for name, value in figures.items():
        words = name
        for long, brief in _SHORT.items() if columns is not None else ():
            words = words.replace(long, brief)
        if "accuracy" in name:
            words = words if columns is None else words.removesuffix("_accuracy")
            accuracies.append(f"{words} {value:.1%}")
        elif "loss" in name and name != "loss_scale":
            losses.insert(0 if name == "loss" else len(losses), f"{words} {value:.3f}")
    sequences = "sequences/s" if columns is None else "seq/s"
    speed = [f"{figures['sequences_per_second']:.1f} {sequences}"]
    speed += [f"{figures[name]:.3f} {unit}" for name, unit in _UNITS.items() if name in figures]
    shown = [*losses[:1], *accuracies, *speed, *losses[1:]]
    while columns is not None and len(shown) > 1 and len(", ".join(shown)) > columns:
        shown.pop()
    return ", ".join(shown)


class Line:
    """The progress line of a training: redrawn in a terminal, repeated in a log.

    Args:
        first_step: int, updates made before.
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
            GRAPH_SECONDS, say, ["Tracing the training step; only the first step is slow."]
        )
        self._first_step.daemon = True
        if visible:
            self._first_step.start()

    def advance(self, steps):
        """Adds steps that were made."""
        self._first_step.cancel()
        if self._bar:
            self._bar.update(steps)

    def show(self, figures):
        """Shows those figures that have a place in the line."""
        if self._bar:
            room = shutil.get_terminal_size().columns - self._other_columns
            shown = shown_figures(figures, room if self._is_terminal else None)
            self._bar.set_postfix_str(shown, refresh=False)

    def close(self):
        """Ends the line."""
        self._first_step.cancel()
        if self._bar:
            self._bar.close()
