# SPDX-License-Identifier: Apache-2.0
"""Learning-rate schedule, AdamW and LAMB as the original release defines them; Muon.

AdamW and LAMB do not correct the bias of their moments, and add epsilon outside the square root.
Optimizers of the same names in other packages give other numbers.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import tensorflow as tf
import tf_keras
from tf_keras import saving

from albert_tf import options
from albert_tf.errors import CalledElsewhere, UserError
from albert_tf.model import fused
from albert_tf.model.keras_model import serializable

_CONSTANTS = tuple(field.name for field in options.options_of(options.Optimizer))


@serializable
class PolynomialDecayWithWarmup(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, then polynomial decay to 0, as a function of the step.

    With `decay_steps`, the rate stays at the peak until so many steps before the end.

    1. t < start_warmup_step + warmup_steps: peak * (t - start_warmup_step) / warmup_steps. This is
       0 at the first step, and negative before start_warmup_step, as in the original.
    2. t < train_steps - decay_steps: peak.
    3. t < train_steps: peak * ((train_steps - t) / decay_steps) ** power. By default, decay_steps
       is train_steps: the decay counts from step 0 and not from the end of the warm-up, so the rate
       drops a little there.
    4. t >= train_steps: 0.

    Args:
        peak: float, learning rate at the end of the warm-up.
        train_steps: int, step at which the rate reaches 0.
        warmup_steps: int, 0 for no warm-up.
        power: float, exponent of the decay; 1 is linear.
        start_warmup_step: int, step at which the warm-up begins.
        decay_steps: int, length of the decay; None for train_steps, as in the original.

    Raises:
        UserError: a number of steps is below 1, and not 0 where that is allowed.
    """

    def __init__(
        self,
        peak: float,
        train_steps: int,
        warmup_steps: int = 0,
        power: float = 1.0,
        start_warmup_step: int = 0,
        decay_steps: int | None = None,
    ) -> None:
        super().__init__()
        for name, steps in (("train_steps", train_steps), ("decay_steps", decay_steps)):
            if steps is not None and steps < 1:
                raise UserError(f"{name}={steps} must be at least 1")
        if warmup_steps < 1 and warmup_steps != 0:
            raise UserError(f"warmup_steps={warmup_steps} must be 0 or at least 1, not a share")
        self.peak, self.train_steps, self.power = peak, train_steps, power
        self.warmup_steps, self.start_warmup_step = warmup_steps, start_warmup_step
        self.decay_steps = decay_steps

    def __call__(self, step: Any) -> Any:
        step = tf.cast(step, tf.float32)
        length = float(self.decay_steps or self.train_steps)
        done = tf.minimum(step, float(self.train_steps)) - (float(self.train_steps) - length)
        done = tf.maximum(done, 0.0) / length
        decayed = self.peak * tf.pow(1.0 - done, self.power)
        if not self.warmup_steps:
            return decayed
        warm = step - float(self.start_warmup_step)
        rising = self.peak * (warm / float(self.warmup_steps))
        return tf.where(warm < float(self.warmup_steps), rising, decayed)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        names = "peak", "train_steps", "warmup_steps", "power", "start_warmup_step", "decay_steps"
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
        weight_decay_rate: float; `weight_decay`, as other libraries call it, is the same.
        beta_1: float.
        beta_2: float.
        epsilon: float.
        decayed: callable, variable -> bool, whether it decays (and, in LAMB, adapts its step).
    """

    slots: tuple[str, ...] = ("adam_m", "adam_v")  # attributes with the moments of all variables
    constants = tuple(name for name in _CONSTANTS if name != "momentum")
    rules: tuple[str, ...] = ("decayed",)  # attributes that are functions of a variable
    exclude_from_weight_decay = CalledElsewhere("decayed=FUNCTION when you make the optimizer")

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
        weight_decay = kwargs.pop("weight_decay", None)
        # Keras' own weight decay would come on top, and be that of vectors too.
        super().__init__(name=name, **{"jit_compile": False, "weight_decay": None, **kwargs})
        if weight_decay is not None:
            weight_decay_rate = weight_decay
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.weight_decay_rate, self.decayed = weight_decay_rate, decayed
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon

    def build(self, var_list: Any) -> None:
        """Creates the moments, initially zero. Calling it again does nothing."""
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._built = True
        for slot in self.slots:
            moments = [
                self.add_variable_from_reference(v, slot) if slot in self._slots_of(v) else None
                for v in var_list
            ]
            setattr(self, slot, moments)

    def _slots_of(self, variable):
        """Names of the moments that are kept for a variable."""
        return self.slots

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
        index = self._index(variable)
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

    def _index(self, variable):
        """Place of a variable in the lists of moments (int)."""
        return self._index_dict[self._var_key(variable)]

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter(self._learning_rate),
            **{name: getattr(self, name) for name in self.constants},
            **{name: _name_of(getattr(self, name)) for name in self.rules},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """Makes an optimizer from the result of `get_config`; its rules have to be registered."""
        rules = {name: _rule_of(config[name], custom_objects) for name in cls.rules}
        unused = {"weight_decay": None}  # Keras' own
        return super().from_config(config | rules | unused, custom_objects)


def _name_of(rule):
    """A rule as JSON: a registered function's name, which .h5 files need, or as Keras writes it."""
    name = saving.get_registered_name(rule)
    is_registered = saving.get_registered_object(name) is rule
    return name if is_registered else saving.serialize_keras_object(rule)


def _rule_of(known, custom_objects):
    """The function of a result of `_name_of`, which Keras has found already in .h5 files."""
    if isinstance(known, str):
        return saving.get_registered_object(known, custom_objects)
    return known if callable(known) else saving.deserialize_keras_object(known, custom_objects)


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


def _processor_has_bfloat16():
    """Whether the CPU multiplies bfloat16 matrices faster than float32 ones (bool)."""
    path = Path("/proc/cpuinfo")
    return path.exists() and any(name in path.read_text() for name in ("avx512_bf16", "amx_bf16"))


@functools.cache
def fast_dtype():
    """The fastest type for matrix products that may be inexact: bfloat16, or else float32."""
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        is_fast = tf.config.list_logical_devices("TPU") or _processor_has_bfloat16()
        return tf.bfloat16 if is_fast else tf.float32
    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    capable = all(each.get("compute_capability", (0, 0)) >= (8, 0) for each in details)
    return tf.bfloat16 if capable else tf.float32


def orthogonalize(matrices, dtype=tf.float32):
    """Replaces the singular values of matrices by values near 1: five Newton-Schulz iterations.

    Each iteration maps a singular value s to 3.4445 s - 4.775 s^3 + 2.0315 s^5 (Jordan et al.,
    2024). Values of at least 0.5% of the Frobenius norm end between 0.65 and 1.25.

    Args:
        matrices: float tensor [..., m, n], m <= n.
        dtype: tf.DType of the products.

    Returns:
        float32 tensor [..., m, n].
    """
    norms = tf.norm(matrices, axis=(-2, -1), keepdims=True)
    x = tf.cast(tf.math.divide_no_nan(matrices, norms), dtype)
    rows, columns = x.shape[-2:]
    # An iteration multiplies x by a polynomial of x x^T. For long matrices, it is cheaper to
    # multiply several polynomials first; bfloat16 is exact enough for three.
    for count in (3, 2) if columns >= 2 * rows else (1, 1, 1, 1, 1):
        gram = tf.matmul(x, x, transpose_b=True)
        total = factor = _factor(gram)
        for _ in range(count - 1):
            gram = tf.matmul(tf.matmul(gram, factor), factor)  # x x^T after one more iteration
            factor = _factor(gram)
            total = tf.matmul(factor, total)
        x = tf.matmul(total, x)
    return tf.cast(x, tf.float32)


def _factor(gram):
    """The polynomial with which an iteration multiplies a matrix x, of x x^T [..., m, m]."""
    identity = tf.eye(gram.shape[-1], dtype=gram.dtype)
    return 3.4445 * identity - 4.775 * gram + 2.0315 * tf.matmul(gram, gram)


@serializable
def is_orthogonalized(variable):
    """Whether Muon orthogonalizes the update of a variable: matrices other than embeddings."""
    return variable.shape.rank == 2 and "embeddings" not in variable.name


@serializable
class Muon(AdamW):
    """Momentum whose updates are orthogonalized for matrices; AdamW for all other variables.

    M <- momentum M + g;  O = orthogonalize(g + momentum M);
    theta <- theta - lr * (0.2 sqrt(max(m, n)) O + weight_decay * theta), for matrices [m, n].

    From Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks". The scale
    of the update, which makes it as large as AdamW's, and the decay are those of Liu et al. (2025),
    "Muon is scalable for LLM training", section 2.2: one learning rate serves all variables. The
    second moments of matrices are not kept.

    Args:
        learning_rate: float or schedule.
        momentum: float.
        orthogonalized: callable, variable -> bool, whether it is such a matrix.
        product_dtype: str, type of the products that orthogonalize; None for bfloat16 if the device
            computes faster in it, else float32.
        **kwargs: further arguments, as those of AdamW.
    """

    slots: tuple[str, ...] = ("adam_m", "adam_v", "muon_m")
    constants = _CONSTANTS
    rules = ("decayed", "orthogonalized")

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = options.ORIGINAL_OPTIMIZER.momentum,
        orthogonalized: Callable[[Any], bool] = is_orthogonalized,
        product_dtype: str | None = None,
        name: str = "Muon",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name=name, **kwargs)
        self.momentum, self.orthogonalized = momentum, orthogonalized
        self.product_dtype = product_dtype

    def _slots_of(self, variable):
        return ("muon_m",) if self.orthogonalized(variable) else ("adam_m", "adam_v")

    def _internal_apply_gradients(self, grads_and_vars):
        # Keras calls this with the gradients of all replicas, clipped, and hands what stands in
        # place of a gradient to `update_step`: (new momentum, direction) for a matrix.
        pairs = list(grads_and_vars)
        groups = {}
        for place, (_, variable) in enumerate(pairs):
            if self.orthogonalized(variable):
                groups.setdefault(tuple(sorted(variable.shape)), []).append(place)
        dtype = tf.as_dtype(self.product_dtype or fast_dtype())
        for (_, longest), places in groups.items():
            moments, directions = [], []
            for gradient, variable in (pairs[place] for place in places):
                moments.append(self.momentum * self.muon_m[self._index(variable)] + gradient)
                directions.append(_wide(gradient + self.momentum * moments[-1], variable))
            directions = orthogonalize(tf.stack(directions), dtype) * (0.2 * longest**0.5)
            for place, *step in zip(places, moments, tf.unstack(directions), strict=True):
                pairs[place] = tuple(step), pairs[place][1]
        return super()._internal_apply_gradients(pairs)

    def update_step(self, gradient: Any, variable: Any) -> None:
        """Updates one variable from its dense gradient, or a matrix from its direction."""
        if not self.orthogonalized(variable):
            super().update_step(gradient, variable)
            return
        moment, direction = gradient
        self.muon_m[self._index(variable)].assign(moment)
        decay = self.weight_decay_rate if self.decayed(variable) else 0.0
        rate = tf.cast(self.learning_rate, variable.dtype)
        variable.assign_sub(rate * (_wide(direction, variable) + decay * variable))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"product_dtype": self.product_dtype}


def _wide(matrix, variable):
    """A matrix, transposed if its variable has more rows than columns."""
    return tf.transpose(matrix) if variable.shape[0] > variable.shape[1] else matrix


OPTIMIZERS = dict(zip(options.OPTIMIZERS, (AdamW, LAMB, Muon), strict=True))


def create_optimizer(name, learning_rate, constants=options.ORIGINAL_OPTIMIZER):
    """Makes an optimizer.

    Args:
        name: str, a key of OPTIMIZERS.
        learning_rate: float or schedule.
        constants: options.Optimizer, by default the original's.
    """
    kind = OPTIMIZERS[name]
    return kind(learning_rate, **{name: getattr(constants, name) for name in kind.constants})


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
