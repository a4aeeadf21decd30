# SPDX-License-Identifier: Apache-2.0
"""What all exported functions share: names of inputs, tracing, the encoder's outputs for text."""

import tensorflow as tf

from albert_tf.model import heads

FEATURES = ("input_ids", "input_mask", "segment_ids")  # of the original's modules and records
HUB_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # of the Hub's common API
HUB_NAMES = dict(zip(FEATURES, HUB_INPUTS, strict=True))
POSITIONS = "masked_lm_positions"


def traced(call, specs):
    """A concrete function of named tensors.

    Args:
        call: callable of these names -> structure of tensors.
        specs: dict of name -> tf.TensorSpec.
    """
    specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()}
    return tf.function(call, autograph=False).get_concrete_function(**specs)


def id_specs(names, shape=(None, None)):
    """Specs of int32 tensors, [B, T] if not told otherwise: dict of name -> tf.TensorSpec."""
    return {name: tf.TensorSpec(shape, tf.int32, name) for name in names}


def of_texts(functions):
    """The signatures that take text: dict of name -> concrete function.

    Args:
        functions: ClassifierFunctions or SquadFunctions.
    """
    calls = {"text": functions.of_text, "embeddings": functions.embeddings}
    return {name: traced(call, functions.texts.signature) for name, call in calls.items()}


def encoded(encoder, features):
    """Pooled output [B, H] and sequence output [B, T, H], with the mask that tells the padding."""
    found = heads.encode(encoder, features)
    outputs = {name: found[name] for name in ("pooled_output", "sequence_output")}
    return outputs | {"input_mask": features["input_mask"]}
