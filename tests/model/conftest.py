# SPDX-License-Identifier: Apache-2.0
"""Fixtures that several tests of this folder use."""

import pytest
import tf_keras


@pytest.fixture
def policy():
    """Sets the precision of the process; the one before comes back after a test."""
    before = tf_keras.mixed_precision.global_policy()
    yield tf_keras.mixed_precision.set_global_policy
    tf_keras.mixed_precision.set_global_policy(before)
