# SPDX-License-Identifier: Apache-2.0
"""How far gradients may lie apart that are equal but for the rounding of float32."""

import numpy as np

TOLERANCE = 1e-6  # of a gradient's norm; float32 numbers have 6e-8
# Where gradients nearly cancel, rounding does not shrink with them. Those of a key bias are 0 but
# for rounding: the bias adds the same to the logits of all keys.
SMALLEST_SHARE = 1e-2  # of the norm of all gradients together


def assert_close_gradients(actual, expected, tolerance=TOLERANCE):
    """Compares gradients variable by variable, relative to their norms: dicts of name -> array."""
    assert actual.keys() == expected.keys()
    norms = {name: np.linalg.norm(np.float64(value)) for name, value in expected.items()}
    smallest = SMALLEST_SHARE * np.linalg.norm(list(norms.values()))
    errors = {
        name: np.linalg.norm(np.float64(actual[name]) - expected[name]) / max(norm, smallest)
        for name, norm in norms.items()
    }
    assert smallest > 0 and max(errors.values()) <= tolerance, errors
