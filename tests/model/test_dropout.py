# SPDX-License-Identifier: Apache-2.0
"""Dropout: exact rates, masks that follow from key and place, the same under XLA and in threads."""

import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import dropout

KEY = tf.constant([3, 4])


def masks(key, count=3, size=64, **kwargs):
    """The masks of several calls, bool [count, size]."""
    with dropout.seeded(key):
        return np.array([dropout.dropout(tf.ones([size]), 0.5, True) for _ in range(count)]) > 0


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
@pytest.mark.parametrize("rate", [0.1, 0.001, 0.5, 0.995])
@pytest.mark.parametrize("with_key", [True, False])
def test_rates_are_exact(dtype, rate, with_key):
    size = 1_000_001
    x = tf.ones([size], dtype)
    with dropout.seeded(KEY) if with_key else contextlib.nullcontext():
        y = dropout.dropout(x, rate, training=True)
    assert y.dtype == dtype
    y = tf.cast(y, tf.float32).numpy()
    assert np.mean(y == 0) == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / size))
    np.testing.assert_allclose(y[y != 0], tf.cast(1 / (1 - rate), dtype).numpy(), rtol=2e-3)


def test_the_scale_makes_up_for_what_is_dropped():
    for rate in (0.1, 0.3, 0.0001):
        assert dropout.kept_share(rate) == pytest.approx(1 - rate, abs=2**-17)
        assert (dropout.kept_share(rate) * 2**16).is_integer()  # 16 random bits decide
    with dropout.seeded(KEY):
        y = dropout.dropout(tf.ones([100]), 0.3, training=True).numpy()
    np.testing.assert_allclose(y[y != 0], 1 / dropout.kept_share(0.3), rtol=1e-6)


def test_neighbouring_elements_are_independent():
    keep = dropout.keep_mask([1_000_000], 0.5, KEY).numpy()
    for distance in (1, 2, 3, 4, 8, 128):
        same = np.mean(keep[distance:] == keep[:-distance])
        assert same == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(keep.size))


@pytest.mark.parametrize("training, rate", [(False, 0.5), (True, 0.0)])
def test_nothing_is_dropped_in_inference_or_at_rate_0(training, rate):
    x = tf.ones([10])
    assert dropout.dropout(x, rate, training) is x


def test_masks_follow_from_key_and_place():
    first = masks(KEY)
    np.testing.assert_array_equal(masks(KEY), first)
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        assert np.any(first[one] != first[other])
    assert not np.array_equal(masks(tf.constant([3, 5])), first)
    assert not np.array_equal(masks(tf.constant([4, 4])), first)


def test_masks_without_a_key_differ():
    draw = tf.function(lambda: dropout.dropout(tf.ones([100]), 0.5, True))
    assert not np.array_equal(draw(), draw())


def test_the_key_is_a_tensor_of_a_traced_step():
    traces = []

    @tf.function
    def step(key):
        traces.append(key)
        with dropout.seeded(key):
            return [dropout.dropout(tf.ones([64]), 0.5, True) for _ in range(3)]

    for key in (KEY, tf.constant([8, 9])):
        np.testing.assert_array_equal(np.array(step(key)) > 0, masks(key))
    assert len(traces) == 1


@pytest.mark.parametrize("key", [KEY, tf.constant([-5, 2**31 - 1]), tf.constant([0, -1])])
def test_xla_and_unknown_shapes_give_the_same_masks(key):
    def drop(x, key):
        with dropout.seeded(key):
            return dropout.dropout(x, 0.3, True)

    x = tf.constant(np.random.RandomState(0).standard_normal([5, 7, 3]), tf.float32)
    compiled = tf.function(drop, jit_compile=True)
    unknown = tf.TensorSpec([None, None, None], tf.float32)
    traced = tf.function(drop, input_signature=[unknown, tf.TensorSpec([2], tf.int32)])
    for function in (compiled, traced):
        np.testing.assert_allclose(function(x, key), drop(x, key), rtol=1e-6)


def test_keys_of_steps_and_replicas_are_the_same_under_xla():
    def keys(step):
        return dropout.fold_in(dropout.fold_in(KEY, step), 1)

    compiled = tf.function(keys, jit_compile=True)
    steps = tf.range(20)
    found = [keys(step) for step in steps]
    np.testing.assert_array_equal([compiled(step) for step in steps], found)
    assert len({tuple(key.numpy()) for key in found}) == 20 and np.min(found) >= 0


def test_gradients_pass_where_values_do():
    x = tf.Variable(tf.ones([200]))
    with tf.GradientTape() as tape, dropout.seeded(KEY):
        y = dropout.dropout(x, 0.3, True)
    np.testing.assert_allclose(tape.gradient(y, x), y, rtol=1e-6)


def test_a_key_inside_another_counts_anew_and_the_outer_goes_on():
    with dropout.seeded(KEY):
        outer_first = dropout.next_key()
        with dropout.seeded(tf.constant([1, 2])):
            inner = dropout.next_key()
        outer_second = dropout.next_key()
    with dropout.seeded(KEY):
        expected = [dropout.next_key() for _ in range(2)]
    np.testing.assert_array_equal([outer_first, outer_second], expected)
    assert not np.array_equal(inner, outer_first)


def test_an_error_inside_ends_the_key():
    with pytest.raises(ZeroDivisionError), dropout.seeded(KEY):
        _ = 1 / 0
    assert not np.array_equal(dropout.next_key(), dropout.next_key())


def test_threads_count_for_themselves():
    results = {}

    def run(name, key):
        results[name] = masks(key)

    with dropout.seeded(KEY):
        dropout.next_key()
        keys = {"a": KEY, "b": tf.constant([5, 6])}
        threads = [threading.Thread(target=run, args=item) for item in keys.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name, key in keys.items():
        np.testing.assert_array_equal(results[name], masks(key))
