# SPDX-License-Identifier: Apache-2.0
"""Exports of fine-tuned models: a SavedModel in a folder named after the time, and TFLite files."""

import os
import shlex
from typing import NamedTuple

from albert_tf.errors import as_called
from albert_tf.publish import saved_models, tflite_files


class Settings(NamedTuple):
    """What is exported, and where to.

    Attributes:
        directory: str.
        vocabulary: dict, arguments of the GraphTokenizer, which computes with TensorFlow and so is
            made only when devices are set up.
        vocabulary_file: str, its file, which goes along.
        max_seq_length: int, T, of the samples that TFLite files are compared on.
        with_text: bool, whether the SavedModel takes text too, for which it needs tensorflow-text.
        with_tflite: bool, whether TFLite files are written too.
    """

    directory: str
    vocabulary: dict
    vocabulary_file: str
    max_seq_length: int
    with_text: bool = True
    with_tflite: bool = False


def export(model, functions, tokenizer, config, settings, source, labels=None, folder=""):
    """Writes a fine-tuned model; says what and where.

    Args:
        model: one of `heads`, with its weights.
        functions: classifier_functions.ClassifierFunctions or the like, of it.
        tokenizer: GraphTokenizer of its text.
        config: AlbertConfig.
        settings: Settings.
        source: str, the checkpoint, for the message.
        labels: sequence of str or None, the class names.
        folder: str, where in the directory the folders named after the time lie.
    """
    tflite = {}
    if settings.with_tflite:  # first: nothing is written if it fails
        length = settings.max_seq_length
        tflite = tflite_files.convert_to_tflite(model, functions, length, config.vocab_size)
    path = saved_models.new_directory(os.path.join(settings.directory, folder))
    contents = {"albert_config.json": config.to_json_string()}
    if labels is not None:
        contents[saved_models.LABELS_FILE] = "".join(f"{label}\n" for label in labels)
    kind = "sp_model_file" if tokenizer.is_sentencepiece else "vocab_file"
    tokenizer = tokenizer if settings.with_text else None
    assets = {kind: settings.vocabulary_file}
    saved_models.save(path, model, functions, tokenizer, assets, contents)
    if settings.with_text:
        texts = " ".join(f"--{name}=..." for name in functions.texts.signature)
        print(f"Exported {source}.")
        print(as_called("Try it: python predict.py"), f"--saved_model={shlex.quote(path)} {texts}")
    else:
        print(f"Exported {source}, for ids alone: {path}")
    paths = tflite_files.save_tflite(settings.directory, tflite)
    for path, (kind, file) in zip(paths, tflite.items(), strict=True):
        print(
            f"TFLite, {kind}: {path}, {len(file.content) / 2**20:.2f} MiB, largest difference "
            f"from the model {file.difference:.1e}"
        )
