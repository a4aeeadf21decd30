# SPDX-License-Identifier: Apache-2.0
"""Segment pairs of documents, for sentence-order prediction (paper, section 3.1)."""

from typing import NamedTuple

import numpy as np

IN_ORDER, SWAPPED, RANDOM_DOCUMENT = range(3)  # kinds of pairs; the label is 0, 1, 1
_TRIES_FOR_OTHER_DOCUMENT = 10


class Pair(NamedTuple):
    """Segments A and B as token offsets into a corpus, and the kind of pair."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    kind: int


def document_pairs(corpus, document, settings, rng):
    """Yields the pairs of one document in one pass (paper, section 3.1).

    Sentences are gathered up to a target length and split at a random sentence into A and B. The
    pair is in order, or swapped, or B is from another document: always so for a single sentence,
    which cannot be split, and with `random_next_sentence` half of the time instead of swapping.

    Args:
        corpus: Corpus.
        document: int, index of the document.
        settings: Settings.
        rng: np.random.Generator.
    """
    sentences = corpus.sentences
    begin, stop = corpus.documents[document : document + 2].tolist()
    target = _target_length(settings, rng)
    while begin < stop:
        end = _sentences_reaching(sentences, begin, stop, target)
        split = begin + 1 if end - begin == 1 else int(rng.integers(begin + 1, end))
        a = int(sentences[begin]), int(sentences[split])
        if end - begin == 1 or (settings.random_next_sentence and rng.random() < 0.5):
            b = random_segment(corpus, document, target - (a[1] - a[0]), rng)
            pair = Pair(*a, *b, RANDOM_DOCUMENT)
            begin = split  # what B would have been goes back
        else:
            b = int(sentences[split]), int(sentences[end])
            if not settings.random_next_sentence and rng.random() < 0.5:
                pair = Pair(*b, *a, SWAPPED)
            else:
                pair = Pair(*a, *b, IN_ORDER)
            begin = end
        yield truncate(pair, settings.max_pair_length, rng)


def _target_length(settings, rng):
    """Tokens to gather. Some are short, so that fine-tuning on short inputs is no surprise."""
    if rng.random() < settings.short_seq_prob:
        return int(rng.integers(2, settings.max_pair_length, endpoint=True))
    return settings.max_pair_length


def _sentences_reaching(sentences, begin, stop, length):
    """End of the fewest sentences from `begin`, at least one, that hold `length` tokens."""
    enough = np.searchsorted(sentences[begin : stop + 1], sentences[begin] + length)
    return min(begin + max(1, int(enough)), stop)


def random_segment(corpus, document, length, rng):
    """Sentences from a random place of, if possible, another document.

    Args:
        corpus: Corpus.
        document: int, the document to avoid; after ten draws that hit it, it is taken.
        length: int, tokens wanted; the end of the document may come first.
        rng: np.random.Generator.

    Returns:
        (start, end), token offsets into the corpus.
    """
    for _ in range(_TRIES_FOR_OTHER_DOCUMENT):
        other = int(rng.integers(corpus.num_documents))
        if other != document:
            break
    first, stop = corpus.documents[other : other + 2].tolist()
    begin = int(rng.integers(first, stop))
    end = _sentences_reaching(corpus.sentences, begin, stop, length)
    return int(corpus.sentences[begin]), int(corpus.sentences[end])


def truncate(pair, max_length, rng):
    """Shortens a pair to `max_length` tokens.

    One by one, the longer segment (B of equal ones) loses its first or its last token with equal
    chance. So the difference goes first, then B and A lose in turn, B first; and how many of a
    segment's lost tokens come off its front is binomial.

    Args:
        pair: Pair.
        max_length: int, tokens of both segments.
        rng: np.random.Generator.

    Returns:
        Pair.
    """
    a_length, b_length = pair.a_end - pair.a_start, pair.b_end - pair.b_start
    excess = a_length + b_length - max_length
    if excess <= 0:
        return pair
    from_longer = min(excess, abs(a_length - b_length))
    a_loses, b_loses = (from_longer, 0) if a_length > b_length else (0, from_longer)
    in_turn = excess - from_longer
    a_loses, b_loses = a_loses + in_turn // 2, b_loses + in_turn - in_turn // 2
    a_front, b_front = int(rng.binomial(a_loses, 0.5)), int(rng.binomial(b_loses, 0.5))
    return Pair(
        pair.a_start + a_front,
        pair.a_end - (a_loses - a_front),
        pair.b_start + b_front,
        pair.b_end - (b_loses - b_front),
        pair.kind,
    )
