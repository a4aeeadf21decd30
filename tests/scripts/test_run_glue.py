# SPDX-License-Identifier: Apache-2.0
"""run_glue.sh on the original's tiny GLUE files, with a tiny model."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.model import encoder
from albert_tf.tasks import glue
from tests import ROOT, tiny
from tests.errors import assert_names, assert_says

# The original's, section l.1 of its description: warm-up, rate, steps, save, batch.
RECIPES = {
    "SST-2": (1256, 1e-5, 20935, 100, 32),
    "MNLI": (1000, 3e-5, 10000, 100, 128),
    "CoLA": (320, 1e-5, 5336, 100, 16),
    "QNLI": (1986, 1e-5, 33112, 200, 32),
    "QQP": (1000, 5e-5, 14000, 100, 128),
    "RTE": (200, 3e-5, 800, 100, 32),
    "STS-B": (214, 2e-5, 3598, 100, 16),
    "MRPC": (200, 2e-5, 800, 100, 32),
}
NAMES = ["warmup_step", "learning_rate", "train_step"]
NAMES += ["save_checkpoints_steps", "train_batch_size"]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A directory as the released archives are, of random weights."""
    folder = tmp_path_factory.mktemp("albert_tiny")
    return tiny.write_release(folder, encoder.AlbertModel, tiny.CONFIG)


@pytest.fixture
def run_glue(model_dir, tmp_path):
    """Runs the script from elsewhere: run_glue(*flags, VARIABLE=value) -> completed process."""

    def run(*flags, **variables):
        environment = {
            "ALBERT_DIR": model_dir,
            "GLUE_DIR": tiny.GLUE_DATA,
            "OUTPUT_DIR": tmp_path / "out",
            "PYTHON": sys.executable,
        } | variables
        return subprocess.run(
            [str(ROOT / "run_glue.sh"), *flags],
            cwd=tmp_path,
            env=os.environ | {name: str(value) for name, value in environment.items()},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def shell(tmp_path):
    """Writes a script that stands in for Python: shell(text) -> its path."""

    def write(text):
        (tmp_path / "python").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "python").chmod(0o755)
        return tmp_path / "python"

    return write


@pytest.fixture
def commands(run_glue, shell):
    """What would be run: commands(*flags, VARIABLE=value) -> list of lists of arguments."""

    def run(*flags, **variables):
        echo = shell('printf "%s\\t" "$@"\necho')
        done = run_glue(*flags, PYTHON=echo, OUTPUT_DIR="gs://bucket", **variables)
        assert done.returncode == 0, done.stderr
        return [line.split("\t")[:-1] for line in done.stdout.splitlines() if "\t" in line]

    return run


def values_of(command):
    return dict(flag[2:].split("=", 1) for flag in command if "=" in flag)


def test_settings_are_the_originals(commands, model_dir):
    pairs = list(zip(*[iter(commands())] * 2, strict=True))
    assert [values_of(first)["task_name"] for first, _ in pairs] == list(RECIPES)
    for first, second in pairs:
        values = values_of(first)
        # Training has no test set to predict, and refuses the flag.
        assert values | {"glue_submission_dir": "gs://bucket/submission"} == values_of(second)
        assert "glue_submission_dir" not in values
        found = tuple(float(values[name]) for name in NAMES)
        assert found == RECIPES[values["task_name"]]
        assert values["max_seq_length"] == "512" and values["optimizer"] == "adamw"
        assert values["init_checkpoint"] == f"{model_dir}/model.ckpt-best"
        assert {"--do_train", "--nodo_eval", "--nodo_predict"} <= set(first)
        assert {"--nodo_train", "--do_eval", "--do_predict"} <= set(second)


@pytest.mark.parametrize(("size", "divisor"), [("base", 1), ("large", 1), ("xlarge", 4)])
def test_size_lowers_the_rates(commands, size, divisor):
    for command in commands(SIZE=size):
        values = values_of(command)
        wanted = RECIPES[values["task_name"]][1] / divisor
        assert float(values["learning_rate"]) == pytest.approx(wanted)


def test_module_replaces_config_vocabulary_and_checkpoint(commands):
    values = values_of(commands(ALBERT_HUB="module", TASKS="RTE")[0])
    assert values["albert_hub_module_handle"] == "module"
    assert not {"albert_config_file", "spm_model_file", "init_checkpoint"} & set(values)


@pytest.mark.long
def test_two_tasks(run_glue, tmp_path):
    tiny_run = ("--max_seq_length=64", "--train_batch_size=2", "--seed=1")
    done = run_glue(*tiny_run, TASKS="CoLA STS-B", STEPS_DIVISOR=100000)
    assert done.returncode == 0, done.stderr
    for task in ("CoLA", "STS-B"):
        folder, row = tmp_path / "out" / task, glue.find_task(task)
        text, state = (folder / "eval_results.txt").read_text(), RunDirectory(str(folder)).results
        assert re.findall(r"global_step = (\d+)", text) == ["0", "1"]  # the first and the last
        assert f"{row.metrics[0]} = " in text and state.step == 1
        assert run_directory.exists(str(folder / "model.ckpt-best"))
        assert (folder / "submit_results.tsv").exists()
        assert (tmp_path / "out" / "submission" / row.submission_file).exists()
        assert f"\n{task} {state.best_step} {state.best}\n" in done.stdout
    assert_says(done.stdout, "step 0 ... model.ckpt-best")


def test_tasks_without_data_are_named(commands, run_glue, tmp_path):
    data = tmp_path / "some"
    for task in ("RTE", "MRPC"):
        shutil.copytree(tiny.GLUE_DATA / task, data / task)
    assert [values_of(c)["task_name"] for c in commands(GLUE_DIR=data)[::2]] == ["RTE", "MRPC"]
    done = run_glue(GLUE_DIR=data, PYTHON="true", OUTPUT_DIR="gs://bucket")
    absent = re.findall(rf"Left out, as there is no {data}/\S+/train\.tsv: (\S+)", done.stderr)
    assert absent == [task for task in RECIPES if task not in ("RTE", "MRPC")]


@pytest.mark.parametrize(
    ("flags", "variables", "message"),
    [
        ([], {"TASKS": "RTE WNLI"}, "WNLI"),
        ([], {"TASKS": "RTE", "GLUE_DIR": "nowhere"}, "nowhere/RTE/train.tsv"),
        ([], {"GLUE_DIR": "nowhere"}, "GLUE_DIR=nowhere"),
        ([], {"ALBERT_DIR": ""}, "ALBERT_DIR ... ALBERT_HUB"),
        ([], {"SIZE": "huge"}, "SIZE=huge"),
        ([], {"STEPS_DIVISOR": "0"}, "STEPS_DIVISOR=0"),
        (["--glue_submission_dir=out"], {}, "OUTPUT_DIR/submission ... OUTPUT_DIR"),
    ],
)
def test_bad_input_is_one_line(run_glue, flags, variables, message):
    done = run_glue(*flags, **variables)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("run_glue.sh: error: ")
    assert_names(last, message)


def test_other_tasks_go_on_after_one_that_fails(run_glue, shell):
    fail = shell('echo "$@"\ncase "$*" in *CoLA*--do_train*|*RTE*--do_predict) exit 1;; esac')
    done = run_glue(PYTHON=fail, TASKS="CoLA RTE MRPC", OUTPUT_DIR="gs://bucket")
    assert done.returncode == 1
    assert re.findall(r"^=== (\S+) ===$", done.stdout, re.M) == ["CoLA", "RTE", "MRPC"]
    assert done.stdout.count("--task_name=CoLA") == 1  # nothing to evaluate
    assert done.stdout.count("--task_name=MRPC") == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last == "run_glue.sh: error: these tasks failed, for the reasons above: CoLA RTE"


def test_stopping_by_hand_stops_all(run_glue, shell):
    done = run_glue(PYTHON=shell("exit 130"))
    assert done.returncode == 130 and done.stdout.count("===") == 2
