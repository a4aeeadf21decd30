# SPDX-License-Identifier: Apache-2.0
"""The task object of GLUE and of one's own tab-separated files; `glue` knows the files."""

import dataclasses
import functools
import os

from albert_tf import files
from albert_tf.choices import WINDOW
from albert_tf.model import heads
from albert_tf.publish import classifier_functions, text_inputs
from albert_tf.records import feature_cache, input_pipeline, schemas
from albert_tf.tasks import classification_features, classification_metrics, glue, tsv_files
from albert_tf.tasks.figures import collapse_warning, mean_over_batches
from albert_tf.tasks.text_input import TextInput
from albert_tf.tasks.usual_task import UsualTask
from albert_tf.training.finetuned_task import FinetunedTask
from albert_tf.training.task import Evaluation, RecordFiles, Split

HEAD_DROPOUT = 0.1  # fixed in the original, whatever the config says


@dataclasses.dataclass(frozen=True)
class ClassificationTask(UsualTask):
    """A training.task.Task for a row of `glue.TASKS` or one of `glue.tsv_task`.

    Attributes:
        name: str, in lower case.
        row: GlueTask.
        text: TextInput.
        data_dir: str, directory of the GLUE data, or of one's own files.
        output_dir: str, where predictions go.
        cached_dir: str, where record files go.
        submission_dir: str or None, where predictions go as the GLUE server takes them.
        shuffle_buffer_size: int, of the training.
        threshold: float or None, a number to export with the model.
        optional_inputs: tuple of the names in `input_names` that an example may lack, where
            nothing tells whether the model is for pairs.
    """

    name: str
    row: tsv_files.GlueTask
    text: TextInput
    data_dir: str
    output_dir: str
    cached_dir: str
    submission_dir: str | None = None
    shuffle_buffer_size: int = WINDOW
    threshold: float | None = None
    optional_inputs: tuple = ()

    @property
    def kind(self):
        """What checkpoints of it are of: a FinetunedTask."""
        return FinetunedTask(glue.model_task(self.name), self.row.labels)

    @property
    def labels(self):
        """Names of the classes; None in regression."""
        return self.row.labels

    @property
    def key_metric(self):
        """The figure that chooses the best checkpoint."""
        return self.row.key_metric

    @property
    def objective(self):
        """Loss and figures of the training."""
        return heads.REGRESSION if self.row.is_regression else heads.CLASSIFICATION

    def make_model(self, config, **encoder_options):
        """The classifier or regressor."""
        return heads.ClassificationModel(
            config,
            self.row.num_outputs,
            dropout_prob=HEAD_DROPOUT,
            **encoder_options,
        )

    # --- Training and evaluation ---

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""
        splits = ["train"] + ["dev"] * do_eval
        return [tsv_files.input_file(self.row, self.data_dir, split) for split in splits]

    def training_records(self):
        """RecordFiles of the training set, made if they are not there."""
        return RecordFiles([self._records(self.row, "train", "_train")], self._schema(self.row))

    def evaluation_splits(self):
        """The development set, and those of the task's companions."""
        splits = {}
        for suffix, row in glue.with_companions(self.row, self.data_dir, "dev").items():
            path = self._records(row, "dev", f"{suffix}_eval")
            splits[suffix] = Split(input_pipeline.load_arrays(path, self._schema(row)), row)
        return splits

    def evaluate(self, splits, outputs, batch_size):
        """Figures of the development sets, the original's `loss` among them."""
        figures, warnings = {}, []
        for suffix, (arrays, row) in splits.items():
            logits, labels = outputs[suffix]["logits"], arrays["label_ids"][:, 0]
            found = classification_metrics.evaluate(row, logits, labels)
            found["loss"] = mean_over_batches(
                classification_metrics.example_losses(row, logits, labels), batch_size
            )
            figures |= {f"{name}{suffix}": value for name, value in found.items()}
            warnings.append(collapse_warning(row.labels, logits))
        return Evaluation(figures, tuple(warnings))

    def _schema(self, row):
        return row.schema(self.text.max_seq_length, **self.text.sizes)

    def _records(self, row, split, name):
        """Makes the record file of a split, unless it is there and made of the same; its path."""

        def make(cache):
            examples, counts = self._examples(row, split)
            cache.counts.update(counts)
            return self._batches(row, examples)

        columns = dataclasses.asdict(row) | dict.fromkeys(("guid", "test_guid"))
        cache = feature_cache.cached_records(
            os.path.join(self.cached_dir, f"{self.name}{name}.tf_record"),
            self._schema(row),
            {"task": columns, **self.text.cache_settings},
            [tsv_files.input_file(row, self.data_dir, split), self.text.vocabulary_file],
            make,
            add_key=True,
        )
        self._say_counts(split, cache.counts)
        return cache.path

    def _examples(self, row, split):
        """Reads a split; returns its examples and what is to be said of it."""
        examples, left_out = tsv_files.read_examples(row, self.data_dir, split, self.text.tokenizer)
        return examples, {
            "left_out": left_out,
            "without_text": sum(not (example.text_a or example.text_b) for example in examples),
            "sorted_by_label": classification_features.num_sorted(row, examples)
            if split == "train"
            else 0,
        }

    def _say_counts(self, split, counts):
        """Prints what is noteworthy of a split, whether it was read now or before."""
        if counts["left_out"]:
            print(f"{split}: {counts['left_out']} rows without the columns needed are left out")
        if counts["without_text"]:
            print(f"{split}: {counts['without_text']} rows have no text and are taken as they are")
        warning = classification_features.order_warning(
            counts["sorted_by_label"], self.shuffle_buffer_size
        )
        if warning:
            print(f"Warning: {warning}.")

    def _batches(self, row, examples):
        """Feature arrays of examples, some at a time."""
        for chunk in schemas.in_chunks(examples):
            yield classification_features.features(
                chunk, row, self.text.tokenizer, self.text.max_seq_length
            )

    # --- Prediction of any texts ---

    @property
    def input_names(self):
        """Names of the texts of an example."""
        return ("text", "text_pair")[: len(self.row.text)]

    def examples(self, inputs):
        """Examples of dicts of the texts; an empty second text is none."""
        normalize = self.text.tokenizer.normalize
        return [
            tsv_files.Example(
                "",
                normalize(given["text"]),
                normalize(given["text_pair"]) if "text_pair" in given else None,
                self.row.stand_in,
            )
            for given in inputs
        ]

    def features(self, examples):
        """Arrays of examples, as in the records."""
        return classification_features.features(
            examples, self.row, self.text.tokenizer, self.text.max_seq_length
        )

    def answers(self, split, outputs):
        """What is said of each example: dicts, as `classification_metrics.answers`."""
        predicted = classification_metrics.predictions(self.row, outputs["logits"])
        return classification_metrics.answers(self.row, predicted)

    # --- Prediction and export ---

    def read_test_set(self):
        """Reads what is to be predicted, so that errors in it come before the training."""
        return self._test_sets

    @functools.cached_property
    def _test_sets(self):
        """Dict of suffix -> (row, examples)."""
        sets = {}
        for suffix, row in glue.with_companions(self.row, self.data_dir, "test").items():
            examples, counts = self._examples(row, "test")
            self._say_counts("test", counts)
            sets[suffix] = (row, examples)
        return sets

    def prediction_splits(self):
        """The test sets, and those of the task's companions."""
        splits = {}
        for suffix, (row, examples) in self._test_sets.items():
            path = os.path.join(self.output_dir, f"predict{suffix}.tf_record")
            schema = self._schema(row)
            schemas.write_records(path, schema, self._batches(row, examples))
            splits[suffix] = Split(input_pipeline.load_arrays(path, schema), (row, examples))
        return splits

    def write_predictions(self, splits, members, batch_size):
        """Writes the original's two files of each test set, and those for the GLUE server."""
        member = members[0]
        for suffix, (_, (row, examples)) in splits.items():
            logits = member.outputs[suffix]["logits"]
            warning = collapse_warning(row.labels, logits)
            if warning:
                print(f"Warning: {warning}")
            predicted = classification_metrics.predictions(row, logits)
            answers = classification_metrics.submit_results(row, examples, predicted)
            named = {"test": classification_metrics.test_results(predicted), "submit": answers}
            texts = {
                os.path.join(self.output_dir, f"{name}_results{suffix}.tsv"): text
                for name, text in named.items()
            }
            if self.submission_dir:
                path = os.path.join(self.submission_dir, row.submission_file)
                texts[path] = classification_metrics.glue_submission(row, examples, predicted)
            for path, text in texts.items():
                files.write_text(path, text)
            print(f"Predicted {len(examples)} examples with {member.source}: {', '.join(texts)}")

    make_served_model = make_model

    def served_functions(self, model, tokenizer, prefix):
        """What is served of a model."""
        has_pair = len(self.row.text) == 2
        texts = text_inputs.SentencePairs(tokenizer, self.text.max_seq_length, has_pair)
        return classifier_functions.ClassifierFunctions(
            model, texts, self.row.labels, self.threshold
        )
