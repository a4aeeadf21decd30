# SPDX-License-Identifier: Apache-2.0
"""Clean-up by language, and its record in SentencePiece models: in Python and in a graph."""

import dataclasses
import json
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf

from albert_tf import vocabulary_record
from albert_tf.options import SentencePiece
from albert_tf.publish import graph_tokenization
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text import sentencepiece_training
from albert_tf.text.clean_up import CleanUp
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN
from tests.errors import refuses
from tests.text.languages import LANGUAGE_LINES, LANGUAGE_SETTINGS, REORDERED, model_of_letters

RELEASED = GOLDEN / "tokenization" / "spm_uncased.model"

# The conditional mappings of Unicode's SpecialCasing.txt, and words that need them.
TURKISH = {
    "İPTAL SIRA ILIK İnce Iğdır": "iptal sıra ılık ince ığdır",
    "I\u0307 I\u0323\u0307 I\u0301\u0307": "i i\u0323 ı\u0301\u0307",  # a mark above comes between
    "i ı İI Iİ": "i ı iı ıi",
    "TITLE I": "tıtle ı",
}
LITHUANIAN = {
    "I\u0300 J\u0303 Į\u0301": "i\u0307\u0300 j\u0307\u0303 į\u0307\u0301",
    "Ì Í Ĩ": "i\u0307\u0300 i\u0307\u0301 i\u0307\u0303",
    "I J Į Ì": "i j į i\u0307\u0300",
    "I\u0323\u0301": "i\u0323\u0307\u0301",
}
CASES = [(language, *case) for language in ("tr", "az") for case in TURKISH.items()]
CASES += [("lt", *case) for case in LITHUANIAN.items()]


@pytest.mark.parametrize("decomposes", [True, False])
@pytest.mark.parametrize(("language", "text", "expected"), CASES)
def test_casing_of_a_language(language, text, expected, decomposes):
    found = CleanUp(True, False, decomposes, language)
    assert unicodedata.normalize("NFC", found(text)) == unicodedata.normalize("NFC", expected)
    assert found.lines([text, "", text]) == [found(text), "", found(text)]
    # Capitals are the only difference to other languages.
    lowered = CleanUp(True, False, decomposes)(expected)
    assert found(expected) == lowered == found(lowered)


def test_casing_comes_before_accents_go():
    assert CleanUp(casing_language="tr")("İPTAL SIRA Ğ ç ﬁ") == "iptal sıra g c fi"
    assert CleanUp(casing_language="lt")("Ì Į\u0301 JI") == "i i ji"
    assert CleanUp(False, True, casing_language="tr")("İPTAL SIRA") == "IPTAL SIRA"


@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity"])
@pytest.mark.parametrize("settings", LANGUAGE_SETTINGS)
def test_python_and_graph_agree(settings, rule, tmp_path):
    path = tmp_path / "spm.model"
    options = {"user_defined_symbols": ["<url>"], "byte_fallback": settings["strip_accents"]}
    cleaning = model_of_letters(path, settings, normalization_rule_name=rule, **options)
    tokenizer = FullTokenizer(spm_model_file=str(path))
    assert tokenizer.clean_up == cleaning
    graph = graph_tokenization.GraphTokenizer(tokenizer)
    lines = [*LANGUAGE_LINES, *REORDERED]
    found = graph.tokenize(tf.constant(lines)).to_list()
    for text, ids in zip(lines, found, strict=True):
        assert ids == tokenizer.encode_ids(text), text
        assert "<url>" not in text or tokenizer.tokenize(text).count("<url>") == 2
    pieces = graph.tokenize_with_offsets(tf.constant(LANGUAGE_LINES))
    for text, starts, ends in zip(LANGUAGE_LINES, *(v.to_list() for v in pieces[1:]), strict=True):
        covered = "".join(text[a:b] for a, b in zip(starts, ends, strict=True))
        lost = set("".join(text.split())) - set(covered)
        # Characters that become a space, and a mark that comes to stand before a dropped one.
        assert starts == sorted(starts) and lost <= {"\u200b", "\u00a8", "\u0323"}


def test_the_record_is_in_the_file(tmp_path):
    path = tmp_path / "spm.model"
    cleaning = CleanUp(True, False, casing_language="tr")
    path.write_bytes(vocabulary_record.add(RELEASED.read_bytes(), cleaning))
    tokenizer = FullTokenizer(spm_model_file=str(path))
    assert tokenizer.clean_up == cleaning
    assert (tokenizer.do_lower_case, tokenizer.strip_accents) == (True, False)
    assert tokenizer.casing == {"do_lower_case": True, "strip_accents": False}
    assert FullTokenizer(**tokenizer.arguments).fingerprint == tokenizer.fingerprint
    released = FullTokenizer(spm_model_file=str(RELEASED), strip_accents=False)
    assert released.fingerprint != tokenizer.fingerprint
    composed = FullTokenizer(spm_model_file=str(path))
    composed.clean_up = dataclasses.replace(cleaning, decomposes=False)
    assert composed.fingerprint != tokenizer.fingerprint
    # SentencePiece takes no notice, and keeps it.
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert processor.serialized_model_proto() == path.read_bytes()
    assert processor.encode("the cat") == released._processor.encode("the cat")
    proto = ModelProto.FromString(path.read_bytes())
    assert vocabulary_record.read(proto.SerializeToString(), "x")["casing_language"] == "tr"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strip_accents": True}, "strip_accents=True ... spm.model ... strip_accents=False"),
        ({"do_lower_case": False}, "do_lower_case=False ... spm.model ... do_lower_case=True"),
    ],
)
def test_a_record_is_not_contradicted(given, message, tmp_path):
    path = tmp_path / "spm.model"
    path.write_bytes(vocabulary_record.add(RELEASED.read_bytes(), CleanUp(True, False)))
    with refuses(message):
        FullTokenizer(spm_model_file=str(path), **given)
    FullTokenizer(spm_model_file=str(path), **{name: not value for name, value in given.items()})


@pytest.mark.parametrize(
    "values", [{}, {"do_lower_case": 1}, None, {"strip_accents": True, "casing_language": "tr"}]
)
def test_a_record_of_a_later_version(values):
    known = {"do_lower_case": True, "strip_accents": True, "casing_language": "xx"}
    values = known if values == {} else values
    content = b"{" if values is None else json.dumps(values).encode()
    model = ModelProto(clean_up=content).SerializeToString()
    with refuses("spm_model_file ... a.model ... clean-up"):
        vocabulary_record.read(model, "a.model")


@pytest.mark.parametrize(
    "text", ["한국어로 번역한 글", "Tiếng Việt có dấu", "ガラスの パンダが ビルで えびを たべる"]
)
def test_text_is_not_decomposed_without_a_table(text, tmp_path):
    """As for vocabularies that were trained elsewhere with normalization_rule_name=identity."""
    lines = [line.lower() for line in (text, *text.split()) * 9]
    characters = len(set("".join(lines)))
    for rule, strip_accents, unknown in [
        ("identity", False, 0), ("nmt_nfkc", False, 0), ("identity", True, None),
    ]:  # fmt: skip
        options = SentencePiece(
            vocab_size=characters + 16, character_coverage=1.0, normalization_rule_name=rule
        )
        path = tmp_path / f"{rule}.model"
        path.write_bytes(sentencepiece_training.train(list(lines), options))
        tokenizer = FullTokenizer(spm_model_file=str(path), strip_accents=strip_accents)
        assert tokenizer.clean_up.decomposes is (rule != "identity" or strip_accents)
        found = tokenizer.encode_ids(text).count(1)
        assert found == unknown if unknown is not None else found > 0
