# SPDX-License-Identifier: Apache-2.0
"""Runs a study: trainings that differ from a base in a few settings, and a table of their results.

python experiments/run.py experiments/english_small.toml --output_dir=output/pilots \
    --set data=DIR --set blimp=DIR --dry_run

A study is a TOML file; experiments/README.md describes it. Finished work is not
repeated: an interrupted row resumes at its last checkpoint, and a finished one is skipped.
"""

import argparse
import csv
import functools
import io
import json
import math
import operator
import os
import re
import shlex
import statistics
import string
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from albert_tf import files, options, plot
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import UserError, about, exit_code, handling_signals, import_extra
from albert_tf.model import flops
from albert_tf.training import history

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = "settings.json"  # the settings of a run, in its directory
DONE = "metrics.json"  # its metrics, once it has finished
NUMBER = int | float
KINDS = {str: "a string", list: "a list, such as [...] or [[...]]", NUMBER: "a number"}
KINDS |= {dict: "a table, such as [rows.NAME]"}
# Key -> type of its value: what a row may change, a study, and commands after the training.
CHANGES = {"script": str, "metrics": list, "config": dict, "flags": dict, "train_flops": NUMBER}
CHANGES |= {"paper": dict}  # published numbers to show next to the results
COMMANDS = {"command": list, "result": str}
COMMANDS = {"before": COMMANDS, "after": COMMANDS | {"metrics": dict}}
STUDY = CHANGES | dict.fromkeys(COMMANDS, list) | {"title": str, "extends": str}
STUDY |= dict.fromkeys(("rows", "variants", "values"), dict)
STUDY |= {"curves": str}  # a file with numbers for each layer, to draw
REQUIRED = {"title", "script", "metrics", "flags"}
OWN_FLAGS = ("output_dir", "seed", "num_trials")  # `Run` decides them
PAPER_PLACES = {"scale", "data", "runs", "glue"}  # that the command of all tables of the paper has
SIZE = "parameters"  # a metric that the config tells
STOPPED = 130  # exit code of a script after Ctrl-C or SIGTERM


class Run(NamedTuple):
    """A row of the study with a seed.

    Attributes:
        row: str, name of the row.
        seed: int.
        script: str, that trains.
        metrics: list of str, metrics of the best checkpoint to compare.
        config: dict, of albert_config.json; empty if the script needs none.
        flags: dict of name -> value, of the script.
        directory: Path, of the script's results.
    """

    row: str
    seed: int
    script: str
    metrics: list
    config: dict
    flags: dict
    directory: Path


# --- The study -----------------------------------------------------------------------------------


def read_study(path, values):
    """Reads a study.

    Args:
        path: str, TOML file.
        values: dict of name -> str, for the places written as {name} in its strings.

    Returns:
        dict of the study.

    Raises:
        UserError: there is no such file, it is not TOML, a key is unknown, or a place has no value.
    """
    parts = _with_bases(path, values)
    text = json.dumps(parts, ensure_ascii=False, default=str)
    study = functools.reduce(_extended, parts)
    places = {*re.findall(r"{(\w+)", text), *study.get("values", ())}
    if unknown := sorted(values.keys() - places - PAPER_PLACES):
        known = ", ".join(sorted(places - {"run", "seed", "root"}))
        raise UserError(f"--set {unknown[0]}=... has no place in {path}. Places: {known}")
    later = {"root": str(ROOT), "run": "{run}", "seed": "{seed}"}
    study = _filled(study, study.get("values", {}) | values | later)
    tables = ("config", "rows", "variants", "values")
    study = {"before": [], "after": [], **{key: {} for key in tables}} | study
    _check_keys(path, study, STUDY, REQUIRED)
    for key, known in COMMANDS.items():
        for part in study[key]:
            _check_keys(f"{path}: {key}", part, known, known.keys())
            if not part["command"]:
                raise UserError(f"{path}: {key}: command is empty")
    for key in ("rows", "variants"):
        for name, part in study[key].items():
            _check_keys(f"{path}: {key}.{name}", part, CHANGES)
    if not study["rows"]:
        raise UserError(f"{path} has no rows: write at least one table [rows.NAME]")
    if study["variants"]:
        study["rows"] = {
            f"{name}-{variant}": _merged(row, changes)
            for name, row in study["rows"].items()
            for variant, changes in study["variants"].items()
        }
    return study


def _with_bases(path, values, seen=()):
    """The study of a file after those that it extends: list of dict."""
    if os.path.abspath(path) in seen:
        raise UserError(f"{path} extends itself")
    if not os.path.isfile(path):
        raise UserError(f"{path} is no file: give the TOML file of a study")
    try:
        study = tomllib.loads(files.read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not a TOML file: {error}") from error
    _check_keys(path, study, STUDY)
    if "extends" not in study:
        return [study]
    other = os.path.join(os.path.dirname(path), _filled(study["extends"], values))
    return [*_with_bases(other, values, (*seen, os.path.abspath(path))), study]


def _extended(base, study):
    """A study with what another one changes of it: dict."""
    lists = {key: [*base.get(key, ()), *study.get(key, ())] for key in COMMANDS}
    return _merged(base, study | lists)


def _check_keys(where, part, known, needed=frozenset()):
    """Raises UserError if a table lacks a key, or has an unknown one or a value of another type."""
    if not isinstance(part, dict):
        raise UserError(f"{where} must be a table")
    if absent := sorted(needed - part.keys()):
        raise UserError(f"{where} has no {absent[0]}; experiments/README.md says what it is")
    for key, value in part.items():
        if key not in known:
            raise UserError(f"{where}: {key} is unknown. Known are {', '.join(sorted(known))}")
        if not isinstance(value, known[key]):
            raise UserError(f"{where}: {key} must be {KINDS[known[key]]}. Received: {value!r}")


def _merged(settings, changes):
    """Settings with changes; of tables, such as flags, only the entries that differ change."""
    return settings | {
        key: settings.get(key, {}) | value if isinstance(value, dict) else value
        for key, value in changes.items()
    }


def _filled(part, values):
    """A part of the study with the values of its places."""
    if isinstance(part, dict):
        return {key: _filled(value, values) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, values) for value in part]
    if not isinstance(part, str):
        return part
    try:
        if place := re.fullmatch("{([^{}]+)}", part):  # whose value may be a number
            return string.Formatter().get_field(place[1], (), values)[0]
        return part.format(**values)
    except KeyError as error:
        raise UserError(f"{part!r} needs a value: give --set {error.args[0]}=...") from error
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        raise UserError(f"{part!r}: {error}. Write {{{{ for a brace") from error


def runs_of(study, output_dir, rows, seeds):
    """The runs of a study: list of Run.

    Args:
        study: dict, of `read_study`.
        output_dir: Path, of all runs.
        rows: list of str, names of rows; empty for all.
        seeds: list of int.

    Raises:
        UserError: a row is unknown, or its config is wrong.
    """
    unknown = [name for name in rows if name not in study["rows"]]
    if unknown:
        raise UserError(f"--rows={unknown[0]} is not a row. Rows: {', '.join(study['rows'])}")
    runs = []
    for name in rows or study["rows"]:
        settings = _merged(study, study["rows"][name])
        settings["config"] = {key: _number(value) for key, value in settings["config"].items()}
        kept = {key: settings[key] for key in ("script", "metrics", "config", "flags")}
        _check_run(name, **kept)
        if "train_flops" in settings:
            kept["flags"] = settings["flags"] | {"num_train_steps": _steps(settings)}
        folder = output_dir / name
        runs += [Run(name, s, directory=folder / f"seed-{s}", **kept) for s in seeds]
    return runs


def _number(value):
    """A value of a config, which is a str if it was typed after --set."""
    is_decimal = isinstance(value, str) and re.fullmatch(r"\d*\.\d+|\d+(\.\d+)?e-?\d+", value)
    return float(value) if is_decimal else value


def _check_run(row, script, metrics, config, flags):
    """Raises UserError for a mistake that the script would only find after the rows before it."""
    if not (ROOT / script).is_file():
        raise UserError(f"row {row}: there is no script {script}")
    if config:
        with about(f"row {row}"):
            AlbertConfig.from_dict(config)
    for flag, value in flags.items():
        if flag in OWN_FLAGS or (config and flag == "albert_config_file"):
            raise UserError(f"row {row}: experiments/run.py decides --{flag}: leave it out")
        if flag not in options.KINDS and not os.path.isabs(script):
            meant = options.name_here(flag, options.KINDS)
            raise UserError(
                f"row {row}: no script has --{flag}" + f". Give --{meant}" * bool(meant)
            )
        if isinstance(value, list | dict):
            raise UserError(f"row {row}: --{flag}={value}: write a row or variant for each value")


def _steps(settings):
    """Number of updates that take `train_flops` floating-point operations."""
    names = ("max_seq_length", "max_predictions_per_seq", "train_batch_size")
    given = {name: settings["flags"].get(name) for name in names}
    if not all(re.fullmatch("[1-9][0-9]*", str(value)) for value in given.values()):
        raise UserError(f"train_flops needs whole numbers above 0 in flags. Received: {given}")
    length, predictions, batch = map(int, given.values())
    config = AlbertConfig.from_dict(settings["config"])
    update = flops.training_flops(config, batch, length, predictions)
    return max(1, round(settings["train_flops"] / update))


# --- A run ---------------------------------------------------------------------------------------


def commands_of(study, run):
    """The commands of a run, one after another: list of lists of words, without `python`."""
    config = {"albert_config_file": run.directory / CONFIG_FILE} if run.config else {}
    flags = run.flags | config | {"output_dir": run.directory, "seed": run.seed}
    words = [f"--{name}={value}" for name, value in flags.items()]
    after = [measure["command"] for measure in study["after"]]
    filled = (
        [str(w).replace("{run}", str(run.directory)).replace("{seed}", str(run.seed)) for w in part]
        for part in ([run.script, *words], *after)
    )
    return [_script(part) for part in filled]


def _script(words):
    """A command with the path of its script; `-m` and a module stay."""
    return words if words[0] == "-m" else [str(ROOT / words[0]), *words[1:]]


def _settings_of(run):
    return {"script": run.script, "config": run.config, "flags": run.flags}


def check_settings(run):
    """Raises UserError if a run has been trained or finished with other settings."""
    path = run.directory / SETTINGS
    if not path.exists() or files.read_json(str(path)) == _settings_of(run):
        return
    if _is_done(run) or RunDirectory(str(run.directory)).trained:
        remedy = f"give the row another name, or delete {run.directory}"
        raise UserError(f"{path} holds other settings than row {run.row}: {remedy}")


def _is_done(run):
    return (run.directory / DONE).exists()


def carry_out(study, run):
    """Runs the remaining commands of a run, and keeps its metrics.

    Raises:
        UserError: a command failed.
    """
    files.write_text(str(run.directory / SETTINGS), json.dumps(_settings_of(run), indent=2))
    if run.config:
        files.write_text(str(run.directory / CONFIG_FILE), json.dumps(run.config, indent=2) + "\n")
    for words in commands_of(study, run):
        _carry_out_command(words, f"row {run.row}, seed {run.seed}")
    files.write_text(str(run.directory / DONE), json.dumps(metrics_of(study, run), indent=2))


def prepare(study):
    """Runs the commands before the first row whose results are not there.

    Raises:
        UserError: a command failed.
    """
    for part in study["before"]:
        result, words = part["result"], [*map(str, part["command"])]
        folder = os.path.dirname(os.path.abspath(result))
        record = shlex.join(_without_folder(word, folder) for word in words[1:]) + "\n"
        note = os.path.join(folder, f".{os.path.basename(result)}.command")  # not among records
        made_by = files.read_text(note)
        if not os.path.exists(result):
            files.make_directory(folder)
            _carry_out_command(_script(words), result)
            files.write_text(note, record)
        elif made_by and made_by != record:
            raise UserError(
                f"{result} was made by another command: give another directory, or delete it and "
                f"all that was made of it. Before: {made_by.strip()}; now: {record.strip()}"
            )


def _without_folder(word, folder):
    """A word of a command with absolute paths; those in a folder, which may move, without it."""
    name, equals, values = word.rpartition("=")
    paths = [os.path.abspath(each) if "/" in each else each for each in values.split(",")]
    return name + equals + ",".join(path.removeprefix(f"{folder}/") for path in paths)


def _carry_out_command(words, what):
    print(f"=== {what}: {shlex.join(words)}", flush=True)
    code = _run(words)
    if code == STOPPED:
        print("Stopped. Run the same command again to resume.", file=sys.stderr)
        sys.exit(code)
    if code:
        raise UserError(f"{words[0]} of {what} ended with exit code {code}")


def _run(words):
    """Runs a script; returns its exit code, or STOPPED once it has saved its state on a signal."""
    # In a group of its own, so that a signal reaches it once: a second one interrupts its saving.
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}  # for modules, from any directory
    process = subprocess.Popen([sys.executable, *words], env=environment, process_group=0)
    stopped = False

    def stop(number, _):
        nonlocal stopped
        stopped = True
        process.send_signal(number)

    with handling_signals(stop):
        code = process.wait()
    return STOPPED if stopped else code


def metrics_of(study, run):
    """Metrics of a finished run: dict of name -> number.

    They are those of the best checkpoint, or else of the last evaluation, and those of the commands
    after the training. A metric may be called as in `eval_results.txt`.
    """
    found = history.read(str(run.directory)).get("eval", {})
    results = RunDirectory(str(run.directory)).results
    evaluations = found | {f"eval_{name}": curve for name, curve in found.items()}
    if SIZE in run.metrics:
        size = AlbertConfig.from_dict(run.config).num_parameters
        evaluations = {SIZE: ([0], [size])} | evaluations
    unknown = [name for name in run.metrics if name not in evaluations]
    if unknown:
        raise UserError(
            f"row {run.row} has no metric {unknown[0]}. It has {', '.join(found) or 'none'}"
        )
    metrics = {}
    for name in run.metrics:
        steps, values = evaluations[name]
        at = dict(zip(steps, values, strict=True))
        metrics[name] = at.get(results and results.best_step, values[-1])
    for measure in study["after"]:
        path = run.directory / measure["result"]
        try:
            result = _read_result(path)
            for name, keys in measure["metrics"].items():
                metrics[name] = functools.reduce(operator.getitem, str(keys).split("."), result)
                if not isinstance(metrics[name], NUMBER):
                    raise TypeError(f"{name} is not a number")
        except (OSError, ValueError, LookupError, TypeError) as error:
            wanted = ", ".join(map(str, measure["metrics"].values()))
            raise UserError(f"cannot read {wanted} in {path}: {error!r}") from error
    sizes = ("num_train_steps", "train_batch_size", "max_seq_length")
    if not run.flags.keys() >= {*sizes} or "length_buckets" in run.flags:
        return metrics
    steps, *others = (int(run.flags[name]) for name in sizes)  # strings if they come from --set
    return {"steps": steps, "tokens": math.prod([steps, *others]), **metrics}


def _read_result(path):
    """What a command wrote: a JSON file, or lines such as those of eval_results.txt."""
    text = path.read_text()
    if path.suffix != ".txt":
        return json.loads(text)
    pairs = (line.split(" = ") for line in text.splitlines() if line.count(" = ") == 1)
    return {name: float(value) for name, value in pairs if name != "best_trial"}


# --- Results -------------------------------------------------------------------------------------


def finished(study, runs):
    """Metrics of the runs that have finished: list of (Run, dict of name -> number).

    They are read again, since the study may name other metrics than when the runs finished.

    Raises:
        UserError: a run lacks a metric.
    """
    try:
        return [(run, metrics_of(study, run)) for run in runs if _is_done(run)]
    except UserError as error:
        remedy = f"if it is of a new command, delete {DONE} of finished rows"
        raise UserError(f"{error}; {remedy}") from error


def write_results(study, results, output_dir):
    """Writes results.csv, results.md and curves.png.

    Args:
        study: dict, of `read_study`.
        results: list of (Run, metrics), at least one.
        output_dir: Path.
    """
    names = list(dict.fromkeys(name for _, metrics in results for name in metrics))
    text = io.StringIO()
    writer = csv.DictWriter(text, ["row", "seed", *names], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"row": run.row, "seed": run.seed, **metrics} for run, metrics in results)
    files.write_text(str(output_dir / "results.csv"), text.getvalue())
    by_row = {}
    for run, metrics in results:
        by_row.setdefault(run.row, []).append(metrics)
    papers = {row: study["rows"][row].get("paper", {}) for row in by_row}
    published = list(dict.fromkeys(name for values in papers.values() for name in values))
    header = ["row", "changes", "seeds", *names, *(f"paper: {name}" for name in published)]
    table = [header, ["---"] * len(header)]
    for row, several in by_row.items():
        shown = [_mean_and_spread([f[name] for f in several if name in f]) for name in names]
        shown += [papers[row].get(name, "") for name in published]
        table.append([row, _changes(study["rows"][row]), len(several), *shown])
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in table]
    page = "\n".join([f"# {study['title']}", "", *lines, ""])
    files.write_text(str(output_dir / "results.md"), page)
    layers = study.get("curves", "")
    read, unit = (_curves_of_layers, "layer") if layers else (history.read, "step")
    curves = {
        f"{run.row}, seed {run.seed}": read(f"{run.directory}/{layers}") for run, _ in results
    }
    plot.draw(curves, str(output_dir / "curves.png"), unit)


def _curves_of_layers(path):
    """Lists in a JSON file, with a value for each layer, as curves."""
    found = {name: v for name, v in files.read_json(path).items() if isinstance(v, list)}
    return {"eval": {name: ([*range(1, len(v) + 1)], v) for name, v in found.items()}}


def _changes(row):
    """The changes of a row, in words."""
    budget = {"train_flops": row["train_flops"]} if "train_flops" in row else {}
    changes = row.get("config", {}) | row.get("flags", {}) | budget
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "base"


def _mean_and_spread(values):
    """Mean of several seeds, with the standard deviation if they differ; "" of none."""
    if not values:
        return ""
    if len(set(values)) > 1:
        return f"{statistics.fmean(values):.4g} ± {statistics.stdev(values):.2g}"
    return f"{values[0]:.4g}" if isinstance(values[0], float) else f"{values[0]:,}"


# --- The command line ----------------------------------------------------------------------------


def whole_numbers(text):
    """A comma-separated list of whole numbers, for argparse: list of int."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be whole numbers, such as 1,2,3")
    return [*map(int, text.split(","))]


def _pair(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} must be NAME=VALUE")
    return name, int(value) if value.isdecimal() else value


def main(arguments=None):
    """Runs the rows of a study; returns the table of results, or the commands."""
    parser = parser_of(__doc__)
    parser.add_argument("study", help="TOML file")
    parser.add_argument("--seeds", type=whole_numbers, default=[1], help="as 1,2,3 (default: 1)")
    given = parser.parse_args(arguments)
    return run_study(read_study(given.study, dict(given.set)), given)


def parser_of(description):
    """An argparse parser with the arguments that all commands with studies have."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    parser.add_argument("--output_dir", type=Path, required=True, help="directory of all runs")
    parser.add_argument("--rows", default="", help="comma-separated names of rows; all by default")
    parser.add_argument(
        "--set", type=_pair, action="append", default=[], metavar="NAME=VALUE",
        help="value of a place {NAME} in the study, such as data=DIR; may be repeated",
    )  # fmt: skip
    parser.add_argument("--dry_run", action="store_true", help="only print the commands")
    return parser


def run_study(study, given):
    """Runs the rows of a study; returns the table of results, or the commands.

    Args:
        study: dict, of `read_study`.
        given: arguments with `output_dir`, `rows`, `seeds` and `dry_run`, as of `main`.
    """
    rows = [row.strip() for row in given.rows.split(",") if row.strip()]
    output_dir = Path(os.path.abspath(given.output_dir))
    runs = runs_of(study, output_dir, rows, given.seeds)
    if given.dry_run:
        commands = [_script([*map(str, part["command"])]) for part in study["before"]]
        lines = [shlex.join(["python", *words]) for words in commands]
        for run in runs:
            if run.config:
                folder = shlex.quote(str(run.directory))
                config = shlex.quote(json.dumps(run.config))
                lines.append(f"mkdir -p {folder} && echo {config} > {folder}/{CONFIG_FILE}")
            lines += [shlex.join(["python", *words]) for words in commands_of(study, run)]
        return "\n".join(lines)
    import_extra("matplotlib.figure", "experiments/run.py")  # before the first training
    everything = runs_of(study, output_dir, [], _seeds_in(output_dir))
    for run in [*runs, *everything]:
        check_settings(run)
    finished(study, everything)  # raises if a metric is missing, before the first training
    prepare(study)
    for run in runs:
        if not _is_done(run):
            carry_out(study, run)
        everything = runs_of(study, output_dir, [], _seeds_in(output_dir))
        write_results(study, finished(study, everything), output_dir)
    return (output_dir / "results.md").read_text()


def _seeds_in(output_dir):
    """Seeds of the runs in a directory, in order."""
    found = {path.name.removeprefix("seed-") for path in output_dir.glob("*/seed-*")}
    return sorted(int(name) for name in found if name.isdecimal())


if __name__ == "__main__":
    sys.exit(exit_code("experiments/run.py", main))
