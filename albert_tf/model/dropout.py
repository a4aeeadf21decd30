# SPDX-License-Identifier: Apache-2.0
"""Dropout with masks determined by a key, so that a training step can be repeated exactly.

    with dropout.seeded(key):
        outputs = model(features, training=True)

The mask of each call of `dropout` is a function of the key and of the place of the call, which is
the number of calls before it. Without a key, masks come from TensorFlow's global generator.
"""

import contextlib
import math
import threading

import tensorflow as tf

_RESOLUTION = 2**16  # of a rate: 16 random bits per element, since random bits are expensive


class _Places(threading.local):  # a strategy traces each of its replicas in a thread of its own
    key = None
    count = 0


_places = _Places()


@contextlib.contextmanager
def seeded(key, place=0):
    """Context in which dropout masks are functions of a key and of their place.

    Args:
        key: int32 tensor [2], a seed of TensorFlow's stateless generators. It has to differ between
            steps, replicas and micro-batches.
        place: int, place of the first call.
    """
    before = _places.key, _places.count
    _places.key, _places.count = _positive(key), place
    try:
        yield
    finally:
        _places.key, _places.count = before


def repeatable():
    """Context like `seeded`, with a random key unless a key is already set."""
    return seeded(next_key()) if _places.key is None else contextlib.nullcontext()


def current():
    """Key and place of the next call; with them, `seeded` repeats the calls that follow."""
    return _places.key, _places.count


def next_key():
    """The key of the next place: int32 tensor [2]; a random key outside `seeded`."""
    if _places.key is None:
        return tf.random.uniform([2], 0, tf.int32.max, tf.int32)
    place = _places.count
    _places.count += 1
    return fold_in(_places.key, place)


def fold_in(key, number):
    """Derives a key (int32 tensor [2]) from a key and a number, the same with and without XLA."""
    return _positive(tf.random.experimental.stateless_fold_in(key, number))


def _positive(key):
    # XLA and TensorFlow's own kernels interpret negative seeds differently.
    return tf.bitwise.bitwise_and(key, tf.int32.max)


def keep_mask(shape, rate, key):
    """Decides which elements stay: bool tensor of a shape, true with probability 1 - rate.

    The exact probability is `kept_share(rate)`, which differs from 1 - rate by at most 2 ** -17.

    Args:
        shape: TensorShape or list of int, or int32 tensor.
        rate: float.
        key: int32 tensor [2].
    """
    size = tf.reduce_prod(shape) if tf.is_tensor(shape) else math.prod(shape)
    words = tf.random.stateless_uniform([(size + 3) // 4], key, None, None, tf.uint64)
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size]
    return tf.reshape(bits, shape) >= tf.constant(_dropped(rate), tf.uint16)


def kept_share(rate):
    """The exact probability with which `keep_mask` keeps an element (float)."""
    return 1.0 - _dropped(rate) / _RESOLUTION


def _dropped(rate):
    return min(round(rate * _RESOLUTION), _RESOLUTION - 1)


def draw(x, rate, training):
    """Draws which elements of a tensor stay: a bool tensor of its shape, or None if all stay."""
    if not training or not rate:
        return None
    shape = x.shape if x.shape.is_fully_defined() else tf.shape(x)
    return keep_mask(shape, rate, next_key())


def drop(x, keep, rate):
    """Sets elements that do not stay to 0, and scales the others by 1 / (1 - rate)."""
    if keep is None:
        return x
    # Computed in float32, since 1 / 0.9 is 0.2% smaller in bfloat16.
    scaled = tf.cast(tf.cast(x, tf.float32) * (1.0 / kept_share(rate)), x.dtype)
    return tf.where(keep, scaled, tf.zeros([], x.dtype))


def dropout(x, rate, training):
    """Sets a share `rate` of x to 0 and scales the rest by 1 / (1 - rate), only in training."""
    return drop(x, draw(x, rate, training), rate)
