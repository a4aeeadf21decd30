# SPDX-License-Identifier: Apache-2.0
"""Properties of the mask of any sequence: Hypothesis makes the sequences."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.corpus import instances
from albert_tf.corpus.instances import Settings
from albert_tf.records import graph_masking
from albert_tf.text.tokenization import SpecialIds

SIZE = 1000
SPECIAL = SpecialIds(pad=0, cls=2, sep=3, mask=4)


@st.composite
def batches(draw):
    """Rows of [CLS] A [SEP] B [SEP] with words of one to several pieces, and padding."""
    rows = []
    for _ in range(draw(st.integers(1, 4))):
        ids = [SPECIAL.cls]
        for _ in range(2):
            ids += [*draw(st.lists(st.integers(5, SIZE - 1), min_size=1, max_size=40)), SPECIAL.sep]
        rows.append(ids)
    lengths = np.array([len(row) for row in rows])
    length = lengths.max() + draw(st.integers(0, 3))
    ids = np.array([row + [SPECIAL.pad] * (length - len(row)) for row in rows])
    starts = np.array(draw(st.lists(st.booleans(), min_size=ids.size, max_size=ids.size)))
    return ids, lengths, starts.reshape(ids.shape), ids >= 5


SETTINGS = st.builds(
    Settings,
    max_predictions_per_seq=st.integers(1, 30),
    masked_lm_prob=st.floats(0.01, 1),
    ngram=st.integers(1, 5),
    favor_shorter_ngram=st.booleans(),
    do_whole_word_mask=st.booleans(),
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(batches(), SETTINGS, st.integers(0, 2**32), st.sampled_from([0.0, 0.2]))
def test_words_are_masked_whole(batch, options, seed, covered_share):
    _, lengths, starts, may_mask = batch
    words = instances.word_groups(starts, may_mask, whole_words=True)
    np.testing.assert_array_equal(words.positions, np.flatnonzero(may_mask))
    row_starts = words.bounds[words.firsts[:-1]]
    others = np.setdiff1d(words.bounds[:-1], row_starts)
    assert np.all(starts.ravel()[words.positions[others]])
    sizes = np.diff(words.bounds)
    budgets = graph_masking.num_to_predict(lengths, options)
    rng = np.random.default_rng(seed)
    before = rng.random(len(sizes)) < covered_share  # words that were taken before
    covered = before.copy()
    chosen = instances.choose_ngrams(
        words, covered, budgets, graph_masking.length_cdf(options), rng
    )
    assert not (chosen & before).any()
    np.testing.assert_array_equal(covered, before | chosen)
    for budget, (first, stop) in zip(budgets, itertools.pairwise(words.firsts), strict=True):
        here = slice(first, stop)
        taken = sizes[here][chosen[here]].sum()
        assert taken <= budget
        # If nothing is masked, no word fits into the budget.
        assert taken or before[here].any() or min(sizes[here]) > budget


@settings(derandomize=True, deadline=None, max_examples=20)
@given(batches(), SETTINGS, st.integers(0, 2**32))
def test_masks_made_while_reading(batch, options, seed):
    """Properties of written masks; words are masked whole or not at all."""
    ids, lengths, starts, may_mask = batch
    features = {
        "input_ids": ids.astype(np.int32),
        "input_mask": (np.arange(ids.shape[1]) < lengths[:, np.newaxis]).astype(np.int32),
        "token_boundary": starts.astype(np.int32),
    }
    keys = np.stack([np.full(len(ids), seed), np.arange(len(ids))], axis=1)
    found = graph_masking.Masking(options, SPECIAL, SIZE)(features, keys)
    found = {name: np.asarray(values) for name, values in found.items()}
    new, labels = found["input_ids"], found["masked_lm_ids"]
    positions, weights = found["masked_lm_positions"], found["masked_lm_weights"]
    assert positions.shape == (len(ids), options.max_predictions_per_seq)
    assert not positions[weights == 0].any() and not labels[weights == 0].any()
    assert np.all((np.diff(positions) > 0) | (weights[:, 1:] == 0))
    np.testing.assert_array_equal(found["input_mask"], features["input_mask"])
    words = instances.word_groups(starts, may_mask, options.do_whole_word_mask)
    predicted = np.zeros(ids.shape, bool)
    rows, places = np.nonzero(weights)
    predicted[rows, positions[rows, places]] = True
    assert predicted.sum() == len(rows)
    assert not predicted[~may_mask].any()
    np.testing.assert_array_equal(new[~predicted], ids[~predicted])
    np.testing.assert_array_equal(labels[weights > 0], ids[predicted])
    assert new.min() >= 0 and new.max() < SIZE
    sizes = np.diff(words.bounds)
    of_word = np.add.reduceat(predicted.ravel()[words.positions], words.bounds[:-1])
    assert np.all((of_word == 0) | (of_word == sizes))
    budgets = graph_masking.num_to_predict(lengths, options)
    for row, (first, stop) in enumerate(itertools.pairwise(words.firsts)):
        assert predicted[row].sum() <= budgets[row]
        assert predicted[row].any() or min(sizes[first:stop]) > budgets[row]
