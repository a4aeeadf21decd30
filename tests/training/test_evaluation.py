# SPDX-License-Identifier: Apache-2.0
"""Evaluating checkpoints that another process writes, and deletes, at the same time."""

import re
import types

import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.checkpoints import loading, run_directory, writers
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError
from albert_tf.records import input_pipeline
from albert_tf.training import evaluation, figures, pretraining, results
from albert_tf.training.task import Evaluation


class Run:
    """A run of one variable, as an `evaluation.Evaluator` needs it."""

    is_chief, strategy = True, tf.distribute.get_strategy()
    delete_at_load = None  # prefix of a checkpoint that disappears when it is to be loaded

    def __init__(self, directory, **settings):
        self.settings = options.Loop(
            output_dir=str(directory), train_steps=4, save_checkpoints_steps=2, **settings
        )
        self.step, self.weight = 0, tf.Variable([0.0])
        self.figures = figures.Figures([], [])

    def load_weights_and_step(self, prefix):
        if prefix == self.delete_at_load:
            run_directory.delete(prefix)
        (values, _) = writers.read(run_directory.find(prefix))
        self.step = int(values["global_step"])
        self.weight.assign(values["bert/pooler/dense/bias"])

    def wait_for_checkpoint(self):
        pass

    def restore_newest(self):
        self.restored = True


@pytest.fixture
def directory(tmp_path):
    """Checkpoints of the steps 0, 2 and 4, each with its step as its only weight."""
    for step in (0, 2, 4):
        save(tmp_path, step)
    return tmp_path


def save(directory, step):
    tensors = {"bert/pooler/dense/bias": tf.constant([step], tf.float32), "global_step": step}
    writers.write(str(directory / f"model.ckpt-{step}"), tensors, "tf2")


def make(run, after_figures=lambda: None, **options):
    """An evaluator whose figure is the weight; the rest happens before it is written down."""

    def evaluate():
        evaluated = {"value": float(run.weight[0])}
        after_figures()
        return Evaluation(evaluated, **options)

    return evaluation.Evaluator(run, evaluate, "value", "{first}{rest}")


def evaluated_steps(out):
    return [int(step) for step in re.findall(r"Evaluation at step (\d+)", out)]


def test_a_checkpoint_deleted_while_it_is_evaluated_still_becomes_the_best(directory, capsys):
    run = Run(directory)

    def delete():
        for _, prefix in run_directory.numbered_in(str(directory)):
            if run_directory.step_of(prefix) <= run.step:
                run_directory.delete(prefix)

    make(run, after_figures=delete).evaluate_directory(timeout=0)
    assert evaluated_steps(capsys.readouterr().out) == [0, 2, 4]
    assert RunDirectory(str(directory)).results == (4, 4, 4.0)
    assert loading.step_in(str(directory / "model.ckpt-best")) == 4
    assert "global_step = 2\nvalue = 2.0\n" in (directory / results.EVAL_RESULTS).read_text()


@pytest.mark.parametrize("newest_only", [True, False])
def test_a_checkpoint_deleted_before_it_is_read_is_left_out(
    newest_only, directory, capsys, monkeypatch
):
    monkeypatch.setattr(evaluation, "SECONDS_TO_REWRITE", 0)
    run = Run(directory)
    run.delete_at_load = str(directory / f"model.ckpt-{4 if newest_only else 2}")
    make(run).evaluate_directory(timeout=0, given=str(directory), newest_only=newest_only)
    out = capsys.readouterr().out
    assert f"{run.delete_at_load} was deleted before it was read. It is left out." in out
    # The newest is gone, so the one that --init_checkpoint names, the newest by now, is taken.
    assert evaluated_steps(out) == ([2] if newest_only else [0, 4])


def test_a_checkpoint_that_is_being_written_anew_is_read_again(directory, monkeypatch, capsys):
    def finish(_):
        save(directory, 2)

    (directory / "model.ckpt-2.index").write_bytes(b"half")
    monkeypatch.setattr(evaluation.time, "sleep", finish)
    make(Run(directory)).evaluate_directory(timeout=0)
    assert evaluated_steps(capsys.readouterr().out) == [0, 2, 4]


def test_a_checkpoint_of_another_model_is_an_error(directory):
    tensors = {"bert/embeddings/word_embeddings": tf.zeros([2, 2])}
    writers.write(str(directory / "model.ckpt-2"), tensors, "tf2")
    run = Run(directory)

    def load(_):
        raise UserError("does not fill the encoder")

    run.load_weights_and_step = load
    with pytest.raises(UserError, match="does not fill the encoder"):
        make(run).evaluate_directory(timeout=0)


def test_the_newest_checkpoints_stay_and_those_before_are_deleted(directory):
    evaluator = make(Run(directory))
    evaluator._keep = 2
    evaluator.evaluate_directory(timeout=0)
    left = [step for step, _ in run_directory.numbered_in(str(directory))]
    assert left == [2, 4]
    run_directory.delete(str(directory / "model.ckpt-2"))
    run_directory.delete(str(directory / "model.ckpt-2"))  # which a training did in between


def test_what_an_earlier_process_left_is_made_up_for(directory, capsys):
    run = Run(directory)
    evaluator = make(run)
    evaluator.make_up(first_step=1)
    assert evaluated_steps(capsys.readouterr().out) == [2, 4] and run.restored
    del run.restored
    evaluator.make_up()
    assert not evaluated_steps(capsys.readouterr().out) and not hasattr(run, "restored")


def test_warnings_are_said_when_they_begin_to_hold(directory, capsys):
    warnings = iter([["a", None], ["a"], ["a", "b"], [None], ["a"]])
    run = Run(directory)
    evaluator = evaluation.Evaluator(
        run, lambda: Evaluation({"value": 0.0}, next(warnings)), "value", "{first}"
    )
    run.step = 1
    for _ in range(5):
        evaluator(str(directory / "model.ckpt-2"))
    assert re.findall(r"Warning: (\w)", capsys.readouterr().out) == ["a", "b", "a"]


def test_the_line_and_the_curves_show_weighted_figures_and_the_file_the_original_ones(
    directory, capsys
):
    run, rows = Run(directory), []

    class Writer:
        def write(self, *row):
            rows.append(row)

    run.figures.writers.append(Writer())
    make(run, weighted={"value": 0.5}).each([str(directory / "model.ckpt-4")])
    assert rows == [("eval", 4, {"value": 0.5})]
    assert "Evaluation at step 4: value 0.5000 (kept as" in capsys.readouterr().out
    assert "value = 4.0" in (directory / results.EVAL_RESULTS).read_text()


def test_the_loss_of_pretraining_is_the_sum_of_its_parts_and_that_of_the_file_the_original_one(
    directory, capsys, monkeypatch
):
    class PretrainingRun(Run):
        def evaluate(self, dataset, max_steps):
            accuracies = {"masked_lm_accuracy": 0.5, "sentence_order_accuracy": 0.5}
            return accuracies | {"masked_lm_loss": 4.0, "sentence_order_loss": 0.5, "loss": 9.0}

    monkeypatch.setattr(input_pipeline, "eval_dataset", lambda *_, **__: None)
    options = types.SimpleNamespace(max_eval_steps=3, sentence_loss_weight=0.5, eval_batch_size=8)
    source = pretraining._Source([], {}, None)
    evaluator = pretraining._make_evaluator(PretrainingRun(directory), options, source)
    evaluator.each([str(directory / "model.ckpt-4")])
    assert "Evaluation at step 4: loss 4.2500, masked_lm_acc" in capsys.readouterr().out
    lines = (directory / results.EVAL_RESULTS).read_text().splitlines()
    assert lines[0] == "global_step = 4" and lines[1].startswith("saved ")
    assert lines[3] == "loss = 9.0"
