# SPDX-License-Identifier: Apache-2.0
"""Crashes: a command is killed while it works, then run again as if nothing had been."""

import json
import re
import shutil
import signal

from tests.fuzz import cases, commands, corpus, processes

_CHANGING = re.compile(r"(?<=tfevents).*|\d{9,}")  # in names: times and hosts


class Watch:
    """Counts how often the files of a directory change; sends a signal when its moment has come.

    That is when so many changes were seen, or after so many seconds.
    """

    def __init__(self, directory, number=0, changes=None, seconds=None):
        self.seen = 0
        self._directory, self._number = directory, number
        self._changes, self._seconds = changes, seconds
        self._state = self._sizes()

    def _sizes(self):
        return cases.snapshot(self._directory)

    def __call__(self, passed):
        state = self._sizes()
        self.seen += state != self._state
        self._state = state
        is_due = self._changes is not None and self.seen >= self._changes
        is_due |= self._seconds is not None and passed >= self._seconds
        return self._number if is_due else None


def name_of(number):
    """Name of the command of a crash (int)."""
    return list(commands.WRITERS)[number % len(commands.WRITERS)]


def make_reference(name, root, work):
    """Runs a command undisturbed in `work`, and notes how long that takes and what it changes."""
    directory = work / f"reference-{name}"
    argv = corpus.arguments(commands.WRITERS[name][0])
    shutil.rmtree(directory, ignore_errors=True)
    corpus.copy(corpus.inputs(commands.WRITERS[name][0], root), root, directory)
    watch = Watch(directory)
    outcome = processes.run_script(argv, directory, cases.SECONDS, watch)
    assert outcome.code == 0, outcome.errors
    noted = {"seconds": outcome.seconds, "changes": watch.seen}
    (work / f"reference-{name}.json").write_text(json.dumps(noted))


def run(seed, number, root, work):
    """Kills a command, runs it again, and judges: arguments and result are those of `cases.run`."""
    name = name_of(number)
    rng = cases.generator(seed, number)
    command, same = commands.WRITERS[name]
    argv, directory = corpus.arguments(command), work / f"crash-{number}"
    usual = json.loads((work / f"reference-{name}.json").read_text())
    killer = rng.choice((signal.SIGKILL, signal.SIGTERM))
    if rng.random() < 0.7:
        moment = {"changes": rng.randint(1, usual["changes"])}
    else:
        moment = {"seconds": rng.uniform(0, usual["seconds"])}
    corpus.copy(corpus.inputs(command, root), root, directory)
    watch = Watch(directory, killer, **moment)
    first = processes.run_script(argv, directory, cases.SECONDS, watch)
    # 0: it was done, or the interrupt met a destructor, where Python drops exceptions.
    fine = (-killer, 0, 130)
    wrong = [] if first.code in fine else [f"{killer.name}: exit code {first.code}"]
    before = cases.snapshot(directory)
    second = processes.run_script(argv, directory, cases.SECONDS)
    wrong += [f"second run: {problem}" for problem in cases.judge(second, directory, before, argv)]
    # What an export finds whole it leaves alone.
    if second.code and not ("--export_path" in second.errors and "--export_path" in command):
        wrong.append(f"second run: exit code {second.code}")
    wrong += _differences(directory, work / f"reference-{name}", same)
    return cases.finding(
        ("crash", number, name), wrong, f"{killer.name} at {moment}", argv, seed, directory,
        (first, second),
    )  # fmt: skip


def _differences(directory, reference, same):
    """What a directory lacks or has beside that of an undisturbed run: list of str."""
    found, expected = (
        {_CHANGING.sub("", path) for path in cases.snapshot(d)} for d in (directory, reference)
    )
    wrong = [f"missing: {path}" for path in sorted(expected - found)]
    wrong += [f"not in an undisturbed run: {path}" for path in sorted(found - expected)]
    paths = [path.relative_to(reference) for pattern in same for path in reference.glob(pattern)]
    return wrong + [
        f"other bytes: {path}"
        for path in paths
        if (directory / path).is_file()
        and (directory / path).read_bytes() != (reference / path).read_bytes()
    ]
