# SPDX-License-Identifier: Apache-2.0
r"""Runs an exported model on text: one JSON line for each example.

python predict.py --saved_model=exports/1790000000 --text="A film one wants to see again."
python predict.py --saved_model=exports/1790000000 --input_file=pairs.tsv > predictions.jsonl
printf 'first text\tsecond text\n' | python predict.py --saved_model=exports/1790000000

Each line of a file or of standard input is a JSON object with the model's inputs (text, text_pair;
question, context; article, question, options), or has these in this order with tabs between them.
Other keys of the object, such as an id, are copied to the prediction. A blank line gives a blank
line. Once the project is installed, `albert-predict` is the same command.
"""

import codecs
import contextlib
import difflib
import itertools
import json
import os
import reprlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the operations of exported tokenizers)
from absl import flags
from tqdm import tqdm

from albert_tf import files
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError, decode, one_line, parse_json

FLAGS = flags.FLAGS
INPUTS = ("text", "text_pair", "article", "question", "context", "options")  # in this order
LABELS_FILE = "labels.txt"
OUTPUTS = (  # in the order of a line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "no_answer_score",
    "threshold", "words", "labels", "scores",
)  # fmt: skip
OF_WORDS = ("words", "labels", "scores")
EMBEDDINGS = ("pooled_output", "sequence_output")
# From this similarity on a key is a misspelt input: text_pairs is one, question_id is none.
CLOSE = 0.85


def define_flags():
    """Defines the script's flags."""
    flags.DEFINE_string(
        "saved_model", None, "Directory of the export, or one of several: then the newest is taken."
    )
    for name in INPUTS[:-1]:
        what = "second text" if name == "text_pair" else name
        flags.DEFINE_string(name, None, f"An example's {what}.")
    flags.DEFINE_multi_string("options", None, "An example's options; give the flag four times.")
    flags.DEFINE_string(
        "input_file", None, "File of examples, one a line; standard input if no text is given."
    )
    flags.DEFINE_string("output_file", None, "Where the lines go; standard output by default.")
    flags.DEFINE_multi_enum(
        "embeddings",
        [],
        EMBEDDINGS,
        "The encoder's output instead of predictions: of each text, of each piece, or both; for "
        "RACE a list with one entry for each option, for SQuAD for each window of the context.",
    )
    flags.DEFINE_integer("predict_batch_size", 8, "Examples that are computed together.")
    flags.mark_flags_as_required(["saved_model"])


# --- The model -----------------------------------------------------------------------------------


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


class Model:
    """An export with its inputs and class names.

    Args:
        directory: str.
        signature: str, `text` or `embeddings`.

    Raises:
        UserError: it is damaged, or has no such signature.
    """

    def __init__(self, directory, signature):
        self._directory = directory
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
        self.labels = None
        path = os.path.join(directory, "assets", LABELS_FILE)
        if "probabilities" in specs and tf.io.gfile.exists(path):
            self.labels = read_labels(path, specs["probabilities"].shape[-1])

    def num_options(self):
        """Options of a question (int); None where there are none."""
        return self._specs["options"].shape[1] if "options" in self._specs else None

    def __call__(self, examples):
        """Yields the outputs of each example: dicts of numpy values.

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
            yield {name: values[row] if values.ndim else values for name, values in found.items()}


def _load(directory):
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


# --- Examples ------------------------------------------------------------------------------------


def read_examples(model):
    """Yields the examples of the flags, a file or standard input.

    Yields:
        (dict of the model's inputs, dict of the other keys); None for a blank line.

    Raises:
        UserError: an input is missing, or a line is no example.
    """
    given = _given()
    if given:
        yield _checked(given, model, "flags")
        return
    with contextlib.ExitStack() as stack:
        name, lines = "standard input", sys.stdin.buffer
        if FLAGS.input_file:
            name = FLAGS.input_file
            lines = stack.enter_context(tf.io.gfile.GFile(name, "rb"))
        for number, line in enumerate(lines, start=1):
            place = f"{name}, line {number}"
            line = decode(line.removeprefix(codecs.BOM_UTF8), place).rstrip("\r\n")
            yield _checked(_parsed(line, model, place), model, place) if line else None


def _given():
    return {name: FLAGS[name].value for name in INPUTS if FLAGS[name].value is not None}


def _parsed(line, model, place):
    """The inputs on a line: of a JSON object, or with tabs between them."""
    if line.lstrip().startswith("{"):
        try:
            return parse_json(line, place)
        except UserError as error:
            raise UserError(f"{error}. A text that begins with {{ has to stand in JSON") from error
    columns, names = line.split("\t"), list(model.inputs)
    if "options" in names:
        names[-1:] = [f"option {i + 1}" for i in range(model.num_options())]
    if len(columns) != len(names):
        raise UserError(
            f"{place}: {len(names)} columns are expected, with tabs between them: "
            f"{', '.join(names)}. Received: {len(columns)}"
        )
    if "options" in model.inputs:
        columns[2:] = [columns[2:]]
    return dict(zip(model.inputs, columns, strict=True))


def _checked(example, model, place):
    """The model's inputs in an example, and its other keys."""
    if "text_pair" in model.inputs:
        example.setdefault("text_pair", "")
    for name, value in example.items():
        _check_key(name, model, place)
        _check_json(name, value, place)
    missing = [name for name in model.inputs if name not in example]
    if missing:
        raise UserError(f"{place}: {_takes(model)}. Missing: {', '.join(missing)}")
    for name in model.inputs:
        value, count = example[name], model.num_options()
        texts = value if name == "options" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{place}: {name} is no text. Received: {reprlib.repr(value)}")
        if name == "options" and len(texts) != count:
            raise UserError(f"{place}: {count} options are expected. Received: {len(texts)}")
    return {name: example.pop(name) for name in model.inputs}, example


def _takes(model):
    return f"this model takes {', '.join(model.inputs)}"


def _check_key(name, model, place):
    """Raises UserError for a key that is meant as an input, or would hide an output."""
    if name in model.inputs:
        return
    if name in INPUTS:
        raise UserError(f"{place}: {_takes(model)}. Not taken: {name}")
    close = difflib.get_close_matches(name.lower(), INPUTS, n=1, cutoff=CLOSE)
    if close:
        raise UserError(f"{place}: {_takes(model)}. Is the key {name!r} meant as {close[0]}?")
    if name in model.outputs:
        raise UserError(
            f"{place}: other keys are copied to the prediction, which has a key {name!r} itself: "
            "rename this one"
        )


def _check_json(name, value, place):
    """Raises UserError if a key cannot be written again: lone surrogates, NaN, infinity."""
    try:
        json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        received = reprlib.repr(value)
        raise UserError(f"{place}: {name!r} is not valid Unicode. Received: {received}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{place}: {name!r} holds a number that is not finite, or is nested too deeply"
        ) from error


# --- Output --------------------------------------------------------------------------------------


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


def embeddings(outputs, names):
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
        embeddings({name: values[w] for name, values in outputs.items()}, names)
        for w in np.flatnonzero(mask.any(axis=1))
    ]
    return {name: [window[name] for window in windows] for name in names}


@contextlib.contextmanager
def output():
    """Where lines go: standard output, or a file that is there once it is whole."""
    if FLAGS.output_file:
        with files.replacing(FLAGS.output_file) as (name,), tf.io.gfile.GFile(name, "w") as file:
            yield file
        return
    sys.stdout.reconfigure(encoding="utf-8")  # as JSON is, whatever the terminal's
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- The script ----------------------------------------------------------------------------------


def main(_):
    """Loads the export, reads examples and writes a line for each."""
    check_flags()
    with output() as file:
        model = Model(find_export(FLAGS.saved_model), "embeddings" if FLAGS.embeddings else "text")
        examples = read_examples(model)
        count = 0
        with tqdm(unit=" examples", disable=not sys.stderr.isatty()) as progress:
            while batch := list(itertools.islice(examples, FLAGS.predict_batch_size)):
                used = [example[0] for example in batch if example]
                for line in _lines(batch, model(used), model.labels):
                    file.write(line)
                progress.update(len(used))
                count += len(used)
        if not count:
            raise UserError("no example was given: by flags, --input_file or standard input")


def check_flags():
    """Raises UserError for flags that make no sense, before a model is loaded."""
    flag_groups.check_at_least(1, "predict_batch_size")
    given = _given()
    if given and FLAGS.input_file:
        raise UserError(f"--input_file and --{next(iter(given))} exclude each other")
    for name in ("input_file", "output_file"):
        if FLAGS[name].value and tf.io.gfile.isdir(FLAGS[name].value):
            raise UserError(f"--{name}={FLAGS[name].value} is a directory: give a file")


def _lines(batch, outputs, labels):
    for example in batch:
        if not example:
            yield "\n"
            continue
        row = next(outputs)
        found = embeddings(row, FLAGS.embeddings) if FLAGS.embeddings else prediction(row, labels)
        yield json.dumps(example[1] | found, ensure_ascii=False) + "\n"


def run():
    """The command `albert-predict`."""
    define_flags()
    launch.run(main)
