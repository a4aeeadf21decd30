# SPDX-License-Identifier: Apache-2.0
"""SQuAD answers from model outputs: the best spans of all windows, as text, with n-best lists.

Several runs (checkpoints, seeds) over the same features make an ensemble: their scores are
averaged. In version 2, a question is left unanswered if its no-answer score is too high.
"""

import bisect
import itertools
import json
import math
from typing import NamedTuple

import numpy as np

NULL_SCORE_WITHOUT_WINDOW = 1_000_000.0
PAIRS_AT_ONCE = 2**20  # of starts and ends, to bound the memory for them
ROUNDING = 1e-4  # logits that differ by less may change their order on another machine


class Predictions(NamedTuple):
    """The answers of a model: dicts from question id, in the order of the examples.

    Args:
        nbest: lists of dicts text, probability, start_log_prob, end_log_prob, best first. Version 1
            has logits under the last two names, as the original.
        null_odds: floats, no-answer logits; a high one means that there is no answer. None in
            version 1.
        spanless: ids of the questions for which no part of the paragraph can be an answer; their
            only entry in `nbest` is the original's stand-in.
    """

    nbest: dict
    null_odds: dict | None = None
    spanless: frozenset = frozenset()

    def answers(self, null_threshold=None):
        """Answers to the questions, readable for people and programs.

        Args:
            null_threshold: float or None, as in `texts`.

        Returns:
            list of dicts: `answer`, "" for none, and `probability`, its share among the best
            answers to the question; in version 2 also `no_answer_score`, of `null_odds`.
        """
        found = []
        for qas_id, text in self.texts(null_threshold).items():
            is_none = qas_id in self.spanless
            probability = 0.0 if is_none else self.nbest[qas_id][0]["probability"]
            found.append({"answer": "" if is_none else text, "probability": probability})
            if self.null_odds is not None:
                found[-1]["no_answer_score"] = self.null_odds[qas_id]
        return found

    def texts(self, null_threshold=None):
        """The answer to each question.

        Args:
            null_threshold: float; questions whose null_odds are not below it get the answer "".
                None for the best text of every question.

        Returns:
            dict from question id to str.
        """
        return {
            qas_id: entries[0]["text"]
            if null_threshold is None or self.null_odds[qas_id] < null_threshold
            else ""
            for qas_id, entries in self.nbest.items()
        }

    def files(self, null_threshold=None):
        """The original's files, with the answers of `texts`: dict from name to content."""
        named = {
            "predictions.json": self.texts(null_threshold),
            "nbest_predictions.json": self.nbest,
        }
        if self.null_odds is not None:
            named["null_odds.json"] = self.null_odds
        return {name: json.dumps(values, indent=4) + "\n" for name, values in named.items()}

    def robust_threshold(self, null_threshold):
        """A threshold that gives the same answers, also where logits are rounded differently.

        It lies halfway between the highest logit with an answer and the lowest one without. Logits
        that are nearly equal cannot be told apart, so none of their questions is answered.

        Args:
            null_threshold: float, which may be one of the logits.

        Returns:
            float.
        """
        # Questions without a window have no logit, only a stand-in.
        logits = sorted(v for v in self.null_odds.values() if v < NULL_SCORE_WITHOUT_WINDOW)
        answered = bisect.bisect_left(logits, null_threshold)
        while 0 < answered < len(logits) and logits[answered] - logits[answered - 1] < ROUNDING:
            answered -= 1
        if not logits:
            return null_threshold
        if answered == 0:
            return min(null_threshold, logits[0] - 1)
        if answered == len(logits):
            return max(null_threshold, logits[-1] + 1)
        return (logits[answered - 1] + logits[answered]) / 2


def predict_v1(examples, features, runs, n_best_size, max_answer_length):
    """Answers of the version 1 head: all pairs of the best starts and ends of each window.

    Args:
        examples: list of E SquadExample.
        features: features.Features of these examples.
        runs: list of dicts, one per run: start_logits and end_logits, float [F, T].
        n_best_size: int, starts and ends per window, and entries per question.
        max_answer_length: int, in tokens.

    Returns:
        Predictions.
    """
    candidates = []
    for run in runs:
        starts, start_scores = _top(run["start_logits"], n_best_size)
        ends, end_scores = _top(run["end_logits"], n_best_size)
        # Every start is combined with every end.
        beams = _Beams(starts, start_scores, ends[:, np.newaxis], end_scores[:, np.newaxis])
        candidates.append(_candidates(features, beams, max_answer_length))
    nbest, spanless = _nbest_lists(examples, features, candidates, n_best_size, ("empty", 0.0, 0.0))
    return Predictions(nbest, spanless=spanless)


def predict_v2(examples, features, runs, n_best_size, max_answer_length):
    """Answers of the version 2 head: its beams of starts, each with its own beam of ends.

    Args:
        examples: list of E SquadExample.
        features: features.Features of these examples.
        runs: list of dicts, one per run: start_top_index and start_top_log_probs [F, starts],
            end_top_index and end_top_log_probs [F, starts * ends], start-major, cls_logits float
            [F].
        n_best_size: int, entries per question.
        max_answer_length: int, in tokens.

    Returns:
        Predictions with null_odds: the lowest no-answer logit of the windows of the question,
        averaged over the runs; 1,000,000 for a question without a window.
    """
    candidates, null_scores = [], np.zeros(len(examples))
    for run in runs:
        rows, starts = run["start_top_index"].shape
        beams = _Beams(
            run["start_top_index"],
            run["start_top_log_probs"],
            run["end_top_index"].reshape(rows, starts, -1),
            run["end_top_log_probs"].reshape(rows, starts, -1),
        )
        candidates.append(_candidates(features, beams, max_answer_length))
        lowest = np.full(len(examples), NULL_SCORE_WITHOUT_WINDOW)
        np.minimum.at(lowest, features.example_index, run["cls_logits"].astype(np.float64))
        null_scores += lowest
    nbest, spanless = _nbest_lists(examples, features, candidates, n_best_size, ("", -1e6, -1e6))
    null_odds = dict(zip(nbest, (null_scores / len(runs)).tolist(), strict=True))
    return Predictions(nbest, null_odds, spanless)


def with_no_answer(predictions, examples, features, runs):
    """Answers of a version 1 head that was trained with unanswerable questions.

    Such models of transformers, `AlbertForQuestionAnswering`, say at [CLS] that there is no answer.
    Where the scores of [CLS] as start and end are higher than those of the best span, in every
    window, the first answer is "".

    Args:
        predictions: Predictions, of `predict_v1`.
        examples: list of E SquadExample.
        features: features.Features of these examples.
        runs: list of dicts, as of `predict_v1`.

    Returns:
        Predictions.
    """
    starts, ends = (
        np.mean([run[f"{side}_logits"][:, 0] for run in runs], axis=0, dtype=np.float64)
        for side in ("start", "end")
    )
    nbest = dict(predictions.nbest)
    order = np.argsort(starts + ends, kind="stable")
    lowest = dict(zip(features.example_index[order[::-1]], order[::-1], strict=True))
    for number, window in lowest.items():
        qas_id = examples[number].qas_id
        scored = [
            (entry["text"], entry["start_log_prob"], entry["end_log_prob"])
            for entry in nbest[qas_id]
        ]
        none = ("", float(starts[window]), float(ends[window]))
        if qas_id not in predictions.spanless and sum(none[1:]) > sum(scored[0][1:]):
            nbest[qas_id] = _with_probabilities([none, *scored])
    return predictions._replace(nbest=nbest)


# === Outputs of the model ===


class _Beams(NamedTuple):
    """Starts of each window [F, s], and ends for each start [F, s or 1, e], best first."""

    starts: np.ndarray
    start_scores: np.ndarray
    ends: np.ndarray
    end_scores: np.ndarray


def _top(logits, count):
    """Indices and values [F, count] of the highest logits; equal ones in the order of indices."""
    indices = np.argsort(-logits, axis=-1, kind="stable")[:, :count]
    return indices, np.take_along_axis(logits, indices, axis=-1)


# === From windows to questions ===


class _Candidates(NamedTuple):
    """Possible answers: arrays [C]; start and end are counted from the window's first token."""

    feature: np.ndarray
    start: np.ndarray
    end: np.ndarray
    start_score: np.ndarray
    end_score: np.ndarray


def _candidates(features, beams, max_answer_length):
    """The pairs of start and end that are spans of the window, by start rank and then end rank.

    A start counts only in the window where it has the most context, so that no span appears twice.
    """
    rows = max(1, PAIRS_AT_ONCE // (beams.starts.shape[1] * beams.ends.shape[2]))
    parts = [
        _candidates_of(slice(row, row + rows), features, beams, max_answer_length)
        for row in range(0, len(features), rows)
    ]
    return _Candidates(*map(np.concatenate, zip(*parts, strict=True)))


def _candidates_of(rows, features, beams, max_answer_length):
    beams = _Beams(*(values[rows] for values in beams))
    offset, length = features.window_offset[rows], features.span_length[rows]
    start = beams.starts - offset[:, np.newaxis]
    end = beams.ends - offset[:, np.newaxis, np.newaxis]
    in_window = (start >= 0) & (start < length[:, np.newaxis])
    best = features.max_context[rows]
    in_window &= np.take_along_axis(best, np.where(in_window, start, 0), axis=1)
    start = start[..., np.newaxis]
    kept = in_window[..., np.newaxis] & (end < length[:, np.newaxis, np.newaxis])
    kept &= (end >= start) & (end - start < max_answer_length)
    window, rank, end_rank = np.nonzero(kept)
    ends = (window, np.minimum(rank, end.shape[1] - 1), end_rank)
    return _Candidates(
        window + rows.start,
        start[window, rank, 0],
        end[ends],
        beams.start_scores[window, rank].astype(np.float64),
        beams.end_scores[ends].astype(np.float64),
    )


def _averaged(runs):
    """Joins the `_Candidates` of several runs: a span's scores are averaged over runs that have it.

    Spans of a window keep the order in which they first appear, run by run.
    """
    joined = _Candidates(*map(np.concatenate, zip(*runs, strict=True)))
    by_window = np.argsort(joined.feature, kind="stable")
    joined = _Candidates(*(values[by_window] for values in joined))
    width = joined.end.max(initial=0) + 1
    spans = (joined.feature * width + joined.start) * width + joined.end  # a number for each span
    _, first, group = np.unique(spans, return_index=True, return_inverse=True)
    order = np.argsort(first)
    counts = np.bincount(group)
    scores = (
        (np.bincount(group, weights=values) / counts)[order]
        for values in (joined.start_score, joined.end_score)
    )
    return _Candidates(*(values[first[order]] for values in joined[:3]), *scores)


def _nbest_lists(examples, features, runs, n_best_size, fallback):
    """N-best list of every question by id, and the ids of the questions without any span.

    For these, the only entry is `fallback`: a text, and the scores of its start and end.
    """
    candidates = _averaged(runs)
    example = features.example_index[candidates.feature]
    bounds = np.searchsorted(example, np.arange(len(examples) + 1))
    total = candidates.start_score + candidates.end_score
    lists, spanless = {}, set()
    for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
        order = begin + np.argsort(-total[begin:end], kind="stable")
        text = examples[number].paragraph_text
        entries = _distinct_texts(text, features, number, candidates, order, n_best_size)
        lists[examples[number].qas_id] = _with_probabilities(entries or [fallback])
        if not entries:
            spanless.add(examples[number].qas_id)
    return lists, frozenset(spanless)


def _distinct_texts(text, features, example, candidates, order, n_best_size):
    """Up to n_best_size (text, start score, end score), in order, each text once."""
    entries = {}
    for c in order.tolist():
        if len(entries) == n_best_size:
            break
        paragraph = features.paragraph(example)
        shift = features.span_start[candidates.feature[c]]
        begin = paragraph.starts[shift + candidates.start[c]]
        end = paragraph.ends[shift + candidates.end[c]]
        answer = text[begin : end + 1].strip()
        scores = float(candidates.start_score[c]), float(candidates.end_score[c])
        entries.setdefault(answer, (answer, *scores))
    return list(entries.values())


def _with_probabilities(entries):
    totals = [start + end for _, start, end in entries]
    # math.exp on each value, so that the last digits equal the original's.
    weights = [math.exp(total - max(totals)) for total in totals]
    sum_of_weights = sum(weights)
    return [
        {
            "text": text,
            "probability": weight / sum_of_weights,
            "start_log_prob": start,
            "end_log_prob": end,
        }
        for (text, start, end), weight in zip(entries, weights, strict=True)
    ]
