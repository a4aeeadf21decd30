# SPDX-License-Identifier: Apache-2.0
"""Results of evaluations in a run's directory: figures, best checkpoint, progress."""

import math
import os
import time

from albert_tf import files
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError

EVAL_RESULTS = "eval_results.txt"
PREDICT_RESULTS = "predict_results.txt"
RULE = "=" * 50 + "\n"  # between the blocks of eval_results.txt


def add(directory, text):
    """Adds text to `eval_results.txt`."""
    path = os.path.join(directory, EVAL_RESULTS)
    files.write_text(path, files.read_text(path) + text)


def report_predictions(directory, figures, step):
    """Prints the figures of a labelled test set and writes them to `predict_results.txt`.

    Args:
        directory: str, the run's.
        figures: dict of name -> value.
        step: int, of the checkpoint.
    """
    state = RunDirectory(directory).results
    lines = sorted_lines(figures | {"global_step": step})
    best = f"best = {state.best if state else -1}"
    text = "\n".join(["***** Predict results *****", *lines, best])
    files.write_text(os.path.join(directory, PREDICT_RESULTS), text + "\n")
    print(text)


def sorted_lines(figures):
    """The `key = value` lines of an evaluation, sorted by key as the original sorts them."""
    return [f"{key} = {figures[key]}" for key in sorted(figures)]


def follow(directory, last_step, timeout, seen=-1, newest_only=True):
    """Yields a directory's checkpoints as they come, while a run goes on writing.

    Existing checkpoints are yielded whatever their step. Iteration ends after the checkpoint of
    `last_step` or a later one, or when no newer one appears within `timeout` seconds, so the
    evaluation of a finished run ends too.

    Args:
        directory: str.
        last_step: int, step of the run's last checkpoint.
        timeout: float, seconds.
        seen: int, step up to which checkpoints are skipped.
        newest_only: bool, whether all but the newest are skipped too.

    Yields:
        str, prefix.
    """
    deadline = time.time() + timeout
    while True:
        new = [
            (step, prefix) for step, prefix in run_directory.numbered_in(directory) if step > seen
        ]
        for step, prefix in new[-1:] if newest_only else new:
            yield prefix
            seen = step
        if seen >= last_step:
            return
        if new:
            deadline = time.time() + timeout
        elif time.time() >= deadline:
            return
        else:
            time.sleep(min(1.0, timeout))


# --- Checkpoints to go on with -------------------------------------------------------------------


def find_best(directory, given=None):
    """Prefix of `model.ckpt-best`, or of the newest checkpoint if none was evaluated.

    Args:
        directory: str, a run's.
        given: str or None, a fine-tuned checkpoint to take where the directory holds none.

    Raises:
        UserError: there is none.
    """
    prefix = RunDirectory(directory).trained
    if prefix == os.path.join(directory, run_directory.BEST):
        return prefix
    prefix = prefix or (given and run_directory.find(run_directory.prefer_best(given)))
    if not prefix:
        raise UserError(
            f"--output_dir={directory} holds no fine-tuned checkpoint: train first, or give one as "
            "--init_checkpoint"
        )
    print(f"No {run_directory.BEST} in {directory} (no evaluation was made): using {prefix}")
    return prefix


def describe(prefix, step, key_metric):
    """Describes a checkpoint: its step and, if it is the best of its directory, its figure.

    Args:
        prefix: str.
        step: int, of the checkpoint.
        key_metric: str, name of the figure that decided.

    Returns:
        str, for messages.
    """
    directory, name = os.path.split(prefix)
    state = RunDirectory(directory).results if name == run_directory.BEST else None
    figure = f", {key_metric} {state.best:.4f}" if state and state.best_step == step else ""
    return f"{prefix} (step {step}{figure})"


def check_key_metric(directory, key_metric):
    """Raises UserError if no evaluation had a finite key metric."""
    state = RunDirectory(directory).results
    if state is None or state.best_step < 0 or not math.isfinite(state.best):
        raise UserError(
            f"{key_metric} is not a number for any checkpoint in {directory}, so none is the best: "
            "the model gives every example the same output (lower --learning_rate, or train "
            "longer), or the development set has a single example"
        )
