# SPDX-License-Identifier: Apache-2.0
"""The error for input that a user can correct, and one-line messages for other errors."""

import contextlib
import importlib
import json
import math
import numbers
import os
import re
import reprlib
import signal
import sys

COMMANDS = {  # script -> command of an installed package
    "create_pretraining_data": "albert-data",
    "run_pretraining": "albert-pretrain",
    "run_classifier": "albert-classify",
    "run_race": "albert-race",
    "run_squad": "albert-squad",
    "predict": "albert-predict",
    "minimal_pairs": "albert-minimal-pairs",
    "make_config": "albert-config",
    "download_model": "albert-download",
    "export_to_tfhub": "albert-export-hub",
    "export_checkpoints": "albert-export-checkpoints",
    "train_sentencepiece": "albert-spm",
}

_PACKAGE = os.path.dirname(os.path.abspath(__file__))

EXTRAS = {  # package that only some features need -> the name of its extra in pyproject.toml
    "apache_beam": "beam",
    "backports.zstd": "zstd",
    "matplotlib": "plot",
    "sentence_splitter": "documents",
    "tensorflow_text": "export",
}


class UserError(ValueError):
    """An error in the input that the user can correct.

    The message names the flag or file, the value and the remedy. Scripts print it in one line.
    Every other exception is a defect and keeps its traceback.
    """


@contextlib.contextmanager
def about(what, *kinds, remedy=""):
    """Turns exceptions into a UserError that says what it is about, the reason and a remedy.

    Args:
        what: str, such as a flag or file.
        *kinds: classes of exceptions; by default UserError.
        remedy: str, a sentence, or "" if the reason has one.
    """
    kinds = kinds or (UserError,)
    try:
        yield
    except kinds as error:
        reason = str(error) if isinstance(error, UserError) else one_line(error)
        raise UserError(f"{what}: {reason}{remedy and f'. {remedy}'}") from error


def check_choice(name, value, choices):
    """Raises UserError if the value of an argument is not among some choices, which are str."""
    if value not in [*choices]:
        raise UserError(f"{name} must be one of {', '.join(choices)}. Received: {value!r}")


def check_whole(name, value, low, high=math.inf, limited_by=""):
    """Raises UserError if the value of an argument is no int from `low` to `high`.

    `limited_by` is the name of what sets `high`.
    """
    if not isinstance(value, numbers.Integral) or not low <= value <= high:
        most = f" and at most {limited_by}={high}" if limited_by else ""
        raise UserError(f"{name} must be an int of at least {low}{most}. Received: {value!r}")


class CalledElsewhere:
    """An attribute that other libraries have and this class lacks; the error names ours.

    Args:
        ours: str, what to write instead.
    """

    def __init__(self, ours):
        self._ours = ours

    def __set_name__(self, owner, name):
        self._name = f"{owner.__name__} has no {name}"

    def __get__(self, instance, owner=None):
        raise AttributeError(f"{self._name}: write {self._ours}")


def import_extra(module, feature):
    """Imports a module of a package that `pip install albert_tf` leaves out.

    Args:
        module: str, such as "matplotlib.figure"; its package is in EXTRAS.
        feature: str, who needs it, for the message.

    Returns:
        The module.

    Raises:
        UserError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = next(name for name in EXTRAS if f"{module}.".startswith(f"{name}."))
        raise UserError(
            f"{feature} needs the package {package}: pip install 'albert_tf[{EXTRAS[package]}]', "
            f"or '.[{EXTRAS[package]}]' in the repository"
        ) from error


def exit_code(program, answer):
    """Prints the answer of a program, or one line that says what is wrong with the input.

    Args:
        program: str, its name.
        answer: callable without arguments that returns the text to print (str).

    Returns:
        int, the exit code: 1 on bad input.
    """
    try:
        with allowing_closed_output():  # `answer` may print too
            print(answer())
    except UserError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def allowing_closed_output():
    """Ends the block quietly if the reader of standard output closes it, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_called(text):
    """Replaces names of scripts by names of commands in an installed package.

    In a checkout that is installed too, they are replaced if the program was called as a command.

    Args:
        text: str, such as "Try it: python predict.py --saved_model=x".

    Returns:
        str, such as "Try it: albert-predict --saved_model=x".
    """
    is_checkout = os.path.exists(os.path.join(os.path.dirname(_PACKAGE), "run_classifier.py"))
    if is_checkout and os.path.basename(sys.argv[0]) not in COMMANDS.values():
        return text
    scripts = "|".join(COMMANDS)
    return re.sub(rf"(python )?\b({scripts})\.py\b", lambda found: COMMANDS[found[2]], text)


def is_interrupt(error):
    """Whether a signal caused an exception.

    If a signal comes while TensorFlow makes one of its exceptions in C++, pybind11 raises a
    RuntimeError that names both, in place of the handler's KeyboardInterrupt.

    Args:
        error: BaseException.
    """
    return isinstance(error, KeyboardInterrupt) or "REPLACED BY KeyboardInterrupt" in str(error)


def ending_signals():
    """The signals that end a command: Ctrl-C, those of schedulers, and of terminals that close."""
    hang_up = getattr(signal, "SIGHUP", None)  # Windows has none, and nohup ignores it
    is_heard = hang_up and signal.getsignal(hang_up) != signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *[hang_up] * bool(is_heard)]


@contextlib.contextmanager
def handling_signals(handler, numbers=None):
    """Context in which signals have another handler.

    Args:
        handler: any that `signal.signal` takes.
        numbers: list of int, the signals; None for `ending_signals`.
    """
    numbers = ending_signals() if numbers is None else numbers
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def one_line(error):
    """Message of an exception in one line, without TensorFlow's notes on graph and operation.

    Args:
        error: Exception.

    Returns:
        str; the name of the exception's type if it has no message.
    """
    text = getattr(error, "message", None) or str(error)
    text = text.replace("\n\t when ", " when ")  # errors on remote files; their names follow
    # In an error from a graph, the line before the name of the node says what happened.
    in_graph = re.search(r"^(.*\S.*)\n\s*\[\[\{\{node", text, re.MULTILINE)
    text = in_graph[1] if in_graph else text.strip().partition("\n")[0]
    text = re.sub(r"\{\{[^{}]*\}\}\s*|\s*\[Op:\w+\].*", "", text)
    return text.strip() or type(error).__name__


def read_local(path):
    """Reads a local file without TensorFlow.

    Returns:
        bytes.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def decode(content, where):
    """Decodes UTF-8.

    Args:
        content: bytes.
        where: str, the file (and line) of the bytes, for the message.

    Raises:
        UserError: the bytes are not UTF-8.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where}: not UTF-8 text ({error}); convert the file with iconv -f ENCODING -t UTF-8, "
            "such as WINDOWS-1254 for Turkish, WINDOWS-1252 for French, SHIFT_JIS for Japanese"
        ) from error


def parse_json(content, where, constants=None):
    """Parses a JSON text.

    Args:
        content: bytes in UTF-8, or str; a byte order mark at its start is skipped.
        where: str, the file (and line) of the text, for the message.
        constants: callable, str -> value of NaN, Infinity or -Infinity, which JSON does not know
            and Python writes; None to refuse them.

    Raises:
        UserError: the text is not UTF-8, not JSON, or nested too deeply.
    """
    if isinstance(content, str):
        content = content.removeprefix("\ufeff")  # json does so with bytes only
    try:
        return json.loads(content, parse_constant=constants or _refuse)
    except RecursionError as error:
        raise UserError(f"{where} is not usable JSON: it is nested too deeply") from error
    except ValueError as error:  # not UTF-8, not JSON, or a number with thousands of digits
        raise UserError(f"{where} is not JSON: {error}") from error


def _refuse(constant):
    raise ValueError(f"it holds {constant}, which JSON does not know")


def check_json(name, value, place):
    """Raises UserError if a value cannot be written as JSON: half a character, NaN, infinity."""
    try:
        json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        received = reprlib.repr(value)
        raise UserError(f"{place}: {name!r} is not valid Unicode. Received: {received}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: {name!r} is not finite, or nested too deeply") from error
