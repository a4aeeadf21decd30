# SPDX-License-Identifier: Apache-2.0
"""Processes that answer questions in turns, so that other work of the machine affects all of them.

It needs nothing of this project, so it runs in an environment of its own (--peer_python) too.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

import numpy as np


def clocks():
    """Seconds of the wall and of this process on all cores together."""
    return np.array([time.perf_counter(), time.process_time()])


def timed(function, *args, **options):
    """Returns what `clocks` measures of a call, and the result of the call."""
    before = clocks()
    result = function(*args, **options)
    return clocks() - before, result


def processor_seconds(function, *args):
    """Seconds that this process computes in a call; other processes do not lengthen them."""
    return timed(function, *args)[0][1]


def serve(prepare):
    """Answers the questions of a `Worker`: JSON values, one on each line of the standard input.

    Args:
        prepare: callable without arguments that returns the callable question -> answer.
    """
    output, start = sys.stdout, time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):  # what libraries print is no answer
        answer = prepare()
        print(json.dumps(time.perf_counter() - start), file=output, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), file=output, flush=True)


class Worker(contextlib.AbstractContextManager):
    """A process that runs `serve`; it ends with the block.

    Args:
        command: list of str.

    Attributes:
        start: float, seconds that its preparation took.
    """

    def __init__(self, command):
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.start = self._read()

    def __exit__(self, *_):
        self._process.communicate()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            command = " ".join(self._process.args)
            sys.exit(f"a process ended with exit code {self._process.wait()}: {command}")
        return json.loads(line)

    def ask(self, question=None):
        """The answer to a question: JSON values."""
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._read()
