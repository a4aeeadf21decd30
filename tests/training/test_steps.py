# SPDX-License-Identifier: Apache-2.0
"""A step: the same in parts as at once, with any precision, and a function of its seed."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, optimization
from albert_tf.training import devices, loop, reporting, steps
from tests import TINY_CONFIG
from tests.model.gradient_errors import assert_close_gradients

ROWS, LENGTH = 8, 16


@pytest.fixture
def features():
    random = np.random.default_rng(0)
    ids = random.integers(5, TINY_CONFIG["vocab_size"], [ROWS, LENGTH])
    weights = (random.random([ROWS, 4]) < 0.5).astype(np.float32)
    weights[0] = 0  # parts of unlike weight: a mean of means would be another number
    return {
        "input_ids": ids.astype(np.int32),
        "input_mask": np.ones([ROWS, LENGTH], np.int32),
        "segment_ids": np.zeros([ROWS, LENGTH], np.int32),
        "masked_lm_positions": random.integers(1, LENGTH, [ROWS, 4]).astype(np.int32),
        "masked_lm_ids": ids[:, :4].astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": random.integers(0, 2, [ROWS, 1]).astype(np.int32),
    }


def make_step(dropout=0.0, optimizer="lamb", **options):
    tf_keras.utils.set_random_seed(5)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = heads.PretrainingModel(AlbertConfig.from_dict(TINY_CONFIG | rates))
    task = loop.Task(model, name_table.named_variables(model), heads.PRETRAINING)
    made = devices.with_loss_scale(optimization.create_optimizer(optimizer, 0.01))
    made.build(list(task.variables.values()))
    strategy = tf.distribute.get_strategy()
    step = steps.TrainStep(strategy, task, made, **{"seed": 1} | options)
    return step, task, made


def run(step, features, count=1):
    dataset = tf.data.Dataset.from_tensors(features).repeat()
    iterator = iter(dataset)
    return np.concatenate([step(iterator, 1).numpy() for _ in range(count)])


def values(task):
    return {name: variable.numpy() for name, variable in task.variables.items()}


@pytest.mark.long
@pytest.mark.parametrize("parts", [2, 8])
def test_parts_add_up_to_the_whole_batch(features, parts):
    results = []
    for accumulation in (1, parts):
        step, task, _ = make_step(accumulation=accumulation)
        results.append((run(step, features, 2), values(task)))
    (row, whole), (part_row, in_parts) = results
    np.testing.assert_allclose(part_row, row, rtol=1e-5, atol=1e-6)
    for name, value in whole.items():
        if not name.endswith("key/bias"):  # its true gradient is 0: what moves it is rounding
            scale = np.abs(value).max()
            np.testing.assert_allclose(in_parts[name], value, atol=2e-5 * scale, err_msg=name)


class GradientKeeper:
    """In an optimizer's place: keeps the gradients and changes nothing."""

    def __init__(self, variables):
        self.iterations = tf.Variable(0, dtype=tf.int64)
        self.kept = {
            variable.ref(): tf.Variable(tf.zeros(variable.shape)) for variable in variables
        }

    def apply_gradients(self, pairs, skip_gradients_aggregation):
        for gradient, variable in pairs:
            self.kept[variable.ref()].assign(gradient)


def gradients_of_step(features, **options):
    """The gradients of a step: dict of name -> array."""
    _, task, _ = make_step()
    for variable in task.variables.values():
        if variable.shape.rank > 1:  # with the small initial weights, more gradients nearly cancel
            variable.assign(10 * variable)
    keeper = GradientKeeper(task.variables.values())
    strategy = tf.distribute.get_strategy()
    run(steps.TrainStep(strategy, task, keeper, seed=1, clip_norm=1e9, **options), features)
    return {name: keeper.kept[v.ref()].numpy() for name, v in task.variables.items()}


@pytest.mark.long
@pytest.mark.parametrize("parts", [2, 8])
def test_gradients_of_parts_add_up_to_those_of_the_whole_batch(features, parts):
    whole = gradients_of_step(features)
    assert_close_gradients(gradients_of_step(features, accumulation=parts), whole)


@pytest.mark.long
def test_dropout_follows_from_seed_and_step(features):
    outcomes = []
    for seed in (1, 1, 2):
        step, task, _ = make_step(dropout=0.2, seed=seed)
        outcomes.append((run(step, features, 2), values(task)))
    (first, variables), (again, same), (other, _) = outcomes
    np.testing.assert_array_equal(first, again)
    for name, value in variables.items():
        np.testing.assert_array_equal(same[name], value, err_msg=name)
    assert not np.array_equal(first, other)
    loss = -3
    assert first[0, loss] != first[1, loss]  # step 0 has a rate of its own: masks differ


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_a_compiled_step_equals_the_plain_one(features, optimizer):
    rows = []
    for compiled in (False, True):
        step, _, _ = make_step(compiled=compiled, optimizer=optimizer)
        rows.append(run(step, features, 2))
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-4)


# --- Loss scaling -----------------------------------------------------------------------------


@pytest.fixture
def float16():
    devices.set_precision("fp16")
    yield
    devices.set_precision("fp32")


def test_a_step_that_overflows_is_skipped_counted_and_lowers_the_scale(float16, features):
    step, task, optimizer = make_step(optimizer="adamw")
    steps.loss_scale_variables(optimizer)["loss_scale"].assign(2.0**120)
    before = values(task)
    row = run(step, features)[0]
    assert not np.isfinite(row[-2])
    assert optimizer.loss_scale.numpy() == 2.0**119
    assert steps.inner_optimizer(optimizer).iterations.numpy() == 1
    for name, value in values(task).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


class Progress:
    """What a Reporter needs of a progress line."""

    batch_size = 4

    def __init__(self):
        self.shown = None

    def advance(self, count):
        pass

    def start_clock(self):
        pass

    def sequences_per_second(self):
        return 8.0

    def show(self, figures):
        self.shown = figures


def rows_of(*norms, loss=1.0, scale=4.0):
    return tf.constant([[2.0, 4.0, loss, norm, scale] for norm in norms])


def test_one_overflow_leaves_the_gradient_norm_a_number():
    reporter = reporting.Reporter(["hits"], Progress(), scales_loss=True)
    reporter.add(rows_of(1.0, np.inf, np.nan, 3.0), last_step=4)
    figures = reporter.point()
    assert figures["gradient_norm"] == 2.0
    assert figures["loss_scale"] == 4.0
    assert figures["hits"] == 0.5


def test_speed_and_share_of_the_peak():
    progress = Progress()
    reporter = reporting.Reporter(["hits"], progress, False, flops=10**12, peak_tflops=32.0)
    reporter.add(rows_of(1.0), last_step=1)
    reporter.read()
    assert progress.shown["model_tflops_per_second"] == 8.0
    assert progress.shown["model_flops_utilization"] == 0.25
    point = reporter.point()
    expected = point["sequences_per_second"] / 32
    assert point["model_flops_utilization"] == pytest.approx(expected)


def test_a_run_that_always_overflows_ends():
    reporter = reporting.Reporter(["hits"], Progress(), scales_loss=True)
    reporter.add(rows_of(*[np.inf] * 20, 1.0), last_step=21)
    reporter.read()
    reporter.add(rows_of(*[np.inf] * 21), last_step=42)
    with pytest.raises(reporting.NonFiniteError, match=r"last 21 steps, up to step 42, overflow"):
        reporter.read()


@pytest.mark.parametrize("bad", [{"loss": np.nan}, {"loss": np.inf}])
@pytest.mark.parametrize("scales_loss", [True, False])
def test_the_first_bad_step_is_named(bad, scales_loss):
    reporter = reporting.Reporter(["hits"], Progress(), scales_loss)
    reporter.add(rows_of(1.0, 1.0), last_step=6)
    reporter.add(rows_of(1.0, **bad), last_step=7)
    reporter.add(rows_of(1.0, **bad), last_step=8)
    with pytest.raises(reporting.NonFiniteError, match=r"at step 7$"):
        reporter.read()


def test_an_infinite_gradient_ends_a_run_without_loss_scaling():
    reporter = reporting.Reporter(["hits"], Progress(), scales_loss=False)
    reporter.add(rows_of(1.0, np.inf), last_step=2)
    with pytest.raises(reporting.NonFiniteError, match=r"at step 2$"):
        reporter.read()
