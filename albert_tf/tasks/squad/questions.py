# SPDX-License-Identifier: Apache-2.0
"""The questions of a SQuAD file. Needs no TensorFlow."""

import collections
import dataclasses
import random
import re
import reprlib

from albert_tf.errors import UserError
from albert_tf.tasks import json_file, tables

_FORM = (
    "a SQuAD file is JSON: an object whose `data` holds articles with paragraphs, or a list of "
    "questions with a context each"
)


_KEYS = {"question", "paragraphs", "qas"}  # of a row of a file
_SHORT_PARAGRAPH = 200  # characters; no question of SQuAD without a question mark is longer
# Names of other data sets for those of SQuAD.
_OF_QUESTIONS = {
    "context_text": "context",
    "query_text": "question",
    "query_id": "id",
    "qid": "id",
}
_OF_ANSWERS = {
    "answer": "text",
    **dict.fromkeys(("answer_begin_position", "answer_starts", "start_char"), "answer_start"),
}
_INFERRED = "is_impossible was not stated"  # key of a question with an empty list of answers
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
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
        start_position: int, its first character in paragraph_text, -1 if impossible; or None.
        is_impossible: bool, whether training has no answer to learn; False for prediction.
        places: int, where the answer to train on may be, if the file does not say where; or 0.
    """

    qas_id: str
    question_text: str
    paragraph_text: str
    answers: tuple | None = None
    orig_answer_text: str | None = None
    start_position: int | None = None
    is_impossible: bool = False
    places: int = 0


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


def entries(path, with_context=True):
    """Yields (where, context, qa) for every question of a file; `where` is for messages.

    The file has the form of SQuAD, or is a list of questions with a `context` each, as of the
    library `datasets`, in any form of `tables.objects`. The `id` of a qa is a str. A whole number
    becomes one, and a question without id has its place in the file as id, from 0.

    Args:
        path: str, JSON.
        with_context: bool, whether paragraphs need a context; otherwise it is None.

    Raises:
        UserError: the file cannot be read or is not a SQuAD file, a context is empty, or two
            questions have the same id.
    """
    seen, found = set(), [*_questions(path, with_context)]
    blank = [_are_blank(qa.get("answers")) for *_, qa in found]
    for number, (where, context, qa) in enumerate(found):
        if blank[number] and False in blank:
            qa = {"is_impossible": True, _INFERRED: True} | qa | {"answers": []}
        qas_id = _id_of(qa, number, where)
        if qas_id in seen:
            raise UserError(f"{path}: two questions have the id {qas_id!r}; rename one")
        seen.add(qas_id)
        yield f"{path}, question {' '.join(qas_id.split())}", context, qa | {"id": qas_id}


def _are_blank(answers):
    """Whether answers have no text, as for an impossible question; None if there are no answers."""
    answers = answers if isinstance(answers, list) else []
    texts = [answer.get("text") for answer in answers if isinstance(answer, dict)]
    return all(isinstance(text, str) and not text.strip() for text in texts) if texts else None


def _questions(path, with_context):
    """Yields (where, context or None, qa) for every question."""
    field, content = json_file.field, json_file.content(path, _FORM)
    articles = (row for _, row in tables.objects(content, path, _KEYS) if row is not None)
    for a, article in enumerate(articles):
        where, article = f"{path}, article {a}", _renamed(article, _OF_QUESTIONS)
        keys = {*article}
        if keys == {"header"}:  # of MRQA
            continue
        if {"context", "question"} <= keys:
            yield where, _context(article, where, with_context), _with_list(article, where)
            continue
        if {"data", "version"} & keys and "paragraphs" not in keys:  # the file as a whole
            raise UserError(f"{path} holds no question: {_FORM}")
        paragraphs = [article] if "qas" in keys else field(article, "paragraphs", list, where)
        for p, paragraph in enumerate(paragraphs):
            place, paragraph = f"{where}, paragraph {p}", _renamed(paragraph, _OF_QUESTIONS)
            context = _context(paragraph, place, with_context)
            for qa in field(paragraph, "qas", list, place):
                yield place, context, _with_list(_renamed(qa, _OF_QUESTIONS), place)


def _context(paragraph, where, is_needed):
    if not is_needed:
        return None
    context = json_file.field(paragraph, "context", str, where)
    if not context.strip():
        raise UserError(f"{where}: the context is empty; remove the paragraph")
    return context


def _with_list(qa, where):
    """A question whose answers are a list of dicts, in place of other forms.

    These are the dict of lists of `datasets`, in which no answer means that there is none; one
    dict; one text; and a list of texts. A value of null counts as missing.
    """
    if not isinstance(qa, dict):
        raise UserError(f"{where}: a question must be a JSON object. Received: {reprlib.repr(qa)}")
    qa = {name: value for name, value in qa.items() if value is not None}
    if "is_impossible" in qa:
        impossible = qa["is_impossible"]
        qa["is_impossible"] = _TRUTHS.get(str(impossible).lower(), impossible)
    given = qa.get("answers", qa.get("answer"))
    if given is None and qa.get("is_impossible") is True:
        given = []
    if isinstance(given, str):
        given = qa | {"text": given}
    if isinstance(given, dict):
        given = _renamed(given, _OF_ANSWERS)
        texts, starts = given.get("text"), given.get("answer_start")
        if isinstance(texts, list):
            starts = starts or [None] * len(texts)
            if not isinstance(starts, list) or len(starts) != len(texts):
                raise UserError(f"{where}: `answers` has {len(texts)} texts and other answer_start")
            qa = ({} if texts else {"is_impossible": True, _INFERRED: True}) | qa
            given = [{"text": t, "answer_start": s} for t, s in zip(texts, starts, strict=True)]
        else:
            given = [given]
    if not isinstance(given, list):
        return qa
    given = [{"text": answer} if isinstance(answer, str) else answer for answer in given]
    match qa:
        case {"detected_answers": [{"text": str(text), "char_spans": [[start, *_], *_]}, *_]}:
            given.insert(0, {"text": text, "answer_start": start})  # of MRQA
    return qa | {"answers": [_renamed(answer, _OF_ANSWERS) for answer in given]}


def _renamed(found, names):
    """A JSON object with the names of SQuAD next to its own; other values as they are."""
    if not isinstance(found, dict):
        return found
    return {names.get(name.strip(), name): value for name, value in found.items()} | found


def _id_of(qa, number, where):
    found = qa.get("id")
    if found is None:
        return str(number)
    if isinstance(found, int | float) and not isinstance(found, bool) and found % 1 == 0:
        return str(int(found))
    return json_file.field(qa, "id", str, where)


def answer_texts(qa, where):
    """The texts of a question's gold answers (tuple of str)."""
    answers = json_file.field(qa, "answers", list, where)
    return tuple(json_file.field(answer, "text", str, where) for answer in answers)


def read_examples(path, training):
    """Reads the questions of a SQuAD file, version 1.1 or 2.0, in its order.

    Args:
        path: str, JSON.
        training: bool. For prediction, answers are only used for scoring and may be missing.

    Returns:
        list of SquadExample, at least one.

    Raises:
        UserError: the file cannot be read or is not a SQuAD file, a context is empty, an id appears
            twice or, in training, a question has no answer, or one outside its context.
    """
    examples, is_stated = [], False
    for where, context, qa in entries(path):
        is_stated |= qa.get("is_impossible") is True and _INFERRED not in qa
        question = json_file.field(qa, "question", str, where)
        answers = answer_texts(qa, where) if "answers" in qa or training else None
        if answers and not training and not any(map(str.strip, answers)):
            answers = None  # test files have such stand-ins for answers
        taught = _answer_to_learn(qa, answers, context, where) if training else ()
        examples.append(SquadExample(qa["id"], question, context, answers, *taught))
    if not examples:
        raise UserError(f"{path} holds no question")
    if not (training or is_stated or any(example.answers for example in examples)):
        examples = [dataclasses.replace(each, answers=None) for each in examples]  # of a test file
    return examples


def is_v2(path):
    """Whether a file to train on is of version 2: any of its questions is impossible.

    Other data sets have the key `is_impossible` though each of their questions has an answer.

    Raises:
        UserError: the file cannot be read or is not a SQuAD file.
    """
    return any(qa.get("is_impossible") for _, _, qa in entries(path))


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

    `first` is the id of the first question whose answer is astray.

    Args:
        examples: list of SquadExample.
    """
    counts = collections.Counter()
    for example in examples:
        text, answer = example.paragraph_text, example.orig_answer_text
        is_astray = bool(answer) and not text.startswith(answer, example.start_position)
        counts["silent"] += not example.question_text.strip()
        counts["several"] += bool(answer) and len(example.answers) > 1
        counts["contradicting"] += example.is_impossible and bool(example.answers)
        counts["searched"] += example.places > 0
        counts["ambiguous"] += example.places > 1
        counts["astray"] += is_astray
        if is_astray:
            counts.setdefault("first", example.qas_id)
        counts["elsewhere"] += is_astray and answer in text
    return counts


def _answer_to_learn(qa, answers, context, where):
    """The last four values of a SquadExample to train on."""
    impossible = json_file.field({"is_impossible": False, **qa}, "is_impossible", bool, where)
    if impossible:
        return "", -1, True, 0
    if not answers:
        raise UserError(
            f"{where}: 0 answers: give one to learn, or is_impossible if the context has none"
        )
    answer, text, places = qa["answers"][0], answers[0], []
    start = answer.get("answer_start")
    if start is None and (other := tables.whole(str(answer.get("start")))):
        # The number of a character, or perhaps of a token.
        is_there = text and int(other) >= 0 and context.startswith(text, int(other))
        start = int(other) if is_there else None
    if start is None:
        places = _places(text, context)
        start = places[0] if places else -1
    elif whole := tables.whole(str(start)):
        start = int(whole)
    else:
        json_file.field(answer, "answer_start", int, where)
    if not text or not 0 <= start <= len(context) - len(text):
        raise UserError(
            f"{where}: the answer {text[:40]!r} from answer_start={reprlib.repr(start)} does not "
            f"lie in the context of {len(context)} characters: correct or remove the question"
        )
    return text, start, False, len(places)


def _places(text, context):
    """Where a text stands in a context, as a whole word if possible: list of int."""
    text, char = re.escape(text), r"[^\W\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\uffff]"
    words, anywhere = (  # Thai, Chinese, Korean and others have no space between words
        [match.start() for match in re.finditer(pattern, context)]
        for pattern in (rf"(?<!{char}){text}(?!{char})", text)
    )
    return words or anywhere
