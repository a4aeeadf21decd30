# SPDX-License-Identifier: Apache-2.0
"""The report on the data of a training: counts, and the limits beyond which it warns."""

import collections
import json

import numpy as np
import pytest

from albert_tf import options
from albert_tf.tasks import classification, data_report, ner, race
from albert_tf.tasks.base import TextInput
from albert_tf.tasks.squad import squad
from albert_tf.tasks.word_files import Word
from albert_tf.text.tokenization import UNKNOWN
from tests import SIZES
from tests.errors import assert_says
from tests.tasks.task_files import read_own, task_of, write


def report_of(rows, lengths=(), max_seq_length=10, **others):
    counts = collections.Counter()
    data_report.add_texts(counts, rows)
    data_report.add_lengths(counts, lengths)
    return data_report.of_split(counts, max_seq_length, **others)


def test_texts_are_counted():
    found = report_of([("a", ""), ("a", ""), (" ", ""), ("b", "a"), ("a", "")])
    assert (found["rows"], found["empty"], found["repeated"], found["missing"]) == (5, 1, 2, 0)
    assert report_of([("a", "b"), ("a", " "), ("", "b"), ("", ""), ("a",)])["incomplete"] == 2
    assert found["incomplete"] == 3 and report_of([("a", ""), ("b", "")])["incomplete"] == 0
    texts = [("nan",), ("#NAME?", "a"), ("None", "of", "us"), ("nan, or not", "")]
    assert report_of(texts)["missing"] == 2
    texts = ["NA", "\\N", "[NULL]", "(null)", "#NULL!", "N/A", "none", "null", "#wow!", "-", "."]
    assert report_of([(text,) for text in texts])["missing"] == 6
    assert "in_train" not in found and "cut" not in found
    texts = [("a",), ("b",), ("",)]  # of a development set
    assert report_of(texts, train_texts={("b",), ("",)}, texts=texts)["in_train"] == 1
    counts = collections.Counter(rows=3, other_labels=2, left_out=0)
    assert data_report.of_split(counts, 8)["left_out"] == {"other_labels": 2}


@pytest.mark.parametrize(
    ("lengths", "cut", "longest"),
    [([5] * 99 + [50], 1, 5), ([5] * 98 + [50] * 2, 2, 50), ([10, 11], 1, 11), ([3], 0, 3)],
)
def test_the_length_that_would_cut_one_in_a_hundred(lengths, cut, longest):
    found = report_of([], lengths)
    assert (found["cut"], found["length_of_99_percent"]) == (cut, longest)
    assert found["sequences"] == len(lengths)
    of_windows = report_of([], [18, 19], windows=2)  # of 8 tokens, [CLS] and [SEP]
    assert (of_windows["cut"], of_windows["length_of_99_percent"]) == (1, 11)
    (line,) = data_report.lines_of("train", of_windows, "rows")
    assert "than --max_windows=2 with --max_seq_length=10 and" in line and "11 would cut 1%" in line
    assert data_report.on_cut(of_windows) in line


def test_pieces_are_counted(tokenizer):
    (unknown,) = tokenizer.convert_tokens_to_ids([UNKNOWN])
    ids = np.array([[unknown, 7, unknown, unknown], [8, 9, 10, unknown]])
    counts = collections.Counter()
    data_report.add_pieces(counts, {"input_ids": ids, "input_mask": np.tri(2, 4, 1)}, tokenizer)
    assert (counts["pieces"], counts["unknown"]) == (5, 1)


@pytest.mark.parametrize(
    ("report", "line", "is_warning"),
    [
        ({"rows": 100, "empty": 1}, "1 of 100 examples have no text", False),
        ({"rows": 100, "empty": 2}, "2 of 100 examples have no text", True),
        ({"rows": 100, "repeated": 10}, "10 of 100 examples repeat", False),
        ({"rows": 100, "repeated": 11}, "11 of 100 examples repeat", True),
        ({"rows": 100, "missing": 1}, "1 of 100 examples have a text such as nan", False),
        ({"rows": 100, "missing": 2}, "2 of 100 examples have a text such as nan", True),
        ({"rows": 10, "incomplete": 9}, "9 of 10 examples have only one", False),
        ({"rows": 100, "in_train": 1}, "1 of 100 examples stand in the training set", False),
        ({"rows": 100, "in_train": 2}, "2 of 100 examples stand in the training set", True),
        ({"rows": 9, "sequences": 200, "cut": 200, "limit": "--max_seq_length=16",
          "length_of_99_percent": 50}, "200 of 200 sequences are longer", True),
        ({"rows": 9, "sequences": 200, "cut": 11, "limit": "--max_seq_length=16",
          "length_of_99_percent": 50}, "11 of 200 sequences are longer", True),
        ({"rows": 9, "sequences": 200, "cut": 10, "limit": "--max_seq_length=16",
          "length_of_99_percent": 50}, "10 of 200 sequences are longer", False),
        ({"rows": 9, "pieces": 1000, "unknown": 20}, "20 of 1,000 tokens are unknown", False),
        ({"rows": 9, "pieces": 1000, "unknown": 21}, "21 of 1,000 tokens are unknown", True),
    ],
)  # fmt: skip
def test_lines_and_warnings(report, line, is_warning):
    (found,) = data_report.lines_of("train", report, "examples")
    assert found.startswith("Warning: train: " if is_warning else "train: ") and line in found
    if is_warning and "cut" in report:
        assert "--max_seq_length=16" in found and "50 would cut 1%" in found


def test_nothing_to_say():
    found = report_of([("a",)], [4], train_texts=set(), texts=[("a",)])
    assert data_report.lines_of("train", found, "examples") == []
    assert data_report.lines_on_classes({"a": 50, "b": 50}) == []


def test_rare_classes_are_warned_of():
    (line,) = data_report.lines_on_classes({"a": 96, "b": 4})
    assert "--class_weights=balanced" in line and " b:" in line
    assert data_report.lines_on_classes({"a": 96, "b": 4}, names_rare=False) == []
    assert data_report.lines_on_classes({"a": 95, "b": 5}) == []
    for count in (19, 20):  # of so many, each would be rare
        classes = dict.fromkeys(range(count - 1), 100) | {"z": 1}
        assert len(data_report.lines_on_classes(classes)) == 20 - count
    assert "no example of c" in data_report.lines_on_classes({"a": 5, "b": 5, "c": 0})[0]


# --- Of tasks ---


def test_the_report_of_a_table(tmp_path, tokenizer, capsys):
    lines = ["text\tlabel", "a\tx", "a\ty", "b\tx", "a long long text of many pieces\ty"]
    dev = "dev.tsv", "text\tlabel", "b\tx", "c\ty"
    row, *_ = read_own(tmp_path, tokenizer, ("train.tsv", *lines), dev)

    def report(do_eval):
        task, places = task_of(row, tokenizer, 6), [str(tmp_path)] * 3
        return classification.GlueData(task, *places, row=row).report(do_eval=do_eval)

    found = report(do_eval=True)
    said = capsys.readouterr().out
    assert found["train"]["rows"] == 4 and found["train"]["repeated"] == 1
    assert found["train"]["cut"] == 1 and found["train"]["sequences"] == 4
    assert (found["dev"]["rows"], found["dev"]["in_train"]) == (2, 1)
    assert found["classes"] == {"x": 2, "y": 2}
    assert "Warning: dev: 1 of 2 examples stand in the training set too" in said
    assert report(do_eval=True) == found  # from the records that exist
    assert "dev" not in report(do_eval=False)


def test_lengths_of_options_before_the_cut(tokenizer):
    example = race.Example("1", 1, "high", "a b c", ("d e", "f"), 0)
    counts = collections.Counter()
    task = race.RaceTask(TextInput(tokenizer, 7, SIZES), 2, choices=2)
    task.features([example], counts)
    context, *endings = (len(tokenizer.encode_ids(text)) for text in ("a b c", "d e", "f"))
    wanted = collections.Counter(f"length {context + ending + 3}" for ending in endings)
    assert {name: n for name, n in counts.items() if name.startswith("length")} == wanted
    assert task.texts_of(example) == ("a b c", "d e", "f")
    of_words = ner.NerTask(("O", "B-x"), TextInput(tokenizer, 8, SIZES))
    assert of_words.texts_of([Word("a", "O", 1), Word("b", "O", 2)]) == ("a", "b")


def test_the_report_of_questions(tmp_path, tokenizer, capsys):
    asked, answer = ("When?", "When?", "Who of them all?"), {"text": "1902", "answer_start": 16}
    rows = [{"id": n, "question": text, "answers": [answer]} for n, text in enumerate(asked)]
    for name, count in (("train", 3), ("dev", 1)):
        kept = {"context": "Anna built it in 1902.", "qas": rows[:count]}
        write(tmp_path, f"{name}.json", json.dumps({"data": [{"paragraphs": [kept]}]}))
    files = {"train_file": f"{tmp_path}/train.json", "predict_file": f"{tmp_path}/dev.json"}
    given = options.Squad(**files, doc_stride=16, max_query_length=4)
    task = squad.SquadTask(TextInput(tokenizer, 64, SIZES), given, str(tmp_path))
    data = squad.data_set(task, str(tmp_path))
    assert len(data.training_records.paths) == 1
    found = data.report(do_eval=True)
    assert (found["train"]["rows"], found["train"]["repeated"]) == (3, 1)
    assert found["train"]["pieces"] > 30 and found["dev"]["in_train"] == found["dev"]["rows"] == 1
    assert_says(
        capsys.readouterr().out,
        "Warning: dev: 1 of 1 questions stand in the training set too",
        "train: 1 of 3 ... --max_query_length",
        "Warning: train: ... answer_start ... 3 ... 3",
    )
