# SPDX-License-Identifier: Apache-2.0
"""Names and numbers that flags offer and the library takes; this needs no TensorFlow."""

import dataclasses
import math

from albert_tf.errors import UserError

STRATEGIES = ("off", "one_device", "mirrored", "multi_worker_mirrored", "tpu")
PRECISIONS = {  # name -> policy of Keras
    "fp32": "float32",
    "tf32": "float32",  # with products of matrices in TensorFloat-32, on GPUs that have it
    "bf16": "mixed_bfloat16",
    "fp16": "mixed_float16",
}
OPTIMIZERS = ("adamw", "lamb")
WINDOW = 10_000  # records shuffled together; 30 MB of pre-training records of length 512
TEXT_FORMATS = ("sentences", "documents", "jsonl")
ON_DECODE_ERROR = ("stop", "skip")
WORD_STARTS = ("original", "piece")


@dataclasses.dataclass(frozen=True)
class OptimizerConstants:
    """What the original fixes in its code, under the Model Garden's names.

    Attributes:
        weight_decay_rate: float, at least 0.
        beta_1, beta_2: float in [0, 1), decay rates of the moments.
        epsilon: float above 0, added to the root of the second moment.

    Raises:
        UserError: a value is out of range; the message names the flag.
    """

    weight_decay_rate: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6

    def __post_init__(self):
        below_1 = (lambda value: 0 <= value < 1, "at least 0 and below 1")
        for name, (is_valid, rule) in {
            "weight_decay_rate": (lambda value: 0 <= value < math.inf, "at least 0"),
            "beta_1": below_1,
            "beta_2": below_1,
            "epsilon": (lambda value: 0 < value < math.inf, "above 0"),
        }.items():
            value = getattr(self, name)
            if not is_valid(value):
                raise UserError(f"--{name} must be finite and {rule}. Received: {value}")


ORIGINAL_CONSTANTS = OptimizerConstants()
