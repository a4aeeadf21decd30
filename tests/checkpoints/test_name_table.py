# SPDX-License-Identifier: Apache-2.0
"""Names and shapes of variables are the original's."""

import json
import math
import re

import pytest

from albert_tf.checkpoints import name_table
from albert_tf.model import heads
from tests.checkpoints.golden_models import BLOCK, MODELS, VARIANTS, golden_config, named_model


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_and_shapes_are_the_originals(variant):
    expected = json.loads((MODELS / variant / "variables.json").read_text())["trainable_order"]
    model = heads.PretrainingModel(golden_config(variant))
    named = name_table.named_variables(model)
    assert {n: v.shape.as_list() for n, v in named.items()} == dict(expected)
    assert {id(v) for v in named.values()} == {id(v) for v in model.trainable_variables}
    assert len({id(v) for v in named.values()}) == len(named)
    if variant not in ("groups2", "groups3_layers5", "inner2"):
        # With one block the order is the original's too; it interleaves those of several blocks.
        assert list(named) == [name for name, _ in expected]


def test_a_variable_without_a_name_is_noticed():
    model = heads.PretrainingModel(golden_config())
    model.extra = heads.Linear(2, 2, 0.02)
    with pytest.raises(AssertionError, match="2 variables of PretrainingModel are not in the"):
        name_table.named_variables(model)


@pytest.mark.parametrize(
    "sharing, attention_groups, ffn_groups",
    [("all", 1, 1), ("attention", 1, 3), ("ffn", 3, 1), ("none", 3, 3)],
)
def test_names_under_each_sharing_strategy(sharing, attention_groups, ffn_groups):
    names = list(named_model(golden_config(parameter_sharing=sharing)))
    for group in range(4):
        prefix = BLOCK.format(group)
        counts = [
            sum(name.startswith(prefix + part) for name in names)
            for part in ("attention_1/", "LayerNorm/", "ffn_1/", "LayerNorm_1/")
        ]
        has_attention, has_ffn = group < attention_groups, group < ffn_groups
        assert counts == [8 * has_attention, 2 * has_attention, 4 * has_ffn, 2 * has_ffn]


def test_a_model_whose_layers_share_nothing_has_a_config_of_the_original():
    config = golden_config(parameter_sharing="none")
    same = config.in_groups()
    assert "parameter_sharing" not in same.to_dict()
    assert [*named_model(same)] == [*named_model(config)]
    assert same.in_groups() == same


@pytest.mark.parametrize(
    "overrides",
    [{"parameter_sharing": sharing} for sharing in ("all", "attention", "ffn", "none")]
    + [
        {"num_hidden_groups": 2, "inner_group_num": 2},
        {"num_hidden_layers": 22, "num_hidden_groups": 22},  # the 15th has no layer
        {"embedding_size": 32},  # the hidden size: no mapping
        {"type_vocab_size": 3, "max_position_embeddings": 7, "vocab_size": 11},
    ],
)
def test_the_parameters_of_a_config_are_those_of_the_model(overrides):
    config = golden_config(**overrides)
    named = named_model(config).items()
    encoder = [v.shape.as_list() for name, v in named if name.startswith("bert/")]
    assert config.num_parameters == sum(map(math.prod, encoder))
    # The original makes variables when a layer uses them.
    used = {*config.groups("attention")}
    names = "".join(name for name, _ in named)
    assert {int(g) for g in re.findall(r"group_(\d+)/inner_group_0/attention_1", names)} == used


def test_wrappers_of_pytorch_are_no_parts_of_names():
    wrappers = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
    for wrapper in wrappers:
        theirs = f"{wrapper}.albert.{wrapper}.pooler.weight"
        assert name_table.without_wrappers(theirs) == "albert.pooler.weight"
