# SPDX-License-Identifier: Apache-2.0
"""Trainings copied for longer sequences, and with two groups of layers."""

import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import readers
from experiments import grow
from tests import tiny
from tests.errors import refuses

TEXTS = ["he walked out", "a dog and two cats"]


@pytest.fixture
def release(tmp_path):
    """A training of two layers that share their parameters."""
    (tmp_path / "release").mkdir()
    return sources_of_training(tmp_path / "release", tiny.WIDE)


def sources_of_training(directory, config):
    """A training with random weights and its record; returns its directory."""
    tiny.write_release(directory, config=config)
    tiny.write_record(directory, tiny.VOCABULARY, config, max_seq_length=8)
    return directory


def grown(release, kind, *flags):
    """Weights of a training before and after it was copied."""
    output = release.parent / kind
    line = grow.main([kind, str(release), str(output), *flags])
    assert line == f"wrote {output}/model.ckpt-best"
    record = json.loads((output / "run.json").read_text())
    assert record["text"] == {"max_seq_length": 8}
    readers_ = [readers.open_reader(str(path / "model.ckpt-best")) for path in (release, output)]
    before, after = ({name: reader[name] for name in reader.shapes} for reader in readers_)
    sizes = [values.size for name, values in after.items() if name != "global_step"]
    assert record["parameter_count"] == sum(sizes)
    return before, after


def test_each_position_gets_that_of_as_many_places_before():
    positions = np.arange(11)[:, None] * [1, 10]
    found = grow.repeated(positions, 4)
    assert found[:, 0].tolist() == [0, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2]
    assert (found[:, 1] == 10 * found[:, 0]).all()


@pytest.mark.parametrize("length", [None, 11, 12])
def test_a_length_that_leaves_nothing_to_repeat_is_an_error(length):
    with refuses(f"max_seq_length={length} ... 11"):
        grow.repeated(np.zeros([11, 2]), length)


def test_a_copy_for_longer_sequences_differs_in_positions_only(release):
    before, after = grown(release, "positions")
    different = [name for name in before if not np.array_equal(before[name], after[name])]
    assert set(before) == set(after) and different == [grow.POSITIONS]
    np.testing.assert_array_equal(after[grow.POSITIONS][9:16], before[grow.POSITIONS][1:8])
    path = release.parent / "positions" / "albert_config.json"
    config = albert_tf.AlbertConfig.from_json_file(str(path))
    assert config.max_position_embeddings == len(after[grow.POSITIONS])


@pytest.mark.long
def test_two_groups_of_all_units_compute_the_same(release):
    size = tiny.WIDE["intermediate_size"]
    grown(release, "groups", f"--units={size}")
    shared, two = (albert_tf.load(str(path)) for path in (release, release.parent / "groups"))
    assert two.config.num_hidden_groups == 2
    np.testing.assert_allclose(two.embed(TEXTS), shared.embed(TEXTS), atol=1e-6)


@pytest.mark.long
def test_each_group_keeps_the_units_that_contribute_most_to_its_layers(release):
    size = tiny.WIDE["intermediate_size"]
    loaded = albert_tf.load(str(release))
    before, after = grown(release, "groups", f"--units={size // 2}")
    sentences = grow.SENTENCES.read_text().splitlines()
    found = grow.contributions(loaded, sentences)
    for group in (0, 1):
        kept = np.sort(np.argsort(-found[group])[: size // 2])
        name = "bert/encoder/transformer/group_{}/inner_group_0/ffn_1/intermediate/{}"
        for part, axis in (("dense/kernel", 1), ("dense/bias", 0), ("output/dense/kernel", 0)):
            np.testing.assert_array_equal(
                after[name.format(group, part)], before[name.format(0, part)].take(kept, axis)
            )
    assert (found[0] != found[1]).any()


def test_contributions_add_up_to_the_outputs_of_the_block(release):
    """With one unit at a time, the block's product is that unit's share of it."""
    loaded = albert_tf.load(str(release))
    block = loaded.model.encoder.ffn_blocks[0]
    kernel = block.output_dense.kernel.numpy()
    found = grow.contributions(loaded, TEXTS)
    block.output_dense.kernel.assign(tf.zeros_like(kernel))  # changes the second layer's input
    without = grow.contributions(loaded, TEXTS)
    assert (found > 0).any() and not without.any()
    block.output_dense.kernel.assign(2 * kernel)
    np.testing.assert_allclose(grow.contributions(loaded, TEXTS)[0], 4 * found[0], rtol=1e-4)


@pytest.mark.parametrize("units", [0, 10**6])
def test_a_number_of_units_that_the_model_lacks_is_an_error(release, units):
    with refuses(f"--units={units} ... 1 ... intermediate_size"):
        grown(release, "groups", f"--units={units}")


def test_what_cannot_be_copied_is_an_error(release):
    (release.parent / "groups").mkdir()
    with refuses("/groups"):
        grown(release, "groups", "--units=8")
    (release / "run.json").unlink()
    with refuses("model.ckpt-best ... run.json ... albert_config"):
        grown(release, "positions")


def test_groups_of_a_model_that_has_groups_are_an_error(tmp_path):
    release = sources_of_training(tmp_path, tiny.WIDE | {"num_hidden_groups": 2})
    with refuses("parameters"):
        grown(release, "groups", "--units=4")
