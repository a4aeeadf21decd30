# SPDX-License-Identifier: Apache-2.0
"""Features of texts with [MASK], and predictions of the masked tokens."""

import numpy as np
import tensorflow as tf

from albert_tf.errors import UserError
from albert_tf.text import sequences
from albert_tf.text.tokenization import WORD_START

MASK = "[MASK]"
# In place of [MASK], to split what follows: the first that forms no piece with it is taken.
_STAND_INS = (".", ",", "a", "1", "(")


def features(tokenizer, texts, max_length):
    """Features of texts with masks.

    Args:
        tokenizer: FullTokenizer.
        texts: str or list of n str.
        max_length: int.

    Returns:
        (dict of int arrays: input_ids, input_mask and segment_ids [n, T], masked_lm_positions
        [n, P], padded with 0 if a text has fewer masks; list of n int, masks of each text; list of
        n int, lengths of the sequences before the cut).

    Raises:
        UserError: a text has no mask, or one beyond the longest sequence.
    """
    special_ids = tokenizer.special_ids()
    rows, places, lengths = [], [], []
    for text in sequences.as_texts(texts):
        ids = _ids(tokenizer, text, special_ids.mask)
        lengths.append(len(ids) + 2)
        row = ids[: max_length - 2]
        places.append([1 + place for place, id_ in enumerate(row) if id_ == special_ids.mask])
        if not places[-1] or len(places[-1]) < ids.count(special_ids.mask):
            if MASK not in text:
                raise UserError(f"a text needs {MASK} in place of a word. Received: {text:.80}")
            raise UserError(
                f"a text has a {MASK} beyond the first {max_length - 2} tokens, which fit into "
                f"max_seq_length={max_length}: shorten it. It begins: {text:.80}"
            )
        rows.append(row)
    packed = sequences.pack_segments(rows, [None] * len(rows), special_ids, max_length)
    counts = [len(found) for found in places]
    positions = np.zeros([len(rows), max(counts, default=0)], np.int32)
    for row, found in zip(positions, places, strict=True):
        row[: len(found)] = found
    return packed | {"masked_lm_positions": positions}, counts, lengths


def _ids(tokenizer, text, mask_id):
    first, *others = text.split(MASK)
    ids = tokenizer.encode_ids(first)
    for part in others:
        pieces = _pieces_after_mask(tokenizer, part)
        ids += [mask_id, *tokenizer.convert_tokens_to_ids(pieces)]
    return ids


def _pieces_after_mask(tokenizer, part):
    """Pieces of a text that goes on after a mask, with the mark of a space only if it has one."""
    for stand_in in _STAND_INS if tokenizer.is_sentencepiece else ():
        first, *pieces = tokenizer.tokenize(stand_in + part)
        if first == WORD_START and pieces:
            first, *pieces = pieces
        if first.removeprefix(WORD_START) == stand_in:
            return pieces
    return tokenizer.tokenize(part)


def logits(model, features, training):
    """Logits of the tokens at the positions of the masks: float32 [B, P, V]."""
    outputs = model.encoder(features, training=training, positions=features["masked_lm_positions"])
    return model.masked_lm(outputs["sequence_output"], model.encoder.embeddings.word)


def fill(model, top_k, features, training=False):
    """Computes the best pieces for each mask: ids int32 and probabilities float32 [B, P, k]."""
    probabilities, ids = tf.math.top_k(tf.nn.softmax(logits(model, features, training)), top_k)
    return {"ids": ids, "probabilities": probabilities}


def fillings(tokenizer, outputs, counts):
    """Converts outputs of `fill` to text.

    Args:
        tokenizer: FullTokenizer.
        outputs: dict of arrays [n, P, k].
        counts: list of n int, number of masks of each text.

    Returns:
        For each text a list with an entry for each mask: a list of dicts.
    """
    found = []
    for row, count in enumerate(counts):
        ids, probabilities = (outputs[name][row, :count] for name in ("ids", "probabilities"))
        masks = zip(ids.tolist(), probabilities.tolist(), strict=True)
        found.append([_fillings_of_mask(tokenizer, *mask) for mask in masks])
    return found


def _fillings_of_mask(tokenizer, ids, probabilities):
    found = []
    for id_, probability in zip(ids, probabilities, strict=True):
        piece = tokenizer.inv_vocab.get(id_, "")  # a model may have more embeddings than pieces
        text = piece.replace(WORD_START, " ").strip().removeprefix("##")
        found.append({"text": text, "piece": piece, "probability": probability})
    return found
