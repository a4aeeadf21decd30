# SPDX-License-Identifier: Apache-2.0
"""What predict.py asks: exports, and directories of weights."""

import contextlib
import importlib
import os
import sys

from albert_tf.cli import lazy
from albert_tf.cli.predict_examples import INPUTS
from albert_tf.errors import UserError, one_line

tf = lazy.module("tensorflow")
np = lazy.module("numpy")
files = lazy.module("albert_tf.files")
loading = lazy.module("albert_tf.api.loading")

LABELS_FILE = "labels.txt"
OUTPUTS = (  # in the order of a line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "probability",
    "no_answer_score", "threshold", "words", "labels", "scores",
)  # fmt: skip
OF_WORDS = ("words", "labels", "scores")
EMBEDDINGS = ("pooled_output", "sequence_output")


# --- Exports -------------------------------------------------------------------------------------


def find_export(path):
    """The directory of a SavedModel: `path`, or the newest version below it.

    Raises:
        UserError: there is none.
    """
    for folder in (path, os.path.join(path, "saved_model")):
        if _is_export(folder):
            return folder
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
        names = [name.rstrip("/") for name in names]  # remote directories end in a slash
        versions = [n for n in names if n.isdecimal() and _is_export(os.path.join(folder, n))]
        if versions:
            return os.path.join(folder, max(versions, key=int))
    raise UserError(
        f"--saved_model={path} holds no saved_model.pb: give the directory that --export_dir of "
        "run_classifier.py, run_squad.py or run_race.py has written"
    )


def _is_export(folder):
    return tf.io.gfile.exists(os.path.join(folder, "saved_model.pb"))


class Export:
    """An export with its inputs and class names.

    Args:
        directory: str.
        embeddings: sequence of EMBEDDINGS to be given in place of predictions.

    Attributes:
        inputs: list of str, of INPUTS.
        optional: tuple of those at their end that may be left out of the columns of a file.
        outputs: list of str, what it says of an example.

    Raises:
        UserError: it is damaged, or does not take text.
    """

    optional = ()

    def __init__(self, directory, embeddings):
        self._directory, self._embeddings = directory, embeddings
        signature = "embeddings" if embeddings else "text"
        self._loaded = _load(directory)  # keeps what the function uses
        if signature not in self._loaded.signatures:
            raise UserError(
                f"{directory} has no signature {signature!r}, so it takes no text. It has "
                f"{', '.join(self._loaded.signatures)}"
            )
        self._function = self._loaded.signatures[signature]
        self._specs = self._function.structured_input_signature[1]
        self.inputs = [name for name in INPUTS if name in self._specs]
        if not self.inputs or len(self.inputs) < len(self._specs):
            raise UserError(
                f"the signature {signature!r} of {directory} is not one of this project: it takes "
                f"{', '.join(self._specs) or 'nothing'}"
            )
        specs = self._function.structured_outputs
        self.outputs = [name for name in (*OUTPUTS, *EMBEDDINGS) if name in specs]
        self._labels = None
        path = os.path.join(directory, "assets", LABELS_FILE)
        if "probabilities" in specs and tf.io.gfile.exists(path):
            self._labels = read_labels(path, specs["probabilities"].shape[-1])

    def num_options(self):
        """Options of a question (int); None where there are none."""
        return self._specs["options"].shape[1] if "options" in self._specs else None

    def __call__(self, examples):
        """Yields what is to be said of each example: dicts of values for JSON.

        Args:
            examples: list of dicts of the inputs.

        Raises:
            UserError: the export cannot be run, or gives NaN.
        """
        if not examples:
            return
        batch = {name: tf.constant([example[name] for example in examples]) for name in self.inputs}
        try:
            found = {name: values.numpy() for name, values in self._function(**batch).items()}
        except tf.errors.InvalidArgumentError as error:
            raise UserError(f"{self._directory} cannot be run: {one_line(error)}") from error
        for name, values in found.items():
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise UserError(f"{self._directory} gives NaN as {name}: its weights are damaged")
        windows = found.pop("example", None)  # of older exports of SQuAD: a row for each window
        for i in range(len(examples)):
            row = i if windows is None else windows == i
            yield self._said(
                {name: values[row] if values.ndim else values for name, values in found.items()}
            )

    def _said(self, outputs):
        if self._embeddings:
            return embeddings_of(outputs, self._embeddings)
        return prediction(outputs, self._labels)


def _load(directory):
    importlib.import_module("tensorflow_text")  # with the operations of exported tokenizers
    try:
        return tf.saved_model.load(directory)
    except Exception as error:  # what damaged files raise has no type in common
        raise UserError(
            f"{directory} cannot be loaded: its files are damaged, or not all of one export "
            f"({one_line(error)})"
        ) from error


def read_labels(path, count):
    """The class names of an export: list of str.

    Args:
        path: str, a file with one name a line.
        count: int, how many classes the model has.

    Raises:
        UserError: it is not UTF-8, or has not `count` different names.
    """
    labels = files.read_text(path).rstrip("\n").split("\n")
    if len(labels) != count:
        raise UserError(f"{path} must have {count} lines, one for each class. It has {len(labels)}")
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UserError(f"{path} names the class {twice!r} more than once")
    return labels


def prediction(outputs, labels):
    """What a line says of an example: dict; probabilities by class name where there are any."""
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
    """Numbers, strings and lists of numpy values.

    What is not finite, the score of an answer that there is not, is None: JSON has no such number.
    """
    if isinstance(values, bytes):
        return values.decode()
    if isinstance(values, np.ndarray) and values.dtype == object:
        return [value.decode() for value in values]
    return values.tolist() if np.ndim(values) or np.isfinite(values) else None


def embeddings_of(outputs, names):
    """The embeddings asked for: dict of lists, without padded pieces and padded windows.

    Args:
        outputs: dict of pooled_output [H], sequence_output [T, H], input_mask [T]; of options or
            windows [W, H], [W, T, H], [W, T].
        names: sequence of EMBEDDINGS.
    """
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


# --- Directories of weights ----------------------------------------------------------------------


class Checkpoint:
    """What `albert_tf.load` takes: of a training, a release, a module, transformers.

    Args:
        path: str.
        embeddings: sequence of EMBEDDINGS to be given in place of predictions.
        asks: bool, whether it is not for predictions, but for masks or the order of texts.
        **options: of `albert_tf.load`.

    Attributes:
        inputs, optional, outputs: as of an Export.

    Raises:
        UserError: there is no checkpoint, or a part is missing.
    """

    def __init__(self, path, embeddings, asks, **options):
        if "sequence_output" in embeddings:
            raise UserError("--embeddings=sequence_output needs an export, --saved_model")
        with contextlib.redirect_stdout(sys.stderr):  # standard output is for predictions
            self._loaded = loading.load(path, **options)
        if not (embeddings or self._loaded.inputs or asks):
            raise UserError(
                f"--model={path} is not fine-tuned, so it predicts nothing: ask it with "
                "--fill_mask, --sentence_order or --embeddings=pooled_output"
            )
        self._embeds = bool(embeddings)
        self.inputs = list(("text", "text_pair") if embeddings else self._loaded.inputs)
        self.optional = ("text_pair",) if embeddings else ()
        self.outputs = list(embeddings or OUTPUTS)

    def num_options(self):
        """Options of a question (int); None where there are none."""
        return len(self._loaded.labels) if "options" in self.inputs else None

    def __call__(self, examples):
        """Yields what is to be said of each example: dicts of values for JSON.

        Args:
            examples: list of dicts of the inputs.
        """
        columns = [[example[name] for example in examples] for name in self.inputs]
        if self._embeds:
            for vector in self._loaded.embed(*columns):
                yield {"pooled_output": vector.tolist()}
        else:
            yield from self._loaded.predict(*columns)

    def fill_masks(self, texts, top_k):
        """Yields a text and what fits in its masks: dicts for JSON.

        Args:
            texts: list of str.
            top_k: int, pieces for each mask.
        """
        for text, masks in zip(texts, self._loaded.fill_mask(texts, top_k), strict=True):
            yield {"text": text, "masks": masks}

    def judge_order(self, first, second):
        """Two texts, and how probably they stand in this order: a dict for JSON."""
        probability = self._loaded.sentence_order(first, second)
        return {"text": first, "text_pair": second, "in_order": probability}
