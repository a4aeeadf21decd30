# SPDX-License-Identifier: Apache-2.0
"""A run that is killed again and again ends as one that never was, bit for bit."""

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf.checkpoints import readers, run_directory
from albert_tf.training import history
from tests import ROOT
from tests.scripts import quick_runs

pytestmark = pytest.mark.long
STEPS, KILLS = 400, 20


class Process:
    """A run of the script in a process of its own."""

    def __init__(self, flags):
        self._history = flags["output_dir"] / history.FILE
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "run_pretraining.py"), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for_step(self, step):
        """Waits until it has written figures of a step, or has ended."""
        while self.process.poll() is None and self._last_step() < step:
            time.sleep(0.005)

    def _last_step(self):
        lines = self._history.read_text().splitlines() if self._history.exists() else []
        return int(lines[-1].split(",")[0]) if len(lines) > 1 else 0

    def output(self):
        return self.process.communicate(timeout=900)[0]


def variables(directory):
    reader = readers.TensorFlowReader(run_directory.latest_in(str(directory)))
    return {name: reader[name] for name in reader.shapes}


def test_a_killed_run_ends_as_one_that_never_was(tmp_path):
    flags = quick_runs.flags_of_two_workers(tmp_path) | {
        "distribution_strategy": "one_device",
        "num_train_steps": STEPS,
        "save_checkpoints_steps": 20,
        "iterations_per_loop": 5,
        "gradient_accumulation_steps": 2,
        "shuffle_buffer_size": 20,  # several windows in each epoch
    }
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
            time.sleep(moments.uniform(0, starting))
        run.process.kill()
        assert "run_pretraining: error" not in run.output()
        found = run_directory.numbered_in(str(tmp_path / "killed"))
        step = found[-1][0] if found else 0
        assert number > KILLS // 2 or step < STEPS  # it is killed on its way
    assert "run_pretraining: error" not in Process(flags).output()
    wanted, found = variables(tmp_path / "whole"), variables(tmp_path / "killed")
    assert found["global_step"] == STEPS
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
