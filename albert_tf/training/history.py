# SPDX-License-Identifier: Apache-2.0
"""`history.csv`: the metrics of a run's training and evaluations, for plots and spreadsheets."""

import csv
import io
import os
import time

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError

FILE = "history.csv"
KEYS = ("step", "kind", "seconds")  # the first columns


class History:
    """The history of a run that trains, one row for each point at which metrics are read.

    Rows are appended one by one. A last line that is cut off because the process was killed is
    dropped. File systems such as gs:// cannot append: there, TensorFlow rewrites the file for each
    row, which is fast enough for the points of curves.

    Args:
        directory: str, the run's.
        step: int, steps made so far. Rows of later steps come from a process that was killed,
            and are removed.

    Raises:
        UserError: the file exists but is not a history.
    """

    def __init__(self, directory, step):
        self._path = os.path.join(directory, FILE)
        self._columns, rows = _read(self._path)
        rows = [row for row in rows if int(row["step"]) <= step]
        if tf.io.gfile.exists(self._path):
            self._rewrite(rows)
        before = float(rows[-1]["seconds"] or 0) if rows else 0.0  # of earlier processes
        self._start = time.monotonic() - before

    def write(self, kind, step, metrics):
        """Adds a row.

        Args:
            kind: str, "train" or "eval".
            step: int, steps made.
            metrics: dict of str -> float. Names that no row has had yet become columns.
        """
        new = [name for name in metrics if name not in self._columns]
        if new or not tf.io.gfile.exists(self._path):
            _, rows = _read(self._path)
            self._columns += new
            self._rewrite(rows)
        seconds = f"{time.monotonic() - self._start:.1f}"
        row = {name: f"{float(value):.9g}" for name, value in metrics.items()}  # exact for float32
        row |= {"step": step, "kind": kind, "seconds": seconds}
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(self._lines([row]))

    def _rewrite(self, rows):
        header = dict(zip(self._columns, self._columns, strict=True))
        files.write_text(self._path, self._lines([header, *rows]))

    def _lines(self, rows):
        text = io.StringIO()
        csv.DictWriter(text, self._columns, restval="", lineterminator="\n").writerows(rows)
        return text.getvalue()


def read(directory):
    """Reads the curves of a run.

    Args:
        directory: str.

    Returns:
        dict of kind -> dict of metric -> (list of int, the steps; list of float, the values).

    Raises:
        UserError: the directory has no history.
    """
    path = os.path.join(directory, FILE)
    if not tf.io.gfile.exists(path):
        raise UserError(f"{path} does not exist: name the --output_dir of a training")
    columns, rows = _read(path)
    curves = {}
    for row in rows:
        of_kind = curves.setdefault(row["kind"], {})
        for name in columns:
            if name not in KEYS[:2] and row[name]:
                steps, values = of_kind.setdefault(name, ([], []))
                steps.append(int(row["step"]))
                values.append(float(row[name]))
    return curves


def _read(path):
    """Reads the columns and rows of a file; returns those of an empty history if there is none.

    Returns:
        (list of str, list of dict): the values are text; an incomplete last line is left out.
    """
    text = files.read_text(path)
    lines = text[: text.rfind("\n") + 1]
    if not lines:
        return list(KEYS), []
    try:
        columns, *rows = csv.reader(io.StringIO(lines, newline=""))
        rows = [dict(zip(columns, row, strict=True)) for row in rows]
        if tuple(columns[: len(KEYS)]) != KEYS:
            raise ValueError("the first columns are others")
        for row in rows:
            np.int64(row["step"])
            int(float(row["seconds"] or 0))  # finite
            [float(value or 0) for name, value in row.items() if name not in KEYS]
    except (csv.Error, ValueError, OverflowError) as error:
        raise UserError(f"{path} is not the history of a run: delete it or move it away") from error
    return columns, rows
