# SPDX-License-Identifier: Apache-2.0
"""What a cell of labels may hold: several, with any separator that people use, 0 or 1, or none.

Needs no TensorFlow.
"""

import ast
import collections
import contextlib
import itertools
import json
import math
import re
import reprlib
import unicodedata
from typing import NamedTuple

from albert_tf import resolve
from albert_tf.errors import UserError
from albert_tf.options import LABEL_SEPARATOR
from albert_tf.tasks import tables

_TAGS = "><"  # as in <python><pandas>, which Stack Overflow writes
_ALWAYS = (LABEL_SEPARATOR, ";", ",", "\n", "\t", _TAGS)  # one that occurs separates labels
# If all parts occur as labels of their own, or are numbers; numbers with a hyphen are a range.
_PERHAPS = (*"、，；｜،؛", "/", "&", "+", "#", "-", " ")
_NAMES = tables.SEPARATORS | {" ": "spaces", "\n": "line ends", _TAGS: "angle brackets"}
_LIST = "[]"
# A list as NumPy, PyTorch and TensorFlow show it.
_CALL = re.compile(r"(?:\w+\.)?(?:array|[Tt]ensor|frozenset)\((\W.*?)(?:, \w+=.*)?\)", re.DOTALL)
ONES = {"1", "1.0", "1.", "True", "true", "TRUE"}
BITS = {"0", "0.0", "0.", "False", "false", "FALSE"} | ONES
# In a column for each label.
MARKS, NO_MARKS = ONES | {"x", "X", "yes", "Yes", "YES"}, BITS - ONES | {"no", "No", "NO"}
# Texts that stand for missing ones, as pandas, databases, R and spreadsheets write them.
MISSING = re.compile(
    r"-?nan|NaN|NA|N/A|NIL|<NA>|None|NULL|\(null\)|\[NULL\]|\\N|-?1\.#(IND|QNAN)"
    r"|#NA|#N/?[ADV]( N/A)?"
    r"|#[¡¿]?(DIV/0|NAME|NOM|NOMBRE|NULL|NUL|NUM|NÚM|REF|RIF|VALOR|VALUE|WERT|BEZUG|ZAHL|VALEUR)[!?]"
)
_MISSING_LABEL = re.compile(rf"{MISSING.pattern}|[-?.]", re.IGNORECASE)
_CODE = re.compile(r"-(1|100|9+)|99+")  # numbers that may
_FAR, _FEW = 5, 4  # ranges of the other numbers, and numbers of which only codes are far
_TRUTHS = {"true": "1", "false": "0"}
_LONG = 2  # numbers; a longer list that repeats one is no list of ids
# A text in quotes, and what stands outside of texts: no comma after it, a value of NumPy.
_TEXT = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_ITEM = re.compile(rf"({_TEXT}|[}}\]])(\s+(?=['\"{{\[]))?", re.DOTALL)
_OF_NUMPY = re.compile(rf"({_TEXT})|(?:np\.\w+|array)\(|(?:,\s*dtype=[\w'<>]+)?\)", re.DOTALL)
_OF_R = re.compile(r"c\(([\"'].*|[\d., ]+)\)|(?:character|integer|numeric|logical)\(0\)", re.DOTALL)
_NUMBERS_OF_LABELS = {"id", "user", "label"}  # keys of an object that stands for a label
_EMPTY = {"", "()", "set()", "nan", "None", "null"}  # cells without a label, in a column of lists


class Form(NamedTuple):
    """How the labels of a file are written.

    Attributes:
        separator: str, between the labels of a cell that is no list as Python and JSON write it;
            "[]" if most cells are lists of any kind, "" if each has one label.
        is_one_hot: bool, whether there is 0 or 1 for each class in place of the labels.
    """

    separator: str
    is_one_hot: bool = False

    def __str__(self):
        if self.is_one_hot:
            return "lists of 0 and 1"
        if self.separator == _LIST:
            return "lists"
        named = _NAMES.get(self.separator, self.separator)
        return f"{named} between them" if named else "one each, or lists"


def find_form(cells, known=()):
    """Finds out how the labels of a file are written: Form.

    Args:
        cells: list of str, each with any number of labels: separated by a vertical bar, semicolon,
            comma, space or similar; or a list as Python, NumPy and JSON write it, of labels or of
            0 and 1 for each class. An empty one has no label.
        known: sequence of str, all classes in the order of their ids, if they are known. A
            separator is the one by which most cells have only these, or labels occur most often.
    """
    cells = [*map(bare, cells)]
    filled = [cell for cell in cells if cell]
    labelled = [cell for cell in filled if cell not in _EMPTY]
    if sum(map(_is_list, labelled)) * 2 > len(labelled):
        lists = _lists(cells, _LIST)
        return Form(_LIST, _are_one_hot(lists) or _are_vectors(lists))
    filled = [cell for cell in filled if _literal(cell) is None]
    occurring = [mark for mark in _ALWAYS if any(mark in cell for cell in filled)]
    occurring += [mark for mark in _PERHAPS if _separates(mark, filled)]

    def share(mark):  # of cells with unknown labels, or of different labels among all
        labels = split(cells, Form(mark))
        if known:
            return sum(not {*each} <= {*known} for each in labels)
        labels = [*itertools.chain.from_iterable(labels)]
        return len({*labels}) / max(len(labels), 1)

    if known or not occurring:
        occurring.append("")
    best = min(occurring, key=share)
    lists = _lists(cells, best)
    is_one_hot = best and all(len(items) > 1 for items in lists) and _are_one_hot(lists)
    return Form(best, bool(is_one_hot))


def split(cells, form, known=()):
    """The labels of cells: list of lists of str.

    Args:
        cells: list of str.
        form: Form.
        known: sequence of str, as of `find_form`.

    Raises:
        UserError: a label is a list or an object, or lists of 0 and 1 have not one entry for each
            class.
    """
    lists = _lists([*map(bare, cells)], form.separator)
    if form.is_one_hot:
        return _of_one_hot(lists, known)
    lists = [[*dict.fromkeys(filter(None, items))] for items in lists]
    nested = [item for items in lists for item in items if _literal(item) is not None]
    if nested:
        raise UserError(f"a label is {nested[0]}: write each label as a text or a number")
    return lists


def bare(cell):
    """A cell without space around it, and without the name of the type of a list."""
    cell = cell.strip()
    if cell[:2] == '"[' and cell[-2:] == ']"':  # JSON in JSON
        with contextlib.suppress(ValueError):
            cell = json.loads(cell)
    if cell.startswith('{"choices"'):  # of Label Studio
        with contextlib.suppress(ValueError):
            cell = json.dumps(json.loads(cell)["choices"])
    if of_r := _OF_R.fullmatch(cell):
        return f"[{of_r[1] or ''}]"
    call = _CALL.fullmatch(cell)
    return call[1] if call else cell


def is_joined(label, labels, marks=_ALWAYS + _PERHAPS):
    """Whether a label consists of several others, a set of str, with one of `marks` between."""
    parts = [split([label], Form(mark))[0] for mark in marks]
    if _TAGS in label:
        labels = {each.strip("<>") for each in labels}
    if in_brackets(label):
        with contextlib.suppress(UserError):
            parts.append(items_of(label))
    return any(len(each) > 1 and {*each} <= labels for each in parts)


def in_brackets(cell):
    """Whether a cell stands in square brackets, as lists of JSON, Python and NumPy do (bool)."""
    return cell[:1] + cell[-1:] == "[]"


def _is_list(cell):
    is_tuple = cell[0] == "(" and cell[-1] == ")" and any(mark in cell for mark in ",'\"")
    return is_tuple or (cell[0] in "[{" and cell[-1] in "]}")


def _lists(cells, separator):
    """The parts of each cell: list of lists of str."""
    if separator == _LIST:
        filled = ("" if cell in _EMPTY else cell for cell in cells)
        return [(items_of(cell) if _is_list(cell) else [cell]) if cell else [] for cell in filled]
    found = []
    for cell in cells:
        if _literal(cell) is None:
            items = cell.split(separator) if separator else [cell]
        else:
            items = items_of(cell)
        around = "<>" if separator == _TAGS else None
        found.append([item.strip(around) for item in items] if any(items) else [])
    return found


def only_ones(cells):
    """The labels of cells, if all cells hold lists of one label; else the cells: list of str.

    Args:
        cells: list of str.

    Raises:
        UserError: all cells hold lists, and one has not one label or cannot be read.
    """
    cells = [*map(bare, cells)]
    filled = [cell for cell in cells if cell]
    if not filled or not all(in_brackets(x) or isinstance(_literal(x), dict) for x in filled):
        return cells
    lists = [labels or [""] for labels in split(cells, Form(_LIST))]
    if all(len(labels) == 1 for labels in lists):
        return [label for (label,) in lists]
    raise UserError(
        f"the label {reprlib.repr(filled[0])} is a list: give --multi_label, or write one label"
    )


def _separates(mark, cells):
    """Whether a character that labels may hold separates them, as far as can be seen."""
    several = split([cell for cell in cells if mark in cell], Form(mark))
    alone = {cell for cell in cells if mark not in cell}
    parts = {part for parts in several for part in parts}
    are_parts = all(len(found) > 1 for found in several)  # C++ has no second one, nor has +1
    may_be_ids = are_parts if mark == "+" else mark != "-"
    are_ids = may_be_ids and all(part.isdecimal() for part in parts)
    return bool(several) and (are_ids or (are_parts and parts <= alone))


def items_of(cell):
    """The items of a list as `values_of`: list of str; of null "", of an object its label or name.

    An object with other numbers, such as a score or a place in the text, stays as it is.
    """
    items = values_of(cell)
    for n, item in enumerate(items):
        if isinstance(item, dict):
            numbers = {key for key, value in item.items() if isinstance(value, int | float)}
            if numbers <= _NUMBERS_OF_LABELS:
                items[n] = part(item, ("label", "name"), item)
    return ["" if item is None else str(item).strip() for item in items]


def part(found, keys, default):
    """The value of the first of some keys that a JSON value has, if it is an object."""
    return next((found[key] for key in keys if isinstance(found, dict) and key in found), default)


def values_of(cell):
    """The items of a list as JSON, Python or NumPy write it: list of any type.

    Raises:
        UserError: the list cannot be read.
    """
    if len(cell) < 3:
        return []
    items = _literal(cell)
    if items is None and re.search(r"(np\.\w+|array)\(", cell):
        cell = _OF_NUMPY.sub(r"\1", cell)
        items = _literal(cell)
    if items is None:
        mark = r"\s*,\s*" if "," in cell else r"\s+"
        items = [item.strip("'\"") for item in re.split(mark, cell[1:-1].strip())]
        items = [... if item == "..." else item for item in items]  # of NumPy
        if re.search(r"""[\[(,\s]['"]""", cell):  # a text may have spaces
            raise UserError(f"this is no list that can be read: {reprlib.repr(cell)}")
    items = [*items] if isinstance(items, list | tuple | set) else [items]
    if ... in items:
        raise UserError(f"this list was cut when it was written: {reprlib.repr(cell)}")
    return items


def _literal(cell):
    """The value of a list as JSON or Python write it; None of any other text."""
    if not cell or not _is_list(cell):
        return None
    of_python = _ITEM.sub(lambda m: m[1] + ", " * bool(m[2]), cell)  # NumPy writes no commas
    for read, text in ((json.loads, cell), (ast.literal_eval, of_python)):
        with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return read(text)
    return None


def _are_one_hot(lists):
    """Whether lists hold 0 or 1 for each of several classes: all of one length.

    They may also be lists of ids, unless one is repeated in a list, is a word such as True or a
    decimal such as 1.0, or all lists have the same ids, which would tell nothing.
    """
    values = {item for items in lists for item in items}
    lengths = {len(items) for items in lists if items}
    are_no_ids = any(x.isalpha() or "." in x for x in values)
    are_no_ids |= any(len({*x}) < len(x) for x in lists)
    are_no_ids |= len(lists) > 1 and len({frozenset(x) for x in lists if x}) == 1
    return values <= BITS and len(lengths) == 1 and lengths != {1} and are_no_ids


def _are_vectors(lists):
    """Whether lists hold a number for each of several classes, which repeats in some of them."""
    lengths = {len(items) for items in lists if items}
    are_numbers = all(x == "nan" or math.isfinite(tables.number(x)) for y in lists for x in y)
    is_repeated = any(len({*x}) < len(x) for x in lists)
    return are_numbers and is_repeated and len(lengths) == 1 and max(lengths) > _LONG


def _of_one_hot(lists, known):
    count = max(map(len, lists))
    names = known or [str(number) for number in range(count)]
    other = next((item for items in lists for item in items if item not in BITS), None)
    if other is not None:
        raise UserError(
            "lists in which a number repeats have 0 or 1 for each label. Received: "
            f"{other!r}: correct it, or write each label once"
        )
    if {*map(len, lists)} - {0, len(names)}:
        raise UserError(
            f"lists of 0 and 1 with {count} entries need as many --labels, not {len(names)}"
        )
    return [
        [name for name, item in zip(names, items, strict=True) if item in ONES] if items else []
        for items in lists
    ]


# === Warnings ===


def are_stand_ins(labels, known=()):
    """Whether labels (iterable of str) of a test file stand for missing ones: all empty or -1."""
    given, others = ({tables.whole(label) or label for label in x} for x in (labels, known or ()))
    return given <= {"", "-1"} - others


def is_missing(label):
    """Whether a label is one of the texts of `MISSING`, in any case, or a sign (bool)."""
    return bool(_MISSING_LABEL.fullmatch(label))


def missing_numbers(numbers):
    """Those of numbers (iterable of float) that may stand for missing ones: set of float.

    These are codes such as -1 next to numbers that are not negative, and a number far from all
    others, such as 99 next to 1 to 5.
    """
    numbers = {x for x in numbers if math.isfinite(x)}
    codes = {x for x in numbers if x < 0 and _is_code(x)}
    if min(numbers - codes, default=0) < 0 or -max(numbers, default=0) in codes:  # as -1, 0, 1
        codes = set()
    ordered = sorted(numbers - codes)
    for far, near, *_, end in (ordered, ordered[::-1]) if len(ordered) > 2 else ():
        if abs(far - near) > _FAR * abs(near - end) and (len(ordered) > _FEW or _is_code(far)):
            codes.add(far)
    return codes


def _is_code(number):
    return bool(_CODE.fullmatch(f"{number:.15g}"))


def doubts_of_words(counts):
    """Yields warnings of labels of words that may be two spellings of one, or missing.

    Args:
        counts: dict from label to its count in the training file.
    """
    counts = _in_order(counts)
    yield from _on_spelling(counts)
    # Most words are in no span, for which - or none may stand too.
    for label in _missing(counts, {".", max(counts, key=counts.get, default="")}):
        yield (
            f"the label {label!r} of {counts[label]} words may stand for a missing one: correct "
            "it, or leave these words out"
        )


def doubts(counts, multi_label, form, most):
    """Yields warnings of labels that may be two spellings of one, missing, joined, or numbers.

    Args:
        counts: dict from label to its count in the training file.
        multi_label: bool, whether a text has any number of labels.
        form: Form of several labels; None if they are columns, or one each.
        most: int, labels of a text.
    """
    counts = _in_order(counts)
    yield from _on_spelling(counts)
    missing = _missing(counts)
    others = resolve.as_flag("labels", [label for label in counts if label not in missing])
    for label in missing:
        yield (
            f"the label {label!r} of {counts[label]} rows may stand for a missing one: {others} "
            "--skip_other_labels leaves them out"
        )
    marks = _ALWAYS + (() if multi_label else _PERHAPS)
    several = next((label for label in counts if is_joined(label, {*counts}, marks)), None)
    if several:
        remedy = "if a text has several, give --multi_label"
        if multi_label:
            remedy = f"labels are read with {form}"
        yield (
            f"the label {several!r} of {counts[several]} rows has parts that are other labels: "
            f"{remedy}"
        )
    fraction = next((label for label in counts if tables.number(label) % 1), None)
    if fraction and most < 2 and all(math.isfinite(tables.number(label)) for label in counts):
        yield f"labels such as {fraction} are classes: to predict numbers, give --regression"
    if form and most < 2:
        yield (
            f"--multi_label, but no text has several labels, with {LABEL_SEPARATOR}, ; or , "
            f"between them, as in a{LABEL_SEPARATOR}b"
        )


def _in_order(counts):
    return {label: counts[label] for label in sorted(counts, key=tables.order)}


def _missing(counts, ordinary=()):
    """Labels that may stand for missing ones, unless all of them do: list of str.

    Args:
        counts: dict from label to its count.
        ordinary: set of str, labels that stand for no missing one; nor do signs next to others.
    """
    signs = {label for label in counts if not any(map(str.isalnum, label))}
    ordinary = {*ordinary, *(signs if len(signs) > 1 else ())}
    codes = {x for x in missing_numbers(map(tables.number, counts)) if _is_code(x)}
    found = [label for label in counts if label not in ordinary and is_missing(label)]
    found += [label for label in counts if tables.number(label) in codes]
    return found if len(found) < len(counts) else []


def _on_spelling(counts):
    """Yields warnings of labels that look the same but are written in several ways."""
    spelt, mixed = collections.defaultdict(list), []
    for label in counts:
        seen = (c for c in label if unicodedata.category(c) != "Cf")
        seen = "".join(str(unicodedata.digit(c, c)) for c in seen)  # of any script
        usual = unicodedata.normalize("NFKC", seen).casefold().strip()
        usual = re.sub(r"(?<=[^\W\d_])[-_\s\u2010-\u2015]+(?=[^\W\d_])", " ", usual)
        spelt[_TRUTHS.get(usual, usual)].append(label)
        if any(map(_mixes_alphabets, re.findall(r"[^\W\d_]+", label))):
            mixed.append(label)
    for alike in spelt.values():
        if len(alike) > 1:
            forms = {unicodedata.normalize("NFC", label) for label in alike}
            shown = repr if len(forms) == len(alike) else ascii  # some look the same
            named = " and ".join(f"{shown(label)} ({counts[label]})" for label in alike)
            yield f"{named} are different labels: write them alike if they are one"
    for label in mixed:
        yield f"the label {label!r} ({label!a}) has Latin and Cyrillic letters in one word"


def _mixes_alphabets(word):
    """Whether a word has Latin and Cyrillic letters, some of which look the same (bool)."""
    found = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
    return {"LATIN", "CYRILLIC"} <= found


def warn_if_all_alike(path, labels):
    """Prints a warning if the labels of a test file, a list of more than two, are all the same."""
    if len(labels) > 2 and all(label == labels[0] for label in labels):
        print(
            f"Warning: {path}: all labels are {labels[0]!r}. If they stand for missing ones, the "
            "metrics of the test set say nothing"
        )
