# SPDX-License-Identifier: Apache-2.0
"""`run.json`: what a training run was made with, for those who repeat it or export its model."""

import datetime
import hashlib
import json
import os
import platform
import secrets
from typing import NamedTuple

import tensorflow as tf

from albert_tf import __version__, files
from albert_tf.checkpoints import loading, run_directory
from albert_tf.errors import UserError
from albert_tf.training import devices

FILE = "run.json"
CONFIG_FILE = "albert_config.json"
FLAGS_FILE = "flags.txt"
FILES = (FILE, CONFIG_FILE, FLAGS_FILE)  # that `write` leaves
# How text becomes the model's input: flag -> type. Beside these, the vocabulary.
TEXT_FLAGS = {
    "do_lower_case": bool,
    "strip_accents": bool,
    "max_seq_length": int,
    "doc_stride": int,
    "max_query_length": int,
    "max_qa_length": int,
}
VOCABULARY_FLAGS = ("spm_model_file", "vocab_file")
_VOCABULARY = {"flag": str, "path": str, "sha256": str}
# What is there for people and for resumed runs; older records lack some of it.
_DETAILS = {
    "flags": dict, "versions": dict, "devices": list, "input_files": dict, "starts": list,
    "seed": int,
}  # fmt: skip
_MOST_STARTS = 20


class Record(NamedTuple):
    """What a record says of the model, and the rest of it.

    Attributes:
        path: str, the file.
        config: dict, of the architecture.
        text: dict of those of TEXT_FLAGS that the run had.
        vocabulary: dict of `flag`, `path` and `sha256`; None if unknown, as of
            records without a summary.
        content: dict, all that the file holds.
    """

    path: str
    config: dict
    text: dict
    vocabulary: dict | None
    content: dict


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


def describe(given, config, strategy, input_files, seed=None):
    """What a training is started with, as the record has it.

    Args:
        given: Given.
        config: AlbertConfig.
        strategy: tf.distribute.Strategy.
        input_files: sequence of str, what is trained and evaluated on.
        seed: int or None.

    Returns:
        dict.
    """
    return {
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
        "devices": list(strategy.extended.worker_devices),
        "input_files": {path: tf.io.gfile.stat(path).length for path in input_files},
    } | ({} if seed is None else {"seed": seed})


def write(directory, given, config, run, input_files, seed=None):
    """Writes down what a training run is made with, so that it can be read, repeated and exported.

    `flags.txt` and `albert_config.json` are for scripts to take again, `run.json` for exports, for
    people, and for the next start in the directory. To be called once the run's weights are found
    to fit: a run that fails must not leave another config beside the checkpoints of the one before.

    Args:
        directory: str.
        given: Given.
        config: AlbertConfig.
        run: training.Run.
        input_files: sequence of str, what is trained and evaluated on.
        seed: int or None, of `seed_of`.
    """
    content = describe(given, config, run.strategy, input_files, seed)
    content["parameter_count"] = sum(v.shape.num_elements() for v in run.task.variables.values())
    before = read(directory) if run.step else None
    start = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "step": run.step,
        "versions": content["versions"],
        "devices": content["devices"],
    }
    starts = before.content.get("starts", []) if before else []
    content["starts"] = [*starts[1 - _MOST_STARTS :], start]
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
        or not _has_types(parts, {name: k for name, k in _DETAILS.items() if name in parts})
    ):
        raise UserError(
            f"{path} is no record of a run: delete it, and give the flags of the training yourself"
        )
    return Record(path, config, text, vocabulary, content)


def read_resumed(directory):
    """The Record of a run that a training in its directory goes on with; None if there is none."""
    return read(directory) if run_directory.latest_in(directory) else None


def seed_of(directory, given, strategy):
    """The seed of a training: the one given, else that of the run it resumes, else a new one.

    All workers have to call it, and get the same.

    Args:
        directory: str.
        given: int or None.
        strategy: tf.distribute.Strategy.

    Returns:
        int.
    """
    if given is not None:
        return given
    seed = 0
    if devices.is_chief(strategy):
        record = read_resumed(directory)
        seed = record and record.content.get("seed")
        latest = run_directory.latest_in(directory)
        if seed is None and latest:  # without a record, or with one of an earlier version
            seed = loading.seed_in(latest)
        seed = secrets.randbelow(2**31) if seed is None else seed
    (seed,) = devices.sum_over_workers(strategy, [seed])
    return seed


def _has_types(values, types):
    """Whether it is a dict with values of exactly these types: True is no int here."""
    return isinstance(values, dict) and all(
        type(values.get(n)) is kind for n, kind in types.items()
    )


def sha256(path):
    """Hash of a file, in hexadecimal digits."""
    return hashlib.sha256(files.read_bytes(path)).hexdigest()
