# SPDX-License-Identifier: Apache-2.0
"""The stages of making pre-training records as Apache Beam pipelines, for many machines.

Each stage is a pipeline without side inputs, so that simple runners can run it too. All machines
read and write the work directory. It holds the tokens in many files, and the index of the corpus
(where sentences and documents begin) in one piece, which every process maps into memory.

The records are the same as from one machine, since the same tasks make them with the same random
draws. The last stage fetches tokens by requests: rows that say which tokens of a file are wanted,
and where they belong. The answers are pieces of segments, which are grouped by block of records.
"""

import collections
import contextlib
import io
import itertools
import logging
import os
import re

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.corpus import corpus_files, segment_pairs, text_files, workers
from albert_tf.errors import UserError, import_extra
from albert_tf.records import record_files

beam = import_extra("apache_beam", "--runner")
pipeline_options = import_extra("apache_beam.options.pipeline_options", "--runner")
beam_runner = import_extra("apache_beam.runners.runner", "--runner")

_RUNNERS = {
    # Without these options, Beam would first try to download another runner, Prism.
    "directrunner": [
        "--runner=DirectRunner",
        "--allow_unsafe_triggers",
        "--default_sdk_harness_log_level=CRITICAL",
    ],
    # Beam has no short name for this runner.
    "daskrunner": ["--runner=apache_beam.runners.dask.dask_runner.DaskRunner"],
}
_LOGGERS = {"directrunner": "apache_beam", "daskrunner": "distributed"}
_CHUNKS_PER_PART = 16  # 4 MiB of text
# The columns of a segment in a request: the place of its record, the lengths and kind of the pair,
# the offset of the segment in the record, and its range of tokens in the corpus or in a file.
_COLUMNS = ["file", "block", "row", "a_length", "b_length", "kind", "offset", "begin", "end"]
_OFFSET, _BEGIN, _END = range(6, 9)
_USER_ERROR = re.compile(r"UserError: (.*?)(?: \[while running .*)?$", re.MULTILINE)


class BeamRunner(contextlib.AbstractContextManager):
    """Runs the stages as pipelines; use it in place of `stages.LocalRunner`.

    Args:
        runner: str, a name that Beam knows, such as DataflowRunner.
        options: list of str, further pipeline options: "region=us-east1" or "--region=us-east1".

    Raises:
        UserError: Apache Beam is not installed (when this module is imported), or has no such
            runner.
    """

    is_shared = True  # machines share the work directory

    def __init__(self, runner, options=()):
        given = [f"--{option.strip().removeprefix('--')}" for option in options]
        self._options = [*_RUNNERS.get(runner.lower(), [f"--runner={runner}"]), *given]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):  # argparse would print all existing options
                parsed = pipeline_options.PipelineOptions(self._options)
                beam_runner.create_runner(parsed.get_all_options()["runner"])  # it may add options
                unknown = parsed.get_all_options(retain_unknown_options=True).keys()
                unknown -= parsed.get_all_options().keys()
        except (ValueError, ImportError, AttributeError) as error:
            raise UserError(f"--runner={runner}: {error}") from error
        except SystemExit as error:
            reason = said.getvalue().rpartition("error: ")[2].strip()
            raise UserError(f"--beam_pipeline_options={','.join(options)}: {reason}") from error
        if runner.lower() in _LOGGERS:  # this process reports their errors itself
            logging.getLogger(_LOGGERS[runner.lower()]).setLevel(logging.CRITICAL)
        if unknown:  # a cluster may know them
            print(f"Pipeline options that Beam leaves to the runner: {', '.join(sorted(unknown))}")

    def __exit__(self, *_):
        pass

    def _pipeline(self, stage, items, *steps):
        """Runs a pipeline and waits for its end.

        Args:
            stage: str, for messages.
            items: list, the elements to begin with.
            *steps: (name, beam.PTransform) of the steps.

        Raises:
            UserError: a task found bad input.
        """
        print(f"{stage}: {len(items)} tasks to begin with", flush=True)
        try:
            pipeline = beam.Pipeline(options=pipeline_options.PipelineOptions(self._options))
            collection = pipeline | "Begin" >> beam.Create(items) | "Share" >> beam.Reshuffle()
            for name, step in steps:
                collection = collection | name >> step
            result = pipeline.run()
            try:
                state = result.wait_until_finish()
            finally:  # else Dask's local cluster would keep running and, after an error, writing
                if client := getattr(result, "client", None):
                    client.close()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if found := _USER_ERROR.search(text):
                raise UserError(found[1]) from error
            if "while running" in text or "Traceback" in text:
                raise  # a bug in a task
            raise UserError(f"--runner: {' '.join(text.split())}") from error
        if state not in (None, beam_runner.PipelineState.DONE):
            raise UserError(f"{stage}: the pipeline ended in state {state}; see the runner's log")

    def identify(self, paths):
        """Names, sizes and times of files, to detect changes without reading the files here."""
        return [[path, *record_files.state(path).values()] for path in paths]

    def write_corpus(self, paths, form, encoder, directory):
        """Tokenizes text files like `LocalRunner.write_corpus`, but writes tokens to many files.

        Args:
            paths: list of str.
            form: text_files.Format.
            encoder: line_encoder.LineEncoder.
            directory: str, where the index is written; the tokens are next to it.
        """
        tokens = f"{directory}{corpus_files.TOKENS_ENDING}"
        try:
            with files.replacing_directory(directory) as name:
                self._pipeline(
                    "tokenizing",
                    list(enumerate(paths)),
                    ("Read", beam.FlatMap(_text_parts, form)),
                    ("ShareText", beam.Reshuffle()),
                    ("Tokenize", beam.Map(_tokenized, encoder, tokens)),
                    ("Gather", beam.GroupByKey()),
                    ("Index", beam.Map(_write_index, name)),
                )
                found, counts = 0, collections.Counter()
                if tf.io.gfile.listdir(name):  # if not, all text files are empty
                    corpus = corpus_files.open_corpus(corpus_files.documents_file(name))
                    found, counts = len(corpus.documents), corpus.counts
                text_files.check_not_empty(found, paths, counts)
        except BaseException:
            files.remove(tokens)
            raise

    def run(self, stage, task, items, total, done=0.0, path=None):
        """Runs a task for each item like `LocalRunner.run`, but without a progress bar."""
        write = [("Gather", beam.GroupByKey()), ("Write", beam.Map(_write_in_order, path))]
        self._pipeline(
            stage,
            list(enumerate(items)),
            ("Run", beam.Map(_numbered, task)),
            *(write if path else []),
        )

    def write_records(self, writer, missing, total):
        """Writes the output files `missing` (list of int) of a RecordWriter."""
        self._pipeline(
            "writing",
            [plan for plan, count in enumerate(writer.counts) if count],
            ("Request", beam.FlatMap(_requests, writer, frozenset(missing))),
            ("ToTokens", beam.GroupByKey()),
            ("Answer", beam.FlatMap(_segments, writer)),
            ("ToBlocks", beam.GroupByKey()),
            ("Mask", beam.Map(_record_block, writer)),
            ("ToFiles", beam.GroupByKey()),
            ("Write", beam.Map(_write_file, writer)),
        )


# === Tasks: functions on the elements of a collection ===


def _numbered(item, task):
    """Returns (0, (number of the item, result of the task))."""
    number, item = item
    return 0, (number, task(item, workers.no_report))


def _write_in_order(item, path):
    """Writes the results of all items, bytes, in order."""
    with files.writing(path) as file:
        for _, content in sorted(item[1]):
            file.write(content)


# === Text to tokens ===


def _text_parts(item, form):
    """Yields ((file, part), chunks of text) for an item (file, its path)."""
    number, path = item
    chunks = text_files.chunks([path], form)
    for part in itertools.count():
        if not (some := list(itertools.islice(chunks, _CHUNKS_PER_PART))):
            return
        yield (number, part), some


def _tokenized(item, encoder, tokens):
    """Writes the tokens of a part; returns (0, (part, its lines without tokens))."""
    part, chunks = item
    encoded = [encoder(text_files.Chunk(*chunk), workers.no_report) for chunk in chunks]
    with files.writing(os.path.join(tokens, _token_file(part))) as file:
        for array in corpus_files.TOKENS:
            file.write(b"".join(getattr(lines, array).tobytes() for lines in encoded))
    return 0, (part, [lines._replace(ids=None, opens_word=None) for lines in encoded])


def _token_file(part):
    return "{:05}-{:05}.bin".format(*part)


def _write_index(item, name):
    """Writes where sentences and documents begin, and the sizes of the files of tokens."""
    sizes = {}
    with corpus_files.Writer(name, corpus_files.INDEX) as writer:
        for part, lines in sorted(item[1], key=lambda found: found[0]):
            for some in lines:
                writer.add(some)
            tokens = sum(some.counts["tokens_read"] for some in lines)
            path = f"{corpus_files.TOKENS_ENDING}/{_token_file(part)}"
            sizes[path] = corpus_files.TOKEN_BYTES * tokens
        writer.finish(sizes)


# === Plans to files ===


def _requests(plan, writer, wanted):
    """Yields (file of tokens, rows of _COLUMNS, int64, as bytes) for the segments in a plan."""
    a, a_end, b, b_end, kind = writer.planner.pairs(plan).T
    a_length, b_length = a_end - a, b_end - b
    common = *writer.places(plan), a_length, b_length, kind
    segments = np.concatenate(
        [
            np.stack([*common, np.zeros_like(a), a, a_end], axis=1),
            np.stack([*common, a_length, b, b_end], axis=1),
        ]
    )
    is_empty = segments[:, _BEGIN] == segments[:, _END]  # the second segment if there is one
    segments = segments[np.isin(segments[:, 0], list(wanted)) & ~is_empty]
    file, pieces = _by_file(segments, writer.planner.corpus.token_starts)
    order = np.argsort(file, kind="stable")
    file, pieces = file[order], pieces[order]
    bounds = np.flatnonzero(np.diff(file, prepend=-1, append=-1)).tolist()
    for first, stop in itertools.pairwise(bounds):
        yield int(file[first]), pieces[first:stop].tobytes()


def _by_file(segments, starts):
    """Splits segments where a file of tokens ends; returns (file of each piece, pieces)."""
    begin, end = segments[:, _BEGIN], segments[:, _END]
    first = np.searchsorted(starts, begin, side="right") - 1
    last = np.searchsorted(starts, end - 1, side="right") - 1
    counts = last - first + 1
    pieces = np.repeat(segments, counts, axis=0)
    file = np.repeat(first, counts) + segment_pairs.numbers_within(counts)
    begin = np.maximum(pieces[:, _BEGIN], starts[file])
    end = np.minimum(pieces[:, _END], starts[file + 1])
    pieces[:, _OFFSET] += begin - pieces[:, _BEGIN]
    pieces[:, _BEGIN], pieces[:, _END] = begin - starts[file], end - starts[file]
    return file[begin < end], pieces[begin < end]


def _segments(item, writer):
    """Answers requests for a file of tokens: yields ((file, block), piece of a segment)."""
    number, requests = item
    content = files.read_bytes(list(writer.planner.corpus.token_files)[number])
    ids_end = len(content) // corpus_files.TOKEN_BYTES * corpus_files.ID_BYTES
    for some in requests:
        rows = np.frombuffer(some, np.int64).reshape(-1, len(_COLUMNS)).tolist()
        for file, block, row, a_length, b_length, kind, offset, begin, end in rows:
            ids = content[corpus_files.ID_BYTES * begin : corpus_files.ID_BYTES * end]
            opens_word = content[ids_end + begin : ids_end + end]
            yield (file, block), (row, offset, a_length, b_length, kind, ids, opens_word)


def _record_block(item, writer):
    """Makes a record block from pieces of segments; returns (file, (block, records, counts))."""
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


def _write_file(item, writer):
    """Writes an output file from its blocks."""
    file, blocks = item
    writer.write(file, (block[1:] for block in sorted(blocks, key=lambda block: block[0])))
