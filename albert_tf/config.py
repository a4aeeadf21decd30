# SPDX-License-Identifier: Apache-2.0
"""The configuration of an ALBERT model, read from and written to the original's JSON format."""

import dataclasses
import difflib
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from albert_tf.errors import CalledElsewhere, UserError, about, check_choice, parse_json

CONFIG_FILE = "albert_config.json"
LABELS_FILE = "labels.txt"  # next to it in an export: the names of the classes, one per line
PARAMETER_SHARING = ("all", "attention", "ffn", "none")
ACTIVATIONS = ("gelu", "relu", "tanh", "linear", "")

# The limits are far above any real model: they catch a wrong number before memory runs out.
_LARGEST_STDDEV = 1000
_MOST_BLOCKS = 1000  # num_hidden_layers x inner_group_num
_MOST_PARAMETERS = 10**11  # 400 GB
# Keys in config files of the original and related projects. Their code does not read them either.
_KNOWN_UNUSED = {"net_structure_type", "gap_size", "num_memory_blocks", "layers_to_keep"}
_SIMILAR = 0.85  # a similarity above this is probably a misspelling
_LEAST_USED = 0.9  # of the embeddings; some models round their number up
_PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def is_of_transformers(values):
    """Whether a parsed config is one of the transformers library.

    Its early versions wrote no `model_type`, but the original has no "gelu_new" either.
    """
    if not isinstance(values, dict):
        return False
    return "model_type" in values or values.get("hidden_act") == "gelu_new"


def _is_number(value, kind=int | float):
    return isinstance(value, kind) and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class AlbertConfig:
    """Architecture of an ALBERT encoder (Lan et al., ICLR 2020; sizes in Table 1).

    The defaults are the original's, so a JSON file without a key has the same meaning as there.

    Raises:
        UserError: a value is invalid; the message names the key, the value and the remedy.
    """

    vocab_size: int  # V, section 4.1: 30,000 SentencePiece pieces
    embedding_size: int = 128  # E, section 3.1, factorised embedding: V x E + E x H, not V x H
    hidden_size: int = 4096  # H, Table 1 (xxlarge)
    num_hidden_layers: int = 12  # L, Table 1
    num_hidden_groups: int = 1  # G: layers of one group share their parameters, section 3.1
    num_attention_heads: int = 64  # N, appendix A.1: H / 64
    intermediate_size: int = 16384  # I, section 3.1: 4 H
    inner_group_num: int = 1  # blocks inside one layer, each with its own parameters
    down_scale_factor: int = 1  # unused; kept because every released file has it
    hidden_act: str = "gelu"  # section 3.1; tanh approximation. Chinese models use relu
    hidden_dropout_prob: float = 0.0  # section 4.9: no dropout in version 2
    attention_probs_dropout_prob: float = 0.0  # section 4.9
    max_position_embeddings: int = 512  # longest sequence, section 4.1
    type_vocab_size: int = 2  # segments A and B
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    parameter_sharing: str = "all"  # Table 4: all, attention, ffn, none
    from_pretrained = CalledElsewhere("AlbertConfig.from_json_file(path)")  # no field
    unknown_keys: Mapping[str, object] = dataclasses.field(default_factory=dict, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "unknown_keys", dict(self.unknown_keys))
        sizes = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.type is int}
        del sizes["down_scale_factor"]
        for key, value in sizes.items():
            if not _is_number(value, int) or value < 1:
                raise UserError(f"{key} must be a whole number of at least 1. Received: {value!r}")
        for key in _PROBABILITIES:
            value = getattr(self, key)
            if value is None:  # in the original, null means "no dropout"
                object.__setattr__(self, key, 0.0)
            elif not _is_number(value) or not 0 <= value < 1:
                raise UserError(f"{key} must be at least 0 and below 1. Received: {value!r}")
        stddev = self.initializer_range
        if not _is_number(stddev) or not 0 < stddev <= _LARGEST_STDDEV:
            raise UserError(
                f"initializer_range must be above 0 and at most {_LARGEST_STDDEV}. "
                f"Received: {stddev!r}"
            )
        hidden, heads = self.hidden_size, self.num_attention_heads
        if hidden % heads:
            raise UserError(f"hidden_size={hidden} is no multiple of num_attention_heads={heads}")
        layers, groups = self.num_hidden_layers, self.num_hidden_groups
        if groups > layers:
            raise UserError(f"num_hidden_groups={groups} exceeds num_hidden_layers={layers}")
        blocks = layers * self.inner_group_num
        too_deep = blocks > _MOST_BLOCKS  # `num_parameters` goes through the layers one by one
        if too_deep or self.num_parameters > _MOST_PARAMETERS:
            size = f"{blocks} blocks" if too_deep else f"{self.num_parameters:,} parameters"
            received = ", ".join(f"{key}={value}" for key, value in sizes.items())
            raise UserError(
                f"at most {_MOST_BLOCKS} blocks and {_MOST_PARAMETERS:,} parameters are possible. "
                f"Received: {size}, with {received}"
            )
        if self.hidden_act is None:  # in the original, null means "no activation"
            object.__setattr__(self, "hidden_act", "")
        if not isinstance(self.hidden_act, str) or self.hidden_act.lower() not in ACTIVATIONS:
            known = ", ".join(filter(None, ACTIVATIONS))
            raise UserError(f"hidden_act must be one of {known}. Received: {self.hidden_act!r}")
        check_choice("parameter_sharing", self.parameter_sharing, PARAMETER_SHARING)

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the encoder, without heads (as counted in Table 1)."""
        embedding, hidden = self.embedding_size, self.hidden_size
        rows = self.vocab_size + self.type_vocab_size + self.max_position_embeddings
        embeddings = (rows + 2) * embedding
        mapping = (embedding + 1) * hidden if embedding != hidden else 0
        square = (hidden + 1) * hidden  # kernel and bias
        attention = 4 * square + 2 * hidden
        ffn = (2 * hidden + 1) * self.intermediate_size + 3 * hidden
        blocks = attention * len(self.blocks("attention")) + ffn * len(self.blocks("ffn"))
        return embeddings + mapping + blocks + square

    def check_vocabulary(self, tokenizer: Any) -> None:
        """Prints a warning if a tokenizer has far fewer pieces than the model has embeddings.

        Args:
            tokenizer: FullTokenizer.

        Raises:
            UserError: it has pieces for which the model has no embedding.
        """
        sizes = f"{tokenizer.vocab_size} pieces, and the config has vocab_size={self.vocab_size}"
        if tokenizer.vocab_size > self.vocab_size:
            raise UserError(f"{tokenizer.path} has {sizes}: one belongs to another model")
        if tokenizer.vocab_size < _LEAST_USED * self.vocab_size:
            print(f"Warning: {tokenizer.path} has {sizes}: one may belong to another model.")

    @property
    def head_size(self) -> int:
        """Number of features of one attention head: D = H / N."""
        return self.hidden_size // self.num_attention_heads

    def group_of_layer(self, layer: int) -> int:
        """Parameter group of a layer, computed in floating point as in the original."""
        return int(layer / self.num_hidden_layers * self.num_hidden_groups)

    def groups(self, part: str) -> list[int]:
        """The group whose parameters each layer uses (Table 4) in a part, "attention" or "ffn"."""
        layers = range(self.num_hidden_layers)
        is_shared = self.parameter_sharing in ("all", part)
        return [self.group_of_layer(layer) if is_shared else layer for layer in layers]

    def blocks(self, part: str) -> list[tuple[int, int]]:
        """The sets of parameters of a part, "attention" or "ffn": each a group and a number in it.

        In floating point, few numbers of layers leave a group without a layer (the 15 of 22 groups
        of 22 layers). The original has no variables of such a group.
        """
        return [*itertools.product(dict.fromkeys(self.groups(part)), range(self.inner_group_num))]

    def in_groups(self) -> "AlbertConfig":
        """The same model without `parameter_sharing`, which the original does not know.

        Raises:
            UserError: there is none.
        """
        if self.parameter_sharing == "all":
            return self
        layers = range(self.num_hidden_layers)
        same = dataclasses.replace(self, parameter_sharing="all", num_hidden_groups=len(layers))
        if self.parameter_sharing != "none" or [*map(same.group_of_layer, layers)] != [*layers]:
            raise UserError(
                "the original has no groups of layers for parameter_sharing="
                f"{self.parameter_sharing!r} with {len(layers)} layers"
            )
        return same

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "AlbertConfig":
        """Makes a config from a dict. Unknown keys are logged, and kept for writing.

        Args:
            values: dict, the parsed JSON object.

        Raises:
            UserError: vocab_size is missing, or a value is invalid.
        """
        names = {f.name for f in dataclasses.fields(cls)} - {"unknown_keys"}
        known = {key: value for key, value in values.items() if key in names}
        unknown = {key: value for key, value in values.items() if key not in names}
        # With a misspelt key, the default would be used silently.
        for key in sorted(unknown.keys() - _KNOWN_UNUSED):
            if meant := difflib.get_close_matches(key, names - known.keys(), 1, cutoff=_SIMILAR):
                raise UserError(f"{key} is unknown: did you mean {meant[0]}? Correct or remove it")
        if unknown:
            level = logging.INFO if unknown.keys() <= _KNOWN_UNUSED else logging.WARNING
            logging.log(level, "Config keys kept but not used: %s", ", ".join(sorted(unknown)))
        if "vocab_size" not in known:
            raise UserError("vocab_size is missing: set it to the number of pieces")
        return cls(**known, unknown_keys=unknown)

    @classmethod
    def from_json_file(cls, path: str | os.PathLike[str]) -> "AlbertConfig":
        """Reads `albert_config.json`.

        Args:
            path: str, file name or URL that tf.io.gfile can open.

        Raises:
            UserError: the file is missing, is not a JSON object, or has an invalid value.
        """
        from albert_tf import files  # imported here because it imports TensorFlow, which is slow

        return cls.from_json(files.read_bytes(path), path)

    @classmethod
    def from_json(cls, content: str | bytes, path: str | os.PathLike[str]) -> "AlbertConfig":
        """Makes a config from the content of `albert_config.json`.

        Args:
            content: bytes.
            path: str, for error messages.

        Raises:
            UserError: the content is not a JSON object, or has an invalid value.
        """
        values = parse_json(content, path)
        if not isinstance(values, dict):
            raise UserError(f"{path} must hold one JSON object. Received: {type(values).__name__}")
        with about(path):
            return cls.from_dict(values)

    def to_dict(self) -> dict[str, Any]:
        """Dict of all keys, including the unknown ones."""
        values = dataclasses.asdict(self)
        unknown = values.pop("unknown_keys")
        if self.parameter_sharing == "all":
            del values["parameter_sharing"]  # the default; released files lack the key
        return unknown | values

    def to_json_string(self) -> str:
        """JSON in the original's layout: indent 2, keys sorted, newline at the end."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"
