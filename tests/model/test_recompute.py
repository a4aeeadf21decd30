# SPDX-License-Identifier: Apache-2.0
"""Training with activations computed again: the same numbers, the same masks, less memory."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.model import dropout, encoder, fused, heads
from tests.model.gradient_errors import assert_close_gradients
from tests.model.small_config import SMALL

KEY = tf.constant([1, 2])
IDS = np.random.RandomState(0).randint(0, 60, [3, 12]).astype(np.int32)
FEATURES = {"input_ids": IDS, "input_mask": np.int32(IDS > 5), "segment_ids": IDS % 2}


def gradients_of(model, key=KEY, on=False, **trace):
    """Logits and gradients of a classification model by a key."""

    @tf.function(autograph=False, **trace)
    def step(features, key):
        with dropout.seeded(key), fused.compiled(on), tf.GradientTape() as tape:
            logits = model(features, training=True)["logits"]
            loss = tf.reduce_sum(logits * [[1.0, -2.0]])
        gradients = tape.gradient(loss, model.trainable_variables)
        return logits, [tf.convert_to_tensor(gradient) for gradient in gradients]

    return step(FEATURES, key), step.get_concrete_function(FEATURES, key)


def pair_of(config):
    """A plain model, and one of the same weights that computes activations again."""
    tf_keras.utils.set_random_seed(5)
    models = [heads.ClassificationModel(config, 2, recompute=flag) for flag in (False, True)]
    for model in models:
        model(FEATURES)
    given = models[0].get_weights()
    for model in models:
        model.set_weights([w + 0.2 * np.sin(np.arange(w.size)).reshape(w.shape) for w in given])
    return models


def assert_same(model, expected, actual, **tolerance):
    """Compares logits and gradients of `gradients_of`."""
    (logits, gradients), (other_logits, others) = expected, actual
    np.testing.assert_allclose(other_logits, logits, rtol=1e-5, atol=2e-6)
    names = [variable.name for variable in model.trainable_variables]
    named = [dict(zip(names, values, strict=True)) for values in (others, gradients)]
    assert_close_gradients(*named, **tolerance)


@pytest.mark.long
@pytest.mark.parametrize("changes", [{}, {"parameter_sharing": "attention"}])
def test_gradients_are_those_of_the_plain_step_with_dropout(changes):
    plain, again = pair_of(dataclasses.replace(SMALL, **changes))
    expected, _ = gradients_of(plain)
    actual, _ = gradients_of(again)
    assert_same(plain, expected, actual)
    other_masks, _ = gradients_of(again, key=tf.constant([1, 3]))
    assert not np.allclose(other_masks[0], expected[0])


@pytest.mark.long
def test_compiled_forms_and_xla_give_the_same(monkeypatch):
    monkeypatch.setattr(fused, "SMALLEST", 0)
    plain, again = pair_of(SMALL)
    expected, _ = gradients_of(plain)
    # The forms differ by rounding, with and without activations computed again.
    rounding = {"tolerance": 5e-6}
    assert_same(plain, expected, gradients_of(again, on=True)[0], **rounding)
    assert_same(plain, expected, gradients_of(again, jit_compile=True)[0], **rounding)


def test_outputs_of_all_layers_have_gradients():
    models = [encoder.AlbertModel(SMALL, recompute=flag) for flag in (False, True)]
    results, losses = [], []
    for model in models:
        model(IDS)
        model.set_weights([np.cos(np.arange(w.size)).reshape(w.shape) for w in model.get_weights()])
        with dropout.seeded(KEY), tf.GradientTape() as tape:
            outputs = model(IDS, training=True)["encoder_outputs"]
            loss = sum(tf.reduce_sum(tf.sin(output)) * n for n, output in enumerate(outputs, 1))
        variables = [model.embeddings.position, model.ffn_blocks[0].intermediate.kernel]
        gradients = tape.gradient(loss, variables)
        results.append(dict(enumerate(gradients)))
        losses.append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert_close_gradients(*reversed(results))


def test_without_a_key_the_masks_are_those_of_the_forward_pass():
    # The gradient of a function that is linear in its last kernel is the function itself.
    model = encoder.AlbertModel(dataclasses.replace(SMALL, num_hidden_layers=1), recompute=True)
    block = model.ffn_blocks[0]

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            y = model(IDS, training=True)["sequence_output"]
            loss = tf.reduce_sum(y * tf.reshape(tf.range(16.0), [1, 1, 16]))
        gamma, beta = tape.gradient(loss, [block.layer_norm.gamma, block.layer_norm.beta])
        return loss, gamma, beta

    for _ in range(3):
        loss, gamma, beta = step()
        linear = tf.reduce_sum(gamma * block.layer_norm.gamma + beta * block.layer_norm.beta)
        np.testing.assert_allclose(linear, loss, rtol=1e-4, atol=1e-3)


@pytest.mark.long
def test_the_backward_pass_computes_the_blocks_again():
    def products(traced):
        names = [operation.type for operation in traced.graph.get_operations()]
        return names.count("BatchMatMulV2")

    plain, again = pair_of(SMALL)
    _, traced = gradients_of(plain)
    _, traced_again = gradients_of(again)
    assert products(traced_again) - products(traced) == 2 * SMALL.num_hidden_layers
