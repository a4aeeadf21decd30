# SPDX-License-Identifier: Apache-2.0
"""Predictions of fine-tuned models: the same from the scripts, Python, predict.py and exports."""

import dataclasses
import json
import sys

import numpy as np
import pytest

import albert_tf
import run_classifier
import run_race
import run_squad
from albert_tf.cli import predict
from albert_tf.tasks.squad import questions as squad_questions
from tests import tiny
from tests.errors import refuses

pytestmark = pytest.mark.usefixtures("eagerly")

DATA, SQUAD = tiny.GLUE_DATA, tiny.SQUAD_DATA
CLOSE = 1e-4  # between batches and graphs of other shapes, absolute
FLAGS = tiny.COMMON | {"max_seq_length": 48, "train_batch_size": 2}
STEPS = {"train_step": 1, "warmup_step": 0}
SQUAD_FLAGS = tiny.WINDOWS | {"max_answer_length": 7, "n_best_size": 4, "predict_batch_size": 64}
SQUAD_FLAGS |= {"num_train_epochs": 1, "save_checkpoints_steps": 100}
SQUAD_FLAGS["train_batch_size"] = 26  # one update of 39 questions, two of 52
TAGGED = "Holmes\tB-PER\nsaid\tO\nWatson,\tB-PER\nunbelievably\tO\n\nThe\tO\ndoctor\tO\n"


def by_label(labels, numbers):
    return dict(zip(labels, map(float, numbers), strict=True))


# --- What is asked of each kind of task, and what its script wrote -------------------------------


def pair_case(directory):
    rows = tiny.table(DATA / "RTE" / "test.tsv")[1:]
    labels = tiny.table(directory / "submit_results.tsv")[1:]
    numbers = tiny.table(directory / "test_results.tsv")
    return [{"text": row[1], "text_pair": row[2]} for row in rows], [
        {"label": label, "probabilities": by_label(RTE, row)}
        for (_, label), row in zip(labels, numbers, strict=True)
    ]


def ner_case(directory):
    blocks = (directory / "test_results.conll").read_text().strip().split("\n\n")
    sentences = [[line.split("\t") for line in block.splitlines()] for block in blocks]
    pairs = [tuple(map(list, zip(*sentence, strict=True))) for sentence in sentences]
    inputs = [{"text": " ".join(words)} for words, _ in pairs]
    return inputs, [{"words": words, "labels": labels} for words, labels in pairs]


def race_case(directory):
    inputs = []
    for level in ("middle", "high"):
        for line in (DATA / "RACE" / "test" / level / "all.txt").read_text().splitlines():
            passage = json.loads(line)
            inputs += [
                {"article": passage["article"], "question": question, "options": options}
                for question, options in zip(passage["questions"], passage["options"], strict=True)
            ]
    return inputs, [
        {"label": row[2], "probabilities": by_label("ABCD", row[4:])}
        for row in tiny.table(directory / "predictions.tsv")[1:]
    ]


def squad_case(version):
    def case(directory):
        answers = json.loads((directory / "predictions.json").read_text())
        nbest = json.loads((directory / "nbest_predictions.json").read_text())
        (listing,) = directory.glob("squad_predict.tf_record.skipped.txt")
        assert listing.read_text().split()  # contexts that cannot be aligned
        stand_in, odds = ("empty", 0.0), {}
        if version == "v2.0":
            stand_in = ("", -1e6)
            odds = json.loads((directory / "null_odds.json").read_text())
        inputs, expected = [], []
        for example in squad_questions.read_examples(str(SQUAD / f"dev_{version}.json"), False):
            id_, best = example.qas_id, nbest[example.qas_id][0]
            inputs.append({"question": example.question_text, "context": example.paragraph_text})
            found = {"answer": answers[id_], "probability": best["probability"]}
            if (best["text"], best["start_log_prob"]) == stand_in:  # of the original
                found = {"answer": "", "probability": 0.0}
            expected.append(found | ({"no_answer_score": odds[id_]} if odds else {}))
        return inputs, expected

    return case


RTE = ("entailment", "not_entailment")
KINDS = {
    "pair": (run_classifier, {"task_name": "RTE"}, pair_case),
    "ner": (run_classifier, {"task_name": "ner"}, ner_case),
    "race": (run_race, {"max_qa_length": 20, "do_eval": False}, race_case),
    "v1.1": (run_squad, SQUAD_FLAGS, squad_case("v1.1")),
    "v2.0": (run_squad, SQUAD_FLAGS, squad_case("v2.0")),
}


@pytest.fixture(scope="module")
def trained(eagerly, tmp_path_factory, run_once):
    """Trains one update and predicts, once for each kind: trained(kind) -> directory."""
    tagged = tmp_path_factory.mktemp("tagged")
    for split in ("train", "dev", "test"):
        (tagged / f"{split}.conll").write_text(TAGGED)

    def train(kind):
        script, flags, _ = KINDS[kind]
        data = {"data_dir": tagged if kind == "ner" else DATA, **STEPS}
        if script is run_squad:
            data = tiny.SQUAD_FILES[kind.removeprefix("v")]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [script.__name__])  # whose flags are recorded
            return run_once(script, tiny.WIDE, **FLAGS | data | flags) / "out"

    return train


@pytest.fixture(scope="module")
def exported(trained, run_main):
    """Exports the same, for tests marked `long`: tracing takes seconds. exported(kind) -> path."""

    def export(kind):
        directory = trained(kind)
        path = directory.parent / "export"
        if not path.exists():
            run_main(KINDS[kind][0], do_train=False, output_dir=directory, export_dir=path)
        return path

    return export


@pytest.fixture
def lines_of(run_main, tmp_path):
    """Runs predict.py: lines_of(inputs, **flags) -> the predictions, list of dicts."""

    def run(inputs, **flags):
        source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_text("".join(f"{json.dumps(row)}\n" for row in inputs))
        run_main(predict, input_file=source, output_file=target, **flags)
        return [json.loads(line) for line in target.read_text().splitlines()]

    return run


def assert_same(found, expected):
    """Whether predictions agree in what both say."""
    assert len(found) == len(expected) > 1
    for one, other in zip(found, expected, strict=True):
        shared = {*one} & {*other}
        assert {"label", "labels", "answer", "predictions"} & shared
        for name in shared:
            is_number = name == "scores" or isinstance(other[name], dict | float)
            wanted = pytest.approx(other[name], abs=CLOSE) if is_number else other[name]
            assert one[name] == wanted, (name, one, other)


@pytest.mark.parametrize(
    "kind", ["pair", *(pytest.param(k, marks=pytest.mark.long) for k in ("ner", "race", "v2.0"))]
)
def test_every_way_to_a_prediction_gives_the_same(kind, trained, lines_of, capsys, tmp_path):
    directory = trained(kind)
    inputs, written = KINDS[kind][2](directory)
    loaded = albert_tf.load(str(directory), batch_size=3)
    assert "fine-tuned for" in capsys.readouterr().out
    columns = [[row[name] for row in inputs] for name in loaded.inputs]
    found = loaded.predict(*columns)
    assert_same(found, written)
    one = loaded.predict(*(column[-1] for column in columns))
    assert_same([one] * 2, [found[-1]] * 2)
    assert loaded.predict(*([] for _ in columns)) == []
    of_model = lines_of(inputs, model=directory)
    assert_same(of_model, found)
    assert [{*line} for line in of_model] == [{*row} for row in found]
    loaded.save(tmp_path / "saved")
    (tmp_path / "saved").rename(tmp_path / "moved")
    again = albert_tf.load(tmp_path / "moved")
    assert (again.task, again.labels, again.max_seq_length) == (loaded.task, loaded.labels, 48)
    assert_same(again.predict(*columns), found)
    with refuses(f"{tmp_path}/moved"):
        loaded.save(tmp_path / "moved")


@pytest.mark.long
@pytest.mark.usefixtures("optimized")
def test_an_export_gives_the_predictions_of_the_script(trained, exported, lines_of):
    """Of words; tests/publish/test_serving.py has the other tasks."""
    inputs, written = ner_case(trained("ner"))
    assert_same(lines_of(inputs, saved_model=exported("ner")), written)


# --- Arguments -----------------------------------------------------------------------------------


def test_tables_of_pandas(trained):
    pandas = pytest.importorskip("pandas")
    loaded = albert_tf.load(str(trained("pair")))
    table = pandas.DataFrame({"id": [7, 8], "text": ["one", "two"], "text_pair": ["three"] * 2})
    expected = loaded.predict(["one", "two"], "three")
    assert_same(loaded.predict(table), expected)
    assert_same(loaded.predict(table["text"], table["text_pair"]), expected)
    assert loaded.embed(table["text"]).shape == (2, 32)
    assert_same(loaded.predict(table.rename(columns=str.upper)), expected)
    with refuses("text_pair ... id, text"):
        loaded.predict(table[["id", "text"]])
    # The columns of the training come first, also those that it read by number.
    both = table.rename(columns={"text": "A Title"}).assign(text="other")
    loaded._record.data["header"] = ["id", "label", "a title"]
    for column in ("a title", "2"):
        flags = {"text_column": column, "text_pair_column": "text_pair"}
        loaded._record.flags.update(flags)
        assert_same(loaded.predict(both), expected)
    with refuses("a title, text_pair ... id, text"):
        loaded.predict(table[["id", "text"]])
    with refuses("texts ... float nan"):
        loaded.predict(pandas.Series(["a", float("nan")]), "b")
    loaded, words = albert_tf.load(str(trained("ner"))), [["Holmes"], ["said", "Watson,"]]
    assert_same(loaded.predict(pandas.DataFrame({"Tokens": words})), loaded.predict(words))


def test_a_model_that_was_trained_with_fit_is_saved(trained, lines_of, tmp_path):
    loaded = albert_tf.load(str(trained("pair")))
    model = albert_tf.ClassificationModel(loaded.config, 3)
    for labels in (None, ["a", "b"]):
        with refuses("3 outputs ... labels"):
            loaded.save(tmp_path / "saved", model, labels)
    for labels in ("abc", ["a", "b", "b"], ["a"]):
        with refuses(f"labels ... {labels!r}"):
            loaded.save(tmp_path / "saved", model, labels)
    labels = ["good", "bad", "ugly"]
    loaded.save(tmp_path / "saved", model, labels)
    again = albert_tf.load(tmp_path / "saved")
    features = loaded.tokenizer(["a film", "two films"], return_tensors="tf")
    logits = model(features)["logits"].numpy()
    found = again.predict(["a film", "two films"])
    assert (again.labels, again.task) == (tuple(labels), "tsv")
    assert [row["label"] for row in found] == [labels[i] for i in logits.argmax(axis=1)]
    of_script = lines_of([{"text": "a film"}, {"text": "two films"}], model=tmp_path / "saved")
    assert_same(of_script, found)


def test_a_model_is_saved_with_the_kind_of_its_task(trained, tmp_path):
    loaded = albert_tf.load(str(trained("pair")))
    loaded.save(tmp_path / "same", loaded.model, [*RTE])
    assert albert_tf.load(tmp_path / "same").task == loaded.task
    model = albert_tf.ClassificationModel(loaded.config, 2)
    with refuses("task ... 'RTE'"):
        loaded.save(tmp_path / "saved", model, ["a", "b"], task="RTE")
    loaded.save(tmp_path / "saved", model, ["a", "b"], task="multi_label")
    again = albert_tf.load(tmp_path / "saved")
    again.save(tmp_path / "again", again.model, ["c", "d"])
    again = albert_tf.load(tmp_path / "again")
    assert (again.task, again.labels) == ("multi_label", ("c", "d"))


def test_a_model_with_fewer_positions_is_saved_with_its_length(trained, tmp_path):
    loaded = albert_tf.load(str(trained("pair")))
    config = dataclasses.replace(loaded.config, max_position_embeddings=16)
    loaded.save(tmp_path / "saved", albert_tf.ClassificationModel(config, 2), ["a", "b"])
    assert albert_tf.load(tmp_path / "saved").max_seq_length == 16 < loaded.max_seq_length


def test_a_model_with_windows_that_was_trained_with_fit_is_saved_with_them(trained, tmp_path):
    loaded = albert_tf.load(str(trained("pair")))
    model = albert_tf.ClassificationModel(loaded.config, 2, windows=3)
    loaded.save(tmp_path / "saved", model, ["a", "b"])
    assert albert_tf.load(tmp_path / "saved").model.windows == 3


def test_classes_and_labels(trained):
    loaded = albert_tf.load(str(trained("pair")))
    assert loaded.labels == RTE
    texts = ["one", "two"]
    both = loaded.predict(texts, "three")
    assert_same(both, [loaded.predict(text, "three") for text in texts])
    turned = loaded.predict("three", texts)
    assert_same(turned, [loaded.predict("three", text) for text in texts])
    values = np.array([list(row["probabilities"].values()) for row in both])
    assert np.ptp(values[:, 0]) > 1e-3  # of different texts


def test_sentences_without_words(trained):
    loaded = albert_tf.load(str(trained("ner")))
    found = loaded.predict(["", "Holmes"])
    nothing = {"words": [], "labels": [], "scores": []}
    assert found[0] == nothing == loaded.predict(" ") and found[1]["words"] == ["Holmes"]
    assert 1 / 2 <= found[1]["scores"][0] <= 1


@pytest.mark.parametrize(
    "kind, inputs, named, message",
    [
        ("pair", (["a", "b"], ["c"]), {}, "2 ... 1"),
        ("pair", (["a", "b"],), {}, "texts, pairs"),
        ("pair", ("a", "b", "c"), {}, "3"),
        ("pair", ("a",), {"question": "b"}, "texts, pairs ... question"),
        ("pair", ("a", 5), {}, "5"),
        ("pair", (None, "a"), {}, "texts ... None"),
        ("ner", ("a", "b"), {}, "2"),
        *(
            pytest.param("race", inputs, {}, message, marks=pytest.mark.long)
            for inputs, message in (
                (("Passage", "Question?", ["a"]), "2 to 4"),
                (("Passage", ["Question?"], "abcd"), "options"),
                (("Passage", ["One?", "Two?"], [list("abcd")]), "2 ... 1"),
                (("Passage", "Question?"), "article, question, options"),
            )
        ),
    ],
)
def test_wrong_arguments(trained, kind, inputs, named, message):
    with refuses(message):
        albert_tf.load(str(trained(kind))).predict(*inputs, **named)


def test_wrong_examples(trained):
    loaded = albert_tf.load(str(trained("pair")))
    for example, message in (
        ({"text": "a", "id": 1}, "text_pair"),
        ({"text": "a", "text_pair": 5}, "text_pair ... 5"),
        ("a", "text, text_pair ... 'a'"),
    ):
        with refuses(message):
            loaded.answers([example])


TABLE = "\n".join(f"{name:<20}{value:>8}" for name, value in [("Ada", 1), ("Bob", 22), ("Eve", 3)])
LIGATURES = "ﬁ ﬂ ½ ﬀ ㎏"
PLAIN = "Ada lives in the old house near the river."


@pytest.mark.long
@pytest.mark.parametrize("kind", ["v1.1", "v2.0"])
def test_a_context_that_cannot_be_aligned_has_no_answer(kind, trained, exported, lines_of):
    loaded = albert_tf.load(trained(kind))
    contexts = (TABLE, PLAIN, LIGATURES, " ")
    inputs = [{"question": "Who?", "context": context} for context in contexts]
    together, alone = loaded.answers(inputs), [loaded.answers([row])[0] for row in inputs]
    of_export = lines_of(inputs[:3], saved_model=exported(kind))  # it refuses the last one
    assert_same(together, alone)
    assert_same(of_export, together[:3])
    assert together[3]["answer"] == together[2]["answer"] == ""
    assert together[2]["probability"] == 0.0 and together[2].get("no_answer_score", 1e6) == 1e6
    assert of_export[2]["start"] == of_export[2]["end"] == 0
    assert loaded.predict("Who?", [PLAIN, LIGATURES])[1]["answer"] == ""
    with refuses("question, context"):
        loaded.predict("Who?")
