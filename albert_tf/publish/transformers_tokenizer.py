# SPDX-License-Identifier: Apache-2.0
"""Files from which the transformers library makes a tokenizer with the ids of `FullTokenizer`.

`tokenizer.json` holds every step. The class is PreTrainedTokenizerFast, which follows it;
AlbertTokenizer and BertTokenizer put steps of their own in place of those in the file.
"""

import base64
import re
import sys
import unicodedata

import numpy as np

from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.options import NORMALIZATION_RULES
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.text import clean_up, tokenization
from albert_tf.text.tokenization import MAX_CHARS_PER_WORD, UNKNOWN, WORD_START

_Piece = ModelProto.Piece
_Trainer = ModelProto.Trainer
_PADDING = ("<pad>", "[PAD]")
_NEVER_IN_TEXT = (_Piece.CONTROL, _Piece.UNKNOWN, _Piece.BYTE)
_NO_CHARACTER, _NO_OTHER_CHARACTER = "\ufdd0", "\ufdd1"  # Unicode guarantees that they never are
_FOLDED = {"ς": "σ", "\u0345": "ι"}  # what case folding changes of small letters
_LETTER = r"[\p{Lu}\p{Ll}\p{Lt}]"
_IGNORED = r"[\p{Mn}\p{Me}\p{Cf}\p{Lm}\p{Sk}'’.:·]"  # between a letter and its neighbours


# --- SentencePiece ----------------------------------------------------------------------------


def _sentencepiece(tokenizer):
    """Vocabulary, steps, settings of a tokenizer with a SentencePiece model, and the model's file.

    Raises:
        UserError: the model has a setting that transformers cannot follow.
    """
    model = files.read_bytes(tokenizer.path)
    proto = ModelProto.FromString(model)
    _check_sentencepiece(proto)
    vocabulary = [piece.piece for piece in proto.pieces]
    unknown = proto.trainer_spec.unk_id
    metaspace = {"type": "Metaspace", "replacement": WORD_START, "prepend_scheme": "always",
                 "split": True}  # fmt: skip
    has_bytes = proto.trainer_spec.byte_fallback
    decoders = [{"type": "ByteFallback"}, metaspace]
    steps = {
        "normalizer": _sentencepiece_normalizers(proto, tokenizer.clean_up),
        "pre_tokenizer": [metaspace, _control_split(proto)],
        "decoder": {"type": "Sequence", "decoders": decoders} if has_bytes else metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": unknown,
            "byte_fallback": has_bytes,
            "vocab": [[piece.piece, _score(piece)] for piece in proto.pieces],
        },
    }
    settings = {"unk_token": vocabulary[unknown], "bos_token": "[CLS]", "eos_token": "[SEP]"}
    return vocabulary, steps, settings, {"spiece.model": model}


def _check_sentencepiece(proto):
    trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
    kind = _Trainer.ModelType.Name(trainer.model_type).lower()
    unused = [piece.piece for piece in proto.pieces if piece.type == _Piece.UNUSED]
    n_bytes = sum(piece.type == _Piece.BYTE for piece in proto.pieces)
    has_table = bool(normalizer.precompiled_charsmap)
    faults = {
        f"is of the type {kind}": kind != "unigram",
        f"has a table of its own for characters, {normalizer.name}": has_table
        and normalizer.name not in NORMALIZATION_RULES,
        "falls back to bytes without a piece for each byte": n_bytes != 256 * trainer.byte_fallback,
        "has unused pieces": not all(map(tokenization.is_number_and_comma, unused)),
        "has pieces of several words": any(WORD_START in p.piece[1:] for p in proto.pieces),
        # Its class is new in Unicode 12; transformers puts it behind other marks of its letter.
        "has pieces with the Lao sign U+0EBA": any("\u0eba" in p.piece for p in proto.pieces),
        "has add_dummy_prefix=false": not normalizer.add_dummy_prefix,
        "has remove_extra_whitespaces=false": not normalizer.remove_extra_whitespaces,
        "has escape_whitespaces=false": not normalizer.escape_whitespaces,
    }
    found = [fault for fault, is_there in faults.items() if is_there]
    if found:
        raise UserError(
            f"the SentencePiece model {', '.join(found)}, unlike ALBERT's (docs/checkpoints.md)"
        )


def _sentencepiece_normalizers(proto, settings):
    """The steps of `CleanUp`, and then the model's own table."""
    steps = [_replace(str.isspace, " ")]  # U+001C to U+001F are spaces only in Python
    if settings.decomposes:
        steps.append({"type": "NFKD"})
    if settings.do_lower_case and settings.casing_language in clean_up.CASED_APART:
        steps += _lowered_apart(settings.casing_language)
    if settings.strip_accents:  # StripAccents takes the marks of class 0 too
        steps.append(_replace(unicodedata.combining, ""))
    # transformers drops the marks after a letter that a table changes, so no letter may be left to
    # a table that folds case.
    folds = proto.normalizer_spec.name.endswith("_cf")
    folds_in_table = folds and not settings.do_lower_case
    if folds_in_table:  # which leaves an I with a dot above as it is
        steps.append(_replace_text("I" + clean_up.DOT_ABOVE, _NO_OTHER_CHARACTER))
    if settings.do_lower_case or folds_in_table:
        steps += _lowered()
    charsmap = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode("ascii")
    if charsmap:
        # The table composes letters and marks, but transformers applies it to single characters.
        steps += [
            _replace_match(_before_marks_that_stay(), _NO_CHARACTER),
            {"type": "NFC"},
            _replace_text(_NO_CHARACTER, ""),
            *(_replace_text(*pair) for pair in _FOLDED.items() if folds),
            {"type": "Precompiled", "precompiled_charsmap": charsmap},
        ]
    if folds_in_table:
        steps.append(_replace_text(_NO_OTHER_CHARACTER, "\u0130"))
    # Without a table that makes a space of it, the mark of a space may stand in the text. A word
    # that begins with it gets another one, which Metaspace then leaves out.
    if not proto.normalizer_spec.name.startswith("nmt_"):
        steps.append(_replace_match(rf"(?<!\S){WORD_START}", 2 * WORD_START))
    return steps


def _before_marks_that_stay():
    """Finds where a table stops to compose a letter with its marks: a regular expression.

    NFC looks beyond a mark that forms no character with the letter, such as the dot below an f. A
    table does not.
    """
    letters = {}  # marks -> letters that form a character with them
    for char in map(chr, range(sys.maxunicode + 1)):
        letter, *marks = unicodedata.normalize("NFD", char)
        is_composed = marks and unicodedata.normalize("NFC", char) == char
        if is_composed and unicodedata.combining(marks[-1]):
            letters.setdefault("".join(marks), set()).add(letter)
    inner = {char for marks in letters for char in marks}
    mark = _character_class(unicodedata.combining)
    other = _character_class(lambda char: not (unicodedata.combining(char) or char in inner))
    composed = [
        _class_of(map(ord, letters[marks])) + marks
        for marks in sorted(letters, key=len, reverse=True)
    ]
    return f"(?=.{{1,2}}{mark})(?>{'|'.join([*composed, other])})\\K(?={mark})"


def _lowered_apart(language):
    """`clean_up.lower_apart`: the letters themselves become small by the step after these."""
    between, above = clean_up.mark_classes()
    accented = [
        _replace_text(letter, lowered)
        for letter, lowered in clean_up.APART_WITH_ACCENT[language].items()
    ]
    dot = clean_up.DOT_ABOVE
    if language == "lt":
        letters = clean_up.CASED_APART[language]
        return [*accented, _replace_match(rf"[{letters}]{between}*\K(?={above})", dot)]
    return [
        *accented,
        _replace_match(f"I(?!{between}*{dot})", "ı"),
        _replace_match(rf"I{between}*\K{dot}", ""),
    ]


def _control_split(proto):
    """Splits text that looks like a control piece, so that it does not become one.

    The split must not change anything else, so no piece goes across it, and the characters on both
    sides are not unknown, since unknown characters in a row are one piece.
    """
    pieces = {p.piece for p in proto.pieces if p.type not in _NEVER_IN_TEXT}
    across = {piece[i : i + 2] for piece in pieces for i in range(len(piece) - 1)}
    patterns = []
    for piece in (p.piece for p in proto.pieces if p.type in _NEVER_IN_TEXT and len(p.piece) > 1):
        pairs = {i: piece[i - 1 : i + 1] for i in range(1, len(piece))}
        split = [i for i, pair in pairs.items() if pair not in across and pieces & {*pair}]
        start, end = piece[: (split or [1])[0]], piece[(split or [1])[0] :]
        patterns.append(f"{re.escape(start)}(?={re.escape(end)})")
    return _split("|".join(patterns) or "(?!)", "MergedWithPrevious")


def _score(piece):
    """A piece's score; so low for a digit and a comma that they are split, as in ALBERT."""
    return piece.score - 100.0 * tokenization.is_number_and_comma(piece.piece)


# --- WordPiece --------------------------------------------------------------------------------


def _wordpiece(tokenizer):
    """Vocabulary, steps, settings of a tokenizer with a WordPiece vocabulary, and its file."""
    vocabulary = list(tokenizer.vocab)
    normalizers = [_replace(lambda char: not tokenization.cleaned(char), "")]
    if tokenizer.do_lower_case:
        normalizers += _lowered()
    if tokenizer.do_lower_case and tokenizer.strip_accents:
        normalizers += [{"type": "NFD"}, _replace(tokenization.is_accent, "")]
    steps = {
        "normalizer": normalizers,
        "pre_tokenizer": [_split(_character_class(_is_apart), "Isolated")],
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": UNKNOWN,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": MAX_CHARS_PER_WORD,
            "vocab": tokenizer.vocab,
        },
    }
    settings = {"unk_token": UNKNOWN} if UNKNOWN in vocabulary else {}
    lines = "".join(f"{token}\n" for token in vocabulary)
    return vocabulary, steps, settings, {"vocab.txt": lines.encode("utf-8")}


def _is_apart(char):
    return len(tokenization.set_apart(char)) > 1 or len(tokenization.cleaned(char)) > 1


# --- Both kinds --------------------------------------------------------------------------------


def tokenizer_files(tokenizer, max_length, finds_special=False):
    """Files of a tokenizer.

    Args:
        tokenizer: FullTokenizer, whose vocabulary has [CLS] and [SEP].
        max_length: int, longest sequence.
        finds_special: bool, whether "[MASK]" and the like in a text become special pieces, which a
            masked LM needs. FullTokenizer treats them as text.

    Returns:
        dict of file name -> bytes.

    Raises:
        UserError: the vocabulary has a setting that transformers cannot follow.
    """
    make = _sentencepiece if tokenizer.is_sentencepiece else _wordpiece
    vocabulary, steps, settings, vocabulary_files = make(tokenizer)
    # A cased WordPiece vocabulary keeps accents, whatever the setting.
    strips = tokenizer.strip_accents and (tokenizer.is_sentencepiece or tokenizer.do_lower_case)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not finds_special,
        "do_lower_case": tokenizer.do_lower_case,  # only of AlbertTokenizer and BertTokenizer
        "model_max_length": max_length,
        "keep_accents": not strips,  # of AlbertTokenizer
        "strip_accents": strips,  # of BertTokenizer
        **settings,
    }
    ids = {token: id_ for id_, token in enumerate(vocabulary)}
    settings |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": _pad_token(tokenizer)}
    if "[MASK]" in ids:  # transformers would add an absent one, with a new id
        settings["mask_token"] = "[MASK]"
    special = {value for key, value in settings.items() if key.endswith("_token")}
    marks = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content = steps | {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[token], "content": token, **marks, "special": True}
            for token in sorted(special, key=ids.get)
        ],
        "post_processor": _template(ids),
        "normalizer": {"type": "Sequence", "normalizers": steps["normalizer"]},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, *steps["pre_tokenizer"]],
        },
    }
    return vocabulary_files | {
        "tokenizer.json": files.json_bytes(content),
        "tokenizer_config.json": files.json_bytes(settings),
    }


def ids_for_config(tokenizer):
    """The special ids of the config of a FullTokenizer's model: dict of str -> int."""
    ids = tokenizer.special_ids(with_mask=False)
    pad = tokenizer.vocab[_pad_token(tokenizer)]
    return {"pad_token_id": pad, "bos_token_id": ids.cls, "eos_token_id": ids.sep}


def _pad_token(tokenizer):
    """The piece to declare as padding: str.

    Padding is masked, so its id does not matter to the model; but libraries leave the piece out of
    decoded text. If the vocabulary has none for it, [SEP] does no harm.
    """
    return next((piece for piece in _PADDING if piece in tokenizer.vocab), "[SEP]")


def _template(ids):
    """The step that adds [CLS] and [SEP]."""
    first, second = (
        [{"Sequence": {"id": letter, "type_id": number}}, _special("[SEP]", number)]
        for number, letter in enumerate("AB")
    )
    single = [_special("[CLS]", 0), *first]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": single + second,
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in ("[CLS]", "[SEP]")
        },
    }


def _special(token, segment):
    return {"SpecialToken": {"id": token, "type_id": segment}}


def _lowered():
    """Python's lower-casing: the last sigma of a word has a form of its own."""
    last_sigma = rf"{_LETTER}{_IGNORED}*\KΣ(?!{_IGNORED}*{_LETTER})"
    return [_replace_match(last_sigma, "ς"), {"type": "Lowercase"}]


def _split(pattern, behavior):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


def _replace(is_replaced, content):
    return _replace_match(_character_class(is_replaced), content)


def _replace_text(text, content):
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def _replace_match(pattern, content):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _character_class(is_member):
    """The characters for which a function of one is true, as a class of a regular expression."""
    codes = (code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    return _class_of(code for code in codes if is_member(chr(code)))


def _class_of(codes):
    """A class of a regular expression that has some code points."""
    members = sorted(codes)
    ranges = np.split(members, np.flatnonzero(np.diff(members) > 1) + 1)
    return "[" + "".join(rf"\x{{{part[0]:x}}}-\x{{{part[-1]:x}}}" for part in ranges) + "]"
