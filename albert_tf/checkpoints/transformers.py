# SPDX-License-Identifier: Apache-2.0
"""Directories of the transformers library: the same weights under other names, read and written.

Its kernels are [outputs, inputs], the transpose of the original's; its numbers otherwise agree,
with `hidden_act` "gelu_new" for the original's "gelu".
"""

import json
import os
import re

import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf
from absl import logging

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
PICKLE = "pytorch_model.bin"
SHARDS = "model.safetensors.index.json"

# The name table: (the original's name, transformers' name), {g} and {j} as in `checkpoints`.
_DENSE = {"kernel": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}
_BLOCK = "bert/encoder/transformer/group_{g}/inner_group_{j}/"
_LAYER = "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}."


def _rows(original, theirs, leaves):
    return [(f"{original}/{leaf}", f"{theirs}.{their_leaf}") for leaf, their_leaf in leaves.items()]


_MAPPING = _rows(
    "bert/encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in", _DENSE
)
_ENCODER = [
    ("bert/embeddings/word_embeddings", "albert.embeddings.word_embeddings.weight"),
    ("bert/embeddings/token_type_embeddings", "albert.embeddings.token_type_embeddings.weight"),
    ("bert/embeddings/position_embeddings", "albert.embeddings.position_embeddings.weight"),
    *_rows("bert/embeddings/LayerNorm", "albert.embeddings.LayerNorm", _NORM),
    *_MAPPING,
    *_rows(_BLOCK + "attention_1/self/query", _LAYER + "attention.query", _DENSE),
    *_rows(_BLOCK + "attention_1/self/key", _LAYER + "attention.key", _DENSE),
    *_rows(_BLOCK + "attention_1/self/value", _LAYER + "attention.value", _DENSE),
    *_rows(_BLOCK + "attention_1/output/dense", _LAYER + "attention.dense", _DENSE),
    *_rows(_BLOCK + "LayerNorm", _LAYER + "attention.LayerNorm", _NORM),
    *_rows(_BLOCK + "ffn_1/intermediate/dense", _LAYER + "ffn", _DENSE),
    *_rows(_BLOCK + "ffn_1/intermediate/output/dense", _LAYER + "ffn_output", _DENSE),
    *_rows(_BLOCK + "LayerNorm_1", _LAYER + "full_layer_layer_norm", _NORM),
    *_rows("bert/pooler/dense", "albert.pooler", _DENSE),
]
_MASKED_LM = [
    *_rows("cls/predictions/transform/dense", "predictions.dense", _DENSE),
    *_rows("cls/predictions/transform/LayerNorm", "predictions.LayerNorm", _NORM),
    ("cls/predictions/output_bias", "predictions.bias"),
]
_SENTENCE_ORDER = [
    ("cls/seq_relationship/output_weights", "sop_classifier.classifier.weight"),
    ("cls/seq_relationship/output_bias", "sop_classifier.classifier.bias"),
]
_CLASSIFIER = [("output_weights", "classifier.weight"), ("output_bias", "classifier.bias")]
_SQUAD = [
    ("cls/squad/output_weights", "qa_outputs.weight"),
    ("cls/squad/output_bias", "qa_outputs.bias"),
]
_THEIRS = dict(_ENCODER + _MASKED_LM + _SENTENCE_ORDER + _CLASSIFIER + _SQUAD)
_ORIGINAL = {theirs: original for original, theirs in _THEIRS.items()}
_ALIASES = {"predictions.decoder.bias": "predictions.bias"}  # one parameter; a file has either
_DECODER = "predictions.decoder.weight"  # the word embeddings once more
_WORDS = "albert.embeddings.word_embeddings.weight"
_BASE = "albert."  # absent in files of the encoder alone
_BASE_PARTS = ("embeddings.", "encoder.", "pooler.")

# Class in transformers -> rows of its heads; the first whose heads a checkpoint has is written.
_CLASSIFICATION = "AlbertForSequenceClassification"
_CHOICE = "AlbertForMultipleChoice"
_TOKENS = "AlbertForTokenClassification"
_OF_TASK = {"race": _CHOICE, "ner": _TOKENS}  # with the same head: the task tells them apart
_ARCHITECTURES = {
    "AlbertForQuestionAnswering": _SQUAD,
    _CHOICE: _CLASSIFIER,
    _TOKENS: _CLASSIFIER,
    _CLASSIFICATION: _CLASSIFIER,
    "AlbertForPreTraining": _MASKED_LM + _SENTENCE_ORDER,
    "AlbertForMaskedLM": _MASKED_LM,
    "AlbertModel": [],
}
WITH_MASKED_LM = ("AlbertForPreTraining", "AlbertForMaskedLM")
_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "tanh": "tanh", "linear": "linear"}
_SAME_KEYS = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "intermediate_size", "inner_group_num", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range",
)  # fmt: skip
_FIXED_KEYS = {"layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}


# --- Names ------------------------------------------------------------------------------------


def their_name(original):
    """A variable's name in transformers; None for what it has none for."""
    return _translated(
        original, r"/group_(\d+)/inner_group_(\d+)/", "/group_{g}/inner_group_{j}/", _THEIRS
    )


def original_name(theirs):
    """The original's name for a variable of transformers; None for what it has none for."""
    pattern = r"\.albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\."
    return _translated(theirs, pattern, ".albert_layer_groups.{g}.albert_layers.{j}.", _ORIGINAL)


def _translated(name, pattern, general, table):
    match = re.search(pattern, name)
    if not match:
        return table.get(name)
    row = table.get(name.replace(match.group(), general))
    return row and row.format(g=match.group(1), j=match.group(2))


# --- Config -----------------------------------------------------------------------------------


def read_config(path):
    """The config in a JSON file, be it `config.json` of transformers or the original's.

    Args:
        path: str.

    Returns:
        AlbertConfig.

    Raises:
        UserError: the file cannot be read, or makes no model.
    """
    values = files.read_json(path)
    if not isinstance(values, dict) or "model_type" not in values:
        return AlbertConfig.from_json_file(path)
    try:
        return from_their_config(values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def from_their_config(values):
    """The config in `config.json`.

    Args:
        values: dict, the parsed JSON object.

    Returns:
        AlbertConfig.

    Raises:
        UserError: it is no ALBERT, or one that this project cannot compute.
    """
    if values["model_type"] != "albert":
        raise UserError(f"model_type must be albert. Received: {values['model_type']!r}")
    for key, value in _FIXED_KEYS.items():
        if values.get(key, value) != value:
            raise UserError(f"{key} must be {value}. Received: {values[key]!r}")
    groups = {"num_hidden_groups": values.get("num_hidden_groups", 1)}
    same = {key: values[key] for key in _SAME_KEYS if key in values}
    hidden_act = _our_activation(values.get("hidden_act", "gelu_new"))
    config = AlbertConfig.from_dict({**same, **groups, "hidden_act": hidden_act})
    check_expressible(config)
    return config


def read_labels(directory):
    """The class names in `config.json` of a directory, in order; None where it tells none.

    Args:
        directory: str.

    Returns:
        tuple of str or None.
    """
    path = os.path.join(directory, CONFIG)
    values = files.read_json(path) if _exists(path) else None
    names = values.get("id2label") if isinstance(values, dict) else None
    try:
        labels = tuple(str(names[str(number)]) for number in range(len(names)))
    except (KeyError, TypeError):
        return None
    return None if set(labels) == set(_default_labels(len(labels))) else labels


def _default_labels(count):
    return [f"LABEL_{number}" for number in range(count)]


def _our_activation(theirs):
    if theirs == "gelu":
        logging.warning(
            'hidden_act "gelu" of transformers is the exact form; the tanh form is used, with '
            "which the released models were trained"
        )
        return "gelu"
    ours = {value: key for key, value in _ACTIVATIONS.items()} | {"gelu_pytorch_tanh": "gelu"}
    if not isinstance(theirs, str) or theirs not in ours:
        raise UserError(f"hidden_act must be one of {', '.join(ours)}. Received: {theirs!r}")
    return ours[theirs]


def to_their_config(config, architecture, special_ids, outputs=None):
    """`config.json` of a model.

    Args:
        config: AlbertConfig, that `check_expressible` lets pass.
        architecture: str, class in transformers.
        special_ids: dict of str -> int: pad_token_id, bos_token_id, eos_token_id.
        outputs: dict or None, of `architecture_of`.

    Returns:
        dict.
    """
    return {
        "architectures": [architecture],
        "model_type": "albert",
        **{key: getattr(config, key) for key in _SAME_KEYS},
        "num_hidden_groups": config.num_attention_groups,
        "hidden_act": _ACTIVATIONS[config.hidden_act.lower() or "linear"],
        "classifier_dropout_prob": 0.1,  # what the original's fine-tuning uses
        "tie_word_embeddings": True,
        **_FIXED_KEYS,
        **special_ids,
        **(outputs or {}),
    }


def check_expressible(config):
    """Raises UserError for an architecture that transformers computes otherwise or not at all.

    Args:
        config: AlbertConfig.
    """
    if config.embedding_size == config.hidden_size:
        raise UserError(
            f"transformers always maps embeddings to the hidden size, and with embedding_size = "
            f"hidden_size = {config.hidden_size} this model has no such mapping"
        )
    layers, groups = range(config.num_hidden_layers), config.num_attention_groups
    if any(config.attention_group(layer) != config.ffn_group(layer) for layer in layers):
        raise UserError(
            "transformers shares attention and feed-forward parameters over the same layers, and "
            f"not as parameter_sharing={config.parameter_sharing!r} does"
        )
    ours = [config.attention_group(layer) for layer in layers]
    theirs = [int(layer / (config.num_hidden_layers / groups)) for layer in layers]
    if ours != theirs:
        layer = next(layer for layer in layers if ours[layer] != theirs[layer])
        raise UserError(
            f"transformers takes group {theirs[layer]} for layer {layer} of {len(layers)} in "
            f"{groups} groups, and the original's rounding gives group {ours[layer]}"
        )


# --- Reading ----------------------------------------------------------------------------------


def find(path):
    """The weights that a user means by a path; None where it has none of transformers.

    Args:
        path: str, a `.safetensors` file or a directory.

    Raises:
        UserError: there are weights, but only in a form that is not read.
    """
    if tf.io.gfile.isdir(path):
        names = [name for name in (WEIGHTS, SHARDS, PICKLE) if _exists(os.path.join(path, name))]
        path = os.path.join(path, names[0]) if names else ""
    if not path.endswith((".safetensors", SHARDS, ".bin")) or not _exists(path):
        return None
    if path.endswith(".safetensors"):
        return path
    kind = "is a pickle, which can run any code" if path.endswith(".bin") else "lists several files"
    raise UserError(
        f"{path} {kind}: give {WEIGHTS}. In transformers, "
        'model.save_pretrained(DIR, max_shard_size="100GB") writes it'
    )


def _exists(path):
    return tf.io.gfile.exists(path) and not tf.io.gfile.isdir(path)


_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": tf.bfloat16.as_numpy_dtype,
}


class Reader:
    """The tensors of `model.safetensors` under the original's names; the others under their own.

    Args:
        path: str, of `find`.

    Attributes:
        prefix: str, the path.
        shapes: dict of name -> list of int.

    Raises:
        UserError: the file cannot be read, or is of a model that the original has no names for.
    """

    def __init__(self, path):
        self.prefix = path
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                found = dict(safetensors.deserialize(file.read()))
        except (tf.errors.OpError, safetensors.SafetensorError) as error:
            raise UserError(f"cannot read {path}: {error}") from error
        found = _with_base(found)
        if _is_tied(found):
            del found[_DECODER]
        self._entries = {}
        for name, entry in found.items():
            name = _ALIASES.get(name, name)
            self._entries[original_name(name) or name] = entry
        self.shapes = {name: _turned(name, entry["shape"]) for name, entry in self._entries.items()}
        self._check_mapping()

    def _check_mapping(self):
        sizes = self.shapes.get(_MAPPING[0][0], [])
        if len(set(sizes)) == 1:
            raise UserError(
                f"{self.prefix} maps embeddings of {sizes[0]} features to a hidden size of the "
                "same: this project has no mapping then, so it cannot compute this model"
            )

    def __getitem__(self, name):
        array = _array(self.prefix, name, self._entries[name]).astype(np.float32)
        if not np.isfinite(array).all():
            raise UserError(f"{name} of {self.prefix} has values that are infinite or no numbers")
        return np.ascontiguousarray(array.T) if name.endswith("/kernel") else array


def _array(path, name, entry):
    if entry["dtype"] not in _DTYPES:
        raise UserError(
            f"cannot read {name} of {path}: its type is {entry['dtype']}, and weights are of "
            f"{', '.join(_DTYPES)}"
        )
    return np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])


def _turned(name, shape):
    return list(reversed(shape)) if name.endswith("/kernel") else list(shape)


def _with_base(found):
    """Names as in a file with heads: there the encoder's begin with `albert.`."""
    if any(name.startswith(_BASE) for name in found):
        return found
    return {
        _BASE + name if name.startswith(_BASE_PARTS) else name: entry
        for name, entry in found.items()
    }


def _is_tied(found):
    """Whether the file repeats the word embeddings as output weights, which says nothing new."""
    if _DECODER not in found or _WORDS not in found:
        return False
    keys = ("dtype", "shape", "data")
    return all(found[_DECODER][key] == found[_WORDS][key] for key in keys)


# --- Writing ----------------------------------------------------------------------------------


def architecture_of(shapes, hidden_size, head=None):
    """The class in transformers that has a checkpoint's heads, those of fine-tuning first.

    Args:
        shapes: dict of original name -> list of int.
        hidden_size: int, H.
        head: finetuning.Head or None, what the head is trained for, if that is known.

    Returns:
        (str, dict): the class, and what `config.json` tells of its outputs. Classes of unknown
        names are LABEL_0 and so on.

    Raises:
        UserError: the head is of another model or task, or only the task tells what it is for.
    """
    of_other_tasks = {*_OF_TASK.values()} - {_OF_TASK.get(head.task_name) if head else None}
    architecture = next(
        architecture
        for architecture, rows in _ARCHITECTURES.items()
        if all(name in shapes for name, _ in rows) and architecture not in of_other_tasks
    )
    is_choice = architecture == _CHOICE
    rows = _ARCHITECTURES[architecture]
    if rows not in (_CLASSIFIER, _SQUAD):
        return architecture, {}
    (weights, bias), name = (shapes[name] for name, _ in rows), rows[0][0]
    count = weights[0] if weights else 0
    if weights != [count, hidden_size] or bias != [count] or (rows is _SQUAD and count != 2):
        raise UserError(f"{name} {weights} with a bias {bias} is no head for H={hidden_size}")
    if rows is _SQUAD:
        return architecture, {}
    is_regression = head is not None and head.labels is None
    labels = head.labels if head and head.labels else _default_labels(count)
    if head is None and count == 1:
        raise UserError(_ONE_OUTPUT)
    if count != (1 if is_choice or is_regression else len(labels)):
        raise UserError(f"{name} has {count} outputs, which is no head for {head}")
    if is_choice:
        return architecture, {}
    names = {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if architecture == _TOKENS:
        return architecture, names
    problem = "regression" if is_regression else "single_label_classification"
    return architecture, {"problem_type": problem} | names


_ONE_OUTPUT = (
    "output_weights has one row, and so have the heads of regression and of RACE: put a "
    'finetuned_task.json beside the checkpoint with {"task_name": "sts-b", "labels": null}, or '
    '{"task_name": "race", "labels": ["A", "B", "C", "D"]}'
)


def names_in(architecture, names):
    """Those of the original names that a class in transformers has a variable for."""
    ours = {name for name, _ in _ARCHITECTURES[architecture]}
    return [name for name in names if name in ours or (their_name(name) or "").startswith(_BASE)]


def write(directory, config, tensors, tokenizer_files):
    """Writes what `from_pretrained` of transformers reads.

    Args:
        directory: str, empty.
        config: dict, of `to_their_config`.
        tensors: dict of original name -> array, an encoder's and what it has of heads.
        tokenizer_files: dict of file name -> bytes, of `huggingface_tokenizer`.

    Returns:
        list of str, the names of what was written; the class has no place for other heads.
    """
    (architecture,) = config["architectures"]
    names = names_in(architecture, tensors)
    weights = {their_name(name): _as_theirs(name, tensors[name]) for name in names}
    if not _ARCHITECTURES[architecture]:
        weights = {name.removeprefix(_BASE): value for name, value in weights.items()}
    contents = {
        **tokenizer_files,
        CONFIG: _json(config),
        # transformers refuses a file that does not say which library's layout it has.
        WEIGHTS: safetensors.numpy.save(weights, metadata={"format": "pt"}),
    }
    for name, content in contents.items():
        with tf.io.gfile.GFile(os.path.join(directory, name), "wb") as file:
            file.write(content)
    return names


def _as_theirs(name, array):
    array = np.asarray(array, np.float32)
    return np.ascontiguousarray(array.T if name.endswith("/kernel") else array)


def _json(values):
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode("utf-8")
