# SPDX-License-Identifier: Apache-2.0
"""What belongs to a checkpoint: what its record says, what the caller does, and which one holds."""

import json
import shutil

import pytest
import tensorflow as tf

import albert_tf
from albert_tf.checkpoints import source
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.model import heads
from albert_tf.publish import saved_models
from tests import GOLDEN, TINY_CONFIG
from tests.api import sources

OTHER = GOLDEN / "tokenization" / "spm_cased.model"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A directory with a checkpoint and the record of a cased training."""
    folder = tmp_path_factory.mktemp("recorded")
    sources.write_release(folder)
    text = {"do_lower_case": False, "strip_accents": False, "max_seq_length": 20}
    sources.write_record(folder, folder / "30k-clean.model", **text)
    return folder


HEADS = AlbertConfig.from_dict(sources.WIDE | {"num_attention_heads": 4})


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"do_lower_case": True}, "do_lower_case=True, but .* do_lower_case=False .*run.json"),
        ({"strip_accents": True}, "strip_accents=True, but .* strip_accents=False .*run.json"),
        ({"spm_model_file": OTHER}, "spm_cased.model is not the vocabulary .*30k-clean.*run.json"),
        ({"spm_model_file": "no_such.model"}, "cannot read no_such.model"),
        ({"config": HEADS}, "num_attention_heads=4, but .* trained with 2 .*run.json"),
    ],
)
def test_load_refuses_what_the_record_contradicts(recorded, argument, message):
    with pytest.raises(UserError, match=message):
        albert_tf.load(recorded, **argument)


def test_load_takes_what_agrees_with_the_record(recorded):
    config = AlbertConfig.from_dict(sources.WIDE | {"hidden_dropout_prob": 0.2})
    vocabulary = recorded / "30k-clean.model"
    loaded = albert_tf.load(recorded, do_lower_case=False, spm_model_file=vocabulary, config=config)
    assert loaded.tokenizer.normalize("The e\u0301") == "The e\u0301"
    assert loaded.config.hidden_dropout_prob == 0.2


def test_the_record_stands_in_for_a_config(recorded, tmp_path):
    copied = shutil.copytree(recorded, tmp_path / "copy")
    (copied / "albert_config.json").unlink()
    assert albert_tf.load(copied).config.to_dict() == HEADS.to_dict() | sources.WIDE


def test_a_vocabulary_that_was_moved_along_is_found_by_its_hash(recorded, tmp_path):
    copied = shutil.copytree(recorded, tmp_path / "copy")
    record = json.loads((copied / "run.json").read_text())
    record["vocabulary"]["path"] = "/nowhere/30k-clean.model"
    (copied / "run.json").write_text(json.dumps(record))
    choice = source.Choice(source.find(copied))
    assert choice.vocabulary == ("spm_model_file", f"{copied}/30k-clean.model")
    shutil.copy(OTHER, copied / "30k-clean.model")
    with pytest.raises(UserError, match=r"/nowhere/30k-clean.model, the vocabulary .* is gone"):
        _ = source.Choice(source.find(copied)).vocabulary


def test_an_export_is_no_checkpoint_to_load(tmp_path):
    model = heads.ClassificationModel(AlbertConfig.from_dict(TINY_CONFIG), 3)
    tf.saved_model.save(saved_models.Holder(model), str(tmp_path / "export"))
    for path in ("export", "export/variables/variables"):
        with pytest.raises(UserError, match=r"export is an export .* predict.py --saved_model"):
            albert_tf.load(tmp_path / path)
