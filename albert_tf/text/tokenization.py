# SPDX-License-Identifier: Apache-2.0
"""Tokenization of ALBERT: text clean-up, SentencePiece and WordPiece.

Paper: section 4.1 (SentencePiece vocabulary of 30,000, as XLNet). The Chinese models of the
original release use a WordPiece vocabulary file instead. `FullTokenizer` covers both.
"""

import dataclasses
import functools
import hashlib
import itertools
import os
import re
import string
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sentencepiece

from albert_tf import errors, vocabulary_record
from albert_tf.errors import CalledElsewhere, UserError
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text import sequences
from albert_tf.text.clean_up import CleanUp
from albert_tf.text.sequences import Texts

_MOST_MARKED = 0.1  # of the tokens, with the mark of a space of SentencePiece, or of GPT's pieces
# White space, without the control characters that WordPiece's clean-up drops.
_SPACES = re.compile(r"[^\S\x0b\x0c\x1c-\x1f\x85]+")
# Beginnings of the names of letters whose languages do not put spaces between words.
_WITHOUT_SPACES = (
    "CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "YI ", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN",
)  # fmt: skip
WORD_START = "▁"  # U+2581, SentencePiece's mark of a space
UNKNOWN = "[UNK]"
UNKNOWN_PIECES = ("<unk>", UNKNOWN)  # of SentencePiece, of WordPiece
MAX_CHARS_PER_WORD = 200  # a longer word is one [UNK] in WordPiece mode
_MOST_CACHED = 1 << 17
PAD_ID = 0  # a literal in the original: never looked up by name

# The original's list: it lacks ' < = >, and the masks of its training data depend on that.
_SPECIAL_CHARS = frozenset(string.punctuation) - frozenset("'<=>")
_CONTINUATION = re.compile("<0x[89AB][0-9A-F]>")  # a piece of --byte_fallback
_INNER_CHARS = _SPECIAL_CHARS | frozenset(string.ascii_lowercase)

_CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class SpecialIds(NamedTuple):
    """Ids of the special pieces; `mask` is None if it is not needed and not in the vocabulary."""

    pad: int
    cls: int
    sep: int
    mask: int | None


def preprocess_text(text, lower=False, remove_space=True, strip_accents=True):
    """Cleans text up as the released SentencePiece models expect: see `CleanUp`."""
    return CleanUp(lower, strip_accents)(text, remove_space)


# --- SentencePiece ---


def load_sentencepiece(path):
    """Loads a SentencePiece model.

    Args:
        path: str, anything tf.io.gfile opens (`gs://` too).

    Returns:
        sentencepiece.SentencePieceProcessor, loaded from the serialized model (so it pickles).

    Raises:
        UserError: the file cannot be read, or is not a SentencePiece model.
    """
    sentencepiece.set_min_log_level(1)  # warnings; it would say that a model has no table
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(_file_content(path, "spm_model_file"))
    except RuntimeError as error:
        # Behind the place in its source, the library says why.
        reason = str(error).rpartition("] ")[2].strip() or "it is damaged or of another kind"
        raise UserError(
            f"spm_model_file: {path} is not a usable SentencePiece model ({reason}); give a .model "
            "file, or a WordPiece vocabulary as vocab_file"
        ) from error
    return processor


def encode_pieces(processor, text):
    """Pieces of a text; as in the original, a number is split from the comma after it.

    A piece that ends in a digit and a comma is split: the number is encoded again, then ",".
    As in the original under Python 3, the new encoding keeps its leading "▁" even inside a word:
    "1990,000" may give "▁199" "▁" "0" "," "000". Dropping it would change ids.

    Args:
        processor: SentencePieceProcessor.
        text: str, normalised by the caller.

    Returns:
        list of str.

    Raises:
        UserError: the text is not valid Unicode (half of a surrogate pair).
    """
    pieces = []
    for piece in _encode(processor, text):
        if piece.endswith(",") and is_number_and_comma(piece):  # few pieces are worth a call
            number = piece[:-1].replace(WORD_START, "")
            pieces += [*_encode(processor, number), ","]
        else:
            pieces.append(piece)
    return pieces


def is_number_and_comma(piece):
    """Whether a piece (str) ends in a digit and a comma, so that `encode_pieces` splits it."""
    return piece.endswith(",") and piece[-2:-1].isdigit()


def _encode(processor, text):
    try:
        return processor.encode(text, out_type=str)
    except (RuntimeError, UnicodeEncodeError) as error:
        raise UserError(f"text is not valid Unicode, correct it: {text!r}") from error


# --- WordPiece ---


def load_vocabulary(path):
    """Loads a WordPiece vocabulary from a file with one token on each line.

    The token is the first field of the line, or " " if the line is blank. A repeated token takes no
    id, so the ids after it differ from the line numbers; published vocabularies rely on this.

    Args:
        path: str, anything tf.io.gfile opens (`gs://` too).

    Returns:
        dict of token (str) to id (int), in the order of the ids.

    Raises:
        UserError: the file cannot be read, is empty or is not UTF-8 text.
    """
    try:
        text = _file_content(path, "vocab_file").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        remedy = "give one token per line, or a .model file as spm_model_file"
        raise UserError(f"vocab_file: {path} is not UTF-8; {remedy}") from error
    if not text:
        raise UserError(f"vocab_file: {path} is empty; it needs one token per line")
    vocab = {}
    # TensorFlow's line reader, which the original used, drops every "\r" and breaks only at "\n".
    for line in text.replace("\r", "").removesuffix("\n").split("\n"):
        token = (line.split() or [" "])[0]
        vocab.setdefault(token, len(vocab))
    marked = sum(token.startswith((WORD_START, "Ġ")) for token in vocab)
    is_other = "\t-" in text or ("[CLS]" in text and "[CLS]" not in vocab)  # scores, or columns
    if is_other or text.startswith(("<!", "<html")) or marked > _MOST_MARKED * len(vocab):
        raise UserError(
            f"vocab_file: {path} is no WordPiece vocabulary with a token on each line. It begins "
            f"with {text[:50]!r}, and {marked} of {len(vocab)} tokens begin with {WORD_START!r} or "
            "'Ġ'. Give vocab.txt, or a .model file as spm_model_file"
        )
    return vocab


def basic_tokens(text, lower=True, strip_accents=True):
    """Words and punctuation marks of a text; every CJK character is a word.

    Args:
        text: str.
        lower: bool, lower-case.
        strip_accents: bool, drop accents while lower-casing. If lower is False, they stay.

    Returns:
        list of str.
    """
    text = "".join(map(_cached_cleaned, text))
    if lower:
        text = text.lower()
    if lower and strip_accents:
        text = unicodedata.normalize("NFD", text)
        text = "".join(itertools.filterfalse(_cached_is_accent, text))
    return "".join(map(_cached_set_apart, text)).split()


def wordpieces(word, vocab):
    """Longest pieces of a word from left to right; those inside the word begin with "##".

    Args:
        word: str without white space.
        vocab: dict of token to id.

    Returns:
        list of str; just "[UNK]" if part of the word is not covered or it has over 200 characters.
    """
    if len(word) > MAX_CHARS_PER_WORD:
        return [UNKNOWN]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            piece = prefix + word[start:end]
            if piece in vocab:
                break
        else:
            return [UNKNOWN]
        pieces.append(piece)
        start = end
    return pieces


# Clean-up of one character. The results are cached, since a text has few different characters.


def cleaned(char):
    """A character after WordPiece's clean-up: unchanged, dropped (""), or with spaces around it."""
    if char in "\t\n\r":  # the only control characters that stay: they are white space
        return char
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf"):
        return ""
    if any(first <= ord(char) <= last for first, last in _CJK_RANGES):
        return f" {char} "
    return char


def is_unspaced(char):
    """Whether a character is of a script whose languages do not put spaces between words (bool)."""
    return unicodedata.name(char, "").startswith(_WITHOUT_SPACES)


def is_accent(char):
    """Whether lower-casing drops a character of decomposed text."""
    return unicodedata.category(char) == "Mn"


def set_apart(char):
    """A character, with spaces around it if it is a word of its own."""
    # Signs such as $ + ` are not punctuation in Unicode, but are split as if they were.
    is_punctuation = char in string.punctuation or unicodedata.category(char).startswith("P")
    return f" {char} " if is_punctuation else char


# Not for exports, which ask for all characters once.
_cached_cleaned, _cached_is_accent, _cached_set_apart = map(
    functools.cache, (cleaned, is_accent, set_apart)
)


# --- Where words start ---


def is_start_piece(piece, is_sentencepiece=True):
    """Whether a piece starts a word, for whole-word masking and `token_boundary`.

    A WordPiece piece starts a word if it does not begin with "##". A SentencePiece piece does if it
    is a single punctuation mark, or contains anything but ASCII letters and these marks ("▁",
    digits, foreign letters, and ' < = >, which the original's list lacks). The caller has to handle
    [CLS] and [SEP]. The later bytes of a character that is written in bytes start none.

    Args:
        piece: str, the piece as tokenized ("<unk>" always starts a word).
        is_sentencepiece: bool, whether to use the rule for SentencePiece.

    Returns:
        bool.
    """
    if not is_sentencepiece:
        return not piece.startswith("##")
    if _CONTINUATION.fullmatch(piece):
        return False
    return piece in _SPECIAL_CHARS or any(char.lower() not in _INNER_CHARS for char in piece)


# --- The tokenizer of a model ---


class FullTokenizer:
    """Tokenizer of a model: SentencePiece if `spm_model_file` is given, else WordPiece. Picklable.

    The constructor returns a SentencePieceTokenizer or a WordPieceTokenizer.

    Args:
        vocab_file: str or None, WordPiece vocabulary; ignored when there is a SentencePiece model.
        do_lower_case: bool, whether text is lower-cased; None as the vocabulary records it, or True
            if it records nothing.
        spm_model_file: str or None, SentencePiece model.
        strip_accents: bool, whether letters lose their marks, such as those of й and ё. With
            WordPiece they lose them only with `do_lower_case`. None as for `do_lower_case`.

    Attributes:
        vocab: dict of piece to id, in the order of the ids.
        inv_vocab: dict of id to piece.
        is_sentencepiece: bool.
        path: str, path of the file.
        do_lower_case, strip_accents: bool.
        clean_up: clean_up.CleanUp.
        sample: text_losses.Sample, which gets each text that `normalize` cleans up; None for none.

    Raises:
        UserError: no file is given, it cannot be used, or it records another clean-up.
    """

    encode = CalledElsewhere("tokenizer(text), or encode_ids(text) without special pieces")
    decode = CalledElsewhere("convert_ids_to_tokens(ids)")
    from_pretrained = CalledElsewhere("albert_tf.load(path).tokenizer")
    sample: Callable[[str], None] | None = None
    # Defined by the subclasses.
    apply_table: Callable[[str], str] | None = None
    is_sentencepiece: bool
    _remedy: str
    _load_vocab: Callable[[], dict[str, int]]
    _content: Callable[[], bytes]
    _pieces: Callable[[str], list[str]]
    _missing_id: Callable[[str], int]

    def __new__(cls, vocab_file=None, do_lower_case=None, spm_model_file=None, strip_accents=None):
        if cls is FullTokenizer:
            cls = SentencePieceTokenizer if spm_model_file else WordPieceTokenizer
        return super().__new__(cls)

    def __init__(
        self,
        vocab_file: str | None = None,
        do_lower_case: bool | None = None,
        spm_model_file: str | None = None,
        strip_accents: bool | None = None,
    ) -> None:
        path = spm_model_file or vocab_file
        if not path:
            raise UserError("a tokenizer needs a file: give spm_model_file or vocab_file")
        self.path = path
        self.vocab: dict[str, int] = self._load_vocab()
        self.inv_vocab = {id_: piece for piece, id_ in self.vocab.items()}
        given = {"do_lower_case": do_lower_case, "strip_accents": strip_accents}
        for name, value in given.items():
            if isinstance(value, str):  # "false" would be true
                raise UserError(f"{name} must be True, False or None. Received: {value!r:.80}")
        self.clean_up = self._clean_up_of({n: v for n, v in given.items() if v is not None})
        self.do_lower_case = self.clean_up.do_lower_case
        self.strip_accents = self.clean_up.strip_accents

    def _clean_up_of(self, given):
        """The CleanUp; `given` has the arguments on casing that are not None."""
        return CleanUp(**given)

    def __call__(
        self,
        texts: str | Texts,
        pairs: str | Texts | None = None,
        max_length: int = 512,
        return_tensors: str | None = None,
    ) -> dict[str, Any]:
        """Encodes texts as inputs of a model: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP].

        A text that is too long is cut at its end; of a pair, the longer text is cut, as in the
        scripts.

        Args:
            texts: str or list of n str.
            pairs: None, or one second text for each text; "" for no second text.
            max_length: int, longest sequence in tokens.
            return_tensors: "tf" for tensors; "np" or None for numpy arrays.

        Returns:
            dict of int32 [n, T]: `input_ids`, `input_mask` (1 for pieces, 0 for padding) and
            `token_type_ids` (1 for the second text); T is the length of the longest sequence.

        Raises:
            UserError: an argument is invalid.
        """
        if return_tensors not in ("tf", "np", None):
            raise UserError(f'return_tensors must be "tf" or "np". Received: {return_tensors!r}')
        features = sequences.packed(self, texts, pairs, max_length)
        features["token_type_ids"] = features.pop("segment_ids")
        longest = int(features["input_mask"].sum(axis=1).max(initial=0))
        arrays = {name: values[:, :longest] for name, values in features.items()}
        if return_tensors != "tf":
            return arrays
        import tensorflow as tf  # here, because nothing else in this package needs its slow import

        return {name: tf.constant(values) for name, values in arrays.items()}

    @property
    def vocab_size(self) -> int:
        """Number of different pieces (int)."""
        return len(self.vocab)

    @property
    def arguments(self) -> dict[str, str | bool]:
        """The constructor's arguments (dict) that make the same tokenizer in any directory."""
        path = self.path if "://" in self.path else os.path.abspath(self.path)
        return {"spm_model_file" if self.is_sentencepiece else "vocab_file": path, **self.casing}

    @property
    def casing(self) -> dict[str, bool]:
        """The arguments on casing: dict of `do_lower_case` and `strip_accents`."""
        return {"do_lower_case": self.do_lower_case, "strip_accents": self.strip_accents}

    @property
    def fingerprint(self) -> str:
        """Hash (str) of all that determines pieces and ids: vocabulary, kind and clean-up."""
        accents = "" if self.strip_accents else "accents "
        accents += "" if self.clean_up.decomposes else "composed "
        kind = f"{self.is_sentencepiece} {self.do_lower_case} {accents}"
        return hashlib.sha256(kind.encode() + self._content()).hexdigest()

    def normalize(self, text: str | bytes) -> str:
        """Cleans text up for the vocabulary; WordPiece only decodes, as `tokenize` does the rest.

        Args:
            text: str, or bytes in UTF-8 (invalid bytes are dropped).

        Returns:
            str.
        """
        decoded: str = _decoded(text)
        if self.sample:
            self.sample(decoded)
        return decoded

    def normalize_batch(self, texts: list[str]) -> list[str]:
        """Applies `normalize` to many texts, faster than one by one.

        Args:
            texts: list of str.

        Returns:
            list of str.
        """
        return [self.normalize(text) for text in texts]

    def tokenize(self, text: str | bytes, is_normalized: bool = False) -> list[str]:
        """Pieces of a text.

        Args:
            text: str, or bytes in UTF-8 (invalid bytes are dropped).
            is_normalized: bool, whether the text is from `normalize`. Some texts, such as those
                with a "\u00a8", change again when they are normalised twice.

        Returns:
            list of str.
        """
        return self._pieces(_decoded(text) if is_normalized else self.normalize(text))

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Ids of pieces.

        Args:
            tokens: iterable of str.

        Returns:
            list of int. In SentencePiece mode, a piece that is not in the vocabulary is unknown.

        Raises:
            UserError: WordPiece mode and a token is not in the vocabulary.
        """
        if isinstance(tokens, str):  # whose letters would be taken one by one
            raise UserError(f"tokens must be a list of str. Received: {tokens!r:.80}")
        vocab, missing_id = self.vocab, self._missing_id
        return [vocab[token] if token in vocab else missing_id(token) for token in tokens]

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Pieces of ids.

        Args:
            ids: iterable of int.

        Returns:
            list of str.

        Raises:
            UserError: an id is outside the vocabulary.
        """
        try:
            return [self.inv_vocab[id_] for id_ in ids]
        except KeyError as error:
            raise UserError(
                f"{self.path} has ids 0 to {self.vocab_size - 1}. Received: {error.args[0]}"
            ) from error

    def encode_ids(self, text: str | bytes, is_normalized: bool = False) -> list[int]:
        """Ids of `tokenize`, with the same arguments.

        Returns:
            list of int.
        """
        return self.convert_tokens_to_ids(self.tokenize(text, is_normalized))

    def encode_batch(self, texts: list[str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Ids of many texts, faster than one by one.

        In SentencePiece mode, all unknown pieces share one id, and the rule of `encode_pieces` for
        a number before a comma is not applied; `needs_pieces` tells which ids may be affected.

        Args:
            texts: list of str, from `normalize`.

        Returns:
            (int32 array of the ids of all texts, int64 array of the number of ids of each text).
        """
        return _flat([self.encode_ids(text, is_normalized=True) for text in texts])

    def needs_pieces(self, id_: int) -> bool:
        """Whether a text with this id (int) from `encode_batch` has to go through `tokenize`."""
        return False

    def special_ids(self, with_mask: bool = True) -> SpecialIds:
        """Ids of the special pieces.

        Args:
            with_mask: bool, whether [MASK] has to be there (only pre-training needs it).

        Returns:
            SpecialIds.

        Raises:
            UserError: a piece that is needed is not in the vocabulary.
        """
        needed = ["[CLS]", "[SEP]"] + ["[MASK]"] * with_mask
        missing = [piece for piece in needed if piece not in self.vocab]
        if missing:
            raise UserError(f"{self.path} lacks the piece {' and '.join(missing)}; {self._remedy}")
        return SpecialIds(
            PAD_ID, self.vocab["[CLS]"], self.vocab["[SEP]"], self.vocab.get("[MASK]")
        )

    def is_start_piece(self, piece: str) -> bool:
        """Whether a piece (str, as tokenized) starts a word: see the function `is_start_piece`."""
        return is_start_piece(piece, self.is_sentencepiece)


class SentencePieceTokenizer(FullTokenizer):
    """A FullTokenizer with a SentencePiece model."""

    is_sentencepiece = True
    _remedy = "train it with --control_symbols=[CLS],[SEP],[MASK]"

    def _load_vocab(self):
        self._processor = load_sentencepiece(self.path)
        if ModelProto.FromString(self._content()).trainer_spec.treat_whitespace_as_suffix:
            raise UserError(f"{self.path}: train it without --treat_whitespace_as_suffix")
        ids = range(self._processor.vocab_size())
        return {self._processor.id_to_piece(id_): id_ for id_ in ids}

    def _content(self):
        return self._processor.serialized_model_proto()

    def _clean_up_of(self, given):
        model = self._content()
        recorded = vocabulary_record.read(model, self.path)
        for name, value in given.items():
            if recorded.get(name, value) != value:
                raise UserError(
                    f"{name}={value}, but {self.path} records {name}={recorded[name]}: leave "
                    f"{name} out"
                )
        found = CleanUp(**given | recorded)
        spec = ModelProto.FromString(model).normalizer_spec
        decomposes = found.strip_accents or bool(spec.precompiled_charsmap)
        return dataclasses.replace(found, decomposes=decomposes)

    def normalize(self, text: str | bytes) -> str:
        return self.clean_up(super().normalize(text))

    def normalize_batch(self, texts: list[str]) -> list[str]:
        return self.clean_up.lines(texts)

    def apply_table(self, text: str) -> str:
        """Applies the model's own table to a text (str); each space is a "▁"."""
        return str(self._processor.normalize(text))

    def _pieces(self, text):
        return encode_pieces(self._processor, text)

    def _missing_id(self, token):
        return self._processor.unk_id()

    def encode_batch(self, texts: list[str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return _flat(self._processor.encode(texts, num_threads=1))

    def needs_pieces(self, id_: int) -> bool:
        return id_ == self._processor.unk_id() or is_number_and_comma(self.inv_vocab[id_])


class WordPieceTokenizer(FullTokenizer):
    """A FullTokenizer with a WordPiece vocabulary."""

    is_sentencepiece = False
    _remedy = "add it as a line of its own"

    def _load_vocab(self):
        self._ids_of_words = Cache(self.encode_ids)
        return load_vocabulary(self.path)

    def _content(self):
        return "\n".join(self.vocab).encode()

    def _pieces(self, text):
        words = basic_tokens(text, self.do_lower_case, self.strip_accents)
        return [piece for word in words for piece in wordpieces(word, self.vocab)]

    def _missing_id(self, token):
        raise UserError(f"{self.path} has no token {token!r}; {self._remedy}")

    def encode_batch(self, texts: list[str]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        # No step of the tokenization looks beyond a space, so each word can be encoded separately.
        chain = itertools.chain.from_iterable
        ids = self._ids_of_words.__getitem__
        return _flat([list(chain(map(ids, text.split(" ")))) for text in texts])

    def are_after_spaces(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        """Whether each piece is the first one after a space or of its text.

        So all characters of a Chinese word are one word, if there are spaces between words.

        Args:
            texts: list of str, as for `encode_batch`.

        Returns:
            bool array, one for each id of `encode_batch`.
        """
        words = itertools.chain.from_iterable(map(_SPACES.split, texts))
        sizes = np.fromiter((len(self._ids_of_words[word]) for word in words), np.int64)
        sizes = sizes[sizes > 0]
        starts = np.zeros(sizes.sum(), bool)
        starts[np.cumsum(sizes) - sizes] = True
        return starts


class Cache(dict):
    """Cache of a function's results, limited in number; it is pickled without the results.

    Args:
        function: picklable callable of one argument.
    """

    def __init__(self, function):
        self._function = function

    def __missing__(self, key):
        if len(self) >= _MOST_CACHED:
            self.clear()
        self[key] = self._function(key)
        return self[key]

    def __reduce__(self):
        return Cache, (self._function,)


def _flat(rows):
    """Concatenates lists; returns (their values, their lengths)."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(itertools.chain.from_iterable(rows), np.int32, lengths.sum()), lengths


def _decoded(text):
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    if not isinstance(text, str):
        raise UserError(f"a text must be str. Received: {text!r:.80}")
    return text


def _file_content(path, argument):
    from albert_tf import files  # here, because nothing else in this module needs TensorFlow

    with errors.about(argument):
        return files.read_bytes(path)
