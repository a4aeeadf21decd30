# SPDX-License-Identifier: Apache-2.0
"""Documents that nearly repeat an earlier one: MinHash signatures of shingles, compared by bands.

Broder, "On the resemblance and containment of documents" (1997); with shingles of five tokens, as
Lee et al., "Deduplicating Training Data Makes Language Models Better" (2022), section 4.2. The
signatures lie in a file. Memory holds 40 bytes for each document, and up to 1 KB for each that has
something in common with another.
"""

import collections
import dataclasses
import itertools
import os

import numpy as np

from albert_tf import files, progress
from albert_tf.corpus import corpus_files, mapped_arrays, permutation

_SHINGLE = 5  # tokens
HASHES = 128  # numbers of a signature; the similarity is exact to about 0.04
_RECALL = 0.95  # chance at least that documents just as similar as asked for are compared
_SEED = 1
_TOGETHER = 1024  # documents
_TOKENS_TOGETHER = 1 << 15
_PAIRS_TOGETHER = 1 << 14
_MOST_COMPARED = 64  # documents that stay, of those with one value of a band; bounds the time
_BEYOND = np.uint64(1 << 32)  # in place of a token after the end of a document
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def repeats(signatures, used, similarity, directory):
    """Which documents nearly repeat an earlier one.

    A document is left out if it is similar enough to an earlier one that stays.

    Args:
        signatures: iterable of uint32 arrays [n, HASHES], those of all documents in their order.
            It is not read if the result is there.
        used: bool array [documents], those to compare.
        similarity: float, share of their different shingles that two documents have in common.
        directory: str, on a local disk, where the result is kept, and taken from if it is there.

    Returns:
        bool array [documents], False for those that are not used.
    """
    result = os.path.join(directory, "repeats.bin")
    if corpus_files.size_of(result) != len(used):
        files.remove(directory)
        with files.replacing_directory(directory) as name:
            path = os.path.join(name, "signatures.bin")
            found = np.zeros(len(used), bool)
            found[used] = _is_repeat(_written(signatures, used, path), similarity)
            found.tofile(os.path.join(name, os.path.basename(result)))
            os.remove(path)
    return np.fromfile(result, bool)


def _written(signatures, used, path):
    """The signatures of the documents used: uint32 array [n, HASHES], a mapped file."""
    first = 0
    with open(path, "wb") as file:
        for some in signatures:
            some[used[first : first + len(some)]].tofile(file)
            first += len(some)
    return mapped_arrays.open_array(path, np.uint32, -1, HASHES)


# === Signatures ===


def corpus_signatures(directory, pool):
    """Yields the signatures of the documents of a corpus, block by block.

    Args:
        directory: str.
        pool: workers.WorkerPool.
    """
    corpus = corpus_files.open_corpus(directory)
    firsts = range(0, corpus.num_documents, _TOGETHER)
    with progress.bar("comparing", corpus.text_bytes, "B") as bar:
        yield from pool.in_order(_Signer(directory), firsts, bar.update)


@dataclasses.dataclass
class _Signer:
    """Makes the signatures of some documents: a task for worker processes."""

    corpus_directory: str

    def __call__(self, first, report):
        corpus = corpus_files.open_corpus(self.corpus_directory)
        bounds = corpus.sentences[corpus.documents[first : first + _TOGETHER + 1]]

        def done(start, stop):
            report(_bytes_before(stop, corpus) - _bytes_before(start, corpus))
            corpus.release()

        return signatures(corpus.ids, bounds, done)


def _bytes_before(token, corpus):
    return token * corpus.text_bytes // len(corpus.ids)


def signatures(ids, bounds, done=lambda start, stop: None):
    """The signatures of documents: uint32 array [documents, HASHES].

    Args:
        ids: int32 array, tokens.
        bounds: int array [documents + 1], offsets into `ids`.
        done: callable, takes the offsets of tokens that are done.
    """
    found = np.full((len(bounds) - 1, HASHES), np.iinfo(np.uint32).max, np.uint32)
    for start in range(int(bounds[0]), int(bounds[-1]), _TOKENS_TOGETHER):
        stop = min(start + _TOKENS_TOGETHER, int(bounds[-1]))
        hashes, documents = _shingles(ids, bounds, start, stop)
        if len(hashes):  # none in the last tokens of a document
            _lower(found, hashes, documents)
        done(start, stop)
    return found


def _shingles(ids, bounds, start, stop):
    """(hashes of the shingles that begin from `start` to `stop`, uint64; their documents).

    A document that is shorter than a shingle is a single one.
    """
    places = np.arange(start, stop)
    documents = np.searchsorted(bounds, places, side="right") - 1
    ends = bounds[documents + 1]
    whole = (places + _SHINGLE <= ends) | (places == bounds[documents])
    places, documents, ends = places[whole], documents[whole], ends[whole]
    hashes = np.zeros(len(places), np.uint64)
    for offset in range(_SHINGLE):
        inside = places + offset < ends
        tokens = np.full(len(places), _BEYOND)
        tokens[inside] = ids[places[inside] + offset]
        hashes = hashes * _FACTOR + tokens
    return permutation.mixed(hashes), documents


def _lower(signatures, hashes, documents):
    """Lowers the signatures of documents to the smallest values of hash functions."""
    firsts = np.flatnonzero(np.diff(documents, prepend=-1))
    here = documents[firsts]
    draws = np.random.SeedSequence(_SEED).generate_state(2 * HASHES, np.uint64).reshape(2, -1)
    for number, (factor, summand) in enumerate(draws.T):
        values = (hashes * (factor | np.uint64(1)) + summand) >> np.uint64(32)
        least = np.minimum.reduceat(values, firsts).astype(np.uint32)
        signatures[here, number] = np.minimum(signatures[here, number], least)


# === Comparison ===


def _is_repeat(signatures, similarity):
    """Whether documents are similar to an earlier one that stays: bool array [n]."""
    found, staying = np.zeros(len(signatures), bool), collections.defaultdict(list)
    for number, (document, meetings) in enumerate(_meetings(signatures, similarity)):
        others = list({other for meeting in meetings for other in staying[meeting]})
        agreement = np.mean(signatures[others] == signatures[document], axis=1)
        if (agreement >= similarity).any():
            found[document] = True
        else:
            for meeting in meetings:
                if len(staying[meeting]) < _MOST_COMPARED:
                    staying[meeting].append(document)
        if number % _PAIRS_TOGETHER == 0:
            mapped_arrays.release(signatures)
    return found


def _meetings(signatures, similarity):
    """Yields (document, numbers of the bands' values that it has in common with others)."""
    count, rows = len(signatures), _rows_of_a_band(similarity)
    documents, values, num_values = [], [], 0
    for column in range(0, HASHES - rows + 1, rows):
        keys = np.concatenate(
            [
                _keys(signatures[start : start + _PAIRS_TOGETHER, column : column + rows])
                for start in range(0, count, _PAIRS_TOGETHER)
            ]
        )
        _, numbers, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        documents.append(np.flatnonzero(sizes[numbers] > 1))
        values.append(num_values + numbers[documents[-1]])
        num_values += len(sizes)
        mapped_arrays.release(signatures)
    documents, values = np.concatenate(documents), np.concatenate(values)
    order = np.argsort(documents, kind="stable")
    documents, values = documents[order], values[order]
    firsts = np.flatnonzero(np.diff(documents, prepend=-1, append=-1))
    for first, stop in itertools.pairwise(firsts.tolist()):
        yield int(documents[first]), values[first:stop].tolist()


def _rows_of_a_band(similarity):
    """The most numbers of a signature in a band that let enough of the similar documents meet."""
    rows = np.arange(1, HASHES + 1)
    bands = HASHES // rows
    return int(rows[1 - (1 - similarity**rows) ** bands >= _RECALL].max(initial=1))


def _keys(band):
    keys = np.zeros(len(band), np.uint64)
    for column in band.T:
        keys = permutation.mixed(keys * _FACTOR + column)
    return keys
