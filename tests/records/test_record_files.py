# SPDX-License-Identifier: Apache-2.0
"""Counts of the records of files, kept in a file; damaged records are named."""

import dataclasses
import gzip
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import progress
from albert_tf.records import input_pipeline, record_files, schemas
from albert_tf.records.schemas import FeatureSpec
from tests.errors import assert_says, refuses
from tests.records.small_records import SCHEMA, encode, example, train_batches, write

LONGER = FeatureSpec(tf.int64, 128)


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        (
            "ids",
            dataclasses.replace(LONGER, set_by="max_seq_length"),
            "--max_seq_length=128 ... 3 ... record 1 ... 1.tfrecord",
        ),
        ("ids", LONGER, "record 1 ... 3 ... 128"),
        ("label", SCHEMA["ids"], "label ... ids, weight"),
        ("weight", FeatureSpec(tf.int64, 1), "float_list ... int64_list"),
    ],
)
def test_features_that_do_not_fit_are_named(five_files, name, spec, message):
    with refuses(message):
        record_files.check_records(five_files, {name: spec})


def test_doubled_predictions_are_explained(tmp_path):
    def permuted(number):
        schema = schemas.pretraining_schema(8, 4)
        return {name: np.zeros(feature.length, int) for name, feature in schema.items()}

    path = write(tmp_path / "a", [0], schemas.pretraining_schema(8, 4), permuted)
    with refuses("--max_predictions_per_seq=2 ... 4 ... do_permutation"):
        record_files.check_records([path], schemas.pretraining_schema(8, 2))


def test_files_that_are_no_records(tmp_path):
    with refuses("TFRecord"):
        record_files.check_records([str(tmp_path / "absent")], SCHEMA)
    with schemas.record_writer(str(tmp_path / "other")) as writer:
        writer.write(b"\xff\xff\xff")
    with refuses("record 1 ... tf.train.Example"):
        record_files.check_records([str(tmp_path / "other")], SCHEMA)


def test_find_bad_record_says_which(tmp_path, five_files):
    path = str(tmp_path / "mixed")
    short = SCHEMA | {"ids": FeatureSpec(tf.int64, 2)}
    with schemas.record_writer(path) as writer:
        writer.write(encode(example(1), SCHEMA))
        writer.write(encode({"ids": [1, 2], "weight": [0.0]}, short))
    record_files.check_records([path], SCHEMA)
    assert record_files.find_bad_record(five_files, SCHEMA) is None
    with refuses("2 ... record 2"):
        record_files.find_bad_record([*five_files, path], SCHEMA)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (gzip.compress, ".gz"),
        (lambda content: content[:-30], "record 39"),
        (lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:], "record 39"),
        (lambda content: b"text " * 99, "TFRecord"),
        (lambda content: b"", "record"),
    ],
    ids=["gzip", "cut", "bit", "text", "empty"],
)
def test_damaged_files_are_named_in_one_line(five_files, tmp_path, damage, message):
    path = tmp_path / "file"
    path.write_bytes(damage(Path(five_files[0]).read_bytes()))
    with refuses(f"{path} ... {message}") as error:
        record_files.check_records([str(path)], SCHEMA)
        input_pipeline.load_arrays(str(path), SCHEMA)
    assert "\n" not in str(error.value)


def masked_crc32c(content):
    """The checksum of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


@pytest.mark.parametrize("length", [2**62, 2**40, 2**29, 4000])
@pytest.mark.parametrize("before", [0, 39])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_length_beyond_the_file_is_found_before_tensorflow_reads_it(
    five_files, tmp_path, length, before, ending
):
    """TensorFlow's reader would ask for that much memory; its checksum is right."""
    content = Path(five_files[0]).read_bytes()
    size = record_files.lengths(five_files[0])[0] + 16
    head = length.to_bytes(8, "little")
    assert masked_crc32c(content[:8]) == int.from_bytes(content[8:12], "little")
    head += masked_crc32c(head).to_bytes(4, "little")
    content = content[: size * before] + head + content[size * before + 12 :]
    path = tmp_path / f"file{ending}"
    path.write_bytes(gzip.compress(content) if ending else content)
    message = "record 39" if before else "TFRecord"
    for read in (
        record_files.read_index,
        record_files.check_lengths,
        lambda paths: input_pipeline.load_arrays(*paths, SCHEMA),
        lambda paths: record_files.first_records(*paths, 40),
    ):
        with refuses(f"{path} ... {message}"):
            read([str(path)])


SMALL_SCHEMA = {
    "ids": FeatureSpec(tf.int64, 3, 0, 9),
    "weight": FeatureSpec(tf.float32, 1, minimum=0),
}


@pytest.mark.parametrize(("value", "is_said"), [(10, True), (-1, False)])
def test_what_limits_a_value_is_said_of_one_that_is_too_large(value, is_said, tmp_path):
    schema = {"input_ids": FeatureSpec(tf.int64, 1, 0, 9)}
    path = write(tmp_path / "a", [value], schema, lambda number: {"input_ids": [number]})
    with refuses(f"{value} ... 0 ... 9") as error:
        record_files.check_records([path], schema)
    assert ("vocab_size" in str(error.value)) == is_said


@pytest.mark.parametrize(
    ("schema", "name", "value", "allowed"),
    [
        (SMALL_SCHEMA, "ids", 10, "0 ... 9"),
        (SMALL_SCHEMA, "ids", -1, "0 ... 9"),
        (SMALL_SCHEMA, "ids", 2**32, "0 ... 9"),  # 0 in int32
        (SMALL_SCHEMA, "weight", -0.5, "0 ... 3.4028234663852886e+38"),
        (SMALL_SCHEMA, "weight", float("nan"), "0 ... 3.4028234663852886e+38"),
        (SMALL_SCHEMA, "weight", float("inf"), "0 ... 3.4028234663852886e+38"),
        (SCHEMA, "ids", 2**31, "-2147483648 ... 2147483647"),
        (SCHEMA, "weight", float("-inf"), "-3.4"),
    ],
)
def test_values_out_of_range_fail_and_are_named(tmp_path, schema, name, value, allowed):
    def make(number):
        arrays = {"ids": [1, 2, 3], "weight": [1.0]}
        if number == 3:
            arrays[name] = [*arrays[name][:-1], value]
        return arrays

    path = write(tmp_path / "a", [1, 2, 3, 4], make=make)
    record_files.check_records([path], schema)
    for dataset in (
        input_pipeline.eval_dataset([path], schema, 2),
        train_batches([path], 2, schema=schema),
    ):
        with refuses(name, error=tf.errors.InvalidArgumentError):
            list(itertools.islice(dataset, 50))
    for read in (input_pipeline.load_arrays, lambda path, schema: find([path], schema)):
        with refuses(f"{name} ... record 3 ... {path} ... {value} ... {allowed}"):
            read(path, schema)


def find(files, schema):
    with record_files.naming_bad_records(files, schema):
        raise tf.errors.InvalidArgumentError(None, None, "a step failed")


def test_errors_without_a_bad_record_stay_as_they_are(five_files):
    with pytest.raises(tf.errors.InvalidArgumentError, match="a step failed"):
        find(five_files, SCHEMA)
    with (
        pytest.raises(tf.errors.ResourceExhaustedError),
        record_files.naming_bad_records(["is not read"], SCHEMA),
    ):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory")


# --- counts ---


@pytest.fixture
def counted(monkeypatch):
    """Paths of the files that are counted, not taken from an index."""
    paths, lengths = [], record_files.lengths

    def spy(path):
        paths.append(path)
        return lengths(path)

    monkeypatch.setattr(record_files, "lengths", spy)
    return paths


def test_counts_and_offsets(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "STEP", 3)
    counts = (0, 1, 2, 3, 4, 6, 7)
    paths = [write(tmp_path / str(count), range(count)) for count in counts]
    files = record_files.read_index(paths)
    assert [(file.path, file.count) for file in files] == list(zip(paths, counts, strict=True))
    for file in files:
        assert len(file.offsets) == max(-(-file.count // 3), 1)
        whole = list(tf.data.TFRecordDataset(file.path).as_numpy_iterator())
        sizes = [len(record) + 16 for record in whole]
        assert list(file.offsets) == [sum(sizes[:n]) for n in range(0, max(file.count, 1), 3)]


def test_an_index_spares_the_counting(five_files, tmp_path, counted):
    index = str(tmp_path / "records.json")
    first = record_files.read_index(five_files[:3], index)
    assert counted == five_files[:3]
    assert record_files.read_index(five_files[:3], index) == first
    assert counted == five_files[:3]
    more = record_files.read_index(five_files, index)
    assert counted == five_files and more[:3] == first
    assert os.listdir(tmp_path) == ["records.json"]


def test_changed_files_are_counted_again(tmp_path, counted):
    index = str(tmp_path / "records.json")
    paths = [write(tmp_path / name, range(5)) for name in "ab"]
    record_files.read_index(paths, index)
    write(tmp_path / "a", range(7))
    os.utime(paths[1], (1, 1))
    counted.clear()
    assert [file.count for file in record_files.read_index(paths, index)] == [7, 5]
    assert counted == paths
    counted.clear()
    assert [file.count for file in record_files.read_index(paths, index)] == [7, 5]
    assert counted == []


def with_entries(content, **values):
    """An index (dict) with other values for each file, as JSON."""
    entries = {path: entry | values for path, entry in content["files"].items()}
    return json.dumps(content | {"files": entries})


@pytest.mark.parametrize(
    "change",
    [
        lambda content: "{",
        lambda content: "[]",
        lambda content: json.dumps(content | {"files": 3}),
        lambda content: json.dumps(content | {"files": dict.fromkeys(content["files"], 1)}),
        lambda content: with_entries(content, count="5"),
        lambda content: with_entries(content, offsets=[]),
        lambda content: with_entries(content, offsets=[0, 3]),  # of an earlier version
        lambda content: with_entries(content, offsets=["0"]),
    ],
)
def test_an_index_that_cannot_be_used_is_made_anew(tmp_path, counted, change):
    index, path = tmp_path / "records.json", write(tmp_path / "a", range(5))
    record_files.read_index([path], str(index))
    content = json.loads(index.read_text())
    index.write_text(change(content))
    assert record_files.read_index([path], str(index))[0].count == 5
    assert counted == [path, path]
    assert json.loads(index.read_text()) == content


def write_summary(path, entries, name, **more):
    """Writes a summary next to a file: entries of files, and the name of their vocabulary."""
    content = {"tokenizer": {"vocab_file": name}, "vocabulary": name, "settings": {}}
    content |= {record_files.FILES: entries} | more
    Path(record_files.summary_file(str(path))).write_text(json.dumps(content))


def test_a_summary_with_other_offsets_still_names_the_tokenizer(tmp_path, counted):
    path = write(tmp_path / "a", range(5))
    write_summary(path, {path: record_files.entry(path, np.full(5, 1)) | {"offsets": [0, 3]}}, "v")
    assert record_files.summaries_of([path])[path]["vocabulary"] == "v"
    assert record_files.read_index([path])[0].count == 5
    assert counted == [path]


@pytest.mark.parametrize("damaged", [{"vocabulary": ["a"]}, {"vocabulary": None}, {"tokenizer": 1}])
def test_a_damaged_summary_names_no_tokenizer(tmp_path, damaged):
    path = write(tmp_path / "a", range(5))
    write_summary(path, {path: {}}, "v")
    assert record_files.summaries_of([path])[path]["vocabulary"] == "v"
    write_summary(path, {path: {}}, "v", **damaged)
    assert record_files.summaries_of([path]) == {}


def test_a_file_that_was_made_again_has_the_tokenizer_of_its_new_summary(tmp_path):
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        Path(path).write_bytes(b"")
    old, new = (record_files.entry(path, np.zeros(0, np.int64)) for path in paths[:2])
    for path in paths[::2]:  # summaries are not read in the order of their names
        write_summary(path, {path: old, paths[1]: old | {"size": 1}}, "old")
    write_summary(paths[1], {paths[1]: new}, "new")
    assert record_files.summaries_of(paths)[paths[1]]["vocabulary"] == "new"


def test_a_copied_file_has_the_tokenizer_of_the_summary_with_its_size(tmp_path):
    path = str(tmp_path / "b")
    Path(path).write_bytes(b"new")
    for name in "abcdefgh":  # summaries are read in any order
        kind, size = ("new", 3) if name == "b" else ("old", 5)
        write_summary(tmp_path / name, {path: {"size": size, "mtime_nsec": 1}}, kind)
    assert record_files.summaries_of([path])[path]["vocabulary"] == "new"


def test_other_workers_read_the_index_and_write_none(tmp_path):
    index, path = tmp_path / "records.json", write(tmp_path / "a", range(5))
    assert record_files.read_index([path], str(index), save=False)[0].count == 5
    assert not index.exists()


def test_damage_is_named(five_files, tmp_path):
    content = bytearray(Path(five_files[0]).read_bytes())
    content[len(content) // 2] ^= 1
    damaged = tmp_path / "damaged"
    damaged.write_bytes(content)
    with refuses(f"{damaged} ... record") as of_records:
        record_files.read_index([five_files[1], str(damaged)])
    Path(f"{damaged}.meta.json").touch()  # a file of cached features, with another remedy
    with refuses(f"{damaged} ... record") as of_features:
        record_files.read_index([five_files[1], str(damaged)])
    assert len(str(of_features.value)) > len(str(of_records.value))
    for path in (str(tmp_path / "absent"), write(tmp_path / "empty", [])):
        with refuses(path):
            record_files.read_index([path])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a-0-of-2", "a-1-of-2", "b-00000-of-00001.gz", "c"], []),
        (["a-1-of-2", "b-00000-of-00001"], ["Warning ... a ... 1 of 2"]),
        (["x/a-0-of-2.tfrecord", "x/a-1-of-2.tfrecord", "x/a-0-of-3.tfrecord"],
         ["Warning ... x/a.tfrecord ... 2 of 2 ... 1 of 3"]),
    ],
)  # fmt: skip
def test_sets_of_files_that_are_not_whole(names, said, capsys):
    record_files.say_shards(names)
    assert_says(capsys.readouterr().out, *said)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_the_progress_of_counting_ends_at_the_size_of_the_files(tmp_path, monkeypatch, compression):
    class Bar(progress.LogLines):
        def update(self, count):
            counted.append(count)

    counted, path = [], str(tmp_path / f"a{'.gz' if compression else ''}")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for _ in range(3000):
            writer.write(bytes(100))
    monkeypatch.setattr(progress, "bar", lambda *given, **_: Bar(*given))
    record_files.read_index([path], save=False)
    assert len(counted) == 3
    assert sum(counted) == pytest.approx(os.path.getsize(path))
