# SPDX-License-Identifier: Apache-2.0
"""Table of variable names in the original, this project, the Model Garden and transformers.

Checkpoints of this project hold each variable under the name it has in the original release, with
`<name>/adam_m` and `<name>/adam_v` for the moments and `global_step` for the step. Names of other
sources are translated to those of the original when they are read.
"""

import operator
import re
from typing import Any, NamedTuple

GLOBAL_STEP = "global_step"
# Values besides weights, moments and step that a run saves to resume exactly.
RUN_STATE = ("seed", "loss_scale", "loss_scale_steps")
# Moments of our optimizers, and of related projects.
_KNOWN_SLOTS = {"adam_m", "adam_v", "muon_m", "lamb_m", "lamb_v"}


class Row(NamedTuple):
    """Names of one variable; {g} and {j} stand for the parameter group and the inner group."""

    original: str
    path: str  # from the part of the model that holds the variable
    garden: str | None  # in modules that the Model Garden exports, which hold one block
    transformers: str | None


# Kinds of rows. For each variable: the last part of its name in the original and in the Model
# Garden, here, and in transformers.
_ONE = (("", "", ""),)
_DENSE = (("kernel", "kernel", "weight"), ("bias", "bias", "bias"))
_KERNEL = _DENSE[:1]
_NORM = (("beta", "beta", "bias"), ("gamma", "gamma", "weight"))
_OUTPUT = (("output_weights", "weights_", "weight"), ("output_bias", "bias", "bias"))


def _rows(*lines, original="", garden="", transformers=""):
    """Makes rows from (kind, original, path, garden or None, transformers or None).

    The arguments with names are what the names of these columns begin with.
    """
    return [
        Row(
            _joined("/", original, name, leaf),
            _joined(".", "", path, our_leaf),
            _joined("/", garden, garden_name, leaf),
            _joined(".", transformers, their_name, their_leaf),
        )
        for kind, name, path, garden_name, their_name in lines
        for leaf, our_leaf, their_leaf in kind
    ]


def _joined(separator, start, name, leaf):
    return None if name is None else start + separator.join(filter(None, (name, leaf)))


_BLOCK = "bert/encoder/transformer/group_{g}/inner_group_{j}/"
_LAYER = "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}."
_OF_BLOCK = {"original": _BLOCK, "garden": "transformer/", "transformers": _LAYER}

# Part of the model -> its rows, in the original's order of creation.
# fmt: off
_TABLE = {
    "embeddings": _rows(
        (_ONE, "word_embeddings", "embeddings.word",
         "word_embeddings/embeddings", "word_embeddings.weight"),
        (_ONE, "token_type_embeddings", "embeddings.token_type",
         "type_embeddings/embeddings", "token_type_embeddings.weight"),
        (_ONE, "position_embeddings", "embeddings.position",
         "position_embedding/embeddings", "position_embeddings.weight"),
        (_NORM, "LayerNorm", "embeddings.layer_norm", "embeddings/layer_norm", "LayerNorm"),
        original="bert/embeddings/", transformers="albert.embeddings.",
    ),
    "mapping": _rows(
        (_DENSE, "bert/encoder/embedding_hidden_mapping_in", "embedding_hidden_mapping_in",
         "embedding_projection", "albert.encoder.embedding_hidden_mapping_in"),
    ),
    "attention": _rows(
        (_DENSE, "attention_1/self/query", "query", "self_attention/query", "attention.query"),
        (_DENSE, "attention_1/self/key", "key", "self_attention/key", "attention.key"),
        (_DENSE, "attention_1/self/value", "value", "self_attention/value", "attention.value"),
        (_DENSE, "attention_1/output/dense", "output_dense",
         "self_attention/attention_output", "attention.dense"),
        (_NORM, "LayerNorm", "layer_norm", "self_attention_layer_norm", "attention.LayerNorm"),
        **_OF_BLOCK,
    ),
    "ffn": _rows(
        (_DENSE, "ffn_1/intermediate/dense", "intermediate", "intermediate", "ffn"),
        (_DENSE, "ffn_1/intermediate/output/dense", "output_dense", "output", "ffn_output"),
        (_NORM, "LayerNorm_1", "layer_norm", "output_layer_norm", "full_layer_layer_norm"),
        **_OF_BLOCK,
    ),
    "pooler": _rows((_DENSE, "bert/pooler/dense", "pooler", "pooler_transform", "albert.pooler")),
}
_HEADS = {  # parts that are attributes of the model
    "masked_lm": _rows(
        (_DENSE, "transform/dense", "transform", "transform/dense", "dense"),
        (_NORM, "transform/LayerNorm", "layer_norm", "transform/LayerNorm", "LayerNorm"),
        (_ONE, "output_bias", "output_bias", "output_bias/bias", "bias"),
        original="cls/predictions/", garden="cls/predictions/", transformers="predictions.",
    ),
    "sentence_order": _rows(
        (_OUTPUT, "cls/seq_relationship", "", None, "sop_classifier.classifier"),
    ),
    "classifier": _rows((_OUTPUT, "", "", None, "classifier")),
    "squad": _rows((_OUTPUT, "cls/squad", "", None, "qa_outputs")),
    "start_logits": _rows((_DENSE, "start_logits/dense", "", None, None)),
    "end_logits": _rows(
        (_DENSE, "dense_0", "dense_0", None, None),
        (_NORM, "LayerNorm", "layer_norm", None, None),
        (_DENSE, "dense_1", "dense_1", None, None),
        original="end_logits/",
    ),
    "answer_class": _rows(
        (_DENSE, "dense_0", "dense_0", None, None),
        (_KERNEL, "dense_1", "dense_1", None, None),
        original="answer_class/",
    ),
}
# fmt: on
_ALL_ROWS = [row for rows in (*_TABLE.values(), *_HEADS.values()) for row in rows]
_OF_GARDEN = {row.garden: row.original.format(g=0, j=0) for row in _ALL_ROWS if row.garden}
_OF_TRANSFORMERS = {row.transformers: row.original for row in _ALL_ROWS if row.transformers}
_TO_TRANSFORMERS = {original: theirs for theirs, original in _OF_TRANSFORMERS.items()}
HEAD_NAMES = {part: tuple(row.original for row in rows) for part, rows in _HEADS.items()}
OF_HEADS = frozenset(name for names in HEAD_NAMES.values() for name in names)
PRETRAINING_HEADS = ("masked_lm", "sentence_order")
MAPPING_KERNEL = _TABLE["mapping"][0].original
POOLER = tuple(row.original for row in _TABLE["pooler"])
_OF_ENCODER = re.compile(
    r"bert/(embeddings|pooler|encoder/(transformer|embedding_hidden_mapping_in))/"
)
PARTS = HEAD_NAMES | {"pooler": POOLER}  # that a checkpoint may lack


# --- Variables of a model -----------------------------------------------------------------------


def _pick(part, rows, **numbers):
    return {row.original.format(**numbers): operator.attrgetter(row.path)(part) for row in rows}


def named_variables(model: Any) -> dict[str, Any]:
    """Maps the original's names to the variables of a model.

    Args:
        model: AlbertModel, or a model with one as `encoder` and any of the heads in the table.

    Returns:
        dict of original name -> variable, with every trainable variable once.
    """
    encoder = getattr(model, "encoder", model)
    named = _pick(encoder, _TABLE["embeddings"])
    if encoder.embedding_hidden_mapping_in is not None:
        named |= _pick(encoder, _TABLE["mapping"])
    for part, blocks in (("attention", encoder.attention_blocks), ("ffn", encoder.ffn_blocks)):
        for (g, j), block in zip(encoder.config.blocks(part), blocks, strict=True):
            named |= _pick(block, _TABLE[part], g=g, j=j)
    named |= _pick(encoder, _TABLE["pooler"])
    for attribute, rows in _HEADS.items():
        if hasattr(model, attribute):
            named |= _pick(getattr(model, attribute), rows)
    missing = {id(v) for v in model.trainable_variables} - {id(v) for v in named.values()}
    assert not missing, f"{len(missing)} variables of {type(model).__name__} are not in the table"
    return named


def training_variables(named, optimizer):
    """Complete state of a training run by name: variables, moments and step.

    Args:
        named: dict from `named_variables`, in the order with which the optimizer was built.
        optimizer: AdamW, LAMB or Muon, built.

    Returns:
        dict of name -> variable.
    """
    moments = {
        f"{name}/{slot}": value
        for slot in optimizer.slots
        for name, value in zip(named, getattr(optimizer, slot), strict=True)
        if value is not None
    }
    return named | moments | {GLOBAL_STEP: optimizer.iterations}


# --- Kinds of names ---------------------------------------------------------------------------


def is_encoder(name):
    """Whether a name in a file belongs to the encoder; all others belong to heads."""
    return name.startswith(("bert/", "albert."))  # the second in files of transformers


def is_known(name):
    """Whether a name in a file is of a part of ALBERT: the encoder, of any size, or a head."""
    return name in OF_HEADS or bool(_OF_ENCODER.match(name))


def is_weight(name):
    """Whether a name in a file is a weight, not an optimizer's slot or the state of a run."""
    return name not in (GLOBAL_STEP, *RUN_STATE) and not is_slot(name)


def is_slot(name):
    """Whether a name in a file is that of an optimizer's slot."""
    return name.rsplit("/", 1)[-1] in _KNOWN_SLOTS


def is_slot_of_pooler(name):
    """Whether a name in a file is that of an optimizer's slot for the pooler."""
    return is_slot(name) and name.rpartition("/")[0] in POOLER


def in_group0(name):
    """Name of the variable that takes the place of a variable in the first parameter group."""
    return re.sub(r"/group_\d+/", "/group_0/", name)


# --- Names of other libraries -----------------------------------------------------------------


def from_garden(name):
    """Original name of a variable of the Model Garden; unknown names stay as they are."""
    parts = name.split("/")  # a model's name may stand before those of its layers
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((_OF_GARDEN[tail] for tail in tails if tail in _OF_GARDEN), name)


def to_transformers(original):
    """Name of a variable in transformers; None if it has none."""
    return _translated(original, _BLOCK, _TO_TRANSFORMERS)


# Parts of names that PyTorch adds for data parallelism, compilation and recomputation.
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


def without_wrappers(theirs):
    """Name of a variable of transformers without the parts that wrappers of PyTorch add."""
    return ".".join(part for part in theirs.split(".") if part not in _WRAPPERS)


def from_transformers(theirs):
    """Original name of a variable of transformers; None if it has none."""
    return _translated(theirs, _LAYER, _OF_TRANSFORMERS)


def _translated(name, block, table):
    """Translates a name to another column; `block` is the prefix of blocks in its own column."""
    numbered = re.escape(block).replace(r"\{g\}", r"(\d+)").replace(r"\{j\}", r"(\d+)")
    match = re.match(numbered, name)
    if not match:
        return table.get(name)
    other = table.get(block + name[match.end() :])
    return other and other.format(g=match.group(1), j=match.group(2))
