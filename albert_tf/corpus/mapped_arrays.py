# SPDX-License-Identifier: Apache-2.0
"""Arrays in files: mapped into memory, and released after use."""

import functools
import mmap
import shutil
import tempfile

import numpy as np
import tensorflow as tf

_COPIED_TOGETHER = 1 << 24  # bytes
_MOST_COPIES = 4  # of remote files, as many as a corpus has


def open_array(path, kind, *shape):
    """The array in a file, for reading.

    Args:
        path: str. A remote file is copied.
        kind: type of the numbers.
        *shape: int; without any, the array has one dimension.

    Returns:
        numpy array; None if there is no such file.
    """
    if not tf.io.gfile.exists(path):
        return None
    if not tf.io.gfile.stat(path).length:  # which cannot be mapped
        return np.zeros(0, kind).reshape(shape or -1)
    found = _copied(path, kind) if "://" in path else np.memmap(path, kind, "r")
    # A view as a plain array: slices of np.memmap are slow.
    return np.asarray(found).reshape(shape or -1)


@functools.lru_cache(maxsize=_MOST_COPIES)
def _copied(path, kind):
    """The array in a remote file, read from a temporary copy that is deleted with the array."""
    with tempfile.TemporaryFile() as copy, tf.io.gfile.GFile(path, "rb") as file:
        shutil.copyfileobj(file, copy, _COPIED_TOGETHER)
        copy.flush()
        return np.memmap(copy, kind, "r")


def release(*arrays):
    """Releases the memory pages of mapped arrays.

    They are read again when needed, if possible from the system's cache. Without this, the process
    would seem to need as much memory as it has ever read.

    Args:
        *arrays: numpy arrays or None; those that are not mapped stay as they are.
    """
    for array in arrays:
        owner = array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            owner.madvise(mmap.MADV_DONTNEED)
