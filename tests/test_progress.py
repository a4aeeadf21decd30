# SPDX-License-Identifier: Apache-2.0
"""The progress of long work in a log."""

import types

import pytest

from albert_tf import progress


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_log_has_a_line_now_and_then_and_one_at_the_end(clock, capsys):
    with progress.bar("training", 200, " steps", initial=100) as lines:
        for step in range(100):
            clock.now += 1
            lines.set_postfix_str(f"loss {step}", refresh=False)
            lines.update(1)
    assert capsys.readouterr().err == (
        "training: 130 of 200 steps, 00:30, 01:10 left, loss 29\n"
        "training: 160 of 200 steps, 01:00, 00:40 left, loss 59\n"
        "training: 190 of 200 steps, 01:30, 00:10 left, loss 89\n"
        "training: 200 of 200 steps, 01:40, loss 99\n"
    )


def test_short_work_leaves_no_line_in_a_log_and_long_work_the_last(clock, capsys):
    with progress.bar("writing", 4_000_000, "B") as lines:
        clock.now += 29
        lines.update(4_000_000)
    assert capsys.readouterr().err == ""
    with progress.bar("writing", 4_000_000, "B") as lines:
        lines.update(0)
        clock.now += 31
        lines.update(1_000_000)
        lines.update(3_000_000.5)  # rounded sums end a little above
    assert capsys.readouterr().err == (
        "writing: 1.00MB of 4.00MB, 00:31, 01:33 left\nwriting: 4.00MB of 4.00MB, 00:31\n"
    )
    with progress.bar("reading", None, "B") as lines:  # of unknown size
        clock.now += 31
        lines.update(2_000_000)
    assert capsys.readouterr().err == "reading: 2.00MB, 00:31\n"


def test_a_line_without_a_terminal_needs_no_bar(capsys, monkeypatch):
    def fail(text):
        raise AssertionError("a signal may come here")

    monkeypatch.setattr(progress.tqdm, "write", fail)
    progress.say("a line")
    assert capsys.readouterr() == ("a line\n", "")


def test_a_line_in_a_terminal_goes_above_the_bar(monkeypatch):
    lines = []
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress.tqdm, "write", lines.append)
    progress.say("a line")
    assert lines == ["a line"]
