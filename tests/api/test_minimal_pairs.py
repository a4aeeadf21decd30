# SPDX-License-Identifier: Apache-2.0
"""Minimal pairs: reading them, the metrics of a model of known probabilities, the command."""

import json
import math
import re

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.api import minimal_pairs
from albert_tf.cli import minimal_pairs as command
from albert_tf.model import encoder, heads
from tests import tiny
from tests.errors import refuses

pytestmark = pytest.mark.usefixtures("eagerly")

WORDS = ("the", "in", "of", "man", "old", "was")
PAIR = {"sentence_good": "a b", "sentence_bad": "b a"}


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path: write(content, name)."""

    def write(content, name="pairs.txt"):
        (tmp_path / name).write_text(content, encoding="utf-8")
        return str(tmp_path / name)

    return write


def json_lines(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize(
    "content",
    [
        "a b\tb a\nc d\td c\n",
        "\ufeffa b\tb a\r\nc d\td c",
        "sentence_good\tsentence_bad\na b\tb a\nc d\td c\n",
        "sentence_bad\tsentence_good\nb a\ta b\nd c\tc d\n",
        "a b\nb a\nc d\nd c\n",
        "a b\nb a\n\nc d\nd c\n",
        "0\t1\na b\tb a\nc d\td c\n",
        json_lines(PAIR, {"sentence_good": "c d", "sentence_bad": "d c", "UID": None}),
        json.dumps([PAIR, {"sentence_good": "c d", "sentence_bad": "d c"}]),
        json_lines(PAIR, {"good_sentence": "c d", "bad_sentence": "d c"}),
        'sentence_good,sentence_bad\n"a b",b a\nc d,"d c"\n',
        "sentence_good;n;sentence_bad\na b;1;b a\nc d;2;d c\n",
        "source_sentence,target_sentence,phenomenon\na b,b a,order\nc d,d c,order\n",
        "good\tbad\na b\tb a\nc d\td c\n",
    ],
)
def test_forms_of_files(content, write):
    path = write(content, "inversion.tsv")
    (found,) = minimal_pairs.read([path])
    assert (found.name, found.field, found.linguistics_term) == ("inversion", "", "")
    assert found.sentences == ["a b", "b a", "c d", "d c"]
    if content.startswith("["):
        return
    lines = content.strip("\n").splitlines()
    for place, text in ((found.places[0], "a b"), (found.places[-1], "d c")):
        number = next(i for i, line in enumerate(lines, 1) if text in line)
        assert place == f"{path}, line {number}"


@pytest.mark.parametrize(
    "lines",
    [
        ["#a b", "#b a", "c d", "d c"],
        ["[A] saw [b]", "#b a", "c d", "d c"],
        ['He said,"no" to me', '"Yes,"she said', "a,b", "b,a"],
    ],
)
def test_sentences_that_look_like_something_else(lines, write):
    (paradigm,) = minimal_pairs.read([write("\n".join(lines))])
    assert paradigm.sentences == lines


def test_paradigms_lie_in_several_files_and_some_pairs_are_taken(write):
    shared = PAIR | {"field": "syntax", "linguistics_term": "order"}
    names = [(uid, str(n)) for uid in ("one", "two") for n in range(3)]
    rows = [shared | {"UID": uid, "sentence_bad": bad} for uid, bad in names]
    paths = [write(json_lines(*rows[:4]), "a.jsonl"), write(json_lines(*rows[4:]), "b.jsonl")]
    found = minimal_pairs.read(paths)
    told = [(p.name, p.field, p.linguistics_term) for p in found]
    assert told == [("one", "syntax", "order"), ("two", "syntax", "order")]
    assert [p.sentences[1::2] for p in found] == [["0", "1", "2"]] * 2
    found = minimal_pairs.read(paths, pairs_per_paradigm=2)
    assert [p.sentences[1::2] for p in found] == [["0", "1"]] * 2
    assert [len(p.places) for p in found] == [4, 4]


def test_only_the_last_ending_is_left_out_of_a_name(write):
    paths = [write("a b\tb a\n", name) for name in ("en.verbs.tsv", "en.agreement.tsv", "en")]
    names = [paradigm.name for paradigm in minimal_pairs.read(paths)]
    assert names == ["en.verbs", "en.agreement", "en"]


def test_files_of_one_name_are_not_joined_silently(tmp_path):
    paths = [tmp_path / "a" / "order.txt", tmp_path / "b" / "order.tsv"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("a b\tb a\n")
    with refuses("order.tsv ... order.txt ... 'order'"):
        minimal_pairs.read([*map(str, paths)])


def test_a_table_of_unknown_columns_is_refused(write):
    with refuses("pairs.csv ... sentence_good ... x, y"):
        minimal_pairs.read([write("x,y\na b,b a\n", "pairs.csv")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "pairs.txt"),
        ("sentence_good\tsentence_bad\n", "pairs.txt"),
        ("a\n \nb\nc\n", "line 1"),
        ("a\nb\nc\n", "line 3 ... 3"),
        ("a\tb\nc\n", "line 2 ... 1"),
        ("1\ta\tb\n", "sentence_good ... 1, a, b"),
        ("Good ones\na b\tb a\nc d\td c\ne\tf\n", "line 2"),
        ("a\t\n", "line 1 ... sentence_bad"),
        (json_lines(PAIR, {"sentence_good": "a"}), "line 2 ... sentence_bad"),
        (json_lines(PAIR | {"sentence_good": ["a"]}), "line 1 ... sentence_good"),
        (json_lines({"good": "a"}), "'sentence_good' ... 'good'"),
        (json_lines(PAIR | {"sentence_bad": "a \ud83d"}), "line 1 ... 'sentence_bad'"),
        (json_lines(PAIR | {"UID": "a\ud83d"}), "line 1 ... 'UID'"),
        (json_lines(PAIR | {"field": "a\nb"}), "line 1 ... 'a"),
        (json_lines(PAIR | {"UID": "a\u2028"}), "line 1 ... UID ... 'a"),
        (json_lines(PAIR, [1]), "line 2 ... JSON"),
        (json_lines(PAIR) + "x\n", "line 2 ... JSON"),
        ("True\tthe author laughs\nFalse\tthe author laugh\n" * 2, "0 ... 'True'"),
        ("it is so\t1\nit be so\t0\n" * 2, "1 ... '1'"),
        ("Right\tWrong\nit is so\tit be so\n", "sentence_good ... Right, Wrong"),
    ],
)
def test_bad_files(content, message, write):
    path = write(content)
    with refuses(message) as caught:
        minimal_pairs.read([path])
    assert str(caught.value).startswith(path)


# --- Metrics -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(release):
    """A model by which, whatever stands around, of WORDS a later one is more likely."""
    found = albert_tf.load(release)
    for variable in found.model.variables:
        variable.assign(tf.zeros_like(variable))
    bias = np.zeros(found.config.vocab_size, np.float32)
    for rank, word in enumerate(WORDS, 1):
        (id_,) = found.tokenizer.encode_ids(word)
        bias[id_] = rank
    found.model.masked_lm.output_bias.assign(bias)
    return found


def paradigm(name, *pairs, field="syntax", term="agreement"):
    sentences = [sentence for pair in pairs for sentence in pair]
    places = [f"{name}, line {number}" for number in range(len(sentences))]
    return minimal_pairs.Paradigm(name, field, term, sentences, places)


SUITE = [
    paradigm("right", ("the in", "the the"), ("was", "of"), ("old", "the")),
    paradigm("mixed", ("in", "the"), ("the", "in"), ("The in", "the IN"), ("in of", "of in")),
    paradigm("wrong", ("in", "\U0001f600 was"), field="semantics", term="quantifiers"),
    paradigm("of my own", ("the", "was"), field="", term=""),
]


@pytest.mark.parametrize("method", ["within_word_l2r", "original"])
def test_metrics_of_known_probabilities(loaded, method):
    unknown = loaded.score("\U0001f600 was")["num_unknown"]
    longer = loaded.score("\U0001f600 was")["log_prob"] < loaded.score("in")["log_prob"]
    assert unknown == 1 and longer  # one more piece
    metrics = minimal_pairs.evaluate(loaded, SUITE, method)
    table = {name: values["accuracy"] for name, values in metrics["paradigms"].items()}
    assert table == {"right": 1.0, "mixed": 0.5, "wrong": 1.0, "of my own": 0.0}
    mixed = metrics["paradigms"]["mixed"]
    assert (mixed["pairs"], mixed["correct"], mixed["ties"], mixed["identical"]) == (4, 2.0, 2, 1)
    assert (mixed["field"], mixed["linguistics_term"]) == ("syntax", "agreement")
    assert mixed["standard_error"] == pytest.approx(math.sqrt((2 * 0.25 + 2 * 0.0) / 4 / 4))
    assert metrics["paradigms"]["right"]["standard_error"] == 0.0
    assert metrics["complete"]
    fields = {name: values["accuracy"] for name, values in metrics["fields"].items()}
    assert fields == {"syntax": 5 / 7, "semantics": 1.0}
    assert metrics["linguistics_terms"]["agreement"]["pairs"] == 7
    overall = metrics["overall"]
    assert overall["pairs"] == 9 and overall["unknown_pieces"] == unknown
    assert overall["accuracy"] == pytest.approx(6 / 9)
    squares = 1 + (2 / 3) ** 2 + (1 / 3) ** 2 + (2 / 3) ** 2  # of right answers above 2 of 3
    assert overall["standard_error"] == pytest.approx(math.sqrt(squares * 4 / 3) / 9)
    table = minimal_pairs.table(metrics)
    assert re.search(r"all pairs +66\.7 +18\.1 +9 +2\n", table)
    assert "1 pairs of identical tokens" in table and "1 unknown tokens" in table


def test_the_same_pieces_are_a_tie_whatever_the_rounding():
    pieces = minimal_pairs.scoring.Pieces([np.array([5, 6])] * 2, None, None, None)
    scores = [{"log_prob": value, "num_unknown": 0} for value in (-1.0, -1.0000001)]
    result = minimal_pairs._compare(pieces, scores, 0)
    assert (result.correct, result.ties, result.identical) == (0.5, 1, 1)


def test_a_stopped_run_goes_on(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr(minimal_pairs, "_PAIRS_AT_ONCE", 2)
    path = str(tmp_path / "out.json")
    expected = minimal_pairs.evaluate(loaded, SUITE, "original")
    score, calls = minimal_pairs.scoring.scores, []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return score(*arguments)

    monkeypatch.setattr(minimal_pairs.scoring, "scores", stopped)
    with pytest.raises(KeyboardInterrupt):
        minimal_pairs.evaluate(loaded, SUITE, "original", path)
    partial = json.loads((tmp_path / "out.json").read_text())
    assert not partial["complete"] and partial["overall"]["pairs"] == 5
    assert minimal_pairs.evaluate(loaded, SUITE, "original", path) == expected
    assert len(calls) == 4 + 3
    assert minimal_pairs.evaluate(loaded, SUITE, "original", path) == expected
    assert len(calls) == 4 + 3  # nothing is left to do
    whole = json.loads((tmp_path / "out.json").read_text())
    assert {name: whole[name] for name in expected} == expected


def test_metrics_of_something_else_are_noticed(loaded, tmp_path):
    path = str(tmp_path / "out.json")
    suite = SUITE[:1]
    minimal_pairs.evaluate(loaded, suite, "original", path)
    with refuses("--method=original ... --o"):
        minimal_pairs.evaluate(loaded, suite, "within_word_l2r", path)
    with refuses(f"{path} ... pairs"):
        minimal_pairs.evaluate(loaded, SUITE[1:2], "original", path)
    bias = loaded.model.masked_lm.output_bias
    before = bias.numpy()
    bias.assign(before + 1)
    try:
        with refuses(f"{path} ... weights"):
            minimal_pairs.evaluate(loaded, suite, "original", path)
    finally:
        bias.assign(before)
    content = json.loads((tmp_path / "out.json").read_text())
    (metrics,) = content["paradigms"].values()
    for pairs, correct in ((-1, -2), (1, 2), (100, 1)):
        metrics |= {"pairs": pairs, "correct": correct}
        (tmp_path / "out.json").write_text(json.dumps(content))
        with refuses(f"{correct}.0 ... {pairs}"):
            minimal_pairs.evaluate(loaded, suite, "original", path)
    (tmp_path / "out.json").write_text("[1]")
    with refuses(path):
        minimal_pairs.evaluate(loaded, suite, "original", path)


# --- The command ---------------------------------------------------------------------------------


def test_a_table_and_json(release, run_main, tmp_path, capsys):
    good = ["The cats annoy Tim.", "of the painter", "It was a landscape."]
    bad = ["The cats annoys Tim.", "the of painter", "It were a landscape."]
    for number, pair in enumerate(zip(good, bad, strict=True)):
        (tmp_path / f"{number}.tsv").write_text("\t".join(pair) + "\n")
    flags = {"model": release, "input_file": tmp_path / "*.tsv"}
    run_main(command, **flags, output_file=tmp_path / "out.json")
    table = capsys.readouterr().out
    metrics = json.loads((tmp_path / "out.json").read_text())
    loaded = albert_tf.load(release)
    scores = ([loaded.score(text)["log_prob"] for text in texts] for texts in (good, bad))
    right = [one > other for one, other in zip(*scores, strict=True)]
    assert [metrics["paradigms"][name]["correct"] for name in "012"] == right
    assert metrics["overall"]["accuracy"] == pytest.approx(sum(right) / 3)
    assert f"all pairs  {100 * sum(right) / 3:8.1f}" in table and "Loaded" not in table
    capsys.readouterr()
    run_main(command, **flags)
    assert capsys.readouterr().out == table


@pytest.mark.parametrize(
    ("kind", "options"),
    [(heads.ClassificationModel, {"num_outputs": 2}), (encoder.AlbertModel, {})],
)
def test_a_model_without_masked_lm_head(kind, options, run_main, tmp_path):
    tiny.write_release(tmp_path, kind, **options)
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    with refuses("minimal_pairs"):
        run_main(command, model=tmp_path, input_file=tmp_path / "pairs.tsv")


def test_a_sentence_that_is_too_long(release, run_main, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("of\nthe\nof " + "of " * 20 + "\nthe\n")
    with refuses("pairs.txt, line 3 ... 21 ... max_seq_length=16"):
        run_main(command, model=release, input_file=path, max_seq_length=16)
