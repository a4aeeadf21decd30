# SPDX-License-Identifier: Apache-2.0
"""Reading TFRecord files: batches for training and evaluation, arrays for prediction."""

import functools

import numpy as np
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.options import WINDOW
from albert_tf.records import graph_masking, record_checks, record_order, schemas

# Padding that is cut off is cut to a multiple of this: kernels are prepared anew for each length.
LENGTH_STEP = 8
_TOKEN_FEATURES = ("input_ids", "input_mask", "segment_ids", "p_mask")


def train_batches(
    files,
    schema,
    batch_size,
    *,
    seed,
    window=WINDOW,
    first_step=0,
    num_shares=1,
    share=0,
    splits=1,
    trim_to=None,
    length_step=LENGTH_STEP,
    length_buckets=None,
    masking=None,
):
    """Endless shuffled batches, starting at any step; each is a dict of int32 and float32 tensors.

    Global batch k depends on seed, window and the counts of the files only (`record_order`), not
    on shares and splits: all elements for step k, share after share, hold its rows in their order.

    Args:
        files: list of record_index.IndexedFile.
        schema: dict from feature name to `FeatureSpec`; other features of the records are
            ignored.
        batch_size: int, B, sequences of a global batch.
        seed: int; the caller draws one where the user gave none.
        window: int, records that are shuffled together. 1 or less keeps the order of files and
            records.
        first_step: int, the global batch to begin with: 0, or the step that a run resumes at.
        num_shares: int n, into how many parts global batches are cut, one per worker.
        share: int, which part to read: rows of others are not parsed.
        splits: int s, into how many elements a share is cut, one per replica of the worker. Each
            is [B / (n * s), length].
        trim_to: int T, the length the records are padded to, to have each element cut to its
            longest sequence; None leaves them as they are, as a TPU needs them.
        length_step: int, what lengths are cut to a multiple of; `coarse_length_step` where each
            new length costs a compilation.
        length_buckets: tuple of int or None, ascending lengths up to T, to have sequences batched
            together that belong to the same one, and each element cut to its bucket. `trim_to` has
            no effect then. Global batches depend on the lengths of the records, too.
        masking: graph_masking.Masking or None, to mask the records anew in each epoch.

    Raises:
        UserError: the window is too large for any memory.
        ValueError: the batch cannot be cut into so many equal parts.
    """
    if window > record_order.LARGEST_WINDOW:
        raise UserError(
            f"--shuffle_buffer_size={window}: must be at most {record_order.LARGEST_WINDOW}"
        )
    rows, rest = divmod(batch_size, num_shares * splits)
    if rest:
        raise ValueError(f"a batch of {batch_size} has no {num_shares} x {splits} equal parts")
    ordered = record_order.training_records(
        files,
        batch_size,
        seed=seed,
        window=window,
        first_step=first_step,
        num_shares=num_shares,
        share=share,
        with_epochs=masking is not None,
        group_of=length_buckets and functools.partial(_bucket_of, length_buckets),
    )
    batches = parsed_batches(ordered, schema, rows, drop_remainder=True, masking=masking, seed=seed)
    allowed = functools.partial(_rounded_up, step=length_step)
    if length_buckets:
        trim_to, allowed = length_buckets[-1], functools.partial(_bound_of, length_buckets)
    if trim_to is not None:
        batches = batches.map(lambda features: _trim(features, trim_to, allowed), tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)


def eval_dataset(files, schema, batch_size, *, drop_remainder=False, masking=None):
    """Batches of one pass over the files, in order; the same every time.

    Args:
        files: list of str.
        schema: dict from feature name to `FeatureSpec`.
        batch_size: int.
        drop_remainder: bool, whether to leave out a last batch smaller than batch_size.
        masking: graph_masking.Masking or None, to mask the records.
    """
    dataset = schemas.serialized(files)
    batches = parsed_batches(dataset, schema, batch_size, drop_remainder, masking=masking)
    return batches.prefetch(tf.data.AUTOTUNE)


def parsed_batches(serialized, schema, batch_size, drop_remainder, *, masking=None, seed=0):
    """Batches of serialised records; one parse per batch is much faster than one per record.

    Args:
        serialized: tf.data.Dataset of string scalars, or of pairs of these and their epochs.
        schema: dict from feature name to `FeatureSpec`.
        batch_size: int.
        drop_remainder: bool, whether to leave out a last batch smaller than batch_size.
        masking: graph_masking.Masking or None, to mask the records.
        seed: int, of the masks.
    """
    fixed = {
        name: tf.io.FixedLenFeature([feature.length], feature.dtype)
        for name, feature in schema.items()
    }

    def parse(batch, epochs=graph_masking.EVALUATION):
        values = tf.io.parse_example(batch, fixed)
        features = {name: _checked(name, values[name], schema[name]) for name in schema}
        if masking is None:
            return features
        return masking(features, graph_masking.keys_of(batch, seed, epochs))

    batches = serialized.batch(batch_size, drop_remainder=drop_remainder)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def _checked(name, values, feature):
    """Values in the types of batches; fails if one is out of range, where a GPU would read 0."""
    smallest, largest = feature.limits
    is_good = tf.reduce_all((values >= smallest) & (values <= largest))
    message = f"feature {name} holds a value that is not in {smallest} to {largest}"
    with tf.control_dependencies([tf.debugging.Assert(is_good, [message])]):
        # TPUs have no 64-bit integers, and ids need none.
        return tf.cast(values, tf.int32) if values.dtype == tf.int64 else tf.identity(values)


def load_arrays(path, schema):
    """All records of a file in memory: dict of int32 and float32 arrays [n, length].

    Args:
        path: str, a file of features.
        schema: dict from feature name to `FeatureSpec`.

    Raises:
        UserError: a record is damaged or does not fit the schema.
    """
    with record_checks.naming_bad_records([path], schema, remedy=record_checks.CACHE_REMEDY):
        with record_checks.advising(record_checks.CACHE_REMEDY):
            count = len(record_checks.lengths(path))
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
    """Batches for prediction, of rows of similar length and cut to the longest.

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
        batch = {name: values[rows] for name, values in arrays.items()}
        yield rows, _cut(batch, max_seq_length, length, np.reshape)


# === Cutting padding off ===


def coarse_length_step(max_seq_length):
    """Step (int, at least 32) that allows at most four lengths up to `max_seq_length`."""
    return max(32, _rounded_up(-(-max_seq_length // 4)))


def _rounded_up(length, step=LENGTH_STEP):
    """The next multiple of the step: of an int or of an int tensor."""
    return -(-length // step) * step


def _trim(features, max_seq_length, allowed):
    """Cuts token features [B, k * T] to the longest of their B * k sequences.

    Args:
        features: dict of tensors.
        max_seq_length: int, T.
        allowed: callable, int tensor, a length -> the next one that batches may have.
    """
    masks = tf.reshape(features["input_mask"], [-1, max_seq_length])
    longest = tf.reduce_max(tf.reduce_sum(masks, axis=1))
    longest = tf.minimum(allowed(longest), max_seq_length)
    return _cut(features, max_seq_length, longest, tf.reshape)


def _bucket_of(bounds, serialized):
    """The bucket of each record, int32 [n]: the number of its bound among `bounds`."""
    mask = {"input_mask": tf.io.FixedLenFeature([bounds[-1]], tf.int64)}
    lengths = tf.reduce_sum(tf.io.parse_example(serialized, mask)["input_mask"], axis=1)
    return tf.searchsorted(tf.constant(bounds, tf.int64), lengths)


def _bound_of(bounds, length):
    """The bound of the bucket of a length, an int32 scalar."""
    return tf.gather(bounds, tf.searchsorted(bounds, length[tf.newaxis])[0])


def _cut(features, max_seq_length, length, reshape):
    """Token features [B, k * T] cut to [B, k * length], with the `reshape` of their library."""

    def cut(values):
        rows, columns = values.shape
        sequences = reshape(values, [-1, max_seq_length])[:, :length]
        return reshape(sequences, [rows, columns // max_seq_length * length])

    return {
        name: cut(values) if name in _TOKEN_FEATURES else values
        for name, values in features.items()
    }
