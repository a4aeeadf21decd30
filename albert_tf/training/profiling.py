# SPDX-License-Identifier: Apache-2.0
"""`--profile_steps`: a profile of some updates for TensorBoard."""

import contextlib

import tensorflow as tf


class Profiler:
    """Profiles a range of updates, without those that a resumed run has passed.

    Args:
        steps: (int, int), first and last update, counted from 1; None for no profile.
        directory: str, directory of the training curves, where TensorBoard finds the profile.
    """

    def __init__(self, steps, directory):
        self._steps, self._directory, self._runs = steps or (0, 0), directory, False

    @contextlib.contextmanager
    def update(self, first, last):
        """Context for one call of the training step.

        Args:
            first: int, the first update of the call, counted from 1.
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
