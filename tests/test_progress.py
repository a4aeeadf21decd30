# SPDX-License-Identifier: Apache-2.0
"""What is shown of long work: clean lines in a log, one line that fits in a terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from albert_tf import progress
from albert_tf.training import progress_line
from tests import ROOT

FIGURES = {
    "sequences_per_second": 189.2,
    "masked_lm_accuracy": 0.2104,
    "masked_lm_loss": 5.4321,
    "sentence_order_accuracy": 0.8123,
    "sentence_order_loss": 0.4,
    "loss": 5.8321,
    "gradient_norm": 1.5,
    "loss_scale": 32768.0,
    "model_tflops_per_second": 0.0641,
}


class Clock:
    def __init__(self):
        self.now = 1000.0

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
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


def test_a_total_may_be_unknown(clock, capsys):
    with progress.bar("reading", None, "B") as lines:
        clock.now += 31
        lines.update(2_000_000)
    assert capsys.readouterr().err == "reading: 2.00MB, 00:31\n"


@pytest.mark.parametrize(
    "columns, shown",
    [
        (
            None,
            "loss 5.832, masked_lm_accuracy 21.0%, sentence_order_accuracy 81.2%, "
            "189.2 sequences/s, 0.064 TFLOP/s, masked_lm_loss 5.432, sentence_order_loss 0.400",
        ),
        (
            92,
            "loss 5.832, mlm 21.0%, sop 81.2%, 189.2 seq/s, 0.064 TFLOP/s, mlm_loss 5.432, "
            "sop_loss 0.400",
        ),
        (91, "loss 5.832, mlm 21.0%, sop 81.2%, 189.2 seq/s, 0.064 TFLOP/s, mlm_loss 5.432"),
        (45, "loss 5.832, mlm 21.0%, sop 81.2%, 189.2 seq/s"),
        (44, "loss 5.832, mlm 21.0%, sop 81.2%"),
        (3, "loss 5.832"),
    ],
)
def test_figures_give_way_in_the_order_of_their_importance(columns, shown):
    assert progress_line.shown_figures(FIGURES, columns) == shown


TRAINING = """
from albert_tf.training import progress_line
line = progress_line.Line(0, 125000)
for step in range(0, 125000, 25000):
    line.advance(25000)
    line.show({figures})
    line._bar.refresh()
    if step == 50000:
        progress_line.say("Evaluation at step 75000")
line.close()
"""


@pytest.mark.parametrize("columns", [80, 120])
def test_a_line_of_a_terminal_is_never_wider_than_it(columns):
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING.format(figures=FIGURES)],
        cwd=ROOT, env=environment, stdin=terminal, stdout=terminal, stderr=terminal,
    ) as process:  # fmt: skip
        os.close(terminal)
        text = b""
        while True:
            try:
                text += os.read(main, 4096)
            except OSError:  # the other end is closed
                break
    os.close(main)
    assert process.returncode == 0, text
    drawn = [line.strip() for line in re.split(r"[\r\n]+", text.decode()) if line.strip()]
    assert max(map(len, drawn)) < columns
    assert "Evaluation at step 75000" in drawn
    start = r"125000/125000 \d\d:\d\d<00:00, loss 5\.832, mlm 21\.0%, sop 81\.2%, 189\.2 seq/s"
    assert re.match(start, drawn[-1])
    assert ("0.064 TFLOP/s" in drawn[-1]) == (columns == 120)
