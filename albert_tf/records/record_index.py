# SPDX-License-Identifier: Apache-2.0
"""Counts and offsets of the records in TFRecord files, kept in a JSON file."""

import json
import os
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.records import record_checks, schemas

FILE = "records.json"  # in the directory of a run
_SUMMARY = "summary-"
_ENTRY = ("size", "mtime_nsec", "count", "offsets")
STEP = 4096  # records from one known offset to the next: some MB, quick to skip
_AROUND_RECORD = 16  # bytes of a TFRecord file around the data of a record: length and checksums
_READ_TOGETHER = 1024
_SECONDS_BETWEEN_LINES = 30


class IndexedFile(NamedTuple):
    """A TFRecord file whose records are counted.

    Attributes:
        path: str.
        count: int, of its records.
        offsets: tuple of int, where the records 0, STEP, 2 * STEP ... begin, in bytes; of a
            compressed file, (0,).
    """

    path: str
    count: int
    offsets: tuple


def read(paths, index_file=None, *, save=True, remedy=None):
    """Counts the records of files, or takes the counts of an earlier call for unchanged files.

    Files are identified by path, size and time of the last change. Counting reads whole files,
    checks all checksums, and prints its progress now and then.

    Args:
        paths: sequence of str.
        index_file: str or None, JSON file that keeps the counts.
        save: bool, whether to write new counts to it: only one of several workers may.
        remedy: str or None, a sentence for the message about a damaged file.

    Returns:
        list of IndexedFile, in the order of `paths`.

    Raises:
        UserError: a file cannot be read, is damaged, or there is no record at all.
    """
    states = {path: state(path) for path in paths}
    kept = _read_index(index_file) if index_file else {}
    known = _known(states, kept)
    missing = [path for path in states if path not in known]
    for path, found in _count_all(missing, states, remedy):
        known[path] = states[path] | found
    if index_file and save and any(kept.get(path) != known[path] for path in states):
        content = index_content({path: known[path] for path in states})
        files.write_text(index_file, json.dumps(content) + "\n")
    indexed = [IndexedFile(p, known[p]["count"], tuple(known[p]["offsets"])) for p in paths]
    if not any(file.count for file in indexed):
        raise UserError(f"{', '.join(paths)} hold no record to train on")
    return indexed


def check_lengths(paths):
    """Checks that records end within their files, for reading without counts.

    Args:
        paths: sequence of str. Files that match their summary are complete and are not checked.

    Raises:
        UserError: a file cannot be read or is damaged.
    """
    known = _known({path: state(path) for path in paths})
    for path in paths:
        if path not in known:
            record_checks.lengths(path)


def _known(states, *kept):
    """The entries of unchanged files, from summaries or the indices `kept`."""
    known = {}
    for source in (_from_summaries(states), *kept):
        known |= {p: source[p] for p in states if _is_current(source.get(p), states[p])}
    return known


def index_content(entries):
    """The content of an index as JSON values; a summary contains it besides other figures.

    Args:
        entries: dict from path to `entry`.
    """
    return {"offset_step": STEP, "files": entries}


def entry(path, lengths):
    """The entry of a file that was just written.

    Args:
        path: str.
        lengths: int64 array, sizes of its records in bytes.

    Returns:
        dict.
    """
    return state(path) | _index_of(path, lengths + _AROUND_RECORD)


def is_current(found, path):
    """Whether an entry (dict) is complete and the file has not changed since."""
    return _is_current(found, state(path))


def summary_file(path):
    """Path of the summary of record files; patterns for records rarely match its name.

    Args:
        path: str, the first of the files.
    """
    return os.path.join(os.path.dirname(path), f"{_SUMMARY}{os.path.basename(path)}.json")


def expand_patterns(patterns, flag):
    """Record files that match patterns, as files.expand_patterns, without summaries.

    Args:
        patterns: str, comma-separated globs.
        flag: str, name of the flag they come from, for the message.

    Raises:
        UserError: a pattern matches no file, or there are only summaries.
    """
    paths = files.expand_patterns(patterns, flag)
    found = [path for path in paths if not _is_summary(os.path.basename(path))]
    if not found:
        raise UserError(f"--{flag}: {', '.join(paths)} is a summary; give the record files")
    return found


def with_whole_path(arguments):
    """Arguments of a tokenizer with the full path of its file, for a summary."""
    return {
        name: os.path.abspath(value) if name.endswith("_file") and "://" not in value else value
        for name, value in arguments.items()
    }


def tokenizers_of(paths):
    """Tokenizers that made record files, according to the summaries next to them.

    Args:
        paths: list of str.

    Returns:
        dict of path -> (dict, the arguments of FullTokenizer; str, its fingerprint), for the files
        that a summary lists.
    """
    known = {}
    for directory in {os.path.dirname(path) for path in paths}:
        for content in map(_read_content, _summaries(directory)):
            if isinstance(content.get("tokenizer"), dict):
                made = content["tokenizer"], content.get("vocabulary")
                names = map(os.path.basename, _entries(content))
                known |= {os.path.join(directory, name): made for name in names}
    return {path: known[path] for path in paths if path in known}


def _summaries(directory):
    return tf.io.gfile.glob(os.path.join(directory, f"{_SUMMARY}*.json"))


def _is_summary(name):
    return name.startswith(_SUMMARY) and name.endswith(".json")


def _from_summaries(paths):
    """The entries of all summaries next to files, by the given paths."""
    known = {}
    for directory in {os.path.dirname(path) for path in paths}:
        for summary in _summaries(directory):
            for path, found in _read_index(summary).items():
                if isinstance(found, dict):
                    current = {key: found[key] for key in _ENTRY if key in found}
                    known[os.path.join(directory, os.path.basename(path))] = current
    return known


def state(path):
    """Size and modification time of a file, to detect changes."""
    try:
        found = tf.io.gfile.stat(path)
    except tf.errors.OpError as error:
        raise UserError(f"cannot read {path}: {error.message}") from error
    return {"size": found.length, "mtime_nsec": found.mtime_nsec}


def _read_index(path):
    """The entries of an index; empty if the file is absent, damaged or of another format."""
    return _entries(_read_content(path))


def _read_content(path):
    try:
        content = files.read_json(path) if tf.io.gfile.exists(path) else {}
    except UserError:
        return {}
    return content if isinstance(content, dict) else {}


def _entries(content):
    found = content.get("files") if content.get("offset_step") == STEP else None
    return found if isinstance(found, dict) else {}


def _is_current(entry, state):
    """Whether an entry is complete and has the given state of its file."""
    if not isinstance(entry, dict) or entry | state != entry:
        return False
    count, offsets = entry.get("count"), entry.get("offsets")
    return type(count) is int and isinstance(offsets, list) and len(offsets) > 0


def _count_all(paths, states, remedy):
    """Yields (path, count and offsets) for each file."""
    next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
    total, done = sum(states[path]["size"] for path in paths), 0
    for path in paths:
        with record_checks.advising(remedy):
            lengths = record_checks.lengths(path) + _AROUND_RECORD
        read = 0
        with record_checks.naming_bad_records([path], schema={}, remedy=remedy):
            # For the checksums.
            for batch in schemas.serialized([path]).batch(_READ_TOGETHER).map(tf.size):
                read += int(batch)
                if time.monotonic() >= next_line:
                    next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
                    read_bytes = done + lengths[:read].sum()
                    print(f"Counting the records: {read_bytes / 1e9:.1f} of {total / 1e9:.1f} GB")
        done += states[path]["size"]
        yield path, _index_of(path, lengths)


def _index_of(path, lengths):
    starts = np.concatenate([[0], np.cumsum(lengths)[STEP - 1 : -1 : STEP]])
    offsets = [0] if schemas.compression_of(path) else starts.tolist()
    return {"count": len(lengths), "offsets": offsets}
