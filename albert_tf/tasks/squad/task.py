# SPDX-License-Identifier: Apache-2.0
"""The task object of SQuAD 1.1 and 2.0."""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from albert_tf.checkpoints import readers, run_directory
from albert_tf.checkpoints.run_directory import RunDirectory, Threshold
from albert_tf.errors import UserError
from albert_tf.model import heads, objectives
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import input_pipeline, schemas
from albert_tf.tasks.squad import answers as squad_predictions
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.tasks.squad import scores as squad_metrics
from albert_tf.tasks.squad import thresholds as squad_thresholds
from albert_tf.tasks.text_input import TextInput
from albert_tf.training import results
from albert_tf.training.task import Evaluation, RecordFiles, Split

LABELS = ("start_positions", "end_positions", "is_impossible")
DEFAULT_RECORDS = {"train": "squad_train.tf_record", "predict": "squad_predict.tf_record"}
THRESHOLD = "null_score_diff_threshold"


# --- Versions ------------------------------------------------------------------------------------


class Version(NamedTuple):
    """What differs between the versions of SQuAD.

    Attributes:
        has_negatives: bool, whether questions may have no answer.
        variable: str, name of one in checkpoints of this version's head alone.
        inputs: tuple of str, features that the model reads.
        model: class in `heads`.
        options: dict from argument of the model to the `Settings` that gives its value.
        served_options: dict of arguments in place of those when the model is exported.
        objective: objectives.Objective.
        predict: callable in `answers`.
    """

    has_negatives: bool
    variable: str
    inputs: tuple
    model: type
    options: dict
    served_options: dict
    objective: objectives.Objective
    predict: Callable


VERSION_1 = Version(
    has_negatives=False,
    variable="cls/squad/output_weights",
    inputs=("input_ids", "input_mask", "segment_ids"),
    model=heads.SquadV1Model,
    options={"predicted_length": "max_seq_length"},
    served_options={"predicted_length": None},
    objective=objectives.SQUAD_V1,
    predict=squad_predictions.predict_v1,
)
VERSION_2 = Version(
    has_negatives=True,
    variable="answer_class/dense_1/kernel",
    inputs=("input_ids", "input_mask", "segment_ids", "p_mask"),
    model=heads.SquadV2Model,
    options={name: name for name in ("start_n_top", "end_n_top", "dropout_prob")},
    served_options={},
    objective=objectives.SQUAD_V2,
    predict=squad_predictions.predict_v2,
)


def choose_version(prefixes, train_file=None, wanted=None):
    """The version that the flag says, or else the data or the checkpoints.

    Args:
        prefixes: list of str, checkpoints to predict with; none to train.
        train_file: str, questions to train on, where there are no checkpoints.
        wanted: bool or None, --version_2_with_negative.

    Returns:
        Version.

    Raises:
        UserError: a checkpoint has no SQuAD head, or they disagree with each other or the flag.
    """
    if not prefixes:
        has_negatives = squad_questions.is_v2(train_file) if wanted is None else wanted
        return VERSION_2 if has_negatives else VERSION_1
    version = _version_of(prefixes)
    if wanted not in (None, version.has_negatives):
        raise UserError(
            f"--version_2_with_negative={str(wanted).lower()}, but {prefixes[0]} was trained "
            f"for version {1 + version.has_negatives} of SQuAD"
        )
    return version


def _version_of(prefixes):
    """The version for which all these checkpoints were trained."""
    versions = []
    for prefix in prefixes:
        shapes = readers.open_reader(prefix).shapes
        found = [version for version in (VERSION_1, VERSION_2) if version.variable in shapes]
        if not found:
            raise UserError(
                f"{prefix} has no SQuAD head, so it cannot answer questions: train first, or give "
                "a checkpoint that was trained on SQuAD"
            )
        versions += found
    if versions.count(versions[0]) != len(versions):
        raise UserError("--ensemble_dirs must all be of the same version of SQuAD")
    return versions[0]


def trained_checkpoints(output_dir, ensemble_dirs=(), given=None):
    """Prefixes of the checkpoints to predict with: one, or one of each ensemble directory.

    Args:
        output_dir: str, the run's directory.
        ensemble_dirs: sequence of str, directories of runs to predict with in its place.
        given: str or None, a trained model to take where output_dir holds none.

    Raises:
        UserError: there is none, or one of them is no checkpoint.
    """
    directories = ensemble_dirs or [output_dir]
    found = [run_directory.RunDirectory(directory).trained for directory in directories]
    if found == [None] and not ensemble_dirs and given:
        return [run_directory.find(run_directory.prefer_best(given))]
    for directory, prefix in zip(directories, found, strict=True):
        if prefix is None:
            raise UserError(
                f"{directory} holds no checkpoint to predict with: train first, or give a trained "
                "model as --init_checkpoint"
            )
    return found


def last_step(directory, timeout):
    """The step after which evaluation need not wait for another checkpoint.

    Args:
        directory: str, the run's.
        timeout: float, seconds to wait for another.
    """
    numbered = run_directory.numbered_in(directory)
    if timeout or not numbered:
        return sys.maxsize  # nobody can tell, so the timeout ends it
    return numbered[-1][0]


# --- The task ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Settings:
    """How questions are answered, named as the flags.

    Attributes:
        max_seq_length: int, T.
        n_best_size: int, longest list of answers to a question.
        max_answer_length: int, in pieces.
        start_n_top, end_n_top: int, version 2: size of the beam.
        dropout_prob: float, version 2: dropout before the no-answer logit.
        null_score_diff_threshold: float or None, version 2.
    """

    max_seq_length: int
    n_best_size: int
    max_answer_length: int
    start_n_top: int
    end_n_top: int
    dropout_prob: float
    null_score_diff_threshold: float | None

    def __post_init__(self):
        threshold = self.null_score_diff_threshold
        if not squad_metrics.is_number(threshold or 0.0):
            raise UserError(
                f"--{THRESHOLD} must be a number, such as -1e9 for no answers and 1e9 for "
                f"answers everywhere. Received: {threshold}"
            )


class Questions(NamedTuple):
    """Questions to predict: examples, and their windows as squad_features.Features."""

    examples: list
    features: squad_features.Features


@dataclasses.dataclass(frozen=True)
class SquadTask:
    """A task and its data set: questions about paragraphs.

    Attributes:
        version: Version.
        settings: Settings.
        text: TextInput, of the smallest model of an ensemble.
        windows: squad_features.WindowSettings.
        output_dir: str, where answers go, and feature files by default.
        train_file, predict_file: str or None, the questions.
        record_files: dict from "train" and "predict" to the path of a file of features, or None.
    """

    version: Version
    settings: Settings
    text: TextInput
    windows: squad_features.WindowSettings
    output_dir: str
    train_file: str | None
    predict_file: str | None
    record_files: dict

    kind = None  # the variables of its checkpoints tell
    input_names = ("question", "context")
    labels = None
    key_metric = "f1"
    results_layout = "{first}{rest}{saved}best f1 = {after}\n" + results.RULE
    takes_head = True
    export_folder = "saved_model"
    choices = 1  # sequences of a window

    def __post_init__(self):
        if self.settings.null_score_diff_threshold is not None and not self.version.has_negatives:
            raise UserError(f"--{THRESHOLD} is for version 2, and the model is of 1.1")

    @property
    def inputs(self):
        """Features that the model reads."""
        return self.version.inputs

    @property
    def objective(self):
        """The loss of the training."""
        return self.version.objective

    @property
    def shown_figures(self):
        """The main figures."""
        return ("exact", "f1", THRESHOLD) if self.version.has_negatives else ("exact_match", "f1")

    def _options(self):
        options = self.version.options.items()
        return {argument: getattr(self.settings, name) for argument, name in options}

    def make_model(self, config, **encoder_options):
        """The model of the version."""
        return self.version.model(config, **self._options(), **encoder_options)

    def record_file(self, purpose):
        """Path of the features to train or to predict."""
        default = os.path.join(self.output_dir, DEFAULT_RECORDS[purpose])
        return self.record_files[purpose] or default

    def _schema(self, training, names):
        schema = schemas.squad_schema(self.text.max_seq_length, training, **self.text.sizes)
        return {name: schema[name] for name in names}

    def _feature_arguments(self, purpose, source):
        return {
            "path": self.record_file(purpose),
            "tokenizer": self.text.tokenizer,
            "settings": self.windows,
            "inputs": [source, self.text.vocabulary_file],
            "add_key": not self.record_files[purpose],
        }

    # --- Training ---

    @functools.cached_property
    def train_examples(self):
        """The questions to train on: list of SquadExample."""
        found = squad_questions.read_examples(self.train_file, training=True)
        squad_questions.report_oddities(found, self.train_file)
        return found

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""
        return [self.train_file] + [self.predict_file] * do_eval

    def training_records(self):
        """RecordFiles of the training set, made if they are not there."""
        examples = squad_questions.shuffled(self.train_examples)
        arguments = self._feature_arguments("train", self.train_file)
        path = squad_features.write_training_records(examples=examples, **arguments)
        schema = self._schema(True, (*self.inputs, *LABELS))
        unanswerable = sum(example.is_impossible for example in examples)
        described = (
            f"{self.train_file}: {len(examples):,} questions, {unanswerable:,} without answer"
        )
        return RecordFiles([path], schema, described, {})

    @property
    def task(self):
        """The task of this data set: itself."""
        return self

    def target(self, row):
        """The answer in a window, from its features: str."""
        first, last = row["start_positions"][0], row["end_positions"][0]
        pieces = self.text.tokenizer.convert_ids_to_tokens(
            row["input_ids"][first : last + 1].tolist()
        )
        return " ".join(pieces)

    # --- Evaluation and prediction ---

    @functools.cached_property
    def questions(self):
        """The questions of --predict_file: list of SquadExample."""
        found = squad_questions.read_examples(self.predict_file, training=False)
        squad_questions.report_oddities(found, self.predict_file)
        return found

    @functools.cached_property
    def is_labelled(self):
        """Whether all questions to predict can be scored."""
        return not self._without_answers

    @functools.cached_property
    def _without_answers(self):
        return squad_questions.unlabelled(self.questions, self.version.has_negatives)

    def read_test_set(self):
        """Reads what is to be predicted, so that errors in it come before the training."""
        return self.questions

    def evaluation_splits(self):
        """The questions of --predict_file."""
        return self.prediction_splits()

    def prediction_splits(self):
        """The questions of --predict_file."""
        return self._splits

    @functools.cached_property
    def _splits(self):
        arguments = self._feature_arguments("predict", self.predict_file)
        features, path = squad_features.prediction_features(examples=self.questions, **arguments)
        arrays = input_pipeline.load_arrays(path, self._schema(False, ("unique_ids", *self.inputs)))
        without = self._without_answers
        if without:
            count = len(self.questions)
            print(f"{len(without)} of {count} questions have no gold answers: no scores.")
        return {"": Split(arrays, Questions(self.questions, features))}

    def examples(self, inputs):
        """The questions of dicts of `question` and `context`, with their windows."""
        examples = [
            squad_questions.SquadExample(str(number), given["question"], given["context"])
            for number, given in enumerate(inputs)
        ]
        features = squad_features.convert_examples(
            examples, self.text.tokenizer, self.windows, training=False
        )
        return Questions(examples, features)

    def features(self, questions):
        """Arrays of the windows of Questions."""
        batches = list(questions.features.batches(max(len(questions.features), 1)))
        return batches[0] if batches else dict.fromkeys(self.inputs, np.zeros([0, 1], np.int32))

    def answers(self, split, outputs):
        """What is said of each question: dicts, as `Predictions.answers`."""
        if not len(split.content.features):  # the model was given nothing
            found = {"answer": "", "probability": 0.0}
            if self.version.has_negatives:
                found["no_answer_score"] = squad_predictions.NULL_SCORE_WITHOUT_WINDOW
            return [dict(found) for _ in split.content.examples]
        predictions = self.predictions(split, [outputs])
        return predictions.answers(self.settings.null_score_diff_threshold)

    def predictions(self, split, outputs):
        """Predictions from the outputs of one model, or of several to be averaged."""
        ids = {"unique_ids": split.arrays["unique_ids"]}
        return self.version.predict(
            *split.content,
            [found | ids for found in outputs],
            self.settings.n_best_size,
            self.settings.max_answer_length,
        )

    def _scores(self, predictions):
        """Figures of labelled questions, null_score_diff_threshold among them in version 2."""
        gold = {example.qas_id: example.answers for example in self.questions}
        if not self.version.has_negatives:
            return squad_metrics.evaluate_v1(gold, predictions.texts())
        return squad_metrics.evaluate_run_v2(
            gold, predictions.texts, predictions.null_odds, self.settings.null_score_diff_threshold
        )

    def evaluate(self, splits, outputs, batch_size):
        """The official scores; the best checkpoint's answers and threshold are kept."""
        predictions = self.predictions(splits[""], [outputs[""]])
        figures = self._scores(predictions)

        def keep():
            self._write_answers(predictions, figures.get(THRESHOLD))
            self._keep_threshold(predictions, figures)

        return Evaluation(figures, keep=keep)

    def write_predictions(self, splits, members, batch_size):
        """Writes the answers, and scores them where that can be."""
        predictions = self.predictions(splits[""], [member.outputs[""] for member in members])
        threshold = None
        if self.is_labelled:
            figures = self._scores(predictions)
            threshold = figures.get(THRESHOLD)
            self._keep_threshold(predictions, figures)
            lines = results.sorted_lines(figures)
            if len(members) == 1:
                lines.append(f"best perf happened at step: {members[0].step}")
            results.add(self.output_dir, "\n".join(lines) + "\n")
            print("\n".join(lines))
        elif self.version.has_negatives:
            threshold = self._known_threshold([member.prefix for member in members])
        self._write_answers(predictions, threshold)
        print(f"Answered {len(self.questions)} questions: {self.output_dir}/predictions.json")

    def _write_answers(self, predictions, null_threshold):
        """Writes the original's files of answers."""
        named = {
            "predictions.json": predictions.texts(null_threshold),
            "nbest_predictions.json": predictions.nbest,
        }
        if predictions.null_odds is not None:
            named["null_odds.json"] = predictions.null_odds
        for name, values in named.items():
            squad_predictions.write_json(os.path.join(self.output_dir, name), values)

    def _keep_threshold(self, predictions, figures):
        """Keeps the threshold that was tuned in an evaluation, for files without answers.

        The figures' own is one of the logits, as in the official script; the one to keep gives the
        same answers and is none of them.
        """
        if THRESHOLD in figures and self.settings.null_score_diff_threshold is None:
            threshold = predictions.robust_threshold(figures[THRESHOLD])
            RunDirectory(self.output_dir).write_threshold(Threshold(threshold, self.predict_file))

    def _known_threshold(self, prefixes):
        """The threshold for questions without gold answers, of these checkpoints (float)."""
        given = self.settings.null_score_diff_threshold
        return squad_thresholds.known(self.output_dir, prefixes) if given is None else given

    def check_thresholds(self, prefixes):
        """Raises UserError for a damaged file with a threshold, which is read after hours only."""
        if self.version.has_negatives and self.settings.null_score_diff_threshold is None:
            for directory in (self.output_dir, *map(os.path.dirname, prefixes)):
                _ = RunDirectory(directory).threshold

    # --- Export ---

    def make_served_model(self, config):
        """The model to export."""
        return self.version.model(config, **self._options() | self.version.served_options)

    def served_functions(self, model, tokenizer, prefix):
        """What is served of a model."""
        # No window has more starts, ends or pieces in an answer.
        answers = signatures.AnswerSettings(
            min(self.settings.n_best_size, self.text.max_seq_length),
            min(self.settings.max_answer_length, self.text.max_seq_length),
            self._known_threshold([prefix]) if self.version.has_negatives else None,
        )
        return signatures.SquadFunctions(
            model, graph_inputs.Paragraphs(tokenizer, self.windows), answers
        )
