# SPDX-License-Identifier: Apache-2.0
"""Splits of a data set, and the results of its evaluation and prediction."""

from collections.abc import Callable
from typing import NamedTuple


class RecordFiles(NamedTuple):
    """Record files to train on.

    Attributes:
        paths: list of str.
        schema: dict from feature name to FeatureSpec.
        described: str, description of the source of the records.
        labels: dict from label to its count; empty if counts are not meaningful.
    """

    paths: list
    schema: dict
    described: str
    labels: dict


class Split(NamedTuple):
    """Rows to run the model on.

    Attributes:
        arrays: dict of numpy arrays [n, ...], the model's inputs among them.
        content: data the task needs to interpret the outputs, such as its examples.
    """

    arrays: dict
    content: object


class Evaluation(NamedTuple):
    """Results of evaluating the outputs for the development set.

    Attributes:
        metrics: dict of str to float.
        warnings: tuple of str or None.
        keep: callable or None, directory -> None, writes files that belong to the best checkpoint;
            called if this checkpoint is the best.
        weighted: dict of str to float or None, means over examples. The progress line and the
            curves show them in place of the original's means over batches of unequal size.
        report: str or None, a table of the metrics of each class.
    """

    metrics: dict
    warnings: tuple = ()
    keep: Callable[[str], None] | None = None
    weighted: dict | None = None
    report: str | None = None


class Predicted(NamedTuple):
    """Outputs of one checkpoint, or of an ensemble.

    Attributes:
        prefix: str, the checkpoint, or several with commas between them.
        step: int, steps it was trained for; of an ensemble a str, the numbers of its models.
        outputs: dict from the key of a split to dict of numpy arrays [n, ...].
        source: str, the checkpoint, its step and metric, for messages.
    """

    prefix: str
    step: int | str
    outputs: dict
    source: str
