# SPDX-License-Identifier: Apache-2.0
"""Makes files of pre-training records from text files, in stages that can be resumed.

The tokenised text, the plans of the passes and a note of each finished output file are kept in a
work directory, under names that are hashes of everything they depend on. Existing parts are reused.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import math
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import files, locks, options
from albert_tf.corpus import (
    corpus_files,
    corpus_selection,
    corpus_summary,
    line_encoder,
    local_stages,
    mapped_arrays,
    near_duplicates,
    text_files,
)
from albert_tf.errors import UserError
from albert_tf.records import record_index, schemas

_FORMAT = 3  # of the work directory; a new number for other files or other random draws
_NUM_LOGGED = 20
# A sentence this many times longer than an instance is probably a text without line breaks.
_FAR_LONGER = 4
_STATE = ("corpus-", "plans-", "notes-")  # beginnings of the names in a work directory


def create(
    inputs,
    outputs,
    tokenizer,
    settings,
    *,
    heldout_outputs=(),
    form=None,
    word_start="original",
    selection=None,
    num_workers=1,
    work_directory=None,
    stages=None,
):
    """Makes the pre-training records of text files.

    The instances of all passes, in random order, go to the output files in turn.

    Args:
        inputs: list of str, text files.
        outputs: list of str, TFRecord files to write, compressed if a name ends in .gz. Each
            appears when it is whole. A summary in JSON is written next to the first.
        tokenizer: FullTokenizer.
        settings: instances.Settings.
        heldout_outputs: list of str, files for the documents held out, if `selection` has any.
        form: text_files.Format; None for one sentence per line, and blank lines between
            documents.
        word_start: str, one of options.WORD_STARTS.
        selection: options.Selection; None for all documents.
        num_workers: int, processes. The records do not depend on it.
        work_directory: str or None, on a local disk, for intermediate files. By default a hidden
            one next to the first output, which is removed at the end.
        stages: beam_pipeline.BeamStages, or None for `num_workers` processes of this machine.

    Returns:
        corpus_summary.Summary.

    Raises:
        UserError: text that cannot be read or is empty, a vocabulary without the special pieces,
            or outputs that cannot be written.
    """
    started = time.monotonic()
    special_ids = tokenizer.special_ids(with_mask=True)
    form, selection = form or text_files.Format(), selection or options.Selection()
    _check_outputs(inputs, outputs, heldout_outputs, selection)
    encoder = line_encoder.LineEncoder(tokenizer, word_start)
    reading = {**dataclasses.asdict(form), "word_start": word_start}
    given = _given(inputs, tokenizer, reading, selection, settings)
    stages = stages or local_stages.LocalStages(num_workers, encoder)
    work = work_directory or _usual_work_directory(outputs, stages.is_shared)
    files.check_writable(work, "work_directory")
    with (
        locks.locked(work, "writing"),
        _work_directory(work, is_kept=bool(work_directory)),
        stages,
    ):
        key = [_FORMAT, stages.identify(inputs), tokenizer.fingerprint, reading]
        whole = os.path.join(work, f"corpus-{_hash(key)}")
        if not work_directory:
            _remove_others(work, whole)
        if not _is_whole(whole, stages):
            stages.write_corpus(inputs, form, encoder, whole)
        parts, dropped = _parts(whole, selection, stages)
        summary = None
        named = {"output_file": outputs, "heldout_output_file": heldout_outputs}
        for part, (flag, names) in reversed(list(zip(parts, named.items(), strict=False))):
            vocabulary = special_ids, tokenizer.vocab_size
            counts, shards = _make(work, part, flag, names, settings, vocabulary, stages)
            corpus = corpus_files.open_corpus(part)
            sizes = corpus.sizes(_FAR_LONGER * settings.max_pair_length)
            summary = corpus_summary.Summary(
                corpus.counts + dropped + sizes + counts,
                corpus.unknown_pieces(),
                corpus.first_skipped,
                word_start,
                is_split=form.input_format != "sentences",
                seconds=time.monotonic() - started,
                held_out=summary,
            )
            _write_summary(summary, names, shards, given)
    if logging.level_info():
        _log(outputs[0], tokenizer, settings)
    return summary


def _given(inputs, tokenizer, reading, selection, settings):
    """The part of a summary with the settings that the records were made with."""
    return {
        "settings": reading | dataclasses.asdict(selection) | dataclasses.asdict(settings),
        "input_files": list(inputs),
        "vocabulary": tokenizer.fingerprint,
        "tokenizer": record_index.with_whole_path(tokenizer.arguments),
    }


def _parts(whole, selection, stages):
    """(directories of the corpora to make records of, Counter of the documents dropped)."""
    if selection == options.Selection():
        return [whole], collections.Counter()
    digests = _of_documents(whole, stages, corpus_selection.digests, np.uint64, -1)

    def repeats(used, similarity):
        shape = -1, near_duplicates.HASHES
        signatures = _of_documents(whole, stages, near_duplicates.signatures, np.uint32, *shape)
        return near_duplicates.repeats(signatures, used, similarity)

    parts, dropped = corpus_selection.choose(digests, selection, repeats)
    directories = []
    for part, documents in parts.items():
        if part == corpus_selection.HELD_OUT and not selection.heldout_fraction:
            continue
        if not documents.any():
            raise UserError(
                f"--heldout_fraction={selection.heldout_fraction}: of {len(documents)} documents, "
                f"none is left for the {part} files"
            )
        directories.append(f"{whole}-{_hash([part, dataclasses.asdict(selection)])}")
        if not _is_whole(directories[-1], stages):
            stages.write_documents(whole, documents, directories[-1])
    return directories, dropped


def _of_documents(directory, stages, make, kind, *shape):
    """An array that `make` computes for the documents of a corpus, kept in a file."""
    path = f"{directory}-{make.__name__}.bin"
    count = corpus_files.open_corpus(directory).num_documents
    size = count * math.prod(shape[1:]) * np.dtype(kind).itemsize
    if corpus_files.size_of(path) != size:
        stages.of_documents(directory, make, path)
    return mapped_arrays.open_array(path, kind, *shape)


def _is_whole(directory, stages):
    """Whether a complete corpus exists; a damaged one is removed, to be made again."""
    if stages.is_whole(directory):
        return True
    if tf.io.gfile.exists(directory):
        print(f"{directory} is damaged: it is made again")
        files.remove(directory)
    return False


def _make(work, corpus_directory, flag, outputs, settings, vocabulary, stages):
    """Makes the output files of a corpus: (Counter of the records, figures of the files)."""
    key = [os.path.basename(corpus_directory), dataclasses.asdict(settings)]
    plans = os.path.join(work, f"plans-{_hash(key)}")
    notes = os.path.join(work, f"notes-{_hash([*key, list(map(_same_path, outputs))])}")
    corpus = corpus_files.open_corpus(corpus_directory)
    planner = local_stages.Planner(corpus_directory, plans, settings)
    planned = stages.plan(planner, corpus)
    counts = [figures["instances"] for figures in planned]
    if sum(counts) < len(outputs):
        raise UserError(
            f"--{flag}: {len(outputs)} files for {sum(counts)} records, and training takes no "
            "empty file; name fewer files, or give more text"
        )
    writer = local_stages.Writer(
        corpus_directory, plans, notes, counts, outputs, settings, *vocabulary
    )
    shards = list(map(writer.finished, range(len(outputs))))
    missing = [number for number, figures in enumerate(shards) if not figures]
    for number, figures in zip(missing, stages.write(writer, corpus, missing), strict=True):
        shards[number] = figures
    made = collections.Counter(files_kept=len(outputs) - len(missing))
    for figures in planned:
        made.update(figures)
    for figures in shards:
        made.update({name: figures[name] for name in ("instance_tokens", "predictions")})
    return made, shards


# === The work directory ===


def _usual_work_directory(outputs, is_shared):
    name = f".albert_tf-work-{_hash(list(map(_same_path, outputs)))}"
    is_local = "://" in outputs[0] and not is_shared
    return os.path.join(tempfile.gettempdir() if is_local else os.path.dirname(outputs[0]), name)


@contextlib.contextmanager
def _work_directory(work, is_kept):
    """Context that removes a work directory at the end, or on an error that cannot be resumed."""
    done = False
    try:
        yield
        done = True
    finally:
        if not is_kept and (done or not any(map(tf.io.gfile.isdir, _entries(work)))):
            with contextlib.suppress(OSError, tf.errors.OpError):
                files.remove(work)


def _entries(work):
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(work))  # of gs:// with a slash
    return [os.path.join(work, name) for name in names if name.startswith(_STATE)]


def _hash(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _remove_others(work, corpus_directory):
    """Removes files that were made from other text."""
    paths = _entries(work)
    if corpus_directory not in paths:
        for path in paths:
            files.remove(path)


def _check_outputs(inputs, outputs, heldout_outputs, selection):
    if bool(heldout_outputs) != (selection.heldout_fraction > 0):
        raise UserError("--heldout_fraction and --heldout_output_file need each other")
    taken = set(map(_same_path, inputs))
    for path in [*outputs, *heldout_outputs]:
        if _same_path(path) in taken:
            raise UserError(
                f"--output_file: {path} is an input file too, or named twice; choose another name"
            )
        taken.add(_same_path(path))
        files.check_file_writable(path, "output_file")


def _same_path(path):
    return path if "://" in path else os.path.realpath(path)


# === What was made ===


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
    for number, record in enumerate(schemas.serialized([path]).take(_NUM_LOGGED)):
        arrays = {name: v.numpy() for name, v in tf.io.parse_single_example(record, spec).items()}
        length, count = int(arrays["input_mask"].sum()), int(arrays["masked_lm_weights"].sum())
        logging.info(
            "instance %d: next_sentence_labels %d; %s; to predict: %s",
            number,
            arrays["next_sentence_labels"][0],
            " ".join(tokenizer.convert_ids_to_tokens(arrays["input_ids"][:length].tolist())),
            " ".join(tokenizer.convert_ids_to_tokens(arrays["masked_lm_ids"][:count].tolist())),
        )
