# SPDX-License-Identifier: Apache-2.0
r"""Runs a model on text: one JSON line for each example.

python predict.py --saved_model=exports/1790000000 --text="A film one wants to see again."
python predict.py --model=output/reviews --text="A fine film." --text="An hour too long."
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
import glob
import itertools
import json
import os
import sys

from albert_tf import options, progress, resolve
from albert_tf.cli import flag_groups, launch, predict_examples
from albert_tf.cli.predict_examples import INPUTS, OUTPUTS, Model
from albert_tf.errors import UserError, allowing_closed_output, check_json
from albert_tf.tasks import tables

QUERIES = ("fill_mask", "sentence_order")  # to pre-trained models
COLUMNS = ("text", "text_pair", "id")  # those of a file that flags name


@contextlib.contextmanager
def output(path, *inputs):
    """Opens the output: standard output, or a file that appears when it is complete."""
    from albert_tf import files

    if path:
        taken = set(map(files.real_path, inputs))
        files.check_file_writable(path, "output_file", taken)  # before a model is loaded
        with files.writing(path, "w") as file:
            yield file
        return
    sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the terminal's encoding
    with allowing_closed_output():
        yield sys.stdout


def main(given):
    """Loads the model, reads examples and writes a line for each."""
    check_flags(given)

    from albert_tf.cli import predict_exports
    from albert_tf.tasks import data_report

    with output(given.output_file, *filter(None, [given.input_file])) as file:
        if given.model:
            loaded, record = load(given, given.predict_batch_size)
            loaded.shows_progress = False  # this command shows progress itself
            if given.score:
                found = _scores(loaded, given)
            elif given.typed(*QUERIES):
                found = _answers(loaded, given)
            else:
                found = _predicted(of_checkpoint(loaded, given.embeddings, record), given)
        else:
            directory = find_export(given.saved_model)
            found = _predicted(predict_exports.of_export(directory, given.embeddings), given)
        for row in found:
            file.write("\n" if row is None else f"{json.dumps(row, ensure_ascii=False)}\n")
    if given.model and (line := data_report.on_cut(loaded.cut)):
        print(line, file=sys.stderr)


def check_flags(given):
    """Raises UserError for invalid combinations of flags, before a model is loaded."""
    if not given.model and not given.saved_model:
        raise UserError("give --model (of a training or a release) or --saved_model (of an export)")
    if "sequence_output" in given.embeddings and given.model:
        raise UserError("--embeddings=sequence_output needs an export, --saved_model")
    for name, texts in given.typed(*QUERIES).items():
        for text in texts:
            check_json("text", text, f"--{name}")
    if given.sentence_order and len(given.sentence_order) != 2:
        raise UserError(f"give --sentence_order twice. Received: {len(given.sentence_order)}")
    flag_groups.check_filled(given, "input_file", "output_file")
    flag_groups.check_paths(given)


def _answers(loaded, given):
    """Yields a dict for each text of --fill_mask, or one for the two of --sentence_order."""
    if given.fill_mask:
        found = loaded.fill_mask(given.fill_mask, given.top_k)
        for text, masks in zip(given.fill_mask, found, strict=True):
            yield {"text": text, "masks": masks}
    else:
        first, second = given.sentence_order
        probability = loaded.sentence_order(first, second)
        yield {"text": first, "text_pair": second, "in_order": probability}


def _scores(loaded, given):
    """Yields the score of each text, a dict; None for a blank line. Prints that of all."""
    from albert_tf.api import scoring

    model = Model(("text",), scoring.KEYS, None)
    examples = list(_examples(model, given))
    used = [example for example in examples if example]
    texts, places = [e.inputs["text"] for e in used], [e.place for e in used]
    scores = loaded.score(texts, given.method, places=places)
    total, found = scoring.total(scores), iter(scores)
    for example in examples:
        yield example and example.others | next(found)
    print(
        f"{len(scores)} texts, {total['num_pieces']} tokens ({total['num_unknown']} unknown), "
        f"{total['num_words']} words: log_prob {total['log_prob']:.4f}, pseudo-perplexity "
        f"{total['pseudo_perplexity']:.4f} per token, {total['word_pseudo_perplexity']:.4f} per "
        "word",
        file=sys.stderr,
    )


def _predicted(model, given):
    """Yields a prediction for each example: dicts; None for a blank line."""
    examples, num_blank = _examples(model, given), 0
    with progress.bar("predicting", None, " examples") as bar:
        while batch := list(itertools.islice(examples, given.predict_batch_size)):
            used = [example.inputs for example in batch if example]
            found = iter(model.predict(used) if used else ())
            for example in batch:
                yield example and example.others | next(found)
            num_blank += sum(predict_examples.is_blank(row.get("text", "-")) for row in used)
            bar.update(len(used))
    if num_blank:
        print(f"{num_blank:,} examples without text are predicted as empty ones", file=sys.stderr)


def _examples(model, given):
    """Yields the examples of flags, file or standard input, like `predict_examples.read`."""
    if typed := given.typed(*INPUTS):
        yield from predict_examples.of_flags(typed, model)
        return
    if model.is_of_texts and not (model.is_of_words or given.score):  # a row has other columns too
        model = model._replace(may_be_empty=INPUTS[:2])
    columns = {key: given.get(f"{key}_column") for key in COLUMNS}
    columns = {key: column for key, column in columns.items() if column is not None}
    how = {"columns": columns, "header": given.header, "delimiter": given.delimiter}
    path, found = given.input_file, None
    if not path:  # a person may type, so no line is read ahead
        yield from predict_examples.read(sys.stdin.buffer, "standard input", model, **how)
        return

    from albert_tf.corpus import unpacking

    if model.is_of_words:
        found = predict_examples.sentences(path, model, columns)
    elif "question" in model.inputs and not columns:
        found = predict_examples.questions(path, model)
    if found is None:
        how["num_peeked"] = tables.SAMPLE_LINES
        found = predict_examples.read(unpacking.lines(path), path, model, **how)
    yield from found


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
    if flag_groups.holds_run(path) or glob.glob(f"{glob.escape(path)}/*.safetensors"):
        raise UserError(f"--saved_model={path} is no export: give --model={path}")
    raise UserError(f"--saved_model={path} has no saved_model.pb: give the directory of an export")


def load(given, batch_size=32):
    """Loads --model with the settings that its directory may lack.

    Its output goes to standard error.

    Returns:
        (Loaded, RunSettings of the training or None).
    """
    from albert_tf.api import load
    from albert_tf.checkpoints import source

    with contextlib.redirect_stdout(sys.stderr):  # standard output is only for predictions
        found = source.find(given.model)
        loaded = load.of_source(found, given.typed(*load.ROWS), batch_size, resolve.as_flag)
    return loaded, found.settings


def of_checkpoint(loaded, embeddings, record):
    """Makes the Model of an `albert_tf.api.loaded.Loaded`.

    Args:
        loaded: Loaded.
        embeddings: sequence of options.EMBEDDINGS to return instead of predictions.
        record: RunSettings of the training, or None.

    Raises:
        UserError: the model is not fine-tuned, and `embeddings` is empty, or it has no pooler.
    """
    from albert_tf.tasks import glue

    if embeddings:
        if not loaded.has_pooler:
            raise UserError(
                f"--embeddings=pooled_output: {loaded.checkpoint} has no pooler: in Python, call "
                "albert_tf.load(...).embed(texts)"
            )
        if record and record.flags.get("long_texts") == "windows":
            raise UserError(
                f"--embeddings: {loaded.checkpoint} was trained with --long_texts=windows: give "
                "--saved_model, an export of it"
            )

        def embed(examples):
            texts = ([row[name] for row in examples] for name in INPUTS[:2])
            vectors = loaded.embed(*texts, pooling="pooled")
            return [{"pooled_output": vector.tolist()} for vector in vectors]

        return Model(INPUTS[:2], tuple(embeddings), embed, optional=INPUTS[1:2])
    if not loaded.inputs:
        raise UserError(
            f"{loaded.checkpoint} is not fine-tuned: give --model of a fine-tuning, --fill_mask, "
            "--sentence_order, --score or --embeddings=pooled_output"
        )
    num_options = len(loaded.labels) if "options" in loaded.inputs else None
    return Model(
        loaded.inputs,
        OUTPUTS,
        loaded.answers,
        optional=loaded.optional_inputs,
        num_options=num_options,
        fewest_options=num_options and 2,
        is_of_words=loaded.task == options.OF_WORDS,
        labels=loaded.labels or (),
        of_training=glue.columns_of(loaded.task) | (record.flags if record else {}),
        header=tuple(record.data.get("header", ())) if record else (),
        trained_on=next(iter(record.input_files), "") if record else "",
    )


run = launch.command(  # albert-predict
    main, options.PredictedModel, options.Examples, options.TrainedModel, options.TrainedTask
)
