# SPDX-License-Identifier: Apache-2.0
"""Runs exports for predict.py: outputs of a SavedModel to values for JSON."""

import os

import numpy as np
import tensorflow as tf

from albert_tf import files, options
from albert_tf.cli.predict_examples import INPUTS, OUTPUTS, Model
from albert_tf.config import LABELS_FILE
from albert_tf.errors import UserError, about
from albert_tf.publish import graph_tokenization


def of_export(directory, embeddings):
    """Makes the Model of an export.

    Args:
        directory: str.
        embeddings: sequence of options.EMBEDDINGS to return instead of predictions.

    Raises:
        UserError: the export is damaged, or does not take text.
    """
    signature = "embeddings" if embeddings else "text"
    # Loop optimization gains nothing here, and it warns about each assertion.
    tf.config.optimizer.set_experimental_options({"loop_optimization": False})
    graph_tokenization.operations()  # those of the exported graph
    with about(f"{directory} is damaged: export it again", Exception):  # there is no common type
        saved_model = tf.saved_model.load(directory)
    signatures = saved_model.signatures
    if signature not in signatures:
        raise UserError(
            f"{directory} has no signature {signature!r} and takes no text: export the model again "
            f"with --export_text. Its signatures: {', '.join(signatures)}"
        )
    function = signatures[signature]
    function.saved_model = saved_model  # keeps the model alive as long as the function
    specs = function.structured_input_signature[1]
    inputs = tuple(name for name in INPUTS if name in specs)
    if not inputs or len(inputs) < len(specs):
        raise UserError(
            f"{directory} is an export of another project: its signature {signature!r} takes "
            f"{', '.join(specs) or 'nothing'}"
        )
    found = function.structured_outputs
    outputs = tuple(name for name in (*OUTPUTS, *options.EMBEDDINGS) if name in found)
    path = os.path.join(directory, "assets", LABELS_FILE)
    count = found["probabilities"].shape[-1] if "probabilities" in found else None
    is_score = "predictions" in found and found["predictions"].dtype.is_floating
    labels = read_labels(path, count) if tf.io.gfile.exists(path) and not is_score else ()
    num_options = specs["options"].shape[1] if "options" in specs else None

    def predict(examples):
        found = _run(directory, function, inputs, examples)
        for row, example in zip(found, examples, strict=True):
            row = embeddings_of(row, embeddings) if embeddings else prediction(row, labels)
            given = example.get("text")
            if isinstance(given, list) and len(row.get("words", given)) != len(given):
                raise UserError(f"{directory} splits words of {given}: give --model=TRAINING")
            yield row

    return Model(
        inputs,
        outputs,
        predict,
        optional=INPUTS[1:2] if embeddings and "text_pair" in inputs else (),
        num_options=num_options,
        fewest_options=num_options,
        is_of_words="words" in outputs,
        labels=labels,
    )


def _run(directory, function, inputs, examples):
    """Yields the outputs of an export for each example: dicts of numpy values.

    Raises:
        UserError: the export cannot be run, or gives NaN.
    """
    examples = [_with_text(row, directory) for row in examples]
    batch = {name: tf.constant([example[name] for example in examples]) for name in inputs}
    with about(f"{directory} cannot be run", tf.errors.InvalidArgumentError):
        found = {name: values.numpy() for name, values in function(**batch).items()}
    for name, values in found.items():
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise UserError(f"{directory} gives NaN as {name}: export another checkpoint")
    windows = found.pop("example", None)  # older exports of SQuAD have a row for each window
    for i in range(len(examples)):
        row = i if windows is None else windows == i
        yield {name: values[row] if values.ndim else values for name, values in found.items()}


def _with_text(example, directory):
    """An example whose text may be a list of words, with a str in its place."""
    words = example.get("text")
    if not isinstance(words, list):
        return example
    if wrong := next((word for word in words if len(word.split()) != 1), None):
        raise UserError(f"{directory} takes single words, not {wrong!r}: give --model=TRAINING")
    return example | {"text": " ".join(words)}


def read_labels(path, count):
    """Reads the class names of an export: list of str.

    Args:
        path: str, a file with one name per line.
        count: int, number of classes of the model; None if unknown.

    Raises:
        UserError: the file is not UTF-8, or does not have `count` different names.
    """
    labels = files.read_text(path).rstrip("\n").split("\n")
    if count not in (None, len(labels)):
        raise UserError(f"{path} must have {count} lines, one for each class. It has {len(labels)}")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UserError(f"{path} names the class {twice!r} more than once")
    return labels


def prediction(outputs, labels):
    """Converts outputs to a prediction for JSON: dict, with probabilities by class name."""
    if "words" in outputs:  # the rest is padding
        count = np.count_nonzero(outputs["words"] != b"")
        outputs = {name: outputs[name][:count] for name in ("words", "labels", "scores")}
    outputs = {name: _plain(outputs[name]) for name in OUTPUTS if name in outputs}
    if labels and "probabilities" in outputs:
        outputs["probabilities"] = dict(zip(labels, outputs["probabilities"], strict=True))
        del outputs["predictions"]
    elif "predictions" in outputs:
        outputs.pop("probabilities", None)
    return outputs


def _plain(values):
    """Converts numpy values to numbers, strings and lists.

    A value that is not finite, such as the score of a missing answer, becomes None, since JSON
    has no such number.
    """
    if isinstance(values, bytes):
        return values.decode()
    if isinstance(values, np.ndarray) and values.dtype == object:
        return [value.decode() for value in values]
    return values.tolist() if np.ndim(values) or np.isfinite(values) else None


def embeddings_of(outputs, names):
    """Selects embeddings: dict of lists, without padded pieces and padded windows.

    Args:
        outputs: dict of pooled_output [H], sequence_output [T, H], input_mask [T]; with options or
            windows [W, H], [W, T, H], [W, T].
        names: sequence of options.EMBEDDINGS.
    """
    mask = outputs["input_mask"] > 0
    if mask.ndim == 1:
        found = outputs | {"sequence_output": outputs["sequence_output"][mask]}
        return {name: found[name].tolist() for name in names}
    windows = [
        embeddings_of({name: values[w] for name, values in outputs.items()}, names)
        for w in np.flatnonzero(mask.any(axis=1))
    ]
    return {name: [window[name] for window in windows] for name in names}
