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

from albert_tf.data import text_formats
from albert_tf.errors import UserError
from albert_tf.text.tokenization import WORD_START

_UNKNOWN_PIECES = ("<unk>", "[UNK]")
_MOST_PIECES = 1 << 17
WORD_STARTS = ("original", "piece")
BLANK = -1  # length of a line that ends a document


class EncodedLines(NamedTuple):
    """Tokens of lines.

    Attributes:
        size: int, bytes of the text.
        ids: int32 array [tokens].
        opens_word: bool array [tokens].
        lengths: int array [lines], tokens of each line; BLANK for one that ends a document, 0 for
            one with text in which the tokenizer finds no piece.
        unknown: Counter of the pieces that are not in the vocabulary.
        skipped: list of str, the lines left out because they are not UTF-8.
        marked, inner_letters: int, tokens that begin with SentencePiece's mark of a space, and
            tokens that do not, but open a word because of letters that are not in a-z.
    """

    size: int
    ids: np.ndarray
    opens_word: np.ndarray
    lengths: np.ndarray
    unknown: collections.Counter
    skipped: list
    marked: int
    inner_letters: int


class LineEncoder:
    """Encodes chunks of text; picklable, for worker processes.

    Args:
        tokenizer: FullTokenizer.
        form: text_formats.Format.
        word_start: str, one of WORD_STARTS; "original": FullTokenizer.is_start_piece; "piece":
            pieces with SentencePiece's mark of a space.
    """

    def __init__(self, tokenizer, form, word_start=WORD_STARTS[0]):
        if word_start == "piece" and not tokenizer.is_sentencepiece:
            raise UserError("--word_start=piece needs a --spm_model_file")
        self._tokenizer, self._form = tokenizer, form
        size = max(tokenizer.inv_vocab) + 1
        self._is_start_piece = _StartPieces(tokenizer, word_start)
        self._starts, self._odd, self._marked, self._foreign = np.zeros((4, size), bool)
        for piece, id_ in tokenizer.vocab.items():
            self._starts[id_] = self._is_start_piece[piece]
            self._marked[id_] = piece.startswith(WORD_START)
            self._foreign[id_] = any(char.isalpha() and not char.isascii() for char in piece)
            self._odd[id_] = tokenizer.needs_pieces(id_)
        self._known = tokenizer.vocab.keys() - set(_UNKNOWN_PIECES)
        unknown = [id_ for piece, id_ in tokenizer.vocab.items() if piece in _UNKNOWN_PIECES]
        self._is_unknown = np.isin(np.arange(size), unknown)

    def __call__(self, chunk, report):
        """EncodedLines of a Chunk.

        Args:
            chunk: Chunk.
            report: callable, takes the number of bytes done.

        Raises:
            UserError: the chunk is not UTF-8, or not of the form.
        """
        lines, skipped = text_formats.sentences(chunk, self._form)
        normalize = self._tokenizer.normalize
        texts = [normalize(line.strip()) for line in lines]
        where = [f"{chunk.path}, line {number}" for number in skipped]
        encoded = self._encode(texts, len(chunk.content), where)
        report(len(chunk.content))
        return encoded

    def _encode(self, texts, size, skipped):
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
        marked = self._marked[ids]
        inner_letters = int(np.sum(self._starts[ids] & self._foreign[ids] & ~marked))
        marks = int(marked.sum()), inner_letters
        return EncodedLines(size, ids, opens_word, lengths, unknown, skipped, *marks)


class _StartPieces(dict):
    """Whether pieces start words, looked up once for each piece."""

    def __init__(self, tokenizer, word_start):
        self._tokenizer, self._word_start = tokenizer, word_start

    def __missing__(self, piece):
        if len(self) >= _MOST_PIECES:
            self.clear()
        is_marked = self._word_start == "piece"
        self[piece] = (
            piece.startswith(WORD_START) if is_marked else self._tokenizer.is_start_piece(piece)
        )
        return self[piece]

    def __reduce__(self):
        return _StartPieces, (self._tokenizer, self._word_start)


def _flat(rows, lengths):
    return np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum())
