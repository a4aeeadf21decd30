# SPDX-License-Identifier: Apache-2.0
"""Strategies are built as asked, or not at all; what TensorFlow logs is hidden."""

import os

import pytest
import tensorflow as tf

from albert_tf.training import devices
from tests.errors import assert_names, refuses
from tests.training.clusters import cluster

TWO = ["a:1", "b:1"]


def test_batch_size_must_divide_among_replicas():
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    devices.check_batch_size(strategy, 3, "train_batch_size")
    with refuses("--train_batch_size=0 ... 1"):
        devices.check_batch_size(strategy, 0, "train_batch_size")


def test_the_first_call_of_a_step_hides_log_lines(capfd, monkeypatch):
    hidden = (
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n",
        "I0000 00:00:1795360659.118987   3214 device_compiler.h:196] Compiled cluster using XLA!\n",
        "W0000 00:00:1795360427.107780   22356 op_level_cost_estimator.cc:699] Error\n",
    )
    shown = ("E0000 00:00:1795360427.1 1 a.cc:1] error\n", "Warning: of ours\n", "no end of line")

    def step(value):
        os.write(2, "".join(hidden + shown).encode())
        return value

    quiet = devices.quiet_at_first(step)
    assert quiet(3) == 3
    assert capfd.readouterr().err == "".join(shown)
    quiet(3)  # nothing is compiled any more
    assert hidden[0] in capfd.readouterr().err
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")  # the user asks for them
    devices.quiet_at_first(step)(3)
    assert hidden[0] in capfd.readouterr().err


def test_nothing_is_hidden_with_a_gpu_or_of_a_call_that_fails(capfd, monkeypatch):
    def fail():
        os.write(2, b"the reason\n")
        raise ValueError

    with pytest.raises(ValueError):
        devices.quiet_at_first(fail)()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    line = "I0000 00:00:1795360427.1 1 a.cc:1] a driver\n"
    devices.quiet_at_first(lambda: os.write(2, line.encode()))()
    assert capfd.readouterr().err == f"the reason\n{line}"


@pytest.mark.parametrize(
    "text",
    [
        "", "[" * 100_000, "[]", '{"task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}}', cluster([]), cluster("a:1"), cluster([1]),
        cluster(["a"]), cluster(["a:0"]), cluster(["a:65536"]), cluster(["a:1", "a:1"]),
        cluster(TWO, "master"), cluster(TWO, ["worker"]), cluster(TWO, index=2),
        cluster(TWO, index=-1), cluster(TWO, index=True), cluster(TWO, "chief", 1, chief=["c:1"]),
    ],
    ids=range(18),
)  # fmt: skip
def test_mistakes_in_tf_config_are_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with refuses("TF_CONFIG") as error:
        devices.create_strategy("multi_worker_mirrored")
    assert "\n" not in str(error.value)
    assert_names(str(error.value), f"{text[:1000]!r}")
    assert '"task": {"type": "worker", "index": 0}' in str(error.value)  # how it must be


def test_clusters_that_are_described_well():
    for text in (
        cluster(TWO, index=1),
        cluster(TWO, index="1"),  # TensorFlow takes it too
        cluster(["[::1]:2222", "host-2.example:80"]),
        cluster(TWO, "chief", chief=["c:1"], evaluator=["d:1"]),
    ):
        assert devices._num_workers(text) >= 2


@pytest.mark.parametrize(("hosts", "is_said"), [(TWO, True), (["a:1"], False), (None, False)])
def test_a_cluster_that_is_not_used_is_told(hosts, is_said, monkeypatch, capsys):
    monkeypatch.setenv("TF_CONFIG", cluster(hosts) if hosts else "")
    devices.create_strategy("one_device")
    assert ("multi_worker_mirrored" in capsys.readouterr().out) == is_said


def test_a_worker_that_cannot_listen_at_its_address_is_told(monkeypatch):
    def fail(*_, **__):
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    monkeypatch.setenv("TF_CONFIG", cluster(["a:1"]))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", fail)
    with refuses("TF_CONFIG= ... Could not start"):
        devices.create_strategy("multi_worker_mirrored")


@pytest.mark.parametrize(
    "kind, index, others, expected",
    [
        ("worker", 0, {}, True),
        ("worker", 1, {}, False),
        ("chief", 0, {"chief": ["c:1"]}, True),
        ("worker", 0, {"chief": ["c:1"]}, False),
        ("chief", 0, {"chief": ["c:1"], "evaluator": ["d:1"]}, True),  # an evaluator does not train
    ],
)
def test_one_worker_writes(kind, index, others, expected, monkeypatch):
    class Strategy(tf.distribute.MultiWorkerMirroredStrategy):
        def __init__(self):
            pass

        cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()

    monkeypatch.setenv("TF_CONFIG", cluster(TWO, kind, index, **others))
    assert devices.is_chief(Strategy()) is expected
    assert devices.num_workers(Strategy()) == len(TWO) + len(others.get("chief", ()))


@pytest.mark.parametrize(
    "name, num_gpus, message",
    [("mirrored", 3, "--num_gpus=3 ... TensorFlow ... 2 ... GPUs"), ("tpu", None, "TPU")],
)
def test_devices_that_are_not_there(name, num_gpus, message, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["one", "two"])
    with refuses(message):
        devices.create_strategy(name, num_gpus=num_gpus)


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
