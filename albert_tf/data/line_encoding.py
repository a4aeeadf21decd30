# SPDX-License-Identifier: Apache-2.0
"""Lines of text to ids, in batches.

SentencePiece encodes many lines to ids at once, and whether a piece starts a word is looked up by
its id. Only lines with an id that does not tell all (an unknown piece, or a number before a comma)
are taken apart into pieces.
"""

import collections
import itertools
from typing import NamedTuple

import numpy as np

from albert_tf.errors import UserError

_UNKNOWN_PIECES = ("<unk>", "[UNK]")
_MOST_PIECES = 1 << 17
BLANK = -1  # length of a line that ends a document


class Chunk(NamedTuple):
    """Some whole lines of a file.

    Attributes:
        content: bytes in UTF-8.
        path: str.
        first_line: int, number of the first line, from 1.
        ends_document: bool, whether a document ends after it.
    """

    content: bytes
    path: str
    first_line: int
    ends_document: bool = False


class EncodedLines(NamedTuple):
    """Tokens of lines.

    Attributes:
        size: int, bytes of the text.
        ids: int32 array [tokens].
        opens_word: bool array [tokens].
        lengths: int array [lines], tokens of each line; BLANK for one that ends a document, 0 for
            one with text in which the tokenizer finds no piece.
        unknown: Counter of the pieces that are not in the vocabulary.
    """

    size: int
    ids: np.ndarray
    opens_word: np.ndarray
    lengths: np.ndarray
    unknown: collections.Counter


class LineEncoder:
    """Encodes chunks of text; picklable, for worker processes.

    Args:
        tokenizer: FullTokenizer.
    """

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        size = max(tokenizer.inv_vocab) + 1
        self._starts, self._odd = np.zeros(size, bool), np.zeros(size, bool)
        for piece, id_ in tokenizer.vocab.items():
            self._starts[id_] = tokenizer.is_start_piece(piece)
            self._odd[id_] = tokenizer.needs_pieces(id_)
        self._is_start_piece = _StartPieces(tokenizer)
        self._known = tokenizer.vocab.keys() - set(_UNKNOWN_PIECES)
        unknown = [id_ for piece, id_ in tokenizer.vocab.items() if piece in _UNKNOWN_PIECES]
        self._is_unknown = np.isin(np.arange(size), unknown)

    def __call__(self, chunk, report):
        """EncodedLines of a Chunk.

        Args:
            chunk: Chunk.
            report: callable, takes the number of bytes done.

        Raises:
            UserError: the chunk is not UTF-8.
        """
        normalize = self._tokenizer.normalize
        texts = [normalize(line.strip()) for line in _lines(chunk)]
        if chunk.ends_document:
            texts.append("")
        encoded = self._encode(texts, len(chunk.content))
        report(len(chunk.content))
        return encoded

    def _encode(self, texts, size):
        rows = self._tokenizer.encode_batch(texts)
        lengths = np.array([len(row) for row in rows], np.int64)
        flat = _flat(rows, lengths)
        odd = self._odd[flat]
        starts_of = {}
        unknown = collections.Counter()
        for line in np.unique(np.repeat(np.arange(len(rows)), lengths)[odd]).tolist():
            pieces = self._tokenizer.tokenize(texts[line])
            rows[line] = self._tokenizer.convert_tokens_to_ids(pieces)
            lengths[line] = len(pieces)
            # By the piece and not by its id: an unknown piece still has the text that decides.
            starts_of[line] = list(map(self._is_start_piece.__getitem__, pieces))
            unknown.update(itertools.filterfalse(self._known.__contains__, pieces))
        ids = _flat(rows, lengths) if starts_of else flat
        opens_word = self._starts[ids]
        ends = np.cumsum(lengths).tolist()
        for line, starts in starts_of.items():
            opens_word[ends[line] - len(starts) : ends[line]] = starts
        if not self._odd.any():  # WordPiece: an unknown word has no text of its own
            found = ids[self._is_unknown[ids]]
            unknown.update(self._tokenizer.convert_ids_to_tokens(found.tolist()))
        lengths[[not text for text in texts]] = BLANK
        return EncodedLines(size, ids, opens_word, lengths, unknown)


class _StartPieces(dict):
    """Whether pieces start words, looked up once for each piece."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def __missing__(self, piece):
        if len(self) >= _MOST_PIECES:
            self.clear()
        self[piece] = self._tokenizer.is_start_piece(piece)
        return self[piece]

    def __reduce__(self):
        return _StartPieces, (self._tokenizer,)


def _flat(rows, lengths):
    return np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())


def _lines(chunk):
    try:
        return chunk.content.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        number = chunk.first_line + chunk.content.count(b"\n", 0, error.start)
        start = error.start - chunk.content.rfind(b"\n", 0, error.start) - 1
        raise UserError(
            f"{chunk.path}, line {number}: not UTF-8 ({error.reason} at byte {start}); "
            "convert the file, or remove the line"
        ) from error
