# SPDX-License-Identifier: Apache-2.0
"""From text files to files of pre-training records, in three stages that can be resumed.

The tokenised text, the plans of the passes and a note of each finished output file lie in a work
directory, under names that are hashes of all they depend on. What is there is not made again.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import files
from albert_tf.data import (
    corpus_reader,
    index_permutation,
    line_encoding,
    pretraining,
    pretraining_summary,
    record_index,
    records,
    text_formats,
    worker_pool,
)
from albert_tf.errors import UserError

_RECORDS_PER_BLOCK = 1024  # part of what decides about the records: do not change it lightly
_FORMAT = 1  # of the work directory; a new number for other files or other random draws
_NUM_LOGGED = 20
# Share of the tokens that begin with a space, and of those that do not but count as words, from
# which on a text has words that the original's rule splits. Of Chinese, few begin with a space.
_SPLIT_WORDS = 0.1
_STATE = ("corpus-", "plans-", "notes-")  # beginnings of the names in a work directory


def create(
    inputs,
    outputs,
    tokenizer,
    settings,
    *,
    form=None,
    word_start="original",
    num_workers=1,
    work_directory=None,
):
    """Makes the pre-training records of text files.

    The instances of all passes, in random order, go to the output files in turn.

    Args:
        inputs: list of str, text files.
        outputs: list of str, TFRecord files to write, compressed if a name ends in .gz. Each
            appears when it is whole. A summary in JSON is written beside the first.
        tokenizer: FullTokenizer.
        settings: pretraining.Settings.
        form: text_formats.Format; None for one sentence per line, and blank lines between
            documents.
        word_start: str, one of line_encoding.WORD_STARTS.
        num_workers: int, processes. The records do not depend on it.
        work_directory: str or None, on a local disk, for what is needed until all is done. By
            default a hidden one beside the first output, which is removed at the end.

    Returns:
        pretraining_summary.Summary.

    Raises:
        UserError: text that cannot be read or is empty, a vocabulary without the special pieces,
            or outputs that cannot be written.
    """
    started = time.monotonic()
    special_ids = tokenizer.special_ids(with_mask=True)
    form = form or text_formats.Format()
    encoder = line_encoding.LineEncoder(tokenizer, form, word_start)
    reading = {**dataclasses.asdict(form), "word_start": word_start}
    _check_outputs(inputs, outputs)
    work = work_directory or _usual_work_directory(outputs)
    files.check_writable(work, "work_directory")
    with _work_directory(work, is_kept=bool(work_directory)), files.locked(work, "writing"):
        names = _names(inputs, outputs, [tokenizer.fingerprint, reading], settings)
        if not work_directory:
            _remove_others(work, names)
        corpus_directory, plans, notes = (os.path.join(work, name) for name in names)
        with worker_pool.WorkerPool(num_workers, encoder) as pool:
            if not os.path.isdir(corpus_directory):
                corpus_reader.write_corpus(inputs, form, encoder, corpus_directory, pool)
            corpus = corpus_reader.open_corpus(corpus_directory)
            passes = _plan(_Planner(corpus_directory, plans, settings), corpus, pool)
            counts = [sum(figures["kinds"]) for figures in passes]
            vocabulary = special_ids, tokenizer.vocab_size
            writer = _Writer(corpus_directory, plans, notes, counts, outputs, settings, *vocabulary)
            kept, shards = _write(writer, corpus, pool)
        summary = _summary(corpus, passes, shards, word_start)
        summary.kept, summary.seconds = kept, time.monotonic() - started
        settings_found = {**reading, **dataclasses.asdict(settings)}
        given = {
            "input_files": inputs,
            "settings": settings_found,
            "vocabulary": tokenizer.fingerprint,
        }
        _write_summary(summary, outputs, shards, given)
    if logging.level_info():
        _log(outputs[0], tokenizer, settings)
    return summary


# === The work directory ===


def _usual_work_directory(outputs):
    name = f".albert_tf-work-{_hash(list(map(_same_path, outputs)))}"
    first = outputs[0]
    return os.path.join(tempfile.gettempdir() if "://" in first else os.path.dirname(first), name)


@contextlib.contextmanager
def _work_directory(work, is_kept):
    """Removes a work directory at the end, and on an error that leaves nothing to go on from."""
    done = False
    try:
        yield
        done = True
    finally:
        if not is_kept and (done or not any(map(os.path.isdir, _entries(work)))):
            shutil.rmtree(work, ignore_errors=True)


def _entries(work):
    return [os.path.join(work, name) for name in os.listdir(work) if name.startswith(_STATE)]


def _names(inputs, outputs, reading, settings):
    """Names in the work directory of the corpus, the plans, and the notes on output files."""
    text = [_FORMAT, corpus_reader.content_hashes(inputs), reading]
    plans = [*text, dataclasses.asdict(settings)]
    return (
        f"corpus-{_hash(text)}",
        f"plans-{_hash(plans)}",
        f"notes-{_hash([*plans, list(map(_same_path, outputs))])}",
    )


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _remove_others(work, names):
    for path in _entries(work):
        if os.path.basename(path) not in names:
            shutil.rmtree(path)


def _check_outputs(inputs, outputs):
    taken = set(map(_same_path, inputs))
    for path in outputs:
        if _same_path(path) in taken:
            raise UserError(
                f"--output_file: {path} is an input file too, or named twice; choose another name"
            )
        taken.add(_same_path(path))
        files.check_file_writable(path, "output_file")


def _same_path(path):
    return path if "://" in path else os.path.realpath(path)


# === Plans of the passes ===


def _plan(planner, corpus, pool):
    """The figures of all passes, planned if they are not yet."""
    passes = range(planner.settings.dupe_factor)
    total = corpus.text_bytes * len(passes)
    with worker_pool.progress("planning", total) as bar:
        return list(pool.in_order(planner, passes, bar.update))


@dataclasses.dataclass
class _Planner:
    """Plans a pass: a file of pairs, and its figures in another."""

    corpus_directory: str
    plans: str
    settings: pretraining.Settings

    def __call__(self, pass_index, report):
        corpus = corpus_reader.open_corpus(self.corpus_directory)
        plan, note = (
            _plan_file(self.plans, pass_index),
            f"{_plan_file(self.plans, pass_index)}.json",
        )
        if os.path.exists(note):
            report(corpus.text_bytes)
            return files.read_json(note)
        kinds, cut = np.zeros(3, np.int64), 0
        with files.replacing(plan) as (name,), open(name, "wb") as file:
            for pairs, tokens_cut in pretraining.plan_pass(corpus, self.settings, pass_index):
                pairs.tofile(file)
                kinds += np.bincount(pairs[:, -1], minlength=3)
                cut += tokens_cut
                report(0)
        report(corpus.text_bytes)
        figures = {"kinds": kinds.tolist(), "tokens_cut": cut}
        files.write_text(note, json.dumps(figures))
        return figures


def _plan_file(plans, pass_index):
    return os.path.join(plans, f"{pass_index:05}.bin")


# === Output files ===


def _write(writer, corpus, pool):
    """(files kept, figures of all output files), written if they are not yet."""
    numbers = range(len(writer.outputs))
    found = {number: figures for number in numbers if (figures := writer.finished(number))}
    missing = [number for number in numbers if number not in found]
    passed = corpus.text_bytes * len(writer.counts)
    with worker_pool.progress("writing", passed) as bar:
        per_record = passed / sum(writer.counts)
        bar.update(per_record * sum(figures["count"] for figures in found.values()))
        made = pool.in_order(writer, missing, lambda count: bar.update(count * per_record))
        made = dict(zip(missing, made, strict=True))
    figures = found | made
    return len(found), [figures[number] for number in numbers]


@dataclasses.dataclass
class _Writer:
    """Writes an output file, and a note with its figures in the work directory."""

    corpus_directory: str
    plans: str
    notes: str
    counts: list  # of the instances of each pass
    outputs: list
    settings: pretraining.Settings
    special_ids: tuple
    vocab_size: int

    def __call__(self, number, report):
        path = self.outputs[number]
        lengths, instance_tokens, predictions = [], 0, 0
        with records.open_writers([path]) as (writer,):
            for arrays in self._blocks(number):
                made = records.encode_rows(arrays, self.settings.schema)
                for record in made:
                    writer.write(record)
                lengths.append(np.array(list(map(len, made))))
                instance_tokens += int(arrays["input_mask"].sum())
                predictions += int(arrays["masked_lm_weights"].sum())
                report(len(made))
        figures = {
            "instance_tokens": instance_tokens,
            "predictions": predictions,
            **record_index.entry(path, np.concatenate([np.zeros(0, np.int64), *lengths])),
        }
        files.write_text(self._note(number), json.dumps(figures))
        return figures

    def finished(self, number):
        """The figures of an output file if it is finished and unchanged, else None."""
        note, path = self._note(number), self.outputs[number]
        if not (os.path.exists(note) and tf.io.gfile.exists(path)):
            return None
        figures = files.read_json(note)
        return figures if record_index.is_current(figures, path) else None

    def _note(self, number):
        return os.path.join(self.notes, f"{number:05}.json")

    def _blocks(self, number):
        """Yields the arrays of the records of an output file, block by block."""
        corpus = corpus_reader.open_corpus(self.corpus_directory)
        total, files_ = sum(self.counts), len(self.outputs)
        seeds = self.settings.seed_sequence
        order = index_permutation.IndexPermutation(total, seeds(pretraining.ORDER_DRAW))
        for block, first in enumerate(range(number, total, files_ * _RECORDS_PER_BLOCK)):
            stop = min(total, first + files_ * _RECORDS_PER_BLOCK)
            pairs = self._pairs(order(np.arange(first, stop, files_)))
            rng = np.random.default_rng(seeds(pretraining.INSTANCE_DRAWS, files_, number, block))
            yield pretraining.instances(
                corpus, pairs, self.settings, self.special_ids, self.vocab_size, rng
            )

    def _pairs(self, rows):
        """Rows of the plans of all passes."""
        ends = np.cumsum(self.counts)
        passes = np.searchsorted(ends, rows, side="right")
        pairs = np.empty((len(rows), 5), np.int64)
        for pass_index in np.unique(passes).tolist():
            here = passes == pass_index
            first = ends[pass_index] - self.counts[pass_index]
            pairs[here] = self._plans[pass_index][rows[here] - first]
        return pairs

    @functools.cached_property
    def _plans(self):
        paths = [_plan_file(self.plans, number) for number in range(len(self.counts))]
        return [np.memmap(path, np.int64, "r").reshape(-1, 5) for path in paths]


# === What was made ===


def _summary(corpus, passes, shards, word_start):
    return pretraining_summary.Summary(
        documents=corpus.num_documents,
        sentences=corpus.num_sentences,
        tokens=len(corpus.ids),
        single_sentences=int(np.sum(np.diff(corpus.documents) == 1)),
        unknown=corpus.unknown,
        lines_dropped=corpus.lines_dropped,
        lines_skipped=corpus.lines_skipped,
        first_skipped=corpus.first_skipped,
        splits_words=word_start == "original"
        and min(corpus.inner_letters, corpus.marked) > _SPLIT_WORDS * len(corpus.ids),
        kinds=np.sum([figures["kinds"] for figures in passes], axis=0),
        tokens_cut=sum(figures["tokens_cut"] for figures in passes),
        instance_tokens=sum(figures["instance_tokens"] for figures in shards),
        predictions=sum(figures["predictions"] for figures in shards),
    )


def _write_summary(summary, outputs, shards, given):
    content = summary.as_json() | given
    entries = dict(zip(outputs, shards, strict=True))
    path = record_index.summary_file(outputs[0])
    files.write_text(
        path, json.dumps(content | record_index.index_content(entries), indent=1) + "\n"
    )


def _log(path, tokenizer, settings):
    """Shows some instances, for --verbosity=0."""
    spec = {
        name: tf.io.FixedLenFeature([feature.length], feature.dtype)
        for name, feature in settings.schema.items()
    }
    for number, record in enumerate(records.serialized([path]).take(_NUM_LOGGED)):
        arrays = {name: v.numpy() for name, v in tf.io.parse_single_example(record, spec).items()}
        length, count = int(arrays["input_mask"].sum()), int(arrays["masked_lm_weights"].sum())
        logging.info(
            "instance %d: next_sentence_labels %d; %s; to predict: %s",
            number,
            arrays["next_sentence_labels"][0],
            " ".join(tokenizer.convert_ids_to_tokens(arrays["input_ids"][:length].tolist())),
            " ".join(tokenizer.convert_ids_to_tokens(arrays["masked_lm_ids"][:count].tolist())),
        )
