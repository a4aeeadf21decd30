# SPDX-License-Identifier: Apache-2.0
"""experiments/run.py: rows of a study, with a script that writes curves at once."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from albert_tf.cli import flag_groups
from experiments import run as experiments_run
from tests import ROOT
from tests.errors import assert_names, refuses
from tests.script_flags import flags_of, module_of

STUDIES = ROOT / "experiments"
STUDY = """\
    title = "A study"
    script = "{tmp}/train.py"
    metrics = ["loss"]
    train_flops = 1e9

    [config]
    vocab_size = 100
    hidden_size = 16
    num_hidden_layers = 2
    num_attention_heads = 2
    intermediate_size = 32

    [flags]
    input_file = "{data}/train"
    train_batch_size = 4
    max_seq_length = 8
    max_predictions_per_seq = 2
    learning_rate = 0.5

    [[after]]
    command = ["{tmp}/measure.py", "--model={run}"]
    result = "measured.json"
    metrics = { accuracy = "overall.accuracy" }

    [rows.base]

    [rows.faster]
    flags = { learning_rate = 2.0 }

    [rows.longer]
    train_flops = 2e9
"""
# Two scripts that note that they ran. The loss is 1 / rate + seed.
TRAIN = """\
    import os, sys
    flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
    directory, steps = flags["output_dir"], flags["num_train_steps"]
    loss = 1 / float(flags["learning_rate"]) + int(flags["seed"])
    with open(os.path.join(directory, "history.csv"), "w") as file:
        file.write(f"step,kind,seconds,loss\\n1,eval,1,99\\n{steps},eval,2,{loss}\\n")
    with open(os.path.join(directory, "calls"), "a") as file:
        file.write("train ")
"""
MEASURE = """\
    import json, os, sys
    directory = sys.argv[1].removeprefix("--model=")
    if os.path.exists(os.path.join(directory, "fail")):
        sys.exit(3)
    with open(os.path.join(directory, "measured.json"), "w") as file:
        json.dump({"overall": {"accuracy": 0.75}}, file)
"""


@pytest.fixture
def study(tmp_path):
    """Path of the study, and a function that runs it in tmp_path/runs."""
    path = tmp_path / "study.toml"
    for name, text in {"study.toml": STUDY, "train.py": TRAIN, "measure.py": MEASURE}.items():
        (tmp_path / name).write_text(textwrap.dedent(text))

    def run(*arguments):
        places = ["--set", f"tmp={tmp_path}", "--set", "data=DATA"]
        output = ["--output_dir", str(tmp_path / "runs")]
        return experiments_run.main([str(path), *output, *places, *arguments])

    return path, run


def add_after(path, lines):
    """Adds a command after each training to a study."""
    path.write_text(path.read_text().replace("[rows.base]", f"[[after]]\n{lines}\n\n[rows.base]"))


def test_the_commands_have_what_a_row_changes(study, tmp_path):
    _, run = study
    config, base, _, _, faster, _, _, longer, measure = run("--dry_run", "--seeds=7").split("\n")
    assert config.startswith(f"mkdir -p {tmp_path}/runs/base/seed-7 && echo '{{")
    assert config.endswith(f"}}' > {tmp_path}/runs/base/seed-7/albert_config.json")
    assert base.startswith(f"python {tmp_path}/train.py --input_file=DATA/train ")
    assert "--learning_rate=0.5 " in base and "--learning_rate=2.0 " in faster
    assert base.endswith(f"--output_dir={tmp_path}/runs/base/seed-7 --seed=7")
    assert measure == f"python {tmp_path}/measure.py --model={tmp_path}/runs/longer/seed-7"
    assert not (tmp_path / "runs").exists()
    steps = [int(line.split("--num_train_steps=")[1].split()[0]) for line in (base, longer)]
    # 3 x 2 x (2 layers x 32 tokens x 2 x 16^2 for keys and values + (32 + 12 tokens) x (2 x 16^2
    # + 2 x 16 x 32 + 2 x 8 x 16) for the rest, of which the last layer computes 4 x 3 tokens
    # + mapping 32 x 128 x 16 + pooler 4 x 16^2 + heads 8 x 128 x (16 + 100)) operations an update
    update = 6 * (2 * 32 * 512 + 44 * (512 + 1024 + 256) + 65536 + 1024 + 8 * 128 * 116)
    assert steps == [round(1e9 / update), round(2e9 / update)]


def test_rows_and_seeds_are_compared(study, tmp_path):
    _, run = study
    table = run("--rows=base,faster", "--seeds=1,2")
    assert "| base | base | 2 |" in table and "| faster | learning_rate 2.0 | 2 |" in table
    assert "| 3.5 ± 0.71 | 0.75 |" in table and "| 2 ± 0.71 | 0.75 |" in table
    lines = (tmp_path / "runs/results.csv").read_text().splitlines()
    assert lines[0] == "row,seed,steps,tokens,loss,accuracy"
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["base", "1"], ["base", "2"], ["faster", "1"], ["faster", "2"],
    ]  # fmt: skip
    steps, tokens = map(int, lines[1].split(",")[2:4])
    assert tokens == steps * 4 * 8
    assert (tmp_path / "runs/curves.png").stat().st_size > 1000
    assert "| longer | train_flops 2000000000.0 | 1 |" in run("--rows=longer")


def test_rows_have_variants_scripts_and_metrics_of_their_own(study, tmp_path):
    path, run = study
    text = path.read_text()
    head, _, _ = text.partition("[config]")
    tune = (tmp_path / "train.py").read_text().replace("loss\\n", "f1\\n")
    (tmp_path / "tune.py").write_text(tune)
    path.write_text(f"""{head.replace("train_flops = 1e9", "")}
[flags]
num_train_steps = 5
learning_rate = 0.5

[rows.one]

[rows.two]
script = "{{tmp}}/tune.py"
metrics = ["f1"]
flags = {{ task_name = "two" }}

[variants.fast]
flags = {{ learning_rate = 1.0 }}

[variants.slow]
""")
    lines = run("--dry_run").split("\n")
    names = [f"{row}-{variant}" for row in ("one", "two") for variant in ("fast", "slow")]
    assert [line.split("/")[-2] for line in lines] == names
    assert "albert_config_file" not in "".join(lines)
    flags = "--num_train_steps=5 --learning_rate=1.0 --task_name=two"
    assert lines[2].startswith(f"python {tmp_path}/tune.py {flags} ")
    table = run("--rows=one-slow,two-fast").splitlines()
    assert table[2] == "| row | changes | seeds | loss | f1 |"
    assert table[4] == "| one-slow | base | 1 | 3 |  |"
    assert table[5] == "| two-fast | task_name two, learning_rate 1.0 | 1 |  | 2 |"
    assert (tmp_path / "runs/results.csv").read_text().endswith("two-fast,1,,2.0\n")


def test_what_is_done_is_not_done_again(study, tmp_path):
    _, run = study
    directory = tmp_path / "runs/base/seed-1"
    directory.mkdir(parents=True)
    (directory / "fail").touch()
    with refuses("measure.py ... 3"):
        run("--rows=base")
    assert not (directory / "metrics.json").exists()
    (directory / "fail").unlink()
    first = run("--rows=base")
    assert run("--rows=base") == first
    assert (directory / "calls").read_text() == "train train "
    assert json.loads((directory / "metrics.json").read_text())["loss"] == 3.0


def test_other_metrics_of_a_finished_row_are_read_again(study, tmp_path):
    path, run = study
    run("--rows=base")
    text = path.read_text()
    path.write_text(text.replace('["loss"]', '["seconds"]'))
    assert "| 561 | 17,952 | 2 | 0.75 |" in run("--rows=base")
    assert (tmp_path / "runs/base/seed-1/calls").read_text() == "train "
    path.write_text(text.replace('["loss"]', '["los"]'))
    with refuses("base ... los ... seconds, loss"):
        run("--rows=faster")
    assert not (tmp_path / "runs/faster").exists()


def test_a_new_command_after_the_training_runs_once_the_rows_are_not_finished(study, tmp_path):
    path, run = study
    run("--rows=base")
    measure = textwrap.dedent(MEASURE).replace("measured", "more").replace("0.75", "0.5")
    (tmp_path / "more.py").write_text(measure)
    words, names = '["{tmp}/more.py", "--model={run}"]', '{ more = "overall.accuracy" }'
    add_after(path, f'command = {words}\nresult = "more.json"\nmetrics = {names}')
    with refuses("more.json ... metrics.json"):
        run("--rows=base")
    (tmp_path / "runs/base/seed-1/metrics.json").unlink()
    assert "| 3 | 0.75 | 0.5 |" in run("--rows=base")


@pytest.mark.parametrize(
    "place, message",
    [("runs", "runs/base/seed-1"), ("runs/base/seed-1/settings.json", "settings.json ... JSON")],
)
def test_files_that_are_in_the_way_are_an_error(study, tmp_path, place, message):
    _, run = study
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("x")
    with refuses(message):
        run("--rows=base")


def test_a_study_without_rows_is_an_error(study):
    path, run = study
    with refuses("missing.toml ... TOML"):
        experiments_run.main(["missing.toml", "--output_dir=x"])
    path.write_text(path.read_text().partition("[rows.base]")[0] + "[rows]")
    with refuses("[rows.NAME]"):
        run()


def test_a_cell_has_the_mean_of_the_seeds():
    shown = {(): "", (0.5,): "0.5", (12345,): "12,345", (12345, 12345): "12,345"}
    shown |= {(10, 20): "15 ± 7.1", (1, 0.5): "0.75 ± 0.35"}
    for values, cell in shown.items():
        assert experiments_run._mean_and_spread(list(values)) == cell


def test_other_settings_of_a_finished_row_are_an_error(study, tmp_path):
    path, run = study
    run("--rows=base")
    path.write_text(path.read_text().replace("learning_rate = 0.5", "learning_rate = 0.25"))
    for rows in ("--rows=base", "--rows=faster"):
        with refuses("base/seed-1/settings.json"):
            run(rows)


def test_other_settings_replace_those_of_a_run_without_a_checkpoint(study, tmp_path):
    path, run = study
    script = (tmp_path / "train.py").read_text()
    (tmp_path / "train.py").write_text("import sys; sys.exit(1)")
    with refuses("train.py ... 1"):
        run("--rows=base")
    (tmp_path / "train.py").write_text(script)
    path.write_text(path.read_text().replace("learning_rate = 0.5", "learning_rate = 0.25"))
    checkpoint = tmp_path / "runs/base/seed-1/model.ckpt-0.index"
    checkpoint.touch()
    with refuses("base/seed-1/settings.json"):
        run("--rows=base")
    checkpoint.unlink()
    assert "| base | base | 1 |" in run("--rows=base")
    settings = json.loads((tmp_path / "runs/base/seed-1/settings.json").read_text())
    assert settings["flags"]["learning_rate"] == 0.25


def test_commands_run_where_they_are_given(study, tmp_path, monkeypatch):
    path, run = study
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
    (tmp_path / "DATA").mkdir()
    (tmp_path / "DATA" / "train").touch()
    with (tmp_path / "train.py").open("a") as file:
        file.write("open(flags['input_file']).close()\n")
    add_after(
        path, 'command = ["make_config.py", "--help"]\nresult = "measured.json"\nmetrics = {}'
    )
    assert "| base | base | 1 |" in run("--rows=base")
    for command in run("--rows=base", "--dry_run").splitlines():
        subprocess.run(command, shell=True, check=True, capture_output=True)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("title", "titel", "title"),
        ("train_flops = 1e9", "train_flop = 1e9", "train_flop"),
        ("[rows.faster]\n    flags", "[rows.faster]\n    flag", "rows.faster"),
        ('script = "', "script = ", "TOML"),
        ("{data}", "{place}", "--set ... place="),
        ("vocab_size", "vocab_sise", "vocab_sise ... vocab_size"),
        ("[rows.base]", "[rows]\n    base = 1", "rows.base"),
        ("[rows.base]", "[[rows]]\n    [other]", "[rows.NAME"),
        ("[[after]]", "[after]", "after must be a list ... [["),
        ('result = "measured.json"', "", "after ... result"),
        ("{data}", "{}", "{}/train ... {{"),
        ("    max_seq_length = 8\n", "", "train_flops ... max_seq_length"),
        ("{data}", "{", "{/train ... {{"),
        ("overall.accuracy", "accuracy", "measured.json ... KeyError"),
        ('"measured.json"', '"other.json"', "overall.accuracy ... other.json"),
        ("overall.accuracy", "overall", "overall ... measured.json"),
        ('{ accuracy = "overall.accuracy" }', "[1]", "[1]"),
        ('["loss"]', '"loss"', "'loss'"),
        ("1e9", '"1e9"', "train_flops ... '1e9'"),
        ("max_seq_length = 8", 'max_seq_length = "x"', "train_flops"),
        ("max_seq_length = 8", "max_seq_length = 0", "train_flops ... max_seq_length ... train_"),
        ("{data}", "{data[x]}", "{data[x]}/train ... {{"),
        ('["loss"]', '["los"]', "base ... los ... seconds, loss"),
        ("[rows.base]", "[rows.basis]", "--rows=base"),
        # What a script would find after the rows before it:
        ("learning_rate = 2.0", "seed = 3", "faster ... --seed"),
        ("learning_rate = 2.0", 'albert_config_file = "x"', "faster ... --albert_config_file"),
        ("learning_rate = 2.0", "num_trials = 3", "faster ... --num_trials"),
        ("rate = 2.0", "rate = [1, 2]", "faster ... --learning_rate=[1, 2]"),
        ("train.py", "trian.py", "base ... trian.py"),
        ("train_flops = 2e9", "config = { hidden_size = 5 }", "longer ... hidden_size"),
        ("title = ", "extends = 3\n    title = ", "extends ... 3"),
        ('["{tmp}/measure.py", "--model={run}"]', "[]", "after ... command"),
    ],
)
def test_a_wrong_study_is_a_plain_error(study, old, new, message):
    path, run = study
    text = textwrap.indent(path.read_text(), "    ").replace(old, new)
    path.write_text(textwrap.dedent(text))
    with refuses(message):
        run("--rows=base")
    mistakes = "faster", "longer", "trian", "extends", "command"
    assert not (message.startswith(mistakes) and (path.parent / "runs").exists())


def test_seeds_are_whole_numbers(study, capsys):
    _, run = study
    with pytest.raises(SystemExit):
        run("--seeds=1,a")
    assert_names(capsys.readouterr().err, "--seeds ... '1,a' ... 1,2,3")


def test_metrics_are_those_of_the_best_checkpoint_as_the_commands_after_it(study, tmp_path):
    path, run = study
    best = """
with open(os.path.join(directory, "best_trial.txt"), "w") as file:
    file.write(f"{steps}:1:0.5")
"""
    with open(tmp_path / "train.py", "a") as file:
        file.write(best)
    assert "| 99 | 0.75 |" in run("--rows=base")
    path.write_text(path.read_text().replace('["loss"]', '["eval_loss"]'))  # its name in a terminal
    assert "| 99 | 0.75 |" in run("--rows=base")


@pytest.mark.usefixtures("study")
def test_a_study_extends_one_that_extends_another(tmp_path):
    for name, base in {"second": "study", "third": "second"}.items():
        text = f'extends = "{base}.toml"\n[rows.{name}]\nflags = {{ learning_rate = 4.0 }}\n'
        (tmp_path / f"{name}.toml").write_text(text)
    values = {"tmp": str(tmp_path), "data": "DATA"}
    found = experiments_run.read_study(str(tmp_path / "third.toml"), values)
    assert [*found["rows"]] == ["base", "faster", "longer", "second", "third"]
    assert len(found["after"]) == 1
    (tmp_path / "second.toml").write_text('extends = "{which}.toml"')
    experiments_run.read_study(str(tmp_path / "third.toml"), values | {"which": "study"})
    with refuses("itself"):
        experiments_run.read_study(str(tmp_path / "third.toml"), values | {"which": "third"})


def test_scripts_of_a_user_have_flags_of_their_own(study):
    path, run = study
    path.write_text(path.read_text().replace("learning_rate = 2.0", "my_flag = 3"))
    assert "--my_flag=3 " in run("--dry_run", "--rows=faster")


def test_values_of_places(study, tmp_path):
    path, run = study
    path.write_text(path.read_text().replace("learning_rate = 2.0", 'learning_rate = "{rate}"'))
    for rate in ("0.25", "1e-3", "1.10"):
        lines = run("--dry_run", "--rows=faster", "--set", f"rate={rate}")
        assert f"--learning_rate={rate} " in lines
    places = '[config]\n    hidden_dropout_prob = "{drop}"'
    path.write_text(path.read_text().replace("[config]", places))
    for drop in ("0.2", "2e-1", ".2"):
        lines = run("--dry_run", "--rows=base", "--set", "rate=1", "--set", f"drop={drop}")
        assert '"hidden_dropout_prob": 0.2,' in lines
    path.write_text(path.read_text().replace(places, "[config]"))
    with refuses("--set rat= ... data, rate, tmp"):
        run("--dry_run", "--set", "rate=1", "--set", "rat=0.25")


def test_data_of_another_command_are_not_taken(study, tmp_path):
    path, run = study
    (tmp_path / "make.py").write_text("import sys; open(sys.argv[1], 'w').write(sys.argv[2])")
    part = 'command = ["{tmp}/make.py", "{tmp}/made/x", "{text}"]\nresult = "{tmp}/made/x"'
    path.write_text(path.read_text().replace("[rows.base]", f"[[before]]\n{part}\n\n[rows.base]"))
    run("--rows=base", "--set", "text=one")
    run("--rows=faster", "--set", "text=one")
    with refuses(f"{tmp_path}/made/x ... one ... two"):
        run("--rows=longer", "--set", "text=two")
    (tmp_path / "made").rename(tmp_path / "moved")
    path.write_text(path.read_text().replace("{tmp}/made/x", "{tmp}/moved//x"))
    run("--rows=longer", "--set", "text=one")
    (tmp_path / "moved/.x.command").unlink()  # as made by version 0.1.0
    run("--rows=longer", "--set", "text=two")
    assert (tmp_path / "moved/x").read_text() == "one"


STOPPING = """\
    import os, pathlib, signal, sys, time
    directory = pathlib.Path(sys.argv[-2].partition("=")[2])
    def save(*_):
        (directory / "saved").touch()
        sys.exit(130)
    signal.signal(signal.SIGINT, save)
    signal.signal(signal.SIGTERM, save)
    (directory / "started").touch()
    time.sleep(100)
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["SIGINT", "SIGTERM"])
def test_a_stop_waits_until_the_script_has_saved(study, tmp_path, kind):
    path, _ = study
    (tmp_path / "train.py").write_text(textwrap.dedent(STOPPING))
    words = [str(path), f"--output_dir={tmp_path}/runs", f"--set=tmp={tmp_path}", "--set=data=x"]
    process = subprocess.Popen(
        [sys.executable, ROOT / "experiments" / "run.py", *words, "--rows=base"],
        start_new_session=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    directory = tmp_path / "runs/base/seed-1"
    while not (directory / "started").exists():
        assert process.poll() is None
        time.sleep(0.1)
    if kind == "SIGINT":  # as a terminal sends it
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.terminate()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and (directory / "saved").exists()
    assert error.count("Stopped") == 1 and "Traceback" not in error


def assert_flags_are_known(lines):
    """Checks the commands of a dry run with the scripts themselves."""
    for line in lines.splitlines():
        if line.startswith("mkdir"):
            continue
        _, script, *words = shlex.split(line)
        assert script.startswith(str(ROOT))
        with flags_of(module_of(Path(script).stem)) as known:
            assert known([script, *words]) == [script], line
            flag_groups.check_values()


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_scripts_take_the_flags_of_the_studies(path):
    places = set(re.findall(r"{(\w+)}", path.read_text())) - {"run"}
    values = [word for place in sorted(places) for word in ("--set", f"{place}=X")]
    words = [str(path), "--output_dir=x", "--dry_run", *values]
    assert_flags_are_known(experiments_run.main(words))
