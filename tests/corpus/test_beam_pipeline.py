# SPDX-License-Identifier: Apache-2.0
"""Records made by Apache Beam are those made without it. `make test-beam` has what this needs."""

import importlib.util
import os
import sys

import numpy as np
import pytest

import create_pretraining_data
from albert_tf.corpus import text_files, unpacking
from albert_tf.corpus.instances import Settings
from albert_tf.options import Selection
from tests.corpus.small_corpora import MODEL, contents, make, write_text
from tests.errors import assert_says, refuses

TWO_PROCESSES = {
    "DirectRunner": ["direct_num_workers=2", "--direct_running_mode=multi_processing"],
    "DaskRunner": ["dask_npartitions=4"],
}

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="needs Apache Beam, which the default requirements lack: make test-beam",
)


@pytest.fixture
def sources(tmp_path):
    """Three files, with documents that go on from one to the next."""
    rng = np.random.default_rng(0)
    return [write_text(tmp_path / f"in-{n}.txt", rng, 300) for n in range(3)]


@pytest.fixture
def small_parts(monkeypatch):
    """Text in chunks of 500 bytes and tokens in parts of 2 chunks; pairs go across their ends."""
    from albert_tf.corpus import beam_pipeline

    monkeypatch.setattr(unpacking, "_BLOCK_BYTES", 500)
    monkeypatch.setattr(beam_pipeline, "_CHUNKS_PER_PART", 2)


def beam_runner(runner="DirectRunner", options=()):
    from albert_tf.corpus import beam_pipeline

    return beam_pipeline.BeamRunner(runner, options)


def assert_same(sources, tmp_path, tokenizer, runner, **options):
    """Files and figures with and without Beam are the same, and nothing else is left behind."""
    wanted, first = make(sources, tmp_path / "local", tokenizer, **options)
    found, second = make(sources, tmp_path / "beam", tokenizer, runner=runner, **options)
    assert contents(first) == contents(second)
    assert found.as_json() | {"seconds": 0} == wanted.as_json() | {"seconds": 0}
    names = [sorted(os.listdir(tmp_path / name)) for name in ("local", "beam")]
    assert names[0] == names[1]


def test_local_runs_do_not_import_beam(sources, tmp_path, run_main, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # an import fails
    monkeypatch.delitem(sys.modules, "albert_tf.corpus.beam_pipeline", raising=False)
    flags = {"input_file": sources[0], "output_file": tmp_path / "out", "spm_model_file": MODEL}
    run_main(create_pretraining_data, **flags, max_seq_length=24, dupe_factor=1)
    assert (tmp_path / "out").exists()
    assert "albert_tf.corpus.beam_pipeline" not in sys.modules
    with refuses("'albert_tf[beam]'"):
        run_main(create_pretraining_data, **flags, runner="DirectRunner")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"beam_pipeline_options": "a=1"}, "--beam_pipeline_options ... --runner"),
        ({"runner": "DirectRunner", "num_workers": 2}, "--num_workers"),
    ],
)
def test_flags_that_do_not_fit(sources, tmp_path, run_main, flags, message):
    flags |= {"input_file": sources[0], "output_file": tmp_path / "out", "spm_model_file": MODEL}
    with refuses(message):
        run_main(create_pretraining_data, **flags)


@needs_beam
def test_the_records_are_the_same(sources, tmp_path, tokenizer, small_parts):
    assert_same(sources, tmp_path, tokenizer, beam_runner())


@needs_beam
@pytest.mark.parametrize(
    "options",
    [
        {"names": "a.gz, b", "settings": Settings(max_seq_length=40, random_next_sentence=True)},
        {"names": "out@50", "settings": Settings(max_seq_length=512, dupe_factor=1)},
        {"form": text_files.Format(file_is_document=True)},
        {"settings": Settings(max_seq_length=24, sentence_pairs="none", line_overlap=4)},
        {"settings": Settings(max_seq_length=24, max_line_length=7, masked_lm_prob=0.0)},
    ],
    ids=["compressed", "more files", "files are documents", "one segment", "long lines"],
)
def test_other_settings(sources, tmp_path, tokenizer, options):
    assert_same(sources, tmp_path, tokenizer, beam_runner(), **options)


@needs_beam
@pytest.mark.parametrize(
    "selection",
    [
        Selection(drop_duplicates=True, heldout_fraction=0.2),
        Selection(drop_near_duplicates=0.8, heldout_fraction=0.2),
    ],
    ids=["repeated", "nearly repeated"],
)
def test_documents_are_dropped_and_held_out(tmp_path, tokenizer, small_parts, selection):
    documents = [f"holmes said {n} things .\nhe was {n} years old" for n in range(600)]
    longer = [" ".join(f"holmes was {n} {m} ." for m in range(20)) for n in range(30)]
    copies = [f"{text} indeed" for text in longer[:8]]
    source = tmp_path / "in.txt"
    source.write_text("\n\n".join([*documents, *longer, *documents[:40], *copies]))
    summaries = {}
    for name, runner in {"local": None, "beam": beam_runner()}.items():
        options = {"selection": selection, "heldout_outputs": [f"{tmp_path}/{name}/heldout"]}
        summary, paths = make([str(source)], tmp_path / name, tokenizer, runner=runner, **options)
        written = contents([*paths, *options["heldout_outputs"]])
        dropped = summary.counts["documents_dropped"], summary.counts["near_duplicates_dropped"]
        summaries[name] = written, dropped
        assert len(os.listdir(tmp_path / name)) == 6
    assert summaries["local"] == summaries["beam"]
    assert dropped[0] == 40
    assert dropped[1] >= 8 or not selection.drop_near_duplicates


@needs_beam
def test_finished_files_and_the_text_are_kept(sources, tmp_path, tokenizer, monkeypatch):
    work = {"work_directory": str(tmp_path / "work"), "runner": beam_runner()}
    _, paths = make(sources, tmp_path / "out", tokenizer, **work)
    wanted = contents(paths)
    os.remove(paths[1])
    monkeypatch.setattr(type(work["runner"]), "write_corpus", None)
    summary, paths = make(sources, tmp_path / "out", tokenizer, **work)
    assert summary.counts["files_kept"] == 2
    assert contents(paths) == wanted


@needs_beam
def test_bad_text_is_one_clear_error(sources, tmp_path, tokenizer):
    with open(sources[1], "ab") as file:
        file.write(b"\n\xff\n")
    with refuses("in-1.txt ... UTF-8"):
        make(sources, tmp_path / "out", tokenizer, runner=beam_runner())
    assert os.listdir(tmp_path / "out") == []
    empty = tmp_path / "empty.txt"
    for nothing in ("", "\n\n"):
        empty.write_text(nothing)
        with refuses("empty.txt"):
            make([str(empty)], tmp_path / "out", tokenizer, runner=beam_runner())
    assert os.listdir(tmp_path / "out") == []


@needs_beam
def test_options(sources, tmp_path, tokenizer, capsys):
    with refuses("--runner=NoRunner"):
        beam_runner("NoRunner")
    with refuses("=x ... --direct_num_workers"):
        beam_runner(options=["direct_num_workers=x"])
    beam_runner("FlinkRunner", ["parallelism=2", "of_the_cluster=3"])
    assert_says(capsys.readouterr().out, "of_the_cluster")
    with refuses("--runner ... ValueError"):  # a needed option
        make(sources, tmp_path, tokenizer, runner=beam_runner("DataflowRunner"))


@needs_beam
@pytest.mark.long
@pytest.mark.parametrize(
    "runner", ["DirectRunner", pytest.param("DaskRunner", marks=pytest.mark.slow)]
)
def test_several_processes(sources, tmp_path, tokenizer, runner):
    runner = beam_runner(runner, TWO_PROCESSES[runner])
    assert_same(sources, tmp_path, tokenizer, runner)
    with open(sources[1], "ab") as file:
        file.write(b"\n\xff\n")
    with refuses("in-1.txt ... UTF-8"):
        make(sources, tmp_path / "bad", tokenizer, runner=runner)
    assert os.listdir(tmp_path / "bad") == []
