# SPDX-License-Identifier: Apache-2.0
"""What a resumed training has changed since its last start, by its `run.json`."""

import dataclasses
import json

from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import CASING
from albert_tf.checkpoints.source import as_flag
from albert_tf.errors import UserError
from albert_tf.training import run_record

_FIXED_FLAGS = ("optimizer", "train_batch_size")
_CONFIG, _MODULE = "albert_config_file", "albert_hub_module_handle"
_ALLOW = "allow_changes_on_resume"
_ABSENT = "none"
_MOST_FILES = 10  # input files to name
_MOST_CHARACTERS = 120  # of a value


def check(directory, given, config, run, input_files, allow=False):
    """Prints what differs from the last start of the run that is resumed, if one is.

    To be called before weights are read. Runs without a record, as the original's, are not checked.

    Args:
        directory: str.
        given: run_record.Given.
        config: AlbertConfig.
        run: training.Run; its chief prints.
        input_files: sequence of str, what is trained and evaluated on.
        allow: bool, whether optimizer, architecture, batch size, vocabulary and casing may change.

    Raises:
        UserError: one of these has changed and may not.
    """
    record = run_record.read_resumed(directory)
    if record is None:
        return
    content = run_record.describe(given, config, run.strategy, input_files)
    now = json.loads(json.dumps(content))  # as the record has passed through JSON
    of_module = given.flags.get(_MODULE) and not given.flags.get(_CONFIG)  # as scripts read it
    source = _MODULE if of_module else _CONFIG
    refused = [*_changed_flags(record, now), *_changed_text(record, given)]
    refused += [
        f"{name}={value} in --{source}, before {before}"
        for name, value, before in record.differences(config)
    ]
    if refused and not allow:
        raise UserError(
            f"--output_dir={directory} holds a run with other values ({run_directory.SETTINGS}): "
            f"{'; '.join(refused)}. Give the values from before or another --output_dir; to go "
            f"on with the change, give --{_ALLOW}"
        )
    lines = differences(dataclasses.asdict(record), now)
    if lines and run.is_chief:
        print("\n  ".join(["Changed since the last start of this run:", *lines]))


def _changed_flags(record, now):
    before, flags = record.flags, now["flags"]
    return [
        f"--{name}={flags[name]}, before {before[name]}"
        for name in _FIXED_FLAGS
        if name in before and name in flags and before[name] != flags[name]
    ]


def _changed_text(record, given):
    """Casing, accents and vocabulary, where both sides know them."""
    for name in CASING:
        before, value = record.text.get(name), given.text.get(name)
        if None not in (before, value) and before != value:
            yield f"{as_flag(name, value)}, before {json.dumps(before)}"
    before, vocabulary = record.vocabulary, given.vocabulary
    if before and vocabulary and before.sha256 != vocabulary["sha256"]:
        yield f"{vocabulary['path']} is another vocabulary than {before.path} was"


def differences(before, now):
    """What two records differ in, a line for each: "name: before ..., now ...".

    Args:
        before: dict, the content of `run.json`.
        now: dict, of `run_record.describe`.

    Returns:
        list of str.
    """
    lines = []
    for section, label in (("flags", "--{}"), ("config", "config: {}"), ("versions", "{}")):
        lines += _lines(label, before.get(section, {}), now[section])
    lines += _lines("{}", {"devices": before.get("devices")}, {"devices": now["devices"]})
    inputs = _lines("input file {}, bytes", before.get("input_files", {}), now["input_files"])
    more = [f"and {len(inputs) - _MOST_FILES} more input files"] * (len(inputs) > _MOST_FILES)
    return [*lines, *inputs[:_MOST_FILES], *more]


def _lines(label, before, now):
    names = [name for name in {**before, **now} if name != _ALLOW]
    return [
        f"{label.format(name)}: before {_shown(before.get(name))}, now {_shown(now.get(name))}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def _shown(value):
    text = value if isinstance(value, str) else json.dumps(value)
    text = _ABSENT if value is None else text
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."
