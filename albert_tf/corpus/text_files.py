# SPDX-License-Identifier: Apache-2.0
"""Reads text files of sentences, documents or JSON lines as one sentence per line."""

import contextlib
import functools
import itertools
import re
import reprlib
from typing import NamedTuple

import tensorflow as tf

from albert_tf import errors, options
from albert_tf.corpus import unpacking
from albert_tf.errors import UserError, import_extra
from albert_tf.text import text_losses

_LONGEST = 1 << 24  # bytes of a line or document; encoding takes about 26 times as much memory
_WINDOW = 1 << 13  # characters: the splitter's time grows with the square of the length
_CONTEXT = 256  # characters, far more than are needed to tell whether a sentence ends
_BLANK_LINE = re.compile(rb"(?:^|\n)[ \t]*\n")  # in a block that begins at the start of a line
LEFT_OUT = {  # why lines are left out, as a count -> a text for the count
    "lines_dropped": "lines: the tokenizer finds nothing in them",
    "lines_skipped": "lines: they are not UTF-8, so the file may have another encoding",
    "texts_missing": "lines: they have no text under --text_key",
}
JOINED = "joined: {:,} words that were divided at line ends"
_MANY_LEFT_OUT = 0.01  # of the lines
_LINE_ENDS = re.compile(rb"\r+\n?")
# A word that is divided at the end of a line: its first part, the mark and its second part.
_DIVIDED = re.compile(
    rf"(?<![^\W\d_])([^\W\d_]+)({text_losses.DIVIDING})\n[ \t]*({text_losses.SMALL}[^\W\d_]*)"
)
_MANY_DIVIDED, _FEW_DIVIDED = 0.02, 10  # of the lines; in text without divided words under 0.01
# The end of a line between letters of Chinese and Japanese, which have no spaces. Thai has some.
_UNSPACED = "[\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\uff00-\uffef]"
_UNSPACED_END = re.compile(rf"(?<={_UNSPACED})\n[ \t]*(?={_UNSPACED})")
_CODES = {  # other codes of ISO 639 -> those that sentence-splitter has
    code: language
    for language, codes in (
        ("ca", "cat"), ("cs", "ces cze"), ("da", "dan"), ("de", "deu ger"), ("el", "ell gre"),
        ("en", "eng"), ("es", "spa"), ("fi", "fin"), ("fr", "fra fre"), ("hu", "hun"),
        ("is", "isl ice"), ("it", "ita"), ("lt", "lit"), ("lv", "lav lvs"), ("nl", "nld dut"),
        ("no", "nb nn nob nno nor"), ("pl", "pol"), ("pt", "por"), ("ro", "ron rum"), ("ru", "rus"),
        ("sk", "slk slo"), ("sl", "slv"), ("sv", "swe"), ("tr", "tur"),
    )
    for code in codes.split()
}  # fmt: skip
_GREEK_QUESTION = re.compile("([Ͱ-Ͽἀ-῿][;\u037e][\"'”’»)]*)(?=\\s+[\"'“«(]*[Ά-Ϋ])")
_MARKS = "։؟۔।॥৷။።፧፨។៕᠃།༎᱾᱿꯫꧉܀׃。！？｡"
_TYPED = (  # in place of marks that a keyboard lacks: Ethiopic, Indic, Armenian, Chinese, Japanese
    r"፡፡|(?<=[\u0900-\u0dff])\|+(?!\S)|(?<=[\u0531-\u0587]):(?!\S)"
    rf"|(?<={_UNSPACED})[!?]+(?=[\"'”’)]*(?![。，、；：！？》」』）】]){_UNSPACED})"
)
# The ends of sentences that Latin letters do not have, and in Georgian, which has no capitals.
_ENDS = re.compile(
    rf"((?:[{_MARKS}]|{_TYPED})[{_MARKS}.!?…]*(?: *[།༎])*[\"'”’»)\]）」』】》]*"
    r"|[.!?…][\"'”’“»)\]]*\s+(?=[\"'“„«(\[]*[ა-ჰ]))"
)
# White space but spaces. A no-break space after what may be an abbreviation stays: `Vol. II`.
_SPACE = re.compile(
    r"[^\S ](?:(?=\s)|(?<!\b\w\.[\xa0\u202f])(?<!\b\w\w\.[\xa0\u202f])(?<!\b\w\w\w\.[\xa0\u202f]))"
)
# The spaces after a sentence that ends in “ or «, as in German and Danish, or before „ or » and a
# letter. A full stop there may be that of an abbreviation.
_QUOTED = re.compile(
    r"((?:[.?!…][\"'”’]*[“‘«‹][\"'”’“‘«‹)\]]*|[!?](?= +[„‚»›])))"
    r" +(?=[„‚»›\"'(]*([^\W\d_]))"
)


class Format(options.TextFormat):
    """The form of text files.

    Raises:
        UserError: the sentence splitter is needed, but is not installed, or --language is no code.
    """

    def __post_init__(self):
        super().__post_init__()
        if self.input_format != "sentences" and not _rules_of(self.language):
            print(
                f"--language={self.language}: sentence-splitter has no rules for it, so sentences "
                "end after the marks of all scripts, with the abbreviations of English"
            )

    @property
    def has_documents_of_lines(self):
        """Whether the lines up to a blank one have to be read together."""
        return self.input_format == "documents" and not self.document_per_line


class Chunk(NamedTuple):
    r"""Some whole lines of a file, or whole documents if they have to be split into sentences.

    Attributes:
        content: bytes with the line end "\n".
        path: str.
        first_line: int, number of the first line, from 1.
        form: Format.
        ends_document: bool, whether a document ends after this chunk.
    """

    content: bytes
    path: str
    first_line: int
    form: Format = Format()
    ends_document: bool = False

    @property
    def num_lines(self):
        """The number of lines that are not blank."""
        return sum(not line.isspace() for line in self.content.splitlines(True))


def chunks(paths, form):
    """Yields the text of files in Chunks; the end of a file ends a document only if `form` says so.

    Args:
        paths: list of str; compressed files are unpacked.
        form: Format.

    Raises:
        UserError: a file cannot be read, or has a line or a document that is too long.
    """
    for path in paths:
        line, parts = 1, []
        blocks = _with_plain_line_ends(unpacking.blocks(path))
        for block in unpacking.whole_lines(blocks, functools.partial(_check_length, path, "line")):
            end = len(block)
            if form.has_documents_of_lines:  # up to the last blank line
                end = max((match.end() for match in _BLANK_LINE.finditer(block)), default=0)
            if end:
                content, parts = b"".join([*parts, block[:end]]), []
                yield Chunk(content, path, line, form)
                line += content.count(b"\n")
            parts.append(block[end:])
            _check_length(path, "document from line", line, parts)
        content = b"".join(parts)
        if content or form.file_is_document:
            yield Chunk(content, path, line, form, form.file_is_document)


def _check_length(path, what, number, parts):
    """Raises UserError if text is too long to fit into memory when it is encoded."""
    if sum(map(len, parts)) > _LONGEST:
        raise UserError(
            f"{path}, {what} {number}: longer than {_LONGEST >> 20} MiB; put line breaks into the "
            "text, and blank lines between documents"
        )


def _with_plain_line_ends(parts):
    r"""Yields text with \n for \r\n (also \r\r\n) and \r."""
    held = b""  # \r at the end of a block, which may belong to a \n
    for block in parts:
        block = held + block
        held = block[len(block.rstrip(b"\r")) :]
        yield _LINE_ENDS.sub(_plain, block.removesuffix(held))
    yield _LINE_ENDS.sub(_plain, held)


def _plain(match):
    return b"\n" if match[0].endswith(b"\n") else b"\n" * len(match[0])


def say_tables(paths):
    """Prints a warning if files are named as tables, whose columns would be read as text."""
    tables = [x for x in paths if re.search(r"\.[ct]sv(\.(gz|bz2|xz|zst))?$", x, re.IGNORECASE)]
    if tables:
        print(
            f"warning: {len(tables)} of {len(paths)} files are named as tables, such as "
            f"{tables[0]}, whose columns and quotes are read as text: write the text of each row "
            "as an object of JSON on a line, for --input_format=jsonl"
        )


def total_size(paths):
    """Total size of files in bytes; None if some are compressed.

    Raises:
        UserError: a file cannot be read.
    """
    if any(map(unpacking.is_packed, paths)):
        return None
    return sum(tf.io.gfile.stat(path).length for path in paths)


def check_not_empty(has_text, paths, counts):
    """Raises UserError if files contain no text.

    Args:
        has_text: bool or int, false if no text was found.
        paths: list of str.
        counts: Counter of the lines left out, by the reasons in LEFT_OUT.
    """
    if has_text:
        return
    remedy = "give files with text"
    if missing := counts["texts_missing"]:
        lines = (chunk.content.splitlines() for chunk in chunks(paths, Format()))
        first = next(filter(bytes.strip, itertools.chain.from_iterable(lines)))
        keys = dict.fromkeys(_keys_of(errors.parse_json(first, paths[0], constants=float)))
        remedy = (
            f"{missing} JSON lines have none under --text_key, give another key. The first line "
            f"has texts under: {', '.join(keys) or 'none':.500}"
        )
    raise UserError(f"no text in {', '.join(paths)}: {remedy}")


def left_out(count, total, what, first=()):
    """Says that lines are left out; this is a warning if they are many.

    Args:
        count: int, the lines that are left out.
        total: int, all lines.
        what: str, a text of LEFT_OUT.
        first: list of str, places of the first of them.
    """
    start = "warning: " * (count > _MANY_LEFT_OUT * total)
    places = f" (first: {'; '.join(first)})" * bool(first)
    return f"{start}left out: {count:,} of {total:,} {what}{places}"


# === Sentences ===


def sentences(chunk):
    """The sentences of a chunk, with an empty string where a document ends.

    Args:
        chunk: Chunk.

    Returns:
        (list of str, dict from the reasons in LEFT_OUT, and "words_joined" for lines that end in
        the middle of a word, to list of the numbers of the lines).

    Raises:
        UserError: a line is not UTF-8, or not a JSON object with the text.
    """
    form, skipped = chunk.form, {}
    numbered = _decoded(chunk, skipped)
    if form.input_format == "jsonl":
        numbered = _texts_of_json(numbered, chunk, skipped)
    found = [line for _, line in numbered]
    if form.input_format != "sentences":
        if form.has_documents_of_lines:  # a sentence may go on in the next line
            documents = [[text] for text in _joined(numbered, skipped)]
        else:
            documents = [re.split("[\n\r\u2028\u2029]+", text) for text in found]
        split = _splitter(form.language)
        found = []
        for paragraphs in documents:
            for text in filter(str.strip, paragraphs):
                found += _in_windows(_SPACE.sub(" ", text).strip(), split)
            found.append("")
    return [*found, ""] if chunk.ends_document else found, skipped


def _joined(numbered, skipped):
    """Yields the text of each run of lines; adds the lines that end inside a word to `skipped`.

    Hyphens of compounds, as in well-known, are at a few line ends of any text. If many lines end
    with one, the words of the other lines tell which hyphens divide a word.
    """
    text = "\n".join(line if line.strip() else "" for _, line in numbered)
    others, number = _DIVIDED.subn(" ", text)
    has_divided = number > max(_MANY_DIVIDED * len(numbered), _FEW_DIVIDED)
    words = set(re.findall(r"[^\W\d_]+", others.lower())) if has_divided else ()
    parts, end, line = [], 0, 0
    for match in _DIVIDED.finditer(text):
        first, mark, second = match.groups()
        is_divided = has_divided and ((first + second).lower() in words or second not in words)
        if is_divided or mark in "\xac\xad":
            parts.append(text[end : match.start(2)])
            line += text.count("\n", end, match.start(3))
            skipped.setdefault("words_joined", []).append(numbered[line - 1][0])
            end = match.start(3)
    whole = _UNSPACED_END.sub("", "".join([*parts, text[end:]]))
    return (run.strip("\n").replace("\n", " ") for run in whole.split("\n\n") if run.strip())


def _decoded(chunk, skipped):
    """List of (number, line) of a chunk; adds the numbers of lines left out to `skipped`."""
    numbered = []
    for number, line in enumerate(chunk.content.splitlines(True), start=chunk.first_line):
        try:
            text = errors.decode(line, f"{chunk.path}, line {number}")
            numbered.append((number, text.removesuffix("\n")))
        except UserError as error:
            _skip(error, number, chunk, skipped)
    return numbered


def _skip(error, number, chunk, skipped):
    """Adds the number of a line that is not UTF-8 to `skipped`, or raises UserError."""
    if chunk.form.on_decode_error == "stop":
        raise UserError(f"{error}. To leave out such lines, give --on_decode_error=skip")
    skipped.setdefault("lines_skipped", []).append(number)


def _texts_of_json(numbered, chunk, skipped):
    """List of (number, text) of JSON lines; adds the numbers of lines left out to `skipped`."""
    texts, key = [], chunk.form.text_key
    remedy = (
        f"Write one object with a text under --text_key={key} on each line, as jq -c . does with "
        "an object over several lines, and jq -c '.[]' with a list"
    )
    for number, line in numbered:
        if not line.strip():
            continue
        where = f"{chunk.path}, line {number}"
        with errors.about("--input_format=jsonl", UserError, RecursionError, remedy=remedy):
            value = errors.parse_json(line, where, constants=float)  # NaN of other keys
            found = list(_values_of(value, key)) if isinstance(value, dict) else [[value]]
        found = [text for text in found if text is not None and text == text]  # NaN of pandas
        if not found:
            skipped.setdefault("texts_missing", []).append(number)
            continue
        if not all(isinstance(text, str) for text in found):
            raise UserError(f"{where} has {reprlib.repr(value)}. {remedy}")
        text = "\n".join(found)
        try:
            text.encode()  # JSON can hold half of a character
            texts.append((number, text))
        except UnicodeEncodeError:
            error = f"{where}: correct the text, which has half of a character: {text!r:.80}"
            _skip(error, number, chunk, skipped)
    return texts


def _values_of(value, key):
    """Yields what a JSON value has under a key, "a.b" for b in the object a; goes through lists."""
    if isinstance(value, list):
        is_of_parts = not key and any(isinstance(x, dict) and "text" in x for x in value)
        for each in _texts_of(value) if is_of_parts else value:
            yield from _values_of(each, key)
    elif key is None:
        yield value
    elif isinstance(value, dict):
        outer, _, rest = (key, "", None) if key in value else key.partition(".")
        yield from _values_of(value.get(outer), rest)


def _texts_of(parts):
    """The texts of objects with the key text; one text next to strings, as of chats: list of str.

    If some part is neither, the parts stay.
    """
    texts = [part.get("text", "") if isinstance(part, dict) else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        return parts
    return ["".join(texts)] if any(isinstance(part, str) for part in parts) else texts


def _keys_of(value, start=""):
    """Yields the keys of the texts in a JSON value, as `_values_of` takes them."""
    if isinstance(value, str):
        yield start
    elif isinstance(value, list):
        for each in value:
            yield from _keys_of(each, start)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _keys_of(each, f"{start}.{key}" if start else key)


def _in_windows(text, split):
    """Splits a paragraph into sentences, in time that grows linearly with its length.

    Whether a sentence ends after a word depends on a few words around it. So the last sentence of
    a window, or its last words if it is very long, is split again together with the next text.
    """
    found, begun, open_ = [], [], ""  # begun, open_: settled part and rest of the last sentence
    for piece in _pieces(text):
        first, *others = split(open_ + piece)
        if others:
            found += ["".join([*begun, first]), *others[:-1]]
            begun = []
        open_ = (others or [first])[-1] + " " * piece.endswith(" ")
        settled = max(0, len(open_) - _CONTEXT)
        if settled:  # up to the end of a word, unless the last word is that long
            settled = open_.find(" ", settled, -1) + 1 or settled
        begun.append(open_[:settled])
        open_ = open_[settled:]
    return [*found, "".join([*begun, open_]).rstrip()]


def _pieces(text):
    """Yields a text in pieces that end after a space, if there is one."""
    start = 0
    while start < len(text):
        stop = start + _WINDOW
        if stop < len(text):
            stop = text.rfind(" ", start, stop) + 1 or stop
        yield text[start:stop]
        start = stop


@functools.cache
def _rules_of(language):
    """The function of sentence-splitter for a language; None if it has no rules for it."""
    sentence_splitter = import_extra("sentence_splitter", "--input_format=documents or jsonl")
    if not re.fullmatch("[a-z]{2,3}", language):
        raise UserError(f"--language={language}: give the code of two or three letters, such as en")
    with contextlib.suppress(sentence_splitter.SentenceSplitterException):
        return sentence_splitter.SentenceSplitter(_CODES.get(language, language)).split


def _splitter(language):
    """The function that splits a text into its sentences, list of str."""
    rules, code = _rules_of(language), _CODES.get(language, language)
    if code == "en":
        return rules
    ends = (_GREEK_QUESTION if code == "el" else None) if rules else _ENDS
    return functools.partial(_by_marks, ends, rules or _rules_of("en"))


def _by_marks(ends, split, text):
    """Splits a text after quotes and the marks that match `ends`, and each part with `split`."""
    text = _QUOTED.sub(lambda match: match[1] + ("\n" if match[2].isupper() else " "), text)
    text = ends.sub("\\1\n", text) if ends else text
    return list(filter(None, itertools.chain.from_iterable(map(split, text.split("\n"))))) or [""]
