# SPDX-License-Identifier: Apache-2.0
"""The one loop: a run and its directory, training, evaluation, checkpoints.

It knows no task and no flag. A `Task` brings the model, its figures and its loss; a `Run` drives
it over an orbit Controller.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import tempfile
from collections.abc import Callable, Mapping

import orbit
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import loading, name_table, readers, run_directory, writers
from albert_tf.errors import UserError
from albert_tf.training import devices, prediction, progress_line, runners


@dataclasses.dataclass(frozen=True)
class Task:
    """What the loop needs to know of a task.

    Attributes:
        model: tf_keras.Model, called as model(features, training=bool) -> outputs.
        variables: dict of original name -> variable of the model (`name_table.named_variables`).
        terms: callable, (features, outputs) -> dict of name -> (values, weights), which become
            the metrics: weighted means over all examples.
        loss: callable, (terms, global_sum) -> float32 scalar: this replica's share of the batch's
            loss; `global_sum` adds a scalar up over the replicas.
    """

    model: tf_keras.Model
    variables: Mapping[str, tf.Variable]
    terms: Callable
    loss: Callable


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long, how often and where; steps are updates of the variables."""

    output_dir: str
    train_steps: int
    save_checkpoints_steps: int
    steps_per_loop: int = 1000
    keep_checkpoint_max: int | None = 5


class Run:
    """A training run and its directory.

    Args:
        strategy: tf.distribute.Strategy, under whose scope task and optimizer were made.
        task: Task.
        optimizer: of `runners.create_optimizer`; None for a run that only evaluates.
        settings: Settings.

    Attributes:
        predict: prediction.Predictor of the model.
    """

    def __init__(self, strategy, task, optimizer, settings):
        self.strategy, self.task = strategy, task
        self.optimizer, self.settings = optimizer, settings
        self.is_chief = devices.is_chief(strategy)
        # Every worker has to take part in saving, but only one may write to the directory.
        self._temporary = None if self.is_chief else tempfile.TemporaryDirectory()
        self._directory = settings.output_dir if self.is_chief else self._temporary.name
        self._evaluators = {}
        self.predict = prediction.Predictor(strategy, task.model)
        if optimizer is None:
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
            return
        with strategy.scope():
            optimizer.build(list(task.variables.values()))
        inner = runners.inner_optimizer(optimizer)
        self._state = name_table.training_variables(task.variables, inner)
        self._step = inner.iterations
        if self.is_chief:
            run_directory.tidy(self._directory)
        self._manager = tf.train.CheckpointManager(
            writers.make_checkpoint(self._state),
            self._directory,
            max_to_keep=settings.keep_checkpoint_max or None,
            checkpoint_name="model.ckpt",
        )

    @property
    def step(self):
        """Updates made so far."""
        return int(self._step.numpy())

    def initialize(
        self,
        init_checkpoint=None,
        init_from_group0=False,
        take_heads=True,
        allow_random_init=True,
        save=True,
    ):
        """Fills the variables: from output_dir if it holds a run, else as told, else at random.

        Args:
            init_checkpoint: str or None, anything that `run_directory.find` takes.
            init_from_group0: bool, fill every parameter group from the checkpoint's group 0.
            take_heads: bool, whether heads are taken too; a new task's starts afresh.
            allow_random_init: bool, whether a run may start without any given weights.
            save: bool, whether a new run saves these weights at once, as step 0.

        Returns:
            str, one line that says where the weights come from.

        Raises:
            UserError: a checkpoint is there and does not fit, or none is there and one must be.
        """
        latest = self._restore_newest()
        if latest:
            line = f"Resuming at step {self.step} from {latest}: weights, moments and step."
            return line + (" --init_checkpoint is not read." if init_checkpoint else "")
        if init_checkpoint:
            named = self.task.variables
            if not take_heads:
                named = {n: v for n, v in named.items() if name_table.is_encoder(n)}
            report = loading.load(init_checkpoint, named, init_from_group0)
            if save:
                self.save()
            heads = "" if take_heads else "\n  The task's head starts afresh."
            return f"Starting at step 0 with given weights: {report}{heads}"
        if not allow_random_init:
            raise UserError(
                "no weights to start from: give --init_checkpoint (or, to train from random "
                "weights on purpose, --allow_random_init)"
            )
        if save:
            self.save()
        return "Starting at step 0 from random weights: no checkpoint in output_dir, none given."

    def _restore_newest(self):
        """Restores the newest whole checkpoint of output_dir; its prefix, or None if there is none.

        Raises:
            UserError: it is of another model, or all are damaged.
        """
        latest = run_directory.latest_in(self.settings.output_dir)
        older = [prefix for _, prefix in run_directory.numbered_in(self.settings.output_dir)]
        older = older[: older.index(latest)] if latest in older else []
        damaged = []
        for prefix in [latest, *reversed(older)] if latest else []:
            try:
                loading.restore(prefix, self._state)
            except readers.DamagedError as error:
                damaged.append(prefix)
                print(f"{error}. It is left out.")
            else:
                return prefix
        if damaged:
            raise UserError(
                f"all checkpoints in --output_dir={self.settings.output_dir} are damaged: "
                f"{', '.join(damaged)}. Copy one anew, or give another --output_dir"
            )
        return None

    def check_workers_agree(self):
        """Raises UserError if workers are to go on from different steps; all have to call it."""
        if not isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return
        total, squares = (
            devices.sum_over_workers(self.strategy, value) for value in (self.step, self.step**2)
        )
        if devices.num_workers(self.strategy) * squares != total**2:  # equal if all steps are
            raise UserError(
                f"the workers do not go on from the same step, this one from {self.step}: "
                f"--output_dir={self.settings.output_dir} must be a directory that all share"
            )

    def load_weights_and_step(self, prefix):
        """Reads all weights and the step of one of the run's own checkpoints, for evaluation."""
        loading.load_all(prefix, self.task.variables)
        self._step.assign(loading.step_in(prefix))

    def save(self):
        """Saves `model.ckpt-<step>`; returns its prefix.

        Raises:
            runners.NonFiniteError: a variable or a moment is not finite; nothing is saved.
        """
        names = [name for name, variable in self._state.items() if variable.dtype.is_floating]
        finite = [tf.reduce_all(tf.math.is_finite(self._state[name])) for name in names]
        bad = [name for name, ok in zip(names, tf.stack(finite).numpy(), strict=True) if not ok]
        if bad:
            raise runners.NonFiniteError(
                f"{len(bad)} of {len(names)} variables are not finite at step {self.step} "
                f"({bad[0]} is the first), so it is not saved"
            )
        return self._manager.save(checkpoint_number=self.step)

    def _stop(self):
        """Saves what an interrupted training has reached; returns a line that says so."""
        latest = run_directory.latest_in(self._directory)
        if latest and run_directory.step_of(latest) == self.step:
            return f"Stopped at step {self.step}; {latest} holds it"  # left alone: it is whole
        try:
            return f"Stopped at step {self.step}; saved {self.save()}"
        except runners.NonFiniteError as error:
            return f"Stopped; {error}. {self._last_good()}"

    def _last_good(self):
        return f"Last good checkpoint: {run_directory.latest_in(self.settings.output_dir)}"

    def train(self, dataset, batch_size, figures, on_checkpoint=None):
        """Trains up to `settings.train_steps`, saving on the way.

        Args:
            dataset: tf.data.Dataset of global batches, endless.
            batch_size: int, sequences of a global batch.
            figures: sequence of str, names of the task's terms.
            on_checkpoint: callable or None, called with the prefix of each checkpoint.

        Raises:
            runners.NonFiniteError: the loss, a gradient or a variable is not finite; step and last
                good checkpoint are named.
        """
        settings, first = self.settings, self.step
        if first >= settings.train_steps:
            print(f"Nothing left to train: step {first} of {settings.train_steps} is done.")
            return
        line = progress_line.Progress(first, settings.train_steps, batch_size, self.is_chief)
        dataset = self._distribute(dataset)
        trainer = runners.Trainer(self.task, self.optimizer, dataset, self.strategy, figures, line)
        controller = self._controller(trainer=trainer)
        try:
            for target in self._stops():
                with _without_orbit_prints():
                    controller.train(target, checkpoint_at_completion=False)
                prefix = self.save()
                if on_checkpoint:
                    on_checkpoint(prefix)
        except runners.NonFiniteError as error:
            raise runners.NonFiniteError(
                f"{error}. {self._last_good()}. Lower --learning_rate or lengthen the warm-up, and "
                "start again"
            ) from None
        except KeyboardInterrupt:
            if not isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
                progress_line.say(self._stop())
            raise
        finally:
            line.close()

    def _distribute(self, dataset):
        # By records and not by files: a single file can serve several workers.
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        return self.strategy.experimental_distribute_dataset(dataset.with_options(options))

    def _stops(self):
        every, last = self.settings.save_checkpoints_steps, self.settings.train_steps
        first = (self.step // every + 1) * every
        return itertools.chain(range(first, last, every), [last])

    def evaluate(self, dataset, figures, max_steps=-1):
        """Computes the figures of a data set with the weights as they are.

        Args:
            dataset: tf.data.Dataset of global batches.
            figures: sequence of str, names of the task's terms.
            max_steps: int, most batches to take; -1 for all.

        Returns:
            dict of name -> numpy float32: the figures, and `loss`.
        """
        key = id(dataset)
        if key not in self._evaluators:  # one trace per data set
            distributed = self._distribute(dataset)
            evaluator = runners.Evaluator(self.task, distributed, self.strategy, figures)
            self._evaluators[key] = (self._controller(evaluator=evaluator), dataset)
        controller, _ = self._evaluators[key]
        with _without_orbit_prints():
            results = controller.evaluate(max_steps)
        return {name: results[name] for name in [*figures, "loss"]}

    def _controller(self, **runner):
        train = "trainer" in runner
        directory = os.path.join(self._directory, "train" if train else "eval")
        return orbit.Controller(
            strategy=self.strategy,
            global_step=self._step,
            steps_per_loop=self.settings.steps_per_loop if train else None,
            summary_dir=directory if train else None,
            eval_summary_dir=None if train else directory,
            **runner,
        )


@contextlib.contextmanager
def _without_orbit_prints():
    # orbit prints every loop's figures as a nested dict; they are in its log and in TensorBoard.
    with contextlib.redirect_stdout(io.StringIO()):
        yield
