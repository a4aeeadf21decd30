# SPDX-License-Identifier: Apache-2.0
"""Floating-point operations of a model's matrix products, computed from its sizes.

Everything else (norms, activations, softmax, the optimizer) does few operations and is left out,
as is usual for a model's FLOP/s. The second computation of `recompute` is left out too.
"""


def forward_flops(config, batch_size, length, predictions=0):
    """Operations of one forward pass; a multiplication and an addition count as two.

    Args:
        config: AlbertConfig.
        batch_size: int, number of sequences (four for each question of RACE).
        length: int, length of a sequence in tokens, with its padding.
        predictions: int, number of masked tokens per sequence that the masked-LM head predicts.
            The last block computes only these and the first; without predictions, it computes all.

    Returns:
        int.
    """
    tokens = batch_size * length
    embedding, hidden = config.embedding_size, config.hidden_size
    # The products of a token: query, output, feed-forward; its query with all keys; its weights
    # with all values.
    queries = 2 * hidden**2 + 2 * hidden * config.intermediate_size + 2 * length * hidden
    computed = batch_size * (predictions + 1 if predictions else length)  # in the last block
    blocks = config.num_hidden_layers * config.inner_group_num
    blocks = blocks * tokens * 2 * hidden**2 + ((blocks - 1) * tokens + computed) * queries
    mapping = tokens * embedding * hidden if embedding != hidden else 0
    pooler = batch_size * hidden**2
    masked_lm = batch_size * predictions * embedding * (hidden + config.vocab_size)
    return 2 * (blocks + mapping + pooler + masked_lm)


def training_flops(config, batch_size, length, predictions=0):
    """Operations of one training step, three times the forward pass.

    The backward pass has two products for each product of the forward pass.

    Args and result are those of `forward_flops`.
    """
    return 3 * forward_flops(config, batch_size, length, predictions)
