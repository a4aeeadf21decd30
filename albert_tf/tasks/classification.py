# SPDX-License-Identifier: Apache-2.0
"""Classification and regression of texts and pairs of texts, of GLUE and of one's own tables."""

import collections
import dataclasses
import os
from typing import ClassVar

import numpy as np

from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.model import heads, objectives
from albert_tf.options import WINDOW, check_pair_length
from albert_tf.publish import graph_inputs, signatures
from albert_tf.tasks import base, classification_metrics, glue, tsv_files
from albert_tf.tasks.figures import mean_over_batches
from albert_tf.tasks.text_input import TextInput
from albert_tf.text.sequences import cut, pack_segments

HEAD_DROPOUT = 0.1  # fixed in the original, whatever the config says


@dataclasses.dataclass(frozen=True)
class ClassificationTask(base.Task):
    """A class, or a number, for a text or a pair of texts.

    Attributes:
        name: str, in lower case.
        row: GlueTask, of `glue.TASKS` or one of `glue.tsv_task`.
        text: TextInput.
        threshold: float or None, a number to export with the model.
        optional_inputs: tuple of str, ("text_pair",) where nothing tells whether there are pairs.
    """

    name: str
    row: tsv_files.GlueTask
    text: TextInput
    threshold: float | None = None
    optional_inputs: tuple = ()

    @property
    def kind(self):
        """FinetunedTask that is recorded with checkpoints."""
        return FinetunedTask(glue.model_task(self.name), self.row.labels)

    @property
    def labels(self):
        """Names of the classes; None in regression."""
        return self.row.labels

    @property
    def input_names(self):
        """Names of one text or two."""
        return ("text", "text_pair")[: len(self.row.text)]

    @property
    def key_metric(self):
        """The figure that chooses the best checkpoint."""
        return self.row.key_metric

    @property
    def schema(self):
        """Schema of the records."""
        return self.row.schema(self.text.max_seq_length, **self.text.sizes)

    @property
    def objective(self):
        """Loss and figures of the training."""
        return objectives.REGRESSION if self.row.is_regression else objectives.CLASSIFICATION

    def make_model(self, config, **encoder_options):
        """The classifier or regressor."""
        return heads.ClassificationModel(
            config,
            self.row.num_outputs,
            dropout_prob=HEAD_DROPOUT,
            **encoder_options,
        )

    def examples(self, inputs):
        """Examples of dicts of `text` and, of pairs, `text_pair`."""
        normalize = self.text.tokenizer.normalize
        return [
            tsv_files.Example(
                guid=str(number),
                text_a=normalize(given["text"]),
                text_b=normalize(given["text_pair"]) if "text_pair" in given else None,
                label=self.row.stand_in,
            )
            for number, given in enumerate(inputs)
        ]

    def features(self, examples, counts=None):
        """Arrays of the records: [CLS] a [SEP], or [CLS] a [SEP] b [SEP], cut to max_seq_length.

        Of a pair that is too long, the longer text loses its last tokens until both are equally
        long.

        Args:
            examples: list of n Examples.
            counts: not used.

        Returns:
            dict of numpy arrays, which fit `schema`: input_ids (int32), input_mask and segment_ids
            (int8) [n, T]; label_ids (int32, or float32 in regression) and is_real_example (int8)
            [n].

        Raises:
            UserError: max_seq_length is too short.
        """
        tokenizer, length = self.text.tokenizer, self.text.max_seq_length
        check_pair_length(length)
        firsts, seconds = [], []
        for example in examples:
            first = tokenizer.encode_ids(example.text_a, is_normalized=True)
            second = []
            if example.text_b:
                second = tokenizer.encode_ids(example.text_b, is_normalized=True)
            first, second = cut(first, second, length)
            firsts.append(first)
            seconds.append(second or None)
        return pack_segments(firsts, seconds, tokenizer.special_ids(with_mask=False), length) | {
            "label_ids": _label_ids(examples, self.row),
            "is_real_example": np.ones(len(examples), np.int8),
        }

    def answers(self, split, outputs):
        """`label` and `probabilities` by label; in regression `predictions`, the score."""
        predicted = classification_metrics.predictions(self.row, outputs["logits"])
        return classification_metrics.answers(self.row, predicted)

    def figures(self, split, outputs, batch_size):
        """Metrics of the task, and the original's `loss`."""
        arguments = self.row, outputs["logits"], split.arrays["label_ids"]
        losses = classification_metrics.example_losses(*arguments)
        loss = mean_over_batches(losses, batch_size)
        return classification_metrics.evaluate(*arguments) | {"loss": loss}

    def label_counts(self, examples):
        """Counter of the classes."""
        labels = () if self.row.is_regression else (example.label for example in examples)
        return collections.Counter(labels)

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        has_pair = len(self.row.text) == 2
        texts = graph_inputs.SentencePairs(tokenizer, self.text.max_seq_length, has_pair)
        return signatures.ClassifierFunctions(model, texts, self.row.labels, self.threshold)


@dataclasses.dataclass(frozen=True)
class GlueData(base.DataSet):
    """A folder of GLUE, or one's own files.

    Attributes:
        row: GlueTask, the task's or one of its companions.
        suffix: str, what names of its figures and files end in.
        submission_dir: str or None, where predictions go as the GLUE server takes them.
        shuffle_buffer_size: int, of the training.
    """

    row: tsv_files.GlueTask = dataclasses.field(kw_only=True)
    suffix: str = ""
    submission_dir: str | None = None
    shuffle_buffer_size: int = WINDOW

    notes: ClassVar[dict] = {
        "left_out": "{} rows without the columns needed are left out",
        "without_text": "{} rows have no text and are taken as they are",
    }

    @property
    def settings(self):
        """The columns and labels."""
        return {"task": dataclasses.asdict(self.row)}

    def parts(self, split):
        """The task's own sets, and those of its companions."""
        return {
            suffix: dataclasses.replace(self, row=row, suffix=suffix)
            for suffix, row in glue.with_companions(self.row, self.data_dir, split).items()
        }

    def sources(self, split):
        """Path of the file of a split, in a list."""
        return [tsv_files.input_file(self.row, self.data_dir, split)]

    def record_name(self, split):
        """Name of the record file of a split."""
        start = "predict" if split == "test" else self.task.name
        end = {"train": "_train", "dev": "_eval", "test": ""}[split]
        return f"{start}{self.suffix}{end}.tf_record"

    def read(self, split):
        """Reads a split; returns its examples and what is to be said of it."""
        tokenizer = self.task.text.tokenizer
        examples, left_out = tsv_files.read_examples(self.row, self.data_dir, split, tokenizer)
        counts = {
            "left_out": left_out,
            "without_text": sum(not (example.text_a or example.text_b) for example in examples),
        }
        if split == "train" and not self.row.multi_label:
            counts["sorted_by_label"] = num_sorted(self.row, examples)
        return examples, counts

    def _say(self, split, counts):
        super()._say(split, counts)
        warning = order_warning(counts["sorted_by_label"], self.shuffle_buffer_size)
        if warning:
            print(f"Warning: {warning}.")

    def described(self):
        """The training file and its columns."""
        labels = self.row.label if self.row.multi_label else (self.row.label,)
        names = [*self.task.input_names, *(["label"] * len(labels))]
        columns = [repr(x) if isinstance(x, str) else x for x in (*self.row.text, *labels)]
        named = (f"{name} in column {x}" for name, x in zip(names, columns, strict=True))
        return f"{self.sources('train')[0]}: {', '.join(named)}".replace("column -1", "the last")

    def prediction_files(self, split, outputs):
        """The original's two files, and that for the GLUE server."""
        predicted = classification_metrics.predictions(self.row, outputs["logits"])
        named = {
            "test": classification_metrics.test_results(predicted),
            "submit": classification_metrics.submit_results(
                split.content, predicted, self.task.answers(split, outputs)
            ),
        }
        texts = {
            os.path.join(self.output_dir, f"{name}_results{self.suffix}.tsv"): text
            for name, text in named.items()
        }
        if self.submission_dir:
            path = os.path.join(self.submission_dir, self.row.submission_file)
            texts[path] = classification_metrics.glue_submission(self.row, split.content, predicted)
        return texts


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
        shuffle_buffer_size: int, the window of `input_pipeline.train_batches`.

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


def _label_ids(examples, task):
    if task.is_regression:
        return np.array([example.label for example in examples], np.float32)
    ids = {label: id_ for id_, label in enumerate(task.labels)}
    return np.array([ids[example.label] for example in examples], np.int32)
