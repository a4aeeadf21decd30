# SPDX-License-Identifier: Apache-2.0
"""Files of words and their labels: CoNLL files, and tables of CSV and JSON.

A line is a word and its label, of any scheme of `tag_schemes`; a blank line ends a sentence. CSV
has the same rows, and a JSON object the lists of words and labels of a sentence.
"""

import collections
import itertools
import math
import re
import reprlib
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.corpus import unpacking
from albert_tf.errors import UserError, about, decode, parse_json
from albert_tf.tasks import label_lists, split_files, tables, tag_schemes

# Endings of files, in order of preference; two of one group are an error.
ENDINGS = ((".conll", ".txt"), (".conllu", ".iob2", ".bio"), (".tsv", ".csv", ".jsonl", ".json"))
OF_WORDS_ALONE = (".conll", *ENDINGS[1])  # no file of texts has these endings
DOCUMENT_START = "-DOCSTART-"
# Usual keys of JSON objects, and names of columns.
WORD_NAMES = ("tokens", "words", "token", "word", "form")
_BETWEEN = "\2"  # between the words of a sentence, and between its labels, as PaddleNLP writes them
_TEXTS = ("text", "sentence")  # keys whose value may be a list of words
LABEL_NAMES = ("ner_tags", "tags", "labels", "label", "tag", "ner", "pos_tags", "pos", "upos")
# Names of columns that number or name sentences, or what they are in; and such a number.
_DIVIDES = re.compile(
    r"(sent(ence)?|doc(ument)?)s?([ _.-]?(#|id|idx|index|nr|no|num|number))?", re.IGNORECASE
)
_NUMBERED = re.compile(r"(sent(ence)?|doc(ument)?)\W+\d+", re.IGNORECASE)
# Patterns of words that are single characters, for `re` and for RE2.
CHARACTERS, CHARACTERS_AND_ASCII = r"\S", r"[0-9A-Za-z]+|\S"
_ALIKE = 0.9  # of the lines of a file of words: those with as many columns
LONGEST = 12  # letters; few words have more, and few texts of languages without spaces have less
_NO_LABELS = {"", "_", "-1", "-100"}  # in all lines of a test file
_FEW = 20  # words, too few to tell a label from a name
_MANY = 200  # words of a sentence, which is probably several
_NO_SPANS = "Spans of characters are not read: label each word, such as with B-PER, I-PER and O"
_PART = re.compile(r"[^\s,]+")  # of several words or labels in a cell
_QUOTED = re.compile(r'"(?:[^"]|"")+"')
_LISTED = re.compile(r"\S+([,;]) +(?:\S+\1 +)*\S+")  # a line such as `word, label`
# Words with a language, as `en:Ulm` of WikiANN, or a place in a word, as `科0` of Weibo NER.
_MARKED = (re.compile(r"[a-z-]+:.+"), re.compile(r".\d"))
# The start of a comment, which may have the names of columns, as in CoNLL-U Plus. A tab after #
# ends the name of a column.
_COMMENT = re.compile(r"#+(?!\t)\s*(?:global\.columns\s*=\s*)?")
_INDEX = re.compile(r"\d+([-.]\d+)?")  # the last of a word of CoNLL-U that is no word of its own


class Word(NamedTuple):
    """A word of a file.

    Attributes:
        text: str.
        label: str; "" if the file has none.
        line: int, number of its line in `Sentences.lines`, from 1.
        place: str, file and line, for messages.
        cells: list of str, all columns of its line, as they are written.
    """

    text: str
    label: str
    line: int = 0
    place: str = ""
    cells: Sequence[str] = ()


class Columns(NamedTuple):
    """The columns of word and label: numbers from 0, or names in the first line; None to find them.

    By default, they are those with usual names, or the word is in the first column that does not
    only count the words of each sentence, and the label in the last.
    """

    word: int | str | None = None
    label: int | str | None = None


RECOGNISED = Columns()


class Form(NamedTuple):
    """How a file is written, which tells how others of the same data set are.

    Attributes:
        header: tuple of str, the names of the columns; empty if there are none.
        width: int, the number of columns of most words; 0 if it is unknown.
        has_tabs: bool, whether tabs alone separate its columns.
        label: str, the name of the column of labels; "" if it is unknown.
        has_spaces: bool, whether spaces separate its columns, in lines without a tab.
    """

    header: tuple = ()
    width: int = 0
    has_tabs: bool = False
    label: str = ""
    has_spaces: bool = False


UNKNOWN = Form()


class Sentences(list):
    """The sentences of a file, lists of Word, none of them empty.

    Attributes:
        path: str.
        lines: list of str, all lines of the file, without line ends; of CSV and JSON, lines with
            tabs between word and label.
        comments: int, number of lines left out: those that begin with # and are no words, and
            those of CoNLL-U that are only parts of words or several words.
        columns: Columns, those found.
        form: Form; also `header`, its names of columns.
    """

    def __init__(self, sentences, path, lines, comments, columns, form):
        super().__init__(sentences)
        self.path, self.lines, self.comments, self.columns = path, lines, comments, columns
        self.form, self.header = form, form.header

    @property
    def words(self):
        """List of Word."""
        return list(itertools.chain.from_iterable(self))

    @property
    def rows(self):
        """The columns of the line of each word: list of lists of str."""
        return [word.cells for word in self.words]

    @property
    def labels(self):
        """The label of each word: list of str."""
        return [word.label for word in self.words]

    @property
    def has_labels(self):
        """Whether the words have labels: all of them, or none."""
        return any(self.labels)

    def relabel(self, labels):
        """Gives the words other labels, an iterator of str."""
        for words in self:
            words[:] = [word._replace(label=next(labels)) for word in words]


def input_file(data_dir, split, needed=None):
    """Path of the file of a split; arguments and errors are those of `split_files.find`."""
    groups = ([split + ending for ending in endings] for endings in ENDINGS)
    return split_files.find(data_dir, split, *groups, needed=needed)


def read(path, labels=(), needs_labels=True, columns=RECOGNISED, form=UNKNOWN):
    """Reads a file.

    Args:
        path: str, in UTF-8.
        labels: sequence of str, the labels of the model; empty to allow any.
        needs_labels: bool; if False, the file may have no labels at all, or unusable ones: then a
            line says why, and the words have none.
        columns: Columns.
        form: Form, as of `read_words`.

    Returns:
        Sentences.

    Raises:
        UserError: as `read_words`; a line holds several words; or a label is missing, does not fit
            the others or is unknown.
    """
    sentences = read_words(path, columns, labels, form)
    _check_words(sentences, columns, labels)
    if needs_labels:
        _read_labels(sentences, labels, columns, form)
        return sentences
    _check_no_texts(sentences, columns, labels, form)
    found = {*sentences.labels}
    are_missing = found <= _NO_LABELS or any(map(label_lists.is_missing, found))
    try:
        if len(found) > 1 or not are_missing or found <= {*labels}:
            _read_labels(sentences, labels, columns, form)
            return sentences
    except UserError as error:
        print(f"The test set is not scored: {error}")
        if sentences.columns.label is None:  # the last column may have no labels at all
            sentences.columns = sentences.columns._replace(label=max(map(len, sentences.rows)))
    sentences.relabel(itertools.repeat(""))
    return sentences


def _check_no_texts(sentences, columns, labels, form):
    """Raises UserError if each line of a test file seems to be a text; arguments as of `read`."""
    found, ours = {*sentences.labels}, sentences.form
    last = -1 if columns.label is None else columns.label
    if tag_schemes.are_of_spans(found) or (last != -1 and not found.isdisjoint(labels)):
        return
    spaced = sum(" " in sentences.lines[word.line - 1].strip() for word in sentences.words)
    fits = ours.has_spaces and ours.width <= form.width and not _is_ragged(sentences)
    may_be_texts = spaced * 2 > len(sentences.words) and not fits
    if may_be_texts and not are_words(sentences, columns.word, last, labels):
        raise UserError(
            f"{sentences[0][0].place}: each line seems to be a text: write a word on each line, or "
            "give the texts to predict.py; if the lines are words, name the file .conll"
        )


def _read_labels(sentences, labels, columns, form):
    """Reads other spellings of spans as BIO, and spellings such as 1.0 as those that are known.

    Args:
        sentences: Sentences.
        labels: sequence of str, as of `read`.
        columns: Columns, those given.
        form: Form, as of `read`.

    Raises:
        UserError: a label is missing, does not fit the others or is unknown.
    """
    if under_a_key := tag_schemes.under_a_key(sentences.labels, labels):
        sentences.relabel(iter(under_a_key))
    if not labels and columns.label is None:
        _check_label_column(sentences)
    if to_bio := tag_schemes.find_spelling({*sentences.labels}, {*labels}):
        found = []
        for words in sentences:
            with about(words[0].place):
                found += to_bio(word.label for word in words)
        sentences.relabel(iter(found))
    same = tables.spellings({*sentences.labels}, labels)
    sentences.relabel(same.get(label, label) for label in sentences.labels)
    places = {word.label: word.place for word in reversed(sentences.words)}  # the first ones
    if "" in places:
        remedy = (
            "Lists have as many labels as words. Else a line is a word and its label, with a tab "
            "between them in all lines, or a space, and no tab at its end; a file with commas is "
            "named .csv"
        )
        if len(places) == 1 and (sentences.header or columns.label is not None):
            there = ", ".join(sentences.header) or f"columns 0 to {sentences.form.width - 1}"
            other = "" if columns.label is None else f" than {columns.label}"
            remedy = f"There are {there}: give another --label_column{other}"
        raise UserError(f"{places['']}: the label is missing. {remedy}")
    for word in sentences.words:
        if labels and word.label not in labels:
            path, n = sentences.path, sentences.form.width
            is_unlabelled = {*sentences.labels}.isdisjoint(labels)
            if sentences.columns.label is None and n < form.width and is_unlabelled:
                raise UserError(f"{path} has {n} columns and no labels; training had {form.width}")
            raise UserError(
                f"{word.place}: unknown label {reprlib.repr(word.label)}; known are "
                f"{', '.join(labels)}. Correct it, or give the labels of all files as --labels"
            )
    with about(sentences.path):
        tag_schemes.check_ends(places, tag_schemes.find(labels or places))


def read_words(path, columns=RECOGNISED, labels=(), form=UNKNOWN):
    """Reads a file without checking its labels.

    Args:
        path: str, in UTF-8.
        columns: Columns.
        labels: sequence of str, some labels that words may have.
        form: Form, that of the training file: its first line may be one here too, and words may
            have spaces if it has tabs.

    Returns:
        Sentences.

    Raises:
        UserError: the file cannot be read or holds no word, a line is not UTF-8, or a column is
            missing; the message names the line.
    """
    lines, places, columns, keys = _lines(path, columns, form)
    is_table = keys is not None
    has_spaces = not is_table and _have_spaces(lines, labels, form)
    rows = [(n, _cells_of(line, has_spaces)) for n, line in enumerate(lines, start=1)]
    columns, names, divides = _read_header(path, lines, rows, columns, form)
    num_filled = sum(bool(cells) for _, cells in rows)
    if not is_table:
        rows = _without_comments(rows, lines, labels)
    rows = _divided(path, rows, [n for n in divides if n not in columns])
    groups = itertools.groupby(rows, key=lambda row: bool(row[1]))
    groups, has_index = _of_index([list(group) for is_words, group in groups if is_words])
    if not groups:
        raise UserError(f"{path} holds no word; a line is a word and its label")
    if columns.word is None:
        columns = columns._replace(word=int(has_index))
    found = [[_word(n, cells, columns, places[n - 1]) for n, cells in group] for group in groups]
    widths = [len(word.cells) for words in found for word in words]
    label = -1 if columns.label is None else columns.label
    form = Form(
        header=(*(names or keys or ()),),
        width=statistics.mode(widths),
        has_tabs=not (is_table or has_spaces),
        label="".join(names[label:][:1]),
        has_spaces=has_spaces,
    )
    return Sentences(found, path, lines, num_filled - len(widths), columns, form)


def _lines(path, columns, form):
    """Reads a file.

    Returns:
        (lines with a word each, list of str; their places, list of str; Columns; the keys of the
        lists of words and labels, list of str, empty if CSV has none; None if it is no table of CSV
        or JSON, so that there may be comments).
    """
    content = unpacking.read(path)
    is_json = path.endswith((".json", ".jsonl", ".txt")) and tables.is_json(content, path)
    if not (is_json or path.endswith(".csv")):
        lines = content.splitlines()  # of bytes, it knows only the line ends of ASCII
        places = [f"{path}, line {n}" for n in range(1, len(lines) + 1)]
        lines = _unquoted([*map(decode, lines, places)])
        if sum(_BETWEEN in line for line in lines) * 3 >= len(_filled(lines)) > 0:
            lines[0] *= {*lines[0].split("\t")}.isdisjoint(LABEL_NAMES)  # names of columns
            lines, places = map(list, zip(*_of_sentences(lines, places), strict=True))
        if all(map(_LISTED.fullmatch, _filled(lines))):
            lines = [re.sub("[,;] +", " ", line) for line in lines]
        return lines, places, columns, None
    # With two columns, a space may follow each comma. In a single one, a comma may be a word.
    table = tables.open_table(path, (0, 1), has_header=False)
    if len(table.first) < 2:
        table = tables.open_table(path, (0,), has_header=False)
    table = table.take((0,), keep_blank=True)
    if not is_json:
        table, columns = _with_lists(table, columns)
    if table.header:
        found, columns = [*_of_objects(table, columns, form.header)], Columns(0)
    else:
        found = [(row.place, row.cells if any(row.cells) else ()) for row in table.rows]
    lines = [tables.tab_separated([cells]).removesuffix("\n") for _, cells in found]
    return lines, [place for place, _ in found], columns, table.header or []


def _of_sentences(lines, places):
    """Yields (line, place) of each word of lines with a sentence each, and a blank one after it."""
    for line, place in zip(lines, places, strict=True):
        cells = [cell.split(_BETWEEN) for cell in line.split("\t")]
        with about(f"{place}: give as many labels as words, with U+0002 between them", ValueError):
            yield from (("\t".join(word), place) for word in zip(*cells, strict=True))
        yield "", place


def _filled(lines):
    """The lines that may be words, without spaces around them: list of str."""
    return [x.strip(" ") for x in lines if x.strip() and not x.startswith(("#", DOCUMENT_START))]


def _unquoted(lines):
    """Lines without the quotes around their cells, if these are written as pandas writes them.

    pandas puts cells with a quote, or all cells, in quotes, and doubles the quotes inside. In other
    files, quotes belong to the words.
    """
    cells = [cell for line in lines for cell in line.split("\t") if cell]
    quoted = {cell for cell in cells if '"' in cell}
    are_needed = any('""' in cell[1:-1] for cell in quoted) or quoted >= {*cells}
    if not (quoted and are_needed and all(map(_QUOTED.fullmatch, quoted))):
        return lines
    plain = {cell: cell[1:-1].replace('""', '"') for cell in quoted}
    return ["\t".join(plain.get(cell, cell) for cell in line.split("\t")) for line in lines]


def _with_lists(table, columns):
    """Gives a table of CSV its header if each cell of words and labels holds a list, as of JSON.

    Returns:
        (tables.Table; Columns, by name if it has a header now).
    """
    names, rows = table.first, [row for row in table.rows[1:] if any(row.cells)]
    given = Columns(*(names[c] if isinstance(c, int) and c < len(names) else c for c in columns))
    word, label = _keys(names, given)
    places = [names.index(name) for name in (word, label) if name]
    cells = [cell for n in places for row in rows for cell in row.cells[n : n + 1] or [""]]
    if word and cells and all(map(label_lists.in_brackets, cells)):
        return table._replace(header=names, rows=rows), given
    return table, columns


def _keys(header, columns):
    """The names of words and labels in a header, None where there is none: list."""
    return [
        next((n for n in ([given] if given else usual) if n in header), None)
        for given, usual in zip(columns, (WORD_NAMES, LABEL_NAMES), strict=True)
    ]


def _of_objects(table, columns, known):
    """Yields (place, [word, label]) of each word in the lists, and (place, ()) after a sentence.

    A table whose keys are a part of those that are known, from the training, may have no labels.
    """
    header, is_part = table.header, {*table.header} <= {*known}
    names = [n if n in header else None for n in _keys(known if is_part else header, columns)]
    if not names[0] and columns.word is None:  # a text may be a list too
        cells = dict(zip(header, table.rows[0].cells, strict=False))
        names[0] = next((n for n in _TEXTS if label_lists.in_brackets(cells.get(n, ""))), None)
    needed = zip(columns[: 2 - is_part], names, strict=False)
    missing = [n for n, found in needed if n is not None and not found]
    if missing or not names[0]:
        raise UserError(
            f"{table.path}: no key {missing[0] if missing else WORD_NAMES[0]!r} has a list; there "
            f"are {reprlib.repr(header)[1:-1]}: give --text_column and --label_column of lists, or "
            f"use CoNLL. {_NO_SPANS}"
        )
    for row in table.rows:
        cells = [row.cells[table.header.index(name)] for name in names if name]
        is_json, shown = not table.form.separator, ", ".join(cells)
        if cells[1:] in ([""], ["[]"]):  # no labels
            cells.pop()
        with about(row.place):
            if not all(map(label_lists.in_brackets, cells)):
                raise UserError(f"lists of words and labels are expected. Received: {shown}")
            # In CSV, lists may be those of Python or NumPy.
            lists = [parse_json(c, "a list") if is_json else label_lists.items_of(c) for c in cells]
            if all(item in ("", None) for item in lists[-1]):
                del lists[1:]
            for item in itertools.chain(*lists):
                if item in ("", None) or isinstance(item, dict | list):
                    raise UserError(
                        f"{reprlib.repr(item)} is no word or label: write a list of words, and a "
                        f"list of as many labels. Received: {shown}"
                    )
            if len(lists[0]) != len(lists[-1]):
                raise UserError(f"{len(lists[0])} words, but {len(lists[-1])} labels")
        for cells in zip(*lists, strict=True):
            yield row.place, [str(cell) for cell in cells]
        yield row.place, ()


def _read_header(path, lines, rows, columns, form):
    """Reads the line before the words that names the columns, and makes it blank.

    Args:
        path: str.
        lines: list of str, without the header afterwards.
        rows: list of (number of the line, its columns or False), likewise.
        columns: Columns.
        form: Form, that of the training file, whose column of labels may be missing here.

    Returns:
        (Columns by number; list of str, the names, empty without a header; list of int, columns
        that divide sentences).
    """
    widths = {len(cells) for _, cells in rows if cells and not cells[0].startswith("#")}
    is_csv, given, cells = path.endswith(".csv"), tables.names_in(columns), []
    for place, (number, cells) in enumerate(rows):
        if not cells:
            continue
        line = lines[number - 1]
        comment = _COMMENT.match(line) if widths else None
        names = [name.strip() for name in columns_of(line[comment.end() if comment else 0 :])]
        is_part = {*names} <= {*form.header}
        named = columns if given else _named_in(names, is_part)
        is_header = given or is_csv or len(widths) == 1 or "\t" in line
        if comment:
            is_header = len(names) in widths and "=" not in names and {*given} <= {*names}
        if is_header and tables.names_in(named):
            lines[number - 1] = ""
            del rows[place]
            found = named if columns == RECOGNISED else columns
            known = dict(enumerate(form.header))
            if form.label and is_part and (form.label not in names or columns == RECOGNISED):
                found = found._replace(label=form.label if form.label in names else len(known))
            numbers = (
                None if c is None else tables.number_of(c, names, path, known=known) for c in found
            )
            divides = [n for n, name in enumerate(names) if _DIVIDES.fullmatch(name)]
            return Columns(*numbers), names, divides
        if not comment:
            break
    return columns, [], [n for n, cell in enumerate(cells) if is_csv and _NUMBERED.fullmatch(cell)]


def _divided(path, rows, columns):
    """Rows with a blank one wherever columns that number or name sentences change.

    Raises:
        UserError: most sentences have one word, and some come again: rows were shuffled.
    """
    last, starts = (), []
    for number, cells in rows:
        now = [cells[n] if cells and n < len(cells) else "" for n in columns]
        now = tuple(new or old for new, old in itertools.zip_longest(now, last, fillvalue=""))
        if last and now != last:
            starts.append(now)
            yield number, False
        last = now
        yield number, cells
    if len({*starts}) < len(starts) > len(rows) / 2:
        raise UserError(
            f"{path}: the words of a sentence do not stand together, such as those of "
            f"{', '.join(starts[-1])!r}: sort the rows by sentences, with the words in their order"
        )


def _have_spaces(lines, labels, form):
    """Whether spaces separate columns: at least half of the lines have spaces and no tab.

    If the training file has tabs, a label has to follow the last space, since words may have
    spaces; or all lines have the same three columns or more. Arguments are those of `read_words`.
    """
    filled = _filled(lines)
    parts = [x.rpartition(" ") for x in filled if "\t" not in x]
    count = sum(bool(space and (not form.has_tabs or last in labels)) for _, space, last in parts)
    widths = {len(x.split()) for x in filled}
    return (count > 0 and count * 2 >= len(filled)) or (len(widths) == 1 and min(widths) > 2)


def _cells_of(line, has_spaces):
    """The columns of a line, none of a blank line or the start of a document: list of str."""
    cells = columns_of(line, has_spaces)
    return cells if "".join(cells).strip(" ") and not cells[0].startswith(DOCUMENT_START) else []


def _named_in(names, is_part):
    """The Columns with usual names in the first line; RECOGNISED if it is no header.

    Args:
        names: list of str, the cells of the first line.
        is_part: bool, whether the header of the training file has all of them.
    """
    words = [name for name in names if name.lower() in WORD_NAMES]
    labels = [name for name in names if name.lower() in LABEL_NAMES]
    others = [name for name in names if _DIVIDES.fullmatch(name)]
    if words and (labels or others or is_part):
        return Columns(words[0], labels[-1] if labels else None)
    return RECOGNISED


def _without_comments(rows, lines, labels):
    """The rows that are no comments; these begin with # and are not like words.

    Args:
        rows: list of (number of the line, its columns).
        lines: list of str.
        labels: sequence of str, some labels that words may have.
    """
    words = [cells for _, cells in rows if cells and not cells[0].startswith("#")]
    if not words:
        return rows
    widths = {len(cells) for cells in words}
    labels = {cells[-1] for cells in words} | {*labels}
    marked = {(x[0], x[-1]) for _, x in rows if x and x[0].startswith("#")}
    recurring = collections.Counter(label for _, label in marked)

    def is_comment(number, cells):
        if not cells or not cells[0].startswith("#"):
            return False
        if len(cells) not in widths or (len(cells) == 1 and " " in cells[0]):
            return True
        if len(cells) == 1 or cells[-1] in labels:
            return False
        outside = {"O", "o"} & labels
        if outside == labels or tag_schemes.are_of_spans(labels):
            return not tag_schemes.are_of_spans(outside | {cells[-1]})
        # A tag that only words with # have is one if it recurs or stands within a sentence.
        is_inside = number > 1 and bool(lines[number - 2].strip())
        return not ("\t" in lines[number - 1] and (recurring[cells[-1]] > 1 or is_inside))

    return [row for row in rows if not is_comment(*row)]


def _of_index(groups):
    """Divides groups of rows where a first column that counts their words starts again.

    Rows of CoNLL-U without a number of their own are left out then: "3-4" for two words in one, or
    "3.1".

    Returns:
        (groups; bool, whether there is such a column: it counts the words of each sentence or of
        the file).
    """
    last, rises, divided = 0, 0, []
    for group in groups:
        divided.append([])
        for place, (line, cells) in enumerate(group):
            if (index := _INDEX.fullmatch(cells[0])) and index[1]:
                continue
            if len(cells) < 2 or not index:
                return groups, False
            number = int(cells[0])
            if number == 1 and place and last:
                divided.append([])
            elif number != last + 1 and (place or number > 1):
                return groups, False
            rises += number == last + 1 and place > 0
            last = number
            divided[-1].append((line, cells))
    return ([*filter(None, divided)], True) if rises else (groups, False)


def _is_ragged(sentences):
    """Whether more than a few lines have another number of columns than most (bool)."""
    widths = [*map(len, sentences.rows)]
    return widths.count(sentences.form.width) < _ALIKE * len(widths)


def are_words(found, given, label, labels, longest=LONGEST):
    """Whether the lines of a file of an unknown kind are words, and not texts.

    Its name or its first line may tell. Otherwise, nearly all lines of words have as many columns,
    and these have labels, or most cells are short and have no space. If spaces separate the
    columns, texts may have as many words by chance: then groups of lines between blank ones show
    that they are no texts, or the number of a column that is given. These also allow words with
    spaces, and so does `.tsv`.

    Args:
        found: Sentences.
        given: str or int, the column of the words, by a flag; or None.
        label: str or int, the column of the labels in the training, -1 for the last; or None.
        labels: sequence of str, those of the model.
        longest: int, characters of the longest words that texts without spaces cannot be.
    """
    if found.header or found.path.endswith(OF_WORDS_ALONE) or DOCUMENT_START in found.lines[0]:
        return True
    rows, width = found.rows, found.form.width
    alike = [row for row in rows if len(row) == width]
    is_header = given is None and "text" in rows[0] and {*rows[0]}.isdisjoint(labels)
    if is_header or len(rows) < 2 or _is_ragged(found):
        return False
    columns = [*zip(*alike, strict=True)]
    last = label if label in range(width) else -1
    of_labels = {cell.strip() for cell in columns[last]}
    # Plain tags may end texts too, but for a known column.
    are_known = last == label and len(of_labels.difference(labels)) * 2 <= len(of_labels)
    if width > 1 and (are_known or of_labels == {"_"} or tag_schemes.are_of_spans(of_labels)):
        return True
    is_apart = isinstance(given, int) or found.path.endswith(".tsv") or 1 < len(found) < len(rows)
    if found.form.has_spaces:  # tags are repeated or in capitals, and the words of texts are not
        others = [cells for n, cells in enumerate(columns) if n != (given or 0)]
        are_tags = (
            len({*cells}) * 2 <= len(alike) or all(cell == cell.upper() for cell in cells)
            for cells in others
        )
        is_apart &= any(are_tags)
    is_list = not (found.form.has_spaces or found.path.endswith(".csv"))
    is_list = is_list and not any(" " in cell for cell in itertools.chain(*columns))
    counts = [sum(" " not in x and 0 < len(x) <= longest for x in cells) for cells in columns]
    return (is_apart or is_list) and min(counts) * 2 > len(alike)


def _check_words(sentences, columns, labels):
    """Raises UserError if lines have lists of labels, or the column of the words has none.

    All its cells are labels; or it was recognised, and they have a mark, or are only numbers, also
    such as 1-2, or the same in all lines of a sentence, such as the name of a file. The first line
    of many may have the names of the columns.

    Args:
        sentences: Sentences.
        columns: Columns, those given.
        labels: sequence of str, those of the model, as far as they are known.
    """
    path, words, rows = sentences.path, sentences.words, sentences.rows
    # Several labels, next to a cell with as many parts.
    several = [word for word in words if _size(word.label) > 1]
    word = several[0] if several else None
    are_alike = all([*map(_size, w.cells)].count(_size(w.label)) > 1 for w in several)
    if word and (are_alike or word.label.startswith(("{", "[{"))):
        raise UserError(
            f"{word.place}: the label {reprlib.repr(word.label)} has {_size(word.label)} parts: "
            f"write a word on each line, or lists in --text_column and --label_column. {_NO_SPANS}"
        )
    is_long, is_found = len(words) > _FEW, columns.word is None
    column, texts = sentences.columns.word, [word.text for word in words[is_long:]]
    if is_found and is_long and any(all(map(mark.fullmatch, texts)) for mark in _MARKED):
        raise UserError(
            f"{path}: all words have a mark, such as {texts[0]}: remove it, or give "
            f"--text_column={column} if it belongs to them"
        )
    are_numbers = len(texts) > 2 and all(map(_INDEX.fullmatch, texts))
    is_constant = max(len({word.text for word in words}) for words in sentences) == 1
    is_constant &= max(map(len, sentences)) > 2
    is_wrong = is_found and min(map(len, rows)) > 2 and (are_numbers or is_constant)
    are_labels = [tables.are_labels(cells, labels) for cells in (texts, sentences.labels)]
    if is_wrong or are_labels == [True, False]:  # labels may also be words
        raise UserError(
            f"{path}: column {column} seems to hold no words, but {texts[0]!r} and the like: give "
            "the one of the words as --text_column, by name if the first line has names"
        )


def _check_label_column(sentences):
    """Raises UserError if the last column of a training file seems to have no labels."""
    path, labels = sentences.path, {*sentences.labels}
    by_column = [{*cells} for cells in zip(*sentences.rows, strict=False)]
    marked = [number for number, cells in enumerate(by_column) if tag_schemes.are_of_spans(cells)]
    has_keys = labels == {"_"} or any("=" in label for label in labels)
    if marked and not tag_schemes.are_of_spans(labels):
        raise UserError(
            f"{path}: column {marked[0]} has labels such as B-x and O: give --text_column and "
            f"--label_column={marked[0]}, or the number of the last column as --label_column"
        )
    if has_keys and sentences.columns.word == 1 and len(by_column) == 10:
        raise UserError(f"{path}: the last column is MISC of CoNLL-U: give --label_column=3")
    widths = [*map(len, sentences.rows)]
    is_ragged = widths.count(sentences.form.width) * 2 <= len(widths)
    if is_ragged and not (sentences.header or tag_schemes.are_of_spans(labels)):
        raise UserError(
            f"{sentences[0][0].place}: lines have {min(widths)} to {max(widths)} columns: write a "
            "word and its label on each line, with a tab between them"
        )


def _size(cell):
    """The number of words or labels in a cell, which is one in most."""
    return len(_PART.findall(cell))


def _word(line, cells, columns, place):
    word, label = columns.word, _label_place(cells, columns)
    if word >= len(cells) or not cells[word]:
        raise UserError(f"{place}: column {word} has no word; --text_column gives another")
    return Word(cells[word], "".join(cells[label : label + 1]).strip(), line, place, cells)


def _label_place(cells, columns):
    """The place of the label in a line (list of str): behind its end if it has none."""
    last = max(len(cells) - 1, columns.word + 1)
    return last if columns.label is None else min(columns.label, len(cells))


def columns_of(line, has_spaces=True):
    """Columns of a line: list of str.

    Tabs separate them; in a line without tabs, spaces do if `has_spaces`. Any other white space,
    such as a no-break space, belongs to a word.
    """
    if "\t" in line:
        return line.split("\t")
    return list(filter(None, line.split(" ") if has_spaces else [line.strip(" ")]))


def find_labels(data_dir, given=None, columns=RECOGNISED):
    """The labels in the order of their ids.

    Args:
        data_dir: str.
        given: sequence of str; None for those of the training file, O first, then by
            `tables.order`.
        columns: Columns.

    Returns:
        tuple of str.

    Raises:
        UserError: the given labels are invalid, or the training file is needed and unusable.
    """
    if given:
        if len(set(given)) < max(len(given), 2):
            raise UserError(f"--labels={','.join(given)} must be at least two different labels")
        with about(f"--labels={','.join(given)}"):
            tag_schemes.find(given)
        return tuple(given)
    path = input_file(data_dir, "train", split_files.LABELS_NEEDED)
    sentences = read(path, columns=columns)
    found = collections.Counter(sentences.labels)
    if columns.label is None and not sentences.header and _are_like_words(sentences.words):
        raise UserError(
            f"{path}: the last column has {len(found)} different labels for {found.total()} words, "
            f"such as {reprlib.repr(sentences.labels[0])}: give the number of the right one as "
            "--label_column, from 0; or this one if it has the labels"
        )
    for doubt in _doubts(sentences, found):
        print(f"Warning: {doubt}")
    if len(found) < 2:
        raise UserError(f"{path}: at least two different labels are needed, not {', '.join(found)}")
    return tuple(sorted(found, key=lambda label: (label != "O", tables.order(label))))


def _doubts(sentences, counts):
    """Yields warnings of sentences and labels of a training file.

    Args:
        sentences: Sentences.
        counts: Counter of their labels.
    """
    path, words, total = sentences.path, sentences.words, counts.total()
    if len(sentences) == 1 and total > _MANY:
        yield (
            f"{path}: all {total} words are one sentence: divide sentences by blank lines, by a "
            "column sentence_id, or by an object of JSON for each"
        )
    if not sentences.header and counts[words[0].label] == 1 and total > _FEW:
        yield (
            f"{words[0].place}: the label {words[0].label!r} occurs only here. If this line has "
            "the names of the columns, give --text_column and --label_column by name"
        )
    alone = (words[0] for words in sentences if len(words) == 1)
    texts = [word for word in words if " " in word.text]
    texts = texts or [word for word in alone if len(word.text) > LONGEST]
    if len(texts) * 2 > total:
        yield (
            f"{texts[0].place}: {len(texts)} of {total} words seem to be texts, such as "
            f"{reprlib.repr(texts[0].text)}: write a word and its label on each line; for a label "
            "of each text, give --task_name=tsv"
        )
    # Marks, such as a hyphen, may be their own tags.
    of_others = collections.Counter(w.label for w in words if w.label != w.text)
    for doubt in label_lists.doubts_of_words(of_others):
        yield f"{path}: {doubt}"
    if all(math.isfinite(tables.number(label)) for label in counts):
        yield (
            f"{path}: the labels are numbers, such as {words[0].label}. If they stand for names "
            "such as B-PER, write these into the files: then entities are scored"
        )


def _are_like_words(words):
    """Whether labels (of list of Word) are as different as words, or often the word itself."""
    letters = [word for word in words if word.text.isalpha()]
    same = sum(word.text.casefold() == word.label.casefold() for word in letters)
    most = max(len(words), _MANY) / 2  # few words may have many morphological tags
    return len({word.label for word in words}) > most or same > max(len(letters), _FEW) / 3


def find_pattern(words):
    """The pattern of words such as those of a training, as of a `base.Task`: str or None.

    They may be single characters, as of Chinese. Then letters and digits of ASCII between them may
    still be words, such as NBA or 2004.

    Args:
        words: list of Word.
    """
    if not words or sum(len(word.text) == 1 for word in words) < _ALIKE * len(words):
        return None
    texts = [word.text for word in words if word.text.isascii() and word.text.isalnum()]
    are_whole = sum(len(text) > 1 for text in texts) > (1 - _ALIKE) * len(texts)
    return CHARACTERS_AND_ASCII if are_whole else CHARACTERS


def with_labels(sentences, labels):
    """Content of a file with the words of another file and new labels.

    Args:
        sentences: Sentences.
        labels: iterable of str, one for each word.

    Returns:
        str: the columns of each word with tabs between them, and the new label in that of labels,
        or behind them if there is none; and a blank line between sentences. Other lines are as they
        were, or blank.
    """
    lines = [line.strip() for line in sentences.lines]
    for word, label in zip(sentences.words, labels, strict=True):
        place = _label_place(word.cells, sentences.columns)
        lines[word.line - 1] = "\t".join([*word.cells[:place], label, *word.cells[place + 1 :]])
    for before, after in itertools.pairwise(sentences):
        if after[0].line == before[-1].line + 1:  # no blank line divides them
            lines[before[-1].line - 1] += "\n"
    return "\n".join(lines) + "\n"
