# SPDX-License-Identifier: Apache-2.0
"""Text of --help: a script's purpose and its flags, grouped by subject."""

import shutil
import textwrap

from albert_tf.cli import flag_groups

_VALUES = {"int": "N", "float": "X", "comma": "A,B,..."}  # by the first word of the type
_INDENT = " " * 6


def write(purpose):
    """Makes the text of --help.

    Args:
        purpose: str, the script's docstring.

    Returns:
        str.
    """
    width = min(shutil.get_terminal_size().columns, 100)
    parts, subjects = [purpose.strip()], {}
    for flag in flag_groups.own_flags():
        subjects.setdefault(flag.subject, []).append(flag)
    for subject, members in subjects.items():
        members.sort(key=lambda flag: not flag_groups.is_required(flag))
        parts.append("\n".join([f"{subject}:", *(_describe(flag, width) for flag in members)]))
    return "\n\n".join(parts) + "\n"


def _describe(flag, width):
    ending = ""
    if flag_groups.is_required(flag):
        ending = " Required."
    elif flag.default not in (None, "", []):
        default = flag.default_as_str.strip("'")
        ending = f" Default: {default}."
    # absl puts choices before the text, and a note on repetition after it.
    described = flag.help.partition(";\n")[0].strip()
    if _choices(flag):
        described = described.partition(": ")[2]
    text = textwrap.fill(
        described + ending, width, initial_indent=_INDENT, subsequent_indent=_INDENT
    )
    return f"  {_usage(flag)}\n{text}"


def _usage(flag):
    if flag.boolean:
        return f"--[no]{flag.name}"
    kind = flag.flag_type().removeprefix("multi ").split()[0]
    value = "|".join(_choices(flag)) or _VALUES.get(kind, "TEXT")
    return f"--{flag.name}={value}"


def _choices(flag):
    return getattr(flag.parser, "enum_values", ())
