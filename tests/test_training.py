# SPDX-License-Identifier: Apache-2.0
"""Distribution: replicas give one device's numbers; strategies are built as asked or not at all."""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import checkpoints, heads, optimization, records, training
from albert_tf.config import AlbertConfig

GOLDEN = Path(__file__).parent / "golden" / "optimizers"


def train_on(strategy, precision, directory):
    """Trains 4 steps on the golden batches; returns losses, figures and variables."""
    training.set_precision(precision)
    config = AlbertConfig.from_json_file(str(GOLDEN / "albert_config.json"))
    batches = np.load(GOLDEN / "batches.npz")
    schema = records.pretraining_schema(24, 6)
    del schema["token_boundary"]
    rows = {name: np.concatenate([batches[f"{i}/{name}"] for i in range(4)]) for name in schema}
    with strategy.scope():
        model = heads.PretrainingModel(config)
        optimizer = training.create_optimizer("lamb", 0.01)
    task = training.Task(
        model, checkpoints.named_variables(model), heads.pretraining_terms, heads.pretraining_loss
    )
    golden = np.load(GOLDEN / "lamb_onehot.npz")
    for name, variable in task.variables.items():
        variable.assign(golden[f"init/{name}"])
    settings = training.Settings(directory, train_steps=4, save_checkpoints_steps=4)
    run = training.Run(strategy, task, optimizer, settings)
    run.save()
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
    run.train(dataset.repeat(), 4, METRICS)
    # 14 of 16 rows in batches of 4: the last batch is split unevenly.
    results = run.evaluate(dataset.unbatch().take(14).batch(4), METRICS)
    # 16 rows in batches of 5, whose last one has fewer rows than there are replicas.
    predicted = run.predict(records.prediction_batches(rows, 5, 24), 16)
    values = {name: variable.numpy().tolist() for name, variable in task.variables.items()}
    return {
        "results": {k: float(v) for k, v in results.items()},
        "variables": values,
        "predicted": predicted["sentence_order_logits"].tolist(),
    }


METRICS = (
    "masked_lm_accuracy",
    "masked_lm_loss",
    "sentence_order_accuracy",
    "sentence_order_loss",
)


@functools.cache
def run_in_fresh_process(kind):
    """Logical devices have to be set before TensorFlow starts, so each case has its process."""
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, __file__, kind],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["mirrored", "multi_worker_mirrored", "off"])
def test_replicas_give_the_result_of_one_device(kind):
    one, other = run_in_fresh_process("one_device"), run_in_fresh_process(kind)
    assert other["replicas"] == (2 if kind == "mirrored" else 1)
    for name, value in one["results"].items():
        if name != "loss":  # a mean of batch means: the same batches, so the same too
            np.testing.assert_allclose(other["results"][name], value, rtol=2e-5, err_msg=name)
    np.testing.assert_allclose(other["results"]["loss"], one["results"]["loss"], rtol=2e-5)
    np.testing.assert_allclose(other["predicted"], one["predicted"], atol=1e-4)
    for name, value in one["variables"].items():
        tolerance = 1e-3 if name.endswith("key/bias") else 1e-4
        difference = np.abs(np.subtract(other["variables"][name], value)).max()
        assert difference <= tolerance * np.abs(value).max(), name


def test_batch_size_must_divide_among_replicas():
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    training.check_batch_size(strategy, 3, "train_batch_size")
    with pytest.raises(ValueError, match=r"--train_batch_size=0 must be a multiple .*\(1\)"):
        training.check_batch_size(strategy, 0, "train_batch_size")


def test_gpus_that_are_not_there_are_an_error():
    available = len(tf.config.list_physical_devices("GPU"))
    with pytest.raises(ValueError, match=f"--num_gpus={available + 1}, but"):
        training.create_strategy("mirrored", num_gpus=available + 1)


def test_unknown_strategy_is_an_error():
    with pytest.raises(ValueError, match="parameter_server"):
        training.create_strategy("parameter_server")


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
    strategy = training.create_strategy("tpu", None, "node", "zone-a", "project-b")
    assert strategy == ("strategy", "resolver")
    assert asked["tpu"] == "node" and asked["initialised"] == "resolver"
    assert (asked["zone"], asked["project"]) == ("zone-a", "project-b")


def test_missing_tpu_is_a_plain_error():
    with pytest.raises(ValueError, match="no TPU found"):
        training.create_strategy("tpu")


def test_loss_scaling_belongs_to_float16_alone():
    training.set_precision("fp16")
    try:
        scaled = training.create_optimizer("adamw", 0.1)
    finally:
        training.set_precision("fp32")
    assert isinstance(scaled.inner_optimizer, optimization.AdamW)
    assert isinstance(training.create_optimizer("adamw", 0.1), optimization.AdamW)


if __name__ == "__main__":
    wanted = sys.argv[1]
    if wanted == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        made = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    else:
        made = training.create_strategy(wanted, num_gpus=0)
    with tempfile.TemporaryDirectory() as scratch:
        outcome = train_on(made, "fp32", scratch)
    print(json.dumps({"replicas": made.num_replicas_in_sync, **outcome}))


def test_progress_keeps_its_speed_where_no_step_was_made(capsys):
    progress = training._Progress(0, 10, batch_size=4, visible=True)
    progress.advance(10)
    for _ in range(2):  # after the last steps, and when the loop ends
        progress.show({"loss": 1.0})
    progress.close()
    shown = re.findall(r"sequences/s=([\d.]+)", capsys.readouterr().err)
    assert shown and float(shown[-1]) > 0
