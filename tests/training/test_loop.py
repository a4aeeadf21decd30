# SPDX-License-Identifier: Apache-2.0
"""Replicas give one device's numbers; what a run saves, and what it says when it stops."""

import contextlib
import dataclasses
import errno
import functools
import json
import os
import re
import signal
import sys
import tempfile
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.checkpoints import loading, name_table, readers, run_directory, writers
from albert_tf.checkpoints.run_directory import EvaluatedOn
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, objectives, optimization
from albert_tf.records import input_pipeline, schemas
from albert_tf.training import devices, evaluation, loop, metrics, steps, stopping
from albert_tf.training.splits_and_results import Evaluation
from tests import GOLDEN, ROOT, read_arrays
from tests.errors import assert_names, assert_says, refuses
from tests.processes import run_python
from tests.training.clusters import cluster, free_addresses

pytestmark = pytest.mark.usefixtures("eagerly")
DATA = GOLDEN / "optimizers"


def golden_rows():
    batches = read_arrays(DATA / "batches.npz")
    schema = schemas.pretraining_schema(24, 6)
    del schema["token_boundary"]
    return {name: np.concatenate([batches[f"{i}/{name}"] for i in range(4)]) for name in schema}


def golden_run(strategy, directory, saved=True, optimizer="lamb", **settings):
    """A run with the golden weights; unless asked not to, it saves its checkpoint of step 0."""
    config = AlbertConfig.from_json_file(str(DATA / "albert_config.json"))
    with strategy.scope():
        model = heads.PretrainingModel(config)
        optimizer = devices.with_loss_scale(optimization.create_optimizer(optimizer, 0.01))
    settings = options.Loop(
        output_dir=directory, train_steps=4, save_checkpoints_steps=2, **settings
    )
    run = loop.Run(strategy, model, objectives.PRETRAINING, optimizer, settings)
    golden = read_arrays(DATA / "lamb_onehot.npz")
    for name, variable in run.variables.items():
        variable.assign(golden[f"init/{name}"])
    if saved:
        run.save()
        run.saver.wait()
    return run


def batches_of(rows, first_step=0):
    """The golden batches in their order, again and again, as `Run.train` asks for them."""
    dataset = tf.data.Dataset.from_tensor_slices(rows)

    def of_share(num_shares, share, splits):
        size = 4 // num_shares
        shares = dataset.batch(size, drop_remainder=True).shard(num_shares, share)
        batches = shares.unbatch().batch(size // splits, drop_remainder=True).repeat()
        return batches.skip(first_step * splits)

    return of_share


def train_on(strategy, parts, directory, optimizer):
    """Trains 4 steps on the golden batches, each in parts; returns metrics and variables."""
    rows = golden_rows()
    run = golden_run(strategy, directory, optimizer=optimizer, gradient_accumulation_steps=parts)
    run.train(batches_of(rows), 4)
    # 14 of 16 rows in batches of 4: the last batch is split unevenly.
    results = run.evaluate(tf.data.Dataset.from_tensor_slices(rows).take(14).batch(4))
    # 16 rows in batches of 5, whose last one has fewer rows than there are replicas.
    predicted = run.predict(input_pipeline.prediction_batches(rows, 5, 24), 16)
    values = {name: variable.numpy().tolist() for name, variable in run.variables.items()}
    resumed = resume_on(strategy, parts, rows, directory, optimizer)
    return {
        "resumed_alike": all(
            np.array_equal(variable.numpy(), resumed.variables[name].numpy())
            for name, variable in run.variables.items()
        ),
        "results": {k: float(v) for k, v in results.items()},
        "variables": values,
        "predicted": predicted["sentence_order_logits"].tolist(),
    }


def resume_on(strategy, parts, rows, whole, optimizer):
    """The training of a directory once more, from its checkpoint of step 2."""
    with tempfile.TemporaryDirectory() as directory:
        content = writers.read(f"{whole}/model.ckpt-2", with_moments=True)
        writers.write(f"{directory}/model.ckpt-2", *content)
        resumed = golden_run(
            strategy, directory, False, optimizer, gradient_accumulation_steps=parts
        )
        assert_names(resumed.initialize(), "step 2")
        resumed.train(batches_of(rows, first_step=2), 4)
        return resumed


@functools.cache
def run_in_fresh_process(kind, optimizer):
    """Logical devices have to be set before TensorFlow starts, so each case has its process."""
    environment = {"PYTHONPATH": str(ROOT), "TF_CONFIG": cluster(free_addresses(1))}
    done = run_python(__file__, kind, optimizer, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [
        ("mirrored", "lamb"),
        ("mirrored", "muon"),
        ("multi_worker_mirrored", "lamb"),
        pytest.param("off", "lamb", marks=pytest.mark.slow),
    ],
)
def test_replicas_and_parts_give_the_result_of_one_device(kind, optimizer):
    one = run_in_fresh_process("one_device", optimizer)
    other = run_in_fresh_process(kind, optimizer)
    assert other["replicas"] == (2 if kind == "mirrored" else 1)
    assert one["resumed_alike"] and other["resumed_alike"]
    for name, value in one["results"].items():
        np.testing.assert_allclose(other["results"][name], value, rtol=2e-5, err_msg=name)
    np.testing.assert_allclose(other["predicted"], one["predicted"], atol=1e-4)
    for name, value in one["variables"].items():
        tolerance = 1e-3 if name.endswith("key/bias") else 1e-4
        difference = np.abs(np.subtract(other["variables"][name], value)).max()
        assert difference <= tolerance * np.abs(value).max(), name


@pytest.fixture
def run(tmp_path):
    return golden_run(tf.distribute.OneDeviceStrategy("device:CPU:0"), str(tmp_path))


NAME = "bert/pooler/dense/bias"


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("moment", [False, True])
def test_what_is_not_finite_is_not_saved(value, moment, run, tmp_path):
    before = sorted(path.name for path in tmp_path.iterdir())
    index = list(run.variables).index(NAME)
    variable = run.optimizer.adam_v[index] if moment else run.variables[NAME]
    variable.assign(tf.fill(variable.shape, value))
    with refuses(f"1 ... 96 ... {NAME}", error=metrics.NonFiniteError):
        run.save()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("diverged", [pytest.param(True, marks=pytest.mark.long), False])
def test_an_interrupted_run_saves_what_is_finite(diverged, run, tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        if diverged:
            run.variables[NAME].assign(tf.fill([32], np.nan))
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(metrics.Line, "advance", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.train(batches_of(golden_rows()), 4)
    out = capsys.readouterr().out
    assert (tmp_path / "model.ckpt-1.index").exists() is not diverged
    if diverged:
        assert_says(out, "step 1")
        assert_says(out, f"{tmp_path}/model.ckpt-0")
    else:
        assert_says(out, f"1 ... {tmp_path}/model.ckpt-1")


@pytest.mark.parametrize("asked", [2, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("evaluates", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_run_that_is_asked_to_end_while_it_saves_saves_first(
    asked, evaluates, run, tmp_path, monkeypatch
):
    save, evaluated = loop.Saver.save, []

    def asked_to_end(self, step, state):
        if step == asked:
            os.kill(os.getpid(), signal.SIGTERM)
        return save(self, step, state)

    monkeypatch.setattr(loop.Saver, "save", asked_to_end)
    ends = asked == 4 and not evaluates  # nothing is left to do
    with contextlib.nullcontext() if ends else pytest.raises(KeyboardInterrupt):
        run.train(batches_of(golden_rows()), 4, evaluated.append if evaluates else None)
    step = asked if evaluates or ends else asked + 1  # without an evaluation, after the next update
    assert run.step == step
    assert run_directory.latest_in(str(tmp_path)) == f"{tmp_path}/model.ckpt-{step}"
    assert len(evaluated) == evaluates * (asked // 2 - 1)


def test_the_time_of_evaluations_and_of_checkpoints(run, capsys):
    run.settings = dataclasses.replace(run.settings, iterations_per_loop=1)
    run.saver.paused, rows = 7.0, []
    run.metrics.writers.append(types.SimpleNamespace(write=lambda *row: rows.append(row)))

    def evaluate(_):
        run.metrics._start -= 1000  # as if it took long, which is no time of the training

    run.train(batches_of(golden_rows()), 4, evaluate)
    assert len(rows) == 4
    assert all(point["sequences_per_second"] > 4 / 1000 for *_, point in rows)
    (seconds,) = re.findall(r"waited (\d\.\d\d) s for each of 3 ", capsys.readouterr().out)
    assert 2.33 <= float(seconds) < 5


def test_workers_agree_on_when_they_read_metrics(monkeypatch):
    monkeypatch.setattr(devices, "num_workers", lambda _: 2)
    # The other one proposes 6 steps.
    monkeypatch.setattr(devices, "sum_over_workers", lambda _, given: [given[0] + 6, given[1]])
    stops = stopping.Stops(None, types.SimpleNamespace(steps_in_check=lambda: 2))
    assert [step for step in range(9) if stops.is_due()] == [0, 4, 8]


def test_an_evaluation_is_interrupted_at_once(run, tmp_path):
    def evaluate(_):
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the evaluation goes on")

    with pytest.raises(KeyboardInterrupt):
        run.train(batches_of(golden_rows()), 4, evaluate)
    assert run_directory.latest_in(str(tmp_path)) == f"{tmp_path}/model.ckpt-2"


@pytest.mark.long
def test_an_interrupt_while_tensorflow_makes_an_exception(run, tmp_path, monkeypatch):
    make = tf.errors.NotFoundError.__init__

    def interrupted(*values):
        os.kill(os.getpid(), signal.SIGTERM)
        make(*values)

    def evaluate(_):
        with monkeypatch.context() as patched:
            patched.setattr(tf.errors.NotFoundError, "__init__", interrupted)
            tf.io.gfile.remove(f"{tmp_path}/none")  # from C++: it is a RuntimeError then

    with pytest.raises(KeyboardInterrupt):
        run.train(batches_of(golden_rows()), 4, evaluate)


def test_a_full_disk_leaves_the_last_good_checkpoint(run, tmp_path, monkeypatch):
    def fail(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(writers, "WRITERS", {"tf1": fail})
    before = {path.name: path.read_bytes() for path in tmp_path.glob("model.ckpt-*")}
    with refuses("step 2 ... -0"):
        run.train(batches_of(golden_rows()), 4)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*model.ckpt-*")} == before


@pytest.mark.parametrize(
    "reason", [os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "failed to allocate memory"]
)
def test_a_full_disk_is_not_taken_for_a_lack_of_memory(reason, run, monkeypatch):
    is_memory = "memory" in reason
    said = reason if is_memory else f"out/train/events; {reason}"
    where = (steps.TrainStep, "__call__") if is_memory else (metrics.TensorBoard, "write")

    def fail(*_):
        raise tf.errors.ResourceExhaustedError(None, None, said)

    monkeypatch.setattr(*where, fail)
    with refuses("--recompute" if is_memory else f"--output_dir= ... {said.replace(';', ' ...')}"):
        run.train(batches_of(golden_rows()), 4)


def save_three(run):
    for step in (1, 2, 3):
        run._step.assign(step)
        run.save()
    run.saver.wait()


def test_checkpoints_for_evaluation_hold_no_moments(run, tmp_path):
    save_three(run)
    kinds = {}
    for step in range(4):
        shapes = readers.TensorFlowReader(str(tmp_path / f"model.ckpt-{step}")).shapes
        kinds[step] = any(map(name_table.is_slot, shapes))
        assert loading.step_in(str(tmp_path / f"model.ckpt-{step}")) == step
        assert set(run.variables) <= set(shapes)
    assert kinds == {0: False, 1: False, 2: True, 3: True}


@pytest.mark.parametrize("crashes", [False, True])
def test_the_list_names_the_checkpoints_that_stay(crashes, run, tmp_path, monkeypatch):
    def crash(_):
        raise OSError("crash")

    run.saver._keep = 2
    if crashes:
        monkeypatch.setattr(run_directory, "delete", crash)
        with refuses("/model.ckpt-2"):
            save_three(run)
    else:
        save_three(run)
    newest = 2 if crashes else 3
    listed = tf.train.get_checkpoint_state(str(tmp_path))
    assert listed.model_checkpoint_path == str(tmp_path / f"model.ckpt-{newest}")
    steps = list(map(run_directory.step_of, listed.all_model_checkpoint_paths))
    assert steps == [newest - 1, newest]
    assert all(map(run_directory.exists, listed.all_model_checkpoint_paths))


def test_a_damaged_old_checkpoint_does_not_end_a_run(run, tmp_path):
    (tmp_path / "model.ckpt-0.index").write_bytes(b"half")
    save_three(run)
    assert run_directory.latest_in(str(tmp_path)) == f"{tmp_path}/model.ckpt-3"


def test_a_damaged_newest_checkpoint_is_skipped(run, tmp_path, capsys):
    save_three(run)
    (tmp_path / "model.ckpt-3.data-00000-of-00001").write_bytes(b"half")
    assert run.restore_newest() == f"{tmp_path}/model.ckpt-2"
    assert_says(capsys.readouterr().out, f"{tmp_path}/model.ckpt-3")


def test_the_loss_of_an_evaluation_is_the_mean_of_its_batches(run):
    dataset = tf.data.Dataset.from_tensor_slices(golden_rows()).batch(6)
    losses = [run.evaluate(dataset.skip(n).take(1))["loss"] for n in range(3)]
    assert run.evaluate(dataset)["loss"] == pytest.approx(np.mean(losses))
    assert run.evaluate(dataset, max_steps=2)["loss"] == pytest.approx(np.mean(losses[:2]))


@pytest.mark.parametrize("keeps", [False, True])
def test_the_best_checkpoint_holds_moments_if_asked_for(keeps, run, tmp_path):
    run.settings = dataclasses.replace(run.settings, save_moments_for_best=keeps)
    evaluator = evaluation.Evaluator(
        run, lambda: Evaluation({"f": 1.0}), "f", "{first}", EvaluatedOn("x")
    )
    evaluator(str(tmp_path / "model.ckpt-0"))
    shapes = readers.TensorFlowReader(str(tmp_path / "model.ckpt-best")).shapes
    assert any(map(name_table.is_slot, shapes)) == keeps
    loading.load_all(str(tmp_path / "model.ckpt-best"), run.variables)


def test_a_new_run_removes_what_a_killed_one_left(run, tmp_path):
    (tmp_path / "model.ckpt-3_temp").mkdir()
    (tmp_path / "model.ckpt-3_temp" / "part-00000-of-00001.index").write_text("half")
    ending = ".data-00000-of-00001"
    (tmp_path / f"model.ckpt-3{ending}").write_text("without its index")
    (tmp_path / f"model.ckpt-best{ending}").write_text("of a process that evaluates now")
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe")
    again = golden_run(run.strategy, str(tmp_path))
    assert not list(tmp_path.glob("model.ckpt-3*"))
    assert (tmp_path / f"model.ckpt-best{ending}").exists()
    assert run_directory.latest_in(str(tmp_path)) == f"{tmp_path}/model.ckpt-0"
    assert again.step == 0


def test_steps_are_parsed():
    assert options.parse_profile_steps("3:5") == (3, 5)
    assert options.parse_profile_steps(None) is None and options.parse_profile_steps("") is None
    for text in ("5", "0:5", "5:5", "5:3", "-1:5", "1:2:3", "a:b", "1: 2", "1,2"):
        with refuses(f"--profile_steps ... 0 ... {text}"):
            options.parse_profile_steps(text)


def profiled(directory, steps, first, last):
    """Makes updates `first` to `last` with a profiler; the files it wrote."""
    profiler = loop.Profiler(steps, str(directory))
    value = tf.Variable(tf.ones([4, 4]))
    try:
        for step in range(first, last + 1):
            with profiler.update(step, step):
                value.assign(value @ value)
            assert not (profiler._runs and step >= steps[1])
    finally:
        profiler.close()
    return list(directory.glob("plugins/profile/*/*.xplane.pb"))


@pytest.mark.parametrize(
    "steps, first, last, count",
    [
        ((3, 4), 1, 6, 1),
        ((3, 40), 1, 6, 1),  # the training ends within the range
        ((3, 6), 5, 8, 1),  # resumed within it
        ((3, 6), 7, 8, 0),  # resumed after it
        ((30, 60), 1, 4, 0),
        (None, 1, 4, 0),
    ],
)
def test_profiles_of_ranges_that_the_training_covers(tmp_path, steps, first, last, count):
    found = profiled(tmp_path, steps, first, last)
    assert len(found) == count
    for file in found:
        assert b"MatMul" in file.read_bytes() and b"train" in file.read_bytes()


if __name__ == "__main__":
    wanted, optimizer = sys.argv[1:]
    # Parts are summed in another order, and small directions of a gradient become large ones.
    optimization.fast_dtype = lambda: tf.float32
    if wanted == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        made = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    elif wanted == "one_device":
        made = tf.distribute.OneDeviceStrategy("CPU:0")
    else:
        made = devices.create_strategy(wanted)
    with tempfile.TemporaryDirectory() as scratch:
        # 4 rows: one for each part of each replica.
        parts = 1 if wanted == "one_device" else 4 // made.num_replicas_in_sync
        outcome = train_on(made, parts, scratch, optimizer)
    print(json.dumps({"replicas": made.num_replicas_in_sync, **outcome}))
