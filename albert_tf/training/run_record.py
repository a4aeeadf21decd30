# SPDX-License-Identifier: Apache-2.0
"""`run.json`: settings of a training run, and what changed when it is resumed."""

import dataclasses
import datetime
import json
import os
import platform

import tensorflow as tf

from albert_tf import __version__, files, options, resolve, state_files
from albert_tf.checkpoints import run_directory, source
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import UserError
from albert_tf.resolve import as_flag, as_text

FLAGS_FILE = "flags.txt"
FILES = (run_directory.SETTINGS, CONFIG_FILE, FLAGS_FILE)  # that `write` leaves
_MOST_STARTS = 20
# The config itself is compared, and not its path.
_MAY_DIFFER = {"albert_config_file", "allow_changes_on_resume"}
_MOST_FILES = 10  # input files to name
_MOST_CHARACTERS = 120  # of a value


def describe(run, input_files, before=None):
    """Describes the settings of a training run.

    Args:
        run: loop.Run; `settings.record` has the values of the flags.
        input_files: sequence of str, files to train and evaluate on.
        before: RunSettings of the last start, whose files stay; or None.

    Returns:
        RunSettings, completed with facts about the run.
    """
    sizes = {path: tf.io.gfile.stat(path).length for path in input_files}
    return dataclasses.replace(
        run.settings.record,
        versions={
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "albert_tf": __version__,
        },
        devices=list(run.strategy.extended.worker_devices),
        input_files=(before.input_files if before else {}) | sizes,
        seed=run.settings.seed,
        parameter_count=sum(v.shape.num_elements() for v in run.variables.values()),
    )


def write(run, described):
    """Writes the settings of a training run, so that it can be inspected, repeated and exported.

    If the vocabulary of a resumed run is no longer known, the one in run.json stays.

    Scripts can read `flags.txt` and `albert_config.json` again; `run.json` is for later commands,
    for people, and for the next start in the directory. Call this after the weights are known to
    fit: a run that fails must not leave another config next to the checkpoints of an earlier run.

    Args:
        run: loop.Run.
        described: RunSettings, of `describe`.
    """
    folder = RunDirectory(run.settings.output_dir)
    before = folder.settings if run.step else None
    start = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "step": run.step,
        "versions": described.versions,
        "devices": described.devices,
    }
    starts = [*(before.starts if before else [])[1 - _MOST_STARTS :], start]
    if before:
        # The vocabulary of the records may have moved since: it and its casing stay.
        vocabulary, text = described.vocabulary or before.vocabulary, before.text | described.text
        described = dataclasses.replace(described, vocabulary=vocabulary, text=text)
    lines = [f"--{name}={as_text(value)}\n" for name, value in described.flags.items()]
    files.write_text(folder.file(FLAGS_FILE), "".join(lines))
    files.write_text(folder.file(CONFIG_FILE), described.albert_config.to_json_string())
    content = dataclasses.replace(described, starts=starts)
    state_files.write(folder.file(run_directory.SETTINGS), content)


def forget_evaluations(directory, before, described):
    """Lets a resumed run evaluate its best checkpoint again if the model or its text changes.

    Args:
        directory: str, of the run.
        before: RunSettings of the last start, or None.
        described: RunSettings, of `describe`.
    """
    if before is None:
        return
    is_same = before.albert_config == described.albert_config
    text = {name: described.text.get(name, value) for name, value in before.text.items()}
    if not is_same or text != before.text:
        for name in (run_directory.BEST_STATE, run_directory.EVALUATED_ON):
            files.remove(RunDirectory(directory).file(name))


def add_data(directory, report):
    """Adds the report on the data, a dict for JSON, to run.json if there is one."""
    folder = RunDirectory(directory)
    if folder.settings:
        content = dataclasses.replace(folder.settings, data=report)
        state_files.write(folder.file(run_directory.SETTINGS), content)


# --- Changes -------------------------------------------------------------------------------------


def say_changes(before, described):
    """Prints how the settings of a resumed run differ from those of its last start.

    Args:
        before: RunSettings of the last start, or None.
        described: RunSettings, of `describe`.
    """
    lines = _differences(before, described) if before else ()
    if lines:
        print("\n  ".join(["Changed since the last start of this run:", *lines]))


def warn_of_changed_files(before, described):
    """Warns if files of a run that is done have changed; arguments are those of `say_changes`."""
    earlier = before.input_files if before else {}
    sizes = {path: size for path, size in described.input_files.items() if path in earlier}
    if lines := _lines("{}, bytes", {path: earlier[path] for path in sizes}, sizes):
        print(
            f"Warning: files have changed since the training ({'; '.join(lines[:_MOST_FILES])}): "
            "give another --output_dir to train on them"
        )


def check_done(found, step, last_step, settings, now):
    """Raises UserError if a run whose training is done is started with other settings.

    Args:
        found: checkpoints.source.Source of the run.
        step: int, steps made; None if unknown.
        last_step: int, steps to train for.
        settings: resolve.Resolved, of the command.
        now: RunSettings, of the command.
    """
    before = found.settings
    if before is None or step is None or step < last_step:
        return
    pairs = {name: (before.text.get(name, value), value) for name, value in now.text.items()}
    pairs = {name: values for name, values in pairs.items() if values[0] != values[1]}
    for name, row in sorted(settings.rows.items()):
        if not (options.decides_training(row.columns) and settings.is_read(name)):
            continue
        value, fact = settings.get(name), settings.facts.get(name)
        earlier = fact.value if fact else before.flags.get(name, row.default)
        if _is_other(name, row, value, earlier, fact):
            pairs[name] = earlier, value
    if pairs:
        changed = (
            f"{as_flag(name)}={_shown(value)}, before {_shown(earlier)}"
            for name, (earlier, value) in pairs.items()
        )
        raise UserError(
            f"nothing is left to train: step {step} of {last_step} is done, with other values in "
            f"{found.settings_file}: {'; '.join(changed)}. Give more steps, another "
            "--output_dir, or --do_train=false"
        )


def _is_other(name, row, value, earlier, fact):
    """Whether an option has another value than in the training (bool); `fact` may be None."""
    if row.columns["path"] and row.columns["on_record"] in ("free", "follow") and earlier and value:
        return _names(earlier) != _names(value)  # it may have been moved
    if fact:
        values = {name: value} if value is not None else {}
        return bool(resolve.contradictions(values, {name: fact}, key=source.key))
    return json.dumps(earlier) != json.dumps(value)


def _names(paths):
    """The last parts of paths, a str with commas between them: list of str."""
    paths = map(files.absolute_path, paths.split(","))
    return [os.path.basename(path.rstrip("/")) for path in paths]


def _differences(before, now):
    """Differences of two RunSettings, one line each: "name: before ..., now ..."."""
    before, now = (json.loads(json.dumps(dataclasses.asdict(each))) for each in (before, now))
    lines = []
    for section, label in (("flags", "--{}"), ("config", "config: {}"), ("versions", "{}")):
        lines += _lines(label, before[section], now[section])
    lines += _lines("{}", {"devices": before["devices"]}, {"devices": now["devices"]})
    inputs = _lines("input file {}, bytes", before["input_files"], now["input_files"])
    more = [f"and {len(inputs) - _MOST_FILES} more input files"] * (len(inputs) > _MOST_FILES)
    return [*lines, *inputs[:_MOST_FILES], *more]


def _lines(label, before, now):
    names = [name for name in {**before, **now} if name not in _MAY_DIFFER]
    return [
        f"{label.format(name)}: before {_shown(before.get(name))}, now {_shown(now.get(name))}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def _shown(value):
    text = value if isinstance(value, str) else json.dumps(value)
    text = "none" if value is None else text
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
