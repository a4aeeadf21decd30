# SPDX-License-Identifier: Apache-2.0
"""The elementwise functions of a block, each in plain TensorFlow and compiled by XLA.

On a CPU, a plain elementwise function passes over its tensors once for each operation, and keeps
the results that its gradient needs. XLA compiles all operations of such a function into one loop,
and the gradients here compute these results again from the inputs. Matrix products are not
compiled: on CPUs, oneDNN's are faster than those of XLA.

The compiled forms are used only inside `with compiled():`, which a training step on CPUs enters,
and only for tensors of a static shape, since each new shape compiles again. The plain forms are
used on GPUs and TPUs, in predictions and exports, and in a step that XLA compiles as a whole. In
float32, the two forms differ by rounding; in bfloat16, the compiled forms compute in float32 and
round once.

Shapes:
    B batch, T sequence, N heads, D head size, R = B * T rows, C columns.
"""

import contextlib
import functools
import threading

import tensorflow as tf

from albert_tf.model import dropout

SMALLEST = 2**16  # elements of a tensor: compiling for fewer takes longer than it saves

_compile = functools.partial(tf.function, jit_compile=True, autograph=False)


class _Switch(threading.local):  # a strategy traces each of its replicas in a thread of its own
    on = False


_switch = _Switch()


@contextlib.contextmanager
def compiled(on=True):
    """Context in which the functions of this module use their compiled forms, if `on`."""
    before = _switch.on
    _switch.on = on
    try:
        yield
    finally:
        _switch.on = before


def compiles(x):
    """Whether functions of this tensor use their compiled forms here."""
    return _switch.on and x.shape.is_fully_defined() and x.shape.num_elements() >= SMALLEST


def _with_compiled(forward, backward, tensors, decides=0):
    """Decorator that adds a compiled form to a plain function; `compiles` chooses between them.

    Args:
        forward: compiled function with the same arguments.
        backward: compiled function: these arguments and the gradient of the result -> gradients of
            the first arguments.
        tensors: int, number of first arguments that have a gradient (which may be None).
        decides: int, index of the argument whose shape decides whether to compile.
    """

    def decorate(plain):
        @functools.wraps(plain)
        def either(*args):
            if not compiles(args[decides]):
                return plain(*args)
            others = args[tensors:]

            @tf.custom_gradient
            def function(*inputs):
                return forward(*inputs, *others), lambda dy: backward(*inputs, *others, dy)

            return function(*args[:tensors])

        return either

    return decorate


# --- One tensor, several uses -------------------------------------------------------------------


def copies(x, count, dtype=None):
    """Copies of a tensor for several uses; their gradients are added in float32, in one pass.

    Args:
        x: float tensor.
        count: int, number of uses.
        dtype: type of the copies; None for the type of x.

    Returns:
        list of `count` tensors.
    """
    low = tf.cast(x, dtype or x.dtype)
    if not compiles(x) or count == 1:
        return [low] * count

    @tf.custom_gradient
    def function(x):
        low = tf.cast(x, dtype or x.dtype)
        return [tf.identity(low) for _ in range(count)], lambda *parts: _total(parts, x.dtype)

    return function(x)


@_compile
def _total(parts, dtype):
    return tf.cast(sum(tf.cast(part, tf.float32) for part in parts), dtype)


# --- Bias and activation ------------------------------------------------------------------------


@_compile
def _activate(x, bias, activation):
    return tf.cast(activation(tf.cast(x, tf.float32) + bias), x.dtype)


@_compile
def _activate_back(x, bias, activation, dy):
    y = tf.cast(x, tf.float32) + bias
    with tf.GradientTape() as tape:
        tape.watch(y)
        z = activation(y)
    dx = tape.gradient(z, y, output_gradients=tf.cast(dy, tf.float32))
    return tf.cast(dx, x.dtype), tf.reduce_sum(dx, axis=0)


@_with_compiled(_activate, _activate_back, tensors=2)
def bias_activation(x, bias, activation):
    """activation(x + bias).

    Args:
        x: float tensor [R, C].
        bias: float32 tensor [C].
        activation: callable, elementwise.

    Returns:
        tensor of x's type [R, C].
    """
    return activation(tf.nn.bias_add(x, tf.cast(bias, x.dtype)))


# --- Bias, dropout, residual, layer norm --------------------------------------------------------

EPSILON = 1e-12  # of layer norms


def _moments(x):
    """Mean and variance over the last axis."""
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    return mean, tf.reduce_mean(tf.math.squared_difference(x, mean), axis=-1, keepdims=True)


def layer_norm(x, gamma, beta):
    """Layer normalisation over the last axis, float32."""
    mean, variance = _moments(x)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, EPSILON)


def _sum_of(x, bias, residual, keep, rate):
    return dropout.drop(tf.cast(x, tf.float32) + bias, keep, rate) + tf.cast(residual, tf.float32)


@_compile
def _add_norm(x, bias, residual, gamma, beta, keep=None, rate=0.0):
    y = layer_norm(_sum_of(x, bias, residual, keep, rate), gamma, beta)
    return tf.cast(y, residual.dtype)


@_compile
def _add_norm_back(x, bias, residual, gamma, beta, keep, rate, dy):
    y, dy = _sum_of(x, bias, residual, keep, rate), tf.cast(dy, tf.float32)
    mean, variance = _moments(y)
    inverse = tf.math.rsqrt(variance + EPSILON)
    normal = (y - mean) * inverse
    scaled = dy * gamma
    projection = tf.reduce_mean(scaled * normal, axis=-1, keepdims=True)
    dsum = inverse * (scaled - tf.reduce_mean(scaled, axis=-1, keepdims=True) - normal * projection)
    dx = dropout.drop(dsum, keep, rate)
    return (
        tf.cast(dx, x.dtype),
        tf.reduce_sum(dx, axis=0),
        tf.cast(dsum, residual.dtype),
        tf.reduce_sum(dy * normal, axis=0),
        tf.reduce_sum(dy, axis=0),
    )


@_with_compiled(_add_norm, _add_norm_back, tensors=5)
def add_norm(x, bias, residual, gamma, beta, keep=None, rate=0.0):
    """LayerNorm(dropout(x + bias) + residual), computed in float32.

    Args:
        x: float tensor [R, C].
        bias: float32 tensor [C].
        residual: float tensor [R, C].
        gamma: float32 tensor [C].
        beta: float32 tensor [C].
        keep: bool tensor [R, C] from `dropout.draw`, or None.
        rate: float, dropout rate.

    Returns:
        tensor of the residual's type [R, C].
    """
    x = dropout.drop(tf.nn.bias_add(x, tf.cast(bias, x.dtype)), keep, rate)
    y = layer_norm(tf.cast(x, tf.float32) + tf.cast(residual, tf.float32), gamma, beta)
    return tf.cast(y, residual.dtype)


# --- Mask, softmax, dropout ---------------------------------------------------------------------


def masked_softmax(logits, mask_adder, keep=None, rate=0.0):
    """dropout(softmax(logits + mask_adder)) over the last axis, computed in float32.

    Args:
        logits: float tensor [B, N, Q, T], of Q queries.
        mask_adder: float32 tensor [B, 1, 1, T]; it gets no gradient.
        keep: bool tensor [B, N, Q, T] from `dropout.draw`, or None.
        rate: float, dropout rate.

    Returns:
        tensor of the logits' type [B, N, Q, T].
    """
    if not compiles(logits):
        weights = tf.nn.softmax(tf.cast(logits, tf.float32) + mask_adder)
        return dropout.drop(tf.cast(weights, logits.dtype), keep, rate)

    @tf.custom_gradient
    def function(logits):
        # The gradient needs only the weights, which the product with values keeps anyway.
        weights, *dropped = _softmax(logits, mask_adder, keep, rate)
        return (dropped or [weights])[0], lambda dy: _softmax_back(weights, dy, keep, rate)

    return function(logits)


@_compile
def _softmax(logits, mask_adder, keep, rate):
    weights = tf.cast(tf.nn.softmax(tf.cast(logits, tf.float32) + mask_adder), logits.dtype)
    return [weights] if keep is None else [weights, dropout.drop(weights, keep, rate)]


@_compile
def _softmax_back(weights, dy, keep, rate):
    dweights = dropout.drop(tf.cast(dy, tf.float32), keep, rate)
    weights32 = tf.cast(weights, tf.float32)
    projection = tf.reduce_sum(dweights * weights32, axis=-1, keepdims=True)
    return tf.cast((dweights - projection) * weights32, weights.dtype)


# --- Heads --------------------------------------------------------------------------------------


def merge_heads(x):
    """[B, N, T, D] to [B * T, N * D]."""
    rows = tf.transpose(x, [0, 2, 1, 3])
    return tf.reshape(rows, [-1, rows.shape[2] * rows.shape[3]])


@_compile
def _split_heads(x, bias, scale, length, heads):
    y = (tf.cast(x, tf.float32) + bias) * scale
    y = tf.reshape(tf.cast(y, x.dtype), [-1, length, heads, x.shape[-1] // heads])
    return tf.transpose(y, [0, 2, 1, 3])


@_compile
def _column_sums(x):
    return tf.reduce_sum(tf.cast(x, tf.float32), axis=0)


def _split_heads_back(x, bias, scale, length, heads, dy):
    dx = merge_heads(dy)  # XLA's transposition is slower here
    dx = dx if scale == 1.0 else dx * scale
    return dx, _column_sums(dx)


@_with_compiled(_split_heads, _split_heads_back, tensors=2)
def split_heads(x, bias, scale, length, heads):
    """(x + bias) * scale, split into one matrix per head.

    Args:
        x: float tensor [B * T, N * D].
        bias: float32 tensor [N * D].
        scale: float.
        length: int or int32 scalar, T; B is inferred and may be 0.
        heads: int, N.

    Returns:
        tensor of x's type [B, N, T, D].
    """
    x = tf.nn.bias_add(x, tf.cast(bias, x.dtype))
    x = x if scale == 1.0 else x * scale
    return tf.transpose(tf.reshape(x, [-1, length, heads, x.shape[-1] // heads]), [0, 2, 1, 3])


# --- Losses and hits of many classes ------------------------------------------------------------


@_compile
def _cross_entropy(labels, logits):
    own = tf.gather(logits, labels[..., tf.newaxis], batch_dims=labels.shape.rank)[..., 0]
    return tf.reduce_logsumexp(logits, axis=-1) - own


@_compile
def _cross_entropy_back(labels, logits, dy):
    shares = tf.nn.softmax(logits) - tf.one_hot(labels, logits.shape[-1])
    return None, shares * dy[..., tf.newaxis]


@_with_compiled(_cross_entropy, _cross_entropy_back, tensors=2, decides=1)
def cross_entropy(labels, logits):
    """Cross-entropy of each row: int labels [...], float32 logits [..., C] -> [...]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def hits(labels, logits):
    """1.0 where the label has the row's largest logit (the first of equal ones), else 0.0."""
    if compiles(logits):
        return _hits(labels, logits)
    return tf.cast(tf.equal(tf.argmax(logits, -1, output_type=labels.dtype), labels), tf.float32)


@_compile
def _hits(labels, logits):
    # Testing whether another class ranks before the label is faster than finding the first class.
    own = tf.gather(logits, labels[..., tf.newaxis], batch_dims=labels.shape.rank)
    earlier = tf.range(logits.shape[-1], dtype=labels.dtype) < labels[..., tf.newaxis]
    before = tf.logical_or(logits > own, tf.logical_and(tf.equal(logits, own), earlier))
    return 1.0 - tf.cast(tf.reduce_any(before, axis=-1), tf.float32)
