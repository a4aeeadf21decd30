# SPDX-License-Identifier: Apache-2.0
"""One process at a time works in a directory, and one that was killed keeps nobody out."""

import contextlib
import os
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from albert_tf import files, locks
from albert_tf.errors import UserError
from tests.errors import assert_says, refuses

HOLD = """
import sys
from albert_tf import locks
with locks.locked(sys.argv[1], "training"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
def test_a_lock_keeps_other_processes_out_until_its_process_is_killed(tmp_path):
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], text=True, **pipes)
    assert process.stdout.readline() == "locked\n"
    with refuses(process.pid), locks.locked(str(tmp_path), "evaluating", "training"):
        pass
    with locks.locked(str(tmp_path), "evaluating"):  # another purpose
        process.kill()
        process.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["training.lock"]
    with locks.locked(str(tmp_path), "training"):
        assert str(os.getpid()) in (tmp_path / "training.lock").read_text()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "another-host 7 0123abcd\n", f"gone {os.getppid()} ab"])
def test_what_is_written_in_a_lock_keeps_nobody_out(content, tmp_path):
    """A process of another host that is gone, or one of this host that has the same number."""
    (tmp_path / "training.lock").write_text(content)
    with locks.locked(str(tmp_path), "training"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_removed_meanwhile_is_made_again(tmp_path, monkeypatch):
    path, flock = tmp_path / "training.lock", locks.fcntl.flock
    removals = iter([path.unlink])

    def removing(*arguments):
        next(removals, lambda: None)()
        flock(*arguments)

    monkeypatch.setattr(locks.fcntl, "flock", removing)
    with locks.locked(str(tmp_path), "training"):
        assert str(os.getpid()) in path.read_text()


@pytest.fixture(params=["remote", "mount without locks"])
def unlockable(request, monkeypatch, tmp_path):
    """A directory on a file system without locks."""

    def refuse(*_):
        raise OSError("No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    monkeypatch.setattr(locks, "RENEW_SECONDS", 0.01)
    return f"ram://{tmp_path}" if request.param == "remote" else str(tmp_path)


def test_elsewhere_a_lock_that_is_renewed_keeps_others_out(unlockable):
    with (
        locks.locked(unlockable, "training"),
        refuses(f"{os.getpid()}"),
        locks.locked(unlockable, "training"),
    ):
        pass
    assert not tf.io.gfile.exists(f"{unlockable}/training.lock")


def test_elsewhere_a_lock_that_is_not_renewed_is_taken_over(unlockable, monkeypatch, capsys):
    files.write_text(f"{unlockable}/training.lock", "7 on host elsewhere, sign of life 3\n")
    monkeypatch.setattr(locks, "LOST_SECONDS", 0.05)
    with locks.locked(unlockable, "training"), contextlib.suppress(UserError):
        assert_says(capsys.readouterr().out, "training.lock ... 7")
    assert not tf.io.gfile.exists(f"{unlockable}/training.lock")


def test_elsewhere_a_renewal_that_fails_is_tried_again(unlockable, monkeypatch):
    path, makedirs, failures = f"{unlockable}/training.lock", tf.io.gfile.makedirs, []

    def fail_once(directory):
        if not failures:
            failures.append(files.read_text(path))
            raise tf.errors.UnavailableError(None, None, "no connection")
        makedirs(directory)

    with locks.locked(unlockable, "training"):
        monkeypatch.setattr(tf.io.gfile, "makedirs", fail_once)
        deadline = time.monotonic() + 5
        while not failures or files.read_text(path) == failures[0]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
