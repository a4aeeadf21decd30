# SPDX-License-Identifier: Apache-2.0
"""What tests say of errors and warnings: what they name, and not their words.

`parts` are strings that must stand in a message, in any order: a flag, a file, a value. One string
may hold several, as in "--train_step ... 0 ... in.txt, line 2". tests/messages.txt has the words.
"""

import contextlib
import re

import pytest

from albert_tf.errors import UserError


def assert_names(text, *parts):
    """Checks that a text, or the message of an exception, holds all parts."""
    for some in map(str, parts):
        assert some and names(str(text), some), f"{some} not in: {text}"


def names(text, parts):
    """Whether all parts of a string stand in a text."""
    return all(_stands_in(part, text) for part in parts.split(" ... "))


def _stands_in(part, text):
    if part.replace(".", "").isdigit():  # a number is not a part of another one
        return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w|\.\d)", text) is not None
    return part in text


@contextlib.contextmanager
def refuses(*parts, error=UserError):
    """Checks that its block raises an error whose message names all parts."""
    with pytest.raises(error) as caught:
        yield caught
    assert_names(caught.value, *parts)


def assert_error(done, *parts):
    """Checks that a process ended with exit code 1 and one line that names all parts."""
    start, _, message = done.stderr.rpartition(": error: ")
    assert done.returncode == 1 and start and message.count("\n") == 1, done.stderr
    assert_names(message, *parts)


def assert_says(output, *parts):
    """Checks that, for each string of parts, one line of an output holds all of them."""
    for some in map(str, parts):
        lines = [line for line in output.splitlines() if names(line, some)]
        assert lines, f"no line with {some} in:\n{output}"
