# SPDX-License-Identifier: Apache-2.0
"""The encoder as a module for TensorFlow Hub."""

import tensorflow as tf

from albert_tf.checkpoints import name_table
from albert_tf.publish.export_signatures import HUB_INPUTS, HUB_NAMES, POSITIONS, id_specs, traced


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
        inputs = id_specs(names)
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)


class HubModule(_Callable):
    """An encoder as TF Hub takes it, for the callers of both generations.

    Called with a dict of int32 [B, T] (`HUB_INPUTS`) and `training=`, it returns `pooled_output`
    and `default` [B, H], `sequence_output` [B, T, H] and the list `encoder_outputs`. `mlm` and
    `sop` add `mlm_logits` [B, P, V] for `masked_lm_positions` int32 [B, P], and `sop_log_probs`
    [B, 2]; each is there if its head is. Signatures are those of the original's modules (section
    j.1).

    Args:
        model: heads.PretrainingModel with its weights.
        has_masked_lm: bool, whether the masked-LM head was trained.
        has_sentence_order: bool, the same of the sentence-order head.
        assets: dict of attribute -> path of a file to go along: `config_file`, and `sp_model_file`
            or `vocab_file`; perhaps `sp_vocab_file`.
        do_lower_case: bool, whether the vocabulary is for lower-cased text.
        strip_accents: bool, whether it is for letters without their marks.
    """

    def __init__(
        self, model, has_masked_lm, has_sentence_order, assets, do_lower_case, strip_accents=True
    ):
        encoder = model.encoder

        def encode(inputs, training=False):
            return _encoder_outputs(encoder, inputs, training)

        super().__init__(encode, HUB_INPUTS, encoder.trainable_variables)
        trained = {"masked_lm": has_masked_lm, "sentence_order": has_sentence_order}
        absent = [v for name, has in trained.items() if not has for v in _head(model, name)]
        self.named_variables = {
            name: variable
            for name, variable in name_table.named_variables(model).items()
            if not any(variable is other for other in absent)
        }
        if has_masked_lm:
            names = (*HUB_INPUTS, POSITIONS)
            self.mlm = _with_head(model, "masked_lm", "mlm_logits", _masked_lm, names)
        if has_sentence_order:
            self.sop = _with_head(model, "sentence_order", "sop_log_probs", _sentence_order)
        for name, path in assets.items():
            setattr(self, name, tf.saved_model.Asset(path))
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False, name="do_lower_case")
        self.strip_accents = tf.Variable(strip_accents, trainable=False, name="strip_accents")

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
        names = HUB_NAMES | (more_inputs or {})

        def call(**inputs):
            found = function({names[name]: value for name, value in inputs.items()})
            found = {name: found[name] for name in outputs}
            if "mlm_logits" in found:  # [B * P, V], as the original gives them
                logits = found["mlm_logits"]
                found["mlm_logits"] = tf.reshape(logits, [-1, logits.shape[-1]])
            return found

        return traced(call, id_specs(names))

    def _tokenization_info(self):
        asset = getattr(self, "sp_model_file", None) or self.vocab_file

        def tokenization_info():
            return {
                "vocab_file": tf.identity(asset.asset_path),
                "do_lower_case": tf.identity(self.do_lower_case),
            }

        return traced(tokenization_info, {})


def _head(model, name):
    return getattr(model, name).trainable_variables


def _encoder_outputs(encoder, inputs, training):
    features = {name: inputs[hub_name] for name, hub_name in HUB_NAMES.items()}
    found = encoder(features, training=training)
    names = ("pooled_output", "sequence_output", "encoder_outputs")
    return {"default": found["pooled_output"]} | {name: found[name] for name in names}


def _with_head(model, name, output, compute, names=HUB_INPUTS):
    """The encoder with a head, which adds an output: compute(model, inputs, encoder's outputs)."""

    def call(inputs, training=False):
        found = _encoder_outputs(model.encoder, inputs, training)
        return found | {output: compute(model, inputs, found)}

    return _Callable(call, names, model.encoder.trainable_variables + _head(model, name))


def _masked_lm(model, inputs, found):
    table = model.encoder.embedding_table
    return model.masked_lm(found["sequence_output"], inputs[POSITIONS], table)


def _sentence_order(model, inputs, found):
    return tf.nn.log_softmax(model.sentence_order(found["pooled_output"]))
