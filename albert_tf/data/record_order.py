# SPDX-License-Identifier: Apache-2.0
"""The order in which training reads its records, and reading on from any place in it.

An epoch is every record once: the files in a random order, one after the other, cut into windows
of so many records, each of which is shuffled. Everything follows from the seed and the counts of
the files, so the records of any step are found without reading those before it.
"""

import numpy as np
import tensorflow as tf

from albert_tf.data import record_index, records

LARGEST_WINDOW = 10**7
_READ_BYTES = 2**18
_COPIED_TOGETHER = 64  # records that are copied out of a window at a time
_UNSHUFFLED_WINDOW = 1000  # records read at a time where the order stays as it is
_EPOCH_KEYS = 2**32  # keys of an epoch: 0 for the files, 1 + n for window n


def training_records(files, batch_size, *, seed, window, first_step=0, num_shares=1, share=0):
    """Endless dataset of serialised records: those rows of every batch that belong to a share.

    Batch k is the records k * B to (k + 1) * B - 1 of an endless order, which depends on `seed`,
    `window` and the counts of the files alone. Two windows of records are in memory.

    Args:
        files: sequence of record_index.IndexedFile, with at least one record.
        batch_size: int, B, a multiple of `num_shares`.
        seed: int from 0 to 2**63 - 1.
        window: int, in records; 1 or less keeps the order of files and records.
        first_step: int, the batch to begin with.
        num_shares: int n.
        share: int i: the rows from i * B / n to (i + 1) * B / n - 1 of each batch.

    Returns:
        tf.data.Dataset of string scalars.
    """
    counts = np.array([file.count for file in files])
    shuffles, size = window > 1, window if window > 1 else _UNSHUFFLED_WINDOW
    first_record = first_step * batch_size
    first_epoch, in_epoch = divmod(first_record, int(counts.sum()))
    read, seed_number = _reader(files), tf.constant(seed, tf.int64)

    def order_of(length, epoch, key):
        if not shuffles:
            return tf.range(length, dtype=tf.int64)
        return _permutation(length, tf.stack([seed_number, epoch * _EPOCH_KEYS + key]))

    def windows(epoch):
        first = tf.where(epoch == first_epoch, tf.constant(in_epoch // size, tf.int64), 0)
        order = order_of(len(files), epoch, 0)
        lengths = tf.gather(counts, order)
        skipped = first * size - tf.cumsum(lengths, exclusive=True)
        skipped = tf.clip_by_value(skipped, 0, lengths)
        left = skipped < lengths
        parts = tf.data.Dataset.from_tensor_slices((order[left], skipped[left]))
        blocks = parts.flat_map(read).batch(size)
        return blocks.enumerate(first).map(lambda number, block: (epoch, number, block))

    def arranged(epoch, number, block):
        """The records of a window that are wanted, in their order; some of them per element."""
        length = tf.size(block, tf.int64)
        places = epoch * counts.sum() + number * size - first_record
        places += tf.range(length, dtype=tf.int64)
        wanted = (places >= 0) & (places % batch_size // (batch_size // num_shares) == share)
        rows = tf.data.Dataset.from_tensor_slices(order_of(length, epoch, 1 + number)[wanted])
        return rows.batch(_COPIED_TOGETHER).map(lambda some: tf.gather(block, some))

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    # A window is read while the one before is used, and no window is copied whole.
    return epochs.flat_map(windows).prefetch(1).flat_map(arranged).unbatch()


def _permutation(length, key):
    """The numbers from 0 to length - 1 in an order that follows from two int64 numbers."""
    # The algorithm is named, so that devices and versions of TensorFlow draw the same.
    draws = tf.random.stateless_uniform([length], key, None, None, tf.int64, alg="philox")
    return tf.cast(tf.argsort(draws, stable=True), tf.int64)


def _reader(files):
    """A function (number of a file, records to skip) -> tf.data.Dataset of the other records."""
    paths = [file.path for file in files]
    compressions = [records.compression_of(path) for path in paths]
    last_offsets = np.array([len(file.offsets) - 1 for file in files])
    first_offsets = np.cumsum(last_offsets + 1) - last_offsets - 1
    offsets = np.concatenate([file.offsets for file in files]).astype(np.int64)

    def read(number, skipped):
        # The last known offset before the first record wanted; the few between are skipped.
        known = tf.minimum(skipped // record_index.STEP, tf.gather(last_offsets, number))
        dataset = tf.raw_ops.TFRecordDatasetV2(
            filenames=tf.gather(paths, [number]),
            compression_type=tf.gather(compressions, number),
            buffer_size=_READ_BYTES,
            byte_offsets=[tf.gather(offsets, tf.gather(first_offsets, number) + known)],
        )
        dataset = tf.data.experimental.from_variant(dataset, tf.TensorSpec([], tf.string))
        return dataset.skip(skipped - known * record_index.STEP)

    return read
