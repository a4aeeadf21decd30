# SPDX-License-Identifier: Apache-2.0
"""docs/first-hour.md: the outputs below the commands, and the script that writes them."""

import pytest

from tests import ROOT
from tests.docs import first_hour, markdown
from tests.fuzz import processes
from tests.processes import run_python

PAGE = """Text.

```bash
python make_config.py --vocab=a.model
# said
python predict.py \\
  --saved_model=b
```

```text
old
```

```bash
not run
```
"""


def outcome(output, code=0):
    return processes.Outcome(code, output, "wrong\n", 1.0, 1, False)


def test_the_block_below_commands_gets_their_output(tmp_path, monkeypatch, capsys):
    def output_of(command, directory, small):
        assert (directory, small) == (tmp_path / "new", True)
        return f"ran {command}"

    monkeypatch.setattr(first_hour, "output_of", output_of)
    text = first_hour.transcript(PAGE, tmp_path / "new", small=True)
    new = "ran python make_config.py --vocab=a.model\nran python predict.py --saved_model=b"
    assert text == PAGE.replace("old", new)
    assert first_hour.transcript(text, tmp_path / "new", small=True) == text
    assert capsys.readouterr().out.count("s: python") == 4


def test_outputs_are_neutral_and_short_and_sizes_lowered_on_request(tmp_path, monkeypatch):
    calls = []

    def run_script(argv, *_):
        calls.append(argv)
        return outcome(f"in {tmp_path}/a of {ROOT}/b\n" + "line\n" * 39 + "a word " * 14)

    monkeypatch.setattr(processes, "run_script", run_script)
    command = "python -m demo.make_corpus --train_file=t"
    text = first_hour.output_of(command, tmp_path, small=False).splitlines()
    assert text[0] == "in a of b" and len(text) == first_hour.KEPT + 2
    assert text[8] == "[25 lines are left out here]"
    assert len(text[-2]) <= markdown.WIDEST_CODE and text[-1].startswith("    ")
    first_hour.output_of(command, tmp_path, small=True)
    assert calls[0] == ["demo.make_corpus", "--train_file=t"]
    assert calls[1] == [*calls[0], f"--roots={ROOT / 'albert_tf'}"]


def test_a_command_that_fails_ends_the_script(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "run_script", lambda *_: outcome("", code=1))
    with pytest.raises(RuntimeError, match=r"python predict\.py --text=a: wrong"):
        first_hour.output_of("python predict.py --text=a", tmp_path, small=False)


def test_the_page_has_an_output_below_every_command():
    page = (ROOT / first_hour.PAGE).read_text(encoding="utf-8")
    assert len(first_hour.PAIR.findall(page)) == page.count("```bash\n") > 0
    assert "```text\n```" not in page


@pytest.mark.slow  # as `make docs-check` does
def test_the_commands_of_the_page_run_with_small_sizes():
    before = (ROOT / first_hour.PAGE).read_bytes()
    done = run_python("-m", "tests.docs.first_hour", "--small", timeout=3600)
    assert done.returncode == 0, done.stderr
    assert "s: python predict.py --saved_model=hour/export" in done.stdout
    assert (ROOT / first_hour.PAGE).read_bytes() == before
