# SPDX-License-Identifier: Apache-2.0
"""Position embeddings repeated for longer sequences."""

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import readers
from albert_tf.errors import UserError
from experiments import repeat_positions
from tests.api import sources


def test_each_position_gets_that_of_as_many_places_before():
    positions = np.arange(11)[:, None] * [1, 10]
    found = repeat_positions.repeated(positions, 4)
    assert found[:, 0].tolist() == [0, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2]
    assert (found[:, 1] == 10 * found[:, 0]).all()


@pytest.mark.parametrize("length", [1, 11, 12])
def test_a_length_that_leaves_nothing_to_repeat_is_an_error(length):
    with pytest.raises(UserError, match=rf"^LENGTH={length}: give 2 to 10, because"):
        repeat_positions.repeated(np.zeros([11, 2]), length)


def test_the_copy_differs_in_positions_only(tmp_path):
    (tmp_path / "release").mkdir()
    release = sources.write_release(tmp_path / "release")
    (release / "run.json").write_text("{}")
    line = repeat_positions.main([str(release), "8", str(tmp_path / "longer")])
    assert line == (
        f"wrote {tmp_path}/longer/model.ckpt-best: positions from 8 on repeat those before"
    )
    before, after = (
        readers.open_reader(str(path / "model.ckpt-best"))
        for path in (release, tmp_path / "longer")
    )
    assert set(before.shapes) == set(after.shapes)
    different = [name for name in before.shapes if not np.array_equal(before[name], after[name])]
    assert different == [repeat_positions.NAME]
    positions = after[repeat_positions.NAME]
    np.testing.assert_array_equal(positions[9:16], before[repeat_positions.NAME][1:8])
    assert (tmp_path / "longer" / "run.json").read_text() == "{}"
    assert albert_tf.AlbertConfig.from_json_file(
        str(tmp_path / "longer" / "albert_config.json")
    ).max_position_embeddings == len(positions)
