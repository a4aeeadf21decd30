# SPDX-License-Identifier: Apache-2.0
"""Several runs with different seeds, as in the paper's medians over five; keeps the best."""

import math
import os
import statistics

from albert_tf import files
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError
from albert_tf.training import run_settings

SUMMARY = "trials.txt"
# Next to the best checkpoint.
_KEPT = (*run_settings.FILES, run_directory.TASK, run_directory.BEST_STATE)


def run(run_trial, output_dir, seeds, key_metric):
    """Runs each trial in its own folder, keeps the best in output_dir and summarizes all.

    A trial that fails is recorded as failed, and the others go on.

    Args:
        run_trial: callable, (directory, seed) -> trains and evaluates there.
        output_dir: str.
        seeds: sequence of int.
        key_metric: str, name of the figure that decides.

    Raises:
        UserError: all trials fail.
    """
    values, lines = {}, []
    for seed in seeds:
        directory = os.path.join(output_dir, f"trial-{seed}")
        print(f"Trial with seed {seed}: {directory}")
        before = RunDirectory(directory).results
        try:
            run_trial(directory, seed)
        except UserError as error:
            reason = " ".join(str(error).split())
            print(f"Trial with seed {seed} failed: {reason}")
            lines.append(f"{directory}\tfailed: {reason}")
        else:
            state = RunDirectory(directory).results
            values[directory] = state.best
            lines.append(f"{directory}\t{state.best}")
            if state == before:
                lines[-1] += "\tof an earlier start"
                print(
                    f"Trial with seed {seed} was finished before: {key_metric} {state.best:.4f} is "
                    "of that start. For a new trial, give another --output_dir or --seed"
                )
        _write(output_dir, lines)
    if not values:
        raise UserError(f"all {len(seeds)} trials failed, the last one: {reason}")
    best = max(values, key=values.get)
    for name in _KEPT:
        text = files.read_text(os.path.join(best, name))
        if text:
            files.write_text(os.path.join(output_dir, name), text)
    run_directory.copy(
        os.path.join(best, run_directory.BEST), os.path.join(output_dir, run_directory.BEST)
    )
    scores, failed = list(values.values()), len(seeds) - len(values)
    spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
    summary = (
        f"{key_metric} of {len(scores)} trials{f' ({failed} failed)' if failed else ''}: "
        f"median {statistics.median(scores):.4f}, mean {statistics.fmean(scores):.4f}, "
        f"standard deviation {spread:.4f}, best {values[best]:.4f} in {best}"
    )
    _write(output_dir, [*lines, summary])
    print(summary)


def _write(output_dir, lines):
    files.write_text(os.path.join(output_dir, SUMMARY), "\n".join(lines) + "\n")
