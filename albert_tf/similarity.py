# SPDX-License-Identifier: Apache-2.0
"""Similarity of texts without fine-tuning: `python -m albert_tf.similarity MODEL STS-B/dev.tsv`."""

import argparse
import sys

import numpy as np
import scipy

from albert_tf import options
from albert_tf.api.load import load
from albert_tf.errors import UserError, exit_code
from albert_tf.tasks import glue, tables
from albert_tf.tasks.labels import labels_of


def read(path):
    """Reads a file of STS-B: pairs of texts, and how similar people find them.

    Args:
        path: str, train.tsv or dev.tsv as GLUE has them, with a header.

    Returns:
        (list of n str, list of n str, list of n float).

    Raises:
        UserError: the file cannot be read, or a score is not a number, or all are equal.
    """
    task = glue.TASKS["sts-b"]
    columns = (*task.text, *task.label)
    table = tables.open_table(path, columns, has_header=True, is_own=False).take(columns)
    scores = labels_of(task, table)
    if len({*scores}) == 1:
        raise UserError(f"{path} has only the score {scores[0]}: give pairs with several scores")
    return [row.values[0] for row in table.rows], [row.values[1] for row in table.rows], scores


def correlations(loaded, firsts, seconds, scores):
    """Spearman correlations of cosines of embeddings with scores.

    Args:
        loaded: Loaded.
        firsts: list of n str.
        seconds: list of n str.
        scores: list of n float.

    Returns:
        dict of embedding -> float: "layer 1", ... for the means of the layers' outputs over the
        pieces, and "pooled" for the pooler's output, where there is one.
    """
    found = {}
    for name in ("layers", "pooled") if loaded.has_pooler else ("layers",):
        first, second = (loaded.embed(texts, pooling=name) for texts in (firsts, seconds))
        norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
        cosines = (first * second).sum(axis=-1) / norms  # [n, L] or [n]
        for number, values in enumerate(cosines.reshape(len(scores), -1).T, 1):
            key = name if name == "pooled" else f"layer {number}"
            found[key] = float(scipy.stats.spearmanr(values, scores).statistic)
    return found


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: list of str, or None for those of the command line.

    Returns:
        int, the exit code: 1 on bad input.
    """
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.similarity",
        description="Spearman correlation of the cosines of embeddings with the scores of STS-B, "
        "for the mean of each layer and for the pooler.",
    )
    parser.add_argument("model", help="A model, as albert_tf.load takes it.")
    parser.add_argument("file", help="train.tsv or dev.tsv of STS-B.")
    return exit_code("similarity", lambda: _table(**vars(parser.parse_args(arguments))))


def _table(model, file):
    options.check_path("FILE", file)
    pairs = read(file)
    found = correlations(load(model), *pairs)
    lines = [f"{name:9} {value:7.3f}" for name, value in found.items()]
    layers = [name for name in found if name != "pooled" and np.isfinite(found[name])]
    if not layers:
        raise UserError(f"{file}: all pairs have the same cosine: give pairs of different texts")
    best = max(layers, key=found.get)
    return "\n".join([f"Spearman, {len(pairs[2])} pairs", *lines, f"best: the mean of {best}"])


if __name__ == "__main__":
    sys.exit(main())
