# SPDX-License-Identifier: Apache-2.0
"""The questions of a SQuAD file. Needs no TensorFlow."""

import collections
import dataclasses
import itertools
import random
import re
import reprlib
import unicodedata

from albert_tf.errors import UserError, about
from albert_tf.tasks import column_roles, json_file, label_lists, tables
from albert_tf.tasks.column_roles import EMPTY

_FORM = "`data` of SQuAD holds `paragraphs`; rows of JSON, CSV or TSV need `context` and `question`"
_KEYS = {"question", "paragraphs", "qas"}  # of a row of a file
_SHORT_PARAGRAPH = 200  # characters; no question of SQuAD without a question mark is longer
_PLACES = {
    "answer_start": (
        "answer_start",
        "answers.answer_start",
        "answer.answer_start",
        "answer_begin_position",
        "answer_starts",
        "start_char",
    ),
    "start": ("start", "offset", "start_index"),  # of characters, or perhaps of tokens
}
_ROLES = {  # names of SQuAD -> names that may stand for them, by precedence
    "id": ("id", "query_id", "qid", "question_id", "guid", "qas_id", "uuid"),
    "context": ("context", "context_text", "passage", "paragraph", "text", "document", "article"),
    "question": ("question", "query_text", "question_text", "query"),
    "answers": ("answers", "answer", "answer_text", "answers.text", "answer.text", "text"),
    **_PLACES,
    **{name: (name,) for name in ("is_impossible", "paragraphs", "qas", "detected_answers")},
}  # fmt: skip
_OF_ANSWER = {"text": ("text", "answer", "answer_text"), **_PLACES}
# The text of a list or dict, as in CSV. An answer may be [1].
_WRITTEN = re.compile(r"""\[\s*(["'{]|array|\]$)|\{\s*["'](text|answer)""")
_NO_ANSWER = {"", "no answer", "unanswerable", "{}"}
_TRUTHS = {"true": True, "1": True, "1.0": True, "yes": True}
_TRUTHS |= {"false": False, "0": False, "0.0": False, "no": False}
# A letter next to a word belongs to it; Thai, Chinese, Korean and others have no space between.
_LETTER = re.compile(r"[^\W\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\uffff]")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "\u055e")  # of Latin, Chinese, Arabic, ...


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """One question with its paragraph.

    Args:
        qas_id: str.
        question_text: str.
        paragraph_text: str, raw; all questions of a paragraph share the one string.
        answers: tuple of str, the gold answers for scoring; None if the file has none.
        orig_answer_text: str, the answer to train on ("" if impossible); None for prediction.
        start_position: int, its first character in paragraph_text, -1 if impossible or if the text
            is not there; or None.
        is_impossible: bool, whether training has no answer to learn; False for prediction.
        places: int, where the answer to train on may be, if the file does not say where; or 0.
        absent: str, why it is taken to have no answer, unless that is written; or "".
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    answers: tuple | None = None
    orig_answer_text: str | None = None
    start_position: int | None = None
    is_impossible: bool = False
    places: int = 0
    absent: str = ""

    @property
    def is_lost(self):
        """Whether there is an answer to train on, but not in the paragraph."""
        return bool(self.orig_answer_text) and self.start_position < 0


def check_not_swapped(question, context, place=""):
    """Raises UserError if a question and its context seem to be given in the wrong order.

    The question is then the longer one, and ends neither with a question mark nor with a gap; and
    either the context ends with a question mark, or the question is as long as a paragraph and more
    than twice as long as the context.

    Args:
        question: str.
        context: str.
        place: str, for the message.
    """
    asks = context.rstrip().endswith(_QUESTION_MARKS)
    least = len(context) if asks else max(2 * len(context), _SHORT_PARAGRAPH)
    if len(question) > least and not question.rstrip().endswith((*_QUESTION_MARKS, "_")):
        raise UserError(
            f"{place}{': ' * bool(place)}question {reprlib.repr(question)} and context "
            f"{reprlib.repr(context)} seem to be swapped: exchange them, or end the question with ?"
        )


def entries(path, found=None):
    """Yields (where, context, qa) for every question of a file; `where` is for messages.

    The file has the form of SQuAD, or has a question with its `context` in each row: JSON in any
    form of `tables.objects`, or a table. The `id` of a qa is a str. A whole number becomes one, and
    a question without id has its place in the file as id, from 0.

    The `answers` of a qa, if it has some, are a list of dicts with `text`, `answer_start` and
    `start`, which is empty if none has a text. A question with empty answers is impossible if
    others have some, and one that is said to be impossible has none. `absent` says why, unless
    that is written. `others` has the values of keys that are not used. The context is not checked,
    and None if it is missing.

    Args:
        path: str.
        found: list of dicts, its `rows`, if they have been read.

    Raises:
        UserError: the file cannot be read or is not a SQuAD file, or two questions have the same
            id.
    """
    found, by_id = [*_questions(path, rows(path) if found is None else found)], {}
    ids = [_id_of(qa, where) for where, _, qa in found]
    given = {*ids}
    for number, (_, context, qa) in enumerate(found):
        qas_id = ids[number] or f"{'#' * (str(number) in given)}{number}"
        if qas_id in by_id:
            raise UserError(f"{path}: two questions have the id {qas_id!r}; rename one")
        where = f"{path}, question {' '.join(qas_id.split())}"
        by_id[qas_id] = where, context, _normal(qa, context, where) | {"id": qas_id}
    are_labelled = any(qa.get("answers") for *_, qa in by_id.values())
    for where, context, qa in by_id.values():
        is_said, answers = qa.get("is_impossible"), qa.get("answers")
        if is_said or (are_labelled and not answers):
            why = "" if is_said or "answers" in qa else "it has no key answers"
            if is_said is False:
                why = "is_impossible is false, but there is no answer"
            elif answers:  # which may be plausible ones
                why = "is_impossible is true, and there are answers, which are not used"
            qa = {"absent": why} | qa | {"is_impossible": True, "answers": []}
        yield where, context, qa


def _questions(path, found):
    """Yields (where, context or None, renamed question) for every question of some rows."""
    field = json_file.field
    for a, (row, article) in enumerate(zip(found, renamed(found, path), strict=True)):
        where, paragraphs = f"{path}, row {a}", [article]
        if row.keys() == {"header"}:  # of MRQA
            continue
        if {"paragraphs", "qas"}.isdisjoint(article):
            if not {"context", "question"} <= article.keys():
                raise UserError(f"{where} has {reprlib.repr([*row])[1:-1] or 'no keys'}: {_FORM}")
            yield where, article["context"], article
            continue
        if "qas" not in article:
            paragraphs = renamed(field(article, "paragraphs", list, where), where)
        for p, paragraph in enumerate(paragraphs):
            place = f"{path}, article {a}, paragraph {p}"
            for qa in renamed(field(paragraph, "qas", list, place), place):
                yield place, paragraph.get("context"), qa


def rows(path):
    """The rows of a file as they are written: list of dicts. Errors are as of `entries`."""
    if path.endswith((".csv", ".tsv")):
        table = tables.open_table(path, ["question"], has_header=True).take([0])
        return [dict(zip(table.header, row.cells, strict=False)) for row in table.rows]
    content = json_file.content(path, f"is not named .csv or .tsv; {_FORM}")
    return [row for _, row in tables.objects(content, path, _KEYS) if row is not None]


def renamed(found, where, usual=_ROLES):
    """JSON objects with the names of SQuAD: list of dicts; `others` has what is not used of each.

    Args:
        found: list of JSON values.
        where: str, for messages.
        usual: dict, as of `column_roles.used`.

    Raises:
        UserError: a value is no object.
    """
    other = [each for each in found if not isinstance(each, dict)]
    if other:
        raise UserError(f"{where}: a JSON object is needed. Received: {reprlib.repr(other[0])}")
    roles = column_roles.used(found, usual)
    taken = {*itertools.chain(*roles.values())}
    return [
        {
            role: _first(row, names)
            for role, names in roles.items()
            if not row.keys().isdisjoint(names)
        }
        | {"others": {name: value for name, value in row.items() if name not in taken}}
        for row in found
    ]


def _first(row, names):
    """The first value of some names that is filled, or else the first; R writes lists of one."""
    values = [row[name] for name in names if name in row]
    found = next((value for value in values if value not in EMPTY), values[0])
    return found[0] if isinstance(found, list) and [*map(type, found)] == [str] else found


def _normal(qa, context, where):
    """A renamed question whose answers, if it has any, are as of `entries`, whatever their form."""
    impossible = qa.pop("is_impossible", None)
    if impossible not in EMPTY:
        qa["is_impossible"] = _TRUTHS.get(str(impossible).lower(), impossible)
        json_file.field(qa, "is_impossible", bool, where)
    is_given = "answers" in qa
    with about(where):
        given = {name: _parsed(qa.get(name), r"\[") for name in _OF_ANSWER}
        given["text"] = _parsed(qa.pop("answers", None), _WRITTEN)
    match qa.get("detected_answers"):  # of MRQA
        case [{"text": str(text), "char_spans": [[start, *_] | {"start": start}, *_]}, *_] | {
            "text": [str(text), *_],
            "char_spans": [{"start": [start, *_]}, *_],
        }:
            given["text"] = [{"text": text, "answer_start": start}, given["text"] or []]
    answers = [] if given["text"] is None else _answers(given, where)
    answers = answers if any(answer["text"].strip() for answer in answers) else []
    if answers and all(_stands_for_none(answer, context) for answer in answers):
        qa["absent"], answers = repr(answers[0]["text"]), []
    return qa | ({"answers": answers} if is_given or answers else {})


def _stands_for_none(answer, context):
    """Whether an answer is a text such as NA, which is no word of its context."""
    text = answer["text"].strip()
    if not (text.casefold() in _NO_ANSWER or label_lists.is_missing(text)):
        return False
    word = rf"(?<!\w){re.escape(text)}(?!\w)"
    return isinstance(context, str) and not (text and re.search(word, context))


def _parsed(value, begins):
    """The list in a text that begins like one, as a regular expression says; else the value."""
    bare = label_lists.bare(value) if isinstance(value, str) else ""
    is_list = bare[-1:] in ("]", "}") and re.match(begins, bare)
    return label_lists.values_of(bare) if is_list else value


def _answers(given, where):
    """Answers as a list of dicts with the keys `_OF_ANSWER`.

    Args:
        given: dict with these keys; each value may be a list, and texts may be dicts. A single
            start is that of the first text.
        where: str, for messages.
    """
    columns = text, *_ = [given.get(name) for name in _OF_ANSWER]
    if isinstance(text, dict):
        is_usual = text.keys() <= _OF_ANSWER.keys()  # as in SQuAD, which takes less time
        (inner,) = [text] if is_usual else renamed([text], where, _OF_ANSWER)
        if "text" not in inner:
            raise UserError(f"{where}: an answer needs 'text'. Received: {reprlib.repr(text)}")
        return _answers(inner, where)
    if not any(isinstance(value, list) for value in columns):
        text = text if isinstance(text, str) else tables.whole(str(text)) or tables.cell(text)
        return [given | {"text": text}]
    texts = text if isinstance(text, list) else [text]
    unknown = [None] * len(texts)
    starts = [each if isinstance(each, list) else [each, *unknown[1:]] for each in columns[1:]]
    if any(isinstance(each, dict | list) for each in texts):
        starts = [[], []]  # those next to it are not of these answers
    starts = [each if {*map(str, each)} - {"None", ""} else unknown for each in starts]
    if texts and {*map(len, starts)} != {len(texts)}:
        raise UserError(f"{where}: `answers` has {len(texts)} texts and other answer_start")
    rows = [dict(zip(_OF_ANSWER, row, strict=True)) for row in zip(texts, *starts, strict=False)]
    return [answer for row in rows for answer in _answers(row, where)]


def _id_of(qa, where):
    """The id of a question: str, or None if it has none."""
    found = qa.get("id")
    if isinstance(found, int | float) and not isinstance(found, bool) and found % 1 == 0:
        return str(int(found))
    return None if found in EMPTY else json_file.field(qa, "id", str, where)


def answer_texts(qa, where):
    """The texts of a question's gold answers (tuple of str)."""
    answers = json_file.field(qa, "answers", list, where)
    return tuple(json_file.field(answer, "text", str, where) for answer in answers)


def read_examples(path, training):
    """Reads the questions of a SQuAD file, version 1.1 or 2.0, in its order.

    Args:
        path: str.
        training: bool. For prediction, answers are only used for scoring and may be missing.

    Returns:
        list of SquadExample, at least one.

    Raises:
        UserError: the file cannot be read or is not a SQuAD file, a context is empty, an id appears
            twice or, in training, a question has no answer, or one outside its context.
    """
    examples, is_stated = [], False
    for where, context, qa in entries(path):
        is_stated |= qa.get("is_impossible") is True
        question = json_file.field(qa, "question", str, where)
        if not json_file.checked(context, "context", str, where).strip():
            raise UserError(f"{where}: the context is empty; remove the question")
        answers = answer_texts(qa, where) if "answers" in qa else None
        taught = _answer_to_learn(qa, answers, context, where) if training else {}
        taught["absent"] = qa.get("absent", "")
        examples.append(SquadExample(qa["id"], question, context, answers, **taught))
    if not examples:
        raise UserError(f"{path} holds no question")
    if not (training or is_stated or any(example.answers for example in examples)):
        examples = [dataclasses.replace(each, answers=None) for each in examples]  # of a test file
    lost = [example for example in examples if example.is_lost]
    if 2 * len(lost) > sum(not example.is_impossible for example in examples):
        raise UserError(
            f"{path}: {len(lost)} answers are not in their context, such as question "
            f"{lost[0].qas_id}: {reprlib.repr(lost[0].orig_answer_text)}. Correct or remove them"
        )
    return examples


def lacks_answer(qa):
    """Whether a qa of `entries` has no answer, as only those of version 2 may."""
    return bool(qa.get("is_impossible")) or qa.get("answers") == []


def is_v2(path):
    """Whether a file to train on is of version 2: any of its questions has no answer.

    Other data sets have the key `is_impossible` though each of their questions has an answer.

    Raises:
        UserError: the file cannot be read or is not a SQuAD file.
    """
    return any(lacks_answer(qa) for _, _, qa in entries(path))


def shuffled(examples):
    """The training examples in the order of the original, which is always the same.

    Args:
        examples: list of SquadExample; not changed.

    Returns:
        list of SquadExample.
    """
    examples = list(examples)
    random.Random(12345).shuffle(examples)
    return examples


def count_unlabelled(examples, version_2):
    """Number of the questions that cannot be scored.

    Args:
        examples: list of SquadExample.
        version_2: bool. In version 2 an empty list of answers means that there is no answer.
    """
    return sum(
        example.answers is None or not (example.answers or version_2) for example in examples
    )


def oddities(examples):
    """Counts of what is odd in questions, which are still used, as in the original: Counter.

    `first` is the id of the first question whose answer is astray, `first_lost` of the first one
    whose answer is not in its context; `first_absent` says why the first one has none.

    Args:
        examples: list of SquadExample.
    """
    counts = collections.Counter()
    for example in examples:
        text, answer = example.paragraph_text, example.orig_answer_text
        is_found = bool(answer) and not example.is_lost
        is_astray = is_found and not text.startswith(answer, example.start_position)
        counts["silent"] += not example.question_text.strip()
        counts["several"] += bool(answer) and len(example.answers) > 1
        counts["searched"] += example.places > 0
        counts["ambiguous"] += example.places > 1
        counts["astray"] += is_astray
        counts["lost"] += example.is_lost
        counts["absent"] += bool(example.absent)
        golds = [gold for gold in example.answers or () if answer is None and gold.strip()]
        if golds and not any(gold in text or _in(text, gold) for gold in golds):
            counts["unreachable"] += 1
            counts.setdefault("first_unreachable", example.qas_id)
        if is_astray or example.is_lost:
            counts.setdefault("first_lost" if example.is_lost else "first", example.qas_id)
        if example.absent:
            counts.setdefault("first_absent", f"{example.qas_id}: {example.absent}")
        counts["elsewhere"] += is_astray and answer in text
    return counts


def _answer_to_learn(qa, answers, context, where):
    """The answer that a SquadExample to train on has: dict of its attributes."""
    if qa.get("is_impossible"):
        return {"orig_answer_text": "", "start_position": -1, "is_impossible": True}
    if not answers:
        others = reprlib.repr([*qa["others"]])[1:-1] or "none"
        raise UserError(
            f"{where}: 0 answers: give one to learn, as answers or answer, or is_impossible if the "
            f"context has none. Keys that are not used: {others}"
        )
    answer = next(each for each in qa["answers"] if each["text"].strip())
    text, start, other = (answer.get(name) for name in _OF_ANSWER)
    if start in EMPTY or label_lists.is_missing(str(start)):
        start = int(tables.whole(str(other)) or -1)
        start = start if context.startswith(text, max(start, 0)) else -1
    else:
        whole = tables.whole(str(start))
        start = int(whole) if whole else json_file.field(answer, "answer_start", int, where)
    if 0 <= start <= len(context) - len(text):
        return {"orig_answer_text": text, "start_position": start}
    if not (places := _in(context, text)):
        return {"orig_answer_text": text, "start_position": -1}
    start, end = places[0]
    found = {"orig_answer_text": context[start:end], "start_position": start}
    return found | {"places": len(places)}


def _in(context, text):
    """Where a text stands in a context, as of `_places`; case and width differ if they must."""
    return _places(context, text) or _places([*map(_folded, context)], _folded(text))


def _folded(text):
    """A text without differences of case, width and composed characters."""
    return unicodedata.normalize("NFKD", text).casefold()


def _places(parts, text):
    """Where a text stands, as a whole word if possible, with any white space between its words.

    Args:
        parts: sequence of str, what each character of the context is searched as.
        text: str.

    Returns:
        list of (first character, the one after the last).
    """
    inner, owners = "".join(parts), [place for place, part in enumerate(parts) for _ in part]
    found = [m.span() for m in re.finditer(r"\s+".join(map(re.escape, text.split())), inner)]
    words = [(a, b) for a, b in found if not _LETTER.search(inner[a - 1 : a] + inner[b : b + 1])]
    return [(owners[a], owners[b - 1] + 1) for a, b in words or found]
