# SPDX-License-Identifier: Apache-2.0
"""The task object of RACE; `race` knows the files."""

import dataclasses
import functools
import os

import numpy as np
import scipy.special

from albert_tf import files
from albert_tf.model import heads
from albert_tf.publish import classifier_functions, text_inputs
from albert_tf.records import feature_cache, input_pipeline, schemas
from albert_tf.tasks import race
from albert_tf.tasks.figures import collapse_warning, mean_over_batches
from albert_tf.tasks.text_input import TextInput
from albert_tf.tasks.usual_task import UsualTask
from albert_tf.training import results
from albert_tf.training.finetuned_task import FinetunedTask
from albert_tf.training.task import Evaluation, RecordFiles, Split

DEFAULT_RECORDS = {  # split -> name in the output directory
    "train": "race_train.tf_record",
    "dev": "race_eval.tf_record",
    "test": "predict.tf_record",
}


@dataclasses.dataclass(frozen=True)
class RaceTask(UsualTask):
    """A training.task.Task for questions with four options about a passage.

    Attributes:
        text: TextInput.
        max_qa_length: int, pieces of question and option at most.
        data_dir: str, directory that holds the folder RACE.
        levels: tuple of str, of race.LEVELS.
        output_dir: str, where predictions go, and record files by default.
        record_files: dict from split to the path of its record file, or None for the default.
        dropout_prob: float, of the pooled output.
    """

    text: TextInput
    max_qa_length: int
    data_dir: str
    levels: tuple
    output_dir: str
    record_files: dict
    dropout_prob: float = 0.1

    kind = FinetunedTask("race", tuple(race.LETTERS))
    labels = tuple(race.LETTERS)
    input_names = ("article", "question", "options")
    choices = len(race.LETTERS)  # sequences of a question
    objective = heads.CLASSIFICATION
    key_metric = "eval_accuracy"
    results_layout = "{first}{rest}best = {before}\n{saved}" + results.RULE

    def __post_init__(self):
        race.check_lengths(self.text.max_seq_length, self.max_qa_length)

    def make_model(self, config, **encoder_options):
        """The model that scores the options."""
        return heads.MultipleChoiceModel(
            config,
            dropout_prob=self.dropout_prob,
            choices=len(race.LETTERS),
            **encoder_options,
        )

    @property
    def schema(self):
        """Schema of the records."""
        return race.schema(self.text.max_seq_length, **self.text.sizes)

    def record_file(self, split):
        """Path of the record file of a split."""
        default = os.path.join(self.output_dir, DEFAULT_RECORDS[split])
        return self.record_files.get(split) or default

    # --- Training and evaluation ---

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""
        return self._sources("train") + (self._sources("dev") if do_eval else [])

    def training_records(self):
        """RecordFiles of the training set, made if they are not there."""
        return RecordFiles([self._records("train")], self.schema)

    def evaluation_splits(self):
        """The development set."""
        examples = self._examples("dev")
        arrays = input_pipeline.load_arrays(self._records("dev", examples), self.schema)
        return {"": Split(arrays, examples)}

    def evaluate(self, splits, outputs, batch_size):
        """Accuracy overall and of each level, and the original's `loss`; none without answers."""
        examples, logits = splits[""].content, outputs[""]["logits"]
        figures = race.evaluate(examples, logits)
        if figures:
            losses = race.example_losses(examples, logits)
            figures["loss"] = mean_over_batches(losses, batch_size)
        return Evaluation(figures, (collapse_warning(race.LETTERS, logits),))

    def _sources(self, split):
        return [path for _, path in race.input_files(self.data_dir, split, self.levels)]

    def _examples(self, split):
        return race.read_examples(self.data_dir, split, self.text.tokenizer, self.levels)

    def _records(self, split, examples=None):
        """Makes the record file of a split, unless it is there and made of the same; its path."""
        cache = feature_cache.cached_records(
            self.record_file(split),
            self.schema,
            {
                "levels": self.levels,
                "max_qa_length": self.max_qa_length,
                **self.text.cache_settings,
            },
            [*self._sources(split), self.text.vocabulary_file],
            lambda _: self._batches(examples or self._examples(split)),
            add_key=not self.record_files.get(split),
        )
        return cache.path

    def _batches(self, examples):
        """Feature arrays of questions, some at a time."""
        for chunk in schemas.in_chunks(examples):
            yield race.features(
                chunk, self.text.tokenizer, self.text.max_seq_length, self.max_qa_length
            )

    # --- Prediction of any texts ---

    def examples(self, inputs):
        """Questions of dicts of `article`, `question` and `options`."""
        examples = []
        for number, given in enumerate(inputs):
            passage = {
                "id": str(number),
                "article": given["article"],
                "questions": [given["question"]],
                "options": [given["options"]],
            }
            place = f"example {number}"
            examples += race.read_passage(passage, place, self.text.tokenizer.normalize)
        return examples

    def features(self, examples):
        """Arrays of questions, as in the records."""
        return race.features(
            examples, self.text.tokenizer, self.text.max_seq_length, self.max_qa_length
        )

    def answers(self, split, outputs):
        """What is said of each question: dicts of `label` and `probabilities` by letter."""
        probabilities = scipy.special.softmax(outputs["logits"], axis=-1)
        return [
            {
                "label": self.labels[np.argmax(row)],
                "probabilities": dict(zip(self.labels, map(float, row), strict=True)),
            }
            for row in probabilities
        ]

    # --- Prediction and export ---

    def read_test_set(self):
        """Reads what is to be predicted, so that errors in it come before the training."""
        return self._test_examples

    @functools.cached_property
    def _test_examples(self):
        return self._examples("test")

    def prediction_splits(self):
        """The test set."""
        path = self.record_file("test")
        schemas.write_records(path, self.schema, self._batches(self._test_examples))
        return {"": Split(input_pipeline.load_arrays(path, self.schema), self._test_examples)}

    def write_predictions(self, splits, members, batch_size):
        """Writes the answers, and their figures where the right answers are known."""
        _, step, outputs, source = members[0]
        examples = splits[""].content
        figures, (warning,), *_ = self.evaluate(splits, outputs, batch_size)
        if warning:
            print(f"Warning: {warning}")
        answers = os.path.join(self.output_dir, "predictions.tsv")
        files.write_text(answers, race.answers_table(examples, outputs[""]["logits"]))
        print(f"Answered {len(examples)} questions with {source}: {answers}")
        if not figures:
            print("The test set has no answers, so there are no figures.")
            return
        results.report_predictions(self.output_dir, figures, step)

    make_served_model = make_model

    def served_functions(self, model, tokenizer, prefix):
        """What is served of a model."""
        texts = text_inputs.Options(tokenizer, self.text.max_seq_length, self.max_qa_length)
        return classifier_functions.ClassifierFunctions(model, texts, self.labels)
