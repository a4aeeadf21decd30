# SPDX-License-Identifier: Apache-2.0
"""Tables of text: reads CSV with any separator and JSON objects, and writes tab-separated files.

Importing it needs no TensorFlow, so that predict.py answers mistakes at once.
"""

import codecs
import csv
import fractions
import itertools
import json
import math
import re
import reprlib
import sys
import types
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from albert_tf.errors import UserError, check_json, decode, parse_json

SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
_UNUSUAL = {"^": "carets", "~": "tildes", "#": "number signs", ":": "colons"}  # separators too
WORD_LISTS = ("tokens", "words")  # keys or columns with a list of words in place of a text
_MOST_CELLS = 10_000_000  # of JSON objects that have few keys each, but all together many
_SAMPLE, SAMPLE_LINES = 2**20, 200  # bytes and lines that tell the separator
_CELL = re.compile(rb'("(?:[^"]|"")*+"|[^"\t\n]*+)(?:\t|\r?\n|\Z)')
_TO_SPACES = str.maketrans("\t\r\n", "   ")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"[+-]?\d{1,1000}(\.\d{0,1000})?")
_WHOLE = re.compile(r"\+?(0|-?[1-9]\d{0,999})(\.0*)?")  # pandas writes 1.0 next to an empty cell


def order(name):
    """Key that sorts labels and names: numbers by value, then others by code points.

    Args:
        name: str.
    """
    is_number = _NUMBER.fullmatch(name)
    return (0, fractions.Fraction(name.removesuffix(".")), name) if is_number else (1, 0, name)


def whole(text):
    """The digits of a whole number, also of 1.0 or +1: str, or None if the text is none."""
    match = _WHOLE.fullmatch(text)
    return match and match[1]


def number(text):
    """The number that a text is: float; nan if it is none."""
    try:
        return math.nan if "_" in text else float(text)  # Python takes 1_000
    except ValueError:
        return math.nan


def spellings(labels, known=()):
    """Spellings of labels that mean another one: dict from str to the str to use.

    A whole number is the same with and without .0, since pandas writes 1 as 1.0 beside an empty
    cell, and with and without +; so are True and true. Others, such as the versions 3.1 and 3.10,
    or 1 and 01, are not.

    Args:
        labels: iterable of str.
        known: sequence of str, which come first.
    """

    def meaning(label):
        if label.lower() in ("true", "false"):
            return label.lower()
        return whole(label) or label

    used = {}
    for label in [*known, *sorted(labels, key=lambda label: (len(label), label))]:
        used.setdefault(meaning(label), label)
    return {label: used[meaning(label)] for label in labels if label not in known}


class Form(NamedTuple):
    """How the rows of a file are written.

    Attributes:
        separator: str, between columns; "" for JSON objects.
        is_quoted: bool, whether cells may stand in quotes; otherwise quotes are ordinary.
        has_hint: bool, whether the first line is Excel's `sep=;`, which is no row.
        spaced: bool, whether a space after the separator does not belong to the next cell.
    """

    separator: str
    is_quoted: bool
    has_hint: bool = False
    spaced: bool = False

    def __str__(self):
        if not self.separator:
            return "JSON objects"
        named = (SEPARATORS | _UNUSUAL).get(self.separator, repr(self.separator))
        return f"{named} between columns" + ", cells may stand in quotes" * self.is_quoted


TABS = Form("\t", False)  # of the original
CSV = Form(",", True)


def parse_delimiter(text):
    """The separator that a flag names: str, or None if it is not given.

    Args:
        text: str or None; a character, or `tab`, `comma` or `semicolon`.

    Raises:
        UserError: it is none of these.
    """
    if not text:
        return None
    separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(text, text)
    if len(separator) != 1 or separator in '"\r\n':
        raise UserError(f"--delimiter={text} must be one character, such as ; or , or tab")
    return separator


def columns_in(text):
    """The columns in a flag, with commas between them: list of str.

    A name with a comma stands in quotes.

    Args:
        text: str or None.
    """
    found = (text or "").split(",")
    if '"' in (text or ""):
        found = next(csv.reader([text], skipinitialspace=True), [])
    return [column.strip() for column in found if column.strip()]


def column_of(given):
    """Converts a column from a flag: a number from 0 to int; a name, or None, stays."""
    return int(given) if isinstance(given, str) and given.isdecimal() else given


def names_in(columns):
    """The names among columns, which may be numbers too: list of str."""
    return [column for column in columns if isinstance(column, str)]


def _has_names(cells, any_of):
    """Whether cells (str) hold all names of one of several sets of columns, which has names."""
    return any(names and are_among(names, cells) for names in map(names_in, any_of))


def are_among(names, header):
    """Whether all of some names of columns (str) are in a header, in any case: see `number_of`."""
    return {*map(folded, names)} <= {*map(folded, header)}


def find_form(content, path, any_of, delimiter=None, quoted_tabs=True):
    """Finds out how the rows of a file are written.

    The separator is the one that gives all rows the same number of columns, and the columns that
    are needed. A comma that is always followed by a space is probably punctuation. csv.Sniffer
    cannot tell this apart.

    Args:
        content: bytes, of the file or its beginning, without byte order mark.
        path: str; if its name ends in .csv, commas come before tabs.
        any_of: sequence of sequences of columns, one of which is needed, as of `open_table`.
        delimiter: str or None, the separator if it is known.
        quoted_tabs: bool, whether cells between tabs may stand in quotes, and rows may be JSON;
            otherwise quotes are ordinary characters there.

    Returns:
        Form.
    """
    first_line = content.partition(b"\n")[0]
    if quoted_tabs and not delimiter and is_json(content, path):
        return Form("", False)
    if not quoted_tabs and b"\t" in first_line and not path.endswith(".csv"):
        return TABS
    hint = re.match(rb"sep=(.)\r?\n", content)
    hinted = hint and hint[1].decode(errors="replace")
    if hinted and delimiter in (None, hinted):
        return Form(hinted, True, has_hint=True)
    tabs = Form("\t", quoted_tabs and _has_quoted_cells(content))
    if delimiter:
        return tabs if delimiter == "\t" else Form(delimiter, True)
    forms = [tabs, *(Form(mark, True) for mark in [*SEPARATORS, *_UNUSUAL] if mark != "\t")]
    if path.endswith(".csv"):
        forms.sort(key=lambda form: form.separator != ",")
    text = content[:_SAMPLE].decode(errors="replace").replace("\r", "")
    lines = [f"{line}\n" for line in text.split("\n")[:SAMPLE_LINES]]
    found = {form: rank for form in forms if (rank := _rank(lines, form, any_of)) is not None}
    if not found:
        return forms[0]
    best = min(found, key=found.get)
    lacks_names, fit = found[best]
    if () in any_of and lacks_names and not path.endswith(".csv"):
        return tabs
    return best._replace(spaced=fit == _PUNCTUATION)


_FITS, _ONE_COLUMN, _SELDOM, _PUNCTUATION = range(4)  # how a separator fits, best first


def _rank(lines, form, any_of):
    """How well a form fits lines: (whether it lacks names, `_FITS` ...); None if it does not."""
    try:
        found = [row for _, row in rows(map(str.encode, lines), "", form, is_strict=False) if row]
    except UserError:
        return None
    if len(found) > 2:
        found.pop()  # which may be cut
    first = found[0] if found else []
    width, num_others = len(first), sum(len(row) != len(first) for row in found)
    # How many columns each set needs: two, if it has several, or up to its last number.
    needed = (max([min(len(c), 2), *(n + 1 for n in c if isinstance(n, int))]) for c in any_of)
    if width < min(needed):
        return None
    wanted = [*filter(None, map(names_in, any_of))]
    needs_names = bool(wanted) or () in any_of
    # `Text: so` may be a text.
    cells = [cell.strip() for cell in first if form.separator not in _UNUSUAL or cell.islower()]
    is_unnamed = needs_names and not _has_names(cells, any_of)
    if num_others > len(found) / 10 and (is_unnamed or not wanted):
        return None
    if width == 1:
        return is_unnamed, _ONE_COLUMN
    text, separator = "".join(lines), re.escape(form.separator)
    marks = re.findall(rf"{separator}(?= )|(?<=\d){separator}(?=\d)", text)
    if form.separator != "\t" and len(marks) == text.count(form.separator):
        return is_unnamed, _PUNCTUATION  # or a decimal comma
    return is_unnamed, _SELDOM if form.separator in _UNUSUAL else _FITS


def is_json(content, path):
    """Whether a file holds JSON objects, one a line or in a list."""
    start = content.lstrip()
    if path.endswith((".json", ".jsonl")):
        return start.startswith((b"{", b"["))
    first = start.partition(b"\n")[0].strip()
    is_object = re.match(rb'\{\s*"', first) and first.endswith(b"}")
    return bool(is_object or re.match(rb"\[\s*\{", start))


def _has_quoted_cells(content):
    """Whether tab-separated cells stand in quotes where they must, as pandas and Excel write them.

    No other cell has a quote then, and the quotes stand around cells that need them, or around all
    texts. If the lines have as many tabs as each other although there seem to be tabs or line ends
    in quotes, these are the quotes of speech that goes over several rows.
    """
    if b'"' not in content:
        return False
    cells, end = {True: [], False: []}, 0
    while end < len(content):
        match = _CELL.match(content, end)
        if not match:
            return False
        end = match.end()
        cells[match[1].startswith(b'"')].append(match[1].strip())
    cut = sum(b"\t" in cell or b"\n" in cell for cell in cells[True])
    tabs = [line.count(b"\t") for line in content.split(b"\n") if line.strip()]
    if tabs[0] and sum(count != tabs[0] for count in tabs) < cut / 2:
        return False
    needed = (b'"', b"\t", b"\n")
    others = b"\n".join(cells[False])
    return (
        any(mark in cell[1:-1] for cell in cells[True] for mark in needed)
        or all(re.fullmatch(rb"[-+.\deE]*", cell) for cell in cells[False])
        or (b"," not in others and any(b"," in cell for cell in cells[True]))
    )


def _without_comments(content, any_of):
    """Makes comments blank: lines with # that stand before a header with the names of columns."""
    named = [[name.encode() for name in names] for names in map(names_in, any_of) if names]
    lines = content.split(b"\n", SAMPLE_LINES)
    needs_header = () not in any_of
    for place, line in enumerate(lines if named else []):
        is_header = any(all(n in line for n in names) for names in named)
        if is_header or (line.strip() and not line.startswith(b"#")):
            count = place if is_header or needs_header else 0
            return b"\n".join([b""] * count + lines[count:])
    return content


def tab_separated(rows):
    """Content of a tab-separated file. Tabs and line ends in a cell, as of CSV, become spaces.

    Args:
        rows: iterable of iterables of cells, of any type.

    Returns:
        str.
    """
    lines = ("\t".join(str(cell).translate(_TO_SPACES) for cell in row) for row in rows)
    return "".join(f"{line}\n" for line in lines)


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        place: str, file and line, for messages.
        line: int, its first line from 1.
        number: int, of the row from 0, counting the header.
        cells: list of str, all columns; none in a blank row.
        values: list of str, the columns that were taken; at first all.
    """

    place: str
    line: int
    number: int
    cells: list
    values: list


class Table(NamedTuple):
    """The rows of a file.

    Attributes:
        path: str.
        form: Form.
        known: dict, as of `number_of`.
        is_own: bool, whether it is a user's own, which has no row that is longer than the first.
        header: list of str, the names of the columns; None if there are none.
        first: list of str, the first row, or the names of the columns.
        rows: list of Row.
        left_out: int, number of rows left out.
    """

    path: str
    form: Form
    known: Mapping
    is_own: bool
    header: list | None = None
    first: Sequence[str] = ()
    rows: Sequence[Row] = ()
    left_out: int = 0

    def __str__(self):
        header = f"header {reprlib.repr(self.header)[1:-1]}" if self.header else "no header"
        return f"{self.path}: {self.form}, {header}"

    def number_of(self, column):
        """Number of a column, as of `number_of`."""
        return number_of(column, self.header, self.path, self.form, self.known)

    def take(self, columns, keep_blank=False, skip_short=False):
        """The Table with the values of some columns.

        Args:
            columns: sequence of int from 0 (-1 is the last, which must not be another of them), or
                str as in the header.
            keep_blank: bool, whether a blank row counts as empty columns; otherwise it is left out.
            skip_short: bool, whether a row that lacks columns is left out; otherwise it is an
                error.

        Raises:
            UserError: a column is missing, there is no row, or a row of a user's own file repeats
                the header or is longer than the first line.
        """
        if names_in(columns) and self.header is None:
            raise UserError(f"--noheader: give the columns of {self.path} by number, from 0")
        numbers = [self.number_of(column) for column in columns]
        width = max(numbers) + 1 - min(0, *numbers)
        blank = [""] * max(width, len(self.first)) if keep_blank else []
        found = []
        for row in self.rows:
            if self.is_own:
                _check_against_first(row, self)
            cells = row.cells or blank
            if len(cells) >= width:
                if row.cells and not self.form.separator:
                    self._check_values(numbers, cells, row.place)
                found.append(row._replace(cells=cells, values=[cells[n] for n in numbers]))
            elif cells and not skip_short:
                raise self._too_short(row, width)
        if not found:
            short = f": all rows have fewer than {width} columns" * any(r.cells for r in self.rows)
            raise UserError(f"{self.path} holds no example{short}")
        return self._replace(rows=found, left_out=self.left_out + len(self.rows) - len(found))

    def _check_values(self, numbers, cells, place):
        """Raises UserError if values of a JSON object are no valid Unicode, or are objects."""
        for n in numbers:
            check_json(self.header[n], cells[n], place)
            if isinstance(cells[n], _Object):
                raise UserError(
                    f"{place}: {self.header[n]!r} is an object, but a text in other rows: write "
                    "texts in all rows"
                )

    def _too_short(self, row, width):
        """The UserError of a row that lacks columns."""
        fault, remedy = f"{row.place}: {len(row.cells)} columns", "correct the row"
        if max(map(len, [self.first, *(each.cells for each in self.rows)])) < width:
            fault += ", as in all rows"
            remedy = "columns are numbered from 0; name them in a header, add empty ones"
        return UserError(
            f"{fault}, but {width} are needed, with {self.form}: {remedy}, or give another "
            "--delimiter"
        )


def _content(path, lines, is_own):
    """The bytes of a file, or of its lines, with line feeds and without byte order marks.

    Args:
        path: str.
        lines: iterable of bytes; None to read the file.
        is_own: bool, whether it is a user's own file, as Excel may write it.

    Raises:
        UserError: the file cannot be read or is empty.
    """
    from albert_tf.corpus import unpacking

    content = unpacking.read(path) if lines is None else b"".join(lines)
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise UserError(f"{path} is empty; it needs one example per line")
    if b"\n" not in content.rstrip(b"\r\n"):  # lines of old spreadsheets end in carriage returns
        content = content.rstrip(b"\r\n").replace(b"\r", b"\n")
    if is_own:  # files that were joined have such marks between them
        content = re.sub(rb"^" + codecs.BOM_UTF8, b"", content, flags=re.MULTILINE)
    return content


def open_table(
    path,
    *any_of,
    lines=None,
    start=None,
    has_header=None,
    known=types.MappingProxyType({}),
    delimiter=None,
    is_own=True,
):
    """Reads a file with columns: separated by tabs or otherwise, CSV, or JSON objects.

    Args:
        path: str.
        *any_of: sequences of columns, as of `Table.take`, of which the file has one; they tell the
            separator and the header. An empty one stands for a file without names, in which only
            tabs separate columns, unless it is CSV.
        lines: iterable of bytes, its lines; None to read the file.
        start: list of bytes, the first lines, which tell the separator and the header. Their quotes
            need not fit, and objects of JSON are not read.
        has_header: bool, whether the first row names the columns; None to recognise it.
        known: dict from number to name, as of `number_of`. A row with the names of all columns of
            one of `any_of` is a header.
        delimiter: str or None, as of `find_form`.
        is_own: bool, whether it is a user's own file, not one of GLUE: it may be JSON, and cells
            between tabs may stand in quotes.

    Returns:
        Table, all of whose rows are there.

    Raises:
        UserError: the file cannot be read, is empty or not UTF-8, or its quotes do not fit.
    """
    content = _without_comments(_content(path, start or lines, is_own), any_of)
    form = find_form(content.lstrip(b"\r\n"), path, any_of, delimiter, quoted_tabs=is_own)
    found = Table(path, form, known, is_own)
    if start and not form.separator:
        return found
    lines = [line + b"\n" for line in content.removesuffix(b"\n").split(b"\n")]
    if form.separator:
        table = [*rows(lines, path, form, start is None)]
    else:
        table = of_objects(objects(content, path), path)
    if not table:
        raise UserError(f"{path} holds no example")
    if is_own:
        _, cells = table[0]
        if len(cells) == 1 and re.match(r"__label__\S+ +\S", cells[0]):
            raise UserError(f"{path} is written for fastText: put tabs between labels and text")
        # Spreadsheets write separators alone for rows without content.
        table = [(line, cells if any(map(str.strip, cells)) else []) for line, cells in table]
    top, may_have_names = 0, any(map(names_in, any_of))
    if may_have_names or is_own:  # elsewhere, the first line is the header even if it is blank
        top = next((place for place, (_, cells) in enumerate(table) if cells), 0)
    first = [cell.strip() for cell in table[top][1]]
    if may_have_names:
        first = _with_index(first, table[top + 1 :])
    if not form.separator:
        has_header = True
    elif has_header is None:
        named = [[known.get(column, column) for column in columns] for columns in any_of]
        has_header = all(map(names_in, any_of)) or _has_names(first, named) or is_numbering(first)
    left_out = top if has_header else 0  # nothing before a header is a row
    numbered = itertools.islice(enumerate(table[left_out:]), int(has_header), None)
    kept = [
        Row(f"{path}, line {line}", line, number, cells, cells)
        for number, (line, cells) in numbered
    ]
    header = first if has_header else None
    return found._replace(header=header, first=table[top][1], rows=kept, left_out=left_out)


def first_lines(lines, count=SAMPLE_LINES):
    """Some of the first lines, and more up to the end of a cell in quotes: list of bytes.

    Args:
        lines: iterator of bytes.
        count: int.
    """
    found, most = [*itertools.islice(lines, count)], 2 * count
    while len(found) < most and b"".join(found).count(b'"') % 2 and (line := next(lines, b"")):
        found.append(line)
    return found


def _with_index(first, table):
    """The header of a table, with "" in front if R wrote it: R does not name the row numbers."""
    filled = [cells for _, cells in table if cells]
    names = {cells[0] for cells in filled}
    are_numbers = len(names) == len(filled) and all(map(str.isdecimal, names))
    is_of_r = {*map(len, filled)} == {len(first) + 1} and are_numbers
    is_of_r &= len(names) > 2 or names <= {"1", "2"}  # which may be labels too
    # There may be separators at the ends of rows.
    return [""] * (is_of_r and any(cells[-1].strip() for cells in filled)) + first


def _check_against_first(row, table):
    """Raises UserError if a row of a user's own file repeats the header or is longer."""
    first = table.header or table.first
    if len(first) > 1 and [*map(str.strip, row.cells)] == table.header:
        raise UserError(f"{row.place}: the names of the columns are repeated: remove this line")
    if any(map(str.strip, row.cells[len(first) :])):  # pandas refuses it too
        raise UserError(
            f"{row.place}: {len(row.cells)} columns, but the first line has {len(first)}, with "
            f"{table.form}: put texts with separators in quotes, remove further columns, or give "
            "another --delimiter"
        )


def is_numbering(cells):
    """Whether a row only numbers the columns, as pandas does if they have no names.

    Args:
        cells: list of str. The first is empty in files with an index.
    """
    cells = [*cells][len(cells) > 1 and not cells[0] :]
    return cells == [str(number) for number in range(len(cells))]


def are_labels(texts, labels):
    """Whether all texts of more than two rows are labels, so that the column is the wrong one.

    Args:
        texts: list of str.
        labels: sequence of str.
    """
    return len(texts) > 2 and {*texts} <= {*labels}


def fault_of_texts(table, column, used, labels=()):
    """What shows that a column has no texts, such as "counts the rows:"; or "".

    It has labels, or numbers in order, of which some may be missing because rows were dropped, or
    ids: different single words, most with a digit, next to a column of texts that is not used.

    Args:
        table: Table.
        column: int or str.
        used: sequence of int or str, the columns of texts.
        labels: sequence of str, which the texts may be.
    """
    number, *others = map(table.number_of, (column, *used))
    texts = [row.cells[number].strip() for row in table.rows]
    numbers = [int(text) for text in texts if text.isdecimal() and len(text) < 10]
    if len(numbers) == len(texts) > 2 and numbers == sorted({*numbers}):
        return "counts the rows:"
    if isinstance(column, str):
        return ""
    if are_labels(texts, labels):
        return f"has labels, such as {texts[0]!r}:"
    names = {text for text in texts if re.fullmatch(r"[\w.:-]+", text, re.ASCII)}
    if len(names) == len(texts) > 2 and len({*filter(_DIGIT.search, names)}) * 2 > len(texts):
        for n, cells in enumerate(itertools.zip_longest(*(row.cells for row in table.rows))):
            if n not in others and len({x for x in cells if " " in (x or "")}) * 2 > len(texts):
                return f"has ids, such as {texts[0]!r}: if these are texts, name the columns, or"
    return ""


def are_words(cells):
    """Whether each cell (str) holds a single word, as the names of columns do."""
    return all(re.fullmatch(r"[^\W\d][\w.-]*", text.strip()) for text in cells)


def may_be_names(cells, others):
    """Whether a row may have the names of the columns: it has single words, and others have texts.

    Args:
        cells: list of str.
        others: list of lists of str, the cells of some other rows.
    """
    if not are_words(cells):
        return False
    longest = sorted(max([len(text.split()) for text in row], default=0) for row in others)
    return len(longest) > 1 and longest[len(longest) // 10] > 2


def folded(text):
    """A text without differences of case, width, composed characters and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def names_of(header):
    """The names of columns: dict from number to name, without empty ones and those of two columns.

    Args:
        header: sequence of str.
    """
    header = [] if is_numbering(header) else header
    return {n: name for n, name in enumerate(header) if name and header.count(name) == 1}


def number_of(column, header, path, form=None, known=types.MappingProxyType({})):
    """Number of a column, which may be given by its name in the header, in any case: int.

    Args:
        column: int or str.
        header: list of str, or None.
        path: str, for messages.
        form: Form, how the file is read, for messages.
        known: dict from number to name: columns given by number are those with these names, if the
            header has them. A number beyond the columns, such as 2019, may be a name.

    Raises:
        UserError: no column has this name, or two have.
    """
    if isinstance(column, int):
        name = known.get(column, str(column) if column >= len(header or ()) else None)
        found = _places_of(name, header or ()) if name else []
        return found[0] if len(found) == 1 else column
    found = _places_of(column, header)
    if len(found) != 1:
        state = "two columns are named" if found else "no column"
        quotes = ", and put a name with a comma in double quotes"
        remedy = quotes * any(f"{column}," in name for name in header)
        raise UserError(
            f"{path}: {state} {column!r} in its header; there are {', '.join(map(repr, header))}"
            f"{f', with {form}' if form else ''}: check --text_column, --label_column, --delimiter"
            f"{remedy}"
        )
    return found[0]


def as_in(column, header):
    """A column, whose name is as it stands in a header: int or str."""
    found = _places_of(column, header) if isinstance(column, str) else []
    return header[found[0]] if found else column


def _places_of(name, header):
    """The numbers of the columns with a name: exactly this one, or else in any case."""
    exact = [number for number, other in enumerate(header) if other == name]
    return exact or [n for n, other in enumerate(header) if folded(other) == folded(name)]


def trained_columns(inputs, flags, is_of_words):
    """The columns that a training read: dict from input to a name (str) or number (int).

    Args:
        inputs: iterable of str, those of the model.
        flags: Mapping, those of the training.
        is_of_words: bool, whether the model labels words. Then 0 is the default, for which the
            column was found.
    """
    found = {name: column_of(flags.get(f"{name}_column")) for name in inputs}
    none = (None, "", 0) if is_of_words else (None, "")
    return {name: column for name, column in found.items() if column not in none}


def candidates(required, trained, header, given=types.MappingProxyType({})):
    """Which named columns or keys may hold the inputs: list of dicts of key -> column.

    They are those that the training read, then those with the names of the inputs, each with others
    that the user gives.

    Args:
        required: sequence of str, inputs that every example needs.
        trained: dict, as of `trained_columns`.
        header: sequence of str, the names of the columns of the training file.
        given: Mapping of key -> column.
    """
    names = names_of(header)
    known = {key: names.get(column, column) for key, column in trained.items()}
    known = {key: column for key, column in known.items() if isinstance(column, str)}
    needed = {key: column for key, column in known.items() if key in required}
    usual = {key: key for key in required}
    found = (each | given for each in (known, needed, usual))
    return [each for each in found if {*required} <= {*each}]


def first_in(candidates, names):
    """The first of `candidates` all of whose names are among some names, as they stand there.

    Returns:
        (dict of key -> column, empty if there is none; bool, whether it is the last, that of usual
        names).
    """
    for found in candidates:
        if are_among(names_in(found.values()), names):
            is_last = found is candidates[-1]
            return {key: as_in(column, names) for key, column in found.items()}, is_last
    return {}, False


def of_objects(found, path):
    """The rows of `objects` as a list of `rows`; their keys, as of `flat`, are its header.

    Args:
        found: iterable of (int, dict or None), as `objects` yields.
        path: str, for messages.
    """
    found = [(n, row or {}, flat(row or {})) for n, row in found]
    keys = [*dict.fromkeys(key for *_, row in found for key in row)]
    most = 10 * max((len(row) for *_, row in found), default=0)
    if len(keys) > most and len(keys) * len(found) > _MOST_CELLS:
        raise UserError(
            f"{path}: the rows have {len(keys)} different keys, such as {keys[-1]!r}: write what "
            "differs as a value, or as words and labels, under the same keys in all rows"
        )
    table = []
    for number, row, cells in found:
        inner = {key for key, value in row.items() if isinstance(value, dict)} - {*cells}
        texts = [_Object() if key in inner else cell(cells.get(key)) for key in keys]
        table.append((number, texts if row else []))
    return [(0, keys), *table]


class _Object(str):
    """An empty cell, for an object of JSON under a key that has a text in other rows."""


def json_lines(content, path, row_keys):
    """A file that is one JSON value, a list of objects or a table of pandas, as JSON lines.

    Args:
        content: bytes.
        path: str.
        row_keys: set of str, as of `objects`.

    Returns:
        list of bytes, each with its line end; None if the first line is an object, or no JSON.
    """
    if not (is_json(content, path) and _is_one_value(content)):
        return None
    found = objects(content, path, row_keys)
    texts = (json.dumps(row, ensure_ascii=False) if row else "" for _, row in found)
    return [text.encode() + b"\n" for text in texts]


def objects(content, path, row_keys=frozenset()):
    """Yields the JSON objects of a file that are its rows, whichever way they are written.

    They stand on a line each, in a list, as a list in an object, or in any form in which pandas
    writes a table.

    Args:
        content: bytes.
        path: str; if its name ends in .jsonl, one line is one row.
        row_keys: set of str; an object with one of them is a row, or a table of columns, whatever
            lists it has.

    Yields:
        (number of the line or row from 1, dict; None for a blank line or null).

    Raises:
        UserError: the file is not JSON, a row is no object, or several lists may be the rows.
    """
    lines = content.removesuffix(b"\n").split(b"\n")
    is_line = path.endswith(".jsonl") and len(lines) == 1 and content[:1] == b"{" and not row_keys
    if _is_one_value(content) and not is_line:
        value = parse_json(content, path)
        found = _rows_of_object(value, path, row_keys) if isinstance(value, dict) else value
    else:
        found = [
            parse_json(line, f"{path}, line {n}") if line.strip() else None
            for n, line in enumerate(lines, start=1)
        ]
    for number, row in enumerate(found if isinstance(found, list) else [found], start=1):
        if not isinstance(row, dict | None):
            raise UserError(
                f"{path}, line {number}: {reprlib.repr(row)} is no JSON object: write each row as "
                "one, with the names of the columns as its keys"
            )
        yield number, row


def flat(row, start=""):
    """A JSON object without objects in it: `{"a": {"b": 1}}` has the key `a.b`, as in pandas.

    `{"choices": [...]}`, which Label Studio writes for several labels, is its list.
    """
    found = {}
    for key, value in row.items():
        if isinstance(value, dict) and value.keys() == {"choices"}:
            value = value["choices"]
        is_object = isinstance(value, dict)
        found |= flat(value, f"{start}{key}.") if is_object else {f"{start}{key}": value}
    return found


def _is_one_value(content):
    """Whether JSON is one list or one object, and not an object on each line."""
    first, _, rest = content.strip().partition(b"\n")
    return first.startswith(b"[") or not rest or not first.rstrip().endswith(b"}")


def _rows_of_object(found, path, row_keys):
    """The rows of one object, as `objects`; a list that is named `data` comes first."""
    lists = {
        key: value
        for key, value in found.items()
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    }
    is_row = not row_keys.isdisjoint(found)
    if not row_keys.isdisjoint(lists):
        return [found]
    match found:
        case {"columns": [*names], "data": [[*_], *_] as rows}:  # as pandas writes split tables
            return [dict(zip(names, row, strict=False)) for row in rows]
    if "data" in lists and not is_row:
        return lists["data"]
    columns = [*found.values()]
    are_lists = all(isinstance(column, list) for column in columns)
    if are_lists and len({*map(len, columns)}) == 1 and len(lists) < len(columns):
        return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
    if lists and not is_row:
        if len(lists) > 1:
            names = ", ".join(lists)
            raise UserError(f"{path} has lists of objects, {names}: keep the one with the rows")
        return next(iter(lists.values()))
    if all(isinstance(column, dict) for column in columns):
        if all(map(str.isdecimal, found)):
            return columns
        if all(column.keys() == columns[0].keys() for column in columns):
            return [{name: c[key] for name, c in found.items()} for key in columns[0]]
    return [found]


def cell(value):
    """A JSON value as the text of a cell; null is none."""
    if value is None:
        return ""
    is_list = isinstance(value, list)
    return json.dumps(value, ensure_ascii=False) if is_list else str(value)


def rows(lines, name, form, is_strict=True):
    """Yields (number of the first line from 1, list of str) of each row; a blank one has no cells.

    Without quotes, carriage returns are dropped, and only line feeds end a row, as in the original.
    With quotes, a cell may hold separators, line ends and doubled quotes, as spreadsheets and
    pandas write them.

    Args:
        lines: iterable of bytes, each with its line end; without a byte order mark.
        name: str, of the file, for messages.
        form: Form, not of JSON.
        is_strict: bool, whether quotes that do not fit are an error.

    Raises:
        UserError: a line is not UTF-8, or its quotes do not fit.
    """
    texts = (decode(line, f"{name}, line {n}") for n, line in enumerate(lines, start=1))
    if not form.is_quoted:
        for number, text in enumerate(texts, start=1):
            text = text.replace("\r", "").removesuffix("\n")
            yield number, text.split(form.separator) if text else []
        return
    texts = (re.sub(r"\r(?!\r*\n)", " ", text) for text in texts)  # csv refuses them outside quotes
    if form.has_hint:
        next(texts)
    number = first = 1 + form.has_hint
    given = {"strict": is_strict, "skipinitialspace": form.spaced}
    reader = csv.reader(texts, delimiter=form.separator, **given)
    try:
        while (row := _next_row(reader)) is not None:
            yield number, row
            number = reader.line_num + first
    except csv.Error as error:
        raise UserError(
            f"{name}, line {number}: the row is not valid CSV, with {form}: {error}. In quotes, "
            'write a quote as "", not as \\"; or give another --delimiter'
        ) from error


def _next_row(reader):
    """The next row of a csv.reader, of any length, as a list of str; None at the end."""
    limit = csv.field_size_limit(sys.maxsize)  # 131,072 characters by default
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)
