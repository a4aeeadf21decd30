# SPDX-License-Identifier: Apache-2.0
"""What `pip install .` installs, versions in several files, and which Python `make` takes."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib

import pytest

import albert_tf
from albert_tf.errors import EXTRAS, UserError, import_extra
from tests import ROOT
from tests.project.test_source_rules import imports

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = ("3.11", "3.12", "3.13")


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def requirements(name):
    lines = text_of(name).splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_package_is_its_files_and_no_script_that_is_a_command():
    modules = PROJECT["tool"]["setuptools"]["py-modules"]
    scripts = {path.stem for path in ROOT.glob("*.py")}
    assert set(modules) == scripts - {
        "make_config", "minimal_pairs", "predict", "train_sentencepiece"  # in cli
    }  # fmt: skip
    assert PROJECT["tool"]["setuptools"]["packages"]["find"] == {"include": ["albert_tf*"]}


def test_templates_beside_modules_are_package_data():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    shipped = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    files = {path for path in (ROOT / "albert_tf").rglob("*") if path.is_file()}
    shipped = {path for path in shipped if path.suffix != ".pyc"}  # excluded below
    assert data["albert_tf.models"] == ["*/*"]
    assert PROJECT["tool"]["setuptools"]["exclude-package-data"]["*"] == ["*.pyc"]
    assert shipped == {path for path in files if path.suffix not in (".py", ".pyc")}


def test_commands_can_be_called():
    commands = PROJECT["project"]["scripts"]
    assert len(commands) == len(list(ROOT.glob("*.py")))  # every script
    for place in commands.values():
        module, function = place.split(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_library_does_not_need_the_tests_requirements():
    (dependencies,) = PROJECT["tool"]["setuptools"]["dynamic"]["dependencies"]["file"]
    library = requirements(dependencies)
    assert any(line.startswith("tensorflow==") for line in library)
    assert not any(line.startswith(("pytest", "-")) for line in library)  # setuptools takes no -r
    assert requirements("requirements.txt")[0] == f"-r {dependencies}"


def test_extras_are_those_that_messages_name_and_make_setup_installs():
    extras = PROJECT["project"]["optional-dependencies"]
    assert sorted(EXTRAS.values()) == sorted(extras)
    packages = {
        re.split(r"[\[=]", line)[0].replace("-", "_"): extra
        for extra, lines in extras.items()
        for line in lines
    }
    assert packages == EXTRAS
    for extra, lines in extras.items():
        file = "requirements-beam.txt" if extra == "beam" else "requirements.txt"
        assert set(lines) <= set(requirements(file))


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_a_feature_without_its_package_names_the_extra(package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # an import fails
    message = f"--flag needs the package {package}, which is not installed: pip install 'albert_tf"
    with pytest.raises(UserError, match=re.escape(f"{message}[{extra}]'")):
        import_extra(package, "--flag")


def test_what_the_library_imports_is_required():
    lines = requirements("requirements-library.txt")
    known = {line.partition("=")[0].replace("-", "_") for line in lines} | {"albert_tf"}
    known |= {"google", "sklearn", "absl"} | set(sys.stdlib_module_names)  # of protobuf, ...
    commands = [ROOT / f"{name}.py" for name in PROJECT["tool"]["setuptools"]["py-modules"]]
    for path in [*(ROOT / "albert_tf").rglob("*.py"), *commands]:
        names = imports(ast.parse(path.read_text(encoding="utf-8")))
        assert {name.partition(".")[0] for name in names} <= known, path


def test_changelog_and_citation_name_this_version_and_its_date():
    headings = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), re.M)
    citation = dict(re.findall(r"^(version|date-released): (.+)$", text_of("CITATION.cff"), re.M))
    newest = f"{albert_tf.__version__} ({citation['date-released']})"
    assert headings[:2] == ["vNext", newest]
    assert citation["version"] == albert_tf.__version__


def test_pre_commit_runs_the_ruff_of_the_requirements():
    pinned = re.findall(r"^(ruff==.+)$", text_of("requirements-dev.txt"), re.M)
    assert set(re.findall(r"ruff==[\d.]+", text_of(".pre-commit-config.yaml"))) == set(pinned)


def test_python_versions_are_said_alike():
    project = PROJECT["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    assert project["classifiers"] == [f"Programming Language :: Python :: {v}" for v in VERSIONS]
    for path in ("README.md", "Makefile"):
        assert "Python 3.11, 3.12 or 3.13" in text_of(path)
    matrix = re.search(r"python: \[(.+)\]", text_of(".github/workflows/ci.yml"))[1]
    assert tuple(version.strip('"') for version in matrix.split(", ")) == VERSIONS


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"3.11": "3.11", "3.12": "3.12"}, "python3.12"),
        ({"3.11": "3.11", "3.12": "3.12", "3.13": "3.13"}, "python3.13"),
        # A version manager's name without that version, or with another one.
        ({"3.11": "3.11", "3.12": "3.12", "3.13": None}, "python3.12"),
        ({"3.11": "3.11", "3.12": "3.11"}, "python3.11"),
        ({}, "python3"),
    ],
)
def test_make_takes_the_newest_python_that_runs(there, taken, tmp_path):
    for name, version in there.items():
        body = "exit 127"
        if version:  # does what the test of the version asks of it
            body = f'case "$2" in *"(3, {version[2:]})"*) exit 0;; esac; exit 1'
        path = tmp_path / f"python{name}"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    for tool in ("make", "sh"):
        os.symlink(subprocess.check_output(["which", tool], text=True).strip(), tmp_path / tool)
    done = subprocess.run(
        ["make", "--dry-run", "setup", f"VENV={tmp_path}/venv"],
        cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.search(r"(\S+) -m venv ", done.stdout)[1] == taken
