# SPDX-License-Identifier: Apache-2.0
"""Tokenised documents of text files, as flat arrays in files."""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.corpus import line_encoder, mapped_arrays, text_files
from albert_tf.errors import UserError

_MOST_UNKNOWN = 100_000  # different unknown pieces that are told apart
TOKENS = {"ids": np.int32, "opens_word": np.bool_}
INDEX = {"sentences": np.int64, "documents": np.int64, "unknown": np.int64, "pieces": np.int32}
ARRAYS = TOKENS | INDEX
_MOST_NAMED = 5
_BOUNDS_TOGETHER = 1 << 20
_FIGURES = "corpus.json"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Tokenised documents in flat arrays.

    Args:
        ids: int32 [tokens], or None where they lie elsewhere.
        opens_word: bool [tokens], whether the piece starts a word; or None.
        sentences: int64 [number of sentences + 1], offsets into `ids`; the last one is its length.
        documents: int64 [number of documents + 1], offsets into `sentences`.
        unknown: int64 array, ascending offsets into `ids` of pieces not in the vocabulary.
        pieces: int32 array, these pieces as indices into `piece_texts`.
        piece_texts: list of str; "" stands for all pieces beyond the limit of different ones.
        counts: Counter of tokens_read and the `counts` of all line_encoder.EncodedLines; more
            than here if documents were left out.
        first_skipped: list of str, where the first lines left out are.
    """

    ids: np.ndarray
    opens_word: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    unknown: np.ndarray | None = None
    pieces: np.ndarray | None = None
    piece_texts: list = dataclasses.field(default_factory=list)
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    first_skipped: list = dataclasses.field(default_factory=list)

    @property
    def figures(self):
        """Dict of everything that is not an array."""
        return {name: getattr(self, name) for name in ("piece_texts", "counts", "first_skipped")}

    @property
    def text_bytes(self):
        """Size of the text, also of documents that were left out."""
        return self.counts["text_bytes"]

    @property
    def num_documents(self):
        """Documents with at least one sentence."""
        return len(self.documents) - 1

    @property
    def num_tokens(self):
        """Tokens of all documents."""
        return int(self.sentences[-1])

    def sizes(self, longest):
        """Counter of the documents, sentences and tokens, and of odd ones among them.

        Args:
            longest: int, tokens of a sentence beyond which it is far too long.
        """
        sizes = collections.Counter(
            documents=self.num_documents, sentences=len(self.sentences) - 1, tokens=self.num_tokens
        )
        for lengths in _differences(self.documents):
            sizes["documents_of_one_sentence"] += int(np.sum(lengths == 1))
        for lengths in _differences(self.sentences):
            sizes["sentences_far_too_long"] += int(np.sum(lengths > longest))
            sizes["tokens_of_long_sentences"] += int(lengths[lengths > longest].sum())
        return sizes

    def unknown_pieces(self):
        """Counter of the pieces that are not in the vocabulary."""
        numbers = np.bincount(self.pieces, minlength=len(self.piece_texts)).tolist()
        return +collections.Counter(dict(zip(self.piece_texts, numbers, strict=True)))

    def release(self):
        """Frees the memory of arrays that are mapped files."""
        mapped_arrays.release(*(getattr(self, name) for name in ARRAYS))


def _differences(bounds):
    """Yields the differences of neighbours in an array, block by block."""
    for first in range(0, len(bounds) - 1, _BOUNDS_TOGETHER):
        yield np.diff(bounds[first : first + _BOUNDS_TOGETHER + 1])
        mapped_arrays.release(bounds)


def open_corpus(directory):
    """The Corpus in a directory; its arrays are mapped, not read. It may have no tokens.

    Args:
        directory: str, where `write_corpus` wrote it.
    """
    figures = files.read_json(os.path.join(directory, _FIGURES))
    figures.pop("sizes", None)
    figures["counts"] = collections.Counter(figures["counts"])
    arrays = {
        name: mapped_arrays.open_array(_array_file(directory, name), kind)
        for name, kind in ARRAYS.items()
    }
    return Corpus(**arrays, **figures)


def is_whole(directory):
    """Whether a directory holds a corpus whose files all have the size they were written with."""
    figures = read_state(os.path.join(directory, _FIGURES))
    return figures is not None and all(
        size_of(_array_file(directory, name)) == size
        for name, size in figures.get("sizes", {"": 0}).items()
    )


def read_state(path):
    """The dict in a JSON file of the work directory; None if it is not there or damaged."""
    try:
        found = files.read_json(path)
    except UserError:
        return None
    return found if isinstance(found, dict) else None


def size_of(path):
    """Size of a file in bytes; None if there is none."""
    return tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None


def content_hashes(paths):
    """Hashes of the contents of files, to tell whether a corpus was made from the same files.

    Args:
        paths: list of str.

    Returns:
        list of str.

    Raises:
        UserError: a file cannot be read.
    """
    hashes = []
    for path in paths:
        content = hashlib.blake2b(digest_size=16)
        for block in text_files.blocks(path, unpack=False):
            content.update(block)
        hashes.append(content.hexdigest())
    return hashes


def check_not_empty(num_documents, paths):
    """Raises UserError if files contain no text."""
    if not num_documents:
        raise UserError(f"no text in {', '.join(paths)}: no instance can be made")


class Writer(contextlib.ExitStack):
    """Appends encoded lines, or documents of another corpus, to the files of a corpus.

    Args:
        directory: str.
        arrays: dict, the arrays to write; all, or INDEX.
    """

    def __init__(self, directory, arrays=ARRAYS):
        super().__init__()
        self._directory = directory
        self._out = {
            name: self.enter_context(tf.io.gfile.GFile(_array_file(directory, name), "wb"))
            for name in arrays
        }
        self._sizes = dict.fromkeys(self._out, 0)
        self.num_tokens, self._sentences, self._last_end = 0, 0, 0
        self._pieces = {"": 0}  # text -> number
        self._counts, self._first_skipped = collections.Counter(), []
        for name in ("sentences", "documents"):
            self._append(name, [0])
        self.num_documents = 0

    def _append(self, name, values):
        content = np.asarray(values, ARRAYS[name]).tobytes()
        self._out[name].write(content)
        self._sizes[name] += len(content)

    def add(self, lines):
        """Adds EncodedLines."""
        is_sentence = lines.lengths > 0
        for name in TOKENS.keys() & self._out.keys():
            self._append(name, getattr(lines, name))
        ends = np.cumsum(lines.lengths[is_sentence])
        self._append("sentences", self.num_tokens + ends)
        before = self._sentences + np.cumsum(is_sentence)
        self._end_documents(before[lines.lengths == line_encoder.BLANK])
        self._append("unknown", self.num_tokens + lines.unknown)
        self._append("pieces", list(map(self._piece_number, lines.pieces)))
        self.num_tokens += int(lines.lengths[is_sentence].sum())
        self._sentences += len(ends)
        self._counts += lines.counts
        self._first_skipped += lines.skipped[: _MOST_NAMED - len(self._first_skipped)]

    def _piece_number(self, piece):
        if len(self._pieces) > _MOST_UNKNOWN:
            return self._pieces.get(piece, 0)
        return self._pieces.setdefault(piece, len(self._pieces))

    def _end_documents(self, ends):
        ends = np.unique(ends)
        ends = ends[ends > self._last_end]
        if len(ends):
            self._append("documents", ends)
            self._last_end = int(ends[-1])
            self.num_documents += len(ends)

    def copy(self, corpus, first, stop):
        """Adds the documents `first` to `stop` - 1 of another corpus."""
        documents = corpus.documents[first : stop + 1]
        sentences = corpus.sentences[documents[0] : documents[-1] + 1]
        tokens = slice(int(sentences[0]), int(sentences[-1]))
        for name in TOKENS.keys() & self._out.keys():
            self._append(name, getattr(corpus, name)[tokens])
        self._append("sentences", self.num_tokens + sentences[1:] - sentences[0])
        self._end_documents(self._sentences + documents[1:] - documents[0])
        unknown = slice(*np.searchsorted(corpus.unknown, [tokens.start, tokens.stop]))
        self._append("unknown", self.num_tokens + corpus.unknown[unknown] - tokens.start)
        self._append("pieces", corpus.pieces[unknown])
        self.num_tokens += tokens.stop - tokens.start
        self._sentences += len(sentences) - 1

    def finish(self, figures=None):
        """Ends the last document and writes the figures: given ones, or those of the lines."""
        self._end_documents(np.array([self._sentences]))
        for file in self._out.values():
            file.flush()
        content = (figures or self._figures()) | {"sizes": self._sizes}
        files.write_text(os.path.join(self._directory, _FIGURES), json.dumps(content))

    def _figures(self):
        return {
            "piece_texts": list(self._pieces),
            "counts": dict(self._counts) | {"tokens_read": self.num_tokens},
            "first_skipped": self._first_skipped,
        }


def _array_file(directory, name):
    return os.path.join(directory, f"{name}.bin")
