# SPDX-License-Identifier: Apache-2.0
"""run_classifier.py through its real main, on the original's tiny GLUE files."""

import contextlib
import functools
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import run_classifier
from albert_tf.checkpoints import loading, name_table, readers, run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.cli import launch
from albert_tf.errors import UserError
from albert_tf.model import heads
from albert_tf.publish import graph_tokenization
from albert_tf.records import input_pipeline
from albert_tf.tasks import base, classification, glue
from albert_tf.training import devices, evaluation, finetuning, metrics
from tests import tiny
from tests.checkpoints import golden_models
from tests.errors import assert_error, assert_names, assert_says, refuses
from tests.tiny import EVALUATE, PREDICT, table, values_of, write_config

pytestmark = pytest.mark.usefixtures("eagerly")

BASE, VOCABULARY = tiny.CLASSIFIER, tiny.VOCABULARY
TRAIN = {"do_eval": False, "do_predict": False, "train_step": 1}
POOLER = "bert/pooler/dense/kernel"


@pytest.fixture
def flags(tmp_path):
    """Flags of a run of two steps on RTE."""
    config = write_config(tmp_path / "config.json")
    return BASE | {"albert_config_file": config, "output_dir": tmp_path / "out"}


@pytest.fixture(scope="module")
def train_once(eagerly, run_once, tmp_path_factory):
    """Trains, evaluates and predicts a task once: train_once(task) -> its output directory."""
    submissions = tmp_path_factory.mktemp("submissions")

    @functools.cache
    def train(task):
        flags = BASE | {"task_name": task, "glue_submission_dir": submissions / task}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            out = run_once(run_classifier, tiny.CONFIG, **flags) / "out"
        (out / "printed.txt").write_text(printed.getvalue())
        shutil.copytree(submissions / task, out / "glue")
        return out

    return train


@pytest.fixture
def trained(train_once, tmp_path):
    """A copy, at the place that `flags` names, of a run of two steps on RTE."""
    return Path(shutil.copytree(train_once("RTE"), tmp_path / "out"))


def forget_evaluations(directory):
    """Leaves of a run what training alone leaves."""
    for path in directory.iterdir():
        if path.name.startswith("model.ckpt-best") or path.suffix in (".txt", ".tsv"):
            path.unlink()


def blocks(directory):
    return tiny.blocks(directory)[:-1]


def weights_of(prefix, name="output_weights"):
    return readers.TensorFlowReader(str(prefix))[name]


def steps(directory):
    return [values_of(block)["global_step"] for block in blocks(directory)]


# --- Training, evaluation, prediction ---


def test_train_evaluate_predict(train_once):
    """test_run_glue.py has tasks with other metrics, and scores."""
    out, row = train_once("RTE"), glue.find_task("RTE")
    assert steps(out) == [0, 1, 2]
    keys = [line.split(" = ")[0] for line in blocks(out)[0].splitlines()]
    assert keys == [*sorted([*row.metrics, "loss", "global_step"]), "best"]
    assert "best = -1" in blocks(out)[0]
    state = RunDirectory(str(out)).results
    values = [values_of(block)[row.metrics[0]] for block in blocks(out)]
    assert state.step == 2 and state.best == max(values[1:])  # of trained ones
    assert loading.step_in(str(out / "model.ckpt-best")) == state.best_step
    test_rows, submit = table(out / "test_results.tsv"), table(out / "submit_results.tsv")
    assert submit[0] == ["index", "prediction"] and len(submit) == len(test_rows) + 1
    assert len(test_rows[0]) == row.num_outputs
    assert len(table(out / "glue" / row.submission_file)) == len(submit)
    for name in ("train", "eval"):
        assert len(list(out.glob(f"rte_{name}-????????.tf_record"))) == 1
    best = [row.labels[np.argmax([float(number) for number in line])] for line in test_rows]
    assert [line[1] for line in submit[1:]] == best


@pytest.mark.long
def test_mnli_is_measured_on_both_of_its_sets(train_once):
    out = train_once("MNLI")
    metrics = dict(line.split(" = ") for line in blocks(out)[-1].splitlines())
    names = ["eval_accuracy", "eval_loss", "loss"]
    names += [f"{name}_mismatched" for name in names] + ["global_step"]
    assert [*metrics] == [*sorted(names), "best"]
    names = {"": "MNLI-m", "_mismatched": "MNLI-mm", "_diagnostic": "AX"}
    for suffix, name in names.items():
        rows = np.float32(table(out / f"test_results{suffix}.tsv"))
        assert rows.shape[1] == 3
        assert len(table(out / "glue" / f"{name}.tsv")) == len(rows) + 1
        assert len(table(out / f"submit_results{suffix}.tsv")) == len(rows) + 1


@pytest.mark.long
def test_metrics_of_the_mismatched_set_are_its_own(run_main, flags, train_once, tmp_path):
    """They equal those of the task mismnli with the same weights."""
    best = train_once("MNLI") / "model.ckpt-best"
    run_main(run_classifier, **flags | EVALUATE | {"task_name": "mismnli", "init_checkpoint": best})
    (alone,) = map(values_of, blocks(tmp_path / "out"))
    both = map(values_of, blocks(train_once("MNLI")))
    together = next(found for found in both if found["global_step"] == alone["global_step"])
    for name in ("eval_accuracy", "eval_loss", "loss"):
        assert alone[name] == pytest.approx(together[f"{name}_mismatched"], abs=1e-6)
    assert together["eval_loss"] != together["eval_loss_mismatched"]


@pytest.mark.long
def test_absent_mismatched_set_is_named(flags, run_main, train_once, tmp_path, capsys):
    shutil.copytree(BASE["data_dir"] / "MNLI", tmp_path / "MNLI")
    (tmp_path / "MNLI" / "dev_mismatched.tsv").unlink()
    values = {"task_name": "MNLI", "data_dir": tmp_path, "init_checkpoint": train_once("MNLI")}
    run_main(run_classifier, **flags | EVALUATE | values)
    assert capsys.readouterr().out.count("dev_mismatched.tsv") == 1
    assert "mismatched" not in blocks(tmp_path / "out")[0]


def test_training_resumes_and_first_evaluates_what_was_not(run_main, flags, trained, capsys):
    forget_evaluations(trained)
    run_main(run_classifier, **flags | {"do_predict": False, "train_step": 3})
    assert_says(capsys.readouterr().out, "step 2 ... model.ckpt-2")
    assert steps(trained) == [0, 1, 2, 3]


def test_predict_alone_uses_the_best_and_else_the_newest(
    run_main, flags, trained, train_once, tmp_path, capsys
):
    before = (trained / "test_results.tsv").read_text()
    run_main(run_classifier, **flags | PREDICT)
    assert f"with {trained}/model.ckpt-best" in capsys.readouterr().out
    assert (trained / "test_results.tsv").read_text() == before
    forget_evaluations(trained)
    run_main(run_classifier, **flags | PREDICT)
    assert capsys.readouterr().out.count(f"There is no model.ckpt-best in {trained}") == 1
    elsewhere = {"output_dir": tmp_path / "new", "init_checkpoint": train_once("RTE")}
    run_main(run_classifier, **flags | PREDICT | elsewhere)
    assert (tmp_path / "new" / "test_results.tsv").exists()
    assert "There is no model.ckpt-best" not in capsys.readouterr().out


@pytest.mark.long
def test_an_ensemble_has_the_mean_of_the_outputs_of_its_models(run_main, flags, trained, tmp_path):
    other, both = tmp_path / "second", tmp_path / "both"
    run_main(run_classifier, **flags | {"output_dir": other, "learning_rate": 0.1})
    given = {name: flags[name] for name in ("data_dir", "task_name", "do_eval", "do_predict")}
    given |= {"ensemble_dirs": f"{trained},{other}", "output_dir": both}
    run_main(run_classifier, **given)
    folders = (trained, other, both)
    found = [np.array(table(folder / "test_results.tsv"), float) for folder in folders]
    mean = np.sqrt(found[0] * found[1])  # of logits
    np.testing.assert_allclose(found[2], mean / mean.sum(axis=1, keepdims=True), atol=1e-6)
    assert not np.allclose(found[0], found[2], atol=1e-4)
    assert 0 <= values_of((both / "eval_results.txt").read_text())["eval_accuracy"] <= 1
    assert not list(both.glob("model.ckpt*"))
    with refuses("--task_name=MRPC"):
        run_main(run_classifier, **given | {"task_name": "MRPC"})


@pytest.mark.parametrize(
    "mode", [pytest.param("train", marks=pytest.mark.long), "evaluate", "predict"]
)
def test_of_a_fine_tuned_directory_the_best_is_taken(
    run_main, flags, tmp_path, train_once, capsys, mode
):
    first = Path(shutil.copytree(train_once("RTE"), tmp_path / "first"))
    golden_models.copy(first / "model.ckpt-1", first / "model.ckpt-best")
    modes = {"train": {"train_step": 1}, "evaluate": EVALUATE, "predict": PREDICT}
    run_main(run_classifier, **flags | {"init_checkpoint": first} | modes[mode])
    out = capsys.readouterr().out
    assert f"{first}/model.ckpt-best" in out and f"{first}/model.ckpt-2" not in out


def test_a_directory_of_another_task_is_refused(run_main, flags, trained, tmp_path):
    here = {"task_name": "qnli"}
    there = {"task_name": "QNLI", "init_checkpoint": trained, "output_dir": tmp_path / "new"}
    for values in (here, here | EVALUATE, here | PREDICT, there | EVALUATE, there | PREDICT):
        name = f"--task_name={values['task_name']}"
        with refuses(f"{name} ... {trained} ... finetuned_task.json ... --task_name=rte"):
            run_main(run_classifier, **flags | values)
    with refuses("--task_name"):
        run_main(run_classifier, **flags | EVALUATE | {"task_name": "tsv", "label_column": 1})
    failed = tmp_path / "failed"  # whose start has recorded a task
    failed.mkdir()
    shutil.copy(trained / run_directory.TASK, failed)
    values = {"task_name": "tsv", "label_column": 1, "text_column": 0, "output_dir": failed}
    values |= {"data_dir": tmp_path, "continuous_eval_timeout": 1}
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("a\tyes\nb\tno\n" * 2)
    with refuses(f"--output_dir={failed}"):
        run_main(run_classifier, **flags | EVALUATE | values)
    content, labels = (trained / run_directory.TASK).read_text(), ["entailment", "not_entailment"]
    kind = {"task_name": "rte", "labels": labels, "scale": None, "scores": None}
    assert json.loads(content) == kind


def test_a_training_of_another_task_that_begins_later_is_refused(
    run_main, flags, trained, tmp_path, monkeypatch
):
    def follow(directory, *_):  # as if the training began after the evaluation
        shutil.copytree(trained, directory, dirs_exist_ok=True)
        yield f"{directory}/model.ckpt-2"

    monkeypatch.setattr(evaluation, "follow", follow)
    values = {"task_name": "QNLI", "output_dir": tmp_path / "new", "continuous_eval_timeout": 1}
    with refuses("rte ... qnli ... --output_dir"):
        run_main(run_classifier, **flags | EVALUATE | values)


@pytest.mark.long
def test_a_start_that_failed_does_not_claim_the_directory(run_main, flags, tmp_path):
    (tmp_path / "dev.tsv").write_text("good\tyes\nso so\tmaybe\n")
    (tmp_path / "train.tsv").write_text("good\tyes\nbad\tno\n" * 2)
    flags |= {"task_name": "tsv", "label_column": 1, "data_dir": tmp_path, "do_predict": False}
    with refuses("'maybe'"):
        run_main(run_classifier, **flags)
    run_main(run_classifier, **flags | {"labels": "no,maybe,yes", "train_step": 1})
    assert RunDirectory(str(tmp_path / "out")).task.labels == ("no", "maybe", "yes")


def test_what_is_trained_on_is_said_in_three_lines(train_once):
    printed = (train_once("RTE") / "printed.txt").read_text()
    wanted = r"(?m)^Training on (.*)\nClasses: (.*)\n(?:.*\n)?First example: (.*)$"
    said = re.search(wanted, printed)
    path = BASE["data_dir"] / "RTE" / "train.tsv"
    assert_names(said[1], f"{path} ... 1 ... text_pair ... 2")
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    counts = [sum(row[-1] == label for row in rows) for label in ("entailment", "not_entailment")]
    assert said[2] == f"entailment ({counts[0]}), not_entailment ({counts[1]})"
    assert re.fullmatch(rf"\[CLS\] ▁.* = {rows[0][-1]}; vocabulary: {VOCABULARY}", said[3])


def test_where_the_best_lies_and_what_comes_next(train_once):
    out = train_once("RTE")
    *_, best, command = (out / "printed.txt").read_text().splitlines()
    state = RunDirectory(str(out)).results
    where = f"step {state.best_step}, eval_accuracy {state.best:.4f}"
    assert best == f"The best model is {out}/model.ckpt-best ({where})"
    texts = '--text="some text" --text_pair="some text_pair"'
    assert command == f"Next: python predict.py --model={out} {texts}"


def test_diagnostic_set_is_predicted_with_an_mnli_model(run_main, flags, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    tiny.write_release(out, heads.ClassificationModel, tiny.CONFIG, num_outputs=3)
    kind = run_directory.FinetunedTask("mnli", glue.TASKS["mnli"].labels)
    RunDirectory(str(out)).write_task(kind)
    run_main(run_classifier, **flags | PREDICT | {"task_name": "ax"})
    answers = table(out / "submit_results.tsv")[1:]
    assert len(answers) == 8 and {answer for _, answer in answers} <= set(kind.labels)


def test_ones_own_files(run_main, flags, tmp_path, capsys):
    """With evaluation by itself afterwards, which takes the columns from run.json, also elsewhere.

    There, columns that were given by number are found by their names.
    """
    rows = ["id,review,liked", '1,"good, film",yes', "2,bad film,no", "3,fine,yes", "4,awful,no"]
    for name in ("train.csv", "dev.csv"):
        (tmp_path / name).write_text("\n".join(rows))
    (tmp_path / "test.tsv").write_text("review\n" + "x\n" * 4)
    own = {"task_name": "tsv", "data_dir": tmp_path}
    columns = {"text_column": "1", "label_column": "2", "header": True}
    run_main(run_classifier, **flags | own | columns | {"train_step": 1})
    answers = table(tmp_path / "out" / "submit_results.tsv")[1:]
    assert {answer[1] for answer in answers} <= {"yes", "no"}
    assert len(answers) == 4
    before = blocks(tmp_path / "out")
    forget_evaluations(tmp_path / "out")
    run_main(run_classifier, **flags | EVALUATE | own)
    assert blocks(tmp_path / "out")[-1] == before[-1]
    other = tmp_path / "other"
    other.mkdir()
    swapped = ["review,liked", '"good, film",yes', "bad film,no", "fine,yes", "awful,no"]
    (other / "dev.csv").write_text("\n".join(swapped))
    places = {"data_dir": other, "output_dir": other, "init_checkpoint": tmp_path / "out"}
    capsys.readouterr()
    run_main(run_classifier, **flags | EVALUATE | own | places | {"allow_random_init": False})
    found = "dev.csv ... text in column 0 ('review'), label in column 1 ('liked')"
    assert_says(capsys.readouterr().out, found)
    ours, theirs = (values_of(found)["eval_loss"] for found in (before[-1], blocks(other)[-1]))
    assert theirs == pytest.approx(ours)


def test_points_of_the_curves_follow_the_length_of_the_training_unless_given(asked, flags):
    for steps, points in ((500, 5), (20, 1), (200_000, 1000)):
        made = asked(run_classifier, **flags | {"train_step": steps})
        assert made.iterations_per_loop == points
    for given in (1000, 7):
        made = asked(run_classifier, **flags | {"train_step": 500, "iterations_per_loop": given})
        assert made.iterations_per_loop == given


def test_epochs_are_counted_in_examples_and_end_with_a_checkpoint(asked, flags, capsys):
    kept = {n: v for n, v in flags.items() if n not in ("train_step", "save_checkpoints_steps")}
    flags = kept | {"train_batch_size": 4, "num_train_epochs": 3.5}
    examples = len((flags["data_dir"] / "RTE" / "train.tsv").read_text().splitlines()) - 1
    made = asked(run_classifier, **flags)
    assert made.train_steps == int(examples / 4 * 3.5)
    assert made.save_checkpoints_steps == -(-made.train_steps // 3.5) < made.train_steps
    assert not {"train_step", "save_checkpoints_steps"} & made.record.flags.keys()
    assert_says(capsys.readouterr().out, str(made.save_checkpoints_steps))
    assert asked(run_classifier, **flags, save_checkpoints_steps=7).save_checkpoints_steps == 7
    assert asked(run_classifier, **kept, train_step=50).save_checkpoints_steps == 1000
    with refuses("epochs=0.1"):
        asked(run_classifier, **flags | {"num_train_epochs": 0.1})
    with refuses("--train_step=500 ... --num_train_epochs"):
        asked(run_classifier, **flags, train_step=500)


@pytest.mark.parametrize(("steps", "warns"), [(49, False), (50, True), (60, True)])
def test_one_evaluation_is_a_warning(steps, warns, asked, flags, capsys):
    flags |= {"train_step": 50, "save_checkpoints_steps": steps}
    asked(run_classifier, **flags)
    assert ("--save_checkpoints_steps=10" in capsys.readouterr().out) == warns
    asked(run_classifier, **flags | {"do_eval": False})
    assert "--save_checkpoints_steps" not in capsys.readouterr().out


@pytest.mark.long
def test_trials_report_median_mean_and_spread_and_keep_the_best(run_main, flags, tmp_path, capsys):
    run_main(run_classifier, **flags | {"train_step": 1}, num_trials=2)
    folders = {seed: tmp_path / f"out/trial-{seed}" for seed in (1, 2)}
    values = {seed: RunDirectory(str(path)).results.best for seed, path in folders.items()}
    best, scores = max(values, key=values.get), list(values.values())
    summary = (tmp_path / "out" / "trials.txt").read_text().splitlines()[-1]
    assert f"median {np.median(scores):.4f}, mean {np.mean(scores):.4f}" in summary
    assert f"standard deviation {np.std(scores, ddof=1):.4f}" in summary
    assert summary in capsys.readouterr().out
    weights = [weights_of(path / "model.ckpt-0") for path in folders.values()]
    assert np.abs(weights[0] - weights[1]).max() > 0
    for path in folders.values():
        assert (path / "flags.txt").exists() and (path / "albert_config.json").exists()
    for path in (tmp_path / "out", *folders.values()):
        assert (path / run_directory.TASK).exists()
    kept = tmp_path / "out", folders[best]
    np.testing.assert_array_equal(*(weights_of(path / "model.ckpt-best") for path in kept))
    assert (tmp_path / "out" / "submit_results.tsv").exists()
    assert RunDirectory(str(tmp_path / "out")).results.best == values[best]


def test_trials_do_not_replace_the_best_checkpoint_of_a_training(run_main, flags, trained):
    before = (trained / "best_trial.txt").read_text()
    for _ in range(2):
        with refuses("--num_trials"):
            run_main(run_classifier, **flags, num_trials=2)
        for path in trained.glob("model.ckpt-[0-9]*"):  # only the best one stays
            path.unlink()
    assert (trained / "best_trial.txt").read_text() == before


@pytest.fixture
def run_trials(run_main, flags, tmp_path, monkeypatch):
    """Runs trials whose training is replaced by a score, 0.SEED, or by failure of some seeds.

    run_trials(failing seeds, sign of the score, **flags) -> the lines of trials.txt.
    """

    def run(failing=(), sign="", num_trials=2, **others):
        def run_trial(task, config, options, strategy):
            seed = options.seed
            if seed in failing:
                raise metrics.NonFiniteError("not finite\nat step 7")
            best = Path(options.output_dir) / "model.ckpt-best"
            best.parent.mkdir(exist_ok=True)  # locked, it is there
            named = name_table.named_variables(heads.ClassificationModel(config, 2))
            tf.train.Checkpoint(variables=named).write(str(best))
            (best.parent / "best_trial.txt").write_text(f"1:1:{sign}0.{seed}")
            for name in ("eval_results.txt", "eval_report.txt"):
                (best.parent / name).write_text(f"eval_accuracy = 0.{seed}\n")

        monkeypatch.setattr(finetuning, "train_and_evaluate", run_trial)
        run_main(run_classifier, **flags | others, num_trials=num_trials)
        return (tmp_path / "out" / "trials.txt").read_text().splitlines()

    return run


def test_a_trial_that_fails_is_written_down_and_the_others_go_on(run_trials, tmp_path):
    *trials, summary = run_trials({2, 4}, num_trials=4)
    folder = tmp_path / "out" / "trial-"
    failed = "failed: not finite at step 7"
    scores = ("0.1", failed, "0.3", failed)
    assert trials == [f"{folder}{seed}\t{score}" for seed, score in enumerate(scores, 1)]
    assert "of 2 trials (2 failed): median 0.2000, mean 0.2000" in summary
    assert f"best 0.3000 in {folder}3" in summary
    assert run_directory.exists(str(tmp_path / "out" / "model.ckpt-best"))
    for name in ("eval_results.txt", "eval_report.txt"):
        assert (tmp_path / "out" / name).read_text() == "eval_accuracy = 0.3\n"


def test_trials_of_other_seeds_are_not_forgotten(run_trials, tmp_path):
    run_trials()
    with refuses(f"--output_dir={tmp_path}/out ... trial-1"):
        run_trials(seed=2)
    assert len(run_trials(num_trials=3)) == 4


def test_classes_are_weighted_once_for_all_trials(run_trials, capsys):
    run_trials(num_trials=3, class_weights="balanced", do_predict=False)
    assert capsys.readouterr().out.count("Weights of classes") == 1


def test_the_best_trial_by_loss_has_the_lowest_one(run_trials, tmp_path):
    # The sign is that of losses in best_trial.txt.
    *trials, summary = run_trials(sign="-", do_predict=False, best_metric="eval_loss")
    assert [line.split("\t")[1] for line in trials] == ["0.1", "0.2"]
    assert "mean 0.1500" in summary and summary.endswith(f"best 0.1000 in {tmp_path}/out/trial-1")
    assert (tmp_path / "out" / "best_trial.txt").read_text() == "1:1:-0.1"


def test_trials_in_a_used_directory_have_their_own_metric_and_say_which_are_old(
    run_trials, tmp_path, capsys
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "best_trial.txt").write_text("8:1:0.75")  # of a run without trials
    run_trials()
    assert (tmp_path / "out" / "best_trial.txt").read_text() == "1:1:0.2"
    assert "eval_accuracy 0.2000" not in capsys.readouterr().out
    assert run_trials({3}, num_trials=3)[1].endswith("0.2\tof an earlier start")
    assert_says(capsys.readouterr().out, "2 ... eval_accuracy ... 0.2000")


def test_a_trial_with_a_damaged_record_is_written_down_too(run_trials, tmp_path):
    (tmp_path / "out" / "trial-1").mkdir(parents=True)
    (tmp_path / "out" / "trial-1" / "best_trial.txt").write_text("damaged")
    first, second, _ = run_trials(do_predict=False)
    assert second.endswith("trial-2\t0.2")
    assert_says(first, "best_trial.txt ... global_step")


def test_one_trial_that_succeeds_is_enough_and_none_is_an_error(run_trials, tmp_path):
    summary = run_trials({1}, do_predict=False)[-1]
    assert "of 1 trials (1 failed)" in summary and "deviation nan" in summary
    with refuses("2"):
        run_trials({1, 2})
    assert len((tmp_path / "out" / "trials.txt").read_text().splitlines()) == 2


def test_flags_and_config_are_of_the_training_that_fitted(run_main, flags, trained, tmp_path):
    def kept():
        return [(trained / name).read_text() for name in ("albert_config.json", "flags.txt")]

    before = kept()
    assert json.loads(before[0])["hidden_size"] == 32
    wide = {"albert_config_file": write_config(tmp_path / "wide.json", hidden_size=64)}
    with refuses("hidden_size=64 ... --albert_config_file ... 32"):
        run_main(run_classifier, **flags | wide)
    with refuses("--albert_config_file"):
        run_main(run_classifier, **flags | wide, allow_changes_on_resume=True)
    run_main(run_classifier, **flags | PREDICT)
    assert kept() == before


def test_records_are_shuffled_and_batched_as_the_flags_say(run_main, flags, monkeypatch, capsys):
    given, widths, train_batches = [], set(), input_pipeline.train_batches

    def spy(*arguments, **options):
        given.append((options["window"], options["lengths"], options["grouped"]))
        dataset = train_batches(*arguments, **options)
        widths.update(batch["input_ids"].shape[1] for batch in dataset.take(8))
        return dataset

    monkeypatch.setattr(input_pipeline, "train_batches", spy)
    monkeypatch.setattr(classification, "num_sorted", lambda *_: 8)
    values = {"warmup_step": 1, "learning_rate": 0.2, "shuffle_buffer_size": 7}
    run_main(run_classifier, **flags | TRAIN | values, length_buckets="29,31")
    assert given == [(7, (29, 31, 64), True)] and widths == {29, 31, 64}
    out = capsys.readouterr().out
    sizes = "8 ... --shuffle_buffer_size=8 ... 7", "--shuffle_buffer_size=7"
    assert_says(out, *(f"Warning ... {what}" for what in (*sizes, "1", "--learning_rate=0.2")))


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
def test_the_same_seed_gives_the_same_run(run_main, flags, tmp_path):
    directories = tmp_path / "first", tmp_path / "again"
    for directory in directories:
        run_main(run_classifier, **flags | {"do_predict": False, "output_dir": directory})
    for both in zip(*map(blocks, directories), strict=True):
        first, again = map(values_of, both)
        assert [*first] == [*again]
        assert again == pytest.approx(first, abs=1e-6)  # sums of several threads


# --- Features that are kept ---


@pytest.mark.long
def test_warnings_about_the_data_come_again_with_kept_features(run_main, flags, tmp_path, capsys):
    rows = [f"{i}\ta\tb{i}\t{'not_' * (i > 2)}entailment\n" for i in range(6)]
    (tmp_path / "RTE").mkdir()
    text = "".join(["index\tsentence1\tsentence2\tlabel\n", *rows[:3], "\n", *rows[3:]])
    (tmp_path / "RTE" / "train.tsv").write_text(text)
    values = flags | TRAIN | {"data_dir": tmp_path, "shuffle_buffer_size": 5}
    for steps in (1, 2):  # the features are made, and read again
        run_main(run_classifier, **values | {"train_step": steps})
        assert_says(capsys.readouterr().out, "train ... 1", "Warning ... 6")
    run_main(run_classifier, **values | {"shuffle_buffer_size": 6, "train_step": 3})
    assert "Warning" not in capsys.readouterr().out


def test_a_bad_record_among_kept_features_is_named(run_main, flags, trained):
    """In training, and in the evaluation of what was trained."""
    forget_evaluations(trained)
    for kind, mode in (("train", TRAIN | {"train_step": 20}), ("eval", EVALUATE)):
        (path,) = trained.glob(f"rte_{kind}-*.tf_record")
        records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
        example = tf.train.Example.FromString(records[2])
        example.features.feature["input_ids"].int64_list.value[0] = 3000
        records[2] = example.SerializeToString(deterministic=True)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records:
                writer.write(record)
        sidecar = Path(f"{path}.meta.json")
        meta = json.loads(sidecar.read_text())
        sidecar.write_text(json.dumps(meta | {"bytes": path.stat().st_size}))
        with refuses(f"input_ids ... record 3 ... {path} ... 3000 ... 0 ... 2999 ... vocab_size"):
            run_main(run_classifier, **flags | mode)


# --- Bad input ---


def test_weights_that_do_not_fit_are_an_error_before_features_are_made(
    run_main, flags, train_once, tmp_path
):
    config = write_config(tmp_path / "wide.json", hidden_size=64)
    weights = tmp_path / "weights" / "model.ckpt-best"  # without a record, which would tell more
    golden_models.copy(train_once("RTE") / "model.ckpt-best", weights)
    values = {"init_checkpoint": weights, "albert_config_file": config}
    with refuses("6 ... 0 ... 19"):
        run_main(run_classifier, **flags | values)
    assert not list((tmp_path / "out").glob("*.tf_record"))


def test_vocabulary_of_another_model_is_an_error(run_main, flags, tmp_path):
    config = write_config(tmp_path / "small.json", vocab_size=2999)
    with refuses("3000 ... vocab_size=2999"):
        run_main(run_classifier, **flags | {"albert_config_file": config})


def test_errors_leave_earlier_results_alone(launched, flags, trained, tmp_path):
    shutil.copytree(flags["data_dir"] / "RTE", tmp_path / "RTE")
    before = (trained / "eval_results.txt").read_text()
    with (tmp_path / "RTE" / "dev.tsv").open("a") as dev:
        dev.write("9\ta sentence\tanother\tmaybe\n")
    done = launched(run_classifier, **flags | {"train_step": 4, "data_dir": tmp_path})
    assert "Traceback" not in done.stderr
    assert_error(done, "dev.tsv ... maybe")
    assert (trained / "eval_results.txt").read_text() == before


def test_key_metric_that_is_never_a_number_is_an_error(run_main, flags, trained, monkeypatch):
    forget_evaluations(trained)
    monkeypatch.setitem(classification.METRICS, "eval_accuracy", lambda outputs, labels: np.nan)
    with refuses("eval_accuracy"):
        run_main(run_classifier, **flags | EVALUATE)
    assert len(blocks(trained)) == 3


def test_collapse_into_one_class_is_warned_of(run_main, flags, trained, capsys, monkeypatch):
    """Once in the evaluation, of three checkpoints, and once in the prediction."""
    forget_evaluations(trained)
    monkeypatch.setattr(base.Task, "sign_of_failure", lambda *_: "all alike")
    run_main(run_classifier, **flags | EVALUATE)
    out = capsys.readouterr().out
    assert out.count("Warning: all alike") == 1
    assert out.index("Evaluation at step 1") < out.index("Warning")  # step 0 is no news
    run_main(run_classifier, **flags | PREDICT)
    assert capsys.readouterr().out.count("Warning: all alike") == 1


def test_batch_size_of_training_is_no_matter_without_training(
    run_main, flags, trained, monkeypatch, capsys
):
    def refuse(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(devices, "check_batch_size", refuse)
    run_main(run_classifier, **flags | PREDICT)
    with pytest.raises(ZeroDivisionError):
        run_main(run_classifier, **flags)


# --- Order and locks ---


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
def test_nothing_of_tensorflow_is_made_before_the_devices(
    run_main, flags, trained, tmp_path, monkeypatch
):
    """GPUs can no longer be set up once something was computed on them."""
    order, make = [], graph_tokenization.GraphTokenizer.__init__
    set_up = launch.set_up_devices

    def noted(name, function):
        return lambda *values, **named: order.append(name) or function(*values, **named)

    monkeypatch.setattr(launch, "set_up_devices", noted("devices", set_up))
    monkeypatch.setattr(graph_tokenization.GraphTokenizer, "__init__", noted("tokenizer", make))
    run_main(run_classifier, **flags | PREDICT, export_dir=tmp_path / "export")
    assert order == ["devices", "tokenizer"]


def test_trials_lock_their_folders_and_the_one_of_all(run_main, flags, tmp_path, monkeypatch):
    out, seen = tmp_path / "out", []

    def trial(*_):
        seen.append({str(path.relative_to(out)) for path in out.rglob("*.lock")})
        raise UserError("enough")

    monkeypatch.setattr(finetuning, "train_and_evaluate", trial)
    with refuses("2"):
        run_main(run_classifier, **flags | {"seed": 4, "num_trials": 2})
    both = {"training.lock", "evaluating.lock"}
    assert seen == [both | {f"trial-{seed}/{name}" for name in both} for seed in (4, 5)]
    assert not list(out.rglob("*.lock"))
