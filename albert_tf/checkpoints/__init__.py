# SPDX-License-Identifier: Apache-2.0
"""Reads and writes weights in the formats of the original, this project and other libraries."""

import importlib

_HOME = {"load": "loading", "named_variables": "name_table"}
__all__ = list(_HOME)


def __getattr__(name):  # lazy, for parts that do not need TensorFlow
    if name not in _HOME:
        raise AttributeError(f"module 'albert_tf.checkpoints' has no attribute {name!r}")
    return getattr(importlib.import_module(f"albert_tf.checkpoints.{_HOME[name]}"), name)
