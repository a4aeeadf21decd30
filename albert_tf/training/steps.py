# SPDX-License-Identifier: Apache-2.0
"""One step of training and of evaluation, and predictions, on all replicas.

A step of training or evaluation returns one row of metrics, summed over the replicas and the same
on all of them: for each metric of the objective, the sum of its values and the sum of its weights;
then
    in training: loss, gradient norm, loss scale;
    in evaluation: loss.
"""

import functools

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf import progress
from albert_tf.checkpoints import name_table
from albert_tf.errors import UserError
from albert_tf.model import dropout, fused, objectives, optimization
from albert_tf.training import devices

# No branch depends on a tensor, and AutoGraph would take seconds to rewrite the code of the model.
_traced = functools.partial(tf.function, autograph=False)


def inner_optimizer(optimizer):
    """The optimizer that holds moments and step, without its loss scale."""
    return optimizer.inner_optimizer if scales_loss(optimizer) else optimizer


def scales_loss(optimizer):
    """Whether an optimizer scales the loss and skips steps whose gradients overflow."""
    return isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)


def loss_scale_variables(optimizer):
    """State of an optimizer's loss scaling: dict of name -> variable; empty without it."""
    if not scales_loss(optimizer):
        return {}
    return {
        "loss_scale": optimizer._loss_scale.current_loss_scale,
        "loss_scale_steps": optimizer.dynamic_counter,
    }


def means(rows, names):
    """The weighted mean of each metric over steps.

    Args:
        rows: float array [steps, 2 * metrics + ...], rows of steps.
        names: sequence of str, the metrics.

    Returns:
        dict of name -> numpy float32; 0 for a metric without any weight.
    """
    totals = np.sum(rows, axis=0, dtype=np.float64)
    return {
        name: np.float32(totals[2 * i] / totals[2 * i + 1] if totals[2 * i + 1] else 0.0)
        for i, name in enumerate(names)
    }


def _all_reduce(values):
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


def _totals(objective, features):
    """Sums of the weights over the batches of all replicas."""
    return _all_reduce(objectives.totals_of(objective.weights(features)))


def _sums(terms, names):
    """Values and weights of each metric, summed: float32 [2 * metrics]."""
    pairs = [terms[name] for name in names]
    return tf.stack([tf.reduce_sum(x) for v, w in pairs for x in (v * w, w)])


class TrainStep:
    """One step: computes the loss, sums gradients over replicas, clips and applies them.

    Args:
        strategy: tf.distribute.Strategy, under whose scope model and optimizer were made.
        model: tf_keras.Model, called as model(features, training=True) -> outputs.
        objective: objectives.Objective, metrics and loss.
        optimizer: AdamW, LAMB or Muon, perhaps in a loss scale; it is built.
        settings: options.Loop. With `enable_xla`, XLA compiles the replica's step; with several
            replicas, all of it up to the sum of the gradients.
        seed: int, of dropout; masks depend on the seed, the step and the replica.
    """

    def __init__(self, strategy, model, objective, optimizer, settings, seed):
        self._strategy, self._model, self._objective = strategy, model, objective
        self._optimizer = optimizer
        self._variables = list(name_table.named_variables(model).values())
        self._scales_loss = scales_loss(optimizer)
        self._seed, self._clip_norm = seed, settings.gradient_clip_norm
        self._accumulation, compiled = settings.gradient_accumulation_steps, settings.enable_xla
        on_tpu = devices.is_tpu(strategy)
        self._fuses = not compiled and devices.is_cpu(strategy)
        if compiled and not on_tpu:  # a TPU always compiles
            part = "_replica_step" if strategy.num_replicas_in_sync == 1 else "_gradients"
            setattr(self, part, _traced(getattr(self, part), jit_compile=True))
        # A TPU runs many steps per call by itself. Elsewhere the host counts the steps, which costs
        # nothing and lets it show progress and stop at once.
        self.most_steps = 1000 if on_tpu else 1
        step = tf.function(self._steps_on_device) if on_tpu else _traced(self._step)
        self._run = devices.quiet_at_first(step)

    def __call__(self, iterator, steps):
        """Makes steps.

        Args:
            iterator: of a distributed data set of each replica's batches.
            steps: int, how many; `most_steps` at most.

        Returns:
            float32 tensor [steps, 2 * metrics + 3].
        """
        if self.most_steps == 1:
            return self._run(iterator)[tf.newaxis]
        return self._run(iterator, tf.constant(steps))

    def _steps_on_device(self, iterator, steps):
        rows = tf.TensorArray(tf.float32, size=steps)
        for index in tf.range(steps):
            rows = rows.write(index, self._step(iterator))
        return rows.stack()

    def _step(self, iterator):
        row = self._strategy.run(self._replica_step, args=(next(iterator),))
        return self._strategy.experimental_local_results(row)[0]

    def _replica_step(self, features):
        with fused.compiled(self._fuses):
            return self._update(features)

    def _update(self, features):
        context = tf.distribute.get_replica_context()
        totals = _totals(self._objective, features)
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        gradients, sums = self._gradients(features, totals, replica)
        # A variable that the loss does not reach (the pooler in SQuAD) is not updated.
        reached = [i for i, gradient in enumerate(gradients) if gradient is not None]
        *dense, sums = _all_reduce([*(gradients[i] for i in reached), sums])
        if self._scales_loss:
            dense = self._optimizer.get_unscaled_gradients(dense)
        clipped, norm = optimization.clip_by_global_norm(dense, self._clip_norm)
        scale = self._optimizer.loss_scale if self._scales_loss else tf.constant(1.0)
        row = tf.concat([sums, tf.stack([norm, scale])], axis=0)
        next_step = self._optimizer.iterations + 1
        self._optimizer.apply_gradients(
            zip(clipped, [self._variables[i] for i in reached], strict=True),
            skip_gradients_aggregation=True,
        )
        if self._scales_loss:  # a step that overflows counts too, since its batch is used up
            self._optimizer.iterations.assign(next_step)
        return row

    def _gradients(self, features, totals, replica):
        """Gradients of this replica's share of the loss, dense; [metrics' sums, share of loss]."""
        step = tf.cast(self._optimizer.iterations, tf.int32)
        key = tf.constant([self._seed & 0x7FFFFFFF, self._seed >> 31], tf.int32)
        for number in (step, replica):
            key = dropout.fold_in(key, number)
        if self._accumulation == 1:
            return self._gradients_of_part(features, totals, key)
        parts = {  # [b, ...] -> [k, b / k, ...]
            name: tf.stack(tf.split(values, self._accumulation))
            for name, values in features.items()
        }
        reached = set()

        def add(part, gradients, sums):
            of_part = {name: values[part] for name, values in parts.items()}
            part_key = dropout.fold_in(key, part)
            more, more_sums = self._gradients_of_part(of_part, totals, part_key)
            reached.update(i for i, gradient in enumerate(more) if gradient is not None)
            gradients = [
                old if new is None else old + new for old, new in zip(gradients, more, strict=True)
            ]
            return part + 1, gradients, sums + more_sums

        size = 2 * len(self._objective.metrics) + 1
        start = (tf.constant(0), [tf.zeros(v.shape) for v in self._variables], tf.zeros([size]))
        _, gradients, sums = tf.while_loop(
            lambda part, *_: part < self._accumulation,
            add,
            start,
            maximum_iterations=self._accumulation,
        )
        return [g if i in reached else None for i, g in enumerate(gradients)], sums

    def _gradients_of_part(self, features, totals, key):
        with dropout.seeded(key), tf.GradientTape() as tape:
            terms = self._objective.terms(features, self._model(features, training=True))
            loss = self._objective.loss(terms, totals)
            scaled = self._optimizer.get_scaled_loss(loss) if self._scales_loss else loss
        gradients = tape.gradient(scaled, self._variables)
        dense = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
        sums = _sums(terms, self._objective.metrics)
        return dense, tf.concat([sums, [loss]], axis=0)


def evaluation_step(strategy, model, objective):
    """Makes the function that computes the metrics of a batch.

    Args:
        strategy: tf.distribute.Strategy, under whose scope the model was made.
        model: tf_keras.Model, called as model(features, training=False) -> outputs.
        objective: objectives.Objective, metrics and loss.

    Returns:
        tf.function: batch of a distributed data set -> row of metrics [2 * metrics + 1].
    """

    def replica_step(features):
        totals = _totals(objective, features)
        terms = objective.terms(features, model(features, training=False))
        sums = _sums(terms, objective.metrics)
        return _all_reduce(tf.concat([sums, [objective.loss(terms, totals)]], axis=0))

    @functools.partial(_traced, reduce_retracing=True)
    def step(batch):
        row = strategy.run(replica_step, args=(batch,))
        return strategy.experimental_local_results(row)[0]

    return step


class Predictor:
    """Runs a model over batches.

    Args:
        strategy: tf.distribute.Strategy of one process, under whose scope the model was made.
        model: tf_keras.Model, called as model(features, training=False) -> dict of tensors.
        shows_progress: bool, whether a terminal shows a bar; a log gets occasional lines anyway.
    """

    def __init__(self, strategy, model, shows_progress=True):
        self._strategy, self._model = strategy, model
        self.shows_progress = shows_progress
        self._is_one = strategy.num_replicas_in_sync == 1 and not devices.is_tpu(strategy)
        self._functions = {}

    def __call__(self, batches, num_rows):
        """Computes the outputs for all batches, in the order of the rows.

        Args:
            batches: iterable of (rows, features) (`input_pipeline.prediction_batches`): where each
                row of the batch belongs, int array [B], negative for padding; a dict of arrays.
            num_rows: int, n.

        Returns:
            dict of name -> numpy array [n, ...].

        Raises:
            UserError: an output is NaN.
        """
        outputs = {}
        progress_of = progress.bar if self.shows_progress else progress.LogLines
        with progress_of("predicting", num_rows, " rows") as bar:
            for rows, features in batches:
                real = rows >= 0
                for name, values in self._forward(features).items():
                    if name not in outputs:
                        outputs[name] = np.zeros((num_rows, *values.shape[1:]), values.dtype)
                    outputs[name][rows[real]] = values[real]
                bar.update(int(real.sum()))
        for name, values in outputs.items():
            if np.isnan(values).any():
                raise UserError(
                    f"the model's {name} hold NaN: give another checkpoint, or --dtype=fp32"
                )
        return outputs

    def _forward(self, features):
        """Outputs of one batch, as numpy arrays."""
        # One trace for all lengths and calls; a TPU gets batches of only one length.
        key = tuple((name, values.dtype, values.ndim) for name, values in features.items())
        if key not in self._functions:
            self._functions[key] = self._function_for(features)
        forward = self._functions[key]
        if self._is_one:
            return {name: value.numpy() for name, value in forward(features).items()}
        replicas = self._strategy.num_replicas_in_sync
        num_rows = len(next(iter(features.values())))
        rows = np.arange(num_rows + -num_rows % replicas) % num_rows  # every replica needs rows
        rows = np.split(rows, replicas)
        shares = self._strategy.experimental_distribute_values_from_function(
            lambda context: {
                name: tf.constant(values[rows[context.replica_id_in_sync_group]])
                for name, values in features.items()
            }
        )
        outputs = {}
        for name, value in forward(shares).items():
            parts = [part.numpy() for part in self._strategy.experimental_local_results(value)]
            outputs[name] = np.concatenate(parts)[:num_rows]
        return outputs

    def _function_for(self, features):
        # TensorFlow counts traces by code object and warns of many; a partial has no code object.
        forward = functools.partial(self._model, training=False)
        if not self._is_one:
            run = self._strategy.run
            return _traced(lambda shares: run(forward, args=(shares,)), reduce_retracing=True)
        signature = {
            name: tf.TensorSpec([None] * values.ndim, values.dtype)
            for name, values in features.items()
        }
        return _traced(forward, input_signature=[signature])
