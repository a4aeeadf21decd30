# SPDX-License-Identifier: Apache-2.0
"""What is served of a SQuAD model: signatures for windows of ids and for questions in text.

The first dimension of every output is the batch and no value is infinite, so that servers can join
requests and answer in JSON.

B examples, T pieces, W windows of a paragraph, F of all paragraphs, of each s starts and e ends,
H hidden.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.model import heads
from albert_tf.publish.export_signatures import (
    FEATURES,
    encoded_parts,
    id_specs,
    of_texts,
    some_at_a_time,
    traced,
)

NO_ANSWER = tf.float32.min  # score where no span answers: below any other, and finite
NO_WINDOW = 1_000_000.0  # no-answer score of a context without a piece, as the scripts have it


class AnswerSettings(NamedTuple):
    """How an answer is chosen, named as the flags.

    Attributes:
        n_best_size: int, starts and ends of a window; in version 2 the model's beams say.
        max_answer_length: int, in pieces.
        null_threshold: float or None; questions whose no-answer logit is not below it get "".
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    null_threshold: float | None = None


class _Spans(NamedTuple):
    """Spans of windows: starts and their scores [F, s], ends and theirs [F, s or 1, e].

    In version 2 also the no-answer logits [F]; in version 1 zeros.
    """

    starts: tf.Tensor
    start_scores: tf.Tensor
    ends: tf.Tensor
    end_scores: tf.Tensor
    no_answer_scores: tf.Tensor


class SquadFunctions:
    """What is served of a SQuAD model of either version (section j.3).

    `serving_default` takes int32 [B, T] input_ids, input_mask and segment_ids, in version 2 p_mask
    as well, and returns what the model's head does; in version 1 under the original's names,
    `start_log_prob` and `end_log_prob` [B, T]. `text` takes `question` and `context`, string [B],
    cuts long contexts into windows and returns `answer` string [B], where it stands in the context
    (`start` and `end`, int32 [B], characters, the end exclusive) and its `score` float32 [B], which
    is NO_ANSWER where no span can answer; in version 2 also `no_answer_score` and `threshold` [B]:
    an answer is "" where the former is not below the latter. `embeddings` returns `pooled_output`
    [B, W, H], `sequence_output` [B, W, T, H] and `input_mask` [B, W, T], whatever the number of
    windows: a question with fewer than others has some whose mask is all 0.

    Args:
        model: heads.SquadV1Model (without predicted_length) or heads.SquadV2Model.
        texts: text_inputs.Paragraphs.
        settings: AnswerSettings.
    """

    def __init__(self, model, texts, settings):
        self._model, self.texts, self._settings = model, texts, settings
        self._has_negatives = isinstance(model, heads.SquadV2Model)
        self.ids = (*FEATURES, "p_mask") if self._has_negatives else FEATURES

    def signatures(self, with_text=True):
        """Dict of name -> concrete function; those that take text need tensorflow-text."""
        found = {"serving_default": traced(self._of_ids_renamed, id_specs(self.ids))}
        return found | (of_texts(self) if with_text else {})

    def of_ids(self, **features):
        """The head's outputs for ids."""
        return self._model(features, training=False)

    def _of_ids_renamed(self, **features):
        found = self.of_ids(**features)
        return {
            name.replace("_logits", "_log_prob") if not self._has_negatives else name: values
            for name, values in found.items()
        }

    def of_text(self, question, context):
        """Answers to questions."""
        windows = self.texts(question, context)
        spans = some_at_a_time(self._spans, {n: windows.features[n] for n in self.ids})
        is_valid = _is_valid(spans, windows, self._settings.max_answer_length, self.texts.overlap)
        best, score = _best_of_questions(spans, is_valid, windows)
        start, end, has_answer = _characters(windows, best, score)
        answer, start, end = self.texts.answers(context, start, end)
        score = tf.where(has_answer, tf.cast(score, tf.float32), NO_ANSWER)
        found = {"answer": answer, "start": start, "end": end, "score": score}
        found = _without_answer(found, ~has_answer)
        if not self._has_negatives:
            return found
        lowest = tf.math.unsorted_segment_min(
            spans.no_answer_scores, windows.example, tf.size(question)
        )
        lowest = tf.where(windows.char_starts.row_lengths() > 0, lowest, NO_WINDOW)
        threshold = tf.fill(tf.shape(lowest), self._settings.null_threshold)
        found = _without_answer(found, lowest >= threshold)
        return found | {"no_answer_score": lowest, "threshold": threshold}

    def _spans(self, features):
        outputs = self.of_ids(**features)
        if self._has_negatives:
            starts = outputs["start_top_index"]
            shape = [-1, starts.shape[1], outputs["end_top_index"].shape[1] // starts.shape[1]]
            ends = tf.reshape(outputs["end_top_index"], shape)
            end_scores = tf.reshape(outputs["end_top_log_probs"], shape)
            start_scores = outputs["start_top_log_probs"]
            return _Spans(starts, start_scores, ends, end_scores, outputs["cls_logits"])
        count = self._settings.n_best_size
        (start_scores, starts), (end_scores, ends) = (
            # How much padding there is must not matter.
            heads.top(
                tf.where(features["input_mask"] > 0, outputs[f"{side}_logits"], -np.inf), count
            )
            for side in ("start", "end")
        )
        ends, end_scores = ends[:, tf.newaxis], end_scores[:, tf.newaxis]
        return _Spans(starts, start_scores, ends, end_scores, tf.zeros_like(start_scores[:, 0]))

    def embeddings(self, question, context):
        """The encoder's outputs for the windows of contexts."""
        windows = self.texts(question, context)
        features = {name: windows.features[name] for name in FEATURES}
        return encoded_parts(self._model.encoder, features, windows.counts)


def _is_valid(spans, windows, max_answer_length, overlap):
    """Which spans answer: inside the paragraph, in order, short, most context at the start.

    Returns:
        bool [F, s, e].
    """
    starts = (spans.starts - windows.offset[:, tf.newaxis])[..., tf.newaxis]
    ends = spans.ends - windows.offset[:, tf.newaxis, tf.newaxis]
    length = windows.length[:, tf.newaxis, tf.newaxis]
    in_order = (ends >= starts) & (ends - starts < max_answer_length)
    inside = (starts >= 0) & (starts < length) & (ends < length)
    most = _has_most_context(starts[..., 0], windows, overlap)
    return inside & in_order & most[..., tf.newaxis]


def _has_most_context(pieces, windows, overlap):
    """Whether no other window shows a piece with more context; of equals, the first does.

    Args:
        pieces: int32 [F, s], from the window's first one.
        windows: text_inputs.Windows.
        overlap: int, windows at most that show the same piece.
    """
    absolute = (pieces + windows.first_piece[:, tf.newaxis])[..., tf.newaxis]  # [F, s, 1]
    # The windows that show a piece are the last one that begins before it, and some before that.
    stride, count, before = (
        values[:, tf.newaxis, tf.newaxis]
        for values in (
            windows.stride,
            tf.gather(windows.counts, windows.example),
            tf.gather(tf.cumsum(windows.counts, exclusive=True), windows.example),
        )
    )
    number = absolute // stride - tf.range(overlap)[::-1]  # [F, s, overlap], of the question
    others = before + tf.clip_by_value(number, 0, count - 1)
    first, length = tf.gather(windows.first_piece, others), tf.gather(windows.length, others)
    context = tf.minimum(absolute - first, first + length - 1 - absolute)
    score = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)
    is_shown = (context >= 0) & (number >= 0) & (number < count)
    score = tf.where(is_shown, score, -np.inf)
    best = tf.gather(others, tf.argmax(score, axis=-1), batch_dims=2)  # [F, s]
    return best == tf.range(tf.size(windows.example))[:, tf.newaxis]


def _best_of_questions(spans, is_valid, windows):
    """The best span of each question, the first of equals.

    Returns:
        (int32 [B, 2]: first and last piece in the paragraph; float64 [B]: score, minus infinity
        where there is no span).
    """
    # In float64, as `squad_predictions`: ties are decided by the order.
    start_scores, end_scores = (
        tf.cast(scores, tf.float64) for scores in (spans.start_scores, spans.end_scores)
    )
    scores = start_scores[..., tf.newaxis] + end_scores
    scores = tf.where(is_valid, scores, -np.inf)  # [F, s, e]
    number_of_ends = tf.shape(scores)[2]
    flat = tf.reshape(scores, [tf.shape(scores)[0], -1])
    place = tf.argmax(flat, axis=1, output_type=tf.int32)  # [F]
    rank, end_rank = place // number_of_ends, place % number_of_ends
    start = tf.gather(spans.starts, rank, batch_dims=1)
    ends = tf.broadcast_to(spans.ends, tf.shape(scores))
    end = tf.gather(tf.gather(ends, rank, batch_dims=1), end_rank, batch_dims=1)
    shift = windows.first_piece - windows.offset
    found = tf.stack([start + shift, end + shift], axis=1)
    by_question = tf.RaggedTensor.from_row_lengths(tf.reduce_max(flat, axis=1), windows.counts)
    columns = tf.maximum(tf.reduce_max(windows.counts), 1)  # argmax needs one even without a row
    best = tf.argmax(by_question.to_tensor(-np.inf, shape=tf.stack([-1, columns])), 1, tf.int32)
    row = by_question.row_starts() + best
    return tf.gather(found, row), tf.gather(by_question.values, row)


def _characters(windows, best, score):
    """Where answers start and end (int32 [B]; 0 where there is none), and which exist (bool)."""
    first, last = tf.unstack(best, axis=1)
    has_answer = score > -np.inf
    start = _of_pieces(windows.char_starts, first, has_answer)
    end = _of_pieces(windows.char_ends, last, has_answer)
    return start, end, has_answer


def _of_pieces(ragged, piece, is_there):
    """Value of a piece of each row (int32 [B]); 0 where there is none."""
    beyond = tf.size(ragged.values)
    index = tf.where(is_there, tf.cast(ragged.row_starts(), tf.int32) + piece, beyond)
    return tf.gather(tf.concat([ragged.values, [0]], axis=0), index)


def _without_answer(found, is_without):
    """Answers, emptied where `is_without` (bool [B])."""
    return found | {
        "answer": tf.where(is_without, "", found["answer"]),
        "start": tf.where(is_without, 0, found["start"]),
        "end": tf.where(is_without, 0, found["end"]),
    }
