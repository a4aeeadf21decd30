# SPDX-License-Identifier: Apache-2.0
"""One step of training and of evaluation, for orbit's controller."""

import time

import orbit
import tensorflow as tf
import tf_keras

from albert_tf.errors import UserError
from albert_tf.model import optimization
from albert_tf.training import devices


class NonFiniteError(UserError):
    """The loss, a gradient or a variable is no longer a number."""


def create_optimizer(name, learning_rate):
    """`optimization.create_optimizer`, with loss scaling where the precision needs it."""
    optimizer = optimization.create_optimizer(name, learning_rate)
    if tf_keras.mixed_precision.global_policy().name == "mixed_float16":
        return tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
    return optimizer


def inner_optimizer(optimizer):
    """The optimizer that holds moments and step, under a loss scale or not."""
    scaled = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)
    return optimizer.inner_optimizer if scaled else optimizer


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


class Trainer(orbit.StandardTrainer):
    """One update: loss, gradient summed over replicas, clipped to norm 1, applied."""

    def __init__(self, task, optimizer, dataset, strategy, names, progress):
        # On a TPU the steps of a loop run on the device. Elsewhere the host counts them, which
        # costs nothing and lets it show progress and stop at once when the loss is not finite.
        on_device = devices.is_tpu(strategy)
        options = orbit.StandardTrainerOptions(use_tf_while_loop=on_device)
        super().__init__(dataset, options)
        self._task, self._optimizer, self._strategy = task, optimizer, strategy
        self._step = inner_optimizer(optimizer).iterations
        self._scales_loss = self._optimizer is not inner_optimizer(optimizer)
        self._progress, self._host_loop = progress, not on_device
        self._several_workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self._steps_to_report = 1  # of several workers
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
                if self._is_due():
                    self._report()

        return loop

    def _is_due(self):
        """Whether to read the figures, which all workers have to do at the same step."""
        if not self._several_workers:
            return self._progress.is_due()
        self._steps_to_report -= 1
        if self._steps_to_report:
            return False
        # Each proposes a number of steps by its own clock. The sum of integers is the same for all.
        total = devices.sum_over_workers(self._strategy, self._progress.steps_in_check())
        self._steps_to_report = max(total // devices.num_workers(self._strategy), 1)
        return True

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
            scaled_loss = self._optimizer.get_scaled_loss(loss) if self._scales_loss else loss
        gradients = tape.gradient(scaled_loss, variables)
        # A variable that the loss does not reach (the pooler in SQuAD) is left alone.
        pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        dense = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
        dense = _global_sum(dense)
        if self._scales_loss:
            dense = self._optimizer.get_unscaled_gradients(dense)
        clipped, norm = optimization.clip_by_global_norm(dense)
        self._note_finite(_global_sum(loss), norm)
        self._optimizer.apply_gradients(
            zip(clipped, [variable for _, variable in pairs], strict=True),
            skip_gradients_aggregation=True,
        )
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        self._figures.update(terms, loss=loss * replicas, gradient_norm=norm)

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
        rate = optimization.rate_at(inner_optimizer(self._optimizer), last_step - 1)
        return {
            **self._figures.result(),
            "learning_rate": rate,
            "sequences_per_second": steps * self._progress.batch_size / seconds,
        }


class Evaluator(orbit.StandardEvaluator):
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
