# SPDX-License-Identifier: Apache-2.0
"""train_sentencepiece.py: the release's options, the forms of text, what is left out, mistakes."""

import gzip
import json
import re
import signal
import unicodedata
from pathlib import Path

import pytest
import sentencepiece

import create_pretraining_data
from albert_tf import vocabulary_record
from albert_tf.checkpoints import source
from albert_tf.cli import train_sentencepiece
from albert_tf.errors import UserError
from albert_tf.options import SentencePiece
from albert_tf.records import record_files
from albert_tf.text import clean_up, sentencepiece_training
from albert_tf.text.sentencepiece_training import Sample, train
from albert_tf.text.tokenization import FullTokenizer, preprocess_text
from tests import ROOT, tiny
from tests.errors import assert_error, assert_names, assert_says, refuses


@pytest.fixture(scope="module")
def sentences():
    """Some hundred lines of prose that lie in the repository."""
    text = (ROOT / "LICENSE").read_text().split(".")
    return [" ".join(sentence.split()) for sentence in text if sentence.strip()]


def test_the_model_has_the_options_of_the_release(tmp_path, run_main, capsys, sentences):
    source, prefix = tmp_path / "text.txt.gz", tmp_path / "new" / "spm"
    text = "\r\n\r\n".join(sentences).encode()
    source.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    run_main(train_sentencepiece, input_file=source, model_prefix=prefix, vocab_size=300)
    written = sorted(path.name for path in prefix.parent.iterdir())
    assert written == ["spm.model", "spm.vocab"]
    count = len(sentences)
    output = capsys.readouterr().out
    assert f"training on {count} of {count} usable sentences; " in output
    assert_says(output, f"{prefix}.model: ... --do_lower_case=true --strip_accents=false")

    model = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    assert len(model) == 300
    pieces = [model.id_to_piece(i) for i in range(13)]
    assert pieces == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *'()"-.–£€']
    assert [model.is_control(i) for i in range(6)] == [True, False, True, True, True, False]
    assert (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()) == (0, 1, -1, -1)
    assert "[MASK]" not in model.encode("[MASK]", out_type=str)
    # A symbol of its own is a piece of its own.
    assert "." in model.encode("the work.", out_type=str)
    assert not any(re.search("[A-Z]", model.id_to_piece(i)) for i in range(5, 300))
    rows = tiny.table(prefix.with_suffix(".vocab"))
    assert [piece for piece, _ in rows] == [model.id_to_piece(i) for i in range(300)]
    assert rows[0][1] == rows[1][1] == "0" and all(float(score) <= 0 for _, score in rows)
    assert FullTokenizer(spm_model_file=f"{prefix}.model").special_ids().mask == 4

    # The form of the file does not matter, and a second time gives the same bytes.
    lowered = [preprocess_text(sentence, lower=True) for sentence in sentences]
    model = train(lowered, SentencePiece(vocab_size=300))
    model = vocabulary_record.add(model, clean_up.CleanUp(strip_accents=False))
    assert model == prefix.with_suffix(".model").read_bytes()


@pytest.fixture
def read(tmp_path, monkeypatch, run_main):
    """What the trainer is given of a file: read(content, flag=value, ...) -> its sentences."""

    def run(content, **values):
        found, path = [], tmp_path / "a"

        def train(sentences, *_):
            found.extend(sentences)
            raise UserError("enough")

        path.write_bytes(content)
        monkeypatch.setattr(sentencepiece_training, "train", train)
        with refuses("enough"):
            run_main(train_sentencepiece, input_file=path, model_prefix=tmp_path / "spm", **values)
        return found

    return run


def test_the_text_is_cleaned_as_it_is_for_records(read):
    content = "Ein É.\n\n \nZwei  ﬁ\n".encode()
    assert read(content) == ["ein e\u0301.", "zwei fi"]  # a new vocabulary keeps accents
    assert read(content, strip_accents=True) == ["ein e.", "zwei fi"]
    assert read(content, strip_accents=True, do_lower_case=False) == ["Ein E.", "Zwei fi"]
    assert read(b"one\ncaf\xe9\n", on_decode_error="skip") == ["one"]


def test_documents_are_split_and_lines_left_out(read, tmp_path, run_main, capsys):
    pytest.importorskip("sentence_splitter", reason="needs the extra documents")
    values = {"input_format": "jsonl", "on_decode_error": "skip"}
    assert read(b'{"text": "one"}\n{"text": null}\n{}\ncaf\xe9\n', **values) == ["one"]
    printed = capsys.readouterr().out
    assert_says(printed, "warning ... 2 of 4 ... --text_key", "warning ... 1 of 4 ... UTF-8")
    values["text_key"] = "body"
    places = {"input_file": tmp_path / "a", "model_prefix": tmp_path / "spm"}
    with refuses("3 ... --text_key"):
        run_main(train_sentencepiece, **values | places)
    content = json.dumps({"body": "One thing. Another one."}).encode()  # which are split
    assert read(content, **values) == ["one thing.", "another one."]


def test_what_is_left_out_is_counted(sentences):
    syllables = unicodedata.normalize("NFKD", "한" * 1000)  # of 3 bytes each, in the file
    given = [syllables, *sentences, "é" * 1500, "é" * 1501, "a▅b", ""]
    sample = Sample(given, SentencePiece(max_sentence_length=3000))
    assert (sample.read, sample.too_long, sample.reserved) == (len(sentences) + 2, 1, 1)
    assert sample.kept == given[:-3]
    model = train(sample.kept[:1], SentencePiece(vocab_size=17, max_sentence_length=3000))
    assert "한" in sentencepiece_training.vocabulary_text(model)
    assert list(sample.left_out().values()) == [1, 1]
    assert_names("".join(sample.left_out()), "--max_sentence_length=3000 ... documents ... '▅'")
    split = Sample(given, SentencePiece(max_sentence_length=3000), is_split=True)
    assert "--input_format" not in "".join(split.left_out())


@pytest.mark.parametrize(
    ("size", "others", "message"),
    [
        (90000, {}, "--vocab_size=90000"),
        (20, {}, "--vocab_size=20"),
        (60, {"max_sentence_length": 10}, "--input_file ... --max_sentence_length=10"),
    ],
)
def test_mistakes_are_explained(sentences, size, others, message):
    with refuses(message):
        options = SentencePiece(vocab_size=size, **others)
        train(Sample([line for line in sentences if line[10:]], options).kept, options)


def test_the_seed_decides_which_sentences_of_a_large_text_are_taken():
    text = [f"sentence {n}" for n in range(1000)]
    chosen = [Sample(text, SentencePiece(input_sentence_size=200, seed=s)) for s in (1, 1, 2)]
    kept = [sample.kept for sample in chosen]
    assert kept[0] == kept[1] != kept[2]
    assert chosen[0].read == 1000
    for sentences in kept:
        assert len(set(sentences)) == 200
        assert set(sentences) <= set(text)
        assert 60 < sum(sentence in text[:500] for sentence in sentences) < 140  # 6 deviations


def test_nothing_is_written_if_something_is_wrong(tmp_path, launched):
    handler = signal.getsignal(signal.SIGINT)
    text = tmp_path / "text.txt"
    text.write_text("one two three\n" * 200)
    values = {"input_file": text, "model_prefix": tmp_path / "spm"}
    assert_error(launched(train_sentencepiece, vocab_size=90000, **values), "--vocab_size=90000")
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    assert signal.getsignal(signal.SIGINT) == handler


# --- Choices of a language ------------------------------------------------------------------------

TURKISH = [f"İPTAL SIRA {word} ığdır bir kapı, {word} ılık." for word in ("su", "ev", "göz", "çay")]


@pytest.fixture
def files(tmp_path):
    """Writes a text: files(lines) -> flags of the text and of the model that is made of it."""

    def write(lines):
        (tmp_path / "a.txt").write_text("\n".join(lines))
        return {"input_file": tmp_path / "a.txt", "model_prefix": tmp_path / "spm"}

    return write


def test_records_go_by_the_record_of_the_vocabulary(files, tmp_path, run_main, capsys):
    given = files([*TURKISH, "", *(line.lower() for line in TURKISH)])
    text, prefix = given.values()
    run_main(train_sentencepiece, **given, casing_language="tr", vocab_size=41)
    assert_says(capsys.readouterr().out, f"{prefix}.model ... --casing_language=tr")
    facts = source.of_vocabulary({"spm_model_file": f"{prefix}.model"})
    told = {name: fact.value for name, fact in facts.items()}
    assert told == {"do_lower_case": True, "strip_accents": False}
    values = dict(input_file=text, output_file=tmp_path / "a.tfrecord", max_seq_length=64)
    values |= dict(spm_model_file=f"{prefix}.model", dupe_factor=1, word_start="piece")
    run_main(create_pretraining_data, **values)
    summary = json.loads(Path(record_files.summary_file(values["output_file"])).read_text())
    assert summary["tokenizer"]["strip_accents"] is False
    assert summary["text_losses"]["marks_dropped"] == {}
    tokenizer = FullTokenizer(**summary["tokenizer"])
    lowered = "iptal sıra su ığdır bir kapı, su ılık."
    assert tokenizer.normalize(TURKISH[0]) == tokenizer.normalize(lowered)
    with refuses("--strip_accents=true ... spm.model ... --strip_accents=false"):
        run_main(create_pretraining_data, strip_accents=True, **values)


def test_what_a_vocabulary_loses_is_said(files, run_main, capsys):
    given = files([*TURKISH, "パンダが ビルで えびを たべる", "می\u200cخواهم [SEP]"])
    given |= {"vocab_size": 58, "strip_accents": True, "character_coverage": 1.0}
    run_main(train_sentencepiece, **given)
    assert_says(
        capsys.readouterr().out,
        "3 marks of 5 KATAKANA ... --strip_accents=false",
        "--casing_language=tr",
        "U+200C ... --normalization_rule_name=nfkc",
        "[SEP] 1 times",
    )


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"user_defined_symbols": ["[MASK]"]}, "--user_defined_symbols ... [MASK]"),
        ({"user_defined_symbols": ["<URL>"]}, "--user_defined_symbols ... <URL> ... <url>"),
        ({"user_defined_symbols": ["a b"]}, "--user_defined_symbols ... a b"),
        ({"do_lower_case": False, "casing_language": "tr"},
         "--casing_language=tr ... --do_lower_case"),
    ],
)  # fmt: skip
def test_choices_without_an_effect(given, names, files, tmp_path, launched):
    assert_error(launched(train_sentencepiece, **files(TURKISH), **given), names)
    assert not [*tmp_path.glob("spm*")]


def test_a_symbol_may_be_composed(files, tmp_path, run_main):
    given = files(f"{n} 패키지 설치 {n % 7} 나는 패키지" for n in range(200))
    run_main(train_sentencepiece, **given, vocab_size=50, user_defined_symbols=["패키지"])
    tokenizer = FullTokenizer(spm_model_file=str(tmp_path / "spm.model"))
    (piece,) = [each for each in tokenizer.tokenize("패키지") if each != "▁"]
    assert unicodedata.normalize("NFC", piece) == "패키지"
