# SPDX-License-Identifier: Apache-2.0
"""Devices of a run: their tf.distribute strategy, agreement of workers, precision."""

import functools
import itertools
import json
import os
import re
import sys
import tempfile

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.errors import UserError, about
from albert_tf.options import PRECISIONS


def create_strategy(name, num_gpus=None, tpu_name=None, tpu_zone=None, gcp_project=None):
    """Builds the tf.distribute strategy.

    Args:
        name: str, one of options.STRATEGIES.
        num_gpus: int, of `mirrored`; None for all that there are.
        tpu_name: str, Cloud TPU name or grpc address; None or "" for a TPU of this machine.
        tpu_zone: str or None, zone of the Cloud TPU.
        gcp_project: str or None, project of the Cloud TPU.

    Raises:
        UserError: the requested devices do not exist, or TF_CONFIG describes no cluster.
    """
    if name == "tpu":
        return _create_tpu_strategy(tpu_name, tpu_zone, gcp_project)
    if name == "multi_worker_mirrored":
        return _create_multi_worker_strategy()
    if (workers := _num_workers(os.environ.get("TF_CONFIG", ""))) > 1:
        print(
            f"TF_CONFIG names {workers} workers, and each trains by itself: only "
            "--distribution_strategy=multi_worker_mirrored uses it."
        )
    if name == "off":
        return tf.distribute.get_strategy()
    available = len(tf.config.list_physical_devices("GPU"))
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy("device:GPU:0" if available else "device:CPU:0")
    assert name == "mirrored", name
    if num_gpus is None:
        num_gpus = available
    if not 0 <= num_gpus <= available:
        raise UserError(
            f"--num_gpus={num_gpus}, but TensorFlow sees only {available} GPUs (docs/gpus.md)"
        )
    gpus = [f"device:GPU:{index}" for index in range(num_gpus)]
    return tf.distribute.MirroredStrategy(gpus or ["device:CPU:0"])


def _create_multi_worker_strategy():
    text = os.environ.get("TF_CONFIG", "")
    if not _num_workers(text):
        raise UserError(
            "--distribution_strategy=multi_worker_mirrored needs TF_CONFIG, such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", '
            f'"index": 0}}}}. Received: {text[:1000]!r}'
        )
    what = f"TF_CONFIG={text}: this worker cannot listen at its own address"
    remedy = "Check that it is of this machine and its port is free"
    with about(what, tf.errors.UnknownError, remedy=remedy):
        return tf.distribute.MultiWorkerMirroredStrategy()


def _num_workers(text):
    """Number of workers in TF_CONFIG; 0 if it lacks some or this one: TensorFlow would wait."""
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        jobs = {name: cluster[name] for name in ("chief", "worker") if name in cluster}
        addresses = [address for job in jobs.values() for address in job]
        ports = [int(re.fullmatch(r"\S+:(\d{1,5})", a, re.ASCII)[1]) for a in addresses]
        is_complete = (
            all(0 < port < 2**16 for port in ports)
            and len(set(addresses)) == len(addresses)
            and int(str(task["index"])) in range(len(jobs[task["type"]]))
        )
    except (LookupError, TypeError, ValueError, RecursionError):
        return 0
    return len(addresses) if is_complete else 0


def _create_tpu_strategy(tpu_name, tpu_zone, gcp_project):
    flags = f"--tpu_name={tpu_name}, --tpu_zone={tpu_zone}, --gcp_project={gcp_project}"
    with about(f"no TPU: check {flags}", ValueError, RuntimeError, OSError, tf.errors.OpError):
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=tpu_name or "", zone=tpu_zone, project=gcp_project
        )
        if tpu_name not in (None, "", "local"):
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


def is_tpu(strategy):
    """Whether a strategy runs on TPUs."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def is_cpu(strategy):
    """Whether a strategy runs only on CPUs."""
    return not is_tpu(strategy) and not tf.config.list_logical_devices("GPU")


def _workers(strategy):
    """Names of the processes that train together, the chief first, and the name of this one."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return ["worker 0"], "worker 0"
    resolver = strategy.cluster_resolver
    jobs = resolver.cluster_spec().as_dict()
    names = [f"{job} {i}" for job in ("chief", "worker") for i in range(len(jobs.get(job, ())))]
    return names, f"{resolver.task_type} {resolver.task_id}"


def num_workers(strategy):
    """Number of processes that train together (int); 1 unless the strategy has several workers."""
    return len(_workers(strategy)[0])


def is_chief(strategy):
    """Whether this process writes the results: the first worker, or the only one."""
    workers, this = _workers(strategy)
    return this == workers[0]


def sum_over_workers(strategy, values):
    """Sums whole numbers over all workers, each of which has to call it.

    Args:
        strategy: tf.distribute.Strategy.
        values: list of int, this worker's.

    Returns:
        list of int, the same on all workers; `values` itself if there is one process.
    """
    workers = num_workers(strategy)
    if workers == 1:
        return values
    totals = _sum_function(strategy)(tf.constant(values, tf.int64)).numpy()
    return [int(total) * workers // strategy.num_replicas_in_sync for total in totals]


@functools.lru_cache(maxsize=1)
def _sum_function(strategy):
    @tf.function  # the strategy is slow without one
    def total(values):
        each = strategy.run(tf.identity, args=(values,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None)

    return total


def gather(strategy, text):
    """Collects a text from every worker, each of which has to call it.

    Args:
        strategy: tf.distribute.Strategy.
        text: str, this worker's.

    Returns:
        dict of name of a worker, such as "worker 0" -> str.
    """
    workers, this = _workers(strategy)
    own, codes = workers.index(this), list(text.encode())
    sizes = sum_over_workers(strategy, [len(codes) * (i == own) for i in range(len(workers))])
    # Each worker fills its own row; its other rows are zero, and the sum has all texts.
    table = np.zeros([len(workers), max(sizes)], np.int64)
    table[own, : len(codes)] = codes
    summed = np.reshape(sum_over_workers(strategy, table.ravel().tolist()), table.shape)
    texts = [bytes(row[:size].tolist()).decode() for row, size in zip(summed, sizes, strict=True)]
    return dict(zip(workers, texts, strict=True))


def check_same_flags(strategy, flags):
    """Checks that all workers were given the same flags; each worker has to call it.

    Args:
        strategy: tf.distribute.Strategy.
        flags: dict of str -> str, the flags of this worker. All workers have the same names.

    Raises:
        UserError: the flags differ; the message names them and their values.
    """
    given = {name: json.loads(text) for name, text in gather(strategy, json.dumps(flags)).items()}
    different = [flag for flag in flags if len({of[flag] for of in given.values()}) > 1]
    if different:
        values = "; ".join(
            f"--{flag}: " + ", ".join(f"{of[flag]} ({worker})" for worker, of in given.items())
            for flag in different
        )
        raise UserError(f"give all workers the same flags. Received: {values}")


def check_batch_size(strategy, batch_size, flag, accumulation=1):
    """Raises UserError unless replicas and accumulation steps divide the global batch evenly."""
    replicas = strategy.num_replicas_in_sync
    if batch_size < 1 or batch_size % (replicas * accumulation):
        parts = f" times --gradient_accumulation_steps={accumulation}" if accumulation > 1 else ""
        raise UserError(
            f"--{flag}={batch_size} must be a multiple of the number of replicas, {replicas}{parts}"
        )


def set_precision(dtype):
    """Sets the computation type of layers that are created afterwards.

    Args:
        dtype: str, a key of PRECISIONS.
    """
    tf.config.experimental.enable_tensor_float_32_execution(dtype == "tf32")
    tf_keras.mixed_precision.set_global_policy(PRECISIONS[dtype])


def with_loss_scale(optimizer):
    """Wraps the optimizer in loss scaling if the precision needs it; else returns it unchanged."""
    if tf_keras.mixed_precision.global_policy().name == "mixed_float16":
        return tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
    return optimizer


# XLA and Grappler log through a library that TF_CPP_MIN_LOG_LEVEL does not reach.
_LOG_LINE = re.compile(rb"[IW]\d{4} [\d:.]+ |WARNING: All log messages before absl::")


def quiet_at_first(function):
    """Hides information and warnings that TensorFlow logs while it compiles a function.

    Args:
        function: callable, such as a tf.function.

    Returns:
        The same function. What its first call writes to standard error appears when that call
        ends, without lines of TensorFlow's log other than errors.
    """
    earlier_calls = itertools.count()

    def call(*args):
        if (
            next(earlier_calls)
            or os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0") < "2"  # the user wants to see them
            # Drivers of GPUs may end the process, and the reason would be hidden.
            or tf.config.list_physical_devices("GPU")
        ):
            return function(*args)
        sys.stderr.flush()
        stderr = os.dup(2)
        with tempfile.TemporaryFile() as written:
            os.dup2(written.fileno(), 2)
            try:
                return function(*args)
            finally:
                sys.stderr.flush()
                os.dup2(stderr, 2)
                os.close(stderr)
                written.seek(0)
                os.write(2, b"".join(line for line in written if not _LOG_LINE.match(line)))

    return call
