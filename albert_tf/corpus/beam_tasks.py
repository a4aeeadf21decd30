# SPDX-License-Identifier: Apache-2.0
"""The tasks of the pipelines in `beam_pipeline`: functions on the elements of a collection.

Tokens are fetched by requests: rows that say which tokens of a file are wanted, and where they
belong. The answers are pieces of segments, which are grouped for the next step.
"""

import functools
import itertools
import json
import os
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.corpus import (
    corpus_files,
    corpus_selection,
    local_stages,
    text_files,
    workers,
)
from albert_tf.errors import UserError

_CHUNKS_PER_PART = 16  # 4 MiB of text
_ID_BYTES, _TOKEN_BYTES = 4, 5  # of a token, without and with the mark that it opens a word
# A segment in a request: the place of its record, lengths and kind of the pair, the offset of the
# segment in the record, and the range of tokens in the corpus or in a file.
_COLUMNS = ["file", "block", "row", "a_length", "b_length", "kind", "offset", "begin", "end"]
_OFFSET, _BEGIN, _END = range(6, 9)


def silently(item, task):
    """A task without a progress bar."""
    return task(item, workers.no_report)


# === Text to tokens ===


def text_parts(item, form):
    """Yields ((file, part), chunks of text) of (file, its path)."""
    number, path = item
    chunks = text_files.chunks([path], form)
    for part in itertools.count():
        if not (some := list(itertools.islice(chunks, _CHUNKS_PER_PART))):
            return
        yield (number, part), some


def tokenised(item, encoder, tokens):
    """Writes the tokens of a part; (0, (part, its lines without tokens))."""
    part, chunks = item
    encoded = [encoder(text_files.Chunk(*chunk), workers.no_report) for chunk in chunks]
    path = _token_file(tokens, part)
    with files.replacing(path) as (name,), tf.io.gfile.GFile(name, "wb") as file:
        for array in ("ids", "opens_word"):
            file.write(b"".join(getattr(lines, array).tobytes() for lines in encoded))
    return 0, (part, [lines._replace(ids=None, opens_word=None) for lines in encoded])


def tokens_of(corpus_directory):
    """The directory of the tokens of a corpus."""
    return f"{corpus_directory}-tokens"


def _token_file(tokens, part):
    return os.path.join(tokens, "{:05}-{:05}.bin".format(*part))


def write_index(item, name, directory):
    """Writes where sentences and documents begin, and where their tokens are."""
    parts, sizes = sorted(item[1], key=lambda found: found[0]), []
    with corpus_files.Writer(name, corpus_files.INDEX) as writer:
        for _, lines in parts:
            before = writer.num_tokens
            for some in lines:
                writer.add(some)
            sizes.append(writer.num_tokens - before)
        writer.finish()
    tokens = tokens_of(os.path.basename(directory))
    names = [_token_file(tokens, part) for part, _ in parts]
    _write_parts(directory, names, np.array(sizes), np.arange(len(parts)), np.zeros_like(sizes))


class _Parts(NamedTuple):
    """Locations of the tokens of a corpus, in order.

    Attributes:
        files: list of str, in the work directory.
        starts: int array [n + 1], tokens of the corpus before each part.
        file: int array [n], which of `files` the part is in.
        offset: int array [n], where it begins there, in tokens.
    """

    files: list
    starts: np.ndarray
    file: np.ndarray
    offset: np.ndarray


def _write_parts(corpus_directory, names, sizes, file, offset):
    starts = [0, *np.cumsum(sizes).tolist()]
    content = names, starts, np.asarray(file).tolist(), np.asarray(offset).tolist()
    files.write_text(f"{corpus_directory}-parts.json", json.dumps(content))


@functools.lru_cache(maxsize=2)
def _parts(corpus_directory):
    names, *arrays = files.read_json(f"{corpus_directory}-parts.json")
    return _Parts(names, *(np.array(array, np.int64) for array in arrays))


def is_whole(corpus_directory):
    """Whether a directory holds an index and all tokens that the index names."""
    try:
        names, starts, file, offset = files.read_json(f"{corpus_directory}-parts.json")
    except (UserError, ValueError, TypeError):
        return False
    work = os.path.dirname(corpus_directory)
    sizes = [corpus_files.size_of(os.path.join(work, name)) or 0 for name in names]
    ends = (np.array(offset) + np.diff(starts)) * _TOKEN_BYTES
    return corpus_files.is_whole(corpus_directory) and bool((ends <= np.array(sizes)[file]).all())


@functools.lru_cache(maxsize=2)
def _corpus(directory):
    return corpus_files.open_corpus(directory)


# === Documents to their digests and signatures ===


def document_requests(first, corpus_directory):
    """Yields requests for the documents from `first` on."""
    corpus = _corpus(corpus_directory)
    bounds = corpus.sentences[corpus.documents[first : first + local_stages.DOCUMENTS_TOGETHER + 1]]
    segments = np.zeros((len(bounds) - 1, len(_COLUMNS)), np.int64)
    segments[:, 1], segments[:, 2] = first, np.arange(len(segments))
    segments[:, _BEGIN], segments[:, _END] = bounds[:-1], bounds[1:]
    yield from _by_file(segments, corpus_directory)


def of_documents(item, make):
    """Returns (0, (first document, bytes that `make` gives for it and the next ones))."""
    (_, first), pieces = item
    documents = itertools.groupby(sorted(pieces), key=lambda piece: piece[0])
    documents = [b"".join(piece[5] for piece in some) for _, some in documents]
    bounds = np.cumsum([0, *map(len, documents)]) // _ID_BYTES
    return 0, (first, make(np.frombuffer(b"".join(documents), np.int32), bounds).tobytes())


def write_in_order(item, path):
    """Writes the results of all documents, in order."""
    with files.replacing(path) as (name,), tf.io.gfile.GFile(name, "wb") as file:
        for _, content in sorted(item[1]):
            file.write(content)


def write_documents(directory, chosen, target):
    """Writes a corpus of some documents of another; the tokens stay where they are.

    Args:
        directory: str.
        chosen: bool array [documents].
        target: str, the directory to write.
    """
    corpus, tokens = corpus_files.open_corpus(directory), _parts(directory)
    runs = np.array(corpus_selection.runs(chosen))
    segments = np.zeros((len(runs), len(_COLUMNS)), np.int64)
    segments[:, _BEGIN:] = corpus.sentences[corpus.documents[runs]]
    part, pieces = _in_parts(segments, tokens)
    sizes = pieces[:, _END] - pieces[:, _BEGIN]
    _write_parts(target, tokens.files, sizes, part, pieces[:, _BEGIN])
    corpus_selection.write_documents(directory, chosen, target)


# === Plans to files ===


def requests(plan, writer, wanted):
    """Yields requests for the segments in a plan (int)."""
    content = files.read_bytes(local_stages.plan_file(writer.plans, plan))
    pairs = np.frombuffer(content, np.int64).reshape(-1, 5)
    a, a_end, b, b_end, kind = pairs.T
    a_length, b_length = a_end - a, b_end - b
    common = *writer.places(plan), a_length, b_length, kind
    segments = np.concatenate(
        [
            np.stack([*common, np.zeros_like(a), a, a_end], axis=1),
            np.stack([*common, a_length, b, b_end], axis=1),
        ]
    )
    segments = segments[np.isin(segments[:, 0], list(wanted))]
    yield from _by_file(segments, writer.corpus_directory)


def _by_file(segments, corpus_directory):
    """Yields (file of tokens, rows of _COLUMNS, int64, as bytes)."""
    file, pieces = _in_parts(segments, _parts(corpus_directory))
    order = np.argsort(file, kind="stable")
    file, pieces = file[order], pieces[order]
    bounds = np.flatnonzero(np.diff(file, prepend=-1, append=-1)).tolist()
    for first, stop in itertools.pairwise(bounds):
        yield int(file[first]), pieces[first:stop].tobytes()


def _in_parts(segments, tokens):
    """Splits segments where a part ends; returns (file of each piece, pieces)."""
    starts, segments = tokens.starts, segments[segments[:, _BEGIN] < segments[:, _END]]
    begin, end = segments[:, _BEGIN], segments[:, _END]
    first = np.searchsorted(starts, begin, side="right") - 1
    last = np.searchsorted(starts, end - 1, side="right") - 1
    counts = last - first + 1
    pieces = np.repeat(segments, counts, axis=0)
    number = np.arange(len(pieces)) - np.repeat(np.cumsum(counts) - counts, counts)
    part = np.repeat(first, counts) + number
    begin = np.maximum(pieces[:, _BEGIN], starts[part])
    end = np.minimum(pieces[:, _END], starts[part + 1])
    pieces[:, _OFFSET] += begin - pieces[:, _BEGIN]
    to_file = tokens.offset[part] - starts[part]
    pieces[:, _BEGIN], pieces[:, _END] = begin + to_file, end + to_file
    return tokens.file[part][begin < end], pieces[begin < end]


def segments(item, corpus_directory):
    """Yields ((file, block), a piece of a segment) of the requests for a part."""
    number, requests = item
    name = _parts(corpus_directory).files[number]
    content = files.read_bytes(os.path.join(os.path.dirname(corpus_directory), name))
    ids_end = len(content) // _TOKEN_BYTES * _ID_BYTES
    for some in requests:
        rows = np.frombuffer(some, np.int64).reshape(-1, len(_COLUMNS)).tolist()
        for file, block, row, a_length, b_length, kind, offset, begin, end in rows:
            ids = content[_ID_BYTES * begin : _ID_BYTES * end]
            opens_word = content[ids_end + begin : ids_end + end]
            yield (file, block), (row, offset, a_length, b_length, kind, ids, opens_word)


def record_block(item, writer):
    """Makes the records of a block from pieces of segments: (file, (block, records, counts))."""
    (file, block), pieces = item
    pieces = sorted(pieces)  # by row and offset
    first_of_row = {piece[0]: piece for piece in reversed(pieces)}
    a_length, b_length, kind = np.array([first_of_row[row][2:5] for row in sorted(first_of_row)]).T
    end = np.cumsum(a_length + b_length)
    middle = end - b_length
    pairs = np.stack([middle - a_length, middle, middle, end, kind], axis=1)
    ids = np.frombuffer(b"".join(piece[5] for piece in pieces), np.int32)
    opens_word = np.frombuffer(b"".join(piece[6] for piece in pieces), np.bool_)
    assert len(ids) == end[-1], f"{len(ids)} of {end[-1]} tokens of block {block} of file {file}"
    corpus = corpus_files.Corpus(ids, opens_word, sentences=None, documents=None)
    return file, (block, *writer.record_block(corpus, pairs, file, block))


def write_file(item, writer):
    """Writes an output file from its blocks."""
    file, blocks = item
    blocks = sorted(blocks, key=lambda block: block[0])
    made = (block[1:] for block in blocks)
    writer.write(file, made, workers.no_report)
