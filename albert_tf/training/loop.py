# SPDX-License-Identifier: Apache-2.0
"""The training loop: a run and its directory, training, evaluation, checkpoints.

It depends on no task and no flag, only on a model and its objective.
"""

import concurrent.futures
import contextlib
import functools
import itertools
import os
import time

import numpy as np
import tensorflow as tf

from albert_tf import options, progress
from albert_tf.checkpoints import loading, name_table, readers, run_directory, writers
from albert_tf.errors import UserError, one_line
from albert_tf.model import optimization
from albert_tf.training import devices, history, metrics, steps, stopping


class Run:
    """A training run and its directory.

    Args:
        strategy: tf.distribute.Strategy, under whose scope model and optimizer were made.
        model: tf_keras.Model, called as model(features, training=bool) -> outputs.
        objective: objectives.Objective, metrics and loss.
        optimizer: AdamW, LAMB or Muon, perhaps in a loss scale; None for a run that only evaluates.
        settings: options.Loop.

    Attributes:
        variables: dict of original name -> variable of the model.
        metrics: metrics.Metrics.
        saver: Saver.
        predict: steps.Predictor of the model.
    """

    def __init__(self, strategy, model, objective, optimizer, settings):
        self.strategy, self.model, self.objective = strategy, model, objective
        self.optimizer, self.settings = optimizer, settings
        self.variables = name_table.named_variables(model)
        self.is_chief = devices.is_chief(strategy)
        self.predict = steps.Predictor(strategy, model)
        self._evaluation_step = steps.evaluation_step(strategy, model, objective)
        self._distribute = functools.cache(self._distributed)
        curves = [metrics.TensorBoard(settings.output_dir)] if self.is_chief else []
        scales_loss = steps.scales_loss(optimizer)
        self.metrics = metrics.Metrics(objective.metrics, curves, scales_loss)
        self.saver = Saver(settings, writes=self.is_chief)
        if optimizer is None:
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
            return
        with strategy.scope():
            optimizer.build(list(self.variables.values()))
        self._inner = steps.inner_optimizer(optimizer)
        self._state = name_table.training_variables(self.variables, self._inner)
        self._step = self._inner.iterations
        self._seed = settings.seed or 0  # of dropout
        self._loss_scale = steps.loss_scale_variables(optimizer)
        if self.is_chief:
            run_directory.tidy(settings.output_dir)

    @property
    def step(self):
        """Updates made so far."""
        return int(self._step.numpy())

    @property
    def is_done(self):
        """Whether no step is left to make (bool)."""
        return self.step >= self.settings.train_steps

    def initialize(
        self, init_checkpoint=None, init_from_group0=False, take_heads=True, allow_random_init=True
    ):
        """Initializes the variables from output_dir, a checkpoint or random values, in this order.

        Args:
            init_checkpoint: str or None, anything that `run_directory.find` takes.
            init_from_group0: bool, fill every parameter group from the checkpoint's group 0.
            take_heads: bool, whether heads are loaded too; False initializes them randomly.
            allow_random_init: bool, whether a run may start without any given weights.

        Returns:
            str, one line that says where the weights come from.

        Raises:
            UserError: a checkpoint does not fit, or a required one is missing.
        """
        latest = self.restore_newest()
        if self.is_chief:
            self.metrics.writers.append(history.History(self.settings.output_dir, self.step))
        if latest:
            return f"Resuming at step {self.step} from {latest}: weights, moments and step."
        if init_checkpoint:
            named = self.variables
            if not take_heads:
                named = {n: v for n, v in named.items() if name_table.is_encoder(n)}
            report = loading.load(init_checkpoint, named, init_from_group0, self.model.reads_pooler)
            heads = "" if take_heads else "\n  The task's head is initialized randomly."
            return f"Starting at step 0 with given weights: {report}{heads}"
        if not allow_random_init:
            raise UserError(options.NO_WEIGHTS)
        return "Starting at step 0 from random weights: no checkpoint in output_dir, none given."

    def restore_newest(self):
        """Restores the newest complete checkpoint of output_dir; returns its prefix or None.

        Raises:
            UserError: the checkpoint is of another model, or all are damaged.
        """
        directory, damaged = self.settings.output_dir, []
        latest = run_directory.latest_in(directory)
        if not latest:
            return None
        prefixes = [prefix for _, prefix in run_directory.numbered_in(directory)]
        older = prefixes[: prefixes.index(latest)] if latest in prefixes else []
        optional = dict(self._loss_scale)
        if not self.model.reads_pooler:  # the original has no moments of it then
            is_of_pooler = name_table.is_slot_of_pooler
            optional |= {n: v for n, v in self._state.items() if is_of_pooler(n)}
        for prefix in [latest, *reversed(older)]:
            try:
                loading.restore(prefix, self._state, optional)
            except readers.DamagedError as error:
                damaged.append(prefix)
                print(f"{error}. It is skipped.")
            except loading.WeightsOnlyError as error:
                if not damaged:
                    raise
                raise UserError(f"{', '.join(damaged)} are damaged, and {error}") from error
            else:
                return prefix
        raise UserError(
            f"all checkpoints in --output_dir={directory} are damaged: {', '.join(damaged)}. "
            "Restore one from a copy, or give another --output_dir"
        )

    def load_weights_and_step(self, prefix):
        """Loads the weights and the step of a checkpoint of this run, for evaluation."""
        loading.load_all(prefix, self.variables, self.model.reads_pooler)
        self._step.assign(loading.step_in(prefix))

    def save(self):
        """Starts saving `model.ckpt-<step>` and returns its prefix. `saver.wait` waits for it.

        Raises:
            metrics.NonFiniteError: a variable or a moment is not finite; nothing is saved.
        """
        names = [name for name, variable in self._state.items() if variable.dtype.is_floating]
        finite = [tf.reduce_all(tf.math.is_finite(self._state[name])) for name in names]
        bad = [name for name, ok in zip(names, tf.stack(finite).numpy(), strict=True) if not ok]
        if bad:
            raise metrics.NonFiniteError(
                f"{len(bad)} of {len(names)} variables are not finite at step {self.step} "
                f"({bad[0]} is the first), so it is not saved"
            )
        seed = tf.Variable(self._seed, dtype=tf.int64)
        return self.saver.save(self.step, self._state | self._loss_scale | {"seed": seed})

    def _last_good(self):
        self.saver.wait()
        return f"Last good checkpoint: {run_directory.latest_in(self.settings.output_dir)}"

    def train(self, batches_of, batch_size, on_checkpoint=None):
        """Trains up to `settings.train_steps` and saves checkpoints.

        Args:
            batches_of: callable, (*, num_shares, share, splits) -> endless tf.data.Dataset that
                begins at the run's step. It yields a worker's share of each global batch as
                `splits` consecutive batches, one per replica.
            batch_size: int, sequences of a global batch.
            on_checkpoint: callable or None, called with the prefix of each checkpoint.

        Raises:
            metrics.NonFiniteError: the loss, a gradient or a variable is not finite; step and
                last good checkpoint are named.
            KeyboardInterrupt: the process was asked to end; its step is saved.
        """
        settings, step, last = self.settings, self.step, self.settings.train_steps
        train_step = steps.TrainStep(
            self.strategy, self.model, self.objective, self.optimizer, settings, self._seed
        )
        profiler = Profiler(
            options.parse_profile_steps(settings.profile_steps) if self.is_chief else None,
            os.path.join(settings.output_dir, "train"),
        )
        stops = stopping.Stops(self.strategy, self.metrics)
        line = metrics.Line(step, last, self.is_chief)
        self.metrics.start(line, batch_size)
        try:
            with stopping.naming_the_cause(self.strategy, settings.output_dir), stops.noted():
                batches = iter(self._replica_batches(batches_of))
                while step < last:
                    save = min(_next(step, settings.save_checkpoints_steps), last)
                    point = min(_next(step, settings.iterations_per_loop), save)
                    count = min(point - step, train_step.most_steps)
                    with profiler.update(step + 1, step + count):
                        rows = train_step(batches, count)
                        step += count
                        self.metrics.add(rows, step)
                    if stops.is_due():
                        self.metrics.show()
                        self.saver.check()
                    if step == point:
                        rate = optimization.rate_at(self._inner, step - 1)
                        self.metrics.point(step, learning_rate=rate)
                    if stops.is_over:
                        progress.say(self._stop())
                        raise KeyboardInterrupt
                    if step == save:
                        prefix = self.save()
                        if on_checkpoint:
                            with stops.interruptible():
                                on_checkpoint(prefix)
                        self.metrics.start_clock()
        except metrics.NonFiniteError as error:
            raise metrics.NonFiniteError(
                f"{error}. {self._last_good()}. Lower --learning_rate, and start again"
            ) from None
        finally:
            profiler.close()
            line.close()
            self.saver.wait()
        count, seconds = self.saver.count, self.saver.paused
        if self.is_chief and count:
            print(f"Training waited {seconds / count:.2f} s for each of {count} checkpoints.")

    def _replica_batches(self, batches_of):
        """Distributed data set with one batch per replica."""

        def of_pipeline(context):  # of a worker, which may have several replicas
            pipelines = context.num_input_pipelines
            return batches_of(
                num_shares=pipelines,
                share=context.input_pipeline_id,
                splits=context.num_replicas_in_sync // pipelines,
            )

        return self.strategy.distribute_datasets_from_function(of_pipeline)

    def _stop(self):
        """Saves the state of an interrupted training; returns a line that says so."""
        try:
            prefix = self.save()
            self.saver.wait()
        except metrics.NonFiniteError as error:
            return f"Stopped; {error}. {self._last_good()}"
        return f"Stopped at step {self.step}; saved {prefix}"

    def evaluate(self, dataset, max_steps=None):
        """Computes the metrics of a data set with the current weights.

        Args:
            dataset: tf.data.Dataset of global batches.
            max_steps: int, maximum number of batches; None for all.

        Returns:
            dict of name -> numpy float32: the metrics, and `loss`, the mean over batches of the
            batch's loss, as the original reports it.
        """
        names = self.objective.metrics
        batches = itertools.islice(self._distribute(dataset), max_steps)
        rows = np.reshape([self._evaluation_step(x) for x in batches], [-1, 2 * len(names) + 1])
        if not len(rows):
            raise UserError(
                f"--eval_batch_size={self.settings.eval_batch_size} exceeds the evaluation data, "
                "and a TPU needs a full batch: give a smaller one"
            )
        loss = rows[:, -1].mean(dtype=np.float64)
        return steps.means(rows, names) | {"loss": np.float32(loss)}

    def _distributed(self, dataset):
        """Shards a data set among workers by records, not files: there may be only one file."""
        sharing = tf.data.Options()
        sharing.experimental_distribute.auto_shard_policy = (
            tf.data.experimental.AutoShardPolicy.DATA
        )
        return self.strategy.experimental_distribute_dataset(dataset.with_options(sharing))


# Checkpoints with the full state: if the newest is damaged, training resumes from the previous one.
_RESUMABLE = 2


class Saver:
    """Writes checkpoints `model.ckpt-<step>` in a background thread.

    Training waits only until the variables are copied to host memory. The two newest checkpoints
    hold the full state, older ones only the weights and the step.

    Args:
        settings: options.Loop.
        writes: bool, whether this process writes; only one of several workers does.

    Attributes:
        count: int, checkpoints so far.
        paused: float, total seconds that training has waited for them.
    """

    def __init__(self, settings, writes=True):
        self._directory, self._keep = settings.output_dir, settings.keep_checkpoint_max
        self._writes = writes
        # Its thread is waited for when the process ends.
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        self._pending = None
        self._slim = set()  # checkpoints that are known to hold no moments
        self.count, self.paused = 0, 0.0

    def save(self, step, state):
        """Starts writing a checkpoint, after waiting for the previous one.

        Args:
            step: int.
            state: dict of name -> variable.

        Returns:
            str, its prefix. The files are there after `wait`.
        """
        start = time.monotonic()
        self.wait()
        prefix = os.path.join(self._directory, f"model.ckpt-{step}")
        if self._writes:
            values = {name: variable.numpy() for name, variable in state.items()}
            self._pending = self._executor.submit(self._write, step, prefix, values)
        self.count += 1
        self.paused += time.monotonic() - start
        return prefix

    def check(self):
        """Raises UserError if the last checkpoint could not be written; does not wait."""
        if self._pending and self._pending.done():
            self.wait()

    def wait(self):
        """Waits until the last checkpoint is written.

        Raises:
            UserError: the checkpoint could not be written.
        """
        pending, self._pending = self._pending, None
        if pending:
            pending.result()

    def _write(self, step, prefix, values):
        try:
            with tf.device("CPU:0"):
                writers.write(prefix, values, "tf1")
            numbered = run_directory.numbered_in(self._directory)
            older = [name for number, name in numbered if number <= step]
            keep = self._keep or len(older)
            dropped = [name for name in older[:-keep] if name != prefix]
            listed = [name for _, name in numbered if name not in dropped]
            run_directory.write_list(self._directory, listed, latest=prefix)
            for name in dropped:
                run_directory.delete(name)
            for name in older[-keep:-_RESUMABLE]:
                if name not in self._slim:
                    self._slim.add(name)
                    with contextlib.suppress(readers.DamagedError):  # leaves the file as it was
                        writers.drop_moments(name)
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"cannot write the checkpoints of {self._directory} at step {step}: "
                f"{one_line(error)}. Make room and start again. "
                f"Last good checkpoint: {run_directory.latest_in(self._directory)}"
            ) from error


class Profiler:
    """`--profile_steps`: profiles a range of steps, from where a resumed run begins.

    Args:
        steps: (int, int), first and last step, counted from 1; None for no profile.
        directory: str, directory of the training curves, where TensorBoard finds the profile.
    """

    def __init__(self, steps, directory):
        self._steps, self._directory, self._runs = steps or (0, 0), directory, False

    @contextlib.contextmanager
    def update(self, first, last):
        """Context for one call of the training step.

        Args:
            first: int, the first step of the call, counted from 1.
            last: int, its last.
        """
        if not self._steps[0] <= first <= self._steps[1]:
            yield
            return
        if not self._runs:
            tf.profiler.experimental.start(self._directory)
            self._runs = True
        with tf.profiler.experimental.Trace("train", step_num=first, _r=1):
            yield
        if last >= self._steps[1]:
            self.close()

    def close(self):
        """Writes the profile so far, also if training ends within the range."""
        if self._runs:
            self._runs = False
            tf.profiler.experimental.stop()


def _next(step, every):
    """The first multiple of `every` above a step."""
    return (step // every + 1) * every
