# SPDX-License-Identifier: Apache-2.0
"""Selects documents of a corpus: drops repeated ones, and holds some out."""

import collections
import hashlib
import itertools

import numpy as np

from albert_tf import files
from albert_tf.corpus import corpus_files

TRAIN, HELD_OUT = "train", "heldout"
_DOCUMENTS_TOGETHER = 4096


def choose(digests, selection, repeats=None):
    """Selects the documents of a corpus that are used.

    Args:
        digests: uint64 array [documents], the `digests` of all.
        selection: options.Selection.
        repeats: callable, (bool array [documents] of those to compare, similarity) -> bool array
            of those that nearly repeat an earlier one; needed for `drop_near_duplicates`.

    Returns:
        (dict from TRAIN and HELD_OUT to bool array [documents], Counter of those in neither).
    """
    used = np.ones(len(digests), bool)
    if selection.drop_duplicates or selection.drop_near_duplicates:
        used[:] = False
        used[np.unique(digests, return_index=True)[1]] = True
    different = int(used.sum())
    if similarity := selection.drop_near_duplicates:
        used &= ~repeats(used, similarity)
    held_out = digests < np.uint64(selection.heldout_fraction * 2**64)
    parts = {TRAIN: used & ~held_out, HELD_OUT: used & held_out}
    return parts, collections.Counter(
        documents_dropped=len(used) - different,
        near_duplicates_dropped=different - int(used.sum()),
    )


def digests(ids, bounds):
    """Hashes of the tokens of documents: uint64 array [documents].

    Args:
        ids: int32 array, tokens.
        bounds: int array [documents + 1], offsets into `ids`.
    """
    documents = (ids[start:end] for start, end in itertools.pairwise(bounds.tolist()))
    hashes = (hashlib.blake2b(document, digest_size=8).digest() for document in documents)
    return np.frombuffer(b"".join(hashes), np.uint64)


def write_documents(directory, chosen, target):
    """Writes a corpus of some documents of another.

    Args:
        directory: str.
        chosen: bool array [documents].
        target: str, directory that the corpus is written to; it appears when all is done.
    """
    corpus = corpus_files.open_corpus(directory)
    arrays = [name for name in corpus_files.ARRAYS if getattr(corpus, name) is not None]
    with files.replacing_directory(target) as name, corpus_files.Writer(name, arrays) as writer:
        for first in range(0, len(chosen), _DOCUMENTS_TOGETHER):
            for start, end in runs(chosen[first : first + _DOCUMENTS_TOGETHER]):
                writer.copy(corpus, first + start, first + end)
            corpus.release()
        writer.finish(corpus.figures)


def runs(chosen):
    """List of (start, end) of each run of True values in an array."""
    edges = np.flatnonzero(np.diff(np.pad(chosen, 1).astype(np.int8)))
    return edges.reshape(-1, 2).tolist()
