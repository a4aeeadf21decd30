# SPDX-License-Identifier: Apache-2.0
"""What lies beside the weights of any source: its config, its vocabulary, its casing.

A source is an unpacked release, the directory of a training, a checkpoint in either, a module of
TensorFlow Hub or a directory of the transformers library.
"""

import os
from typing import NamedTuple

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import hub_modules, huggingface, run_directory
from albert_tf.errors import UserError

CONFIG_FILE = "albert_config.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"  # of transformers


class Source(NamedTuple):
    """A checkpoint and the directory that tells about it.

    Attributes:
        directory: str.
        checkpoint: str, prefix, or the `.safetensors` file.
    """

    directory: str
    checkpoint: str

    @property
    def is_module(self):
        """Whether it is a module of TensorFlow Hub."""
        return _is_module(self.directory)

    def config_file(self):
        """Path of the config that lies there; None where there is none, or in a module."""
        paths = [os.path.join(self.directory, name) for name in (CONFIG_FILE, huggingface.CONFIG)]
        return next(filter(tf.io.gfile.exists, paths), None)

    def read_config(self):
        """The AlbertConfig.

        Raises:
            UserError: there is none, or an invalid one.
        """
        path = self.config_file()
        if path:
            return huggingface.read_config(path)
        if self.is_module:
            return hub_modules.read_config(self.directory)
        raise UserError(
            f"{self.directory} has neither {CONFIG_FILE} nor {huggingface.CONFIG} to tell the "
            "architecture: put the file there, or pass config=AlbertConfig.from_json_file(...)"
        )

    def vocabulary_file(self):
        """Path of the SentencePiece model, or else WordPiece vocabulary, that lies there; or None.

        Raises:
            UserError: there are several.
        """
        if self.is_module:
            return hub_modules.vocabulary_file(self.directory)
        return hub_modules.vocabulary_in(self.directory)

    def lower_case(self):
        """Whether text is to be lower-cased (bool); None where the source does not tell."""
        if self.is_module:
            return hub_modules.lower_case(self.directory)
        return self._told_to_transformers("do_lower_case")

    def strips_accents(self):
        """Whether letters are to lose their marks (bool); None where the source does not tell."""
        if self.is_module:
            return hub_modules.strips_accents(self.directory)
        told = self._told_to_transformers("strip_accents")  # of BertTokenizer
        if told is None:
            kept = self._told_to_transformers("keep_accents")  # of AlbertTokenizer
            told = None if kept is None else not kept
        return told

    def max_seq_length(self):
        """The longest sequence (int) that a tokenizer of transformers makes; None if none tells."""
        length = self._told_to_transformers("model_max_length", int)
        # transformers writes 1e30 where it knows none
        return None if length is None or length > 2**31 else length

    def _told_to_transformers(self, name, kind=bool):
        path = os.path.join(self.directory, _TOKENIZER_CONFIG)
        values = files.read_json(path) if tf.io.gfile.exists(path) else None
        told = values.get(name) if isinstance(values, dict) else None
        return told if type(told) is kind else None


def find(path):
    """The Source that a path means; of a directory, its best checkpoint or else its newest.

    Args:
        path: str or os.PathLike, anything that `run_directory.find` takes.

    Raises:
        UserError: there is no checkpoint.
    """
    path = os.fspath(path)
    checkpoint = run_directory.find(run_directory.prefer_best(path))
    directory = path.rstrip("/") if tf.io.gfile.isdir(path) else os.path.dirname(checkpoint)
    parent = os.path.dirname(directory)
    if os.path.basename(directory) == "variables" and _is_module(parent):
        directory = parent
    return Source(directory or ".", checkpoint)


def _is_module(directory):
    return tf.io.gfile.exists(os.path.join(directory, hub_modules.SAVED_MODEL))
