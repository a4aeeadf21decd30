# SPDX-License-Identifier: Apache-2.0
"""Muon: updates against NumPy, what its iterations return, which variables take which rule."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, optimization
from tests import tiny

RATE, DECAY, MOMENTUM = 0.1, 0.01, 0.95


def polynomial(x):
    """Five iterations on singular values, float64."""
    for _ in range(5):
        x = 3.4445 * x - 4.775 * x**3 + 2.0315 * x**5
    return x


def orthogonalized(matrix):
    """By the singular value decomposition, float64."""
    u, s, v = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    return (u * polynomial(s / np.sqrt(np.sum(s**2)))) @ v


def variable(shape, seed=0, name="kernel"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return tf.Variable(values, name=name)


def muon(**arguments):
    return optimization.Muon(RATE, product_dtype="float32", **arguments)


@pytest.mark.parametrize("scale", [1, 1e-6, 1e6])
@pytest.mark.parametrize("shape", [(8, 8), (6, 9), (4, 16), (2, 32), (1, 5)])  # square, wide, long
def test_iterations_are_the_polynomial_of_the_singular_values(shape, scale):
    matrices = scale * variable([3, *shape]).numpy()
    actual = optimization.orthogonalize(tf.constant(matrices))
    expected = np.stack([orthogonalized(matrix) for matrix in matrices])
    np.testing.assert_allclose(actual, expected, atol=2e-4)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", [(32, 32), (32, 48), (32, 128), (64, 512)])
def test_the_result_is_nearly_orthogonal(shape, dtype):
    matrix = variable(shape).numpy()
    u, _, v = np.linalg.svd(matrix, full_matrices=False)
    matrix = (u * np.geomspace(1, 0.01, shape[0])) @ v  # 0.3% of the norm and more
    actual = optimization.orthogonalize(tf.constant(matrix[np.newaxis], tf.float32), dtype)
    assert actual.dtype == tf.float32
    found = np.linalg.svd(actual[0].numpy(), compute_uv=False)
    assert 0.6 < found.min() <= found.max() < 1.3


@pytest.mark.parametrize(
    ("details", "dtype"),
    [
        ({"compute_capability": (8, 0)}, tf.bfloat16),
        ({"compute_capability": (7, 5)}, tf.float32),
        ({}, tf.float32),
    ],
)
def test_products_are_of_bfloat16_where_a_gpu_has_it(details, dtype, monkeypatch):
    for name in ("list_logical_devices", "list_physical_devices"):
        monkeypatch.setattr(tf.config, name, lambda kind: ["a GPU"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    assert optimization.fast_dtype.__wrapped__() == dtype


def test_a_gradient_of_zeros_moves_nothing_but_the_decay():
    kernel, optimizer = variable([4, 8]), muon()
    before = kernel.numpy()
    optimizer.apply_gradients([(tf.zeros([4, 8]), kernel)])
    np.testing.assert_allclose(kernel, before * (1 - RATE * DECAY), rtol=1e-6)


def test_three_updates_are_those_of_numpy():
    shapes = {"square": (6, 6), "tall": (12, 5), "wide": (5, 12), "long": (3, 24), "vector": (7,)}
    variables = {name: variable(shape, 1, name) for name, shape in shapes.items()}
    expected = {name: v.numpy().astype(np.float64) for name, v in variables.items()}
    moments = {name: np.zeros(shape) for name, shape in shapes.items()}
    adam_m, adam_v = np.zeros(7), np.zeros(7)
    optimizer = muon()
    for step in range(3):
        gradients = {name: variable(shape, 10 + step).numpy() for name, shape in shapes.items()}
        optimizer.apply_gradients([(tf.constant(gradients[n]), variables[n]) for n in shapes])
        for name, shape in shapes.items():
            gradient = gradients[name].astype(np.float64)
            if name == "vector":  # AdamW, which does not decay vectors
                adam_m = 0.9 * adam_m + 0.1 * gradient
                adam_v = 0.999 * adam_v + 0.001 * gradient**2
                expected[name] -= RATE * adam_m / (np.sqrt(adam_v) + 1e-6)
                continue
            moments[name] = MOMENTUM * moments[name] + gradient
            direction = orthogonalized(gradient + MOMENTUM * moments[name])
            size = 0.2 * np.sqrt(max(shape))
            expected[name] -= RATE * (size * direction + DECAY * expected[name])
    for name in shapes:
        np.testing.assert_allclose(variables[name], expected[name], atol=5e-4, err_msg=name)
    assert optimizer.iterations.numpy() == 3
    np.testing.assert_allclose(optimizer.muon_m[0], moments["square"], rtol=1e-4, atol=1e-5)


def test_matrices_of_one_shape_are_updated_as_each_alone():
    shapes = [(4, 6), (6, 4), (4, 6)]
    together, alone = ([variable(s, i) for i, s in enumerate(shapes)] for _ in range(2))
    gradients = [tf.constant(variable(s, 20 + i).numpy()) for i, s in enumerate(shapes)]
    muon().apply_gradients(zip(gradients, together, strict=True))
    for gradient, one in zip(gradients, alone, strict=True):
        muon().apply_gradients([(gradient, one)])
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


def test_matrices_but_for_embeddings_are_orthogonalized():
    models = [
        heads.PretrainingModel(AlbertConfig.from_dict(tiny.CONFIG)),
        heads.ClassificationModel(AlbertConfig.from_dict(tiny.CONFIG), 3),
        heads.SquadV2Model(AlbertConfig.from_dict(tiny.CONFIG), 2, 2),
    ]
    for model in models:
        for name, v in name_table.named_variables(model).items():
            expected = v.shape.rank == 2 and not name.startswith("bert/embeddings/")
            assert optimization.is_orthogonalized(v) == expected, name


def test_the_second_moments_of_matrices_are_not_kept():
    model = heads.PretrainingModel(AlbertConfig.from_dict(tiny.CONFIG))
    named = name_table.named_variables(model)
    optimizer = muon()
    optimizer.build(list(named.values()))
    state = name_table.training_variables(named, optimizer)
    for name, v in named.items():
        found = {slot for slot in optimizer.slots if f"{name}/{slot}" in state}
        is_muon = optimization.is_orthogonalized(v)
        assert found == ({"muon_m"} if is_muon else {"adam_m", "adam_v"}), name
    assert len(optimizer.variables) == len(state) - len(named)


@tf_keras.utils.register_keras_serializable("tests")
def no_variable(variable):
    return False


def test_without_matrices_it_is_adamw():
    updated = []
    for optimizer in (muon(orthogonalized=no_variable), optimization.AdamW(RATE)):
        kernel = variable([3, 4])
        optimizer.apply_gradients([(tf.constant(variable([3, 4], 1).numpy()), kernel)])
        updated.append(kernel.numpy())
    np.testing.assert_array_equal(*updated)
