# SPDX-License-Identifier: Apache-2.0
"""What tasks share: metrics of each class, weights, labelled test sets, collapse, ensembles."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model import objectives
from albert_tf.tasks import base, multi_label, ner, race
from albert_tf.tasks.base import DataSet, Task, TextInput, mean_over_batches
from albert_tf.training import evaluation
from albert_tf.training.splits_and_results import Predicted, Split
from tests import SIZES, tiny
from tests.errors import assert_says, names, refuses
from tests.tasks import task_files

LABELS = ("no", "yes", "2")
GOLD = np.array([0, 0, 0, 0, 1, 2], np.int32)
FOUND = np.array([0, 0, 0, 1, 1, 0])


def task_of(labels=LABELS, **given):
    return task_files.task_of(task_files.row_of("text", "label", labels, **given))


def test_metrics_of_each_class():
    split, outputs = Split({"label_ids": GOLD}, []), {"logits": np.eye(3)[FOUND]}
    found = task_of().metrics(split, outputs, 8)
    assert found["eval_accuracy"] == pytest.approx(4 / 6)
    assert found["precision_no"] == pytest.approx(3 / 4) and found["recall_no"] == 3 / 4
    assert found["f1_yes"] == pytest.approx(2 / 3) and found["f1_2"] == 0
    assert found["macro_f1"] == pytest.approx((3 / 4 + 2 / 3 + 0) / 3)
    counts = {name: value for name, value in found.items() if name.startswith("count_")}
    assert {name for name, value in counts.items() if value} == {
        "count_no_as_no", "count_no_as_yes", "count_yes_as_yes", "count_2_as_no",
    }  # fmt: skip
    assert counts["count_no_as_no"] == 3 and sum(counts.values()) == 6
    for count in (20, 21):  # of more classes, there are means alone
        many = task_of((*map(str, range(count)),)).metrics(
            split, {"logits": np.eye(count)[FOUND]}, 8
        )
        assert "macro_f1" in many and ("f1_0" in many) == (count == 20)
    report = task_of().report(split, outputs).splitlines()
    assert report[-4:] == [
        "label \\ prediction\tno\tyes\t2", "no\t3\t1\t0", "yes\t0\t1\t0", "2\t1\t0\t0",
    ]  # fmt: skip


TEXT = TextInput(None, 8, SIZES)
SEVERAL = task_files.row_of("text", "label", LABELS, multi_label=True)


@pytest.mark.parametrize(
    ("task", "metrics"),
    [
        (task_of(), {"macro_f1", "recall_no", "count_no_as_2", "loss"}),
        (task_of(None, regression=True), {"pearson", "MSE", "spearman", "eval_loss", "loss"}),
        (task_files.task_of(SEVERAL, kind=multi_label.MultiLabelTask), {"micro_f1", "macro_f1"}),
        (ner.NerTask(("O", "B-x", "I-x"), TEXT), {"f1", "precision", "eval_accuracy"}),
        (ner.NerTask(("noun", "verb"), TEXT), {"f1_noun", "f1_verb", "f1"}),
        (race.RaceTask(TEXT, 2, choices=2), {"eval_accuracy", "eval_accuracy_high", "eval_loss"}),
    ],
)
def test_the_specimen_of_a_task_has_its_metrics(task, metrics):
    assert metrics <= task.metrics(*task.specimen(), 1).keys()


# --- Weights ---


def test_balanced_weights_make_classes_equal(capsys):
    def data_of(no, yes, two):
        labels = {"no": no, "yes": yes, "2": two}
        return SimpleNamespace(training_records=SimpleNamespace(labels=labels))

    task = task_of()
    task.weigh_classes(["balanced"], data_of(8, 2, 2))
    assert "no 0.5, yes 2, 2 2" in capsys.readouterr().out
    task_of().weigh_classes(["balanced"], data_of(8, 4, 0))
    assert "no 0.75, yes 1.5, 2 6" in capsys.readouterr().out  # of two classes
    features = {"label_ids": tf.constant([[0], [1]]), "input_ids": tf.zeros([2, 4], tf.int32)}
    assert task.objective.weights(features)["eval_loss"].numpy().tolist() == [0.5, 2.0]
    logits = tf.math.log([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
    loss = task.objective.loss(task.objective.terms(features, {"logits": logits}))
    assert float(loss) == pytest.approx((0.5 * np.log(2) + 2 * np.log(4)) / 2.5)


def test_weights_of_the_classes_of_words():
    objective = objectives.with_class_weights(objectives.TOKEN_CLASSIFICATION, [1.0, 3.0])
    features = {"label_ids": tf.constant([[0, 1, 1, 0]]), "label_mask": tf.constant([[1, 1, 0, 0]])}
    assert objective.weights(features)["eval_loss"].numpy().tolist() == [[1.0, 3.0, 0.0, 0.0]]
    losses, weights = objective.terms(features, {"logits": tf.zeros([1, 2, 2])})["eval_loss"]
    assert weights.numpy().tolist() == [[1.0, 3.0]] and losses.shape == weights.shape


@pytest.mark.parametrize("given", [["1", "2"], ["1", "0", "1"], ["1", "a", "1"], ["even"]])
def test_weights_that_do_not_fit(given):
    with refuses(f"--class_weights={','.join(given)} ... 3 ... no, yes, 2"):
        task_of().weigh_classes(given, None)  # before the data is read
    with refuses("--class_weights=balanced"):  # scores have no classes
        task_of(None, regression=True).weigh_classes(["balanced"], None)


# --- Rows ---


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        (["text\tlabel", "a\tyes", "b\tno"], ["yes", "no"]),
        (["label\ttext", "yes\ta", "no\tb"], ["yes", "no"]),
        (["text", "a", "b"], None),
        (["text\tlabel", "a\tyes", "b\tmaybe"], None),
        (["text\tlabel", "a\tyes", "b\t"], None),
    ],
)
def test_a_labelled_test_file(lines, labels, tmp_path, tokenizer):
    _, examples, _ = task_files.read_own(tmp_path, tokenizer, ("test.tsv", *lines), labels=LABELS)
    assert [example.text_a for example in examples] == ["a", "b"]
    assert {*examples.are_labelled} == {labels is not None} and examples.is_test
    assert [example.label for example in examples] == (labels or ["no", "no"])
    split = Split({"label_ids": GOLD[:2]}, examples)
    assert bool(task_of().metrics(split, {"logits": np.eye(3)[:2]}, 8)) == (labels is not None)


def test_rows_of_a_test_file_with_other_labels_are_not_scored(tmp_path, tokenizer, capsys):
    lines = "text\tlabel", "a\tyes", "b\t-", "c\tno"
    given = {"labels": LABELS, "skip_other_labels": True}
    _, examples, _ = task_files.read_own(tmp_path, tokenizer, ("test.tsv", *lines), **given)
    assert [example.text_a for example in examples] == ["a", "b", "c"]
    assert_says(capsys.readouterr().out, "test ... 1 of 3 rows ... not scored")
    task, logits = task_of(), np.eye(3)[[1, 2, 0]]  # right where there is a label
    split = Split({"label_ids": task.label_ids(examples)}, examples)
    assert task.metrics(split, {"logits": logits}, 8)["eval_accuracy"] == 1.0


# --- The best checkpoint ---


@pytest.mark.parametrize(
    "name, sign",
    [("loss", -1), ("eval_loss", -1), ("MSE", -1), ("masked_lm_loss", -1), ("macro_f1", 1),
     # another part of the development set, one score of several, a class named loss
     ("eval_loss_mismatched", -1), ("MSE_anger", -1), ("f1_loss", 1), ("recall_MSE", 1)],
)  # fmt: skip
def test_of_losses_the_lowest_is_best(name, sign):
    assert evaluation.sign_of(name) == sign


# --- Of all tasks ---


def test_collapse_warning():
    task = Task()
    task.labels, task.classified = ("yes", "no"), "texts"
    same, different = np.float32([[0.1, 0.9], [0.3, 0.7]]), np.float32([[0.1, 0.9], [0.7, 0.3]])
    assert_says(task.sign_of_failure(None, {"logits": same}), "2 ... 'no'")
    assert task.sign_of_failure(None, {"logits": different}) is None
    assert task.sign_of_failure(None, {"logits": same[:1]}) is None
    task.labels = None
    assert task.sign_of_failure(None, {"logits": np.float32([[1.0], [1.0]])}) is None


@pytest.mark.parametrize(
    ("found", "gold", "what"),
    [
        (["a", "a"], [("a",), ("b",)], "2 ... 'a'"),
        (["", ""], [("a",), ()], "2 ... none"),
        (["", ""], [(), ()], None),
        (["a", ""], [("a",), ("b",)], None),
        (["a"], [("b",)], None),
    ],
)
def test_the_same_answer_to_all_questions_is_a_warning(found, gold, what):
    warning = base.collapsed("questions get", found, gold)
    assert (warning is None) == (what is None)
    assert what is None or names(warning, what)


def test_loss_of_the_results_is_the_mean_of_batch_means():
    losses = np.array([1.0, 2.0, 3.0, 10.0, 20.0])
    assert mean_over_batches(losses, 2) == pytest.approx((1.5 + 6.5 + 20.0) / 3)


def test_records_of_an_ensemble_fit_all_its_models():
    configs = [AlbertConfig.from_dict(tiny.CONFIG | {"type_vocab_size": n}) for n in (3, 2, 4)]
    text = base.text_input(configs, {"spm_model_file": str(tiny.VOCABULARY)}, 8)
    assert text.sizes == {"vocab_size": 3000, "type_vocab_size": 2}


def test_an_ensemble_has_the_mean_of_the_outputs():
    def member(name, step, *values):
        return Predicted(name, step, {"": {"logits": np.float32([values])}}, f"{name} of {step}")

    data = DataSet(Task(), "", "", "")
    first, second = member("a", 1, 1.0, 4.0), member("b", 3, 3.0, -4.0)
    assert data.combined([first]) is first
    both = data.combined([first, second])
    assert both.outputs[""]["logits"].tolist() == [[2.0, 0.0]]
    assert both[0] == "a, b" and both.step == "1 and 3" and both.source == "a of 1 and b of 3"
