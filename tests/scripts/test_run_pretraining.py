# SPDX-License-Identifier: Apache-2.0
"""run_pretraining.py through its real main: the original's numbers, files, resuming, bad input."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import run_pretraining
from albert_tf.checkpoints import loading, readers, run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.cli import flag_groups
from albert_tf.errors import UserError
from albert_tf.model import objectives
from albert_tf.records import record_files, schemas
from albert_tf.training import metrics, pretraining
from tests import GOLDEN, read_arrays, tiny
from tests.checkpoints import golden_models
from tests.errors import assert_names, assert_says, names, refuses
from tests.processes import run_python
from tests.records.small_records import encode
from tests.script_flags import flags_of
from tests.training.clusters import in_two_workers

pytestmark = pytest.mark.usefixtures("eagerly")

DATA = GOLDEN / "optimizers"
LENGTH, PREDICTIONS = 24, 6
CONFIG = DATA / "albert_config.json"


# Enough to predict something right: a checkpoint is the best only if its accuracy is above 0.
LEARNS = {"num_train_steps": 20, "save_checkpoints_steps": 4}
LEARNS |= {"optimizer": "adamw", "learning_rate": 0.02}


def schema():
    wanted = schemas.pretraining_schema(LENGTH, PREDICTIONS)
    del wanted["token_boundary"]
    return wanted


def golden_batches():
    arrays = read_arrays(DATA / "batches.npz")
    places = [(i, row) for i in range(8) for row in range(4)]
    return [{name: arrays[f"{i}/{name}"][row] for name in schema()} for i, row in places]


def write_records(path, rows):
    with schemas.record_writer(str(path)) as writer:
        for row in rows:
            writer.write(encode(row, schema()))
    return path


def small_run(folder):
    """Flags of a run of two steps on the golden batches, in their order."""
    return tiny.PRETRAINING | {
        "albert_config_file": CONFIG,
        "input_file": write_records(folder / "batches.tfrecord", golden_batches()),
        "output_dir": folder / "out",
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "shuffle_buffer_size": 1,
        "num_train_steps": 2,
        "save_checkpoints_steps": 1,
    }


@pytest.fixture
def flags(tmp_path):
    return small_run(tmp_path)


@pytest.fixture(scope="module")
def first_run(eagerly, tmp_path_factory, run_main):
    """Output directory of a run that was trained."""
    flags = small_run(tmp_path_factory.mktemp("pretraining"))
    run_main(run_pretraining, **flags)
    return flags["output_dir"]


@pytest.fixture
def trained(first_run, tmp_path):
    """A copy of that run, at the place that `flags` names."""
    return shutil.copytree(first_run, tmp_path / "out")


def test_the_original_reads_the_checkpoints_of_a_run(trained):
    names = tf.train.load_checkpoint(f"{trained}/model.ckpt-2").get_variable_to_shape_map()
    word_embeddings = "bert/embeddings/word_embeddings"
    assert {word_embeddings, f"{word_embeddings}/adam_m", "global_step"} <= names.keys()


def curves(directory):
    accumulator = EventAccumulator(str(directory), size_guidance={"tensors": 0})
    accumulator.Reload()
    return {
        tag: [float(tf.make_ndarray(e.tensor_proto)) for e in accumulator.Tensors(tag)]
        for tag in accumulator.Tags()["tensors"]
    }


def checkpoint_steps(directory):
    return [step for step, _ in run_directory.numbered_in(str(directory))]


def evaluated(directory, name="loss"):
    """Values of a metric in all evaluations: list of float."""
    text = (directory / "eval_results.txt").read_text()
    return [float(value) for value in re.findall(rf"^{name} = (\S+)", text, re.M)]


def read_variables(prefix):
    reader = readers.TensorFlowReader(str(prefix))
    return {name: reader[name] for name in reader.shapes}


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_reproduces_the_originals_eight_steps(pretrain, flags, tmp_path, optimizer):
    case = json.loads((DATA / "cases.json").read_text())[f"{optimizer}_onehot"]
    golden = read_arrays(DATA / f"{optimizer}_onehot.npz")
    initial = {k.removeprefix("init/"): v for k, v in golden.items() if k.startswith("init/")}
    flags |= {
        "init_checkpoint": golden_models.write(tmp_path / "tf1.ckpt", initial),
        "optimizer": optimizer,
        "learning_rate": case["init_lr"],
        "num_train_steps": case["num_train_steps"],
        "num_warmup_steps": case["num_warmup_steps"],
        "keep_checkpoint_max": 0,
    }
    pretrain()
    seen = curves(tmp_path / "out" / "train")
    np.testing.assert_allclose(seen["loss"][:8], golden["loss"], atol=2e-5)
    np.testing.assert_allclose(seen["gradient_norm"][:8], golden["global_norm"], atol=2e-5)
    np.testing.assert_allclose(seen["learning_rate"][:8], golden["learning_rate"], atol=1e-9)
    for step in (2, 8):
        ours = read_variables(tmp_path / "out" / f"model.ckpt-{step}")
        for name in initial:
            # The true gradient of key biases is 0; what moves them is rounding.
            tolerance = 1e-3 if name.endswith("key/bias") else 1e-4
            expected = golden[f"step{step}/{name}"]
            difference = np.abs(ours[name] - expected).max()
            assert difference <= tolerance * np.abs(expected).max(), (step, name, difference)


def test_constants_of_the_optimizer(pretrain, flags, tmp_path):
    """Without memory, decay and epsilon each entry moves by the rate, whatever its gradient."""
    flags |= {"optimizer": "adamw", "num_train_steps": 1, "weight_decay_rate": 0}
    pretrain(beta_1=0, beta_2=0, epsilon=1e-30)
    before, after = (read_variables(tmp_path / "out" / f"model.ckpt-{step}") for step in (0, 1))
    name = "bert/encoder/embedding_hidden_mapping_in/kernel"
    moved = np.abs(after[name] - before[name])
    np.testing.assert_allclose(moved, flags["learning_rate"], rtol=1e-3)


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
def test_files_of_a_run(pretrain, flags, tmp_path, capsys):
    flags |= LEARNS | {"keep_checkpoint_max": 2, "do_eval": True}
    pretrain()
    out = tmp_path / "out"
    train, evaluation = curves(out / "train"), curves(out / "eval")
    metrics = {"loss", *objectives.PRETRAINING.metrics}
    assert metrics | {"learning_rate", "gradient_norm", "sequences_per_second"} <= set(train)
    assert metrics <= set(evaluation)
    assert train["learning_rate"][:2] == pytest.approx([0.02, 0.019])
    assert checkpoint_steps(out) == [16, 20]
    assert (out / "model.ckpt-best.index").exists()
    state = tf.train.get_checkpoint_state(str(out))
    assert Path(state.model_checkpoint_path).name == "model.ckpt-20"
    text = (out / "eval_results.txt").read_text()
    blocks = text.split("global_step = ")[1:]
    assert [int(block.split("\n")[0]) for block in blocks] == [4, 8, 12, 16, 20]
    keys = [line.split(" = ")[0] for line in blocks[-1].splitlines()[1:] if " = " in line]
    assert keys == ["loss", *sorted(objectives.PRETRAINING.metrics)]
    step, best_step, value = (out / "best_trial.txt").read_text().split(":")
    assert int(step) == 20
    assert float(value) == pytest.approx(max(evaluated(out, "masked_lm_accuracy")))
    assert loading.step_in(str(out / "model.ckpt-best")) == int(best_step)
    assert_says(capsys.readouterr().out, "step 0 ... random")


def assert_same_when_stopped(pretrain, tmp_path, step, last):
    """Compares a run with one that goes on from its checkpoint of a step."""
    halted = tmp_path / "halted"
    halted.mkdir()
    pretrain()
    golden_models.copy(tmp_path / f"out/model.ckpt-{step}", halted / f"model.ckpt-{step}")
    pretrain(output_dir=halted)
    assert_same_variables(*(folder / f"model.ckpt-{last}" for folder in (halted, tmp_path / "out")))


def assert_same_variables(prefix, other):
    found, wanted = read_variables(prefix), read_variables(other)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_the_flags_of_a_run_can_be_read_again(trained, capsys):
    with flags_of(run_pretraining) as known:
        known(["run_pretraining", f"--flagfile={trained}/flags.txt"])
        flag_groups.note_obsolete_flags()
        given = flag_groups.read()
        flag_groups.check_run(given)
        assert given.train_batch_size == 4
    assert "no effect" not in capsys.readouterr().out  # flags.txt has no obsolete flags


@pytest.mark.usefixtures("in_graphs")
@pytest.mark.parametrize("optimizer", ["lamb", pytest.param("muon", marks=pytest.mark.long)])
def test_resumed_run_equals_an_uninterrupted_one(pretrain, flags, tmp_path, capsys, optimizer):
    one_batch = write_records(tmp_path / "one.tfrecord", golden_batches()[:4])
    flags |= {"input_file": one_batch, "num_train_steps": 4, "save_checkpoints_steps": 2}
    flags |= {"optimizer": optimizer}
    assert_same_when_stopped(pretrain, tmp_path, 2, 4)
    assert_says(capsys.readouterr().out, "step 2 ... halted/model.ckpt-2")


@pytest.mark.parametrize(
    "ending", [".data-00000-of-00001", pytest.param(".index", marks=pytest.mark.long)]
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    pretrain, trained, tmp_path, capsys, ending
):
    def damage(*steps):
        for step in steps:
            path = tmp_path / "out" / f"model.ckpt-{step}{ending}"
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    damage(2)
    pretrain()
    out = capsys.readouterr().out
    assert sum(names(line, "model.ckpt-2 ... skipped") for line in out.splitlines()) == 1
    assert_says(out, "step 1 ... model.ckpt-1")
    for steps in ((2, 1), (0,)):  # that of step 0 has no moments
        damage(*steps)
        with refuses("ckpt-2 ... ckpt-1 ... ckpt-0"):
            pretrain()


@pytest.mark.long
def test_a_resumed_run_says_what_changed_and_keeps_what_must_stay(
    pretrain, flags, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["run_pretraining"])  # whose flags are recorded
    pretrain()
    capsys.readouterr()
    flags |= {"num_train_steps": 3}
    with refuses("--optimizer=muon ... --train_batch_size=8 ... --allow_changes_on_r"):
        pretrain(optimizer="muon", train_batch_size=8)
    assert checkpoint_steps(tmp_path / "out")[-1] == 2
    pretrain(optimizer="adamw", allow_changes_on_resume=True)
    out = capsys.readouterr().out
    assert_says(out, "--num_train_steps ... 2 ... 3", "--optimizer ... lamb ... adamw")
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert [start["step"] for start in record["starts"]] == [0, 2]


@pytest.mark.long
def test_without_a_seed_a_run_draws_one_and_keeps_it(pretrain, flags, tmp_path):
    del flags["seed"]

    def run(directory, steps):
        pretrain(output_dir=tmp_path / directory, num_train_steps=steps)
        return json.loads((tmp_path / directory / "run.json").read_text())["seed"]

    drawn = run("one", 1)
    assert run("one", 2) == drawn != run("two", 1)
    pretrain(output_dir=tmp_path / "three", seed=drawn)
    name = "bert/pooler/dense/kernel"
    one, three = (read_variables(tmp_path / d / "model.ckpt-0")[name] for d in ("one", "three"))
    np.testing.assert_array_equal(one, three)


def test_a_run_goes_on_whatever_config_and_weights_are_given(pretrain, trained, tmp_path, capsys):
    pretrain(init_checkpoint=tmp_path / "nowhere")
    assert checkpoint_steps(tmp_path / "out")[-1] == 2
    capsys.readouterr()
    pretrain(num_train_steps=3, init_checkpoint=tmp_path / "nowhere", albert_config_file="")
    assert_says(capsys.readouterr().out, "--init_checkpoint ... out/model.ckpt-2", "step 2")
    assert checkpoint_steps(tmp_path / "out")[-1] == 3
    flags_of_run = (tmp_path / "out" / "flags.txt").read_text().splitlines()
    assert f"--albert_config_file={tmp_path}/out/albert_config.json" in flags_of_run


def test_init_checkpoint_takes_weights_but_neither_step_nor_moments(
    pretrain, trained, tmp_path, capsys
):
    second = tmp_path / "second"
    pretrain(output_dir=second, init_checkpoint=tmp_path / "out", num_train_steps=1)
    assert "loaded 32 variables" in capsys.readouterr().out
    ours = read_variables(second / "model.ckpt-0")
    first = read_variables(tmp_path / "out/model.ckpt-2")
    table = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(ours[table], first[table])
    assert ours["global_step"] == 0
    assert not ours[f"{table}/adam_m"].any()


@pytest.mark.long
def test_evaluations_that_a_finished_run_lacks_are_made_up_for(pretrain, trained, tmp_path):
    """Once; test_kinds_of_records.py has those of a run that goes on."""
    for _ in range(2):
        pretrain(do_eval=True)
        assert evaluated(tmp_path / "out", "global_step") == [1, 2]
    assert RunDirectory(str(tmp_path / "out")).results.step == 2


@pytest.mark.long
@pytest.mark.parametrize("num_train_steps", [2, 1000])
def test_evaluation_of_a_finished_run_ends(pretrain, trained, tmp_path, capsys, num_train_steps):
    pretrain(do_train=False, do_eval=True, num_train_steps=num_train_steps)
    out = capsys.readouterr().out
    assert ("--continuous_eval_timeout" in out) == (num_train_steps == 1000)
    assert len(evaluated(tmp_path / "out")) == 1


def test_evaluation_takes_held_out_records_and_says_if_it_does_not(
    pretrain, flags, trained, tmp_path, capsys
):
    held_out = write_records(tmp_path / "held.tfrecord", golden_batches()[4:9])
    [trained_on] = json.loads((tmp_path / "out" / "run.json").read_text())["input_files"]
    flags |= {"do_train": False, "do_eval": True, "input_file": trained_on}
    for files in ({"eval_input_file": held_out}, {"input_file": held_out}):
        pretrain(**files, albert_config_file="")  # that of the run
        out = capsys.readouterr().out
        assert "--eval_input_file" not in out and "--init_checkpoint" not in out
    other = tmp_path / "other.json"
    config = json.loads((tmp_path / "out" / "albert_config.json").read_text())
    other.write_text(json.dumps(config | {"num_attention_heads": 2}))
    with refuses("num_attention_heads=2 ... 4"):
        pretrain(albert_config_file=other)
    pretrain(init_checkpoint="gone")
    out = capsys.readouterr().out
    found = f"--init_checkpoint ... --output_dir ... {tmp_path}/out/model.ckpt-2"
    assert_says(out, "--eval_input_file", found)
    held, again, seen = evaluated(tmp_path / "out")
    assert held == pytest.approx(again, rel=1e-5) and held != pytest.approx(seen, rel=1e-5)
    pretrain(eval_input_file=f"{held_out},{flags['input_file']}")
    assert_says(capsys.readouterr().out, "--eval_input_file")


@pytest.mark.long
def test_a_later_evaluation_has_the_settings_of_the_training(pretrain, flags, tmp_path, capsys):
    held_out = write_records(tmp_path / "held.tfrecord", golden_batches()[4:])
    pretrain(sentence_loss_weight=0.2, do_eval=True, eval_input_file=held_out, max_eval_steps=2)
    best = RunDirectory(str(tmp_path / "out")).results
    names = {"input_file", "albert_config_file", "output_dir"}
    later = {name: value for name, value in flags.items() if name in names}
    flags.clear()
    flags |= later | {"do_train": False, "do_eval": True}
    capsys.readouterr()
    pretrain(eval_input_file=held_out)
    assert "--continuous_eval_timeout" not in capsys.readouterr().out
    losses = evaluated(tmp_path / "out")
    assert len(losses) == 3 and losses[2] == pytest.approx(losses[1], rel=1e-6)
    pretrain()  # on the training files: metrics, but no new best
    assert RunDirectory(str(tmp_path / "out")).results == best
    pretrain(eval_input_file=held_out, sentence_loss_weight=1.0)
    assert evaluated(tmp_path / "out")[4] > losses[2] + 0.1


def test_max_eval_steps_and_partial_batches_count_each_sequence_once(
    pretrain, flags, trained, tmp_path
):
    flags |= {"do_train": False, "do_eval": True}
    for batch_size, steps in ((4, 2), (8, 1), (3, 100)):
        rows = write_records(tmp_path / "eight.tfrecord", golden_batches()[:8])
        pretrain(eval_batch_size=batch_size, max_eval_steps=steps, eval_input_file=rows)
    values = evaluated(tmp_path / "out", "masked_lm_loss")
    np.testing.assert_allclose(values, values[0], rtol=1e-5)


@pytest.mark.usefixtures("in_graphs")
def test_evaluates_the_originals_checkpoint_to_the_originals_metrics(pretrain, tmp_path):
    folder = DATA.parent / "heads" / "pretrain_eval"
    golden = json.loads((folder / "metrics.json").read_text())
    arrays = read_arrays(folder / "inputs.npz")
    batches = [{k: arrays[f"{i}/{k}"] for k in schema()} for i in range(3)]
    rows = [
        {k: v[row] for k, v in b.items()} for b in batches for row in range(len(b["input_ids"]))
    ]
    pretrain(
        albert_config_file=DATA.parent / "heads" / "albert_config.json",
        input_file=write_records(tmp_path / "three.tfrecord", rows),
        init_checkpoint=folder / "model.ckpt",
        eval_batch_size=len(batches[0]["input_ids"]),
        do_train=False,
        do_eval=True,
    )
    values = tiny.values_of((tmp_path / "out" / "eval_results.txt").read_text())
    wanted = {name: golden[name] for name in objectives.PRETRAINING.metrics}
    wanted["loss"] = np.mean(golden["batch_total_losses"])
    assert {name: values[name] for name in wanted} == pytest.approx(wanted, abs=2e-5)


@pytest.mark.usefixtures("in_graphs")
def test_non_finite_loss_stops_with_step_and_last_good_checkpoint(pretrain, flags, tmp_path):
    flags |= {"learning_rate": 1e30, "num_train_steps": 20, "optimizer": "adamw"}
    flags |= {"save_checkpoints_steps": 10, "iterations_per_loop": 10}
    with refuses("model.ckpt-0 ... --learning_rate", error=metrics.NonFiniteError):
        pretrain()
    assert checkpoint_steps(tmp_path / "out") == [0]


@pytest.mark.parametrize("source", ["output_dir", "init_checkpoint"])
def test_weights_of_nan_are_not_blamed_on_the_learning_rate(pretrain, flags, tmp_path, source):
    values = read_variables(run_directory.find(str(DATA / "lamb_ckpt")))
    name = "bert/pooler/dense/kernel"
    values[name] = np.full_like(values[name], np.nan)
    (tmp_path / "bad").mkdir()
    prefix = golden_models.write(tmp_path / "bad" / "model.ckpt-2", values)
    flags |= {"output_dir": tmp_path / "new", source: tmp_path / "bad", "num_train_steps": 3}
    with refuses(f"{name} ... {prefix}") as error:
        pretrain()
    assert "learning_rate" not in str(error.value)


@pytest.mark.parametrize(
    "kind, searched",
    [
        (tf.errors.InvalidArgumentError, True),
        (tf.errors.DataLossError, True),
        (tf.errors.ResourceExhaustedError, False),
        (tf.errors.UnavailableError, False),
        (tf.errors.InternalError, False),
    ],
)
def test_a_bad_record_is_looked_for_when_data_can_be_the_cause(
    pretrain, monkeypatch, kind, searched
):
    calls = []

    def fail(*_):
        raise kind(None, None, "it failed")

    monkeypatch.setattr(pretraining, "_train", fail)
    monkeypatch.setattr(record_files, "find_bad_record", lambda *_: calls.append(1))
    with pytest.raises(kind, match="it failed"):
        pretrain()
    assert bool(calls) is searched


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_seq_length": 32}, "--max_seq_length=32 ... 24 ... batches.tfrecord"),
        ({"max_predictions_per_seq": 5}, "--max_predictions_per_seq=5 ... 6 ... batches.tfrecord"),
        ({"length_buckets": "8,x"}, "--length_buckets=8,x"),
        ({"length_buckets": "8,24"}, "--shuffle_buffer_size ... 1 ... 80"),
        ({"length_buckets": "0,16,8,32,8"}, "--shuffle_buffer_size ... 1 ... 120"),  # 8, 16, 24
    ],
)
def test_flags_that_make_no_sense(pretrain, changed, message):
    with refuses(message):
        pretrain(**changed)


@pytest.mark.long
def test_length_buckets_cut_batches(pretrain, flags, tmp_path, capsys):
    """To the same loss; sequences of the golden batches are of several lengths."""
    flags |= {"shuffle_buffer_size": 32, "num_train_steps": 1, "train_batch_size": 32}
    pretrain()
    pretrain(output_dir=tmp_path / "cut", length_buckets="16,8,20,22")
    assert "model_tflops_per_second" in curves(tmp_path / "out" / "train")
    assert "model_tflops_per_second" not in curves(tmp_path / "cut" / "train")
    assert_says(capsys.readouterr().out, "Warning ... --shuffle_buffer_size=32")
    whole, cut = (curves(tmp_path / name / "train")["loss"] for name in ("out", "cut"))
    np.testing.assert_allclose(cut, whole, rtol=1e-6)


def test_length_buckets_on_a_tpu(pretrain, flags, monkeypatch):
    monkeypatch.setattr(pretraining.devices, "is_tpu", lambda _: True)
    flags |= {"shuffle_buffer_size": 100, "length_buckets": 8}
    with refuses("--length_buckets"):
        pretrain()


@pytest.mark.long
def test_one_run_at_a_time_in_a_directory(pretrain, flags, tmp_path, capsys):
    """A second trainer is refused, an evaluator is not; after a SIGKILL the next one starts."""
    out = tmp_path / "out"
    values = flags | {"num_train_steps": 10**6, "save_checkpoints_steps": 10**6}
    arguments = [f"--{name}={value}" for name, value in values.items()]
    with subprocess.Popen(
        [sys.executable, run_pretraining.__file__, *arguments], stderr=subprocess.DEVNULL
    ) as first:
        try:
            while not (out / "checkpoint").exists() and first.poll() is None:
                time.sleep(0.1)
            with pytest.raises(UserError) as error:
                pretrain()
            assert_names(str(error.value), f"{out} ... {first.pid}")
            assert "is training there" in str(error.value)
            pretrain(do_train=False, do_eval=True)
            assert "Evaluation at step 0" in capsys.readouterr().out
        finally:
            first.send_signal(signal.SIGKILL)
    (out / "model.ckpt-7_temp").mkdir()  # as if it was killed while it saved
    assert (out / "training.lock").exists()
    pretrain()
    assert checkpoint_steps(out)[-1] == 2
    assert not list(out.glob("*.lock")) and not (out / "model.ckpt-7_temp").exists()


def test_bad_record_in_the_middle_is_found_and_named(pretrain, flags, tmp_path):
    good = list(tf.data.TFRecordDataset(str(flags["input_file"])).as_numpy_iterator())
    short = tf.train.Example.FromString(good[5])
    del short.features.feature["input_ids"].int64_list.value[20:]
    with tf.io.TFRecordWriter(str(flags["input_file"])) as writer:
        for i, record in enumerate(good):
            writer.write(short.SerializeToString() if i == 5 else record)
    with refuses("--max_seq_length=24 ... 20 ... record 6"):
        pretrain()
    good_file = write_records(tmp_path / "good.tfrecord", golden_batches())
    bad_file, flags["input_file"] = flags["input_file"], good_file
    with refuses("--max_seq_length=24 ... 20 ... record 6"):
        pretrain(do_eval=True, eval_input_file=bad_file)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("input_ids", 300, "0 ... 299 ... vocab_size ... --albert_config"),
        ("input_ids", 2**32 + 5, "0 ... 299"),  # 5 in int32
        ("segment_ids", 2, "0 ... 1 ... type_vocab_size"),
        ("masked_lm_positions", LENGTH, f"0 ... {LENGTH - 1} ... --max_seq_length"),
        ("masked_lm_weights", np.nan, "0"),
    ],
)
def test_values_out_of_range_are_named(pretrain, flags, tmp_path, name, value, allowed):
    """In a first record before anything is built, in one line."""
    rows = golden_batches()
    rows[0][name] = np.array([*rows[0][name][:-1], value])
    write_records(flags["input_file"], rows)
    message = f"{name} ... record 1 ... batches.tfrecord ... {float(value):.0f}"
    with refuses(f"{message} ... {allowed}") as error:
        pretrain()
    assert "\n" not in str(error.value)
    assert not checkpoint_steps(tmp_path / "out")


@pytest.mark.long
def test_what_is_rarely_meant_is_warned_of(pretrain, flags, tmp_path, capsys):
    pretrain(num_warmup_steps=2, start_warmup_step=1)
    out = capsys.readouterr().out
    assert_says(out, "Warning ... 2 ... --learning_rate", "Warning ... --start_warmup_step=1")
    assert "--train_batch_size" not in out  # a rate was given
    del flags["learning_rate"]
    pretrain(eval_input_file=flags["input_file"], output_dir=tmp_path / "new")
    wanted = "--train_batch_size=4 ... 5.5e-05", "--eval_input_file ... --do_eval"
    assert_says(capsys.readouterr().out, *wanted)


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_mixed_precision_trains_close_to_full(pretrain, trained, tmp_path, dtype):
    pretrain(output_dir=tmp_path / dtype, dtype=dtype)
    full, mixed = curves(tmp_path / "out/train"), curves(tmp_path / dtype / "train")
    np.testing.assert_allclose(mixed["loss"], full["loss"], rtol=2e-2)
    variables = read_variables(tmp_path / dtype / "model.ckpt-2")
    numbers = {"global_step", "seed", "loss_scale_steps"}
    assert {v.dtype for k, v in variables.items() if k not in numbers} == {np.dtype("float32")}


@pytest.fixture
def pretrain_in_two(run_script, flags):
    """Runs the script in two workers: pretrain_in_two(first, second) -> processes.

    Each dict holds the flags that a worker has in place of, or besides, those of `flags`.
    """

    def run(*changed):
        def work(index, environment):
            values = flags | {"distribution_strategy": "multi_worker_mirrored"} | changed[index]
            return run_script("run_pretraining", environment=environment, **values)

        return in_two_workers(work)

    return run


@pytest.mark.long
def test_two_workers_give_the_result_of_one(pretrain, pretrain_in_two, flags, tmp_path):
    flags |= {"do_eval": True, "num_train_steps": 3}
    pretrain()
    for done in pretrain_in_two(*[{"output_dir": tmp_path / "two"}] * 2):
        assert done.returncode == 0, done.stderr
    one, two = (read_variables(tmp_path / name / "model.ckpt-3") for name in ("out", "two"))
    for name, value in one.items():
        if "key/bias" not in name:
            np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    losses = [evaluated(tmp_path / name) for name in ("out", "two")]
    assert len(losses[0]) == 3
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.long
def test_workers_that_share_no_directory_are_told(pretrain_in_two, flags, trained, tmp_path):
    trained.rename(tmp_path / "worker-0")  # of two steps
    flags["num_train_steps"] = 4
    directories = [{"output_dir": tmp_path / f"worker-{index}"} for index in range(2)]
    for index, done in enumerate(pretrain_in_two(*directories)):
        line = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1
        assert_says(line, f"{(2, 0)[index]} ... --output_dir=")


@pytest.mark.long
def test_workers_that_are_given_different_flags_are_told(pretrain_in_two, flags):
    """With and without a seed or a length of training, they would wait for each other for ever."""
    del flags["seed"]
    others = {"seed": 3, "learning_rate": 0.002, "num_train_steps": 4}
    for done in pretrain_in_two({}, others):
        line = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1
        assert_names(line, "run_pretraining")
        assert "--learning_rate: 0.001 (worker 0), 0.002 (worker 1)" in line
        assert "--seed: None (worker 0), 3 (worker 1)" in line
        assert "--num_train_steps: 2 (worker 0), 4 (worker 1)" in line


WORKER = """
import runpy, sys
from albert_tf.training import metrics
metrics.CHECK_SECONDS = float(sys.argv.pop(1))
sys.argv[0] = "run_pretraining.py"
runpy.run_path("run_pretraining.py", run_name="__main__")
"""


@pytest.mark.long
def test_workers_report_at_the_same_steps_whatever_their_clocks_say(flags, tmp_path):
    """Reading the metrics is a collective: one worker that reads them alone fails."""
    del flags["seed"]  # they have to agree on a new one
    flags |= {"output_dir": tmp_path / "two", "num_train_steps": 40}
    flags |= {"distribution_strategy": "multi_worker_mirrored"}
    arguments = [f"--{name}={value}" for name, value in flags.items()]

    def work(index, environment):
        words = ["-c", WORKER, ("0", "1e6")[index], *arguments]
        # Some 15 s where nothing else runs.
        return run_python(*words, env=os.environ | environment, timeout=600)

    for done in in_two_workers(work):
        assert done.returncode == 0, done.stderr
        assert "eagerly" not in done.stderr  # a warning of TensorFlow about slow collectives
    assert run_directory.latest_in(str(tmp_path / "two")).endswith("model.ckpt-40")


@pytest.mark.long
def test_runs_as_a_user_runs_it_from_another_directory(run_script, flags, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run_script("run_pretraining", cwd=elsewhere, **flags | {"output_dir": "here"})
    assert done.returncode == 0, done.stderr
    assert_says(done.stdout, "2 ... here/model.ckpt-2")
    assert_names(done.stderr, "2")
    flags_text = (elsewhere / "here" / "flags.txt").read_text()
    assert "--optimizer=lamb\n" in flags_text and "--train_batch_size=4\n" in flags_text
