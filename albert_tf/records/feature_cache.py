# SPDX-License-Identifier: Apache-2.0
"""Record files that are made once, and made again if their settings or input change."""

import collections
import hashlib
import json
import os
from typing import NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.records import record_files, schemas

_CACHE_FORMAT = 3  # raise it if the same text and settings give other features than before


class Cache(NamedTuple):
    """A record file that `cached_records` made or found.

    Attributes:
        path: str.
        counts: Counter, filled when the records were made and kept with the file.
    """

    path: str
    counts: collections.Counter


def cached_records(path, schema, settings, inputs, make, *, add_key=False):
    """Makes a record file, unless it exists and was made with the same settings and input.

    `<path>.meta.json` records how the file was made. Prints whether it was made or found.

    Args:
        path: str, the record file.
        schema: dict from feature name to `FeatureSpec`.
        settings: dict of JSON values: everything besides the input that determines the features.
        inputs: list of str, the files that are read, including the vocabulary; compared by
            content.
        make: callable that takes the `Cache` to be made, whose counts it may fill, and returns
            `batches` of `write_records`.
        add_key: bool, whether the file name includes a hash of the settings and the input.
            Processes with different settings then use different files, and no file is replaced
            during its use.

    Returns:
        Cache.

    Raises:
        UserError: an input cannot be read, the file is damaged, or `write_records` raises one.
    """
    hashes = [bytes.fromhex(files.sha256(name)) for name in inputs]
    wanted = {
        **settings,
        "format": _CACHE_FORMAT,
        "schema": {name: [item.dtype.name, item.length] for name, item in schema.items()},
        "input_sha256": hashlib.sha256(b"".join(hashes)).hexdigest(),
    }
    wanted = json.loads(json.dumps(wanted))  # as in the file, where tuples are lists
    if add_key:
        key = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
        stem, ending = os.path.splitext(path)
        path = f"{stem}-{key[:8]}{ending}"
    sidecar = record_files.cache_settings_file(path)
    for name in (path, sidecar):
        if tf.io.gfile.isdir(name):
            raise UserError(f"{name} is a directory, and features are to be written there")
    check_replaceable(path)
    found = record_files.read_state(sidecar)
    reason = _why_not(path, sidecar, found, wanted)
    if reason is None:
        record_files.check_records([path], schema)
        print(f"Using features again: {path} ({found['records']} records, same settings and input)")
        return Cache(path, collections.Counter(found["counts"]))
    print(f"Making features: {path} ({reason})")
    cache = Cache(path, collections.Counter())
    # Remove the sidecar first and write it last, so that it never describes other records.
    files.remove(sidecar)
    made = {"records": schemas.write_records(path, schema, make(cache)), "counts": cache.counts}
    made |= {**wanted, "bytes": tf.io.gfile.stat(path).length}
    files.write_text(sidecar, files.json_bytes(made).decode())
    return cache


def check_replaceable(path):
    """Raises UserError if a file holds something else than records, which features would replace.

    Args:
        path: str, the record file to be made.
    """
    if not tf.io.gfile.exists(path) or tf.io.gfile.exists(record_files.cache_settings_file(path)):
        return
    try:
        next(record_files.serialized(path), None)
    except UserError as error:
        raise UserError(
            f"{path} is no file of features, and is not replaced: give another path for the "
            "features. The data are read from the files that other flags name"
        ) from error


def _why_not(path, sidecar, found, wanted):
    """The reason why the records at a path cannot be used; None if they can."""
    if not tf.io.gfile.exists(path):
        return "there are none yet"
    if not found and not tf.io.gfile.exists(sidecar):
        return "it lacks a .meta.json that says how it was made"
    made = dict(found)
    records, size, counts = (made.pop(name, None) for name in ("records", "bytes", "counts"))
    numbers = [records, size, *(counts.values() if isinstance(counts, dict) else [None])]
    if not all(type(number) is int for number in numbers):  # no bool, no nan
        return "its .meta.json, which says how it was made, is damaged"
    changed = [
        name for name in sorted(made.keys() | wanted.keys()) if made.get(name) != wanted.get(name)
    ]
    if changed:
        return "made with other values of " + ", ".join(changed)
    if tf.io.gfile.stat(path).length != size:
        return "it is not the file that its .meta.json describes"
    return None
