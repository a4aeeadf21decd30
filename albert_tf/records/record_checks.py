# SPDX-License-Identifier: Apache-2.0
"""Checks of TFRecord files: before they are read, and after an error to find the bad record."""

import contextlib
import gzip
import itertools
import zlib

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf.errors import UserError, one_line
from albert_tf.records import schemas

CACHE_REMEDY = "If the file is damaged, delete it: it is then made anew"
_HEAD_BYTES, _CHECKSUM_BYTES = 12, 4  # before a record, its length with a checksum; after it
_LONGEST_PACKED = 1 << 28  # bytes of a record; the size of a compressed file says nothing
# The limit of each feature, for messages.
_LIMITED_BY = {
    "input_ids": "vocab_size in --albert_config_file: another vocabulary than the records'",
    "masked_lm_ids": "vocab_size in --albert_config_file: another vocabulary than the records'",
    "segment_ids": "type_vocab_size in --albert_config_file",
    "masked_lm_positions": "--max_seq_length",
    "start_positions": "--max_seq_length",
    "end_positions": "--max_seq_length",
    "label_ids": "the number of labels",
}
# Errors that bad data causes in a step. A lack of memory and lost workers raise other errors.
_DATA_ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)


def lengths(path):
    """Sizes of the records of a file in bytes, int64 array [n].

    TensorFlow's reader trusts the length that a record begins with and asks for that much memory,
    so nothing may be read with it before each length is known to lie within the file.

    Args:
        path: str.

    Raises:
        UserError: the file cannot be read, or a record goes on beyond its end.
    """
    return np.fromiter((length for length, _ in _walk(path, most_kept=0)), np.int64)


def first_records(path, count):
    """The features of the first records of a file, as tf.train.Features maps them.

    The file is opened once, and read without TensorFlow's reader. Checksums are not looked at.

    Args:
        path: str.
        count: int, records at most.

    Returns:
        list of dict, at least one.

    Raises:
        UserError: there is none, or one of them is damaged.
    """
    records = [record for _, record in itertools.islice(_walk(path, count), count)]
    if not records:
        raise UserError(f"{path} holds no record; remove it from the input or make it anew")
    try:
        return [_features(record, f"record {n} of {path}") for n, record in enumerate(records, 1)]
    except UserError:
        list(itertools.islice(_serialized(path), len(records)))  # perhaps a checksum is wrong
        raise


def check_records(files, schema, flags=None, remedy=None):
    """Compares the first record of each file with the schema, before any training.

    Args:
        files: list of str, paths; or dict from path to the first of its `first_records`.
        schema: dict from feature name to `FeatureSpec`.
        flags: dict from feature name to the flag that sets its length, for the message.
        remedy: str or None, a sentence for the message.

    Raises:
        UserError: a file is empty or no TFRecord file, or its first record does not fit.
    """
    for path in files:
        with advising(remedy):
            first = files[path] if isinstance(files, dict) else first_records(path, 1)[0]
            _check_features(first, f"record 1 of {path}", schema, flags or {})


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
        with advising(remedy):
            for number, record in enumerate(_serialized(path), start=1):
                where = f"record {number} of {path}"
                _check_features(_features(record, where), where, schema, flags or {})


@contextlib.contextmanager
def naming_bad_records(files, schema, flags=None, remedy=None):
    """Context that makes an error of TensorFlow name the bad record, if one is the cause.

    Args:
        files: list of str, the files that the block reads.
        schema: dict from feature name to `FeatureSpec`.
        flags: dict from feature name to the flag that sets its length, for the message.
        remedy: str or None, a sentence for the message.

    Raises:
        UserError: names the bad record.
    """
    try:
        yield
    except _DATA_ERRORS:
        find_bad_record(files, schema, flags, remedy)
        raise


@contextlib.contextmanager
def advising(remedy):
    """Context that adds a sentence to the message of a UserError.

    Args:
        remedy: str or None.
    """
    try:
        yield
    except UserError as error:
        if not remedy:
            raise
        raise UserError(f"{error}. {remedy}") from error


def _walk(path, most_kept):
    """Yields (length, content of one of the first `most_kept` records, else None) of records."""
    count, is_packed = 0, bool(schemas.compression_of(path))
    try:
        size = None if is_packed else tf.io.gfile.stat(path).length
        with contextlib.ExitStack() as stack:
            # GFile would take most of the time here.
            opened = tf.io.gfile.GFile if "://" in path else open
            file = stack.enter_context(opened(path, "rb"))
            if is_packed:
                file = stack.enter_context(gzip.GzipFile(fileobj=file))
            end = 0
            while head := file.read(_HEAD_BYTES):
                length, begin = int.from_bytes(head[:8], "little"), end + _HEAD_BYTES
                end = begin + length + _CHECKSUM_BYTES
                if len(head) < _HEAD_BYTES or end > (size or begin + _LONGEST_PACKED):
                    raise _damaged(path, count, f"the next one has {length} bytes by its length")
                content = file.read(length) if count < most_kept else None
                file.seek(end)
                if file.tell() < end:
                    raise _damaged(path, count, "the next one ends before it is whole")
                yield length, content
                count += 1
    except (tf.errors.OpError, OSError, EOFError, zlib.error) as error:
        raise _damaged(path, count, one_line(error)) from error


def _serialized(path):
    """Yields the serialised records of a file."""
    count = 0
    try:
        for record in schemas.serialized([path]).as_numpy_iterator():
            yield record
            count += 1
    except tf.errors.OpError as error:
        raise _damaged(path, count, one_line(error)) from error


def _damaged(path, count, reason):
    """UserError about a damaged file, of which `count` records can be read."""
    if not count and not schemas.compression_of(path) and _is_gzipped(path):
        return UserError(
            f"{path} is compressed: unpack it with gunzip, or have its name end in .gz"
        )
    state = f"is damaged after record {count}" if count else "is not a readable TFRecord file"
    return UserError(f"{path} {state}: {reason}")


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


def _check_features(features, where, schema, flags):
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
