# SPDX-License-Identifier: Apache-2.0
"""export_checkpoints.py through its real main: every form, there and back, and what it refuses."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

import export_checkpoints
from albert_tf.checkpoints import name_table, readers, run_directory, writers
from albert_tf.checkpoints.run_directory import RunDirectory, Threshold
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.tasks.squad import squad
from tests import GOLDEN
from tests.api import sources
from tests.checkpoints.golden_models import (
    MODELS,
    VARIANTS,
    golden_config,
    named_model,
    read,
    training_state,
    values_of,
    write,
)

EXPRESSIBLE = [variant for variant in VARIANTS if variant != "noproj"]
STEP_0 = {"global_step": np.int64(0)}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert np.asarray(value).dtype == np.asarray(expected[name]).dtype, name
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def config_of(directory):
    return AlbertConfig.from_json_file(str(directory / "albert_config.json"))


def write_record(directory, **text):
    """A run.json of a training with these settings of the text."""
    config = json.loads((directory / "albert_config.json").read_text())
    record = {"config": config, "text": text, "vocabulary": None}
    (directory / "run.json").write_text(json.dumps(record))


def contents_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(Path(directory).rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def export(run_main, tmp_path):
    """Exports a golden variant, or a directory: export(source, name, flag=value, ...) -> path."""

    def run(source, name="out/model.ckpt", checkpoint_name="model.ckpt", **values):
        places = {
            "albert_directory": MODELS / source if isinstance(source, str) else source,
            "checkpoint_name": checkpoint_name,
            "export_path": f"{tmp_path}/{name}",
        }
        run_main(export_checkpoints, **places | values)
        return tmp_path / name

    return run


@pytest.fixture
def to_transformers(export):
    """Exports a directory for transformers: (source, flag=value, ...) -> path, its tokenizer."""

    def run(source, name="hf", **values):
        directory = export(source, name, export_format="hf", **values)
        return directory, json.loads((directory / "tokenizer_config.json").read_text())

    return run


@pytest.fixture
def source(tmp_path):
    """A directory with a golden variant, a vocabulary and changes of config and tensors."""

    def make(variant="base", vocabulary="spm_uncased.model", tensors=None, **config):
        folder = tmp_path / "source"
        shutil.copytree(MODELS / variant, folder)
        if vocabulary:
            name = "30k-clean.model" if vocabulary.endswith(".model") else vocabulary
            shutil.copy(GOLDEN / "tokenization" / vocabulary, folder / name)
        if tensors is not None:
            write(folder / "model.ckpt", tensors)
        changed = dataclasses.replace(config_of(folder), **config)
        (folder / "albert_config.json").write_text(changed.to_json_string())
        return folder

    return make


@pytest.fixture
def with_vocabulary(source):
    """The same with as many word embeddings as the vocabulary has pieces."""

    def make(variant="base", pieces=3000, **arguments):
        tensors = read(MODELS / variant / "model.ckpt")
        for name in ("bert/embeddings/word_embeddings", "cls/predictions/output_bias"):
            values = np.random.RandomState(1).standard_normal([pieces, *tensors[name].shape[1:]])
            tensors[name] = values.astype(np.float32)
        return source(variant, tensors=tensors, vocab_size=pieces, **arguments), tensors

    return make


# --- There and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_tf1_to_ours_to_tf1_is_bit_identical(variant, export):
    ours = export(variant, "ours/model.ckpt-best", export_format="tf2")
    again = export(ours.parent, "again/model.ckpt", "model.ckpt-best", export_format="tf1")
    assert_same(read(again), read(MODELS / variant / "model.ckpt") | STEP_0)
    assert config_of(ours.parent) == config_of(again.parent) == golden_config(variant)


@pytest.mark.parametrize("variant", EXPRESSIBLE)
def test_ours_to_transformers_to_ours_is_bit_identical(variant, export, with_vocabulary):
    folder, tensors = with_vocabulary(variant)
    theirs = export(folder, "hf", export_format="hf")
    again = export(theirs, "again/model.ckpt", "model.safetensors", export_format="tf1")
    assert_same(read(again), tensors | STEP_0)
    assert config_of(again.parent) == config_of(folder)


# --- The forms -----------------------------------------------------------------------------------


def test_a_tf1_saver_restores_what_is_written(export):
    prefix = export("base", export_format="tf1")
    assert sorted(path.name for path in prefix.parent.iterdir()) == [
        "albert_config.json", "model.ckpt.data-00000-of-00001", "model.ckpt.index"
    ]  # fmt: skip
    golden = read(MODELS / "base" / "model.ckpt")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in golden.items():
            tf.compat.v1.get_variable(name, value.shape)
        step = tf.compat.v1.train.get_or_create_global_step()
        tf.compat.v1.train.Saver().restore(session, str(prefix))
        assert session.run(step) == 0
        for variable in tf.compat.v1.trainable_variables():
            np.testing.assert_array_equal(session.run(variable), golden[variable.op.name])


def test_our_own_form_is_what_a_run_writes(export):
    prefix = export("base", export_format="tf2")
    reader, golden = readers.TensorFlowReader(str(prefix)), read(MODELS / "base" / "model.ckpt")
    assert_same({name: reader[name] for name in reader.shapes}, golden | STEP_0)
    keys = read(prefix).keys() - {"_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter"}
    assert all(key.startswith("variables/") for key in keys)


def test_directory_for_transformers(to_transformers, with_vocabulary, capsys):
    folder, _ = with_vocabulary()
    directory, tokenizer = to_transformers(folder, do_lower_case=False)
    assert sorted(contents_of(directory)) == [
        "README.md", "config.json", "model.safetensors", "spiece.model", "tokenizer.json",
        "tokenizer_config.json",
    ]  # fmt: skip
    card = (directory / "README.md").read_text()
    assert f'AlbertForPreTraining.from_pretrained("{directory}")' in card
    assert "## Training" in card and "Not recorded. Describe" in card
    config = json.loads((directory / "config.json").read_text())
    assert config["hidden_act"] == "gelu_new" and config["vocab_size"] == 3000
    assert [config[f"{name}_token_id"] for name in ("pad", "bos", "eos")] == [0, 2, 3]
    assert tokenizer["do_lower_case"] is False and tokenizer["model_max_length"] == 40
    assert f"Wrote 32 variables as AlbertForPreTraining to {directory}" in capsys.readouterr().out


@pytest.mark.long
def test_directory_with_wordpiece(to_transformers, with_vocabulary):
    folder, _ = with_vocabulary(pieces=1542, vocabulary="vocab.txt")
    directory, tokenizer = to_transformers(folder)
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert tokenizer["do_lower_case"] is True
    assert (directory / "vocab.txt").exists() and not (directory / "spiece.model").exists()


# --- What is written and what is not -------------------------------------------------------------


def without(variant, part):
    golden = read(MODELS / variant / "model.ckpt")
    return {name: value for name, value in golden.items() if part not in name}


def relatives(tensors):
    """Slots as relatives of the original name them."""
    return {f"{name}/lamb_m": value for name, value in tensors.items()}


@pytest.mark.parametrize("form", ["tf1", "tf2"])
def test_slots_and_step_stay_behind(form, source, export, capsys):
    tensors = read(GOLDEN / "optimizers" / "lamb_ckpt" / "model.ckpt-8")
    weights = {n: v for n, v in tensors.items() if "/adam_" not in n and n != "global_step"}
    folder = source(tensors=tensors | relatives(weights))
    reader = readers.TensorFlowReader(str(export(folder, export_format=form)))
    assert {*reader.shapes} == {*weights, "global_step"} and reader["global_step"] == 0
    assert len(weights) == 32
    for name, value in weights.items():
        np.testing.assert_array_equal(reader[name], value, err_msg=name)
    assert "left out" not in capsys.readouterr().out


def test_a_run_of_ours_is_exported_without_its_moments(source, export):
    state, _ = training_state(golden_config())
    folder = source()
    tf.train.Checkpoint(variables=state).write(str(folder / "model.ckpt-5"))
    prefix = export(folder, checkpoint_name="model.ckpt-5")
    weights = {name: v for name, v in state.items() if name_table.is_weight(name)}
    assert_same(read(prefix), values_of(weights) | STEP_0)
    assert 0 < len(weights) < len(state) - 1


HEADS = {
    "classifier": lambda config: heads.ClassificationModel(config, 3),
    "race": heads.MultipleChoiceModel,
    "squad1": heads.SquadV1Model,
    "squad2": heads.SquadV2Model,
}


@pytest.mark.parametrize("kind", HEADS)
def test_heads_of_fine_tuned_models_come_along(kind, source, export, capsys):
    tensors = values_of(named_model(golden_config(), HEADS[kind]))
    prefix = export(source(tensors=tensors))
    assert_same(read(prefix), tensors | STEP_0)
    printed = capsys.readouterr().out
    assert "absent, so not written: cls/predictions/transform/dense/kernel, " in printed
    assert f"Wrote {len(tensors)} variables and global_step 0 to {prefix}" in printed


def test_what_is_absent_and_what_is_unknown_are_told(source, export, capsys):
    weights = without("base", "seq_relationship")
    prefix = export(source(tensors=weights | {"my/own": np.float32(1)}))
    assert_same(read(prefix), weights | STEP_0)
    assert (
        "absent, so not written: cls/seq_relationship/output_weights, "
        "cls/seq_relationship/output_bias\n"
        "  not of an ALBERT model, so left out: my/own\n"
    ) in capsys.readouterr().out


FINE_TUNED = {  # kind of HEADS -> (what finetuned_task.json holds, the class in transformers)
    "classifier": ({"task_name": "mnli", "labels": ["a", "b", "c"]}, "ForSequenceClassification"),
    "race": ({"task_name": "race", "labels": ["A", "B", "C", "D"]}, "ForMultipleChoice"),
    "squad1": (None, "ForQuestionAnswering"),
    "squad2": (None, "Model"),
}


@pytest.fixture
def fine_tuned(with_vocabulary):
    """A directory with a fine-tuned model; and its tensors."""

    def make(kind):
        folder, _ = with_vocabulary()
        tensors = values_of(named_model(config_of(folder), HEADS[kind]))
        write(folder / "model.ckpt", tensors)
        if FINE_TUNED[kind][0]:
            (folder / run_directory.TASK).write_text(json.dumps(FINE_TUNED[kind][0]))
        return folder, tensors

    return make


@pytest.mark.parametrize("kind", ["classifier", "race", "squad1"])
def test_heads_go_to_transformers_and_come_back(kind, fine_tuned, to_transformers, export, capsys):
    folder, tensors = fine_tuned(kind)
    theirs, tokenizer = to_transformers(folder)
    name = f"Albert{FINE_TUNED[kind][1]}"
    printed = capsys.readouterr().out
    assert f"Wrote {len(tensors)} variables as {name} to {theirs}" in printed
    assert json.loads((theirs / "config.json").read_text())["architectures"] == [name]
    assert tokenizer["split_special_tokens"] is True  # only a masked LM is asked with [MASK]
    head = run_directory.RunDirectory(str(folder)).task
    assert run_directory.RunDirectory(str(theirs)).task == head and (head is None) == (
        kind == "squad1"
    )
    again = export(theirs, "again/model.ckpt", "model.safetensors")
    assert_same(read(again), tensors | STEP_0)


def test_heads_that_transformers_lacks_are_told(fine_tuned, export, capsys):
    folder, _ = fine_tuned("squad2")
    tuned = '{"null_score_diff_threshold": -1.5, "tuned_on": "dev.json"}'
    (folder / run_directory.THRESHOLD).write_text(tuned)
    theirs = export(folder, "hf", export_format="hf")
    assert not (theirs / run_directory.THRESHOLD).exists()  # it is of that head
    ours = export(folder, export_format="tf2")
    assert RunDirectory(str(ours.parent)).threshold == Threshold(-1.5, "dev.json")
    printed = capsys.readouterr().out
    assert re.search("AlbertModel has no place for: .*answer_class/dense_0/kernel, ", printed)
    assert "Wrote 25 variables as AlbertModel" in printed


def test_a_threshold_given_for_the_training_goes_along(fine_tuned, export):
    folder, _ = fine_tuned("squad2")
    config = json.loads((folder / "albert_config.json").read_text())
    record = {"config": config, "text": {}, "flags": {squad.THRESHOLD: -1.5}}
    (folder / "run.json").write_text(json.dumps(record))
    exported = export(folder, export_format="tf2")
    assert RunDirectory(str(exported.parent)).threshold == Threshold(-1.5, "")


def test_one_output_needs_its_task(fine_tuned, to_transformers):
    folder, _ = fine_tuned("race")
    (folder / run_directory.TASK).unlink()
    with pytest.raises(ValueError, match=r"has one row.*put a finetuned_task\.json"):
        to_transformers(folder)
    (folder / run_directory.TASK).write_text('{"task_name": "sts-b", "labels": null}')
    config = json.loads((to_transformers(folder)[0] / "config.json").read_text())
    assert config["problem_type"] == "regression" and config["id2label"] == {"0": "LABEL_0"}


@pytest.mark.parametrize("flag", ["do_lower_case", "strip_accents"])
@pytest.mark.parametrize("recorded", [True, False])
def test_clean_up_is_that_of_the_run(flag, recorded, with_vocabulary, to_transformers):
    folder, _ = with_vocabulary()
    write_record(folder, **{flag: recorded})
    assert to_transformers(folder)[1][flag] is recorded
    to_transformers(folder, "same", **{flag: recorded})
    with pytest.raises(ValueError, match=rf"--{flag}=.*run\.json\): leave it out"):
        to_transformers(folder, "other", **{flag: not recorded})


def test_the_length_of_the_training_goes_along(with_vocabulary, to_transformers):
    folder, _ = with_vocabulary()
    write_record(folder, max_seq_length=20)
    assert to_transformers(folder)[1]["model_max_length"] == 20


def test_the_vocabulary_of_the_run_is_found(with_vocabulary, to_transformers, tmp_path):
    folder, _ = with_vocabulary()
    path = (folder / "30k-clean.model").rename(tmp_path / "elsewhere.model")
    sources.write_record(folder, path, config_of(folder).to_dict(), do_lower_case=False)
    assert not to_transformers(folder)[1]["do_lower_case"]
    path.write_bytes(b"another file")
    with pytest.raises(ValueError, match=r"elsewhere\.model, the vocabulary .* is gone or another"):
        to_transformers(folder, "other")


def test_tokenizers_that_transformers_lacks(with_vocabulary, export, tmp_path):
    folder, _ = with_vocabulary()
    path = folder / "30k-clean.model"
    proto = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    proto.trainer_spec.model_type = 2
    path.write_bytes(proto.SerializeToString())
    message = rf"--export_format=hf: {path}: the SentencePiece model is of the type bpe"
    with pytest.raises(ValueError, match=message):
        export(folder, "hf", export_format="hf")
    assert not (tmp_path / "hf").exists()


# --- Bad input -----------------------------------------------------------------------------------

OTHER_HEAD = read(MODELS / "base" / "model.ckpt") | {
    "cls/predictions/output_bias": np.zeros([301], np.float32)
}


@pytest.mark.parametrize(
    "arguments, flags, message",
    [
        ({"tensors": without("base", "bert/")}, {}, "0 variables fit, 25 are missing"),
        ({"tensors": without("base", "pooler")}, {}, "missing: bert/pooler/dense/kernel"),
        ({"vocab_size": 301}, {}, r"shape \[300, 16\] in the file, \[301, 16\] here"),
        ({"variant": "groups2", "num_hidden_groups": 1}, {}, "has no place for .*/group_1/"),
        ({"tensors": OTHER_HEAD}, {}, "has no place for cls/predictions/output_bias"),
        ({}, {"albert_directory": GOLDEN}, r"--albert_directory=.*holds no albert_config\.json"),
        ({}, {"checkpoint_name": "model.ckpt-best"}, "no checkpoint at .*model.ckpt-best"),
        ({}, {"export_format": "hf"}, "has 3000 pieces and the config has vocab_size=300"),
        ({"vocabulary": None}, {"export_format": "hf"}, "holds no vocabulary"),
        ({"variant": "noproj"}, {"export_format": "hf"}, "--export_format=hf: .*no such mapping"),
        (
            {"parameter_sharing": "attention"},
            {"export_format": "hf"},
            "--export_format=hf: .*parameter_sharing='attention'",
        ),
        ({}, {"dtype": "fp16"}, "--dtype=fp16 needs --export_format=hf"),
        ({}, {"card_file": "card.md"}, "--card_file=card.md needs --export_format=hf"),
        ({}, {"checkpoint_name": ""}, "--checkpoint_name is empty"),
        ({}, {"checkpoint_name": ".."}, r"--checkpoint_name=\.\. leads out of --albert_directory"),
        ({}, {"checkpoint_name": "a/../../x"}, "leads out of --albert_directory"),
        ({}, {"checkpoint_name": str(MODELS / "base" / "model.ckpt")}, "leads out of"),
        ({}, {"name": "out/"}, "is not the prefix of a checkpoint"),
        ({}, {"name": "source"}, "source is not the prefix of a checkpoint"),
        ({}, {"name": "out/model[1]"}, "is not the prefix of a checkpoint"),
        ({}, {"name": "source/albert_config.json/model.ckpt"}, "--export_path="),
        ({}, {"name": "source", "export_format": "hf"}, "--export_path=.*source"),
    ],
)
def test_bad_input_is_a_plain_error_and_leaves_nothing(
    arguments, flags, message, source, export, tmp_path
):
    folder = source(**arguments)
    before = contents_of(tmp_path)
    with pytest.raises(ValueError, match=message):
        export(folder, **flags)
    assert contents_of(tmp_path) == before


def test_the_directory_itself_names_its_checkpoint(source, export):
    assert run_directory.exists(str(export(source(), checkpoint_name=".")))


def test_a_weight_beyond_half_precision_is_an_error(with_vocabulary, export, tmp_path):
    folder, tensors = with_vocabulary("base")
    tensors["bert/pooler/dense/bias"] = np.full_like(tensors["bert/pooler/dense/bias"], 1e5)
    write(folder / "model.ckpt", tensors)
    with pytest.raises(ValueError, match=r"pooler/dense/bias has values .* --dtype=fp16"):
        export(folder, "hf", export_format="hf", dtype="fp16")
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("form", ["tf1", "hf"])
def test_whole_numbers_are_no_weights(form, with_vocabulary, export):
    folder, tensors = with_vocabulary()
    name = "bert/embeddings/word_embeddings"
    write(folder / "model.ckpt", tensors | {name: tensors[name].astype(np.int32)})
    with pytest.raises(ValueError, match=rf"{name} in .* is of type int32"):
        export(folder, "out/x", export_format=form)


@pytest.mark.parametrize("form", ["tf1", "tf2", "hf"])
def test_what_exists_is_not_replaced(form, with_vocabulary, export, tmp_path):
    folder, _ = with_vocabulary()
    export(folder, "out/x", export_format=form)
    before = contents_of(tmp_path)
    with pytest.raises(ValueError, match=r"--export_path=.*out/x"):
        export(folder, "out/x", export_format=form)
    assert contents_of(tmp_path) == before


def test_a_config_of_another_model_is_not_replaced(source, export, tmp_path):
    (tmp_path / "out").mkdir()
    path = shutil.copy(MODELS / "relu" / "albert_config.json", tmp_path / "out")
    with pytest.raises(ValueError, match=rf"{path} belongs to another model"):
        export(source())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["albert_config.json"]


def test_the_task_of_another_model_is_not_replaced(fine_tuned, export, tmp_path):
    folder, _ = fine_tuned("race")
    export(folder, "out/first")
    (folder / run_directory.TASK).write_text('{"task_name": "sts-b", "labels": null}')
    before = contents_of(tmp_path / "out")
    with pytest.raises(ValueError, match=rf"{run_directory.TASK} belongs to another model"):
        export(folder, "out/second")
    assert contents_of(tmp_path / "out") == before


def test_beside_the_source_its_config_stays(source, export, tmp_path):
    folder = source()
    text = (folder / "albert_config.json").read_text().replace("{", '{"gap_size": 0,', 1)
    (folder / "albert_config.json").write_text(text)
    export(folder, "source/exported.ckpt")
    assert (folder / "albert_config.json").read_text() == text
    assert run_directory.exists(str(folder / "exported.ckpt"))


def test_a_failure_while_writing_leaves_nothing(source, export, tmp_path, monkeypatch):
    writer = writers.WRITERS["tf1"]

    def fail(prefix, tensors):
        writer(prefix, tensors)
        raise ValueError("the disk is full")

    folder = source()
    monkeypatch.setitem(writers.WRITERS, "tf1", fail)
    with pytest.raises(ValueError, match="the disk is full"):
        export(folder)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.long
def test_as_a_user_runs_it(run_script, source, tmp_path):
    values = {"albert_directory": source(), "checkpoint_name": "model.ckpt"}
    target = tmp_path / "out" / "model.ckpt"
    done = run_script("export_checkpoints", export_path=target, **values)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"Read 32 variables from {tmp_path}/source/model.ckpt\n"
        f"Wrote 32 variables and global_step 0 to {target}\n"
    )
    again = run_script("export_checkpoints", export_path=target, **values)
    assert again.returncode == 1 and again.stdout == ""
    assert "export_checkpoints: error: --export_path=" in again.stderr
    assert "Traceback" not in again.stderr
