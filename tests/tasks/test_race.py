# SPDX-License-Identifier: Apache-2.0
import collections
import contextlib
import csv
import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints import run_directory
from albert_tf.config import AlbertConfig
from albert_tf.records import schemas
from albert_tf.tasks import data_report, question_tables, race
from albert_tf.tasks.base import TextInput
from albert_tf.tasks.race import Example
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.splits_and_results import Split
from tests import GOLDEN, SIZES, read_arrays, tiny
from tests.errors import refuses
from tests.tasks.task_files import examples_in

DATA = tiny.GLUE_DATA  # that the original's RACE data lies there is right
EXAMPLES = json.loads((GOLDEN / "finetune" / "race_examples.json").read_text(encoding="utf-8"))
FEATURES = read_arrays(GOLDEN / "finetune" / "race_features.npz")
METRICS = json.loads((GOLDEN / "finetune" / "classifier_metrics.json").read_text())["race"]
METRICS_INPUTS = read_arrays(GOLDEN / "finetune" / "classifier_metrics_inputs.npz")
LEVELS = {"all": race.LEVELS, "middle_only": ("middle",), "high_only": ("high",)}
PASSAGE = {
    "id": "middle7.txt",
    "article": "A river.",
    "questions": ["What is _ or __ ?", "Who?"],
    "options": [["a", "b", "c", "d"], ["I", "you", "he", "we"]],
    "answers": ["B", "D"],
}


def write(folder, name, content):
    path = folder / "RACE" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_one(folder, passage, tokenizer, split="train"):
    write(folder, f"{split}/middle/7.txt", passage)
    return race.read_examples(str(folder), split, tokenizer, ("middle",))


def task(tokenizer, max_seq_length, max_qa_length):
    return race.RaceTask(TextInput(tokenizer, max_seq_length, SIZES), max_qa_length)


def features(examples, tokenizer, max_seq_length, max_qa_length):
    """With the tokens of the options apart."""
    arrays = task(tokenizer, max_seq_length, max_qa_length).features(examples)
    return {
        name: values.reshape(len(examples), 4, -1) if values.ndim == 2 else values
        for name, values in arrays.items()
    }


# --- The original's examples, features and records ---


def test_all_golden_cases_are_here():
    assert len({key.rsplit("/", 1)[0] for key in FEATURES}) == len(EXAMPLES) == 18


@pytest.mark.parametrize("case", EXAMPLES)
def test_examples(case, tokenizers):
    which, mode, split = case.split("/")
    examples = race.read_examples(str(DATA), split, tokenizers[mode], LEVELS[which])
    found = [(e.passage_id, e.context, list(e.endings), e.label) for e in examples]
    keys = ("example_id", "context_sentence", "endings", "label")
    assert found == [tuple(golden[key] for key in keys) for golden in EXAMPLES[case]]
    assert all(example.passage_id.startswith(example.level) for example in examples)


@pytest.mark.parametrize("case", sorted({key.rsplit("/", 1)[0] for key in FEATURES}))
def test_features(case, tokenizers):
    which, mode, split, lengths = case.split("/")
    max_seq_length, max_qa_length = (int(text[1:]) for text in lengths.split("_"))
    examples = race.read_examples(str(DATA), split, tokenizers[mode], LEVELS[which])
    arrays = features(examples, tokenizers[mode], max_seq_length, max_qa_length)
    for feature, values in arrays.items():
        golden = FEATURES[f"{case}/{feature}"]
        # In dev the last row of the original's fills a batch up and is no real example.
        assert len(golden) == len(examples) + (split == "dev")
        np.testing.assert_array_equal(values, golden[: len(examples)], err_msg=feature)


def test_records(tokenizer, tmp_path):
    examples = race.read_examples(str(DATA), "train", tokenizer)
    path = str(tmp_path / "train.tf_record")
    chunks = (features(examples[i : i + 4], tokenizer, 64, 24) for i in range(0, len(examples), 4))
    assert schemas.write_records(path, task(tokenizer, 64, 24).schema, chunks) == len(examples) == 6
    golden = GOLDEN / "finetune" / "race_train_L64_Q24.tfrecord"
    assert examples_in(path) == examples_in(golden)


# --- Reading ---


def test_passage(tokenizer, tmp_path):
    endings = (*(f"what is {letter} or {letter * 2} ?" for letter in "abcd"),)
    assert read_one(tmp_path, PASSAGE, tokenizer) == [
        Example("middle7.txt", 1, "middle", "a river.", endings, 1),
        Example(
            "middle7.txt", 2, "middle", "a river.", ("who? i", "who? you", "who? he", "who? we"), 3
        ),
    ]


HEAD = "context;question;choices;label"
ASKED = '"question": "Who?", "options": ["x", "y"]'
AS_OBJECTS = ASKED.replace('"x", "y"', '{"label": 2, "text": "x"}, {"label": 1, "text": "y"}')
LABELLED = '"question": "Who?", "choices": {"text": %s, "label": %s}'


@pytest.mark.parametrize(
    ("name", "lines", "labels"),
    [
        ("train.jsonl", [f'{{"article": "a", {ASKED}, "answer": "B"}}'], [1]),
        ("train.jsonl", [f'{{"context": "a", {ASKED}, "label": "a"}}'], [0]),
        ("train.csv", [HEAD, "a;Who?;['x', 'y'];y", 'a;When?;"[""1902"", ""1903""]";1902'], [1, 0]),
        ("train.csv", [HEAD, "a;Who?;['x', 'y'];0", "a;When?;['1902', '1903'];1"], [0, 1]),
        ("train.csv", [HEAD, "a;Who?;['x', 'y'];1", "a;When?;['1902', '1903'];2"], [0, 1]),
        ("train.tsv", ["question\toption 1\toption 2\tanswer", "Who?\tx\ty\tB"], [1]),
        ("train.tsv", ["question\toption 1\toption 2\toption 3\tanswer", "Who?\tx\ty\t\tB"], [1]),
        ("train.csv", ["question,B,A,answer", "Who?,y,x,B"], [1]),
        ("train.csv", ["id,question,choice_a,choice_b,answer", "7,Who?,x,y,y"], [1]),
        ("train.csv", ["question,A,B,answer,label", "Who?,x,y,B,1", "Why?,x,y,,0"], [1, 0]),
        ("train.csv", ["question,ending0,ending1,label", "Who?,x,y,1", "When?,x,y,0"], [1, 0]),
        ("train.csv", [HEAD, "a;Who?;('x', 'y');y", "a;When?;[the day, the year];B"], [1, 1]),
        ("train.jsonl", ['{"question": "Who?", "sol1": "x", "sol2": "y", "label": "A"}'], [0]),
        ("train.jsonl", [f'{{{AS_OBJECTS}, "{key}": 2}}' for key in ("answer", "label")], [0, 0]),
        ("train.jsonl", [f'{{{AS_OBJECTS.replace("label", "n")}, "answerKey": "y"}}'], [1]),
        ("train.jsonl",
         [f'{{{LABELLED % texts}, "answerKey": "{key}"}}'
          for texts, key in ((('["x", "y"]', "[1, 2]"), 1), (('["2", "1"]', "[1, 2]"), 1),
                             (('["B", "A"]', '["A", "B"]'), "A"))], [0, 0, 0]),
        ("train.json", ['[{"question": "Who?", "choices": {"text": ["x", "y"]}, "label": "B"}]'],
         [1]),
    ],
)  # fmt: skip
def test_tables_of_questions(name, lines, labels, tokenizer, tmp_path):
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    found = race.read_examples(str(tmp_path), "train", tokenizer)
    assert [example.label for example in found] == labels and race.count_options(tmp_path) == 2
    assert found[0].endings == ("who? x", "who? y")
    assert {example.context for example in found} <= {"a", ""}


def test_options_that_look_like_objects(tokenizer, tmp_path):
    (tmp_path / "train.csv").write_text("question,A,B,answer\nWho?,{1: 2},{3: 4},B\n")
    (example,) = race.read_examples(str(tmp_path), "train", tokenizer)
    assert [text[-6:] for text in example.endings] == ["{1: 2}", "{3: 4}"]


LABELLED_XY = [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}]
WHO, XY = {"question": "Who?"}, ["x", "y"]
XY_OF_NUMPY = "array(['x', 'y'], dtype=object)"


@pytest.mark.parametrize(
    "row",
    [
        {"sent1": "It.", "sent2": "Who?", "ending0": "x", "ending1": "y", "label": "b"},
        {"ctx": "Who?", "ctx_a": "W", "endings": XY, "label": "B"},
        {"sentence": "Who? _", "option1": "x", "option2": "y", "answer": "B"},
        {"goal": "Who?", "sol1": "x", "sol2": "y", "label": "B"},
        {"question_stem": "Who?", "choices": {"text": XY, "label": ["1", "2"]}, "answerKey": "2"},
        {"question": {"stem": "Who?", "choices": LABELLED_XY}, "answerKey": "B"},
        WHO | {"choices": f"{{'text': {XY_OF_NUMPY}, 'label': {XY_OF_NUMPY}}}", "answerKey": "y"},
        {"Question": "Who?", "Option A": "x", "Option B": "y", "Correct Answer": "B"},
        {"prompt": "Who?", "A": "x", "B": "y", "answer": "B"},
        WHO | {"options": {"A": "x", "B": "y"}, "answer": "y"},
        WHO | {"choices": {"1": "x", "2": "y"}, "answer": "y"},
        WHO | {"context": "It.", "answers": XY, "label": "B"},
        WHO | {"choice": XY, "answer": "y"},
        WHO | {"choices": XY, "choice": "B"},
        WHO | {"A": "x", "B": "y", "answers": ["B"]},
        WHO | {"mc_answer1": "x", "mc_answer2": "y", "correct_answer_num": "2"},
        WHO | {"answer_options": {"A": "x", "B": "y"}, "correct_answer_id": "B"},
        *(WHO | {"Opt1": "x", "Opt2": "y", name: "B"}
          for name in ("correctAnswer", "Ans", "target", "AnswerKey")),
        *(WHO | {"options": XY, name: 2, "label": ""}
          for name in ("answer_idx", "correct_index", "correctAnswerIndex")),
        *({name: "Who?", "options": XY, "answer": "B"} for name in ("qtext", "Question Text")),
        WHO | {"Answer": "A", "answer": "B", "A": "x", "B": "y"},
        WHO | {"opa": "x", "opb": "y", "cop": 2},
        WHO | {"options": "('x', 'y')", "answer": "['y']"},
        *(WHO | {"options": XY, "correct": answer}
          for answer in ("(B)", "B.", "b)", ["B"], "B. y", "(b) Y", "Answer: B", "2. y")),
        *(WHO | {"option1": "x", "option2": "y", "answer": answer}
          for answer in ("option2", "Option 2", "option_2")),
        # Options have names, whichever way they are written.
        WHO | {"choices": [{"id": "B", "text": "x"}, {"id": "A", "text": "y"}], "answer": "A"},
        WHO | {"choices": [{"id": 17, "text": "x"}, {"id": 18, "text": "y"}], "answer": 18},
        WHO | {"options": [{"content": "x"}, {"content": "y"}], "answer": "B"},
        WHO | {"choices": {"2": "y", "1": "x"}, "answer": "2"},
        WHO | {"answer0": "x", "answer1": "y", "label": "1"},
        # The answer and the wrong options, in the order of the alphabet.
        WHO | {"correct_answer": "y", "incorrect_answers": ["x"]},
        WHO | {"Correct Answer": "y", "Wrong 1": "x", "Wrong 2": ""},
        WHO | {"answer": "y", "distractor1": "x", "distractor2": "x"},
        {"sent2": "Who?", "gold-ending": "y", "distractor-0": "x", "distractor-1": "x"},
        # A line of RACE.
        {"id": "1", "article": "", "questions": ["Who?"], "options": [XY], "answers": ["y"]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_json", [True, False])
def test_names_of_columns(row, is_json, tokenizer, tmp_path):
    if is_json:
        (tmp_path / "train.jsonl").write_text(json.dumps(row))
    else:
        with open(tmp_path / "train.csv", "w", newline="") as file:
            csv.writer(file).writerows([row.keys(), row.values()])
    (example,) = race.read_examples(str(tmp_path), "train", tokenizer)
    assert (example.endings, example.label) == (("who? x", "who? y"), 1)
    assert example.context == ("it." if {"sent1", "context"} & {*row} else "")


@pytest.mark.parametrize(
    ("passage", "context"),
    [
        ({"story": "It."}, "it."), ({"flores_passage": "It."}, "it."), ({"text": "It."}, "it."),
        ({"dialogue": ["M: hi", "W: yo"]}, "m: hi w: yo"), ({"context": "['a', 'b']"}, "a b"),
        ({"context": "[1] It"}, "[1] it"), ({"context": "[[a 'b' c]]"}, "[[a 'b' c]]"),
        ({"ctx": "It."}, "it."), ({"prompt": "It.", "background": "He is."}, "he is."),
        ({"context": []}, ""), ({"context": None, "document": "It."}, "it."),
        ({"article": "It.", "document": "a.txt"}, "it."),
        ({"context": {"sentences": ["a", "b"]}}, "train.jsonl ... context.sentences"),
        ({"context": ["a", ["b"]]}, "train.jsonl, line 1 ... ['b']"),
        ({"story": [{"s": "a"}]}, "train.jsonl, line 1 ... {'s': 'a'}"),
    ],
)  # fmt: skip
def test_passages_of_tables(passage, context, tokenizer, tmp_path):
    row = {"question": "Who?", "options": ["x", "y"], "answer": "A"} | passage
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    with refuses(context) if context.startswith("train") else contextlib.nullcontext():
        (example,) = race.read_examples(str(tmp_path), "train", tokenizer)
        assert example.context == context


def test_passages_of_two_tables_that_were_joined(tokenizer, tmp_path):
    asked = {"question": "Who?", "options": ["x", "y"], "answer": "A"}
    rows = [{"article": "It."}, {"context": "He is."}, {"story": "a.txt"}]
    lines = [json.dumps(asked | row) + "\n" for row in rows]
    (tmp_path / "train.jsonl").write_text("".join(lines))
    examples = race.read_examples(str(tmp_path), "train", tokenizer)
    assert [example.context for example in examples] == ["it.", "he is.", ""]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (["1;2;3;0", "3;2;1;1", "x;y;z;2"], [0, 1, 2]),  # numbers of options
        (["x;y;z;1.0", "x;y;z;0.0"], [1, 0]),  # as pandas writes them
        (["10;20;30;20", "7;8;9;7"], [1, 0]),  # texts
        (["1;2;3;1", "1;2;3;3"], [0, 2]),  # both are the same
        (["x;;z;2", "x;y;;0"], [2, 0]),  # an empty option keeps its place
        (["x;y;z;-1", "x;y;z;-1"], [None, None]),
        (["x;y;z;?", "x;y;none;nan"], [None, None]),
        (["Yes;No;None;none", "a;b;C;c"], [2, 2]),
        (["x;y;z;3", "x;y;z;1", "3;2;1;1"], [2, 0, 0]),
        (["O;A;B;A", "O;A;B;O"], [1, 0]),  # texts, since O is no letter of an option
        (["O;A;B;A", "x;y;z;b"], [0, 1]),  # letters, since b is no text
        (["A;B;C;A", "x;y;z;y"], [0, 1]),  # both are the same
        (["x;my\u00a0car;z;My  car", "x;y;caf\u00e9;cafe\u0301", "x;y;z;\uff22"], [1, 2, 1]),
    ],
)
def test_answers_that_are_numbers_letters_or_texts(rows, labels, tokenizer, tmp_path):
    lines = ["question;A;B;C;answer", *(f"Q{n}?;{row}" for n, row in enumerate(rows))]
    (tmp_path / "test.csv").write_text("\n".join(lines) + "\n")
    found = race.read_examples(str(tmp_path), "test", tokenizer)
    assert [example.label for example in found] == labels


ABC = "question;A;B;C;answer"


@pytest.mark.parametrize(("train", "labels"), [("0", [1, 2]), ("3", [0, 1]), ("x", None)])
def test_numbers_of_options_are_those_of_the_training(train, labels, tokenizer, tmp_path):
    (tmp_path / "train.csv").write_text(f"{ABC}\nWho?;x;y;z;{train}\n")
    (tmp_path / "dev.csv").write_text(f"{ABC}\nWho?;x;y;z;1\nWhen?;x;y;z;2\n")
    with contextlib.nullcontext() if labels else refuses("dev.csv, line 2 ... '1'"):
        found = race.read_examples(str(tmp_path), "dev", tokenizer)
        assert [example.label for example in found] == labels and race.count_options(tmp_path) == 3


def test_lines_of_race(tokenizer, tmp_path):
    line = {key: value for key, value in PASSAGE.items() if key != "answers"}
    (tmp_path / "test.jsonl").write_text(f"{json.dumps(PASSAGE)}\n{json.dumps(PASSAGE)}\n")
    found = race.read_examples(str(tmp_path), "test", tokenizer)
    assert [(e.passage_id, e.question, e.label) for e in found[:2]] == [
        ("middle7.txt", 1, 1), ("middle7.txt", 2, 3)
    ]  # fmt: skip
    (tmp_path / "test.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(line)}\n")
    assert race.read_examples(str(tmp_path), "test", tokenizer)[3].label is None
    (tmp_path / "test.jsonl").write_text(json.dumps(PASSAGE | {"options": [["x", "y"]]}))
    with refuses("test.jsonl, line 1 ... 2, 1, 2"):
        race.read_examples(str(tmp_path), "test", tokenizer)


@pytest.mark.parametrize(
    ("split", "lines", "message"),
    [
        # Numbers or texts, letters or texts; some have no answer.
        ("test", [ABC, "?;3;2;1;1", "?;3;2;1;2"], "test.csv ... numbers ... A, B"),
        ("test", [ABC, "?;O;A;B;B"], "test.csv, line 2 ... 'B' ... 0"),
        ("test", [ABC, "?;x;y;z;x", "?;x;y;z;B", "?;O;A;B;B"], "test.csv, line 4 ... 'B'"),
        ("test", [ABC, "?;x;y;z;9"], "test.csv ... 9"),
        ("test", [ABC, "?;x;x;z;x", "?;x;y;z;y"], "test.csv, line 2 ... A, B, C ... 'x'"),
        ("test", [ABC, "Who?;x;y;z;A", "When?;x;y;z;?"], "test.csv ... 1 of 2"),
        ("dev", [ABC, "Who?;x;y;z;NaN"], "dev.csv, line 2 ... answer"),
        ("test", ["question;wrong 1;wrong 2;answer", "Who?;x;y;"], "test.csv, line 2 ... answer"),
        ("test", [ABC, "Who?;x;y;z;A. y"], "test.csv, line 2 ... 'A. y'"),
        ("dev", [ABC, "Who?;x;y;z;A", "Who?;x;y;z;-1"], "dev.csv, line 3 ... answer"),
        ("train", [HEAD, "a;Who?;['x', 'y'];1"], "train.csv ... 0 ... 1 ... A, B"),  # from 0 or 1
        *(("train", [ABC, *[f"?;x;y;z;{n}" for n in numbers]], f"train.csv, line 5 ... {other!r}")
          for *numbers, other in (["1", "2", "3", "5", "5"], ["0", "1", "2", "1,3", "1,3"])),
        ("train", [ABC, "?;x;y;z;2", "?;x;y;z;2", "?;x;y;z;x"], "train.csv, line 4 ... 'x'"),
        # Options that are no list.
        ("train", [HEAD, "a;Who?;red, green, blue;A"], "train.csv, line 2 ... red"),
        ("train", [HEAD, "a;Who?;A) a B) b;A"], "train.csv, line 2 ... A) a"),
        ("train", [HEAD, "a;Who?;a|b;A"], "train.csv, line 2 ... a|b"),
        ("train", [HEAD, "a;Who?;{'a', 'b'};A"], "train.csv, line 2 ... {'a"),
        ("train", [HEAD, "a;Who?;(a) x, (b) y (z);A"], "train.csv, line 2 ... (a)"),
        ("train", [HEAD, "a;Who?;[{'label': 'A'}, {'label': 'B'}];A"], "line 2 ... {'label': 'A'}"),
        ("train", [HEAD, "a;Who?;[['x'], ['y']];A"], "line 2 ... ['x']"),
        ("train", [HEAD, "a;Who?;['(A)', '(B)', 'C.'];(D)"], "line 2 ... '(D)'"),
        # Names of columns.
        ("train", ["asked;A;B;answer", "Who?;x;y;A"], "train.csv ... question ... asked"),
        ("train", ["question;A;B", "Who?;x;y"], "train.csv, line 2 ... answer"),
        ("train", ["question;A;B;c1", "Who?;x;y;A"], "train.csv, line 2 ... answer ... c1"),
        ("train", ["question;0;1;answer", "Who?;x;y;A"], "train.csv ... option 1 ... options"),
        ("train", ["question;first;second;answer", "Who?;x;y;A"], "train.csv ... option 1"),
        ("train", [ABC, "Who?;x;y;z;A"], "--middle_only"),  # tables have no levels
    ],
)  # fmt: skip
def test_tables_that_are_refused(split, lines, message, tokenizer, tmp_path):
    (tmp_path / f"{split}.csv").write_text("\n".join(lines) + "\n")
    levels = race.LEVELS if "--middle" not in message else ("middle",)
    with refuses(f"{tmp_path} ... {message}"):
        race.read_examples(str(tmp_path), split, tokenizer, levels)


def test_options_without_labels_have_no_answer_either(tokenizer, tmp_path):
    (tmp_path / "test.jsonl").write_text(f'{{{AS_OBJECTS.replace("label", "n")}, "answer": ""}}')
    (example,) = race.read_examples(str(tmp_path), "test", tokenizer)
    assert example.label is None


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("question opa opb opc cop", "opa opb opc"), ("Option_2 Option_1 q", "Option_1 Option_2"),
        ("a c question", ""), ("option 2 option 3", ""), ("A question", ""),
        ("answer answer1 answer2", "answer1 answer2"),
    ],
)  # fmt: skip
def test_columns_with_an_option_each(header, columns):
    assert [*question_tables.option_columns(header.split())] == columns.split()


def test_records_of_other_levels_or_lengths_are_others(tokenizer):
    data = race.RaceData(task(tokenizer, 64, 24), "", "", "", levels=("middle",))
    assert data.settings == {"levels": ("middle",), "max_qa_length": 24}
    data.task.choices = 3
    assert data.settings == {"levels": ("middle",), "max_qa_length": 24, "choices": 3}


def data_in(folder, tokenizer):
    two = race.RaceTask(TextInput(tokenizer, 32, SIZES), 8, choices=2)
    return race.RaceData(two, str(folder), "out", "out")


@pytest.mark.parametrize(("name", "second", "ids"), [
    ("example_id", "b", ["a", "b"]), ("qID", "b", ["a", "b"]), ("example_id", "a", ["0", "1"]),
    ("id", "a", ["a", "a"]),
])  # fmt: skip
def test_ids_of_tables(name, second, ids, tokenizer, tmp_path):
    rows = [WHO | {"options": XY, "answer": "A", name: each} for each in ("a", second)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = race.read_examples(str(tmp_path), "train", tokenizer)
    assert [example.passage_id for example in found] == ids


def test_options_that_do_not_exist_have_no_lengths(tokenizer):
    counts, one = collections.Counter(), Example("1", 1, "", "it", ("a", "b"), 0)
    race.RaceTask(TextInput(tokenizer, 32, SIZES), 8, choices=4).features([one], counts)
    lengths = collections.Counter()
    data_report.add_lengths(lengths, [len(tokenizer.tokenize("it a")) + 3] * 2)
    assert counts == lengths


def test_the_roles_of_columns_are_shown(tokenizer, tmp_path):
    row = {"ctx": "It.", "query": "", "question": "Who?", "A": "x", "B": "y", "answer": "A"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row | {"sentence": "He."}))
    shown = "passage: sentence; question: question; option: A, B; answer: answer; not used: ctx"
    assert f"{shown}, query" in data_in(tmp_path, tokenizer).described()


@pytest.mark.parametrize(
    ("question", "ending"),
    [
        ("I am ____.", "i am x."), ("_ or __ ?", "x or x ?"), ("Because_.", "becausex."),
        ("a_b, _id, $a_{n}$?", "a_b, _id, $a_{n}$? x"),
        (r"$\sum_\alpha$ is _", r"$\sum_\alpha$ is x"),
    ],
)  # fmt: skip
def test_gaps_in_tables(question, ending, tokenizer, tmp_path):
    """In files of RACE, every underscore is a gap: `test_passage`."""
    row = WHO | {"question": question, "options": XY, "answer": "A"}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    (example,) = race.read_examples(str(tmp_path), "train", tokenizer)
    assert example.endings[0] == ending
    assert task(tokenizer, 64, 24).examples([row | {"article": ""}])[0].endings == example.endings


def test_one_file_per_passage_gives_the_same_as_all_txt(tokenizer, tmp_path):
    for split, level in (("train", "middle"), ("train", "high")):
        text = (DATA / "RACE" / split / level / "all.txt").read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines()):
            # spread over lines, as JSON may be
            write(tmp_path, f"{split}/{level}/{number}.txt", json.dumps(json.loads(line), indent=1))
    expected = race.read_examples(str(DATA), "train", tokenizer)
    assert race.read_examples(str(tmp_path), "train", tokenizer) == expected


def test_all_txt_goes_first_and_blank_lines_do_not_count(tokenizer, tmp_path):
    lines = "\n".join(["", json.dumps(PASSAGE), "", json.dumps(PASSAGE), ""])
    write(tmp_path, "train/middle/all.txt", "\ufeff" + lines)  # a byte order mark is skipped
    assert len(read_one(tmp_path, "\ufeff" + json.dumps(PASSAGE), tokenizer)) == 4
    (tmp_path / "RACE" / "train" / "middle" / "all.txt").unlink()
    assert len(race.read_examples(str(tmp_path), "train", tokenizer, ("middle",))) == 2


def test_files_are_sorted_and_levels_in_order(tmp_path):
    for name in ("high/1.txt", "middle/2.txt", "middle/10.txt"):
        write(tmp_path, f"dev/{name}", PASSAGE)
    found = [Path(path).name for _, path in race.input_files(str(tmp_path), "dev")]
    assert found == ["2.txt", "10.txt", "1.txt"]


@pytest.mark.parametrize("answers", [{}, {"answers": []}, {"answers": None}])
def test_test_split_without_answers(answers, tokenizer, tmp_path):
    passage = {key: value for key, value in PASSAGE.items() if key != "answers"} | answers
    examples = read_one(tmp_path, passage, tokenizer, split="test")
    assert [example.label for example in examples] == [None, None]
    assert features(examples, tokenizer, 32, 8)["label_ids"].tolist() == [0, 0]
    assert metrics(examples, np.zeros([2, 4])) == {}
    with refuses("'answers'"):
        read_one(tmp_path, passage, tokenizer, split="dev")
    write(tmp_path, "test/middle/8.txt", PASSAGE)
    with refuses("2 ... 4"):
        read_one(tmp_path, passage, tokenizer, split="test")


DAMAGED = [  # content of 7.txt, or what is changed in the passage; message
    ({"article": 1}, "7.txt ... 'article' ... 1"),
    ({"answers": ["A"]}, "7.txt ... 'answers' ... 1"),
    ({"answers": ["A", "E"]}, "7.txt ... 2 ... 'E'"),
    ({"answers": ["A", None]}, "7.txt ... 2"),
    ({"answers": ["AB", "A"]}, "7.txt ... 1 ... 'AB'"),
    ({"options": [["a"] * 4, ["a"]]}, "7.txt ... 2 ... ['a']"),
    ({"options": [["a"] * 4, "abcd"]}, "7.txt ... 2 ... 'abcd'"),
    ({"options": [["a"] * 4, ["a"] * 27]}, "7.txt ... 2 ... 26"),
    ({"options": [["a"] * 4, ["a"] * 3], "answers": ["A", "D"]}, "7.txt ... 2 ... A, B, C ... 'D'"),
    ({"id": True}, "7.txt ... 'id' ... True"),
    ({"options": [["a"] * 4, [1, 2, 3, 4]]}, "7.txt ... 2 ... 'option' ... 1"),
    ({"questions": ["a", 1]}, "7.txt ... 2 ... 'question' ... 1"),
    ({"questions": [], "options": [], "answers": []}, "RACE/train"),
    ({"article": "half \ud83d of one"}, "7.txt ... 'article'"),
    ({"id": "\udc00"}, "7.txt ... 'id'"),
    ({"options": [["a"] * 4, ["a", "b", "c", "\udc00"]]}, "7.txt ... 2 ... 'option'"),
    ({"questions": ["a", [[["deep"] * 99] * 99]]}, "2 ... 'question'"),
    *(({key: None}, f"7.txt ... '{key}'") for key in PASSAGE),
    ("{'id': 1}", "7.txt ... JSON"),
    ("[]", "7.txt ... 'id'"),
    ('{"id": ' + "[" * 100_000, "7.txt ... JSON"),
    ("", "7.txt ... JSON"),
    (b'{"id": "\xe9"}', "7.txt ... UTF-8"),
    (json.dumps(PASSAGE) + "\n{", "all.txt, line 2 ... JSON"),
]


@pytest.mark.parametrize(("content", "message"), DAMAGED)
def test_a_damaged_file_is_named(content, message, tokenizer, tmp_path):
    content = PASSAGE | content if isinstance(content, dict) else content
    name = "all.txt" if message.startswith("all.txt") else "7.txt"
    write(tmp_path, f"train/middle/{name}", content)
    with refuses(message) as error:
        race.read_examples(str(tmp_path), "train", tokenizer, ("middle",))
    assert len(str(error.value)) < 1000


def test_missing_files_directories_and_hidden_files(tokenizer, tmp_path):
    message = ".txt ... RACE/train/middle ... --data_dir"
    with refuses(message):
        race.read_examples(str(tmp_path), "train", tokenizer)
    folder = write(tmp_path, "train/middle/.7.txt", "not read").parent
    with refuses(message):
        race.read_examples(str(tmp_path), "train", tokenizer)
    (folder / "8.txt").mkdir()
    with refuses("8.txt"):
        race.read_examples(str(tmp_path), "train", tokenizer, ("middle",))


def test_any_character_and_any_length_of_text(tokenizer, tmp_path):
    odd = {"article": "nul \0 and \U0001f600 " + "long " * 100_000, "id": "\U0001f600"}
    examples = read_one(tmp_path, PASSAGE | odd, tokenizer)
    arrays = features(examples, tokenizer, 64, 24)
    assert arrays["input_mask"].shape[2] == arrays["input_mask"][0, 0].sum() == 64


# --- Features ---


def test_what_is_cut(tokenizer):
    context, ending = "the old bridge of the village", "who walked over the old bridge"
    example = Example("m", 1, "middle", context, (ending,) * 4, 0)
    arrays = features([example], tokenizer, 16, 4)
    first, second = tokenizer.encode_ids(context), tokenizer.encode_ids(ending)
    assert len(first) > 3
    assert len(second) > 4
    sequence = [2, *first[:9], 3, *second[-4:], 3]
    assert arrays["input_ids"][0, 3].tolist() == (sequence + [0] * 16)[:16]


# --- Metrics and answers ---


def metrics(examples, logits, batch_size=8):
    split = Split({}, examples)
    return task(None, 64, 24).metrics(split, {"logits": logits}, batch_size)


def examples_of(levels, labels):
    return [
        Example(f"{level}9.txt", number, level, "", ("",) * 4, label)
        for number, (level, label) in enumerate(zip(levels, labels, strict=True), start=1)
    ]


def test_metrics():
    real = METRICS_INPUTS["race/is_real_example"] == 1
    labels = METRICS_INPUTS["race/label_ids"][real].tolist()
    examples = examples_of(["middle"] * len(labels), labels)
    results = metrics(examples, METRICS_INPUTS["race/logits"][real], len(examples))
    golden = METRICS | {"eval_accuracy_middle": METRICS["eval_accuracy"]}
    golden["loss"] = golden["eval_loss"]
    assert results == pytest.approx(golden, rel=1e-6)


def test_accuracy_of_levels():
    examples = examples_of(["middle", "high", "high", "high"], [0, 1, 2, 3])
    results = metrics(examples, np.eye(4)[[0, 1, 1, 1]])
    assert results["eval_accuracy"] == 0.5
    assert results["eval_accuracy_middle"] == 1.0
    assert results["eval_accuracy_high"] == pytest.approx(1 / 3)


def test_answers_table():
    first, second = examples_of(["middle", "high"], [2, None])
    examples = [first, second._replace(passage_id="high\t9\n.txt")]
    logits = np.float32(np.log([[0.5, 0.125, 0.125, 0.25], [0.25, 0.125, 0.125, 0.5]]))
    data = race.RaceData(task(None, 64, 24), "", "out", "")
    answers = data.task.answers(None, {"logits": logits})
    text = data.prediction_files(examples, answers)["out/predictions.tsv"]
    lines = [line.split("\t") for line in text.splitlines()]
    assert lines[0] == ["id", "question", "prediction", "answer", "A", "B", "C", "D"]
    assert lines[1][:4] == ["middle9.txt", "1", "A", "C"]
    assert lines[2][:4] == ["high 9 .txt", "2", "D", ""]
    assert [float(text) for text in lines[1][4:]] == pytest.approx([0.5, 0.125, 0.125, 0.25])


# --- The real data ---


@pytest.mark.long
@pytest.mark.shared_data
def test_real_data(shared_data):
    tokenizer = FullTokenizer(spm_model_file=str(shared_data / "spm" / "30k-clean.model"))
    counts = {}
    for split in ("train", "dev"):
        examples = race.read_examples(str(shared_data / "race"), split, tokenizer)
        for level in race.LEVELS:
            counts[split, level] = sum(example.level == level for example in examples)
        arrays = features(examples[::20], tokenizer, 256, 64)
        # every sequence has passage, question and both [SEP]
        assert arrays["segment_ids"].sum(axis=-1).min() >= 2
        assert ((arrays["input_ids"] == 3).sum(axis=-1) == 2).all()
    assert len({example.passage_id for example in examples}) == 400
    assert counts == {
        ("train", "middle"): 2430, ("train", "high"): 1961,
        ("dev", "middle"): 791, ("dev", "high"): 646,
    }  # fmt: skip


# --- Other numbers of options ---


def passage_of(*counts, **changes):
    """A passage with a question for each number of options; the last option is right."""
    options = [[f"option {i}" for i in range(count)] for count in counts]
    return PASSAGE | {
        "questions": ["which _ is it?"] * len(counts),
        "options": options,
        "answers": [race.LETTERS[count - 1] for count in counts],
    } | changes  # fmt: skip


@pytest.mark.parametrize(("counts", "most"), [([3, 3], 3), ([5], 5), ([2, 4], 4), ([2], 2)])
def test_any_number_of_options(counts, most, tokenizer, tmp_path):
    write(tmp_path, "train/high/1.txt", passage_of(*counts, id=7))
    assert race.count_options(str(tmp_path), ("high",)) == most
    write(tmp_path, "dev/high/1.txt", passage_of(most + 1))  # other splits count
    assert race.count_options(str(tmp_path), ("high",)) == most + 1
    examples = race.read_examples(str(tmp_path), "train", tokenizer, ("high",), most)
    assert [len(example.endings) for example in examples] == counts
    assert {example.passage_id for example in examples} == {"7"}
    with_most = race.RaceTask(TextInput(tokenizer, 32, SIZES), 8, choices=most)
    assert with_most.labels == with_most.kind.labels == tuple("ABCDE"[:most])
    arrays = with_most.features(examples)
    exists = arrays["input_mask"].reshape(len(counts), most, 32).any(axis=-1)
    assert exists.sum(axis=1).tolist() == counts
    assert arrays["label_ids"].tolist() == [count - 1 for count in counts]


def test_the_options_of_a_trained_model(tmp_path):
    assert race.trained_options(str(tmp_path)) == 4
    kind = run_directory.FinetunedTask("race", race.labels_of(5))
    run_directory.RunDirectory(str(tmp_path)).write_task(kind)
    assert race.trained_options(str(tmp_path)) == 5
    assert race.trained_options(str(tmp_path / "new"), str(tmp_path)) == 5


def test_an_option_that_does_not_exist_gets_no_probability(tokenizer):
    task = race.RaceTask(TextInput(tokenizer, 32, SIZES), 8, choices=3)
    given = [{"article": "a b", "question": "c", "options": list("de")}]
    arrays = task.features(task.examples(given))
    model = task.make_model(AlbertConfig.from_dict(tiny.WIDE))
    inputs = {name: arrays[name].astype(np.int32) for name in task.inputs}
    outputs = {"logits": model(inputs)["logits"].numpy()}
    (answer,) = task.answers(Split(arrays, None), outputs)
    assert answer["probabilities"]["C"] == 0
    assert answer["probabilities"]["A"] + answer["probabilities"]["B"] == pytest.approx(1)
