# SPDX-License-Identifier: Apache-2.0
"""Reads examples for predict.py from lines of JSON or columns."""

import codecs
import contextlib
import difflib
import itertools
import re
import reprlib
import sys
import types
from collections.abc import Callable, Mapping
from typing import NamedTuple

from albert_tf import options
from albert_tf.errors import UserError, check_json, parse_json
from albert_tf.tasks import label_lists, question_tables, tables
from albert_tf.tasks.squad import questions as squad_questions

INPUTS = tuple(  # in this order
    field.name
    for field in options.options_of(options.Examples)
    if field.metadata["read_by"] == options.NO_QUERY
)
OUTPUTS = (  # in the order of an output line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "probability",
    "no_answer_score", "threshold", "words", "labels", "scores",
)  # fmt: skip
# A key at least this similar to an input is misspelt: text_pairs is, question_id is not.
CLOSE = 0.85


class Model(NamedTuple):
    """A model with its inputs and outputs.

    Attributes:
        inputs: tuple of str, those of INPUTS that the model takes.
        outputs: tuple of str, keys of a prediction.
        predict: callable that takes a list of dicts of inputs and gives as many dicts of values
            for JSON; None if the caller computes them.
        optional: tuple of those of `inputs` that an example may lack.
        num_options: int, the most options of a question; None if there are none.
        fewest_options: int, options that a question needs; None if there are none.
        is_of_words: bool, whether the model labels the words of a text.
        of_training: dict of the flags of the training, some of which tell how its files are read.
        header: sequence of str, the names of the columns of the training file.
        trained_on: str, the path of the training file; "" if it is unknown.
        labels: sequence of str, the classes of the model, by which its files are known; empty if
            there are none, or they are unknown.
        may_be_empty: tuple of those of `inputs` that may have no visible character.
    """

    inputs: tuple
    outputs: tuple
    predict: Callable | None
    optional: tuple = ()
    num_options: int | None = None
    fewest_options: int | None = None
    is_of_words: bool = False
    labels: tuple = ()
    of_training: Mapping = types.MappingProxyType({})
    header: tuple = ()
    trained_on: str = ""
    may_be_empty: tuple = ("text_pair", "article")

    @property
    def columns(self):
        """Names of the columns of a file without a header: list of str."""
        texts = [name for name in self.inputs if name != "options"]
        return texts + self.option_columns

    @property
    def option_columns(self):
        """Names of the columns for the options of a question: list of str."""
        return [f"option {i + 1}" for i in range(self.num_options or 0)]

    @property
    def required(self):
        """Those of the columns that every example needs: list of str."""
        optional = [*self.optional, *self.option_columns[self.fewest_options :]]
        return [name for name in self.columns if name not in optional]

    @property
    def trained_columns(self):
        """The columns that the training read: dict from input to a name (str) or number (int)."""
        return tables.trained_columns(self.inputs, self.of_training, self.is_of_words)

    @property
    def is_of_texts(self):
        """Whether it takes a text or two, whose columns flags may name (bool)."""
        return {*self.inputs} <= {"text", "text_pair"}

    @property
    def takes(self):
        """A clause of messages."""
        return f"this model takes {', '.join(self.inputs)}"


class Example(NamedTuple):
    """An example.

    Attributes:
        inputs: dict, those of the model.
        others: dict, other keys, which the output repeats.
        place: str, file and line, or flags, for messages.
    """

    inputs: dict
    others: dict
    place: str


def read(lines, name, model, columns=None, header=None, delimiter=None, num_peeked=1):
    """Yields the examples of a file.

    Args:
        lines: iterable of bytes.
        name: str, name of the file, for messages.
        model: Model.
        columns: dict of text, text_pair and id -> their column: str, a name in the first line, or a
            number from 0; None or empty for the columns with the names of the inputs, or all
            columns in order.
        header: bool, whether the first line names the columns; by default it does if it names
            every input of the model, if columns are given and it numbers them, or if it has the
            names that the columns of the training have.
        delimiter: str or None, the separator of columns; by default it is recognised, and what has
            no columns is a text.
        num_peeked: int, lines that are read ahead to recognise it.

    Yields:
        Example; None for a blank line.

    Raises:
        UserError: there is no example, an input is missing, or a line is not an example.
    """
    given = {key: tables.column_of(column) for key, column in (columns or {}).items()}
    lines, peeked = _peek(lines, num_peeked)
    if _is_json_value(peeked, name, model, num_peeked):
        content = b"".join(lines)
        keys = {*model.inputs, *model.trained_columns.values()}
        lines = tables.json_lines(content, name, keys) or content.splitlines(keepends=True)
        lines, peeked = _peek(lines, num_peeked)
    separator = tables.parse_delimiter(delimiter)
    if peeked[0].lstrip().startswith(b"{") and not delimiter:
        columns, nulls = _keys(peeked, name, model, given, header)
        yield from _of_lines(lines, name, model, tables.TABS, columns, nulls)
        return
    columns, how = _columns(peeked, name, model, given, header, separator)
    if columns:
        copies = not given and _are_usual(columns)
        yield from _of_table(lines, name, model, columns, copies, how)
    else:
        form = _form_in_order(peeked, name, model, header, separator)
        yield from _of_lines(lines, name, model, form, {}, {})


def _form_in_order(lines, name, model, header, separator):
    """The tables.Form of a file with the inputs in order; warns of a line that may be a header."""
    any_of = [model.required] if name.endswith(".csv") else [model.required, ()]
    is_tabbed, start = b"\t" in lines[0] or name.endswith(".tsv"), b"".join(lines)
    form = tables.find_form(start, name, any_of, separator, quoted_tabs=is_tabbed)
    if form not in (tables.TABS, tables.CSV):
        print(f"{name} is read with {form}", file=sys.stderr)
    first, *others = (x.decode(errors="replace").split(form.separator) for x in lines)
    if header is None:
        _warn_of_header(name, first, others)
    return form


def _warn_of_header(name, first, others):
    """Warns if the first row of a file (list of str) may have the names of columns."""
    if tables.may_be_names(first, others):
        print(
            f"Warning: {name}, line 1 may be a header: then give --header, or --text_column",
            file=sys.stderr,
        )


def _of_lines(lines, name, model, form, columns, nulls):
    """Yields the example of each line, and None for a blank one.

    Args:
        lines: iterable of bytes.
        name: str, of the file.
        model: Model.
        form: tables.Form of the lines that are no JSON objects; these have the inputs in order.
        columns: dict of key -> key of JSON objects; empty if these have the inputs.
        nulls: dict, as of `_keys`.
    """
    is_empty = True
    for number, row in tables.rows(lines, name, form):
        place = f"{name}, line {number}"
        if not any(cell.strip() for cell in row):
            yield None
            continue
        is_empty = False
        if form.separator == "\t" and row[0].lstrip().startswith("{"):
            found = _of_object("\t".join(row), model, columns, nulls, place)
        else:
            found = _in_order(row, model, form, place)
        yield example_of(found, model, place)
    if is_empty:
        raise UserError(f"{name} holds no example: give one on each line, or one by flags")


def _candidates(model, given):
    """The `tables.candidates` of a model; where flags give the text, those of flags alone."""
    if "text" in given:
        return [given] if tables.names_in(given.values()) else []
    return tables.candidates(model.required, model.trained_columns, model.header, given)


def _are_usual(columns):
    """Whether the columns have the names of the inputs, so that others are copied (bool)."""
    return all(key == tables.folded(str(column)) for key, column in columns.items())


def _keys(lines, name, model, given, header):
    """The keys of JSON objects that flags, the training or else the inputs name.

    Args:
        lines: list of bytes, the first ones of the file.
        name: str, of the file.
        model: Model.
        given: dict of key -> column, by flags.
        header: bool or None, as of `read`.

    Returns:
        (dict of key -> key of the objects, empty if these have the inputs; dict from each key that
        only some of the objects have to None, as it is null in the others, as in a training).
    """
    keys = set()
    for line in (line for line in lines if line.strip()[:1] == b"{"):
        with contextlib.suppress(UserError):  # `_of_object` names the line
            keys |= {*tables.flat(parse_json(line, name))}
    candidates = _candidates(model, given)
    columns, _ = tables.first_in(candidates, sorted(keys))
    columns = columns or (given and next(iter(candidates), given))
    if not given and all(key == column for key, column in columns.items()):
        columns = {}
    if columns:
        _check_columns(columns, model, header)
    wanted = (columns or {key: key for key in model.required}).items()
    return columns, {c: None for key, c in wanted if key in model.may_be_empty and c in keys}


def _columns(lines, name, model, given, header, separator):
    """The columns of a table that flags, the training or else the inputs name.

    The arguments are those of `_keys`, and `separator`, that of the columns by flags (str or None).

    Returns:
        (dict of key -> column, empty if each line is an example; dict of arguments of
        `tables.open_table`).

    Raises:
        UserError: the header lacks a column, or the training read text_pair before text, and the
            file has no other columns.
    """
    candidates = _candidates(model, given)
    sets = [*([*columns.values()] for columns in candidates), ()]
    of_training = separator or tables.parse_delimiter(model.of_training.get("delimiter"))
    for mark in dict.fromkeys((of_training, separator)):
        how = {"has_header": header, "delimiter": mark}
        table = tables.open_table(name, *sets, start=lines, **how)
        columns, is_usual = tables.first_in(candidates, table.header or ())
        if columns:
            break
    else:
        columns = given
        if "text" not in given and _are_of_training(lines, name, model, of_training):
            header = model.of_training.get("header") if header is None else header
            if header is None and table.header is None:
                header = _is_header(table, model) or None
            columns = model.trained_columns | given
            how = {"has_header": header, "delimiter": of_training}
    if columns and (given or not is_usual):
        _check_columns(columns, model, header)
    elif columns or header:
        place, keys = f"{name}, line {table.left_out + 1}", {c: key for key, c in columns.items()}
        _check_header([keys.get(c.strip(), c.strip()) for c in table.first], model, place)
    return columns, how


def _of_table(lines, name, model, columns, copies, how):
    """Yields the examples of a table, and None for each row without content.

    Args:
        lines: iterable of bytes.
        name: str, of the file.
        model: Model.
        columns: dict of key -> column.
        copies: bool, whether other columns are copied to the prediction.
        how: dict of arguments of `tables.open_table`.
    """
    sets = [[*columns.values()]]
    if not any(columns.values()):  # the first column of plain texts
        sets.append(())
    table = tables.open_table(name, *sets, lines=lines, **how)
    print(f"{name} is read with {table.form}: {_shown(columns)}", file=sys.stderr)
    if not tables.names_in(sets[0]):  # a longer row has the columns too
        table = table._replace(is_own=False)
    table = table.take(sets[0], keep_blank=True)
    of_texts = [key for key in ("text", "text_pair") if key in columns and len(table.first) > 1]
    for key in of_texts:
        labels = model.labels if key == "text" else ()
        if fault := tables.fault_of_texts(table, columns[key], sets[0], labels):
            raise UserError(f"{name}: column {columns[key]!r} {fault} give another --{key}_column")
    yield from [None] * table.left_out
    for row in table.rows:
        if not any(map(str.strip, row.cells)):
            yield None
            continue
        others = zip(table.header, row.cells, strict=False) if copies else ()
        left_out = {*model.outputs, *columns.values()}
        found = {key: cell for key, cell in others if key not in left_out}
        found |= dict(zip(columns, row.values, strict=True))
        yield example_of(_with_option_list(found, model), model, row.place)


def _with_option_list(example, model):
    """An example whose options are a list, in place of columns."""
    if "options" not in model.inputs:
        return example
    options = [example.pop(name, "") for name in model.option_columns]
    while len(options) > model.fewest_options and not options[-1]:
        options.pop()
    return example | {"options": options}


def _shown(columns):
    return ", ".join(f"{key} in column {column!r}" for key, column in columns.items())


def _is_json_value(lines, name, model, num_peeked):
    """Whether a file is one JSON value with many examples, and not an example on each line."""
    start = lines[0].strip()
    if start[:1] != b"{":
        return start[:1] == b"["
    if start[-1:] != b"}":
        return True
    return name.endswith(".json") and len(lines) == 1 < num_peeked and not model.is_of_words


def of_flags(typed, model):
    """Yields the examples that flags give, like `read`.

    Args:
        typed: dict from input to its value, or to the list of values of a flag that is repeated. A
            flag that is given once is used for all examples.
        model: Model.
    """
    place = ", ".join(f"--{name}" for name in typed)
    lists = {name: v for name, v in typed.items() if isinstance(v, list) and name != "options"}
    counts = {name: len(values) for name, values in lists.items() if len(values) > 1}
    if len({*counts.values()}) > 1 or (counts and "options" in typed):
        received = ", ".join(f"{len(values)} times --{name}" for name, values in lists.items())
        raise UserError(
            f"give each flag equally often, and those of --options once. Received: {received}"
        )
    for number in range(max(counts.values(), default=1)):
        given = {name: values[number if name in counts else 0] for name, values in lists.items()}
        yield example_of(typed | given, model, place)


def sentences(path, model, columns):
    """The sentences of a file with one word on each line, for a model that labels words.

    Args:
        path: str.
        model: Model.
        columns: dict, as of `read`.

    Returns:
        list as `read` yields; None if the file has texts, or JSON objects.
    """
    from albert_tf.corpus import unpacking
    from albert_tf.tasks import word_files

    _, peeked = _peek(unpacking.lines(path), 1)
    if peeked[0].lstrip().startswith((b"{", b"[")):
        return None
    given, of_training = tables.column_of(columns.get("text")), model.of_training
    known = model.trained_columns.get("text"), tables.column_of(of_training.get("label_column"))
    wanted, label = known if given is None else (given, None)
    has_tabs = any(name.endswith(".tsv") for name in (path, model.trained_on))
    form = word_files.Form(model.header, has_tabs=has_tabs)
    found = word_files.read_words(path, labels=model.labels, form=form)
    (probe,) = model.predict([{"text": "一二"}])  # its words may be single characters
    longest = 1 if len(probe.get("words", ())) > 1 else word_files.LONGEST
    names = {*found.rows[0], *found.header}
    is_named = wanted in names and wanted == of_training.get("text_column")
    if not (is_named or word_files.are_words(found, given, label, model.labels, longest)):
        print(f"{path}: each line is a text; for words, name the file .conll", file=sys.stderr)
        return None
    there = {given, *names, *range(found.form.width)} - {None}
    if wanted in there:
        columns = word_files.Columns(wanted, label if label in there else None)
        again = word_files.read_words(path, columns, model.labels, form)
        # If the words are labels, the training had other columns than this file.
        if given is not None or not tables.are_labels([w.text for w in again.words], model.labels):
            found = again
    print(f"{path} is read with a word on each line, in {len(found)} sentences", file=sys.stderr)
    return [example_of({"text": [w.text for w in words]}, model, words[0].place) for words in found]


def questions(path, model):
    """The questions of a file like that of a training: of SQuAD, or a table with options.

    Args:
        path: str.
        model: Model.

    Returns:
        list as `read` yields; None if the file has lines for `read`.
    """
    found = _of_squad(path, model) if "context" in model.inputs else _with_options(path, model)
    if found is None:
        return None
    print(f"{path} is read as the files of a training", file=sys.stderr)
    if "article" in model.inputs:
        model = model._replace(optional=("article",))
    return [example_of(example, model, place) for place, example in found]


def _of_squad(path, model):
    """(place, example) of each question of a file that `squad.questions` reads; or None.

    None too if `read` takes the keys as they are, or says what is wrong.
    """
    asked = {*model.inputs}
    try:
        rows = squad_questions.rows(path)
        known = {*itertools.chain(*squad_questions.renamed(rows, path))}
    except UserError:
        return None
    keys = {*itertools.chain(*rows)}
    is_usual = asked <= keys and keys - asked == {*_copied(dict.fromkeys(keys), (), model)}
    if is_usual or not (asked <= known or known & {"qas", "paragraphs"}):
        return None
    found = []
    for place, context, qa in squad_questions.entries(path, rows):
        inputs = {"id": qa["id"], "question": qa.get("question"), "context": context}
        found.append((place, _copied(qa["others"], (), model) | inputs))
    return found


def _with_options(path, model):
    """(place, example) of each row of a table of questions with options; or None.

    None too if `read` takes all of its columns as they are: it copies the others to the output.
    """
    try:
        table, roles = question_tables.open_table(path)
    except UserError:  # "question" may be a word of a first example
        return None
    used = {*itertools.chain(*roles.values())}
    options_ = model.option_columns if table.form.separator else ["options"]
    usual = {"id", "article", "question", *options_}
    if "article" in used and used <= usual:
        rows = question_tables.cells_of(table)
        is_list = any(question_tables.TEXT_LIST.fullmatch(row.get("article", "")) for row in rows)
        if not is_list and not any(row.get("options", "").startswith('[{"') for row in rows):
            return None
    rows = zip(
        question_tables.passages(path, with_answers=False),
        question_tables.cells_of(table),
        strict=True,
    )
    found = []
    for (place, passage), cells in rows:
        others = _copied(cells, used, model)
        if roles["id"]:
            others["id"] = passage["id"]
        for question, texts in zip(passage["questions"], passage["options"], strict=True):
            inputs = {"article": passage["article"], "question": question, "options": texts}
            found.append((place, others | inputs))
    return found


def _copied(found, used, model):
    """Those of some keys and values that go to the output: not used, and no key of an example."""
    copied = {}
    for name, value in found.items():
        with contextlib.suppress(UserError):
            _check_key(name, model, "")
            if name not in {*used, *model.inputs}:
                copied[name] = value
    return copied


def _are_of_training(lines, name, model, separator):
    """Whether a table has the columns that the training read by number.

    Commas and the like separate columns only if labels show it: a text has commas too.

    Raises:
        UserError: the training read text_pair before text, and the file has no other columns.
    """
    known, numbers = model.trained_columns, [*model.trained_columns.values()]
    if "text" not in known or tables.names_in(numbers):
        return False
    sets = [numbers] if any(numbers) else [numbers, ()]
    form = {"has_header": False, "delimiter": separator}
    table = tables.open_table(name, *sets, start=lines, **form)
    rows, form = [[*map(str.strip, row.cells)] for row in table.rows], table.form
    first = rows[0] if rows else []
    if len(first) <= max(len(model.columns), *numbers):
        if len(first) > 1 and numbers != sorted(numbers):
            raise UserError(
                f"{name}: {len(first)} columns, but the training had {_shown(known)}: give "
                "--text_column and --text_pair_column"
            )
        return False
    label = str(model.of_training.get("label_column") or "")
    found = _have_labels(rows[:-1] or rows, model)  # perhaps the last row is cut
    has_labels = label in first or (sum(found) * 2 >= len(found) > 0 and not form.spaced)
    if has_labels or separator or form.separator == "\t" or name.endswith(".csv"):
        return True
    print(
        f"{name}: each line is a text, since column {label} holds no labels. "
        f"--delimiter={form.separator} reads columns",
        file=sys.stderr,
    )
    return False


def _is_header(table, model):
    """Whether a row with the columns of the training, given by number, is the first of a file.

    It has names of the training; or single words, and no labels where all others have some. If it
    may have other names, this is only a warning.
    """
    first, *others = ([*map(str.strip, row.cells)] for row in table.rows)
    if model.header and tables.are_among(filter(None, first), model.header):
        return True
    (is_labelled, *labelled) = _have_labels([first, *others], model) or [True]
    if labelled and all(labelled) and not is_labelled and tables.are_words(first):
        print(f"{table.path}: line 1 is taken for a header", file=sys.stderr)
        return True
    _warn_of_header(table.path, first, others)
    return False


def _have_labels(rows, model):
    """Whether rows (lists of str) have labels of the model where the training had: list of bool."""
    label = str(model.of_training.get("label_column") or "")
    numbers = [int(column) for column in tables.columns_in(label) if column.isdecimal()]
    return [
        all(n < len(row) and _may_be_label(row[n], model.labels) for n in numbers)
        for row in (rows if numbers else ())
    ]


def _may_be_label(cell, labels):
    """Whether a cell has labels of a model, a score if it has none, or a stand-in."""
    if label_lists.are_stand_ins([cell]) or cell in labels:
        return True
    if labels:
        return label_lists.is_joined(cell, {*labels})
    return bool(re.fullmatch(r"[+-]?\d+(\.\d+)?", cell))


def _peek(lines, count):
    """Returns (the lines without byte order mark, `count` of them from the first that has text)."""
    # A file without line feeds is one line: old spreadsheets end theirs in a carriage return.
    lines, blank = iter(lines), []
    first = next(lines, b"")
    lines = itertools.chain([first] if b"\n" in first else first.splitlines(True), lines)
    for line in lines:
        line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            lines = itertools.chain([line], lines)
            is_hint = re.match(rb"sep=.\r?\n", line)  # of Excel, which tells nothing alone
            is_alone = count == 1 and not is_hint  # a person may have typed no more
            found = [next(lines)] if is_alone else tables.first_lines(lines, max(count, 2))
            return itertools.chain(blank, found, lines), found
        blank.append(line)
    return blank, [b""]


def _check_columns(columns, model, header):
    """Raises UserError if the columns that flags name do not fit the model."""
    if not model.is_of_texts:
        flags = ", ".join(f"--{key}_column" for key in columns)
        raise UserError(f"{flags}: only for models of texts; {model.takes}")
    if "text_pair" in columns and "text_pair" not in model.inputs:
        raise UserError(f"--text_pair_column: {model.takes}")
    if "text_pair" in model.required and "text_pair" not in columns:
        raise UserError(f"{model.takes}: give --text_pair_column")
    if header is False and tables.names_in(columns.values()):
        raise UserError("--noheader: there are no names, so give columns by number, from 0")


def _check_header(names, model, place):
    """Raises UserError if a column is missing, appears twice, or would hide an output."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{place}: two columns are named {twice!r}")
    for name in names:
        if name not in (*model.columns, *model.outputs):  # outputs are not copied
            _check_key(name, model, place)
    missing = [name for name in model.required if name not in names]
    if missing:
        raise UserError(f"{place}: the header {', '.join(names)} lacks {', '.join(missing)}")


def _in_order(row, model, form, place):
    """A row (list of str) with the inputs in order: dict."""
    usual = model.columns
    if not len(model.required) <= len(row) <= len(usual):
        flags = ", or give --text_column" if model.is_of_texts else ""
        raise UserError(
            f"{place}: {len(row)} columns, with {form}, and not {len(usual)}: {', '.join(usual)}. "
            f"Name the columns in the first line{flags}"
        )
    return _with_option_list(dict(zip(usual, row, strict=False)), model)


def _of_object(text, model, columns, nulls, place):
    """The inputs and other keys of a JSON object (str): dict.

    If the training is known, null is no text and a number is one, as there, and the outputs of the
    model are left out; if `columns` name keys, all others are.
    """
    try:
        found = nulls | parse_json(text, place)
    except UserError as error:
        raise UserError(f"{error}. A text that begins with {{ has to stand in JSON") from error
    if columns:
        found = tables.flat(found)
        missing = [str(column) for column in columns.values() if column not in found]
        if missing:
            raise UserError(
                f"{place}: the JSON object has no key {', '.join(missing)}, but "
                f"{', '.join(found)}: give the columns as keys"
            )
        found, texts = {key: found[column] for key, column in columns.items()}, {*columns}
    elif model.of_training:
        left_out = {*model.outputs} - {*tables.WORD_LISTS}
        found = {key: value for key, value in found.items() if key not in left_out}
        texts = {*model.trained_columns.values()} & {*model.inputs}
    else:
        return found
    return {
        key: value
        if key not in texts or (key in INPUTS and isinstance(value, list | dict))
        else tables.cell(value)
        for key, value in found.items()
    }


def example_of(example, model, place):
    """Makes an Example.

    Args:
        example: dict of inputs and other keys.
        model: Model.
        place: str, location of the example, for messages.

    Raises:
        UserError: an input is missing or not text, or a key cannot be copied.
    """
    example = dict.fromkeys(model.optional, "") | example
    # Null is no text, as in a training.
    example |= {name: "" for name in model.may_be_empty if example.get(name, "") is None}
    if model.is_of_words:
        example = _with_words(example, model)
    if "context" in model.inputs:  # the gold answer is not copied over the predicted one
        example.pop("answer", None)
    for name, value in example.items():
        _check_key(name, model, place)
        check_json(name, value, place)
    missing = [name for name in model.inputs if name not in example]
    if missing:
        may_be = ", which may be empty" * ({*missing} <= {*model.may_be_empty})
        raise UserError(f"{place}: {model.takes}. Missing: {', '.join(missing)}{may_be}")
    for name in model.inputs:
        _check_input(name, example[name], model, place)
    for passage in {"context", "article"} & {*model.inputs}:
        if example[passage]:
            squad_questions.check_not_swapped(example["question"], example[passage], place)
    return Example({name: example.pop(name) for name in model.inputs}, example, place)


def _with_words(example, model):
    """An example with a list of words as its text, if it has one.

    As in the training, the words come before the text that they make up. Labels next to them are
    left out.
    """
    for key in tables.WORD_LISTS:
        words, text = example.get(key), example.get("text")
        if not isinstance(words, list) or dict in map(type, words):
            continue
        if text is None or "".join(map(str, words)).split() == ["".join(str(text).split())]:
            left_out = {key, "text", *model.outputs}
            others = {name: value for name, value in example.items() if name not in left_out}
            example = {"text": words} | others
    words = example.get("text")
    if not isinstance(words, list):
        return example
    return example | {"text": [str(x) if isinstance(x, int | float) else x for x in words]}


def _check_input(name, value, model, place):
    """Raises UserError if an input is no text that the model can read."""
    is_list = (name == "options" or model.is_of_words) and isinstance(value, list)
    texts = value if is_list else [value]
    fewest, most = model.fewest_options, model.num_options
    if not all(isinstance(text, str) for text in texts):
        raise UserError(f"{place}: {name} must be text. Received: {reprlib.repr(value)}")
    if name == "options" and not fewest <= len(texts) <= most:
        expected = f"{fewest} to {most}" if fewest < most else most
        raise UserError(f"{place}: {expected} options are expected. Received: {len(texts)}")
    may_be_empty = value == [] or name in (*model.may_be_empty, *model.optional)
    if not may_be_empty and is_blank("".join(texts)):  # RACE has empty options
        raise UserError(f"{place}: {name} has no visible character: write one. Received: {value!r}")


def is_blank(text):
    """Whether a text has no visible character (bool)."""
    return not any(c.isprintable() and not c.isspace() for c in text)


def _check_key(name, model, place):
    """Raises UserError if a key seems to be a misspelt input, or would hide an output."""
    if name in model.inputs:
        return
    if name in INPUTS:
        raise UserError(f"{place}: {model.takes}. Not taken: {name}")
    close = difflib.get_close_matches(name.lower(), INPUTS, n=1, cutoff=CLOSE)
    if close:
        raise UserError(f"{place}: {model.takes}. Is the key {name!r} meant as {close[0]}?")
    if name in model.outputs:
        flag = ", or give --text_column" if model.is_of_texts else ""
        raise UserError(f"{place}: rename or remove {name!r}, a key of predictions{flag}")
