# SPDX-License-Identifier: Apache-2.0
"""Batches of sequences of similar length, in an order that follows only from seed and files."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import input_pipeline, record_files
from albert_tf.records.schemas import FeatureSpec
from tests.records.small_records import flat, write

LENGTH, BOUNDS = 32, (8, 16, 32)
WINDOW, BATCH = 60, 4
SCHEMA = {name: FeatureSpec(tf.int64, LENGTH) for name in ("input_ids", "input_mask")}


def length_of(number):
    """From 3 to 32; most are short."""
    return 3 + number * 7919 % (30 if number % 3 == 0 else 6)


def example(number):
    mask = (np.arange(LENGTH) < length_of(number)).astype(int)
    return {"input_ids": mask * number, "input_mask": mask}


@pytest.fixture(scope="module")
def indexed_files(tmp_path_factory):
    """Three files of 55 records, whose ids are their numbers."""
    directory = tmp_path_factory.mktemp("lengths")
    paths = [
        write(directory / str(f), range(1 + 55 * f, 56 + 55 * f), SCHEMA, example) for f in range(3)
    ]
    return record_files.read_index(paths)


def batches(files, count, batch_size=BATCH, window=WINDOW, **options):
    dataset = input_pipeline.train_batches(
        files, SCHEMA, batch_size, seed=1, window=window, lengths=BOUNDS, grouped=True, **options
    )
    return [batch["input_ids"].numpy() for batch in itertools.islice(dataset, count)]


def numbers(found):
    return [batch[:, 0].tolist() for batch in found]


def test_batches_are_cut_to_the_bucket_of_their_longest(indexed_files):
    found = batches(indexed_files, 80)
    for batch in found:
        longest = max(map(length_of, batch[:, 0].tolist()))
        assert batch.shape == (BATCH, min(bound for bound in BOUNDS if bound >= longest))
        for row in batch:
            assert np.count_nonzero(row) == length_of(int(row[0]))
    assert {batch.shape[1] for batch in found} == set(BOUNDS)


def test_few_batches_have_sequences_of_several_buckets(indexed_files):
    def buckets_in(batch):
        return {min(b for b in BOUNDS if b >= length_of(number)) for number in batch}

    found = numbers(batches(indexed_files, 41))  # the first epoch
    mixed = sum(len(buckets_in(batch)) > 1 for batch in found)
    # In each of three windows two borders between buckets, and a batch that ends in the next one.
    assert 0 < mixed <= 9
    ends = [max(buckets_in(batch)) for batch in found]
    assert ends[:15] != sorted(ends[:15]) != sorted(ends[:15], reverse=True)  # not in their order


@pytest.mark.parametrize(
    "batch_size, window",
    [(7, 13), (50, 60), *(pytest.param(*v, marks=pytest.mark.long) for v in ((4, 60), (3, 1000)))],
)
def test_an_epoch_has_every_record_once(indexed_files, batch_size, window):
    seen = flat(numbers(batches(indexed_files, -(-2 * 165 // batch_size), batch_size, window)))
    first, second = seen[:165], seen[165:330]
    assert sorted(first) == sorted(second) == list(range(1, 166))
    assert first != second


def test_a_record_of_several_sequences_goes_by_the_longest(tmp_path):
    """As in RACE, whose records have a sequence for each answer."""
    schema = {name: FeatureSpec(tf.int64, 2 * LENGTH) for name in ("input_ids", "input_mask")}

    def pair(number):
        masks = np.arange(LENGTH) < [[3], [length_of(number)]]
        return {"input_ids": number * masks.ravel(), "input_mask": masks.astype(int).ravel()}

    files = record_files.read_index([write(tmp_path / "pairs", range(1, 61), schema, pair)])
    dataset = input_pipeline.train_batches(
        files, schema, BATCH, seed=1, window=WINDOW, lengths=BOUNDS, grouped=True
    )
    found = [batch["input_ids"].numpy() for batch in itertools.islice(dataset, 15)]
    wanted = sorted(min(b for b in BOUNDS if b >= length_of(n)) for n in range(1, 61))
    widths = sorted(batch.shape[1] // 2 for batch in found)
    assert widths == [max(wanted[i : i + BATCH]) for i in range(0, 60, BATCH)]
    assert sorted(flat(numbers(found))) == list(range(1, 61))


@pytest.mark.long
def test_batches_depend_on_the_step_alone(indexed_files):
    whole = numbers(batches(indexed_files, 100))
    for first_step in (13, 60):
        found = batches(indexed_files, 100 - first_step, first_step=first_step)
        assert numbers(found) == whole[first_step:]
    shares = [
        flat(numbers(batches(indexed_files, 200, num_shares=2, share=share, splits=2)))[:200]
        for share in range(2)
    ]
    together = [shares[share][2 * k : 2 * k + 2] for k in range(100) for share in range(2)]
    assert flat(together) == flat(whole)
