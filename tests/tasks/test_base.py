# SPDX-License-Identifier: Apache-2.0
"""What tasks share: the warning of a collapse, and the mean of batches."""

import numpy as np
import pytest

from albert_tf.tasks.base import Task, mean_over_batches
from tests.errors import assert_says


def test_collapse_warning():
    task = Task()
    task.labels, task.classified = ("yes", "no"), "texts"
    same, different = np.float32([[0.1, 0.9], [0.3, 0.7]]), np.float32([[0.1, 0.9], [0.7, 0.3]])
    assert_says(task.warning(None, {"logits": same}), "2 ... 'no'")
    assert task.warning(None, {"logits": different}) is None
    assert task.warning(None, {"logits": same[:1]}) is None
    task.labels = None
    assert task.warning(None, {"logits": np.float32([[1.0], [1.0]])}) is None


def test_loss_of_the_results_is_the_mean_of_batch_means():
    losses = np.array([1.0, 2.0, 3.0, 10.0, 20.0])
    assert mean_over_batches(losses, 2) == pytest.approx((1.5 + 6.5 + 20.0) / 3)
