# SPDX-License-Identifier: Apache-2.0
"""Tokenization inside a graph against FullTokenizer, offsets against the text."""

import json
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.publish import graph_inputs, graph_tokenization, hub
from albert_tf.tasks.squad import alignment
from albert_tf.tasks.squad.features import WindowSettings
from albert_tf.text.tokenization import FullTokenizer, basic_tokens
from tests import GOLDEN
from tests.errors import refuses
from tests.text import languages

DATA = GOLDEN / "tokenization"
STRINGS = json.loads((DATA / "table.json").read_text(encoding="utf-8"))["strings"]
VOCABULARIES = ["spm_uncased.model", "spm_cased.model", "vocab.txt", "vocab_quirks.txt"]


def both(path, lower, **more):
    """The graph's tokenizer and Python's."""
    kind = "spm_model_file" if str(path).endswith(".model") else "vocab_file"
    arguments = {kind: str(path), "do_lower_case": lower} | more
    tokenizer = FullTokenizer(**arguments)
    return graph_tokenization.GraphTokenizer(tokenizer), tokenizer


def assert_same(graph, tokenizer, texts):
    found = graph.tokenize(tf.constant(texts)).to_list()
    for text, ids in zip(texts, found, strict=True):
        assert ids == tokenizer.encode_ids(tokenizer.normalize(text)), text


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_every_golden_string(vocabulary, lower):
    assert len(STRINGS) == 230
    assert_same(*both(DATA / vocabulary, lower), STRINGS)


HARD = [
    "Ещё мой ЁЖ, и\u0306 е\u0308 Й\u0301",
    "Tiếng Việt: ế e\u0302\u0301 e\u0323\u0302 e\u0302\u0323",  # marks in either order
    "كَتَبَ شدّة ّ\u064e \u064e\u0651",
    "ΟΔΟΣ Σ ΆΣ ὈΔΥΣΣΕΎΣ Σ\u0301Α ᾳ Α\u0345",
    "İ I\u0307 \u1112\u1161\u11ab 한 が か\u3099 \u00a8 ½ ﬁ",
    "\u0301 a\u0301\u200b b \u0301",
]


@pytest.mark.long
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_accents_that_stay(tmp_path, kind, lower):
    texts = [*HARD, *STRINGS, *languages.TEXTS["russian"].split("\n")]
    path = tmp_path / ("spm.model" if kind == "sentencepiece" else "vocab.txt")
    if kind == "sentencepiece":
        languages.write_model(path, "\n".join([*HARD, *languages.TEXTS.values()]), False)
    else:
        chars = {c for text in texts for word in basic_tokens(text, lower, False) for c in word}
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(chars), *(f"##{c}" for c in chars)]
        path.write_text("\n".join(pieces), encoding="utf-8", newline="")
    graph, tokenizer = both(path, lower, strip_accents=False)
    assert_same(graph, tokenizer, texts)
    ids, starts, ends = (v.to_list()[0] for v in graph.tokenize_with_offsets(["Мой зелёный чай"]))
    covered = [("Мой зелёный чай"[a:b]) for a, b in zip(starts, ends, strict=True)]
    pieces = [p.replace("▁", "").replace("##", "") for p in tokenizer.convert_ids_to_tokens(ids)]
    if lower:
        assert pieces == [part.lower() for part in covered] and "й" in "".join(pieces)


@pytest.mark.long
@pytest.mark.shared_data
def test_lines_of_the_corpus(shared_data):
    lines = (shared_data / "corpus" / "books-heldout.txt").read_text(encoding="utf-8").split("\n")
    assert_same(*both(shared_data / "spm" / "30k-clean.model", True), lines[:10000])
    # Capitals that the vocabulary lacks: one of the lines has two splits of equal score. Rounding
    # may let both tokenizers take the same one.
    graph, tokenizer = both(shared_data / "spm" / "30k-clean.model", False)
    found = graph.tokenize(tf.constant(lines[:10000])).to_list()
    expected = [tokenizer.encode_ids(tokenizer.normalize(line)) for line in lines[:10000]]
    unequal = [(a, b) for a, b in zip(found, expected, strict=True) if a != b]
    assert len(unequal) <= 1  # rounding of sums decides
    assert all(sorted(a) == sorted(b) for a, b in unequal)


@pytest.mark.parametrize("vocabulary", ["spm_uncased.model", "vocab.txt"])
def test_offsets_cover_the_text(vocabulary):
    graph, tokenizer = both(DATA / vocabulary, True)
    text = "  The  cat\u0301s, and 12,000 dogs "
    pieces = graph.tokenize_with_offsets(tf.constant([text]))
    ids, starts, ends = (values.to_list()[0] for values in pieces)
    assert ids == tokenizer.encode_ids(tokenizer.normalize(text))
    assert all(0 <= start <= end <= len(text) for start, end in zip(starts, ends, strict=True))
    assert starts == sorted(starts)
    covered = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    assert covered == "".join(text.split())


def test_packing():
    graph, _ = both(DATA / "vocab.txt", True)
    special = graph.special_tokens
    cls, sep = special["start_of_sequence_id"], special["end_of_segment_id"]
    first = tf.ragged.constant([[11, 12, 13, 14, 15, 16], [11]], dtype=tf.int32)
    second = tf.ragged.constant([[21, 22], [21, 22, 23]], dtype=tf.int32)
    packed = graph_inputs.pack([first, second], 8, graph)
    np.testing.assert_array_equal(
        packed["input_word_ids"],
        [[cls, 11, 12, 13, sep, 21, 22, sep], [cls, 11, sep, 21, 22, 23, sep, 0]],
    )
    np.testing.assert_array_equal(packed["input_mask"], [[1] * 8, [1] * 7 + [0]])
    np.testing.assert_array_equal(
        packed["input_type_ids"], [[0] * 5 + [1] * 3, [0] * 3 + [1] * 4 + [0]]
    )
    alone = graph_inputs.pack([first], 8, graph)["input_word_ids"]
    np.testing.assert_array_equal(
        alone, [[cls, 11, 12, 13, 14, 15, 16, sep], [cls, 11, sep, 0, 0, 0, 0, 0]]
    )


@pytest.mark.long
def test_the_hub_object():
    module = hub.Preprocessing(FullTokenizer(str(DATA / "vocab.txt")), seq_length=6)
    special = {k: int(v) for k, v in module.tokenize.get_special_tokens_dict().items()}
    assert (special.pop("vocab_size"), special.pop("padding_id")) == (1542, 0)
    assert special.keys() == {"start_of_sequence_id", "end_of_segment_id", "mask_id"}
    pieces = module.tokenize(tf.constant(["the cat", "a"]))
    assert module(tf.constant(["the cat", "a"]))["input_word_ids"].shape == (2, 6)
    assert module.bert_pack_inputs([pieces, pieces])["input_mask"].shape == (2, 6)
    longer = module.bert_pack_inputs([pieces], seq_length=tf.constant(9))
    assert longer["input_type_ids"].shape == (2, 9)


def test_a_missing_vocabulary():
    with refuses("nowhere"):
        both("nowhere.model", True)


TEXTS = ["Le café est fermé à Orléans", "Émile Café né", "แฟ้มนี้มีขนาดเล็ก", "फ़ाइल का नाम सही है"]
TEXTS += ["שָׁלוֹם עֲלֵיכֶם", "  indented\n      text \n     here", "½½½½"]
TEXTS += ["nbsp too and zero\u200bwidth, soft\xadly", "and the \ufeffcount \u200b\u200bshrugged"]


def test_pieces_stand_for_the_same_characters_as_in_the_scripts():
    """So answers in a paragraph are cut out at the same places."""
    tokenizer = FullTokenizer(spm_model_file=str(DATA / "spm_uncased.model"))
    texts = [unicodedata.normalize(form, text) for form in ("NFC", "NFD") for text in TEXTS]
    graph, settings = graph_tokenization.GraphTokenizer(tokenizer), WindowSettings(32, 16, 8)
    questions = tf.constant(["who"] * len(texts))
    found = graph_inputs.Paragraphs(graph, settings)(questions, tf.constant(texts))
    for number, text in enumerate(texts):
        ends = found.char_ends[number].numpy()
        spans = zip(found.char_starts[number].numpy(), ends, strict=True)
        aligned = alignment.align(text, tokenizer)
        paragraph = aligned.paragraph if aligned else alignment.Paragraph(*[np.array([], int)] * 3)
        expected = zip(paragraph.starts, paragraph.ends + 1, strict=True)
        assert [text[a:b].strip() for a, b in spans] == [text[a:b].strip() for a, b in expected]
