# SPDX-License-Identifier: Apache-2.0
"""The tasks of GLUE (paper, section 4.2) as rows of `TASKS`, and tasks of a user's own files.

A row says which columns hold texts and labels; `read_examples` reads them.
"""

import collections
import contextlib
import dataclasses
import math
import os
import re
import reprlib
import statistics
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import options
from albert_tf.errors import UserError, about
from albert_tf.options import LABEL_SEPARATOR
from albert_tf.tasks import headers, label_lists, split_files, tables

_MOST_SHOWN = 10  # labels in a message
_FILES = {split: (f"{split}.tsv",) for split in split_files.SPLITS}
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")
_FAR, _FEW_SCORES = 10, 4  # of scores that may stand for missing ones: distance, and values to tell
_ENOUGH_ROWS = 20  # to tell a column of classes from one of texts


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


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """The files of a task, the columns of its texts and labels, and its metrics.

    The defaults are those of most tasks of GLUE. Columns are numbers from 0 (-1 is the last one),
    or names that the header must have.

    Attributes:
        folder: str, directory below data_dir.
        text: tuple of one or two columns, in the training and development files.
        test_text: the same in the test file; empty if it has the same columns.
        label: tuple of one column in the training and development files; () if there is none. With
            multi_label a column of labels, as of `label_lists.find_form`, or columns of 0 and 1,
            one for each label.
        names: tuple of str, the names of these columns in files of GLUE. Where a header has them,
            they count, as files from elsewhere have other columns too.
        labels: tuple of str in the order of their ids, or None for regression.
        metrics: tuple of names in `classification.METRICS`. The first one chooses the best
            checkpoint.
        files: dict from split to names, of which one file must exist; splits without a file are
            not in it.
        splits_with_header: tuple of str; elsewhere the first row is an example. None to recognise
            it in each file.
        delimiter: str or None, the separator of the columns; None to recognise it.
        guid, test_guid: str, how examples are named in train and dev, and in test: "row" (split and
            number of the row), "position" (number of the example), "id" (the first column) or
            "normalized id".
        splits_with_short_rows: tuple of str, in which a row that lacks columns is left out and
            counted; elsewhere it is an error.
        splits_with_blank_rows: tuple of str, in which a blank row is an example without text, so
            that a line of predictions belongs to the same line of the file; elsewhere it is left
            out and counted.
        normalize_labels: bool, whether the tokenizer normalizes labels too, as in the original; if
            not, they are only stripped.
        multi_label: bool, whether a text has any number of labels.
        skip_other_labels: bool, whether rows with other labels than `labels` are left out, or not
            scored in a test file.
        label_form: label_lists.Form of several labels in the training file, which the other files
            have too; None if it is not known.
        server_file: str, name of the file that the GLUE server takes, if it is not the folder's.
        score_range: (lowest, highest) score in that file, or None for classes.
        companions: tuple of (suffix, name in `TASKS`): tasks on whose development and test sets the
            same model is also evaluated; the suffix is added to metrics and file names.
    """

    folder: str
    text: tuple[int | str, ...]
    test_text: tuple[int | str, ...] = ()
    label: tuple[int | str, ...] = (-1,)
    names: tuple[str, ...] = ("sentence1", "sentence2", "label")
    labels: tuple[str, ...] | None = ("0", "1")
    metrics: tuple[str, ...] = ("eval_accuracy", "eval_loss")
    files: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=lambda: _FILES)
    splits_with_header: tuple[str, ...] | None = split_files.SPLITS
    delimiter: str | None = None
    guid: str = "normalized id"
    test_guid: str = "normalized id"
    splits_with_short_rows: tuple[str, ...] = ()
    splits_with_blank_rows: tuple[str, ...] = ()
    normalize_labels: bool = True
    multi_label: bool = False
    skip_other_labels: bool = False
    label_form: label_lists.Form | None = None
    server_file: str = ""
    score_range: tuple[float, float] | None = None
    companions: tuple[tuple[str, str], ...] = ()

    @property
    def is_own(self):
        """Whether it is of a user's own files."""
        return not self.folder

    @property
    def is_regression(self):
        """Whether labels are scores."""
        return self.labels is None

    @property
    def num_outputs(self):
        """Number of outputs of the model for an example (int)."""
        return max(len(self.label), 1) if self.is_regression else len(self.labels)

    @property
    def stand_in(self):
        """The label of an example that has none: the first class, or 0.0 for each score."""
        if not self.is_regression:
            return self.labels[0]
        return 0.0 if self.num_outputs == 1 else (0.0,) * self.num_outputs

    @property
    def submission_file(self):
        """Name of the file that the GLUE server takes."""
        return self.server_file or f"{self.folder}.tsv"

    def is_label(self, text):
        """Whether a text is what a column of labels holds."""
        if self.multi_label and len(self.label) > 1:
            return text in label_lists.BITS
        return math.isfinite(tables.number(text)) if self.is_regression else text in self.labels

    def text_of(self, split):
        """Columns of the texts in the file of a split."""
        return (split == "test" and self.test_text) or self.text


_NLI = ("contradiction", "entailment", "neutral")
_NAMES_OF_MNLI = ("sentence1", "sentence2", "gold_label")
_ENTAILMENT = ("entailment", "not_entailment")
_ACCURACY = ("eval_accuracy", "eval_loss")
_SCORES = ("pearson", "MSE", "eval_loss", "spearman")

TASKS: dict[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA",
        text=(3,),
        test_text=(1,),
        label=(1,),
        names=("sentence", "label"),
        metrics=("matthew_corr", *_ACCURACY),
        splits_with_header=("test",),
        guid="row",
        test_guid="id",
    ),
    "mnli": GlueTask(
        "MNLI",
        text=(8, 9),
        names=_NAMES_OF_MNLI,
        labels=_NLI,
        files=_FILES | {"dev": ("dev_matched.tsv",), "test": ("test_matched.tsv",)},
        server_file="MNLI-m.tsv",
        companions=(("mismatched", "mismnli"), ("diagnostic", "ax")),
    ),
    "mismnli": GlueTask(
        "MNLI",
        text=(8, 9),
        names=_NAMES_OF_MNLI,
        labels=_NLI,
        files=_FILES | {"dev": ("dev_mismatched.tsv",), "test": ("test_mismatched.tsv",)},
        server_file="MNLI-mm.tsv",
    ),
    "mrpc": GlueTask(
        "MRPC",
        text=(3, 4),
        label=(0,),
        names=("#1 String", "#2 String", "Quality"),
        metrics=(*_ACCURACY, "f1"),
        guid="row",
        test_guid="id",
    ),
    "sst-2": GlueTask(
        "SST-2", text=(0,), test_text=(1,), label=(1,), names=("sentence", "label"), guid="row"
    ),
    "sts-b": GlueTask(
        "STS-B",
        text=(7, 8),
        names=("sentence1", "sentence2", "score"),
        labels=None,
        metrics=_SCORES,
        score_range=(0.0, 5.0),
    ),
    "qqp": GlueTask(
        "QQP",
        text=(3, 4),
        test_text=(1, 2),
        label=(5,),
        names=("question1", "question2", "is_duplicate"),
        metrics=(*_ACCURACY, "f1"),
        guid="id",
        test_guid="id",
        splits_with_short_rows=("train", "dev"),
    ),
    "qnli": GlueTask(
        "QNLI", text=(1, 2), names=("question", "sentence", "label"), labels=_ENTAILMENT
    ),
    "rte": GlueTask("RTE", text=(1, 2), labels=_ENTAILMENT),
    "wnli": GlueTask("WNLI", text=(1, 2)),
    # The diagnostic set: predictions of a model that was trained on mnli.
    "ax": GlueTask(
        "diagnostic",
        text=(1, 2),
        label=(),
        labels=_NLI,
        files={"test": ("diagnostic.tsv",)},
        server_file="AX.tsv",
    ),
}


def find_task(name):
    """The row of a task.

    Args:
        name: str, in any case.

    Raises:
        UserError: there is no such task.
    """
    options.check_task_name(name)
    return TASKS[name.lower()]


def with_companions(task, data_dir, split):
    """A task and its companions that have a file of a split; prints the names of missing files.

    Args:
        task: GlueTask.
        data_dir: str.
        split: str, dev or test.

    Returns:
        dict from the suffix of names of metrics and files ("" for the task itself) to GlueTask.
    """
    found = {"": task}
    for suffix, name in task.companions:
        for file in TASKS[name].files.get(split, ()):
            path = os.path.join(data_dir, TASKS[name].folder, file)
            if tf.io.gfile.exists(path):
                found[f"_{suffix}"] = TASKS[name]
            else:
                print(f"{split}_{suffix}: {path} is left out, as there is no such file")
    return found


def tsv_task(given):
    """Makes the task of a user's own train.tsv, dev.tsv and test.tsv, where they are needed.

    The names may also end in .csv, .jsonl or .json. Separators and quotes are recognised
    (`tables.find_form`). If a column is given by name, every file must begin with a header. If all
    are given by number (from 0), a first row that numbers the columns is a header. The test file
    needs no label column. Labels that are not given are those of the training file, in the order of
    `tables.order`; `data_dir` is read only to find them.

    Args:
        given: options.ClassifierData.

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
        metrics=("micro_f1",) if given.multi_label else _SCORES if given.regression else _ACCURACY,
        files=split_files.OWN,
        splits_with_header={None: None, True: split_files.SPLITS, False: ()}[given.header],
        delimiter=tables.parse_delimiter(given.delimiter),
        guid="row",
        test_guid="position",
        splits_with_blank_rows=("test",),
        normalize_labels=False,
        multi_label=given.multi_label,
        skip_other_labels=given.skip_other_labels,
    )
    if given.data_dir and are_named:
        names = names_in_training(task, given.data_dir)
        task = dataclasses.replace(
            task, labels=tuple(names.get(column, str(column)) for column in label_columns)
        )
    if not (given.regression or labels):
        task = _as_in_training(task, given.data_dir or "")
    elif given.multi_label and len(label_columns) == 1 and given.data_dir:
        with contextlib.suppress(UserError):  # the file may not be needed
            task = _as_in_training(task, given.data_dir)
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


def _as_in_training(task, data_dir):
    """The task with the form of several labels, and all labels, which the training file tells."""
    path = input_file(task, data_dir, "train", split_files.LABELS_NEEDED)
    table = read_rows(task, data_dir, "train")
    if task.multi_label and len(task.label) == 1:
        with about(path):
            form = label_lists.find_form([row.values[-1] for row in table.rows], task.labels)
        task = dataclasses.replace(task, label_form=form)
    return task if task.labels else dataclasses.replace(task, labels=_labels_in(task, table))


def _labels_in(task, table):
    """The labels of a training file: tuple of str, by `tables.order`."""
    found = _labels_of(task, table.rows, str.strip)
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
    doubts = label_lists.doubts(collections.Counter(given), task.multi_label, task.label_form)
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


# === Reading ===


def describe(task, data_dir):
    """How the training file is read: (str with separator, header and columns; the header or [])."""
    table = read_rows(task, data_dir, "train")
    labels = ""
    if task.is_regression:
        commas = any("," in "".join(row.values[len(task.text) :]) for row in table.rows)
        labels = ", labels with decimal commas" * commas
    elif task.multi_label:
        labels = f", labels: {task.label_form or 'columns of 0 and 1'}"
    return f"{table}{labels}", table.header or []


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


def names_in_training(task, data_dir):
    """The names in the training file of columns that a user gives by number: dict from number."""
    names = headers.of_training(task, _input_files(task, data_dir)) if task.is_own else {}
    return {column: names[column] for column in task.text + task.label if column in names}


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
    if split == "test":
        labels = test_labels(task, table, normalize)
    else:
        labels = labels_of(task, table.rows, normalize, skip_others=task.skip_other_labels)
    examples = []
    for row, label in zip(table.rows, labels, strict=True):
        if label is not None or split == "test":
            texts = [normalize(text) for text in row.values[: len(task.text)]]
            text_b = texts[1] if len(texts) == 2 else None
            known = task.stand_in if label is None else label
            examples.append(Example(name(row), texts[0], text_b, known))
    if not examples:
        raise UserError(f"{table.path}: no row has one of --labels={','.join(task.labels)}")
    are_labelled = [label is not None for label in labels]
    if split != "test":
        are_labelled = [*filter(None, are_labelled)]
    other_labels = len(table.rows) - len(examples)
    counts = {"left_out": table.left_out, "other_labels": other_labels}
    return Examples(examples, are_labelled, split == "test"), counts


def test_labels(task, table, normalize):
    """The labels of a user's own test file: list, None for rows without one that is known.

    If a row has another label, no row counts as labelled, unless such rows are skipped.
    """
    none = [None] * len(table.rows)
    if not (task.is_own and task.label):
        return none
    try:
        numbers = [*map(table.number_of, task.label)]
    except UserError:  # no column has this name
        return none
    names = {table.known[column] for column in task.label if column in table.known}
    has_names = table.header is None or names <= {*table.header}
    if not has_names or max(numbers) >= min(len(row.cells) for row in table.rows):
        return none
    cells = [[row.cells[n] for n in numbers] for row in table.rows]
    given = {label.strip() for labels in cells for label in labels}
    if given <= label_lists.STAND_INS - {*(task.labels or ())}:
        return none
    try:
        pairs = zip(table.rows, cells, strict=True)
        rows = [row._replace(values=row.values + labels) for row, labels in pairs]
        found = labels_of(task, rows, normalize, skip_others=task.skip_other_labels)
        known = [label for label in found if label is not None]
        if len(known) < len(found):
            others = f"{len(found) - len(known)} of {len(found)} rows"
            print(f"test: {others} have other labels than --labels and are not scored")
        label_lists.warn_if_all_alike(table.path, known)
        return found
    except UserError as error:
        print(f"The test set is not scored: {error}")
        return none


def read_rows(task, data_dir, split):
    """Reads the rows of a split; arguments and errors are those of `read_examples`.

    Returns:
        tables.Table, whose values are the texts and, except in the test split, the label.
    """
    labelled = split != "test"
    path = input_file(task, data_dir, split)
    if labelled and not task.label:
        raise UserError(
            f"{path}: {split_files.NEEDED_BY[split]} needs --label_column, a name or a number"
        )
    columns = task.text_of(split) + (task.label if labelled else ())
    has_header = split in (task.splits_with_header or ())
    if task.is_own:
        has_header = headers.given_or_shared(task, _input_files(task, data_dir), split)
    known = dict(zip(columns, () if task.is_own else task.names, strict=False))
    if split != "train":
        known |= names_in_training(task, data_dir)
    form = {"delimiter": task.delimiter, "quoted_tabs": task.is_own}
    table = tables.open_table(path, columns, has_header=has_header, known=known, **form).take(
        columns,
        keep_blank=split in task.splits_with_blank_rows,
        skip_short=split in task.splits_with_short_rows,
    )
    if task.is_own and split == "test" and len(table.first) > 1:  # Excel writes separators alone
        while len(table.rows) > 1 and not any(table.rows[-1].cells):
            table.rows.pop()
    _check_texts(task, table, split == "train")
    if task.is_own:
        _check_columns(columns, table)
        _check_seldom_separator(task, table)
    if table.header is None and task.splits_with_header is None:
        headers.check_alone(task, table, split)
    if table.header is not None and not task.is_own:
        if labelled:
            has_columns = len(table.first) > max(columns)
            is_example = has_columns and task.is_label(table.first[task.label[0]].strip())
        else:
            is_example = table.first[:1] and table.first[0].strip().isdecimal()
        if is_example:
            raise UserError(f"{path}, line 1: put the names of the columns first, as a header")
    return table


def _check_columns(columns, table):
    numbers = [*map(table.number_of, columns)]
    twice = [column for column, n in zip(columns, numbers, strict=True) if numbers.count(n) > 1]
    if twice:
        raise UserError(
            f"{table.path}: --text_column (0 by default), --text_pair_column and --label_column "
            f"must be different columns. Received: {' and '.join(map(repr, twice))}"
        )


def _check_texts(task, table, is_training):
    """Raises UserError if a column has no texts: it is empty, counts rows, or has lists or labels.

    Some numbers may be missing, because rows were dropped. A second text may be a label, as in
    conversations, and be missing in a development or test set.
    """
    flags = ("--text_column", "--text_pair_column")
    for place, (column, flag) in enumerate(zip(task.text, flags, strict=False)):
        texts = [row.values[place].strip() for row in table.rows]
        numbers = [int(text) for text in texts if text.isdecimal() and len(text) < 10]
        if not any(texts) and (place == 0 or is_training):
            fault = (
                f"is empty in all rows, with {table.form}: separate columns by a single character, "
                "such as a tab, or"
            )
        elif not table.form.separator and all(t[:1] + t[-1:] == "[]" for t in texts):
            fault = f"has lists, such as {reprlib.repr(texts[0])}: join each list to a text, or"
        elif len(numbers) == len(texts) > 2 and numbers == sorted({*numbers}):
            fault = "counts the rows:"
        elif place == 0 and isinstance(column, int) and tables.are_labels(texts, task.labels or ()):
            fault = f"has labels, such as {texts[0]!r}:"
        else:
            continue
        remedy = f"give another {flag}" if task.is_own else "give a file as GLUE has it"
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


def labels_of(task, rows, normalize, skip_others=False):
    """The labels of Examples, for the rows of a training or development file: list.

    The label is None where a row has other labels than those of the task and `skip_others` is set.
    """
    normalize = normalize if task.normalize_labels else str.strip
    if task.is_regression:
        found = []
        for column in range(len(task.text), len(task.text) + task.num_outputs):
            texts = [normalize(row.values[column]) for row in rows]
            if task.is_own and _have_decimal_commas(texts):
                texts = [text.replace(",", ".") for text in texts]
            elif task.is_own and _have_thousands(texts):
                place, text = next(
                    (r.place, t) for r, t in zip(rows, texts, strict=True) if "." in t
                )
                raise UserError(
                    f"{place}: {text} may be {text.replace('.', '')}, as other labels are whole "
                    "numbers: write all labels without marks of thousands, or all with decimals"
                )
            found.append([_score(*each) for each in zip(rows, texts, strict=True)])
        return found[0] if len(found) == 1 else list(zip(*found, strict=True))
    found = _labels_of(task, rows, normalize, needed=not skip_others)
    labels_of_rows = []
    for row, labels in zip(rows, found, strict=True):
        other = next((label for label in labels if label not in task.labels), None)
        if other is not None and not skip_others:
            shown = ", ".join(task.labels[:_MOST_SHOWN])
            more = ", ..." if len(task.labels) > _MOST_SHOWN else ""
            skip = "; --skip_other_labels leaves such rows out" if task.is_own else ""
            raise UserError(
                f"{row.place}: unknown label {reprlib.repr(other)}; known are {shown}{more}. "
                f"Correct it, or give all classes as --labels{skip}"
            )
        known = labels if task.multi_label else labels[0]
        labels_of_rows.append(known if other is None else None)
    return labels_of_rows


def label_scale(task, data_dir):
    """Means and standard deviations (1 of equal scores) of a training file: tuples of floats."""
    table = read_rows(task, data_dir, "train")
    scores = labels_of(task, table.rows, str.strip)
    columns = [scores] if task.num_outputs == 1 else [*zip(*scores, strict=True)]
    for column in columns:
        if (score := _far_score(column)) is not None:
            print(
                f"Warning: {table.path}: the score {score:g} of {column.count(score)} rows is far "
                "from all others: leave these rows out if it stands for a missing one"
            )
    deviations = (statistics.pstdev(column) or 1.0 for column in columns)
    return tuple(map(statistics.fmean, columns)), tuple(deviations)


def _far_score(scores):
    """A score of several rows that is far from all others; or None.

    Its distance from the next one is ten times the range of the others.
    """
    values = sorted({*scores})
    if len(values) <= _FEW_SCORES:
        return None
    for far, near, end in ((0, 1, -1), (-1, -2, 0)):
        far, near, end = (values[place] for place in (far, near, end))
        if scores.count(far) > 1 and abs(far - near) > _FAR * abs(near - end):
            return far
    return None


def _have_decimal_commas(texts):
    """Whether scores have a comma in place of a point: 3,5, but not 1,000, which may be 1000."""
    commas = [text for text in texts if "," in text]
    return (
        all(map(_DECIMAL_COMMA.fullmatch, commas))
        and not any("." in text for text in texts)
        and not (commas and all(map(_THOUSANDS.fullmatch, commas)))
    )


def _have_thousands(texts):
    """Whether points divide thousands, as in the German 20.000, next to whole numbers such as 500.

    As decimals, they would not end in zeros, which whole numbers do not have either, and whole
    numbers would not be far larger.
    """
    points, others = [text for text in texts if "." in text], [t for t in texts if "." not in t]
    if not (points and others and all(map(_THOUSANDS.fullmatch, points))):
        return False
    largest, other = (max(abs(tables.number(text)) for text in found) for found in (points, others))
    has_zeros = any(text.endswith("0") for text in points)
    return math.isfinite(other) and (has_zeros or other > max(2 * largest, 100))


def _score(row, text):
    score = tables.number(text)
    if not abs(score) <= float(tf.float32.max):  # nan is not
        hint = ". If this line names the columns, give --header" if row.number == 0 else ""
        raise UserError(f"{row.place}: the label must be a number, not {reprlib.repr(text)}{hint}")
    return score


def _labels_of(task, rows, normalize, needed=True):
    """Labels of rows: list of lists of str.

    An empty label is an error if it is `needed`; several labels may be none.
    """
    cells = [[*map(str.strip, row.values[len(task.text) :])] for row in rows]
    if len(cells[0]) > 1:
        are_marks = {cell for values in cells for cell in values} - {""} <= label_lists.ONES
        found = []
        for row, values in zip(rows, cells, strict=True):
            for column, value in zip(task.label, values, strict=True):
                if value not in label_lists.BITS and not (are_marks and not value):
                    raise UserError(
                        f"{row.place}: column {column!r} has {value!r}: label columns need 0 or 1, "
                        "or 1 and empty cells"
                    )
            chosen = zip(task.labels, values, strict=True)
            found.append([label for label, value in chosen if value in label_lists.ONES])
        return found
    if task.multi_label:
        return _several_labels(task, rows, [cell for (cell,) in cells])
    texts = [normalize(cell) for (cell,) in cells]
    if task.is_own:
        with about(_path_of(rows)):
            texts = label_lists.only_ones(texts)
    found = _respelled(task, [[text] for text in texts])
    for row, (label,) in zip(rows, found, strict=True):
        if needed and not label:
            raise UserError(f"{row.place}: the label is empty; add one or remove the row")
    return found


def _several_labels(task, rows, cells):
    """Labels of rows with a cell of any number of labels: list of lists of str.

    They have the form of the training file or, where some are unknown then, a form of their own.
    """
    found, error = None, None
    for own in (False, True):
        try:
            with about(_path_of(rows)):
                form = label_lists.find_form(cells, task.labels) if own else task.label_form
                if not form:
                    continue
                labels = _respelled(task, label_lists.split(cells, form, task.labels))
        except UserError as caught:
            error = error or caught
            continue
        are_known = {label for each in labels for label in each} <= {*task.labels}
        if are_known or not task.labels:  # without labels, this is the training file
            return labels
        found = labels if found is None else found
    if found is None:
        raise error
    return found


def _path_of(rows):
    return rows[0].place.rpartition(",")[0]


def _respelled(task, found):
    """The labels of rows, with one spelling of each in a user's own files."""
    if not task.is_own:
        return found
    same = tables.spellings({label for labels in found for label in labels}, task.labels)
    return [[same.get(label, label) for label in labels] for labels in found]
