# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a run's checkpoints, as they are written or afterwards, and its results."""

import hashlib
import json
import math
import os
import re
import time

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import loading, readers, run_directory, writers
from albert_tf.checkpoints.run_directory import BestState, EvaluatedOn, RunDirectory
from albert_tf.errors import UserError
from albert_tf.progress import say

PREDICT_RESULTS = "predict_results.txt"
REPORT = "eval_report.txt"  # metrics of the classes, of the best evaluation
RULE = "=" * 50 + "\n"  # between the blocks of eval_results.txt
# Losses, also those of one score of several, or of another part of the development set.
_LOSS = re.compile(r"((eval_|masked_lm_|sentence_order_)?loss|MSE)(_.*)?", re.DOTALL)
SECONDS_TO_REWRITE = 1.0  # wait before a checkpoint that could not be read is tried again


class Evaluator:
    """Evaluates a run's checkpoints, records and prints their metrics, and keeps the best.

    Args:
        run: loop.Run.
        evaluate: callable, () -> splits_and_results.Evaluation of the weights that the run holds.
        key_metric: str, the metric that chooses the best checkpoint; larger is better.
        layout: str, template of the text added to `eval_results.txt`, as in the original script:
            {first} and {rest} stand for the `key = value` lines of the metrics, sorted; {saved} for
            a line for each file copied to `model.ckpt-best`; {before} and {after} for the best
            value.
        evaluated_on: EvaluatedOn. Only metrics of the same files and settings are compared.
        shown: sequence of str, the metrics of the line; None for all.
        initial_best: float, the value that the first checkpoint has to beat.
        keep: int or None, how many of the newest checkpoints evaluated by `each` to keep; None or
            0 for all.
    """

    def __init__(
        self,
        run,
        evaluate,
        key_metric,
        layout,
        evaluated_on,
        *,
        shown=None,
        initial_best=-1,
        keep=None,
    ):
        self._run, self._evaluate, self._key_metric = run, evaluate, key_metric
        self._layout, self._shown, self._initial_best = layout, shown, initial_best
        self._keep, self._folder = keep or math.inf, RunDirectory(run.settings.output_dir)
        self._evaluated_on = evaluated_on
        self._warnings = {}  # those that apply now, by their text without numbers
        # Whether metrics count for the run. Metrics of other files or settings do not count, and
        # neither do those of a checkpoint from another directory: this directory would seem to hold
        # a trained model.
        self._counts = True

    def __call__(self, prefix, content=None):
        """Evaluates the weights that the run holds, those of `prefix`.

        Args:
            prefix: str.
            content: the result of `writers.read` for it; None to read it now.
        """
        run, evaluation = self._run, self._evaluate()
        run.saver.wait()
        is_best = run.is_chief and self._record(prefix, content, evaluation)
        metrics = evaluation.metrics | (evaluation.weighted or {})
        shown, best = self._shown or metrics, is_best and self._counts
        run.metrics.evaluation(run.step, metrics, shown, best)
        if evaluation.report and not self._counts:  # that of the best is printed at the end
            say(evaluation.report)
        if run.step:  # an untrained model deserves no warning
            now = {re.sub(r"\d\S*", "", each): each for each in evaluation.warnings if each}
            for kind in sorted(now.keys() - self._warnings.keys()):
                say(f"Warning: {now[kind]}")
            self._warnings = now

    def _record(self, prefix, content, evaluation):
        """Records an Evaluation; returns whether the checkpoint is the best."""
        metrics, sign = evaluation.metrics, sign_of(self._key_metric)
        before = BestState(-1, -1, self._initial_best if sign > 0 else -math.inf)
        found = self._folder.results
        if self._counts and self._is_comparable() and found and found.best_step >= 0:
            before = found
        check_metric(self._key_metric, metrics)
        step, value, saved = self._run.step, sign * float(metrics[self._key_metric]), ""
        now, is_best = before._replace(step=step), before.is_beaten_by(step, value)
        if is_best:
            now = BestState(step, step, value)
        if is_best and self._counts:
            best = self._folder.file(run_directory.BEST)
            writers.write(best, *(content or self._read(prefix)))
            for ending in writers.ENDINGS:
                saved += f"saved {prefix}{ending} to {best}{ending}\n"
        # Before the results: after an interruption here, this checkpoint is evaluated again.
        if is_best and evaluation.keep and (self._counts or not self._folder.trained):
            evaluation.keep(self._folder.path)
        first, *rest = sorted_lines(metrics | {"global_step": step})
        if not self._counts:
            rest.append(run_directory.NOT_COMPARED[0])
        lines = {"first": f"{first}\n", "rest": "".join(f"{line}\n" for line in rest)}
        values = {"before": sign * before.best, "after": sign * now.best}
        block = self._layout.format(**lines, **values, saved=saved)
        add(self._folder.path, block)
        if self._counts:
            if now.best_step < 0:  # no value was a number yet
                now = now._replace(best=self._initial_best)
            self._folder.write_results(now, self._evaluated_on)
        return is_best

    def _is_comparable(self):
        """Whether the results of the run have the same files and settings, as far as we know."""
        return are_same(self._folder.evaluated_on, self._evaluated_on)

    def each(self, prefixes):
        """Evaluates checkpoints as they come, and skips those that cannot be read.

        Args:
            prefixes: iterable of str.

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
            if self._counts and len(evaluated) > self._keep:
                run_directory.delete(evaluated[-1 - self._keep])
        return len(evaluated)

    def _load(self, prefix):
        """Loads a checkpoint; returns its content, as another process may delete it at any time.

        Returns None if the checkpoint cannot be read. It is tried twice, since a training process
        that is still running rewrites older checkpoints without moments.
        """
        for seconds in (SECONDS_TO_REWRITE, 0):
            try:
                self._run.load_weights_and_step(prefix)
                return self._read(prefix)
            except UserError as caught:
                is_there, error = run_directory.exists(prefix), caught
                if is_there and not isinstance(error, readers.DamagedError):
                    raise
            time.sleep(seconds)
        gone = f"{prefix} was deleted before it was read"
        say(f"{error if is_there else gone}. It is skipped.")
        return None

    def _read(self, prefix):
        return writers.read(prefix, self._run.settings.save_moments_for_best)

    def make_up(self, first_step=0):
        """Evaluates checkpoints that an earlier process of the run saved but did not evaluate.

        Those of a stop, between two regular ones, are left out: the results are those of a run that
        was not stopped.

        If the evaluation has changed, the best checkpoint and later ones are evaluated again. If
        there is a best checkpoint without `best_trial.txt`, as in RACE runs of the original, it is
        evaluated first.

        Args:
            first_step: int, earlier steps are skipped.
        """
        state, best, others = self._folder.results, self._folder.best, []
        last = state.step if state else -1
        if best and state is None:
            others = [best]
        elif best and not self._is_comparable():
            say(f"Evaluating {best} again, since the files or settings of the evaluation changed.")
            last, others = loading.step_in(best), [best]
        self.each(others)
        first_step, settings = max(first_step, last + 1), self._run.settings
        left = []
        for step, prefix in run_directory.numbered_in(self._folder.path):
            is_regular = step % settings.save_checkpoints_steps == 0 or step >= settings.train_steps
            may_be_of_stop = state is not None or step == self._run.step
            if step >= first_step and (is_regular or not may_be_of_stop):
                left.append(prefix)
        self.each(left)
        if others or left:  # their weights took the place of the run's
            self._run.restore_newest()

    def evaluate_directory(self, timeout, given=None, newest_only=False):
        """Evaluates the checkpoints of the run that are not evaluated yet, and newer ones.

        If a directory has a best checkpoint and no `best_trial.txt`, as RACE runs of the original
        have it, the best checkpoint is evaluated first, and later ones must beat it. If the files
        or settings differ from those of the run's results, these results stay as they are: only the
        best checkpoint is evaluated (with `newest_only` the newest; with a timeout, each new one).

        Args:
            timeout: float, seconds to wait for the next checkpoint of another process.
            given: str or None, the checkpoint to evaluate if the directory holds none.
            newest_only: bool, whether only the newest checkpoint is evaluated, even if it was
                before.

        Raises:
            UserError: there is no checkpoint at all.
        """
        folder, last_step = self._folder, self._run.settings.train_steps
        prefix = folder.latest if newest_only else folder.trained
        if folder.results and prefix and not self._is_comparable():
            say("The best checkpoint stays: it was chosen with other files or settings.")
            self._counts = False
            self.each(follow(folder.path, last_step, timeout) if timeout else [prefix])
            return
        if not newest_only and folder.results is None and folder.best:
            self.each([folder.best])
        state = None if newest_only else folder.results
        seen = -1 if state is None else state.step
        if self.each(follow(folder.path, last_step, timeout, seen, newest_only)):
            if newest_only and self._run.step < last_step:
                print(
                    f"No checkpoint after step {self._run.step} of --num_train_steps={last_step}. "
                    "To follow a run that goes on, set --continuous_eval_timeout."
                )
        elif state:
            print(f"Nothing newer to evaluate: step {seen} is done, the best is {state.best_step}.")
        elif given or folder.best:
            given = folder.best or run_directory.find(given)
            print(f"--output_dir={folder.path} holds no numbered checkpoint: evaluating {given}")
            self._run.load_weights_and_step(given)
            self._counts = False
            self(given)
        else:
            raise UserError(f"--output_dir={folder.path} holds no checkpoint to evaluate")


# --- Results -----------------------------------------------------------------------------------


def add(directory, text):
    """Adds text to `eval_results.txt`."""
    path = os.path.join(directory, run_directory.EVAL_RESULTS)
    files.write_text(path, files.read_text(path) + text)


def report_predictions(directory, metrics, step, key_metric):
    """Prints the metrics of a labelled test set and writes them to `predict_results.txt`.

    Args:
        directory: str, the run's.
        metrics: dict of name -> value.
        step: int, of the checkpoint.
        key_metric: str, the metric that chose the best checkpoint.
    """
    state = RunDirectory(directory).results
    lines = sorted_lines(metrics | {"global_step": step})
    sign = sign_of(_chosen_by(directory, key_metric))
    best = f"best = {sign * state.best if state else -1}"
    text = "\n".join(["***** Predict results *****", *lines, best])
    files.write_text(os.path.join(directory, PREDICT_RESULTS), text + "\n")
    print(text)


def evaluated_on(paths, **settings):
    """The EvaluatedOn of files, by name and size, and of settings, which are JSON values."""
    sizes = sorted([os.path.basename(path), tf.io.gfile.stat(path).length] for path in paths)
    content = json.dumps([sizes, settings], sort_keys=True)
    fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return EvaluatedOn(fingerprint, settings.get("best_metric"))


def are_same(found, now):
    """Whether two EvaluatedOn are of the same files and settings; None may be any (bool)."""
    return found is None or found.fingerprint == now.fingerprint


def sorted_lines(metrics):
    """The `key = value` lines of an evaluation, sorted by key as the original sorts them."""
    return [f"{key} = {metrics[key]}" for key in sorted(metrics)]


def check_metric(name, names):
    """Raises UserError if the metric that chooses the best checkpoint is none of those there are.

    Args:
        name: str.
        names: iterable of str.
    """
    if name not in names:
        shown = sorted(other for other in names if not other.startswith("count_"))
        raise UserError(f"--best_metric={name} is none of the metrics {', '.join(shown)}")


def sign_of(name):
    """The sign of a metric in `best_trial.txt`, where larger is better: -1 of losses, else 1."""
    return -1 if _LOSS.fullmatch(name) else 1


def follow(directory, last_step, timeout, seen=-1, newest_only=True):
    """Yields the checkpoints of a directory while a run writes them.

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
    deadline = time.monotonic() + timeout
    while True:
        numbered = run_directory.numbered_in(directory)
        new = [(step, prefix) for step, prefix in numbered if step > seen]
        for step, prefix in new[-1:] if newest_only else new:
            yield prefix
            seen = step
        if seen >= last_step:
            return
        if new:
            deadline = time.monotonic() + timeout
        elif time.monotonic() >= deadline:
            return
        else:
            time.sleep(min(1.0, timeout))


def find_best(directory, given=None):
    """Prefix of `model.ckpt-best`, or of the newest checkpoint if none was evaluated.

    Args:
        directory: str, a run's.
        given: str or None, a fine-tuned checkpoint to take where the directory holds none.

    Raises:
        UserError: there is none.
    """
    folder = RunDirectory(directory)
    prefix = folder.trained_or(given)
    if not folder.best and folder.latest:
        print(f"There is no {run_directory.BEST} in {directory}: using {prefix}")
    return prefix


def describe(prefix, key_metric):
    """Describes a checkpoint: its step and, if it is the best of its directory, its metric.

    Args:
        prefix: str.
        key_metric: str, name of the metric that decided.

    Returns:
        str, for messages.
    """
    (directory, name), step = os.path.split(prefix), loading.step_in(prefix)
    state = RunDirectory(directory).results if name == run_directory.BEST else None
    metric = ""
    if state and state.best_step == step:
        key_metric = _chosen_by(directory, key_metric)
        metric = f", {key_metric} {sign_of(key_metric) * state.best:.4f}"
    return f"{prefix} (step {step}{metric})"


def _chosen_by(directory, key_metric):
    """The metric that chose the best checkpoint of a directory; by default that of the task."""
    found = RunDirectory(directory).evaluated_on
    return (found and found.best_metric) or key_metric


def check_key_metric(directory, key_metric):
    """Raises UserError if no evaluation of a run's checkpoints had a finite key metric."""
    state = RunDirectory(directory).results
    if state and (state.best_step < 0 or not math.isfinite(state.best)):
        raise UserError(
            f"{key_metric} is no number for any checkpoint in {directory}: the model gives every "
            "example one output (lower --learning_rate), or all labels of the examples are the same"
        )
