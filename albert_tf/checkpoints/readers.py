# SPDX-License-Identifier: Apache-2.0
"""Readers of weights, one for each kind of file; all use the original's names.

A reader has `prefix`, `shapes` and `reader[name]`; `open_reader` finds the right one.
"""

import contextlib
import math
import os

import numpy as np
import safetensors
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2  # no public API has this

from albert_tf import files
from albert_tf.checkpoints import name_table
from albert_tf.errors import UserError, one_line


def open_reader(prefix):
    """Opens a checkpoint from any source.

    Args:
        prefix: str, as from `run_directory.find`.

    Returns:
        TensorFlowReader or SafetensorsReader.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    if prefix.endswith(".safetensors"):
        return SafetensorsReader(prefix)
    return TensorFlowReader(prefix)


# --- TensorFlow ----------------------------------------------------------------------------------

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class DamagedError(UserError):
    """The files of a checkpoint exist, but cannot be read."""


class TensorFlowReader:
    """Reads checkpoints of TensorFlow 1 and 2 under the original's names.

    Args:
        prefix: str, as from `run_directory.find`.

    Attributes:
        shapes: dict of name -> list of int, without the object graph.

    Raises:
        UserError: the files or a tensor in them cannot be read.
    """

    def __init__(self, prefix):
        self.prefix = prefix
        with _reading(prefix):
            directory, name = os.path.split(prefix)
            for path in (f"{prefix}.index", *files.matches_in(directory, f"{name}.data-*")):
                files.check_content(path)
            self._reader = tf.train.load_checkpoint(prefix)
            shapes = self._reader.get_variable_to_shape_map()
            if _OBJECT_GRAPH in shapes:
                self._graph = trackable_object_graph_pb2.TrackableObjectGraph()
                self._graph.ParseFromString(self._reader.get_tensor(_OBJECT_GRAPH))
                self._keys = self._keys_in_graph()
            else:  # written by TensorFlow 1, perhaps as a hub module
                self._graph = None
                self._keys = _by_name(
                    ((key.removeprefix("module/"), key) for key in shapes), prefix
                )
            self.shapes = {name: _joined(name, shapes[key]) for name, key in self._keys.items()}

    def __getitem__(self, name):
        with _reading(f"{name} of {self.prefix}"):
            return np.reshape(self._reader.get_tensor(self._keys[name]), self.shapes[name])

    @property
    def form(self):
        """Key of `writers.WRITERS` for this kind of file."""
        return "tf1" if self._graph is None else "tf2"

    def attribute(self, name):
        """Value of a variable that is an attribute of a module's root object; or None."""
        key = self._graph and self._held_by(0).get(name)
        if not key:
            return None
        with _reading(f"{name} of {self.prefix}"):
            return self._reader.get_tensor(key)

    def _held_by(self, node):
        """Keys of the variables of an object, by the names of its attributes."""
        return {
            child.local_name: attribute.checkpoint_key
            for child in self._graph.nodes[node].children
            for attribute in self._graph.nodes[child.node_id].attributes
        }

    def _keys_in_graph(self):
        """Keys by original name, from the dict of variables or else from their names."""
        root = {child.local_name: child.node_id for child in self._graph.nodes[0].children}
        for holder in ("variables", "named_variables"):  # in a checkpoint, in a module
            held = self._held_by(root[holder]) if holder in root else {}
            if any(not name.isdigit() for name in held):  # otherwise Keras's list of variables
                return held
        moments = self._nodes_below(root["optimizer"]) if "optimizer" in root else set()
        return _by_name(
            (
                (name_table.from_garden(attribute.full_name), attribute.checkpoint_key)
                for number, node in enumerate(self._graph.nodes)
                for attribute in node.attributes
                if number not in moments
            ),
            self.prefix,
        )

    def _nodes_below(self, node):
        """Numbers of an object and of all that it holds: set of int."""
        found, remaining = set(), [node]
        while remaining:
            number = remaining.pop()
            if number not in found:
                found.add(number)
                remaining += [child.node_id for child in self._graph.nodes[number].children]
        return found


def _by_name(pairs, path):
    """Keys by name; raises UserError if two keys have the name of one variable of ALBERT."""
    found = {}
    for name, key in pairs:
        if found.setdefault(name, key) != key and name_table.is_known(name):
            raise UserError(
                f"{path} has {name} twice, as {found[name]} and as {key}: give a checkpoint of one "
                "model"
            )
    return found


@contextlib.contextmanager
def _reading(what):
    """Converts errors of TensorFlow's reader on damaged files to DamagedError."""
    try:
        yield
    # This includes an object graph that cannot be parsed or that names absent keys and nodes.
    except (tf.errors.OpError, RuntimeError, ValueError, LookupError, TypeError, DecodeError) as e:
        raise DamagedError(
            f"cannot read {what}: the files are damaged or incomplete ({one_line(e)}). Copy them "
            "again, or give another checkpoint"
        ) from e


def _joined(name, shape):
    """Original shape of a variable that the Model Garden splits into heads, such as [H, N, D]."""
    if name.endswith("/kernel") and len(shape) == 3:
        inputs = 2 if name.endswith("/output/dense/kernel") else 1  # axes of the inputs
        return [math.prod(shape[:inputs]), math.prod(shape[inputs:])]
    return [math.prod(shape)] if name.endswith("/bias") else shape


# --- transformers --------------------------------------------------------------------------------

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": tf.bfloat16.as_numpy_dtype,
}
_ALIASES = {"predictions.decoder.bias": "predictions.bias"}  # names of one parameter
_OLD_PARTS = {"gamma": "weight", "beta": "bias"}  # of layer norms in early files
DECODER = "predictions.decoder.weight"  # repeats the word embeddings, or has values of its own
_WORDS = "albert.embeddings.word_embeddings.weight"
BASE = "albert."  # of the names of the encoder; absent in files with only the encoder
_BASE_PARTS = ("embeddings.", "encoder.", "pooler.")
_BUFFERS = (".position_ids", ".token_type_ids")  # constants that old files hold


class SafetensorsReader:
    """Reads `model.safetensors` under the original's names; unknown names stay as they are.

    Args:
        path: str, as from `run_directory.find`.

    Attributes:
        prefix: str, the path.
        shapes: dict of name -> list of int.
        form: str, key of `writers.WRITERS` for writing a copy.

    Raises:
        UserError: the file cannot be read, or is of a model that this project cannot compute.
    """

    form = "tf2"

    def __init__(self, path):
        self.prefix = path
        try:
            found = dict(safetensors.deserialize(files.read_bytes(path)))
        except safetensors.SafetensorError as error:
            raise UserError(f"cannot read {path}: {error}") from error
        found = _renamed(found, name_table.without_wrappers, path)
        while start := _shared_start(found):  # such as "model.", the attribute of a larger module
            found = {name.removeprefix(start): entry for name, entry in found.items()}
        if not any(name.startswith(BASE) for name in found):  # a file without heads
            found = {
                BASE + name if name.startswith(_BASE_PARTS) else name: entry
                for name, entry in found.items()
            }
        if DECODER in found and found[DECODER] == found.get(_WORDS):  # type, shape and values
            del found[DECODER]
        found = _renamed(found, _new_name, path)
        found = {name: entry for name, entry in found.items() if not name.endswith(_BUFFERS)}
        self._entries = {
            name_table.from_transformers(name) or name: entry for name, entry in found.items()
        }
        self.shapes = {
            name: list(reversed(entry["shape"]) if name.endswith("/kernel") else entry["shape"])
            for name, entry in self._entries.items()
        }
        sizes = self.shapes.get(name_table.MAPPING_KERNEL, [])
        if len(set(sizes)) == 1:
            raise UserError(
                f"{path} projects embeddings although embedding_size and hidden_size are both "
                f"{sizes[0]}, which no ALBERT of the original does"
            )

    def __getitem__(self, name):
        entry = self._entries[name]
        if entry["dtype"] not in _DTYPES:
            raise UserError(
                f"{name} of {self.prefix} has type {entry['dtype']} and not {', '.join(_DTYPES)}"
            )
        array = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
        array = array.astype(np.float32)
        return np.ascontiguousarray(array.T) if name.endswith("/kernel") else array


def _new_name(name):
    """The name that transformers gives a parameter today."""
    start, dot, last = _ALIASES.get(name, name).rpartition(".")
    return start + dot + _OLD_PARTS.get(last, last)


def _renamed(found, rename, path):
    """Renames entries of a file; raises UserError if two with different values get one name."""
    entries = {}
    for name, entry in found.items():
        new = rename(name)
        if entries.setdefault(new, entry) != entry:
            raise UserError(
                f"{path} has two values of {new}, one of them as {name}: leave the wrong one out"
            )
    return entries


def _shared_start(found):
    """The first part of all names, if all have the same and it is none of transformers; or ""."""
    starts = {name.partition(".")[0] + "." for name in found}
    start = starts.pop() if len(starts) == 1 else ""
    is_known = start in (BASE, *_BASE_PARTS) or start.removesuffix(".") in found
    return "" if is_known else start
