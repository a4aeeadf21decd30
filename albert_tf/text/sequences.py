# SPDX-License-Identifier: Apache-2.0
"""Builds the sequence that a model reads from one or two texts: [CLS] a [SEP] b [SEP]."""

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from albert_tf.errors import UserError, check_whole
from albert_tf.options import NUM_SPECIALS, NUM_SPECIALS_OF_ONE, SHORTEST

Texts = list[str] | tuple[str, ...] | npt.NDArray[Any]  # several texts; arrays are of str


def cut(first, second, max_length):
    """Cuts the ids of two texts so that they fit into a sequence.

    If a pair is too long, the longer text loses its last ids until both are equally long; then
    they lose ids in turn. This is the original's rule in closed form.

    Args:
        first: list of int.
        second: list of int, empty if there is only one text.
        max_length: int, longest sequence in tokens.

    Returns:
        (list of int, list of int).
    """
    if not second:
        return first[: max_length - NUM_SPECIALS_OF_ONE], second
    room = max_length - NUM_SPECIALS
    half = (room + 1) // 2  # if both are equally long, the second loses the odd token
    first = first[: max(half, room - len(second))]
    return first, second[: room - len(first)]


def both_ends(ids, count):
    """The first and the last ids of a text, `count` together, half of them each."""
    return ids[: count // 2] + ids[len(ids) - (count - count // 2) :]


def pack_segments(firsts, seconds, special_ids, max_length, together=1):
    """Arrays of the sequences [CLS] first [SEP] second [SEP], padded with 0.

    Args:
        firsts: list of n lists of int, ids of the first segments, already cut; None instead of a
            list for a sequence that is absent, all 0.
        seconds: list of n items: a list of int, or None for a sequence [CLS] first [SEP].
        special_ids: tokenization.SpecialIds.
        max_length: int, T.
        together: int, W, sequences of a row.

    Returns:
        dict of numpy arrays [n / W, W * T]: input_ids (int32), input_mask and segment_ids (int8).
    """
    cls, sep = [special_ids.cls], [special_ids.sep]
    heads = [[] if first is None else cls + first + sep for first in firsts]
    rows = [
        head if second is None else head + second + sep
        for head, second in zip(heads, seconds, strict=True)
    ]
    ends_of_first = np.array([len(head) for head in heads], int)[:, np.newaxis]
    ends = np.array([len(row) for row in rows], int)[:, np.newaxis]
    positions = np.arange(max_length)
    mask = positions < ends
    ids = np.full(mask.shape, np.where(ends, special_ids.pad, 0), np.int32)
    ids[mask] = np.fromiter(itertools.chain.from_iterable(rows), np.int32, count=ends.sum())
    found = {
        "input_ids": ids,
        "input_mask": mask.astype(np.int8),
        "segment_ids": (mask & (positions >= ends_of_first)).astype(np.int8),
    }
    return {name: values.reshape(-1, together * max_length) for name, values in found.items()}


def pack_pairs(tokenizer, texts, pairs, max_length, lengths, keeps_ends):
    """Arrays of `pack_segments` of texts and second texts that are cut to fit.

    Args:
        tokenizer: FullTokenizer.
        texts: list of n str, normalized.
        pairs: list of n str, normalized; None or "" for no second text.
        max_length: int, T.
        lengths: list, to which the lengths of the sequences before the cut are added.
        keeps_ends: bool, whether a text loses its middle, and not its end.
    """
    firsts, seconds = [], []
    for text, pair in zip(texts, pairs, strict=True):
        second = tokenizer.encode_ids(pair, is_normalized=True) if pair else []
        first = tokenizer.encode_ids(text, is_normalized=True)
        lengths.append(len(first) + len(second) + (NUM_SPECIALS if second else NUM_SPECIALS_OF_ONE))
        kept = cut(first, second, max_length)
        if keeps_ends:
            kept = [both_ends(ids, len(n)) for ids, n in zip((first, second), kept, strict=True)]
        first, second = kept
        firsts.append(first)
        seconds.append(second or None)
    return pack_segments(firsts, seconds, tokenizer.special_ids(with_mask=False), max_length)


def pack_windows(tokenizer, texts, max_length, windows, lengths):
    """Arrays of the parts of texts, one after another, each as [CLS] part [SEP].

    The last part of a text overlaps the one before, so that it is as long as the others.

    Args:
        tokenizer: FullTokenizer.
        texts: list of n str, normalized.
        max_length: int, T.
        windows: int, W; later parts are left out.
        lengths: list, as of `pack_pairs`.

    Returns:
        dict of numpy arrays [n, W * T], as of `pack_segments`; all 0 where a text has fewer parts.
    """
    parts, room = [], max_length - NUM_SPECIALS_OF_ONE
    for text in texts:
        ids = tokenizer.encode_ids(text, is_normalized=True)
        lengths.append(len(ids) + NUM_SPECIALS_OF_ONE)
        last = max(len(ids) - room, 0)  # a part that ends with the text, as long as the others
        starts = (min(start, last) for start in range(0, max(len(ids), 1), room))
        found = [ids[start : start + room] for start in starts]
        parts += [*found, *[None] * windows][:windows]
    special_ids = tokenizer.special_ids(with_mask=False)
    return pack_segments(parts, [None] * len(parts), special_ids, max_length, windows)


def as_texts(texts: str | Texts, name: str = "texts") -> list[str]:
    """Converts one text or several to a list of str.

    Args:
        texts: str, or a list, tuple, array or Series of pandas, of str.
        name: str, name of the argument, for the message.

    Raises:
        UserError: `texts` is something else.
    """
    found = texts.tolist() if hasattr(texts, "tolist") else texts
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list | tuple):
        received = f"{type(found).__name__} {found!r:.80}"
        raise UserError(f"{name} must be a str or a list of str. Received: {received}")
    for number, text in enumerate(found):
        if not isinstance(text, str):
            hint = ""
            if str(text) in ("None", "nan", "<NA>", "NaT"):
                hint = '. In pandas, fillna("") makes missing cells empty texts'
            elif isinstance(text, list | tuple | np.ndarray):
                hint = ". Give second texts as a list of their own, and words joined by spaces"
            elif isinstance(text, bytes):
                hint = ". Decode it: text.decode()"
            elif isinstance(text, dict):
                hint = ". A fine-tuned model takes a list of dicts in answers(examples)"
            received = f"{type(text).__name__} {text!r:.80}"
            raise UserError(f"{name}[{number}] must be a str. Received: {received}{hint}")
    return list(found)


def packed(tokenizer, texts, pairs, max_length, lengths=None, keeps_ends=False):
    """Encodes texts as features of records: the arrays of `pack_pairs`, as int32 [n, T].

    Args:
        tokenizer: FullTokenizer.
        texts: str or list of n str, not normalized.
        pairs: None, or one second text for each text; "" for no second text.
        max_length: int, T.
        lengths: list, as of `pack_pairs`; None if they are not needed.
        keeps_ends: bool, as of `pack_pairs`.

    Raises:
        UserError: an argument is invalid.
    """
    check_whole("max_length", max_length, SHORTEST)
    texts = as_texts(texts)
    pairs = [""] * len(texts) if pairs is None else as_texts(pairs, "pairs")
    if len(pairs) != len(texts):
        raise UserError(f"give one pair per text. Received: {len(texts)} texts, {len(pairs)} pairs")
    # Normalize first: a second text of only white space counts as absent, as in the scripts.
    texts, pairs = (list(map(tokenizer.normalize, each)) for each in (texts, pairs))
    lengths = [] if lengths is None else lengths
    features = pack_pairs(tokenizer, texts, pairs, max_length, lengths, keeps_ends)
    return {name: values.astype(np.int32) for name, values in features.items()}
