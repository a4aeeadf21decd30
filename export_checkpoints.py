# SPDX-License-Identifier: Apache-2.0
r"""Writes the weights of a checkpoint for the original release, albert_tf or transformers.

python export_checkpoints.py \
  --albert_directory=output/model --export_path=released/model.ckpt-best --export_format=tf1
"""

import dataclasses
import itertools
import os

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import UserError


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(options.CheckpointExport)


def check_flags(given):
    """Raises UserError for values that name no file, before anything is read."""
    name = given.checkpoint_name
    if os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == os.pardir:
        raise UserError(
            f"--checkpoint_name={name} leads out of --albert_directory: give the name of a "
            "checkpoint in it"
        )
    flag_groups.check_albert_directory(given)


def read_weights(given, config, checkpoint, new_tokenizer=None):
    """The weights of a checkpoint; prints the names that are left out and how pieces change.

    Args:
        given: resolve.Resolved.
        config: AlbertConfig of the checkpoint.
        checkpoint: str.
        new_tokenizer: FullTokenizer of --new_vocabulary; None to keep the pieces.
    """
    import numpy as np

    from albert_tf.checkpoints import loading, name_table, run_directory
    from albert_tf.cli import model_flags
    from albert_tf.model import heads
    from albert_tf.publish import vocabulary_change

    change = None
    if new_tokenizer:
        try:
            change = vocabulary_change.compare(
                model_flags.directory_tokenizer(given), new_tokenizer
            )
        except UserError as error:
            raise UserError(f"--new_vocabulary={new_tokenizer.path}: {error}") from error
    named = name_table.named_variables(heads.PretrainingModel(config))
    tensors, report = loading.read_weights(checkpoint, named)
    print(f"Read {len(tensors)} variables from {report.prefix}")
    if report.missing:
        print(f"  absent, so not written: {', '.join(report.missing)}")
    if report.unused_weights:
        print(f"  not of an ALBERT model, so left out: {', '.join(report.unused_weights)}")
    task = run_directory.RunDirectory(os.path.dirname(checkpoint)).task
    if task and task.scale:  # other readers know no scale
        weights, bias = name_table.HEAD_NAMES["classifier"]
        means, deviations = np.array(task.scale, np.float32)
        tensors[weights] = tensors[weights] * deviations[:, np.newaxis]
        tensors[bias] = tensors[bias] * deviations + means
    if change is None:
        return tensors
    print(
        f"Pieces: {len(change.copied)} copied, {len(change.new)} new from the mean of their parts, "
        f"{len(change.without_parts)} new from the mean of all pieces, {len(change.dropped)} "
        "dropped"
    )
    return vocabulary_change.apply(tensors, change)


def read_new_vocabulary(given, config):
    """The FullTokenizer with --new_vocabulary and the casing of the model."""
    from albert_tf.checkpoints import source
    from albert_tf.cli import model_flags
    from albert_tf.text import tokenization

    old = model_flags.directory_tokenizer(given)
    config.check_vocabulary(old)
    path = given.new_vocabulary
    try:
        return tokenization.FullTokenizer(**{source.vocabulary_flag(path): path}, **old.casing)
    except UserError as error:
        raise UserError(f"--new_vocabulary={path}: {error}") from error


def with_pieces_of(tokenizer, config):
    """The config for the pieces of a FullTokenizer, or as it is for None."""
    return dataclasses.replace(config, vocab_size=tokenizer.vocab_size) if tokenizer else config


def task_files(checkpoint):
    """Files next to a fine-tuned checkpoint, its task and threshold: name -> text, or ""."""
    from albert_tf import files, state
    from albert_tf.checkpoints import run_directory
    from albert_tf.tasks import multi_label
    from albert_tf.tasks.squad import squad

    folder = run_directory.RunDirectory(os.path.dirname(checkpoint))
    names = (run_directory.TASK, multi_label.LabelThreshold.FILE)
    # It may be in run.json, as a flag of the training, which is not written.
    threshold = squad.threshold_of(folder)
    found = {name: files.read_text(folder.file(name)) for name in names}
    if folder.task and folder.task.scale:  # the written head has it
        count = len(folder.task.scale[0])
        plain = dataclasses.replace(folder.task, scale=((0.0,) * count, (1.0,) * count))
        found[run_directory.TASK] = state.text(plain)
    return found | {run_directory.THRESHOLD: state.text(threshold) if threshold else ""}


def export_checkpoint(given, config, checkpoint, new_tokenizer=None):
    """Writes --export_path as a checkpoint, with the config, task and threshold next to it.

    A new vocabulary is written there too.

    Raises:
        UserError: it cannot be written there, or one of these files is there and differs.
    """
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.checkpoints import name_table, run_directory, source, writers

    prefix = given.export_path
    directory, name = os.path.split(prefix)
    if not name or tf.io.gfile.isdir(prefix) or "[" in name:
        raise UserError(
            f"--export_path={prefix} is not the prefix of a checkpoint: give one such as "
            "DIR/model.ckpt-best"
        )
    if run_directory.exists(prefix):
        raise UserError(f"--export_path={prefix} exists already. Choose another name")
    files.check_writable(directory or ".", "export_path")
    path = os.path.join(directory, CONFIG_FILE)
    extra = {os.path.join(directory, name): text for name, text in task_files(checkpoint).items()}
    others = [name for name, text in extra.items() if files.read_text(name) not in ("", text)]
    written = with_pieces_of(new_tokenizer, config)
    if tf.io.gfile.exists(path) and AlbertConfig.from_json_file(path) != written:
        others.append(path)
    vocabulary = new_tokenizer and files.read_bytes(new_tokenizer.path)
    if new_tokenizer:
        found = itertools.chain.from_iterable(source.Source(directory).vocabularies())
        others += [path for path in found if files.read_bytes(path) != vocabulary]
    if others:
        raise UserError(
            f"--export_path={prefix}: {others[0]} belongs to another model. Choose another "
            "directory"
        )
    tensors = read_weights(given, config, checkpoint, new_tokenizer)
    writers.write(prefix, tensors, given.export_format)
    if not tf.io.gfile.exists(path):
        extra[path] = written.to_json_string()
    if vocabulary:
        name = "spiece.model" if new_tokenizer.is_sentencepiece else "vocab.txt"
        with files.writing(os.path.join(directory, name)) as file:
            file.write(vocabulary)
    for name, text in extra.items():
        if text:
            files.write_text(name, text)
    print(f"Wrote {len(tensors)} variables and {name_table.GLOBAL_STEP} 0 to {prefix}")


def read_tokenizer(given, config, has_masked_lm, new_tokenizer=None):
    """The vocabulary of the model, as ids and files of transformers.

    Args:
        given: resolve.Resolved.
        config: AlbertConfig.
        has_masked_lm: bool, whether the model has a masked-LM head.
        new_tokenizer: FullTokenizer of --new_vocabulary; None for the one in --albert_directory.

    Returns:
        (dict of the special ids of their config, dict of file name -> bytes).

    Raises:
        UserError: there is none, it is of another model, or transformers has no such tokenizer.
    """
    from albert_tf.checkpoints import source
    from albert_tf.cli import model_flags
    from albert_tf.publish import transformers_tokenizer

    tokenizer = new_tokenizer or model_flags.directory_tokenizer(given)
    config.check_vocabulary(tokenizer)
    ids = transformers_tokenizer.ids_for_config(tokenizer)
    length = source.Source(given.albert_directory).recorded("max_seq_length")
    length = length or config.max_position_embeddings
    try:
        return ids, transformers_tokenizer.tokenizer_files(tokenizer, length, has_masked_lm)
    except UserError as error:
        raise UserError(f"--export_format=hf: {tokenizer.path}: {error}") from error


def export_to_transformers(given, config, checkpoint, new_tokenizer=None):
    """Writes --export_path as a directory of the transformers library."""
    import numpy as np

    from albert_tf import files
    from albert_tf.checkpoints import huggingface, readers, run_directory, source
    from albert_tf.publish import cards, saved_models

    try:
        huggingface.check_expressible(config)
    except UserError as error:
        raise UserError(f"--export_format=hf: {error}") from error
    saved_models.check_export_path(given.export_path)
    head = run_directory.RunDirectory(os.path.dirname(checkpoint)).task
    shapes = readers.open_reader(checkpoint).shapes
    architecture, outputs = huggingface.architecture_of(shapes, config.hidden_size, head)
    written_config = with_pieces_of(new_tokenizer, config)
    has_masked_lm = architecture in huggingface.WITH_MASKED_LM
    ids, tokenizer_files = read_tokenizer(given, written_config, has_masked_lm, new_tokenizer)
    their_config = huggingface.to_their_config(written_config, architecture, ids, outputs)
    tensors = read_weights(given, config, checkpoint, new_tokenizer)
    with files.replacing_directory(given.export_path) as directory:
        dtype = np.float16 if given.dtype == "fp16" else np.float32
        written = huggingface.write(directory, their_config, tensors, tokenizer_files, dtype)
        for name, text in task_files(checkpoint).items():
            if text and name != run_directory.THRESHOLD:  # of a head that transformers lacks
                files.write_text(os.path.join(directory, name), text)
        card = cards.card(
            "transformers_card.md",
            checkpoint,
            given.card_file,
            **dataclasses.asdict(written_config),
            architecture=architecture,
            example=cards.transformers_example(architecture),
            parameters=f"{sum(tensors[name].size for name in written):,}",
            dtype=given.dtype,
            path=given.export_path,
        )
        files.write_text(os.path.join(directory, cards.FILE), card)
    left_out = [name for name in tensors if name not in written]
    if left_out:
        print(f"  {architecture} has no place for: {', '.join(left_out)}")
    record = source.Source(given.albert_directory).settings
    long_texts = record.flags.get("long_texts", "head") if record else "head"
    if long_texts != "head":
        print(f"  --long_texts={long_texts} is not kept: transformers cuts the end of long texts")
    print(f"Wrote {len(written)} variables as {architecture} to {given.export_path}")


def main(given):
    """Reads flags, checks them and the input, then writes."""
    check_flags(given)

    from albert_tf.checkpoints import source

    config = source.Source(given.albert_directory).read_config()
    is_for_transformers = given.export_format == "hf"
    path = flag_groups.exported_checkpoint(given)
    checkpoint = source.find(path, takes_exports=not is_for_transformers).checkpoint
    export = export_to_transformers if is_for_transformers else export_checkpoint
    new_tokenizer = read_new_vocabulary(given, config) if given.new_vocabulary else None
    export(given, config, checkpoint, new_tokenizer)


def run():
    """The command `albert-export-checkpoints`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
