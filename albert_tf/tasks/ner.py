# SPDX-License-Identifier: Apache-2.0
"""Token classification, such as named entities: CoNLL files -> features; outputs -> figures, files.

A line of a file is a word and its label (O, B-x or I-x); a blank line ends a sentence. The label of
a word stands at its first piece. All that is counted is counted in words.
"""

import codecs
import collections
import dataclasses
import functools
import itertools
import os
import re
import reprlib
from typing import NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf
from seqeval.metrics.sequence_labeling import (
    classification_report,
    precision_recall_fscore_support,
)

from albert_tf import files
from albert_tf.errors import UserError, decode
from albert_tf.model import heads
from albert_tf.publish import token_functions, token_inputs
from albert_tf.records import feature_cache, input_pipeline, schemas
from albert_tf.tasks.figures import collapse_warning, cross_entropy, mean_over_batches
from albert_tf.tasks.text_input import TextInput
from albert_tf.tasks.usual_task import UsualTask
from albert_tf.text.sequences import pack_segments
from albert_tf.text.tokenization import UNKNOWN
from albert_tf.training import results
from albert_tf.training.finetuned_task import FinetunedTask
from albert_tf.training.task import Evaluation, RecordFiles, Split

ENDINGS = (".conll", ".txt")  # in order of preference
DOCUMENT_START = "-DOCSTART-"
_LABEL = re.compile("O|[BI]-.+")


# === Files ===


class Word(NamedTuple):
    """A word, its label ("" if the file has none) and the number of its line from 1."""

    text: str
    label: str
    line: int


class Corpus(NamedTuple):
    """A file: its lines as they stand, and the words on them by sentence.

    Attributes:
        path: str.
        lines: list of str, without line ends.
        sentences: list of lists of Word, none of them empty.
    """

    path: str
    lines: list
    sentences: list

    @property
    def words(self):
        """List of Word."""
        return list(itertools.chain.from_iterable(self.sentences))

    @property
    def labels(self):
        """Labels of the words, a list of lists of str."""
        return [[word.label for word in sentence] for sentence in self.sentences]

    @property
    def has_labels(self):
        """Whether the words have labels; all have, or none has."""
        return any(word.label for word in self.words)


def input_file(data_dir, split, remedy="check --data_dir"):
    """Path of the file of a split, `<split>.conll` or `<split>.txt`.

    Args:
        data_dir: str.
        split: str, train, dev or test.
        remedy: str, for the message.

    Raises:
        UserError: neither is there.
    """
    paths = [os.path.join(data_dir, f"{split}{ending}") for ending in ENDINGS]
    found = [path for path in paths if tf.io.gfile.exists(path)]
    if not found:
        raise UserError(f"there is neither {' nor '.join(paths)}: {remedy}")
    return found[0]


def read(path, labels=None, needs_labels=True):
    """Reads a file.

    Args:
        path: str, in UTF-8.
        labels: sequence of str, those that the model knows; None for any.
        needs_labels: bool; if not, the file may be without labels throughout.

    Returns:
        Corpus.

    Raises:
        UserError: as `read_words`; or a label is missing, malformed or unknown.
    """
    corpus = read_words(path)
    if needs_labels or corpus.has_labels:
        for word in corpus.words:
            _check_label(word.label, labels, f"{path}, line {word.line}")
    return corpus


def read_words(path):
    """Reads a file, whatever follows the words on its lines.

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
    if not lines[-1]:  # what follows the last line end is no line
        lines.pop()
    lines = [decode(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1)]
    words = [_word(line, number, path) for number, line in enumerate(lines, start=1)]
    groups = itertools.groupby(words, key=bool)
    corpus = Corpus(path, lines, [list(group) for is_words, group in groups if is_words])
    if not corpus.sentences:
        raise UserError(f"{path} holds no word; a line is a word and its label")
    return corpus


def _word(line, number, path):
    """The Word on a line; None on a blank one and at the start of a document."""
    columns = columns_of(line)
    if not line.strip() or columns[0] == DOCUMENT_START:
        return None
    if not columns[0]:
        raise UserError(f"{path}, line {number}: the first column, the word, is empty")
    return Word(columns[0], columns[-1].strip() if len(columns) > 1 else "", number)


def columns_of(line):
    """Columns of a line: list of str."""
    return line.split("\t") if "\t" in line else line.split()


def _check_label(label, labels, place):
    if not label:
        raise UserError(f"{place}: the label is missing; a line is a word and its label")
    if not _LABEL.fullmatch(label):
        raise UserError(f"{place}: a label is O, B-x or I-x. Received: {reprlib.repr(label)}")
    if labels is not None and label not in labels:
        raise UserError(
            f"{place}: unknown label {label}; known are {', '.join(labels)}. --labels gives others "
            "than those of the training file"
        )


def find_labels(data_dir, given=None):
    """The labels in the order of their ids.

    Args:
        data_dir: str.
        given: sequence of str or None: those of the training file, O first, the others sorted.

    Returns:
        tuple of str.

    Raises:
        UserError: the given ones are no labels, or the training file is needed and unusable.
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
    """Content of a file with the lines of another and labels instead of its own.

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


# === Features ===


def features(sentences, labels, tokenizer, max_seq_length, counts):
    """Arrays of the records: [CLS] words [SEP], a row for each part of each sentence.

    A word belongs to part i // (T - 2) of its sentence, where i is the place of its first piece in
    the sentence. A part has room for T - 2 pieces, and the last ones of its last word may be cut. A
    word without any piece, such as a control character, becomes the unknown piece.

    Args:
        sentences: list of lists of Word.
        labels: sequence of str in the order of their ids.
        tokenizer: FullTokenizer.
        max_seq_length: int, T.
        counts: Counter, to which is added how many words are `without_piece`, how many sentences
            are `split` and how many pieces are `cut`.

    Returns:
        dict of numpy arrays [n, T], which fit `schemas.token_classification_schema`; rows and
        their first pieces (label_mask = 1) are in the order of the words.
    """
    ids = {label: id_ for id_, label in enumerate(labels)}
    room, unknown = max_seq_length - 2, tokenizer.convert_tokens_to_ids([UNKNOWN])
    rows, label_rows = [], []
    for words in sentences:
        pieces = [tokenizer.encode_ids(word.text) for word in words]
        counts["without_piece"] += pieces.count([])
        pieces = [found or unknown for found in pieces]
        firsts = np.cumsum([0, *map(len, pieces[:-1])])
        starts = [0, *(np.flatnonzero(np.diff(firsts // room)) + 1).tolist()]
        counts["split"] += len(starts) > 1
        for start, end in itertools.pairwise([*starts, len(words)]):
            row = list(itertools.chain.from_iterable(pieces[start:end]))
            counts["cut"] += max(len(row) - room, 0)
            rows.append(row[:room])
            places = firsts[start:end] - firsts[start] + 1  # [CLS] comes first
            label_rows.append(np.zeros([2, max_seq_length], np.int32))  # ids and mask
            label_rows[-1][0, places] = [ids.get(word.label, 0) for word in words[start:end]]
            label_rows[-1][1, places] = 1
    special_ids = tokenizer.special_ids(with_mask=False)
    packed = pack_segments(rows, [None] * len(rows), special_ids, max_seq_length)
    labels = np.array(label_rows, np.int32).reshape(-1, 2, max_seq_length)
    return packed | {"label_ids": labels[:, 0], "label_mask": labels[:, 1]}


# === Figures and predictions ===


def evaluate(corpus, labels, arrays, logits, batch_size):
    """Precision, recall and F1 of entities, accuracy of words, losses.

    An entity counts as found if its first and last word and its type are right, as by conlleval.

    Args:
        corpus: Corpus with labels.
        labels: sequence of C str.
        arrays: dict of arrays [n, T], of `features`.
        logits: array [n, T, C].
        batch_size: int, rows whose loss is averaged for `loss`.

    Returns:
        dict of str to float.
    """
    mask = arrays["label_mask"] > 0
    label_ids, logits = arrays["label_ids"][mask], logits[mask]
    losses = cross_entropy(logits, label_ids)
    of_rows = np.bincount(np.nonzero(mask)[0], losses)
    found = predicted_labels(corpus, labels, logits)
    scores = precision_recall_fscore_support(corpus.labels, found, average="micro", zero_division=0)
    return dict(zip(("precision", "recall", "f1"), map(float, scores), strict=False)) | {
        "eval_accuracy": float(np.mean(np.argmax(logits, axis=-1) == label_ids)),
        "eval_loss": float(np.mean(losses)),
        "loss": mean_over_batches(of_rows, batch_size, mask.sum(axis=1)),
    }


def predicted_labels(corpus, labels, logits):
    """Labels from logits [words, C], a list of lists of str as the sentences of the file."""
    found = iter(np.argmax(logits, axis=-1).tolist())
    return [[labels[next(found)] for _ in sentence] for sentence in corpus.sentences]


def answers(sentences, labels, logits):
    """What is said of each sentence, for people and programs.

    Args:
        sentences: list of lists of Word.
        labels: sequence of C str.
        logits: array [words, C].

    Returns:
        list of dicts of `words`, `labels` and `scores`, the probabilities of the labels.
    """
    rows = iter(scipy.special.softmax(logits, axis=-1))
    found = []
    for sentence in sentences:
        scores = [next(rows) for _ in sentence]
        found.append(
            {
                "words": [word.text for word in sentence],
                "labels": [labels[np.argmax(row)] for row in scores],
                "scores": [float(np.max(row)) for row in scores],
            }
        )
    return found


# === The task ===


@dataclasses.dataclass(frozen=True)
class NerTask(UsualTask):
    """A training.task.Task for words with labels.

    Attributes:
        labels: tuple of str.
        text: TextInput.
        data_dir: str, directory of train, dev and test, each with an ending of `ENDINGS`.
        output_dir: str, where predictions go.
        cached_dir: str, where record files go.
    """

    labels: tuple
    text: TextInput
    data_dir: str
    output_dir: str
    cached_dir: str

    input_names = ("text",)
    objective = heads.TOKEN_CLASSIFICATION
    key_metric = "f1"

    @property
    def kind(self):
        """What checkpoints of it are of: a FinetunedTask."""
        return FinetunedTask("ner", self.labels)

    def make_model(self, config, **encoder_options):
        """The model that classifies pieces."""
        return heads.TokenClassificationModel(
            config,
            len(self.labels),
            predicted_length=self.text.max_seq_length,
            **encoder_options,
        )

    # --- Training and evaluation ---

    def input_files(self, do_eval):
        """Paths of the files that are read to train and, if `do_eval`, to evaluate."""
        return [input_file(self.data_dir, split) for split in ["train"] + ["dev"] * do_eval]

    def training_records(self):
        """RecordFiles of the training set, made if they are not there."""
        return RecordFiles([self._records(self._read("train"), "train")], self._schema)

    def evaluation_splits(self):
        """The development set."""
        corpus = self._read("dev")
        return {
            "": Split(
                input_pipeline.load_arrays(self._records(corpus, "dev"), self._schema), corpus
            )
        }

    def evaluate(self, splits, outputs, batch_size):
        """Figures of entities and words; none without labels."""
        (arrays, corpus), logits = splits[""], outputs[""]["logits"]
        warning = collapse_warning(self.labels, logits[arrays["label_mask"] > 0])
        if not corpus.has_labels:
            return Evaluation({}, (warning,))
        return Evaluation(evaluate(corpus, self.labels, arrays, logits, batch_size), (warning,))

    @property
    def _schema(self):
        return schemas.token_classification_schema(
            self.text.max_seq_length, num_labels=len(self.labels), **self.text.sizes
        )

    def _read(self, split):
        return read(input_file(self.data_dir, split), self.labels, needs_labels=split != "test")

    def _records(self, corpus, split):
        """Makes the record file of a split, unless it is there and made of the same; its path."""
        cache = feature_cache.cached_records(
            os.path.join(self.cached_dir, f"ner_{split}.tf_record"),
            self._schema,
            {"labels": self.labels, **self.text.cache_settings},
            [corpus.path, self.text.vocabulary_file],
            lambda cache: self._batches(corpus, cache.counts),
            add_key=True,
        )
        _say_counts(split, corpus, cache.counts)
        return cache.path

    def _batches(self, corpus, counts):
        """Feature arrays of sentences, some at a time."""
        for chunk in schemas.in_chunks(corpus.sentences):
            yield features(
                chunk, self.labels, self.text.tokenizer, self.text.max_seq_length, counts
            )

    # --- Prediction of any texts ---

    def examples(self, inputs):
        """Lists of Word of dicts of `text`, whose words have white space between them."""
        return [[Word(word, "", 0) for word in given["text"].split()] for given in inputs]

    def features(self, examples):
        """Arrays of sentences, as in the records; a sentence without words has no row."""
        return features(
            list(filter(None, examples)),
            self.labels,
            self.text.tokenizer,
            self.text.max_seq_length,
            collections.Counter(),
        )

    def answers(self, split, outputs):
        """What is said of each sentence: dicts, as the function `answers`."""
        logits = np.zeros([0, len(self.labels)])
        if outputs:
            logits = outputs["logits"][split.arrays["label_mask"] > 0]
        return answers(split.content, self.labels, logits)

    # --- Prediction and export ---

    def read_test_set(self):
        """Reads what is to be predicted, so that errors in it come before the training."""
        return self._test_corpus

    @functools.cached_property
    def _test_corpus(self):
        return self._read("test")

    def prediction_splits(self):
        """The test set."""
        path, counts = os.path.join(self.output_dir, "predict.tf_record"), collections.Counter()
        schemas.write_records(path, self._schema, self._batches(self._test_corpus, counts))
        _say_counts("test", self._test_corpus, counts)
        return {"": Split(input_pipeline.load_arrays(path, self._schema), self._test_corpus)}

    def write_predictions(self, splits, members, batch_size):
        """Writes the labels, and their figures where the right ones are known."""
        _, step, outputs, source = members[0]
        arrays, corpus = splits[""]
        figures, (warning,), *_ = self.evaluate(splits, outputs, batch_size)
        if warning:
            print(f"Warning: {warning}")
        of_words = outputs[""]["logits"][arrays["label_mask"] > 0]
        predicted = predicted_labels(corpus, self.labels, of_words)
        path = os.path.join(self.output_dir, "test_results.conll")
        files.write_text(path, with_labels(corpus, itertools.chain.from_iterable(predicted)))
        print(f"Predicted {len(of_words)} words with {source}: {path}")
        if not figures:
            print("The test set has no labels, so there are no figures.")
            return
        if {*itertools.chain(*corpus.labels, *predicted)} != {"O"}:  # seqeval needs an entity
            print(classification_report(corpus.labels, predicted, zero_division=0))
        results.report_predictions(self.output_dir, figures, step)

    def make_served_model(self, config):
        """The model to export."""
        return heads.TokenClassificationModel(config, len(self.labels))

    def served_functions(self, model, tokenizer, prefix):
        """What is served of a model."""
        (unknown,) = self.text.tokenizer.convert_tokens_to_ids([UNKNOWN])
        texts = token_inputs.Words(tokenizer, self.text.max_seq_length, unknown)
        return token_functions.TokenFunctions(model, texts, self.labels)


def _say_counts(split, corpus, counts):
    """Prints how much there is and what is noteworthy, whether it was read now or before."""
    print(f"{split}: {len(corpus.words)} words in {len(corpus.sentences)} sentences")
    if counts["without_piece"]:
        print(f"{split}: {counts['without_piece']} words have no piece and count as unknown ones")
    if counts["split"]:
        print(f"{split}: {counts['split']} sentences exceed --max_seq_length and are split")
    if counts["cut"]:
        print(f"{split}: {counts['cut']} pieces at the ends of words do not fit and are cut")
