# SPDX-License-Identifier: Apache-2.0
"""ALBERT in TensorFlow 2, with the numbers of the original release.

`AlbertConfig`, `AlbertModel`, `FullTokenizer` and the module `heads` can be imported from here.
They are loaded when first used, so that a part that needs no TensorFlow does not wait for it.
"""

import importlib
import os

# tf_keras (Keras 2) and Keras 3 do not mix. This code imports tf_keras by name; the variable makes
# tf.keras mean the same in a user's own code, if it is set before the first use of tf.keras.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# TensorFlow's own notes would bury the scripts' lines; its errors still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

__version__ = "0.1.0"
__all__ = ["AlbertConfig", "AlbertModel", "FullTokenizer"]

_HOME = {
    "AlbertConfig": "config",
    "AlbertModel": "model.encoder",
    "FullTokenizer": "text.tokenization",
}
_MODULES = {"heads": "model.heads"}


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"albert_tf.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'albert_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(f"albert_tf.{_HOME[name]}"), name)
