# SPDX-License-Identifier: Apache-2.0
"""Tables with a question in each row: what columns hold, what options are, what answers mean.

Needs no TensorFlow.
"""

import contextlib
import itertools
import re
import reprlib
import string
from typing import NamedTuple

from albert_tf.errors import UserError, about
from albert_tf.tasks import column_roles, label_lists, tables

LETTERS = string.ascii_uppercase
_ANSWERS = ("answer", "answer key", "label", "gold label", "correct answer", "correct option",
            "correct", "cop", "ans", "target", "gold ending")  # fmt: skip
_NUMBERS = ("id", "idx", "index", "num")  # an answer may be the number of an option
# What a column holds -> names that it may have, by precedence. Options may have a column each:
# `option_columns`.
ROLES = {
    "id": ("id", "example_id", "qid", "question_id", "id_string", "idx", "guid"),
    "passage": ("article", "context", "passage", "paragraph", "premise", "story", "text",
                "document", "dialogue", "support", "background", "flores_passage", "sent1"),
    "question": ("question", "question_text", "question_stem", "prompt", "query", "sentence",
                 "goal", "qtext", "ctx", "sent2", "questions"),
    "options": ("options", "choices", "choices.text", "options.text", "question.choices",
                "endings", "answer_options", "answers", "choice"),
    "option": (),
    "wrong options": ("incorrect_answers", "wrong_answers", "distractors"),
    "names of options": ("choices.label", "options.label"),
    "answer": (*_ANSWERS, *(f"{answer} {number}" for answer in _ANSWERS for number in _NUMBERS),
               "answers", "choice"),
}  # fmt: skip
# Columns with an option each: option 1, ...; choice_a, ...; ending0, ...; A, B, ...; options.A, ...
_OPTION = (
    r"((?:(?:answer_)?options?|opt?|choices?|ending|(?:mc_)?answer|sol|solution)[ _.-]?|(?=\D$))"
    r"(\d+|[a-z])"
)
_WRONG = r"((?:distractor|(?:wrong|incorrect)(?:[ _](?:answer|option))?)[ _.-]?)(\d+|[a-z])"
# Keys of an option that is an object, such as {"label": "A", "text": "red"}, by precedence.
_TEXT_KEYS = ("text", "content", "option", "choice", "answer", "value")
_NAME_KEYS = ("label", "id", "key", "letter", "index")
_NAME, _TEXT, _LETTER, _FROM_0, _FROM_1 = range(5)  # ways to read an answer
# Where no way fits all answers; the first of those that fit most is used.
_PERHAPS = (_TEXT, _LETTER), (_NAME,), (_FROM_0,), (_FROM_1,)
# A list as JSON, Python or NumPy write it, or a tuple. A set has no order.
_LIST = re.compile(r"""\s*(\[.*\]|\([^()]*,[^()]*\)|\(\s*['"].*\))\s*""", re.DOTALL)
# A passage or answer is a list if it begins with a quoted text, and not with "[1]" or "[[Link]]".
TEXT_LIST = re.compile(r"""\[([\s\[{]*["'].*)?\]""", re.DOTALL)
# The parts of an answer such as (A), Answer: A, option_2, or B. red
_SAID = re.compile(r"(?is)(?:(?:answer|option|choice)[\W_]*)?\(?([a-z]|\d+)(?:[.):](?!\d)\s*(.*))?")


class Reading(NamedTuple):
    """What an answer may mean.

    Attributes:
        answer: str, as it is written.
        places: list of int or None, the place of the option by each way to read the answer: as the
            name of an option, its text, its letter, or its number from 0 or 1.
        row: str, file and line, for messages.
    """

    answer: str
    places: list
    row: str = ""


# === Columns ===


def option_columns(header, pattern=_OPTION):
    """The columns with an option each, in order: dict from their name to that of the option.

    The columns differ in a number from 0 or 1, or in a letter from a. An answer names an option by
    this number if they begin with 0, or if they are keys, as in `{"1": "red"}`; otherwise by the
    whole name of the column, since 1 may also be the second of `choice1` and `choice2`. The option
    in a column `B` has no name (""), since an answer B may be its text.
    """
    groups = {}
    for name in header:
        if match := re.fullmatch(pattern, name.strip(), re.IGNORECASE):
            stem, mark = map(str.lower, match.groups())
            place = int(mark) if mark.isdecimal() else string.ascii_lowercase.index(mark)
            groups.setdefault((stem, mark.isdecimal()), {})[place] = name, mark
    for (stem, is_number), group in groups.items():
        first = min(group)
        if len(group) > 1 and first < 2 and sorted(group) == [*range(first, first + len(group))]:
            is_mark = is_number and (first == 0 or stem.endswith("."))  # `choices.1` is a key
            marked = [pair for _, pair in sorted(group.items())]
            return {name: mark if is_mark else stem and name for name, mark in marked}
    return {}


def _roles_of(table):
    """The columns of a table that are read: dict from `ROLES` to lists of names, by precedence."""
    known = column_roles.named(table.header, ROLES)
    held, rows = {role: [[n] for n in names] for role, names in known.items()}, cells_of(table)
    # Another id than `id` may be that of a passage, which has several questions.
    values = {name: {row.get(name) for row in rows} for [name] in held["id"]}
    held["id"] = [[n] for n, v in values.items() if n.lower() == "id" or len(v) == len(rows)]
    held["option"] = [[*option_columns(table.header)]]
    held["wrong options"].append([*option_columns(table.header, _WRONG)])
    # Names of options that are also those of answers: they are answers if others hold the options.
    both = [names for names in held["options"] if names in held["answer"]]
    others = [names for names in held["options"] if names not in both]
    key = "options" if any(others + held["option"] + held["wrong options"]) else "answer"
    held[key] = [names for names in held[key] if names not in both]
    used = column_roles.filled(rows, held["question"]) or [*itertools.chain(*held["question"][:1])]
    # Next to a question, columns such as ctx and prompt hold the passage.
    held["passage"] += [names for names in held["question"] if names[0] not in used]
    held["question"] = [[*used]]
    used += column_roles.filled(rows, held["passage"], are_texts=True)
    # A column in which some answers are missing comes after one that has them.
    held["answer"].sort(key=lambda names: sum(not row.get(names[0]) for row in rows))
    used += column_roles.filled(rows, held["options"] + held["option"] + held["wrong options"])
    for role in ("id", "names of options", "answer"):
        used += column_roles.filled(rows, held[role])
    return {role: [n for n in itertools.chain(*names) if n in used] for role, names in held.items()}


def cells_of(table):
    """The cells of each row: list of dicts from name to str."""
    return [dict(zip(table.header, map(str.strip, r.cells), strict=False)) for r in table.rows]


def open_table(path):
    """Reads a table of questions with options.

    Args:
        path: str.

    Returns:
        (tables.Table, dict from `ROLES` to lists of the names of columns that are read).

    Raises:
        UserError: no column has questions or options, or as `tables.open_table`.
    """
    table = tables.open_table(path, *([name] for name in ROLES["question"]), has_header=True)
    table = _without_objects(table)
    roles, columns = _roles_of(table), f"Columns: {', '.join(table.header)}"
    if not roles["question"]:
        raise UserError(f"{path}: no column has questions: name it question. {columns}")
    if not roles["options"] + roles["option"] + roles["wrong options"]:
        raise UserError(
            f"{path}: no column has options: name them option 1, option 2, ..., or put a list into "
            f"the column options. {columns}"
        )
    return table.take(roles["question"][:1]), roles


def _without_objects(table):
    """The table with a column for each key of objects that hold options, as JSON has them."""
    rows, known = cells_of(table), column_roles.named(table.header, ROLES)
    names = known["question"] + known["options"]  # as `question.choices` may hold them too
    columns = {name: _objects_of([row.get(name, "") for row in rows]) for name in names}
    columns = {name: objects for name, objects in columns.items() if objects}
    if not columns:
        return table
    named = [row and row | {n: columns[n][i] for n in columns} for i, row in enumerate(rows)]
    (_, header), *found = tables.of_objects(enumerate(named), table.path)
    rows = [row._replace(cells=cells) for row, (_, cells) in zip(table.rows, found, strict=True)]
    return table._replace(header=header, first=header, rows=rows)


def _objects_of(cells):
    """The objects that all cells hold, {} for an empty cell: list of dicts; else []."""
    found = []
    if {cell[:1] + cell[-1:] for cell in cells} - {""} == {"{}"}:
        with contextlib.suppress(UserError):
            found = [next(iter(label_lists.values_of(cell)), {}) for cell in cells]
    return found if all(isinstance(value, dict) for value in found) else []


def described(path):
    """The columns of a table, what they hold, and which are not read: str."""
    table, roles = open_table(path)
    roles |= {"not used": [n for n in table.header if n not in itertools.chain(*roles.values())]}
    parts = [f"{role}: {', '.join(names)}" for role, names in roles.items() if names]
    return "; ".join([str(table), *parts])


# === Rows ===


def passages(path, with_answers=True, like=None):
    """Yields (file and line, passage) of each row of a table, in the form of RACE.

    A row has one question, or lists of questions, options and answers, as a line of RACE. A passage
    that is a list of texts, such as the turns of a dialogue, is joined by spaces.

    Args:
        path: str.
        with_answers: bool, whether answers are read.
        like: str or None, the table of a training, which tells what answers mean if this one
            leaves it open.
    """
    found = [*_rows(path)]
    letters = iter(_letters_of(_asked(found), like) if with_answers else [])
    for place, passage, readings in found:
        answers = [reading and next(letters) for reading in readings] if with_answers else []
        yield place, passage | ({"answers": answers} if any(answers) else {})


def _rows(path):
    """Yields (file and line, passage without answers, list of Reading or None) of each row."""
    table, roles = open_table(path)
    passage = rf"({'|'.join(ROLES['passage'])})\..*"
    parts = [name for name in table.header if re.fullmatch(passage, name.lower())]
    if parts and not roles["passage"]:
        raise UserError(f"{path}: the passage is an object with {', '.join(parts)}: write a text")
    names = [*option_columns(table.header).values()]
    for number, (row, named) in enumerate(zip(table.rows, cells_of(table), strict=True)):
        by_role = {role: [named.get(name, "") for name in roles[role]] for role in roles}
        with about(row.place):
            passage = {"id": _first(by_role["id"]) or str(number)}
            passage["article"] = _joined("passage", _first(by_role["passage"]))
            passage["questions"], passage["options"], readings = _questions_in(by_role, names)
        yield row.place, passage, [found and found._replace(row=row.place) for found in readings]


def _first(cells):
    return next(filter(None, cells), "")


def _questions_in(cells, names):
    """The questions of a row, the options of each, and what is read of each answer: three lists.

    Args:
        cells: dict from role to list of str.
        names: list of str, those of options that have a column each.
    """
    question, listed, answer = (_first(cells[role]) for role in ("question", "options", "answer"))
    if listed:
        if not _LIST.fullmatch(listed):
            raise UserError(
                f"the options are no list: {reprlib.repr(listed)}. Write them as a list, such as "
                '["red", "green"], or in a column each: option 1, option 2, ...'
            )
        items = label_lists.values_of(listed)
        if TEXT_LIST.fullmatch(question) and all(isinstance(item, list) for item in items):
            return _of_lists(label_lists.values_of(question), items, label_lists.items_of(answer))
        options, names = _texts_of(items)
        names = label_lists.items_of(_first(cells["names of options"])) or names
    elif any(wrong := cells["wrong options"]):
        if not answer:
            raise UserError("there are wrong options, but no answer: write it in the column answer")
        is_list = len(wrong) == 1 and _LIST.fullmatch(*wrong)
        wrong = label_lists.items_of(*wrong) if is_list else wrong
        options = names = sorted({answer, *wrong} - {""})
    else:
        options = cells["option"]
    while options and not options[-1]:  # the question has fewer than others
        options.pop()
    answer = answer if answer in options else _joined("answer", answer)
    return [question], [options], [_reading(answer, options, names)]


def _of_lists(questions, options, answers):
    """As `_questions_in`, of a row like those of RACE."""
    if len(questions) != len(options) or len(answers) not in (0, len(questions)):
        counts = ", ".join(str(len(items)) for items in (questions, options, answers))
        raise UserError(f"questions, lists of options and answers are not equally many: {counts}")
    options, names = zip(*map(_texts_of, options), strict=True)
    answers = answers or [""] * len(questions)
    return questions, [*options], [*map(_reading, answers, options, names)]


def _joined(what, cell):
    """A passage or answer that is a list of texts, as one text; another stays as it is."""
    items = label_lists.values_of(cell) if TEXT_LIST.fullmatch(cell) else [cell]
    other = next((item for item in items if not isinstance(item, str)), None)
    if other is not None:
        raise UserError(f"the {what} is a list with {reprlib.repr(other)}: write a list of texts")
    return " ".join(items)


def _texts_of(items):
    """The texts of options, and the names of those that are objects: two lists of str."""
    names = [label_lists.part(item, _NAME_KEYS, "") for item in items if isinstance(item, dict)]
    texts = [label_lists.part(item, _TEXT_KEYS, item) for item in items]
    other = next((text for text in texts if isinstance(text, list | dict)), None)
    if other is not None:
        raise UserError(f"an option is {reprlib.repr(other)}: write each option as a text")
    return [[tables.cell(item).strip() for item in values] for values in (texts, names)]


# === Answers ===


def _reading(answer, options, names):
    """The Reading of an answer; None if it is missing.

    An answer such as "B. red" has to fit in both parts.

    Args:
        answer: str.
        options: list of str.
        names: list of str, what the options are called; empty if that is not known.
    """
    folded, count = [*map(tables.folded, options)], len(options)
    is_none = label_lists.are_stand_ins([answer]) or label_lists.is_missing(answer)
    if is_none and tables.folded(answer) not in folded:
        return None
    match = None if answer in options else _SAID.fullmatch(answer)
    said, rest = match.groups() if match else (answer, None)
    name = _place([*map(_key, names[:count])], _key(answer), _key(said))
    text = _place(options, answer, said)
    if text is None and len(answer) > 1:  # one letter is rather that of an option
        text = _place(folded, tables.folded(answer))
    letter = _place([*LETTERS[:count]], tables.folded(said).upper()) if name is None else name
    from_0, from_1 = (_place([*map(str, range(n, n + count))], tables.whole(said)) for n in (0, 1))
    places = name, text, letter, from_0, from_1
    fits = [n is not None and (not rest or folded[n] == tables.folded(rest)) for n in places]
    return Reading(answer, [n if fit else None for n, fit in zip(places, fits, strict=True)])


def _key(text):
    """What is compared of the name of an option."""
    return tables.whole(text) or column_roles.plain(text) or text


def _place(items, *wanted):
    """The place of the first wanted item that a list has once: int, or None."""
    return next((items.index(item) for item in wanted if items.count(item) == 1), None)


def _fitting(asked):
    """The ways to read answers by which each is an option: dict from their number to places."""
    ways = enumerate(zip(*(reading.places for reading in asked), strict=True))
    return {way: places for way, places in ways if None not in places}


def _read(reading, ways):
    """The options that an answer may mean by some ways to read it: set of int."""
    return {reading.places[way] for way in ways} - {None}


def _asked(found):
    """The Readings of all answers of `_rows` that are not missing."""
    return [reading for *_, readings in found for reading in readings if reading]


def _letters_of(asked, like):
    """The letters of the options that answers mean: list of str.

    All answers of a file are read in the same way. Where no way fits all, some may be letters and
    others texts; an answer that is neither stays as it is.

    Raises:
        UserError: it cannot be seen what an answer means, or most are numbers or names of options
            and one is not.
    """
    fitting = _fitting(asked)
    if like and len({*fitting.values()}) > 1:
        there = _fitting(_asked(_rows(like)))
        fitting = {way: places for way, places in fitting.items() if way in there} or fitting
    first, *others = fitting.values() or [None]
    ways, letters = [*fitting], []
    ways = ways or max(_PERHAPS, key=lambda ways: sum(bool(_read(each, ways)) for each in asked))
    if _NAME in fitting or first in others:  # names come first, and so do texts that are confirmed
        ways = ways[:1]
    for reading in asked:
        found = _read(reading, ways)
        if not found and _TEXT not in ways:
            raise UserError(
                f"{reading.row}: the answer {reading.answer!r} is not the number or name of an "
                "option, as most answers are: correct it"
            )
        if len(found) > 1:
            raise UserError(
                f"{reading.row}: the answer {reading.answer!r} may stand for several options: "
                "write all as letters (A, B, ...) or, if options are letters, as numbers from 0"
            )
        letters += [LETTERS[n : n + 1] for n in found] or [reading.answer]
    return letters
