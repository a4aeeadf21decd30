# SPDX-License-Identifier: Apache-2.0
"""`run.json`: what a training run was made with, for those who repeat it or export its model."""

import hashlib
import json
import os
from typing import NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError

FILE = "run.json"
# How text becomes the model's input: flag -> type. Beside these, the vocabulary.
TEXT_FLAGS = {
    "do_lower_case": bool,
    "max_seq_length": int,
    "doc_stride": int,
    "max_query_length": int,
    "max_qa_length": int,
}
VOCABULARY_FLAGS = ("spm_model_file", "vocab_file")
_VOCABULARY = {"flag": str, "path": str, "sha256": str}


class Record(NamedTuple):
    """What a record says of the model; the figures beside it are for people.

    Attributes:
        path: str, the file.
        config: dict, of the architecture.
        text: dict of those of TEXT_FLAGS that the run had.
        vocabulary: dict of `flag`, `path` and `sha256`; None in pre-training, which reads no text.
    """

    path: str
    config: dict
    text: dict
    vocabulary: dict | None


def write(directory, content):
    """Writes the record of the run in a directory; `content` is a dict for JSON."""
    files.write_text(os.path.join(directory, FILE), json.dumps(content, indent=2) + "\n")


def read(directory):
    """The Record of the run in a directory; None where there is none, as of the original's runs.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    path = os.path.join(directory, FILE)
    if not tf.io.gfile.exists(path):
        return None
    content = files.read_json(path)
    parts = content if isinstance(content, dict) else {}
    config, text, vocabulary = (parts.get(name) for name in ("config", "text", "vocabulary"))
    text_types = {name: kind for name, kind in TEXT_FLAGS.items() if name in (text or ())}
    if (
        not isinstance(config, dict)
        or not _has_types(text, text_types)
        or not (vocabulary is None or _has_types(vocabulary, _VOCABULARY))
        or not (vocabulary is None or vocabulary["flag"] in VOCABULARY_FLAGS)
    ):
        raise UserError(
            f"{path} is no record of a run: delete it, and give the flags of the training yourself"
        )
    return Record(path, config, text, vocabulary)


def _has_types(values, types):
    """Whether it is a dict with values of exactly these types: True is no int here."""
    return isinstance(values, dict) and all(
        type(values.get(n)) is kind for n, kind in types.items()
    )


def sha256(path):
    """Hash of a file, in hexadecimal digits."""
    return hashlib.sha256(files.read_bytes(path)).hexdigest()
