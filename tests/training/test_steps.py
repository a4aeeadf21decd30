# SPDX-License-Identifier: Apache-2.0
"""A step: the same in parts as at once, with any precision, and a function of its seed."""

import contextlib
import itertools
import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, objectives, optimization
from albert_tf.options import Loop
from albert_tf.training import devices, steps
from tests import tiny
from tests.errors import refuses
from tests.model.gradient_errors import assert_close_gradients

ROWS, LENGTH = 8, 16


@pytest.fixture
def features():
    random = np.random.default_rng(0)
    ids = random.integers(5, tiny.CONFIG["vocab_size"], [ROWS, LENGTH])
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


def make_step(dropout=0.0, optimizer="lamb", seed=1, **settings):
    tf_keras.utils.set_random_seed(5)
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    model = heads.PretrainingModel(AlbertConfig.from_dict(tiny.CONFIG | rates))
    made = devices.with_loss_scale(optimization.create_optimizer(optimizer, 0.01))
    made.build(list(name_table.named_variables(model).values()))
    strategy = tf.distribute.get_strategy()
    settings = Loop(output_dir="", train_steps=1, **settings)
    step = steps.TrainStep(strategy, model, objectives.PRETRAINING, made, settings, seed)
    return step, model, made


def run(step, features, count=1):
    dataset = tf.data.Dataset.from_tensors(features).repeat()
    iterator = iter(dataset)
    return np.concatenate([step(iterator, 1).numpy() for _ in range(count)])


def values(model):
    return {name: v.numpy() for name, v in name_table.named_variables(model).items()}


class GradientKeeper:
    """In an optimizer's place: keeps the gradients and changes nothing."""

    def __init__(self, variables):
        self.iterations = tf.Variable(0, dtype=tf.int64)
        self.kept = {v.ref(): tf.Variable(tf.zeros(v.shape)) for v in variables}

    def apply_gradients(self, pairs, skip_gradients_aggregation):
        for gradient, variable in pairs:
            self.kept[variable.ref()].assign(gradient)


def metrics_and_gradients(features, parts=1):
    """Array of a step's metrics, and its gradients: dict of name -> array."""
    _, model, _ = make_step()
    variables = name_table.named_variables(model)
    for variable in variables.values():
        if variable.shape.rank > 1:  # with the small initial weights, more gradients nearly cancel
            variable.assign(10 * variable)
    keeper = GradientKeeper(variables.values())
    strategy = tf.distribute.get_strategy()
    given = {"gradient_clip_norm": 1e9, "gradient_accumulation_steps": parts}
    settings = Loop(output_dir="", train_steps=1, **given)
    step = steps.TrainStep(strategy, model, objectives.PRETRAINING, keeper, settings, 1)
    row = run(step, features)
    return row, {name: keeper.kept[v.ref()].numpy() for name, v in variables.items()}


@pytest.mark.long
def test_parts_add_up_to_the_whole_batch(features):
    row, gradients = metrics_and_gradients(features)
    part_row, in_parts = metrics_and_gradients(features, parts=2)
    np.testing.assert_allclose(part_row, row, rtol=1e-5, atol=1e-6)
    assert_close_gradients(in_parts, gradients)


@pytest.mark.long
def test_dropout_follows_from_seed_and_step(features):
    outcomes = []
    for seed in (1, 1, 2):
        step, model, _ = make_step(dropout=0.2, seed=seed)
        outcomes.append((run(step, features, 2), values(model)))
    (first, variables), (again, same), (other, _) = outcomes
    np.testing.assert_array_equal(first, again)
    for name, value in variables.items():
        np.testing.assert_array_equal(same[name], value, err_msg=name)
    assert not np.array_equal(first, other)
    loss = -3
    assert first[0, loss] != first[1, loss]  # step 0 has a rate of its own: masks differ


def test_each_seed_step_replica_and_part_has_masks_of_its_own(features, monkeypatch):
    step, _, optimizer = make_step(gradient_accumulation_steps=2)
    keys = []

    def of_part(features, totals, key):
        keys.append(tuple(key.numpy()))
        return [None] * len(step._variables), tf.zeros([9])

    monkeypatch.setattr(step, "_gradients_of_part", of_part)
    for step._seed, number, replica in itertools.product((1, 2, 2**31 + 1), range(2), range(2)):
        optimizer.iterations.assign(number)
        step._gradients(features, None, tf.constant(replica))
    assert len(keys) == len({*keys}) == 3 * 2 * 2 * 2


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [{"optimizer": "muon", "dropout": 0.3}, {"dropout": 0.3, "gradient_accumulation_steps": 2}],
)
def test_a_compiled_step_equals_the_plain_one_with_the_same_masks(features, options, monkeypatch):
    monkeypatch.setattr(optimization, "fast_dtype", lambda: tf.float32)
    # Muon makes small directions of a gradient, and so its rounding, as large as the others.
    count = 2 if options.get("optimizer") == "muon" else 4
    rows = []
    for compiled in (False, True):
        step, _, _ = make_step(enable_xla=compiled, **options)
        rows.append(run(step, features, count))
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-4)


@pytest.mark.parametrize("name", ["adamw", pytest.param("muon", marks=pytest.mark.long)])
def test_a_step_that_overflows_is_skipped_counted_and_lowers_the_scale(features, name):
    devices.set_precision("fp16")
    step, model, optimizer = make_step(optimizer=name)
    steps.loss_scale_variables(optimizer)["loss_scale"].assign(2.0**120)
    before = values(model)
    row = run(step, features)[0]
    assert not np.isfinite(row[-2]) and row[-1] == 2.0**120
    assert optimizer.loss_scale.numpy() == 2.0**119
    assert steps.inner_optimizer(optimizer).iterations.numpy() == 1
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def predictions(model):
    """Outputs of a model for two rows, x = 1 and x = 2."""
    predict = steps.Predictor(tf.distribute.get_strategy(), model, shows_progress=False)
    return predict([(np.arange(2), {"x": np.array([[1], [2]], np.int32)})], 2)


def test_no_code_is_rewritten_by_autograph():
    def model(features, training):
        assert tf.__internal__.autograph.control_status_ctx().status.name != "ENABLED"
        return {"doubled": 2 * features["x"]}

    np.testing.assert_array_equal(predictions(model)["doubled"], [[2], [4]])


def test_rows_that_fill_a_batch_are_left_out_and_not_counted(monkeypatch):
    counts = []
    bar = contextlib.nullcontext(types.SimpleNamespace(update=counts.append))
    monkeypatch.setattr(steps.progress, "LogLines", lambda *_: bar)
    model = lambda features, training: {"same": features["x"]}  # noqa: E731
    predict = steps.Predictor(tf.distribute.get_strategy(), model, shows_progress=False)
    batches = [(np.array([1, 0, -1]), {"x": np.array([[5], [6], [0]], np.int32)})]
    assert predict(batches, 2)["same"].tolist() == [[6], [5]]
    assert counts == [2]


@pytest.mark.parametrize("value", [np.nan, -np.inf])  # infinite ones are those of padding in SQuAD
def test_outputs_that_are_not_numbers_are_an_error(value):
    def model(features, training):
        return {"logits": tf.where(features["x"] > 1, value, 0.0)}

    if np.isinf(value):
        assert predictions(model)["logits"].tolist() == [[0.0], [value]]
        return
    with refuses("NaN"):
        predictions(model)
