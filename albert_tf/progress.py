# SPDX-License-Identifier: Apache-2.0
"""Progress of long work on stderr: a bar in a terminal, occasional lines in a log."""

import contextlib
import sys
import time

from tqdm import tqdm

LOG_SECONDS = 30.0  # between two lines in a log
_BAR_SECONDS = 0.5


def say(text):
    """Prints a line, above a progress bar if there is one."""
    sys.stderr.flush()
    # Without a terminal there is no bar. A signal within tqdm.write may find its lock half made.
    (tqdm.write if sys.stderr.isatty() else print)(text)
    sys.stdout.flush()


def bar(what, total, unit, **options):
    """Makes a progress bar, for use in a `with` statement.

    Args:
        what: str, name of the work.
        total: int, number of units; None if unknown, as for compressed files.
        unit: str, such as " rows"; "B" for bytes, which are shown in kB, MB and so on.
        **options: options of tqdm; outside of a terminal only `initial` has an effect.

    Returns:
        A tqdm or LogLines, with `update(count)`, `set_postfix_str(text)` and `close()`.
    """
    if not sys.stderr.isatty():
        return LogLines(what, total, unit, options.get("initial", 0))
    options = {"mininterval": _BAR_SECONDS, "dynamic_ncols": True, **options}
    return _Bar(None, what, total, unit=unit, unit_scale=unit == "B", **options)


class _Bar(tqdm):
    def update(self, n=1):  # sums of fractions can end slightly above the total
        return super().update(n if self.total is None else min(n, self.total - self.n))


class LogLines(contextlib.AbstractContextManager):
    """Progress as lines on stderr, one every LOG_SECONDS.

    Work that takes less time gets a line only if there is a text to show.

    Args:
        what: str, name of the work.
        total: int or None, number of units.
        unit: str, as in `bar`.
        initial: int, units done before.
    """

    def __init__(self, what, total, unit, initial=0):
        self._what, self._total, self._unit = what, total, unit
        self._done = initial
        self._start = self._last = time.monotonic()
        self._first = None  # (time, units done) at the first update, which may include tracing
        self._postfix, self._said = "", None

    def __exit__(self, *_):
        self.close()

    def update(self, count):
        """Adds units of finished work."""
        self._done += count
        if self._total is not None:  # as in _Bar.update
            self._done = min(self._done, self._total)
        self._first = self._first or (time.monotonic(), self._done)
        if time.monotonic() - self._last >= LOG_SECONDS:
            self._say()

    def set_postfix_str(self, text, refresh=False):
        """Sets the text to show at the end of each line; `refresh` is for bars."""
        self._postfix = text

    def close(self):
        """Prints a last line if there were lines before or there is a text to show."""
        if (self._said or self._postfix) and self._said != (self._done, self._postfix):
            self._say()

    def _say(self):
        now = time.monotonic()
        since, done = self._first or (now, self._done)
        line = f"{self._what}: {self._counted(self._done)}"
        line += "" if self._total is None else f" of {self._counted(self._total)}"
        line += "" if self._unit == "B" else self._unit
        line += f", {tqdm.format_interval(now - self._start)}"
        if self._total is not None and done < self._done < self._total:
            left = (now - since) * (self._total - self._done) / (self._done - done)
            line += f", {tqdm.format_interval(left)} left"
        print(f"{line}, {self._postfix}" if self._postfix else line, file=sys.stderr, flush=True)
        self._last, self._said = now, (self._done, self._postfix)

    def _counted(self, units):
        return f"{tqdm.format_sizeof(units)}B" if self._unit == "B" else str(units)
