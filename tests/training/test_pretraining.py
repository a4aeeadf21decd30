# SPDX-License-Identifier: Apache-2.0
"""Checks of pre-training before it begins."""

import builtins
import collections
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.records import record_files
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import pretraining
from tests.corpus.small_corpora import MODEL, make, write_text
from tests.errors import names, refuses


@pytest.fixture
def records(tmp_path):
    source = write_text(tmp_path / "in.txt", np.random.default_rng(0), 60)
    _, paths = make(source, tmp_path, FullTokenizer(spm_model_file=MODEL), "out@5")
    return paths


def checked(records, may_be_masked=False):
    options = types.SimpleNamespace(max_seq_length=24, max_predictions_per_seq=4, masking=None)
    config = AlbertConfig(30000)
    return pretraining._source_of(config, options, records, may_be_masked=may_be_masked)


def test_each_file_is_opened_once_at_the_start(records, monkeypatch):
    opened = collections.Counter()

    def spy(kind):
        def opening(path, *arguments, **others):
            opened[path] += 1
            return kind(path, *arguments, **others)

        return opening

    monkeypatch.setattr(builtins, "open", spy(open))
    monkeypatch.setattr(tf.io.gfile, "GFile", spy(tf.io.gfile.GFile))
    monkeypatch.setattr(tf.data, "TFRecordDataset", spy(tf.data.TFRecordDataset))
    source = checked(records)
    assert all(file.count for file in record_files.read_index(source.files))  # by the summary
    record_files.check_lengths(source.files)
    assert {path: opened[path] for path in records} == dict.fromkeys(records, 1)


def test_records_to_evaluate_on_are_checked_as_a_whole(records):
    """TensorFlow's reader may die of a length beyond the end of a file."""
    with open(records[3], "r+b") as file:
        file.truncate(file.seek(0, 2) - 5)
    with refuses(f"{records[3]}"):
        checked(records, may_be_masked=True)


def features_of(**lists):
    kinds = {"masked_lm_weights": "float_list"}
    return {
        name: tf.train.Feature(**{kinds.get(name, "int64_list"): {"value": values}})
        for name, values in lists.items()
    }


def test_pieces_to_predict_are_those_of_the_masks_or_of_the_text():
    ids = [2, 7, 8, 3, 7, 9, 3, 0, 0]
    unmasked = features_of(input_ids=ids)
    assert pretraining._pieces_to_predict(unmasked).tolist() == [7, 8, 7, 9]
    masked = features_of(input_ids=ids, masked_lm_ids=[5, 6, 0], masked_lm_weights=[1.0, 1.0, 0.0])
    assert pretraining._pieces_to_predict(masked).tolist() == [5, 6]


@pytest.mark.parametrize(
    "lists",
    [
        {"masked_lm_weights": [1.0, 1.0], "masked_lm_ids": []},
        {"masked_lm_weights": [0.0], "input_ids": []},
        {"masked_lm_weights": [0.0], "input_ids": [0, 0]},
        {"masked_lm_weights": [0.0], "input_ids": [2]},
    ],
)
def test_a_damaged_record_has_no_pieces_to_predict(lists):
    """It is found, and named, by the checks of records."""
    assert pretraining._pieces_to_predict(features_of(**lists)).tolist() == []


def test_the_entropy_of_records_is_that_of_their_masked_pieces(records):
    source = checked(records)
    counts = collections.Counter()
    for record in tf.data.TFRecordDataset(records).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        ids = features["masked_lm_ids"].int64_list.value
        weights = features["masked_lm_weights"].float_list.value
        counts.update(piece for piece, weight in zip(ids, weights, strict=True) if weight)
    shares = np.array(list(counts.values())) / counts.total()
    assert len(counts) > 4
    assert source.entropy == pytest.approx(-(shares * np.log(shares)).sum())


def test_records_that_are_read_before_the_training(records, monkeypatch):
    counts, first_records = [], record_files.first_records

    def spy(path, count):
        counts.append(count)
        return first_records(path, count)

    monkeypatch.setattr(record_files, "first_records", spy)
    checked(records)
    assert counts == [200] * 5  # 1000 of all files
    checked(20 * records)
    assert counts[5:] == [16] * 100  # and 16 of each


@pytest.mark.parametrize(
    "steps, losses, said",
    [
        (5000, {500: 6.5, 999: 6.5, 1000: 6.44, 1100: 6.46, 1500: 6.5}, 1),  # once
        (5000, {500: 6.5, 1000: 6.5, 1500: 6.44, 2000: 6.5}, 0),  # it has learnt more by then
        (5000, {1300: 6.6, 1400: 6.6}, 1),
        (5000, {1300: 6.6}, 0),  # the mean over all updates, with the high losses at the start
        (5000, {900: 6.6, 1900: 6.6}, 0),  # the same
        (1000, {499: 6.5, 500: 6.44, 600: 6.5}, 1),  # not before 500 updates
        (499, {499: 7.0}, 0),  # a short training is not judged
    ],
)
def test_a_training_on_the_plateau_is_told_once(steps, losses, said, capsys):
    notice = pretraining.PlateauNotice(6.5, steps)
    for step, loss in losses.items():
        notice.write("eval", step, {"masked_lm_loss": 7.0})
        notice.write("train", step, {"masked_lm_loss": loss})
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert sum(names(line, f"Warning ... {steps} ... 6.50") for line in text.splitlines()) == said
    assert text.count("Warning") == said
