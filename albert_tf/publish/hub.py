# SPDX-License-Identifier: Apache-2.0
"""Modules for TensorFlow Hub: the encoder, and the preprocessing of text; their `README.md`."""

import dataclasses
import os

import tensorflow as tf

from albert_tf.checkpoints import name_table
from albert_tf.publish import cards
from albert_tf.publish.graph_inputs import FEATURES, HUB_INPUTS, HUB_NAMES, POSITIONS, pack
from albert_tf.publish.graph_tokenization import STRINGS, GraphTokenizer
from albert_tf.publish.signatures import id_specs, traced

DEFAULT_SEQ_LENGTH = 128  # of the Hub's preprocessing modules
EQUAL_SPLITS = (
    "Pieces are those that training uses, except where a text has two splits of exactly equal "
    'score, such as "***" in text with capitals that the vocabulary lacks: tensorflow-text may '
    "take the other one (1 of 28,000 lines of English books)."
)


# --- The encoder ---------------------------------------------------------------------------------


class _Callable(tf.Module):
    """A reusable SavedModel of the Hub: it is called with `training=` and lists its variables."""

    # The SavedModel interface requires plain lists in place of tf.Module's properties.
    variables = ()
    trainable_variables = ()

    def __init__(self, function, names, variables):
        super().__init__()
        self.variables = list(variables)
        self.trainable_variables = list(variables)
        self.regularization_losses = []
        self.__call__ = tf.function(function, autograph=False)
        inputs = id_specs(names)
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)


class HubModule(_Callable):
    """An encoder for TensorFlow Hub, with a call for TF2 and the original's signatures for TF1.

    Called with a dict of int32 [B, T] (`HUB_INPUTS`) and `training=`, it returns `pooled_output`
    and `default` [B, H], `sequence_output` [B, T, H] and the list `encoder_outputs`. `mlm` adds
    `mlm_logits` [B, P, V] for `masked_lm_positions` int32 [B, P], and `sop` adds `sop_log_probs`
    [B, 2]; each exists only if its head was trained.

    Args:
        model: heads.PretrainingModel with its weights.
        trained_heads: collection of str, "masked_lm" and "sentence_order" if they were trained.
        assets: dict of attribute -> path of a file to include: `config_file`, and `sp_model_file`
            or `vocab_file`; optionally `sp_vocab_file`.
        do_lower_case: bool, whether the vocabulary is for lower-cased text.
        strip_accents: bool, whether the vocabulary is for letters without their marks.
    """

    def __init__(self, model, trained_heads, assets, do_lower_case, strip_accents=True):
        encoder = model.encoder

        def encode(inputs, training=False):
            return _encoder_outputs(encoder, inputs, training)

        super().__init__(encode, HUB_INPUTS, encoder.trainable_variables)
        self.named_variables = name_table.named_variables(model)
        for name in {"masked_lm", "sentence_order"}.difference(trained_heads):
            absent = {id(variable) for variable in getattr(model, name).trainable_variables}
            self.named_variables = {
                n: v for n, v in self.named_variables.items() if id(v) not in absent
            }
        if "masked_lm" in trained_heads:
            names = (*HUB_INPUTS, POSITIONS)
            self.mlm = _with_head(model, model.masked_lm, "mlm_logits", _masked_lm, names)
        if "sentence_order" in trained_heads:
            self.sop = _with_head(model, model.sentence_order, "sop_log_probs", _sentence_order)
        for name, path in assets.items():
            setattr(self, name, tf.saved_model.Asset(path))
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False, name="do_lower_case")
        self.strip_accents = tf.Variable(strip_accents, trainable=False, name="strip_accents")

    @property
    def vocabulary(self):
        """The asset of the vocabulary."""
        return getattr(self, "sp_model_file", None) or self.vocab_file

    def signatures(self):
        """Dict of name -> concrete function: tokens, sop, mlm, tokenization_info."""
        found = {"tokens": _signature(self, HUB_NAMES)}
        if hasattr(self, "sop"):
            found["sop"] = _signature(self.sop, HUB_NAMES, "sop_log_probs")
        if hasattr(self, "mlm"):
            names = HUB_NAMES | {"mlm_positions": POSITIONS}
            found["mlm"] = _signature(self.mlm, names, "mlm_logits")

        def tokenization_info():
            return {
                "vocab_file": tf.identity(self.vocabulary.asset_path),
                "do_lower_case": tf.identity(self.do_lower_case),
            }

        return found | {"tokenization_info": traced(tokenization_info, {})}


def _signature(module, names, *more_outputs):
    """A signature of the original's modules; `names` maps its inputs to those of `module`."""

    def call(**inputs):
        found = module.__call__({names[name]: value for name, value in inputs.items()})
        found = {name: found[name] for name in ("sequence_output", "pooled_output", *more_outputs)}
        if "mlm_logits" in found:  # [B * P, V], as the original gives them
            logits = found["mlm_logits"]
            found["mlm_logits"] = tf.reshape(logits, [-1, logits.shape[-1]])
        return found

    return traced(call, id_specs(names))


def _encoder_outputs(encoder, inputs, training):
    features = {name: inputs[hub_name] for name, hub_name in HUB_NAMES.items()}
    found = encoder(features, training=training)
    names = ("pooled_output", "sequence_output", "encoder_outputs")
    return {"default": found["pooled_output"]} | {name: found[name] for name in names}


def _with_head(model, head, output, compute, names=HUB_INPUTS):
    """The encoder with a head, which adds an output: compute(model, inputs, encoder's outputs)."""

    def call(inputs, training=False):
        found = _encoder_outputs(model.encoder, inputs, training)
        return found | {output: compute(model, inputs, found)}

    return _Callable(call, names, model.encoder.trainable_variables + head.trainable_variables)


def _masked_lm(model, inputs, found):
    table = model.encoder.embedding_table
    return model.masked_lm(found["sequence_output"], inputs[POSITIONS], table)


def _sentence_order(model, inputs, found):
    return tf.nn.log_softmax(model.sentence_order(found["pooled_output"]))


# --- Preprocessing of text -----------------------------------------------------------------------


class Preprocessing(tf.Module):
    """Turns strings into inputs of the encoder, as the Hub's common API for text has it.

    It is called with string [B] and has `tokenize`, `tokenize.get_special_tokens_dict`,
    `bert_pack_inputs` and `tokenize_with_offsets`.

    Args:
        tokenizer: FullTokenizer.
        seq_length: int, length of the output; `bert_pack_inputs` may be given another.

    Raises:
        UserError: `GraphTokenizer` does not support the tokenizer.
    """

    def __init__(self, tokenizer, seq_length=DEFAULT_SEQ_LENGTH):
        super().__init__()
        self._tokenizer = GraphTokenizer(tokenizer)
        self._seq_length = seq_length
        self.tokenize = _Tokenize(self._tokenizer)
        flat, by_words = (
            tf.RaggedTensorSpec([None] * rank, tf.int32, ragged_rank=rank - 1) for rank in (2, 3)
        )
        pairs = [[a, b] for a in (flat, by_words) for b in (flat, by_words)]
        for inputs in [[flat], [by_words], *pairs]:  # a SavedModel holds only traced functions
            self.bert_pack_inputs.get_concrete_function(inputs)
            self.bert_pack_inputs.get_concrete_function(
                inputs, seq_length=tf.TensorSpec([], tf.int32)
            )

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
            seq_length: int32 scalar or int; None for the module's length.

        Returns:
            dict of int32 [B, seq_length].
        """
        if seq_length is None:
            seq_length = self._seq_length
        return pack(inputs, seq_length, self._tokenizer)


class _Tokenize(tf.Module):
    """`Preprocessing.tokenize`: tokenizes text, and names the special ids."""

    def __init__(self, tokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[STRINGS], autograph=False)
    def __call__(self, texts):
        return self._tokenizer.tokenize(texts)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        return {name: tf.constant(id_) for name, id_ in self._tokenizer.special_tokens.items()}


# --- Cards: README.md of modules, made from the templates next to this file ----------------------


def model_card(config, module, signatures, path, special_ids, prefix, card_file=None):
    """Text of the `README.md` of an encoder module.

    Args:
        config: AlbertConfig.
        module: hub.HubModule.
        signatures: iterable of str, their names.
        path: str, the module's future path, for the example.
        special_ids: SpecialIds of the tokenizer, for the example.
        prefix: str, the checkpoint.
        card_file: str or None, as of `cards.card`.
    """
    outputs = (
        ("mlm", "mlm_logits", f"[B, P, {config.vocab_size}], for `{POSITIONS}` int32 [B, P]"),
        ("sop", "sop_log_probs", "[B, 2]: in order, swapped"),
    )
    rows = [f"| `{n}` | adds `{o}` | {text} |\n" for n, o, text in outputs if hasattr(module, n)]
    count = sum(v.shape.num_elements() for v in module.trainable_variables)
    return cards.card(
        "encoder_card.md",
        prefix,
        card_file,
        **dataclasses.asdict(config),
        parameters=f"{count:,}",
        vocabulary=os.path.basename(module.vocabulary.asset_path.numpy().decode()),
        casing="lower-cased" if module.do_lower_case.numpy() else "with its capitals",
        accents="dropped" if module.strip_accents.numpy() else "kept",
        inputs=cards.listed(HUB_INPUTS),
        heads="".join(rows),
        signatures=cards.listed(signatures),
        signature_inputs=cards.listed(FEATURES),
        path=path,
        ids=f"{special_ids.cls}, 5, {special_ids.sep}",
    )


def preprocessing_card(tokenizer, seq_length, path, card_file=None):
    """Text of the `README.md` of a preprocessing module.

    Args:
        tokenizer: FullTokenizer.
        seq_length: int, of the module's output.
        path: str, the module's future path, for the example.
        card_file: str or None, as of `cards.card`.
    """
    return cards.card(
        "preprocessing_card.md",
        card_file=card_file,
        vocabulary=os.path.basename(tokenizer.path),
        casing="lower-cased by it" if tokenizer.do_lower_case else "taken with its capitals",
        accents="dropped" if tokenizer.strip_accents else "kept",
        inputs=cards.listed(HUB_INPUTS),
        seq_length=seq_length,
        note=f"{EQUAL_SPLITS}\n\n" if tokenizer.is_sentencepiece else "",
        path=path,
        length=min(16, seq_length),
    )
