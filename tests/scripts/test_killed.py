# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed again and again end as those that never were, bit for bit."""

import random
import subprocess
import sys
import time

import pytest

from albert_tf.checkpoints import run_directory
from albert_tf.training import history
from tests import ROOT, tiny
from tests.scripts.test_run_pretraining import assert_same_variables, read_variables
from tests.scripts.test_workers import JOBS, log_of, started

pytestmark = pytest.mark.long
STEPS, KILLS = 320, 8


class Process:
    """A run of the script in a process of its own."""

    def __init__(self, flags):
        self._directory = flags["output_dir"]
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        command = [sys.executable, str(ROOT / "run_pretraining.py"), *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(command, cwd=ROOT, **pipes)

    def wait_for_step(self, step, seconds=900.0):
        """Waits until it has written metrics of a step, has ended, or some time has passed."""
        end = time.time() + seconds
        while self.process.poll() is None and last_step(self._directory) < step:
            if time.time() > end:
                return
            time.sleep(0.005)

    def output(self):
        return self.process.communicate(timeout=900)[0]


def last_step(directory):
    """The last step of a run that its history tells of."""
    path = directory / history.FILE
    lines = path.read_text().splitlines() if path.exists() else []
    return int(lines[-1].split(",")[0]) if len(lines) > 1 else 0


def saved_step(directory):
    """The step of a run's newest checkpoint, 0 if there is none."""
    found = run_directory.numbered_in(str(directory))
    return found[-1][0] if found else 0


@pytest.fixture
def flags(tmp_path):
    steps = {"num_train_steps": STEPS, "iterations_per_loop": 5, "gradient_accumulation_steps": 2}
    steps["shuffle_buffer_size"] = 20  # several windows in each epoch
    return tiny.many_steps(tmp_path) | steps


def test_a_killed_run_ends_as_one_that_never_was(flags, tmp_path):
    flags |= {"distribution_strategy": "one_device", "save_checkpoints_steps": 20}
    start = time.time()
    whole = Process(flags | {"output_dir": tmp_path / "whole"})
    whole.wait_for_step(1)
    starting = time.time() - start
    assert f"Trained to step {STEPS}" in whole.output()
    flags |= {"output_dir": tmp_path / "killed"}
    moments, step = random.Random(1), 0
    for number in range(KILLS):
        run = Process(flags)
        if number % 4:  # else while it starts
            run.wait_for_step(step + moments.randint(1, 2 * STEPS // KILLS))
            time.sleep(moments.uniform(0, 0.1))
        else:
            run.wait_for_step(step + 1, moments.uniform(0, starting))
        run.process.kill()
        assert "run_pretraining: error" not in run.output()
        step = saved_step(tmp_path / "killed")
        if step == STEPS:
            break
    assert number > KILLS // 4  # it is killed on its way
    assert "run_pretraining: error" not in Process(flags).output()
    assert_same_ends(tmp_path / "killed", tmp_path / "whole", STEPS)


def assert_same_ends(directory, other, step):
    """Compares all that the newest checkpoints of two runs hold: weights, moments, seed, step."""
    newest = [run_directory.latest_in(str(folder)) for folder in (directory, other)]
    found = read_variables(newest[0])
    assert found["global_step"] == step
    assert "seed" in found and any(name.endswith("adam_m") for name in found)
    assert_same_variables(*newest)


def test_two_killed_workers_end_as_two_that_never_were(flags, tmp_path):
    flags |= {"save_checkpoints_steps": 50}

    def workers(directory):
        return started(flags | {"output_dir": directory}, JOBS["workers"], tmp_path)

    def train_to_the_end(directory):
        with workers(directory) as processes:
            for number, process in enumerate(processes):
                assert process.wait(timeout=900) == 0, log_of(tmp_path, number)

    train_to_the_end(tmp_path / "whole")
    moments, killed = random.Random(1), tmp_path / "killed"
    for earliest in (1, 120):
        step = earliest + moments.randrange(100)
        with workers(killed) as processes:
            while last_step(killed) < step:
                assert all(process.poll() is None for process in processes), [
                    log_of(tmp_path, number) for number in (0, 1)
                ]
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 0.1))
        if saved_step(killed) == STEPS:
            break
    assert earliest > 1  # it is killed on its way
    assert saved_step(killed) > 0
    train_to_the_end(killed)
    assert_same_ends(killed, tmp_path / "whole", STEPS)
