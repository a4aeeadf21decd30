# SPDX-License-Identifier: Apache-2.0
"""Directories for others to take: SavedModels, modules, released models. Whole or not there."""

import os

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints import name_table
from albert_tf.errors import UserError


def check_export_path(path, flag):
    """Finds out before any work whether a directory can be written at `path`.

    Args:
        path: str, where nothing or an empty directory may be.
        flag: str, name of the flag that gave it.

    Raises:
        UserError: something is there, or it cannot be made.
    """
    if tf.io.gfile.exists(path) and (not tf.io.gfile.isdir(path) or tf.io.gfile.listdir(path)):
        raise UserError(f"--{flag}={path} is not empty: give a new directory")
    files.check_writable(os.path.dirname(path.rstrip("/")) or ".", flag)


def check_fit(report):
    """Raises UserError if a checkpoint holds parts of an encoder for which the model has no place.

    Args:
        report: loading.Report, of a model that is about to be exported.
    """
    left = [n for n in report.unused if name_table.is_encoder(n) and name_table.is_weight(n)]
    if left:
        raise UserError(
            f"{report.prefix} holds variables that the config has no place for, so it belongs to "
            f"another config: {', '.join(left)}"
        )


def save_module(module, path, signatures=None, card=None):
    """Saves a module as a SavedModel, whole or not at all.

    Args:
        module: tf.Module.
        path: str, directory to make.
        signatures: dict of name -> concrete function, or None.
        card: str or None, text of a `README.md` beside it.
    """
    with files.replacing_directory(path) as directory:
        tf.saved_model.save(module, directory, signatures=signatures)
        if card:
            files.write_text(os.path.join(directory, "README.md"), card)


# --- The encoder as a Hub module ---------------------------------------------------------------

INPUTS = ("input_word_ids", "input_mask", "input_type_ids")  # of the Hub's common API
SIGNATURE_INPUTS = ("input_ids", "input_mask", "segment_ids")  # of the original's module
POSITIONS = "masked_lm_positions"


def _ids(name):
    return tf.TensorSpec([None, None], tf.int32, name)


class _Callable(tf.Module):
    """What the Hub's reusable SavedModels are: a call with `training=`, and lists of variables."""

    # tf.Module's properties of these names would collect variables of the parts; a list is asked.
    variables = ()
    trainable_variables = ()

    def __init__(self, function, names, variables):
        super().__init__()
        self.variables = list(variables)
        self.trainable_variables = list(variables)
        self.regularization_losses = []
        self.__call__ = tf.function(function)
        inputs = {name: _ids(name) for name in names}
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)


class HubModule(_Callable):
    """An encoder as TF Hub takes it, for the callers of both generations.

    Called with a dict of int32 [B, T] (`INPUTS`) and `training=`, it returns `pooled_output` and
    `default` [B, H], `sequence_output` [B, T, H] and the list `encoder_outputs`. `mlm` and `sop`
    add `mlm_logits` [B, P, V] for `masked_lm_positions` int32 [B, P], and `sop_log_probs` [B, 2];
    each is there if its head is. Signatures are those of the original's modules (section j.1).

    Args:
        model: heads.PretrainingModel with its weights.
        has_masked_lm: bool, whether the masked-LM head was trained.
        has_sentence_order: bool, the same of the sentence-order head.
        assets: dict of attribute -> path of a file to go along: `config_file`, and `sp_model_file`
            or `vocab_file`; perhaps `sp_vocab_file`.
        do_lower_case: bool, whether the vocabulary is for lower-cased text.
    """

    def __init__(self, model, has_masked_lm, has_sentence_order, assets, do_lower_case):
        encoder = model.encoder

        def encode(inputs, training=False):
            return _encoder_outputs(encoder, inputs, training)

        super().__init__(encode, INPUTS, encoder.trainable_variables)
        heads_ = {
            "masked_lm": has_masked_lm,
            "sentence_order": has_sentence_order,
        }
        absent = [v for name, has in heads_.items() if not has for v in _head(model, name)]
        self.named_variables = {
            name: variable
            for name, variable in name_table.named_variables(model).items()
            if not any(variable is other for other in absent)
        }
        if has_masked_lm:
            self.mlm = _masked_lm(model)
        if has_sentence_order:
            self.sop = _sentence_order(model)
        for name, path in assets.items():
            setattr(self, name, tf.saved_model.Asset(path))
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False, name="do_lower_case")

    def signatures(self):
        """Dict of name -> concrete function: tokens, sop, mlm, tokenization_info."""
        found = {"tokens": self._signature(self.__call__, ("sequence_output", "pooled_output"))}
        if hasattr(self, "sop"):
            outputs = ("sequence_output", "pooled_output", "sop_log_probs")
            found["sop"] = self._signature(self.sop.__call__, outputs)
        if hasattr(self, "mlm"):
            outputs = ("sequence_output", "pooled_output", "mlm_logits")
            found["mlm"] = self._signature(self.mlm.__call__, outputs, {"mlm_positions": POSITIONS})
        found["tokenization_info"] = self._tokenization_info()
        return found

    @staticmethod
    def _signature(function, outputs, more_inputs=None):
        names = dict(zip(SIGNATURE_INPUTS, INPUTS, strict=True)) | (more_inputs or {})

        def call(**inputs):
            found = function({names[name]: value for name, value in inputs.items()})
            found = {name: found[name] for name in outputs}
            if "mlm_logits" in found:  # [B * P, V], as the original gives them
                logits = found["mlm_logits"]
                found["mlm_logits"] = tf.reshape(logits, [-1, logits.shape[-1]])
            return found

        return tf.function(call).get_concrete_function(**{name: _ids(name) for name in names})

    def _tokenization_info(self):
        asset = getattr(self, "sp_model_file", None) or self.vocab_file

        @tf.function(input_signature=[])
        def tokenization_info():
            return {
                "vocab_file": tf.identity(asset.asset_path),
                "do_lower_case": tf.identity(self.do_lower_case),
            }

        return tokenization_info.get_concrete_function()


def _head(model, name):
    return getattr(model, name).trainable_variables


def _encoder_outputs(encoder, inputs, training):
    words, mask, types = (inputs[name] for name in INPUTS)
    found = encoder(words, input_mask=mask, token_type_ids=types, training=training)
    return {
        "pooled_output": found["pooled_output"],
        "default": found["pooled_output"],
        "sequence_output": found["sequence_output"],
        "encoder_outputs": found["encoder_outputs"],
    }


def _masked_lm(model):
    def call(inputs, training=False):
        found = _encoder_outputs(model.encoder, inputs, training)
        logits = model.masked_lm(
            found["sequence_output"], inputs[POSITIONS], model.encoder.embedding_table
        )
        return found | {"mlm_logits": logits}

    variables = model.encoder.trainable_variables + _head(model, "masked_lm")
    return _Callable(call, (*INPUTS, POSITIONS), variables)


def _sentence_order(model):
    def call(inputs, training=False):
        found = _encoder_outputs(model.encoder, inputs, training)
        logits = model.sentence_order(found["pooled_output"])
        return found | {"sop_log_probs": tf.nn.log_softmax(logits)}

    variables = model.encoder.trainable_variables + _head(model, "sentence_order")
    return _Callable(call, INPUTS, variables)


# --- The card ------------------------------------------------------------------------------------

MODEL_EXAMPLE = """\
import tensorflow as tf, tensorflow_hub as hub
module = hub.load("{path}")
ids = tf.constant([[{ids}]])
inputs = {{"input_word_ids": ids, "input_mask": tf.ones_like(ids), "input_type_ids": 0 * ids}}
print(module(inputs)["pooled_output"].shape)  # (1, {hidden})"""

EQUAL_SPLITS = (
    "Pieces are those that training uses, but where a text has two splits of exactly equal score, "
    'such as "***" in text with capitals that the vocabulary lacks: tensorflow-text may take the '
    "other one (1 of 28,000 lines of English books)."
)
PREPROCESSING_EXAMPLE = """\
import tensorflow as tf, tensorflow_hub as hub, tensorflow_text
module = hub.load("{path}")
pieces = [module.tokenize(tf.constant([text])) for text in ("A question?", "An answer.")]
inputs = module.bert_pack_inputs(pieces, seq_length=tf.constant({length}))
print(inputs["input_word_ids"].shape)  # (1, {length})"""


def model_card(config, module, signatures, path, special_ids):
    """Text of the `README.md` that goes with an encoder module.

    Args:
        config: AlbertConfig.
        module: HubModule.
        signatures: iterable of their names.
        path: str, where the module will lie; for the example.
        special_ids: SpecialIds of the tokenizer; for the example.
    """
    count = sum(v.shape.num_elements() for v in module.trainable_variables)
    example = MODEL_EXAMPLE.format(
        path=path, ids=f"{special_ids.cls}, 5, {special_ids.sep}", hidden=config.hidden_size
    )
    parts = [
        f"| `{name}` | adds `{output}` | {text} |"
        for name, output, text in (
            ("mlm", "mlm_logits", f"[B, P, {config.vocab_size}], for `{POSITIONS}` int32 [B, P]"),
            ("sop", "sop_log_probs", "[B, 2]: in order, swapped"),
        )
        if hasattr(module, name)
    ]
    vocabulary = getattr(module, "sp_model_file", None) or module.vocab_file
    name = os.path.basename(vocabulary.asset_path.numpy().decode())
    return "\n".join(
        [
            "# ALBERT encoder",
            "",
            "A TensorFlow 2 SavedModel made with albert_tf (Lan et al., ICLR 2020).",
            "",
            "| | |",
            "|---|---|",
            f"| parameters of the encoder | {count:,} |",
            f"| embedding E, hidden H | {config.embedding_size}, {config.hidden_size} |",
            f"| layers L, heads N | {config.num_hidden_layers}, {config.num_attention_heads} |",
            f"| parameters shared | {config.parameter_sharing}; {config.num_hidden_groups} "
            f"group(s), {config.inner_group_num} block(s) in a layer |",
            f"| longest sequence | {config.max_position_embeddings} |",
            f"| vocabulary V | {config.vocab_size}, `assets/{name}` |",
            f"| text | {'lower-cased' if module.do_lower_case.numpy() else 'with its capitals'} |",
            "",
            f"Inputs: a dict of `{'`, `'.join(INPUTS)}`, int32 [B, T]; batch and length are free.",
            "`training=True` turns dropout on.",
            "",
            "| | returns | shape |",
            "|---|---|---|",
            f"| the module | `pooled_output`, `default` | [B, {config.hidden_size}] |",
            f"| | `sequence_output`; the list `encoder_outputs` | [B, T, {config.hidden_size}] |",
            *parts,
            "",
            f"Signatures: `{'`, `'.join(signatures)}`, with the names of the original's",
            f"modules: `{'`, `'.join(SIGNATURE_INPUTS)}` and, for `mlm`, `mlm_positions`.",
            "",
            "```python",
            example,
            "```",
            "",
        ]
    )


def preprocessing_card(vocabulary, do_lower_case, seq_length, path):
    """Text of the `README.md` that goes with a preprocessing module.

    Args:
        vocabulary: str, name of the vocabulary's file.
        do_lower_case: bool.
        seq_length: int, of the module's output.
        path: str, where the module will lie; for the example.
    """
    return "\n".join(
        [
            "# Text to inputs of an ALBERT encoder",
            "",
            f"Made of `{vocabulary}`, for text that is "
            f"{'lower-cased by it' if do_lower_case else 'taken with its capitals'}.",
            "",
            f"Called with string [B] it returns `{'`, `'.join(INPUTS)}`, int32 [B, {seq_length}].",
            "`tokenize` gives the pieces alone, `bert_pack_inputs` packs one or two segments to",
            "any length, `tokenize.get_special_tokens_dict()` names the special ids. Import",
            "`tensorflow_text` before loading.",
            "",
            *([] if vocabulary.endswith(".txt") else [EQUAL_SPLITS, ""]),
            "```python",
            PREPROCESSING_EXAMPLE.format(path=path, length=min(16, seq_length)),
            "```",
            "",
        ]
    )
