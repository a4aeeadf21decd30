# SPDX-License-Identifier: Apache-2.0
"""What evaluations leave in a run's directory: figures, best checkpoint, how far they came."""

import math
import os
import re
import time
from typing import NamedTuple

from albert_tf import files
from albert_tf.checkpoints import run_directory, writers
from albert_tf.errors import UserError

EVAL_RESULTS = "eval_results.txt"
PREDICT_RESULTS = "predict_results.txt"
BEST_STATE = "best_trial.txt"
RULE = "=" * 50 + "\n"  # between the blocks of eval_results.txt
_BEST_STATE = re.compile(r"(\d{1,18}):(-1|\d{1,18}):([-+.\de]+)", re.ASCII)


class BestState(NamedTuple):
    """Content of `best_trial.txt`: the last step evaluated, the best one and its value."""

    step: int
    best_step: int
    best: float


def read_best(directory):
    """The BestState of a directory, or None where nothing was evaluated.

    Raises:
        UserError: the file is there and holds something else.
    """
    path = os.path.join(directory, BEST_STATE)
    text = files.read_text(path)
    if not text:
        return None
    match = _BEST_STATE.fullmatch(text.strip())
    try:
        state = match and BestState(int(match[1]), int(match[2]), float(match[3]))
    except ValueError:
        state = None
    if state is None or not math.isfinite(state.best):
        raise UserError(
            f"{path} must read global_step:best_step:best_value. Received: {text[:80]!r}. Delete "
            "it, and the checkpoints that are there are evaluated anew"
        )
    return state


def record(
    directory,
    step,
    figures,
    prefix,
    key_metric,
    initial_best,
    layout,
    content=None,
    save_moments_for_best=False,
):
    """Adds an evaluation to `eval_results.txt` and keeps the checkpoint if it is the best so far.

    Args:
        directory: str, the run's.
        step: int, of the checkpoint.
        figures: dict of name -> value.
        prefix: str, the checkpoint.
        key_metric: str, name of the figure that decides; larger is better, nan is never the best.
            Of equal ones the later is the best. Step 0 is only until another step is evaluated.
        initial_best: float, what the first checkpoint has to beat.
        layout: str, what is added, as the script's original writes it: {first} and {rest} stand
            for the `key = value` lines of the figures, sorted; {saved} for a line for each file
            copied to `model.ckpt-best`; {before} and {after} for the best value.
        content: what `writers.read` gives of the checkpoint, if that may be gone by now.
        save_moments_for_best: bool, whether `model.ckpt-best` keeps the optimizer's slots.

    Returns:
        bool, whether it is kept as `model.ckpt-best`.
    """
    state, saved = read_best(directory) or BestState(-1, -1, initial_best), ""
    value = float(figures[key_metric])
    improved = math.isfinite(value) and _is_better(step, value, state)
    if improved:
        for source, destination in _keep_best(prefix, directory, content, save_moments_for_best):
            saved += f"saved {source} to {destination}\n"
    best = (step, value) if improved else (state.best_step, state.best)
    first, *rest = (f"{line}\n" for line in sorted_lines(figures))
    _add(
        directory,
        layout.format(
            first=first, rest="".join(rest), saved=saved, before=state.best, after=best[1]
        ),
    )
    files.write_text(os.path.join(directory, BEST_STATE), ":".join(map(str, (step, *best))))
    return improved


def _is_better(step, value, state):
    # An untrained model can have a high figure by chance, so any trained one replaces it. Of equal
    # ones the later was trained for longer.
    if state.best_step < 0:
        return value > state.best
    return step > 0 and (state.best_step == 0 or value >= state.best)


def _keep_best(prefix, directory, content, save_moments):
    """Copies a checkpoint to `model.ckpt-best`; returns pairs (source file, target file)."""
    best = os.path.join(directory, run_directory.BEST)
    if content:
        writers.write(best, *content)
    elif save_moments or not writers.drop_moments(prefix, best):
        return run_directory.copy(prefix, best)
    return [(prefix + end, best + end) for end in (".data-00000-of-00001", ".index")]


def add_lines(directory, lines):
    """Adds lines to `eval_results.txt`."""
    _add(directory, "".join(f"{line}\n" for line in lines))


def _add(directory, text):
    path = os.path.join(directory, EVAL_RESULTS)
    files.write_text(path, files.read_text(path) + text)


def report_predictions(directory, figures, step):
    """Prints the figures of a labelled test set and writes them to `predict_results.txt`.

    Args:
        directory: str, the run's.
        figures: dict of name -> value.
        step: int, of the checkpoint.
    """
    state = read_best(directory)
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

    What is there is yielded, whatever its step. It ends when the checkpoint of `last_step` or a
    later one was yielded, or when no newer one appears within `timeout` seconds, so the evaluation
    of a finished run ends too.

    Args:
        directory: str.
        last_step: int, step of the run's last checkpoint.
        timeout: float, seconds.
        seen: int, step up to which checkpoints are left out.
        newest_only: bool, whether older ones are left out too.

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


def trained_in(directory):
    """A run's best checkpoint or, where nothing was evaluated, its newest; or None."""
    best = os.path.join(directory, run_directory.BEST)
    return best if run_directory.exists(best) else run_directory.latest_in(directory)


def find_best(directory, given=None):
    """Prefix of `model.ckpt-best`; where nothing was evaluated of the newest, and a line says so.

    Args:
        directory: str, a run's.
        given: str or None, a fine-tuned checkpoint to take where the directory holds none.

    Raises:
        UserError: there is none.
    """
    prefix = trained_in(directory)
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
    """A checkpoint with its step and, if it is the best of its directory, its figure.

    Args:
        prefix: str.
        step: int, of the checkpoint.
        key_metric: str, name of the figure that decided.

    Returns:
        str, for messages.
    """
    directory, name = os.path.split(prefix)
    state = read_best(directory) if name == run_directory.BEST else None
    figure = f", {key_metric} {state.best:.4f}" if state and state.best_step == step else ""
    return f"{prefix} (step {step}{figure})"


def evaluated_step(directory):
    """The last step of a run that was evaluated, -1 if none was."""
    state = read_best(directory)
    return -1 if state is None else state.step


def check_key_metric(directory, key_metric):
    """Raises UserError if no evaluation had a finite key metric."""
    state = read_best(directory)
    if state is None or state.best_step < 0 or not math.isfinite(state.best):
        raise UserError(
            f"{key_metric} is not a number for any checkpoint in {directory}, so none is the best: "
            "the model gives every example the same output (lower --learning_rate, or train "
            "longer), or the development set has a single example"
        )
