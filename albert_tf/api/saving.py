# SPDX-License-Identifier: Apache-2.0
"""Writes a loaded model as a directory that `albert_tf.load`, predict.py and the scripts read."""

import os

from albert_tf import files, options, state_files
from albert_tf.checkpoints import name_table, run_directory, source, writers
from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import UserError, check_choice
from albert_tf.model import heads
from albert_tf.tasks import multi_label, ner, race
from albert_tf.tasks.squad import squad

_TASKS_OF_MODEL = {  # class of a model that was trained with `fit` -> names of its tasks
    heads.ClassificationModel: ("tsv", options.MULTI_LABEL),  # the first one is the default
    heads.TokenClassificationModel: (ner.NerTask.name,),
    heads.MultipleChoiceModel: (race.RaceTask.name,),
}


def kind_of(model, labels, task=None):
    """The FinetunedTask of a model that was trained with `fit`; None if its variables tell it.

    Args:
        model: one of albert_tf.heads.
        labels: sequence of str, its classes; None for one output, which is a score.
        task: str, the name of its task; None for the default.

    Raises:
        UserError: the labels or the task do not fit the model.
    """
    names = _TASKS_OF_MODEL.get(type(model))
    if names is None:
        if labels is not None or task is not None:
            raise UserError(f"labels, task: a {type(model).__name__} has no classes")
        return None
    name = names[0] if task is None else task
    check_choice("task", name, names)
    if name == race.RaceTask.name:
        return FinetunedTask(name, race.labels_of(model.choices))
    are_missing = isinstance(labels, str) or (labels is None and name != names[0])
    given = None if labels is None else tuple(map(str, labels))
    if are_missing or (given is not None and len({*given}) < max(2, len(given))):
        raise UserError(
            f"labels must be a list of two or more different str. Received: {labels!r:.80}"
        )
    outputs, scale = model.classifier.bias.shape[0], getattr(model, "scale", None)
    kind = FinetunedTask(name, given, scale and tuple(map(tuple, scale)))
    if kind.num_outputs != outputs:
        raise UserError(
            f"labels must name the {outputs} outputs of the model. Received: {labels!r:.80}"
        )
    return kind


def settings_of(config, tokenizer, record, flags=None, text=None):
    """The RunSettings of a model that is written with its vocabulary, but without its training.

    They name no path: the vocabulary is next to them, wherever the directory is moved.

    Args:
        config: AlbertConfig.
        tokenizer: FullTokenizer, whose casing is recorded; None for no vocabulary.
        record: RunSettings of the training, or None.
        flags: dict or None, flags in place of those of the record.
        text: dict or None, of RunSettings, in place of that of the record.
    """
    record = record or run_directory.RunSettings(config=config.to_dict(), text={})
    flags, text, vocabulary = record.flags | (flags or {}), record.text | (text or {}), None
    if tokenizer:
        name = "spiece.model" if tokenizer.is_sentencepiece else "vocab.txt"
        kind, text = source.vocabulary_flag(name), text | tokenizer.casing
        vocabulary = run_directory.Vocabulary(kind, name, files.sha256(tokenizer.path))
    return run_directory.RunSettings(
        flags={name: value for name, value in flags.items() if name in options.OF_USE},
        config=config.to_dict(),
        text=text,
        vocabulary=vocabulary,
        data={k: v for k, v in record.data.items() if k in ("header", "word_pattern")},
    )


def save(directory, model, text, kind, *, task=None, record=None, absent=()):
    """Writes weights, config, vocabulary, task, thresholds and settings of the text.

    Args:
        directory: str, a new or empty directory.
        model: AlbertModel, or one of albert_tf.heads.
        text: TextInput.
        kind: FinetunedTask or None.
        task: tasks.base.Task or None, whose threshold is kept.
        record: RunSettings of the source, or None.
        absent: collection of str, parts that the model does not really have.

    Raises:
        UserError: the directory is not empty or cannot be written.
    """
    if getattr(task, "reads_cls", False):
        raise UserError("save: a SQuAD model of transformers needs its files: copy the directory")
    if os.path.isdir(directory) and os.listdir(directory):
        raise UserError(f"save: {directory} is not empty: give a new directory")
    files.check_writable(os.path.dirname(directory.rstrip("/")) or ".", "directory")
    windows = getattr(model, "windows", 1)
    flags = {"long_texts": "windows", "max_windows": windows} if windows > 1 else {}
    model.config.check_vocabulary(text.tokenizer)
    longest = model.config.max_position_embeddings
    lengths = {"max_seq_length": min(text.max_seq_length, longest)}
    settings = settings_of(model.config, text.tokenizer, task and record, flags, lengths)
    left_out = {each for part in absent for each in name_table.PARTS[part]}
    named = name_table.named_variables(model).items()
    tensors = {name: variable.numpy() for name, variable in named if name not in left_out}
    with files.replacing_directory(directory) as temporary:
        folder = run_directory.RunDirectory(temporary)
        writers.write(folder.file(run_directory.BEST), tensors, "tf1")
        files.write_text(folder.file(CONFIG_FILE), model.config.to_json_string())
        vocabulary = files.read_bytes(text.tokenizer.path)
        files.write_bytes({folder.file(settings.vocabulary.path): vocabulary})
        state_files.write(folder.file(run_directory.SETTINGS), settings)
        if kind:
            folder.write_task(kind)
        if isinstance(task, multi_label.MultiLabelTask):
            threshold = multi_label.LabelThreshold(task.served_threshold)
            state_files.write(folder.file(threshold.FILE), threshold)
        if isinstance(task, squad.SquadV2Task):
            threshold = task.options.null_score_diff_threshold
            folder.write_threshold(run_directory.NoAnswerThreshold(threshold or 0.0, ""))
