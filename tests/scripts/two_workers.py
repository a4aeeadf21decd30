# SPDX-License-Identifier: Apache-2.0
"""Pre-training with two real processes that talk over loopback."""

import contextlib
import os
import subprocess
import sys
import time

from tests import ROOT
from tests.training.clusters import cluster, free_addresses

JOBS = {"workers": [("worker", 0), ("worker", 1)], "chief": [("chief", 0), ("worker", 0)]}


@contextlib.contextmanager
def started(flags, jobs, tmp_path, delay=0.0):
    """Processes of a cluster of two, the second started later; killed if the block leaves any."""
    addresses = {}
    for (kind, _), address in zip(jobs, free_addresses(len(jobs)), strict=True):
        addresses.setdefault(kind, []).append(address)
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    processes = []
    try:
        for number, (kind, index) in enumerate(jobs):
            task = {"TF_CONFIG": cluster(kind=kind, index=index, **addresses)}
            with open(tmp_path / f"log-{number}", "w") as log:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, str(ROOT / "run_pretraining.py"), *arguments],
                        cwd=tmp_path,
                        env=environment | task,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
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
