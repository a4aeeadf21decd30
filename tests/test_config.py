# SPDX-License-Identifier: Apache-2.0
"""The config: defaults, JSON both ways, and what each mistake is answered with."""

import copy
import dataclasses
import itertools
import json
import logging
import math

import pytest

from albert_tf.config import AlbertConfig
from tests.errors import refuses

DEFAULTS = {  # of the original; vocab_size has none
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "inner_group_num": 1,
    "down_scale_factor": 1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0,
    "attention_probs_dropout_prob": 0,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
}
UNUSED = {"gap_size": 0, "layers_to_keep": [], "net_structure_type": 0, "num_memory_blocks": 0}
XXLARGE = DEFAULTS | UNUSED | {"vocab_size": 30000}  # the `albert_config.json` of version 2
BASE = XXLARGE | {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
BASE_1 = BASE | {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}  # of version 1
RELEASED = {
    "xxlarge": XXLARGE,
    "base of version 1": BASE_1,
    "Chinese": BASE | {"hidden_act": "relu", "vocab_size": 21128},
}


# --- Values -------------------------------------------------------------------------------------


def test_defaults_are_the_originals():
    config = AlbertConfig.from_dict({"vocab_size": 300})
    assert config.to_dict() == {"vocab_size": 300, **DEFAULTS}
    assert config.parameter_sharing == "all"


def test_every_known_key_is_read():
    values = {
        "vocab_size": 7, "embedding_size": 5, "hidden_size": 12, "num_hidden_layers": 6,
        "num_hidden_groups": 3, "num_attention_heads": 4, "intermediate_size": 9,
        "inner_group_num": 2, "down_scale_factor": 8, "hidden_act": "tanh",
        "hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.4,
        "max_position_embeddings": 10, "type_vocab_size": 11, "initializer_range": 0.5,
        "parameter_sharing": "ffn",
    }  # fmt: skip
    assert set(values) == {"vocab_size", "parameter_sharing", *DEFAULTS}
    config = AlbertConfig.from_dict(values)
    assert {key: getattr(config, key) for key in values} == values
    assert config.to_dict() == values
    assert config.head_size == 3


def test_null_dropout_is_none_at_all():
    config = AlbertConfig(7, hidden_dropout_prob=None, attention_probs_dropout_prob=None)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0


def test_a_config_cannot_be_changed_but_copied():
    config = AlbertConfig.from_dict({**BASE_1, "other": [1]})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 1
    assert copy.deepcopy(config) == config
    assert copy.deepcopy(config).to_dict() == config.to_dict()
    assert hash(config) == hash(copy.deepcopy(config))
    without = dataclasses.replace(config, hidden_dropout_prob=0.0)
    assert without.to_dict() == {**config.to_dict(), "hidden_dropout_prob": 0}
    assert config.hidden_dropout_prob == 0.1


# --- Groups -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layers, groups, expected",
    [
        (3, 2, [0, 0, 1]),
        (5, 3, [0, 0, 1, 1, 2]),
        (4, 4, [0, 1, 2, 3]),
        (12, 1, [0] * 12),
        # 15 / 22 * 22 is 14.999... : the first layer where floats and integers part.
        (22, 22, [*range(15), 14, *range(16, 22)]),
    ],
)
def test_group_of_layer_is_computed_in_floating_point(layers, groups, expected):
    config = AlbertConfig(7, num_hidden_layers=layers, num_hidden_groups=groups)
    assert [config.group_of_layer(layer) for layer in range(layers)] == expected


# --- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", RELEASED.values(), ids=RELEASED)
def test_released_configs_come_back_as_they_were(values, tmp_path):
    path = tmp_path / "albert_config.json"
    path.write_text(json.dumps(values))
    config = AlbertConfig.from_json_file(str(path))
    assert config.to_dict() == values
    assert json.loads(config.to_json_string()) == values
    assert config.head_size == values["hidden_size"] // values["num_attention_heads"]
    path.write_text(config.to_json_string())
    again = AlbertConfig.from_json_file(str(path))
    assert again == config
    assert again.to_json_string() == config.to_json_string()


def test_layout_of_the_json():
    config = AlbertConfig.from_dict({"vocab_size": 7, "zebra": 1, "hidden_size": 64})
    text = config.to_json_string()
    assert text.startswith('{\n  "attention_probs_dropout_prob": 0.0,\n  "down_scale_factor": 1,\n')
    assert text.endswith('  "vocab_size": 7,\n  "zebra": 1\n}\n')


@pytest.mark.parametrize(
    "values, logged",
    [
        ({}, None),
        ({"zebra": 64, "nested": {"a": [1, None]}}, ("nested, zebra", logging.WARNING)),
        (UNUSED, (", ".join(UNUSED), logging.INFO)),  # of the original itself
    ],
)
def test_unknown_keys_are_kept_and_named(values, logged, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("absl"), "propagate", True)
    caplog.set_level(logging.INFO, "absl")
    values = {"vocab_size": 7, **values}
    assert AlbertConfig.from_dict(values).to_dict() == {**values, **DEFAULTS}
    found = [(record.getMessage().partition(": ")[2], record.levelno) for record in caplog.records]
    assert found == ([logged] if logged else [])


def test_a_key_like_one_that_is_there_belongs_to_somebody_else():
    both = {"vocab_size": 7, "hiden_size": 64, "hidden_size": 64, "num_attention_heads": 1}
    assert AlbertConfig.from_dict(both).unknown_keys == {"hiden_size": 64}


# --- Mistakes -----------------------------------------------------------------------------------

WHOLE_NUMBERS = [
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups",
    "num_attention_heads", "intermediate_size", "inner_group_num", "max_position_embeddings",
    "type_vocab_size",
]  # fmt: skip


PROBABILITIES = ["hidden_dropout_prob", "attention_probs_dropout_prob"]


@pytest.mark.parametrize(
    "keys, values, named",
    [
        (WHOLE_NUMBERS, [0, -1, 1.5, "12", None, True], "1 ... {!r}"),
        (WHOLE_NUMBERS, [10**9, 10**30], "{}"),  # beyond any model
        (PROBABILITIES, [-0.1, 1, 1.5, "0.1", True, math.nan], "0 ... 1"),
        (["initializer_range"], [0, -0.02, None, "1", True, math.nan, math.inf, 10**30], "0"),
    ],
)
def test_numbers_out_of_range_are_refused(keys, values, named):
    for key, value in itertools.product(keys, values):
        with refuses(f"{key} ... {named.format(value)}"):
            AlbertConfig.from_dict({"vocab_size": 7, key: value})


@pytest.mark.parametrize(
    "values, message",
    [
        ({"num_hidden_layers": 1001}, "num_hidden_layers ... 1 ... 1000 ... 1001"),
        ({"num_hidden_layers": 100, "inner_group_num": 11},
         "num_hidden_layers=100 ... inner_group_num=11 ... 1100 ... 1000"),
        ({"hidden_size": 10**6, "num_attention_heads": 100, "intermediate_size": 4 * 10**6},
         "13,000,143,066,944 ... 100,000,000,000 ... vocab_size=7 ... embedding_size=128 ... "
         "hidden_size=1000000 ... intermediate_size=4000000 ... max_position_embeddings=512"),
        ({"hidden_size": 30, "num_attention_heads": 4}, "hidden_size=30 ... num_attention_heads=4"),
        ({"num_hidden_layers": 2, "num_hidden_groups": 3},
         "num_hidden_groups ... num_hidden_layers ... 3 ... 2"),
        ({"hidden_act": "swish"}, "hidden_act ... gelu, relu, tanh, linear ... 'swish'"),
        ({"hidden_act": 1}, "hidden_act ... gelu, relu, tanh, linear ... 1"),
        ({"parameter_sharing": "x"}, "parameter_sharing ... all, attention, ffn, none ... 'x'"),
        ({"hiden_size": 64}, "hiden_size ... hidden_size"),
    ],
)  # fmt: skip
def test_what_makes_no_model_is_refused(values, message):
    with refuses(message):
        AlbertConfig.from_dict({"vocab_size": 7, **values})


def test_large_models_pass():
    bert = {"embedding_size": 4096, "parameter_sharing": "none"}  # xxlarge without sharing
    config = AlbertConfig.from_dict({**XXLARGE, **bert})
    assert 2.4e9 < config.num_parameters < 2.6e9
    sizes = {"embedding_size": 5120, "hidden_size": 5120, "intermediate_size": 20480}
    more = {"num_attention_heads": 40, "num_hidden_layers": 48, "parameter_sharing": "none"}
    assert 2e10 < AlbertConfig(vocab_size=10**6, **sizes, **more).num_parameters < 3e10


@pytest.mark.parametrize("name", ["gelu", "RELU", "Tanh", "linear", ""])
def test_activations_in_any_case(name):
    assert AlbertConfig(7, hidden_act=name).hidden_act == name


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"hidden_size": 64}', "{path} ... vocab_size"),
        (b'{"vocab_size": 0}', "{path} ... vocab_size ... 1"),
        (b"{'vocab_size': 7}", "{path} ... JSON"),
        (b"[7]", "{path} ... JSON ... list"),
        (None, "{path}"),
    ],
)
def test_a_bad_file_is_named(content, message, tmp_path):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    for bad in (path,) if content is not None else (path, tmp_path):
        with refuses(message.format(path=bad)):
            AlbertConfig.from_json_file(str(bad))
