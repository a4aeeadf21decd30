# SPDX-License-Identifier: Apache-2.0
"""Reads JSON files of questions, and checks their values. Needs no TensorFlow."""

import json
import reprlib

from albert_tf.errors import UserError, check_json, read_local


def content(path, expected):
    """Content of a JSON file in UTF-8, UTF-16 or UTF-32, perhaps compressed, as UTF-8: bytes.

    Args:
        path: str.
        expected: str, what the file must hold, for the message if it is a table.

    Raises:
        UserError: the file cannot be read, or is a table.
    """
    if "://" in path:
        from albert_tf import files  # only for remote files: TensorFlow is a slow import

        found = files.read_bytes(path)
    else:
        found = read_local(path)
    try:
        found = found.decode(json.detect_encoding(found)).encode()
    except UnicodeDecodeError:
        from albert_tf.corpus import unpacking

        found = unpacking.read(path)
    first_line = found.lstrip().partition(b"\n")[0].strip()
    if not first_line.startswith((b"{", b"[")) and {*b",\t"} & {*first_line}:
        raise UserError(f"{path} begins like a table, {first_line[:40]!r}, and {expected}")
    return found


def field(found, name, kind, where):
    """Returns the value of a name in a JSON object, after a check.

    Args:
        found: the JSON value that should be an object with this name.
        name: str.
        kind: type of the value, as of `checked`.
        where: str, the place in the file, for the message.

    Raises:
        UserError: there is no such value.
    """
    return checked(found.get(name) if isinstance(found, dict) else None, name, kind, where)


def checked(value, name, kind, where):
    """Returns a JSON value, after a check.

    Args:
        value: the JSON value.
        name: str, of the value, for the message.
        kind: type of the value. A bool is not accepted as int, and a str must be valid Unicode:
            JSON can escape half a character.
        where: str, the place in the file, for the message.

    Raises:
        UserError: it is of another kind.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        state = "missing" if value is None else reprlib.repr(value)
        expected = f"{'an' if kind is int else 'a'} {kind.__name__}"
        raise UserError(f"{where}: {name!r} is {state}, {expected} is expected there")
    if kind is str and not value.isascii():
        check_json(name, value, where)
    return value
