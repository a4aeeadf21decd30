# SPDX-License-Identifier: Apache-2.0
"""Cases: a command on damaged input, and whether it ended as it should.

It should run, or end with exit code 1 and one line that names a flag or a file; and leave nothing
half-written either way.
"""

import contextlib
import functools
import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np

from tests.fuzz import commands, corpus, mutators, processes
from tests.script_flags import define_flags, module_of

SECONDS = 60  # of computing; many times what a case takes
# In bytes. Most cases take half a GiB; a config that lost its sizes has those of ALBERT-xxlarge,
# and training takes 5 GiB then.
MEMORY = 6 * 2**30
ERROR_LINES = 25  # TensorFlow's own about the machine, and what a checkpoint lacks, are among them
_LEFTOVER = re.compile(r"(^|/)\.albert_tf-|\.lock$|\.tmp|tempstate|_temp(/|$)")
_RAW = re.compile(r"\{\{|\[Op:|Detected at node")
_UNTOUCHED = re.compile(r"flags\.txt$|fingerprint\.pb$|/events\.out")  # nothing reads them


def name_of(number):
    """Name of the command of a case (int)."""
    return list(commands.COMMANDS)[number % len(commands.COMMANDS)]


def generator(seed, number):
    """The source of all random choices of a case."""
    return random.Random(f"{seed}/{number}")


def run(seed, number, root, work):
    """Prepares, runs and judges a case: the same seed and number (int) give the same damage.

    The corpus is in `root`. In `work` a directory for the case is made, which stays only if
    something is found, which is returned (str).
    """
    name = name_of(number)
    rng = generator(seed, number)
    directory = work / f"case-{number}"
    command = commands.COMMANDS[name]
    corpus.copy(corpus.inputs(command, root), root, directory)
    damage = processes.fork(lambda: _prepare(command, rng), directory, SECONDS)
    assert damage.code == 0, damage.errors
    argv, done = json.loads(damage.output)
    before = snapshot(directory)
    outcome = processes.run_script(argv, directory, SECONDS)
    wrong = judge(outcome, directory, before, argv)
    return finding(
        ("case", number, name), wrong, "; ".join(done), argv, seed, directory, (outcome,)
    )


def finding(which, wrong, damage, argv, seed, directory, outcomes):
    """What is to be known of a case with complaints (`wrong`), or None; then its files are removed.

    `which` is (kind, number, name), `damage` what was done to the command `argv`, which ran in
    `directory` and ended with these outcomes.
    """
    if not wrong:
        shutil.rmtree(directory)
        for name in ("output", "errors"):
            directory.with_name(f"{directory.name}.{name}").unlink()
        return None
    kind, number, name = which
    ends = [outcome.errors.splitlines()[-15:] for outcome in outcomes]
    shown = "\n".join("\n".join(line[:500] for line in end) for end in ends)
    return (
        f"{kind} {number} ({name}): {'; '.join(wrong)}\n  damage: {damage}\n"
        f"  in {directory}: {' '.join(argument[:200] for argument in argv)}\n"
        f"  again: python -m tests.fuzz --seed={seed} --{kind}={number}\n{shown}"
    )


def _prepare(command, rng):
    """Damages the working directory or the flags; prints the command line and what was done."""
    argv = corpus.arguments(command)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        entries = sorted(Path().iterdir())
        entry = rng.choice([*entries, *entries, None])
        if entry is None:
            argv.append(mutators.odd_flag(_flags(argv), rng))
            done.append(argv[-1][:200])
            continue
        files = [entry, *entry.rglob("*")] if entry.is_dir() else [entry]
        files = [path for path in files if path.is_file() and not _UNTOUCHED.search(str(path))]
        if files and not done:
            done.append(mutators.damage_file(rng.choice(sorted(files)), rng))
    print(json.dumps((argv, done)))


def _flags(argv):
    """Names of all flags of a script, or of those that were given to a module."""
    if argv[0].endswith(".py"):
        return _defined_flags(argv[0].removesuffix(".py"))
    return [argument.lstrip("-").partition("=")[0] for argument in argv[1:]]


@functools.cache  # flags are defined once
def _defined_flags(script):
    from absl import flags

    define_flags(module_of(script))
    known = flags.FLAGS
    return sorted(
        name for name in known if not known.find_module_defining_flag(name).startswith("absl")
    )


# === Judgement ===


def judge(outcome, directory, before, argv):
    """What is wrong with how a command ended: list of str, empty if nothing is.

    `before` is a `snapshot` of the directory where it ran.
    """
    wrong = []
    text = outcome.output + outcome.errors
    if outcome.timed_out:
        wrong.append("ran for too many seconds")
    elif outcome.code < 0:
        wrong.append(f"ended by signal {-outcome.code}")
    if outcome.memory > MEMORY:
        wrong.append(f"took {outcome.memory / 2**30:.1f} GiB")
    if "Traceback (most recent call last)" in text:
        wrong.append("traceback")
    elif outcome.code > 0:
        wrong += _wrong_message(outcome, {*_paths(directory), *before}, argv)
    if outcome.code < 0:
        return wrong
    wrong += [f"left behind: {path}" for path in _paths(directory) if _LEFTOVER.search(path)]
    written = [path for path, time in snapshot(directory).items() if before.get(path) != time]
    found = processes.fork(lambda: _print_broken(written), directory, SECONDS)
    assert found.code == 0, found.errors
    return wrong + [f"not whole: {problem}" for problem in json.loads(found.output)]


def _paths(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


def _wrong_message(outcome, paths, argv):
    if "FATAL Flags parsing error" in outcome.errors:
        return []
    text = outcome.output + outcome.errors
    messages = [line for line in text.split("\n") if re.match(r"([\w.]+: )?error: ", line)]
    if len(messages) != 1:
        return [f"{len(messages)} lines of error instead of one"]
    if _RAW.search(text):
        return ["a raw message of TensorFlow"]
    if outcome.errors.count("\n") > ERROR_LINES:
        return ["many lines around that of the error"]
    values = [argument.partition("=")[2] for argument in argv[1:]]
    names = {part for path in (*paths, *values) for part in path.split("/")}
    names |= {re.sub(r"\.(index|data-\d+-of-\d+)$", "", name) for name in names}
    message = messages[0].partition("error: ")[2]
    words = {word.strip(".,") for word in re.split(r"[\s:;/'\"()=]+", message)}
    if not re.search(r"--\w+", message) and not names & words:
        return ["the error names no flag and no file"]
    return []


# === Results ===


def snapshot(directory):
    """Times of change by path (str, relative), to tell later which files a command has written."""
    times = {}
    for folder, _, names in os.walk(directory):  # unlike rglob, it skips what vanishes meanwhile
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                path = os.path.join(folder, name)
                times[os.path.relpath(path, directory)] = os.lstat(path).st_mtime_ns
    return times


def _print_broken(paths):
    """Prints as JSON what is wrong with files of the working directory."""
    problems = []
    for path in paths:
        check = _CHECKS.get(Path(path).suffix, _check_text)
        try:
            problem = check(Path(path))
        except Exception as error:
            problem = repr(error)[:200]
        if problem:
            problems.append(f"{path}: {problem}")
    print(json.dumps(problems))


def _refuse(name):
    raise ValueError(f"{name} is no JSON")


def _check_json(path):
    texts = [path.read_text()]
    if path.suffix == ".jsonl":  # where a blank line stands for one of the input
        texts = list(filter(None, texts[0].splitlines()))
    for text in texts:
        json.loads(text, parse_constant=_refuse)


def _check_text(path):
    if path.name in ("eval_results.txt", "best_trial.txt") and re.search(
        r"\b(nan|inf)\b", path.read_text()
    ):
        return "not finite"
    return None


def _check_records(path):
    import tensorflow as tf

    for _ in tf.compat.v1.io.tf_record_iterator(str(path)):
        pass


def _check_arrays(path):
    with np.load(path) as arrays:
        for name in arrays:
            arrays[name]


def _check_checkpoint(path):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path.with_suffix("")))
    for name, dtype in reader.get_variable_to_dtype_map().items():
        if dtype.is_floating and not np.isfinite(reader.get_tensor(name)).all():
            return f"{name} is not finite"
    return None


_CHECKS = {
    ".json": _check_json,
    ".jsonl": _check_json,
    ".tfrecord": _check_records,
    ".tf_record": _check_records,
    ".npz": _check_arrays,
    ".index": _check_checkpoint,
}
