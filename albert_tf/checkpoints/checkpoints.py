# SPDX-License-Identifier: Apache-2.0
"""Variables by their original names: one table, a reader for every source, strict loading.

A checkpoint of this project holds each variable under the name it has in the original release
(`<name>/adam_m` and `<name>/adam_v` for the moments, `global_step` for the step), so files of both
are read in the same way. So are exported modules and directories of the transformers library:
a reader has `prefix`, `shapes` and `reader[name]`, all in the original's names, and `open_reader`
finds the right one.
"""

import contextlib
import dataclasses
import functools
import math
import operator
import os
import re

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

from albert_tf import files
from albert_tf.checkpoints import transformers
from albert_tf.errors import UserError, one_line

# The name table: (the original's name, path from the model's part that holds the variable, shape).
# {g} and {j} stand for the parameter group and the inner group. Order is the original's order of
# creation. Letters of shapes: V vocabulary, S segments, T positions, E embedding, H hidden,
# D two times hidden, I intermediate, C classes of the task.
_DENSE = ("kernel", "bias")
_NORM = ("beta", "gamma")
_BLOCK = "bert/encoder/transformer/group_{g}/inner_group_{j}/"


def _dense(original, path, shape):
    shapes = (shape, shape[1:])  # [inputs, outputs], [outputs]
    return [
        (f"{original}/{leaf}", f"{path}.{leaf}", of_leaf)
        for leaf, of_leaf in zip(_DENSE, shapes, strict=True)
    ]


def _norm(original, path, shape):
    return [(f"{original}/{leaf}", f"{path}.{leaf}", shape) for leaf in _NORM]


_EMBEDDINGS = [
    ("bert/embeddings/word_embeddings", "embeddings.word", "VE"),
    ("bert/embeddings/token_type_embeddings", "embeddings.token_type", "SE"),
    ("bert/embeddings/position_embeddings", "embeddings.position", "TE"),
    *_norm("bert/embeddings/LayerNorm", "embeddings.layer_norm", "E"),
]
_MAPPING = _dense("bert/encoder/embedding_hidden_mapping_in", "embedding_hidden_mapping_in", "EH")
_ATTENTION = [
    *_dense(_BLOCK + "attention_1/self/query", "query", "HH"),
    *_dense(_BLOCK + "attention_1/self/key", "key", "HH"),
    *_dense(_BLOCK + "attention_1/self/value", "value", "HH"),
    *_dense(_BLOCK + "attention_1/output/dense", "output_dense", "HH"),
    *_norm(_BLOCK + "LayerNorm", "layer_norm", "H"),
]
_FFN = [
    *_dense(_BLOCK + "ffn_1/intermediate/dense", "intermediate", "HI"),
    *_dense(_BLOCK + "ffn_1/intermediate/output/dense", "output_dense", "IH"),
    *_norm(_BLOCK + "LayerNorm_1", "layer_norm", "H"),
]
_POOLER = _dense("bert/pooler/dense", "pooler", "HH")
_HEADS = {  # attribute of the model -> rows
    "masked_lm": [
        *_dense("cls/predictions/transform/dense", "transform", "HE"),
        *_norm("cls/predictions/transform/LayerNorm", "layer_norm", "E"),
        ("cls/predictions/output_bias", "output_bias", "V"),
    ],
    "sentence_order": [
        ("cls/seq_relationship/output_weights", "weights_", "2H"),
        ("cls/seq_relationship/output_bias", "bias", "2"),
    ],
    "classifier": [("output_weights", "weights_", "CH"), ("output_bias", "bias", "C")],
    "squad": [
        ("cls/squad/output_weights", "weights_", "2H"),
        ("cls/squad/output_bias", "bias", "2"),
    ],
    "start_logits": [
        ("start_logits/dense/kernel", "kernel", "H1"),
        ("start_logits/dense/bias", "bias", "1"),
    ],
    "end_logits": [
        *_dense("end_logits/dense_0", "dense_0", "DH"),
        *_norm("end_logits/LayerNorm", "layer_norm", "H"),
        *_dense("end_logits/dense_1", "dense_1", "H1"),
    ],
    "answer_class": [
        *_dense("answer_class/dense_0", "dense_0", "DH"),
        ("answer_class/dense_1/kernel", "dense_1.kernel", "H1"),
    ],
}
_OF_PRETRAINING = ("masked_lm", "sentence_order")
# Names in the modules that the Model Garden exports (they hold one block) -> the original's.
_GARDEN = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "cls/predictions/output_bias/bias": "cls/predictions/output_bias",
} | {
    f"{theirs}/{leaf}": f"{original.format(g=0, j=0)}/{leaf}"
    for theirs, original, leaves in (
        ("embeddings/layer_norm", "bert/embeddings/LayerNorm", _NORM),
        ("embedding_projection", "bert/encoder/embedding_hidden_mapping_in", _DENSE),
        ("transformer/self_attention/query", _BLOCK + "attention_1/self/query", _DENSE),
        ("transformer/self_attention/key", _BLOCK + "attention_1/self/key", _DENSE),
        ("transformer/self_attention/value", _BLOCK + "attention_1/self/value", _DENSE),
        (
            "transformer/self_attention/attention_output",
            _BLOCK + "attention_1/output/dense",
            _DENSE,
        ),
        ("transformer/self_attention_layer_norm", _BLOCK + "LayerNorm", _NORM),
        ("transformer/intermediate", _BLOCK + "ffn_1/intermediate/dense", _DENSE),
        ("transformer/output", _BLOCK + "ffn_1/intermediate/output/dense", _DENSE),
        ("transformer/output_layer_norm", _BLOCK + "LayerNorm_1", _NORM),
        ("pooler_transform", "bert/pooler/dense", _DENSE),
        ("cls/predictions/transform/dense", "cls/predictions/transform/dense", _DENSE),
        ("cls/predictions/transform/LayerNorm", "cls/predictions/transform/LayerNorm", _NORM),
    )
    for leaf in leaves
}
ENCODER_PREFIX = "bert/"
SLOTS = ("adam_m", "adam_v")
_KNOWN_SLOTS = {*SLOTS, "lamb_m", "lamb_v"}  # those of relatives of the original among them
GLOBAL_STEP = "global_step"
BEST = "model.ckpt-best"
STATE = "checkpoint"  # TensorFlow's list of a directory's checkpoints


def _pick(part, rows, **numbers):
    return {name.format(**numbers): operator.attrgetter(path)(part) for name, path, _ in rows}


def _encoder_variables(encoder):
    named = _pick(encoder, _EMBEDDINGS)
    if encoder.embedding_hidden_mapping_in is not None:
        named |= _pick(encoder, _MAPPING)
    for groups, rows in ((encoder.attention_groups, _ATTENTION), (encoder.ffn_groups, _FFN)):
        for g, inner_groups in enumerate(groups):
            for j, block in enumerate(inner_groups):
                named |= _pick(block, rows, g=g, j=j)
    return named | _pick(encoder, _POOLER)


def named_variables(model):
    """The variables of a model under the original's names.

    Args:
        model: a model with an `encoder` (AlbertModel) and any of the heads in the table.

    Returns:
        dict of original name -> variable; every trainable variable once.
    """
    named = _encoder_variables(model.encoder)
    for attribute, rows in _HEADS.items():
        if hasattr(model, attribute):
            named |= _pick(getattr(model, attribute), rows)
    missing = {id(v) for v in model.trainable_variables} - {id(v) for v in named.values()}
    assert not missing, f"{len(missing)} variables of {type(model).__name__} are not in the table"
    return named


def pretraining_shapes(config):
    """Shapes of the variables of `heads.PretrainingModel`, without making any.

    Args:
        config: AlbertConfig.

    Returns:
        dict of original name -> list of int.
    """
    sizes = {
        "V": config.vocab_size,
        "S": config.type_vocab_size,
        "T": config.max_position_embeddings,
        "E": config.embedding_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
        "2": 2,
    }
    rows = [*_EMBEDDINGS, *(_MAPPING if config.embedding_size != config.hidden_size else ())]
    for count, block in (
        (config.num_attention_groups, _ATTENTION),
        (config.num_ffn_groups, _FFN),
    ):
        rows += [
            (name.format(g=g, j=j), path, shape)
            for g in range(count)
            for j in range(config.inner_group_num)
            for name, path, shape in block
        ]
    rows += _POOLER + [row for head in _OF_PRETRAINING for row in _HEADS[head]]
    return {name: [sizes[letter] for letter in shape] for name, _, shape in rows}


def training_variables(named, optimizer):
    """A training run's whole state by name: variables, moments, step.

    Args:
        named: dict, of `named_variables`, in the order the optimizer was built with.
        optimizer: AdamW or LAMB, built.

    Returns:
        dict of name -> variable.
    """
    state = dict(named)
    for slot in SLOTS:
        state |= {
            f"{name}/{slot}": value
            for name, value in zip(named, getattr(optimizer, slot), strict=True)
        }
    return state | {GLOBAL_STEP: optimizer.iterations}


# --- Finding and reading ---------------------------------------------------------------------


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
    found = transformers.find(path)
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
    of_transformers = None if prefixes else transformers.find(directory)
    if of_transformers:
        return of_transformers
    found = ", ".join(sorted(os.path.basename(p) for p in prefixes)) or "no .index file"
    raise UserError(f"no checkpoint can be told in {directory} ({found}): give its prefix")


def _prefixes_in(directory):
    indices = tf.io.gfile.glob(os.path.join(directory, "*.index"))
    return [path.removesuffix(".index") for path in indices]


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
            f"{os.path.join(directory, STATE)} is damaged or names a checkpoint that is not there: "
            f"taking the one with the highest step, {latest}"
        )
    return latest


def _named_by_state(directory):
    """What a directory's `checkpoint` file names; "" if it is damaged, None if there is none."""
    path = os.path.join(directory, STATE)
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


def tidy(directory):
    """Repairs what a killed process left in a run's directory; to be called before training there.

    Parts of a checkpoint that was not finished are removed, and a damaged `checkpoint` file, which
    `tf.train.CheckpointManager` does not accept, is written anew.

    Args:
        directory: str, which no other process trains in.
    """
    for path in tf.io.gfile.glob(os.path.join(directory, "model.ckpt-*_temp*")):
        files.remove(path)
    if _named_by_state(directory) != "":
        return
    path = os.path.join(directory, STATE)
    if not latest_in(directory):
        files.remove(path)
        return
    names = [os.path.basename(prefix) for _, prefix in numbered_in(directory)]
    state = CheckpointState(
        model_checkpoint_path=names[-1],
        all_model_checkpoint_paths=names,
        all_model_checkpoint_timestamps=range(1, len(names) + 1),  # without any, none is deleted
    )
    files.write_text(path, text_format.MessageToString(state))


def numbered_in(directory):
    """A directory's checkpoints with a step in their names: list of (step, prefix), ascending."""
    steps = [(step_of(prefix), prefix) for prefix in _prefixes_in(directory)]
    return sorted((step, prefix) for step, prefix in steps if step is not None)


def step_of(prefix):
    """The step at the end of a prefix, or None (`model.ckpt-best`)."""
    match = re.search(r"-(\d+)$", prefix)
    return int(match.group(1)) if match else None


def step_in(prefix):
    """The step that a checkpoint holds; where it holds none, the one in its name, or 0."""
    reader = open_reader(prefix)
    if GLOBAL_STEP in reader.shapes:
        return _read_step(reader)
    return step_of(prefix) or 0


def open_reader(prefix):
    """The reader of a checkpoint of any source.

    Args:
        prefix: str, of `find`.

    Returns:
        Reader or huggingface.Reader.

    Raises:
        UserError: it cannot be read.
    """
    if prefix.endswith(".safetensors"):
        return transformers.Reader(prefix)
    return Reader(prefix)


_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Reader:
    """The tensors of TensorFlow's files under the original's names, whichever release wrote them.

    Args:
        prefix: str, of `find`.

    Attributes:
        shapes: dict of name -> list of int.

    Raises:
        UserError: the files cannot be read, or a tensor in them.
    """

    def __init__(self, prefix):
        self.prefix = prefix
        with _reading(prefix):
            self._reader = tf.train.load_checkpoint(prefix)
            shapes = self._reader.get_variable_to_shape_map()
            self._graph = self._object_graph() if _OBJECT_GRAPH in shapes else None
            if self._graph is None:  # written by TensorFlow 1, if need be as a hub module
                self._keys = {key.removeprefix("module/"): key for key in shapes}
            else:
                self._keys = self._keys_in_graph()
            self.shapes = {name: _joined(name, shapes[key]) for name, key in self._keys.items()}

    def __getitem__(self, name):
        with _reading(f"{name} of {self.prefix}"):
            return np.reshape(self._reader.get_tensor(self._keys[name]), self.shapes[name])

    def attribute(self, name):
        """The value of a variable that is an attribute of a module's root object; or None."""
        key = self._graph and self._held_by(0).get(name)
        if not key:
            return None
        with _reading(f"{name} of {self.prefix}"):
            return self._reader.get_tensor(key)

    def _object_graph(self):
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(self._reader.get_tensor(_OBJECT_GRAPH))
        return graph

    def _held_by(self, node):
        """Keys of the variables that an object holds, by the names it has for them."""
        return {
            child.local_name: attribute.checkpoint_key
            for child in self._graph.nodes[node].children
            for attribute in self._graph.nodes[child.node_id].attributes
        }

    def _keys_in_graph(self):
        """Keys by original name: of our dict of variables, or else by the names of variables."""
        root = {child.local_name: child.node_id for child in self._graph.nodes[0].children}
        for holder in ("variables", "named_variables"):  # of a checkpoint, of a module
            held = self._held_by(root[holder]) if holder in root else {}
            if any(not name.isdigit() for name in held):  # else Keras's list of all variables
                return held
        return {
            _from_garden(attribute.full_name): attribute.checkpoint_key
            for node in self._graph.nodes
            for attribute in node.attributes
        }


@contextlib.contextmanager
def _reading(what):
    """Turns what TensorFlow's reader raises for damaged files into a UserError."""
    try:
        yield
    # Among these: an object graph that is no message, or speaks of keys and nodes that are absent.
    except (tf.errors.OpError, RuntimeError, ValueError, LookupError, TypeError, DecodeError) as e:
        raise UserError(
            f"cannot read {what}: the files are damaged or incomplete ({one_line(e)}). Copy them "
            "anew, or give another checkpoint"
        ) from e


def _from_garden(name):
    parts = name.split("/")  # a model's name may stand before those of its layers
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((_GARDEN[tail] for tail in tails if tail in _GARDEN), name)


def _joined(name, shape):
    """The original's shape of a variable that the Model Garden splits into heads, as [H, N, D]."""
    if name.endswith("/kernel") and len(shape) == 3:
        inputs = 2 if name.endswith("/output/dense/kernel") else 1  # axes of the inputs
        return [math.prod(shape[:inputs]), math.prod(shape[inputs:])]
    return [math.prod(shape)] if name.endswith("/bias") else shape


def make_checkpoint(state):
    """A `tf.train.Checkpoint` that files the variables of `state` under their names."""
    return tf.train.Checkpoint(variables=dict(state))


# --- Loading ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Report:
    """What a checkpoint gave to a model; names are the original's."""

    prefix: str
    loaded: tuple
    missing: tuple
    unused: tuple
    wrong_shape: tuple  # of (name, shape in the file, shape in the model)

    def __str__(self):
        others = [name for name in self.unused if is_weight(name)]
        slots = len(self.unused) - len(others) - (GLOBAL_STEP in self.unused)
        lines = [f"loaded {len(self.loaded)} variables from {self.prefix}"]
        if self.missing:
            lines.append(f"  not in it, initialised afresh: {', '.join(self.missing)}")
        lines += [
            f"  not taken, shape {shape} in the file and {wanted} in the model: {name}"
            for name, shape, wanted in self.wrong_shape
        ]
        if slots:
            lines.append(f"  not used: {slots} optimizer slots")
        if others:
            lines.append(f"  not used: {', '.join(others)}")
        return "\n".join(lines)


def is_encoder(name):
    """Whether an original name is one of the encoder's; the rest are heads."""
    return name.startswith(ENCODER_PREFIX)


def is_weight(name):
    """Whether a name in a file is neither an optimizer's slot nor the step."""
    return name != GLOBAL_STEP and name.rsplit("/", 1)[-1] not in _KNOWN_SLOTS


def source_name(name, init_from_group0=False):
    """The name in the file from which a variable is filled; every group from group 0 if asked."""
    return re.sub(r"/group_\d+/", "/group_0/", name) if init_from_group0 else name


def _read_weight(reader, name):
    """A weight as float32; any other type, nan and infinity raise UserError."""
    value = reader[name]
    dtype = tf.as_dtype(value.dtype)
    if not dtype.is_floating:
        raise UserError(
            f"{name} in {reader.prefix} is of type {dtype.name}, and weights are floating-point "
            "numbers: give another checkpoint"
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite
        value = value.astype(np.float32)
    if not np.isfinite(value).all():
        raise UserError(
            f"{name} in {reader.prefix} holds nan or infinite values, so training had diverged "
            "when it was saved: give an earlier checkpoint, or delete this one"
        )
    return value


def _read_step(reader):
    """The step that a checkpoint holds (int); anything but a whole number raises UserError."""
    value = reader[GLOBAL_STEP]
    dtype = tf.as_dtype(value.dtype)
    number = value.item() if value.size == 1 and (dtype.is_integer or dtype.is_floating) else -1
    if value.ndim or not (0 <= number < 2**63 and number == int(number)):
        raise UserError(
            f"{GLOBAL_STEP} in {reader.prefix} must be one whole number of at least 0. Received: "
            f"{str(value)[:80]}, of type {dtype.name}, shape {list(value.shape)}. Give another "
            "checkpoint"
        )
    return int(number)


def _assign(reader, sources, variables):
    """Fills variables from a file, once all values in it are found to be usable.

    Values are read twice: a file that is refused changes nothing, and all of them at once would
    double the memory.
    """

    def read(name):
        return _read_step(reader) if name == GLOBAL_STEP else _read_weight(reader, name)

    for source in {sources[name] for name in variables}:
        read(source)
    for name, variable in variables.items():
        variable.assign(read(sources[name]))


def load(path, named, init_from_group0=False):
    """Fills a model's variables from a checkpoint of any source; moments and step stay as they are.

    Args:
        path: str, anything that `find` takes.
        named: dict, of `named_variables`.
        init_from_group0: bool, fill every parameter group from group 0 of the file.

    Returns:
        Report.

    Raises:
        UserError: the file lacks part of the encoder, holds it in other shapes, or holds something
            else than finite numbers.
    """
    reader = open_reader(find(path))
    sources = {name: source_name(name, init_from_group0) for name in named}
    report = _compare(reader, _shapes(named), sources)
    _check_encoder_complete(report)
    _assign(reader, sources, {name: named[name] for name in report.loaded})
    return report


def _shapes(variables):
    return {name: variable.shape.as_list() for name, variable in variables.items()}


def load_all(path, named):
    """Fills all of a model's variables, heads too, from one of its own checkpoints.

    Args:
        path: str, anything that `find` takes.
        named: dict, of `named_variables`.

    Returns:
        Report.

    Raises:
        UserError: the file lacks one, or holds it in another shape or no finite numbers.
    """
    report = load(path, named)
    absent = [*report.missing, *(name for name, _, _ in report.wrong_shape)]
    if absent:
        raise UserError(
            f"{path} lacks {', '.join(absent)}: it can be neither evaluated nor exported"
        )
    return report


def _compare(reader, shapes, sources):
    missing = tuple(name for name, source in sources.items() if source not in reader.shapes)
    wrong_shape = tuple(
        (name, reader.shapes[source], shapes[name])
        for name, source in sources.items()
        if source in reader.shapes and reader.shapes[source] != shapes[name]
    )
    skipped = {*missing, *(name for name, _, _ in wrong_shape)}
    loaded = tuple(name for name in shapes if name not in skipped)
    used = {sources[name] for name in shapes}
    unused = tuple(sorted(name for name in reader.shapes if name not in used))
    return Report(reader.prefix, loaded, missing, unused, wrong_shape)


def _check_encoder_complete(report):
    missing = [name for name in report.missing if is_encoder(name)]
    reshaped = [row for row in report.wrong_shape if is_encoder(row[0])]
    if not missing and not reshaped:
        return
    found = sum(is_encoder(name) for name in report.loaded)
    lines = [
        f"{report.prefix} does not fill the encoder of this config: {found} variables fit, "
        f"{len(missing)} are missing, {len(reshaped)} have another shape."
    ]
    lines += [f"  missing: {name}" for name in missing]
    lines += [f"  shape {shape} in the file, {want} here: {name}" for name, shape, want in reshaped]
    from_group0 = [name for name in missing if source_name(name, True) in report.loaded]
    if missing == from_group0 and not reshaped:
        lines.append("To fill every parameter group from group 0, give --init_from_group0.")
    else:
        lines.append("Check that --albert_config_file belongs to this checkpoint.")
    raise UserError("\n".join(lines))


def restore(prefix, state):
    """Restores a whole training state, strictly: variables, moments and step.

    Args:
        prefix: str, of `find`; of this project or a training run of the original.
        state: dict, of `training_variables`.

    Raises:
        UserError: something is missing, has another shape or is no finite number.
    """
    reader = Reader(prefix)
    missing = [name for name in state if name not in reader.shapes]
    if missing:
        raise UserError(
            f"training cannot resume from {prefix}: it lacks {len(missing)} of {len(state)} "
            f"variables ({', '.join(missing[:3])}{', ...' if missing[3:] else ''}). To start from "
            "its weights alone, give it as --init_checkpoint and another --output_dir"
        )
    for name, shape in _shapes(state).items():
        if reader.shapes[name] != shape:
            raise UserError(
                f"training cannot resume from {prefix}: {name} has shape {reader.shapes[name]} "
                f"there and {shape} in this model. Check --albert_config_file"
            )
    _assign(reader, {name: name for name in state}, state)


# --- Weights alone, to be written anew -----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a checkpoint, without slots and step; names are the original's."""

    prefix: str
    tensors: dict  # of float32 arrays: a complete encoder, and the heads that there are
    absent: tuple  # variables of the pre-training heads that it lacks
    left_out: tuple  # what it holds beside, unknown to the table


def read_weights(path, config):
    """Reads all weights of a checkpoint of any source.

    Args:
        path: str, anything that `find` takes.
        config: AlbertConfig, of its model.

    Returns:
        Weights.

    Raises:
        UserError: the encoder is not that of the config, wholly, or a weight is no finite number.
    """
    reader = open_reader(find(path))
    shapes = pretraining_shapes(config)
    report = _compare(reader, shapes, {name: name for name in shapes})
    _check_encoder_complete(report)
    unknown = [name for name in report.unused if is_encoder(name) and is_weight(name)]
    wrong = [name for name, _, _ in report.wrong_shape] + unknown
    if wrong:
        raise UserError(
            f"{reader.prefix} does not belong to this config, which has no place for "
            f"{', '.join(wrong)}. Check the config"
        )
    others = {name for rows in _HEADS.values() for name, _, _ in rows}
    names = [*report.loaded, *(name for name in report.unused if name in others)]
    return Weights(
        prefix=reader.prefix,
        tensors={name: _read_weight(reader, name) for name in names},
        absent=report.missing,
        left_out=tuple(n for n in report.unused if n not in others and is_weight(n)),
    )


def _write_tf1(prefix, tensors):
    """As `tf.compat.v1.train.Saver` does: plain names, which every TensorFlow reads."""
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def _write_tf2(prefix, tensors):
    make_checkpoint({name: tf.Variable(value) for name, value in tensors.items()}).write(prefix)


WRITERS = {"tf1": _write_tf1, "tf2": _write_tf2}


def write(prefix, tensors, form):
    """Writes weights as a checkpoint at step 0, whole or not at all.

    Args:
        prefix: str.
        tensors: dict of original name -> array.
        form: str, a key of `WRITERS`: `tf1` for the original's form, `tf2` for this project's.
    """
    temporary = files.temporary_path(prefix)
    endings = (".data-00000-of-00001", ".index")  # the index, which makes a checkpoint, comes last
    try:
        WRITERS[form](temporary, {**tensors, GLOBAL_STEP: np.int64(0)})
        for ending in endings:
            tf.io.gfile.rename(temporary + ending, prefix + ending, overwrite=True)
    finally:
        for ending in endings:
            if tf.io.gfile.exists(temporary + ending):
                tf.io.gfile.remove(temporary + ending)


# --- Files --------------------------------------------------------------------------------------


def delete(prefix):
    """Deletes a checkpoint's files, the index first: without it there is no checkpoint."""
    for path in [prefix + ".index", *tf.io.gfile.glob(f"{prefix}.data-*")]:
        tf.io.gfile.remove(path)


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


def exists(prefix):
    """Whether a checkpoint's files are there."""
    return tf.io.gfile.exists(prefix + ".index")
