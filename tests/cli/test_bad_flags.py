# SPDX-License-Identifier: Apache-2.0
"""Bad values of flags in all commands: one plain line that names the flag, first of all."""

import importlib
import re
import sys

import pytest

from albert_tf.cli import flag_groups, launch
from albert_tf.errors import COMMANDS, as_called
from tests import ROOT
from tests.conftest import flags_of

# Scripts whose define_flags and main lie in the package.
IN_PACKAGE = ("make_config", "predict", "train_sentencepiece")


def module_of(script):
    return importlib.import_module(f"albert_tf.cli.{script}" if script in IN_PACKAGE else script)


def names_of(script, test):
    """Names of the script's flags that pass a test: list of str."""
    with flags_of(module_of(script)):
        return [flag.name for flag in flag_groups.own_flags() if test(flag)]


def is_path(flag):
    return flag.option.metadata["is_path"]


def answer_to(script, launched, *words):
    """What the command says to these words: its one line on standard error."""
    done = launched(module_of(script), *words)
    start, _, message = done.stderr.partition(": error: ")
    assert (done.returncode, start) == (1, script) and message.count("\n") == 1
    return message


@pytest.mark.parametrize("script", COMMANDS)
@pytest.mark.parametrize(
    "value, message",
    [
        ("https://example.org/x", "nothing is downloaded. Download it first"),
        ("http://example.org/x", "nothing is downloaded"),
        ("none\udcff", "a path must be UTF-8"),
        ("{loop}/x", "Too many levels of symbolic links"),
    ],
)
def test_paths_that_no_file_can_have(script, value, message, launched, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    value = value.replace("{loop}", str(tmp_path / "loop"))
    paths = names_of(script, is_path)
    assert len(paths) > 1
    for name in paths:  # whether what is required is given or not
        said = answer_to(script, launched, f"--{name}={value}")
        assert said.startswith(f"--{name}=") and message in said
    required = [f"--{name}=none" for name in names_of(script, flag_groups.is_required)]
    assert message in answer_to(script, launched, *required, f"--{paths[0]}={value}")


@pytest.mark.parametrize(
    "script, words, message",
    [
        ("run_pretraining", "--dtype=float16", "--dtype=float16: value should be one of"),
        ("run_classifier", "--dtype=float16", "--dtype=float16: value should be one of"),
        ("run_squad", "--dtype=float16", "--dtype=float16: value should be one of"),
        ("run_race", "--train_step=abc", "--train_step=abc is not a whole number."),
        ("run_classifier", "--train_step=abc", "--train_step=abc is not a whole number."),
        ("run_race", "--train_step=-1", "--train_step must be at least 1. Received: -1"),
        ("run_pretraining", "--learning_rate=x", "--learning_rate=x is not a number."),
        ("make_config", "--size=medium", "--size=medium: value should be one of"),
        ("create_pretraining_data", "--ngram=three", "--ngram=three is not a whole number."),
        ("create_pretraining_data", "--ngram=0", "--ngram must be at least 1"),
        ("train_sentencepiece", "--vocab_size=30k", "--vocab_size=30k is not a whole number."),
        ("export_checkpoints", "--export_format=pt", "--export_format=pt: value should be one"),
        ("export_to_tfhub", "--export_type=x", "--export_type=x: value should be one of"),
        ("predict", "--top_k=all", "--top_k=all is not a whole number."),
        ("run_race", "--do_train=perhaps", "--do_train=perhaps: "),
    ],
)
def test_a_bad_value_comes_before_what_is_not_given(script, words, message, launched):
    assert message in answer_to(script, launched, *words.split())


def test_required_flags_are_named(launched):
    said = answer_to("run_race", launched, "--do_train")
    assert said == "--data_dir, --output_dir must be given. --help describes all flags\n"


@pytest.mark.parametrize(
    "words, expected",
    [
        ("python predict.py --x", "albert-predict --x"),
        ("see run_pretraining.py, or my_run_squad.py", "see albert-pretrain, or my_run_squad.py"),
    ],
)
def test_hints_name_the_command_as_it_was_called(words, expected, monkeypatch):
    assert as_called(words) == words
    monkeypatch.setattr(sys, "argv", ["/usr/bin/albert-squad", "--x"])
    assert as_called(words) == expected


def test_commands_are_those_of_the_package():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    scripts = re.findall(r'^(albert-[\w-]+) = "(?:albert_tf\.cli\.)?(\w+):run"$', text, re.M)
    assert {script: command for command, script in scripts} == COMMANDS


def test_help_names_the_command_as_it_was_called(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/albert-spm", "--help"])
    module = module_of("train_sentencepiece")
    with flags_of(module), pytest.raises(SystemExit):
        launch.run(module.main)
    shown = capsys.readouterr().out
    assert "albert-spm --input_file" in shown and "python " not in shown
