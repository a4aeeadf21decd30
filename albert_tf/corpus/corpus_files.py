# SPDX-License-Identifier: Apache-2.0
"""Tokenized documents of text files, as flat arrays in the files of a directory."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import json
import mmap
import os
import shutil
import tempfile

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.corpus import line_encoder
from albert_tf.records import record_files

_MOST_UNKNOWN = 100_000  # maximum number of different unknown pieces that are told apart
TOKENS = {"ids": np.int32, "opens_word": np.bool_}
INDEX = {"sentences": np.int64, "documents": np.int64, "unknown": np.int64, "pieces": np.int32}
ARRAYS = TOKENS | INDEX
ID_BYTES, TOKEN_BYTES = 4, 5  # per token, without and with opens_word
_MOST_NAMED = 5
_SENTENCES_TOGETHER = 1 << 20
_CONTENT = "corpus.json"
TOKENS_ENDING = "-tokens"  # of the directory of tokens that several machines write
_COPIED_TOGETHER = 1 << 24  # bytes
_MOST_COPIES = 6  # of remote files at a time: the files of a corpus, and a plan


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Tokenized documents in flat arrays.

    Args:
        ids: int32 [tokens], or None if they are in `token_files`.
        opens_word: bool [tokens], whether the piece starts a word; or None.
        sentences: int64 [number of sentences + 1], offsets into `ids`; the last one is its length.
        documents: int64 [number of documents, 2], the number of each document's first sentence and
            of the sentence after its last; they differ. Sentences of unused documents are in no
            range.
        unknown: int64 array, ascending offsets into `ids` of pieces not in the vocabulary.
        pieces: int32 array, these pieces as indices into `piece_texts`.
        piece_texts: list of str; "" stands for all pieces beyond the limit on different pieces.
        counts: Counter, the sum of the `counts` of all line_encoder.EncodedLines. It counts the
            whole text, including unused documents.
        first_skipped: dict from the reason why lines were left out to list of str, the places of
            the first of them.
        token_files: dict from path to number of tokens, in order. Each file holds ids, followed by
            opens_word.
    """

    ids: np.ndarray
    opens_word: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    unknown: np.ndarray | None = None
    pieces: np.ndarray | None = None
    piece_texts: list = dataclasses.field(default_factory=list)
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    first_skipped: dict = dataclasses.field(default_factory=dict)
    token_files: dict = dataclasses.field(default_factory=dict)

    @property
    def text_bytes(self):
        """Size of the text in bytes, including unused documents."""
        return self.counts["text_bytes"]

    @functools.cached_property
    def token_starts(self):
        """Number of tokens before each of `token_files`, and of all: int64 array [n + 1]."""
        return np.cumsum([0, *self.token_files.values()])

    def ids_between(self, begin, end):
        """Ids of the tokens from `begin` to `end` - 1: int32 array."""
        if self.ids is not None:
            return self.ids[begin:end]
        contents = []
        bounds = itertools.pairwise(self.token_starts.tolist())
        for path, (start, stop) in zip(self.token_files, bounds, strict=True):
            first, last = max(begin, start), min(end, stop)
            if first < last:
                with tf.io.gfile.GFile(path, "rb") as file:
                    file.seek(ID_BYTES * (first - start))
                    contents.append(file.read(ID_BYTES * (last - first)))
        return np.frombuffer(b"".join(contents), np.int32)

    def sizes(self, cut_from, longest):
        """Counter of documents, sentences and tokens, and of the unusual ones among them.

        Args:
            cut_from: int, in tokens; longer sentences are cut into parts. 0 if none are.
            longest: int, in tokens; longer sentences that are not cut count as far too long.
        """
        lengths = np.diff(self.documents)
        single = self.documents[lengths[:, 0] == 1, 0]
        if cut_from:
            single = single[self.sentences[single + 1] - self.sentences[single] <= cut_from]
            longest = np.inf
        sizes = collections.Counter(
            documents=len(lengths),
            documents_of_one_sentence=len(single),
            sentences=int(lengths.sum()),
        )
        for first in range(0, len(self.sentences) - 1, _SENTENCES_TOGETHER):
            lengths = np.diff(self.sentences[first : first + _SENTENCES_TOGETHER + 1])
            lengths = lengths[_are_within(first + np.arange(len(lengths)), self.documents)]
            long = lengths[lengths > longest]
            sizes.update(
                tokens=int(lengths.sum()),
                sentences_far_too_long=len(long),
                tokens_of_long_sentences=int(long.sum()),
            )
            release(self.sentences)
        return sizes

    def unknown_pieces(self):
        """Counter of the pieces that are not in the vocabulary."""
        used = self.pieces[_are_within(self.unknown, self.sentences[self.documents])]
        numbers = np.bincount(used, minlength=len(self.piece_texts)).tolist()
        return +collections.Counter(dict(zip(self.piece_texts, numbers, strict=True)))

    def release(self):
        """Frees the memory of arrays that are mapped files."""
        release(*(getattr(self, name) for name in ARRAYS))


def _are_within(places, ranges):
    """Whether places (int array [n]) are within ascending ranges (int array [m, 2])."""
    number = np.searchsorted(ranges[:, 0], places, side="right") - 1
    return (number >= 0) & (places < ranges[number, 1])


# === Reading ===


def documents_file(directory):
    """Path of the file of all documents of a corpus, for `open_corpus`."""
    return _array_file(directory, "documents")


def open_corpus(path):
    """Opens a corpus; its arrays are mapped into memory, not read.

    Args:
        path: str, `documents_file` of a directory that a Writer wrote, or the file of a selection
            next to it: int64 [2, documents], the columns of `Corpus.documents`.
    """
    directory = os.path.dirname(path)
    content = files.read_json(os.path.join(directory, _CONTENT))
    arrays = {name: open_array(_array_file(directory, name), kind) for name, kind in ARRAYS.items()}
    if path == documents_file(directory):
        bounds = arrays["documents"]
        documents = np.lib.stride_tricks.as_strided(
            bounds, (len(bounds) - 1, 2), 2 * bounds.strides, writeable=False
        )
    else:
        documents = open_array(path, np.int64, 2, -1).T
    content["counts"] = collections.Counter(content["counts"])
    content["token_files"] = {
        f"{directory}{name}": size // TOKEN_BYTES
        for name, size in content.pop("sizes").items()
        if name.startswith(TOKENS_ENDING)
    }
    return Corpus(**arrays | {"documents": documents}, **content)


def is_whole(directory):
    """Whether a directory holds a corpus whose files all have the size they were written with."""
    sizes = record_files.read_state(os.path.join(directory, _CONTENT)).get("sizes")
    return bool(sizes) and all(
        size_of(f"{directory}{name}") == size for name, size in sizes.items()
    )


def size_of(path):
    """Size of a file in bytes; None if there is none."""
    return tf.io.gfile.stat(path).length if tf.io.gfile.exists(path) else None


def open_array(path, kind, *shape):
    """The array in a file, mapped for reading.

    Args:
        path: str. A remote file is copied.
        kind: type of the numbers.
        *shape: int, the shape; by default, the array has one dimension.

    Returns:
        numpy array; None if there is no such file.
    """
    if not (size := size_of(path)):  # an empty file cannot be mapped
        return None if size is None else np.zeros(0, kind).reshape(shape or -1)
    found = _copied(path, kind) if "://" in path else np.memmap(path, kind, "r")
    # A view as a plain array: slices of np.memmap are slow.
    return np.asarray(found).reshape(shape or -1)


@functools.lru_cache(maxsize=_MOST_COPIES)
def _copied(path, kind):
    """The array in a remote file, read from a temporary copy that is deleted with the array."""
    with tempfile.TemporaryFile() as copy, tf.io.gfile.GFile(path, "rb") as file:
        shutil.copyfileobj(file, copy, _COPIED_TOGETHER)
        copy.flush()
        return np.memmap(copy, kind, "r")


def release(*arrays):
    """Releases the memory pages of mapped arrays.

    They are read again when needed, if possible from the system's cache. Without this, the process
    would seem to need as much memory as it has ever read.

    Args:
        *arrays: numpy arrays or None; those that are not mapped stay as they are.
    """
    for owner in arrays:
        while owner is not None and not isinstance(owner, mmap.mmap):
            owner = getattr(owner, "base", None)
        if owner is not None and hasattr(mmap, "MADV_DONTNEED"):
            owner.madvise(mmap.MADV_DONTNEED)


# === Writing ===


class Writer(contextlib.ExitStack):
    """Appends encoded lines to the files of a corpus.

    Args:
        directory: str.
        arrays: dict, the arrays to write: ARRAYS or INDEX.

    Attributes:
        counts: Counter, the sum of the `counts` of the lines so far.
        num_documents: int, the documents so far.
    """

    def __init__(self, directory, arrays=ARRAYS):
        super().__init__()
        self._directory = directory
        self._out = {
            name: self.enter_context(tf.io.gfile.GFile(_array_file(directory, name), "wb"))
            for name in arrays
        }
        self._sizes = dict.fromkeys(self._out, 0)
        self._sentences, self._last_end = 0, 0
        self._pieces = {"": 0}  # text -> number
        self.counts, self._first_skipped = collections.Counter(), {}
        for name in ("sentences", "documents"):
            self._append(name, [0])
        self.num_documents = 0

    def _append(self, name, values):
        content = np.asarray(values, ARRAYS[name]).tobytes()
        self._out[name].write(content)
        self._sizes[name] += len(content)

    def add(self, lines):
        """Adds EncodedLines."""
        is_sentence, num_tokens = lines.lengths > 0, self.counts["tokens_read"]
        for name in TOKENS.keys() & self._out.keys():
            self._append(name, getattr(lines, name))
        ends = np.cumsum(lines.lengths[is_sentence])
        self._append("sentences", num_tokens + ends)
        before = self._sentences + np.cumsum(is_sentence)
        self._sentences += len(ends)
        self._end_documents(before[lines.lengths == line_encoder.BLANK])
        self._append("unknown", num_tokens + lines.unknown)
        self._append("pieces", list(map(self._piece_number, lines.pieces)))
        self.counts += lines.counts
        for reason, places in lines.skipped.items():
            first = self._first_skipped.setdefault(reason, [])
            first += places[: _MOST_NAMED - len(first)]

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

    def finish(self, token_files=()):
        """Ends the last document and writes the counts.

        Args:
            token_files: dict from name to size in bytes, if the tokens are in files of their own;
                the names are appended to the path of the directory.
        """
        self._end_documents([self._sentences])
        content = {
            "piece_texts": list(self._pieces),
            "counts": self.counts,
            "first_skipped": self._first_skipped,
            "sizes": {f"/{name}.bin": size for name, size in self._sizes.items()}
            | dict(token_files),
        }
        files.write_text(os.path.join(self._directory, _CONTENT), json.dumps(content))


def _array_file(directory, name):
    return os.path.join(directory, f"{name}.bin")
