# SPDX-License-Identifier: Apache-2.0
"""Labels of several classes in a cell, with any separator that people use. Needs no TensorFlow."""

import ast
import re
from typing import NamedTuple

from albert_tf.errors import UserError
from albert_tf.options import LABEL_SEPARATOR

_ALWAYS = (LABEL_SEPARATOR, ";", ",")  # one that occurs separates labels
_PERHAPS = ("/", "&", "+", "#", " ")  # if all parts occur as labels of their own, or are numbers
_NAMES = {LABEL_SEPARATOR: "vertical bars", ";": "semicolons", ",": "commas", " ": "spaces"}
ONE_EACH = "one each"  # no separator was found


class LabelLists(NamedTuple):
    """Labels of each cell, and how they are written, for messages.

    Attributes:
        labels: list of lists of str.
        described: str.
    """

    labels: list
    described: str


def split(cells, known=()):
    """Splits the labels of cells. All cells of a file are split alike.

    Args:
        cells: list of str, each with any number of labels: separated by a vertical bar, semicolon,
            comma, space or similar; or a list as Python, NumPy and JSON write it, of labels or of
            0 and 1 for each class. An empty one has no label.
        known: sequence of str, all classes in the order of their ids, if they are known. A
            separator by which all labels are known comes first.

    Returns:
        LabelLists.

    Raises:
        UserError: lists of 0 and 1 have not one entry for each class.
    """
    cells = [cell.strip() for cell in cells]
    filled = [cell for cell in cells if cell]
    if filled and all(cell[0] in "[({" and cell[-1] in "])}" for cell in filled):
        lists = [items_of(cell) if cell else [] for cell in cells]
        nested = [item for items in lists for item in items if item[0] in "[({"]
        if nested:
            raise UserError(f"a label is {nested[0]}: write each label as a text or a number")
        if not _are_one_hot(lists):
            return LabelLists(lists, "lists")
        return LabelLists(_of_one_hot(lists, known), "lists of 0 and 1")
    occurring = [mark for mark in _ALWAYS if any(mark in cell for cell in filled)]
    occurring += [mark for mark in _PERHAPS if _separates(mark, filled)]
    if occurring:
        lists = [[part.strip() for part in cell.split(occurring[0])] for cell in cells]
        if all(len(items) > 1 for items in lists) and _are_one_hot(lists):
            return LabelLists(_of_one_hot(lists, known), "lists of 0 and 1")
    found = {mark: [_parts(cell, mark) for cell in cells] for mark in [*occurring, None]}
    if known:
        for mark, lists in found.items():
            if {label for labels in lists for label in labels} <= {*known}:
                return LabelLists(lists, _described(mark))
    mark = occurring[0] if occurring else None
    return LabelLists(found[mark], _described(mark))


def only_ones(cells):
    """The labels of cells that hold lists of one label each: list of str.

    Args:
        cells: list of str.

    Returns:
        list of str; the cells as they are if they hold no lists, None if some list has not one
        label.
    """
    filled = [cell for cell in cells if cell]
    if not filled or not all(cell[0] == "[" and cell[-1] == "]" for cell in filled):
        return cells
    lists = [items_of(cell) if cell else [""] for cell in cells]
    if all(len(items) == 1 and items[0][:1] not in ("[", "{", "(") for items in lists):
        return [items[0] for items in lists]
    return None


def _described(mark):
    return f"{_NAMES.get(mark, mark)} between them" if mark else ONE_EACH


def _parts(cell, mark):
    parts = cell.split(mark) if mark else [cell]
    return [*dict.fromkeys(part for part in map(str.strip, parts) if part)]


def _separates(mark, cells):
    """Whether a character that labels may hold separates them, as far as can be seen."""
    split = [_parts(cell, mark) for cell in cells if mark in cell]
    alone = {cell for cell in cells if mark not in cell}
    parts = {part for parts in split for part in parts}
    return bool(split) and (parts <= alone or all(part.isdecimal() for part in parts))


def items_of(cell):
    """The items of a list as Python, NumPy or JSON write it: list of str."""
    cell = re.sub(r"(?<=['\"])\s+(?=['\"])", ", ", cell)  # NumPy writes no commas
    try:
        items = ast.literal_eval(cell) if len(cell) > 2 else []
    except (ValueError, SyntaxError):
        items = [item.strip("'\"") for item in re.split(r"[,\s]+", cell[1:-1].strip())]
    if not isinstance(items, list | tuple | set):
        items = [items]
    return [text for item in items if (text := str(item).strip())]


def _are_one_hot(lists):
    """Whether lists hold 0 or 1 for each class: all of one length, and no list of ids repeats one.

    Lists of decimals such as 1.0 count too.
    """
    values = {item for items in lists for item in items}
    lengths = {len(items) for items in lists if items}
    return (
        values <= {"0", "1", "0.0", "1.0", "False", "True"}
        and len(lengths) == 1
        and any(len({*items}) < len(items) for items in lists)
    )


def _of_one_hot(lists, known):
    count = max(map(len, lists))
    names = known or [str(number) for number in range(count)]
    if len(names) != count:
        raise UserError(
            f"the lists of 0 and 1 have {count} entries, but there are {len(names)} labels: give "
            "the label of each entry as --labels"
        )
    return [
        [name for name, item in zip(names, items, strict=True) if item in ("1", "1.0", "True")]
        if items
        else []
        for items in lists
    ]
