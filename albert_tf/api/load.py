# SPDX-License-Identifier: Apache-2.0
"""Loads a model from any source of weights, with its head, vocabulary and settings."""

import numbers
import os

from albert_tf import options
from albert_tf.api import task_kinds
from albert_tf.api.loaded import Loaded
from albert_tf.checkpoints import loading, name_table, readers, run_directory, source
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.model import encoder, heads
from albert_tf.tasks import base
from albert_tf.text.sequences import SHORTEST

DEFAULT_LENGTH = 512


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
    """Loads a model with its tokenizer, and prints a line on the checkpoint.

    Args:
        path: str, an unpacked release, the directory of a training, a checkpoint's prefix, the
            directory of a TensorFlow Hub module (TensorFlow 1 or 2) or of the transformers library.
            For a fine-tuned directory the best checkpoint is loaded.
        spm_model_file: str, SentencePiece model, if the source has no vocabulary.
        vocab_file: str, WordPiece vocabulary, if the source has none.
        do_lower_case: bool, if the source does not say it; True by default.
        strip_accents: bool, if the source does not say it; True by default.
        config: AlbertConfig, if the source has none.
        task: str, task of a fine-tuned checkpoint, if the source does not say it: the name of a
            GLUE task, tsv, multi_label, regression, ner or race.
        labels: sequence of str, classes of the task in the order of their ids.
        max_seq_length: int, longest sequence in pieces; by default that of the training, or 512.
        batch_size: int, number of sequences in a batch.

    Returns:
        Loaded.

    Raises:
        UserError: there is no checkpoint, a part is missing (the message says what to pass), or an
            argument contradicts the record of the training, `run.json`.
    """
    for name, value, lowest in (
        ("batch_size", batch_size, 1),
        ("max_seq_length", SHORTEST if max_seq_length is None else max_seq_length, SHORTEST),
    ):
        if not isinstance(value, numbers.Integral) or value < lowest:
            raise UserError(f"{name} must be an int of at least {lowest}. Received: {value!r}")
    if not isinstance(config, AlbertConfig | None):
        raise UserError(
            "config must be an AlbertConfig, such as AlbertConfig.from_json_file(path) returns. "
            f"Received: {config!r:.80}"
        )
    for name, value in (
        ("path", path), ("spm_model_file", spm_model_file), ("vocab_file", vocab_file)
    ):  # fmt: skip
        options.check_path(name, os.fspath(value or ""))
    found = source.find(path)
    record = found.settings
    choice = source.Choice(
        found,
        text={"do_lower_case": do_lower_case, "strip_accents": strip_accents},
        vocabulary_flag="spm_model_file" if spm_model_file else "vocab_file",
        vocabulary_path=os.fspath(spm_model_file or vocab_file or "") or None,
        given_config=config,
        shown=source.as_argument,
    )
    config = choice.config
    text = _text_input(choice, max_seq_length or found.setting("max_seq_length"))
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
    """Text on the loaded checkpoint: its path, step and kind."""
    if kind:
        what = f"fine-tuned for {kind.task_name if kind.task_name == task_kinds.SQUAD else kind}"
    elif isinstance(model, heads.PretrainingModel):
        what = "pre-trained"
    else:
        what = "only the encoder"
    is_run = run_directory.exists(found.checkpoint) and not found.is_module
    step = loading.step_in(found.checkpoint) if is_run else 0
    lines = [f"Loaded {found.checkpoint}{f' (step {step})' if step else ''}: {what}"]
    if random:
        lines.append(f"  not in the checkpoint, so random: {', '.join(random)}")
    return "\n".join(lines)


# --- Text ----------------------------------------------------------------------------------------


def _text_input(choice, length):
    """TextInput that converts text to the model's input."""
    config = choice.config
    told = choice.source.max_seq_length() or DEFAULT_LENGTH
    length = length or min(told, config.max_position_embeddings)
    if not SHORTEST <= length <= config.max_position_embeddings:
        raise UserError(
            f"max_seq_length must lie between {SHORTEST} and max_position_embeddings="
            f"{config.max_position_embeddings} of the config. Received: {length}"
        )
    return base.text_input([config], choice.tokenizer_arguments, length)
