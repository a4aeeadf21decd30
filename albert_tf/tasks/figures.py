# SPDX-License-Identifier: Apache-2.0
"""What several tasks make of outputs: losses, and a sign of failed training."""

import numpy as np
import scipy.special


def cross_entropy(logits, labels):
    """Cross-entropy of each row: logits [n, C], label ids int [n] -> float64 [n]."""
    log_probabilities = scipy.special.log_softmax(np.asarray(logits, np.float64), axis=-1)
    return -log_probabilities[np.arange(len(labels)), labels]


def mean_over_batches(losses, batch_size, weights=None):
    """`loss` of the original's results: the mean of the batches' means, the last one's included.

    Args:
        losses: array [n]; sums, where an example has several.
        batch_size: int.
        weights: array [n], how many losses each example has; None for one each.

    Returns:
        float.
    """
    starts = np.arange(0, len(losses), batch_size)
    sizes = np.add.reduceat(np.ones(len(losses)) if weights is None else weights, starts)
    return float(np.mean(np.add.reduceat(losses, starts) / sizes))


def collapse_warning(labels, logits):
    """A warning if all examples are given the same class, as a model does that has not learnt.

    Args:
        labels: sequence of C str, or None in regression, where there is nothing to warn of.
        logits: array [n, C].

    Returns:
        str or None.
    """
    if labels is None or len(logits) < 2:
        return None
    found = set(np.argmax(logits, axis=-1).tolist())
    if len(found) > 1:
        return None
    return (
        f"all {len(logits)} examples are predicted to be {labels[found.pop()]!r}: the model has "
        "probably not learnt; try a lower --learning_rate, a longer --warmup_step or another --seed"
    )
