# SPDX-License-Identifier: Apache-2.0
"""Start and end of scripts: --help, --version, devices, one-line errors and signals."""

import functools
import os
import re
import shutil
import signal
import sys
import textwrap

from absl import app, flags, logging

import albert_tf
from albert_tf import options
from albert_tf.cli import flag_groups
from albert_tf.errors import (
    UserError,
    as_called,
    ending_signals,
    handling_signals,
    is_interrupt,
    one_line,
)

FLAGS = flags.FLAGS
_ASK_FOR_HELP = {"--help", "-help", "-h", "--helpshort", "--helpfull", "-?"}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_VALUES = {"int": "N", "float": "X", "comma": "A,B,..."}  # by the first word of the type
_INDENT = " " * 6


def set_up_devices(settings):
    """Sets the precision and builds the strategy.

    Call this before TensorFlow computes or reads anything: afterwards it accepts no other machines
    (multi_worker_mirrored).

    Args:
        settings: resolve.Resolved, of all flags.

    Returns:
        tf.distribute.Strategy.
    """
    import tensorflow as tf

    from albert_tf.training import devices

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    name = "tpu" if settings.use_tpu else settings.distribution_strategy
    strategy = devices.create_strategy(
        name, settings.num_gpus, settings.tpu_name, settings.tpu_zone, settings.gcp_project
    )
    # Machines may have different paths to the shared directory, which training checks.
    given = {name: str(setting.value) for name, setting in settings.settings.items()}
    devices.check_same_flags(strategy, given | {"output_dir": ""})
    devices.set_precision(settings.dtype)
    names = ", ".join(strategy.extended.worker_devices)
    print(
        f"Devices ({name}, {settings.dtype}): {strategy.num_replicas_in_sync} replica(s): {names}"
    )
    return strategy


def command(main, *groups, word=None, **how):
    """The function of a command: `run` with the flags that `flag_groups.define` makes of groups."""
    return functools.partial(run, main, functools.partial(flag_groups.define, *groups, **how), word)


def run(main, define_flags, word=None):
    """Parses the flags and runs a script. Bad input ends in a one-line error and exit code 1.

    With ALBERT_TF_TRACEBACK=1 in the environment, such errors have a traceback.

    Args:
        main: callable that takes the settings, a resolve.Resolved of the flags alone.
        define_flags: callable that defines the script's flags.
        word: str, name of the flag that a word without a flag gives; None if there must be none.
    """
    define_flags()
    # Without it, TensorFlow imports Keras 3 too, which no script uses.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    logging.set_verbosity(logging.WARNING)

    def guarded(argv):
        # Training saves a checkpoint before it ends. The handlers are removed at the end, when
        # nothing catches their exception any more.
        heard = [n for n in ending_signals() if signal.getsignal(n) != signal.SIG_IGN]
        with handling_signals(signal.default_int_handler, heard):
            try:
                check_words(argv)
                main(flag_groups.read())
            except (Exception, KeyboardInterrupt) as error:
                if is_interrupt(error):
                    print(f"{script}: stopped", file=sys.stderr)
                    sys.exit(130)
                if os.environ.get("ALBERT_TF_TRACEBACK") or not _is_for_users(error):
                    raise
                message = str(error) if isinstance(error, UserError) else one_line(error)
                message = message.replace("\n\t", "")  # from errors on remote files in a UserError
                print(f"{script}: error: {as_called(message)}", file=sys.stderr)
                sys.exit(1)

    def parse(argv):
        if "--version" in argv[1:]:
            print(f"albert_tf {albert_tf.__version__}")
            sys.exit(0)
        if _ASK_FOR_HELP & set(argv[1:]):
            # The module of `main` may not be the script, as with albert_tf.cli.predict.
            print(as_called(help_text(sys.modules[main.__module__].__doc__)), end="")
            sys.exit(0)
        try:
            rest = FLAGS(argv)
            if word and len(rest) == 2 and not FLAGS[word].present:
                FLAGS[word].value, FLAGS[word].present = rest.pop(), 1
            return rest
        except flags.Error as error:
            print(f"{script}: error: {_describe(error)}", file=sys.stderr)
            sys.exit(1)

    app.run(guarded, flags_parser=parse)


def check_words(argv):
    """Raises UserError for arguments that are not flags, and for invalid values of flags.

    Prints a line for each given flag that has no effect any more.
    """
    if len(argv) > 1:
        before = sys.argv[sys.argv.index(argv[1]) - 1].lstrip("-")
        remedy = "Flags begin with --, and a value with spaces stands in quotes"
        if before in FLAGS and FLAGS[before].boolean:
            remedy = f"Give --{before}=true or --{before}=false"
        elif "text" in FLAGS:
            remedy = "Give each text as --text='...', in quotes"
        raise UserError(f"not a flag: {' '.join(argv[1:])}. {remedy}")
    flag_groups.check_values()
    flag_groups.note_obsolete_flags()


def _describe(error):
    """One-line message for flags that absl rejects."""
    message = one_line(error)
    if "must have a value" in message:  # wrong values are reported before missing flags
        try:
            flag_groups.check_values()
        except UserError as wrong:
            return str(wrong)
        required = [flag for flag in flag_groups.own_flags() if flag_groups.requirement(flag)]
        missing = [f"--{flag.name}" for flag in required if flag.value is None]
        message = f"{', '.join(missing)} must be given."
    value = re.match(r"flag (--(\w+)=.*): (invalid literal|could not convert|\('Non-bool)", message)
    if value:
        message = f"{value[1]} is not {_KINDS[FLAGS[value[2]].flag_type()]}."
    if isinstance(error, flags.UnrecognizedFlagError):
        typed = error.flagvalue or f"--{error.flagname}"
        ours = options.name_here(error.flagname, [flag.name for flag in flag_groups.own_flags()])
        message = f"{typed}: this command has no such flag{f'. Give --{ours}' if ours else ''}."
    return f"{message.rstrip('.')}. --help describes all flags"


def _is_for_users(error):
    """Whether an error comes from input, files, disks, memory or devices; others are defects."""
    if isinstance(error, UserError | OSError | MemoryError):
        return True

    from tensorflow import errors

    of_the_machine = (
        errors.NotFoundError,
        errors.PermissionDeniedError,
        errors.ResourceExhaustedError,
        errors.UnavailableError,
        errors.UnauthenticatedError,
    )
    # If a remote file system is unknown or cannot be reached, the message names the path.
    is_remote = isinstance(error, errors.OpError) and re.search(r"\b\w+://", str(error))
    return isinstance(error, of_the_machine) or bool(is_remote)


# --- The text of --help ---------------------------------------------------------------------------


def help_text(purpose):
    """Makes the text of --help: a script's purpose and its flags, grouped by subject.

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
        members.sort(key=lambda flag: not flag_groups.requirement(flag))
        parts.append("\n".join([f"{subject}:", *(_description(flag, width) for flag in members)]))
    return "\n\n".join(parts) + "\n"


def _description(flag, width):
    ending = flag_groups.requirement(flag)
    if not ending and flag.default not in (None, "", []):
        default = flag.default_as_str.strip("'")
        ending = f"Default: {default}."
    text = textwrap.fill(
        f"{flag.help} {ending}", width, initial_indent=_INDENT, subsequent_indent=_INDENT
    )
    if flag.boolean:
        usage = f"--[no]{flag.name}"
    else:
        kind = flag.flag_type().removeprefix("multi ").split()[0]
        choices = "|".join(flag.option.metadata["choices"] or ())
        usage = f"--{flag.name}={choices or _VALUES.get(kind, 'TEXT')}"
    return f"  {usage}\n{text}"
