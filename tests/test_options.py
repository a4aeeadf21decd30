# SPDX-License-Identifier: Apache-2.0
"""Options: their ranges, tested once for all commands, and paths that no file can have."""

import dataclasses
import inspect
import math
import os

import pytest

from albert_tf import options
from tests.errors import refuses

GROUPS = [
    kind
    for _, kind in inspect.getmembers(options, inspect.isclass)
    if getattr(kind, "heading", None)
]
LIMITED = [
    pytest.param(field, id=f"{group.__name__}.{field.name}")
    for group in GROUPS
    for field in options.options_of(group)
    if field.metadata["limits"]
]


def outside(rule, limit, kind):
    """The value next to a limit that a rule forbids."""
    if rule in ("above", "below"):
        return limit
    if kind is int:
        return limit - 1 if rule == "at least" else limit + 1
    return math.nextafter(limit, -math.inf if rule == "at least" else math.inf)


@pytest.mark.parametrize("group", GROUPS)
def test_defaults_are_in_range(group):
    group()
    for field in options.options_of(group):
        kind = options.kind_of(field)
        assert kind in (bool, int, float, str, list)
        is_whole = field.default is None or kind is not int or isinstance(field.default, int)
        assert is_whole and field.metadata["help"].endswith((".", "?", "--model."))
        if field.metadata["choices"] and not field.metadata["repeated"]:
            assert field.default in (None, *field.metadata["choices"])


@pytest.mark.parametrize("field", LIMITED)
def test_ranges(field):
    kind, limits = options.kind_of(field), field.metadata["limits"]
    wrong = [outside(rule, limit, kind) for rule, limit in limits.items()]
    if kind is float:
        wrong += [math.nan, math.inf, -math.inf]
    elif not limits.keys() & {"at most", "below"}:
        wrong.append(2**31)
    for value in wrong:
        if value == 0 and field.metadata["or_zero"]:
            continue
        if value != value and field.default != field.default:  # nan is the default
            continue
        with refuses(f"--{field.name} ... {value}"):
            options.check(field, value)
    for rule in limits.keys() & {"at least", "at most"}:
        options.check(field, limits[rule])
    if field.metadata["or_zero"]:
        options.check(field, 0.0)


def test_a_group_checks_its_values():
    with refuses("--beta_1 ... 0 ... 1"):
        options.Optimizer(beta_1=1)
    with refuses("0.5 ... 1 ... 0 ... 0.3"):
        options.Selection(drop_near_duplicates=0.3)
    assert options.SentencePiece(vocab_size=14).vocab_size == 14  # the special pieces, and a space
    with refuses("--vocab_size ... 14"):
        options.SentencePiece(vocab_size=13)
    assert dataclasses.replace(options.Devices(), seed=7).seed == 7


@pytest.mark.parametrize(
    "path, message",
    [
        ("https://example.org/albert.zip", "https://example.org/albert.zip"),
        ("text/*.txt,http://example.org/x", "http://example.org/x"),
        ("text\udcff.txt", "UTF-8"),
        ("{loop}", "/loop"),
        ("{loop}/albert_config.json", "/loop"),
        ("x" * 5000, "xxx"),
    ],
)
def test_paths_that_no_file_can_have(path, message, tmp_path):
    os.symlink("loop", tmp_path / "loop")
    path = path.replace("{loop}", str(tmp_path / "loop"))
    with refuses(message) as caught:
        options.check_path("--init_checkpoint", path)
    assert str(caught.value).startswith("--init_checkpoint=") and "\n" not in str(caught.value)
    str(caught.value).encode()


@pytest.mark.parametrize("path", ["", "none/x", "gs://bucket/x", "ä/é", "a,b", "from_tf_hub"])
def test_other_paths_are_the_commands_affair(path):
    options.check_path("--init_checkpoint", path)
