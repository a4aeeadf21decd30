# SPDX-License-Identifier: Apache-2.0
"""Multi-label classification: any number of labels for each text, from a user's own files."""

import dataclasses
import functools
import os

import numpy as np
import scipy
import tensorflow as tf

from albert_tf import files, state_files
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.model import objectives
from albert_tf.options import LABEL_SEPARATOR
from albert_tf.publish import signatures
from albert_tf.tasks import base, classification

EVEN_CHANCE = 0.5
_ROUNDING = 1e-6  # probabilities that are nearer cannot be told apart on another machine


@dataclasses.dataclass(frozen=True)
class LabelThreshold:
    """The threshold in FILE: labels with a higher probability are predicted.

    `checkpoint` is the prefix of the model if it is not the directory's own.
    """

    threshold: float
    checkpoint: str | None = None

    FILE = "multi_label_threshold.json"


def known_threshold(directory, prefix=None):
    """The threshold of the best evaluation of a model; EVEN_CHANCE without evaluation.

    Args:
        directory: str, of the run. Its threshold comes first if it was tuned for this model.
        prefix: str, a checkpoint from elsewhere; None for the directory's own model.
    """
    found = state_files.read(os.path.join(directory, LabelThreshold.FILE), LabelThreshold)
    # Earlier versions did not name the checkpoint.
    if found and found.checkpoint in (None, _named(prefix)):
        return found.threshold
    return known_threshold(os.path.dirname(prefix)) if prefix else EVEN_CHANCE


def _named(prefix):
    """The absolute path of a prefix, as in a LabelThreshold; None stays."""
    return files.absolute_path(prefix) if prefix else prefix


def best_threshold(scores, gold):
    """The threshold of the best micro F1, halfway between two scores.

    Args:
        scores: array [n, C], probabilities.
        gold: array of 0 and 1 [n, C].

    Returns:
        float, EVEN_CHANCE if no label is right.
    """
    order = np.argsort(-scores, axis=None, kind="stable")
    scores, hits = scores.ravel()[order], np.cumsum(gold.ravel()[order])
    following = np.append(scores[1:], 0.0)
    f1 = 2 * hits / (np.arange(len(hits)) + 1 + hits[-1])
    best = np.argmax(np.where(scores - following < _ROUNDING, 0, f1))
    return float(scores[best] + following[best]) / 2 if hits[-1] else EVEN_CHANCE


def terms(features, outputs):
    """Loss of each example, the mean over labels: logits [B, C], label_ids int32 [B, C]."""
    logits = outputs["logits"]
    labels = tf.cast(features["label_ids"], logits.dtype)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    return {"eval_loss": (tf.reduce_mean(losses, axis=-1), tf.ones_like(logits[:, 0]))}


class MultiLabelFunctions(signatures.ClassifierFunctions):
    """Serving functions of a classifier whose `predictions` are 0 or 1 per label, int32 [B, C]."""

    def of_ids(self, **features):
        """Predictions for ids."""
        probabilities = tf.sigmoid(self.model(features, training=False)["logits"])
        predictions = tf.cast(probabilities > self._threshold, tf.int32)
        return {"predictions": predictions, "probabilities": probabilities}

    def of_text(self, **texts):
        """Predictions for texts; `label` joins all predicted labels with LABEL_SEPARATOR."""
        found = self.of_ids(**self.texts(**texts))
        labels = tf.broadcast_to(tf.constant(self.labels), tf.shape(found["predictions"]))
        chosen = tf.ragged.boolean_mask(labels, found["predictions"] > 0)
        return found | {"label": tf.strings.reduce_join(chosen, axis=-1, separator=LABEL_SEPARATOR)}


class MultiLabelTask(classification.ClassificationTask):
    """Any number of classes for a text or a pair of texts.

    Args:
        directory: str, of the run, where the best threshold is kept.
        given: str or None, the checkpoint that is used if the directory holds none.
        *others, **named: arguments of ClassificationTask.
    """

    functions = MultiLabelFunctions
    compares_classes = False

    def __init__(self, *others, directory="", given=None, **named):
        super().__init__(*others, **named)
        self.directory, self.given = directory, given
        self.objective = objectives.REGRESSION._replace(terms=terms)
        # 0 or 1 for each label
        labels = dataclasses.replace(self.schema["is_real_example"], length=len(self.labels))
        self.schema = self.schema | {"label_ids": labels}

    def label_ids(self, examples):
        """Labels of examples for the model, 0 or 1 for each: int32 [n, C]."""
        ids = [[label in example.label for label in self.labels] for example in examples]
        return np.reshape(ids, [-1, len(self.labels)]).astype(np.int32)

    def probabilities(self, logits):
        """Probability of each label, of logits; float32 [n, C]."""
        return scipy.special.expit(np.asarray(logits, np.float32))

    def answers(self, split, outputs):
        """`label`, the predicted ones joined with LABEL_SEPARATOR, and `probabilities` by label."""
        found, threshold = super().answers(split, outputs), self.served_threshold
        for answer in found:
            chosen = (label for label, p in answer["probabilities"].items() if p > threshold)
            answer["label"] = LABEL_SEPARATOR.join(chosen)
        return found

    def metrics(self, split, outputs, batch_size):
        """Micro and macro F1 at the best threshold, of a test set at the known one, and losses."""
        import sklearn.metrics

        split, outputs = classification.only_labelled(split, outputs)
        if not len(outputs["logits"]):
            return {}
        logits, gold = outputs["logits"].astype(float), split.arrays["label_ids"]
        scores = self.probabilities(logits)
        threshold = self._threshold(split, scores)
        losses = np.mean(np.logaddexp(0, logits) - gold * logits, axis=-1)
        f1 = functools.partial(sklearn.metrics.f1_score, gold, scores > threshold, zero_division=0)
        return {
            "micro_f1": float(f1(average="micro")),
            "macro_f1": float(f1(average="macro")),
            "threshold": threshold,
            "eval_loss": float(np.mean(losses)),
            "loss": base.mean_over_batches(losses, batch_size),
        }

    def keep(self, metrics):
        """Keeps the threshold."""
        path = os.path.join(self.directory, LabelThreshold.FILE)
        before, given = state_files.read(path, LabelThreshold), self._from_elsewhere()
        if before and given:  # not the threshold of a training that goes on
            base.say_threshold("threshold", before.threshold, metrics["threshold"])
        state_files.write(path, LabelThreshold(metrics["threshold"], _named(given)))

    def label_counts(self, arrays):
        """Number of examples with each label: int array [C]."""
        return arrays["label_ids"].sum(axis=0)

    def sign_of_failure(self, split, outputs):
        """A sign of failed training: all texts get the same labels, and not all have the same."""
        scores, gold = self.probabilities(outputs["logits"]), split.arrays["label_ids"]
        found = map(self._joined, scores > self._threshold(split, scores))
        return base.collapsed("texts are predicted to be", [*found], [*map(self._joined, gold)])

    def target(self, row):
        """The labels of an example."""
        return self._joined(row["label_ids"])

    def _joined(self, chosen):
        """The labels that are chosen by 0 or 1 for each: str."""
        return LABEL_SEPARATOR.join(np.array(self.labels)[chosen > 0])

    def _threshold(self, split, scores):
        """The known threshold for a test set, for others that of the best micro F1."""
        if getattr(split.content, "is_test", False):
            return self.served_threshold
        return best_threshold(scores, split.arrays["label_ids"])

    @property
    def served_threshold(self):
        """The threshold of predictions and exports."""
        return known_threshold(self.directory, self._from_elsewhere())

    def _from_elsewhere(self):
        """The prefix of the given checkpoint if it is used, else None."""
        folder = RunDirectory(self.directory)
        return folder.trained_or(self.given) if self.given and not folder.trained else None
