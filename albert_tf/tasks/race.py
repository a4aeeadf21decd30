# SPDX-License-Identifier: Apache-2.0
"""RACE: questions with options about passages.

Paper: section 4.2 (RACE). The dataset has two levels, middle and high school, and four options.
Files of the same form, and tables with a question in each row, may have any number of options, and
questions with fewer than others.
"""

import dataclasses
import itertools
import os
import re
import reprlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.errors import UserError, parse_json
from albert_tf.model import heads, objectives
from albert_tf.publish import graph_inputs, signatures
from albert_tf.publish.graph_inputs import GAP, GAPS
from albert_tf.records import schemas
from albert_tf.tasks import base, data_report, json_file, question_tables, split_files, tables
from albert_tf.text.sequences import NUM_SPECIALS, pack_segments
from albert_tf.training import evaluation
from albert_tf.training.splits_and_results import Split

LEVELS = ("middle", "high")
LETTERS = question_tables.LETTERS
NUM_OPTIONS = 4  # of RACE
MOST_OPTIONS = len(LETTERS)


class Example(NamedTuple):
    """One question.

    Attributes:
        passage_id: str, shared by all questions of a passage.
        question: int, number of the question in its passage, from 1.
        level: str, middle or high; "" in tables.
        context: str, the passage.
        endings: tuple of str, the question with each of its options.
        label: int from 0, or None where the answer is not known.
    """

    passage_id: str
    question: int
    level: str
    context: str
    endings: tuple[str, ...]
    label: int | None


# === Reading ===


def input_files(data_dir, split, levels=LEVELS):
    """Files of a split: for each level all.txt, or else every .txt file, by `tables.order`.

    Args:
        data_dir: str, directory that holds the folder RACE, or else tables, which have no levels.
        split: str, train, dev or test.
        levels: tuple of str, of LEVELS.

    Returns:
        list of (level, path).

    Raises:
        UserError: a level has no file.
    """
    if own_splits(data_dir):
        if levels != LEVELS:
            raise UserError(
                f"--{levels[0]}_only chooses a level of RACE, but --data_dir={data_dir} has "
                "tables, which have no levels: leave it out"
            )
        return [("", split_files.find(data_dir, split, split_files.OWN[split]))]
    found_files = []
    for level in levels:
        folder = os.path.join(data_dir, "RACE", split, level)
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
        found = [
            os.path.join(folder, name)
            for name in sorted(names, key=lambda name: tables.order(name.removesuffix(".txt")))
            if name.endswith(".txt") and not name.startswith(".")
        ]
        if not found:
            raise UserError(
                f"no .txt file in {folder}: check --data_dir, or give --middle_only or --high_only"
            )
        whole = os.path.join(folder, "all.txt")
        found_files += [(level, path) for path in ([whole] if whole in found else found)]
    return found_files


def own_splits(data_dir):
    """The splits of which a directory without the folder RACE has a user's own tables: list."""
    names = tf.io.gfile.listdir(data_dir) if tf.io.gfile.isdir(data_dir) else []
    splits = [split for split, own in split_files.OWN.items() if not {*own}.isdisjoint(names)]
    return [] if tf.io.gfile.isdir(os.path.join(data_dir, "RACE")) else splits


def read_examples(data_dir, split, tokenizer, levels=LEVELS, most_options=MOST_OPTIONS):
    """Reads the questions of a split; both layouts are understood.

    The original's all.txt has one JSON object a line; the distributed archive one file each.

    Args:
        data_dir: str, directory that holds the folder RACE.
        split: str, train, dev or test. Only test may lack answers, and then all of them.
        tokenizer: FullTokenizer, whose `normalize` cleans passages, questions and options.
        levels: tuple of str, of LEVELS.
        most_options: int.

    Returns:
        list of Example.

    Raises:
        UserError: a file is missing or damaged; the message names it and the question.
    """
    examples, paths = [], input_files(data_dir, split, levels)
    has_own = split != "train" and "train" in own_splits(data_dir)
    like = input_files(data_dir, "train", levels)[0][1] if has_own else None
    for level, path in paths:
        for place, passage in _passages(path, like=like):
            if not level and split != "test" and "answers" not in passage:
                columns = question_tables.described(path)
                raise UserError(f"{place} has no answer: name its column answer. {columns}")
            examples += read_passage(
                passage, place, tokenizer.normalize, level, split != "test", most_options
            )
    where = os.path.commonpath([path for _, path in paths])
    if not examples:
        raise UserError(f"{where} holds no question")
    unknown = sum(example.label is None for example in examples)
    if 0 < unknown < len(examples):
        raise UserError(
            f"{where}: {unknown} of {len(examples)} questions have no answers: give all or none"
        )
    return examples


def count_options(data_dir, levels=LEVELS):
    """The largest number of options of a question in any split: int.

    Args:
        data_dir: str, directory that holds the folder RACE.
        levels: tuple of str, of LEVELS.

    Raises:
        UserError: a training file is missing, or a file is damaged.
    """
    folders = {split: os.path.join(data_dir, "RACE", split) for split in split_files.SPLITS}
    splits = own_splits(data_dir) or [s for s in folders if tf.io.gfile.isdir(folders[s])]
    counts = [2]
    for split in dict.fromkeys(["train", *splits]):
        for _, path in input_files(data_dir, split, levels):
            for place, passage in _passages(path, with_answers=False):
                options = json_file.field(passage, "options", list, place)
                counts += [len(texts) for texts in options if isinstance(texts, list)]
    return min(max(counts), MOST_OPTIONS)


def trained_options(output_dir, checkpoint=None, ensemble=()):
    """The number of options of a trained model: int; that of RACE if it is not known.

    Args:
        output_dir: str, the run's directory.
        checkpoint: str or None, a model from elsewhere, which is used if the directory has none.
        ensemble: list of str, directories of models that take the place of both.
    """
    given = [run_directory.directory_of(checkpoint)] if checkpoint else []
    folders = [*ensemble] or [output_dir, *given]
    kinds = [run_directory.RunDirectory(folder).task for folder in folders]
    return next((len(kind.labels) for kind in kinds if kind and kind.labels), NUM_OPTIONS)


def read_passage(
    passage, place, normalize, level="", needs_answers=False, most_options=MOST_OPTIONS
):
    """The questions about a passage.

    Args:
        passage: dict, as in the files: id, article, questions, options and, if needed, answers.
        place: str, file and line, for messages.
        normalize: callable, of a FullTokenizer.
        level: str, of LEVELS.
        needs_answers: bool.
        most_options: int.

    Returns:
        list of Example.

    Raises:
        UserError: the passage does not have this form.
    """
    field, checked = json_file.field, json_file.checked
    passage_id = passage.get("id") if isinstance(passage, dict) else None
    if type(passage_id) is not int:  # a bool is an int too
        passage_id = field(passage, "id", str, place)
    article = field(passage, "article", str, place)
    questions, options = (field(passage, name, list, place) for name in ("questions", "options"))
    answers = [None] * len(questions)
    if needs_answers or passage.get("answers"):
        answers = field(passage, "answers", list, place)
    counts = {"questions": len(questions), "options": len(options), "answers": len(answers)}
    if len({*counts.values()}) > 1:
        raise UserError(f"{place}: different numbers of entries: {counts}")
    context, examples = normalize(article), []
    entries = zip(questions, options, answers, strict=True)
    for number, (question, choices, answer) in enumerate(entries, start=1):
        where = f"{place}, question {number}"
        question = normalize(checked(question, "question", str, where))
        if not isinstance(choices, list) or not 2 <= len(choices) <= most_options:
            raise UserError(
                f"{where}: there must be 2 to {most_options} options, not {reprlib.repr(choices)}"
            )
        choices = [normalize(checked(text, "option", str, where)) for text in choices]
        if needs_answers or answer is not None:
            answer = _letter(answer, options[number - 1], where)
        # In files of RACE every underscore is a gap, as in the original, so "__" gets two options.
        marked = question.replace("_", GAP) if level else re.sub(*GAPS, question)
        parts = marked.split(GAP) if GAP in marked else [f"{question} ", ""]
        endings = tuple(text.join(parts) for text in choices)
        label = None if answer is None else LETTERS.index(answer)
        examples.append(Example(str(passage_id), number, level, context, endings, label))
    return examples


def _letter(answer, options, where):
    """The letter of an answer: the letter itself, in any case, or the text of one option."""
    letters = LETTERS[: len(options)]
    text = answer.strip() if isinstance(answer, str) else ""
    pairs = [*zip(letters, options, strict=True)]
    found = [x for x in letters if x == text.upper()] or [x for x, o in pairs if o.strip() == text]
    if len(found) != 1:
        raise UserError(
            f"{where}: the answer must be one of {', '.join(letters)}, or the text of a single "
            f"option. Received: {reprlib.repr(answer)}"
        )
    return found[0]


def _passages(path, with_answers=True, like=None):
    """Yields (file and line, JSON object) of each passage in a file; `question_tables.passages`."""
    if not path.endswith(".txt"):
        yield from question_tables.passages(path, with_answers, like)
    elif os.path.basename(path) == "all.txt":
        for number, line in enumerate(files.read_text(path).split("\n"), start=1):
            if line.strip():
                yield f"{path}, line {number}", parse_json(line, f"{path}, line {number}")
    else:
        yield path, parse_json(files.read_text(path), path)


# === The task ===


def labels_of(choices):
    """The labels of a number of options: tuple of letters."""
    return tuple(LETTERS[:choices])


class RaceTask(base.Task):
    """Choosing the right option for a question about a passage.

    Args:
        text: TextInput.
        max_qa_length: int, longest question with option in tokens.
        dropout_prob: float, of the pooled output.
        choices: int, options of a question; some may have fewer.
    """

    name = "race"
    input_names = ("article", "question", "options")
    objective = objectives.CLASSIFICATION
    key_metric = "eval_accuracy"
    results_layout = "{first}{rest}best = {before}\n{saved}" + evaluation.RULE

    def __init__(self, text, max_qa_length, dropout_prob=0.1, choices=NUM_OPTIONS):
        assert 0 < max_qa_length < text.max_seq_length - NUM_SPECIALS
        self.choices, self.labels = choices, labels_of(choices)
        self.kind = FinetunedTask(self.name, self.labels)
        self.text, self.max_qa_length, self.dropout_prob = text, max_qa_length, dropout_prob
        self.schema = schemas.classification_schema(
            choices * text.max_seq_length, num_labels=choices, **text.sizes
        )

    def make_model(self, config, **encoder_options):
        """The model that scores the options."""
        return heads.MultipleChoiceModel(config, self.dropout_prob, self.choices, **encoder_options)

    def examples(self, inputs):
        """Makes examples from dicts with `article`, `question` and `options`, a list of str."""
        examples, normalize = [], self.text.tokenizer.normalize
        for number, given in enumerate(inputs):
            options = given["options"]
            options = [list(options) if isinstance(options, tuple) else options]
            passage = {"id": str(number), "questions": [given["question"]], "options": options}
            passage["article"], place = given["article"], f"example {number}"
            examples += read_passage(passage, place, normalize, most_options=self.choices)
        return examples

    def features(self, examples, counts=None):
        """Arrays of the records: for each option [CLS] passage [SEP] question and option [SEP].

        The last tokens of question and option are kept, and as many tokens of the passage as still
        fit.

        Args:
            examples: list of n Examples.
            counts: Counter or None; the lengths of the sequences are added to it.

        Returns:
            dict of numpy arrays, which fit `schema`: input_ids (int32), input_mask and segment_ids
            (int8) [n, choices * T], all 0 where a question has fewer options; label_ids (int32, 0
            where the answer is not known) and is_real_example (int8) [n].
        """
        tokenizer, length = self.text.tokenizer, self.text.max_seq_length
        contexts, endings, encoded, lengths = [], [], {}, []
        for example in examples:
            if example.context not in encoded:  # one for all questions of a passage
                encoded[example.context] = tokenizer.encode_ids(example.context, is_normalized=True)
            context = encoded[example.context]
            for text in (*example.endings, *[""] * (self.choices - len(example.endings))):
                ending = tokenizer.encode_ids(text, is_normalized=True)
                lengths.append(len(context) + len(ending) + NUM_SPECIALS)
                ending = ending[-self.max_qa_length :]
                contexts.append(context[: length - NUM_SPECIALS - len(ending)])
                endings.append(ending)
        packed = pack_segments(contexts, endings, tokenizer.special_ids(with_mask=False), length)
        existing = np.array([len(example.endings) for example in examples])
        exists = (np.arange(self.choices) < existing[:, np.newaxis]).reshape(-1, 1)
        if counts is not None:
            data_report.add_lengths(counts, [*itertools.compress(lengths, exists)])
        return {
            name: (values * exists).astype(values.dtype).reshape(-1, self.choices * length)
            for name, values in packed.items()
        } | {
            "label_ids": np.array([example.label or 0 for example in examples], np.int32),
            "is_real_example": np.ones(len(examples), np.int8),
        }

    def texts_of(self, example):
        """The passage, and the question with each option: tuple of str."""
        return example.context, *example.endings

    def metrics(self, split, outputs, batch_size):
        """Accuracy overall and of each level there is, and losses; none without answers."""
        examples, logits = split.content, outputs["logits"]
        if any(example.label is None for example in examples):
            return {}
        labels = np.array([example.label for example in examples])
        levels = np.array([example.level for example in examples])
        hits = base.classes(logits) == labels
        losses = base.cross_entropy(logits, labels)
        results = {"eval_accuracy": float(np.mean(hits)), "eval_loss": float(np.mean(losses))}
        results["loss"] = base.mean_over_batches(losses, batch_size)
        for level in LEVELS:
            if level in levels:
                results[f"eval_accuracy_{level}"] = float(np.mean(hits[levels == level]))
        return results

    def specimen(self):
        """Outputs with all metrics: a question of each level."""
        examples = [Example("", 1, level, "", (), 0) for level in LEVELS]
        return Split({}, examples), {"logits": np.zeros([len(LEVELS), self.choices])}

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        texts = graph_inputs.Choices(
            tokenizer, self.text.max_seq_length, self.max_qa_length, self.choices
        )
        return signatures.ClassifierFunctions(model, texts, self.labels)


@dataclasses.dataclass(frozen=True)
class RaceData(base.DataSet):
    """The folder RACE.

    Attributes:
        levels: tuple of str, of LEVELS.
    """

    levels: tuple = LEVELS

    unit = "questions"
    labels_of_test = "answers"

    @property
    def settings(self):
        """Settings that features depend on, besides those of the text."""
        found = {"levels": self.levels, "max_qa_length": self.task.max_qa_length}
        choices = self.task.choices
        return found if choices == NUM_OPTIONS else found | {"choices": choices}

    def sources(self, split):
        """Paths of the files of a split."""
        return [path for _, path in input_files(self.data_dir, split, self.levels)]

    def read(self, split):
        """The questions of a split, and nothing that is odd about them."""
        given = self.data_dir, split, self.task.text.tokenizer, self.levels
        return read_examples(*given, self.task.choices), {}

    def described(self):
        """The training folder and its levels, or the table with the columns that are read."""
        if own_splits(self.data_dir):
            return question_tables.described(self.sources("train")[0])
        return f"{os.path.join(self.data_dir, 'RACE', 'train')}: {' and '.join(self.levels)} school"

    def prediction_files(self, examples, answers):
        """A table with a header and a line per question.

        The columns are the passage's id, the question's number in the passage (from 1), the
        predicted letter, the right letter (empty if unknown) and the probabilities of the letters.
        """
        rows = [["id", "question", "prediction", "answer", *self.task.labels]]
        for example, answer in zip(examples, answers, strict=True):
            right = "" if example.label is None else LETTERS[example.label]
            numbers = map(np.float32, answer["probabilities"].values())
            rows.append([example.passage_id, example.question, answer["label"], right, *numbers])
        return {os.path.join(self.output_dir, "predictions.tsv"): tables.tab_separated(rows)}
