# SPDX-License-Identifier: Apache-2.0
"""Loading is strict, and its report says what fitted."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import loading, name_table
from tests import GOLDEN, read_arrays
from tests.checkpoints.golden_models import (
    BASE,
    BLOCK,
    MODELS,
    VARIANTS,
    EncoderOnly,
    assert_same,
    golden_config,
    named_model,
    read,
    values_of,
    write,
)
from tests.errors import assert_names, assert_says, refuses


@pytest.mark.parametrize("variant", VARIANTS)
def test_loading_fills_every_variable_with_its_own_value(variant):
    prefix = str(MODELS / variant / "model.ckpt")
    named = named_model(golden_config(variant))
    report = loading.load(prefix, named)
    assert report.loaded == tuple(named)
    assert report.missing == report.unused == report.wrong_shape == ()
    assert_same(values_of(named), read(prefix))
    if variant == "base":
        assert_same(values_of(named), read_arrays(MODELS / variant / "weights.npz"))


@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_weights_of_a_training_checkpoint(optimizer):
    # The directory's `checkpoint` file names model.ckpt-8.
    directory = GOLDEN / "optimizers" / f"{optimizer}_ckpt"
    table = json.loads((directory / "variables.json").read_text())
    named = named_model(golden_config())
    report = loading.load(directory, named)  # a pathlib.Path
    tensors = read(directory / "model.ckpt-8")
    assert {name: list(value.shape) for name, value in tensors.items()} == {
        name: shape for name, shape, _ in table
    }
    assert_same(values_of(named), {name: tensors[name] for name in named})
    assert report.loaded == tuple(named)
    assert set(report.unused) == set(tensors) - set(named)
    assert_names(str(report), f"32 ... {directory / 'model.ckpt-8'} ... 64")


def test_heads_of_other_tasks_are_in_nobodys_way(tmp_path):
    extra = {
        "output_weights": np.full([3, 32], np.nan, np.float32),  # what is not read may hold it
        "cls/squad/output_bias": np.zeros([2], np.int32),
        "global_step": np.int64(4),
    }
    tensors = {n: v for n, v in read(BASE).items() if n.startswith("bert/")}
    prefix = write(tmp_path / "model.ckpt", {**tensors, **extra})
    named = named_model(golden_config())
    before = values_of(named)
    report = loading.load(prefix, named)
    assert_same(values_of(named), {**before, **tensors})
    missing = [name for name in named if name.startswith("cls/")]
    assert report.missing == tuple(missing)
    assert report.unused == ("cls/squad/output_bias", "global_step", "output_weights")
    unused = "cls/squad/output_bias, output_weights"
    assert_names(str(report), f"25 ... {prefix}", ", ".join(missing), unused)


def test_a_head_of_another_shape_is_reported_and_left(tmp_path):
    tensors = read(BASE)
    tensors["cls/predictions/output_bias"] = np.ones([301], np.float32)
    prefix = write(tmp_path / "model.ckpt", tensors)
    named = named_model(golden_config())
    report = loading.load(prefix, named)
    assert report.wrong_shape == (("cls/predictions/output_bias", [301], [300]),)
    assert not named["cls/predictions/output_bias"].numpy().any()
    name = "cls/predictions/output_bias"
    assert_names(str(report), f"31 ... {prefix} ... [301] ... [300] ... {name}")


@pytest.mark.parametrize("dtype", [np.float16, np.float64, tf.bfloat16.as_numpy_dtype])
def test_files_of_another_precision(dtype, tmp_path):
    tensors = {name: value.astype(dtype) for name, value in read(BASE).items()}
    named = named_model(golden_config())
    loading.load(write(tmp_path / "model.ckpt", tensors), named)
    assert_same(values_of(named), {n: v.astype(np.float32) for n, v in tensors.items()})


# --- What is refused ----------------------------------------------------------------------


def refused(path, named, **kwargs):
    """The message of a refused load, which must have changed nothing."""
    before = values_of(named)
    with pytest.raises(ValueError) as error:
        loading.load(str(path), named, **kwargs)
    assert_same(values_of(named), before)
    return str(error.value)


@pytest.mark.parametrize(
    "gone",
    [["bert/"], [BLOCK.format(0) + "LayerNorm/beta", "bert/pooler/dense/bias"]],
    ids=["the encoder", "part of it"],
)
def test_a_checkpoint_without_some_of_the_encoder(gone, tmp_path):
    tensors = {n: value for n, value in read(BASE).items() if not n.startswith(tuple(gone))}
    named = named_model(golden_config())
    missing = [name for name in named if name not in tensors]
    message = refused(write(tmp_path / "model.ckpt", tensors), named)
    lines = message.splitlines()
    assert len(missing) in (2, 25)
    assert_names(lines[0], f"{25 - len(missing)} ... {len(missing)} ... 0")
    assert lines[1:-1] == [f"  missing: {name}" for name in missing]
    # Nothing of --init_from_group0: it is group 0 itself that lacks variables.
    assert_names(lines[-1], "--albert_config_file")


@pytest.mark.parametrize(
    ("ours", "theirs", "remedy"),
    [
        # Heads and other groups are of ALBERT.
        (BLOCK.format(0), BLOCK.format(7), "--albert_config_file"),
        (BLOCK.format(0), "bert/encoder/layer_0/", "bert/encoder/layer_0/"),
        ("bert/", "electra/", "electra/embeddings/"),
    ],
)
def test_a_checkpoint_of_another_model(ours, theirs, remedy, tmp_path):
    tensors = {name.replace(ours, theirs): value for name, value in read(BASE).items()}
    message = refused(write(tmp_path / "model.ckpt", tensors), named_model(golden_config()))
    assert_names(message.splitlines()[-1], remedy)


def test_an_encoder_of_other_shapes():
    named = named_model(golden_config(vocab_size=301, max_position_embeddings=64))
    message = refused(BASE, named)
    assert_names(message, "23 ... 0 ... 2")
    shapes = {"word": "[300, 16] ... [301, 16]", "position": "[40, 16] ... [64, 16]"}
    for name, shape in shapes.items():
        assert_says(message, f"{shape} ... bert/embeddings/{name}_embeddings")
    assert_says(message, "--albert_config_file")


def test_groups_that_the_file_lacks():
    message = refused(BASE, named_model(golden_config("groups2")))
    assert_names(message, "25 ... 16 ... 0")
    lines = message.splitlines()
    assert all(BLOCK.format(1) in line for line in lines[1:-1])
    assert len(lines) == 1 + 16 + 1
    assert_names(lines[-1], "0 ... --init_from_group0 ... run_pretraining.py")


def test_inner_groups_that_the_file_lacks_come_from_nowhere():
    config = golden_config("inner2")
    for init_from_group0 in (False, True):
        message = refused(BASE, named_model(config), init_from_group0=init_from_group0)
        assert_names(message, "25 ... 16")
        assert "--albert_config_file" in message.splitlines()[-1]


def test_groups_that_the_model_lacks():
    """A model with fewer groups can start from such a checkpoint, but is not the one that it is."""
    prefix = str(MODELS / "groups2" / "model.ckpt")
    named = named_model(golden_config("groups2", num_hidden_groups=1))
    assert any("group_1" in name for name in loading.load(prefix, named).unused_weights)
    with refuses("group_1"):
        loading.load_all(prefix, named)


BAD_VALUES = {  # what a file may hold in place of a weight -> the message
    "nan": (lambda v: np.where(np.arange(v.size).reshape(v.shape) == 3, np.nan, v), "nan"),
    "infinite": (lambda v: np.full_like(v, np.inf), "nan"),
    "beyond float32": (lambda v: v.astype(np.float64) + 1e300, "nan"),
    "int32": (lambda v: v.astype(np.int32), "int32"),
    "bool": (lambda v: v > 0, "bool"),
    "complex64": (lambda v: v.astype(np.complex64), "complex64"),
    "string": (lambda v: v.astype(str).astype(bytes).astype(object), "string"),
}


@pytest.mark.parametrize("name", ["bert/embeddings/word_embeddings", "cls/predictions/output_bias"])
@pytest.mark.parametrize("kind", BAD_VALUES)
def test_weights_that_are_no_finite_numbers_are_refused(kind, name, tmp_path):
    change, expected = BAD_VALUES[kind]
    tensors = read(BASE)
    tensors[name] = change(tensors[name])
    prefix = write(tmp_path / "model.ckpt", tensors)
    named = named_model(golden_config())
    assert_names(refused(prefix, named), f"{name} ... {prefix} ... {expected}")
    for load in (loading.load_all, loading.read_weights):
        with refuses(f"{name} ... {prefix} ... {expected}"):
            load(prefix, named)


# --- Groups from group 0, and the original's own maps ----------------------------------------


MAPS = json.loads((GOLDEN / "checkpoint_maps" / "assignment_maps.json").read_text())


def original_sources(case):
    """Model variable -> name in the file, of the original's map or list of maps."""
    maps = MAPS[case]["assignment_map"]
    maps = [maps] if isinstance(maps, dict) else maps
    return {variable: source for one in maps for source, variable in one.items()}


@pytest.mark.parametrize(
    "case",
    [
        "same_num_of_group_0",
        "same_num_of_group_1",
        "base_from_lamb_training_ckpt_n0",
        # Where the original prefers a group of the file with --init_from_group0 too, we take group
        # 0: see test_group_0_of_a_file_goes_to_all_groups.
        "groups2_from_groups2_n2",
    ],
)
def test_names_are_mapped_as_in_the_original(case):
    named = named_model(golden_config(MAPS[case]["model"]), EncoderOnly)
    assert loading.load(str(GOLDEN / MAPS[case]["checkpoint"]), named).loaded == tuple(named)
    assert {name: name for name in named} == original_sources(case)
    assert not MAPS[case]["reported_as_initialized_but_not_in_any_map"]


@pytest.mark.parametrize("case", ["groups2_from_base_n0", "groups2_from_base_n1"])
def test_what_the_original_left_random_is_what_we_refuse_to(case):
    named = named_model(golden_config("groups2"), EncoderOnly)
    message = refused(GOLDEN / MAPS[case]["checkpoint"], named)
    missing = [line.removeprefix("  missing: ") for line in message.splitlines()[1:-1]]
    left = [n for n in MAPS[case]["model_variables_left_random"] if n.startswith("bert/")]
    assert sorted(missing) == sorted(left)
    assert set(named) - set(missing) == original_sources(case).keys()


@pytest.mark.parametrize(
    "case", ["groups2_from_base_n2_init_from_group0", "groups3_from_base_n3_init_from_group0"]
)
def test_every_group_from_group_0(case):
    named = named_model(golden_config(MAPS[case]["model"]), EncoderOnly)
    path = str(GOLDEN / MAPS[case]["checkpoint"])
    report = loading.load(path, named, init_from_group0=True)
    assert report.loaded == tuple(named)
    sources = {name: name_table.in_group0(name) for name in named}
    # The original forgets attention and feed-forward block of group 0 itself, and nothing else.
    expected = original_sources(case)
    forgotten = set(MAPS[case]["reported_as_initialized_but_not_in_any_map"])
    assert {name for name in forgotten if "/group_0/" in name and "LayerNorm" not in name}
    assert sources == {**expected, **{name: sources[name] for name in set(named) - set(expected)}}
    for name in set(named) - set(expected):
        assert name in forgotten
        assert sources[name] == name.replace("/group_1/", "/group_0/")
    tensors = read(path)
    assert_same(values_of(named), {name: tensors[source] for name, source in sources.items()})


@pytest.mark.parametrize(
    "variant, sharing, groups, unused",
    [("groups2", "all", 2, 16), ("base", "none", 3, 0)],  # several groups, layers of their own
)
def test_group_0_of_a_file_goes_to_all_groups(variant, sharing, groups, unused):
    named = named_model(golden_config(variant, parameter_sharing=sharing))
    path = str(MODELS / variant / "model.ckpt")
    report = loading.load(path, named, init_from_group0=True)
    tensors = read(path)
    blocks = [name for name in named if name.startswith("bert/encoder/transformer")]
    assert len(blocks) == 16 * groups
    assert_same(
        {name: named[name].numpy() for name in blocks},
        {name: tensors[BLOCK.format(0) + name.split("/", 5)[5]] for name in blocks},
    )
    assert len(report.unused) == unused
    assert all(BLOCK.format(1) in name for name in report.unused)
