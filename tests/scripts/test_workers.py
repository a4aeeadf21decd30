# SPDX-License-Identifier: Apache-2.0
"""Pre-training with two real processes, for a while: together, asked to end, and left alone."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.checkpoints import run_directory
from tests import ROOT, tiny
from tests.errors import assert_names
from tests.training.clusters import cluster, free_addresses

pytestmark = pytest.mark.long

TO_END = 300  # seconds; TensorFlow's check of the other workers delays the end of a process
JOBS = {"workers": [("worker", 0), ("worker", 1)], "chief": [("chief", 0), ("worker", 0)]}


@contextlib.contextmanager
def started(flags, jobs, tmp_path, delay=0.0):
    """Processes of a cluster of two, the second started later; killed if the block leaves any."""
    addresses = {}
    for (kind, _), address in zip(jobs, free_addresses(len(jobs)), strict=True):
        addresses.setdefault(kind, []).append(address)
    command = [sys.executable, str(ROOT / "run_pretraining.py")]
    command += [f"--{name}={value}" for name, value in flags.items()]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    processes = []
    try:
        for number, (kind, index) in enumerate(jobs):
            task = {"TF_CONFIG": cluster(kind=kind, index=index, **addresses)}
            with open(tmp_path / f"log-{number}", "w") as log:
                pipes = {"stdout": log, "stderr": subprocess.STDOUT}
                process = subprocess.Popen(command, cwd=tmp_path, env=environment | task, **pipes)
            processes.append(process)
            time.sleep(delay)
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def log_of(tmp_path, number):
    """What a process of the last cluster started here has printed."""
    return (tmp_path / f"log-{number}").read_text()


@pytest.fixture
def flags(tmp_path):
    return tiny.many_steps(tmp_path)


def wait_for_step(tmp_path, step, processes, seconds=600):
    """Waits for a checkpoint of the run."""
    deadline = time.time() + seconds
    while (run_directory.numbered_in(str(tmp_path / "out")) or [(0, "")])[-1][0] < step:
        assert time.time() < deadline, log_of(tmp_path, 0)
        assert all(process.poll() is None for process in processes), log_of(tmp_path, 1)
        time.sleep(0.2)


@pytest.mark.parametrize(
    ("cluster", "asked"),
    [("workers", 1), *(pytest.param("chief", n, marks=pytest.mark.slow) for n in (0, 1))],
)
def test_two_workers_train_for_a_minute_and_end_when_either_is_asked_to(
    flags, tmp_path, cluster, asked
):
    with started(flags, JOBS[cluster], tmp_path, delay=4) as processes:
        wait_for_step(tmp_path, 200, processes)
        if asked == 1:  # once for each cluster is enough
            time.sleep(60)
        wait_for_step(tmp_path, 400, processes)
        processes[asked].send_signal(signal.SIGTERM)
        for process in processes:
            assert process.wait(timeout=TO_END) == 130, log_of(tmp_path, asked)
    stopped = [re.search(r"Stopped at step (\d+);", log_of(tmp_path, number)) for number in (0, 1)]
    assert stopped[0] and stopped[1] and stopped[0][1] == stopped[1][1]
    latest = run_directory.latest_in(str(tmp_path / "out"))
    assert run_directory.step_of(latest) == int(stopped[0][1])
    evaluated = [log_of(tmp_path, number).count("Evaluation at step 200:") for number in (0, 1)]
    assert evaluated == [1, 1]
    results = (tmp_path / "out" / "eval_results.txt").read_text()
    assert results.count("global_step = 200\n") == 1  # one process writes
    leftovers = [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    assert not leftovers


@pytest.mark.parametrize("lost", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_lost_worker_ends_the_other_with_an_error(flags, tmp_path, lost):
    with started(flags, JOBS["workers"], tmp_path) as processes:
        wait_for_step(tmp_path, 200, processes)
        processes[lost].kill()
        assert processes[1 - lost].wait(timeout=TO_END) == 1
    last = log_of(tmp_path, 1 - lost).strip().splitlines()[-1]
    assert_names(last, "run_pretraining: error: ... newest checkpoint")
