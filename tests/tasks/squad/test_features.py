# SPDX-License-Identifier: Apache-2.0
"""SQuAD reading, alignment and features: against the golden figures and a plain reference."""

import dataclasses
import functools
import gzip
import json
import string
import tracemalloc
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf import options
from albert_tf.records import record_files, schemas
from albert_tf.tasks import base
from albert_tf.tasks.squad import alignment as squad_alignment
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.tasks.squad import squad
from albert_tf.tasks.squad.features import WindowSettings
from albert_tf.tasks.squad.questions import SquadExample
from albert_tf.text.clean_up import CleanUp
from albert_tf.text.tokenization import WORD_START, FullTokenizer, preprocess_text
from tests import GOLDEN, SIZES, tiny
from tests.errors import assert_names, assert_says, names, refuses
from tests.tasks.squad.original_features import original_features
from tests.tasks.task_files import examples_in

FINETUNE = GOLDEN / "finetune"
FEATURE_FILES = sorted(path.name[:-8] for path in FINETUNE.glob("squad_v*_L*.json.gz"))
SMALL = WindowSettings(max_seq_length=64, doc_stride=24, max_query_length=12)


def golden_json(name):
    return json.loads(gzip.decompress((FINETUNE / f"{name}.json.gz").read_bytes()))


def data_file(version, split):
    return str(FINETUNE / "squad_data" / f"{split}_{version}.json")


def write(path, questions, context="Green ideas sleep."):
    """A SQuAD file of one paragraph; returns its path as str."""
    paragraphs = [{"context": context, "qas": questions}]
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    return str(path)


def question(qas_id="q1", answers=(("ideas", 6),), **more):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": qas_id, "question": "What sleeps?", "answers": answers, **more}


# === Reading ===


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_examples_are_the_originals(version, split):
    expected = golden_json(f"squad_{version}_{split}_examples")
    names = [name for name in expected[0] if name != "end_position"]
    found = squad_questions.read_examples(data_file(version, split), split == "train")
    assert squad_questions.is_v2(data_file(version, split)) == (version == "v2.0")
    for ours, theirs in zip(found, expected, strict=True):
        assert {name: getattr(ours, name) for name in names} == {
            name: theirs[name] for name in names
        }


def test_gold_answers_are_kept_for_scoring():
    found = squad_questions.read_examples(data_file("v2.0", "dev"), training=False)
    answers = {example.qas_id: example.answers for example in found}
    assert answers["q002"] == ("The", "The", "the THE!")
    assert answers["q003i"] == ()


def test_prediction_needs_no_answers_but_scoring_does(tmp_path):
    bare = question("q2")
    del bare["answers"]
    path = write(tmp_path / "new.json", [question("q1"), bare, question("q3", answers=())])
    found = squad_questions.read_examples(path, training=False)
    assert [example.answers for example in found] == [("ideas",), (), ()]
    counts = squad_questions.oddities(found)
    assert "q2" in counts.pop("first_absent") and +counts == {"absent": 1}
    counts = [squad_questions.count_unlabelled(found, version_2) for version_2 in (False, True)]
    assert counts == [2, 0]
    path = write(tmp_path / "test.json", [question("q1", answers=()), question("q2", answers=())])
    found = squad_questions.read_examples(path, training=False)  # as test files have them
    assert squad_questions.count_unlabelled(found, True) == 2
    stated = question("q1", answers=(), is_impossible=True)
    found = squad_questions.read_examples(write(tmp_path / "dev.json", [stated]), training=False)
    assert squad_questions.count_unlabelled(found, True) == 0


def squad_json(*questions, context="Ideas."):
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [*questions]}]}]})


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("bad.json", None, "bad.json"),
        ("bad.json", "{", "bad.json ... JSON"),
        ("bad.json", "[]", "bad.json ... question"),
        ("bad.json", '{"data": 3}', "bad.json ... `data`"),
        ("bad.json", '{"data": [{}]}', "0 ... `paragraphs`"),
        ("bad.json", '{"data": [{"paragraphs": [{"qas": [{"question": "?"}]}]}]}', "'context'"),
        ("bad.json", squad_json({}), "0 ... 'question'"),
        ("bad.json", '[{"context": null, "question": "?"}]', "0 ... 'context'"),
        ("bad.json", '{"context": ["a", "b"], "question": "?"}', "0 ... 'context'"),
        ("bad.json", '{"data": [1]}', "bad.json ... `data`"),
        ("bad.json", '{"data": ' + "[" * 100_000, "bad.json ... JSON"),
        ("bad.json", '{"data": {"a": ' + "[" * 300 + "]" * 300 + "}}", "bad.json ... `data`"),
        ("bad.json", squad_json(question(), context="\ud800"), "q1 ... 'context'"),
        ("bad.json", squad_json(question(), context=" \n"), "bad.json ... q1"),
        ("bad.json", squad_json(question(), question()), "bad.json ... 'q1'"),
        ("dev.csv", "id,question,context,answer\n1,2\n", "dev.csv ... SQuAD"),
        ("dev.csv", "id\tquestion\n1\t2\n", "dev.csv ... SQuAD"),
        ("dev.parquet", b"PAR1\x15\xff\xff", "dev.parquet ... JSON"),
    ],
)
def test_what_is_no_squad_file_is_an_error(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with refuses(message):
        squad_questions.read_examples(str(path), training=False)
    if name.endswith(".csv"):
        with refuses(message):
            squad_questions.is_v2(str(path))


@pytest.mark.parametrize(
    "bad, message",
    [
        (question(answers=()), "q1 ... 0"),
        (question(answers=(("Ideen", 14),)), "q1 ... 'Ideen'"),
        (question(answers=(("", 3),)), "q1 ... 0"),
        (question(answers=(("a", "six"),)), "q1 ... 'answer_start' ... 'six'"),
        (question(answers=(("a", True),)), "q1 ... 'answer_start'"),
        (question(answers=(("x", 10**400),)), "q1 ... 'x'"),
        (question(answers=(("a", 1.5),)), "q1 ... 'answer_start' ... 1.5"),
        ({**question(), "answers": [{"span": 5}]}, "q1 ... 'text' ... 5"),
        ({**question(), "answers": "['ideas"}, 'q1 ... "[\'ideas"'),
        ({**question(), "answers": "{'text': ['ideas', x]}"}, "q1 ... ['ideas', x]"),
        ({**question(), "answers": {"text": ["ideas"], "answer_start": [1, 6]}}, "q1 ... 1"),
        ({**question(), "question": 5}, "q1 ... 'question' ... 5"),
        ({**question(), "question": "\ud800"}, "q1 ... 'question'"),
        ({**question(), "id": [7]}, "0 ... 'id' ... [7]"),
        ({**question(), "id": True}, "0 ... 'id' ... True"),
        (question(is_impossible=2), "q1 ... 'is_impossible' ... 2"),
        (question(is_impossible="maybe"), "q1 ... 'is_impossible' ... 'maybe'"),
        ({"id": "q1", "question": "?", "reply": "a"}, "q1 ... answers ... 'reply'"),
        ({"id": "q1", "question": "?", "answers": 5}, "q1 ... '5'"),
    ],
)
def test_what_cannot_be_trained_on_is_an_error(tmp_path, bad, message):
    with refuses(message) as caught:
        squad_questions.read_examples(write(tmp_path / "bad.json", [bad]), training=True)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)
    assert_names(str(caught.value), "bad.json")


def test_what_is_odd_and_used_is_counted(tmp_path):
    questions = [
        question("right", answers=(("sleep.", 12),)),  # it ends with the context
        question("moved", answers=(("ideas", 5),)),
        question("gone", answers=(("idea!", 6),)),
        {**question("silent"), "question": " "},
        question("none", answers=(), is_impossible=True),
    ]
    path = write(tmp_path / "train.json", questions)
    examples = squad_questions.read_examples(path, training=True)
    counts = squad_questions.oddities(examples)
    assert counts.pop("first") == "moved"
    assert +counts == {"silent": 1, "astray": 2, "elsewhere": 1}
    assert not +squad_questions.oddities(examples[:1])
    counts = squad_questions.oddities(squad_questions.read_examples(path, training=False))
    assert counts.pop("first_unreachable") == "gone" and +counts == {"silent": 1, "unreachable": 1}


def test_strange_characters_have_features(tokenizer):
    """NUL, a question without text, a paragraph without a letter."""
    examples = [
        SquadExample("q1", "who\0?", "the \0 count shrugged"),
        SquadExample("q2", " ", "the count shrugged"),
        SquadExample("q3", "who?", "\0"),
    ]
    features = squad_features.convert_examples(examples, tokenizer, SMALL, False)
    assert {0, 1} <= set(features.example_index.tolist())


def test_shuffling_is_that_of_the_original():
    # The first ten of random.Random(12345).shuffle(list(range(40))), as Python gives them.
    examples = [SquadExample(str(i), "", "") for i in range(40)]
    order = [int(example.qas_id) for example in squad_questions.shuffled(examples)]
    assert order[:10] == [35, 29, 4, 6, 7, 14, 32, 38, 9, 15]
    assert sorted(order) == list(range(40))
    assert [example.qas_id for example in examples] == [str(i) for i in range(40)]


# === Alignment ===


@functools.cache
def reference_links(characters, joined):
    """The banded longest common subsequence, cell by cell, as the specification words it.

    Returns:
        (list of positions in `joined` or -1, score).
    """
    n, m = len(characters), len(joined)
    for attempt in (1, 2):
        width = (abs(n - m) + 5) * attempt
        table, trace = np.zeros((n, m), np.float32), {}
        for i in range(n):
            for j in range(max(i - width, 0), min(i + width, m)):
                if i > 0:
                    trace[i, j], table[i, j] = "up", table[i - 1, j]
                if j > 0 and table[i, j - 1] > table[i, j]:
                    trace[i, j], table[i, j] = "left", table[i, j - 1]
                previous = table[i - 1, j - 1] if i > 0 and j > 0 else 0
                if characters[i] == joined[j] and previous + 1 > table[i, j]:
                    trace[i, j], table[i, j] = "link", previous + 1
        if table[n - 1, m - 1] > 0.8 * n:
            break
    links, i, j = [-1] * n, n - 1, m - 1
    while i >= 0 and j >= 0 and (i, j) in trace:
        step = trace[i, j]
        if step == "link":
            links[i] = j
        i, j = i - (step != "left"), j - (step != "up")
    return links, int(table[n - 1, m - 1])


def assert_same_links(characters, joined):
    links, score = squad_alignment.link_characters(characters, joined)
    expected, expected_score = reference_links(tuple(characters), joined)
    assert score == expected_score, (characters, joined)
    assert links.tolist() == expected, (characters, joined)


def random_texts(random):
    """A text of few characters, so that it is full of ties, and the same with parts moved."""
    letters = list("abcd "[: random.randint(1, 6)])
    text = random.choice(letters, random.randint(1, 60)).tolist()
    other = list(text)
    for _ in range(random.randint(0, 4)):  # cut here, put in there
        at, size = random.randint(0, len(other) + 1), random.randint(0, 14)
        inserted = random.choice(letters, random.randint(0, 14)).tolist()
        other[at : at + size] = inserted if random.rand() < 0.5 else []
    if random.rand() < 0.3:  # as characters that normalise to two, or to none
        text = [random.choice(["", "ab", char], p=[0.1, 0.1, 0.8]) for char in text]
    return text, "".join(other)


@pytest.mark.parametrize("rows", [1, 7, 1024])
def test_links_of_random_texts_are_those_of_the_reference(rows, monkeypatch):
    """Moved blocks push the trace to the band's edges; some traces leave the band."""
    monkeypatch.setattr(squad_alignment, "BLOCK_ROWS", rows)
    random = np.random.RandomState(1)
    edges = 0
    for _ in range(400):
        text, other = random_texts(random)
        if other:
            assert_same_links(text, other)
            edges += squad_alignment.link_characters(text, other)[1] < len(text)
    assert edges > 100  # else the texts were too much alike to try anything


@pytest.mark.parametrize(
    "text, joined",
    [
        ("a", "b"),  # no link at all
        ("a", "a"),
        ("aaaa", " aaaa"),  # ties everywhere, and yet one way
        ("    ", "     "),  # only spaces: the short cut does not hold
        (" a  b", " a b"),
        ("abcde", "vwxyz"),
        ("abcdefghij", "abcdefgh"),  # exactly 0.8: a second attempt, and not skipped
        # 12 more characters early on and 12 less later: the lengths agree, so the band is 5 wide,
        # and the best way leads out of it on either side.
        *((12 * "x" + text, text + 12 * "x") for text in (4 * "abcdefghij", 12 * "aab")),
        *((text + 12 * "x", 12 * "x" + text) for text in (4 * "abcdefghij", 12 * "aab")),
    ],
)
def test_links_of_small_texts(text, joined):
    assert_same_links(list(text), joined)


STRANGE = (
    "½ ﬁ ﬃ é é Å ℃ ² Ⅷ № … “ ” ’ – — 東京 ﷺ ㎏ 　 \xa0 \u200b \n \n\n \t  İ ß Σ ς 2,000, 3, ( ) 😀"
)


@pytest.mark.parametrize("kind", ["spm_uncased", "spm_cased"])
def test_links_of_normalised_texts_are_those_of_the_reference(kind, tokenizers):
    """The trivial way around the table, and the table, on texts as they come."""
    random = np.random.RandomState(2)
    words = ["the", "count", "Broad", "shoulders.", "résumé", "1,000,000", "2,000,", "  ", "\n"]
    words += STRANGE.split(" ")
    lower = kind == "spm_uncased"
    processor = tokenizers[kind]
    tables = 0
    for length in range(2, 40):
        chosen = [words[i] for i in random.randint(0, len(words), length)]
        text = " ".join(chosen[: length // 2]) + "".join(chosen[length // 2 :]) * 2
        joined = "".join(processor.tokenize(preprocess_text(text, lower=lower)))
        characters = squad_alignment.normalized_characters(text, CleanUp(lower))
        if joined:
            assert_same_links(characters, joined.replace("▁", " "))
            tables += characters != list(joined[1:])
    assert tables > 20


def test_most_paragraphs_need_no_table(monkeypatch, tokenizer):
    monkeypatch.setattr(squad_alignment, "_ScoreTable", None)
    text = "aaa and bbb, and so on. The end"
    links, score = squad_alignment.link_characters(list(text), " " + text)
    assert links.tolist() == list(range(1, len(text) + 1))
    assert score == len(text)
    # Nor does a text with little in common.
    assert squad_alignment.align("½" * 500 + "the count shrugged", tokenizer) is None
    aligned = squad_alignment.align("the count" + " " * 500 + "shrugged", tokenizer)
    assert aligned.paragraph.ends[-1] == 516 and aligned.paragraph.starts[0] == 0


def peak_memory(function):
    """Bytes that are allocated at most while a function runs; and what it returns."""
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def test_memory_for_links_grows_with_the_text():
    """One row for each character, all in full width, took n * m / 4 bytes: 50 MB here."""
    random = np.random.RandomState(4)
    text = "".join(random.choice(list("abcdefgh "), 14_000))
    doubled = text.replace(" a", "  a")
    peak, (links, score) = peak_memory(
        lambda: squad_alignment.link_characters(list(doubled), " " + text)
    )
    assert score == len(text) and (links != squad_alignment.UNLINKED).sum() == score
    assert peak < 8e6


@pytest.mark.parametrize("keeps", [False, True])
def test_letters_with_marks_are_aligned(keeps, tokenizer):
    """The original gives up where more than a fifth of the characters are marks."""
    tokenizer = FullTokenizer(spm_model_file=tokenizer.path, strip_accents=not keeps)
    text = unicodedata.normalize("NFD", "ế ệ ở ữ ế")
    found = squad_alignment.align(text, tokenizer)
    answer = text[found.paragraph.starts[0] : found.paragraph.ends[-1] + 1].strip()
    assert unicodedata.normalize("NFC", answer) == ("ế ệ ở ữ ế" if keeps else "ế ệ ở ữ e")


def test_position_conversion_is_that_of_the_original():
    for index, position, limit, is_start, expected in golden_json("squad_unit_convert_index"):
        links = np.array([-1 if link is None else link for link in index])
        if expected == "AssertionError":
            assert (links == -1).all()
        else:
            found = squad_alignment.convert_positions(links, position, is_start, limit)
            assert found == expected, (index, position, limit, is_start)
    # All at once.
    links = np.array([-1, 2, -1, -1, 7, -1])
    for is_start, expected in ((True, [0, 2, 3, 3, 7, 8]), (False, [1, 2, 6, 6, 7, 8])):
        found = squad_alignment.convert_positions(links, np.arange(6), is_start, 9)
        assert found.tolist() == expected


def test_alignment_fails_under_four_fifths(tokenizer):
    assert squad_alignment.align("½" * 20, tokenizer) is None
    assert squad_alignment.align("\u0301", tokenizer) is None  # no piece is left
    assert squad_alignment.align("th ½", tokenizer) is None  # 3 of 4
    aligned = squad_alignment.align("the ½", tokenizer)  # 4 of 5
    assert aligned.links.tolist() == [1, 2, 3, 4, squad_alignment.UNLINKED]


# What holds for the places of pieces in any text: Hypothesis makes the texts.

TOKENIZER = FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=12)
ODD = st.sampled_from(["", " ", "  ", "é", "ﬁ", "日本", "🙂", "\u200b", "``", "1,990", "İ", "\x07"])


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.one_of(WORDS, ODD, st.text(max_size=5)), max_size=12).map(" ".join))
def test_places_lie_in_the_text_and_in_order(text):
    found = squad_alignment.align(text, TOKENIZER)
    if found is None:
        return
    starts, ends = found.paragraph.starts, found.paragraph.ends
    assert len(starts) == len(ends) == len(found.paragraph.piece_ids)
    assert np.all((starts >= 0) & (starts < len(text)) & (ends >= 0) & (ends < len(text)))
    assert np.all(np.diff(starts) >= 0) and np.all(np.diff(ends) >= 0)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join))
def test_plain_words_stand_where_their_pieces_say(text):
    found = squad_alignment.align(text, TOKENIZER).paragraph
    pieces = TOKENIZER.tokenize(text)
    for piece, start, end in zip(pieces, found.starts, found.ends, strict=True):
        if piece != WORD_START:  # which stands for no character at the beginning of a text
            assert text[start : end + 1].strip() == piece.replace(WORD_START, "")


# === Features ===


@pytest.fixture(scope="module", params=FEATURE_FILES)
def converted(request, tokenizers):
    """Features of one golden file: (its content, examples, Features, tokenizer)."""
    _, version, split, _, case, *_ = request.param.split("_")
    golden = golden_json(request.param)
    settings = WindowSettings(
        *(golden[name] for name in ("max_seq_length", "doc_stride", "max_query_length"))
    )
    processor = tokenizers[f"spm_{case}"]
    assert processor.do_lower_case == golden["do_lower_case"]
    examples = squad_questions.read_examples(data_file(version, split), golden["is_training"])
    features = squad_features.convert_examples(examples, processor, settings, golden["is_training"])
    return golden, examples, features, processor


def test_all_golden_feature_files_are_here():
    assert len(FEATURE_FILES) == 8


def test_features_are_the_originals(converted):
    golden, examples, features, processor = converted
    found = json.loads(json.dumps(list(original_features(features, processor))))
    assert len(features) == len(golden["features"])
    for one, expected in zip(found, golden["features"], strict=True):
        assert one == expected
    assert len(features.skipped(examples)) == golden["mismatch_dropped"]


def data_set(tokenizer, folder, version, windows=SMALL, **given):
    """SquadData of the golden files, its features in `folder`; `given` are options."""
    given = options.Squad(
        doc_stride=windows.doc_stride, max_query_length=windows.max_query_length, **given
    )
    text = base.TextInput(tokenizer, windows.max_seq_length, SIZES)
    kind = {"v1.1": squad.SquadTask, "v2.0": squad.SquadV2Task}[version]
    return squad.data_set(kind(text, given, str(folder)), str(folder))


def test_metrics_of_corrected_answers_are_others(tmp_path, tokenizer):
    path = tmp_path / "dev.json"
    data, found = data_set(tokenizer, tmp_path, "v2.0", predict_file=str(path)), []
    for answer in "aab":
        path.write_text(answer)
        found.append(data.evaluated_on())
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    "option, value, versions",
    [
        ("n_best_size", 3, {"v1.1", "v2.0"}),
        ("max_answer_length", 3, {"v1.1", "v2.0"}),
        ("start_n_top", 3, {"v2.0"}),
        ("end_n_top", 3, {"v2.0"}),
        ("dropout_prob", 0.3, set()),
        ("num_train_epochs", 5.0, set()),
        ("warmup_proportion", 0.3, set()),
    ],
)
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_metrics_of_other_answers_are_others(tmp_path, tokenizer, version, option, value, versions):
    path = tmp_path / "dev.json"
    path.write_text("a")
    found = [
        data_set(tokenizer, tmp_path, version, predict_file=str(path), **given).evaluated_on()
        for given in ({}, {option: value})
    ]
    assert (found[0] != found[1]) == (version in versions)


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_training_records_are_the_originals(tmp_path, capsys, version, tokenizer, monkeypatch):
    monkeypatch.setattr(squad_questions, "shuffled", list)
    name = f"squad_{version}_train_spm_uncased_L64_S24_Q12.tfrecord.gz"
    original = tmp_path / "original"
    original.write_bytes(gzip.decompress((FINETUNE / name).read_bytes()))
    made, source = str(tmp_path / "train.tf_record"), data_file(version, "train")
    data = data_set(tokenizer, tmp_path, version, train_file=source, train_feature_file=made)
    assert data.training_records.paths == [made]
    schema = schemas.squad_schema(64, training=True)
    assert record_files.find_bad_record([made], schema) is None
    assert read_all(made) == read_all(str(original))
    skipped = f"train: 2 ... {len(data.train_examples)} ... .skipped.txt"
    assert data.training_records.paths == [made]  # --num_train_epochs counts them, too
    assert sum(names(line, skipped) for line in capsys.readouterr().out.splitlines()) == 1
    assert Path(f"{made}.skipped.txt").read_text() == "q031\nq032\n"
    # Used again; the skipped questions are counted again.
    data = data_set(tokenizer, tmp_path, version, train_file=source, train_feature_file=made)
    assert data.training_records.paths == [made]
    assert_says(capsys.readouterr().out, skipped)


def test_training_records_of_other_settings_have_names_of_their_own(tmp_path, tokenizer):
    for windows in (SMALL, dataclasses.replace(SMALL, doc_stride=30)):
        data = data_set(tokenizer, tmp_path, "v2.0", windows, train_file=data_file("v2.0", "train"))
        assert data.training_records
    assert len(list(tmp_path.glob("squad_train-????????.tf_record"))) == 2


def read_all(path):
    """Records as dicts from feature name to list."""
    records = (example.features.feature.items() for example in examples_in(path))
    return [{name: list(value.int64_list.value) for name, value in record} for record in records]


def test_prediction_records(tmp_path, capsys, tokenizer):
    source = data_file("v2.0", "dev")
    counts = []
    for windows in (SMALL, dataclasses.replace(SMALL, doc_stride=30)):
        data = data_set(tokenizer, tmp_path, "v2.0", windows, predict_file=source)
        (split,) = data.prediction_splits().values()
        assert_says(capsys.readouterr().out, "dev: 2 ... 52")
        records = read_all(str(tmp_path / "squad_predict.tf_record"))
        for row, record in enumerate(records):
            assert record["unique_ids"] == [1_000_000_000 + row]
            for name in ("input_ids", "input_mask", "segment_ids", "p_mask"):
                assert record[name] == split.arrays[name][row].tolist()
        counts.append(len(records))
        assert counts[-1] == len(split.content.features)
    assert counts[0] > counts[1] > 52
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "squad_predict.tf_record", "squad_predict.tf_record.skipped.txt",
    ]  # fmt: skip


def test_a_cased_vocabulary_of_wordpiece_keeps_accents(tmp_path):
    text = "Pršelo a město bylo šťastné."
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *text[:-1].split(), "."]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    tokenizer = FullTokenizer(vocab_file=str(tmp_path / "vocab.txt"), do_lower_case=False)
    paragraph = squad_alignment.align(text, tokenizer).paragraph
    spans = zip(paragraph.starts, paragraph.ends, strict=True)
    assert [text[start : end + 1].strip() for start, end in spans] == pieces[5:]


def test_a_list_of_skipped_questions_goes_when_none_is_skipped(tmp_path, tokenizer):
    listing = tmp_path / "train.skipped.txt"
    listing.write_text("q031\n")
    examples = [SquadExample("q1", "who?", "the count")]
    features = squad_features.convert_examples(examples, tokenizer, SMALL, False)
    assert squad_features.list_skipped(features, examples, str(tmp_path / "train")) == 0
    assert not listing.exists()


def test_an_answer_no_piece_holds_is_skipped(tokenizer):
    # The accent leaves nothing behind: a start there would be in the next word, an end in this one.
    text = "the count\u0301 shrugged his shoulders"
    lost = SquadExample("lost", "who?", text, orig_answer_text="\u0301", start_position=9)
    kept = SquadExample("kept", "who?", text, orig_answer_text="count\u0301", start_position=4)
    features = squad_features.convert_examples([lost, kept], tokenizer, SMALL, True)
    assert features.skipped([lost, kept]) == ["lost"]
    assert features.example_index.tolist() == [1]
    (dict_,) = original_features(features, tokenizer)
    assert dict_["tokens"][dict_["start_position"]] == "▁count"
    assert dict_["start_position"] == dict_["end_position"]
    # Without its label there is nothing to lose.
    assert len(squad_features.convert_examples([lost], tokenizer, SMALL, False)) == 1


def naive_windows(pieces, width, stride):
    spans, start = [], 0
    while True:
        length = min(pieces - start, width)
        spans.append((start, length))
        if start + length == pieces:
            return spans
        start += min(length, stride)


def test_windows_cover_the_paragraph():
    random = np.random.RandomState(3)
    counts, widths = random.randint(1, 90, 200), random.randint(1, 30, 200)
    counts[::10] = 0  # skipped questions
    for stride in (1, 7, 25, 1000):
        example, start, length = squad_features._windows(counts, widths, stride)
        expected = [
            (e, *span)
            for e, (count, width) in enumerate(zip(counts, widths, strict=True))
            for span in (naive_windows(count, width, stride) if count else ())
        ]
        assert list(zip(example, start, length, strict=True)) == expected


def test_context_counts_for_the_longer_window():
    windows = squad_features._windows(np.array([5, 420]), np.array([300, 300]), 250)
    features = squad_features.Features(SMALL, None, [[1], [2]], [], np.array([0, 1]), *windows, {})
    assert features.span_length.tolist() == [5, 300, 170]
    # Piece 275 has 24 pieces behind it in the window before and 25 ahead of it in the next one:
    # 24 + 3.0 and 25 + 1.7.
    best = features.max_context
    assert best.sum(axis=1).tolist() == [5, 276, 420 - 276]
    assert best[0, :5].all() and best[1, :276].all() and best[2, 276 - 250 : 170].all()


def test_the_best_window_of_a_piece_in_a_long_paragraph():
    """Compared with all windows at once; those who did so took 8 * windows * pieces bytes."""
    counts, widths = np.array([12_000, 0, 3, 700]), np.array([60, 50, 50, 41])
    example, start, length = squad_features._windows(counts, widths, 17)
    features = squad_features.Features(
        SMALL, None, [[1]] * 4, [], np.arange(4), example, start, length, {}
    )
    peak, best = peak_memory(lambda: features.max_context)
    assert best.shape == (len(features), 60) and peak < 2e6
    context = np.minimum(np.arange(60), length[:, np.newaxis] - 1 - np.arange(60))
    score = np.where(context >= 0, context + 0.01 * length[:, np.newaxis], -np.inf)
    for e, count in enumerate(counts):
        windows = np.flatnonzero(example == e)
        for piece in range(0, count, 7):
            holders = [w for w in windows if 0 <= piece - start[w] < length[w]]
            scores = [score[w, piece - start[w]] for w in holders]
            found = [w for w in holders if best[w, piece - start[w]]]
            assert found == [holders[int(np.argmax(scores))]]


def test_questions_without_answer_and_out_of_window_teach_cls(tokenizer):
    examples = squad_questions.read_examples(data_file("v2.0", "train"), True)
    features = squad_features.convert_examples(examples, tokenizer, SMALL, True)
    impossible = [examples[e].is_impossible for e in features.example_index]
    labels = features.labels
    outside = labels["is_impossible"] == 1
    assert outside[impossible].all() and not outside.all()
    assert (outside & ~np.array(impossible)).any()
    for name in ("start_positions", "end_positions"):
        assert (labels[name][outside] == 0).all()
    assert (labels["start_positions"][~outside] >= features.window_offset[~outside]).all()


# === Settings ===


def test_a_question_that_fills_the_sequence_is_an_error(tokenizer):
    examples = [SquadExample("q7", "who are you and who is he?", "the count")]
    pieces = len(tokenizer.encode_ids(preprocess_text(examples[0].question_text, lower=True)))
    fits = WindowSettings(pieces + 4, 1, 64)
    assert len(squad_features.convert_examples(examples, tokenizer, fits, False)) > 1
    with refuses(f"q7 ... {pieces}"):
        tight = dataclasses.replace(fits, max_seq_length=pieces + 3)
        squad_features.convert_examples(examples, tokenizer, tight, False)
