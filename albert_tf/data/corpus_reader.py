# SPDX-License-Identifier: Apache-2.0
"""Text files to tokenised documents, in flat arrays that are files."""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data import line_encoding, worker_pool
from albert_tf.errors import UserError

_CHUNK_BYTES = 1 << 18
_MOST_UNKNOWN = 100_000  # different unknown pieces that are counted one by one
_ARRAYS = {"ids": np.int32, "opens_word": np.bool_, "sentences": np.int64, "documents": np.int64}
_FIGURES = "corpus.json"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Tokenised documents in flat arrays.

    Args:
        ids: int32 [tokens].
        opens_word: bool [tokens], whether the piece starts a word.
        sentences: int64 [number of sentences + 1], offsets into `ids`; the last one is its length.
        documents: int64 [number of documents + 1], offsets into `sentences`.
        unknown: Counter of the pieces that are not in the vocabulary. The most frequent have their
            own counts; of a text with very many different ones, "" is the rest.
        lines_dropped: int, lines with text in which the tokenizer found no piece.
        text_bytes: int, size of the text.
    """

    ids: np.ndarray
    opens_word: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lines_dropped: int = 0
    text_bytes: int = 0

    @property
    def num_documents(self):
        """Documents with at least one sentence."""
        return len(self.documents) - 1

    @property
    def num_sentences(self):
        """Sentences with at least one token."""
        return len(self.sentences) - 1


def open_corpus(directory):
    """The Corpus in a directory; its arrays are mapped, not read.

    Args:
        directory: str, where `write_corpus` wrote it.
    """
    figures = files.read_json(os.path.join(directory, _FIGURES))
    figures["unknown"] = collections.Counter(figures["unknown"])
    # Views as plain arrays: slices of np.memmap are slow.
    arrays = {
        name: np.asarray(np.memmap(_array_file(directory, name), kind, "r"))
        for name, kind in _ARRAYS.items()
    }
    return Corpus(**arrays, **figures)


def content_hashes(paths):
    """Hashes of the contents of files, to tell whether a corpus was made of the same.

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
        for block in _blocks(path):
            content.update(block)
        hashes.append(content.hexdigest())
    return hashes


def write_corpus(paths, encoder, directory, pool):
    """Tokenises text files: one sentence per line, blank lines between documents.

    Args:
        paths: list of str.
        encoder: line_encoding.LineEncoder.
        directory: str, on a local disk, that the corpus is written to, for `open_corpus`; it
            appears when all is done.
        pool: worker_pool.WorkerPool.

    Raises:
        UserError: a file cannot be read or is not UTF-8, or there is no text in any.
    """
    with files.replacing_directory(directory) as name, contextlib.ExitStack() as stack:
        bar = stack.enter_context(worker_pool.progress("tokenising", _total_size(paths)))
        writer = stack.enter_context(_Writer(name))
        for lines in pool.in_order(encoder, chunks(paths), bar.update):
            writer.add(lines)
        writer.finish()
        if not writer.num_documents:
            raise UserError(f"no text in {', '.join(paths)}: no instance can be made")


class _Writer(contextlib.ExitStack):
    """Appends encoded lines to the files of a corpus."""

    def __init__(self, directory):
        super().__init__()
        self._directory = directory
        self._out = {
            name: self.enter_context(tf.io.gfile.GFile(_array_file(directory, name), "wb"))
            for name in _ARRAYS
        }
        self._tokens, self._sentences, self._last_end = 0, 0, 0
        self._unknown, self._other_unknown = collections.Counter(), 0
        self._lines_dropped, self._text_bytes = 0, 0
        for name in ("sentences", "documents"):
            self._append(name, [0])
        self.num_documents = 0

    def _append(self, name, values):
        self._out[name].write(np.asarray(values, _ARRAYS[name]).tobytes())

    def add(self, lines):
        """Adds EncodedLines."""
        is_sentence = lines.lengths > 0
        self._append("ids", lines.ids)
        self._append("opens_word", lines.opens_word)
        ends = np.cumsum(lines.lengths[is_sentence])
        self._append("sentences", self._tokens + ends)
        before = self._sentences + np.cumsum(is_sentence)
        self._end_documents(before[lines.lengths == line_encoding.BLANK])
        self._tokens += len(lines.ids)
        self._sentences += len(ends)
        self._lines_dropped += int(np.sum(lines.lengths == 0))
        self._text_bytes += lines.size
        self._unknown.update(lines.unknown)
        if len(self._unknown) > 2 * _MOST_UNKNOWN:
            total = self._unknown.total()
            self._unknown = collections.Counter(dict(self._unknown.most_common(_MOST_UNKNOWN)))
            self._other_unknown += total - self._unknown.total()

    def _end_documents(self, ends):
        ends = np.unique(ends)
        ends = ends[ends > self._last_end]
        if len(ends):
            self._append("documents", ends)
            self._last_end = int(ends[-1])
            self.num_documents += len(ends)

    def finish(self):
        """Ends the last document and writes the figures."""
        self._end_documents(np.array([self._sentences]))
        for file in self._out.values():
            file.flush()
        unknown = dict(self._unknown) | ({"": self._other_unknown} if self._other_unknown else {})
        figures = {
            "unknown": unknown,
            "lines_dropped": self._lines_dropped,
            "text_bytes": self._text_bytes,
        }
        files.write_text(os.path.join(self._directory, _FIGURES), json.dumps(figures))


def _array_file(directory, name):
    return os.path.join(directory, f"{name}.bin")


# === Reading ===


def chunks(paths):
    """Yields the text of files in Chunks of whole lines. A file's end is no document's end.

    Args:
        paths: list of str.

    Raises:
        UserError: a file cannot be read.
    """
    for path in paths:
        line, parts = 1, []
        for block in _blocks(path):
            last = block.rfind(b"\n") + 1
            if not last:  # within a long line
                parts.append(block)
                continue
            content = b"".join([*parts, block[:last]])
            yield line_encoding.Chunk(content, path, line)
            line += content.count(b"\n")
            parts = [block[last:]]
        if content := b"".join(parts):
            yield line_encoding.Chunk(content, path, line)


def _blocks(path):
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            while block := file.read(_CHUNK_BYTES):
                yield block
    except tf.errors.OpError as error:
        raise UserError(f"{path} cannot be read: {error.message}") from error


def _total_size(paths):
    try:
        return sum(tf.io.gfile.stat(path).length for path in paths)
    except tf.errors.OpError as error:
        raise UserError(f"{error.message}") from error
