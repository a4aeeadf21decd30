# SPDX-License-Identifier: Apache-2.0
"""Tab-separated files of GLUE and of one's own: where texts and labels stand, and their reading."""

import dataclasses
import math
import os
import reprlib
from typing import NamedTuple

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.records import schemas
from albert_tf.tasks import tables

SEPARATOR = "|"  # between the labels of a text
_MOST_SHOWN = 10  # labels in a message
SPLITS = ("train", "dev", "test")


class Example(NamedTuple):
    """One row of a file: its name, texts (text_b None where there is none) and label.

    The label is the text of a class, in multi-label classification a list of them or, in
    regression, a float. In the test split it is the first class, or 0.0: a stand-in.
    """

    guid: str
    text_a: str
    text_b: str | None
    label: str | list | float


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Where the texts and labels of a task stand, and how it is measured.

    Columns are numbers from 0 (-1 is the last one), or names that the header must have.

    Attributes:
        folder: str, directory below data_dir.
        text: tuple of one or two columns, in the training and development files.
        label: column, in the same files; None if there is none. With multi_label a tuple: a column
            of labels with SEPARATOR between them, or one for each label, with 0 or 1.
        labels: tuple of str in the order of their ids, or None for regression.
        metrics: tuple of names in `classification_metrics.METRICS`.
        key_metric: str, the one that chooses the best checkpoint.
        test_text: tuple of columns in the test file.
        files: dict from split to names, of which one file must be there; splits without a file
            are not in it.
        splits_with_header: tuple of str; elsewhere the first row is an example.
        guid, test_guid: str, how examples are named in train and dev, and in test: "row" (split and
            number of the row), "position" (number of the example), "id" (the first column) or
            "normalized id".
        splits_with_short_rows: tuple of str, in which a row that lacks columns is left out and
            counted; elsewhere it is an error.
        splits_with_blank_rows: tuple of str, in which a blank row is an example without text, so
            that a line of predictions belongs to the same line of the file; elsewhere it is left
            out and counted.
        normalize_labels: bool, whether labels go through the tokenizer's normalisation, as the
            original has it; if not, they are only stripped.
        multi_label: bool, whether a text has any number of labels.
        submission_file: str or None, name of the file that the GLUE server takes.
        score_range: (lowest, highest) score in that file, or None for classes.
        companions: tuple of (suffix, name in `glue.TASKS`): tasks on whose development and test
            sets the same model is also evaluated; the suffix is added to figures and file names.
    """

    folder: str
    text: tuple[int | str, ...]
    label: int | str | tuple | None
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    key_metric: str
    test_text: tuple[int | str, ...]
    files: dict[str, tuple[str, ...]]
    splits_with_header: tuple[str, ...] = SPLITS
    guid: str = "normalized id"
    test_guid: str = "normalized id"
    splits_with_short_rows: tuple[str, ...] = ()
    splits_with_blank_rows: tuple[str, ...] = ()
    normalize_labels: bool = True
    multi_label: bool = False
    submission_file: str | None = None
    score_range: tuple[float, float] | None = None
    companions: tuple[tuple[str, str], ...] = ()

    @property
    def is_regression(self):
        """Whether labels are scores."""
        return self.labels is None

    @property
    def num_outputs(self):
        """Numbers the model gives for an example (int)."""
        return 1 if self.is_regression else len(self.labels)

    @property
    def stand_in(self):
        """The label of an example that has none: the first class, or 0.0."""
        return 0.0 if self.is_regression else self.labels[0]

    def schema(self, max_seq_length, **sizes):
        """Schema of the task's records; sizes are vocab_size and type_vocab_size."""
        return schemas.classification_schema(
            max_seq_length,
            tf.float32 if self.is_regression else tf.int64,
            num_labels=None if self.is_regression else len(self.labels),
            **sizes,
        )


# === Reading ===


NEEDED_BY = {"train": "--do_train", "dev": "--do_eval", "test": "--do_predict"}


def input_paths(task, data_dir, split):
    """Paths of a split's file, of which one may be there.

    Args:
        task: GlueTask.
        data_dir: str.
        split: str, one of SPLITS.

    Raises:
        UserError: the task has no such split.
    """
    if split not in task.files:
        raise UserError(
            f"{task.folder} has no {split} file, only {', '.join(task.files)}; "
            "choose another --task_name or leave that step out"
        )
    return [os.path.join(data_dir, task.folder, name) for name in task.files[split]]


def input_file(task, data_dir, split):
    """Path of the file of a split; arguments as of `input_paths`.

    Raises:
        UserError: the task has no such split, or its file is not there, or in two formats.
    """
    paths = input_paths(task, data_dir, split)
    found = [path for path in paths if tf.io.gfile.exists(path)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{' and '.join(found)} are both there: keep one of them")
    if data_dir and not tf.io.gfile.isdir(data_dir):
        state = "a file" if tf.io.gfile.exists(data_dir) else "not there"
        raise UserError(f"--data_dir={data_dir} is {state}: give the directory with the data")
    raise UserError(
        f"there is no {' or '.join(paths)}, which {NEEDED_BY[split]} needs: check --data_dir and "
        "--task_name"
    )


def read_examples(task, data_dir, split, tokenizer):
    """Reads the examples of a split, in the order of the file.

    Args:
        task: GlueTask.
        data_dir: str, directory that holds the task's folder.
        split: str, one of SPLITS.
        tokenizer: FullTokenizer, whose `normalize` cleans the texts, and labels and names where
            the original does so.

    Returns:
        (list of Example, int): examples, and the number of rows left out: blank lines, and in some
        tasks rows that lack columns.

    Raises:
        UserError: the file is missing, empty or damaged, or a row lacks columns or has an unknown
            label; the message names file and line.
    """
    rows, left_out = read_rows(task, data_dir, split)
    normalize = tokenizer.normalize
    first = int(split in task.splits_with_header)
    names = {
        "row": lambda row: f"{split}-{row.number}",
        "position": lambda row: str(row.number - first),
        "id": lambda row: row.cells[0],
        "normalized id": lambda row: normalize(row.cells[0]),
    }
    name, examples = names[task.test_guid if split == "test" else task.guid], []
    for row in rows:
        texts = [normalize(text) for text in row.values[: len(task.text)]]
        label = task.stand_in if split == "test" else _label(task, row, normalize)
        examples.append(Example(name(row), texts[0], texts[1] if len(texts) == 2 else None, label))
    return examples, left_out


def read_rows(task, data_dir, split):
    """Reads the rows of a split; arguments and errors are those of `read_examples`.

    Returns:
        (list of tables.Row with the texts and, but in the test split, the label as values; int, how
        many rows are left out).
    """
    labelled = split != "test"
    if labelled and task.label in (None, ()) and split in task.files:
        raise UserError(f"the label column is needed by {NEEDED_BY[split]} and not given")
    path = input_file(task, data_dir, split)
    labels = task.label if task.multi_label else (task.label,)
    columns = (*task.text, *labels) if labelled else task.test_text
    has_header = split in task.splits_with_header
    header, rows, left_out = tables.read_columns(
        path,
        columns,
        has_header=has_header,
        keep_blank=split in task.splits_with_blank_rows,
        skip_short=split in task.splits_with_short_rows,
    )
    if has_header and all(isinstance(column, int) for column in columns):
        if labelled:
            is_example = len(header) > max(columns) and _is_label(task, header[task.label].strip())
        else:
            is_example = header[:1] and header[0].strip().isdecimal()
        if is_example:
            raise UserError(
                f"{path}, line 1: the file has no header, with which files of this task begin: "
                "put a line with the names of the columns first"
            )
    return rows, left_out


def _label(task, row, normalize):
    if task.multi_label:
        return labels_of(row.values[len(task.text) :], task.labels, row.place)
    text = normalize(row.values[-1]) if task.normalize_labels else row.values[-1].strip()
    if task.is_regression:
        score = _number(text)
        if not abs(score) <= float(tf.float32.max):  # nan is not
            raise UserError(
                f"{row.place}: the label must be a number. Received: {reprlib.repr(text)}"
            )
        return score
    check_label(text, row)
    if text not in task.labels:
        raise UserError(
            f"{row.place}: unknown label {reprlib.repr(text)}; known are "
            f"{', '.join(task.labels[:_MOST_SHOWN])}"
            + (f" and {len(task.labels) - _MOST_SHOWN} more" * (len(task.labels) > _MOST_SHOWN))
        )
    return text


def labels_of(cells, labels, place):
    """Labels of a row of multi-label classification: those in its only cell, or whose cells hold 1.

    Args:
        cells: list of str.
        labels: sequence of str, the known ones; None if any will do.
        place: str, for messages.

    Raises:
        UserError: a label is unknown, or one of several cells holds neither 0 nor 1.
    """
    if len(cells) > 1:
        if not {*cells} <= {"0", "1"}:
            raise UserError(f"{place}: a label column holds 0 or 1. Received: {', '.join(cells)}")
        return [label for label, cell in zip(labels, cells, strict=True) if cell == "1"]
    found = [label for label in map(str.strip, cells[0].split(SEPARATOR)) if label]
    unknown = [label for label in found if labels is not None and label not in labels]
    if unknown:
        raise UserError(f"{place}: unknown label {unknown[0]!r}; known are {', '.join(labels)}")
    return found


def check_label(text, row):
    """Raises UserError if the label of a row is empty, which is never meant as a class."""
    if not text:
        raise UserError(f"{row.place}: the label is empty; give it one or remove the row")


def _number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan


def _is_label(task, text):
    return math.isfinite(_number(text)) if task.is_regression else text in task.labels
