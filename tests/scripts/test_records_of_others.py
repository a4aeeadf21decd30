# SPDX-License-Identifier: Apache-2.0
"""Training on records of one segment, and on those of the Model Garden and of ELECTRA."""

import csv
import shutil

import numpy as np
import pytest
import tensorflow as tf

import run_pretraining
from albert_tf.records import schemas
from tests import GOLDEN, tiny
from tests.errors import refuses
from tests.scripts.small_text import LENGTH, make_records
from tests.scripts.test_run_pretraining import assert_same_variables, read_variables

pytestmark = pytest.mark.usefixtures("eagerly")

UNTOUCHED = ("bert/pooler/dense/kernel", "cls/seq_relationship/output_weights")
NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}  # of the Model Garden


@pytest.fixture(scope="module")
def made(tmp_path_factory, run_main):
    """Directory with a vocabulary, and records: in pairs and alone, masked and unmasked."""
    directory = tmp_path_factory.mktemp("records")
    for pairs in ("order", "none"):
        for name, prob in (("masked", 0.15), ("unmasked", 0)):
            given = {"masked_lm_prob": prob, "sentence_pairs": pairs, "dupe_factor": 2}
            make_records(run_main, directory, f"{pairs}-{name}", **given)
    return directory


@pytest.fixture
def train(made, tmp_path, run_main):
    """Function that trains on records; returns the run's directory."""

    def train(records, **given):
        flags = tiny.PRETRAINING | {
            "albert_config_file": GOLDEN / "optimizers" / "albert_config.json",
            "input_file": records,
            "output_dir": tmp_path / "out",
            "max_seq_length": LENGTH,
            "max_predictions_per_seq": 4,
            "num_train_steps": 3,
            "learning_rate": 0.01,
            "save_checkpoints_steps": 3,
        } | given  # fmt: skip
        run_main(run_pretraining, **flags)
        return flags["output_dir"]

    return train


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
@pytest.mark.parametrize("optimizer", [pytest.param("adamw", marks=pytest.mark.long), "lamb"])
def test_records_of_one_segment(train, made, tmp_path, masks, optimizer):
    given = {"optimizer": optimizer, "do_eval": True}
    if masks == "unmasked":
        given |= {"masked_lm_budget": 0.2, "vocab_file": made / "vocab.txt"}
    with refuses(f"none-{masks} ... next_sentence_labels ... --sentence_loss_weight=0"):
        train(made / f"none-{masks}", **given)
    given["sentence_loss_weight"] = 0
    out = train(made / f"none-{masks}", **given, save_checkpoints_steps=1)
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


@pytest.mark.long
def test_labels_of_one_file_are_not_enough(train, made, tmp_path):
    both = f"{made / 'order-masked'},{made / 'none-masked'}"
    with refuses("none-masked ... --sentence_loss_weight=0"):
        train(both)
    held_out = {"do_eval": True, "eval_input_file": made / "none-masked"}
    with refuses("none-masked ... --sentence_loss_weight=0"):
        train(made / "order-masked", **held_out)
    given = {"sentence_loss_weight": 0}
    out = train(both, **given)
    assert "sentence_order_loss" not in metrics_of(out)[0]
    out = train(made / "order-masked", **given, **held_out, output_dir=tmp_path / "held-out")
    assert "sentence_order_loss" not in metrics_of(out)[0]
    # Where all files have labels, the metrics stay.
    out = train(made / "order-masked", **given, output_dir=tmp_path / "labels")
    assert "sentence_order_loss" in metrics_of(out)[0]


def test_records_of_the_model_garden(train, made, tmp_path):
    theirs = set(schemas.pretraining_schema(1, 1)) - {"token_boundary"}
    records = rewritten(made / "order-masked", tmp_path / "garden", NAMES, theirs)
    found = train(records, num_train_steps=1)
    ours = rewritten(made / "order-masked", tmp_path / "ours", None, theirs)
    wanted = train(ours, num_train_steps=1, output_dir=tmp_path / "b")
    assert metrics_of(found)[0].keys() == metrics_of(wanted)[0].keys()
    assert_same_variables(found / "model.ckpt-1", wanted / "model.ckpt-1")


def test_errors_in_records_of_the_model_garden_name_their_features(train, made, tmp_path):
    records = rewritten(made / "order-masked", tmp_path / "garden", NAMES)
    with refuses("--max_seq_length=16 ... 24 ... input_word_ids"):
        train(records, max_seq_length=16)
    mixed = f"{records},{made / 'order-masked'}"
    with refuses("order-masked ... input_word_ids"):
        train(mixed)


@pytest.mark.long
def test_records_of_electra(train, made, tmp_path):
    """They have no masks, no labels, and do not say where words begin."""
    kept = ["input_ids", "input_mask", "segment_ids"]
    records = rewritten(made / "order-unmasked", tmp_path / "electra", keep=kept)
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
