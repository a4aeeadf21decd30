# SPDX-License-Identifier: Apache-2.0
r"""Runs a model on text: one JSON line for each example.

python predict.py --saved_model=exports/1790000000 --text="A film one wants to see again."
python predict.py --saved_model=exports/1790000000 --input_file=pairs.tsv > predictions.jsonl
printf 'first text\tsecond text\n' | python predict.py --saved_model=exports/1790000000
python predict.py --model=output/rte --text="It rains." --text_pair="The street is wet."
python predict.py --model=albert_base --fill_mask="Returns the [MASK] of the list."
python predict.py --model=albert_base --score --input_file=heldout.txt > scores.jsonl

--saved_model is an export; --model is the directory of a training or of released weights, which
need no export. Each line of a file or of standard input is a JSON object with the model's inputs
(text, text_pair; question, context; article, question, options), or has these in this order with
tabs between them, or in the order of a first line with their names (for options: option 1, option
2, ...). CSV is read too. Other keys and columns, such as an id, are copied to the prediction. A
blank line gives a blank line. Once the project is installed, `albert-predict` is the same command.
"""

import contextlib
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from absl import flags

from albert_tf import options, progress
from albert_tf.cli import flag_groups, launch, predict_examples
from albert_tf.cli.predict_examples import INPUTS
from albert_tf.config import LABELS_FILE
from albert_tf.errors import UserError, import_extra, one_line

FLAGS = flags.FLAGS
QUERIES = ("fill_mask", "sentence_order")  # to pre-trained models
COLUMNS = {"text_column": "text", "text_pair_column": "text_pair", "id_column": "id"}
OVERRIDES = {  # flag for what a --model may lack -> argument of albert_tf.load
    option.name: {"albert_config_file": "config", "task_name": "task"}.get(option.name, option.name)
    for group in (options.TrainedModel, options.TrainedTask)
    for option in options.options_of(group)
}
OUTPUTS = (  # in the order of an output line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "probability",
    "no_answer_score", "threshold", "words", "labels", "scores",
)  # fmt: skip
OF_WORDS = ("words", "labels", "scores")


def define_flags():
    """Defines the script's flags."""
    flag_groups.define(
        options.PredictedModel, options.Examples, options.TrainedModel, options.TrainedTask
    )


@contextlib.contextmanager
def output():
    """Opens the output: standard output, or a file that appears when it is complete."""
    import tensorflow as tf

    from albert_tf import files

    if FLAGS.output_file:
        with files.replacing(FLAGS.output_file) as (name,), tf.io.gfile.GFile(name, "w") as file:
            yield file
        return
    sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the terminal's encoding
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(_):
    """Loads the model, reads examples and writes a line for each."""
    check_flags()
    with output() as file:
        if FLAGS.model:
            loaded = load(FLAGS.model, batch_size=FLAGS.predict_batch_size)
            loaded.shows_progress = False  # this command shows progress itself
            if FLAGS.score:
                found = _scores(loaded)
            elif _given(QUERIES):
                found = _answers(loaded)
            else:
                found = _predicted(of_checkpoint(loaded, FLAGS.embeddings))
        else:
            directory = find_export(FLAGS.saved_model)
            found = _predicted(of_export(directory, FLAGS.embeddings))
        for row in found:
            file.write("\n" if row is None else f"{json.dumps(row, ensure_ascii=False)}\n")


def check_flags():
    """Raises UserError for invalid combinations of flags, before a model is loaded."""
    _check_one_of(("saved_model",), ("model",))
    if not FLAGS.model and not FLAGS.saved_model:
        raise UserError(
            "give --saved_model, an export, or --model, the directory of a training or a release"
        )
    _check_one_of(("input_file",), INPUTS, *((name,) for name in QUERIES))
    _check_one_of(("score",), QUERIES)
    if FLAGS.saved_model:
        for name in _given((*QUERIES, "score", *OVERRIDES)):
            raise UserError(f"--{name} is for --model: an export knows what it is for")
    queries = _given((*QUERIES, "score"))
    if FLAGS.embeddings and queries:
        raise UserError(f"--embeddings and --{next(iter(queries))} exclude each other")
    if "sequence_output" in FLAGS.embeddings and FLAGS.model:
        raise UserError("--embeddings=sequence_output needs an export, --saved_model")
    for name in _given(COLUMNS):
        if FLAGS.text_column is None:
            raise UserError(f"--{name} needs --text_column")
        if _given((*INPUTS, *QUERIES)):
            raise UserError(f"--{name} is for --input_file or standard input")
    if FLAGS.sentence_order and len(FLAGS.sentence_order) != 2:
        raise UserError(
            "--sentence_order compares two texts: give the flag twice. "
            f"Received: {len(FLAGS.sentence_order)}"
        )
    if FLAGS.output_file and os.path.isdir(FLAGS.output_file):
        raise UserError(f"--output_file={FLAGS.output_file} is a directory: give a file")
    flag_groups.check_exist(
        "input_file", "saved_model", "model", "albert_config_file", "spm_model_file", "vocab_file"
    )


def _check_one_of(*groups):
    """Raises UserError if flags of more than one group are given."""
    given = [next(iter(_given(names))) for names in groups if _given(names)]
    if len(given) > 1:
        raise UserError(f"--{given[0]} and --{given[1]} exclude each other")


def _given(names):
    """Values of the named flags that the user gave: dict."""
    return {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}


def _answers(loaded):
    """Yields a dict for each text of --fill_mask, or one for the two of --sentence_order."""
    if FLAGS.fill_mask:
        found = loaded.fill_mask(FLAGS.fill_mask, FLAGS.top_k)
        for text, masks in zip(FLAGS.fill_mask, found, strict=True):
            yield {"text": text, "masks": masks}
    else:
        first, second = FLAGS.sentence_order
        probability = loaded.sentence_order(first, second)
        yield {"text": first, "text_pair": second, "in_order": probability}


def _scores(loaded):
    """Yields the score of each text, a dict; None for a blank line. Prints that of all."""
    from albert_tf.api import scoring

    model = Model(("text",), (), scoring.KEYS, None, None)
    examples = list(_examples(model))
    used = [example for example in examples if example]
    texts, places = [example[0]["text"] for example in used], [example[2] for example in used]
    scores = loaded.score(texts, FLAGS.method, places=places)
    total, found = scoring.total(scores), iter(scores)
    for example in examples:
        yield example and example[1] | next(found)
    print(
        f"{len(scores)} texts, {total['num_pieces']} pieces ({total['num_unknown']} unknown), "
        f"{total['num_words']} words: log_prob {total['log_prob']:.4f}, pseudo-perplexity "
        f"{total['pseudo_perplexity']:.4f} per piece, {total['word_pseudo_perplexity']:.4f} per "
        "word",
        file=sys.stderr,
    )


def _predicted(model):
    """Yields a prediction for each example: dicts; None for a blank line."""
    examples, count = _examples(model), 0
    with progress.bar("predicting", None, " examples") as bar:
        while batch := list(itertools.islice(examples, FLAGS.predict_batch_size)):
            used = [example[0] for example in batch if example]
            found = iter(model.predict(used) if used else ())
            for example in batch:
                yield example and example[1] | next(found)
            bar.update(len(used))
            count += len(used)
    if not count:
        raise UserError("no example was given: by flags, --input_file or standard input")


def _examples(model):
    """Yields the examples of flags, file or standard input, like `predict_examples.read`."""
    import tensorflow as tf

    given = _given(INPUTS)
    if given:
        yield predict_examples.check(given, model, "flags")
        return
    with contextlib.ExitStack() as stack:
        name, lines = "standard input", sys.stdin.buffer
        if FLAGS.input_file:
            name = FLAGS.input_file
            lines = stack.enter_context(tf.io.gfile.GFile(name, "rb"))
        columns = {COLUMNS[flag]: column for flag, column in _given(COLUMNS).items()}
        yield from predict_examples.read(lines, name, model, columns, FLAGS.header)


# --- Models --------------------------------------------------------------------------------------


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

    import_extra("tensorflow_text", "an exported model that takes text")
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


def run():
    """The command `albert-predict`."""
    define_flags()
    launch.run(main)
