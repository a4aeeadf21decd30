# SPDX-License-Identifier: Apache-2.0
"""What `pip install .` installs, versions in several files, and which Python `make` takes."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

import albert_tf
from albert_tf.errors import COMMANDS, EXTRAS, import_extra
from tests import ROOT
from tests.docs.markdown import check_arguments, links
from tests.errors import refuses
from tests.project.test_source_rules import imports

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSIONS = ("3.11", "3.12", "3.13")
SCRIPTS = "albert_tf_scripts"  # package of a wheel, which has the scripts


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def requirements(name):
    lines = text_of(name).splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_package_is_its_files_and_the_scripts():
    setuptools = PROJECT["tool"]["setuptools"]
    folders = [path.parent.relative_to(ROOT) for path in (ROOT / "albert_tf").rglob("__init__.py")]
    assert setuptools["package-dir"] == {SCRIPTS: "."}  # of which the modules are packed
    names = {".".join(folder.parts) for folder in folders}
    assert sorted(setuptools["packages"]) == sorted({SCRIPTS, *names})
    assert not setuptools["include-package-data"]  # the pages, which the source distribution has


def test_templates_beside_modules_are_package_data():
    data = PROJECT["tool"]["setuptools"]["package-data"]
    shipped = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    found = (ROOT / "albert_tf").rglob("*")
    files = {path for path in found if path.is_file() and not path.name.startswith(".")}
    shipped = {path for path in shipped if path.suffix != ".pyc"}  # excluded below
    assert data["albert_tf.models"] == ["*/*"]
    assert PROJECT["tool"]["setuptools"]["exclude-package-data"]["*"] == ["*.pyc"]
    assert shipped == {path for path in files if path.suffix not in (".py", ".pyc")}


def test_commands_can_be_called():
    commands = PROJECT["project"]["scripts"]
    assert len(commands) == len(list(ROOT.glob("*.py")))  # every script
    for place in commands.values():
        module, function = place.removeprefix(f"{SCRIPTS}.").split(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_library_does_not_need_the_tests_requirements():
    (dependencies,) = PROJECT["tool"]["setuptools"]["dynamic"]["dependencies"]["file"]
    library = requirements(dependencies)
    assert any(line.startswith("tensorflow>=") for line in library)
    assert not any(line.startswith(("pytest", "-")) for line in library)  # setuptools takes no -r
    assert requirements("requirements.txt")[0] == f"-r {dependencies}"


def named(lines):
    """The requirements of lines: dict of name -> packaging.requirements.Requirement."""
    found = [Requirement(line) for line in lines if not line.startswith("-")]
    return {each.name: each for each in found}


def test_both_ends_of_the_ranges_are_tested():
    extras = PROJECT["project"]["optional-dependencies"]
    ranges = named(requirements("requirements-library.txt"))
    ranges |= named(line for extra, lines in extras.items() if extra != "all" for line in lines)
    oldest = named(requirements("requirements.txt"))
    newest = named(requirements("requirements-newest.txt"))
    assert set(oldest) - set(newest) == {"tf-models-official", "setuptools"}
    assert set(newest) <= set(oldest)
    for pins in (oldest, newest, named(requirements("requirements-beam.txt"))):
        for name, pin in pins.items():
            versions = [each.version for each in pin.specifier if each.operator == "=="]
            if name in ranges:
                assert all(map(ranges[name].specifier.contains, versions)), name
    for name in ("tensorflow", "tf-keras", "tensorflow-text", "tensorboard"):
        lowest, limit = sorted(str(each) for each in ranges[name].specifier)[::-1]
        (first,), (last,) = oldest[name].specifier, newest[name].specifier
        assert str(first).startswith(f"=={lowest.removeprefix('>=')}."), name
        major, minor, *_ = str(last).removeprefix("==").split(".")
        assert limit == f"<{major}.{int(minor) + 1}", name


def test_extras_are_those_that_messages_name_and_make_setup_installs():
    extras = dict(PROJECT["project"]["optional-dependencies"])
    assert extras.pop("all") == ["albert_tf[documents,export,plot,zstd]"]
    assert named(extras.pop("cuda")).keys() == {"tensorflow"}
    assert sorted(EXTRAS.values()) == sorted(extras)
    packages = {
        name.replace("-", "_"): extra for extra, lines in extras.items() for name in named(lines)
    }
    assert packages == EXTRAS
    for extra, lines in extras.items():
        file = "requirements-beam.txt" if extra == "beam" else "requirements.txt"
        assert named(lines).keys() <= named(requirements(file)).keys()


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_a_feature_without_its_package_names_the_extra(package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)  # an import fails
    with refuses(f"--flag ... {package} ... 'albert_tf[{extra}]'"):
        import_extra(package, "--flag")


def test_what_the_library_imports_is_required():
    lines = requirements("requirements-library.txt")
    known = {name.replace("-", "_") for name in named(lines)} | {"albert_tf"}
    known |= {"google", "sklearn", "absl"} | set(sys.stdlib_module_names)  # of protobuf, ...
    for path in [*(ROOT / "albert_tf").rglob("*.py"), *ROOT.glob("*.py")]:
        names = imports(ast.parse(path.read_text(encoding="utf-8")))
        assert {name.partition(".")[0] for name in names} <= known, path


def test_changelog_and_citation_name_this_version_and_the_last_release():
    headings = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), re.M)
    citation = dict(re.findall(r"^(version|date-released): (.+)$", text_of("CITATION.cff"), re.M))
    number, is_next, _ = albert_tf.__version__.partition(".dev0")
    if is_next:
        assert headings.pop(0) == f"{number} (not released yet)"
    else:
        assert citation["version"] == number
    assert headings[0] == f"{citation['version']} ({citation['date-released']})"


def test_the_page_of_the_package_has_no_links_into_the_checkout():
    text = text_of(PROJECT["project"]["readme"])
    assert links(text) and all(link.startswith("https://") for link in links(text))
    called = set(re.findall(r"albert-[\w-]+", text))
    assert called == set(PROJECT["project"]["scripts"])
    for line in re.findall(r"^albert-.+", text.replace("\\\n", " "), re.M):
        command, *words = shlex.split(line)
        (script,) = (name for name, known in COMMANDS.items() if known == command)
        check_arguments(f"{script}.py", words)


def test_pre_commit_runs_the_ruff_of_the_requirements():
    pinned = re.findall(r"^(ruff==.+)$", text_of("requirements-dev.txt"), re.M)
    assert set(re.findall(r"ruff==[\d.]+", text_of(".pre-commit-config.yaml"))) == set(pinned)


def test_python_versions_are_said_alike():
    project = PROJECT["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    language = "Programming Language :: Python :: "
    assert [v for v in project["classifiers"] if v.startswith(language)] == [
        f"{language}{version}" for version in VERSIONS
    ]
    for path in ("README.md", "PACKAGE.md", "Makefile"):
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
