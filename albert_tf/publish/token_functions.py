# SPDX-License-Identifier: Apache-2.0
"""What is served of a token classifier: ids in or text in, a label for each word out."""

import tensorflow as tf

from albert_tf.publish.classifier_functions import ClassifierFunctions
from albert_tf.publish.export_signatures import encoded_parts, some_at_a_time


class TokenFunctions(ClassifierFunctions):
    """What is served of a token classifier.

    `serving_default` and `ids` take what a classifier's do and return `predictions` int32 [B, T]
    and `probabilities` float32 [B, T, C] of every piece; those of padding mean nothing. `text`
    takes `text`, string [B], words with white space between them, and returns `words` and `labels`,
    string [B, W], and `scores`, float32 [B, W], the probability of the label; "" and 0 fill up
    texts with fewer words than others. Texts of more than T - 2 pieces are split as in training.
    `embeddings` returns `pooled_output` [B, P, H], `sequence_output` [B, P, T, H] and `input_mask`
    [B, P, T] of the P parts of each text; the mask of a part that a text does not have is all 0.

    Args:
        model: heads.TokenClassificationModel (without predicted_length) with its weights.
        texts: token_inputs.Words.
        labels: sequence of C str.
    """

    def of_text(self, text):
        """The label of each word of texts."""
        found = self.texts(text)
        best = some_at_a_time(self._best, found.features)
        labels = tf.gather(
            tf.constant(self._labels), tf.gather_nd(best["predictions"], found.places)
        )
        scores = tf.gather_nd(best["scores"], found.places)
        return {
            "words": found.words.to_tensor(""),
            "labels": found.words.with_values(labels).to_tensor(""),
            "scores": found.words.with_values(scores).to_tensor(0.0),
        }

    def _best(self, features):
        found = self.of_ids(**features)
        scores = tf.reduce_max(found["probabilities"], axis=-1)
        return {"predictions": found["predictions"], "scores": scores}

    def embeddings(self, text):
        """The encoder's outputs for the parts of texts."""
        sequences = self.texts(text)
        return encoded_parts(self._model.encoder, sequences.features, sequences.counts)
