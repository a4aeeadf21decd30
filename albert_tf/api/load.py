# SPDX-License-Identifier: Apache-2.0
"""Loads a model from any source of weights, with its head, vocabulary and settings."""

import numbers
import os
from collections.abc import Sequence

from albert_tf import options
from albert_tf.api.loaded import Loaded
from albert_tf.checkpoints import huggingface, loading, name_table, readers, run_directory, source
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.model import encoder, heads
from albert_tf.tasks import base, glue, multi_label, ner, race
from albert_tf.tasks.classification import ClassificationTask
from albert_tf.tasks.squad import squad
from albert_tf.text.sequences import NUM_SPECIALS, SHORTEST

DEFAULT_LENGTH = 512
REGRESSION = "regression"
LENGTH_OF_SQUAD = 384  # as run_squad.py has it


def load(
    path: str | os.PathLike[str],
    *,
    spm_model_file: str | os.PathLike[str] | None = None,
    vocab_file: str | os.PathLike[str] | None = None,
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
    config: AlbertConfig | None = None,
    task: str | None = None,
    labels: Sequence[str] | None = None,
    max_seq_length: int | None = None,
    batch_size: int = 32,
) -> Loaded:
    """Loads a model with its tokenizer, and prints a line on the checkpoint.

    Args:
        path: str, an unpacked release, the directory of a training, a checkpoint's prefix, the
            directory of a TensorFlow Hub module (TensorFlow 1 or 2) or of the transformers library,
            or the name of a packaged model, such as "english-small".
            For a fine-tuned directory the best checkpoint is loaded.
        spm_model_file: str, SentencePiece model, if the source has no vocabulary.
        vocab_file: str, WordPiece vocabulary, if the source has none.
        do_lower_case: bool, if the source does not say it; True by default.
        strip_accents: bool, if the source does not say it; True by default.
        config: AlbertConfig, if the source has none.
        task: str, task of a fine-tuned checkpoint, if the source does not say it: the name of a
            GLUE task, tsv, multi_label, regression, ner or race.
        labels: sequence of str, classes of the task in the order of their ids.
        max_seq_length: int, longest sequence in pieces; by default that of the training, or 512.
        batch_size: int, number of sequences in a batch.

    Returns:
        Loaded.

    Raises:
        UserError: there is no checkpoint, a part is missing (the message says what to pass), or an
            argument contradicts the record of the training, `run.json`, or `tokenizer_config.json`.
    """
    if not isinstance(batch_size, numbers.Integral) or batch_size < 1:
        raise UserError(f"batch_size must be an int of at least 1. Received: {batch_size!r}")
    if not isinstance(config, AlbertConfig | None):
        raise UserError(
            "config must be an AlbertConfig, such as AlbertConfig.from_json_file(path) returns. "
            f"Received: {config!r:.80}"
        )
    paths = {"path": path, "spm_model_file": spm_model_file or "", "vocab_file": vocab_file or ""}
    for name, given in paths.items():
        if not isinstance(given, str | os.PathLike):
            raise UserError(f"{name} must be a str or a pathlib.Path. Received: {given!r:.80}")
        options.check_path(name, os.fspath(given))
    choice = source.Choice(
        source.find(path),
        text={"do_lower_case": do_lower_case, "strip_accents": strip_accents},
        vocabulary_flag="spm_model_file" if spm_model_file else "vocab_file",
        vocabulary_path=os.fspath(spm_model_file or vocab_file or "") or None,
        given_config=config,
        shown=source.as_argument,
    )
    return of_choice(choice, task, labels, max_seq_length, batch_size)


def of_choice(choice, task, labels, max_seq_length, batch_size):
    """Loads the model of a source.Choice with a source; the other arguments are those of `load`."""
    found, config = choice.source, choice.config
    text = _text_input(choice, max_seq_length)
    shapes = readers.open_reader(found.checkpoint).shapes
    kind = _kind_of(choice, shapes, task, labels)
    finetuned = kind and make_task(kind, text, found)
    parts = name_table.HEAD_NAMES | {"pooler": name_table.POOLER}
    if finetuned:
        what = f"fine-tuned for {kind}"
        model = finetuned.make_model(config)
    elif any({*parts[head]} & {*shapes} for head in name_table.PRETRAINING_HEADS):
        what, model = "pre-trained", heads.PretrainingModel(config)
    else:
        what, model = "only the encoder", encoder.AlbertModel(config)
    named = name_table.named_variables(model)
    fill = loading.load_all if finetuned else loading.load
    report = fill(found.checkpoint, named, reads_pooler=model.reads_pooler)
    loading.check_fit(report)
    is_run = run_directory.exists(found.checkpoint) and not found.is_module
    step = loading.step_in(found.checkpoint) if is_run else 0
    print(f"Loaded {found.checkpoint}{f' (step {step})' if step else ''}: {what}")
    if report.not_loaded:
        print(f"  not in the checkpoint, so random: {', '.join(report.not_loaded)}")
    absent = {part for part, names in parts.items() if {*names} & {*report.not_loaded}}
    return Loaded(model, text, config, found.checkpoint, finetuned, absent, batch_size)


# --- Text ----------------------------------------------------------------------------------------


def _text_input(choice, length):
    """TextInput that converts text to the model's input."""
    config, found = choice.config, choice.source
    longest = config.max_position_embeddings
    if length is None:
        length = found.recorded("max_seq_length")
    if length is None:
        length = min(found.max_seq_length() or DEFAULT_LENGTH, longest)
    if not isinstance(length, numbers.Integral) or not SHORTEST <= length <= longest:
        raise UserError(
            f"{choice.shown('max_seq_length')} must be an int between {SHORTEST} and "
            f"max_position_embeddings={longest} of the config. Received: {length!r}"
        )
    return base.text_input([config], choice.tokenizer_arguments, length)


# --- The task ------------------------------------------------------------------------------------


def _kind_of(choice, shapes, task, labels):
    """Finds the task of a checkpoint.

    Args:
        choice: checkpoints.source.Choice.
        shapes: dict of original name -> list of int, of the checkpoint.
        task: str or None, the task according to the caller.
        labels: sequence of str or None, the classes according to the caller.

    Returns:
        FinetunedTask; None if the checkpoint has no fine-tuned head.

    Raises:
        UserError: the task is unknown or cannot be found out; or task or labels contradict the
            record of the training or the number of the checkpoint's outputs.
    """
    if isinstance(labels, str):
        raise UserError(f"labels must be a list of str. Received: the str {labels!r}")
    labels = None if labels is None else tuple(map(str, labels))
    found, shown = choice.source, choice.shown
    weights = shapes.get(name_table.HEAD_NAMES["classifier"][0])
    recorded = run_directory.RunDirectory(found.directory).task if weights else None
    if any(version.variable in shapes for version in squad.VERSIONS):
        recorded = run_directory.FinetunedTask(squad.SquadTask.name, ())
    if recorded:
        _check_recorded(choice, recorded, task, labels)
        return recorded
    if not weights:
        if task or labels is not None:
            given = shown("task", task) if task else shown("labels", list(labels))
            raise UserError(f"{found.checkpoint} is not fine-tuned: leave out {given}")
        return None
    task = task.lower() if task else huggingface.read_task(found.directory, weights[0])
    if task is None and weights[0] == 1:
        raise UserError(
            f"{found.checkpoint} has one output, as regression and RACE have, and nothing next to "
            f"it tells which: pass {shown('task', REGRESSION)} or {shown('task', 'race')}"
        )
    if task in (None, "tsv", "ner", multi_label.NAME):
        if labels is None:
            labels = huggingface.read_labels(found.directory) or tuple(map(str, range(weights[0])))
        num_outputs = len(labels)
    else:
        fixed = {REGRESSION: None, "race": race.RaceTask.labels}
        options.check_task_name(task, shown("task", task), [*fixed])
        known = fixed[task] if task in fixed else glue.find_task(task).labels
        if labels not in (None, known):
            raise UserError(
                f"{shown('labels', list(labels))}, but those of {shown('task', task)} are {known}"
            )
        labels, num_outputs = known, 1 if known is None or task == "race" else len(known)
    if num_outputs != weights[0]:
        raise UserError(
            f"{found.checkpoint} has {weights[0]} outputs, but {num_outputs} belong to "
            f"{shown('task', task or 'tsv')} with labels={labels and list(labels)}"
        )
    return run_directory.FinetunedTask(task or "tsv", labels)


def _check_recorded(choice, recorded, task, labels):
    """Raises UserError if the caller contradicts the record of a run."""
    directory = choice.source.directory
    names = [recorded.task_name, *([REGRESSION] if recorded.labels is None else [])]
    wrong = None
    if task is not None and glue.model_task(task) not in names:
        wrong = choice.shown("task", task)
    elif labels not in (None, recorded.labels or None):
        wrong = choice.shown("labels", list(labels))
    if wrong:
        raise UserError(f"{wrong}, but {directory} was trained for {recorded}: leave it out")


def make_task(kind, text, found):
    """Makes the tasks.base.Task of a checkpoint.

    Args:
        kind: FinetunedTask.
        text: TextInput.
        found: checkpoints.source.Source.
    """
    record = found.settings
    flags, lengths = (record.flags, record.text) if record else ({}, {})
    if kind.task_name == squad.SquadTask.name:
        return _squad_task(text, found, flags, lengths)
    if kind.task_name == "ner":
        return ner.NerTask(kind.labels, text)
    if kind.task_name == "race":
        longest = lengths.get("max_qa_length", options.Race.max_qa_length)
        if longest >= text.max_seq_length - NUM_SPECIALS:  # shorter than in training
            longest = min(text.max_seq_length // 2, text.max_seq_length - NUM_SPECIALS - 1)
        return race.RaceTask(text, longest)
    row = glue.TASKS.get(kind.task_name.lower())
    optional = () if row or "text_column" in flags else ("text_pair",)
    is_multi_label = kind.task_name == multi_label.NAME
    if row is None:
        pair = "1" if optional or flags.get("text_pair_column") else None
        is_regression = kind.labels is None
        row = glue.tsv_task("0", pair, None, kind.labels, is_regression, multi_label=is_multi_label)
    if is_multi_label:
        return multi_label.MultiLabelTask(
            kind.task_name, row, text, None, optional, directory=found.directory
        )
    return ClassificationTask(kind.task_name, row, text, optional_inputs=optional)


def _squad_task(text, found, flags, lengths):
    version = squad.choose_version([found.checkpoint])
    values = {name: flags[name] for name in version.answer_settings if name in flags}
    values |= {n: lengths[n] for n in ("doc_stride", "max_query_length") if n in lengths}
    if text.max_seq_length < lengths.get("max_seq_length", LENGTH_OF_SQUAD):
        # Shorter than in training: the question must leave room, and windows must overlap.
        longest = max(text.max_seq_length // 3, 1)
        for name in ("doc_stride", "max_query_length"):
            values[name] = min(values.get(name, getattr(options.Squad, name)), longest)
    if version.has_negatives:
        values[squad.THRESHOLD] = squad.tuned_threshold(found.directory, [found.checkpoint])
    return version(text, options.Squad(**values), found.directory)
