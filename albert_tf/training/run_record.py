# SPDX-License-Identifier: Apache-2.0
"""`run.json`: what a training run was made with, for those who repeat it or export its model."""

import datetime
import json
import os
import platform
import secrets
from typing import NamedTuple

import tensorflow as tf

from albert_tf import __version__, files
from albert_tf.checkpoints import loading, run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.training import devices

CONFIG_FILE = "albert_config.json"
FLAGS_FILE = "flags.txt"
FILES = (run_directory.SETTINGS, CONFIG_FILE, FLAGS_FILE)  # that `write` leaves
_MOST_STARTS = 20


class Given(NamedTuple):
    """What is recorded of the flags of a run.

    Attributes:
        flags: dict of those that have a value.
        text: dict of those of run_directory.TEXT_FLAGS that the run has.
        vocabulary: dict of the fields of run_directory.Vocabulary; None if unknown.
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
    before = RunDirectory(directory).settings if run.step else None
    start = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "step": run.step,
        "versions": content["versions"],
        "devices": content["devices"],
    }
    starts = before.starts if before else []
    content["starts"] = [*starts[1 - _MOST_STARTS :], start]
    lines = [f"--{name}={value}\n" for name, value in given.flags.items()]
    for name, text in (
        (FLAGS_FILE, "".join(lines)),
        (CONFIG_FILE, config.to_json_string()),
        (run_directory.SETTINGS, json.dumps(content, indent=2) + "\n"),
    ):
        files.write_text(os.path.join(directory, name), text)


def read_resumed(directory):
    """RunSettings of the run that a training in a directory goes on with; None if there is none."""
    run = RunDirectory(directory)
    return run.settings if run.latest else None


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
        seed = record and record.seed
        latest = run_directory.latest_in(directory)
        if seed is None and latest:  # without a record, or with one of an earlier version
            seed = loading.seed_in(latest)
        seed = secrets.randbelow(2**31) if seed is None else seed
    (seed,) = devices.sum_over_workers(strategy, [seed])
    return seed
