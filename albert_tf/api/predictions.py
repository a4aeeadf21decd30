# SPDX-License-Identifier: Apache-2.0
"""Predictions of fine-tuned models for texts: the features and figures of the scripts, in dicts.

Each function takes the task, a function that runs its model on all rows of features, and the
inputs: str, or lists of as many. A single str beside lists goes with each of their entries. It
returns a dict, or a list of dicts.
"""

import collections

import numpy as np
import scipy.special

from albert_tf.errors import UserError
from albert_tf.tasks import classification_features, classification_metrics, ner, race
from albert_tf.tasks.classification import ClassificationTask
from albert_tf.tasks.multiple_choice import RaceTask
from albert_tf.tasks.squad import task as squad
from albert_tf.tasks.squad.features import convert_examples
from albert_tf.tasks.squad.questions import SquadExample
from albert_tf.tasks.tsv_files import Example
from albert_tf.text.sequences import as_texts
from albert_tf.training.task import Split


def classify(task, run, texts, pairs=None):
    """Classes, or scores in regression.

    Returns:
        dict of `label` and `probabilities` by label; in regression of `predictions`, the score.
    """
    pairs, is_single = ("" if pairs is None else pairs), isinstance(texts, str)
    columns = _aligned(texts=texts, pairs=pairs)
    normalize, row = task.text.tokenizer.normalize, task.row
    examples = [
        Example("", normalize(text), normalize(pair), row.stand_in)
        for text, pair in zip(*columns, strict=True)
    ]
    if not examples:
        return []
    features = classification_features.features(
        examples, row, task.text.tokenizer, task.text.max_seq_length
    )
    logits = run({name: features[name] for name in task.inputs})["logits"]
    found = classification_metrics.answers(row, classification_metrics.predictions(row, logits))
    return found[0] if is_single else found


def label_words(task, run, texts):
    """Labels of words, which have white space between them.

    Returns:
        dict of `words`, `labels` and `scores`, the probabilities of the labels.
    """
    words = [[ner.Word(word, "", 0) for word in text.split()] for text in as_texts(texts)]
    logits = np.zeros([0, len(task.labels)])
    if any(words):
        arrays = ner.features(
            list(filter(None, words)),
            task.labels,
            task.text.tokenizer,
            task.text.max_seq_length,
            collections.Counter(),
        )
        logits = run({name: arrays[name] for name in task.inputs})["logits"]
        logits = logits[arrays["label_mask"] > 0]
    found = ner.answers(words, task.labels, logits)
    return found[0] if isinstance(texts, str) else found


def choose(task, run, article, question, options):
    """Answers to questions about a passage with four options each.

    `options` is a list of four str, or a list of such lists.

    Returns:
        dict of `label`, A to D, and `probabilities` by letter.
    """
    is_single = isinstance(article, str) and isinstance(question, str)
    articles, questions = _aligned(article=article, question=question)
    choices = [options] if is_single else options
    if not isinstance(choices, list | tuple) or len(choices) != len(questions):
        raise UserError(
            f"options must be a list of {len(race.LETTERS)} str for each of {len(questions)} "
            f"questions. Received: {options!r:.80}"
        )
    examples = []
    for number, row in enumerate(zip(articles, questions, choices, strict=True)):
        passage = {"id": str(number), "article": row[0], "questions": [row[1]]}
        passage["options"] = [list(row[2]) if isinstance(row[2], tuple) else row[2]]
        place = f"example {number}"
        examples += race.read_passage(passage, place, task.text.tokenizer.normalize)
    if not examples:
        return []
    features = race.features(
        examples, task.text.tokenizer, task.text.max_seq_length, task.max_qa_length
    )
    inputs = {name: features[name].reshape(len(examples), -1) for name in task.inputs}
    probabilities = scipy.special.softmax(run(inputs)["logits"], axis=-1)
    found = [_classes(task.labels, row) for row in probabilities]
    return found[0] if is_single else found


def answer(task, run, question, context):
    """Answers to questions, as parts of their contexts.

    Returns:
        dict of `answer`, "" for none, and `probability`, its share among the best answers of the
        question; of SQuAD 2.0 also `no_answer_score`, high where there is no answer.
    """
    is_single = isinstance(question, str) and isinstance(context, str)
    columns = _aligned(question=question, context=context)
    examples = [
        SquadExample(str(number), asked, text)
        for number, (asked, text) in enumerate(zip(*columns, strict=True))
    ]
    features = convert_examples(examples, task.text.tokenizer, task.windows, training=False)
    if not len(features):
        found = [{"answer": "", "probability": 0.0} for _ in examples]
        return found[0] if is_single else found
    batches = list(features.batches())
    arrays = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    outputs = run({name: arrays[name] for name in task.inputs})
    answers = task.answers(Split(arrays, squad.Questions(examples, features)), [outputs])
    texts = answers.texts(task.settings.null_score_diff_threshold)
    found = []
    for example in examples:
        best, text = answers.nbest[example.qas_id][0], texts[example.qas_id]
        found.append({"answer": text, "probability": best["probability"]})
        if answers.null_odds is not None:
            found[-1]["no_answer_score"] = answers.null_odds[example.qas_id]
    return found[0] if is_single else found


_FUNCTIONS = {
    ClassificationTask: classify,
    ner.NerTask: label_words,
    RaceTask: choose,
    squad.SquadTask: answer,
}
_INPUTS = {
    ClassificationTask: ("text", "text_pair"),
    ner.NerTask: ("text",),
    RaceTask: ("article", "question", "options"),
    squad.SquadTask: ("question", "context"),
}


def of_task(task):
    """The function of this module for a task."""
    return _FUNCTIONS[type(task)]


def inputs_of(task):
    """Names of the inputs of a task's function, as exports have them: tuple of str."""
    names = _INPUTS[type(task)]
    return names[: len(task.row.text)] if isinstance(task, ClassificationTask) else names


def _classes(labels, probabilities):
    """A class and the probabilities of all."""
    by_label = {label: float(p) for label, p in zip(labels, probabilities, strict=True)}
    return {"label": labels[np.argmax(probabilities)], "probabilities": by_label}


def _aligned(**inputs):
    """Lists of equal length; a single str is repeated."""
    lists = {name: as_texts(texts, name) for name, texts in inputs.items()}
    given = {name: len(texts) for name, texts in lists.items() if not isinstance(inputs[name], str)}
    if len(set(given.values())) > 1:
        counts = ", ".join(f"{count} {name}" for name, count in given.items())
        raise UserError(f"lists must be equally long. Received: {counts}")
    count = next(iter(given.values()), 1)
    return [
        texts * count if isinstance(inputs[name], str) else texts for name, texts in lists.items()
    ]
