# SPDX-License-Identifier: Apache-2.0
"""Compiled elementwise functions against the plain ones; where they are taken, and where not."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.model import dropout, encoder, fused, optimization
from tests.model.small_config import SMALL, inputs

KEY = tf.constant([1, 2])


@pytest.fixture(autouse=True)
def compile_all(monkeypatch):
    """Compiles for tensors of any size."""
    monkeypatch.setattr(fused, "SMALLEST", 0)


def normal(*shape, dtype=tf.float32, seed=0):
    return tf.cast(np.random.RandomState(seed).standard_normal(shape), dtype)


def keep(shape):
    return dropout.keep_mask(list(shape), 0.25, KEY)


def norm_case(dtype, mask):
    x, residual = normal(6, 40, dtype=dtype), normal(6, 40, dtype=dtype, seed=1)
    bias, gamma, beta = (normal(40, seed=seed) for seed in (5, 6, 7))
    return [x, bias, residual, gamma, beta], lambda *given: fused.add_norm(*given, mask, 0.25)


def softmax_case(dtype, mask):
    adder = -10000.0 * tf.cast(tf.range(7) > 4, tf.float32)[tf.newaxis, tf.newaxis, tf.newaxis]
    logits = normal(2, 3, 7, 7, dtype=dtype) * 3
    return [logits], lambda logits: fused.masked_softmax(logits, adder, mask, 0.25)


def activation_case(dtype, name):
    function = encoder.get_activation(name)
    given = [normal(6, 40, dtype=dtype) * 2, normal(40, seed=1)]
    return given, lambda x, bias: fused.bias_activation(x, bias, function)


CASES = {
    **{f"bias_{name}": lambda d, name=name: activation_case(d, name) for name in ("gelu", "tanh")},
    "add_norm": lambda dtype: norm_case(dtype, None),
    "add_norm_dropout": lambda dtype: norm_case(dtype, keep([6, 40])),
    "softmax": lambda dtype: softmax_case(dtype, None),
    "softmax_dropout": lambda dtype: softmax_case(dtype, keep([2, 3, 7, 7])),
    "split_heads": lambda dtype: (
        [normal(6, 8, dtype=dtype), normal(8, seed=1)],
        lambda x, bias: fused.split_heads(x, bias, 0.3, 3, 4),
    ),
    "copies": lambda dtype: (
        [normal(6, 8, dtype=dtype)],
        lambda x: sum(tf.sin(copy) * n for n, copy in enumerate(fused.copies(x, 4))),
    ),
    "cross_entropy": lambda dtype: (
        [normal(3, 5, 40) * 4],
        lambda logits: fused.cross_entropy(LABELS, logits),
    ),
}
LABELS = tf.constant(np.random.RandomState(3).randint(0, 40, [3, 5]), tf.int32)


def values_and_gradients(given, function, on):
    @tf.function(autograph=False)
    def run(*given):
        with fused.compiled(on), tf.GradientTape() as tape:
            tape.watch(given)
            y = function(*given)
        slope = tf.cos(tf.range(tf.size(y), dtype=tf.float32))  # a gradient that varies
        slope = tf.cast(tf.reshape(slope, tf.shape(y)), y.dtype)
        return y, tape.gradient(y, given, output_gradients=slope)

    return run(*given)


def compiled_functions(library):
    """Functions of a graph that XLA has to compile."""
    return [f for f in library.function if f.attr["_XlaMustCompile"].b]


def clusters(function, *args):
    graph = function.get_concrete_function(*args).graph.as_graph_def()
    return compiled_functions(graph.library)


@pytest.mark.parametrize("dtype, tolerance", [(tf.float32, 1e-6), (tf.bfloat16, 0.05)])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_plain_form(name, dtype, tolerance):
    given, function = CASES[name](dtype)
    plain, compiled = (values_and_gradients(given, function, on) for on in (False, True))
    for one, other in zip(tf.nest.flatten(plain), tf.nest.flatten(compiled), strict=True):
        assert one.dtype == other.dtype
        one, other = tf.cast(one, tf.float32).numpy(), tf.cast(other, tf.float32).numpy()
        np.testing.assert_allclose(other, one, tolerance, tolerance * np.abs(one).max())


@pytest.mark.parametrize("name", [name for name in CASES if name != "copies"])
def test_compiled_forms_are_taken_where_wanted_and_shapes_are_static(name):
    given, function = CASES[name](tf.float32)

    def run(on, *given):
        with fused.compiled(on):
            return function(*given)

    traced = tf.function(run, autograph=False)
    assert clusters(traced, True, *given)
    assert not clusters(traced, False, *given)
    unknown = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in given]
    if name not in ("split_heads", "cross_entropy"):  # these take a static length in the cases
        assert not clusters(traced, True, *unknown)


def test_small_tensors_are_not_worth_compiling(monkeypatch):
    monkeypatch.setattr(fused, "SMALLEST", 241)
    given, _ = CASES["bias_gelu"](tf.float32)
    with fused.compiled():
        assert not fused.compiles(given[0])
        assert fused.compiles(tf.zeros([241]))


def test_equal_logits_count_as_argmax_counts_them():
    logits = tf.constant([[1, 3, 3, 2], [1, 3, 3, 2], [0, 0, 0, 0], [0, 0, 0, 0], [5, 1, 1, 1.0]])
    ties = tf.round(normal(300, 6))
    labels_of_ties = tf.constant(np.random.RandomState(1).randint(0, 6, [300]), tf.int32)
    expected = fused.hits(labels_of_ties, ties)
    for on in (False, True):
        with fused.compiled(on):
            found = fused.hits(tf.constant([1, 2, 0, 3, 0]), logits)
            np.testing.assert_array_equal(found, [1, 0, 1, 0, 1])
            np.testing.assert_array_equal(fused.hits(labels_of_ties, ties), expected)


@pytest.mark.long
def test_predictions_and_exports_hold_no_compiled_form(tmp_path):
    model = encoder.AlbertModel(dataclasses.replace(SMALL, num_hidden_layers=1))
    predict = tf.function(lambda ids: model(ids)["pooled_output"], autograph=False)
    ids = inputs()["input_ids"]
    with fused.compiled():
        assert clusters(tf.function(lambda ids: model(ids, training=True)), ids)
    module = tf.Module()
    module.predict = predict.get_concrete_function(ids)
    module.model = model
    tf.saved_model.save(module, str(tmp_path), signatures=module.predict)
    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    assert not compiled_functions(saved.meta_graphs[0].graph_def.library)


@pytest.mark.parametrize("name", optimization.OPTIMIZERS)
def test_optimizers_make_the_same_updates(name, monkeypatch):
    monkeypatch.setattr(optimization, "fast_dtype", lambda: tf.float32)

    def updated(on):
        variables = [tf.Variable(value) for value in (normal(5, 7), normal(7), tf.zeros([2, 2]))]
        optimizer = optimization.create_optimizer(name, 0.1)
        optimizer.build(variables)

        @tf.function(autograph=False)
        def step(seed):
            with fused.compiled(on):
                gradients = [tf.sin(tf.cast(seed, tf.float32) + v) for v in variables]
                optimizer.apply_gradients(zip(gradients, variables, strict=True))

        for seed in range(3):
            step(tf.constant(seed))
        return [*variables, *optimizer.variables]

    for one, other in zip(updated(False), updated(True), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


def test_gradients_of_shared_kernels_are_added_up_in_float32():
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    # 1 + 64 * 2 ** -9 is 1.125; in bfloat16, each of the additions would round to 1.
    parts = [1.0, *[2.0**-9] * 64]
    kernel = tf.Variable(tf.ones([1]))
    with fused.compiled(), tf.GradientTape() as tape:
        copies = fused.copies(kernel, 65, tf.bfloat16)
        y = sum(tf.cast(c * part, tf.float32) for c, part in zip(copies, parts, strict=True))
    assert float(tape.gradient(y, kernel)[0]) == 1.125
