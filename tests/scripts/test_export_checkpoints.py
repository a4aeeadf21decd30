# SPDX-License-Identifier: Apache-2.0
"""export_checkpoints.py through its real main: every form, there and back, and what it refuses."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
import export_checkpoints
from albert_tf import vocabulary_record
from albert_tf.checkpoints import loading, name_table, readers, run_directory, writers
from albert_tf.checkpoints import source as source_module
from albert_tf.checkpoints.run_directory import FinetunedTask, NoAnswerThreshold, RunDirectory
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.tasks.squad import squad
from albert_tf.text.clean_up import CleanUp
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN, tiny
from tests.checkpoints import golden_models
from tests.checkpoints.golden_models import MODELS, VARIANTS, golden_config, read, values_of, write
from tests.errors import assert_says, refuses

EXPRESSIBLE = [variant for variant in VARIANTS if variant != "noproj"]
HF = {"export_format": "hf"}
STEP_0 = {"global_step": np.int64(0)}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert np.asarray(value).dtype == np.asarray(expected[name]).dtype, name
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def config_of(directory):
    return AlbertConfig.from_json_file(str(directory / "albert_config.json"))


def write_record(directory, **content):
    """A run.json of a training with this content besides the config."""
    record = {"config": config_of(directory).to_dict(), "text": {}, "vocabulary": None}
    (directory / "run.json").write_text(json.dumps(record | content))


def contents_of(directory):
    paths = (path for path in Path(directory).rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


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
        directory = export(source, name, **HF, **values)
        return directory, json.loads((directory / "tokenizer_config.json").read_text())

    return run


@pytest.fixture
def source(tmp_path):
    """A directory with a golden variant, a vocabulary and changes of config and tensors."""

    def make(variant="base", vocabulary="spm_uncased.model", tensors=None, **config):
        folder = tmp_path / "source"
        shutil.copytree(MODELS / variant, folder)
        if vocabulary:
            name = vocabulary.replace("spm_uncased", "30k-clean")
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
    theirs = export(folder, "hf", **HF)
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
    assert f'path = "{directory.name}"' in card
    assert "AlbertForPreTraining.from_pretrained(path)" in card
    assert "## Training" in card and "Not recorded. Describe" in card
    config = json.loads((directory / "config.json").read_text())
    assert config["hidden_act"] == "gelu_new" and config["vocab_size"] == 3000
    assert [config[f"{name}_token_id"] for name in ("pad", "bos", "eos")] == [0, 2, 3]
    assert tokenizer["do_lower_case"] is False and tokenizer["model_max_length"] == 40
    printed = capsys.readouterr().out
    assert f"Read 32 variables from {folder}/model.ckpt\n" in printed
    assert f"Wrote 32 variables as AlbertForPreTraining to {directory}\n" in printed


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


def test_the_newest_checkpoint_is_exported_if_none_was_evaluated(source, run_main, tmp_path):
    folder, written = source(), tmp_path / "out" / "model.ckpt"
    for step in (4, 5):
        tensors = read(folder / "model.ckpt") | {"global_step": np.int64(step)}
        write(folder / f"model.ckpt-{step}", tensors)
    changed = read(folder / "model.ckpt-5") | {"bert/pooler/dense/bias": np.full(32, 7, "f4")}
    write(folder / "model.ckpt-5", changed)
    run_main(export_checkpoints, albert_directory=folder, export_path=written)
    assert set(read(written)["bert/pooler/dense/bias"]) == {7}


HEADS = {
    "classifier": lambda config: heads.ClassificationModel(config, 3),
    "race": heads.MultipleChoiceModel,
    "squad1": heads.SquadV1Model,
    "squad2": heads.SquadV2Model,
    "ner": lambda config: heads.TokenClassificationModel(config, 2),
}


def test_what_is_absent_and_what_is_unknown_are_told(source, export, capsys):
    weights = without("base", "seq_relationship")
    prefix = export(source(tensors=weights | {"my/own": np.float32(1)}))
    assert_same(read(prefix), weights | STEP_0)
    absent = "cls/seq_relationship/output_weights ... cls/seq_relationship/output_bias"
    assert_says(capsys.readouterr().out, absent, "my/own")


FINE_TUNED = {  # kind of HEADS -> (what finetuned_task.json holds, the class in transformers)
    "classifier": ({"task_name": "mnli", "labels": ["a", "b", "c"]}, "ForSequenceClassification"),
    "race": ({"task_name": "race", "labels": ["A", "B", "C", "D"]}, "ForMultipleChoice"),
    "squad1": (None, "ForQuestionAnswering"),
    "squad2": (None, "Model"),
    "ner": ({"task_name": "ner", "labels": ["O", "B-X"]}, "ForTokenClassification"),
}


@pytest.fixture
def fine_tuned(with_vocabulary):
    """A directory with a fine-tuned model; and its tensors."""

    def make(kind):
        folder, _ = with_vocabulary()
        tensors = values_of(golden_models.named_model(config_of(folder), HEADS[kind]))
        write(folder / "model.ckpt", tensors)
        if FINE_TUNED[kind][0]:
            (folder / run_directory.TASK).write_text(json.dumps(FINE_TUNED[kind][0]))
        return folder, tensors

    return make


@pytest.mark.parametrize("kind", ["classifier", "race", "squad1", "ner"])
def test_heads_go_to_transformers_and_come_back(
    kind, fine_tuned, to_transformers, export, run_main, tmp_path, capsys
):
    folder, tensors = fine_tuned(kind)
    theirs, tokenizer = to_transformers(folder)
    name = f"Albert{FINE_TUNED[kind][1]}"
    printed = capsys.readouterr().out
    assert f"Wrote {len(tensors)} variables as {name} to {theirs}" in printed
    config = json.loads((theirs / "config.json").read_text())
    assert config["architectures"] == [name]
    assert kind != "ner" or config["id2label"] == {"0": "O", "1": "B-X"}
    assert tokenizer["split_special_tokens"] is True  # only a masked LM is asked with [MASK]
    head = RunDirectory(str(folder)).task
    assert RunDirectory(str(theirs)).task == (head or FinetunedTask("squad", ()))
    assert not squad.is_read_at_cls([str(theirs / "model.safetensors")])
    if kind == "squad1":
        (theirs / run_directory.TASK).unlink()  # as from elsewhere
        copy = export(theirs, "copy", "model.safetensors", **HF)
        assert squad.is_read_at_cls([str(copy / "model.safetensors")])
    again = export(theirs, "again/model.ckpt", "model.safetensors")
    assert_same(read(again), tensors | STEP_0)
    (theirs / run_directory.TASK).unlink(missing_ok=True)  # as transformers writes a directory
    run_main(
        export_checkpoints, albert_directory=theirs, export_path=f"{tmp_path}/third/model.ckpt"
    )
    told = RunDirectory(f"{tmp_path}/third").task
    assert (told and told.labels) == (head and head.labels)


@pytest.mark.parametrize(
    "form, kind", [("tf1", "race"), ("tf2", "squad1"), ("hf", "race"), ("hf", "squad1")]
)
def test_settings_of_the_text_go_along(form, kind, fine_tuned, export, tmp_path):
    folder, _ = fine_tuned(kind)
    vocabulary = (folder / "30k-clean.model").rename(tmp_path / "elsewhere.model")
    flags = {"long_texts": "head_tail", "n_best_size": 7, "learning_rate": 0.1, "data_dir": "/my"}
    text = {"max_seq_length": 20, "max_qa_length": 9, "doc_stride": 5, "do_lower_case": False}
    record = tiny.write_record(folder, vocabulary, config_of(folder).to_dict(), **text)
    write_record(folder, flags=flags, **record)
    name = "out" if form == "hf" else "out/model.ckpt"
    export(folder, name, export_format=form)
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    vocabulary.rename(tmp_path / "again.model")
    settings = RunDirectory(str(moved)).settings
    assert settings.flags == {"long_texts": "head_tail", "n_best_size": 7}
    assert (text | settings.text, settings.vocabulary.path) == (settings.text, "spiece.model")
    given = {"spm_model_file": tmp_path / "again.model", "max_seq_length": 20}
    for loaded in (albert_tf.load(moved), albert_tf.load(moved, do_lower_case=False, **given)):
        task = loaded._task
        found = task.options.doc_stride if kind == "squad1" else task.max_qa_length
        assert found == (5 if kind == "squad1" else 9) and not getattr(task, "reads_cls", False)
    with refuses("do_lower_case=True ... run.json"):
        albert_tf.load(moved, do_lower_case=True, **given)
    export(folder, "source/beside.ckpt")  # whose run.json stays
    assert RunDirectory(str(folder)).settings.flags == flags
    if form == "hf":
        with refuses("elsewhere.model"):
            export(folder, name, **HF)
    else:  # the vocabulary is gone
        bare = albert_tf.load(export(folder, name, export_format=form), **given)
        assert bare.tokenizer.casing["do_lower_case"] is False


@pytest.mark.parametrize("form", ["tf1", "tf2", "hf"])
def test_a_model_that_shares_nothing_answers_as_its_run(form, export, tmp_path):
    config = tiny.WIDE | {"parameter_sharing": "none", "num_hidden_layers": 2}
    folder = tmp_path / "run"
    folder.mkdir()
    tiny.write_release(folder, heads.ClassificationModel, config=config, num_outputs=2)
    task = {"task_name": "tsv", "labels": ["no", "yes"]}
    (folder / run_directory.TASK).write_text(json.dumps(task))
    tiny.write_record(folder, folder / "30k-clean.model", config, max_seq_length=20)
    name = "out" if form == "hf" else "out/model.ckpt-best"
    export(folder, name, "model.ckpt-best", export_format=form)
    ours, theirs = (albert_tf.load(path) for path in (folder, tmp_path / "out"))
    assert ours.predict("It is good.") == theirs.predict("It is good.")


def test_heads_that_transformers_lacks_are_told(fine_tuned, export, capsys):
    folder, tensors = fine_tuned("squad2")
    tuned = '{"null_score_diff_threshold": -1.5, "tuned_on": "dev.json"}'
    (folder / run_directory.THRESHOLD).write_text(tuned)
    theirs = export(folder, "hf", **HF)
    assert not (theirs / run_directory.THRESHOLD).exists()  # it is of that head
    assert "of a head that is not in this export" in (theirs / "README.md").read_text()
    printed = capsys.readouterr().out
    assert_says(printed, "AlbertModel ... answer_class/dense_0/kernel", "25 ... AlbertModel")
    ours = export(folder)
    assert_same(read(ours), tensors | STEP_0)
    assert RunDirectory(str(ours.parent)).threshold == NoAnswerThreshold(-1.5, "dev.json")
    printed = capsys.readouterr().out
    assert_says(printed, "cls/predictions/transform/dense/kernel")
    assert f"Wrote {len(tensors)} variables and global_step 0 to {ours}" in printed
    (folder / run_directory.THRESHOLD).unlink()
    write_record(folder, flags={squad.THRESHOLD: -1.5})  # given for the training
    ours = export(folder, "again/model.ckpt")
    assert RunDirectory(str(ours.parent)).threshold == NoAnswerThreshold(-1.5, "")


def test_one_output_needs_its_task(fine_tuned, to_transformers):
    folder, _ = fine_tuned("race")
    (folder / run_directory.TASK).unlink()
    with refuses("finetuned_task.json"):
        to_transformers(folder)
    (folder / run_directory.TASK).write_text('{"task_name": "sts-b", "labels": null}')
    config = json.loads((to_transformers(folder)[0] / "config.json").read_text())
    assert config["problem_type"] == "regression" and config["id2label"] == {"0": "LABEL_0"}


@pytest.mark.parametrize("flag", ["do_lower_case", "strip_accents"])
@pytest.mark.parametrize("recorded", [True, False])
def test_the_text_of_the_run_goes_along(flag, recorded, with_vocabulary, to_transformers):
    folder, _ = with_vocabulary()
    write_record(folder, text={flag: recorded, "max_seq_length": 20})
    tokenizer = to_transformers(folder, **{flag: recorded})[1]
    assert tokenizer[flag] is recorded and tokenizer["model_max_length"] == 20
    if not recorded:  # else it would be the default
        assert to_transformers(folder, "same")[1][flag] is False
    with refuses(f"--{flag}= ... run.json"):
        to_transformers(folder, "other", **{flag: not recorded})


def test_the_vocabulary_of_the_run_is_found(with_vocabulary, to_transformers, tmp_path):
    folder, _ = with_vocabulary()
    path = (folder / "30k-clean.model").rename(tmp_path / "elsewhere.model")
    tiny.write_record(folder, path, config_of(folder).to_dict(), do_lower_case=False)
    assert not to_transformers(folder)[1]["do_lower_case"]
    path.write_bytes(b"another file")
    with refuses("elsewhere.model"):
        to_transformers(folder, "other")


def test_tokenizers_that_transformers_lacks(with_vocabulary, export, tmp_path):
    folder, _ = with_vocabulary()
    path = folder / "30k-clean.model"
    proto = ModelProto.FromString(path.read_bytes())
    proto.trainer_spec.model_type = 2
    path.write_bytes(proto.SerializeToString())
    with refuses(f"--export_format=hf ... {path} ... SentencePiece"):
        export(folder, "hf", **HF)
    assert not (tmp_path / "hf").exists()


# --- Bad input -----------------------------------------------------------------------------------

BIAS = {"cls/predictions/output_bias": np.zeros([301], np.float32)}
OTHER_HEAD = read(MODELS / "base" / "model.ckpt") | BIAS


@pytest.mark.parametrize(
    "arguments, flags, message",
    [
        ({"vocab_size": 301}, {}, "[300, 16] ... [301, 16]"),
        ({"variant": "groups2", "num_hidden_groups": 1}, {}, "/group_1/"),
        ({"tensors": OTHER_HEAD}, {}, "cls/predictions/output_bias"),
        ({}, {"albert_directory": GOLDEN}, "--albert_directory= ... albert_config.json"),
        ({}, {"checkpoint_name": "model.ckpt-best"}, "model.ckpt-best"),
        ({}, HF, "3000 ... vocab_size=300"),
        ({"vocabulary": None}, HF, "--albert_directory="),
        ({"variant": "noproj"}, HF, "--export_format=hf"),
        ({"parameter_sharing": "attention"}, HF, "--export_format=hf ... ='attention'"),
        ({"parameter_sharing": "ffn"}, {"export_format": "tf1"}, "tf1 ... 'ffn'"),
        ({}, {"dtype": "fp16"}, "--dtype=fp16 ... --export_format=hf"),
        ({}, {"card_file": "card.md"}, "--card_file=card.md ... --export_format=hf"),
        ({}, {"checkpoint_name": ""}, "--checkpoint_name"),
        ({}, {"checkpoint_name": ".."}, "--checkpoint_name= ... --albert_directory"),
        ({}, {"checkpoint_name": str(MODELS / "base" / "model.ckpt")}, "--checkpoint_name="),
        ({}, {"name": "out/"}, "--export_path= ... out/"),
        ({}, {"name": "source"}, "--export_path= ... source"),
        ({}, {"name": "out/model[1]"}, "--export_path= ... out/model[1]"),
        ({}, {"name": "source/albert_config.json/model.ckpt"}, "--export_path="),
        ({}, {"name": "source", "export_format": "hf"}, "--export_path="),
    ],
)
def test_bad_input_is_a_plain_error_and_leaves_nothing(
    arguments, flags, message, source, export, tmp_path
):
    folder = source(**arguments)
    before = contents_of(tmp_path)
    with refuses(message):
        export(folder, **flags)
    assert contents_of(tmp_path) == before


def test_the_directory_itself_names_its_checkpoint(source, export):
    assert run_directory.exists(str(export(source(), checkpoint_name=".")))


def test_a_weight_beyond_half_precision_is_an_error(with_vocabulary, export, tmp_path):
    folder, tensors = with_vocabulary("base")
    tensors["bert/pooler/dense/bias"] = np.full_like(tensors["bert/pooler/dense/bias"], 1e5)
    write(folder / "model.ckpt", tensors)
    with refuses("pooler/dense/bias ... --dtype=fp16"):
        export(folder, "hf", **HF, dtype="fp16")
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("form", ["tf1", "tf2", "hf"])
def test_what_exists_is_not_replaced(form, with_vocabulary, export, tmp_path):
    folder, _ = with_vocabulary()
    export(folder, "out/x", export_format=form)
    before = contents_of(tmp_path)
    with refuses("--export_path= ... out/x"):
        export(folder, "out/x", export_format=form)
    assert contents_of(tmp_path) == before


def test_a_config_of_another_model_is_not_replaced(source, export, tmp_path):
    (tmp_path / "out").mkdir()
    path = shutil.copy(MODELS / "relu" / "albert_config.json", tmp_path / "out")
    with refuses(path):
        export(source())
    assert [*contents_of(tmp_path / "out")] == ["albert_config.json"]


def test_the_task_of_another_model_is_not_replaced(fine_tuned, export, tmp_path):
    folder, _ = fine_tuned("race")
    export(folder, "out/first")
    (folder / run_directory.TASK).write_text('{"task_name": "sts-b", "labels": null}')
    before = contents_of(tmp_path / "out")
    with refuses(run_directory.TASK):
        export(folder, "out/second")
    assert contents_of(tmp_path / "out") == before


def test_beside_the_source_its_config_stays(source, export, tmp_path):
    folder = source()
    text = (folder / "albert_config.json").read_text().replace("{", '{"gap_size": 0,', 1)
    (folder / "albert_config.json").write_text(text)
    export(folder, "source/exported.ckpt")
    assert (folder / "albert_config.json").read_text() == text
    assert run_directory.exists(str(folder / "exported.ckpt"))


def test_after_a_failure_while_writing_the_same_command_can_be_run(
    source, export, tmp_path, monkeypatch
):
    writer = writers.WRITERS["tf1"]

    def fail(prefix, tensors):
        writer(prefix, tensors)
        raise OSError("the disk is full")

    folder = source()
    monkeypatch.setitem(writers.WRITERS, "tf1", fail)
    with refuses("the disk is full", error=OSError):
        export(folder)
    monkeypatch.undo()
    export(folder)  # nothing is in the way


# --- More pieces ---------------------------------------------------------------------------------

OF_PIECES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")


@pytest.fixture
def more_pieces(tmp_path):
    """Writes the vocabulary of `with_vocabulary` without its last piece, "j", and with others."""

    def write_model(*pieces):
        proto = ModelProto.FromString(tiny.VOCABULARY.read_bytes())
        assert proto.pieces.pop().piece == "j"
        for piece in pieces:
            proto.pieces.add(piece=piece, score=-20.0)
        path = tmp_path / "new.model"
        path.write_bytes(proto.SerializeToString())
        return path

    return write_model


def written_weights(path):
    found = source_module.find(str(path))
    named = name_table.named_variables(heads.PretrainingModel(found.read_config()))
    return found, loading.read_weights(found.checkpoint, named)[0]


@pytest.mark.parametrize(
    ("of_source", "form"),
    [("tf1", "tf1"), ("tf1", "hf"), ("tf2", "tf2"), ("hf", "tf1"), ("hf", "hf")],
)
def test_new_pieces(of_source, form, with_vocabulary, export, more_pieces, capsys):
    folder, old = with_vocabulary()
    new = more_pieces("▁thethe", "ofthe", "string", "▁\u4e00\u4e01")
    checkpoint, name = "model.ckpt", "out" if form == "hf" else "out/model.ckpt"
    if of_source == "tf2":
        written = export(folder, "src/model.ckpt", export_format="tf2")
        folder = Path(shutil.copy(folder / "30k-clean.model", written.parent)).parent
    elif of_source == "hf":
        folder, checkpoint = export(folder, "src", **HF), "model.safetensors"
    capsys.readouterr()
    export(folder, name, checkpoint, export_format=form, new_vocabulary=new)
    assert_says(capsys.readouterr().out, "2999 ... 3 ... 1 ... 1 dropped")
    found, tensors = written_weights(folder.parent / name.split("/")[0])
    assert found.read_config().vocab_size == 3003
    assert Path(found.vocabulary_file()).read_bytes() == new.read_bytes()
    tokenizer = FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    parts = [("▁the", "the"), ("of", "the"), ("str", "ing"), tuple(tokenizer.vocab)]
    for name in OF_PIECES:
        np.testing.assert_array_equal(tensors[name][:2999], old[name][:2999])
        for value, pieces in zip(tensors[name][2999:], parts, strict=True):
            expected = old[name][[tokenizer.vocab[piece] for piece in pieces]].mean(axis=0)
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7)
    rest = old.keys() - {*OF_PIECES}
    assert_same({n: tensors[n] for n in rest}, {n: old[n] for n in rest})


def test_new_pieces_of_wordpiece(source, export, tmp_path, capsys):
    folder = source(vocabulary="vocab.txt")
    tensors = read(folder / "model.ckpt")
    size = tensors[OF_PIECES[0]].shape[0]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##do", "##ing", "ing"]
    (folder / "vocab.txt").write_text("\n".join([*words, *(f"w{i}" for i in range(size - 9))]))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    new = tmp_path / "new.txt"
    new.write_text("\n".join([*words[:5], "undo", "##doing", "##ing", "ing"]))
    path = export(folder, new_vocabulary=new)
    assert_says(capsys.readouterr().out, f"7 ... 2 ... 0 ... {size - 7} dropped")
    found, written = written_weights(path.parent)
    assert found.read_config().vocab_size == 9
    assert (path.parent / "vocab.txt").read_text() == new.read_text()
    assert found.casing("do_lower_case").value is False  # vocab.txt does not tell
    for name in OF_PIECES:
        old, values = tensors[name], written[name]
        np.testing.assert_array_equal(values[[0, 1, 2, 3, 4, 7, 8]], old[[0, 1, 2, 3, 4, 7, 8]])
        np.testing.assert_allclose(values[5], old[[5, 6]].mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(values[6], old[[6, 7]].mean(axis=0), rtol=1e-6)


def test_vocabularies_that_do_not_fit_are_refused(with_vocabulary, export, tmp_path, more_pieces):
    folder, _ = with_vocabulary()
    turkish, without_cls = tmp_path / "tr.model", tmp_path / "cls.model"
    content = more_pieces().read_bytes()
    turkish.write_bytes(vocabulary_record.add(content, CleanUp(casing_language="tr")))
    proto = ModelProto.FromString(content)
    proto.pieces[2].piece = "<cls>"
    without_cls.write_bytes(proto.SerializeToString())
    for path, message in (
        (tiny.WORDPIECE, "WordPiece ... SentencePiece"),
        (folder / "albert_config.json", "SentencePiece"),
        (turkish, "casing_language='tr'"),
        (without_cls, "[CLS]"),
        ("none.model", "none.model"),
    ):
        with refuses(f"--new_vocabulary={path} ... {message}"):
            export(folder, new_vocabulary=path)
    with refuses("--export_path= ... 30k-clean.model"):
        export(folder, "source/other", new_vocabulary=more_pieces("▁thethe"))
    assert not (tmp_path / "out" / "model.ckpt.index").exists()
