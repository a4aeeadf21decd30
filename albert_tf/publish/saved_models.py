# SPDX-License-Identifier: Apache-2.0
"""Exports of fine-tuned models as SavedModels."""

import os
import shlex
import tempfile
import time

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import name_table
from albert_tf.config import CONFIG_FILE, LABELS_FILE
from albert_tf.errors import UserError, as_called
from albert_tf.publish import cards, tflite_files


def check_export_path(path):
    """Checks that --export_path can be written, before any work.

    Args:
        path: str, a new or empty directory.

    Raises:
        UserError: the directory is not empty, or cannot be made.
    """
    if tf.io.gfile.exists(path) and (not tf.io.gfile.isdir(path) or tf.io.gfile.listdir(path)):
        raise UserError(f"--export_path={path} is not empty: give a new directory")
    files.check_writable(os.path.dirname(path.rstrip("/")) or ".", "export_path")


def new_directory(parent):
    """Path of a new directory, named after the time in seconds as in exports of Estimators.

    Args:
        parent: str, directory of a model's versions.
    """
    number = int(time.time())
    while tf.io.gfile.exists(os.path.join(parent, str(number))):
        number += 1
    return os.path.join(parent, str(number))


def save_module(module, path, signatures=None, card=None):
    """Saves a module as a SavedModel; the directory appears when it is complete.

    Args:
        module: tf.Module.
        path: str, directory to make.
        signatures: dict of name -> concrete function, or None.
        card: str or None, text of a `README.md` next to it.
    """
    with files.replacing_directory(path) as directory:
        tf.saved_model.save(module, directory, signatures=signatures)
        if card:
            files.write_text(os.path.join(directory, cards.FILE), card)


class Holder(tf.Module):
    """Content of a SavedModel besides functions: files, and weights by the original's names."""

    def __init__(self, model, tokenizer=None, assets=None):
        super().__init__()
        self.named_variables = name_table.named_variables(model)
        self.tokenizer = tokenizer
        for name, path in (assets or {}).items():
            setattr(self, name, tf.saved_model.Asset(path))


def export(functions, settings, task, prefix, source):
    """Writes a fine-tuned model as a SavedModel and, if asked, as TFLite files; prints the paths.

    Args:
        functions: signatures.ServedFunctions of the model with its weights.
        settings: options.FineTuning.
        task: tasks.base.Task.
        prefix: str, the checkpoint.
        source: str, the checkpoint, for the message.
    """
    model, tokenizer, tflite = functions.model, functions.texts.tokenizer, {}
    if settings.export_tflite:  # first, so that nothing is written if it fails
        tflite = tflite_files.convert(Holder(model), functions)
    path = new_directory(os.path.join(settings.export_dir, task.export_folder))
    contents = {CONFIG_FILE: model.config.to_json_string()}
    names = functions.labels or getattr(task.kind, "scores", None) or ()
    if names:
        contents[LABELS_FILE] = "".join(f"{name}\n" for name in names)
    assets = {"sp_model_file" if tokenizer.is_sentencepiece else "vocab_file": tokenizer.path}
    with tempfile.TemporaryDirectory() as directory:
        for name, content in contents.items():
            assets[name.partition(".")[0]] = os.path.join(directory, name)
            files.write_text(os.path.join(directory, name), content)
        # Without the tokenizer, it can be loaded without tensorflow-text.
        module = Holder(model, tokenizer if settings.export_text else None, assets)
        signatures = functions.signatures(settings.export_text)
        card = _card(functions, signatures, settings, task, names, prefix, path)
        save_module(module, path, signatures, card)
    if settings.export_text:
        texts = " ".join(f"--{name}=..." for name in functions.texts.signature)
        print(f"Exported {source}.")
        print(as_called("Try it: python predict.py"), f"--saved_model={shlex.quote(path)} {texts}")
    else:
        print(f"Exported {source}, for ids only: {path}")
    tflite_files.save(settings.export_dir, tflite, contents.get(LABELS_FILE, ""))


def _card(functions, signatures, settings, task, names, prefix, path):
    """The text of the `README.md` of an export to a path, which its example names."""
    model, texts, rows = functions.model, functions.texts, []
    for name, call in signatures.items():
        inputs = {spec.name: spec for spec in tf.nest.flatten(call.structured_input_signature)}
        rows.append((f"`{name}`", _tensors(inputs), _tensors(call.structured_outputs)))
    return cards.card(
        "finetuned_card.md",
        prefix,
        settings.card_file,
        **cards.model_values(model.config, model.trainable_variables, texts.tokenizer),
        task=task.name,
        names=cards.listed(names or ["none"]),
        max_seq_length=texts.max_seq_length,
        imports=", tensorflow_text" if settings.export_text else "",
        example=_example(texts) if settings.export_text else "print(list(signatures))",
        path=path,
        signatures=cards.table(("signature", "inputs", "outputs"), *rows),
    )


def _tensors(specs):
    return ", ".join(f"`{name}` {x.dtype.name} {x.shape}" for name, x in sorted(specs.items()))


def _example(texts):
    """Python call of the signature `text`, with dots as texts."""
    arguments = []
    for name, x in texts.signature.items():
        dots = '["..."]' if x.shape.rank == 1 else f'[["..."] * {x.shape[1]}]'
        arguments.append(f"{name}=tf.constant({dots})")
    return f'print(signatures["text"]({", ".join(arguments)}))'
