# SPDX-License-Identifier: Apache-2.0
"""Scores of texts are sums of the log-probabilities of their pieces, each masked in turn."""

import math
import random
import re

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import albert_tf
import export_checkpoints
from albert_tf.api import scoring
from albert_tf.options import SCORE_METHODS
from tests import ROOT, tiny
from tests.errors import refuses

TEXTS = ["The painter showed a landscape.", "unbelievably, [MASK] [SEP]", "of", "ß § x"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    tf_keras.utils.set_random_seed(1)  # with others, the methods may hardly differ
    return albert_tf.load(tiny.write_release(tmp_path_factory.mktemp("release")))


def by_hand(loaded, text, method):
    """The log-probability of each piece, computed one sequence at a time."""
    special, pieces = loaded.tokenizer.special_ids(), loaded.tokenizer.tokenize(text)
    ids = loaded.tokenizer.convert_tokens_to_ids(pieces)
    found = []
    for place, id_ in enumerate(ids):
        row, end = list(ids), place + 1
        if method == "within_word_l2r":
            while end < len(ids) and not pieces[end].startswith("▁"):
                end += 1
        row[place:end] = [special.mask] * (end - place)
        row = tf.constant([[special.cls, *row, special.sep]])
        given = row, tf.ones_like(row), tf.zeros_like(row)
        encoded = loaded.model.encoder(*given)["sequence_output"][:, place + 1 : place + 2]
        logits = loaded.model.masked_lm(encoded, loaded.model.encoder.embeddings.word)
        found.append(float(tf.nn.log_softmax(logits)[0, 0, id_]))
    return found


@pytest.mark.parametrize("method", SCORE_METHODS)
def test_scores_are_those_computed_by_hand(loaded, method):
    found = loaded.score(TEXTS, method=method, per_piece=True)
    for text, score in zip(TEXTS, found, strict=True):
        expected = by_hand(loaded, text, method)
        ids = loaded.tokenizer.encode_ids(text)
        assert score["pieces"] == loaded.tokenizer.convert_ids_to_tokens(ids)
        np.testing.assert_allclose(score["log_probs"], expected, rtol=1e-4, atol=1e-5)
        assert score["log_prob"] == pytest.approx(sum(expected), rel=1e-4)
        assert score["num_pieces"] == len(expected)
        assert score["num_words"] == len(text.split())


def test_methods_differ_where_a_word_has_several_pieces(loaded):
    text = "unbelievably"
    assert len(loaded.tokenizer.tokenize(text)) > 1
    scores = {method: loaded.score(text, method=method)["log_prob"] for method in SCORE_METHODS}
    assert abs(scores["original"] - scores["within_word_l2r"]) > 1e-3
    assert loaded.score(text) == loaded.score(text, method="within_word_l2r")


@pytest.mark.parametrize("method", SCORE_METHODS)
def test_scores_equal_those_of_transformers(method, run_main, release, tmp_path):
    """200 sentences, each piece masked by hand and one sequence at a time, on PyTorch."""
    torch = pytest.importorskip("torch", reason="needs torch, which is no requirement")
    transformers = pytest.importorskip("transformers", reason="needs transformers, neither")
    flags = {"albert_directory": release, "export_path": tmp_path / "hf", "export_format": "hf"}
    run_main(export_checkpoints, **flags)
    model = transformers.AlbertForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    words = re.findall(r"\w{1,12}[,.:]?", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    draw = random.Random(1)
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(200)]
    for text, score in zip(texts, albert_tf.load(release).score(texts, method), strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"][0]
        pieces, expected = tokenizer.convert_ids_to_tokens(ids), 0.0
        for place in range(1, len(ids) - 1):
            masked, end = ids.clone(), place + 1
            if method == "within_word_l2r":
                while end < len(ids) - 1 and not pieces[end].startswith("▁"):
                    end += 1
            masked[place:end] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(masked[None]).logits[0, place]
            expected += float(torch.log_softmax(logits, -1)[ids[place]])
        assert score["log_prob"] == pytest.approx(expected, abs=1e-4), text


def test_pseudo_perplexity_is_that_of_all_pieces(loaded):
    scores = loaded.score(TEXTS)
    names = ("log_prob", "num_pieces", "num_words", "num_unknown")
    sums = {name: sum(score[name] for score in scores) for name in names}
    total, pieces, words, _ = sums.values()
    of_pieces, of_words = math.exp(-total / pieces), math.exp(-total / words)
    sums |= {"pseudo_perplexity": of_pieces, "word_pseudo_perplexity": of_words}
    assert loaded.pseudo_perplexity(TEXTS) == pytest.approx(sums) and words < pieces
    with refuses("texts"):
        loaded.pseudo_perplexity([])


def test_a_str_gives_a_dict_and_no_texts_none(loaded):
    assert set(loaded.score("of")) == {"log_prob", "num_pieces", "num_words", "num_unknown"}
    assert loaded.score([]) == []
    text = "x \U0001f600"
    pieces = loaded.tokenizer.tokenize(text)
    unknown = sum(piece not in loaded.tokenizer.vocab for piece in pieces)
    assert loaded.score(text)["num_unknown"] == unknown > 0


@pytest.mark.parametrize("method", SCORE_METHODS)
def test_batches_pad_no_more_than_their_longest_text(loaded, method):
    texts = ["a", "a landscape", *TEXTS] * 3
    pieces = scoring.pieces_of(loaded.tokenizer, texts, 64)
    seen = []
    for rows, features in scoring.masked_batches(pieces, method, 60):
        length = features["input_ids"].shape[1]
        assert features["input_mask"].sum(axis=1).max() == length
        assert len(rows) == 1 or len(rows) * length <= 60
        seen += rows.tolist()
    assert sorted(seen) == list(range(sum(map(len, pieces.ids))))


def test_punctuation_is_a_word_of_wordpiece():
    tokenizer = albert_tf.FullTokenizer(vocab_file=str(tiny.WORDPIECE))
    pieces = scoring.pieces_of(tokenizer, ["Unwanted, running"], 64)
    tokens = tokenizer.tokenize("Unwanted, running")
    words = np.cumsum([not token.startswith("##") for token in tokens]) - 1
    assert pieces.words[0].tolist() == words.tolist()


def test_a_piece_is_a_word_of_scripts_without_spaces(loaded):
    pieces = scoring.pieces_of(loaded.tokenizer, ["the \u5f7c\u306f\u3001x house"], 64)
    assert pieces.words[0].tolist() == [0, 1, 1, 1, 2]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"texts": ["of", " "]}, "2"),
        ({"texts": "of " * 63}, "1 ... 63 ... max_seq_length=64 ... 62"),
        ({"texts": 3}, "texts ... int 3"),
        ({"texts": "of", "method": "l2r"}, "within_word_l2r"),
    ],
)
def test_bad_arguments(loaded, arguments, message):
    with refuses(message):
        loaded.score(**arguments)
