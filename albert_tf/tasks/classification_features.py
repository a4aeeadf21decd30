# SPDX-License-Identifier: Apache-2.0
"""Examples with one or two texts as arrays of ids."""

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text.sequences import SHORTEST, cut, pack_segments


def features(examples, task, tokenizer, max_seq_length):
    """Arrays of the records: [CLS] a [SEP], or [CLS] a [SEP] b [SEP], cut to max_seq_length.

    Of a pair that is too long, the longer text loses its last tokens until both are equally long.

    Args:
        examples: list of n Examples.
        task: GlueTask.
        tokenizer: FullTokenizer.
        max_seq_length: int, T.

    Returns:
        dict of numpy arrays, which fit `task.schema`: input_ids (int32), input_mask and segment_ids
        (int8) [n, T]; label_ids (int32, or float32 in regression) and is_real_example (int8) [n].

    Raises:
        UserError: max_seq_length is too short.
    """
    check_max_seq_length(max_seq_length)
    firsts, seconds = [], []
    for example in examples:
        first = tokenizer.encode_ids(example.text_a, is_normalized=True)
        second = []
        if example.text_b:
            second = tokenizer.encode_ids(example.text_b, is_normalized=True)
        first, second = cut(first, second, max_seq_length)
        firsts.append(first)
        seconds.append(second or None)
    return pack_segments(
        firsts, seconds, tokenizer.special_ids(with_mask=False), max_seq_length
    ) | {
        "label_ids": _label_ids(examples, task),
        "is_real_example": np.ones(len(examples), np.int8),
    }


def num_sorted(task, examples):
    """How many examples there are if they stand sorted by label; 0 if they do not.

    Args:
        task: GlueTask.
        examples: list of Examples.
    """
    labels = _label_ids(examples, task)
    steps = np.diff(labels)
    if task.is_regression:
        in_order = bool(np.all(steps >= 0) or np.all(steps <= 0))
    else:  # one block of each class
        in_order = np.count_nonzero(steps) == len(np.unique(labels)) - 1
    return len(examples) if in_order and np.any(steps) else 0


def order_warning(count, shuffle_buffer_size):
    """A warning if training examples stand sorted by label and the shuffling cannot mend it.

    Args:
        count: int, of `num_sorted`.
        shuffle_buffer_size: int, the window of `input_pipeline.train_batches`.

    Returns:
        str, or None if there is nothing to warn of.
    """
    if count <= shuffle_buffer_size:
        return None
    return (
        f"the {count} training examples are sorted by label and "
        f"--shuffle_buffer_size={shuffle_buffer_size}, so batches are of one label: shuffle the "
        f"file, or give --shuffle_buffer_size={count}"
    )


def check_max_seq_length(max_seq_length):
    """Raises UserError if there is no room for a token of either text."""
    if max_seq_length < SHORTEST:
        raise UserError(f"--max_seq_length={max_seq_length}: must be at least {SHORTEST}")


def _label_ids(examples, task):
    if task.is_regression:
        return np.array([example.label for example in examples], np.float32)
    ids = {label: id_ for id_, label in enumerate(task.labels)}
    return np.array([ids[example.label] for example in examples], np.int32)
