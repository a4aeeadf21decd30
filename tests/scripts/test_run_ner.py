# SPDX-License-Identifier: Apache-2.0
"""run_classifier.py --task_name=ner through its real main, on a made-up set."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import run_classifier
from albert_tf.checkpoints import run_directory
from albert_tf.cli import predict
from albert_tf.publish import graph_inputs
from albert_tf.records import input_pipeline, schemas
from albert_tf.tasks import word_files
from tests import tiny
from tests.errors import assert_says, refuses
from tests.tiny import COMMON, NO_DROPOUT, PREDICT, blocks, values_of

WORDPIECE = tiny.WORDPIECE
CLOSE = 1e-5  # between two graphs of one model, absolute
LABELS = ("O", "B-LOC", "B-PER", "I-PER")
NAMES = ["London/B-LOC", "England/B-LOC", "Mr./B-PER John/I-PER", "Mary/B-PER"]
OTHERS = ["the/O", "walked/O", "in/O", "and/O", "said/O", "\x01/O", "1990,/O", "日本/O"]
CONFIG = tiny.CONFIG | NO_DROPOUT
WIDE = CONFIG | {"initializer_range": 0.5}  # a random model that tells words apart
METRICS = ["eval_accuracy", "eval_loss", "f1", "global_step", "loss", "precision", "recall"]
LEARN = COMMON | {"task_name": "ner", "do_eval": True, "max_seq_length": 16, "train_batch_size": 8}
LEARN |= {"train_step": 120, "save_checkpoints_steps": 120}
LEARN |= {"learning_rate": 2e-3, "warmup_step": 10}
SHORT = {"train_step": 2, "warmup_step": 0, "learning_rate": 1e-4, "do_eval": False}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Makes files of random sentences, some of them longer than a sequence."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for split, count in (("train", 80), ("dev", 20), ("test", 20)):
        lines = ["-DOCSTART- -X- O", ""]
        for size in random.integers(2, 13, count):
            for _ in range(size):
                words = random.choice(NAMES if random.random() < 0.5 else OTHERS)
                lines += [word.replace("/", " X ") for word in words.split()]
            lines.append("")
        (folder / f"{split}.conll").write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def learnt(run_once, data):
    """The output_dir of a run that has learnt the set."""
    return run_once(run_classifier, CONFIG, **LEARN, data_dir=data) / "out"


@pytest.fixture(scope="module")
def exported(learnt, run_main):
    """(output_dir, export) of it, for tests marked `long`: tracing the export takes seconds."""
    run_main(run_classifier, output_dir=learnt, export_dir=learnt.parent / "export")
    return learnt, Path(predict.find_export(str(learnt.parent / "export")))


@pytest.fixture
def flags(learnt, data, tmp_path):
    """Flags to go on with a copy of that run."""
    shutil.copytree(learnt, tmp_path / "out")
    config = learnt / "albert_config.json"
    return LEARN | {"data_dir": data, "albert_config_file": config, "output_dir": tmp_path / "out"}


def lines_of_test(directory):
    return (directory / "test_results.conll").read_text(encoding="utf-8").split("\n")


def test_a_small_set_is_learnt(learnt):
    first, last, _ = blocks(learnt)
    for block in (first, last):
        assert [line.split(" = ")[0] for line in block.splitlines()] == [*METRICS, "best"]
    assert values_of(first)["f1"] < 0.5
    metrics = values_of(last)
    for name in ("f1", "precision", "recall", "eval_accuracy"):
        assert metrics[name] > 0.95, name
    kind = run_directory.FinetunedTask("ner", LABELS)
    assert run_directory.RunDirectory(str(learnt)).task == kind


def test_counts_are_told_whenever_features_are_used(run_main, flags, data, capsys):
    for path in flags["output_dir"].glob("model.ckpt-best*"):
        path.unlink()
    (flags["output_dir"] / "best_trial.txt").unlink()
    run_main(run_classifier, **flags | {"do_train": False, "do_predict": False})
    out = capsys.readouterr().out
    corpus = word_files.read(str(data / "dev.conll"))
    without = sum(word.text == "\x01" for word in corpus.words)
    assert without
    counts = f"dev: {len(corpus.words)} ... 20", f"dev: {without}"
    assert_says(out, *counts, "dev ... --max_seq_length")
    assert sum(line.startswith("dev: ") for line in out.splitlines()) == 4


def test_predictions_stand_on_the_lines_of_their_words(learnt, data):
    found = lines_of_test(learnt)
    given = (data / "test.conll").read_text(encoding="utf-8").split("\n")
    assert len(found) == len(given) and found[:2] == ["-DOCSTART- -X- O", ""]
    hits = []
    for ours, theirs in zip(found[2:], given[2:], strict=True):
        assert bool(ours) == bool(theirs)
        if ours:
            *words, label = ours.split("\t")
            assert words == theirs.split(" ")[:2] and label in LABELS
            hits.append(label == theirs.split(" ")[-1])
    text = (learnt / "predict_results.txt").read_text()
    names = [line.split(" = ")[0] for line in text.splitlines()]
    assert names == ["***** Predict results *****", *METRICS, "best"]
    assert values_of(text)["eval_accuracy"] == pytest.approx(np.mean(hits))
    assert np.mean(hits) > 0.95


def test_predict_alone_with_metrics_of_each_type(run_main, flags, capsys):
    before = lines_of_test(flags["output_dir"])
    run_main(run_classifier, **flags | PREDICT)
    out = capsys.readouterr().out
    assert lines_of_test(flags["output_dir"]) == before
    support = {kind: sum(line.endswith(f"B-{kind}") for line in before) for kind in ("LOC", "PER")}
    rows = dict(re.findall(r"^\s+(LOC|PER|micro avg)\s.*\s(\d+)$", out, re.M))
    assert rows.keys() == {*support, "micro avg"}
    assert int(rows["micro avg"]) == sum(int(rows[kind]) for kind in support)
    assert "***** Predict results *****" in out


def test_a_test_set_without_labels(run_main, flags, data, tmp_path):
    """Files may end in .txt; the labels are given, as there is no training file."""
    before = lines_of_test(flags["output_dir"])
    (flags["output_dir"] / "predict_results.txt").unlink()
    text = (data / "test.conll").read_text(encoding="utf-8")
    (tmp_path / "test.txt").write_text(re.sub("(?m)^(?!-DOC)(.+) X .*", r"\1", text))
    labels = ",".join(LABELS)
    run_main(run_classifier, **flags | PREDICT | {"data_dir": tmp_path}, labels=labels)
    assert lines_of_test(flags["output_dir"]) == [line.replace("\tX", "") for line in before]
    assert not (flags["output_dir"] / "predict_results.txt").exists()


def test_a_test_set_without_any_entity(run_main, flags, tmp_path):
    (tmp_path / "test.conll").write_text("the O\nwalked O\n\nsaid O\n")
    labels = ",".join(LABELS)
    run_main(run_classifier, **flags | PREDICT | {"data_dir": tmp_path}, labels=labels)
    assert lines_of_test(flags["output_dir"]) == ["the\tO", "walked\tO", "", "said\tO", ""]
    metrics = values_of((flags["output_dir"] / "predict_results.txt").read_text())
    assert (metrics["f1"], metrics["eval_accuracy"]) == (0, 1)


@pytest.mark.long
def test_ids_get_the_labels_of_the_scripts_prediction(run_once, data):
    """As texts do (tests/api/test_predictions.py); random labels are enough."""
    flags = LEARN | SHORT | {"spm_model_file": "", "vocab_file": WORDPIECE, "export_tflite": True}
    folder = run_once(run_classifier, WIDE, export=True, **flags, data_dir=data)
    directory, export = folder / "out", Path(predict.find_export(str(folder / "export")))
    assert (export / "assets" / "labels.txt").read_text().split() == list(LABELS)
    functions = tf.saved_model.load(str(export)).signatures
    path = directory / "predict.tf_record"
    arrays = input_pipeline.load_arrays(str(path), schemas.token_classification_schema(16))
    ids = {name: tf.constant(arrays[name]) for name in graph_inputs.FEATURES}
    outputs = functions["ids"](**ids)
    probabilities = outputs["probabilities"].numpy()
    assert probabilities.shape == (len(arrays["input_ids"]), 16, 4)
    assert outputs["predictions"].dtype == tf.int32
    serialized = tf.constant([r.numpy() for r in tf.data.TFRecordDataset(str(path))])
    again = functions["serving_default"](input=serialized)["probabilities"]
    np.testing.assert_allclose(again, probabilities, rtol=0, atol=CLOSE)
    expected = probabilities[arrays["label_mask"] > 0]
    written = [line.split("\t")[-1] for line in lines_of_test(directory) if "\t" in line]
    chosen = expected[np.arange(len(expected)), [LABELS.index(label) for label in written]]
    # Two that are equal but for rounding may change places.
    np.testing.assert_allclose(chosen, expected.max(axis=1), rtol=0, atol=CLOSE)
    assert len(set(written)) > 1


@pytest.mark.long
def test_lines_of_predict(exported, run_main, tmp_path):
    _, export = exported
    long = "Mr. John said Mary walked in England and the London in England and Mary"
    lines = ["Mary  walked\u3000in\x85England", "", json.dumps({"text": long, "id": 7}), " "]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    target = tmp_path / "out.jsonl"
    run_main(predict, saved_model=export, input_file=tmp_path / "in.txt", output_file=target)
    first, blank, second, empty = target.read_text(encoding="utf-8").split("\n")[:-1]
    first, second = json.loads(first), json.loads(second)
    assert list(first) == ["words", "labels", "scores"]
    assert first["words"] == ["Mary", "walked", "in", "England"] and not blank
    assert first["labels"] == ["B-PER", "O", "O", "B-LOC"]
    assert not empty
    assert second["id"] == 7 and second["words"] == long.split()
    kinds = dict(name.split("/") for names in NAMES for name in names.split())
    assert second["labels"] == [kinds.get(word, "O") for word in second["words"]]
    assert all(0.25 < score <= 1 for score in first["scores"] + second["scores"])


@pytest.mark.long
def test_embeddings_of_the_parts(exported):
    _, export = exported
    function = tf.saved_model.load(str(export)).signatures["embeddings"]
    found = function(text=tf.constant(["Mary walked", "", "the England " * 10]))
    mask, sequence = found["input_mask"].numpy(), found["sequence_output"].numpy()
    assert mask.shape == (3, 2, 16)  # 20 pieces in two parts
    assert sequence.shape == (3, 2, 16, 32) and found["pooled_output"].shape == (3, 2, 32)
    assert not mask[1].any() and not mask[0, 1].any() and mask[2].any(axis=1).all()
    alone = function(text=tf.constant(["Mary walked"]))
    length = alone["input_mask"].shape[2]
    assert mask[0, 0].sum() == length
    wanted = alone["sequence_output"][0, 0]
    np.testing.assert_allclose(sequence[0, 0, :length], wanted, rtol=0, atol=CLOSE)


def test_other_labels_than_those_of_the_run_are_refused(run_main, flags):
    labels = ",".join(reversed(LABELS))
    with refuses("O ... B-LOC ... I-PER ... --labels=O,B-LOC"):
        run_main(run_classifier, **flags | PREDICT, labels=labels)
