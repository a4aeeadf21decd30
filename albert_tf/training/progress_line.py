# SPDX-License-Identifier: Apache-2.0
"""The progress line of training, and lines above it."""

import sys
import time

from tqdm import tqdm

CHECK_SECONDS = 5.0  # how often figures are fetched from the device within a loop
_MOST_STEPS = 1000  # between two of them


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

    def show(self, figures):
        if self._unshown:  # else shown a moment ago
            now = time.time()
            self._speed = self._unshown * self.batch_size / max(now - self._last, 1e-6)
            self._last, self._unshown = now, 0
        shown = {k: f"{v:.3f}" for k, v in figures.items() if "loss" in k or "accuracy" in k}
        self._bar.set_postfix(shown | {"sequences/s": f"{self._speed:.1f}"}, refresh=False)

    def close(self):
        self._bar.close()
