# SPDX-License-Identifier: Apache-2.0
"""Token classification, such as named entities or parts of speech.

The label of a word is at its first token. Accuracy and loss are those of words.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import os
import re
from typing import ClassVar

import numpy as np

from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.errors import UserError
from albert_tf.model import heads, objectives
from albert_tf.options import OF_WORDS
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import schemas
from albert_tf.tasks import base, label_lists, tag_schemes, word_files
from albert_tf.tasks.word_files import Word
from albert_tf.text.sequences import pack_segments
from albert_tf.text.tokenization import UNKNOWN, is_unspaced
from albert_tf.training.splits_and_results import Split


class NerTask(base.Task):
    """A label for each word, such as those of named entities; examples are lists of Word.

    Args:
        labels: tuple of str.
        text: TextInput.
        word_pattern: str or None, as of a Task.
    """

    name = OF_WORDS
    input_names = ("text",)
    classified = "words"
    objective = objectives.TOKEN_CLASSIFICATION

    def __init__(self, labels, text, word_pattern=None):
        self.labels, self.text, self.word_pattern = labels, text, word_pattern
        self.scheme = tag_schemes.find(labels)
        self.key_metric = "f1" if self.scheme.marks else "eval_accuracy"
        self.kind = FinetunedTask(self.name, labels)
        self.schema = schemas.token_classification_schema(
            text.max_seq_length, num_labels=len(labels), **text.sizes
        )

    def make_model(self, config, **encoder_options):
        """The model that classifies tokens."""
        length = self.text.max_seq_length
        return self.make_served_model(config, predicted_length=length, **encoder_options)

    def make_served_model(self, config, **options):
        """The model to export."""
        return heads.TokenClassificationModel(config, len(self.labels), **options)

    def examples(self, inputs):
        """Makes examples from dicts with `text`: a str, which is split into words, or a list."""
        texts, split = (given["text"] for given in inputs), re.compile(self.word_pattern or r"\S+")
        words = (split.findall(text) if isinstance(text, str) else text for text in texts)
        return [[Word(word, "") for word in sentence] for sentence in words]

    def features(self, examples, counts=None):
        """Arrays of the records: [CLS] words [SEP], a row for each part of each sentence.

        A word belongs to part i // (T - 2) of its sentence, where i is the place of its first token
        in the sentence. A part has room for T - 2 tokens, and the last ones of its last word may be
        cut. A word without any token, such as a control character, becomes the unknown token. An
        example without words has no row.

        Args:
            examples: list of lists of Word.
            counts: Counter or None; the numbers of `words` and `sentences`, of words
                `without_piece`, of sentences that are `split` and of tokens that are `cut` are
                added to it.

        Returns:
            dict of numpy arrays [n, T], which fit `schema`; rows and their first tokens
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

    def texts_of(self, example):
        """The words of a sentence: tuple of str."""
        return tuple(word.text for word in example)

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

    def metrics(self, split, outputs, batch_size):
        """Precision, recall and F1 of entities or tags, accuracy, losses; none without labels.

        An entity counts as found if its first and last word and its type are right. `loss` is the
        mean over batches of rows.
        """
        gold = true_labels(split.content)
        if not all(itertools.chain.from_iterable(gold)):
            return {}
        mask, logits = split.arrays["label_mask"] > 0, self.logits(split, outputs)
        label_ids = split.arrays["label_ids"][mask]
        losses = base.cross_entropy(logits, label_ids)
        of_rows = np.bincount(np.nonzero(mask)[0], losses)
        found = self.predicted_labels(split, outputs)
        return tag_schemes.metrics(gold, found, self.scheme) | {
            "eval_accuracy": float(np.mean(base.classes(logits) == label_ids)),
            "eval_loss": float(np.mean(losses)),
            "loss": base.mean_over_batches(of_rows, batch_size, mask.sum(axis=1)),
        }

    def specimen(self):
        """Outputs with all metrics: a sentence with every label."""
        ids = np.arange(len(self.labels))[np.newaxis]
        arrays = {"label_ids": ids, "label_mask": np.ones_like(ids)}
        words = [Word("", label) for label in self.labels]
        return Split(arrays, [words]), {"logits": np.eye(ids.size)[ids]}

    def label_counts(self, arrays):
        """Number of words with each label: int array [C]."""
        ids = arrays["label_ids"][arrays["label_mask"] > 0]
        return np.bincount(ids, minlength=len(self.labels))

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        (unknown,) = self.text.tokenizer.convert_tokens_to_ids([UNKNOWN])
        length, pattern = self.text.max_seq_length, self.word_pattern
        texts = graph_inputs.WordLists(tokenizer, length, unknown, pattern)
        return signatures.TokenFunctions(model, texts, self.labels)


def word_pattern_of(record, tokenizer):
    """The pattern of the words of a trained model, as of a Task: str or None.

    Args:
        record: RunSettings of the training. A model of transformers has None: then each character
            is a word if most pieces of its WordPiece vocabulary are characters, as of Chinese.
        tokenizer: FullTokenizer.
    """
    if record or tokenizer.is_sentencepiece:
        return record and record.data.get("word_pattern")
    texts = [piece.removeprefix("##") for piece in tokenizer.vocab]
    are_characters = sum(len(x) == 1 and is_unspaced(x) for x in texts) * 2 > len(texts)
    return word_files.CHARACTERS if are_characters else None


def true_labels(examples):
    """Labels of the words of examples: list of lists of str."""
    return [[word.label for word in words] for words in examples]


@dataclasses.dataclass(frozen=True)
class NerData(base.DataSet):
    """Files of words: train, dev and test, each with one of `word_files.ENDINGS`.

    Attributes:
        columns: Columns.
    """

    columns: word_files.Columns = word_files.RECOGNISED

    notes: ClassVar[dict] = {
        "comments": "{} lines are comments and are left out",
        "ragged": "{} lines have another number of columns than most: a line is one word",
        "without_piece": "{} words have no token and count as unknown ones",
        "split": "{} sentences exceed --max_seq_length and are split",
        "cut": "{} tokens at the ends of words do not fit and are cut",
    }
    unit = "sentences"
    labels_of_test = "labels"

    @property
    def header(self):
        """The names of the columns of the training file: tuple of str."""
        form, *_ = self.of_training
        return form.header

    @property
    def settings(self):
        """Settings that features depend on, besides those of the text."""
        return {"labels": self.task.labels, "columns": self.columns}

    def sources(self, split):
        """Path of the file of a split, in a list."""
        return [word_files.input_file(self.data_dir, split)]

    def read(self, split):
        """The Sentences of a split; its oddities are counted with the features."""
        path, is_needed, form = self.sources(split)[0], split != "test", word_files.UNKNOWN
        if split != "train":
            with contextlib.suppress(UserError):  # the training file may not be needed
                form, *_ = self.of_training
        found = word_files.read(path, self.task.labels, is_needed, self.columns, form)
        if split == "test" and found.has_labels:
            label_lists.warn_if_all_alike(path, found.labels)
        ragged = sum(len(cells) != found.form.width for cells in found.rows)
        return found, {"comments": found.comments, "ragged": ragged}

    @functools.cached_property
    def of_training(self):
        """Form and Columns of the training file, and the pattern of its words, as of a Task."""
        found = word_files.read_words(self.sources("train")[0], self.columns)
        return found.form, found.columns, word_files.find_pattern(found.words)

    def _say(self, split, counts):
        if counts["words"]:
            print(f"{split}: {counts['words']} words in {counts['sentences']} sentences")
        super()._say(split, counts)

    def described(self):
        """The training file and its columns."""
        path, (_, columns, _) = self.sources("train")[0], self.of_training
        label = "the last" if columns.label is None else columns.label
        words = f"word in column {columns.word}, label in column {label}"
        return f"{path}: {words}, {self.task.scheme.name}"

    def prediction_files(self, examples, answers):
        """The test file with the predicted labels."""
        predicted = itertools.chain.from_iterable(answer["labels"] for answer in answers)
        path = os.path.join(self.output_dir, "test_results.conll")
        return {path: word_files.with_labels(examples, predicted)}

    def write_predictions(self, splits, members, batch_size):
        """Writes the files, and prints metrics, also those of each type of entity."""
        super().write_predictions(splits, members, batch_size)
        split = splits[""]
        if self.labels_of_test and split.content.has_labels:
            found = self.task.predicted_labels(split, self.combined(members).outputs[""])
            print(tag_schemes.report(true_labels(split.content), found, self.task.scheme))
