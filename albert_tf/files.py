# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files: each is written under a temporary name and then renamed.

Temporary names are hidden and name the process that writes: `.albert_tf-<host>-<process>-...`. If a
process is killed, the next process that writes to the directory recognises and removes its files.
"""

import codecs
import contextlib
import glob
import hashlib
import itertools
import json
import os
import re
import secrets
import socket
import time

import tensorflow as tf

from albert_tf.errors import UserError, decode, parse_json

# === Names that belong to a process ===

# With the namespace of the ids of processes: containers may have the name of their host.
_NAMESPACE = "/proc/self/ns/pid"
_HOST = re.sub(
    r"[^\w.]+",
    "_",
    socket.gethostname() + (os.readlink(_NAMESPACE) if os.path.lexists(_NAMESPACE) else ""),
)
_PATTERN = re.compile(r"\.albert_tf-(?P<host>[\w.]*)-(?P<process>\d+)-(?P<run>\w+)-\d+\.tmp")
_LEFT_SECONDS = 24 * 3600  # a temporary file unchanged for so long is abandoned
_runs = {}  # process id -> random part, since a later process can get the same id
_numbers = itertools.count()
_HASHED_TOGETHER = 1 << 18  # bytes
_POINTER = b"version https://git-lfs"  # how a file of Git LFS begins
_cleaned = set()  # directories from which this process has removed leftovers

# === Encodings ===

# UTF-32 first, because its mark of little-endian numbers begins like that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Text may have many U+0001 or U+0002, which separate parts of its cells.
_CONTROLS = bytes(set(range(32)) - set(b"\1\2\t\n\v\f\r\x1b"))
# Of the bytes: in UTF-16, half of those of Latin letters are zero, and of Cyrillic ones are four.
_MANY_CONTROLS = 0.1
_PRINTABLE = 0.9  # of the characters of a text in UTF-16


def temporary_path(path):
    """Hidden temporary name next to a path, for a file that is renamed to it when complete.

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
    """Removes temporary files that are a day old, or of processes of this host that have ended.

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
    """Whether a process has ended; False for processes of other hosts, where it is unknown."""
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
    if tf.io.gfile.isdir(path):  # a remote directory itself has no modification time
        for folder, _, names in tf.io.gfile.walk(path):
            paths += [os.path.join(folder, name) for name in names]
    with contextlib.suppress(tf.errors.NotFoundError):  # its process is still working on it
        newest = max(tf.io.gfile.stat(path).mtime_nsec for path in paths)
        return newest < (time.time() - _LEFT_SECONDS) * 1e9
    return False


def remove(path):
    """Removes a file, or a directory with its content. Does nothing if the path does not exist."""
    with contextlib.suppress(tf.errors.NotFoundError):
        if tf.io.gfile.isdir(path):
            # If this process is killed here, no part of the directory stays under its name.
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
    """Gives temporary names for `paths`, and renames what is there if the block ends without error.

    Args:
        paths: str, final names of files or of new directories; the directories that hold them are
            made if necessary.

    Yields:
        list of str, names to write to, in the same directories.

    Raises:
        UserError: there is a directory at the place of a file.
    """
    for path in paths:
        make_directory(os.path.dirname(path))
    temporary = [temporary_path(path) for path in paths]
    try:
        yield temporary
        for name, path in zip(temporary, paths, strict=True):
            try:
                tf.io.gfile.rename(name, path, overwrite=True)
            except tf.errors.FailedPreconditionError as error:  # a directory is not replaced
                raise UserError(f"cannot write {path}: {error.message}. Move it away") from error
    except BaseException:
        for name in temporary:
            remove(name)
        raise


@contextlib.contextmanager
def replacing_directory(path):
    """Gives a temporary directory, and renames it to `path` if the block ends without an error.

    Args:
        path: str, the final name; must be absent or an empty directory.

    Yields:
        str, the directory to write into.

    Raises:
        UserError: another process wrote to `path` meanwhile.
    """
    path = path.rstrip("/")
    with replacing(path) as (temporary,):
        make_directory(temporary)
        yield temporary
        if tf.io.gfile.isdir(path):
            if tf.io.gfile.listdir(path):
                raise UserError(f"{path} was written by another process meanwhile: it stays")
            tf.io.gfile.rmtree(path)


@contextlib.contextmanager
def writing(path, mode="wb"):
    """Gives an open file, which appears at `path` if the block ends without an error."""
    with replacing(path) as (name,), tf.io.gfile.GFile(name, mode) as file:
        yield file


def write_text(path, text):
    """Writes a text file."""
    with writing(path, "w") as file:
        file.write(text)


def write_bytes(contents):
    """Writes files, none of which is replaced before all are complete.

    Args:
        contents: dict of path -> bytes.
    """
    with replacing(*contents) as temporary:
        for name, content in zip(temporary, contents.values(), strict=True):
            with tf.io.gfile.GFile(name, "wb") as file:
                file.write(content)


def json_bytes(values):
    """Values as the content of a JSON file, with sorted keys."""
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode("utf-8")


@contextlib.contextmanager
def reading(path):
    """Context that replaces TensorFlow's error about a file by a UserError that names the file."""
    try:
        yield
    except tf.errors.OpError as error:
        raise UserError(f"cannot read {path}: {error.message.removeprefix(f'{path}; ')}") from error


def read_bytes(path):
    """Reads a file.

    Raises:
        UserError: the file cannot be read; the message names it.
    """
    with reading(path), tf.io.gfile.GFile(path, "rb") as file:
        content = file.read()
    check_no_pointer(path, content)
    return content


def check_content(path):
    """Raises UserError if a file cannot be read, or holds a pointer in place of its content."""
    with reading(path), tf.io.gfile.GFile(path, "rb") as file:
        start = file.read(len(_POINTER))
    check_no_pointer(path, start)


def check_no_pointer(path, content):
    """Raises UserError if a file whose content begins so (bytes) is a pointer of Git LFS."""
    if content.startswith(_POINTER):
        raise UserError(f"{path} is only a pointer to the file in Git LFS: run git lfs pull")


def sha256(path):
    """SHA-256 hash of a file, in hexadecimal digits; errors are as of `read_bytes`."""
    content = hashlib.sha256()
    with reading(path), tf.io.gfile.GFile(path, "rb") as file:
        while block := file.read(_HASHED_TOGETHER):
            content.update(block)
    return content.hexdigest()


def encoding_of(head):
    """The encoding of a text, with a byte order mark or without.

    Args:
        head: bytes, how the text begins; some lines of it tell most.

    Returns:
        str, a codec of Python; None if this is no text. Text in any other encoding seems to be
        UTF-8, which it turns out not to be.
    """
    if mark := next(filter(head.startswith, _MARKS), None):
        return _MARKS[mark]
    has_many_controls = len(head.translate(None, _CONTROLS)) < (1 - _MANY_CONTROLS) * len(head)
    if not has_many_controls and (b"\0" not in head or _is_utf8(head)):
        return "utf-8"
    name, text = max(
        ((name, head.decode(name, "ignore")) for name in ("utf-16-le", "utf-16-be")),
        # Otherwise, few different first bytes of characters, since they tell the script.
        key=lambda read: (sum(map(read[1].count, " \t\n")), -len({ord(c) >> 8 for c in read[1]})),
    )
    printable = sum(char.isprintable() or char.isspace() for char in text)
    # Chinese has no spaces, but ends of lines.
    if printable >= _PRINTABLE * len(text) and (has_many_controls or " " in text or "\n" in text):
        return name
    return None if has_many_controls else "utf-8"


def _is_utf8(head):
    """Whether bytes are UTF-8, of which the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def read_text(path):
    """Reads a text file without its byte order mark; gives "" if there is no such file.

    Raises:
        UserError: the file cannot be read, or is not UTF-8.
    """
    if not tf.io.gfile.exists(path):
        return ""
    return decode(read_bytes(path), path).removeprefix("\ufeff")


def read_json(path):
    """Reads a JSON file.

    Raises:
        UserError: the file cannot be read, or is not JSON.
    """
    return parse_json(read_bytes(path), path)


def matches_in(directory, pattern):
    """Paths in a directory, whose name is no pattern, that match a glob pattern: list of str."""
    return tf.io.gfile.glob(os.path.join(glob.escape(directory), pattern))


# === Files and directories that flags name ===


def expand_patterns(patterns, flag):
    """Files that match comma-separated glob patterns, in the order of the patterns.

    Args:
        patterns: str, comma-separated globs, in which ** stands for any directories, but not of
            remote files. The matches of one pattern come in sorted order; hidden files match only
            if the pattern has the dot too, and directories never.
        flag: str, name of the flag that gave the patterns, for the message.

    Raises:
        UserError: there is no pattern, or a pattern matches no file.
    """
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    if not wanted:
        raise UserError(f"--{flag} is empty; give one or more file names or glob patterns")
    found = []
    for pattern in wanted:
        try:
            if tf.io.gfile.exists(pattern):  # a name such as text[1].txt is no pattern
                matches = [pattern]
            elif "**" in pattern and "://" not in pattern:  # TensorFlow reads ** as *
                matches = glob.glob(pattern, recursive=True)
            else:
                matches = [x for x in tf.io.gfile.glob(pattern) if not _is_hidden(x, pattern)]
        except tf.errors.OpError as error:
            raise UserError(f"--{flag}: cannot look up {pattern!r}: {error.message}") from error
        if not matches:
            is_split = tf.io.gfile.exists(patterns) or "{" in pattern
            hint = ". Write ? in place of a comma in a name, and no braces" * is_split
            raise UserError(f"--{flag}: no file matches {pattern!r}{hint}")
        # Remote checks take time, so only names that are not patterns are checked there.
        checked = (path for path in matches if "://" not in path or path == pattern)
        directories = set(filter(tf.io.gfile.isdir, checked))
        if directories.issuperset(matches):
            remedy = f"name the files in it: '{os.path.join(min(directories), '*')}'"
            raise UserError(f"--{flag}: {min(directories)} is a directory; {remedy}")
        found.extend(sorted({*matches} - directories))
    return found


def _is_hidden(path, pattern):
    """Whether a part of a path begins with a dot that the pattern's part does not begin with."""
    parts = zip(reversed(path.split("/")), reversed(pattern.split("/")), strict=False)
    return any(part.startswith(".") and not wanted.startswith(".") for part, wanted in parts)


def make_directory(path):
    """Makes a directory and its parents.

    Raises:
        UserError: the directory cannot be made; the message names it.
    """
    try:
        tf.io.gfile.makedirs(path or ".")
    except (tf.errors.OpError, OSError) as error:
        raise UserError(f"cannot make the directory {path}: {error}") from error


def check_writable(directory, flag, file=None):
    """Checks that files can be written to a directory, and makes the directory if necessary.

    Args:
        directory: str.
        flag: str, name of the flag that gave it, for the message.
        file: str, the value of the flag if it is a file in the directory.

    Raises:
        UserError: files cannot be written there, or TensorFlow could not read them again.
    """
    if not directory:
        raise UserError(f"--{flag} is empty: give a directory (. for the current one)")
    wild = sorted({*directory} & {*"[*?"})
    if wild:  # TensorFlow writes a prefix as a name and reads it as a pattern
        raise UserError(f"--{flag}={directory}: choose a name without {wild[0]}, used in patterns")
    try:
        make_directory(directory)
        probe = temporary_path(os.path.join(directory, "probe"))
        with tf.io.gfile.GFile(probe, "w") as opened:
            opened.write("")
        tf.io.gfile.remove(probe)
    except (tf.errors.OpError, OSError, UserError) as error:
        shown = f"{file}: {directory}" if file else directory
        raise UserError(f"--{flag}={shown} is not writable: {error}") from error


def check_file_writable(path, flag, taken=frozenset()):
    """Checks that a file can be written, and makes its directory if necessary.

    Args:
        path: str, the file to be written later. An existing file is not changed.
        flag: str, name of the flag that gave it, for the message.
        taken: set of str, `real_path` of the files that the command reads, or writes too.

    Raises:
        UserError: the file cannot be written, or is taken.
    """
    if tf.io.gfile.isdir(path):
        raise UserError(f"--{flag}: {path} is a directory; give a file name")
    if real_path(path) in taken:
        raise UserError(f"--{flag}: {path} is an input file or named twice: give another name")
    check_writable(os.path.dirname(path) or ".", flag, path)


def absolute_path(path):
    """A path that does not depend on the current directory; a remote path as it is."""
    return path if "://" in path else os.path.abspath(path)


def real_path(path):
    """An absolute path without symbolic links; a remote path as it is."""
    return path if "://" in path else os.path.realpath(path)
