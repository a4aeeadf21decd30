# SPDX-License-Identifier: Apache-2.0
"""The file of a split of a data set: one of several names that it may have."""

import itertools
import os
import reprlib

import tensorflow as tf

from albert_tf.errors import UserError

SPLITS = ("train", "dev", "test")
NEEDED_BY = {"train": "--do_train", "dev": "--do_eval", "test": "--do_predict"}
LABELS_NEEDED = "has the labels if --labels does not give them in the order of the model's training"
_ENDINGS = ("tsv", "csv", "jsonl", "json")
OWN = {split: tuple(f"{split}.{end}" for end in _ENDINGS) for split in SPLITS}  # a user's tables


def find(data_dir, split, *groups, needed=None):
    """Path of the file of a split.

    Args:
        data_dir: str.
        split: str, one of SPLITS.
        *groups: sequences of str, names below data_dir, in order of preference. Two files of a
            group are an error.
        needed: str, clause of the message that says why the file is needed; by default it names
            the flag.

    Raises:
        UserError: no such file exists, or two do.
    """
    groups = [[os.path.join(data_dir, name) for name in names] for names in groups]
    existing = ([*filter(tf.io.gfile.exists, paths)] for paths in groups)
    if found := next(filter(None, existing), None):
        if len(found) > 1:
            raise UserError(f"{' and '.join(found)} both exist: keep one of them")
        return found[0]
    folder = os.path.dirname(groups[0][0])
    names = sorted(tf.io.gfile.listdir(folder)) if tf.io.gfile.isdir(folder) else []
    there = f"has {reprlib.repr(names)[1:-1]}" if names else "has no files"
    where = f"check --data_dir={data_dir}; {folder} {there}" if data_dir else "give --data_dir"
    raise UserError(
        f"there is no {' or '.join(itertools.chain(*groups))}, which "
        f"{needed or f'{NEEDED_BY[split]} needs'}: {where}"
    )
