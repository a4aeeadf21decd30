# SPDX-License-Identifier: Apache-2.0
"""State files: dataclasses that one run writes as JSON and another run reads."""

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
        kind: a dataclass whose fields are the keys of the file, with the types of their values.
            Fields with a default may be absent. Unknown keys are ignored.
        remedy: str, what to do with a damaged file, for the message.

    Returns:
        Instance of `kind`; None if there is no file.

    Raises:
        UserError: the file cannot be read, or its content is not of that type.
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
    files.write_text(path, text(content))


def text(content):
    """The text of a state file with the fields of a dataclass."""
    return json.dumps(dataclasses.asdict(content), indent=2) + "\n"


def typed(value, kind, name):
    """Converts a parsed JSON value to a type.

    Args:
        value: the parsed value.
        kind: a dataclass, a union with None, `tuple[type, ...]` or a plain type. True is not an
            int, and floats must be finite.
        name: str, name of the value for the message.

    Raises:
        UserError: the value is of another type.
    """
    if dataclasses.is_dataclass(kind):
        typed(value, dict, name)
        fields = dataclasses.fields(kind)
        required = [f for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        missing = [field.name for field in required if field.name not in value]
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
