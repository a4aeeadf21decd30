# SPDX-License-Identifier: Apache-2.0
"""Python in processes of its own."""

import subprocess
import sys

from tests import ROOT


def run_python(*words, cwd=ROOT, env=None, timeout=300, check=False):
    """Runs Python with the words of a command; returns the process with its output as text."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=check
    )


def lines_of_code(code, cwd):
    """Lines that code prints in a process that cannot import this project."""
    done = run_python("-I", "-c", code, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()
