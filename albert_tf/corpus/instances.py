# SPDX-License-Identifier: Apache-2.0
"""Pre-training data: documents -> segment pairs -> n-gram masks -> arrays of records.

Paper: section 3.1 (sentence-order prediction) and section 4.1 (n-gram masking). A pass over the
documents is planned first: four offsets and a kind for each instance. Instances are then masked in
blocks. Each block of documents of a pass, and each block of instances, has its own generator
derived from the seed, so the records are the same whichever process makes them, and when.
"""

import functools

import numpy as np

from albert_tf import options
from albert_tf.corpus import masking, segment_pairs
from albert_tf.records import schemas
from albert_tf.text.sequences import NUM_SPECIALS

_PAIR_DRAWS, ORDER_DRAW, INSTANCE_DRAWS = range(3)  # streams of random numbers
_DOCUMENTS_PER_BLOCK = 1024


class Settings(options.Instances):
    """The options of the records, and values derived from them."""

    @property
    def max_pair_length(self):
        """Longest A and B together, in tokens."""
        return self.max_seq_length - NUM_SPECIALS

    @functools.cached_property
    def schema(self):
        """Schema of the records, with twice the predictions if tokens are permuted too."""
        masked_lists = 2 if self.do_permutation else 1
        return schemas.pretraining_schema(
            self.max_seq_length, masked_lists * self.max_predictions_per_seq
        )

    def seed_sequence(self, *key):
        """np.random.SeedSequence of a key of numbers, independent of those of other keys."""
        return np.random.SeedSequence(self.random_seed, spawn_key=key)


def num_blocks(corpus):
    """Number of the blocks of documents whose pairs are drawn together."""
    return -(-corpus.num_documents // _DOCUMENTS_PER_BLOCK)


def plan(corpus, settings, blocks):
    """Yields the pairs of some blocks of documents.

    Args:
        corpus: corpus_files.Corpus.
        settings: Settings.
        blocks: range; the n-th of all `num_blocks` of all passes, counted pass by pass.

    Yields:
        (int64 array [pairs, 5] of the columns of `segment_pairs.Pair`, int, tokens cut off them).
    """
    for number in blocks:
        pass_index, block = divmod(number, num_blocks(corpus))
        rng = np.random.default_rng(settings.seed_sequence(_PAIR_DRAWS, pass_index, block))
        first = block * _DOCUMENTS_PER_BLOCK
        stop = min(first + _DOCUMENTS_PER_BLOCK, corpus.num_documents)
        for whole in segment_pairs.block_pairs(corpus, range(first, stop), settings, rng):
            pairs = segment_pairs.truncate(whole, settings.max_pair_length, rng)
            yield pairs, int(_num_tokens(whole).sum() - _num_tokens(pairs).sum())
        corpus.release()


def _num_tokens(pairs):
    a_start, a_end, b_start, b_end, _ = pairs.T
    return a_end - a_start + b_end - b_start


# === Records ===


def instances(corpus, pairs, settings, special_ids, vocab_size, rng):
    """Arrays of records: [CLS] A [SEP] B [SEP], masked and padded with zeros.

    Args:
        corpus: corpus_files.Corpus.
        pairs: int64 array [n, 5], the columns of `segment_pairs.Pair`.
        settings: Settings.
        special_ids: SpecialIds of the tokenizer, with [MASK].
        vocab_size: int.
        rng: np.random.Generator.

    Returns:
        dict from feature name to array [n, length], as `settings.schema` says.
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
    lengths = NUM_SPECIALS + _num_tokens(pairs)
    ids[:, 0] = special_ids.cls
    ids[rows, middles] = ids[rows, lengths - 1] = special_ids.sep
    is_token = places < lengths[:, np.newaxis]
    is_special = ((ids == special_ids.cls) | (ids == special_ids.sep)) & is_token

    new_ids, predicted = masking.masked(
        ids,
        lengths,
        opens_word,
        is_token & ~is_special,
        settings,
        special_ids.mask,
        vocab_size,
        rng,
    )
    row, position = np.nonzero(predicted)
    counts = np.bincount(row, minlength=len(pairs))
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    lists = np.zeros((3, len(pairs), settings.schema["masked_lm_ids"].length), np.int32)
    lists[:, row, place] = np.stack([position, ids[row, position], np.ones_like(row)])
    return {
        "input_ids": new_ids,
        "input_mask": is_token,
        "segment_ids": is_token & (places > middles[:, np.newaxis]),
        "token_boundary": opens_word | is_special,
        "masked_lm_positions": lists[0],
        "masked_lm_ids": lists[1],
        "masked_lm_weights": lists[2].astype(np.float32),
        "next_sentence_labels": pairs[:, 4:] != segment_pairs.IN_ORDER,
    }
