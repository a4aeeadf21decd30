# SPDX-License-Identifier: Apache-2.0
"""The tasks of GLUE (paper, section 4.2), rows of `TASKS`, and that of one's own TSV files."""

import dataclasses

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.tasks.tsv_files import (
    SPLITS,
    GlueTask,
    TsvFile,
    guid_id,
    guid_position,
    guid_row_number,
    input_file,
)

_FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
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
        guid=guid_row_number,
        test_guid=guid_id,
    ),
    "mnli": _task(
        "MNLI",
        text=(8, 9),
        labels=_NLI,
        files={"train": "train.tsv", "dev": "dev_matched.tsv", "test": "test_matched.tsv"},
        submission_file="MNLI-m.tsv",
        companions=(("mismatched", "mismnli"), ("diagnostic", "ax")),
    ),
    "mismnli": _task(
        "MNLI",
        text=(8, 9),
        labels=_NLI,
        files={"train": "train.tsv", "dev": "dev_mismatched.tsv", "test": "test_mismatched.tsv"},
        submission_file="MNLI-mm.tsv",
    ),
    "mrpc": _task(
        "MRPC",
        text=(3, 4),
        label=0,
        metrics=(*_ACCURACY, "f1"),
        guid=guid_row_number,
        test_guid=guid_id,
    ),
    "sst-2": _task("SST-2", text=(0,), test_text=(1,), label=1, guid=guid_row_number),
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
        guid=guid_id,
        test_guid=guid_id,
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
        files={"test": "diagnostic.tsv"},
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
    if name.lower() not in TASKS:
        raise UserError(
            f"--task_name={name} is unknown; known are {', '.join(TASKS)}, and tsv and ner for "
            "files of your own"
        )
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
    input_file(task, data_dir, split)
    found = {"": task}
    companions = [(suffix, TASKS[name]) for suffix, name in task.companions]
    for suffix, companion in companions:
        if split not in companion.files:
            continue
        path = input_file(companion, data_dir, split)
        if tf.io.gfile.exists(path):
            found[f"_{suffix}"] = companion
        else:
            print(f"{split}_{suffix}: {path} is not there and so left out")
    return found


def tsv_task(
    text_column, text_pair_column, label_column, labels=None, regression=False, data_dir=""
):
    """The task of one's own train.tsv, dev.tsv and test.tsv, each as far as needed.

    Tab-separated UTF-8, one example a line; quotes are ordinary characters. If a column is given by
    name, every file must begin with a header. If all are given by number (from 0), none has one.
    test.tsv needs no label column.

    Args:
        text_column: str or int, column of the text.
        text_pair_column: str, int or None, column of a second text.
        label_column: str, int or None; None if nothing but prediction is wanted.
        labels: list of str in the order of their ids, or None: those of the training file, sorted.
        regression: bool, whether labels are numbers.
        data_dir: str, directory of the files; read only to find the labels.

    Raises:
        UserError: the arguments don't go together, or the training file is needed and unusable.
    """
    given = [text_column] + [text_pair_column] * (text_pair_column not in (None, ""))
    text = tuple(map(_column, given))
    label = None if label_column in (None, "") else _column(label_column)
    if regression and labels:
        raise UserError(f"labels {list(labels)} are given, but regression has none; drop one")
    named = any(isinstance(column, str) for column in (*text, label))
    task = GlueTask(
        folder="",
        text=text,
        label=label,
        labels=None if regression else tuple(labels or ()),
        metrics=_SCORES if regression else _ACCURACY,
        key_metric="pearson" if regression else "eval_accuracy",
        test_text=text,
        files=_FILES,
        splits_with_header=SPLITS if named else (),
        guid=guid_row_number,
        test_guid=guid_position,
        splits_with_blank_rows=("test",),
        normalize_labels=False,
    )
    if not (regression or labels):
        task = dataclasses.replace(task, labels=_labels_of_training_file(task, data_dir))
    _check_labels(task)
    return task


def _column(text):
    """A column number if it looks like one, else the name as it is."""
    return int(text) if str(text).isdecimal() else text


def _labels_of_training_file(task, data_dir):
    if not tf.io.gfile.exists(input_file(task, data_dir, "train")):
        raise UserError(
            f"{input_file(task, data_dir, 'train')} is not there to read the labels from; give "
            "the labels of the model in the order of its training"
        )
    table = TsvFile(task, data_dir, "train")
    found = [table.label(row).strip() for _, row in table.rows()]
    if not task.splits_with_header and found.count(found[0]) == 1:
        raise UserError(
            f"{table.place(0)}: label {found[0]!r} occurs only here, so this line seems to be a "
            "header; give the columns by name, or the labels if it is none"
        )
    return tuple(sorted(set(found)))


def _check_labels(task):
    labels = task.labels
    if labels is not None and (len(labels) < 2 or len(set(labels)) < len(labels)):
        raise UserError(f"at least two different labels are needed. Received: {list(labels)}")
