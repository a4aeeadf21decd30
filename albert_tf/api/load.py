# SPDX-License-Identifier: Apache-2.0
"""Loads a model from any source of weights, with its head, vocabulary and settings."""

import contextlib
import os
from collections.abc import Sequence

from albert_tf import options, resolve
from albert_tf.api.loaded import Loaded
from albert_tf.checkpoints import huggingface, loading, name_table, readers, run_directory, source
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, check_whole
from albert_tf.model import encoder, heads
from albert_tf.tasks import base, known
from albert_tf.tasks.squad import squad
from albert_tf.text.sequences import SHORTEST

DEFAULT_LENGTH = 512
ROWS = {
    field.name: resolve.Row(field.name, field.default, field.metadata)
    for group in (options.TrainedModel, options.TrainedTask)
    for field in options.options_of(group)
}
_CLASSIFIER = name_table.HEAD_NAMES["classifier"][0]


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
        max_seq_length: int, longest sequence in tokens; by default that of the training, or 512.
        batch_size: int, number of sequences in a batch.

    Returns:
        Loaded.

    Raises:
        UserError: there is no checkpoint, a part is missing (the message says what to pass), or an
            argument contradicts `run.json` of the training or `tokenizer_config.json`.
    """
    check_whole("batch_size", batch_size, 1)
    if not isinstance(config, AlbertConfig | None):
        raise UserError(
            f"config must be an AlbertConfig, as from_json_file gives it. Received: {config!r:.80}"
        )
    vocabularies = {"spm_model_file": spm_model_file or "", "vocab_file": vocab_file or ""}
    for name, place in ({"path": path} | vocabularies).items():
        if not isinstance(place, str | os.PathLike):
            raise UserError(f"{name} must be a str or a pathlib.Path. Received: {place!r:.80}")
        options.check_path(name, os.fspath(place))
    given = {name: os.fspath(place) for name, place in vocabularies.items()} | dict(
        do_lower_case=do_lower_case,
        strip_accents=strip_accents,
        albert_config_file=config,
        task_name=task,
        labels=labels,
        max_seq_length=max_seq_length,
    )
    typed = {name: value for name, value in given.items() if value is not None and value != ""}
    if "spm_model_file" in typed:
        typed.pop("vocab_file", None)
    return of_source(source.find(os.path.expanduser(path)), typed, batch_size, resolve.as_argument)


def of_source(found, typed, batch_size, shown):
    """Loads the model of a source.

    Args:
        found: source.Source.
        typed: dict of name -> value, of the options of ROWS that the caller gives.
        batch_size: int, number of sequences in a batch.
        shown: callable, `resolve.as_flag` or `resolve.as_argument`.
    """
    labels = typed.get("labels")
    if isinstance(labels, str):
        raise UserError(f"labels must be a list of str. Received: the str {labels!r}")
    if labels is not None:
        typed = typed | {"labels": list(map(str, labels))}
    shapes = readers.open_reader(found.checkpoint).shapes
    facts = source.facts(found, source.USE, typed)
    facts |= _facts_on_task(facts, found.checkpoint, shapes, typed)
    settings = resolve.resolve(ROWS, typed, facts, key=source.key, shown=shown)
    config, _ = source.config_of(settings, found, shown)
    text = _text_input(settings, config, found, shown)
    kind = _kind_of(found, settings, shapes, shown)
    finetuned = kind and known.make_task(kind, text, found)
    parts = name_table.PARTS
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
    unread = () if model.reads_pooler else name_table.POOLER
    if missing := [name for name in report.not_loaded if name not in unread]:
        print(f"  not in the checkpoint, so random: {', '.join(missing)}")
    others = [name for name in report.unused_weights if not name_table.is_known(name)]
    if finetuned and others:  # such as further layers of the head
        print(f"  not used, as the model has no place for them: {', '.join(others)}")
    if modules := huggingface.other_modules(found.directory):
        print(f"  embed gives the mean of the last layer, without {', '.join(modules)}")
    absent = {part for part, names in parts.items() if {*names} & {*report.not_loaded}}
    return Loaded(model, text, found.checkpoint, finetuned, absent, batch_size, found.settings)


# --- Text ----------------------------------------------------------------------------------------


def _text_input(settings, config, found, shown):
    """TextInput that converts text to the model's input."""
    longest, length = config.max_position_embeddings, settings.max_seq_length
    if length is None:
        length = min(found.max_seq_length() or DEFAULT_LENGTH, longest)
    check_whole(shown("max_seq_length"), length, SHORTEST, longest, "max_position_embeddings")
    return base.text_input([config], source.tokenizer_arguments(settings, found, shown), length)


# --- The task ------------------------------------------------------------------------------------


def _facts_on_task(facts, checkpoint, shapes, typed):
    """What the head and run.json say of the task: dict of name -> resolve.Fact or None.

    Without run.json the caller decides, even if `config.json` of transformers names the labels.
    """
    if any(version.variable in shapes for version in squad.VERSIONS):
        names = {"task_name": squad.SquadTask.name, "labels": None}
        return {name: resolve.Fact(value, checkpoint) for name, value in names.items()}
    task, labels = facts["task_name"], facts["labels"]
    if task is None or _CLASSIFIER not in shapes:
        return {"task_name": None, "labels": None}
    is_called_regression = str(typed.get("task_name")).lower() == known.REGRESSION
    if is_called_regression and labels.value is None:  # whatever name the training had for it
        task = task._replace(key=known.REGRESSION)
    return {"task_name": task, "labels": labels}


def _kind_of(found, settings, shapes, shown):
    """Finds the task of a checkpoint.

    Args:
        found: checkpoints.source.Source.
        settings: resolve.Resolved, of ROWS.
        shapes: dict of original name -> list of int, of the checkpoint.
        shown: callable, `resolve.as_flag` or `resolve.as_argument`.

    Returns:
        FinetunedTask; None if the checkpoint has no fine-tuned head.

    Raises:
        UserError: the task is unknown or cannot be found out, or does not fit the number of the
            checkpoint's outputs.
    """
    task, labels = settings.task_name, settings.labels and tuple(settings.labels)
    if settings.facts.get("task_name"):
        if task == squad.SquadTask.name:
            return run_directory.FinetunedTask(task, ())
        return run_directory.RunDirectory(found.directory).task
    weights = shapes.get(_CLASSIFIER)
    if not weights:
        if task or labels is not None:
            given = shown("task_name", task) if task else shown("labels", list(labels))
            raise UserError(f"{found.checkpoint} is not fine-tuned: leave out {given}")
        return None
    task = task.lower() if task else _described_task(found, weights[0])
    if task is None and weights[0] == 1:
        choices = known.REGRESSION, known.race.RaceTask.name
        raise UserError(
            f"{found.checkpoint} has one output, as regression and RACE have, and nothing next to "
            f"it tells which: pass {' or '.join(shown('task_name', name) for name in choices)}"
        )
    kind = _named_kind(found, task or "tsv", labels, weights[0], shown)
    if kind.num_outputs != weights[0]:
        raise UserError(
            f"{found.checkpoint} has {weights[0]} outputs, but {kind.num_outputs} belong to "
            f"{shown('task_name', kind.task_name)} with labels={kind.labels and list(kind.labels)}"
        )
    return kind


def recorded_task(found, shapes):
    """The FinetunedTask that the files next to a checkpoint tell; None if they tell none.

    A question answering model of transformers has none: it is read at [CLS].

    Args:
        found: checkpoints.source.Source.
        shapes: dict of original name -> list of int, of the checkpoint.
    """
    if any(version.variable in shapes for version in squad.VERSIONS):
        is_theirs = squad.is_read_at_cls([found.checkpoint])
        return None if is_theirs else run_directory.FinetunedTask(squad.SquadTask.name, ())
    task = run_directory.RunDirectory(os.path.dirname(found.checkpoint)).task
    if task or _CLASSIFIER not in shapes:
        return task
    outputs = shapes[_CLASSIFIER][0]
    with contextlib.suppress(UserError):  # such as a class of transformers that is not known
        if name := _described_task(found, outputs):
            return _named_kind(found, name, None, outputs, resolve.as_flag)
    return None


def _described_task(found, outputs):
    """Name of the task in config.json of transformers or in run.json; None if they tell none.

    Args:
        found: checkpoints.source.Source.
        outputs: int, number of outputs of the classifier.
    """
    task = huggingface.read_task(found.directory, outputs)
    return task or (found.settings and found.settings.flags.get("task_name"))


def _named_kind(found, task, labels, outputs, shown):
    """The FinetunedTask of a task's name, with the labels of config.json or else numbers.

    Args:
        found: checkpoints.source.Source.
        task: str.
        labels: tuple of str; None if the caller gives none.
        outputs: int, number of outputs of the classifier.
        shown: callable, `resolve.as_flag` or `resolve.as_argument`.
    """
    kind = known.find_kind(task, labels, shown)
    if kind is None:
        if labels is None:
            labels = huggingface.read_labels(found.directory) or tuple(map(str, range(outputs)))
        kind = run_directory.FinetunedTask(task, labels)
    return kind
