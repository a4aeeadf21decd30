# SPDX-License-Identifier: Apache-2.0
"""The harness of tests/fuzz sees what is planted; a few real cases, and all with -m slow."""

import json

import pytest

from tests.fuzz import __main__, cases, commands
from tests.processes import run_python

# A fork needs a process without TensorFlow's threads, which pytest's may have.
JUDGE = """
import json, pathlib, sys
from tests.fuzz import cases, processes
for planted in map(pathlib.Path, sys.argv[1:]):
    directory, argv = planted.with_suffix(""), [str(planted), "--input_file=in.txt"]
    before = cases.snapshot(directory)
    outcome = processes.run_script(argv, directory, seconds=1)
    print(json.dumps(cases.judge(outcome, directory, before, argv)))
"""
CRASH = """
import pathlib, sys
from tests.fuzz import commands, corpus, crashes
for planted in map(pathlib.Path, sys.argv[1:]):
    work = planted.with_suffix("")
    (work / "corpus").mkdir(parents=True)
    commands.WRITERS = {"planted": (str(planted), ("out.txt",))}
    crashes.make_reference("planted", work / "corpus", work)
    found = [crashes.run(1, number, work / "corpus", work) for number in range(6)]
    print(repr(list(filter(None, found))))
"""
PREPARE = """
import pathlib, sys
from tests.fuzz import cases, commands, corpus, processes
for work in map(pathlib.Path, sys.argv[1:]):
    root = work / "corpus"
    corpus.write_files(root)
    for number, name in enumerate(["squad_metrics_1", "squad_metrics_2"] * 2):
        command, directory = commands.COMMANDS[name], work / str(number)
        corpus.copy(corpus.inputs(command, root), root, directory)
        damage = lambda: cases._prepare(command, cases.generator(5, number))
        print(processes.fork(damage, directory, 9).output.strip())
"""


PLANTED = [  # code, what is to be found
    ("print('fine')", None),
    ("sys.exit('planted: error: in.txt is damaged')", None),
    ("sys.exit('planted: error: --input_file is damaged')", None),
    ("sys.exit('planted: error: it is damaged')", "names no flag and no file"),
    ("sys.exit('in.txt is damaged')", "0 lines of error"),
    ("sys.exit('planted: error: in.txt\\n [[{{node x}}]]')", "a raw message"),
    ("{}['key']", "traceback"),
    ("print('Traceback (most recent call last):')", "traceback"),
    ("time.sleep(60)", "seconds"),
    ("os.kill(os.getpid(), 11)", "signal 11"),
    ("open('.albert_tf-host-1-a-0.tmp', 'w')", "left behind"),
    ("open('training.lock', 'w')", "left behind"),
    ("print('{', file=open('half.json', 'w'))", "not whole: half.json"),
    ("print('{\"loss\": NaN}', file=open('a.json', 'w'))", "not whole: a.json"),
    ("print('loss = nan', file=open('eval_results.txt', 'w'))", "not finite"),
]


def planted(directory, scripts, code):
    """Runs code that is given the files of scripts; returns a line of its output for each."""
    paths = [directory / f"{number}.py" for number in range(len(scripts))]
    for path, script in zip(paths, scripts, strict=True):
        path.write_text(f"import os, sys, time\n{script}\n")
    process = run_python("-c", code, *paths)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.parametrize("waits", [False, pytest.param(True, marks=pytest.mark.long)])
def test_planted_mistakes_are_found(tmp_path, waits):
    """Waiting takes five seconds; all others share one process."""
    rows = [row for row in PLANTED if ("sleep" in row[0]) == waits]
    for number in range(len(rows)):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "in.txt").write_text("text")
    lines = planted(tmp_path, [script for script, _ in rows], JUDGE)
    for (script, complaint), line in zip(rows, lines, strict=True):
        found = json.loads(line)
        assert len(found) == bool(complaint), (script, found)
        assert (complaint or "") in "".join(found), (script, found)


WRITE = """
def write(path):
    with open(path, 'w') as file:
        for i in range(5):
            print(i, file=file, flush=True)
            time.sleep(0.05)
{}
if name != 'out.txt': os.rename(name, 'out.txt')
"""


def test_planted_writers_that_do_not_survive_a_crash_are_found(tmp_path):
    scripts = [
        WRITE.format("write(name := f'.albert_tf-host-{os.getpid()}-a-0.tmp')"),
        WRITE.format("if not os.path.exists(name := 'out.txt'): write(name)"),
    ]
    first, second = planted(tmp_path, scripts, CRASH)
    assert "left behind" in first and "other bytes" in second


def test_the_same_seed_gives_the_same_damage(tmp_path):
    lines = run_python("-c", PREPARE, tmp_path / "a", tmp_path / "b").stdout.splitlines()
    assert lines[:4] == lines[4:] and "".join(lines).count("squad_metrics") == 8


@pytest.mark.long
def test_real_scripts_pass_a_few_cases_and_crashes():
    """Those that need no model."""
    common = ("--seed=35", "--command=create_pretraining_data")
    process = run_python("-m", "tests.fuzz", "--cases=4", "--crashes=3", *common)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "7 cases, 0 findings" in process.stdout


def test_an_unknown_command_is_told():
    with pytest.raises(SystemExit, match="squad_metrics_1"):
        __main__.numbers(None, 1, cases.name_of, "run_nothing", commands.COMMANDS)
