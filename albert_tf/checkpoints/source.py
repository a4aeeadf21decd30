# SPDX-License-Identifier: Apache-2.0
"""Settings of a checkpoint: its config, vocabulary, casing, accents, lengths and task.

A source of weights is an unpacked release, the directory of a training, a checkpoint in either, a
TensorFlow Hub module or a directory of the transformers library. If the caller contradicts the
record of a training or the files of a tokenizer, an error is raised.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2  # no public API has these
from tf_keras.protobuf import saved_metadata_pb2

from albert_tf import files
from albert_tf.checkpoints import huggingface, name_table, readers, run_directory
from albert_tf.checkpoints.run_directory import (
    CASING,
    VOCABULARY_FLAGS,
    FinetunedTask,
    RunDirectory,
)
from albert_tf.config import ACTIVATIONS, CONFIG_FILE, AlbertConfig, is_of_transformers
from albert_tf.errors import UserError, parse_json

_VOCABULARIES = ("30k-clean.model", "*.model", "vocab.txt", "vocab*.txt")  # in order of preference
_TOKENIZER_CONFIG = "tokenizer_config.json"  # of transformers
_SAVED_MODEL = "saved_model.pb"
_OF_TRAINING = {"hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A checkpoint and the directory with its config, vocabulary and record.

    Attributes:
        directory: str.
        checkpoint: str, a prefix or a `.safetensors` file; None if only the files next to it
            matter.
    """

    directory: str
    checkpoint: str | None = None

    @functools.cached_property
    def settings(self):
        """RunSettings of the training; None if there is no `run.json`."""
        return RunDirectory(self.directory).settings

    @property
    def settings_file(self):
        """Path of `run.json`, for messages."""
        return os.path.join(self.directory, run_directory.SETTINGS)

    @property
    def is_module(self):
        """Whether the source is a TensorFlow Hub module."""
        names = (_SAVED_MODEL, os.path.join("variables", "variables.index"))
        return any(tf.io.gfile.exists(os.path.join(self.directory, name)) for name in names)

    def config_file(self):
        """Path of the config in the directory; None if there is none or for a module."""
        paths = [os.path.join(self.directory, name) for name in (CONFIG_FILE, huggingface.CONFIG)]
        return next(filter(tf.io.gfile.exists, paths), None)

    def read_config(self):
        """Reads the AlbertConfig.

        Raises:
            UserError: there is no config, or it is invalid.
        """
        path = self.config_file()
        if path:
            return read_config(path)
        if self.is_module:
            return _config_of_module(self.directory)
        if self.settings:
            return self.settings.albert_config
        raise UserError(
            f"{self.directory} has neither {CONFIG_FILE} nor {huggingface.CONFIG}, so the "
            "architecture is unknown: put the file there, or give another config"
        )

    def vocabulary_file(self):
        """Path of the SentencePiece model, or else of the WordPiece vocabulary; or None.

        Raises:
            UserError: there are several vocabularies.
        """
        for found in self.vocabularies():
            if len(found) > 1:
                raise UserError(
                    f"{os.path.dirname(found[0])} has several vocabularies: {', '.join(found)}. "
                    "Keep one of them there"
                )
            if found:
                return found[0]
        return None

    def vocabularies(self):
        """Yields the paths of the vocabularies of each pattern, in order of preference."""
        folder = os.path.join(self.directory, "assets") if self.is_module else self.directory
        for pattern in _VOCABULARIES:
            yield sorted(files.matches_in(folder, pattern))

    def recorded(self, name):
        """Value of one of TEXT_FLAGS in the record of the training; None if unknown."""
        return self.settings.text.get(name) if self.settings else None

    def setting_and_path(self, name):
        """Value of one of TEXT_FLAGS for the source (None if unknown), and the path that tells."""
        value = self.recorded(name)
        if value is not None or name not in CASING:
            return value, self.settings_file
        if self.is_module:
            return _casing_of_module(self.directory, name), self.directory
        value = self._in_tokenizer_config(name)
        if value is None and name == "strip_accents":  # the name of BertTokenizer
            kept = self._in_tokenizer_config("keep_accents")  # of AlbertTokenizer
            value = None if kept is None else not kept
        return value, os.path.join(self.directory, _TOKENIZER_CONFIG)

    def max_seq_length(self):
        """Longest sequence (int) in the config of a tokenizer of transformers; None if unknown."""
        length = self._in_tokenizer_config("model_max_length", int)
        # transformers writes 1e30 if the length is unknown
        return None if length is None or length > 2**31 else length

    def _in_tokenizer_config(self, name, kind=bool):
        value = huggingface.read_values(self.directory, _TOKENIZER_CONFIG).get(name)
        return value if type(value) is kind else None


def read_config(path):
    """Reads a config from `config.json` of transformers or from the original's file.

    Args:
        path: str.

    Returns:
        AlbertConfig.

    Raises:
        UserError: the file cannot be read, or its config is invalid.
    """
    values = files.read_json(path)
    if not is_of_transformers(values):
        return AlbertConfig.from_json_file(path)
    try:
        return huggingface.from_their_config(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def vocabulary_flag(path):
    """Name of the flag, and argument of FullTokenizer, for a vocabulary file: str."""
    return "vocab_file" if path.endswith(".txt") else "spm_model_file"


def find(path, takes_exports=False):
    """Finds the Source of a path; for a directory, its best or else its newest checkpoint.

    Args:
        path: str or os.PathLike, anything that `run_directory.find` takes.
        takes_exports: bool, whether the path may be an export of a fine-tuned model.

    Raises:
        UserError: there is no checkpoint, or it belongs to an export of a fine-tuned model.
    """
    path = os.fspath(path)
    checkpoint = run_directory.find(run_directory.prefer_best(path))
    directory = path.rstrip("/") if tf.io.gfile.isdir(path) else os.path.dirname(checkpoint)
    parent = Source(os.path.dirname(directory) or ".", checkpoint)
    is_inside = os.path.basename(directory) == "variables" and parent.is_module
    found = parent if is_inside else Source(directory or ".", checkpoint)
    if found.is_module and not takes_exports:
        heads = name_table.HEAD_NAMES.keys() - name_table.PRETRAINING_HEADS
        shapes = readers.open_reader(checkpoint).shapes
        if any(name_table.HEAD_NAMES[head][0] in shapes for head in heads):
            raise UserError(
                f"{found.directory} is an export of a fine-tuned model, which does not record all "
                "settings of its text: predict with predict.py --saved_model, or give the "
                "directory of the training"
            )
    return found


# --- What the source says, and what the caller does ----------------------------------------------


_FLAGS = {"task": "task_name"}  # argument of albert_tf.load -> flag, where the names differ


def as_flag(name, value=None):
    """Formats a setting for scripts: `--do_lower_case=false`; only its name if value is None."""
    flag = f"--{_FLAGS.get(name, name)}"
    if isinstance(value, list | tuple):
        value = ",".join(value)
    elif not isinstance(value, str | None):
        value = json.dumps(value)
    return flag if value is None else f"{flag}={value}"


def as_argument(name, value=None):
    """Formats a setting for Python: `do_lower_case=False`; only its name if value is None."""
    return name if value is None else f"{name}={value!r}"


@dataclasses.dataclass(frozen=True)
class Choice:
    """Settings of a model, from its source or else from the caller.

    Attributes:
        source: Source or None.
        text: dict of the TEXT_FLAGS that the caller gives.
        vocabulary_flag, vocabulary_path: str or None, the vocabulary that the caller gives, with
            its name in VOCABULARY_FLAGS.
        given_config: AlbertConfig or None, the config that the caller gives.
        config_path: str, path of that config, for messages.
        may_differ: bool, whether the caller may contradict the training's record: a resumed
            training compares the two itself.
        shown: callable, `as_flag` or `as_argument`.
    """

    source: Source | None
    text: dict = dataclasses.field(default_factory=dict)
    vocabulary_flag: str | None = None
    vocabulary_path: str | None = None
    given_config: AlbertConfig | None = None
    config_path: str = "the config"
    may_differ: bool = False
    shown: Callable = as_flag

    def setting(self, name):
        """Value of one of TEXT_FLAGS; None if unknown.

        Raises:
            UserError: the caller contradicts the training's record.
        """
        given = self.text.get(name)
        recorded, path = self.source.setting_and_path(name) if self.source else (None, None)
        if given is None:
            return recorded
        if recorded not in (None, given) and not self.may_differ:
            raise UserError(
                f"{self.shown(name, given)}, but the model was trained with "
                f"{self.shown(name, recorded)} ({path}): leave it out"
            )
        return given

    @functools.cached_property
    def vocabulary(self):
        """Vocabulary: (str, one of VOCABULARY_FLAGS; str, the path).

        Raises:
            UserError: there is no vocabulary, or it is not the one of the training.
        """
        recorded = self.source and self.source.settings and self.source.settings.vocabulary
        if self.vocabulary_path:
            if self.source and not self.may_differ:
                self._check_given_vocabulary(recorded)
            return self.vocabulary_flag, self.vocabulary_path
        if recorded:
            return recorded.flag, self._find_recorded(recorded)
        path = self.source and self.source.vocabulary_file()
        if path is None:
            where = f"{self.source.directory} holds no vocabulary: " if self.source else ""
            raise UserError(
                f"{where}give {' or '.join(map(self.shown, VOCABULARY_FLAGS))} (the SentencePiece "
                "model, such as 30k-clean.model, or vocab.txt)"
            )
        return vocabulary_flag(path), path

    def _check_given_vocabulary(self, recorded):
        """Raises UserError if the record, or a directory with all its model needs, has another."""
        path, directory = self.vocabulary_path, self.source.directory
        if recorded:
            if run_directory.sha256(path) != recorded.sha256:
                raise UserError(
                    f"{path} is not the vocabulary that the model was trained with, "
                    f"{recorded.path} with sha256 {recorded.sha256[:12]}... "
                    f"({self.source.settings_file}): give that file"
                )
        elif tf.io.gfile.exists(os.path.join(directory, _TOKENIZER_CONFIG)):
            own = [path for found in self.source.vocabularies() for path in found]
            if own and run_directory.sha256(path) not in map(run_directory.sha256, own):
                raise UserError(
                    f"{path} is not the vocabulary of the model, {own[0]}: give that file or none"
                )

    @property
    def tokenizer_arguments(self):
        """Arguments of FullTokenizer and GraphTokenizer: dict."""
        kind, path = self.vocabulary
        casing = {name: self.setting(name) for name in CASING}
        return {kind: path} | {n: value is None or bool(value) for n, value in casing.items()}

    def _find_recorded(self, recorded):
        path = recorded.path
        if not recorded.is_file(path):
            path = self.source.vocabulary_file()
        if path is None or not recorded.is_file(path):
            raise UserError(
                f"{recorded.path}, the vocabulary according to {self.source.settings_file}, is "
                f"gone or another file now: give the right one as {self.shown(recorded.flag)}"
            )
        return path

    @functools.cached_property
    def config(self):
        """The AlbertConfig.

        Raises:
            UserError: there is no config, or its architecture is not the one of the training.
        """
        config, path = self.given_config, self.config_path
        if config is None:
            if self.source is None:
                raise UserError(
                    f"give --albert_config_file, or --init_checkpoint with {CONFIG_FILE} next to it"
                )
            config, path = self.source.read_config(), self.source.config_file()
        settings = self.source and self.source.settings
        if settings and not self.may_differ:
            for key, ours, recorded in settings.differences(config):
                if key not in _OF_TRAINING:
                    raise UserError(
                        f"{path} has {key}={ours!r}, but the model was trained with {recorded!r} "
                        f"({self.source.settings_file}): give the config of the training"
                    )
        return config


# --- The task ------------------------------------------------------------------------------------


def check_task(task, output_dir, given=None):
    """Raises UserError if the checkpoints of a run were trained for another task.

    If their task is unknown, as for runs of the original, nothing is checked.

    Args:
        task: FinetunedTask, the expected task.
        output_dir: str, the run's directory.
        given: str or None, a fine-tuned checkpoint that is used if output_dir holds none.
    """
    if RunDirectory(output_dir).trained:  # a start that failed has recorded its task too
        remedy = "give --output_dir a directory of its own"
        _check_task_in(output_dir, task, f"--output_dir={output_dir}", remedy)
    elif given:
        remedy = "give a checkpoint of this task, or train with --do_train"
        directory = run_directory.directory_of(given)
        _check_task_in(directory, task, f"--init_checkpoint={given}", remedy)


def _check_task_in(directory, task, flag, remedy):
    found = RunDirectory(directory).task
    if found is None:
        labels = huggingface.read_labels(directory)
        if labels in (None, task.labels):
            return
        found = FinetunedTask("another task", labels)
    if found != task:
        if found.task_name == task.task_name and found.labels and task.labels:
            raise UserError(
                f"{flag} was trained with labels {', '.join(found.labels)} and not with "
                f"{', '.join(task.labels)}: give {as_flag('labels', found.labels)}, or {remedy}"
            )
        raise UserError(
            f"{flag} was trained for {found} and not for {task}: {remedy}, or change --task_name"
        )


# --- Modules for TensorFlow Hub ------------------------------------------------------------------
# Three kinds of modules share a layout (`saved_model.pb`, `variables/`, `assets/`): those of this
# project, of the Model Garden (TensorFlow 2) and of the original (TensorFlow 1).

# Key of the Model Garden's encoder -> key of AlbertConfig.
_GARDEN_KEYS = {
    "vocab_size": "vocab_size",
    "embedding_width": "embedding_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
}


def _config_of_module(directory):
    """Reads the AlbertConfig of a module: its `albert_config.json`, or the metadata of Keras."""
    path = os.path.join(directory, "assets", CONFIG_FILE)
    if tf.io.gfile.exists(path):
        return AlbertConfig.from_json_file(path)
    path, objects = _keras_metadata(directory)
    for metadata in objects:
        values = metadata.get("config")
        if isinstance(values, dict) and _GARDEN_KEYS.keys() <= values.keys():
            try:
                return _from_garden(values)
            except UserError as error:
                raise UserError(f"{path}: {error}. Or give --albert_config_file") from error
    raise UserError(
        f"the module {directory} has no assets/albert_config.json and does not describe "
        "its architecture otherwise: give --albert_config_file"
    )


def _from_garden(values):
    # "gelu", "Text>gelu" or {"class_name": ..., "config": "Text>gelu"}, depending on the release
    activation = values.get("activation")
    if isinstance(activation, dict):
        activation = activation.get("config")
    name = str(activation).rpartition(">")[2]
    if name not in ACTIVATIONS:
        raise UserError(f"this project does not know the module's activation, {activation!r}")
    ours = {key: values[theirs] for theirs, key in _GARDEN_KEYS.items()}
    if ours["embedding_size"] is None:
        ours["embedding_size"] = ours["hidden_size"]
    return AlbertConfig.from_dict({**ours, "hidden_act": name})


def _keras_metadata(directory):
    """Reads the metadata of Keras, from its own file or, in older modules, from the model's.

    Returns:
        (str, list of dict): the file, and the metadata of each object.
    """
    path = os.path.join(directory, "keras_metadata.pb")
    if tf.io.gfile.exists(path):
        nodes = _parsed(saved_metadata_pb2.SavedMetadata(), path).nodes
        texts = [node.metadata for node in nodes]
    else:
        path = os.path.join(directory, _SAVED_MODEL)
        graphs = _parsed(saved_model_pb2.SavedModel(), path).meta_graphs
        nodes = [node for graph in graphs for node in graph.object_graph_def.nodes]
        texts = [node.user_object.metadata for node in nodes]
    where = f"the metadata of an object in {path}"
    return path, [parse_json(text, where) for text in texts if text.startswith("{")]


def _casing_of_module(directory, name):
    """Reads a value of CASING (bool); None if unknown: others do not record `strip_accents`."""
    reader = readers.TensorFlowReader(run_directory.find(directory))
    value = reader.attribute(name)
    if value is None:
        value = _constant_output(directory, name)
    if value is None:
        return None
    value = np.asarray(value)
    if value.size != 1 or value.dtype.kind not in "bi":
        raise UserError(
            f"{name} in {directory} must be true or false. Received: {str(value)[:80]!r}. "
            "Give --albert_config_file, --init_checkpoint and the vocabulary in place of the module"
        )
    return bool(value.item())


def _constant_output(directory, output):
    """Constant output of the signature `tokenization_info` of TensorFlow 1; or None."""
    path = os.path.join(directory, _SAVED_MODEL)
    for graph in _parsed(saved_model_pb2.SavedModel(), path).meta_graphs:
        outputs = graph.signature_def["tokenization_info"].outputs  # empty if there is none
        if output not in outputs:
            continue
        nodes = {node.name: node for node in graph.graph_def.node}
        node = nodes.get(outputs[output].name.partition(":")[0])
        while node is not None and node.op == "Identity" and node.input:
            node = nodes.pop(node.input[0].partition(":")[0], None)  # pop, in case of a cycle
        if node is not None and node.op == "Const":
            try:
                return tf.make_ndarray(node.attr["value"].tensor)
            except (TypeError, ValueError) as error:
                raise UserError(f"cannot read {output} of {path}: {error}") from error
    return None


def _parsed(message, path):
    """Fills a protocol buffer with the content of a file; it stays empty if there is no file."""
    content = files.read_bytes(path) if tf.io.gfile.exists(path) else b""
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise UserError(
            f"cannot read {path}: it is damaged ({error}). Download the module again"
        ) from error
    return message
