# SPDX-License-Identifier: Apache-2.0
"""--stop_on_divergence: when it stops, and what it says."""

import numpy as np
import pytest

from albert_tf.errors import UserError
from albert_tf.training import divergence


def first_refused(factor, losses):
    """Number of the first reading that is refused; None if all pass."""
    check = divergence.DivergenceCheck(factor).check
    for number, loss in enumerate(losses):
        try:
            check(number, loss)
        except divergence.DivergenceError:
            return number
    return None


def test_a_falling_and_a_noisy_loss_pass():
    falling = 10 * np.exp(-np.arange(300) / 50) + 1
    noise = 0.2 * np.random.default_rng(0).standard_normal(300)
    assert first_refused(2, falling + noise) is None


def test_a_loss_above_the_factor_is_refused():
    steady = [2.0] * 50
    assert first_refused(1.5, [*steady, 2.9, 2.0, 3.2]) == 52
    assert first_refused(1.5, [*steady, np.float32(3.2)]) == 50


def test_a_slow_rise_is_refused():
    assert first_refused(1.5, [1.1**n for n in range(100)]) is not None


def test_nan_and_infinity_are_refused():
    for loss in (float("nan"), float("inf")):
        assert first_refused(2, [1.0] * 20 + [loss]) == 20


def test_the_first_readings_are_only_taken():
    rising = [1.0, 50.0] * (divergence.WARM_UP // 2)
    assert first_refused(2, rising) is None
    assert first_refused(2, [1.0] * divergence.WARM_UP + [50.0]) == divergence.WARM_UP


def test_the_mean_is_that_of_about_the_last_readings():
    far = [8.0] * 1000 + [1.0] * (5 * divergence.HORIZON)
    assert first_refused(2, [*far, 2.5]) == len(far)
    near = [8.0] * 1000 + [1.0] * (divergence.HORIZON // 4)
    assert first_refused(2, [*near, 2.5]) is None


def test_0_is_off():
    assert first_refused(0, [1.0] * 50 + [1e9, float("nan")]) is None


def test_the_message_names_figures_and_remedies():
    check = divergence.DivergenceCheck(1.5).check
    for step in range(20):
        check(step, 4)
    with pytest.raises(UserError) as error:
        check(20, 9)
    for words in (
        "step 20 is 9,", "--stop_on_divergence=1.5 times", "mean of 4.", "--learning_rate",
    ):  # fmt: skip
        assert words in str(error.value)
