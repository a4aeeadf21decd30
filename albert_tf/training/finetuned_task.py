# SPDX-License-Identifier: Apache-2.0
"""`finetuned_task.json`: which task the checkpoints of a run are of, and its labels."""

import dataclasses
import json
import os

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import huggingface, run_directory
from albert_tf.errors import UserError
from albert_tf.training import results

FILE = "finetuned_task.json"


@dataclasses.dataclass(frozen=True)
class FinetunedTask:
    """A task's name, and its labels in the order of their ids (None in regression)."""

    task_name: str
    labels: tuple[str, ...] | None

    def __str__(self):
        labels = "scores" if self.labels is None else f"labels {', '.join(self.labels)}"
        return f"{self.task_name} ({labels})"


def write(directory, task):
    """Writes down which task a run is of.

    Args:
        directory: str, the run's.
        task: FinetunedTask.
    """
    text = json.dumps(dataclasses.asdict(task), indent=2) + "\n"
    files.write_text(os.path.join(directory, FILE), text)


def check(task, output_dir, given=None):
    """Raises UserError if the checkpoints to go on with are of another task.

    Where the file is absent, nothing can be told: the original writes none.

    Args:
        task: FinetunedTask, the one in question.
        output_dir: str, the run's directory.
        given: str or None, a fine-tuned checkpoint that is used if output_dir holds none.
    """
    remedy = "give --output_dir a directory of its own"
    _check_in(output_dir, task, f"--output_dir={output_dir}", remedy)
    if given and not results.trained_in(output_dir):
        remedy = "give a checkpoint of this task, or train with --do_train"
        _check_in(run_directory.directory_of(given), task, f"--init_checkpoint={given}", remedy)


def _check_in(directory, task, flag, remedy):
    found = read(directory)
    if found is None:
        labels = huggingface.read_labels(directory)
        if labels in (None, task.labels):
            return
        found = FinetunedTask("another task", labels)
    if found != task:
        raise UserError(
            f"{flag} was trained for {found} and not for {task}: {remedy}, or change --task_name"
        )


def read(directory):
    """Which task the checkpoints of a directory are of; None where the file is not there.

    Args:
        directory: str.

    Returns:
        FinetunedTask or None.

    Raises:
        UserError: the file is damaged.
    """
    path = os.path.join(directory, FILE)
    if not tf.io.gfile.exists(path):
        return None
    try:
        content = files.read_json(path)
    except UserError as error:
        raise UserError(f"{path} is damaged: delete it ({error})") from error
    content = content if isinstance(content, dict) else {}
    task_name, labels = content.get("task_name"), content.get("labels", "absent")
    are_labels = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not isinstance(task_name, str) or not (labels is None or are_labels):
        raise UserError(
            f"{path} is damaged: delete it (it must hold task_name, a string, and labels, a list "
            "of strings or null)"
        )
    return FinetunedTask(task_name, None if labels is None else tuple(labels))
