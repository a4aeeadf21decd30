# SPDX-License-Identifier: Apache-2.0
"""The whole training step of every head compiles by XLA with static shapes, and computes the same.

That is what a TPU needs, and what `--enable_xla` does on other devices.
"""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import dropout, heads, objectives, optimization
from tests.model.small_config import BATCH, LENGTH, MASKED, SMALL, inputs, whole

CONFIG = dataclasses.replace(SMALL, num_hidden_layers=1)

SPANS = {
    "start_positions": whole(LENGTH, BATCH, 1),
    "end_positions": whole(LENGTH, BATCH, 1),
    "is_impossible": whole(2, BATCH, 1),
    "p_mask": whole(2, BATCH, LENGTH),
}
TOKENS = {"label_ids": whole(5, BATCH, LENGTH), "label_mask": whole(2, BATCH, LENGTH)}
REGRESSION = {"label_ids": tf.constant([[0.5], [1.0], [4.0]])}

# Name -> model, its features besides the inputs, terms.
HEADS = {
    "pretraining": (lambda: heads.PretrainingModel(CONFIG), MASKED, objectives.pretraining_terms),
    "recompute": (
        lambda: heads.PretrainingModel(CONFIG, use_one_hot_embeddings=True, recompute=True),
        MASKED, objectives.pretraining_terms,
    ),
    "classification": (
        lambda: heads.ClassificationModel(CONFIG, 3),
        {"label_ids": whole(3, BATCH, 1)}, objectives.classification_terms,
    ),
    "regression": (
        lambda: heads.ClassificationModel(CONFIG, 1), REGRESSION, objectives.regression_terms,
    ),
    "multiple_choice": (
        lambda: heads.MultipleChoiceModel(CONFIG),
        {**inputs(4 * LENGTH), "label_ids": whole(4, BATCH, 1)}, objectives.classification_terms,
    ),
    "token_classification": (
        lambda: heads.TokenClassificationModel(CONFIG, 5),
        TOKENS, objectives.token_classification_terms,
    ),
    "squad_v1": (lambda: heads.SquadV1Model(CONFIG), SPANS, objectives.squad_v1_terms),
    "squad_v2": (lambda: heads.SquadV2Model(CONFIG), SPANS, objectives.squad_v2_terms),
}  # fmt: skip


def trained(name, optimizer_name, jit_compile):
    """Losses of two steps, and the variables after them; the same start at every call."""
    make, extra, terms_of = HEADS[name]
    model, features = make(), {**inputs(), **extra}
    model(features, training=True)
    variables = model.trainable_variables
    for number, variable in enumerate(variables):
        state = np.random.RandomState(number)
        variable.assign(state.standard_normal(variable.shape) * 0.2 + (variable.shape.rank == 1))
    schedule = optimization.PolynomialDecayWithWarmup(0.01, 10, 2)
    optimizer = optimization.create_optimizer(optimizer_name, schedule)
    optimizer.build(variables)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def step(features):
        key = tf.stack([tf.constant(5), tf.cast(optimizer.iterations, tf.int32)])
        with dropout.seeded(key), tf.GradientTape() as tape:
            terms = terms_of(features, model(features, training=True))
            losses = [term for name, term in terms.items() if name.endswith("loss")]
            loss = sum(tf.reduce_sum(values * weights) for values, weights in losses) / BATCH
        gradients = tape.gradient(loss, variables)
        pairs = [(tf.convert_to_tensor(g), v) for g, v in zip(gradients, variables, strict=True)
                 if g is not None]  # fmt: skip
        clipped, norm = optimization.clip_by_global_norm([gradient for gradient, _ in pairs])
        optimizer.apply_gradients(zip(clipped, [v for _, v in pairs], strict=True))
        return loss, norm

    metrics = [step(features) for _ in range(2)]
    return metrics, {v.name: v for v in variables}


@pytest.mark.long
@pytest.mark.parametrize("name, optimizer", [*zip(HEADS, itertools.cycle(optimization.OPTIMIZERS))])
def test_a_step_compiles_and_computes_the_same(name, optimizer):
    metrics, variables = trained(name, optimizer, jit_compile=False)
    xla_metrics, xla_variables = trained(name, optimizer, jit_compile=True)
    np.testing.assert_allclose(xla_metrics, metrics, rtol=1e-4)
    for (key, one), other in zip(variables.items(), xla_variables.values(), strict=True):
        if "key" in key or "dense_1/bias" in key:  # their true gradient is 0; what is left is noise
            continue
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3, err_msg=key)
