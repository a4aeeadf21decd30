# SPDX-License-Identifier: Apache-2.0
"""Masks made while records are read: the distribution of the written ones, from seed and epoch."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.corpus import instances
from albert_tf.corpus.instances import Settings
from albert_tf.records import graph_masking, input_pipeline, schemas
from albert_tf.text.tokenization import SpecialIds
from tests.records.small_records import train_batches, write

CLS, SEP, MASK = 2, 3, 4
SPECIAL = SpecialIds(0, CLS, SEP, MASK)
SIZE, LENGTH = 1000, 40
SCHEMA = schemas.pretraining_schema(LENGTH, 6)
UNMASKED = {name: SCHEMA[name] for name in SCHEMA if not name.startswith("masked_lm_")}
SETTINGS = Settings(max_seq_length=LENGTH, max_predictions_per_seq=6)
MASKING = graph_masking.Masking(SETTINGS, SPECIAL, SIZE)


def sequences(count, seed=0, length=LENGTH):
    """[CLS] A [SEP] B [SEP] and padding, of several lengths; two of three pieces start a word."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, SIZE, (count, length))
    lengths = rng.integers(5, length + 1, count)
    middles = rng.integers(2, lengths - 2)
    rows, places = np.arange(count), np.arange(length)
    ids[:, 0] = CLS
    ids[rows, middles] = ids[rows, lengths - 1] = SEP
    is_token = places < lengths[:, np.newaxis]
    ids *= is_token
    starts = (rng.random(ids.shape) < 2 / 3) | (ids == CLS) | (ids == SEP)
    return {
        "input_ids": ids.astype(np.int32),
        "input_mask": is_token.astype(np.int32),
        "segment_ids": (is_token & (places > middles[:, np.newaxis])).astype(np.int32),
        "token_boundary": (starts & is_token).astype(np.int32),
    }


def keys(count, seed=1):
    return np.stack([np.full(count, seed), np.arange(count)], axis=1)


def masked(features, settings=SETTINGS, these_keys=None):
    these_keys = keys(len(features["input_ids"])) if these_keys is None else these_keys
    found = tf.function(graph_masking.Masking(settings, SPECIAL, SIZE))(features, these_keys)
    return {name: values.numpy() for name, values in found.items()}


def predicted(found):
    """Where something is to be predicted: bool array [B, T]."""
    is_real = found["masked_lm_weights"] > 0
    result = np.zeros(found["input_ids"].shape, bool)
    row, place = np.nonzero(is_real)
    result[row, found["masked_lm_positions"][row, place]] = True
    return result


def test_all_predictions_that_are_asked_for():
    """More of them than a sequence has pieces are filled up; single pieces fill any budget."""
    features = sequences(50)
    single = {"ngram": 1, "do_whole_word_mask": False, "max_predictions_per_seq": LENGTH + 5}
    found = masked(features, Settings(masked_lm_prob=0.999, **single))
    assert found["masked_lm_positions"].shape == (50, LENGTH + 5)
    np.testing.assert_array_equal(predicted(found), features["input_ids"] > CLS + 1)


def test_a_sequence_without_words_is_left_alone():
    features = sequences(4)
    for row in (0, 2):
        features["input_ids"][row] = np.where(features["input_mask"][row] > 0, SEP, 0)
    found = masked(features)
    assert (found["masked_lm_weights"].sum(axis=1) > 0).tolist() == [False, True, False, True]
    alone = masked({name: values[:1] for name, values in features.items()})
    np.testing.assert_array_equal(alone["input_ids"], features["input_ids"][:1])


def test_masks_do_not_depend_on_the_batch():
    features = sequences(20)
    whole = masked(features)
    for row in (0, 7, 19):
        one = {name: values[row : row + 1] for name, values in features.items()}
        alone = masked(one, these_keys=keys(20)[row : row + 1])
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], whole[name][row])


MANY = {"max_seq_length": LENGTH, "masked_lm_prob": 0.3, "max_predictions_per_seq": 9}


def masked_in_both_ways(features, settings):
    """Ids and masks [B, T] made while reading, and those that are written."""
    found, ids, mask = masked(features, settings), features["input_ids"], features["input_mask"]
    may_mask = (ids != CLS) & (ids != SEP) & (mask > 0)
    given = ids, mask.sum(1), features["token_boundary"] > 0, may_mask
    written = instances.masked(*given, settings, MASK, SIZE, np.random.default_rng(5))
    return (found["input_ids"], predicted(found)), written


@pytest.mark.parametrize("do_whole_word_mask", [True, False])
@pytest.mark.parametrize("favor_shorter_ngram", [True, False])
def test_the_distribution_is_that_of_written_masks(do_whole_word_mask, favor_shorter_ngram):
    features = sequences(4000)
    rules = {"do_whole_word_mask": do_whole_word_mask, "favor_shorter_ngram": favor_shorter_ngram}
    both = masked_in_both_ways(features, Settings(**MANY | rules))
    ours, theirs = (metrics_of(where, after, features["input_ids"]) for after, where in both)
    for name, values in ours.items():
        expected = theirs[name]
        error = np.sqrt(values.var() / len(values) + expected.var() / len(expected))
        assert abs(values.mean() - expected.mean()) <= 5 * error, name


def metrics_of(where, after, ids):
    """Properties of masks, for each sequence or each prediction: dict of float arrays."""
    edges = np.diff(np.pad(where, ((0, 0), (1, 1))).astype(int), axis=1)
    runs = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    middle = where.shape[1] // 2
    return {
        "predictions": where.sum(axis=1).astype(float),
        "in the first half": where[:, :middle].sum(axis=1).astype(float),
        "[MASK]": (after[where] == MASK).astype(float),
        "kept": (after[where] == ids[where]).astype(float),
        "replaced by a small id": (after[where] < 100).astype(float),
        **{f"runs of {n}": (runs == n).astype(float) for n in range(1, 6)},
    }


def test_masks_are_the_same_on_every_machine():
    """A change of them, as by a new version of TensorFlow, would break runs that are resumed."""
    features = {
        "input_ids": np.array([[CLS, *range(10, 20), SEP, *range(20, 27), SEP]], np.int32),
        "input_mask": np.ones((1, 20), np.int32),
        "token_boundary": np.ones((1, 20), np.int32),
    }
    settings = Settings(masked_lm_prob=0.3, max_predictions_per_seq=6)
    found = masked(features, settings, keys(1, seed=3))
    assert found["masked_lm_positions"].tolist() == [[4, 5, 6, 7, 10, 12]]
    ids = [2, 10, 11, 12, 4, 4, 506, 4, 17, 18, 842, 3, 4, 21, 22, 23, 24, 25, 26, 3]
    assert found["input_ids"].tolist() == [ids]
    drawn = graph_masking.keys_of(tf.constant([b"a record"]), 7, tf.constant([2], tf.int64))
    assert drawn.numpy().tolist() == [[7, 7765138500316683097]]


def test_settings_that_decide_whether_evaluations_are_compared():
    usual = MASKING.described
    assert usual["ngram"] == 3 and usual["max_predictions_per_seq"] == 6
    others = {"masked_lm_keep_prob": 0.2, "masked_lm_random_prob": 0.3}
    assert not usual.keys() & others.keys()  # earlier versions did not have them
    settings = dataclasses.replace(SETTINGS, **others)
    assert graph_masking.Masking(settings, SPECIAL, SIZE).described == usual | others


@pytest.fixture(scope="module")
def unmasked_files(tmp_path_factory):
    """Two files of 12 unmasked records; segment_ids of record n hold n in binary."""
    features, directory = sequences(24), tmp_path_factory.mktemp("unmasked")
    numbers = (np.arange(24)[:, np.newaxis] >> np.arange(LENGTH)) & 1
    features["segment_ids"] = numbers

    def example(number):
        row = {name: values[number] for name, values in features.items()}
        return row | {"next_sentence_labels": [0]}

    return [
        write(directory / f"{f}.tfrecord", range(12 * f, 12 * f + 12), UNMASKED, example)
        for f in range(2)
    ]


def batches(paths, batch_size, count, *, seed=1, **options):
    options |= {"seed": seed, "window": 8, "masking": MASKING, "schema": UNMASKED}
    dataset = train_batches(paths, batch_size, **options)
    return list(dataset.take(count).as_numpy_iterator())


def rows_of(found):
    """(number of the record, its masked ids) of each row, in their order."""
    return [
        (int(bits @ (1 << np.arange(LENGTH))), tuple(ids.tolist()))
        for batch in found
        for bits, ids in zip(batch["segment_ids"], batch["input_ids"], strict=True)
    ]


def test_batches_have_the_features_that_the_model_reads(unmasked_files):
    (batch,) = batches(unmasked_files, 8, 1)
    assert {name: (v.shape, v.dtype) for name, v in batch.items()} == {
        name: ((8, feature.length), np.float32 if name == "masked_lm_weights" else np.int32)
        for name, feature in SCHEMA.items()
        if name != "token_boundary"
    }


@pytest.mark.long
def test_masks_follow_from_seed_record_and_epoch(unmasked_files):
    rows = rows_of(batches(unmasked_files, 8, 9))
    epochs = [dict(rows[start : start + 24]) for start in (0, 24, 48)]
    assert all(sorted(epoch) == list(range(24)) for epoch in epochs)
    for one, other in itertools.combinations(epochs, 2):
        assert sum(one[number] == other[number] for number in range(24)) <= 3
    # Whatever the batch, the file and the place in it:
    assert rows_of(batches(unmasked_files, 4, 18)) == rows
    turned = rows_of(batches(unmasked_files[::-1], 6, 12))
    assert turned != rows and dict(turned[:24]) == epochs[0] and dict(turned[24:48]) == epochs[1]
    other_seed = dict(rows_of(batches(unmasked_files, 8, 3, seed=2)))
    assert sum(other_seed[number] == epochs[0][number] for number in range(24)) <= 3


@pytest.mark.long
def test_resumed_and_shared_reading_has_the_same_masks(unmasked_files):
    whole = rows_of(batches(unmasked_files, 8, 9))
    for first_step in (1, 4):
        rest = rows_of(batches(unmasked_files, 8, 9 - first_step, first_step=first_step))
        assert rest == whole[8 * first_step :]
    shares = [
        rows_of(batches(unmasked_files, 8, 18, num_shares=2, share=share, splits=2))
        for share in range(2)
    ]
    together = [shares[share][4 * k : 4 * k + 4] for k in range(9) for share in range(2)]
    assert list(itertools.chain.from_iterable(together)) == whole


@pytest.mark.long
def test_an_evaluation_has_the_same_masks_every_time(unmasked_files):
    dataset = input_pipeline.eval_dataset(unmasked_files, UNMASKED, 10, masking=MASKING)
    once, again = (rows_of(dataset.as_numpy_iterator()) for _ in "ab")
    assert once == again and len(once) == 24
    other = input_pipeline.eval_dataset(unmasked_files[1:], UNMASKED, 5, masking=MASKING)
    assert rows_of(other.as_numpy_iterator()) == once[12:]
    assert dict(once) != dict(rows_of(batches(unmasked_files, 8, 3, seed=0)))


@pytest.mark.parametrize(
    "keep, random, shares", [(0.0, 0.0, (1.0, 0.0)), (0.0, 0.5, (0.5, 0.0)), (0.3, 0.2, (0.5, 0.3))]
)
def test_shares_of_kept_and_random_pieces(keep, random, shares):
    features = sequences(2000)
    settings = Settings(masked_lm_keep_prob=keep, masked_lm_random_prob=random, **MANY)
    ids = features["input_ids"]
    for after, chosen in masked_in_both_ways(features, settings):
        after, before = np.array(after)[chosen], np.array(ids)[chosen]
        actual = np.mean(after == MASK), np.mean(after == before)
        np.testing.assert_allclose(actual, shares, atol=0.03 if random else 0)
