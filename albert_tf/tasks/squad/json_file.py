# SPDX-License-Identifier: Apache-2.0
"""SQuAD files: the walk over their questions, every value checked. Needs no TensorFlow."""

import reprlib

from albert_tf.errors import UserError


def questions(content, path, with_context=True):
    """Yields (where, context, qa) for every question of a file; `where` is for messages.

    Args:
        content: the value of the JSON file.
        path: str, for messages.
        with_context: bool, whether paragraphs need a context; else it is None.

    Raises:
        UserError: it is no SQuAD file, a context is empty, or an id comes twice.
    """
    seen = set()
    for a, article in enumerate(field(content, "data", list, path)):
        paragraphs = field(article, "paragraphs", list, f"{path}, article {a}")
        for p, paragraph in enumerate(paragraphs):
            where = f"{path}, article {a}, paragraph {p}"
            context = text(paragraph, "context", where) if with_context else None
            if with_context and not context.strip():
                raise UserError(f"{where}: the context is empty; remove the paragraph")
            for qa in field(paragraph, "qas", list, where):
                qas_id = text(qa, "id", where)
                if qas_id in seen:
                    raise UserError(f"{path}: two questions have the id {qas_id!r}; rename one")
                seen.add(qas_id)
                yield f"{path}, question {' '.join(qas_id.split())}", context, qa


def field(found, name, kind, where):
    """The value of one type under a name; UserError where there is none.

    Args:
        found: the JSON value that should be an object with this name.
        name: str.
        kind: type; bool is no int.
        where: str, the place in the file, for the message.
    """
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UserError(
            f"{where}: {name!r} is {'missing' if value is None else reprlib.repr(value)}, "
            f"a SQuAD file has a {kind.__name__} there"
        )
    return value


def text(found, name, where):
    """The same for str, which must be valid Unicode: JSON can escape half a character."""
    value = field(found, name, str, where)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"{where}: {name!r} is not valid Unicode: {error}") from error
    return value


def answer_texts(qa, where):
    """The texts of a question's gold answers (tuple of str)."""
    return tuple(text(answer, "text", where) for answer in field(qa, "answers", list, where))
