# SPDX-License-Identifier: Apache-2.0
"""Evaluating checkpoints that another process writes, and deletes; the results that are kept."""

import re
import types

import pytest
import tensorflow as tf

from albert_tf import options
from albert_tf.checkpoints import loading, run_directory, writers
from albert_tf.checkpoints.run_directory import BestState, EvaluatedOn, RunDirectory
from albert_tf.errors import UserError
from albert_tf.model import objectives
from albert_tf.publish import cards
from albert_tf.records import input_pipeline
from albert_tf.training import evaluation, loop, metrics, pretraining, runs
from albert_tf.training.splits_and_results import Evaluation
from tests.errors import assert_says, refuses


class Run:
    """A run of one variable, as an `evaluation.Evaluator` needs it."""

    is_chief, strategy = True, tf.distribute.get_strategy()
    delete_at_load = None  # prefix of a checkpoint that disappears when it is to be loaded

    def __init__(self, directory, **settings):
        self.settings = options.Loop(
            output_dir=str(directory), train_steps=4, save_checkpoints_steps=2, **settings
        )
        self.step, self.weight = 0, tf.Variable([0.0])
        self.saver = loop.Saver(self.settings)
        self.metrics = metrics.Metrics([], [])

    def load_weights_and_step(self, prefix):
        if prefix == self.delete_at_load:
            run_directory.delete(prefix)
        (values, _) = writers.read(run_directory.find(prefix))
        self.step = int(values["global_step"])
        self.weight.assign(values["bert/pooler/dense/bias"])

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
    prefix = str(directory / f"model.ckpt-{step}")
    writers.write(prefix, tensors, "tf2")
    return prefix


DATA = EvaluatedOn("a file")


def make(run, after_metrics=lambda: None, data=DATA, sign=1, **options):
    """An evaluator whose metric is the weight; the rest happens before it is written down."""

    def evaluate():
        evaluated = {"value": sign * float(run.weight[0])}
        after_metrics()
        return Evaluation(evaluated, **options)

    return evaluation.Evaluator(run, evaluate, "value", "{first}{rest}", data)


def evaluated_steps(out):
    return [int(step) for step in re.findall(r"Evaluation at step (\d+)", out)]


def test_a_checkpoint_deleted_while_it_is_evaluated_still_becomes_the_best(directory, capsys):
    run = Run(directory)

    def delete():
        for _, prefix in run_directory.numbered_in(str(directory)):
            if run_directory.step_of(prefix) <= run.step:
                run_directory.delete(prefix)

    make(run, after_metrics=delete).evaluate_directory(timeout=0)
    assert evaluated_steps(capsys.readouterr().out) == [0, 2, 4]
    assert RunDirectory(str(directory)).results == (4, 4, 4.0)
    assert loading.step_in(str(directory / "model.ckpt-best")) == 4
    assert "global_step = 2\nvalue = 2.0\n" in (directory / run_directory.EVAL_RESULTS).read_text()


@pytest.mark.parametrize("newest_only", [True, False])
def test_a_checkpoint_deleted_before_it_is_read_is_left_out(
    newest_only, directory, capsys, monkeypatch
):
    monkeypatch.setattr(evaluation, "SECONDS_TO_REWRITE", 0)
    run = Run(directory)
    run.delete_at_load = str(directory / f"model.ckpt-{4 if newest_only else 2}")
    make(run).evaluate_directory(timeout=0, given=str(directory), newest_only=newest_only)
    out = capsys.readouterr().out
    assert_says(out, run.delete_at_load)
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
    run = Run(directory)

    def load(_):
        raise UserError("of another model")

    run.load_weights_and_step = load
    with refuses("of another model"):
        make(run).evaluate_directory(timeout=0)


def test_a_given_checkpoint_that_is_damaged_is_an_error(directory, tmp_path_factory):
    (directory / "model.ckpt-4.data-00000-of-00001").write_bytes(b"half")
    run = Run(tmp_path_factory.mktemp("empty"))
    with refuses("/model.ckpt-4"):
        make(run).evaluate_directory(timeout=0, given=str(directory / "model.ckpt-4"))


def test_a_checkpoint_from_elsewhere_is_not_kept_as_a_model_of_the_run(
    directory, tmp_path_factory, capsys
):
    out = tmp_path_factory.mktemp("out")
    for step in (4, 2):  # the second is not compared with the first
        kept, run = [], Run(out)
        evaluator = make(run, keep=kept.append)
        evaluator.evaluate_directory(timeout=0, given=str(directory / f"model.ckpt-{step}"))
        assert kept == [str(out)]  # the threshold of a task, for predictions of the same command
    assert evaluated_steps(capsys.readouterr().out) == [4, 2]
    assert RunDirectory(str(out)).results is None and RunDirectory(str(out)).trained is None
    assert "global_step = 2\nvalue = 2.0\n" in (out / run_directory.EVAL_RESULTS).read_text()


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


OTHER = EvaluatedOn("another file")


def test_the_checkpoint_of_a_stop_is_no_regular_one(directory, capsys):
    save(directory, 3)
    run = Run(directory)
    run.step = 3
    make(run).make_up()
    assert evaluated_steps(capsys.readouterr().out) == [0, 2, 4]
    save(directory, 1)  # nobody knows at which steps this run was saved
    (directory / run_directory.BEST_STATE).unlink()
    for path in directory.glob("model.ckpt-best*"):
        path.unlink()
    run.step = 4
    make(run).make_up()
    assert evaluated_steps(capsys.readouterr().out) == [0, 1, 2, 3, 4]


def test_a_lack_of_memory_is_named_in_what_is_made_up_for_too():
    def make_up(first_step):
        raise tf.errors.ResourceExhaustedError(None, None, f"no room at {first_step}")

    settings = types.SimpleNamespace(output_dir="out")
    run = types.SimpleNamespace(step=1, strategy=tf.distribute.get_strategy(), settings=settings)
    with refuses("1"):
        runs.train(run, [], {}, types.SimpleNamespace(make_up=make_up))


def test_metrics_of_another_file_do_not_change_the_best(directory, capsys):
    make(Run(directory)).evaluate_directory(timeout=0)
    kept = []
    for newest_only, timeout in ((True, 0), (False, 0), (True, 60)):  # 4 is the last step
        run = Run(directory)
        evaluator = make(run, data=OTHER, sign=9, keep=kept.append)
        evaluator.evaluate_directory(timeout=timeout, newest_only=newest_only)
        assert run.step == 4 and not kept  # the threshold of the best stays, too
    folder = RunDirectory(str(directory))
    assert folder.results == (4, 4, 4.0) and folder.evaluated_on == DATA
    text = (directory / run_directory.EVAL_RESULTS).read_text()
    assert "value = 36.0\nnot compared with the metrics of the training\n" in text
    assert cards._metrics(text, 4) == {"value": "4.0"}  # model cards show those of the training
    earlier = text.replace("with the metrics of", "with the figures of")  # of an earlier version
    assert cards._metrics(earlier, 4) == {"value": "4.0"}


def test_what_is_evaluated_after_the_best_is_not_evaluated_again(directory, capsys):
    make(Run(directory), sign=-1).evaluate_directory(timeout=0)
    assert RunDirectory(str(directory)).results == (4, 2, -2.0)
    capsys.readouterr()
    make(Run(directory), sign=-1).evaluate_directory(timeout=0)
    out = capsys.readouterr().out
    assert not evaluated_steps(out)
    assert_says(out, "step 4 ... 2")


def test_other_files_and_no_numbered_checkpoint(directory):
    make(Run(directory)).evaluate_directory(timeout=0)
    for _, prefix in run_directory.numbered_in(str(directory)):
        run_directory.delete(prefix)
    before = RunDirectory(str(directory)).results
    run = Run(directory)
    make(run, data=OTHER, sign=9).evaluate_directory(timeout=0, newest_only=True)
    assert run.step == 4 and RunDirectory(str(directory)).results == before
    run_directory.delete(str(directory / "model.ckpt-best"))
    with refuses(f"--output_dir={directory}"):
        make(Run(directory), data=OTHER).evaluate_directory(timeout=0, newest_only=True)


def test_a_best_checkpoint_without_results_has_to_be_beaten(directory):
    """As in RACE runs of the original, whether the training goes on or not."""
    for step in (9, 3):
        best, (values, _) = str(directory / "model.ckpt-best"), writers.read(save(directory, step))
        run_directory.delete(str(directory / f"model.ckpt-{step}"))
        writers.write(best, values, "tf2")
        make(Run(directory)).make_up(first_step=1)
        assert RunDirectory(str(directory)).results == (4, max(step, 4), max(step, 4))
        (directory / run_directory.BEST_STATE).unlink()


def test_weights_of_a_checkpoint_that_was_skipped_do_not_stay(directory, monkeypatch):
    monkeypatch.setattr(evaluation, "SECONDS_TO_REWRITE", 0)
    for step in (0, 2):
        run_directory.delete(str(directory / f"model.ckpt-{step}"))
    run = Run(directory)
    run.delete_at_load = str(directory / "model.ckpt-4")
    make(run).make_up()
    assert run.restored


def test_an_evaluation_whose_files_could_not_be_written_is_made_again(directory, capsys):
    def keep(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(Run(directory), keep=keep).make_up()
    kept = []
    make(Run(directory), keep=kept.append).make_up()
    # The best one is there already.
    assert evaluated_steps(capsys.readouterr().out) == [0, 0, 2, 4] and len(kept) == 3


def test_a_training_that_goes_on_with_another_file_evaluates_the_best_again(directory, capsys):
    make(Run(directory)).make_up()
    save(directory, 6)
    run = Run(directory)
    evaluator = make(run, data=OTHER, sign=-0.1)
    evaluator._keep = 1
    evaluator.make_up()
    out = capsys.readouterr().out
    assert evaluated_steps(out) == [0, 2, 4, 4, 6] and "model.ckpt-best again" in out
    folder = RunDirectory(str(directory))
    assert folder.results == (6, 4, -0.4) and folder.evaluated_on == OTHER and run.restored
    make(Run(directory), data=OTHER, sign=-0.1).make_up()
    assert not evaluated_steps(capsys.readouterr().out)


def test_results_of_earlier_versions_are_compared(directory, capsys):
    make(Run(directory)).make_up()
    (directory / run_directory.EVALUATED_ON).unlink()
    make(Run(directory), data=OTHER).make_up()
    assert evaluated_steps(capsys.readouterr().out) == [0, 2, 4]


def test_files_that_moved_are_the_same(tmp_path):
    def on(folder, name, content, **settings):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(content)
        return evaluation.evaluated_on([str(tmp_path / folder / name)], **settings)

    first = on("a", "dev.tsv", "1")
    assert on("b", "dev.tsv", "2") == first
    others = [on("a", "dev.tsv", "12"), on("a", "test.tsv", "1"), on("a", "x", "1", rows=3)]
    assert first not in others


def test_warnings_are_said_when_they_begin_to_hold(directory, capsys):
    warnings = iter([["a 1.5", None], ["a 0.2"], ["a 1", "b"], [None], ["a"]])
    run = Run(directory)
    evaluate = lambda: Evaluation({"value": 0.0}, next(warnings))  # noqa: E731
    evaluator = evaluation.Evaluator(run, evaluate, "value", "{first}", DATA)
    run.step = 1
    for _ in range(5):
        evaluator(str(directory / "model.ckpt-2"))
    assert re.findall(r"Warning: (\w)", capsys.readouterr().out) == ["a", "b", "a"]


def test_the_line_and_the_curves_show_weighted_metrics_and_the_file_the_original_ones(
    directory, capsys
):
    run, rows = Run(directory), []
    run.metrics.writers.append(types.SimpleNamespace(write=lambda *row: rows.append(row)))
    make(run, weighted={"value": 0.5}).each([str(directory / "model.ckpt-4")])
    assert rows == [("eval", 4, {"value": 0.5})]
    assert_says(capsys.readouterr().out, "4 ... 0.5000")
    assert "value = 4.0" in (directory / run_directory.EVAL_RESULTS).read_text()


def test_the_loss_of_pretraining_is_the_sum_of_its_parts_and_that_of_the_file_the_original_one(
    directory, capsys, monkeypatch
):
    class PretrainingRun(Run):
        def evaluate(self, dataset, max_steps):
            accuracies = {"masked_lm_accuracy": 0.5, "sentence_order_accuracy": 0.5}
            return accuracies | {"masked_lm_loss": 4.0, "sentence_order_loss": 0.5, "loss": 9.0}

    monkeypatch.setattr(input_pipeline, "eval_dataset", lambda *_, **__: None)
    run = PretrainingRun(directory)
    run.objective = objectives.PRETRAINING
    run.settings = options.Pretraining(
        output_dir=str(directory), train_steps=4, sentence_loss_weight=0.5
    )
    evaluator = pretraining._make_evaluator(run, pretraining._Source([], {}, None, 0.0))
    evaluator.each([str(directory / "model.ckpt-4")])
    assert_says(capsys.readouterr().out, "4 ... 4.2500 ... masked_lm_acc")
    lines = (directory / run_directory.EVAL_RESULTS).read_text().splitlines()
    assert lines[0] == "global_step = 4" and lines[1].startswith("saved ")
    assert lines[3] == "loss = 9.0"


# --- What evaluations leave in the directory ---------------------------------------------------


def record(directory, step, value, name="f1"):
    """Evaluates a checkpoint with a metric; returns whether it is kept as the best."""
    run = Run(directory)
    run.step = step
    layout = "{first}{rest}best = {before}\n{saved}"
    evaluator = evaluation.Evaluator(
        run, lambda: Evaluation({name: value}), name, layout, DATA, initial_best=-1.0
    )
    evaluator(save(directory, step))
    return RunDirectory(str(directory)).results.best_step == step


def test_the_best_is_kept_and_everything_is_written_down(tmp_path):
    kept = [record(tmp_path, *row) for row in ((1, 0.5), (2, 0.25), (3, 0.75))]
    assert kept == [True, False, True]
    assert RunDirectory(str(tmp_path)).results == (3, 3, 0.75)
    assert loading.step_in(str(tmp_path / "model.ckpt-best")) == 3
    lines = (tmp_path / run_directory.EVAL_RESULTS).read_text().splitlines()
    assert [line for line in lines if not line.startswith("saved ")] == [
        "f1 = 0.5", "global_step = 1", "best = -1.0",
        "f1 = 0.25", "global_step = 2", "best = 0.5",
        "f1 = 0.75", "global_step = 3", "best = 0.5",
    ]  # fmt: skip
    saved = [line for line in lines if line.startswith("saved ")]
    assert len(saved) == 4
    assert saved[1] == f"saved {tmp_path}/model.ckpt-1.index to {tmp_path}/model.ckpt-best.index"


@pytest.mark.parametrize(
    "rows, best",
    [
        ([(0, 0.9), (1, 0.5)], (1, 0.5)),  # a lucky untrained model
        ([(0, 0.5), (1, 0.5), (2, 0.4)], (1, 0.5)),
        ([(1, 0.5), (2, 0.5), (3, 0.4)], (1, 0.5)),  # the earlier of a tie
        ([(0, 0.9), (1, float("nan"))], (0, 0.9)),  # nothing else has a metric
        ([(0, 0.9)], (0, 0.9)),
    ],
)
def test_trained_models_and_the_earlier_of_a_tie_go_first(rows, best, tmp_path):
    for step, value in rows:
        record(tmp_path, step, value)
    assert RunDirectory(str(tmp_path)).results[1:] == best
    assert loading.step_in(str(tmp_path / "model.ckpt-best")) == best[0]


def test_checkpoints_of_another_name_are_neither_evaluated_nor_deleted(directory, capsys):
    run_directory.delete(save(directory, 0))
    for path in directory.glob("model.ckpt-2.*"):
        path.rename(directory / path.name.replace("model.ckpt-2", "model.ckpt-kept-2"))
    run = Run(directory, keep_checkpoint_max=1)
    make(run).make_up()
    assert evaluated_steps(capsys.readouterr().out) == [4]
    run.saver.save(6, {"global_step": tf.Variable(6)})
    run.saver.wait()
    names = {path.name for path in directory.glob("*.index")}
    assert names == {"model.ckpt-kept-2.index", "model.ckpt-6.index", "model.ckpt-best.index"}


def test_a_loss_is_shown_without_the_sign_of_the_record(tmp_path):
    record(tmp_path, 1, 0.5, "eval_loss")
    record(tmp_path, 2, 0.25, "eval_loss")
    assert RunDirectory(str(tmp_path)).results.best == -0.25
    assert "best = 0.5\n" in (tmp_path / run_directory.EVAL_RESULTS).read_text()
    evaluation.report_predictions(str(tmp_path), {"eval_loss": 0.125}, 2, "eval_loss")
    assert "best = 0.25\n" in (tmp_path / evaluation.PREDICT_RESULTS).read_text()


def test_a_checkpoint_is_described_with_its_step_and_the_best_with_its_metric(tmp_path):
    record(tmp_path, 1, 0.5)
    best = str(tmp_path / "model.ckpt-best")
    assert evaluation.describe(best, "f1") == f"{best} (step 1, f1 0.5000)"
    folder, state = RunDirectory(str(tmp_path)), BestState(1, 1, -0.5)
    folder.write_results(state, evaluation.evaluated_on([], best_metric="eval_loss"))
    assert evaluation.describe(best, "f1") == f"{best} (step 1, eval_loss 0.5000)"
    evaluation.report_predictions(str(tmp_path), {"f1": 1.0}, 1, "f1")
    assert (tmp_path / "predict_results.txt").read_text().endswith("best = 0.5\n")
    other = str(tmp_path / "model.ckpt-1")
    assert evaluation.describe(other, "f1") == f"{other} (step 1)"
    (tmp_path / run_directory.BEST_STATE).write_text("7:7:0.5")  # of another checkpoint
    assert evaluation.describe(best, "f1") == f"{best} (step 1)"


def test_counts_are_no_metrics_to_choose_by():
    with refuses("--best_metric=f2 ... f1") as error:
        evaluation.check_metric("f2", ["f1", "count_a_as_b"])
    assert "count_" not in str(error.value)


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("name", ["f1", "eval_loss"])
def test_what_is_not_finite_is_never_the_best(name, value, tmp_path):
    assert not record(tmp_path, 1, float(value), name)
    assert RunDirectory(str(tmp_path)).results == (1, -1, -1.0)
    assert not (tmp_path / "model.ckpt-best.index").exists()
    assert record(tmp_path, 2, 7.0, name)


@pytest.mark.parametrize(
    "text",
    ["1:2", "1:2:nan", "1:2:inf", "1:2:-inf", "1:2:1e999", "-1:2:0.5", "1:-2:0.5", "True:1:0.5",
     "1:False:0.5", "1:1:True", "1_0:1:0.5", f"{10**30}:1:0.5", "1:1:0.5:7", "1.5:1:0.5", "1:1:e",
     " ", "9" * 5000],
)  # fmt: skip
def test_damaged_state_is_a_plain_error(text, tmp_path):
    (tmp_path / run_directory.BEST_STATE).write_text(text)
    with refuses("best_trial.txt") as error:
        _ = RunDirectory(str(tmp_path)).results
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "text, state",
    [("40:20:0.625", (40, 20, 0.625)), ("4:0:0.0", (4, 0, 0.0)), ("4:-1:-1", (4, -1, -1.0)),
     ("8:4:-0.25", (8, 4, -0.25)), ("8:4:8.5e-05", (8, 4, 8.5e-05)), ("8:4:87.5\n", (8, 4, 87.5))],
)  # fmt: skip
def test_states_of_the_original_and_of_negative_metrics_are_read(text, state, tmp_path):
    assert RunDirectory(str(tmp_path)).results is None
    (tmp_path / run_directory.BEST_STATE).write_text(text)
    assert RunDirectory(str(tmp_path)).results == state


def test_follow_gives_all_or_the_newest(tmp_path):
    for step in (2, 10, 4):
        save(tmp_path, step)
    every = list(evaluation.follow(str(tmp_path), 99, 0.0, newest_only=False))
    assert [run_directory.step_of(prefix) for prefix in every] == [2, 4, 10]
    later = list(evaluation.follow(str(tmp_path), 99, 0.0, seen=2, newest_only=False))
    assert later == every[1:]
    assert list(evaluation.follow(str(tmp_path), 99, 0.0)) == every[-1:]
    beyond_the_last = list(evaluation.follow(str(tmp_path), 3, 60.0, seen=2, newest_only=False))
    assert beyond_the_last == later


def test_follow_waits_for_newer_checkpoints_and_ends(tmp_path):
    assert list(evaluation.follow(str(tmp_path), 9, timeout=0.0)) == []
    save(tmp_path, 7)
    seen = []
    for prefix in evaluation.follow(str(tmp_path), 9, timeout=5.0):
        seen.append(loading.step_in(prefix))
        if seen[-1] < 9:
            save(tmp_path, seen[-1] + 1)
    assert seen == [7, 8, 9]
