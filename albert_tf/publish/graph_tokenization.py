# SPDX-License-Identifier: Apache-2.0
"""Strings to ids inside a TensorFlow graph, for SavedModels: the same ids as `FullTokenizer`.

The clean-up of the text works on code points. What becomes of each is looked up in tables that are
made from Python's own Unicode data when a tokenizer is built, so that the graph and `tokenization`
agree by construction; and every character knows its place in the text as given, hence offsets.
tensorflow-text does the rest: whoever loads a SavedModel of this has to `import tensorflow_text`.

Letters of shapes: B texts, T pieces of a text; N characters, W words and P pieces of all texts in a
row, one text after the other.
"""

import functools
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text

from albert_tf.errors import UserError
from albert_tf.text import tokenization
from albert_tf.text.tokenization import FullTokenizer, preprocess_text

DEFAULT_SEQ_LENGTH = 128  # of the Hub's preprocessing modules
SPACE, CAPITAL_SIGMA, SIGMA, FINAL_SIGMA = (ord(char) for char in " Σσς")
CODE_POINTS = sys.maxunicode + 1
PAGE_BITS = 8  # of a code point: its place in a page of a table
CASED, IGNORED = 1, 2  # what lower() sees when it looks whether a sigma ends its word
BLANK, ALONE = 1, 2  # in WordPiece: white space; characters that are words of their own
STRINGS = tf.TensorSpec([None], tf.string)


class Pieces(NamedTuple):
    """Pieces of texts, int32 RaggedTensors [B, (T)]; [start, end) in characters of the text."""

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class GraphTokenizer(tf.Module):
    """`FullTokenizer` and its clean-up as TensorFlow operations: SentencePiece or WordPiece.

    Args:
      spm_model_file: str or None, SentencePiece model.
      vocab_file: str or None, WordPiece vocabulary; ignored when there is a SentencePiece model.
      do_lower_case: bool, lower-case the text (in WordPiece also strip accents).

    Attributes:
      is_sentencepiece: bool.
      special_tokens: dict of int, `vocab_size`, `start_of_sequence_id`, `end_of_segment_id`,
        `padding_id`, and `mask_id` if the vocabulary has that piece.

    Raises:
      UserError: neither file is given, one cannot be used, or a piece that is needed is missing.
    """

    def __init__(self, spm_model_file=None, vocab_file=None, do_lower_case=True):
        super().__init__()
        tokenizer = FullTokenizer(vocab_file, do_lower_case, spm_model_file)
        self.is_sentencepiece = tokenizer.is_sentencepiece
        special = tokenizer.special_ids(with_mask=False)
        self.special_tokens = {
            "vocab_size": tokenizer.vocab_size,
            "start_of_sequence_id": special.cls,
            "end_of_segment_id": special.sep,
            "padding_id": special.pad,
        }
        if special.mask is not None:
            self.special_tokens["mask_id"] = special.mask
        if tokenizer.is_sentencepiece:
            self._mode = _SentencePieceMode(spm_model_file, tokenizer.vocab, do_lower_case)
        else:
            self._mode = _WordPieceMode(vocab_file, tokenizer.vocab, do_lower_case)

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize(self, texts):
        """Ids of the pieces of texts.

        Args:
          texts: string [B] in UTF-8; bytes that are not valid are dropped.

        Returns:
          int32 RaggedTensor [B, (T)].
        """
        return self._mode.tokenize(_read(texts)).ids

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize_with_offsets(self, texts):
        """Ids of the pieces of texts, and the part of its text that each stands for.

        White space belongs to no piece, so a lone "▁" has start = end. A character that the
        clean-up drops, such as an accent, belongs to the one before it.

        Args:
          texts: string [B] in UTF-8; bytes that are not valid are dropped.

        Returns:
          Pieces: ids, starts, ends (exclusive), counted in Unicode characters of the text as given.
        """
        return self._mode.tokenize(_read(texts))


# --- Ids to inputs of the model ---


def pack(segments, seq_length, tokenizer):
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut and padded to one length.

    A single segment that is too long is cut. Of a pair, the longer one loses its last piece until
    both fit, and b if they are equally long, as in the original.

    Args:
      segments: list of one or two int32 RaggedTensors [B, (T)] or [B, (W), (T)].
      seq_length: int or int32 scalar tensor; None: the longest row of the batch.
      tokenizer: GraphTokenizer, for its special ids.

    Returns:
      dict of int32 [B, seq_length]: `input_word_ids`, `input_mask`, `input_type_ids`.

    Raises:
      UserError: there are not one or two segments.
      tf.errors.InvalidArgumentError: seq_length has no room for [CLS] and [SEP].
    """
    if len(segments) not in (1, 2):
        raise UserError(f"segments: got {len(segments)}; a sequence is made of one or of two")
    segments = [_one_row_per_text(segment) for segment in segments]
    if seq_length is not None:
        segments = _truncated(segments, seq_length)

    special, rows = tokenizer.special_tokens, segments[0].nrows()
    start = tf.fill([rows, 1], special["start_of_sequence_id"])
    end = tf.fill([rows, 1], special["end_of_segment_id"])
    parts = [tf.concat([start, segments[0], end], axis=1)]
    parts += [tf.concat([segment, end], axis=1) for segment in segments[1:]]
    ids = tf.concat(parts, axis=1)
    types = tf.concat([tf.ones_like(part) * i for i, part in enumerate(parts)], axis=1)
    return {
        "input_word_ids": _padded(ids, seq_length, special["padding_id"]),
        "input_mask": _padded(tf.ones_like(ids), seq_length),
        "input_type_ids": _padded(types, seq_length),
    }


def _one_row_per_text(segment):
    words_apart = segment.shape.rank == 3
    return segment.merge_dims(1, 2) if words_apart else segment


def _truncated(segments, seq_length):
    """Segments (int32 ragged [B, (T)]) that fit into `seq_length` with [CLS] and [SEP]s."""
    room = tf.cast(seq_length, tf.int64) - len(segments) - 1
    too_small = "seq_length has no room for [CLS] and [SEP]; give a larger one"
    with tf.control_dependencies([tf.debugging.assert_non_negative(room, too_small)]):
        room = tf.identity(room)
    lengths = [segment.row_lengths() for segment in segments]
    if len(segments) == 1:
        kept = [tf.minimum(lengths[0], room)]
    else:
        # What is left when the longer one loses its last piece again and again, b on a tie.
        a, b = lengths
        kept = [
            tf.minimum(a, tf.maximum(room - b, (room + 1) // 2)),
            tf.minimum(b, tf.maximum(room - a, room // 2)),
        ]
    return [
        cut_rows(segment, tf.zeros_like(length), length)
        for segment, length in zip(segments, kept, strict=True)
    ]


def cut_rows(rows, begin, end, row=None):
    """Pieces [begin, end) of rows, gathered one by one: a row may be long and be cut often.

    Args:
      rows: RaggedTensor [B, (T)].
      begin: integer tensor [n].
      end: integer tensor [n].
      row: int32 [n], the row that each is cut from; None: n = B, each from its own.

    Returns:
      RaggedTensor [n, (T)].
    """
    row_starts = tf.cast(rows.row_starts(), begin.dtype)
    if row is not None:
        row_starts = tf.gather(row_starts, row)
    indices = tf.ragged.range(row_starts + begin, row_starts + end)
    return indices.with_values(tf.gather(rows.values, indices.values))


def _padded(rows, seq_length, padding=0):
    if seq_length is None:
        return rows.to_tensor(padding)
    padded = rows.to_tensor(padding, shape=tf.stack([-1, seq_length]))
    return tf.ensure_shape(padded, [None, tf.get_static_value(seq_length)])


# --- Preprocessing, as TensorFlow Hub has it ---


class Preprocessing(tf.Module):
    """The Hub's text preprocessing object: strings in, inputs of the encoder out.

    Has what the common API for text asks for: a call on string [B], `tokenize` (and
    `tokenize.get_special_tokens_dict`), `bert_pack_inputs`, and `tokenize_with_offsets`.

    Args:
      spm_model_file, vocab_file, do_lower_case: as of `GraphTokenizer`.
      seq_length: int, length of a call's output, and of `bert_pack_inputs` where none is given.

    Raises:
      UserError: as `GraphTokenizer`.
    """

    def __init__(
        self,
        spm_model_file=None,
        vocab_file=None,
        do_lower_case=True,
        seq_length=DEFAULT_SEQ_LENGTH,
    ):
        super().__init__()
        self._tokenizer = GraphTokenizer(spm_model_file, vocab_file, do_lower_case)
        self._seq_length = seq_length
        self.tokenize = _Tokenize(self._tokenizer)
        self._trace_bert_pack_inputs()

    @tf.function(input_signature=[STRINGS], autograph=False)
    def __call__(self, texts):
        """Inputs of the encoder, int32 [B, seq_length] each, for string [B]: [CLS] text [SEP]."""
        return pack([self._tokenizer.tokenize(texts)], self._seq_length, self._tokenizer)

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize_with_offsets(self, texts):
        """Ids, starts and ends of pieces: see `GraphTokenizer.tokenize_with_offsets`."""
        return tuple(self._tokenizer.tokenize_with_offsets(texts))

    @tf.function(autograph=False)
    def bert_pack_inputs(self, inputs, seq_length=None):
        """One or two segments as inputs of the encoder: see `pack`.

        Args:
          inputs: list of one or two int32 RaggedTensors [B, (T)] or [B, (W), (T)].
          seq_length: int32 scalar or int; None: that of the module.

        Returns:
          dict of int32 [B, seq_length].
        """
        if seq_length is None:
            seq_length = self._seq_length
        return pack(inputs, seq_length, self._tokenizer)

    def _trace_bert_pack_inputs(self):
        """Makes the forms of `bert_pack_inputs` that a SavedModel shall have."""
        flat, by_words = (
            tf.RaggedTensorSpec([None] * rank, tf.int32, ragged_rank=rank - 1) for rank in (2, 3)
        )
        pairs = [[a, b] for a in (flat, by_words) for b in (flat, by_words)]
        for inputs in [[flat], [by_words], *pairs]:
            self.bert_pack_inputs.get_concrete_function(inputs)
            self.bert_pack_inputs.get_concrete_function(
                inputs, seq_length=tf.TensorSpec([], tf.int32)
            )


class _Tokenize(tf.Module):
    """`Preprocessing.tokenize`: can be called, and tells the special ids."""

    def __init__(self, tokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[STRINGS], autograph=False)
    def __call__(self, texts):
        return self._tokenizer.tokenize(texts)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        return {name: tf.constant(id_) for name, id_ in self._tokenizer.special_tokens.items()}


# --- Characters ---


class _Text(NamedTuple):
    """Characters of all texts in a row, int32 [N], and how many texts there are.

    codes: Unicode code points. rows: the text that each is of. [starts, ends): the characters of
    that text, as it was given, that it stands for.
    """

    codes: tf.Tensor
    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    count: tf.Tensor

    def gather(self, indices):
        """The characters at `indices`."""
        return _Text(*(tf.gather(field, indices) for field in self[:4]), self.count)

    def splits(self):
        """Where the characters of each text begin, and the end of all: int32 [B + 1]."""
        return tf.searchsorted(self.rows, tf.range(self.count + 1))

    def is_first(self):
        """Whether a character is the first of its text: bool [N]."""
        first = tf.concat([[True], self.rows[1:] != self.rows[:-1]], axis=0)
        return first[: tf.size(self.rows)]  # there may be no character at all

    def without_dropped(self, kept):
        """Only the characters at `kept`; each takes over the place of those dropped after it."""
        limits = tf.gather(self.splits(), tf.gather(self.rows, kept) + 1)
        following = tf.minimum(tf.concat([kept[1:], limits[-1:]], axis=0), limits)
        return self.gather(kept)._replace(ends=tf.gather(self.ends, following - 1))


def _read(texts):
    """Characters of texts (string [B])."""
    ragged = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
    rows = tf.cast(ragged.value_rowids(), tf.int32)
    starts = tf.range(tf.size(rows)) - tf.gather(tf.cast(ragged.row_starts(), tf.int32), rows)
    return _Text(ragged.values, rows, starts, starts + 1, tf.cast(ragged.nrows(), tf.int32))


def _strings(codes, rows, count):
    """Code points (int32 [N]) as strings [count]; `rows` (int32 [N]) tells the string of each."""
    ragged = tf.RaggedTensor.from_value_rowids(
        codes, tf.cast(rows, tf.int64), tf.cast(count, tf.int64), validate=False
    )
    return tf.strings.unicode_encode(ragged, "UTF-8")


def _characters_at(codes, first, offsets):
    """Indices of characters from places in UTF-8 strings.

    Args:
      codes: int32 [N], code points of all strings in a row.
      first: int32 [P], index of the first character of the string that the place is in.
      offsets: int [P], the place in its string, in bytes.

    Returns:
      int32 [P], indices into `codes`, or N.
    """
    bytes_ = 1 + sum(tf.cast(codes >= more, tf.int32) for more in (0x80, 0x800, 0x10000))
    places = _running_total(bytes_)
    return tf.searchsorted(places, tf.gather(places, first) + tf.cast(offsets, tf.int32))


def _running_total(numbers):
    """Sum of the numbers (int32 [n]) before each, and of all of them: int32 [n + 1]."""
    return tf.concat([[0], tf.cumsum(numbers)], axis=0)


def _where(condition):
    return tf.cast(tf.where(condition)[:, 0], tf.int32)


def _pieces(text, table, splits):
    """Pieces with offsets in the texts as given.

    Args:
      text: _Text without white space.
      table: int32 [P, 3]: id, first character (index into `text`), last one (exclusive).
      splits: int64 [B + 1], row splits of the pieces.

    Returns:
      Pieces.
    """
    ids, first, last = tf.unstack(table, axis=1)
    rows = tf.ragged.row_splits_to_segment_ids(splits)
    limit = tf.gather(text.splits(), rows + 1)
    # One more, for pieces without a character where no text has any.
    text_starts, text_ends = (tf.concat([field, [0]], axis=0) for field in (text.starts, text.ends))
    end_of_text = tf.gather(text_ends, tf.maximum(limit - 1, 0))
    starts = tf.where(first < limit, tf.gather(text_starts, first), end_of_text)
    ends = tf.where(first < last, tf.gather(text_ends, tf.maximum(last - 1, 0)), starts)
    return Pieces(
        *(
            tf.RaggedTensor.from_row_splits(values, splits, validate=False)
            for values in (ids, starts, ends)
        )
    )


# --- What becomes of a character ---


class _Table:
    """A number for every code point, looked up in pages; pages that are equal are kept once.

    Args:
      numbers: int array [CODE_POINTS].
    """

    def __init__(self, numbers):
        pages = {}  # content -> number
        page_of = [
            pages.setdefault(page.tobytes(), len(pages))
            for page in numbers.astype(np.int32).reshape(-1, 1 << PAGE_BITS)
        ]
        self._numbers = tf.constant(np.frombuffer(b"".join(pages), np.int32))
        self._page_starts = tf.constant(np.array(page_of, np.int32) << PAGE_BITS)

    def __call__(self, codes):
        page_start = tf.gather(self._page_starts, tf.bitwise.right_shift(codes, PAGE_BITS))
        place = tf.bitwise.bitwise_and(codes, (1 << PAGE_BITS) - 1)
        return tf.gather(self._numbers, page_start + place)


class _Replacement:
    """What the clean-up makes of each character: mostly one other, sometimes none or several.

    Args:
      function: str of one character -> str.
    """

    def __init__(self, function):
        change = np.zeros(CODE_POINTS, np.int32)
        entries = {}  # what is not one character; beyond the code points are numbers of these
        for char in _characters():
            new = function(char)
            is_entry = len(new) != 1
            code = CODE_POINTS + entries.setdefault(new, len(entries)) if is_entry else ord(new)
            change[ord(char)] = code - ord(char)
        self._change = _Table(change)
        lengths = np.array([1, *map(len, entries)], np.int32)  # the first is for single characters
        self._lengths = tf.constant(lengths)
        self._first = tf.constant(np.cumsum(lengths) - lengths, tf.int32)
        self._codes = tf.constant([0, *map(ord, "".join(entries))])

    def __call__(self, text):
        text = text._replace(codes=text.codes + self._change(text.codes))
        any_entry = tf.reduce_any(text.codes >= CODE_POINTS)
        return tf.cond(any_entry, lambda: self._expanded(text), lambda: text)

    def _expanded(self, text):
        entries = tf.maximum(text.codes - CODE_POINTS + 1, 0)
        kept = _where(tf.gather(self._lengths, entries) > 0)
        text, entries = text.without_dropped(kept), tf.gather(entries, kept)

        lengths = tf.gather(self._lengths, entries)
        source = tf.repeat(tf.range(tf.size(lengths)), lengths)
        nth = tf.range(tf.size(source)) - tf.gather(_running_total(lengths), source)
        text, entries = text.gather(source), tf.gather(entries, source)
        new = tf.gather(self._codes, tf.gather(self._first, entries) + nth)
        return text._replace(codes=tf.where(entries > 0, new, text.codes))


class _LowerSigma:
    """Lower case of Σ: ς at the end of a word, else σ. All other letters go by themselves."""

    def __init__(self):
        self._context = _Table(_numbers_of(_sigma_context))

    def __call__(self, text):
        any_sigma = tf.reduce_any(text.codes == CAPITAL_SIGMA)
        codes = tf.cond(any_sigma, lambda: self._lowered(text), lambda: text.codes)
        return text._replace(codes=codes)

    def _lowered(self, text):
        context = self._context(text.codes)
        seen = _where(context != IGNORED)
        rows, letter = tf.gather(text.rows, seen), tf.gather(context, seen) == CASED
        same_row = rows[1:] == rows[:-1]
        after_letter = tf.concat([[False], letter[:-1] & same_row], axis=0)
        before_letter = tf.concat([letter[1:] & same_row, [False]], axis=0)
        sigma = tf.where(after_letter & ~before_letter, FINAL_SIGMA, SIGMA)
        codes = tf.gather(text.codes, seen)
        codes = tf.where(codes == CAPITAL_SIGMA, sigma, codes)
        return tf.tensor_scatter_nd_update(text.codes, seen[:, tf.newaxis], codes)


def _sigma_context(char):
    """CASED, IGNORED or 0: found out with lower(), since Python tells it nowhere else."""
    if (char + "Σ").lower()[-1] == "ς":
        return CASED
    return IGNORED if ("A" + char + "Σ").lower()[-1] == "ς" else 0


def _lower(text):
    """Lower case of each character, without a look at its neighbours: Σ is left."""
    return "".join(char if char == "Σ" else char.lower() for char in text)


@functools.cache
def _characters():
    """Tuple of the characters that have properties: no unassigned, private or surrogate ones."""
    chars = map(chr, range(CODE_POINTS))
    return tuple(char for char in chars if unicodedata.category(char) not in ("Cn", "Co", "Cs"))


def _numbers_of(function):
    """Int array [CODE_POINTS] of what a function makes of each character (int or bool)."""
    numbers = np.zeros(CODE_POINTS, np.int32)
    for char in _characters():
        numbers[ord(char)] = function(char)
    return numbers


# --- SentencePiece ---


class _SentencePieceMode(tf.Module):
    def __init__(self, path, vocab, lower):
        super().__init__()
        self._is_blank = _Table(_numbers_of(str.isspace))
        clean = functools.partial(preprocess_text, remove_space=False)
        self._clean = _Replacement((lambda char: _lower(clean(char))) if lower else clean)
        self._lower_sigma = _LowerSigma() if lower else None
        processor = tokenization.load_sentencepiece(path)
        self._processor = tensorflow_text.SentencepieceTokenizer(
            processor.serialized_model_proto(), tf.string
        )
        # Ids go by what a piece looks like, as in the original: "[CLS]" in a text may become one
        # unknown piece, which has the id of [CLS].
        pieces = tf.lookup.KeyValueTensorInitializer(
            list(vocab), list(vocab.values()), tf.string, tf.int32
        )
        self._ids = tf.lookup.StaticHashTable(pieces, processor.unk_id())
        self._digit_comma = _digit_comma_pattern()

    def tokenize(self, text):
        text = self._clean(_single_spaced(text, self._is_blank))
        if self._lower_sigma:
            text = self._lower_sigma(text)
        pieces, starts, ends = self._processor.tokenize_with_offsets(
            _strings(text.codes, text.rows, text.count)
        )
        string_starts = tf.gather(text.splits(), pieces.value_rowids())
        solid = text.codes != SPACE
        solid_before = _running_total(tf.cast(solid, tf.int32))
        first, last = (
            tf.gather(solid_before, _characters_at(text.codes, string_starts, offsets.values))
            for offsets in (starts, ends)
        )
        table = tf.stack([self._ids.lookup(pieces.values), first, last], axis=1)
        table, splits = self._numbers_apart(pieces, table)
        return _pieces(text.gather(_where(solid)), table, splits)

    def _numbers_apart(self, pieces, table):
        """Takes pieces such as "1990," apart: see `tokenization.encode_pieces`.

        Args:
          pieces: string RaggedTensor [B, (T)].
          table: int32 [P, 3]: id, first character, last character (exclusive).

        Returns:
          (table, row splits) with the new pieces.
        """
        is_apart = tf.strings.regex_full_match(pieces.values, self._digit_comma)
        return tf.cond(
            tf.reduce_any(is_apart),
            lambda: self._encoded_anew(pieces, table, is_apart),
            lambda: (table, pieces.row_splits),
        )

    def _encoded_anew(self, pieces, table, is_apart):
        apart, whole = _where(is_apart), _where(~is_apart)
        numbers, lengths, commas = self._numbers(tf.gather(pieces.values, apart), table, apart)
        all_lengths = tf.tensor_scatter_nd_update(
            tf.ones_like(is_apart, tf.int32), apart[:, tf.newaxis], lengths + 1
        )
        places = _running_total(all_lengths)
        number_places = tf.gather(places, apart)
        new_table = tf.dynamic_stitch(
            [
                tf.gather(places, whole),
                tf.ragged.range(number_places, number_places + lengths).values,
                number_places + lengths,
            ],
            [tf.gather(table, whole), numbers, commas],
        )
        return new_table, tf.cast(tf.gather(places, pieces.row_splits), tf.int64)

    def _numbers(self, pieces, table, apart):
        """What `pieces` become: table of the numbers, how many are of each, table of the commas."""
        texts = tf.strings.regex_replace(pieces, ",$|▁", "")
        new, starts, ends = self._processor.tokenize_with_offsets(texts)
        source = new.value_rowids()
        _, first, last = tf.unstack(tf.gather(table, apart), axis=1)
        text, first_char, comma = (tf.gather(x, source) for x in (texts, first, last - 1))
        new_first, new_last = (
            tf.minimum(first_char + _character_count(text, offsets.values), comma)
            for offsets in (starts, ends)
        )
        numbers = tf.stack([self._ids.lookup(new.values), new_first, new_last], axis=1)
        comma_id = tf.fill(tf.shape(apart), self._ids.lookup(tf.constant(",")))
        commas = tf.stack([comma_id, last - 1, last], axis=1)
        return numbers, tf.cast(new.row_lengths(), tf.int32), commas


def _single_spaced(text, is_blank):
    """As " ".join(text.split()): the last of every run of white space inside a text stays."""
    solid = is_blank(text.codes) == 0
    solid_before = _running_total(tf.cast(solid, tf.int32))[:-1]
    is_inside = solid_before > tf.gather(solid_before, tf.gather(text.splits(), text.rows))
    before_solid = tf.concat([solid[1:] & ~text.is_first()[1:], [False]], axis=0)
    kept = _where(solid | (is_inside & before_solid[: tf.size(solid)]))
    return text._replace(codes=tf.where(solid, text.codes, SPACE)).gather(kept)


def _character_count(text, bytes_):
    """Characters in the first bytes of each text: int32 [n]."""
    start = tf.strings.substr(text, tf.zeros_like(bytes_), bytes_)
    return tf.strings.length(start, unit="UTF8_CHAR")


def _digit_comma_pattern():
    digits = "".join(char for char in _characters() if char.isdigit())
    return f"(?s).*[{digits}],"


# --- WordPiece ---


class _WordPieceMode(tf.Module):
    def __init__(self, path, vocab, lower):
        super().__init__()
        if tokenization.UNKNOWN not in vocab:
            raise UserError(
                f"{path} lacks the piece {tokenization.UNKNOWN}, which stands for words that it "
                "does not cover; add it as a line of its own"
            )
        self._clean = _Replacement(_cleaned_lower if lower else _cleaned)
        self._after_lower = (_StripAccents(), _LowerSigma()) if lower else ()
        self._classes = _word_classes()
        max_bytes = 4 * tokenization.MAX_CHARS_PER_WORD
        self._too_long = "a" * (max_bytes + 1)
        self._processor = tensorflow_text.FastWordpieceTokenizer(
            list(vocab),
            max_bytes_per_word=max_bytes,
            token_out_type=tf.int32,
            unknown_token=tokenization.UNKNOWN,
            no_pretokenization=True,
        )

    def tokenize(self, text):
        text = self._clean(text)
        for step in self._after_lower:
            text = step(text)
        text, is_start = _in_words(text, self._classes(text.codes))
        word_starts = _where(is_start)
        word_of = tf.cumsum(tf.cast(is_start, tf.int32)) - 1
        words = _strings(text.codes, word_of, tf.size(word_starts))
        lengths = tf.concat([word_starts[1:], [tf.size(is_start)]], axis=0) - word_starts
        is_too_long = lengths > tokenization.MAX_CHARS_PER_WORD
        pieces, starts, ends = self._processor.tokenize_with_offsets(
            tf.where(is_too_long, self._too_long, words)
        )
        source = pieces.value_rowids()
        string_starts = tf.gather(word_starts, source)
        first, last = (
            _characters_at(text.codes, string_starts, offsets.values) for offsets in (starts, ends)
        )
        last = tf.minimum(last, string_starts + tf.gather(lengths, source))  # if it was too long
        rows = tf.gather(text.rows, string_starts)
        splits = tf.searchsorted(rows, tf.range(text.count + 1), out_type=tf.int64)
        return _pieces(text, tf.stack([pieces.values, first, last], axis=1), splits)


class _StripAccents:
    """Drops the marks (category Mn) of text in which each character is decomposed."""

    def __init__(self):
        self._is_accent = _Table(_numbers_of(lambda char: unicodedata.category(char) == "Mn"))
        self._order = _Table(_numbers_of(unicodedata.combining))

    def __call__(self, text):
        is_accent, order = self._is_accent(text.codes) > 0, self._order(text.codes)
        # Decomposition also puts marks in order. Few marks stay: of Balinese, Hangul, music ...
        text, is_accent = tf.cond(
            tf.reduce_any((order > 0) & ~is_accent),
            lambda: _in_order(text, is_accent, order),
            lambda: (text, is_accent),
        )
        return text.without_dropped(_where(~is_accent))


def _in_order(text, is_accent, order):
    """Marks in canonical order: by `order` (combining class) from one non-mark to the next."""
    run = tf.cumsum(tf.cast((order == 0) | text.is_first(), tf.int64))
    indices = tf.argsort(run * 256 + tf.cast(order, tf.int64), stable=True)
    return text.gather(indices), tf.gather(is_accent, indices)


def _in_words(text, classes):
    """Text without its white space, and which of its characters start a word (bool [N])."""
    after_word = tf.concat([[True], classes[:-1] > 0], axis=0)[: tf.size(classes)]
    is_start = after_word | text.is_first() | (classes == ALONE)
    solid = _where(classes != BLANK)
    return text.gather(solid), tf.gather(is_start, solid)


# The rules of single characters, without the caches: a million characters would fill them.
_keep_or_drop = tokenization._cleaned.__wrapped__
_set_apart = tokenization._apart.__wrapped__


def _cleaned(char):
    return char if _keep_or_drop(char) else ""


def _cleaned_lower(char):
    return unicodedata.normalize("NFD", _lower(_cleaned(char)))


def _word_classes():
    """A `_Table` of BLANK for white space, ALONE for characters that are words, else 0."""
    classes = _numbers_of(_word_class)
    for first, last in tokenization._CJK_RANGES:  # with what is not assigned yet
        classes[first : last + 1] = ALONE
    return _Table(classes)


def _word_class(char):
    if char.isspace():
        return BLANK
    return ALONE if len(_set_apart(char)) > 1 else 0
