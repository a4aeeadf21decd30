# SPDX-License-Identifier: Apache-2.0
"""What a training should know about its data: counts of rows, texts and tokens, and warnings."""

from typing import NamedTuple

import numpy as np

from albert_tf.options import NUM_SPECIALS_OF_ONE
from albert_tf.tasks import label_lists
from albert_tf.text.tokenization import UNKNOWN

_LENGTH = "length "  # with a number of tokens: key of counts
_LEFT_OUT = ("left_out", "other_labels", "comments", "skipped")  # keys of counts
_RARE = 0.05  # a class with a smaller share is rare


class _Limit(NamedTuple):
    """What is said of a count.

    Attributes:
        share: float, share of all from which on it is a warning.
        state: str, what is counted.
        remedy: str, of the warning.
        whole: str, name of the count of all.
    """

    share: float
    state: str
    remedy: str
    whole: str = "rows"


_LIMITS = {
    "empty": _Limit(0.01, "have no text", "remove them, or check the columns"),
    "missing": _Limit(
        0.01,
        "have a text such as nan or #NAME?",
        "pandas and spreadsheets write it where a text is missing: remove these rows",
    ),
    "incomplete": _Limit(1, "have only one of two texts", ""),  # as a title may have no text
    "repeated": _Limit(0.1, "repeat the text of an earlier one", "leave out duplicates"),
    "in_train": _Limit(
        0.01,
        "stand in the training set too",
        "the metrics look better than they are: remove them from one of the two",
    ),
    "cut": _Limit(
        0.05,
        "are longer than {limit} and are cut",
        "raise --max_seq_length, up to the positions of the model ({length_of_99_percent} would "
        "cut 1% of them); for texts of your own, run_classifier.py has --long_texts=windows and "
        "--max_windows too",
        whole="sequences",
    ),
    "unknown": _Limit(
        0.02,
        "are unknown to the vocabulary",
        "check --do_lower_case and --strip_accents, or take a model for this language",
        whole="pieces",
    ),
}


def add_texts(counts, texts):
    """Counts rows, and those that are empty, lack one of two texts, have a stand-in, or repeat.

    Args:
        counts: Counter.
        texts: list of tuples of str, the texts or words of each row. Among several words, such as
            None, there are no stand-ins.
    """
    counts["rows"] = len(texts)
    counts["empty"] = sum(not any(text.strip() for text in row) for row in texts)
    pairs = [sum(map(bool, map(str.strip, row))) for row in texts if len(row) == 2]
    counts["incomplete"] = pairs.count(1) if 2 in pairs else 0
    # In their exact spelling: a text may be the word none, which may stand for a missing label.
    is_missing = label_lists.MISSING.fullmatch
    counts["missing"] = sum(len(row) < 3 and any(map(is_missing, row)) for row in texts)
    counts["repeated"] = len(texts) - len({*texts})


def add_lengths(counts, lengths):
    """Counts sequences by their length before they are cut: an iterable of int, in tokens."""
    counts.update(f"{_LENGTH}{length}" for length in lengths)


def add_pieces(counts, arrays, tokenizer):
    """Counts tokens, and unknown ones, of arrays of records."""
    (unknown,) = tokenizer.convert_tokens_to_ids([UNKNOWN])
    is_piece = arrays["input_mask"] > 0
    counts["pieces"] += int(is_piece.sum())
    counts["unknown"] += int(((arrays["input_ids"] == unknown) & is_piece).sum())


def of_split(counts, max_seq_length, train_texts=None, texts=(), windows=1):
    """The report on a split: dict for JSON.

    Args:
        counts: Counter, filled by the functions of this module and by the reading.
        max_seq_length: int.
        train_texts: set of tuples of str, the texts of the training set; None for that set itself.
        texts: list of tuples of str, of this split.
        windows: int, sequences that a long text may fill.
    """
    limit = f"--max_windows={windows} with " * (windows > 1) + f"--max_seq_length={max_seq_length}"
    longest = windows * (max_seq_length - NUM_SPECIALS_OF_ONE) + NUM_SPECIALS_OF_ONE
    names = ("rows", "empty", "missing", "incomplete", "repeated", "pieces", "unknown")
    found = {name: counts[name] for name in names}
    lengths = {
        int(name.removeprefix(_LENGTH)): count
        for name, count in counts.items()
        if name.startswith(_LENGTH)
    }
    if lengths:
        ordered = np.array(sorted(lengths))
        shares = np.cumsum([lengths[length] for length in ordered]) / sum(lengths.values())
        length = int(ordered[np.searchsorted(shares, 0.99)]) - NUM_SPECIALS_OF_ONE
        found |= {
            "sequences": sum(lengths.values()),
            "cut": sum(count for length, count in lengths.items() if length > longest),
            "length_of_99_percent": -(-length // windows) + NUM_SPECIALS_OF_ONE,
            "max_seq_length": max_seq_length,
            "limit": limit,
        }
    if train_texts is not None:
        found["in_train"] = sum(any(row) and row in train_texts for row in texts)
    left_out = {name: counts[name] for name in _LEFT_OUT if counts[name]}
    return found | ({"left_out": left_out} if left_out else {})


def lines_of(split, report, unit):
    """Lines to print on a split, warnings among them: list of str.

    Args:
        split: str, its name.
        report: dict, of `of_split`.
        unit: str, what a row is.
    """
    lines = []
    for name, limit in _LIMITS.items():
        if count := report.get(name, 0):
            what = {"rows": unit, "pieces": "tokens"}.get(limit.whole, limit.whole)
            whole = report[limit.whole]
            line = f"{split}: {count:,} of {whole:,} {what} {limit.state.format(**report)}"
            if count > limit.share * whole:
                line = f"Warning: {line}: {limit.remedy.format(**report)}"
            lines.append(line)
    return lines


def on_cut(report):
    """What is said of the sequences of a report that are cut: str, "" if none is."""
    if not report["cut"]:
        return ""
    state = _LIMITS["cut"].state.format(**report)
    return f"{report['cut']:,} of {report['sequences']:,} sequences {state}"


def say(reports, unit, counts, names_rare=True):
    """Prints the reports, and returns them with the counts of the classes.

    Args:
        reports: dict from the name of a split to its report.
        unit: str, what a row is.
        counts: dict from label to its count in the training set; empty to say nothing.
        names_rare: bool, whether rare classes are worth a warning.
    """
    lines = [line for split, found in reports.items() for line in lines_of(split, found, unit)]
    for line in [*lines, *lines_on_classes(counts, names_rare)]:
        print(line)
    return reports | ({"classes": counts} if counts else {})


def lines_on_classes(counts, names_rare=True):
    """Warnings about classes without examples and rare ones: list of str.

    Args:
        counts: dict from label to its count in the training set.
        names_rare: bool, as of `say`.
    """
    total, lines = sum(counts.values()), []
    absent = [label for label, count in counts.items() if not count]
    rare = [label for label, count in counts.items() if 0 < count < _RARE * total]
    if absent:
        lines.append(f"Warning: the training set has no example of {', '.join(absent[:10])}")
    if rare and names_rare and len(counts) < 1 / _RARE:
        lines.append(
            f"Warning: less than {_RARE:.0%} of the examples are {', '.join(rare[:10])}: a model "
            "may never predict these. Look at macro_f1; --class_weights=balanced and "
            "--best_metric=macro_f1 help"
        )
    return lines
