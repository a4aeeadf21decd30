# SPDX-License-Identifier: Apache-2.0
"""Decides what a command means: from typed flags, the source of its weights and run.json.

The result is one frozen value, in which each setting has an origin. The rules are columns of the
options (`options.option`), and a mistake is one of three sentences: an option *does nothing*,
*contradicts* a file, or *is missing*.
"""

import csv
import dataclasses
import io
import json
import shlex
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert_tf import options
from albert_tf.errors import UserError

ORIGINS = DEFAULT, SOURCE, RECORD, TYPED = "default", "source", "record", "typed"
# Argument of albert_tf.load -> flag, where the names differ.
_FLAGS = {"task": "task_name", "config": "albert_config_file"}
ALLOW = "allow_changes_on_resume"
TO_GO_ON = f"to go on with the change, give --{ALLOW}"


def as_text(value):
    """A list as a script reads it, a str with commas and quotes; other values are unchanged."""
    if not isinstance(value, list | tuple):
        return value
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(value)
    return line.getvalue()


def as_flag(name, value=None):
    """Formats a setting to be typed: `--do_lower_case=false`; only its name if value is None."""
    flag, value = f"--{_FLAGS.get(name, name)}", as_text(value)
    if not isinstance(value, str | None):
        value = str(value) if isinstance(value, float) else json.dumps(value)
    return flag if value is None else f"{flag}={shlex.quote(value) if value else value}"


def as_argument(name, value=None):
    """Formats a setting for Python: `do_lower_case=False`; only its name if value is None."""
    name = {flag: argument for argument, flag in _FLAGS.items()}.get(name, name)
    return name if value is None else f"{name}={value!r}"


def hashes(then, now):
    """How the hash of a file has changed, for messages; the old one is None if it is unknown."""
    return f"(sha256 {str(then or 'unknown')[:8]} then, {now[:8]} now)"


class Fact(NamedTuple):
    """What a file says of a setting.

    Attributes:
        value: the value; None if there is none.
        where: str, the file or directory.
        origin: str, RECORD or SOURCE.
        key: what is compared in place of the value, such as the hash of a file; None for the value.
        binds: bool, whether a typed value must agree.
    """

    value: Any
    where: str
    origin: str = RECORD
    key: Any = None
    binds: bool = True


class Setting(NamedTuple):
    """A value and its origin: TYPED, RECORD, SOURCE or DEFAULT."""

    value: Any
    origin: str


class Row(NamedTuple):
    """An option of a command: its name, its default there, and the columns of `options.option`."""

    name: str
    default: Any
    columns: Mapping


@dataclasses.dataclass(frozen=True)
class Resolved:
    """The settings of a command. Each is an attribute.

    Attributes:
        rows: mapping of name -> Row.
        settings: mapping of name -> Setting.
        facts: mapping of name -> Fact, with which they agree.
        notes: tuple of str, lines on typed values that are not read.
    """

    rows: Mapping
    settings: Mapping
    facts: Mapping = dataclasses.field(default_factory=dict)
    notes: tuple = ()

    def __getattr__(self, name):
        settings = self.__dict__.get("settings", {})
        if name not in settings:
            raise AttributeError(f"this command has no option {name}")
        return settings[name].value

    def __contains__(self, name):
        return name in self.settings

    def get(self, name):
        """The value of an option; None if the command has no such option."""
        return self.settings[name].value if name in self.settings else None

    def origin(self, name):
        """Where a value comes from: TYPED, RECORD, SOURCE or DEFAULT."""
        return self.settings[name].origin

    def typed(self, *names):
        """Values of those of the named options (of all without names) that were typed: dict."""
        chosen = [name for name in names or self.settings if name in self]
        return {name: self.get(name) for name in chosen if self.origin(name) == TYPED}

    def is_read(self, name):
        """Whether an option has an effect here (bool)."""
        return not _unmet(self.rows[name].columns["read_by"], self.settings)

    def with_typed(self, **values):
        """The settings with other typed values, before any fact is known."""
        return resolve(self.rows, self.typed() | values)

    def values_of(self, kind, **others):
        """Makes a dataclass from the settings with the names of its fields, and other values."""
        names = {field.name for field in dataclasses.fields(kind)} - others.keys()
        return kind(**{name: self.get(name) for name in names if name in self}, **others)

    def effective(self):
        """Settings that have a value and an effect: dict in the order of the names."""
        values = {name: self.get(name) for name in sorted(self.settings)}
        return {
            name: value
            for name, value in values.items()
            if value is not None
            and value == value  # JSON has no nan
            and self.rows[name].columns["heading"] != options.NO_EFFECT
            and self.is_read(name)
        }


def resolve(
    rows, typed, facts=None, *, key=None, shown=as_flag, remedy="leave it out", may_differ=()
):
    """Decides the settings of a command.

    Args:
        rows: mapping of name -> Row.
        typed: mapping of name -> value, of options that the user gave.
        facts: mapping of name -> Fact or None; None while source and run.json are not known.
        key: callable, (name, value) -> what is compared with the key of a Fact; by default the
            value.
        shown: callable, `as_flag` or `as_argument`.
        remedy: str, end of the message on contradictions.
        may_differ: collection of str, names of typed values that may contradict facts with
            --allow_changes_on_resume.

    Returns:
        Resolved.

    Raises:
        UserError: an option does nothing, contradicts a file or is missing.
    """
    known = {name: fact for name, fact in (facts or {}).items() if fact and name in rows}
    # An empty path, as of an unset variable of the shell, is not given if a source tells the path.
    typed = {
        name: value
        for name, value in typed.items()
        if value != "" or name not in known or not rows[name].columns["path"]
    }
    conditions = (text for name in typed for text in rows[name].columns["read_by"].split())
    replaced = {text[1:] for text in conditions if text.startswith("!")}  # as epochs by steps
    for name in (replaced & known.keys()) - typed.keys():
        if rows[name].columns["on_record"] == "follow":
            del known[name]
    settings = {name: _setting(name, row, typed, known.get(name)) for name, row in rows.items()}
    free = {name for name, row in rows.items() if row.columns["on_record"] == "free"}
    unknown = {*rows} - free - typed.keys() if facts is None else set()
    notes = _notes_on_unread(rows, typed, settings, shown, unknown)
    allowed = may_differ if typed.get(ALLOW) else ()
    wrong = {
        name: sentence
        for name in typed.keys() - {*allowed}
        if rows[name].columns["on_record"] in ("equal", "start")
        and not _is_start(rows[name])
        and not _unmet(rows[name].columns["read_by"], settings)
        for sentence in contradictions({name: typed[name]}, known, key=key, shown=shown)
    }
    if wrong:
        more = f"; {TO_GO_ON}" if wrong.keys() <= {*may_differ} else ""
        raise UserError(f"{'; '.join(sorted(wrong.values()))}: {remedy}{more}")
    for name, row in rows.items():
        required = row.columns["required"]
        if isinstance(required, str) and settings[name].value in (None, ""):
            wanting = [n for n in required.split("|") if n in settings and settings[n].value]
            if wanting and name not in unknown:
                raise UserError(f"{shown(name)} is missing: {shown(wanting[0])} needs it")
    return Resolved(rows, types.MappingProxyType(settings), known, notes)


def _setting(name, row, typed, fact):
    """The Setting of an option: the typed value, or else that of a Fact (or None), or the default.

    Of the checkpoint from which a run started, the Fact comes first.
    """
    is_decided = fact is not None and row.columns["on_record"] != "free"
    if name in typed and not (is_decided and _is_start(row)):
        return Setting(typed[name], TYPED)
    return Setting(fact.value, fact.origin) if is_decided else Setting(row.default, DEFAULT)


def _notes_on_unread(rows, typed, settings, shown, unknown):
    """Sentences on typed values that are not read and may be given: tuple of str.

    Conditions on the options in `unknown`, a set of names, are left to the next call of `resolve`.

    Raises:
        UserError: a typed value is not read and must not be given.
    """
    notes = []
    for name, value in typed.items():
        unmet = _unmet(rows[name].columns["read_by"], settings)
        if not unmet or not _differs(value, rows[name].default):
            continue
        if unknown & {other for other, *_ in _alternatives(unmet)}:
            continue
        sentence = f"{shown(name, value)} does nothing {_described(unmet, settings)}"
        if not unmet.startswith("~"):
            is_missing = not any(v or negated for _, v, negated in _alternatives(unmet))
            raise UserError(f"{sentence}: {'give both, or ' * is_missing}leave it out")
        notes.append(sentence)
    return tuple(notes)


def fitted(resolved, config=None, path=None):
    """The settings with defaults that fit each other and a model.

    Args:
        resolved: Resolved.
        config: AlbertConfig; None while it is not known.
        path: str, where the config is from.

    Returns:
        (Resolved, list of str: the defaults that are replaced).

    Raises:
        UserError: a value that is not a default does not fit.
    """
    settings, replaced = dict(resolved.settings), []
    rows = {name: row for name, row in resolved.rows.items() if row.columns["fits"]}
    for name in sorted(rows, key=lambda name: rows[name].columns["fits"][0] in rows):
        (value, origin), (other, taken) = settings[name], rows[name].columns["fits"]
        if other in rows:
            (length, source), whole = settings[other], rows[other].default
            is_cut = taken and source == SOURCE and length < whole
            fitting, said = value * length // whole if is_cut else value, as_flag(other, length)
        elif config:
            fitting = length = getattr(config, other)
            said = f"{other}={length} of {path}"
        else:
            continue
        if origin == DEFAULT and fitting < value:
            replaced.append(f"{as_flag(name, fitting)} (and not {value})")
            value = fitting
            settings[name] = Setting(value, SOURCE)
        shortest, longest = rows[name].columns["limits"]["at least"], length - taken
        if not shortest <= value <= longest:
            raise UserError(
                f"{as_flag(name, value)} must lie between {shortest} and {longest}, to fit {said}"
            )
    return dataclasses.replace(resolved, settings=types.MappingProxyType(settings)), replaced


def _is_start(row):
    """Whether an option is the checkpoint from which a run started, which is over (bool)."""
    return row.columns["on_record"] == "start" and bool(row.columns["path"])


def contradictions(values, facts, *, key=None, shown=as_flag):
    """Sentences on values that facts contradict: list of str.

    Args:
        values: mapping of name -> value.
        facts: mapping of name -> Fact.
        key: callable or None, as of `resolve`.
        shown: callable, as of `resolve`.
    """
    sentences = []
    for name, value in values.items():
        fact = facts.get(name)
        if fact is None or not fact.binds:
            continue
        ours = _plain(key(name, value) if key else value)
        theirs = _plain(fact.value if fact.key is None else fact.key)
        if isinstance(theirs, dict):  # of a config: value by name
            different = [n for n in theirs if ours.get(n) != theirs[n]]
            said = ", ".join(f"{n}={ours.get(n)} and not {theirs[n]}" for n in different)
            path = value if isinstance(value, str) else None
            if different:
                sentences.append(f"{shown(name, path)} contradicts {fact.where}: it has {said}")
        elif ours != theirs:
            said = shown(name, fact.value) if fact.value is not None else f"no {shown(name)}"
            if isinstance(fact.key, str):  # of a file, whose path may be the same
                said += f" {hashes(theirs, ours)}"
            sentences.append(f"{shown(name, value)} contradicts {fact.where}, which has {said}")
    return sentences


def agreed(rows, typed, all_facts):
    """Merges the facts of several sources that a command uses together.

    Raises:
        UserError: two of them differ, in a setting that is not typed or has to be equal.
    """
    merged = {}
    for facts in all_facts:
        for name, fact in facts.items():
            first = merged.get(name)
            if first is None or fact is None:  # nothing to compare: unknown, or the first one
                merged[name] = first or fact
                continue
            columns = rows[name].columns if name in rows else {}
            rule = columns.get("on_record")
            if "~do_train" in columns.get("read_by", ""):  # they may be trained differently
                continue
            decides = rule == "equal" or (rule == "follow" and name not in typed)
            ours = first.value if first.key is None else first.key
            if decides and contradictions({name: ours}, {name: fact}):
                remedy = "models of an ensemble must agree" if rule == "equal" else f"give --{name}"
                raise UserError(
                    f"{first.where} has {as_flag(name, first.value)} and {fact.where} "
                    f"{as_flag(name, fact.value)}: {remedy}"
                )
    return merged


def _plain(value):
    return tuple(value) if isinstance(value, list) else value


def _differs(value, default):
    """Whether a value is not the default; nan is like any other nan."""
    return _plain(value) != _plain(default) and value == value


# --- Conditions ----------------------------------------------------------------------------------


def _unmet(read_by, settings):
    """The first condition of `read_by` that does not hold; None if the option is read."""
    return next((text for text in read_by.split() if not _holds(text, settings)), None)


def _alternatives(condition):
    """Yields (name of an option, list of its values or None, whether it is negated)."""
    for text in condition.strip("~").split("|"):
        name, is_about_value, values = text.removeprefix("!").partition("=")
        yield name.removesuffix("!"), values.split(",") if is_about_value else None, "!" in text


def _holds(condition, settings):
    """Whether one of the alternatives of a condition holds, or is about what is not known."""
    for name, values, negated in _alternatives(condition):
        if name not in settings or (values and settings[name].value is None):
            return True
        value, origin = settings[name]
        is_given = bool(value) or (value == "" and origin == TYPED)
        if (str(value).lower() in values if values else is_given) != negated:
            return True
    return False


def _described(condition, settings):
    """A condition that does not hold, for a message."""
    parts, lacking = [], []
    for name, values, negated in _alternatives(condition):
        if values:
            wanted = "" if negated else f"; it is for --{name}={' or '.join(values)}"
            parts.append(f"with {as_flag(name, settings[name].value)}{wanted}")
        elif negated:
            parts.append(f"with --{name}")
        else:
            lacking.append(f"--{name}")
    return " or ".join(parts + [f"without {' or '.join(lacking)}"] * bool(lacking))
