# SPDX-License-Identifier: Apache-2.0
"""Two stages of making pre-training records: plans of the passes, and output files.

Both are tasks for worker processes, and leave files that tell what is done.
"""

import dataclasses
import functools
import json
import os

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.data import (
    corpus_reader,
    index_permutation,
    pretraining,
    record_index,
    records,
    worker_pool,
)

_RECORDS_PER_BLOCK = 1024  # part of what decides about the records: do not change it lightly


# === Plans of the passes ===


def plan(planner, corpus, pool):
    """The figures of all passes, planned if they are not yet."""
    passes = range(planner.settings.dupe_factor)
    total = corpus.text_bytes * len(passes)
    with worker_pool.progress("planning", total) as bar:
        return list(pool.in_order(planner, passes, bar.update))


@dataclasses.dataclass
class Planner:
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


def write(writer, corpus, pool):
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
class Writer:
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
