# SPDX-License-Identifier: Apache-2.0
"""Metrics of steps and evaluations: means, names, speed, their line, and when training ends."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import sys
import termios

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import progress
from albert_tf.training import metrics
from tests.errors import assert_names, refuses


class Line:
    """A progress line that keeps what it shows."""

    def advance(self, count):
        pass

    def show(self, shown):
        self.shown = shown


class Writer:
    """A writer that keeps what it gets."""

    def __init__(self):
        self.rows = []

    def write(self, *row):
        self.rows.append(row)


def started(names=("hits",), **options):
    """Metrics of a training with batches of 4 sequences."""
    made = metrics.Metrics(names, [Writer()], **options)
    made.line = Line()
    made.start(made.line, 4)
    return made


def rows_of(*norms, loss=1.0, scale=4.0):
    return tf.constant([[2.0, 4.0, loss, norm, scale] for norm in norms])


def test_one_overflow_leaves_the_gradient_norm_a_number():
    made = started(scales_loss=True)
    made.add(rows_of(1.0, np.inf, np.nan, 3.0), last_step=4)
    made.point(4)
    ((kind, step, point),) = made.writers[0].rows
    assert (kind, step) == ("train", 4)
    assert point["gradient_norm"] == 2.0
    assert point["loss_scale"] == 4.0
    assert point["hits"] == 0.5


def test_a_point_holds_the_means_since_the_last_one_and_all_writers_get_it():
    made = started()
    other = Writer()
    made.writers.append(other)
    made.add(rows_of(1.0, loss=1.0), last_step=1)
    made.show()
    made.add(rows_of(1.0, loss=2.0), last_step=2)
    made.point(2, learning_rate=0.5)
    made.add(rows_of(1.0, loss=4.0), last_step=3)
    made.point(3)
    assert other.rows == made.writers[0].rows
    assert [(step, point["loss"]) for _, step, point in other.rows] == [(2, 1.5), (3, 4.0)]
    assert other.rows[0][2]["learning_rate"] == 0.5
    assert made.line.shown["loss"] == 4.0


def test_speed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    made = started()
    made.flops = 10**12
    made.add(rows_of(1.0, 1.0), last_step=2)
    assert made.steps_in_check() == 1000  # the most
    now[0] = 4.9
    assert made.steps_in_check() == 2 and not made.is_due()
    now[0] = 5.0
    assert made.is_due()
    made.show()
    assert made.line.shown["sequences_per_second"] == 8 / 5
    assert made.line.shown["model_tflops_per_second"] == 8 / 5


def test_training_and_evaluation_share_the_names_of_their_curves(capsys):
    made = started(names=["eval_loss"])
    made.add(rows_of(1.0), last_step=1)
    made.point(1)
    evaluated = {"eval_loss": 0.25, "eval_accuracy": 0.75, "loss": 0.5, "f1": 0.125}
    made.evaluation(1, evaluated, evaluated, best=True)
    (_, _, trained), (kind, _, shown) = made.writers[0].rows
    assert kind == "eval" and shown == {"loss": 0.25, "accuracy": 0.75, "f1": 0.125}
    assert trained["loss"] == 1.0 and "eval_loss" not in trained
    assert_names(
        capsys.readouterr().out,
        "1 ... eval_loss 0.2500, eval_accuracy 0.7500, loss 0.5000, f1 0.1250 ... model.ckpt-best",
    )


def test_a_file_at_the_place_of_the_curves_is_named(tmp_path):
    (tmp_path / "train").write_text("a regular file")
    with refuses(f"{tmp_path}/train"):
        metrics.TensorBoard(str(tmp_path)).write("train", 1, {"loss": 1.0})


def test_a_run_that_always_overflows_ends():
    made = started(scales_loss=True)
    made.add(rows_of(*[np.inf] * 20, 1.0), last_step=21)
    made.show()
    made.add(rows_of(*[np.inf] * 21), last_step=42)
    with refuses("21 ... 42", error=metrics.NonFiniteError):
        made.show()


@pytest.mark.parametrize(
    "norm, loss, scales_loss",
    [(1.0, np.nan, True), (1.0, np.nan, False), (1.0, np.inf, True), (1.0, np.inf, False),
     (np.inf, 1.0, False)],
)  # fmt: skip
def test_the_first_bad_step_is_named(norm, loss, scales_loss):
    made = started(scales_loss=scales_loss)
    made.add(rows_of(1.0, 1.0), last_step=6)
    for step in (7, 8):
        made.add(rows_of(norm, loss=loss), last_step=step)
    with refuses("7", error=metrics.NonFiniteError):
        made.show()


METRICS = {
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
LONG = "189.2 sequences/s, 0.064 TFLOP/s, masked_lm_loss 5.432, sentence_order_loss 0.400"


@pytest.mark.parametrize(
    "columns, shown",
    [
        (None, f"loss 5.832, masked_lm_accuracy 21.0%, sentence_order_accuracy 81.2%, {LONG}"),
        (92, "loss 5.832, mlm 21.0%, sop 81.2%, 189.2 seq/s, 0.064 TFLOP/s, mlm_loss 5.432, "
             "sop_loss 0.400"),
        (91, "loss 5.832, mlm 21.0%, sop 81.2%, 189.2 seq/s, 0.064 TFLOP/s, mlm_loss 5.432"),
        (45, "loss 5.832, mlm 21.0%, sop 81.2%, 189.2 seq/s"),
        (44, "loss 5.832, mlm 21.0%, sop 81.2%"),
        (3, "loss 5.832"),
    ],
)  # fmt: skip
def test_metrics_give_way_in_the_order_of_their_importance(columns, shown):
    assert metrics.shown_metrics(METRICS, columns) == shown


@pytest.mark.parametrize("columns", [94, 95])  # 60 of them for metrics, if hours are shown too
def test_a_line_of_a_terminal_is_never_wider_than_it(columns, monkeypatch):
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    with os.fdopen(terminal, "w") as file, monkeypatch.context() as patched:
        for name in ("stdout", "stderr", "__stdout__"):
            patched.setattr(sys, name, file)
        line = metrics.Line(0, 125000)
        for step in range(0, 125000, 25000):
            line.advance(25000)
            line.show(METRICS)
            line._bar.refresh()
            if step == 50000:
                progress.say("Evaluation at step 75000")
        line.close()
    text = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while True:
            text += os.read(main, 4096)
    os.close(main)
    drawn = [line.strip() for line in re.split(r"[\r\n]+", text.decode()) if line.strip()]
    assert max(map(len, drawn)) < columns
    assert "Evaluation at step 75000" in drawn
    start = r"125000/125000 \d\d:\d\d<00:00, loss 5\.832, mlm 21\.0%, sop 81\.2%, 189\.2 seq/s"
    assert re.match(start, drawn[-1])
    assert ("0.064 TFLOP/s" in drawn[-1]) == (columns == 95)


def test_a_line_says_why_nothing_moves_while_the_graph_is_built(monkeypatch, capsys):
    monkeypatch.setattr(metrics, "GRAPH_SECONDS", 0.01)
    slow = metrics.Line(0, 4)
    slow._first_step.join()
    slow.close()
    monkeypatch.setattr(metrics, "GRAPH_SECONDS", 60)
    quick = metrics.Line(0, 4)
    quick.advance(1)
    quick._first_step.join(5)
    assert not quick._first_step.is_alive()
    quick.close()
    assert capsys.readouterr().out.count("Tracing the training step") == 1
