# SPDX-License-Identifier: Apache-2.0
"""The tasks of GLUE (paper, section 4.2), rows of `TASKS`, and that of one's own TSV files."""

import dataclasses
import itertools
import reprlib

import tensorflow as tf

from albert_tf import options
from albert_tf.errors import UserError
from albert_tf.tasks.tsv_files import (
    SPLITS,
    GlueTask,
    check_label,
    input_file,
    input_paths,
    labels_of,
    read_rows,
)

_FILES = {split: (f"{split}.tsv",) for split in SPLITS}
_OWN_FILES = {split: (f"{split}.tsv", f"{split}.csv") for split in SPLITS}
_ENOUGH_ROWS = 20  # to tell a column of classes from one of texts
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")
_ACCURACY = ("eval_accuracy", "eval_loss")
_SCORES = ("pearson", "MSE", "eval_loss", "spearman")


def _task(folder, text, label=-1, labels=_BINARY, **others):
    """A row of `TASKS`, where what is not given is as in most of them."""
    usual = {
        "metrics": _ACCURACY,
        "key_metric": "eval_accuracy",
        "test_text": text,
        "files": _FILES,
        "submission_file": f"{folder}.tsv",
    }
    return GlueTask(folder=folder, text=text, label=label, labels=labels, **usual | others)


TASKS: dict[str, GlueTask] = {
    "cola": _task(
        "CoLA",
        text=(3,),
        test_text=(1,),
        label=1,
        metrics=("matthew_corr", *_ACCURACY),
        key_metric="matthew_corr",
        splits_with_header=("test",),
        guid="row",
        test_guid="id",
    ),
    "mnli": _task(
        "MNLI",
        text=(8, 9),
        labels=_NLI,
        files=_FILES | {"dev": ("dev_matched.tsv",), "test": ("test_matched.tsv",)},
        submission_file="MNLI-m.tsv",
        companions=(("mismatched", "mismnli"), ("diagnostic", "ax")),
    ),
    "mismnli": _task(
        "MNLI",
        text=(8, 9),
        labels=_NLI,
        files=_FILES | {"dev": ("dev_mismatched.tsv",), "test": ("test_mismatched.tsv",)},
        submission_file="MNLI-mm.tsv",
    ),
    "mrpc": _task(
        "MRPC",
        text=(3, 4),
        label=0,
        metrics=(*_ACCURACY, "f1"),
        guid="row",
        test_guid="id",
    ),
    "sst-2": _task("SST-2", text=(0,), test_text=(1,), label=1, guid="row"),
    "sts-b": _task(
        "STS-B",
        text=(7, 8),
        labels=None,
        metrics=_SCORES,
        key_metric="pearson",
        score_range=(0.0, 5.0),
    ),
    "qqp": _task(
        "QQP",
        text=(3, 4),
        test_text=(1, 2),
        label=5,
        metrics=(*_ACCURACY, "f1"),
        guid="id",
        test_guid="id",
        splits_with_short_rows=("train", "dev"),
    ),
    "qnli": _task("QNLI", text=(1, 2), labels=_ENTAILMENT),
    "rte": _task("RTE", text=(1, 2), labels=_ENTAILMENT),
    "wnli": _task("WNLI", text=(1, 2)),
    # The diagnostic set: predictions of a model that was trained on mnli.
    "ax": _task(
        "diagnostic",
        text=(1, 2),
        label=None,
        labels=_NLI,
        files={"test": ("diagnostic.tsv",)},
        submission_file="AX.tsv",
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


def model_task(name):
    """Name of the task that a task's model is trained on: `mnli` for its companions.

    Args:
        name: str, in any case; it may be `tsv`.
    """
    name = name.lower()
    owners = (
        owner for owner, task in TASKS.items() if name in (other for _, other in task.companions)
    )
    return next(owners, name)


def with_companions(task, data_dir, split):
    """A task, and those of its companions whose file of a split is there; names what is absent.

    Args:
        task: GlueTask.
        data_dir: str.
        split: str, dev or test.

    Returns:
        dict from what is appended to names of figures and files ("" for the task itself) to
        GlueTask.

    Raises:
        UserError: the task has no such split.
    """
    found = {"": task}
    companions = [(suffix, TASKS[name]) for suffix, name in task.companions]
    for suffix, companion in companions:
        if split not in companion.files:
            continue
        (path,) = input_paths(companion, data_dir, split)
        if tf.io.gfile.exists(path):
            found[f"_{suffix}"] = companion
        else:
            print(f"{split}_{suffix}: {path} is not there and so left out")
    return found


def tsv_task(
    text_column,
    text_pair_column,
    label_column,
    labels=None,
    regression=False,
    data_dir="",
    multi_label=False,
):
    """The task of one's own train.tsv, dev.tsv and test.tsv, each as far as needed.

    Tab-separated UTF-8, one example a line, where quotes are ordinary characters; or CSV, named
    train.csv and so on. If a column is given by name, every file must begin with a header. If all
    are given by number (from 0), none has one. The test file needs no label column.

    Args:
        text_column: str or int, column of the text.
        text_pair_column: str, int or None, column of a second text.
        label_column: str, int or None; None if nothing but prediction is wanted. With multi_label
            also a list of columns with 0 or 1, separated by commas.
        labels: list of str in the order of their ids, or None: those of the training file, sorted.
        regression: bool, whether labels are numbers.
        data_dir: str, directory of the files; read only to find the labels.
        multi_label: bool, whether a text has any number of labels.

    Raises:
        UserError: the arguments don't go together, or the training file is needed and unusable.
    """
    text = columns(text_column, text_pair_column)
    several = multi_label and label_column
    label_columns = columns(*(label_column.split(",") if several else [label_column]))
    if len(label_columns) > 1:
        labels = labels or label_columns
        if len(labels) != len(label_columns):
            raise UserError(f"{len(labels)} labels, but {len(label_columns)} label columns")
    if regression and labels:
        raise UserError(f"labels {list(labels)} are given, but regression has none; drop one")
    named = any(isinstance(column, str) for column in (*text, *label_columns))
    task = GlueTask(
        folder="",
        text=text,
        label=label_columns if multi_label else next(iter(label_columns), None),
        labels=None if regression else tuple(map(str, labels or ())),
        metrics=_SCORES if regression else _ACCURACY,
        key_metric="micro_f1" if multi_label else "pearson" if regression else "eval_accuracy",
        test_text=text,
        files=_OWN_FILES,
        splits_with_header=SPLITS if named else (),
        guid="row",
        test_guid="position",
        splits_with_blank_rows=("test",),
        normalize_labels=False,
        multi_label=multi_label,
    )
    if not (regression or labels):
        task = dataclasses.replace(task, labels=_labels_of_training_file(task, data_dir))
    _check_labels(task)
    return task


def columns(*given):
    """Columns as flags name them.

    Args:
        *given: str, int or None; what is None or empty is left out.

    Returns:
        tuple of int, where it is a number, and str.
    """
    named = [text for text in given if text not in (None, "")]
    return tuple(int(text) if str(text).isdecimal() else text for text in named)


def _labels_of_training_file(task, data_dir):
    paths = input_paths(task, data_dir, "train")
    if tf.io.gfile.isdir(data_dir or ".") and not any(map(tf.io.gfile.exists, paths)):
        raise UserError(
            f"there is no {' or '.join(paths)} to read the labels from: check --data_dir, or give "
            "the model's labels in the order of its training as --labels"
        )
    rows, _ = read_rows(task, data_dir, "train")
    if task.multi_label:
        found = (labels_of(row.values[-1:], None, row.place) for row in rows)
        return tuple(sorted(set(itertools.chain.from_iterable(found))))
    found = [row.values[-1].strip() for row in rows]
    for text, row in zip(found, rows, strict=True):
        check_label(text, row)
    if not task.splits_with_header and found.count(found[0]) == 1:
        raise UserError(
            f"{rows[0].place}: label {found[0]!r} occurs only here, so this line seems to be a "
            "header; give the columns by name, or the labels if it is none"
        )
    labels = sorted(set(found))
    if len(found) >= _ENOUGH_ROWS and len(labels) > len(found) / 2:
        raise UserError(
            f"{input_file(task, data_dir, 'train')}: column {task.label!r} has {len(labels)} "
            f"different values in {len(found)} rows, such as {reprlib.repr(found[0])}, so it does "
            "not hold classes. Give another --label_column; or --regression if these are numbers "
            "to predict; or all classes as --labels"
        )
    return tuple(labels)


def _check_labels(task):
    labels = task.labels
    if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
        raise UserError(f"at least two different labels are needed. Received: {list(labels)}")
