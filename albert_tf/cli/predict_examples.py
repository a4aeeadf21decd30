# SPDX-License-Identifier: Apache-2.0
"""Examples for predict.py: lines of JSON or of columns become the inputs of a model."""

import codecs
import difflib
import json
import reprlib

from albert_tf.errors import UserError, decode, parse_json

INPUTS = ("text", "text_pair", "article", "question", "context", "options")  # in this order
# From this similarity on a key is a misspelt input: text_pairs is one, question_id is none.
CLOSE = 0.85


def read(lines, name, model, header=None):
    """Yields the examples of a file.

    Args:
        lines: iterable of bytes.
        name: str, of the file, for messages.
        model: one of `predict_models`.
        header: bool, whether the first line names the columns; None to find out: it does if every
            input of the model is named there.

    Yields:
        (dict of the model's inputs, dict of the other keys); None for a blank line.

    Raises:
        UserError: an input is missing, or a line is no example.
    """
    usual, names, is_first = _columns(model), None, True
    for number, line in enumerate(lines, start=1):
        place = f"{name}, line {number}"
        line = decode(line.removeprefix(codecs.BOM_UTF8), place).rstrip("\r\n")
        if not line:
            yield None
            continue
        if is_first and _is_header(line, usual, model, header):
            names = _header(line, usual, model, place)
        else:
            yield check(_parsed(line, model, usual, names, place), model, place)
        is_first = False


def _columns(model):
    """Names of the columns of a file without a header."""
    names = list(model.inputs)
    if "options" in names:
        names[-1:] = _option_columns(model)
    return names


def _option_columns(model):
    return [f"option {i + 1}" for i in range(model.num_options())]


def _is_header(line, usual, model, header):
    if header is None:
        return {*usual} - {*model.optional} <= {*line.split("\t")}
    return header


def _header(line, usual, model, place):
    """The names in the first line of a file.

    Raises:
        UserError: one stands there twice, or would hide an output, or an input has no column.
    """
    names = line.split("\t")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{place}: two columns are named {twice!r}")
    for name in names:
        if name not in usual:
            _check_key(name, model, place)
    missing = [name for name in usual if name not in (*names, *model.optional)]
    if missing:
        raise UserError(
            f"{place}: the header has no column {', '.join(missing)}; it has {', '.join(names)}"
        )
    return names


def _parsed(line, model, usual, names, place):
    """The keys on a line: of a JSON object, or of columns with these names, or the usual ones."""
    if line.lstrip().startswith("{"):
        try:
            return parse_json(line, place)
        except UserError as error:
            raise UserError(f"{error}. A text that begins with {{ has to stand in JSON") from error
    columns = line.split("\t")
    if names and len(columns) != len(names):
        raise UserError(f"{place}: {len(columns)} columns, but the header has {len(names)}")
    if not names and not len(usual) - len(model.optional) <= len(columns) <= len(usual):
        raise UserError(
            f"{place}: {len(usual)} columns are expected, with tabs between them: "
            f"{', '.join(usual)}. Received: {len(columns)}. A first line with these names says "
            "which columns they are"
        )
    found = dict(zip(names or usual, columns, strict=bool(names)))
    if "options" in model.inputs:
        found["options"] = [found.pop(name) for name in _option_columns(model)]
    return found


def check(example, model, place):
    """The model's inputs in an example, and its other keys.

    Args:
        example: dict.
        model: one of `predict_models`.
        place: str, where it stands, for messages.

    Returns:
        (dict of the model's inputs, dict of the other keys).

    Raises:
        UserError: an input is missing or no text, or a key cannot be copied.
    """
    if "text_pair" in model.inputs:
        example.setdefault("text_pair", "")
    for name, value in example.items():
        _check_key(name, model, place)
        _check_json(name, value, place)
    missing = [name for name in model.inputs if name not in example]
    if missing:
        raise UserError(f"{place}: {_takes(model)}. Missing: {', '.join(missing)}")
    for name in model.inputs:
        value, count = example[name], model.num_options()
        texts = value if name == "options" and isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise UserError(f"{place}: {name} is no text. Received: {reprlib.repr(value)}")
        if name == "options" and len(texts) != count:
            raise UserError(f"{place}: {count} options are expected. Received: {len(texts)}")
    return {name: example.pop(name) for name in model.inputs}, example


def _takes(model):
    return f"this model takes {', '.join(model.inputs)}"


def _check_key(name, model, place):
    """Raises UserError for a key that is meant as an input, or would hide an output."""
    if name in model.inputs:
        return
    if name in INPUTS:
        raise UserError(f"{place}: {_takes(model)}. Not taken: {name}")
    close = difflib.get_close_matches(name.lower(), INPUTS, n=1, cutoff=CLOSE)
    if close:
        raise UserError(f"{place}: {_takes(model)}. Is the key {name!r} meant as {close[0]}?")
    if name in model.outputs:
        raise UserError(
            f"{place}: other keys are copied to the prediction, which has a key {name!r} itself: "
            "rename this one"
        )


def _check_json(name, value, place):
    """Raises UserError if a key cannot be written again: lone surrogates, NaN, infinity."""
    try:
        json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        received = reprlib.repr(value)
        raise UserError(f"{place}: {name!r} is not valid Unicode. Received: {received}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{place}: {name!r} holds a number that is not finite, or is nested too deeply"
        ) from error
