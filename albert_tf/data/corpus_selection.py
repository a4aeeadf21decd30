# SPDX-License-Identifier: Apache-2.0
"""Which documents of a corpus are used: without repeated ones, and some held out."""

import dataclasses
import hashlib
import itertools

import numpy as np

from albert_tf import files
from albert_tf.data import corpus_reader
from albert_tf.errors import UserError

TRAIN, HELD_OUT = "train", "heldout"
_DOCUMENTS_TOGETHER = 4096


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is left out of a corpus, or held out.

    Args:
        drop_duplicates: bool, whether documents with the tokens of an earlier one are left out.
        heldout_fraction: float, about which share of the documents is held out. It follows from
            the tokens of a document alone whether it is one of these.

    Raises:
        UserError: the fraction makes no sense.
    """

    drop_duplicates: bool = False
    heldout_fraction: float = 0.0

    def __post_init__(self):
        if not 0 <= self.heldout_fraction < 1:
            raise UserError(
                f"--heldout_fraction={self.heldout_fraction}: must be at least 0 and less than 1"
            )


def choose(corpus, selection):
    """Which documents belong to which part.

    Args:
        corpus: corpus_reader.Corpus.
        selection: Selection.

    Returns:
        dict from TRAIN and HELD_OUT to bool arrays [documents]; repeated documents are in none.
    """
    digests = _digests(corpus)
    used = np.ones(len(digests), bool)
    if selection.drop_duplicates:
        used[:] = False
        used[np.unique(digests, return_index=True)[1]] = True
    held_out = digests < np.uint64(selection.heldout_fraction * 2**64)
    return {TRAIN: used & ~held_out, HELD_OUT: used & held_out}


def _digests(corpus):
    """Hashes of the tokens of the documents, uint64 [documents]."""
    bounds = corpus.sentences[corpus.documents].tolist()
    hashes = (
        hashlib.blake2b(corpus.ids[start:end], digest_size=8).digest()
        for start, end in itertools.pairwise(bounds)
    )
    return np.frombuffer(b"".join(hashes), np.uint64)


def write_documents(corpus, chosen, directory):
    """Writes a corpus of some documents of another.

    Args:
        corpus: corpus_reader.Corpus.
        chosen: bool array [documents].
        directory: str, that the corpus is written to; it appears when all is done.
    """
    with files.replacing_directory(directory) as name, corpus_reader.Writer(name) as writer:
        for first in range(0, len(chosen), _DOCUMENTS_TOGETHER):
            for start, end in _runs(chosen[first : first + _DOCUMENTS_TOGETHER]):
                writer.copy(corpus, first + start, first + end)
        writer.finish(corpus.figures)


def _runs(chosen):
    """(start, end) of each run of True values."""
    edges = np.flatnonzero(np.diff(np.pad(chosen, 1).astype(np.int8)))
    return edges.reshape(-1, 2).tolist()
