# SPDX-License-Identifier: Apache-2.0
"""Strings to ids inside a TensorFlow graph, for SavedModels: the same ids as `FullTokenizer`.

`graph_characters` cleans the text up, and tensorflow-text does the rest, so a SavedModel that
contains this can be loaded only after `import tensorflow_text`.

Letters of shapes: B texts, T tokens of a text; N characters, W words and P tokens of all texts in a
row, one text after the other.
"""

import unicodedata
from typing import NamedTuple

import tensorflow as tf

from albert_tf.errors import UserError, import_extra
from albert_tf.publish import graph_characters as graph
from albert_tf.text import clean_up, tokenization

BLANK, ALONE = 1, 2  # in WordPiece: white space; characters that are words of their own
STRINGS = tf.TensorSpec([None], tf.string)
_CASINGS = {"tr": graph.LowerTurkish, "az": graph.LowerTurkish, "lt": graph.LowerLithuanian}
_CJK = tuple((*limits, ALONE) for limits in tokenization._CJK_RANGES)  # unassigned ones too


def operations():
    """The package tensorflow_text, which registers its operations when it is imported.

    Raises:
        UserError: it is not installed.
    """
    return import_extra("tensorflow_text", "an exported model that takes text")


class PiecesWithOffsets(NamedTuple):
    """Tokens of texts, int32 RaggedTensors [B, (T)]; [start, end) in characters of the text."""

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class GraphTokenizer(tf.Module):
    """`FullTokenizer` and its clean-up as TensorFlow operations: SentencePiece or WordPiece.

    Args:
        tokenizer: FullTokenizer.
        takes_text: bool, whether it is for text, which needs tensorflow_text, or only describes.

    Attributes:
        is_sentencepiece: bool, path: str and clean_up: CleanUp, of the FullTokenizer.
        special_tokens: dict of int, `vocab_size`, `start_of_sequence_id`, `end_of_segment_id`,
            `padding_id`, and `mask_id` if the vocabulary has that token.

    Raises:
        UserError: a token that is needed is missing.
    """

    def __init__(self, tokenizer, takes_text=True):
        super().__init__()
        self.is_sentencepiece, self.path = tokenizer.is_sentencepiece, tokenizer.path
        self.clean_up = tokenizer.clean_up
        special = tokenizer.special_ids(with_mask=False)
        self.special_tokens = {
            "vocab_size": tokenizer.vocab_size,
            "start_of_sequence_id": special.cls,
            "end_of_segment_id": special.sep,
            "padding_id": special.pad,
        }
        if special.mask is not None:
            self.special_tokens["mask_id"] = special.mask
        mode = _SentencePieceMode if tokenizer.is_sentencepiece else _WordPieceMode
        self._mode = mode(tokenizer) if takes_text else None

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize(self, texts):
        """Ids of the tokens of texts.

        Args:
            texts: string [B] in UTF-8; bytes that are not valid are dropped.

        Returns:
            int32 RaggedTensor [B, (T)].
        """
        return self._mode.tokenize(graph.read_characters(texts)).ids

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize_with_offsets(self, texts):
        """Ids of the tokens of texts, and the part of its text that each stands for.

        White space belongs to no token, so a lone "▁" has start = end. A character that the
        clean-up drops, such as an accent, belongs to the one before it.

        Args:
            texts: string [B] in UTF-8; bytes that are not valid are dropped.

        Returns:
            PiecesWithOffsets. Starts and ends (exclusive) are characters of the given text.
        """
        return self._mode.tokenize(graph.read_characters(texts))


def _pieces(text, table, splits):
    """Tokens with offsets in the texts as given.

    Args:
        text: Text without white space.
        table: int32 [P, 3]: id, first character (index into `text`), last one (exclusive).
        splits: int64 [B + 1], row splits of the tokens.

    Returns:
        PiecesWithOffsets.
    """
    ids, first, last = tf.unstack(table, axis=1)
    rows = tf.ragged.row_splits_to_segment_ids(splits)
    limit = tf.gather(text.splits(), rows + 1)
    # The 0 at the end is for tokens without a character, if no text has a character.
    text_starts, text_ends = (tf.concat([field, [0]], axis=0) for field in (text.starts, text.ends))
    end_of_text = tf.gather(text_ends, tf.maximum(limit - 1, 0))
    starts = tf.where(first < limit, tf.gather(text_starts, first), end_of_text)
    ends = tf.where(first < last, tf.gather(text_ends, tf.maximum(last - 1, 0)), starts)
    return PiecesWithOffsets(
        *(
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values in (ids, starts, ends)
        )
    )


# --- SentencePiece ---


class _SentencePieceMode(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        self._is_blank = graph.table_of(str.isspace)
        self._clean_up = _clean_up_steps(tokenizer.clean_up)
        processor = tokenization.load_sentencepiece(tokenizer.path)
        self._processor = operations().SentencepieceTokenizer(
            processor.serialized_model_proto(), tf.string
        )
        # Only the text of a token decides its id, as in the original: "[CLS]" in a text may become
        # one unknown token, which has the id of [CLS].
        pieces = tf.lookup.KeyValueTensorInitializer(
            list(tokenizer.vocab), list(tokenizer.vocab.values()), tf.string, tf.int32
        )
        self._ids = tf.lookup.StaticHashTable(pieces, processor.unk_id())
        digits = "".join(char for char in graph.characters() if char.isdigit())
        self._digit_comma = f"(?s).*[{digits}],"

    def tokenize(self, text):
        text = _single_spaced(text, self._is_blank)
        for step in self._clean_up:
            text = step(text)
        pieces, starts, ends = self._processor.tokenize_with_offsets(
            graph.to_strings(text.codes, text.rows, text.count)
        )
        string_starts = tf.gather(text.splits(), pieces.value_rowids())
        solid = text.codes != graph.SPACE
        solid_before = graph.running_total(tf.cast(solid, tf.int32))
        first, last = (
            tf.gather(solid_before, graph.characters_at(text.codes, string_starts, offsets.values))
            for offsets in (starts, ends)
        )
        table = tf.stack([self._ids.lookup(pieces.values), first, last], axis=1)
        table, splits = self._numbers_apart(pieces, table)
        return _pieces(text.gather(graph.indices_of(solid)), table, splits)

    def _numbers_apart(self, pieces, table):
        """Takes tokens such as "1990," apart: see `tokenization.encode_pieces`.

        Args:
            pieces: string RaggedTensor [B, (T)].
            table: int32 [P, 3]: id, first character, last character (exclusive).

        Returns:
            (table, row splits) with the new tokens.
        """
        is_apart = tf.strings.regex_full_match(pieces.values, self._digit_comma)
        return tf.cond(
            tf.reduce_any(is_apart),
            lambda: self._split_again(pieces, table, is_apart),
            lambda: (table, pieces.row_splits),
        )

    def _split_again(self, pieces, table, is_apart):
        texts = tf.strings.regex_replace(pieces.values, ",$|▁", "")
        new, starts, ends = self._processor.tokenize_with_offsets(tf.where(is_apart, texts, ""))
        source = new.value_rowids()
        _, first, last = tf.unstack(table, axis=1)
        text, first_char, comma = (tf.gather(x, source) for x in (texts, first, last - 1))
        new_first, new_last = (
            tf.minimum(first_char + _character_count(text, offsets.values), comma)
            for offsets in (starts, ends)
        )
        numbers = tf.stack([self._ids.lookup(new.values), new_first, new_last], axis=1)
        comma_ids = tf.fill(tf.shape(last), self._ids.lookup(tf.constant(",")))
        commas = tf.stack([comma_ids, last - 1, last], axis=1)
        whole, commas = (
            tf.RaggedTensor.from_row_lengths(tf.boolean_mask(rows, mask), tf.cast(mask, tf.int64))
            for rows, mask in ((table, ~is_apart), (commas, is_apart))
        )
        found = tf.concat([whole, new.with_values(numbers), commas], axis=1)  # [P, (T), 3]
        return found.values, tf.gather(found.row_splits, pieces.row_splits)


def _clean_up_steps(settings):
    """`CleanUp` as a list of steps."""
    casing = _CASINGS.get(settings.casing_language) if settings.do_lower_case else None
    # The casing of a language looks at accents, so they are dropped after it.
    drops_at_once = settings.strip_accents and not casing
    steps = [graph.Replacement(_cleaned, settings, drops_at_once)]
    if settings.decomposes and not drops_at_once:
        steps.append(graph.OrderMarks())
    if casing:
        steps.append(casing())
        if settings.strip_accents:
            steps.append(graph.DropMarks())
    if settings.do_lower_case:
        steps.append(graph.LowerSigma())
    return steps


def _cleaned(char, settings, drops_accents):
    """A character after the steps of `CleanUp` that look at no other character."""
    if settings.decomposes:
        char = unicodedata.normalize("NFKD", char)
    elif settings.do_lower_case:
        char = clean_up.APART_WITH_ACCENT.get(settings.casing_language, {}).get(char, char)
    if drops_accents:
        char = "".join(part for part in char if not unicodedata.combining(part))
    return (
        graph.lower_characters(char, settings.casing_language) if settings.do_lower_case else char
    )


def _single_spaced(text, is_blank):
    """Like " ".join(text.split()): the last of every run of white space inside a text stays."""
    solid = is_blank(text.codes) == 0
    solid_before = graph.running_total(tf.cast(solid, tf.int32))[:-1]
    is_inside = solid_before > tf.gather(solid_before, tf.gather(text.splits(), text.rows))
    kept = graph.indices_of(solid | (is_inside & graph.followed_by(solid, text.rows)))
    return text._replace(codes=tf.where(solid, text.codes, graph.SPACE)).gather(kept)


def _character_count(text, bytes_):
    """Characters in the first bytes of each text: int32 [n]."""
    start = tf.strings.substr(text, tf.zeros_like(bytes_), bytes_)
    return tf.strings.length(start, unit="UTF8_CHAR")


# --- WordPiece ---


class _WordPieceMode(tf.Module):
    def __init__(self, tokenizer):
        super().__init__()
        vocab, lower = tokenizer.vocab, tokenizer.do_lower_case
        if tokenization.UNKNOWN not in vocab:
            raise UserError(
                f"{tokenizer.path} lacks {tokenization.UNKNOWN}: add it as a line of its own"
            )
        decomposes = lower and tokenizer.strip_accents
        steps = [graph.Replacement(_cleaned_of_word, lower, decomposes)]
        if decomposes:
            steps.append(graph.OrderMarks(are_accents_dropped=True))
            steps.append(graph.DropMarks(tokenization.is_accent))
        if lower:
            steps.append(graph.LowerSigma())
        self._clean_up = steps
        self._classes = graph.table_of(_word_class, fixed=_CJK)
        max_bytes = 4 * tokenization.MAX_CHARS_PER_WORD
        self._too_long = "a" * (max_bytes + 1)
        self._processor = operations().FastWordpieceTokenizer(
            list(vocab),
            max_bytes_per_word=max_bytes,
            token_out_type=tf.int32,
            unknown_token=tokenization.UNKNOWN,
            no_pretokenization=True,
        )

    def tokenize(self, text):
        for step in self._clean_up:
            text = step(text)
        text, is_start = _in_words(text, self._classes(text.codes))
        word_starts = graph.indices_of(is_start)
        word_of = tf.cumsum(tf.cast(is_start, tf.int32)) - 1
        words = graph.to_strings(text.codes, word_of, tf.size(word_starts))
        lengths = tf.concat([word_starts[1:], [tf.size(is_start)]], axis=0) - word_starts
        is_too_long = lengths > tokenization.MAX_CHARS_PER_WORD
        pieces, starts, ends = self._processor.tokenize_with_offsets(
            tf.where(is_too_long, self._too_long, words)
        )
        source = pieces.value_rowids()
        string_starts = tf.gather(word_starts, source)
        first, last = (
            graph.characters_at(text.codes, string_starts, offsets.values)
            for offsets in (starts, ends)
        )
        last = tf.minimum(last, string_starts + tf.gather(lengths, source))  # of a long word
        rows = tf.gather(text.rows, string_starts)
        splits = tf.searchsorted(rows, tf.range(text.count + 1), out_type=tf.int64)
        return _pieces(text, tf.stack([pieces.values, first, last], axis=1), splits)


def _in_words(text, classes):
    """Text without its white space, and which of its characters start a word (bool [N])."""
    after_word = tf.concat([[True], classes[:-1] > 0], axis=0)[: tf.size(classes)]
    is_start = after_word | text.is_first() | (classes == ALONE)
    solid = graph.indices_of(classes != BLANK)
    return text.gather(solid), tf.gather(is_start, solid)


def _cleaned_of_word(char, lower, decomposes):
    found = char if tokenization.cleaned(char) else ""
    found = graph.lower_characters(found) if lower else found
    return unicodedata.normalize("NFD", found) if decomposes else found


def _word_class(char):
    if char.isspace():
        return BLANK
    return ALONE if len(tokenization.set_apart(char)) > 1 else 0
