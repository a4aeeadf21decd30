# SPDX-License-Identifier: Apache-2.0
"""Flags made from groups of options, and checks of their values."""

import dataclasses

from absl import flags

from albert_tf import options
from albert_tf.errors import UserError

FLAGS = flags.FLAGS
_DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    list: flags.DEFINE_list,
}


def own_flags():
    """List of the script's flags, without those of libraries, in the order of definition."""
    return [FLAGS[name] for name in FLAGS if hasattr(FLAGS[name], "subject")]


def is_required(flag):
    """Whether a flag must be given."""
    return any("must have a value" in rule.message for rule in flag.validators)


def note_obsolete_flags():
    """Prints a line for each given flag that has no effect any more."""
    for flag in own_flags():
        if flag.subject == options.NO_EFFECT and flag.present:
            print(f"--{flag.name} has no effect any more: {flag.help[0].lower()}{flag.help[1:]}")


def define(*groups, **defaults):
    """Defines the flags of groups of options, each group under its heading.

    Args:
        *groups: classes of albert_tf.options.
        **defaults: default values that replace those of the options.
    """
    for group in groups:
        for field in options.options_of(group):
            _define_flag(field, defaults.pop(field.name, field.default))
            flag = FLAGS[field.name]
            flag.option, flag.group, flag.subject = field, group, group.heading
    if defaults:
        raise TypeError(f"no options of these groups: {', '.join(defaults)}")


def _define_flag(field, default):
    name, text, choices = (field.name, *(field.metadata[key] for key in ("help", "choices")))
    if field.metadata["repeated"] and choices:
        flags.DEFINE_multi_enum(name, default, choices, text)
    elif field.metadata["repeated"]:
        flags.DEFINE_multi_string(name, default, text)
    elif choices:
        flags.DEFINE_enum(name, default, list(choices), text, case_sensitive=False)
    else:
        _DEFINE[options.kind_of(field)](name, default, text)


def check_values():
    """Raises UserError for invalid values and invalid combinations of values."""
    for group in dict.fromkeys(flag.group for flag in own_flags()):
        values_of(group)


def values_of(kind, **others):
    """Makes a dataclass from the flags with the names of its fields.

    Args:
        kind: the dataclass.
        **others: values of fields that are not taken from flags.

    Raises:
        UserError: the dataclass rejects a value.
    """
    names = {field.name for field in dataclasses.fields(kind)} - others.keys()
    return kind(**{name: FLAGS[name].value for name in names if name in FLAGS}, **others)


def check_not_empty(*names):
    """Raises UserError if a flag for a path is given and empty."""
    for name in names:
        if FLAGS[name].value == "":
            raise UserError(f"--{name} is empty: give a path, such as ./{name}")
