# SPDX-License-Identifier: Apache-2.0
"""What all tasks but SQuAD's have in common."""


class UsualTask:
    """The part of a training.task.Task that is the same for them."""

    inputs = ("input_ids", "input_mask", "segment_ids")
    shown_figures = None
    takes_head = False
    export_folder = ""
    choices = 1  # sequences of an example

    def results_end(self, best_before, value, saved):
        """The original shows the best before this evaluation."""
        return [f"best = {best_before}"]
