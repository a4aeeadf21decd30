# SPDX-License-Identifier: Apache-2.0
r"""Runs a model on text: one JSON line for each example.

python predict.py --saved_model=exports/1790000000 --text="A film one wants to see again."
python predict.py --saved_model=exports/1790000000 --input_file=pairs.tsv > predictions.jsonl
printf 'first text\tsecond text\n' | python predict.py --saved_model=exports/1790000000
python predict.py --model=output/rte --text="It rains." --text_pair="The street is wet."
python predict.py --model=albert_base --fill_mask="Returns the [MASK] of the list."
python predict.py --model=albert_base --score --input_file=heldout.txt > scores.jsonl

--saved_model is an export; --model is the directory of a training or of released weights, without
an export. Each line of a file or of standard input is a JSON object with the model's inputs (text,
text_pair; question, context; article, question, options), or contains these inputs separated by
tabs, in this order or in that of a first line with their names (for options: option 1, option 2,
...). CSV is read too. Other keys and columns, such as an id, are copied to the prediction. A blank
line gives a blank line. Once the project is installed, `albert-predict` is the same command.
"""

import contextlib
import itertools
import json
import os
import sys

from absl import flags

from albert_tf import options, progress
from albert_tf.cli import flag_groups, launch, predict_examples
from albert_tf.cli.flag_groups import given
from albert_tf.cli.predict_examples import INPUTS, OUTPUTS, Model
from albert_tf.errors import UserError, allowing_closed_output

FLAGS = flags.FLAGS
QUERIES = ("fill_mask", "sentence_order")  # to pre-trained models
COLUMNS = {"text_column": "text", "text_pair_column": "text_pair", "id_column": "id"}
OVERRIDES = [  # for what a --model may lack
    option.name
    for group in (options.TrainedModel, options.TrainedTask)
    for option in options.options_of(group)
]


def define_flags():
    """Defines the script's flags."""
    flag_groups.define(
        options.PredictedModel, options.Examples, options.TrainedModel, options.TrainedTask
    )


@contextlib.contextmanager
def output():
    """Opens the output: standard output, or a file that appears when it is complete."""
    from albert_tf import files

    if FLAGS.output_file:
        files.check_file_writable(FLAGS.output_file, "output_file")  # before a model is loaded
        with files.writing(FLAGS.output_file, "w") as file:
            yield file
        return
    sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the terminal's encoding
    with allowing_closed_output():
        yield sys.stdout


def main(_):
    """Loads the model, reads examples and writes a line for each."""
    check_flags()

    from albert_tf.cli import predict_exports

    with output() as file:
        if FLAGS.model:
            loaded = load(FLAGS.predict_batch_size)
            loaded.shows_progress = False  # this command shows progress itself
            if FLAGS.score:
                found = _scores(loaded)
            elif given(QUERIES):
                found = _answers(loaded)
            else:
                found = _predicted(of_checkpoint(loaded, FLAGS.embeddings))
        else:
            directory = find_export(FLAGS.saved_model)
            found = _predicted(predict_exports.of_export(directory, FLAGS.embeddings))
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
        for name in given((*QUERIES, "score", *OVERRIDES)):
            raise UserError(f"--{name} is for --model: an export knows what it is for")
    _check_one_of(("embeddings",), (*QUERIES, "score"))
    if "sequence_output" in FLAGS.embeddings and FLAGS.model:
        raise UserError("--embeddings=sequence_output needs an export, --saved_model")
    flag_groups.check_needs()
    if given((*INPUTS, *QUERIES)):
        for name in given((*COLUMNS, "header")):
            raise UserError(f"--{name} is for --input_file or standard input")
    for name, texts in given(QUERIES).items():
        for text in texts:
            predict_examples.check_json("text", text, f"--{name}")
    if FLAGS.sentence_order and len(FLAGS.sentence_order) != 2:
        raise UserError(
            "--sentence_order compares two texts: give the flag twice. "
            f"Received: {len(FLAGS.sentence_order)}"
        )
    flag_groups.check_not_empty("input_file", "output_file")
    flag_groups.check_exist("output_file", "input_file", "saved_model", "model")
    flag_groups.check_exist("albert_config_file", "spm_model_file", "vocab_file")


def _check_one_of(*groups):
    """Raises UserError if flags of more than one group are given."""
    found = [next(iter(given(names))) for names in groups if given(names)]
    if len(found) > 1:
        raise UserError(f"--{found[0]} and --{found[1]} exclude each other")


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
    examples = _examples(model)
    with progress.bar("predicting", None, " examples") as bar:
        while batch := list(itertools.islice(examples, FLAGS.predict_batch_size)):
            used = [example[0] for example in batch if example]
            found = iter(model.predict(used) if used else ())
            for example in batch:
                yield example and example[1] | next(found)
            bar.update(len(used))


def _examples(model):
    """Yields the examples of flags, file or standard input, like `predict_examples.read`."""
    import tensorflow as tf

    example = given(INPUTS)
    if example:
        yield predict_examples.check(example, model, ", ".join(f"--{name}" for name in example))
        return
    with contextlib.ExitStack() as stack:
        name, lines = "standard input", sys.stdin.buffer
        if FLAGS.input_file:
            name = FLAGS.input_file
            lines = stack.enter_context(tf.io.gfile.GFile(name, "rb"))
        columns = {COLUMNS[flag]: column for flag, column in given(COLUMNS).items()}
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


def load(batch_size=32):
    """Loads --model with the flags in OVERRIDES: Loaded. Its output goes to standard error."""
    from albert_tf.api import load
    from albert_tf.checkpoints import source
    from albert_tf.cli import model_flags

    task, labels, length = map(given(OVERRIDES).get, ("task_name", "labels", "max_seq_length"))
    with contextlib.redirect_stdout(sys.stderr):  # standard output is only for predictions
        choice = source.Choice(source.find(FLAGS.model), **model_flags.given_settings())
        return load.of_choice(choice, task, labels, length, batch_size)


def of_checkpoint(loaded, embeddings):
    """Makes the Model of an `albert_tf.api.loaded.Loaded`.

    Args:
        loaded: Loaded.
        embeddings: sequence of options.EMBEDDINGS to return instead of predictions.

    Raises:
        UserError: the model is not fine-tuned, and `embeddings` is empty, or it has no pooler.
    """
    if embeddings:
        if not loaded.has_pooler:
            raise UserError(
                f"--model={loaded.checkpoint} has no pooler, so it has no "
                "--embeddings=pooled_output: in Python, use "
                'albert_tf.load(...).embed(texts, pooling="mean")'
            )

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


def run():
    """The command `albert-predict`."""
    launch.run(main, define_flags)
