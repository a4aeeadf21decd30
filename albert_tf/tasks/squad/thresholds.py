# SPDX-License-Identifier: Apache-2.0
"""`null_score_diff_threshold.json`: the threshold of SQuAD 2.0 that an evaluation has tuned."""

import json
import os
import reprlib

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.tasks.squad import scores as squad_metrics

FILE = "null_score_diff_threshold.json"
EVEN_CHANCE = 0.0  # the no-answer logit at which an answer is as likely as none


def write(directory, threshold, tuned_on):
    """Keeps a threshold for files without answers.

    Args:
        directory: str, the run's.
        threshold: float.
        tuned_on: str, the file of questions.
    """
    content = {"null_score_diff_threshold": threshold, "tuned_on": tuned_on}
    files.write_text(os.path.join(directory, FILE), json.dumps(content, indent=2) + "\n")


def read(directory):
    """The (threshold, file it was tuned on) of a directory, or None.

    Raises:
        UserError: the file is there and holds something else.
    """
    path = os.path.join(directory, FILE)
    if not tf.io.gfile.exists(path):
        return None
    content = files.read_json(path)
    found = [
        content.get(name) if isinstance(content, dict) else None
        for name in ("null_score_diff_threshold", "tuned_on")
    ]
    if not squad_metrics.is_number(found[0]) or not isinstance(found[1], str):
        raise UserError(
            f"{path} is damaged: it must hold a finite number null_score_diff_threshold and a text "
            f"tuned_on, not {reprlib.repr(content)}. Delete it, or give --null_score_diff_threshold"
        )
    return float(found[0]), found[1]


def known(output_dir, prefixes):
    """The threshold for questions without gold answers; says where it is from.

    Args:
        output_dir: str, the run's directory, whose threshold comes first.
        prefixes: list of str, the checkpoints that predict. Where several models were tuned one by
            one, their thresholds are averaged as their scores are.

    Returns:
        float.
    """
    own = read(output_dir)
    tuned = [own] if own else [read(os.path.dirname(prefix)) for prefix in prefixes]
    if None in tuned:
        threshold, source = EVEN_CHANCE, "none was tuned: an even chance"
    else:
        threshold = float(np.mean([value for value, _ in tuned]))
        source = "tuned on " + ", ".join(dict.fromkeys(file for _, file in tuned))
    print(f"null_score_diff_threshold = {threshold} ({source})")
    return threshold
