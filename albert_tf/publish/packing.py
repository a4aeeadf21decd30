# SPDX-License-Identifier: Apache-2.0
"""Pieces to inputs of the model inside a graph: [CLS] a [SEP] b [SEP], cut and padded.

Letters of shapes: B texts, T pieces of a text, W words of a text.
"""

import tensorflow as tf

from albert_tf.errors import UserError


def pack(segments, seq_length, tokenizer):
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP], cut and padded to one length.

    A single segment that is too long is cut. Of a pair, the longer one loses its last piece until
    both fit, and b if they are equally long, as in the original.

    Args:
      segments: list of one or two int32 RaggedTensors [B, (T)] or [B, (W), (T)].
      seq_length: int or int32 scalar tensor; None: the longest row of the batch.
      tokenizer: GraphTokenizer, for its special ids.

    Returns:
      dict of int32 [B, seq_length]: `input_word_ids`, `input_mask`, `input_type_ids`.

    Raises:
      UserError: there are not one or two segments.
      tf.errors.InvalidArgumentError: seq_length has no room for [CLS] and [SEP].
    """
    if len(segments) not in (1, 2):
        raise UserError(f"segments: got {len(segments)}; a sequence is made of one or of two")
    segments = [_one_row_per_text(segment) for segment in segments]
    if seq_length is not None:
        segments = _truncated(segments, seq_length)

    special, rows = tokenizer.special_tokens, segments[0].nrows()
    start = tf.fill([rows, 1], special["start_of_sequence_id"])
    end = tf.fill([rows, 1], special["end_of_segment_id"])
    parts = [tf.concat([start, segments[0], end], axis=1)]
    parts += [tf.concat([segment, end], axis=1) for segment in segments[1:]]
    ids = tf.concat(parts, axis=1)
    types = tf.concat([tf.ones_like(part) * i for i, part in enumerate(parts)], axis=1)
    return {
        "input_word_ids": _padded(ids, seq_length, special["padding_id"]),
        "input_mask": _padded(tf.ones_like(ids), seq_length),
        "input_type_ids": _padded(types, seq_length),
    }


def _one_row_per_text(segment):
    words_apart = segment.shape.rank == 3
    return segment.merge_dims(1, 2) if words_apart else segment


def _truncated(segments, seq_length):
    """Segments (int32 ragged [B, (T)]) that fit into `seq_length` with [CLS] and [SEP]s."""
    room = tf.cast(seq_length, tf.int64) - len(segments) - 1
    too_small = "seq_length has no room for [CLS] and [SEP]; give a larger one"
    with tf.control_dependencies([tf.debugging.assert_non_negative(room, too_small)]):
        room = tf.identity(room)
    lengths = [segment.row_lengths() for segment in segments]
    if len(segments) == 1:
        kept = [tf.minimum(lengths[0], room)]
    else:
        # What is left when the longer one loses its last piece again and again, b on a tie.
        a, b = lengths
        kept = [
            tf.minimum(a, tf.maximum(room - b, (room + 1) // 2)),
            tf.minimum(b, tf.maximum(room - a, room // 2)),
        ]
    return [
        cut_rows(segment, tf.zeros_like(length), length)
        for segment, length in zip(segments, kept, strict=True)
    ]


def cut_rows(rows, begin, end, row=None):
    """Pieces [begin, end) of rows, gathered one by one: a row may be long and be cut often.

    Args:
      rows: RaggedTensor [B, (T)].
      begin: integer tensor [n].
      end: integer tensor [n].
      row: int32 [n], the row that each is cut from; None: n = B, each from its own.

    Returns:
      RaggedTensor [n, (T)].
    """
    row_starts = tf.cast(rows.row_starts(), begin.dtype)
    if row is not None:
        row_starts = tf.gather(row_starts, row)
    indices = tf.ragged.range(row_starts + begin, row_starts + end)
    return indices.with_values(tf.gather(rows.values, indices.values))


def _padded(rows, seq_length, padding=0):
    if seq_length is None:
        return rows.to_tensor(padding)
    padded = rows.to_tensor(padding, shape=tf.stack([-1, seq_length]))
    return tf.ensure_shape(padded, [None, tf.get_static_value(seq_length)])
