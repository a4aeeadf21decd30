# SPDX-License-Identifier: Apache-2.0
"""The sentences that the code says to users, in one file that is read like prose in a review.

`make messages` (python -m tests.messages --write) writes tests/messages.txt; a test compares it.
"""

import ast
import re
import sys

from tests import ROOT

SNAPSHOT = ROOT / "tests" / "messages.txt"
# Texts of --help are not sentences about what a user did.
_HELP = ("option", "argparse.ArgumentParser", "parser.add_argument")
_SENTENCE = re.compile(r"[A-Za-z]{2,},? (?:[a-z]+,? )*[a-z]{2,}")


def snapshot():
    """Text with the messages of each file, sorted; a value in a message is {}."""
    parts = []
    for path in sorted([*ROOT.glob("*.py"), *(ROOT / "albert_tf").rglob("*.py")]):
        if found := messages(ast.parse(path.read_text(encoding="utf-8"))):
            lines = [f"  {line}\n" for line in sorted(found)]
            parts.append(f"{path.relative_to(ROOT)}\n{''.join(lines)}")
    return "\n".join(parts)


def messages(tree):
    """Set of the sentences in a module, without docstrings, --help and assertions."""
    found, nodes = set(), [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Assert | ast.Expr) and not _is_call(node):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _HELP:
            continue
        if isinstance(node, ast.Constant | ast.JoinedStr):
            text = _constant_parts(node)
            if _SENTENCE.search(text):
                found.add(text.replace("\n", "\\n"))
        else:
            nodes.extend(ast.iter_child_nodes(node))
    return found


def _is_call(node):
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)


def _constant_parts(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    return node.value if isinstance(node.value, str) else ""


if __name__ == "__main__":
    if "--write" in sys.argv:
        SNAPSHOT.write_text(snapshot(), encoding="utf-8")
    else:
        print(snapshot(), end="")
