# SPDX-License-Identifier: Apache-2.0
"""Finds the task of a fine-tuned checkpoint, and makes its object."""

from albert_tf import options
from albert_tf.checkpoints import huggingface, name_table
from albert_tf.checkpoints.run_directory import FinetunedTask, RunDirectory
from albert_tf.errors import UserError
from albert_tf.tasks import glue, multi_label, ner, race
from albert_tf.tasks.classification import ClassificationTask
from albert_tf.tasks.squad import squad
from albert_tf.text.sequences import NUM_SPECIALS

REGRESSION = "regression"
SQUAD = "squad"
_OF_ANSWERS = (  # options of run_squad.py for its answers
    "n_best_size", "max_answer_length", "start_n_top", "end_n_top", "dropout_prob",
    "null_score_diff_threshold",
)  # fmt: skip
_LONGEST_QA = 128
LENGTH_OF_SQUAD = 384  # as run_squad.py has it


def kind_of(found, shapes, task=None, labels=None):
    """Finds the task of a checkpoint.

    Args:
        found: checkpoints.source.Source.
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
    labels = None if labels is None else tuple(labels)
    weights = shapes.get(name_table.HEAD_NAMES["classifier"][0])
    recorded = RunDirectory(found.directory).task if weights else None
    if any(version.variable in shapes for version in (squad.VERSION_1, squad.VERSION_2)):
        recorded = FinetunedTask(SQUAD, None)
    if recorded:
        _check_recorded(found, recorded, task, labels)
        return recorded
    if not weights:
        return None
    task = task or huggingface.read_task(found.directory, weights[0])
    if task is None and weights[0] == 1:
        raise UserError(
            f"{found.checkpoint} has one output, as regression and RACE have, and nothing next "
            'to it tells which: pass task="regression" or task="race"'
        )
    if task in (None, "tsv", "ner", multi_label.NAME):
        labels = labels or huggingface.read_labels(found.directory)
        labels = labels or tuple(str(number) for number in range(weights[0]))
        num_outputs = len(labels)
    else:
        fixed = {"race": race.RaceTask.labels, REGRESSION: None}
        known = fixed[task] if task in fixed else glue.find_task(task).labels
        if labels not in (None, known):
            raise UserError(f"labels={list(labels)}, but those of task={task!r} are {known}")
        labels, num_outputs = known, 1 if known is None or task == "race" else len(known)
    if num_outputs != weights[0]:
        raise UserError(
            f"{found.checkpoint} has {weights[0]} outputs, but {num_outputs} belong to "
            f"task={task or 'tsv'!r} with labels={labels and list(labels)}"
        )
    return FinetunedTask(task or "tsv", labels)


def _check_recorded(found, recorded, task, labels):
    """Raises UserError if the caller contradicts the record of a run."""
    names = [recorded.task_name, *([REGRESSION] if recorded.labels is None else [])]
    what = SQUAD if recorded.task_name == SQUAD else recorded
    if task is not None and glue.model_task(task) not in names:
        raise UserError(
            f"task={task!r}, but {found.directory} was trained for {what}: leave it out"
        )
    if labels not in (None, recorded.labels):
        raise UserError(
            f"labels={list(labels)}, but {found.directory} was trained for {what}: leave them out"
        )


def make_task(kind, text, found, record):
    """Makes the tasks.base.Task of a checkpoint.

    Args:
        kind: FinetunedTask.
        text: TextInput.
        found: checkpoints.source.Source, for the threshold of SQuAD 2.0.
        record: run_directory.RunSettings of the training, or None.
    """
    if kind.task_name == SQUAD:
        return _squad_task(text, found, record)
    if kind.task_name == "ner":
        return ner.NerTask(kind.labels, text)
    if kind.task_name == "race":
        longest = (record.text if record else {}).get("max_qa_length", _LONGEST_QA)
        if longest >= text.max_seq_length - NUM_SPECIALS:  # shorter than in training
            longest = text.max_seq_length // 2
        return race.RaceTask(text, longest)
    row, flags = glue.TASKS.get(kind.task_name.lower()), record.flags if record else {}
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


def _squad_task(text, found, record):
    flags, lengths = (record.flags, record.text) if record else ({}, {})
    values = {name: flags[name] for name in _OF_ANSWERS if name in flags}
    values |= {n: lengths[n] for n in ("doc_stride", "max_query_length") if n in lengths}
    if text.max_seq_length < lengths.get("max_seq_length", LENGTH_OF_SQUAD):
        # Shorter than in training: the question must leave room, and windows must overlap.
        longest = max(text.max_seq_length // 3, 1)
        for name in ("doc_stride", "max_query_length"):
            values[name] = min(values.get(name, getattr(options.Squad, name)), longest)
    version = squad.choose_version([found.checkpoint])
    if version.has_negatives and values.get(squad.THRESHOLD) is None:
        values[squad.THRESHOLD] = squad.tuned_threshold(found.directory, [found.checkpoint])
    return squad.SquadTask(text, version, options.Squad(**values), found.directory)
