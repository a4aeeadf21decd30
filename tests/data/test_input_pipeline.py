# SPDX-License-Identifier: Apache-2.0
"""Batches of record files."""

import numpy as np
import pytest

from albert_tf.data import input_pipeline
from albert_tf.errors import UserError
from tests.data.small_records import SCHEMA, first_ids, flat, write


def test_eval_is_one_pass_in_order(five_files):
    batches = first_ids(input_pipeline.eval_dataset(five_files, SCHEMA, 64))
    assert [len(batch) for batch in batches] == [64, 64, 64, 8]
    in_order = [1000 * f + n for f in range(1, 6) for n in range(40)]
    assert flat(batches) == in_order
    dropped = first_ids(input_pipeline.eval_dataset(five_files, SCHEMA, 64, drop_remainder=True))
    assert dropped == batches[:3]


def test_training_shuffles_and_sees_every_record(five_files):
    numbers = flat(first_ids(input_pipeline.train_dataset(five_files, SCHEMA, 50, seed=1), 12))
    assert len(numbers) == 600
    assert len(set(numbers)) == 200
    assert numbers[:200] != sorted(numbers[:200])
    # Four files are read side by side, so the first records are of several.
    assert len({number // 1000 for number in numbers[:50]}) >= 3


def test_training_is_reproducible_with_a_seed(five_files):
    first, again, other = (
        first_ids(input_pipeline.train_dataset(five_files, SCHEMA, 8, seed=seed), 20)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_training_without_a_shuffle_buffer_keeps_the_order(five_files):
    batches = first_ids(
        input_pipeline.train_dataset(five_files, SCHEMA, 64, shuffle_buffer_size=1), 4
    )
    in_order = [1000 * f + n for f in range(1, 6) for n in range(40)]
    assert flat(batches) == (in_order * 2)[:256]  # no end, and no short batch


def test_a_shuffle_buffer_larger_than_memory(five_files):
    with pytest.raises(UserError, match="--shuffle_buffer_size=1000000000000: must be at most"):
        input_pipeline.train_dataset(five_files, SCHEMA, 8, shuffle_buffer_size=10**12)


def test_a_reader_takes_the_features_it_asks_for(five_files):
    only_weight = {"weight": SCHEMA["weight"]}
    batch = next(iter(input_pipeline.eval_dataset(five_files, only_weight, 2)))
    assert list(batch) == ["weight"]


def test_all_records_in_memory(five_files, tmp_path):
    arrays = input_pipeline.load_arrays(five_files[0], SCHEMA)
    assert arrays["ids"][:, 0].tolist() == [1000 + n for n in range(40)]
    assert {name: (a.shape, a.dtype) for name, a in arrays.items()} == {
        "ids": ((40, 3), np.int32),
        "weight": ((40, 1), np.float32),
    }
    many = write(tmp_path / "many", range(2050))  # more than two batches
    assert input_pipeline.load_arrays(many, SCHEMA)["ids"][:, 0].tolist() == list(range(2050))
