# SPDX-License-Identifier: Apache-2.0
"""Writing the checkpoints of a run while it goes on."""

import concurrent.futures
import contextlib
import os
import time

import tensorflow as tf

from albert_tf.checkpoints import readers, run_directory, writers
from albert_tf.errors import UserError, one_line

# Checkpoints with the whole state: if the newest is damaged, training resumes from the one before.
_RESUMABLE = 2


class Saver:
    """Writes checkpoints `model.ckpt-<step>` in a thread of its own.

    Training waits only until the variables are copied to the memory of the host. The two newest
    checkpoints hold the whole state, older ones the weights and the step.

    Args:
        directory: str, the run's.
        keep: int, newest checkpoints to keep; None or 0 for all.
        writes: bool, whether this process writes: one of several workers does.

    Attributes:
        count: int, checkpoints so far.
        paused: float, seconds that training has waited for them in all.
    """

    def __init__(self, directory, keep, writes=True):
        self._directory, self._keep, self._writes = directory, keep, writes
        # Its thread is waited for when the process ends.
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        self._pending = None
        self._slim = set()  # checkpoints that are known to hold no moments
        self.count, self.paused = 0, 0.0

    def save(self, step, state):
        """Starts to write a checkpoint; that of an earlier call is waited for.

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
            self._pending = self._executor.submit(self._write, prefix, values)
        self.count += 1
        self.paused += time.time() - start
        return prefix

    def check(self):
        """Raises UserError if the last checkpoint could not be written; waits for nothing."""
        if self._pending and self._pending.done():
            self.wait()

    def wait(self):
        """Waits until the last checkpoint is written.

        Raises:
            UserError: it could not be.
        """
        pending, self._pending = self._pending, None
        if pending:
            pending.result()

    def _write(self, prefix, values):
        try:
            with tf.device("CPU:0"):
                writers.write(prefix, values, "tf2")
            run_directory.write_list(self._directory, prefix)
            older = [
                name
                for step, name in run_directory.numbered_in(self._directory)
                if step <= run_directory.step_of(prefix)
            ]
            for name in older[: -self._keep] if self._keep else ():
                run_directory.delete(name)
            kept = older[-(self._keep or len(older)) : -_RESUMABLE]
            for name in [name for name in kept if name not in self._slim]:
                self._slim.add(name)
                with contextlib.suppress(readers.DamagedError):  # it is no worse than before
                    writers.drop_moments(name)
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"cannot write the checkpoint {prefix}: {one_line(error)}. Make room or choose "
                "another --output_dir, and start again. Last good checkpoint: "
                f"{run_directory.latest_in(self._directory)}"
            ) from error
