# SPDX-License-Identifier: Apache-2.0
"""A run's directory: finding its checkpoints, copying and deleting them, and its state files."""

import dataclasses
import functools
import hashlib
import math
import os
import re
from typing import NamedTuple

import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

from albert_tf import files, state
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

BEST = "model.ckpt-best"
SAFETENSORS = "model.safetensors"
_SHARDS = "model.safetensors.index.json"
_PICKLE = "pytorch_model.bin"
_STATE = "checkpoint"  # TensorFlow's list of a directory's checkpoints


# --- Finding ---------------------------------------------------------------------------------


def find(path):
    """Finds the checkpoint that a user means.

    Args:
        path: str, a prefix (`.../model.ckpt-best`), one of its files (`.index`, `.data-...`,
            `.meta`), or a directory, whose `checkpoint` file may be missing or may name a place
            that does not exist, as those in the released archives do. A hub module's directory
            holds `variables/variables`, one of the transformers library `model.safetensors`.

    Returns:
        str, the prefix; or the `.safetensors` file.

    Raises:
        UserError: there is none; the message names the path and what was looked for.
    """
    prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.rstrip("/"))
    if tf.io.gfile.exists(prefix + ".index"):
        return prefix
    if tf.io.gfile.isdir(path):
        return _find_in_directory(path.rstrip("/"))
    found = _find_safetensors(path)
    if found:
        return found
    raise UserError(
        f"no checkpoint at {path}: looked for {prefix}.index. Give a prefix such as "
        "DIR/model.ckpt-best, its .index file, or its directory"
    )


def _find_in_directory(directory):
    latest = latest_in(directory)
    if latest:
        return latest
    prefixes = _prefixes_in(directory)
    best = os.path.join(directory, BEST)
    if best in prefixes:
        return best
    if len(prefixes) == 1:
        return prefixes.pop()
    of_module = os.path.join(directory, "variables", "variables")
    if not prefixes and exists(of_module):
        return of_module
    of_transformers = None if prefixes else _find_safetensors(directory)
    if of_transformers:
        return of_transformers
    found = ", ".join(sorted(os.path.basename(p) for p in prefixes)) or "no .index file"
    raise UserError(f"no checkpoint can be told in {directory} ({found}): give its prefix")


def directory_of(path):
    """The directory that a checkpoint lies in, or that is given in its place.

    Args:
        path: str, anything that `find` takes.
    """
    return path if tf.io.gfile.isdir(path) else os.path.dirname(path)


def _find_safetensors(path):
    """The weights of transformers at a path (file or directory); None where there are none."""
    if tf.io.gfile.isdir(path):
        names = [
            name for name in (SAFETENSORS, _SHARDS, _PICKLE) if _is_file(os.path.join(path, name))
        ]
        path = os.path.join(path, names[0]) if names else ""
    if not path.endswith((".safetensors", _SHARDS, ".bin")) or not _is_file(path):
        return None
    if path.endswith(".safetensors"):
        return path
    kind = "is a pickle, which can run any code" if path.endswith(".bin") else "lists several files"
    raise UserError(
        f"{path} {kind}: give {SAFETENSORS}. In transformers, "
        'model.save_pretrained(DIR, max_shard_size="100GB") writes it'
    )


def prefer_best(path):
    """`model.ckpt-best` of a directory that has one, since the newest is mostly overtrained.

    Args:
        path: str, anything that `find` takes; all else is returned as it is.
    """
    best = os.path.join(path, BEST)
    return best if exists(best) else path


def _is_file(path):
    return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


def exists(prefix):
    """Whether a checkpoint's files are there."""
    return tf.io.gfile.exists(prefix + ".index")


def _prefixes_in(directory):
    indices = tf.io.gfile.glob(os.path.join(directory, "*.index"))
    return [path.removesuffix(".index") for path in indices]


def numbered_in(directory):
    """A directory's checkpoints with a step in their names: list of (step, prefix), ascending."""
    steps = [(step_of(prefix), prefix) for prefix in _prefixes_in(directory)]
    return sorted((step, prefix) for step, prefix in steps if step is not None)


def step_of(prefix):
    """The step at the end of a prefix, or None (`model.ckpt-best`)."""
    match = re.search(r"-(\d+)$", prefix)
    return int(match.group(1)) if match else None


def latest_in(directory):
    """The newest checkpoint of a run's directory, or None.

    That is the one its `checkpoint` file names, even if the directory was moved; without a usable
    file, which a line reports once, the one with the highest step.

    Raises:
        UserError: the `checkpoint` file is there and cannot be opened.
    """
    named = _named_by_state(directory)
    if named:
        here = os.path.join(directory, os.path.basename(named))
        for prefix in (here, os.path.join(directory, named)):
            if exists(prefix):
                return prefix
    numbered = numbered_in(directory)
    if not numbered:
        return None
    latest = numbered[-1][1]
    if named is not None:
        _warn_once(
            f"{os.path.join(directory, _STATE)} is damaged or names a checkpoint that is not "
            f"there: taking the one with the highest step, {latest}"
        )
    return latest


def _named_by_state(directory):
    """What a directory's `checkpoint` file names; "" if it is damaged, None if there is none."""
    path = os.path.join(directory, _STATE)
    if not tf.io.gfile.exists(path):
        return None
    try:
        state = text_format.Parse(files.read_bytes(path), CheckpointState())
    except (text_format.ParseError, UnicodeDecodeError):
        return ""
    return state.model_checkpoint_path


@functools.cache
def _warn_once(line):
    logging.warning(line)


# --- Changing --------------------------------------------------------------------------------


def tidy(directory):
    """Repairs what a killed process left in a run's directory; to be called before training there.

    Parts of checkpoints that were not finished, or not wholly deleted, are removed, and a damaged
    `checkpoint` file is written anew.

    Args:
        directory: str, which no other process trains in.
    """
    for path in tf.io.gfile.glob(os.path.join(directory, "model.ckpt-*_temp*")):
        files.remove(path)
    for path in tf.io.gfile.glob(os.path.join(directory, "model.ckpt-*.data-*")):
        prefix = path.rpartition(".data-")[0]
        if step_of(prefix) is not None and not exists(prefix):  # a numbered one has no other writer
            files.remove(path)
    if _named_by_state(directory) != "":
        return
    latest = latest_in(directory)
    if latest:
        write_list(directory, latest)
    else:
        files.remove(os.path.join(directory, _STATE))


def write_list(directory, latest):
    """Writes the `checkpoint` file, TensorFlow's list of a directory's checkpoints.

    Args:
        directory: str.
        latest: str, prefix of the one to go on from.
    """
    names = [os.path.basename(prefix) for _, prefix in numbered_in(directory)]
    state = CheckpointState(
        model_checkpoint_path=os.path.basename(latest),
        all_model_checkpoint_paths=names,
        all_model_checkpoint_timestamps=range(1, len(names) + 1),  # TensorFlow's manager wants them
    )
    files.write_text(os.path.join(directory, _STATE), text_format.MessageToString(state))


def delete(prefix):
    """Deletes a checkpoint's files, the index first: without it there is no checkpoint.

    Another process, one that trains or one that evaluates, may have deleted them before.
    """
    for path in [prefix + ".index", *tf.io.gfile.glob(f"{prefix}.data-*")]:
        files.remove(path)


def copy(prefix, target):
    """Copies a checkpoint's files to another prefix, the index last, each renamed into place.

    Args:
        prefix: str, what to copy.
        target: str, prefix of the copy.

    Returns:
        list of (source file, target file).
    """
    shards = tf.io.gfile.glob(prefix + ".data-?????-of-?????")
    sources = [*sorted(shards), prefix + ".index"]
    pairs = [(source, target + source[len(prefix) :]) for source in sources]
    with files.replacing(*(destination for _, destination in pairs)) as temporary:
        for source, name in zip(sources, temporary, strict=True):
            tf.io.gfile.copy(source, name, overwrite=True)
    logging.info("Copied %s to %s", prefix, target)
    return pairs


# --- What a run leaves next to its checkpoints -------------------------------------------------

SETTINGS = "run.json"
TASK = "finetuned_task.json"
THRESHOLD = "null_score_diff_threshold.json"
BEST_STATE = "best_trial.txt"
_BEST_STATE = re.compile(r"(\d{1,18}):(-1|\d{1,18}):([-+.\de]+)", re.ASCII)
# How text becomes the model's input: flag -> type. In addition to these, the vocabulary.
CASING = ("do_lower_case", "strip_accents")
LENGTHS = ("max_seq_length", "doc_stride", "max_query_length", "max_qa_length")
TEXT_FLAGS = dict.fromkeys(CASING, bool) | dict.fromkeys(LENGTHS, int)
VOCABULARY_FLAGS = ("spm_model_file", "vocab_file")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of a run: the flag that named it, its path and its hash."""

    flag: str
    path: str
    sha256: str

    def __post_init__(self):
        if self.flag not in VOCABULARY_FLAGS:
            raise UserError(f"flag must be one of {', '.join(VOCABULARY_FLAGS)}")

    def is_file(self, path):
        """Whether a file is there and is this vocabulary."""
        return _is_file(path) and sha256(path) == self.sha256


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Content of `run.json`: what a training was made with. Older files lack some of it.

    Attributes:
        flags: dict of those that had a value.
        config: dict, of the architecture.
        text: dict, how text became the model's input: those of TEXT_FLAGS that the run had.
        vocabulary: Vocabulary; None if unknown, as of records without a summary.
        versions: dict of what the last start ran with.
        devices: list of str.
        input_files: dict of path -> bytes.
        seed: int or None.
        parameter_count: int or None.
        starts: list of dict, the last starts.
    """

    flags: dict = dataclasses.field(default_factory=dict)
    config: dict
    text: dict
    vocabulary: Vocabulary | None = None
    versions: dict = dataclasses.field(default_factory=dict)
    devices: list = dataclasses.field(default_factory=list)
    input_files: dict = dataclasses.field(default_factory=dict)
    seed: int | None = None
    parameter_count: int | None = None
    starts: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        for name, kind in TEXT_FLAGS.items():
            if name in self.text:
                state.typed(self.text[name], kind, name)
        _ = self.albert_config

    @property
    def albert_config(self):
        """The AlbertConfig, with the defaults of keys that `config` lacks."""
        return AlbertConfig.from_dict(self.config)

    def differences(self, config):
        """In what an AlbertConfig differs: list of (key, its value, the recorded one)."""
        rows = [
            (field.name, getattr(config, field.name), getattr(self.albert_config, field.name))
            for field in dataclasses.fields(config)
            if field.compare
        ]
        return [row for row in rows if row[1] != row[2]]


@dataclasses.dataclass(frozen=True)
class FinetunedTask:
    """A task's name, and its labels in the order of their ids (None in regression)."""

    task_name: str
    labels: tuple[str, ...] | None

    def __str__(self):
        labels = "scores" if self.labels is None else f"labels {', '.join(self.labels)}"
        return f"{self.task_name} ({labels})"


@dataclasses.dataclass(frozen=True)
class Threshold:
    """The threshold of SQuAD 2.0 that an evaluation has tuned, and on which file."""

    null_score_diff_threshold: float
    tuned_on: str


class BestState(NamedTuple):
    """Content of `best_trial.txt`: the last step evaluated, the best one and its value."""

    step: int
    best_step: int
    best: float

    def is_beaten_by(self, step, value):
        """Whether another step's value is better; nan is not.

        An untrained model can have a high figure by chance, so any trained one replaces it. Of
        equal ones the later is better, since it was trained for longer.
        """
        if self.best_step < 0:
            better = value > self.best
        else:
            better = step > 0 and (self.best_step == 0 or value >= self.best)
        return better and math.isfinite(value)


class RunDirectory:
    """The directory of a run, or of any checkpoint; its files are read when they are asked for.

    Args:
        path: str.
    """

    def __init__(self, path):
        self.path = path

    def file(self, name):
        """Path of a file in it."""
        return os.path.join(self.path, name)

    @property
    def settings(self):
        """RunSettings of `run.json`; None where there is none, as of the original's runs."""
        remedy = "delete it, and give the flags of the training yourself"
        return state.read(self.file(SETTINGS), RunSettings, remedy)

    @property
    def resumed(self):
        """RunSettings of the run that a training here goes on with; None if there is none."""
        return self.settings if self.latest else None

    @property
    def task(self):
        """The FinetunedTask that its checkpoints are of; None where nothing tells."""
        return state.read(self.file(TASK), FinetunedTask)

    def write_task(self, task):
        """Writes down which FinetunedTask its checkpoints are of."""
        state.write(self.file(TASK), task)

    @property
    def threshold(self):
        """The Threshold for questions without gold answers; None where none was tuned."""
        remedy = "delete it, or give --null_score_diff_threshold"
        return state.read(self.file(THRESHOLD), Threshold, remedy)

    def write_threshold(self, threshold):
        """Keeps a Threshold for files without answers."""
        state.write(self.file(THRESHOLD), threshold)

    @property
    def results(self):
        """The BestState of `best_trial.txt`; None where nothing was evaluated."""
        path = self.file(BEST_STATE)
        text = files.read_text(path)
        if not text:
            return None
        match = _BEST_STATE.fullmatch(text.strip())
        try:
            found = match and BestState(int(match[1]), int(match[2]), float(match[3]))
        except ValueError:
            found = None
        if found is None or not math.isfinite(found.best):
            raise UserError(
                f"{path} must read global_step:best_step:best_value. Received: {text[:80]!r}. "
                "Delete it, and the checkpoints that are there are evaluated anew"
            )
        return found

    def write_results(self, best):
        """Writes the BestState after an evaluation."""
        files.write_text(self.file(BEST_STATE), ":".join(map(str, best)))

    @property
    def latest(self):
        """Prefix of its newest checkpoint, from which training resumes; or None."""
        return latest_in(self.path)

    @property
    def best(self):
        """Prefix of its best checkpoint; None where nothing was evaluated."""
        return self.file(BEST) if exists(self.file(BEST)) else None

    @property
    def trained(self):
        """Prefix of the best checkpoint or, where nothing was evaluated, of the newest; or None."""
        return self.best or self.latest


def sha256(path):
    """Hash of a file, in hexadecimal digits."""
    return hashlib.sha256(files.read_bytes(path)).hexdigest()
