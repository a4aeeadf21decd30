# SPDX-License-Identifier: Apache-2.0
"""Locks, so that only one process at a time trains, evaluates or writes in a directory.

A lock is a file, `<purpose>.lock`, that names the process and host that hold it. On local disks and
network mounts the kernel locks the file (`flock`) and frees it when the process ends or crashes.
Other file systems, such as gs://, have no such locks. There the holder rewrites the file every few
seconds, and a lock that is no longer renewed is free.
"""

import contextlib
import fcntl
import itertools
import os
import socket
import threading
import time

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError

RENEW_SECONDS = 15.0  # between two renewals of a lock, where there is no flock
LOST_SECONDS = 90.0  # a lock that was not renewed for so long is free


@contextlib.contextmanager
def locked(directory, *purposes):
    """Holds locks of a directory while the block runs.

    Args:
        directory: str, made if necessary.
        purposes: str, such as "training"; each has its own lock.

    Raises:
        UserError: another process holds one of the locks.
    """
    files.make_directory(directory)
    with contextlib.ExitStack() as held:
        for purpose in purposes:
            path = os.path.join(directory, f"{purpose}.lock")
            held.enter_context(_renewed(path) if "://" in path else _held_by_kernel(path))
        yield


@contextlib.contextmanager
def _held_by_kernel(path):
    with contextlib.ExitStack() as held:
        is_ours = False
        while not is_ours:
            file = held.enter_context(open(path, "a+", encoding="utf-8"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _in_use(path) from None
            except OSError:  # this mount has no locks
                held.enter_context(_renewed(path))
                break
            with contextlib.suppress(FileNotFoundError):  # the previous holder has just removed it
                is_ours = os.path.samefile(path, file.fileno())
        if is_ours:
            file.truncate(0)
            print(_name(), file=file, flush=True)
            held.callback(files.remove, path)
        yield


@contextlib.contextmanager
def _renewed(path):
    before, deadline = files.read_text(path), time.monotonic() + LOST_SECONDS
    if before:
        print(f"{path} is of process {before.strip()}: waiting to see whether that runs")
    while before and tf.io.gfile.exists(path) and time.monotonic() < deadline:
        time.sleep(min(1.0, RENEW_SECONDS))
        if files.read_text(path) not in (before, ""):
            raise _in_use(path)
    ended = threading.Event()
    files.write_text(path, f"{_name()}\n")

    def renew():
        for count in itertools.count(1):
            if ended.wait(RENEW_SECONDS):
                return
            # The next renewal may succeed.
            with contextlib.suppress(tf.errors.OpError, UserError):
                files.write_text(path, f"{_name()}, sign of life {count}\n")

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        files.remove(path)


def _name():
    return f"{os.getpid()} on host {socket.gethostname()}"


def _in_use(path):
    directory, name = os.path.split(path)
    purpose, holder = name.removesuffix(".lock"), files.read_text(path).strip()
    return UserError(
        f"{directory} is in use: process {holder} is {purpose} there. Wait until it ends, or "
        "choose another directory"
    )
