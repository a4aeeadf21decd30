# SPDX-License-Identifier: Apache-2.0
"""`--profile_steps`: a profile of some updates for TensorBoard."""

import tensorflow as tf


class Profiler:
    """Profiles the updates of a range, if any; those that a resumed run has passed are left out.

    Args:
        steps: (int, int), first and last update, counted from 1; None for no profile.
        directory: str, where TensorBoard looks for it: that of the training curves.
    """

    def __init__(self, steps, directory):
        self._steps, self._directory = steps, directory
        self._runs, self._mark = False, None

    def before(self, step):
        """To be called before update number `step` (int)."""
        if self._steps is None or not self._steps[0] <= step <= self._steps[1]:
            return
        if not self._runs:
            tf.profiler.experimental.start(self._directory)
            self._runs = True
        self._mark = tf.profiler.experimental.Trace("train", step_num=step, _r=1)
        self._mark.__enter__()

    def after(self, step):
        """To be called after update number `step`, when the device has finished it."""
        if not self._runs:
            return
        self._end_mark()
        if step >= self._steps[1]:
            self.close()

    def close(self):
        """Writes what is profiled so far: also for a training that ends within the range."""
        self._end_mark()
        if self._runs:
            self._runs = False
            tf.profiler.experimental.stop()

    def _end_mark(self):
        if self._mark:
            self._mark.__exit__(None, None, None)
            self._mark = None
