# SPDX-License-Identifier: Apache-2.0
"""Learning rates, AdamW, LAMB and clipping, against the golden figures."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.checkpoints import name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, objectives, optimization
from tests import GOLDEN, read_arrays
from tests.checkpoints.golden_models import (
    TYPES,
    WORDS,
    assert_close,
    gradients_and_norm,
    read,
    record_look_ups,
)
from tests.errors import refuses

DATA = GOLDEN / "optimizers"
LR_CASES = json.loads((DATA / "lr_schedules.json").read_text())
TRAJECTORY = 1e-4  # relative, as tests/golden/README.md says


def schedule_of(case):
    return optimization.PolynomialDecayWithWarmup(
        peak=case["init_lr"],
        train_steps=case["num_train_steps"],
        warmup_steps=case["num_warmup_steps"],
        power=case["poly_power"],
        start_warmup_step=case["start_warmup_step"],
    )


@pytest.mark.parametrize("index", range(len(LR_CASES)))
def test_learning_rates_are_the_originals(index):
    arrays = read_arrays(DATA / "lr_schedules.npz")
    steps, expected = arrays[f"case{index}/steps"], arrays[f"case{index}/lr"]
    actual = schedule_of(LR_CASES[index])(tf.constant(steps)).numpy()
    # Below the power, because there 1 - t / T has float32's error of 1e-7, however near the end.
    peak, power = LR_CASES[index]["init_lr"], LR_CASES[index]["poly_power"]
    actual, expected = (
        np.sign(rates) * np.abs(rates / peak) ** (1 / power) for rates in (actual, expected)
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize(
    "arguments, rates",
    [
        ({"train_steps": 10, "warmup_steps": 2, "decay_steps": 4},
         {1: 5e-4, 2: 1e-3, 5: 1e-3, 6: 1e-3, 7: 7.5e-4, 9: 2.5e-4, 10: 0}),
        ({"train_steps": 10, "decay_steps": 4, "power": 2.0}, {0: 1e-3, 8: 2.5e-4, 11: 0}),
        ({"train_steps": 4, "decay_steps": 4}, {0: 1e-3, 1: 7.5e-4, 3: 2.5e-4, 4: 0}),
    ],
)  # fmt: skip
def test_rates_that_decay_at_the_end_alone(arguments, rates):
    schedule = optimization.PolynomialDecayWithWarmup(1e-3, **arguments)
    actual = {step: float(schedule(tf.constant(step, tf.int64))) for step in rates}
    assert actual == pytest.approx(rates, rel=1e-5, abs=1e-10)


UNIT_CASES = {
    "adamw": lambda: optimization.AdamW(0.1),
    "lamb": lambda: optimization.LAMB(0.1),
    "lamb_noexclude": lambda: optimization.LAMB(0.1, decayed=lambda variable: True),
    "adamw_nodecay": lambda: optimization.AdamW(0.1, weight_decay_rate=0.0),
}


@pytest.mark.parametrize("case", UNIT_CASES)
def test_updates_are_the_originals(case):
    arrays = read_arrays(DATA / "unit.npz")
    names = [name.removeprefix("init/") for name in arrays if name.startswith("init/")]
    variables = {name: tf.Variable(arrays[f"init/{name}"]) for name in names}
    optimizer = UNIT_CASES[case]()
    optimizer.build(list(variables.values()))
    with_gradient = [name for name in variables if name != "unused/kernel"]
    assert len(with_gradient) == len(variables) - 1 == 6
    for step in range(1, 5):
        pairs = [(tf.constant(arrays[f"grads/{n}"][step - 1]), variables[n]) for n in with_gradient]
        optimizer.apply_gradients(pairs)
        for name, variable in variables.items():
            expected = arrays[f"{case}/step{step}/{name}"]
            np.testing.assert_allclose(variable, expected, rtol=1e-5, atol=1e-7, err_msg=name)
    assert optimizer.iterations.numpy() == 4

    order = list(variables)
    slots = [name for name in arrays if name.startswith(f"{case}/slots/")]
    assert len(slots) == 2 * len(with_gradient)
    for key in slots:
        name, slot = key.removeprefix(f"{case}/slots/").rsplit("/", 1)
        moment = getattr(optimizer, slot)[order.index(name)]
        np.testing.assert_allclose(moment, arrays[key], rtol=1e-5, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_constants_and_decayed_variables_are_the_originals(name):
    meta = json.loads((DATA / f"{name}_meta.json").read_text())
    config = AlbertConfig.from_json_file(str(DATA / "albert_config.json"))
    named = name_table.named_variables(heads.PretrainingModel(config))
    decayed = {n for n, variable in named.items() if optimization.is_decayed(variable)}
    assert decayed == set(meta["decayed"])
    assert set(named) - decayed == set(meta["not_decayed"])
    optimizer = optimization.create_optimizer(name, 0.1)
    assert isinstance(optimizer, optimization.OPTIMIZERS[name])
    for key in ("weight_decay_rate", "beta_1", "beta_2", "epsilon"):
        assert getattr(optimizer, key) == meta[key]
    # At Keras' own weight decay of 0 every step would read and write all variables for nothing.
    assert optimizer.weight_decay is None


MUON = {"momentum": 0.95, "weight_decay_rate": 0.01, "beta_1": 0.9, "beta_2": 0.999}


@pytest.mark.parametrize("name", optimization.OPTIMIZERS)
def test_constants_of_options(name):
    given = {"weight_decay_rate": 0.2, "beta_1": 0.5, "beta_2": 0.6, "epsilon": 0.1}
    given |= {"momentum": 0.7} if name == "muon" else {}
    constants = options.Optimizer(**given)
    made, usual = (optimization.create_optimizer(name, 0.1, *c) for c in ([constants], []))
    assert given.items() <= made.get_config().items()
    assert name != "muon" or (MUON | {"epsilon": 1e-6}).items() <= usual.get_config().items()


# --- Clipping -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1.0, 2.0, 5.0, 10.0])  # the last two leave gradients alone
def test_clipping_scales_to_the_limit(limit):
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[0.0], [4.0]])]
    clipped, norm = optimization.clip_by_global_norm(gradients, limit)
    assert float(norm) == 5.0
    limit = min(limit, 5.0)
    tolerance = 1e-6 if limit < 5.0 else 0
    np.testing.assert_allclose(clipped[0], [0.6 * limit, 0], rtol=tolerance)
    np.testing.assert_allclose(clipped[1], [[0], [0.8 * limit]], rtol=tolerance)


def assert_near(actual, arrays, key):
    """Relative to the whole variable: single entries may lie at 0."""
    error = np.linalg.norm(actual - arrays[key]) / np.linalg.norm(arrays[key])
    assert error < TRAJECTORY, key


def updates(model, objective, optimizer, arrays, by_rows):
    """Variables by name, and a function that updates them and returns what was measured.

    Gradients are divided by the norm that the original finds, whose gradients of the tables
    `by_rows` are not added up. Ours is that of dense gradients: see docs/migration.md.
    """
    named, looked_up = name_table.named_variables(model), record_look_ups(model)
    for name, variable in named.items():
        variable.assign(arrays[name])
    optimizer.build([*named.values()])

    def update(features):
        with tf.GradientTape() as tape:
            terms = objective.terms(features, model(features, training=True))
            loss = objective.loss(terms, None)
        gradients, norm = gradients_and_norm(tape, loss, named, looked_up[-1], by_rows)
        dense = [*gradients.values()]
        # A limit of 1 for the norm of the original is this one for ours.
        clipped, own = optimization.clip_by_global_norm(dense, tf.linalg.global_norm(dense) / norm)
        optimizer.apply_gradients(zip(clipped, named.values(), strict=True))
        return {"loss": loss, "global_norm": norm, "global_norm_dense": own}

    return named, update


@pytest.mark.parametrize("case", ["adamw", "lamb", "adamw_onehot", "lamb_onehot"])
def test_eight_updates_are_the_originals(case):
    expected = read_arrays(DATA / f"{case}.npz")
    settings = json.loads((DATA / "cases.json").read_text())[case]
    batches = read_arrays(DATA / "batches.npz")
    config = AlbertConfig.from_json_file(str(DATA / "albert_config.json"))
    optimizer = optimization.create_optimizer(settings["optimizer"], schedule_of(settings))
    initial = {k.removeprefix("init/"): v for k, v in expected.items() if k.startswith("init/")}
    by_rows = [] if settings["one_hot_embeddings"] else [TYPES]
    named, update = updates(
        heads.PretrainingModel(config), objectives.PRETRAINING, optimizer, initial, by_rows
    )
    names = [key.removeprefix("0/") for key in batches if key.startswith("0/")]
    for step in range(8):
        assert optimizer.iterations.numpy() == expected["global_step_before"][step] == step
        found = update({name: tf.constant(batches[f"{step}/{name}"]) for name in names})
        for key, value in found.items():
            assert_close(value, expected[key][step])
        rate = optimizer.learning_rate
        np.testing.assert_allclose(rate, expected["learning_rate"][step], rtol=1e-6)
        for name, variable in named.items():
            if step + 1 in (2, 8) or by_rows:
                assert_near(variable, expected, f"step{step + 1}/{name}")
    assert optimizer.iterations.numpy() == expected["global_step_final"]
    moments = [key for key in expected if key.startswith("slots/")]
    assert len(moments) == (2 * len(named) if by_rows else 0)
    for key in moments:
        name, slot = key.removeprefix("slots/").rsplit("/", 1)
        moment = getattr(optimizer, slot)[[*named].index(name)]
        if name.endswith("key/bias"):  # The true gradient is 0: see tests/golden/README.md.
            assert_close(moment, expected[key], 1e-5)
        else:
            assert_near(moment, expected, key)


def test_five_updates_of_a_classifier_are_the_originals():
    folder = GOLDEN / "heads" / "classifier3_mnli"
    config = AlbertConfig.from_json_file(str(GOLDEN / "heads" / "albert_config.json"))
    schedule = optimization.PolynomialDecayWithWarmup(1e-3, 6, warmup_steps=2)
    named, update = updates(
        heads.ClassificationModel(config, 3, dropout_prob=0.0),
        objectives.CLASSIFICATION,
        optimization.AdamW(schedule),
        read(folder / "model.ckpt"),
        [TYPES, WORDS],
    )
    features = read_arrays(folder / "inputs.npz")
    expected = read_arrays(folder / "adamw_5steps_nodropout.npz")
    assert_close(np.array([update(features)["loss"] for _ in range(5)]), expected["loss"])
    for name, variable in named.items():
        assert_near(variable, expected, name)


def test_mistakes():
    rows = {"train_steps": 0}, {"decay_steps": 0}, {"warmup_steps": 0.1}, {"warmup_steps": -5}
    for row in rows:
        ((name, value),) = row.items()
        with refuses(f"{name} ... {value}"):
            optimization.PolynomialDecayWithWarmup(1e-3, **{"train_steps": 10} | row)
    with refuses("exclude_from_weight_decay ... decayed=", error=AttributeError):
        optimization.AdamW(1e-3).exclude_from_weight_decay(var_names=["bias"])


@pytest.mark.parametrize("kind", optimization.OPTIMIZERS.values())
def test_weight_decay_has_two_names(kind):
    for name in ("weight_decay", "weight_decay_rate"):
        optimizer = kind(0.1, **{name: 0.5})
        variables = tf.Variable(tf.ones([2, 2])), tf.Variable(tf.ones([2]))
        optimizer.apply_gradients([(tf.zeros_like(v), v) for v in variables])
        assert optimizer.get_config()["weight_decay_rate"] == 0.5
        ratio = 2.0 if kind is optimization.LAMB else 1.0  # the norm of theta by that of the step
        np.testing.assert_allclose(variables[0], np.full([2, 2], 1 - 0.05 * ratio), rtol=1e-6)
        np.testing.assert_array_equal(variables[1], np.ones([2]))
