# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: written under a temporary name, then renamed.

Temporary names are hidden, and say which process writes them: `.albert_tf-<host>-<process>-...`.
Files that a killed process left are recognised by that, and removed by the next that writes there.
"""

import contextlib
import itertools
import json
import os
import re
import secrets
import socket
import time

import tensorflow as tf

from albert_tf.errors import UserError, parse_json

# === Names that belong to a process ===

_HOST = re.sub(r"[^\w.]", "_", socket.gethostname())
_PATTERN = re.compile(r"\.albert_tf-(?P<host>[\w.]*)-(?P<process>\d+)-(?P<run>\w+)-\d+\.tmp")
_LEFT_SECONDS = 24 * 3600  # without a change, after which a temporary file is of no process
_runs = {}  # process id -> random part: one of two processes that got the same id in turn
_numbers = itertools.count()
_cleaned = set()  # directories that this process has freed of leftovers


def temporary_path(path):
    """A hidden name next to a path, for what is renamed to it when it is whole.

    Args:
        path: str, the final name; leftovers in its directory are removed.
    """
    directory = os.path.dirname(path)
    if directory not in _cleaned:
        _cleaned.add(directory)
        remove_leftovers(directory)
    name = f".albert_tf-{_HOST}-{os.getpid()}-{_run()}-{next(_numbers)}.tmp"
    return os.path.join(directory, name)


def _run():
    return _runs.setdefault(os.getpid(), secrets.token_hex(4))


def remove_leftovers(directory):
    """Removes the temporary files of processes of this host that ended, and those a day old.

    Args:
        directory: str.
    """
    if not tf.io.gfile.isdir(directory or "."):
        return
    for name in tf.io.gfile.listdir(directory or "."):
        match, path = _PATTERN.match(name), os.path.join(directory, name.rstrip("/"))
        if match and (_has_ended(**match.groupdict()) or _is_old(path)):
            remove(path)


def _has_ended(host, process, run):
    """Whether a process does not run any more; nobody can tell it of those of another host."""
    if host != _HOST:
        return False
    if int(process) == os.getpid():
        return run != _run()  # an earlier process had the same id
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _is_old(path):
    """Whether nothing in a file or directory has changed for a day."""
    paths = [path]
    if tf.io.gfile.isdir(path):  # a remote one has no time itself
        for folder, _, names in tf.io.gfile.walk(path):
            paths += [os.path.join(folder, name) for name in names]
    with contextlib.suppress(tf.errors.NotFoundError):  # its process is at work
        newest = max(tf.io.gfile.stat(path).mtime_nsec for path in paths)
        return newest < (time.time() - _LEFT_SECONDS) * 1e9
    return False


def remove(path):
    """Removes a file, or a directory with all that is in it; one that is gone is no error."""
    with contextlib.suppress(tf.errors.NotFoundError):
        if tf.io.gfile.isdir(path):
            # Killed on the way, this process leaves no part of the directory under its name.
            if "://" not in path and not _PATTERN.match(os.path.basename(path.rstrip("/"))):
                hidden = temporary_path(path.rstrip("/"))
                tf.io.gfile.rename(path, hidden)
                path = hidden
            tf.io.gfile.rmtree(path)
        else:
            tf.io.gfile.remove(path)


# === Writing and reading ===


@contextlib.contextmanager
def replacing(*paths):
    """Gives temporary names for `paths`; renames them into place if the block ends well.

    Args:
        paths: str, final names; their directories are made if need be.

    Yields:
        list of str, names to write to, in the same directories.
    """
    for path in paths:
        make_directory(os.path.dirname(path))
    temporary = [temporary_path(path) for path in paths]
    try:
        yield temporary
        for name, path in zip(temporary, paths, strict=True):
            tf.io.gfile.rename(name, path, overwrite=True)
    finally:
        for name in temporary:
            if tf.io.gfile.exists(name):
                remove(name)


@contextlib.contextmanager
def replacing_directory(path):
    """Gives a temporary directory next to `path`; it takes that name if the block ends well.

    Args:
        path: str, where nothing or an empty directory may be.

    Yields:
        str, the directory to write into.

    Raises:
        UserError: another process wrote to `path` meanwhile.
    """
    path = path.rstrip("/")
    make_directory(os.path.dirname(path))
    temporary = temporary_path(path)
    try:
        make_directory(temporary)
        yield temporary
        if tf.io.gfile.isdir(path):
            if tf.io.gfile.listdir(path):
                raise UserError(f"{path} was written by another process meanwhile: it stays")
            tf.io.gfile.rmtree(path)
        tf.io.gfile.rename(temporary, path)
    finally:
        if tf.io.gfile.exists(temporary):
            remove(temporary)


def write_text(path, text):
    """Writes a whole text file."""
    with replacing(path) as (name,), tf.io.gfile.GFile(name, "w") as file:
        file.write(text)


def json_bytes(values):
    """The content of a JSON file, with sorted keys."""
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode("utf-8")


def read_bytes(path):
    """The content of a file.

    Raises:
        UserError: it cannot be read; the message names it.
    """
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read()
    except tf.errors.OpError as error:
        raise UserError(f"cannot read {path}: {error.message}") from error


def read_text(path):
    """Reads a whole text file; an empty string where there is none.

    Raises:
        UserError: it cannot be read, or is not UTF-8.
    """
    if not tf.io.gfile.exists(path):
        return ""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error


def read_json(path):
    """The value in a JSON file.

    Raises:
        UserError: it cannot be read, or is not JSON.
    """
    return parse_json(read_bytes(path), path)


# === Files and directories that flags name ===


def expand_patterns(patterns, flag):
    """Files that match comma-separated glob patterns, in the order of the patterns.

    Args:
        patterns: str, comma-separated globs. The matches of one pattern come in sorted order;
            hidden files and directories match only where the pattern has the dot too.
        flag: str, name of the flag they come from, for the message.

    Raises:
        UserError: a pattern matches no file, or a directory, or there is no pattern.
    """
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    if not wanted:
        raise UserError(f"--{flag} is empty; give one or more file names or glob patterns")
    found = []
    for pattern in wanted:
        matches = [path for path in _glob(pattern, flag) if not _is_hidden(path, pattern)]
        if not matches:
            raise UserError(f"--{flag}: no file matches {pattern!r}")
        for path in matches:
            # Elsewhere, where a look takes time, only what is named without a pattern is checked.
            if ("://" not in path or path == pattern) and tf.io.gfile.isdir(path):
                raise UserError(
                    f"--{flag}: {path} is a directory; name files, as {path.rstrip('/')}/*"
                )
        found.extend(sorted(matches))
    return found


def _glob(pattern, flag):
    try:
        return tf.io.gfile.glob(pattern)
    except tf.errors.OpError as error:
        raise UserError(f"--{flag}: {pattern!r} cannot be looked up: {error.message}") from error


def _is_hidden(path, pattern):
    """Whether a part of a path begins with a dot that the pattern's part does not begin with."""
    parts = zip(reversed(path.split("/")), reversed(pattern.split("/")), strict=False)
    return any(part.startswith(".") and not wanted.startswith(".") for part, wanted in parts)


def make_directory(path):
    """Makes a directory and its parents.

    Raises:
        UserError: it cannot be made; the message names it.
    """
    try:
        tf.io.gfile.makedirs(path or ".")
    except (tf.errors.OpError, OSError) as error:
        raise UserError(f"cannot make the directory {path}: {error}") from error


def check_writable(directory, flag):
    """Finds out before any work whether files can be made in a directory, which is made if need be.

    Args:
        directory: str.
        flag: str, name of the flag that gave it, for the message.

    Raises:
        UserError: they cannot, or TensorFlow could not read them again.
    """
    if not directory:
        raise UserError(f"--{flag} is empty: give a directory (. for the current one)")
    if "[" in directory:  # a prefix is a name when it is written, a pattern when it is read
        raise UserError(
            f"--{flag}={directory} has a [ in its name, which TensorFlow takes for a pattern when "
            "it reads checkpoints. Choose another name"
        )
    try:
        make_directory(directory)
        probe = temporary_path(os.path.join(directory, "probe"))
        with tf.io.gfile.GFile(probe, "w") as file:
            file.write("")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError, UserError) as error:
        raise UserError(f"--{flag}={directory} is not writable: {error}") from error


def check_file_writable(path, flag):
    """Finds out before any work whether a file can be written; its directory is made if need be.

    Args:
        path: str, the file to be written later. A file that is there is not changed.
        flag: str, name of the flag it comes from, for the message.

    Raises:
        UserError: it cannot be written.
    """
    if tf.io.gfile.isdir(path):
        raise UserError(f"--{flag}: {path} is a directory; give a file name")
    check_writable(os.path.dirname(path) or ".", flag)
