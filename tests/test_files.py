# SPDX-License-Identifier: Apache-2.0
"""Files are whole or not there, and a directory that cannot be written is named in time."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf import files
from albert_tf.errors import one_line, parse_json
from tests.errors import refuses


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def test_text_is_written_and_read(tmp_path, monkeypatch):
    path = str(tmp_path / "new" / "deep" / "results.txt")
    files.write_text(path, "x = 1\né\n")
    assert files.read_text(path) == "x = 1\né\n"
    files.write_text(path, "shorter")
    assert files.read_text(path) == "shorter"
    assert names_in(tmp_path / "new" / "deep") == ["results.txt"]
    assert files.read_text(str(tmp_path / "none.txt")) == ""
    monkeypatch.chdir(tmp_path / "new")
    files.write_text("here.txt", "text")  # a name without a directory
    assert names_in(tmp_path / "new") == ["deep", "here.txt"]


def test_nothing_is_in_place_before_the_block_ends(tmp_path):
    """The temporary names are hidden and match no pattern of the final ones."""
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("old")
    with files.replacing(str(old), str(new)) as temporary:
        assert len(temporary) == 2
        for name in temporary:
            assert name.startswith(f"{tmp_path}/.") and not name.endswith(".txt")
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


def test_a_directory_at_the_place_of_a_file_is_named(tmp_path):
    path = tmp_path / "run.json"
    (path / "kept").mkdir(parents=True)
    with refuses(path):
        files.write_text(str(path), "text")
    assert names_in(tmp_path) == ["run.json"] and names_in(path) == ["kept"]


def test_a_directory_that_cannot_be_made_or_written_is_named(tmp_path):
    (tmp_path / "file").write_text("a regular file")
    below_a_file = str(tmp_path / "file" / "below")  # not even root can make a directory there
    with refuses(below_a_file):
        files.make_directory(below_a_file)
    with refuses(below_a_file):
        files.write_text(f"{below_a_file}/results.txt", "text")
    for path in (below_a_file, tmp_path / "file"):
        with refuses(f"--output_dir={path}"):
            files.check_writable(str(path), "output_dir")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a directory without files")
def test_a_directory_that_takes_no_file_is_named():
    with refuses("--output_dir=/proc is"):
        files.check_writable("/proc", "output_dir")


def test_a_writable_directory_is_made_if_it_is_not_there_and_left_empty(tmp_path):
    for _ in range(2):
        files.check_writable(str(tmp_path / "new" / "output"), "output_dir")
    assert names_in(tmp_path / "new" / "output") == []


def test_a_name_that_tensorflow_would_take_for_a_pattern(tmp_path):
    for name in ("lr*", "lr?", "lr[0.1]"):
        path = str(tmp_path / name)
        with refuses(f"--output_dir={path} ... {name[2]}"):
            files.check_writable(path, "output_dir")
    # The reason: what was written there cannot be read.
    files.make_directory(path)
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(f"{path}/model.ckpt")
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.load_checkpoint(f"{path}/model.ckpt")


# --- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, message",
    [
        *((content, "JSON") for content in (
            b"[" * 100_000, b'{"a": ' * 100_000, b'{"a": ', b"", b'{"a": "\xff"}', b"1" * 5000)),
        (b'{"a": NaN}', "NaN"), (b'{"a": [-Infinity]}', "-Infinity"),
    ],
)  # fmt: skip
def test_json_that_cannot_be_read_is_named(content, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with refuses(f"{path} ... {message}"):
        files.read_json(str(path))


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_json_is_read_from_text_and_bytes(start):
    text = start + '{"a": "é"}'
    assert parse_json(text, "here") == parse_json(text.encode(), "here") == {"a": "é"}


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path):
    (tmp_path / "spiece.model").write_text("version https://git-lfs.github.com/spec/v1\noid sha2")
    with refuses("spiece.model ... git lfs pull"):
        files.read_bytes(str(tmp_path / "spiece.model"))
    for read in (files.read_json, files.read_bytes):
        with refuses("nowhere.json"):
            read(str(tmp_path / "nowhere.json"))
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe")
    with refuses("labels.txt ... UTF-8"):
        files.read_text(str(tmp_path / "labels.txt"))


@pytest.mark.parametrize(
    "message, shown",
    [
        ("truncated record at 1532", "truncated record at 1532"),
        ("{{function_node __wrapped__X_device_/d:0}} truncated [Op:X] name: ", "truncated"),
        ("2 root error(s)\n  (0) index 9 is not in [0, 3)\n\t [[{{node gather}}]]\n more",
         "(0) index 9 is not in [0, 3)"),
        ("", "InvalidArgumentError"),
    ],
)  # fmt: skip
def test_what_tensorflow_says_is_told_in_a_line(message, shown):
    assert one_line(tf.errors.InvalidArgumentError(None, None, message)) == shown


# --- Temporary files --------------------------------------------------------------------------


@pytest.fixture
def dead_process():
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def leftover_of(process, run="0123abcd", ending="", host=files._HOST):
    return f".albert_tf-{host}-{process}-{run}-7.tmp{ending}"


def test_leftovers_of_processes_that_ended_are_removed(tmp_path, dead_process):
    (tmp_path / leftover_of(dead_process)).write_text("half")
    (tmp_path / leftover_of(dead_process, ending=".index")).write_text("half")
    (tmp_path / leftover_of(dead_process, run="ffff0000")).mkdir()
    # the same process id as ours, of a process before us
    (tmp_path / leftover_of(os.getpid())).write_text("half")
    kept = {
        leftover_of(os.getppid()),  # runs
        leftover_of(dead_process, host="elsewhere"),  # nobody can tell
        "model.tmp",
        "results.txt",
    }
    for name in kept:
        (tmp_path / name).write_text("x")
    files.write_text(str(tmp_path / "results.txt"), "new")
    assert set(names_in(tmp_path)) == kept


def test_leftovers_of_other_hosts_and_reused_process_ids_are_removed_after_a_day(tmp_path):
    other, alive = leftover_of(7, host="elsewhere"), leftover_of(os.getppid())
    written = leftover_of(8, host="elsewhere")
    for name in (other, written):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part").write_text("half")
    (tmp_path / alive).write_text("half")
    old = time.time() - 25 * 3600
    for path in (tmp_path / other / "part", tmp_path / other, tmp_path / written, tmp_path / alive):
        os.utime(path, (old, old))
    files.remove_leftovers(str(tmp_path))
    assert names_in(tmp_path) == [written]  # a file in it is new


def test_a_directory_is_whole_or_not_there(tmp_path):
    path = tmp_path / "module"
    with pytest.raises(RuntimeError), files.replacing_directory(str(path)) as directory:
        files.write_text(os.path.join(directory, "a.txt"), "a")
        raise RuntimeError
    assert names_in(tmp_path) == []
    with files.replacing_directory(str(path)) as directory:
        files.write_text(os.path.join(directory, "a.txt"), "a")
    assert names_in(tmp_path) == ["module"]
    assert names_in(path) == ["a.txt"]


def test_a_file_that_can_be_written_is_left_alone(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_text("old")
    files.check_file_writable(str(path), "output_file")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with refuses("--output_file"):
        files.check_file_writable(str(tmp_path), "output_file")
    below = path / "below_a_file"
    with refuses(f"--output_file={below}: {path} is"):
        files.check_file_writable(str(below), "output_file")
    (tmp_path / "link").symlink_to(path)
    with refuses(f"--output_file: {tmp_path / 'link'}"):
        files.check_file_writable(str(tmp_path / "link"), "output_file", ["gs://x", str(path)])


def test_expand_patterns(tmp_path):
    for name in ("b1", "a2", "a1", "c1", "c[1]"):
        (tmp_path / name).touch()
    patterns = f"{tmp_path}/b*, {tmp_path}/a*,"
    (tmp_path / "a3" / "deep").mkdir(parents=True)
    names = [Path(path).name for path in files.expand_patterns(patterns, "input_file")]
    assert names == ["b1", "a1", "a2"]
    assert files.expand_patterns(f"{tmp_path}/c[1]", "input_file") == [f"{tmp_path}/c[1]"]
    (tmp_path / "a3" / "deep" / "text").touch()
    (tmp_path / "a3" / "a, b").touch()
    assert len(files.expand_patterns(f"{tmp_path}/**/*", "input_file")) == 7
    wrong = {
        f"{tmp_path}/a3/a, b": " ... a3/a' ... ?",
        f"{tmp_path}/{{a1,a2}}": " ... {a1' ... braces",
        f"{tmp_path}/a1,{tmp_path}/d*": " ... /d*'",
        f"{tmp_path}": f" ... '{tmp_path}/*'",
        f"{tmp_path}/a3/d**": f" ... '{tmp_path}/a3/deep/*'",
        " ,": "",
    }
    for patterns, named in wrong.items():
        with refuses(f"--input_file{named}"):
            files.expand_patterns(patterns, "input_file")


def test_hidden_files_match_only_patterns_with_a_dot(tmp_path):
    for name in ("out-1", ".out-2", ".albert_tf-host-1-ab-0.tmp", ".hidden/out-3"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    wanted = {"*out*": "out-1", ".out*": ".out-2"}
    for pattern, name in (wanted | dict.fromkeys((".hidden/*", ".h*/o*"), ".hidden/out-3")).items():
        found = files.expand_patterns(f"{tmp_path}/{pattern}", "input_file")
        assert found == [f"{tmp_path}/{name}"]
    for pattern in ("*/out*", "["):
        with refuses("--input_file"):
            files.expand_patterns(f"{tmp_path}/{pattern}", "input_file")


def test_a_directory_is_removed_whole_or_left_whole(tmp_path, monkeypatch):
    """Else a process that is killed meanwhile would leave a part under the name of the whole."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "part").write_text("x")

    def killed(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tf.io.gfile, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            files.remove(str(tmp_path / "made"))
    (left,) = tmp_path.iterdir()
    assert files._PATTERN.match(left.name) and (left / "part").exists()
    files.remove(str(left))
    assert not list(tmp_path.iterdir())
