# SPDX-License-Identifier: Apache-2.0
"""SQuAD scores: exact match and F1 as the official scripts of versions 1.1 and 2.0 report them.

Rajpurkar et al., "SQuAD" (2016) and "Know What You Don't Know" (2018). Needs no TensorFlow.

Gold answers are a dict from question id to a tuple of texts, in the order of the data; an empty
tuple is a question without answer. Predictions are a dict from question id to a text.
"""

import collections
import re
import string
import sys
import unicodedata

from albert_tf.errors import UserError
from albert_tf.tasks.squad import questions

# Above this no-answer score the official script treats a question as unanswerable. It is meant for
# probabilities; the original release compares raw logits with it.
NO_ANSWER_ABOVE = 1.0


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Letters of scripts that put no spaces between words: Thai to Myanmar, Khmer, kana, Han.
_AS_CHARACTERS = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)
_HANGUL = re.compile("[\uac00-\ud7a3]")


# === Gold answers ===


def read_gold(path):
    """Gold answers of a SQuAD file.

    Args:
        path: str.

    Returns:
        (dict from id to tuple of str, bool whether the file is of version 2).

    Raises:
        UserError: the file cannot be read or is not a SQuAD file with answers.
    """
    gold, version_2 = {}, False
    for where, _, qa in questions.entries(path):
        gold[qa["id"]] = questions.answer_texts(qa, where)
        version_2 |= questions.lacks_answer(qa)
    if not gold:
        raise UserError(f"{path} holds no question")
    return gold, version_2


# === One answer ===


def normalize_answer(text, unit="words"):
    """Lower case, without ASCII punctuation, articles and superfluous white space.

    Args:
        text: str.
        unit: str, "words", or "characters" to make each character of scripts without spaces a word
            and to drop all punctuation (as for CMRC 2018 and MLQA).

    Returns:
        str.
    """
    if unit == "characters":
        kept = (char for char in text if not unicodedata.category(char).startswith("P"))
        text = _AS_CHARACTERS.sub(r" \1 ", "".join(kept))
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_score(prediction, gold, unit="words"):
    """Whether two answers are the same when normalised (bool)."""
    return normalize_answer(prediction, unit) == normalize_answer(gold, unit)


def f1_score(prediction, gold, without_words, unit="words"):
    """Harmonic mean of precision and recall of words; 0 if there is no word in common.

    With characters, those of Korean answers count, also digits and other letters, as for KorQuAD
    1.0, since particles stand behind its words without a space.

    Args:
        prediction: str.
        gold: str.
        without_words: float, score of two answers without a word: 0 in evaluate-v1.1, 1 in
            evaluate-v2.0.
        unit: str, as of `normalize_answer`.

    Returns:
        float in [0, 1].
    """
    predicted, true = (normalize_answer(text, unit).split() for text in (prediction, gold))
    if unit == "characters" and _HANGUL.search(prediction + gold):
        predicted, true = ([*"".join(words)] for words in (predicted, true))
    if not predicted and not true:
        return without_words
    common = (collections.Counter(predicted) & collections.Counter(true)).total()
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(true)
    return (2 * precision * recall) / (precision + recall)


# === Version 1.1 ===


def evaluate_v1(gold, predictions, unit="words"):
    """Scores of evaluate-v1.1: the best over the gold answers, averaged over all questions.

    Args:
        gold: dict from id to tuple of at least one str, of at least one question.
        predictions: dict from id to str. A question without a prediction scores 0, and a line on
            stderr says so.
        unit: str, as of `normalize_answer`.

    Returns:
        dict: exact_match, f1 (percent).

    Raises:
        UserError: a question has no gold answer.
    """
    exact = f1 = 0
    for qas_id, answers in gold.items():
        if not answers:
            raise UserError(f"question {qas_id} has no gold answer and cannot be scored")
        if qas_id not in predictions:
            print(f"Unanswered question {qas_id} will receive score 0.", file=sys.stderr)
            continue
        prediction = predictions[qas_id]
        exact += max(exact_score(prediction, answer, unit) for answer in answers)
        f1 += max(f1_score(prediction, answer, 0.0, unit) for answer in answers)
    return {"exact_match": 100.0 * exact / len(gold), "f1": 100.0 * f1 / len(gold)}


# === Version 2.0 ===


def raw_scores_v2(gold, predictions, unit="words"):
    """Scores of each question: the best over its gold answers.

    Gold answers that are empty after normalisation do not count; if none is left, "" is right.

    Args:
        gold: dict from id to tuple of str.
        predictions: dict from id to str. A question without a prediction is left out, and a line on
            stderr says so.
        unit: str, as of `normalize_answer`.

    Returns:
        {"exact": dict from id to 0 or 1, "f1": dict from id to float in [0, 1]}: scores before any
        threshold, in the order of `gold`.
    """
    exact, f1 = {}, {}
    for qas_id, answers in gold.items():
        if qas_id not in predictions:
            print(f"Missing prediction for {qas_id}", file=sys.stderr)
            continue
        prediction = predictions[qas_id]
        answers = [answer for answer in answers if normalize_answer(answer, unit)] or [""]
        exact[qas_id] = int(max(exact_score(prediction, answer, unit) for answer in answers))
        f1[qas_id] = max(f1_score(prediction, answer, 1.0, unit) for answer in answers)
    return {"exact": exact, "f1": f1}


def evaluate_v2(gold, predictions, na_scores=None, na_threshold=NO_ANSWER_ABOVE, unit="words"):
    """Scores of evaluate-v2.0.

    Args:
        gold: dict from id to tuple of str.
        predictions: dict from id to str, of one question at least; others do not count.
        na_scores: dict from id to float, probability or logit of no answer; or None.
        na_threshold: float; a question with a higher score counts as answered with "".
        unit: str, as of `normalize_answer`.

    Returns:
        dict: exact, f1 (percent), total; the same as HasAns_* and NoAns_* for questions with and
        without an answer, if there are any; with na_scores also best_exact, best_f1 and their
        thresholds best_exact_thresh, best_f1_thresh.

    Raises:
        UserError: a question lacks its na_score.
    """
    raw = raw_scores_v2(gold, predictions, unit)
    scored = list(raw["exact"])
    missing = [qas_id for qas_id in scored if na_scores is not None and qas_id not in na_scores]
    if missing:
        raise UserError(f"{len(missing)} predictions have no no-answer score, such as {missing[0]}")
    used = {
        name: _with_threshold(scores, gold, na_scores or {}, na_threshold)
        for name, scores in raw.items()
    }
    result = _averages(used, scored)
    for prefix, has_answer in (("HasAns", True), ("NoAns", False)):
        ids = [qas_id for qas_id in scored if bool(gold[qas_id]) == has_answer]
        if ids:
            result |= {f"{prefix}_{key}": value for key, value in _averages(used, ids).items()}
    if na_scores is not None:
        for name, scores in raw.items():
            best, threshold = best_threshold(gold, predictions, scores, na_scores)
            result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return result


def best_threshold(gold, predictions, scores, na_scores):
    """The no-answer threshold that gives the best average, and that average.

    Questions are sorted by na_scores. At first none is answered, then one more each time, beginning
    with the lowest score.

    Args:
        gold: dict from id to tuple of str.
        predictions: dict from id to str.
        scores: dict from id to number, one of those of `raw_scores_v2`.
        na_scores: dict from id to float.

    Returns:
        (float, float): percent, and the na_score of the last question to answer, or 0.0 if none
        should be answered.
    """
    current = best = sum(not gold[qas_id] for qas_id in scores)
    threshold = 0.0
    for qas_id in sorted(na_scores, key=na_scores.get):
        if qas_id not in scores:
            continue
        if gold[qas_id]:
            current += scores[qas_id]
        elif predictions[qas_id]:
            current -= 1
        if current > best:
            best, threshold = current, na_scores[qas_id]
    return 100.0 * best / len(scores), threshold


def evaluate_run_v2(gold, texts, null_odds, null_threshold=None, unit="words"):
    """Scores of a model's answers as the original reports them, and the official ones.

    If no threshold is given, the one with the best F1 on the same questions is found first. As in
    the original, exact and f1 are the scores of the answers with that threshold, a logit above 1.0
    also counts as no answer, and best_* come from the answers without a threshold.

    Args:
        gold: dict from id to tuple of str.
        texts: callable that takes a threshold or None and returns the answers (dict from id to
            str), such as `answers.Predictions.texts`.
        null_odds: dict from id to float, no-answer logits.
        null_threshold: float or None.
        unit: str, as of `normalize_answer`.

    Returns:
        dict of `evaluate_v2`, with null_score_diff_threshold: the threshold.

    Raises:
        UserError: of `evaluate_v2`.
    """
    free = evaluate_v2(gold, texts(None), null_odds, unit=unit)
    if null_threshold is None:
        null_threshold = free["best_f1_thresh"]
    return {
        **evaluate_v2(gold, texts(null_threshold), null_odds, unit=unit),
        "null_score_diff_threshold": null_threshold,
        **{key: value for key, value in free.items() if key.startswith("best_")},
    }


def _with_threshold(scores, gold, na_scores, threshold):
    return {
        qas_id: float(not gold[qas_id]) if na_scores.get(qas_id, threshold) > threshold else score
        for qas_id, score in scores.items()
    }


def _averages(used, ids):
    averages = {
        name: 100.0 * sum(scores[qas_id] for qas_id in ids) / len(ids)
        for name, scores in used.items()
    }
    return averages | {"total": len(ids)}
