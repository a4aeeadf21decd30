# SPDX-License-Identifier: Apache-2.0
"""Writes checkpoints in the original's format, and in that of `tf.train.Checkpoint`."""

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import name_table, readers


def _write_tf1(prefix, tensors):
    """Writes plain names, as `tf.compat.v1.train.Saver` does; every TensorFlow can read them."""
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def _write_tf2(prefix, tensors):
    variables = {name: tf.Variable(value) for name, value in tensors.items()}
    tf.train.Checkpoint(variables=variables).write(prefix)


ENDINGS = (".data-00000-of-00001", ".index")  # the index last: it completes a checkpoint
WRITERS = {"tf1": _write_tf1, "tf2": _write_tf2}


def write(prefix, tensors, form):
    """Writes a checkpoint atomically.

    Args:
        prefix: str.
        tensors: dict of original name -> array; the step is 0 if absent.
        form: str, a key of `WRITERS`: `tf1` for the original's format, `tf2` for that of
            `tf.train.Checkpoint`.
    """
    temporary = files.temporary_path(prefix)
    try:
        WRITERS[form](temporary, {name_table.GLOBAL_STEP: np.int64(0), **tensors})
        files.remove(prefix + ".index")  # an old index must never lie next to new data
        for ending in ENDINGS:
            tf.io.gfile.rename(temporary + ending, prefix + ending, overwrite=True)
    finally:
        for ending in ENDINGS:
            files.remove(temporary + ending)


def read(prefix, with_moments=False):
    """Reads a checkpoint for `write`.

    Args:
        prefix: str.
        with_moments: bool, whether to read everything, or only weights and step.

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
    """Rewrites a checkpoint without optimizer slots, which makes it a third of the size.

    Args:
        prefix: str. A checkpoint without slots is not changed.
    """
    if any(map(name_table.is_slot, readers.TensorFlowReader(prefix).shapes)):
        write(prefix, *read(prefix))
