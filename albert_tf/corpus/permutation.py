# SPDX-License-Identifier: Apache-2.0
"""A pseudo-random permutation that is evaluated per index, never stored."""

import numpy as np

_ROUNDS = 8


class IndexPermutation:
    """A permutation of the numbers from 0 to size - 1.

    A Feistel network permutes all numbers with a fixed, even number of bits. Results that are not
    below `size` go through the network again until they are.

    Args:
        size: int.
        seed_sequence: np.random.SeedSequence.
    """

    def __init__(self, size, seed_sequence):
        self._size = size
        self._half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)  # bits of a half
        self._keys = seed_sequence.generate_state(_ROUNDS, np.uint64)

    def __call__(self, places):
        """Returns the numbers at places of the permutation.

        Args:
            places: int array of numbers from 0 to size - 1.

        Returns:
            int64 array.
        """
        return self._walk(places, self._keys, is_inverse=False)

    def inverse(self, numbers):
        """Returns the places of numbers in the permutation.

        Args:
            numbers: int array of numbers from 0 to size - 1.

        Returns:
            int64 array.
        """
        return self._walk(numbers, self._keys[::-1], is_inverse=True)

    def _walk(self, values, keys, is_inverse):
        values = self._permuted(np.asarray(values).astype(np.uint64), keys, is_inverse)
        while (beyond := values >= self._size).any():
            values[beyond] = self._permuted(values[beyond], keys, is_inverse)
        return values.astype(np.int64)

    def _permuted(self, values, keys, is_inverse):
        """Output of the network; the inverse exchanges the halves of its input and output."""
        half, mask = np.uint64(self._half), np.uint64((1 << self._half) - 1)
        left, right = values >> half, values & mask
        if is_inverse:
            left, right = right, left
        for key in keys:
            left, right = right, left ^ (mixed(right + key) & mask)
        return right << half | left if is_inverse else left << half | right


def mixed(values):
    """Hashes of 64-bit numbers (uint64 array): the finaliser of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
