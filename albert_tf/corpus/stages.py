# SPDX-License-Identifier: Apache-2.0
"""The stages of making pre-training records: tokenized text, plans of the passes, output files.

The tasks of each stage leave files that show what is done. `LocalRunner` runs the tasks in
processes of one machine, `beam_pipeline.BeamRunner` on many machines.
"""

import collections
import contextlib
import dataclasses
import functools
import json
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf import files, progress
from albert_tf.corpus import (
    corpus_files,
    corpus_summary,
    instances,
    permutation,
    text_files,
    workers,
)
from albert_tf.records import record_files, schemas

_RECORDS_PER_BLOCK = 1024  # the records depend on it: do not change it lightly
_BLOCKS_PER_PLAN = 128  # blocks of documents; more if there would be too many plans
_PAIR_BYTES = 5 * 8
DOCUMENTS_TOGETHER = 256  # hashed at a time
_MOST_PLANS = 512  # each is a mapped file, which takes a file descriptor


@dataclasses.dataclass
class Hasher:
    """Hashes documents of a corpus.

    Args:
        corpus_file: str, argument of `corpus_files.open_corpus`.
        make: picklable callable that takes tokens (int32 array) and the bounds of documents in
            them (int array [n + 1]), and returns an array [n, ...].
    """

    corpus_file: str
    make: Callable

    def __call__(self, first, report):
        """Bytes of the array from `make` for DOCUMENTS_TOGETHER documents from `first` on."""
        corpus = self._corpus
        documents = corpus.documents[first : first + DOCUMENTS_TOGETHER]
        bounds = corpus.sentences[np.append(documents[:, 0], documents[-1, 1])]
        made = self.make(corpus.ids_between(bounds[0], bounds[-1]), bounds - bounds[0]).tobytes()
        corpus.release()
        report(corpus.text_bytes * len(documents) / len(corpus.documents))
        return made

    @functools.cached_property
    def _corpus(self):
        return corpus_files.open_corpus(self.corpus_file)


@dataclasses.dataclass
class Planner:
    """Plans a part of the passes: writes its pairs to a file and its counts to another.

    Args:
        corpus_file: str, argument of `corpus_files.open_corpus`.
        directory: str, directory of the plans.
        settings: instances.Settings.
    """

    corpus_file: str
    directory: str
    settings: instances.Settings

    def items(self, corpus):
        """All parts: list of (number, range of blocks as in `instances.plan`)."""
        blocks = instances.num_blocks(corpus)
        total = blocks * self.settings.dupe_factor
        together = max(min(_BLOCKS_PER_PLAN, blocks), -(-total // _MOST_PLANS))
        starts = range(0, total, together)
        return list(enumerate(range(first, min(first + together, total)) for first in starts))

    def __call__(self, part, report):
        """Plans a part."""
        number, blocks = part
        counts, corpus = collections.Counter(), self.corpus
        with files.writing(self._file(number)) as file:
            for pairs, tokens_cut in instances.plan(corpus, self.settings, blocks):
                file.write(pairs.tobytes())
                kinds = np.bincount(pairs[:, -1], minlength=len(corpus_summary.KINDS)).tolist()
                counts.update(dict(zip(corpus_summary.KINDS, kinds, strict=True)))
                counts.update(instances=len(pairs), tokens_cut_by_truncation=tokens_cut)
                report(0)
        report(corpus.text_bytes * len(blocks) / instances.num_blocks(corpus))
        files.write_text(f"{self._file(number)}.json", json.dumps(counts))

    def made(self, part):
        """The counts of a part if its plan is complete, else an empty dict."""
        plan = self._file(part[0])
        counts = record_files.read_state(f"{plan}.json")
        size = _PAIR_BYTES * counts.get("instances", 0)
        return counts if size == corpus_files.size_of(plan) else {}

    def pairs(self, number):
        """The pairs of a part: int64 array [pairs, 5]."""
        return corpus_files.open_array(self._file(number), np.int64, -1, 5)

    @functools.cached_property
    def corpus(self):
        """The Corpus, opened in each process that runs tasks; never send it to another process."""
        return corpus_files.open_corpus(self.corpus_file)

    def _file(self, number):
        return os.path.join(self.directory, f"{number:05}.bin")


@dataclasses.dataclass
class RecordWriter:
    """Writes an output file, and a note with its counts in the work directory.

    Args:
        planner: Planner, whose plans are complete.
        counts: list of int, number of pairs in each plan.
        outputs: list of str.
        notes: str, a directory.
        special_ids: SpecialIds.
        vocab_size: int.
    """

    planner: Planner
    counts: list
    outputs: list
    notes: str
    special_ids: tuple
    vocab_size: int

    def __call__(self, number, report):
        """Writes an output file from the corpus."""
        corpus = self.planner.corpus

        def blocks():
            total, files_ = sum(self.counts), len(self.outputs)
            bytes_per_record = corpus.text_bytes * self.planner.settings.dupe_factor / total
            for block, first in enumerate(range(number, total, files_ * _RECORDS_PER_BLOCK)):
                stop = min(total, first + files_ * _RECORDS_PER_BLOCK)
                pairs = self._pairs(self._order(np.arange(first, stop, files_)))
                yield self.record_block(corpus, pairs, number, block)
                corpus.release()
                corpus_files.release(*self._plans)
                report(len(pairs) * bytes_per_record)

        self.write(number, blocks())

    def write(self, number, blocks):
        """Writes an output file from its `record_block`s, given in order."""
        path = self.outputs[number]
        lengths, sums = [np.zeros(0, np.int64)], collections.Counter()
        with schemas.record_writer(path) as writer:
            for records, counts in blocks:
                for record in records:
                    writer.write(record)
                lengths.append(np.array(list(map(len, records))))
                sums.update(counts)
        entry = record_files.entry(path, np.concatenate(lengths))
        files.write_text(self._note(number), json.dumps(dict(sums) | entry))

    def made(self, number):
        """The counts of an output file if it is finished and unchanged, else an empty dict."""
        note, path = record_files.read_state(self._note(number)), self.outputs[number]
        if not note or not tf.io.gfile.exists(path):
            return {}
        return note if record_files.is_current(note, record_files.state(path)) else {}

    def _note(self, number):
        return os.path.join(self.notes, f"{number:05}.json")

    def record_block(self, corpus, pairs, number, block):
        """Makes a block of consecutive records of an output file.

        Args:
            corpus: corpus_files.Corpus.
            pairs: int64 array [n, 5], the pairs of the records, in order.
            number: int, number of the file.
            block: int, number of the block in the file.

        Returns:
            (list of bytes, dict of the counts of instance_tokens and predictions).
        """
        settings = self.planner.settings
        key = instances.INSTANCE_DRAWS, len(self.outputs), number, block
        rng = np.random.default_rng(settings.seed_sequence(*key))
        arrays = instances.instances(
            corpus, pairs, settings, self.special_ids, self.vocab_size, rng
        )
        counts = {
            "instance_tokens": int(arrays["input_mask"].sum()),
            "predictions": int(arrays["masked_lm_weights"].sum()),
        }
        return schemas.encode_rows(arrays, settings.schema), counts

    def places(self, plan):
        """Where the pairs of a plan (int) go: int arrays of file, block, and row in the block."""
        first = sum(self.counts[:plan])
        places = self._order.inverse(np.arange(first, first + self.counts[plan]))
        in_file, number = np.divmod(places, len(self.outputs))
        return number, *np.divmod(in_file, _RECORDS_PER_BLOCK)

    @functools.cached_property
    def _order(self):
        seeds = self.planner.settings.seed_sequence(instances.ORDER_DRAW)
        return permutation.IndexPermutation(sum(self.counts), seeds)

    def _pairs(self, rows):
        """Pairs at some rows of all plans, which are counted as if they were one plan."""
        ends = np.cumsum(self.counts)
        plans = np.searchsorted(ends, rows, side="right")
        rows = rows - (ends - self.counts)[plans]
        found = zip(plans.tolist(), rows.tolist(), strict=True)
        return np.stack([self._plans[plan][row] for plan, row in found])

    @functools.cached_property
    def _plans(self):
        return list(map(self.planner.pairs, range(len(self.counts))))


class LocalRunner(workers.WorkerPool):
    """Runs the stages in processes of this machine.

    Args:
        num_workers: int.
        encoder: line_encoder.LineEncoder.
    """

    is_shared = False  # one machine uses the work directory

    def identify(self, paths):
        """Hashes of the contents of files, to detect changes: list of str.

        Raises:
            UserError: a file cannot be read.
        """
        return list(map(files.sha256, paths))

    def write_corpus(self, paths, form, encoder, directory):
        """Tokenizes text files.

        Args:
            paths: list of str.
            form: text_files.Format.
            encoder: line_encoder.LineEncoder.
            directory: str, directory on a local disk for the corpus; it appears when all is done.

        Raises:
            UserError: a file cannot be read or is not UTF-8, or no file has any text.
        """
        size = text_files.total_size(paths)
        with (
            files.replacing_directory(directory) as name,
            progress.bar("tokenizing", size, "B") as bar,
            corpus_files.Writer(name) as writer,
        ):
            for lines in self.in_order(encoder, text_files.chunks(paths, form), bar.update):
                writer.add(lines)
            writer.finish()
            text_files.check_not_empty(writer.num_documents, paths, writer.counts)

    def run(self, stage, task, items, total, done=0.0, path=None):
        """Runs a task for each item.

        Args:
            stage: str, name of the progress bar.
            task: picklable callable that takes an item and a callable for the progress.
            items: iterable.
            total: float, the progress at the end.
            done: float, the progress at the beginning.
            path: str or None, file to write the results (bytes) to, in the order of the items.
        """
        output = files.writing(path) if path else contextlib.nullcontext()
        with progress.bar(stage, total, "B", initial=done) as bar, output as file:
            for result in self.in_order(task, items, bar.update):
                if file:
                    file.write(result)

    def write_records(self, writer, missing, total):
        """Writes the output files `missing` (list of int) of a RecordWriter; `total` as in run."""
        done = total * (1 - len(missing) / len(writer.outputs))
        self.run("writing", writer, missing, total, done)
