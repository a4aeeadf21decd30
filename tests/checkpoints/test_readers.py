# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's files: modules, the step, damage."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import loading, readers, run_directory
from tests.checkpoints.golden_models import (
    BASE,
    BLOCK,
    assert_same,
    golden_config,
    named_model,
    read,
    values_of,
    write,
)
from tests.errors import refuses


def test_variables_of_a_hub_module(tmp_path):
    tensors = read(BASE)
    prefix = write(tmp_path / "variables", {f"module/{n}": v for n, v in tensors.items()})
    named = named_model(golden_config())
    assert not loading.load(prefix, named).missing
    assert_same(values_of(named), tensors)


class Root(tf.Module):
    """The root object of a module: variables in a dict or, as Keras has them, in a list."""

    def __init__(self, **attributes):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


def save_module(path, **attributes):
    tf.saved_model.save(Root(**attributes), str(path))
    return readers.TensorFlowReader(run_directory.find(str(path)))


def test_names_in_the_root_of_a_module(tmp_path):
    names = ["bert/x.y/kernel", "cls/a.Sb"]  # "/", "." and ".S" are escaped in keys
    variables = {name: tf.Variable([float(i)]) for i, name in enumerate(names)}
    reader = save_module(
        tmp_path / "module",
        listed=list(variables.values()),
        named_variables=variables,
        do_lower_case=tf.Variable(True, trainable=False),
    )
    assert reader.prefix == str(tmp_path / "module" / "variables" / "variables")
    assert {name: reader[name].tolist() for name in reader.shapes} == {names[0]: [0], names[1]: [1]}
    assert reader.attribute("do_lower_case") == True  # noqa: E712
    assert reader.attribute("named_variables") is None
    assert reader.attribute("none") is None
    assert readers.TensorFlowReader(BASE).attribute("do_lower_case") is None


def test_names_of_the_variables_where_the_root_has_none(tmp_path):
    layer = "transformer/self_attention/"
    shapes = {  # name in the file -> the original's, and both shapes; N = 2 heads of D = 3
        layer + "query/kernel": ("attention_1/self/query/kernel", [6, 2, 3], [6, 6]),
        "my_model/" + layer + "key/bias": ("attention_1/self/key/bias", [2, 3], [6]),
        layer + "attention_output/kernel": ("attention_1/output/dense/kernel", [2, 3, 5], [6, 5]),
    }
    values = {
        name: tf.Variable(tf.random.stateless_uniform(shape, [1, 2]), name=name)
        for name, (_, shape, _) in shapes.items()
    }
    other = tf.Variable(1.0, name="other")
    reader = save_module(tmp_path / "module", all=[*values.values(), other])
    expected = {BLOCK.format(0) + ours: shape for ours, _, shape in shapes.values()}
    assert reader.shapes == expected | {"other": []}
    for name, (ours, _, shape) in shapes.items():
        actual = reader[BLOCK.format(0) + ours]
        np.testing.assert_array_equal(actual, np.reshape(values[name], shape))


def test_step_in_a_checkpoint(tmp_path):
    held = write(tmp_path / "a-5", {"global_step": np.int64(7)})
    assert loading.step_in(held) == 7
    assert loading.step_in(write(tmp_path / "b-5", {"x": np.float32(1)})) == 5
    assert loading.step_in(write(tmp_path / "best", {"x": np.float32(1)})) == 0


@pytest.mark.parametrize("damage", ["index", "short", "flipped", "no data"])
def test_a_damaged_checkpoint_is_named(damage, tmp_path):
    prefix = write(tmp_path / "model.ckpt", read(BASE))
    index, data = tmp_path / "model.ckpt.index", tmp_path / "model.ckpt.data-00000-of-00001"
    if damage == "index":
        index.write_text("this is no index")
    elif damage == "short":
        data.write_bytes(data.read_bytes()[:1000])
    elif damage == "flipped":
        data.write_bytes(bytes(255 - byte for byte in data.read_bytes()))
    else:
        data.unlink()
    named = named_model(golden_config())
    with refuses("model.ckpt"):
        loading.load(prefix, named)


def test_moments_of_keras_are_no_weights(tmp_path):
    weights = tf.Variable([[1.0, 2.0]], name="word_embeddings/embeddings")
    optimizer = tf_keras.optimizers.Adam()
    optimizer.build([weights])
    assert any(v.name.endswith("word_embeddings/embeddings:0") for v in optimizer.variables)
    prefix = tf.train.Checkpoint(model=Root(v=weights), optimizer=optimizer).save(tmp_path / "a")
    reader = readers.TensorFlowReader(prefix)
    np.testing.assert_array_equal(reader["bert/embeddings/word_embeddings"], weights)
    assert not [name for name in reader.shapes if name.startswith("Adam")]


def test_a_variable_of_two_models_is_refused(tmp_path):
    name = "bert/embeddings/word_embeddings"
    values = {name: np.ones([2, 3], np.float32), f"module/{name}": np.zeros([2, 3], np.float32)}
    prefix = write(tmp_path / "model.ckpt", values)
    with refuses(f"{prefix} has {name} twice ... module/{name}"):
        readers.TensorFlowReader(prefix)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_pointers_of_git_lfs_are_named(ending, tmp_path):
    prefix = write(tmp_path / "model.ckpt", read(BASE))
    Path(prefix + ending).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    with refuses(f"{prefix}{ending} ... git lfs pull"):
        readers.TensorFlowReader(prefix)
