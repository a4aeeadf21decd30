# SPDX-License-Identifier: Apache-2.0
"""Counts what a vocabulary and its clean-up lose of a text, and says it with a remedy.

The counts are sums over lines, so those of parts of a text can be added.
"""

import collections
import itertools
import re
import unicodedata
from typing import NamedTuple

from albert_tf.errors import as_called
from albert_tf.text.tokenization import UNKNOWN_PIECES, Cache, is_accent

_SPECIAL = (
    "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "<pad>", "<unk>", "<s>", "</s>", "<bos>", "<eos>",
    "<sep>", "<mask>", "<|endoftext|>",
)  # fmt: skip
_AS_IDS, _AS_TEXT = "special_ids", "special_text"  # how they are read, in keys of counts
_SPECIAL_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))
_TAG = r"[/_][A-Z]{1,5}\$?"  # of a part of speech, such as NN or PROPN
_TAGGED = r"[^\s/+]+/[^\W\d_]{1,5}"  # a word with any tag, as of Chinese and Japanese
MARKUP = "have markup, such as <doc ...>, HTML, LaTeX, Markdown or the links of a wiki"
TOKENIZED = "have spaces before commas and full stops, as tokenizers put them"
_DIVIDED_OR_REPEATED = 0.1  # of the lines, above which something is said
# Of the lines: those that the next one continues, and those with a capital first, since texts that
# were lower-cased begin with small letters anyway. In characters: lines of a narrow column.
_WRAPPED, _CAPITALS, _NARROW = 0.3, 0.02, 30
# Of the lines that go on in the next one: those that end where the next word has no room.
_AT_THE_EDGE = 0.5  # in verses up to 0.4
# Of the lines: what more of them have in common is no chance, if there are some lines. In verses,
# lists, recipes and dialogues, fewer begin with a number or have the same number of commas.
_MOST, _FEWEST, _COUNTED = 0.7, 10, 0.05


class _Form(NamedTuple):
    """A form of lines that other programs read.

    Attributes:
        signs: str, pattern of a character without which no line has the form; few lines have one.
        pattern: pattern of the form, which takes more time.
        remedy: str, what to do with such a text.
        limit: float, the share of the lines above which something is said.
    """

    signs: str
    pattern: re.Pattern
    remedy: str
    limit: float = 0.1


_FORMS = {  # what is said of the lines -> their form
    MARKUP: _Form(
        r"[<&[{\\*#\u300a\uff3b]",
        re.compile(
            r"</?(?:doc|p|br|div|span|ref|a|b|i|h[1-6]|table|tr|td|ul|li|html|body)\b[^<>]*>"
            r"|<\w+(?: [\w:]+=[^<>]+)+>|</[a-z:]{3,}>"  # of any language
            r"|&(?:[a-z]{2,8}|#x?[\da-f]+);"
            r"|\[\[[^][]+\]\]|\{\{|\]\((?:https?:|#)|(?<!\w)\[[^][]+\]\([\w./-]+\.\w+\)"
            r"|(?<!\S)\*\*\w[^*]*\*\*|\A\#{2,6} \w"
            r"|\\(?:begin|section|cite|ref|frac|['\"`^~])\{|\$[^$\d]*(?<![A-Za-z:])\\[a-z]+[^$]*\$"
            r"|\u300a[\u3041-\u3096]+\u300b|\uff3b\uff03",  # of Aozora
            re.IGNORECASE,
        ),
        "write plain text; WikiExtractor does so with --json, and --input_format=jsonl reads it",
        limit=0.001,
    ),
    "are JSON": _Form(
        r'[\[{"]',
        re.compile(r'\A\s*(?:(?:\{\s*"|\[\s*["\[{]).*[\]}],?|"[^"]*"(?:,|: .+))\s*\Z'),
        "write plain lines, or an object on each line for --input_format=jsonl",
    ),
    "have characters as numbers or codes": _Form(
        ".",
        re.compile(
            r"\\(?:u[\da-fA-F]{4}|x[\da-fA-F]{2}|n\\n|r\\n|(?<=[.!?]\\)n(?![a-z]))|\Ab(['\"]).*\1\Z"
            r"|(?:%[\dA-F]{2}){2}|=[C-F][\dA-F]=[89AB][\dA-F]"  # of UTF-8, but not =CC=CC of SMILES
            r"|\A(?=[A-Za-z\d+/]{40,}={0,2}\Z)(?=.*[a-z])(?=.*[A-Z]).*[\d+/]"
            r"|\x1b\$|~\{[!-~]+~\}|\+A[A-Za-z\d+/]{2}-"  # Japanese, Chinese and others as ASCII
        ),
        "decode the text, such as of Base64, mails, addresses or escaped JSON",
    ),
    "were decoded wrongly, or have null bytes or characters of private use": _Form(
        r"[\0\x08?\x7f-\xff\ue000-\uf8ff\ufffd\u20ac]",
        # UTF-8 that was taken for Latin-1 or cp1252; what replaces or hides characters; other
        # encodings taken for cp1252: of other alphabets or Chinese, Turkish or Baltic, and Polish;
        # ? in place of letters, but not in addresses, code or Chinese.
        re.compile(
            r"[\xc2\xc3\xd0\xd1][\x80-\xbf\u0152-\u017e\u02c6\u02dc\u2013-\u203a\u20ac\u2122]"
            r"|\xe2\u20ac|[\0\x08\x7f\x80-\x84\x86-\x9f\ue000-\uf8ff\ufffd]"
            r"|(?:[À-ÖØ-öø-ÿ][¡-ÿ]|[¡-¿][À-ÖØ-öø-ÿ]){2}|[a-zà-ÿ][³¹¿±¶º][a-zà-ÿ]"
            r"|\A(?=.*[þðÞÐ])(?i:.*[þð][^\W\d_]*[àâãçèêëìîõùûü]|.*[àâãçèêëìîõùûü][^\W\d_]*[þð]"
            r"|(?=.*ý)[^áíóúæ]*\Z)"  # Icelandic and Faroese have these too
            r"|(?<!\S)[A-Za-zÀ-ɏ]+\?[A-Za-zÀ-ɏ]|\?{2} \?{2}"
        ),
        "read the source with its own encoding, and leave these characters out",
    ),
    "have only numbers, or times as subtitles do": _Form(
        r"\d",
        re.compile(r"\A[\W\d_]*\d[\W\d_]*\Z|\d:\d\d[:.,]\d\d\d?\b"),
        "keep the text, without the numbers and times of .srt, .vtt, tables or logs",
    ),
    "were divided into tokens, or have parts of speech": _Form(
        "[@/_#]",
        re.compile(
            rf"\w@@ | @[-,.]@ |\w ##\w|</w>|{_TAG}\s+\S+{_TAG}(?:\s|\Z)"
            rf"|(?<!\S)(?:{_TAGGED}[\s+]+){{3}}{_TAGGED}(?:[\s+]|\Z)"
        ),
        "take the text as it was written, without marks of subwords such as @@, and of tags",
    ),
    TOKENIZED: _Form(
        "[.,`']",
        re.compile(r" (?:[,.](?: |\Z)|n't\b|`` )"),
        "take the text as it was written, or join them with a detokenizer: other texts of the "
        "model will not have these spaces",
    ),
    "are Burmese in Zawgyi": _Form(
        "\u1031",
        re.compile(r"(?:\A|\s)\u1031"),  # a vowel sign, which Unicode writes behind its letter
        "convert it to Unicode",
    ),
}
# What a line may have in common with others, and what to do if most lines have it.
_IN_COMMON = {
    "have columns, with": "keep one, as cut -f 2 does with tabs, or write JSON for "
    "--input_format=jsonl",
    "begin with": "leave this out, if it is no part of the text (0 stands for any number)",
    "end with": "leave this out, if it is no part of the text (0 stands for any number)",
}
_OTHER_FORMS = tuple({**_FORMS, **_IN_COMMON}.keys() - {MARKUP})
# Signs between columns. Commas of numbers and of texts without spaces, as Chinese, are none.
_SEPARATOR = re.compile(r"\t|\||;(?=\S)|,(?=[!-~])(?!(?<=\d,)\d)")
_QUOTED = re.compile(r'"[^"]*"')
# Signs and numbers before the first letter of a line, also of one that is read backwards. Quotes,
# dashes, brackets and dots begin and end the lines of ordinary text.
_EDGE = re.compile(r"[\d<>[\]{}|\\/=_][\W\d_]{,29}(?=[^\W\d_])")
DIVIDING = r"[-\xac\xad\u2010]"  # marks after the first part of a word at the end of a line
SMALL = r"[^\W\d_A-ZÀ-ÞΑ-ΩЀ-Я]"  # a letter that begins the second part
_DIVIDED = re.compile(rf"{DIVIDING}\n(?<=[^\W\d_].\n)[ \t]*{SMALL}", re.S)
# Characters that nobody sees: soft hyphens, marks of directions and of joined words.
_INVISIBLE = re.compile("[\xad\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_MOST_TEXTS = 10_000  # of a Sample
_MOST_NAMED = 3
# Shares above which something is said. In these scripts the released models drop marks on purpose:
# of the letters of French 4% have one, of Czech 14%, of Vietnamese over 30%.
_ALPHABETS_OF_RELEASES = ("LATIN", "GREEK", "CYRILLIC")
_MARKS_OF_ALPHABETS, _MARKS = 0.15, 0.01  # of the letters of a script
_LETTERS_OF_TURKISH, _TURKISH = "ıİ", 0.01  # of the Latin letters; 5% in Turkish
# Of all characters but spaces: those that become a space or nothing; others that change, such as (
# for the wide parenthesis of Chinese text; those that nobody sees.
_VANISHED, _CHANGED, _HIDDEN = 0.001, 0.05, 0.002
_UNKNOWN = 0.03  # of the letters of a script
_UNREACHABLE = 0.02  # of the pieces; the released vocabularies have none
_OF_TEXT = 0.01  # of all letters: those of the scripts above a limit, together
# First words of names in Unicode that name no script of their own.
_SCRIPTS = {
    "KATAKANA-HIRAGANA": "HIRAGANA",  # marks and signs of both
    "IDEOGRAPHIC": "CJK",
    **dict.fromkeys(("MASCULINE", "FEMININE", "KELVIN", "ANGSTROM"), "LATIN"),
    **dict.fromkeys(("MICRO", "OHM"), "GREEK"),
}
_OF_COMBINING = ("KATAKANA-HIRAGANA", "CYRILLIC", "GLAGOLITIC", "DEVANAGARI")  # others: LATIN


class Losses:
    """Counts what text loses; picklable, for worker processes.

    Args:
        clean_up: clean_up.CleanUp.
        table: callable that applies the table of a SentencePiece model to a text (str), with its
            mark of a space; None for WordPiece, which drops marks only with lower-casing.
        special: collection of str, the pieces that get a special id if they stand in the text.
    """

    def __init__(self, clean_up, table, special=()):
        self._clean_up, self._table = clean_up, table
        self._cases_as_others = clean_up.do_lower_case and clean_up.casing_language == "other"
        self._kinds = {p: _AS_IDS if p in special else _AS_TEXT for p in _SPECIAL}
        self._keys = Cache(self._keys_of)

    @classmethod
    def of(cls, tokenizer):
        """The Losses of a FullTokenizer."""
        pieces = set(_SPECIAL) - set(UNKNOWN_PIECES)
        special = [piece for piece in pieces if piece in tokenizer.tokenize(piece)]
        return cls(tokenizer.clean_up, tokenizer.apply_table, special)

    def count(self, lines):
        """Counts the losses of lines of text, before any clean-up.

        Args:
            lines: list of str.

        Returns:
            Counter with names such as "marks THAI", for `warnings`. Repeated lines are those that
            these lines have before.
        """
        counts = collections.Counter()
        text = "\n".join(lines)
        characters = collections.Counter(text)
        for char, number in characters.items():
            for key, times in self._keys[char]:
                counts[key] += number * times
        filled = [line for line in lines if line and not line.isspace()]
        repeated = collections.Counter(filled)
        counts["lines"] = len(filled)
        counts["wrapped"] = _count_wrapped(map(str.strip, lines))
        counts["divided"] = len(_DIVIDED.findall(text))
        counts["capitals"] = sum(line.lstrip()[0].isupper() for line in filled)
        counts["repeated"] = len(filled) - len(repeated)
        counts.update(f"{self._kinds[piece]} {piece}" for piece in _SPECIAL_PATTERN.findall(text))
        different, in_a_form = "".join(characters), set()
        for what, form in _FORMS.items():
            has_sign = re.compile(form.signs).search
            if not has_sign(different):
                continue
            if found := [*filter(form.pattern.search, filter(has_sign, filled))]:
                counts[what] = len(found)
                in_a_form.update(found)
        others = itertools.filterfalse(in_a_form.__contains__, filled)
        found = collections.Counter(itertools.chain.from_iterable(map(_striking, others)))
        found.update({f"repeated {line[:40]!r}": n for line, n in repeated.most_common(1)})
        counts.update({key: n for key, n in found.items() if n > 1 + _COUNTED * len(filled)})
        return counts

    def _keys_of(self, char):
        """The names that count a character, each with a number."""
        if char.isspace():
            return []
        keys = [("characters", 1)]
        found = script(char)
        if char.isalpha() and found:
            keys.append((f"letters {found}", 1))
        if char in _LETTERS_OF_TURKISH and self._cases_as_others:
            keys.append(("turkish", 1))
        form = "NFKD" if self._table else "NFD"
        marks = sum(map(self.is_dropped, unicodedata.normalize(form, char)))
        has_mark = any(map(unicodedata.combining, unicodedata.normalize("NFD", char)))
        if marks and found:
            keys.append((f"marks {found}", marks))
        elif self._table and (not has_mark or marks):  # signs such as \u2260 lose theirs
            around = self._table(self._clean_up(f"a{char}a", remove_space=False))
            inner = around.replace("▁", " ").strip().removeprefix("a").removesuffix("a")
            # Case is not lost without a word: it has its own option. Wide and narrow forms, such as
            # the comma of Chinese, are the same character to every rule but identity.
            has_width = unicodedata.east_asian_width(char) in "FH"
            same = unicodedata.normalize("NFKC", char) if has_width else char
            if inner.upper() not in (char.upper(), same.upper()) and inner != char.lower():
                keys.append((f"changed U+{ord(char):04X} to {inner}", 1))
            elif _INVISIBLE.match(inner):
                keys.append((f"invisible U+{ord(char):04X}", 1))
        return keys

    def is_dropped(self, char):
        """Whether the clean-up drops a character of decomposed text (bool), such as an accent."""
        strips = self._clean_up.strip_accents
        if self._table:
            return strips and unicodedata.combining(char) > 0
        return strips and self._clean_up.do_lower_case and is_accent(char)


def _count_wrapped(lines):
    """The number of lines that go on in the next one, which begins with a word that had no room."""
    going_on = [
        (len(before), len(before) + 1 + len(after.split(maxsplit=1)[0]))
        for before, after in itertools.pairwise(lines)
        if before[-1:].isalpha() and after[:1].islower()
    ]
    if not going_on:
        return 0
    width = sorted(length for length, _ in going_on)[len(going_on) * 9 // 10]  # some are longer
    found = sum(longer > width >= _NARROW for _, longer in going_on)
    return found if found > _AT_THE_EDGE * len(going_on) else 0


def _striking(line):
    """What a line may have in common with others: list of keys of `Losses.count`."""
    line = line.strip()
    if line[:1] != "|":
        line = line.rstrip("|")  # a full stop of Hindi, as people type it
    if signs := _SEPARATOR.findall(_QUOTED.sub('""', line)):
        return [f"have columns, with {signs.count(sign)} {sign!r} in each" for sign in set(signs)]
    for kind, step in (("begin with", 1), ("end with", -1)):
        if edge := _EDGE.match(line[::step]):
            shape = re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "0", edge[0]))
            return [f"{kind} {shape[::step]!r}"]
    return []


def unreachable(tokenizer):
    """What is said of pieces that no text has after the clean-up of a FullTokenizer: yields str."""
    is_dropped, lower = Losses.of(tokenizer).is_dropped, tokenizer.do_lower_case
    pieces = [unicodedata.normalize("NFD", p) for p in tokenizer.vocab if p[:1] not in "[<"]
    for flag, what, lost in (
        ("do_lower_case", "capitals", [p for p in pieces if lower and p != p.lower()]),
        ("strip_accents", "accents", [p for p in pieces if any(map(is_dropped, p))]),
    ):
        if len(lost) > _UNREACHABLE * len(pieces):
            yield (
                f"{len(lost):,} of the {len(pieces):,} pieces of {tokenizer.path}, such as "
                f"{lost[0]!r}, have {what}, which the text loses: give --{flag}=false, unless the "
                "model was trained without it"
            )


def script(char):
    """The script of a character, from its name in Unicode: str such as "THAI", or None."""
    words = unicodedata.name(char, "").split()
    if words and words[0] in ("FULLWIDTH", "HALFWIDTH"):
        words = words[1:]
    if not words or unicodedata.category(char)[0] not in "LM":
        return None
    first = words[0]
    if first == "COMBINING":  # marks of several scripts, most often of Latin letters
        first = words[1] if words[1] in _OF_COMBINING else "LATIN"
    return _SCRIPTS.get(first, first)


def warnings(counts, unknown):
    """What is said of losses, with a remedy: yields str.

    Args:
        counts: Counter, the sum of `Losses.count`.
        unknown: Counter of the pieces of the same text that are not in the vocabulary.
    """
    yield from _on_letters(counts)
    yield from _on_changes(counts)
    if found := _in_scripts(counts, _scripts_of(unknown), {}, _UNKNOWN):
        yield (
            f"{found} letters are unknown: take a vocabulary of this language, or train one with "
            f"{as_called('train_sentencepiece.py')} and a higher --character_coverage or "
            "--byte_fallback"
        )
    for kind, what in (
        (_AS_IDS, "become special ids; leave them out of it and of --user_defined_symbols"),
        (_AS_TEXT, "are text like any other; leave them out if another tool wrote them"),
    ):
        if pieces := _of_kind(counts, kind):
            named = ", ".join(f"{piece} {n:,} times" for piece, n in pieces.most_common())
            yield f"the text has {named}: they {what}"
    yield from _on_lines(counts)


def _on_letters(counts):
    """What is said of letters that become equal."""
    turkish, latin = counts["turkish"], counts["letters LATIN"]
    trainer = as_called("train_sentencepiece.py")
    limits = dict.fromkeys(_ALPHABETS_OF_RELEASES, _MARKS_OF_ALPHABETS)
    if found := _in_scripts(counts, _of_kind(counts, "marks"), limits, _MARKS, " marks"):
        yield (
            f"{found} letters are dropped, so different words become equal. Keep them with a "
            f"vocabulary of {trainer} --strip_accents=false"
        )
    if turkish > _TURKISH * latin:
        yield (
            f"{turkish:,} of {latin:,} LATIN letters are \u0131 or \u0130, which lower-casing "
            f"mixes up with i: for Turkish or Azerbaijani, train a vocabulary with {trainer} "
            "--casing_language=tr or az"
        )


def _on_lines(counts):
    """What is said of lines that have something in common, or are no whole sentences."""
    lines = counts["lines"]
    for what, form in _FORMS.items():
        if counts[what] > form.limit * lines:
            yield f"{counts[what]:,} of {lines:,} lines {what}: {form.remedy}"
    for kind, remedy in _IN_COMMON.items():
        for what, number in _of_kind(counts, kind).most_common(1):
            if number >= max(_MOST * lines, _FEWEST):
                yield f"{number:,} of {lines:,} lines {kind} {what}: {remedy}"
    if counts["divided"] > _DIVIDED_OR_REPEATED * lines:
        yield (
            f"{counts['divided']:,} of {lines:,} lines end in the middle of a word: join each with "
            "the next"
        )
    is_wrapped = counts["wrapped"] >= max(_WRAPPED * lines, _FEWEST)
    if is_wrapped and counts["capitals"] > _CAPITALS * lines:
        yield (
            f"{counts['wrapped']:,} of {lines:,} lines end in the middle of a sentence, which the "
            "next line continues: join the lines of a paragraph, as --input_format=documents does "
            "with plain text"
        )
    if counts["repeated"] > _DIVIDED_OR_REPEATED * lines:
        most = _of_kind(counts, "repeated").most_common(1)
        named = "".join(f", most often {line} {number:,} times" for line, number in most)
        yield (
            f"{counts['repeated']:,} of {lines:,} lines repeat an earlier one{named}: leave out "
            "separators, footers and whole documents (create_pretraining_data.py --drop_duplicates)"
        )


def as_json(counts, unknown):
    """The counts for a summary in JSON: dict of kind -> number, or dict of what -> number."""
    special = _of_kind(counts, _AS_IDS) + _of_kind(counts, _AS_TEXT)
    return {
        "letters": dict(_of_kind(counts, "letters")),
        "marks_dropped": dict(_of_kind(counts, "marks")),
        "characters_changed": dict(_of_kind(counts, "changed").most_common(20)),
        "unknown_letters": dict(_scripts_of(unknown)),
        "special_pieces": dict(special),
        "lines_with_markup": counts[MARKUP],
        "lines_in_other_forms": {k: n for k, n in counts.items() if k.startswith(_OTHER_FORMS)},
        "lines_repeated": counts["repeated"],
    }


def _of_kind(counts, kind):
    start = f"{kind} "
    return collections.Counter(
        {key.removeprefix(start): n for key, n in counts.items() if key.startswith(start)}
    )


def _in_scripts(counts, found, limits, limit, what=""):
    """Names the scripts in which something is found in too many letters.

    Args:
        counts: Counter, the sum of `Losses.count`.
        found: Counter by script.
        limits: dict from script to a share of its letters, for scripts with a limit of their own.
        limit: float, that of the others.
        what: str, for a number.

    Returns:
        str such as "3 marks of 5 KATAKANA"; "" for none, or a few foreign words in other text.
    """
    letters = _of_kind(counts, "letters")
    # Decomposed text may have more marks of a script than letters.
    sizes = {name: max(letters[name], number) for name, number in found.items()}
    above = [name for name in found if found[name] > limits.get(name, limit) * sizes[name]]
    if sum(sizes[name] for name in above) <= _OF_TEXT * letters.total():
        return ""
    above.sort(key=found.get, reverse=True)
    parts = [f"{found[name]:,}{what} of {sizes[name]:,} {name}" for name in above[:_MOST_NAMED]]
    if others := above[_MOST_NAMED:]:
        number, size = (sum(values[name] for name in others) for values in (found, sizes))
        parts.append(f"{number:,}{what} of {size:,} {', '.join(others)}")
    return "; ".join(parts)


def _on_changes(counts):
    """What is said of characters that normalisation changes, and of those that nobody sees."""
    changed, invisible = _of_kind(counts, "changed"), _of_kind(counts, "invisible")
    # Of "U+00B4 to  x": what becomes nothing, or begins or ends with a space.
    vanished = sum(n for key, n in changed.items() if " to  " in key or key.endswith(" "))
    characters = counts["characters"]
    if vanished > _VANISHED * characters or changed.total() > _CHANGED * characters:
        most = ", ".join(f"{key!r} {n:,} times" for key, n in changed.most_common(_MOST_NAMED))
        first = max(changed, key=changed.get)
        char = chr(int(first[2:].partition(" ")[0], 16))
        rules = "nfkc or identity" if unicodedata.is_normalized("NFKC", char) else "identity"
        remedy = f"train a vocabulary with --normalization_rule_name={rules}"
        if first.endswith(f" to {unicodedata.normalize('NFD', char)}"):
            remedy = "give --strip_accents=false, which keeps characters such as Hangul whole"
        yield (
            f"normalisation changes {changed.total():,} of {characters:,} characters, "
            f"most often {most}. If they matter, {remedy}"
        )
    if invisible.total() > _HIDDEN * characters:
        yield (
            f"{invisible.total():,} of {characters:,} characters are invisible, such as "
            f"{max(invisible, key=invisible.get)}. A word with one has other tokens: leave them out"
        )


def _scripts_of(unknown):
    """Letters of unknown pieces by script: Counter."""
    found = collections.Counter()
    for piece, number in unknown.items():
        if piece not in UNKNOWN_PIECES:
            for char in filter(str.isalpha, unicodedata.normalize("NFC", piece)):
                if name := script(char):
                    found[name] += number
    return found


class Sample:
    """The first texts that a tokenizer reads.

    Args:
        tokenizer: FullTokenizer, which then has this as its `sample`.
    """

    def __init__(self, tokenizer):
        self._tokenizer, self._texts = tokenizer, {}  # in order, each once
        tokenizer.sample = self

    def __call__(self, text):
        """Keeps a text, if it has letters: numbers of rows and scores are cleaned up too."""
        if len(self._texts) < _MOST_TEXTS and any(map(str.isalpha, text)):
            self._texts.setdefault(text)

    def warnings(self):
        """Ends the sample, and returns what is said of its losses: list of str."""
        tokenizer, texts = self._tokenizer, list(self._texts)
        tokenizer.sample = None
        if not texts:  # the features exist
            return []
        unknown = collections.Counter()
        for text in texts:
            pieces = tokenizer.tokenize(text)
            unknown.update(piece for piece in pieces if piece not in tokenizer.vocab)
        apart = [line for text in texts for line in (text, "")]  # no text goes on in the next
        lost = Losses.of(tokenizer).count(apart)
        del lost[TOKENIZED]  # as texts of GLUE are
        return [*unreachable(tokenizer), *warnings(lost, unknown)]
