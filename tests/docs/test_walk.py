# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: the walk from a command to the loss passes the files that it names."""

import re
import sys
import threading

import pytest

import run_classifier
from tests import ROOT, tiny

HEADING = "## From a command to the loss"


def files_passed(function):
    """Files of the library with a function that is called: set of paths from the root."""
    passed = set()

    def note(frame, event, _):
        if event == "call":
            passed.add(frame.f_code.co_filename)

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    start = f"{ROOT}/"
    found = {path.removeprefix(start) for path in passed if path.startswith(f"{start}albert_tf/")}
    return {path for path in found if not path.endswith("__init__.py")}


@pytest.mark.long
@pytest.mark.usefixtures("eagerly")
def test_the_walk_names_every_file(run_main, tmp_path):
    config = {"albert_config_file": tiny.write_config(tmp_path / "config.json")}
    flags = tiny.TRAIN | tiny.TWO_STEPS | config | {"task_name": "RTE", "warmup_step": 0}
    run_main(run_classifier, **flags, output_dir=tmp_path / "imports")
    passed = files_passed(lambda: run_main(run_classifier, **flags, output_dir=tmp_path / "out"))
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    named = set(re.findall(r"`(albert_tf/[\w/]+\.py)`", section))
    print("\n".join(sorted(passed)))
    assert named == passed, "named, but not passed; passed, but not named"
