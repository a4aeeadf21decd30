# SPDX-License-Identifier: Apache-2.0
"""Users' own tables: the order of labels, separators, quoting, headers, JSON lines."""

import csv
import json
import types

import numpy as np
import pytest
import tensorflow as tf

import export_checkpoints
import run_classifier
from albert_tf.checkpoints import run_directory
from albert_tf.cli import predict
from albert_tf.config import AlbertConfig
from albert_tf.tasks import (
    classification,
    known,
    label_lists,
    multi_label,
    own_tables,
    reading,
    split_files,
    tables,
)
from albert_tf.tasks.reading import Example
from albert_tf.training.splits_and_results import Split
from tests import tiny
from tests.errors import assert_says, names, refuses
from tests.tasks.task_files import NUMBERED, read_own, row_of, task_of, write

# --- Order and spelling of labels ---


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["10", "9", "1", "0", "11"], ["0", "1", "9", "10", "11"]),
        (["5", "-1", "-10", "+3"], ["-10", "-1", "+3", "5"]),
        (["10.5", "2", "1.5", "0.5", "1."], ["0.5", "1.", "1.5", "2", "10.5"]),
        (["b", "a", "B", "10", "9"], ["9", "10", "B", "a", "b"]),
        (["1a", "10a", "2a"], ["10a", "1a", "2a"]),
        (["02", "1", "2"], ["1", "02", "2"]),
    ],
)
def test_whole_numbers_are_in_numeric_order(given, ordered):
    assert sorted(given, key=tables.order) == ordered


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


# --- Separators, quotes, headers ---


def table_of(folder, content, columns=("text", "label"), name="a.csv", **given):
    """The table in a file with this content: str, bytes or lines."""
    lines = content if isinstance(content, list) else [content]
    taken = {key: given.pop(key) for key in ("keep_blank", "skip_short") if key in given}
    return tables.open_table(str(write(folder, name, *lines)), columns, **given).take(
        columns, **taken
    )


def values_of(table):
    return [tuple(row.values) for row in table.rows]


BOTH = [("a, b", "x"), ("c, d", "y")]


@pytest.mark.parametrize(
    ("name", "lines", "columns", "separator", "values"),
    [
        # As Excel writes it where the decimal mark is a comma.
        ("a.csv", ["text;label", '"a, b; c";x', "d;y"], ("text", "label"), ";",
         [("a, b; c", "x"), ("d", "y")]),
        ("a.csv", ["a, b;x", "c, d;y"], (0, 1), ";", BOTH),
        ("a.csv", ["a;3,5", "b;4,5"], (0, 1), ";", [("a", "3,5"), ("b", "4,5")]),
        ("a.csv", ["text|label", "a, b|x", "c, d|y"], ("text", "label"), "|", BOTH),
        ("a.csv", ["text\tlabel", "a, b\tx"], ("text", "label"), "\t", BOTH[:1]),
        ("a.csv", ["text, label", "a, x", '"b, c", y'], ("text", "label"), ",",
         [("a", "x"), ("b, c", "y")]),
        ("a.csv", ["text,label", '"a;b",x', '"c;d",y'], ("text", "label"), ",",
         [("a;b", "x"), ("c;d", "y")]),
        ("a.csv", ["sep=;", "text;label", "a;x"], ("text", "label"), ";", [("a", "x")]),
        ("a.csv", ["a, b:x", "c, d:y"], (0, 1), ":", BOTH),
        ("a.csv", ["a, b^x", "c, d^y"], (0, 1), "^", BOTH),
        ("a.csv", ["text#label", "a, b#x"], ("text", "label"), "#", BOTH[:1]),
        ("a.csv", ["a:b,x", "c:d,y"], (0, 1), ",", [("a:b", "x"), ("c:d", "y")]),
        ("a.csv", ["a:b", "c:d"], (0,), ",", [("a:b",), ("c:d",)]),
        # What stands before the header.
        ("a.csv", ["# by me, 2024", "# a", "text,label", "#b,x"], ("text", "label"), ",",
         [("#b", "x")]),
        ("a.csv", ["", "text;label", "a, b;x"], ("text", "label"), ";", BOTH[:1]),
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
        # R writes no name above the numbers of the rows.
        *(("a.csv", [mark.join(row) for row in (['"text"', '"label"'], ['"1"', '"a, b"', '"x"'],
                                                ['"2"', '"c, d"', '"y"'])],
           ("text", "label"), mark, BOTH) for mark in ",\t;"),
        ("a.tsv", ["text\tlabel", "17\ta\tx", "3\tb, b\ty", "25\tc\tx"], ("text", "label"), "\t",
         [("a", "x"), ("b, b", "y"), ("c", "x")]),
        # What somebody says may go on in the next row, or the next column.
        ("a.tsv", ['1\t"We left.\tA', '2\tNobody saw us."\tB', "3\tplain\tA"], (1, 2), "\t",
         [('"We left.', "A"), ('Nobody saw us."', "B"), ("plain", "A")]),
        ("a.tsv", ["a\tb\tlabel", '"We left.\tNobody saw us."\tA', "c\td\tB"], (0, 2), "\t",
         [("a", "label"), ('"We left.', "A"), ("c", "B")]),
        ("a.tsv", ["id\ttext\tlabel", '1\t"two\nlines"\tA', '2\t"a\tb"\tA', "3\tc\tB"],
         ("text", "label"), "\t", [("two\nlines", "A"), ("a\tb", "A"), ("c", "B")]),
        ("a.csv", ["text,label", "one,a,,", "two,b,"], ("text", "label"), ",",
         [("one", "a"), ("two", "b")]),  # empty columns after the last
        # Bytes of other systems.
        ("a.csv", b"text,label\ra,x\rb,y\r", ("text", "label"), ",", [("a", "x"), ("b", "y")]),
        ("a.csv", "\ufeffx,a\n\ufeffx,b\n".encode(), (0, 1), ",", [("x", "a"), ("x", "b")]),
        ("a.tsv", "text\tlabel\r\né\tx\r\n".encode("utf-16"), ("text",), "\t", [("é",)]),
    ],
)  # fmt: skip
def test_separators_and_quotes_are_recognised(name, lines, columns, separator, values, tmp_path):
    found = table_of(tmp_path, lines, columns, name)
    assert (found.form.separator, values_of(found)) == (separator, values)


def test_a_given_separator(tmp_path):
    found = table_of(tmp_path, ["sep=;", "text;n", "a;x"], ("text",), delimiter=";")
    assert values_of(found) == [("a",)]
    found = table_of(tmp_path, ["a;1,2", "b;1,3"], (0, 1), delimiter=",")
    assert (found.form.separator, values_of(found)) == (",", [("a;1", "2"), ("b;1", "3")])
    lines = ['"text" "label"', '"1" "a, b" "x"', '"2" "c, d" "y"']  # of R's write.table
    assert values_of(table_of(tmp_path, lines, delimiter=" ")) == BOTH
    assert [*map(tables.parse_delimiter, ("tab", "\\t", "semicolon", "|", "", None))] == [
        "\t", "\t", ";", "|", None, None,
    ]  # fmt: skip
    with refuses("--delimiter=;;"):
        tables.parse_delimiter(";;")


@pytest.mark.parametrize(
    ("first", "columns", "separator"),
    [
        ("a text, with a comma", ["text"], "\t"),
        ("text,label\tother", ["text"], ","),
        ('"text","a ""b"""', ["text", 'a "b"'], ","),
        ("", [0, 1], "\t"),
        ("text,label", ["text,label"], "\t"),
    ],
)
def test_commas_are_columns_where_these_are_needed(first, columns, separator):
    assert tables.find_form(first.encode(), "a.tsv", [columns]).separator == separator


@pytest.mark.parametrize(
    ("rows", "separator"),
    [
        (["a;x"] * 9 + ["b", "c"], ";"),  # the last row may be cut, and a tenth has no separator
        (["a;x"] * 8 + ["b", "c"], "\t"),
        (["a;x"] * 180 + ["b"] * 90, ";"),  # the first 200 lines tell
        (["a;x"] * 179 + ["b"] * 90, "\t"),
    ],
)
def test_a_few_rows_may_have_no_separator(rows, separator):
    content = "".join(f"{row}\n" for row in rows).encode()
    assert tables.find_form(content, "a.tsv", [(0, 1)]).separator == separator


@pytest.mark.parametrize(
    ("lengths", "are_names"), [([1] + [3] * 9, True), ([1] * 2 + [3] * 8, False), ([2] * 10, False)]
)
def test_names_are_single_words_above_texts(lengths, are_names):
    texts = [["a " * length] for length in lengths]
    assert tables.may_be_names(["text"], texts) == are_names


TEXTS = ["plain", "a, b", 'he said "no"', "two\nlines", "tab\there", "", "ende\r\n", " é"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_csv_as_pandas_writes_it(name, quoting, end, tmp_path):
    path, frame = tmp_path / name, [["id", "text"], *([i, t] for i, t in enumerate(TEXTS))]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, quoting=quoting, lineterminator=end).writerows(frame)
    table = tables.open_table(str(path), ["text"]).take(["text"])
    assert table.form == tables.CSV and table.header == ["id", "text"]
    assert [row.cells for row in table.rows] == [list(map(str, row)) for row in frame[1:]]
    assert [row.line for row in table.rows] == [2, 3, 4, 5, 7, 8, 9, 11]


def test_long_text_in_csv(tmp_path):
    limit = csv.field_size_limit()
    assert len(table_of(tmp_path, [f'"{"long " * 50_000}",x'], [0]).rows[0].cells[0]) == 250_000
    assert csv.field_size_limit() == limit < 250_000  # the process keeps its own


def test_quotes_line_ends_and_byte_order_mark_of_glue(tmp_path):
    content = '\ufeffa\t"b\r\n\r\nc\u2028d\x85\t"'.encode()
    given = {"has_header": False, "is_own": False, "keep_blank": True}
    table = table_of(tmp_path, content, [0, 1], "a.tsv", **given)
    assert table.form == tables.TABS
    assert [row.cells for row in table.rows] == [["a", '"b'], ["", ""], ["c\u2028d\x85", '"']]
    assert [row.line for row in table.rows] == [1, 2, 3]


@pytest.mark.parametrize(
    ("lines", "given", "header", "count"),
    [
        (["0,1", "a,0", "b,1"], {}, ["0", "1"], 2),
        ([",0,1", "0,a,0", "1,b,1"], {}, ["", "0", "1"], 2),
        (["0,1", "a,0", "b,1"], {"has_header": False}, None, 3),
        (["text,label", "a,0"], {"has_header": True}, ["text", "label"], 1),
        (["text,label", "a,0"], {}, None, 2),
        (["1,0", "a,0"], {}, None, 2),
        (["", "0,1", "a,0"], {}, ["0", "1"], 1),
        (["", "a,0", "b,1"], {}, None, 2),
        (["", "a,0", "b,1"], {"keep_blank": True}, None, 3),
    ],
)
def test_a_header_that_numbers_the_columns(lines, given, header, count, tmp_path):
    columns = (1, 2) if lines[0].startswith(",") else (0, 1)
    found = table_of(tmp_path, lines, columns, **given)
    assert (found.header, len(found.rows)) == (header, count)


JSON = '{"text": "a", "label": 1}', '{"label": 0, "text": "b", "id": 3}'
IN_OBJECTS = ['{"text": {"en": "a"}, "label": {"name": "x"}}', '{"text": {"en": "b"}}']
AB = [("a",), ("b",)]


@pytest.mark.parametrize(
    ("content", "columns", "values"),
    [
        (IN_OBJECTS, ("text.en", "label.name"), [("a", "x"), ("b", "")]),
        (['{"text": null, "label": "x"}', '{"text": "null"}'], ("text", "label"),
         [("", "x"), ("null", "")]),
        ('{"version": 1, "data": [{"text": "a"}, {"text": "b"}]}', ("text",), AB),
        ('{"text": ["a", "b"], "label": [1, 0]}', ("text", "label"), [("a", "1"), ("b", "0")]),
        ('{"text": {"0": "a", "1": "b"},\n "n": {"1": "x", "0": "y"}}', ("text", "n"),
         [("a", "y"), ("b", "x")]),
        ('{"columns": ["text"], "index": [0, 1], "data": [["a"], ["b"]]}', ("text",), AB),
        ('{"0": {"text": "a"}, "1": {"text": "b"}}', ("text",), AB),
        ('{"text": ["a", "b"], "meta": [{"v": 1}, {"v": 2}]}', ("text",), AB),
        ('{"columns": 5, "data": 5, "text": "a"}', ("text",), AB[:1]),
        ('{"columns": ["text", "n"], "data": [["a", 1], ["b", 2]]}', ("text",), AB),
        ('{"labels": ["x", "y"], "data": [{"text": "a"}, {"text": "b"}]}', ("text",), AB),
        ('{"meta": [{"v": 1}], "data": [{"text": "a"}]}', ("text",), AB[:1]),
        # Several choices of Label Studio; an object that nobody needs.
        (['{"text": "a", "n": "x"}', '{"text": "b", "n": {"choices": ["x", "y"]}}'],
         ("text", "n"), [("a", "x"), ("b", '["x", "y"]')]),
        (['{"text": "a", "n": "x"}', '{"text": "b", "n": {"v": "x"}}'], ("text",), AB),
        (['{"text": "a", "n": "x"}', '{"text": "b", "n": null, "n.v": 1}'], ("text", "n"),
         [("a", "x"), ("b", "")]),
    ],
)  # fmt: skip
def test_tables_of_json(content, columns, values, tmp_path):
    name = "a.jsonl" if isinstance(content, list) else "a.json"
    assert values_of(table_of(tmp_path, content, columns, name)) == values


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", "text,label\nschön,x\n".encode("cp1252"), ("text",),
         "a.csv, line 2 ... UTF-8 ... iconv"),
        ("a.csv", b'text,label\n"two\nlines",\xff\n', (0,), "a.csv, line 3 ... UTF-8"),
        ("a.csv", ["text,label", "a,b", '"open,c', "d,e"], (0,), "a.csv, line 3 ... CSV"),
        ("a.csv", b"PK\x03\x04" + bytes(100), ("text",), "a.csv ... ZIP ... CSV"),
        ("a.csv", ["text,label", "1,a,x", "1,b,y"], ("text",), "a.csv, line 2 ... 3 ... 2"),
        # Quotes as Spark and MySQL write them, labels of fastText, spaces between columns.
        ("a.csv", ["text,label", r'"a \"b\", c",x'], ("text",), 'a.csv, line 2 ... "" ... \\"'),
        *((name, ["__label__a he said no", "__label__b well"], columns, f"{name} ... fastText")
          for name in ("a.csv", "a.tsv") for columns in ((1, 0), ("text", "label"))),
        ("a.tsv", ['"text" "label"', '"1" "a" "x"'], ("text",), "a.tsv ... 'text' ... --delimiter"),
        # Files of Excel that were joined.
        *(("a.csv", f"\ufeff{header}\na,x\n\ufeff{header}\nb,y\n".encode(), ("text", "label"),
           "a.csv, line 3 ... repeated") for header in ("text,label", '"text","label"')),
        # Texts with separators and without quotes are not cut.
        ("a.csv", ["label,text", "a,Well, this is it", "b,Well, that was it"], ("text", "label"),
         "a.csv, line 2 ... --delimiter"),
        ("a.csv", ["a,Oh", "b,Well, that was it"], (1, 0), "a.csv, line 2 ... --delimiter"),
        ("a.csv", ["Title;label", "a;x"], ("text",), "a.csv ... 'text' ... 'Title' ... semicolons"),
        ("a.csv", ["text;label", "a;x", *["b;y"] * 10, "c"], ("text", "label"),
         "a.csv, line 13 ... 1 ... 2 ... semicolons ... --delimiter"),
        ("a.jsonl", IN_OBJECTS, ("text.en", "label"), "a.jsonl ... 'label' ... 'label.name'"),
        ("a.jsonl", ['{"text": "a", "label": "x"}', "[1]"], ("text",), "a.jsonl, line 2 ... [1]"),
        ("a.jsonl", ['{"text": "a"}', '{"text": {"en": "b"}}'], ("text",),
         "a.jsonl, line 2 ... 'text' ... object"),
        ("a.jsonl", ['{"text": "a"}'], (5,), "a.jsonl ... 6"), ("a.json", "[]", (0,), "a.json"),
        ("a.jsonl", ['{"text": "a", "class": "x"}'], ("label",), "a.jsonl ... 'label' ... 'class'"),
        ("a.json", '{"sports": [{"text": "a"}], "news": [{"text": "b"}]}', ("text",),
         "a.json ... sports, news"),
    ],
)  # fmt: skip
def test_tables_that_are_refused(name, content, columns, message, tmp_path):
    with refuses(message):
        table_of(tmp_path, content, columns, name)


# --- Examples ---


FIRST = {"text_column": "1", "label_column": "0"}  # the label comes first
TEXTS_AS_LABELS = [f"text {number}\tlabel {number % 11}" for number in range(20)]
SEVERAL = {"multi_label": True}


def labelled(*labels, mark=","):
    """Lines of texts with these labels, below a header."""
    return [f"text{mark}label", *(f"a {label}{mark}{label}" for label in labels)]


@pytest.mark.parametrize(
    ("name", "lines", "given", "labels", "read"),
    [
        ("train.tsv", labelled(*sorted(map(str, range(12))), mark="\t"), {},
         (*map(str, range(12)),), None),
        ("train.csv", labelled("1", "1.0", "0"), {}, ("0", "1"), ["1", "1", "0"]),
        ("train.csv", labelled("1.0", "0.0", "0.0"), {}, ("0.0", "1.0"), ["1.0", "0.0", "0.0"]),
        ("train.csv", labelled("True", "true", "False"), {}, ("False", "True"),
         ["True", "True", "False"]),
        ("train.csv", labelled("Good", "good", "1a"), {}, ("1a", "Good", "good"),
         ["Good", "good", "1a"]),
        # The spelling of the training is that of other files.
        ("dev.csv", labelled("1.0", "0.0"), {"labels": ["0", "1"]}, ("0", "1"), ["1", "0"]),
        ("train.tsv", labelled('["a"]', '["b"]', mark="\t"), {}, ("a", "b"), ["a", "b"]),
        *(("train.tsv", labelled(*cells, mark="\t"), {}, ("a", "b"), ["a", "b"])
          for cells in (("['a']", "['b']"), ("{'name': 'a'}", "{'name': 'b'}"))),
        ("train.jsonl", [JSON[0], "", JSON[1]], {}, ("0", "1"), ["1", "0"]),
        ("train.json", [f"[{JSON[0]},", f" {JSON[1]}]"], {}, ("0", "1"), ["1", "0"]),
        ("train.tsv", JSON, {}, ("0", "1"), ["1", "0"]),
        ("train.csv", ["bad:It is dull", "good:Well done", "bad:No", "good:It was"], FIRST,
         ("bad", "good"), ["bad", "good", "bad", "good"]),
        # A label column may have half as many labels as rows.
        ("train.tsv", [row.replace("label 10", "label 9") for row in TEXTS_AS_LABELS], NUMBERED,
         (*(f"label {n}" for n in range(10)),), None),
        ("train.tsv", ["text\tlabel", "a\t-1.5", "b\t30"], {"regression": True}, None,
         [-1.5, 30.0]),
        ("train.csv", labelled("3,5", "1,25", "2", mark=";"), {"regression": True}, None,
         [3.5, 1.25, 2.0]),
        ("train.csv", labelled("-0,125", "0,5", mark=";"), {"regression": True}, None,
         [-0.125, 0.5]),
        ("train.csv", labelled("0,50", "\u22121,5", "-1.234.567,50", mark=";"),
         {"regression": True}, None, [0.5, -1.5, -1234567.5]),
        ("train.tsv", labelled("12,345.50", "1,234.5", "900", mark="\t"), {"regression": True},
         None, [12345.5, 1234.5, 900.0]),
        # Decimals that are no thousands.
        *(("train.csv", labelled(*scores), {"regression": True}, None, [*map(float, scores)])
          for scores in (("3.667", "4", "2.333"), ("1.000", "2.500"), ("1.5", "500", "20.000"),
                         ("1.667", "5", "4"))),
        ("train.tsv", ["a\t17", "b\t2,25", "c\t25,15", "d\t2,17"], NUMBERED | SEVERAL,
         ("2", "15", "17", "25"), [["17"], ["2", "25"], ["25", "15"], ["2", "17"]]),
        ("train.csv", ["text,label", 'a,"x\n & y"', "b,z"], {}, ("x & y", "z"), ["x & y", "z"]),
        # Names that are numbers, next to a name.
        ("train.csv", ["1,2,text", "x,z,a", "y,z,b"], {"label_column": "1"}, ("x", "y"),
         ["x", "y"]),
        ("train.csv", ["text,0,1", "a,1,0", "b,0,1"], SEVERAL | {"label_column": "0,1"},
         ("0", "1"), [["0"], ["1"]]),
    ],
)  # fmt: skip
def test_labels_of_ones_own_files(name, lines, given, labels, read, tmp_path, tokenizer):
    task, examples, _ = read_own(tmp_path, tokenizer, (name, *lines), **given)
    assert task.labels == labels
    assert read is None or [example.label for example in examples] == read
    if given.get("regression"):
        assert ("decimal commas" in reading.describe(task, str(tmp_path))[0]) == (";" in lines[0])
        assert task_of(task).schema["label_ids"].dtype == tf.float32
        assert (task.metrics[0], task.num_outputs) == ("pearson", 1)


@pytest.mark.parametrize(
    ("files", "given", "left_out", "read"),  # left out as blank, and because of labels
    [
        ([("train.tsv", "id\tlabel\ttext", "9\tSpam \tBuy  Now", "8\tHam\tHello")], {}, (0, 0),
         [("train-1", "buy now", "Spam"), ("train-2", "hello", "Ham")]),
        ([("train.tsv", "text\tlabel", "a\tSpam", "b\tHam"), ("test.tsv", "text", "Hello", "Buy")],
         {}, (0, 0), [("0", "hello", "Ham"), ("1", "buy", "Ham")]),  # the label stands in
        ([("train.csv", "id,text,label", '1,"two', 'lines, ""quoted""",b', "2,c,a")], {}, (0, 0),
         [("train-1", 'two lines, "quoted"', "b"), ("train-2", "c", "a")]),
        ([("train.csv", "text;label", "a;x", "b;y", ";", " ; ")], {}, (2, 0),
         [("train-1", "a", "x"), ("train-2", "b", "y")]),
        ([("train.tsv", "text\tlabel", "a\tno", "b\t-", "c\tyes", "d\t-")],
         {"labels": ["no", "yes"], "skip_other_labels": True}, (0, 2),
         [("train-1", "a", "no"), ("train-3", "c", "yes")]),
        ([("train.csv", "text;label", "a;x,y", "b;x,z", "c;", "d;y")],
         SEVERAL | {"labels": ["x", "y"], "skip_other_labels": True}, (0, 1),
         [("train-1", "a", ["x", "y"]), ("train-3", "c", []), ("train-4", "d", ["y"])]),
        ([("train.csv", "text,x,y", "a,1,1", "b,-1,-1", "c,0,0")],
         SEVERAL | {"label_column": "x,y", "labels": ["x", "y"], "skip_other_labels": True}, (0, 1),
         [("train-1", "a", ["x", "y"]), ("train-3", "c", [])]),
        ([("train.csv", "id,text,label", "1,good,x,", "2,bad,y,")], {}, (0, 0),
         [("train-1", "good", "x"), ("train-2", "bad", "y")]),
        ([("train.tsv", "__label__a __label__b\tgood", "__label__a __label__b\tbad")],
         {"text_column": "1", "label_column": "0", "labels": ["__label__a __label__b", "x"]},
         (0, 0), [("train-0", "good", "__label__a __label__b"),
                  ("train-1", "bad", "__label__a __label__b")]),
        ([("train.tsv", *(f"{x}~{w} is it" for x in "ab" for w in "iti"))],
         {"text_column": "1", "label_column": "0"}, (0, 0),
         [(f"train-{n}", f"{'iti'[n % 3]} is it", "ab"[n // 3]) for n in range(6)]),
        *(([("train.csv", "text,a,b", *rows)], SEVERAL | {"label_column": "a,b"}, (0, 0),
           [("train-1", "t", ["a"]), ("train-2", "u", ["b"])])
          for rows in (["t,x,", "u,,x"], ["t,Yes,no", "u,No,yes"])),
        ([("train.csv", "text,a,b", "t,1.,0.", "u,true,FALSE")], SEVERAL | {"label_column": "a,b"},
         (0, 0), [("train-1", "t", ["a"]), ("train-2", "u", ["a"])]),
        ([("train.csv", 'text,a,"b,c"', "t, 1 ,", "u,,1")],
         SEVERAL | {"header": True, "text_column": "0", "label_column": '1, "b,c"'},
         (0, 0), [("train-1", "t", ["a"]), ("train-2", "u", ["b,c"])]),
        ([("train.csv", "Text,label", "one\rtwo,x", "three,y")], {}, (0, 0),
         [("train-1", "one two", "x"), ("train-2", "three", "y")]),
    ],
    ids=[
        "names", "test", "quotes", "no content", "other labels", "others among several",
        "other values", "separators at ends", "marks of fastText", "words that begin texts",
        "a column", "x in columns", "yes in columns", "marks in columns", "carriage return",
    ],
)  # fmt: skip
def test_examples_of_ones_own_files(files, given, left_out, read, tmp_path, tokenizer):
    _, examples, found = read_own(tmp_path, tokenizer, *files, **given)
    assert [(example.guid, example.text_a, example.label) for example in examples] == read
    assert (found["left_out"], found["other_labels"]) == left_out


@pytest.mark.parametrize("cell", ["-1", "-1.0", ""])
@pytest.mark.parametrize("lowest", ["-1", "0", None])
def test_a_stand_in_may_be_a_class(cell, lowest, tmp_path, tokenizer):
    file = "test.csv", "text,label", f"a,{cell}", f"b,{cell}"
    given = {"labels": [lowest, "1"]} if lowest else {"regression": True}
    _, test, _ = read_own(tmp_path, tokenizer, file, **given)
    assert {*test.are_labelled} == {cell[:2] == lowest}


def test_labels_in_a_column_by_number_next_to_a_name(tmp_path, tokenizer):
    file, given = ("test.csv", "text,label", "a,x", "b,y"), {"labels": ["x", "y"]}
    _, test, _ = read_own(tmp_path, tokenizer, file, label_column="1", **given)  # alone
    assert [*test.are_labelled] == [True, True]


def test_pairs_of_ones_own_files(tmp_path, tokenizer):
    given = {"text_column": "0", "text_pair_column": "1", "label_column": "2"}
    lines = "one\ttwo\tyes", "three\tfour\tno"
    task, examples, _ = read_own(
        tmp_path, tokenizer, ("dev.tsv", *lines), **given, labels=["yes", "no"]
    )
    assert examples == [
        Example("dev-0", "one", "two", "yes"),
        Example("dev-1", "three", "four", "no"),
    ]
    assert task_of(task, tokenizer).features(examples)["label_ids"].tolist() == [0, 1]


@pytest.mark.parametrize("header", [[], ["text"]])
def test_blank_rows_keep_their_place_in_the_test_file(header, tokenizer, tmp_path):
    rows, labels = ["yes", "", "no", "", ""], ["yes", "no"]
    column = "text" if header else 0
    given = {"text_column": column, "label_column": None, "labels": ["a", "b"]}
    task, test, counts = read_own(tmp_path, tokenizer, ("test.tsv", *header, *rows), **given)
    assert [example.text_a for example in test] == rows and counts["left_out"] == 0
    assert [example.guid for example in test] == ["0", "1", "2", "3", "4"]
    mask = task_of(task, tokenizer).features(test)["input_mask"]
    assert mask.sum(axis=1).tolist()[1::2] == [2, 2]
    dev = "dev.tsv", *(row and f"{row}\tyes" for row in [*header, *rows])
    given |= {"label_column": "yes" if header else 1, "labels": labels}
    _, found, counts = read_own(tmp_path, tokenizer, dev, **given)
    assert [example.text_a for example in found] == labels and counts["left_out"] == 3


@pytest.mark.parametrize(
    ("train", "test", "given", "texts"),
    [
        (["text,label", "a,x", "b,y", "c,x"], ["text", "d", "e"], {}, ["d", "e"]),
        (["text,label", "a,x", "b,y", "c,x"], ["text,label", "d,x"], {}, ["d"]),
        (["a,x", "b,y", "a,x"], ["a,x", "b,y"], {}, ["a", "b"]),  # the same data
        (["a,x", "b,y", "a,x"], ["c", "d"], {}, ["c", "d"]),
        (["a,x", "b,y", "c,x"], ["a,x", "c,x"], {}, ["a", "c"]),  # every other row
        (["yes,y", "no,x", "well,y"], ["yes", "perhaps"], {}, ["yes", "perhaps"]),
        # Nothing else tells that the line is an example.
        (["a,x", "b,y", "a,x"], ["c,z", "d,x", "e,z"], {}, ["c", "d", "e"]),
        (["a,x", "b,y", "a,x"], ["one", "a dull film", "one"], {}, ["one", "a dull film", "one"]),
        # The training names only the label, or a flag tells, or numbers stand above the columns.
        (["text,label", "a,x", "b,y"], ["text,id", "c,1"], {"label_column": "label"}, ["c"]),
        (["a,x", "b,y"], ["text", "dull", "good"], {"header": False}, ["text", "dull", "good"]),
        (["0,1", "a,x", "b,y"], ["0,1", "bad,x", "good,y"], {}, ["bad", "good"]),
        (
            ["text,toxic,rude", "a,0,1", "b,1,0"],
            ["text,toxic,rude", "d,0,1"],
            SEVERAL | {"label_column": "1,2", "labels": None, "skip_other_labels": False},
            ["d"],
        ),
        # The names of the training file count, wherever the columns are.
        (
            ["text,label", "a,x", "b,y"],
            ["id,label,text", "1,x,d", "2,y,e"],
            {"header": True},
            ["d", "e"],
        ),
        (["text,label", "a,x", "b,y"], ["review", "d", "e"], {"header": True}, ["d", "e"]),
        # A name that is a number.
        (
            ["id,1,2", "7,a,x", "8,b,y"],
            ["id,1,2", "9,c,x"],
            {"text_column": "1", "label_column": "2", "header": True},
            ["c"],
        ),
        (
            ["text,2019,2020", "a,x,y", "b,y,x"],
            ["2020,2019,text", "y,x,c"],
            {"header": True, "label_column": "2020"},
            ["c"],
        ),
    ],
)
def test_a_header_of_the_test_file(train, test, given, texts, tmp_path, tokenizer):
    given = NUMBERED | {"labels": ["x", "y"], "skip_other_labels": True} | given
    files = ("train.csv", *train), ("test.csv", *test)
    _, examples, _ = read_own(tmp_path, tokenizer, *files, **given)
    assert [example.text_a for example in examples] == texts
    assert [example.guid for example in examples] == [str(row) for row in range(len(texts))]


FILMS = ["a good film,{}1", "a very dull film,{}2", "two hours of it,{}2", "no film at all,{}1"]


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize(
    ("header", "start", "is_asked"),
    [("1,2", "", True), ("2,1", "", True), ("0,5", "", True), ("id,0,1", "7,", True),
     ("index,2,1", "7,", True), (",4,2", "7,", True), ("7,5", "", True), ("1984,5", "", False)],
)  # fmt: skip
def test_a_header_that_may_be_an_example(header, start, is_asked, regression, tmp_path, tokenizer):
    """Its label is known, but all files begin with it, above texts: pandas chose columns."""
    lines = [header, *(start + film.format("") for film in FILMS)]
    others = header, *lines[:2:-1]
    shift = int(bool(start))
    given = {"text_column": str(shift), "label_column": str(shift + 1), "regression": regression}
    given |= {} if regression else {"labels": ["1", "2", "5"]}
    for split in split_files.SPLITS[1:]:
        write(tmp_path, "train.csv", *lines)
        _, examples, _ = read_own(tmp_path, tokenizer, (f"{split}.csv", *others), **given)
        assert [e.text_a for e in examples] == ["no film at all", "two hours of it"]
    for split in split_files.SPLITS:
        (tmp_path / f"{split}.csv").unlink()
    if is_asked:  # alone, the numbers may be an example
        with refuses("train.csv, line 1 ... --header ... --noheader"):
            read_own(tmp_path, tokenizer, ("train.csv", *lines), **given)
        given["header"] = False
    assert len(read_own(tmp_path, tokenizer, ("train.csv", *lines), **given)[1]) == 5


@pytest.mark.parametrize("first", ["text,1", "Amazing,1"])
def test_a_word_above_texts_may_be_a_header(first, tmp_path, tokenizer):
    lines = [first, *(film.format("") for film in FILMS)]
    write(tmp_path, "train.csv", *lines)
    given = NUMBERED | {"labels": ["1", "2"]}
    dev = "dev.csv", first, *lines[:2:-1]
    with refuses(f"{tmp_path}/dev.csv, line 1 ... --header ... --noheader"):
        read_own(tmp_path, tokenizer, dev, **given)
    for header, count in ((True, 2), (False, 3)):
        assert len(read_own(tmp_path, tokenizer, dev, **given, header=header)[1]) == count


@pytest.mark.parametrize(
    ("labels", "count", "is_warned"),
    [("010", 3, False), ("000", 3, True), (["0", "1", "0", ""], 3, False), ("01", 2, False)],
)
def test_labels_of_a_test_file(labels, count, is_warned, tmp_path, tokenizer, capsys):
    """Rows of separators at the end, as of Excel, are no rows; a class alone may stand in."""
    rows = [f"a {n};{label}" if label else ";" for n, label in enumerate(labels)]
    file = "test.csv", "text;label", *rows
    _, examples, counts = read_own(tmp_path, tokenizer, file, labels=["0", "1"])
    assert (len(examples), {*examples.are_labelled}) == (count, {True})
    assert counts["other_labels"] == 0
    assert ("Warning" in capsys.readouterr().out) == is_warned


def test_rows_that_people_rejected_are_a_warning(tmp_path, tokenizer, capsys):
    for others, is_said in ((["reject", "ignore"], True), (["accept"] * 2, False), ("xy", False)):
        answers = ["accept", *others]
        lines = [f"a {n},{n % 2},{answer}" for n, answer in enumerate(answers)]
        read_own(tmp_path, tokenizer, ("train.csv", "text,label,answer", *lines))
        assert ("reject in 1 rows and ignore in 1" in capsys.readouterr().out) == is_said
    rows = "text,answer", "a,accept", "b,reject"
    read_own(tmp_path, tokenizer, ("train.csv", *rows), label_column="answer")
    assert "Warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "given", "message"),
    [
        ([("train.tsv", "text\tclass", "a\tb")], {}, "'label' ... 'text' ... 'class'"),
        ([("train.tsv", "text\tlabel", "a\t0", "b\t0")], {}, "['0'] ... --label_column=label"),
        ([("train.tsv", "text\tlabel\ttext", "a\tyes\tb")], {}, "train.tsv ... 'text'"),
        # No column has a name: there is no header.
        ([("train.tsv", "text\tlabel", "a\t0", "b\t1")], NUMBERED, "train.tsv, line 1 ... 'label'"),
        ([("train.tsv", *TEXTS_AS_LABELS)], NUMBERED,
         "1 ... 11 ... 20 ... 'label 0' ... --regression"),
        ([("other.tsv",)], {}, "train.tsv ... train.csv"),
        ([("train.tsv", "1\ta", "0\tb")], NUMBERED | {"text_pair_column": "00"}, "0"),
        ([("train.csv", "text,label", "a,x", "b,y", "text,label", "c,x")], {}, "train.csv, line 4"),
        ([("train.csv", 'text,"how, if"', "a,1", "b,2")],
         {"regression": True, "label_column": "how, if"}, "'how' ... 'how, if' ... quotes"),
        ([("train.csv", "text,label", "a,\"{'a': 1}\"", "b,x")], {}, "train.csv ... {'a': 1}"),
        # Several labels.
        ([("train.tsv", "text\tlabels", "a\tx|y", "b\t", "c\ty|x")], NUMBERED | SEVERAL,
         "line 1 ... 'labels'"),
        ([("train.tsv", "text\ttag|more", "a\tx", "b\ty|x")], NUMBERED | SEVERAL,
         "line 1 ... 'tag|more'"),
        ([("train.tsv", *TEXTS_AS_LABELS, "no label\t")], NUMBERED | SEVERAL,
         "1 ... 11 ... 20 ... 'label 0'"),
        *(([("train.tsv", *labelled(label, '["b"]', mark="\t"))], {}, f"train.tsv ... {named}")
          for label, named in (('["a", "b"]', "--multi_label"), ('[[0, "PER"]]', "[0, 'PER']"))),
        ([("train.tsv", *labelled("[]", '["b"]', mark="\t"))], {}, "train.tsv, line 2"),
        # Columns of 0 and 1, and vectors.
        ([("train.csv", "text,a,b", "t,0,2", "u,1,0")], SEVERAL | {"label_column": "a,b"},
         "train.csv, line 2 ... 'b' ... '2'"),
        ([("train.csv", "text,a,b", "t,ok,", "u,,x")], SEVERAL | {"label_column": "a,b"},
         "train.csv, line 2 ... 'a' ... 'ok'"),
        ([("train.csv", "text,a,b", "t,0,", "u,1,0")], SEVERAL | {"label_column": "a,b"},
         "train.csv, line 2 ... 'b' ... ''"),
        ([("train.jsonl", '{"text": "a \\ud83d", "label": "x"}')], {}, "train.jsonl, line 1"),
        ([("train.tsv", *labelled("[0, 1, -1, 0]", "[1, 0, 0, 0]", mark="\t"))], SEVERAL,
         "train.tsv ... '-1'"),
        # A column that counts the rows holds no texts.
        *(([("train.csv", *(f"{i},text {i},{i % 2}" for i in counted))],
           NUMBERED | {"label_column": "2"}, "train.csv ... 0 ... --text_column")
          for counted in ((0, 1, 2), (1, 2, 3), (1000, 1001, 1002), (3, 7, 8))),
        # Nor does a column of ids.
        ([("test.csv", "doc_0,a film", "doc_7,a book", "doc_2,a play")],
         NUMBERED | {"labels": ["x", "y"]}, "test.csv ... 0 ... 'doc_0' ... --text_column"),
        # A header that only the test file has.
        *(([("train.csv", "a,x", "b,y"), ("test.csv", *test)], NUMBERED | {"labels": ["x", "y"]},
           "test.csv, line 1 ... --header ... --noheader")
          for test in (["text,label", "a,x", "b,y"], ["text,label", "a,", "b,"])),
        # The texts alone, where the label comes first.
        ([("test.csv", "a film", "a book")], FIRST | {"labels": ["x", "y"]},
         "test.csv ... 1 ... 2 ... all rows ... header ... empty"),
        # Columns that have no texts, or are read twice.
        ([("train.csv", "text,pair,label", "a,,x", "b,,y")], {"text_pair_column": "pair"},
         "train.csv ... 'pair' ... --text_pair_column"),
        ([("train.csv", "text,label", "a,x", "b,y")], {"text_pair_column": "0"},
         "train.csv ... 'text' and 0"),
        ([("dev.csv", "x,a", "y,b", "x,c")], NUMBERED | {"labels": ["x", "y"]},
         "dev.csv ... 0 ... 'x' ... --text_column"),
        # Separators that are longer, or stand in labels.
        *(([("train.csv", f"bad{mark}a", f"good{mark}b")], FIRST,
           f"train.csv ... 1 ... {name} ... --text_column")
          for mark, name in ((" ||| ", "vertical bars"), ("::", "colons"))),
        ([("train.csv", *(f"{label} {word} it?" for label in ("DESC:manner", "HUM:ind")
                          for word in ("How did", "Who is", "What is")))], FIRST,
         "train.csv ... 1 ... 'manner' ... colons ... --delimiter=:"),
        *(([("train.csv", *labelled(*scores, mark=";"))], {"regression": True}, "train.csv, line")
          for scores in (("1,000", "2,500"), ("1.234,5", "2"), ("3,5", "2.5"), ("50%", "2"),
                         ("500", "20.000", "1.500"), ("900", "1.234"), ("-200", "-2.125"))),
        *(([("train.csv", *labelled("0,5", "1,5", score, mark=";"))], {"regression": True},
           f"train.csv, line 4 ... {score!r} ... 12.5") for score in ("0,5 %", "1'000", "2.5")),
        ([("train.jsonl", '{"text": ["a", "b"], "label": "x"}')], {"labels": ["x", "y"]},
         'train.jsonl ... \'text\' ... ["a", "b"]'),
        ([("dev.csv", "text,label", '"a', 'b",a', "c")], {"labels": ["a", "b"]},
         "dev.csv, line 4 ... 1"),
        ([("dev.tsv", "text\tlabel"), ("dev.csv", "text,label")], {"labels": ["a", "b"]},
         "dev.tsv ... dev.csv"),
        ([("test.csv", "text;label", ";", ";")], {"labels": ["0", "1"]}, "test.csv ... empty"),
        ([("validation.csv", "text,label", "a,x"), ("dev.else",)], {"labels": ["x", "y"]},
         "dev.csv ... --do_eval ... validation.csv"),
        # An empty label is no class.
        ([("train.tsv", "text\tlabel", "a\tyes", "b\t ", "c\tno", "d\t")], {},
         "train.tsv, line 3 ... 2 of 4 ... --skip_other_labels"),
        ([("dev.tsv", "text\tlabel", "a\tyes", "b\t ", "c\tno")], {"labels": ["yes", "no", ""]},
         "dev.tsv, line 3"),
        ([("train.tsv", "text\tlabel", "a\tno", "b\t-")], {"labels": ["no", "yes"]},
         "train.tsv, line 3 ... '-' ... --skip_other_labels"),
        ([("train.tsv", "text\tlabel", "a\tno", "b\t-")],
         {"labels": ["x", "y"], "skip_other_labels": True}, "train.tsv ... --labels=x,y"),
        ([("train.tsv", "text\tlabel", 'a\t["New York]', "b\t[x]")], {}, "train.tsv ... New York"),
        ([("train.tsv", "text\tlabel", "a\t[a, b]", "b\t[x]")], {}, "train.tsv ... [a, b]"),
        ([("train.tsv", "text")], {"labels": ["a", "a"]}, "['a', 'a']"),
        ([("train.tsv", "text")], {"label_column": "", "labels": ["a", "b"]}, "--do_train"),
        ([("train.tsv", "text\tother")], NUMBERED | {"labels": [f"class {n}" for n in range(30)]},
         "0, class 1 ... class 9, ..."),  # few of many labels are shown
    ],
)  # fmt: skip
def test_own_files_that_are_refused(files, given, message, tmp_path, tokenizer):
    with refuses(message) as error:
        read_own(tmp_path, tokenizer, *files, **given)
    if "multi_label" in given:  # several labels are never numbers to predict
        assert "--regression" not in str(error.value)


@pytest.mark.parametrize(
    ("lines", "warns"),
    [
        (["text,id", "a dull film,1", "a good film,2"], True),
        (["text", "a dull film", "a good film"], True),
        (["text", "dull", "good"], False),
        (["A film", "a dull film", "a good film"], False),
        (["A film,mixed", "a dull film,x", "a good film,y"], False),
    ],
)
def test_what_may_be_a_header_of_the_test_file(lines, warns, tmp_path, tokenizer, capsys):
    files = ("train.csv", "a,x", "b,y"), ("test.csv", *lines)
    read_own(tmp_path, tokenizer, *files, **NUMBERED, labels=["x", "y"], skip_other_labels=True)
    assert_says(capsys.readouterr().out, *["Warning ... test.csv, line 1 ... --noheader"] * warns)


def test_the_names_of_columns_that_are_given_by_number_are_shown(tmp_path, tokenizer):
    given = {"text_column": "1", "label_column": "2", "header": True}
    file = "train.csv", "id,text,1,2", "7,a,x,u", "8,b,y,u"
    row, *_ = read_own(tmp_path, tokenizer, file, **given)
    data = classification.GlueData(task_of(row), str(tmp_path), "", "", row=row)
    assert_says(data.described(), "text in column 1 ('text'), label in column 2 ('1')")


def test_the_form_of_the_training_file_is_shown(tmp_path, tokenizer):
    file = "train.csv", "text;label", "a;1|2", "b;2"
    task, *_ = read_own(tmp_path, tokenizer, file, multi_label=True)
    assert reading.describe(task, str(tmp_path)) == (
        f"{tmp_path}/train.csv: semicolons between columns, cells may stand in quotes, header "
        "'text', 'label', labels: vertical bars between them",
        ["'text'", "'label'"],
    )


@pytest.mark.parametrize(
    ("labels", "given", "warning"),
    [
        (["Good", "good", "bad"], {}, "'Good' (1) ... 'good' (1)"),
        (["new york", "new  york", "bad"], {}, "'new york' (1) ... 'new  york' (1)"),
        (["nan", "good", "bad"], {}, "'nan' ... 1 ... --labels=bad,good --skip_other_labels"),
        (["-", "good", "bad"], {}, "'-' ... 1 ... --labels=bad,good --skip_other_labels"),
        (["nana", "good", "bad"], {}, None),
        *(([name, "good", "bad"], {}, f"{name!r} ... 1 ... --labels=bad,good")
          for name in ("\\N", "#N/A", "#NV", "(null)", "nil", "-100", "#NULL!", ".", "[NULL]",
                       "#BEZUG!", "#N/D")),
        (["+", "-", "x"], {}, None), (["na\xefve", "#MAGA", "#1"], {}, None),
        *(([code, *"12345"], {}, f"'{code}' ... 1 ... --labels=1,2,3,4,5")
          for code in ("-9", "-99", "99", "999")),
        (["99", "98", "1"], {}, None), (["9", "1", "2"], {}, None), (["99", "0", "50"], {}, None),
        (["50", "0", "1"], {}, None), (["-9", "-8", "0"], {}, None),
        (['["x", "y"]', "x", "y"], {}, "'[\"x\", \"y\"]' ... 1 ... --multi_label"),
        *((labels, {}, f"'{labels[0]}' ... 1 ... --labels={','.join(labels[1:])}")
          for labels in (["-1", "0", "1", "2"], ["-1", "0"], ["-1.0", "a", "b"])),
        (["-1", "0", "1"], {}, None), (["-2", "-1", "1", "2"], {}, None), (["-2", "5"], {}, None),
        (["x y", "y", "x y"], SEVERAL, "--multi_label ... train.tsv"),
        (["x", "y", '{"choices": ["x", "y"]}'], SEVERAL, None),
        (["x|y", "y"], SEVERAL, None),
        (["x,y", "y,z", "z,x", "x;z"], SEVERAL, "'x;z' ... 1 ... commas"),
        (["2,25", "2", "25"], {}, "'2,25' ... 1 ... --multi_label"),
        (["joy-love", "joy", "love"], {}, "'joy-love' ... 1 ... --multi_label"),
        (["2,25", "2", "3"], {}, None),
        (["1.25", "1", "2"], {}, "1.25 ... --regression"),
        (["1.25;1.5", "1.5"], SEVERAL, None), (["1.25", "1.5"], SEVERAL, "1.25 ... --regression"),
        (["<a><b>", "<a>", "<b>"], {}, "'<a><b>' ... 1 ... --multi_label"),
        (["1.25", "1.0", "x"], {}, None), (["1.0", "2.0"], {}, None),
        (["non-toxic", "non\u2013toxic", "toxic"], {}, "'non-toxic' (1) ... 'non\u2013toxic' (1)"),
        (["1-2", "1 2", "nat"], {}, None), (["new york", "new", "york,new"], SEVERAL, None),
        (["1", "2", "\u06f1"], {}, "'1' (1) ... '\u06f1' (1)"),
        (["true", "1", "false"], {}, "'1' (1) ... 'true' (1)"), (["A", "A-", "A+"], {}, None),
        (["a, b", "c", "nan"], {}, "'nan' ... --labels='\"a, b\",c' --skip_other_labels"),
    ],
)  # fmt: skip
def test_labels_that_may_be_mistakes(labels, given, warning, tmp_path, tokenizer, capsys):
    read_own(tmp_path, tokenizer, ("train.tsv", *labelled(*labels, mark="\t")), **given)
    out = capsys.readouterr().out
    assert ("Warning" in out) == (warning is not None)
    assert_says(out, *([f"Warning ... {warning}"] if warning else []))


# --- Several labels ---


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (["a\t", "b\tx|y"], 2),  # the first row has no label
        (["a\tx|rare", "b\tx|y"], 3),  # one of its labels occurs again
        (["a\tx|y", "b\tx", "c\tz", "d\tu"], 4),  # few rows
        ([f"a\t{n % 9}|{n % 11}|{n % 12}" for n in range(20)], 12),  # three for each of 20
        ([*TEXTS_AS_LABELS[:19], *["no label\t"] * 99], 11),  # too few rows with a label
    ],
)
def test_a_small_set_of_texts_with_several_labels(lines, count, tmp_path, tokenizer):
    task, *_ = read_own(tmp_path, tokenizer, ("train.tsv", *lines), **NUMBERED, multi_label=True)
    assert len(task.labels) == count


KNOWN = ("Food, drink", "Sport")


@pytest.mark.parametrize(
    ("cells", "known", "labels"),
    [
        (["17", "2,25", ""], (), [["17"], ["2", "25"], []]),
        (["a; b", "c"], (), [["a", "b"], ["c"]]),
        (["a|b,c", "d"], (), [["a", "b,c"], ["d"]]),
        (["['a', 'b']", "[]"], (), [["a", "b"], []]),
        (['["a, b"]', '["c"]'], (), [["a, b"], ["c"]]),
        (["['a' 'b']", "['c']"], (), [["a", "b"], ["c"]]),
        (["[2, 25]", "[3]"], (), [["2", "25"], ["3"]]),
        (["{'a', 'b'}"], (), [["a", "b"]]),
        (["[0, 1, 1]", "[1, 0, 0]", ""], (), [["1", "2"], ["0"], []]),
        (["[0 1 0]", "[1 0 1]"], (), [["1"], ["0", "2"]]),
        (["[0, 1]", "[1, 0]", "[0]"], (), [["0", "1"], ["1", "0"], ["0"]]),
        (["2 25", "3"], (), [["2", "25"], ["3"]]),
        (["[2, 2]", "[2, 3]"], (), [["2"], ["2", "3"]]),
        (["sport/news", "sport", "news"], (), [["sport", "news"], ["sport"], ["news"]]),
        (["New York", "Rome"], (), [["New York"], ["Rome"]]),
        (["a,a,", "b"], (), [["a"], ["b"]]),
        *(([f"x y{mark}z", "z"], (), [["x y", "z"], ["z"]]) for mark in "\n\t"),
        *(([f"x{mark}z", "z", "x"], (), [["x", "z"], ["z"], ["x"]]) for mark in "、，；｜،؛"),
        (["文化、体育", "财经"], (), [["文化、体育"], ["财经"]]),
        (["joy-love", "joy", "love"], (), [["joy", "love"], ["joy"], ["love"]]),
        (["e-mail", "mail"], (), [["e-mail"], ["mail"]]), (["18-25"], (), [["18-25"]]),
        (["array([0, 1])", "array([2])"], (), [["0", "1"], ["2"]]),
        (["array(['a', 'b c'], dtype=object)", ""], (), [["a", "b c"], []]),
        (["tensor([0., 1., 1.])", "tensor([1., 1., 0.], device='cuda:0')"], (),
         [["1", "2"], ["0", "1"]]),
        (["tf.Tensor([0 1], shape=(2,), dtype=int32)"], (), [["0", "1"]]),
        (["array (a)", "tensor(3)"], (), [["array (a)"], ["tensor(3)"]]),
        # Known labels decide.
        (["Food, drink;Sport", "Food, drink"], KNOWN, [[*KNOWN], ["Food, drink"]]),
        (["Food, drink"], KNOWN, [["Food, drink"]]),
        (["[0, 1]", "[1, 1]"], KNOWN, [["Sport"], [*KNOWN]]),
        (["[0.0, 1.0]", "[1.0, 0.0]"], KNOWN, [["Sport"], ["Food, drink"]]),
        (["('a', 'b')", "()"], (), [["a", "b"], []]),
        (['"[\\"a\\", \\"b\\"]"', '"[]"'], (), [["a", "b"], []]),  # JSON in JSON
        (['c("a", "b c")', 'c("b c")'], (), [["a", "b c"], ["b c"]]),  # of R
        (["c(1, 2)", "2", "1", "character(0)"], (), [["1", "2"], ["2"], ["1"], []]),
        (['{"choices":["a","b"]}', "a", "b"], (), [["a", "b"], ["a"], ["b"]]),  # of Label Studio
        (["[{'id': 1, 'name': 'a b'}, {'id': 2, 'name': 'c'}]", '[{"id": 2, "name": "c"}]'], (),
         [["a b", "c"], ["c"]]),
        (['[{"id": 1, "label": 7, "user": 1}]'], (), [["7"]]),  # of doccano
        (['[{"name": "Jo", "label": "x"}]'], (), [["x"]]),
        (["<c++><a-b>", "<a-b>"], (), [["c++", "a-b"], ["a-b"]]), (["<x>"], (), [["<x>"]]),
        *((cells, (), [[cell] for cell in cells]) for cells in (["C", "C++"], ["-1", "1"])),
        (["#15#2", "#15", "#2"], (), [["15", "2"], ["15"], ["2"]]),
        (["15+2", "15", "17+2"], (), [["15", "2"], ["15"], ["17", "2"]]),
        # A few lists, or another separator, among labels.
        (["['a', 'b']", "b", "a", "a,c"], (), [["a", "b"], ["b"], ["a"], ["a", "c"]]),
        (["a, b|c|d", "c", "d|a, b"], (), [["a, b", "c", "d"], ["c"], ["d", "a, b"]]),
        (["b;a", "c;d;e", "b"], ("a", "b"), [["b", "a"], ["c", "d", "e"], ["b"]]),
        (["a,b", "b,c", "c,a", "[none]", "b;c"], (),
         [["a", "b"], ["b", "c"], ["c", "a"], ["[none]"], ["b;c"]]),
        # Lists of JSON, NumPy and pandas.
        (['["climate change", null]', '["x"]'], (), [["climate change"], ["x"]]),
        (['["\\ud83d\\ude00 joy"]', "[]"], (), [["\U0001f600 joy"], []]),
        (['["a", "b"]', "nan", "c", '["c"]', "set()"], (), [["a", "b"], [], ["c"], ["c"], []]),
        (['["a", "..."]', "['b' '...']"], (), [["a", "..."], ["b", "..."]]),
        (["[true, false]", "[false, false]"], (), [["0"], []]),
        (["[TRUE, FALSE]", "[FALSE, TRUE]"], (), [["0"], ["1"]]),
        (["[True]", "[False]"], (), [["True"], ["False"]]),
        (["[1. 0. 1.]", "[0. 0. 1.]"], (), [["0", "2"], ["2"]]),
        (["[np.int64(3), np.int64(5)]"], (), [["3", "5"]]),
        (["[it's, b]"], (), [["it's", "b"]]),
        (["(none)", "(none)", "a|b"], (), [["(none)"], ["(none)"], ["a", "b"]]),
        # Lists of 0 and 1 need no brackets.
        *((([mark.join(cell) for cell in cells]), known, labels)
          for mark in (",", " ", ";")
          for cells, known, labels in (
              (("101", "010", "110"), (), [["0", "2"], ["1"], ["0", "1"]]),
              (("101", "010", "110"), ("x", "y", "z"), [["x", "z"], ["y"], ["x", "y"]]),
              (("01", "12"), (), [["0", "1"], ["1", "2"]]))),
    ],
)  # fmt: skip
def test_labels_of_a_cell(cells, known, labels):
    found = labels_in(cells, known)
    assert (found if cells[0][:1] != "{" else [*map(sorted, found)]) == labels


def labels_in(cells, known=()):
    return label_lists.split(cells, label_lists.find_form(cells, known), known)


@pytest.mark.parametrize(
    ("cell", "known", "message"),
    [
        ("[{'start': 0, 'labels': ['a']}]", (), "{'start': 0, 'labels': ['a']}"),
        ("[{'value': {'choices': ['a']}}]", (), "{'choices': ['a']}"),
        ("[{'label': 'a', 'score': 0.5}]", (), "'score': 0.5"),
        ("[{'label': 'a', 'start': 0, 'end': 2}]", (), "'start': 0"),
        ("[[0, 4, 'PER']]", (), "[0, 4, 'PER']"),
        ('["New York", x]', (), "New York"),
        ("[0 0 ... 1]", (), "..."),
        ("[0, 1, ..., 1]", (), "..."),
        ("{['a'], ['b']}", (), "a"),
        ("[0, 1, 1]", KNOWN, "3 ... 2 ... --labels"),
        ("[0, 2, 0]", (), "'2'"),
    ],
)
def test_cells_without_labels(cell, known, message):
    with refuses(message):
        labels_in([cell], known)


ONES = "[0, 1]", "[1, 0]", "[0, 0]", "[1, 1]"


@pytest.mark.parametrize(
    ("train", "dev", "known", "read"),
    [
        (ONES, ONES[:2], None, [["1"], ["0"]]),
        (ONES, ONES[:2], ("a", "b"), [["b"], ["a"]]),
        (["a|b", "b"], ['["a", "b"]'], ("a", "b"), [["a", "b"]]),
        (["a", "b"], ["a|b"], ("a", "b"), [["a", "b"]]),
        (["a;b", "b"], ["a|b"], ("a", "b"), [["a", "b"]]),
        (['["a", "b"]', "b"], ["a|b"], ("a", "b"), [["a", "b"]]),
        (["x", "y", "x/y"], ["y/x"], None, [["y", "x"]]),
    ],
)
def test_the_training_file_tells_the_form_of_labels(train, dev, known, read, tmp_path, tokenizer):
    files = [
        (f"{name}.tsv", "text\tlabel", *(f"t{cell}\t{cell}" for cell in cells))
        for name, cells in (("train", train), ("dev", dev))
    ]
    _, found, _ = read_own(tmp_path, tokenizer, *files, labels=known, multi_label=True)
    assert [example.label for example in found] == read


# --- Signs of failed training ---


@pytest.mark.parametrize(
    ("scores", "labels", "what"),
    [
        ([41.78, 41.79], [0, 1e5], "2 ... 41.79 ... 1e+05"),
        ([1.0, 1.0], [0, 1], "2 ... 1"),
        ([0.4, 0.6], [0, 1], None),
        ([0.494, 0.506], [0, 1], None),
        ([0.496, 0.504], [0, 1], "2 ... 0.496 ... 0.504"),  # a deviation below 0.01 of the labels'
        ([1.0, 1.0], [1, 1], None),
        ([1.0], [0], None),
    ],
)
def test_scores_that_hardly_differ_are_a_warning(scores, labels, what):
    task = task_of(row_of("0", "1", regression=True))
    split = Split({"label_ids": np.array(labels, np.float32)}, None)
    found = task.sign_of_failure(split, {"logits": np.array(scores, np.float32)[:, np.newaxis]})
    assert names(found, what) if what else found is None


@pytest.mark.parametrize(
    ("logits", "gold", "what"),
    [
        ([[3, -3]] * 3, [[1, 0], [1, 0], [1, 1]], "'x'"),
        ([[3, 3], [3, 3]], [[1, 0], [1, 1]], "'x|y'"),
        ([[3, -3], [3, -3]], [[1, 0], [1, 0]], None),
        ([[3, -3], [-3, 3]], [[1, 0], [0, 1]], None),
    ],
)
def test_the_same_labels_for_all_texts_are_a_warning(logits, gold, what, tmp_path):
    row = row_of("0", "1", ["x", "y"], multi_label=True)
    task = task_of(row, kind=multi_label.MultiLabelTask, directory=str(tmp_path))
    split = Split({"label_ids": np.array(gold)}, None)
    found = task.sign_of_failure(split, {"logits": np.array(logits, np.float32)})
    assert what in found if what else found is None


def test_scores_are_standardised_in_training(tmp_path, capsys):
    write(tmp_path, "train.tsv", *(f"text {label}\t{label}" for label in (100, 300)))
    row = row_of("0", "1", regression=True)
    scale = (200.0,), (100.0,)
    assert own_tables.label_scale(row, str(tmp_path)) == scale
    plain, task = task_of(row), task_of(row, scale=scale)
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
    for far in (-999, 1e30):
        write(tmp_path, "train.tsv", *(f"a\t{score}" for score in (3, 4.5, 1, far, 2, far)))
        own_tables.label_scale(row, str(tmp_path))
        assert_says(capsys.readouterr().out, f"Warning ... train.tsv ... 2 ... {far:g}")
    for scores, far in (
        ([0, 1, 2, 3, 18], []), ([0, 1, 2, 3, 19], [19]), ([0, 1, 2, 19], []), ([1, 2, 99], [99]),
        ([0, 50, 100, 999], [999]), ([0, 2.5, -1], [-1]), ([1, 0.5, -1], []), ([-2, 0, -1], []),
        ([-2, 5, -99], [-99]), ([0, 2, -1.5], []),
    ):  # fmt: skip
        assert [*label_lists.missing_numbers(scores)] == far  # 5 times as far, of 5 scores
    write(tmp_path, "train.tsv", *(f"a\t{score}" for score in (1, 2, 3, 4, 5, 6, 9000)))
    own_tables.label_scale(row, str(tmp_path))
    assert not capsys.readouterr().out
    write(tmp_path, "train.tsv", "a\t5", "b\t5")
    assert own_tables.label_scale(row, str(tmp_path)) == ((5.0,), (1.0,))


def test_several_scores(tmp_path, tokenizer):
    file = "train.csv", "text;a;b", "x;100;1,5", "y;300;2,5", "z;200;2"
    row, examples, _ = read_own(tmp_path, tokenizer, file, label_column="a,b", regression=True)
    (means, deviations), count = own_tables.label_scale(row, str(tmp_path)), row.num_outputs
    assert (means, count) == ((200.0, 2.0), 2) and deviations[0] == pytest.approx(81.65, abs=0.01)
    task = task_of(row, tokenizer, scale=(means, deviations))
    arrays = task.features(examples)
    np.testing.assert_array_equal(arrays["label_ids"], [[100, 1.5], [300, 2.5], [200, 2]])
    logits = np.array([[110, 1], [290, 2.5], [200, 2]], np.float32)
    found = task.metrics(Split(arrays, examples), {"logits": logits}, 2)
    assert found["MSE_a"] == pytest.approx(200 / 3) and found["MSE_b"] == pytest.approx(0.25 / 3)
    assert found["MSE"] == found["eval_loss"] == pytest.approx(200.25 / 6)
    assert found["pearson"] == pytest.approx((found["pearson_a"] + found["pearson_b"]) / 2)
    of_one = arrays | {"label_ids": np.array([[100, 2], [300, 2], [200, 2]], np.float32)}
    varied = task.metrics(Split(of_one, examples), {"logits": logits}, 2)  # b does not vary
    assert varied["pearson"] == varied["pearson_a"] == pytest.approx(found["pearson_a"])
    losses, _ = task.objective.terms(arrays, {"logits": logits})["eval_loss"]
    wanted = np.mean(((logits - arrays["label_ids"]) / deviations) ** 2, axis=1)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert task.answers(None, {"logits": logits})[1] == {"predictions": [290.0, 2.5]}
    data = classification.GlueData(task, str(tmp_path), str(tmp_path), "", row=row)
    texts = data.prediction_files(examples, task.answers(None, {"logits": logits}))
    assert texts[f"{tmp_path}/test_results.labels.txt"] == "a\nb\n"
    assert task.target({"label_ids": np.array([1.0, 2.0])}) == "[1.0, 2.0]"
    constant = np.array([[110, 2], [290, 2], [200, 2]], np.float32)
    assert "between 2 and 2" in task.sign_of_failure(Split(arrays, examples), {"logits": constant})
    assert task.sign_of_failure(Split(arrays, examples), {"logits": logits}) is None


@pytest.mark.long
@pytest.mark.parametrize("columns", ["1", "1,2"])
def test_scores_have_their_own_units_everywhere(columns, run_main, tmp_path):
    for split in split_files.SPLITS:
        rows = (f"the man number {i}\t{1000 * i}\t{2000 * i}" for i in range(8))
        write(tmp_path, f"{split}.tsv", *rows)
    own = {"task_name": "tsv", "label_column": columns, "regression": True, "data_dir": tmp_path}
    out, config = tmp_path / "out", tiny.write_config(tmp_path / "config.json")
    given = tiny.CLASSIFIER | own | {"output_dir": out, "albert_config_file": config}
    run_main(run_classifier, **given, export_dir=tmp_path / "export")
    scores = np.array(tiny.table(out / "test_results.tsv"), float)
    assert scores.shape == (8, len(columns.split(",")))
    hf = {"albert_directory": out, "export_path": tmp_path / "hf", "export_format": "hf"}
    run_main(export_checkpoints, **hf)
    outputs = json.loads((tmp_path / "hf" / "config.json").read_text())["id2label"].values()
    assert [*outputs] == (columns.split(",") if "," in columns else ["LABEL_0"])
    named = [path.read_text() for path in tmp_path.glob("export/*/assets/labels.txt")]
    assert named == (["1\n2\n"] if "," in columns else [])
    (card,) = tmp_path.glob("export/*/README.md")
    assert f"in this order | {'`1`, `2`' if named else '`none`'} |" in card.read_text()
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


def test_an_ensemble_has_the_scale_of_its_models(tmp_path):
    def trained(name, scale, scores=None):
        kind = run_directory.FinetunedTask("tsv", None, scale, scores)
        run_directory.RunDirectory(str(tmp_path / name)).write_task(kind)
        return str(tmp_path / name)

    def scale_of(*directories, columns="2"):
        settings = types.SimpleNamespace(
            ensemble_dirs=directories, output_dir=str(tmp_path / "out"), init_checkpoint=None,
            do_train=False, label_column=columns,
        )  # fmt: skip
        row = types.SimpleNamespace(num_outputs=len(columns), label_names=(*columns,))
        return known._scale(row, settings)

    scale = ((200.0,), (100.0,))
    first, second = trained("a", scale), trained("b", scale)
    assert scale_of(first, second) == scale
    with refuses("--ensemble_dirs ... c ... scores"):
        scale_of(first, trained("c", ((5.0,), (1.0,))))
    several = trained("d", ((5.0, 6.0), (1.0, 2.0)), ("x", "y"))
    assert scale_of(several, columns="xy") == scale_of(several, columns="zx")
    for columns in ("yx", "x"):
        with refuses(f"--label_column={columns} ... 2 ... x, y"):
            scale_of(several, columns=columns)
