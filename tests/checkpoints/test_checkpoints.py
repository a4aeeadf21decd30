# SPDX-License-Identifier: Apache-2.0
"""Names, finding, loading and resuming, with the original's checkpoints and with our own."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.checkpoints import loading, name_table, readers, run_directory, writers
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.model import heads, optimization
from tests import GOLDEN

MODELS = GOLDEN / "model"
VARIANTS = ["base", "groups2", "groups3_layers5", "inner2", "noproj", "relu", "tanh_heads2"]
BASE = str(MODELS / "base" / "model.ckpt")
BLOCK = "bert/encoder/transformer/group_{}/inner_group_0/"


def golden_config(variant="base", **overrides):
    config = AlbertConfig.from_json_file(str(MODELS / variant / "albert_config.json"))
    return dataclasses.replace(config, **overrides)


def named_model(config, kind=heads.PretrainingModel):
    return name_table.named_variables(kind(config))


def read(prefix):
    """All tensors of a file, by the names they have in it."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def write(prefix, tensors):
    """Writes a checkpoint in TF1's format."""
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=[tf.constant(value) for value in tensors.values()],
    )
    return str(prefix)


def values_of(named):
    return {name: variable.numpy() for name, variable in named.items()}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


class EncoderOnly(tf.Module):
    """A model without heads."""

    def __init__(self, config):
        super().__init__()
        self.encoder = heads.AlbertModel(config)


# --- Names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_and_shapes_are_the_originals(variant):
    expected = json.loads((MODELS / variant / "variables.json").read_text())["trainable_order"]
    named = named_model(golden_config(variant))
    assert {n: v.shape.as_list() for n, v in named.items()} == dict(expected)
    if variant not in ("groups2", "groups3_layers5", "inner2"):
        # With one block the order is the original's too; it interleaves those of several blocks.
        assert list(named) == [name for name, _ in expected]


@pytest.mark.parametrize("variant", ["base", "groups2", "inner2", "noproj"])
def test_every_variable_has_one_name(variant):
    model = heads.PretrainingModel(golden_config(variant))
    named = name_table.named_variables(model)
    assert len({id(v) for v in named.values()}) == len(named)
    assert {id(v) for v in named.values()} == {id(v) for v in model.trainable_variables}


def test_a_variable_without_a_name_is_noticed():
    model = heads.PretrainingModel(golden_config())
    model.extra = heads.Dense(2, 2, 0.02)
    with pytest.raises(AssertionError, match="2 variables of PretrainingModel are not in the"):
        name_table.named_variables(model)


def released_shapes(hidden, intermediate):
    """The table of names and shapes of a released model, written out."""
    block = BLOCK.format(0)
    shapes = {
        "bert/embeddings/word_embeddings": [30000, 128],
        "bert/embeddings/token_type_embeddings": [2, 128],
        "bert/embeddings/position_embeddings": [512, 128],
        "bert/embeddings/LayerNorm/beta": [128],
        "bert/embeddings/LayerNorm/gamma": [128],
        "bert/encoder/embedding_hidden_mapping_in/kernel": [128, hidden],
        "bert/encoder/embedding_hidden_mapping_in/bias": [hidden],
        block + "attention_1/output/dense/kernel": [hidden, hidden],
        block + "attention_1/output/dense/bias": [hidden],
        block + "LayerNorm/beta": [hidden],
        block + "LayerNorm/gamma": [hidden],
        block + "ffn_1/intermediate/dense/kernel": [hidden, intermediate],
        block + "ffn_1/intermediate/dense/bias": [intermediate],
        block + "ffn_1/intermediate/output/dense/kernel": [intermediate, hidden],
        block + "ffn_1/intermediate/output/dense/bias": [hidden],
        block + "LayerNorm_1/beta": [hidden],
        block + "LayerNorm_1/gamma": [hidden],
        "bert/pooler/dense/kernel": [hidden, hidden],
        "bert/pooler/dense/bias": [hidden],
        "cls/predictions/transform/dense/kernel": [hidden, 128],
        "cls/predictions/transform/dense/bias": [128],
        "cls/predictions/transform/LayerNorm/beta": [128],
        "cls/predictions/transform/LayerNorm/gamma": [128],
        "cls/predictions/output_bias": [30000],
        "cls/seq_relationship/output_weights": [2, hidden],
        "cls/seq_relationship/output_bias": [2],
    }
    for part in ("query", "key", "value"):
        shapes[block + f"attention_1/self/{part}/kernel"] = [hidden, hidden]
        shapes[block + f"attention_1/self/{part}/bias"] = [hidden]
    return shapes


@pytest.mark.parametrize(
    "layers, hidden, intermediate, num_heads",
    [(12, 768, 3072, 12), (24, 1024, 4096, 16), (24, 2048, 8192, 16), (12, 4096, 16384, 64)],
    ids=["base", "large", "xlarge", "xxlarge"],
)
def test_names_and_shapes_of_the_released_models(layers, hidden, intermediate, num_heads):
    config = AlbertConfig(
        vocab_size=30000,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=num_heads,
        intermediate_size=intermediate,
    )
    assert name_table.pretraining_shapes(config) == released_shapes(hidden, intermediate)


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


@pytest.mark.parametrize(
    "overrides",
    [{"parameter_sharing": sharing} for sharing in ("all", "attention", "ffn", "none")]
    + [
        {"num_hidden_groups": 2, "inner_group_num": 2},
        {"embedding_size": 32},  # the hidden size: no mapping
        {"type_vocab_size": 3, "max_position_embeddings": 7, "vocab_size": 11},
    ],
)
def test_shapes_without_a_model_are_those_of_the_model(overrides):
    config = golden_config(**overrides)
    expected = {n: v.shape.as_list() for n, v in named_model(config).items()}
    assert name_table.pretraining_shapes(config) == expected
    encoder = [shape for name, shape in expected.items() if name.startswith("bert/")]
    assert config.num_parameters == sum(map(math.prod, encoder))


def test_reading_weights_leaves_the_callers_models_usable():
    config = golden_config()
    model = heads.AlbertModel(config)
    ids = tf.ones([1, 4], tf.int32)
    before = model(ids)["pooled_output"]
    loading.read_weights(BASE, config)
    np.testing.assert_array_equal(model(ids)["pooled_output"], before)


# --- Finding ------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path):
    """Puts checkpoints of one number each into a directory; returns the directory."""
    directory = tmp_path / "run"

    def put(*names, state=None):
        directory.mkdir(exist_ok=True)
        for name in names:
            write(directory / name, {"x": np.float32(1)})
            (directory / f"{name}.meta").write_text("graph")
        if state is not None:
            (directory / "checkpoint").write_text(state)
        return directory

    return put


@pytest.mark.parametrize(
    "given",
    ["model.ckpt-best", "model.ckpt-best.index", "model.ckpt-best.meta",
     "model.ckpt-best.data-00000-of-00001", "", "/"],
)  # fmt: skip
def test_every_form_of_a_path_finds_the_checkpoint(given, place):
    directory = place("model.ckpt-best")
    path = str(directory) + given if given in ("", "/") else str(directory / given)
    assert run_directory.find(path) == str(directory / "model.ckpt-best")


def state_of(path):
    return f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'


@pytest.mark.parametrize(
    "names, state, expected",
    [
        # what the `checkpoint` file names, be it relative or of another place
        (["model.ckpt-5", "model.ckpt-9"], state_of("model.ckpt-5"), "model.ckpt-5"),
        (["model.ckpt-best", "model.ckpt-9"], state_of("/cns/x/model.ckpt-best"),
         "model.ckpt-best"),
        (["model.ckpt-5", "model.ckpt-9"], state_of("/cns/xy-d/home/model.ckpt-5"), "model.ckpt-5"),
        # it names what exists nowhere, is no such file, or is not there
        (["model.ckpt-5", "model.ckpt-10"], state_of("/cns/x/model.ckpt-7"), "model.ckpt-10"),
        (["model.ckpt-5"], "no text of this kind {", "model.ckpt-5"),
        (["model.ckpt-5", "model.ckpt-10", "model.ckpt-9"], None, "model.ckpt-10"),
        (["model.ckpt-best", "bert_model.ckpt"], None, "model.ckpt-best"),
        (["bert_model.ckpt"], None, "bert_model.ckpt"),
    ],
)  # fmt: skip
def test_which_checkpoint_of_a_directory(names, state, expected, place):
    directory = place(*names, state=state)
    assert run_directory.find(str(directory)) == str(directory / expected)


@pytest.mark.parametrize(
    "state", [b"", b"\xff\xfe\x00", b"no text of this kind {", state_of("/x/model.ckpt-7").encode()]
)
def test_an_unusable_state_file_is_reported_in_one_line(state, place, caplog):
    directory = place("model.ckpt-5", "model.ckpt-10", state="")
    (directory / "checkpoint").write_bytes(state)
    for _ in range(2):
        assert run_directory.latest_in(str(directory)) == str(directory / "model.ckpt-10")
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "\n" not in lines[0]
    assert lines[0].startswith(f"{directory}/checkpoint is damaged or names a checkpoint that is")
    assert lines[0].endswith(f"the highest step, {directory}/model.ckpt-10")


def test_a_directory_without_state_file_is_not_worth_a_line(place, caplog):
    directory = place("model.ckpt-5")
    assert run_directory.latest_in(str(directory)) == str(directory / "model.ckpt-5")
    assert not caplog.records


@pytest.mark.parametrize("state", [b"", b"\xff\xfe\x00", b"no text of this kind {"])
@pytest.mark.parametrize("names", [[], ["model.ckpt-5", "model.ckpt-10"]])
def test_tidy_makes_a_directory_usable_again(names, state, place):
    directory = place(*names, state="")
    (directory / "checkpoint").write_bytes(state)
    unfinished = directory / "model.ckpt-15_temp"
    unfinished.mkdir()
    (unfinished / "part-00000-of-00001.data-00000-of-00001").write_text("half")
    run_directory.tidy(str(directory))
    assert not unfinished.exists()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(), str(directory), 5)
    assert [Path(path).name for path in manager.checkpoints] == names  # old ones to be deleted
    assert run_directory.latest_in(str(directory)) == manager.latest_checkpoint


def test_tidy_leaves_a_usable_directory_alone(place):
    directory = place("model.ckpt-5", "model.ckpt-10", state=state_of("model.ckpt-5"))
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    run_directory.tidy(str(directory))
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_copied_directory_reads_its_own_files(place, tmp_path):
    original = place("model.ckpt-5")
    copy = tmp_path / "copy"
    copy.mkdir()
    write(copy / "model.ckpt-5", {"x": np.float32(2)})
    (copy / "checkpoint").write_text(state_of(original / "model.ckpt-5"))
    assert run_directory.latest_in(str(copy)) == str(copy / "model.ckpt-5")


def test_a_directory_may_name_a_checkpoint_elsewhere(place, tmp_path):
    original = place("model.ckpt-5")
    other = tmp_path / "other"
    other.mkdir()
    (other / "checkpoint").write_text(state_of(original / "model.ckpt-5"))
    assert run_directory.find(str(other)) == str(original / "model.ckpt-5")


@pytest.mark.parametrize(
    "names, message",
    [
        ([], "no checkpoint can be told in {} (no .index file): give its prefix"),
        (["b.ckpt", "a.ckpt"],
         "no checkpoint can be told in {} (a.ckpt, b.ckpt): give its prefix"),
    ],
)  # fmt: skip
def test_a_directory_that_does_not_tell(names, message, place):
    directory = str(place(*names))
    with pytest.raises(ValueError) as error:
        run_directory.find(directory)
    assert str(error.value) == message.format(directory)


def test_a_path_without_checkpoint_is_named(place):
    directory = place("model.ckpt-5")
    (directory / "albert_config.json").write_text("{}")
    for name in ("model.ckpt-6", "model.ckpt", "albert_config.json", "none/model.ckpt-5"):
        path = str(directory / name)
        with pytest.raises(ValueError) as error:
            run_directory.find(path)
        assert str(error.value).startswith(f"no checkpoint at {path}: looked for {path}.index.")


def test_latest_in_a_directory_that_holds_none(tmp_path, place):
    assert run_directory.latest_in(str(tmp_path)) is None
    assert run_directory.latest_in(str(tmp_path / "nowhere")) is None
    assert run_directory.latest_in(str(place("model.ckpt-best"))) is None


@pytest.mark.parametrize(
    "name, step",
    [("model.ckpt-5", 5), ("a/model.ckpt-0", 0), ("model.ckpt-best", None), ("run-3/ckpt", None)],
)
def test_step_of_a_prefix(name, step):
    assert run_directory.step_of(name) == step


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
    with pytest.raises(ValueError, match=r"cannot read .*model\.ckpt"):
        loading.load(prefix, named)


# --- Loading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_loading_fills_every_variable_with_its_own_value(variant):
    prefix = str(MODELS / variant / "model.ckpt")
    named = named_model(golden_config(variant))
    report = loading.load(prefix, named)
    assert report.loaded == tuple(named)
    assert report.missing == report.unused == report.wrong_shape == ()
    assert_same(values_of(named), read(prefix))


@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_weights_of_a_training_checkpoint(optimizer):
    # The directory's `checkpoint` file names model.ckpt-8.
    directory = GOLDEN / "optimizers" / f"{optimizer}_ckpt"
    table = json.loads((directory / "variables.json").read_text())
    named = named_model(golden_config())
    report = loading.load(str(directory), named)
    tensors = read(directory / "model.ckpt-8")
    assert {name: list(value.shape) for name, value in tensors.items()} == {
        name: shape for name, shape, _ in table
    }
    assert_same(values_of(named), {name: tensors[name] for name in named})
    assert report.loaded == tuple(named)
    assert set(report.unused) == set(tensors) - set(named)
    assert str(report) == (
        f"loaded 32 variables from {directory / 'model.ckpt-8'}\n  not used: 64 optimizer slots"
    )


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


def test_heads_of_other_tasks_are_in_nobodys_way(tmp_path):
    extra = {
        "output_weights": np.zeros([3, 32], np.float32),
        "cls/squad/output_bias": np.zeros([2], np.float32),
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
    assert str(report) == (
        f"loaded 25 variables from {prefix}\n"
        f"  not in it, initialised afresh: {', '.join(missing)}\n"
        "  not used: cls/squad/output_bias, output_weights"
    )


def test_an_encoder_alone_takes_what_is_its_own():
    named = named_model(golden_config(), EncoderOnly)
    report = loading.load(BASE, named)
    tensors = read(BASE)
    assert_same(values_of(named), {n: v for n, v in tensors.items() if n.startswith("bert/")})
    assert report.unused == tuple(sorted(n for n in tensors if n.startswith("cls/")))


def test_a_head_of_another_shape_is_reported_and_left(tmp_path):
    tensors = read(BASE)
    tensors["cls/predictions/output_bias"] = np.ones([301], np.float32)
    prefix = write(tmp_path / "model.ckpt", tensors)
    named = named_model(golden_config())
    report = loading.load(prefix, named)
    assert report.wrong_shape == (("cls/predictions/output_bias", [301], [300]),)
    assert not named["cls/predictions/output_bias"].numpy().any()
    assert str(report) == (
        f"loaded 31 variables from {prefix}\n"
        "  not taken, shape [301] in the file and [300] in the model: cls/predictions/output_bias"
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_files_of_another_precision(dtype, tmp_path):
    tensors = {name: value.astype(dtype) for name, value in read(BASE).items()}
    named = named_model(golden_config())
    loading.load(write(tmp_path / "model.ckpt", tensors), named)
    assert_same(values_of(named), {n: v.astype(np.float32) for n, v in tensors.items()})


# --- Loading: what is refused -------------------------------------------------------------------


def refused(path, named, **kwargs):
    """The message of a refused load, which must have changed nothing."""
    before = values_of(named)
    with pytest.raises(ValueError) as error:
        loading.load(str(path), named, **kwargs)
    assert_same(values_of(named), before)
    return str(error.value)


def test_a_checkpoint_with_nothing_of_the_encoder(tmp_path):
    tensors = {name: value for name, value in read(BASE).items() if name.startswith("cls/")}
    named = named_model(golden_config())
    message = refused(write(tmp_path / "model.ckpt", tensors), named)
    assert "0 variables fit, 25 are missing, 0 have another shape." in message
    lines = message.splitlines()
    encoder = [name for name in named if name.startswith("bert/")]
    assert lines[1:-1] == [f"  missing: {name}" for name in encoder]
    assert lines[-1] == "Check that --albert_config_file belongs to this checkpoint."


def test_a_checkpoint_with_part_of_the_encoder(tmp_path):
    tensors = read(BASE)
    gone = ["bert/pooler/dense/bias", BLOCK.format(0) + "LayerNorm/beta"]
    for name in gone:
        del tensors[name]
    message = refused(write(tmp_path / "model.ckpt", tensors), named_model(golden_config()))
    assert "23 variables fit, 2 are missing, 0 have another shape." in message
    assert sorted(message.splitlines()[1:-1]) == sorted(f"  missing: {name}" for name in gone)
    assert "init_from_group0" not in message  # it is group 0 itself that lacks a variable


def test_an_encoder_of_other_shapes():
    named = named_model(golden_config(vocab_size=301, max_position_embeddings=64))
    message = refused(BASE, named)
    assert "23 variables fit, 0 are missing, 2 have another shape." in message
    assert message.splitlines()[1:] == [
        "  shape [300, 16] in the file, [301, 16] here: bert/embeddings/word_embeddings",
        "  shape [40, 16] in the file, [64, 16] here: bert/embeddings/position_embeddings",
        "Check that --albert_config_file belongs to this checkpoint.",
    ]


def test_groups_that_the_file_lacks():
    message = refused(BASE, named_model(golden_config("groups2")))
    assert "25 variables fit, 16 are missing, 0 have another shape." in message
    lines = message.splitlines()
    assert all(BLOCK.format(1) in line for line in lines[1:-1])
    assert len(lines) == 1 + 16 + 1
    assert lines[-1] == "To fill every parameter group from group 0, give --init_from_group0."


def test_inner_groups_that_the_file_lacks_come_from_nowhere():
    config = golden_config("inner2")
    for init_from_group0 in (False, True):
        message = refused(BASE, named_model(config), init_from_group0=init_from_group0)
        assert "25 variables fit, 16 are missing" in message
        assert "--albert_config_file" in message.splitlines()[-1]


BAD_VALUES = {  # what a file may hold in place of a weight -> the message
    "nan": (lambda v: np.where(np.arange(v.size).reshape(v.shape) == 3, np.nan, v), "nan or inf"),
    "infinite": (lambda v: np.full_like(v, np.inf), "nan or infinite"),
    "beyond float32": (lambda v: v.astype(np.float64) + 1e300, "nan or infinite"),
    "int32": (lambda v: v.astype(np.int32), "is of type int32"),
    "bool": (lambda v: v > 0, "is of type bool"),
    "complex64": (lambda v: v.astype(np.complex64), "is of type complex64"),
    "string": (lambda v: v.astype(str).astype(bytes).astype(object), "is of type string"),
}


@pytest.mark.parametrize("name", ["bert/embeddings/word_embeddings", "cls/predictions/output_bias"])
@pytest.mark.parametrize("kind", BAD_VALUES)
def test_weights_that_are_no_finite_numbers_are_refused(kind, name, tmp_path):
    change, expected = BAD_VALUES[kind]
    tensors = read(BASE)
    tensors[name] = change(tensors[name])
    prefix = write(tmp_path / "model.ckpt", tensors)
    config = golden_config()
    messages = [refused(prefix, named_model(config))]
    for call in (
        lambda: loading.load_all(prefix, named_model(config)),
        lambda: loading.read_weights(prefix, config),
    ):
        with pytest.raises(UserError) as error:
            call()
        messages.append(str(error.value))
    for message in messages:
        assert message.startswith(f"{name} in {prefix} ") and expected in message


def test_heads_that_are_not_loaded_may_hold_anything(tmp_path):
    tensors = read(BASE) | {"of_others": np.float32("nan"), "counter": np.int32(3)}
    loading.load(write(tmp_path / "model.ckpt", tensors), named_model(golden_config()))


def test_weights_in_bfloat16_are_taken(tmp_path):
    tensors = {name: tf.cast(value, tf.bfloat16) for name, value in read(BASE).items()}
    named = named_model(golden_config())
    loading.load(write(tmp_path / "model.ckpt", tensors), named)
    assert_same(values_of(named), {n: tf.cast(v, tf.float32).numpy() for n, v in tensors.items()})


# --- Groups from group 0, and the original's own maps -------------------------------------------

MAPS = json.loads((GOLDEN / "checkpoint_maps" / "assignment_maps.json").read_text())


def original_sources(case):
    """Model variable -> name in the file, of the original's map or list of maps."""
    maps = MAPS[case]["assignment_map"]
    maps = [maps] if isinstance(maps, dict) else maps
    return {variable: source for one in maps for source, variable in one.items()}


@pytest.mark.parametrize(
    "case", ["same_num_of_group_0", "same_num_of_group_1", "base_from_lamb_training_ckpt_n0"]
)
def test_names_are_mapped_as_in_the_original(case):
    named = named_model(golden_config(MAPS[case]["model"]), EncoderOnly)
    assert loading.load(str(GOLDEN / MAPS[case]["checkpoint"]), named).loaded == tuple(named)
    assert {name: name_table.source_name(name) for name in named} == original_sources(case)


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
    sources = {name: name_table.source_name(name, init_from_group0=True) for name in named}
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


def test_a_file_of_several_groups_gives_its_group_0_to_all():
    named = named_model(golden_config("groups2"))
    path = str(MODELS / "groups2" / "model.ckpt")
    report = loading.load(path, named, init_from_group0=True)
    tensors = read(path)
    name = "attention_1/self/query/kernel"
    for group in (0, 1):
        np.testing.assert_array_equal(
            named[BLOCK.format(group) + name], tensors[BLOCK.format(0) + name]
        )
    assert len(report.unused) == 16
    assert all(BLOCK.format(1) in name for name in report.unused)


def test_layers_of_their_own_from_a_shared_group():
    named = named_model(golden_config(parameter_sharing="none"))
    loading.load(BASE, named, init_from_group0=True)
    tensors = read(BASE)
    for group in range(3):
        for name in ("attention_1/output/dense/kernel", "ffn_1/intermediate/dense/kernel"):
            np.testing.assert_array_equal(
                named[BLOCK.format(group) + name], tensors[BLOCK.format(0) + name]
            )


# --- Resuming -----------------------------------------------------------------------------------


def training_state(config, kind=optimization.LAMB):
    """A whole training state; (state, optimizer)."""
    named = named_model(config)
    optimizer = kind(optimization.PolynomialDecayWithWarmup(1e-3, 100))
    optimizer.build(list(named.values()))
    return name_table.training_variables(named, optimizer), optimizer


def scramble(state, step):
    values = np.random.RandomState(step)
    for name, variable in state.items():
        if name != name_table.GLOBAL_STEP:
            variable.assign(values.standard_normal(variable.shape).astype(np.float32))
    state[name_table.GLOBAL_STEP].assign(step)


def save(state, directory, step):
    """Saves as a training run does; returns the prefix."""
    manager = tf.train.CheckpointManager(
        writers.make_checkpoint(state), str(directory), 5, checkpoint_name="model.ckpt"
    )
    return manager.save(checkpoint_number=step)


@pytest.mark.parametrize("kind", [optimization.AdamW, optimization.LAMB])
@pytest.mark.parametrize("variant", ["base", "groups3_layers5", "inner2"])
def test_our_own_checkpoint_comes_back_whole(variant, kind, tmp_path):
    state, _ = training_state(golden_config(variant), kind)
    scramble(state, 12)
    prefix = save(state, tmp_path, 12)
    assert prefix == str(tmp_path / "model.ckpt-12")
    assert run_directory.latest_in(str(tmp_path)) == prefix
    assert loading.step_in(prefix) == 12
    assert readers.TensorFlowReader(prefix).shapes == {
        n: v.shape.as_list() for n, v in state.items()
    }

    other, optimizer = training_state(golden_config(variant), kind)
    loading.restore(prefix, other)
    assert_same(values_of(other), values_of(state))
    assert optimizer.iterations.numpy() == 12


def test_weights_of_our_own_checkpoint(tmp_path):
    state, _ = training_state(golden_config())
    scramble(state, 3)
    prefix = save(state, tmp_path, 3)
    named = named_model(golden_config())
    report = loading.load(prefix, named)
    assert_same(values_of(named), {name: state[name].numpy() for name in named})
    assert str(report) == f"loaded 32 variables from {prefix}\n  not used: 64 optimizer slots"


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_a_run_of_the_original_is_resumed(name):
    prefix = run_directory.find(str(GOLDEN / "optimizers" / f"{name}_ckpt"))
    table = json.loads((GOLDEN / "optimizers" / f"{name}_ckpt" / "variables.json").read_text())
    state, optimizer = training_state(golden_config(), optimization.OPTIMIZERS[name])
    assert {n: [v.shape.as_list(), v.dtype.name] for n, v in state.items()} == {
        n: [shape, dtype] for n, shape, dtype in table
    }
    loading.restore(prefix, state)
    assert_same(values_of(state), read(prefix))
    assert optimizer.iterations.numpy() == loading.step_in(prefix) == 8
    # Moments belong to their variables in the optimizer too.
    names = list(table_name for table_name, _, _ in table if "adam_" not in table_name)
    index = names.index("bert/pooler/dense/kernel")
    expected = read(prefix)["bert/pooler/dense/kernel/adam_v"]
    np.testing.assert_array_equal(optimizer.adam_v[index], expected)


@pytest.mark.parametrize("lacking", [1, 5])
def test_a_state_that_lacks_something_is_not_resumed(lacking, tmp_path):
    state, _ = training_state(golden_config())
    gone = list(state)[40 : 40 + lacking]
    kept = {name: variable for name, variable in state.items() if name not in gone}
    prefix = write(tmp_path / "model.ckpt-1", values_of(kept))
    before = values_of(state)
    with pytest.raises(ValueError) as error:
        loading.restore(prefix, state)
    listed = gone[0] if lacking == 1 else f"{gone[0]}, {gone[1]}, {gone[2]}, ..."
    assert str(error.value).startswith(
        f"training cannot resume from {prefix}: it lacks {lacking} of 97 variables ({listed})."
    )
    assert "--init_checkpoint" in str(error.value)
    assert_same(values_of(state), before)


def test_a_state_of_another_shape_is_not_resumed(tmp_path):
    state, _ = training_state(golden_config())
    prefix = save(state, tmp_path, 1)
    other, _ = training_state(golden_config(vocab_size=301))
    before = values_of(other)
    with pytest.raises(ValueError) as error:
        loading.restore(prefix, other)
    assert str(error.value) == (
        f"training cannot resume from {prefix}: bert/embeddings/word_embeddings has shape "
        "[300, 16] there and [301, 16] in this model. Check --albert_config_file"
    )
    assert_same(values_of(other), before)


@pytest.mark.parametrize("name", ["bert/pooler/dense/kernel", "bert/pooler/dense/kernel/adam_v"])
def test_a_state_with_nan_is_not_resumed(name, tmp_path):
    state, _ = training_state(golden_config())
    tensors = values_of(state)
    tensors[name] = np.full_like(tensors[name], np.nan)
    prefix = write(tmp_path / "model.ckpt-1", tensors)
    with pytest.raises(UserError, match=f"{name} in {prefix} holds nan"):
        loading.restore(prefix, state)
    assert np.isfinite(state[name].numpy()).all()


BAD_STEPS = {
    "fraction": np.float32(2.5),
    "negative": np.int64(-1),
    "nan": np.float32("nan"),
    "infinite": np.float64("inf"),
    "string": np.array(b"7", object),
    "bool": np.bool_(True),
    "beyond int64": np.float64(1e19),
    "vector": np.array([7], np.int64),
    "empty": np.array([], np.int64),
}


@pytest.mark.parametrize("kind", BAD_STEPS)
def test_a_step_that_is_no_whole_number_is_refused(kind, tmp_path):
    state, _ = training_state(golden_config())
    prefix = write(tmp_path / "model.ckpt-1", values_of(state) | {"global_step": BAD_STEPS[kind]})
    with pytest.raises(UserError, match=f"global_step in {prefix} must be one whole number"):
        loading.step_in(prefix)
    with pytest.raises(UserError, match=f"{prefix}"):
        loading.restore(prefix, state)


def test_a_whole_step_may_be_a_float(tmp_path):
    state, optimizer = training_state(golden_config())
    prefix = write(tmp_path / "model.ckpt-1", values_of(state) | {"global_step": np.float32(7)})
    loading.restore(prefix, state)
    assert optimizer.iterations.numpy() == loading.step_in(prefix) == 7


def object_graph_with_an_absent_child():
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.nodes.add().children.add(local_name="variables", node_id=99)
    return graph.SerializeToString()


@pytest.mark.parametrize(
    "graph", [b"\xff\xff\xff", 1.0, b"", object_graph_with_an_absent_child()]
)  # no message, no bytes, no objects, an object too few
def test_a_damaged_object_graph_is_named(graph, tmp_path):
    value = np.array(graph, object if isinstance(graph, bytes) else np.float32)
    prefix = write(tmp_path / "model.ckpt", read(BASE) | {"_CHECKPOINTABLE_OBJECT_GRAPH": value})
    with pytest.raises(UserError, match=f"cannot read {prefix}: the files are damaged"):
        readers.TensorFlowReader(prefix)


# --- Copying ------------------------------------------------------------------------------------


def test_a_copy_can_be_loaded_and_replaces_the_one_before(tmp_path):
    target = str(tmp_path / "best" / run_directory.BEST)
    for seed in (1, 2):
        state, _ = training_state(golden_config())
        scramble(state, seed)
        prefix = save(state, tmp_path, seed)
        pairs = run_directory.copy(prefix, target)
        suffixes = [".data-00000-of-00001", ".index"]
        assert pairs == [(prefix + suffix, target + suffix) for suffix in suffixes]
        other, _ = training_state(golden_config())
        loading.restore(target, other)
        assert_same(values_of(other), values_of(state))
    left = {path.name for path in (tmp_path / "best").iterdir()}
    assert left == {run_directory.BEST + suffix for suffix in suffixes}


def test_a_copy_takes_all_shards_and_nothing_else(tmp_path):
    names = [
        "model.ckpt-1.index",
        "model.ckpt-1.data-00000-of-00002",
        "model.ckpt-1.data-00001-of-00002",
        "model.ckpt-1.data-00000-of-00002.tmp7",
        "model.ckpt-10.data-00000-of-00001",
    ]
    for name in names:
        (tmp_path / name).write_text(name)
    pairs = run_directory.copy(str(tmp_path / "model.ckpt-1"), str(tmp_path / "b"))
    copied = [Path(target) for _, target in pairs]
    # The index comes last: what looks for a checkpoint looks for it.
    assert [path.name for path in copied] == [
        "b.data-00000-of-00002", "b.data-00001-of-00002", "b.index"
    ]  # fmt: skip
    assert [path.read_text() for path in copied] == [*names[1:3], names[0]]
    assert len(list(tmp_path.iterdir())) == len(names) + 3


def test_a_copy_that_fails_leaves_the_one_before(tmp_path):
    prefix = write(tmp_path / "model.ckpt-1", {"x": np.float32(1)})
    target = str(tmp_path / run_directory.BEST)
    run_directory.copy(prefix, target)
    (tmp_path / "model.ckpt-2.data-00000-of-00001").write_text("without an index")
    with pytest.raises(tf.errors.NotFoundError):
        run_directory.copy(str(tmp_path / "model.ckpt-2"), target)
    assert read(target) == {"x": 1}
    assert not [path.name for path in tmp_path.iterdir() if ".tmp" in path.name]
