# SPDX-License-Identifier: Apache-2.0
"""The directory of a run: finds and deletes its checkpoints, and reads its state files."""

import dataclasses
import functools
import math
import os
import re
from typing import NamedTuple

import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState  # in no public API

from albert_tf import files, models, options, state_files
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, check_choice
from albert_tf.resolve import hashes

BEST = "model.ckpt-best"
SAFETENSORS = "model.safetensors"
_SAVE = 'model.save_pretrained(DIR, max_shard_size="100GB") writes it'
_CONVERT = (
    "In transformers before version 5, AlbertForPreTraining.from_pretrained(OLD, from_{}=True)"
)
# Other weights of transformers: what they are, and how to get SAFETENSORS.
_REFUSED = {
    "model.safetensors.index.json": ("lists several files", f"In transformers, {_SAVE}"),
    "pytorch_model.bin": ("is a pickle, which can run any code", f"In transformers, {_SAVE}"),
    "pytorch_model.bin.index.json": ("lists several pickles", f"In transformers, {_SAVE}"),
    "tf_model.h5": ("is of Keras", f"{_CONVERT.format('tf')} reads it, and {_SAVE}"),
    "flax_model.msgpack": ("is of Flax", f"{_CONVERT.format('flax')} reads it, and {_SAVE}"),
}
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
_STATE = "checkpoint"  # TensorFlow's list of a directory's checkpoints


# --- Finding ---------------------------------------------------------------------------------


def find(path):
    """Finds the checkpoint that a user means.

    Args:
        path: str, a prefix (`.../model.ckpt-best`), one of its files (`.index`, `.data-...`,
            `.meta`), or a directory, whose `checkpoint` file may be missing or may name a path
            that does not exist, as in the released archives. A hub module's directory holds
            `variables/variables`, a directory of the transformers library `model.safetensors`. If
            nothing is there, the name of a packaged model.

    Returns:
        str, the prefix, or the `.safetensors` file.

    Raises:
        UserError: there is no checkpoint; the message names the path and the files looked for.
    """
    prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.rstrip("/"))
    if tf.io.gfile.exists(prefix + ".index"):
        return prefix
    if tf.io.gfile.isdir(path):
        return _find_in_directory(path.rstrip("/"))
    found = _find_safetensors(path)
    if found:
        return found
    if path.endswith((".keras", ".h5")) and _is_file(path):
        raise UserError(
            f"{path} is a file of Keras, without vocabulary and labels: tf_keras.models.load_model "
            "reads a model and model.load_weights reads weights. `save` of albert_tf.load(path) "
            "makes a directory with all that is needed"
        )
    if path in models.paths():
        return find(models.paths()[path])
    if path.endswith(_ARCHIVES) and _is_file(path):
        raise UserError(f"{path} is an archive: unpack it, and give the directory that it contains")
    _check_complete(os.path.dirname(prefix), f"{os.path.basename(prefix)}.data-*")
    raise UserError(
        f"no checkpoint at {path}: looked for {prefix}.index. Give a prefix such as "
        f"DIR/model.ckpt-best, its .index file, or its directory{models.hint(path)}"
    )


def _check_complete(directory, names):
    """Raises UserError if the values of a checkpoint are there without its index."""
    for path in files.matches_in(directory, names):
        index = path.rpartition(".data-")[0] + ".index"
        if not tf.io.gfile.exists(index):
            raise UserError(
                f"{index} is missing, and {path} cannot be read without it: copy it too"
            )


def _find_in_directory(directory):
    if latest := latest_in(directory):
        return latest
    prefixes, best = _prefixes_in(directory), os.path.join(directory, BEST)
    if best in prefixes:
        return best
    if len(prefixes) > 1:
        found = ", ".join(sorted(map(os.path.basename, prefixes)))
        raise UserError(
            f"cannot tell which checkpoint of {directory} to use ({found}): give its prefix"
        )
    of_module = os.path.join(directory, "variables", "variables")
    others = [of_module] if exists(of_module) else []
    if found := next(iter(prefixes + others), None) or _find_safetensors(directory):
        return found
    if tf.io.gfile.glob(os.path.join(directory, "*", "saved_model.pb")):
        raise UserError(
            f"{directory} has no checkpoint, but directories of SavedModels: give the directory of "
            "the training or of one module; predict.py --saved_model reads exports"
        )
    _check_complete(directory, "*.data-*")
    remedy = f"Give the directory or prefix of a checkpoint{models.hint(directory)}"
    if there := _found_below(directory):
        remedy = f"Give one of those below it: {', '.join(there)}"
    elif packed := [p for name in _ARCHIVES for p in files.matches_in(directory, f"*{name}")]:
        remedy = f"Unpack {packed[0]}, and give the directory that it contains"
    raise UserError(
        f"{directory} holds no checkpoint: looked for *.index, model.safetensors and variables. "
        f"{remedy}"
    )


def _found_below(directory):
    """Directories with checkpoints, up to two levels below one: sorted list of str."""
    paths = (
        path
        for folder in ("*", os.path.join("*", "*"))
        for name in ("*.index", SAFETENSORS)
        for path in tf.io.gfile.glob(os.path.join(directory, folder, name))
    )
    return sorted({os.path.dirname(path) for path in paths})


def directory_of(path):
    """Directory of a checkpoint, or the path itself if it is a directory.

    Args:
        path: str, anything that `find` takes.
    """
    return path if tf.io.gfile.isdir(path) else os.path.dirname(find(path))


def _find_safetensors(path):
    """Finds weights of transformers at a path (file or directory); None if there are none."""
    if tf.io.gfile.isdir(path):
        paths = [os.path.join(path, name) for name in (SAFETENSORS, *_REFUSED)]
        path = next(filter(_is_file, paths), "")
    name = os.path.basename(path)
    kinds = {".bin": "pytorch_model.bin", ".msgpack": "flax_model.msgpack"}
    name = kinds.get(os.path.splitext(name)[1], name)  # "x.bin" counts as "pytorch_model.bin"
    if not _is_file(path):
        return None
    if name in _REFUSED:
        kind, remedy = _REFUSED[name]
        raise UserError(f"{path} {kind}: give {SAFETENSORS}. {remedy}")
    return path if path.endswith(".safetensors") else None


def prefer_best(path):
    """Path of `model.ckpt-best` in a directory that has one, as the newest is often overtrained.

    Args:
        path: str, anything that `find` takes; other paths are returned unchanged.
    """
    best = os.path.join(path, BEST)
    return best if exists(best) else path


def _is_file(path):
    return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


def change_of(path, sha256):
    """What has happened to a file since it had a hash (str or None), for messages: str."""
    return f"has changed {hashes(sha256, files.sha256(path))}" if _is_file(path) else "is gone"


def exists(prefix):
    """Whether a checkpoint exists."""
    return tf.io.gfile.exists(prefix + ".index")


def _prefixes_in(directory, names="*"):
    indices = files.matches_in(directory, f"{names}.index")
    return [path.removesuffix(".index") for path in indices]


def numbered_in(directory):
    """Checkpoints `model.ckpt-<step>` of a directory: ascending list of (step, prefix)."""
    steps = [(step_of(prefix), prefix) for prefix in _prefixes_in(directory, "model.ckpt-[0-9]*")]
    return sorted((step, prefix) for step, prefix in steps if step is not None)


def step_of(prefix):
    """Step at the end of a prefix; None if there is none (`model.ckpt-best`)."""
    match = re.search(r"-(\d+)$", prefix)
    return int(match.group(1)) if match else None


def latest_in(directory):
    """Newest checkpoint of a run's directory, or None.

    This is the one that the `checkpoint` file names, even if the directory was moved. If the file
    is not usable, it is the one with the highest step, and a warning is logged once.

    Raises:
        UserError: the `checkpoint` file exists and cannot be opened.
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
            f"{os.path.join(directory, _STATE)} is damaged or names no checkpoint: taking {latest}"
        )
    return latest


def _named_by_state(directory):
    """Path in a directory's `checkpoint` file; "" if it is damaged, None if there is no file."""
    path = os.path.join(directory, _STATE)
    if not tf.io.gfile.exists(path):
        return None
    try:
        content = text_format.Parse(files.read_bytes(path), CheckpointState())
    except (text_format.ParseError, UnicodeDecodeError):
        return ""
    return content.model_checkpoint_path


@functools.cache
def _warn_once(line):
    logging.warning(line)


# --- Changing --------------------------------------------------------------------------------


def tidy(directory):
    """Cleans up after a killed process in a run's directory, before training there.

    Removes parts of checkpoints that are incomplete, and rewrites a damaged `checkpoint` file.

    Args:
        directory: str, in which no other process trains.
    """
    for path in files.matches_in(directory, "model.ckpt-*_temp*"):
        files.remove(path)
    for path in files.matches_in(directory, "model.ckpt-*.data-*"):
        prefix = path.rpartition(".data-")[0]
        if step_of(prefix) is not None and not exists(prefix):  # only training writes numbered ones
            files.remove(path)
    if _named_by_state(directory) != "":
        return
    latest = latest_in(directory)
    if latest:
        write_list(directory, [prefix for _, prefix in numbered_in(directory)], latest)
    else:
        files.remove(os.path.join(directory, _STATE))


def write_list(directory, prefixes, latest):
    """Writes the `checkpoint` file, TensorFlow's list of a directory's checkpoints.

    Args:
        directory: str.
        prefixes: list of str, the checkpoints of the list, oldest first.
        latest: str, prefix of the checkpoint to resume from.
    """
    content = CheckpointState(
        model_checkpoint_path=os.path.basename(latest),
        all_model_checkpoint_paths=map(os.path.basename, prefixes),
        # TensorFlow's manager needs them.
        all_model_checkpoint_timestamps=range(1, len(prefixes) + 1),
    )
    files.write_text(os.path.join(directory, _STATE), text_format.MessageToString(content))


def delete(prefix):
    """Deletes the files of a checkpoint, starting with the index, which makes it a checkpoint.

    Another process that trains or evaluates may have deleted them already.
    """
    directory, name = os.path.split(prefix)
    for path in [prefix + ".index", *files.matches_in(directory, f"{name}.data-*")]:
        files.remove(path)


# --- What a run leaves next to its checkpoints -------------------------------------------------

SETTINGS = "run.json"
TASK = "finetuned_task.json"
THRESHOLD = "null_score_diff_threshold.json"
EVAL_RESULTS = "eval_results.txt"
NOT_COMPARED = (  # lines that mark its blocks of other data: the current one, and an earlier one
    "not compared with the metrics of the training",
    "not compared with the figures of the training",
)
BEST_STATE = "best_trial.txt"
EVALUATED_ON = "evaluated_on.json"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_BEST_STATE = re.compile(rf"(\d{{1,18}}):(-1|\d{{1,18}}):({_NUMBER})", re.ASCII)
# Flags that, besides the vocabulary, decide how text becomes the model's input: name -> type.
CASING = ("do_lower_case", "strip_accents")
LENGTHS = tuple(
    field.name
    for group in (options.FineTunedModel, options.Squad, options.Race)
    for field in options.options_of(group)
    if field.metadata["on_record"] == "equal" and options.kind_of(field) is int
)
TEXT_FLAGS = dict.fromkeys(CASING, bool) | dict.fromkeys(LENGTHS, int)
VOCABULARY_FLAGS = ("spm_model_file", "vocab_file")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The vocabulary of a run: the flag that named it, its path and its hash."""

    flag: str
    path: str
    sha256: str

    def __post_init__(self):
        check_choice("flag", self.flag, VOCABULARY_FLAGS)

    def is_file(self, path):
        """Whether a file exists and is this vocabulary."""
        return _is_file(path) and files.sha256(path) == self.sha256


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Content of `run.json`: the settings of a training. Older files lack some of it.

    Attributes:
        flags: dict of the flags that had a value and an effect.
        config: dict, the architecture.
        text: dict of the TEXT_FLAGS that the run had.
        vocabulary: Vocabulary; None if unknown, as for records without a summary.
        versions: dict of the versions at the last start.
        devices: list of str.
        input_files: dict of path -> size in bytes.
        seed: int or None.
        parameter_count: int or None.
        starts: list of dict, the last starts.
        data: dict, the report on the data of a fine-tuning.
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
    data: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        for name, kind in TEXT_FLAGS.items():
            if name in self.text:
                state_files.typed(self.text[name], kind, name)
        for name, kind in options.KINDS.items():
            if name in self.flags:
                state_files.typed(self.flags[name], tuple[str, ...] if kind is list else kind, name)
        _ = self.albert_config

    @property
    def albert_config(self):
        """The AlbertConfig, with defaults for keys that `config` lacks."""
        return AlbertConfig.from_dict(self.config)


@dataclasses.dataclass(frozen=True)
class FinetunedTask:
    """Name of a task, and its labels in the order of their ids.

    The labels are None for regression, and () for SQuAD, which has none. `scale` are the means and
    standard deviations with which the head of K scores was trained; None for one as it is. `scores`
    are the names of their columns, if they are known.
    """

    task_name: str
    labels: tuple[str, ...] | None
    scale: tuple[tuple[float, ...], ...] | None = None
    scores: tuple[str, ...] | None = dataclasses.field(default=None, compare=False)

    @property
    def num_outputs(self):
        """Outputs of the classifier (int)."""
        if self.labels is None:
            return len(self.scale[0]) if self.scale else 1
        return 1 if self.task_name == "race" else len(self.labels)  # which scores each option

    def __str__(self):
        if self.labels == ():
            return self.task_name
        labels = "scores" if self.labels is None else f"labels {', '.join(self.labels)}"
        return f"{self.task_name} ({labels})"


@dataclasses.dataclass(frozen=True)
class NoAnswerThreshold:
    """Threshold of SQuAD 2.0, and the file on which an evaluation tuned it.

    `checkpoints` are the prefixes of the models if they are not the directory's own.
    """

    null_score_diff_threshold: float
    tuned_on: str
    checkpoints: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class EvaluatedOn:
    """Fingerprint of the files and settings of the evaluations in `best_trial.txt`.

    `best_metric` is the metric that chose the best checkpoint, if it is not that of the task.
    """

    fingerprint: str
    best_metric: str | None = None


class BestState(NamedTuple):
    """Content of `best_trial.txt`: the last step evaluated, the best one and its value."""

    step: int
    best_step: int
    best: float

    def is_beaten_by(self, step, value):
        """Whether the value of another step is better; nan never is.

        An untrained model can have a high value by chance, so any trained one replaces it. Among
        equal values the earlier one stays, as in the original.
        """
        if self.best_step < 0:
            better = value > self.best
        else:
            better = step > 0 and (self.best_step == 0 or value > self.best)
        return better and math.isfinite(value)


class RunDirectory:
    """The directory of a run or of any checkpoint. Its files are read on each access.

    Args:
        path: str.
    """

    def __init__(self, path):
        self.path = path

    def file(self, name):
        """Path of a file in the directory."""
        return os.path.join(self.path, name)

    @property
    def settings(self):
        """RunSettings of `run.json`; None if there is none, as in runs of the original."""
        remedy = "delete it, and give the flags of the training yourself"
        return state_files.read(self.file(SETTINGS), RunSettings, remedy)

    @property
    def resumed(self):
        """RunSettings of the run that a training here would resume; None if there is none."""
        return self.settings if self.latest else None

    @property
    def task(self):
        """The FinetunedTask of the checkpoints; None if unknown."""
        return state_files.read(self.file(TASK), FinetunedTask)

    def write_task(self, task):
        """Records the FinetunedTask of the checkpoints."""
        state_files.write(self.file(TASK), task)

    @property
    def threshold(self):
        """The NoAnswerThreshold for questions without gold answers; None if none was tuned."""
        remedy = "delete it, or give --null_score_diff_threshold"
        return state_files.read(self.file(THRESHOLD), NoAnswerThreshold, remedy)

    def write_threshold(self, threshold):
        """Records the NoAnswerThreshold for files without answers."""
        state_files.write(self.file(THRESHOLD), threshold)

    @property
    def results(self):
        """The BestState of `best_trial.txt`; None if nothing was evaluated."""
        path = self.file(BEST_STATE)
        text = files.read_text(path)
        if not text:
            return None
        match = _BEST_STATE.fullmatch(text.strip())
        if not match or not math.isfinite(float(match[3])):
            raise UserError(
                f"{path} is no global_step:best_step:best_value, but {text[:80]!r}: delete it"
            )
        return BestState(int(match[1]), int(match[2]), float(match[3]))

    @property
    def evaluated_on(self):
        """The EvaluatedOn of the results; None if unknown, as in runs of earlier versions."""
        return state_files.read(self.file(EVALUATED_ON), EvaluatedOn)

    def write_results(self, best, evaluated_on):
        """Records the BestState after an evaluation, and its EvaluatedOn."""
        files.write_text(self.file(BEST_STATE), ":".join(map(str, best)))
        state_files.write(self.file(EVALUATED_ON), evaluated_on)

    @property
    def latest(self):
        """Prefix of the newest checkpoint, from which training resumes; or None."""
        return latest_in(self.path)

    @property
    def best(self):
        """Prefix of the best checkpoint; None if nothing was evaluated."""
        return self.file(BEST) if exists(self.file(BEST)) else None

    @property
    def trained(self):
        """Prefix of the best checkpoint, or of the newest if nothing was evaluated; or None."""
        return self.best or self.latest

    def trained_or(self, given):
        """`trained`, or else the checkpoint at a path, its best one first.

        Args:
            given: str or None, anything that `find` takes.

        Raises:
            UserError: there is neither.
        """
        prefix = self.trained or (given and find(prefer_best(given)))
        if not prefix:
            raise UserError(
                f"{self.path} holds no fine-tuned checkpoint: train, or give --init_checkpoint"
            )
        return prefix
