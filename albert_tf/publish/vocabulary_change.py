# SPDX-License-Identifier: Apache-2.0
"""Fits the weights of a model to another vocabulary, so that training can go on with new pieces.

Pieces that both vocabularies have keep their embedding and output bias. A new piece starts from the
mean of its parts in the old vocabulary; all other weights stay as they are.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.errors import UserError
from albert_tf.text import tokenization

OF_PIECES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")


class Change(NamedTuple):
    """How the pieces of a new vocabulary come from an old one.

    Attributes:
        parts: list, for each new id the list of the old ids whose mean it starts from.
        copied: int, pieces that both vocabularies have.
        new: int, pieces that start from the mean of their parts.
        without_parts: int, new pieces with no known part, which start from the mean of all pieces.
        dropped: int, pieces that only the old vocabulary has.
    """

    parts: list
    copied: int
    new: int
    without_parts: int
    dropped: int


def compare(old, new):
    """Compares two vocabularies piece by piece.

    Args:
        old: FullTokenizer of the model.
        new: FullTokenizer with the new vocabulary, of the same kind.

    Returns:
        Change.

    Raises:
        UserError: the vocabularies differ in kind or clean-up, or the new one lacks a special
            piece.
    """
    if old.is_sentencepiece != new.is_sentencepiece:
        kinds = {False: "WordPiece vocabulary", True: "SentencePiece model"}
        raise UserError(
            f"{new.path} is a {kinds[new.is_sentencepiece]}: give a {kinds[old.is_sentencepiece]}, "
            f"as {old.path} of the model is one"
        )
    if old.clean_up != new.clean_up:
        raise UserError(
            f"the text of {new.path} is cleaned up with {new.clean_up}, and that of the model with "
            f"{old.clean_up}: train the vocabulary with the same settings"
        )
    new.special_ids(with_mask="[MASK]" in old.vocab)
    parts = [_parts(piece, old) for piece in new.vocab]
    copied, without_parts = len(new.vocab.keys() & old.vocab.keys()), parts.count([])
    counts = copied, len(parts) - copied - without_parts, without_parts, len(old.vocab) - copied
    return Change([ids or [*old.inv_vocab] for ids in parts], *counts)


def apply(tensors, change):
    """Weights of a model for the new vocabulary.

    Args:
        tensors: dict of original name -> array.
        change: Change.

    Returns:
        dict of original name -> array.
    """
    return tensors | {
        name: np.stack([tensors[name][ids].mean(axis=0) for ids in change.parts])
        for name in OF_PIECES
        if name in tensors
    }


def _parts(piece, old):
    """Ids of the old pieces that spell a new piece, without unknown ones; its own if it has one."""
    if piece in old.vocab:
        return [old.vocab[piece]]
    if old.is_sentencepiece:
        parts = old.tokenize(piece.replace(tokenization.WORD_START, " "))
        if parts and not piece.startswith(tokenization.WORD_START):
            # The tokenizer takes the text for the start of a word, and the piece goes on with one.
            inner = parts[0].removeprefix(tokenization.WORD_START)
            parts[0] = inner if inner in old.vocab or not inner else parts[0]
    else:  # greedy from the left, so the first part may start with "##" too
        parts = tokenization.wordpieces(piece, old.vocab)
    known = [part for part in parts if part in old.vocab and part != tokenization.UNKNOWN]
    return [] if known == [tokenization.WORD_START] else [old.vocab[part] for part in known]
