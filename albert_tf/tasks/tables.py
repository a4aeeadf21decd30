# SPDX-License-Identifier: Apache-2.0
"""Tables of text: reads tab-separated and comma-separated files, and writes tab-separated ones."""

import codecs
import csv
import sys
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import UserError, decode

_TO_SPACES = str.maketrans("\t\r\n", "   ")


def read(path, columns):
    """Reads a whole file; prints a line if it is CSV and its name does not end in .csv.

    Args:
        path: str.
        columns: sequence of the needed columns: int from 0, or str for a name in the first line.

    Returns:
        (list of (number of the row's first line from 1, list of str), where a blank line is a row
        without columns; str, the separator: a tab or a comma).

    Raises:
        UserError: the file cannot be read, is empty or not UTF-8, or its quotes do not fit.
    """
    content = files.read_bytes(path).removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise UserError(f"{path} is empty; it needs one example per line")
    lines = [line + b"\n" for line in content.removesuffix(b"\n").split(b"\n")]
    separator = find_separator(lines[0], path, columns)
    if separator == "," and not path.endswith(".csv"):
        print(f"{path} has commas between its columns, so it is read as CSV")
    return list(rows(lines, path, separator)), separator


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
        cells: list of str, all columns.
        values: list of str, the requested columns.
    """

    place: str
    line: int
    number: int
    cells: list
    values: list


def read_columns(path, columns, *, has_header, keep_blank=False, skip_short=False):
    """Reads the given columns of a file.

    Args:
        path: str.
        columns: sequence of int from 0 (-1 is the last, which must not be another of them), or str
            as in the header.
        has_header: bool, whether the first row names the columns.
        keep_blank: bool, whether a blank row counts as empty columns; otherwise it is left out.
        skip_short: bool, whether a row that lacks columns is left out; otherwise it is an error.

    Returns:
        (list of str, the first row; list of Row; int, number of rows left out).

    Raises:
        UserError: as of `read`; or a column is missing, or there is no row.
    """
    table, separator = read(path, columns)
    header, found, left_out = table[0][1], [], 0
    columns = [_number(column, header, path) for column in columns]
    width = max(columns) + 1 - min(0, *columns)
    for number, (line, cells) in enumerate(table[has_header:], start=int(has_header)):
        if not cells and keep_blank:
            cells = [""] * width
        place = f"{path}, line {line}"
        if len(cells) >= width:
            found.append(Row(place, line, number, cells, [cells[column] for column in columns]))
        elif not cells or skip_short:
            left_out += 1
        else:
            raise UserError(
                f"{place}: {len(cells)} columns, at least {width} are expected, with "
                f"{'a comma' if separator == ',' else 'a tab'} between them"
            )
    if not found:
        raise UserError(f"{path} holds no example")
    return header, found, left_out


def _number(column, header, path):
    """Number of a column, which may be given by its name in the header."""
    if isinstance(column, int):
        return column
    if header.count(column) != 1:
        state = "two columns are named" if column in header else "no column"
        raise UserError(
            f"{path}: {state} {column!r} in its header; there are {', '.join(map(repr, header))}"
        )
    return header.index(column)


def find_separator(first_line, path, columns):
    """Finds the separator of the columns of a file.

    Args:
        first_line: bytes.
        path: str; a file whose name ends in .csv is CSV.
        columns: as of `read`. A file with another name is CSV if its first line has no tab, and
            has these columns with commas between them.

    Returns:
        str, a tab or a comma.
    """
    if path.endswith(".csv"):
        return ","
    line = first_line.decode(errors="replace").rstrip("\r\n")
    cells = _next_row(csv.reader([line.replace("\r", "")])) or []
    names = [column for column in columns if isinstance(column, str)]
    last = max((column for column in columns if isinstance(column, int)), default=0)
    has_columns = {*names} <= {*cells} and (names or last) and last < len(cells)
    return "," if has_columns and len(cells) > 1 and "\t" not in line else "\t"


def rows(lines, name, separator):
    """Yields (number of the first line from 1, list of str) of each row, as `read` returns them.

    With tabs, quotes are ordinary characters, carriage returns are dropped, and only line feeds end
    a row, as in the original. With commas, a column in quotes may hold commas, line ends and
    doubled quotes, as spreadsheets and pandas write them.

    Args:
        lines: iterable of bytes, each with its line end; without a byte order mark.
        name: str, of the file, for messages.
        separator: str, a tab or a comma.

    Raises:
        UserError: a line is not UTF-8, or its quotes do not fit.
    """
    texts = (decode(line, f"{name}, line {n}") for n, line in enumerate(lines, start=1))
    if separator == "\t":
        for number, text in enumerate(texts, start=1):
            text = text.replace("\r", "").removesuffix("\n")
            yield number, text.split("\t") if text else []
        return
    reader, number = csv.reader(texts, strict=True), 1
    try:
        while (row := _next_row(reader)) is not None:
            yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{name}, line {number}: the row is not valid CSV: {error}") from error


def _next_row(reader):
    """The next row of a csv.reader, of any length, as a list of str; None at the end."""
    limit = csv.field_size_limit(sys.maxsize)  # 131,072 characters by default
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)
