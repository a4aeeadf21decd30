# SPDX-License-Identifier: Apache-2.0
"""Models for tasks: the encoder with a head.

Shapes:
    B batch, T sequence, E embedding, H hidden, V vocabulary, P predictions per sequence.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import check_whole
from albert_tf.model.dropout import dropout
from albert_tf.model.encoder import (
    AlbertModel,
    Layer,
    LayerNorm,
    Linear,
    get_activation,
    truncated_normal,
)
from albert_tf.model.keras_model import ConfiguredModel, model_inputs, required, serializable

# Stands for minus infinity in a softmax; only float32 can hold it.
_FORBIDDEN = -1e30
ENCODER_OPTIONS = ("use_one_hot_embeddings", "recompute")  # of AlbertModel


class MaskedLM(Layer):
    """Predicts masked tokens; its output weights are the word embeddings (section 3.1).

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

    def call(self, x, embedding_table):
        """Computes logits of tokens.

        Args:
            x: float tensor [B, P, H], outputs of the encoder at masked positions.
            embedding_table: float32 tensor [V, E].

        Returns:
            float32 tensor [B, P, V].
        """
        shape = tf.shape(x)
        x = tf.reshape(x, [-1, x.shape[-1]])  # [B * P, H]
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


class ModelWithHead(ConfiguredModel):
    """A model with an encoder, `encoder`, to which a subclass adds a head.

    Args:
        config: AlbertConfig.
        head: dict, the arguments of the subclass by name, which become attributes.
        **options: arguments of AlbertModel and of tf_keras.Model.

    Raises:
        UserError: a classifier has no outputs.
    """

    def __init__(self, config: AlbertConfig, head: dict[str, Any], **options: Any) -> None:
        if self.classes_option:
            check_whole(self.classes_option, head[self.classes_option], 1)
        encoder = {name: options.pop(name, False) for name in ENCODER_OPTIONS}
        super().__init__(config, head | encoder, **options)
        self.encoder = AlbertModel(config, **encoder, dtype=self.dtype_policy)
        for name, value in head.items():
            setattr(self, name, value)

    def _pooled_output(self, features, training):
        """The pooled output, with dropout at the head's rate."""
        inputs = model_inputs(features)
        nowhere = inputs["input_ids"][:, :0]  # [B, 0]
        pooled = self.encoder(inputs, training=training, positions=nowhere)["pooled_output"]
        return dropout(pooled, self.dropout_prob, training)

    def _output_weights(self, outputs, stddev=0.02):
        # The default is the original's value, which does not depend on initializer_range.
        return OutputWeights(outputs, self.config.hidden_size, stddev, dtype=self.dtype_policy)


@serializable
class PretrainingModel(ModelWithHead):
    """Encoder, masked-LM head and sentence-order head (section 3.1).

    Called with input_ids, input_mask, token_type_ids and masked_lm_positions int32 [B, P], as in a
    pre-training record (`records.schemas`), it returns `masked_lm_logits` [B, P, V] and
    `sentence_order_logits` [B, 2], both float32.

    Args:
        config: AlbertConfig.
        **options: arguments of AlbertModel and of tf_keras.Model.
    """

    def __init__(self, config: AlbertConfig, **options: Any) -> None:
        super().__init__(config, {}, **options)
        self.masked_lm = MaskedLM(config, dtype=self.dtype_policy)
        self.sentence_order = self._output_weights(2, config.initializer_range)

    def call(self, features: Mapping[str, Any], training: Any = False) -> dict[str, Any]:
        positions = required(features, "masked_lm_positions")
        encoded = self.encoder(features, training=training, positions=positions)
        words = self.encoder.embeddings.word  # the head is tied to them
        return {
            "masked_lm_logits": self.masked_lm(encoded["sequence_output"], words),
            "sentence_order_logits": self.sentence_order(encoded["pooled_output"]),
        }


# --- Fine-tuning -----------------------------------------------------------------------------


@serializable
class ClassificationModel(ModelWithHead):
    """Encoder with a classifier, or a regressor, on the pooled output (section 4.2).

    Called with input_ids, input_mask and token_type_ids, int32 [B, T], it returns `logits`
    float32 [B, outputs]. With windows of a text, int32 [B, W * T], these are the means of the
    logits of the windows whose mask is not all 0.

    Args:
        config: AlbertConfig.
        num_outputs: int, number of classes; 1 for regression.
        dropout_prob: float, dropout rate of the pooled output; fixed at 0.1 in the original.
        windows: int, W.
        scale: means and standard deviations of scores, two sequences of floats; the head computes
            standardised ones, and `logits` are scores in their own units.
        **options: arguments of AlbertModel and of tf_keras.Model.
    """

    reads_pooler = True
    classes_option = "num_outputs"

    def __init__(
        self,
        config: AlbertConfig,
        num_outputs: int,
        dropout_prob: float = 0.1,
        windows: int = 1,
        scale: Sequence[Sequence[float]] | None = None,
        **options: Any,
    ) -> None:
        head: dict[str, Any] = {"num_outputs": num_outputs, "dropout_prob": dropout_prob}
        head |= {"windows": windows, "scale": scale}
        super().__init__(config, head, **options)
        self.classifier = self._output_weights(num_outputs)

    def call(self, features: Mapping[str, Any], training: Any = False) -> dict[str, Any]:
        several = self.windows > 1
        parts, exists = _sequences(features, self.windows) if several else (features, None)
        logits = self.classifier(self._pooled_output(parts, training))
        if self.scale:
            means, deviations = self.scale
            logits = logits * tf.constant(deviations, tf.float32) + tf.constant(means, tf.float32)
        if not several:
            return {"logits": logits}
        logits, weights = (
            tf.reshape(x, [-1, self.windows, x.shape[1]])
            for x in (logits, tf.cast(exists, tf.float32))
        )
        count = tf.maximum(tf.reduce_sum(weights, axis=1), 1.0)
        return {"logits": tf.reduce_sum(logits * weights, axis=1) / count}


def _sequences(features, count):
    """The sequences of rows of several.

    Args:
        features: dict of int32 [B, N * T] or [B, N, T].
        count: int, N.

    Returns:
        (dict of [B * N, T], as `model_inputs` gives; bool [B * N, 1], whether the mask of a
        sequence is not all 0).
    """
    inputs = model_inputs(features, may_be_apart=True)
    batch = tf.shape(inputs["input_ids"])[0]
    found = {
        name: tf.reshape(values, [batch * count, -1])
        for name, values in inputs.items()
        if values is not None
    }
    mask = found.get("input_mask", tf.ones_like(found["input_ids"], tf.float32))
    return found, tf.reduce_any(mask > 0, axis=-1, keepdims=True)


@serializable
class MultipleChoiceModel(ModelWithHead):
    """Encoder that scores each option of a question, four in RACE (section 4.2).

    Called with input_ids, input_mask and token_type_ids, int32 [B, N * T] for N options, it returns
    `logits` float32 [B, N]. An option whose mask is all 0 does not exist: its logit is -1e30.

    Args:
        config: AlbertConfig.
        dropout_prob: float, dropout rate of the pooled output.
        choices: int, number of options.
        **options: arguments of AlbertModel and of tf_keras.Model.
    """

    reads_pooler = True

    def __init__(
        self, config: AlbertConfig, dropout_prob: float = 0.1, choices: int = 4, **options: Any
    ) -> None:
        super().__init__(config, {"dropout_prob": dropout_prob, "choices": choices}, **options)
        self.classifier = self._output_weights(1)

    def call(self, features: Mapping[str, Any], training: Any = False) -> dict[str, Any]:
        options, exists = _sequences(features, self.choices)
        logits = self.classifier(self._pooled_output(options, training))
        logits = tf.where(exists, logits, _FORBIDDEN)
        return {"logits": tf.reshape(logits, [-1, self.choices])}


@serializable
class TokenClassificationModel(ModelWithHead):
    """Encoder with a classifier of each token, on the sequence output.

    Called with input_ids, input_mask and token_type_ids, int32 [B, T], it returns `logits` float32
    [B, T, C].

    Args:
        config: AlbertConfig.
        num_labels: int, C.
        dropout_prob: float, dropout rate of the sequence output.
        predicted_length: int or None. If given, the outputs of prediction have the shape
            [B, predicted_length, C], with zeros beyond T, so that batches of any length have
            outputs of one shape.
        **options: arguments of AlbertModel and of tf_keras.Model.
    """

    classes_option = "num_labels"

    def __init__(
        self,
        config: AlbertConfig,
        num_labels: int,
        dropout_prob: float = 0.1,
        predicted_length: int | None = None,
        **options: Any,
    ) -> None:
        head = {"num_labels": num_labels, "dropout_prob": dropout_prob}
        super().__init__(config, head | {"predicted_length": predicted_length}, **options)
        self.classifier = self._output_weights(num_labels)

    def call(self, features: Mapping[str, Any], training: Any = False) -> dict[str, Any]:
        x = self.encoder(features, training=training)["sequence_output"]
        logits = _on_rows(self.classifier, dropout(x, self.dropout_prob, training))
        if not training and self.predicted_length:
            missing = self.predicted_length - tf.shape(logits)[1]
            logits = tf.pad(logits, [[0, 0], [0, missing], [0, 0]])
        return {"logits": logits}


# --- SQuAD -----------------------------------------------------------------------------------


@serializable
class SquadV1Model(ModelWithHead):
    """Encoder that scores each token as start and as end of the answer (appendix A.1).

    Called with input_ids, input_mask and token_type_ids, int32 [B, T], it returns `start_logits`
    and `end_logits`, float32 [B, T].

    Args:
        config: AlbertConfig.
        predicted_length: int or None. If given, the outputs of prediction have the shape
            [B, predicted_length] and are minus infinity at padding, so that they do not depend on
            how much padding a batch has. If None, they are the logits of all T tokens, including
            padding, as in the original.
        **options: arguments of AlbertModel and of tf_keras.Model.
    """

    def __init__(
        self, config: AlbertConfig, predicted_length: int | None = None, **options: Any
    ) -> None:
        super().__init__(config, {"predicted_length": predicted_length}, **options)
        self.squad = self._output_weights(2)

    def call(self, features: Mapping[str, Any], training: Any = False) -> dict[str, Any]:
        x = self.encoder(features, training=training)["sequence_output"]
        logits = _on_rows(self.squad, x)  # [B, T, 2]
        if not training and self.predicted_length:
            mask = required(features, "input_mask")
            logits = tf.where(mask[..., tf.newaxis] > 0, logits, -math.inf)
            missing = self.predicted_length - tf.shape(logits)[1]
            logits = tf.pad(logits, [[0, 0], [0, missing], [0, 0]], constant_values=-math.inf)
        start_logits, end_logits = tf.unstack(logits, axis=-1)
        return {"start_logits": start_logits, "end_logits": end_logits}


@serializable
class SquadV2Model(ModelWithHead):
    """Encoder that predicts a start, an end given the start, and whether there is an answer.

    Called with input_ids, input_mask, token_type_ids and p_mask (1 where no answer can lie), int32
    [B, T], it returns `cls_logits` float32 [B], high for no answer, and
        in training, with start_positions int32 [B, 1] too: `start_logits` and `end_logits`
        float32 [B, T], the ends scored for the true starts;
        else: `start_top_index` and `start_top_log_probs` [B, start_n_top], `end_top_index` and
        `end_top_log_probs` [B, start_n_top * end_n_top], the best ends of each of the best starts.

    Span and answerability are trained jointly (appendix A.1, after XLNet, Yang et al., 2019).

    Args:
        config: AlbertConfig.
        start_n_top: int, number of starts in the beam.
        end_n_top: int, number of ends for each start.
        dropout_prob: float, dropout rate of the hidden layer that tells if there is an answer.
        **options: arguments of AlbertModel and of tf_keras.Model.
    """

    def __init__(
        self,
        config: AlbertConfig,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout_prob: float = 0.1,
        **options: Any,
    ) -> None:
        head = {"start_n_top": start_n_top, "end_n_top": end_n_top, "dropout_prob": dropout_prob}
        super().__init__(config, head, **options)
        policy = self.dtype_policy
        # The last layers always compute in float32: lower precision gives too many equal scores.
        self.start_logits = Linear(
            config.hidden_size, 1, config.initializer_range, dtype=tf.float32
        )
        self.end_logits = EndLogits(config, dtype=policy)
        self.answer_class = AnswerClass(config, dropout_prob, dtype=policy)

    def call(self, features: Mapping[str, Any], training: Any = False) -> dict[str, Any]:
        forbidden = tf.cast(required(features, "p_mask"), tf.float32)
        x = self.encoder(features, training=training)["sequence_output"]
        start_logits = _masked(_on_rows(self.start_logits, x)[..., 0], forbidden)
        cls_logits = self.answer_class(x, start_logits, training=training)
        if training:
            starts = tf.reshape(required(features, "start_positions"), [-1, 1])
            end_logits = self._end_logits(x, starts, forbidden)[:, 0]
            spans = {"start_logits": start_logits, "end_logits": end_logits}
        else:
            spans = self._beams(x, start_logits, forbidden)
        return {**spans, "cls_logits": cls_logits}

    def _beams(self, x, start_logits, forbidden):
        start_scores, starts = top(tf.nn.log_softmax(start_logits), self.start_n_top)
        end_logits = self._end_logits(x, starts, forbidden)
        end_scores, ends = top(tf.nn.log_softmax(end_logits), self.end_n_top)
        flat = [-1, self.start_n_top * self.end_n_top]  # start-major
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
    """Scores each token as the end of an answer with a given start.

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
            x: float32 tensor [B, T, H], the tokens.
            starts: float32 tensor [B, K, H], the tokens that are starts.

        Returns:
            float32 tensor [B, K, T].
        """
        # [x, start] W = x W_x + start W_start: T + K products, not K * T products twice as wide.
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
        dropout_prob: float, dropout rate of the hidden layer.
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

    Uses a 2-D product, because TensorFlow 2.20 with oneDNN computes the product of [B, 1, T, H] and
    [H, 1] wrongly, and even writes beyond its own memory.
    """
    rows = layer(tf.reshape(x, [-1, x.shape[-1]]))
    return tf.reshape(rows, tf.concat([tf.shape(x)[:-1], [rows.shape[-1]]], axis=0))


def _masked(logits, forbidden):
    """Replaces logits by -1e30 where `forbidden` (float32 that broadcasts to their shape) is 1."""
    return logits * (1.0 - forbidden) + _FORBIDDEN * forbidden


def top(log_probs, count):
    """The highest log-probabilities of the last axis and their indices [..., count].

    A sequence shorter than `count` is extended by impossible tokens, as if it had more padding.
    """
    missing = tf.maximum(count - tf.shape(log_probs)[-1], 0)
    paddings = [[0, 0]] * (log_probs.shape.rank - 1) + [[0, missing]]
    return tf.math.top_k(tf.pad(log_probs, paddings, constant_values=_FORBIDDEN), count)
