# SPDX-License-Identifier: Apache-2.0
"""What is read of long texts, in Python and in graphs: the beginning, both ends, or windows."""

import json

import numpy as np
import pytest
import tensorflow as tf

import export_checkpoints
import run_classifier
from albert_tf.checkpoints import name_table
from albert_tf.cli import predict
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.publish.graph_tokenization import GraphTokenizer
from tests import tiny
from tests.errors import assert_names, refuses
from tests.tasks import task_files

TEXTS = ["", "a", "one two three four five six seven", "the man went to the station of Holmes " * 4]


def task_of(tokenizer, mode, pair=None, windows=3, length=8):
    row = task_files.row_of("0", "2", ["x", "y"], text_pair_column=pair)
    cut = {"long_texts": mode, "max_windows": windows}
    return task_files.task_of(row, tokenizer, length, **cut)


def features_of(task, texts, pairs=None):
    given = [{"text": text} for text in texts]
    if pairs:
        given = [row | {"text_pair": pair} for row, pair in zip(given, pairs, strict=True)]
    return task.features(task.examples(given))


@pytest.mark.parametrize(
    ("mode", "places"),
    [
        ("head", [range(6)]),
        ("head_tail", [[0, 1, 2, -3, -2, -1]]),
        ("windows", [range(6), range(6, 12), range(12, 18)]),
    ],
)
def test_the_pieces_that_are_read(mode, places, tokenizer):
    ids = np.array(tokenizer.encode_ids(TEXTS[-1]))
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    arrays = features_of(task_of(tokenizer, mode), TEXTS)
    wanted = [[cls, *ids[list(some)], sep] for some in places]
    assert arrays["input_ids"][-1].reshape(-1, 8).tolist() == wanted
    if mode == "windows":  # the last part is as long as the others
        ids = tokenizer.encode_ids(TEXTS[2])
        assert 6 < len(ids) < 12
        assert arrays["input_ids"][2].reshape(-1, 8)[1].tolist() == [cls, *ids[-6:], sep]
    assert arrays["input_mask"].reshape(4, -1, 8).any(axis=2).sum(axis=1).tolist() == (
        [1, 1, 2, 3] if mode == "windows" else [1] * 4
    )


def test_both_texts_of_a_pair_lose_their_middle(tokenizer):
    first, second = "one two three four five six seven", "the man went to the station"
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    one, other = map(tokenizer.encode_ids, (first, second))
    found = features_of(task_of(tokenizer, "head_tail", "1", length=11), [first], [second])
    wanted = [cls, *one[:2], *one[-2:], sep, *other[:2], *other[-2:], sep]
    assert found["input_ids"].tolist() == [wanted]
    with refuses("--long_texts=windows ... --text_pair_column"):
        task_of(tokenizer, "windows", "1")


PAIRS = ["", "a b", " ", TEXTS[-1]]


@pytest.mark.parametrize(
    ("mode", "pairs"), [("head", None), ("windows", None), ("head_tail", PAIRS)]
)
def test_the_graph_reads_the_same(mode, pairs, tokenizer):
    task = task_of(tokenizer, mode, "1" if pairs else None)
    texts = task.served_functions(None, GraphTokenizer(tokenizer), None).texts
    found = texts(*map(tf.constant, [TEXTS, pairs] if pairs else [TEXTS]))
    wanted = features_of(task, TEXTS, pairs)
    for name, values in found.items():
        found = values.numpy().reshape(len(TEXTS) * task.choices, -1)
        expected = wanted[name].reshape(len(found), -1)[:, : found.shape[1]]
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_the_logits_of_windows_are_averaged(tokenizer):
    config = AlbertConfig.from_dict(tiny.WIDE | tiny.NO_DROPOUT)
    task = task_of(tokenizer, "windows")
    model, single = task.make_model(config), heads.ClassificationModel(config, 2)
    arrays = features_of(task, TEXTS)
    given = {name: tf.constant(arrays[name], tf.int32) for name in task.inputs}
    logits = model(given)["logits"].numpy()
    each = {name: tf.reshape(values, [-1, 8]) for name, values in given.items()}
    single(each)
    ours, theirs = map(name_table.named_variables, (single, model))
    for name, variable in ours.items():
        variable.assign(theirs[name])
    of_windows = single(each)["logits"].numpy().reshape(4, 3, 2)
    for row, count in enumerate([1, 1, 2, 3]):
        mean = of_windows[row, :count].mean(axis=0)
        np.testing.assert_allclose(logits[row], mean, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["head_tail", "windows"])
def test_run_and_export_predict_the_same(mode, run_main, tmp_path, capsys):
    rows = [f"{text} {i}\t{'xy'[i % 2]}" for i in range(4) for text in TEXTS[1:]]
    for split in ("train", "dev", "test"):
        task_files.write(tmp_path, f"{split}.tsv", "text\tlabel", *rows)
    own = {"task_name": "tsv", "text_column": "text", "label_column": "label", "long_texts": mode}
    given = tiny.CLASSIFIER | own | {"data_dir": tmp_path, "max_seq_length": 12}
    paths = {"output_dir": tmp_path / "out", "export_dir": tmp_path / "export"}
    config = tiny.write_config(tmp_path / "config.json", initializer_range=0.5)
    run_main(run_classifier, **given | paths | {"albert_config_file": config})
    table = np.array(tiny.table(tmp_path / "out" / "test_results.tsv"), float)
    assert len(np.unique(table[:, 0].round(4))) > 3
    for source in ({"model": paths["output_dir"]}, {"saved_model": paths["export_dir"]}):
        out = tmp_path / "found.jsonl"
        run_main(predict, **source, input_file=tmp_path / "test.tsv", text_column="text",
                 output_file=out)  # fmt: skip
        found = [json.loads(line)["probabilities"] for line in out.read_text().splitlines()]
        values = [list(p.values()) if isinstance(p, dict) else p for p in found]
        np.testing.assert_allclose(values, table, atol=1e-4)
    capsys.readouterr()
    given = {"albert_directory": tmp_path / "out", "export_path": tmp_path / "theirs"}
    run_main(export_checkpoints, export_format="hf", **given)
    assert_names(capsys.readouterr().out, f"--long_texts={mode}")
