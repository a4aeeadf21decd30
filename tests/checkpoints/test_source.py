# SPDX-License-Identifier: Apache-2.0
"""What belongs to a checkpoint: what its record says, what the caller does, and which one holds."""

import dataclasses
import json
import shutil

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import source
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.publish import saved_models
from tests import tiny
from tests.errors import refuses

OTHER = tiny.CASED_VOCABULARY


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A directory with a checkpoint and the record of a cased training."""
    folder = tmp_path_factory.mktemp("recorded")
    tiny.write_release(folder)
    text = {"do_lower_case": False, "strip_accents": False, "max_seq_length": 20}
    tiny.write_record(folder, folder / "30k-clean.model", **text)
    return folder


HEADS = AlbertConfig.from_dict(tiny.WIDE | {"num_attention_heads": 4})


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"do_lower_case": True}, "do_lower_case=True ... do_lower_case=False ... run.json"),
        ({"strip_accents": True}, "strip_accents=True ... strip_accents=False ... run.json"),
        ({"spm_model_file": OTHER}, "spm_cased.model ... 30k-clean ... run.json"),
        ({"spm_model_file": "no_such.model"}, "no_such.model"),
        ({"config": HEADS}, "config ... num_attention_heads=4 ... 2 ... run.json"),
    ],
)
def test_load_refuses_what_the_record_contradicts(recorded, argument, message):
    with refuses(message):
        albert_tf.load(recorded, **argument)


def test_which_vocabulary_of_a_directory_is_taken(tmp_path):
    names = ["30k-clean.model", "a.model", "vocab.txt", "vocab_chinese.txt"]
    for name in [*names, "eval_results.txt"]:
        (tmp_path / name).touch()  # equal files may have several names
    found = source.Source(str(tmp_path))
    for name in names:
        assert found.vocabulary_file() == f"{tmp_path}/{name}"
        (tmp_path / name).unlink()
    assert found.vocabulary_file() is None


@pytest.mark.parametrize("other", ["b.model", "30k-clean.model", "vocab.txt"])
def test_two_vocabularies_in_a_directory_are_refused(other, tmp_path):
    (tmp_path / "a.model").write_text("one")
    (tmp_path / other).write_text("another")
    with refuses(f"a.model ... {other}" if other != "30k-clean.model" else f"{other} ... a.model"):
        source.Source(str(tmp_path)).vocabulary_file()


def test_two_configs_of_different_models_are_refused(tmp_path):
    ours, theirs = tmp_path / "albert_config.json", tmp_path / "config.json"
    config = AlbertConfig.from_dict(tiny.WIDE)
    ours.write_text(config.to_json_string())
    theirs.write_text(json.dumps(tiny.WIDE | {"model_type": "albert", "hidden_act": "gelu_new"}))
    found = source.Source(str(tmp_path))
    assert found.config_file() == str(ours)
    ours.write_text(dataclasses.replace(config, num_attention_heads=1).to_json_string())
    with refuses("albert_config.json ... config.json"):
        found.config_file()
    theirs.write_text('{"lr": 3e-5}')  # of another program
    assert found.config_file() == str(ours)


def test_load_takes_what_agrees_with_the_record(recorded):
    config = AlbertConfig.from_dict(tiny.WIDE | {"hidden_dropout_prob": 0.2})
    vocabulary = recorded / "30k-clean.model"
    loaded = albert_tf.load(recorded, do_lower_case=False, spm_model_file=vocabulary, config=config)
    assert loaded.tokenizer.normalize("The e\u0301") == "The e\u0301"
    assert loaded.config.hidden_dropout_prob == 0.2


def test_the_record_stands_in_for_a_config(recorded, tmp_path):
    copied = shutil.copytree(recorded, tmp_path / "copy")
    (copied / "albert_config.json").unlink()
    assert albert_tf.load(copied).config.to_dict() == HEADS.to_dict() | tiny.WIDE


def test_a_vocabulary_that_was_moved_along_is_found_by_its_hash(recorded, tmp_path):
    copied = shutil.copytree(recorded, tmp_path / "copy")
    record = json.loads((copied / "run.json").read_text())
    record["vocabulary"]["path"] = "/nowhere/30k-clean.model"
    (copied / "run.json").write_text(json.dumps(record))
    found = source.find(copied)
    fact = source.facts(found, source.USE, {})["spm_model_file"]
    assert fact.value == f"{copied}/30k-clean.model"
    shutil.copy(OTHER, copied / "30k-clean.model")
    with refuses("/nowhere/30k-clean.model"):
        albert_tf.load(copied)


def test_an_export_is_no_checkpoint_to_load(tmp_path):
    model = heads.ClassificationModel(AlbertConfig.from_dict(tiny.CONFIG), 3)
    tf.saved_model.save(saved_models.Holder(model), str(tmp_path / "export"))
    for path in ("export", "export/variables/variables"):
        with refuses("predict.py ... --saved_model"):
            albert_tf.load(tmp_path / path)


@pytest.mark.parametrize("empty", ["spm_model_file", "vocab_file"])
def test_an_empty_path_is_none(empty, release):
    found = source.Source(str(release), f"{release}/model.ckpt-best")
    facts = source.facts(found, source.USE, {empty: ""})
    assert facts["spm_model_file"].value == f"{release}/30k-clean.model"
