# SPDX-License-Identifier: Apache-2.0
"""Serialises many tf.train.Examples of a fixed schema at once, directly from arrays.

The bytes are those of `tf.train.Example.SerializeToString(deterministic=True)`.
An Example is nested messages: Features { map<name, Feature { Int64List | FloatList }> }. Every
level is a tag, a length and the content. Maps are sorted by key; no key may be a prefix of another.
"""

import functools
import itertools

import numpy as np

_INT64_LIST, _FLOAT_LIST = 0x1A, 0x12  # tags of the two kinds of lists in a Feature


def serialize(columns):
    """Serialises rows of arrays as Examples.

    Args:
        columns: dict from feature name to array [n, length], of integers, bools or float32.

    Returns:
        list of n bytes.
    """
    fields = [_fields(name, columns[name]) for name in sorted(columns)]
    return [_tagged(0x0A, b"".join(row)) for row in zip(*fields, strict=True)]


def _fields(name, values):
    """The map entries of one feature, one for each row."""
    if values.dtype.kind == "f":
        rows, width = values.astype("<f4", copy=False), 4 * values.shape[1]
        content, ends, tag = rows.tobytes(), range(0, rows.nbytes + 1, width or 1), _FLOAT_LIST
    else:
        content, ends = _varints(values.astype(np.int64, casting="same_kind", copy=False))
        tag = _INT64_LIST
    if not values.shape[1]:
        return [_head(name, tag, 0)] * len(values)
    return [
        _head(name, tag, end - start) + content[start:end]
        for start, end in itertools.pairwise(ends)
    ]


def _varints(values):
    """(bytes of all values, list of the offsets of the rows, beginning with 0 and one more)."""
    n, length = values.shape
    is_small = values.size and values.min() >= 0
    largest = values.max() if is_small else None
    if is_small and largest < 0x80:
        return values.astype(np.uint8).tobytes(), range(0, n * length + 1, length)
    # The format encodes negative numbers as large unsigned ones.
    left = values.astype(np.uint32 if is_small and largest < 2**32 else np.uint64)
    widths = np.ones(left.shape, np.uint8)
    low = [left.astype(np.uint8)]
    while (left := left >> left.dtype.type(7)).any():
        widths += left > 0
        low.append(left.astype(np.uint8))
    low = np.stack(low, axis=-1) & np.uint8(0x7F)
    places = np.arange(low.shape[-1], dtype=np.uint8)
    low |= (places + 1 < widths[..., np.newaxis]).view(np.uint8) << np.uint8(7)  # more bytes follow
    content = low[places < widths[..., np.newaxis]].tobytes()
    return content, [0, *np.cumsum(widths.sum(axis=1, dtype=np.int64)).tolist()]


@functools.lru_cache(maxsize=1 << 14)
def _head(name, tag, size):
    """The bytes before the numbers of a feature, which take `size` bytes."""
    numbers = b"\x0a" + _varint(size) if size else b""
    kind = bytes([tag]) + _varint(len(numbers) + size) + numbers
    feature = b"\x12" + _varint(len(kind) + size) + kind
    key = _tagged(0x0A, name.encode())
    return b"\x0a" + _varint(len(key) + len(feature) + size) + key + feature


def _tagged(tag, content):
    return bytes([tag]) + _varint(len(content)) + content


@functools.lru_cache(maxsize=1 << 14)
def _varint(number):
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
