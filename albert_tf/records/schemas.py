# SPDX-License-Identifier: Apache-2.0
"""TFRecord files: the schemas of all kinds of records, reading and writing.

A schema is a dict from feature name to `FeatureSpec`. Writer, parser and checker all use it, so a
record cannot be written in one shape and expected in another.
"""

import contextlib
import dataclasses
import functools
import itertools
import re

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError

_SHARDS = re.compile(r"@(\d+)$")
_MOST_SHARDS = 99_999
_GARDEN_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
ORDER_LABEL = "next_sentence_labels"
_INT64_LIST, _FLOAT_LIST = 0x1A, 0x12  # tags of the two kinds of lists in a Feature


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """One feature of a record: a fixed number of values of one type, in a range.

    Args:
        dtype: tf.DType, tf.int64 or tf.float32: the number types that a tf.train.Example can hold.
        length: int, number of values.
        minimum, maximum: int or float, the smallest and the largest value allowed; None for the
            limits of int32 or float32, which are the types of batches.
        stored_as: str or None, the feature's name in records of another tool.
        set_by: str or None, the option that sets the length, for messages.
    """

    dtype: tf.DType
    length: int
    minimum: float | None = None
    maximum: float | None = None
    stored_as: str | None = None
    set_by: str | None = None

    @property
    def limits(self):
        """(smallest, largest) value allowed; nan and the infinities are never allowed."""
        kind = tf.int32 if self.dtype == tf.int64 else self.dtype
        return (
            kind.min if self.minimum is None else self.minimum,
            kind.max if self.maximum is None else self.maximum,
        )


def stored_name(schema, name):
    """The name of a feature of a schema in the records."""
    return schema[name].stored_as or name


def as_stored(schema, record):
    """The schema with the names of the Model Garden, if a record has them.

    Args:
        schema: dict from feature name to `FeatureSpec`.
        record: dict or other container of the names of a record's features.
    """
    names = {
        name: theirs
        for name, theirs in _GARDEN_NAMES.items()
        if name in schema and name not in record and theirs in record
    }
    return schema | {
        name: dataclasses.replace(schema[name], stored_as=theirs) for name, theirs in names.items()
    }


def _index(length, size=None, set_by=None):
    """Feature of numbers from 0 to size - 1, or to the largest int32 if no size is given."""
    return FeatureSpec(tf.int64, length, 0, None if size is None else size - 1, set_by=set_by)


def _token_features(length, vocab_size=None, type_vocab_size=None, set_by=None):
    sizes = {"input_ids": vocab_size, "input_mask": 2, "segment_ids": type_vocab_size}
    return {name: _index(length, size, set_by) for name, size in sizes.items()}


def pretraining_schema(max_seq_length, max_predictions_per_seq, *, vocab_size=None, **sizes):
    """Schema of the pre-training records.

    Label of `next_sentence_labels`: 0 = segments in order, 1 = swapped or from another document.
    Records of one segment do not have it.

    Args:
        max_seq_length: int T, tokens per record.
        max_predictions_per_seq: int, length of the masked_lm_* features. Data made with
            do_permutation holds twice as many as the writer's setting of that name.
        vocab_size: int V, or None for no limit on ids; the same in all schemas.
        sizes: type_vocab_size, int, or None for no limit on segment ids; the same in all schemas.
    """
    tokens, masks = {"set_by": "max_seq_length"}, {"set_by": "max_predictions_per_seq"}
    return {
        **_token_features(max_seq_length, vocab_size, **sizes, **tokens),
        "token_boundary": _index(max_seq_length, 2, **tokens),
        "masked_lm_positions": _index(max_predictions_per_seq, max_seq_length, **masks),
        "masked_lm_ids": _index(max_predictions_per_seq, vocab_size, **masks),
        "masked_lm_weights": FeatureSpec(tf.float32, max_predictions_per_seq, minimum=0, **masks),
        ORDER_LABEL: _index(1, 2),
    }


def classification_schema(
    max_seq_length, label_dtype=tf.int64, *, num_labels=None, num_scores=1, **sizes
):
    """Schema of the records of sentence classification and regression.

    `is_real_example` is 0 for the rows that fill a last batch, which count in no metric.

    Args:
        max_seq_length: int, tokens of a record; in multiple choice, the sequences of all choices
            are put end to end.
        label_dtype: tf.DType, tf.int64 for the number of a class, tf.float32 for a score.
        num_labels: int C, or None for no limit on the labels.
        num_scores: int, scores of an example.
        sizes: vocab_size and type_vocab_size.
    """
    is_class = label_dtype == tf.int64
    return {
        **_token_features(max_seq_length, **sizes),
        "label_ids": _index(1, num_labels) if is_class else FeatureSpec(label_dtype, num_scores),
        "is_real_example": _index(1, 2),
    }


def token_classification_schema(max_seq_length, *, num_labels=None, **sizes):
    """Schema of the records of token classification.

    `label_mask` is 1 at the first token of each word, where `label_ids` holds the word's label.
    Both are 0 elsewhere.

    Args:
        max_seq_length: int T, tokens per record.
        num_labels: int C, or None for no limit on the labels.
        sizes: vocab_size and type_vocab_size.
    """
    return {
        **_token_features(max_seq_length, **sizes),
        "label_ids": _index(max_seq_length, num_labels),
        "label_mask": _index(max_seq_length, 2),
    }


def squad_schema(max_seq_length, training, **sizes):
    """Schema of the SQuAD records, one per window of a paragraph.

    The labels start_positions and end_positions are positions in the sequence. If the window does
    not hold the answer, both are 0 ([CLS]) and is_impossible is 1.

    Args:
        max_seq_length: int T, tokens of a window with its question.
        training: bool, whether there are labels.
        sizes: vocab_size and type_vocab_size.
    """
    schema = {
        "unique_ids": FeatureSpec(tf.int64, 1),
        **_token_features(max_seq_length, **sizes),
        "p_mask": _index(max_seq_length, 2),
    }
    if training:
        schema |= {
            "start_positions": _index(1, max_seq_length),
            "end_positions": _index(1, max_seq_length),
            "is_impossible": _index(1, 2),
        }
    return schema


# === Reading ===


def serialized(paths):
    """The serialised records of files, in order, as a tf.data.Dataset of string scalars.

    Args:
        paths: list of str; files whose names end in .gz are compressed with gzip.
    """
    compressions = [compression_of(path) for path in paths]
    return tf.data.Dataset.from_tensor_slices((paths, compressions)).flat_map(
        lambda path, compression: tf.data.TFRecordDataset(path, compression)
    )


def compression_of(path):
    """TensorFlow's name for the compression of a file, by its file name: "GZIP" or ""."""
    return "GZIP" if path.endswith(".gz") else ""


# === Writing ===


def encode_rows(arrays, schema):
    """Serialised tf.train.Examples.

    The bytes are those of `tf.train.Example.SerializeToString(deterministic=True)`.

    Args:
        arrays: dict from feature name to numpy array [n, length], a row for each record.
        schema: dict from feature name to `FeatureSpec`.

    Returns:
        list of n bytes.
    """
    assert arrays.keys() == schema.keys(), f"not of the schema: {arrays.keys() ^ schema.keys()}"
    fields = []
    for name, feature in sorted(schema.items()):
        shape = arrays[name].shape[1:]
        assert shape == (feature.length,), f"{name} has shape {shape}, not ({feature.length},)"
        kind = np.int64 if feature.dtype == tf.int64 else np.float32
        fields.append(_fields(name, arrays[name].astype(kind, casting="same_kind", copy=False)))
    return [_tagged(0x0A, b"".join(row)) for row in zip(*fields, strict=True)]


@contextlib.contextmanager
def record_writer(path):
    """Context with a TFRecord writer whose file appears complete when the block ends.

    It is written under a temporary name in the same directory and renamed on a clean exit. On an
    error it is removed, and what was at the path before stays.

    Args:
        path: str; the writer compresses if it ends in .gz.

    Yields:
        tf.io.TFRecordWriter.
    """
    compression = compression_of(path)
    with files.replacing(path) as (name,), tf.io.TFRecordWriter(name, compression) as writer:
        yield writer


def expand_shards(names, count=None, flag="output_file"):
    """Expands a list of file names in which name@64 stands for 64 files.

    Args:
        names: str, comma-separated. dir/train.tfrecord.gz@2 stands for
            dir/train-00000-of-00002.tfrecord.gz and dir/train-00001-of-00002.tfrecord.gz.
        count: int or None, number of files for a single name without @.
        flag: str, name of the flag that gave the names, for the message.

    Returns:
        list of str.

    Raises:
        UserError: there is no name, or a number does not fit.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise UserError(f"--{flag} is empty; give one or more file names")
    if count is not None:
        if len(wanted) > 1 or _SHARDS.search(wanted[0]):
            raise UserError(f"--num_output_shards={count}: --{flag} must be one name without @")
        wanted = [f"{wanted[0]}@{count}"]
    paths = []
    for name in wanted:
        if not (match := _SHARDS.search(name)):
            paths.append(name)
            continue
        number, whole = int(match[1]), name[: match.start()]
        if not 1 <= number <= _MOST_SHARDS:
            raise UserError(f"--{flag}={name}: from 1 to {_MOST_SHARDS} files are possible")
        directory, slash, base = whole.rpartition("/")
        stem, dot, ending = base.partition(".")
        paths += [
            f"{directory}{slash}{stem}-{k:05}-of-{number:05}{dot}{ending}" for k in range(number)
        ]
    return paths


def write_records(path, schema, batches):
    """Writes a complete record file or none, and returns the number of its records.

    Args:
        path: str.
        schema: dict from feature name to `FeatureSpec`.
        batches: iterable of dicts of numpy arrays [n, ...], one row per record; rows of several
            dimensions are written end to end.

    Raises:
        UserError: there is no record.
    """
    count = 0
    with record_writer(path) as writer:
        for arrays in batches:
            flat = {name: values.reshape(len(values), -1) for name, values in arrays.items()}
            for record in encode_rows(flat, schema):
                writer.write(record)
                count += 1
        if not count:
            raise UserError(f"there is no example to write to {path}")
    return count


# === Serialised Examples, directly from arrays ===

# An Example is nested messages: Features { map<name, Feature { Int64List | FloatList }> }. Every
# level is a tag, a length and the content. Maps are sorted by key; no key may begin with another.


def _fields(name, values):
    """The map entries of one feature (int64 or float32 array), one for each row."""
    if values.dtype == np.float32:
        content, tag = values.astype("<f4", copy=False).tobytes(), _FLOAT_LIST
        ends = [4 * values.shape[1] * row for row in range(len(values) + 1)]
    else:
        (content, ends), tag = _varints(values), _INT64_LIST
    return [
        _head(name, tag, end - start) + content[start:end]
        for start, end in itertools.pairwise(ends)
    ]


def _varints(values):
    """Returns (bytes of all values, offsets of the rows followed by the size)."""
    left = values.view(np.uint64)  # the format encodes negative numbers as large unsigned ones
    largest = int(left.max(initial=0))
    kind = np.uint32 if largest < 2**32 else np.uint64
    shifts = np.arange(0, max(1, largest.bit_length()), 7, dtype=kind)
    left = left.astype(kind)[..., np.newaxis] >> shifts  # [n, length, bytes]
    low = left.astype(np.uint8) & np.uint8(0x7F)
    low |= (left > 0x7F).view(np.uint8) << np.uint8(7)  # more bytes follow
    is_used = left > 0
    is_used[..., 0] = True
    return low[is_used].tobytes(), [0, *np.cumsum(is_used.sum(axis=(1, 2))).tolist()]


@functools.lru_cache(maxsize=1 << 14)
def _head(name, tag, size):
    """Bytes that come before the numbers of a feature; the numbers take `size` bytes."""
    numbers = b"\x0a" + _varint(size) if size else b""
    kind = bytes([tag]) + _varint(len(numbers) + size) + numbers
    feature = b"\x12" + _varint(len(kind) + size) + kind
    key = _tagged(0x0A, name.encode())
    return b"\x0a" + _varint(len(key) + len(feature) + size) + key + feature


def _tagged(tag, content):
    return bytes([tag]) + _varint(len(content)) + content


@functools.lru_cache(maxsize=1 << 14)
def _varint(number):
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
