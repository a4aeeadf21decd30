# SPDX-License-Identifier: Apache-2.0
"""How the text of any task becomes the model's input."""

from typing import NamedTuple

from albert_tf.errors import UserError
from albert_tf.text.tokenization import FullTokenizer

_LEAST_USED = 0.9  # of the embeddings; some models round their number up


class TextInput(NamedTuple):
    """What all tasks need to turn text into ids.

    Attributes:
        tokenizer: FullTokenizer.
        max_seq_length: int, T.
        vocab_size, type_vocab_size: int, of the model; ids must be below them.
    """

    tokenizer: FullTokenizer
    max_seq_length: int
    vocab_size: int
    type_vocab_size: int

    @property
    def sizes(self):
        """Arguments of `records`' schemas: dict of str to int."""
        return {"vocab_size": self.vocab_size, "type_vocab_size": self.type_vocab_size}

    @property
    def cache_settings(self):
        """What features depend on, for `feature_cache.cached_records`: dict."""
        return self.tokenizer.casing | {"max_seq_length": self.max_seq_length}


def check_vocabulary(config, tokenizer, path):
    """Warns of a tokenizer that is much smaller than the model's.

    Raises UserError if it has ids for which the model has no embedding.

    Args:
        config: AlbertConfig.
        tokenizer: FullTokenizer.
        path: str, its file.
    """
    if tokenizer.vocab_size > config.vocab_size:
        raise UserError(
            f"{path} has {tokenizer.vocab_size} pieces and the config has "
            f"vocab_size={config.vocab_size}: one belongs to another model"
        )
    if tokenizer.vocab_size < _LEAST_USED * config.vocab_size:
        print(
            f"Warning: {path} has {tokenizer.vocab_size} pieces and the config has "
            f"vocab_size={config.vocab_size}: one may belong to another model."
        )
