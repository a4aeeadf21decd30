# SPDX-License-Identifier: Apache-2.0
"""Schemes of the labels of words (BIO, BIOES, BILOU, BMES, plain tags), and their metrics."""

import itertools
import re
from typing import NamedTuple

from albert_tf.errors import UserError

_MARK_FIRST = re.compile(r"(?P<mark>[BIOESLUM])(?:[-_:](?P<type>.+))?")
_MARK_WITH_DASH = re.compile(r"[BIOESLUM](?:[-_].+)?")
_SMALL_MARK = re.compile(_MARK_FIRST.pattern, re.IGNORECASE)
_MARK_LAST = re.compile(r"(?P<type>.+)[-_](?P<mark>[BIOESLUM])")

_NUMBERED = re.compile(r"(.*?)(\[\d+\])?", re.DOTALL)
_BRACKETS = re.compile(r"(?:\((?P<type>[^()*]+))?(?:\*|\*?\))")


class Scheme(NamedTuple):
    """A way to label the words of spans.

    Attributes:
        name: str.
        marks: str, the letters before the types; "" for plain tags, which are no spans.
        as_iobes: dict from marks to those of IOBES, where they differ.
        is_strict: bool, whether only complete spans count. Of BIO and IO, also spans that begin
            with I count, as by conlleval.
        pattern: re.Pattern, of a label: the mark before the type (`B-PER`) or after it (`PER-B`).
        outside: str, the label of a word in no span.
    """

    name: str
    marks: str
    as_iobes: dict
    is_strict: bool
    pattern: re.Pattern = _MARK_FIRST
    outside: str = "O"

    def fits(self, label):
        """Whether a label is one of the scheme (bool)."""
        found = self.pattern.fullmatch(label)
        marks = self.marks.replace("O", "").replace("o", "")
        return not marks or label == self.outside or bool(found and found["mark"] in marks)

    def for_seqeval(self, label):
        """The label as seqeval takes it: a mark of IOBES, a dash and the type."""
        if label == self.outside:
            return "O"
        mark, type_ = self.pattern.fullmatch(label).group("mark", "type")
        mark = mark.upper()
        return f"{self.as_iobes.get(mark, mark)}-{type_ or '_'}"


PLAIN = Scheme("plain tags", "", {}, False)
SCHEMES = (
    Scheme("BIO", "BIO", {}, False),
    Scheme("BIOES", "BIOES", {}, True),
    Scheme("BILOU", "BILOU", {"L": "E", "U": "S"}, True),
    Scheme("BMES", "BMESO", {"M": "I"}, True),
)
TYPE_FIRST = tuple(
    scheme._replace(name=f"{scheme.name} after the type", pattern=_MARK_LAST) for scheme in SCHEMES
)
SMALL = tuple(
    Scheme(f"{name} in small letters", marks.lower(), as_iobes, is_strict, _SMALL_MARK, "o")
    for name, marks, as_iobes, is_strict, *_ in SCHEMES
)


def find(labels):
    """The scheme of labels: the first one that all fit, or plain tags if few begin with a mark.

    Labels that end with a mark are of a scheme only next to O, and small letters next to o: parts
    of speech may look like them. Instead of O, there may be one of the signs "-", "_" and "0".

    Args:
        labels: iterable of str.

    Raises:
        UserError: most labels have a mark, but no scheme fits all.
    """
    labels = {*labels}
    if not labels & {"O", "o"} and any(label[1:2] == ":" for label in labels):
        return PLAIN  # plain tags such as M:NOUN and U:DET, kinds of errors
    outside = next((label for label in "O-_0" if label in labels), "")
    upper = [*SCHEMES, *(TYPE_FIRST if outside else ())]
    upper = [scheme._replace(outside=outside or "O") for scheme in upper]
    for scheme in [*upper, *(SMALL if "o" in labels else ())]:
        if labels != {scheme.outside} and all(map(scheme.fits, labels)):
            # Of I and E alone no span begins, so none would be complete.
            begins = any(scheme.for_seqeval(label)[0] in "BS" for label in labels)
            return scheme._replace(is_strict=scheme.is_strict and begins)
    marked = {label for label in labels - {"O"} if _MARK_WITH_DASH.fullmatch(label)}
    if len(marked) * 2 < len(labels - {"O"}) or labels == {"O"}:
        return PLAIN
    closest = max(SCHEMES, key=lambda scheme: sum(map(scheme.fits, labels)))
    wrong = [label for label in labels if not closest.fits(label)]
    marked = " or ".join(f"{mark}-x" for mark in closest.marks.replace("O", ""))
    raise UserError(
        f"labels {', '.join(sorted(wrong))} do not fit the others, which are of {closest.name}: "
        f"{marked}, and O for words in no span. Correct them; if they are in another column, give "
        "--text_column and --label_column"
    )


def check_ends(labels, scheme):
    """Raises UserError if labels of a strict scheme never end a span, so that none is complete.

    Args:
        labels: iterable of str, those of a file, which are of the scheme.
        scheme: Scheme.
    """
    marked = {label for label in labels if scheme.is_strict and label != scheme.outside}
    if marked and not any(scheme.for_seqeval(label)[0] in "ES" for label in marked):
        raise UserError(
            f"labels such as {min(marked)} end no span, but the labels of the model are of "
            f"{scheme.name}: write all files in one scheme"
        )


def under_a_key(cells, known):
    """Labels of spans under a key, as in `name=B-PER|SpaceAfter=No` of CoNLL-U.

    Args:
        cells: list of str, one for each word.
        known: sequence of str, the labels of the model; empty in training.

    Returns:
        list of str; None if the cells hold none.
    """
    if "=" not in cells[0]:
        return None
    pairs = ([part.split("=", 1) for part in cell.split("|") if "=" in part] for cell in cells)
    values = [*map(dict, pairs)]
    for key in values[0]:
        found = [value.get(key, "") for value in values]
        if {*found} <= {*known} or are_of_spans({*found}):
            return found
    return None


def find_spelling(labels, known):
    """The function that reads the labels of a sentence as those of BIO; None if none is needed.

    Args:
        labels: set of str, those of a file.
        known: set of str, the labels of the model; empty in training.
    """
    if "*" in labels - known and have_brackets(labels):
        return of_brackets
    types = labels - {"_"}
    are_spans = {f"B-{x}" for x in types} <= known or any(_NUMBERED.fullmatch(x)[2] for x in types)
    return of_numbers if "_" in labels - known and types and all(types) and are_spans else None


def have_brackets(labels):
    """Whether labels are like those of CoNLL-2012: `(PER*`, `*`, `*)`, `(PER)` (bool).

    Args:
        labels: iterable of str.
    """
    labels = {*labels}
    return "*" in labels and all(map(_BRACKETS.fullmatch, labels))


def of_brackets(labels):
    """Yields the labels of a sentence with brackets as those of BIO."""
    inside = ""
    for label in labels:
        opened = _BRACKETS.fullmatch(label)["type"]
        if opened and inside:
            raise UserError(f"{label} is in another span, of {inside}: give each word one label")
        inside = opened or inside
        yield f"{'B' if opened else 'I'}-{inside}" if inside else "O"
        if label.endswith(")"):
            inside = ""


def of_numbers(labels):
    """Yields the labels of a sentence of WebAnno as those of BIO.

    They are `PER[1]` for each word of a span, `PER` for the only one, and `_` outside.
    """
    for last, label in itertools.pairwise(["", *labels]):
        type_, number = _NUMBERED.fullmatch(label).groups()
        if "[" in type_:
            raise UserError(f"the label {label!r} has several parts: keep one")
        yield "O" if label == "_" else f"{'I' if number and label == last else 'B'}-{type_}"


def are_of_spans(labels):
    """Whether labels (set of str) are of a scheme, O or o among them, or brackets: bool."""
    try:
        has_marks = not {"O", "o"}.isdisjoint(labels) and bool(find(labels).marks)
        return has_marks or (len(labels) > 1 and have_brackets(labels))
    except UserError:
        return False


def metrics(gold, found, scheme):
    """Metrics of labelled sentences.

    Args:
        gold: list of lists of str.
        found: list of lists of str, of the same lengths.
        scheme: Scheme.

    Returns:
        dict: precision, recall and f1 of spans; of plain tags, their means over the tags, and
        `f1_<tag>` of each tag.
    """
    if not scheme.marks:
        *scores, _ = _of_tags("precision_recall_fscore_support", gold, found)
        means = (float(values.mean()) for values in scores)
        tags = sorted({*itertools.chain(*gold)})
        return dict(zip(("precision", "recall", "f1"), means, strict=True)) | {
            f"f1_{tag}": float(f1) for tag, f1 in zip(tags, scores[-1], strict=True)
        }
    scores = _of_spans("precision_recall_fscore_support", gold, found, scheme, average="micro")
    return dict(zip(("precision", "recall", "f1"), map(float, scores), strict=False))


def report(gold, found, scheme):
    """A table with precision, recall and F1 of each type or tag: str, "" if there is none."""
    if not scheme.marks:
        return _of_tags("classification_report", gold, found)
    types, *_ = _of_spans("precision_recall_fscore_support", gold, found, scheme, average=None)
    # seqeval's report needs a type.
    return _of_spans("classification_report", gold, found, scheme) if len(types) else ""


def _of_tags(name, gold, found):
    """What a metric of scikit-learn says of the plain tags of labelled sentences."""
    import sklearn.metrics  # here, since it takes half a second

    gold, found = [*itertools.chain(*gold)], [*itertools.chain(*found)]
    labels = sorted({*gold})
    return getattr(sklearn.metrics, name)(gold, found, labels=labels, zero_division=0)


def _of_spans(name, gold, found, scheme, **options):
    """What a metric of seqeval says of labelled sentences."""
    from seqeval.metrics import sequence_labeling, v1
    from seqeval.scheme import IOBES

    module = v1 if scheme.is_strict else sequence_labeling
    if scheme.is_strict:
        options["scheme"] = IOBES
    converted = ([[*map(scheme.for_seqeval, labels)] for labels in each] for each in (gold, found))
    return getattr(module, name)(*converted, zero_division=0, **options)
