# SPDX-License-Identifier: Apache-2.0
"""Modules for TensorFlow Hub: the encoder, and the preprocessing of text; their `README.md`."""

import os

import tensorflow as tf

from albert_tf.checkpoints import name_table
from albert_tf.publish import cards
from albert_tf.publish.graph_inputs import FEATURES, HUB_INPUTS, HUB_NAMES, POSITIONS, pack
from albert_tf.publish.graph_tokenization import STRINGS, GraphTokenizer
from albert_tf.publish.signatures import id_specs, traced

EQUAL_SPLITS = (
    "Tokens are those that training uses, except where a text has two splits of exactly equal "
    'score, such as "***" in text with capitals that the vocabulary lacks: tensorflow-text may '
    "take the other one (1 of 28,000 lines of English books)."
)


# --- The encoder ---------------------------------------------------------------------------------


# Heads that a module may have: call of the module -> head of heads.PretrainingModel.
HEADS = {"sop": "sentence_order", "mlm": "masked_lm"}


class _Callable(tf.Module):
    """A reusable SavedModel of the Hub: it is called with `training=` and lists its variables.

    Args:
        model: heads.PretrainingModel with its weights.
        head: str, a key of HEADS, or None for only the encoder.
    """

    # The SavedModel interface requires plain lists in place of tf.Module's properties.
    variables = ()
    trainable_variables = ()

    def __init__(self, model, head=None):
        super().__init__()
        self.variables = list(model.encoder.trainable_variables)
        if head:
            self.variables += getattr(model, HEADS[head]).trainable_variables
        self.trainable_variables = list(self.variables)
        self.regularization_losses = []

        def call(inputs, training=False):
            return _outputs(model, head, inputs, training)

        self.__call__ = tf.function(call, autograph=False)
        inputs = id_specs((*HUB_INPUTS, POSITIONS) if head == "mlm" else HUB_INPUTS)
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)


def _outputs(model, head, inputs, training):
    """The outputs of the encoder, and the output of a head."""
    features = {name: inputs[hub_name] for name, hub_name in HUB_NAMES.items()}
    found = model.encoder(features, training=training)
    names = ("pooled_output", "sequence_output", "encoder_outputs")
    found = {"default": found["pooled_output"]} | {name: found[name] for name in names}
    if head == "mlm":
        masked = tf.gather(found["sequence_output"], inputs[POSITIONS], batch_dims=1)
        found["mlm_logits"] = model.masked_lm(masked, model.encoder.embeddings.word)
    if head == "sop":
        found["sop_log_probs"] = tf.nn.log_softmax(model.sentence_order(found["pooled_output"]))
    return found


class HubModule(_Callable):
    """An encoder for TensorFlow Hub, with a call for TF2 and the original's signatures for TF1.

    Called with a dict of int32 [B, T] (`HUB_INPUTS`) and `training=`, it returns `pooled_output`
    and `default` [B, H], `sequence_output` [B, T, H] and the list `encoder_outputs`. `mlm` adds
    `mlm_logits` [B, P, V] for `masked_lm_positions` int32 [B, P], and `sop` adds `sop_log_probs`
    [B, 2]; each exists only if its head was trained.

    Args:
        model: heads.PretrainingModel with its weights.
        trained: collection of str, the keys of HEADS whose heads were trained.
        assets: dict of attribute -> path of a file to include: `config_file`, and `sp_model_file`
            or `vocab_file`; optionally `sp_vocab_file`.
        do_lower_case: bool, whether the vocabulary is for lower-cased text.
        strip_accents: bool, whether the vocabulary is for letters without their marks.
    """

    def __init__(self, model, trained, assets, do_lower_case, strip_accents):
        super().__init__(model)
        named = name_table.named_variables(model)
        for name, head in HEADS.items():
            if name in trained:
                setattr(self, name, _Callable(model, name))
            else:
                absent = name_table.HEAD_NAMES[head]
                named = {n: v for n, v in named.items() if n not in absent}
        self.named_variables = named
        for name, path in assets.items():
            setattr(self, name, tf.saved_model.Asset(path))
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False, name="do_lower_case")
        self.strip_accents = tf.Variable(strip_accents, trainable=False, name="strip_accents")

    def signatures(self):
        """Dict of name -> concrete function: tokens, sop, mlm, tokenization_info."""
        found = {"tokens": _signature(self, HUB_NAMES)}
        if hasattr(self, "sop"):
            found["sop"] = _signature(self.sop, HUB_NAMES)
        if hasattr(self, "mlm"):
            found["mlm"] = _signature(self.mlm, HUB_NAMES | {"mlm_positions": POSITIONS})
        vocabulary = getattr(self, "sp_model_file", None) or self.vocab_file

        def tokenization_info():
            return {
                "vocab_file": tf.identity(vocabulary.asset_path),
                "do_lower_case": tf.identity(self.do_lower_case),
            }

        return found | {"tokenization_info": traced(tokenization_info, {})}


def _signature(module, names):
    """A signature of the original's modules; `names` maps its inputs to those of `module`."""

    def call(**inputs):
        found = module.__call__({names[name]: value for name, value in inputs.items()})
        found = {n: v for n, v in found.items() if n not in ("default", "encoder_outputs")}
        if "mlm_logits" in found:  # [B * P, V], as the original gives them
            logits = found["mlm_logits"]
            found["mlm_logits"] = tf.reshape(logits, [-1, logits.shape[-1]])
        return found

    return traced(call, id_specs(names))


# --- Preprocessing of text -----------------------------------------------------------------------


class _Tokenize(GraphTokenizer):
    """`Preprocessing.tokenize`: tokenizes text, and names the special ids."""

    __call__ = GraphTokenizer.tokenize

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        return {name: tf.constant(id_) for name, id_ in self.special_tokens.items()}


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

    def __init__(self, tokenizer, seq_length):
        super().__init__()
        self.tokenize = _Tokenize(tokenizer)
        self._seq_length = seq_length
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
        return pack([self.tokenize(texts)], self._seq_length, self.tokenize)

    @tf.function(input_signature=[STRINGS], autograph=False)
    def tokenize_with_offsets(self, texts):
        """Ids, starts and ends of tokens: see `GraphTokenizer.tokenize_with_offsets`."""
        return tuple(self.tokenize.tokenize_with_offsets(texts))

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
        return pack(inputs, seq_length, self.tokenize)


# --- Cards: README.md of modules, made from the templates next to this file ----------------------


def model_card(config, module, signatures, path, tokenizer, report, card_file):
    """Text of the `README.md` of an encoder module.

    Args:
        config: AlbertConfig.
        module: hub.HubModule.
        signatures: iterable of str, their names.
        path: str, the module's future path, for the example.
        tokenizer: FullTokenizer.
        report: loading.Report on the checkpoint.
        card_file: str or None, as of `cards.card`.
    """
    outputs = (
        ("mlm", "mlm_logits", f"[B, P, {config.vocab_size}], for `{POSITIONS}` int32 [B, P]"),
        ("sop", "sop_log_probs", "[B, 2]: in order, swapped"),
    )
    rows = [f"| `{n}` | adds `{o}` | {text} |\n" for n, o, text in outputs if hasattr(module, n)]
    special_ids = tokenizer.special_ids(with_mask=False)
    return cards.card(
        "encoder_card.md",
        report.prefix,
        card_file,
        report.unused_weights,
        **cards.model_values(config, module.trainable_variables, tokenizer),
        inputs=cards.listed(HUB_INPUTS),
        heads="".join(rows),
        signatures=cards.listed(signatures),
        signature_inputs=cards.listed(FEATURES),
        path=path,
        ids=f"{special_ids.cls}, 5, {special_ids.sep}",
    )


def preprocessing_card(tokenizer, seq_length, path, card_file):
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
