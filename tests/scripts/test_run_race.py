# SPDX-License-Identifier: Apache-2.0
"""run_race.py through its real main, on the original's tiny RACE files."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import run_race
from albert_tf.checkpoints import loading, run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.tasks import race
from albert_tf.text.tokenization import FullTokenizer
from tests import tiny
from tests.checkpoints import golden_models
from tests.errors import assert_says, refuses
from tests.tiny import EVALUATE, NO_DROPOUT, PREDICT, values_of, write_config

pytestmark = pytest.mark.usefixtures("eagerly")

DATA, VOCABULARY, FLAGS = tiny.GLUE_DATA, tiny.VOCABULARY, tiny.RACE
METRICS = ["eval_accuracy", "eval_accuracy_high", "eval_accuracy_middle", "eval_loss"]
METRICS += ["global_step", "loss"]


@pytest.fixture
def flags(tmp_path):
    """Flags of a run of two steps; training and evaluation are on by default, as originally."""
    config = write_config(tmp_path / "config.json", **NO_DROPOUT)
    return FLAGS | {"albert_config_file": config, "output_dir": tmp_path / "out"}


@pytest.fixture(scope="module")
def first_run(eagerly, run_once):
    """Output directory of a run that was trained, evaluated and predicted with."""
    return run_once(run_race, tiny.CONFIG | NO_DROPOUT, **FLAGS) / "out"


@pytest.fixture
def trained(first_run, tmp_path):
    """A copy of that run, at the place that `flags` names."""
    return Path(shutil.copytree(first_run, tmp_path / "out"))


def blocks(directory):
    return tiny.blocks(directory)[:-1]


def table(directory):
    return tiny.table(directory / "predictions.tsv")


# --- Files and their formats ---


def test_blocks_of_eval_results(first_run):
    assert len(blocks(first_run)) == 3
    best = -1.0
    for step, block in enumerate(blocks(first_run)):
        lines = block.splitlines()
        assert [line.split(" = ")[0] for line in lines[: len(METRICS)]] == METRICS
        metrics = values_of(block)
        assert metrics["global_step"] == step and metrics["best"] == best
        assert lines[len(METRICS)] == f"best = {'-1' if step == 0 else best}"
        copies = lines[len(METRICS) + 1 :]
        if metrics["eval_accuracy"] > best or step == 1:  # the first that is trained
            best = metrics["eval_accuracy"]
            parts = ("data-00000-of-00001", "index")
            assert copies == [
                f"saved {first_run}/model.ckpt-{step}.{part} to {first_run}/model.ckpt-best.{part}"
                for part in parts
            ]
        else:
            assert not copies
    state = RunDirectory(str(first_run)).results
    assert state.step == 2 and state.best == best
    assert loading.step_in(str(first_run / "model.ckpt-best")) == state.best_step


def test_files_of_the_predictions(first_run):
    lines = (first_run / "predict_results.txt").read_text().splitlines()
    assert lines[0] == "***** Predict results *****"
    assert [line.split(" = ")[0] for line in lines[1:]] == [*METRICS, "best"]
    metrics, state = values_of("\n".join(lines)), RunDirectory(str(first_run)).results
    assert metrics["best"] == state.best and metrics["global_step"] == state.best_step
    header, *rows = table(first_run)
    assert header == ["id", "question", "prediction", "answer", "A", "B", "C", "D"]
    tokenizer = FullTokenizer(spm_model_file=str(VOCABULARY))
    examples = race.read_examples(str(DATA), "test", tokenizer)
    assert [row[0] for row in rows] == [example.passage_id for example in examples]
    assert [race.LETTERS.index(row[3]) for row in rows] == [e.label for e in examples]
    for row in rows:
        probabilities = [float(number) for number in row[4:]]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        chosen = probabilities[race.LETTERS.index(row[2])]
        assert chosen == pytest.approx(max(probabilities), abs=1e-6)
    hits = np.array([row[2] == row[3] for row in rows])
    assert metrics["eval_accuracy"] == pytest.approx(hits.mean())
    for level in race.LEVELS:
        wanted = hits[[example.level == level for example in examples]].mean()
        assert metrics[f"eval_accuracy_{level}"] == pytest.approx(wanted)


# --- Runs in several processes ---


def test_what_is_trained_on_and_what_comes_next(run_main, flags, capsys):
    run_main(run_race, **flags | {"do_eval": False, "do_predict": False}, middle_only=True)
    out = capsys.readouterr().out
    tokenizer = FullTokenizer(spm_model_file=str(VOCABULARY))
    examples = race.read_examples(str(DATA), "train", tokenizer, ("middle",))
    counts = [sum(example.label == i for example in examples) for i in range(4)]
    classes = "A ({}), B ({}), C ({}), D ({})".format(*counts)
    assert f"Training on {DATA}/RACE/train: middle school\nClasses: {classes}\n" in out
    letter = race.LETTERS[examples[0].label]
    assert re.search(rf"(?m)^First example: \[CLS\] .* = {letter}; vocabulary: ", out)
    best, command = out.splitlines()[-2:]
    assert best.startswith(f"The newest model is {flags['output_dir']}/model.ckpt-")
    assert command.count('--options="some options"') == 4


def test_once_more_after_the_end_nothing_is_lost(run_main, flags, trained, capsys):
    before = (trained / "eval_results.txt").read_text()
    (trained / "predict_results.txt").unlink()
    run_main(run_race, **flags | {"do_train": False})
    out = capsys.readouterr().out
    assert_says(out, "step 2 ... best", next(trained.glob("race_eval-*.tf_record")))
    assert (trained / "eval_results.txt").read_text() == before
    assert (trained / "predict_results.txt").exists()


def test_predict_alone(run_main, flags, trained, capsys, tmp_path):
    before = {name: (trained / name).read_text() for name in ("predictions.tsv", "best_trial.txt")}
    (trained / "predictions.tsv").unlink()
    run_main(run_race, **flags | PREDICT, predict_file=tmp_path / "mine.tf_record")
    assert f"with {trained}/model.ckpt-best" in capsys.readouterr().out
    assert {name: (trained / name).read_text() for name in before} == before
    assert (tmp_path / "mine.tf_record").exists()


@pytest.mark.long
def test_an_ensemble_has_the_mean_of_the_outputs_of_its_models(run_main, flags, trained, tmp_path):
    other, both = tmp_path / "second", tmp_path / "both"
    run_main(run_race, **flags | {"output_dir": other, "learning_rate": 0.1, "do_predict": True})
    names = ("data_dir", "max_seq_length", "max_qa_length", "spm_model_file")
    given = {name: flags[name] for name in names if name in flags} | {"do_train": False}
    given |= {"do_eval": True, "do_predict": True, "ensemble_dirs": f"{trained},{other}"}
    run_main(run_race, **given | {"output_dir": both})
    found = [
        np.array([row[4:] for row in table(folder)[1:]], float) for folder in (trained, other, both)
    ]
    mean = np.sqrt(found[0] * found[1])  # of logits
    np.testing.assert_allclose(found[2], mean / mean.sum(axis=1, keepdims=True), atol=1e-6)
    assert np.abs(found[0] - found[2]).max() > 1e-5
    results = values_of((both / "eval_results.txt").read_text())
    assert 0 <= results["eval_accuracy"] <= 1 and "global_step" not in results
    assert not list(both.glob("model.ckpt*"))


def test_best_checkpoint_without_a_record_of_its_score(run_main, flags, trained):
    """The original writes no best_trial.txt for RACE; its best is evaluated before the others."""
    for name in ("best_trial.txt", "eval_results.txt"):
        (trained / name).unlink()
    golden_models.copy(trained / "model.ckpt-1", trained / "model.ckpt-best")
    run_main(run_race, **flags | EVALUATE, eval_file=trained / "mine.tf_record")
    assert [values_of(block)["global_step"] for block in blocks(trained)] == [1, 2]
    assert (trained / "mine.tf_record").exists()


def test_only_the_last_checkpoints_stay(run_main, flags, trained):
    for path in [*trained.glob("model.ckpt-best*"), trained / "best_trial.txt"]:
        path.unlink()
    run_main(run_race, **flags | EVALUATE, num_keep_checkpoint=1)
    assert [step for step, _ in run_directory.numbered_in(str(trained))] == [2]


# --- Data ---


@pytest.mark.parametrize("level", race.LEVELS)
def test_one_level_alone(run_main, flags, trained, level, capsys):
    """Records of both levels are not taken for those of one."""
    run_main(run_race, **flags | {"do_train": False}, **{f"{level}_only": True})
    capsys.readouterr()
    metrics = values_of((trained / "predict_results.txt").read_text())
    assert metrics["eval_accuracy"] == metrics[f"eval_accuracy_{level}"]
    assert len([name for name in metrics if name.startswith("eval_accuracy_")]) == 1
    assert all(row[0].startswith(level) for row in table(trained)[1:])


# --- Warnings and errors ---


NO_DEVICES = {"distribution_strategy": "mirrored", "num_gpus": 99}


@pytest.mark.parametrize(
    ("dropout", "values", "warning"),
    [
        (0.1, {"init_checkpoint": "albert_base_v2"}, "Warning ... albert_base_v2/model.ckpt-0"),
        (0.0, {"learning_rate": 2e-5}, "Warning ... --learning_rate=2e-05 ... 1e-05"),
        (0.1, {"learning_rate": 2e-5}, None),
        (0.0, {"init_checkpoint": "albert_base_v2"}, None),
    ],
)
def test_settings_of_another_version_are_warned_of(
    run_main, flags, first_run, tmp_path, capsys, dropout, values, warning
):
    dropout = NO_DROPOUT | {"hidden_dropout_prob": dropout}
    config = write_config(tmp_path / "with_dropout.json", **dropout)
    if "init_checkpoint" in values:
        prefix = tmp_path / values["init_checkpoint"] / "model.ckpt-0"
        golden_models.copy(first_run / "model.ckpt-best", prefix)
        values = {"init_checkpoint": prefix}
    # Devices that are not there stop it after the warning, before any training.
    with refuses("--num_gpus=99"):
        run_main(run_race, **flags | NO_DEVICES | {"albert_config_file": config} | values)
    out = capsys.readouterr().out
    if warning:
        assert_says(out, warning)
    else:
        assert "Warning" not in out


@pytest.mark.long
def test_the_best_of_several_trials_is_kept(run_main, flags, tmp_path, capsys):
    given = {"train_step": 1, "do_predict": False, "num_trials": 2, "seed": 3}
    run_main(run_race, **flags | given)
    out = Path(flags["output_dir"])
    *trials, summary = (out / "trials.txt").read_text().splitlines()
    assert [Path(line.split("\t")[0]).name for line in trials] == ["trial-3", "trial-4"]
    assert "of 2 trials" in summary and (out / "model.ckpt-best.index").exists()
