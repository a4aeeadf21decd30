# SPDX-License-Identifier: Apache-2.0
"""Pseudo-log-likelihoods: how likely a masked language model finds a text.

Each token is masked in turn, and the log-probabilities of the masked tokens are summed (Salazar et
al., ACL 2020).

Shapes:
    B batch, T sequence, V vocabulary; n texts, m tokens of all texts together.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import options
from albert_tf.api import masked_text
from albert_tf.errors import UserError
from albert_tf.text import sequences
from albert_tf.text.tokenization import UNKNOWN_PIECES, WORD_START, is_unspaced

KEYS = ("log_prob", "num_pieces", "num_words", "num_unknown")  # of a score


class Pieces(NamedTuple):
    """The tokens of n texts.

    Attributes:
        ids: list of n int arrays.
        words: list of n int arrays, the word in its text that each token belongs to.
        num_unknown: list of n int, tokens that the vocabulary lacks.
        special_ids: SpecialIds.
    """

    ids: list
    words: list
    num_unknown: list
    special_ids: NamedTuple

    def part(self, rows):
        """Pieces of some of the texts, a slice of them."""
        return Pieces(*(values[rows] for values in self[:-1]), self.special_ids)


def pieces_of(tokenizer, texts, max_length, places=None):
    """Splits texts into tokens and words.

    A word is a run of characters without white space, with SentencePiece; in scripts without spaces
    between words, such as Chinese, it is a piece. With WordPiece punctuation marks are words too.

    Args:
        tokenizer: FullTokenizer.
        texts: list of n str. Special tokens in them are text.
        max_length: int, longest sequence in tokens, [CLS] and [SEP] included.
        places: list of n str, where the texts are, for messages; by default their numbers.

    Returns:
        Pieces.

    Raises:
        UserError: a text has no tokens, or too many.
    """
    ids, words, num_unknown, most = [], [], [], max_length - options.NUM_SPECIALS_OF_ONE
    for number, text in enumerate(texts):
        pieces = tokenizer.tokenize(text)
        if not 0 < len(pieces) <= most:
            place = places[number] if places else f"text {number + 1}"
            raise UserError(
                f"{place} has {len(pieces)} tokens, and 1 to {most} fit into "
                f"max_seq_length={max_length}: shorten it, split it or leave it out"
            )
        ids.append(np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32))
        if tokenizer.is_sentencepiece:
            # What follows a space that is a piece of its own belongs to the same word.
            opens = [
                before != WORD_START and (piece.startswith(WORD_START) or is_unspaced(piece[0]))
                for before, piece in itertools.pairwise(["", *pieces])
            ]
        else:
            opens = [not piece.startswith("##") for piece in pieces]
        words.append(np.cumsum(opens) - int(opens[0]))
        unknown = [piece in UNKNOWN_PIECES or piece not in tokenizer.vocab for piece in pieces]
        num_unknown.append(sum(unknown))
    return Pieces(ids, words, num_unknown, tokenizer.special_ids())


def masked_batches(pieces, method, tokens_per_batch=4096):
    """Yields sequences with one token to be predicted each, those of long texts first.

    Sequences of like length share a batch, and none is padded beyond the longest of its batch.

    Args:
        pieces: Pieces.
        method: str, of options.SCORE_METHODS: masks a token only, or the later tokens of its word
            too.
        tokens_per_batch: int, B * T at most.

    Yields:
        (int array [B], which of the m tokens is predicted; dict of int32 arrays: input_ids,
        input_mask and segment_ids [B, T], masked_lm_positions and masked_lm_ids [B, 1]).
    """
    lengths = np.array([len(ids) for ids in pieces.ids])
    firsts = np.cumsum(lengths) - lengths
    order = np.argsort(-lengths, kind="stable").tolist()
    places = ((text, place) for text in order for place in range(lengths[text]))
    for first in places:
        width = int(lengths[first[0]]) + options.NUM_SPECIALS_OF_ONE
        others = itertools.islice(places, max(0, tokens_per_batch // width - 1))
        batch = [first, *others]
        rows = [_masked(pieces, text, place, method) for text, place in batch]
        features = sequences.pack_segments(rows, [None] * len(rows), pieces.special_ids, width)
        texts, at = np.array(batch).T
        features["masked_lm_positions"] = at[:, np.newaxis] + 1
        features["masked_lm_ids"] = [[pieces.ids[text][place]] for text, place in batch]
        features = {name: np.array(values, np.int32) for name, values in features.items()}
        yield firsts[texts] + at, features


def _masked(pieces, text, place, method):
    """Ids of a text as a list, in which a token and all others that `method` names are masked."""
    ids, words = pieces.ids[text].tolist(), pieces.words[text]
    end = place + 1
    if method == "within_word_l2r":
        end = int(np.searchsorted(words, words[place], side="right"))
    ids[place:end] = [pieces.special_ids.mask] * (end - place)
    return ids


def log_probs(model, features, training=False):
    """The log-probability of each masked token that is to be predicted: float32 [B]."""
    logits = masked_text.logits(model, features, training)  # [B, 1, V]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(features["masked_lm_ids"], logits)
    return {"log_probs": -losses[:, 0]}


def total(scores):
    """Sums of scores, and the pseudo-perplexity of all their texts.

    Args:
        scores: list of dicts, as of the function `scores`.

    Returns:
        dict: `log_prob` and the counts; `pseudo_perplexity`, of a piece (Salazar et al., section
        2.3); `word_pseudo_perplexity`, of a word, which vocabularies have in common.
    """
    if not scores:
        raise UserError("no texts: a pseudo-perplexity needs at least one")
    sums = {key: sum(score[key] for score in scores) for key in KEYS}
    with np.errstate(over="ignore"):  # words of hundreds of tokens overflow
        of_piece, of_word = np.exp(-sums["log_prob"] / np.array([sums[key] for key in KEYS[1:3]]))
    return sums | {
        "pseudo_perplexity": float(of_piece),
        "word_pseudo_perplexity": float(of_word),
    }


def scores(predict, pieces, method):
    """Scores texts.

    Args:
        predict: training.steps.Predictor of `log_probs`.
        pieces: Pieces of n texts.
        method: str, of options.SCORE_METHODS.

    Returns:
        list of n dicts: `log_prob`, `num_pieces`, `num_words`, `num_unknown` and `log_probs`, a
        list of the log-probability of each token.
    """
    ends = np.cumsum([len(ids) for ids in pieces.ids], dtype=int)
    if not len(ends):
        return []
    outputs = predict(masked_batches(pieces, method), ends[-1])
    found = np.split(outputs["log_probs"], ends[:-1])
    return [
        {
            "log_prob": float(log_probs.sum(dtype=np.float64)),
            "num_pieces": len(ids),
            "num_words": int(words[-1]) + 1,
            "num_unknown": num_unknown,
            "log_probs": log_probs.tolist(),
        }
        for ids, words, num_unknown, log_probs in zip(
            pieces.ids, pieces.words, pieces.num_unknown, found, strict=True
        )
    ]
