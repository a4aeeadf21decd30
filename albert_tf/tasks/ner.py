# SPDX-License-Identifier: Apache-2.0
"""Token classification, such as named entities, on CoNLL files.

A line of a file is a word and its label (O, B-x or I-x); a blank line ends a sentence. The label of
a word is at its first piece. Figures are counted in words.
"""

import codecs
import collections
import dataclasses
import itertools
import os
import re
import reprlib
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.errors import UserError, decode
from albert_tf.model import heads, objectives
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import schemas
from albert_tf.tasks import base
from albert_tf.text.sequences import pack_segments
from albert_tf.text.tokenization import UNKNOWN

ENDINGS = (".conll", ".txt")
DOCUMENT_START = "-DOCSTART-"
_LABEL = re.compile("O|[BI]-.+")


# === Files ===


class Word(NamedTuple):
    """A word, its label ("" if the file has none) and the number of its line from 1."""

    text: str
    label: str
    line: int


class Corpus(list):
    """The sentences of a file, lists of Word, none of them empty.

    Attributes:
        path: str.
        lines: list of str, all lines of the file, without line ends.
    """

    def __init__(self, sentences, path, lines):
        super().__init__(sentences)
        self.path, self.lines = path, lines

    @property
    def words(self):
        """List of Word."""
        return list(itertools.chain.from_iterable(self))

    @property
    def has_labels(self):
        """Whether the words have labels: all of them, or none."""
        return any(word.label for word in self.words)


def input_file(data_dir, split, remedy="check --data_dir"):
    """Path of the file of a split, `<split>.conll` or `<split>.txt`.

    Args:
        data_dir: str.
        split: str, train, dev or test.
        remedy: str, for the message.

    Raises:
        UserError: neither file exists, or both do.
    """
    paths = [os.path.join(data_dir, f"{split}{ending}") for ending in ENDINGS]
    found = [path for path in paths if tf.io.gfile.exists(path)]
    if not found:
        raise UserError(f"there is neither {' nor '.join(paths)}: {remedy}")
    if len(found) > 1:
        raise UserError(f"{' and '.join(found)} both exist: keep one of them")
    return found[0]


def read(path, labels=None, needs_labels=True):
    """Reads a file.

    Args:
        path: str, in UTF-8.
        labels: sequence of str, the labels of the model; None to allow any.
        needs_labels: bool; if False, the file may have no labels at all.

    Returns:
        Corpus.

    Raises:
        UserError: as `read_words`; or a label is missing, malformed or unknown.
    """
    corpus = read_words(path)
    if needs_labels or corpus.has_labels:
        for word in corpus.words:
            place = f"{path}, line {word.line}"
            if not word.label:
                raise UserError(f"{place}: the label is missing; a line is a word and its label")
            if not _LABEL.fullmatch(word.label):
                raise UserError(
                    f"{place}: a label is O, B-x or I-x. Received: {reprlib.repr(word.label)}"
                )
            if labels is not None and word.label not in labels:
                raise UserError(
                    f"{place}: unknown label {word.label}; known are {', '.join(labels)}. If the "
                    "training file lacks labels of the others, give all of them as --labels"
                )
    return corpus


def read_words(path):
    """Reads a file without checking its labels.

    Args:
        path: str, in UTF-8.

    Returns:
        Corpus.

    Raises:
        UserError: the file cannot be read or holds no word, or a line is not UTF-8; the message
            names the line.
    """
    content = files.read_bytes(path).removeprefix(codecs.BOM_UTF8)
    lines = re.split(rb"\r\n|\r|\n", content)
    if not lines[-1]:  # nothing follows the last line end
        lines.pop()
    lines = [decode(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1)]
    words = [_word(line, number, path) for number, line in enumerate(lines, start=1)]
    groups = itertools.groupby(words, key=bool)
    corpus = Corpus([list(group) for is_words, group in groups if is_words], path, lines)
    if not corpus:
        raise UserError(f"{path} holds no word; a line is a word and its label")
    return corpus


def _word(line, number, path):
    """The Word on a line; None for a blank line and the start of a document."""
    columns = columns_of(line)
    if not line.strip(" \t") or columns[0] == DOCUMENT_START:
        return None
    if not columns[0]:
        raise UserError(f"{path}, line {number}: the first column, the word, is empty")
    return Word(columns[0], columns[-1].strip() if len(columns) > 1 else "", number)


def columns_of(line):
    """Columns of a line, with tabs between them or else spaces: list of str.

    Any other white space, such as a no-break space, belongs to a word.
    """
    return line.split("\t") if "\t" in line else list(filter(None, line.split(" ")))


def find_labels(data_dir, given=None):
    """The labels in the order of their ids.

    Args:
        data_dir: str.
        given: sequence of str or None: those of the training file, O first, the others sorted.

    Returns:
        tuple of str.

    Raises:
        UserError: the given labels are invalid, or the training file is needed and unusable.
    """
    if given:
        if len(set(given)) < max(len(given), 2) or not all(map(_LABEL.fullmatch, given)):
            raise UserError(
                "--labels must be at least two different labels, each O, B-x or I-x. Received: "
                f"{','.join(given)}"
            )
        return tuple(given)
    remedy = "check --data_dir, or give the model's labels in the order of its training as --labels"
    path = input_file(data_dir, "train", remedy)
    found = {word.label for word in read(path).words}
    if len(found) < 2:
        raise UserError(f"{path}: at least two different labels are needed, not {', '.join(found)}")
    return tuple(sorted(found, key=lambda label: (label != "O", label)))


def with_labels(corpus, labels):
    """Content of a file with the words of another file and new labels.

    Args:
        corpus: Corpus.
        labels: iterable of str, one for each word.

    Returns:
        str: word and label with a tab between them; other lines are as they were, or blank.
    """
    lines = [line.strip() for line in corpus.lines]
    for word, label in zip(corpus.words, labels, strict=True):
        lines[word.line - 1] = f"{word.text}\t{label}"
    return "\n".join(lines) + "\n"


# === The task ===


class NerTask(base.Task):
    """A label for each word, such as those of named entities; examples are lists of Word.

    Args:
        labels: tuple of str.
        text: TextInput.
    """

    name = "ner"
    input_names = ("text",)
    classified = "words"
    objective = objectives.TOKEN_CLASSIFICATION
    key_metric = "f1"

    def __init__(self, labels, text):
        self.labels, self.text = labels, text
        self.kind = FinetunedTask(self.name, labels)
        self.schema = schemas.token_classification_schema(
            text.max_seq_length, num_labels=len(labels), **text.sizes
        )

    def make_model(self, config, **encoder_options):
        """The model that classifies pieces."""
        length = self.text.max_seq_length
        return self.make_served_model(config, predicted_length=length, **encoder_options)

    def make_served_model(self, config, **options):
        """The model to export."""
        return heads.TokenClassificationModel(config, len(self.labels), **options)

    def examples(self, inputs):
        """Examples of dicts of `text`, words with white space between them."""
        return [[Word(word, "", 0) for word in given["text"].split()] for given in inputs]

    def features(self, examples, counts=None):
        """Arrays of the records: [CLS] words [SEP], a row for each part of each sentence.

        A word belongs to part i // (T - 2) of its sentence, where i is the place of its first piece
        in the sentence. A part has room for T - 2 pieces, and the last ones of its last word may be
        cut. A word without any piece, such as a control character, becomes the unknown piece. An
        example without words has no row.

        Args:
            examples: list of lists of Word.
            counts: Counter or None; the numbers of `words` and `sentences`, of words
                `without_piece`, of sentences that are `split` and of pieces that are `cut` are
                added to it.

        Returns:
            dict of numpy arrays [n, T], which fit `schema`; rows and their first pieces
            (label_mask = 1) are in the order of the words.
        """
        counts = collections.Counter() if counts is None else counts
        tokenizer, length = self.text.tokenizer, self.text.max_seq_length
        ids = {label: id_ for id_, label in enumerate(self.labels)}
        room, unknown = length - 2, tokenizer.convert_tokens_to_ids([UNKNOWN])
        rows, label_rows = [], []
        for words in filter(None, examples):
            pieces = [tokenizer.encode_ids(word.text) for word in words]
            counts.update(words=len(words), sentences=1, without_piece=pieces.count([]))
            pieces = [found or unknown for found in pieces]
            firsts = np.cumsum([0, *map(len, pieces[:-1])])
            starts = [0, *(np.flatnonzero(np.diff(firsts // room)) + 1).tolist()]
            counts["split"] += len(starts) > 1
            for start, end in itertools.pairwise([*starts, len(words)]):
                row = list(itertools.chain.from_iterable(pieces[start:end]))
                counts["cut"] += max(len(row) - room, 0)
                rows.append(row[:room])
                places = firsts[start:end] - firsts[start] + 1  # [CLS] comes first
                label_rows.append(np.zeros([2, length], np.int32))  # ids and mask
                label_rows[-1][0, places] = [ids.get(word.label, 0) for word in words[start:end]]
                label_rows[-1][1, places] = 1
        special_ids = tokenizer.special_ids(with_mask=False)
        packed = pack_segments(rows, [None] * len(rows), special_ids, length)
        labels = np.array(label_rows, np.int32).reshape(-1, 2, length)
        return packed | {"label_ids": labels[:, 0], "label_mask": labels[:, 1]}

    def logits(self, split, outputs):
        """Logits of the words [words, C]."""
        if not outputs:  # no example has a word
            return np.zeros([0, len(self.labels)])
        return outputs["logits"][split.arrays["label_mask"] > 0]

    def target(self, row):
        """The labels of the words."""
        return " ".join(self.labels[id_] for id_ in row["label_ids"][row["label_mask"] > 0])

    def predicted_labels(self, split, outputs):
        """Predicted labels of the words of each example: list of lists of str."""
        found = iter(base.classes(self.logits(split, outputs)).tolist())
        return [[self.labels[next(found)] for _ in words] for words in split.content]

    def answers(self, split, outputs):
        """`words`, `labels` and `scores`, the probabilities of the labels."""
        probabilities = self.probabilities(self.logits(split, outputs))
        rows = iter(probabilities.max(axis=-1).tolist())
        found = zip(split.content, self.predicted_labels(split, outputs), strict=True)
        return [
            {
                "words": [word.text for word in words],
                "labels": labels,
                "scores": [next(rows) for _ in words],
            }
            for words, labels in found
        ]

    def figures(self, split, outputs, batch_size):
        """Precision, recall and F1 of entities, accuracy of words, losses; none without labels.

        An entity counts as found if its first and last word and its type are right, as by
        conlleval. `loss` is the mean over batches of rows.
        """
        from seqeval.metrics import sequence_labeling  # here: it imports scikit-learn

        gold = true_labels(split.content)
        if not all(itertools.chain.from_iterable(gold)):
            return {}
        mask, logits = split.arrays["label_mask"] > 0, self.logits(split, outputs)
        label_ids = split.arrays["label_ids"][mask]
        losses = base.cross_entropy(logits, label_ids)
        of_rows = np.bincount(np.nonzero(mask)[0], losses)
        found = self.predicted_labels(split, outputs)
        scores = sequence_labeling.precision_recall_fscore_support(
            gold, found, average="micro", zero_division=0
        )
        return dict(zip(("precision", "recall", "f1"), map(float, scores), strict=False)) | {
            "eval_accuracy": float(np.mean(base.classes(logits) == label_ids)),
            "eval_loss": float(np.mean(losses)),
            "loss": base.mean_over_batches(of_rows, batch_size, mask.sum(axis=1)),
        }

    def label_counts(self, arrays):
        """Number of words with each label: int array [C]."""
        ids = arrays["label_ids"][arrays["label_mask"] > 0]
        return np.bincount(ids, minlength=len(self.labels))

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        (unknown,) = self.text.tokenizer.convert_tokens_to_ids([UNKNOWN])
        texts = graph_inputs.Words(tokenizer, self.text.max_seq_length, unknown)
        return signatures.TokenFunctions(model, texts, self.labels)


def true_labels(examples):
    """Labels of the words of examples: list of lists of str."""
    return [[word.label for word in words] for words in examples]


@dataclasses.dataclass(frozen=True)
class NerData(base.DataSet):
    """Files of words: train, dev and test, each with an ending of `ENDINGS`."""

    notes: ClassVar[dict] = {
        "without_piece": "{} words have no piece and count as unknown ones",
        "split": "{} sentences exceed --max_seq_length and are split",
        "cut": "{} pieces at the ends of words do not fit and are cut",
    }
    unit = "sentences"
    labels_of_test = "labels"

    @property
    def settings(self):
        """Settings that features depend on, besides those of the text."""
        return {"labels": self.task.labels}

    def sources(self, split):
        """Path of the file of a split, in a list."""
        return [input_file(self.data_dir, split)]

    def read(self, split):
        """The Corpus of a split; its oddities are counted with the features."""
        return read(self.sources(split)[0], self.task.labels, needs_labels=split != "test"), {}

    def _say(self, split, counts):
        if counts["words"]:
            print(f"{split}: {counts['words']} words in {counts['sentences']} sentences")
        super()._say(split, counts)

    def described(self):
        """The training file and its columns."""
        return f"{self.sources('train')[0]}: word in the first column, label in the last"

    def prediction_files(self, examples, answers):
        """The test file with the predicted labels."""
        predicted = itertools.chain.from_iterable(answer["labels"] for answer in answers)
        path = os.path.join(self.output_dir, "test_results.conll")
        return {path: with_labels(examples, predicted)}

    def write_predictions(self, splits, members, batch_size):
        """Writes the files, and prints figures, also those of each type of entity."""
        from seqeval.metrics import sequence_labeling

        super().write_predictions(splits, members, batch_size)
        split = splits[""]
        gold = true_labels(split.content)
        found = self.task.predicted_labels(split, members[0].outputs[""])
        is_scored = self.labels_of_test and split.content.has_labels
        if is_scored and {*itertools.chain(*gold, *found)} != {"O"}:  # seqeval needs an entity
            print(sequence_labeling.classification_report(gold, found, zero_division=0))
