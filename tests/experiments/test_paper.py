# SPDX-License-Identifier: Apache-2.0
"""experiments/paper.py: the tables of the paper, each as a study."""

import json
import re
from pathlib import Path

import pytest

from experiments import paper, run
from tests import ROOT, tiny
from tests.errors import assert_names, refuses
from tests.experiments.test_run import assert_flags_are_known
from tests.script_flags import module_of

SIZE = {"layers": 2, "hidden": 16, "heads": 2, "inner": 32}
TINY = SIZE | dict.fromkeys(("base", "large", "xlarge", "xxlarge", "deep"), SIZE) | {
    "pieces": 200, "e64": 4, "e128": 8, "e256": 12, "e768": 16, "widths": [[16, 2, 32]] * 4,
    "figure_layers": 3, "steps": 2, "warm_up": 0, "decay": 1, "steps_bert": 2, "steps_more": 2,
    "length": 32, "predictions": 5, "tune": 2, "tune_warm_up": 0,
}  # fmt: skip
OF_SEARCH = {
    "half_steps": 2, "half_decay": 1, "half_warm_up": 0, "adamw_warm_up": 0, "twice_steps": 2,
    "twice_decay": 1,
}  # fmt: skip
PLACES = {name: name.upper() for name in ("text", "heldout_text", "blimp", "glue")}
# Rounded as the paper does, in millions: Tables 3 and 4.
MILLIONS = {
    "all-e64": 10, "all-e128": 12, "all-e256": 16, "all-e768": 31, "none-e64": 88, "none-e128": 90,
    "none-e256": 94, "none-e768": 109, "attention-e128": 64, "attention-e768": 83,
    "ffn-e128": 38, "ffn-e768": 57,
}  # fmt: skip


def command(tmp_path, *words):
    places = (f"{name}={value}" for name, value in PLACES.items())
    sets = [word for place in places for word in ("--set", place)]
    return paper.main([*words, f"--output_dir={tmp_path}", *sets])


def rows_of(lines):
    """Numbers of parameters by row, of the output of the scale paper."""
    found = re.findall(r"^# ([\w-]+): ([\d,]+) parameters; the paper has (.*)$", lines, re.M)
    return {row: (int(count.replace(",", "")), published) for row, count, published in found}


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("table", paper.TABLES)
def test_the_scripts_take_the_flags_of_each_row(tmp_path, table, scale):
    lines = command(tmp_path, f"--table={table}", f"--scale={scale}", "--dry_run")
    study = paper.TABLES[table].read_text()
    assert rows_of(lines).keys() == set(re.findall(r"^\[rows\.([\w-]+)\]", study, re.M))
    names = re.findall(r"(?:^|[\w{}])({\w+})", lines)
    assert not names  # every place is filled
    scripts = (line for line in lines.splitlines() if line.startswith(f"python {ROOT}"))
    assert_flags_are_known("\n".join(scripts))
    assert not list(tmp_path.iterdir())


def test_parameters_at_the_scale_of_the_paper(tmp_path):
    found = rows_of(command(tmp_path, "--table=1", "--scale=paper"))
    assert found["bert-base"] == (109081344, "108 (million)")
    assert found["albert-base"] == (11683584, "12 (million)")
    assert found["albert-xxlarge"] == (222595584, "235 (million)")
    assert found["bert-large"] == (334607360, "334 (million)")
    grid = rows_of(command(tmp_path, "--table=4", "--scale=paper"))
    assert {row: round(count / 1e6) for row, (count, _) in grid.items()} == MILLIONS
    with refuses("albert-base ... 12 (million) ... config"):
        command(tmp_path, "--table=1", "--scale=paper", "--set", "e128=256")


def test_the_setting_of_the_paper(tmp_path):
    lines = command(tmp_path, "--table=4", "--scale=paper", "--rows=all-e128", "--seeds=2")
    (first, second) = (line for line in lines.splitlines() if "run_pretraining.py" in line)
    for flag in ("num_train_steps=125000", "train_batch_size=4096", "optimizer=lamb",
                 "learning_rate=0.00176", "max_seq_length=512", "seed=1"):  # fmt: skip
        assert f"--{flag}" in first.split()
    assert second == first.replace("seed-1", "seed-2").replace("seed=1", "seed=2")


def test_the_second_training_of_table_8_starts_from_the_first(tmp_path):
    lines = command(tmp_path, "--table=8", "--dry_run", "--seeds=2")
    directory = tmp_path / "small/table-8/with-dropout"
    assert f"--output_dir={directory}/seed-2" in lines
    assert lines.count(f"--init_checkpoint={directory}/seed-2/model.ckpt-best ") == 2


def test_a_place_without_a_value_is_named(tmp_path):
    with refuses("--set heldout_text="):
        paper.main(["--table=4", f"--output_dir={tmp_path}", "--set", "text=x"])


@pytest.fixture
def in_this_process(monkeypatch, launched, eagerly):
    """Runs commands of a study in this process; returns them as they come."""
    from albert_tf.api import inspect

    done = []

    def carry_out(words):
        done.append(words)
        if words[0] == "-m":
            return inspect.main(words[2:])
        result = launched(module_of(Path(words[0]).stem), *words[1:])
        if result.returncode:
            print(result.stderr)
        return result.returncode

    monkeypatch.setattr(run, "_run", carry_out)
    return done


@pytest.fixture
def study(tmp_path):
    """Runs all rows of a table with a tiny model; returns the table."""
    sentences = (ROOT / "experiments/sample/sentences.txt").read_text().splitlines()
    documents = ["\n".join(sentences[start : start + 10]) for start in range(0, 60, 10)]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    (tmp_path / "pairs.jsonl").write_text(
        "".join((ROOT / "experiments/sample/pairs.jsonl").read_text().splitlines(True)[:2])
    )
    text = str(tmp_path / "text.txt")
    places = {"text": text, "heldout_text": text, "blimp": str(tmp_path), "glue": tiny.GLUE_DATA}

    def carry_out(table, *words):
        read = run.read_study

        def read_tiny(path, values):
            only = OF_SEARCH if table == "search" else {}
            return read(path, values | TINY | places | only)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "read_study", read_tiny)
            return paper.main([f"--table={table}", f"--output_dir={tmp_path}/out", *words])

    return carry_out


@pytest.mark.slow
@pytest.mark.parametrize("table", {path: name for name, path in paper.TABLES.items()}.values())
def test_two_updates_of_each_row(table, study, in_this_process, tmp_path):
    result = study(table)
    directory = tmp_path / "out/small" / paper.TABLES[table].stem
    rows = re.findall(r"^\[rows\.([\w-]+)\]", paper.TABLES[table].read_text(), re.M)
    lines = result.splitlines()
    assert [line.split(" | ")[0] for line in lines[4:]] == [f"| {row}" for row in rows]
    header, *results = (directory / "results.csv").read_text().splitlines()
    assert len(results) == len(rows) and "minimal_pairs" in header
    assert (directory / "curves.png").stat().st_size > 1000
    number = len(in_this_process)
    study(table)
    assert len(in_this_process) == number  # nothing is done again


@pytest.mark.long
def test_a_table_has_the_figures_of_the_paper_and_goes_on_after_a_kill(
    study, in_this_process, tmp_path, monkeypatch
):
    counted = run._run

    def killed(words):
        if "minimal_pairs.py" in words[0]:
            raise KeyboardInterrupt
        return counted(words)

    monkeypatch.setattr(run, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        study("figure1", "--rows=albert")
    before = len(in_this_process)
    monkeypatch.setattr(run, "_run", counted)
    study("figure1", "--rows=albert")
    scripts = [Path(words[0]).stem for words in in_this_process[before:]]
    assert scripts == ["run_pretraining", "minimal_pairs", "-m"]  # no data again
    directory = tmp_path / "out/small/table-figure1"
    layers = json.loads((directory / "albert/seed-1/layers.json").read_text())
    assert len(layers["distance"]) == TINY["figure_layers"]
    table = (directory / "results.md").read_text()
    assert_names(table, f"first_distance ... {layers['first_distance']:.4g}")


@pytest.mark.long
def test_published_numbers_stand_next_to_ours(study, in_this_process, tmp_path):
    table = study("depth", "--rows=layers-1").splitlines()
    header, row = (dict(enumerate(line.split(" | "))) for line in (table[2], table[4]))
    column = next(n for n, name in header.items() if name.startswith("paper: average"))
    assert row[column].startswith("52.9")
    size = next(n for n, name in header.items() if name == "parameters")
    assert int(row[size].replace(",", "")) > 1000
