# SPDX-License-Identifier: Apache-2.0
"""run_race.py through its real main, on the original's tiny RACE files."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import run_race
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.tasks import race
from albert_tf.text.tokenization import FullTokenizer
from tests import tiny
from tests.errors import assert_says, refuses
from tests.tiny import NO_DROPOUT, values_of, write_config

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


def test_a_run_keeps_its_levels(run_main, flags, trained):
    before = (trained / "best_trial.txt").read_text()
    with refuses(f"--high_only=true ... {trained}/run.json"):  # training is the default
        run_main(run_race, **flags | {"high_only": True})
    assert (trained / "best_trial.txt").read_text() == before
    run_main(run_race, **flags | {"high_only": True, "do_train": False})


def test_blocks_of_eval_results(first_run):
    """What follows the metrics is of all scripts: tests/training/test_evaluation.py."""
    for step, block in enumerate(blocks(first_run)):
        names = [line.split(" = ")[0] for line in block.splitlines()]
        assert names[: len(METRICS) + 1] == [*METRICS, "best"]
        assert values_of(block)["global_step"] == step
        assert f"\nsaved {first_run}/model.ckpt-1.index to " in block or step != 1
    assert "\nbest = -1\n" in blocks(first_run)[0] and step == 2


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
    names = ("eval_results.txt", "best_trial.txt", "predictions.tsv")
    before = {name: (trained / name).read_text() for name in names}
    for path in (trained / "predictions.tsv", *trained.glob("race_*.tf_record")):
        path.unlink()
    own = {f"{split}_file": trained / f"{split}.tf_record" for split in ("eval", "predict")}
    run_main(run_race, **flags | {"do_train": False}, **own)
    said = f"with {trained}/model.ckpt-best"
    assert_says(capsys.readouterr().out, "step 2 ... best", said, trained / "eval.tf_record")
    assert {name: (trained / name).read_text() for name in names} == before
    assert all(path.exists() for path in own.values())


def test_how_many_checkpoints_stay(asked, flags):
    assert asked(run_race, **flags, num_keep_checkpoint=1).keep_checkpoint_max == 1


@pytest.mark.parametrize("level", race.LEVELS)
def test_one_level_alone(run_main, flags, trained, level, capsys):
    """Records of both levels are not taken for those of one."""
    run_main(run_race, **flags | {"do_train": False}, **{f"{level}_only": True})
    capsys.readouterr()
    metrics = values_of((trained / "predict_results.txt").read_text())
    assert metrics["eval_accuracy"] == metrics[f"eval_accuracy_{level}"]
    assert len([name for name in metrics if name.startswith("eval_accuracy_")]) == 1
    assert all(row[0].startswith(level) for row in table(trained)[1:])


@pytest.mark.parametrize(
    ("dropout", "values", "warning"),
    [
        (0.1, {"init_checkpoint": "albert_base_v2"}, "Warning ... albert_base_v2/model.ckpt-best"),
        (0.0, {"learning_rate": 2e-5}, "Warning ... --learning_rate=2e-05 ... 1e-05"),
        (0.1, {"learning_rate": 2e-5}, None),
        (0.0, {"init_checkpoint": "albert_base_v2"}, None),
    ],
)
def test_settings_of_another_version_are_warned_of(
    asked, flags, tmp_path, capsys, dropout, values, warning
):
    config = tiny.CONFIG | NO_DROPOUT | {"hidden_dropout_prob": dropout}
    if "init_checkpoint" in values:
        release = tmp_path / values["init_checkpoint"]
        release.mkdir()
        values = {"init_checkpoint": tiny.write_release(release, config=config) / "model.ckpt-best"}
    write_config(flags["albert_config_file"], **config)
    asked(run_race, **flags | values)
    out = capsys.readouterr().out
    assert_says(out, *filter(None, [warning]))
    assert ("Warning" in out) == (warning is not None)
