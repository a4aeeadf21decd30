# SPDX-License-Identifier: Apache-2.0
"""The demo's own parts: the corpus, its SentencePiece model, the curves."""

import collections
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

from albert_tf.training import history
from demo import make_corpus, plot_curves, train_sentencepiece
from tests import ROOT

DOCSTRING = """Fit the model to the data. It takes e.g. an array, i.e. numbers.

The ``weights`` come from :class:`~package.module.Model` and *matter* a lot,
as `the guide <https://example.org>`_ says. Is that so?

Args:
    data: An array. This table must not stay.

x : array_like
- A list item should not stay either.

Title Without Full Stop
-----------------------
Short one.
Call fit(data) to start the whole machinery.

>>> fit(1)
This is the output of the example above.

```
This is fenced code, not prose at all.
```
Last words, after all that code.
"""
SENTENCES = [
    "Fit the model to the data.",
    "It takes e.g. an array, i.e. numbers.",
    "The weights come from Model and matter a lot, as the guide says.",
    "Is that so?",
    "Last words, after all that code.",
]


def run_module(name, *arguments):
    """Runs a script of the demo as the Makefile does."""
    return subprocess.run(
        [sys.executable, "-m", f"demo.{name}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


# --- corpus ---------------------------------------------------------------------------------------


def test_prose_stays_and_everything_else_is_counted():
    counts = collections.Counter()
    assert make_corpus.sentences(DOCSTRING, counts) == [
        sentence for sentence in SENTENCES if len(sentence.split()) >= 4
    ]
    assert counts == {
        "sentences dropped: fewer than 4 words": 2,  # "Is that so?", "Short one."
        "sentences dropped: code or formulas": 1,
        "sentences dropped: a title, a fragment or a lead-in": 2,  # "Args:", the title
        "lines dropped: code, tables, lists, underlines": 9,
    }


def test_docstrings_come_in_the_order_of_the_text():
    source = '''"""Module."""
if True:
    class A:
        """Class."""
        def f(self):
            """Method."""
            def g():
                """Inner."""
async def h():
    """Function."""
x = 1
"""No docstring."""
'''
    assert list(make_corpus.docstrings(source)) == [
        "Module.", "Class.", "Method.", "Inner.", "Function.",
    ]  # fmt: skip


def test_repeated_sentences_and_short_documents_go():
    counts = collections.Counter()
    documents = [["A a.", "B b."], ["a A.", "C c.", "D d."], ["B b.", "E e."], ["C c.", "D d."]]
    assert list(make_corpus.new_documents(documents, 2, counts)) == [
        ["A a.", "B b."],
        ["C c.", "D d."],
    ]
    assert counts == {
        "sentences dropped: repeated": 4,
        "documents dropped: fewer than 2 new sentences": 1,
        "documents dropped: duplicates": 1,
    }


def test_every_nth_document_is_held_out():
    training, heldout = make_corpus.split(list(range(10)), 4)
    assert heldout == [3, 7]
    assert training == [0, 1, 2, 4, 5, 6, 8, 9]


@pytest.fixture
def package(tmp_path):
    """A folder with 40 documents, a test, a vendored copy and a file that is no Python."""
    root = tmp_path / "packages"
    words = ["red", "green", "blue", "old", "new", "small", "large", "round"]
    for number in range(40):
        kind = f"{words[number % 8]} {words[number // 8]} thing of kind {number}"
        (root / f"p{number % 3}").mkdir(parents=True, exist_ok=True)
        (root / f"p{number % 3}" / f"m{number:02}.py").write_text(
            f'"""Here is the {kind}. It is not the only {kind}."""\nraise SystemExit("imported")\n'
        )
    for path in ("tests/test_x.py", "p0/test_y.py", "p0/_vendor/z.py"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text('"""This must not be read. It is a test or a copy."""\n')
    (root / "broken.py").write_text("print 'Python 2'\n")
    return root


def test_make_corpus(package, tmp_path):
    train, heldout = tmp_path / "out" / "train.txt", tmp_path / "out" / "heldout.txt"
    arguments = (f"--roots={package}", f"--train_file={train}", f"--heldout_file={heldout}")
    done = run_module("make_corpus", *arguments, "--heldout_every=10")
    assert done.returncode == 0, done.stderr
    assert "41 files\n" in done.stdout
    assert "1 files dropped: no Python 3\n" in done.stdout
    assert f"{train}: 36 documents, 72 sentences" in done.stdout
    assert f"{heldout}: 4 documents, 8 sentences" in done.stdout

    documents = train.read_text().split("\n\n")
    assert len(documents) == 36
    # Sorted by folder and file: p0/m00.py is first.
    assert documents[0].splitlines() == [
        "Here is the red red thing of kind 0.",
        "It is not the only red red thing of kind 0.",
    ]
    kinds = [set(re.findall(r"kind (\d+)", path.read_text())) for path in (train, heldout)]
    assert len(kinds[1]) == 4
    assert not kinds[0] & kinds[1]
    assert "must not be read" not in train.read_text() + heldout.read_text()

    first = train.read_bytes(), heldout.read_bytes()
    run_module("make_corpus", *arguments, "--heldout_every=10")
    assert (train.read_bytes(), heldout.read_bytes()) == first
    assert sorted(path.name for path in train.parent.iterdir()) == ["heldout.txt", "train.txt"]


@pytest.mark.parametrize(
    "roots, message", [("nowhere", "'nowhere' is not a folder"), ("demo", "none left to hold out")]
)
def test_make_corpus_says_what_is_wrong(tmp_path, monkeypatch, roots, message):
    train, heldout = str(tmp_path / "train.txt"), str(tmp_path / "heldout.txt")
    monkeypatch.chdir(ROOT)
    flags.FLAGS.mark_as_parsed()
    with (
        flagsaver.flagsaver(
            (make_corpus._ROOTS, [roots]),
            (make_corpus._TRAIN_FILE, train),
            (make_corpus._HELDOUT_FILE, heldout),
            (make_corpus._HELDOUT_EVERY, 1000),
        ),
        pytest.raises(SystemExit, match=message),
    ):
        make_corpus.main([])
    assert not list(tmp_path.iterdir())


# --- SentencePiece --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sentences():
    """Some hundred lines of prose that lie in the repository."""
    text = (ROOT / "LICENSE").read_text().split(".")
    return [" ".join(sentence.split()) for sentence in text if sentence.strip()]


def test_sentencepiece_options(tmp_path, sentences):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(sentences))
    prefix = tmp_path / "new" / "spm"
    read = list(train_sentencepiece.read_sentences([str(text)], do_lower_case=True))
    assert len(read) == len(sentences)
    train_sentencepiece.train(read, str(prefix), 300, seed=1)
    assert sorted(path.name for path in prefix.parent.iterdir()) == ["spm.model", "spm.vocab"]

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

    train_sentencepiece.train(read, str(tmp_path / "again"), 300, seed=1)
    assert (tmp_path / "again.vocab").read_text() == Path(f"{prefix}.vocab").read_text()


def test_sentencepiece_keeps_case_if_asked(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Ein É.\n\n \nZwei\n")
    read = train_sentencepiece.read_sentences
    assert list(read([str(path)], do_lower_case=False)) == ["Ein E.", "Zwei"]
    assert list(read([str(path)], do_lower_case=True)) == ["ein e.", "zwei"]


def test_sentencepiece_says_what_is_wrong(tmp_path, sentences):
    with pytest.raises(ValueError, match=r"--vocab_size=90000: .* Lower it"):
        train_sentencepiece.train(sentences, str(tmp_path / "spm"), 90000, seed=1)
    assert list(tmp_path.iterdir()) == []
    done = run_module(
        "train_sentencepiece",
        f"--input_file={tmp_path}/nothing*.txt",
        f"--model_prefix={tmp_path}/spm",
    )
    assert done.returncode == 1
    assert "--input_file: no file matches" in done.stderr
    assert "Traceback" not in done.stderr


# --- curves ---------------------------------------------------------------------------------------


@pytest.fixture
def run_dir(tmp_path):
    """The history and the checkpoint names of a run of four steps."""
    lines, names = history.History(str(tmp_path), 0), tuple(plot_curves.FIGURES)
    for step in (2, 4):
        for kind, offset in (("train", 0), ("eval", 0.5)):
            figures = {name: n + offset + step / 100 for n, name in enumerate(names)}
            rate = {"learning_rate": 0.1} if kind == "train" else {}
            lines.write(step, kind, figures | rate)
    for name in ("model.ckpt-2.index", "model.ckpt-10.index", "model.ckpt-10.data-00000-of-00001"):
        (tmp_path / name).touch()
    return tmp_path


def test_plot_curves(run_dir):
    png, text = run_dir / "plots" / "curves.png", run_dir / "plots" / "summary.txt"
    done = run_module(
        "plot_curves", f"--run_dir={run_dir}", f"--png_file={png}", f"--summary_file={text}"
    )
    assert done.returncode == 0, done.stderr
    assert tf.io.decode_png(png.read_bytes()).shape[:2] == (960, 1200)
    assert done.stdout == text.read_text()
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[-3:] for line in lines[:3]] == [
        ["0.5400", "(step", "4)"],
        ["1.5400", "(step", "4)"],
        ["2.5400", "(step", "4)"],
    ]
    assert lines[3] == ["Checkpoint", str(run_dir / "model.ckpt-10")]
    assert lines[4] == ["Curves", str(png)]


def test_plot_curves_says_what_is_wrong(run_dir):
    path = run_dir / history.FILE
    path.write_text("".join(row for row in path.open() if ",eval," not in row))
    png = run_dir / "curves.png"
    flags.FLAGS.mark_as_parsed()
    with (
        flagsaver.flagsaver((plot_curves._RUN_DIR, run_dir), (plot_curves._PNG_FILE, str(png))),
        pytest.raises(SystemExit, match=r"no loss, .*, sentence_order_accuracy .*rows of eval in"),
    ):
        plot_curves.main([])
    assert not png.exists()


# --- Makefile -------------------------------------------------------------------------------------


def test_the_model_fits_the_numbers_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    config = json.loads((ROOT / "demo" / "albert_config.json").read_text())
    vocab_size = int(re.search(r"^VOCAB_SIZE := (\d+)", makefile, re.MULTILINE)[1])
    assert config["vocab_size"] == vocab_size
    sequence = int(re.search(r"--max_seq_length=(\d+)", makefile)[1])
    assert config["max_position_embeddings"] >= sequence
