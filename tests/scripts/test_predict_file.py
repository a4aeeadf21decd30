# SPDX-License-Identifier: Apache-2.0
"""run_classifier.py --predict_file: any file, with nothing but the directory of a training."""

import functools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import run_classifier
from albert_tf.checkpoints import run_directory
from albert_tf.errors import UserError
from albert_tf.tasks import predicted_file
from tests import GOLDEN, TINY_CONFIG

pytestmark = pytest.mark.usefixtures("eagerly")

TRAIN = {
    "spm_model_file": GOLDEN / "tokenization" / "spm_uncased.model",
    "do_train": True,
    "max_seq_length": 16,
    "train_step": 1,
    "train_batch_size": 2,
    "allow_random_init": True,
    "seed": 1,
}
FILMS = "summary\treview\tliked\nA\tgood film\tyes\nB\tbad film\tno\nC\tfine\tyes\nD\tawful\tno\n"
SCORES = "good film\t2.5\nbad film\t0.5\nfine\t1.5\nawful\t0\n"
WORDS = "John B-PER\nwalked O\n\nLondon B-LOC\n"
TASKS = {
    "tsv": (FILMS, {"text_column": "review", "label_column": "liked"}),
    "pairs": (
        FILMS,
        {"text_column": "review", "text_pair_column": "summary", "label_column": "liked"},
    ),
    "scores": (SCORES, {"label_column": 1, "regression": True}),
    "ner": (WORDS, {}),
    "cola": (None, {}),
}


@pytest.fixture(scope="module")
def train_once(eagerly, tmp_path_factory, run_once):
    """Trains once: train_once(a key of TASKS) -> its output directory, its data gone."""

    @functools.cache
    def train(name):
        data = tmp_path_factory.mktemp(name)
        content, columns = TASKS[name]
        task = name if name in ("ner", "cola") else "tsv"
        if content is None:
            shutil.copytree(GOLDEN / "finetune" / "glue_data" / "CoLA", data / "CoLA")
        else:
            (data / f"train.{'conll' if task == 'ner' else 'tsv'}").write_text(content)
        flags = TRAIN | columns | {"data_dir": data, "task_name": task}
        folder = run_once(run_classifier, TINY_CONFIG, **flags)
        shutil.rmtree(data)
        (folder / "config.json").unlink()
        return folder / "out"

    return train


@pytest.fixture
def predict(train_once, run_main, tmp_path):
    """Predicts a text: predict(a key of TASKS, text, **flags) -> rows of the table, JSON lines."""

    def run(name, content, **flags):
        out, path = tmp_path / "out", tmp_path / "any.txt"
        if not out.exists():
            shutil.copytree(train_once(name), out)
        path.write_text(content, encoding="utf-8")
        run_main(run_classifier, do_predict=True, predict_file=path, output_dir=out, **flags)
        return read(out)

    return run


def read(out):
    rows = [line.split("\t") for line in (out / predicted_file.TABLE).read_text().splitlines()]
    lines = (out / predicted_file.JSON_LINES).read_text(encoding="utf-8").splitlines()
    return rows, [json.loads(line) for line in lines]


def test_a_file_with_a_header_and_an_id(predict, capsys):
    content = "\ufeffid\treview\nx-1\tGood é film\n\nx-2\t\n"
    rows, lines = predict("tsv", content, id_column="id")
    assert rows[0] == ["id", "line", "text", "label", "probability_no", "probability_yes"]
    assert [row[:3] for row in rows[1:]] == [["x-1", "2", "Good é film"], ["x-2", "4", ""]]
    for row, line in zip(rows[1:], lines, strict=True):
        assert [*line] == ["id", "line", "text", "label", "probabilities"]
        by_label = line["probabilities"]
        assert [*by_label] == ["no", "yes"] and sum(by_label.values()) == pytest.approx(1, abs=1e-6)
        assert line["label"] == max(by_label, key=by_label.get) == row[3]
        assert [float(value) for value in row[4:]] == [*by_label.values()]
    printed = capsys.readouterr().out
    assert "any.txt: 1 blank lines are left out" in printed
    assert re.search(r"Predicted 2 examples with \S+model.ckpt-1 \(step 1\): \S+predictions.tsv, ",
                     printed)  # fmt: skip


def test_a_table_has_a_line_for_each_example_whatever_a_cell_holds(predict):
    rows, lines = predict("tsv", 'review,x\n"two\nlines,\ta tab",1\nfine,2\n')
    assert [row[1] for row in rows] == ["text", "two lines, a tab", "fine"]
    assert len({len(row) for row in rows}) == 1
    assert [line["text"] for line in lines] == ["two\nlines,\ta tab", "fine"]


@pytest.mark.parametrize(
    ("flags", "content"),
    [
        ({"text_column": "body"}, "id\treview\tbody\tsummary\n1\tbad\tgood\tA\n"),
        ({"text_pair_column": "title"}, "id\treview\ttitle\tsummary\n1\tgood\tA\tbad\n"),
        ({"label_column": "gold"}, "id\treview\tgold\tsummary\n1\tgood\tno\tA\n"),
    ],
)
def test_columns_that_are_not_given_are_those_of_the_training(predict, flags, content):
    _, (line,) = predict("pairs", content, **flags)
    assert (line["text"], line["text_pair"]) == ("good", "A")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"text_column": 0}, "give --text_pair_column"),
        ({"text_pair_column": 1}, "give --text_column too: the training .* has review, but names"),
    ],
)
def test_names_of_the_training_are_not_mixed_with_numbers(predict, flags, message):
    with pytest.raises(UserError, match=message):
        predict("pairs", "good\tA\n", **flags)


def test_a_file_without_a_header_gets_the_same_predictions(predict):
    _, named = predict("tsv", "review\ngood film\nawful\n")
    _, numbered = predict("tsv", "x\tgood film\ny\tawful\n", text_column=1)
    assert [line["line"] for line in named] == [2, 3]
    assert [line["line"] for line in numbered] == [1, 2]
    _, csv = predict("tsv", 'id,review\n1,good film\n"two\nlines",awful\n')
    assert [line["line"] for line in csv] == [2, 3]
    for one, other in [*zip(named, numbered, strict=True), *zip(named, csv, strict=True)]:
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


@pytest.mark.long
def test_pairs(predict):
    rows, lines = predict("pairs", "summary\treview\nA\tgood film\n")
    assert rows[0][:3] == ["line", "text", "text_pair"]
    assert (lines[0]["text"], lines[0]["text_pair"]) == ("good film", "A")


@pytest.mark.long
def test_scores(predict):
    rows, lines = predict("scores", "good film\n")
    assert rows[0] == ["line", "text", "predictions"] and len(rows) == 2
    assert [*lines[0]] == ["line", "text", "predictions"]
    assert isinstance(lines[0]["predictions"], float)


@pytest.mark.long
def test_a_model_of_glue(predict):
    rows, lines = predict("cola", "good film\nawful\n", text_column=0)
    assert rows[0] == ["line", "text", "label", "probability_0", "probability_1"]
    assert len(rows) == 3 and len(lines) == 2


@pytest.mark.parametrize("ending", ["", " NN"])
def test_words(predict, ending):
    content = f"-DOCSTART- -X-\n\nJohn{ending}\nwalked{ending}\n\nLondon{ending}\n"
    rows, lines = predict("ner", content)
    assert rows[0] == ["line", "word", "label", "score"]
    assert [row[:2] for row in rows[1:]] == [["3", "John"], ["4", "walked"], ["6", "London"]]
    assert [line["line"] for line in lines] == [3, 6]
    assert [line["words"] for line in lines] == [["John", "walked"], ["London"]]
    flat = [label for line in lines for label in line["labels"]]
    assert flat == [row[2] for row in rows[1:]] and {*flat} <= {"O", "B-LOC", "B-PER"}
    scores = np.array([score for line in lines for score in line["scores"]])
    assert np.all((scores > 1 / 3) & (scores < 1))


def test_a_word_may_hold_a_no_break_space(predict):
    rows, lines = predict("ner", "New\u00a0York\nwalked\n\u3000\n")
    assert lines[0]["words"] == ["New\u00a0York", "walked", "\u3000"]
    assert [row[1] for row in rows[1:]] == lines[0]["words"]


def test_training_and_predicting_a_file_at_once(run_main, tmp_path):
    (tmp_path / "train.tsv").write_text(FILMS)
    (tmp_path / "any.txt").write_text("review\ngood film\n")
    (tmp_path / "config.json").write_text(json.dumps(TINY_CONFIG))
    paths = {"data_dir": tmp_path, "output_dir": tmp_path / "out"}
    run_main(
        run_classifier, **TRAIN | paths, **TASKS["tsv"][1], task_name="tsv", do_predict=True,
        albert_config_file=tmp_path / "config.json", predict_file=tmp_path / "any.txt",
    )  # fmt: skip
    assert read(tmp_path / "out")[1][0]["text"] == "good film"


def test_labels_of_the_record_stand_in_for_the_training_file(run_main, train_once, tmp_path):
    """In prediction of test.tsv too."""
    out = Path(shutil.copytree(train_once("tsv"), tmp_path / "out"))
    (tmp_path / "test.tsv").write_text("review\ngood film\n")
    run_main(
        run_classifier, do_predict=True, data_dir=tmp_path, output_dir=out, task_name="tsv",
        text_column="review", albert_config_file=out / "albert_config.json", max_seq_length=16,
        spm_model_file=TRAIN["spm_model_file"],
    )  # fmt: skip
    assert len((out / "test_results.tsv").read_text().split("\t")) == 2


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
def test_an_export_takes_all_from_the_record(run_main, train_once, tmp_path):
    out = train_once("pairs")
    run_main(run_classifier, output_dir=out, export_dir=tmp_path)
    (export,) = tmp_path.iterdir()
    assert (export / "assets" / "labels.txt").read_text() == "no\nyes\n"
    signature = tf.saved_model.load(str(export)).signatures["text"]
    assert {*signature.structured_input_signature[1]} == {"text", "text_pair"}


def test_a_directory_without_records(predict, train_once, tmp_path):
    """As those of earlier versions: flags say it all."""
    out = Path(shutil.copytree(train_once("tsv"), tmp_path / "out"))
    (out / run_directory.SETTINGS).unlink()
    (out / run_directory.TASK).unlink()
    flags = {
        "spm_model_file": TRAIN["spm_model_file"],
        "albert_config_file": out / "albert_config.json",
        "max_seq_length": 16,
    }
    with pytest.raises(UserError, match=r"holds no finetuned_task\.json with .* give --task_name"):
        predict("tsv", "good film\n", **flags)
    flags |= {"task_name": "tsv"}
    with pytest.raises(UserError, match=r"no train\.tsv or train\.csv .* as --labels"):
        predict("tsv", "good film\n", **flags)
    _, lines = predict("tsv", "good film\n", **flags, labels="no,yes")
    assert [*lines[0]["probabilities"]] == ["no", "yes"]


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("tsv", "text\na\n", {}, "no column 'review' in its header; there are 'text'"),
        ("tsv", "review\nx\n", {"id_column": "id"}, "no column 'id' in its header"),
        ("tsv", "a\n", {"text_column": 1}, "line 1: 1 columns, at least 2 are expected"),
        ("tsv", "", {}, "any.txt is empty"),
        ("tsv", "review\n", {}, "any.txt holds no example"),
        ("tsv", "a", {"text_pair_column": 1}, "has no second text. Leave it out"),
        ("scores", "a", {"regression": False}, "was trained for tsv (scores): leave it out"),
        ("tsv", "a", {"labels": "yes,no"}, "was trained with labels no, yes and not with yes, no: "
         "give --labels=no,yes, or give --output_dir a directory of its own"),
        ("tsv", "a", {"task_name": "cola", "text_column": 0}, "was trained for tsv"),
        ("tsv", "review\na\n", {"max_seq_length": 8}, "trained with --max_seq_length=16"),
        ("tsv", "a", {"predict_file": "."}, "--predict_file=. is a directory: give a file"),
        ("tsv", "a", {"predict_file": "x.tsv"}, "--predict_file=x.tsv: there is no such file"),
        ("tsv", "a", {"do_predict": False, "export_dir": "x"}, "predict_file does nothing"),
        ("pairs", "a\n", {"text_column": "a"}, "no column 'summary' in its header; there are 'a'"),
        ("pairs", "a\n", {"text_column": 0, "text_pair_column": ""}, "has pairs of texts: give"),
        ("cola", "a\n", {}, "needs --text_column with a model of GLUE"),
        ("cola", "a\n", {"text_column": 0, "labels": "a,b"}, "--labels: for --task_name=tsv"),
        ("ner", "John walked\nto the shop\n", {}, "line 2: 3 columns, but line 1 has 2: each"),
        ("ner", "John\n", {"id_column": 0}, "--id_column is a column of --predict_file, of texts"),
        ("ner", "John\n", {"text_column": 1}, "--text_column: for --task_name=tsv only"),
    ],
)  # fmt: skip
def test_mistakes(train_once, run_main, tmp_path, name, content, flags, message):
    out = shutil.copytree(train_once(name), tmp_path / "out")
    (tmp_path / "any.txt").write_text(content)
    values = {"do_predict": True, "predict_file": tmp_path / "any.txt", "output_dir": out}
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        run_main(run_classifier, **values | flags)
    assert "\n" not in str(caught.value)
    assert not (out / predicted_file.TABLE).exists()


def test_data_is_asked_for_where_it_is_needed(launched, tmp_path):
    for flags in ({"do_train": True}, {"do_predict": True}, {"do_eval": True}, {}):
        done = launched(run_classifier, **flags, output_dir=tmp_path)
        assert done.returncode == 1
        assert "--data_dir, --task_name must be given" in done.stderr
