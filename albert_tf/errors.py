# SPDX-License-Identifier: Apache-2.0
"""The error for input that a user can correct, and JSON that is read with such errors."""

import json


class UserError(ValueError):
    """Input that the user can correct; the message names the flag or file, the value, the remedy.

    Scripts print it in one line. Every other exception is a defect and keeps its traceback.
    """


def parse_json(content, where):
    """The value of a JSON text.

    Args:
        content: bytes in UTF-8, or str.
        where: str, the file (and the line) that it is from, for the message.

    Raises:
        UserError: it is not UTF-8, not JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(content, parse_constant=_refuse)
    except RecursionError as error:
        raise UserError(f"{where} is not usable JSON: it is nested too deeply") from error
    except ValueError as error:  # not UTF-8, not JSON, or a number of thousands of digits
        raise UserError(f"{where} is not JSON: {error}") from error


def _refuse(constant):
    raise ValueError(f"it holds {constant}, which JSON does not know")
