# SPDX-License-Identifier: Apache-2.0
"""tests/messages.txt, which holds the words of all messages, is up to date."""

import ast

from tests import messages

MODULE = '''
"""A docstring of words."""


def check(path, kind="the first one"):
    """Another docstring."""
    assert path, "for those who program"
    option("what --help says")
    print(f"{path} is not {kind}: "
          "give another one")
    raise UserError("cannot read %s" % path if kind else "no")
'''


def test_messages_are_those_of_the_snapshot():
    said = messages.SNAPSHOT.read_text(encoding="utf-8")
    assert said == messages.snapshot(), "run `make messages`, and read the change like prose"


def test_what_is_a_message():
    found = messages.messages(ast.parse(MODULE))
    assert found == {"the first one", "{} is not {}: give another one", "cannot read %s"}
