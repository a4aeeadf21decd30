# SPDX-License-Identifier: Apache-2.0
"""GLUE and one's own TSV files: texts and labels -> features; model outputs -> metrics and files.

Paper: section 4.2 (GLUE). Everything that differs from task to task stands in its row of `TASKS`.
"""

import dataclasses
import math
import os
import reprlib
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics
import tensorflow as tf

from albert_tf.data import records
from albert_tf.errors import UserError
from albert_tf.tasks.figures import cross_entropy
from albert_tf.text.tokenization import NUM_SPECIALS

SPLITS = ("train", "dev", "test")


class Example(NamedTuple):
    """One row of a file: its name, texts (text_b None where there is none) and label.

    The label is the text of a class or, in regression, a float. In the test split it is the first
    class, or 0.0: a stand-in.
    """

    guid: str
    text_a: str
    text_b: str | None
    label: str | float


# === Tasks ===

# How an example gets its name, from (split, number of the row in the file from 0, the header
# counted, row, header rows, normalize).


def _guid_row_number(split, number, row, headers, normalize):
    return f"{split}-{number}"


def _guid_position(split, number, row, headers, normalize):
    return str(number - headers)


def _guid_id(split, number, row, headers, normalize):
    return row[0]


def _guid_normalized_id(split, number, row, headers, normalize):
    return normalize(row[0])


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Where the texts and labels of a task stand, and how it is measured.

    Columns are numbers from 0 (-1 is the last one), or names that the header must have.

    Attributes:
        folder: str, directory below data_dir.
        text: tuple of one or two columns, in the training and development files.
        label: column, in the same files; None if there is none.
        labels: tuple of str in the order of their ids, or None for regression.
        metrics: tuple of names in `METRICS`.
        key_metric: str, the one that chooses the best checkpoint.
        test_text: tuple of columns in the test file.
        files: dict from split to file name; splits without a file are not in it.
        splits_with_header: tuple of str; elsewhere the first row is an example.
        guid, test_guid: how examples are named in train and dev, and in test.
        splits_with_short_rows: tuple of str, in which a row that lacks columns is left out and
            counted; elsewhere it is an error.
        splits_with_blank_rows: tuple of str, in which a blank row is an example without text, so
            that a line of predictions belongs to the same line of the file; elsewhere it is left
            out and counted.
        normalize_labels: bool, whether labels go through the tokenizer's normalisation, as the
            original has it; if not, they are only stripped.
        submission_file: str or None, name of the file that the GLUE server takes.
        score_range: (lowest, highest) score in that file, or None for classes.
        companions: tuple of (suffix, name in `TASKS`): tasks whose development and test sets the
            same model is measured on, under the same figures and file names with the suffix.
    """

    folder: str
    text: tuple[int | str, ...]
    label: int | str | None
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    key_metric: str
    test_text: tuple[int | str, ...]
    files: dict[str, str]
    splits_with_header: tuple[str, ...] = SPLITS
    guid: Callable = _guid_normalized_id
    test_guid: Callable = _guid_normalized_id
    splits_with_short_rows: tuple[str, ...] = ()
    splits_with_blank_rows: tuple[str, ...] = ()
    normalize_labels: bool = True
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
    def label_dtype(self):
        """Type of label_ids in the records (tf.DType)."""
        return tf.float32 if self.is_regression else tf.int64

    def schema(self, max_seq_length, **sizes):
        """Schema of the task's records; sizes are vocab_size and type_vocab_size."""
        return records.classification_schema(
            max_seq_length,
            self.label_dtype,
            num_labels=None if self.is_regression else len(self.labels),
            **sizes,
        )


_FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_ENTAILMENT = ("entailment", "not_entailment")
_ACCURACY = ("eval_accuracy", "eval_loss")

TASKS: dict[str, GlueTask] = {
    "cola": GlueTask(
        folder="CoLA",
        text=(3,),
        label=1,
        labels=_BINARY,
        metrics=("matthew_corr", *_ACCURACY),
        key_metric="matthew_corr",
        test_text=(1,),
        files=_FILES,
        splits_with_header=("test",),
        guid=_guid_row_number,
        test_guid=_guid_id,
        submission_file="CoLA.tsv",
    ),
    "mnli": GlueTask(
        folder="MNLI",
        text=(8, 9),
        label=-1,
        labels=_NLI,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(8, 9),
        files={"train": "train.tsv", "dev": "dev_matched.tsv", "test": "test_matched.tsv"},
        submission_file="MNLI-m.tsv",
        companions=(("mismatched", "mismnli"), ("diagnostic", "ax")),
    ),
    "mismnli": GlueTask(
        folder="MNLI",
        text=(8, 9),
        label=-1,
        labels=_NLI,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(8, 9),
        files={"train": "train.tsv", "dev": "dev_mismatched.tsv", "test": "test_mismatched.tsv"},
        submission_file="MNLI-mm.tsv",
    ),
    "mrpc": GlueTask(
        folder="MRPC",
        text=(3, 4),
        label=0,
        labels=_BINARY,
        metrics=(*_ACCURACY, "f1"),
        key_metric="eval_accuracy",
        test_text=(3, 4),
        files=_FILES,
        guid=_guid_row_number,
        test_guid=_guid_id,
        submission_file="MRPC.tsv",
    ),
    "sst-2": GlueTask(
        folder="SST-2",
        text=(0,),
        label=1,
        labels=_BINARY,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(1,),
        files=_FILES,
        guid=_guid_row_number,
        submission_file="SST-2.tsv",
    ),
    "sts-b": GlueTask(
        folder="STS-B",
        text=(7, 8),
        label=-1,
        labels=None,
        metrics=("pearson", "MSE", "eval_loss", "spearman"),
        key_metric="pearson",
        test_text=(7, 8),
        files=_FILES,
        submission_file="STS-B.tsv",
        score_range=(0.0, 5.0),
    ),
    "qqp": GlueTask(
        folder="QQP",
        text=(3, 4),
        label=5,
        labels=_BINARY,
        metrics=(*_ACCURACY, "f1"),
        key_metric="eval_accuracy",
        test_text=(1, 2),
        files=_FILES,
        guid=_guid_id,
        test_guid=_guid_id,
        splits_with_short_rows=("train", "dev"),
        submission_file="QQP.tsv",
    ),
    "qnli": GlueTask(
        folder="QNLI",
        text=(1, 2),
        label=-1,
        labels=_ENTAILMENT,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(1, 2),
        files=_FILES,
        submission_file="QNLI.tsv",
    ),
    "rte": GlueTask(
        folder="RTE",
        text=(1, 2),
        label=-1,
        labels=_ENTAILMENT,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(1, 2),
        files=_FILES,
        submission_file="RTE.tsv",
    ),
    "wnli": GlueTask(
        folder="WNLI",
        text=(1, 2),
        label=-1,
        labels=_BINARY,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(1, 2),
        files=_FILES,
        submission_file="WNLI.tsv",
    ),
    # The diagnostic set: predictions of a model that was trained on mnli.
    "ax": GlueTask(
        folder="diagnostic",
        text=(1, 2),
        label=None,
        labels=_NLI,
        metrics=_ACCURACY,
        key_metric="eval_accuracy",
        test_text=(1, 2),
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
        metrics=("pearson", "MSE", "eval_loss", "spearman") if regression else _ACCURACY,
        key_metric="pearson" if regression else "eval_accuracy",
        test_text=text,
        files=_FILES,
        splits_with_header=SPLITS if named else (),
        guid=_guid_row_number,
        test_guid=_guid_position,
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
    table = _Table(task, data_dir, "train")
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


# === Reading ===


def input_file(task, data_dir, split):
    """Path of the file of a split.

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
    return os.path.join(data_dir, task.folder, task.files[split])


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
    table = _Table(task, data_dir, split)
    normalize = tokenizer.normalize
    name = task.test_guid if split == "test" else task.guid
    examples = []
    for number, row in table.rows():
        texts = [normalize(row[column]) for column in table.text]
        examples.append(
            Example(
                guid=name(split, number, row, table.num_headers, normalize),
                text_a=texts[0],
                text_b=texts[1] if len(texts) == 2 else None,
                label=_label(task, table, number, row, normalize),
            )
        )
    return examples, table.skipped


def _label(task, table, number, row, normalize):
    if table.split == "test":
        return 0.0 if task.is_regression else task.labels[0]
    text = table.label(row)
    text = normalize(text) if task.normalize_labels else text.strip()
    return _score(text, table, number) if task.is_regression else _class(task, text, table, number)


def _score(text, table, number):
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not abs(score) <= float(tf.float32.max):  # nan is not
        raise UserError(
            f"{table.place(number)}: the label must be a number. Received: {reprlib.repr(text)}"
        )
    return score


def _is_label(task, text):
    if not task.is_regression:
        return text in task.labels
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _class(task, text, table, number):
    if text not in task.labels:
        raise UserError(
            f"{table.place(number)}: unknown label {reprlib.repr(text)}; known are "
            f"{', '.join(task.labels)}"
        )
    return text


class _Table:
    """The rows of one file, with the columns the task asks for.

    Attributes:
        split: str.
        text: tuple of int, columns of the texts.
        num_headers: int, rows before the first example.
        skipped: int, rows left out so far.
    """

    def __init__(self, task, data_dir, split):
        self._path = input_file(task, data_dir, split)
        needs_label = split != "test"
        if needs_label and task.label is None:
            raise UserError(f"{self._path}: its label column is needed and none is given")
        self.split = split
        self._rows = _read_rows(self._path)
        self._may_be_short = split in task.splits_with_short_rows
        self._keeps_blank_rows = split in task.splits_with_blank_rows
        self.num_headers = int(split in task.splits_with_header)
        self.text = tuple(map(self._number, task.text if needs_label else task.test_text))
        self._label = self._number(task.label) if needs_label else None
        self._width = max(self.text) + 1
        if needs_label:  # one that is counted from the end must not be a text as well
            self._width = max(self._width, self._label + 1, self._width - self._label)
        self.skipped = 0
        named = any(isinstance(column, str) for column in (*task.text, task.label))
        if self.num_headers and not named:
            self._check_header(task)

    def _check_header(self, task):
        """Raises UserError if the row of the header looks like an example."""
        row = self._rows[0]
        if self._label is None:
            is_example = bool(row) and row[0].strip().isdecimal()
        else:
            is_example = len(row) >= self._width and _is_label(task, row[self._label].strip())
        if is_example:
            raise UserError(
                f"{self.place(0)}: the file has no header, which {task.folder} files begin with; "
                "put a line with the names of the columns first"
            )

    def _number(self, column):
        if isinstance(column, int):
            return column
        header = self._rows[0]
        if column not in header:
            raise UserError(
                f"{self._path}: no column {column!r} in its header; there are "
                f"{', '.join(map(repr, header))}"
            )
        return header.index(column)

    def label(self, row):
        return row[self._label]

    def place(self, number):
        return f"{self._path}, line {number + 1}"

    def rows(self):
        """Yields (number in the file from 0, row); counts in `skipped` what it leaves out."""
        found = False
        for number, row in enumerate(self._rows[self.num_headers :], start=self.num_headers):
            if not row and self._keeps_blank_rows:
                row = [""] * self._width
            if len(row) >= self._width:
                found = True
                yield number, row
            elif not row or self._may_be_short:
                self.skipped += 1
            else:
                raise UserError(
                    f"{self.place(number)}: {len(row)} columns, at least {self._width} are "
                    "expected, with a tab between them"
                )
        if not found:
            raise UserError(f"{self._path} holds no example")


def _read_rows(path):
    """Rows of a tab-separated file; a blank line is a row without columns."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            content = file.read()
    except tf.errors.OpError as error:
        raise UserError(
            f"cannot read {path}: {error.message}; check --data_dir and --task_name"
        ) from error
    try:
        # Excel and others put a byte-order mark first.
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text; convert the file") from error
    if not text.strip():
        raise UserError(f"{path} is empty; it needs one example per line")
    # As the original's reader: every "\r" goes, and only "\n" ends a line.
    lines = text.replace("\r", "").removesuffix("\n").split("\n")
    return [line.split("\t") if line else [] for line in lines]


# === Features ===


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
        first = tokenizer.encode_ids(example.text_a)
        second = tokenizer.encode_ids(example.text_b) if example.text_b else []
        first, second = _cut(first, second, max_seq_length)
        firsts.append(first)
        seconds.append(second or None)
    return records.pack_segments(
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
        shuffle_buffer_size: int, of `records.train_dataset`.

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
    shortest = NUM_SPECIALS + 2
    if max_seq_length < shortest:
        raise UserError(f"--max_seq_length={max_seq_length}: must be at least {shortest}")


def _cut(first, second, max_seq_length):
    """The original's rule, which takes one token after the other, in closed form."""
    if not second:
        return first[: max_seq_length - 2], second
    room = max_seq_length - NUM_SPECIALS
    half = (room + 1) // 2  # of two equally long texts, the second loses the odd token
    first = first[: max(half, room - len(second))]
    return first, second[: room - len(first)]


def _label_ids(examples, task):
    if task.is_regression:
        return np.array([example.label for example in examples], np.float32)
    ids = {label: id_ for id_, label in enumerate(task.labels)}
    return np.array([ids[example.label] for example in examples], np.int32)


# === Metrics ===


def _accuracy(outputs, labels):
    return np.mean(np.argmax(outputs, axis=-1) == labels)


def _matthews(outputs, labels):
    return sklearn.metrics.matthews_corrcoef(labels, np.argmax(outputs, axis=-1))


def _f1(outputs, labels):
    return sklearn.metrics.f1_score(labels, np.argmax(outputs, axis=-1), zero_division=0.0)


def _losses(outputs, labels):
    if outputs.ndim == 1:
        return (outputs - labels) ** 2
    return cross_entropy(outputs, labels)


def _loss(outputs, labels):
    return np.mean(_losses(outputs, labels))


def _pearson(outputs, labels):
    if len(labels) < 2:
        return math.nan
    return scipy.stats.pearsonr(outputs, labels).statistic


def _spearman(outputs, labels):
    if len(labels) < 2:
        return math.nan
    return scipy.stats.spearmanr(outputs, labels).statistic


# name in the results -> f(logits [n, C] or scores [n], label ids [n] or scores [n])
METRICS = {
    "eval_accuracy": _accuracy,
    "eval_loss": _loss,  # mean over the examples; `loss` of the results is the mean over batches
    "matthew_corr": _matthews,
    "f1": _f1,  # of class 1
    "pearson": _pearson,
    "spearman": _spearman,
    "MSE": _loss,
}


def evaluate(task, outputs, labels):
    """Metrics of a task: the original's, and beside them those of the GLUE benchmark.

    Correlations are nan where all scores or all labels are the same, as those of a single example
    are; matthew_corr is 0 there.

    Args:
        task: GlueTask.
        outputs: array of logits [n, C]; in regression, scores [n] or [n, 1].
        labels: array of label ids (int) or scores (float), [n] or [n, 1].

    Returns:
        dict of str to float.
    """
    outputs, labels = _flat(task, outputs, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        return {name: float(METRICS[name](outputs, labels)) for name in task.metrics}


def example_losses(task, outputs, labels):
    """Loss of each example, float64 [n]; arguments as in `evaluate`."""
    return _losses(*_flat(task, outputs, labels))


def _flat(task, outputs, labels):
    outputs = np.asarray(outputs, np.float64)
    return outputs.reshape(-1) if task.is_regression else outputs, np.asarray(labels).reshape(-1)


# === Predictions ===


def predictions(task, outputs):
    """What is written of the model's outputs: probabilities of the classes, or scores.

    Args:
        task: GlueTask.
        outputs: array of logits [n, C]; in regression, scores [n] or [n, 1].

    Returns:
        float32 array [n, C], or [n, 1] in regression.
    """
    outputs = np.asarray(outputs, np.float32)
    if task.is_regression:
        return outputs.reshape(-1, 1)
    return scipy.special.softmax(outputs, axis=-1)


def test_results(predicted):
    """Content of test_results.tsv: a line of tab-separated numbers per example, no header.

    Args:
        predicted: array of `predictions`.
    """
    return "".join("\t".join(map(str, row)) + "\n" for row in predicted)


def submit_results(task, examples, predicted):
    """Content of submit_results.tsv: a header, then name and label (or score) of each example.

    Args:
        task: GlueTask.
        examples: list of n Examples.
        predicted: array of `predictions`.
    """
    if task.is_regression:
        answers = [str(score) for score in predicted[:, 0]]
    else:
        answers = _predicted_labels(task, predicted)
    return _index_prediction([example.guid for example in examples], answers)


def glue_submission(task, examples, predicted):
    """Content of the file `task.submission_file`, as the GLUE server takes it.

    Args:
        task: GlueTask.
        examples: list of n Examples of the test split.
        predicted: array of `predictions`.

    Raises:
        UserError: the task is none of GLUE's, or its test file has no whole numbers as index.
    """
    if task.submission_file is None:
        raise UserError("--glue_submission_dir is for GLUE tasks; the server knows no others")
    for example in examples:
        if not example.guid.isdecimal():
            raise UserError(
                f"{task.folder}/{task.files['test']}: the first column must be a whole number, "
                f"the GLUE server's index. Received: {example.guid!r}"
            )
    if task.score_range:
        scores = np.clip(predicted[:, 0], *task.score_range)
        answers = [f"{score:.3f}" for score in scores]
    else:
        answers = _predicted_labels(task, predicted)
    return _index_prediction([str(int(example.guid)) for example in examples], answers)


def _predicted_labels(task, predicted):
    return [task.labels[id_] for id_ in np.argmax(predicted, axis=-1)]


def _index_prediction(names, answers):
    lines = [f"{name}\t{answer}\n" for name, answer in zip(names, answers, strict=True)]
    return "index\tprediction\n" + "".join(lines)
