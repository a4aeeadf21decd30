# SPDX-License-Identifier: Apache-2.0
"""Minimal pairs: of two sentences, a model should find the grammatical one more likely.

In BLiMP (Warstadt et al., TACL 2020) and other suites, a paradigm is a set of pairs of one kind.
Several paradigms test a phenomenon (`linguistics_term`) of a field, such as syntax.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import re

import tensorflow as tf

from albert_tf import files, progress, state_files
from albert_tf.api import scoring
from albert_tf.checkpoints import name_table
from albert_tf.errors import UserError, parse_json
from albert_tf.tasks import json_file, tables
from albert_tf.training.steps import Predictor

KEYS = ("sentence_good", "sentence_bad")
# What other suites call them.
_NAMES = (
    KEYS, ("source_sentence", "target_sentence"), ("good_sentence", "bad_sentence"),
    ("good", "bad"), ("grammatical", "ungrammatical"),
)  # fmt: skip
GROUPS = {"fields": "field", "linguistics_terms": "linguistics_term"}  # of paradigms
_LIST = re.compile(r'\[(".*")?\]', re.DOTALL)  # of texts, as the cell of a table
_PAIRS_AT_ONCE = 250  # after so many pairs, the results are saved


@dataclasses.dataclass
class Paradigm:
    """Pairs of one kind.

    Attributes:
        name: str, its UID; the name of the file without its ending if the pairs have none.
        field: str, "" if unknown.
        linguistics_term: str, the phenomenon; "" if unknown.
        sentences: list of str, of each pair the good one and the bad one.
        places: list of str, file and line of each sentence, for messages.
    """

    name: str
    field: str
    linguistics_term: str
    sentences: list = dataclasses.field(default_factory=list)
    places: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Result:
    """How a model did on a set of pairs.

    Attributes:
        pairs: int, how many there are.
        correct: float, pairs whose good sentence is more likely; ties count half.
        ties: int, pairs whose sentences are equally likely.
        identical: int, pairs whose sentences consist of the same tokens; they are ties.
        unknown_pieces: int, tokens of all sentences that the vocabulary lacks.
    """

    pairs: int = 0
    correct: float = 0.0
    ties: int = 0
    identical: int = 0
    unknown_pieces: int = 0

    def __add__(self, other):
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return Result(*(a + b for a, b in zip(mine, theirs, strict=True)))


# --- Files ---------------------------------------------------------------------------------------


def read(paths, pairs_per_paradigm=0):
    """Reads pairs: JSON lines as BLiMP has them, two columns, or two lines for each pair.

    Args:
        paths: list of str. A file has JSON objects with `sentence_good` and `sentence_bad`, and
            perhaps `UID`, `field` and `linguistics_term`; or it is a table with these names, or
            others of `_NAMES`, in its first line. If the first line has a tab, each line is a good
            and a bad sentence with a tab between them. Otherwise these take a line each.
        pairs_per_paradigm: int, how many pairs of each paradigm to take, the first ones; 0 for all.

    Returns:
        list of Paradigm, in the order of the files.

    Raises:
        UserError: a file cannot be read, is empty, or lacks a sentence (names file and line); or
            two files without UIDs have one name.
    """
    paradigms, unnamed = {}, {}
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        for lines, values in _pairs(path):
            places = [f"{path}, line {number}" for number in lines]
            for key, place in zip(KEYS, places, strict=True):
                text = values.get(key) or ""
                if not text.strip() or _LIST.fullmatch(text):
                    raise UserError(f"{place}: {key} is missing, empty or not text")
                json_file.field(values, key, str, place)  # valid Unicode
            uid = str(values.get("UID") or name)
            if not values.get("UID") and unnamed.setdefault(name, path) != path:
                raise UserError(
                    f"{path} and {unnamed[name]} would be one paradigm {name!r}: rename one"
                )
            if uid not in paradigms:
                paradigms[uid] = _new_paradigm(uid, values, places[0])
            paradigm = paradigms[uid]
            if not pairs_per_paradigm or len(paradigm.sentences) < 2 * pairs_per_paradigm:
                paradigm.sentences += [values[key] for key in KEYS]
                paradigm.places += places
    return list(paradigms.values())


def _new_paradigm(uid, values, place):
    """A Paradigm without pairs, with the names that its first pair has in a dict of values."""
    names = {"UID": uid} | {key: str(values.get(key) or "") for key in GROUPS.values()}
    for key, text in names.items():
        if text.splitlines() not in ([], [text]):  # they are names in a table
            raise UserError(f"{place}: {key} has a line end: {text!r:.80}")
        json_file.field(names, key, str, place)
    return Paradigm(*names.values())


def _pairs(path):
    """Yields (line of the good sentence, of the bad one), a dict with KEYS."""
    table = tables.open_table(path, *_NAMES, ())
    if table.header:  # in any case
        usual = {tables.as_in(name, table.header): name for names in _NAMES for name in names}
        table = table._replace(header=[usual.get(name, name) for name in table.header])
    names = next((names for names in _NAMES if {*names} <= {*(table.header or [])}), None)
    if names is None and table.form.separator:
        yield from _unnamed_pairs(table)
        return
    for row in table.take(names or KEYS).rows:
        values = {n: cell for n, cell in zip(table.header, row.cells, strict=False) if cell}
        names = next((names for names in _NAMES if {*names} <= values.keys()), KEYS)
        named = zip(KEYS, map(values.get, names), strict=True)
        yield (row.line, row.line), values | dict(named)


def _unnamed_pairs(table):
    """As `_pairs`, of a table without names: a tab stands between the sentences, or a line end."""
    if len(table.first) > (2 if table.form.separator == "\t" else 1):
        raise _without_names(table)
    if len(table.first) == 2:
        rows = table.take((0, 1)).rows
        _check_sentences(table, [row.values for row in rows])
        for row in rows:
            yield (row.line, row.line), dict(zip(KEYS, row.values, strict=True))
        return
    rows = table.take((0,)).rows
    for good, bad in itertools.zip_longest(rows[::2], rows[1::2]):
        if bad is None or bad.line != good.line + 1:
            raise UserError(f"{good.place}: a pair takes two lines, first the good sentence")
        yield (good.line, bad.line), dict(zip(KEYS, good.values + bad.values, strict=True))


def _check_sentences(table, pairs):
    """Raises UserError if a column has single words next to sentences, or the first row has."""
    are_words = [[len(cell.split()) < 2 for cell in pair] for pair in pairs]
    columns = list(zip(*are_words, strict=True))
    cells = [{*column} for column in zip(*pairs, strict=True)]
    labels = [n for n, x in enumerate(columns) if all(x) and len(cells[n]) * 2 <= len(pairs)]
    labels = [n for n in labels if not any(columns[1 - n])]
    if labels:
        raise UserError(
            f"{table.path}: column {labels[0]} has labels, such as {pairs[0][labels[0]]!r}: write "
            "the good sentence, a tab and the bad one on each line"
        )
    if tables.are_words(pairs[0]) and len(pairs) > 1 and not any(map(any, are_words[1:])):
        raise _without_names(table)


def _without_names(table):
    names = " and ".join(KEYS)
    return UserError(f"{table.path} needs columns {names}. Received: {', '.join(table.first)}")


# --- Measuring -----------------------------------------------------------------------------------


def _compare(pieces, scores, i):
    """The Result of a pair: sentences i and i + 1."""
    good, bad = scores[i], scores[i + 1]
    identical = pieces.ids[i].tolist() == pieces.ids[i + 1].tolist()
    # Scores of the same tokens may differ in rounding, by the batches that they were in.
    tie = identical or good["log_prob"] == bad["log_prob"]
    correct = 0.5 if tie else float(good["log_prob"] > bad["log_prob"])
    unknown = good["num_unknown"] + bad["num_unknown"]
    return Result(1, correct, int(tie), int(identical), unknown)


def settings_of(loaded, paradigms, method):
    """Settings behind the results: dict of str -> str, with fingerprints of weights and pairs."""
    named = name_table.named_variables(loaded.model)
    # A source may lack these, which are random then.
    others = (*name_table.POOLER, *name_table.HEAD_NAMES["sentence_order"])
    weights = hashlib.sha256()
    for name in sorted(named.keys() - {*others}):
        weights.update(named[name].numpy().tobytes())
    content = [(paradigm.name, paradigm.sentences) for paradigm in paradigms]
    return {
        "model": loaded.checkpoint,
        "weights": weights.hexdigest(),
        "vocabulary": loaded.tokenizer.fingerprint,
        "pairs": hashlib.sha256(json.dumps(content).encode()).hexdigest(),
        "method": method,
    }


def evaluate(loaded, paradigms, method, path=None):
    """Measures a model, and writes the results to a file after every 250 pairs.

    Args:
        loaded: Loaded, a pre-trained model.
        paradigms: list of Paradigm.
        method: str, of options.SCORE_METHODS.
        path: str or None, JSON file for the metrics. If it exists, the pairs in it are not scored
            again.

    Returns:
        dict, as of `summary`.

    Raises:
        UserError: the model has no masked-LM head, a sentence is too long, or the file holds
            metrics of another model, other pairs or another method.
    """
    loaded.check_head("masked_lm", "minimal_pairs")
    length = loaded.max_seq_length
    pieces = [
        scoring.pieces_of(loaded.tokenizer, each.sentences, length, each.places)
        for each in paradigms
    ]
    settings = settings_of(loaded, paradigms, method)
    results = {paradigm.name: Result() for paradigm in paradigms}
    results |= _read_results(path, settings) if path else {}
    for paradigm in paradigms:
        known, count = results[paradigm.name], len(paradigm.sentences) // 2
        if not 0 <= known.correct <= known.pairs <= count:
            raise UserError(
                f"{path} is damaged ({known.correct} of {known.pairs} pairs are correct): delete it"
            )
    of_model = functools.partial(scoring.log_probs, loaded.model)
    predict = Predictor(tf.distribute.get_strategy(), of_model, shows_progress=False)
    total = sum(len(paradigm.sentences) for paradigm in paradigms) // 2
    done = sum(result.pairs for result in results.values())
    with progress.bar("scoring", total, " pairs", initial=done) as bar:
        for paradigm, of_paradigm in zip(paradigms, pieces, strict=True):
            first, last = results[paradigm.name].pairs, len(of_paradigm.ids) // 2
            for start in range(first, last, _PAIRS_AT_ONCE):
                part = of_paradigm.part(slice(2 * start, 2 * (start + _PAIRS_AT_ONCE)))
                scores = scoring.scores(predict, part, method)
                found = sum((_compare(part, scores, i) for i in range(0, len(scores), 2)), Result())
                results[paradigm.name] += found
                if path:
                    metrics = settings | summary(paradigms, results)
                    files.write_text(path, json.dumps(metrics, indent=2) + "\n")
                bar.update(found.pairs)
    return summary(paradigms, results)


def _read_results(path, settings):
    """The results in an output file: dict of paradigm -> Result; empty if there is no file."""
    text = files.read_text(path)
    if not text:
        return {}
    found = parse_json(text, path)
    known = found.get("paradigms") if isinstance(found, dict) else None
    if not isinstance(known, dict):
        raise UserError(f"{path} holds no metrics of minimal pairs: give another --output_file")
    for name in ("weights", "vocabulary", "pairs", "method"):
        if found.get(name) != settings[name]:
            what = f"--method={found.get(name)}" if name == "method" else f"other {name}"
            raise UserError(
                f"{path} was made with {what} by {found.get('model')}: give another --output_file"
            )
    return {name: state_files.typed(values, Result, name) for name, values in known.items()}


# --- Metrics -------------------------------------------------------------------------------------


def metrics_of(results):
    """Accuracy on some paradigms, its standard error and the counts: dict.

    Pairs of a paradigm are alike: a random model is right on nearly all of some paradigms and wrong
    on nearly all of others. So the error on several paradigms is that of a sample of paradigms.

    Args:
        results: list of Result, one for each paradigm.
    """
    total, count = sum(results, Result()), len(results)
    accuracy = total.correct / total.pairs
    if count > 1:
        squares = sum((each.correct - accuracy * each.pairs) ** 2 for each in results)
        error = math.sqrt(squares * count / (count - 1)) / total.pairs
    else:
        squares = (total.correct - total.ties / 4) / total.pairs  # a tie is 1/2, its square 1/4
        error = math.sqrt(max(squares - accuracy**2, 0.0) / total.pairs)
    return {"accuracy": accuracy, "standard_error": error, **dataclasses.asdict(total)}


def summary(paradigms, results):
    """The metrics of a suite.

    Args:
        paradigms: list of Paradigm.
        results: dict of paradigm -> Result.

    Returns:
        dict: `complete`, whether all pairs are scored; `overall`; `fields`, `linguistics_terms`
        and `paradigms` by name. Each has `accuracy`, `standard_error` and the counts of Result.
    """
    scored = [paradigm for paradigm in paradigms if results[paradigm.name].pairs]
    found = {
        "complete": all(2 * results[p.name].pairs == len(p.sentences) for p in paradigms),
        "overall": metrics_of([results[paradigm.name] for paradigm in scored]),
    }
    for title, group in GROUPS.items():
        members = {}
        for paradigm in scored:
            if name := getattr(paradigm, group):
                members.setdefault(name, []).append(results[paradigm.name])
        found[title] = {name: metrics_of(each) for name, each in members.items()}
    found["paradigms"] = {
        paradigm.name: {group: getattr(paradigm, group) for group in GROUPS.values()}
        | metrics_of([results[paradigm.name]])
        for paradigm in scored
    }
    return found


def table(metrics):
    """The metrics of `summary` as lines of text (str): accuracies in percent."""
    overall, rows = metrics["overall"], []
    for title in ("paradigms", "linguistics_terms", "fields"):
        rows += [*sorted(metrics[title].items()), ("", None)]
    rows.append(("all pairs", overall))
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':{width}}  accuracy  error   pairs  ties"]
    for name, values in rows:
        line = ""
        if values:
            accuracy, error = 100 * values["accuracy"], 100 * values["standard_error"]
            line = f"{name:{width}}  {accuracy:8.1f}  {error:5.1f}  {values['pairs']:6}  "
            line += f"{values['ties']:4}"
        lines.append(line)
    lines.append(
        f"{overall['identical']} pairs of identical tokens, which count half as all ties do; "
        f"{overall['unknown_pieces']} unknown tokens."
    )
    return "\n".join(lines)
