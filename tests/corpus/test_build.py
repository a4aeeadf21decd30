# SPDX-License-Identifier: Apache-2.0
"""Output files of create_pretraining_data: numbers, workers, going on, what is next to them."""

import collections
import dataclasses
import gzip
import json
import os

import numpy as np
import pytest

from albert_tf.corpus import build, corpus_files, corpus_summary, stages, text_files
from albert_tf.corpus.instances import Settings
from albert_tf.options import Selection
from albert_tf.records import record_files, schemas
from albert_tf.text import text_losses
from albert_tf.text.tokenization import FullTokenizer
from tests.corpus.small_corpora import SETTINGS, contents, make, summary_of, write_text
from tests.errors import assert_says, names, refuses
from tests.text import languages


@pytest.fixture
def source(tmp_path):
    return write_text(tmp_path / "in.txt", np.random.default_rng(0), 400)


@pytest.mark.long
@pytest.mark.parametrize("pairs", ["order", "none"])
def test_the_records_do_not_depend_on_the_number_of_workers(source, tmp_path, tokenizer, pairs):
    given = {"settings": dataclasses.replace(SETTINGS, sentence_pairs=pairs)}
    one, first = make(source, tmp_path / "one", tokenizer, **given)
    two, second = make(source, tmp_path / "two", tokenizer, num_workers=2, **given)
    assert contents(first) == contents(second)
    assert one.as_json() | {"seconds": 0} == two.as_json() | {"seconds": 0}
    names = {f"out-0000{n}-of-00003" for n in range(3)} | {"summary-out-00000-of-00003.json"}
    assert {path.name for path in (tmp_path / "two").iterdir()} == names


def test_compressed_files(source, tmp_path, tokenizer):
    _, plain = make(source, tmp_path, tokenizer, "a.tfrecord@2")
    _, packed = make(source, tmp_path, tokenizer, "b.tfrecord.gz@2")
    assert packed[1].endswith("b-00001-of-00002.tfrecord.gz")
    assert contents(plain) == [gzip.decompress(content) for content in contents(packed)]


def test_finished_files_and_the_text_are_kept(source, tmp_path, tokenizer, monkeypatch):
    _, wanted = make(source, tmp_path / "whole", tokenizer)
    writes = stages.RecordWriter.__call__

    def fail(writer, number, report):
        if number == 1:
            raise KeyboardInterrupt
        return writes(writer, number, report)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stages.RecordWriter, "__call__", fail)
        make(source, tmp_path / "again", tokenizer)
    assert [path.name for path in (tmp_path / "again").glob("out*")] == ["out-00000-of-00003"]
    with monkeypatch.context() as patch:
        patch.setattr(stages.LocalRunner, "write_corpus", None)
        summary, paths = make(source, tmp_path / "again", tokenizer)
    assert summary.counts["files_kept"] == 1
    assert "kept: 1 finished" in str(summary)
    assert contents(paths) == contents(wanted)
    assert not list((tmp_path / "again").glob(".*"))


def test_the_vocabulary_is_not_replaced(source, tmp_path, tokenizer):
    with refuses(f"--output_file ... {tokenizer.path}"):
        make(source, os.path.dirname(tokenizer.path), tokenizer, os.path.basename(tokenizer.path))


def test_a_second_start_disturbs_nothing(source, tmp_path, tokenizer, monkeypatch):
    """It is refused, at each stage of the first, which ends as if nothing had happened."""
    _, wanted = make(source, tmp_path / "whole", tokenizer)
    refused = []

    def start_again(stage):
        def staged(*arguments):
            with refuses(str(tmp_path)):
                make(source, tmp_path / "again", tokenizer)
            refused.append(stage)
            return stage(*arguments)

        return staged

    for name in ("write_corpus", "run", "write_records"):
        stage = getattr(stages.LocalRunner, name)
        monkeypatch.setattr(stages.LocalRunner, name, start_again(stage))
    _, paths = make(source, tmp_path / "again", tokenizer)
    assert len(refused) == 4  # "run" twice, for plans and records
    assert contents(paths) == contents(wanted)
    assert not list((tmp_path / "again").glob(".*"))


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: os.truncate(path, 3)])
def test_damage_in_the_work_directory_is_made_good(source, tmp_path, tokenizer, damage):
    options = {
        "selection": Selection(drop_near_duplicates=0.9, heldout_fraction=0.2),
        "heldout_outputs": [str(tmp_path / "heldout")],
        "work_directory": str(tmp_path / "work"),
    }
    _, paths = make(source, tmp_path, tokenizer, **options)
    wanted = contents(paths)
    state = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert len({path.name for path in state}) > 8
    for path in state:
        damage(path)
        for output in paths:
            os.remove(output)
        _, paths = make(source, tmp_path, tokenizer, **options)
        assert contents(paths) == wanted, path


def test_many_passes_need_few_files(source, tmp_path, tokenizer, monkeypatch):
    """Each plan is a mapped file, and a process may have 1,024 files by default."""
    settings = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=30)
    _, wanted = make(source, tmp_path / "many", tokenizer, settings=settings)
    monkeypatch.setattr(stages, "_MOST_PLANS", 7)
    work = {"work_directory": str(tmp_path / "work")}
    _, paths = make(source, tmp_path / "few", tokenizer, settings=settings, **work)
    assert len(list(tmp_path.glob("work/plans-*/*.bin"))) == 6
    assert contents(paths) == contents(wanted)


def test_other_text_or_settings_are_not_mixed_with_what_is_there(source, tmp_path, tokenizer):
    work = {"work_directory": str(tmp_path / "work")}

    def kept(settings):
        """Files that another start keeps, and texts in the work directory."""
        summary, _ = make(source, tmp_path / "out", tokenizer, settings=settings, **work)
        return summary.counts["files_kept"], len(list((tmp_path / "work").glob("corpus-*")))

    _, paths = make(source, tmp_path / "out", tokenizer, **work)
    assert kept(SETTINGS) == (3, 1)
    other = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=2)
    assert kept(other) == (0, 1)
    with open(source, "a") as file:
        file.write("\nanother line\n")
    assert kept(other) == (0, 2)
    before = contents(paths)
    with open(paths[1], "ab") as file:  # a file that changed is made again
        file.write(b"x")
    assert kept(other) == (2, 2)
    assert contents(paths) == before


def test_files_that_repeat_another_and_tables_are_named(tmp_path, tokenizer, capsys):
    for name, text in (("a", "one thing ."), ("b", "another ."), ("c", "one thing ."), ("d", "")):
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "e.csv").write_text("id,text")
    paths = [
        str(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt", "d.txt", "d.txt", "e.csv")
    ]
    build.create(paths, [str(tmp_path / "out")], tokenizer, Settings(dupe_factor=1))
    said = (
        f"1 of 6 ... {paths[2]} ... {paths[0]} ... --drop_dup",
        f"1 of 6 ... {paths[5]} ... jsonl",
    )
    assert_says(capsys.readouterr().out, *said)


def test_documents_are_dropped_and_held_out(tmp_path, tokenizer):
    documents = [f"holmes said {n} things .\nhe was {n} years old" for n in range(300)]
    repeated = [text.upper() + " " for text in documents[:40]]
    source = tmp_path / "in.txt"
    source.write_text("\n\n".join(documents + repeated))
    held_out = [str(tmp_path / "heldout")]
    options = {
        "selection": Selection(drop_duplicates=True, heldout_fraction=0.2),
        "heldout_outputs": held_out,
        "settings": Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=1),
    }
    summary, _ = make(str(source), tmp_path, tokenizer, "train", **options)
    assert summary.counts["documents_dropped"] == summary.held_out.counts["documents_dropped"] == 40
    assert_says(str(summary), "dropped ... 40")
    assert summary.counts["documents"] + summary.held_out.counts["documents"] == 300
    assert 30 < summary.held_out.counts["documents"] < 90
    assert "held out:" in str(summary)
    index = record_files.read_index([str(tmp_path / "train"), *held_out])
    assert [file.count for file in index] == [
        summary.counts["instances"],
        summary.held_out.counts["instances"],
    ]
    # In another order, the same documents are held out.
    source.write_text("\n\n".join(reversed(documents)))
    again, _ = make(str(source), tmp_path, tokenizer, "train", **options)
    assert again.held_out.counts["documents"] == summary.held_out.counts["documents"]
    assert again.held_out.counts["tokens"] == summary.held_out.counts["tokens"]


@pytest.mark.parametrize("most", [2, 100_000])
def test_each_part_counts_its_own_unknown_pieces(tmp_path, tokenizer, monkeypatch, most):
    monkeypatch.setattr(corpus_files, "_MOST_UNKNOWN", most)
    rare = ["ж", "щ", "ю", "猫"]
    documents = [f"holmes said {n} {rare[n % 4]} .\n{rare[n % 3]} was he" for n in range(60)]
    given = "\n\n".join(documents), tmp_path, tokenizer
    held_out = {"heldout_outputs": [str(tmp_path / "heldout")]}
    selection = Selection(heldout_fraction=0.3)
    summary = summary_of(*given, names="train", selection=selection, **held_out)
    whole = summary_of(*given, names="whole")
    parts = [summary.unknown, summary.held_out.unknown]
    assert parts[0] + parts[1] == whole.unknown
    for part in (summary, summary.held_out, whole):
        assert part.unknown.total() == 2 * part.counts["documents"]
        assert part.unknown_share == part.unknown.total() / part.counts["tokens"]
    if most > 4:
        assert whole.unknown == {"ж": 35, "щ": 35, "ю": 35, "猫": 15}
    else:
        assert set(whole.unknown) == {"", "ж", "щ"}


@pytest.mark.parametrize(
    ("fraction", "outputs", "message"),
    [
        (1.0, ["held"], "0 ... 1"),
        (1e-9, ["held"], "--heldout_fraction=1e-09"),
        (0.5, ["held", "held"], "--heldout_output_file"),
        (0.5, ["."], "--heldout_output_file"),
    ],
)
def test_heldout_flags_that_make_no_sense(source, tmp_path, tokenizer, fraction, outputs, message):
    outputs = [str(tmp_path / name) for name in outputs]
    with refuses(message):
        selection = Selection(heldout_fraction=fraction)
        make(source, tmp_path, tokenizer, selection=selection, heldout_outputs=outputs)
    assert not list(tmp_path.glob(".*"))


def test_more_files_than_records(tmp_path, tokenizer):
    with refuses("--output_file ... 64 ... 3"):
        summary_of("holmes said\nit was bad", tmp_path, tokenizer, names="out@64")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_the_summary_has_the_index_of_the_records(source, tmp_path, tokenizer, monkeypatch):
    summary, paths = make(source, tmp_path / "out", tokenizer)
    found = json.loads((tmp_path / "out" / "summary-out-00000-of-00003.json").read_text())
    counts = [file["count"] for file in found["files"].values()]
    assert found["instances"] == summary.counts["instances"] == sum(counts)
    assert found["settings"]["max_seq_length"] == 24
    assert found["vocabulary"] == tokenizer.fingerprint
    assert found["tokens_cut_by_truncation"] > 0
    counted = record_files._count_all(paths, {p: record_files.state(p) for p in paths})
    counted = {path: entry["count"] for path, entry in counted}
    monkeypatch.setattr(record_files, "_count_all", lambda missing, *_: [][: len(missing)])
    indexed = record_files.read_index(paths)  # nothing is counted
    assert record_files.expand_patterns(f"{tmp_path}/out/*", "input_file") == paths
    with refuses("--input_file"):
        record_files.expand_patterns(f"{tmp_path}/out/*.json", "input_file")
    assert {file.path: file.count for file in indexed} == counted


def test_random_second_segments_and_long_sentences_are_warned_about():
    def summary(random, others=(), **options):
        counts = {"documents": 10, "documents_of_one_sentence": 6, "sentences": 20, "tokens": 100}
        counts |= {"instances": 100, "instance_tokens": 50, "predictions": 5}
        counts |= {"instances_with_random_document": random, **dict(others)}
        return str(corpus_summary.Summary(collections.Counter(counts), **options))

    assert_says(summary(60), "warning ... 60.0% ... 6 of 10 documents")
    assert "warning" not in summary(50) + summary(60, pairs="next")
    assert_says(summary(80, pairs="next"), "warning ... 80.0%")
    long = {"sentences_far_too_long": 1, "tokens_of_long_sentences": 9}
    assert summary(60, long).count("--input_format=documents") == 2
    split = summary(60, long, input_format="jsonl")
    assert split.count("--language") == 2
    assert "--input_format=documents" not in split
    split_words = {"tokens_read": 100, "marked": 50, "inner_letters": 10}
    assert "--word_start=piece" in summary(5, split_words)
    for pairs in ("order", "none"):
        said = summary(0, {"documents": 1}, pairs=pairs, unknown=collections.Counter({"て": 2}))
        assert_says(said, "warning ... single document ... --document_per_line", "'て' 2")
    for lines, start in ((200, "left out"), (199, "warning: left out")):
        counts, first = {"lines_skipped": 2, "text_lines": lines}, ["a.txt, line 3"]
        skipped = summary(5, counts, first_skipped={"lines_skipped": first}).splitlines()
        assert names(skipped[-1], f"2 ... {lines} ... UTF-8 ... a.txt, line 3")
        assert skipped[-1].startswith(start)


@pytest.mark.parametrize(
    ("counts", "options", "more"),
    [
        ({"instances_with_random_document": 50}, {}, 1),
        ({"instances_with_random_document": 75}, {"pairs": "next"}, 1),
        ({"tokens_of_long_sentences": 5}, {}, 1),
        ({"unknown": 3}, {}, 1),
        ({"predictions": 5}, {"num_wanted": 10}, -1),
        ({"inner_letters": 50, "marked": 5}, {}, 1),
        ({"marked": 50, "inner_letters": 5}, {}, 1),
        ({"marked": 10}, {"word_start": "piece"}, -1),
    ],
)
def test_limits_of_warnings(counts, options, more):
    """There is none yet, but with one more, or less, of the last count."""
    *_, last = counts
    for number, is_warned in ((counts[last], False), (counts[last] + more, True)):
        names = ("instances", "instance_tokens", "predictions", "tokens", "tokens_read")
        found = {"documents": 10} | dict.fromkeys(names, 100) | counts | {last: number}
        unknown = collections.Counter("☃" * found.pop("unknown", 0))
        summary = corpus_summary.Summary(collections.Counter(found), unknown, **options)
        assert ("warning" in str(summary)) == is_warned


@pytest.mark.parametrize(
    ("given", "is_said"),
    [({}, True), ({"do_whole_word_mask": False}, False), ({"masked_lm_prob": 0}, False)],
)  # fmt: skip
def test_words_with_too_many_pieces_for_masks(given, is_said, tmp_path, tokenizer):
    """Proteins and other texts without spaces are one word each."""
    text = "\n\n".join("MKVLAAGIVPLLLACGGSTEKRRWYHQNDM" * 9 for _ in range(4))
    settings = dataclasses.replace(SETTINGS, max_line_length=20, **given)
    summary = str(summary_of(text, tmp_path, tokenizer, settings=settings))
    assert ("--do_whole_word_mask=false" in summary) == is_said
    assert ("--masked_lm_budget" in summary) == (given == {"masked_lm_prob": 0})
    few = dataclasses.replace(settings, max_predictions_per_seq=1)  # 0.15 of a short text
    text = languages.TEXTS["english"]
    assert "--do_whole_word_mask" not in str(summary_of(text, tmp_path, tokenizer, settings=few))


def test_files_without_blank_lines(tmp_path, tokenizer, capsys):
    paths = [tmp_path / name for name in "abcde"]
    for path, end in zip(paths, ("", "\n", "", "", ""), strict=True):
        path.write_text("holmes said that .\nit was a year .\n" + end)
    for given, number in ((False, 2), (True, 5)):
        form = text_files.Format(file_is_document=given)
        summary, _ = make(list(map(str, paths)), tmp_path, tokenizer, "out", form=form)
        assert summary.counts["documents"] == number
        said = names(capsys.readouterr().out, "5 files have 2 documents ... --file_is_document")
        assert said == (not given)


def test_losses_are_said_once_with_a_part_that_is_held_out():
    counts = collections.Counter(
        {"marks THAI": 30, "letters THAI": 100, "letters LATIN": 900, "lines": 50}
    )
    counts[text_losses.MARKUP] = 9
    of_part = collections.Counter(dict.fromkeys(("documents", "instances", "tokens"), 5))
    of_part |= dict.fromkeys((*corpus_summary.KINDS, "instance_tokens", "predictions"), 1)
    unknown = collections.Counter({"ก": 2})
    held_out = corpus_summary.Summary(counts + of_part, unknown)
    summary = corpus_summary.Summary(counts + of_part, unknown, held_out=held_out)
    assert_says(str(summary), "warning ... 30 marks of 100 THAI", "warning ... 4 of 100 THAI")
    for words in ("30 marks", "4 of 100", "--input_format=jsonl"):
        assert str(summary).count(words) == 1
    assert str(summary).count("instances: 5") == 2


@pytest.mark.parametrize(
    ("language", "strip_accents", "is_warned"),
    [
        ("russian", True, True),
        ("russian", False, True),
        ("greek", True, True),
        ("arabic", True, True),
        ("chinese", True, False),  # and words of English, with spaces
        ("english", True, False),
        ("english", False, False),
    ],
)
def test_the_rule_of_word_starts_in_languages(tmp_path, language, strip_accents, is_warned):
    text = languages.TEXTS[language]
    model = languages.write_model(tmp_path / "spm.model", text, strip_accents)
    tokenizer = FullTokenizer(spm_model_file=model, strip_accents=strip_accents)
    summary = summary_of(text, tmp_path, tokenizer)
    assert ("--word_start=piece" in str(summary)) == is_warned
    assert "--word_start=original" not in str(summary)
    summary = summary_of(text, tmp_path, tokenizer, word_start="piece")
    for words in ("--word_start", "--word_start=original"):
        assert (words in str(summary)) == (language == "chinese")


def test_texts_that_are_missing_are_counted(tmp_path, tokenizer):
    pytest.importorskip("sentence_splitter", reason="needs the extra documents")
    rows = [{"text": "He was there. He sat."}, {"text": None}, {"body": "holmes said that"}]
    given = "".join(f"{json.dumps(row)}\n" for row in rows * 20), tmp_path, tokenizer, "in.jsonl"
    summary = summary_of(*given, form=text_files.Format(input_format="jsonl"))
    assert (summary.counts["documents"], summary.counts["texts_missing"]) == (20, 40)
    first = f"{tmp_path}/in.jsonl, line 2; "
    assert_says(str(summary), f"warning ... 40 ... 60 ... --text_key ... {first}")
    assert summary.as_json()["texts_missing"] == 40
    with refuses("in.jsonl ... 60 ... --text_key ... under: text"):
        summary_of(*given, form=text_files.Format(input_format="jsonl", text_key="txt"))


def test_text_without_line_breaks_is_warned_about(tmp_path, tokenizer):
    words = "holmes said that he was there . " * 800
    summary = summary_of(words, tmp_path, tokenizer)
    assert (summary.counts["sentences"], summary.counts["sentences_far_too_long"]) == (1, 1)
    assert summary.counts["tokens"] == summary.counts["tokens_of_long_sentences"] > 2000
    assert_says(str(summary), "warning ... 1 ... --max_seq_length ... 100.0%")
    assert "--input_format=documents" in str(summary)
    text = words.replace(" . ", " .\n") + "that " * 84  # 4 times 21 tokens
    summary = summary_of(text, tmp_path, tokenizer)
    assert summary.counts["sentences_far_too_long"] == 0
    assert "--max_seq_length" not in str(summary)


@pytest.mark.parametrize(
    ("text", "is_warned"),
    [("he said ж\nhe was\n" * 50, True), ("he said ж\n" + "he was there\n" * 500, False)],
)
def test_a_vocabulary_that_does_not_fit_is_warned_about(tmp_path, tokenizer, text, is_warned):
    summary = summary_of(text, tmp_path, tokenizer)
    assert summary.unknown_share > 0 and (summary.unknown_share > 0.03) == is_warned
    assert ("--do_lower_case" in str(summary)) == is_warned


@pytest.mark.parametrize(
    ("names", "count", "expected"),
    [
        ("a, b", None, ["a", "b"]),
        ("x/a@2", None, ["x/a-00000-of-00002", "x/a-00001-of-00002"]),
        ("a.tfrecord.gz", 1, ["a-00000-of-00001.tfrecord.gz"]),
        ("u@host/a", None, ["u@host/a"]),
        (" ,", None, "--output_file"),
        ("a,b", 2, "--num_output_shards"),
        ("a@2", 2, "--num_output_shards"),
        ("a@0", None, "--output_file"),
        ("a@100000", None, "--output_file"),
    ],
)
def test_names_of_output_files(names, count, expected):
    if isinstance(expected, list):
        assert schemas.expand_shards(names, count) == expected
    else:
        with refuses(expected):
            schemas.expand_shards(names, count)
