# SPDX-License-Identifier: Apache-2.0
"""A model of a few thousand parameters, without and with every kind of dropout; inputs for it."""

import dataclasses

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig

PLAIN = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=12,
)
SMALL = dataclasses.replace(PLAIN, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
BATCH, LENGTH = 3, 10


def whole(high, *shape):
    """Random whole numbers below `high`."""
    return np.random.RandomState(0).randint(0, high, shape).astype(np.int32)


def inputs(length=LENGTH):
    """Sequences with padding and both segments."""
    return {
        "input_ids": whole(40, BATCH, length),
        "input_mask": tf.sequence_mask([length, length - 3, 4], length, tf.int32),
        "segment_ids": whole(2, BATCH, length),
    }


MASKED = {  # labels of the pre-training; no tensors, which would initialize TensorFlow on import
    "masked_lm_positions": whole(LENGTH, BATCH, 4),
    "masked_lm_ids": whole(40, BATCH, 4),
    "masked_lm_weights": np.ones([BATCH, 4], np.float32),
    "next_sentence_labels": whole(2, BATCH, 1),
}
