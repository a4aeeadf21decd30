# SPDX-License-Identifier: Apache-2.0
"""Strategies are built as asked, or not at all."""

import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.training import devices
from tests import ROOT
from tests.training.clusters import cluster

TWO = ["a:1", "b:1"]


def test_batch_size_must_divide_among_replicas():
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    devices.check_batch_size(strategy, 3, "train_batch_size")
    with pytest.raises(ValueError, match=r"--train_batch_size=0 must be a multiple .*\(1\)"):
        devices.check_batch_size(strategy, 0, "train_batch_size")


@pytest.mark.long
def test_what_xla_compiles_says_nothing():
    code = """
from albert_tf.training import devices
import tensorflow as tf
devices.hide_log_lines()
print(tf.function(tf.nn.gelu, jit_compile=True)(tf.zeros([2])).numpy())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[0. 0.]\n", "")


def test_gpus_that_are_not_there_are_an_error():
    available = len(tf.config.list_physical_devices("GPU"))
    with pytest.raises(ValueError, match=f"--num_gpus={available + 1}, but"):
        devices.create_strategy("mirrored", num_gpus=available + 1)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is not set, and --distribution_strategy=multi_worker_mirrored needs it"),
        ("{'cluster': 1}", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "must have the objects cluster and task"),
        ('{"task": {"type": "worker", "index": 0}}', "must have the objects cluster and task"),
        ('{"cluster": {"worker": ["a:1"]}}', "must have the objects cluster and task"),
        ('{"cluster": {}, "task": {}}', "has no worker in cluster"),
        (cluster([]), "must have a list of addresses as worker of cluster"),
        (cluster("a:1"), "must have a list of addresses as worker of cluster"),
        (cluster([1]), "has an address that is not host:port, 1"),
        (cluster(["a"]), "has an address that is not host:port, 'a'"),
        (cluster(["a:1", "b:"]), "has an address that is not host:port, 'b:'"),
        (cluster(["a:0"]), "has an address that is not host:port, 'a:0'"),
        (cluster(["a:65536"]), "has an address that is not host:port, 'a:65536'"),
        (cluster(["a:1", "a:1"]), "has the same address twice"),
        (cluster(TWO, "master"), "has the task type 'master', which is not one of worker"),
        (cluster(TWO, "ps", ps=["c:1"]), "has the task type 'ps', which is not one of worker"),
        (cluster(TWO, ["worker"]), r"has the task type \['worker'\]"),
        (cluster(TWO, index=2), "has the task index 2, and cluster has 2 of type worker"),
        (cluster(TWO, index=-1), "has the task index -1"),
        (cluster(TWO, index=None), "has the task index None"),
        (cluster(TWO, index=True), "has the task index True"),
        (cluster(TWO, "chief", 1, chief=["c:1"]), "cluster has 1 of type chief"),
    ],
    ids=range(23),
)
def test_mistakes_in_tf_config_are_named(text, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match=message) as error:
        devices.create_strategy("multi_worker_mirrored")
    assert "TF_CONFIG" in str(error.value) and "\n" not in str(error.value)
    assert '"task": {"type": "worker", "index": 0}' in str(error.value)  # how it must be


def test_clusters_that_are_described_well():
    for text in (
        cluster(TWO, index=1),
        cluster(TWO, index="1"),  # TensorFlow takes it too
        cluster(["[::1]:2222", "host-2.example:80"]),
        cluster(TWO, "chief", chief=["c:1"], evaluator=["d:1"]),
    ):
        devices.check_cluster(text)


def test_a_worker_that_cannot_listen_at_its_address_is_told(monkeypatch):
    def fail(*_, **__):
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    monkeypatch.setenv("TF_CONFIG", cluster(["a:1"]))
    monkeypatch.setattr(devices.distribute_utils, "get_distribution_strategy", fail)
    with pytest.raises(UserError, match=r"at its own address \(Could not start"):
        devices.create_strategy("multi_worker_mirrored")


@pytest.mark.parametrize(
    "kind, index, others, expected",
    [
        ("worker", 0, {}, True),
        ("worker", 1, {}, False),
        ("chief", 0, {"chief": ["c:1"]}, True),
        ("worker", 0, {"chief": ["c:1"]}, False),
    ],
)
def test_one_worker_writes(kind, index, others, expected, monkeypatch):
    class Strategy(tf.distribute.MultiWorkerMirroredStrategy):
        def __init__(self):
            pass

        cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()

    monkeypatch.setenv("TF_CONFIG", cluster(TWO, kind, index, **others))
    assert devices.is_chief(Strategy()) is expected


@pytest.mark.parametrize("name", ["off", "one_device"])
def test_one_device_takes_no_two_gpus(name, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["one", "two"])
    with pytest.raises(UserError, match="--num_gpus=2 needs --distribution_strategy=mirrored"):
        devices.create_strategy(name, num_gpus=2)


def test_unknown_strategy_is_an_error():
    with pytest.raises(ValueError, match="parameter_server"):
        devices.create_strategy("parameter_server")


def test_tpu_strategy_is_asked_for_by_name_zone_and_project(monkeypatch):
    asked = {}

    def resolver(**kwargs):
        asked.update(kwargs)
        return "resolver"

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", asked.setdefault)
    monkeypatch.setattr(
        tf.tpu.experimental, "initialize_tpu_system", lambda r: asked.update(initialised=r)
    )
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda r: ("strategy", r))
    strategy = devices.create_strategy("tpu", None, "node", "zone-a", "project-b")
    assert strategy == ("strategy", "resolver")
    assert asked["tpu"] == "node" and asked["initialised"] == "resolver"
    assert (asked["zone"], asked["project"]) == ("zone-a", "project-b")


def test_missing_tpu_is_a_plain_error():
    with pytest.raises(ValueError, match="no TPU found"):
        devices.create_strategy("tpu")
