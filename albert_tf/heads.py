# SPDX-License-Identifier: Apache-2.0
"""What stands on the encoder: heads, their losses and their metrics.

Shapes:
    B batch, T sequence, E embedding, H hidden, V vocabulary, P predictions per sequence.

A loss is a sum over examples divided by a weight. `global_sum` adds such a weight up over all
replicas (identity on one device), so that the losses and gradients of the replicas add up to
those of the whole batch, however it was split.
"""

import tensorflow as tf
import tf_keras

from albert_tf.modeling import (
    AlbertModel,
    Dense,
    Layer,
    LayerNorm,
    dropout,
    get_activation,
    truncated_normal,
)


class MaskedLM(Layer):
    """Predicts masked pieces; output weights are the word embeddings (section 3.1).

    Args:
        config: AlbertConfig.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.transform = Dense(config.hidden_size, config.embedding_size, config.initializer_range)
        self.layer_norm = LayerNorm(config.embedding_size)
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


class PretrainingModel(tf_keras.Model):
    """Encoder, masked-LM head and sentence-order head (section 3.1).

    Called with the features of a pre-training record (`records.pretraining_schema`), it returns
    `masked_lm_logits` [B, P, V] and `sentence_order_logits` [B, 2], both float32.

    Args:
        config: AlbertConfig.
        use_one_hot_embeddings: bool, for TPUs.
    """

    def __init__(self, config, use_one_hot_embeddings=False, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.encoder = AlbertModel(config, use_one_hot_embeddings)
        self.masked_lm = MaskedLM(config)
        self.sentence_order = OutputWeights(2, config.hidden_size, config.initializer_range)

    def call(self, features, training=False):
        encoded = self.encoder(
            features["input_ids"],
            input_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
            training=training,
        )
        return {
            "masked_lm_logits": self.masked_lm(
                encoded["sequence_output"],
                features["masked_lm_positions"],
                self.encoder.embedding_table,
            ),
            "sentence_order_logits": self.sentence_order(encoded["pooled_output"]),
        }


def cross_entropy(labels, logits):
    """Cross-entropy of each row: int labels [...], float32 logits [..., C] -> [...]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


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
    masked_weights, order_weights = features["masked_lm_weights"], tf.ones_like(order_logits[:, 0])
    return {
        "masked_lm_loss": (cross_entropy(masked_labels, masked_logits), masked_weights),
        "masked_lm_accuracy": (_hits(masked_labels, masked_logits), masked_weights),
        "sentence_order_loss": (cross_entropy(order_labels, order_logits), order_weights),
        "sentence_order_accuracy": (_hits(order_labels, order_logits), order_weights),
    }


def pretraining_loss(terms, global_sum=tf.identity, sentence_loss_weight=1.0):
    """Masked-LM loss plus weighted sentence loss (section 3.1; its variants in Table 5).

    Args:
        terms: dict, of `pretraining_terms`.
        sentence_loss_weight: float; 0 leaves the masked-LM loss alone.
        global_sum: callable, adds a scalar up over all replicas.

    Returns:
        float32 scalar: this replica's share of the loss of the whole batch.
    """
    masked_losses, masked_weights = terms["masked_lm_loss"]
    # The original's constant, which keeps a batch without predictions from dividing by 0.
    masked_count = global_sum(tf.reduce_sum(masked_weights)) + 1e-5
    loss = tf.reduce_sum(masked_losses * masked_weights) / masked_count
    if sentence_loss_weight:
        order_losses, order_weights = terms["sentence_order_loss"]
        order_count = global_sum(tf.reduce_sum(order_weights))
        loss += sentence_loss_weight * tf.reduce_sum(order_losses) / order_count
    return loss


def _hits(labels, logits):
    return tf.cast(tf.equal(tf.argmax(logits, -1, output_type=labels.dtype), labels), tf.float32)


# --- Fine-tuning -----------------------------------------------------------------------------

# The original's, whatever the config says of initializer_range.
_HEAD_STDDEV = 0.02


class ClassificationModel(tf_keras.Model):
    """Encoder with a classifier, or a regressor, on the pooled output (section 4.2).

    Called with input_ids, input_mask and segment_ids, int32 [B, T], it returns `logits`
    float32 [B, outputs].

    Args:
        config: AlbertConfig.
        num_outputs: int, classes; 1 for regression.
        dropout_prob: float, of the pooled output; the original's is fixed at 0.1.
        use_one_hot_embeddings: bool, for TPUs.
    """

    def __init__(
        self, config, num_outputs, dropout_prob=0.1, use_one_hot_embeddings=False, **kwargs
    ):
        super().__init__(autocast=False, **kwargs)
        self.encoder = AlbertModel(config, use_one_hot_embeddings)
        self.classifier = OutputWeights(num_outputs, config.hidden_size, _HEAD_STDDEV)
        self._dropout_prob = dropout_prob

    def call(self, features, training=False):
        encoded = self.encoder(
            features["input_ids"],
            input_mask=features["input_mask"],
            token_type_ids=features["segment_ids"],
            training=training,
        )
        pooled = dropout(encoded["pooled_output"], self._dropout_prob, training)
        return {"logits": self.classifier(pooled)}


class MultipleChoiceModel(tf_keras.Model):
    """Encoder that scores each of four options, RACE's (section 4.2).

    Called with input_ids, input_mask and segment_ids, int32 [B, 4 * T], it returns `logits`
    float32 [B, 4].

    Args:
        config: AlbertConfig.
        dropout_prob: float, of the pooled output.
        choices: int.
        use_one_hot_embeddings: bool, for TPUs.
    """

    def __init__(self, config, dropout_prob=0.1, choices=4, use_one_hot_embeddings=False, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.scorer = ClassificationModel(config, 1, dropout_prob, use_one_hot_embeddings)
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
        options = {  # [B, 4 * T] -> [4 * B, T]
            name: tf.reshape(features[name], [batch * self._choices, -1])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        logits = self.scorer(options, training=training)["logits"]
        return {"logits": tf.reshape(logits, [batch, self._choices])}


def classification_terms(features, outputs):
    """Loss and hit of each example: logits [B, C], label_ids int32 [B, 1]."""
    labels, logits = tf.reshape(features["label_ids"], [-1]), outputs["logits"]
    weights = tf.ones_like(logits[:, 0])
    return {
        "eval_loss": (cross_entropy(labels, logits), weights),
        "eval_accuracy": (_hits(labels, logits), weights),
    }


def regression_terms(features, outputs):
    """Squared error of each example: logits [B, 1], label_ids float32 [B, 1]."""
    errors = tf.math.squared_difference(outputs["logits"], features["label_ids"])[:, 0]
    return {"eval_loss": (errors, tf.ones_like(errors))}


def mean_loss(terms, global_sum=tf.identity):
    """Mean of `eval_loss` over the batch; this replica's share of it."""
    losses, weights = terms["eval_loss"]
    return tf.reduce_sum(losses * weights) / global_sum(tf.reduce_sum(weights))
