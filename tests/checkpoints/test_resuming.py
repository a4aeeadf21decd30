# SPDX-License-Identifier: Apache-2.0
"""A training run's whole state comes back from its checkpoints, or not at all."""

import json

import numpy as np
import pytest
from tensorflow.core.protobuf import trackable_object_graph_pb2

from albert_tf.checkpoints import loading, name_table, readers, run_directory
from albert_tf.model import optimization
from tests import GOLDEN
from tests.checkpoints.golden_models import (
    BASE,
    assert_same,
    golden_config,
    read,
    save,
    scramble,
    training_state,
    values_of,
    write,
)
from tests.errors import refuses


@pytest.mark.parametrize("kind", optimization.OPTIMIZERS.values())
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


def test_moments_of_the_pooler_may_be_missing_if_nothing_reads_it(tmp_path):
    """The original has none in runs of SQuAD."""
    state, _ = training_state(golden_config())
    optional = {n: v for n, v in state.items() if name_table.is_slot_of_pooler(n)}
    assert sorted(optional) == [
        f"bert/pooler/dense/{name}/{slot}"
        for name in ("bias", "kernel")
        for slot in ("adam_m", "adam_v")
    ]
    kept = {name: variable for name, variable in state.items() if name not in optional}
    prefix = write(tmp_path / "model.ckpt-1", values_of(kept))
    with refuses("4 ... 97"):
        loading.restore(prefix, state)
    loading.restore(prefix, state, optional)


@pytest.mark.parametrize("lacking", [1, 5])
def test_a_state_that_lacks_something_is_not_resumed(lacking, tmp_path):
    state, _ = training_state(golden_config())
    gone = list(state)[40 : 40 + lacking]
    kept = {name: variable for name, variable in state.items() if name not in gone}
    prefix = write(tmp_path / "model.ckpt-1", values_of(kept))
    before = values_of(state)
    listed = gone[0] if lacking == 1 else f"{gone[0]}, {gone[1]}, {gone[2]}, ..."
    with refuses(f"{prefix} ... {lacking} ... 97 ... ({listed}) ... --init_checkpoint"):
        loading.restore(prefix, state)
    assert_same(values_of(state), before)


def test_a_state_of_another_shape_is_not_resumed(tmp_path):
    state, _ = training_state(golden_config())
    prefix = save(state, tmp_path, 1)
    other, _ = training_state(golden_config(vocab_size=301))
    before = values_of(other)
    shapes = "bert/embeddings/word_embeddings ... [300, 16] ... [301, 16]"
    with refuses(f"{prefix} ... {shapes} ... --albert_config_file"):
        loading.restore(prefix, other)
    assert_same(values_of(other), before)


@pytest.mark.parametrize("name", ["bert/pooler/dense/kernel", "bert/pooler/dense/kernel/adam_v"])
def test_a_state_with_nan_is_not_resumed(name, tmp_path):
    state, _ = training_state(golden_config())
    tensors = values_of(state)
    tensors[name] = np.full_like(tensors[name], np.nan)
    prefix = write(tmp_path / "model.ckpt-1", tensors)
    with refuses(f"{name} ... {prefix}"):
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
    with refuses(f"global_step ... {prefix}"):
        loading.step_in(prefix)
    with refuses(prefix):
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
    with refuses(prefix):
        readers.TensorFlowReader(prefix)
