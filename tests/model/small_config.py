# SPDX-License-Identifier: Apache-2.0
"""A model of a few thousand parameters, without and with every kind of dropout."""

import dataclasses

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
