# SPDX-License-Identifier: Apache-2.0
"""SQuAD questions to windows of pieces: reading, alignment of pieces with raw text, features.

Paper: section 4.1 and appendix A.1 (fine-tuning on SQuAD). An answer is given as characters of the
raw paragraph, the model sees pieces of the normalised one: a longest common subsequence of the two
links their characters. Windows that overlap cover a paragraph too long for one sequence.
"""

import collections
import dataclasses
import functools
import itertools
import random
import reprlib
from typing import NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.data import feature_cache, records
from albert_tf.errors import UserError
from albert_tf.tasks import squad_files
from albert_tf.text.tokenization import NUM_SPECIALS, WORD_START, SpecialIds, preprocess_text

FIRST_UNIQUE_ID = 1_000_000_000
UNLINKED = -1  # in arrays of positions: no counterpart
BLOCK_ROWS = 1024  # of a table of characters, in memory at once


# === Reading ===


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """One question with its paragraph.

    Args:
        qas_id: str.
        question_text: str.
        paragraph_text: str, raw; all questions of a paragraph share the one string.
        answers: tuple of str, the gold answers for scoring; None if the file does not say.
        orig_answer_text: str, the answer to train on ("" if impossible); None for prediction.
        start_position: int, its first character in paragraph_text, -1 if impossible; or None.
        is_impossible: bool, whether training has no answer to learn; False for prediction.
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    answers: tuple | None = None
    orig_answer_text: str | None = None
    start_position: int | None = None
    is_impossible: bool = False


def read_examples(path, training):
    """Reads the questions of a SQuAD file, version 1.1 or 2.0, in its order.

    Args:
        path: str, JSON.
        training: bool. For prediction, answers are kept for scoring only and may be missing.

    Returns:
        list of SquadExample, at least one.

    Raises:
        UserError: the file cannot be read or is no SQuAD file, a context is empty, an id comes
            twice or, in training, a question has no answer, several, or one outside its context.
    """
    content = files.read_json(path)
    examples = [
        _read_question(qa, context, training, where)
        for where, context, qa in squad_files.questions(content, path)
    ]
    if not examples:
        raise UserError(f"{path} holds no question")
    return examples


def is_v2(path):
    """Whether a SQuAD file is of version 2: any of its questions has the key is_impossible.

    Raises:
        UserError: the file cannot be read or is no SQuAD file.
    """
    questions = squad_files.questions(files.read_json(path), path)
    return any("is_impossible" in qa for _, _, qa in questions)


def shuffled(examples):
    """The training examples in the order of the original, which is always the same one.

    Args:
        examples: list of SquadExample; left as it is.

    Returns:
        list of SquadExample.
    """
    examples = list(examples)
    random.Random(12345).shuffle(examples)
    return examples


def unlabelled(examples, version_2):
    """Ids of the questions that cannot be scored.

    Args:
        examples: list of SquadExample.
        version_2: bool. In version 2 an empty list of answers is a label: there is none.

    Returns:
        list of str.
    """
    return [
        example.qas_id
        for example in examples
        if example.answers is None or not (example.answers or version_2)
    ]


def report_oddities(examples, path):
    """Says what is odd about questions and yet used as it is, as in the original.

    Args:
        examples: list of SquadExample.
        path: str, their file.
    """
    silent = [example for example in examples if not example.question_text.strip()]
    if silent:
        print(f"{path}: {len(silent)} questions have no text (the first is {silent[0].qas_id})")
    astray = [example for example in examples if not _points_at_its_answer(example)]
    if astray:
        elsewhere = sum(e.orig_answer_text in e.paragraph_text for e in astray)
        print(
            f"{path}: answer_start of {len(astray)} of {len(examples)} questions does not point at "
            f"the answer's text (the first is {astray[0].qas_id}); {elsewhere} of these answers "
            "occur elsewhere in their context. Training takes the characters at answer_start"
        )


def _points_at_its_answer(example):
    """Whether the answer to train on stands where it should; there may be none."""
    answer = example.orig_answer_text
    return not answer or example.paragraph_text.startswith(answer, example.start_position)


def _read_question(qa, context, training, where):
    example = SquadExample(
        qas_id=qa["id"],
        question_text=squad_files.text(qa, "question", where),
        paragraph_text=context,
    )
    if "answers" in qa or training:
        answers = squad_files.answer_texts(qa, where)
        example = dataclasses.replace(example, answers=answers)
    return _with_answer(example, qa, where) if training else example


def _with_answer(example, qa, where):
    """The example with the answer it is to teach."""
    impossible = squad_files.field({"is_impossible": False, **qa}, "is_impossible", bool, where)
    if impossible:
        return dataclasses.replace(
            example, orig_answer_text="", start_position=-1, is_impossible=True
        )
    if len(example.answers) != 1:
        raise UserError(
            f"{where}: {len(example.answers)} answers; to train on it takes exactly one, "
            "or is_impossible. A dev file has several: is it given as the training file?"
        )
    (text,) = example.answers
    start = squad_files.field(qa["answers"][0], "answer_start", int, where)
    if not text or not 0 <= start <= len(example.paragraph_text) - len(text):
        raise UserError(
            f"{where}: the answer {text[:40]!r} from answer_start={reprlib.repr(start)} does not "
            f"lie in the context of {len(example.paragraph_text)} characters; correct or remove "
            "the question"
        )
    return dataclasses.replace(example, orig_answer_text=text, start_position=start)


# === Alignment of raw text and pieces ===


class Paragraph(NamedTuple):
    """Pieces of a paragraph and the raw text that they stand for.

    Args:
        piece_ids: int32 array [pieces].
        starts: int32 array [pieces], first raw character of each piece.
        ends: int32 array [pieces], last raw character (inclusive).
    """

    piece_ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Alignment(NamedTuple):
    """A paragraph and how its raw characters were linked; `links` serve to place answers.

    Args:
        paragraph: Paragraph.
        links: int array [raw characters], position in the joined pieces, or UNLINKED.
        piece_of_char: int array [characters of the joined pieces], index of the piece.
    """

    paragraph: Paragraph
    links: np.ndarray
    piece_of_char: np.ndarray


def align(text, tokenizer, do_lower_case):
    """Aligns a raw paragraph with its pieces.

    Args:
        text: str, raw.
        tokenizer: tokenization.FullTokenizer with a SentencePiece model.
        do_lower_case: bool.

    Returns:
        Alignment, or None where less than 0.8 of the characters, or none, can be linked.
    """
    pieces = tokenizer.tokenize(preprocess_text(text, lower=do_lower_case))
    joined = "".join(pieces).replace(WORD_START, " ")
    characters = normalized_characters(text, do_lower_case)
    # Nothing links more than what both have: the table of a text full of spaces need not be made.
    in_common = (collections.Counter(characters) & collections.Counter(joined)).total()
    if in_common < 0.8 * len(text):
        return None
    links, score = link_characters(characters, joined)
    if not score or score < 0.8 * len(text):
        return None
    lengths = np.array([len(piece) for piece in pieces])
    after = np.cumsum(lengths)
    back = np.full(len(joined), UNLINKED)
    linked = np.flatnonzero(links != UNLINKED)
    back[links[linked]] = linked
    return Alignment(
        Paragraph(
            np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32),
            convert_positions(back, after - lengths, True, len(text)).astype(np.int32),
            convert_positions(back, after - 1, False, len(text)).astype(np.int32),
        ),
        links,
        np.repeat(np.arange(len(pieces)), lengths),
    )


def normalized_characters(text, do_lower_case):
    """Each raw character normalised by itself (list of str): most give one character, not all."""
    return [_normalized(char, do_lower_case) for char in text]


@functools.cache  # a text has few different characters
def _normalized(char, do_lower_case):
    return preprocess_text(char, lower=do_lower_case, remove_space=False)


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
        table = _Table(characters, joined, half_width)
        if table.score > 0.8 * n:
            break
    return table.trace(), table.score


class _Table:
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
    """Positions on the other side of the links, by their neighbours where there is no link.

    Between two links, a start goes right behind the former and an end right before the latter, if
    there is anything in between; before the first link to 0 or right before it; after the last one
    right behind it or to the end of the text.

    Args:
        links: int array [n], UNLINKED where there is none; at least one is.
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
    if is_start:
        between, at_head, at_tail = before + 1, np.zeros_like(after), before + 1
    else:
        between, at_head, at_tail = after - 1, after - 1, np.full_like(before, (limit or 0) - 1)
    has_tail = np.zeros(before.shape, bool) if limit is None else before < limit - 1
    return np.select(
        [linked[positions], front < 0, rear == len(links), after > before + 1],
        [
            links[positions],
            np.where(after >= 1, at_head, after),
            np.where(has_tail, at_tail, before),
            between,
        ],
        default=after if is_start else before,
    )


def _answer_pieces(example, alignment):
    """First and last piece of the answer; None if no piece holds it."""
    if example.is_impossible:
        return UNLINKED, UNLINKED
    first = example.start_position
    last = first + len(example.orig_answer_text) - 1
    start, end = (
        alignment.piece_of_char[convert_positions(alignment.links, position, is_start)]
        for position, is_start in ((first, True), (last, False))
    )
    return (start, end) if start <= end else None


# === Features ===


@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """How questions and paragraphs are cut, named as the flags.

    Args:
        max_seq_length: int, pieces of a sequence.
        doc_stride: int, pieces from one window of a paragraph to the next.
        max_query_length: int, pieces of a question; the rest is cut off.
        do_lower_case: bool.

    Raises:
        UserError: no window fits.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    do_lower_case: bool = True

    def __post_init__(self):
        widest = self.max_seq_length - NUM_SPECIALS
        if widest < 1:
            raise UserError(
                f"--max_seq_length={self.max_seq_length} leaves no room: a sequence holds "
                f"{NUM_SPECIALS} special pieces, the question and a window of the paragraph"
            )
        if not 1 <= self.doc_stride <= widest:
            raise UserError(
                f"--doc_stride={self.doc_stride} must lie between 1 and {widest}, the widest "
                f"window with --max_seq_length={self.max_seq_length}"
            )
        if self.max_query_length < 1:
            raise UserError(f"--max_query_length={self.max_query_length} must be at least 1")


@dataclasses.dataclass(frozen=True)
class Features:
    """Windows of all questions, in arrays; sequences are put together as they are asked for.

    E examples, F features; features are in the order of the examples, windows from left to right.

    Args:
        settings: WindowSettings.
        special_ids: tokenization.SpecialIds.
        queries: list of E lists of int, ids of the questions, cut.
        paragraphs: list of Paragraph, each of the distinct ones once.
        paragraph_index: int32 array [E], index into `paragraphs`; UNLINKED for a question that was
            skipped, because its paragraph or its answer could not be aligned.
        example_index: int32 array [F].
        span_start: int32 array [F], first piece of the paragraph in the window.
        span_length: int32 array [F].
        labels: dict of int32 arrays [F]: start_positions and end_positions in the sequence, and
            is_impossible, 1 also where the answer lies outside the window. Empty for prediction.
    """

    settings: WindowSettings
    special_ids: SpecialIds
    queries: list
    paragraphs: list
    paragraph_index: np.ndarray
    example_index: np.ndarray
    span_start: np.ndarray
    span_length: np.ndarray
    labels: dict

    def __len__(self):
        return len(self.example_index)

    @functools.cached_property
    def window_offset(self):
        """Where the window begins in the sequence (int32 array [F])."""
        lengths = np.array([len(query) for query in self.queries], np.int32)
        return lengths[self.example_index] + 2

    @functools.cached_property
    def max_context(self):
        """Which pieces of each window see most context there, compared with the other windows.

        The best window of a piece has the largest min(pieces before, pieces after) + 0.01 * its
        length; of equals, the first. A bool array [F, longest window].
        """
        best = np.zeros((len(self), self.span_length.max(initial=0)), bool)
        bounds = np.searchsorted(self.example_index, np.arange(len(self.queries) + 1))
        for begin, end in itertools.pairwise(bounds):
            spans = [
                slice(start, start + length)
                for start, length in zip(
                    self.span_start[begin:end], self.span_length[begin:end], strict=True
                )
            ]
            pieces = max((span.stop for span in spans), default=0)
            highest, owner = np.full(pieces, -np.inf), np.zeros(pieces, int)
            for row, span in enumerate(spans, begin):
                length = span.stop - span.start
                score = np.minimum(np.arange(length), np.arange(length)[::-1]) + 0.01 * length
                is_higher = score > highest[span]
                highest[span][is_higher], owner[span][is_higher] = score[is_higher], row
            for row, span in enumerate(spans, begin):
                best[row, : span.stop - span.start] = owner[span] == row
        return best

    def skipped(self, examples):
        """Ids of the questions that have no features: they, or their answers, were not aligned."""
        return [examples[e].qas_id for e in np.flatnonzero(self.paragraph_index == UNLINKED)]

    def paragraph(self, example_index):
        """Paragraph of an example that was not skipped."""
        return self.paragraphs[self.paragraph_index[example_index]]

    def batches(self, batch_size=1024):
        """Yields dicts of arrays [B, max_seq_length] or [B], named as `records.squad_schema`."""
        for start in range(0, len(self), batch_size):
            yield self._batch(np.arange(start, min(start + batch_size, len(self))))

    def _batch(self, rows):
        windows = []
        for row in rows:
            start = self.span_start[row]
            ids = self.paragraph(self.example_index[row]).piece_ids
            windows.append(ids[start : start + self.span_length[row]].tolist())
        queries = [self.queries[e] for e in self.example_index[rows]]
        length = self.settings.max_seq_length
        sequences = records.pack_segments(queries, windows, self.special_ids, length)
        offset = self.window_offset[rows, np.newaxis]
        positions = np.arange(length)
        answerable = (positions >= offset) & (
            positions < offset + self.span_length[rows, np.newaxis]
        )
        answerable[:, 0] = True  # [CLS] stands for "no answer"
        return {
            "unique_ids": rows + FIRST_UNIQUE_ID,
            **sequences,
            "p_mask": (~answerable).astype(np.int8),
            **{name: values[rows] for name, values in self.labels.items()},
        }


def convert_examples(examples, tokenizer, settings, training):
    """Features of questions.

    Every window of a paragraph gives a feature, in training also those without the answer: they
    teach [CLS], as in the original (unlike BERT).

    Args:
        examples: list of SquadExample.
        tokenizer: tokenization.FullTokenizer with a SentencePiece model.
        settings: WindowSettings.
        training: bool, whether there are to be labels.

    Returns:
        Features.

    Raises:
        UserError: the tokenizer is none of SentencePiece, or a question leaves no window.
    """
    if not tokenizer.is_sentencepiece:
        raise UserError("SQuAD needs a SentencePiece model: give --spm_model_file")
    special_ids = tokenizer.special_ids(with_mask=False)
    queries = [_query_ids(example, tokenizer, settings) for example in examples]
    paragraphs, paragraph_index, answers = _align_examples(examples, tokenizer, settings, training)
    counts = np.array([len(paragraph.piece_ids) for paragraph in paragraphs] + [0])
    windows = _windows(
        # UNLINKED is the last index: no piece, no window.
        counts[paragraph_index],
        settings.max_seq_length - NUM_SPECIALS - np.array([len(query) for query in queries]),
        settings.doc_stride,
    )
    features = Features(
        settings, special_ids, queries, paragraphs, paragraph_index, *windows, labels={}
    )
    if not training:
        return features
    return dataclasses.replace(features, labels=_labels(features, answers))


def _query_ids(example, tokenizer, settings):
    question = preprocess_text(example.question_text, lower=settings.do_lower_case)
    ids = tokenizer.encode_ids(question)[: settings.max_query_length]
    if len(ids) + NUM_SPECIALS >= settings.max_seq_length:
        raise UserError(
            f"question {example.qas_id} has {len(ids)} pieces and leaves no room for its paragraph "
            f"in --max_seq_length={settings.max_seq_length}; raise that or lower "
            f"--max_query_length={settings.max_query_length}"
        )
    return ids


def _align_examples(examples, tokenizer, settings, training):
    """Aligns each distinct paragraph once.

    Returns:
        (list of Paragraph, int32 array [E] of indices into it, int32 array [E, 2] of the first and
        last piece of the answers).
    """
    paragraphs = []
    paragraph_index = np.full(len(examples), UNLINKED, np.int32)
    answers = np.full((len(examples), 2), UNLINKED, np.int32)
    members = collections.defaultdict(list)
    for e, example in enumerate(examples):
        members[example.paragraph_text].append(e)
    for text, asked in members.items():
        alignment = align(text, tokenizer, settings.do_lower_case)
        if alignment is None:
            continue
        for e in asked:
            pieces = _answer_pieces(examples[e], alignment) if training else answers[e]
            if pieces is not None:
                answers[e] = pieces
                paragraph_index[e] = len(paragraphs)
        paragraphs.append(alignment.paragraph)
    return paragraphs, paragraph_index, answers


def _windows(piece_counts, widths, doc_stride):
    """Windows that cover so many pieces each; the last one ends with them.

    Args:
        piece_counts: int array [E], 0 for a question without windows.
        widths: int array [E], pieces in the widest window.
        doc_stride: int.

    Returns:
        int32 arrays [F]: example_index, span_start, span_length.
    """
    strides = np.minimum(widths, doc_stride)
    further = -(-np.maximum(piece_counts - widths, 0) // strides)
    counts = np.where(piece_counts > 0, 1 + further, 0)
    example_index = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(example_index)) - np.repeat(np.cumsum(counts) - counts, counts)
    span_start = number * strides[example_index]
    span_length = np.minimum(piece_counts[example_index] - span_start, widths[example_index])
    return tuple(a.astype(np.int32) for a in (example_index, span_start, span_length))


def _labels(features, answers):
    """Labels as in `Features`, from the first and last pieces of the answers [E, 2]."""
    first, last = answers[features.example_index].T
    inside = (first >= features.span_start) & (last < features.span_start + features.span_length)
    inside &= first != UNLINKED
    shift = features.window_offset - features.span_start
    return {
        "start_positions": np.where(inside, first + shift, 0).astype(np.int32),
        "end_positions": np.where(inside, last + shift, 0).astype(np.int32),
        "is_impossible": (~inside).astype(np.int32),
    }


def original_features(features, tokenizer):
    """Yields the features as the dicts (InputFeatures) of the original, one per window.

    Args:
        features: Features.
        tokenizer: tokenization.FullTokenizer.
    """
    training = bool(features.labels)
    number = 0
    for batch in features.batches(1):
        row = int(batch["unique_ids"][0]) - FIRST_UNIQUE_ID
        example, start, length, offset = (
            int(values[row])
            for values in (
                features.example_index,
                features.span_start,
                features.span_length,
                features.window_offset,
            )
        )
        number = number + 1 if start else 0
        paragraph = features.paragraph(example)
        label = {name: int(values[0]) for name, values in batch.items() if name in features.labels}
        yield {
            "unique_id": row + FIRST_UNIQUE_ID,
            "example_index": None if training else example,
            "doc_span_index": number,
            "tok_start_to_orig_index": paragraph.starts[start : start + length].tolist(),
            "tok_end_to_orig_index": paragraph.ends[start : start + length].tolist(),
            "token_is_max_context": {
                offset + i: bool(features.max_context[row, i]) for i in range(length)
            },
            "tokens": tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist()),
            **{
                name: batch[name][0].tolist()
                for name in ("input_ids", "input_mask", "segment_ids", "p_mask")
            },
            "paragraph_len": offset + length + 1,
            "start_position": label.get("start_positions"),
            "end_position": label.get("end_positions"),
            "is_impossible": bool(label.get("is_impossible", False)),
        }


# === Files ===


def write_training_records(path, examples, tokenizer, settings, inputs, *, add_key=False):
    """Makes the record file of training, unless it is there from the same settings and input.

    Skipped questions are counted on stdout and listed in `<record file>.skipped.txt`.

    Args:
        path: str.
        examples: list of SquadExample, read for training, in the order of the records.
        tokenizer: tokenization.FullTokenizer.
        settings: WindowSettings.
        inputs: list of str, the files read: questions and SentencePiece model.
        add_key: bool, of `feature_cache.cached_records`.

    Returns:
        str, the record file.

    Raises:
        UserError: of `convert_examples` and `feature_cache.cached_records`.
    """

    def make(cache):
        features = convert_examples(examples, tokenizer, settings, training=True)
        cache.counts["skipped"] = list_skipped(features, examples, cache.path)
        return features.batches()

    schema = records.squad_schema(settings.max_seq_length, training=True)
    cache = feature_cache.cached_records(
        path, schema, dataclasses.asdict(settings), inputs, make, add_key=add_key
    )
    say_skipped(cache.counts["skipped"], examples, cache.path)
    return cache.path


def prediction_features(path, examples, tokenizer, settings, inputs, *, add_key=False):
    """Features of prediction, and their record file, made unless it is there from the same input.

    Skipped questions are counted on stdout and listed in `<record file>.skipped.txt`.

    Args:
        path: str, the records, for the model.
        examples: list of SquadExample.
        tokenizer: tokenization.FullTokenizer.
        settings: WindowSettings.
        inputs: list of str, the files read: questions and SentencePiece model.
        add_key: bool, of `feature_cache.cached_records`.

    Returns:
        (Features, str): the features, for what comes after the model, and the record file.

    Raises:
        UserError: of `convert_examples` and `feature_cache.cached_records`.
    """
    features = convert_examples(examples, tokenizer, settings, training=False)
    schema = records.squad_schema(settings.max_seq_length, training=False)
    cache = feature_cache.cached_records(
        path,
        schema,
        dataclasses.asdict(settings),
        inputs,
        lambda _: features.batches(),
        add_key=add_key,
    )
    say_skipped(list_skipped(features, examples, cache.path), examples, cache.path)
    return features, cache.path


def list_skipped(features, examples, path):
    """Lists the questions without features in `<path>.skipped.txt`; returns how many there are."""
    skipped = features.skipped(examples)
    listing = f"{path}.skipped.txt"
    if skipped:
        files.write_text(listing, "".join(f"{qas_id}\n" for qas_id in skipped))
    else:
        files.remove(listing)
    return len(skipped)


def say_skipped(count, examples, path):
    """Prints how many questions `list_skipped` lists, if any."""
    if count:
        print(
            f"{count} of {len(examples)} questions are skipped, as paragraph or answer could not "
            f"be aligned with the pieces: {path}.skipped.txt"
        )
