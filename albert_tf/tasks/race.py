# SPDX-License-Identifier: Apache-2.0
"""RACE: questions with options about passages.

Paper: section 4.2 (RACE). The dataset has two levels, middle and high school, and four options.
Files of the same form, and tables with a question in each row, may have any number of options, and
questions with fewer than others.
"""

import dataclasses
import itertools
import os
import re
import reprlib
import string
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.errors import UserError, about, parse_json
from albert_tf.model import heads, objectives
from albert_tf.publish import graph_inputs, signatures
from albert_tf.records import schemas
from albert_tf.tasks import base, data_report, json_file, label_lists, split_files, tables
from albert_tf.text.sequences import NUM_SPECIALS, pack_segments
from albert_tf.training import evaluation
from albert_tf.training.splits_and_results import Split

LEVELS = ("middle", "high")
LETTERS = string.ascii_uppercase
NUM_OPTIONS = 4  # of RACE
MOST_OPTIONS = len(LETTERS)
COLUMNS = {  # what a column holds -> names that it may have, in small letters
    "question": (
        "question", "question_stem", "question.stem", "prompt", "query", "sentence", "goal", "ctx",
        "sent2",
    ),
    "article": (
        "article", "context", "passage", "paragraph", "premise", "story", "text", "document",
        "dialogue", "support", "background", "flores_passage", "sent1",
    ),
    "options": (
        "options", "choices", "choices.text", "options.text", "question.choices", "endings",
        "answer_options", "answers", "choice",
    ),
    "labels": ("choices.label", "options.label"),  # what the answers call the options
    "answer": (
        "answer", "answerkey", "label", "gold_label", "correct_answer", "correct_option", "correct",
        "correct_answer_id", "correct_answer_num", "cop", "answers", "choice",
    ),
}  # fmt: skip
# Columns with an option each: option 1, ...; choice_a, ...; ending0, ...; A, B, ...; options.A, ...
_OPTION = re.compile(
    r"((?:(?:answer_)?options?|opt?|choices?|ending|(?:mc_)?answer|sol|solution)[ _.-]?)"
    r"(\d+|[a-z])|()([a-z])",
    re.IGNORECASE,
)
# A list as JSON, Python or NumPy write it, or a tuple. A set has no order.
_LIST = re.compile(r"""\s*(\[.*\]|\([^()]*,[^()]*\)|\(\s*['"].*\))\s*""", re.DOTALL)
# A passage or answer is a list if it begins with a quoted text, and not with "[1]" or "[[Link]]".
TEXT_LIST = re.compile(r"""\[([\s\[{]*["'].*)?\]""", re.DOTALL)
_MARKED = re.compile(r"^\(?([A-Za-z])[.):]$")  # an answer such as (A) or A.
_BLANK = "_"  # where an option belongs in a question that is a gapped sentence
_BLANKS = re.compile(r"__|[^\W_]_[^\W_]")  # where the option comes several times, or in a word


class Example(NamedTuple):
    """One question.

    Attributes:
        passage_id: str, shared by all questions of a passage.
        question: int, number of the question in its passage, from 1.
        level: str, middle or high; "" in tables.
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


# === Reading ===


def input_files(data_dir, split, levels=LEVELS):
    """Files of a split: for each level all.txt, or else every .txt file, by `tables.order`.

    Args:
        data_dir: str, directory that holds the folder RACE, or else tables, which have no levels.
        split: str, train, dev or test.
        levels: tuple of str, of LEVELS.

    Returns:
        list of (level, path).

    Raises:
        UserError: a level has no file.
    """
    if own_splits(data_dir):
        if levels != LEVELS:
            raise UserError(
                f"--{levels[0]}_only chooses a level of RACE, but --data_dir={data_dir} has "
                "tables, which have no levels: leave it out"
            )
        return [("", split_files.find(data_dir, split, split_files.OWN[split]))]
    found_files = []
    for level in levels:
        folder = os.path.join(data_dir, "RACE", split, level)
        names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
        found = [
            os.path.join(folder, name)
            for name in sorted(names, key=lambda name: tables.order(name.removesuffix(".txt")))
            if name.endswith(".txt") and not name.startswith(".")
        ]
        if not found:
            raise UserError(
                f"no .txt file in {folder}: check --data_dir, or give --middle_only or --high_only"
            )
        whole = os.path.join(folder, "all.txt")
        found_files += [(level, path) for path in ([whole] if whole in found else found)]
    return found_files


def own_splits(data_dir):
    """The splits of which a directory without the folder RACE has a user's own tables: list."""
    names = tf.io.gfile.listdir(data_dir) if tf.io.gfile.isdir(data_dir) else []
    splits = [split for split, own in split_files.OWN.items() if not {*own}.isdisjoint(names)]
    return [] if tf.io.gfile.isdir(os.path.join(data_dir, "RACE")) else splits


def read_examples(
    data_dir, split, tokenizer, levels=LEVELS, most_options=MOST_OPTIONS, counts=None
):
    """Reads the questions of a split; both layouts are understood.

    The original's all.txt has one JSON object a line; the distributed archive one file each.

    Args:
        data_dir: str, directory that holds the folder RACE.
        split: str, train, dev or test. Only test may lack answers, and then all of them.
        tokenizer: FullTokenizer, whose `normalize` cleans passages, questions and options.
        levels: tuple of str, of LEVELS.
        most_options: int.
        counts: dict to fill, or None; of tables, `blanks` are questions with several underscores.

    Returns:
        list of Example.

    Raises:
        UserError: a file is missing or damaged; the message names it and the question.
    """
    examples, paths = [], input_files(data_dir, split, levels)
    for level, path in paths:
        for place, passage in _passages(path):
            if not level and split != "test" and "answers" not in passage:
                raise UserError(f"{place}: there is no answer in a column answer or label")
            if not level and counts is not None:
                has_blanks = bool(_BLANKS.search(passage["questions"][0]))
                counts["blanks"] = counts.get("blanks", 0) + has_blanks
            examples += read_passage(
                passage, place, tokenizer.normalize, level, split != "test", most_options
            )
    where = os.path.commonpath([path for _, path in paths])
    if not examples:
        raise UserError(f"{where} holds no question")
    unknown = sum(example.label is None for example in examples)
    if 0 < unknown < len(examples):
        raise UserError(
            f"{where}: {unknown} of {len(examples)} questions have no answers: give all or none"
        )
    return examples


def count_options(data_dir, levels=LEVELS):
    """The largest number of options of a question in any split: int.

    Args:
        data_dir: str, directory that holds the folder RACE.
        levels: tuple of str, of LEVELS.

    Raises:
        UserError: a training file is missing, or a file is damaged.
    """
    folders = {split: os.path.join(data_dir, "RACE", split) for split in split_files.SPLITS}
    splits = own_splits(data_dir) or [s for s in folders if tf.io.gfile.isdir(folders[s])]
    counts = [2]
    for split in dict.fromkeys(["train", *splits]):
        for _, path in input_files(data_dir, split, levels):
            for place, passage in _passages(path):
                for options in json_file.field(passage, "options", list, place):
                    counts.append(len(options) if isinstance(options, list) else 0)
    return min(max(counts), MOST_OPTIONS)


def trained_options(output_dir, checkpoint=None, ensemble=()):
    """The number of options of a trained model: int; that of RACE if it is not known.

    Args:
        output_dir: str, the run's directory.
        checkpoint: str or None, a model from elsewhere, which is used if the directory has none.
        ensemble: list of str, directories of models that take the place of both.
    """
    folders = [*ensemble] or [
        output_dir,
        *([run_directory.directory_of(checkpoint)] if checkpoint else []),
    ]
    kinds = [run_directory.RunDirectory(folder).task for folder in folders]
    return next((len(kind.labels) for kind in kinds if kind and kind.labels), NUM_OPTIONS)


def read_passage(
    passage, place, normalize, level="", needs_answers=False, most_options=MOST_OPTIONS
):
    """The questions about a passage.

    Args:
        passage: dict, as in the files: id, article, questions, options and, if needed, answers.
        place: str, file and line, for messages.
        normalize: callable, of a FullTokenizer.
        level: str, of LEVELS.
        needs_answers: bool.
        most_options: int.

    Returns:
        list of Example.

    Raises:
        UserError: the passage does not have this form.
    """
    field = json_file.field
    passage_id = passage.get("id") if isinstance(passage, dict) else None
    if type(passage_id) is not int:  # a bool is an int too
        passage_id = field(passage, "id", str, place)
    article = field(passage, "article", str, place)
    questions, options = (field(passage, name, list, place) for name in ("questions", "options"))
    answers = [None] * len(questions)
    if needs_answers or passage.get("answers"):
        answers = field(passage, "answers", list, place)
    counts = {"questions": len(questions), "options": len(options), "answers": len(answers)}
    if len({*counts.values()}) > 1:
        raise UserError(f"{place}: different numbers of entries: {counts}")
    context, examples = normalize(article), []
    entries = zip(questions, options, answers, strict=True)
    for number, (question, choices, answer) in enumerate(entries, start=1):
        where = f"{place}, question {number}"
        question = normalize(field({"question": question}, "question", str, where))
        if not isinstance(choices, list) or not 2 <= len(choices) <= most_options:
            raise UserError(
                f"{where}: there must be 2 to {most_options} options, not {reprlib.repr(choices)}"
            )
        choices = [normalize(field({"option": text}, "option", str, where)) for text in choices]
        if needs_answers or answer is not None:
            answer = _letter(answer, options[number - 1], where)
        # Every underscore is replaced, as in the original: a gap of "__" gets the option twice.
        ending = question if _BLANK in question else f"{question} {_BLANK}"
        endings = tuple(ending.replace(_BLANK, text) for text in choices)
        label = None if answer is None else LETTERS.index(answer)
        examples.append(Example(str(passage_id), number, level, context, endings, label))
    return examples


def _letter(answer, options, where):
    """The letter of an answer: the letter itself, in any case, or the text of one option."""
    letters = LETTERS[: len(options)]
    text = answer.strip() if isinstance(answer, str) else ""
    if len(text) == 1 and text.upper() in letters:
        return text.upper()
    places = [place for place, option in enumerate(options) if option.strip() == text]
    if len(places) != 1:
        raise UserError(
            f"{where}: the answer must be one of {', '.join(letters)}, or the text of one option. "
            f"Received: {reprlib.repr(answer)}"
        )
    return letters[places[0]]


def option_columns(header):
    """The columns of a table with an option each, in order: list of str, empty if there are none.

    They differ in a number from 0 or 1, or in a letter from a.
    """
    groups = {}
    for name in header:
        if match := _OPTION.fullmatch(name.strip()):
            stem, mark = (part.lower() for part in match.groups() if part is not None)
            place = int(mark) if mark.isdecimal() else string.ascii_lowercase.index(mark)
            groups.setdefault((stem, mark.isdecimal()), {})[place] = name
    for group in groups.values():
        first = min(group)
        if len(group) > 1 and first < 2 and sorted(group) == [*range(first, first + len(group))]:
            return [group[place] for place in sorted(group)]
    return []


def columns_of(header):
    """The columns of a table by what they hold: dict from the keys of `COLUMNS` to lists of str."""
    known = {name.lower().replace(" ", "_"): name for name in header}
    known |= {name: name for name in header}
    found = {key: [known[n] for n in names if n in known] for key, names in COLUMNS.items()}
    # Names of options that are also those of answers: they are answers if others hold the options.
    both = [name for name in found["options"] if name in found["answer"]]
    is_answer = len(both) < len(found["options"]) or option_columns(header)
    key = "options" if is_answer else "answer"
    return found | {key: [name for name in found[key] if name not in both]}


def table_of_questions(path):
    """Reads a table with a column of questions: tables.Table.

    Args:
        path: str.

    Raises:
        UserError: no column has questions, or as `tables.open_table`.
    """
    table = tables.open_table(path, *([name] for name in COLUMNS["question"]), has_header=True)
    names = columns_of(table.header)["question"]
    if not names:
        raise UserError(
            f"{path}: no column has questions: name it question. Columns: {', '.join(table.header)}"
        )
    return table.take(names[:1])


def _read_table(path):
    """Reads a table with a question and its options in each row: tables.Table."""
    table = table_of_questions(path)
    columns = columns_of(table.header)
    if not columns["options"] and not option_columns(table.header):
        raise UserError(
            f"{path}: no column has options: name them option 1, option 2, ..., or put a list into "
            f"the column options. Columns: {', '.join(table.header)}"
        )
    parts = [name for name in table.header if name.lower().partition(".")[0] in COLUMNS["article"]]
    if parts and not columns["article"]:
        raise UserError(f"{path}: the passage is an object with {', '.join(parts)}: write a text")
    return table


def passages_of_table(path, with_answers=True):
    """Yields (file and line, passage) of each row of a table, which has one question.

    The columns have the names of `COLUMNS`. A passage that is a list of texts, such as the turns of
    a dialogue, is joined by spaces. Options are a list in one column, or have a column each, as of
    `option_columns`. An answer is a label of an option, if they have labels, or else as the whole
    file tells: numbers of options, from 0 if one of them is 0, or from 1; letters; or texts.

    Args:
        path: str.
        with_answers: bool, whether answers are read.
    """
    table, found, others = _read_table(path), [], []
    columns, names_of = option_columns(table.header), columns_of(table.header)
    # The first one that has content: others, such as document, may name its file, unless rows have
    # texts in either, as of two tables that were joined.
    used, done = [], set()
    for name in names_of["article"]:
        place = table.header.index(name)
        cells = {row.number: "".join(row.cells[place : place + 1]).strip() for row in table.rows}
        filled = {number for number, cell in cells.items() if cell}
        are_texts = all(" " in cells[number] for number in filled)
        if filled and (not used or (are_texts and filled.isdisjoint(done))):
            used, done = [*used, name], done | filled
    names_of["article"] = used
    for number, row in enumerate(table.rows):
        cells = dict(zip(table.header, row.cells, strict=False))
        named = {
            key: next((cells[name] for name in names if cells.get(name)), "")
            for key, names in names_of.items()
        }
        options, labels = [cells.get(name, "") for name in columns], []
        with about(row.place):
            if named["options"]:
                options, labels = _options_in(named["options"])
            if named["labels"]:
                labels = label_lists.items_of(named["labels"])
            article, answer = _joined("passage", named["article"]), named["answer"].strip()
            answer = answer if answer in options else _joined("answer", answer)
        while options and not options[-1]:  # the question has fewer than others
            options.pop()
        if answer not in options:
            answer = _MARKED.sub(r"\1", answer)
        is_known = with_answers and answer not in label_lists.STAND_INS
        is_label = answer in labels and len({*labels}) == len(labels)
        if is_label:
            answer = _letter_at(labels.index(answer))
        passage = {"id": cells.get("id") or str(number), "article": article}
        passage |= {"questions": [named["question"]], "options": [options]}
        found.append((row.place, passage | ({"answers": [answer]} if is_known else {})))
        if is_known and not is_label:
            others.append(found[-1])
    for (_, passage), letter in zip(others, _letters_of(others), strict=True):
        passage["answers"] = [letter]
    yield from found


def _joined(what, cell):
    """A passage or answer that is a list of texts, as one text; another stays as it is."""
    items = label_lists.values_of(cell) if TEXT_LIST.fullmatch(cell) else [cell]
    other = next((item for item in items if not isinstance(item, str)), None)
    if other is not None:
        raise UserError(f"the {what} is a list with {reprlib.repr(other)}: write a list of texts")
    return " ".join(items)


def _options_in(cell):
    """The options of a cell that holds a list, and their labels: two lists of str.

    There are labels if the options are objects, such as `{"label": "A", "text": "red"}`.
    """
    if not _LIST.fullmatch(cell):
        raise UserError(
            f"the options are no list: {reprlib.repr(cell)}. Write them as a list, such as "
            '["red", "green"], or in a column each: option 1, option 2, ...'
        )
    items, labels = label_lists.values_of(cell.strip()), []
    if all(isinstance(item, dict) and "text" in item for item in items):
        labels = [item.get("label") for item in items]
        items = [item["text"] for item in items]
    other = next((item for item in items if isinstance(item, list | dict)), None)
    if other is not None:
        raise UserError(f"an option is {reprlib.repr(other)}: write each option as a text")
    return [[tables.cell(item).strip() for item in values] for values in (items, labels)]


def _letters_of(found):
    """The letters of answers that are texts, letters or numbers of options: list of str.

    An answer is read as all answers of the file can be read. Where none of these readings fits all,
    some may be letters and others texts, which are left as they are.

    Args:
        found: list of (place, passage with one question and its answer).

    Raises:
        UserError: it cannot be seen what an answer means.
    """
    readings = []
    for _, passage in found:
        (answer,), (options,) = passage["answers"], passage["options"]
        count, number = len(options), tables.whole(answer)
        readings.append([
            _place(answer, [*map(str.strip, options)]),
            _place(answer.upper(), [*LETTERS[:count]]),
            _place(number, [*map(str, range(count))]),
            _place(number, [*map(str, range(1, count + 1))]),
        ])  # fmt: skip
    readings = [*zip(*readings, strict=True)]
    possible = [reading for reading in readings if None not in reading]
    if len(possible) == 1 or any(reading == possible[0] for reading in possible[1:]):
        return [*map(_letter_at, possible[0])]
    meanings = zip(*(possible or readings[:2]), strict=True)
    for (where, passage), places in zip(found, meanings, strict=True):
        if len({*places} - {None}) > 1:
            raise UserError(
                f"{where}: the answer {passage['answers'][0]!r} may stand for several options: "
                "write all as letters (A, B, ...) or, if options are letters, as numbers from 0"
            )
    return [passage["answers"][0] for _, passage in found]


def _place(item, items):
    """The place of an item that a list has once: int, or None."""
    return items.index(item) if items.count(item) == 1 else None


def _letter_at(place):
    """The letter of an option; "" if there are too many, which `read_passage` refuses."""
    return LETTERS[place : place + 1]


def _passages(path):
    """Yields (file and line, JSON object) of each passage in a file."""
    if not path.endswith(".txt"):
        yield from passages_of_table(path)
        return
    text = files.read_text(path)
    if os.path.basename(path) == "all.txt":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"{path}, line {number}", parse_json(line, f"{path}, line {number}")
    else:
        yield path, parse_json(text, path)


# === The task ===


def labels_of(choices):
    """The labels of a number of options: tuple of letters."""
    return tuple(LETTERS[:choices])


class RaceTask(base.Task):
    """Choosing the right option for a question about a passage.

    Args:
        text: TextInput.
        max_qa_length: int, longest question with option in tokens.
        dropout_prob: float, of the pooled output.
        choices: int, options of a question; some may have fewer.
    """

    name = "race"
    input_names = ("article", "question", "options")
    objective = objectives.CLASSIFICATION
    key_metric = "eval_accuracy"
    results_layout = "{first}{rest}best = {before}\n{saved}" + evaluation.RULE

    def __init__(self, text, max_qa_length, dropout_prob=0.1, choices=NUM_OPTIONS):
        assert 0 < max_qa_length < text.max_seq_length - NUM_SPECIALS
        self.choices, self.labels = choices, labels_of(choices)
        self.kind = FinetunedTask(self.name, self.labels)
        self.text, self.max_qa_length, self.dropout_prob = text, max_qa_length, dropout_prob
        self.schema = schemas.classification_schema(
            choices * text.max_seq_length, num_labels=choices, **text.sizes
        )

    def make_model(self, config, **encoder_options):
        """The model that scores the options."""
        return heads.MultipleChoiceModel(config, self.dropout_prob, self.choices, **encoder_options)

    def examples(self, inputs):
        """Makes examples from dicts with `article`, `question` and `options`, a list of str."""
        examples = []
        for number, given in enumerate(inputs):
            options = given["options"]
            passage = {
                "id": str(number),
                "article": given["article"],
                "questions": [given["question"]],
                "options": [list(options) if isinstance(options, tuple) else options],
            }
            normalize = self.text.tokenizer.normalize
            examples += read_passage(
                passage, f"example {number}", normalize, most_options=self.choices
            )
        return examples

    def features(self, examples, counts=None):
        """Arrays of the records: for each option [CLS] passage [SEP] question and option [SEP].

        The last pieces of question and option are kept, and as many pieces of the passage as still
        fit.

        Args:
            examples: list of n Examples.
            counts: Counter or None; the lengths of the sequences are added to it.

        Returns:
            dict of numpy arrays, which fit `schema`: input_ids (int32), input_mask and segment_ids
            (int8) [n, choices * T], all 0 where a question has fewer options; label_ids (int32, 0
            where the answer is not known) and is_real_example (int8) [n].
        """
        tokenizer, length = self.text.tokenizer, self.text.max_seq_length
        contexts, endings, encoded, lengths = [], [], {}, []
        for example in examples:
            if example.context not in encoded:  # one for all questions of a passage
                encoded[example.context] = tokenizer.encode_ids(example.context, is_normalized=True)
            context = encoded[example.context]
            for text in (*example.endings, *[""] * (self.choices - len(example.endings))):
                ending = tokenizer.encode_ids(text, is_normalized=True)
                lengths.append(len(context) + len(ending) + NUM_SPECIALS)
                ending = ending[-self.max_qa_length :]
                contexts.append(context[: length - NUM_SPECIALS - len(ending)])
                endings.append(ending)
        if counts is not None:
            data_report.add_lengths(counts, lengths)
        packed = pack_segments(contexts, endings, tokenizer.special_ids(with_mask=False), length)
        existing = np.array([len(example.endings) for example in examples])
        exists = (np.arange(self.choices) < existing[:, np.newaxis]).reshape(-1, 1)
        return {
            name: (values * exists).astype(values.dtype).reshape(-1, self.choices * length)
            for name, values in packed.items()
        } | {
            "label_ids": np.array([example.label or 0 for example in examples], np.int32),
            "is_real_example": np.ones(len(examples), np.int8),
        }

    def texts_of(self, example):
        """The passage, and the question with each option: tuple of str."""
        return example.context, *example.endings

    def metrics(self, split, outputs, batch_size):
        """Accuracy overall and of each level there is, and losses; none without answers."""
        examples, logits = split.content, outputs["logits"]
        if any(example.label is None for example in examples):
            return {}
        labels = np.array([example.label for example in examples])
        levels = np.array([example.level for example in examples])
        hits = base.classes(logits) == labels
        losses = base.cross_entropy(logits, labels)
        results = {"eval_accuracy": float(np.mean(hits)), "eval_loss": float(np.mean(losses))}
        results["loss"] = base.mean_over_batches(losses, batch_size)
        for level in LEVELS:
            if level in levels:
                results[f"eval_accuracy_{level}"] = float(np.mean(hits[levels == level]))
        return results

    def specimen(self):
        """Outputs with all metrics: a question of each level."""
        examples = [Example("", 1, level, "", (), 0) for level in LEVELS]
        return Split({}, examples), {"logits": np.zeros([len(LEVELS), self.choices])}

    def served_functions(self, model, tokenizer, prefix):
        """Functions to export for a model."""
        texts = graph_inputs.Choices(
            tokenizer, self.text.max_seq_length, self.max_qa_length, self.choices
        )
        return signatures.ClassifierFunctions(model, texts, self.labels)


@dataclasses.dataclass(frozen=True)
class RaceData(base.DataSet):
    """The folder RACE.

    Attributes:
        levels: tuple of str, of LEVELS.
    """

    levels: tuple = LEVELS

    notes: ClassVar[dict] = {
        "blanks": "{} questions have several underscores in a row, or some in words, and the "
        "option replaces each of them: write a gap as one _"
    }
    unit = "questions"
    labels_of_test = "answers"

    @property
    def settings(self):
        """Settings that features depend on, besides those of the text."""
        choices = self.task.choices
        return {"levels": self.levels, "max_qa_length": self.task.max_qa_length} | (
            {} if choices == NUM_OPTIONS else {"choices": choices}
        )

    def sources(self, split):
        """Paths of the files of a split."""
        return [path for _, path in input_files(self.data_dir, split, self.levels)]

    def read(self, split):
        """The questions of a split; those of tables with several underscores are counted."""
        counts, given = {}, (self.data_dir, split, self.task.text.tokenizer, self.levels)
        return read_examples(*given, self.task.choices, counts), counts

    def described(self):
        """The training folder and its levels, or the table with the columns that are read."""
        if own_splits(self.data_dir):
            table = _read_table(self.sources("train")[0])
            used = [*itertools.chain(*columns_of(table.header).values())]
            used += ["id", *option_columns(table.header)]
            unused = [name for name in table.header if name not in used]
            return f"{table}" + (f"; not used: {', '.join(unused)}" if unused else "")
        return f"{os.path.join(self.data_dir, 'RACE', 'train')}: {' and '.join(self.levels)} school"

    def prediction_files(self, examples, answers):
        """A table with a header and a line per question.

        The columns are the passage's id, the question's number in the passage (from 1), the
        predicted letter, the right letter (empty if unknown) and the probabilities of the letters.
        """
        rows = [["id", "question", "prediction", "answer", *self.task.labels]]
        for example, answer in zip(examples, answers, strict=True):
            right = "" if example.label is None else LETTERS[example.label]
            numbers = map(np.float32, answer["probabilities"].values())
            rows.append([example.passage_id, example.question, answer["label"], right, *numbers])
        return {os.path.join(self.output_dir, "predictions.tsv"): tables.tab_separated(rows)}
