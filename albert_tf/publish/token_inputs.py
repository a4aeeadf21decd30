# SPDX-License-Identifier: Apache-2.0
"""Raw text to the inputs of a token classifier inside a graph, as `tasks.ner`.

B texts, W words of a text, N words of all texts in a row, F sequences of all texts, T pieces of a
sequence.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.publish import text_inputs
from albert_tf.publish.graph_tokenization import STRINGS


class Sequences(NamedTuple):
    """The words of texts, and the sequences that they stand in.

    Attributes:
        features: dict of input_ids, input_mask and segment_ids, int32 [F, T].
        counts: int32 [B], sequences of each text.
        words: string RaggedTensor [B, (W)].
        places: int32 [N, 2], sequence and position of the first piece of each word.
    """

    features: dict
    counts: tf.Tensor
    words: tf.RaggedTensor
    places: tf.Tensor


class Words:
    """Texts as words with white space between them, cut into sequences: `ner.features` in a graph.

    Args:
        tokenizer: GraphTokenizer.
        max_seq_length: int, pieces of a sequence at most.
        unknown_id: int, the piece of a word that has none.
    """

    choices = 1  # sequences of a part

    def __init__(self, tokenizer, max_seq_length, unknown_id):
        self._tokenizer, self._max_seq_length = tokenizer, max_seq_length
        self._unknown_id = unknown_id
        self.signature = {"text": STRINGS}

    def __call__(self, text):
        """Sequences of string [B]; bytes that are not valid UTF-8 are dropped."""
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
        words = tf.strings.split(tf.strings.regex_replace(text, f"{text_inputs.WHITE_SPACE}+", " "))
        pieces = self._pieces(words.values)
        starts = pieces.row_starts()  # [N], among the pieces of all texts
        sentence = words.value_rowids()
        first = tf.gather(tf.concat([starts, pieces.row_splits[-1:]], 0), words.row_starts())
        part = (starts - tf.gather(first, sentence)) // (self._max_seq_length - 2)
        is_new = (sentence[1:] != sentence[:-1]) | (part[1:] != part[:-1])
        is_new = tf.concat([[True], is_new], axis=0)[: tf.size(part)]
        sequence = tf.cumsum(tf.cast(is_new, tf.int32)) - 1  # [N]
        sequence_starts = tf.boolean_mask(starts, is_new)  # [F]
        rows = tf.RaggedTensor.from_row_splits(
            pieces.values, tf.concat([sequence_starts, pieces.row_splits[-1:]], axis=0)
        )
        features = text_inputs.packed_features([rows], self._max_seq_length, self._tokenizer)
        position = tf.cast(starts - tf.gather(sequence_starts, sequence), tf.int32) + 1
        return Sequences(
            text_inputs.trimmed(features),
            tf.math.unsorted_segment_sum(tf.cast(is_new, tf.int32), sentence, tf.size(text)),
            words,
            tf.stack([sequence, position], axis=1),
        )

    def _pieces(self, words):
        """Pieces of words, one at least: string [N] -> int32 RaggedTensor [N, (T)]."""
        pieces = self._tokenizer.tokenize(words)
        is_empty = pieces.row_lengths() == 0
        unknown = tf.fill([tf.math.count_nonzero(is_empty)], self._unknown_id)
        unknown = tf.RaggedTensor.from_row_lengths(unknown, tf.cast(is_empty, tf.int64))
        return tf.concat([pieces, unknown], axis=1)
