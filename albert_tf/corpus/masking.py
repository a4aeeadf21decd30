# SPDX-License-Identifier: Apache-2.0
"""N-gram masks over whole words (paper, section 4.1), for a block of sequences at once.

Sequences are the rows of arrays [n, T]. Tokens and words of all rows lie one after the other in
flat arrays, and each step of the choice of n-grams is made in all rows together.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.records import graph_masking


class Words(NamedTuple):
    """The words of n sequences, one row after the other.

    Attributes:
        positions: int array [m], the tokens that may be masked, as indices into the flat [n * T].
        bounds: int array [w + 1]; word k is positions[bounds[k]:bounds[k + 1]].
        word_of: int array [m + 1], the word of each of `positions`; w at the end.
        firsts: int array [n + 1]; the words of row i are firsts[i] to firsts[i + 1] - 1.
    """

    positions: np.ndarray
    bounds: np.ndarray
    word_of: np.ndarray
    firsts: np.ndarray


def word_groups(opens_word, may_mask, whole_words):
    """Groups the tokens that may be masked into words.

    A piece that starts no word joins the one before it, even across [SEP] (where truncation cut a
    word), as in the original.

    Args:
        opens_word: bool array [n, T], whether a piece starts a word.
        may_mask: bool array [n, T], False for [CLS], [SEP] and padding.
        whole_words: bool; if False, each token is a group.

    Returns:
        Words.
    """
    n, length = may_mask.shape
    positions = np.flatnonzero(may_mask)
    row_ends = np.searchsorted(positions, np.arange(n + 1) * length)
    opens = opens_word.ravel()[positions] if whole_words else np.ones(len(positions), bool)
    opens[row_ends[:-1][row_ends[:-1] < row_ends[1:]]] = True  # there is no word before to join
    bounds = np.append(np.flatnonzero(opens), len(positions))
    word_of = np.append(np.cumsum(opens) - 1, len(bounds) - 1)
    return Words(positions, bounds, word_of, word_of[row_ends])


def choose_ngrams(words, covered, budgets, length_cdf, rng):
    """Chooses random n-grams of words until a number of tokens is reached (paper, section 4.1).

    The words are visited in random order, and at each begins an n-gram of random n. It is shortened
    to the words that fit into the rest of the budget, and is skipped if not even one word fits or
    if part of it is covered. Near the end of the text, n-grams are shorter than n.

    Args:
        words: Words of n sequences.
        covered: bool array [w], words already taken; chosen ones are marked.
        budgets: int array [n], tokens to choose at most.
        length_cdf: float array, distribution function of n-gram lengths.
        rng: np.random.Generator.

    Returns:
        bool array [w], the chosen words.
    """
    chosen = np.zeros(len(covered), bool)
    order = np.arange(len(covered))  # of a row, those before the current step are visited
    step, left, rows = 0, budgets.copy(), np.arange(len(budgets))
    while True:
        rows = rows[(left[rows] > 0) & (words.firsts[rows] + step < words.firsts[rows + 1])]
        if not len(rows):
            return chosen
        next_word, stop = words.firsts[rows] + step, words.firsts[rows + 1]
        draws = rng.random((2, len(rows)))
        picked = next_word + (draws[0] * (stop - next_word)).astype(np.int64)
        first = order[picked]
        order[picked] = order[next_word]
        n = 1 + np.searchsorted(length_cdf, draws[1], side="right")
        begin = words.bounds[first]
        fitting_end = words.word_of[np.minimum(begin + left[rows], words.bounds[stop])]
        end = np.maximum(np.minimum(np.minimum(first + n, stop), fitting_end), first + 1)
        size = words.bounds[end] - begin
        takes = size <= left[rows]
        for offset in range((end - first).max()):
            takes &= ~(covered[np.minimum(first + offset, end - 1)])
        left[rows[takes]] -= size[takes]
        first, end = first[takes], end[takes]
        for offset in range((end - first).max(initial=0)):
            taken = np.minimum(first + offset, end - 1)
            covered[taken] = chosen[taken] = True
        step += 1


def mask_tokens(ids, positions, mask_id, vocab_size, rng):
    """Replaces tokens in place: 80% by [MASK], 10% by any piece, 10% by themselves (as BERT).

    Args:
        ids: int array [length].
        positions: int array of the tokens to predict.
        mask_id: int.
        vocab_size: int; a random piece may be any, special ones too.
        rng: np.random.Generator.
    """
    draws = rng.random(len(positions))
    ids[positions[draws < 0.8]] = mask_id
    random = positions[draws >= 0.9]
    ids[random] = rng.integers(vocab_size, size=len(random))


def masked(ids, lengths, opens_word, may_mask, settings, mask_id, vocab_size, rng):
    """Masks, and with `do_permutation` also shuffles, tokens of n sequences.

    Args:
        ids: int array [n, T].
        lengths: int array [n], tokens without padding.
        opens_word: bool array [n, T], whether a piece starts a word.
        may_mask: bool array [n, T], False for [CLS], [SEP] and padding.
        settings: instances.Settings.
        mask_id: int.
        vocab_size: int.
        rng: np.random.Generator.

    Returns:
        (new ids [n, T], bool array [n, T] of the positions to predict).
    """
    new_ids, predicted = ids.copy(), np.zeros(ids.shape, bool)
    if settings.masked_lm_prob == 0:
        return new_ids, predicted
    words = word_groups(opens_word, may_mask, settings.do_whole_word_mask)
    covered = np.zeros(len(words.bounds) - 1, bool)
    budgets = graph_masking.num_to_predict(lengths, settings)
    flat, length_cdf = new_ids.ravel(), graph_masking.length_cdf(settings)

    def choose():
        chosen = choose_ngrams(words, covered, budgets, length_cdf, rng)
        return words.positions[chosen[words.word_of[:-1]]]

    to_predict = choose()
    mask_tokens(flat, to_predict, mask_id, vocab_size, rng)
    predicted.ravel()[to_predict] = True
    if settings.do_permutation:
        shuffled = choose()
        order = np.lexsort((rng.random(len(shuffled)), shuffled // ids.shape[1]))
        flat[shuffled] = flat[shuffled][order]
        predicted.ravel()[shuffled] = True
    return new_ids, predicted
