# SPDX-License-Identifier: Apache-2.0
"""The record of the clean-up of text, inside the file of a SentencePiece model.

The original removes accents and lower-cases, in the same way for every language. A vocabulary that
is trained with other choices records them in its own file, so that they hold wherever the file is.
"""

import json

from google.protobuf.message import DecodeError

from albert_tf.errors import UserError
from albert_tf.options import CASING_LANGUAGES
from albert_tf.sentencepiece_proto import ModelProto

_RECORDED = {"do_lower_case": bool, "strip_accents": bool, "casing_language": str}


def add(model, clean_up):
    """Adds the clean-up of its text to a SentencePiece model.

    Args:
        model: bytes, the content of a .model file.
        clean_up: CleanUp, or another object with the values as attributes.

    Returns:
        bytes, the content of the file with the record.
    """
    content = json.dumps(values_of(clean_up)).encode()
    # Protocol buffers that are concatenated are merged.
    return model + ModelProto(clean_up=content).SerializeToString()


def values_of(clean_up):
    """The values of a CleanUp that are recorded: dict."""
    return {name: getattr(clean_up, name) for name in _RECORDED}


def read(model, path):
    """The clean-up that a SentencePiece model records.

    Args:
        model: bytes, the content of a .model file.
        path: str, for the message.

    Returns:
        dict of fields of CleanUp; empty for models that were trained elsewhere.

    Raises:
        UserError: the record is damaged, or of a later version.
    """
    content = _parsed(model).clean_up
    if not content:
        return {}
    try:
        values = json.loads(content)
    except ValueError:
        values = None
    is_dict = isinstance(values, dict)
    types = {name: type(value) for name, value in values.items()} if is_dict else None
    if types != _RECORDED or values["casing_language"] not in CASING_LANGUAGES:
        raise UserError(
            f"spm_model_file: {path} records a clean-up that this version does not know: "
            f"{content!r:.200}. Install a later version, or train the model again"
        )
    return values


def pieces(model):
    """The pieces of a SentencePiece model (bytes), by id: list of str; empty if it is damaged."""
    return [piece.piece for piece in _parsed(model).pieces]


def _parsed(model):
    try:
        return ModelProto.FromString(model)
    except DecodeError:  # loading it says that it is no model
        return ModelProto()
