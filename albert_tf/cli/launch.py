# SPDX-License-Identifier: Apache-2.0
"""How a script starts and ends: devices, errors in one line, signals."""

import os
import signal
import sys

import tensorflow as tf
from absl import app, flags, logging

from albert_tf.cli import finetuning_flags, flag_groups, loop_flags
from albert_tf.errors import UserError, one_line
from albert_tf.training import devices

FLAGS = flags.FLAGS


def set_up_devices():
    """Sets seed and precision from the flags and builds the strategy.

    To be called before anything is computed or read by TensorFlow: it then accepts no other
    machines any more (multi_worker_mirrored).

    Returns:
        tf.distribute.Strategy.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    name = "tpu" if FLAGS.use_tpu else FLAGS.distribution_strategy
    strategy = devices.create_strategy(
        name, FLAGS.num_gpus, FLAGS.tpu_name, FLAGS.tpu_zone, FLAGS.gcp_project
    )
    devices.set_seed(FLAGS.seed)
    devices.set_precision(FLAGS.dtype)
    names = ", ".join(strategy.extended.worker_devices)
    print(f"Devices ({name}, {FLAGS.dtype}): {strategy.num_replicas_in_sync} replica(s): {names}")
    return strategy


def run(main):
    """Runs a script: flags are parsed, and bad input ends in one plain line and exit code 1.

    ALBERT_TF_TRACEBACK=1 in the environment shows where such an error was raised.

    Args:
        main: callable, takes the arguments that are no flags.
    """
    script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    logging.set_verbosity(logging.WARNING)

    def guarded(argv):
        # How schedulers end a job; training saves on it. Only as long as somebody catches it.
        signal.signal(signal.SIGTERM, interrupt)
        try:
            if len(argv) > 1:
                raise UserError(f"not a flag: {' '.join(argv[1:])}. Flags begin with --")
            main(argv)
        except (UserError, *_OF_THE_MACHINE) as error:
            if os.environ.get("ALBERT_TF_TRACEBACK"):
                raise
            message = str(error) if isinstance(error, UserError) else one_line(error)
            print(f"{script}: error: {message}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            print(f"{script}: stopped", file=sys.stderr)
            sys.exit(130)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def interrupt(*_):
        raise KeyboardInterrupt

    module = sys.modules[main.__module__]  # albert_tf.cli.predict, else the script itself
    sys.modules["__main__"].__doc__ = module.__doc__  # --help shows it, and the flags of:
    for defining in (flag_groups, loop_flags, finetuning_flags, module):
        for flag in FLAGS.get_key_flags_for_module(defining):
            FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    app.run(guarded)


# What files, disks, memory and devices may raise; all else that is no UserError is a defect.
_OF_THE_MACHINE = (
    OSError,
    MemoryError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnavailableError,
    tf.errors.UnauthenticatedError,
)
