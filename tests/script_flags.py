# SPDX-License-Identifier: Apache-2.0
"""Modules of the commands, and their flags without those of other commands."""

import contextlib
import importlib

from tests import ROOT


def module_of(command):
    """The module that has `run` and `main` of a command: str, such as `run_x`."""
    in_package = (ROOT / "albert_tf" / "cli" / f"{command}.py").exists()
    return importlib.import_module(f"albert_tf.cli.{command}" if in_package else command)


def define_flags(module):
    """Defines the flags of a command, as its `run` does."""
    module.run.args[1]()


@contextlib.contextmanager
def no_flags():
    """absl's FLAGS without those of commands that were imported."""
    from absl import flags

    known = flags.FLAGS
    others = {  # two commands may define the same name
        name: known[name]
        for name in known
        if not (known.find_module_defining_flag(name) or "").startswith("absl")
    }
    for name in others:
        delattr(known, name)
    absl_names = set(known)
    try:
        yield known
    finally:
        for name in set(known) - absl_names:
            delattr(known, name)
        for name, flag in others.items():
            known[name] = flag


@contextlib.contextmanager
def flags_of(module):
    """absl's FLAGS with those of a command in place of those of others that were imported."""
    with no_flags() as known:
        define_flags(module)
        yield known
