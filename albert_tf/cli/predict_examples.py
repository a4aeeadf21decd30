# SPDX-License-Identifier: Apache-2.0
"""Reads examples for predict.py from lines of JSON or columns."""

import codecs
import difflib
import itertools
import json
import reprlib
import sys
from collections.abc import Callable
from typing import NamedTuple

from albert_tf.errors import UserError, parse_json

INPUTS = ("text", "text_pair", "article", "question", "context", "options")  # in this order
OUTPUTS = (  # in the order of an output line
    "label", "probabilities", "predictions", "answer", "start", "end", "score", "probability",
    "no_answer_score", "threshold", "words", "labels", "scores",
)  # fmt: skip
# A key at least this similar to an input is misspelt: text_pairs is, question_id is not.
CLOSE = 0.85
# Lower-case names of columns by which a header is recognised.
USUAL_NAMES = ("id", "idx", "index", "guid", "label", "sentence", "sentence1", "sentence2")
SEPARATORS = {"\t": "tabs", ",": "commas"}


class Model(NamedTuple):
    """A model with its inputs and outputs.

    Attributes:
        inputs: tuple of str, those of INPUTS that the model takes.
        optional: tuple of those that an example may lack.
        outputs: tuple of str, keys of a prediction.
        num_options: int, options of a question; None if there are none.
        predict: callable that takes a list of dicts of inputs and gives as many dicts of values
            for JSON.
    """

    inputs: tuple
    optional: tuple
    outputs: tuple
    num_options: int | None
    predict: Callable

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
        return [name for name in self.columns if name not in self.optional]

    @property
    def takes(self):
        """A clause of messages."""
        return f"this model takes {', '.join(self.inputs)}"


def read(lines, name, model, columns=None, header=None):
    """Yields the examples of a file.

    Args:
        lines: iterable of bytes.
        name: str, name of the file, for messages.
        model: Model.
        columns: dict of text, text_pair and id -> their column: str, a name in the first line, or a
            number from 0; None or empty for the columns with the names of the inputs, or all
            columns in order.
        header: bool, whether the first line names the columns; by default it does if it names
            every input of the model.

    Yields:
        (dict of the model's inputs, dict of the other keys, str with file and line); None for a
        blank line.

    Raises:
        UserError: there is no example, an input is missing, or a line is not an example.
    """
    from albert_tf.tasks import tables

    columns = {key: int(c) if c.isdecimal() else c for key, c in (columns or {}).items()}
    if columns:
        _check_columns(columns, model, header)
    lines, first = _first_line(lines)
    wanted = [*columns.values()] or model.required
    separator = "\t"
    if not first.lstrip().startswith(b"{"):
        separator = tables.find_separator(first, name, wanted)
    if separator == "," and not name.endswith(".csv"):
        print(f"{name} has commas between its columns: it is read as CSV", file=sys.stderr)
    names, is_first, is_empty = None, True, True
    for number, row in tables.rows(lines, name, separator):
        place = f"{name}, line {number}"
        if not row:
            yield None
        elif is_first and _is_header(row, model, columns, header, place):
            names = row
            _check_header(row, model, columns, place)
        else:
            is_empty = False
            yield check(_example(row, model, columns, names, separator, place), model, place)
        is_first &= not row
    if is_empty:
        raise UserError(f"{name} holds no example: give one on each line, or one by flags")


def _first_line(lines):
    """Returns (the lines without byte order mark, the first line that is not blank)."""
    lines, blank = iter(lines), []
    for line in lines:
        line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip(b"\r\n"):
            return itertools.chain(blank, [line], lines), line
        blank.append(line)
    return blank, b""


def _check_columns(columns, model, header):
    """Raises UserError if the columns that flags name do not fit the model."""
    if not {*model.inputs} <= {"text", "text_pair"}:
        raise UserError(f"--text_column is for models of texts; {model.takes}")
    if "text_pair" in columns and "text_pair" not in model.inputs:
        raise UserError(f"--text_pair_column: {model.takes}")
    if "text_pair" not in columns and {"text_pair"} & {*model.inputs} - {*model.optional}:
        raise UserError(f"{model.takes}: give --text_pair_column")
    if header is False and any(isinstance(column, str) for column in columns.values()):
        raise UserError("--noheader: there are no names, so give columns by number, from 0")


def _is_header(row, model, columns, header, place):
    if header is not None:
        return header
    if columns:
        return any(isinstance(column, str) for column in columns.values())
    if {*model.required} <= {*row}:
        return True
    is_json = row[0].lstrip().startswith("{")
    cells = row if len(row) > 1 or is_json else row[0].split(",")
    named = [cell for cell in cells if cell.strip().lower() in USUAL_NAMES]
    if named:
        raise UserError(
            f"{place}: {named[0]!r} seems to be the name of a column, and none is named "
            f"{model.columns[0]}: give --text_column, or --noheader if the line is an example"
        )
    if model.optional and len(row) == 2 and row[0].strip().isdecimal():
        raise UserError(
            f"{place}: the first column seems to be an id: give --text_column=1 --id_column=0, or "
            "--noheader if it is a text"
        )
    return False


def _check_header(names, model, columns, place):
    """Raises UserError if a column is missing, appears twice, or would hide an output."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{place}: two columns are named {twice!r}")
    if columns:
        wanted = [column for column in columns.values() if isinstance(column, str)]
    else:
        wanted = model.required
        for name in names:
            if name not in model.columns:
                _check_key(name, model, place)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UserError(
            f"{place}: the header has no column {', '.join(missing)}; it has {', '.join(names)}"
        )


def _example(row, model, columns, names, separator, place):
    """Converts a line to a dict: a JSON object, or columns with given or usual names."""
    if separator == "\t" and row[0].lstrip().startswith("{"):
        if columns:
            raise UserError(
                f"{place}: a line that begins with {{ is a JSON object, which has keys and no "
                "columns: leave out --text_column"
            )
        try:
            return parse_json("\t".join(row), place)
        except UserError as error:
            raise UserError(f"{error}. A text that begins with {{ has to stand in JSON") from error
    if names and len(row) != len(names):
        raise UserError(f"{place}: {len(row)} columns, but the header has {len(names)}")
    if columns:
        places = {
            key: names.index(column) if isinstance(column, str) else column
            for key, column in columns.items()
        }
        largest = max(places.values())
        if largest >= len(row):
            raise UserError(
                f"{place}: {len(row)} columns, so none has number {largest}; the first has number 0"
            )
        return {key: row[column] for key, column in places.items()}
    usual = model.columns
    if not names and not len(model.required) <= len(row) <= len(usual):
        raise UserError(
            f"{place}: {len(usual)} columns are expected, with {SEPARATORS[separator]} between "
            f"them: {', '.join(usual)}. Received: {len(row)}. A first line with these names says "
            "which columns they are"
            + (", and so does --text_column" if {*model.inputs} <= {"text", "text_pair"} else "")
        )
    found = dict(zip(names or usual, row, strict=bool(names)))
    if "options" in model.inputs:
        found["options"] = [found.pop(name) for name in model.option_columns]
    return found


def check(example, model, place):
    """Checks an example, and splits it into the model's inputs and other keys.

    Args:
        example: dict.
        model: Model.
        place: str, location of the example, for messages.

    Returns:
        (dict of the model's inputs, dict of the other keys, place).

    Raises:
        UserError: an input is missing or not text, or a key cannot be copied.
    """
    for name in model.optional:
        example.setdefault(name, "")
    for name, value in example.items():
        _check_key(name, model, place)
        check_json(name, value, place)
    missing = [name for name in model.inputs if name not in example]
    if missing:
        raise UserError(f"{place}: {model.takes}. Missing: {', '.join(missing)}")
    for name in model.inputs:
        value, count = example[name], model.num_options
        texts = value if name == "options" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{place}: {name} must be text. Received: {reprlib.repr(value)}")
        if name == "options" and len(texts) != count:
            raise UserError(f"{place}: {count} options are expected. Received: {len(texts)}")
    return {name: example.pop(name) for name in model.inputs}, example, place


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
        raise UserError(
            f"{place}: other keys are copied to the prediction, which has a key {name!r} itself: "
            "rename this one, or name the columns to read (--text_column)"
        )


def check_json(name, value, place):
    """Raises UserError if a value cannot be written as JSON: lone surrogates, NaN, infinity."""
    try:
        json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        received = reprlib.repr(value)
        raise UserError(f"{place}: {name!r} is not valid Unicode. Received: {received}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{place}: {name!r} holds a number that is not finite, or is nested too deeply"
        ) from error
