# SPDX-License-Identifier: Apache-2.0
"""Users' own tables: the order of labels, separators, quoting, headers, JSON lines."""

import json
import types

import numpy as np
import pytest

import export_checkpoints
import run_classifier
from albert_tf.checkpoints import run_directory
from albert_tf.cli import predict
from albert_tf.config import AlbertConfig
from albert_tf.tasks import classification, glue, known, label_lists, multi_label, ner, race, tables
from albert_tf.tasks.base import TextInput
from albert_tf.training.splits_and_results import Split
from tests import SIZES, tiny
from tests.errors import assert_names, assert_says, names, refuses


def write(folder, name, *lines):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


# --- Order ---


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["10", "9", "1", "0", "11"], ["0", "1", "9", "10", "11"]),
        (["5", "-1", "-10", "+3"], ["-10", "-1", "+3", "5"]),
        (["10.0", "2.0", "1.0"], ["1.0", "2.0", "10.0"]),
        (["10.5", "2", "1.5", "0.5", "1."], ["0.5", "1.", "1.5", "2", "10.5"]),
        (["b", "a", "B", "10", "9"], ["9", "10", "B", "a", "b"]),
        (["1a", "10a", "2a"], ["10a", "1a", "2a"]),
        (["02", "1", "2"], ["1", "02", "2"]),
    ],
)
def test_whole_numbers_are_in_numeric_order(given, ordered):
    assert sorted(given, key=tables.order) == ordered


def test_the_labels_of_a_training_are_in_numeric_order(tmp_path):
    labels = [str(i) for i in range(12)]
    write(tmp_path, "train.tsv", "text\tlabel", *(f"t{i}\t{i}" for i in sorted(labels)))
    assert list(glue.tsv_task("text", None, "label", data_dir=str(tmp_path)).labels) == labels
    write(tmp_path, "train.conll", *(f"w {i}" for i in ["B-10", "B-9", "O", "I-9"]))
    assert ner.find_labels(str(tmp_path)) == ("O", "B-10", "B-9", "I-9")


def test_numbered_files_of_questions_are_in_numeric_order(tmp_path):
    for number in (1, 2, 10):
        write(tmp_path, f"RACE/test/high/{number}.txt", "{}")
    found = race.input_files(str(tmp_path), "test", ("high",))
    assert [path.rpartition("/")[2] for _, path in found] == ["1.txt", "2.txt", "10.txt"]


# --- Separators, quotes, headers ---


def table_of(folder, name, *lines, columns=("text", "label"), **given):
    """The form, the values and the names of a file."""
    found = tables.read_columns(write(folder, name, *lines), columns, **given)
    return found.form, [tuple(row.values) for row in found.rows], found.header


@pytest.mark.parametrize(
    ("name", "lines", "columns", "separator", "values"),
    [
        # As Excel writes it where the decimal mark is a comma.
        ("a.csv", ["text;label", '"a, b; c";x', "d;y"], ("text", "label"), ";",
         [("a, b; c", "x"), ("d", "y")]),
        ("a.csv", ["a, b;x", "c, d;y"], (0, 1), ";", [("a, b", "x"), ("c, d", "y")]),
        ("a.tsv", ["a, b;x", "c, d;y"], (0, 1), ";", [("a, b", "x"), ("c, d", "y")]),
        ("a.csv", ["a;3,5", "b;4,5"], (0, 1), ";", [("a", "3,5"), ("b", "4,5")]),
        ("a.csv", ["text|label", "a,b|x", "c,d|y"], ("text", "label"), "|",
         [("a,b", "x"), ("c,d", "y")]),
        ("a.csv", ["text\tlabel", "a, b\tx"], ("text", "label"), "\t", [("a, b", "x")]),
        ("a.csv", ["text, label", "a, x", '"b, c", y'], ("text", "label"), ",",
         [("a", "x"), ("b, c", "y")]),
        ("a.csv", ["text,label", '"a;b",x', '"c;d",y'], ("text", "label"), ",",
         [("a;b", "x"), ("c;d", "y")]),
        ("a.csv", ["sep=;", "text;label", "a;x"], ("text", "label"), ";", [("a", "x")]),
        ("a.csv", ["a, b:x", "c, d:y"], (0, 1), ":", [("a, b", "x"), ("c, d", "y")]),
        ("a.csv", ["a, b^x", "c, d^y"], (0, 1), "^", [("a, b", "x"), ("c, d", "y")]),
        ("a.tsv", ["a, b~x", "c, d~y"], (0, 1), "~", [("a, b", "x"), ("c, d", "y")]),
        ("a.csv", ["text#label", "a, b#x"], ("text", "label"), "#", [("a, b", "x")]),
        ("a.csv", ["a:b,x", "c:d,y"], (0, 1), ",", [("a:b", "x"), ("c:d", "y")]),
        ("a.csv", ["a:b", "c:d"], (0,), ",", [("a:b",), ("c:d",)]),
        # What stands before the header.
        ("a.csv", ["# by me, 2024", "# a", "text,label", "#b,x"], ("text", "label"), ",",
         [("#b", "x")]),
        ("a.csv", ["", "text;label", "a, b;x"], ("text", "label"), ";", [("a, b", "x")]),
        ("a.csv", ["#text,label", "a,x"], ("#text", "label"), ",", [("a", "x")]),
        ("a.csv", ["a, b", "c, d"], (0,), "\t", [("a, b",), ("c, d",)]),
        # Quotes in a file with tabs: as pandas and Excel write them, and ordinary ones.
        ("a.tsv", ["text\tlabel", '"he said ""b"""\tx', "c\ty"], ("text", "label"), "\t",
         [('he said "b"', "x"), ("c", "y")]),
        ("a.tsv", ["text\tlabel", '"two\nlines"\tx', "c\ty"], ("text", "label"), "\t",
         [("two\nlines", "x"), ("c", "y")]),
        ("a.tsv", ['"text"\t"label"', '"a"\t"x"'], ("text", "label"), "\t", [("a", "x")]),
        ("a.tsv", ["text\tlabel", '"a, b"\tx', "c\ty"], ("text", "label"), "\t",
         [("a, b", "x"), ("c", "y")]),
        ("a.tsv", ["text\tlabel", '"a" is b\tx', '"c"\ty'], ("text", "label"), "\t",
         [('"a" is b', "x"), ('"c"', "y")]),
        ("a.tsv", ["text\tlabel", '"c"\ty', 'd "e\tx', "f, g\tx"], ("text", "label"), "\t",
         [('"c"', "y"), ('d "e', "x"), ("f, g", "x")]),
    ],
)  # fmt: skip
def test_separators_and_quotes_are_recognised(name, lines, columns, separator, values, tmp_path):
    form, found, _ = table_of(tmp_path, name, *lines, columns=columns)
    assert (form.separator, found) == (separator, values)


def test_lines_that_end_in_carriage_returns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\ra,x\rb,y\r")
    rows = tables.read_columns(str(path), ["text", "label"]).rows
    assert [row.values for row in rows] == [["a", "x"], ["b", "y"]]


def test_a_given_separator(tmp_path):
    form, found, _ = table_of(tmp_path, "a.csv", "a;1,2", "b;1,3", columns=(0, 1), delimiter=",")
    assert (form.separator, found) == (",", [("a;1", "2"), ("b;1", "3")])
    assert [*map(tables.parse_delimiter, ("tab", "\\t", "semicolon", "|", "", None))] == [
        "\t", "\t", ";", "|", None, None,
    ]  # fmt: skip
    with refuses("--delimiter=;;"):
        tables.parse_delimiter(";;")


def test_unicode_text_of_excel(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes("text\tlabel\r\né\tx\r\n".encode("utf-16"))
    assert tables.read_columns(str(path), ["text"]).rows[0].values == ["é"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark(encoding, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\né,x\n".encode(encoding))
    assert tables.read_columns(str(path), ["text", "label"]).rows[0].values == ["é", "x"]


@pytest.mark.parametrize(
    ("given", "labels", "read"),
    [
        (["1", "1.0", "0"], ("0", "1"), ["1", "1", "0"]),
        (["1.0", "0.0", "0.0"], ("0.0", "1.0"), ["1.0", "0.0", "0.0"]),
        (["True", "true", "False"], ("False", "True"), ["True", "True", "False"]),
        (["Good", "good", "1a"], ("1a", "Good", "good"), ["Good", "good", "1a"]),
    ],
)
def test_a_label_has_one_spelling(given, labels, read, tmp_path, tokenizer):
    write(tmp_path, "train.csv", "text,label", *(f"a {label},{label}" for label in given))
    task = glue.tsv_task("text", None, "label", data_dir=str(tmp_path))
    examples, _ = glue.read_examples(task, str(tmp_path), "train", tokenizer)
    assert (task.labels, [example.label for example in examples]) == (labels, read)


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        (["Good", "good", "bad"], "'Good' (1) ... 'good' (1)"),
        (["new york", "new  york", "bad"], "'new york' (1) ... 'new  york' (1)"),
        (["nan", "good", "bad"], "'nan' ... 1 ... --labels=bad,good --skip_other_labels"),
        (["-", "good", "bad"], "'-' ... 1 ... --labels=bad,good --skip_other_labels"),
        (["nana", "good", "bad"], None),
    ],
)
def test_labels_that_may_be_mistakes(labels, warning, tmp_path, capsys):
    write(tmp_path, "train.csv", "text,label", *(f"a {label},{label}" for label in labels))
    glue.tsv_task("text", None, "label", data_dir=str(tmp_path))
    out = capsys.readouterr().out
    assert ("Warning" in out) == (warning is not None)
    assert_says(out, *([f"Warning ... {warning}"] if warning else []))


@pytest.mark.parametrize("lists", [('["a"]', '["b"]'), ("['a']", "['b']")])
def test_lists_of_one_label(lists, tmp_path, tokenizer):
    write(tmp_path, "train.tsv", "text\tlabel", *(f"t\t{label}" for label in lists))
    task = glue.tsv_task("text", None, "label", data_dir=str(tmp_path))
    examples, _ = glue.read_examples(task, str(tmp_path), "train", tokenizer)
    assert (task.labels, [example.label for example in examples]) == (("a", "b"), ["a", "b"])


@pytest.mark.parametrize("label", ['["a", "b"]', '[[0, 4, "PER"]]', "[]"])
def test_lists_of_other_than_one_label_are_refused(label, tmp_path):
    write(tmp_path, "train.tsv", "text\tlabel", f"t\t{label}", 't\t["b"]')
    with refuses("train.tsv ... --multi_label"):
        glue.tsv_task("text", None, "label", data_dir=str(tmp_path))


def test_text_in_windows_1252_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nschön,x\n".encode("cp1252"))
    with refuses("a.csv, line 2 ... UTF-8 ... iconv"):
        tables.read_columns(str(path), ["text"])


def test_a_workbook_is_no_table_of_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with refuses("a.csv ... ZIP ... CSV"):
        tables.read_columns(str(path), ["text"])


def test_files_of_other_names_are_shown(tmp_path):
    write(tmp_path, "validation.csv", "text,label", "a,x")
    task = glue.tsv_task("text", None, "label", ["x", "y"])
    with refuses("dev.csv ... --do_eval ... validation.csv"):
        glue.input_file(task, str(tmp_path), "dev")


def test_the_spelling_of_the_training_is_that_of_other_files(tmp_path, tokenizer):
    write(tmp_path, "dev.csv", "text,label", "a,1.0", "b,0.0")
    task = glue.tsv_task("text", None, "label", ["0", "1"])
    examples, _ = glue.read_examples(task, str(tmp_path), "dev", tokenizer)
    assert [example.label for example in examples] == ["1", "0"]


@pytest.mark.parametrize("counted", [(0, 1, 2), (1, 2, 3), (1000, 1001, 1002), (3, 7, 8)])
def test_a_column_that_counts_the_rows_holds_no_texts(counted, tmp_path):
    write(tmp_path, "train.csv", *(f"{i},text {i},{i % 2}" for i in counted))
    with refuses("train.csv ... 0 ... --text_column"):
        glue.tsv_task("0", None, "2", data_dir=str(tmp_path))


def test_rows_with_other_labels_among_several_are_left_out(tmp_path, tokenizer):
    write(tmp_path, "train.csv", "text;label", "a;x,y", "b;x,z", "c;", "d;y")
    row = glue.tsv_task("text", None, "label", ["x", "y"], multi_label=True, skip_other_labels=True)
    examples, counts = glue.read_examples(row, str(tmp_path), "train", tokenizer)
    found = [(example.text_a, example.label) for example in examples]
    assert found == [("a", ["x", "y"]), ("c", []), ("d", ["y"])]
    assert counts["other_labels"] == 1


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["label,text", "a,Well, this is it", "b,Well, that was it"], ("text", "label")),
        (["a,Oh", "b,Well, that was it"], (1, 0)),
    ],
)
def test_a_text_with_unquoted_separators_is_not_cut(lines, columns, tmp_path):
    path = write(tmp_path, "train.csv", *lines)
    with refuses(f"{path}, line 2", "--delimiter"):
        tables.read_columns(path, columns)


def test_empty_columns_after_the_last_are_allowed(tmp_path):
    path = write(tmp_path, "train.csv", "text,label", "one,a,,", "two,b,")
    assert [row.values[0] for row in tables.read_columns(path, ("text",)).rows] == ["one", "two"]


def test_errors_name_the_separator(tmp_path):
    with refuses("a.csv ... 'text' ... 'Text' ... semicolons"):
        table_of(tmp_path, "a.csv", "Text;label", "a;x")
    with refuses("a.csv, line 13 ... 1 ... 2 ... semicolons ... --delimiter"):
        table_of(tmp_path, "a.csv", "text;label", "a;x", *["b;y"] * 10, "c")


@pytest.mark.parametrize(
    ("lines", "given", "header", "count"),
    [
        (["0,1", "a,0", "b,1"], {}, ["0", "1"], 2),
        ([",0,1", "0,a,0", "1,b,1"], {}, ["", "0", "1"], 2),
        (["0,1", "a,0", "b,1"], {"has_header": False}, None, 3),
        (["text,label", "a,0"], {"has_header": True}, ["text", "label"], 1),
        (["text,label", "a,0"], {}, None, 2),
        (["1,0", "a,0"], {}, None, 2),
    ],
)
def test_a_header_that_numbers_the_columns(lines, given, header, count, tmp_path):
    columns = (1, 2) if lines[0].startswith(",") else (0, 1)
    _, found, names = table_of(tmp_path, "a.csv", *lines, columns=columns, **given)
    assert (names, len(found)) == (header, count)


def test_rows_stay_in_place_below_a_header_of_numbers(tmp_path, tokenizer):
    for split in glue.SPLITS:
        write(tmp_path, f"{split}.csv", "0,1", "bad,0", "good,1", "dull,0")
    task = glue.tsv_task("0", None, "1", data_dir=str(tmp_path))
    for split in glue.SPLITS:
        examples, _ = glue.read_examples(task, str(tmp_path), split, tokenizer)
        assert [example.text_a for example in examples] == ["bad", "good", "dull"]
    assert [example.guid for example in examples] == ["0", "1", "2"]


def test_the_form_of_the_training_file_is_shown(tmp_path):
    write(tmp_path, "train.csv", "text;label", "a;1|2", "b;2")
    task = glue.tsv_task("text", None, "label", data_dir=str(tmp_path), multi_label=True)
    assert glue.describe(task, str(tmp_path)) == (
        f"{tmp_path}/train.csv: semicolons between columns, cells may stand in quotes, header "
        "'text', 'label', labels: vertical bars between them"
    )


@pytest.mark.parametrize(
    ("scores", "numbers"),
    [
        (["3,5", "1,25", "2"], [3.5, 1.25, 2.0]),
        (["-0,125", "0,5"], [-0.125, 0.5]),
        (["1,000", "2,500"], None),  # or thousands
        (["1.234,5", "2"], None),
        (["3,5", "2.5"], None),
        (["50%", "2"], None),
    ],
)
def test_scores_with_decimal_commas(scores, numbers, tmp_path, tokenizer):
    write(tmp_path, "train.csv", "text;score", *(f"a {score};{score}" for score in scores))
    task = glue.tsv_task("text", None, "score", regression=True)
    if numbers is None:
        with refuses("train.csv, line"):
            glue.read_examples(task, str(tmp_path), "train", tokenizer)
        return
    examples, _ = glue.read_examples(task, str(tmp_path), "train", tokenizer)
    assert [example.label for example in examples] == numbers
    assert "decimal commas" in glue.describe(task, str(tmp_path))


def test_rows_without_content_are_left_out(tmp_path, tokenizer):
    write(tmp_path, "train.csv", "text;label", "a;x", "b;y", ";", " ; ")
    task = glue.tsv_task("text", None, "label", data_dir=str(tmp_path))
    examples, counts = glue.read_examples(task, str(tmp_path), "train", tokenizer)
    assert [example.text_a for example in examples] == ["a", "b"] and counts["left_out"] == 2


# --- JSON ---


def test_objects_in_objects_are_columns(tmp_path):
    lines = ['{"text": {"en": "a"}, "label": {"name": "x"}}', '{"text": {"en": "b"}}']
    _, found, _ = table_of(tmp_path, "a.jsonl", *lines, columns=("text.en", "label.name"))
    assert found == [("a", "x"), ("b", "")]
    with refuses("a.jsonl ... 'label' ... 'label.name'"):
        table_of(tmp_path, "a.jsonl", *lines, columns=("text.en", "label"))


def test_lists_are_no_texts(tmp_path):
    write(tmp_path, "train.jsonl", '{"text": ["a", "b"], "label": "x"}')
    with refuses('train.jsonl ... \'text\' ... ["a", "b"]'):
        glue.read_rows(glue.tsv_task("text", None, "label", ["x", "y"]), str(tmp_path), "train")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("train.jsonl", ['{"text": "a", "label": 1}', "", '{"label": 0, "text": "b", "id": 3}']),
        ("train.json", ['[{"text": "a", "label": 1},', ' {"label": 0, "text": "b", "id": 3}]']),
        ("train.tsv", ['{"text": "a", "label": 1}', '{"label": 0, "text": "b", "id": 3}']),
    ],
)
def test_json_objects(name, lines, tmp_path, tokenizer):
    write(tmp_path, name, *lines)
    task = glue.tsv_task("text", None, "label", data_dir=str(tmp_path))
    assert task.labels == ("0", "1")
    examples, _ = glue.read_examples(task, str(tmp_path), "train", tokenizer)
    assert [(e.text_a, e.label) for e in examples] == [("a", "1"), ("b", "0")]


@pytest.mark.parametrize(
    "content",
    [
        '{"version": 1, "data": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]}',
        '{"text": ["a", "b"], "label": [1, 0]}',
        '{"text": {"0": "a", "1": "b"},\n "label": {"0": 1, "1": 0}}',
        '{"columns": ["text", "label"], "index": [0, 1], "data": [["a", 1], ["b", 0]]}',
        '{"0": {"text": "a", "label": 1}, "1": {"text": "b", "label": 0}}',
    ],
)
def test_one_json_object_with_all_rows(content, tmp_path):
    _, found, _ = table_of(tmp_path, "a.json", content)
    assert found == [("a", "1"), ("b", "0")]


def test_null_is_no_text(tmp_path):
    lines = ['{"text": null, "label": "x"}', '{"text": "null"}']
    _, found, header = table_of(tmp_path, "a.jsonl", *lines)
    assert (found, header) == ([("", "x"), ("null", "")], ["text", "label"])


def test_json_that_is_no_object(tmp_path):
    with refuses("a.jsonl, line 2 ... [1]"):
        table_of(tmp_path, "a.jsonl", '{"text": "a", "label": "x"}', "[1]")
    with refuses("a.jsonl ... 'label' ... 'class'"):
        table_of(tmp_path, "a.jsonl", '{"text": "a", "class": "x"}')


# --- Several labels ---


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["17", "2,25", ""], [["17"], ["2", "25"], []]),
        (["a; b", "c"], [["a", "b"], ["c"]]),
        (["a|b,c", "d"], [["a", "b,c"], ["d"]]),
        (["['a', 'b']", "[]"], [["a", "b"], []]),
        (['["a, b"]', '["c"]'], [["a, b"], ["c"]]),
        (["['a' 'b']", "['c']"], [["a", "b"], ["c"]]),
        (["[2, 25]", "[3]"], [["2", "25"], ["3"]]),
        (["{'a', 'b'}"], [["a", "b"]]),
        (["[0, 1, 1]", "[1, 0, 0]", ""], [["1", "2"], ["0"], []]),
        (["[0 1 0]", "[1 0 1]"], [["1"], ["0", "2"]]),
        (["[0, 1]", "[1, 0]", "[0]"], [["0", "1"], ["1", "0"], ["0"]]),
        (["2 25", "3"], [["2", "25"], ["3"]]),
        (["sport/news", "sport", "news"], [["sport", "news"], ["sport"], ["news"]]),
        (["New York", "Rome"], [["New York"], ["Rome"]]),
        (["a,a,", "b"], [["a"], ["b"]]),
    ],
)
def test_labels_of_a_cell(cells, labels):
    found = label_lists.split(cells, label_lists.find_form(cells))
    assert [sorted(each) for each in found] == [sorted(each) for each in labels]


@pytest.mark.parametrize("cell", ["[{'name': 'a'}]", "[[0, 4, 'PER']]"])
def test_nested_labels_are_refused(cell):
    with refuses(cell[1:-1]):
        labels_in([cell])


def labels_in(cells, known=()):
    return label_lists.split(cells, label_lists.find_form(cells, known), known)


def test_known_labels_decide():
    known = ("Food, drink", "Sport")
    assert labels_in(["Food, drink;Sport", "Food, drink"], known)[1] == [known[0]]
    assert labels_in(["Food, drink"], known) == [["Food, drink"]]
    assert labels_in(["[0, 1]", "[1, 1]"], known) == [["Sport"], [*known]]
    with refuses("3 ... 2 ... --labels"):
        labels_in(["[0, 1, 1]"], known)


def test_the_training_file_tells_the_form_of_labels(tmp_path):
    rows = {"train": ["[0, 1]", "[1, 0]", "[0, 0]", "[1, 1]"], "dev": ["[0, 1]", "[1, 0]"]}
    for given, expected in ((None, [["1"], ["0"]]), (("a", "b"), [["b"], ["a"]])):
        for split, cells in rows.items():
            write(tmp_path, f"{split}.tsv", "text\tlabel", *(f"t{c}\t{c}" for c in cells))
        task = glue.tsv_task("text", None, "label", given, data_dir=str(tmp_path), multi_label=True)
        table = glue.read_rows(task, str(tmp_path), "dev")
        assert glue.labels_of(task, table.rows, str.strip) == expected
    for train, cell in (("a|b", '["a", "b"]'), ("a", "a|b"), ("a;b", "a|b"), ('["a", "b"]', "a|b")):
        (tmp_path / "train.tsv").write_text(f"text\tlabel\nt\t{train}\nu\tb\n")
        (tmp_path / "dev.tsv").write_text(f"text\tlabel\nt\t{cell}\n")
        task = glue.tsv_task("text", None, "label", "ab", data_dir=str(tmp_path), multi_label=True)
        rows = glue.read_rows(task, str(tmp_path), "dev").rows
        assert glue.labels_of(task, rows, str.strip) == [["a", "b"]], train
    write(tmp_path, "train.tsv", "text\tlabel", "a\tx", "b\ty", "c\tx/y")
    write(tmp_path, "dev.tsv", "text\tlabel", "a\ty/x")
    task = glue.tsv_task("text", None, "label", data_dir=str(tmp_path), multi_label=True)
    rows = glue.read_rows(task, str(tmp_path), "dev").rows
    assert glue.labels_of(task, rows, str.strip) == [["y", "x"]]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (['["climate change", null]', '["x"]'], [["climate change"], ["x"]]),
        (['["\\ud83d\\ude00 joy"]', "[]"], [["\U0001f600 joy"], []]),
        (['["a", "b"]', "nan", "c", '["c"]', "set()"], [["a", "b"], [], ["c"], ["c"], []]),
        (["[true, false]", "[false, false]"], [["0"], []]),
        (["[1. 0. 1.]", "[0. 0. 1.]"], [["0", "2"], ["2"]]),
        (["[np.int64(3), np.int64(5)]"], [["3", "5"]]),
        (["[it's, b]"], [["it's", "b"]]),
        (["(none)", "(none)", "a|b"], [["(none)"], ["(none)"], ["a", "b"]]),
    ],
)
def test_lists_of_json(cells, labels):
    assert labels_in(cells) == labels


def test_lists_that_cannot_be_read(tmp_path):
    with refuses("New York"):
        labels_in(['["New York", x]'])
    for cell, message in (
        ('["New York]', "train.tsv ... New York"),
        ("[a, b]", "train.tsv ... [a, b]"),
    ):
        write(tmp_path, "train.tsv", "text\tlabel", f"a\t{cell}", "b\t[x]")
        with refuses(message):
            glue.tsv_task("text", None, "label", data_dir=str(tmp_path))


def test_columns_of_true_and_false(tmp_path, tokenizer):
    write(tmp_path, "train.csv", "text,a,b", "t,1.,0.", "u,true,false")
    row = glue.tsv_task("text", None, "a,b", multi_label=True)
    examples, _ = glue.read_examples(row, str(tmp_path), "train", tokenizer)
    assert [example.label for example in examples] == [["a"], ["a"]]


@pytest.mark.parametrize(("cells", "warns"), [(["x y", "y", "x y"], True), (["x|y", "y"], False)])
def test_a_warning_if_no_text_has_several_labels(cells, warns, tmp_path, capsys):
    write(tmp_path, "train.csv", "text,label", *(f"t{i},{c}" for i, c in enumerate(cells)))
    glue.tsv_task("text", None, "label", data_dir=str(tmp_path), multi_label=True)
    assert names(capsys.readouterr().out, "Warning ... --multi_label ... train.csv") == warns


def test_several_labels_of_a_training(tmp_path):
    write(tmp_path, "train.tsv", "a\t17", "b\t2,25", "c\t25,15", "d\t2,17")
    task = glue.tsv_task("0", None, "1", data_dir=str(tmp_path), multi_label=True)
    assert task.labels == ("2", "15", "17", "25")


# --- Signs of failed training ---


def task_of(tokenizer, row, kind=classification.ClassificationTask, **given):
    return kind("tsv", row, TextInput(tokenizer, 8, SIZES), **given)


@pytest.mark.parametrize(
    ("scores", "labels", "warns"),
    [
        ([41.78, 41.79], [0, 1e5], True),
        ([1.0, 1.0], [0, 1], True),
        ([0.4, 0.6], [0, 1], False),
        ([1.0, 1.0], [1, 1], False),
        ([1.0], [0], False),
    ],
)
def test_scores_that_hardly_differ_are_a_warning(scores, labels, warns, tokenizer):
    task = task_of(tokenizer, glue.tsv_task("0", None, "1", regression=True))
    split = Split({"label_ids": np.array(labels, np.float32)}, None)
    found = task.warning(split, {"logits": np.array(scores, np.float32)[:, np.newaxis]})
    assert (found is not None) == warns
    if warns:
        assert_names(found, f"{len(scores)} ... {max(scores):.4g} ... {max(labels):.4g}")


@pytest.mark.parametrize(
    ("logits", "gold", "what"),
    [
        ([[3, -3]] * 3, [[1, 0], [1, 0], [1, 1]], "'x'"),
        ([[3, 3], [3, 3]], [[1, 0], [1, 1]], "'x|y'"),
        ([[3, -3], [3, -3]], [[1, 0], [1, 0]], None),
        ([[3, -3], [-3, 3]], [[1, 0], [0, 1]], None),
    ],
)
def test_the_same_labels_for_all_texts_are_a_warning(logits, gold, what, tokenizer, tmp_path):
    row = glue.tsv_task("0", None, "1", ["x", "y"], multi_label=True)
    task = task_of(tokenizer, row, multi_label.MultiLabelTask, directory=str(tmp_path))
    split = Split({"label_ids": np.array(gold)}, None)
    found = task.warning(split, {"logits": np.array(logits, np.float32)})
    assert (found is None) == (what is None)
    assert what is None or what in found


def test_scores_are_standardised_in_training(tmp_path, tokenizer):
    write(tmp_path, "train.tsv", *(f"text {label}\t{label}" for label in (100, 300)))
    row = glue.tsv_task("0", None, "1", regression=True)
    scale = (200.0,), (100.0,)
    assert glue.label_scale(row, str(tmp_path)) == scale
    plain, task = task_of(tokenizer, row), task_of(tokenizer, row, scale=scale)
    labels = {"label_ids": np.array([[100], [300]], np.float32)}
    outputs = {"logits": np.array([[200], [250]], np.float32)}
    losses, _ = task.objective.terms(labels, outputs)["eval_loss"]
    np.testing.assert_allclose(losses, [1, 0.25])
    config = AlbertConfig.from_dict(tiny.WIDE | tiny.NO_DROPOUT)
    features = {"input_ids": np.array([[2, 7, 3], [2, 9, 3]], np.int32)}
    models = [each.make_model(config) for each in (plain, task)]
    raw, scores = (model(features)["logits"].numpy() for model in models)
    for ours, theirs in zip(*(model.trainable_variables for model in models), strict=True):
        theirs.assign(ours)
    scores = models[1](features)["logits"].numpy()
    np.testing.assert_allclose(scores, raw * 100 + 200, rtol=1e-5)
    write(tmp_path, "train.tsv", "a\t5", "b\t5")
    assert glue.label_scale(row, str(tmp_path)) == ((5.0,), (1.0,))


def test_several_scores(tmp_path, tokenizer):
    write(tmp_path, "train.csv", "text;a;b", "x;100;1,5", "y;300;2,5", "z;200;2")
    row = glue.tsv_task("text", None, "a,b", regression=True)
    (means, deviations), count = glue.label_scale(row, str(tmp_path)), row.num_outputs
    assert (means, count) == ((200.0, 2.0), 2) and deviations[0] == pytest.approx(81.65, abs=0.01)
    task = task_of(tokenizer, row, scale=(means, deviations))
    examples, _ = glue.read_examples(row, str(tmp_path), "train", tokenizer)
    arrays = task.features(examples)
    np.testing.assert_array_equal(arrays["label_ids"], [[100, 1.5], [300, 2.5], [200, 2]])
    logits = np.array([[110, 1], [290, 2.5], [200, 2]], np.float32)
    found = task.metrics(Split(arrays, examples), {"logits": logits}, 2)
    assert found["MSE_a"] == pytest.approx(200 / 3) and found["MSE_b"] == pytest.approx(0.25 / 3)
    assert found["MSE"] == found["eval_loss"] == pytest.approx(200.25 / 6)
    assert found["pearson"] == pytest.approx((found["pearson_a"] + found["pearson_b"]) / 2)
    losses, _ = task.objective.terms(arrays, {"logits": logits})["eval_loss"]
    wanted = np.mean(((logits - arrays["label_ids"]) / deviations) ** 2, axis=1)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert task.answers(None, {"logits": logits})[1] == {"predictions": [290.0, 2.5]}
    assert task.target({"label_ids": np.array([1.0, 2.0])}) == "[1.0, 2.0]"
    constant = np.array([[110, 2], [290, 2], [200, 2]], np.float32)
    assert "between 2 and 2" in task.warning(Split(arrays, examples), {"logits": constant})
    assert task.warning(Split(arrays, examples), {"logits": logits}) is None


@pytest.mark.long
@pytest.mark.parametrize("columns", ["1", "1,2"])
def test_scores_have_their_own_units_everywhere(columns, run_main, tmp_path):
    for split in glue.SPLITS:
        rows = (f"the man number {i}\t{1000 * i}\t{2000 * i}" for i in range(8))
        write(tmp_path, f"{split}.tsv", *rows)
    own = {"task_name": "tsv", "label_column": columns, "regression": True, "data_dir": tmp_path}
    out, config = tmp_path / "out", tiny.write_config(tmp_path / "config.json")
    given = tiny.CLASSIFIER | own | {"output_dir": out, "albert_config_file": config}
    run_main(run_classifier, **given, export_dir=tmp_path / "export")
    scores = np.array(tiny.table(out / "test_results.tsv"), float)
    assert scores.shape == (8, len(columns.split(",")))
    means = scores.mean(axis=0)
    assert 1000 < means[0] < 6000 and means[-1] == pytest.approx(means[0] * len(means), rel=0.2)
    places = {"albert_directory": out, "export_path": tmp_path / "tf2" / "model.ckpt-best"}
    run_main(export_checkpoints, **places, export_format="tf2")
    plain = {"spm_model_file": tiny.VOCABULARY, "max_seq_length": given["max_seq_length"]}
    for source in ({"model": out}, {"saved_model": tmp_path / "export"},
                   {"model": tmp_path / "tf2"} | plain):  # fmt: skip
        found = tmp_path / "found.jsonl"
        test = {"input_file": tmp_path / "test.tsv", "text_column": 0, "output_file": found}
        run_main(predict, **source, **test)
        values = [json.loads(line)["predictions"] for line in found.read_text().splitlines()]
        np.testing.assert_allclose(np.reshape(values, scores.shape), scores, rtol=1e-4)
    run_main(run_classifier, **given | tiny.EVALUATE | {"output_dir": tmp_path / "other",
             "init_checkpoint": out, "allow_random_init": False})  # fmt: skip
    ours, theirs = (tiny.values_of((tmp_path / name / "eval_results.txt").read_text())["MSE"]
                    for name in ("out", "other"))  # fmt: skip
    assert theirs == pytest.approx(ours, rel=1e-3)


@pytest.mark.parametrize("mark", [",", " ", ";"])
def test_lists_of_0_and_1_need_no_brackets(mark):
    cells = [mark.join(cell) for cell in ("101", "010", "110")]
    assert labels_in(cells) == [["0", "2"], ["1"], ["0", "1"]]
    assert labels_in(cells, ["x", "y", "z"]) == [["x", "z"], ["y"], ["x", "y"]]
    assert labels_in([mark.join("01"), mark.join("12")]) == [["0", "1"], ["1", "2"]]


def test_an_ensemble_has_the_scale_of_its_models(tmp_path):
    def trained(name, scale):
        kind = run_directory.FinetunedTask("tsv", None, scale)
        run_directory.RunDirectory(str(tmp_path / name)).write_task(kind)
        return str(tmp_path / name)

    def scale_of(*directories):
        settings = types.SimpleNamespace(
            ensemble_dirs=directories, output_dir=str(tmp_path / "out"), init_checkpoint=None,
            do_train=False, label_column="2",
        )  # fmt: skip
        return known._scale(types.SimpleNamespace(num_outputs=1), settings)

    scale = ((200.0,), (100.0,))
    first, second = trained("a", scale), trained("b", scale)
    assert scale_of(first, second) == scale
    with refuses("--ensemble_dirs ... c ... scores"):
        scale_of(first, trained("c", ((5.0,), (1.0,))))


@pytest.mark.parametrize(
    ("train", "test", "texts"),
    [
        (["text,label", "a,x", "b,y", "c,x"], ["text", "d", "e"], ["d", "e"]),
        (["text,label", "a,x", "b,y", "c,x"], ["text,label", "d,x"], ["d"]),
        (["a,x", "b,y", "a,x"], ["a,x", "b,y"], ["a", "b"]),  # the same data
        (["a,x", "b,y", "a,x"], ["c", "d"], ["c", "d"]),
        (["a,x", "b,y", "c,x"], ["a,x", "c,x"], ["a", "c"]),  # every other row
        (["yes,y", "no,x", "well,y"], ["yes", "perhaps"], ["yes", "perhaps"]),
    ],
)
def test_a_header_that_the_files_share(train, test, texts, tmp_path):
    write(tmp_path, "train.csv", *train)
    write(tmp_path, "test.csv", *test)
    labels = ["x", "y"]
    task = glue.tsv_task("0", None, "1", labels, data_dir=str(tmp_path), skip_other_labels=True)
    found = glue.read_rows(task, str(tmp_path), "test").rows
    assert [row.values[0] for row in found] == texts


def test_names_that_are_repeated(tmp_path):
    write(tmp_path, "train.csv", "text,label", "a,x", "b,y", "text,label", "c,x")
    with refuses("train.csv, line 4"):
        glue.tsv_task("text", None, "label", data_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (["3.1", "3.10", "3.2"], ["3.1", "3.10", "3.2"]), (["01", "1"], ["01", "1"]),
        (["+1", "1"], ["1", "1"]), (["1", "1.0", "-1.0", "-1"], ["1", "1", "-1", "-1"]),
        (["true", "True"], ["True", "True"]), (["1.00", "1"], ["1", "1"]),
    ],
)  # fmt: skip
def test_spellings_of_one_label(labels, kept):
    same = tables.spellings({*labels})
    assert [same.get(label, label) for label in labels] == kept


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('{"meta": [{"v": 1}], "data": [{"text": "a"}]}', ["a"]),
        ('{"text": {"0": "a", "1": "b"}, "n": {"1": "x", "0": "y"}}', ["a", "b"]),
        ('{"text": ["a", "b"], "n": [1, 2]}', ["a", "b"]),
        ('{"sports": [{"text": "a"}], "news": [{"text": "b"}]}', None),
    ],
)
def test_objects_that_hold_a_table(content, rows, tmp_path):
    path = tmp_path / "train.json"
    path.write_text(content)
    if rows is None:
        with refuses("train.json ... sports, news"):
            tables.read_columns(str(path), ("text",))
        return
    table = tables.read_columns(str(path), ("text",))
    assert [row.values[0] for row in table.rows] == rows
    if '"y"' in content:
        assert [row.cells[1] for row in table.rows] == ["y", "x"]
