# SPDX-License-Identifier: Apache-2.0
"""Files of several forms to sentences and documents."""

import json
import sys

import pytest

from albert_tf.corpus import text_files, unpacking
from albert_tf.corpus.text_files import Format
from tests.errors import refuses

TEXT = "Mr. Smith came in. He sat\ndown. Then 3.5 hours passed!"
SPLIT = ["Mr. Smith came in.", "He sat down.", "Then 3.5 hours passed!"]


@pytest.fixture
def splits():
    pytest.importorskip("sentence_splitter", reason="needs the extra documents")


def read(path, content, **form):
    path.write_bytes(content)
    form = Format(**form)
    found = []
    for chunk in text_files.chunks([str(path)], form):
        found += text_files.sentences(chunk)[0]
    return found


def documents(lines):
    """Documents of lines with empty ones between."""
    found = [[]]
    for line in lines:
        found[-1].append(line) if line.strip() else found.append([])
    return [document for document in found if document]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_line_ends_and_byte_order_marks(tmp_path, monkeypatch, end, mark, size):
    if mark and size < 3:
        size = 3  # no file system reads less
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", size)
    content = mark + end.join(["one", "two", "", "thrée\ufeff", "", ""]).encode()
    assert documents(read(tmp_path / "a.txt", content)) == [["one", "two"], ["thrée\ufeff"]]


def test_a_file_is_a_document_on_request(tmp_path):
    assert read(tmp_path / "a.txt", b"one\ntwo") == ["one", "two"]
    assert read(tmp_path / "a.txt", b"one\ntwo\n", file_is_document=True)[:2] == ["one", "two"]
    assert not read(tmp_path / "a.txt", b"one\ntwo\n", file_is_document=True)[-1]


def test_lines_that_are_not_utf8(tmp_path, monkeypatch):
    content = b"one\ncaf\xe9\n\nth\xc3\xa9\n"
    with refuses("a.txt, line 2 ... UTF-8 ... 3"):
        read(tmp_path / "a.txt", content)
    form = Format(on_decode_error="skip")
    (chunk,) = text_files.chunks([str(tmp_path / "a.txt")], form)
    assert text_files.sentences(chunk) == (["one", "", "thé"], {"lines_skipped": [2]})
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", 5)
    with refuses("a.txt, line 101 ... UTF-8 ... 3"):  # of a later chunk
        read(tmp_path / "a.txt", b"one\n" * 100 + b"caf\xe9\n")


def test_a_line_or_a_document_that_does_not_fit_into_memory(tmp_path, monkeypatch, splits):
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", 10)
    monkeypatch.setattr(text_files, "_LONGEST", 30)
    assert read(tmp_path / "a.txt", b"one\n" + b"x" * 30) == ["one", "x" * 30]
    with refuses("a.txt, line 2 ... MiB"):
        read(tmp_path / "a.txt", b"one\n" + b"x" * 40)
    with refuses("a.txt ... line 3"):
        read(tmp_path / "a.txt", b"one\n\n" + b"two\n" * 20, input_format="documents")


@pytest.mark.parametrize("size", [7, 1000])
def test_documents_with_blank_lines_between(tmp_path, monkeypatch, splits, size):
    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", size)
    content = f"{TEXT}\n \t\n\n{TEXT}\r\n\r\nEnd.".encode()
    found = documents(read(tmp_path / "a.txt", content, input_format="documents"))
    assert found == [SPLIT, SPLIT, ["End."]]


@pytest.mark.parametrize("size", [10, 60, 1000])
def test_long_paragraphs_are_split_in_windows(tmp_path, monkeypatch, splits, size):
    monkeypatch.setattr(text_files, "_WINDOW", size)
    unbroken, no_end = "X" * 5000, "and so on " * 500
    text = " ".join(SPLIT * 20 + [no_end, unbroken, *SPLIT[:1], no_end, "Ends.", *SPLIT])
    found = read(tmp_path / "a.txt", text.encode(), input_format="documents")
    whole = text_files._splitter("en")(text)
    assert found == [*whole, ""]
    assert len(whole) == 63


def test_the_splitter_never_sees_a_long_text(monkeypatch):
    """Its time grows with the square of the length."""
    lengths = []

    def split(text):
        lengths.append(len(text))
        return [text.strip()]

    for text in ("word " * 200_000, "X" * 1_000_000):
        assert text_files._in_windows(text, split) == [text.strip()]
    assert max(lengths) <= text_files._WINDOW + text_files._CONTEXT
    assert sum(lengths) < 1.1 * 2_000_000


def test_a_document_per_line(tmp_path, splits):
    content = (TEXT.replace("\n", " ") + "\nEnd.\n").encode()
    form = {"input_format": "documents", "document_per_line": True}
    assert documents(read(tmp_path / "a.txt", content, **form)) == [SPLIT, ["End."]]


def test_json_lines(tmp_path, splits):
    rows = [{"body": TEXT.replace("\n", " "), "n": 1}, {"body": "Eins.\nZwei"}, {"body": ""}]
    content = "\n".join(map(json.dumps, rows)).encode() + b"\n\n"
    content += b'{"score": NaN, "body": "Drei."}\n'  # as Python writes it
    content += b'{"body": ["Vier.", "F\\u00fcnf"]}\n'
    content += b'{"body": ["Sechs ", {"type": "bold", "text": "und"}, " sieben."]}\n'  # of a chat
    form = {"input_format": "jsonl", "text_key": "body"}
    assert documents(read(tmp_path / "a.jsonl", content, **form)) == [
        SPLIT,
        ["Eins.", "Zwei"],
        ["Drei."],
        ["Vier.", "Fünf"],
        ["Sechs und sieben."],
    ]
    content = b'{"a": [{"b": "Eins."}, {"b": null}, {"c": "d"}, {"b": ["Zwei.", "Drei."]}]}\n'
    form["text_key"] = "a.b"
    found = documents(read(tmp_path / "a.jsonl", content, **form))
    assert found == [["Eins.", "Zwei.", "Drei."]]
    content = b'{"a": {"b": {"c": "Eins."}}}\n{"a.b.c": "Zwei."}\n{"a": {"b.c": 1}, "x": 2}\n'
    form["text_key"] = "a.b.c"
    with refuses("a.jsonl, line 3 ... --text_key=a.b.c"):
        read(tmp_path / "a.jsonl", content, **form)
    content = content.replace(b'{"b.c": 1}', b"null")
    assert documents(read(tmp_path / "a.jsonl", content, **form)) == [["Eins."], ["Zwei."]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('["a"]', "['a'] ... one object"),
        ('"a"', "'a' ... one object"),
        ("null", "None ... one object"),
        ('{"text": 1}', "1 ... 'text' ... --text_key"),
        ('{"text": ["a", 1]}', "['a', 1] ... 'text' ... --text_key"),
        ('[{"text": "a"}]', "'text' ... one object ... jq"),
        ("{", "--input_format=jsonl ... jq -c ."),
        ('{"text": [{"t": "a"}]}', "--text_key=text"),
    ],
)
def test_json_without_the_text_names_the_line(tmp_path, splits, line, message):
    content = b'{"text": "a"}\n' + line.encode()
    with refuses(f"a.jsonl, line 2 ... {message}" if message else "a.jsonl, line 2"):
        read(tmp_path / "a.jsonl", content, input_format="jsonl")


def test_null_is_no_text(tmp_path, splits):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": NaN}\n\n{"txt": "b"}\n{}\n{"text": ""}\n')
    (chunk,) = text_files.chunks([str(path)], Format(input_format="jsonl"))
    assert text_files.sentences(chunk) == (["a", "", ""], {"texts_missing": [2, 4, 5]})


def test_half_a_character_in_json(tmp_path, splits):
    content = b'{"text": "a"}\ncaf\xe9\n{"text": "b \\ud83d"}\n{"text": "\\ud83d\\ude00"}\n'
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    form = Format(input_format="jsonl", on_decode_error="skip")
    (chunk,) = text_files.chunks([str(path)], form)
    assert text_files.sentences(chunk) == (["a", "", "\U0001f600", ""], {"lines_skipped": [2, 3]})
    with refuses("a.jsonl, line 2 ... \\ud83d"):
        read(path, content.replace(b"caf\xe9\n", b""), input_format="jsonl")


def test_lines_are_numbered_on_after_one_that_is_skipped(tmp_path, splits):
    content = b'{"text": "a"}\ncaf\xe9\n\n{"text": 1}\n'
    with refuses("a.jsonl, line 4"):
        read(tmp_path / "a.jsonl", content, input_format="jsonl", on_decode_error="skip")


def test_languages(tmp_path, splits):
    for code, found in (("de", 2), ("deu", 2), ("ger", 2), ("yo", 3)):
        text = b"Das ist z. B. Dr. Meier. Ja."
        assert len(read(tmp_path / "a", text, input_format="documents", language=code)) - 1 == found
    with refuses("--language=german"):
        Format(input_format="jsonl", language="german")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ar", "ماذا؟!|نعم.|لا"),
        ("am", "ሰላም።|ነው፧|ይህ"),
        ("hi", "वह था॥|ठीक.|यह है।"),
        ("ja", "「すごい！」|と言った。|次。"),
        ("ka", '"ეს არის".|და'),
        ("el", "Πού είσαι;|Εδώ; ναι."),
        ("bo", "བོད། །|ཡིག།"),
        ("vi", "Ông có 3.5 đồng.|J. K. Rowling đến!"),
        ("zh", "“很好。”|好 3.5 吗？！|好。。|好!|好?”|《好!》。|好的!"),
        ("ti", "ሰላም፡፡|ነው፡፡"),
        ("hy", "Նա գնաց:|Հետո 3:5 գնաց:"),
        ("bn", "সে গেল৷|তার"),
        (
            "de",
            "„Komm.“|Er ging!|„Wohin?“|Er sagte „Nein“ und „Ja!“ dazu: „Los!“|Von griech. „Licht“.",
        ),
        ("da", "»Kom!«|Han gik bort!|»Hvorfor?«|Hun."),
    ],
)
def test_languages_without_rules_of_their_own(tmp_path, monkeypatch, splits, language, text):
    monkeypatch.setattr(text_files, "_WINDOW", 9)
    whole = text.replace("|", "" if language in ("ja", "zh") else " ").encode()
    found = read(tmp_path / "a", whole, input_format="documents", language=language)
    assert found == [*text.split("|"), ""]


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\x0c", "\t", " \xa0 "])
def test_any_white_space_ends_a_sentence(tmp_path, splits, space):
    english = ["On p.\xa0X he left.", "He slept."]
    for language, ends in (("en", english), ("hi", ["वह गया|", "था|"])):
        text = space.join(ends).encode()
        found = read(tmp_path / "a", text, input_format="documents", language=language)
        assert found == [*ends, ""]


@pytest.mark.parametrize("mark", "-\u2010\xac\xad")
def test_words_that_are_divided_at_line_ends(tmp_path, splits, mark):
    """Many hyphens there divide words; a few belong to compounds."""
    path, form = tmp_path / "a.txt", Format(input_format="documents")
    known = "known" if mark in "\xac\xad" else f"{mark} known"
    for times, exam in ((1, known.replace("known", "ple")), (10, "ple")):
        text = f"An exam{mark}\nple, well{mark}\nknown and known.\n" * times
        assert read(path, text.encode(), input_format="documents") == [
            *[f"An exam{exam}, well{known} and known."] * times,
            "",
        ]
    _, counts = text_files.sentences(next(text_files.chunks([str(path)], form)))
    assert counts["words_joined"][:2] == ([1, 2] if known == "known" else [1, 4])
    assert read(path, "好\n 好".encode(), input_format="documents") == ["好好", ""]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\u2028", "\n\n"])
def test_line_ends_of_json(tmp_path, splits, end):
    content = json.dumps({"text": f"one{end}two"}).encode()
    assert read(tmp_path / "a", content, input_format="jsonl") == ["one", "two", ""]


def test_what_is_needed_is_told(monkeypatch):
    text_files._rules_of.cache_clear()
    monkeypatch.setitem(sys.modules, "sentence_splitter", None)
    with refuses("'albert_tf[documents]'"):
        Format(input_format="documents")
