# SPDX-License-Identifier: Apache-2.0
"""The tasks of GLUE (paper, section 4.2) as rows of `TASKS`: files, columns, labels and metrics."""

import dataclasses
import math
import os
from collections.abc import Sequence

import tensorflow as tf

from albert_tf import options
from albert_tf.tasks import label_lists, split_files, tables

_FILES = {split: (f"{split}.tsv",) for split in split_files.SPLITS}


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
        header: sequence of str, the names of the columns of the training file of a user's own; ()
            if it has none. A column that is given by number is the one with this name elsewhere.
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
    header: Sequence[str] = ()
    label_form: label_lists.Form | None = None
    server_file: str = ""
    score_range: tuple[float, float] | None = None
    companions: tuple[tuple[str, str], ...] = ()

    @property
    def is_own(self):
        """Whether it is of a user's own files."""
        return not self.folder

    def remedy(self, own):
        """What helps against a fault of a file: str, for a user's own file `own`."""
        return own if self.is_own else "give a file as GLUE has it, or --task_name=tsv"

    @property
    def named(self):
        """The names of the columns that are given by number: dict from number.

        Next to a column that is given by name, a number is a name if a column has it.
        """
        names, columns = tables.names_of(self.header), self.text + self.label
        if tables.names_in(columns):
            names |= {c: str(c) for c in columns if not self.header or str(c) in self.header}
        return {column: names[column] for column in columns if column in names}

    @property
    def is_regression(self):
        """Whether labels are scores."""
        return self.labels is None

    @property
    def num_outputs(self):
        """Number of outputs of the model for an example (int)."""
        return max(len(self.label), 1) if self.is_regression else len(self.labels)

    @property
    def label_names(self):
        """The names of the columns of labels: tuple of str."""
        return tuple(self.named.get(column, str(column)) for column in self.label)

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
            return text in label_lists.MARKS | label_lists.NO_MARKS
        return math.isfinite(tables.number(text)) if self.is_regression else text in self.labels

    def text_of(self, split):
        """Columns of the texts in the file of a split."""
        return (split == "test" and self.test_text) or self.text


_NLI = ("contradiction", "entailment", "neutral")
_NAMES_OF_MNLI = ("sentence1", "sentence2", "gold_label")
_ENTAILMENT = ("entailment", "not_entailment")
ACCURACY = ("eval_accuracy", "eval_loss")
SCORES = ("pearson", "MSE", "eval_loss", "spearman")

TASKS: dict[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA",
        text=(3,),
        test_text=(1,),
        label=(1,),
        names=("sentence", "label"),
        metrics=("matthew_corr", *ACCURACY),
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
        metrics=(*ACCURACY, "f1"),
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
        metrics=SCORES,
        score_range=(0.0, 5.0),
    ),
    "qqp": GlueTask(
        "QQP",
        text=(3, 4),
        test_text=(1, 2),
        label=(5,),
        names=("question1", "question2", "is_duplicate"),
        metrics=(*ACCURACY, "f1"),
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


def columns_of(name):
    """The names of the texts in the files of a task (str) of GLUE: dict from flag to name."""
    row = TASKS.get(name)
    names = row.names[: len(row.text)] if row else ()
    return dict(zip(("text_column", "text_pair_column"), names, strict=False))


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
