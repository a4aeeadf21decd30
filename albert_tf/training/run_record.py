# SPDX-License-Identifier: Apache-2.0
"""`run.json`: what a training run was made with, for those who repeat it or export its model."""

import hashlib
import json
import os
import platform
from typing import NamedTuple

import tensorflow as tf

from albert_tf import __version__, files
from albert_tf.errors import UserError

FILE = "run.json"
CONFIG_FILE = "albert_config.json"
FLAGS_FILE = "flags.txt"
FILES = (FILE, CONFIG_FILE, FLAGS_FILE)  # that `write` leaves
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


class Given(NamedTuple):
    """What is recorded of the flags of a run.

    Attributes:
        flags: dict of those that have a value.
        text: dict of those of TEXT_FLAGS that the run has.
        vocabulary: dict, as in `Record`.
    """

    flags: dict
    text: dict
    vocabulary: dict | None


def write(directory, given, config, run, input_files):
    """Writes down what a training run is made with, so that it can be read, repeated and exported.

    `flags.txt` and `albert_config.json` are for scripts to take again, `run.json` for exports and
    for people. To be called once the run's weights are found to fit: a run that fails must not
    leave another config beside the checkpoints of the one before.

    Args:
        directory: str.
        given: Given.
        config: AlbertConfig.
        run: training.Run.
        input_files: sequence of str, what is trained and evaluated on.
    """
    content = {
        # JSON has no nan; absl's flags have one where none was given
        "flags": {name: value for name, value in given.flags.items() if value == value},
        "config": config.to_dict(),
        "text": given.text,
        "vocabulary": given.vocabulary,
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "albert_tf": __version__,
        },
        "devices": list(run.strategy.extended.worker_devices),
        "parameter_count": sum(v.shape.num_elements() for v in run.task.variables.values()),
        "input_files": {path: tf.io.gfile.stat(path).length for path in input_files},
    }
    lines = [f"--{name}={value}\n" for name, value in given.flags.items()]
    for name, text in (
        (FLAGS_FILE, "".join(lines)),
        (CONFIG_FILE, config.to_json_string()),
        (FILE, json.dumps(content, indent=2) + "\n"),
    ):
        files.write_text(os.path.join(directory, name), text)


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
