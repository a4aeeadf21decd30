# SPDX-License-Identifier: Apache-2.0
"""Trains SentencePiece models with the options of the published ALBERT models."""

import collections
import dataclasses
import io
import random
import re
import unicodedata

import sentencepiece

from albert_tf.errors import UserError
from albert_tf.options import SPM_SYMBOLS
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text import tokenization

# The original's README, section on training SentencePiece. The ids are then <pad> 0, <unk> 1,
# [CLS] 2, [SEP] 3, [MASK] 4. The comma is not among the symbols, since it separates them.
_CONTROL = ("[CLS]", "[SEP]", "[MASK]")
_RELEASE = {
    "model_type": "unigram",
    "pad_id": 0,
    "unk_id": 1,
    "bos_id": -1,
    "eos_id": -1,
    "control_symbols": list(_CONTROL),
    "shuffle_input_sentence": True,
}
_SPECIAL = ("<pad>", "<unk>", *_CONTROL)
# Sums in training depend on how sentences are divided among threads, so a fixed number of threads
# gives the same model on every machine.
_THREADS = 4
_EXPLANATIONS = {  # of an error of SentencePiece: a pattern -> what to say
    r"too high.*value <= (\d+)": "--vocab_size={vocab_size}: this text gives at most {} pieces; "
    "lower it or give more text",
    r"required_chars\. \d+ vs (\d+)": "--vocab_size={vocab_size}: the characters alone need {} "
    "pieces; give more, or lower --character_coverage={character_coverage}",
    "too large": "--input_sentence_size={input_sentence_size}: SentencePiece fails; lower it",
}
_RESERVED = "▅"  # SentencePiece leaves out sentences with it


class Sample:
    """The sentences to train on: all of a text, or a random choice.

    SentencePiece could choose too, but its choice differs every time.

    Args:
        sentences: iterable of str, from `CleanUp`; empty ones are skipped.
        options: options.SentencePiece.
        is_split: bool, whether the text was split into sentences; if not, each line is a sentence.

    Attributes:
        kept: list of str, the sentences to train on.
        read: int, number of usable sentences.
        too_long, reserved: int, numbers of sentences left out because of their length, or because
            they contain the character that SentencePiece reserves.

    Raises:
        UserError: there is no sentence.
    """

    def __init__(self, sentences, options, is_split=False):
        self._options, self._is_split = options, is_split
        self.kept, self.read, self.too_long, self.reserved = [], 0, 0, 0
        draw = random.Random(options.seed)
        for sentence in sentences:
            # As in the file: decomposed Hangul has twice as many bytes.
            if len(unicodedata.normalize("NFC", sentence).encode()) > options.max_sentence_length:
                self.too_long += 1
            elif _RESERVED in sentence:
                self.reserved += 1
            elif sentence:
                self.read += 1
                # All sentences are equally likely to be kept.
                if len(self.kept) < options.input_sentence_size:
                    self.kept.append(sentence)
                elif (place := draw.randrange(self.read)) < len(self.kept):
                    self.kept[place] = sentence
        if not self.kept:
            reasons = "".join(f"; {n} {what}" for what, n in self.left_out().items())
            raise UserError(f"--input_file: it holds no sentence to train on{reasons}")

    def left_out(self):
        """The sentences left out: dict of what they are -> their number."""
        longer = f"longer than --max_sentence_length={self._options.max_sentence_length} bytes"
        if not self._is_split:
            longer += " (text without line breaks? --input_format=documents splits it)"
        reserved = f"with {_RESERVED!r}, which SentencePiece reserves"
        return {what: n for what, n in ((longer, self.too_long), (reserved, self.reserved)) if n}


def train(sentences, options, shows_log=False):
    """Trains a model; the same sentences give the same model.

    Args:
        sentences: list of str, from a `Sample`. It is emptied, since SentencePiece has a copy.
        options: options.SentencePiece.
        shows_log: bool, whether SentencePiece logs to stderr.

    Returns:
        bytes, the content of a .model file.

    Raises:
        UserError: no model of this size can be made from the text.
    """
    given = dataclasses.asdict(options)
    del given["seed"]  # only matters for choosing the sentences
    # SentencePiece refuses a symbol that is given twice.
    symbols = dict.fromkeys((*SPM_SYMBOLS, *options.user_defined_symbols))
    given["user_defined_symbols"] = list(symbols)
    longest = max(len(sentence.encode()) for sentence in sentences)  # decomposed, see `Sample`
    given["max_sentence_length"] = max(options.max_sentence_length, longest)
    sentences.reverse()
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(sentences.pop() for _ in range(len(sentences))),
            model_writer=model,
            num_threads=_THREADS,
            minloglevel=0 if shows_log else 1,
            **_RELEASE,
            **given,
        )
    except RuntimeError as error:  # the library's type for all errors
        raise UserError(_explained(str(error), options)) from error
    return _portable(model.getvalue())


def _portable(model):
    """A trained model with which all libraries split texts in the same way.

    Scores become multiples of 1/1024: their sums are exact in float32, so splits of equal score are
    equal everywhere, and the first one is taken. Pieces of a number and a comma, which
    `tokenization.encode_pieces` would split again, are not used at all.
    """
    proto = ModelProto.FromString(model)
    for piece in proto.pieces:
        piece.score = round(piece.score * 1024) / 1024
        if tokenization.is_number_and_comma(piece.piece):
            piece.type = piece.UNUSED
    return proto.SerializeToString()


def table_of(rule):
    """The table of a rule of NORMALIZATION_RULES: callable from str to str, as `apply_table`."""
    return sentencepiece.SentencePieceNormalizer(rule_name=rule).normalize


def unknown_characters(model, characters):
    """Characters of the text that have no piece.

    Args:
        model: bytes, the content of a .model file.
        characters: Counter of characters of cleaned text.

    Returns:
        Counter of some of them.
    """
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    unknown = processor.unk_id()
    return collections.Counter(
        {char: n for char, n in characters.items() if unknown in processor.encode(char)}
    )


def symbols_in_text(symbols, clean_up):
    """Symbols as they stand in text, if they can be found there: list of str.

    The same symbol may be written with composed or with decomposed letters.

    Args:
        symbols: list of str, those of --user_defined_symbols.
        clean_up: CleanUp.

    Raises:
        UserError: a symbol is special, or the clean-up of the text changes it.
    """
    cleaned = []
    for symbol in symbols:
        where = f"--user_defined_symbols: {symbol!r}"
        if symbol in _SPECIAL:
            raise UserError(f"{where} is a special piece of the model; leave it out")
        found = clean_up(symbol)
        composed = [unicodedata.normalize("NFC", text) for text in (symbol, found)]
        if composed[0] != composed[1] or not found or " " in found:
            raise UserError(
                f"{where} becomes {found!r} in the text; give a symbol without spaces that its "
                "clean-up does not change"
            )
        cleaned.append(found)
    return cleaned


def _explained(message, options):
    """SentencePiece's message about a failed training, with the remedy."""
    for pattern, explanation in _EXPLANATIONS.items():
        if match := re.search(pattern, message):
            return explanation.format(*match.groups(), **dataclasses.asdict(options))
    return f"--input_file: SentencePiece cannot train on this text: {message.strip()}"


def vocabulary_text(model):
    """The content of the .vocab file of a model: its pieces and their scores.

    Args:
        model: bytes, from `train`.
    """
    pieces = ModelProto.FromString(model).pieces
    return "".join(f"{piece.piece}\t{piece.score:g}\n" for piece in pieces)
