# SPDX-License-Identifier: Apache-2.0
"""Checking TFRecord files: before training, and after an error, to name the bad record."""

import contextlib
import itertools

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.errors import UserError, one_line
from albert_tf.records import schemas

CACHE_REMEDY = "If the file is damaged, delete it: it is then made anew"
# What the range of a feature hangs on, for messages.
_LIMITED_BY = {
    "input_ids": "vocab_size in --albert_config_file: another vocabulary than the records'",
    "masked_lm_ids": "vocab_size in --albert_config_file: another vocabulary than the records'",
    "segment_ids": "type_vocab_size in --albert_config_file",
    "masked_lm_positions": "--max_seq_length",
    "start_positions": "--max_seq_length",
    "end_positions": "--max_seq_length",
    "label_ids": "the number of labels",
}
# What bad data makes a step raise. Memory that runs out and lost workers raise other errors.
_DATA_ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)


def check_records(files, schema, flags=None, remedy=None):
    """Compares the first record of each file with the schema, before any training.

    Args:
        files: list of str.
        schema: dict from feature name to `FeatureSpec`.
        flags: dict from feature name to the flag that sets its length, for the message.
        remedy: str or None, a sentence for the message.

    Raises:
        UserError: a file is empty or no TFRecord file, or its first record does not fit.
    """
    for path in files:
        with _advising(remedy):
            first = next(_serialized(path), None)
            if first is None:
                raise UserError(f"{path} holds no record; remove it from the input or make it anew")
            _check_record(first, f"record 1 of {path}", schema, flags or {})


def find_bad_record(files, schema, flags=None, remedy=None):
    """Reads every record to find the one that broke a step; None if all are good.

    Args:
        files: list of str.
        schema: dict from feature name to `FeatureSpec`.
        flags: dict from feature name to the flag that sets its length, for the message.
        remedy: str or None, a sentence for the message.

    Raises:
        UserError: about the first record that does not fit, with its number.
    """
    for path in files:
        with _advising(remedy):
            for number, record in enumerate(_serialized(path), start=1):
                _check_record(record, f"record {number} of {path}", schema, flags or {})


@contextlib.contextmanager
def naming_bad_records(files, schema, flags=None, remedy=None):
    """Has an error of TensorFlow name the bad record, if one is the cause.

    Args:
        files: list of str, the files that the block reads.
        schema: dict from feature name to `FeatureSpec`.
        flags: dict from feature name to the flag that sets its length, for the message.
        remedy: str or None, a sentence for the message.

    Raises:
        UserError: about that record.
    """
    try:
        yield
    except _DATA_ERRORS:
        find_bad_record(files, schema, flags, remedy)
        raise


def first_features(path, count):
    """Yields the features of the first records of a file, as tf.train.Features maps them.

    Args:
        path: str.
        count: int, records at most.

    Raises:
        UserError: such a record is damaged.
    """
    for number, record in enumerate(itertools.islice(_serialized(path), count), start=1):
        yield _features(record, f"record {number} of {path}")


@contextlib.contextmanager
def _advising(remedy):
    try:
        yield
    except UserError as error:
        if not remedy:
            raise
        raise UserError(f"{error}. {remedy}") from error


def _serialized(path):
    """Yields the serialised records of a file."""
    count = 0
    try:
        for record in schemas.serialized([path]).as_numpy_iterator():
            yield record
            count += 1
    except tf.errors.OpError as error:
        if not count and not schemas.compression_of(path) and _is_gzipped(path):
            raise UserError(
                f"{path} is compressed: unpack it with gunzip, or have its name end in .gz"
            ) from error
        state = f"is damaged after record {count}" if count else "is not a readable TFRecord file"
        raise UserError(f"{path} {state}: {one_line(error)}") from error


def _is_gzipped(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except tf.errors.OpError:
        return False


def _features(record, where):
    try:
        return tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise UserError(f"{where} is not a tf.train.Example") from error


def _check_record(record, where, schema, flags):
    features = _features(record, where)
    for name, feature in schema.items():
        if name not in features:
            raise UserError(
                f"{where} has no feature {name}; it has {', '.join(sorted(features)) or 'none'}"
            )
        values = _values_of(features[name], feature, f"feature {name} in {where}")
        _check_length(len(values), feature, name, where, flags.get(name))
        _check_range(values, feature, name, where)


def _values_of(found, feature, where):
    kind = {tf.int64: "int64_list", tf.float32: "float_list"}[feature.dtype]
    found_kind = found.WhichOneof("kind")
    if found_kind != kind:
        raise UserError(f"{where} is {found_kind or 'empty'}, not {kind}")
    return np.array(getattr(found, kind).value)


def _check_length(length, feature, name, where, flag):
    if length == feature.length:
        return
    if flag is None:
        raise UserError(f"feature {name} in {where} has length {length}, not {feature.length}")
    doubled = name.startswith("masked_lm_") and length == 2 * feature.length
    raise UserError(
        f"--{flag}={feature.length} but the records have length {length} (feature {name}, {where})"
        + ("; data made with --do_permutation needs this flag doubled" if doubled else "")
    )


def _check_range(values, feature, name, where):
    smallest, largest = feature.limits
    bad = values[~((values >= smallest) & (values <= largest))]
    if len(bad):
        reason = _LIMITED_BY.get(name)
        raise UserError(
            f"feature {name} in {where} holds {bad[0]}; allowed are {smallest} to {largest}"
            + (f" ({reason})" if reason and bad[0] > largest else "")
        )
