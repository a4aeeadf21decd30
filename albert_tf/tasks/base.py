# SPDX-License-Identifier: Apache-2.0
"""Base classes of the tasks: `Task`, what a model predicts, and `DataSet`, its files."""

import collections
import dataclasses
import functools
import math
import os
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.model import objectives
from albert_tf.records import feature_cache, input_pipeline, schemas
from albert_tf.tasks import data_report, tables
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import evaluation
from albert_tf.training.splits_and_results import Evaluation, Predicted, RecordFiles, Split

NOT_LEARNT = (
    "the model has probably not learnt; train for longer, or try a lower --learning_rate, a longer "
    "--warmup_step or another --seed"
)
_TOGETHER = 1000  # examples whose features are in memory at a time


class TextInput(NamedTuple):
    """Settings that all tasks need to turn text into ids.

    Attributes:
        tokenizer: FullTokenizer.
        max_seq_length: int, T.
        sizes: dict of vocab_size and type_vocab_size, int, of the model; ids must be below them.
            They are arguments of the schemas in `records.schemas`.
    """

    tokenizer: FullTokenizer
    max_seq_length: int
    sizes: dict[str, int]


def text_input(configs, tokenizer_arguments, max_seq_length):
    """Makes the TextInput of one model, or of several that read the same features.

    Args:
        configs: list of AlbertConfig, of the models.
        tokenizer_arguments: dict, arguments of FullTokenizer.
        max_seq_length: int, T.

    Raises:
        UserError: the vocabulary cannot be read, or has ids that a model has no embedding for.
    """
    tokenizer = FullTokenizer(**tokenizer_arguments)
    for config in configs:
        config.check_vocabulary(tokenizer)
    sizes = {
        name: min(getattr(config, name) for config in configs)
        for name in ("vocab_size", "type_vocab_size")
    }
    return TextInput(tokenizer, max_seq_length, sizes)


class Task:
    """Base class of all tasks: everything about a task except its files.

    A task turns examples into features. It turns the model's outputs into answers and, if the
    examples have labels, into metrics. A `split` is a Split of features and examples; `outputs` is
    a dict of the model's outputs for it, arrays [n, ...].

    Attributes:
        name: str, with which the names of record files begin.
        text: TextInput.
        kind: FinetunedTask, kept with a run so that checkpoints of another task are refused; None
            if the checkpoint's variables show the task.
        labels: tuple of str, the classes; None if there are none.
        word_pattern: str, the pattern of a word in a text, for a model that labels words; None for
            words with white space between them.
        input_names: tuple of str, keys of `examples`' inputs and arguments of a served model.
        optional_inputs: tuple of those at its end that an example may lack.
        schema: dict from feature name to FeatureSpec, of the records.
        inputs: tuple of str, the features that the model reads.
        choices: int, sequences of a row of features.
        windows: int, how many sequences one text may fill.
        classified: str, the things that get a label, for messages.
        objective: objectives.Objective, the loss and the metrics of training.
        key_metric: str, the metric that chooses the best checkpoint; larger is better, except for
            losses.
        chosen_metric: str, the key metric if the user chose it; else None.
        shown_metrics: tuple of str, the metrics that an evaluation prints; None for all.
        takes_head: bool, whether training starts with the head of the checkpoint it is given.
        compares_classes: bool, whether rare classes are worth a warning.
        results_layout: str, format of an evaluation in `eval_results.txt`, as in the original
            script of the task (`evaluation.Evaluator`).
        export_folder: str, folder of the task's exports in the export directory.
    """

    kind = None
    word_pattern = None
    chosen_metric = None
    optional_inputs = ()
    inputs = ("input_ids", "input_mask", "segment_ids")
    choices = windows = 1
    classified = "examples"
    shown_metrics = None
    takes_head = False
    compares_classes = False
    results_layout = "{first}{rest}best = {before}\n" + evaluation.RULE
    export_folder = ""

    def make_model(self, config, **encoder_options):
        """The model to train, evaluate and predict with; options are those of AlbertModel."""

    def examples(self, inputs):
        """Makes examples without labels: list of dicts with the keys `input_names` -> list."""

    def texts_of(self, example):
        """The texts of an example, for comparisons: tuple of str."""

    def features(self, examples, counts=None):
        """Converts examples to a dict of arrays that fit `schema`; counts oddities in `counts`."""

    def answers(self, split, outputs):
        """The model's answer to each example, readable for people and programs: list of dicts.

        By default, the answers of a classifier: `label` and `probabilities`, a dict by label.
        """
        logits = outputs["logits"]
        return [
            {
                "label": self.labels[id_],
                "probabilities": dict(zip(self.labels, row.tolist(), strict=True)),
            }
            for id_, row in zip(classes(logits), self.probabilities(logits), strict=True)
        ]

    def probabilities(self, logits):
        """Probabilities of the labels, of logits; float32 [n, C]."""
        return scipy.special.softmax(np.asarray(logits, np.float32), axis=-1)

    def metrics(self, split, outputs, batch_size):
        """How good the outputs are: dict of str to float, empty if the examples have no labels.

        `loss` among them is the mean over batches of `batch_size`, as the original computes it.
        """

    def specimen(self):
        """Outputs for which `metrics` gives all metrics there are: (Split, dict of arrays)."""
        labels = np.repeat([[0], [1]], self.schema["label_ids"].length, axis=1)
        width = max(len(self.labels or ()), labels.shape[1])  # of scores, there is one for each
        return Split({"label_ids": labels}, ()), {"logits": np.eye(2, width)}

    def keep(self, metrics):
        """Writes files that belong to the best checkpoint, given the metrics of its evaluation."""

    def label_counts(self, arrays):
        """Number of examples with each label, from `features` [n, length]: int array [C]."""
        return np.bincount(arrays["label_ids"], minlength=len(self.labels))

    def logits(self, split, outputs):
        """Logits [n, C] of all that is classified."""
        return outputs["logits"]

    def sign_of_failure(self, split, outputs):
        """A sign of failed training: str or None."""
        if self.labels is None:
            return None
        found = [self.labels[id_] for id_ in classes(self.logits(split, outputs))]
        return collapsed(f"{self.classified} are predicted to be", found)

    def target(self, row):
        """The label of an example, from its features, a dict of arrays [length]: str."""
        value = row["label_ids"][0]
        return str(self.labels[value] if self.labels else value)

    def make_served_model(self, config):
        """The model to export."""
        return self.make_model(config)

    def weigh_classes(self, given, data):
        """Gives the classes weights in the loss.

        Args:
            given: list of str, --class_weights: "balanced", or a number for each label.
            data: DataSet, whose training set is read if it is needed.

        Raises:
            UserError: the task has not one class for each thing, or the weights do not fit it.
        """
        flag = f"--class_weights={','.join(given)}"
        if self.objective not in (objectives.CLASSIFICATION, objectives.TOKEN_CLASSIFICATION):
            raise UserError(f"{flag} is for one class for each text or word: leave it out")
        if given == ["balanced"]:
            counts = data.training_records.labels
            present = [label for label in self.labels if counts[label]]
            total = sum(counts.values())
            weights = [total / (len(present) * max(counts[label], 1)) for label in self.labels]
        else:
            weights = [*map(tables.number, given)]
            if len(weights) != len(self.labels) or not all(0 < x < math.inf for x in weights):
                raise UserError(
                    f"{flag} must be balanced, or a number above 0 for each of the "
                    f"{len(self.labels)} classes: {', '.join(self.labels)}"
                )
        shown = zip(self.labels, weights, strict=True)
        print(f"Weights of classes: {', '.join(f'{name} {x:.3g}' for name, x in shown)}")
        self.objective = objectives.with_class_weights(self.objective, weights)

    def report(self, split, outputs):
        """A table with the metrics of each class and the counts of confusions: str or None."""

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model with a checkpoint's weights (`publish.signatures`)."""

    def check_export(self, takes_text):
        """Raises UserError, before the training, if the model cannot be exported so."""


@dataclasses.dataclass(frozen=True)
class DataSet:
    """The files of a task: its examples, their features, and predictions.

    Attributes:
        task: Task.
        data_dir: str.
        output_dir: str, the run's, where predictions go.
        cached_dir: str, where record files go, except that of the test set (output_dir).
        record_files: dict from split to the path of its record file, where the user gave one.
        suffix: str, added to the names of metrics and files.
    """

    task: Task
    data_dir: str
    output_dir: str
    cached_dir: str
    record_files: dict = dataclasses.field(default_factory=dict)
    suffix: str = ""

    # Key of counts -> message, formatted with the count and all counts.
    notes: ClassVar[dict] = {}
    warnings: ClassVar[dict] = {}
    unit = "examples"  # what is counted in messages
    header = ()  # the names of the columns of the training file, if other files may repeat them
    labels_of_test = None  # name of the labels that a test file may have, to score predictions

    # --- Each data set has its own ---

    def sources(self, split):
        """Paths of the files of a split: train, dev or test."""

    def read(self, split):
        """Reads a split; returns its examples and counts of oddities: (list, dict of int)."""

    @property
    def settings(self):
        """Settings that features depend on, besides files, length and casing: dict for JSON."""
        return {}

    def parts(self, split):
        """The data sets that are evaluated or predicted: dict from suffix of names to DataSet."""
        return {"": self}

    def described(self):
        """Description of the training files and their columns: str."""

    def prediction_files(self, examples, answers):
        """Content of the files of predictions: dict from path to text."""

    # --- Training and evaluation ---

    def record_file(self, split):
        """Path of the record file of a split.

        Unless the user names the file, `cached_records` adds a hash of the settings to the name.
        """
        if self.record_files.get(split):
            return self.record_files[split]
        if split == "test":
            return os.path.join(self.output_dir, f"predict{self.suffix}.tf_record")
        end = {"train": "train", "dev": "eval"}[split]
        return os.path.join(self.cached_dir, f"{self.task.name}{self.suffix}_{end}.tf_record")

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""
        return [path for split in ["train"] + ["dev"] * do_eval for path in self.sources(split)]

    def evaluated_on(self):
        """The EvaluatedOn of the evaluations."""
        paths = [path for part in self._evaluated.values() for path in part.sources("dev")]
        content = [files.sha256(path) for path in paths]
        chosen = self.task.chosen_metric
        settings = self.settings | ({"best_metric": chosen} if chosen else {})
        return evaluation.evaluated_on(paths, content=content, **settings)

    @functools.cached_property
    def _evaluated(self):
        """The parts of the development set; cached, because `parts` prints what is missing."""
        return self.parts("dev")

    @functools.cached_property
    def _training_cache(self):
        return self._records("train")

    @functools.cached_property
    def _evaluation_sets(self):
        """Dict of suffix -> (examples, feature_cache.Cache), of the sets that are evaluated."""
        found = {}
        for suffix, part in self._evaluated.items():
            given = part.read("dev")
            found[suffix] = given[0], part._records("dev", given)
        return found

    def report(self, do_eval):
        """Prints the report on the training set and the sets that are evaluated; a dict for JSON.

        Args:
            do_eval: bool, whether there is an evaluation.
        """
        length, counts = self.task.text.max_seq_length, self._training_cache.counts
        of_split = functools.partial(data_report.of_split, windows=self.task.windows)
        found = {"train": of_split(counts, length)}
        if do_eval:
            known = {*map(self.task.texts_of, self.read("train")[0])}
            for suffix, (examples, cache) in self._evaluation_sets.items():
                texts = [*map(self.task.texts_of, examples)]
                found[f"dev{suffix}"] = of_split(cache.counts, length, known, texts)
        counts = self.training_records.labels
        return data_report.say(found, self.unit, counts, self.task.compares_classes)

    @functools.cached_property
    def training_records(self):
        """RecordFiles of the training set, made if they do not exist."""
        cache = self._training_cache
        labels = {label: cache.counts[f"label {label}"] for label in self.task.labels or ()}
        return RecordFiles([cache.path], self.task.schema, self.described(), labels)

    def evaluation_splits(self):
        """Dict of key -> Split: the development set, and the sets that are evaluated with it."""
        return {
            suffix: Split(input_pipeline.load_arrays(cache.path, self.task.schema), examples)
            for suffix, (examples, cache) in self._evaluation_sets.items()
        }

    def evaluate(self, splits, outputs, batch_size):
        """Evaluates the outputs of a model.

        Args:
            splits: dict of suffix -> Split, of `evaluation_splits`.
            outputs: dict of suffix -> dict of arrays [n, ...], the outputs for this split.
            batch_size: int, of the original's `loss`.

        Returns:
            Evaluation.
        """
        metrics, warnings = {}, []
        for suffix, split in splits.items():
            found = self.task.metrics(split, outputs[suffix], batch_size)
            metrics |= {f"{name}{suffix}": value for name, value in found.items()}
            warnings.append(self.task.sign_of_failure(split, outputs[suffix]))

        report = self.task.report(splits[""], outputs[""])

        def keep(directory):
            self.task.keep(metrics)
            if report:
                files.write_text(os.path.join(directory, evaluation.REPORT), report)

        return Evaluation(metrics, tuple(warnings), keep, report=report)

    def metric_names(self):
        """Names of the metrics of an evaluation: list of str."""
        found = self.task.metrics(*self.task.specimen(), 1)
        return [f"{name}{suffix}" for suffix in self._evaluated for name in found]

    def _records(self, split, given=None):
        """Makes the record file of a split, unless it exists and has the same settings and input.

        Args:
            split: str.
            given: the result of `read`; None to read the split if it is needed.

        Returns:
            feature_cache.Cache.
        """

        def make(cache):
            examples, counts = given or self.read(split)
            cache.counts.update(counts)
            data_report.add_texts(cache.counts, [*map(self.task.texts_of, examples)])
            return self._batches(examples, cache)

        text = self.task.text
        cache = feature_cache.cached_records(
            self.record_file(split),
            self.task.schema,
            self.settings | text.tokenizer.casing | {"max_seq_length": text.max_seq_length},
            [*self.sources(split), text.tokenizer.path],
            make,
            add_key=not self.record_files.get(split),
        )
        self._say(split, cache.counts)
        return cache

    def _batches(self, examples, cache):
        """Yields the features of examples, some at a time, and fills the counts of their Cache."""
        counts = cache.counts
        for start in range(0, len(examples), _TOGETHER):
            arrays = self.task.features(examples[start : start + _TOGETHER], counts)
            data_report.add_pieces(counts, arrays, self.task.text.tokenizer)
            if self.task.labels:
                found = self.task.label_counts(arrays).tolist()
                for label, count in zip(self.task.labels, found, strict=True):
                    counts[f"label {label}"] += count
            yield arrays

    def _say(self, split, counts):
        """Prints the oddities of a split, whether it was read now or earlier."""
        for name, note in (self.notes | self.warnings).items():
            if counts[name]:
                start = "Warning: " * (name in self.warnings)
                print(f"{start}{split}: {note.format(counts[name], counts)}")

    # --- Prediction ---

    def read_test_set(self):
        """Reads the examples to predict, so that their errors are reported before training."""
        return self.test_sets

    @functools.cached_property
    def test_sets(self):
        """Dict of suffix -> (DataSet, examples)."""
        found = {}
        for suffix, part in self.parts("test").items():
            examples, counts = part.read("test")
            part._say("test", collections.Counter(counts))
            found[suffix] = (part, examples)
        return found

    def prediction_splits(self):
        """Dict of key -> Split: what is to be predicted."""
        splits, schema = {}, self.task.schema
        for suffix, (part, examples) in self.test_sets.items():
            cache = feature_cache.Cache(part.record_file("test"), collections.Counter())
            schemas.write_records(cache.path, schema, part._batches(examples, cache))
            part._say("test", cache.counts)
            splits[suffix] = Split(input_pipeline.load_arrays(cache.path, schema), examples)
        return splits

    def combined(self, members):
        """The models of an ensemble as one, whose outputs are the means of theirs.

        Args:
            members: list of Predicted.

        Returns:
            Predicted.
        """
        if len(members) == 1:
            return members[0]
        prefixes, steps, outputs, sources = zip(*members, strict=True)
        means = {
            key: {name: np.mean([each[key][name] for each in outputs], axis=0) for name in found}
            for key, found in outputs[0].items()
        }
        steps = " and ".join(map(str, steps))
        return Predicted(", ".join(prefixes), steps, means, " and ".join(sources))

    def write_predictions(self, splits, members, batch_size):
        """Writes the predictions, and prints their metrics.

        Args:
            splits: dict of suffix -> Split, of `prediction_splits`.
            members: list of Predicted, of the models that predict together.
            batch_size: int, of the original's `loss`.
        """
        member = self.combined(members)
        for suffix, split in splits.items():
            warning = self.task.sign_of_failure(split, member.outputs[suffix])
            if warning:
                print(f"Warning: {warning}")
            part, examples = self.test_sets[suffix]
            answers = self.task.answers(split, member.outputs[suffix])
            texts = part.prediction_files(examples, answers)
            for path, text in texts.items():
                files.write_text(path, text)
            count = f"{len(examples)} {self.unit}"
            print(f"Predicted {count} with {member.source}: {', '.join(texts)}")
        if self.labels_of_test is None:
            return
        metrics = self.evaluate(splits, member.outputs, batch_size).metrics
        if metrics:
            key_metric = self.task.key_metric
            evaluation.report_predictions(self.output_dir, metrics, member.step, key_metric)
        else:
            print(
                f"There are no metrics, since the test set has no {self.labels_of_test} to score."
            )


def collapsed(what, found, gold=()):
    """A warning that a model predicts the same for all examples: str, or None.

    Args:
        what: str, what the examples get, for the message.
        found: list of str, the predictions.
        gold: list of the right answers; there is no warning if these are all the same too. Empty if
            they are unknown.
    """
    if len(found) < 2 or len({*found}) > 1 or (gold and len({*gold}) < 2):
        return None
    shown = repr(found[0][:60]) if found[0] else "none"
    return f"all {len(found)} {what} {shown}: {NOT_LEARNT}"


def say_threshold(name, before, now, kept=False):
    """Prints both values of a threshold that another file would replace, or that was replaced.

    Args:
        name: str.
        before: float, tuned earlier.
        now: float, tuned on the file that was scored.
        kept: bool, whether the earlier one stays.
    """
    if before != now:
        what = f"stays {before}, tuned on another file; for this one {now} is best"
        print(f"{name} {what if kept else f'was {before} and is now {now}'}")


# --- Metrics that several tasks have ---


def classes(logits):
    """Predicted classes: logits [n, C] -> ids int [n].

    Metrics, answers and exports use this function, so that they agree. It takes logits, because
    different logits can have equal probabilities in float32.
    """
    return np.argmax(logits, axis=-1)


def cross_entropy(logits, labels):
    """Cross-entropy of each row: logits [n, C], label ids int [n] -> float64 [n]."""
    log_probabilities = scipy.special.log_softmax(np.asarray(logits, np.float64), axis=-1)
    return -log_probabilities[np.arange(len(labels)), labels]


def mean_over_batches(losses, batch_size, weights=None):
    """`loss` of the original's results: the mean of the means of all batches, of any size.

    Args:
        losses: array [n]; the sum, if an example has several losses.
        batch_size: int.
        weights: array [n], how many losses each example has; None for one each.

    Returns:
        float.
    """
    starts = np.arange(0, len(losses), batch_size)
    sizes = np.add.reduceat(np.ones(len(losses)) if weights is None else weights, starts)
    return float(np.mean(np.add.reduceat(losses, starts) / sizes))
