# SPDX-License-Identifier: Apache-2.0
"""Characters of texts inside a TensorFlow graph, and their clean-up.

The clean-up looks up each code point in tables made from Python's own Unicode data, so that the
graph and `tokenization` agree by construction. Every character keeps its place in the given text,
from which offsets are computed.

Letters of shapes: B texts; N characters and P tokens of all texts in a row, one text after the
other.
"""

import functools
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text import clean_up
from albert_tf.text.tokenization import is_accent

SPACE, CAPITAL_SIGMA, SIGMA, FINAL_SIGMA = (ord(char) for char in " Σσς")
CAPITAL_I, SMALL_I, DOTLESS_I, DOT_ABOVE = (ord(char) for char in ("I", "i", "ı", "\u0307"))
CODE_POINTS = sys.maxunicode + 1
PAGE_BITS = 8  # of a code point: its place in a page of a table
CASED, IGNORED = 1, 2  # classes of characters by which lower() decides if a sigma ends its word


class Text(NamedTuple):
    """Characters of all texts in a row, int32 [N], and how many texts there are.

    codes: Unicode code points. rows: the text that each character belongs to. [starts, ends): the
    characters of the given text that it stands for.
    """

    codes: tf.Tensor
    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    count: tf.Tensor

    def gather(self, indices):
        """The characters at `indices`."""
        return Text(*(tf.gather(field, indices) for field in self[:4]), self.count)

    def splits(self):
        """Where the characters of each text begin, and the end of all: int32 [B + 1]."""
        return tf.searchsorted(self.rows, tf.range(self.count + 1))

    def is_first(self):
        """Whether a character is the first of its text: bool [N]."""
        return differs_from_last(self.rows)

    def without_dropped(self, kept):
        """Only the characters at `kept`; each takes over the place of those dropped after it."""
        limits = tf.gather(self.splits(), tf.gather(self.rows, kept) + 1)
        following = tf.minimum(tf.concat([kept[1:], limits[-1:]], axis=0), limits)
        return self.gather(kept)._replace(ends=tf.gather(self.ends, following - 1))


def read_characters(texts):
    """Characters of texts (string [B])."""
    ragged = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
    rows = tf.cast(ragged.value_rowids(), tf.int32)
    starts = tf.range(tf.size(rows)) - tf.gather(tf.cast(ragged.row_starts(), tf.int32), rows)
    return Text(ragged.values, rows, starts, starts + 1, tf.cast(ragged.nrows(), tf.int32))


def to_strings(codes, rows, count):
    """Code points (int32 [N]) as strings [count]; `rows` (int32 [N]) tells the string of each."""
    ragged = tf.RaggedTensor.from_value_rowids(
        codes, tf.cast(rows, tf.int64), tf.cast(count, tf.int64), validate=False
    )
    return tf.strings.unicode_encode(ragged, "UTF-8")


def characters_at(codes, first, offsets):
    """Indices of characters from places in UTF-8 strings.

    Args:
        codes: int32 [N], code points of all strings in a row.
        first: int32 [P], index of the first character of the string that the place is in.
        offsets: int [P], the place in its string, in bytes.

    Returns:
        int32 [P], indices into `codes`, or N.
    """
    bytes_ = 1 + sum(tf.cast(codes >= more, tf.int32) for more in (0x80, 0x800, 0x10000))
    places = running_total(bytes_)
    return tf.searchsorted(places, tf.gather(places, first) + tf.cast(offsets, tf.int32))


def running_total(numbers):
    """Sum of the numbers (int32 [n]) before each, and of all of them: int32 [n + 1]."""
    return tf.concat([[0], tf.cumsum(numbers)], axis=0)


def differs_from_last(values):
    """Which values are the first or unlike the one before: bool [n]."""
    return tf.concat([[True], values[1:] != values[:-1]], axis=0)[: tf.size(values)]  # n may be 0


def followed_by(condition, rows):
    """Whether a condition (bool [n]) holds for the next of the same text (rows: int32 [n])."""
    return tf.concat([condition[1:] & (rows[1:] == rows[:-1]), [False]], axis=0)[: tf.size(rows)]


def indices_of(condition):
    """Where a condition (bool [n]) holds: int32."""
    return tf.cast(tf.where(condition)[:, 0], tf.int32)


# --- Tables of all characters ---


@functools.cache
def characters():
    """Tuple of the characters that have properties: no unassigned, private or surrogate ones."""
    chars = map(chr, range(CODE_POINTS))
    return tuple(char for char in chars if unicodedata.category(char) not in ("Cn", "Co", "Cs"))


def table_of(function, *settings, fixed=()):
    """A `CodePointTable` of a function's value for each character; made once per process.

    Args:
        function: (str of one character, *settings) -> int or bool.
        *settings: hashable.
        fixed: tuple of (first code point, last one, number), which replace results of `function`.
    """
    return CodePointTable(_pages_of(function, settings, fixed))


@functools.cache
def _pages_of(function, settings, fixed):
    numbers = np.zeros(CODE_POINTS, np.int32)
    for char in characters():
        numbers[ord(char)] = function(char, *settings)
    for first, last, number in fixed:
        numbers[first : last + 1] = number
    return _paged(numbers)


def _paged(numbers):
    """Pages of numbers (int32 [CODE_POINTS]), and where the page of each code point begins."""
    pages = numbers.reshape(-1, 1 << PAGE_BITS)
    pages, page_of = np.unique(pages, axis=0, return_inverse=True)
    return pages.ravel(), np.array(page_of.ravel() << PAGE_BITS, np.int32)


class CodePointTable:
    """A number for every code point, looked up in pages; pages that are equal are kept once.

    Args:
        pages: (int32 array of all pages in a row, int32 array of the place where each page of the
            code points begins in it), from `_paged`.
    """

    def __init__(self, pages):
        self._numbers, self._page_starts = map(tf.constant, pages)

    def __call__(self, codes):
        page_start = tf.gather(self._page_starts, tf.bitwise.right_shift(codes, PAGE_BITS))
        place = tf.bitwise.bitwise_and(codes, (1 << PAGE_BITS) - 1)
        return tf.gather(self._numbers, page_start + place)


# --- Clean-up ---


def _if_any(condition, change, text):
    """The changed Text if a condition (bool [N]) holds for a character, else the same Text."""
    return tf.cond(tf.reduce_any(condition), lambda: change(text), lambda: text)


class Replacement:
    """Replaces each character in the clean-up: mostly by one other, sometimes by none or several.

    Args:
        function: (str of one character, *settings) -> str.
        *settings: hashable.
    """

    def __init__(self, function, *settings):
        pages, codes, lengths = _replacements(function, *settings)
        self._change = CodePointTable(pages)
        self._entries = tf.RaggedTensor.from_row_lengths(codes, lengths)

    def __call__(self, text):
        text = text._replace(codes=text.codes + self._change(text.codes))
        return _if_any(text.codes >= CODE_POINTS, self._expanded, text)

    def _expanded(self, text):
        new = tf.gather(self._entries, tf.maximum(text.codes - CODE_POINTS + 1, 0))
        kept = indices_of(new.row_lengths() > 0)
        text, new = text.without_dropped(kept), tf.gather(new, kept)
        text = text.gather(new.value_rowids())
        return text._replace(codes=tf.where(text.codes < CODE_POINTS, text.codes, new.values))


@functools.cache
def _replacements(function, *settings):
    """Applies the function of a `Replacement` to all characters.

    Returns:
        (pages of what to add to each code point; codes of the entries in a row, and their lengths).
    """
    change = np.zeros(CODE_POINTS, np.int32)
    entries = {}  # replacements that are not one character, by number
    for char in characters():
        new = function(char, *settings)
        is_entry = len(new) != 1
        code = CODE_POINTS + entries.setdefault(new, len(entries)) if is_entry else ord(new)
        change[ord(char)] = code - ord(char)
    codes = np.array([0, *map(ord, "".join(entries))], np.int32)
    return _paged(change), codes, [1, *map(len, entries)]  # the first is for single characters


class LowerSigma:
    """Lower case of Σ: ς at the end of a word, else σ. Other letters do not depend on others."""

    def __init__(self):
        self._context = table_of(_sigma_context)

    def __call__(self, text):
        return _if_any(text.codes == CAPITAL_SIGMA, self._lowered, text)

    def _lowered(self, text):
        context = self._context(text.codes)
        seen = indices_of(context != IGNORED)
        rows, letter = tf.gather(text.rows, seen), tf.gather(context, seen) == CASED
        after_letter = tf.concat([[False], letter[:-1] & ~differs_from_last(rows)[1:]], axis=0)
        sigma = tf.where(after_letter & ~followed_by(letter, rows), FINAL_SIGMA, SIGMA)
        codes = tf.gather(text.codes, seen)
        codes = tf.where(codes == CAPITAL_SIGMA, sigma, codes)
        codes = tf.tensor_scatter_nd_update(text.codes, seen[:, tf.newaxis], codes)
        return text._replace(codes=codes)


def _sigma_context(char):
    """CASED, IGNORED or 0, determined with lower(), since Python has no other way to find out."""
    if (char + "Σ").lower()[-1] == "ς":
        return CASED
    return IGNORED if ("A" + char + "Σ").lower()[-1] == "ς" else 0


def lower_characters(text, language="other"):
    """Lower case of each character, regardless of its neighbours, on which some depend.

    Args:
        text: str.
        language: str, one of options.CASING_LANGUAGES.

    Returns:
        str, in which Σ and the letters that the language lower-cases in its own way are unchanged.
    """
    unchanged = "Σ" + clean_up.CASED_APART.get(language, "")
    return "".join(char if char in unchanged else char.lower() for char in text)


class LowerTurkish:
    """Lower case of I in Turkish and Azerbaijani: i with a dot above it, which goes, else ı."""

    def __init__(self):
        self._is_between = table_of(_is_mark_between)

    def __call__(self, text):
        return _if_any(text.codes == CAPITAL_I, self._lowered, text)

    def _lowered(self, text):
        seen = indices_of(self._is_between(text.codes) == 0)
        codes, rows = tf.gather(text.codes, seen), tf.gather(text.rows, seen)
        is_i = codes == CAPITAL_I
        has_dot = is_i & followed_by(codes == DOT_ABOVE, rows)
        codes = tf.where(is_i, tf.where(has_dot, SMALL_I, DOTLESS_I), codes)
        codes = tf.tensor_scatter_nd_update(text.codes, seen[:, tf.newaxis], codes)
        dots = tf.gather(seen, indices_of(has_dot) + 1)
        is_dot = tf.scatter_nd(dots[:, tf.newaxis], tf.ones_like(dots), tf.shape(codes))
        return text._replace(codes=codes).without_dropped(indices_of(is_dot == 0))


class LowerLithuanian:
    """Lower case of I, J and Į in Lithuanian, which get a dot below another accent."""

    def __init__(self):
        self._is_between = table_of(_is_mark_between)
        self._is_above = table_of(_is_mark_above)
        self._change = table_of(_change_of_lithuanian)

    def __call__(self, text):
        change = self._change(text.codes)
        return _if_any(change > 0, lambda text: self._lowered(text, change), text)

    def _lowered(self, text, change):
        seen = indices_of(self._is_between(text.codes) == 0)
        codes, rows = tf.gather(text.codes, seen), tf.gather(text.rows, seen)
        is_letter = tf.gather(change, seen) > 0
        gets_dot = is_letter & followed_by(self._is_above(codes) > 0, rows)
        marks = tf.gather(seen, indices_of(gets_dot) + 1)  # the dot goes in front of the mark
        counts = tf.tensor_scatter_nd_update(
            tf.ones_like(text.codes), marks[:, tf.newaxis], tf.fill(tf.shape(marks), 2)
        )
        indices = tf.repeat(tf.range(tf.size(counts)), counts)
        is_dot = followed_by(~differs_from_last(indices), tf.gather(text.rows, indices))
        text = text._replace(codes=text.codes + change).gather(indices)
        return text._replace(codes=tf.where(is_dot, DOT_ABOVE, text.codes))


def _change_of_lithuanian(char):
    """What to add to the code point of a letter of `LowerLithuanian`; 0 for other characters."""
    return ord(char.lower()) - ord(char) if char in clean_up.CASED_APART["lt"] else 0


def _is_mark_between(char):
    """Whether a mark may stand between a letter and the mark above it."""
    return unicodedata.combining(char) not in (0, clean_up.ABOVE)


def _is_mark_above(char):
    return unicodedata.combining(char) == clean_up.ABOVE


class DropMarks:
    """Drops marks of text in which each character is decomposed.

    Args:
        is_dropped: function of a character -> int or bool; by default its combining class, so that
            all marks with one are dropped.
    """

    def __init__(self, is_dropped=unicodedata.combining):
        self._is_dropped = table_of(is_dropped)

    def __call__(self, text):
        return text.without_dropped(indices_of(self._is_dropped(text.codes) == 0))


class OrderMarks:
    """Puts marks in canonical order, in text in which each character is decomposed by itself.

    Args:
        are_accents_dropped: bool, whether accents (category Mn) are dropped afterwards, so that
            their order does not matter.
    """

    def __init__(self, are_accents_dropped=False):
        self._order = table_of(unicodedata.combining)
        self._is_mark = table_of(_is_other_mark) if are_accents_dropped else self._order

    def __call__(self, text):
        return _if_any(self._is_mark(text.codes) > 0, self._in_order, text)

    def _in_order(self, text):
        """The text, in which each run of marks is sorted by combining class."""
        order = self._order(text.codes)
        run = tf.cumsum(tf.cast((order == 0) | text.is_first(), tf.int64))
        indices = tf.argsort(run * 256 + tf.cast(order, tf.int64), stable=True)
        return text.gather(indices)


def _is_other_mark(char):
    """Whether a mark stays where accents are dropped, as in Balinese, Hangul and music."""
    return unicodedata.combining(char) > 0 and not is_accent(char)
