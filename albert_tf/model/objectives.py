# SPDX-License-Identifier: Apache-2.0
"""Training objectives: losses and metrics of a model's outputs.

Shapes:
    B batch, T sequence, P predictions per sequence, C classes, L labels of a sequence.

A loss is a sum over examples divided by a sum of weights. The sums of weights, `totals`, are over
the whole batch and are known before the model is called. So the losses and gradients of the parts
of a batch add up to those of the whole batch, whether the parts are computed on several replicas or
one after another.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.model.fused import cross_entropy, hits

_ORDER_LABEL = "next_sentence_labels"


class Objective(NamedTuple):
    """Training objective of a model.

    Attributes:
        metrics: tuple of str, names of the metrics.
        weights: callable, features -> dict of name -> float32 tensor, the weights of each loss.
        terms: callable, (features, outputs) -> dict of name -> (values, weights): values for each
            example, whose weighted means over all examples are the metrics. The weights of a loss
            add up to those of `weights`.
        loss: callable, (terms, totals) -> float32 scalar: the share of these examples in the loss
            of a batch whose weights add up to `totals`, a dict of name -> float32 scalar.
    """

    metrics: tuple
    weights: Callable
    terms: Callable
    loss: Callable


def totals_of(weights):
    """Sums weights: dict of name to float32 tensor -> dict of name to float32 scalar."""
    return {name: tf.reduce_sum(values) for name, values in weights.items()}


def _totals_in(terms):
    return totals_of({name: weights for name, (_, weights) in terms.items()})


def _class_terms(prefix, labels, logits, weights):
    """`<prefix>_loss` and `<prefix>_accuracy`: cross-entropy and hit of each label."""
    return {
        f"{prefix}_loss": (cross_entropy(labels, logits), weights[f"{prefix}_loss"]),
        f"{prefix}_accuracy": (hits(labels, logits), weights[f"{prefix}_loss"]),
    }


def pretraining_weights(features):
    """Weights of the losses of `pretraining_terms`, per prediction or per sequence."""
    predictions = features["masked_lm_weights"]
    weights = {"masked_lm_loss": predictions}
    if _ORDER_LABEL in features:
        weights["sentence_order_loss"] = tf.ones_like(predictions[:, 0])
    return weights


def pretraining_terms(features, outputs):
    """Values of a pre-training batch and their weights, for losses and metrics.

    Args:
        features: dict, with masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P] and,
            unless the records have one segment, next_sentence_labels int32 [B, 1]; 0 in order, 1
            swapped or random.
        outputs: dict, from `PretrainingModel`.

    Returns:
        dict of name -> (values, weights), float32 tensors of the same shape: the original's four
        evaluation metrics, or two of them without next_sentence_labels.
    """
    weights = pretraining_weights(features)
    terms = _class_terms(
        "masked_lm", features["masked_lm_ids"], outputs["masked_lm_logits"], weights
    )
    if _ORDER_LABEL in features:
        orders = tf.reshape(features[_ORDER_LABEL], [-1])
        terms |= _class_terms("sentence_order", orders, outputs["sentence_order_logits"], weights)
    return terms


def pretraining_loss(terms, totals=None, sentence_loss_weight=1.0):
    """Masked-LM loss plus weighted sentence loss (section 3.1; its variants in Table 5).

    Args:
        terms: dict, from `pretraining_terms`.
        totals: dict of name -> float32 scalar, sums of the weights over the whole batch; None if
            `terms` are of the whole batch.
        sentence_loss_weight: float; 0 leaves only the masked-LM loss, and the pooler and the
            sentence-order head as they are.

    Returns:
        float32 scalar: the share of these examples in the loss of the whole batch.
    """
    totals = _totals_in(terms) if totals is None else totals
    masked_losses, masked_weights = terms["masked_lm_loss"]
    # The original's constant, which keeps a batch without predictions from dividing by 0.
    loss = tf.reduce_sum(masked_losses * masked_weights) / (totals["masked_lm_loss"] + 1e-5)
    if sentence_loss_weight:
        order_losses, _ = terms["sentence_order_loss"]
        order_loss = tf.reduce_sum(order_losses) / totals["sentence_order_loss"]
        loss += sentence_loss_weight * order_loss
    return loss


# --- Fine-tuning -----------------------------------------------------------------------------


def example_weights(features):
    """Weight 1 for each example [B]."""
    return {"eval_loss": tf.ones_like(features["input_ids"][:, 0], tf.float32)}


def classification_terms(features, outputs):
    """Loss and hit of each example: logits [B, C], label_ids int32 [B, 1]."""
    labels = tf.reshape(features["label_ids"], [-1])
    return _class_terms("eval", labels, outputs["logits"], example_weights(features))


def token_weights(features):
    """Weight 1 where a word begins, from label_mask int32 [B, L]."""
    return {"eval_loss": tf.cast(features["label_mask"], tf.float32)}


def token_classification_terms(features, outputs):
    """Loss and hit of each token, with weight 1 where a word begins.

    Args:
        features: dict, with label_ids and label_mask int32 [B, L]; L may exceed T, since batches
            are trimmed to their longest sequence and labels are not.
        outputs: dict, from `TokenClassificationModel`: logits [B, T, C].
    """
    logits = outputs["logits"]
    labels, mask = (
        features[name][:, : tf.shape(logits)[1]] for name in ("label_ids", "label_mask")
    )
    return _class_terms("eval", labels, logits, token_weights({"label_mask": mask}))


def with_class_weights(objective, class_weights):
    """An objective of classes whose loss has a weight for each class.

    Args:
        objective: Objective, CLASSIFICATION or TOKEN_CLASSIFICATION.
        class_weights: sequence of C float.

    Returns:
        Objective.
    """

    def weighted(features, weights):
        shape = tf.shape(weights)  # [B], or [B, T] of words; their labels may go on beyond T
        labels = features["label_ids"][:, : tf.reduce_prod(shape[1:])]
        of_labels = tf.gather(tf.constant(class_weights, tf.float32), labels)
        return weights * tf.reshape(of_labels, shape)

    def weights(features):
        return {"eval_loss": weighted(features, objective.weights(features)["eval_loss"])}

    def terms(features, outputs):
        found = objective.terms(features, outputs)
        losses, of_losses = found["eval_loss"]
        return found | {"eval_loss": (losses, weighted(features, of_losses))}

    return objective._replace(weights=weights, terms=terms)


def regression_terms(features, outputs):
    """Squared error of each example, the mean over scores.

    logits float32 [B, K], label_ids float32 [B, K] or, with K = 1, [B].
    """
    logits = outputs["logits"]
    labels = tf.reshape(features["label_ids"], tf.shape(logits))
    errors = tf.math.squared_difference(logits, labels)
    errors = tf.reduce_mean(errors, axis=1)
    return {"eval_loss": (errors, tf.ones_like(errors))}


def standardised(objective, deviations):
    """REGRESSION with the loss of K scores that are divided by their standard deviations."""

    def terms(features, outputs):
        labels, logits = (x / deviations for x in (features["label_ids"], outputs["logits"]))
        return objective.terms({"label_ids": labels}, {"logits": logits})

    return objective._replace(terms=terms)


def mean_loss(terms, totals=None):
    """Share of these examples in the batch's mean `eval_loss`; arguments of `pretraining_loss`."""
    losses, weights = terms["eval_loss"]
    totals = _totals_in(terms) if totals is None else totals
    return tf.reduce_sum(losses * weights) / totals["eval_loss"]


def squad_v1_terms(features, outputs):
    """Loss of each example, the mean over start and end.

    Args:
        features: dict, with start_positions and end_positions int32 [B, 1].
        outputs: dict, from `SquadV1Model`.
    """
    losses = 0.5 * sum(
        cross_entropy(tf.reshape(features[f"{side}_positions"], [-1]), outputs[f"{side}_logits"])
        for side in ("start", "end")
    )
    return {"eval_loss": (losses, tf.ones_like(losses))}


def squad_v2_terms(features, outputs):
    """Loss of each example: the span's loss plus half the loss of the no-answer logit.

    Args:
        features: dict, with start_positions, end_positions and is_impossible int32 [B, 1].
        outputs: dict, from `SquadV2Model` in training.
    """
    span_losses, weights = squad_v1_terms(features, outputs)["eval_loss"]
    class_losses = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(tf.reshape(features["is_impossible"], [-1]), tf.float32),
        logits=outputs["cls_logits"],
    )
    return {"eval_loss": (span_losses + 0.5 * class_losses, weights)}


_LOSS, _LOSS_AND_HITS = ("eval_loss",), ("eval_loss", "eval_accuracy")
PRETRAINING = Objective(
    ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy", "sentence_order_loss"),
    pretraining_weights,
    pretraining_terms,
    pretraining_loss,
)
# For records without next_sentence_labels.
MASKED_LM = PRETRAINING._replace(metrics=PRETRAINING.metrics[:2])
CLASSIFICATION = Objective(_LOSS_AND_HITS, example_weights, classification_terms, mean_loss)
REGRESSION = Objective(_LOSS, example_weights, regression_terms, mean_loss)
TOKEN_CLASSIFICATION = Objective(
    _LOSS_AND_HITS, token_weights, token_classification_terms, mean_loss
)
SQUAD_V1 = Objective(_LOSS, example_weights, squad_v1_terms, mean_loss)
SQUAD_V2 = Objective(_LOSS, example_weights, squad_v2_terms, mean_loss)
