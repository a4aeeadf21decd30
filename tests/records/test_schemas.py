# SPDX-License-Identifier: Apache-2.0
"""Schemas, and writing records: byte for byte as the protobuf library does."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import input_pipeline, record_files, schemas
from tests import SHARED, read_arrays
from tests.errors import refuses
from tests.records.small_records import SCHEMA, encode, write


def test_round_trip(tmp_path):
    (tmp_path / "a.tfrecord").write_text("old")
    path = write(tmp_path / "a.tfrecord", [1, 2, 3])
    assert [path] == list(map(str, tmp_path.iterdir()))
    batches = list(input_pipeline.eval_dataset([path], SCHEMA, 2))
    assert [batch["ids"].numpy().tolist() for batch in batches] == [
        [[1, -1, 0], [2, -1, 0]],
        [[3, -1, 0]],
    ]
    assert [batch["weight"].numpy().tolist() for batch in batches] == [[[0.5], [1.0]], [[1.5]]]
    assert batches[0]["ids"].dtype == tf.int32
    assert batches[0]["weight"].dtype == tf.float32


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": [1, 2], "weight": [0.0]}, "(2,) ... (3,)"),
        ({"ids": [[1, 2, 3]], "weight": [0.0]}, "(1, 3)"),
        ({"ids": [1, 2, 3]}, "weight"),
        ({"ids": [1, 2, 3], "weight": [0.0], "more": [1]}, "more"),
    ],
)
def test_encode_refuses_what_differs_from_the_schema(arrays, message):
    with refuses(message, error=AssertionError):
        encode(arrays, SCHEMA)


def test_an_error_while_writing_leaves_things_as_they_were(tmp_path):
    old = tmp_path / "old"
    old.write_text("old")
    with pytest.raises(RuntimeError), schemas.record_writer(str(old)) as writer:
        writer.write(b"x")
        assert len(list(tmp_path.iterdir())) == 2
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "old"


def test_schemas():
    sizes = {"vocab_size": 300, "type_vocab_size": 2}
    ids = {"input_ids": (0, 299), "input_mask": (0, 1), "segment_ids": (0, 1)}
    largest = tf.float32.max

    def limits(schema):
        return {name: feature.limits for name, feature in schema.items()}

    schema = schemas.pretraining_schema(16, 4, **sizes)
    assert {name: (spec.dtype, spec.length, spec.limits) for name, spec in schema.items()} == {
        **{name: (tf.int64, 16, limits) for name, limits in ids.items()},
        "token_boundary": (tf.int64, 16, (0, 1)),
        "masked_lm_positions": (tf.int64, 4, (0, 15)),
        "masked_lm_ids": (tf.int64, 4, (0, 299)),
        "masked_lm_weights": (tf.float32, 4, (0, largest)),
        "next_sentence_labels": (tf.int64, 1, (0, 1)),
    }
    assert limits(schemas.classification_schema(16, num_labels=3, **sizes)) == {
        **ids,
        "label_ids": (0, 2),
        "is_real_example": (0, 1),
    }
    scores = limits(schemas.classification_schema(16, tf.float32))
    assert scores["label_ids"] == (-largest, largest)
    assert scores["input_ids"] == (0, 2**31 - 1)
    assert limits(schemas.classification_schema(64, num_labels=4, **sizes))["label_ids"] == (0, 3)
    squad = limits(schemas.squad_schema(16, training=True, **sizes))
    assert squad["start_positions"] == squad["end_positions"] == (0, 15)
    assert squad["p_mask"] == squad["is_impossible"] == (0, 1)


@pytest.mark.shared_data
def test_the_originals_file_fits_the_schema(tmp_path):
    source = SHARED / "golden" / "pretraining" / "default_s128_d1"
    if not source.with_suffix(".npz").exists():
        pytest.skip(f"{source}.npz is not here")
    path = tmp_path / "original.tfrecord"
    path.write_bytes(gzip.decompress(source.with_suffix(".tfrecord.gz").read_bytes()))
    schema = schemas.pretraining_schema(128, 20)
    assert record_files.find_bad_record([str(path)], schema) is None
    (batch,) = input_pipeline.eval_dataset([str(path)], schema, 1000)
    expected = read_arrays(source.with_suffix(".npz"))
    assert set(batch) == set(expected)
    for name, value in batch.items():
        np.testing.assert_array_equal(value, expected[name])


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
    kinds = {name: tf.float32 if v.dtype == np.float32 else tf.int64 for name, v in columns.items()}
    schema = {name: schemas.FeatureSpec(kinds[name], v.shape[1]) for name, v in columns.items()}
    found = schemas.encode_rows(columns, schema)
    rows = range(len(next(iter(columns.values()))))
    assert found == [by_library(columns, row) for row in rows]


INTEGERS = [0, 1, 127, 128, 16383, 16384, 2**31 - 1, 2**63 - 1, -1, -(2**63)]


def test_numbers_of_every_width():
    check({"a": np.array([INTEGERS]), "b": np.array(INTEGERS)[:, None][:1]})
    check({"a": np.array(INTEGERS)[:, np.newaxis]})
    check({"a": np.array([[True], [False]]), "c": np.array([[7], [200]], np.uint8)})
    check({"a": np.array([[np.nan, -0.0, np.inf, 1.5]], np.float32)})


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32])
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (1, 1), (3, 600)])
@pytest.mark.parametrize("names", [["name"], ["b", "é", "猫", "a"], ["x" * 150]])
def test_names_and_shapes(names, shape, kind):
    check({name: np.arange(np.prod(shape)).reshape(shape).astype(kind) for name in names})
