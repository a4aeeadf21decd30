# SPDX-License-Identifier: Apache-2.0
"""The original's checkpoints of small models, and ways to read and write others."""

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import name_table, writers
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, optimization
from tests import GOLDEN

MODELS = GOLDEN / "model"
VARIANTS = ["base", "groups2", "groups3_layers5", "inner2", "noproj", "relu", "tanh_heads2"]
BASE = str(MODELS / "base" / "model.ckpt")
FORWARD = 2e-5  # absolute, of outputs and losses, as tests/golden/README.md says
TYPES, WORDS = (f"bert/embeddings/{kind}_embeddings" for kind in ("token_type", "word"))
BLOCK = "bert/encoder/transformer/group_{}/inner_group_0/"


def golden_config(variant="base", **overrides):
    config = AlbertConfig.from_json_file(str(MODELS / variant / "albert_config.json"))
    return dataclasses.replace(config, **overrides)


def named_model(config, kind=heads.PretrainingModel):
    return name_table.named_variables(kind(config))


def read(prefix):
    """All tensors of a file, by the names they have in it."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write(prefix, tensors):
    """Writes a checkpoint in TF1's format."""
    writers.WRITERS["tf1"](str(prefix), tensors)
    return str(prefix)


def values_of(named):
    return {name: variable.numpy() for name, variable in named.items()}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def assert_close(actual, expected, atol=FORWARD):
    assert tuple(actual.shape) == tuple(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def record_look_ups(model):
    """Makes a model put the embeddings that it looks up into the list that is returned."""
    embeddings, found = model.encoder.embeddings, []
    look_up = embeddings._look_up

    def recorded(table, ids):
        found.append(look_up(table, ids))
        return found[-1]

    embeddings._look_up = recorded
    return found


def gradients_and_norm(tape, loss, named, words, by_rows):
    """Dense gradients by name, and the norm that the original clips by on a CPU.

    Where the gradient of a table is a `tf.IndexedSlices` there, it squares the gradients of all
    rows that were looked up, without adding up first those of a row that was looked up twice.

    Args:
        tape: tf.GradientTape.
        loss: float32 scalar.
        named: dict of name -> variable.
        words: float32 tensor [B, T, E], the word embeddings that were looked up. They are added to
            the segment embeddings, whose gradient is therefore the same.
        by_rows: names of the tables whose gradient is a `tf.IndexedSlices` in the original.
    """
    gradients, of_rows = tape.gradient(loss, (named, words))
    dense = {n: g if g is None else tf.convert_to_tensor(g) for n, g in gradients.items()}
    squared = [g for name, g in dense.items() if name not in by_rows] + [of_rows] * len(by_rows)
    return dense, tf.linalg.global_norm(squared)


class EncoderOnly(tf.Module):
    """A model without heads."""

    def __init__(self, config):
        super().__init__()
        self.encoder = heads.AlbertModel(config)


def training_state(config, kind=optimization.LAMB):
    """A whole training state; (state, optimizer)."""
    named = named_model(config)
    optimizer = kind(optimization.PolynomialDecayWithWarmup(1e-3, 100))
    optimizer.build(list(named.values()))
    return name_table.training_variables(named, optimizer), optimizer


def scramble(state, step):
    values = np.random.RandomState(step)
    for name, variable in state.items():
        if name != name_table.GLOBAL_STEP:
            variable.assign(values.standard_normal(variable.shape).astype(np.float32))
    state[name_table.GLOBAL_STEP].assign(step)


def save(state, directory, step):
    """Saves as a training run does; returns the prefix."""
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(variables=state), str(directory), 5, checkpoint_name="model.ckpt"
    )
    return manager.save(checkpoint_number=step)


def copy(prefix, target):
    """Copies all of a checkpoint; makes the directory of the copy if necessary."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    writers.write(str(target), *writers.read(str(prefix), with_moments=True))
