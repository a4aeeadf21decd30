# SPDX-License-Identifier: Apache-2.0
"""Predicts any file instead of the test set, and writes a table and JSON lines of answers."""

import dataclasses
import functools
import json
import os

from albert_tf.errors import UserError
from albert_tf.tasks import ner, tables
from albert_tf.tasks.classification import GlueData

TABLE = "predictions.tsv"
JSON_LINES = "predictions.jsonl"


@dataclasses.dataclass(frozen=True)
class FileClassification(GlueData):
    """A GlueData that predicts a file instead of the test set.

    Attributes:
        path: str, of a tab-separated or CSV file.
        text_columns: tuple of one or two columns: numbers from 0, or names in the header, the first
            line. If all columns are numbers, there is no header.
        id_columns: tuple of the column whose values are copied to the answers; () if there is none.
    """

    path: str = dataclasses.field(kw_only=True)
    text_columns: tuple = dataclasses.field(kw_only=True)
    id_columns: tuple = ()

    def parts(self, split):
        """Only the file to predict, without companions; in evaluation, as of a GlueData."""
        return {"": self} if split == "test" else super().parts(split)

    @functools.cached_property
    def _given(self):
        """The examples of the file: list of dicts with `line`, from 1, texts and perhaps `id`."""
        columns, count = self.text_columns + self.id_columns, len(self.text_columns)
        has_header = any(isinstance(column, str) for column in columns)
        _, rows, num_blank = tables.read_columns(self.path, columns, has_header=has_header)
        if num_blank:
            print(f"{self.path}: {num_blank} blank lines are left out")
        return [
            dict(zip(("id",), row.values[count:], strict=False))
            | {"line": row.line}
            | dict(zip(("text", "text_pair"), row.values[:count], strict=False))
            for row in rows
        ]

    def read(self, split):
        """The examples of the file, or of the development set."""
        if split == "test":
            return self.task.examples(self._given), {}
        return super().read(split)

    def prediction_files(self, examples, answers):
        """The answers, each with its example."""
        lines = [given | answer for given, answer in zip(self._given, answers, strict=True)]
        return _texts(self.output_dir, lines, map(_flat, lines))


def _flat(line):
    """An answer as a row of a table."""
    probabilities = line.get("probabilities", {})
    kept = {name: value for name, value in line.items() if name != "probabilities"}
    return kept | {f"probability_{label}": value for label, value in probabilities.items()}


@dataclasses.dataclass(frozen=True)
class FileOfWords(ner.NerData):
    """A NerData that predicts a file instead of the test set.

    Attributes:
        path: str, of a file with a word on each line; further columns are not read.
    """

    path: str = dataclasses.field(kw_only=True)

    labels_of_test = None

    def read(self, split):
        """The words of the file, or of the development set."""
        if split != "test":
            return super().read(split)
        corpus = ner.read_words(self.path)
        _check_columns(corpus)
        return corpus, {}

    def prediction_files(self, examples, answers):
        """A row of the table for each word, and a JSON line for each sentence."""
        found = list(zip(examples, answers, strict=True))
        lines = [{"line": sentence[0].line} | answer for sentence, answer in found]
        rows = (
            {"line": word.line, "word": word.text, "label": label, "score": score}
            for sentence, answer in found
            for word, label, score in zip(sentence, answer["labels"], answer["scores"], strict=True)
        )
        return _texts(self.output_dir, lines, rows)


def _check_columns(corpus):
    """Raises UserError for running text: only the first word of each line would be read."""
    first, *others = corpus.words
    count = len(ner.columns_of(corpus.lines[first.line - 1]))
    for word in others:
        found = len(ner.columns_of(corpus.lines[word.line - 1]))
        if found != count:
            raise UserError(
                f"{corpus.path}, line {word.line}: {found} columns, but line {first.line} has "
                f"{count}: each line has a word and the same number of columns. For text "
                "with several words on a line use predict.py"
            )


def _texts(directory, lines, rows):
    """Dicts as JSON lines, and others as a table: dict from path to text."""
    rows = list(rows)
    texts = {
        TABLE: tables.tab_separated([rows[0].keys(), *(row.values() for row in rows)]),
        JSON_LINES: "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines),
    }
    return {os.path.join(directory, name): text for name, text in texts.items()}
