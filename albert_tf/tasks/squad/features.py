# SPDX-License-Identifier: Apache-2.0
"""Features of SQuAD questions: windows of tokens, with the place of the answer.

Paper: section 4.1 and appendix A.1 (fine-tuning on SQuAD). An answer is given as characters of the
raw paragraph, the model sees tokens of the normalised one: a longest common subsequence of the two
links their characters. Windows that overlap cover a paragraph too long for one sequence.
"""

import collections
import dataclasses
import functools
import itertools

import numpy as np

from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.tasks.squad.alignment import UNLINKED, align, convert_positions
from albert_tf.text.sequences import NUM_SPECIALS, pack_segments
from albert_tf.text.tokenization import SpecialIds

FIRST_UNIQUE_ID = 1_000_000_000


def _answer_pieces(example, alignment):
    """First and last token of the answer; None if it is in no token, or not in the paragraph."""
    if example.is_impossible:
        return UNLINKED, UNLINKED
    if example.is_lost:
        return None
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
    """How questions and paragraphs are cut; names are those of the flags.

    Args:
        max_seq_length: int, tokens of a sequence.
        doc_stride: int, tokens from one window of a paragraph to the next.
        max_query_length: int, longest question in tokens; the rest is cut off.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self):
        assert 0 < self.doc_stride <= self.max_seq_length - NUM_SPECIALS


@dataclasses.dataclass(frozen=True)
class Features:
    """Windows of all questions, in arrays; sequences are made on demand.

    E examples, F features; features are in the order of the examples, windows from left to right.

    Args:
        settings: WindowSettings.
        special_ids: tokenization.SpecialIds.
        queries: list of E lists of int, ids of the questions, cut.
        paragraphs: list of Paragraph, without duplicates.
        paragraph_index: int32 array [E], index into `paragraphs`; UNLINKED for a question that was
            skipped, because its paragraph or its answer could not be aligned.
        example_index: int32 array [F].
        span_start: int32 array [F], first token of the paragraph in the window.
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
        """First position of the window in the sequence (int32 array [F])."""
        lengths = np.array([len(query) for query in self.queries], np.int32)
        return lengths[self.example_index] + 2

    @functools.cached_property
    def max_context(self):
        """Which tokens of each window have more context there than in any other window.

        The best window of a token has the largest min(tokens before, tokens after) + 0.01 * its
        length; of equals, the first. A bool array [F, longest window].
        """
        best = np.zeros((len(self), self.span_length.max(initial=0)), bool)
        bounds = np.searchsorted(self.example_index, np.arange(len(self.queries) + 1))
        stops = self.span_start + self.span_length
        for begin, end in itertools.pairwise(bounds):
            spans = list(map(slice, self.span_start[begin:end], stops[begin:end]))
            pieces = stops[begin:end].max(initial=0)
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
        """Ids of questions without features, since paragraph or answer could not be aligned."""
        return [examples[e].qas_id for e in np.flatnonzero(self.paragraph_index == UNLINKED)]

    def paragraph(self, example_index):
        """Paragraph of an example that was not skipped."""
        return self.paragraphs[self.paragraph_index[example_index]]

    def batches(self, batch_size=1024):
        """Yields dicts of arrays [B, max_seq_length] or [B], named as `schemas.squad_schema`."""
        for start in range(0, len(self), batch_size):
            yield self.arrays(np.arange(start, min(start + batch_size, len(self))))

    def arrays(self, rows):
        """Arrays of some windows, as of `batches`: rows is an int array [B]."""
        windows = []
        for row in rows:
            start = self.span_start[row]
            ids = self.paragraph(self.example_index[row]).piece_ids
            windows.append(ids[start : start + self.span_length[row]].tolist())
        queries = [self.queries[e] for e in self.example_index[rows]]
        length = self.settings.max_seq_length
        sequences = pack_segments(queries, windows, self.special_ids, length)
        begin = self.window_offset[rows, np.newaxis]
        end = begin + self.span_length[rows, np.newaxis]
        positions = np.arange(length)
        answerable = (positions >= begin) & (positions < end)
        answerable[:, 0] = True  # [CLS] means "no answer"
        return {
            "unique_ids": rows + FIRST_UNIQUE_ID,
            **sequences,
            "p_mask": (~answerable).astype(np.int8),
            **{name: values[rows] for name, values in self.labels.items()},
        }


def convert_examples(examples, tokenizer, settings, training):
    """Features of questions.

    Every window of a paragraph gives a feature. In training this includes windows without the
    answer, whose label is [CLS], as in the original (unlike BERT).

    Args:
        examples: list of SquadExample.
        tokenizer: tokenization.FullTokenizer.
        settings: WindowSettings.
        training: bool, whether to make labels.

    Returns:
        Features.

    Raises:
        UserError: a question leaves no room for its paragraph.
    """
    special_ids = tokenizer.special_ids(with_mask=False)
    queries = [_query_ids(example, tokenizer, settings) for example in examples]
    paragraphs, paragraph_index, answers = _align_examples(examples, tokenizer, settings, training)
    counts = np.array([len(paragraph.piece_ids) for paragraph in paragraphs] + [0])
    windows = _windows(
        # UNLINKED, -1, picks the last count: no token, so no window.
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
    ids = tokenizer.encode_ids(example.question_text)[: settings.max_query_length]
    if len(ids) + NUM_SPECIALS >= settings.max_seq_length:
        raise UserError(
            f"question {example.qas_id} has {len(ids)} tokens: lower --max_query_length="
            f"{settings.max_query_length}, or raise --max_seq_length={settings.max_seq_length}"
        )
    return ids


def _align_examples(examples, tokenizer, settings, training):
    """Aligns each distinct paragraph once.

    Returns:
        (list of Paragraph, int32 array [E] of indices into it, int32 array [E, 2] of the first and
        last token of the answers).
    """
    paragraphs = []
    paragraph_index = np.full(len(examples), UNLINKED, np.int32)
    answers = np.full((len(examples), 2), UNLINKED, np.int32)
    members = collections.defaultdict(list)
    for e, example in enumerate(examples):
        members[example.paragraph_text].append(e)
    for text, asked in members.items():
        alignment = align(text, tokenizer)
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
    """Windows that cover the tokens of paragraphs; the last window ends with the last token.

    Args:
        piece_counts: int array [E], 0 for a question without windows.
        widths: int array [E], tokens in the widest window.
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
    """Labels as in `Features`, from the first and last tokens of the answers [E, 2]."""
    first, last = answers[features.example_index].T
    inside = (first >= features.span_start) & (last < features.span_start + features.span_length)
    inside &= first != UNLINKED
    shift = features.window_offset - features.span_start
    return {
        "start_positions": np.where(inside, first + shift, 0).astype(np.int32),
        "end_positions": np.where(inside, last + shift, 0).astype(np.int32),
        "is_impossible": (~inside).astype(np.int32),
    }


# === Files ===


def list_skipped(features, examples, path):
    """Lists the questions without features in `<path>.skipped.txt`; returns how many there are.

    Raises:
        UserError: none has features.
    """
    skipped = features.skipped(examples)
    listing = f"{path}.skipped.txt"
    if len(skipped) == len(examples):
        raise UserError(
            f"{path}: no question can be aligned with the tokens: use a vocabulary of its language"
        )
    if skipped:
        files.write_text(listing, "".join(f"{qas_id}\n" for qas_id in skipped))
    else:
        files.remove(listing)
    return len(skipped)
