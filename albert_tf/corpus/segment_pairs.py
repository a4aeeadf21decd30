# SPDX-License-Identifier: Apache-2.0
"""The segments of instances: pairs for sentence-order prediction (paper, section 3.1), or one each.

A pair of segments A and B is five numbers, the columns of an array of pairs: start and end of A,
start and end of B (offsets of tokens in a corpus), and the kind of the pair. A segment alone is a
pair whose B is empty.
"""

import functools
import itertools

import numpy as np

# Kinds of pairs; the label is 0, 1, 1, and a segment alone has none.
IN_ORDER, SWAPPED, RANDOM_DOCUMENT, ONE_SEGMENT = range(4)
_TRIES_FOR_OTHER_DOCUMENT = 10
_PAIRS_TOGETHER = 1 << 16
_DOCUMENTS_KEPT = 64  # documents whose long sentences were cut, in memory


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
    draw, sentences = Draws(rng), Sentences(corpus, settings)
    of_document = document_segments if settings.pairs == "none" else document_pairs
    pairs = (pair for d in documents for pair in of_document(sentences, d, settings, draw))
    while some := list(itertools.islice(pairs, _PAIRS_TOGETHER)):
        yield np.array(some, np.int64)


class Sentences:
    """Where the sentences of each document begin and end; long ones are cut into parts.

    Args:
        corpus: Corpus.
        settings: options.Instances.

    Attributes:
        num_documents: int.
    """

    def __init__(self, corpus, settings):
        self.num_documents = len(corpus.documents)
        self._corpus, self._longest = corpus, settings.longest_line
        self._overlap = settings.line_overlap
        if self._longest:
            self.of = functools.lru_cache(_DOCUMENTS_KEPT)(self.of)

    def of(self, document):
        """Starts and ends of the sentences of a document (int): two int64 arrays [n], n > 0."""
        first, stop = self._corpus.documents[document].tolist()
        bounds = self._corpus.sentences[first : stop + 1]
        starts, ends = bounds[:-1], bounds[1:]
        if not self._longest:
            return starts, ends
        step = self._longest - self._overlap
        counts = np.maximum(1, -(-(ends - starts - self._overlap) // step))
        starts = np.repeat(starts, counts) + step * numbers_within(counts)
        return starts, np.minimum(starts + self._longest, np.repeat(ends, counts))


def numbers_within(counts):
    """Numbers from 0 on for each of the counts, int array [n]: [2, 3] gives [0, 1, 0, 1, 2]."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


class Draws:
    """Random numbers one at a time, drawn in blocks because a call of a Generator is slow."""

    def __init__(self, rng):
        blocks = (rng.random(1024).tolist() for _ in itertools.count())
        self._next = itertools.chain.from_iterable(blocks).__next__

    def chance(self, probability):
        """True with this probability, a float."""
        return self._next() < probability

    def below(self, low, high):
        """An int from low to high - 1."""
        return low + int(self._next() * (high - low))


def document_pairs(sentences, document, settings, draw):
    """Yields the pairs of one document in one pass (paper, section 3.1), not yet truncated.

    Sentences are gathered up to a target length and split at a random sentence into A and B. The
    pair is in order or swapped with equal chance. For the next-sentence task, no pair is swapped:
    B is from another document instead. A single sentence cannot be split, so its B is always from
    another document.

    Args:
        sentences: Sentences.
        document: int, index of the document.
        settings: Settings.
        draw: Draws.
    """
    starts, ends = sentences.of(document)
    target, is_next = _target(settings, draw), settings.pairs == "next"
    begin = 0
    while begin < len(starts):
        end = _sentences_reaching(starts, ends, begin, target)
        split = begin + 1 if end - begin == 1 else draw.below(begin + 1, end)
        first, middle, last = int(starts[begin]), int(ends[split - 1]), int(ends[end - 1])
        if end - begin == 1 or (is_next and draw.chance(0.5)):
            b = random_segment(sentences, document, target - (middle - first), draw)
            yield first, middle, *b, RANDOM_DOCUMENT
            begin = split  # the next pair begins with the unused sentences
            continue
        if not is_next and draw.chance(0.5):
            yield middle, last, first, middle, SWAPPED
        else:
            yield first, middle, middle, last, IN_ORDER
        begin = end


def document_segments(sentences, document, settings, draw):
    """Yields the segments of one document in one pass, which have as many sentences as fit.

    No token is left out: a segment has one sentence at least, and a sentence fits, because longer
    ones are cut. The arguments are those of `document_pairs`.
    """
    starts, ends = sentences.of(document)
    target = _target(settings, draw)
    begin = 0
    while begin < len(starts):
        # At most `target` sentences fit, since each has a token that the one before has not.
        fitting = ends[begin : begin + target].searchsorted(starts[begin] + target, side="right")
        stop = begin + max(1, int(fitting))
        end = int(ends[stop - 1])
        yield int(starts[begin]), end, end, end, ONE_SEGMENT
        begin = stop


def _target(settings, draw):
    """Length of the instances of a document in one pass, in tokens."""
    target = settings.max_pair_length
    if draw.chance(settings.short_seq_prob):  # so that the model also learns from short inputs
        target = draw.below(2, target + 1)
    return target


def _sentences_reaching(starts, ends, begin, length):
    """End of the fewest sentences from `begin` on, at least one, that have `length` tokens."""
    # At most `length` sentences are needed, since each has a token.
    near = ends[begin : begin + max(1, length)]
    return min(begin + 1 + int(near.searchsorted(starts[begin] + length)), len(ends))


def random_segment(sentences, document, length, draw):
    """Sentences from a random place in another document, if possible.

    Args:
        sentences: Sentences.
        document: int, the document to avoid; it is used if ten draws in a row give it.
        length: int, number of tokens wanted; there are fewer if the document ends before.
        draw: Draws.

    Returns:
        (start, end), token offsets into the corpus.
    """
    for _ in range(_TRIES_FOR_OTHER_DOCUMENT):
        other = draw.below(0, sentences.num_documents)
        if other != document:
            break
    starts, ends = sentences.of(other)
    begin = draw.below(0, len(starts))
    end = _sentences_reaching(starts, ends, begin, length)
    return int(starts[begin]), int(ends[end - 1])


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
