# SPDX-License-Identifier: Apache-2.0
"""Files are whole or not there, and a directory that cannot be written is named in time."""

import pytest
import tensorflow as tf

from albert_tf import files


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def test_text_is_written_and_read(tmp_path):
    path = str(tmp_path / "new" / "deep" / "results.txt")
    files.write_text(path, "x = 1\né\n")
    assert files.read_text(path) == "x = 1\né\n"
    files.write_text(path, "shorter")
    assert files.read_text(path) == "shorter"
    assert names_in(tmp_path / "new" / "deep") == ["results.txt"]


def test_a_name_without_directory_lies_in_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.write_text("here.txt", "text")
    assert (tmp_path / "here.txt").read_text() == "text"
    assert names_in(tmp_path) == ["here.txt"]


def test_a_file_that_is_not_there_is_empty(tmp_path):
    assert files.read_text(str(tmp_path / "none.txt")) == ""


def test_nothing_is_in_place_before_the_block_ends(tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("old")
    with files.replacing(str(old), str(new)) as temporary:
        assert len(temporary) == 2
        for name in temporary:
            assert name.startswith(f"{tmp_path}/")
            with open(name, "w") as file:
                file.write("written")
        assert old.read_text() == "old"
        assert not new.exists()
    assert old.read_text() == new.read_text() == "written"
    assert names_in(tmp_path) == ["new.txt", "old.txt"]


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_all_as_it_was(kind, tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("old")
    with pytest.raises(kind), files.replacing(str(old), str(new)) as (first, _):
        with open(first, "w") as file:
            file.write("half")
        raise kind
    assert old.read_text() == "old"
    assert names_in(tmp_path) == ["old.txt"]


def test_a_file_that_was_not_written_is_an_error_and_leaves_nothing(tmp_path):
    with (
        pytest.raises(tf.errors.NotFoundError),
        files.replacing(str(tmp_path / "a"), str(tmp_path / "b")) as (_, second),
        open(second, "w") as file,
    ):
        file.write("b")
    assert names_in(tmp_path) == []


@pytest.fixture
def below_a_file(tmp_path):
    """A path where nobody can make a directory, not even root."""
    (tmp_path / "file").write_text("a regular file")
    return str(tmp_path / "file" / "below")


def test_a_directory_that_cannot_be_made_is_named(below_a_file):
    with pytest.raises(ValueError) as error:
        files.make_directory(below_a_file)
    assert str(error.value).startswith(f"cannot make the directory {below_a_file}: ")
    with pytest.raises(ValueError, match="cannot make the directory"):
        files.write_text(f"{below_a_file}/results.txt", "text")


def test_a_directory_may_be_there_already(tmp_path):
    for _ in range(2):
        files.make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_a_writable_directory_is_made_and_left_empty(tmp_path):
    files.check_writable(str(tmp_path / "output"), "output_dir")
    assert names_in(tmp_path / "output") == []


def test_a_directory_that_cannot_be_written_is_named(below_a_file, tmp_path):
    for path in (below_a_file, str(tmp_path / "file")):
        with pytest.raises(ValueError) as error:
            files.check_writable(path, "output_dir")
        assert str(error.value).startswith(f"--output_dir={path} is not writable: ")


def test_a_name_that_tensorflow_would_take_for_a_pattern(tmp_path):
    path = str(tmp_path / "lr[0.1]")
    with pytest.raises(ValueError) as error:
        files.check_writable(path, "output_dir")
    assert str(error.value).startswith(f"--output_dir={path} has a [ in its name")
    # The reason: what was written there cannot be read.
    files.make_directory(path)
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(f"{path}/model.ckpt")
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.load_checkpoint(f"{path}/model.ckpt")
