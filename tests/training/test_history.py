# SPDX-License-Identifier: Apache-2.0
"""history.csv: rows, columns that come later, what a killed process leaves."""

import csv
import re

import numpy as np
import pytest

from albert_tf.training import history
from tests.errors import refuses

RATE = np.nextafter(np.float32(1024), np.float32(0))  # nine digits tell it from its neighbours


def rows(directory):
    with open(directory / history.FILE, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def written(tmp_path):
    """The history of a run of six steps that is evaluated at steps 3 and 6."""
    lines = history.History(str(tmp_path), 0)
    for step in range(1, 7):
        lines.write("train", step, {"loss": 1 / step, "learning_rate": RATE})
        if step % 3 == 0:
            lines.write("eval", step, {"loss": 2 / step, "accuracy": step / 10})
    return tmp_path


def test_rows_and_columns(written):
    found = rows(written)
    assert list(found[0]) == ["step", "kind", "seconds", "loss", "learning_rate", "accuracy"]
    places = [f"{row['step']} {row['kind']}" for row in found[:5]]
    assert places == ["1 train", "2 train", "3 train", "3 eval", "4 train"]
    assert [row["accuracy"] for row in found[2:5]] == ["", "0.3", ""]
    seconds = [float(row["seconds"]) for row in found]
    assert seconds == sorted(seconds)


def test_curves_are_read(written):
    curves = history.read(str(written))
    assert set(curves) == {"train", "eval"}
    assert curves["eval"]["accuracy"] == ([3, 6], [0.3, 0.6])
    assert curves["train"]["loss"][0] == [1, 2, 3, 4, 5, 6]
    assert "accuracy" not in curves["train"]
    assert np.float32(curves["train"]["learning_rate"][1][0]) == RATE


def test_names_may_hold_what_other_texts_take_for_the_end_of_a_line(tmp_path):
    name = "minimal_pairs_paradigms/a\u2028b\x85c\x0cd"
    history.History(str(tmp_path), 0).write("eval", 1, {name: 0.5})
    assert history.read(str(tmp_path))["eval"][name] == ([1], [0.5])


def test_rows_after_the_step_of_a_resumed_run_are_removed(written):
    again = history.History(str(written), 3)
    assert [row["step"] for row in rows(written)] == ["1", "2", "3", "3"]
    again.write("train", 4, {"loss": 0.25, "learning_rate": 0.1})
    assert history.read(str(written))["train"]["loss"][0] == [1, 2, 3, 4]


def test_seconds_go_on_in_a_resumed_run(written):
    path = written / history.FILE
    path.write_text(re.sub(r"^3,eval,[\d.]+", "3,eval,5000", path.read_text(), flags=re.M))
    history.History(str(written), 3).write("train", 4, {})
    assert 5000 <= float(rows(written)[-1]["seconds"]) < 6000


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_torn_last_line_is_dropped(written, kept):
    path = written / history.FILE
    whole = path.read_text()
    line = whole.splitlines(keepends=True)[-1]
    path.write_text(whole[: len(whole) - len(line) + min(kept, len(line) - 1)])
    assert history.read(str(written))["eval"]["accuracy"] == ([3], [0.3])
    history.History(str(written), 6).write("train", 7, {"loss": 0.1})
    assert [row["step"] for row in rows(written)] == ["1", "2", "3", "3", "4", "5", "6", "7"]


def test_a_torn_header_is_an_empty_history(tmp_path):
    (tmp_path / history.FILE).write_text("step,ki")
    history.History(str(tmp_path), 0).write("train", 1, {"loss": 1})
    assert history.read(str(tmp_path))["train"]["loss"] == ([1], [1.0])


def test_a_history_that_was_deleted_starts_anew(written):
    lines = history.History(str(written), 6)
    (written / history.FILE).unlink()
    lines.write("train", 7, {"loss": 1})
    assert [row["step"] for row in rows(written)] == ["7"]


def test_there_is_no_file_before_the_first_row(tmp_path):
    history.History(str(tmp_path), 0)
    assert not list(tmp_path.iterdir())
    with refuses("history.csv ... --output_dir"):
        history.read(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n",
        "step,kind,seconds,loss\n1,train\n",
        "step,kind,seconds,loss\n1,train,1,many\n",
        "step,kind,seconds,loss\n1.5,train,1,2\n",
        "step,kind,seconds,loss\n" + "1" * 400 + ",train,1,2\n",
        "step,kind,seconds\n1,train," + "1" * 200_000 + "\n",
    ],
)
def test_another_file_of_this_name_is_refused_and_left_alone(tmp_path, text):
    (tmp_path / history.FILE).write_text(text)
    with refuses("history.csv"):
        history.History(str(tmp_path), 0)
    assert (tmp_path / history.FILE).read_text() == text
