# SPDX-License-Identifier: Apache-2.0
"""What pre-training looks at before it begins."""

import builtins
import collections
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.corpus import build
from albert_tf.corpus.instances import Settings
from albert_tf.errors import UserError
from albert_tf.records import record_files
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import pretraining
from tests import GOLDEN


@pytest.fixture
def records(tmp_path):
    words = np.random.default_rng(0).choice(["holmes", "said", "that", "he", "was"], (60, 9))
    (tmp_path / "in.txt").write_text("\n".join(map(" ".join, words)))
    paths = [str(tmp_path / f"{n}.tfrecord") for n in range(5)]
    tokenizer = FullTokenizer(spm_model_file=str(GOLDEN / "tokenization" / "spm_uncased.model"))
    settings = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=2)
    build.create([str(tmp_path / "in.txt")], paths, tokenizer, settings)
    return paths


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
    options = types.SimpleNamespace(max_seq_length=24, max_predictions_per_seq=4, masking=None)
    source = pretraining._checked_source(AlbertConfig(30000), options, records, may_be_masked=False)
    assert all(file.count for file in record_files.read_index(source.files))  # by the summary
    record_files.check_lengths(source.files)
    assert {path: opened[path] for path in records} == dict.fromkeys(records, 1)


def test_records_to_evaluate_on_are_checked_as_a_whole(records):
    """TensorFlow's reader may die of a length beyond the end of a file."""
    with open(records[3], "r+b") as file:
        file.truncate(file.seek(0, 2) - 5)
    options = types.SimpleNamespace(max_seq_length=24, max_predictions_per_seq=4, masking=None)
    with pytest.raises(UserError, match=rf"{records[3]} is damaged after record \d+: the next"):
        pretraining._checked_source(AlbertConfig(30000), options, records, may_be_masked=True)
