# SPDX-License-Identifier: Apache-2.0
"""Segment pairs of documents, for sentence-order prediction (paper, section 3.1).

A pair of segments A and B is five numbers, the columns of an array of pairs: start and end of A,
start and end of B (offsets of tokens in a corpus), and the kind of the pair.
"""

import itertools

import numpy as np

IN_ORDER, SWAPPED, RANDOM_DOCUMENT = range(3)  # kinds of pairs; the label is 0, 1, 1
_TRIES_FOR_OTHER_DOCUMENT = 10
_PAIRS_TOGETHER = 1 << 16


def block_pairs(corpus, documents, settings, rng):
    """Yields the pairs of some documents in one pass, in arrays of bounded size.

    Args:
        corpus: Corpus.
        documents: iterable of int.
        settings: instances.Settings.
        rng: np.random.Generator.

    Yields:
        int64 array [pairs, 5], not yet truncated (see `truncate`).
    """
    draw = Draws(rng)
    pairs = (p for document in documents for p in document_pairs(corpus, document, settings, draw))
    while some := list(itertools.islice(pairs, _PAIRS_TOGETHER)):
        yield np.array(some, np.int64)


class Draws:
    """Random numbers one at a time, drawn in blocks because a call of a Generator is slow."""

    def __init__(self, rng):
        blocks = (rng.random(1024).tolist() for _ in itertools.count())
        self._next = itertools.chain.from_iterable(blocks).__next__

    def chance(self, probability):
        return self._next() < probability

    def below(self, low, high):
        """An int from low to high - 1."""
        return low + int(self._next() * (high - low))


def document_pairs(corpus, document, settings, draw):
    """Yields the pairs of one document in one pass (paper, section 3.1), not yet truncated.

    Sentences are gathered up to a target length and split at a random sentence into A and B. The
    pair is in order or swapped with equal chance. With `random_next_sentence`, no pair is swapped:
    B is from another document instead. A single sentence cannot be split, so its B is always from
    another document.

    Args:
        corpus: Corpus.
        document: int, index of the document.
        settings: Settings.
        draw: Draws.
    """
    sentences = corpus.sentences
    begin, stop = corpus.documents[document].tolist()
    target = settings.max_pair_length
    if draw.chance(settings.short_seq_prob):  # so that the model also learns from short inputs
        target = draw.below(2, target + 1)
    while begin < stop:
        end = _sentences_reaching(sentences, begin, stop, target)
        split = begin + 1 if end - begin == 1 else draw.below(begin + 1, end)
        first, middle, last = sentences[[begin, split, end]].tolist()
        if end - begin == 1 or (settings.random_next_sentence and draw.chance(0.5)):
            b = random_segment(corpus, document, target - (middle - first), draw)
            yield first, middle, *b, RANDOM_DOCUMENT
            begin = split  # the next pair begins with the unused sentences
            continue
        if not settings.random_next_sentence and draw.chance(0.5):
            yield middle, last, first, middle, SWAPPED
        else:
            yield first, middle, middle, last, IN_ORDER
        begin = end


def _sentences_reaching(sentences, begin, stop, length):
    """End of the fewest sentences from `begin` on, at least one, that have `length` tokens."""
    # At most `length` sentences are needed, since each has a token.
    near = sentences[begin : min(stop, begin + max(1, length)) + 1]
    enough = near.searchsorted(near[0] + length)
    return min(begin + max(1, int(enough)), stop)


def random_segment(corpus, document, length, draw):
    """Sentences from a random place in another document, if possible.

    Args:
        corpus: Corpus.
        document: int, the document to avoid; it is used if ten draws in a row give it.
        length: int, number of tokens wanted; there are fewer if the document ends before.
        draw: Draws.

    Returns:
        (start, end), token offsets into the corpus.
    """
    for _ in range(_TRIES_FOR_OTHER_DOCUMENT):
        other = draw.below(0, len(corpus.documents))
        if other != document:
            break
    first, stop = corpus.documents[other].tolist()
    begin = draw.below(first, stop)
    end = _sentences_reaching(corpus.sentences, begin, stop, length)
    return int(corpus.sentences[begin]), int(corpus.sentences[end])


def truncate(pairs, max_length, rng):
    """Shortens pairs to `max_length` tokens.

    Tokens are removed one by one: the longer segment (B if both are equally long) loses its first
    or its last token with equal chance. So the longer segment first shrinks to the length of the
    other, and then B and A lose tokens in turn, B first. The number of tokens that a segment loses
    at its front is binomial.

    Args:
        pairs: int64 array [n, 5].
        max_length: int, maximum number of tokens of both segments together.
        rng: np.random.Generator.

    Returns:
        int64 array [n, 5].
    """
    a_start, a_end, b_start, b_end, kind = pairs.T
    a_length, b_length = a_end - a_start, b_end - b_start
    excess = np.maximum(0, a_length + b_length - max_length)
    from_longer = np.minimum(excess, abs(a_length - b_length))
    in_turn = excess - from_longer
    a_loses = np.where(a_length > b_length, from_longer, 0) + in_turn // 2
    b_loses = excess - a_loses
    a_front, b_front = rng.binomial(a_loses, 0.5), rng.binomial(b_loses, 0.5)
    columns = [
        a_start + a_front,
        a_end - (a_loses - a_front),
        b_start + b_front,
        b_end - (b_loses - b_front),
        kind,
    ]
    return np.stack(columns, axis=1)
