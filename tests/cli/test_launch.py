# SPDX-License-Identifier: Apache-2.0
"""What scripts share: checks of flags, locks, the one line of an error."""

import os

import pytest
import tensorflow as tf

import create_pretraining_data
from albert_tf import locks, options
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import one_line
from albert_tf.training import devices, runs
from tests.errors import refuses
from tests.processes import run_python
from tests.script_flags import flags_of, module_of

HELD_OUT = {"heldout_fraction": 0.5}


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"output_file": ""}, "--output_file"),
        (HELD_OUT | {"heldout_output_file": ","}, "--heldout_output_file"),
        (HELD_OUT | {"heldout_output_file": "a@0"}, "--heldout_output_file=a@0 ... 1"),
    ],
)
def test_bad_names_of_output_files_are_refused(run_main, tmp_path, outputs, message):
    (tmp_path / "x").write_text("")
    flags = {"input_file": tmp_path / "x", "spm_model_file": tmp_path / "x", "output_file": "y"}
    with refuses(message):
        run_main(create_pretraining_data, **flags | outputs)


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
        for name in names:
            with refuses(name), locks.locked(str(tmp_path), name):
                pass
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


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


def test_a_script_imports_neither_keras_3_nor_what_only_evaluations_need():
    code = """
import sys
from albert_tf.cli import launch

def main(_):
    import albert_tf.api.load
    print({"keras", "sklearn", "scipy.stats"} & {*sys.modules}, "tf_keras" in sys.modules)

sys.argv = ["script.py"]
launch.run(main, lambda: None)
"""
    clean = {name: text for name, text in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    done = run_python("-c", code, env=clean, check=True)
    assert done.stdout == "set() True\n"


@pytest.mark.long
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_while_tensorflow_makes_an_exception_stops_a_script(name):
    code = """
import os, signal, sys
from albert_tf.cli import launch

def main(_):
    import tensorflow as tf

    make = tf.errors.NotFoundError.__init__

    def interrupted(*values):
        os.kill(os.getpid(), signal.NAME)
        make(*values)

    tf.errors.NotFoundError.__init__ = interrupted
    tf.io.gfile.exists("none")

signal.signal(signal.NAME, signal.SIG_DFL)  # tests may run in the background or under nohup
sys.argv = ["script.py"]
launch.run(main, lambda: None)
"""
    done = run_python("-c", code.replace("NAME", name))
    assert done.returncode == 130
    assert done.stderr.endswith("script: stopped\n") and "Traceback" not in done.stderr


def test_paths_may_begin_at_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with flags_of(module_of("run_pretraining")) as flags:
        flags(["x", "--output_dir=~/out", "--input_file=~/a,~/b", "--optimizer=lamb"])
        given = flag_groups.read()
    assert given.output_dir == f"{tmp_path}/out"
    assert given.input_file == f"{tmp_path}/a,{tmp_path}/b"
