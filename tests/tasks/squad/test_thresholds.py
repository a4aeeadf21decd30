# SPDX-License-Identifier: Apache-2.0
"""Which threshold of SQuAD 2.0 belongs to which models."""

import dataclasses

import pytest

from albert_tf import state_files
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import NoAnswerThreshold, RunDirectory, RunSettings
from albert_tf.tasks.squad import squad
from tests.errors import assert_says
from tests.model.small_config import PLAIN


def write_model(directory, threshold=None, given=None):
    """A directory that seems to hold a trained model; returns the prefix of its checkpoint."""
    directory.mkdir()
    for ending in (".index", ".data-00000-of-00001"):
        (directory / f"model.ckpt-best{ending}").write_bytes(b"")
    folder = RunDirectory(str(directory))
    if threshold is not None:
        folder.write_threshold(NoAnswerThreshold(threshold, "dev.json"))
    if given is not None:
        config, flags = dataclasses.asdict(PLAIN), {squad.THRESHOLD: given}
        settings = RunSettings(config=config, text={}, flags=flags)
        state_files.write(folder.file(run_directory.SETTINGS), settings)
    return str(directory / "model.ckpt-best")


@pytest.fixture
def models(tmp_path):
    return [write_model(tmp_path / "a", 1.0), write_model(tmp_path / "b", 2.0)]


def test_the_threshold_of_a_model_is_not_that_of_an_ensemble_with_it(models, tmp_path):
    for number, wanted in (("a", 1.5), ("out", 1.5)):
        assert squad.tuned_threshold(str(tmp_path / number), models) == wanted
    assert squad.tuned_threshold(str(tmp_path / "a"), models[:1]) == 1.0


def test_a_threshold_of_other_models_is_not_taken(models, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    folder = RunDirectory(str(tmp_path / "out"))
    folder.write_threshold(NoAnswerThreshold(7.0, "dev.json", tuple(models)))
    assert squad.tuned_threshold(folder.path, models[::-1]) == 7.0
    assert "threshold = 7.0 (tuned on dev.json)" in capsys.readouterr().out
    assert squad.tuned_threshold(folder.path, models[:1]) == 1.0
    folder.write_threshold(NoAnswerThreshold(7.0, "dev.json"))  # as earlier versions wrote it
    assert squad.tuned_threshold(folder.path, models[:1]) == 7.0


def test_a_threshold_given_for_the_training_is_used_until_one_is_tuned(tmp_path, capsys):
    prefix, directory = write_model(tmp_path / "a", given=-3.0), str(tmp_path / "a")
    assert squad.tuned_threshold(directory, [prefix]) == -3.0
    assert_says(capsys.readouterr().out, "threshold ... -3.0 ... training")
    RunDirectory(directory).write_threshold(NoAnswerThreshold(7.0, "dev.json", (prefix, "other")))
    assert squad.tuned_threshold(directory, [prefix]) == -3.0  # that one is of an ensemble
    RunDirectory(directory).write_threshold(NoAnswerThreshold(0.5, "dev.json"))
    assert squad.tuned_threshold(directory, [prefix]) == 0.5


def test_without_any_threshold_both_cases_are_equally_likely(models, tmp_path, capsys):
    prefix = write_model(tmp_path / "c")
    for directory, some in (("c", [prefix]), ("out", [*models, prefix])):
        assert squad.tuned_threshold(str(tmp_path / directory), some) == 0.0
        assert_says(capsys.readouterr().out, "threshold ... 0.0")
