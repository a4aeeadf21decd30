# SPDX-License-Identifier: Apache-2.0
"""Writing weights as checkpoints, in the original's form and in this project's."""

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import name_table, readers


def make_checkpoint(state):
    """A `tf.train.Checkpoint` that files the variables of `state` under their names."""
    return tf.train.Checkpoint(variables=dict(state))


def _write_tf1(prefix, tensors):
    """As `tf.compat.v1.train.Saver` does: plain names, which every TensorFlow reads."""
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def _write_tf2(prefix, tensors):
    make_checkpoint({name: tf.Variable(value) for name, value in tensors.items()}).write(prefix)


ENDINGS = (".data-00000-of-00001", ".index")  # the index, which makes a checkpoint, comes last
WRITERS = {"tf1": _write_tf1, "tf2": _write_tf2}


def write(prefix, tensors, form):
    """Writes a checkpoint, whole or not at all.

    Args:
        prefix: str.
        tensors: dict of original name -> array; without a step, it is 0.
        form: str, a key of `WRITERS`: `tf1` for the original's form, `tf2` for this project's.
    """
    temporary = files.temporary_path(prefix)
    try:
        WRITERS[form](temporary, {name_table.GLOBAL_STEP: np.int64(0), **tensors})
        files.remove(prefix + ".index")  # it must not stand beside other data for a moment
        for ending in ENDINGS:
            tf.io.gfile.rename(temporary + ending, prefix + ending, overwrite=True)
    finally:
        for ending in ENDINGS:
            files.remove(temporary + ending)


def read(prefix, with_moments=False):
    """What a copy of a checkpoint is to hold, for `write`.

    Args:
        prefix: str.
        with_moments: bool, whether it holds everything, or weights and step.

    Returns:
        (dict of original name -> array; str, a key of `WRITERS`).
    """
    reader = readers.open_reader(prefix)
    names = [
        name
        for name in reader.shapes
        if with_moments or name_table.is_weight(name) or name == name_table.GLOBAL_STEP
    ]
    return {name: reader[name] for name in names}, reader.form


def drop_moments(prefix):
    """Writes a checkpoint anew without optimizer slots: a third of the size.

    Args:
        prefix: str. One that holds none is left alone.
    """
    tensors, form = read(prefix)
    if len(tensors) < len(readers.TensorFlowReader(prefix).shapes):
        write(prefix, tensors, form)
