# SPDX-License-Identifier: Apache-2.0
"""run_classifier.py with the directory of a training whose training data is gone."""

import functools
import re
import shutil
from pathlib import Path

import pytest

import run_classifier
from albert_tf.checkpoints import run_directory
from tests import tiny
from tests.errors import refuses

pytestmark = pytest.mark.usefixtures("eagerly")

TRAIN = tiny.TRAIN | {"max_seq_length": 16, "train_step": 1, "train_batch_size": 2}
FILMS = "summary\treview\tliked\nA\tgood film\tyes\nB\tbad film\tno\nC\tfine\tyes\nD\tawful\tno\n"
SCORES = "good film\t2.5\nbad film\t0.5\nfine\t1.5\nawful\t0\n"
WORDS = "John B-PER\nwalked O\n\nLondon B-LOC\n"
COLUMNS = {"text_column": "review", "label_column": "liked"}
TASKS = {
    "tsv": (FILMS, COLUMNS),
    "pairs": (FILMS, COLUMNS | {"text_pair_column": "summary"}),
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
            shutil.copytree(tiny.GLUE_DATA / "CoLA", data / "CoLA")
        else:
            (data / f"train.{'conll' if task == 'ner' else 'tsv'}").write_text(content)
        flags = TRAIN | columns | {"data_dir": data, "task_name": task}
        folder = run_once(run_classifier, tiny.CONFIG, **flags)
        shutil.rmtree(data)
        (folder / "config.json").unlink()
        return folder / "out"

    return train


@pytest.fixture
def predict(train_once, run_main, tmp_path):
    """Predicts a test file: predict(a key of TASKS, text, **flags) -> rows of probabilities."""

    def run(name, content, **flags):
        out = tmp_path / "out"
        if not out.exists():
            shutil.copytree(train_once(name), out)
        (tmp_path / f"test.{'conll' if name == 'ner' else 'tsv'}").write_text(content)
        given = {"do_predict": True, "data_dir": tmp_path, "output_dir": out}
        run_main(run_classifier, **given | flags)
        return tiny.table(out / "test_results.tsv")

    return run


@pytest.mark.parametrize(
    ("flags", "header"),
    [
        ({"text_column": "body"}, "review\tbody\tsummary"),
        ({"text_pair_column": "title"}, "title\treview\tsummary"),
        ({"label_column": "gold"}, "gold\treview\tsummary"),
    ],
)
def test_columns_that_are_not_given_are_those_of_the_training(predict, flags, header):
    content = {"body": "bad\tgood\tA", "title": "A\tgood\tbad", "gold": "no\tgood\tA"}
    (row,) = predict("pairs", "review\tsummary\ngood\tA\n")
    name = next(iter(flags.values()))
    assert predict("pairs", f"{header}\n{content[name]}\n", **flags) == [row]


def test_the_table_of_classes_is_that_of_the_evaluated_file(train_once, run_main, tmp_path, capsys):
    out = Path(shutil.copytree(train_once("tsv"), tmp_path / "out"))
    lines = FILMS.splitlines(keepends=True)
    for count in (4, 2, 4):  # of two rows, after the best checkpoint was chosen with four
        (tmp_path / "dev.tsv").write_text("".join(lines[: 1 + count]))
        run_main(run_classifier, do_eval=True, data_dir=tmp_path, output_dir=out)
        said = capsys.readouterr().out
        assert re.findall(r"accuracy +\S+ +(\d+)", said) == [str(count)]


def test_a_directory_without_records(predict, train_once, tmp_path):
    """As those of earlier versions: flags say it all."""
    out = Path(shutil.copytree(train_once("tsv"), tmp_path / "out"))
    (out / run_directory.SETTINGS).unlink()
    (out / run_directory.TASK).unlink()
    flags = {name: TRAIN[name] for name in ("spm_model_file", "max_seq_length")}
    flags["albert_config_file"] = out / "albert_config.json"
    with refuses("--task_name"):
        predict("tsv", "good film\n", **flags)
    flags |= {"task_name": "tsv"}
    with refuses("train.csv ... --labels"):
        predict("tsv", "good film\n", **flags)
    (row,) = predict("tsv", "good film\n", **flags, labels="no,yes")
    assert len(row) == 2


@pytest.mark.parametrize(
    ("name", "content", "flags", "message"),
    [
        ("tsv", "text\na\n", {}, "review"),
        ("tsv", "", {}, "test.tsv is empty"),
        ("tsv", "review\na\n", {"text_pair_column": 1}, "--text_pair_column=1"),
        ("scores", "a\n", {"regression": False}, "--regression=false"),
        ("tsv", "review\na\n", {"labels": "yes,no"}, "labels"),
        ("tsv", "review\na\n", {"task_name": "cola"}, "cola"),
        ("tsv", "review\na\n", {"max_seq_length": 8}, "--max_seq_length=8"),
        ("pairs", "a\n", {"text_column": "a"}, "summary"),
        ("cola", "a\n", {"labels": "a,b"}, "--labels"),
        ("ner", "John\n", {"text_column": 1}, "test.conll, line 1 ... 1"),
    ],
)
def test_mistakes(train_once, predict, tmp_path, name, content, flags, message):
    with refuses(message) as caught:
        predict(name, content, **flags)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "test_results.tsv").exists()
