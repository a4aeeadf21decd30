# SPDX-License-Identifier: Apache-2.0
import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data import input_pipeline, record_checks, records
from albert_tf.data.records import FeatureSpec
from albert_tf.errors import UserError
from tests import SHARED

SCHEMA = {"ids": FeatureSpec(tf.int64, 3), "weight": FeatureSpec(tf.float32, 1)}
FLAGS = {"ids": "max_seq_length"}


def example(number):
    return {"ids": np.array([number, -1, 0]), "weight": np.array([number / 2], np.float32)}


def write(path, numbers, schema=SCHEMA, make=example):
    with records.open_writers([str(path)]) as (writer,):
        for number in numbers:
            writer.write(records.encode(make(number), schema))
    return str(path)


def first_ids(dataset, batches=None):
    return [batch["ids"][:, 0].numpy().tolist() for batch in itertools.islice(dataset, batches)]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


# --- schema and writing ---


def test_pretraining_schema():
    schema = records.pretraining_schema(128, 20)
    lengths = {name: (feature.dtype, feature.length) for name, feature in schema.items()}
    assert lengths == {
        "input_ids": (tf.int64, 128),
        "input_mask": (tf.int64, 128),
        "segment_ids": (tf.int64, 128),
        "token_boundary": (tf.int64, 128),
        "masked_lm_positions": (tf.int64, 20),
        "masked_lm_ids": (tf.int64, 20),
        "masked_lm_weights": (tf.float32, 20),
        "next_sentence_labels": (tf.int64, 1),
    }


def test_round_trip(tmp_path):
    path = write(tmp_path / "a.tfrecord", [1, 2, 3])
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
        ({"ids": [1, 2], "weight": [0.0]}, r"ids has shape \[2\], the schema wants \[3\]"),
        ({"ids": [[1, 2, 3]], "weight": [0.0]}, r"ids has shape \[1, 3\]"),
        ({"ids": [1, 2, 3]}, r"missing \['weight'\], unknown \[\]"),
        ({"ids": [1, 2, 3], "weight": [0.0], "more": [1]}, r"missing \[\], unknown \['more'\]"),
    ],
)
def test_encode_refuses_what_differs_from_the_schema(arrays, message):
    with pytest.raises(ValueError, match=message):
        records.encode(arrays, SCHEMA)


def test_an_error_while_writing_leaves_things_as_they_were(tmp_path):
    old = tmp_path / "old"
    old.write_text("old")
    with (
        pytest.raises(RuntimeError),
        records.open_writers([str(old), str(tmp_path / "new")]) as writers,
    ):
        writers[1].write(b"x")
        assert len(list(tmp_path.iterdir())) == 3
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert old.read_text() == "old"


def test_writers_replace_what_was_there(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_text("old")
    write(path, [7])
    assert first_ids(input_pipeline.eval_dataset([str(path)], SCHEMA, 1)) == [[7]]
    assert list(tmp_path.iterdir()) == [path]


# --- reading ---


@pytest.fixture(scope="module")
def five_files(tmp_path_factory):
    """Five files of 40 records; record n of file f holds 1000 f + n."""
    directory = tmp_path_factory.mktemp("five")
    return [write(directory / f"{f}.tfrecord", range(1000 * f, 1000 * f + 40)) for f in range(1, 6)]


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


# --- checking ---


def test_good_files_pass(five_files):
    record_checks.check_records(five_files, SCHEMA, FLAGS)
    assert record_checks.find_bad_record(five_files, SCHEMA, FLAGS) is None


def test_a_length_that_differs_names_flag_file_and_both_numbers(five_files):
    schema = SCHEMA | {"ids": FeatureSpec(tf.int64, 128)}
    message = r"--max_seq_length=128 but the records have length 3 \(feature ids, record 1 of .*"
    with pytest.raises(ValueError, match=message + r"1\.tfrecord"):
        record_checks.check_records(five_files, schema, FLAGS)
    with pytest.raises(ValueError, match=r"feature ids in record 1 of .* has length 3, not 128"):
        record_checks.check_records(five_files, schema, {})


def test_doubled_predictions_are_explained(tmp_path):
    def permuted(number):
        schema = records.pretraining_schema(8, 4)
        return {name: np.zeros(feature.length, int) for name, feature in schema.items()}

    path = write(tmp_path / "a", [0], records.pretraining_schema(8, 4), permuted)
    flags = {"masked_lm_positions": "max_predictions_per_seq"}
    message = "--max_predictions_per_seq=2 but the records have length 4.*do_permutation"
    with pytest.raises(ValueError, match=message):
        record_checks.check_records([path], records.pretraining_schema(8, 2), flags)


def test_features_missing_or_of_another_type(five_files):
    with pytest.raises(ValueError, match=r"has no feature label; it has ids, weight"):
        record_checks.check_records(five_files, SCHEMA | {"label": FeatureSpec(tf.int64, 1)}, FLAGS)
    with pytest.raises(ValueError, match=r"feature weight in .* is float_list, not int64_list"):
        record_checks.check_records(five_files, {"weight": FeatureSpec(tf.int64, 1)}, FLAGS)


def test_files_that_are_no_records(tmp_path, five_files):
    empty = write(tmp_path / "empty", [])
    with pytest.raises(ValueError, match="empty holds no record"):
        record_checks.check_records([five_files[0], empty], SCHEMA, FLAGS)
    text = tmp_path / "text"
    text.write_text("This is a text and no TFRecord file." * 9)
    with pytest.raises(ValueError, match="text is not a readable TFRecord file"):
        record_checks.check_records([str(text)], SCHEMA, FLAGS)
    with pytest.raises(ValueError, match="absent is not a readable TFRecord file"):
        record_checks.check_records([str(tmp_path / "absent")], SCHEMA, FLAGS)
    with records.open_writers([str(tmp_path / "other")]) as (writer,):
        writer.write(b"\xff\xff\xff")
    with pytest.raises(ValueError, match=r"record 1 of .*other is not a tf\.train\.Example"):
        record_checks.check_records([str(tmp_path / "other")], SCHEMA, FLAGS)


def test_find_bad_record_says_which(tmp_path, five_files):
    path = str(tmp_path / "mixed")
    short = SCHEMA | {"ids": FeatureSpec(tf.int64, 2)}
    with records.open_writers([path]) as (writer,):
        writer.write(records.encode(example(1), SCHEMA))
        writer.write(records.encode({"ids": [1, 2], "weight": [0.0]}, short))
    record_checks.check_records([path], SCHEMA, FLAGS)
    with pytest.raises(ValueError, match=r"length 2 .*record 2 of .*mixed"):
        record_checks.find_bad_record([*five_files, path], SCHEMA, FLAGS)


def test_a_file_cut_short_is_found(tmp_path, five_files):
    cut = tmp_path / "cut"
    cut.write_bytes(Path(five_files[0]).read_bytes()[:-5])
    with pytest.raises(ValueError, match="cut is damaged after record 39"):
        record_checks.find_bad_record([str(cut)], SCHEMA, FLAGS)


def gzipped(content):
    return gzip.compress(content)


def cut(content):
    return content[:-30]


def with_a_flipped_bit(content):
    return content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (gzipped, "is compressed: unpack it with gunzip"),
        (cut, "is damaged after record 39"),
        (with_a_flipped_bit, "is damaged after record 39"),
        (lambda content: b"text " * 99, "is not a readable TFRecord file"),
        (lambda content: b"", "holds no record"),
    ],
    ids=["gzip", "cut", "bit", "text", "empty"],
)
def test_damaged_files_are_named_in_one_line(five_files, tmp_path, damage, message):
    path = tmp_path / "file"
    path.write_bytes(damage(Path(five_files[0]).read_bytes()))
    with pytest.raises(UserError) as error:
        record_checks.check_records([str(path)], SCHEMA)
        input_pipeline.load_arrays(str(path), SCHEMA)
    assert str(error.value).startswith(f"{path} {message}") and "\n" not in str(error.value)


SMALL_SCHEMA = {
    "ids": FeatureSpec(tf.int64, 3, 0, 9),
    "weight": FeatureSpec(tf.float32, 1, minimum=0),
}


@pytest.mark.parametrize(
    ("schema", "name", "value", "allowed"),
    [
        (SMALL_SCHEMA, "ids", 10, "0 to 9"),
        (SMALL_SCHEMA, "ids", -1, "0 to 9"),
        (SMALL_SCHEMA, "ids", 2**32, "0 to 9"),  # 0 in int32
        (SMALL_SCHEMA, "weight", -0.5, "0 to 3.4"),
        (SMALL_SCHEMA, "weight", float("nan"), "0 to 3.4"),
        (SMALL_SCHEMA, "weight", float("inf"), "0 to 3.4"),
        (SCHEMA, "ids", 2**31, "-2147483648 to 2147483647"),
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
    record_checks.check_records([path], schema)
    for dataset in (
        input_pipeline.eval_dataset([path], schema, 2),
        input_pipeline.train_dataset([path], schema, 2, seed=1),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"feature {name} holds a value"):
            list(itertools.islice(dataset, 50))
    message = f"feature {name} in record 3 of {path} holds {value}; allowed are {allowed}"
    for read in (input_pipeline.load_arrays, lambda path, schema: find([path], schema)):
        with pytest.raises(UserError) as error:
            read(path, schema)
        assert str(error.value).startswith(message)


def find(files, schema):
    with record_checks.naming_bad_records(files, schema):
        raise tf.errors.InvalidArgumentError(None, None, "a step failed")


def test_errors_without_a_bad_record_stay_as_they_are(five_files):
    with pytest.raises(tf.errors.InvalidArgumentError, match="a step failed"):
        find(five_files, SCHEMA)
    with (
        pytest.raises(tf.errors.ResourceExhaustedError),
        record_checks.naming_bad_records(["is not read"], SCHEMA),
    ):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory")


def test_ranges_of_the_schemas():
    sizes = {"vocab_size": 300, "type_vocab_size": 2}
    ids = {"input_ids": (0, 299), "input_mask": (0, 1), "segment_ids": (0, 1)}
    largest = tf.float32.max

    def limits(schema):
        return {name: feature.limits for name, feature in schema.items()}

    assert limits(records.pretraining_schema(16, 4, **sizes)) == {
        **ids,
        "token_boundary": (0, 1),
        "masked_lm_positions": (0, 15),
        "masked_lm_ids": (0, 299),
        "masked_lm_weights": (0, largest),
        "next_sentence_labels": (0, 1),
    }
    assert limits(records.classification_schema(16, num_labels=3, **sizes)) == {
        **ids,
        "label_ids": (0, 2),
        "is_real_example": (0, 1),
    }
    scores = limits(records.classification_schema(16, tf.float32))
    assert scores["label_ids"] == (-largest, largest)
    assert scores["input_ids"] == (0, 2**31 - 1)
    assert limits(records.multiple_choice_schema(16, 4, **sizes))["label_ids"] == (0, 3)
    squad = limits(records.squad_schema(16, training=True, **sizes))
    assert squad["start_positions"] == squad["end_positions"] == (0, 15)
    assert squad["p_mask"] == squad["is_impossible"] == (0, 1)


@pytest.mark.shared_data
def test_the_originals_file_fits_the_schema(tmp_path):
    source = SHARED / "golden" / "pretraining" / "default_s128_d1"
    if not source.with_suffix(".npz").exists():
        pytest.skip(f"{source}.npz is not here")
    path = tmp_path / "original.tfrecord"
    path.write_bytes(gzip.decompress(source.with_suffix(".tfrecord.gz").read_bytes()))
    schema = records.pretraining_schema(128, 20)
    assert record_checks.find_bad_record([str(path)], schema, {}) is None
    (batch,) = input_pipeline.eval_dataset([str(path)], schema, 1000)
    expected = np.load(source.with_suffix(".npz"))
    assert set(batch) == set(expected)
    for name, value in batch.items():
        np.testing.assert_array_equal(value, expected[name])
