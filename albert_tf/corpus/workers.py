# SPDX-License-Identifier: Apache-2.0
"""Tasks in several processes, with results in the order of the items and a progress bar."""

import collections
import contextlib
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from concurrent import futures

from albert_tf.errors import UserError, ending_signals

_WAIT_SECONDS = 0.5
_ITEMS_PER_WORKER = 2  # sent ahead, so that no worker waits for its next item


def no_report(_):
    """Ignores the progress of a task."""


class WorkerPool(contextlib.AbstractContextManager):
    """Processes that run tasks; with `num_workers` = 1, this process runs all of them.

    Use it in a `with` statement. If the block ends early, running tasks end at their next report.

    Args:
        num_workers: int.
        resident: picklable callable, a large task that each process gets once.

    Raises:
        UserError: a process was killed while results were awaited.
    """

    def __init__(self, num_workers, resident):
        self._num_workers, self._resident = num_workers, resident
        self._executor = None
        if num_workers > 1:
            context = _context()
            self._reported, self._stops = context.Value("d", 0.0), context.Value("b", 0)
            state = (resident, self._reported, self._stops)
            self._executor = futures.ProcessPoolExecutor(num_workers, context, _start_worker, state)

    def __exit__(self, *_):
        if self._executor:
            self._stops.value = 1
            self._executor.shutdown(cancel_futures=True)

    def in_order(self, task, items, advance):
        """Yields task(item, report) for each item; report(n) in a task leads to advance(n) here.

        Args:
            task: picklable callable.
            items: iterable.
            advance: callable that takes a number.
        """
        if not self._executor:
            yield from (task(item, advance) for item in items)
            return
        try:
            yield from self._results(task, iter(items), advance)
        except futures.process.BrokenProcessPool as error:
            raise UserError(
                "a worker process was killed, perhaps for lack of memory. Run the same command "
                "again to resume, with a smaller --num_workers if memory is short"
            ) from error

    def _results(self, task, items, advance):
        seen, pending = self._reported.value, collections.deque()
        task = None if task is self._resident else task
        while True:
            room = self._num_workers * _ITEMS_PER_WORKER - len(pending)
            for item in itertools.islice(items, room):
                pending.append(self._executor.submit(_run, task, item))
            if not pending:
                return
            futures.wait([pending[0]], _WAIT_SECONDS)
            seen, before = self._reported.value, seen
            advance(seen - before)
            while pending and pending[0].done():
                yield pending.popleft().result()


def _context():
    """Context with the start method of the processes.

    The processes are not forks of this one, where TensorFlow has threads. On Linux, they are forks
    of a process that has only imported TensorFlow, which saves each of them some seconds.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tensorflow"])
    return context


# === In a worker ===


class _Stopped(Exception):
    """Raised in a worker whose result is not wanted any more."""


_resident, _report = None, None


def _start_worker(resident, reported, stops):
    global _resident, _report

    def report(amount):
        if stops.value:
            raise _Stopped
        with reported.get_lock():
            reported.value += amount

    _resident, _report = resident, report
    for number in ending_signals():  # the process that started this one handles them
        with contextlib.suppress(ValueError):
            signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    multiprocessing.parent_process().join()
    os._exit(1)


def _run(task, item):
    return (task or _resident)(item, _report)
