# SPDX-License-Identifier: Apache-2.0
"""The progress line of training, and lines above it."""

import sys
import time

from tqdm import tqdm

CHECK_SECONDS = 5.0  # how often figures are fetched from the device within a loop
_MOST_STEPS = 1000  # between two of them
_SHORT = {"model_tflops_per_second": "TFLOP/s", "model_flops_utilization": "of peak"}


def say(text):
    """Prints a line above the progress line."""
    tqdm.write(text)
    sys.stdout.flush()


class Progress:
    """One line: steps done, figures, speed, time left; redrawn in a terminal, repeated in a log."""

    def __init__(self, first_step, last_step, batch_size, visible):
        interactive = sys.stderr.isatty()
        self.batch_size = batch_size
        self._bar = tqdm(
            desc="training",
            total=last_step,
            initial=first_step,
            unit="step",
            disable=not visible,
            mininterval=0.5 if interactive else 30.0,
            dynamic_ncols=interactive,
        )
        self._last, self._unshown, self._speed = time.time(), 0, 0.0

    def advance(self, steps):
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
        shown = {
            _SHORT.get(name, name): f"{value:.3f}"
            for name, value in figures.items()
            if "loss" in name or "accuracy" in name or name in _SHORT
        }
        speed = f"{self.sequences_per_second():.1f}"
        self._bar.set_postfix(shown | {"sequences/s": speed}, refresh=False)

    def close(self):
        self._bar.close()
