# SPDX-License-Identifier: Apache-2.0
"""Writing the checkpoints of a run while training continues."""

import concurrent.futures
import contextlib
import os
import time

import tensorflow as tf

from albert_tf.checkpoints import readers, run_directory, writers
from albert_tf.errors import UserError, one_line

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
        start = time.time()
        self.wait()
        prefix = os.path.join(self._directory, f"model.ckpt-{step}")
        if self._writes:
            values = {name: variable.numpy() for name, variable in state.items()}
            self._pending = self._executor.submit(self._write, step, prefix, values)
        self.count += 1
        self.paused += time.time() - start
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
                writers.write(prefix, values, "tf2")
            run_directory.write_list(self._directory, prefix)
            numbered = run_directory.numbered_in(self._directory)
            older = [name for number, name in numbered if number <= step]
            keep = self._keep or len(older)
            for name in older[:-keep]:
                run_directory.delete(name)
            for name in older[-keep:-_RESUMABLE]:
                if name not in self._slim:
                    self._slim.add(name)
                    with contextlib.suppress(readers.DamagedError):  # leaves the file as it was
                        writers.drop_moments(name)
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"cannot write the checkpoint {prefix}: {one_line(error)}. Make room or choose "
                "another --output_dir, and start again. Last good checkpoint: "
                f"{run_directory.latest_in(self._directory)}"
            ) from error
