# SPDX-License-Identifier: Apache-2.0
"""`run.json`: settings of a training run, and what changed when it is resumed."""

import csv
import dataclasses
import datetime
import io
import json
import platform
import secrets

import tensorflow as tf

from albert_tf import __version__, files, state
from albert_tf.checkpoints import loading, run_directory
from albert_tf.checkpoints.run_directory import CASING, RunDirectory
from albert_tf.checkpoints.source import as_flag
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import UserError
from albert_tf.training import devices

FLAGS_FILE = "flags.txt"
FILES = (run_directory.SETTINGS, CONFIG_FILE, FLAGS_FILE)  # that `write` leaves
_MOST_STARTS = 20
_FIXED_FLAGS = ("optimizer", "train_batch_size")
_BUCKETS = "length_buckets"
_CONFIG, _MODULE = "albert_config_file", "albert_hub_module_handle"
_SOURCES = ("init_checkpoint", "init_from_group0", _MODULE)  # read at step 0 only
_ALLOW = "allow_changes_on_resume"
_MOST_FILES = 10  # input files to name
_MOST_CHARACTERS = 120  # of a value


def describe(run, input_files):
    """Describes the settings of a training run.

    Args:
        run: loop.Run; `settings.record` has the values of the flags.
        input_files: sequence of str, files to train and evaluate on.

    Returns:
        RunSettings, completed with facts about the run.
    """
    return dataclasses.replace(
        run.settings.record,
        versions={
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "albert_tf": __version__,
        },
        devices=list(run.strategy.extended.worker_devices),
        input_files={path: tf.io.gfile.stat(path).length for path in input_files},
        seed=run.settings.seed,
        parameter_count=sum(v.shape.num_elements() for v in run.variables.values()),
    )


def write(run, described):
    """Writes the settings of a training run, so that it can be inspected, repeated and exported.

    The weights that a resumed run started from stay those of its record, and so does a vocabulary
    that is no longer known.

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
    flags = described.flags
    if before:
        flags = {name: value for name, value in flags.items() if name not in _SOURCES}
        kept = (*_SOURCES, *(() if "seed" in flags else ("seed",)))
        flags |= {name: before.flags[name] for name in kept if name in before.flags}
        # The vocabulary of the records may have moved since: it and its casing stay.
        vocabulary, text = described.vocabulary or before.vocabulary, before.text | described.text
        described = dataclasses.replace(described, vocabulary=vocabulary, text=text)
    lines = [f"--{name}={_as_text(value)}\n" for name, value in flags.items()]
    files.write_text(folder.file(FLAGS_FILE), "".join(lines))
    files.write_text(folder.file(CONFIG_FILE), described.albert_config.to_json_string())
    content = dataclasses.replace(described, flags=flags, starts=starts)
    state.write(folder.file(run_directory.SETTINGS), content)


def _as_text(value):
    """A flag's value as scripts read it: lists with commas between, and quotes where needed."""
    if not isinstance(value, list | tuple):
        return value
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(value)
    return text.getvalue()


def seed_of(directory, given, strategy):
    """The seed of a training run: the given one, else that of the resumed run, else a new one.

    All workers have to call it and get the same seed.

    Args:
        directory: str.
        given: int or None.
        strategy: tf.distribute.Strategy.

    Returns:
        int.
    """
    if given is not None:
        return given
    seed = 0
    if devices.is_chief(strategy):
        folder = RunDirectory(directory)
        settings = folder.resumed
        seed = settings and settings.seed
        if seed is None and folder.latest:  # without settings, or with those of an earlier version
            seed = loading.seed_in(folder.latest)
        seed = secrets.randbelow(2**31) if seed is None else seed
    (seed,) = devices.sum_over_workers(strategy, [seed])
    return seed


# --- Changes -------------------------------------------------------------------------------------


def check_changes(run, described):
    """Prints how the settings of a resumed run differ from those of its last start.

    Call it before weights are read. Runs without `run.json`, such as the original's, are not
    checked.

    Args:
        run: loop.Run; its chief prints.
        described: RunSettings, of `describe`.

    Raises:
        UserError: optimizer, architecture, batch size, length buckets, vocabulary or casing have
            changed, and `allow_changes_on_resume` is not set.
    """
    settings = run.settings
    before = RunDirectory(settings.output_dir).resumed
    if before is None:
        return
    refused = list(_refused_changes(before, described))
    if refused and not settings.allow_changes_on_resume:
        raise UserError(
            f"--output_dir={settings.output_dir} holds a run with other values "
            f"({run_directory.SETTINGS}): {'; '.join(refused)}. Give the values from before or "
            f"another --output_dir; to go on with the change, give --{_ALLOW}"
        )
    lines = _differences(before, described)
    if lines and run.is_chief:
        print("\n  ".join(["Changed since the last start of this run:", *lines]))


def _refused_changes(before, now):
    for name in _FIXED_FLAGS:
        if name in before.flags and before.flags[name] != now.flags.get(name, before.flags[name]):
            yield f"--{name}={now.flags[name]}, before {before.flags[name]}"
    buckets = [_as_text(each.flags.get(_BUCKETS) or "none") for each in (now, before)]
    if before.flags and buckets[0] != buckets[1]:
        yield f"--{_BUCKETS}={buckets[0]}, before {buckets[1]}"
    for name in CASING:
        values = before.text.get(name), now.text.get(name)
        if None not in values and values[0] != values[1]:
            yield f"{as_flag(name, values[1])}, before {json.dumps(values[0])}"
    ours, theirs = now.vocabulary, before.vocabulary
    if ours and theirs and ours.sha256 != theirs.sha256:
        yield f"{ours.path} is another vocabulary than {theirs.path} was"
    of_module = now.flags.get(_MODULE) and not now.flags.get(_CONFIG)  # as scripts read it
    for name, value, old in before.differences(now.albert_config):
        yield f"{name}={value} in --{_MODULE if of_module else _CONFIG}, before {old}"


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
    # The config itself is compared; the file is another one where a resumed run takes its own.
    not_compared = {_ALLOW, _CONFIG, *_SOURCES}
    if "seed" not in now:  # it stays
        not_compared.add("seed")
    names = [name for name in {**before, **now} if name not in not_compared]
    return [
        f"{label.format(name)}: before {_shown(before.get(name))}, now {_shown(now.get(name))}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def _shown(value):
    text = value if isinstance(value, str) else json.dumps(value)
    text = "none" if value is None else text
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
