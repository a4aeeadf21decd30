# SPDX-License-Identifier: Apache-2.0
"""run_classifier.py through its real main, on the original's tiny GLUE files."""

import functools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import run_classifier
from albert_tf import checkpoints, finetuning, glue, heads, records, results, training
from albert_tf.config import AlbertConfig

GOLDEN = Path(__file__).parent / "golden"
VOCABULARY = GOLDEN / "tokenization" / "spm_uncased.model"
CONFIG = {
    "vocab_size": 3000,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


@pytest.fixture
def flags(tmp_path):
    """Flags of a run of two steps on RTE."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    return {
        "data_dir": GOLDEN / "finetune" / "glue_data",
        "task_name": "RTE",
        "albert_config_file": config,
        "spm_model_file": VOCABULARY,
        "output_dir": tmp_path / "out",
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "max_seq_length": 64,
        "train_step": 2,
        "save_checkpoints_steps": 1,
        "train_batch_size": 2,
        "allow_random_init": True,
        "seed": 1,
    }


def blocks(directory):
    return (Path(directory) / "eval_results.txt").read_text().split("=" * 50 + "\n")[:-1]


@pytest.mark.parametrize("task", ["CoLA", "rte", "STS-B"])
def test_train_evaluate_predict(run_main, flags, tmp_path, task):
    out = tmp_path / "out"
    run_main(run_classifier, **flags | {"task_name": task}, glue_submission_dir=tmp_path / "glue")
    row = glue.find_task(task)
    assert [re.search(r"global_step = (\d+)", b).group(1) for b in blocks(out)] == ["0", "1", "2"]
    keys = [line.split(" = ")[0] for line in blocks(out)[0].splitlines()]
    assert keys == [*sorted([*row.metrics, "loss", "global_step"]), "best"]
    assert "best = -1" in blocks(out)[0]
    state = results.read_best(str(out))
    values = [float(re.search(rf"{row.key_metric} = (\S+)", b).group(1)) for b in blocks(out)]
    assert state.step == 2 and state.best == max(values)
    assert checkpoints.step_in(str(out / "model.ckpt-best")) == state.best_step
    test_rows = (out / "test_results.tsv").read_text().splitlines()
    submit = (out / "submit_results.tsv").read_text().splitlines()
    assert submit[0] == "index\tprediction" and len(submit) == len(test_rows) + 1
    assert len(test_rows[0].split("\t")) == row.num_outputs
    assert (tmp_path / "glue" / row.submission_file).exists()
    for name in (f"{task.lower()}_train.tf_record", f"{task.lower()}_eval.tf_record"):
        assert (out / name).exists()


def test_a_second_process_evaluates_and_predicts_what_the_first_trained(run_main, flags, tmp_path):
    run_main(run_classifier, **flags | {"do_eval": False, "do_predict": False, "train_step": 8})
    assert len(list((tmp_path / "out").glob("model.ckpt-*.index"))) == 9  # all wait for evaluation
    second = flags | {"do_train": False, "train_step": 8}
    run_main(run_classifier, **second)
    assert len(blocks(tmp_path / "out")) == 9
    numbered = checkpoints.numbered_in(str(tmp_path / "out"))
    assert [step for step, _ in numbered] == [4, 5, 6, 7, 8]  # --keep_checkpoint_max=5
    # Once more, after the end: nothing is lost, and predictions are made.
    (tmp_path / "out" / "test_results.tsv").unlink()
    run_main(run_classifier, **second)
    assert len(blocks(tmp_path / "out")) == 9
    assert (tmp_path / "out" / "test_results.tsv").exists()


def test_predict_alone_uses_the_best_and_else_the_newest(run_main, flags, tmp_path, capsys):
    run_main(run_classifier, **flags | {"do_eval": False, "do_predict": False})
    alone = flags | {"do_train": False, "do_eval": False}
    run_main(run_classifier, **alone)
    assert "No model.ckpt-best" in capsys.readouterr().out
    run_main(run_classifier, **alone | {"do_eval": True})
    run_main(run_classifier, **alone)
    assert "with " + str(tmp_path / "out/model.ckpt-best") in capsys.readouterr().out


def test_another_tasks_checkpoint_gives_its_encoder_and_not_its_head(
    run_main, flags, tmp_path, capsys
):
    run_main(run_classifier, **flags | {"task_name": "MNLI", "do_predict": False})
    capsys.readouterr()
    first = tmp_path / "out"
    second = flags | {"output_dir": tmp_path / "rte", "init_checkpoint": first}
    run_main(run_classifier, **second | {"do_predict": False, "allow_random_init": False})
    out = capsys.readouterr().out
    assert "The task's head starts afresh" in out and "output_weights" in out
    ours = checkpoints.Reader(str(tmp_path / "rte/model.ckpt-0"))
    theirs = checkpoints.Reader(checkpoints.find(str(first)))
    name = "bert/pooler/dense/kernel"
    np.testing.assert_array_equal(ours[name], theirs[name])
    assert ours.shapes["output_weights"] == [2, 32] and theirs.shapes["output_weights"] == [3, 32]


def test_diagnostic_set_is_predicted_with_an_mnli_model(run_main, flags, tmp_path):
    run_main(run_classifier, **flags | {"task_name": "MNLI"})
    run_main(run_classifier, **flags | {"task_name": "ax", "do_train": False, "do_eval": False})
    answers = (tmp_path / "out" / "submit_results.tsv").read_text().splitlines()[1:]
    assert answers and {a.split("\t")[1] for a in answers} <= set(glue.TASKS["mnli"].labels)


def test_ones_own_tsv(run_main, flags, tmp_path):
    data = tmp_path / "own"
    data.mkdir()
    rows = ["good film\tyes", "bad film\tno", "fine\tyes", "awful\tno"]
    for name in ("train", "dev", "test"):
        (data / f"{name}.tsv").write_text("review\tliked\n" + "\n".join(rows) + "\n")
    run_main(
        run_classifier,
        **flags | {"task_name": "tsv", "data_dir": data},
        text_column="review",
        label_column="liked",
    )
    answers = (tmp_path / "out" / "submit_results.tsv").read_text().splitlines()[1:]
    assert {answer.split("\t")[1] for answer in answers} <= {"yes", "no"}
    assert len(answers) == 4


def test_trials_report_median_mean_and_spread_and_keep_the_best(run_main, flags, tmp_path, capsys):
    run_main(run_classifier, **flags, num_trials=2)
    values = {seed: results.read_best(str(tmp_path / f"out/trial-{seed}")).best for seed in (1, 2)}
    best = max(values, key=values.get)
    summary = (tmp_path / "out" / "trials.txt").read_text().splitlines()[-1]
    scores = list(values.values())
    assert f"median {np.median(scores):.4f}, mean {np.mean(scores):.4f}" in summary
    assert f"standard deviation {np.std(scores, ddof=1):.4f}" in summary
    assert summary in capsys.readouterr().out
    kept = checkpoints.Reader(str(tmp_path / "out/model.ckpt-best"))
    theirs = checkpoints.Reader(str(tmp_path / f"out/trial-{best}/model.ckpt-best"))
    np.testing.assert_array_equal(kept["output_weights"], theirs["output_weights"])
    assert (tmp_path / "out" / "submit_results.tsv").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task_name": "none"}, "none"),
        ({"do_train": False, "do_eval": False, "do_predict": False}, "nothing to do"),
        ({"data_dir": "nowhere"}, "nowhere"),
        ({"spm_model_file": "missing.model"}, "missing.model"),
        ({"albert_config_file": "missing.json"}, "missing.json"),
        ({"max_seq_length": 128}, "max_position_embeddings=64"),
        ({"allow_random_init": False}, "--init_checkpoint"),
        ({"init_checkpoint": "nothing-here"}, "nothing-here"),
        ({"train_batch_size": 0}, "--train_batch_size must be at least 1"),
        ({"num_trials": 2, "do_eval": False}, "--num_trials"),
        ({"albert_hub_module_handle": "https://x", "albert_config_file": ""}, "https://x"),
    ],
)
def test_bad_input_is_a_plain_error_before_training(run_main, flags, tmp_path, changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        run_main(run_classifier, **flags | changed)
    assert not (tmp_path / "out" / "train").exists()


def test_errors_leave_earlier_results_alone(run_script, flags, tmp_path):
    data = tmp_path / "glue"
    shutil.copytree(flags["data_dir"], data)
    flags |= {"data_dir": data}
    assert run_script("run_classifier", **flags).returncode == 0
    before = (tmp_path / "out" / "eval_results.txt").read_text()
    dev = data / "RTE" / "dev.tsv"
    dev.write_text(dev.read_text() + "9\ta sentence\tanother\tmaybe\n")
    done = run_script("run_classifier", **flags | {"train_step": 4})
    assert done.returncode == 1 and "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("run_classifier: error: ") and "dev.tsv" in last and "maybe" in last
    assert (tmp_path / "out" / "eval_results.txt").read_text() == before


def test_key_metric_that_is_never_a_number_is_an_error(run_main, flags, tmp_path, monkeypatch):
    monkeypatch.setitem(glue.METRICS, "eval_accuracy", lambda outputs, labels: np.nan)
    with pytest.raises(ValueError, match="eval_accuracy is not a number"):
        run_main(run_classifier, **flags)
    assert len(blocks(tmp_path / "out")) == 3


def test_collapse_into_one_class_is_warned_of(run_main, flags, capsys, monkeypatch):
    monkeypatch.setattr(glue, "collapse_warning", lambda task, outputs: "all alike")
    run_main(run_classifier, **flags)
    assert "Warning: all alike" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "outputs"), [("classifier2_cola", 2), ("classifier3_mnli", 3)])
def test_head_equals_the_original(name, outputs):
    folder = GOLDEN / "heads" / name
    config = AlbertConfig.from_json_file(str(GOLDEN / "heads" / "albert_config.json"))
    model = heads.ClassificationModel(config, outputs)
    named = checkpoints.named_variables(model)
    report = checkpoints.load(str(folder), named)
    assert not report.missing and not report.unused
    features = {k: tf.constant(v) for k, v in np.load(folder / "inputs.npz").items()}
    golden, gradients = np.load(folder / "outputs.npz"), np.load(folder / "gradients.npz")
    with tf.GradientTape() as tape:
        predicted = model(features)
        terms = heads.classification_terms(features, predicted)
        loss = heads.mean_loss(terms)
    np.testing.assert_allclose(predicted["logits"], golden["logits"], atol=2e-5)
    np.testing.assert_allclose(terms["eval_loss"][0], golden["per_example_loss"], atol=2e-5)
    np.testing.assert_allclose(loss, golden["loss"], atol=2e-5)
    for name, gradient in zip(named, tape.gradient(loss, list(named.values())), strict=True):
        dense = tf.convert_to_tensor(gradient)
        np.testing.assert_allclose(dense, gradients[name], atol=1e-5, err_msg=name)


def test_five_steps_equal_the_originals(tmp_path):
    """Through the loop; we clip by a norm 0.8% larger, to which Adam is nearly blind."""
    folder = GOLDEN / "heads" / "classifier3_mnli"
    golden = np.load(folder / "adamw_5steps_nodropout.npz")
    config = AlbertConfig.from_json_file(str(GOLDEN / "heads" / "albert_config.json"))
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    run = finetuning.make_run(
        strategy,
        functools.partial(heads.ClassificationModel, config, 3, dropout_prob=0.0),
        heads.classification_terms,
        training.Settings(str(tmp_path), train_steps=5, save_checkpoints_steps=5),
        finetuning.Recipe("adamw", 1e-3, train_steps=6, warmup_steps=2, batch_size=6),
    )
    checkpoints.load(str(folder), run.task.variables)
    features = dict(np.load(folder / "inputs.npz"))
    dataset = tf.data.Dataset.from_tensors(features).repeat()
    run.train(dataset, 6, ("eval_loss", "eval_accuracy"))
    for name, variable in run.task.variables.items():
        tolerance = 1e-2 if name.endswith("key/bias") else 1e-3
        difference = np.abs(variable.numpy() - golden[name]).max()
        assert difference <= tolerance * np.abs(golden[name]).max(), name


def test_trimming_changes_no_prediction(tmp_path):
    config = AlbertConfig.from_dict(CONFIG)
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    run = finetuning.make_run(
        strategy,
        functools.partial(heads.ClassificationModel, config, 3),
        heads.classification_terms,
        training.Settings(str(tmp_path), 1, 1),
    )
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 64, size=21)
    mask = (np.arange(64) < lengths[:, np.newaxis]).astype(np.int32)
    ids = rng.integers(5, 3000, size=mask.shape, dtype=np.int32) * mask
    arrays = {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(mask)}
    trimmed = finetuning.model_outputs(run, arrays, 4, 64)
    whole = run.predict(records.prediction_batches(arrays, 4, 64, fixed_shape=True), 21)["logits"]
    np.testing.assert_allclose(trimmed, whole, atol=1e-6)


def test_loss_of_the_results_is_the_mean_of_batch_means():
    losses = np.array([1.0, 2.0, 3.0, 10.0, 20.0])
    assert finetuning.mean_over_batches(losses, 2) == pytest.approx((1.5 + 6.5 + 20.0) / 3)
