# SPDX-License-Identifier: Apache-2.0
"""The stages of making pre-training records: tokenised text, plans of the passes, output files.

Their parts are tasks for worker processes, and leave files that tell what is done. The same parts
run here in processes of one machine, and in `beam_pipeline` on many.
"""

import collections
import dataclasses
import functools
import json
import os

import numpy as np
import tensorflow as tf

from albert_tf import files, progress
from albert_tf.corpus import (
    corpus_files,
    corpus_selection,
    corpus_summary,
    instances,
    mapped_arrays,
    permutation,
    text_files,
    workers,
)
from albert_tf.records import record_index, schemas

_RECORDS_PER_BLOCK = 1024  # part of what decides about the records: do not change it lightly
_BLOCKS_PER_PLAN = 128  # of documents; more where there would be too many plans
_PAIR_BYTES = 5 * 8
DOCUMENTS_TOGETHER = 256  # that are hashed
_MOST_PLANS = 512  # each is a mapped file, which takes a file descriptor


# === Plans of the passes ===


@dataclasses.dataclass
class Planner:
    """Plans a part: writes its pairs to a file and its figures to another."""

    corpus_directory: str
    plans: str
    settings: instances.Settings

    def parts(self, corpus):
        """List of (int, range of blocks as `instances.plan` takes it) of all parts."""
        blocks = instances.num_blocks(corpus)
        total = blocks * self.settings.dupe_factor
        together = max(min(_BLOCKS_PER_PLAN, blocks), -(-total // _MOST_PLANS))
        starts = range(0, total, together)
        return list(enumerate(range(first, min(first + together, total)) for first in starts))

    def __call__(self, part, report):
        number, blocks = part
        corpus = corpus_files.open_corpus(self.corpus_directory)
        amount = corpus.text_bytes * len(blocks) / instances.num_blocks(corpus)
        if figures := self.figures(number):
            report(amount)
            return figures
        plan = plan_file(self.plans, number)
        figures = collections.Counter()
        with files.replacing(plan) as (name,), tf.io.gfile.GFile(name, "wb") as file:
            for pairs, tokens_cut in instances.plan(corpus, self.settings, blocks):
                file.write(pairs.tobytes())
                kinds = np.bincount(pairs[:, -1], minlength=3).tolist()
                figures.update(dict(zip(corpus_summary.KINDS, kinds, strict=True)))
                figures.update(instances=len(pairs), tokens_cut_by_truncation=tokens_cut)
                report(0)
        report(amount)
        files.write_text(f"{plan}.json", json.dumps(figures))
        return figures

    def figures(self, number):
        """The figures of a part if its plan is complete, else None."""
        plan = plan_file(self.plans, number)
        figures = corpus_files.read_state(f"{plan}.json")
        size = _PAIR_BYTES * figures["instances"] if figures else None
        return figures if size == corpus_files.size_of(plan) else None


def plan_file(plans, number):
    """The file of the pairs of a part, int64 [pairs, 5]."""
    return os.path.join(plans, f"{number:05}.bin")


# === Output files ===


@dataclasses.dataclass
class Writer:
    """Writes an output file, and a note with its figures in the work directory."""

    corpus_directory: str
    plans: str
    notes: str
    counts: list  # of the instances of each plan
    outputs: list
    settings: instances.Settings
    special_ids: tuple
    vocab_size: int

    def __call__(self, number, report):
        return self.write(number, self._blocks(number), report)

    def write(self, number, blocks, report):
        """Writes an output file of its `record_block`s, in their order; returns its figures."""
        path = self.outputs[number]
        lengths, figures = [np.zeros(0, np.int64)], collections.Counter()
        with schemas.open_writers([path]) as (writer,):
            for records, counts in blocks:
                for record in records:
                    writer.write(record)
                lengths.append(np.array(list(map(len, records))))
                figures.update(counts)
                report(len(records))
        figures = dict(figures) | record_index.entry(path, np.concatenate(lengths))
        files.write_text(self._note(number), json.dumps(figures))
        return figures

    def finished(self, number):
        """The figures of an output file if it is finished and unchanged, else None."""
        figures, path = corpus_files.read_state(self._note(number)), self.outputs[number]
        is_whole = figures and tf.io.gfile.exists(path) and record_index.is_current(figures, path)
        return figures if is_whole else None

    def _note(self, number):
        return os.path.join(self.notes, f"{number:05}.json")

    def _blocks(self, number):
        """Yields the `record_block`s of an output file."""
        corpus = corpus_files.open_corpus(self.corpus_directory)
        total, files_ = sum(self.counts), len(self.outputs)
        for block, first in enumerate(range(number, total, files_ * _RECORDS_PER_BLOCK)):
            stop = min(total, first + files_ * _RECORDS_PER_BLOCK)
            pairs = self._pairs(self._order(np.arange(first, stop, files_)))
            yield self.record_block(corpus, pairs, number, block)
            corpus.release()
            mapped_arrays.release(*self._plans)

    def record_block(self, corpus, pairs, number, block):
        """Records that lie together in an output file.

        Args:
            corpus: corpus_files.Corpus.
            pairs: int64 array [n, 5], those of the records, in order.
            number: int, of the file.
            block: int, of the block in it.

        Returns:
            (list of bytes, dict of the counts of instance_tokens and predictions).
        """
        key = instances.INSTANCE_DRAWS, len(self.outputs), number, block
        rng = np.random.default_rng(self.settings.seed_sequence(*key))
        arrays = instances.instances(
            corpus, pairs, self.settings, self.special_ids, self.vocab_size, rng
        )
        counts = {
            "instance_tokens": int(arrays["input_mask"].sum()),
            "predictions": int(arrays["masked_lm_weights"].sum()),
        }
        return schemas.encode_rows(arrays, self.settings.schema), counts

    def places(self, plan):
        """Where the pairs of a plan (int) go: int arrays of file, block, and row in the block."""
        first = sum(self.counts[:plan])
        places = self._order.inverse(np.arange(first, first + self.counts[plan]))
        in_file, number = np.divmod(places, len(self.outputs))
        return number, *np.divmod(in_file, _RECORDS_PER_BLOCK)

    @functools.cached_property
    def _order(self):
        seeds = self.settings.seed_sequence(instances.ORDER_DRAW)
        return permutation.IndexPermutation(sum(self.counts), seeds)

    def _pairs(self, rows):
        """Rows of all plans, as if they were one."""
        ends = np.cumsum(self.counts)
        plans = np.searchsorted(ends, rows, side="right")
        rows = rows - (ends - self.counts)[plans]
        found = zip(plans.tolist(), rows.tolist(), strict=True)
        return np.stack([self._plans[plan][row] for plan, row in found])

    @functools.cached_property
    def _plans(self):
        paths = [plan_file(self.plans, number) for number in range(len(self.counts))]
        return [mapped_arrays.open_array(path, np.int64, -1, 5) for path in paths]


# === On one machine ===


def _of_documents(first, report, directory, make):
    """Calls `make` on some documents, in a worker process; returns the bytes of its array."""
    corpus = corpus_files.open_corpus(directory)
    bounds = corpus.sentences[corpus.documents[first : first + DOCUMENTS_TOGETHER + 1]]
    made = make(corpus.ids, bounds).tobytes()
    corpus.release()
    report(corpus.text_bytes * (len(bounds) - 1) / corpus.num_documents)
    return made


class LocalStages(workers.WorkerPool):
    """The stages in processes of this machine.

    Args:
        num_workers: int.
        encoder: line_encoder.LineEncoder.
    """

    is_shared = False  # the work directory, between machines
    identify = staticmethod(corpus_files.content_hashes)
    is_whole = staticmethod(corpus_files.is_whole)
    write_documents = staticmethod(corpus_selection.write_documents)

    def write_corpus(self, paths, form, encoder, directory):
        """Tokenises text files.

        Args:
            paths: list of str.
            form: text_files.Format.
            encoder: line_encoder.LineEncoder.
            directory: str, on a local disk, that the corpus is written to, for
                `corpus_files.open_corpus`; it appears when all is done.

        Raises:
            UserError: a file cannot be read or is not UTF-8, or there is no text in any.
        """
        size = text_files.total_size(paths)
        with (
            files.replacing_directory(directory) as name,
            progress.bar("tokenising", size, "B") as bar,
            corpus_files.Writer(name) as writer,
        ):
            chunks = text_files.chunks(paths, form)
            for lines in self.in_order(encoder, chunks, bar.update):
                writer.add(lines)
            writer.finish()
            corpus_files.check_not_empty(writer.num_documents, paths)

    def of_documents(self, directory, make, path):
        """Writes the results of `make` for the documents of a corpus, in order.

        Args:
            directory: str, of the corpus.
            make: picklable callable that takes tokens (int32 array) and the bounds of documents in
                them (int array [n + 1]), and returns an array [n, ...].
            path: str, file to write.
        """
        corpus = corpus_files.open_corpus(directory)
        firsts = range(0, corpus.num_documents, DOCUMENTS_TOGETHER)
        task = functools.partial(_of_documents, directory=directory, make=make)
        with (
            files.replacing(path) as (name,),
            tf.io.gfile.GFile(name, "wb") as file,
            progress.bar("comparing", corpus.text_bytes, "B") as bar,
        ):
            for made in self.in_order(task, firsts, bar.update):
                file.write(made)

    def plan(self, planner, corpus):
        """The figures of all plans, which are made if they are not there yet."""
        total = corpus.text_bytes * planner.settings.dupe_factor
        with progress.bar("planning", total, "B") as bar:
            return list(self.in_order(planner, planner.parts(corpus), bar.update))

    def write(self, writer, corpus, missing):
        """The figures of the output files `missing` (list of int), which are written."""
        passed = corpus.text_bytes * writer.settings.dupe_factor
        with progress.bar("writing", passed, "B") as bar:
            bar.update(passed * (1 - len(missing) / len(writer.outputs)))
            per_record = passed / sum(writer.counts)
            return list(self.in_order(writer, missing, lambda n: bar.update(n * per_record)))
