# SPDX-License-Identifier: Apache-2.0
"""ALBERT in TensorFlow 2, with the numbers of the original release.

    import albert_tf
    loaded = albert_tf.load("albert_base")
    print(loaded.fill_mask("Returns the [MASK] of the list."))

The names in `dir(albert_tf)` are loaded on first use. This keeps the import of the package quick,
and parts that do not need TensorFlow do not load it.
"""

import importlib
import os
import re

# TensorFlow's log lines would bury the output of scripts. Its errors are raised as exceptions too.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

__version__ = "1.0.0.dev0"

_HOME = {
    "LAMB": "model.optimization",
    "AdamW": "model.optimization",
    "Muon": "model.optimization",
    "AlbertConfig": "config",
    "AlbertModel": "model.encoder",
    "ClassificationModel": "model.heads",
    "FullTokenizer": "text.tokenization",
    "Loaded": "api.loaded",
    "MultipleChoiceModel": "model.heads",
    "PolynomialDecayWithWarmup": "model.optimization",
    "PretrainingModel": "model.heads",
    "SquadV1Model": "model.heads",
    "SquadV2Model": "model.heads",
    "TokenClassificationModel": "model.heads",
    "UserError": "errors",
    "load": "api.load",
}
_MODULES = {"checkpoints": "checkpoints", "heads": "model.heads"}
__all__ = [*_HOME, *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"albert_tf.{_MODULES[name]}")
    if name not in _HOME:
        is_of_others = re.match("from_pretrained|pipeline|(TF)?(Auto|Albert)[A-Z]", name)
        hint = ": albert_tf.load(path) gives a model with its tokenizer" if is_of_others else ""
        raise AttributeError(f"module 'albert_tf' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(f"albert_tf.{_HOME[name]}"), name)


def __dir__():
    return sorted([*__all__, "__version__"])
