# SPDX-License-Identifier: Apache-2.0
"""Settings of a checkpoint: its config, vocabulary, casing, accents, lengths and task.

A source of weights is an unpacked release, the directory of a training, a checkpoint in either, a
TensorFlow Hub module or a directory of the transformers library. If the caller contradicts the
record of a training or the files of a tokenizer, an error is raised.
"""

import dataclasses
import functools
import itertools
import os

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2  # no public API has these
from tf_keras.protobuf import saved_metadata_pb2

from albert_tf import files, options, vocabulary_record
from albert_tf.checkpoints import huggingface, loading, name_table, readers, run_directory
from albert_tf.checkpoints.run_directory import CASING, VOCABULARY_FLAGS, RunDirectory
from albert_tf.config import ACTIVATIONS, CONFIG_FILE, AlbertConfig, is_of_transformers
from albert_tf.errors import UserError, about, parse_json
from albert_tf.resolve import RECORD, SOURCE, Fact, as_flag, contradictions

_VOCABULARIES = ("30k-clean.model", "*.model", "vocab.txt", "vocab*.txt")  # in order of preference
_SAVED_MODEL = "saved_model.pb"
_CONFIG, _PAIR = "albert_config_file", "text_pair_column"
_OF_TRAINING = {"hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A checkpoint and the directory with its config, vocabulary and run.json.

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
        """Path of the config in the directory; None if there is none or for a module.

        Raises:
            UserError: there are two configs of different models.
        """
        paths = [os.path.join(self.directory, name) for name in (CONFIG_FILE, huggingface.CONFIG)]
        paths = [*filter(tf.io.gfile.exists, paths)]
        if len(paths) == 2 and not self.settings:  # which would decide
            is_albert = huggingface.read_values(self.directory).get("model_type") == "albert"
            if is_albert and _of_model(read_config(paths[0])) != _of_model(read_config(paths[1])):
                raise UserError(f"{paths[0]} and {paths[1]} differ: keep the one of this model")
        return paths[0] if paths else None

    def read_config(self, shown=as_flag):
        """Reads the AlbertConfig.

        Args:
            shown: callable, `resolve.as_flag` or `resolve.as_argument`, for messages.

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
        others = files.matches_in(self.directory, "*config*.json")
        there = f". There is {', '.join(others)}" if others else ""
        raise UserError(
            f"{self.directory} has neither {CONFIG_FILE} nor {huggingface.CONFIG}: give "
            f"{shown(_CONFIG)}{there}"
        )

    def vocabulary_file(self):
        """Path of the SentencePiece model, or else of the WordPiece vocabulary; or None.

        Raises:
            UserError: there are several vocabularies.
        """
        found = self.vocabularies()
        if len({files.sha256(path) for path in found}) > 1:
            flags = " or ".join(map(as_flag, VOCABULARY_FLAGS))
            raise UserError(f"keep one of the vocabularies {', '.join(found)}, or give {flags}")
        return found[0] if found else None

    def find_vocabulary(self, recorded):
        """Path of a run_directory.Vocabulary; None if the file is gone or changed."""
        return next(filter(recorded.is_file, (recorded.path, *self.vocabularies())), None)

    def vocabularies(self):
        """Paths of the vocabularies in the directory: list of str, in order of preference."""
        folder = os.path.join(self.directory, "assets") if self.is_module else self.directory
        found = (sorted(files.matches_in(folder, pattern)) for pattern in _VOCABULARIES)
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def recorded(self, name):
        """Value of one of TEXT_FLAGS in run.json of the training; None if unknown."""
        return self.settings.text.get(name) if self.settings else None

    def casing(self, name):
        """The Fact on one of CASING; None if it is unknown."""
        value, path = self.recorded(name), self.settings_file
        if value is None and self.is_module:
            value, path = _casing_of_module(self.directory, name), self.directory
        elif value is None:
            value, path = huggingface.read_casing(self.directory, name)
        return None if value is None else Fact(value, path, RECORD if self.settings else SOURCE)

    def max_seq_length(self):
        """Longest sequence (int) in the config of a tokenizer of transformers; None if unknown."""
        values = huggingface.read_values(self.directory, huggingface.TOKENIZER_CONFIG)
        pooled = huggingface.read_values(self.directory, huggingface.SENTENCE_CONFIG)
        length = pooled.get("max_seq_length") or values.get("model_max_length")
        # transformers writes 1e30 if the length is unknown
        return length if type(length) is int and length <= 2**31 else None


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
    with about(path):
        return huggingface.from_their_config(values)


def vocabulary_flag(path):
    """Name of the flag, and argument of FullTokenizer, for a vocabulary file: str."""
    return "vocab_file" if path.endswith((".txt", ".vocab")) else "spm_model_file"


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
                f"{found.directory} is an export of a fine-tuned model: predict with predict.py "
                "--saved_model, or give the directory of the training"
            )
    return found


# --- What a source says of the settings ----------------------------------------------------------

START, RESUME, USE = "start", "resume", "use"  # what a command does with a source


def facts(found, relation, typed):
    """What a source says of the settings of a command.

    Args:
        found: Source.
        relation: START if a training starts from its weights, whose lengths and task are its own;
            RESUME if a training goes on; USE for an evaluation, prediction or export.
        typed: dict of name -> value, of the flags that the user gave.

    Returns:
        dict of name -> resolve.Fact or, if nothing is known, None.
    """
    typed = {name: value for name, value in typed.items() if value != ""}  # of an unset variable
    recorded = {} if relation == START else _recorded(found, relation)
    text = _of_text(found, typed)
    paths = {name: text[name].value for name in VOCABULARY_FLAGS if text.get(name)}
    return recorded | text | of_vocabulary(paths | typed) | _of_config(found, relation)


def of_vocabulary(paths):
    """Facts on casing that a vocabulary records.

    Args:
        paths: dict of name -> value, with those of VOCABULARY_FLAGS that are known.
    """
    path = paths.get("spm_model_file")
    if not path or not tf.io.gfile.exists(path) or tf.io.gfile.isdir(path):
        return {}
    values = vocabulary_record.read(files.read_bytes(path), path)
    return {name: Fact(values[name], path) for name in CASING if name in values}


def key(name, value):
    """What is compared of a setting with the `key` of a Fact."""
    if name in VOCABULARY_FLAGS:
        return files.sha256(value)
    if name == _CONFIG:
        return _architecture(read_config(value) if isinstance(value, str) else value)
    if name == _PAIR:
        return bool(value)
    if name == "task_name":
        return options.MODEL_TASKS.get(value.lower(), value.lower())
    return value


def _recorded(found, relation):
    """Facts in run.json and in the file of the task; those on vocabulary and config are others'."""
    settings, path, known = found.settings, found.settings_file, {}
    if settings:
        unset = options.UNSET if settings.flags else {}  # a flag that is not written had this value
        values = unset | settings.flags | settings.text
        known = {
            name: Fact(value, path, binds=relation == USE or name not in run_directory.LENGTHS)
            for name, value in values.items()
            if name not in (*VOCABULARY_FLAGS, _CONFIG, "seed")
        }
        known[_PAIR] = Fact(values.get(_PAIR), path, key=bool(values.get(_PAIR)))
    if relation == RESUME:
        seed = settings.seed if settings else None
        known["seed"] = Fact(loading.seed_in(found.checkpoint) if seed is None else seed, path)
    return known | _of_task(found)


def _of_task(found):
    """Facts on the task, which is unknown without its file, as in runs of the original."""
    folder = RunDirectory(found.directory)
    task, path = folder.task, folder.file(run_directory.TASK)
    if task is None:
        labels = huggingface.read_labels(found.directory)
        path = os.path.join(found.directory, huggingface.CONFIG)
        fact = labels and Fact(list(labels), path, SOURCE)
        return dict(task_name=None, labels=fact, regression=None, multi_label=None)
    return dict(
        task_name=Fact(task.task_name, path),
        labels=Fact(task.labels and list(task.labels), path),
        regression=Fact(task.labels is None, path),
        multi_label=Fact(task.task_name == options.MULTI_LABEL, path),
    )


def _of_text(found, typed):
    """Facts on casing and vocabulary."""
    known = {name: fact for name in CASING if (fact := found.casing(name))}
    recorded = found.settings and found.settings.vocabulary
    given = next((name for name in VOCABULARY_FLAGS if name in typed), None)
    if recorded:
        path = recorded.path if given else found.find_vocabulary(recorded)
        fact = Fact(path, found.settings_file, key=recorded.sha256)
        other = {name: fact._replace(value=None) for name in VOCABULARY_FLAGS}
        return known | other | {recorded.flag: fact}
    if not given:
        if path := found.vocabulary_file():
            huggingface.check_tokenizer(found.directory, path)
            fact = Fact(path, found.directory, SOURCE, key=files.sha256(path))
            known[vocabulary_flag(path)] = fact
        return known
    if tf.io.gfile.exists(os.path.join(found.directory, huggingface.TOKENIZER_CONFIG)):
        own, ours = found.vocabularies(), files.sha256(typed[given])
        same = next((path for path in own if files.sha256(path) == ours), None)
        if same:
            huggingface.check_tokenizer(found.directory, same)
        if own:
            known[given] = Fact(own[0], found.directory, SOURCE, key=files.sha256(same or own[0]))
    return known


def _of_config(found, relation):
    path = found.config_file()
    if found.settings:
        config = found.settings.albert_config
        values = _architecture(config) if relation == RESUME else _of_model(config)
        return {_CONFIG: Fact(path, found.settings_file, key=values)}
    return {_CONFIG: Fact(path, found.directory, SOURCE, binds=False)} if path else {}


def _architecture(config):
    fields = (field.name for field in dataclasses.fields(config) if field.compare)
    return {name: getattr(config, name) for name in fields}


def _of_model(config):
    """The values of a config that do not only matter in a training: dict."""
    values = _architecture(config)
    return {name: value for name, value in values.items() if name not in _OF_TRAINING}


def config_of(settings, found, shown=as_flag):
    """The config of a command's model, which has to be that of run.json.

    Args:
        settings: resolve.Resolved.
        found: Source or None.
        shown: callable, `resolve.as_flag` or `resolve.as_argument`.

    Returns:
        (AlbertConfig, str: the file or directory it is from).

    Raises:
        UserError: there is no config, or its architecture is not the one of the training.
    """
    given = settings.albert_config_file
    if isinstance(given, AlbertConfig):
        return given, "the config"
    if given:
        wrong = contradictions({_CONFIG: given}, settings.facts, key=key, shown=shown)
        if wrong and not settings.get("allow_changes_on_resume"):
            raise UserError(f"{wrong[0]}: give the config of the training")
        return read_config(given), given
    if found is None:
        raise UserError(f"give --{_CONFIG}, or --init_checkpoint with {CONFIG_FILE} next to it")
    return found.read_config(shown), found.directory


def tokenizer_arguments(resolved, found, shown=as_flag):
    """Arguments of FullTokenizer and GraphTokenizer, of a command's settings: dict.

    Args:
        resolved: resolve.Resolved.
        found: Source or None, for messages.
        shown: callable, `resolve.as_flag` or `resolve.as_argument`.

    Raises:
        UserError: there is no vocabulary.
    """
    name = next((name for name in VOCABULARY_FLAGS if resolved.get(name)), None)
    if name is None:
        recorded = found and found.settings and found.settings.vocabulary
        where = f"{found.directory} holds no vocabulary: " if found else ""
        if recorded:
            change = run_directory.change_of(recorded.path, recorded.sha256)
            where = f"{recorded.path} of {found.settings_file} {change}: if you have the old file, "
        elif found and tf.io.gfile.exists(os.path.join(found.directory, huggingface.TOKENIZER)):
            name = huggingface.TOKENIZER
            where = f"{found.directory} has only {name}: put spiece.model or vocab.txt there, or "
        raise UserError(f"{where}give {' or '.join(map(shown, VOCABULARY_FLAGS))}")
    casing = {flag: resolved.get(flag) for flag in CASING}  # which are on if they are unknown
    casing = {flag: value is None or bool(value) for flag, value in casing.items()}
    return {name: resolved.get(name)} | casing


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
            with about(path, remedy="Or give --albert_config_file"):
                return _from_garden(values)
    raise UserError(
        f"the module {directory} has no assets/albert_config.json: give --albert_config_file"
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
            f"{name} of {directory} must be true or false. Received: {str(value)[:80]!r}"
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
            with about(f"cannot read {output} of {path}", TypeError, ValueError):
                return tf.make_ndarray(node.attr["value"].tensor)
    return None


def _parsed(message, path):
    """Fills a protocol buffer with the content of a file; it stays empty if there is no file."""
    content = files.read_bytes(path) if tf.io.gfile.exists(path) else b""
    remedy = "Download the module again"
    with about(f"cannot read {path}: it is damaged", DecodeError, remedy=remedy):
        message.ParseFromString(content)
    return message
