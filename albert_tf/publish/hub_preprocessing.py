# SPDX-License-Identifier: Apache-2.0
"""The text preprocessing of TensorFlow Hub as a module: strings in, inputs of the encoder out."""

import tensorflow as tf

from albert_tf.publish.graph_tokenization import STRINGS, GraphTokenizer
from albert_tf.publish.packing import pack

DEFAULT_SEQ_LENGTH = 128  # of the Hub's preprocessing modules


class Preprocessing(tf.Module):
    """The Hub's text preprocessing object: strings in, inputs of the encoder out.

    Has what the common API for text asks for: a call on string [B], `tokenize` (and
    `tokenize.get_special_tokens_dict`), `bert_pack_inputs`, and `tokenize_with_offsets`.

    Args:
      spm_model_file, vocab_file, do_lower_case: as of `GraphTokenizer`.
      seq_length: int, length of a call's output, and of `bert_pack_inputs` where none is given.
      strip_accents: bool, as of `GraphTokenizer`.

    Raises:
      UserError: as `GraphTokenizer`.
    """

    def __init__(
        self,
        spm_model_file=None,
        vocab_file=None,
        do_lower_case=True,
        seq_length=DEFAULT_SEQ_LENGTH,
        strip_accents=True,
    ):
        super().__init__()
        self._tokenizer = GraphTokenizer(spm_model_file, vocab_file, do_lower_case, strip_accents)
        self._seq_length = seq_length
        self.tokenize = _Tokenize(self._tokenizer)
        self._trace_bert_pack_inputs()

    @tf.function(input_signature=[STRINGS], autograph=False)
    def __call__(self, texts):
        """Inputs of the encoder, int32 [B, seq_length] each, for string [B]: [CLS] text [SEP]."""
        return pack([self._tokenizer.tokenize(texts)], self._seq_length, self._tokenizer)

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize_with_offsets(self, texts):
        """Ids, starts and ends of pieces: see `GraphTokenizer.tokenize_with_offsets`."""
        return tuple(self._tokenizer.tokenize_with_offsets(texts))

    @tf.function(autograph=False)
    def bert_pack_inputs(self, inputs, seq_length=None):
        """One or two segments as inputs of the encoder: see `pack`.

        Args:
          inputs: list of one or two int32 RaggedTensors [B, (T)] or [B, (W), (T)].
          seq_length: int32 scalar or int; None: that of the module.

        Returns:
          dict of int32 [B, seq_length].
        """
        if seq_length is None:
            seq_length = self._seq_length
        return pack(inputs, seq_length, self._tokenizer)

    def _trace_bert_pack_inputs(self):
        """Makes the forms of `bert_pack_inputs` that a SavedModel shall have."""
        flat, by_words = (
            tf.RaggedTensorSpec([None] * rank, tf.int32, ragged_rank=rank - 1) for rank in (2, 3)
        )
        pairs = [[a, b] for a in (flat, by_words) for b in (flat, by_words)]
        for inputs in [[flat], [by_words], *pairs]:
            self.bert_pack_inputs.get_concrete_function(inputs)
            self.bert_pack_inputs.get_concrete_function(
                inputs, seq_length=tf.TensorSpec([], tf.int32)
            )


class _Tokenize(tf.Module):
    """`Preprocessing.tokenize`: can be called, and tells the special ids."""

    def __init__(self, tokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[STRINGS], autograph=False)
    def __call__(self, texts):
        return self._tokenizer.tokenize(texts)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        return {name: tf.constant(id_) for name, id_ in self._tokenizer.special_tokens.items()}
