# SPDX-License-Identifier: Apache-2.0
"""The demo's own parts: the corpus, what the model is shown to do."""

import collections
import json
import re

import pytest
from absl import flags
from absl.testing import flagsaver

from albert_tf.training import history
from demo import make_corpus, show_model
from tests import ROOT, tiny

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


def run_main(module, **values):
    """Runs a script of the demo in this process, with values of its flags."""
    flags.FLAGS.mark_as_parsed()
    given = [(getattr(module, f"_{name.upper()}"), value) for name, value in values.items()]
    with flagsaver.flagsaver(*given):
        module.main([])


def test_prose_stays_and_everything_else_is_counted():
    counts = collections.Counter()
    assert make_corpus.sentences(DOCSTRING, counts) == [
        "Fit the model to the data.",
        "It takes e.g. an array, i.e. numbers.",
        "The weights come from Model and matter a lot, as the guide says.",
        "Last words, after all that code.",
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
    texts = [["A a.", "B b."], ["a A.", "C c.", "D d."], ["B b.", "E e."], ["C c.", "D d."]]
    documents = [make_corpus.Document("p", text) for text in texts]
    assert list(make_corpus.new_documents(documents, 2, counts)) == [
        ("p", ["A a.", "B b."]),
        ("p", ["C c.", "D d."]),
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


def test_make_corpus(package, tmp_path, capsys):
    train, heldout = tmp_path / "out" / "train.txt", tmp_path / "out" / "heldout.txt"
    files = {"train_file": str(train), "heldout_file": str(heldout)}
    run_main(make_corpus, roots=[str(package)], heldout_every=10, **files)
    said = capsys.readouterr().out
    assert "41 files\n" in said and "1 files dropped: no Python 3\n" in said
    assert f"{train}: 36 documents, 72 sentences" in said
    assert f"{heldout}: 4 documents, 8 sentences" in said

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
    run_main(make_corpus, roots=[str(package)], heldout_every=10, **files)
    assert (train.read_bytes(), heldout.read_bytes()) == first
    assert sorted(path.name for path in train.parent.iterdir()) == ["heldout.txt", "train.txt"]


def test_labelled_documents_are_spread_over_the_largest_packages(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_corpus, "_LABELS", 2)
    monkeypatch.setattr(make_corpus, "_MOST_PER_LABEL", {"train": 3, "dev": 1})
    documents = [
        make_corpus.Document(package, [f"{package} {number}.", "Second."])
        for package, count in (("a", 7), ("b", 1), ("c", 2))
        for number in range(count)
    ]
    make_corpus.write_labelled(str(tmp_path), {"train": documents, "dev": documents[::-1]})
    assert (tmp_path / "train.tsv").read_text().splitlines() == [
        "text\tpackage", "a 0. Second.\ta", "a 2. Second.\ta", "a 4. Second.\ta",
        "c 0. Second.\tc", "c 1. Second.\tc",
    ]  # fmt: skip
    assert (tmp_path / "dev.tsv").read_text().splitlines() == [
        "text\tpackage", "a 6. Second.\ta", "c 1. Second.\tc",
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/train.tsv: a 3, c 2", f"{tmp_path}/dev.tsv: a 1, c 1",
    ]  # fmt: skip


def test_the_package_of_a_file_is_what_lies_in_the_root(package):
    (package / "p0" / "deeper").mkdir()
    (package / "p0" / "deeper" / "m.py").touch()
    found = {
        path[len(str(package)) + 1 :]: name for name, path in make_corpus.source_files([package])
    }
    assert found["p0/m00.py"] == found["p0/deeper/m.py"] == "p0"
    assert found["broken.py"] == "broken"


@pytest.mark.parametrize(
    "roots, message", [("nowhere", "'nowhere' is not a folder"), ("demo", "none left to hold out")]
)
def test_make_corpus_says_what_is_wrong(tmp_path, monkeypatch, roots, message):
    train, heldout = str(tmp_path / "train.txt"), str(tmp_path / "heldout.txt")
    monkeypatch.chdir(ROOT)
    files = {"train_file": train, "heldout_file": heldout}
    with pytest.raises(SystemExit, match=message):
        run_main(make_corpus, roots=[roots], heldout_every=1000, **files)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def run_dir(tmp_path):
    """A model with random weights, and the history of a run of four steps."""
    tiny.write_release(tmp_path)
    lines = history.History(str(tmp_path), 0)
    for step in (2, 4):
        metrics = {name: n + step / 100 for n, name in enumerate(show_model.METRICS)}
        lines.write("train", step, metrics | {"learning_rate": 0.1})
        lines.write("eval", step, {name: value + 0.5 for name, value in metrics.items()})
    return tmp_path


def test_show_model(run_dir, monkeypatch, capsys):
    monkeypatch.setattr(show_model, "MASKED", show_model.MASKED[:2])
    text = run_dir / "new" / "summary.txt"
    run_main(show_model, run_dir=str(run_dir), summary_file=str(text))
    first, *shown = capsys.readouterr().out.splitlines()
    assert first.startswith(f"Loaded {run_dir}")
    assert shown == text.read_text().splitlines()
    metrics, masks, orders = (part.splitlines() for part in text.read_text().split("\n\n"))
    for number, line in enumerate(metrics[:3]):
        assert line.endswith(f"{number}.5400  (step 4)")
    assert metrics[3].split() == ["Checkpoint", str(run_dir / "model.ckpt-best")]
    assert masks[0] == "Fill [MASK]" and len(masks) == 3
    for line, sentence in zip(masks[1:], show_model.MASKED, strict=True):
        assert line.startswith(f"  {sentence} ") and line.count("%") == 4
    assert [line.split("  ")[1] for line in orders[1:]] == [
        " ".join(texts) for pair in show_model.ORDERED for texts in (pair, pair[::-1])
    ]
    assert all(line.endswith("%") for line in orders[1:])


def test_show_model_says_what_is_wrong(run_dir):
    path = run_dir / history.FILE
    path.write_text("".join(row for row in path.open() if ",eval," not in row))
    message = "no loss, .*, sentence_order_accuracy .*rows of eval in"
    with pytest.raises(SystemExit, match=message):
        run_main(show_model, run_dir=str(run_dir))


def test_the_model_fits_the_numbers_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    config = json.loads((ROOT / "demo" / "albert_config.json").read_text())
    vocab_size = int(re.search(r"^VOCAB_SIZE := (\d+)", makefile, re.MULTILINE)[1])
    assert config["vocab_size"] == vocab_size
    sequence = int(re.search(r"--max_seq_length=(\d+)", makefile)[1])
    assert config["max_position_embeddings"] >= sequence
