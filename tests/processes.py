# SPDX-License-Identifier: Apache-2.0
"""Python in processes of its own."""

import os
import subprocess
import sys

from tests import ROOT


def run_python(*words, cwd=ROOT, env=None, timeout=300, check=False):
    """Runs Python with the words of a command; returns the process with its output as text."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=check
    )


def run_with_closed_output(*words):
    """Runs Python while nobody reads its standard output; returns the process with its stderr."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    return done


def lines_of_code(code, cwd):
    """Lines that code prints in a process that cannot import this project."""
    done = run_python("-I", "-c", code, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()
