# SPDX-License-Identifier: Apache-2.0
"""Loading what holds weights, with the head, the vocabulary and the settings that belong to it."""

import os
from typing import NamedTuple

import tensorflow as tf

from albert_tf.api import task_kinds
from albert_tf.api.loaded import Loaded
from albert_tf.checkpoints import loading, name_table, readers, run_directory, source
from albert_tf.errors import UserError
from albert_tf.model import encoder, heads
from albert_tf.tasks import text_input
from albert_tf.text.sequences import SHORTEST
from albert_tf.text.tokenization import FullTokenizer, vocabulary_argument
from albert_tf.training import run_record

DEFAULT_LENGTH = 512


class Given(NamedTuple):
    """What the caller says in place of the source; None for what it does not."""

    spm_model_file: str | None
    vocab_file: str | None
    do_lower_case: bool | None
    strip_accents: bool | None
    max_seq_length: int | None


def load(
    path,
    *,
    spm_model_file=None,
    vocab_file=None,
    do_lower_case=None,
    strip_accents=None,
    config=None,
    task=None,
    labels=None,
    max_seq_length=None,
    batch_size=32,
):
    """Loads a model with its tokenizer; prints which checkpoint is taken and what it is.

    Args:
        path: str, an unpacked release, the directory of a training, a checkpoint's prefix, the
            directory of a TensorFlow Hub module (TensorFlow 1 or 2) or of the transformers library.
            Of a fine-tuned directory the best checkpoint is taken.
        spm_model_file: str, SentencePiece model, in place of the source's vocabulary.
        vocab_file: str, WordPiece vocabulary, in place of the source's.
        do_lower_case: bool, in place of what the source tells; True where neither does.
        strip_accents: bool, in place of what the source tells; True where neither does.
        config: AlbertConfig, in place of the source's.
        task: str, what a fine-tuned checkpoint is for, where nothing beside it tells: the name of
            a GLUE task, tsv, regression, ner or race.
        labels: sequence of str, its classes in the order of their ids.
        max_seq_length: int, longest sequence in pieces; by default that of the training, or 512.
        batch_size: int, sequences that are computed together.

    Returns:
        Loaded.

    Raises:
        UserError: there is no checkpoint, or a part is missing; the message says what to pass.
    """
    given = Given(spm_model_file, vocab_file, do_lower_case, strip_accents, max_seq_length)
    if batch_size < 1:
        raise UserError(f"batch_size must be at least 1. Received: {batch_size}")
    found = source.find(path)
    record = run_record.read(found.directory)
    config = config or found.read_config()
    text = _text_input(found, record, config, given)
    shapes = readers.open_reader(found.checkpoint).shapes
    kind = task_kinds.kind_of(found, shapes, task, labels)
    of_kind = kind and task_kinds.make_task(kind, text, found, record)
    if of_kind:
        model = of_kind.make_model(config)
        named = name_table.named_variables(model)
        report = loading.load_all(found.checkpoint, named, model.reads_pooler)
    else:
        has_heads = any(
            name in shapes
            for part in ("masked_lm", "sentence_order")
            for name in name_table.HEAD_NAMES[part]
        )
        model = (heads.PretrainingModel if has_heads else encoder.AlbertModel)(config)
        named = name_table.named_variables(model)
        report = loading.load(found.checkpoint, named, reads_pooler=model.reads_pooler)
    loading.check_fit(report)
    random = [*report.missing, *(name for name, _, _ in report.wrong_shape)]
    print(_line(found, kind, model, random))
    parts = name_table.HEAD_NAMES | {"pooler": name_table.POOLER}
    absent = {part for part, names in parts.items() if {*names} & {*random}}
    return Loaded(model, text, config, found.checkpoint, of_kind, absent, batch_size)


def _line(found, kind, model, random):
    """Which checkpoint is taken, its step and what it is."""
    if kind:
        what = f"fine-tuned for {kind.task_name if kind.task_name == task_kinds.SQUAD else kind}"
    elif isinstance(model, heads.PretrainingModel):
        what = "pre-trained"
    else:
        what = "the encoder alone"
    is_run = run_directory.exists(found.checkpoint) and not found.is_module
    step = loading.step_in(found.checkpoint) if is_run else 0
    lines = [f"Loaded {found.checkpoint}{f' (step {step})' if step else ''}: {what}"]
    if random:
        lines.append(f"  not in it, and random: {', '.join(random)}")
    return "\n".join(lines)


# --- Text ----------------------------------------------------------------------------------------


def _text_input(found, record, config, given):
    """How text becomes the model's input: TextInput."""
    recorded = record.text if record else {}
    path, kind = _vocabulary(found, record, given)
    lower = _first_told(given.do_lower_case, recorded.get("do_lower_case"), found.lower_case())
    strip_accents = _first_told(
        given.strip_accents, recorded.get("strip_accents"), found.strips_accents()
    )
    length = given.max_seq_length or recorded.get("max_seq_length")
    length = length or min(found.max_seq_length() or DEFAULT_LENGTH, config.max_position_embeddings)
    if not SHORTEST <= length <= config.max_position_embeddings:
        raise UserError(
            f"max_seq_length must lie between {SHORTEST} and max_position_embeddings="
            f"{config.max_position_embeddings} of the config. Received: {length}"
        )
    tokenizer = FullTokenizer(**{kind: path}, do_lower_case=lower, strip_accents=strip_accents)
    text_input.check_vocabulary(config, tokenizer, path)
    return text_input.TextInput(
        tokenizer, path, lower, length, config.vocab_size, config.type_vocab_size, strip_accents
    )


def _first_told(*values):
    """The first that is not None, else True."""
    return next((value for value in values if value is not None), True)


def _vocabulary(found, record, given):
    """Path of the vocabulary, and which argument of FullTokenizer it is."""
    for name in ("spm_model_file", "vocab_file"):
        if getattr(given, name):
            return os.fspath(getattr(given, name)), name
    recorded = record and record.vocabulary
    path = found.vocabulary_file()
    if recorded and (path is None or run_record.sha256(path) != recorded["sha256"]):
        path, name = recorded["path"], recorded["flag"]
        if not tf.io.gfile.exists(path) or run_record.sha256(path) != recorded["sha256"]:
            raise UserError(
                f"{path}, the vocabulary according to {record.path}, is gone or another file now: "
                f"pass the right one as {name}"
            )
        return path, name
    if path is None:
        raise UserError(
            f"{found.directory} holds no vocabulary: pass spm_model_file (the SentencePiece model, "
            "such as 30k-clean.model) or vocab_file. For a model without text, use from_checkpoint "
            "of AlbertModel or of a head"
        )
    return path, vocabulary_argument(path)
