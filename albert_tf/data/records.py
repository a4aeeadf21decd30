# SPDX-License-Identifier: Apache-2.0
"""TFRecord files: the schemas, writing, reading, and checking before use.

A schema is a dict from feature name to `Feature`. Writer, parser and checker all go by it, so a
record cannot be written in one shape and expected in another.
"""

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf import files as whole_files
from albert_tf.errors import UserError, one_line


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a record: so many numbers of one type, in a range.

    Args:
        dtype: tf.DType, tf.int64 or tf.float32, the two number types a tf.train.Example can hold.
        length: int, how many numbers.
        minimum, maximum: int or float, the smallest and the largest value allowed; None for those
            of int32 or float32, since batches hold these types.
    """

    dtype: tf.DType
    length: int
    minimum: float | None = None
    maximum: float | None = None

    @property
    def limits(self):
        """(smallest, largest) value allowed; nan and the infinities never are."""
        kind = tf.int32 if self.dtype == tf.int64 else self.dtype
        return (
            kind.min if self.minimum is None else self.minimum,
            kind.max if self.maximum is None else self.maximum,
        )


def _index(length, size=None):
    """Numbers from 0 to size - 1; to the largest where no size is known."""
    return Feature(tf.int64, length, 0, None if size is None else size - 1)


def _token_features(length, vocab_size, type_vocab_size):
    return {
        "input_ids": _index(length, vocab_size),
        "input_mask": _index(length, 2),
        "segment_ids": _index(length, type_vocab_size),
    }


def pretraining_schema(
    max_seq_length, max_predictions_per_seq, *, vocab_size=None, type_vocab_size=None
):
    """Schema of the pre-training records.

    Label of `next_sentence_labels`: 0 = segments in order, 1 = swapped or from another document.

    Args:
        max_seq_length: int T, tokens per record.
        max_predictions_per_seq: int, length of the masked_lm_* features. Data made with
            do_permutation holds twice as many as the writer's setting of that name.
        vocab_size: int V, or None not to limit ids; so in all schemas.
        type_vocab_size: int, or None not to limit segment ids; so in all schemas.
    """
    return {
        **_token_features(max_seq_length, vocab_size, type_vocab_size),
        "token_boundary": _index(max_seq_length, 2),
        "masked_lm_positions": _index(max_predictions_per_seq, max_seq_length),
        "masked_lm_ids": _index(max_predictions_per_seq, vocab_size),
        "masked_lm_weights": Feature(tf.float32, max_predictions_per_seq, minimum=0),
        "next_sentence_labels": _index(1, 2),
    }


def classification_schema(
    max_seq_length, label_dtype=tf.int64, *, num_labels=None, vocab_size=None, type_vocab_size=None
):
    """Schema of the records of sentence classification and regression.

    `is_real_example` is 0 for the rows that fill a last batch, which count in no metric.

    Args:
        max_seq_length: int, tokens per record.
        label_dtype: tf.DType, tf.int64 for the number of a class, tf.float32 for a score.
        num_labels: int C, or None not to limit the labels.
        vocab_size: int or None.
        type_vocab_size: int or None.
    """
    is_class = label_dtype == tf.int64
    return {
        **_token_features(max_seq_length, vocab_size, type_vocab_size),
        "label_ids": _index(1, num_labels) if is_class else Feature(label_dtype, 1),
        "is_real_example": _index(1, 2),
    }


def multiple_choice_schema(max_seq_length, choices=4, **sizes):
    """Schema of the records of multiple choice: the sequences of all choices, end to end.

    Args:
        max_seq_length: int, tokens per choice.
        choices: int, sequences per record.
        sizes: vocab_size and type_vocab_size.
    """
    return classification_schema(choices * max_seq_length, num_labels=choices, **sizes)


def token_classification_schema(
    max_seq_length, *, num_labels=None, vocab_size=None, type_vocab_size=None
):
    """Schema of the records of token classification.

    `label_mask` is 1 at the first piece of each word, where `label_ids` holds the word's label.
    Both are 0 elsewhere.

    Args:
        max_seq_length: int T, tokens per record.
        num_labels: int C, or None not to limit the labels.
        vocab_size: int or None.
        type_vocab_size: int or None.
    """
    return {
        **_token_features(max_seq_length, vocab_size, type_vocab_size),
        "label_ids": _index(max_seq_length, num_labels),
        "label_mask": _index(max_seq_length, 2),
    }


def squad_schema(max_seq_length, training, *, vocab_size=None, type_vocab_size=None):
    """Schema of the SQuAD records, one per window of a paragraph.

    Labels: start_positions and end_positions are positions in the sequence, 0 ([CLS]) where the
    window does not hold the answer; is_impossible is 1 there.

    Args:
        max_seq_length: int T, tokens per window with its question.
        training: bool, whether there are labels.
        vocab_size: int or None.
        type_vocab_size: int or None.
    """
    schema = {
        "unique_ids": Feature(tf.int64, 1),
        **_token_features(max_seq_length, vocab_size, type_vocab_size),
        "p_mask": _index(max_seq_length, 2),
    }
    if training:
        schema |= {
            "start_positions": _index(1, max_seq_length),
            "end_positions": _index(1, max_seq_length),
            "is_impossible": _index(1, 2),
        }
    return schema


# === Files ===


def expand_patterns(patterns, flag):
    """Files that match comma-separated glob patterns, in the order of the patterns.

    Args:
        patterns: str, comma-separated globs. The matches of one pattern come in sorted order;
            hidden files and directories match only where the pattern has the dot too.
        flag: str, name of the flag they come from, for the message.

    Raises:
        UserError: a pattern matches no file, or there is no pattern.
    """
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    if not wanted:
        raise UserError(f"--{flag} is empty; give one or more file names or glob patterns")
    files = []
    for pattern in wanted:
        matches = [path for path in _glob(pattern, flag) if not _is_hidden(path, pattern)]
        if not matches:
            raise UserError(f"--{flag}: no file matches {pattern!r}")
        files.extend(sorted(matches))
    return files


def _glob(pattern, flag):
    try:
        return tf.io.gfile.glob(pattern)
    except tf.errors.OpError as error:
        raise UserError(f"--{flag}: {pattern!r} cannot be looked up: {error.message}") from error


def _is_hidden(path, pattern):
    """Whether a part of a path begins with a dot that the pattern's part does not begin with."""
    parts = zip(reversed(path.split("/")), reversed(pattern.split("/")), strict=False)
    return any(part.startswith(".") and not wanted.startswith(".") for part, wanted in parts)


def check_writable(path, flag):
    """Finds out before any work whether a file can be written; its directory is made if need be.

    Args:
        path: str, the file to be written later. What lies there is left alone.
        flag: str, name of the flag it comes from, for the message.

    Raises:
        UserError: it cannot be written.
    """
    if tf.io.gfile.isdir(path):
        raise UserError(f"--{flag}: {path} is a directory; give a file name")
    whole_files.check_writable(os.path.dirname(path) or ".", flag)


# === Writing ===


def encode(arrays, schema):
    """One serialised tf.train.Example.

    Args:
        arrays: dict from feature name to numpy array [length] (or a list of numbers).
        schema: dict from feature name to `Feature`.

    Raises:
        ValueError: names or lengths differ from the schema.
    """
    if arrays.keys() != schema.keys():
        raise ValueError(
            f"features do not fit the schema: missing {sorted(schema.keys() - arrays.keys())}, "
            f"unknown {sorted(arrays.keys() - schema.keys())}"
        )
    example = tf.train.Example()
    features = example.features.feature
    for name, feature in schema.items():
        values = np.asarray(arrays[name])
        if values.shape != (feature.length,):
            raise ValueError(
                f"feature {name} has shape {list(values.shape)}, the schema wants "
                f"[{feature.length}]"
            )
        if feature.dtype == tf.int64:
            features[name].int64_list.value.extend(values.tolist())
        else:
            features[name].float_list.value.extend(values.tolist())
    # Otherwise the order of the features differs from run to run, and so would the files.
    return example.SerializeToString(deterministic=True)


@contextlib.contextmanager
def open_writers(paths):
    """TFRecord writers whose files appear, whole and all at once, when the block ends.

    They are written under temporary names in the same directories and renamed on a clean exit; on
    an error nothing is left behind, and what lay at the paths before stays as it was.

    Args:
        paths: list of str.

    Yields:
        list of tf.io.TFRecordWriter, one per path.
    """
    with whole_files.replacing(*paths) as names, contextlib.ExitStack() as stack:
        yield [stack.enter_context(tf.io.TFRecordWriter(name)) for name in names]


def pack_segments(firsts, seconds, special_ids, max_seq_length):
    """Arrays of the sequences [CLS] first [SEP] second [SEP], filled up with 0.

    Args:
        firsts: list of n lists of int, ids of the first segments, short enough already.
        seconds: list of n, lists of int, or None for a sequence [CLS] first [SEP].
        special_ids: tokenization.SpecialIds.
        max_seq_length: int, T.

    Returns:
        dict of numpy arrays [n, T]: input_ids (int32), input_mask and segment_ids (int8).
    """
    cls, sep = [special_ids.cls], [special_ids.sep]
    heads = [cls + first + sep for first in firsts]
    rows = [
        head if second is None else head + second + sep
        for head, second in zip(heads, seconds, strict=True)
    ]
    ends_of_first = np.array([len(head) for head in heads])[:, np.newaxis]
    ends = np.array([len(row) for row in rows])[:, np.newaxis]
    positions = np.arange(max_seq_length)
    mask = positions < ends
    ids = np.full(mask.shape, special_ids.pad, np.int32)
    ids[mask] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, count=ends.sum())
    return {
        "input_ids": ids,
        "input_mask": mask.astype(np.int8),
        "segment_ids": (mask & (positions >= ends_of_first)).astype(np.int8),
    }


def in_chunks(items, size=1000):
    """Yields slices of a list, so that features need not lie in memory all at once."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def write_records(path, schema, batches):
    """Writes a file, whole or not at all, and returns the number of its records.

    Args:
        path: str.
        schema: dict from feature name to `Feature`.
        batches: iterable of dicts of numpy arrays [n, ...], one row per record; rows of several
            dimensions are written end to end.

    Raises:
        UserError: there is no record, or one does not fit the schema.
    """
    count = 0
    with open_writers([path]) as (writer,):
        for arrays in batches:
            names = list(arrays)
            flat = [values.reshape(len(values), -1) for values in arrays.values()]
            for row in zip(*flat, strict=True):
                writer.write(encode(dict(zip(names, row, strict=True)), schema))
                count += 1
        if not count:
            raise UserError(f"there is no example to write to {path}")
    return count


# === Reading ===


_LARGEST_BUFFER = 10**7  # TensorFlow takes 24 bytes for each place before it reads a record


def train_dataset(files, schema, batch_size, *, seed=None, shuffle_buffer_size=100, trim_to=None):
    """Endless shuffled batches; a batch is a dict of int32 and float32 tensors [B, length].

    Files are shuffled and up to four of them read side by side, then records are shuffled in a
    buffer (the original's input pipeline).

    Args:
        files: list of str.
        schema: dict from feature name to `Feature`; features of the records not in it are ignored.
        batch_size: int, B.
        seed: int or None. With a seed, every run gives the same batches.
        shuffle_buffer_size: int, in records. 1 or less keeps the order of files and records.
        trim_to: int T, the length the records are padded to, to have each batch cut to its longest
            sequence; None leaves them as they are, as a TPU needs them.

    Raises:
        UserError: the buffer is too large for any memory.
    """
    if shuffle_buffer_size > _LARGEST_BUFFER:
        raise UserError(
            f"--shuffle_buffer_size={shuffle_buffer_size}: must be at most {_LARGEST_BUFFER}"
        )
    if shuffle_buffer_size <= 1:
        records = tf.data.TFRecordDataset(files).repeat()
    else:
        names = tf.data.Dataset.from_tensor_slices(files).repeat().shuffle(len(files), seed=seed)
        records = names.interleave(
            tf.data.TFRecordDataset,
            cycle_length=min(4, len(files)),
            block_length=1,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=seed is not None,
        ).shuffle(shuffle_buffer_size, seed=seed)
    batches = _parsed_batches(records, schema, batch_size, drop_remainder=True)
    if trim_to is not None:
        batches = batches.map(lambda features: _trim(features, trim_to), tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)


def eval_dataset(files, schema, batch_size, *, drop_remainder=False):
    """Batches of one pass over the files, in order.

    Args:
        files: list of str.
        schema: dict from feature name to `Feature`.
        batch_size: int.
        drop_remainder: bool, whether to leave out a last batch smaller than batch_size.
    """
    dataset = tf.data.TFRecordDataset(files)
    return _parsed_batches(dataset, schema, batch_size, drop_remainder).prefetch(tf.data.AUTOTUNE)


def _parsed_batches(records, schema, batch_size, drop_remainder):
    """Batches the serialised records first: one parse per batch is much faster than one each."""
    fixed = {
        name: tf.io.FixedLenFeature([feature.length], feature.dtype)
        for name, feature in schema.items()
    }

    def parse(serialized):
        values = tf.io.parse_example(serialized, fixed)
        return {name: _checked(name, values[name], feature) for name, feature in schema.items()}

    batches = records.batch(batch_size, drop_remainder=drop_remainder)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def _checked(name, values, feature):
    """Values in the types of batches; out of range, the step fails: a GPU would read zeros."""
    smallest, largest = feature.limits
    is_good = tf.reduce_all((values >= smallest) & (values <= largest))
    message = f"feature {name} holds a value that is not in {smallest} to {largest}"
    with tf.control_dependencies([tf.debugging.Assert(is_good, [message])]):
        # TPUs have no 64-bit integers, and ids need none.
        return tf.cast(values, tf.int32) if values.dtype == tf.int64 else tf.identity(values)


# Padding that is cut off is cut to a multiple of this: kernels are prepared anew for each length.
_LENGTH_STEP = 8
_TOKEN_FEATURES = ("input_ids", "input_mask", "segment_ids", "p_mask")


def _rounded_up(length):
    """The next multiple of the step: of an int or of an int tensor."""
    return -(-length // _LENGTH_STEP) * _LENGTH_STEP


def _trim(features, max_seq_length):
    """Cuts token features [B, k * T] to the longest of their B * k sequences."""
    longest = tf.reduce_max(
        tf.reduce_sum(tf.reshape(features["input_mask"], [-1, max_seq_length]), axis=1)
    )
    longest = tf.minimum(_rounded_up(longest), max_seq_length)

    def cut(name, values):
        if name not in _TOKEN_FEATURES:
            return values
        sequences = tf.reshape(values, [-1, max_seq_length])[:, :longest]
        return tf.reshape(sequences, [tf.shape(values)[0], -1])

    return {name: cut(name, values) for name, values in features.items()}


def load_arrays(path, schema):
    """All records of a file in memory: dict of int32 and float32 arrays [n, length].

    Args:
        path: str, a file of features that its owner makes anew if it is absent.
        schema: dict from feature name to `Feature`.

    Raises:
        UserError: a record is damaged or does not fit the schema.
    """
    with naming_bad_records([path], schema, remedy=CACHE_REMEDY):
        # One pass to count them, so that no array has to be copied to grow.
        count = (
            tf.data.TFRecordDataset(path)
            .batch(1024)
            .reduce(np.int64(0), lambda total, batch: total + tf.size(batch, tf.int64))
        )
        arrays = {
            name: np.empty(
                [count, feature.length], np.int32 if feature.dtype == tf.int64 else np.float32
            )
            for name, feature in schema.items()
        }
        for number, batch in enumerate(eval_dataset([path], schema, 1024).as_numpy_iterator()):
            for name, values in batch.items():
                arrays[name][1024 * number :][: len(values)] = values
    return arrays


def prediction_batches(arrays, batch_size, max_seq_length, *, fixed_shape=False):
    """Batches for prediction, rows of like length together and cut to the longest.

    Args:
        arrays: dict of numpy arrays [n, ...], of `load_arrays`.
        batch_size: int, B.
        max_seq_length: int, T, the length the records are padded to.
        fixed_shape: bool, whether every batch is B rows of full length instead, as a TPU needs
            them; rows of zeros fill the last one.

    Yields:
        (rows, features): the row numbers, int array [B], -1 for filling; a dict of arrays.
    """
    num_rows = len(arrays["input_mask"])
    masks = arrays["input_mask"].reshape(num_rows, -1, max_seq_length)
    lengths = masks.sum(axis=2).max(axis=1)
    order = np.arange(num_rows) if fixed_shape else np.argsort(lengths, kind="stable")
    for start in range(0, num_rows, batch_size):
        rows = order[start : start + batch_size]
        if fixed_shape:
            filling = batch_size - len(rows)
            batch = {k: np.pad(v[rows], [(0, filling), (0, 0)]) for k, v in arrays.items()}
            yield np.pad(rows, (0, filling), constant_values=-1), batch
            continue
        length = min(_rounded_up(int(lengths[rows].max())), max_seq_length)
        yield rows, {k: _cut(k, v[rows], max_seq_length, length) for k, v in arrays.items()}


def _cut(name, values, max_seq_length, length):
    if name not in _TOKEN_FEATURES:
        return values
    sequences = values.reshape(len(values), -1, max_seq_length)[:, :, :length]
    return sequences.reshape(len(values), -1)


# === Checking ===

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
        schema: dict from feature name to `Feature`.
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
        schema: dict from feature name to `Feature`.
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
        schema: dict from feature name to `Feature`.
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
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            yield record
            count += 1
    except tf.errors.OpError as error:
        if not count and _is_gzipped(path):
            raise UserError(f"{path} is compressed: unpack it with gunzip") from error
        state = f"is damaged after record {count}" if count else "is not a readable TFRecord file"
        raise UserError(f"{path} {state}: {one_line(error)}") from error


def _is_gzipped(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except tf.errors.OpError:
        return False


def _check_record(record, where, schema, flags):
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise UserError(f"{where} is not a tf.train.Example") from error
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


# === Caching ===

_CACHE_FORMAT = 1  # raise it when the same text and settings come to give other features


class Cache(NamedTuple):
    """A record file that `cached_records` made or found.

    Attributes:
        path: str.
        key: str, a hash of all that the records were made from.
        counts: Counter, what was counted when they were made, kept with the file.
    """

    path: str
    key: str
    counts: collections.Counter


def cached_records(path, schema, settings, inputs, make, *, add_key=False):
    """Makes a record file, unless it is there, made with the same settings from the same input.

    How it was made stands beside it, in `<path>.meta.json`. What happens is printed.

    Args:
        path: str, the record file.
        schema: dict from feature name to `Feature`.
        settings: dict of what can go into JSON: all that the features depend on but the input.
        inputs: list of str, the files that are read, vocabulary included; their content counts.
        make: callable that takes the `Cache` to be made, whose counts it may fill, and returns
            `batches` of `write_records`.
        add_key: bool, whether the name gets the first digits of the key. Processes with other
            settings then have files of their own, and none is replaced while it is in use.

    Returns:
        Cache.

    Raises:
        UserError: an input cannot be read, the file is there and damaged, or of `write_records`.
    """
    wanted = {
        **settings,
        "format": _CACHE_FORMAT,
        "schema": {name: [item.dtype.name, item.length] for name, item in schema.items()},
        "input_sha256": _content_hash(inputs),
    }
    wanted = json.loads(json.dumps(wanted))  # as it will be read again: tuples are lists
    key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    path = keyed_name(path, key) if add_key else path
    sidecar = f"{path}.meta.json"
    for name in (path, sidecar):
        if tf.io.gfile.isdir(name):
            raise UserError(f"{name} is a directory, and features are to be written there")
    found = _read_sidecar(sidecar)
    reason = _why_not(path, found, wanted)
    if reason is None:
        check_records([path], schema, remedy=CACHE_REMEDY)
        print(f"{path}: its {found['records']} records are used again (same settings and input)")
        return Cache(path, key, collections.Counter(found["counts"]))
    print(f"{path}: is made, as {reason}")
    cache = Cache(path, key, collections.Counter())
    # The sidecar goes first and comes last, so that it never stands beside records of another make.
    whole_files.remove(sidecar)
    made = {"records": write_records(path, schema, make(cache)), "counts": cache.counts}
    made |= {**wanted, "bytes": tf.io.gfile.stat(path).length}
    whole_files.write_text(sidecar, json.dumps(made, indent=2, sort_keys=True) + "\n")
    return cache


def keyed_name(path, key):
    """A file name with the first digits of a key before its ending."""
    stem, ending = os.path.splitext(path)
    return f"{stem}-{key[:8]}{ending}"


def _read_sidecar(path):
    """What a sidecar says; an empty dict if it is not there, None if it is damaged."""
    if not tf.io.gfile.exists(path):
        return {}
    try:
        found = whole_files.read_json(path)
    except UserError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("counts"), dict):
        return None
    numbers = [found.get("records"), found.get("bytes"), *found["counts"].values()]
    return found if all(type(number) is int for number in numbers) else None  # no bool, no nan


def _why_not(path, found, wanted):
    """Why the records at a path cannot be used; None if they can."""
    if not tf.io.gfile.exists(path):
        return "there is no such file"
    if not found:
        state = "its .meta.json, which says how it was made, is damaged"
        return state if found is None else "it lacks a .meta.json that says how it was made"
    made = {name: found[name] for name in found.keys() - {"records", "bytes", "counts"}}
    changed = [
        name for name in sorted(made.keys() | wanted.keys()) if made.get(name) != wanted.get(name)
    ]
    if changed:
        return "other values hold now for " + ", ".join(changed)
    if tf.io.gfile.stat(path).length != found["bytes"]:
        return "it is not the file that its .meta.json describes"
    return None


def _content_hash(paths):
    """One hash of the contents of files, in their order; their names do not count."""
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(whole_files.read_bytes(path)).digest())
    return total.hexdigest()
