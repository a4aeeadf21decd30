# SPDX-License-Identifier: Apache-2.0
"""State files: JSON that one run of this project writes and another reads, as a dataclass."""

import dataclasses
import json
import math
import reprlib
import sys
import types
import typing

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError


def read(path, kind, remedy="delete it"):
    """Reads a state file.

    Args:
        path: str.
        kind: a dataclass: the keys of the file and the types of their values. A field with a
            default may be absent, and unknown keys are left out.
        remedy: str, what to do with a damaged file, for the message.

    Returns:
        `kind`; None where there is no file.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    if not tf.io.gfile.exists(path):
        return None
    try:
        return typed(files.read_json(path), kind, "its content")
    except UserError as error:
        raise UserError(f"{path} is damaged: {remedy} ({error})") from error


def write(path, content):
    """Writes a state file.

    Args:
        path: str.
        content: dataclass.
    """
    files.write_text(path, json.dumps(dataclasses.asdict(content), indent=2) + "\n")


def typed(value, kind, name):
    """A JSON value as a type.

    Args:
        value: what JSON holds.
        kind: a dataclass, a union with None, `tuple[type, ...]` or a plain type. True is no int,
            and a float is finite.
        name: str, for the message.

    Raises:
        UserError: it is of another type.
    """
    if dataclasses.is_dataclass(kind):
        typed(value, dict, name)
        fields = dataclasses.fields(kind)
        missing = [
            field.name for field in fields if _is_required(field) and field.name not in value
        ]
        if missing:
            raise UserError(f"{name} lacks {', '.join(missing)}")
        given = {field.name: field.type for field in fields if field.name in value}
        return kind(**{key: typed(value[key], of, key) for key, of in given.items()})
    if isinstance(kind, types.UnionType):
        return None if value is None else typed(value, kind.__args__[0], name)
    if typing.get_origin(kind) is tuple:
        return tuple(typed(item, kind.__args__[0], name) for item in typed(value, list, name))
    if kind is float and type(value) is int and abs(value) < sys.float_info.max:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise UserError(f"{name} must be of type {kind.__name__}. Received: {reprlib.repr(value)}")
    return value


def _is_required(field):
    return field.default is field.default_factory is dataclasses.MISSING
