# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: written under a temporary name, then renamed."""

import contextlib
import os

import tensorflow as tf


@contextlib.contextmanager
def replacing(*paths):
    """Gives temporary names for `paths`; renames them into place if the block ends well.

    Args:
        paths: str, final names; their directories are made if need be.

    Yields:
        list of str, names to write to, in the same directories.
    """
    temporary = [f"{path}.tmp{os.getpid()}" for path in paths]
    for path in paths:
        make_directory(os.path.dirname(path))
    try:
        yield temporary
        for name, path in zip(temporary, paths, strict=True):
            tf.io.gfile.rename(name, path, overwrite=True)
    finally:
        for name in temporary:
            if tf.io.gfile.exists(name):
                tf.io.gfile.remove(name)


def write_text(path, text):
    """Writes a whole text file."""
    with replacing(path) as (name,), tf.io.gfile.GFile(name, "w") as file:
        file.write(text)


def read_text(path):
    """Reads a whole text file; an empty string where there is none."""
    if not tf.io.gfile.exists(path):
        return ""
    with tf.io.gfile.GFile(path) as file:
        return file.read()


def make_directory(path):
    """Makes a directory and its parents.

    Raises:
        ValueError: it cannot be made; the message names it.
    """
    try:
        tf.io.gfile.makedirs(path or ".")
    except (tf.errors.OpError, OSError) as error:
        raise ValueError(f"cannot make the directory {path}: {error}") from error


def check_writable(directory, flag):
    """Finds out before any work whether files can be made in a directory, which is made if need be.

    Args:
        directory: str.
        flag: str, name of the flag that gave it, for the message.

    Raises:
        ValueError: they cannot, or TensorFlow could not read them again.
    """
    if "[" in directory:  # a prefix is a name when it is written, a pattern when it is read
        raise ValueError(
            f"--{flag}={directory} has a [ in its name, which TensorFlow takes for a pattern when "
            "it reads checkpoints. Choose another name"
        )
    try:
        make_directory(directory)
        probe = os.path.join(directory, f".write_test_{os.getpid()}")
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError, ValueError) as error:
        raise ValueError(f"--{flag}={directory} is not writable: {error}") from error
