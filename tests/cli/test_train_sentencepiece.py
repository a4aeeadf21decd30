# SPDX-License-Identifier: Apache-2.0
"""train_sentencepiece.py: the release's options, the forms of text, what is left out, mistakes."""

import gzip
import json
import re
import signal

import pytest
import sentencepiece

from albert_tf.cli import train_sentencepiece
from albert_tf.errors import UserError
from albert_tf.options import SentencePiece
from albert_tf.text import sentencepiece_training
from albert_tf.text.sentencepiece_training import Sample, train, vocabulary_text
from albert_tf.text.tokenization import FullTokenizer, preprocess_text
from tests import ROOT


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
    assert f"training on {count} of {count} sentences; " in output
    assert f"{prefix}.model: 300 pieces\n" in output

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
    lines = prefix.with_suffix(".vocab").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == [model.id_to_piece(i) for i in range(300)]
    assert FullTokenizer(spm_model_file=f"{prefix}.model").special_ids().mask == 4

    # The form of the file does not matter, and a second time gives the same bytes.
    lowered = [preprocess_text(sentence, lower=True) for sentence in sentences]
    model = train(lowered, SentencePiece(vocab_size=300))
    assert model == prefix.with_suffix(".model").read_bytes()


def read(path, content, monkeypatch, run_main, **values):
    """What the trainer is given of a file."""
    found = []

    def train(sentences, *_):
        found.extend(sentences)
        raise UserError("enough")

    path.write_bytes(content)
    monkeypatch.setattr(sentencepiece_training, "train", train)
    with pytest.raises(UserError, match="enough"):
        run_main(
            train_sentencepiece, input_file=path, model_prefix=path.parent / "out/spm", **values
        )
    return found


def test_the_text_is_cleaned_as_it_is_for_records(tmp_path, monkeypatch, run_main):
    path, content = tmp_path / "a", "Ein É.\n\n \nZwei  ﬁ\n".encode()
    assert read(path, content, monkeypatch, run_main) == ["ein e.", "zwei fi"]
    cased = read(path, content, monkeypatch, run_main, do_lower_case=False)
    assert cased == ["Ein E.", "Zwei fi"]
    skipped = read(path, b"one\ncaf\xe9\n", monkeypatch, run_main, on_decode_error="skip")
    assert skipped == ["one"]


def test_documents_are_split(tmp_path, monkeypatch, run_main):
    pytest.importorskip("sentence_splitter", reason="needs the extra documents")
    content = json.dumps({"body": "One thing. Another one."}).encode()
    values = {"input_format": "jsonl", "text_key": "body"}
    found = read(tmp_path / "a", content, monkeypatch, run_main, **values)
    assert found == ["one thing.", "another one."]


def test_what_is_left_out_is_counted(sentences):
    given = [*sentences, "é" * 1500, "é" * 1501, "a▅b", ""]
    sample = Sample(given, SentencePiece(max_sentence_length=3000))
    assert (sample.read, sample.too_long, sample.reserved) == (len(sentences) + 1, 1, 1)
    assert sample.kept == given[:-3]
    assert "1 longer than --max_sentence_length=3000 bytes (text without" in sample.left_out()
    split = Sample(given, SentencePiece(max_sentence_length=3000), is_split=True)
    assert "1 longer than --max_sentence_length=3000 bytes;" in split.left_out()
    assert "1 with '▅'" in sample.left_out()


@pytest.mark.parametrize(
    ("size", "others", "message"),
    [
        (90000, {}, r"--vocab_size=90000: this text gives at most \d+ pieces; lower it or give"),
        (20, {}, r"--vocab_size=20: \d\d pieces are needed just for the characters; give more"),
        (60, {"max_sentence_length": 10}, r"no sentence to train on; left out: \d+ longer than"),
    ],
)
def test_mistakes_are_explained(sentences, size, others, message):
    with pytest.raises(UserError, match=message):
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
    done = launched(train_sentencepiece, vocab_size=90000, **values)
    assert done.returncode == 1
    assert "train_sentencepiece: error: --vocab_size=90000: this text gives" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    assert signal.getsignal(signal.SIGINT) == handler


def test_the_vocabulary_file_has_pieces_and_scores(sentences):
    model = train(list(sentences), SentencePiece(vocab_size=150))
    rows = [row.split("\t") for row in vocabulary_text(model).splitlines()]
    assert rows[:2] == [["<pad>", "0"], ["<unk>", "0"]]
    assert all(float(score) <= 0 for _, score in rows)
