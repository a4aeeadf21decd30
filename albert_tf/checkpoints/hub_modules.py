# SPDX-License-Identifier: Apache-2.0
"""Config and casing of an exported module.

Three kinds of modules share a layout (`saved_model.pb`, `variables/`, `assets/`): those of this
project, of the Model Garden (TensorFlow 2) and of the original (TensorFlow 1).
"""

import os

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2  # of these files no public API
from tf_keras.protobuf import saved_metadata_pb2

from albert_tf import files
from albert_tf.checkpoints import readers, run_directory
from albert_tf.config import ACTIVATIONS, CONFIG_FILE, AlbertConfig
from albert_tf.errors import UserError, parse_json

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
SAVED_MODEL = "saved_model.pb"


def read_config(directory):
    """Reads a module's config from its `albert_config.json` or from the metadata of Keras.

    Args:
        directory: str, the directory of the module.

    Returns:
        AlbertConfig.

    Raises:
        UserError: the module has no config, or it is invalid.
    """
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
        path = os.path.join(directory, SAVED_MODEL)
        graphs = _saved_model(directory).meta_graphs
        nodes = [node for graph in graphs for node in graph.object_graph_def.nodes]
        texts = [node.user_object.metadata for node in nodes]
    where = f"the metadata of an object in {path}"
    return path, [parse_json(text, where) for text in texts if text.startswith("{")]


def casing(directory, name):
    """Reads the casing of its text from a module; None if unknown.

    Args:
        directory: str, the directory of the module.
        name: str, `do_lower_case`, or `strip_accents`, which only modules of this project tell.

    Returns:
        bool or None.

    Raises:
        UserError: a file is damaged, or the value is not true or false.
    """
    reader = readers.TensorFlowReader(run_directory.find(directory))
    value = reader.attribute(name)
    if value is None:
        value = _constant_output(directory, "tokenization_info", name)
    if value is None:
        return None
    value = np.asarray(value)
    if value.size != 1 or value.dtype.kind not in "bi":
        raise UserError(
            f"{name} in {directory} must be true or false. Received: {str(value)[:80]!r}. "
            "Give --albert_config_file, --init_checkpoint and the vocabulary in place of the module"
        )
    return bool(value.item())


def _constant_output(directory, signature, output):
    """Output of a TensorFlow 1 signature that is a constant in the graph, or None."""
    for graph in _saved_model(directory).meta_graphs:
        outputs = graph.signature_def[signature].outputs if signature in graph.signature_def else {}
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
                raise UserError(
                    f"cannot read {output} of {os.path.join(directory, SAVED_MODEL)}: {error}"
                ) from error
    return None


def _saved_model(directory):
    path = os.path.join(directory, SAVED_MODEL)
    message = saved_model_pb2.SavedModel()
    return _parsed(message, path) if tf.io.gfile.exists(path) else message


def _parsed(message, path):
    content = files.read_bytes(path)
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise UserError(
            f"cannot read {path}: it is damaged ({error}). Download the module again"
        ) from error
    return message
