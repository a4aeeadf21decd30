# SPDX-License-Identifier: Apache-2.0
"""Models that predict.py and minimal_pairs.py can run: exports and checkpoints."""

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from absl import flags

from albert_tf import options
from albert_tf.cli.predict_examples import INPUTS
from albert_tf.errors import UserError, one_line

FLAGS = flags.FLAGS
OVERRIDES = {  # flag for what a --model may lack -> argument of albert_tf.load
    option.name: {"albert_config_file": "config", "task_name": "task"}.get(option.name, option.name)
    for group in (options.TrainedModel, options.TrainedTask)
    for option in options.options_of(group)
}
LABELS_FILE = "labels.txt"
OUTPUTS = (  # in the order of an output line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "probability",
    "no_answer_score", "threshold", "words", "labels", "scores",
)  # fmt: skip
OF_WORDS = ("words", "labels", "scores")


# --- Exports -------------------------------------------------------------------------------------


def find_export(path):
    """Directory of a SavedModel: `path`, or the newest version in it.

    Raises:
        UserError: there is no SavedModel.
    """
    import tensorflow as tf

    for folder in (path, os.path.join(path, "saved_model")):
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
        names = [name.rstrip("/") for name in names]  # remote directories end in a slash
        versions = sorted(filter(str.isdecimal, names), key=int, reverse=True)
        for found in (folder, *(os.path.join(folder, version) for version in versions)):
            if tf.io.gfile.exists(os.path.join(found, "saved_model.pb")):
                return found
    raise UserError(
        f"--saved_model={path} holds no saved_model.pb: give the directory that --export_dir of "
        "run_classifier.py, run_squad.py or run_race.py has written"
    )


class Model(NamedTuple):
    """A model with its inputs and outputs.

    Attributes:
        inputs: tuple of str, those of INPUTS that the model takes.
        optional: tuple of those that an example may lack.
        outputs: tuple of str, keys of a prediction.
        num_options: int, options of a question; None if there are none.
        predict: callable that takes a list of dicts of inputs and gives as many dicts of values
            for JSON.
    """

    inputs: tuple
    optional: tuple
    outputs: tuple
    num_options: int | None
    predict: Callable


def load(path, **arguments):
    """Loads --model with the flags in OVERRIDES; what it prints goes to standard error.

    Args:
        path: str, the value of --model.
        **arguments: other arguments of albert_tf.load.

    Returns:
        Loaded.
    """
    from albert_tf.api import load
    from albert_tf.checkpoints import source

    for name, argument in OVERRIDES.items():
        if name in FLAGS and FLAGS[name].value is not None:
            arguments[argument] = FLAGS[name].value
    if "config" in arguments:
        arguments["config"] = source.read_config(arguments["config"])
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for what is found
        return load.load(path, **arguments)


def of_checkpoint(loaded, embeddings):
    """Makes the Model of an `albert_tf.api.loaded.Loaded`.

    Args:
        loaded: Loaded.
        embeddings: sequence of options.EMBEDDINGS to return instead of predictions.

    Raises:
        UserError: the model is not fine-tuned, and `embeddings` is empty.
    """
    if embeddings:

        def embed(examples):
            vectors = loaded.embed(*([row[name] for row in examples] for name in INPUTS[:2]))
            return [{"pooled_output": vector.tolist()} for vector in vectors]

        return Model(INPUTS[:2], INPUTS[1:2], tuple(embeddings), None, embed)
    if not loaded.inputs:
        raise UserError(
            f"--model={loaded.checkpoint} is not fine-tuned, so it predicts nothing: ask it with "
            "--fill_mask, --sentence_order or --embeddings=pooled_output"
        )
    num_options = len(loaded.labels) if "options" in loaded.inputs else None
    return Model(loaded.inputs, loaded.optional_inputs, OUTPUTS, num_options, loaded.answers)


def of_export(directory, embeddings):
    """Makes the Model of an export.

    Args:
        directory: str.
        embeddings: sequence of options.EMBEDDINGS to return instead of predictions.

    Raises:
        UserError: the export is damaged, or does not take text.
    """
    import tensorflow as tf

    signature = "embeddings" if embeddings else "text"
    # Loop optimization gains nothing here, and it warns about each assertion.
    tf.config.optimizer.set_experimental_options({"loop_optimization": False})
    saved_model = _load(directory)
    if signature not in saved_model.signatures:
        raise UserError(
            f"{directory} has no signature {signature!r}, so it takes no text. It has "
            f"{', '.join(saved_model.signatures)}"
        )
    function = saved_model.signatures[signature]
    function.saved_model = saved_model  # keeps the model alive as long as the function
    specs = function.structured_input_signature[1]
    inputs = tuple(name for name in INPUTS if name in specs)
    if not inputs or len(inputs) < len(specs):
        raise UserError(
            f"the signature {signature!r} of {directory} is not one of this project: it takes "
            f"{', '.join(specs) or 'nothing'}"
        )
    found = function.structured_outputs
    outputs = tuple(name for name in (*OUTPUTS, *options.EMBEDDINGS) if name in found)
    labels, path = None, os.path.join(directory, "assets", LABELS_FILE)
    if "probabilities" in found and tf.io.gfile.exists(path):
        labels = read_labels(path, found["probabilities"].shape[-1])
    num_options = specs["options"].shape[1] if "options" in specs else None
    run = functools.partial(_run, directory, function, inputs)

    def predict(examples):
        for row in run(examples):
            yield embeddings_of(row, embeddings) if embeddings else prediction(row, labels)

    return Model(inputs, (), outputs, num_options, predict)


def _run(directory, function, inputs, examples):
    """Yields the outputs of an export for each example: dicts of numpy values.

    Raises:
        UserError: the export cannot be run, or gives NaN.
    """
    import numpy as np
    import tensorflow as tf

    batch = {name: tf.constant([example[name] for example in examples]) for name in inputs}
    try:
        found = {name: values.numpy() for name, values in function(**batch).items()}
    except tf.errors.InvalidArgumentError as error:
        raise UserError(f"{directory} cannot be run: {one_line(error)}") from error
    for name, values in found.items():
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise UserError(f"{directory} gives NaN as {name}: its weights are damaged")
    windows = found.pop("example", None)  # older exports of SQuAD have a row for each window
    for i in range(len(examples)):
        row = i if windows is None else windows == i
        yield {name: values[row] if values.ndim else values for name, values in found.items()}


def _load(directory):
    import tensorflow as tf

    importlib.import_module("tensorflow_text")  # registers the operations of exported tokenizers
    try:
        return tf.saved_model.load(directory)
    except Exception as error:  # errors from damaged files have no common type
        raise UserError(
            f"{directory} cannot be loaded: its files are damaged, or not all of one export "
            f"({one_line(error)})"
        ) from error


def read_labels(path, count):
    """Reads the class names of an export: list of str.

    Args:
        path: str, a file with one name per line.
        count: int, number of classes of the model.

    Raises:
        UserError: the file is not UTF-8, or does not have `count` different names.
    """
    from albert_tf import files

    labels = files.read_text(path).rstrip("\n").split("\n")
    if len(labels) != count:
        raise UserError(f"{path} must have {count} lines, one for each class. It has {len(labels)}")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UserError(f"{path} names the class {twice!r} more than once")
    return labels


def prediction(outputs, labels):
    """Converts outputs to a prediction for JSON: dict, with probabilities by class name."""
    import numpy as np

    if "words" in outputs:  # the rest is padding
        count = np.count_nonzero(outputs["words"] != b"")
        outputs = {name: outputs[name][:count] for name in OF_WORDS}
    outputs = {name: _plain(outputs[name]) for name in OUTPUTS if name in outputs}
    if labels is not None:
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
    import numpy as np

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
    import numpy as np

    mask = outputs["input_mask"] > 0
    if mask.ndim == 1:
        found = {"pooled_output": outputs["pooled_output"]}
        found["sequence_output"] = outputs["sequence_output"][mask]
        return {name: found[name].tolist() for name in names}
    windows = [
        embeddings_of({name: values[w] for name, values in outputs.items()}, names)
        for w in np.flatnonzero(mask.any(axis=1))
    ]
    return {name: [window[name] for window in windows] for name in names}
