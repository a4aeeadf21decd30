# SPDX-License-Identifier: Apache-2.0
"""Converts texts to the inputs of a fine-tuned model in a graph, as the tasks do in Python.

B examples or texts, T tokens of the longest text or sequence of the batch, W words of a text, N
words of all texts, F sequences or windows of all texts.
"""

import re
import string
import sys
import unicodedata
from typing import ClassVar, NamedTuple

import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.options import NUM_SPECIALS_OF_ONE
from albert_tf.publish import graph_characters as graph
from albert_tf.publish.graph_tokenization import STRINGS, operations
from albert_tf.text.sequences import NUM_SPECIALS

FEATURES = ("input_ids", "input_mask", "segment_ids")  # of the original's modules and records
HUB_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # of the Hub's common API
HUB_NAMES = dict(zip(FEATURES, HUB_INPUTS, strict=True))
POSITIONS = "masked_lm_positions"
# Where an option belongs in a question: underscores, but not those of a_b, _id or LaTeX's x_{1}.
GAP = "\0"
_NO_GAP = string.ascii_letters + string.digits + "_{\\"  # underscores before one of them are text
GAPS = f"_+($|[^{re.escape(_NO_GAP)}])", GAP + r"\1"  # a pattern and what replaces it
WHITE_SPACE = r"[\s\p{Z}\x0b\x1c-\x1f\x{85}]"


# --- Sequences -----------------------------------------------------------------------------------


def pack(segments, seq_length, tokenizer):
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut and padded to one length.

    If a pair is too long, the longer segment loses its last token, and if both are equally long, b
    does, until both fit, as in the original.

    Args:
        segments: list of one or two int32 RaggedTensors [B, (T)] or [B, (W), (T)].
        seq_length: int or int32 scalar tensor.
        tokenizer: GraphTokenizer, for its special ids.

    Returns:
        dict of int32 [B, seq_length]: `input_word_ids`, `input_mask`, `input_type_ids`.

    Raises:
        UserError: there are not one or two segments.
        tf.errors.InvalidArgumentError: seq_length has no room for [CLS] and [SEP].
    """
    if len(segments) not in (1, 2):
        raise UserError(f"a sequence has one or two segments. Received: {len(segments)}")
    segments = [x.merge_dims(1, 2) if x.shape.rank == 3 else x for x in segments]
    room = tf.cast(seq_length, tf.int32) - len(segments) - 1
    too_small = "seq_length has no room for [CLS] and [SEP]: give a larger one"
    with tf.control_dependencies([tf.debugging.assert_non_negative(room, too_small)]):
        room = tf.identity(room)
    text, special = operations(), tokenizer.special_tokens
    ids, types = text.combine_segments(
        text.RoundRobinTrimmer(room).trim(segments),
        special["start_of_sequence_id"],
        special["end_of_segment_id"],
    )
    ids, mask = text.pad_model_inputs(ids, seq_length, special["padding_id"])
    types, _ = text.pad_model_inputs(types, seq_length)
    return dict(zip(HUB_INPUTS, (ids, mask, types), strict=True))


def cut_rows(rows, begin, end, row):
    """Tokens [begin, end) of rows, gathered by index: a row may be long and be cut often.

    Args:
        rows: RaggedTensor [B, (T)].
        begin: integer tensor [n].
        end: integer tensor [n].
        row: int32 [n], the row that each part is cut from.

    Returns:
        RaggedTensor [n, (T)].
    """
    row_starts = tf.gather(tf.cast(rows.row_starts(), begin.dtype), row)
    indices = tf.ragged.range(row_starts + begin, row_starts + end)
    return indices.with_values(tf.gather(rows.values, indices.values))


def features_of(packed):
    """The result of `pack` under the original's names, without columns that are all padding."""
    used = tf.reduce_sum(packed["input_mask"], axis=1)
    longest = tf.reduce_max(tf.concat([used, [1]], axis=0))
    return {name: packed[hub_name][:, :longest] for name, hub_name in HUB_NAMES.items()}


# --- Texts, and choices --------------------------------------------------------------------------


class Texts:
    """Converts the inputs of an export to features; subclasses are called with the inputs.

    Args:
        tokenizer: GraphTokenizer.
        max_seq_length: int, longest sequence in tokens.

    Attributes:
        signature: dict of name -> tf.TensorSpec, the inputs.
        choices: int, sequences of an example.
    """

    choices = 1

    def __init__(self, tokenizer, max_seq_length):
        self.tokenizer, self.max_seq_length = tokenizer, max_seq_length

    def packed(self, *segments):
        """The result of `pack` for one or two int32 RaggedTensors [B, (T)]."""
        return pack(segments, self.max_seq_length, self.tokenizer)


class SentencePairs(Texts):
    """One or two texts as a sequence: `tasks.classification` in a graph.

    Args:
        tokenizer: GraphTokenizer.
        max_seq_length: int, longest sequence in tokens.
        has_pair: bool, whether there is a `text_pair`.
        keeps_ends: bool, whether a long text loses its middle, and not its end.
    """

    def __init__(self, tokenizer, max_seq_length, has_pair, keeps_ends=False):
        super().__init__(tokenizer, max_seq_length)
        self._keeps_ends = keeps_ends
        self.signature = {"text": STRINGS} | ({"text_pair": STRINGS} if has_pair else {})

    def __call__(self, text, text_pair=None):
        """Features int32 [B, T] of string [B]; an empty second text counts as none."""
        first = self.tokenizer.tokenize(text)
        packed = self.packed(first)
        if text_pair is not None:
            second = self.tokenizer.tokenize(text_pair)
            pair, has_second = self.packed(first, second), second.row_lengths() > 0
            packed = {
                name: tf.where(has_second[:, tf.newaxis], pair[name], packed[name])
                for name in packed
            }
        return features_of(packed)

    def packed(self, *segments):
        """The result of `pack`, of texts that lose their end or their middle."""
        if self._keeps_ends:
            room = self.max_seq_length - 1 - len(segments)
            kept = operations().RoundRobinTrimmer(room).trim(list(segments))
            lengths = [ids.row_lengths() for ids in kept]
            segments = [*map(_both_ends, segments, lengths)]
        return super().packed(*segments)


def _both_ends(rows, count):
    """The first and last tokens of rows (RaggedTensor [B, (T)]): `count` of each row, int64 [B]."""
    row, lengths = tf.range(tf.size(count)), rows.row_lengths()
    first = cut_rows(rows, tf.zeros_like(count), count // 2, row)
    return tf.concat([first, cut_rows(rows, lengths - (count - count // 2), lengths, row)], axis=1)


class TextWindows(Texts):
    """The parts of a text as a sequence each: `sequences.pack_windows` in a graph.

    Args:
        tokenizer: GraphTokenizer.
        max_seq_length: int, longest sequence in tokens.
        windows: int, W.
    """

    signature: ClassVar[dict] = {"text": STRINGS}

    def __init__(self, tokenizer, max_seq_length, windows):
        super().__init__(tokenizer, max_seq_length)
        self.choices = windows

    def __call__(self, text):
        """Features int32 [B, W * T] of string [B]."""
        pieces, room = self.tokenizer.tokenize(text), self.max_seq_length - NUM_SPECIALS_OF_ONE
        row = tf.repeat(tf.range(tf.size(text)), self.choices)
        number = tf.range(tf.size(row)) % self.choices
        lengths = tf.gather(tf.cast(pieces.row_lengths(), tf.int32), row)
        exists = (number * room < lengths) | (number == 0)
        begin = tf.minimum(number * room, tf.maximum(lengths - room, 0))
        parts = cut_rows(pieces, begin, tf.minimum(begin + room, lengths), row)
        features, exists = features_of(self.packed(parts)), tf.cast(exists, tf.int32)[:, tf.newaxis]
        width = self.choices * tf.shape(features["input_ids"])[1]
        return {n: tf.reshape(values * exists, [-1, width]) for n, values in features.items()}


class Choices(Texts):
    """A passage, a question and its options as a sequence each: `tasks.race` in a graph.

    Args:
        tokenizer: GraphTokenizer.
        max_seq_length: int, longest sequence in tokens.
        max_qa_length: int, longest question with option in tokens; the last tokens are kept.
        choices: int, number of options.
    """

    def __init__(self, tokenizer, max_seq_length, max_qa_length, choices=4):
        super().__init__(tokenizer, max_seq_length)
        self.choices = choices
        self.signature = dict.fromkeys(("article", "question"), STRINGS) | {
            "options": tf.TensorSpec([None, choices], tf.string)
        }
        self._max_qa_length = max_qa_length
        cleaned = tokenizer.clean_up if tokenizer.is_sentencepiece else str
        self._gaps = f"[{_becoming('_', cleaned)}]+($|[^{_becoming(_NO_GAP, cleaned)}])"

    def __call__(self, article, question, options):
        """Features int32 [B, N * T] of string [B], [B] and [B, N]."""
        questions = tf.repeat(question, self.choices)
        options = tf.reshape(options, [-1])
        if self.tokenizer.is_sentencepiece:  # it cleans texts before they are joined
            options = _right_stripped(_left_stripped(options))
        endings = self._endings(questions, options)
        lengths = endings.row_lengths()
        passages = self.tokenizer.tokenize(article)
        row = tf.repeat(tf.range(tf.size(question)), self.choices)
        room = self.max_seq_length - NUM_SPECIALS - lengths
        kept = tf.minimum(tf.gather(passages.row_lengths(), row), room)
        passages = cut_rows(passages, tf.zeros_like(kept), kept, row)
        features = features_of(self.packed(passages, endings))
        width = self.choices * tf.shape(features["input_ids"])[1]
        return {name: tf.reshape(values, [-1, width]) for name, values in features.items()}

    def _endings(self, questions, options):
        """Tokens of questions with the option in the blank or at the end: ragged [N * B, (T)]."""
        marked = tf.strings.regex_replace(questions, self._gaps, GAPS[1])
        parts = tf.strings.split(marked, GAP)
        rows = parts.value_rowids()
        is_first = graph.differs_from_last(rows)
        filled = tf.strings.join([tf.where(is_first, "", tf.gather(options, rows)), parts.values])
        filled = tf.strings.reduce_join(parts.with_values(filled).to_tensor(""), axis=1)
        texts = tf.where(
            parts.row_lengths() > 1, filled, tf.strings.join([questions, options], separator=" ")
        )
        return self.tokenizer.tokenize(texts)[:, -self._max_qa_length :]


def _left_stripped(texts):
    return tf.strings.regex_replace(texts, f"^{WHITE_SPACE}+", "")


def _right_stripped(texts):
    return tf.strings.regex_replace(texts, f"{WHITE_SPACE}+$", "")


def _becoming(firsts, cleaned):
    """Characters that the clean-up turns into one of `firsts` and perhaps more, for a pattern."""
    chars = map(chr, range(sys.maxunicode + 1))
    # Few characters can become one of `firsts`, and the clean-up itself is slow.
    chars = (char for char in chars if unicodedata.normalize("NFKD", char)[0] in firsts)
    return re.escape("".join(char for char in chars if cleaned(char)[:1] in {*firsts}))


# --- Words ---------------------------------------------------------------------------------------


class Sequences(NamedTuple):
    """The words of texts, and the sequences with their tokens.

    Attributes:
        features: dict of input_ids, input_mask and segment_ids, int32 [F, T].
        counts: int32 [B], number of sequences of each text.
        words: string RaggedTensor [B, (W)].
        places: int32 [N, 2], sequence and position of the first token of each word.
    """

    features: dict
    counts: tf.Tensor
    words: tf.RaggedTensor
    places: tf.Tensor


class WordLists(Texts):
    """Texts split into words, and cut into sequences: `tasks.ner` in a graph.

    Args:
        tokenizer: GraphTokenizer.
        max_seq_length: int, longest sequence in tokens.
        unknown_id: int, token for words that have none.
        pattern: str, that of a word; None for words with white space between them.
    """

    signature: ClassVar[dict] = {"text": STRINGS}

    def __init__(self, tokenizer, max_seq_length, unknown_id, pattern=None):
        super().__init__(tokenizer, max_seq_length)
        self._unknown_id, self._word = unknown_id, f"({pattern or WHITE_SPACE})"

    def __call__(self, text):
        """Sequences of string [B]; bytes that are not valid UTF-8 are dropped."""
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
        text = tf.strings.regex_replace(text, f"{WHITE_SPACE}+", " ")
        words = tf.strings.split(tf.strings.regex_replace(text, self._word, r"\1 "))
        pieces = self._pieces(words.values)
        starts = pieces.row_starts()  # [N], among the tokens of all texts
        sentence = words.value_rowids()
        first = tf.gather(tf.concat([starts, pieces.row_splits[-1:]], 0), words.row_starts())
        part = (starts - tf.gather(first, sentence)) // (self.max_seq_length - 2)
        is_new = graph.differs_from_last(sentence) | graph.differs_from_last(part)
        sequence = tf.cumsum(tf.cast(is_new, tf.int32)) - 1  # [N]
        sequence_starts = tf.boolean_mask(starts, is_new)  # [F]
        rows = tf.RaggedTensor.from_row_splits(
            pieces.values, tf.concat([sequence_starts, pieces.row_splits[-1:]], axis=0)
        )
        position = tf.cast(starts - tf.gather(sequence_starts, sequence), tf.int32) + 1
        return Sequences(
            features_of(self.packed(rows)),
            tf.math.unsorted_segment_sum(tf.cast(is_new, tf.int32), sentence, tf.size(text)),
            words,
            tf.stack([sequence, position], axis=1),
        )

    def _pieces(self, words):
        """Tokens of words, at least one each: string [N] -> int32 RaggedTensor [N, (T)]."""
        pieces = self.tokenizer.tokenize(words)
        is_empty = pieces.row_lengths() == 0
        unknown = tf.fill([tf.math.count_nonzero(is_empty)], self._unknown_id)
        unknown = tf.RaggedTensor.from_row_lengths(unknown, tf.cast(is_empty, tf.int64))
        return tf.concat([pieces, unknown], axis=1)


# --- SQuAD ---------------------------------------------------------------------------------------

# Kinds of characters of a paragraph, for the links of `tasks.squad.alignment`.
_UNLINKED, _LINKED, _BLANK, _SPACE, _DROPPED = range(5)


def _link_kind(char, clean_up):
    """The kind of a character: whether tokens can be linked to it."""
    found = unicodedata.normalize("NFC", clean_up(char, remove_space=False))
    if char.isspace():
        return _SPACE if found == " " else _BLANK
    if not found or unicodedata.category(char) in ("Cc", "Cf"):
        return _DROPPED
    return _LINKED if len(found) == 1 else _UNLINKED


def _are_alignable(text, kind):
    """Whether the scripts can align paragraphs with their tokens: `alignment.align` in a graph.

    At least 0.8 of the characters must be linked; dropped ones do not count, and white space counts
    once. The scripts count a longest common subsequence; this counts the characters that the
    clean-up maps to one character. The two may differ slightly.

    Args:
        text: Text, the characters of B paragraphs.
        kind: int32 [N], of `_link_kind`.

    Returns:
        bool [B].
    """

    def count(condition, rows):
        return tf.math.unsorted_segment_sum(tf.cast(condition, tf.float64), rows, text.count)

    is_blank = (kind == _BLANK) | (kind == _SPACE)
    is_last_blank = is_blank & ~graph.followed_by(is_blank, text.rows)
    counted = count((kind == _LINKED) | (kind == _UNLINKED) | is_last_blank, text.rows)
    # Of the white space before a word, the last character that becomes a space is linked.
    seen = graph.indices_of(kind != _BLANK)
    kind, rows = tf.gather(kind, seen), tf.gather(text.rows, seen)
    linked = count(
        (kind == _LINKED) | ((kind == _SPACE) & graph.followed_by(kind != _SPACE, rows)), rows
    )
    return (linked > 0) & (linked >= 0.8 * counted)


def _ends_of_scripts(text, kind, pieces):
    """Ends of tokens (int32 [P], exclusive) as the scripts have them.

    The scripts link no character that the clean-up drops, so an answer ends before it. But the "▁"
    of a zero-width space stands for it, if no blank is before. A lone "▁" at the start of a
    paragraph stands for its first character.

    Args:
        text: Text, the characters of B paragraphs.
        kind: int32 [N], of `_link_kind`.
        pieces: PiecesWithOffsets of the paragraphs.
    """
    is_kept = kind != _DROPPED
    kept = tf.concat([[-1], graph.indices_of(is_kept)], axis=0)
    kept_before = graph.running_total(tf.cast(is_kept, tf.int32))
    first = tf.gather(text.splits(), tf.cast(pieces.ends.value_rowids(), tf.int32))
    starts, ends = pieces.starts.values, pieces.ends.values
    last = tf.gather(kept, tf.gather(kept_before, first + ends))
    is_alone = graph.differs_from_last(pieces.ends.value_rowids()) & (ends == starts)
    is_blank = tf.concat([(kind == _BLANK) | (kind == _SPACE), [True]], axis=0)
    is_cut = (last - first >= starts) | tf.gather(is_blank, tf.maximum(last, first))
    ends = tf.where(is_cut, tf.maximum(last - first + 1, starts), ends)
    return tf.where(is_alone & ~tf.gather(is_blank, first), starts + 1, ends)


class Windows(NamedTuple):
    """Windows of paragraphs.

    Attributes:
        features: dict of input_ids, input_mask, segment_ids, p_mask, int32 [F, T].
        counts: int32 [B], number of windows of each question, at least 1.
        example: int32 [F], the question of each window.
        first_piece: int32 [F], the paragraph's token with which the window begins.
        length: int32 [F], tokens of the paragraph in the window.
        offset: int32 [F], position of the first of them in the sequence.
        char_starts, char_ends: int32 RaggedTensors [B, (T)], the characters [start, end) of each
            token of a paragraph.
    """

    features: dict
    counts: tf.Tensor
    example: tf.Tensor
    first_piece: tf.Tensor
    length: tf.Tensor
    offset: tf.Tensor
    char_starts: tf.RaggedTensor
    char_ends: tf.RaggedTensor


class Paragraphs(Texts):
    """Questions and their paragraphs as windows: `tasks.squad.features` in a graph.

    Args:
        tokenizer: GraphTokenizer.
        settings: tasks.squad.features.WindowSettings.
    """

    signature: ClassVar[dict] = {"question": STRINGS, "context": STRINGS}

    def __init__(self, tokenizer, settings):
        super().__init__(tokenizer, settings.max_seq_length)
        self._settings = settings
        self._kind_of = graph.table_of(_link_kind, tokenizer.clean_up)

    def __call__(self, question, context):
        """Windows of string [B] and [B]; a context that cannot be aligned has one empty window."""
        settings = self._settings
        text = graph.read_characters(context)
        context = tf.where(_are_alignable(text, self._kind_of(text.codes)), context, "")
        text = graph.read_characters(context)
        # Every window must have room for a token of the paragraph.
        longest = min(settings.max_query_length, settings.max_seq_length - NUM_SPECIALS - 1)
        queries = self.tokenizer.tokenize(question)[:, :longest]
        pieces = self.tokenizer.tokenize_with_offsets(context)
        ends = _ends_of_scripts(text, self._kind_of(text.codes), pieces)
        pieces = pieces._replace(ends=pieces.ends.with_values(ends))
        query_lengths = tf.cast(queries.row_lengths(), tf.int32)
        lengths = tf.cast(pieces.ids.row_lengths(), tf.int32)
        widths = settings.max_seq_length - NUM_SPECIALS - query_lengths
        strides = tf.minimum(widths, settings.doc_stride)
        counts = 1 - (-tf.maximum(lengths - widths, 0) // strides)  # 1 + the rest, rounded up
        example = tf.repeat(tf.range(tf.size(counts)), counts)
        number = tf.range(tf.size(example)) - tf.gather(tf.cumsum(counts, exclusive=True), example)
        first_piece = number * tf.gather(strides, example)
        length = tf.minimum(tf.gather(lengths, example) - first_piece, tf.gather(widths, example))
        documents = cut_rows(pieces.ids, first_piece, first_piece + length, example)
        features = features_of(self.packed(tf.gather(queries, example), documents))
        offset = tf.gather(query_lengths, example) + 2
        position = tf.range(tf.shape(features["input_ids"])[1])
        outside = (position < offset[:, tf.newaxis]) | (
            position >= (offset + length)[:, tf.newaxis]
        )
        features["p_mask"] = tf.cast(outside & (position > 0), tf.int32)
        return Windows(features, counts, example, first_piece, length, offset, *pieces[1:])

    @staticmethod
    def answers(context, start, end):
        """Part [start, end) of each context, without surrounding white space, as in the scripts.

        Args:
            context: string [B].
            start: int32 [B], in characters.
            end: int32 [B].

        Returns:
            (string [B], int32 [B], int32 [B]): the texts, and their start and end.
        """
        whole = tf.strings.substr(context, start, end - start, unit="UTF8_CHAR")
        tail = _left_stripped(whole)
        answer = _right_stripped(tail)
        start += _length(whole) - _length(tail)
        return answer, start, start + _length(answer)


def _length(texts):
    return tf.strings.length(texts, unit="UTF8_CHAR")
