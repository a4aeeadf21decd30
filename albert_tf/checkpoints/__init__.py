# SPDX-License-Identifier: Apache-2.0
"""Weights from and to files of the original, of ours and of other libraries."""

import importlib

_HOME = {"load": "loading", "named_variables": "name_table"}
__all__ = list(_HOME)


def __getattr__(name):  # so that a part that needs no TensorFlow does not wait for it
    if name not in _HOME:
        raise AttributeError(f"module 'albert_tf.checkpoints' has no attribute {name!r}")
    return getattr(importlib.import_module(f"albert_tf.checkpoints.{_HOME[name]}"), name)
