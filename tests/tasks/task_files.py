# SPDX-License-Identifier: Apache-2.0
"""Files of a user's own and what is read of them, and records."""

import tensorflow as tf

from albert_tf import options
from albert_tf.tasks import classification, own_tables, reading
from albert_tf.tasks.base import TextInput
from tests import SIZES

NAMED = {"text_column": "text", "text_pair_column": None, "label_column": "label"}
NUMBERED = {"text_column": "0", "text_pair_column": None, "label_column": "1"}


def write(folder, name, *lines):
    """Writes lines, or the bytes of a file; returns its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    is_raw = lines and isinstance(lines[0], bytes)
    path.write_bytes(lines[0] if is_raw else "".join(f"{line}\n" for line in lines).encode())
    return path


def task_of(row, tokenizer=None, max_seq_length=8, kind=classification.ClassificationTask, **given):
    """The task of a row of the table, with texts of few pieces."""
    return kind("any", row, TextInput(tokenizer, max_seq_length, SIZES), **given)


def row_of(text, label, labels=None, **given):
    """The row of a user's own files, of the columns of texts and labels."""
    options_of_row = {"text_column": text, "label_column": label, "labels": labels, **given}
    return own_tables.tsv_task(options.ClassifierData(**options_of_row))


def read_own(folder, tokenizer, *files, **given):
    """Writes files, each (name, *lines), and reads the last one: (task, Examples, counts).

    `given` are options, in place of those for columns named text and label.
    """
    for name, *lines in files:
        write(folder, name, *lines)
    task = own_tables.tsv_task(options.ClassifierData(**NAMED | given, data_dir=str(folder)))
    split = files[-1][0].partition(".")[0]
    return task, *reading.read_examples(task, str(folder), split, tokenizer)


def examples_in(path):
    """The tf.train.Examples of a file of records: list."""
    dataset = tf.data.TFRecordDataset(str(path))
    return [tf.train.Example.FromString(record) for record in dataset.as_numpy_iterator()]
