# SPDX-License-Identifier: Apache-2.0
"""What stands on the encoder: heads, their losses and their metrics.

Shapes:
    B batch, T sequence, E embedding, H hidden, V vocabulary, P predictions per sequence.

A loss is a sum over examples divided by a sum of weights. These sums, `totals`, are those of the
whole batch, and known before the model is called. So the losses and gradients of parts of a batch
add up to those of the whole, whether the parts lie on several replicas or come one after another.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.model.dropout import dropout
from albert_tf.model.encoder import (
    AlbertModel,
    Layer,
    LayerNorm,
    Linear,
    get_activation,
    truncated_normal,
)
from albert_tf.model.fused import cross_entropy, hits
from albert_tf.model.keras_model import (
    ConfiguredModel,
    model_inputs,
    number_of_classes,
    serializable,
)


class MaskedLM(Layer):
    """Predicts masked pieces; output weights are the word embeddings (section 3.1).

    Args:
        config: AlbertConfig.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        size, stddev, policy = config.embedding_size, config.initializer_range, self.dtype_policy
        self.transform = Linear(config.hidden_size, size, stddev, dtype=policy)
        self.layer_norm = LayerNorm(size, dtype=policy)
        self.output_bias = self.variable("output_bias", [config.vocab_size], "zeros")
        self._activation = get_activation(config.hidden_act)

    def call(self, sequence_output, positions, embedding_table):
        """Computes logits at the masked positions.

        Args:
            sequence_output: float tensor [B, T, H].
            positions: int32 tensor [B, P], indices into T.
            embedding_table: float32 tensor [V, E].

        Returns:
            float32 tensor [B, P, V].
        """
        shape = tf.shape(positions)
        x = tf.gather(sequence_output, positions, batch_dims=1)  # [B, P, H]
        x = tf.reshape(x, [-1, sequence_output.shape[-1]])  # [B * P, H]
        x = tf.cast(self.layer_norm(self._activation(self.transform(x))), self.compute_dtype)
        table = tf.cast(embedding_table, self.compute_dtype)
        logits = tf.cast(tf.matmul(x, table, transpose_b=True), tf.float32) + self.output_bias
        return tf.reshape(logits, [shape[0], shape[1], embedding_table.shape[0]])


class OutputWeights(Layer):
    """x W^T + b with W [outputs, H], the form of the original's small heads."""

    def __init__(self, outputs, hidden_size, stddev, **kwargs):
        super().__init__(**kwargs)
        self.weights_ = self.variable("weights", [outputs, hidden_size], truncated_normal(stddev))
        self.bias = self.variable("bias", [outputs], "zeros")

    def call(self, x):
        return tf.matmul(tf.cast(x, tf.float32), self.weights_, transpose_b=True) + self.bias


def encode(encoder, features, training=False):
    """An encoder's outputs for features.

    Args:
        encoder: AlbertModel.
        features: dict of int32 [B, T], of `model_inputs`, which says what they may be named.
        training: bool.

    Returns:
        dict, of AlbertModel.
    """
    input_ids, input_mask, token_type_ids = model_inputs(features)
    return encoder(
        input_ids, input_mask=input_mask, token_type_ids=token_type_ids, training=training
    )


@serializable
class PretrainingModel(ConfiguredModel):
    """Encoder, masked-LM head and sentence-order head (section 3.1).

    Called with the features of a pre-training record (`records.pretraining_schema`), it returns
    `masked_lm_logits` [B, P, V] and `sentence_order_logits` [B, 2], both float32.

    Args:
        config: AlbertConfig.
        use_one_hot_embeddings: bool, for TPUs.
        recompute: bool, of AlbertModel.
    """

    def __init__(self, config, use_one_hot_embeddings=False, recompute=False, **kwargs):
        encoder = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        super().__init__(config, encoder, **kwargs)
        policy = self.dtype_policy
        self.encoder = AlbertModel(config, **encoder, dtype=policy)
        self.masked_lm = MaskedLM(config, dtype=policy)
        self.sentence_order = OutputWeights(
            2, config.hidden_size, config.initializer_range, dtype=policy
        )

    def call(self, features, training=False):
        encoded = encode(self.encoder, features, training)
        return {
            "masked_lm_logits": self.masked_lm(
                encoded["sequence_output"],
                features["masked_lm_positions"],
                self.encoder.embedding_table,
            ),
            "sentence_order_logits": self.sentence_order(encoded["pooled_output"]),
        }


class Objective(NamedTuple):
    """What a model is trained for.

    Attributes:
        figures: tuple of str, names of the figures.
        weights: callable, features -> dict of name -> float32 tensor, the weights of each figure.
        terms: callable, (features, outputs) -> dict of name -> (values, weights): figures for each
            example, whose weighted means over all examples are the metrics. The weights add up to
            those of `weights`.
        loss: callable, (terms, totals) -> float32 scalar: the share of these examples in the loss
            of a batch whose weights add up to `totals`, a dict of name -> float32 scalar.
    """

    figures: tuple
    weights: Callable
    terms: Callable
    loss: Callable


def totals_of(weights):
    """Sums of weights: dict of name -> float32 tensor -> dict of name -> float32 scalar."""
    return {name: tf.reduce_sum(values) for name, values in weights.items()}


def _totals_in(terms):
    return totals_of({name: weights for name, (_, weights) in terms.items()})


def pretraining_weights(features):
    """Weights of the figures of `pretraining_terms`: predictions count, and sequences."""
    predictions = features["masked_lm_weights"]
    sequences = tf.ones_like(predictions[:, 0])
    return {
        "masked_lm_loss": predictions,
        "masked_lm_accuracy": predictions,
        "sentence_order_loss": sequences,
        "sentence_order_accuracy": sequences,
    }


def pretraining_terms(features, outputs):
    """Each figure of a pre-training batch with its weight, from which losses and metrics follow.

    Args:
        features: dict, with masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P] and
            next_sentence_labels int32 [B, 1]; 0 in order, 1 swapped or random.
        outputs: dict, of `PretrainingModel`.

    Returns:
        dict of name -> (values, weights), float32 tensors of the same shape: the original's four
        evaluation metrics.
    """
    masked_logits, masked_labels = outputs["masked_lm_logits"], features["masked_lm_ids"]
    order_logits = outputs["sentence_order_logits"]
    order_labels = tf.reshape(features["next_sentence_labels"], [-1])
    values = {
        "masked_lm_loss": cross_entropy(masked_labels, masked_logits),
        "masked_lm_accuracy": hits(masked_labels, masked_logits),
        "sentence_order_loss": cross_entropy(order_labels, order_logits),
        "sentence_order_accuracy": hits(order_labels, order_logits),
    }
    weights = pretraining_weights(features)
    return {name: (values[name], weights[name]) for name in values}


def pretraining_loss(terms, totals=None, sentence_loss_weight=1.0):
    """Masked-LM loss plus weighted sentence loss (section 3.1; its variants in Table 5).

    Args:
        terms: dict, of `pretraining_terms`.
        totals: dict of name -> float32 scalar, the weights' sums over the whole batch; None if
            `terms` are of the whole batch.
        sentence_loss_weight: float; 0 leaves the masked-LM loss alone.

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

# The original's, whatever the config says of initializer_range.
_HEAD_STDDEV = 0.02


@serializable
class ClassificationModel(ConfiguredModel):
    """Encoder with a classifier, or a regressor, on the pooled output (section 4.2).

    Called with input_ids, input_mask and token_type_ids, int32 [B, T], it returns `logits`
    float32 [B, outputs].

    Args:
        config: AlbertConfig.
        num_outputs: int, classes; 1 for regression.
        dropout_prob: float, of the pooled output; the original's is fixed at 0.1.
        use_one_hot_embeddings: bool, for TPUs.
        recompute: bool, of AlbertModel.
    """

    reads_pooler = True

    def __init__(
        self,
        config,
        num_outputs,
        dropout_prob=0.1,
        use_one_hot_embeddings=False,
        recompute=False,
        **kwargs,
    ):
        encoder = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        head = {"num_outputs": num_outputs, "dropout_prob": dropout_prob}
        super().__init__(config, head | encoder, **kwargs)
        policy = self.dtype_policy
        self.encoder = AlbertModel(config, **encoder, dtype=policy)
        self.classifier = OutputWeights(num_outputs, config.hidden_size, _HEAD_STDDEV, dtype=policy)
        self._dropout_prob = dropout_prob

    @classmethod
    def options_in(cls, shapes):
        """The number of outputs of a checkpoint that has a classifier."""
        return number_of_classes(shapes, "num_outputs")

    def call(self, features, training=False):
        encoded = encode(self.encoder, features, training)
        pooled = dropout(encoded["pooled_output"], self._dropout_prob, training)
        return {"logits": self.classifier(pooled)}


@serializable
class MultipleChoiceModel(ConfiguredModel):
    """Encoder that scores each of four options, RACE's (section 4.2).

    Called with input_ids, input_mask and token_type_ids, int32 [B, 4 * T], it returns `logits`
    float32 [B, 4].

    Args:
        config: AlbertConfig.
        dropout_prob: float, of the pooled output.
        choices: int.
        use_one_hot_embeddings: bool, for TPUs.
        recompute: bool, of AlbertModel.
    """

    reads_pooler = True

    def __init__(
        self,
        config,
        dropout_prob=0.1,
        choices=4,
        use_one_hot_embeddings=False,
        recompute=False,
        **kwargs,
    ):
        encoder = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        head = {"dropout_prob": dropout_prob, "choices": choices}
        super().__init__(config, head | encoder, **kwargs)
        self.scorer = ClassificationModel(
            config, 1, dropout_prob, **encoder, dtype=self.dtype_policy
        )
        self._choices = choices

    @property
    def encoder(self):
        """The encoder under the scorer."""
        return self.scorer.encoder

    @property
    def classifier(self):
        """The scorer's output layer."""
        return self.scorer.classifier

    def call(self, features, training=False):
        batch = tf.shape(features["input_ids"])[0]
        names = ("input_ids", "input_mask", "token_type_ids")
        options = {  # [B, 4 * T] -> [4 * B, T]
            name: tf.reshape(values, [batch * self._choices, -1])
            for name, values in zip(names, model_inputs(features), strict=True)
            if values is not None
        }
        logits = self.scorer(options, training=training)["logits"]
        return {"logits": tf.reshape(logits, [batch, self._choices])}


@serializable
class TokenClassificationModel(ConfiguredModel):
    """Encoder with a classifier of each piece, on the sequence output.

    Called with input_ids, input_mask and token_type_ids, int32 [B, T], it returns `logits` float32
    [B, T, C].

    Args:
        config: AlbertConfig.
        num_labels: int, C.
        dropout_prob: float, of the sequence output.
        predicted_length: int or None. With it, the outputs of prediction are [B, predicted_length,
            C], with zeros beyond T, so that batches of any length have outputs of one shape.
        use_one_hot_embeddings: bool, for TPUs.
        recompute: bool, of AlbertModel.
    """

    def __init__(
        self,
        config,
        num_labels,
        dropout_prob=0.1,
        predicted_length=None,
        use_one_hot_embeddings=False,
        recompute=False,
        **kwargs,
    ):
        encoder = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        head = {
            "num_labels": num_labels,
            "dropout_prob": dropout_prob,
            "predicted_length": predicted_length,
        }
        super().__init__(config, head | encoder, **kwargs)
        policy = self.dtype_policy
        self.encoder = AlbertModel(config, **encoder, dtype=policy)
        self.classifier = OutputWeights(num_labels, config.hidden_size, _HEAD_STDDEV, dtype=policy)
        self._dropout_prob, self._predicted_length = dropout_prob, predicted_length

    @classmethod
    def options_in(cls, shapes):
        """The number of labels of a checkpoint that has a classifier."""
        return number_of_classes(shapes, "num_labels")

    def call(self, features, training=False):
        x = encode(self.encoder, features, training)["sequence_output"]
        logits = _on_rows(self.classifier, dropout(x, self._dropout_prob, training))
        if not training and self._predicted_length:
            missing = self._predicted_length - tf.shape(logits)[1]
            logits = tf.pad(logits, [[0, 0], [0, missing], [0, 0]])
        return {"logits": logits}


def example_weights(features):
    """Weight 1 for each example [B], whatever the figure."""
    ones = tf.ones_like(features["input_ids"][:, 0], tf.float32)
    return {"eval_loss": ones, "eval_accuracy": ones}


def classification_terms(features, outputs):
    """Loss and hit of each example: logits [B, C], label_ids int32 [B, 1]."""
    labels, logits = tf.reshape(features["label_ids"], [-1]), outputs["logits"]
    weights = tf.ones_like(logits[:, 0])
    return {
        "eval_loss": (cross_entropy(labels, logits), weights),
        "eval_accuracy": (hits(labels, logits), weights),
    }


def token_weights(features):
    """Weight 1 where a word begins: label_mask int32 [B, L]."""
    weights = tf.cast(features["label_mask"], tf.float32)
    return {"eval_loss": weights, "eval_accuracy": weights}


def token_classification_terms(features, outputs):
    """Loss and hit of each piece, with weight 1 where a word begins.

    Args:
        features: dict, with label_ids and label_mask int32 [B, L]; L may exceed T, since batches
            are trimmed to their longest sequence and labels are not.
        outputs: dict, of `TokenClassificationModel`: logits [B, T, C].
    """
    logits = outputs["logits"]
    labels, mask = (
        features[name][:, : tf.shape(logits)[1]] for name in ("label_ids", "label_mask")
    )
    weights = tf.cast(mask, tf.float32)
    return {
        "eval_loss": (cross_entropy(labels, logits), weights),
        "eval_accuracy": (hits(labels, logits), weights),
    }


def regression_terms(features, outputs):
    """Squared error of each example: logits [B, 1], label_ids float32 [B, 1]."""
    errors = tf.math.squared_difference(outputs["logits"], features["label_ids"])[:, 0]
    return {"eval_loss": (errors, tf.ones_like(errors))}


def mean_loss(terms, totals=None):
    """Mean of `eval_loss` over a batch: the share of these examples in it (`pretraining_loss`)."""
    losses, weights = terms["eval_loss"]
    totals = _totals_in(terms) if totals is None else totals
    return tf.reduce_sum(losses * weights) / totals["eval_loss"]


_LOSS, _LOSS_AND_HITS = ("eval_loss",), ("eval_loss", "eval_accuracy")
PRETRAINING = Objective(
    ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy", "sentence_order_loss"),
    pretraining_weights,
    pretraining_terms,
    pretraining_loss,
)
CLASSIFICATION = Objective(_LOSS_AND_HITS, example_weights, classification_terms, mean_loss)
REGRESSION = Objective(_LOSS, example_weights, regression_terms, mean_loss)
TOKEN_CLASSIFICATION = Objective(
    _LOSS_AND_HITS, token_weights, token_classification_terms, mean_loss
)

# --- SQuAD -----------------------------------------------------------------------------------

# Stands for minus infinity in a softmax; float32 alone can hold it.
_FORBIDDEN = -1e30


@serializable
class SquadV1Model(ConfiguredModel):
    """Encoder that scores each piece as start and as end of the answer (appendix A.1).

    Called with input_ids, input_mask and token_type_ids, int32 [B, T], it returns `start_logits`
    and `end_logits`, float32 [B, T].

    Args:
        config: AlbertConfig.
        predicted_length: int or None. With it, the outputs of prediction are [B, predicted_length]
            and minus infinity at padding, so that they do not depend on how much padding a batch
            has. None: the logits of all T pieces, padding included, as the original.
        use_one_hot_embeddings: bool, for TPUs.
        recompute: bool, of AlbertModel.
    """

    def __init__(
        self, config, predicted_length=None, use_one_hot_embeddings=False, recompute=False, **kwargs
    ):
        encoder = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        super().__init__(config, {"predicted_length": predicted_length} | encoder, **kwargs)
        policy = self.dtype_policy
        self.encoder = AlbertModel(config, **encoder, dtype=policy)
        self.squad = OutputWeights(2, config.hidden_size, _HEAD_STDDEV, dtype=policy)
        self._predicted_length = predicted_length

    def call(self, features, training=False):
        x = encode(self.encoder, features, training)["sequence_output"]
        start_logits, end_logits = tf.unstack(_on_rows(self.squad, x), axis=-1)
        if not training and self._predicted_length:
            start_logits, end_logits = (
                self._without_padding(logits, features["input_mask"])
                for logits in (start_logits, end_logits)
            )
        return {"start_logits": start_logits, "end_logits": end_logits}

    def _without_padding(self, logits, input_mask):
        logits = tf.where(input_mask > 0, logits, -math.inf)
        missing = self._predicted_length - tf.shape(logits)[1]
        return tf.pad(logits, [[0, 0], [0, missing]], constant_values=-math.inf)


@serializable
class SquadV2Model(ConfiguredModel):
    """Encoder with a start, an end that depends on the start, and whether there is an answer.

    Called with input_ids, input_mask, token_type_ids and p_mask (1 where no answer can lie), int32
    [B, T], it returns `cls_logits` float32 [B], high for no answer, and
        in training, with start_positions int32 [B, 1] too: `start_logits` and `end_logits`
        float32 [B, T], the ends given the true starts;
        else: `start_top_index` and `start_top_log_probs` [B, start_n_top], `end_top_index` and
        `end_top_log_probs` [B, start_n_top * end_n_top], the best ends of each of the best starts.

    Span and answerability are trained jointly (appendix A.1, after XLNet, Yang et al., 2019).

    Args:
        config: AlbertConfig.
        start_n_top: int, starts in the beam.
        end_n_top: int, ends for each of them.
        dropout_prob: float, of the hidden layer that tells whether there is an answer.
        use_one_hot_embeddings: bool, for TPUs.
        recompute: bool, of AlbertModel.
    """

    def __init__(
        self,
        config,
        start_n_top=5,
        end_n_top=5,
        dropout_prob=0.1,
        use_one_hot_embeddings=False,
        recompute=False,
        **kwargs,
    ):
        encoder = {"use_one_hot_embeddings": use_one_hot_embeddings, "recompute": recompute}
        head = {"start_n_top": start_n_top, "end_n_top": end_n_top, "dropout_prob": dropout_prob}
        super().__init__(config, head | encoder, **kwargs)
        policy = self.dtype_policy
        self.encoder = AlbertModel(config, **encoder, dtype=policy)
        # Last layers compute in float32 under every precision: equal scores would be too frequent.
        self.start_logits = Linear(
            config.hidden_size, 1, config.initializer_range, dtype=tf.float32
        )
        self.end_logits = EndLogits(config, dtype=policy)
        self.answer_class = AnswerClass(config, dropout_prob, dtype=policy)
        self._start_n_top, self._end_n_top = start_n_top, end_n_top

    def call(self, features, training=False):
        x = encode(self.encoder, features, training)["sequence_output"]
        forbidden = tf.cast(features["p_mask"], tf.float32)
        start_logits = _masked(_on_rows(self.start_logits, x)[..., 0], forbidden)
        cls_logits = self.answer_class(x, start_logits, training=training)
        if training:
            starts = tf.reshape(features["start_positions"], [-1, 1])
            end_logits = self._end_logits(x, starts, forbidden)[:, 0]
            spans = {"start_logits": start_logits, "end_logits": end_logits}
        else:
            spans = self._beams(x, start_logits, forbidden)
        return {**spans, "cls_logits": cls_logits}

    def _beams(self, x, start_logits, forbidden):
        start_scores, starts = top(tf.nn.log_softmax(start_logits), self._start_n_top)
        end_logits = self._end_logits(x, starts, forbidden)
        end_scores, ends = top(tf.nn.log_softmax(end_logits), self._end_n_top)
        flat = [-1, self._start_n_top * self._end_n_top]  # start-major
        return {
            "start_top_index": starts,
            "start_top_log_probs": start_scores,
            "end_top_index": tf.reshape(ends, flat),
            "end_top_log_probs": tf.reshape(end_scores, flat),
        }

    def _end_logits(self, x, starts, forbidden):
        """Logits of the ends for each start: x [B, T, H], starts int32 [B, K] -> [B, K, T]."""
        starts = tf.minimum(starts, tf.shape(x)[1] - 1)  # `top` may point beyond the sequence
        start_outputs = tf.gather(x, starts, batch_dims=1)  # [B, K, H]
        return _masked(self.end_logits(x, start_outputs), forbidden[:, tf.newaxis])


class EndLogits(Layer):
    """Scores each piece as the end of an answer with a given start.

    Args:
        config: AlbertConfig.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        size, stddev = config.hidden_size, config.initializer_range
        self.dense_0 = Linear(2 * size, size, stddev, dtype=self.dtype_policy)
        self.layer_norm = LayerNorm(size, dtype=self.dtype_policy)
        self.dense_1 = Linear(size, 1, stddev, dtype=tf.float32)

    def call(self, x, starts):
        """Computes the logits of all pairs.

        Args:
            x: float32 tensor [B, T, H], the pieces.
            starts: float32 tensor [B, K, H], those of them that are starts.

        Returns:
            float32 tensor [B, K, T].
        """
        # [x, start] W = x W_x + start W_start: T + K products instead of K * T twice as wide ones.
        kernel = tf.cast(self.dense_0.kernel, self.compute_dtype)
        of_pieces, of_starts = (
            tf.tensordot(tf.cast(part, kernel.dtype), share, axes=1)
            for part, share in zip((x, starts), tf.split(kernel, 2), strict=True)
        )
        of_starts = tf.nn.bias_add(of_starts, tf.cast(self.dense_0.bias, kernel.dtype))
        pairs = of_pieces[:, tf.newaxis] + of_starts[:, :, tf.newaxis]  # [B, K, T, H]
        return _on_rows(self.dense_1, self.layer_norm(tf.tanh(pairs)))[..., 0]


class AnswerClass(Layer):
    """Tells whether the question has an answer, from the expected start and from [CLS].

    Args:
        config: AlbertConfig.
        dropout_prob: float, of the hidden layer.
    """

    def __init__(self, config, dropout_prob, **kwargs):
        super().__init__(**kwargs)
        size, stddev = config.hidden_size, config.initializer_range
        self.dense_0 = Linear(2 * size, size, stddev, dtype=tf.float32)
        self.dense_1 = Linear(size, 1, stddev, use_bias=False, dtype=tf.float32)
        self._dropout_prob = dropout_prob

    def call(self, x, start_logits, training=False):
        """Computes x [B, T, H], start_logits [B, T] -> [B], all float32; high for no answer."""
        start = tf.linalg.matvec(x, tf.nn.softmax(start_logits), transpose_a=True)  # [B, H]
        hidden = tf.tanh(self.dense_0(tf.concat([start, x[:, 0]], axis=-1)))
        return self.dense_1(dropout(hidden, self._dropout_prob, training))[:, 0]


def _on_rows(layer, x):
    """Applies a layer to the last axis: x [..., H] -> [..., outputs].

    By a product of matrices: that of [B, 1, T, H] and [H, 1] is wrong in TensorFlow 2.20 with
    oneDNN, even beyond its own memory.
    """
    rows = layer(tf.reshape(x, [-1, x.shape[-1]]))
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [rows.shape[-1]]], axis=0))


def _masked(logits, forbidden):
    """Logits, and -1e30 where `forbidden`, float32 that broadcasts to their shape, is 1."""
    return logits * (1.0 - forbidden) + _FORBIDDEN * forbidden


def top(log_probs, count):
    """The highest log-probabilities of the last axis and their indices [..., count].

    A sequence shorter than `count` goes on with impossible pieces, as if it had more padding.
    """
    missing = tf.maximum(count - tf.shape(log_probs)[-1], 0)
    paddings = [[0, 0]] * (log_probs.shape.rank - 1) + [[0, missing]]
    return tf.math.top_k(tf.pad(log_probs, paddings, constant_values=_FORBIDDEN), count)


def squad_v1_terms(features, outputs):
    """Loss of each example, the mean over start and end.

    Args:
        features: dict, with start_positions and end_positions int32 [B, 1].
        outputs: dict, of `SquadV1Model`.
    """
    losses = 0.5 * sum(
        cross_entropy(tf.reshape(features[f"{side}_positions"], [-1]), outputs[f"{side}_logits"])
        for side in ("start", "end")
    )
    return {"eval_loss": (losses, tf.ones_like(losses))}


def squad_v2_terms(features, outputs):
    """Loss of each example, half of it for the span and half for whether there is one.

    Args:
        features: dict, with start_positions, end_positions and is_impossible int32 [B, 1].
        outputs: dict, of `SquadV2Model` in training.
    """
    span_losses, weights = squad_v1_terms(features, outputs)["eval_loss"]
    class_losses = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(tf.reshape(features["is_impossible"], [-1]), tf.float32),
        logits=outputs["cls_logits"],
    )
    return {"eval_loss": (span_losses + 0.5 * class_losses, weights)}


SQUAD_V1 = Objective(_LOSS, example_weights, squad_v1_terms, mean_loss)
SQUAD_V2 = Objective(_LOSS, example_weights, squad_v2_terms, mean_loss)
