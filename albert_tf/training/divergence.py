# SPDX-License-Identifier: Apache-2.0
"""`--stop_on_divergence`: ends training if the loss rises far above its running mean."""

from albert_tf.errors import UserError

HORIZON = 20  # readings: the weight of one falls by 1 / HORIZON with each that follows
WARM_UP = 10  # readings before the first comparison, since the loss of the first ones falls fast


class DivergenceError(UserError):
    """The loss is far above its running mean."""


class DivergenceCheck:
    """Compares each reading of the loss with the exponential mean of the earlier readings.

    Args:
        factor: float above 1, the largest allowed ratio of loss to mean; 0 for no check.
    """

    def __init__(self, factor):
        self._factor = factor
        self._count, self._sum, self._weight = 0, 0.0, 0.0

    def check(self, step, loss):
        """Checks one reading of the loss.

        Args:
            step: int, updates made, for the message.
            loss: float.

        Raises:
            DivergenceError: the loss is above `factor` times the mean, or is nan.
        """
        if not self._factor:
            return
        loss = float(loss)
        if self._count >= WARM_UP:
            mean = self._sum / self._weight
            if not loss <= self._factor * mean:  # also true for nan
                raise DivergenceError(
                    f"the loss at step {step} is {loss:.4g}, more than --stop_on_divergence="
                    f"{self._factor:g} times its running mean of {mean:.4g}. Lower "
                    "--learning_rate, lengthen the warm-up or lower --gradient_clip_norm, and go "
                    "on from a checkpoint before that step; or allow more with a larger "
                    "--stop_on_divergence"
                )
        kept = 1 - 1 / HORIZON
        self._count += 1
        self._sum = kept * self._sum + loss
        self._weight = kept * self._weight + 1
