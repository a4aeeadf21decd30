# SPDX-License-Identifier: Apache-2.0
r"""Writes the weights of a checkpoint for the original release, albert_tf or transformers.

python export_checkpoints.py \
  --albert_directory=output/model --export_path=released/model.ckpt-best --export_format=tf1
"""

import dataclasses
import os

from absl import flags

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import UserError

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(options.CheckpointExport)


def check_flags():
    """Raises UserError for values that name no file, before anything is read."""
    flag_groups.check_not_empty("albert_directory", "export_path", "checkpoint_name")
    name = FLAGS.checkpoint_name
    if os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == os.pardir:
        raise UserError(
            f"--checkpoint_name={name} leads out of --albert_directory: give the name of a "
            "checkpoint in it"
        )
    for name, is_given in (("dtype", FLAGS.dtype != "fp32"), ("card_file", FLAGS.card_file)):
        if is_given and FLAGS.export_format != "hf":
            raise UserError(f"--{name}={FLAGS[name].value} needs --export_format=hf")
    flag_groups.check_albert_directory()


def read_weights(config, checkpoint):
    """The weights of a checkpoint; prints the names that are left out."""
    from albert_tf.checkpoints import loading, name_table
    from albert_tf.model import heads

    named = name_table.named_variables(heads.PretrainingModel(config))
    tensors, report = loading.read_weights(checkpoint, named)
    print(f"Read {len(tensors)} variables from {report.prefix}")
    if report.missing:
        print(f"  absent, so not written: {', '.join(report.missing)}")
    if report.unused_weights:
        print(f"  not of an ALBERT model, so left out: {', '.join(report.unused_weights)}")
    return tensors


def task_files(checkpoint):
    """Files next to a fine-tuned checkpoint, its task and threshold: name -> text, or ""."""
    from albert_tf import files, state
    from albert_tf.checkpoints import run_directory
    from albert_tf.tasks import multi_label
    from albert_tf.tasks.squad import squad

    folder = run_directory.RunDirectory(os.path.dirname(checkpoint))
    names = (run_directory.TASK, multi_label.Threshold.FILE)
    # It may be in run.json, as a flag of the training, which is not written.
    threshold = squad.threshold_of(folder)
    return {name: files.read_text(folder.file(name)) for name in names} | {
        run_directory.THRESHOLD: state.text(threshold) if threshold else ""
    }


def export_checkpoint(config, checkpoint):
    """Writes --export_path as a checkpoint, with the config, task and threshold next to it.

    Raises:
        UserError: it cannot be written there, or one of these files is there and differs.
    """
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.checkpoints import name_table, run_directory, writers

    prefix = FLAGS.export_path
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
    if tf.io.gfile.exists(path) and AlbertConfig.from_json_file(path) != config:
        others.append(path)
    if others:
        raise UserError(
            f"--export_path={prefix}: {others[0]} belongs to another model. Choose another "
            "directory"
        )
    tensors = read_weights(config, checkpoint)
    writers.write(prefix, tensors, FLAGS.export_format)
    if not tf.io.gfile.exists(path):
        extra[path] = config.to_json_string()
    for name, text in extra.items():
        if text:
            files.write_text(name, text)
    print(f"Wrote {len(tensors)} variables and {name_table.GLOBAL_STEP} 0 to {prefix}")


def read_tokenizer(config, has_masked_lm):
    """The vocabulary in --albert_directory, as ids and files of transformers.

    Args:
        config: AlbertConfig.
        has_masked_lm: bool, whether the model has a masked-LM head.

    Returns:
        (tokenization.SpecialIds, dict of file name -> bytes).

    Raises:
        UserError: there is none, it is of another model, or transformers has no such tokenizer.
    """
    from albert_tf.checkpoints import source
    from albert_tf.cli import model_flags
    from albert_tf.publish import transformers_tokenizer

    tokenizer = model_flags.directory_tokenizer()
    config.check_vocabulary(tokenizer)
    ids = tokenizer.special_ids(with_mask=False)
    length = source.Source(FLAGS.albert_directory).recorded("max_seq_length")
    length = length or config.max_position_embeddings
    try:
        return ids, transformers_tokenizer.tokenizer_files(tokenizer, length, has_masked_lm)
    except UserError as error:
        raise UserError(f"--export_format=hf: {tokenizer.path}: {error}") from error


def export_to_transformers(config, checkpoint):
    """Writes --export_path as a directory of the transformers library."""
    import numpy as np

    from albert_tf import files
    from albert_tf.checkpoints import huggingface, readers, run_directory
    from albert_tf.publish import cards, saved_models

    try:
        huggingface.check_expressible(config)
    except UserError as error:
        raise UserError(f"--export_format=hf: {error}") from error
    saved_models.check_export_path(FLAGS.export_path)
    head = run_directory.RunDirectory(os.path.dirname(checkpoint)).task
    shapes = readers.open_reader(checkpoint).shapes
    architecture, outputs = huggingface.architecture_of(shapes, config.hidden_size, head)
    ids, tokenizer_files = read_tokenizer(config, architecture in huggingface.WITH_MASKED_LM)
    special_ids = {"pad_token_id": ids.pad, "bos_token_id": ids.cls, "eos_token_id": ids.sep}
    their_config = huggingface.to_their_config(config, architecture, special_ids, outputs)
    tensors = read_weights(config, checkpoint)
    with files.replacing_directory(FLAGS.export_path) as directory:
        dtype = np.float16 if FLAGS.dtype == "fp16" else np.float32
        written = huggingface.write(directory, their_config, tensors, tokenizer_files, dtype)
        for name, text in task_files(checkpoint).items():
            if text and name != run_directory.THRESHOLD:  # of a head that transformers lacks
                files.write_text(os.path.join(directory, name), text)
        card = cards.card(
            "transformers_card.md",
            checkpoint,
            FLAGS.card_file,
            **dataclasses.asdict(config),
            architecture=architecture,
            example=cards.transformers_example(architecture),
            parameters=f"{sum(tensors[name].size for name in written):,}",
            dtype=FLAGS.dtype,
            path=FLAGS.export_path,
        )
        files.write_text(os.path.join(directory, cards.FILE), card)
    left_out = [name for name in tensors if name not in written]
    if left_out:
        print(f"  {architecture} has no place for: {', '.join(left_out)}")
    print(f"Wrote {len(written)} variables as {architecture} to {FLAGS.export_path}")


def main(_):
    """Reads flags, checks them and the input, then writes."""
    check_flags()

    from albert_tf.checkpoints import source

    config = source.Source(FLAGS.albert_directory).read_config()
    is_for_transformers = FLAGS.export_format == "hf"
    path = os.path.join(FLAGS.albert_directory, FLAGS.checkpoint_name)
    checkpoint = source.find(path, takes_exports=not is_for_transformers).checkpoint
    export = export_to_transformers if is_for_transformers else export_checkpoint
    export(config, checkpoint)


def run():
    """The command `albert-export-checkpoints`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
