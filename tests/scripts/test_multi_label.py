# SPDX-License-Identifier: Apache-2.0
"""run_classifier.py --task_name=tsv --multi_label through its real main, on a made-up set."""

import json
import random
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
import export_checkpoints
import run_classifier
from albert_tf.cli import flag_groups, predict
from albert_tf.tasks import multi_label, reading
from albert_tf.tasks.base import TextInput
from albert_tf.training import finetuning
from albert_tf.training.splits_and_results import Split
from tests import SIZES, tiny
from tests.errors import refuses
from tests.script_flags import flags_of
from tests.tasks.task_files import row_of
from tests.tiny import COMMON, NO_DROPOUT, blocks, table, values_of

pytestmark = pytest.mark.usefixtures("eagerly")

CLOSE = 1e-5
LABELS = ("food", "news", "sport")
WORDS = dict(zip(LABELS, ("London", "Mary", "walked"), strict=True))  # one piece each
CONFIG = tiny.CONFIG | NO_DROPOUT
LEARN = COMMON | {"do_eval": True, "max_seq_length": 16, "train_batch_size": 32}
LEARN |= {"task_name": "tsv", "multi_label": True, "text_column": "text", "label_column": "labels"}
LEARN |= {"train_step": 100, "save_checkpoints_steps": 100}
LEARN |= {"learning_rate": 1e-3, "warmup_step": 10}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    chance = random.Random(1)
    for split, count in (("train", 200), ("dev", 30), ("test", 20)):
        rows = []
        for number in range(count):
            labels = [label for label in LABELS if chance.random() < 0.4]
            words = [WORDS[label] for label in labels] + ["the", "said"]
            cells = [str(int(label in labels)) for label in LABELS]
            chance.shuffle(words)
            rows.append([str(number), " ".join(words), "|".join(labels), *cells])
        lines = ["\t".join(row) for row in [["id", "text", "labels", *LABELS], *rows]]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def learnt(eagerly, run_once, data):
    """The output_dir of a model that has learnt the set."""
    tf.config.run_functions_eagerly(False)  # these are many steps
    out = run_once(run_classifier, CONFIG, **LEARN, data_dir=data) / "out"
    tf.config.run_functions_eagerly(True)
    return out


def test_a_small_set_is_learnt(learnt, data):
    first, last, _ = blocks(learnt)
    names = ["eval_loss", "global_step", "loss", "macro_f1", "micro_f1", "threshold", "best"]
    assert [line.split(" = ")[0] for line in first.splitlines()] == names
    assert values_of(last)["micro_f1"] > values_of(first)["micro_f1"] + 0.05
    threshold = values_of(last)["threshold"]
    submitted = [label for _, label in table(learnt / "submit_results.tsv")[1:]]
    rows = np.array(table(learnt / "test_results.tsv"), float) > threshold
    assert submitted == ["|".join(np.array(LABELS)[row]) for row in rows]
    assert len(set(submitted)) > 1
    kind = json.loads((learnt / "finetuned_task.json").read_text())
    assert (kind["task_name"], kind["labels"]) == ("multi_label", [*LABELS])


@pytest.mark.long
def test_all_ways_give_the_same(learnt, data, run_main, tmp_path):
    out, export = shutil.copytree(learnt, tmp_path / "out"), tmp_path / "export"
    run_main(run_classifier, output_dir=learnt, export_dir=export)
    texts = [row[1] for row in table(data / "test.tsv")[1:]]
    labels = [label for _, label in table(out / "submit_results.tsv")[1:]]
    probabilities = np.array(table(out / "test_results.tsv"), float)
    assert np.abs(probabilities.sum(axis=1) - 1).max() > 0.1  # sigmoid and no softmax
    found = {"python": albert_tf.load(out).predict(texts)}
    (tmp_path / "in.tsv").write_text("\n".join(["text", *texts]) + "\n")
    for name, source in (("saved_model", export), ("model", out)):
        target = tmp_path / f"{name}.jsonl"
        given = {name: source, "input_file": tmp_path / "in.tsv", "output_file": target}
        run_main(predict, **given)
        found[name] = [json.loads(line) for line in target.open()]
    for way, answers in found.items():
        assert [answer["label"] for answer in answers] == labels, way
        rows = [[*answer["probabilities"].values()] for answer in answers]
        np.testing.assert_allclose(rows, probabilities, rtol=0, atol=CLOSE, err_msg=way)


def test_columns_of_0_and_1_are_the_same_labels(data):
    row = row_of("text", "food,news,sport", multi_label=True)
    assert row.labels == LABELS
    joined = row_of("text", "labels", data_dir=str(data), multi_label=True)
    assert joined.labels == LABELS

    as_it_is = types.SimpleNamespace(normalize=str)
    one, other = (reading.read_examples(task, str(data), "dev", as_it_is) for task in (row, joined))
    assert one == other


@pytest.mark.long
def test_the_threshold_of_an_evaluation_is_kept_and_used(learnt, tmp_path):
    out = shutil.copytree(learnt, tmp_path / "out")
    path = out / multi_label.LabelThreshold.FILE
    kept = json.loads(path.read_text())["threshold"]
    assert kept == values_of(blocks(out)[-2])["threshold"]
    text = "Mary said London"
    row = albert_tf.load(out).predict(text)["probabilities"]
    for threshold in (min(row.values()) / 2, sum(sorted(row.values())[1:]) / 2, kept):
        path.write_text(json.dumps({"threshold": threshold}))
        wanted = "|".join(label for label, p in row.items() if p > threshold)
        assert albert_tf.load(out).predict(text)["label"] == wanted
    path.write_text('{"threshold": "high"}')
    with refuses(path):
        albert_tf.load(out).predict(text)
    path.unlink()
    wanted = "|".join(label for label, p in row.items() if p > 0.5)
    assert albert_tf.load(out).predict(text)["label"] == wanted


def test_a_model_from_elsewhere_is_evaluated_here(learnt, data, run_main, tmp_path):
    """Its threshold goes into --output_dir, and the other directory stays as it is."""
    given, name = shutil.copytree(learnt, tmp_path / "given"), multi_label.LabelThreshold.FILE
    wanted = (given / name).read_text()
    (given / name).unlink()
    flags = {"do_eval": True, "output_dir": tmp_path / "out", "init_checkpoint": given}
    run_main(run_classifier, task_name="tsv", multi_label=True, data_dir=data, **flags)
    assert not (given / name).exists()
    found = json.loads((tmp_path / "out" / name).read_text())
    assert found["threshold"] == pytest.approx(json.loads(wanted)["threshold"], abs=CLOSE)
    assert found["checkpoint"] == str(given / "model.ckpt-best")


def test_predictions_and_exports_use_the_threshold_tuned_here_for_their_model(
    learnt, data, run_main, tmp_path, monkeypatch
):
    given, out = shutil.copytree(learnt, tmp_path / "given"), tmp_path / "out"
    (given / multi_label.LabelThreshold.FILE).write_text('{"threshold": 1}')  # no label
    monkeypatch.chdir(tmp_path)  # a path may be relative
    elsewhere, exported = {"output_dir": out, "init_checkpoint": "given"}, []
    files = {"data_dir": data, "do_predict": True}
    monkeypatch.setattr(
        finetuning.saved_models, "export", lambda functions, *_: exported.append(functions)
    )

    def predicted():
        return [label for _, label in table(out / "submit_results.tsv")[1:]]

    wanted = [label for _, label in table(learnt / "submit_results.tsv")[1:]]
    run_main(run_classifier, **elsewhere, **files)
    assert {*predicted()} == {""}
    evaluated = {"do_eval": True, "do_predict": True, "data_dir": data, "export_dir": out / "e"}
    run_main(run_classifier, **elsewhere, **evaluated, task_name="tsv", multi_label=True)
    assert predicted() == wanted
    run_main(run_classifier, **elsewhere, **files, export_dir=out / "e")
    assert predicted() == wanted
    tuned = json.loads((out / multi_label.LabelThreshold.FILE).read_text())["threshold"]
    assert [functions._threshold for functions in exported] == [tuned] * 2
    # Another model has its own threshold.
    other = shutil.copytree(given, tmp_path / "other")
    run_main(run_classifier, **files, output_dir=out, init_checkpoint=other)
    assert {*predicted()} == {""}


def test_the_best_threshold_by_trying_all():
    generator = np.random.default_rng(0)
    for _ in range(50):
        scores, gold = generator.integers(1, 10, [6, 3]) / 10, generator.integers(0, 2, [6, 3])
        found = multi_label.best_threshold(scores, gold)

        def f1(threshold, scores=scores, gold=gold):
            found = scores > threshold
            return 2 * (found & (gold == 1)).sum() / max(1, found.sum() + gold.sum())

        assert f1(found) == max(map(f1, [0.0, *scores.ravel() - 1e-3]))
        assert np.abs(scores - found).min() > 0.04  # halfway between two
    assert multi_label.best_threshold(scores, np.zeros([6, 3], int)) == 0.5


def test_metrics_by_hand():
    """Of 5 right labels 4 are predicted at the best threshold, and 1 wrong one."""
    row = row_of("text", None, LABELS, multi_label=True)
    task = multi_label.MultiLabelTask("multi_label", row, TextInput(None, 8, SIZES))
    gold = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]])
    scores = np.array([[0.9, 0.8, 0.1], [0.2, 0.7, 0.05], [0.1, 0.65, 0.6], [0.1, 0.1, 0.1]])
    logits = np.log(scores / (1 - scores)).astype(np.float32)
    found = task.metrics(Split({"label_ids": gold}, None), {"logits": logits}, batch_size=3)
    losses = -np.log(np.where(gold, scores, 1 - scores)).mean(axis=1)
    wanted = {
        "micro_f1": 2 * 4 / (5 + 5),
        "macro_f1": (1 + 2 * 2 / (2 + 3) + 2 * 1 / (2 + 1)) / 3,
        "threshold": (0.6 + 0.2) / 2,
        "eval_loss": losses.mean(),
        "loss": (losses[:3].mean() + losses[3]) / 2,
    }
    assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("form", ["tf1", "hf"])
def test_an_exported_checkpoint_predicts_as_the_run(form, learnt, run_main, tmp_path):
    out = shutil.copytree(learnt, tmp_path / "out")
    shutil.copy(LEARN["spm_model_file"], out)
    path = tmp_path / form if form == "hf" else tmp_path / form / "model.ckpt-best"
    run_main(export_checkpoints, albert_directory=out, export_path=path, export_format=form)
    given = {"max_seq_length": 16, "spm_model_file": LEARN["spm_model_file"]}
    loaded, trained = albert_tf.load(path, **given), albert_tf.load(learnt, max_seq_length=16)
    texts = ["the house", "a train and the doctor"]
    found, wanted = loaded.predict(texts), trained.predict(texts)
    assert (loaded.task, loaded.labels) == ("multi_label", trained.labels)
    assert found[0].keys() == wanted[0].keys()
    for one, other in zip(found, wanted, strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    threshold = multi_label.known_threshold(f"{tmp_path}/{form}")
    assert threshold == multi_label.known_threshold(str(learnt)) != multi_label.EVEN_CHANCE
    if form == "hf":
        values = json.loads((path / "config.json").read_text())
        assert values["problem_type"] == "multi_label_classification"


def test_a_run_of_several_labels_stays_one(learnt, run_main):
    with refuses("--multi_label=false ... multi_label"):
        run_main(run_classifier, multi_label=False, output_dir=learnt, export_dir=f"{learnt}/x")


def test_the_flags_of_a_run_can_be_read_again(learnt):
    with flags_of(run_classifier) as known:
        known(["run_classifier", f"--flagfile={learnt}/flags.txt"])
        given = run_classifier.with_task(flag_groups.read())
        assert (given.task_name, given.text_column) == ("multi_label", "text")
        assert given.origin("iterations_per_loop") == "default"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"regression": True}, "--regression=true ... --task_name=multi_label"),
        ({"task_name": "cola"}, "--task_name=cola ... tsv"),
        ({"num_trials": 2}, "--num_trials=2 ... --task_name=multi_label"),
        *(
            ({"task_name": "multi_label", "multi_label": False} | wrong, "=multi_label")
            for wrong in ({"num_trials": 2}, {"regression": True})
        ),
        ({"text_column": ""}, "--text_column"),
        ({"task_name": "TSV", "labels": "food,news"}, "'sport'"),
        ({"label_column": "food,id"}, "line 4 ... 0 ... 1 ... 2"),
        ({"label_column": "food,news", "labels": "a,b,c"}, "3 ... 2"),
        ({"labels": "food,news"}, "'sport'"),
        ({"label_column": ""}, "--label_column ... --do_train ... train."),
        ({"labels": "food|drink,news"}, "food|drink"),
        ({"label_column": "news,a|b"}, "a|b"),
    ],
)
def test_mistakes(changed, message, data, run_main, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    places = {"albert_config_file": tmp_path / "config.json", "output_dir": tmp_path / "out"}
    with refuses(message):
        run_main(run_classifier, **LEARN | {"data_dir": data} | places | changed)
