# SPDX-License-Identifier: Apache-2.0
"""Finding, tidying and copying checkpoints."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import loading, run_directory, source, writers
from tests.checkpoints.golden_models import (
    assert_same,
    copy,
    golden_config,
    read,
    save,
    scramble,
    training_state,
    values_of,
    write,
)
from tests.errors import assert_names, refuses


@pytest.fixture
def place(tmp_path):
    """Puts checkpoints of one number each into a directory; returns the directory."""
    directory = tmp_path / "run"

    def put(*names, state=None):
        directory.mkdir(exist_ok=True)
        for name in names:
            write(directory / name, {"x": np.float32(1)})
            (directory / f"{name}.meta").write_text("graph")
        if state is not None:
            (directory / "checkpoint").write_text(state)
        return directory

    return put


@pytest.mark.parametrize(
    "given",
    ["model.ckpt-best", "model.ckpt-best.index", "model.ckpt-best.meta",
     "model.ckpt-best.data-00000-of-00001", "", "/"],
)  # fmt: skip
def test_every_form_of_a_path_finds_the_checkpoint(given, place):
    directory = place("model.ckpt-best")
    path = str(directory) + given if given in ("", "/") else str(directory / given)
    assert run_directory.find(path) == str(directory / "model.ckpt-best")


def state_of(path):
    return f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'


@pytest.mark.parametrize(
    "names, state, expected",
    [
        # what the `checkpoint` file names, be it relative or of another place
        (["model.ckpt-5", "model.ckpt-9"], state_of("model.ckpt-5"), "model.ckpt-5"),
        (["model.ckpt-best", "model.ckpt-9"], state_of("/cns/x/model.ckpt-best"),
         "model.ckpt-best"),
        (["model.ckpt-5", "model.ckpt-9"], state_of("/cns/xy-d/home/model.ckpt-5"), "model.ckpt-5"),
        # it names what exists nowhere, is no such file, or is not there
        (["model.ckpt-5", "model.ckpt-10"], state_of("/cns/x/model.ckpt-7"), "model.ckpt-10"),
        (["model.ckpt-5"], "no text of this kind {", "model.ckpt-5"),
        (["model.ckpt-5", "model.ckpt-10", "model.ckpt-9"], None, "model.ckpt-10"),
        (["model.ckpt-best", "bert_model.ckpt"], None, "model.ckpt-best"),
        (["bert_model.ckpt"], None, "bert_model.ckpt"),
    ],
)  # fmt: skip
def test_which_checkpoint_of_a_directory(names, state, expected, place, caplog):
    directory = place(*names, state=state)
    assert run_directory.find(str(directory)) == str(directory / expected)
    assert state or not caplog.records  # without a state file there is nothing to warn of


def test_the_name_of_a_directory_is_no_pattern(tmp_path):
    for name, step in (("run[1]", 3), ("run1", 4)):
        (tmp_path / name).mkdir()
        for ending in (".index", ".data-00000-of-00001", "_temp"):
            (tmp_path / name / f"model.ckpt-{step}{ending}").touch()
        (tmp_path / name / f"{step}.model").touch()
    directory = str(tmp_path / "run[1]")
    prefix = f"{directory}/model.ckpt-3"
    assert run_directory.numbered_in(directory) == [(3, prefix)]
    assert source.Source(directory).vocabulary_file() == f"{directory}/3.model"
    run_directory.tidy(directory)
    run_directory.delete(prefix)
    assert [path.name for path in (tmp_path / "run[1]").iterdir()] == ["3.model"]
    assert len([*(tmp_path / "run1").iterdir()]) == 4


@pytest.mark.parametrize(
    "state", [b"", b"\xff\xfe\x00", b"no text of this kind {", state_of("/x/model.ckpt-7").encode()]
)
def test_an_unusable_state_file_is_reported_in_one_line(state, place, caplog):
    directory = place("model.ckpt-5", "model.ckpt-10", state="")
    (directory / "checkpoint").write_bytes(state)
    for _ in range(2):
        assert run_directory.latest_in(str(directory)) == str(directory / "model.ckpt-10")
    (line,) = (record.getMessage() for record in caplog.records)
    assert "\n" not in line
    assert_names(line, f"{directory}/checkpoint ... {directory}/model.ckpt-10")


@pytest.mark.parametrize("state", [b"", b"\xff\xfe\x00", b"no text of this kind {"])
@pytest.mark.parametrize("names", [[], ["model.ckpt-5", "model.ckpt-10"]])
def test_tidy_makes_a_directory_usable_again(names, state, place):
    directory = place(*names, state="")
    (directory / "checkpoint").write_bytes(state)
    unfinished = directory / "model.ckpt-15_temp"
    unfinished.mkdir()
    (unfinished / "part-00000-of-00001.data-00000-of-00001").write_text("half")
    run_directory.tidy(str(directory))
    assert not unfinished.exists()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(directory), 5)
    assert [Path(path).name for path in manager.checkpoints] == names  # old ones to be deleted
    assert run_directory.latest_in(str(directory)) == manager.latest_checkpoint


def test_tidy_leaves_a_usable_directory_alone(place):
    directory = place("model.ckpt-5", "model.ckpt-10", state=state_of("model.ckpt-5"))
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    run_directory.tidy(str(directory))
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_directory_may_name_a_checkpoint_elsewhere_and_reads_its_own_first(place, tmp_path):
    original = place("model.ckpt-5")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "checkpoint").write_text(state_of(original / "model.ckpt-5"))
    assert run_directory.find(str(copy)) == str(original / "model.ckpt-5")
    write(copy / "model.ckpt-5", {"x": np.float32(2)})
    assert run_directory.latest_in(str(copy)) == str(copy / "model.ckpt-5")


@pytest.mark.parametrize("names, found", [([], ".index"), (["b.ckpt", "a.ckpt"], "a.ckpt, b.ckpt")])
def test_a_directory_that_does_not_tell(names, found, place):
    directory = str(place(*names))
    with refuses(f"{directory} ... {found}"):
        run_directory.find(directory)


def test_a_path_without_checkpoint_is_named(place):
    directory = place("model.ckpt-5")
    (directory / "albert_config.json").write_text("{}")
    for name in ("model.ckpt-6", "model.ckpt", "albert_config.json", "none/model.ckpt-5"):
        path = str(directory / name)
        with refuses(f"{path} ... {path}.index"):
            run_directory.find(path)


@pytest.mark.parametrize(
    "made, named",
    [
        ("snapshots/1a2b/model.safetensors", "run/snapshots/1a2b"),
        ("checkpoint-500/model.safetensors", "run/checkpoint-500"),
        ("albert_base/model.ckpt-best.index", "run/albert_base"),
        ("albert_base_v2.tar.gz", "run/albert_base_v2.tar.gz"),
        ("model.ckpt-5.data-00000-of-00001", "run/model.ckpt-5.index"),
    ],
)
def test_what_lies_in_a_directory_without_checkpoint_is_named(made, named, tmp_path):
    path = tmp_path / "run" / made
    path.parent.mkdir(parents=True)
    path.touch()
    with refuses(f"{tmp_path}/{named}"):
        run_directory.find(str(tmp_path / "run"))


def test_archives_and_halves_of_checkpoints_are_named(tmp_path):
    for name in ("albert_base.tar.gz", "model.ckpt-5.data-00000-of-00001"):
        (tmp_path / name).touch()
    with refuses("albert_base.tar.gz is an archive"):
        run_directory.find(f"{tmp_path}/albert_base.tar.gz")
    with refuses("model.ckpt-5.index is missing"):
        run_directory.find(f"{tmp_path}/model.ckpt-5")


def test_latest_in_a_directory_that_holds_none(tmp_path, place):
    for directory in (tmp_path, tmp_path / "nowhere", place("model.ckpt-best")):
        assert run_directory.latest_in(str(directory)) is None


@pytest.mark.parametrize(
    "name, step",
    [("model.ckpt-5", 5), ("a/model.ckpt-0", 0), ("model.ckpt-best", None), ("run-3/ckpt", None)],
)
def test_step_of_a_prefix(name, step):
    assert run_directory.step_of(name) == step


def test_a_copy_can_be_loaded_and_replaces_the_one_before(tmp_path):
    target = str(tmp_path / "best" / run_directory.BEST)
    for seed in (1, 2):
        state, _ = training_state(golden_config())
        scramble(state, seed)
        prefix = save(state, tmp_path, seed)
        copy(prefix, target)
        other, _ = training_state(golden_config())
        loading.restore(target, other)
        assert_same(values_of(other), values_of(state))
    left = {path.name for path in (tmp_path / "best").iterdir()}
    assert left == {run_directory.BEST + suffix for suffix in (".data-00000-of-00001", ".index")}


def test_new_data_never_lies_next_to_an_old_index(tmp_path, monkeypatch):
    prefix = write(tmp_path / "model.ckpt-1", {"x": np.float32(1)})
    target = str(tmp_path / run_directory.BEST)
    write(Path(target), {"x": np.float32(2)})
    rename, renamed = tf.io.gfile.rename, []

    def noting(source, target, overwrite):
        assert not Path(f"{tmp_path}/{run_directory.BEST}.index").exists()
        renamed.append(Path(target).name)
        rename(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", noting)
    copy(prefix, target)
    # The index comes last: what looks for a checkpoint looks for it.
    assert renamed == [f"{run_directory.BEST}{ending}" for ending in writers.ENDINGS]
    assert read(target) == {"x": 1, "global_step": 0}


def test_a_copy_that_fails_leaves_the_one_before(tmp_path, monkeypatch):
    def fail(prefix, _):
        Path(f"{prefix}.data-00000-of-00001").write_text("half")
        raise OSError("no space")

    prefix = write(tmp_path / "model.ckpt-1", {"x": np.float32(1)})
    target = str(tmp_path / run_directory.BEST)
    copy(prefix, target)
    monkeypatch.setattr(writers, "WRITERS", dict.fromkeys(writers.WRITERS, fail))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(OSError, match="no space"):
        copy(write(tmp_path / "model.ckpt-2", {"x": np.float32(2)}), target)
    assert read(target) == {"x": 1, "global_step": 0}
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {f"model.ckpt-2{ending}" for ending in writers.ENDINGS} == {*before}
