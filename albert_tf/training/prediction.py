# SPDX-License-Identifier: Apache-2.0
"""Prediction: a model's outputs for rows of a data set, on all replicas."""

import functools

import numpy as np
import tensorflow as tf

from albert_tf import progress
from albert_tf.training import devices


class Predictor:
    """Runs a model over batches.

    Args:
        strategy: tf.distribute.Strategy, under whose scope the model was made.
        model: tf_keras.Model, called as model(features, training=False) -> dict of tensors.
        shows_progress: bool, whether a terminal has a bar; a log has a line now and then anyway.
    """

    def __init__(self, strategy, model, shows_progress=True):
        self._strategy, self._model = strategy, model
        self._bar = progress.bar if shows_progress else progress.LogLines
        self._forward_functions = {}

    def __call__(self, batches, num_rows):
        """The outputs for all batches, in the order of the rows.

        Args:
            batches: iterable of (rows, features) (`input_pipeline.prediction_batches`): where each
                row of the batch belongs, int array [B], negative for padding; a dict of arrays.
            num_rows: int, n.

        Returns:
            dict of name -> numpy array [n, ...].
        """
        outputs = {}
        with self._bar("predicting", num_rows, " rows") as bar:
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
        several = isinstance(self._strategy, tf.distribute.MultiWorkerMirroredStrategy)
        one = self._strategy.num_replicas_in_sync == 1 and not devices.is_tpu(self._strategy)
        return several or one

    def _trace(self, features):
        # TensorFlow counts traces by code object, and warns of many; a partial has none.
        forward = functools.partial(self._model, training=False)
        if not self._predicts_alone:
            run = self._strategy.run
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
        replicas = self._strategy.num_replicas_in_sync
        num_rows = len(next(iter(features.values())))
        rows = np.arange(num_rows + -num_rows % replicas) % num_rows  # no replica gets none
        shares = self._strategy.experimental_distribute_values_from_function(
            lambda context: {
                name: tf.constant(values[rows[context.replica_id_in_sync_group :: replicas]])
                for name, values in features.items()
            }
        )
        return {name: self._joined(value)[:num_rows] for name, value in forward(shares).items()}

    def _joined(self, value):
        """The rows of all replicas, dealt out one by one, in order again."""
        parts = [part.numpy() for part in self._strategy.experimental_local_results(value)]
        return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])
