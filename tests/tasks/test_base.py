# SPDX-License-Identifier: Apache-2.0
"""What tasks share: the warning of a collapse, the mean of batches, ensembles."""

import numpy as np
import pytest

from albert_tf.tasks import base
from albert_tf.tasks.base import DataSet, Task, mean_over_batches
from albert_tf.training.splits_and_results import Predicted
from tests.errors import assert_says, names


def test_collapse_warning():
    task = Task()
    task.labels, task.classified = ("yes", "no"), "texts"
    same, different = np.float32([[0.1, 0.9], [0.3, 0.7]]), np.float32([[0.1, 0.9], [0.7, 0.3]])
    assert_says(task.sign_of_failure(None, {"logits": same}), "2 ... 'no'")
    assert task.sign_of_failure(None, {"logits": different}) is None
    assert task.sign_of_failure(None, {"logits": same[:1]}) is None
    task.labels = None
    assert task.sign_of_failure(None, {"logits": np.float32([[1.0], [1.0]])}) is None


@pytest.mark.parametrize(
    ("found", "gold", "what"),
    [
        (["a", "a"], [("a",), ("b",)], "2 ... 'a'"),
        (["", ""], [("a",), ()], "2 ... none"),
        (["", ""], [(), ()], None),
        (["a", ""], [("a",), ("b",)], None),
        (["a"], [("b",)], None),
    ],
)
def test_the_same_answer_to_all_questions_is_a_warning(found, gold, what):
    warning = base.collapsed("questions get", found, gold)
    assert (warning is None) == (what is None)
    assert what is None or names(warning, what)


def test_loss_of_the_results_is_the_mean_of_batch_means():
    losses = np.array([1.0, 2.0, 3.0, 10.0, 20.0])
    assert mean_over_batches(losses, 2) == pytest.approx((1.5 + 6.5 + 20.0) / 3)


def test_an_ensemble_has_the_mean_of_the_outputs():
    def member(name, step, *values):
        return Predicted(name, step, {"": {"logits": np.float32([values])}}, f"{name} of {step}")

    data = DataSet(Task(), "", "", "")
    first, second = member("a", 1, 1.0, 4.0), member("b", 3, 3.0, -4.0)
    assert data.combined([first]) is first
    both = data.combined([first, second])
    assert both.outputs[""]["logits"].tolist() == [[2.0, 0.0]]
    assert both[0] == "a, b" and both.step == "1 and 3" and both.source == "a of 1 and b of 3"
