# SPDX-License-Identifier: Apache-2.0
"""Figures of steps and evaluations: means, names, speed, and when a training has to end."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.training import figures


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
    """Figures of a training with batches of 4 sequences."""
    made = figures.Figures(names, [Writer()], **options)
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


def test_speed_and_share_of_the_peak():
    made = started(flops=10**12, peak_tflops=32.0)
    made._start -= 1.0
    made.add(rows_of(1.0, 1.0), last_step=2)
    made.show()
    speed = made.line.shown["sequences_per_second"]
    assert 1 < speed <= 8.0
    assert made.line.shown["model_tflops_per_second"] == pytest.approx(speed)
    assert made.line.shown["model_flops_utilization"] == pytest.approx(speed / 32)


def test_training_and_evaluation_share_the_names_of_their_curves(capsys):
    made = started(names=["eval_loss"])
    made.add(rows_of(1.0), last_step=1)
    made.point(1)
    evaluated = {"eval_loss": 0.25, "eval_accuracy": 0.75, "loss": 0.5, "f1": 0.125}
    made.evaluation(1, evaluated, evaluated, best=True)
    (_, _, trained), (kind, _, shown) = made.writers[0].rows
    assert kind == "eval" and shown == {"loss": 0.25, "accuracy": 0.75, "f1": 0.125}
    assert trained["loss"] == 1.0 and "eval_loss" not in trained
    assert capsys.readouterr().out == (
        "Evaluation at step 1: eval_loss 0.2500, eval_accuracy 0.7500, loss 0.5000, f1 0.1250 "
        "(kept as model.ckpt-best)\n"
    )


def test_a_run_that_always_overflows_ends():
    made = started(scales_loss=True)
    made.add(rows_of(*[np.inf] * 20, 1.0), last_step=21)
    made.show()
    made.add(rows_of(*[np.inf] * 21), last_step=42)
    with pytest.raises(figures.NonFiniteError, match=r"last 21 steps, up to step 42, overflow"):
        made.show()


@pytest.mark.parametrize("bad", [{"loss": np.nan}, {"loss": np.inf}])
@pytest.mark.parametrize("scales_loss", [True, False])
def test_the_first_bad_step_is_named(bad, scales_loss):
    made = started(scales_loss=scales_loss)
    made.add(rows_of(1.0, 1.0), last_step=6)
    made.add(rows_of(1.0, **bad), last_step=7)
    made.add(rows_of(1.0, **bad), last_step=8)
    with pytest.raises(figures.NonFiniteError, match=r"at step 7$"):
        made.show()


def test_an_infinite_gradient_ends_a_run_without_loss_scaling():
    made = started(scales_loss=False)
    made.add(rows_of(1.0, np.inf), last_step=2)
    with pytest.raises(figures.NonFiniteError, match=r"at step 2$"):
        made.show()
