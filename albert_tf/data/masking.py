# SPDX-License-Identifier: Apache-2.0
"""N-gram masks over whole words (paper, section 4.1)."""

import functools

import numpy as np


def word_groups(opens_word, is_special, whole_words):
    """Groups the tokens that may be masked into words.

    A piece that starts no word joins the one before it, even across [SEP] (where truncation cut a
    word), as in the original.

    Args:
        opens_word: bool array [length], whether a piece starts a word.
        is_special: bool array [length], [CLS] and [SEP]; they are never masked.
        whole_words: bool; if False, each token is a group.

    Returns:
        (positions, bounds): int array of the tokens that may be masked, and a list of offsets into
        it: group k is positions[bounds[k]:bounds[k + 1]].
    """
    positions = np.flatnonzero(~is_special)
    if not whole_words:
        return positions, list(range(len(positions) + 1))
    opens = opens_word[positions]
    opens[:1] = True  # there is no word before it to join
    return positions, [*np.flatnonzero(opens).tolist(), len(positions)]


def choose_ngrams(bounds, covered, budget, length_cdf, rng):
    """Chooses random n-grams of words until a number of tokens is reached (paper, section 4.1).

    The words are visited in random order. From each, an n-gram of random n begins: as many words
    fewer as fit into what is left to choose, and none at all if even one word does not fit, or if
    some of it is covered. Near the end of the text, n-grams are shorter than n.

    Args:
        bounds: list of int, offsets of the words, from `word_groups`.
        covered: bytearray, 1 for tokens already taken; chosen ones are marked.
        budget: int, tokens to choose at most.
        length_cdf: float array [n], distribution function of n-gram lengths.
        rng: np.random.Generator.

    Returns:
        list of int, the chosen tokens, in no order.
    """
    num_words = len(bounds) - 1
    bounds = bounds + bounds[-1:] * len(length_cdf)
    lengths = 1 + np.searchsorted(length_cdf, rng.random(num_words), side="right")
    chosen = []
    for first, n in zip(rng.permutation(num_words).tolist(), lengths.tolist(), strict=True):
        left = budget - len(chosen)
        if left == 0:
            break
        begin = bounds[first]
        while n > 1 and bounds[first + n] - begin > left:
            n -= 1
        end = bounds[first + n]
        if end - begin > left or any(covered[begin:end]):
            continue
        covered[begin:end] = b"\1" * (end - begin)
        chosen.extend(range(begin, end))
    return chosen


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


def masked(ids, opens_word, is_special, settings, mask_id, vocab_size, rng):
    """Masks, and with `do_permutation` also shuffles, tokens of one sequence.

    Args:
        ids: int array [length].
        opens_word: bool array [length], whether a piece starts a word.
        is_special: bool array [length].
        settings: pretraining.Settings.
        mask_id: int.
        vocab_size: int.
        rng: np.random.Generator.

    Returns:
        (new ids [length], positions to predict, ascending).
    """
    if settings.masked_lm_prob == 0:
        return ids, np.zeros(0, np.int64)
    positions, bounds = word_groups(opens_word, is_special, settings.do_whole_word_mask)
    covered = bytearray(len(positions))
    budget = settings.num_to_predict(len(ids))
    choose = functools.partial(
        choose_ngrams, bounds, covered, budget, settings.ngram_length_cdf, rng
    )
    new_ids = ids.copy()
    to_predict = positions[choose()]
    mask_tokens(new_ids, to_predict, mask_id, vocab_size, rng)
    if settings.do_permutation:
        shuffled = positions[choose()]
        new_ids[shuffled] = rng.permutation(new_ids[shuffled])
        to_predict = np.concatenate([to_predict, shuffled])
    return new_ids, np.sort(to_predict)
