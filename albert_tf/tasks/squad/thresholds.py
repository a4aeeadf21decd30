# SPDX-License-Identifier: Apache-2.0
"""Which threshold holds for questions of SQuAD 2.0 without gold answers."""

import os

import numpy as np

from albert_tf.checkpoints.run_directory import RunDirectory

EVEN_CHANCE = 0.0  # the no-answer logit at which an answer is as likely as none


def known(output_dir, prefixes):
    """The threshold for questions without gold answers; says where it is from.

    Args:
        output_dir: str, the run's directory, whose threshold comes first.
        prefixes: list of str, the checkpoints that predict. Where several models were tuned one by
            one, their thresholds are averaged as their scores are.

    Returns:
        float.
    """
    own = RunDirectory(output_dir).threshold
    tuned = [own] if own else [RunDirectory(os.path.dirname(each)).threshold for each in prefixes]
    if None in tuned:
        threshold, source = EVEN_CHANCE, "none was tuned: an even chance"
    else:
        threshold = float(np.mean([each.null_score_diff_threshold for each in tuned]))
        source = "tuned on " + ", ".join(dict.fromkeys(each.tuned_on for each in tuned))
    print(f"null_score_diff_threshold = {threshold} ({source})")
    return threshold
