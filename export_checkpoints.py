# SPDX-License-Identifier: Apache-2.0
r"""Writes the weights of a checkpoint for the original release, albert_tf or transformers.

python export_checkpoints.py \
  --albert_directory=output/model --export_path=released/model.ckpt-best --export_format=tf1
"""

import contextlib
import dataclasses
import os
from typing import NamedTuple

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import UserError, about


class Model(NamedTuple):
    """The model to write.

    Attributes:
        source: source.Source of --albert_directory, with the checkpoint.
        folder: run_directory.RunDirectory of the checkpoint.
        shapes: dict of original name -> list of int, of the checkpoint.
        task: run_directory.FinetunedTask of the head; None if nothing tells it.
        config: AlbertConfig to write; it has the number of pieces of a new vocabulary.
        tokenizer: FullTokenizer with the vocabulary to write; None if none is written.
        settings: run_directory.RunSettings to write, with that vocabulary; None to write none.
        change: vocabulary_change.Change of the weights to these pieces; None to keep the pieces.
    """

    source: object
    folder: object
    shapes: dict
    task: object
    config: AlbertConfig
    tokenizer: object
    settings: object
    change: object


def check_prefix(prefix):
    """Raises UserError if --export_path cannot be written as a checkpoint."""
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.checkpoints import run_directory

    directory, name = os.path.split(prefix)
    if not name or tf.io.gfile.isdir(prefix) or "[" in name:
        raise UserError(f"--export_path={prefix}: give a prefix such as DIR/model.ckpt-best")
    if run_directory.exists(prefix):
        raise UserError(f"--export_path={prefix} exists already. Choose another name")
    files.check_writable(directory or ".", "export_path")


def find_model(given):
    """The Model of --albert_directory, with the pieces of --new_vocabulary.

    Raises:
        UserError: a part is missing, does not fit the others, or cannot be written in this form.
    """
    from albert_tf import files
    from albert_tf.api import load, saving
    from albert_tf.checkpoints import huggingface, readers, run_directory, source
    from albert_tf.cli import model_flags
    from albert_tf.publish import vocabulary_change
    from albert_tf.text import tokenization

    path, is_for_transformers = given.new_vocabulary, given.export_format == "hf"
    checkpoint = flag_groups.exported_checkpoint(given)
    checkpoint = source.find(checkpoint, takes_exports=not is_for_transformers).checkpoint
    found = source.Source(given.albert_directory, checkpoint)
    folder = run_directory.RunDirectory(os.path.dirname(checkpoint))
    shapes = readers.open_reader(checkpoint).shapes
    config, task = found.read_config(), load.recorded_task(found, shapes)
    if is_for_transformers:
        with about("--export_format=hf"):
            huggingface.check_expressible(config)
        with contextlib.suppress(UserError):  # the original rounds the groups of layers otherwise
            config = config.in_groups()
    elif given.export_format == "tf1":
        with about("--export_format=tf1"):
            config = config.in_groups()
    record, old = folder.settings, None
    place = given.export_path if is_for_transformers else os.path.dirname(given.export_path)
    # A run already has the settings of what is written into its directory.
    is_kept = task and record and files.absolute_path(place) != files.absolute_path(folder.path)
    has_vocabulary = is_kept and record.vocabulary and found.find_vocabulary(record.vocabulary)
    if is_for_transformers or path or has_vocabulary:
        old = model_flags.directory_tokenizer(given)
        config.check_vocabulary(old)
    if not path:
        settings = saving.settings_of(config, old, record) if is_kept else None
        return Model(found, folder, shapes, task, config, old, settings, None)
    with about(f"--new_vocabulary={path}"):
        new = tokenization.FullTokenizer(**{source.vocabulary_flag(path): path}, **old.casing)
        change = vocabulary_change.compare(old, new)
    written = dataclasses.replace(config, vocab_size=new.vocab_size)
    settings = saving.settings_of(written, new, record)
    return Model(found, folder, shapes, task, written, new, settings, change)


def read_weights(model):
    """The weights of a Model; prints the names that are left out and how pieces change."""
    import numpy as np

    from albert_tf.checkpoints import loading, name_table
    from albert_tf.model import heads
    from albert_tf.publish import vocabulary_change

    named = name_table.named_variables(heads.PretrainingModel(model.source.read_config()))
    tensors, report = loading.read_weights(model.source.checkpoint, named)
    print(f"Read {len(tensors)} variables from {report.prefix}")
    if report.missing:
        print(f"  absent, so not written: {', '.join(report.missing)}")
    if report.unused_weights:
        print(f"  not of an ALBERT model, so left out: {', '.join(report.unused_weights)}")
    task = model.task
    if task and task.scale:  # other readers know no scale
        weights, bias = name_table.HEAD_NAMES["classifier"]
        means, deviations = np.array(task.scale, np.float32)
        tensors[weights] = tensors[weights] * deviations[:, np.newaxis]
        tensors[bias] = tensors[bias] * deviations + means
    change = model.change
    if change is None:
        return tensors
    print(
        f"Pieces: {change.copied} copied, {change.new} new from the mean of their parts, "
        f"{change.without_parts} new from the mean of all pieces, {change.dropped} dropped"
    )
    return vocabulary_change.apply(tensors, change)


def task_files(model):
    """Files next to a checkpoint, its task, threshold and settings: name -> text, or ""."""
    from albert_tf import files, state_files
    from albert_tf.checkpoints import run_directory
    from albert_tf.tasks import multi_label
    from albert_tf.tasks.squad import squad

    names = (run_directory.TASK, multi_label.LabelThreshold.FILE)
    # It may be in the run.json of the training, as a flag.
    task, threshold = model.task, squad.threshold_of(model.folder)
    found = {name: files.read_text(model.folder.file(name)) for name in names}
    if task and task.scale:  # the written head has it
        count = len(task.scale[0])
        task = dataclasses.replace(task, scale=((0.0,) * count, (1.0,) * count))
    if task and task != model.folder.task:
        found[run_directory.TASK] = state_files.text(task)
    found[run_directory.THRESHOLD] = state_files.text(threshold) if threshold else ""
    if model.settings:
        found[run_directory.SETTINGS] = state_files.text(model.settings)
    return found


def export_checkpoint(given, model):
    """Writes --export_path as a checkpoint, with the config and `task_files` next to it.

    The vocabulary that the settings name is written there too.

    Raises:
        UserError: one of these files is there and differs.
    """
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.checkpoints import name_table, source, writers

    prefix = given.export_path
    directory = os.path.dirname(prefix)
    path = os.path.join(directory, CONFIG_FILE)
    extra = task_files(model)
    extra = {os.path.join(directory, name): text for name, text in extra.items()}
    others = [name for name, text in extra.items() if files.read_text(name) not in ("", text)]
    if tf.io.gfile.exists(path) and AlbertConfig.from_json_file(path) != model.config:
        others.append(path)
    vocabulary = model.tokenizer and files.read_bytes(model.tokenizer.path)
    if vocabulary:
        place = os.path.join(directory, model.settings.vocabulary.path)
        # A new vocabulary next to another would change what the directory's own weights mean.
        found = source.Source(directory).vocabularies() if model.change else [place]
        found = filter(tf.io.gfile.exists, found)
        others += [path for path in found if files.read_bytes(path) != vocabulary]
    if others:
        raise UserError(f"--export_path={prefix}: {others[0]} is of another model. Choose another")
    tensors = read_weights(model)
    if not tf.io.gfile.exists(path):
        extra[path] = model.config.to_json_string()
    if vocabulary:
        files.write_bytes({place: vocabulary})
    for name, text in extra.items():
        if text:
            files.write_text(name, text)
    writers.write(prefix, tensors, given.export_format)  # last: the rest belongs to it
    print(f"Wrote {len(tensors)} variables and {name_table.GLOBAL_STEP} 0 to {prefix}")


def export_to_transformers(given, model):
    """Writes --export_path as a directory of the transformers library.

    Raises:
        UserError: transformers has no such head or tokenizer.
    """
    import numpy as np

    from albert_tf import files
    from albert_tf.checkpoints import huggingface
    from albert_tf.publish import cards, transformers_tokenizer

    config, tokenizer = model.config, model.tokenizer
    architecture, outputs = huggingface.architecture_of(
        model.shapes, config.hidden_size, model.task
    )
    has_masked_lm = architecture in huggingface.WITH_MASKED_LM
    length = model.source.recorded("max_seq_length") or config.max_position_embeddings
    with about(f"--export_format=hf: {tokenizer.path}"):
        vocabulary = transformers_tokenizer.tokenizer_files(tokenizer, length, has_masked_lm)
    ids = transformers_tokenizer.ids_for_config(tokenizer)
    their_config = huggingface.to_their_config(config, architecture, ids, outputs)
    tensors = read_weights(model)
    with files.replacing_directory(given.export_path) as directory:
        dtype = np.float16 if given.dtype == "fp16" else np.float32
        written = huggingface.write(directory, their_config, tensors, vocabulary, dtype)
        # SQuAD 2.0 and its threshold: transformers lacks the head.
        has_head = architecture != huggingface.ENCODER
        for name, text in task_files(model).items() if has_head else ():
            if text:
                files.write_text(os.path.join(directory, name), text)
        left_out = [name for name in tensors if name not in written]
        card = cards.card(
            "transformers_card.md",
            model.source.checkpoint,
            given.card_file,
            left_out,
            **dataclasses.asdict(config),
            architecture=architecture,
            example=cards.transformers_example(architecture),
            max_seq_length=length,
            parameters=f"{sum(tensors[name].size for name in written):,}",
            dtype=given.dtype,
            path=given.export_path,
        )
        files.write_text(os.path.join(directory, cards.FILE), card)
    if left_out:
        print(f"  {architecture} has no place for: {', '.join(left_out)}")
    settings = model.source.settings
    long_texts = settings.flags.get("long_texts", "head") if settings else "head"
    if long_texts != "head":
        print(
            f"  transformers cuts the end of long texts; albert_tf reads the directory with "
            f"--long_texts={long_texts}, as it was trained"
        )
    print(f"Wrote {len(written)} variables as {architecture} to {given.export_path}")


def main(given):
    """Reads flags, checks them and the input, then writes."""
    name = given.checkpoint_name
    if os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == os.pardir:
        raise UserError(f"--checkpoint_name={name} is not in --albert_directory: give a name in it")
    flag_groups.check_albert_directory(given)

    from albert_tf.publish import saved_models

    if given.export_format == "hf":
        saved_models.check_export_path(given.export_path)
        export_to_transformers(given, find_model(given))
    else:
        check_prefix(given.export_path)
        export_checkpoint(given, find_model(given))


run = launch.command(main, options.CheckpointExport)  # albert-export-checkpoints


if __name__ == "__main__":
    run()
