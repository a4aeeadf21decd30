# SPDX-License-Identifier: Apache-2.0
"""Training with activations computed again: the same numbers, the same masks, less memory."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model import dropout, encoder, fused, heads

KEY = tf.constant([1, 2])
CONFIG = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.3,
)
IDS = np.random.RandomState(0).randint(0, 60, [3, 12]).astype(np.int32)
FEATURES = {"input_ids": IDS, "input_mask": IDS > 5, "segment_ids": IDS % 2}


def gradients_of(model, key=KEY, on=False, weights=None, **trace):
    """Logits and gradients of a classification model by a key."""

    @tf.function(autograph=False, **trace)
    def step(features, key):
        with dropout.seeded(key), fused.compiled(on), tf.GradientTape() as tape:
            logits = model(features, training=True)["logits"]
            loss = tf.reduce_sum(logits * [[1.0, -2.0]])
        gradients = tape.gradient(loss, model.trainable_variables)
        return logits, [tf.convert_to_tensor(gradient) for gradient in gradients]

    features = {name: tf.constant(value, tf.int32) for name, value in FEATURES.items()}
    if weights is not None:
        model(features)
        model.set_weights(weights)
    return step(features, key), step.get_concrete_function(features, key)


def pair_of(config):
    models = [heads.ClassificationModel(config, 2, recompute=flag) for flag in (False, True)]
    gradients_of(models[0])
    weights = [w + 0.2 * np.sin(np.arange(w.size)).reshape(w.shape)
               for w in models[0].get_weights()]  # fmt: skip
    return models, weights


def assert_same(one, other, rtol=1e-5, atol=2e-6):
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=atol * max(1, np.abs(a).max()))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_hidden_groups": 2, "inner_group_num": 2},
        {"parameter_sharing": "attention"},
        {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    ],
)
def test_gradients_are_those_of_the_plain_step_with_dropout(changes):
    (plain, again), weights = pair_of(dataclasses.replace(CONFIG, **changes))
    expected, _ = gradients_of(plain, weights=weights)
    actual, _ = gradients_of(again, weights=weights)
    assert_same(expected, actual)
    other_masks, _ = gradients_of(again, key=tf.constant([1, 3]))
    assert not np.allclose(other_masks[0], expected[0])


def test_compiled_forms_and_xla_give_the_same(monkeypatch):
    monkeypatch.setattr(fused, "SMALLEST", 0)
    (plain, again), weights = pair_of(dataclasses.replace(CONFIG, num_hidden_layers=2))
    expected, _ = gradients_of(plain, weights=weights)
    assert_same(expected, gradients_of(again, weights=weights, on=True)[0])
    assert_same(expected, gradients_of(again, jit_compile=True)[0])


def test_outputs_of_all_layers_have_gradients():
    models = [encoder.AlbertModel(CONFIG, recompute=flag) for flag in (False, True)]
    results = []
    for model in models:
        model(IDS)
        model.set_weights([np.cos(np.arange(w.size)).reshape(w.shape) for w in model.get_weights()])
        with dropout.seeded(KEY), tf.GradientTape() as tape:
            outputs = model(IDS, training=True)["encoder_outputs"]
            loss = sum(tf.reduce_sum(tf.sin(output)) * n for n, output in enumerate(outputs, 1))
        gradients = tape.gradient(
            loss, [model.embeddings.position, model.ffn_groups[0][0].intermediate.kernel]
        )
        results.append((loss, gradients))
    assert_same(*results)


def test_without_a_key_the_masks_are_those_of_the_forward_pass():
    # The gradient of a function that is linear in its last kernel is the function itself.
    model = encoder.AlbertModel(dataclasses.replace(CONFIG, num_hidden_layers=1), recompute=True)
    block = model.ffn_groups[0][0]

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


def test_the_backward_pass_computes_the_blocks_again():
    def products(traced):
        names = [operation.type for operation in traced.graph.get_operations()]
        return names.count("BatchMatMulV2")

    (plain, again), weights = pair_of(CONFIG)
    _, traced = gradients_of(plain, weights=weights)
    _, traced_again = gradients_of(again, weights=weights)
    assert products(traced_again) - products(traced) == 2 * CONFIG.num_hidden_layers


def test_every_head_takes_it():
    models = [
        heads.PretrainingModel(CONFIG, recompute=True),
        heads.ClassificationModel(CONFIG, 2, recompute=True),
        heads.MultipleChoiceModel(CONFIG, recompute=True),
        heads.TokenClassificationModel(CONFIG, 3, recompute=True),
        heads.SquadV1Model(CONFIG, recompute=True),
        heads.SquadV2Model(CONFIG, recompute=True),
    ]
    assert all(model.encoder._recompute for model in models)
