# SPDX-License-Identifier: Apache-2.0
"""How many tokens to mask, both when writing and when reading (paper, section 4.1)."""

import numpy as np


def num_to_predict(length, settings):
    """Tokens to mask in sequences. Halves go to even, as in the original.

    Args:
        length: int or int array, tokens of the sequences, specials counted.
        settings: options.Instances.
    """
    wanted = np.rint(np.asarray(length) * settings.masked_lm_prob).astype(np.int64)
    return np.clip(wanted, 1, settings.max_predictions_per_seq)


def length_cdf(settings):
    """Distribution function of n-gram lengths, float array: p(n) ~ 1/n, or reversed.

    Args:
        settings: options.Instances.
    """
    weights = 1.0 / np.arange(1, settings.ngram + 1)
    cdf = np.cumsum(weights if settings.favor_shorter_ngram else weights[::-1])
    return cdf / cdf[-1]
