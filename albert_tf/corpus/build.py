# SPDX-License-Identifier: Apache-2.0
"""Makes files of pre-training records from text files, in stages that can be resumed.

The tokenized text, the plans of the passes and a note of each finished output file are kept in a
work directory, under names that are hashes of everything they depend on. Existing parts are reused.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf import files, locks, options
from albert_tf.corpus import (
    corpus_files,
    corpus_summary,
    document_selection,
    line_encoder,
    stages,
    text_files,
)
from albert_tf.errors import UserError
from albert_tf.records import input_pipeline, record_files, schemas

_FORMAT = 9  # of the work directory; raise it if files or random draws change
_NUM_LOGGED = 20
# A sentence this many times longer than an instance is probably a text without line breaks.
_FAR_LONGER = 4
_STATE = ("corpus-", "plans-", "notes-")  # how names in a work directory begin


class _TooLittleText(UserError):
    """There is too little text for the output files: the same command would fail again."""


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
    runner=None,
):
    """Makes the pre-training records of text files.

    The instances of all passes are put in random order and written to the output files in turn.

    Args:
        inputs: list of str, text files.
        outputs: list of str, TFRecord files to write, compressed if a name ends in .gz. Each
            file appears when it is complete. A summary in JSON is written next to the first.
        tokenizer: FullTokenizer.
        settings: instances.Settings.
        heldout_outputs: list of str, files for the held-out documents, if there are any.
        form: text_files.Format; None for one sentence per line, and blank lines between
            documents.
        word_start: str, one of options.WORD_STARTS.
        selection: options.Selection; None for all documents.
        num_workers: int, number of processes. The records do not depend on it.
        work_directory: str or None, directory on a local disk for intermediate files. By default,
            it is a hidden one next to the first output and is removed at the end.
        runner: beam_pipeline.BeamRunner, or None for `num_workers` processes of this machine.

    Returns:
        corpus_summary.Summary.

    Raises:
        UserError: the text cannot be read or is empty, the vocabulary lacks special pieces, or
            an output cannot be written.
    """
    started = time.monotonic()
    vocabulary = tokenizer.special_ids(with_mask=True), tokenizer.vocab_size
    form, selection = form or text_files.Format(), selection or options.Selection()
    named = {"output_file": outputs, "heldout_output_file": heldout_outputs}
    _check_outputs([*inputs, tokenizer.path], named)
    encoder = line_encoder.LineEncoder(tokenizer, word_start)
    reading = {**dataclasses.asdict(form), "word_start": word_start}
    given = {
        "settings": reading | dataclasses.asdict(selection) | dataclasses.asdict(settings),
        "input_files": list(inputs),
        "vocabulary": tokenizer.fingerprint,
        "vocabulary_sha256": files.sha256(tokenizer.path),
        "tokenizer": tokenizer.arguments,
    }
    runner = runner or stages.LocalRunner(num_workers, encoder)
    work = work_directory or _usual_work_directory(outputs, runner.is_shared)
    files.check_writable(work, "work_directory")
    with (
        locks.locked(work, "writing"),
        _work_directory(work, is_kept=bool(work_directory)),
        runner,
    ):
        contents = runner.identify(inputs)
        if not (selection.drop_duplicates or selection.drop_near_duplicates):
            _say_repeated(inputs, contents)
        text_files.say_tables(inputs)
        key = _FORMAT, contents, tokenizer.fingerprint, reading
        directory = _state(work, "corpus", *key)
        if not work_directory:
            _remove_others(work, directory)
        _tokenize(inputs, form, encoder, directory, runner)
        parts, dropped = _parts(directory, selection, runner)
        summary = None  # the held-out documents come first: theirs is a part of the other one
        for part, (flag, names) in reversed(list(zip(parts, named.items(), strict=False))):
            made, shards = _make(work, part, flag, names, settings, vocabulary, runner)
            summary = _summary(part, dropped + made, settings, form, word_start, summary)
            summary.seconds = time.monotonic() - started
            index = {record_files.FILES: dict(zip(names, shards, strict=True))}
            content = json.dumps(summary.as_json() | given | index, indent=1)
            files.write_text(record_files.summary_file(names[0]), content + "\n")
    if logging.level_info():
        _log(outputs[0], tokenizer, settings)
    return summary


def _summary(part, counts, settings, form, word_start, held_out):
    """The Summary of a file of documents; `counts` has the documents dropped and the records."""
    corpus = corpus_files.open_corpus(part)
    sizes = corpus.sizes(settings.longest_line, _FAR_LONGER * settings.max_pair_length)
    return corpus_summary.Summary(
        corpus.counts + counts + sizes,
        corpus.unknown_pieces(),
        corpus.first_skipped,
        word_start,
        input_format=form.input_format,
        pairs=settings.pairs,
        held_out=held_out,
        num_wanted=settings.wanted_share * counts["instance_tokens"],
    )


def _say_repeated(inputs, contents):
    """Prints a warning if files (list of str) have the same contents, as `identify` tells them."""
    alike = collections.defaultdict(list)
    for path, content in zip(inputs, map(str, contents), strict=True):
        alike[content].append(path)
    repeated = [paths for paths in alike.values() if len(paths) > 1]
    repeated = [paths for paths in repeated if text_files.total_size(paths) != 0]  # of empty files
    for paths in repeated[:1]:
        print(
            f"warning: {sum(map(len, repeated)) - len(repeated)} of {len(inputs)} files repeat "
            f"another, such as {paths[1]}, which repeats {paths[0]}: leave them out, or give "
            "--drop_duplicates"
        )


def _tokenize(inputs, form, encoder, directory, runner):
    """Writes the corpus of text files to a directory, if it is not there."""
    if not corpus_files.is_whole(directory):
        if tf.io.gfile.exists(directory):
            print(f"{directory} is damaged: it is made again")
            files.remove(directory)
        runner.write_corpus(inputs, form, encoder, directory)
    documents = corpus_files.open_corpus(corpus_files.documents_file(directory)).documents
    if 2 * len(documents) < len(inputs) and not form.file_is_document:
        print(
            f"warning: {len(inputs)} files have {len(documents)} document"
            f"{'s' * (len(documents) > 1)}, since only a blank line ends one: give "
            "--file_is_document if each file is a document"
        )


def _parts(directory, selection, runner):
    """Returns (files of the corpora to make records of, Counter of the dropped documents)."""
    whole = corpus_files.documents_file(directory)
    if selection == options.Selection():
        return [whole], collections.Counter()
    corpus = corpus_files.open_corpus(whole)

    def hashes_of(make, kind, numbers):
        path = os.path.join(directory, f"{make.__name__}.bin")
        size = len(corpus.documents) * numbers * np.dtype(kind).itemsize
        if corpus_files.size_of(path) != size:
            firsts = range(0, len(corpus.documents), stages.DOCUMENTS_TOGETHER)
            hasher = stages.Hasher(whole, make)
            runner.run("comparing", hasher, firsts, corpus.text_bytes, path=path)
        return corpus_files.open_array(path, kind, -1, numbers)

    used, dropped = document_selection.choose(selection, hashes_of)
    parts = []
    for part, documents in used.items():
        if part == document_selection.HELD_OUT and not selection.heldout_fraction:
            continue
        if not documents.any():
            raise _TooLittleText(
                f"--heldout_fraction={selection.heldout_fraction}: of {len(documents)} documents, "
                f"none is left for the {part} files; give another fraction"
            )
        parts.append(_state(directory, "documents", part, selection) + ".bin")
        with files.writing(parts[-1]) as file:
            file.write(corpus.documents[documents].T.tobytes())
    return parts, dropped


def _make(work, part, flag, outputs, settings, vocabulary, runner):
    """Makes a corpus' output files; returns (Counter of the records, counts of the files)."""
    key = part.removeprefix(work), settings
    planner = stages.Planner(part, _state(work, "plans", *key), settings)
    corpus = corpus_files.open_corpus(part)
    items, total = planner.items(corpus), corpus.text_bytes * settings.dupe_factor
    if missing := [item for item in items if not planner.made(item)]:
        done = total * (1 - len(missing) / len(items))
        runner.run("planning", planner, missing, total, done)
    planned = list(map(planner.made, items))
    counts = [plan["instances"] for plan in planned]
    if sum(counts) < len(outputs):
        raise _TooLittleText(
            f"--{flag}: {len(outputs)} files need a record each, and the text gives "
            f"{sum(counts)}; name fewer files"
        )
    notes = _state(work, "notes", *key, list(map(files.real_path, outputs)))
    writer = stages.RecordWriter(planner, counts, outputs, notes, *vocabulary)
    numbers = range(len(outputs))
    if missing := [number for number in numbers if not writer.made(number)]:
        runner.write_records(writer, missing, total)
    made = collections.Counter(files_kept=len(outputs) - len(missing))
    for plan in planned:
        made.update(plan)
    shards = list(map(writer.made, numbers))
    for shard in shards:
        made.update({name: shard[name] for name in ("instance_tokens", "predictions")})
    return made, shards


# === The work directory ===


def _usual_work_directory(outputs, is_shared):
    parent = os.path.dirname(outputs[0])
    if "://" in parent and not is_shared:
        parent = tempfile.gettempdir()
    return _state(parent, ".albert_tf-work", *map(files.real_path, outputs))


@contextlib.contextmanager
def _work_directory(work, is_kept):
    """Context that removes a work directory at the end, or on an error that cannot be resumed."""
    done = False
    try:
        yield
        done = True
    except _TooLittleText:
        done = True
        raise
    finally:
        if not is_kept and (done or not any(map(tf.io.gfile.isdir, _entries(work)))):
            with contextlib.suppress(OSError, tf.errors.OpError):
                files.remove(work)


def _entries(work):
    names = (name.rstrip("/") for name in tf.io.gfile.listdir(work))  # gs:// adds "/"
    return [os.path.join(work, name) for name in names if name.startswith(_STATE)]


def _state(directory, kind, *key):
    """Path in a directory, named after a kind and the hash of a key of options and JSON values."""
    key = [dataclasses.asdict(k) if dataclasses.is_dataclass(k) else k for k in key]
    digits = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return os.path.join(directory, f"{kind}-{digits}")


def _remove_others(work, corpus_directory):
    """Removes files that were made from other text."""
    paths = _entries(work)
    if corpus_directory not in paths:
        for path in paths:
            files.remove(path)


def _check_outputs(inputs, named):
    """Checks the output files: dict from flag to list of str."""
    taken = set(map(files.real_path, inputs))
    for flag, path in [(flag, path) for flag, paths in named.items() for path in paths]:
        files.check_file_writable(path, flag, taken)
        taken.add(files.real_path(path))


def _log(path, tokenizer, settings):
    """Logs some instances, for --verbosity=0."""
    batches = input_pipeline.eval_dataset([path], settings.schema, 1).take(_NUM_LOGGED)
    for number, batch in enumerate(batches.as_numpy_iterator()):
        length, count = int(batch["input_mask"].sum()), int(batch["masked_lm_weights"].sum())
        logging.info(
            "instance %d: %s %s; %s; to predict: %s",
            number,
            schemas.ORDER_LABEL,
            batch[schemas.ORDER_LABEL][0, 0] if schemas.ORDER_LABEL in batch else "none",
            " ".join(tokenizer.convert_ids_to_tokens(batch["input_ids"][0, :length].tolist())),
            " ".join(tokenizer.convert_ids_to_tokens(batch["masked_lm_ids"][0, :count].tolist())),
        )
