# SPDX-License-Identifier: Apache-2.0
"""Batches of record files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import input_pipeline
from albert_tf.records.schemas import FeatureSpec
from tests.errors import refuses
from tests.records.small_records import SCHEMA, first_ids, flat, train_batches, write


def test_eval_is_one_pass_in_order(five_files):
    batches = first_ids(input_pipeline.eval_dataset(five_files, SCHEMA, 64))
    assert [len(batch) for batch in batches] == [64, 64, 64, 8]
    in_order = [1000 * f + n for f in range(1, 6) for n in range(40)]
    assert flat(batches) == in_order
    dropped = first_ids(input_pipeline.eval_dataset(five_files, SCHEMA, 64, drop_remainder=True))
    assert dropped == batches[:3]


def test_batches_without_equal_parts(five_files):
    with refuses("8 ... 3 ... 2", error=AssertionError):
        train_batches(five_files, 8, num_shares=3, splits=2)


def test_training_batches_are_whole_and_of_fixed_shape(five_files):
    spec = train_batches(five_files, 16, num_shares=2, splits=2).element_spec
    assert spec == {
        "ids": tf.TensorSpec([4, 3], tf.int32),
        "weight": tf.TensorSpec([4, 1], tf.float32),
    }


@pytest.mark.parametrize(
    ("max_seq_length", "lengths"),
    [
        (512, [128, 256, 384, 512]),
        (384, [96, 192, 288, 384]),
        (128, [32, 64, 96, 128]),
        (130, [40, 80, 120, 130]),
        (20, [20]),
    ],
)
def test_few_lengths(tmp_path, max_seq_length, lengths):
    schema = {"input_mask": FeatureSpec(tf.int64, max_seq_length)}

    def of_length(number):
        return {"input_mask": (np.arange(max_seq_length) < number).astype(int)}

    path = write(tmp_path / "a", range(1, max_seq_length + 1), schema, of_length)
    few = input_pipeline.lengths_up_to(max_seq_length, few=True)
    dataset = train_batches([path], 1, schema=schema, window=1, lengths=few)
    found = [batch["input_mask"] for batch in dataset.take(max_seq_length)]
    assert [int(tf.reduce_sum(mask)) for mask in found] == list(range(1, max_seq_length + 1))
    assert sorted({mask.shape[1] for mask in found}) == lengths


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


def test_gzipped_files_are_read_among_others(five_files, tmp_path):
    path = tmp_path / "2.tfrecord.gz"
    path.write_bytes(gzip.compress(Path(five_files[1]).read_bytes()))
    names = [five_files[0], str(path), five_files[2]]
    expected = [1000 * f + n for f in range(1, 4) for n in range(40)]
    assert flat(first_ids(input_pipeline.eval_dataset(names, SCHEMA, 50))) == expected
    assert flat(first_ids(train_batches(names, 40, window=1), 3)) == expected
    assert input_pipeline.load_arrays(str(path), SCHEMA)["ids"][:, 0].tolist() == expected[40:80]
