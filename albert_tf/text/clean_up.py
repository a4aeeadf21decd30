# SPDX-License-Identifier: Apache-2.0
"""Clean-up of text before SentencePiece, with the rules of some languages for lower-casing."""

import dataclasses
import functools
import itertools
import re
import unicodedata

DOT_ABOVE = "\u0307"
# Letters that one of the languages lower-cases in its own way.
CASED_APART = {"tr": "I", "az": "I", "lt": "IJĮ"}
# Letters with an accent that are lower-cased apart where text is not decomposed.
APART_WITH_ACCENT = {
    "tr": {"İ": "I" + DOT_ABOVE},
    "lt": {"Ì": "i\u0307\u0300", "Í": "i\u0307\u0301", "Ĩ": "i\u0307\u0303"},
}
APART_WITH_ACCENT["az"] = APART_WITH_ACCENT["tr"]
ABOVE = 230  # combining class of the marks above a letter


@dataclasses.dataclass(frozen=True)
class CleanUp:
    """Prepares text for a SentencePiece model: NFKD, no accents, maybe lower-cased.

    White space is collapsed before NFKD, so a character that NFKD turns into a space adds one.

    Args:
        do_lower_case: bool, lower-case at the end.
        strip_accents: bool, drop accents, as the original does. If they are kept, they follow their
            letters; SentencePiece models with the usual NFKC table compose the two.
        decomposes: bool, whether NFKD is applied. A model without a table of its own, which could
            not compose letters and accents, needs text that is not decomposed.
        casing_language: str, one of CASING_LANGUAGES whose rules of Unicode's SpecialCasing.txt
            hold for lower-casing; "other" for the rules of most languages.
    """

    do_lower_case: bool = True
    strip_accents: bool = True
    decomposes: bool = True
    casing_language: str = "other"

    def __call__(self, text, remove_space=True):
        """Cleans a text up.

        Args:
            text: str.
            remove_space: bool, strip the text and make one space of every run of white space.

        Returns:
            str.
        """
        if remove_space:
            text = " ".join(text.split())
        text = self._without_accents(text)
        return text.lower() if self.do_lower_case else text

    def lines(self, texts):
        """Cleans many texts up, faster than one by one.

        Args:
            texts: list of str.

        Returns:
            list of str.
        """
        texts = [self._without_accents(" ".join(text.split())) for text in texts]
        if not (self.do_lower_case and texts):
            return texts
        # The texts contain no line ends, no step adds one, and no step looks beyond one.
        return "\n".join(texts).lower().split("\n")

    def _without_accents(self, text):
        """All steps but the usual lower-casing."""
        cases_apart = self.do_lower_case and self.casing_language in CASED_APART
        if text.isascii():  # nothing to decompose or to drop
            return lower_apart(text, self.casing_language) if cases_apart else text
        if self.decomposes:
            text = unicodedata.normalize("NFKD", text)
        if cases_apart:
            text = lower_apart(text, self.casing_language)
        if not self.strip_accents or text.isascii():
            return text
        return "".join(itertools.filterfalse(unicodedata.combining, text))


# --- Casing of a language -------------------------------------------------------------------------


def lower_apart(text, language):
    """Lower-cases the letters to which a language applies rules of its own, and only these.

    These are the conditional rules of SpecialCasing.txt. Turkish and Azerbaijani: I is ı, and İ (or
    I with a dot above) is i. Lithuanian: i, j and į keep their dot below another accent.

    Args:
        text: str, decomposed or not.
        language: str, a key of CASED_APART.

    Returns:
        str.
    """
    letters = CASED_APART[language] + "".join(APART_WITH_ACCENT[language])
    if not any(letter in text for letter in letters):
        return text
    for letter, lowered in APART_WITH_ACCENT[language].items():
        text = text.replace(letter, lowered)
    for pattern, replacement in _rules(language):
        text = pattern.sub(replacement, text)
    return text


@functools.cache
def _rules(language):
    """Compiled patterns, and what replaces them; a mark that is not above may come in between."""
    between, above = mark_classes()
    if language == "lt":
        letters = {"I": "i", "J": "j", "Į": "į"}
        return [
            (re.compile(f"{upper}({between}*)(?={above})"), rf"{lower}\1{DOT_ABOVE}")
            for upper, lower in letters.items()
        ]
    return [
        (re.compile(f"I(?!{between}*{DOT_ABOVE})"), "ı"),
        (re.compile(f"I({between}*){DOT_ABOVE}"), r"i\1"),
    ]


@functools.cache
def mark_classes():
    """Marks that are not above a letter, and those that are, as classes of regular expressions."""
    marks = {char: unicodedata.combining(char) for char in map(chr, range(0x110000))}
    between = "".join(char for char, order in marks.items() if order not in (0, ABOVE))
    above = "".join(char for char, order in marks.items() if order == ABOVE)
    return f"[{between}]", f"[{above}]"
