# SPDX-License-Identifier: Apache-2.0
"""The config: defaults, JSON both ways, and what each mistake is answered with."""

import copy
import dataclasses
import json
import logging

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
SIZES = {  # L, H, I, N; dropout of version 1
    "base": (12, 768, 3072, 12, 0.1),
    "large": (24, 1024, 4096, 16, 0.1),
    "xlarge": (24, 2048, 8192, 16, 0.1),
    "xxlarge": (12, 4096, 16384, 64, 0),
}


def released_config(size, release):
    """What stands in the `albert_config.json` of a released archive."""
    layers, hidden, intermediate, heads, dropout = SIZES[size]
    dropout = dropout if release == "v1" else 0
    return {
        **DEFAULTS,
        **UNUSED,
        "attention_probs_dropout_prob": dropout,
        "hidden_act": "relu" if release == "zh" else "gelu",
        "hidden_dropout_prob": dropout,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "vocab_size": 21128 if release == "zh" else 30000,
    }


@pytest.fixture
def json_file(tmp_path):
    """Writes a file from a dict or from text, and returns its path."""

    def write(content):
        path = tmp_path / "albert_config.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def log(caplog):
    """What is logged, from INFO on."""
    logger = logging.getLogger("absl")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = True
    yield caplog
    logger.setLevel(level)
    logger.propagate = propagate


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
    config = AlbertConfig.from_dict({**released_config("base", "v1"), "other": [1]})
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


@pytest.mark.parametrize("release", ["v1", "v2", "zh"])
@pytest.mark.parametrize("size", SIZES)
def test_released_configs_come_back_as_they_were(size, release, json_file):
    values = released_config(size, release)
    config = AlbertConfig.from_json_file(json_file(values))
    assert config.to_dict() == values
    assert json.loads(config.to_json_string()) == values
    assert config.head_size == values["hidden_size"] // values["num_attention_heads"]
    again = AlbertConfig.from_json_file(json_file(config.to_json_string()))
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
def test_unknown_keys_are_kept_and_named(values, logged, log):
    values = {"vocab_size": 7, **values}
    assert AlbertConfig.from_dict(values).to_dict() == {**values, **DEFAULTS}
    found = [(record.getMessage().partition(": ")[2], record.levelno) for record in log.records]
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


@pytest.mark.parametrize("value", [0, -1, 1.5, "12", None, True])
@pytest.mark.parametrize("key", WHOLE_NUMBERS)
def test_sizes_must_be_whole_and_positive(key, value):
    with refuses(f"{key} ... 1 ... {value!r}"):
        AlbertConfig.from_dict({"vocab_size": 7, key: value})


@pytest.mark.parametrize("value", [10**9, 10**12, 10**30])
@pytest.mark.parametrize("key", WHOLE_NUMBERS)
def test_sizes_beyond_any_model_are_refused(key, value):
    with refuses(f"{key} ... {value}"):
        AlbertConfig.from_dict({"vocab_size": 7, key: value})


@pytest.mark.parametrize(
    "values, message",
    [
        ({"num_hidden_layers": 1001},
         "num_hidden_layers ... 1 ... 1000 ... 1001"),
        ({"num_hidden_layers": 100, "inner_group_num": 11},
         "num_hidden_layers=100 ... inner_group_num=11 ... 1100 ... 1000"),
        ({"hidden_size": 10**6, "num_attention_heads": 100, "intermediate_size": 4 * 10**6},
         "13,000,143,066,944 ... 100,000,000,000 ... vocab_size=7 ... embedding_size=128 ... "
         "hidden_size=1000000 ... intermediate_size=4000000 ... max_position_embeddings=512"),
        ({"hidden_size": 30, "num_attention_heads": 4},
         "hidden_size=30 ... num_attention_heads=4"),
        ({"num_hidden_layers": 2, "num_hidden_groups": 3},
         "num_hidden_groups ... num_hidden_layers ... 3 ... 2"),
        ({"hidden_act": "swish"},
         "hidden_act ... gelu, relu, tanh, linear ... 'swish'"),
        ({"hidden_act": 1},
         "hidden_act ... gelu, relu, tanh, linear ... 1"),
        ({"parameter_sharing": "some"},
         "parameter_sharing ... all, attention, ffn, none ... 'some'"),
        ({"hiden_size": 64},
         "hiden_size ... hidden_size"),
        ({"num_hidden_layer": 4},
         "num_hidden_layer ... num_hidden_layers"),
    ],
)  # fmt: skip
def test_what_makes_no_model_is_refused(values, message):
    with refuses(message):
        AlbertConfig.from_dict({"vocab_size": 7, **values})


def test_large_models_pass():
    bert = {"embedding_size": 4096, "parameter_sharing": "none"}  # xxlarge without sharing
    config = AlbertConfig.from_dict({**released_config("xxlarge", "v2"), **bert})
    assert 2.4e9 < config.num_parameters < 2.6e9
    sizes = {"embedding_size": 5120, "hidden_size": 5120, "intermediate_size": 20480}
    more = {"num_attention_heads": 40, "num_hidden_layers": 48, "parameter_sharing": "none"}
    assert 2e10 < AlbertConfig(vocab_size=10**6, **sizes, **more).num_parameters < 3e10


@pytest.mark.parametrize("value", [-0.1, 1, 1.5, "0.1", True, float("nan")])
@pytest.mark.parametrize("key", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_dropout_must_be_a_probability(key, value):
    with refuses(f"{key} ... 0 ... 1"):
        AlbertConfig.from_dict({"vocab_size": 7, key: value})


@pytest.mark.parametrize(
    "value", [0, -0.02, None, "0.02", True, float("nan"), float("inf"), 10**30]
)
def test_initializer_range_must_be_positive(value):
    with refuses("initializer_range ... 0"):
        AlbertConfig.from_dict({"vocab_size": 7, "initializer_range": value})


@pytest.mark.parametrize("name", ["gelu", "RELU", "Tanh", "linear", ""])
def test_activations_in_any_case(name):
    assert AlbertConfig(7, hidden_act=name).hidden_act == name


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"hidden_size": 64}', "{path} ... vocab_size"),
        (b'{"vocab_size": 0}', "{path} ... vocab_size ... 1"),
        (b"{'vocab_size': 7}", "{path} ... JSON"),
        (b"", "{path} ... JSON"),
        (b"\xff\xfe\x00{", "{path} ... JSON"),
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
