# SPDX-License-Identifier: Apache-2.0
"""Tasks in this process and in others."""

import os
import signal
import time

import pytest

from albert_tf.corpus.workers import WorkerPool
from albert_tf.errors import UserError
from tests.errors import refuses


def double(item, report):
    time.sleep(0.02 * (item % 3))  # later items are done first
    report(item)
    return 2 * item


def fail(item, report):
    raise UserError(f"item {item} is bad")


def be_killed(item, report):
    os.kill(os.getpid(), signal.SIGKILL)


def go_on(item, report):
    while True:
        time.sleep(0.05)
        report(1)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_progress_adds_up(workers):
    reported = []
    with WorkerPool(workers, double) as pool:
        for task in (double, double):  # the resident one, twice
            assert list(pool.in_order(task, range(20), reported.append)) == list(range(0, 40, 2))
        if workers > 1:
            assert pool._reported.value == 2 * sum(range(20))
    if workers == 1:
        assert sum(reported) == 2 * sum(range(20))


def test_errors_of_workers():
    with WorkerPool(2, double) as pool:
        with refuses("item 0"):
            list(pool.in_order(fail, range(3), lambda _: None))
        with refuses("--num_workers"):
            list(pool.in_order(be_killed, range(3), lambda _: None))


def test_leaving_early_ends_tasks_at_their_next_report():
    started = time.monotonic()
    with WorkerPool(2, go_on) as pool:
        results = pool.in_order(go_on, range(2), stop_after_some)
        with pytest.raises(InterruptedError):
            next(results)
    assert time.monotonic() - started < 120


def stop_after_some(amount):
    if amount:
        raise InterruptedError
