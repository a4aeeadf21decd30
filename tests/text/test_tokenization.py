# SPDX-License-Identifier: Apache-2.0
import json
import multiprocessing
import sys
import types
import unicodedata

import numpy as np
import pytest

from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text import tokenization
from albert_tf.text.clean_up import CleanUp
from albert_tf.text.tokenization import FullTokenizer, SpecialIds, preprocess_text
from tests import SHARED
from tests.errors import refuses
from tests.text import languages
from tests.text.conftest import DATA

TABLE = json.loads((DATA / "table.json").read_text(encoding="utf-8"))

SPM_MODELS = ["spm_uncased", "spm_cased"]
SPM_TEXTS = ["raw", "preprocess_lower_True", "preprocess_lower_False"]


# --- Every row of the original's table ---


@pytest.mark.parametrize("model", SPM_MODELS)
@pytest.mark.parametrize("kind", SPM_TEXTS)
def test_sentencepiece_rows(model, kind):
    tokenizer = FullTokenizer(spm_model_file=str(DATA / f"{model}.model"))
    assert len(TABLE[model]) == len(TABLE["strings"]) == 230
    for row in (row[kind] for row in TABLE[model]):
        text = row["text"]
        assert tokenizer.tokenize(text, is_normalized=True) == row["pieces"], text
        assert tokenizer.convert_tokens_to_ids(row["pieces"]) == row["ids"], text
        assert tokenizer.encode_ids(text, is_normalized=True) == row["encode_ids"], text


@pytest.mark.parametrize("model", SPM_MODELS)
def test_preprocess_rows(model):
    for string, row in zip(TABLE["strings"], TABLE[model], strict=True):
        assert row["raw"]["text"] == string
        assert preprocess_text(string, lower=True) == row["preprocess_lower_True"]["text"]
        assert preprocess_text(string) == row["preprocess_lower_False"]["text"]
        kept = preprocess_text(string, lower=True, remove_space=False)
        assert kept == row["preprocess_keepspace_lower"]


@pytest.mark.parametrize("model", SPM_MODELS)
def test_sentencepiece_vocabulary(model):
    tokenizer = FullTokenizer(spm_model_file=str(DATA / f"{model}.model"))
    assert tokenizer.vocab_size == len(tokenizer.vocab) == TABLE[f"{model}_vocab_len"]
    assert list(tokenizer.vocab)[:20] == TABLE[f"{model}_first20"]
    lines = (DATA / f"{model}.vocab").read_text(encoding="utf-8").splitlines()
    assert list(tokenizer.vocab) == [line.split("\t")[0] for line in lines]
    assert list(tokenizer.vocab.values()) == list(range(tokenizer.vocab_size))


@pytest.mark.parametrize("vocab", ["vocab.txt", "vocab_quirks.txt"])
@pytest.mark.parametrize("lower", [True, False])
def test_wordpiece_rows(vocab, lower):
    tokenizer = FullTokenizer(str(DATA / vocab), do_lower_case=lower)
    rows = TABLE[f"wordpiece_{vocab}_lower_{lower}"]
    assert len(rows) == (7 if "quirks" in vocab else 230)
    for row in rows:
        text = row["text"]
        assert tokenization.basic_tokens(text, lower) == row["basic"], text
        assert tokenizer.tokenize(text, is_normalized=True) == row["pieces"], text
        assert tokenizer.convert_tokens_to_ids(row["pieces"]) == row["ids"], text
        assert tokenizer.encode_ids(text, is_normalized=True) == row["ids"], text


def test_vocabulary_quirks():
    vocab = tokenization.load_vocabulary(str(DATA / "vocab_quirks.txt"))
    assert list(vocab.items()) == [tuple(entry) for entry in TABLE["vocab_quirks_loaded"]]


# --- What the table does not have ---


def test_accents_that_stay():
    text = "Ещё  мой Ёж, Éclair ﬁ ế Αύριο"
    stripped = preprocess_text(text, lower=True)
    assert stripped == "еще мои еж, eclair fi e αυριο"
    kept = preprocess_text(text, lower=True, strip_accents=False)
    assert unicodedata.normalize("NFC", kept) == "ещё мой ёж, éclair fi ế αύριο"
    assert CleanUp(strip_accents=False).lines([text]) == [kept]
    assert tokenization.basic_tokens(text, strip_accents=False) == [
        "ещё", "мой", "ёж", ",", "éclair", "ﬁ", "ế", "αύριο",
    ]  # fmt: skip
    cased = tokenization.basic_tokens(text, lower=False)
    assert cased == tokenization.basic_tokens(text, lower=False, strip_accents=False)
    assert cased[:3] == ["Ещё", "мой", "Ёж"]


@pytest.mark.parametrize("strip_accents", [True, False])
def test_pieces_with_and_without_accents(tmp_path, strip_accents):
    model = languages.write_model(tmp_path / "spm", languages.TEXTS["russian"], strip_accents)
    tokenizer = FullTokenizer(spm_model_file=model, strip_accents=strip_accents)
    assert ("й" in tokenizer.vocab) is ("ё" in tokenizer.vocab) is not strip_accents
    text = "Мой зелёный чай"
    found = "".join(tokenizer.tokenize(text)).replace("▁", " ").strip()
    assert found == ("мои зеленыи чаи" if strip_accents else "мой зелёный чай")
    assert tokenizer.tokenize(unicodedata.normalize("NFD", text)) == tokenizer.tokenize(text)
    assert tokenizer.normalize_batch([text]) == [tokenizer.normalize(text)]
    same = FullTokenizer(spm_model_file=model)
    assert (tokenizer.fingerprint == same.fingerprint) is strip_accents


def test_a_number_is_encoded_again_without_its_comma():
    table = {"text": ["▁1▁2,", "²,", "a,", ",", "▁,"], "12": ["▁", "12"], "²": ["▁2"]}
    processor = types.SimpleNamespace(encode=lambda text, out_type: table[text])
    pieces = tokenization.encode_pieces(processor, "text")
    assert pieces == ["▁", "12", ",", "▁2", ",", "a,", ",", "▁,"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a\u00a0b\u2003c", "a b c"),  # white space beyond ASCII
        ("a\x05b\x00c", "abc"),  # control characters go
        ("a\U0001f4a9b", "a\U0001f4a9b"),  # an emoji is none
        ("ΟΔΟΣ ΑΣ", "οδος ας"),
    ],
)
def test_basic_tokens(text, tokens):
    assert tokenization.basic_tokens(text, lower=True) == tokens.split(" ")


def test_every_cjk_block_is_split_and_its_neighbours_are_not():
    first_and_last = [
        *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
        *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
    ]
    inside = {code for block in first_and_last for code in block}
    border = {code + step for code in inside for step in (-1, 1)}
    for code in inside | border:
        is_cjk = any(first <= code <= last for first, last in first_and_last)
        tokens = tokenization.basic_tokens(f"a{chr(code)}b", lower=False)
        assert (len(tokens) == 3) == is_cjk, hex(code)


def test_ids_there_and_back(tokenizer):
    pieces = tokenizer.tokenize("To Sherlock Holmes she is always THE woman.")
    ids = np.array(tokenizer.convert_tokens_to_ids(pieces))
    assert tokenizer.convert_ids_to_tokens(ids) == pieces
    assert tokenizer.inv_vocab == {id_: piece for piece, id_ in tokenizer.vocab.items()}


def test_normalize(spm, wordpiece):
    text = " Éa  B "
    assert spm.normalize(text) == "ea b"
    assert FullTokenizer(spm_model_file=spm.path, do_lower_case=False).normalize(text) == "Ea B"
    assert wordpiece.normalize(text) == wordpiece.normalize(text.encode() + b"\xff") == text
    assert wordpiece.tokenize(text.encode()) == wordpiece.tokenize(text)


def test_sentencepiece_wins_over_vocabulary(spm, wordpiece):
    both = FullTokenizer(str(DATA / "vocab.txt"), True, str(DATA / "spm_uncased.model"))
    assert both.is_sentencepiece and spm.is_sentencepiece and not wordpiece.is_sentencepiece
    assert both.vocab == spm.vocab


def test_tokenize_normalizes_by_itself(tokenizer):
    for string in TABLE["strings"]:
        normalized = tokenizer.normalize(string)
        assert tokenizer.tokenize(string) == tokenizer.tokenize(normalized, is_normalized=True)
        assert tokenizer.encode_ids(string) == tokenizer.encode_ids(normalized, is_normalized=True)


# --- Special pieces ---


def test_special_ids(tokenizer):
    assert tokenizer.special_ids() == SpecialIds(pad=0, cls=2, sep=3, mask=4)
    assert tokenizer.special_ids(with_mask=False) == tokenizer.special_ids()


@pytest.fixture
def released():
    """The model that goes with the table, to be changed."""
    return ModelProto.FromString((DATA / "spm_uncased.model").read_bytes())


def test_special_pieces_that_are_missing(released, tmp_path):
    path = tmp_path / "a.model"
    released.pieces[4].piece = "[mask]"
    path.write_bytes(released.SerializeToString())
    without_mask = FullTokenizer(spm_model_file=str(path))
    assert without_mask.special_ids(with_mask=False) == SpecialIds(0, 2, 3, None)
    with refuses("a.model ... [MASK] ... control_symb"):
        without_mask.special_ids()
    released.pieces[2].piece, released.pieces[3].piece = "[cls]", "[sep]"
    path.write_bytes(released.SerializeToString())
    plain = FullTokenizer(spm_model_file=str(path))
    assert "".join(plain.tokenize("the cat")) == "▁the▁cat"
    with refuses("a.model ... [CLS] ... [SEP] ... [MASK]"):
        plain.special_ids()
    words = tmp_path / "words.txt"
    words.write_text("[UNK]\n[CLS]\nword\n", encoding="utf-8")
    with refuses("words.txt ... [SEP]"):
        FullTokenizer(str(words)).special_ids(with_mask=False)


# --- Where words start ---


@pytest.mark.parametrize("piece", list('!"#$%&()*+,-./:;?@[\\]^_`{|}~'))
def test_single_mark_starts_a_word(piece, spm):
    assert spm.is_start_piece(piece)
    assert not spm.is_start_piece(piece + piece)


STARTS = ["▁the", "▁", "<unk>", "7", "s7", "é", "中", "€", "'", "=", ">", "a=", "a>", "a<", "n't"]
STARTS += ["<0xE3>", "<0x41>", "İ"]  # the last is two characters in lower case, one no letter
OTHERS = ["the", "THE", "a.b", "[CLS]", "<0x8F>", "<0xB0>"]
OTHERS += ["\u212a"]  # the Kelvin sign, k in lower case


@pytest.mark.parametrize("piece", STARTS + OTHERS)
def test_start_piece_of_sentencepiece(piece, spm):
    assert spm.is_start_piece(piece) is (piece in STARTS)
    assert tokenization.is_start_piece(piece) is (piece in STARTS)


@pytest.mark.parametrize(("piece", "starts"), [("##a", False), ("#", True), ("a", True)])
def test_start_piece_of_wordpiece(piece, starts, wordpiece):
    assert wordpiece.is_start_piece(piece) is starts
    assert tokenization.is_start_piece(piece, is_sentencepiece=False) is starts


# --- Workers ---


def encode_in_worker(tokenizer, text):
    return tokenizer.encode_ids(tokenizer.normalize(text)), "tensorflow" in sys.modules


def test_spawned_worker_encodes_without_tensorflow(spm, wordpiece):
    text = "In 2,000, he left"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        results = pool.starmap(encode_in_worker, [(spm, text), (wordpiece, text)])
    assert [ids for ids, _ in results] == [
        tokenizer.encode_ids(tokenizer.normalize(text)) for tokenizer in (spm, wordpiece)
    ]
    assert not any(has_tensorflow for _, has_tensorflow in results)


# --- Files ---


def test_files_are_read_through_gfile():
    import tensorflow as tf  # not on top: a spawned worker imports this file

    gfile = tf.io.gfile
    for name in ("spm_uncased.model", "vocab_quirks.txt"):
        gfile.copy(str(DATA / name), f"ram://{name}", overwrite=True)
    tokenizer = FullTokenizer(spm_model_file="ram://spm_uncased.model")
    assert tokenizer.encode_ids("the") == [tokenizer.vocab["▁the"]]
    assert len(tokenization.load_vocabulary("ram://vocab_quirks.txt")) == 14


def test_line_ends_only_at_a_newline(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("a\u2028b\nc\x0bd\n\u3000\nx\ry\r\ne".encode())
    assert tokenization.load_vocabulary(str(path)) == {"a": 0, "c": 1, " ": 2, "xy": 3, "e": 4}
    path.write_bytes(b"\xef\xbb\xbfa\n")  # with a byte order mark
    assert tokenization.load_vocabulary(str(path)) == {"a": 0}
    path.write_bytes(b"a\n\n")
    assert tokenization.load_vocabulary(str(path)) == {"a": 0, " ": 1}


@pytest.mark.parametrize("argument", ["vocab_file", "spm_model_file"])
def test_missing_file(argument, tmp_path):
    for path in (tmp_path / "absent.file", tmp_path):
        with refuses(f"{argument} ... {path}"):
            FullTokenizer(**{argument: str(path)})
    with refuses("spm_model_file ... vocab_file"):
        FullTokenizer(**{argument: ""})


@pytest.mark.parametrize("content", [b"", b"hello\nworld\n", b"\x0a\x05\x0a\x01a\x15\x00"])
def test_file_is_no_sentencepiece_model(content, tmp_path):
    path = tmp_path / "wrong.model"
    path.write_bytes(content)
    with refuses("wrong.model ... SentencePiece"):
        tokenization.load_sentencepiece(str(path))


def test_file_is_no_vocabulary(tmp_path):
    with refuses("spm_cased.model ... UTF-8 ... spm_model_file"):
        FullTokenizer(vocab_file=str(DATA / "spm_cased.model"))
    empty = tmp_path / "empty.txt"
    empty.touch()
    with refuses("empty.txt"):
        FullTokenizer(vocab_file=str(empty))


def test_tokens_that_are_not_in_the_vocabulary(spm, wordpiece):
    assert spm.convert_tokens_to_ids(["no such piece", "[MASK]"]) == [1, 4]
    with refuses("vocab.txt ... 'qwertz'"):
        wordpiece.convert_tokens_to_ids(["the", "qwertz"])


@pytest.mark.parametrize("id_", [-1, 3000])
def test_id_outside_vocabulary(id_, spm):
    with refuses(f"{id_} ... 0 ... 2999"):
        spm.convert_ids_to_tokens([5, id_])


def test_half_a_surrogate_pair(spm):
    with refuses("'a\\ud83d'"):
        spm.tokenize("a\ud83d")


# --- The published model ---


@pytest.mark.shared_data
def test_published_model():
    folder = SHARED / "data" / "spm"
    if not folder.is_dir():
        pytest.skip(f"needs the published 30k-clean model in {folder}")
    tokenizer = FullTokenizer(spm_model_file=str(folder / "30k-clean.model"))
    lines = (folder / "30k-clean.vocab").read_text(encoding="utf-8").split("\n")
    assert list(tokenizer.vocab) == [line.split("\t")[0] for line in lines if line]
    assert tokenizer.vocab_size == 30000
    assert tokenizer.special_ids() == SpecialIds(pad=0, cls=2, sep=3, mask=4)
    assert tokenizer.encode_ids(tokenizer.normalize("This is a test")) == [48, 25, 21, 1289]


# --- Files of the other kind ----------------------------------------------------------------------


def test_the_vocab_file_of_sentencepiece_is_recognised(tmp_path):
    path = tmp_path / "30k-clean.vocab"
    for text in ("<pad>\t0\n<unk>\t0\n▁the\t-3.5\n", "<unk>\t0\r\n,\t-2.5e-05\r\n"):
        path.write_text(text)
        with refuses("vocab_file ... 30k-clean.vocab ... .model ... spm_model_file"):
            FullTokenizer(vocab_file=str(path))
        with refuses("spm_model_file ... 30k-clean.vocab ... .model"):
            FullTokenizer(spm_model_file=str(path))
    path.write_text("[UNK]\t5\textra\nthe\n")  # the first field of a line is the token
    assert FullTokenizer(vocab_file=str(path)).vocab == {"[UNK]": 0, "the": 1}


def test_pieces_of_sentencepiece_are_no_wordpiece_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[UNK]\n▁the\n▁cat\ns\n")
    with refuses("vocab_file ... 2 of 4 ... vocab.txt ... spm_model_file"):
        FullTokenizer(vocab_file=str(path))
    path.write_text("\n".join(["[UNK]", "▁", *"abcdefgh"]))
    assert FullTokenizer(vocab_file=str(path)).vocab_size == 10  # the sign itself is a token
    path.write_text("\n".join(["[UNK]", "▁", *"abcdefg"]))
    with refuses("vocab_file ... 1 of 9 ... vocab.txt"):  # more than a tenth
        FullTokenizer(vocab_file=str(path))


@pytest.mark.parametrize(
    "text",
    [
        '{"[PAD]": 0, "[CLS]": 1}',
        '{\n "model": {"vocab": {"[CLS]": 0}}}',
        "token,id\n[PAD],0\n[CLS],1\n",
        "0\t[PAD]\n1\t[CLS]\n",
        "#version: 0.2\nĠ t\nĠ a\nh e\n",
        "<!DOCTYPE html>\n<p>\n",
    ],
)
def test_vocabularies_of_other_kinds_are_named(tmp_path, text):
    path = tmp_path / "vocab.txt"
    path.write_text(text, encoding="utf-8")
    begin = repr(text[:10])[1:-1]
    with refuses(f"vocab_file ... {path} ... {begin} ... spm_model_file"):
        FullTokenizer(vocab_file=str(path))
    path.write_text("[PAD]\t0\n[UNK]\t1\n[CLS]\t2\n", encoding="utf-8")  # ids in order
    assert FullTokenizer(vocab_file=str(path)).vocab_size == 3


def test_the_reason_of_sentencepiece_is_shown(released, tmp_path):
    path = tmp_path / "a.model"
    released.pieces[7].piece = twice = released.pieces[8].piece
    path.write_bytes(released.SerializeToString())
    with refuses(f"spm_model_file ... a.model ... {twice} is already defined"):
        FullTokenizer(spm_model_file=str(path))


def test_a_vocabulary_that_marks_the_ends_of_words_is_refused(released, tmp_path):
    path = tmp_path / "spm.model"
    released.trainer_spec.treat_whitespace_as_suffix = True
    path.write_bytes(released.SerializeToString())
    with refuses(path):
        FullTokenizer(spm_model_file=str(path))
