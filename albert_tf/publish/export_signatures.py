# SPDX-License-Identifier: Apache-2.0
"""What all exported functions share: names of inputs, tracing, the encoder's outputs for text."""

import functools

import tensorflow as tf

FEATURES = ("input_ids", "input_mask", "segment_ids")  # of the original's modules and records
HUB_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # of the Hub's common API
HUB_NAMES = dict(zip(FEATURES, HUB_INPUTS, strict=True))
POSITIONS = "masked_lm_positions"
SEQUENCES_AT_ONCE = 8  # of long texts, so that memory does not grow with their length


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
    found = encoder(features)
    outputs = {name: found[name] for name in ("pooled_output", "sequence_output")}
    return outputs | {"input_mask": features["input_mask"]}


def encoded_parts(encoder, features, counts):
    """The outputs of `encoded` for texts of several sequences each: [B, W, ...], padded with 0.

    Args:
        encoder: AlbertModel.
        features: dict of int32 [F, T], the sequences of all texts in a row.
        counts: int32 [B], sequences of each text, W at most.
    """
    found = some_at_a_time(functools.partial(encoded, encoder), features)
    return {
        name: tf.RaggedTensor.from_row_lengths(values, counts).to_tensor()
        for name, values in found.items()
    }


def some_at_a_time(call, features):
    """Outputs for all sequences of texts, SEQUENCES_AT_ONCE computed together.

    Args:
        call: function of a dict of features, int32 [n, T], to a structure of tensors [n, ...].
        features: dict of int32 [F, T].

    Returns:
        The same structure of tensors [F, ...].
    """
    specs = {name: tf.TensorSpec([None, None], values.dtype) for name, values in features.items()}
    call = tf.function(call, autograph=False).get_concrete_function(specs)
    outputs, count = call.structured_outputs, tf.shape(features["input_ids"])[0]
    rounds = tf.maximum(-(-count // SEQUENCES_AT_ONCE), 1)  # at least one: its outputs tell shapes

    def compute(i, arrays):
        rows = slice(i * SEQUENCES_AT_ONCE, (i + 1) * SEQUENCES_AT_ONCE)
        found = tf.nest.flatten(call({name: values[rows] for name, values in features.items()}))
        return i + 1, [array.write(i, part) for array, part in zip(arrays, found, strict=True)]

    arrays = [
        tf.TensorArray(x.dtype, rounds, infer_shape=False, element_shape=x.shape)
        for x in tf.nest.flatten(outputs)
    ]
    _, arrays = tf.while_loop(
        lambda i, _: i < rounds, compute, (tf.constant(0), arrays), parallel_iterations=1
    )
    return tf.nest.pack_sequence_as(outputs, [array.concat() for array in arrays])
