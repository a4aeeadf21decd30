# SPDX-License-Identifier: Apache-2.0
"""predict.py, on small SavedModels made by hand; tests/publish/test_serving.py has real exports."""

import contextlib
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

from albert_tf import progress
from albert_tf.cli import predict, predict_examples, predict_exports
from albert_tf.corpus import unpacking
from tests import ROOT
from tests.errors import assert_names, refuses

TEXT = tf.TensorSpec([None], tf.string)
PAIR = {"text": TEXT, "text_pair": TEXT}
QUESTION = {"question": TEXT, "context": TEXT}
LABELS = ("no", "yes")
NAMED = {"header": True}


def save(path, functions, labels=LABELS, weights=((1.0, 2.0),)):
    """Writes a SavedModel: name of a signature -> (function of weights and inputs, its specs)."""
    module = tf.Module()
    module.weights = tf.Variable(weights)
    signatures = {
        name: tf.function(
            lambda call=call, **inputs: call(module.weights, **inputs), autograph=False
        ).get_concrete_function(
            **{key: tf.TensorSpec(spec.shape, spec.dtype, key) for key, spec in specs.items()}
        )
        for name, (call, specs) in functions.items()
    }
    tf.saved_model.save(module, str(path), signatures)
    (path / "assets").mkdir(exist_ok=True)
    (path / "assets" / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    return path


def lengths(*texts):
    return tf.cast(sum(tf.strings.length(text) for text in texts), tf.float32)


def classify(weights, text, text_pair):
    """ "yes" for texts of an even number of bytes."""
    # The operation is one of tensorflow-text, as those of real exports are.
    even = tf.math.floormod(lengths(tensorflow_text.normalize_utf8(text), text_pair), 2) == 0
    probabilities = tf.where(even[:, tf.newaxis], [[0.25, 0.75]], [[0.75, 0.25]]) * weights[0, 0]
    predictions = tf.argmax(probabilities, axis=1, output_type=tf.int32)
    return {
        "probabilities": probabilities,
        "predictions": predictions,
        "label": tf.gather(tf.constant(LABELS), predictions),
        "threshold": tf.fill(tf.shape(text), 0.25),
    }


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return save(tmp_path_factory.mktemp("classifier"), {"text": (classify, PAIR)})


@pytest.fixture
def copied(classifier, tmp_path):
    """A copy of the classifier, to be damaged."""
    return Path(shutil.copytree(classifier, tmp_path / "copy"))


@pytest.fixture
def run(run_main, tmp_path):
    """Runs predict.py on the bytes of a file: run(export, content, **flags) -> lines, text."""

    def run(export, content, **flags):
        source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
        source.write_bytes(content)
        run_main(predict, saved_model=export, input_file=source, output_file=target, **flags)
        return target.read_text(encoding="utf-8").split("\n")[:-1]

    return run


# --- Lines in, lines out ---


def test_other_keys_are_given_back(classifier, run):
    others = {"id": 7, "question_id": "q-7", "meta": {"é": [None, 1.5, True]}}
    line = json.dumps(others | {"text": "a", "text_pair": "b"})
    (found,) = map(json.loads, run(classifier, line.encode()))
    probabilities = {"no": 0.25, "yes": 0.75}
    assert found == others | {"label": "yes", "probabilities": probabilities, "threshold": 0.25}
    assert list(found)[:3] == list(others)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_line_n_belongs_to_line_n(classifier, run, batch_size):
    first, second = (b'{"text": "%s", "text_pair": ""}' % text for text in (b"a", b"ab"))
    content = b"\n\xef\xbb\xbf" + first + b"\r\n\r\n\n" + second + b"\n\nabc\td\n\n"
    lines = run(classifier, content, predict_batch_size=batch_size)
    labels = [json.loads(line)["label"] if line else None for line in lines]
    assert labels == [None, "no", None, None, "yes", None, "yes", None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a\tb\xff", "line 2 ... UTF-8"),
        (b"one column", "2 ... text_pair"),
        (b"{broken", "line 2 ... JSON"),
        (b'{"text": ' + b"[" * 100_000, "line 2 ... JSON"),
        (b'{"text": "a", "id": ' + b"9" * 5000 + b"}", "line 2 ... JSON"),
        (b'{"text": "a", "id": 1e999}', "line 2 ... 'id'"),
        (b'{"text": "a", "id": NaN}', "line 2 ... JSON ... NaN"),
        (b'{"text": "\\ud800"}', "line 2 ... 'text' ... '\\ud800'"),
        (b'{"text": "a", "\\udfff": 1}', "line 2 ... '\\udfff'"),
        (b'{"text": "a"}', "line 2 ... text_pair"),
        (b'{"text": "a", "txt_pair": "b"}', "'txt_pair' ... text_pair"),
        (b'{"text": "a", "label": 1}', "'label'"),
        (b'{"text": 5, "text_pair": "b"}', "line 2 ... 5"),
        (b'{"text": ["a"], "text_pair": "b"}', "line 2 ... ['a']"),
        (b'{"text": false, "text_pair": "b"}', "line 2 ... False"),
    ],
)
def test_lines_that_are_no_examples(line, message, classifier, run, tmp_path):
    with refuses(message) as caught:
        run(classifier, b"a\tb\r\n" + line + b"\n")
    assert "\n" not in str(caught.value)
    assert_names(str(caught.value), "in.txt, line 2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


def test_progress_is_the_shared_one(classifier, run, monkeypatch):
    done = []

    class Bar(progress.LogLines):
        def update(self, count):
            done.append((self._what, count))

    monkeypatch.setattr(progress, "bar", Bar)
    run(classifier, b"a\tb\n\nc\td\ne\tf\n", predict_batch_size=3)
    assert done == [("predicting", 2), ("predicting", 1)]
    # TensorFlow's optimizer of loops warns of each assertion of an export.
    assert tf.config.optimizer.get_experimental_options()["loop_optimization"] is False


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (b"a\0\tb\0\n" + rb'{"text": "a\u0000", "text_pair": ""}', ["yes", "yes"]),
        (b"a\tb\rab\tc\r", ["yes", "no"]),  # lines end in carriage returns
        (b'{"text": null, "text_pair": "b"}\n\tb', ["no", "no"]),
    ],
)
def test_bytes_of_texts(content, labels, classifier, run):
    assert [json.loads(line)["label"] for line in run(classifier, content)] == labels


def test_a_first_line_that_is_an_example_all_the_same(classifier, run):
    content = b"text\ttext_pair\nab\tcd\n"
    assert len(run(classifier, content)) == 1
    assert len(run(classifier, content, header=False)) == 2
    assert len(run(classifier, b'{"text": "id, a", "text_pair": ""}\n')) == 1  # no header


PLACES = {"text_column": 1, "text_pair_column": 2, "id_column": 0}
BY_NAME = {"text_column": "first", "text_pair_column": "second", "id_column": "nr"}


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("in.csv", b'text,text_pair,id\n"a, ""b""",c,7\n"two\nlines",d,8\n', {}),
        ("in.txt", b'id,text,text_pair\n7,"a, ""b""",c\n8,"two\nlines",d\n', {}),
        ("in.csv", b'nr,first,second,label\n7,"a, ""b""",c,x\n8,"two\nlines",d,y\n', BY_NAME),
        ("in.csv", b'7,"a, ""b""",c\n8,"two\nlines",d\n', PLACES),
        ("in.tsv", b'7\ta, "b"\tc\n8\ttwo lines\td\n', PLACES),
        ("in.csv", b'id;text;text_pair\n7;"a, ""b""";c\n8;two,lines;d\n', {}),
        ("in.csv", b'0,1,2\n7,"a, ""b""",c\n8,two lines,d\n', PLACES),
        ("in.txt", b'id#text#text_pair\n7#a, "b"#c\n8#two lines#d\n', {"delimiter": "#"}),
    ],
)
def test_tables(name, content, flags, classifier, run_main, tmp_path):
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    path.write_bytes(content)
    run_main(predict, saved_model=classifier, input_file=path, output_file=out, **flags)
    first, second = map(json.loads, out.read_text().splitlines())
    assert (first["id"], second["id"]) == ("7", "8") and len(first) == 4
    assert (first["label"], second["label"]) == ("no", "yes")


@pytest.mark.parametrize("text", ["a;b", "a,b", "a|b", '"a", b', '"a;b"'])
def test_a_text_with_separators_is_no_table(text, classifier, run):
    (line,) = run(classifier, f"{text}\tc\n".encode())
    assert json.loads(line)["label"] == ("yes" if len(text) % 2 else "no")


def test_flags_of_several_examples(classifier, run_main, tmp_path):
    out = tmp_path / "out.jsonl"
    run_main(predict, saved_model=classifier, output_file=out, text=["a", "ab"], text_pair=["b"])
    assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == ["yes", "no"]
    with refuses("2 times --text ... 3 times --text_pair"):
        run_main(predict, saved_model=classifier, text=["a", "b"], text_pair=["b"] * 3)


def model_of(*inputs, labels=(), num_options=None, **others):
    """A model with these inputs, of which only the reading of examples is asked."""
    return predict_examples.Model(inputs, labels, None, num_options=num_options, **others)


def read(folder, content, model, name="in.txt"):
    """What is read of a file: pairs of inputs and other keys, None for a blank line."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = predict_examples.read(unpacking.lines(str(path)), str(path), model, num_peeked=200)
    return [example and example[:2] for example in found]


REVIEWS = '{"id": 7, "Review": "a", "Reply": "b"}\n{"Review": "ab", "Reply": "c"}\n'


@pytest.mark.parametrize(
    ("content", "flags", "columns"),
    [
        ("id,Review,Reply\n7,a,b\n8,ab,c\n", {}, ("Review", "Reply")),
        ("id;Review;Reply\n7;a;b\n8;ab;c\n", {}, ("Review", "Reply")),
        (REVIEWS, {}, ("Review", "Reply")),
        (REVIEWS, {"text": "Review", "text_pair": "Reply"}, ("x", "y")),
        (REVIEWS, {}, ("0", "1")),  # of a header with these names
        (REVIEWS.splitlines(True)[0] + '{"id": 8, "Review": "ab", "Reply": "c"}\n', {"id": "id"},
         ("Review", "Reply")),
        ("7\ta\tb\n8\tab\tc\n", {}, ("1", "2")),
        ("7\ta\tb\n8\tab\tc\n", {"id": "0"}, ("1", "2")),
        # The names that the training read come first, and columns that flags name.
        ("text\ttext_pair\tReview\tReply\n?\t?\ta\tb\n?\t?\tab\tc\n", {}, ("Review", "Reply")),
        ("a\tb\nab\tc\n", {}, ("0", "1")),
        ("7\ta\tb\n8\tab\tc\n", {"text": "1", "text_pair": "2"}, ("0", "1")),
    ],
)  # fmt: skip
def test_columns_of_the_training(content, flags, columns):
    texts = dict(zip(("text_column", "text_pair_column"), columns, strict=True))
    model = model_of("text", "text_pair", of_training=texts)
    if content == REVIEWS:
        model = model._replace(header=("Review", "Reply"))
    found = [*predict_examples.read(content.encode().splitlines(True), "in.txt", model, flags)]
    assert [tuple(example[0].values()) for example in found] == [("a", "b"), ("ab", "c")]
    assert found[0][1].get("id") == ("7" if "id" in flags else None)


def test_keys_of_the_training_with_an_id_that_is_missing():
    columns = {"text_column": "first", "text_pair_column": "second"}
    model, line = (
        model_of("text", "text_pair", of_training=columns),
        b'{"first": "a", "second": ""}',
    )
    with refuses("in.txt, line 1 ... nr"):
        [*predict_examples.read([line], "in.txt", model, {"id": "nr"})]


def test_two_texts_that_the_training_read_in_another_order():
    flags = {"text_column": "2", "text_pair_column": "1", "label_column": "0"}
    model = model_of("text", "text_pair", of_training=flags)

    def texts(name, content, **given):
        lines = content.encode().splitlines(keepends=True)
        return [[*each[0].values()] for each in predict_examples.read(lines, name, model, **given)]

    for name, content in (("in.csv", "title,a text\n"), ("in.txt", "title\ta text\n")):
        with refuses("in. ... --text_column ... --text_pair_column"):
            texts(name, content)
    assert texts("in.csv", "3,title,a text\n") == [["a text", "title"]]
    assert texts("in.csv", "text_pair,text\ntitle,a text\n") == [["a text", "title"]]
    columns = {"text": "1", "text_pair": "0"}
    assert texts("in.csv", "title,a text\n", columns=columns) == [["a text", "title"]]


def test_the_header_of_the_training_is_no_example(tmp_path):
    model = model_of("text", of_training={"text_column": "0", "label_column": "1"})
    model = model._replace(header=("sentence", "label"))
    for content in ("sentence\nA film\n", "sentence\tlabel\nA film\t1\n"):
        assert read(tmp_path, content, model) == [({"text": "A film"}, {})]
    assert len(read(tmp_path, "Phrase\nA film\n", model)) == 2  # an example
    assert read(tmp_path, "SENTENCE\tId\nA film\t1\n", model) == [({"text": "A film"}, {})]
    # Other names stand above labels.
    model = model._replace(labels=("0", "1"))
    assert read(tmp_path, "Comment\tClass\nA film\t1\n", model) == [({"text": "A film"}, {})]
    assert len(read(tmp_path, "A so so film\tneutral\nA film\t1\n", model)) == 2
    assert len(read(tmp_path, "TEXT: so\nA film: b\n", model_of("text"))) == 2


def test_names_of_columns_in_any_case(tmp_path):
    model = model_of("text", of_training={"text_column": "Review", "label_column": "label"})
    for content in ("REVIEW\tId\nA film\t1\n", '{"review": "A film"}\n'):
        assert read(tmp_path, content, model) == [({"text": "A film"}, {})]
    model = model_of("text", "text_pair")
    assert read(tmp_path, "Id\tText\tText_Pair\n7\tA film\tA cat\n", model) == [
        ({"text": "A film", "text_pair": "A cat"}, {"Id": "7"})
    ]


STARS = model_of("text", of_training={"text_column": "1", "label_column": "0"})
STARS = STARS._replace(labels=("1", "2", "x y"))


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        # A text has commas, colons and semicolons: only labels show that these are columns.
        ("in.txt", "The plot was dull, but good\n", ["The plot was dull, but good"]),
        ("in.txt", "At 12:30 he left, tired\nSo what\n", ["At 12:30 he left, tired", "So what"]),
        ("in.txt", "3: good film\n", ["3: good film"]),
        ("in.txt", "1: good film\n2: dull film\n", ["1: good film", "2: dull film"]),
        ("in.txt", "1, 2, and so on\n", ["1, 2, and so on"]),
        ("in.txt", "A dull film,1\n", ["A dull film,1"]),
        ("in.txt", "2,good film\nx y,dull film\n", ["good film", "dull film"]),
        ("in.txt", '1;"so; what"\n', ["so; what"]),
        ("in.txt", "?\tgood film\n", ["good film"]),
        ("in.csv", "7,good film\n8,dull film\n", ["good film", "dull film"]),
    ],
)
def test_a_line_is_a_text_unless_labels_show_columns(name, content, texts, capsys):
    lines = content.encode().splitlines(keepends=True)
    for count in {1, len(lines)}:
        found = [*predict_examples.read(lines, name, STARS, num_peeked=count)]
        assert [example[0]["text"] for example in found] == texts
    is_cut = texts[0] != content.split("\n")[0]
    assert ("--delimiter=" in capsys.readouterr().err) != is_cut
    (given,) = predict_examples.read([b"7,good"], "in.txt", STARS, delimiter=",")
    assert given[0] == {"text": "good"}


@pytest.mark.parametrize(
    ("content", "labels", "flags"),
    [
        ("2.5;good\n-1;bad\n", (), {}),  # scores
        ("x,y|good\nx|bad\n", ("x", "y"), {}),
        ("-1|good\n-1|bad\n", ("x", "y"), {}),
        ("x|good\nz|bad\ny|or\n", ("x", "y"), {}),
        ("9|good\n8|bad\n", ("x", "y"), {"delimiter": "|"}),
    ],
)
def test_what_shows_columns(content, labels, flags):
    trained = {"text_column": "1", "label_column": "0"} | flags
    model = model_of("text", of_training=trained)._replace(labels=labels)
    lines = content.encode().splitlines(keepends=True)
    found = [*predict_examples.read(lines, "in.txt", model, num_peeked=9)]
    assert [example[0]["text"] for example in found] == ["good", "bad", "or"][: len(lines)]


@pytest.mark.parametrize(
    ("name", "content", "columns", "texts"),
    [
        ("in.csv", "id,title,text\n1,a,?\n2,b,?\n", {"text_column": "title"}, ["a", "b"]),
        ("in.csv", "# 2024\ntext,label\na,x\n# b,y\n", {"text_column": "text"}, [None, "a", "# b"]),
        ("in.txt", "\rn\ttext\r1\ta\r2\tb\r", {}, [None, "a", "b"]),
        ("in.csv", "text ,x,x\na,1,2\n", {"text_column": "text"}, ["a"]),
        ("in.tsv", "text\tn\n{a\t1\n[b\t2\n", {}, ["{a", "[b"]),
        ("in.tsv", "text\tn\n" + "a, b\t1\n" * 300 + '"a ""x"", b"\t2\n', {},
         ["a, b"] * 300 + ['a "x", b']),
        ("in.json", '{"data": [{"body": "a"}, {"body": 2}]}', {"text_column": "body"}, ["a", "2"]),
        ("in.json", '{"text": "a b", "entities": [{"s": 1}]}', {}, ["a b"]),
        ("in.json", '{\n"text": "a b",\n"entities": [{"s": 1}]\n}', {}, ["a b"]),
        ("in.jsonl", '{"body": "a b", "of": [{"s": 1}]}', {"text_column": "body"}, ["a b"]),
        ("in.csv", "text\na\n\nb\n", {}, ["a", None, "b"]),
        ("in.csv", "\n0,1\nx,a\n\ny,b\n", {"text_column": "1", "delimiter": ","},
         [None, "a", None, "b"]),
        ("in.tsv", '"He said ""a"" now"\n"two\nlines"\nplain\n',
         {"text_column": "0", "label_column": "1"}, ['He said "a" now', "two\nlines", "plain"]),
        ("in.tsv", '"Go on," he said.\nplain\n', {"text_column": "0", "label_column": "1"},
         ['"Go on," he said.', "plain"]),
    ],
)  # fmt: skip
def test_a_table_is_read_as_in_the_training(name, content, columns, texts, tmp_path):
    model = model_of("text", labels=("label",), of_training=columns)
    found = read(tmp_path, content, model, name)
    assert [example and example[0]["text"] for example in found] == texts


PAIRS = model_of(
    "text", "text_pair", labels=("x", "y"),
    of_training={"text_column": "0", "text_pair_column": "1", "label_column": "2"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (("x\ty\tx", "a b\tb c\tc d"), "x"), (("1\t2\t3", "a\tb\tc"), "counts"),
        (("7\t5\t6", "a\tb\tc", "a b\tb c\tc d"), "ids ... '7'"),
        (("u1\tu_2\tab", "a\tb\tc", "a b\tb c\tc d"), "ids ... 'u1'"),
        # The text is a word with a number, and the others are no texts, labels or read too.
        (("u1\tu2\tu3", "a\tb\tc", "x\ty\tx"), None),
        (("u1\tu2\tu3", "a\tb\tc", "x y\tx y\tx y"), None),
        (("u1\tu2\tu3", "a b\tb c\tc d", "x\ty\tx"), None),
        (("u1\tu1\tu3", "a\tb\tc", "a b\tb c\tc d"), None),
        (("u1\tu\tt", "a\tb\tc", "a b\tb c\tc d"), None),
        (("u1\tu2?\tu3", "a\tb\tc", "a b\tb c\tc d"), None),
    ],
)  # fmt: skip
def test_columns_that_hold_no_texts(columns, shown, tmp_path):
    columns = (column.split("\t") for column in columns)
    content = "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True))
    with refuses(f"in.tsv ... {shown} ... --text_column") if shown else contextlib.nullcontext():
        model = (
            PAIRS
            if content.count("\t") > 3
            else STARS._replace(
                of_training={"text_column": "0", "label_column": "1"}, labels=("x", "y")
            )
        )
        assert len(read(tmp_path, content, model, "in.tsv")) == 3


LABELLED = model_of(
    "text", labels=("label",), of_training={"text_column": "text", "label_column": "label"}
)
QUESTIONS = model_of("question", "context", labels=("answer",))
WORDS = model_of("text", labels=("words", "labels"), is_of_words=True)
WORDS = WORDS._replace(predict=lambda rows: [{"words": row["text"].split()} for row in rows])
TAGGED = WORDS._replace(of_training={"text_column": "0", "label_column": None})  # the default
TAGGED = TAGGED._replace(labels=("NOUN", "VERB", ".", "o", "b-loc"))
CHOICES = model_of("article", "question", "options", num_options=4, fewest_options=2)
ASKED = {"question": "Who?", "context": "It."}, {"id": "7"}


@pytest.mark.parametrize(
    ("content", "model", "rows"),
    [
        # Columns that the training named no inputs are copied, but gold labels and answers.
        ("text,id,label\na,7,x\n", LABELLED, [({"text": "a"}, {"id": "7"})]),
        ('{"text": "a", "id": "7"}\n', LABELLED, [({"text": "a"}, {"id": "7"})]),
        ("text,label\na,x\n", LABELLED, [({"text": "a"}, {})]),
        ("text,id,label\na,7,x\n", model_of("text", labels=("label",)),
         [({"text": "a"}, {"id": "7"})]),
        ('{"text": "a", "id": "7", "label": "x"}\n', LABELLED, [({"text": "a"}, {"id": "7"})]),
        ('{"text": 5, "label": "x"}\n', LABELLED, [({"text": "5"}, {})]),
        ("a\nb\rc", model_of("text"), [({"text": "a"}, {}), ({"text": "bc"}, {})]),
        ('{"question": "Who?", "context": "It.", "answer": "It", "id": "7"}\n\n', QUESTIONS,
         [ASKED, None]),
        ("question\tcontext\tanswer\tid\nWho?\tIt.\tIt\t7\n\n", QUESTIONS, [ASKED, None]),
        ('[{"text": "a"}, null]', model_of("text"), [({"text": "a"}, {}), None]),
        ('\t\n{"text": "a"}', model_of("text"), [None, ({"text": "a"}, {})]),
        ("\n\ufeffid\ttext_pair\ttext\r\n7\tb\ta\n\n8\t\tabc\n", model_of("text", "text_pair"),
         [None, ({"text": "a", "text_pair": "b"}, {"id": "7"}), None,
          ({"text": "abc", "text_pair": ""}, {"id": "8"})]),
        ("id\toption 2\toption 1\tarticle\tquestion\n7\ty\tx\ta\tq\n", CHOICES,
         [({"article": "a", "question": "q", "options": ["x", "y"]}, {"id": "7"})]),
        # Options that a question lacks, and lists of words.
        ('a\tq\tx\ty\n{"article": "a", "question": "q", "options": ["x", "y", "z"]}\n', CHOICES,
         [({"article": "a", "question": "q", "options": [*options]}, {})
          for options in ("xy", "xyz")]),
        ('{"tokens": ["Anna", "lives"], "id": 7}\n{"words": ["a"]}\n{"text": ["b"]}', WORDS,
         [({"text": ["Anna", "lives"]}, {"id": 7}), ({"text": ["a"]}, {}), ({"text": ["b"]}, {})]),
        ('{"text": "a.", "tokens": ["a", "."]}\n{"text": "a b", "tokens": [{"id": 0}]}', WORDS,
         [({"text": ["a", "."]}, {}), ({"text": "a b"}, {"tokens": [{"id": 0}]})]),
        ('{"tokens": ["Anna", 5]}\n{"tokens": []}', WORDS,
         [({"text": ["Anna", "5"]}, {}), ({"text": []}, {})]),
        # Some lines have the keys of the training, and others are texts.
        ('{"Review": "a"}\nb\n', model_of("text", of_training={"text_column": "Review"}),
         [({"text": "a"}, {}), ({"text": "b"}, {})]),
        # Questions without a passage.
        ('{"article": "", "question": "q", "options": ["x", "y"]}', CHOICES,
         [({"article": "", "question": "q", "options": ["x", "y"]}, {})]),
        # A key that only other lines have.
        *((f'{{"n": 1}}\n{{"{key}": "a"}}\n', model_of("text", of_training={"text_column": key})
           ._replace(may_be_empty=("text",)), [({"text": ""}, others), ({"text": "a"}, {})])
          for key, others in (("text", {"n": 1}), ("Review", {}))),
        ('{"tokens": ["a", "b c"], "ner_tags": ["O", "O"]}\n', TAGGED,
         [({"text": ["a", "b c"]}, {"ner_tags": ["O", "O"]})]),
    ],
)  # fmt: skip
def test_inputs_and_other_keys(content, model, rows, tmp_path):
    name = "in.json" if content[:1] in "[{" else "in.txt"
    assert read(tmp_path, content, model, name) == rows


def test_the_number_of_options_is_checked():
    for options in (["x"], ["x"] * 5):
        with refuses(f"in ... 2 to 4 ... {len(options)}"):
            example = {"article": "a", "question": "q", "options": options}
            predict_examples.example_of(example, CHOICES, "in")


ROWS = [{"text": "a b"}, {"text": "c", "id": 7}]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS), json.dumps(ROWS, indent=1), json.dumps({"data": ROWS}, indent=1),
        "\n".join(map(json.dumps, ROWS)), json.dumps({"text": ["a b", "c"]}, indent=1),
        "text\na b\nc\n", "a b\nc\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("encode", [str.encode, lambda text: gzip.compress(text.encode()),
                                    lambda text: text.encode("utf-16")])  # fmt: skip
def test_files_are_read_as_those_of_a_training(content, encode, tmp_path):
    path = tmp_path / ("in.json" if content[:1] in "[{" else "in.txt")
    path.write_bytes(encode(content))
    lines = unpacking.lines(str(path))
    found = [*predict_examples.read(lines, str(path), model_of("text"), num_peeked=200)]
    assert [example[0]["text"] for example in found] == ["a b", "c"]
    assert found[1][1] == ({"id": 7} if '"id"' in content else {})


@pytest.mark.parametrize(
    ("content", "warns"),
    [
        ("review,stars\nA fine film it was,5\nA dull one it is,1\n", True),
        ("sentence\nA fine film it was\nA dull one it is\n", True),
        ("Fine\nA fine film it was\nDull\n", False),
        ("Oh well\nA fine film it was\nA dull one it is\n", False),
        ("text\nA fine film it was\nA dull one it is\n", False),
    ],
)
def test_a_warning_of_a_header_that_would_be_predicted(content, warns, capsys):
    names = ("text", "text_pair")[: 1 + ("," in content.split("\n")[0])]
    lines = content.encode().splitlines(keepends=True)
    list(predict_examples.read(lines, "in.csv", model_of(*names), num_peeked=200))
    assert ("line 1" in capsys.readouterr().err) == warns


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("in.txt", "Anna\nMeyer\n\nlives\n", ["Anna Meyer", "lives"]),
        ("in.txt", "1\tAnna\tB\n2\tMeyer\tI\n\n1\tlives\tO\n", ["Anna Meyer", "lives"]),
        ("in.txt", "Anna X B-PER\nMeyer X I-PER\n\nlives X O\n", ["Anna Meyer", "lives"]),
        ("in.conllu", "1 Anna x\n2 Meyer y\n\n1 lives x\n", ["Anna Meyer", "lives"]),
        ("in.conll", "1\tAnna\n2\tMeyer\n\n1\tlives\n", ["Anna Meyer", "lives"]),
        ("in.csv", "id,tokens\n0,['Anna' 'Meyer']\n1,[lives]\n", ["Anna Meyer", "lives"]),
        ("in.txt", "Anna NOUN\nlives VERB\n\n. .\n", ["Anna lives", "."]),
        ("in.txt", "in\to\nUlm\tb-loc\n", ["in Ulm"]),
        ("in.txt", "In (LOC*\nUlm *)\nis *\n", ["In Ulm is"]),
        ("in.txt", "Ulm B-LOC\nis O\n" * 9 + "New York O\n", ["Ulm is " * 9 + "New"]),
        ("in.txt", "-DOCSTART- -X-\n\nAnna NNP\n", ["Anna"]),
        ("in.txt", "Anna NNP\nMeyer NNP\n\nlives V\n", ["Anna Meyer", "lives"]),
        ("in.csv", "Anna,NNP\nMeyer,NNP\n\nlives,V\n", ["Anna Meyer", "lives"]),
        ("in.txt", "Anna\tNNP\nlives\tV\n", ["Anna lives"]),
        ("in.tsv", "New York\nis\nUlm\n", ["New York is Ulm"]),
        ("in.txt", "New York\nis\n.\n\nIt\nis\n", ["New York is .", "It is"]),
        ("in.tsv", "id\ttext\n1\tAnna\n2\tUlm\n", None),
        ("in.tsv", "1\tAnna lives\n2\tAnna is here\n", None),
        ("in.txt", "北京是中国的首都，他住在柏林。\n" * 2, None),
        ("in.txt", "It is good.\n\nIt was bad.\n", None),
        ("in.txt", "It is Anna .\nShe lives here .\n", None),
        ("in.txt", "It is a NOUN\n", None),
        ("in.txt", "Anna PROPN\nlives VERB\n", None),
        ("in.txt", "Anna Meyer\nlives\n", None),
        ("in.txt", "In other words , the sentence is long .\nIt goes on for a while .\n", None),
        ("in.txt", "2019 was a good year .\n2020 was not .\n2021 was ok .\n", None),
        ("in.txt", "Anna\n", None),
        ("in.jsonl", '{"text": "Anna"}\n', None),
    ],
)
def test_a_file_with_a_word_on_each_line(name, content, texts, tmp_path, capsys):
    (tmp_path / name).write_text(content)  # the default column is given, also with an index
    found = predict_examples.sentences(str(tmp_path / name), TAGGED, {})
    assert texts == (found and [" ".join(example[0]["text"]) for example in found])
    assert name == "in.jsonl" or name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "column", "words"),
    [
        ("in.txt", "Anna NNP\nlives V\n", "0", ["Anna", "lives"]),
        ("in.txt", "NNP Anna\nV lives\n", "1", ["Anna", "lives"]),
        ("in.tsv", "Wort\tx\nAnna\tNNP\nlives\tV\n", "Wort", ["Anna", "lives"]),
        ("in.conll", "New York\nAnna Maria\n", None, ["New York", "Anna Maria"]),  # of tabs
        ("in.txt", "Anna lives here\nUlm\n", "0", None),
        ("in.csv", "id,review\n1,It is so\n2,Fine\n3,It is not\n", "review", None),
        ("in.csv", "id,review\n1,北京\n2,柏林\n", "review", None),
        ("in.txt", "北京\n柏林很大\n", None, ["北京", "柏林很大"]),
    ],
)
def test_a_given_column_of_words(name, content, column, words, tmp_path):
    (tmp_path / name).write_text(content)
    model = TAGGED._replace(trained_on="train.tsv" if column is None else "train.txt")
    found = predict_examples.sentences(str(tmp_path / name), model, {"text": column})
    assert words == (found and found[0][0]["text"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("in.txt", "北京\n柏林很大\n", None),
        ("in.txt", "北京\n柏林很大\n\n很大\n", None),
        ("in.txt", "北\n京\n\n大\n", [["北", "京"], ["大"]]),
        ("in.conll", "北京\n柏\n", [["北京", "柏"]]),
    ],
)
def test_words_of_a_model_of_characters(name, content, words, tmp_path):
    (tmp_path / name).write_text(content)
    model = TAGGED._replace(predict=lambda rows: [{"words": [*row["text"]]} for row in rows])
    found = predict_examples.sentences(str(tmp_path / name), model, {})
    assert words == (found and [example[0]["text"] for example in found])


@pytest.mark.parametrize(
    ("name", "content", "columns", "words"),
    [
        ("in.txt", "Anna NOUN x\nlives VERB y\n", ("0", "1"), [["Anna", "lives"]]),
        ("in.csv", "n,token_text,entity,x\n1,10 000,O,a\n1,km,B,b\n\n2,Ulm,B,a\n",
         ("token_text", "entity"), [["10 000", "km"], ["Ulm"]]),
        ("in.conll", "Anna NOUN\nlives VERB\n. .\n", ("1", "3"), [["Anna", "lives", "."]]),
    ],
)  # fmt: skip
def test_words_in_the_columns_of_the_training(name, content, columns, words, tmp_path):
    (tmp_path / name).write_text(content)
    of_training = dict(zip(("text_column", "label_column"), columns, strict=True))
    model = TAGGED._replace(of_training=of_training)
    found = predict_examples.sentences(str(tmp_path / name), model, {})
    assert [example[0]["text"] for example in found] == words


USUAL = {"article": "It.", "question": "Who?", "options": ["x", "y"]}
OBJECTS = [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]
QA = {"id": 7, "question": "Who?", "answers": [{"text": "It", "answer_start": 0}]}


@pytest.mark.parametrize(
    ("content", "model", "inputs"),
    [
        # tests/tasks has the other names and forms, which the training reads too.
        ({"id": 7, "question": "Who?", "choices": ["x", "y"], "answer": "x"}, CHOICES,
         USUAL | {"article": ""}),
        (USUAL | {"options": OBJECTS}, CHOICES, USUAL),
        ({"ctx": "It.", "question": "Who?", "choices": ["x", "y"]}, CHOICES, USUAL),
        ({"article": "It.", "questions": ["Who?"], "options": [["x", "y"]]}, CHOICES, USUAL),
        (USUAL | {"article": ["It", "is."]}, CHOICES, USUAL | {"article": "It is."}),
        ("""article,question,options\n"['It', 'is.']",Who?,"['x', 'y']"\n""", CHOICES,
         USUAL | {"article": "It is."}),
        ("nr,question,A,B,label\n7,Who?,x,y,A\n", CHOICES, USUAL | {"article": ""}),
        ({"data": [{"paragraphs": [{"context": "It.", "qas": [QA]}]}]}, QUESTIONS, ASKED[0]),
        *((content, QUESTIONS, ASKED[0]) for content in (
            '"id",Context,Question,Answer\n7,It.,Who?,x\n',
            {"id": 7, "passage": "It.", "question": "Who?"},
            {"id": 7, "context_text": "It.", "queryText": "Who?"},
            {"id": 7, "context": "It.", "question": "Who?", "text": "It"})),
        # What the other way of reading takes as it is.
        (USUAL, CHOICES, None), ("It.\tWho?\tx\ty\n", CHOICES, None),
        ({"question": "Who?", "context": "It."}, QUESTIONS, None),
    ],
)  # fmt: skip
def test_questions_in_a_file_like_that_of_a_training(content, model, inputs, tmp_path):
    path = tmp_path / ("in.csv" if "," in content else "in.jsonl")
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    found = predict_examples.questions(str(path), model._replace(outputs=("label",)))
    assert inputs == (found and found[0][0])
    name = next((name for name in ('"id"', "nr") if name in path.read_text()), None)
    assert found is None or found[0][1] == ({name.strip('"'): "7"} if name else {})


@pytest.mark.parametrize(
    ("question", "context", "is_swapped"),
    [
        ("It was written by a monk.", "Who wrote it?", True),
        ("它是由一个和尚写的，很久以前。", "谁写的？", True),
        ("Who wrote it?", "It was written by a monk.", False),
        ("Who wrote it?", "Who knows?", False),
        ("It was written by a monk. " * 7, "Who wrote it", False),
        ("It was written by a monk. " * 9, "Who wrote it", True),
        ("a" * 240, "b" * 120, False),
        ("a" * 241, "b" * 120, True),
        ("It was written by a monk. " * 9 + "Who?", "A monk.", False),
        ("the name of the author of the book", "Anna.", False),
        ("Tell me who wrote it", "Was it a monk who wrote this book, or somebody else?", False),
    ],
)
def test_swapped_questions(question, context, is_swapped):
    example, noticed = {"question": question, "context": context}, contextlib.nullcontext()
    if is_swapped:
        noticed = refuses("in, line 1 ... question ... context")
    with noticed:
        inputs = predict_examples.example_of(example, QUESTIONS, "in, line 1").inputs
        assert inputs["question"] == question


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"", {}, "/in.txt"),
        (b"\n\r\n", {}, "/in.txt"),
        (b"text\ttext_pair\nab\n", NAMED, "line 2 ... 1 ... 2"),
        (b"text\ttext_pair\ttext\n", NAMED, "'text'"),
        (b"text\ttext_pair\tTexts\n", NAMED, "text_pair ... 'Texts'"),
        (b"a\tb\n", NAMED, "line 1 ... text_pair"),
        (b"a\tb\tc\n", {}, "--text_column"),
        (b"a\tb\n", {"text_column": "a"}, "text_pair ... --text_pair_column"),
        (b"a\tb\n", {"text_column": "a", "text_pair_column": "c"}, "in.txt ... 'c' ... 'b'"),
        (b"a\tb\n", {"text_column": 0, "text_pair_column": 2}, "2"),
        (b'{"text": "a", "text_pair": "b"}\n', PLACES, "line 1 ... JSON"),
        (b"a\tb\n", {"text_column": 0, "text_pair_column": 5}, "line 1 ... 2 ... 6"),
        (b"a\tb\n", {"text_column": "a", "text_pair_column": 1, "header": False}, "--noheader"),
    ],
)
def test_mistakes_in_headers_and_tables(content, flags, message, classifier, run, tmp_path):
    with refuses(message):
        run(classifier, content, **flags)
    assert not (tmp_path / "out.jsonl").exists()


def test_columns_are_given_only_for_models_of_texts():
    with refuses("--id_column ... question, context"):
        list(predict_examples.read([b"a\tb\n"], "in.txt", QUESTIONS, {"id": "0"}))


def windows_of(weights, question, context):
    """As many windows as the context has characters, of as many pieces as its number."""
    count = tf.strings.length(context)
    most = tf.maximum(tf.reduce_max(count), 1)
    pieces = 1 + tf.range(most)
    is_piece = tf.range(most)[tf.newaxis] < pieces[:, tf.newaxis]  # [W, T]
    mask = is_piece[tf.newaxis] & (tf.range(most) < count[:, tf.newaxis])[..., tf.newaxis]
    rows = tf.size(question)
    return {
        "pooled_output": tf.ones([rows, most, 1]) * weights,
        "sequence_output": tf.ones([rows, most, most, 1]) * weights,
        "input_mask": tf.cast(mask, tf.int32),
    }


def rows_of_windows(weights, question, context):
    """The same as exports of earlier versions give it: a row for each window."""
    found = windows_of(weights, question, context)
    used = tf.reduce_any(found["input_mask"] > 0, axis=2)
    example = tf.cast(tf.where(used)[:, 0], tf.int32)
    return {name: values[used] for name, values in found.items()} | {"example": example}


@pytest.mark.parametrize("call", [windows_of, rows_of_windows])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_embeddings_of_windows_are_always_lists(call, batch_size, run, tmp_path):
    export = save(tmp_path / "export", {"embeddings": (call, QUESTION)})
    size, content = {"predict_batch_size": batch_size}, b"Who?\tabc\nWho?\ta\nWho?\tab\n"
    lines = run(export, content, **size, embeddings="pooled_output")
    pooled = [json.loads(line)["pooled_output"] for line in lines]
    assert pooled == [[[1.0, 2.0]] * 3, [[1.0, 2.0]], [[1.0, 2.0]] * 2]
    lines = run(export, b"Who?\tabc\nWho?\ta\n", **size, embeddings="sequence_output")
    pieces = [json.loads(line)["sequence_output"] for line in lines]
    assert [[len(window) for window in windows] for windows in pieces] == [[1, 2, 3], [1]]


# --- Exports that are no good ---


def with_line(classifier, run, message):
    with refuses(message) as caught:
        run(classifier, b"a\tb\n")
    assert str(classifier) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no\nyes\nmaybe\n", "labels.txt ... 2 ... 3"),
        (b"", "labels.txt ... 2 ... 1"),
        (b"no\nno\n", "labels.txt ... 'no'"),
        (b"no\nj\xe4\n", "labels.txt ... UTF-8"),
    ],
)
def test_labels_that_are_not_the_models(content, message, copied, run):
    (copied / "assets" / "labels.txt").write_bytes(content)
    with_line(copied, run, message)


def test_texts_and_lists_of_words_in_a_batch():
    rows = [{"text": "a b"}, {"text": ["a", "b"]}]
    assert [predict_exports._with_text(row, "export") for row in rows] == rows[:1] * 2
    with refuses("export ... 'a b' ... --model"):
        predict_exports._with_text({"text": ["a b"]}, "export")


def test_class_names_may_hold_any_character(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("sehr gut\nä\u2028b\n", encoding="utf-8")
    assert predict_exports.read_labels(str(path), 2) == ["sehr gut", "ä\u2028b"]


@pytest.mark.parametrize("size", [0, 10, 0.5, 0.99])
@pytest.mark.parametrize(
    "name",
    ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"],
)
def test_damaged_files(name, size, copied, run):
    path = copied / name
    content = path.read_bytes()
    path.write_bytes(content[: size if size >= 1 else int(size * len(content))])
    with_line(copied, run, str(copied))


def test_variables_of_another_export(copied, run, tmp_path):
    other = save(tmp_path / "other", {"text": (classify, PAIR)}, weights=((1.0,), (2.0,)))
    shutil.rmtree(copied / "variables")
    shutil.copytree(other / "variables", copied / "variables")
    with_line(copied, run, str(copied))


def test_weights_that_are_no_numbers(run, tmp_path):
    export = save(tmp_path / "nan", {"text": (classify, PAIR)}, weights=((np.nan, 1.0),))
    with_line(export, run, "NaN ... probabilities")


def test_exports_of_another_kind(run_main, tmp_path):
    with refuses("saved_model.pb"):
        run_main(predict, saved_model=tmp_path, text="a")
    number = {"x": tf.TensorSpec([])}
    for name, specs in (("x", number), ("text", {"text": TEXT} | number)):
        export = save(tmp_path / name, {name: (lambda weights, x, **_: {"y": x}, specs)})
        with refuses("'text'"):
            run_main(predict, saved_model=export, text="a")


def test_the_newest_export_is_taken(tmp_path):
    for name in ("9", "10", "11", "x12", "[13]"):
        (tmp_path / "a[b]" / name).mkdir(parents=True)
        if name != "11":
            (tmp_path / "a[b]" / name / "saved_model.pb").touch()
    assert predict.find_export(str(tmp_path / "a[b]")) == str(tmp_path / "a[b]" / "10")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"input_file": "."}, "--input_file=."),
        ({"input_file": ""}, "--input_file"),
        ({"text": "a", "output_file": ""}, "--output_file"),
        ({"text": "a", "output_file": "."}, "--output_file=."),
        ({"text": "a", "output_file": f"{__file__}/x"}, f"--output_file= ... {__file__}"),
        ({"input_file": __file__, "output_file": __file__}, f"--output_file: {__file__}"),
        ({"text": "a", "labels": "a,b"}, "--labels=a,b ... --model"),
    ],
)
def test_flags_are_checked_before_a_model_is_loaded(flags, message, run_main):
    with refuses(message):
        run_main(predict, saved_model=".", **flags)


def test_a_query_that_is_not_utf_8_is_named(run_main):
    with refuses("--fill_mask ... caf\\udce9"):
        run_main(predict, model="is not read", fill_mask="caf\udce9 [MASK]")


@pytest.mark.long
def test_a_pipe_into_the_command_and_out_of_it(classifier):
    done = subprocess.run(
        [sys.executable, ROOT / "predict.py", f"--saved_model={classifier}"],
        capture_output=True,
        check=False,
        timeout=300,
        input='one text\té\n{"text": "ä", "text_pair": "", "id": "ß"}\n'.encode(),
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr.decode()
    first, second = map(json.loads, done.stdout.decode().splitlines())
    assert set(first) == {"label", "probabilities", "threshold"} and second["id"] == "ß"


def test_a_defect_keeps_its_traceback(classifier, launched, monkeypatch, tmp_path):
    """Only errors meant for users end in one line."""
    monkeypatch.setattr(predict_exports, "prediction", lambda *_: int("x"))
    with refuses("x", error=ValueError):
        launched(predict, saved_model=classifier, text="a", text_pair="b")
    done = launched(predict, saved_model=tmp_path, text="a", text_pair="b")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("predict: error: --saved_model=")
