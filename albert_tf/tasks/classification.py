# SPDX-License-Identifier: Apache-2.0
"""Classification and regression of texts and pairs of texts, of GLUE and of a user's own files."""

import dataclasses
import functools
import itertools
import math
import os
import warnings
from typing import ClassVar

import numpy as np
import scipy
import tensorflow as tf

from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.errors import UserError
from albert_tf.model import heads, objectives
from albert_tf.options import MODEL_TASKS, WINDOW
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import schemas
from albert_tf.tasks import base, data_report, glue, reading, tables
from albert_tf.text.sequences import pack_pairs, pack_windows

_SMALL_SPREAD = 0.01  # standard deviation of predictions, relative to that of labels, that is none
_MOST_CLASSES = 20  # of which eval_results.txt has metrics


class ClassificationTask(base.Task):
    """A class, or a number, for a text or a pair of texts.

    Args:
        name: str, in lower case.
        row: GlueTask, of `glue.TASKS` or one of `own_tables.tsv_task`.
        text: TextInput.
        threshold: float or None, a number to export with the model.
        optional_inputs: tuple of str, ("text_pair",) if it is unknown whether there are pairs.
        long_texts: str, of options.LONG_TEXTS.
        max_windows: int, parts of a text with "windows".
        scale: means and standard deviations of scores, two tuples of floats; None to train on a
            score as it is.
    """

    functions = signatures.ClassifierFunctions
    compares_classes = True

    def __init__(
        self,
        name,
        row,
        text,
        threshold=None,
        optional_inputs=(),
        *,
        long_texts="head",
        max_windows=1,
        scale=None,
    ):
        self.name, self.row, self.text, self.threshold = name, row, text, threshold
        scores = row.label_names if row.is_regression and row.num_outputs > 1 else None
        self.kind = FinetunedTask(MODEL_TASKS.get(name, name), row.labels, scale, scores)
        self.labels = row.labels
        self.input_names = ("text", "text_pair")[: len(row.text)]
        self.optional_inputs = optional_inputs
        self.key_metric = row.metrics[0]
        if row.is_own and not (row.is_regression or row.multi_label):
            self.shown_metrics = ("eval_accuracy", "macro_f1", "eval_loss")
        self.objective = objectives.REGRESSION if row.is_regression else objectives.CLASSIFICATION
        if scale:
            self.objective = objectives.standardised(self.objective, scale[1])
        self.long_texts = long_texts
        self.choices = self.windows = max_windows if long_texts == "windows" else 1
        if self.choices > 1 and len(row.text) > 1 and not optional_inputs:
            raise UserError("--long_texts=windows is for one text, without --text_pair_column")
        self.schema = schemas.classification_schema(
            self.choices * text.max_seq_length,
            tf.float32 if row.is_regression else tf.int64,
            num_labels=row.labels and len(row.labels),
            num_scores=row.num_outputs if row.is_regression else 1,
            **text.sizes,
        )

    def make_model(self, config, **encoder_options):
        """The classifier or regressor."""
        given = {"windows": self.choices, "scale": self.kind.scale} | encoder_options
        return heads.ClassificationModel(config, self.row.num_outputs, **given)

    def examples(self, inputs):
        """Makes examples from dicts with `text` and, for pairs, `text_pair`."""
        normalize = self.text.tokenizer.normalize
        return [
            reading.Example(
                guid=str(number),
                text_a=normalize(given["text"]),
                text_b=normalize(given["text_pair"]) if "text_pair" in given else None,
                label=self.row.stand_in,
            )
            for number, given in enumerate(inputs)
        ]

    def features(self, examples, counts=None):
        """Arrays of the records: [CLS] a [SEP], or [CLS] a [SEP] b [SEP], cut to max_seq_length.

        If a pair is too long, the longer text loses its last tokens until both are equally long.

        Args:
            examples: list of n Examples.
            counts: Counter or None; the lengths of the sequences are added to it.

        Returns:
            dict of numpy arrays, which fit `schema`: input_ids (int32), input_mask and segment_ids
            (int8) [n, T]; label_ids (int32, or float32 in regression) and is_real_example (int8)
            [n].
        """
        texts = [example.text_a for example in examples]
        pairs = [example.text_b for example in examples]
        tokenizer, length, lengths = self.text.tokenizer, self.text.max_seq_length, []
        if self.choices > 1:
            packed = pack_windows(tokenizer, texts, length, self.choices, lengths)
        else:
            keeps_ends = self.long_texts == "head_tail"
            packed = pack_pairs(tokenizer, texts, pairs, length, lengths, keeps_ends)
        if counts is not None:
            data_report.add_lengths(counts, lengths)
        return packed | {
            "label_ids": self.label_ids(examples),
            "is_real_example": np.ones(len(examples), np.int8),
        }

    def texts_of(self, example):
        """The texts of an example: tuple of str."""
        return example.text_a, example.text_b or ""

    def label_ids(self, examples):
        """Labels of examples for the model: int32 [n]; in regression float32 [n] or [n, K]."""
        if self.row.is_regression:
            return np.array([example.label for example in examples], np.float32)
        ids = {label: id_ for id_, label in enumerate(self.labels)}
        return np.array([ids[example.label] for example in examples], np.int32)

    def answers(self, split, outputs):
        """`label` and `probabilities` by label; in regression `predictions`, a score or a list."""
        if self.row.is_regression:
            scores = self._scores(np.float32(outputs["logits"])).tolist()
            return [{"predictions": row[0] if len(row) == 1 else row} for row in scores]
        return super().answers(split, outputs)

    def metrics(self, split, outputs, batch_size):
        """Metrics of the task: the original's, its `loss`, and those of the GLUE benchmark.

        Correlations are nan if all scores or all labels are equal, such as those of a single
        example; matthew_corr is 0 then.
        """
        split, outputs = only_labelled(split, outputs)
        if not len(outputs["logits"]):
            return {}
        logits, labels = np.asarray(outputs["logits"], np.float64), split.arrays["label_ids"]
        if self.row.is_regression:
            logits, labels = self._scores(logits), self._scores(labels)
            found = _of_scores(self.row, logits, labels)
        else:
            labels = np.ravel(labels)
            found = {name: float(METRICS[name](logits, labels)) for name in self.row.metrics}
            if self.row.is_own:
                found |= _of_classes(logits, labels, self.labels)
        return found | {"loss": base.mean_over_batches(_losses(logits, labels), batch_size)}

    def _scores(self, values):
        """Scores or their labels, an array [n, K] of arrays of any shape."""
        return np.reshape(values, [-1, self.row.num_outputs])

    def target(self, row):
        """The label of an example, or its scores."""
        several = self.labels is None and len(row["label_ids"]) > 1
        return str(row["label_ids"].tolist()) if several else super().target(row)

    def report(self, split, outputs):
        """Precision, recall and F1 of each class, and how often which was taken for which."""
        if not self.row.is_own or self.row.is_regression or self.row.multi_label:
            return None
        import sklearn.metrics

        gold, found = np.ravel(split.arrays["label_ids"]), base.classes(outputs["logits"])
        ids = range(len(self.labels))
        table = sklearn.metrics.classification_report(
            gold, found, labels=ids, target_names=self.labels, digits=4, zero_division=0
        )
        if len(self.labels) > _MOST_CLASSES:
            return table
        counts = sklearn.metrics.confusion_matrix(gold, found, labels=ids)
        rows = [["label \\ prediction", *self.labels]]
        rows += [[label, *row] for label, row in zip(self.labels, counts.tolist(), strict=True)]
        return f"{table}\n{tables.tab_separated(rows)}"

    def sign_of_failure(self, split, outputs):
        """A sign of failed training; scores that hardly differ are one too."""
        if self.labels:
            return super().sign_of_failure(split, outputs)
        scores, labels = map(self._scores, (outputs["logits"], split.arrays["label_ids"]))
        is_constant = np.std(scores, axis=0) < _SMALL_SPREAD * np.std(labels, axis=0)
        if len(scores) < 2 or not is_constant.any():
            return None
        scores, labels = (x[:, np.argmax(is_constant)] for x in (scores, labels))
        return (
            f"all {len(scores)} predictions lie between {scores.min():.4g} and {scores.max():.4g}, "
            f"and the labels between {labels.min():.4g} and {labels.max():.4g}: {base.NOT_LEARNT}"
        )

    @property
    def served_threshold(self):
        """The number to export."""
        return self.threshold

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        has_pair = len(self.row.text) == 2
        length, keeps_ends = self.text.max_seq_length, self.long_texts == "head_tail"
        texts = graph_inputs.SentencePairs(tokenizer, length, has_pair, keeps_ends)
        if self.choices > 1:
            texts = graph_inputs.TextWindows(tokenizer, length, self.choices)
        return self.functions(model, texts, self.labels, self.served_threshold)


def only_labelled(split, outputs):
    """A split and its outputs without the examples of a test set whose labels are unknown."""
    are_labelled = getattr(split.content, "are_labelled", slice(None))
    arrays = {"label_ids": split.arrays["label_ids"][are_labelled]}
    outputs = {"logits": outputs["logits"][are_labelled]}
    return split._replace(arrays=arrays), outputs


@dataclasses.dataclass(frozen=True)
class GlueData(base.DataSet):
    """A folder of GLUE, or a user's own files.

    Attributes:
        row: GlueTask, the task's or one of its companions.
        submission_dir: str or None, where predictions go as the GLUE server takes them.
        shuffle_buffer_size: int, of the training.
        says_columns: bool, whether reading a set prints its columns, as no training does.
    """

    row: glue.GlueTask = dataclasses.field(kw_only=True)
    submission_dir: str | None = None
    shuffle_buffer_size: int = WINDOW
    says_columns: bool = False

    notes: ClassVar[dict] = {
        "other_labels": "rows left out because their label is not among --labels: {}",
        "left_out": "rows left out because they are blank or lack columns: {}",
        "without_text": "rows that are used although they have no text: {}",
    }

    @property
    def labels_of_test(self):
        """What the test set may have besides texts; that of a GLUE task has none."""
        return "labels" if self.row.is_own and self.row.label else None

    @property
    def settings(self):
        """The columns and labels."""
        long_texts, windows = self.task.long_texts, self.task.choices
        others = {"long_texts": long_texts, "windows": windows} if long_texts != "head" else {}
        row = dataclasses.asdict(self.row)
        del row["label_form"]  # which may be unknown where the same labels are read
        del row["names"], row["header"]  # `others` has those that count
        if self.row.named:
            others["names"] = [*self.row.named.values()]
        return {"task": row} | others

    def parts(self, split):
        """The task's own sets, and those of its companions."""
        return {
            suffix: dataclasses.replace(self, row=row, suffix=suffix)
            for suffix, row in glue.with_companions(self.row, self.data_dir, split).items()
        }

    def sources(self, split):
        """Path of the file of a split, in a list."""
        return [reading.input_file(self.row, self.data_dir, split)]

    def read(self, split):
        """Reads a split; returns its examples, and counts for messages."""
        if self.says_columns:
            print(f"{split}: {self.described(split)}")
        tokenizer = self.task.text.tokenizer
        examples, counts = reading.read_examples(self.row, self.data_dir, split, tokenizer)
        counts["without_text"] = sum(not (e.text_a or e.text_b) for e in examples)
        if split == "train" and not self.row.multi_label:
            counts["sorted_by_label"] = num_sorted(self.task, examples)
        return examples, counts

    def _say(self, split, counts):
        super()._say(split, counts)
        count = counts["sorted_by_label"]
        if count > self.shuffle_buffer_size:
            print(
                f"Warning: the {count} training examples are sorted by label, and batches would be "
                f"of one label: shuffle the file, or give --shuffle_buffer_size={count} in place "
                f"of {self.shuffle_buffer_size}"
            )

    @property
    def header(self):
        """The names of the columns of the training file: list of str."""
        return [*self.row.header]

    def described(self, split="train"):
        """The file of a split, by default of the training, and its columns."""
        names = [*self.task.input_names, *(["label"] * len(self.row.label))]
        source, columns = self.sources(split)[0], [*map(repr, self.row.text + self.row.label)]
        if self.row.is_own:
            source, columns = reading.describe(self.row, self.data_dir, split)
        named = (f"{name} in column {x}" for name, x in zip(names, columns, strict=False))
        described = f"{source}: {', '.join(named)}".replace("column -1", "the last")
        if (scale := self.task.kind.scale) and split == "train":
            described += (
                f"; labels with the mean {_shown(scale[0])} and the standard deviation "
                f"{_shown(scale[1])}, standardised in training only"
            )
        return described

    def prediction_files(self, examples, answers):
        """The original's two files, the labels, and the file for the GLUE server.

        test_results.tsv has a line of tab-separated numbers per example, and no header: the labels
        of its columns are the lines of test_results.labels.txt. submit_results.tsv has a header,
        then the name and the label (or score) of each example.
        """
        if self.row.is_regression:
            numbers = np.float32([np.ravel(answer["predictions"]) for answer in answers])
            values = [row[0] if len(row) == 1 else " ".join(map(str, row)) for row in numbers]
        else:
            numbers = np.float32([[*answer["probabilities"].values()] for answer in answers])
            values = [answer["label"] for answer in answers]
        named = zip([example.guid for example in examples], values, strict=True)
        folder, ending = self.output_dir, f"_results{self.suffix}.tsv"
        texts = {
            os.path.join(folder, f"test{ending}"): tables.tab_separated(numbers),
            os.path.join(folder, f"submit{ending}"): _submission(named),
        }
        if self.row.num_outputs > 1:
            path = os.path.join(folder, f"test_results{self.suffix}.labels.txt")
            texts[path] = tables.tab_separated(zip(self.task.labels or self.row.label_names))
        if self.submission_dir:
            path = os.path.join(self.submission_dir, self.row.submission_file)
            texts[path] = glue_submission(self.row, examples, values)
        return texts


def num_sorted(task, examples):
    """Number of examples if they are sorted by label, else 0.

    Args:
        task: ClassificationTask.
        examples: list of Examples.
    """
    labels = task.label_ids(examples)
    if labels.ndim > 1:
        return 0
    steps = np.diff(labels)
    if task.row.is_regression:
        in_order = bool(np.all(steps >= 0) or np.all(steps <= 0))
    else:  # one block of each class
        in_order = np.count_nonzero(steps) == len(np.unique(labels)) - 1
    return len(examples) if in_order and np.any(steps) else 0


# --- Metrics -------------------------------------------------------------------------------------


def _losses(outputs, labels):
    """Loss of each example: float64 [n]."""
    if np.shape(outputs) != np.shape(labels):
        return base.cross_entropy(outputs, labels)
    return np.mean(np.reshape((outputs - labels) ** 2, [len(labels), -1]), axis=1)


def _mean_loss(outputs, labels):
    """The mean over examples; `loss` of the results is the mean over batches."""
    return np.mean(_losses(outputs, labels))


def _of_scores(row, outputs, labels):
    """Means of the metrics of scores [n, K] and, if there are several, those of each: dict."""
    found, pairs = {}, [*zip(outputs.T, labels.T, strict=True)]
    varied = [len({*gold}) > 1 for _, gold in pairs]  # others have no correlation with anything
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        for name in row.metrics:
            each = [float(METRICS[name](*pair)) for pair in pairs]
            if len(each) > 1:
                found |= {f"{name}_{label}": x for label, x in zip(row.label, each, strict=True)}
            if name in _CORRELATIONS and any(varied):
                each = list(itertools.compress(each, varied))
            found[name] = float(np.mean(each))
    return found


def _shown(numbers):
    return ", ".join(f"{number:.6g}" for number in numbers)


def _correlation(name, outputs, labels):
    return getattr(scipy.stats, name)(outputs, labels).statistic if len(labels) > 1 else math.nan


def _sklearn(name, logits, ids, **options):
    import sklearn.metrics  # here, since it takes half a second, which predictions do not need

    return getattr(sklearn.metrics, name)(ids, base.classes(logits), **options)


def _of_classes(logits, ids, labels):
    """Macro F1, precision, recall and F1 of each class, and counts of confusions: dict."""
    import sklearn.metrics

    found, every = base.classes(logits), range(len(labels))
    *scores, _ = sklearn.metrics.precision_recall_fscore_support(
        ids, found, labels=every, zero_division=0
    )
    names = ("precision", "recall", "f1")
    metrics = {
        f"macro_{n}": float(np.mean(values)) for n, values in zip(names, scores, strict=True)
    }
    if len(labels) > _MOST_CLASSES:
        return metrics
    for name, values in zip(names, scores, strict=True):
        metrics |= {f"{name}_{label}": float(x) for label, x in zip(labels, values, strict=True)}
    counts = sklearn.metrics.confusion_matrix(ids, found, labels=every)
    return metrics | {
        f"count_{label}_as_{other}": int(counts[row, column])
        for row, label in enumerate(labels)
        for column, other in enumerate(labels)
    }


_CORRELATIONS = ("pearson", "spearman")
# name in the results -> f(logits [n, C] or scores [n], label ids [n] or scores [n])
METRICS = {
    "eval_accuracy": lambda logits, ids: np.mean(base.classes(logits) == ids),
    "eval_loss": _mean_loss,
    "matthew_corr": functools.partial(_sklearn, "matthews_corrcoef"),
    "f1": functools.partial(_sklearn, "f1_score", zero_division=0.0),
    "pearson": functools.partial(_correlation, "pearsonr"),
    "spearman": functools.partial(_correlation, "spearmanr"),
    "MSE": _mean_loss,
}


# --- Files of predictions ------------------------------------------------------------------------


def glue_submission(row, examples, values):
    """Content of the file `row.submission_file`, as the GLUE server takes it.

    Args:
        row: GlueTask.
        examples: list of n Examples of the test split.
        values: list of their n predicted labels or scores.

    Raises:
        UserError: an index in the test file is not a whole number.
    """
    for example in examples:
        if not example.guid.isdecimal():
            raise UserError(
                f"{row.folder}/{row.files['test'][0]}: the first column must be a whole number, "
                f"the GLUE server's index. Received: {example.guid!r}"
            )
    if row.score_range:
        values = [f"{score:.3f}" for score in np.clip(values, *row.score_range)]
    ids = (int(example.guid) for example in examples)
    return _submission(zip(ids, values, strict=True))


def _submission(rows):
    """A header, and a line for each pair of name and value."""
    return tables.tab_separated([("index", "prediction"), *rows])
