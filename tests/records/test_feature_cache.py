# SPDX-License-Identifier: Apache-2.0
"""Record files of features: made once, and again if settings or input change."""

import concurrent.futures
import json
import math
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import feature_cache, input_pipeline, schemas
from tests.errors import assert_names, assert_says, refuses

SCHEMA = {"x": schemas.FeatureSpec(tf.int64, 2)}
BATCHES = [{"x": np.array([[1, 2], [3, 4]])}, {"x": np.array([[5, 6]])}]


@pytest.fixture
def cache(tmp_path, capsys):
    """Calls cached_records; returns (Cache, whether it was made, what was printed)."""
    source = tmp_path / "source.tsv"
    source.write_text("text\n")
    path = str(tmp_path / "cola_train.tf_record")

    def call(settings=None, schema=SCHEMA, batches=BATCHES, **options):
        made = []

        def make(cache):
            made.append(True)
            cache.counts["left_out"] = 7
            return batches

        settings = {"task": "cola", "lengths": (1, 2)} if settings is None else settings
        found = feature_cache.cached_records(path, schema, settings, [str(source)], make, **options)
        return found, bool(made), capsys.readouterr().out

    call.path, call.source = Path(path), source
    return call


def test_cache_is_made_and_used_again(cache):
    first, made, said = cache()
    assert made
    assert (first.path, first.counts) == (str(cache.path), {"left_out": 7})
    assert_names(said, cache.path)
    sidecar = json.loads(Path(f"{cache.path}.meta.json").read_text())
    assert (sidecar["records"], sidecar["task"]) == (3, "cola")
    (batch,) = input_pipeline.eval_dataset([str(cache.path)], SCHEMA, 3)
    assert batch["x"].numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    *again, said = cache()
    assert again == [first, False]
    assert_names(said, f"{cache.path} ... 3")


def test_cache_is_made_again_for_other_settings_input_or_content(cache):
    def is_made_for(named, *given):
        _, made, said = cache(*given)
        assert made
        assert_names(said, named)

    cache()
    settings = {"task": "cola", "lengths": (1, 3), "do_lower_case": True}
    is_made_for("do_lower_case", settings)
    assert not cache(settings)[1]
    wide = {"x": schemas.FeatureSpec(tf.int64, 3)}
    is_made_for("schema", settings, wide, [{"x": np.ones([1, 3], int)}])
    cache()
    cache.source.write_text("other")
    is_made_for("input_sha256")
    cache.path.write_bytes(b"something else")
    is_made_for(".meta.json")


def test_cache_without_or_with_damaged_sidecar(cache):
    cache()
    sidecar = Path(f"{cache.path}.meta.json")
    good = json.loads(sidecar.read_text())
    changes = [{"bytes": "x"}, {"bytes": math.nan}, {"records": True}, {"records": None}]
    changes += [{"counts": []}, {"counts": {"left_out": "7"}}]
    damaged = [json.dumps(good | change) for change in changes]
    for content in (None, "", "{", "[]", "[" * 100_000, '"\xff"', "9" * 5000, *damaged):
        sidecar.unlink()
        if content is not None:
            sidecar.write_text(content, encoding="latin-1")
        _, made, said = cache()
        assert made, content
        assert_names(said, ".meta.json")
    sidecar.write_text(json.dumps({"counts": {}, "bytes": 1, "records": 1}))
    assert_says(cache()[2], "input_sha256")


def test_cache_with_settings_in_its_name(cache):
    """Another use makes another file; a file that a process may be reading does not change."""
    first, made, _ = cache(add_key=True)
    assert made and re.fullmatch(r"cola_train-[0-9a-f]{8}\.tf_record", Path(first.path).name)
    before = Path(first.path).stat()
    second, made, said = cache({"task": "rte"}, batches=BATCHES[:1], add_key=True)
    assert made and second.path != first.path and second.path in said
    cache.source.write_text("other")
    third, made, _ = cache(add_key=True)
    assert made and len({first.path, second.path, third.path}) == 3
    assert Path(first.path).stat() == before
    assert not cache.path.exists()


def make_cache(path, source, barrier):
    """Makes a cache as soon as the others are ready; its arrays."""

    def make(_):
        barrier.wait()
        return BATCHES

    made = feature_cache.cached_records(path, SCHEMA, {}, [source], make, add_key=True)
    barrier.wait()
    return input_pipeline.load_arrays(made.path, SCHEMA)["x"].tolist()


def test_caches_made_at_the_same_time(tmp_path):
    source = tmp_path / "source.tsv"
    source.write_text("text\n")
    barrier = threading.Barrier(4)
    given = str(tmp_path / "c.tf_record"), str(source), barrier
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(make_cache, *given) for _ in range(4)]
        arrays = [call.result(timeout=60) for call in calls]
    assert arrays == [[[1, 2], [3, 4], [5, 6]]] * 4
    assert len(list(tmp_path.iterdir())) == 3  # source, records, sidecar


def test_cache_whose_records_are_damaged(cache):
    """Name, sidecar and length fit: the file is named, and what to do."""
    cache()
    good = bytearray(cache.path.read_bytes())
    for place, message in ((20, "TFRecord"), (-8, "")):
        bad = good.copy()
        bad[place] ^= 255
        cache.path.write_bytes(bad)
        with refuses(f"{cache.path} ... {message}"):
            cache()
            input_pipeline.load_arrays(str(cache.path), SCHEMA)


def test_failed_cache_leaves_nothing_that_could_be_used(cache):
    cache()

    def broken():
        yield BATCHES[0]
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        cache(settings={}, batches=broken())
    folder = cache.path.parent
    assert sorted(path.name for path in folder.iterdir()) == [cache.path.name, "source.tsv"]
    _, made, _ = cache()
    assert made


def test_cache_of_nothing_or_of_missing_input(cache):
    with refuses("cola_train.tf_record"):
        cache(batches=[])
    cache.source.unlink()
    with refuses("source.tsv"):
        cache()
    assert not cache.path.exists()


@pytest.mark.parametrize("content", ['{"question": "Who?"}\n' * 9, "id\ttext\n1\tgood\n"])
def test_data_of_a_user_are_not_replaced(content, cache):
    cache.path.write_text(content)
    with refuses(f"{cache.path} is no file of features"):
        cache()
    assert cache.path.read_text() == content
