# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md and docs/*.md, with small files in place of the released ones.

python -m tests.docs.check                          # what `make docs-check` does
python -m tests.docs.check --page=docs/squad.md     # a part; pages may build on earlier ones
python -m tests.docs.check --directory=/tmp/docs    # keeps what the commands write

All pages share one directory, in which tests/docs/stand_ins.py has put a tiny model and tiny data
sets. Numbers of steps and batch sizes are lowered by the table SIZES; each line says which. Blocks
that are marked `<!-- docs-check: skip, REASON -->` are not run; test_docs.py parses their flags.
"""

import argparse
import collections
import contextlib
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests import ROOT
from tests.docs import markdown, stand_ins
from tests.fuzz import processes
from tests.script_flags import flags_of, module_of

SIZES = {  # flag -> largest value that is run
    "train_step": 2,
    "warmup_step": 1,
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "save_checkpoints_steps": 2,
    "num_train_epochs": 0.5,
    "train_batch_size": 2,
    "eval_batch_size": 8,
    "max_eval_steps": 2,
    "dupe_factor": 2,
    "num_workers": 2,
    "num_trials": 2,
    "vocab_size": 70,
}
STAND_INS = {"demo.make_corpus": [f"--roots={ROOT / 'albert_tf'}"]}  # program -> flags in addition
GLUE = {"TASKS": "RTE", "STEPS_DIVISOR": "400"}  # environment of run_glue.sh
SECONDS = 120  # of computing for a command


def smaller(program, arguments):
    """Arguments with no size above the table's, be it given or a default; and what was changed."""
    values = {}
    if (ROOT / program).is_file():
        with flags_of(module_of(program.removesuffix(".py"))) as known:
            values = {name: known[name].value for name in SIZES if name in known}
    given = dict(a.removeprefix("--").split("=", 1) for a in arguments if "=" in a)
    if "num_train_epochs" in given:
        values.pop("train_step", None)  # the epochs stand in place of its default
    values |= given
    large = {n: most for n, most in SIZES.items() if float(values.get(n) or 0) > most}
    kept = [a for a in arguments if a.removeprefix("--").partition("=")[0] not in large]
    sharded = [a for a in kept if re.match(r"--output_file=.*@\d+$", a)]
    kept = [re.sub(r"@\d+$", "@2", a) if a in sharded else a for a in kept]  # a file needs a record
    sizes = [f"--{name}={most}" for name, most in large.items()]
    added = STAND_INS.get(program, [])
    changed = [f"{name} {values[name]} -> {most}" for name, most in large.items()]
    changed += [f"{argument} -> @2" for argument in sharded]
    return [*kept, *sizes, *added], changed + added


def run(command, directory):
    """Runs a command line; returns (error or None, list of str with what was changed)."""
    if command.startswith("python ") and not {"|", ">"} & set(shlex.split(command)):
        ((program, arguments),) = markdown.programs(command)
        arguments, changed = smaller(program, arguments)
        outcome = processes.run_script([program, *arguments], directory, SECONDS)
        return outcome.errors if outcome.code else None, changed
    environment, changed = dict(os.environ), []
    environment["PATH"] = f"{directory}/bin:{environment['PATH']}"
    if "run_glue.sh" in command:
        environment |= GLUE | {"PYTHON": sys.executable}
        batch = f"--train_batch_size={SIZES['train_batch_size']}"
        command, changed = f"{command} {batch}", [*(f"{n}={v}" for n, v in GLUE.items()), batch]
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=directory, env=environment, text=True, capture_output=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stderr or f"exit code {done.returncode}" if done.returncode else None, changed


def run_blocks(connection, directory):
    """Runs Python blocks with the same names until None arrives; answers with an error or None."""
    os.chdir(directory)
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)
    names = {}
    for block in iter(connection.recv, None):
        try:
            exec(compile(block.text, f"{block.page}:{block.line}", "exec"), names)
            connection.send(None)
        except BaseException:
            connection.send(traceback.format_exc())


@contextlib.contextmanager
def python_session(directory):
    """Gives a function that runs a Python block after the ones before; it returns error or None."""
    ours, theirs = multiprocessing.Pipe()
    process = 0

    def run_block(block):
        nonlocal process
        # Not multiprocessing.Process, which ends with any of the scripts that `processes` forks.
        process = process or os.fork()
        if not process:
            try:
                run_blocks(theirs, directory)
            finally:
                os._exit(0)
        try:
            ours.send(block)
            return ours.recv() if ours.poll(SECONDS) else f"no end after {SECONDS} s"
        except (EOFError, BrokenPipeError):
            return "the process ended"

    yield run_block
    if process:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def write_programs(directory):
    """Puts what command lines name into a directory: the scripts, and `python` for the shell."""
    (directory / "bin").mkdir(exist_ok=True)
    scripts = {"python": "", "albert-predict": f"{ROOT}/predict.py "}
    scripts["albert-minimal-pairs"] = f"{ROOT}/minimal_pairs.py "
    scripts["albert-spm"] = f"{ROOT}/train_sentencepiece.py "
    for name, argument in scripts.items():
        path = directory / "bin" / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {argument}"$@"\n')
        path.chmod(0o755)
    for path in (*ROOT.glob("*.py"), ROOT / "run_glue.sh", ROOT / "benchmarks", ROOT / "demo"):
        if not (directory / path.name).is_symlink():
            (directory / path.name).symlink_to(path)


def check_page(page, directory):
    """Runs the blocks of a page, a line for each command; Counter of "run", "skipped", "failed"."""
    counts = collections.Counter()
    with python_session(directory) as run_block:
        for block in markdown.blocks(page):
            commands = {"bash": block.commands, "python": ["(Python)"]}.get(block.language, ())
            for command in commands:
                start, error, changed = time.monotonic(), None, []
                if block.language == "python" and not block.skipped:
                    error = run_block(block)
                elif not block.skipped:
                    error, changed = run(command, directory)
                kind = "failed" if error else "skipped" if block.skipped else "run"
                counts[kind] += 1
                seconds = time.monotonic() - start
                print(f"{page}:{block.line} {kind} {seconds:.1f} s: {command}", flush=True)
                if block.skipped:
                    print(f"    {block.skipped}")
                if changed:
                    print(f"    smaller: {', '.join(changed)}")
                if error:
                    print(error[-3000:])
    return counts


def check(pages, directory):
    """Runs pages in a directory, which is made if need be; returns the Counter of `check_page`."""
    if not directory.exists():
        stand_ins.write(directory)
        written = processes.fork(lambda: stand_ins.write_weights(directory), directory, SECONDS)
        assert written.code == 0, written.errors
    write_programs(directory)
    print(f"In {directory}: tiny random weights and tiny data in place of the released ones.")
    print(f"Numbers above these are lowered: {SIZES}.")
    return sum((check_page(page, directory) for page in pages), collections.Counter())


def main():
    """Runs the pages; the exit code is 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="append", help="a page; all by default")
    parser.add_argument("--directory", help="where to run; a temporary one by default")
    arguments = parser.parse_args()
    start = time.monotonic()
    processes.import_all()
    # No `with` block: every forked process would delete the directory when it ends.
    parent = Path(arguments.directory or tempfile.mkdtemp()).resolve()
    try:
        counts = check(arguments.page or markdown.pages(), parent / "work")
    finally:
        if not arguments.directory:
            shutil.rmtree(parent)
    shown = ", ".join(f"{counts[kind]} {kind}" for kind in ("run", "skipped", "failed"))
    print(f"docs-check: {shown}, in {time.monotonic() - start:.0f} s")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
