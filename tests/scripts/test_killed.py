# SPDX-License-Identifier: Apache-2.0
"""A run that is killed again and again ends as one that never was, bit for bit."""

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from albert_tf.checkpoints import readers, run_directory
from tests import ROOT
from tests.scripts import quick_runs

pytestmark = pytest.mark.slow
STEPS, KILLS = 900, 20


def start(flags):
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py"), *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def variables(directory):
    reader = readers.TensorFlowReader(run_directory.latest_in(str(directory)))
    return {name: reader[name] for name in reader.shapes}


def test_a_killed_run_ends_as_one_that_never_was(tmp_path):
    flags = quick_runs.flags_of_two_workers(tmp_path) | {
        "distribution_strategy": "one_device",
        "num_train_steps": STEPS,
        "save_checkpoints_steps": 40,
        "iterations_per_loop": 15,
        "gradient_accumulation_steps": 2,
        "shuffle_buffer_size": 20,  # several windows in each epoch
        "optimizer": "lamb",
    }
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    output, _ = start(flags | {"output_dir": whole}).communicate(timeout=600)
    assert f"Trained to step {STEPS}" in output, output
    wanted = variables(whole)
    moments = random.Random(1)
    for _ in range(KILLS):
        process = start(flags | {"output_dir": killed})
        # Some before the first step, most while it trains, evaluates or saves.
        time.sleep(moments.uniform(5, 25))
        process.kill()
        output, _ = process.communicate()
        assert "error" not in output, output
    output, _ = start(flags | {"output_dir": killed}).communicate(timeout=600)
    assert f"Trained to step {STEPS}" in output or "Nothing left to train" in output, output
    found = variables(killed)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
