# SPDX-License-Identifier: Apache-2.0
"""Runs docs/first-hour.md: each command, and what it prints into the block below it.

python -m tests.docs.first_hour           # writes the page again: a quarter of an hour
python -m tests.docs.first_hour --small   # quickly, and leaves the page as it is

With --small, numbers of steps and the like are lowered as by `make docs-check`.
"""

import argparse
import re
import shutil
import tempfile
import textwrap
import time
from pathlib import Path

from tests import ROOT
from tests.docs import check, markdown
from tests.fuzz import processes

PAGE = "docs/first-hour.md"
PAIR = re.compile(r"```bash\n(.*?)```\n\n```text\n.*?```\n", re.DOTALL)
SECONDS = 3600  # of computing for a command
KEPT = 16  # lines of an output; the middle of a longer one is left out


def output_of(command, directory, small):
    """The standard output of a command line in a directory, without the middle if it is long.

    With `small`, sizes are lowered. A command that fails raises a RuntimeError.
    """
    ((program, arguments),) = markdown.programs(command)
    if small:
        arguments, _ = check.smaller(program, arguments)
    outcome = processes.run_script([program, *arguments], directory, SECONDS)
    if outcome.code:
        raise RuntimeError(f"{command}: {outcome.errors[-3000:]}")
    lines = outcome.output.replace(f"{directory}/", "").replace(f"{ROOT}/", "").splitlines()
    if len(lines) > KEPT:
        half = KEPT // 2
        lines[half:-half] = [f"[{len(lines) - 2 * half} lines are left out here]"]
    return "\n".join(part for line in lines for part in _broken(line))


def _broken(line):
    """The parts of a line that the site shows without scrolling; later parts are indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    whole = {"replace_whitespace": False, "break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(line, markdown.WIDEST_CODE, subsequent_indent=indent, **whole) or [""]


def transcript(page, directory, small):
    """The text of a page with the output of each block of commands in the block below it.

    The commands run in a directory, which is made if need be, with lower sizes if `small`.
    """
    directory.mkdir(parents=True, exist_ok=True)

    def run(match):
        outputs = []
        for command in markdown.Block(PAGE, 0, "bash", match[1], None).commands:
            start = time.monotonic()
            outputs.append(output_of(command, directory, small))
            print(f"{time.monotonic() - start:.0f} s: {command}", flush=True)
        return f"```bash\n{match[1]}```\n\n```text\n" + "\n".join(outputs) + "\n```\n"

    return PAIR.sub(run, page)


def main():
    """Runs the page, and writes it again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small sizes; the page stays as it is")
    small = parser.parse_args().small
    processes.import_all()
    # No `with` block: every forked process would delete the directory when it ends.
    parent = Path(tempfile.mkdtemp()).resolve()
    try:
        text = transcript((ROOT / PAGE).read_text(encoding="utf-8"), parent / "work", small)
    finally:
        shutil.rmtree(parent)
    if not small:
        (ROOT / PAGE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
