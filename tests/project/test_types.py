# SPDX-License-Identifier: Apache-2.0
"""Types of the public names, as a type checker of a user's program sees them."""

import ast
import importlib
import inspect
import re

import pytest

import albert_tf
from tests import ROOT
from tests.processes import run_python

PROGRAM = """
import albert_tf
loaded = albert_tf.load("model")
reveal_type(loaded.predict("a film"))  # dict[str, Any]
reveal_type(loaded.predict("where?", "here"))  # dict[str, Any]
reveal_type(loaded.predict("an article", "a question", ["a", "b", "c", "d"]))  # dict[str, Any]
reveal_type(loaded.predict(["a film", "a dull film"]))  # list[dict[str, Any]]
reveal_type(loaded.predict(["where?", "when?"], "here"))  # list[dict[str, Any]]
reveal_type(loaded.predict(texts=["a"], pairs=["b"]))  # list[dict[str, Any]]
reveal_type(loaded.fill_mask("a [MASK]"))  # list[list[dict[str, Any]]]
reveal_type(loaded.fill_mask(["a [MASK]"]))  # list[list[list[dict[str, Any]]]]
reveal_type(loaded.score(("a", "b")))  # list[dict[str, Any]]
reveal_type(loaded.sentence_order("a", "b"))  # float
reveal_type(loaded.embed("a").shape)  # tuple[Any, ...]
reveal_type(loaded.tokenizer.tokenize("a"))  # list[str]
reveal_type(loaded.config.num_parameters)  # int
reveal_type(albert_tf.checkpoints.load("a", {}).missing)  # tuple[Any, ...]
reveal_type(albert_tf.SquadV2Model.from_checkpoint("a"))  # SquadV2Model
"""
WRONG = """
import albert_tf
loaded = albert_tf.load(3)
loaded.fill_mask(["a"], top_k="many")
loaded.sentence_order("a", ["b"])
albert_tf.PretrainingModel("config")
albert_tf.no_such_name
"""


def checked(program, tmp_path):
    """Lines that mypy prints of a program."""
    path = tmp_path / "program.py"
    path.write_text(program)
    done = run_python("-m", "mypy", f"--cache-dir={tmp_path}", path)
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_a_program_sees_the_types(tmp_path):
    pytest.importorskip("mypy", reason="needs requirements-dev.txt")
    expected = re.findall(r"^reveal_type.*  # (.+)$", PROGRAM, re.M)
    *notes, end = checked(PROGRAM, tmp_path)
    found = [re.search(r'Revealed type is "(.+)"', note)[1] for note in notes]
    short = [re.sub(r"\b(?:\w+\.)+(?=\w)", "", name) for name in found]
    assert short == expected
    assert end.startswith("Success")


@pytest.mark.long
def test_a_program_with_mistakes_is_told_each(tmp_path):
    pytest.importorskip("mypy", reason="needs requirements-dev.txt")
    lines = {int(line.split(":")[1]) for line in checked(WRONG, tmp_path) if ": error:" in line}
    assert lines == {3, 4, 5, 6, 7}


def test_the_names_for_type_checkers_are_those_of_the_package():
    tree = ast.parse((ROOT / "albert_tf" / "__init__.pyi").read_text(encoding="utf-8"))
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            (alias,) = node.names
            assert alias.name == alias.asname  # without it, it would be private
            home = importlib.import_module(node.module)
            assert getattr(albert_tf, alias.name) is getattr(home, alias.name)
            named.add(alias.name)
    assert named == set(albert_tf.__all__)


def public_functions():
    """Functions and methods of docs/api.md: (name, function)."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for place in re.findall(r"^::: (\S+)$", page, re.M):
        module, _, name = place.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        if inspect.isfunction(found):
            yield place, found
            continue
        for kind in found.__mro__:
            if kind.__module__.startswith("albert_tf."):
                for method, value in vars(kind).items():
                    function = getattr(value, "__func__", getattr(value, "fget", value))
                    is_public = not method.startswith("_") or method in ("__init__", "__call__")
                    if is_public and inspect.isfunction(function):
                        yield f"{place}.{method}", function


def test_every_public_function_has_types():
    assert albert_tf.__doc__
    functions = dict(public_functions())
    assert len(functions) > 40
    for name, function in functions.items():
        if hasattr(function, "__dataclass_fields__") or "<string>" in function.__code__.co_filename:
            continue  # made by dataclasses
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        untyped = [p.name for p in parameters if p.annotation is p.empty]
        assert not untyped, f"{name}: {untyped}"
        assert signature.return_annotation is not signature.empty, name
