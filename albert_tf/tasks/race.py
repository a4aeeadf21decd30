# SPDX-License-Identifier: Apache-2.0
"""RACE: passages with questions of four options -> features; model outputs -> metrics and answers.

Paper: section 4.2 (RACE). The dataset has two levels, middle and high school.
"""

import json
import os
import reprlib
from typing import NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import UserError, parse_json
from albert_tf.records import schemas
from albert_tf.tasks.figures import cross_entropy
from albert_tf.text.sequences import NUM_SPECIALS, pack_segments

LEVELS = ("middle", "high")
LETTERS = "ABCD"
_BLANK = "_"  # where an option belongs in a question that is a gapped sentence


class Example(NamedTuple):
    """One question.

    Attributes:
        passage_id: str, shared by all questions of a passage.
        question: int, number of the question in its passage, from 1.
        level: str, middle or high.
        context: str, the passage.
        endings: tuple of str, the question with each of its options.
        label: int from 0, or None where the answer is not known.
    """

    passage_id: str
    question: int
    level: str
    context: str
    endings: tuple[str, ...]
    label: int | None


def schema(max_seq_length, **sizes):
    """Schema of the records; sizes are vocab_size and type_vocab_size."""
    return schemas.multiple_choice_schema(max_seq_length, len(LETTERS), **sizes)


# === Reading ===


def choose_levels(middle_only=False, high_only=False):
    """Levels to read.

    Raises:
        UserError: both are excluded.
    """
    if middle_only and high_only:
        raise UserError("--middle_only and --high_only exclude each other; give one of them")
    chosen = {(True, False): ("middle",), (False, True): ("high",)}
    return chosen.get((bool(middle_only), bool(high_only)), LEVELS)


def input_files(data_dir, split, levels=LEVELS):
    """Files of a split: of each level all.txt, or if it is not there every .txt file, sorted.

    Args:
        data_dir: str, directory that holds the folder RACE.
        split: str, train, dev or test.
        levels: tuple of str, of LEVELS.

    Returns:
        list of (level, path).

    Raises:
        UserError: a level has no file.
    """
    files = []
    for level in levels:
        folder = os.path.join(data_dir, "RACE", split, level)
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
        found = [
            os.path.join(folder, name)
            for name in sorted(names)
            if name.endswith(".txt") and not name.startswith(".")
        ]
        if not found:
            raise UserError(
                f"no .txt file in {folder}; --data_dir must hold the unpacked folder RACE, or "
                "choose a level with --middle_only or --high_only"
            )
        whole = os.path.join(folder, "all.txt")
        files += [(level, path) for path in ([whole] if whole in found else found)]
    return files


def read_examples(data_dir, split, tokenizer, levels=LEVELS):
    """Reads the questions of a split; both layouts are understood.

    The original's all.txt has one JSON object a line; the distributed archive one file each.

    Args:
        data_dir: str, directory that holds the folder RACE.
        split: str, train, dev or test. Answers may be missing in test, but then in all of it.
        tokenizer: FullTokenizer, whose `normalize` cleans passages, questions and options.
        levels: tuple of str, of LEVELS.

    Returns:
        list of Example.

    Raises:
        UserError: a file is missing or damaged; the message names it and the question.
    """
    examples = []
    for level, path in input_files(data_dir, split, levels):
        for place, passage in _passages(path):
            examples += read_passage(
                passage, place, tokenizer.normalize, level, needs_answers=split != "test"
            )
    if not examples:
        raise UserError(f"{os.path.join(data_dir, 'RACE', split)} holds no question")
    unknown = sum(example.label is None for example in examples)
    if 0 < unknown < len(examples):
        raise UserError(
            f"{os.path.join(data_dir, 'RACE', split)}: {unknown} of {len(examples)} questions "
            "have no answers; give all of them or none"
        )
    return examples


def read_passage(passage, place, normalize, level="", needs_answers=False):
    """The questions about a passage.

    Args:
        passage: dict, in the form of the files: id, article, questions, options and, if it must
            have them, answers.
        place: str, where it stands, for messages.
        normalize: callable, of a FullTokenizer.
        level: str, of LEVELS.
        needs_answers: bool.

    Returns:
        list of Example.

    Raises:
        UserError: it is not in this form.
    """
    _check_passage(passage, place, needs_answers)
    return list(_questions(passage, level, normalize))


def _passages(path):
    """Yields (where it stands, JSON object) of each passage in a file."""
    text = files.read_text(path)
    if os.path.basename(path) == "all.txt":
        lines = enumerate(text.split("\n"), start=1)
        parts = [(f"{path}, line {number}", line) for number, line in lines if line.strip()]
    else:
        parts = [(path, text)]
    for place, part in parts:
        passage = parse_json(part, place)
        if "\\ud" in part.lower():
            _check_characters(passage, place)
        yield place, passage


def _check_characters(passage, place):
    """Raises UserError for half of a surrogate pair, which no file of results could hold."""
    try:
        json.dumps(passage, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place}: not valid Unicode: {error.reason}") from error


def _check_passage(passage, place, needs_answers):
    """Raises UserError where a passage is not as the format wants it."""
    if not isinstance(passage, dict):
        raise UserError(f"{place}: not a JSON object but {type(passage).__name__}")
    wanted = {"id": str, "article": str, "questions": list, "options": list}
    if needs_answers or passage.get("answers"):
        wanted["answers"] = list
    for key, kind in wanted.items():
        if not isinstance(passage.get(key), kind):
            state = "is not a " + kind.__name__ if key in passage else "is missing"
            raise UserError(f"{place}: key {key!r} {state}")
    counts = {key: len(passage[key]) for key, kind in wanted.items() if kind is list}
    if len(set(counts.values())) > 1:
        raise UserError(f"{place}: different numbers of entries: {counts}")
    for index, question in enumerate(passage["questions"]):
        answer = passage["answers"][index] if "answers" in wanted else None
        _check_question(
            question, passage["options"][index], answer, f"{place}, question {index + 1}"
        )


def _check_question(question, options, answer, place):
    if not isinstance(question, str):
        raise UserError(f"{place}: not a text. Received: {reprlib.repr(question)}")
    texts = isinstance(options, list) and all(isinstance(option, str) for option in options)
    if not texts or len(options) != len(LETTERS):
        raise UserError(
            f"{place}: {len(LETTERS)} options are expected. Received: {reprlib.repr(options)}"
        )
    if answer is not None and answer not in list(LETTERS):
        raise UserError(
            f"{place}: the answer must be one of A, B, C, D. Received: {reprlib.repr(answer)}"
        )


def _questions(passage, level, normalize):
    context = normalize(passage["article"])
    answers = passage.get("answers") or [None] * len(passage["questions"])
    entries = zip(passage["questions"], passage["options"], answers, strict=True)
    for number, (question, options, answer) in enumerate(entries, start=1):
        question = normalize(question)
        yield Example(
            passage_id=passage["id"],
            question=number,
            level=level,
            context=context,
            endings=tuple(_ending(question, normalize(option)) for option in options),
            label=None if answer is None else LETTERS.index(answer),
        )


def _ending(question, option):
    # Every underscore, so a gap drawn as "__" takes the option twice: the original's way.
    return question.replace(_BLANK, option) if _BLANK in question else f"{question} {option}"


# === Features ===


def features(examples, tokenizer, max_seq_length, max_qa_length):
    """Arrays of the records: for each option [CLS] passage [SEP] question and option [SEP].

    Of question and option the last tokens are kept, of the passage the first ones that still fit.

    Args:
        examples: list of n Examples.
        tokenizer: FullTokenizer.
        max_seq_length: int, L, tokens per option.
        max_qa_length: int, tokens of question and option at most.

    Returns:
        dict of numpy arrays, which fit `schema`: input_ids (int32), input_mask and segment_ids
        (int8) [n, 4, L]; label_ids (int32, 0 where the answer is not known) and is_real_example
        (int8) [n].

    Raises:
        UserError: the lengths don't go together.
    """
    check_lengths(max_seq_length, max_qa_length)
    contexts, endings, encoded = [], [], {}
    for example in examples:
        if example.context not in encoded:  # one for all questions of a passage
            encoded[example.context] = tokenizer.encode_ids(example.context, is_normalized=True)
        context = encoded[example.context]
        for text in example.endings:
            ending = tokenizer.encode_ids(text, is_normalized=True)[-max_qa_length:]
            contexts.append(context[: max_seq_length - NUM_SPECIALS - len(ending)])
            endings.append(ending)
    packed = pack_segments(
        contexts, endings, tokenizer.special_ids(with_mask=False), max_seq_length
    )
    shape = (len(examples), len(LETTERS), max_seq_length)
    return {name: values.reshape(shape) for name, values in packed.items()} | {
        "label_ids": np.array([example.label or 0 for example in examples], np.int32),
        "is_real_example": np.ones(len(examples), np.int8),
    }


def check_lengths(max_seq_length, max_qa_length):
    """Raises UserError if question and option get no token, or may leave none to the passage."""
    longest = max_seq_length - NUM_SPECIALS - 1
    if not 1 <= max_qa_length <= longest:
        raise UserError(
            f"--max_qa_length={max_qa_length}: must lie between 1 and {longest} with "
            f"--max_seq_length={max_seq_length}, so that a token of the passage fits too"
        )


# === Metrics and predictions ===


def evaluate(examples, logits):
    """Accuracy overall and of each level, and the mean loss.

    Args:
        examples: list of n Examples.
        logits: array [n, 4].

    Returns:
        dict of str to float: eval_accuracy, eval_accuracy_middle, eval_accuracy_high (of the
        levels there are) and eval_loss; empty if the answers are not known.
    """
    if any(example.label is None for example in examples):
        return {}
    logits = np.asarray(logits, np.float64)
    labels = np.array([example.label for example in examples])
    levels = np.array([example.level for example in examples])
    hits = np.argmax(logits, axis=-1) == labels
    loss = float(np.mean(example_losses(examples, logits)))
    results = {"eval_accuracy": float(np.mean(hits)), "eval_loss": loss}
    for level in LEVELS:
        if level in levels:
            results[f"eval_accuracy_{level}"] = float(np.mean(hits[levels == level]))
    return results


def example_losses(examples, logits):
    """Cross-entropy of each question, float64 [n]; the answers must be known."""
    return cross_entropy(logits, [example.label for example in examples])


def answers_table(examples, logits):
    """Content of the file of answers, one line per question, tab-separated, with a header.

    Its columns: id of the passage, number of the question in it (from 1), predicted letter, right
    letter (empty if not known), probabilities of A to D.

    Args:
        examples: list of n Examples.
        logits: array [n, 4].
    """
    probabilities = scipy.special.softmax(np.asarray(logits, np.float32), axis=-1)
    lines = ["\t".join(["id", "question", "prediction", "answer", *LETTERS])]
    for example, row in zip(examples, probabilities, strict=True):
        prediction = LETTERS[np.argmax(row)]
        answer = "" if example.label is None else LETTERS[example.label]
        numbers = [example.passage_id, str(example.question), prediction, answer, *map(str, row)]
        lines.append("\t".join(numbers))
    return "\n".join(lines) + "\n"
