# SPDX-License-Identifier: Apache-2.0
"""Text files to tokenised documents, in flat arrays."""

import array
import collections
import dataclasses
import functools
import sys

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from albert_tf.errors import UserError

_UNKNOWN_PIECES = {"<unk>", "[UNK]"}


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Tokenised documents in flat arrays.

    Args:
        ids: int32 [tokens].
        opens_word: bool [tokens], whether the piece starts a word.
        sentences: int64 [number of sentences + 1], offsets into `ids`; the last one is its length.
        documents: int64 [number of documents + 1], offsets into `sentences`.
        unknown: Counter of the pieces that are not in the vocabulary.
        lines_dropped: int, lines with text in which the tokenizer found no piece.
    """

    ids: np.ndarray
    opens_word: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lines_dropped: int = 0

    @property
    def num_documents(self):
        """Documents with at least one sentence."""
        return len(self.documents) - 1

    @property
    def num_sentences(self):
        """Sentences with at least one token."""
        return len(self.sentences) - 1


def count_lines(files):
    """Number of lines of text files, read to the end so that a bad one is found before any work.

    Args:
        files: list of str.

    Raises:
        UserError: a file cannot be read or is not UTF-8; says which file and line.
    """
    return sum(1 for _ in _lines(files))


def _lines(files):
    """Yields the lines of all files. A file's end is no document's end, as in the original."""
    for path in files:
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                for number, line in enumerate(file, start=1):  # noqa: B007 (named in the error)
                    yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}); "
                "convert the file, or remove the line"
            ) from error
        except tf.errors.OpError as error:
            raise UserError(f"{path} cannot be read: {error.message}") from error


def read_corpus(files, tokenizer, num_lines=None):
    """Tokenises text files: one sentence per line, blank lines between documents.

    Args:
        files: list of str.
        tokenizer: FullTokenizer.
        num_lines: int or None, lines of all files, for the progress bar.

    Returns:
        Corpus.

    Raises:
        UserError: a file cannot be read, or there is no text in any.
    """
    ids, opens_word = array.array("i"), array.array("b")
    sentences, documents = array.array("q", [0]), array.array("q", [0])
    unknown, lines_dropped = collections.Counter(), 0
    known = tokenizer.vocab.keys() - _UNKNOWN_PIECES
    # By the piece and not by its id: an unknown piece still has the text that decides.
    is_start_piece = functools.lru_cache(maxsize=1 << 16)(tokenizer.is_start_piece)

    for line in progress(_lines(files), "tokenising", "line", num_lines):
        text = tokenizer.normalize(line.strip())
        if not text:
            if documents[-1] < len(sentences) - 1:
                documents.append(len(sentences) - 1)
            continue
        pieces = tokenizer.tokenize(text)
        if not pieces:
            lines_dropped += 1
            continue
        ids.extend(tokenizer.convert_tokens_to_ids(pieces))
        opens_word.extend(map(is_start_piece, pieces))
        sentences.append(len(ids))
        unknown.update(piece for piece in pieces if piece not in known)
    if documents[-1] < len(sentences) - 1:
        documents.append(len(sentences) - 1)
    if len(documents) == 1:
        raise UserError(f"no text in {', '.join(files)}: no instance can be made")

    return Corpus(
        np.frombuffer(ids, np.int32),
        np.frombuffer(opens_word, bool),
        np.frombuffer(sentences, np.int64),
        np.frombuffer(documents, np.int64),
        unknown,
        lines_dropped,
    )


def progress(iterable, what, unit, total):
    """Progress on stderr; where that is no terminal, a line now and then is enough."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    return tqdm(iterable, what, total, unit=f" {unit}s", unit_scale=True, mininterval=seconds)
