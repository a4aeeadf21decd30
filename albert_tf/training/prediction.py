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
        strategy: tf.distribute.Strategy of one process, under whose scope the model was made.
        model: tf_keras.Model, called as model(features, training=False) -> dict of tensors.
        shows_progress: bool, whether a terminal shows a bar; a log gets occasional lines anyway.
    """

    def __init__(self, strategy, model, shows_progress=True):
        self._strategy, self._model = strategy, model
        self._bar = progress.bar if shows_progress else progress.LogLines
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
        """
        outputs = {}
        with self._bar("predicting", num_rows, " rows") as bar:
            for rows, features in batches:
                real = rows >= 0
                for name, values in self._forward(features).items():
                    if name not in outputs:
                        outputs[name] = np.zeros((num_rows, *values.shape[1:]), values.dtype)
                    outputs[name][rows[real]] = values[real]
                bar.update(int(real.sum()))
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
        shares = self._strategy.experimental_distribute_values_from_function(
            lambda context: {
                name: tf.constant(values[rows[context.replica_id_in_sync_group :: replicas]])
                for name, values in features.items()
            }
        )
        outputs = {}
        for name, value in forward(shares).items():  # the rows were dealt out one by one
            parts = [part.numpy() for part in self._strategy.experimental_local_results(value)]
            joined = np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])
            outputs[name] = joined[:num_rows]
        return outputs

    def _function_for(self, features):
        # TensorFlow counts traces by code object and warns of many; a partial has no code object.
        forward = functools.partial(self._model, training=False)
        if not self._is_one:
            run = self._strategy.run
            return tf.function(lambda shares: run(forward, args=(shares,)), reduce_retracing=True)
        signature = {
            name: tf.TensorSpec([None] * values.ndim, values.dtype)
            for name, values in features.items()
        }
        return tf.function(forward, input_signature=[signature])
