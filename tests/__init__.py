# SPDX-License-Identifier: Apache-2.0
"""Where tests find things, and the model most of them use."""

from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
SHARED = ROOT.parent / "shared"
TINY_CONFIG = {  # a model for the vocabularies of golden/tokenization that is trained in a second
    "vocab_size": 3000,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
SIZES = {"vocab_size": 30000, "type_vocab_size": 2}  # of the model of a task


def read_arrays(path):
    """The arrays of an .npz file by name. It is closed, which `np.load` leaves to the reader."""
    with np.load(path) as arrays:
        return dict(arrays)
