# SPDX-License-Identifier: Apache-2.0
r"""Runs an exported model on text: one JSON line for each example.

python predict.py --saved_model=exports/1790000000 --text="A film one wants to see again."
python predict.py --saved_model=exports/1790000000 --input_file=pairs.tsv > predictions.jsonl
printf 'first text\tsecond text\n' | python predict.py --saved_model=exports/1790000000

A line of a file or of standard input is a JSON object with the model's inputs (text, text_pair;
question, context; article, question, options), or these in this order with tabs between them.
Needs tensorflow, tensorflow-text and tqdm, and nothing else of this project.
"""

import contextlib
import itertools
import json
import os
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (the operations of exported tokenizers)
from absl import app, flags, logging
from tqdm import tqdm

FLAGS = flags.FLAGS
INPUTS = ("text", "text_pair", "article", "question", "context", "options")  # in this order
LABELS_FILE = "labels.txt"
OUTPUTS = (  # in the order of a line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "no_answer_score",
    "threshold",
)  # fmt: skip
EMBEDDINGS = ("pooled_output", "sequence_output")


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
        "RACE of each option, for SQuAD of each window of the context.",
    )
    flags.DEFINE_integer("predict_batch_size", 8, "Examples that are computed together.")
    flags.mark_flags_as_required(["saved_model"])


def find_export(path):
    """The directory of a SavedModel: `path`, or the newest version below it.

    Raises:
        ValueError: there is none.
    """
    for folder in (path, os.path.join(path, "saved_model")):
        if tf.io.gfile.exists(os.path.join(folder, "saved_model.pb")):
            return folder
        found = tf.io.gfile.glob(os.path.join(folder, "[0-9]*", "saved_model.pb"))
        versions = {int(v): v for v in map(_version, found) if v.isdigit()}
        if versions:
            return os.path.join(folder, versions[max(versions)])
    raise ValueError(
        f"--saved_model={path} holds no saved_model.pb: give the directory that --export_dir of "
        "run_classifier.py, run_squad.py or run_race.py has written"
    )


def _version(path):
    return os.path.basename(os.path.dirname(path))


class Model:
    """An export with its inputs and class names.

    Args:
        directory: str.
        signature: str, `text` or `embeddings`.

    Raises:
        ValueError: it has no such signature.
    """

    def __init__(self, directory, signature):
        self._loaded = tf.saved_model.load(directory)  # keeps what the function uses
        if signature not in self._loaded.signatures:
            raise ValueError(
                f"{directory} has no signature {signature!r}, so it takes no text. It has "
                f"{', '.join(self._loaded.signatures)}"
            )
        self._function = self._loaded.signatures[signature]
        self._specs = self._function.structured_input_signature[1]
        self.inputs = [name for name in INPUTS if name in self._specs]
        path = os.path.join(directory, "assets", LABELS_FILE)
        self.labels = _lines(path) if tf.io.gfile.exists(path) else None

    def num_options(self):
        """Options of a question (int); None where there are none."""
        return self._specs["options"].shape[1] if "options" in self._specs else None

    def __call__(self, examples):
        """Outputs of some examples: list of dicts of what JSON can hold."""
        batch = {name: tf.constant([example[name] for example in examples]) for name in self.inputs}
        found = {name: values.numpy() for name, values in self._function(**batch).items()}
        constants = {name: values for name, values in found.items() if values.ndim == 0}
        rows = {name: values for name, values in found.items() if values.ndim}
        windows = rows.pop("example", np.arange(len(examples)))
        for i in range(len(examples)):
            yield {name: _plain(values[windows == i]) for name, values in rows.items()} | {
                name: _plain(values) for name, values in constants.items()
            }


def _plain(values):
    """Numbers, strings and lists of an array; a single row without its brackets.

    What is not finite, the score of an answer that there is not, is None: JSON has no such number.
    """
    if values.ndim and len(values) == 1:
        values = values[0]
    if isinstance(values, np.floating) and not np.isfinite(values):
        return None
    return values.decode() if isinstance(values, bytes) else values.tolist()


def _lines(path):
    with tf.io.gfile.GFile(path) as file:
        return file.read().rstrip("\n").split("\n")


# --- Examples ------------------------------------------------------------------------------------


def read_examples(model):
    """Yields dicts of a model's inputs: of the flags, a file or standard input.

    Raises:
        ValueError: an input is missing, or a line is no example.
    """
    given = {name: FLAGS[name].value for name in INPUTS if FLAGS[name].value is not None}
    if given:
        if FLAGS.input_file:
            raise ValueError(f"--input_file and --{next(iter(given))} exclude each other")
        yield _checked(given, model, "flags")
        return
    with contextlib.ExitStack() as stack:
        name, lines = "standard input", sys.stdin.buffer
        if FLAGS.input_file:
            name = FLAGS.input_file
            lines = stack.enter_context(tf.io.gfile.GFile(name, "rb"))
        for number, line in enumerate(lines, start=1):
            place = f"{name}, line {number}"
            line = _decoded(line, place)
            if line:
                yield _checked(_parsed(line, model, place), model, place)


def _decoded(line, place):
    try:
        return line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{place}: not UTF-8 ({error})") from error


def _parsed(line, model, place):
    """The inputs on a line: of a JSON object, or with tabs between them."""
    if line.lstrip().startswith("{"):
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{place}: no JSON object ({error}). A text that begins with {{ has to stand in one"
            ) from error
    columns, names = line.split("\t"), list(model.inputs)
    if "options" in names:
        names[-1:] = [f"option {i + 1}" for i in range(model.num_options())]
    if len(columns) != len(names):
        raise ValueError(
            f"{place}: {len(names)} columns are expected, with tabs between them: "
            f"{', '.join(names)}. Received: {len(columns)}"
        )
    if "options" in model.inputs:
        columns[2:] = [columns[2:]]
    return dict(zip(model.inputs, columns, strict=True))


def _checked(example, model, place):
    if "text_pair" in model.inputs:
        example.setdefault("text_pair", "")
    missing = [name for name in model.inputs if name not in example]
    more = [name for name in INPUTS if name in example and name not in model.inputs]
    if missing or more:
        raise ValueError(
            f"{place}: this model takes {', '.join(model.inputs)}. "
            + (f"Missing: {', '.join(missing)}" if missing else f"Not taken: {', '.join(more)}")
        )
    for name in model.inputs:
        value, count = example[name], model.num_options()
        texts = value if name == "options" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{place}: {name} is no text. Received: {value!r}")
        if not all(_is_unicode(text) for text in texts):
            raise ValueError(f"{place}: {name} is not valid Unicode. Received: {value!r}")
        if name == "options" and len(texts) != count:
            raise ValueError(f"{place}: {count} options are expected. Received: {len(texts)}")
    return {name: example[name] for name in model.inputs}


def _is_unicode(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- Output --------------------------------------------------------------------------------------


def to_line(outputs, labels):
    """An example's outputs as a line of JSON; probabilities by class name where there are any."""
    if labels is not None and "probabilities" in outputs:
        probabilities = dict(zip(labels, outputs["probabilities"], strict=True))
        outputs = outputs | {"probabilities": probabilities}
        del outputs["predictions"]
    elif "predictions" in outputs:
        outputs = {name: value for name, value in outputs.items() if name != "probabilities"}
    ordered = {name: outputs[name] for name in OUTPUTS if name in outputs}
    return json.dumps(ordered, ensure_ascii=False)


def embedding_line(outputs):
    """The embeddings asked for as a line of JSON; those of pieces without the padding's."""
    found = {name: outputs[name] for name in FLAGS.embeddings}
    if "sequence_output" in found:
        found["sequence_output"] = _unpadded(outputs["sequence_output"], outputs["input_mask"])
    return json.dumps(found)


def _unpadded(pieces, mask):
    """Of each sequence (of each option or window) the pieces that are no padding."""
    if isinstance(mask[0], list):
        return [_unpadded(*row) for row in zip(pieces, mask, strict=True)]
    return [piece for piece, is_used in zip(pieces, mask, strict=True) if is_used]


@contextlib.contextmanager
def output():
    """Where lines go: standard output, or a file that is there once it is whole."""
    if not FLAGS.output_file:
        yield sys.stdout
        return
    temporary = f"{FLAGS.output_file}.tmp{os.getpid()}"
    try:
        with tf.io.gfile.GFile(temporary, "w") as file:
            yield file
        tf.io.gfile.rename(temporary, FLAGS.output_file, overwrite=True)
    finally:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)


def main(_):
    """Loads the export, reads examples and writes a line for each."""
    if FLAGS.predict_batch_size < 1:
        raise ValueError(
            f"--predict_batch_size must be at least 1. Received: {FLAGS.predict_batch_size}"
        )
    model = Model(find_export(FLAGS.saved_model), "embeddings" if FLAGS.embeddings else "text")
    examples = read_examples(model)
    count = 0
    with output() as file, tqdm(unit=" examples", disable=not sys.stderr.isatty()) as progress:
        while batch := list(itertools.islice(examples, FLAGS.predict_batch_size)):
            for outputs in model(batch):
                line = (
                    embedding_line(outputs) if FLAGS.embeddings else to_line(outputs, model.labels)
                )
                file.write(line + "\n")
            progress.update(len(batch))
            count += len(batch)
        if not count:
            raise ValueError("no example was given: by flags, --input_file or standard input")


def run(argv):
    """Runs `main`; bad input ends in one plain line and exit code 1."""
    logging.set_verbosity(logging.WARNING)
    try:
        if len(argv) > 1:
            raise ValueError(
                f"not a flag: {' '.join(argv[1:])}. Flags begin with --, texts with blanks need "
                "quotation marks"
            )
        main(argv)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("predict: stopped", file=sys.stderr)
        sys.exit(130)
    except (ValueError, OSError, tf.errors.OpError) as error:
        message = error.message if isinstance(error, tf.errors.OpError) else str(error)
        print(f"predict: error: {message}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    define_flags()
    app.run(run)
