# SPDX-License-Identifier: Apache-2.0
"""The order in which training reads its records, and reading from any place in it.

An epoch contains every record once: the files are put in random order and cut into windows of
records, and each window is shuffled. The order depends only on the seed and the counts of the
files, so the records of any step are found without reading earlier ones.

On request, records of a window that belong together, such as those of similar length, share
batches. Then the order also depends on the records of the window.
"""

import numpy as np
import tensorflow as tf

from albert_tf.records import record_index, schemas

LARGEST_WINDOW = 10**7
_READ_BYTES = 2**18
_COPIED_TOGETHER = 64  # records that are copied out of a window at a time
_UNSHUFFLED_WINDOW = 1000  # records read at a time where the order stays as it is
_MEASURED_TOGETHER = 256  # records that are assigned to groups at a time
# Keys of an epoch: 0 for the files, 1 + n for window n, _BATCH_KEYS + n for the batches in it.
_EPOCH_KEYS, _BATCH_KEYS = 2**32, 2**31


def training_records(
    files,
    batch_size,
    *,
    seed,
    window,
    first_step=0,
    num_shares=1,
    share=0,
    with_epochs=False,
    group_of=None,
):
    """Endless dataset of serialised records: the rows of every batch that belong to a share.

    Batch k is the records k * B to (k + 1) * B - 1 of an endless order, which depends on `seed`,
    `window` and the counts of the files only; with `group_of`, on B and the groups too. Two
    windows of records are in memory.

    Args:
        files: sequence of record_index.IndexedFile, with at least one record.
        batch_size: int, B, a multiple of `num_shares`.
        seed: int from 0 to 2**63 - 1.
        window: int, in records; 1 or less keeps the order of files and records.
        first_step: int, the batch to begin with.
        num_shares: int n.
        share: int i: the rows from i * B / n to (i + 1) * B / n - 1 of each batch.
        with_epochs: bool, whether each record comes with the number of its epoch.
        group_of: callable or None, string tensor [n] of records -> int32 tensor [n] of the groups
            that they belong to. A batch that lies within a window is of one group, except for as
            many batches as there are borders between groups.

    Returns:
        tf.data.Dataset of string scalars, or of pairs of these and int64 scalars.
    """
    counts = np.array([file.count for file in files])
    shuffles, size = window > 1, window if window > 1 else _UNSHUFFLED_WINDOW
    first_record = first_step * batch_size
    first_epoch, in_epoch = divmod(first_record, int(counts.sum()))
    read, seed_number = _reader(files), tf.constant(seed, tf.int64)

    def order_of(length, epoch, key):
        key = tf.stack([seed_number, epoch * _EPOCH_KEYS + key])
        return _permutation(length, key) if shuffles else tf.range(length, dtype=tf.int64)

    def windows(epoch):
        first = tf.where(epoch == first_epoch, tf.constant(in_epoch // size, tf.int64), 0)
        order = order_of(len(files), epoch, 0)
        found = _from_record(read, order, tf.gather(counts, order), first * size)
        blocks = _with_groups(found, group_of).batch(size).enumerate(first)
        return blocks.map(lambda n, found: (epoch, n, *(found if group_of else [found])))

    def arranged(epoch, number, block, groups=None):
        """The records of a window that belong to this share, in order, several per element."""
        length = tf.size(block, tf.int64)
        start = epoch * counts.sum() + number * size
        order = order_of(length, epoch, 1 + number)
        if group_of:
            key = tf.stack([seed_number, epoch * _EPOCH_KEYS + _BATCH_KEYS + number])
            order = _in_batches(
                order, tf.gather(groups, order), -start % batch_size, batch_size, key
            )
        places = start - first_record + tf.range(length, dtype=tf.int64)
        wanted = (places >= 0) & (places % batch_size // (batch_size // num_shares) == share)
        rows = tf.data.Dataset.from_tensor_slices(order[wanted])
        copied = rows.batch(_COPIED_TOGETHER).map(lambda some: tf.gather(block, some))
        if not with_epochs:
            return copied
        return copied.map(lambda some: (some, tf.fill(tf.shape(some), epoch)))

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    # A window is read while the previous one is used, and no window is copied as a whole.
    return epochs.flat_map(windows).prefetch(1).flat_map(arranged).unbatch()


def _from_record(read, order, lengths, first):
    """Records of files in the given order, from number `first` on; int64 tensors [files]."""
    skipped = tf.clip_by_value(first - tf.cumsum(lengths, exclusive=True), 0, lengths)
    left = skipped < lengths
    parts = tf.data.Dataset.from_tensor_slices((order[left], skipped[left]))
    return parts.flat_map(read)


def _with_groups(found, group_of):
    """Records with their groups, or only records if `group_of` is None."""
    if not group_of:
        return found
    some = found.batch(_MEASURED_TOGETHER)
    return some.map(lambda batch: (batch, group_of(batch)), tf.data.AUTOTUNE).unbatch()


def _permutation(length, key):
    """The numbers from 0 to length - 1 in an order that follows from two int64 numbers."""
    # The algorithm is named, so that devices and versions of TensorFlow draw the same.
    draws = tf.random.stateless_uniform([length], key, None, None, tf.int64, alg="philox")
    return tf.cast(tf.argsort(draws, stable=True), tf.int64)


def _in_batches(order, groups, before, batch_size, key):
    """Puts records of the same group into the same batches, and these into a random order.

    Args:
        order: int64 tensor [n], the records of a window in a random order.
        groups: int32 tensor [n], the group of each.
        before: int64 scalar, how many of them complete the last batch of the window before.
        batch_size: int.
        key: int64 tensor [2], of the order of the batches.

    Returns:
        int64 tensor [n]. The first records, which complete a batch, and the last, which begin one
        that the next window completes, are random ones.
    """
    whole = tf.maximum(tf.size(order, tf.int64) - before, 0) // batch_size
    stop = before + whole * batch_size
    sorted_ = tf.argsort(groups[before:stop], stable=True)
    batches = tf.reshape(tf.gather(order[before:stop], sorted_), [whole, batch_size])
    batches = tf.gather(batches, _permutation(whole, key))
    return tf.concat([order[:before], tf.reshape(batches, [-1]), order[stop:]], 0)


def _reader(files):
    """A function (number of a file, records to skip) -> tf.data.Dataset of the other records."""
    paths = [file.path for file in files]
    compressions = [schemas.compression_of(path) for path in paths]
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
