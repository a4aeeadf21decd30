# SPDX-License-Identifier: Apache-2.0
"""The labels of rows of a table: classes, any number of classes, or scores."""

import math
import re
import reprlib

import tensorflow as tf

from albert_tf.errors import UserError, about
from albert_tf.tasks import label_lists, tables

_SKIP = "--skip_other_labels leaves such rows out"
_MOST_SHOWN = 10  # labels in a message
_OTHER = {".": ",", ",": "."}  # decimal mark -> the mark that may divide thousands then
_DECIMAL = {
    mark: re.compile(rf"[+-]?(\d*|[1-9]\d{{0,2}}(\{other}\d{{3}})+)\{mark}\d+")
    for mark, other in _OTHER.items()
}
_LINE_ENDS = re.compile(r"\s*[\t\r\n]\s*")
_THOUSANDS = re.compile(r"[+\u2212-]?[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")


def labels_of(task, table, normalize=str.strip, skip_others=False):
    """The labels of the rows of a training or development file: list.

    The label is None where a row has other labels than those of the task and `skip_others` is set.

    Args:
        task: glue.GlueTask.
        table: tables.Table, whose values are the texts and the labels.
        normalize: callable, what the tokenizer does to a label, if the task wants it.
        skip_others: bool.

    Raises:
        UserError: a label is unknown, empty or no number; the message names file and line.
    """
    normalize = normalize if task.normalize_labels else str.strip
    if task.is_regression:
        columns = range(len(task.text), len(task.text) + task.num_outputs)
        found = [_scores(task, table.rows, column, normalize) for column in columns]
        return found[0] if len(found) == 1 else list(zip(*found, strict=True))
    found = label_texts(task, table, normalize, needed=not skip_others)
    labels_of_rows = []
    for row, labels in zip(table.rows, found, strict=True):
        other = next((label for label in labels if label not in task.labels), None)
        if other is not None and not skip_others:
            shown = ", ".join([*task.labels[:_MOST_SHOWN], "..."][: len(task.labels)])
            own = f"give all classes as --labels; {_SKIP}{_hint_of_header(row)}"
            raise UserError(
                f"{row.place}: unknown label {reprlib.repr(other)}; known are {shown}. "
                f"Correct it, or {task.remedy(own)}"
            )
        known = labels if task.multi_label else labels[0]
        labels_of_rows.append(known if other is None else None)
    return labels_of_rows


def test_labels(task, table):
    """The labels of a user's own test file: list, None for rows without one that is known.

    If a row has another label, no row counts as labelled, unless such rows are skipped.

    Args:
        task: glue.GlueTask.
        table: tables.Table, whose values are the texts alone.
    """
    none = [None] * len(table.rows)
    if not (task.is_own and task.label):
        return none
    try:
        labelled = table.take(task.text_of("test") + task.label, keep_blank=True)
    except UserError:  # no column has this name or number
        return none
    names = {table.known[column] for column in task.label if column in table.known}
    has_names = not (task.header and table.header) or tables.are_among(names, table.header)
    given = (label.strip() for row in labelled.rows for label in row.values[len(task.text) :])
    if not has_names or label_lists.are_stand_ins(given, task.labels):
        return none
    try:
        found = labels_of(task, labelled, skip_others=task.skip_other_labels)
        known = [label for label in found if label is not None]
        if len(known) < len(found):
            others = f"{len(found) - len(known)} of {len(found)} rows"
            print(f"test: {others} have other labels than --labels and are not scored")
        label_lists.warn_if_all_alike(table.path, known)
        return found
    except UserError as error:
        print(f"The test set is not scored: {error}")
        return none


def label_texts(task, table, normalize=str.strip, needed=True):
    """Labels of rows: list of lists of str.

    If labels are not `needed`, an empty one is none of the task's, and so is another value than 0
    and 1; else they are errors. Several labels may be none. Other arguments are as of `labels_of`.
    """
    cells = [[*map(str.strip, row.values[len(task.text) :])] for row in table.rows]
    if len(cells[0]) > 1:
        return _labels_of_columns(task, table.rows, cells, needed)
    if task.multi_label:
        return _several_labels(task, [cell for (cell,) in cells], table.path)
    texts = [normalize(cell) for (cell,) in cells]
    if task.is_own:
        with about(table.path):
            texts = label_lists.only_ones(texts)
    found = _respelled(task, [[text] for text in texts])
    empty = [row.place for row, (label,) in zip(table.rows, found, strict=True) if not label]
    if needed and empty:
        own = f"add one or remove the row; with --labels, {_SKIP}"
        count = f"{len(empty)} of {len(found)} rows"
        raise UserError(f"{empty[0]}: the label is empty, in {count}: {task.remedy(own)}")
    return found


def _labels_of_columns(task, rows, cells, needed):
    """Labels of rows with a column of 0 and 1 for each label, or other values: as `label_texts`."""
    marks, no_marks = label_lists.MARKS, label_lists.NO_MARKS
    has_no_marks = any(cell in no_marks for values in cells for cell in values)
    may_be, found = marks | (no_marks if has_no_marks else {""}), []
    for row, values in zip(rows, cells, strict=True):
        others = {c: v for c, v in zip(task.label, values, strict=True) if v not in may_be}
        is_other = len(others) == len(values)  # a row without any label
        if others and (needed or not is_other):
            column, value = next(iter(others.items()))
            raise UserError(
                f"{row.place}: column {column!r} has {value!r}: label columns need 0 or 1, yes "
                f"or no, or 1 or x and empty cells" + f"; with --labels, {_SKIP}" * is_other
            )
        chosen = zip(task.labels, values, strict=True)
        ones = [label for label, value in chosen if value in marks]
        found.append([*others.values()] or ones)
    return found


def _several_labels(task, cells, path):
    """Labels of rows with a cell of any number of labels: list of lists of str.

    They have the form of the training file or, where some are unknown then, a form of their own.
    """
    found, error = None, None
    for own in (False, True):
        try:
            with about(path):
                form = label_lists.find_form(cells, task.labels) if own else task.label_form
                if not form:
                    continue
                labels = _respelled(task, label_lists.split(cells, form, task.labels))
        except UserError as caught:
            error = error or caught
            continue
        are_known = {label for each in labels for label in each} <= {*task.labels}
        if are_known or not task.labels:  # without labels, this is the training file
            return labels
        found = labels if found is None else found
    if found is None:
        raise error
    return found


def _respelled(task, found):
    """The labels of rows, with one spelling of each, on one line, in a user's own files."""
    if not task.is_own:
        return found
    found = [[_LINE_ENDS.sub(" ", label) for label in labels] for labels in found]
    same = tables.spellings({label for labels in found for label in labels}, task.labels)
    return [[same.get(label, label) for label in labels] for labels in found]


def _scores(task, rows, column, normalize):
    """The scores of a column: list of float."""
    texts = [normalize(row.values[column]) for row in rows]
    mark = decimal_mark(texts) if task.is_own else "."
    scores = [_score(text, mark) for text in texts]
    is_unclear = task.is_own and _may_be_thousands(texts, mark)
    for row, text, score in zip(rows, texts, scores, strict=True):
        is_number = abs(score) <= float(tf.float32.max)  # nan is not
        if not is_number or (is_unclear and mark in text):
            fault = "may have a mark of thousands" if is_number else "is not a number"
            raise UserError(
                f"{row.place}: the label {reprlib.repr(text)} {fault}: write labels such as 1234 "
                f"or 12.5, without marks of thousands and without units{_hint_of_header(row)}"
            )
    return scores


def decimal_mark(texts):
    """The decimal mark that most scores of a column fit: a point or a comma."""
    return max(_OTHER, key=lambda mark: sum(math.isfinite(_score(text, mark)) for text in texts))


def _score(text, mark):
    """The number that a score with this decimal mark is: float; nan if it is none.

    In 1.234,50, the last mark is the decimal one.
    """
    text = text.strip().replace("\u2212", "-")  # a minus of spreadsheets and word processors
    if _DECIMAL[mark].fullmatch(text):
        text = text.replace(_OTHER[mark], "").replace(mark, ".")
    elif mark == "," and "." in text:
        return math.nan
    return tables.number(text)


def _may_be_thousands(texts, mark):
    """Whether the decimal mark of scores may be one of thousands.

    It may be one if it divides all numbers that have it like thousands. A comma always may then:
    1,000 may be 1000. A point may next to whole numbers if a number with it ends in 0, which
    decimals seldom do, or if a whole number is far larger: 20.000 next to 500 may be the German
    20000. The mark of a single 1.234,5, which has both marks, may be a mistake.
    """
    marked, others = [text for text in texts if mark in text], [t for t in texts if mark not in t]
    if not (marked and all(map(_THOUSANDS.fullmatch, marked))):
        return len(marked) == 1 and _OTHER[mark] in marked[0]
    largest = max(abs(_score(text, mark)) for text in marked)
    other = max((abs(_score(text, mark)) for text in others), default=math.nan)
    has_zeros = any(text.endswith("0") for text in marked)
    is_other = math.isfinite(other) and (has_zeros or other > max(2 * largest, 100))
    return mark == "," or is_other


def _hint_of_header(row):
    return ". If this line names the columns, give --header" if row.number == 0 else ""
