# SPDX-License-Identifier: Apache-2.0
"""Instances of one segment, and long lines that are cut into parts."""

import itertools
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.corpus import build, instances, segment_pairs
from albert_tf.corpus.corpus_files import Corpus
from albert_tf.corpus.instances import Settings
from albert_tf.corpus.segment_pairs import IN_ORDER, ONE_SEGMENT, RANDOM_DOCUMENT, SWAPPED
from albert_tf.records import input_pipeline, schemas
from albert_tf.text.tokenization import SpecialIds
from tests.corpus.small_corpora import make, summary_of
from tests.corpus.test_instances import make_corpus, pairs_of
from tests.errors import assert_says, refuses

CLS, SEP = 2, 3
NONE = {"sentence_pairs": "none"}


def spans(corpus, document=0, **settings):
    """First and last + 1 token of each segment of a document."""
    pairs = pairs_of(corpus, document, **{"max_seq_length": 12} | NONE | settings)
    assert all(pair[1:] == (pair.a_end,) * 3 + (ONE_SEGMENT,) for pair in pairs)
    return [pair[:2] for pair in pairs]


def test_a_segment_has_as_many_sentences_as_fit():
    found = spans(make_corpus([4, 4, 4, 10, 3, 7, 1]))
    assert found == [(0, 8), (8, 12), (12, 22), (22, 32), (32, 33)]
    assert spans(make_corpus([3], [4, 5]), document=1) == [(3, 12)]


def test_long_lines_are_cut():
    assert spans(make_corpus([25])) == [(0, 10), (10, 20), (20, 25)]
    assert spans(make_corpus([21, 9, 8])) == [(0, 10), (10, 20), (20, 30), (30, 38)]
    assert spans(make_corpus([25]), max_line_length=8) == [(0, 8), (8, 16), (16, 25)]
    # A segment has as many parts as fit, from one line or several.
    assert spans(make_corpus([6, 6]), max_line_length=4) == [(0, 10), (10, 12)]


def test_parts_overlap():
    assert spans(make_corpus([25]), line_overlap=3) == [(0, 10), (7, 17), (14, 24), (21, 25)]
    assert spans(make_corpus([24]), line_overlap=3) == [(0, 10), (7, 17), (14, 24)]
    assert spans(make_corpus([10, 11]), line_overlap=9) == [(0, 10), (10, 20), (11, 21)]
    assert spans(make_corpus([9]), max_line_length=5, line_overlap=1) == [(0, 9)]  # both fit


@pytest.mark.parametrize("short", [0.0, 1.0])
@pytest.mark.parametrize("overlap", [0, 1, 9])
def test_every_token_is_used(short, overlap):
    rng = random.Random(0)
    documents = [[rng.randint(1, 60) for _ in range(rng.randint(1, 9))] for _ in range(50)]
    corpus = make_corpus(*documents)
    for number, (first, stop) in enumerate(corpus.documents):
        begin, end = corpus.sentences[[first, stop]]
        found = spans(corpus, number, line_overlap=overlap, short_seq_prob=short)
        assert (found[0][0], found[-1][1]) == (begin, end)
        assert all(0 < end - start <= 10 for start, end in found)
        for (_, before), (start, end) in itertools.pairwise(found):
            assert before - overlap <= start <= before < end
            assert overlap or start == before


def test_short_targets():
    found = (spans(make_corpus([1] * 40), seed=seed, short_seq_prob=1.0) for seed in range(300))
    assert {first[1] for first, *_ in found} == set(range(2, 11))


def test_pairs_of_a_line_without_ends_of_sentences():
    corpus = make_corpus([1000], [30])
    (pair,) = set(pairs_of(corpus))
    assert pair[:2] == (0, 1000) or pair.kind == RANDOM_DOCUMENT  # as in the original
    pairs = pairs_of(corpus, max_line_length=5)  # four parts are an instance of 20 pieces
    assert {pair.kind for pair in pairs} == {IN_ORDER, SWAPPED}
    used = sorted(span for pair in pairs for span in (pair[:2], pair[2:4]))
    assert used[0][0] == 0 and used[-1][1] == 1000
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(used))
    # A random segment begins at a random part.
    sentences = segment_pairs.Sentences(corpus, Settings(max_line_length=5))
    draws = [segment_pairs.Draws(np.random.default_rng(seed)) for seed in range(50)]
    starts = {segment_pairs.random_segment(sentences, 1, 7, draw) for draw in draws}
    assert len(starts) > 20
    assert {(start % 5, end - start) for start, end in starts} <= {(0, 10), (0, 5)}


def test_an_instance_of_one_segment():
    ids = np.arange(10, 16, dtype=np.int32)
    corpus = Corpus(ids, ids % 2 == 0, np.array([0, 6]), np.array([[0, 1]]))
    settings = Settings(max_seq_length=8, max_predictions_per_seq=2, masked_lm_prob=0.0, **NONE)
    pairs = np.array([[1, 4, 4, 4, ONE_SEGMENT], [0, 6, 6, 6, ONE_SEGMENT]])
    specials = SpecialIds(0, CLS, SEP, 4)
    arrays = instances.instances(corpus, pairs, settings, specials, 20, np.random.default_rng(0))
    assert {name: array.tolist() for name, array in arrays.items()} == {
        "input_ids": [[CLS, 11, 12, 13, SEP, 0, 0, 0], [CLS, *range(10, 16), SEP]],
        "input_mask": [[1] * 5 + [0] * 3, [1] * 8],
        "segment_ids": [[0] * 8] * 2,
        "token_boundary": [[1, 0, 1, 0, 1, 0, 0, 0], [1, 1, 0, 1, 0, 1, 0, 1]],
        "masked_lm_positions": [[0, 0]] * 2,
        "masked_lm_ids": [[0, 0]] * 2,
        "masked_lm_weights": [[0.0, 0.0]] * 2,
    }
    assert len(schemas.encode_rows(arrays, settings.schema)) == 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"max_line_length": 31, **NONE}, "--max_line_length=31 ... 30"),
        ({"line_overlap": 30, **NONE}, "--line_overlap=30 ... 30"),
        ({"line_overlap": 5, "max_line_length": 5, **NONE}, "--line_overlap=5 ... 5"),
        ({"max_line_length": 1}, "--max_line_length ... 1"),
        (
            {"masked_lm_keep_prob": 0.7, "masked_lm_random_prob": 0.4},
            "--masked_lm_keep_prob=0.7 ... --masked_lm_random_prob=0.4",
        ),
    ],
)
def test_options_that_contradict_each_other(given, named):
    with refuses(named):
        Settings(max_seq_length=32, **given)


def test_the_sentence_pairs_are_one_option_beside_the_originals():
    assert Settings().pairs == Settings(sentence_pairs="order").pairs == "order"
    both = {"random_next_sentence": True, "sentence_pairs": "next"}
    for given in ({"random_next_sentence": True}, {"sentence_pairs": "next"}, both):
        assert Settings(**given).pairs == "next"


@pytest.fixture
def proteins(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        " ".join(rng.choice(["he", "was", "said", "that"], n)) for n in rng.integers(1, 400, 80)
    ]
    (tmp_path / "in.txt").write_text("\n\n".join(lines))
    return str(tmp_path / "in.txt")


def test_records_of_one_segment(proteins, tmp_path, tokenizer):
    settings = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=2, **NONE)
    summary, paths = make(proteins, tmp_path / "one", tokenizer, settings=settings)
    found = summary.as_json()
    assert found["instances"] == found["instances_of_one_segment"] > 160
    assert found["tokens_cut_by_truncation"] == found["instances_in_order"] == 0
    assert found["instance_tokens"] == 2 * found["tokens"] + 2 * found["instances"]
    assert_says(str(summary), "--sentence_loss_weight=0")
    assert "warning" not in str(summary)
    features = tf.train.Example.FromString(next(iter(tf.data.TFRecordDataset(paths))).numpy())
    assert "next_sentence_labels" not in features.features.feature
    written = json.loads((tmp_path / "one" / "summary-out-00000-of-00003.json").read_text())
    assert written["settings"]["sentence_pairs"] == "none"
    rows = list(input_pipeline.eval_dataset(paths, settings.schema, 1))
    assert all(np.count_nonzero(row["input_ids"] == SEP) >= 1 for row in rows)
    assert {int(row["segment_ids"].numpy().max()) for row in rows} == {0}


def test_text_without_ends_of_sentences_is_used_as_a_whole(proteins, tmp_path, tokenizer):
    def unused(**given):
        settings = Settings(max_seq_length=23, dupe_factor=1, short_seq_prob=0.0, **given)
        summary, _ = make(proteins, tmp_path, tokenizer, settings=settings)
        counts = summary.counts
        return counts["tokens_cut_by_truncation"] / counts["tokens"], str(summary)

    share, said = unused()
    assert share > 0.5
    assert_says(said, "warning ... --max_line_length ... --sentence_pairs=none")
    share, said = unused(max_line_length=5)
    assert share < 0.05
    assert "--max_line_length" not in said and "100.0%" not in said
    assert unused(**NONE)[0] == 0


@pytest.mark.parametrize(("pairs", "share"), [("order", "100.0%"), ("next", "%")])
def test_sentences_that_fill_an_instance_are_warned_about(pairs, share, tmp_path, tokenizer):
    """Each document can be split, but each instance has one sentence."""
    text = "\n\n".join(["he was said that " * 6 + "\n" + "that said was " * 8] * 20)

    def said(length):
        settings = Settings(max_seq_length=length, dupe_factor=2, sentence_pairs=pairs)
        return str(summary_of(text, tmp_path, tokenizer, settings=settings))

    assert_says(said(23), f"warning ... {share} ... --max_line_length")
    assert "--max_line_length" not in said(64)


def test_short_texts_are_warned_about(tmp_path, tokenizer):
    given = "he said that .\n\n" * 30, tmp_path, tokenizer
    summary = summary_of(*given)
    assert summary.counts["documents_of_one_sentence"] == 30
    assert_says(str(summary), "warning ... 100.0% ... --sentence_pairs=none")
    settings = Settings(max_seq_length=24, max_predictions_per_seq=4, **NONE)
    summary = summary_of(*given, settings=settings)
    assert "--sentence_pairs" not in str(summary)
    assert summary.counts["instances_of_one_segment"] == 30 * 40


def test_instances_are_logged(proteins, tmp_path, tokenizer, monkeypatch):
    logged = []
    monkeypatch.setattr(build.logging, "level_info", lambda: True)
    monkeypatch.setattr(build.logging, "info", lambda text, *values: logged.append(text % values))
    settings = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=1, **NONE)
    make(proteins, tmp_path, tokenizer, settings=settings)
    assert len(logged) == 20
    assert "next_sentence_labels none" in logged[0] and logged[0].count("[SEP]") == 1
