# SPDX-License-Identifier: Apache-2.0
"""What --help prints."""

import re

import pytest

from tests import ROOT
from tests.processes import run_python

SCRIPTS = sorted(path.stem for path in ROOT.glob("*.py"))
HELP = """
import runpy, sys
sys.argv = [f"{sys.argv[1]}.py", "--help"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    heavy = {"tensorflow", "numpy", "scipy", "sklearn", "tf_keras"} & {*sys.modules}
    assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def helps():
    return {name: run_python("-c", HELP, name) for name in SCRIPTS}


def test_help_describes_every_flag_once_and_does_not_import_tensorflow(helps):
    for name, done in helps.items():
        assert done.returncode == 0 and not done.stderr, name
        flags = re.findall(r"^  --(\S+?)(?:=\S+)?\n {6}\S", done.stdout, re.MULTILINE)
        assert len(flags) == len(set(flags)) > 2, name
        assert "Required." in done.stdout or name in ("predict", "download_model"), name


def test_help_says_when_a_flag_is_required(helps):
    words = " ".join(helps["run_classifier"].stdout.split())
    condition = "Required for --do_train, --do_eval or --do_predict."
    assert words.count(condition) == 2 and words.count("Required.") == 1


def test_flags_stand_under_their_subject(helps):
    text = helps["run_squad"].stdout
    subjects = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert subjects[:3] == ["Questions and answers:", "What to do:", "Model and text:"]
    assert text.index("Optimizer:") < text.index("--beta_1=X") < text.index("Export:")
    run_part = text[text.index("What to do:") :]
    assert run_part.splitlines()[1] == "  --output_dir=TEXT"  # required ones first
    assert "  --optimizer=adamw|lamb|muon\n      adamw and lamb are the original's; " in text
    assert "  --[no]do_train\n      Train. Default: false.\n" in text
    assert "--ensemble_dirs=A,B,..." in text and "[]" not in text
