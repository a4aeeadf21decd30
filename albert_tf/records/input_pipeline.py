# SPDX-License-Identifier: Apache-2.0
"""Reading TFRecord files: batches for training and evaluation, arrays for prediction.

An epoch of training contains every record once: the files are cut into blocks of 1024 records,
which are put in random order and cut into windows, and each window is shuffled. So a window has
records of several files, and of several places of a large one. The order depends only on the seed
and the counts of the files, so the records of any step are found without reading earlier ones.

On request, records of a window that belong together, such as records of similar length, are put
into the same batches. Then the order also depends on the records of the window.
"""

import functools

import numpy as np
import tensorflow as tf

from albert_tf.options import WINDOW
from albert_tf.records import graph_masking, record_files, schemas

# Padding is cut so that lengths are multiples of this: kernels are prepared for each new length.
LENGTH_STEP = 8
_READ_BYTES = 2**18
_COPIED_TOGETHER = 64  # records that are copied out of a window at a time
_UNSHUFFLED_WINDOW = 1000  # records read at a time if they are not shuffled
_MEASURED_TOGETHER = 256  # records that are assigned to groups at a time
# Keys of an epoch: 0 for the blocks, 1 + n for window n, _BATCH_KEYS + n for the batches in it.
_EPOCH_KEYS, _BATCH_KEYS = 2**32, 2**31
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
    lengths=None,
    grouped=False,
    masking=None,
):
    """Endless shuffled batches, starting at any step; each is a dict of int32 and float32 tensors.

    Global batch k depends only on seed, window and the counts of the files, not on shares and
    splits: the elements for step k, joined share after share, are its rows in order.

    Args:
        files: list of record_files.IndexedFile.
        schema: dict from feature name to `FeatureSpec`; other features of the records are
            ignored.
        batch_size: int, B, number of sequences in a global batch; a multiple of n * s.
        seed: int; the caller draws one if the user gave none.
        window: int, records that are shuffled together. 1 or less keeps the order of files and
            records.
        first_step: int, the global batch to begin with: 0, or the step that a run resumes at.
        num_shares: int n, number of parts of a global batch, one per worker.
        share: int, the part to read; rows of other parts are not parsed.
        splits: int s, number of elements of a share, one per replica of the worker. Each is
            [B / (n * s), length].
        lengths: tuple of int, ascending lengths up to T, the padded length of the records. Each
            element is cut to the first that fits its longest sequence. None to keep the padding, as
            a TPU needs.
        grouped: bool, whether sequences that fit the same of these lengths are batched together.
            Then global batches also depend on the lengths of the records.
        masking: graph_masking.Masking or None, to mask the records differently in each epoch.
    """
    rows, rest = divmod(batch_size, num_shares * splits)
    assert not rest, f"a batch of {batch_size} has no {num_shares} x {splits} equal parts"
    group_of = None
    if grouped:
        group_of = functools.partial(_bucket_of, lengths, schema["input_mask"].length)
    ordered = _training_records(
        files, batch_size, seed, window, first_step, num_shares, share, group_of
    )
    batches = parsed_batches(ordered, schema, rows, drop_remainder=True, masking=masking, seed=seed)
    if lengths:
        batches = batches.map(functools.partial(_trim, lengths), tf.data.AUTOTUNE)
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
    serialized = schemas.serialized(files)
    batches = parsed_batches(serialized, schema, batch_size, drop_remainder, masking=masking)
    return batches.prefetch(tf.data.AUTOTUNE)


def parsed_batches(serialized, schema, batch_size, drop_remainder, *, masking=None, seed=0):
    """Batches of serialised records; one parse per batch is much faster than one per record.

    Args:
        serialized: tf.data.Dataset of string scalars, or of pairs of these and their epochs.
        schema: dict from feature name to `FeatureSpec`.
        batch_size: int.
        drop_remainder: bool, whether to leave out a last batch smaller than batch_size.
        masking: graph_masking.Masking or None, to mask the records.
        seed: int, seed of the masks.
    """
    stored = {name: schemas.stored_name(schema, name) for name in schema}
    fixed = {
        stored[name]: tf.io.FixedLenFeature([feature.length], feature.dtype)
        for name, feature in schema.items()
    }

    def parse(batch, epochs=graph_masking.EVALUATION):
        values = tf.io.parse_example(batch, fixed)
        features = {name: _cast(name, values[stored[name]], schema[name]) for name in schema}
        if masking is None:
            return features
        return masking(features, graph_masking.keys_of(batch, seed, epochs))

    batches = serialized.batch(batch_size, drop_remainder=drop_remainder)
    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)


def _cast(name, values, feature):
    """Casts values to the types of batches; fails if one is out of range: a GPU would read 0."""
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
    with record_files.naming_bad_records([path], schema):
        record_files.lengths(path)  # before TensorFlow's reader, which trusts the lengths
        batches = list(eval_dataset([path], schema, 1024).as_numpy_iterator())
    return {name: np.concatenate([batch.pop(name) for batch in batches]) for name in schema}


def prediction_batches(arrays, batch_size, max_seq_length, *, fixed_shape=False):
    """Batches for prediction: rows of similar length, cut to the longest of them.

    Args:
        arrays: dict of numpy arrays [n, ...], from `load_arrays`.
        batch_size: int, B.
        max_seq_length: int, T, the padded length of the records.
        fixed_shape: bool, whether every batch has B rows of full length instead, as a TPU needs;
            rows of zeros fill the last batch.

    Yields:
        (rows, features): int array [B] of row numbers, -1 for rows of zeros; dict of arrays.
    """
    num_rows = len(arrays["input_mask"])
    masks = arrays["input_mask"].reshape(num_rows, -1, max_seq_length)
    lengths = masks.sum(axis=2).max(axis=1)
    order = np.arange(num_rows) if fixed_shape else np.argsort(lengths, kind="stable")
    for start in range(0, num_rows, batch_size):
        rows = order[start : start + batch_size]
        batch = {name: values[rows] for name, values in arrays.items()}
        if fixed_shape:
            filling = 0, batch_size - len(rows)
            rows = np.pad(rows, filling, constant_values=-1)
            batch = {name: np.pad(values, [filling, (0, 0)]) for name, values in batch.items()}
        else:
            length = min(_rounded_up(int(lengths[rows].max())), max_seq_length)
            batch = _cut(batch, max_seq_length, length, np.reshape)
        yield rows, batch


# === Cutting padding off ===


def lengths_up_to(max_seq_length, few=False):
    """Lengths to which batches may be cut: tuple of int.

    Args:
        max_seq_length: int, the last of them.
        few: bool, whether there are at most four, because each new length is compiled.
    """
    step = max(32, _rounded_up(-(-max_seq_length // 4))) if few else LENGTH_STEP
    return (*range(step, max_seq_length, step), max_seq_length)


def _rounded_up(length):
    return -(-length // LENGTH_STEP) * LENGTH_STEP


def _trim(lengths, features):
    """Cuts features of tokens [B, k * T] to the first length that fits all B * k sequences.

    Args:
        lengths: tuple of int, the last of which is T.
        features: dict of tensors.
    """
    masks = tf.reshape(features["input_mask"], [-1, lengths[-1]])
    longest = tf.reduce_max(tf.reduce_sum(masks, axis=1), keepdims=True)
    length = tf.gather(lengths, tf.searchsorted(lengths, longest)[0])
    return _cut(features, lengths[-1], length, tf.reshape)


def _bucket_of(bounds, width, serialized):
    """The bucket of each record, int32 [n]: the index in `bounds` of its longest sequence's bound.

    Args:
        bounds: tuple of int, the last of which is T.
        width: int, k * T, of the record's sequences together.
        serialized: string tensor [n].
    """
    parsed = tf.io.parse_example(
        serialized, {"input_mask": tf.io.FixedLenFeature([width], tf.int64)}
    )
    masks = tf.reshape(parsed["input_mask"], [-1, width // bounds[-1], bounds[-1]])
    lengths = tf.reduce_max(tf.reduce_sum(masks, axis=2), axis=1)  # [n, k, T] -> [n]
    return tf.searchsorted(tf.constant(bounds, tf.int64), lengths)


def _cut(features, max_seq_length, length, reshape):
    """Cuts features of tokens [B, k * T] to [B, k * length], by the `reshape` of their library."""

    def cut(values):
        rows, columns = values.shape
        sequences = reshape(values, [-1, max_seq_length])[:, :length]
        return reshape(sequences, [rows, columns // max_seq_length * length])

    return {
        name: cut(values) if name in _TOKEN_FEATURES else values
        for name, values in features.items()
    }


# === The order of training records ===


def _training_records(files, batch_size, seed, window, first_step, num_shares, share, group_of):
    """Endless dataset of serialised records: the rows of every batch that belong to a share.

    Batch k consists of the records k * B to (k + 1) * B - 1 of an endless order. The order depends
    only on `seed`, `window` and the counts of the files; with `group_of`, also on B and the groups
    of the records. Two windows of records are in memory.

    Args:
        files: sequence of record_files.IndexedFile, with at least one record.
        batch_size: int, B, a multiple of `num_shares`.
        seed: int from 0 to 2**63 - 1.
        window: int, in records; 1 or less keeps the order of files and records.
        first_step: int, the batch to begin with.
        num_shares: int n.
        share: int i: the rows from i * B / n to (i + 1) * B / n - 1 of each batch.
        group_of: callable, string tensor [n] of records -> int32 tensor [n]; or None. If given, a
            batch within a window has records of one group, except for at most one batch per border
            between groups.

    Returns:
        tf.data.Dataset of string scalars and int64 scalars, the epochs.
    """
    paths, offsets, counts = _blocks(files)
    total = int(counts.sum())
    shuffles, size = window > 1, window if window > 1 else _UNSHUFFLED_WINDOW
    first_record = first_step * batch_size
    first_epoch, in_epoch = divmod(first_record, total)
    read, seed_number = _reader(paths, offsets, counts), tf.constant(seed, tf.int64)

    def order_of(length, epoch, key):
        key = tf.stack([seed_number, epoch * _EPOCH_KEYS + key])
        return _permutation(length, key) if shuffles else tf.range(length, dtype=tf.int64)

    def windows(epoch):
        first = tf.where(epoch == first_epoch, tf.constant(in_epoch // size, tf.int64), 0)
        order = order_of(len(counts), epoch, 0)
        found = _from_record(read, order, tf.gather(counts, order), first * size)
        if group_of:
            some = found.batch(_MEASURED_TOGETHER)
            found = some.map(lambda batch: (batch, group_of(batch)), tf.data.AUTOTUNE).unbatch()
        return found.batch(size).enumerate(first).map(lambda n, records: (epoch, n, records))

    def arranged(epoch, number, records):
        """The records of a window that belong to this share, in order, several per element."""
        records, groups = records if group_of else (records, None)
        length = tf.size(records, tf.int64)
        start = epoch * total + number * size
        order = order_of(length, epoch, 1 + number)
        if group_of:
            key = tf.stack([seed_number, epoch * _EPOCH_KEYS + _BATCH_KEYS + number])
            in_order = tf.gather(groups, order)
            order = _in_batches(order, in_order, -start % batch_size, batch_size, key)
        places = start - first_record + tf.range(length, dtype=tf.int64)
        wanted = (places >= 0) & (places % batch_size // (batch_size // num_shares) == share)
        rows = tf.data.Dataset.from_tensor_slices(order[wanted]).batch(_COPIED_TOGETHER)
        return rows.map(lambda some: (tf.gather(records, some), tf.fill(tf.shape(some), epoch)))

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    # A window is read while the previous one is used, and no window is copied as a whole.
    return epochs.flat_map(windows).prefetch(1).flat_map(arranged).unbatch()


def _from_record(read, order, lengths, first):
    """Records of blocks in the given order, from number `first` on; int64 tensors [K]."""
    skipped = tf.clip_by_value(first - tf.cumsum(lengths, exclusive=True), 0, lengths)
    left = skipped < lengths
    parts = tf.data.Dataset.from_tensor_slices((order[left], skipped[left]))
    return parts.flat_map(read)


def _permutation(length, key):
    """The numbers from 0 to length - 1 in an order that follows from two int64 numbers."""
    # The algorithm is named, so that devices and versions of TensorFlow draw the same.
    draws = tf.random.stateless_uniform([length], key, None, None, tf.int64, alg="philox")
    return tf.cast(tf.argsort(draws, stable=True), tf.int64)


def _in_batches(order, groups, before, batch_size, key):
    """Puts records of the same group into the same batches, and these into a random order.

    Args:
        order: int64 tensor [n], the records of a window in a random order.
        groups: int32 tensor [n], the groups of these records.
        before: int64 scalar, number of records that complete the previous window's last batch.
        batch_size: int.
        key: int64 tensor [2], of the order of the batches.

    Returns:
        int64 tensor [n], the new order. The first records, which complete a batch, and the last
        ones, which begin a batch that the next window completes, are chosen at random.
    """
    whole = tf.maximum(tf.size(order, tf.int64) - before, 0) // batch_size
    stop = before + whole * batch_size
    sorted_ = tf.argsort(groups[before:stop], stable=True)
    batches = tf.reshape(tf.gather(order[before:stop], sorted_), [whole, batch_size])
    batches = tf.gather(batches, _permutation(whole, key))
    return tf.concat([order[:before], tf.reshape(batches, [-1]), order[stop:]], 0)


def _blocks(files):
    """Parts of files that can be read by themselves: paths, offsets, counts, each [K].

    A compressed file is one block. Other blocks have record_files.STEP records, or fewer at the
    end of a file.
    """
    step = record_files.STEP
    blocks = [
        (path, offset, step if offset < offsets[-1] else count - number * step)
        for path, count, offsets in files
        for number, offset in enumerate(offsets)
    ]
    paths, offsets, counts = zip(*blocks, strict=True)
    return paths, np.array(offsets, np.int64), np.array(counts, np.int64)


def _reader(paths, offsets, counts):
    """Returns a function: number of a block, records to skip -> tf.data.Dataset of the others."""
    compressions = [schemas.compression_of(path) for path in paths]

    def read(number, skipped):
        dataset = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.gather(paths, [number]),
            compression_type=tf.gather(compressions, number),
            buffer_size=_READ_BYTES,
            byte_offsets=[tf.gather(offsets, number)],
        )
        dataset = tf.data.experimental.from_variant(dataset, tf.TensorSpec([], tf.string))
        return dataset.take(tf.gather(counts, number)).skip(skipped)

    return read
