# SPDX-License-Identifier: Apache-2.0
"""Operations of a step, against those that TensorFlow counts in a graph."""

import dataclasses

import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model import flops, heads
from tests.model.small_config import BATCH, LENGTH, MASKED, PLAIN, inputs

TINY = dataclasses.replace(PLAIN, num_hidden_layers=3)
BASE = AlbertConfig(
    vocab_size=30000, hidden_size=768, num_attention_heads=12, intermediate_size=3072
)


def counted(function, *args):
    """Operations of all matrix products of a function's graph, from their shapes."""
    graph = function.get_concrete_function(*args).graph
    total = 0
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr(
                "transpose_a" if operation.type == "MatMul" else "adj_x"
            )
            inner = operation.inputs[0].shape[-2 if transposed else -1]
            total += 2 * inner * operation.outputs[0].shape.num_elements()
    return total


@pytest.mark.parametrize(
    "changes", [{}, {"inner_group_num": 2}, {"embedding_size": 16}, {"num_hidden_groups": 3}]
)
def test_operations_are_those_of_the_graph(changes):
    config = dataclasses.replace(TINY, **changes)
    model = heads.PretrainingModel(config)
    forward = counted(tf.function(lambda features: model(features)), inputs() | MASKED)
    sentence_order = 2 * BATCH * config.hidden_size * 2
    assert flops.forward_flops(config, BATCH, LENGTH, predictions=4) == forward - sentence_order


def test_operations_of_albert_base():
    # 12 blocks of 12 H^2 + 2 T H products a piece, the mapping and the pooler. With predictions,
    # the last block has 10 H^2 + 2 T H for 107 of 128 pieces less, and the head is added.
    assert flops.training_flops(BASE, 8, 128) == pytest.approx(537.2e9, rel=0.001)
    assert flops.training_flops(BASE, 8, 128, predictions=20) == pytest.approx(509.7e9, rel=0.001)
    assert flops.training_flops(BASE, 8, 128) == 3 * flops.forward_flops(BASE, 8, 128)
