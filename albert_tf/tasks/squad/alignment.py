# SPDX-License-Identifier: Apache-2.0
"""Alignment of tokens with the characters of the raw text."""

import collections
import dataclasses
import functools
import itertools
import re
import sys
import unicodedata
from typing import NamedTuple

import numpy as np

from albert_tf.text.tokenization import WORD_START

BLOCK_ROWS = 1024  # of a table of characters, in memory at once
UNLINKED = -1  # in arrays of positions: no counterpart


class Paragraph(NamedTuple):
    """Tokens of a paragraph and the raw text that they stand for.

    Args:
        piece_ids: int32 array [tokens].
        starts: int32 array [tokens], first raw character of each token.
        ends: int32 array [tokens], last raw character (inclusive).
    """

    piece_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Alignment(NamedTuple):
    """A paragraph, and the links of its raw characters, by which answers are placed.

    Args:
        paragraph: Paragraph.
        links: int array [raw characters], position in the joined tokens, or UNLINKED.
        piece_of_char: int array [characters of the joined tokens], index of the token.
    """

    paragraph: Paragraph
    links: np.ndarray
    piece_of_char: np.ndarray


def align(text, tokenizer):
    """Aligns a raw paragraph with its tokens.

    Args:
        text: str, raw.
        tokenizer: tokenization.FullTokenizer.

    Returns:
        Alignment, or None if less than 0.8 of the characters, or none, can be linked. Where the
        original gives up, letters are linked together with their marks, characters that the
        clean-up drops do not count, and white space counts once.
    """
    pieces = tokenizer.tokenize(text)
    texts = _texts(pieces, tokenizer)
    joined = "".join(texts)
    clean_up = tokenizer.clean_up
    if not (tokenizer.is_sentencepiece or clean_up.do_lower_case):
        clean_up = dataclasses.replace(clean_up, strip_accents=False)  # WordPiece keeps them then
    alone = normalized_characters(text, clean_up)
    links, goes_on = _links(alone, joined), ()
    if links is None:
        characters = composed_characters(text, clean_up)
        pairs = enumerate(itertools.pairwise(["", *characters]))
        counted = [n for n, (last, c) in pairs if c and not (c.isspace() and last.isspace())]
        found = _links([characters[n] for n in counted], joined)
        if found is None:
            return None
        links = np.full(len(text), UNLINKED)
        links[counted] = found
        goes_on = [not c and bool(own) for c, own in zip(characters, alone, strict=True)]
    lengths = np.array([len(piece) for piece in texts])
    after = np.cumsum(lengths)
    back = np.full(len(joined), UNLINKED)
    linked = np.flatnonzero(links != UNLINKED)
    back[links[linked]] = linked
    ends = convert_positions(back, after - 1, False, len(text))
    last = np.arange(len(text))
    for place in reversed(np.flatnonzero(goes_on)):  # marks belong to their letter
        last[place - 1] = last[place]
    ends = last[ends]
    return Alignment(
        Paragraph(
            np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32),
            convert_positions(back, after - lengths, True, len(text)).astype(np.int32),
            ends.astype(np.int32),
        ),
        links,
        np.repeat(np.arange(len(pieces)), lengths),
    )


def _links(characters, joined):
    """Links of the characters, or None if less than 0.8 of them, or none, can be linked."""
    least = 0.8 * len(characters)
    # At most the characters in common can be linked: others need no table.
    if (collections.Counter(characters) & collections.Counter(joined)).total() < least:
        return None
    links, score = link_characters(characters, joined)
    return links if score and score >= least else None


def _texts(pieces, tokenizer):
    """The text of each token, with a space where a word begins: list of str."""
    if tokenizer.is_sentencepiece:
        return [piece.replace(WORD_START, " ") for piece in pieces]
    return [piece[2:] if piece.startswith("##") else f" {piece}" for piece in pieces]


def normalized_characters(text, clean_up):
    """Each raw character normalised by itself (list of str): most give one character, not all."""
    return [_normalized(char, clean_up) for char in text]


@functools.cache  # a text has few different characters
def _normalized(char, clean_up):
    # as SentencePiece composes a letter and mark
    return unicodedata.normalize("NFC", clean_up(char, remove_space=False))


def composed_characters(text, clean_up):
    """Like `normalized_characters`, but a letter and its marks give one character if there is one.

    This is what SentencePiece makes of decomposed text. The marks themselves then give none.
    """
    found = []
    for match in _cluster().finditer(text):
        char = unicodedata.normalize("NFKC", clean_up(match[0], remove_space=False))
        chars = [*char] if len(char) <= len(match[0]) else [char]
        found += chars + [""] * (len(match[0]) - len(chars))
    return found


@functools.cache
def _cluster():
    """Pattern of a character with its marks: combining ones, of half-width kana, and of Hangul."""
    marks = "".join(filter(unicodedata.combining, map(chr, range(sys.maxunicode + 1))))
    return re.compile(f".[{re.escape(marks)}\uff9e\uff9f\u1160-\u11ff]*", re.DOTALL)


def link_characters(characters, joined):
    """Links characters of two texts by a longest common subsequence near the diagonal.

    Args:
        characters: list of n str; only those of length 1 can be linked.
        joined: str of m characters.

    Returns:
        (links, score): int array [n] of positions in `joined` or UNLINKED, and the length of the
        subsequence, which may be a lower bound: the band around the diagonal is |n - m| + 5 wide
        on each side, or twice that if fewer than 0.8 n could be linked.
    """
    n, m = len(characters), len(joined)
    if not n or not m:
        return np.full(n, UNLINKED), 0
    # SentencePiece puts one "▁" in front, and for most English paragraphs that is all. Then the
    # table need not be made. Cell (i, i+1) of it holds i+1: all characters so far. The cell above
    # holds at most i, for it has seen i characters. The cell to the left also has at most i: i+1
    # would take characters[:i+1] == joined[:i+1], but they differ in the first. So the trace is a
    # link at every step.
    if characters[0] != joined[0] and characters == list(joined[1:]):
        return np.arange(1, n + 1), n
    for attempt in (1, 2):
        half_width = (abs(n - m) + 5) * attempt
        table = _ScoreTable(characters, joined, half_width)
        if table.score > 0.8 * n:
            break
    return table.trace(), table.score


class _ScoreTable:
    """The table of the longest common subsequence of n characters and m, within a band.

    f(i, j) is the length for characters[:i+1] and joined[:j+1], where only cells with
    i - half_width <= j < i + half_width count. Neighbours in a row differ by 0 or 1, so a row fits
    into one integer, whose bits are set where f(i, j) = f(i, j-1): Hyyrö, "Bit-parallel LCS-length
    computation revisited" (2004). A row then takes a few operations on integers.

    Bit b of row i is column i - half_width + b. Columns further left have no link any more and do
    not change; those further right have none yet, and one bit is enough for all of them. Columns
    that do not exist have no link either. Only the row before each block of rows is kept: the trace
    computes the blocks again.

    Args:
        characters: list of n str.
        joined: str of m characters.
        half_width: int.
    """

    def __init__(self, characters, joined, half_width):
        self._characters, self._half_width = characters, half_width
        self._codes = np.frombuffer(joined.encode("utf-32-le"), np.uint32)
        flat = (2 << 2 * half_width) - 1
        self._rows_before, self.score = [], 0
        for begin in range(0, len(characters), BLOCK_ROWS):
            self._rows_before.append(flat)
            for matches in self._matches(begin):
                matches &= flat
                flat = (flat + matches) | (flat ^ matches)
                self.score += not flat & 1  # this column leaves the band
                flat = self._next_band(flat)
        self.score += 2 * half_width + 1 - flat.bit_count()

    def _next_band(self, flat):
        """The bits of a row, moved to the columns of the next one."""
        return flat >> 1 | 1 << 2 * self._half_width

    def _matches(self, begin):
        """Yields, for each row of a block, the columns of the band with the row's character."""
        block = self._characters[begin : begin + BLOCK_ROWS]
        left = begin - self._half_width
        first = max(left, 0)
        codes = self._codes[first : begin + len(block) + self._half_width]
        columns = {}
        for char in {char for char in block if len(char) == 1}:
            bits = np.packbits(codes == ord(char), bitorder="little")
            columns[char] = int.from_bytes(bits.tobytes(), "little") << first - left
        band = (1 << 2 * self._half_width) - 1
        for row, char in enumerate(block):
            yield columns.get(char, 0) >> row & band

    def _block(self, begin, flat):
        """Rows of a block as (links, lefts): bits of the cells where the trace links or goes left.

        Args:
            begin: int, its first row.
            flat: int, the row before.
        """
        rows = []
        for matches in self._matches(begin):
            matches &= flat
            total = flat + matches
            # A carry into j says f(i, j-1) = f(i-1, j-1) + 1: a match further left adds one.
            carries = total ^ flat ^ matches
            rows.append((matches & ~carries, flat & carries))
            flat = self._next_band(total | (flat ^ matches))
        return rows

    def trace(self):
        """Links from the last cell backwards; where ways are equally good, up, left, link.

        A link is taken if it beats both the cell above and the one to the left, a step to the left
        if that cell beats the one above. A trace may leave the band upwards: the values there are
        those on its edge, so it comes back by steps to the left before the next link.
        """
        links = np.full(len(self._characters), UNLINKED)
        i, j = len(links) - 1, len(self._codes) - 1
        for block, flat in reversed(list(enumerate(self._rows_before))):
            begin = block * BLOCK_ROWS
            rows = self._block(begin, flat)
            while i >= begin and j >= 0:
                is_link, is_left = rows[i - begin]
                bit = min(j - i, self._half_width) + self._half_width
                if is_link >> bit & 1:
                    links[i] = j
                    i, j = i - 1, j - 1
                elif is_left >> bit & 1:
                    j -= 1
                else:
                    i -= 1
        return links


def convert_positions(links, positions, is_start, limit=None):
    """Converts positions along the links; a position without a link is placed by its neighbours.

    Between two links, a start goes right behind the former and an end right before the latter, if
    there is anything in between; before the first link to 0 or right before it; after the last one
    right behind it or to the end of the text.

    Args:
        links: int array [n], ascending, UNLINKED where there is none; at least one is.
        positions: int array, indices into `links`.
        is_start: bool, whether they are first characters of something, or last ones.
        limit: int, length of the other text; None: what comes after the last link goes to it.

    Returns:
        int array like `positions`.
    """
    links, positions = np.asarray(links), np.asarray(positions)
    linked = links != UNLINKED
    assert linked.any(), "nothing is linked"
    index = np.arange(len(links))
    front = np.maximum.accumulate(np.where(linked, index, -1))[positions]
    rear = np.minimum.accumulate(np.where(linked, index, len(links))[::-1])[::-1][positions]
    before, after = links[front], links[np.minimum(rear, len(links) - 1)]
    at_end = before if limit is None else limit - 1
    if is_start:
        head, between, tail = 0, before + 1, np.minimum(before + 1, at_end)
    else:
        head, between, tail = np.maximum(after - 1, 0), after - 1, at_end
    return np.select(
        [linked[positions], front < 0, rear == len(links)],
        [links[positions], head, tail],
        default=between,
    )
