# SPDX-License-Identifier: Apache-2.0
"""How the text of any task becomes the model's input."""

from typing import NamedTuple

from albert_tf.text.tokenization import FullTokenizer


class TextInput(NamedTuple):
    """What all tasks need to turn text into ids.

    Attributes:
        tokenizer: FullTokenizer.
        vocabulary_file: str, its file.
        do_lower_case: bool.
        max_seq_length: int, T.
        vocab_size, type_vocab_size: int, of the model; ids must be below them.
    """

    tokenizer: FullTokenizer
    vocabulary_file: str
    do_lower_case: bool
    max_seq_length: int
    vocab_size: int
    type_vocab_size: int

    @property
    def sizes(self):
        """Arguments of `records`' schemas: dict of str to int."""
        return {"vocab_size": self.vocab_size, "type_vocab_size": self.type_vocab_size}

    @property
    def cache_settings(self):
        """What features depend on, for `records.cached_records`: dict."""
        return {"do_lower_case": self.do_lower_case, "max_seq_length": self.max_seq_length}
