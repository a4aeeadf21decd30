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

from albert_tf import options
from albert_tf.cli import flag_groups, launch, lazy, paths, predict_examples, predict_models
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
    flag_groups.define(options.PredictedModel, options.Examples, options.TrainedModel)


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
    if FLAGS.output_file and os.path.isdir(FLAGS.output_file):
        raise UserError(f"--output_file={FLAGS.output_file} is a directory: give a file")
    paths.check_exist(
        "input_file", "saved_model", "model", "albert_config_file", "spm_model_file", "vocab_file"
    )
    paths.check_config(FLAGS.albert_config_file)


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
