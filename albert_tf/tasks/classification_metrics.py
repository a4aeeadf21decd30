# SPDX-License-Identifier: Apache-2.0
"""Figures of GLUE, and the files of its predictions."""

import functools
import math
import warnings

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics

from albert_tf.errors import UserError
from albert_tf.tasks.figures import cross_entropy

# === Metrics ===


def _accuracy(outputs, labels):
    return np.mean(np.argmax(outputs, axis=-1) == labels)


def _matthews(outputs, labels):
    return sklearn.metrics.matthews_corrcoef(labels, np.argmax(outputs, axis=-1))


def _f1(outputs, labels):
    return sklearn.metrics.f1_score(labels, np.argmax(outputs, axis=-1), zero_division=0.0)


def _losses(outputs, labels):
    return (outputs - labels) ** 2 if outputs.ndim == 1 else cross_entropy(outputs, labels)


def _loss(outputs, labels):
    return np.mean(_losses(outputs, labels))


def _correlation(function, outputs, labels):
    return function(outputs, labels).statistic if len(labels) > 1 else math.nan


# name in the results -> f(logits [n, C] or scores [n], label ids [n] or scores [n])
METRICS = {
    "eval_accuracy": _accuracy,
    "eval_loss": _loss,  # mean over the examples; `loss` of the results is the mean over batches
    "matthew_corr": _matthews,
    "f1": _f1,  # of class 1
    "pearson": functools.partial(_correlation, scipy.stats.pearsonr),
    "spearman": functools.partial(_correlation, scipy.stats.spearmanr),
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
    """Predictions of the model's outputs: probabilities of the classes, or scores.

    Args:
        task: GlueTask.
        outputs: array of logits [n, C]; in regression, scores [n] or [n, 1].

    Returns:
        float32 array [n, C], or [n, 1] in regression.
    """
    outputs = np.asarray(outputs, np.float32)
    if task.is_regression:
        return outputs.reshape(-1, 1)
    if task.multi_label:
        return scipy.special.expit(outputs)
    return scipy.special.softmax(outputs, axis=-1)


def answers(task, predicted):
    """What is said of each example, for people and programs.

    Args:
        task: GlueTask.
        predicted: array of `predictions`.

    Returns:
        list of dicts: `label` and `probabilities`, a dict by label; in regression `predictions`,
        the score.
    """
    if task.is_regression:
        return [{"predictions": float(score)} for score in predicted[:, 0]]
    return [
        {"label": label, "probabilities": dict(zip(task.labels, map(float, row), strict=True))}
        for label, row in zip(_predicted_labels(task, predicted), predicted, strict=True)
    ]


def test_results(predicted):
    """Content of test_results.tsv: a line of tab-separated numbers per example, no header.

    Args:
        predicted: array of `predictions`.
    """
    return "".join("\t".join(map(str, row)) + "\n" for row in predicted)


def submit_results(examples, predicted, answers):
    """Content of submit_results.tsv: a header, then name and label (or score) of each example.

    Args:
        examples: list of n Examples.
        predicted: array of `predictions`.
        answers: list of n dicts of `answers`.
    """
    rows = zip(answers, predicted, strict=True)
    values = [found["label"] if "label" in found else str(row[0]) for found, row in rows]
    return _index_prediction([example.guid for example in examples], values)


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
                f"{task.folder}/{task.files['test'][0]}: the first column must be a whole number, "
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
