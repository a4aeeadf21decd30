# SPDX-License-Identifier: Apache-2.0
"""What fine-tuning and data sets hand to each other; those are `albert_tf.tasks.base.DataSet`."""

from collections.abc import Callable
from typing import NamedTuple


class RecordFiles(NamedTuple):
    """Record files to train on.

    Attributes:
        paths: list of str.
        schema: dict from feature name to FeatureSpec.
        described: str, what they are made of, in words.
        labels: dict from label to how often it occurs; empty if that says nothing.
    """

    paths: list
    schema: dict
    described: str
    labels: dict


class Split(NamedTuple):
    """Rows to run the model on.

    Attributes:
        arrays: dict of numpy arrays [n, ...], the model's inputs among them.
        content: what the task needs to make use of the outputs, such as its examples.
    """

    arrays: dict
    content: object


class Evaluation(NamedTuple):
    """What the outputs for the development set come to.

    Attributes:
        figures: dict of str to float.
        warnings: tuple of str or None.
        keep: callable or None, writes files that belong to the best checkpoint; called if this
            one is.
        weighted: dict of str to float or None, for the line and the curves in place of figures that
            the original averages over batches, of which the last may be smaller.
    """

    figures: dict
    warnings: tuple = ()
    keep: Callable[[], None] | None = None
    weighted: dict | None = None


class Predicted(NamedTuple):
    """Outputs of one checkpoint.

    Attributes:
        prefix: str, the checkpoint.
        step: int, updates it was trained for.
        outputs: dict from the key of a split to dict of numpy arrays [n, ...].
        source: str, the checkpoint, its step and figure, for messages.
    """

    prefix: str
    step: int
    outputs: dict
    source: str
