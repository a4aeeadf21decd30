# SPDX-License-Identifier: Apache-2.0
"""How far long work is: a bar on stderr in a terminal, whole lines now and then in a log."""

import sys
import time

from tqdm import tqdm

LOG_SECONDS = 30.0  # between two lines in a log
_BAR_SECONDS = 0.5


def bar(what, total, unit, **options):
    """The view of some work, to be used in a `with`.

    Args:
        what: str, the work.
        total: int, units in all; None if unknown, as of compressed files.
        unit: str, such as " rows"; "B" for bytes, which are shown in kB, MB and so on.
        **options: of tqdm, for a terminal; a log heeds `initial` alone.

    Returns:
        A tqdm or LogLines: `update(count)`, `set_postfix_str(figures)`, `close()`.
    """
    if not sys.stderr.isatty():
        return LogLines(what, total, unit, options.get("initial", 0))
    options = {"mininterval": _BAR_SECONDS, "dynamic_ncols": True, **options}
    return _Bar(None, what, total, unit=unit, unit_scale=unit == "B", **options)


class _Bar(tqdm):
    def update(self, n=1):  # sums of fractions may end a little above the total
        return super().update(n if self.total is None else min(n, self.total - self.n))


class LogLines:
    """Lines on stderr, one every LOG_SECONDS; of work that takes less, none without figures.

    Args:
        what: str, the work.
        total: int or None, units in all.
        unit: str, as `bar` takes it.
        initial: int, units that were done before.
    """

    def __init__(self, what, total, unit, initial=0):
        self._what, self._total, self._unit = what, total, unit
        self._done = initial
        self._start = self._last = time.time()
        self._first = None  # (time, units done) at the first update, which may wait for a graph
        self._figures, self._said = "", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def update(self, count):
        """Adds units that were done."""
        self._done += count
        if self._total is not None:  # as above
            self._done = min(self._done, self._total)
        self._first = self._first or (time.time(), self._done)
        if time.time() - self._last >= LOG_SECONDS:
            self._say()

    def set_postfix_str(self, figures, refresh=False):
        """Takes the figures that stand at the end of each line from now on."""
        self._figures = figures
        if refresh:
            self._say()

    def close(self):
        """Says how far the work came, if a line was due or there are figures."""
        if (self._said or self._figures) and self._said != (self._done, self._figures):
            self._say()

    def _say(self):
        now = time.time()
        since, done = self._first or (now, self._done)
        line = f"{self._what}: {self._counted(self._done)}"
        line += "" if self._total is None else f" of {self._counted(self._total)}"
        line += "" if self._unit == "B" else self._unit
        line += f", {tqdm.format_interval(now - self._start)}"
        if self._total is not None and done < self._done < self._total:
            left = (now - since) * (self._total - self._done) / (self._done - done)
            line += f", {tqdm.format_interval(left)} left"
        print(f"{line}, {self._figures}" if self._figures else line, file=sys.stderr, flush=True)
        self._last, self._said = now, (self._done, self._figures)

    def _counted(self, units):
        return f"{tqdm.format_sizeof(units)}B" if self._unit == "B" else str(units)
