# SPDX-License-Identifier: Apache-2.0
"""The files evaluations leave, the best checkpoint, following a run."""

import types

import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.checkpoints import loading, run_directory, writers
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError
from albert_tf.training import evaluation, figures, results
from albert_tf.training.task import Evaluation


def write_checkpoint(directory, step):
    """A checkpoint that holds its step alone."""
    variable = tf.Variable(step, dtype=tf.int64)
    checkpoint = writers.make_checkpoint({"global_step": variable})
    return checkpoint.write(str(directory / f"model.ckpt-{step}"))


def record(directory, step, value):
    """Evaluates a checkpoint with a figure; returns whether it is kept as the best."""
    run = types.SimpleNamespace(
        settings=options.Loop(output_dir=str(directory), train_steps=4),
        step=step,
        is_chief=True,
        wait_for_checkpoint=lambda: None,
        figures=figures.Figures([], []),
    )
    evaluation.Evaluator(
        run,
        lambda: Evaluation({"figure": value}),
        "figure",
        "{first}{rest}best = {before}\n{saved}",
        initial_best=-1.0,
    )(write_checkpoint(directory, step))
    return RunDirectory(str(directory)).results.best_step == step


def test_the_best_is_kept_and_everything_is_written_down(tmp_path):
    assert [record(tmp_path, *row) for row in ((1, 0.5), (2, 0.25), (3, 0.75))] == [
        True,
        False,
        True,
    ]
    assert RunDirectory(str(tmp_path)).results == (3, 3, 0.75)
    assert loading.step_in(str(tmp_path / "model.ckpt-best")) == 3
    lines = (tmp_path / results.EVAL_RESULTS).read_text().splitlines()
    assert [line for line in lines if not line.startswith("saved ")] == [
        "figure = 0.5", "global_step = 1", "best = -1.0",
        "figure = 0.25", "global_step = 2", "best = 0.5",
        "figure = 0.75", "global_step = 3", "best = 0.5",
    ]  # fmt: skip
    saved = [line for line in lines if line.startswith("saved ")]
    assert len(saved) == 4
    assert saved[1] == f"saved {tmp_path}/model.ckpt-1.index to {tmp_path}/model.ckpt-best.index"


@pytest.mark.parametrize(
    "rows, best",
    [
        ([(0, 0.9), (1, 0.5)], (1, 0.5)),  # a lucky untrained model
        ([(0, 0.5), (1, 0.5), (2, 0.4)], (1, 0.5)),
        ([(1, 0.5), (2, 0.5), (3, 0.4)], (2, 0.5)),  # the later of a tie
        ([(0, 0.9), (1, float("nan"))], (0, 0.9)),  # nothing else has a figure
        ([(0, 0.9)], (0, 0.9)),
    ],
)
def test_trained_models_and_later_ones_go_first(rows, best, tmp_path):
    for step, value in rows:
        record(tmp_path, step, value)
    assert RunDirectory(str(tmp_path)).results[1:] == best
    assert loading.step_in(str(tmp_path / "model.ckpt-best")) == best[0]


def test_a_checkpoint_is_described_with_its_step_and_the_best_with_its_figure(tmp_path):
    record(tmp_path, 1, 0.5)
    best = str(tmp_path / "model.ckpt-best")
    assert results.describe(best, 1, "figure") == f"{best} (step 1, figure 0.5000)"
    assert results.describe(best, 7, "figure") == f"{best} (step 7)"  # not that of best_trial.txt
    other = str(tmp_path / "model.ckpt-1")
    assert results.describe(other, 1, "figure") == f"{other} (step 1)"


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_not_finite_is_never_the_best(value, tmp_path):
    assert not record(tmp_path, 1, float(value))
    assert RunDirectory(str(tmp_path)).results == (1, -1, -1.0)
    assert not (tmp_path / "model.ckpt-best.index").exists()


@pytest.mark.parametrize(
    "text",
    ["1:2", "1:2:nan", "1:2:inf", "1:2:-inf", "1:2:1e999", "-1:2:0.5", "1:-2:0.5", "True:1:0.5",
     "1:False:0.5", "1:1:True", "1_0:1:0.5", f"{10**30}:1:0.5", "1:1:0.5:7", "1.5:1:0.5", "1:1:e",
     " ", "9" * 5000],
)  # fmt: skip
def test_damaged_state_is_a_plain_error(text, tmp_path):
    (tmp_path / run_directory.BEST_STATE).write_text(text)
    with pytest.raises(UserError, match=r"best_trial\.txt must read .* Delete it") as error:
        _ = RunDirectory(str(tmp_path)).results
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "text, state",
    [("4:0:0.0", (4, 0, 0.0)), ("4:-1:-1", (4, -1, -1.0)), ("8:4:-0.25", (8, 4, -0.25)),
     ("8:4:8.5e-05", (8, 4, 8.5e-05)), ("8:4:87.5\n", (8, 4, 87.5))],
)  # fmt: skip
def test_states_of_the_original_and_of_negative_figures_are_read(text, state, tmp_path):
    (tmp_path / run_directory.BEST_STATE).write_text(text)
    assert RunDirectory(str(tmp_path)).results == state


def test_follow_gives_all_or_the_newest(tmp_path):
    for step in (2, 10, 4):
        write_checkpoint(tmp_path, step)
    every = list(results.follow(str(tmp_path), 99, 0.0, newest_only=False))
    assert [run_directory.step_of(prefix) for prefix in every] == [2, 4, 10]
    later = list(results.follow(str(tmp_path), 99, 0.0, seen=2, newest_only=False))
    assert later == every[1:]
    assert list(results.follow(str(tmp_path), 99, 0.0)) == every[-1:]


def test_follow_gives_what_is_there_beyond_the_last_step(tmp_path):
    for step in (2, 10, 14):
        write_checkpoint(tmp_path, step)
    found = list(results.follow(str(tmp_path), 4, 60.0, seen=6, newest_only=False))
    assert [run_directory.step_of(prefix) for prefix in found] == [10, 14]


def test_best_state_survives(tmp_path):
    assert RunDirectory(str(tmp_path)).results is None
    (tmp_path / run_directory.BEST_STATE).write_text("40:20:0.625")
    assert RunDirectory(str(tmp_path)).results == (40, 20, 0.625)


def test_follow_waits_for_newer_checkpoints_and_ends(tmp_path):
    variable = tf.Variable(7, dtype=tf.int64)
    checkpoint = writers.make_checkpoint({"global_step": variable})
    manager = tf.train.CheckpointManager(
        checkpoint, str(tmp_path), max_to_keep=None, checkpoint_name="model.ckpt"
    )
    assert list(results.follow(str(tmp_path), 9, timeout=0.0)) == []
    manager.save(checkpoint_number=7)
    seen = []
    for prefix in results.follow(str(tmp_path), 9, timeout=5.0):
        seen.append(loading.step_in(prefix))
        if variable.numpy() < 9:
            variable.assign_add(1)
            manager.save(checkpoint_number=int(variable.numpy()))
    assert seen == [7, 8, 9]
