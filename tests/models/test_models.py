# SPDX-License-Identifier: Apache-2.0
"""Packaged models by name, with a small random one in the place of those of the package."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

import albert_tf
import export_checkpoints
import run_classifier
import run_pretraining
from albert_tf import models, similarity
from albert_tf.api import inspect
from albert_tf.checkpoints import loading, readers, source
from albert_tf.cli import minimal_pairs, predict
from albert_tf.config import AlbertConfig
from tests import tiny
from tests.checkpoints.golden_models import named_model
from tests.errors import assert_names, refuses
from tests.processes import run_python
from tests.test_similarity import write_pairs

pytestmark = pytest.mark.usefixtures("eagerly")

NAME = "tiny-model"
TEXT = "the [MASK] of the house"


@pytest.fixture(scope="module")
def directory(release, run_main):
    """The same in the form of a packaged model."""
    path = release.parent / f"{release.name}-models" / NAME
    run_main(
        export_checkpoints,
        albert_directory=release, export_path=path, export_format="hf", dtype="fp16",
    )  # fmt: skip
    return path


@pytest.fixture
def packaged(directory, monkeypatch, tmp_path):
    """The package holds only this model, and the working directory nothing: its directory."""
    monkeypatch.setattr(models, "DIRECTORY", str(directory.parent))
    monkeypatch.chdir(tmp_path)
    return directory


def answer(path, **arguments):
    return albert_tf.load(path, **arguments).fill_mask(TEXT)


def test_a_name_stands_for_the_directory(packaged, release):
    (packaged.parent / "no-model").mkdir(exist_ok=True)
    assert models.paths() == {NAME: str(packaged)}
    assert answer(NAME) == answer(packaged)
    found = source.find(NAME)
    assert (found.directory, found.read_config()) == (
        str(packaged), AlbertConfig.from_json_file(str(release / "albert_config.json"))
    )  # fmt: skip


def test_a_path_comes_before_a_name(packaged, release):
    shutil.copytree(release, NAME)
    assert source.find(NAME).checkpoint == f"{NAME}/model.ckpt-best"


def test_an_unknown_name_is_an_error_with_the_known_ones(packaged, launched, monkeypatch, tmp_path):
    with refuses(NAME):
        albert_tf.load("tiny")
    for name in ("tiny", f"{NAME}/x"):
        done = launched(predict, model=name, fill_mask=TEXT)
        assert done.returncode == 1
        assert_names(done.stderr, f"--model={name} ... {NAME}")
    monkeypatch.setattr(models, "DIRECTORY", str(tmp_path))  # without models
    with refuses(NAME) as caught:
        albert_tf.load(NAME)
    assert "packaged" not in str(caught.value)


def test_half_precision_takes_half_the_space_and_keeps_the_answers(packaged, release):
    in_file = safetensors.numpy.load_file(packaged / "model.safetensors").values()
    assert {array.dtype for array in in_file} == {np.dtype(np.float16)}
    ours, theirs = (
        loading.read_weights(str(path), named_model(AlbertConfig.from_dict(tiny.WIDE)))[0]
        for path in (packaged, release)
    )
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, theirs[name].astype(np.float16), err_msg=name)
    # With random weights the best pieces nearly tie, so their order may differ.
    for half, whole in zip(*(answer(path)[0] for path in (NAME, release)), strict=True):
        assert half["probability"] == pytest.approx(whole["probability"], rel=0.01)


def test_commands_that_take_a_name(packaged, launched, tmp_path, capsys):
    (filled,) = launched(predict, model=NAME, fill_mask=TEXT).stdout.splitlines()
    assert json.loads(filled)["masks"] == answer(NAME)
    (tmp_path / "lines.txt").write_text("the old house\n")
    lines = tmp_path / "lines.txt"
    (scored,) = launched(predict, "--score", model=NAME, input_file=lines).stdout.splitlines()
    assert json.loads(scored)["log_prob"] < 0
    (tmp_path / "pairs.tsv").write_text("the old house\thouse old the\n")
    done = launched(minimal_pairs, model=NAME, input_file=tmp_path / "pairs.tsv")
    assert "all pairs" in done.stdout
    pairs = [("the house", "the old house", 3.0), ("the man", "of the house", 1.0)]
    assert similarity.main([NAME, str(write_pairs(tmp_path / "sts.tsv", pairs))]) == 0
    assert inspect.main([NAME]) == 0
    assert f"vocabulary: {packaged}/spiece.model, 3,000 pieces" in capsys.readouterr().out


def test_fine_tuning_takes_config_and_vocabulary_from_it(packaged, run_main, tmp_path, capsys):
    flags = tiny.CLASSIFIER | {"init_checkpoint": NAME, "output_dir": tmp_path / "out"}
    flags |= {"do_eval": False, "do_predict": False, "train_step": 1, "max_seq_length": 48}
    del flags["spm_model_file"], flags["allow_random_init"]
    run_main(run_classifier, **flags)
    printed = capsys.readouterr().out
    assert f"Using {packaged}/spiece.model and {packaged}/config.json" in printed
    assert f"variables from {packaged}/model.safetensors" in printed
    recorded = json.loads((tmp_path / "out" / "run.json").read_text())
    assert recorded["flags"]["init_checkpoint"] == NAME
    config = AlbertConfig.from_json_file(str(tmp_path / "out" / "albert_config.json"))
    assert config == source.read_config(str(packaged / "config.json"))


@pytest.mark.long
def test_pretraining_goes_on_from_it(packaged, run_main, tmp_path, capsys):
    flags = tiny.many_steps(tmp_path) | {
        "distribution_strategy": "one_device",
        "num_train_steps": 1,
        "spm_model_file": packaged / "spiece.model",
        "init_checkpoint": NAME,
    }
    del flags["albert_config_file"], flags["vocab_file"]
    run_main(run_pretraining, **flags)
    assert f"variables from {packaged}/model.safetensors" in capsys.readouterr().out
    shapes = readers.open_reader(str(tmp_path / "out" / "model.ckpt-1")).shapes
    config = AlbertConfig.from_dict(tiny.WIDE)
    expected = {name: v.shape.as_list() for name, v in named_model(config).items()}
    assert expected.items() <= shapes.items()


def test_pretraining_without_config_and_weights_is_an_error(launched, tmp_path):
    done = launched(run_pretraining, input_file=__file__, output_dir=tmp_path)
    assert done.returncode == 1
    assert_names(done.stderr, "--albert_config_file ... --init_checkpoint ... albert_config.json")


def test_the_command_prints_where_they_are():
    done = run_python("-X", "importtime", "-m", "albert_tf.models", check=True)
    lines = [f"{name}  {path}" for name, path in models.paths().items()]
    assert done.stdout == "\n".join(lines) + "\n"
    assert "tensorflow" not in done.stderr  # in the list of imported modules
