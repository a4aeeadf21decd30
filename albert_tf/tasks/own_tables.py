# SPDX-License-Identifier: Apache-2.0
"""The task of a user's own tables: its columns, labels and scores, as flags and files tell them."""

import collections
import dataclasses
import reprlib
import statistics

from albert_tf.errors import UserError, about
from albert_tf.options import LABEL_SEPARATOR
from albert_tf.tasks import label_lists, reading, split_files, tables
from albert_tf.tasks.glue import ACCURACY, SCORES, GlueTask
from albert_tf.tasks.labels import label_texts, labels_of

_ENOUGH_ROWS = 20  # to tell a column of classes from one of texts


def tsv_task(given, header=None):
    """Makes the task of a user's own train.tsv, dev.tsv and test.tsv, where they are needed.

    The names may also end in .csv, .jsonl or .json. Separators and quotes are recognised
    (`tables.find_form`). If a column is given by name, every file must begin with a header. If all
    are given by number (from 0), a first row that numbers the columns is a header. The test file
    needs no label column. Labels that are not given are those of the training file, in the order of
    `tables.order`; `data_dir` is read only to find them and the names of columns.

    Args:
        given: options.ClassifierData.
        header: sequence of str, the names of the columns in the training of the model; None to
            take those of the training file, if there is one.

    Raises:
        UserError: options don't go together, or the training file is needed and unusable.
    """
    are_several = given.multi_label or given.regression
    names = tables.columns_in(given.label_column) if are_several else [given.label_column]
    label_columns = columns(*names)
    labels, are_named = given.labels, False
    if given.multi_label and len(label_columns) > 1:
        labels, are_named = labels or label_columns, not labels
        if len(labels) != len(label_columns):
            raise UserError(f"{len(labels)} labels, but {len(label_columns)} label columns")
    task = GlueTask(
        folder="",
        text=columns(given.text_column, given.text_pair_column),
        label=label_columns,
        labels=None if given.regression else tuple(map(str, labels or ())),
        metrics=("micro_f1",) if given.multi_label else SCORES if given.regression else ACCURACY,
        files=split_files.OWN,
        splits_with_header={None: None, True: split_files.SPLITS, False: ()}[given.header],
        delimiter=tables.parse_delimiter(given.delimiter),
        guid="row",
        test_guid="position",
        splits_with_blank_rows=("test",),
        normalize_labels=False,
        multi_label=given.multi_label,
        skip_other_labels=given.skip_other_labels,
        header=header or (),
    )
    needs_labels = not (given.regression or labels)
    has_form = given.multi_label and len(label_columns) == 1
    if needs_labels or (given.data_dir and (has_form or header is None)):
        try:
            task = _as_in_training(task, given.data_dir or "", header)
        except UserError:  # the file may not be needed
            if needs_labels:
                raise
    if are_named:
        task = dataclasses.replace(task, labels=task.label_names)
    if not given.regression and len({*task.labels}) < max(2, len(task.labels)):
        raise UserError(
            f"at least two different labels are needed. Received: {list(task.labels)} in "
            f"--label_column={given.label_column} of the training file, or as --labels"
        )
    return task


def columns(*given):
    """Converts columns from flags.

    Args:
        *given: str, int or None; None and "" are left out.

    Returns:
        tuple of int, for numbers, and str, for names.
    """
    return tuple(tables.column_of(text) for text in given if text not in (None, ""))


def _as_in_training(task, data_dir, header):
    """The task with a header, the form of several labels, and all labels, as the training file."""
    table = reading.read_rows(task, data_dir, "train", split_files.LABELS_NEEDED)
    if header is None:
        task = dataclasses.replace(task, header=table.header or ())
    if task.multi_label and len(task.label) == 1:
        with about(table.path):
            form = label_lists.find_form([row.values[-1] for row in table.rows], task.labels)
        task = dataclasses.replace(task, label_form=form)
    return dataclasses.replace(task, labels=_labels_in(task, table)) if task.labels == () else task


def _labels_in(task, table):
    """The labels of a training file: tuple of str, by `tables.order`."""
    found = label_texts(task, table)
    first, others = found[0], [label for labels in found[1:] for label in labels]
    is_unsure = table.header is None and task.splits_with_header is None
    if is_unsure and first and {*first}.isdisjoint(others):
        raise UserError(
            f"{table.rows[0].place}: label {LABEL_SEPARATOR.join(first)!r} occurs only here: give "
            "--header if this line is a header, else --noheader"
        )
    # Compare with the number of labels, not of rows: a row may have several labels.
    given = first + others
    labels = sorted({*given}, key=tables.order)
    if sum(map(bool, found)) >= _ENOUGH_ROWS and len(labels) > len(given) / 2:
        numbers = "" if task.multi_label else "--regression for numbers, "
        raise UserError(
            f"{table.path}: column {task.label[0]!r} has {len(labels)} different labels among "
            f"{len(given)}, such as {reprlib.repr(given[0])}: give another --label_column, "
            f"{numbers}or all classes as --labels"
        )
    counts, most = collections.Counter(given), max(map(len, found))
    with about(table.path):
        doubts = label_lists.doubts(counts, task.multi_label, task.label_form, most)
        for doubt in [*doubts, *_rejected(task, table)]:
            print(f"Warning: {table.path}: {doubt}")
    return tuple(labels)


def _rejected(task, table):
    """Yields a warning if people rejected or ignored rows, as Prodigy writes it."""
    names = table.header or []
    if "answer" not in names or "answer" in task.label:
        return
    counts = collections.Counter(row.cells[names.index("answer")] for row in table.rows)
    if {"accept"} < counts.keys() <= {"accept", "reject", "ignore"}:
        yield (
            f"the column 'answer' says reject in {counts['reject']} rows and ignore in "
            f"{counts['ignore']}, which are read like the others: leave them out of the file"
        )


def label_scale(task, data_dir):
    """Means and standard deviations (1 of equal scores) of a training file: tuples of K floats.

    Args:
        task: GlueTask with K columns of scores.
        data_dir: str.
    """
    table = reading.read_rows(task, data_dir, "train")
    scores = labels_of(task, table)
    columns = [scores] if task.num_outputs == 1 else [*zip(*scores, strict=True)]
    for column in columns:
        for score in label_lists.missing_numbers(column):
            if (count := column.count(score)) > 1:
                print(
                    f"Warning: {table.path}: the score {score:g} of {count} rows may stand for a "
                    "missing one: leave these rows out if it does"
                )
    deviations = (statistics.pstdev(column) or 1.0 for column in columns)
    return tuple(map(statistics.fmean, columns)), tuple(deviations)
