# SPDX-License-Identifier: Apache-2.0
"""The task and the data set of SQuAD 1.1 and 2.0."""

import dataclasses
import functools
import os
from typing import NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import readers, run_directory
from albert_tf.checkpoints.run_directory import RunDirectory, Threshold
from albert_tf.errors import UserError
from albert_tf.model import heads, objectives
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import feature_cache, input_pipeline, schemas
from albert_tf.tasks import base
from albert_tf.tasks.squad import answers, features, questions, scores
from albert_tf.training import evaluation
from albert_tf.training.task import Evaluation, RecordFiles, Split

LABELS = ("start_positions", "end_positions", "is_impossible")
THRESHOLD = "null_score_diff_threshold"
EVEN_CHANCE = 0.0  # the no-answer logit at which both cases are equally likely


# --- Which task, and with which checkpoints ---


def choose_version(prefixes, train_file=None, wanted=None):
    """Finds the version of SQuAD from the checkpoints, the flag or the data.

    Args:
        prefixes: list of str, checkpoints to predict with; empty for training.
        train_file: str, questions to train on; read if there are neither checkpoints nor flag.
        wanted: bool or None, --version_2_with_negative.

    Returns:
        SquadTask or SquadV2Task, the class.

    Raises:
        UserError: a checkpoint has no SQuAD head, or they disagree with each other or the flag.
    """
    if not prefixes:
        has_negatives = questions.is_v2(train_file) if wanted is None else wanted
        return SquadV2Task if has_negatives else SquadTask
    versions = []
    for prefix in prefixes:
        shapes = readers.open_reader(prefix).shapes
        found = [version for version in VERSIONS if version.variable in shapes]
        if not found:
            raise UserError(
                f"{prefix} has no SQuAD head, so it cannot answer questions: train first, or give "
                "a checkpoint that was trained on SQuAD"
            )
        versions += found
    if versions.count(versions[0]) != len(versions):
        raise UserError("--ensemble_dirs must all be of the same version of SQuAD")
    version = versions[0]
    if wanted not in (None, version.has_negatives):
        raise UserError(
            f"--version_2_with_negative={str(wanted).lower()}, but {prefixes[0]} was trained "
            f"for version {1 + version.has_negatives} of SQuAD"
        )
    return version


def tuned_threshold(output_dir, prefixes):
    """The threshold for questions without gold answers; prints its source.

    Args:
        output_dir: str, the run's directory. Its threshold comes first if it is of these models.
        prefixes: list of str, the checkpoints that predict. The thresholds of several models are
            averaged, as their scores are.

    Returns:
        float.
    """
    folder = RunDirectory(output_dir)
    found = folder.threshold
    # One next to a model belongs to that model. Earlier versions did not name the checkpoints.
    if found and not folder.trained and found.checkpoints in (None, _named(prefixes)):
        found = [found]
    else:
        found = [threshold_of(RunDirectory(os.path.dirname(each))) for each in prefixes]
    if None in found:
        threshold, source = EVEN_CHANCE, "none was tuned: an even chance"
    else:
        threshold = float(np.mean([each.null_score_diff_threshold for each in found]))
        source = ", ".join(dict.fromkeys(each.tuned_on for each in found))
        source = f"tuned on {source}" if source else "given for the training"
    print(f"null_score_diff_threshold = {threshold} ({source})")
    return threshold


def threshold_of(folder):
    """The Threshold of the model in a RunDirectory: tuned, or else given for its training."""
    tuned, settings = folder.threshold, folder.settings
    if tuned and tuned.checkpoints is None:
        return tuned
    given = settings and settings.flags.get(THRESHOLD)
    return None if given is None else Threshold(given, "")


def _named(prefixes):
    """Prefixes as a Threshold has them: absolute, in one order."""
    return tuple(sorted(each if "://" in each else os.path.abspath(each) for each in prefixes))


# --- The task ------------------------------------------------------------------------------------


class Questions(NamedTuple):
    """Questions to predict, list of SquadExample, and their windows."""

    examples: list
    features: features.Features


class SquadTask(base.Task):
    """Questions about paragraphs, each with an answer: SQuAD 1.1.

    Attributes:
        has_negatives: bool, whether questions may have no answer.
        answer_settings: tuple of str, options of a training that later answers follow unless others
            are given.
        variable: str, name of a variable that only checkpoints with the head of this version have.
        model: class in `heads`.
        predict: callable in `answers`.

    Args:
        text: TextInput, made for all models of an ensemble.
        options: albert_tf.options.Squad, how paragraphs are cut and questions answered.
        directory: str, the run's, where the tuned threshold is kept.
    """

    name = "squad"
    input_names = ("question", "context")
    labels = None
    objective = objectives.SQUAD_V1
    key_metric = "f1"
    shown_figures = ("exact_match", "f1")
    results_layout = "{first}{rest}{saved}best f1 = {after}\n" + evaluation.RULE
    takes_head = True
    export_folder = "saved_model"

    has_negatives = False
    answer_settings = ("n_best_size", "max_answer_length")
    variable = "cls/squad/output_weights"
    model = heads.SquadV1Model
    predict = staticmethod(answers.predict_v1)

    def __init__(self, text, options, directory):
        if options.null_score_diff_threshold is not None and not self.has_negatives:
            raise UserError(f"--{THRESHOLD} is for version 2, and the model is of 1.1")
        self.text, self.options, self.directory = text, options, directory
        self.windows = features.WindowSettings(
            text.max_seq_length, options.doc_stride, options.max_query_length
        )

    def make_model(self, config, **encoder_options):
        """The model to train, evaluate and predict with."""
        length = self.text.max_seq_length
        return self.model(config, predicted_length=length, **encoder_options)

    def make_served_model(self, config):
        """The model to export."""
        return self.model(config)

    def target(self, row):
        """The answer in a window, from its features: str."""
        first, last = row["start_positions"][0], row["end_positions"][0]
        ids = row["input_ids"][first : last + 1].tolist()
        return " ".join(self.text.tokenizer.convert_ids_to_tokens(ids))

    # --- Prediction ---

    def examples(self, inputs):
        """The Questions of dicts of `question` and `context`."""
        found = [
            questions.SquadExample(str(number), given["question"], given["context"])
            for number, given in enumerate(inputs)
        ]
        return self.questions(found)

    def questions(self, examples):
        """The Questions of a list of SquadExample."""
        tokenizer = self.text.tokenizer
        windows = features.convert_examples(examples, tokenizer, self.windows, training=False)
        return Questions(examples, windows)

    def features(self, examples, counts=None):
        """Arrays of the windows of Questions."""
        return examples.features.arrays(np.arange(len(examples.features)))

    def predictions(self, split, outputs):
        """Predictions from the outputs of one model, or of several to be averaged."""
        return self.predict(
            *split.content, outputs, self.options.n_best_size, self.options.max_answer_length
        )

    def answers(self, split, outputs):
        """Answers as dicts: see `Predictions.answers`."""
        examples, windows = split.content
        if not len(windows):  # the model was given nothing
            score = {"no_answer_score": answers.NULL_SCORE_WITHOUT_WINDOW}
            none = {"answer": "", "probability": 0.0} | (score if self.has_negatives else {})
            return [dict(none) for _ in examples]
        predictions = self.predictions(split, [outputs])
        return predictions.answers(self.options.null_score_diff_threshold)

    def scores(self, examples, predictions):
        """Figures of labelled questions."""
        return scores.evaluate_v1(_gold(examples), predictions.texts())

    def known_threshold(self, prefixes):
        """The threshold for questions without gold answers, of checkpoints: float or None."""

    # --- Export ---

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        # No window has more starts, ends or pieces in an answer.
        return signatures.SquadFunctions(
            model,
            graph_inputs.Paragraphs(tokenizer, self.windows),
            min(self.options.n_best_size, self.text.max_seq_length),
            min(self.options.max_answer_length, self.text.max_seq_length),
            self.known_threshold([prefix]),
            answers.NULL_SCORE_WITHOUT_WINDOW,
        )


class SquadV2Task(SquadTask):
    """Questions about paragraphs, which may have no answer: SQuAD 2.0."""

    inputs = ("input_ids", "input_mask", "segment_ids", "p_mask")
    objective = objectives.SQUAD_V2
    shown_figures = ("exact", "f1", THRESHOLD)

    has_negatives = True
    answer_settings = ("n_best_size", "max_answer_length", "start_n_top", "end_n_top")
    variable = "answer_class/dense_1/kernel"
    model = heads.SquadV2Model
    predict = staticmethod(answers.predict_v2)

    def make_model(self, config, **encoder_options):
        """The model to train, evaluate and predict with."""
        names = ("start_n_top", "end_n_top", "dropout_prob")
        given = {name: getattr(self.options, name) for name in names}
        return self.model(config, **given, **encoder_options)

    make_served_model = make_model

    def scores(self, examples, predictions):
        """Figures of labelled questions, null_score_diff_threshold among them."""
        threshold = self.options.null_score_diff_threshold
        return scores.evaluate_run_v2(
            _gold(examples), predictions.texts, predictions.null_odds, threshold
        )

    def known_threshold(self, prefixes):
        """The threshold that is given, or that was tuned: float."""
        given = self.options.null_score_diff_threshold
        return tuned_threshold(self.directory, prefixes) if given is None else given


VERSIONS = (SquadTask, SquadV2Task)


def _gold(examples):
    return {example.qas_id: example.answers for example in examples}


@dataclasses.dataclass(frozen=True)
class SquadData:
    """Files of questions, of their features and of answers: a tasks.base.DataSet.

    Attributes:
        task: SquadTask.
        output_dir: str, for answers and, by default, feature files.
    """

    task: SquadTask
    output_dir: str

    def record_file(self, purpose):
        """Path of the features to train or predict; a default path for training gets a key."""
        given = getattr(self.task.options, f"{purpose}_feature_file")
        return given or os.path.join(self.output_dir, f"squad_{purpose}.tf_record")

    def _read(self, purpose):
        path = getattr(self.task.options, f"{purpose}_file")
        found = questions.read_examples(path, training=purpose == "train")
        questions.report_oddities(found, path)
        return found

    # --- Training ---

    @functools.cached_property
    def train_examples(self):
        """The questions to train on: list of SquadExample."""
        return self._read("train")

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""
        given = self.task.options
        return [given.train_file] + [given.predict_file] * do_eval

    def evaluated_on(self):
        """The EvaluatedOn of the evaluations."""
        given, path = self.task.options, self.task.options.predict_file
        names = (*self.task.answer_settings, THRESHOLD)
        settings = {name: getattr(given, name) for name in names}
        return evaluation.evaluated_on([path], content=run_directory.sha256(path), **settings)

    @functools.cached_property
    def training_records(self):
        """RecordFiles of the training set, made if they are not there."""
        examples, text = questions.shuffled(self.train_examples), self.task.text
        given, windows = self.task.options, self.task.windows
        schema = schemas.squad_schema(text.max_seq_length, training=True, **text.sizes)

        def make(cache):
            found = features.convert_examples(examples, text.tokenizer, windows, training=True)
            cache.counts["skipped"] = features.list_skipped(found, examples, cache.path)
            return found.batches()

        cache = feature_cache.cached_records(
            self.record_file("train"),
            schema,
            dataclasses.asdict(windows) | text.tokenizer.casing,
            [given.train_file, text.tokenizer.path],
            make,
            add_key=not given.train_feature_file,
        )
        _say_skipped(cache.counts["skipped"], examples, cache.path)
        unanswerable = sum(example.is_impossible for example in examples)
        return RecordFiles(
            [cache.path],
            {name: schema[name] for name in (*self.task.inputs, *LABELS)},
            f"{given.train_file}: {len(examples):,} questions, {unanswerable:,} without answer",
            {},
        )

    # --- Evaluation and prediction ---

    @functools.cached_property
    def examples(self):
        """The questions of --predict_file: list of SquadExample."""
        return self._read("predict")

    @functools.cached_property
    def is_labelled(self):
        """Whether all questions to predict can be scored; prints how many cannot."""
        count, version_2 = len(self.examples), self.task.has_negatives
        without = questions.count_unlabelled(self.examples, version_2)
        if without:
            print(f"{without} of {count} questions have no gold answers, so nothing is scored.")
        return not without

    def read_test_set(self):
        """Reads what is to be predicted, so that errors in it come before the training."""
        return self.examples

    def prediction_splits(self):
        """The questions of --predict_file."""
        return self._splits

    evaluation_splits = prediction_splits

    @functools.cached_property
    def _splits(self):
        content, path = self.task.questions(self.examples), self.record_file("predict")
        schema = schemas.squad_schema(self.task.text.max_seq_length, training=False)
        schemas.write_records(path, schema, content.features.batches())
        count = features.list_skipped(content.features, self.examples, path)
        _say_skipped(count, self.examples, path)
        return {"": Split(input_pipeline.load_arrays(path, schema), content)}

    def evaluate(self, splits, outputs, batch_size):
        """The official scores; the best checkpoint's answers and threshold are kept."""
        predictions = self.task.predictions(splits[""], [outputs[""]])
        figures = self.task.scores(self.examples, predictions)

        def keep():
            self._write_answers(predictions, figures.get(THRESHOLD))
            self._keep_threshold(predictions, figures)

        return Evaluation(figures, keep=keep)

    def write_predictions(self, splits, members, batch_size):
        """Writes the answers, and scores them if all questions have gold answers."""
        found = [member.outputs[""] for member in members]
        prefixes = tuple(member.prefix for member in members)
        predictions = self.task.predictions(splits[""], found)
        if self.is_labelled:
            figures = self.task.scores(self.examples, predictions)
            threshold = figures.get(THRESHOLD)
            self._keep_threshold(predictions, figures, prefixes)
            lines = evaluation.sorted_lines(figures)
            if len(members) == 1:
                lines.append(f"best perf happened at step: {members[0].step}")
            evaluation.add(self.output_dir, "\n".join(lines) + "\n")
            print("\n".join(lines))
        else:
            threshold = self.task.known_threshold(prefixes)
        self._write_answers(predictions, threshold)
        print(f"Answered {len(self.examples)} questions: {self.output_dir}/predictions.json")

    def _write_answers(self, predictions, null_threshold):
        """Writes the original's files of answers."""
        for name, text in predictions.files(null_threshold).items():
            files.write_text(os.path.join(self.output_dir, name), text)

    def _keep_threshold(self, predictions, figures, prefixes=None):
        """Keeps the threshold that an evaluation has tuned, for files without answers.

        That of an ensemble, or of a model from elsewhere, does not replace that of a model here.

        The threshold in the figures equals one of the logits, as in the official script. The
        threshold that is kept gives the same answers but equals no logit.
        """
        given, folder = self.task.options, RunDirectory(self.output_dir)
        if THRESHOLD not in figures or given.null_score_diff_threshold is not None:
            return
        if prefixes == (folder.trained,):
            prefixes = None
        if prefixes and folder.trained:
            print(f"The tuned threshold is not kept: --output_dir holds a model, {folder.trained}.")
            return
        threshold = predictions.robust_threshold(figures[THRESHOLD])
        named = prefixes and _named(prefixes)
        folder.write_threshold(Threshold(threshold, given.predict_file, named))

    def check_thresholds(self, prefixes):
        """Raises UserError for a damaged threshold file, otherwise read only at the end."""
        if self.task.has_negatives and self.task.options.null_score_diff_threshold is None:
            for directory in (self.output_dir, *map(os.path.dirname, prefixes)):
                _ = RunDirectory(directory).threshold


def _say_skipped(count, examples, path):
    if count:
        print(
            f"{count} of {len(examples)} questions are skipped, as paragraph or answer could not "
            f"be aligned with the pieces: {path}.skipped.txt"
        )
