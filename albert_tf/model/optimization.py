# SPDX-License-Identifier: Apache-2.0
"""Learning-rate schedule, AdamW and LAMB as the original release defines them.

Neither optimizer corrects the bias of its moments, and epsilon is added outside the square root.
Optimizers of the same names in other packages give other numbers.
"""

from collections.abc import Callable
from typing import Any, Self

import tensorflow as tf
import tf_keras

from albert_tf import options
from albert_tf.errors import UserError
from albert_tf.model import fused
from albert_tf.model.keras_model import serializable

_CONSTANTS = tuple(field.name for field in options.options_of(options.Optimizer))


@serializable
class PolynomialDecayWithWarmup(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then polynomial decay to 0, as a function of the step.

    1. t < start_warmup_step + warmup_steps: peak * (t - start_warmup_step) / warmup_steps. This is
       0 at the first step, and negative before start_warmup_step, as in the original.
    2. t < train_steps: peak * (1 - t / train_steps) ** power. The decay counts from step 0 and not
       from the end of the warm-up, so the rate drops a little there.
    3. t >= train_steps: 0.

    Args:
        peak: float, learning rate at the end of the warm-up.
        train_steps: int, step at which the rate reaches 0.
        warmup_steps: int, 0 for no warm-up.
        power: float, exponent of the decay; 1 is linear.
        start_warmup_step: int, step at which the warm-up begins.
    """

    def __init__(
        self,
        peak: float,
        train_steps: int,
        warmup_steps: int = 0,
        power: float = 1.0,
        start_warmup_step: int = 0,
    ) -> None:
        super().__init__()
        self.peak, self.train_steps, self.power = peak, train_steps, power
        self.warmup_steps, self.start_warmup_step = warmup_steps, start_warmup_step

    def __call__(self, step: Any) -> Any:
        step = tf.cast(step, tf.float32)
        done = tf.minimum(step, float(self.train_steps)) / float(self.train_steps)
        decayed = self.peak * tf.pow(1.0 - done, self.power)
        if not self.warmup_steps:
            return decayed
        warm = step - float(self.start_warmup_step)
        rising = self.peak * (warm / float(self.warmup_steps))
        return tf.where(warm < float(self.warmup_steps), rising, decayed)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        names = ("peak", "train_steps", "warmup_steps", "power", "start_warmup_step")
        return {name: getattr(self, name) for name in names}


@serializable
def is_decayed(variable):
    """Whether weight decay and layer adaptation apply to a variable: to matrices, not to vectors.

    The original excludes variables whose names contain LayerNorm, layer_norm or bias. These are
    exactly its vectors, and a rule on the rank still holds if a variable is renamed.
    """
    return variable.shape.rank >= 2


def _direction(parameter, m, v, gradient, constants):
    """New moments, and the step at rate 1: tensors of the parameter's shape."""
    beta_1, beta_2, epsilon, decay = constants
    m = beta_1 * m + (1.0 - beta_1) * gradient
    v = beta_2 * v + (1.0 - beta_2) * tf.square(gradient)
    direction = m / (tf.sqrt(v) + epsilon)
    return m, v, direction + decay * parameter if decay else direction


_compiled_direction = tf.function(_direction, jit_compile=True, autograph=False)


@serializable
class AdamW(tf_keras.optimizers.Optimizer):
    """Adam without bias correction, with weight decay inside the update.

    m <- beta_1 m + (1 - beta_1) g;  v <- beta_2 v + (1 - beta_2) g^2;
    u = m / (sqrt(v) + epsilon) + weight_decay * theta;  theta <- theta - lr * u.

    The rate is the schedule's value at the step before the update, so the first update of a warm-up
    has rate 0.

    Args:
        learning_rate: float or schedule.
        weight_decay_rate: float.
        beta_1: float.
        beta_2: float.
        epsilon: float.
        decayed: callable, variable -> bool, whether it decays (and, in LAMB, adapts its step).
    """

    def __init__(
        self,
        learning_rate: Any,
        weight_decay_rate: float = options.ORIGINAL_OPTIMIZER.weight_decay_rate,
        beta_1: float = options.ORIGINAL_OPTIMIZER.beta_1,
        beta_2: float = options.ORIGINAL_OPTIMIZER.beta_2,
        epsilon: float = options.ORIGINAL_OPTIMIZER.epsilon,
        decayed: Callable[[Any], bool] = is_decayed,
        name: str = "AdamW",
        **kwargs: Any,
    ) -> None:
        # Keras' own weight decay, at its default of 0, would rewrite every variable at every step.
        keras = {"jit_compile": False, "weight_decay": None, **kwargs}
        super().__init__(name=name, **keras)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.weight_decay_rate, self.decayed = weight_decay_rate, decayed
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def build(self, var_list: Any) -> None:
        """Creates the moments, initially zero. Calling it again does nothing."""
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._built = True
        self.adam_m = [self.add_variable_from_reference(v, "adam_m") for v in var_list]
        self.adam_v = [self.add_variable_from_reference(v, "adam_v") for v in var_list]

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Updates variables from gradients; sparse ones are made dense, so they can be clipped.

        Variables without a gradient, such as the pooler's in SQuAD, stay as they are; Keras would
        warn about them.
        """
        pairs = list(grads_and_vars)
        with tf.init_scope():
            self.build([variable for _, variable in pairs])  # all, so that moments can be restored
        reached = [(tf.convert_to_tensor(g), variable) for g, variable in pairs if g is not None]
        return super().apply_gradients(reached, *args, **kwargs)

    def update_step(self, gradient: Any, variable: Any) -> None:
        """Updates one variable from its dense gradient."""
        index = self._index_dict[self._var_key(variable)]
        moments = self.adam_m[index], self.adam_v[index]
        decay = self.weight_decay_rate if self.decayed(variable) else 0.0
        constants = (self.beta_1, self.beta_2, self.epsilon, decay)
        form = _compiled_direction if fused.compiles(gradient) else _direction
        *new_moments, direction = form(variable, *moments, gradient, constants)
        for moment, value in zip(moments, new_moments, strict=True):
            moment.assign(value)
        rate = tf.cast(self.learning_rate, variable.dtype)
        variable.assign_sub(rate * self._trust_ratio(variable, direction) * direction)

    def _trust_ratio(self, variable, direction):
        return 1.0

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter(self._learning_rate),
            **{name: getattr(self, name) for name in _CONSTANTS},
            "decayed": tf_keras.saving.serialize_keras_object(self.decayed),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Makes an optimizer from the result of `get_config`; `decayed` has to be registered."""
        decayed = tf_keras.saving.deserialize_keras_object(config["decayed"], custom_objects)
        return super().from_config(config | {"decayed": decayed}, custom_objects)


@serializable
class LAMB(AdamW):
    """AdamW whose step is scaled per variable by ||theta|| / ||u|| (You et al., 2020).

    The ratio is 1 if `decayed` returns False, or if either norm is 0. The norms are
    of whole variables: a shared kernel is one variable; query, key and value are three.
    """

    def __init__(self, learning_rate: Any, name: str = "LAMB", **kwargs: Any) -> None:
        super().__init__(learning_rate, name=name, **kwargs)

    def _trust_ratio(self, variable, direction):
        if not self.decayed(variable):
            return 1.0
        variable_norm, norm = tf.norm(variable), tf.norm(direction)
        both = tf.logical_and(variable_norm > 0, norm > 0)
        return tf.where(both, tf.math.divide_no_nan(variable_norm, norm), 1.0)


OPTIMIZERS = dict(zip(options.OPTIMIZERS, (AdamW, LAMB), strict=True))


def create_optimizer(name, learning_rate, constants=options.ORIGINAL_OPTIMIZER):
    """Makes an optimizer.

    Args:
        name: str, a key of OPTIMIZERS.
        learning_rate: float or schedule.
        constants: options.Optimizer, by default the original's.

    Raises:
        UserError: no optimizer has this name.
    """
    if name not in OPTIMIZERS:
        raise UserError(f"optimizer must be one of {', '.join(OPTIMIZERS)}. Received: {name!r}")
    return OPTIMIZERS[name](learning_rate, **{n: getattr(constants, n) for n in _CONSTANTS})


def rate_at(optimizer, step):
    """The learning rate (float) that an optimizer of this module uses at a step."""
    rate = optimizer._learning_rate
    return float(tf.convert_to_tensor(rate(step) if callable(rate) else rate))


def clip_by_global_norm(gradients, limit=1.0):
    """Scales dense gradients down so that their joint norm is at most `limit`.

    Args:
        gradients: list of float32 tensors.
        limit: float.

    Returns:
        (list of scaled gradients, float32 scalar: the norm before scaling).
    """
    norm = tf.linalg.global_norm(gradients)
    scale = limit / tf.maximum(norm, limit)
    return [gradient * scale for gradient in gradients], norm
