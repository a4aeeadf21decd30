# SPDX-License-Identifier: Apache-2.0
"""Counts of the records of files, kept in a file."""

import gzip
import json
import os
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.records import record_checks, record_index
from tests.records.small_records import write


@pytest.fixture
def counted(monkeypatch):
    """Paths of the files that are counted, not taken from an index."""
    paths, lengths = [], record_checks.lengths

    def spy(path):
        paths.append(path)
        return lengths(path)

    monkeypatch.setattr(record_checks, "lengths", spy)
    return paths


def test_counts_and_offsets(tmp_path, monkeypatch):
    monkeypatch.setattr(record_index, "STEP", 3)
    counts = (0, 1, 2, 3, 4, 6, 7)
    paths = [write(tmp_path / str(count), range(count)) for count in counts]
    files = record_index.read(paths)
    assert [(file.path, file.count) for file in files] == list(zip(paths, counts, strict=True))
    for file in files:
        assert len(file.offsets) == max(-(-file.count // 3), 1)
        whole = list(tf.data.TFRecordDataset(file.path).as_numpy_iterator())
        sizes = [len(record) + 16 for record in whole]
        assert list(file.offsets) == [sum(sizes[:n]) for n in range(0, max(file.count, 1), 3)]


def test_an_index_spares_the_counting(five_files, tmp_path, counted):
    index = str(tmp_path / "records.json")
    first = record_index.read(five_files[:3], index)
    assert counted == five_files[:3]
    assert record_index.read(five_files[:3], index) == first
    assert counted == five_files[:3]
    more = record_index.read(five_files, index)
    assert counted == five_files and more[:3] == first
    assert os.listdir(tmp_path) == ["records.json"]


def test_changed_files_are_counted_again(tmp_path, counted):
    index = str(tmp_path / "records.json")
    paths = [write(tmp_path / name, range(5)) for name in "ab"]
    record_index.read(paths, index)
    write(tmp_path / "a", range(7))
    os.utime(paths[1], (1, 1))
    counted.clear()
    assert [file.count for file in record_index.read(paths, index)] == [7, 5]
    assert counted == paths
    counted.clear()
    assert [file.count for file in record_index.read(paths, index)] == [7, 5]
    assert counted == []


@pytest.mark.parametrize(
    "change",
    [
        lambda content: "{",
        lambda content: "[]",
        lambda content: json.dumps(content | {"offset_step": 5}),
        lambda content: json.dumps(content | {"files": 3}),
        lambda content: json.dumps(content | {"files": dict.fromkeys(content["files"], 1)}),
        lambda content: json.dumps(
            content | {"files": {p: e | {"count": "5"} for p, e in content["files"].items()}}
        ),
        lambda content: json.dumps(
            content | {"files": {p: e | {"offsets": []} for p, e in content["files"].items()}}
        ),
    ],
)
def test_an_index_that_cannot_be_used_is_made_anew(tmp_path, counted, change):
    index, path = tmp_path / "records.json", write(tmp_path / "a", range(5))
    record_index.read([path], str(index))
    content = json.loads(index.read_text())
    index.write_text(change(content))
    assert record_index.read([path], str(index))[0].count == 5
    assert counted == [path, path]
    assert json.loads(index.read_text()) == content


def test_other_workers_read_the_index_and_write_none(tmp_path):
    index, path = tmp_path / "records.json", write(tmp_path / "a", range(5))
    assert record_index.read([path], str(index), save=False)[0].count == 5
    assert not index.exists()


def test_gzipped_files_are_counted(five_files, tmp_path):
    path = tmp_path / "1.tfrecord.gz"
    path.write_bytes(gzip.compress(Path(five_files[0]).read_bytes()))
    assert record_index.read([str(path)]) == [record_index.IndexedFile(str(path), 40, (0,))]


def test_damage_is_named(five_files, tmp_path):
    content = bytearray(Path(five_files[0]).read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged is damaged after record \d+: .*\. Mend it$"):
        record_index.read([five_files[1], str(damaged)], remedy="Mend it")
    with pytest.raises(UserError, match=r"cannot read .*absent"):
        record_index.read([str(tmp_path / "absent")])


def test_files_without_any_record(tmp_path):
    path = write(tmp_path / "empty", [])
    with pytest.raises(UserError, match="empty hold no record"):
        record_index.read([path])


def test_a_line_while_counting(five_files, monkeypatch, capsys):
    monkeypatch.setattr(record_index, "_SECONDS_BETWEEN_LINES", -1)
    record_index.read(five_files)
    assert "Counting the records: 0.0 of 0.0 GB" in capsys.readouterr().out
