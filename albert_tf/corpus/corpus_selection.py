# SPDX-License-Identifier: Apache-2.0
"""Which documents of a corpus are used: without repeated ones, and some held out."""

import dataclasses
import hashlib
import itertools
from typing import NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.corpus import corpus_reader
from albert_tf.errors import UserError

TRAIN, HELD_OUT = "train", "heldout"
_DOCUMENTS_TOGETHER = 4096


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is left out of a corpus, or held out.

    Args:
        drop_duplicates: bool, whether documents with the tokens of an earlier one are left out.
        drop_near_duplicates: float, from which similarity to an earlier one on documents are left
            out, as near_duplicates.repeats takes it; 0 for none.
        heldout_fraction: float, about which share of the documents is held out. It follows from
            the tokens of a document alone whether it is one of these.

    Raises:
        UserError: the fraction makes no sense.
    """

    drop_duplicates: bool = False
    drop_near_duplicates: float = 0.0
    heldout_fraction: float = 0.0

    def __post_init__(self):
        if not 0 <= self.heldout_fraction < 1:
            raise UserError(
                f"--heldout_fraction={self.heldout_fraction}: must be at least 0 and less than 1"
            )
        if not (self.drop_near_duplicates == 0 or 0.5 <= self.drop_near_duplicates <= 1):
            raise UserError(
                f"--drop_near_duplicates={self.drop_near_duplicates}: give a similarity between "
                "0.5 and 1, such as 0.8, or 0 to keep all"
            )


class Choice(NamedTuple):
    """Which documents of a corpus are used.

    Attributes:
        parts: dict from TRAIN and HELD_OUT to bool arrays [documents].
        duplicates, near_duplicates: int, documents in neither of them.
    """

    parts: dict
    duplicates: int
    near_duplicates: int


def choose(digests, selection, repeats=None):
    """The Choice from a corpus.

    Args:
        digests: uint64 array [documents], a `digest` of each.
        selection: Selection.
        repeats: callable, (bool array [documents] of those to compare, similarity) -> bool array
            of those that nearly repeat an earlier one; needed for `drop_near_duplicates`.
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
    return Choice(parts, len(used) - different, different - int(used.sum()))


def all_digests(corpus):
    """The `digest` of each document, uint64 array [documents]."""
    hashes = []
    for first in range(0, corpus.num_documents, _DOCUMENTS_TOGETHER):
        documents = corpus.documents[first : first + _DOCUMENTS_TOGETHER + 1]
        bounds = itertools.pairwise(corpus.sentences[documents].tolist())
        some = (digest(corpus.ids[start:end]) for start, end in bounds)
        hashes.append(np.frombuffer(b"".join(some), np.uint64))
        corpus.release()
    return np.concatenate(hashes)


def digest(ids):
    """A hash (8 bytes) of the tokens of a document, given as int32 array or as its bytes."""
    return hashlib.blake2b(ids, digest_size=8).digest()


def write_documents(corpus, chosen, directory, arrays=corpus_reader.ARRAYS):
    """Writes a corpus of some documents of another.

    Args:
        corpus: corpus_reader.Corpus.
        chosen: bool array [documents].
        directory: str, that the corpus is written to; it appears when all is done.
        arrays: dict, those that are written; all, or corpus_reader.INDEX.
    """
    with (
        files.replacing_directory(directory) as name,
        corpus_reader.Writer(name, arrays) as writer,
    ):
        for first in range(0, len(chosen), _DOCUMENTS_TOGETHER):
            for start, end in runs(chosen[first : first + _DOCUMENTS_TOGETHER]):
                writer.copy(corpus, first + start, first + end)
            corpus.release()
        writer.finish(corpus.figures)


def runs(chosen):
    """List of (start, end) of each run of True values in an array."""
    edges = np.flatnonzero(np.diff(np.pad(chosen, 1).astype(np.int8)))
    return edges.reshape(-1, 2).tolist()
