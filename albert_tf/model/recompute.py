# SPDX-License-Identifier: Apache-2.0
"""Blocks whose activations are computed again in the backward pass (Chen et al., 2016).

Only the input of each block is kept. The backward pass goes through the blocks in reverse order:
it computes a block again, takes its gradients, and adds those of the variables to the sums so far.
So the gradients of a shared variable take the memory of one layer and not of all.
"""

import tensorflow as tf

from albert_tf.model import dropout


def run_blocks(blocks, x, tensors):
    """Applies blocks one after the other.

    Args:
        blocks: list of callables, (x, tensors) -> x. Everything they read that needs a gradient has
            to be in their arguments, and their dropout has to be from the module `dropout`.
        x: float tensor.
        tensors: list of float tensors.

    Returns:
        list of tensors, the output of each block.
    """

    @tf.custom_gradient
    def function(x, *tensors):
        outputs, kept = [], []
        for block in blocks:
            kept.append((block, x, dropout.current()))
            x = block(x, tensors)
            outputs.append(x)
        return outputs, lambda *dys: _gradients(kept, tensors, dys)

    with dropout.repeatable():
        return function(x, *tensors)


def _gradients(kept, tensors, dys):
    """Gradients of the first input and of the tensors, from the gradients of each output."""
    dx, totals = 0.0, [0.0] * len(tensors)
    for (block, x, place), dy in zip(reversed(kept), reversed(dys), strict=True):
        dy = dy + tf.cast(dx, dy.dtype)
        # Compute one block after the other: wait for the sums of the previous one.
        with tf.control_dependencies([total for total in totals if tf.is_tensor(total)]):
            x, place = _after(dy, x, place)
        with tf.GradientTape() as tape, dropout.seeded(*place):
            tape.watch([x, *tensors])
            y = block(x, tensors)
        dx, *parts = tape.gradient(y, [x, *tensors], output_gradients=dy)
        totals = [
            total if part is None else total + tf.cast(part, tf.float32)
            for total, part in zip(totals, parts, strict=True)
        ]
    return dx, *(tf.cast(sum_, tensor.dtype) for sum_, tensor in zip(totals, tensors, strict=True))


def _after(dy, x, place):
    """Returns x unchanged, but only once dy is computed.

    Without this, TensorFlow and XLA would notice that the block is computed twice, and would keep
    the first result instead.
    """
    key, count = place
    nothing = tf.math.is_nan(tf.cast(tf.reshape(dy, [-1])[0], tf.float32))  # gradients are numbers
    return x + tf.cast(nothing, x.dtype), (key + tf.cast(nothing, key.dtype), count)
