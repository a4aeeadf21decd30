# SPDX-License-Identifier: Apache-2.0
"""`python -m albert_tf.plot`: which panels it draws, and what it says of bad input."""

import json

import pytest
import tensorflow as tf
from matplotlib.figure import Figure

from albert_tf import plot
from albert_tf.training import history
from tests.errors import assert_names, refuses

TRAINED = {"loss": 2.0, "masked_lm_accuracy": 0.1, "masked_lm_loss": 1.0, "gradient_norm": 1.0}
TRAINED |= {"learning_rate": 0.1, "sequences_per_second": 5.0}


@pytest.fixture
def run_dir(tmp_path):
    lines = history.History(str(tmp_path / "run"), 0)
    for step in (1, 2, 3):
        lines.write("train", step, TRAINED)
    lines.write("eval", 3, {"loss": 2.0, "f1": 50.0, "f1_bad": 1.0, "count_bad_as_good": 2.0})
    return str(tmp_path / "run")


def test_metrics_that_are_shown(run_dir):
    curves = history.read(run_dir)
    expected = ["loss", "masked_lm_accuracy", "f1", "learning_rate"]
    assert plot.shown_metrics({"a": curves}) == expected
    assert plot.shown_metrics({"a": {"eval": curves["eval"]}, "b": curves}) == [
        "loss", "f1", "masked_lm_accuracy", "learning_rate",
    ]  # fmt: skip


def test_curves_and_their_names(run_dir):
    curves = history.read(run_dir)

    def drawn(name, runs):
        axis = Figure().subplots()
        plot._draw_panel(axis, name, runs)
        return [(line.get_label(), list(line.get_xdata())) for line in axis.lines]

    assert drawn("loss", {"a": curves}) == [("training", [1, 2, 3]), ("evaluation", [3])]
    assert drawn("f1", {"a": curves}) == [("evaluation", [3])]
    assert drawn("loss", {"a": curves, "b": {"eval": curves["eval"]}}) == [
        ("a, training", [1, 2, 3]), ("a, evaluation", [3]), ("b, evaluation", [3]),
    ]  # fmt: skip


def test_what_is_drawn_may_have_a_dollar_in_its_name_and_must_have_rows(run_dir, tmp_path):
    curves = history.read(run_dir)
    plot.draw({"a": curves, r"b$\x$": curves}, str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").exists()
    with refuses("history.csv"):
        plot.draw({"a": {}}, "x.png")


def test_curves_against_pieces(run_dir, tmp_path, capsys):
    assert plot.main([run_dir, "--pieces", f"--png_file={tmp_path}/a.png"]) == 1
    assert_names(capsys.readouterr().err, f"plot: error: ... --pieces ... {run_dir}/run.json")
    flags = {"train_batch_size": 1000, "max_seq_length": 50, "num_train_steps": 3}
    record = {"flags": flags, "config": {"vocab_size": 9}, "text": {}}
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    found = plot.by_pieces(run_dir, history.read(run_dir))
    assert found["train"]["loss"] == (pytest.approx([0.05, 0.1, 0.15]), [2.0, 2.0, 2.0])
    assert found["eval"]["f1"] == (pytest.approx([0.15]), [50.0])
    assert plot.main([run_dir, "--pieces", f"--png_file={tmp_path}/a.png"]) == 0
    assert (tmp_path / "a.png").exists()
    record["flags"]["length_buckets"] = ["16"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    assert plot.main([run_dir, "--pieces"]) == 1
    assert_names(capsys.readouterr().err, f"{run_dir} ... --length_buckets")
    del record["flags"]["length_buckets"], record["flags"]["num_train_steps"]
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    assert plot.main([run_dir, "--pieces"]) == 1
    assert_names(capsys.readouterr().err, run_dir)


def test_several_runs_make_one_picture(run_dir, tmp_path, capsys):
    png = tmp_path / "plots" / "two.png"
    assert plot.main([run_dir, run_dir, f"--png_file={png}"]) == 0
    assert tf.io.decode_png(png.read_bytes()).shape[:2] == (960, 1200)
    assert capsys.readouterr().out == f"{png}: loss, masked_lm_accuracy, f1, learning_rate\n"


@pytest.mark.parametrize("content", [None, "step,kind,seconds,loss\n", "a,b\n"])
def test_bad_input_is_one_line(run_dir, tmp_path, content, capsys):
    other, png = tmp_path / "other", tmp_path / "out.png"
    other.mkdir()
    if content:
        (other / history.FILE).write_text(content)
    directories = [str(other)] if content else [run_dir, str(other)]
    code = plot.main([*directories, f"--png_file={png}"])
    error = capsys.readouterr().err
    assert code == 1 and error.startswith("plot: error: ") and error.count("\n") == 1
    assert str(other) in error and history.FILE in error
    assert not png.exists()
