# SPDX-License-Identifier: Apache-2.0
r"""Runs a model on text: one JSON line for each example.

python predict.py --saved_model=exports/1790000000 --text="A film one wants to see again."
python predict.py --saved_model=exports/1790000000 --input_file=pairs.tsv > predictions.jsonl
printf 'first text\tsecond text\n' | python predict.py --saved_model=exports/1790000000
python predict.py --model=output/rte --text="It rains." --text_pair="The street is wet."
python predict.py --model=albert_base --fill_mask="Returns the [MASK] of the list."

--saved_model is an export; --model is the directory of a training or of released weights, which
need no export. Each line of a file or of standard input is a JSON object with the model's inputs
(text, text_pair; question, context; article, question, options), or has these in this order with
tabs between them, or in the order of a first line with their names (for options: option 1, option
2, ...). Other keys and columns, such as an id, are copied to the prediction. A blank line gives a
blank line. Once the project is installed, `albert-predict` is the same command.
"""

import contextlib
import itertools
import json
import os
import sys

from absl import flags
from tqdm import tqdm

from albert_tf.cli import flag_groups, launch, lazy, predict_examples, predict_models
from albert_tf.cli.predict_examples import INPUTS
from albert_tf.errors import UserError

tf = lazy.module("tensorflow")
files = lazy.module("albert_tf.files")
huggingface = lazy.module("albert_tf.checkpoints.huggingface")

FLAGS = flags.FLAGS
ASKED = ("fill_mask", "sentence_order")  # of pre-trained models
TOLD = (  # what a --model may lack
    "albert_config_file", "spm_model_file", "vocab_file", "do_lower_case", "max_seq_length",
    "task_name", "labels",
)  # fmt: skip


def define_flags():
    """Defines the script's flags."""
    _define_model_flags()
    _define_example_flags()
    _define_told_flags()


@flag_groups.subject("Model")
def _define_model_flags():
    flags.DEFINE_string(
        "saved_model", None, "Directory of the export, or one of several: then the newest is taken."
    )
    flags.DEFINE_string(
        "model",
        None,
        "In place of --saved_model: directory of a training, an unpacked release, a hub module or "
        "of the transformers library, or the prefix of a checkpoint. Of a fine-tuned directory the "
        "best checkpoint is taken.",
    )


@flag_groups.subject("Examples and predictions")
def _define_example_flags():
    for name in INPUTS[:-1]:
        what = "second text" if name == "text_pair" else name
        flags.DEFINE_string(name, None, f"An example's {what}.")
    flags.DEFINE_multi_string("options", None, "An example's options; give the flag four times.")
    flags.DEFINE_string(
        "input_file", None, "File of examples, one a line; standard input if no text is given."
    )
    flags.DEFINE_bool(
        "header",
        None,
        "Whether the first line names the columns; by default it does if the model's inputs are "
        "named there.",
    )
    flags.DEFINE_string("output_file", None, "Where the lines go; standard output by default.")
    flags.DEFINE_multi_string(
        "fill_mask", None, "A text with [MASK] in it, for a pre-trained --model; may be repeated."
    )
    flags.DEFINE_integer("top_k", 5, "Pieces that --fill_mask shows for each [MASK].")
    flags.DEFINE_multi_string(
        "sentence_order",
        None,
        "Give it twice, for two texts: how probably do they stand in this order? For a pre-trained "
        "--model.",
    )
    flags.DEFINE_multi_enum(
        "embeddings",
        [],
        predict_models.EMBEDDINGS,
        "The encoder's output instead of predictions: of each text, of each piece, or both; for "
        "RACE a list with one entry for each option, for SQuAD for each window of the context. A "
        "--model gives pooled_output, of text and text_pair.",
    )
    flags.DEFINE_integer("predict_batch_size", 8, "Examples that are computed together.")


@flag_groups.subject("What --model does not tell")
def _define_told_flags():
    flags.DEFINE_string("albert_config_file", None, "JSON file with the model's architecture.")
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model.")
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary.")
    flags.DEFINE_bool("do_lower_case", None, "Whether the text is lower-cased.")
    flags.DEFINE_integer("max_seq_length", None, "Longest sequence, in pieces.")
    flags.DEFINE_string(
        "task_name",
        None,
        "What the model is fine-tuned for: a task of GLUE, tsv, regression, ner or race.",
    )
    flags.DEFINE_list("labels", None, "Its classes in the order of their ids.")


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


def main(_):
    """Loads the model, reads examples and writes a line for each."""
    check_flags()
    with output() as file:
        if FLAGS.model:
            model = _checkpoint()
        else:
            directory = predict_models.find_export(FLAGS.saved_model)
            model = predict_models.Export(directory, FLAGS.embeddings)
        for said in _asked(model) if _given(ASKED) else _predicted(model):
            line = json.dumps(said, ensure_ascii=False) if said is not None else ""
            file.write(f"{line}\n")


def check_flags():
    """Raises UserError for flags that make no sense, before a model is loaded."""
    flag_groups.check_at_least(1, "predict_batch_size", "top_k")
    _check_one_of(("saved_model",), ("model",))
    if not FLAGS.model and not FLAGS.saved_model:
        raise UserError(
            "give --saved_model, an export, or --model, the directory of a training or a release"
        )
    _check_one_of(("input_file",), INPUTS, *((name,) for name in ASKED))
    if FLAGS.saved_model:
        for name in _given((*ASKED, *TOLD)):
            raise UserError(f"--{name} is for --model: an export knows what it is for")
    if FLAGS.embeddings and _given(ASKED):
        raise UserError(f"--embeddings and --{next(iter(_given(ASKED)))} exclude each other")
    if FLAGS.sentence_order and len(FLAGS.sentence_order) != 2:
        raise UserError(
            "--sentence_order compares two texts: give the flag twice. "
            f"Received: {len(FLAGS.sentence_order)}"
        )
    for name in ("input_file", "output_file"):
        if FLAGS[name].value and tf.io.gfile.isdir(FLAGS[name].value):
            raise UserError(f"--{name}={FLAGS[name].value} is a directory: give a file")


def _check_one_of(*groups):
    """Raises UserError if flags of two groups are given."""
    given = [next(iter(_given(names))) for names in groups if _given(names)]
    if len(given) > 1:
        raise UserError(f"--{given[0]} and --{given[1]} exclude each other")


def _given(names):
    """Values of those of some flags that are given: dict."""
    return {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}


def _checkpoint():
    told = _given(TOLD)
    path = told.pop("albert_config_file", None)
    if path:
        told["config"] = huggingface.read_config(path)
    if "task_name" in told:
        told["task"] = told.pop("task_name")
    asks = bool(_given(ASKED))
    told["batch_size"] = FLAGS.predict_batch_size
    return predict_models.Checkpoint(FLAGS.model, FLAGS.embeddings, asks, **told)


def _asked(model):
    """Yields the answers of a pre-trained model: dicts."""
    if FLAGS.fill_mask:
        yield from model.fill_masks(FLAGS.fill_mask, FLAGS.top_k)
    else:
        yield model.judge_order(*FLAGS.sentence_order)


def _predicted(model):
    """Yields what is said of the examples: dicts; None for a blank line."""
    examples, count = _examples(model), 0
    with tqdm(unit=" examples", disable=not sys.stderr.isatty()) as progress:
        while batch := list(itertools.islice(examples, FLAGS.predict_batch_size)):
            used = [example[0] for example in batch if example]
            found = model(used)
            for example in batch:
                yield example and example[1] | next(found)
            progress.update(len(used))
            count += len(used)
    if not count:
        raise UserError("no example was given: by flags, --input_file or standard input")


def _examples(model):
    """Yields the examples of the flags, a file or standard input, as `predict_examples.read`."""
    given = _given(INPUTS)
    if given:
        yield predict_examples.check(given, model, "flags")
        return
    with contextlib.ExitStack() as stack:
        name, lines = "standard input", sys.stdin.buffer
        if FLAGS.input_file:
            name = FLAGS.input_file
            lines = stack.enter_context(tf.io.gfile.GFile(name, "rb"))
        yield from predict_examples.read(lines, name, model, FLAGS.header)


def run():
    """The command `albert-predict`."""
    define_flags()
    launch.run(main)
