# SPDX-License-Identifier: Apache-2.0
"""TFRecord files as they are on disk: counts and offsets of records, checks, damaged records."""

import collections
import contextlib
import fnmatch
import gzip
import itertools
import json
import os
import re
import zlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from albert_tf import files, progress
from albert_tf.errors import UserError, as_called, one_line
from albert_tf.records import schemas

INDEX = "records.json"  # in the directory of a run
FILES = "files"  # key of the entries in an index, and in the summary of record files
STEP = 1024  # records from one known offset to the next: a block, of some hundred KB to some MB
_CACHE_REMEDY = "If the file is damaged, delete it: it is then made again"
_SUMMARIES = "summary-*.json"
_SHARD = re.compile(r"(.*)-\d+-of-(\d+)(\.\D*)?")
_SUMMARY = {"settings": dict, "tokenizer": dict, "vocabulary": str}
_ENTRY = ("size", "mtime_nsec", "count", "offsets")
_HEAD_BYTES, _CHECKSUM_BYTES = 12, 4  # length with checksum before a record; checksum after it
_LONGEST_PACKED = 1 << 28  # bytes of a record in a compressed file, whose size sets no limit
_READ_TOGETHER = 1024
# What limits each feature, for messages.
_LIMITED_BY = {
    "input_ids": "vocab_size in --albert_config_file: another vocabulary than the records'",
    "masked_lm_ids": "vocab_size in --albert_config_file: another vocabulary than the records'",
    "segment_ids": "type_vocab_size in --albert_config_file",
    "masked_lm_positions": "--max_seq_length",
    "start_positions": "--max_seq_length",
    "end_positions": "--max_seq_length",
    "label_ids": "the number of labels",
}
_WITHOUT = {  # features that records may lack -> the remedy
    schemas.ORDER_LABEL: ". Give --sentence_loss_weight=0",
    "token_boundary": ". It says where words begin: give --do_whole_word_mask=false",
}
_KINDS = {tf.int64: "int64_list", tf.float32: "float_list"}
# Errors that bad data causes in a step. A lack of memory and lost workers raise other errors.
_DATA_ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)


# === Counts and offsets, and the files that keep them ===


class IndexedFile(NamedTuple):
    """A TFRecord file whose records are counted.

    Attributes:
        path: str.
        count: int, number of its records.
        offsets: tuple of int, offsets in bytes of the records 0, STEP, 2 * STEP ...; (0,) for a
            compressed file.
    """

    path: str
    count: int
    offsets: tuple


def read_index(paths, index_file=None, *, save=True):
    """Counts the records of files, or takes the counts of an earlier call for unchanged files.

    Files are identified by path, size and time of the last change. Counting reads whole files,
    checks all checksums, and shows its progress.

    Args:
        paths: sequence of str.
        index_file: str or None, JSON file that keeps the counts.
        save: bool, whether to write new counts to it: only one of several workers may.

    Returns:
        list of IndexedFile, in the order of `paths`.

    Raises:
        UserError: a file cannot be read, is damaged, or there is no record at all.
    """
    states = {path: state(path) for path in paths}
    kept = _entries(read_state(index_file)) if index_file else {}
    known = _known(states) | _current(kept, states)
    missing = [path for path in states if path not in known]
    for path, found in _count_all(missing, states):
        known[path] = states[path] | found
    if index_file and save and any(kept.get(path) != known[path] for path in states):
        content = {FILES: {path: known[path] for path in states}}
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
            lengths(path)


def _count_all(paths, states):
    """Yields (path, count and offsets) for each file."""
    total = sum(states[path]["size"] for path in paths)
    with progress.bar("counting the records", total, "B", leave=False) as bar:
        for path in paths:
            sizes = lengths(path)
            share = states[path]["size"] / max(len(sizes), 1)  # bytes of a record in the file
            with naming_bad_records([path], schema={}):
                # Read all records, to check their checksums.
                for count in schemas.serialized([path]).batch(_READ_TOGETHER).map(tf.size):
                    bar.update(int(count) * share)
            yield path, _index_of(path, sizes)


def _index_of(path, sizes):
    starts = np.cumsum(sizes + _HEAD_BYTES + _CHECKSUM_BYTES)[STEP - 1 : -1 : STEP].tolist()
    return {"count": len(sizes), "offsets": [0, *([] if schemas.compression_of(path) else starts)]}


def state(path):
    """Size and modification time of a file, to detect changes."""
    with files.reading(path):
        found = tf.io.gfile.stat(path)
    return {"size": found.length, "mtime_nsec": found.mtime_nsec}


def entry(path, lengths):
    """The entry of a file that was just written: dict.

    Args:
        path: str.
        lengths: int64 array, sizes of its records in bytes.
    """
    return state(path) | _index_of(path, lengths)


def is_current(entry, state):
    """Whether an entry (dict) is complete and has the given state of its file."""
    if not isinstance(entry, dict) or entry | state != entry:
        return False
    count, offsets = entry.get("count"), entry.get("offsets")
    if not isinstance(offsets, list) or not all(type(n) is int for n in [count, *offsets]):
        return False
    return len(offsets) in (1, -(-count // STEP))  # STEP was larger in earlier versions


def _entries(content):
    """The entries of an index; empty if it is damaged."""
    found = content.get(FILES)
    return found if isinstance(found, dict) else {}


def read_state(path):
    """The dict in a JSON file; empty if the file is absent or damaged."""
    try:
        content = files.read_json(path)
    except UserError:
        return {}
    return content if isinstance(content, dict) else {}


def _current(entries, states):
    """The entries of unchanged files, without the other values of a summary."""
    return {
        path: {key: entries[path][key] for key in _ENTRY}
        for path in states
        if is_current(entries.get(path), states[path])
    }


def _known(states):
    """The entries of unchanged files, from the summaries next to them."""
    entries = {}
    for _, found in _summaries(states):
        entries |= found
    return _current(entries, states)


# === Files next to record files ===


def cache_settings_file(path):
    """Path of the file that records how a file of cached features (str) was made."""
    return f"{path}.meta.json"


def summary_file(path):
    """Path of the summary of record files; patterns for records rarely match its name.

    Args:
        path: str, the first of the files.
    """
    name = _SUMMARIES.replace("*", os.path.basename(path))
    return os.path.join(os.path.dirname(path), name)


def expand_patterns(patterns, flag):
    """Record files that match patterns: `files.expand_patterns` without summaries.

    Args:
        patterns: str, comma-separated globs.
        flag: str, name of the flag with the patterns, for the message.

    Raises:
        UserError: a pattern matches no file, or there are only summaries.
    """
    paths = files.expand_patterns(patterns, flag)
    found = [path for path in paths if not fnmatch.fnmatch(os.path.basename(path), _SUMMARIES)]
    if not found:
        raise UserError(f"--{flag}: {', '.join(paths)} is a summary; give the record files")
    return found


def say_shards(paths):
    """Prints a warning if files such as train-00000-of-00064 are not all of one set of files."""
    sets = collections.defaultdict(collections.Counter)
    for path in dict.fromkeys(paths):
        if match := _SHARD.fullmatch(path):
            sets[match[1] + (match[3] or "")][int(match[2])] += 1
    for stem, counts in sets.items():
        named = " and ".join(f"{count} of {whole}" for whole, count in sorted(counts.items()))
        if len(counts) > 1:
            print(f"Warning: {stem} has {named} files: remove those of an earlier command")
        elif counts != {whole: whole for whole in counts}:
            print(f"Warning: {stem} has {named} files: is it meant that the others are not read?")


def summaries_of(paths):
    """The summaries of record files that are next to them.

    Args:
        paths: list of str.

    Returns:
        dict of path -> dict, for the files that a summary lists. It has at least `settings`, a
        dict, `tokenizer`, a dict of the arguments of FullTokenizer, and `vocabulary`, a str, its
        fingerprint.
    """
    listed = {}
    for content, entries in _summaries(paths):
        if all(isinstance(content.get(name), kind) for name, kind in _SUMMARY.items()):
            for path in entries.keys() & {*paths}:
                listed.setdefault(path, []).append((entries[path], content))
    return {path: _closest(path, listed[path]) for path in paths if path in listed}


def _closest(path, listed):
    """The summary whose entry describes a file best; others may describe earlier files."""
    now = state(path)  # the size counts more than the time, which a copy does not keep

    def likeness(found):
        entry, _ = found
        return [isinstance(entry, dict) and entry.get(name) == value for name, value in now.items()]

    return max(listed, key=likeness)[1]


def _summaries(paths):
    """Yields (content, its entries by the paths of today) of the summaries next to files."""
    for directory in {os.path.dirname(path) for path in paths}:
        for summary in files.matches_in(directory, _SUMMARIES):
            content = read_state(summary)
            entries = _entries(content).items()
            yield content, {os.path.join(directory, os.path.basename(p)): e for p, e in entries}


# === Checks of records ===


def lengths(path):
    """Sizes of the records of a file in bytes, int64 array [n].

    TensorFlow's reader trusts the length at the beginning of a record and asks for that much
    memory. So it may be used only after this check that each record ends within the file.

    Args:
        path: str.

    Raises:
        UserError: the file cannot be read, or a record goes on beyond its end.
    """
    with _advising(path):
        return np.fromiter((length for length, _ in _walk(path, with_content=False)), np.int64)


def count_up_to(limit, paths):
    """Number of records of files, or `limit` if there are more; the rest is not read."""
    records = itertools.chain.from_iterable(_walk(path, with_content=False) for path in paths)
    return sum(1 for _ in itertools.islice(records, limit))


def first_records(path, count):
    """Features of the first records of a file, as in tf.train.Features.

    The file is opened once, and read without TensorFlow's reader. Checksums are not checked.

    Args:
        path: str.
        count: int, maximum number of records.

    Returns:
        list of dict, at least one.

    Raises:
        UserError: there is no record, or one of these records is damaged.
    """
    records = [record for _, record in itertools.islice(_walk(path, with_content=True), count)]
    if not records:
        raise UserError(f"{path} holds no record; remove it from the input or make it again")
    try:
        return [_features(record, f"record {n} of {path}") for n, record in enumerate(records, 1)]
    except UserError:
        list(itertools.islice(serialized(path), len(records)))  # perhaps a checksum is wrong
        raise


def check_records(paths, schema):
    """Compares the first record of each file with the schema, before any training.

    Args:
        paths: list of str.
        schema: dict from feature name to `FeatureSpec`.

    Raises:
        UserError: a file is empty or no TFRecord file, or its first record does not fit.
    """
    for path in paths:
        with _advising(path):
            first = first_records(path, 1)[0]
        check_first({path: first}, schema)


def check_first(records, schema):
    """Like `check_records`, with a dict from path to the first of its `first_records`."""
    for path, features in records.items():
        with _advising(path):
            _check_features(features, f"record 1 of {path}", schema)


def find_bad_record(paths, schema):
    """Reads every record to find the one that broke a step; None if all are good.

    The arguments are those of `check_records`.

    Raises:
        UserError: about the first record that does not fit, with its number.
    """
    for path in paths:
        with _advising(path):
            for number, record in enumerate(serialized(path), start=1):
                where = f"record {number} of {path}"
                _check_features(_features(record, where), where, schema)


@contextlib.contextmanager
def naming_bad_records(paths, schema):
    """Context that replaces TensorFlow's error about a bad record by one that names the record.

    The arguments are those of `check_records`; `paths` are the files that the block reads.

    Raises:
        UserError: names the bad record.
    """
    try:
        yield
    except _DATA_ERRORS:
        find_bad_record(paths, schema)
        raise


@contextlib.contextmanager
def _advising(path):
    """Context that adds the remedy to a UserError about a file of cached features."""
    try:
        yield
    except UserError as error:
        if not tf.io.gfile.exists(cache_settings_file(path)):
            raise
        raise UserError(f"{error}. {_CACHE_REMEDY}") from error


def _walk(path, with_content):
    """Yields (length, content) of each record; content is None without `with_content`."""
    count, is_packed = 0, bool(schemas.compression_of(path))
    try:
        size = None if is_packed else tf.io.gfile.stat(path).length
        with contextlib.ExitStack() as stack:
            # GFile would take most of the time here.
            opened = tf.io.gfile.GFile if "://" in path else open
            file = stack.enter_context(opened(path, "rb"))
            if is_packed:
                file = stack.enter_context(gzip.GzipFile(fileobj=file))
            end = 0
            while head := file.read(_HEAD_BYTES):
                length, begin = int.from_bytes(head[:8], "little"), end + _HEAD_BYTES
                end = begin + length + _CHECKSUM_BYTES
                if len(head) < _HEAD_BYTES or end > (size or begin + _LONGEST_PACKED):
                    raise _damaged(path, count, f"the next one has {length} bytes by its length")
                content = file.read(length) if with_content else None
                file.seek(end)
                if file.tell() < end:
                    raise _damaged(path, count, "the next one ends before it is whole")
                yield length, content
                count += 1
    except (tf.errors.OpError, OSError, EOFError, zlib.error) as error:
        raise _damaged(path, count, one_line(error)) from error


def serialized(path):
    """Yields the serialised records of a file."""
    count = 0
    try:
        for record in schemas.serialized([path]).as_numpy_iterator():
            yield record
            count += 1
    except tf.errors.OpError as error:
        raise _damaged(path, count, one_line(error)) from error


def _damaged(path, count, reason):
    """UserError about a damaged file, of which `count` records can be read."""
    if not count and not schemas.compression_of(path):
        with contextlib.suppress(tf.errors.OpError), tf.io.gfile.GFile(path, "rb") as file:
            if file.read(2) == b"\x1f\x8b":
                return UserError(f"{path} is compressed: unpack it, or add .gz to its name")
    state = f"is damaged after record {count}"
    if not count:
        state = f"is no TFRecord file, as {as_called('create_pretraining_data.py')} writes them"
    return UserError(f"{path} {state}: {reason}")


def _features(record, where):
    try:
        return tf.train.Example.FromString(record).features.feature
    except DecodeError as error:
        raise UserError(f"{where} is not a tf.train.Example") from error


def _check_features(features, where, schema):
    for name, feature in schema.items():
        stored = schemas.stored_name(schema, name)
        if stored not in features:
            there = ", ".join(sorted(features)) or "none"
            remedy = _WITHOUT.get(name, "")
            raise UserError(f"{where} has no feature {stored}; it has {there}{remedy}")
        kind, wanted = features[stored].WhichOneof("kind"), _KINDS[feature.dtype]
        if kind != wanted:
            raise UserError(f"feature {stored} in {where} is {kind or 'empty'}, not {wanted}")
        values = np.array(getattr(features[stored], kind).value)
        if len(values) != feature.length:
            needed = f"{feature.length} are needed"
            if feature.set_by:
                needed = f"--{feature.set_by}={feature.length}"
            if name.startswith("masked_lm_") and len(values) == 2 * feature.length:
                needed += ", to be doubled for data made with --do_permutation"
            raise UserError(f"feature {stored} in {where} has {len(values)} numbers, but {needed}")
        smallest, largest = feature.limits
        bad = values[~((values >= smallest) & (values <= largest))]
        if len(bad):
            reason = _LIMITED_BY.get(name)
            raise UserError(
                f"feature {stored} in {where} holds {bad[0]}; allowed are {smallest} to {largest}"
                + (f" ({reason})" if reason and bad[0] > largest else "")
            )
