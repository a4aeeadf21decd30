# SPDX-License-Identifier: Apache-2.0
"""Reads the examples of a split: rows of GLUE's files, or of a user's own tables."""

import contextlib
import os
import reprlib
from typing import NamedTuple

import numpy as np

from albert_tf.errors import UserError
from albert_tf.tasks import headers, label_lists, split_files, tables
from albert_tf.tasks.labels import decimal_mark, labels_of, test_labels


class Example(NamedTuple):
    """One row of a file: its name, texts (text_b is None if there is none) and label.

    The label is a class (str), in multi-label classification a list of them, in regression a float
    or a tuple of several. In the test split it is a stand-in: the first class, or 0.0.
    """

    guid: str
    text_a: str
    text_b: str | None
    label: str | list | float | tuple


class Examples(list):
    """The Examples of a split.

    Attributes:
        are_labelled: bool array [examples], whether their labels are real ones.
        is_test: bool.
    """

    def __init__(self, examples, are_labelled, is_test):
        super().__init__(examples)
        self.are_labelled, self.is_test = np.array(are_labelled, bool), is_test


def read_examples(task, data_dir, split, tokenizer):
    """Reads the examples of a split, in the order of the file.

    Args:
        task: GlueTask.
        data_dir: str, directory that holds the task's folder.
        split: str, one of split_files.SPLITS.
        tokenizer: FullTokenizer, whose `normalize` cleans the texts, and labels and names where
            the original does so.

    Returns:
        (Examples, dict of int): examples, and the numbers of rows left out: `left_out`, blank lines
        and in some tasks rows that lack columns; `other_labels`, those with unknown labels.

    Raises:
        UserError: the file is missing, empty or damaged, or a row lacks columns or has an unknown
            label; the message names file and line.
    """
    table = read_rows(task, data_dir, split)
    normalize = tokenizer.normalize
    first = int(table.header is not None)
    names = {
        "row": lambda row: f"{split}-{row.number}",
        "position": lambda row: str(row.number - first),
        "id": lambda row: row.cells[0],
        "normalized id": lambda row: normalize(row.cells[0]),
    }
    name = names[task.test_guid if split == "test" else task.guid]
    first_name = (table.header or [""])[:1]
    if split == "test" and not task.is_own and tables.are_among(first_name, task.names):
        name = names["position"]  # of a copy of a development set, which has no ids there
    if split == "test":
        labels = test_labels(task, table)
    else:
        labels = labels_of(task, table, normalize, skip_others=task.skip_other_labels)
    examples, are_labelled = [], []
    for row, label in zip(table.rows, labels, strict=True):
        is_labelled = label is not None
        if is_labelled or split == "test":
            texts = [normalize(text) for text in row.values[: len(task.text)]]
            text_b = texts[1] if len(texts) == 2 else None
            known = label if is_labelled else task.stand_in
            examples.append(Example(name(row), texts[0], text_b, known))
            are_labelled.append(is_labelled)
    if not examples:
        raise UserError(f"{table.path}: no row has one of --labels={','.join(task.labels)}")
    other_labels = len(table.rows) - len(examples)
    counts = {"left_out": table.left_out, "other_labels": other_labels}
    return Examples(examples, are_labelled, split == "test"), counts


def read_rows(task, data_dir, split, needed=None):
    """Reads the rows of a split; errors are those of `read_examples`, and so are the arguments.

    `needed` is as of `split_files.find`.

    Returns:
        tables.Table, whose values are the texts and, except in the test split, the label.
    """
    labelled = split != "test"
    path = input_file(task, data_dir, split, needed)
    if labelled and not task.label:
        raise UserError(
            f"{path}: {split_files.NEEDED_BY[split]} needs --label_column, a name or a number"
        )
    columns = task.text_of(split) + (task.label if labelled else ())
    if task.splits_with_header is None:
        has_header = headers.is_shared(task, _input_files(task, data_dir), split)
    else:
        has_header = split in task.splits_with_header
    known = task.named if task.is_own else dict(zip(columns, task.names, strict=False))
    given = {"has_header": has_header, "known": known, "delimiter": task.delimiter}
    table = tables.open_table(path, columns, **given, is_own=task.is_own)
    named = {*known.values()}.intersection(table.header or ())
    if named and not task.is_own and (lacking := sorted({*known.values()} - named)):
        raise UserError(
            f"{path}: there are columns {', '.join(table.header)}, but no {lacking[0]!r}: "
            f"{task.remedy('')}"
        )
    table = table.take(
        columns,
        keep_blank=split in task.splits_with_blank_rows,
        skip_short=split in task.splits_with_short_rows,
    )
    if task.is_own and split == "test" and len(table.first) > 1:  # Excel writes separators alone
        while len(table.rows) > 1 and not any(table.rows[-1].cells):
            table.rows.pop()
    _check_texts(task, table, split)
    if task.is_own:
        _check_columns(columns, table)
        _check_seldom_separator(task, table)
        if table.header is None and task.splits_with_header is None:
            headers.check_example(task, table, split)
    elif table.header is not None:
        _check_names(task, table, split)
    return table


def _check_names(task, table, split):
    """Raises UserError if the header of a file of GLUE seems to be an example."""
    if split == "test":
        is_example = table.header[:1] and table.header[0].isdecimal()
    else:
        has_columns = len(table.header) > max(task.text + task.label)
        is_example = has_columns and task.is_label(table.header[task.label[0]])
    if is_example:
        raise UserError(f"{table.path}, line 1: put the names of the columns first, as a header")


def _check_columns(columns, table):
    numbers = [*map(table.number_of, columns)]
    twice = [column for column, n in zip(columns, numbers, strict=True) if numbers.count(n) > 1]
    if twice:
        raise UserError(
            f"{table.path}: --text_column (0 by default), --text_pair_column and --label_column "
            f"must be different columns. Received: {' and '.join(map(repr, twice))}"
        )


def _check_texts(task, table, split):
    """Raises UserError if a column has no texts, as `tables.fault_of_texts`, or has lists.

    A second text may be a label, as in conversations, and be missing in a development or test set.
    """
    columns, flags = task.text_of(split), ("--text_column", "--text_pair_column")
    for place, (column, flag) in enumerate(zip(columns, flags, strict=False)):
        texts = [row.values[place].strip() for row in table.rows]
        labels = task.labels if place == 0 else None
        if not any(texts) and (place == 0 or split == "train"):
            fault = (
                f"is empty in all rows, with {table.form}: separate columns by a single character, "
                "such as a tab, or"
            )
        elif not table.form.separator and all(map(label_lists.in_brackets, texts)):
            fault = f"has lists, such as {reprlib.repr(texts[0])}: join each list to a text, or"
        elif not (fault := tables.fault_of_texts(table, column, columns, labels or ())):
            continue
        remedy = task.remedy(f"give another {flag}")
        raise UserError(f"{table.path}: column {column!r} {fault} {remedy}")


def _check_seldom_separator(task, table):
    """Raises UserError if a separator may belong to labels, as in `DESC:manner How did it happen?`.

    Then all texts begin with a part of the label, which the model would learn from.
    """
    if table.form.separator in ["", task.delimiter, *tables.SEPARATORS] or table.header:
        return
    for place, column in enumerate(task.text):
        if column - 1 not in task.label:
            continue
        pairs = [(row.values[place].strip(), row.cells[column - 1]) for row in table.rows]
        pairs = [(text.split()[0], label) for text, label in pairs if " " in text]
        words = {word for word, _ in pairs}
        if len({*pairs}) == len(words) < len(pairs) / 2:  # each belongs to one label
            raise UserError(
                f"{table.path}: words such as {reprlib.repr(pairs[0][0])} begin all texts of "
                f"column {column} and may belong to the label, with {table.form}: put tabs "
                f"between columns, or give --delimiter={table.form.separator} if they do not"
            )


def describe(task, data_dir, split="train"):
    """How the file of a split is read; arguments and errors are those of `read_examples`.

    Returns:
        (str with path, separator and header; list of str, the columns of texts and labels).
    """
    table = read_rows(task, data_dir, split)
    labels, columns = "", task.text + task.label
    if split == "test":
        columns = task.text_of(split)
    elif task.is_regression:
        scores = zip(*(row.values[len(task.text) :] for row in table.rows), strict=True)
        labels = ", labels with decimal commas" * ("," in map(decimal_mark, scores))
    elif task.multi_label:
        labels = f", labels: {task.label_form or 'a column for each'}"
    return f"{table}{labels}", [_shown(column, table) for column in columns]


def _shown(column, table):
    """A column as it was given; a number is that of this table, with its name if it has one."""
    names = dict(enumerate(table.header or ()))
    number = None if isinstance(column, str) else table.number_of(column)
    return f"{number} ({names[number]!r})" if number in names else repr(column)


def input_file(task, data_dir, split, needed=None):
    """Path of the file of a split; arguments and errors are those of `split_files.find`."""
    if split not in task.files:
        raise UserError(f"--task_name: {task.folder} has only {', '.join(task.files)}, no {split}")
    names = [os.path.join(task.folder, name) for name in task.files[split]]
    return split_files.find(data_dir, split, names, needed=needed)


def _input_files(task, data_dir):
    """Paths of the files of all splits that have one: dict."""
    paths = {}
    for split in split_files.SPLITS:
        with contextlib.suppress(UserError):
            paths[split] = input_file(task, data_dir, split)
    return paths
