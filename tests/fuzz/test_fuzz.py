# SPDX-License-Identifier: Apache-2.0
"""The harness of tests/fuzz sees what is planted; a few real cases, and all with -m slow."""

import json

import pytest

from tests.processes import run_python

# A fork needs a process without TensorFlow's threads, which pytest's may have.
JUDGE = """
import json, pathlib, sys
from tests.fuzz import cases, processes
directory = pathlib.Path(sys.argv[1])
argv = [sys.argv[2], "--input_file=in.txt"]
before = cases.snapshot(directory)
outcome = processes.run_script(argv, directory, seconds=1)
print(json.dumps(cases.judge(outcome, directory, before, argv)))
"""
CRASH = """
import pathlib, sys
from tests.fuzz import commands, corpus, crashes
work = pathlib.Path(sys.argv[1])
(work / "corpus").mkdir()
commands.WRITERS = {"planted": (sys.argv[2], ("out.txt",))}
crashes.make_reference("planted", work / "corpus", work)
found = [crashes.run(1, number, work / "corpus", work) for number in range(6)]
print("\\n".join(finding.text for finding in found if finding))
"""
PREPARE = """
import pathlib, sys
from tests.fuzz import cases, commands, corpus, processes
work = pathlib.Path(sys.argv[1])
corpus.write_files(work / "corpus")
for number, name in enumerate(["squad_metrics_1", "squad_metrics_2"] * 2):
    command = commands.COMMANDS[name]
    directory = work / str(number)
    corpus.copy(corpus.inputs(command, work / "corpus"), work / "corpus", directory)
    done = processes.fork(lambda: cases._prepare(command, cases.generator(5, number)), directory, 9)
    print(done.output)
"""


@pytest.mark.parametrize(
    "script, complaint",
    [
        ("print('fine')", None),
        ("sys.exit('planted: error: in.txt is damaged')", None),
        ("sys.exit('planted: error: --input_file is damaged')", None),
        ("sys.exit('planted: error: it is damaged')", "names no flag and no file"),
        ("sys.exit('in.txt is damaged')", "0 lines of error"),
        ("sys.exit('planted: error: in.txt\\n [[{{node x}}]]')", "a raw message"),
        ("{}['key']", "traceback"),
        ("print('Traceback (most recent call last):')", "traceback"),
        pytest.param("time.sleep(60)", "seconds", marks=pytest.mark.long),
        ("os.kill(os.getpid(), 11)", "signal 11"),
        ("open('.albert_tf-host-1-a-0.tmp', 'w')", "left behind"),
        ("open('training.lock', 'w')", "left behind"),
        ("print('{', file=open('half.json', 'w'))", "not whole: half.json"),
        ("print('{\"loss\": NaN}', file=open('a.json', 'w'))", "not whole: a.json"),
        ("print('loss = nan', file=open('eval_results.txt', 'w'))", "not finite"),
    ],
)
def test_planted_mistakes_are_found(tmp_path, script, complaint):
    (tmp_path / "planted.py").write_text(f"import os, sys, time\n{script}\n")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "in.txt").write_text("text")
    process = run_python("-c", JUDGE, tmp_path / "case", tmp_path / "planted.py")
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert len(found) == bool(complaint) and (complaint or "") in "".join(found), found


@pytest.mark.parametrize(
    "script, complaint",
    [
        ("write(name := f'.albert_tf-host-{os.getpid()}-a-0.tmp')", "left behind"),
        ("if not os.path.exists(name := 'out.txt'): write(name)", "other bytes"),
    ],
)
def test_planted_writers_that_do_not_survive_a_crash_are_found(tmp_path, script, complaint):
    (tmp_path / "planted.py").write_text(
        "import os, time\n"
        "def write(path):\n"
        "    with open(path, 'w') as file:\n"
        "        for i in range(5):\n"
        "            print(i, file=file, flush=True)\n"
        "            time.sleep(0.05)\n"
        f"{script}\n"
        "if name != 'out.txt': os.rename(name, 'out.txt')\n"
    )
    process = run_python("-c", CRASH, tmp_path, tmp_path / "planted.py")
    assert process.returncode == 0, process.stderr
    assert complaint in process.stdout


def test_the_same_seed_gives_the_same_damage(tmp_path):
    first, second = (run_python("-c", PREPARE, tmp_path / name).stdout for name in "ab")
    assert first == second and first.count("squad_metrics") == 4


@pytest.mark.long
def test_real_scripts_pass_a_few_cases_and_crashes():
    """Those that need no model."""
    common = ("--seed=35", "--command=create_pretraining_data")
    process = run_python("-m", "tests.fuzz", "--cases=4", "--crashes=3", *common)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "7 cases, 0 findings" in process.stdout


def test_an_unknown_command_is_told():
    process = run_python("-m", "tests.fuzz", "--command=run_nothing")
    assert process.returncode == 1 and "squad_metrics_1" in process.stderr
