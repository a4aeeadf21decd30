# SPDX-License-Identifier: Apache-2.0
"""docs/notebooks/*.ipynb: the cells run in order and give good answers."""

import json

import pytest

from tests import ROOT

GOOD = {  # notebook -> what holds of its variables at the end
    "first-steps": lambda names: names["answer"] == "york" and names["better"],
    "own-data": lambda names: names["accuracy"] >= 0.8,
}


def code_of(notebook):
    """Yields the source of each cell with code."""
    path = ROOT / "docs" / "notebooks" / f"{notebook}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def test_every_notebook_is_run():
    assert {path.stem for path in ROOT.glob("docs/notebooks/*.ipynb")} == set(GOOD)


@pytest.mark.long
@pytest.mark.parametrize("notebook", GOOD)
def test_the_cells_of_a_notebook_run(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, source in enumerate(code_of(notebook), 1):
        exec(compile(source, f"{notebook}, cell {number}", "exec"), names)
    assert GOOD[notebook](names)
