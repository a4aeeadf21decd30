# SPDX-License-Identifier: Apache-2.0
"""The one loop: distribution, precision, training, evaluation, prediction, checkpoints.

It knows no task and no flag. A `Task` brings the model, its figures and its loss; a `Run` drives
it over an orbit Controller.
"""

import contextlib
import dataclasses
import io
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

import numpy as np
import orbit
import tensorflow as tf
import tf_keras
from official.common import distribute_utils
from tqdm import tqdm

from albert_tf.checkpoints import loading, name_table, run_directory, writers
from albert_tf.errors import UserError, parse_json
from albert_tf.model import optimization

STRATEGIES = ("off", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
PRECISIONS = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}

_CHECK_SECONDS = 5.0  # how often figures are fetched from the device within a loop


class NonFiniteError(UserError):
    """The loss, a gradient or a variable is no longer a number."""


def say(text):
    """Prints a line above the progress line."""
    tqdm.write(text)
    sys.stdout.flush()


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


# --- Distribution and precision -----------------------------------------------------------------


def create_strategy(name, num_gpus=None, tpu_name=None, tpu_zone=None, gcp_project=None):
    """Builds the tf.distribute strategy.

    Args:
        name: str, one of STRATEGIES.
        num_gpus: int, or None for all that there are.
        tpu_name: str, Cloud TPU name or grpc address; None or "" for a TPU of this machine.
        tpu_zone: str or None, zone of the Cloud TPU.
        gcp_project: str or None, project of the Cloud TPU.

    Raises:
        UserError: the devices asked for are not there, or TF_CONFIG describes no cluster.
    """
    if name not in STRATEGIES:
        raise UserError(
            f"--distribution_strategy must be one of {', '.join(STRATEGIES)}. Received: {name!r}"
        )
    if name == "tpu":
        return _create_tpu_strategy(tpu_name, tpu_zone, gcp_project)
    available = len(tf.config.list_physical_devices("GPU"))
    if num_gpus is not None and not 0 <= num_gpus <= available:
        raise UserError(f"--num_gpus={num_gpus}, but TensorFlow sees {available} GPUs")
    wanted = available if num_gpus is None else num_gpus
    if name in ("off", "one_device"):
        wanted = min(wanted, 1) if num_gpus is None else wanted
        if wanted > 1:
            raise UserError(
                f"--num_gpus={num_gpus} needs --distribution_strategy=mirrored. Received: {name}"
            )
    if name == "multi_worker_mirrored":
        return _create_multi_worker_strategy(wanted)
    return distribute_utils.get_distribution_strategy(name, num_gpus=wanted)


def _create_multi_worker_strategy(num_gpus):
    check_cluster(os.environ.get("TF_CONFIG", ""))
    try:
        return distribute_utils.get_distribution_strategy(
            "multi_worker_mirrored", num_gpus=num_gpus
        )
    except tf.errors.UnknownError as error:  # no server at this worker's own address
        raise UserError(
            f"TF_CONFIG={os.environ['TF_CONFIG']}: this worker cannot listen at its own address "
            f"({error.message}). Check that it is of this machine and its port is free"
        ) from error


def check_cluster(text):
    """Finds out before anything connects whether TF_CONFIG describes this worker and its cluster.

    Args:
        text: str, value of TF_CONFIG; empty if it is not set.

    Raises:
        UserError: it does not; the message says what is wrong.
    """
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )

    def refuse(reason):
        raise UserError(f"TF_CONFIG {reason}. Received: {text!r}. It must be like {example}")

    if not text:
        refuse("is not set, and --distribution_strategy=multi_worker_mirrored needs it")
    config = parse_json(text, f"TF_CONFIG={text!r} must be like {example}, and it")
    config = config if isinstance(config, dict) else {}
    cluster, task = config.get("cluster"), config.get("task")
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        refuse("must have the objects cluster and task")
    jobs = {name: cluster[name] for name in ("chief", "worker") if name in cluster}
    for name, addresses in jobs.items():
        if not isinstance(addresses, list) or not addresses:
            refuse(f"must have a list of addresses as {name} of cluster")
        for address in addresses:
            if not isinstance(address, str) or not _is_address(address):
                refuse(f"has an address that is not host:port, {address!r}")
    every = [address for addresses in jobs.values() for address in addresses]
    if not every:
        refuse("has no worker in cluster")
    if len(set(every)) < len(every):
        refuse("has the same address twice")
    kind, index = task.get("type"), task.get("index")
    if kind not in list(jobs):  # it may be of any type
        refuse(f"has the task type {kind!r}, which is not one of {', '.join(jobs)}")
    if not str(index).isdecimal() or int(index) >= len(jobs[kind]):
        refuse(f"has the task index {index!r}, and cluster has {len(jobs[kind])} of type {kind}")


def _is_address(text):
    match = re.fullmatch(r"\S+:(\d{1,5})", text, re.ASCII)
    return match is not None and 0 < int(match[1]) < 2**16


def _create_tpu_strategy(tpu_name, tpu_zone, gcp_project):
    # The Model Garden's builder takes no zone and no project.
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=tpu_name or "", zone=tpu_zone, project=gcp_project
        )
        if tpu_name not in (None, "", "local"):
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"no TPU found (--tpu_name={tpu_name}, --tpu_zone={tpu_zone}, "
            f"--gcp_project={gcp_project}): {error}"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def is_tpu(strategy):
    """Whether a strategy runs on TPUs."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def is_chief(strategy):
    """Whether this process writes the results: the first worker, or the only one."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or resolver is None:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return resolver.task_type in (None, first) and resolver.task_id in (None, 0)


def set_precision(dtype):
    """Sets the computation type of the layers made from now on.

    Args:
        dtype: str, a key of PRECISIONS.
    """
    tf_keras.mixed_precision.set_global_policy(PRECISIONS[dtype])


def set_seed(seed):
    """Fixes weights, dropout and shuffling to come; None leaves them to chance.

    Raises:
        UserError: NumPy has no such seed.
    """
    if seed is not None and not 0 <= seed < 2**32:
        raise UserError(f"--seed must be from 0 to {2**32 - 1}. Received: {seed}")
    if seed is not None:
        tf_keras.utils.set_random_seed(seed)


def create_optimizer(name, learning_rate):
    """`optimization.create_optimizer`, with loss scaling where the precision needs it."""
    optimizer = optimization.create_optimizer(name, learning_rate)
    if tf_keras.mixed_precision.global_policy().name == "mixed_float16":
        return tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
    return optimizer


def _inner_optimizer(optimizer):
    """The optimizer that holds moments and step, under a loss scale or not."""
    scaled = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)
    return optimizer.inner_optimizer if scaled else optimizer


def check_batch_size(strategy, batch_size, flag):
    """Raises UserError unless a global batch divides among the replicas."""
    replicas = strategy.num_replicas_in_sync
    if batch_size < 1 or batch_size % replicas:
        raise UserError(
            f"--{flag}={batch_size} must be a multiple of the number of replicas ({replicas})"
        )


# --- One step -----------------------------------------------------------------------------------


def _global_sum(value):
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


class _Figures:
    """Weighted means of a task's figures, gathered on the devices.

    `loss` is the mean over batches of the batch's loss, as the original reports it.
    """

    def __init__(self):
        self._means = {}

    def make(self, names):
        """Makes the means; to be called under the strategy's scope."""
        self._means = {name: tf_keras.metrics.Mean(name) for name in names}

    def update(self, terms, **scalars):
        for name, (values, weights) in terms.items():
            self._means[name].update_state(values, sample_weight=weights)
        for name, value in scalars.items():
            self._means[name].update_state(value)

    def reset(self):
        for mean in self._means.values():
            mean.reset_state()

    def result(self):
        return {name: mean.result().numpy() for name, mean in self._means.items()}


class _Trainer(orbit.StandardTrainer):
    """One update: loss, gradient summed over replicas, clipped to norm 1, applied."""

    def __init__(self, task, optimizer, dataset, strategy, names, progress):
        # On a TPU the steps of a loop run on the device. Elsewhere the host counts them, which
        # costs nothing and lets it show progress and stop at once when the loss is not finite.
        on_device = is_tpu(strategy)
        options = orbit.StandardTrainerOptions(use_tf_while_loop=on_device)
        super().__init__(dataset, options)
        self._task, self._optimizer, self._strategy = task, optimizer, strategy
        self._step = _inner_optimizer(optimizer).iterations
        self._progress, self._host_loop = progress, not on_device
        self._figures = _Figures()
        with strategy.scope():
            self._figures.make([*names, "loss", "gradient_norm"])
            self._first_bad_step = tf.Variable(
                -1,
                dtype=tf.int64,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    def create_train_loop_fn(self):
        if not self._host_loop:
            return super().create_train_loop_fn()
        step = tf.function(self.train_step)

        def loop(iterator, num_steps):
            for _ in range(int(num_steps)):
                step(iterator)
                self._progress.advance(1)
                if self._progress.is_due():
                    self._report()

        return loop

    def train_loop_begin(self):
        self._figures.reset()
        self._loop_start, self._loop_first = time.time(), int(self._step.numpy())

    def train_step(self, iterator):
        self._strategy.run(self._replica_step, args=(next(iterator),))

    def _replica_step(self, features):
        task, variables = self._task, list(self._task.variables.values())
        with tf.GradientTape() as tape:
            terms = task.terms(features, task.model(features, training=True))
            loss = task.loss(terms, _global_sum)
            scaled_loss = self._scaled(loss)
        gradients = tape.gradient(scaled_loss, variables)
        # A variable that the loss does not reach (the pooler in SQuAD) is left alone.
        pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        dense = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
        dense = self._unscaled(_global_sum(dense))
        clipped, norm = optimization.clip_by_global_norm(dense)
        self._note_finite(_global_sum(loss), norm)
        self._optimizer.apply_gradients(
            zip(clipped, [variable for _, variable in pairs], strict=True),
            skip_gradients_aggregation=True,
        )
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        self._figures.update(terms, loss=loss * replicas, gradient_norm=norm)

    @property
    def _scales_loss(self):
        return isinstance(self._optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

    def _scaled(self, loss):
        return self._optimizer.get_scaled_loss(loss) if self._scales_loss else loss

    def _unscaled(self, gradients):
        return self._optimizer.get_unscaled_gradients(gradients) if self._scales_loss else gradients

    def _note_finite(self, loss, norm):
        finite = tf.math.is_finite(loss)
        if not self._scales_loss:  # loss scaling meets infinite gradients by design, and skips them
            finite = tf.logical_and(finite, tf.math.is_finite(norm))
        first = tf.logical_and(self._first_bad_step < 0, tf.logical_not(finite))
        step = tf.cast(self._step, tf.int64) + 1
        self._first_bad_step.assign(tf.where(first, step, self._first_bad_step))

    def _report(self):
        if self._first_bad_step.numpy() >= 0:
            step = int(self._first_bad_step.numpy())
            raise NonFiniteError(f"the loss or a gradient is not finite at step {step}")
        self._progress.show(self._figures.result())

    def train_loop_end(self):
        last_step = int(self._step.numpy())
        steps, seconds = last_step - self._loop_first, time.time() - self._loop_start
        if not self._host_loop:
            self._progress.advance(steps)
        self._report()
        rate = optimization.rate_at(_inner_optimizer(self._optimizer), last_step - 1)
        return {
            **self._figures.result(),
            "learning_rate": rate,
            "sequences_per_second": steps * self._progress.batch_size / seconds,
        }


class _Evaluator(orbit.StandardEvaluator):
    """Figures of a data set, each a weighted mean over its examples."""

    def __init__(self, task, dataset, strategy, names):
        super().__init__(dataset)
        self._task, self._strategy = task, strategy
        self._figures = _Figures()
        with strategy.scope():
            self._figures.make([*names, "loss"])

    def eval_begin(self):
        self._figures.reset()

    def eval_step(self, iterator):
        self._strategy.run(self._replica_step, args=(next(iterator),))

    def _replica_step(self, features):
        terms = self._task.terms(features, self._task.model(features, training=False))
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        self._figures.update(terms, loss=self._task.loss(terms, _global_sum) * replicas)

    def eval_end(self):
        return self._figures.result()


# --- Progress -----------------------------------------------------------------------------------


class _Progress:
    """One line: steps done, figures, speed, time left; redrawn in a terminal, repeated in a log."""

    def __init__(self, first_step, last_step, batch_size, visible):
        interactive = sys.stderr.isatty()
        self.batch_size = batch_size
        self._bar = tqdm(
            desc="training",
            total=last_step,
            initial=first_step,
            unit="step",
            disable=not visible,
            mininterval=0.5 if interactive else 30.0,
            dynamic_ncols=interactive,
        )
        self._last, self._unshown, self._speed = time.time(), 0, 0.0

    def advance(self, steps):
        self._bar.update(steps)
        self._unshown += steps

    def is_due(self):
        return time.time() - self._last >= _CHECK_SECONDS

    def show(self, figures):
        if self._unshown:  # else shown a moment ago
            now = time.time()
            self._speed = self._unshown * self.batch_size / max(now - self._last, 1e-6)
            self._last, self._unshown = now, 0
        shown = {k: f"{v:.3f}" for k, v in figures.items() if "loss" in k or "accuracy" in k}
        self._bar.set_postfix(shown | {"sequences/s": f"{self._speed:.1f}"}, refresh=False)

    def close(self):
        self._bar.close()


# --- The run ------------------------------------------------------------------------------------


class Run:
    """A training run and its directory.

    Args:
        strategy: tf.distribute.Strategy, under whose scope task and optimizer were made.
        task: Task.
        optimizer: of `create_optimizer`; None for a run that only evaluates.
        settings: Settings.
    """

    def __init__(self, strategy, task, optimizer, settings):
        self.strategy, self.task, self.optimizer, self.settings = (
            strategy,
            task,
            optimizer,
            settings,
        )
        self.is_chief = is_chief(strategy)
        # Every worker has to take part in saving, but only one may write to the directory.
        self._directory = settings.output_dir if self.is_chief else tempfile.mkdtemp()
        self._evaluators, self._forward_functions = {}, {}
        if optimizer is None:
            self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
            return
        with strategy.scope():
            optimizer.build(list(task.variables.values()))
        inner = _inner_optimizer(optimizer)
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

    def start(
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
        latest = run_directory.latest_in(self.settings.output_dir)
        if latest:
            loading.restore(latest, self._state)
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

    def load(self, prefix):
        """Reads the weights of one of the run's own checkpoints, all of them, for evaluation."""
        loading.load_all(prefix, self.task.variables)
        self._step.assign(loading.step_in(prefix))

    def save(self):
        """Saves `model.ckpt-<step>`; returns its prefix.

        Raises:
            NonFiniteError: a variable or a moment is not finite; nothing is saved.
        """
        names = [name for name, variable in self._state.items() if variable.dtype.is_floating]
        finite = [tf.reduce_all(tf.math.is_finite(self._state[name])) for name in names]
        bad = [name for name, ok in zip(names, tf.stack(finite).numpy(), strict=True) if not ok]
        if bad:
            raise NonFiniteError(
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
        except NonFiniteError as error:
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
            NonFiniteError: the loss, a gradient or a variable is not finite; step and last good
                checkpoint are named.
        """
        settings, first = self.settings, self.step
        if first >= settings.train_steps:
            print(f"Nothing left to train: step {first} of {settings.train_steps} is done.")
            return
        progress = _Progress(first, settings.train_steps, batch_size, self.is_chief)
        dataset = self._distribute(dataset)
        trainer = _Trainer(self.task, self.optimizer, dataset, self.strategy, figures, progress)
        controller = self._controller(trainer=trainer)
        try:
            for target in self._stops():
                with _without_orbit_prints():
                    controller.train(target, checkpoint_at_completion=False)
                prefix = self.save()
                if on_checkpoint:
                    on_checkpoint(prefix)
        except NonFiniteError as error:
            raise NonFiniteError(
                f"{error}. {self._last_good()}. Lower --learning_rate or lengthen the warm-up, and "
                "start again"
            ) from None
        except KeyboardInterrupt:
            if not isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
                say(self._stop())
            raise
        finally:
            progress.close()

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
            evaluator = _Evaluator(self.task, distributed, self.strategy, figures)
            self._evaluators[key] = (self._controller(evaluator=evaluator), dataset)
        controller, _ = self._evaluators[key]
        with _without_orbit_prints():
            results = controller.evaluate(max_steps)
        return {name: results[name] for name in [*figures, "loss"]}

    def predict(self, batches, num_rows):
        """Runs the model over batches and puts the outputs in the order of the rows.

        Args:
            batches: iterable of (rows, features) (`records.prediction_batches`): where each row of
                the batch belongs, int array [B], negative for padding, and a dict of arrays.
            num_rows: int, n.

        Returns:
            dict of name -> numpy array [n, ...].
        """
        outputs = {}
        bar = tqdm(desc="predicting", total=num_rows, unit=" rows", disable=None, mininterval=1.0)
        with bar:
            for rows, features in batches:
                forward = self._forward_function(features)
                real = rows >= 0
                for name, values in self._forward(forward, features).items():
                    if name not in outputs:
                        outputs[name] = np.zeros((num_rows, *values.shape[1:]), values.dtype)
                    outputs[name][rows[real]] = values[real]
                bar.update(int(real.sum()))
        return outputs

    def _forward_function(self, features):
        # One trace for all lengths and calls; a TPU gets batches of one length alone.
        key = tuple((name, values.dtype, values.ndim) for name, values in features.items())
        if key not in self._forward_functions:
            self._forward_functions[key] = self._trace(features)
        return self._forward_functions[key]

    @property
    def _predicts_alone(self):
        """Whether this process's first device predicts; each of several workers does so too."""
        several = isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy)
        one = self.strategy.num_replicas_in_sync == 1 and not is_tpu(self.strategy)
        return several or one

    def _trace(self, features):
        def forward(batch):
            return self.task.model(batch, training=False)

        if not self._predicts_alone:
            run = self.strategy.run
            return tf.function(lambda shares: run(forward, args=(shares,)), reduce_retracing=True)
        signature = {
            name: tf.TensorSpec([None] * values.ndim, values.dtype)
            for name, values in features.items()
        }
        return tf.function(forward, input_signature=[signature])

    def _forward(self, forward, features):
        """Outputs of one batch, as numpy arrays."""
        if self._predicts_alone:
            return {name: value.numpy() for name, value in forward(features).items()}
        replicas = self.strategy.num_replicas_in_sync
        num_rows = len(next(iter(features.values())))
        rows = np.arange(num_rows + -num_rows % replicas) % num_rows  # no replica gets none
        shares = self.strategy.experimental_distribute_values_from_function(
            lambda context: {
                name: tf.constant(values[rows[context.replica_id_in_sync_group :: replicas]])
                for name, values in features.items()
            }
        )
        return {name: self._joined(value)[:num_rows] for name, value in forward(shares).items()}

    def _joined(self, value):
        """The rows of all replicas, dealt out one by one, in order again."""
        parts = [part.numpy() for part in self.strategy.experimental_local_results(value)]
        return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])

    def _controller(self, **runners):
        train = "trainer" in runners
        directory = os.path.join(self._directory, "train" if train else "eval")
        return orbit.Controller(
            strategy=self.strategy,
            global_step=self._step,
            steps_per_loop=self.settings.steps_per_loop if train else None,
            summary_dir=directory if train else None,
            eval_summary_dir=None if train else directory,
            **runners,
        )


@contextlib.contextmanager
def _without_orbit_prints():
    # orbit prints every loop's figures as a nested dict; they are in its log and in TensorBoard.
    with contextlib.redirect_stdout(io.StringIO()):
        yield
