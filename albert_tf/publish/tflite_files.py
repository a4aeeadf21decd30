# SPDX-License-Identifier: Apache-2.0
"""Converts fine-tuned models to TFLite files, and compares each with the model."""

import os
import warnings

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.config import LABELS_FILE
from albert_tf.errors import UserError
from albert_tf.publish.signatures import id_specs, traced

TFLITE_NAMES = {  # the first one is the original's
    "float": "albert_model.tflite",
    "float16": "albert_model_float16.tflite",
    "int8": "albert_model_int8.tflite",
}

# Largest allowed difference between outputs of file and model, divided by the largest output or 1.
TFLITE_LIMITS = {"float": 1e-3, "float16": 0.05, "int8": 0.5}
SAMPLES = 8  # sequences on which a TFLite file is compared with the model


def convert(module, functions):
    """Converts a model of ids to TFLite: float32, float16, and weights in int8 (dynamic range).

    Inputs are int32 [1, T], of options [1, 4 * T], with T = `max_seq_length` of the training; call
    the file by `get_signature_runner()`.

    Args:
        module: tf.Module, which holds the model's variables.
        functions: signatures.ServedFunctions of the model.

    Returns:
        dict from "float", "float16", "int8" to (content, largest difference from the model's
        outputs).

    Raises:
        UserError: outputs are NaN, or differ from the model's by more than TFLITE_LIMITS.
    """
    max_seq_length, vocab_size = functions.texts.max_seq_length, functions.model.config.vocab_size
    shape = (1, functions.texts.choices * max_seq_length)
    function = traced(functions.of_ids, id_specs(functions.ids, shape))
    random = np.random.default_rng(0)
    samples = [
        _sample(functions.ids, shape, max_seq_length, vocab_size, random) for _ in range(SAMPLES)
    ]
    expected = _stacked([function(**sample) for sample in samples])
    found = {}
    for kind, limit in TFLITE_LIMITS.items():
        content = _converted(function, module, kind)
        difference = _largest_difference(content, samples, expected)
        if not difference <= limit:  # also true for NaN
            raise UserError(
                f"--export_tflite: the {kind} file differs from the model by {difference:.1e}, and "
                f"{limit} is allowed: export without the flag"
            )
        found[kind] = content, difference
    return found


def save(directory, converted, names):
    """Writes TFLite files and the names of their outputs, and prints the paths of the first.

    Args:
        directory: str.
        converted: dict, from `convert`.
        names: str, content of LABELS_FILE, as the files have no assets; "" if there are none.
    """
    paths = {kind: os.path.join(directory, TFLITE_NAMES[kind]) for kind in converted}
    contents = {paths[kind]: content for kind, (content, _) in converted.items()}
    labels_file = os.path.join(directory, LABELS_FILE)
    if any(map(tf.io.gfile.exists, contents)):  # of an earlier export, perhaps of another task
        files.remove(labels_file)
    files.write_bytes(contents | ({labels_file: names.encode()} if contents and names else {}))
    for kind, (content, difference) in converted.items():
        print(
            f"TFLite, {kind}: {paths[kind]}, {len(content) / 2**20:.2f} MiB, largest difference "
            f"from the model {difference:.1e}"
        )


def _converted(function, module, kind):
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _sample(names, shape, max_seq_length, vocab_size, random):
    """Sequences of random ids, the last quarter padding, half of the rest of segment 1."""
    part = np.arange(shape[1]) % max_seq_length * 8 // max_seq_length
    used = part < 6
    values = {
        "input_ids": np.where(used, random.integers(0, vocab_size, shape), 0),
        "input_mask": used,
        "segment_ids": used & (part >= 3),
        "p_mask": ~used,
    }
    return {name: tf.constant(np.broadcast_to(values[name], shape), tf.int32) for name in names}


def _stacked(runs):
    """Outputs of all samples: list of dicts -> dict of name -> array [n, ...]."""
    return {name: np.stack([outputs[name] for outputs in runs]) for name in runs[0]}


def _largest_difference(content, samples, expected):
    """Largest difference of floating-point outputs, relative to the model's largest (or 1).

    NaN if an output is NaN.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated: the interpreter moves to ai_edge_litert
        interpreter = tf.lite.Interpreter(model_content=content)
    runner = interpreter.get_signature_runner()
    found = _stacked([runner(**sample) for sample in samples])
    differences = [
        np.max(_differences(name, found, expected)) / max(1.0, np.max(np.abs(values)))
        for name, values in expected.items()
        if np.issubdtype(values.dtype, np.floating)
    ]
    return float(np.max(differences))


def _differences(name, found, expected):
    """Absolute differences of an output [n, ...].

    Scores of a beam are sorted first, so that exchanged places make no difference. Scores of ends
    are compared only where the start is the same; elsewhere the difference is 0 (or NaN).
    """
    ours, theirs = expected[name], found[name]
    if not name.endswith("_top_log_probs"):
        return np.abs(theirs - ours)
    starts = expected["start_top_index"]
    is_same = (starts == found["start_top_index"])[..., np.newaxis]
    if name.startswith("start"):
        return np.abs(np.sort(theirs) - np.sort(ours))
    ours, theirs = (np.sort(values.reshape(*starts.shape, -1)) for values in (ours, theirs))
    return np.abs(theirs - ours) * is_same
