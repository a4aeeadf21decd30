# SPDX-License-Identifier: Apache-2.0
"""What holds for the mask of any sequence: Hypothesis makes the sequences."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data import masking
from albert_tf.data.pretraining import Settings
from albert_tf.text.tokenization import SpecialIds

SIZE = 1000
SPECIAL = SpecialIds(pad=0, cls=2, sep=3, mask=4)


@st.composite
def sequences(draw):
    """(ids, starts, is_special) of [CLS] A [SEP] B [SEP] with words of one to several pieces."""
    lengths = [draw(st.integers(1, 40)) for _ in range(2)]
    ids, is_special = [SPECIAL.cls], [True]
    for length in lengths:
        pieces = st.integers(5, SIZE - 1)
        ids += [*draw(st.lists(pieces, min_size=length, max_size=length)), SPECIAL.sep]
        is_special += [False] * length + [True]
    starts = draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
    return np.array(ids), np.array(starts), np.array(is_special)


SETTINGS = st.builds(
    Settings,
    max_predictions_per_seq=st.integers(1, 30),
    masked_lm_prob=st.floats(0.01, 1),
    ngram=st.integers(1, 5),
    favor_shorter_ngram=st.booleans(),
    do_whole_word_mask=st.booleans(),
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(sequences(), SETTINGS, st.integers(0, 2**32))
def test_masks(sequence, options, seed):
    ids, starts, is_special = sequence
    before = ids.copy()
    rng = np.random.default_rng(seed)
    new, positions = masking.masked(ids, starts, is_special, options, SPECIAL.mask, SIZE, rng)
    np.testing.assert_array_equal(ids, before)  # the labels are read from it: they restore the text
    assert len(positions) <= options.num_to_predict(len(ids))
    assert np.all(np.diff(positions) > 0)  # sorted, and each position once
    assert not is_special[positions].any()
    kept = np.ones(len(ids), bool)
    kept[positions] = False
    np.testing.assert_array_equal(new[kept], ids[kept])
    assert new.min() >= 0 and new.max() < SIZE


@settings(derandomize=True, deadline=None, max_examples=200)
@given(sequences(), SETTINGS, st.integers(0, 2**32))
def test_words_are_masked_whole(sequence, options, seed):
    _, starts, is_special = sequence
    positions, bounds = masking.word_groups(starts, is_special, whole_words=True)
    np.testing.assert_array_equal(positions, np.flatnonzero(~is_special))
    covered = bytearray(len(positions))
    budget = options.num_to_predict(len(starts))
    rng = np.random.default_rng(seed)
    chosen = set(masking.choose_ngrams(bounds, covered, budget, options.ngram_length_cdf, rng))
    assert {index for index, is_taken in enumerate(covered) if is_taken} == chosen
    for begin, end in itertools.pairwise(bounds):
        assert chosen >= set(range(begin, end)) or chosen.isdisjoint(range(begin, end))
        assert begin == 0 or starts[positions[begin]]
    # If nothing is masked, no word fits into the budget.
    assert chosen or min(np.diff(bounds)) > budget
