# SPDX-License-Identifier: Apache-2.0
"""Forked processes with limits: what a case costs is its own work, not the import of TensorFlow."""

import atexit
import contextlib
import os
import resource
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from tests import ROOT

MEMORY = 8 * 2**30  # bytes of data that a process can ask for; what it may use is judged later
POLL = 0.005  # seconds
PATIENCE = 5  # a process may wait so many times as long as it may compute: others work too


class Outcome(NamedTuple):
    """How a process ended."""

    code: int  # exit code; negative for a signal, as in `subprocess`
    output: str  # standard output
    errors: str  # standard error
    seconds: float
    memory: int  # bytes, the largest resident size
    timed_out: bool  # whether it was killed at a time limit


def import_all():
    """Imports what the scripts import, before the first fork; runs no operation of TensorFlow."""
    import tensorflow_text  # noqa: F401

    import run_squad  # noqa: F401  (the library with all that it needs)
    from albert_tf.corpus import build  # noqa: F401


def run_script(argv, directory, seconds, interrupt=None):
    """Outcome of a script in a directory; argv begins with its path, or with a module's name.

    It may compute for so many seconds. `interrupt` is called with the seconds passed, and returns
    0 or a signal, which is sent once.
    """

    def run():
        sys.argv = [str(ROOT / argv[0]), *argv[1:]]
        if argv[0].endswith(".py"):
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            sys.modules.pop(argv[0], None)  # else runpy warns
            runpy.run_module(argv[0], run_name="__main__", alter_sys=True)

    return fork(run, directory, seconds, interrupt)


def fork(function, directory, seconds, interrupt=None):
    """Outcome of a function in a process of its own; the arguments are those of `run_script`."""
    logs = [Path(f"{directory}.{name}") for name in ("output", "errors")]
    for path in logs:
        path.write_bytes(b"")
    start = time.monotonic()
    process = os.fork()
    if not process:
        _child(function, directory, logs, seconds)
    timed_out = False
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            break
        passed = time.monotonic() - start
        if interrupt and (number := interrupt(passed)):
            os.kill(process, number)
            interrupt = None
        if passed > PATIENCE * seconds and not timed_out:
            timed_out = True
            os.kill(process, signal.SIGKILL)
        time.sleep(POLL)
    passed = time.monotonic() - start
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # processes that it started and left
    output, errors = (path.read_text(encoding="utf-8", errors="replace") for path in logs)
    code = os.waitstatus_to_exitcode(status)
    timed_out |= usage.ru_utime + usage.ru_stime > seconds - 1 and code == -signal.SIGKILL
    return Outcome(code, output, errors, passed, usage.ru_maxrss * 1024, timed_out)


def _child(function, directory, logs, seconds):
    """Never returns: runs the function with the files as output, then ends the process."""
    code = 70  # of a mistake in this function
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(directory)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(logs, start=1):
            os.dup2(os.open(path, os.O_WRONLY), number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = _exit_code(function)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _exit_code(function):
    try:
        function()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
