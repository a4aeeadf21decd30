# SPDX-License-Identifier: Apache-2.0
"""Minimal pairs measured while a model is trained: their figures, and the same training."""

import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import albert_tf
import run_pretraining
from albert_tf import plot
from albert_tf.api import minimal_pairs
from albert_tf.checkpoints import readers, run_directory
from albert_tf.errors import UserError
from albert_tf.training import devices, history
from tests.scripts import quick_runs

pytestmark = pytest.mark.usefixtures("eagerly")

STEPS = [2, 4, 6]  # which are not those of checkpoints


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    found = quick_runs.flags_of_two_workers(folder)
    for name, distance in (("near", 1), ("far", 100)):
        pairs = [f"word{n} word{n + 7}\tword{n} word{n + 7 + distance}\n" for n in range(20)]
        (folder / f"{name}.tsv").write_text("".join(pairs))
    return found | {
        "distribution_strategy": "one_device",
        "num_train_steps": 6,
        "save_checkpoints_steps": 3,
        "iterations_per_loop": 4,
        "do_eval": False,
    }


@pytest.fixture(scope="module")
def pairs(flags):
    return {"minimal_pairs_file": flags["vocab_file"].parent / "*.tsv", "minimal_pairs_every": 2}


@pytest.fixture(scope="module")
def run(flags, pairs, run_main, tmp_path_factory):
    """Trains: run(**flags) -> the run's directory."""

    def run(directory=None, pairs=pairs, **others):
        directory = directory or tmp_path_factory.mktemp("run")
        run_main(run_pretraining, **flags | pairs | others | {"output_dir": directory})
        return directory

    return run


@pytest.fixture(scope="module")
def measured(run):
    return run()


def curves_of(directory):
    """dict of figure -> values at STEPS."""
    found = history.read(str(directory))["eval"]
    assert all(steps == STEPS for steps, _ in found.values())
    return {name: values for name, (_, values) in found.items() if name != "seconds"}


def figures_of(directory, flags, pairs):
    """What minimal_pairs.py says of the last checkpoint, in float32 as in a process of its own."""
    devices.set_precision("fp32")
    vocabulary = {"vocab_file": str(flags["vocab_file"])}
    loaded = albert_tf.load(run_directory.latest_in(str(directory)), **vocabulary)
    paths = sorted(str(path) for path in flags["vocab_file"].parent.glob("*.tsv"))
    paradigms = minimal_pairs.read(paths)
    return minimal_pairs.evaluate(loaded, paradigms, "within_word_l2r")


@pytest.mark.parametrize("dtype", ["fp32", pytest.param("bf16", marks=pytest.mark.long)])
def test_the_curves_are_those_of_the_checkpoints(dtype, measured, run, flags, pairs):
    """In float32, whatever the precision of the training."""
    directory = measured if dtype == "fp32" else run(dtype=dtype)
    figures = figures_of(directory, flags, pairs)
    assert figures["overall"]["pairs"] == 40 and 0 < figures["overall"]["accuracy"] < 1
    found = {name: values[-1] for name, values in curves_of(directory).items()}
    assert found == pytest.approx(
        {
            "minimal_pairs": figures["overall"]["accuracy"],
            "minimal_pairs_error": figures["overall"]["standard_error"],
            "minimal_pairs_paradigms/far": figures["paradigms"]["far"]["accuracy"],
            "minimal_pairs_paradigms/near": figures["paradigms"]["near"]["accuracy"],
        }
    )


def test_tensorboard_has_them_too(measured):
    events = EventAccumulator(str(measured / "eval")).Reload()
    steps = [event.step for event in events.Tensors("minimal_pairs")]
    assert steps == STEPS and "minimal_pairs_paradigms/far" in events.Tags()["tensors"]
    shown = plot.shown_figures({"run": history.read(str(measured))})
    assert [name for name in shown if "pairs" in name] == ["minimal_pairs"]


@pytest.mark.long
def test_the_training_is_that_without_them(measured, run, tmp_path):
    """Bit for bit, also where it goes on from a checkpoint."""
    plain = run(pairs={})
    resumed = tmp_path / "resumed"
    shutil.copytree(measured, resumed)
    for path in [*resumed.glob("model.ckpt-6*"), resumed / "checkpoint"]:
        path.unlink(missing_ok=True)
    run(resumed)
    assert curves_of(resumed) == curves_of(measured)
    expected = readers.open_reader(str(plain / "model.ckpt-6"))
    for directory in (measured, resumed):
        found = readers.open_reader(str(directory / "model.ckpt-6"))
        assert found.shapes == expected.shapes
        for name in expected.shapes:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.long
def test_a_run_that_is_stopped_while_it_measures_is_saved(measured, run, tmp_path, monkeypatch):
    measure = minimal_pairs.measure

    def stopped(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(minimal_pairs, "measure", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert run_directory.latest_in(str(tmp_path)).endswith("model.ckpt-2")
    monkeypatch.setattr(minimal_pairs, "measure", measure)
    run(tmp_path)
    found = history.read(str(tmp_path))["eval"]["minimal_pairs"]
    assert found == (STEPS[1:], curves_of(measured)["minimal_pairs"][1:])


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (
            {"minimal_pairs_file": ""},
            "--minimal_pairs_every does nothing without --minimal_pairs_file",
        ),
        ({"do_train": False, "do_eval": True}, "--minimal_pairs_file is for --do_train"),
        ({"minimal_pairs_file": "none"}, "--minimal_pairs_file: no file matches 'none'"),
        (
            {"vocab_file": "", "masked_lm_budget": 0},
            "--minimal_pairs_file needs the vocabulary of the records",
        ),
        ({"minimal_pairs_file": "{long}"}, r"line 2 has 31 pieces, but max_seq_length=32 has"),
    ],
)
def test_mistakes(others, message, run, tmp_path):
    (tmp_path / "long.txt").write_text("word1\n" + "word1 " * 31)
    if others.get("minimal_pairs_file") == "{long}":
        others = {"minimal_pairs_file": tmp_path / "long.txt"}
    with pytest.raises(UserError, match=message):
        run(tmp_path / "out", **others)
