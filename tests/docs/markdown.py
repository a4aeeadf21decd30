# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/*.md hold: blocks of code, commands in them, links."""

import re
import shlex
from typing import NamedTuple

from tests import ROOT
from tests.script_flags import flags_of, module_of

FIRST_PAGES = (
    "README.md",
    "docs/pretraining.md",
    "docs/pretraining-reference.md",
    "docs/finetuning.md",
    "docs/squad.md",
)
WIDEST_CODE = 85  # columns; wider code scrolls on the site
MARK = re.compile(r"<!-- docs-check: skip, (.+?) -->")  # in the line before a block
PASS_ON = {  # command -> the script that gets its arguments, and what it adds to them
    "albert-predict": ("predict.py", ()),
    "albert-spm": ("train_sentencepiece.py", ()),
    "run_glue.sh": ("run_classifier.py", ("--data_dir=d", "--task_name=RTE", "--output_dir=o")),
}


class Block(NamedTuple):
    """A fenced block of code."""

    page: str  # path from the root
    line: int  # of the opening fence, from 1
    language: str  # what stands behind the fence
    text: str
    skipped: str | None  # the reason why it cannot be run

    @property
    def commands(self):
        """The block's command lines: continued lines are joined, comments left out."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [" ".join(line.split()) for line in lines if line.strip() and line[0] != "#"]


def pages():
    """Paths from the root, in the order in which their commands are run."""
    found = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")]
    return [*FIRST_PAGES, *sorted(set(found) - set(FIRST_PAGES))]


def blocks(page):
    """Yields the blocks of a page."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    start = None
    for number, line in enumerate(lines, start=1):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
            continue
        mark = MARK.fullmatch(lines[start - 2]) if start > 1 else None
        language, text = lines[start - 1][3:], "\n".join(lines[start : number - 1])
        yield Block(page, start, language, text, mark and mark[1])
        start = None
    assert start is None, f"{page}:{start}: a block without an end"


def code(language):
    """Yields all blocks in a language."""
    for page in pages():
        yield from (block for block in blocks(page) if block.language == language)


def links(text):
    """Targets of the links and pictures of a page."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def anchors(text):
    """The names by which links reach the headings of a page, made as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


# --- Commands ------------------------------------------------------------------------------------


def programs(command):
    """The programs of this project that a command line calls: list of (program, its arguments).

    A program is `run_x.py` or a module's name such as `demo.make_corpus`.
    """
    found = []
    for part in re.split(r"\s(?:\||&&|;)\s", command):
        words = shlex.split(part)
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        words = words[: words.index(">")] if ">" in words else words
        if words[:2] == ["python", "-m"]:
            found.append((words[2], words[3:]))
        elif words[:1] == ["python"]:
            found.append((words[1], words[2:]))
        elif words and words[0].removeprefix("./") in PASS_ON:
            program, added = PASS_ON[words[0].removeprefix("./")]
            found.append((program, [*added, *words[1:]]))
    return [(name, arguments) for name, arguments in found if path_of(name).exists()]


def path_of(program):
    """The source file of a program that `programs` has found."""
    if program.endswith(".py"):
        return ROOT / program
    return ROOT / (program.replace(".", "/") + ".py")


_CODE_OF_COMMANDS = {  # command -> the file with its arguments, or with more of them
    "albert_tf.checkpoints.inspect": "albert_tf/api/inspect.py",
    "experiments.paper": "experiments/run.py",
}


def check_arguments(program, arguments):
    """Raises for arguments that a program would refuse before it reads any file.

    Of scripts, flags and values are parsed; of the other programs, names of flags are compared
    with those in the source.
    """
    if (ROOT / program).parent == ROOT and program.endswith(".py"):
        with flags_of(module_of(program.removesuffix(".py"))) as known:
            rest = known([program, *arguments])[1:]
        assert not rest or program == "download_model.py", f"no flags: {rest}"
        return
    paths = {path_of(program), ROOT / _CODE_OF_COMMANDS.get(program, path_of(program))}
    source = "".join(path.read_text(encoding="utf-8") for path in paths)
    names = set(re.findall(r"(?:DEFINE_\w+|add_argument)\(\s*\"(?:--)?(\w+)\"", source))
    takes_words = re.search(r"add_argument\(\s*\"\w", source)
    for argument in arguments:
        if takes_words and not argument.startswith("--"):
            continue
        name = argument.partition("=")[0].removeprefix("--")
        assert argument.startswith("--") and name in names, f"{program} has no flag {argument}"
