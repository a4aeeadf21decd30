# SPDX-License-Identifier: Apache-2.0
"""The YAML block at the start of a Markdown file, which the Hugging Face Hub reads.

Nothing here imports TensorFlow, so that a file of the user is checked before any work.
"""

import itertools
import re

from albert_tf.errors import UserError

# A top-level key of YAML, or a line that belongs to the key before it, or a comment.
_LINE = re.compile(r"(?P<key>[^\s#\]}-][^:]*):(\s|$)|[\s#\]}-]|$")


def split(text, where=""):
    """Splits a Markdown text into its YAML block and the rest.

    Args:
        text: str.
        where: str, the file of the text, for the message.

    Returns:
        (dict of top-level key -> list of its lines, the text after the block). The dict is empty if
        there is no block.

    Raises:
        UserError: a line of text comes before the end of the block.
    """
    lines, header, key = text.removeprefix("\ufeff").split("\n"), {}, ""
    if lines[0].rstrip() != "---":
        return header, text
    for number, line in enumerate((*lines[1:], "the end of the file"), 2):
        line = line.rstrip()
        if line == "---":
            return header, "\n".join(lines[number:])
        if not (found := _LINE.match(line)):
            break
        key = found["key"] or key
        header.setdefault(key, []).append(line)
    raise UserError(
        f"{where}: line {number} does not belong to the YAML block that line 1 begins "
        f"({line[:60]}). Indent it, or write a line --- before it; if line 1 is no YAML, remove it"
    )


def merge(ours, theirs):
    """Merges two YAML blocks: the keys of both, and our value if both have a key.

    Args:
        ours: dict, from `split`.
        theirs: dict, from `split`.

    Returns:
        str, lines of Markdown; "" if both are empty.
    """
    lines = [*itertools.chain(*(ours | theirs | ours).values())]
    return "\n".join(["---", *lines, "---"]) if lines else ""
