# SPDX-License-Identifier: Apache-2.0
"""A run whose training is done: its command changes nothing, and other settings are an error."""

import shutil
from pathlib import Path

import pytest

import run_classifier
import run_pretraining
from tests import tiny
from tests.errors import refuses

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def done(eagerly, run_once):
    """Trains once: the directory of run.json and so on, and the flags without it."""
    flags = tiny.CLASSIFIER | {"do_predict": False, "learning_rate": 1e-4}
    folder = run_once(run_classifier, tiny.CONFIG, **flags)
    config = tiny.write_config(folder / "config.json")
    return folder / "out", flags | {"albert_config_file": config}


@pytest.fixture
def out(done, tmp_path):
    """A copy of the directory."""
    return Path(shutil.copytree(done[0], tmp_path / "out"))


@pytest.fixture
def again(done, out, run_main):
    """Types the command again, with other flags: again(**flags)."""

    def run(**others):
        run_main(run_classifier, **done[1] | others, output_dir=out)

    return run


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_same_command_changes_no_file(again, out, capsys):
    before = contents(out)
    again()
    assert contents(out) == before
    assert "Nothing left to train: step 2 of 2 is done." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ({"learning_rate": 2e-4}, "--learning_rate=0.0002, before 0.0001"),
        ({"max_seq_length": 32}, "--max_seq_length=32, before 64"),
        ({"train_step": 1}, "--train_step=1, before 2"),
        ({"warmup_step": 1}, "--warmup_step=1, before 0"),
    ],
)
def test_other_settings_are_an_error_and_change_no_file(again, out, flags, shown):
    before = contents(out)
    with refuses(shown, "step 2 of ", out):
        again(**flags)
    assert contents(out) == before


@pytest.mark.long
def test_more_updates_and_predictions_are_something_to_do(again, out):
    record = (out / "run.json").read_bytes()
    again(do_predict=True)
    assert (out / "test_results.tsv").exists() and (out / "run.json").read_bytes() == record
    again(train_step=3)
    assert (out / "model.ckpt-3.index").exists() and (out / "run.json").read_bytes() != record


def test_pretraining(run_main, tmp_path, capsys):
    flags = tiny.many_steps(tmp_path) | {"distribution_strategy": "one_device"}
    flags |= {"num_train_steps": 1, "do_eval": False}
    run_main(run_pretraining, **flags)
    before = contents(tmp_path / "out")
    run_main(run_pretraining, **flags)
    assert "Nothing left to train: step 1 of 1 is done." in capsys.readouterr().out
    with refuses("step 1 of 1 ... --learning_rate=0.002 ... 0.001"):
        run_main(run_pretraining, **flags | {"learning_rate": 2e-3})
    assert contents(tmp_path / "out") == before
