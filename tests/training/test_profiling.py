# SPDX-License-Identifier: Apache-2.0
"""--profile_steps: its values, and the files that TensorBoard reads."""

import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.errors import UserError
from albert_tf.training import profiling


def test_steps_are_parsed():
    assert options.parse_profile_steps("3:5") == (3, 5)
    assert options.parse_profile_steps(None) is None and options.parse_profile_steps("") is None


@pytest.mark.parametrize("text", ["5", "0:5", "5:5", "5:3", "-1:5", "1:2:3", "a:b", "1: 2", "1,2"])
def test_other_steps_are_refused(text):
    with pytest.raises(UserError, match=f"--profile_steps .* 0 < first < last.*Received: {text}"):
        options.parse_profile_steps(text)


def profiled(directory, steps, first, last):
    """Makes updates `first` to `last` with a profiler; the files it wrote."""
    profiler = profiling.Profiler(steps, str(directory))
    value = tf.Variable(tf.ones([4, 4]))
    try:
        for step in range(first, last + 1):
            with profiler.update(step, step):
                value.assign(value @ value)
    finally:
        profiler.close()
    return list(directory.glob("plugins/profile/*/*.xplane.pb"))


def test_a_profile_is_where_tensorboard_looks(tmp_path):
    (file,) = profiled(tmp_path, (3, 4), 1, 6)
    content = file.read_bytes()
    assert b"MatMul" in content and b"train" in content


@pytest.mark.parametrize(
    "steps, first, last, count",
    [
        ((3, 40), 1, 6, 1),  # the training ends within the range
        ((3, 6), 5, 8, 1),  # resumed within it
        ((3, 6), 7, 8, 0),  # resumed after it
        ((30, 60), 1, 4, 0),
        (None, 1, 4, 0),
    ],
)
def test_ranges_that_the_training_covers_in_part(tmp_path, steps, first, last, count):
    assert len(profiled(tmp_path, steps, first, last)) == count
