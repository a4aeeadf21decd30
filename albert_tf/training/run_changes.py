# SPDX-License-Identifier: Apache-2.0
"""What a resumed training has changed since its last start, by the record in `run.json` (D27)."""

import dataclasses
import json

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
        allow: bool, whether optimizer, architecture and batch size may change.

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
    refused = [*_changed_flags(record, now), *_changed_architecture(record, config, source)]
    if refused and not allow:
        raise UserError(
            f"--output_dir={directory} holds a run with other values ({record.path}): "
            f"{'; '.join(refused)}. Give the values from before or another --output_dir; to go "
            f"on with the change, give --{_ALLOW}"
        )
    lines = differences(record.content, now)
    if lines and run.is_chief:
        print("\n  ".join(["Changed since the last start of this run:", *lines]))


def _changed_flags(record, now):
    before, flags = record.content.get("flags", {}), now["flags"]
    return [
        f"--{name}={flags[name]}, before {before[name]}"
        for name in _FIXED_FLAGS
        if name in before and name in flags and before[name] != flags[name]
    ]


def _changed_architecture(record, config, flag):
    try:
        before = config.from_dict(record.config)  # with the defaults of keys that it lacks
    except (UserError, TypeError) as error:
        raise UserError(
            f"{record.path} is damaged: delete it, and the run goes on without comparing its "
            f"architecture ({error})"
        ) from error
    names = [field.name for field in dataclasses.fields(config) if field.name != "unknown_keys"]
    return [
        f"{name}={getattr(config, name)} in --{flag}, before {getattr(before, name)}"
        for name in names
        if getattr(before, name) != getattr(config, name)
    ]


def differences(before, now):
    """What two records differ in, a line for each: "name: before ..., now ...".

    Args:
        before: dict, the content of a record.
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
