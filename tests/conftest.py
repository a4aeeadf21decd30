# SPDX-License-Identifier: Apache-2.0
"""What tests share: quiet TensorFlow, and the real data where it is."""

import faulthandler
import gc
import json
import os
import subprocess
import sys

import pytest

from tests import ROOT, SHARED, tiny
from tests.processes import run_python
from tests.script_flags import flags_of, no_flags

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


# Folders whose files take longest.
LONGEST = ("api", "experiments", "publish", "scripts", "training")


def pytest_collection_modifyitems(items):
    """Begins with the longest files, so that no process waits for another one at the end."""
    items.sort(key=lambda item: item.path.parent.name not in LONGEST)


def pytest_collection_finish(session):
    """Makes the many small graphs cheap: tracing them, not running them, takes the time."""
    _optimize_graphs(False)  # they run as they were traced, except with the fixture `optimized`
    # What was imported stays, and graphs are made of many objects that live as long as they do.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def _optimize_graphs(on):
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not on})


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    """Ends a process that hangs after its last test, and prints where."""
    if hasattr(session.config, "workerinput"):  # a process of pytest-xdist
        faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """Ends a process of pytest-xdist at once: its graphs need not be freed one by one.

    pytest collects garbage several times here, which can take longer than execnet waits.
    """
    if hasattr(config, "workerinput"):
        os._exit(0)


def pytest_runtest_setup(item):
    if item.get_closest_marker("shared_data") and not (SHARED / "data").is_dir():
        pytest.skip("needs the real data sets in ../shared/data, next to the repository")


@pytest.fixture(autouse=True)
def own_precision():
    """Takes back what --dtype sets, which is of the process: other tests compute in float32."""
    yield
    if "tf_keras" in sys.modules:
        from albert_tf.training import devices

        devices.set_precision("fp32")


@pytest.fixture(scope="module")
def eagerly():
    """Runs steps without tracing them, for tests of what surrounds few small steps."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def in_graphs(eagerly):
    """Runs steps as users do, where others of the module do so eagerly."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(True)


@pytest.fixture
def optimized(in_graphs):
    """Runs steps and exports as users do: in graphs that TensorFlow optimizes."""
    _optimize_graphs(True)
    yield
    _optimize_graphs(False)


@pytest.fixture
def shared_data():
    """Path of ../shared/data; for tests with the marker `shared_data`."""
    return SHARED / "data"


def _arguments(values):
    """Words of a command; a flag with a list is repeated."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    return [f"--{name}={value}" for name, values in lists.items() for value in values]


@pytest.fixture(scope="session")
def run_main():
    """Runs a script's `main` in this process: run_main(module, flag=value, ...)."""

    def run(module, **values):
        from albert_tf.cli import flag_groups, launch

        with flags_of(module) as known:
            known([module.__name__, *_arguments(values)])
            launch.check_words([])
            module.main(flag_groups.read())

    return run


@pytest.fixture(scope="session")
def run_once(tmp_path_factory, run_main):
    """Runs a script once with the same flags: run_once(script, config, **flags) -> its folder.

    The folder holds config.json, `out` and, with export=True, `export`. Others read it too: who
    changes a file of it copies it first.
    """
    folders = {}

    def run(script, config, export=False, **flags):
        key = repr((script.__name__, config, export, sorted(flags.items())))
        if key not in folders:
            folder = folders[key] = tmp_path_factory.mktemp(script.__name__)
            (folder / "config.json").write_text(json.dumps(config))
            places = {"albert_config_file": folder / "config.json", "output_dir": folder / "out"}
            if export:
                places["export_dir"] = folder / "export"
            run_main(script, **flags, **places)
        return folders[key]

    return run


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """The directory of a release with random weights, which no test changes."""
    return tiny.write_release(tmp_path_factory.mktemp("release"))


@pytest.fixture
def launched(capsys, monkeypatch):
    """As `run_script`, but in this process: launched(module, *words, flag=value, ...)."""

    def run(module, *words, **values):
        name = module.__name__.rpartition(".")[2]
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *_arguments(values), *words])
        capsys.readouterr()
        with no_flags(), pytest.raises(SystemExit) as end:
            module.run()
        return subprocess.CompletedProcess(sys.argv, end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def run_script():
    """Runs a script as a user does: run_script("run_x", flag=value, ...) -> completed process."""

    def run(script, cwd=None, environment=None, **values):
        path, env = ROOT / f"{script}.py", {**os.environ, **(environment or {})}
        return run_python(path, *_arguments(values), cwd=cwd, env=env)

    return run
