# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a run's checkpoints, as they are written or afterwards."""

import math
import os
import time

from albert_tf.checkpoints import readers, run_directory, writers
from albert_tf.checkpoints.run_directory import BestState, RunDirectory
from albert_tf.errors import UserError
from albert_tf.training import results
from albert_tf.training.progress_line import say

SECONDS_TO_REWRITE = 1.0  # wait before a checkpoint that could not be read is tried again


class Evaluator:
    """Evaluates a run's checkpoints, records and prints their figures, and keeps the best.

    Args:
        run: loop.Run.
        evaluate: callable, () -> task.Evaluation of the weights that the run holds.
        key_metric: str, the figure that chooses the best checkpoint; larger is better.
        layout: str, template of the text added to `eval_results.txt`, as in the original script:
            {first} and {rest} stand for the `key = value` lines of the figures, sorted; {saved} for
            a line for each file copied to `model.ckpt-best`; {before} and {after} for the best
            value.
        shown: sequence of str, the figures of the line; None for all.
        initial_best: float, the value that the first checkpoint has to beat.
        keep: int or None, how many of the newest checkpoints evaluated by `each` to keep; None or
            0 for all.
    """

    def __init__(
        self, run, evaluate, key_metric, layout, *, shown=None, initial_best=-1, keep=None
    ):
        self._run, self._evaluate, self._key_metric = run, evaluate, key_metric
        self._layout, self._shown, self._initial_best = layout, shown, initial_best
        self._keep, self._directory = keep or math.inf, run.settings.output_dir
        self._warnings = set()  # those that apply now

    def __call__(self, prefix, content=None):
        """Evaluates the weights that the run holds, those of `prefix`.

        Args:
            prefix: str.
            content: the result of `writers.read` for it; None to read it now.
        """
        run, evaluation = self._run, self._evaluate()
        run.wait_for_checkpoint()
        is_best = run.is_chief and self._record(prefix, content, evaluation.figures)
        if is_best and evaluation.keep:
            evaluation.keep()
        figures = evaluation.figures | (evaluation.weighted or {})
        run.figures.evaluation(run.step, figures, self._shown or figures, is_best)
        if run.step:  # nothing to tell before training
            now = set(evaluation.warnings) - {None}
            for warning in sorted(now - self._warnings):
                say(f"Warning: {warning}")
            self._warnings = now

    def _record(self, prefix, content, figures):
        """Records an evaluation; returns whether the checkpoint is kept as the best."""
        before = RunDirectory(self._directory).results
        before = before or BestState(-1, -1, self._initial_best)
        step, value, saved = self._run.step, float(figures[self._key_metric]), ""
        now, is_best = before._replace(step=step), before.is_beaten_by(step, value)
        if is_best:
            now = BestState(step, step, value)
            best = os.path.join(self._directory, run_directory.BEST)
            writers.write(best, *(content or self._read(prefix)))
            for ending in writers.ENDINGS:
                saved += f"saved {prefix}{ending} to {best}{ending}\n"
        first, *rest = results.sorted_lines(figures | {"global_step": step})
        lines = {"first": f"{first}\n", "rest": "".join(f"{line}\n" for line in rest)}
        block = self._layout.format(**lines, saved=saved, before=before.best, after=now.best)
        results.add(self._directory, block)
        RunDirectory(self._directory).write_results(now)
        return is_best

    def each(self, prefixes):
        """Evaluates checkpoints as they come, and skips those that cannot be read.

        Returns:
            int, how many were evaluated.
        """
        evaluated = []
        for prefix in prefixes:
            content = self._load(prefix)
            if content is None:
                continue
            self(prefix, content)
            evaluated.append(prefix)
            if len(evaluated) > self._keep:
                run_directory.delete(evaluated[-1 - self._keep])
        return len(evaluated)

    def _load(self, prefix, tries=2):
        """Loads a checkpoint; returns its content, as another process may delete it at any time.

        Returns None if it cannot be read. A failure is tried again, since a training process that
        is still running rewrites older checkpoints without moments.
        """
        for seconds in [SECONDS_TO_REWRITE] * (tries - 1) + [0]:
            try:
                self._run.load_weights_and_step(prefix)
                return self._read(prefix)
            except UserError as caught:
                is_there, error = run_directory.exists(prefix), caught
                if is_there and not isinstance(error, readers.DamagedError):
                    raise
            time.sleep(seconds)
        gone = f"{prefix} was deleted before it was read"
        say(f"{error if is_there else gone}. It is left out.")
        return None

    def _read(self, prefix):
        return writers.read(prefix, self._run.settings.save_moments_for_best)

    def make_up(self, first_step=0):
        """Evaluates checkpoints that an earlier process of the run saved but did not evaluate.

        Args:
            first_step: int, earlier steps are skipped.
        """
        state = RunDirectory(self._directory).results
        seen = max(state.step if state else -1, first_step - 1)
        pending = results.follow(self._directory, -1, 0, seen, newest_only=False)
        if self.each(pending):
            self._run.restore_newest()

    def evaluate_directory(self, timeout, given=None, newest_only=False):
        """Evaluates checkpoints of the run not evaluated yet, and newer ones as they come.

        A directory with a best checkpoint and no `best_trial.txt`, such as the original's RACE
        runs, has that one evaluated first: later ones must beat it.

        Args:
            timeout: float, seconds to wait for the next checkpoint of another process.
            given: str or None, the checkpoint to evaluate if the directory holds none.
            newest_only: bool, whether only the newest is evaluated, even if it was before.

        Raises:
            UserError: there is no checkpoint at all.
        """
        directory, last_step = self._directory, self._run.settings.train_steps
        folder = RunDirectory(directory)
        if not newest_only and folder.results is None and folder.best:
            self.each([folder.best])
        state = None if newest_only else folder.results
        seen = -1 if state is None else state.step
        if self.each(results.follow(directory, last_step, timeout, seen, newest_only)):
            if newest_only and self._run.step < last_step:
                print(
                    f"No checkpoint after step {self._run.step} of --num_train_steps={last_step}. "
                    "To follow a run that goes on, set --continuous_eval_timeout."
                )
        elif state:
            print(f"Nothing newer to evaluate: step {seen} is done, the best is {state.best_step}.")
        elif given:
            given = run_directory.find(given)
            print(f"--output_dir={directory} holds no checkpoint: evaluating {given}")
            self.each([given])
        else:
            raise UserError(f"--output_dir={directory} holds no checkpoint to evaluate")
