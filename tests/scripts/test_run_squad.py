# SPDX-License-Identifier: Apache-2.0
"""run_squad.py through its real main, and what padding does to its answers."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import run_squad
from albert_tf import options
from albert_tf.checkpoints import loading, readers
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.config import AlbertConfig
from albert_tf.records import input_pipeline
from albert_tf.tasks import base
from albert_tf.tasks.squad import answers as squad_predictions
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.tasks.squad import scores as squad_metrics
from albert_tf.tasks.squad import squad
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import finetuning
from tests import GOLDEN, SIZES, tiny
from tests.checkpoints import golden_models
from tests.errors import assert_error, assert_names, assert_says, refuses
from tests.tiny import blocks, values_of

pytestmark = pytest.mark.usefixtures("eagerly")

DATA, VOCABULARY = tiny.SQUAD_DATA, tiny.VOCABULARY


# === Padding ===


@pytest.fixture(scope="module")
def windows():
    """Returns (examples, features, arrays) of the 2.0 development set in windows of 64."""
    examples = squad_questions.read_examples(str(DATA / "dev_v2.0.json"), training=False)
    tokenizer = FullTokenizer(spm_model_file=str(VOCABULARY))
    settings = squad_features.WindowSettings(64, 24, 12)
    features = squad_features.convert_examples(examples, tokenizer, settings, training=False)
    (arrays,) = features.batches(len(features))
    return examples, features, {name: values.astype(np.int32) for name, values in arrays.items()}


@pytest.mark.usefixtures("in_graphs")
@pytest.mark.parametrize("version", [squad.SquadTask, squad.SquadV2Task])
def test_padding_changes_no_answer(windows, version, tmp_path):
    examples, features, arrays = windows
    # Every piece is in the beams: which ones would be left out may be a matter of rounding.
    given = options.Squad(doc_stride=24, start_n_top=64, end_n_top=64)
    task = version(base.TextInput(None, 64, SIZES), given, str(tmp_path))
    tf_keras.utils.set_random_seed(3)
    # Larger weights than at the start of training, so that answers differ from each other.
    config = AlbertConfig.from_dict(tiny.CONFIG | {"initializer_range": 0.3})
    strategy = tf.distribute.OneDeviceStrategy("device:CPU:0")
    training = options.FineTuning(output_dir=str(tmp_path), train_steps=1)
    run = finetuning.make_run(task, config, strategy, training)
    inputs = {name: arrays[name] for name in task.inputs}
    answers, lengths = [], set()
    for fixed_shape, batch_size in ((False, 4), (False, 7), (True, 4)):
        batches = input_pipeline.prediction_batches(inputs, batch_size, 64, fixed_shape=fixed_shape)
        batches = list(batches)
        lengths |= {batch["input_ids"].shape[1] for _, batch in batches}
        outputs = run.predict(batches, len(features))
        answers.append(task.predict(examples, features, [outputs], 64, 30))
    assert len(lengths) > 2  # some were cut
    assert len(set(answers[0].texts().values())) > 20
    for other in answers[1:]:
        assert_same_but_for_rounding(other.nbest, answers[0].nbest)


def assert_same_but_for_rounding(found, expected, atol=1e-4):
    """The same n-best lists; texts whose scores differ by less than atol may change places."""
    assert list(found) == list(expected)
    for qas_id, entries in found.items():
        ours, theirs = (
            {e["text"]: e["start_log_prob"] + e["end_log_prob"] for e in entries}
            for entries in (entries, expected[qas_id])
        )
        np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=0, atol=atol)
        last = min(ours.values())
        for text in ours.keys() | theirs.keys():  # the last ones may have fallen off a list
            assert ours.get(text, last) == pytest.approx(theirs.get(text, last), rel=0, abs=atol)


# === The script ===


@pytest.fixture
def flags(tmp_path):
    """Flags of a run of two steps on the tiny files of version 2."""
    config = tiny.write_config(tmp_path / "config.json")
    return tiny.SQUAD | {"albert_config_file": config, "output_dir": tmp_path / "out"}


@pytest.fixture
def flags_v1(flags):
    """The same on those of version 1.1."""
    return flags | tiny.SQUAD_FILES["1.1"] | {"num_train_epochs": 0.67}  # 39 questions: 2 steps


@pytest.fixture(scope="module")
def finished():
    """Directories of finished runs by name, for several tests to copy."""
    return {}


@pytest.fixture
def trained(run_main, finished, tmp_path_factory, tmp_path):
    """Gives a copy of a run with these flags, trained once: trained(name, flags) -> directory."""

    def copy(name, flags):
        if name not in finished:
            finished[name] = tmp_path_factory.mktemp(name)
            run_main(run_squad, **flags | {"output_dir": finished[name]})
        return shutil.copytree(finished[name], tmp_path / name)

    return copy


def predict_only(flags, **changed):
    """The flags of a user who has a trained model, a vocabulary and a file, and nothing else."""
    names = (
        "spm_model_file", "output_dir", "predict_file", "do_predict", "max_seq_length",
        "doc_stride", "max_query_length", "predict_batch_size",
    )  # fmt: skip
    return {name: flags[name] for name in names} | changed


def read_json(path):
    return json.loads(Path(path).read_text())


def without_answers(path, target):
    """Writes a file as a test set comes: neither answers nor is_impossible."""
    data = read_json(path)
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            names = ("id", "question")
            paragraph["qas"] = [{name: qa[name] for name in names} for qa in paragraph["qas"]]
    target.write_text(json.dumps(data))
    return target


def check_blocks(directory, names):
    """Checks the format of all blocks; returns the f1 of each checkpoint, and the last metrics."""
    *evaluations, final = blocks(directory)
    values, best = [], -1.0
    for block in evaluations:
        lines = block.splitlines()
        keys = [line.split(" = ")[0] for line in lines if not line.startswith(("saved", "best f1"))]
        assert keys == sorted({*names, "global_step"})
        values.append(values_of(block)["f1"])
        saved = [line for line in lines if line.startswith("saved")]
        is_best = values[-1] > best or len(values) == 2  # the first that is trained
        assert bool(saved) == is_best
        best = values[-1] if is_best else best
        assert lines[len(keys) :] == [*saved, f"best f1 = {best}"]
        for line in saved:
            form = r"saved (\S+model\.ckpt-\d+)\.(\S+) to \S+/model\.ckpt-best\.\2"
            assert re.fullmatch(form, line)
    lines = final.splitlines()
    assert [line.split(" = ")[0] for line in lines[:-1]] == sorted(names)
    step = loading.step_in(str(directory / "model.ckpt-best"))
    assert_names(lines[-1], step)
    assert values_of(final)["f1"] == max(values[1:])
    return values, values_of(final)


V1_NAMES = {"exact_match", "f1"}
PARTS = ("", "HasAns_", "NoAns_")
V2_NAMES = {f"{part}{name}" for part in PARTS for name in ("exact", "f1", "total")}
V2_NAMES |= {"best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"}
V2_NAMES |= {"null_score_diff_threshold"}


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
def test_v2_trains_evaluates_every_checkpoint_and_predicts(trained, flags, capsys):
    out = trained("v2", flags)
    values, final = check_blocks(out, V2_NAMES)
    assert len(values) == 3  # steps 0, 1 and 2
    state = RunDirectory(str(out)).results
    assert state.step == 2 and state.best == max(values[1:])
    assert read_json(out / "albert_config.json")["hidden_size"] == 32
    # Files: those of the best checkpoint, with its threshold.
    predictions, odds = read_json(out / "predictions.json"), read_json(out / "null_odds.json")
    nbest = read_json(out / "nbest_predictions.json")
    threshold = read_json(out / "null_score_diff_threshold.json")
    assert threshold["tuned_on"] == str(flags["predict_file"])
    assert threshold["checkpoints"] is None  # the directory's own
    cut, kept = final["null_score_diff_threshold"], threshold["null_score_diff_threshold"]
    assert predictions == {q: nbest[q][0]["text"] if odds[q] < cut else "" for q in nbest}
    assert min(abs(kept - value) for value in odds.values()) >= squad_predictions.ROUNDING / 2
    gold, _ = squad_metrics.read_gold(str(flags["predict_file"]))
    assert list(predictions) == list(gold)
    official = squad_metrics.evaluate_v2(gold, predictions, odds)
    assert official["f1"] == final["f1"] and official["exact"] == final["exact"]
    printed = capsys.readouterr().out
    data = r"Training on \S+: \d+ questions, \d+ without answer\n(?:.+\n)*First example: "
    best = r"The best model is \S+best \(step \d+, f1 \S+\)\nNext: python predict.py --model=\S+ "
    texts = '--question="some question" --context="some context"'
    assert re.search(data, printed) and re.search(best + texts, printed)
    assert_says(printed, "2 ... 52")  # they cannot be aligned
    (listing,) = out.glob("squad_predict.tf_record.skipped.txt")
    assert listing.read_text().count("\n") == 2
    assert "Evaluation at step 2: exact " in printed
    # The optimizer has no moments for the pooler, which the loss does not reach.
    reader = readers.TensorFlowReader(str(out / "model.ckpt-2"))
    assert not reader["bert/pooler/dense/kernel/adam_m"].any()
    assert reader["answer_class/dense_1/kernel/adam_m"].any()


@pytest.mark.usefixtures("in_graphs")
def test_v1_trains_evaluates_every_checkpoint_and_predicts(trained, flags_v1):
    out = trained("v1", flags_v1)
    values, final = check_blocks(out, V1_NAMES)
    assert len(values) == 3
    gold, _ = squad_metrics.read_gold(str(flags_v1["predict_file"]))
    predictions = read_json(out / "predictions.json")
    assert squad_metrics.evaluate_v1(gold, predictions)["f1"] == final["f1"]
    nbest = read_json(out / "nbest_predictions.json")
    assert predictions == {qas_id: entries[0]["text"] for qas_id, entries in nbest.items()}
    keys = {"text", "probability", "start_log_prob", "end_log_prob"}
    assert set(nbest[next(iter(nbest))][0]) == keys
    assert not (out / "null_odds.json").exists()
    assert not (out / "null_score_diff_threshold.json").exists()


def assert_answers(directory, expected):
    """The answers in a directory; where several are equally good, any of them."""
    found = read_json(directory / "predictions.json")
    nbest = read_json(directory / "nbest_predictions.json")
    assert found.keys() == expected.keys()
    for qas_id, text in expected.items():
        totals = {e["text"]: e["start_log_prob"] + e["end_log_prob"] for e in nbest[qas_id]}
        if found[qas_id] != text:
            assert text and found[qas_id]
            assert totals[found[qas_id]] == pytest.approx(totals[text], abs=1e-4)


@pytest.mark.long
def test_prediction_alone_needs_a_checkpoint_and_a_file(run_main, trained, flags, tmp_path, capsys):
    out = trained("v2", flags)
    flags |= {"output_dir": out}
    nbest, odds = (read_json(out / f"{name}.json") for name in ("nbest_predictions", "null_odds"))
    kept = read_json(out / "null_score_diff_threshold.json")["null_score_diff_threshold"]
    answers = {q: nbest[q][0]["text"] if odds[q] < kept else "" for q in nbest}
    unlabelled = without_answers(flags["predict_file"], tmp_path / "test.json")
    capsys.readouterr()

    # A file without answers: the version is the checkpoint's, the threshold the tuned one.
    (out / "predictions.json").unlink()
    run_main(run_squad, **predict_only(flags, predict_file=unlabelled))
    printed = capsys.readouterr().out
    assert_says(printed, "52 ... 52 ... questions", f"(tuned on {flags['predict_file']})")
    assert f"Predicting with {out / 'model.ckpt-best'}" in printed
    assert_answers(out, answers)

    # The flag overrides it.
    high = {"predict_file": unlabelled, "null_score_diff_threshold": 1e9}
    run_main(run_squad, **predict_only(flags, **high))
    assert_answers(out, {q: nbest[q][0]["text"] for q in nbest})

    # A file with answers: scores; they are those of training.
    before = blocks(out)[-1]
    run_main(run_squad, **predict_only(flags))
    last = blocks(out)[-1]
    assert last.startswith(before)
    assert values_of(last.removeprefix(before)) == pytest.approx(values_of(before), abs=1e-4)


@pytest.mark.long
def test_a_squad_models_head_is_taken_too(run_main, trained, flags_v1, tmp_path):
    source = trained("v1", flags_v1)
    golden_models.copy(source / "model.ckpt-1", source / "model.ckpt-best")
    run_main(run_squad, **flags_v1 | {"do_predict": False, "init_checkpoint": source})
    first = readers.TensorFlowReader(str(tmp_path / "out/model.ckpt-0"))
    best = readers.TensorFlowReader(str(source / "model.ckpt-best"))
    for name in ("cls/squad/output_weights", "bert/pooler/dense/kernel"):
        np.testing.assert_array_equal(first[name], best[name])


@pytest.fixture
def two_models(trained, flags, tmp_path):
    """Directories of two trained models of different sizes."""
    larger = tiny.write_config(tmp_path / "larger.json", hidden_size=48, num_hidden_layers=3)
    own = {"albert_config_file": larger, "seed": 2, "save_checkpoints_steps": 2}
    return [trained("v2", flags), trained("larger", flags | own)]


@pytest.mark.long
def test_an_ensemble_averages_models_of_any_size(run_main, flags, two_models, tmp_path, capsys):
    both = predict_only(flags, ensemble_dirs=",".join(map(str, two_models)))
    run_main(run_squad, **both)
    out = tmp_path / "out"
    ours, *theirs = (read_json(folder / "null_odds.json") for folder in (out, *two_models))
    for qas_id, value in ours.items():
        assert theirs[0][qas_id] != theirs[1][qas_id] or value == 1e6  # that is, skipped
        assert value == pytest.approx((theirs[0][qas_id] + theirs[1][qas_id]) / 2, abs=1e-5)
    assert set(values_of(blocks(out)[0])) == V2_NAMES
    assert "best perf" not in blocks(out)[0]
    assert not list(out.glob("model.ckpt*"))

    # The threshold of a model is not replaced by that of an ensemble.
    own = read_json(two_models[0] / "null_score_diff_threshold.json")
    run_main(run_squad, **both | {"output_dir": two_models[0]})
    assert_says(capsys.readouterr().out, "threshold ... --output_dir")
    assert own == read_json(two_models[0] / "null_score_diff_threshold.json")

    for name in ("albert_config.json", "run.json"):  # either tells the architecture
        (two_models[0] / name).unlink()
    with refuses("v2 ... albert_config.json"):
        run_main(run_squad, **both)


# === Steps and bad input ===


@pytest.mark.parametrize(
    ("questions", "steps", "warmup"), [(87_599, 3649, 364), (130_319, 5429, 542)]
)
def test_steps_count_questions(asked, monkeypatch, flags, questions, steps, warmup):
    """SQuAD 1.1 and 2.0 at docs/squad.md's batches of 48; windows are more, but do not count."""
    settings = flags | {"train_batch_size": 48, "shuffle_buffer_size": 7, "do_predict": False}
    monkeypatch.setattr(squad.SquadData, "train_examples", [None] * questions)
    made = asked(run_squad, **settings | {"num_train_epochs": 2.0})
    assert (made.train_steps, made.warmup_steps) == (steps, warmup)
    assert (made.optimizer, made.learning_rate, made.shuffle_buffer_size) == ("adamw", 5e-5, 7)
    monkeypatch.setattr(squad.SquadData, "train_examples", [None] * 47)
    with refuses("47 ... --train_batch_size=48 ... --num_train_epochs=1.0"):
        asked(run_squad, **settings | {"num_train_epochs": 1.0})


@pytest.mark.parametrize("is_labelled", [True, False])
def test_checkpoints_that_are_not_evaluated_stay(asked, flags, is_labelled, tmp_path):
    if not is_labelled:
        flags["predict_file"] = without_answers(flags["predict_file"], tmp_path / "test.json")
    made = asked(run_squad, **flags)
    kept = (True, run_squad.KEEP_CHECKPOINTS) if is_labelled else (False, None)
    assert (made.do_eval, made.keep_checkpoint_max) == kept


def test_a_damaged_threshold_is_found_before_training(run_main, flags, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "null_score_diff_threshold.json").write_text("{}")
    with refuses("null_score_diff_threshold.json"):
        run_main(run_squad, **flags)
    assert not list((tmp_path / "out").glob("model.ckpt*"))


@pytest.mark.long
def test_answers_that_are_astray_are_reported_in_every_run(run_main, flags_v1, tmp_path, capsys):
    data = read_json(flags_v1["train_file"])
    qas = data["data"][0]["paragraphs"][0]["qas"]
    qas[0]["answers"][0]["answer_start"] += 1
    path = tmp_path / "astray.json"
    path.write_text(json.dumps(data))
    changed = {"train_file": path, "do_predict": False}
    for _ in ("made", "read again"):
        run_main(run_squad, **flags_v1 | changed)
        printed = capsys.readouterr().out
        assert_says(printed, "Warning ... answer_start ... 1 questions")
        assert_says(printed, f"{qas[0]['id']} ... 1")


@pytest.mark.long
def test_checkpoints_that_cannot_answer_are_named(run_main, trained, flags, flags_v1, tmp_path):
    first, second = trained("v1", flags_v1), trained("v2", flags)
    alone = predict_only(flags)
    with refuses("version_2_with_negative=true ... v1/model.ckpt-best"):
        run_main(run_squad, **alone | {"version_2_with_negative": True, "output_dir": first})
    headless = shutil.copytree(GOLDEN / "heads" / "classifier2_cola", tmp_path / "headless")
    with refuses("SQuAD"):
        run_main(run_squad, **alone, init_checkpoint=headless)
    with refuses("--ensemble_dirs ... SQuAD"):
        run_main(run_squad, **alone, ensemble_dirs=f"{first},{second}")
    (second / "null_score_diff_threshold.json").write_text("{}")
    unlabelled = without_answers(flags["predict_file"], tmp_path / "test.json")
    with refuses("null_score_diff_threshold.json"):
        run_main(run_squad, **alone | {"output_dir": second, "predict_file": unlabelled})


def test_a_version_1_model_answers_questions_of_version_2(
    run_main, trained, flags, flags_v1, capsys
):
    """Some of them have no answer, so there is nothing to score."""
    out = trained("v1", flags_v1)
    before = (out / "eval_results.txt").read_text()
    capsys.readouterr()
    run_main(run_squad, **predict_only(flags, output_dir=out, end_n_top=3))
    assert capsys.readouterr().out.count("--end_n_top=3") == 1
    assert len(read_json(out / "predictions.json")) == 52
    assert (out / "eval_results.txt").read_text() == before


def test_flags_without_effect_are_told(launched, tmp_path):
    """That all flags of the original are accepted is in test_flags.py."""
    given = {"use_einsum": True, "master": "x", "num_tpu_cores": 8}
    given["predict_feature_left_file"] = "x"
    assert_error(done := launched(run_squad, **given, output_dir=tmp_path), "--do_train")
    assert_says(done.stdout, *(f"--{name}" for name in given))


@pytest.mark.long
@pytest.mark.usefixtures("in_graphs")
def test_the_training_questions_are_learnt(run_main, flags, tmp_path):
    """30 passes over 52 questions; before them, f1 is 29."""
    sizes = {"embedding_size": 32, "hidden_size": 64, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 128, "max_position_embeddings": 128, "initializer_range": 0.1}
    tiny.write_config(flags["albert_config_file"], **sizes)
    data = DATA / "train_v2.0.json"
    changed = {"train_file": data, "predict_file": data, "max_seq_length": 128, "doc_stride": 100}
    changed |= {"num_train_epochs": 30, "save_checkpoints_steps": 1000}
    changed |= {"learning_rate": 1e-3, "dropout_prob": 0.0}
    run_main(run_squad, **flags | changed)
    state = RunDirectory(str(tmp_path / "out")).results
    assert state.best_step == 120 and state.best > 55
