# SPDX-License-Identifier: Apache-2.0
"""Pre-training with two real processes that talk over loopback."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

from tests import ROOT

JOBS = {"workers": [("worker", 0), ("worker", 1)], "chief": [("chief", 0), ("worker", 0)]}


@contextlib.contextmanager
def started(flags, jobs, tmp_path, delay=0.0):
    """Processes of a cluster of two, the second started later; killed if the block leaves any."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("localhost", 0))) for _ in jobs]
        addresses = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    cluster = {}
    for (kind, _), address in zip(jobs, addresses, strict=True):
        cluster.setdefault(kind, []).append(address)
    processes = []
    try:
        for number, (kind, index) in enumerate(jobs):
            task = {"cluster": cluster, "task": {"type": kind, "index": index}}
            arguments = [f"--{name}={value}" for name, value in flags.items()]
            with open(tmp_path / f"log-{number}", "w") as log:
                processes.append(
                    subprocess.Popen(
                        [sys.executable, str(ROOT / "run_pretraining.py"), *arguments],
                        cwd=tmp_path,
                        env={
                            **os.environ,
                            "PYTHONPATH": str(ROOT),
                            "PYTHONUNBUFFERED": "1",
                            "TF_CONFIG": json.dumps(task),
                        },
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
