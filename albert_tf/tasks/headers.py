# SPDX-License-Identifier: Apache-2.0
"""Whether the first row of a user's own table names the columns, where flags give their numbers.

`tables.open_table` recognises a header that has the names given by flags, or that only numbers the
columns.
"""

import contextlib
import re

from albert_tf.corpus import unpacking
from albert_tf.errors import UserError
from albert_tf.tasks import label_lists, tables


def is_shared(task, paths, split):
    """Whether a file begins with a header, as the files of several splits show together.

    They show it if another file begins with the same row and has another second row, and if the
    first row is no example: no other row has its label, or it has words or numbers above texts.

    Args:
        task: glue.GlueTask.
        paths: dict from split to path, of the files that exist.
        split: str, one of them.

    Returns:
        True; or None if they do not show it, so that the file has to show it alone.

    Raises:
        UserError: the same row has the label of another row, and a word above texts.
    """
    if tables.names_in(task.text):
        return None  # the names tell
    texts, is_sure = {}, True
    for other, path in paths.items():
        rows = _rows_at_start(task, path)
        if len(rows) < 2:
            continue
        is_example = _kind_of_first_row(task, rows) == "example"
        if not is_example or _is_apart(task, rows):
            texts[other] = [[row[n] for n in task.text if n < len(row)] for row in rows[:2]]
            is_sure &= not (is_example and tables.are_words(texts[other][0]))
    ours = texts.pop(split, None)
    shared = any(ours and ours[0] == rows[0] and ours[1] != rows[1] for rows in texts.values())
    if shared and not is_sure:
        raise UserError(_may_be_header(f"{paths[split]}, line 1"))
    return shared or None


def _rows_at_start(task, path):
    """The first rows of a file that are not blank: list of lists of str; [] if it is unusable."""
    with contextlib.suppress(UserError):  # it is read where the split is needed, if it is
        start = tables.first_lines(unpacking.lines(path))
        given = {"delimiter": task.delimiter, "has_header": False}
        table = tables.open_table(path, task.text, start=start, **given)
        return [[*map(str.strip, row.cells)] for row in table.rows if row.cells]
    return []


def _kind_of_first_row(task, rows):
    """What labels show of the first row: that it is an "example" or a "header"; else None."""
    numbers = [column for column in task.label[:1] if isinstance(column, int)]
    labels = [row[number].strip() for number in numbers for row in rows if number < len(row)]
    if len(labels) < len(rows):
        return None
    first, *others = [task.is_label(x) or label_lists.are_stand_ins([x]) for x in labels]
    if first or labels[0] in labels[1:]:
        return "example"
    return "header" if others and all(others) else None


def _may_be_header(place):
    return (
        f"{place}: this line seems to name the columns: give --header if all files have one, else "
        "remove it, or give --noheader if it is an example"
    )


def _is_apart(task, rows):
    """Whether the first row (list of str) has words or numbers where the others have texts."""
    first, *others = ([row[n] for n in task.text if n < len(row)] for row in rows)
    if first and all(map(str.isdecimal, first)):
        return len(others) > 1 and not any(text.isdecimal() for row in others for text in row)
    return bool(first) and tables.may_be_names(first, others)


def check_example(task, table, split):
    """Raises UserError if the first example of a file may be a header that others do not share.

    Its numbers may number columns, some of which were dropped. In a test file, it may also have
    words; if no labels show that it is a header, this is only a warning.
    """
    rows = [row.cells for row in table.rows if any(row.cells)]
    kind, message = _kind_of_first_row(task, rows), _may_be_header(table.rows[0].place)
    numbers = rows[0] if rows[0][0].isdecimal() else rows[0][1:]  # a name may stand first
    are_numbers = len({*numbers}) == len(numbers) > 1
    are_numbers &= all(re.fullmatch(r"\d{1,3}", number) for number in numbers)
    is_of_words = split == "test" and kind == "header" and tables.are_words(rows[0])
    if is_of_words or (are_numbers and _is_apart(task, rows)):
        raise UserError(message)
    # A text may be a single word too.
    if split == "test" and kind != "example" and tables.may_be_names(rows[0], rows[1:]):
        print(f"Warning: {message}")
