# SPDX-License-Identifier: Apache-2.0
import collections
import dataclasses
import itertools
import json
import shutil
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.corpus import (
    build,
    corpus_files,
    instances,
    line_encoder,
    segment_pairs,
    stages,
    text_files,
)
from albert_tf.corpus.corpus_files import Corpus
from albert_tf.corpus.instances import Settings
from albert_tf.corpus.permutation import IndexPermutation
from albert_tf.corpus.segment_pairs import IN_ORDER, RANDOM_DOCUMENT, SWAPPED
from albert_tf.records import graph_masking, input_pipeline, schemas
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text.tokenization import FullTokenizer, SpecialIds
from tests import SHARED, read_arrays
from tests.corpus.small_corpora import MODEL, make
from tests.errors import assert_says, refuses
from tests.records.small_records import encode

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d", "##e", "."]
PAD, UNK, CLS, SEP, MASK, A, B, C, D, E, DOT = range(len(PIECES))
SPECIAL_IDS = SpecialIds(PAD, CLS, SEP, MASK)
Pair = collections.namedtuple("Pair", "a_start a_end b_start b_end kind")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n")
    return FullTokenizer(str(path))


def spm_tokenizer():
    return FullTokenizer(spm_model_file=MODEL)


def generator(seed=0):
    return np.random.default_rng(seed)


def make_corpus(*documents):
    """A corpus of documents given as lists of sentence lengths; token i has the id 100 + i."""
    lengths = list(itertools.chain(*documents))
    ids = 100 + np.arange(sum(lengths), dtype=np.int32)
    ends = np.cumsum([0, *map(len, documents)])
    bounds = np.stack([ends[:-1], ends[1:]], axis=1)
    return Corpus(ids, np.ones(len(ids), bool), np.cumsum([0, *lengths]), bounds)


def within(count, n, probability, errors=5):
    """Whether a count of n independent trials lies within so many standard errors."""
    return abs(count - n * probability) <= errors * np.sqrt(n * probability * (1 - probability))


def assert_shares(counts, expected):
    """Checks that a Counter has these keys, each with its share of all."""
    assert set(counts) == set(expected)
    assert all(within(counts[key], counts.total(), p) for key, p in expected.items())


# --- settings ---


@pytest.mark.parametrize(
    ("length", "expected"),
    [(3, 1), (10, 2), (11, 2), (30, 4), (50, 8), (128, 19), (133, 20), (512, 20)],
)
def test_num_to_predict_rounds_halves_to_even(length, expected):
    assert graph_masking.num_to_predict(length, Settings()) == expected


def test_ngram_lengths_are_drawn_in_proportion_to_1_over_n():
    np.testing.assert_allclose(graph_masking.length_cdf(Settings()), [6 / 11, 9 / 11, 1])
    longer = Settings(favor_shorter_ngram=False)
    np.testing.assert_allclose(graph_masking.length_cdf(longer), [2 / 11, 5 / 11, 1])
    np.testing.assert_allclose(graph_masking.length_cdf(Settings(ngram=1)), [1])


# --- documents ---


def read(tmp_path, tokenizer, *texts):
    files = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(files, texts, strict=True):
        path.write_bytes(text.encode())
    return read_files([str(path) for path in files], tokenizer, tmp_path / "corpus")


def read_files(paths, tokenizer, directory):
    form = text_files.Format()
    encoder = line_encoder.LineEncoder(tokenizer)
    shutil.rmtree(directory, ignore_errors=True)
    with stages.LocalRunner(1, encoder) as runner:
        runner.write_corpus(paths, form, encoder, str(directory))
    return corpus_files.open_corpus(corpus_files.documents_file(str(directory)))


def test_sentences_and_documents(tmp_path, tokenizer):
    corpus = read(tmp_path, tokenizer, "\n\n a b \r\nCd.\n \t \n\nbde")
    assert corpus.ids.tolist() == [A, B, C, D, DOT, B, D, E]
    assert corpus.sentences.tolist() == [0, 2, 5, 8]
    assert corpus.documents.tolist() == [[0, 2], [2, 3]]
    assert (len(corpus.documents), corpus.sizes(0, 9)["sentences"]) == (2, 3)
    assert corpus.opens_word.tolist() == [1, 1, 1, 0, 1, 1, 0, 0]
    assert corpus.ids.dtype == np.int32


def test_the_end_of_a_file_ends_no_document(tmp_path, tokenizer):
    corpus = read(tmp_path, tokenizer, "a\n\nb", "c\n", "\na\n")
    assert corpus.ids.tolist() == [A, B, C, A]
    assert corpus.documents.tolist() == [[0, 1], [1, 3], [3, 4]]


def test_what_the_tokenizer_does_not_know_is_counted(tmp_path, tokenizer):
    corpus = read(tmp_path, tokenizer, "a xyz b\n\x02\nx\n")
    assert corpus.ids.tolist() == [A, UNK, B, UNK]
    assert corpus.unknown_pieces() == {"[UNK]": 2}
    # A line of a control character has text but no piece; it does not end the document.
    assert corpus.counts["lines_dropped"] == 1
    assert len(corpus.documents) == 1


def encoded(tokenizer, text, word_start="original"):
    encoder = line_encoder.LineEncoder(tokenizer, word_start)
    return encoder(text_files.Chunk(text.encode(), "a", 1), lambda _: None)


def test_words_start_at_the_mark_on_request():
    tokenizer = spm_tokenizer()
    text = "holmes,\x1c7th\u3000{{ привет naïve"  # a control character is a space
    lines = encoded(tokenizer, text, "piece")
    pieces = tokenizer.tokenize(tokenizer.normalize(text))
    assert lines.opens_word.tolist() == [piece.startswith("▁") for piece in pieces]
    assert lines.counts["marked"] == sum(piece.startswith("▁") for piece in pieces)


def test_the_first_piece_of_a_line_opens_a_word(tmp_path):
    """Also in vocabularies of other tools, in which lines begin without a mark."""
    proto = ModelProto.FromString(Path(MODEL).read_bytes())
    proto.normalizer_spec.add_dummy_prefix = False
    path = tmp_path / "spm.model"
    path.write_bytes(proto.SerializeToString())
    lines = encoded(FullTokenizer(spm_model_file=str(path)), "ion\n\n\x02\nion\n", "piece")
    assert lines.lengths.tolist() == [1, line_encoder.BLANK, 0, 1]
    assert lines.opens_word.tolist() == [True, True]


def test_what_counts_as_a_letter():
    tokenizer = spm_tokenizer()
    assert "£" in tokenizer.vocab  # no letter: it does not count
    assert encoded(tokenizer, "holmes £5").counts["inner_letters"] == 0


def test_words_of_segmented_chinese(tmp_path):
    """Spaces between words make whole words of several characters in WordPiece."""
    text = "我们 买了　新鲜的 牛奶 ， 和\t面包 喝\x1c茶  Python 3.11"
    tokens = [*PIECES[:5], "##ython", *sorted(set(text))]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=False)
    lines, usual = (encoded(tokenizer, text, rule) for rule in ("piece", "original"))
    assert lines.ids.tolist() == usual.ids.tolist()
    starts = np.flatnonzero(lines.opens_word).tolist()
    sizes = [end - start for start, end in itertools.pairwise([*starts, len(lines.ids)])]
    assert sizes == [2, 2, 3, 2, 1, 1, 2, 2, 2, 3]  # the control character is dropped
    assert lines.counts["marked"] == len(sizes)
    assert usual.opens_word.sum() == len(lines.ids) - 1  # all but ##ython


def test_records_have_the_words_of_the_rule(tmp_path):
    (tmp_path / "in.txt").write_text("我们 新鲜的 牛奶\n面包 苹果 博物馆\n" * 30, encoding="utf-8")
    tokens = "\n".join([*PIECES[:5], *"我们新鲜的牛奶面包苹果博物馆"])
    (tmp_path / "vocab.txt").write_text(tokens, encoding="utf-8")
    tokenizer = FullTokenizer(str(tmp_path / "vocab.txt"))
    settings = Settings(max_seq_length=64, dupe_factor=1, max_predictions_per_seq=10)
    for rule, share in {"original": 1.0, "piece": 6 / 14}.items():  # words, in characters
        arguments = str(tmp_path / "in.txt"), tmp_path, tokenizer, rule, settings
        summary, (path,) = make(*arguments, word_start=rule)
        assert "--word_start" not in str(summary)
        batch = input_pipeline.load_arrays(path, settings.schema)
        specials = 3 * len(batch["input_ids"])
        starts, pieces = batch["token_boundary"].sum(), batch["input_mask"].sum()
        assert (starts - specials) / (pieces - specials) == pytest.approx(share, abs=0.05)


# --- segment pairs ---


def pairs_of(corpus, document=0, seed=0, **settings):
    settings = Settings(**{"short_seq_prob": 0.0, "max_seq_length": 23} | settings)
    (whole,) = segment_pairs.block_pairs(corpus, [document], settings, generator(seed))
    pairs = segment_pairs.truncate(whole, settings.max_pair_length, generator(seed + 1))
    return [Pair(*row) for row in pairs.tolist()]


def test_pairs_cover_a_document_in_order():
    corpus = make_corpus([5] * 41)
    for seed in range(20):
        pairs = pairs_of(corpus, seed=seed)
        # Four sentences of five tokens reach the target of twenty; the 41st is alone.
        assert len(pairs) == 11
        for number, pair in enumerate(pairs[:-1]):
            first, second = sorted([pair[0:2], pair[2:4]])
            assert first[0] == 20 * number
            assert first[1] == second[0]  # and the split is between sentences
            assert (first[1] - first[0]) % 5 == 0
            assert second[1] == 20 * (number + 1)
            assert pair.kind == (SWAPPED if pair.a_start > pair.b_start else IN_ORDER)
        assert pairs[-1].kind == RANDOM_DOCUMENT
        assert pairs[-1][:2] == (200, 205)


def test_half_of_the_pairs_are_swapped_and_splits_are_uniform():
    pairs = pairs_of(make_corpus([5] * 4 * 2000))
    kinds = collections.Counter(pair.kind for pair in pairs)
    assert_shares(kinds, {IN_ORDER: 1 / 2, SWAPPED: 1 / 2})
    firsts = (min(pair[0:2], pair[2:4]) for pair in pairs)
    lengths = collections.Counter(end - start for start, end in firsts)
    assert_shares(lengths, dict.fromkeys((5, 10, 15), 1 / 3))


def test_a_single_sentence_gets_a_random_document():
    corpus = make_corpus([30], [4, 4, 4, 4], [4, 4, 4])
    seen = collections.Counter()
    for seed in range(300):
        (pair,) = pairs_of(corpus, seed=seed, max_seq_length=63)
        assert pair[:2] == (0, 30)
        assert pair.kind == RANDOM_DOCUMENT
        seen[pair[2:4]] += 1
    # Up to the end of the document, from any of its sentences: the target is never reached.
    second = {(start, 46): 1 / 8 for start in (30, 34, 38, 42)}
    assert_shares(seen, second | {(start, 58): 1 / 6 for start in (46, 50, 54)})


def test_a_random_segment_ends_when_it_is_long_enough():
    sentences = segment_pairs.Sentences(make_corpus([3], [4] * 10), Settings())
    for length, expected in ((-5, 4), (0, 4), (4, 4), (5, 8), (8, 8), (9, 12)):
        spans = [
            segment_pairs.random_segment(sentences, 0, length, segment_pairs.Draws(generator(seed)))
            for seed in range(50)
        ]
        assert {end - start for start, end in spans if end < 43} == {expected}


def test_a_single_document_is_its_own_random_document():
    (pair,) = pairs_of(make_corpus([7]))
    assert pair == (0, 7, 0, 7, RANDOM_DOCUMENT)


def test_another_document_is_drawn_ten_times_at_most():
    drawn = []
    draw = types.SimpleNamespace(below=lambda low, high: drawn.append((low, high)) or 0)
    sentences = segment_pairs.Sentences(make_corpus([3], [4]), Settings())
    assert segment_pairs.random_segment(sentences, 0, 2, draw) == (0, 3)
    assert drawn == [(0, 2)] * 10 + [(0, 1)]  # documents, and where to begin


def test_random_next_sentence_gives_back_what_it_did_not_use():
    corpus = make_corpus([5] * 4000, *[[5] * 40] * 9)
    pairs = pairs_of(corpus, random_next_sentence=True)
    kinds = collections.Counter(pair.kind for pair in pairs)
    assert_shares(kinds, {IN_ORDER: 1 / 2, RANDOM_DOCUMENT: 1 / 2})
    for pair, following in itertools.pairwise(pairs):
        if pair.kind == IN_ORDER:
            assert pair.a_end == pair.b_start
            assert following.a_start == pair.b_end
        else:
            assert pair.b_start >= 20_000
            assert following.a_start == pair.a_end
        length = pair.a_end - pair.a_start + pair.b_end - pair.b_start
        assert length == 20 or (length < 20 and pair.b_end % 200 == 0)  # a document's end


def test_short_targets_are_uniform_and_drawn_once_per_document():
    corpus = make_corpus([1] * 60)
    lengths = collections.Counter()
    for seed in range(600):
        pairs = pairs_of(corpus, seed=seed, short_seq_prob=1.0, max_seq_length=13)
        totals = {pair.b_end - pair.b_start + pair.a_end - pair.a_start for pair in pairs[:-1]}
        assert len(totals) == 1
        lengths[totals.pop()] += 1
    assert_shares(lengths, dict.fromkeys(range(2, 11), 1 / 9))
    firsts = (pairs_of(corpus, seed=seed, short_seq_prob=0.3)[0] for seed in range(1000))
    short = sum(max(pair.a_end, pair.b_end) < 20 for pair in firsts)
    assert within(short, 1000, 0.3 * 18 / 19)  # of the lengths 2 to 20, 20 is not short


def truncated(pairs, max_length):
    rows = segment_pairs.truncate(np.array(pairs), max_length, generator())
    return [Pair(*row) for row in rows.tolist()]


def truncated_one_by_one(a_length, b_length, max_length):
    while a_length + b_length > max_length:
        if a_length > b_length:
            a_length -= 1
        else:
            b_length -= 1
    return a_length, b_length


def test_truncation_takes_from_the_longer_and_from_b_when_equal():
    for a_length, b_length, max_length in itertools.product(range(1, 12), range(1, 12), (2, 7, 12)):
        pair = Pair(0, a_length, 100, 100 + b_length, SWAPPED)
        short = truncated([pair], max_length)[0]
        lengths = (short.a_end - short.a_start, short.b_end - short.b_start)
        assert lengths == truncated_one_by_one(a_length, b_length, max_length)
        assert 0 <= short.a_start < short.a_end <= a_length
        assert 100 <= short.b_start < short.b_end <= 100 + b_length
        assert short.kind == SWAPPED


def test_truncation_takes_each_token_from_the_front_or_the_end():
    pairs = truncated([Pair(0, 10, 20, 24, IN_ORDER)] * 4000, 12)
    fronts = collections.Counter(pair.a_start for pair in pairs)
    assert_shares(fronts, {0: 1 / 4, 1: 1 / 2, 2: 1 / 4})


def planned(corpus, settings, pass_index):
    blocks = instances.num_blocks(corpus)
    blocks = range(pass_index * blocks, (pass_index + 1) * blocks)
    return np.concatenate([pairs for pairs, _ in instances.plan(corpus, settings, blocks)])


def test_each_pass_differs_and_cut_tokens_are_counted():
    corpus = make_corpus([5] * 400, [5] * 400)
    settings = Settings(max_seq_length=23)
    ((pairs, cut),) = instances.plan(make_corpus([30, 30], [4, 4]), settings, range(1))
    assert (pairs[:, 1] - pairs[:, 0] + pairs[:, 3] - pairs[:, 2]).max() == 20
    assert cut > 0
    plans = [planned(corpus, settings, index) for index in (0, 0, 1)]
    np.testing.assert_array_equal(plans[0], plans[1])
    assert plans[0].shape[1] == 5
    assert not np.array_equal(plans[0][:100], plans[2][:100])
    other = planned(corpus, dataclasses.replace(settings, random_seed=1), 0)
    assert not np.array_equal(plans[0][:100], other[:100])


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 4097])
def test_index_permutation(size):
    seeds = [np.random.SeedSequence(seed) for seed in (0, 0, 1)]
    orders = [IndexPermutation(size, seed)(np.arange(size)) for seed in seeds]
    np.testing.assert_array_equal(np.sort(orders[0]), np.arange(size))
    np.testing.assert_array_equal(orders[0], orders[1])
    order = IndexPermutation(size, seeds[0])
    np.testing.assert_array_equal(order.inverse(order(np.arange(size))), np.arange(size))
    if size >= 1000:
        assert np.mean(orders[0] == orders[2]) < 0.02
        # Neighbours are as far apart as two random numbers: a third of the size on average.
        assert abs(np.abs(np.diff(orders[0])).mean() / size - 1 / 3) < 0.05


# --- words ---


def test_word_groups():
    ids = np.array([[CLS, D, A, D, E, B, SEP, D, DOT, C, SEP], [CLS, D, SEP, E, SEP] + [PAD] * 6])
    starts = np.isin(ids, [A, B, C, DOT])
    may_mask = ~np.isin(ids, [CLS, SEP, PAD])
    words = instances.word_groups(starts, may_mask, whole_words=True)
    positions, bounds = words.positions, words.bounds
    found = [positions[i:j].tolist() for i, j in itertools.pairwise(bounds)]
    # The first piece has no word to join; a piece after [SEP] joins the word before it.
    assert found == [[1], [2, 3, 4], [5, 7], [8], [9], [12, 14]]
    assert words.firsts.tolist() == [0, 5, 6]
    assert words.word_of.tolist() == [0, 1, 1, 1, 2, 2, 3, 4, 5, 5, 6]
    words = instances.word_groups(starts, may_mask, whole_words=False)
    assert words.positions.tolist() == [1, 2, 3, 4, 5, 7, 8, 9, 12, 14]
    assert words.bounds.tolist() == list(range(11))
    nothing = instances.word_groups(starts, np.zeros_like(may_mask), whole_words=True)
    assert nothing.firsts.tolist() == [0, 0, 0]


# --- n-grams ---


def words_of(bounds, rows=1):
    """The words of equal sequences, with these offsets."""
    total, count = bounds[-1], len(bounds) - 1
    ends = np.concatenate([np.array(bounds[1:]) + row * total for row in range(rows)])
    word_of = np.repeat(np.arange(rows * count + 1), [*np.diff([0, *ends]), 1])
    return instances.WordGroups(
        np.arange(rows * total), np.array([0, *ends]), word_of, count * np.arange(rows + 1)
    )


def choose(bounds, budget, rows, **settings):
    """The chosen tokens of each of so many equal sequences."""
    words = words_of(bounds, rows)
    covered = np.zeros(len(words.bounds) - 1, bool)
    cdf = graph_masking.length_cdf(Settings(**settings))
    chosen = instances.choose_ngrams(words, covered, np.full(rows, budget), cdf, generator())
    tokens = chosen[words.word_of[:-1]].reshape(rows, -1)
    assert tokens.sum(axis=1).max() <= budget
    return [np.flatnonzero(row).tolist() for row in tokens]


@pytest.mark.parametrize("favor_shorter_ngram", [True, False])
def test_ngrams_have_the_drawn_lengths(favor_shorter_ngram):
    # So long and so much to choose that few n-grams meet, or are cut at the end or the budget.
    rows = choose(range(30001), 200, rows=100, favor_shorter_ngram=favor_shorter_ngram)
    lengths = collections.Counter()
    for row in rows:
        groups = np.split(row, 1 + np.flatnonzero(np.diff(row) > 1))
        lengths.update(len(group) for group in groups if len(group) <= 3)
    probabilities = [6 / 11, 3 / 11, 2 / 11]
    if not favor_shorter_ngram:
        probabilities.reverse()
    for n, probability in enumerate(probabilities, start=1):
        assert abs(lengths[n] / lengths.total() - probability) < 0.03


def test_the_budget_is_reached():
    # Words of one token always fill it, and shorter n-grams are taken for what is left.
    for settings in ({}, {"favor_shorter_ngram": False, "ngram": 8}):
        assert all(len(row) == 9 for row in choose(range(41), 9, rows=200, **settings))


def test_every_word_is_as_likely_as_any():
    rows = choose(range(31), 3, rows=3000, ngram=1)
    counts = np.bincount(np.concatenate(rows), minlength=30)
    assert all(within(count, 3000, 0.1) for count in counts)


# --- masks ---


def test_80_10_10():
    n = 40_000
    ids = np.full(n + 1, A)
    instances.mask_tokens(ids, np.arange(n), Settings(), MASK, len(PIECES), generator())
    assert ids[n] == A  # not among the positions
    counts = np.bincount(ids[:n], minlength=len(PIECES))
    random = 0.1 / len(PIECES)  # any piece, special ones and the same one too
    expected = np.full(len(PIECES), random)
    expected[MASK] += 0.8
    expected[A] += 0.1
    assert all(within(count, n, p) for count, p in zip(counts, expected, strict=True))


def mask(seed=0, **settings):
    ids = np.array([CLS, *range(100, 160), SEP])
    special = np.isin(ids, [CLS, SEP])
    sequences = ids[None], np.array([len(ids)]), np.ones((1, len(ids)), bool), ~special[None]
    new_ids, predicted = instances.masked(
        *sequences, Settings(**settings), MASK, len(PIECES), generator(seed)
    )
    new_ids, predicted = new_ids[0], np.flatnonzero(predicted)
    assert not special[predicted].any()
    changed = np.flatnonzero(new_ids != ids)
    assert set(changed) <= set(predicted)
    return ids, new_ids, predicted


def test_a_probability_of_zero_masks_nothing():
    for permutation in (False, True):
        ids, new_ids, predicted = mask(masked_lm_prob=0.0, do_permutation=permutation)
        np.testing.assert_array_equal(ids, new_ids)
        assert len(predicted) == 0


def test_permutation_shuffles_and_predicts_as_many_again():
    moved = []
    for seed in range(50):
        _, masked_ids, masked_positions = mask(seed)
        ids, new_ids, predicted = mask(seed, do_permutation=True)
        assert len(predicted) == 18
        assert set(masked_positions) < set(predicted)  # the masks are drawn first, and the same
        np.testing.assert_array_equal(new_ids[masked_positions], masked_ids[masked_positions])
        shuffled = np.setdiff1d(predicted, masked_positions)
        np.testing.assert_array_equal(np.sort(new_ids[shuffled]), ids[shuffled])
        moved.append(np.sum(new_ids[shuffled] != ids[shuffled]))
    # Of a random permutation, one token stays in place on average, with a variance of one.
    assert abs(np.mean(moved) - 8) <= 5 / np.sqrt(50)
    assert 0.3 < np.var(moved) < 2.5


# --- records ---


def instance(corpus, pair, settings):
    arrays = instances.instances(
        corpus, np.array([pair]), settings, SPECIAL_IDS, len(PIECES), generator(3)
    )
    return {name: values[0] for name, values in arrays.items()}


def test_an_instance():
    ids = np.array([A, D, B, DOT, C, E], np.int32)
    corpus = Corpus(ids, np.isin(ids, [A, B, C, DOT]), np.array([0, 3, 4, 6]), np.array([[0, 3]]))
    settings = Settings(max_seq_length=12, max_predictions_per_seq=3, masked_lm_prob=0.0)
    arrays = instance(corpus, Pair(1, 4, 4, 6, SWAPPED), settings)
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "input_ids": [CLS, D, B, DOT, SEP, C, E, SEP, 0, 0, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0],
        "segment_ids": [0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0],
        "token_boundary": [1, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0],
        "masked_lm_positions": [0, 0, 0],
        "masked_lm_ids": [0, 0, 0],
        "masked_lm_weights": [0.0, 0.0, 0.0],
        "next_sentence_labels": [1],
    }
    encode(arrays, settings.schema)


def test_special_pieces_in_the_text_are_not_masked():
    ids = np.array([A, SEP, B, CLS, C], np.int32)
    corpus = Corpus(ids, np.isin(ids, [A, B, C]), np.array([0, 5]), np.array([[0, 1]]))
    settings = Settings(max_seq_length=13, max_predictions_per_seq=13, masked_lm_prob=1.0, ngram=1)
    arrays = instance(corpus, Pair(0, 5, 0, 5, IN_ORDER), settings)
    assert arrays["token_boundary"].tolist() == [1] * 13
    assert arrays["masked_lm_positions"][:6].tolist() == [1, 3, 5, 7, 9, 11]
    assert arrays["masked_lm_weights"].sum() == 6


# --- the whole ---

TEXT = "\n\n".join("\n".join(["a bd c .", "c b a bde b", "b"] * 5) for _ in range(4))


def create(directory, tokenizer, text=TEXT, outputs=("out",), **settings):
    source = directory / "in.txt"
    source.write_text(text)
    settings = Settings(
        **{"max_seq_length": 16, "max_predictions_per_seq": 4, "dupe_factor": 3} | settings
    )
    paths = [str(directory / name) for name in outputs]
    summary = build.create([str(source)], paths, tokenizer, settings)
    return summary, [[r.numpy() for r in tf.data.TFRecordDataset(path)] for path in paths]


def test_every_pass_has_its_own_masks(tmp_path, tokenizer):
    # A document of one sentence makes the same pair in every pass.
    summary, (found,) = create(tmp_path, tokenizer, text="a b c a b c\n", dupe_factor=20)
    assert_says(str(summary), "warning ... single document")
    assert len(found) == 20
    assert len(set(found)) > 10


def test_the_files_share_the_same_pairs(tmp_path, tokenizer):
    _, (single,) = create(tmp_path, tokenizer, masked_lm_prob=0.0)
    summary, parts = create(tmp_path, tokenizer, outputs=("x", "y", "z"), masked_lm_prob=0.0)
    assert parts == [single[0::3], single[1::3], single[2::3]]
    assert summary.counts["instances"] == len(single)


def test_the_summary_counts_what_was_written(tmp_path, tokenizer):
    text = TEXT + "\n\x02\nxyz xyz\n"
    summary, _ = create(tmp_path, tokenizer, text=text)
    schema = schemas.pretraining_schema(16, 4)
    batch = input_pipeline.load_arrays(str(tmp_path / "out"), schema)
    lengths = batch["input_mask"].sum(axis=1)
    names = ("documents", "sentences", "lines_dropped")
    assert [summary.counts[name] for name in names] == [4, 61, 1]
    assert summary.counts["tokens"] == 4 * 5 * 13 + 2
    assert summary.unknown_share == 2 / summary.counts["tokens"]
    assert summary.counts["instances"] == len(lengths)
    assert summary.counts["instances_in_order"] == np.sum(batch["next_sentence_labels"] == 0)
    assert summary.masked_share == batch["masked_lm_weights"].sum() / lengths.sum()
    assert "4 documents, 61 sentences" in str(summary)
    assert "'[UNK]' 2" in str(summary)
    assert "warning: left out: 1 of 62 lines" in str(summary)
    warnings = [line for line in str(summary).split("\n") if "warning" in line]
    assert ["57 of 62 lines" in warning for warning in warnings] == [False, False, True]


def test_unmasked_records(tmp_path, tokenizer):
    """They have the features of all records, and the pairs of masked ones."""
    schema = schemas.pretraining_schema(16, 4)
    create(tmp_path, tokenizer, outputs=("masked",), dupe_factor=1)
    summary, _ = create(tmp_path, tokenizer, masked_lm_prob=0.0, dupe_factor=1)
    assert summary.masked_share == 0 and summary.as_json()["predictions"] == 0
    assert_says(str(summary), "--masked_lm_budget")
    batch, plain = (
        input_pipeline.load_arrays(str(tmp_path / name), schema) for name in ("masked", "out")
    )
    masks = [name for name in schema if name.startswith("masked_lm_")]
    assert not any(plain[name].any() for name in masks)
    assert all(batch[name].any() for name in masks)
    for name in schema.keys() - {*masks, "input_ids"}:
        np.testing.assert_array_equal(plain[name], batch[name])


def test_an_error_leaves_no_output(tmp_path, tokenizer):
    with refuses("in.txt"):
        create(tmp_path, tokenizer, text="\n")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("outputs", [("in.txt",), ("out", "out"), ("../x/in.txt",)])
def test_outputs_must_differ_from_inputs_and_each_other(tmp_path, tokenizer, outputs):
    directory = tmp_path / "x"
    directory.mkdir()
    with refuses("--output_file"):
        create(directory, tokenizer, outputs=outputs)
    assert (directory / "in.txt").read_text() == TEXT


def test_a_vocabulary_without_the_special_pieces(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("a\nb\n[UNK]\n")
    with refuses("[CLS] ... [SEP] ... [MASK]"):
        create(tmp_path, FullTokenizer(str(path)))


# --- the distribution of the original's output ---

PASSES = 30


def share(values, edges):
    """Shares of 1, 2, ... up to `edges`, the last one with all that is more."""
    counts = np.bincount(np.minimum(values, edges), minlength=edges + 1)[1:]
    return counts / max(1, counts.sum())


def runs(masked, boundary):
    """Lengths, in tokens and in words, of all runs of neighbouring predicted tokens."""
    closed = np.pad(masked, ((0, 0), (1, 1))).ravel()
    words = np.cumsum(np.pad(boundary, ((0, 0), (1, 1))).ravel())
    edges = np.diff(closed.astype(int))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return ends - starts, np.maximum(1, words[ends] - words[starts])


def statistics(arrays, special):
    """The figures of the original's output that depend on its algorithm, as one flat dict."""
    ids, mask, boundary = (arrays[k] for k in ("input_ids", "input_mask", "token_boundary"))
    positions, labels = arrays["masked_lm_positions"], arrays["masked_lm_ids"]
    real = arrays["masked_lm_weights"] > 0
    rows = np.arange(len(ids))
    lengths, predictions = mask.sum(1), real.sum(1)
    at = np.take_along_axis(ids, positions, axis=1)
    now, label, place = at[real], labels[real], positions[real]
    sep = np.argmax(ids == special.sep, axis=1)
    is_masked = np.zeros(ids.shape, bool)
    row_of = np.broadcast_to(rows[:, None], positions.shape)[real]
    is_masked[row_of, place] = True
    a, b = sep - 1, lengths - sep - 2
    wanted = np.minimum(positions.shape[1], np.maximum(1, np.round(lengths * 0.15)))
    run_tokens, run_words = runs(is_masked, boundary)
    quarter = 1 + (4 * place // lengths[row_of])
    figures = {
        "n_instances": len(ids),
        "sop_label_mean": arrays["next_sentence_labels"].mean(),
        "predictions_per_instance_mean": predictions.mean(),
        "masked_rate_of_tokens": predictions.sum() / lengths.sum(),
        "masked_rate_vs_target": np.mean(predictions / wanted),
        "seq_len_mean": lengths.mean(),
        "full_length_fraction": np.mean(lengths == ids.shape[1]),
        "len_a_mean": a.mean(),
        "len_b_mean": b.mean(),
        "masked_on_both_sides_of_sep_fraction": np.mean(
            is_masked[rows, sep - 1] & is_masked[rows, sep + 1]
        ),
        "token_boundary_rate": boundary.sum() / lengths.sum(),
        "total_tokens": lengths.sum(),
        "total_predictions": predictions.sum(),
    }
    if len(now):
        figures["mask_frac"] = np.mean(now == special.mask)
        figures["keep_frac"] = np.mean((now != special.mask) & (now == label))
        figures["random_frac"] = np.mean((now != special.mask) & (now != label))
    for (unit, longest), values in zip(RUNS.items(), (run_tokens, run_words), strict=True):
        for n, value in enumerate(share(values, longest), start=1):
            figures[f"masked_run_length_{unit} {n}"] = value
    for n, value in enumerate(share(quarter, 4)):
        figures[f"mask_position_quarters {n}"] = value
    for name, values in zip(PERCENTILES, (lengths, a, b, predictions), strict=True):
        for n, value in enumerate(np.percentile(values, [1, 5, 25, 50, 75, 95, 99])):
            figures[f"{name} percentile {n}"] = value
    return figures


RUNS = {"tokens": 9, "words": 6}  # and longer ones
PERCENTILES = {  # what has them -> the key in stats.json
    "seq_len": "seq_len_percentiles_0_1_5_25_50_75_95_99_100",
    "len_a": "len_a_percentiles",
    "len_b": "len_b_percentiles",
    "predictions": "predictions_per_instance_percentiles",
}
QUARTERS = ["first_quarter", "second_quarter", "third_quarter", "last_quarter"]


def original_statistics(stats):
    """The same figures of the original, from stats.json; totals are made one pass's."""
    passes = stats["flags"]["dupe_factor"]
    figures = {name: value for name, value in stats.items() if isinstance(value, int | float)}
    for total in ("n_instances", "total_tokens", "total_predictions"):
        figures[total] /= passes
    for unit, edge in RUNS.items():
        shares = np.zeros(edge)
        for length, value in stats[f"masked_run_length_{unit}"].items():
            shares[min(int(length), edge) - 1] += value
        figures |= {f"masked_run_length_{unit} {n}": v for n, v in enumerate(shares, start=1)}
    for n, name in enumerate(QUARTERS):
        figures[f"mask_position_quarters {n}"] = stats["mask_position_quarters"].get(name, 0)
    for name, key in PERCENTILES.items():
        for n, value in enumerate(stats[key][1:8]):
            figures[f"{name} percentile {n}"] = value
    return figures


def our_passes(corpus, settings, tokenizer, while_reading):
    """Arrays of each pass on its own: passes are independent, so they show the sampling error."""
    vocabulary = tokenizer.special_ids(), tokenizer.vocab_size
    written = dataclasses.replace(settings, masked_lm_prob=0.0) if while_reading else settings
    masking_ = tf.function(graph_masking.Masking(settings, *vocabulary), reduce_retracing=True)
    for pass_index in range(PASSES):
        plan = planned(corpus, settings, pass_index)
        arrays = instances.instances(corpus, plan, written, *vocabulary, generator(pass_index))
        if while_reading:
            keys = np.stack([np.full(len(plan), pass_index), np.arange(len(plan))], axis=1)
            features = {
                name: arrays[name].astype(np.int32)
                for name in ("input_ids", "input_mask", "token_boundary")
            }
            masks = masking_(features, keys)
            arrays |= {name: values.numpy() for name, values in masks.items()}
        yield arrays


def golden_stats():
    path = SHARED / "golden" / "pretraining" / "stats.json"
    return json.loads(path.read_text()) if path.exists() else {}


def golden_settings(stats):
    """Tokenizer and settings of a case of stats.json."""
    flags = {k: v for k, v in stats["flags"].items() if k not in ("dupe_factor", "input_file_mode")}
    vocab = str(SHARED / "golden" / "tokenization" / flags.pop("vocab"))
    kind = "spm_model_file" if vocab.endswith(".model") else "vocab_file"
    tokenizer = FullTokenizer(**{kind: vocab}, do_lower_case=flags.pop("do_lower_case"))
    return tokenizer, Settings(**flags)


@pytest.mark.shared_data
def test_word_starts_and_numbers_of_predictions_are_the_originals():
    cases = golden_stats() or pytest.skip(f"{SHARED}/golden/pretraining is not here")
    for name, stats in cases.items():
        tokenizer, settings = golden_settings(stats)
        if stats["total_predictions"]:
            shares = np.diff(graph_masking.length_cdf(settings), prepend=0)
            draws = [*stats["ngram_draws_before_length_reduction"].values()]
            np.testing.assert_allclose(np.pad(shares, (0, 3 - len(shares))), draws, atol=0.01)
        path = SHARED / "golden" / "pretraining" / f"{name}.npz"
        if not path.exists():  # as of the cases with dupe_factor=10
            continue
        arrays = {key: value.astype(int) for key, value in read_arrays(path).items()}
        real, lengths = arrays["masked_lm_weights"] > 0, arrays["input_mask"].sum(1)
        if settings.masked_lm_prob:
            predictions = graph_masking.num_to_predict(lengths, settings)
            np.testing.assert_array_equal(real.sum(1), predictions, name)
        ids, rows = arrays["input_ids"], np.nonzero(real)[0]
        ids[rows, arrays["masked_lm_positions"][real]] = arrays["masked_lm_ids"][real]
        special = tokenizer.special_ids()
        starts = np.array([tokenizer.is_start_piece(piece) for piece in tokenizer.vocab])
        starts[[special.cls, special.sep]] = True
        wanted = starts[ids] & (arrays["input_mask"] > 0)
        known = ids != UNK
        np.testing.assert_array_equal(arrays["token_boundary"][known], wanted[known], name)


def grouped_by_settings(quick=None):
    """Cases of stats.json that differ in nothing but dupe_factor share our run.

    Those that begin with none of the names `quick` are marked slow.
    """
    groups = collections.defaultdict(dict)
    for name, stats in golden_stats().items():
        flags = {k: v for k, v in stats["flags"].items() if k != "dupe_factor"}
        groups[json.dumps(flags, sort_keys=True)][name] = stats
    params = []
    for cases in groups.values():
        name = "+".join(cases)
        marks = [] if quick is None or name.startswith(quick) else [pytest.mark.slow]
        params.append(pytest.param(list(cases.values()), id=name, marks=marks))
    return params or [None]


@pytest.mark.shared_data
@pytest.mark.parametrize("cases", grouped_by_settings())
def test_distribution_is_the_originals(cases, tmp_path):
    check_distribution(cases, tmp_path, while_reading=False)


@pytest.mark.long
@pytest.mark.shared_data
@pytest.mark.parametrize("cases", grouped_by_settings(quick=("default", "favor_longer", "no_wwm")))
def test_distribution_of_masks_made_while_reading_is_the_originals(cases, tmp_path):
    check_distribution(cases, tmp_path, while_reading=True)


def check_distribution(cases, directory, while_reading):
    """Every figure lies within five standard errors of the original's.

    The error of one pass is measured on ours, so what instances of a document have in common is in
    it. A percentile is a whole number of tokens and may be off by one more.
    """
    if cases is None:
        pytest.skip(f"{SHARED}/golden/pretraining is not here")
    tokenizer, settings = golden_settings(cases[0])
    if while_reading and not settings.masked_lm_prob:
        pytest.skip("nothing is masked")
    source = SHARED / "golden" / "pretraining" / "input.txt"
    corpus = read_files([str(source)], tokenizer, directory / "corpus")
    special = tokenizer.special_ids()
    passes = our_passes(corpus, settings, tokenizer, while_reading)
    ours = [statistics(arrays, special) for arrays in passes]
    problems = []
    for stats in cases:
        theirs = original_statistics(stats)
        for name in ours[0]:
            values = np.array([figures[name] for figures in ours])
            passes = stats["flags"]["dupe_factor"]
            error = np.std(values, ddof=1) * np.sqrt(1 / PASSES + 1 / passes)
            allowed = 5 * error + (1 if "percentile" in name else 1e-9)
            if abs(values.mean() - theirs[name]) > allowed:
                problems.append(
                    f"{name}: {values.mean():.5g}, not {theirs[name]:.5g} ± {error:.2g}"
                )
    assert not problems
