# SPDX-License-Identifier: Apache-2.0
"""Questions in forms that other tools write, WordPiece vocabularies, F1 of characters."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from albert_tf import options, squad_metrics
from albert_tf.checkpoints.run_directory import NoAnswerThreshold, RunDirectory
from albert_tf.tasks.base import TextInput
from albert_tf.tasks.squad import answers, features, questions, scores, squad
from albert_tf.text.tokenization import FullTokenizer
from tests import SIZES, tiny
from tests.errors import refuses

CONTEXT = "Anna built the bridge in 1902."


def qa(**changes):
    found = [{"text": "1902", "answer_start": 25}]
    return {"id": "a", "question": "When?", "answers": found} | changes


def flat(**changes):
    found = {"text": ["1902"], "answer_start": [25]}
    return {"id": "a", "context": CONTEXT, "question": "When?", "answers": found} | changes


def nested(*qas):
    return {"data": [{"title": "x", "paragraphs": [{"context": CONTEXT, "qas": [*qas]}]}]}


OF_NUMPY = "{'text': array(['1902'], dtype=object), 'answer_start': array([25], dtype=int32)}"
NO_ID = {name: value for name, value in qa().items() if name != "id"}
COLUMNS = {n: [value, value] for n, value in flat().items()} | {"id": ["a", "b"]}
CMRC = {"query_id": 7, "query_text": "When?", "answers": ["1902"]}
FOUND = {"text": "1902", "char_spans": [[25, 28]]}
MRQA_QUESTION = {"qid": "7", "question": "When?", "answers": ["1902"], "detected_answers": [FOUND]}
MRQA = {"id": "", "context": CONTEXT, "qas": [MRQA_QUESTION]}


@pytest.fixture
def read(tmp_path):
    """Reads JSON values, or a text or bytes: read(content, training=True) -> (examples, path)."""

    def write(content, training=True, name="q.json"):
        path = tmp_path / name
        content = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return questions.read_examples(str(path), training), str(path)

    return write


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        (nested(qa(id=272800), qa(id=272801)), ["272800", "272801"]),
        (nested(NO_ID, qa(id=None)), ["0", "1"]),
        (nested(NO_ID | {"guid": "b"}), ["b"]),
        ({"data": [flat(), flat(id=7)]}, ["a", "7"]),
        ([flat(id=10**18 + 1), flat(id=7.0)], ["1000000000000000001", "7"]),
        ("\n".join(json.dumps(flat(id=i)) for i in (1, 2)), ["1", "2"]),
        (nested(qa())["data"], ["a"]),
        ([flat(answers="1902"), flat(id="b", answers=["1902"])], ["a", "b"]),
        ([flat(answers={"text": "1902", "answer_start": 25})], ["a"]),
        (nested(qa(answers=[{"text": "1902"}])), ["a"]),
        ([flat(answers={"text": "1902", "answer_start": "25"})], ["a"]),
        ([{n: [value] for n, value in flat(answers="1902").items()}], ["a"]),  # of R
        (COLUMNS, ["a", "b"]),
        ({"columns": [*COLUMNS], "data": [*zip(*COLUMNS.values(), strict=True)]}, ["a", "b"]),
        ({"0": flat(), "1": flat(id="b")}, ["a", "b"]),
        (flat(answers=[{"text": "1902"}]), ["a"]),
        ({"context": CONTEXT, "qas": [qa()]}, ["a"]),
        ({"paragraphs": [{"context": CONTEXT, "qas": [qa()]}]}, ["a"]),
        ({n: dict(enumerate(values)) for n, values in COLUMNS.items()}, ["a", "b"]),
        ([{"context_text": CONTEXT, "qas": [CMRC]}], ["7"]),
        ('{"header": {"dataset": "x"}}\n' + json.dumps(MRQA), ["7"]),
        (json.dumps(nested(qa())).encode("utf-16"), ["a"]),
        (gzip.compress(json.dumps(nested(qa())).encode()), ["a"]),
        ([flat(answers={"answer": ["1902"], "answer_begin_position": [25.0]})], ["a"]),
        ([flat(answers=[[{"answer_text": 1902, "answer_start": 25}]])], ["a"]),
        ([flat(answers=json.dumps(flat()["answers"]))], ["a"]),
        ([flat(answers="{'text': ['1902'], 'answer_start': [25]}")], ["a"]),
        ([flat(answers=OF_NUMPY)], ["a"]),
        ([flat(answers=f"[{qa()['answers'][0]} {qa()['answers'][0]}]")], ["a"]),
        ([flat(answers=["1902", "1902"], answer_start=25)], ["a"]),
        ([{"context": CONTEXT, "question": "When?", "text": "1902", "answerStart": 25}], ["0"]),
        ([{"ID": 3, "Context": CONTEXT, "Question": "When?", "Answer Text": 1902.0}], ["3"]),
        ([{"passage": CONTEXT, "query": "When?", "answers.text": ["1902"]}], ["0"]),
        (nested(qa(id="1"), NO_ID), ["1", "#1"]),
        (nested(qa(id=""), qa(id="")), ["0", "1"]),
    ],
)
def test_forms_of_files(read, content, ids):
    examples, path = read(content)
    assert [example.qas_id for example in examples] == ids
    for example in examples:
        assert (example.paragraph_text, example.start_position) == (CONTEXT, 25)
        assert (example.orig_answer_text, {*example.answers}) == ("1902", {"1902"})
    assert not questions.is_v2(path)
    gold, is_v2 = scores.read_gold(path)
    assert [*gold] == ids and not is_v2


@pytest.mark.parametrize("text", ["built [5])", 'x" "y', "it's (a"])
def test_texts_in_lists_of_numpy_stay(read, text):
    found = f"{{'text': array([{text!r}], dtype='<U9'), 'answer_start': array([0])}}"
    for given in (found, f"[{text!r} {text!r}]"):
        ((example,), _) = read([flat(context=text, answers=given)])
        assert example.orig_answer_text == text


def test_tables(read):
    rows = [f"1,{CONTEXT},When?,1902,", f"2,{CONTEXT},When?,['1902'],[25]", f"3,{CONTEXT},Why?,,"]
    table = "\n".join(["id,context,question,answer,answer_start", *rows])
    examples, path = read(table, name="q.csv")
    assert [example.start_position for example in examples] == [25, 25, -1]
    assert [example.answers for example in examples] == [("1902",), ("1902",), ()]
    assert questions.is_v2(path)


@pytest.mark.parametrize(
    ("changes", "answers", "is_impossible"),
    [
        ({"answers": None, "is_impossible": True}, (), True),
        ({"answers": [], "is_impossible": 1}, (), True),
        ({"answers": {"text": [], "answer_start": []}, "is_impossible": None}, (), True),
        ({"answers": []}, (), True),
        ({"answers": None}, (), True),
        ({"answers": "", "is_impossible": ""}, (), True),
        ({"answers": [], "is_impossible": False}, (), True),
        ({"answers": "[]", "is_impossible": "yes"}, (), True),
        ({"is_impossible": "yes"}, (), True),  # of KLUE, next to plausible answers
        ({"is_impossible": "no"}, ("1902",), False),
        ({"is_impossible": 0}, ("1902",), False),
        ({"is_impossible": 0.0}, ("1902",), False),
        ({"is_impossible": "false"}, ("1902",), False),
        ({"is_impossible": None}, ("1902",), False),
    ],
)
def test_forms_of_no_answer(read, changes, answers, is_impossible):
    ((_, example), path) = read(nested(qa(), qa(id="b", **changes)))
    assert (example.answers, example.is_impossible) == (answers, is_impossible)
    is_odd = changes.get("is_impossible") is False or "answers" not in changes
    assert bool(example.absent) == (is_impossible and is_odd)
    assert questions.is_v2(path) == scores.read_gold(path)[1] == is_impossible


@pytest.mark.parametrize(
    "blank",
    [[{"text": "", "answer_start": -1}], {"text": [""], "answer_start": [-1]}, [{"text": " "}]],
)
def test_answers_without_text_are_none_next_to_others(read, blank):
    rows = [flat(), flat(id="b", answers=blank)]
    for training in (True, False):
        examples, path = read(rows, training=training)
        assert [example.answers for example in examples] == [("1902",), ()]
        assert [example.is_impossible for example in examples] == [False, training]
    assert questions.is_v2(path) and scores.read_gold(path) == ({"a": ("1902",), "b": ()}, True)
    (example,), _ = read(rows[1:], training=False)  # a test file
    assert example.answers is None


@pytest.mark.parametrize("text", ["NA", "nan", "#N/A", "None", "No answer", "{}"])
def test_texts_that_stand_for_no_answer(read, text):
    asked = flat(id="b", answers=text), flat(id="c", answers=None), flat(id="d")
    del asked[2]["answers"]
    rows = [flat(), *asked, flat(id="e", answers=text, context=f"It is {text}")]
    examples, path = read(rows)
    assert [each.answers for each in examples] == [("1902",), (), (), (), (text,)]
    counts = questions.oddities(examples)
    assert text in counts.pop("first_absent") and +counts == {"searched": 1, "absent": 2}
    assert scores.read_gold(path)[0] == {each.qas_id: each.answers for each in examples}


def test_answers_of_null_are_none(read):
    ((example,), _) = read(nested(qa(answers=None)), training=False)
    assert example.answers is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (nested(qa(answers=None)), "question a ... 0"),
        ([flat(answers="1903")], "question a ... '1903'"),
    ],
)
def test_questions_that_are_refused(read, content, message):
    with refuses(f"q.json ... {message}"):
        read(content)


def test_the_first_of_several_answers_is_learnt(read):
    several = [{"text": "1902", "answer_start": 25}, {"text": "in 1902", "answer_start": 22}]
    examples, _ = read(nested(qa(answers=several), qa(id="b")))
    assert examples[0].orig_answer_text == "1902" and examples[0].answers == ("1902", "in 1902")
    assert +questions.oddities(examples) == {"several": 1}


def test_answers_that_are_not_in_their_context_are_left_out(read):
    rows = [flat(answers="anna  BUILT"), flat(id="b", answers="Karl"), flat(id="c")]
    examples, _ = read(rows)
    assert [each.start_position for each in examples] == [0, -1, 25]
    assert examples[0].orig_answer_text == "Anna built"
    counts = questions.oddities(examples)
    assert counts.pop("first_lost") == "b" and +counts == {"searched": 1, "lost": 1}
    given = FullTokenizer(vocab_file=str(tiny.WORDPIECE)), features.WindowSettings(64, 16, 8)
    found = features.convert_examples(examples, *given, training=True)
    assert found.skipped(examples) == ["b"]
    assert [each.is_lost for each in read(rows[1:])[0]] == [True, False]  # no more than half
    with refuses("q.json ... 2 answers ... b ... 'Karl'"):
        read([*rows[1:], flat(id="d", answers="Emma")])


def test_answers_without_a_place_are_searched(read):
    examples, _ = read([flat(answers="1902"), flat(id="b")])
    assert +questions.oddities(examples) == {"searched": 1}


@pytest.mark.parametrize(
    ("context", "start", "place", "places"),
    [
        ("a cartel of art", {}, 12, 1),
        ("cartels, parties", {}, 1, 2),
        ("art, not arts, is art", {}, 0, 2),
        ("art is art", {"answer_start": 7.0}, 7, 0),
        ("art is art", {"answer_start": None}, 0, 2),
        ("art is art", {"start": 7}, 7, 0),
        ("art is art", {"start": 2}, 0, 2),  # a token
        ("art is art", {"start": -3}, 0, 2),
        ("art is art", {"start_char": 7}, 7, 0),
        ("他生于(北京)市，北京", {}, 4, 2),
        ("art is art", {"answer_begin_position ": "7"}, 7, 0),  # with a space in ThaiQA
        ("art is art", {"answer_start": [7]}, 7, 0),
        ("art is art", {"answer_start": -1}, 0, 2),
        ("art is art", {"answer_start": 8}, 0, 2),  # it does not fit in
        ("art is art", {"offset": 7}, 7, 0),
        ("art is art", {"answerStart": 7}, 7, 0),
        ("art is art", {"answer_start": "NA", "startIndex": 7}, 7, 0),
        ("an ART", {}, 3, 1),
        ("an \uff41rt", {}, 3, 1),
    ],
)
def test_the_place_of_an_answer(read, context, start, place, places):
    answer = "北京" if "北京" in context else "art"
    texts = ({"answer": answer} | start, {"answers": [{"text": answer} | start]})
    texts += ({"answers": [answer]} | start, {"answers": {"text": [answer]} | start})
    for number, given in enumerate(texts):
        row = {"id": "a", "context": context, "question": "What?"} | given
        ((example,), _) = read([row])
        assert (example.start_position, example.places) == (place, places), number


@pytest.mark.parametrize(
    "found",
    [
        [{"text": "art", "char_spans": [[7, 9], [0, 2]]}],
        [{"text": "art", "char_spans": [{"start": 7, "end": 9}]}],
        {"text": ["art"], "char_spans": [{"start": [7, 0], "end": [9, 2]}]},
    ],
)
def test_the_place_of_an_answer_of_mrqa(read, found):
    row = {"context": "art is art", "question": "What?", "detected_answers": found}
    ((example,), _) = read([row | {"answers": ["art"]}])
    assert (example.start_position, example.places) == (7, 0)


# --- WordPiece ---


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("the blue boar inn, in the town.", "blue boar"),
        ("He paid (about) 2,000 for it.", "2,000"),
        ("the inn at the  river", "river"),
    ],
)
def test_answers_are_found_with_a_wordpiece_vocabulary(context, answer):
    tokenizer = FullTokenizer(vocab_file=str(tiny.WORDPIECE))
    start, settings = context.index(answer), features.WindowSettings(64, 16, 8)
    example = questions.SquadExample("q", "what?", context, (answer,), answer, start)
    found = features.convert_examples([example], tokenizer, settings, True)
    assert not found.skipped([example]) and len(found) == 1
    first, last = (found.labels[f"{side}_positions"][0] - found.window_offset[0]
                   for side in ("start", "end"))  # fmt: skip
    paragraph = found.paragraph(0)
    text = context[paragraph.starts[first] : paragraph.ends[last] + 1]
    assert text.strip() == answer


def test_an_export_of_text_needs_sentencepiece():
    text = TextInput(FullTokenizer(vocab_file=str(tiny.WORDPIECE)), 64, SIZES)
    task = squad.SquadTask(text, options.Squad(doc_stride=16), "")
    task.check_export(takes_text=False)
    with refuses(f"--export_dir ... {tiny.WORDPIECE.name} ... --export_text=false"):
        task.check_export(takes_text=True)


# --- F1 of characters ---


@pytest.mark.parametrize(
    ("prediction", "gold", "f1"),
    [
        ("天气好", "天气很好", 6 / 7),
        ("天气很好。", "天气很好", 1),
        ("1902年", "1902 年", 1),
        ("Apple 公司", "apple公司", 1),
        ("ดี", "ดีมาก", 4 / 7),
        ("서울특별시는", "서울특별시", 10 / 11),
        # Of KorQuAD, digits and other letters too.
        ("1902년", "1903년", 4 / 5),
        ("BTS의", "BTS", 6 / 7),
        ("LG전자", "LG", 2 / 3),
        ("the bridge", "a bridge", 1),
        ("bridges", "bridge", 0),
    ],
)
def test_f1_of_characters(prediction, gold, f1):
    assert scores.f1_score(prediction, gold, 0.0, "characters") == pytest.approx(f1)


def test_spaces_of_korean_count_for_an_exact_match():
    assert not scores.exact_score("서울 특별시", "서울특별시", "characters")
    assert scores.exact_score("서울특별시.", "서울특별시", "characters")


def test_scores_of_characters_in_the_command(tmp_path, capsys):
    answered = [{"question": "?", "answers": [{"text": text}]} for text in ("王小明", "天气很好")]
    (tmp_path / "gold.json").write_text(json.dumps(nested(*answered)))
    (tmp_path / "found.json").write_text(json.dumps({"0": "王小明", "1": "天气好"}))
    files = [f"--data_file={tmp_path}/gold.json", f"--predictions_file={tmp_path}/found.json"]
    for unit, f1 in (("words", 50), ("characters", 100 * (1 + 6 / 7) / 2)):
        assert squad_metrics.main([*files, f"--f1_unit={unit}"]) == 0
        assert json.loads(capsys.readouterr().out)["f1"] == pytest.approx(f1)


# --- Thresholds ---


def test_a_threshold_stays_if_another_file_is_scored(tmp_path, capsys):
    def data(path):
        task = squad.SquadV2Task(
            TextInput(None, 64, SIZES), options.Squad(doc_stride=16, predict_file=path), ""
        )
        return squad.data_set(task, str(tmp_path))

    found = answers.Predictions({"a": [], "b": []}, {"a": 1.0, "b": 4.0})
    data("first.json")._keep_threshold(found, {squad.THRESHOLD: 0.0}, is_best=True)
    kept = RunDirectory(str(tmp_path)).threshold
    assert kept == NoAnswerThreshold(0.0, "first.json", None)
    data("other.json")._keep_threshold(found, {squad.THRESHOLD: 2.5})
    assert RunDirectory(str(tmp_path)).threshold == kept
    said = capsys.readouterr().out
    assert "stays 0.0" in said and "2.5 is best" in said
    data("first.json")._keep_threshold(found, {squad.THRESHOLD: 2.5})
    assert RunDirectory(str(tmp_path)).threshold.null_score_diff_threshold == 2.5
    assert "was 0.0 and is now 2.5" in capsys.readouterr().out


# --- No answer at [CLS] ---


@pytest.mark.parametrize(
    ("cls", "answer"),
    [([9.0, 9.0], ""), ([1.0, 1.0], "1902"), ([9.0, 1.0], "1902"), ([4.0, 4.1], "")],
)
def test_no_answer_at_cls(cls, answer):
    """The best span scores 3 + 3; `cls` has the scores of [CLS] in two windows, for each side."""
    example = questions.SquadExample("q", "?", CONTEXT)
    windows = SimpleNamespace(example_index=np.array([0, 0]))
    entry = {"text": "1902", "probability": 1.0, "start_log_prob": 3.0, "end_log_prob": 3.0}
    logits = np.array([[cls[0], 3.0], [cls[1], 3.0]], np.float32)
    runs = [{"start_logits": logits, "end_logits": logits}]
    found = answers.with_no_answer(answers.Predictions({"q": [entry]}), [example], windows, runs)
    assert found.texts() == {"q": answer}
    assert sum(each["probability"] for each in found.nbest["q"]) == pytest.approx(1)
    lowest = min(cls)
    if not answer:
        assert found.nbest["q"][0]["start_log_prob"] == pytest.approx(lowest)


def test_which_models_are_read_at_cls():
    assert squad.is_read_at_cls(["a/model.safetensors"])
    assert not squad.is_read_at_cls(["a/model.ckpt-best"]) and not squad.is_read_at_cls([])
