# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts on damaged input, and kills them while they write; prints what goes wrong."""

import argparse
import concurrent.futures
import functools
import itertools
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=200, help="commands on damaged input")
    parser.add_argument("--crashes", type=int, default=0, help="commands that are killed, then run")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same cases")
    parser.add_argument("--command", default="", help="only commands whose name begins so")
    parser.add_argument("--case", type=int, help="only this case, to repeat it")
    parser.add_argument("--crash", type=int, help="only this crash, to repeat it")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--directory", type=Path, help="where to work; kept, with the corpus")
    return parser.parse_args()


def numbers(single, count, name_of, prefix, names):
    """Numbers of the cases to run: one, or the first `count` of the commands asked for."""
    if single is not None:
        return [single]
    if not count:
        return []
    if not any(name.startswith(prefix) for name in names):
        sys.exit(f"--command={prefix}: the commands are {', '.join(names)}")
    fitting = (number for number in itertools.count() if name_of(number).startswith(prefix))
    return list(itertools.islice(fitting, count))


def main():
    """Makes the corpus, runs the cases, prints the findings; exit code 1 if there are any."""
    args = parse_arguments()
    # One thread each: the processes share the cores, and a run is the same everywhere.
    os.environ |= dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1")
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    from tests.fuzz import cases, commands, crashes, processes

    one = args.case is not None or args.crash is not None
    wanted = numbers(
        args.case, 0 if one else args.cases, cases.name_of, args.command, commands.COMMANDS
    )
    killed = numbers(
        args.crash, 0 if one else args.crashes, crashes.name_of, args.command, commands.WRITERS
    )
    started = time.monotonic()
    # No TemporaryDirectory: its finalizer would run at the end of every forked process.
    work = args.directory or Path(tempfile.mkdtemp())
    processes.import_all()
    fork = multiprocessing.get_context("fork")
    try:
        with concurrent.futures.ProcessPoolExecutor(args.jobs, fork) as pool:
            _make_corpus(pool, wanted, killed, work)
            print(f"Corpus made in {time.monotonic() - started:.0f} s", flush=True)
            run = functools.partial(cases.run, args.seed, root=work / "corpus", work=work)
            kill = functools.partial(crashes.run, args.seed, root=work / "corpus", work=work)
            count = 0
            for finding in itertools.chain(pool.map(run, wanted), pool.map(kill, killed)):
                if finding:
                    print(f"--- {finding}\n", flush=True)
                    count += 1
    finally:
        if not args.directory:
            shutil.rmtree(work)
    cases_run, seconds = len(wanted) + len(killed), time.monotonic() - started
    print(f"{cases_run} cases, {count} findings, {seconds:.0f} s")
    sys.exit(bool(count))


def _make_corpus(pool, wanted, killed, work):
    """Makes what the commands of some cases and crashes read."""
    from tests.fuzz import cases, commands, corpus, crashes

    root = work / "corpus"
    root.mkdir(parents=True, exist_ok=True)
    lines = [commands.COMMANDS[cases.name_of(number)] for number in wanted]
    lines += [commands.WRITERS[crashes.name_of(number)][0] for number in killed]
    corpus.write_files(root)
    for level in corpus.needed(commands.MADE, lines):
        list(pool.map(functools.partial(corpus.make, root=root), level))
    names = sorted({crashes.name_of(number) for number in killed})
    list(pool.map(functools.partial(crashes.make_reference, root=root, work=work), names))


if __name__ == "__main__":
    main()
