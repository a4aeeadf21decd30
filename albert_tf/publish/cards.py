# SPDX-License-Identifier: Apache-2.0
"""The `README.md` of exported modules, from the templates beside this file."""

import dataclasses
import importlib.resources
import os
import string

from albert_tf.publish.export_signatures import FEATURES, HUB_INPUTS, POSITIONS

EQUAL_SPLITS = (
    "Pieces are those that training uses, but where a text has two splits of exactly equal score, "
    'such as "***" in text with capitals that the vocabulary lacks: tensorflow-text may take the '
    "other one (1 of 28,000 lines of English books)."
)


def model_card(config, module, signatures, path, special_ids):
    """Text of the `README.md` that goes with an encoder module.

    Args:
        config: AlbertConfig.
        module: hub.HubModule.
        signatures: iterable of their names.
        path: str, where the module will lie; for the example.
        special_ids: SpecialIds of the tokenizer; for the example.
    """
    outputs = (
        ("mlm", "mlm_logits", f"[B, P, {config.vocab_size}], for `{POSITIONS}` int32 [B, P]"),
        ("sop", "sop_log_probs", "[B, 2]: in order, swapped"),
    )
    rows = [f"| `{n}` | adds `{o}` | {text} |\n" for n, o, text in outputs if hasattr(module, n)]
    vocabulary = getattr(module, "sp_model_file", None) or module.vocab_file
    count = sum(v.shape.num_elements() for v in module.trainable_variables)
    return _filled(
        "encoder_card.md",
        **dataclasses.asdict(config),
        parameters=f"{count:,}",
        vocabulary=os.path.basename(vocabulary.asset_path.numpy().decode()),
        casing="lower-cased" if module.do_lower_case.numpy() else "with its capitals",
        accents="dropped" if module.strip_accents.numpy() else "kept",
        inputs=_listed(HUB_INPUTS),
        heads="".join(rows),
        signatures=_listed(signatures),
        signature_inputs=_listed(FEATURES),
        path=path,
        ids=f"{special_ids.cls}, 5, {special_ids.sep}",
    )


def preprocessing_card(vocabulary, do_lower_case, strip_accents, seq_length, path):
    """Text of the `README.md` that goes with a preprocessing module.

    Args:
        vocabulary: str, name of the vocabulary's file.
        do_lower_case: bool.
        strip_accents: bool.
        seq_length: int, of the module's output.
        path: str, where the module will lie; for the example.
    """
    return _filled(
        "preprocessing_card.md",
        vocabulary=vocabulary,
        casing="lower-cased by it" if do_lower_case else "taken with its capitals",
        accents="dropped" if strip_accents else "kept",
        inputs=_listed(HUB_INPUTS),
        seq_length=seq_length,
        note="" if vocabulary.endswith(".txt") else f"{EQUAL_SPLITS}\n\n",
        path=path,
        length=min(16, seq_length),
    )


def _filled(template, **values):
    text = importlib.resources.files(__package__).joinpath(template).read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def _listed(names):
    return f"`{'`, `'.join(names)}`"
