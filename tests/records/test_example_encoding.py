# SPDX-License-Identifier: Apache-2.0
"""Records written by hand against those of the protobuf library, byte for byte."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from albert_tf.records import example_encoding


def by_library(columns, row):
    example = tf.train.Example()
    features = example.features.feature
    for name, values in columns.items():
        if values.dtype.kind == "f":
            features[name].float_list.value.extend(values[row].tolist())
        else:
            features[name].int64_list.value.extend(map(int, values[row]))
    return example.SerializeToString(deterministic=True)


def check(columns):
    found = example_encoding.serialize(columns)
    rows = range(len(next(iter(columns.values()))))
    assert found == [by_library(columns, row) for row in rows]


INTEGERS = [0, 1, 127, 128, 16383, 16384, 2**31 - 1, 2**63 - 1, -1, -(2**63)]


def test_numbers_of_every_width():
    check({"a": np.array([INTEGERS]), "b": np.array(INTEGERS)[:, None][:1]})
    check({"a": np.array(INTEGERS)[:, np.newaxis]})
    check({"a": np.array([[True], [False]]), "c": np.array([[7], [200]], np.uint8)})
    check({"a": np.array([[np.nan, -0.0, np.inf, 1.5]], np.float32)})


@pytest.mark.parametrize("kind", [np.int64, np.float32])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (1, 1), (3, 600)])
def test_shapes(shape, kind):
    check({"name": np.arange(np.prod(shape)).reshape(shape).astype(kind)})


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.data(), st.integers(1, 3))
def test_any_features(data, rows):
    # Names of one length: protobuf has an order of its own where one begins with another.
    name = st.text(min_size=(size := data.draw(st.integers(1, 150))), max_size=size)
    names = data.draw(st.lists(name, min_size=1, max_size=4, unique=True))
    columns = {}
    for name in names:
        kind = data.draw(st.sampled_from([np.int64, np.int32, np.float32, np.uint8, np.bool_]))
        length = data.draw(st.integers(0, 40))
        columns[name] = data.draw(arrays_of.arrays(kind, (rows, length)))
    check(columns)
