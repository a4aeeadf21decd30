# SPDX-License-Identifier: Apache-2.0
"""What the fine-tuning scripts share: train, evaluate every checkpoint, predict with the best."""

import dataclasses
import json
import math
import os

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import name_table, run_directory, transformers
from albert_tf.data import input_pipeline, record_checks
from albert_tf.errors import UserError
from albert_tf.model import heads, optimization
from albert_tf.training import devices, loop, progress_line, results, runners

HEAD_FILE = "finetuned_task.json"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to train; steps are updates, batches are of all replicas."""

    optimizer: str
    learning_rate: float
    train_steps: int
    warmup_steps: int
    batch_size: int
    seed: int | None = None
    shuffle_buffer_size: int = 100  # the original's


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the weights come from, if output_dir holds no run to resume."""

    init_checkpoint: str | None = None
    allow_random_init: bool = False


@dataclasses.dataclass(frozen=True)
class Head:
    """What a head is trained for: the task, and its labels in order (None in regression)."""

    task_name: str
    labels: tuple[str, ...] | None

    def __str__(self):
        labels = "scores" if self.labels is None else f"labels {', '.join(self.labels)}"
        return f"{self.task_name} ({labels})"


def write_head(directory, head):
    """Writes down what the head of a run's checkpoints is trained for.

    Args:
        directory: str, the run's.
        head: Head.
    """
    text = json.dumps(dataclasses.asdict(head), indent=2) + "\n"
    files.write_text(os.path.join(directory, HEAD_FILE), text)


def check_head(head, output_dir, given=None):
    """Raises UserError if the checkpoints to go on with are of another task.

    Where `HEAD_FILE` is absent, nothing can be told: the original writes none.

    Args:
        head: Head, of the task in question.
        output_dir: str, the run's directory.
        given: str or None, a fine-tuned checkpoint that is used if output_dir holds none.
    """
    remedy = "give --output_dir a directory of its own"
    _check_head_in(output_dir, head, f"--output_dir={output_dir}", remedy)
    if given and not trained_in(output_dir):
        directory = given if tf.io.gfile.isdir(given) else os.path.dirname(given)
        remedy = "give a checkpoint of this task, or train with --do_train"
        _check_head_in(directory, head, f"--init_checkpoint={given}", remedy)


def _check_head_in(directory, head, flag, remedy):
    found = read_head(directory)
    if found is None:
        labels = transformers.read_labels(directory)
        if labels in (None, head.labels):
            return
        found = Head("another task", labels)
    if found != head:
        raise UserError(
            f"{flag} was trained for {found} and not for {head}: {remedy}, or change --task_name"
        )


def read_head(directory):
    """What the head of a directory's checkpoints is trained for, where `HEAD_FILE` tells it.

    Args:
        directory: str.

    Returns:
        Head or None.

    Raises:
        UserError: the file is damaged.
    """
    path = os.path.join(directory, HEAD_FILE)
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
    return Head(task_name, None if labels is None else tuple(labels))


def check_strategy(name):
    """Raises UserError for a strategy that fine-tuning has no use for.

    Args:
        name: str, value of --distribution_strategy.
    """
    if name == "multi_worker_mirrored":
        raise UserError(
            f"--distribution_strategy={name} is for run_pretraining.py: fine-tune on one machine, "
            "with mirrored if it has several GPUs"
        )


def make_run(strategy, make_model, terms, settings, recipe=None):
    """Builds model, optimizer and run under a strategy.

    Args:
        strategy: tf.distribute.Strategy.
        make_model: callable without arguments -> model with an encoder and a head.
        terms: callable, of `training.Task`, with `eval_loss` among its figures.
        settings: training.Settings.
        recipe: Recipe, or None for a run that does not train.

    Returns:
        training.Run.
    """
    with strategy.scope():
        model = make_model()
        optimizer = None
        if recipe is not None:
            schedule = optimization.PolynomialDecayWithWarmup(
                recipe.learning_rate, recipe.train_steps, recipe.warmup_steps
            )
            optimizer = runners.create_optimizer(recipe.optimizer, schedule)
    task = loop.Task(model, name_table.named_variables(model), terms, heads.mean_loss)
    return loop.Run(strategy, task, optimizer, settings)


def start(run, source):
    """Fills the model and says from where: from output_dir if it holds a run, else as told.

    Encoder weights alone are taken from elsewhere; the head starts afresh. Nothing is written yet.

    Args:
        run: training.Run.
        source: Source.

    Raises:
        UserError: the checkpoint does not fit, or there is none and there must be.
    """
    print(
        run.initialize(
            source.init_checkpoint and prefer_best(source.init_checkpoint),
            take_heads=False,
            allow_random_init=source.allow_random_init,
            save=False,
        )
    )


def prefer_best(path):
    """`model.ckpt-best` of a directory that has one, since the newest is mostly overtrained.

    Args:
        path: str, anything that `run_directory.find` takes; all else is returned as it is.
    """
    best = os.path.join(path, run_directory.BEST)
    return best if run_directory.exists(best) else path


def train(run, recipe, record_files, schema, max_seq_length, figures, on_checkpoint=None):
    """Trains on record files, from the weights of `start`.

    Checkpoints that an earlier process left without evaluation are evaluated first.

    Args:
        run: training.Run.
        recipe: Recipe.
        record_files: list of str.
        schema: dict from feature name to `records.FeatureSpec`.
        max_seq_length: int, T.
        figures: sequence of str, names of the task's terms.
        on_checkpoint: callable or None, called with the prefix of each checkpoint.

    Raises:
        UserError: a record is damaged or does not fit the schema.
    """
    directory = run.settings.output_dir
    if recipe.warmup_steps >= recipe.train_steps:
        print(
            f"Warning: the warm-up of {recipe.warmup_steps} updates does not end before the "
            f"training, of {recipe.train_steps}: --learning_rate is never reached."
        )
    if run.step == 0:
        run.save()
    if on_checkpoint:
        pending = [
            prefix
            for step, prefix in run_directory.numbered_in(directory)
            if step > evaluated_step(directory)
        ]
        if _evaluate_each(run, on_checkpoint, pending):
            run.initialize()  # weights, moments and step of the newest again
    dataset = input_pipeline.train_dataset(
        record_files,
        schema,
        recipe.batch_size,
        seed=None if recipe.seed is None else recipe.seed + run.step,
        shuffle_buffer_size=recipe.shuffle_buffer_size,
        trim_to=None if devices.is_tpu(run.strategy) else max_seq_length,
    )
    with record_checks.naming_bad_records(record_files, schema, remedy=record_checks.CACHE_REMEDY):
        run.train(dataset, recipe.batch_size, figures, on_checkpoint)


def evaluated_step(directory):
    """The last step of a run that was evaluated, -1 if none was."""
    state = results.read_best(directory)
    return -1 if state is None else state.step


def _evaluate_each(run, evaluate, prefixes):
    """Evaluates checkpoints as they come; of these the newest `keep_checkpoint_max` stay.

    Returns:
        int, how many there were.
    """
    kept, count = [], 0
    longest = run.settings.keep_checkpoint_max or math.inf
    for prefix in prefixes:
        run.load_weights_and_step(prefix)
        evaluate(prefix)
        count += 1
        kept.append(prefix)
        if run.is_chief and len(kept) > longest:
            run_directory.delete(kept.pop(0))
    return count


def evaluate_checkpoints(run, evaluate, timeout=0.0, given=None):
    """Evaluates the run's checkpoints that were not evaluated yet, in the order of their steps.

    Of those that are evaluated, the newest `keep_checkpoint_max` stay; the best one has a copy. A
    directory with a best checkpoint and no `best_trial.txt`, such as the original's RACE runs, has
    that one evaluated first: later ones must beat it.

    Args:
        run: training.Run.
        evaluate: callable, called with each prefix, its weights loaded.
        timeout: float, seconds to wait for the next checkpoint of a run that goes on elsewhere.
        given: str or None, a fine-tuned checkpoint to evaluate where the directory holds none.

    Raises:
        UserError: there is no checkpoint at all.
    """
    directory = run.settings.output_dir
    best = os.path.join(directory, run_directory.BEST)
    if results.read_best(directory) is None and run_directory.exists(best):
        run.load_weights_and_step(best)
        evaluate(best)
    state = results.read_best(directory)
    prefixes = results.follow(
        directory,
        run.settings.train_steps,
        timeout,
        seen=evaluated_step(directory),
        newest_only=False,
    )
    if _evaluate_each(run, evaluate, prefixes):
        return
    if state is None and given:
        given = run_directory.find(prefer_best(given))
        print(f"--output_dir={directory} holds no checkpoint: evaluating {given}")
        _evaluate_each(run, evaluate, [given])
        return
    if state is None:
        raise UserError(f"--output_dir={directory} holds no checkpoint to evaluate")
    print(f"Nothing newer to evaluate: step {state.step} is done, the best is {state.best_step}.")


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
    prefix = prefix or (given and run_directory.find(prefer_best(given)))
    if not prefix:
        raise UserError(
            f"--output_dir={directory} holds no fine-tuned checkpoint: train first, or give one as "
            "--init_checkpoint"
        )
    print(f"No {run_directory.BEST} in {directory} (no evaluation was made): using {prefix}")
    return prefix


def load_best(run, given=None):
    """Loads the checkpoint of `find_best` into a run; returns its prefix."""
    prefix = find_best(run.settings.output_dir, given)
    run.load_weights_and_step(prefix)
    return prefix


def model_outputs(run, arrays, batch_size, max_seq_length):
    """The model's logits for all rows, in their order: float32 [n, C].

    Args:
        run: training.Run, its weights loaded.
        arrays: dict of numpy arrays, of `input_pipeline.load_arrays`.
        batch_size: int.
        max_seq_length: int, T.
    """
    inputs = {name: arrays[name] for name in ("input_ids", "input_mask", "segment_ids")}
    batches = input_pipeline.prediction_batches(
        inputs, batch_size, max_seq_length, fixed_shape=devices.is_tpu(run.strategy)
    )
    return run.predict(batches, len(inputs["input_ids"]))["logits"]


def mean_over_batches(losses, batch_size):
    """`loss` of the original's results: the mean of the batches' means, the last one's included."""
    starts = np.arange(0, len(losses), batch_size)
    sizes = np.diff(np.append(starts, len(losses)))
    return float(np.mean(np.add.reduceat(losses, starts) / sizes))


def check_key_metric(directory, key_metric):
    """Raises UserError if no evaluation had a finite key metric."""
    state = results.read_best(directory)
    if state is None or state.best_step < 0 or not math.isfinite(state.best):
        raise UserError(
            f"{key_metric} is not a number for any checkpoint in {directory}, so none is the best: "
            "the model gives every example the same output (lower --learning_rate, or train "
            "longer), or the development set has a single example"
        )


def collapse_warning(labels, outputs):
    """A warning if all examples are given the same class; a sign that training has failed.

    Args:
        labels: sequence of C str, or None in regression, where there is nothing to warn of.
        outputs: array of logits [n, C].

    Returns:
        str or None.
    """
    if labels is None or len(outputs) < 2:
        return None
    found = set(np.argmax(outputs, axis=-1).tolist())
    if len(found) > 1:
        return None
    return (
        f"all {len(outputs)} examples are predicted to be {labels[found.pop()]!r}: the model has "
        "probably not learnt; try a lower --learning_rate, a longer --warmup_step or another --seed"
    )


class Warner:
    """Prints a warning when it begins to hold, and not again while it does."""

    def __init__(self):
        self._holding = set()

    def say(self, warnings):
        """Prints what is new.

        Args:
            warnings: iterable of str or None: all that hold now.
        """
        now = set(warnings) - {None}
        for warning in sorted(now - self._holding):
            progress_line.say(f"Warning: {warning}")
        self._holding = now
