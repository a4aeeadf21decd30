# SPDX-License-Identifier: Apache-2.0
"""What is served of a fine-tuned classifier: signatures for ids, records and text.

The first dimension of every output is the batch and no value is infinite, so that servers can join
requests and answer in JSON. B examples, T pieces, C classes, H hidden.
"""

import tensorflow as tf

from albert_tf.publish.export_signatures import FEATURES, encoded, id_specs, of_texts, traced


class ClassifierFunctions:
    """What is served of a classifier, a regressor or a choice among options (section g.6).

    `serving_default` takes `input`, serialized tf.Examples with int64 input_ids, input_mask and
    segment_ids; `ids` takes these as int32 [B, T], of options [B, 4 * T]; `text` takes what `texts`
    does. They return `predictions` int32 [B] and `probabilities` float32 [B, C]; in regression the
    score under both names, [B] and [B, 1]. `text` names the `label`, string [B], too. `embeddings`
    returns `pooled_output` [B, H], `sequence_output` [B, T, H] and `input_mask` [B, T]; of options
    [B, 4, ...].

    Args:
        model: heads.ClassificationModel or heads.MultipleChoiceModel with its weights.
        texts: text_inputs.SentencePairs or text_inputs.Options.
        labels: sequence of C str; None in regression.
        threshold: float or None; given back as `threshold` [B], for those who decide by it.
    """

    ids = FEATURES

    def __init__(self, model, texts, labels, threshold=None):
        self._model, self.texts, self._labels, self._threshold = model, texts, labels, threshold

    def signatures(self, with_text=True):
        """Dict of name -> concrete function; those that take text need tensorflow-text."""
        serialized = {"input": tf.TensorSpec([None], tf.string)}
        found = {
            "serving_default": traced(self._of_serialized, serialized),
            "ids": traced(self.of_ids, id_specs(FEATURES)),
        }
        return found | (of_texts(self) if with_text else {})

    def of_ids(self, **features):
        """Predictions for ids."""
        logits = self._model(features, training=False)["logits"]
        if self._labels is None:
            found = {"predictions": logits[:, 0], "probabilities": logits}
        else:
            found = {
                "predictions": tf.argmax(logits, axis=-1, output_type=tf.int32),
                "probabilities": tf.nn.softmax(logits),
            }
        if self._threshold is not None:
            found["threshold"] = tf.fill(tf.shape(logits)[:1], self._threshold)
        return found

    def _of_serialized(self, input):  # the original's name
        rows = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in FEATURES}
        parsed = tf.io.parse_example(input, rows)
        lengths = parsed["input_ids"].row_lengths()
        same = [
            tf.debugging.assert_equal(
                parsed[name].row_lengths(),
                lengths // self.texts.choices * self.texts.choices,
                "input_ids, input_mask and segment_ids of an example must be equally long, and "
                f"hold {self.texts.choices} sequence(s) of one length",
            )
            for name in FEATURES
        ]
        with tf.control_dependencies(same):
            return self.of_ids(**{name: self._batched(parsed[name]) for name in FEATURES})

    def _batched(self, rows):
        """Rows of one or more sequences (ragged [B, (choices * T)]), each padded: int32."""
        choices = self.texts.choices
        lengths = tf.repeat(rows.row_lengths() // choices, choices)
        longest = tf.reduce_max(tf.concat([lengths, [1]], axis=0))
        sequences = tf.RaggedTensor.from_row_lengths(rows.values, lengths)
        padded = sequences.to_tensor(shape=tf.stack([-1, longest]))
        return tf.cast(tf.reshape(padded, tf.stack([rows.nrows(), choices * longest])), tf.int32)

    def of_text(self, **texts):
        """Predictions for texts."""
        found = self.of_ids(**self.texts(**texts))
        if self._labels is not None:
            found["label"] = tf.gather(tf.constant(self._labels), found["predictions"])
        return found

    def embeddings(self, **texts):
        """The encoder's outputs for texts."""
        features = self.texts(**texts)
        rows = tf.shape(features["input_ids"])[0]
        each = {
            name: tf.reshape(values, [rows * self.texts.choices, -1])
            for name, values in features.items()
        }
        found = encoded(self._model.encoder, each)
        if self.texts.choices == 1:
            return found
        return {
            name: tf.reshape(values, [rows, self.texts.choices, *_sizes(values)[1:]])
            for name, values in found.items()
        }


def _sizes(tensor):
    """Sizes of a tensor, numbers where they are known."""
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]
