# SPDX-License-Identifier: Apache-2.0
"""Versions that stand in more than one file are the same."""

import re

import albert_tf
from tests import ROOT


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_changelog_and_citation_name_this_version_and_its_date():
    headings = re.findall(r"^## (.+)$", text_of("CHANGELOG.md"), re.M)
    citation = dict(re.findall(r"^(version|date-released): (.+)$", text_of("CITATION.cff"), re.M))
    newest = f"{albert_tf.__version__} ({citation['date-released']})"
    assert headings[:2] == ["vNext", newest]
    assert citation["version"] == albert_tf.__version__


def test_pre_commit_runs_the_ruff_of_the_requirements():
    pinned = re.findall(r"^(ruff==.+)$", text_of("requirements-dev.txt"), re.M)
    assert set(re.findall(r"ruff==[\d.]+", text_of(".pre-commit-config.yaml"))) == set(pinned)


def test_the_workflow_runs_the_supported_versions_of_python():
    listed = re.findall(r"Python :: (3\.\d+)", text_of("pyproject.toml"))
    matrix = re.search(r"python: \[(.+)\]", text_of(".github/workflows/ci.yml"))[1]
    assert [version.strip('"') for version in matrix.split(", ")] == listed
