# SPDX-License-Identifier: Apache-2.0
"""What all tasks but SQuAD's have in common."""

from albert_tf.training import results


class UsualTask:
    """The part of a training.task.Task that is the same for them."""

    inputs = ("input_ids", "input_mask", "segment_ids")
    shown_figures = None
    takes_head = False
    export_folder = ""
    choices = 1  # sequences of an example
    results_layout = "{first}{rest}best = {before}\n" + results.RULE
