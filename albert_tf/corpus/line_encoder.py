# SPDX-License-Identifier: Apache-2.0
"""Converts lines of text to ids, in batches.

SentencePiece encodes many lines to ids at once, and whether a piece starts a word is looked up by
its id. Lines are tokenized into pieces only if they have an id that is not enough (of an unknown
piece, or of a number before a comma).
"""

import collections
from typing import NamedTuple

import numpy as np

from albert_tf.corpus import text_files
from albert_tf.options import WORD_STARTS
from albert_tf.text.text_losses import Losses
from albert_tf.text.tokenization import UNKNOWN_PIECES, WORD_START, Cache, is_unspaced

BLANK = -1  # length of a line that ends a document


class EncodedLines(NamedTuple):
    """Tokens of lines.

    Attributes:
        ids: int32 array [tokens].
        opens_word: bool array [tokens].
        lengths: int array [lines], number of tokens of each line: BLANK if the line ends a
            document, 0 if the line has text in which the tokenizer finds no piece.
        unknown: int64 array, the places in `ids` of pieces that are not in the vocabulary.
        pieces: list of str, these pieces.
        skipped: dict from the reason why lines are left out (see `text_files.sentences`) to list of
            str, their places.
        counts: Counter of text_bytes, text_lines (those of the file that are not blank),
            tokens_read, lines_dropped (lines of length 0), the numbers of lines in `skipped`,
            marked (tokens that begin with SentencePiece's mark of a space, or that come after one
            in words of WordPiece), inner_letters (tokens that do not, but open a word because of
            letters other than a-z; letters of languages without spaces, such as Chinese, do not
            count), and those of text_losses.Losses.
    """

    ids: np.ndarray
    opens_word: np.ndarray
    lengths: np.ndarray
    unknown: np.ndarray
    pieces: list
    skipped: dict
    counts: collections.Counter


class LineEncoder:
    """Encodes chunks of text; picklable, for worker processes.

    Args:
        tokenizer: FullTokenizer.
        word_start: str, one of WORD_STARTS. With "original", FullTokenizer.is_start_piece decides
            whether a piece starts a word; with "piece", a space before it does.
    """

    def __init__(self, tokenizer, word_start=WORD_STARTS[0]):
        self._tokenizer = tokenizer
        self._has_words_of_spaces = word_start == "piece" and not tokenizer.is_sentencepiece
        size = max(tokenizer.inv_vocab) + 1
        self._is_start_piece = Cache(
            _is_marked
            if word_start == "piece" and tokenizer.is_sentencepiece
            else tokenizer.is_start_piece
        )
        self._starts, self._odd, self._unknown = np.zeros((3, size), bool)
        self._marked, self._foreign = np.zeros((2, size), bool)
        for piece, id_ in tokenizer.vocab.items():
            self._starts[id_] = self._is_start_piece[piece]
            self._marked[id_] = _is_marked(piece)
            self._foreign[id_] = any(map(_is_foreign_letter, piece.removeprefix(WORD_START)))
            self._odd[id_] = tokenizer.needs_pieces(id_)
            self._unknown[id_] = piece in UNKNOWN_PIECES
        self._losses = Losses.of(tokenizer)
        self._known = tokenizer.vocab.keys() - set(UNKNOWN_PIECES)

    def __call__(self, chunk, report):
        """Returns the EncodedLines of a Chunk.

        Args:
            chunk: Chunk.
            report: callable, takes the number of bytes done.

        Raises:
            UserError: the chunk is not UTF-8, or does not have its format.
        """
        lines, skipped = text_files.sentences(chunk)
        texts = self._tokenizer.normalize_batch([line.strip() for line in lines])
        ids, opens_word, lengths, unknown, pieces = self._encode(texts)
        opens_word[(np.cumsum(lengths) - lengths)[lengths > 0]] = True  # marked or not
        lengths[[not text for text in texts]] = BLANK
        # The pieces of WordPiece have no mark of a space.
        marked = opens_word if self._has_words_of_spaces else self._marked[ids]
        counts = collections.Counter(
            text_bytes=len(chunk.content),
            text_lines=chunk.num_lines,
            tokens_read=len(ids),
            lines_dropped=int(np.sum(lengths == 0)),
            **{reason: len(numbers) for reason, numbers in skipped.items()},
            marked=int(marked.sum()),
            inner_letters=int(np.sum(self._starts[ids] & self._foreign[ids] & ~marked)),
        )
        counts += self._losses.count(lines)
        report(len(chunk.content))
        places = {
            reason: [f"{chunk.path}, line {number}" for number in numbers]
            for reason, numbers in skipped.items()
        }
        return EncodedLines(ids, opens_word, lengths, unknown, pieces, places, counts)

    def _encode(self, texts):
        """Returns the first five attributes of EncodedLines."""
        ids, lengths = self._tokenizer.encode_batch(texts)
        if not self._odd.any():  # WordPiece: an unknown word has no text of its own
            unknown = np.flatnonzero(self._unknown[ids])
            pieces = self._tokenizer.convert_ids_to_tokens(ids[unknown].tolist())
            starts = (
                self._tokenizer.are_after_spaces(texts)
                if self._has_words_of_spaces
                else self._starts[ids]
            )
            return ids.astype(np.int32), starts, lengths, unknown, pieces
        ends = np.cumsum(lengths)
        opens_word = self._starts[ids]
        kept, known_starts, done = [], [], 0  # parts so far, which cover the ids before `done`
        unknown, unknown_pieces, grown = [], [], 0
        for line in np.unique(np.searchsorted(ends, np.flatnonzero(self._odd[ids]), "right")):
            pieces = self._tokenizer.tokenize(texts[line], is_normalized=True)
            before = slice(done, ends[line] - lengths[line])
            for place, piece in enumerate(pieces, start=int(before.stop) + grown):
                if piece not in self._known:
                    unknown.append(place)
                    unknown_pieces.append(piece)
            # Look up the piece and not its id: the text of an unknown piece decides too.
            starts = list(map(self._is_start_piece.__getitem__, pieces))
            kept += [ids[before], self._tokenizer.convert_tokens_to_ids(pieces)]
            known_starts += [opens_word[before], starts]
            grown += len(pieces) - int(lengths[line])
            done, lengths[line] = ends[line], len(pieces)
        ids = np.concatenate([*kept, ids[done:]], dtype=np.int32)
        opens_word = np.concatenate([*known_starts, opens_word[done:]])
        return ids, opens_word, lengths, np.array(unknown, np.int64), unknown_pieces


def _is_marked(piece):
    return piece.startswith(WORD_START)


def _is_foreign_letter(char):
    """Whether a character is a letter, beyond ASCII, of a script with spaces between words."""
    is_letter = not char.isascii() and char.isalpha()
    return is_letter and not is_unspaced(char)
