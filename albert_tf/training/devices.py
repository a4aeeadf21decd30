# SPDX-License-Identifier: Apache-2.0
"""What a run computes on and with: the strategy of its devices, and the precision."""

import contextlib
import ctypes
import os
import re

import tensorflow as tf
import tf_keras
from official.common import distribute_utils

from albert_tf.choices import PRECISIONS, STRATEGIES
from albert_tf.errors import UserError, parse_json

# absl::SetMinLogLevel in the pinned TensorFlow; there is no way to it from Python.
_SET_LOG_LEVEL = "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"


def hide_log_lines():
    """Lets TF_CPP_MIN_LOG_LEVEL hold for XLA too, which logs through absl's own library.

    In a TensorFlow other than the pinned one it may have no effect.
    """
    path = os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2")
    with contextlib.suppress(OSError, AttributeError, ValueError):
        library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_NOLOAD)  # the one in use, or an OSError
        getattr(library, _SET_LOG_LEVEL)(int(os.environ["TF_CPP_MIN_LOG_LEVEL"]))


def create_strategy(name, num_gpus=None, tpu_name=None, tpu_zone=None, gcp_project=None):
    """Builds the tf.distribute strategy.

    Args:
        name: str, one of STRATEGIES.
        num_gpus: int, or None for all that there are.
        tpu_name: str, Cloud TPU name or grpc address; None or "" for a TPU of this machine.
        tpu_zone: str or None, zone of the Cloud TPU.
        gcp_project: str or None, project of the Cloud TPU.

    Raises:
        UserError: the devices asked for are not there, or TF_CONFIG describes no cluster.
    """
    if name not in STRATEGIES:
        raise UserError(
            f"--distribution_strategy must be one of {', '.join(STRATEGIES)}. Received: {name!r}"
        )
    if name == "tpu":
        return _create_tpu_strategy(tpu_name, tpu_zone, gcp_project)
    available = len(tf.config.list_physical_devices("GPU"))
    if num_gpus is not None and not 0 <= num_gpus <= available:
        raise UserError(f"--num_gpus={num_gpus}, but TensorFlow sees {available} GPUs")
    wanted = available if num_gpus is None else num_gpus
    if name in ("off", "one_device"):
        wanted = min(wanted, 1) if num_gpus is None else wanted
        if wanted > 1:
            raise UserError(
                f"--num_gpus={num_gpus} needs --distribution_strategy=mirrored. Received: {name}"
            )
    if name == "multi_worker_mirrored":
        return _create_multi_worker_strategy(wanted)
    return distribute_utils.get_distribution_strategy(name, num_gpus=wanted)


def _create_multi_worker_strategy(num_gpus):
    check_cluster(os.environ.get("TF_CONFIG", ""))
    try:
        return distribute_utils.get_distribution_strategy(
            "multi_worker_mirrored", num_gpus=num_gpus
        )
    except tf.errors.UnknownError as error:  # no server at this worker's own address
        raise UserError(
            f"TF_CONFIG={os.environ['TF_CONFIG']}: this worker cannot listen at its own address "
            f"({error.message}). Check that it is of this machine and its port is free"
        ) from error


def check_cluster(text):
    """Finds out before anything connects whether TF_CONFIG describes this worker and its cluster.

    Args:
        text: str, value of TF_CONFIG; empty if it is not set.

    Raises:
        UserError: it does not; the message says what is wrong.
    """
    example = (
        '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )

    def refuse(reason):
        raise UserError(f"TF_CONFIG {reason}. Received: {text!r}. It must be like {example}")

    if not text:
        refuse("is not set, and --distribution_strategy=multi_worker_mirrored needs it")
    config = parse_json(text, f"TF_CONFIG={text!r} must be like {example}, and it")
    config = config if isinstance(config, dict) else {}
    cluster, task = config.get("cluster"), config.get("task")
    if not isinstance(cluster, dict) or not isinstance(task, dict):
        refuse("must have the objects cluster and task")
    jobs = {name: cluster[name] for name in ("chief", "worker") if name in cluster}
    for name, addresses in jobs.items():
        if not isinstance(addresses, list) or not addresses:
            refuse(f"must have a list of addresses as {name} of cluster")
        for address in addresses:
            if not isinstance(address, str) or not _is_address(address):
                refuse(f"has an address that is not host:port, {address!r}")
    every = [address for addresses in jobs.values() for address in addresses]
    if not every:
        refuse("has no worker in cluster")
    if len(set(every)) < len(every):
        refuse("has the same address twice")
    kind, index = task.get("type"), task.get("index")
    if kind not in list(jobs):  # it may be of any type
        refuse(f"has the task type {kind!r}, which is not one of {', '.join(jobs)}")
    if not str(index).isdecimal() or int(index) >= len(jobs[kind]):
        refuse(f"has the task index {index!r}, and cluster has {len(jobs[kind])} of type {kind}")


def _is_address(text):
    match = re.fullmatch(r"\S+:(\d{1,5})", text, re.ASCII)
    return match is not None and 0 < int(match[1]) < 2**16


def _create_tpu_strategy(tpu_name, tpu_zone, gcp_project):
    # The Model Garden's builder takes no zone and no project.
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=tpu_name or "", zone=tpu_zone, project=gcp_project
        )
        if tpu_name not in (None, "", "local"):
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise UserError(
            f"no TPU found (--tpu_name={tpu_name}, --tpu_zone={tpu_zone}, "
            f"--gcp_project={gcp_project}): {error}"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def is_tpu(strategy):
    """Whether a strategy runs on TPUs."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def is_cpu(strategy):
    """Whether a strategy runs on CPUs alone."""
    return not is_tpu(strategy) and not tf.config.list_logical_devices("GPU")


def is_chief(strategy):
    """Whether this process writes the results: the first worker, or the only one."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or resolver is None:
        return True
    first = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
    return resolver.task_type in (None, first) and resolver.task_id in (None, 0)


def sum_over_workers(strategy, values):
    """The sums of whole numbers of every worker; all of them have to ask for them.

    Args:
        strategy: tf.distribute.Strategy.
        values: list of int, this worker's.

    Returns:
        list of int, the same for all; the values themselves where there is one process.
    """
    workers = num_workers(strategy)
    if workers == 1:
        return values
    each = strategy.run(tf.constant, args=(values,), kwargs={"dtype": tf.int64})
    totals = strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None).numpy()
    return [int(total) * workers // strategy.num_replicas_in_sync for total in totals]


def num_workers(strategy):
    """Processes that train together (int): those of a MultiWorkerMirroredStrategy, else 1."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return sum(map(len, strategy.cluster_resolver.cluster_spec().as_dict().values()))


def check_batch_size(strategy, batch_size, flag, accumulation=1):
    """Raises UserError unless a global batch divides among the replicas, and there into parts."""
    replicas = strategy.num_replicas_in_sync
    if batch_size < 1 or batch_size % (replicas * accumulation):
        parts = f" times --gradient_accumulation_steps={accumulation}" if accumulation > 1 else ""
        raise UserError(
            f"--{flag}={batch_size} must be a multiple of the number of replicas ({replicas})"
            + parts
        )


def set_precision(dtype):
    """Sets the computation type of the layers made from now on.

    Args:
        dtype: str, a key of PRECISIONS.
    """
    tf.config.experimental.enable_tensor_float_32_execution(dtype == "tf32")
    tf_keras.mixed_precision.set_global_policy(PRECISIONS[dtype])


def with_loss_scale(optimizer):
    """The optimizer under a loss scale where the precision needs one, else as it is."""
    if tf_keras.mixed_precision.global_policy().name == "mixed_float16":
        return tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
    return optimizer


def set_seed(seed):
    """Fixes weights, dropout and shuffling to come; None leaves them to chance.

    Raises:
        UserError: NumPy has no such seed.
    """
    if seed is not None and not 0 <= seed < 2**32:
        raise UserError(f"--seed must be from 0 to {2**32 - 1}. Received: {seed}")
    if seed is not None:
        tf_keras.utils.set_random_seed(seed)
