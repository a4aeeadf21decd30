# SPDX-License-Identifier: Apache-2.0
"""N-gram masks made while records are read, by TensorFlow operations (paper, section 4.1).

The algorithm and the distribution of the masks are the same as in `corpus.instances`. The random
numbers of a record depend only on a seed, its content and the epoch. So a record has different
masks in each epoch, which do not depend on the process or batch that reads it, or on resuming.

Shapes: B sequences, T tokens, P predictions per sequence, w words of all sequences together.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.options import Instances, NGrams, options_of
from albert_tf.text.tokenization import SpecialIds

EVALUATION = -1  # in place of the epoch: so the masks are the same every time


@dataclasses.dataclass(frozen=True)
class Masking:
    """Settings of masking, and a callable that masks a batch.

    Attributes:
        settings: options.Instances; only the options that are named in `described` are used.
        special_ids: SpecialIds of the records' vocabulary, with [MASK].
        vocab_size: int, of the same vocabulary; random pieces are drawn from all of it.
    """

    settings: Instances
    special_ids: SpecialIds
    vocab_size: int

    @property
    def described(self):
        """The settings that are used: dict for JSON."""
        names = [field.name for field in options_of(NGrams)]
        names += ["masked_lm_prob", "max_predictions_per_seq"]
        described = {name: getattr(self.settings, name) for name in names}
        for name in ("masked_lm_keep_prob", "masked_lm_random_prob"):
            if described[name] == getattr(Instances, name):
                del described[name]  # records of earlier versions do not have it
        return described

    def __call__(self, features, keys):
        """Masks a batch.

        Args:
            features: dict with int32 [B, T]: input_ids, input_mask and, to mask whole words,
                token_boundary.
            keys: int64 tensor [B, 2], from `keys_of`.

        Returns:
            dict: `features` with masked input_ids, without token_boundary, and with
            masked_lm_positions and masked_lm_ids int32 [B, P], masked_lm_weights float32 [B, P].
        """
        settings = self.settings
        ids, mask = features["input_ids"], features["input_mask"]
        length, predictions = ids.shape[1], settings.max_predictions_per_seq
        is_special = (ids == self.special_ids.cls) | (ids == self.special_ids.sep)
        may_mask = (mask > 0) & ~is_special
        opens_word = features["token_boundary"] > 0 if settings.do_whole_word_mask else True
        words = _word_groups(opens_word, may_mask)
        sizes = [length, length, predictions, predictions]
        draws = _uniform(keys, sum(sizes))
        order_draws, length_draws, kinds, pieces = tf.split(draws, sizes, axis=1)
        lengths = tf.reduce_sum(mask, axis=1)
        budgets = num_to_predict(np.arange(length + 1), settings).astype(np.int32)
        budgets = tf.gather(budgets, lengths)
        cdf = length_cdf(settings)
        drawn = 1 + tf.searchsorted(cdf, tf.reshape(length_draws, [-1]), side="right")
        drawn = tf.reshape(drawn, tf.shape(length_draws))
        chosen = _choose_ngrams(words, budgets, order_draws, drawn, min(settings.ngram, length))
        positions, is_real = _first_places(chosen, predictions)
        labels = tf.where(is_real, tf.gather(ids, positions, batch_dims=1), 0)
        replaced = self._replacements(labels, kinds, pieces)
        others = {name: v for name, v in features.items() if name != "token_boundary"}
        return others | {
            "input_ids": _replace(ids, positions, is_real, replaced),
            "masked_lm_positions": positions,
            "masked_lm_ids": labels,
            "masked_lm_weights": tf.cast(is_real, tf.float32),
        }

    def _replacements(self, labels, kinds, pieces):
        """Replacements of pieces [B, P]: [MASK], any piece or themselves, as `mask_tokens`."""
        pieces = tf.cast(pieces * self.vocab_size, tf.int32)
        keep_until = 1 - self.settings.masked_lm_random_prob
        others = tf.where(kinds < keep_until, labels, pieces)
        masks = kinds < keep_until - self.settings.masked_lm_keep_prob
        return tf.where(masks, self.special_ids.mask, others)


def keys_of(serialized, seed, epochs):
    """Keys of the random numbers of records: int64 tensor [B, 2].

    Args:
        serialized: string tensor [B], the records.
        seed: int from 0 to 2**63 - 1.
        epochs: int64 tensor [B] or int; EVALUATION in an evaluation.
    """
    contents = tf.strings.to_hash_bucket_fast(serialized, 2**63 - 1)
    return tf.stack(
        [tf.fill(tf.shape(contents), tf.constant(seed, tf.int64)), contents + epochs], 1
    )


# === Amounts, also for masks that are made while records are written ===


def num_to_predict(length, settings):
    """Number of tokens to mask in sequences. Halves are rounded to even, as in the original.

    Args:
        length: int or int array, number of tokens of the sequences, including special ones.
        settings: options.Instances.
    """
    wanted = np.rint(np.asarray(length) * settings.masked_lm_prob).astype(np.int64)
    return np.clip(wanted, 1, settings.max_predictions_per_seq)


def say_limit(settings, flag):
    """Prints that long sequences get fewer masks than a flag (str, its name) asks for, if so."""
    share, most = settings.masked_lm_prob, settings.max_predictions_per_seq
    if most < (wanted := round(share * settings.max_seq_length)):
        print(
            f"--max_predictions_per_seq={most} allows fewer masks than --{flag}={share}: give "
            f"{wanted} for all of them."
        )


def length_cdf(settings):
    """Distribution function of n-gram lengths, float array: p(n) ~ 1/n, or reversed.

    Args:
        settings: options.Instances.
    """
    weights = 1.0 / np.arange(1, settings.ngram + 1)
    cdf = np.cumsum(weights if settings.favor_shorter_ngram else weights[::-1])
    return cdf / cdf[-1]


# === Words ===


class _WordGroups(NamedTuple):
    """The words of all sequences, one after the other; see `corpus.instances.WordGroups`.

    Attributes:
        number: int32 tensor [B, T], the word of each token; -1 if the token may not be masked.
        bounds: int32 tensor [w + 1]; word k has the tokens from bounds[k] to bounds[k + 1] - 1,
            where only tokens that may be masked are counted.
        word_of: int32 tensor [tokens that may be masked + 1], the word of each; w at the end.
        firsts, stops: int32 tensors [B]; a sequence has the words firsts to stops - 1.
    """

    number: tf.Tensor
    bounds: tf.Tensor
    word_of: tf.Tensor
    firsts: tf.Tensor
    stops: tf.Tensor


def _word_groups(opens_word, may_mask):
    """Groups tokens into _WordGroups, as `corpus.instances.word_groups`.

    Args:
        opens_word: bool tensor [B, T], whether a token starts a word; or True, if each does.
        may_mask: bool tensor [B, T], False for [CLS], [SEP] and padding.
    """
    count = tf.cast(may_mask, tf.int32)
    opens = may_mask & (tf.cumsum(count, axis=1) == 1)  # no word before this piece can be joined
    opens |= may_mask & opens_word
    flat_opens, flat_may_mask = tf.reshape(opens, [-1]), tf.reshape(may_mask, [-1])
    number = tf.cumsum(tf.cast(flat_opens, tf.int32)) - 1
    place = tf.cumsum(tf.reshape(count, [-1])) - 1
    stops = tf.cumsum(tf.reduce_sum(tf.cast(opens, tf.int32), axis=1))
    return _WordGroups(
        number=tf.where(may_mask, tf.reshape(number, tf.shape(may_mask)), -1),
        bounds=tf.concat([place[flat_opens], [tf.reduce_sum(count)]], 0),
        word_of=tf.concat([number[flat_may_mask], stops[-1:]], 0),
        firsts=tf.concat([[0], stops[:-1]], 0),
        stops=stops,
    )


def _choose_ngrams(words, budgets, order_draws, ngram_lengths, longest_ngram):
    """Chooses n-grams until a number of tokens is reached, as `corpus.instances.choose_ngrams`.

    Args:
        words: _WordGroups.
        budgets: int32 tensor [B], maximum number of tokens to choose in each sequence.
        order_draws: float64 tensor [B, T]; words are visited in ascending order of these numbers.
        ngram_lengths: int32 tensor [B, T], n-gram lengths, in the order in which words are visited.
        longest_ngram: int, longest n-gram in words.

    Returns:
        bool tensor [B, T], the chosen tokens.
    """
    counts = words.stops - words.firsts
    is_word = tf.range(order_draws.shape[1]) < counts[:, tf.newaxis]
    order = tf.argsort(tf.where(is_word, order_draws, 2.0), axis=1, stable=True)
    visits = tf.transpose(words.firsts[:, tf.newaxis] + order)  # [T, B]
    lengths = tf.transpose(ngram_lengths)

    offsets = tf.range(longest_ngram)
    nowhere = tf.size(words.bounds) - 1  # a slot that belongs to no word

    def is_left(step, left, _):
        return tf.reduce_any((left > 0) & (step < counts))

    def visit(step, left, chosen):
        # A sequence with no word left to visit takes any word as a stand-in.
        first = tf.maximum(tf.minimum(visits[step], words.stops - 1), 0)
        begin = tf.gather(words.bounds, first)
        fitting = tf.gather(words.word_of, tf.minimum(begin + left, words.bounds[-1]))
        end = tf.minimum(tf.minimum(first + lengths[step], words.stops), fitting)
        end = tf.maximum(end, first + 1)
        size = tf.gather(words.bounds, end) - begin
        inside = tf.minimum(first[:, tf.newaxis] + offsets, end[:, tf.newaxis] - 1)
        is_free = ~tf.reduce_any(tf.gather(chosen, inside), axis=1)
        takes = (step < counts) & (size <= left) & is_free
        taken = tf.where(takes[:, tf.newaxis], inside, nowhere)
        chosen = tf.tensor_scatter_nd_update(
            chosen, taken[..., tf.newaxis], tf.ones_like(taken, tf.bool)
        )
        return step + 1, left - tf.where(takes, size, 0), chosen

    nothing = tf.zeros_like(words.bounds, tf.bool)
    chosen = tf.while_loop(is_left, visit, (tf.constant(0), budgets, nothing))[2]
    return tf.gather(chosen, tf.maximum(words.number, 0)) & (words.number >= 0)


# === Tokens ===


def _uniform(keys, count):
    """Random numbers in [0, 1), one row for each key: float64 tensor [B, count]."""

    def draw(key):
        # The algorithm is named, so that devices and versions of TensorFlow draw the same.
        return tf.random.stateless_uniform([count], key, dtype=tf.float64, alg="philox")

    return tf.map_fn(draw, keys, fn_output_signature=tf.TensorSpec([count], tf.float64))


def _first_places(chosen, count):
    """Ascending positions of chosen tokens (int32 [B, count]), and which exist (bool)."""
    length = chosen.shape[1]
    ranks = tf.where(chosen, tf.range(length, 0, -1), 0)
    found = tf.math.top_k(ranks, min(count, length)).values
    found = tf.pad(found, [[0, 0], [0, max(0, count - length)]])
    return tf.where(found > 0, length - found, 0), found > 0


def _replace(ids, positions, is_real, replaced):
    """Replaces tokens of ids [B, T] at the positions [B, P] that are real (bool [B, P])."""
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, tf.newaxis], tf.shape(positions))
    places = tf.stack([rows[is_real], positions[is_real]], axis=1)
    return tf.tensor_scatter_nd_update(ids, places, replaced[is_real])
