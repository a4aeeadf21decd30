# SPDX-License-Identifier: Apache-2.0
"""Pre-training data: documents -> segments -> n-gram masks -> arrays of records.

Paper: section 3.1 (sentence-order prediction) and section 4.1 (n-gram masking). A pass over the
documents is planned first: four offsets and a kind for each instance. Instances are then masked in
blocks. Each block of documents of a pass, and each block of instances, has its own generator
derived from the seed, so the records do not depend on which process makes them, or when.

The sequences of a block are the rows of arrays [n, T]. For masking, the tokens and words of all
rows are joined into flat arrays, and each step of choosing n-grams is done for all rows at once.
"""

import functools
from typing import NamedTuple

import numpy as np

from albert_tf import options
from albert_tf.corpus import segment_pairs
from albert_tf.records import graph_masking, schemas

_PAIR_DRAWS, ORDER_DRAW, INSTANCE_DRAWS = range(3)  # streams of random numbers
_DOCUMENTS_PER_BLOCK = 1024


class Settings(options.Instances):
    """The options of the records, and values derived from them."""

    @property
    def num_specials(self):
        """Number of special tokens of an instance: 3 with two segments, 2 with one."""
        return options.NUM_SPECIALS_OF_ONE if self.pairs == "none" else options.NUM_SPECIALS

    @property
    def max_pair_length(self):
        """Maximum length of A and B together, in tokens."""
        return self.max_seq_length - self.num_specials

    @property
    def wanted_share(self):
        """Least share of the tokens to predict (float), if whole words are; 0 if tokens are."""
        if not self.do_whole_word_mask:
            return 0.0
        return min(self.masked_lm_prob, self.max_predictions_per_seq / self.max_seq_length)

    @functools.cached_property
    def schema(self):
        """Schema of the records, with twice the predictions if tokens are permuted too."""
        masked_lists = 2 if self.do_permutation else 1
        schema = schemas.pretraining_schema(
            self.max_seq_length, masked_lists * self.max_predictions_per_seq
        )
        if self.pairs == "none":
            del schema[schemas.ORDER_LABEL]
        return schema

    def seed_sequence(self, *key):
        """np.random.SeedSequence for a key of numbers; other keys give independent sequences."""
        return np.random.SeedSequence(self.random_seed, spawn_key=key)


def num_blocks(corpus):
    """Number of the blocks of documents whose pairs are drawn together."""
    return -(-len(corpus.documents) // _DOCUMENTS_PER_BLOCK)


def plan(corpus, settings, blocks):
    """Yields the pairs of some blocks of documents.

    Args:
        corpus: corpus_files.Corpus.
        settings: Settings.
        blocks: range, numbers of blocks; the `num_blocks` of each pass are counted pass by pass.

    Yields:
        (int64 array [pairs, 5], as in `segment_pairs`; int, number of tokens cut).
    """
    for number in blocks:
        pass_index, block = divmod(number, num_blocks(corpus))
        rng = np.random.default_rng(settings.seed_sequence(_PAIR_DRAWS, pass_index, block))
        first = block * _DOCUMENTS_PER_BLOCK
        stop = min(first + _DOCUMENTS_PER_BLOCK, len(corpus.documents))
        for whole in segment_pairs.block_pairs(corpus, range(first, stop), settings, rng):
            pairs = segment_pairs.truncate(whole, settings.max_pair_length, rng)
            yield pairs, int(_num_tokens(whole).sum() - _num_tokens(pairs).sum())
        corpus.release()


def _num_tokens(pairs):
    a_start, a_end, b_start, b_end, _ = pairs.T
    return a_end - a_start + b_end - b_start


# === Masks over whole words (paper, section 4.1) ===


class WordGroups(NamedTuple):
    """The words of n sequences, one row after the other.

    Attributes:
        positions: int array [m], the tokens that may be masked, as indices into flat [n * T].
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

    A token that does not start a word joins the token before it, even across [SEP] (where
    truncation cut a word), as in the original.

    Args:
        opens_word: bool array [n, T], whether a token starts a word.
        may_mask: bool array [n, T], False for [CLS], [SEP] and padding.
        whole_words: bool; if False, each token is a group.

    Returns:
        WordGroups.
    """
    n, length = may_mask.shape
    positions = np.flatnonzero(may_mask)
    row_ends = np.searchsorted(positions, np.arange(n + 1) * length)
    opens = opens_word.ravel()[positions] if whole_words else np.ones(len(positions), bool)
    opens[row_ends[:-1][row_ends[:-1] < row_ends[1:]]] = True  # it has no word to join
    bounds = np.append(np.flatnonzero(opens), len(positions))
    word_of = np.append(np.cumsum(opens) - 1, len(bounds) - 1)
    return WordGroups(positions, bounds, word_of, word_of[row_ends])


def choose_ngrams(words, covered, budgets, length_cdf, rng):
    """Chooses random n-grams of words until a number of tokens is reached (paper, section 4.1).

    The words are visited in random order, and an n-gram of random length n begins at each of them.
    It is shortened to the words that fit into the rest of the budget, and is skipped if not even
    one word fits or if part of it is covered. Near the end of the text, it has fewer than n words.

    Args:
        words: WordGroups of n sequences.
        covered: bool array [w], words that are already taken; the chosen words are added to it.
        budgets: int array [n], maximum number of tokens to choose in each sequence.
        length_cdf: float array, distribution function of n-gram lengths.
        rng: np.random.Generator.

    Returns:
        bool array [w], the chosen words.
    """
    chosen = np.zeros(len(covered), bool)
    order = np.arange(len(covered))  # in each row, the words before the current step are visited
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
        offsets = np.arange((end - first).max())
        inside = np.minimum(first[:, np.newaxis] + offsets, end[:, np.newaxis] - 1)
        takes = (size <= left[rows]) & ~covered[inside].any(axis=1)
        left[rows[takes]] -= size[takes]
        covered[inside[takes]] = chosen[inside[takes]] = True
        step += 1


def mask_tokens(ids, positions, settings, mask_id, vocab_size, rng):
    """Replaces tokens in place: 80% by [MASK], 10% by any piece, 10% by themselves (as BERT).

    `masked_lm_keep_prob` and `masked_lm_random_prob` change these shares.

    Args:
        ids: int array [length].
        positions: int array of the tokens to predict.
        settings: options.Instances.
        mask_id: int.
        vocab_size: int; random pieces are drawn from all pieces, including special ones.
        rng: np.random.Generator.
    """
    draws = rng.random(len(positions))
    keep_until = 1 - settings.masked_lm_random_prob
    ids[positions[draws < keep_until - settings.masked_lm_keep_prob]] = mask_id
    random = positions[draws >= keep_until]
    ids[random] = rng.integers(vocab_size, size=len(random))


def masked(ids, lengths, opens_word, may_mask, settings, mask_id, vocab_size, rng):
    """Masks tokens of n sequences, and with `do_permutation` shuffles other tokens.

    Args:
        ids: int array [n, T].
        lengths: int array [n], tokens without padding.
        opens_word: bool array [n, T], whether a token starts a word.
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
    mask_tokens(flat, to_predict, settings, mask_id, vocab_size, rng)
    predicted.ravel()[to_predict] = True
    if settings.do_permutation:
        shuffled = choose()
        order = np.lexsort((rng.random(len(shuffled)), shuffled // ids.shape[1]))
        flat[shuffled] = flat[shuffled][order]
        predicted.ravel()[shuffled] = True
    return new_ids, predicted


# === Records ===


def instances(corpus, pairs, settings, special_ids, vocab_size, rng):
    """Arrays of records: [CLS] A [SEP] B [SEP] or [CLS] A [SEP], masked and padded with zeros.

    Args:
        corpus: corpus_files.Corpus.
        pairs: int64 array [n, 5], as in `segment_pairs`.
        settings: Settings.
        special_ids: SpecialIds of the tokenizer, with [MASK].
        vocab_size: int.
        rng: np.random.Generator.

    Returns:
        dict from feature name to array [n, length], as in `settings.schema`.
    """
    shape = len(pairs), settings.max_seq_length
    ids, opens_word = np.zeros(shape, np.int32), np.zeros(shape, bool)
    for row, (a, a_end, b, b_end, _) in enumerate(pairs.tolist()):
        middle = 1 + a_end - a
        end = middle + 1 + b_end - b
        ids[row, 1:middle] = corpus.ids[a:a_end]
        ids[row, middle + 1 : end] = corpus.ids[b:b_end]
        opens_word[row, 1:middle] = corpus.opens_word[a:a_end]
        opens_word[row, middle + 1 : end] = corpus.opens_word[b:b_end]
    rows, places = np.arange(len(pairs)), np.arange(settings.max_seq_length)
    middles = 1 + pairs[:, 1] - pairs[:, 0]
    lengths = settings.num_specials + _num_tokens(pairs)
    ids[:, 0] = special_ids.cls
    ids[rows, middles] = ids[rows, lengths - 1] = special_ids.sep
    is_token = places < lengths[:, np.newaxis]
    is_special = ((ids == special_ids.cls) | (ids == special_ids.sep)) & is_token

    may_mask = is_token & ~is_special
    new_ids, predicted = masked(
        ids, lengths, opens_word, may_mask, settings, special_ids.mask, vocab_size, rng
    )
    row, position = np.nonzero(predicted)
    counts = np.bincount(row, minlength=len(pairs))
    place = segment_pairs.numbers_within(counts)
    lists = np.zeros((3, len(pairs), settings.schema["masked_lm_ids"].length), np.int32)
    lists[:, row, place] = np.stack([position, ids[row, position], np.ones_like(row)])
    arrays = {
        "input_ids": new_ids,
        "input_mask": is_token,
        "segment_ids": is_token & (places > middles[:, np.newaxis]),
        "token_boundary": opens_word | is_special,
        "masked_lm_positions": lists[0],
        "masked_lm_ids": lists[1],
        "masked_lm_weights": lists[2].astype(np.float32),
        schemas.ORDER_LABEL: pairs[:, 4:] != segment_pairs.IN_ORDER,
    }
    return {name: arrays[name] for name in settings.schema}
