# SPDX-License-Identifier: Apache-2.0
"""The task and the data set of SQuAD 1.1 and 2.0."""

import collections
import dataclasses
import functools
import os
import sys
from typing import ClassVar, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.checkpoints import readers
from albert_tf.checkpoints.run_directory import NoAnswerThreshold, RunDirectory
from albert_tf.errors import UserError
from albert_tf.model import heads, objectives
from albert_tf.options import F1_UNITS, Squad, options_of
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import feature_cache, input_pipeline, schemas
from albert_tf.resolve import Fact
from albert_tf.tasks import base, data_report
from albert_tf.tasks.squad import answers, features, questions, scores
from albert_tf.training import evaluation
from albert_tf.training.splits_and_results import Evaluation, RecordFiles, Split

LABELS = ("start_positions", "end_positions", "is_impossible")
THRESHOLD = "null_score_diff_threshold"
_ANSWERS = {  # options that choose answers, by default as in the training -> when they are read
    field.name: field.metadata["read_by"]
    for field in options_of(Squad)
    if field.metadata["on_record"] == "follow"
    and "do_train" not in (field.metadata["read_by"] or "")
}
EVEN_CHANCE = 0.0  # the no-answer logit at which both cases are equally likely


# --- Which task, and with which checkpoints ---


def choose_version(prefixes, train_file=None, wanted=None):
    """Finds the version of SQuAD from the checkpoints, the flag or the data.

    Args:
        prefixes: list of str, checkpoints to predict with; empty for training.
        train_file: str, questions to train on; read if there are neither checkpoints nor flag.
        wanted: bool or None, --version_2_with_negative.

    Returns:
        (SquadTask or SquadV2Task, the class; resolve.Fact of --version_2_with_negative).

    Raises:
        UserError: a checkpoint has no SQuAD head, or they disagree with each other.
    """
    if not prefixes:
        has_negatives = questions.is_v2(train_file) if wanted is None else wanted
        return VERSIONS[has_negatives], Fact(has_negatives, train_file)
    versions = set()
    for prefix in prefixes:
        shapes = readers.open_reader(prefix).shapes
        found = {version for version in VERSIONS if version.variable in shapes}
        if not found:
            raise UserError(f"{prefix} has no SQuAD head: train first, or give one that has it")
        versions |= found
    if len(versions) > 1:
        raise UserError("--ensemble_dirs must all be of the same version of SQuAD")
    (version,) = versions
    return version, Fact(version.has_negatives, prefixes[0])


def is_read_at_cls(prefixes):
    """Whether models may say at [CLS] that there is no answer: those of transformers.

    Exports of albert_tf for transformers name their task, and are read as their training is.

    Args:
        prefixes: list of str, checkpoints.
    """
    return bool(prefixes) and all(
        each.endswith(".safetensors") and not RunDirectory(os.path.dirname(each)).task
        for each in prefixes
    )


def tuned_threshold(output_dir, prefixes):
    """The threshold for questions without gold answers; prints its source.

    Args:
        output_dir: str, the run's directory. Its threshold comes first if it was tuned for these
            models.
        prefixes: list of str, the checkpoints that predict. The thresholds of several models are
            averaged, as their scores are.

    Returns:
        float.
    """
    folder = RunDirectory(output_dir)
    found = folder.threshold
    # A threshold next to a model belongs to that model: earlier versions did not name checkpoints.
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
    """The NoAnswerThreshold of the model in a RunDirectory: tuned, or that of its training."""
    tuned, settings = folder.threshold, folder.settings
    if tuned and tuned.checkpoints is None:
        return tuned
    given = settings and settings.flags.get(THRESHOLD)
    return None if given is None else NoAnswerThreshold(given, "")


def _named(prefixes):
    """Absolute paths of prefixes, sorted, as in a NoAnswerThreshold."""
    return tuple(sorted(map(files.absolute_path, prefixes)))


# --- The task ------------------------------------------------------------------------------------


class Questions(NamedTuple):
    """Questions to predict, list of SquadExample, and their windows."""

    examples: list
    features: features.Features


class SquadTask(base.Task):
    """Questions about paragraphs, each with an answer: SQuAD 1.1.

    Attributes:
        has_negatives: bool, whether questions may have no answer.
        answer_settings: tuple of str, options of a training that later commands use unless they are
            given.
        variable: str, name of a variable that only checkpoints with the head of this version have.
        reads_cls: bool, whether a version 1 head may say at [CLS] that there is no answer.
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
    shown_metrics = ("exact_match", "f1")
    results_layout = "{first}{rest}{saved}best f1 = {after}\n" + evaluation.RULE
    takes_head = True
    export_folder = "saved_model"

    has_negatives = False
    reads_cls = False
    answer_settings = tuple(name for name, read_by in _ANSWERS.items() if not read_by)
    variable = "cls/squad/output_weights"
    model = heads.SquadV1Model
    predict = staticmethod(answers.predict_v1)

    def __init__(self, text, options, directory):
        self.text, self.options, self.directory = text, options, directory
        self.window_settings = features.WindowSettings(
            text.max_seq_length, options.doc_stride, options.max_query_length
        )
        self.schema = schemas.squad_schema(text.max_seq_length, training=True, **text.sizes)

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
        """Makes Questions from dicts with `question` and `context`."""
        for given in inputs:
            questions.check_not_swapped(given["question"], given["context"])
        found = [
            questions.SquadExample(str(number), given["question"], given["context"])
            for number, given in enumerate(inputs)
        ]
        made = self.questions(found)
        if skipped := made.features.skipped(found):
            print(
                f"{len(skipped)} of {len(found)} questions have no answer, as their context could "
                f"not be aligned with its tokens; the first is number {int(skipped[0]) + 1}",
                file=sys.stderr,
            )
        return made

    def questions(self, examples):
        """Makes Questions from a list of SquadExample."""
        tokenizer = self.text.tokenizer
        given = tokenizer, self.window_settings
        return Questions(examples, features.convert_examples(examples, *given, training=False))

    def features(self, examples, counts=None):
        """Arrays of the windows of Questions."""
        return examples.features.arrays(np.arange(len(examples.features)))

    def texts_of(self, example):
        """The question and the paragraph of a SquadExample: tuple of str."""
        return example.question_text, example.paragraph_text

    def predictions(self, split, outputs):
        """Predictions from the outputs of one model, or of several to be averaged."""
        given = self.options.n_best_size, self.options.max_answer_length
        found = self.predict(*split.content, outputs, *given)
        if self.reads_cls and not self.has_negatives:
            found = answers.with_no_answer(found, *split.content, outputs)
        return found

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
        """Metrics of labelled questions."""
        return scores.evaluate_v1(_gold(examples), predictions.texts(), self.options.f1_unit)

    def known_threshold(self, prefixes):
        """The threshold of checkpoints for questions without gold answers: float or None."""

    # --- Export ---

    def check_export(self, takes_text):
        """Raises UserError for an export that takes text with a WordPiece vocabulary."""
        if takes_text and not self.text.tokenizer.is_sentencepiece:
            raise UserError(
                f"--export_dir: {self.text.tokenizer.path} is WordPiece: add --export_text=false"
            )
        if self.reads_cls:
            print("The export does not read at [CLS] that there is no answer: each gets a span.")

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        # No window has more starts, ends or tokens in an answer.
        return signatures.SquadFunctions(
            model,
            graph_inputs.Paragraphs(tokenizer, self.window_settings),
            min(self.options.n_best_size, self.text.max_seq_length),
            min(self.options.max_answer_length, self.text.max_seq_length),
            self.known_threshold([prefix]),
            answers.NULL_SCORE_WITHOUT_WINDOW,
        )


class SquadV2Task(SquadTask):
    """Questions about paragraphs, which may have no answer: SQuAD 2.0."""

    inputs = ("input_ids", "input_mask", "segment_ids", "p_mask")
    objective = objectives.SQUAD_V2
    shown_metrics = ("exact", "f1", THRESHOLD)

    has_negatives = True
    answer_settings = tuple(_ANSWERS)
    variable = "answer_class/dense_1/kernel"
    model = heads.SquadV2Model
    predict = staticmethod(answers.predict_v2)

    def make_model(self, config, **encoder_options):
        """The model to train, evaluate and predict with."""
        given = self.options
        top = given.start_n_top, given.end_n_top
        return self.model(config, *top, given.dropout_prob, **encoder_options)

    make_served_model = make_model

    def scores(self, examples, predictions):
        """Metrics of labelled questions, null_score_diff_threshold among them."""
        given = self.options.null_score_diff_threshold, self.options.f1_unit
        found = predictions.texts, predictions.null_odds
        return scores.evaluate_run_v2(_gold(examples), *found, *given)

    def known_threshold(self, prefixes):
        """The threshold that is given, or that was tuned: float."""
        given = self.options.null_score_diff_threshold
        return tuned_threshold(self.directory, prefixes) if given is None else given


VERSIONS = (SquadTask, SquadV2Task)


def _gold(examples):
    return {example.qas_id: example.answers for example in examples}


def data_set(task, output_dir):
    """The SquadData of a SquadTask, whose options name the files.

    Args:
        task: SquadTask.
        output_dir: str, for answers and, by default, feature files.
    """
    given, default = task.options, os.path.join(output_dir, "squad_predict.tf_record")
    made = {"train": given.train_feature_file, "dev": given.predict_feature_file or default}
    return SquadData(task, "", output_dir, output_dir, made)


@dataclasses.dataclass(frozen=True)
class SquadData(base.DataSet):
    """Files of questions, of their features and of answers.

    The questions that are evaluated, and those that are predicted, are the split dev.
    """

    notes: ClassVar[dict] = {
        "silent": "{} questions have no text",
        "absent": "{0} questions are taken to have no answer (the first is question "
        "{1[first_absent]})",
        "several": "{} questions have several answers: training takes the first one",
        "searched": "{0} questions have no answer_start in the context: training takes the first "
        "place of the answer's text there, where it is a whole word if possible; {1[ambiguous]} of "
        "these answers occur several times",
        "cut_questions": "{0} of {1[rows]} questions are longer than --max_query_length and lose "
        "their end",
        "skipped": "{0} of {1[rows]} questions are skipped, as their context or, in training, "
        "their answer cannot be aligned with the tokens: *.skipped.txt, next to their features, "
        "lists them",
    }
    warnings: ClassVar[dict] = {
        "astray": "answer_start of {0} questions does not point at the answer's text (the first is "
        "{1[first]}); {1[elsewhere]} of these answers occur elsewhere in their context. Training "
        "takes the characters at answer_start: correct the file",
        "unreachable": "{0} questions only have answers that are not in their context (the first "
        "is {1[first_unreachable]}): predictions for them count as wrong. Correct the file",
        "lost": "{0} answers are not in their context (the first is of question {1[first_lost]}): "
        "these questions are left out of the training. Correct the file",
    }
    unit = "questions"

    # --- Training ---

    def sources(self, split):
        """Path of the file of a split, in a list."""
        given = self.task.options
        return [given.train_file if split == "train" else given.predict_file]

    def read(self, split):
        """The questions of a split, which are read once; no oddities are counted."""
        return self.train_examples if split == "train" else self.examples, {}

    @functools.cached_property
    def train_examples(self):
        """The questions to train on: list of SquadExample."""
        return self._read("train")

    @functools.cached_property
    def examples(self):
        """The questions of --predict_file: list of SquadExample."""
        return self._read("dev")

    def _read(self, split):
        (path,) = self.sources(split)
        found = questions.read_examples(path, training=split == "train")
        self._say(split, questions.oddities(found))
        return found

    @property
    def settings(self):
        """How questions and paragraphs are cut."""
        return dataclasses.asdict(self.task.window_settings)

    def evaluated_on(self):
        """The EvaluatedOn of the evaluations."""
        given, path = self.task.options, self.task.options.predict_file
        settings = {n: getattr(given, n) for n in (*self.task.answer_settings, THRESHOLD)}
        if given.f1_unit != F1_UNITS[0]:
            settings["f1_unit"] = given.f1_unit
        if self.task.chosen_metric:
            settings["best_metric"] = self.task.chosen_metric
        return evaluation.evaluated_on([path], content=files.sha256(path), **settings)

    @functools.cached_property
    def _training_cache(self):
        return self._records("train", (questions.shuffled(self.train_examples), {}))

    def _batches(self, examples, cache):
        """Yields the windows of the training questions, some at a time."""
        tokenizer, settings = self.task.text.tokenizer, self.task.window_settings
        counts, found = cache.counts, features.convert_examples(examples, tokenizer, settings, True)
        counts["skipped"] = features.list_skipped(found, examples, cache.path)
        counts["cut_questions"] = sum(
            len(tokenizer.encode_ids(example.question_text)) > len(ids)
            for example, ids in zip(examples, found.queries, strict=True)
            if len(ids) == settings.max_query_length
        )
        for arrays in found.batches():
            data_report.add_pieces(counts, arrays, tokenizer)
            yield arrays

    @functools.cached_property
    def training_records(self):
        """RecordFiles of the training set, made if they do not exist."""
        path, examples = self._training_cache.path, self.train_examples
        schema = {name: self.task.schema[name] for name in (*self.task.inputs, *LABELS)}
        unanswerable = sum(example.is_impossible for example in examples)
        described = f"{len(examples):,} questions, {unanswerable:,} without answer"
        return RecordFiles([path], schema, f"{self.sources('train')[0]}: {described}", {})

    @functools.cached_property
    def _evaluation_sets(self):
        """The questions that are evaluated, for the report; their features are made elsewhere."""
        cache = feature_cache.Cache(self.record_file("dev"), collections.Counter())
        data_report.add_texts(cache.counts, [*map(self.task.texts_of, self.examples)])
        return {"": (self.examples, cache)}

    # --- Evaluation and prediction ---

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
        content, path = self.task.questions(self.examples), self.record_file("dev")
        schema = schemas.squad_schema(self.task.text.max_seq_length, training=False)
        skipped = features.list_skipped(content.features, self.examples, path)
        schemas.write_records(path, schema, content.features.batches())
        self._say("dev", collections.Counter(skipped=skipped, rows=len(self.examples)))
        return {"": Split(input_pipeline.load_arrays(path, schema), content)}

    def metric_names(self):
        """Names of the metrics of an evaluation: list of str."""
        gold, texts = {"0": ("a",), "1": ()}, {"0": "a", "1": ""}
        if self.task.has_negatives:
            return [*scores.evaluate_run_v2(gold, lambda threshold: texts, {"0": 0.0, "1": 1.0})]
        return [*scores.evaluate_v1({"0": ("a",)}, texts)]

    def evaluate(self, splits, outputs, batch_size):
        """The official scores; the best checkpoint's answers and threshold are kept."""
        predictions = self.task.predictions(splits[""], [outputs[""]])
        metrics = self.task.scores(self.examples, predictions)

        def keep(_directory):
            self._write_answers(predictions, metrics.get(THRESHOLD))
            self._keep_threshold(predictions, metrics, is_best=True)

        texts, gold = predictions.texts(metrics.get(THRESHOLD)), _gold(self.examples)
        warning = base.collapsed("questions get the answer", [*texts.values()], [*gold.values()])
        return Evaluation(metrics, (warning,), keep)

    def write_predictions(self, splits, members, batch_size):
        """Writes the answers, and scores them if all questions have gold answers."""
        found = [member.outputs[""] for member in members]
        prefixes = tuple(member.prefix for member in members)
        predictions = self.task.predictions(splits[""], found)
        if self.is_labelled:
            metrics = self.task.scores(self.examples, predictions)
            threshold = metrics.get(THRESHOLD)
            self._keep_threshold(predictions, metrics, prefixes)
            lines = evaluation.sorted_lines(metrics)
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

    def _keep_threshold(self, predictions, metrics, prefixes=None, is_best=False):
        """Keeps the threshold that an evaluation has tuned, for files without answers.

        The threshold of an ensemble, or of a model in another directory, does not replace the
        threshold of a model in this directory. Neither does a file that is scored later replace a
        threshold that was tuned on another file.

        The threshold in the metrics equals one of the logits, as in the official script. The
        threshold that is kept gives the same answers but equals no logit.
        """
        given, folder = self.task.options, RunDirectory(self.output_dir)
        if THRESHOLD not in metrics or given.null_score_diff_threshold is not None:
            return
        if prefixes == (folder.trained,):
            prefixes = None
        if prefixes and folder.trained:
            print(f"The tuned threshold is not kept: --output_dir holds a model, {folder.trained}.")
            return
        threshold = predictions.robust_threshold(metrics[THRESHOLD])
        before, named = folder.threshold, prefixes and _named(prefixes)
        if before and not is_best:
            is_same_model = before.checkpoints in (None, named)
            kept = is_same_model and before.tuned_on != given.predict_file
            base.say_threshold(THRESHOLD, before.null_score_diff_threshold, threshold, kept)
            if kept:
                return
        folder.write_threshold(NoAnswerThreshold(threshold, given.predict_file, named))

    def check_thresholds(self, prefixes):
        """Raises UserError for a damaged threshold file, which later steps would read too late."""
        if self.task.has_negatives and self.task.options.null_score_diff_threshold is None:
            for directory in (self.output_dir, *map(os.path.dirname, prefixes)):
                _ = RunDirectory(directory).threshold
