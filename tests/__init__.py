# SPDX-License-Identifier: Apache-2.0
"""Where tests find things."""

from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
SHARED = ROOT.parent / "shared"
SIZES = {"vocab_size": 30000, "type_vocab_size": 2}  # of the model of a task


def read_arrays(path):
    """The arrays of an .npz file by name. It is closed, which `np.load` leaves to the reader."""
    with np.load(path) as arrays:
        return dict(arrays)
