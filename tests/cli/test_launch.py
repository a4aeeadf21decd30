# SPDX-License-Identifier: Apache-2.0
"""What scripts share: checks of flags, locks, the one line of an error."""

import contextlib
import os

import pytest
import tensorflow as tf

import create_pretraining_data
import export_checkpoints
import export_to_tfhub
import run_classifier
import run_pretraining
import run_race
import run_squad
from albert_tf import locks, options
from albert_tf.cli import launch
from albert_tf.errors import UserError, one_line
from albert_tf.training import devices, runs
from tests.processes import run_python

PATHS = {"data_dir": "none", "output_dir": "out", "albert_config_file": "none", "input_file": "x"}
PATHS |= {
    "albert_directory": "none",
    "export_path": "x/y",
    "task_name": "RTE",
    "spm_model_file": "x",
}
PATHS |= {"output_file": "x"}
REQUIRED = {
    create_pretraining_data: ["input_file", "output_file", "spm_model_file"],
    export_checkpoints: ["albert_directory", "export_path"],
    export_to_tfhub: ["albert_directory", "export_path"],
    run_classifier: ["data_dir", "task_name", "output_dir"],
    run_pretraining: ["albert_config_file", "input_file", "output_dir"],
    run_race: ["data_dir", "output_dir"],
    run_squad: ["output_dir"],
}


@pytest.mark.parametrize(
    "script, flag",
    [
        (run_classifier, "output_dir"), (run_classifier, "export_dir"),
        (run_pretraining, "output_dir"), (run_race, "output_dir"), (run_race, "export_dir"),
        (run_squad, "output_dir"), (run_squad, "export_dir"),
        (export_checkpoints, "export_path"), (export_checkpoints, "albert_directory"),
        (export_to_tfhub, "export_path"), (export_to_tfhub, "albert_directory"),
    ],
)  # fmt: skip
def test_an_empty_path_is_refused(run_main, script, flag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = {name: PATHS[name] for name in REQUIRED[script]} | {flag: ""}
    with pytest.raises(UserError, match=f"--{flag} is empty"):
        run_main(script, **flags)
    assert not list(tmp_path.iterdir())


def test_an_empty_output_file_is_refused(run_main, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("")
    flags = {name: PATHS[name] for name in REQUIRED[create_pretraining_data]}
    with pytest.raises(UserError, match="--output_file is empty"):
        run_main(create_pretraining_data, **flags | {"output_file": ""})


TRAIN, EVALUATE = {"do_train": True}, {"do_eval": True}
PREDICT, BOTH = {"do_predict": True}, {"do_train": True, "do_eval": True}


def locked(directory, parts):
    """The context in which a run with these parts works."""
    nothing = dict.fromkeys(("do_train", "do_eval", "do_predict"), False)
    settings = options.FineTuning(output_dir=str(directory), train_steps=1, **nothing | parts)
    return runs.locked(settings, tf.distribute.get_strategy())


@pytest.mark.parametrize(
    "parts, names",
    [
        (TRAIN, ["training"]),
        (EVALUATE, ["evaluating"]),
        (PREDICT, ["evaluating"]),
        (BOTH, ["evaluating", "training"]),
    ],
)
def test_what_a_run_locks_and_gives_up(parts, names, tmp_path):
    with pytest.raises(KeyboardInterrupt), locked(tmp_path, parts):
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n}.lock" for n in names]
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "purpose, parts, refused",
    [
        ("training", TRAIN, True),
        ("training", EVALUATE, False),
        ("training", BOTH, True),
        ("evaluating", TRAIN, False),
        ("evaluating", EVALUATE, True),
        ("evaluating", BOTH, True),
    ],
)
def test_who_may_work_next_to_whom(purpose, parts, refused, tmp_path):
    expected = contextlib.nullcontext()
    if refused:
        expected = pytest.raises(UserError, match=f"is {purpose} there")
    with locks.locked(str(tmp_path), purpose):
        with expected, locked(tmp_path, parts):
            assert not refused
        assert [path.name for path in tmp_path.iterdir()] == [f"{purpose}.lock"]


@pytest.mark.parametrize("is_chief", [True, False])
def test_only_the_chief_locks(is_chief, monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "is_chief", lambda _: is_chief)
    with locked(tmp_path, EVALUATE):
        found = list(tmp_path.iterdir())
    assert [path.name for path in found] == ["evaluating.lock"] * is_chief


IN_GRAPH = (
    "Graph execution error:\n\nDetected at node a/b defined at:\n<none>\nOOM at [8]\n"
    "\t [[{{node a/b}}]]\nHint: none [Op:__inference_1]"
)

UNKNOWN = "File system scheme 'foo' not implemented (file: 'foo://x')"
OUT_OF_REACH = tf.errors.FailedPreconditionError(
    None, None, "Could not resolve host: x\n\t when reading metadata of gs://nowhere/y"
)


@pytest.mark.parametrize(
    "error, line",
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM at [8]\nHint: none"), "OOM at [8]"),
        (tf.errors.ResourceExhaustedError(None, None, IN_GRAPH), "OOM at [8]"),
        (tf.errors.UnavailableError(None, None, ""), "UnavailableError"),
        (MemoryError(), "MemoryError"),
        (OUT_OF_REACH, "Could not resolve host: x when reading metadata of gs://nowhere/y"),
        (tf.errors.UnimplementedError(None, None, UNKNOWN), UNKNOWN),
    ],
)
def test_errors_of_the_machine_take_one_line(error, line):
    assert launch._is_for_users(error)
    assert one_line(error) == line


@pytest.mark.parametrize("script", [export_checkpoints, export_to_tfhub])
def test_a_file_in_place_of_a_directory(run_main, script, tmp_path):
    (tmp_path / "model.ckpt").write_text("x")
    with pytest.raises(UserError, match="is a file: give a directory"):
        run_main(script, albert_directory=tmp_path / "model.ckpt", export_path=tmp_path / "out")


def test_a_script_imports_neither_keras_3_nor_what_only_evaluations_need():
    code = """
import sys
from albert_tf.cli import launch

def main(_):
    import albert_tf.api.load
    print({"keras", "sklearn", "scipy.stats"} & {*sys.modules}, "tf_keras" in sys.modules)

sys.argv = ["script.py"]
launch.run(main)
"""
    clean = {name: text for name, text in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    done = run_python("-c", code, env=clean, check=True)
    assert done.stdout == "set() True\n"


def test_a_signal_while_tensorflow_makes_an_exception_stops_a_script():
    code = """
import os, signal, sys
from albert_tf.cli import launch

def main(_):
    import tensorflow as tf

    make = tf.errors.NotFoundError.__init__

    def interrupted(*values):
        os.kill(os.getpid(), signal.SIGTERM)
        make(*values)

    tf.errors.NotFoundError.__init__ = interrupted
    tf.io.gfile.exists("none")

sys.argv = ["script.py"]
launch.run(main)
"""
    done = run_python("-c", code)
    assert done.returncode == 130
    assert done.stderr.endswith("script: stopped\n") and "Traceback" not in done.stderr
