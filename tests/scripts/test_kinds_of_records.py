# SPDX-License-Identifier: Apache-2.0
"""Pre-training on records that are masked while it reads them, of one segment, and of others.

The others are the Model Garden and ELECTRA.
"""

import csv
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
import create_pretraining_data
import run_pretraining
from albert_tf import files, resolve
from albert_tf.checkpoints import run_directory
from albert_tf.cli import training_flags
from albert_tf.records import record_files, schemas
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN, tiny
from tests.errors import assert_says, names, refuses
from tests.scripts.test_run_pretraining import (
    assert_same_variables,
    assert_same_when_stopped,
    evaluated,
    read_variables,
)

pytestmark = pytest.mark.usefixtures("eagerly")

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d", "##e", "."]
TEXT = "\n\n".join("\n".join(["a bd c .", "c b a bde b", "b"] * 5) for _ in range(3))
LENGTH = 24


def make_records(run_main, directory, name, **given):
    """Writes a file of records, with in.txt and vocab.txt next to it."""
    files = {"input_file": directory / "in.txt", "vocab_file": directory / "vocab.txt"}
    files["input_file"].write_text(TEXT)
    files["vocab_file"].write_text("\n".join(PIECES) + "\n")
    sizes = {"max_seq_length": LENGTH, "max_predictions_per_seq": 4}
    run_main(create_pretraining_data, **files | sizes | given, output_file=directory / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory, run_main):
    """Directory with a vocabulary, and records: in pairs and alone, masked and unmasked."""
    directory = tmp_path_factory.mktemp("records")
    for name, prob in (("masked", 0.15), ("unmasked", 0)):
        make_records(run_main, directory, name, masked_lm_prob=prob, dupe_factor=1)
        alone = {"masked_lm_prob": prob, "dupe_factor": 2, "sentence_pairs": "none"}
        make_records(run_main, directory, f"alone-{name}", **alone)
    return directory


@pytest.fixture
def flags(made, tmp_path):
    config = GOLDEN / "optimizers" / "albert_config.json"
    files = {"albert_config_file": config, "input_file": made / "unmasked"}
    files |= {"vocab_file": made / "vocab.txt", "output_dir": tmp_path / "out"}
    sizes = {"max_seq_length": LENGTH, "max_predictions_per_seq": 6, "masked_lm_budget": 0.2}
    steps = {"num_train_steps": 6, "save_checkpoints_steps": 3, "max_eval_steps": 1}
    return tiny.PRETRAINING | files | sizes | steps | {"shuffle_buffer_size": 8}


@pytest.fixture
def train(flags, run_main):
    """Trains on records as they are: train(records, flag=value, ...) -> the run's directory."""

    def run(records, **given):
        kept = {n: flags[n] for n in flags if n not in ("masked_lm_budget", "vocab_file")}
        steps = {"num_train_steps": 3, "learning_rate": 0.01, "max_predictions_per_seq": 4}
        run_main(run_pretraining, **kept | steps | {"input_file": records} | given)
        return given.get("output_dir", flags["output_dir"])

    return run


@pytest.mark.long
def test_a_run_that_was_stopped_ends_with_the_same_weights(pretrain, flags, made, tmp_path):
    count = json.loads((made / "summary-unmasked.json").read_text())["instances"]
    assert count < 3 * 4 < 2 * count < 6 * 4  # it is stopped within the second of three epochs
    flags |= {"length_buckets": "8,16", "do_eval": True}
    assert_same_when_stopped(pretrain, tmp_path, 3, 6)
    # An evaluation by a process of its own, with no seed or another one, has the same masks.
    pretrain(do_train=False, seed=5)
    first, second = (evaluations_in(tmp_path / name) for name in ("out", "halted"))
    assert [step for step, _ in first] == [3, 6, 6] and first[2] == first[1]
    assert second == first[:2]  # that of step 3 is made up for


@pytest.mark.slow
@pytest.mark.usefixtures("in_graphs")
def test_a_run_compiled_by_xla_that_was_stopped_ends_with_the_same_weights(
    pretrain, flags, tmp_path
):
    flags |= {"length_buckets": "16", "enable_xla": True}  # of two lengths: each is compiled
    assert_same_when_stopped(pretrain, tmp_path, 3, 6)


def evaluations_in(directory):
    """(step, masked-LM loss) of each evaluation."""
    columns = (evaluated(directory, name) for name in ("global_step", "masked_lm_loss"))
    return list(zip(*columns, strict=True))


@pytest.mark.long
def test_evaluation_takes_the_masks_of_masked_records(pretrain, train, flags, made, tmp_path):
    """So that one held-out file serves runs of either kind."""
    flags |= {"num_train_steps": 1, "max_predictions_per_seq": 4}
    pretrain(do_eval=True, eval_input_file=made / "masked")
    train(made / "masked", do_train=False, do_eval=True, num_train_steps=1)
    first, second = evaluations_in(tmp_path / "out")
    assert first == second


def test_records_that_do_not_fit_the_flags(pretrain, train, flags, made, tmp_path):
    def refused(message, **values):
        with refuses(message):
            pretrain(**values)
        assert not (tmp_path / "out" / "checkpoint").exists()

    refused("--masked_lm_budget=0.2 ... /masked", input_file=made / "masked")
    both = f"{made / 'masked'},{made / 'unmasked'}"
    refused("/masked ... --masked_lm_prob=0", do_eval=True, eval_input_file=both)
    other = tmp_path / "other.txt"
    other.write_text("[PAD]\n[SEP]\n[MASK]\n[CLS]\n")
    flags["input_file"] = shutil.copy(made / "unmasked", tmp_path / "records")  # without summary
    vocabulary = flags.pop("vocab_file")
    refused("--masked_lm_budget=0.2 ... --spm_model_file")
    flags["vocab_file"] = vocabulary
    refused("2 ... [CLS] ... 3", vocab_file=other)
    other.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    refused("other.txt ... [MASK]", vocab_file=other)
    other.write_text("".join(f"{n}\n" for n in range(301)))
    refused("301 ... vocab_size=300", vocab_file=other)
    for predictions in (4, 6):
        with refuses("unmasked ... --masked_lm_prob=0 ... --masked_lm_budget"):
            train(made / "unmasked", max_predictions_per_seq=predictions)
    assert not (tmp_path / "out" / "checkpoint").exists()


def test_a_run_needs_none_of_its_flags_again(pretrain, flags, run_main, made, tmp_path, capsys):
    records, vocabulary = tmp_path / "records", flags.pop("vocab_file")
    shutil.copy(made / "unmasked", records)
    with refuses("--input_file ... --do_train"):
        pretrain(input_file="")
    with refuses("--ngram=1 ... --masked_lm_budget"):
        pretrain(ngram=1, masked_lm_budget=0, vocab_file=vocabulary)
    flags |= {"eval_input_file": made / "masked", "max_predictions_per_seq": 4, "do_eval": True}
    pretrain(input_file=records, vocab_file=vocabulary, num_train_steps=1)
    run = {"output_dir": tmp_path / "out", "do_eval": True}
    run_main(run_pretraining, **run, num_train_steps=2, ngram=1)
    recorded = run_directory.RunDirectory(str(tmp_path / "out")).settings.flags
    expected = {"input_file": str(records), "eval_input_file": str(made / "masked"), "ngram": 1}
    assert recorded | expected == recorded
    records.unlink()
    run_main(run_pretraining, **run, do_train=False)
    assert [step for step, _ in evaluations_in(tmp_path / "out")] == [1, 2, 2]
    assert "--eval_input_file" not in capsys.readouterr().out
    shutil.copy(made / "unmasked", records)  # on which the run was trained before
    pretrain(input_file=made / "unmasked", eval_input_file=records, num_train_steps=3)
    assert_says(capsys.readouterr().out, "--eval_input_file")


def test_what_limits_the_budget_is_said(pretrain, flags, made, capsys):
    flags |= {"input_file": made / "masked", "max_predictions_per_seq": 4}
    with refuses("--masked_lm_budget=0.2 ... /masked"):
        pretrain()
    assert_says(capsys.readouterr().out, "4 ... --masked_lm_budget=0.2")


@pytest.mark.parametrize("prob, wanted", [(0.15, None), (0.4, 10)])
def test_what_limits_the_masks_of_records_is_said(run_main, tmp_path, capsys, prob, wanted):
    make_records(run_main, tmp_path, "out", masked_lm_prob=prob, dupe_factor=1)
    out = capsys.readouterr().out
    assert ("--max_predictions_per_seq" in out) == bool(wanted)
    assert not wanted or names(out, f"4 ... --masked_lm_prob={prob} ... {wanted}")


def test_many_passes_without_masks_are_questioned(run_main, tmp_path, capsys):
    make_records(run_main, tmp_path, "out", masked_lm_prob=0)
    assert_says(capsys.readouterr().out, "--dupe_factor=1")
    make_records(run_main, tmp_path, "out", masked_lm_prob=0, dupe_factor=2)
    out = capsys.readouterr().out
    assert "--dupe_factor" not in out
    assert_says(out, "--masked_lm_budget")


@pytest.mark.parametrize("given", [{"do_permutation": True}, {"ngram": 1}])
def test_flags_about_masks_need_masks(given, run_main, tmp_path):
    (name,) = given
    with refuses(f"--{name} ... --masked_lm_prob"):
        make_records(run_main, tmp_path, "out", masked_lm_prob=0, **given)


def test_the_run_knows_the_vocabulary_of_its_records(train, made):
    """So that the model can be loaded with its tokenizer, without any flag."""
    out = train(made / "masked", num_train_steps=1)
    record = run_directory.RunDirectory(str(out)).settings
    assert record.vocabulary.flag == "vocab_file"
    assert record.vocabulary.path == str(made / "vocab.txt")
    assert record.text["do_lower_case"] is True
    loaded = albert_tf.load(out)
    assert len(loaded.fill_mask("a b [MASK] c", top_k=2)[0]) == 2


@pytest.mark.long
def test_a_vocabulary_that_has_moved_can_be_given(train, made, tmp_path):
    for name in ("masked", "summary-masked.json"):
        shutil.copy(made / name, tmp_path / name)
    summary = tmp_path / "summary-masked.json"
    summary.write_text(summary.read_text().replace("vocab.txt", "gone.txt"))
    train(tmp_path / "masked", num_train_steps=1, vocab_file=made / "vocab.txt")
    record = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert record.vocabulary.path == str(made / "vocab.txt")
    assert record.text["strip_accents"] is True
    train(tmp_path / "masked", num_train_steps=2)  # and a resumed run keeps it
    resumed = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert (resumed.vocabulary, resumed.text) == (record.vocabulary, record.text)


@pytest.mark.long
def test_records_without_a_summary_have_the_given_vocabulary(pretrain, flags, made, tmp_path):
    flags["input_file"] = shutil.copy(made / "unmasked", tmp_path / "records")
    pretrain(num_train_steps=1)
    record = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert record.vocabulary.flag == "vocab_file"
    assert record.vocabulary.path == str(made / "vocab.txt")
    assert "do_lower_case" not in record.text  # nobody has said it
    assert albert_tf.load(str(tmp_path / "out")).tokenizer.vocab_size == len(PIECES)


@pytest.mark.parametrize("use", ["masks", "record"])
def test_another_vocabulary_of_the_same_size_is_an_error(use, train, made, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("\n".join([*PIECES[:5], *PIECES[:4:-1]]) + "\n")
    masks = {"masked_lm_budget": 0.2} if use == "masks" else {}
    with refuses("other.txt ... vocab.txt"):
        train(made / ("unmasked" if masks else "masked"), vocab_file=other, **masks)


def made_with(path, **typed):
    rows = {name: resolve.Row(name, None, {}) for name in run_directory.VOCABULARY_FLAGS}
    settings = {name: resolve.Setting(value, resolve.TYPED) for name, value in typed.items()}
    return training_flags.made_with([path], resolve.Resolved(rows, settings))


def test_a_wordpiece_vocabulary_does_not_belong_to_records_of_sentencepiece(made, monkeypatch):
    model = FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    known = {"a": {"tokenizer": model.arguments, "vocabulary": model.fingerprint}}
    known["a"]["settings"] = {}
    monkeypatch.setattr(record_files, "summaries_of", lambda paths: known)
    with refuses("vocab.txt"):
        made_with("a", vocab_file=str(made / "vocab.txt"))
    for typed in ({}, {"vocab_file": ""}):
        assert made_with("a", **typed).tokenizer.fingerprint == model.fingerprint


@pytest.fixture
def copied(made, tmp_path):
    """A directory of its own with a vocabulary and records."""
    for name in ("vocab.txt", "masked", "summary-masked.json", "unmasked", "summary-unmasked.json"):
        shutil.copy(made / name, tmp_path / name)
    for summary in tmp_path.glob("summary-*"):
        summary.write_text(summary.read_text().replace(str(made), str(tmp_path)))
    return tmp_path


def test_a_changed_vocabulary_is_not_taken(copied):
    path, file = str(copied / "masked"), copied / "vocab.txt"
    casing = {"do_lower_case": True, "strip_accents": True}
    before = made_with(path)
    assert before.tokenizer.arguments == casing | {"vocab_file": str(file)}
    file.write_text("\n".join([*PIECES, "f"]) + "\n")
    changed = made_with(path)
    file.unlink()
    gone = made_with(path)
    for found, word in ((changed, before.vocabulary.sha256[:8]), (gone, "gone")):
        assert found[:3] == (None, casing, before.vocabulary)
        assert_says(found.lost, f"{path} ... {file} ... {word} ... --vocab_file")
    (copied / "summary-masked.json").unlink()
    assert made_with(path) == (None, {}, None, "")


def test_a_run_knows_a_vocabulary_that_has_changed(copied, train, run_main, capsys):
    """So that no other one is taken for it, by any later command."""
    file = copied / "vocab.txt"
    then = files.sha256(str(file))
    file.write_text("\n".join([*PIECES[:5], *PIECES[:4:-1]]) + "\n")
    changed = f"vocab.txt ... sha256 {then[:8]} ... {files.sha256(str(file))[:8]}"
    with refuses(f"--masked_lm_budget=0.2 ... unmasked ... {changed} ... --vocab_file"):
        train(copied / "unmasked", masked_lm_budget=0.2)
    out = train(copied / "masked", num_train_steps=1)
    assert_says(capsys.readouterr().out, f"/masked ... {changed}")
    record = run_directory.RunDirectory(str(out)).settings
    assert record.vocabulary == run_directory.Vocabulary("vocab_file", str(file), then)
    assert record.text["strip_accents"] is True
    for given in ({}, {"vocab_file": file}):
        with refuses(changed):
            albert_tf.load(out, **given)
    with refuses(f"run.json ... {changed}"):
        train(copied / "masked", num_train_steps=2, vocab_file=file)


# --- Records of one segment, and of others -------------------------------------------------------

UNTOUCHED = ("bert/pooler/dense/kernel", "cls/seq_relationship/output_weights")
NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}  # of the Model Garden


def rewritten(source, target, names=None, keep=None):
    """Copies records, with other names of features, or only some of them."""
    theirs = {ours: name for name, ours in (names or {}).items()}
    with tf.io.TFRecordWriter(str(target)) as writer:
        for record in tf.data.TFRecordDataset(str(source)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            kept = {theirs.get(n, n): features[n] for n in features if keep is None or n in keep}
            example = tf.train.Example(features=tf.train.Features(feature=kept))
            writer.write(example.SerializeToString())
    return target


def metrics_of(directory):
    with open(directory / "history.csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("masks", ["masked", pytest.param("unmasked", marks=pytest.mark.long)])
def test_records_of_one_segment(train, made, tmp_path, masks):
    given = {"do_eval": True}
    if masks == "unmasked":
        given |= {"masked_lm_budget": 0.2, "vocab_file": made / "vocab.txt"}
    with refuses(f"alone-{masks} ... next_sentence_labels ... --sentence_loss_weight=0"):
        train(made / f"alone-{masks}", **given)
    given["sentence_loss_weight"] = 0
    out = train(made / f"alone-{masks}", **given, save_checkpoints_steps=1)
    rows = metrics_of(out)
    assert {row["kind"] for row in rows} == {"train", "eval"}
    for row in rows:  # the loss adds 1e-5 to the number of predictions
        assert float(row["loss"]) == pytest.approx(float(row["masked_lm_loss"]), rel=1e-5)
    assert "sentence_order_loss" not in rows[0]
    assert "sentence_order" not in (out / "eval_results.txt").read_text()
    first, last = (read_variables(out / f"model.ckpt-{step}") for step in (1, 3))
    for name in UNTOUCHED:
        np.testing.assert_array_equal(first[name], last[name])
    changed = "cls/predictions/transform/dense/kernel"
    assert np.abs(first[changed] - last[changed]).max() > 0


@pytest.mark.parametrize("given", [{"sentence_pairs": "next"}, {"do_permutation": True}])
def test_records_of_two_tasks_are_an_error(train, made, run_main, tmp_path, given):
    make_records(run_main, tmp_path, "other", dupe_factor=1, **given)
    [(name, value)] = given.items()
    held_out = {"do_eval": True, "eval_input_file": tmp_path / "other"}
    with refuses(f"/masked ... /other ... {resolve.as_flag(name, value)}"):
        train(made / "masked", **held_out)
    if name == "sentence_pairs":
        train(made / "masked", **held_out, sentence_loss_weight=0, num_train_steps=1)


@pytest.mark.long
def test_labels_of_one_file_are_not_enough(train, made, tmp_path):
    both = f"{made / 'masked'},{made / 'alone-masked'}"
    with refuses("alone-masked ... --sentence_loss_weight=0"):
        train(both)
    held_out = {"do_eval": True, "eval_input_file": made / "alone-masked"}
    with refuses("alone-masked ... --sentence_loss_weight=0"):
        train(made / "masked", **held_out)
    given = {"sentence_loss_weight": 0}
    out = train(both, **given)
    assert "sentence_order_loss" not in metrics_of(out)[0]
    out = train(made / "masked", **given, **held_out, output_dir=tmp_path / "held-out")
    assert "sentence_order_loss" not in metrics_of(out)[0]
    # Where all files have labels, the metrics stay.
    out = train(made / "masked", **given, output_dir=tmp_path / "labels")
    assert "sentence_order_loss" in metrics_of(out)[0]


def test_records_of_the_model_garden(train, made, tmp_path):
    theirs = set(schemas.pretraining_schema(1, 1)) - {"token_boundary"}
    records = rewritten(made / "masked", tmp_path / "garden", NAMES, theirs)
    found = train(records, num_train_steps=1)
    ours = rewritten(made / "masked", tmp_path / "ours", None, theirs)
    wanted = train(ours, num_train_steps=1, output_dir=tmp_path / "b")
    assert metrics_of(found)[0].keys() == metrics_of(wanted)[0].keys()
    assert_same_variables(found / "model.ckpt-1", wanted / "model.ckpt-1")


def test_errors_in_records_of_the_model_garden_name_their_features(train, made, tmp_path):
    records = rewritten(made / "masked", tmp_path / "garden", NAMES)
    with refuses("--max_seq_length=16 ... 24 ... input_word_ids"):
        train(records, max_seq_length=16)
    mixed = f"{records},{made / 'masked'}"
    with refuses("/masked ... input_word_ids"):
        train(mixed)


@pytest.mark.long
def test_records_of_electra(train, made, tmp_path):
    """They have no masks, no labels, and do not say where words begin."""
    kept = ["input_ids", "input_mask", "segment_ids"]
    records = rewritten(made / "unmasked", tmp_path / "electra", keep=kept)
    with refuses("electra ... --sentence_loss_weight=0"):
        train(records)
    given = {"sentence_loss_weight": 0}
    with refuses("electra ... --masked_lm_budget"):
        train(records, **given)
    given |= {"masked_lm_budget": 0.2, "vocab_file": made / "vocab.txt"}
    with refuses("electra ... token_boundary ... --do_whole_word_mask=false"):
        train(records, **given)
    out = train(records, **given, do_whole_word_mask=False)
    assert float(metrics_of(out)[-1]["masked_lm_loss"]) > 0
    shutil.rmtree(out)
    # They are masked as ours are, whose masks depend on the whole record: so without its label.
    assert train(records, **given, do_whole_word_mask=False, length_buckets="8,16")
