# SPDX-License-Identifier: Apache-2.0
"""What fine-tuning needs to know of a task; the tasks themselves are in `albert_tf.tasks`."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from albert_tf.model.heads import Objective
from albert_tf.training.finetuned_task import FinetunedTask


class RecordFiles(NamedTuple):
    """Record files to train on, and the schema of their records."""

    paths: list
    schema: dict


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


class Task(Protocol):
    """A task to fine-tune on.

    Attributes:
        kind: FinetunedTask, kept with the run so that checkpoints of another task are refused; None
            if the checkpoint's variables tell.
        inputs: tuple of str, the features that the model reads.
        objective: heads.Objective, the loss and the figures of training.
        key_metric: str, the figure that chooses the best checkpoint; larger is better.
        shown_figures: tuple of str, the figures that an evaluation prints; None for all.
        takes_head: bool, whether training starts with the head of the checkpoint it is given.
        labels: sequence of str or None, names of the classes, for exports.
        results_layout: str, of an evaluation in `eval_results.txt`, as the task's original has it
            (`results.record`).
        export_folder: str, where in the directory of exports those of the task lie.
    """

    kind: FinetunedTask | None
    inputs: tuple
    objective: Objective
    key_metric: str
    shown_figures: tuple | None
    takes_head: bool
    labels: tuple | None
    results_layout: str
    export_folder: str

    def make_model(self, config, **encoder_options):
        """The model to train, evaluate and predict with; options are those of AlbertModel."""

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""

    def training_records(self):
        """RecordFiles of the training set, made if they are not there."""

    def evaluation_splits(self):
        """Dict of key -> Split: the development set, with what else is evaluated beside it."""

    def evaluate(self, splits, outputs, batch_size):
        """The Evaluation of outputs, a dict from key to what the model made of that split."""

    def read_test_set(self):
        """Reads what is to be predicted, so that errors in it come before the training."""

    def prediction_splits(self):
        """Dict of key -> Split: what is to be predicted."""

    def write_predictions(self, splits, members, batch_size):
        """Writes and prints what `members`, a list of Predicted, come to."""

    def make_served_model(self, config):
        """The model to export."""

    def served_functions(self, model, tokenizer, prefix):
        """What is served of a model (`publish.serving`) with the checkpoint's weights."""
