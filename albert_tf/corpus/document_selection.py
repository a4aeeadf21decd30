# SPDX-License-Identifier: Apache-2.0
"""Selects documents of a corpus: drops repeated and nearly repeated ones, and holds some out.

Documents that nearly repeat an earlier one have similar MinHash signatures of shingles (Broder, "On
the resemblance and containment of documents", 1997). The signatures are compared by bands. A
shingle has five tokens, as in Lee et al., "Deduplicating Training Data Makes Language Models
Better" (2022), section 4.2. The signatures are kept in a file. Memory holds 40 bytes for each
document, and up to 1 KB for each document that shares the value of a band with another.
"""

import collections
import hashlib
import itertools

import numpy as np

from albert_tf.corpus import corpus_files, permutation

TRAIN, HELD_OUT = "train", "heldout"
_SHINGLE = 5  # tokens
HASHES = 128  # numbers of a signature; the similarity is exact to about 0.04
_RECALL = 0.95  # minimum chance that two documents at the similarity limit are compared
_SEED = 1
_TOKENS_TOGETHER = 1 << 15
_TOGETHER = 1 << 14  # documents
_MOST_COMPARED = 64  # of the documents that stay, per value of a band; limits the time
_BEYOND = np.uint64(1 << 32)  # in place of a token after the end of a document
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def choose(selection, hashes_of):
    """Selects the documents of a corpus that are used.

    Args:
        selection: options.Selection.
        hashes_of: callable that takes `digests` or `signatures`, the type of the numbers and their
            count per document, and returns the array for all documents.

    Returns:
        (dict from TRAIN and HELD_OUT to bool array [documents], Counter of dropped documents).
    """
    found = hashes_of(digests, np.uint64, 1).ravel()
    used = np.ones(len(found), bool)
    if selection.drop_duplicates or selection.drop_near_duplicates:
        used[:] = False
        used[np.unique(found, return_index=True)[1]] = True
    dropped = collections.Counter(documents_dropped=np.sum(~used).item())
    if similarity := selection.drop_near_duplicates:
        near = repeats(hashes_of(signatures, np.uint32, HASHES), used, similarity)
        used &= ~near
        dropped["near_duplicates_dropped"] = int(near.sum())
    held_out = found < np.uint64(selection.heldout_fraction * 2**64)
    return {TRAIN: used & ~held_out, HELD_OUT: used & held_out}, dropped


# === Hashes ===


def digests(ids, bounds):
    """Hashes of the tokens of documents: uint64 array [documents].

    Args:
        ids: int32 array, tokens.
        bounds: int array [documents + 1], offsets into `ids`.
    """
    documents = (ids[start:end] for start, end in itertools.pairwise(bounds.tolist()))
    hashes = (hashlib.blake2b(document, digest_size=8).digest() for document in documents)
    return np.frombuffer(b"".join(hashes), np.uint64)


def signatures(ids, bounds):
    """Signatures of documents: uint32 array [documents, HASHES]; arguments are as in `digests`."""
    found = np.full((len(bounds) - 1, HASHES), np.iinfo(np.uint32).max, np.uint32)
    for start in range(int(bounds[0]), int(bounds[-1]), _TOKENS_TOGETHER):
        stop = min(start + _TOKENS_TOGETHER, int(bounds[-1]))
        hashes, documents = _shingles(ids, bounds, start, stop)
        if len(hashes):  # no shingle begins in the last tokens of a document
            _lower(found, hashes, documents)
    return found


def _shingles(ids, bounds, start, stop):
    """Returns (uint64 hashes of the shingles that begin from `start` to `stop`, their documents).

    A document shorter than a shingle counts as one shingle.
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
    """Lowers the signatures of documents to the smallest values of the hash functions."""
    firsts = np.flatnonzero(np.diff(documents, prepend=-1))
    here = documents[firsts]
    draws = np.random.SeedSequence(_SEED).generate_state(2 * HASHES, np.uint64).reshape(2, -1)
    for number, (factor, summand) in enumerate(draws.T):
        values = (hashes * (factor | np.uint64(1)) + summand) >> np.uint64(32)
        least = np.minimum.reduceat(values, firsts).astype(np.uint32)
        signatures[here, number] = np.minimum(signatures[here, number], least)


# === Comparison ===


def repeats(signatures, used, similarity):
    """Finds documents that nearly repeat an earlier one.

    A document is left out if it is similar enough to an earlier one that stays.

    Args:
        signatures: uint32 array [documents, HASHES], which may be a mapped file.
        used: bool array [documents], the documents to compare.
        similarity: float, share of their different shingles that two documents must have in common
            to be similar enough.

    Returns:
        bool array [documents], True for near repeats; documents that are not used are False.
    """
    found, staying = np.zeros(len(used), bool), collections.defaultdict(list)
    meetings = _meetings(signatures, np.flatnonzero(used), _rows_of_a_band(similarity))
    for number, (document, values) in enumerate(meetings):
        others = list({other for value in values for other in staying[value]})
        agreement = np.mean(signatures[others] == signatures[document], axis=1)
        if (agreement >= similarity).any():
            found[document] = True
        else:
            for value in values:
                if len(staying[value]) < _MOST_COMPARED:
                    staying[value].append(document)
        if number % _TOGETHER == 0:
            corpus_files.release(signatures)
    return found


def _meetings(signatures, used, rows):
    """Yields (document, numbers of the band values that it shares with other documents)."""
    documents, values, num_values = [], [], 0
    for column in range(0, HASHES - rows + 1, rows):
        keys = []
        for start in range(0, len(used), _TOGETHER):
            band = signatures[used[start : start + _TOGETHER], column : column + rows]
            keys.append(np.zeros(len(band), np.uint64))
            for numbers in band.T:
                keys[-1] = permutation.mixed(keys[-1] * _FACTOR + numbers)
            corpus_files.release(signatures)
        _, numbers, sizes = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
        meets = np.flatnonzero(sizes[numbers] > 1)
        documents.append(used[meets])
        values.append(num_values + numbers[meets])
        num_values += len(sizes)
    documents, values = np.concatenate(documents), np.concatenate(values)
    order = np.argsort(documents, kind="stable")
    documents, values = documents[order], values[order]
    firsts = np.flatnonzero(np.diff(documents, prepend=-1, append=-1))
    for first, stop in itertools.pairwise(firsts.tolist()):
        yield int(documents[first]), values[first:stop].tolist()


def _rows_of_a_band(similarity):
    """The largest number of rows in a band with which enough similar documents are compared."""
    rows = np.arange(1, HASHES + 1)
    bands = HASHES // rows
    return int(rows[1 - (1 - similarity**rows) ** bands >= _RECALL].max(initial=1))
