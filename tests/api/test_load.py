# SPDX-License-Identifier: Apache-2.0
"""albert_tf.load: any source, with its vocabulary and casing; masks, embeddings, order."""

import dataclasses
import json
import os
import re
import shutil

import numpy as np
import pytest
import safetensors.numpy
import scipy.special
import tensorflow as tf

import albert_tf
import export_checkpoints
import export_to_tfhub
from albert_tf import progress
from albert_tf.api import inspect, masked_text
from albert_tf.checkpoints import huggingface, name_table, run_directory
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.model import heads
from albert_tf.sentencepiece_proto import ModelProto
from albert_tf.tasks import race
from albert_tf.text.tokenization import FullTokenizer
from tests import tiny
from tests.errors import assert_names, assert_says, refuses
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("eagerly")

TEXTS = ["The doctor said that", "a train", "Holmes walked to the station, and was late."]
CLOSE = 1e-5


@pytest.fixture(scope="module")
def loaded(release):
    return albert_tf.load(str(release), batch_size=2)


@pytest.fixture
def copied(release, tmp_path):
    return shutil.copytree(release, tmp_path / "copy")


# --- The package ---------------------------------------------------------------------------------


def test_importing_the_package_imports_nothing_else():
    code = "import sys, albert_tf; dir(albert_tf); print([m for m in sys.modules if '.' not in m])"
    done = run_python("-S", "-c", code, check=True)  # no site-packages: there is nothing to import
    assert "albert_tf" in done.stdout
    assert not {"tensorflow", "numpy", "absl", "sentencepiece"} & set(eval(done.stdout))


@pytest.mark.parametrize(
    ("owner", "name", "ours"),
    [
        (albert_tf.Loaded, "encode", "embed"),
        (albert_tf.Loaded, "save_pretrained", "save(directory)"),
        (albert_tf.Loaded, "fit", "model.fit"),
        (albert_tf.FullTokenizer, "encode", "encode_ids"),
        (albert_tf.FullTokenizer, "from_pretrained", "albert_tf.load"),
        (albert_tf.AlbertConfig, "from_pretrained", "from_json_file"),
        (albert_tf.AlbertModel, "from_pretrained", "from_checkpoint"),
        (albert_tf, "from_pretrained", "albert_tf.load"),
        (albert_tf, "AutoModel", "albert_tf.load"),
    ],
)
def test_names_of_other_libraries(owner, name, ours):
    with refuses(name, ours, error=AttributeError):
        getattr(owner, name)


@pytest.mark.long
def test_the_callers_keras_stays_keras_3(release):
    code = f"""
import os
import albert_tf
loaded = albert_tf.load({str(release)!r})
import tensorflow as tf
print("TF_USE_LEGACY_KERAS" in os.environ, tf.keras.__version__)
head = tf.keras.Sequential([tf.keras.layers.Dense(1)])  # next to the tf_keras model
print(head(loaded.embed(["a", "b"])).shape)
"""
    clean = {name: text for name, text in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    done = run_python("-c", code, env=clean, check=True)
    assert re.search(r"^False 3\.\S+\n\(2, 1\)$", done.stdout, re.MULTILINE)


def test_public_names_are_shown_and_there():
    names = dir(albert_tf)
    assert {"load", "AlbertModel", "AdamW", "FullTokenizer", "heads", "checkpoints"} <= set(names)
    for name in names:
        assert getattr(albert_tf, name) is not None
    with pytest.raises(AttributeError, match="'albert_tf' has no attribute 'no_such'"):
        albert_tf.no_such  # noqa: B018


# --- Sources -------------------------------------------------------------------------------------


def assert_same_model(other, loaded):
    np.testing.assert_allclose(other.embed(TEXTS), loaded.embed(TEXTS), atol=CLOSE)
    assert other.config.to_dict() == loaded.config.to_dict()
    assert other.tokenizer.fingerprint == loaded.tokenizer.fingerprint


def test_a_release_and_a_prefix(release, loaded, capsys):
    other = albert_tf.load(release / "model.ckpt-best")
    assert capsys.readouterr().out == f"Loaded {release}/model.ckpt-best: pre-trained\n"
    assert_same_model(other, loaded)
    assert isinstance(loaded.model, albert_tf.PretrainingModel)
    assert repr(loaded) == f"<PretrainingModel of {release}/model.ckpt-best>"
    assert loaded.max_seq_length == 64  # of the config, which has no more positions


@pytest.mark.long
def test_a_hub_module_and_a_directory_of_transformers(release, loaded, tmp_path, run_main, capsys):
    module, theirs = tmp_path / "module", tmp_path / "hf"
    run_main(export_to_tfhub, albert_directory=release, export_path=module)
    run_main(export_checkpoints, albert_directory=release, export_path=theirs, export_format="hf")
    capsys.readouterr()
    of_module = albert_tf.load(module)
    assert f"Loaded {module}/variables/variables: pre-trained" in capsys.readouterr().out
    assert_same_model(of_module, loaded)
    of_theirs = albert_tf.load(theirs)
    assert f"Loaded {theirs}/model.safetensors: pre-trained" in capsys.readouterr().out
    np.testing.assert_allclose(of_theirs.embed(TEXTS), loaded.embed(TEXTS), atol=CLOSE)
    masks, order = loaded.fill_mask("a [MASK]"), loaded.sentence_order("a", "b")
    for found in (of_module, of_theirs):
        assert found.fill_mask("a [MASK]")[0][0]["piece"] == masks[0][0]["piece"]
        assert found.sentence_order("a", "b") == pytest.approx(order, abs=CLOSE)


def test_the_best_checkpoint_is_taken_and_named(copied, loaded, capsys):
    named = albert_tf.checkpoints.named_variables(loaded.model)
    tiny.write_checkpoint(copied / "model.ckpt-7", named, step=7)
    found = albert_tf.load(copied)
    assert found.checkpoint == f"{copied}/model.ckpt-best"
    albert_tf.load(copied / "model.ckpt-7")
    assert f"Loaded {copied}/model.ckpt-7 (step 7): pre-trained" in capsys.readouterr().out


@pytest.mark.parametrize(
    "told, given, kept, changed",
    [
        ({"do_lower_case": False}, {"do_lower_case": True}, "The", "the"),
        ({"keep_accents": True}, {"strip_accents": True}, "e\u0301", "e"),
        ({"strip_accents": False}, {"strip_accents": True}, "e\u0301", "e"),
    ],
)
def test_transformers_tells_of_casing_and_accents(copied, told, given, kept, changed):
    assert albert_tf.load(copied).tokenizer.normalize(kept) == changed
    (copied / "tokenizer_config.json").write_text(json.dumps(told))
    assert albert_tf.load(copied).tokenizer.normalize(kept) == kept
    with refuses("tokenizer_config.json"):
        albert_tf.load(copied, **given)


@pytest.mark.parametrize(
    "normalizer, kept",
    [
        ({"type": "Sequence", "normalizers": [{"type": "NFKC"}]}, "The\u0301"),
        ({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}, "the\u0301"),
        (
            {"type": "Sequence", "normalizers": [{"normalizers": [{"type": "Lowercase"}]}]},
            "the\u0301",
        ),
        ({"type": "NFC", "normalizers": None}, "The\u0301"),
        ({"type": "Sequence", "normalizers": [{"type": "StripAccents"}]}, "The"),
        ({"type": "BertNormalizer", "lowercase": True, "strip_accents": None}, "the"),
        ({"type": "BertNormalizer", "lowercase": True, "strip_accents": False}, "the\u0301"),
        (None, "the"),
    ],
)
def test_the_file_of_tokenizers_tells_what_their_config_does_not(copied, normalizer, kept):
    (copied / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (copied / "tokenizer.json").write_text(json.dumps({"normalizer": normalizer}))
    assert albert_tf.load(copied).tokenizer.normalize("Th\u00e9") == kept


def test_every_false_keeps_capitals_and_accents(release):
    for false in (False, 0, np.False_):
        tokenizer = albert_tf.load(release, do_lower_case=false, strip_accents=false).tokenizer
        assert tokenizer.normalize("Th\u00e9") == "The\u0301"
        assert tokenizer.casing == {"do_lower_case": False, "strip_accents": False}


def test_a_complete_directory_of_transformers_has_one_vocabulary(copied):
    other = tiny.CASED_VOCABULARY
    albert_tf.load(copied, spm_model_file=other)  # nothing says that the two belong together
    (copied / "tokenizer_config.json").write_text("{}")
    with refuses("spm_cased.model"):
        albert_tf.load(copied, spm_model_file=other)
    copy = shutil.copy(copied / "30k-clean.model", copied.parent / "the_same.model")
    assert albert_tf.load(copied, spm_model_file=copy).fill_mask("a [MASK]")


def test_a_vocabulary_that_is_given_is_checked_like_that_of_the_directory(copied):
    (copied / "30k-clean.model").unlink()
    (copied / "tokenizer_config.json").write_text('{"word_tokenizer_type": "mecab"}')
    path = copied / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    for given in ({}, {"vocab_file": path}):
        with refuses("tokenizer_config.json ... mecab"):
            albert_tf.load(copied, **given)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"path": "no_such"}, "no_such"),
        ({"path": None}, "pathlib.Path"),
        ({"path": b"english-small"}, "b'english-small'"),
        ({"spm_model_file": 5}, "spm_model_file ... 5"),
        ({"path": "https://host/albert"}, "path=https://host/albert"),
        ({"vocab_file": "http://host/vocab.txt"}, "vocab_file=http://host/vocab.txt"),
        ({"max_seq_length": 65}, "5 ... max_position_embeddings=64 ... 65"),
        ({"batch_size": 0}, "batch_size ... 1 ... 0"),
        ({"max_seq_length": "64"}, "max_seq_length ... 5 ... '64'"),
        ({"config": "config.json"}, "AlbertConfig ... 'config.json'"),
        ({"vocab_file": "no_such.txt"}, "vocab_file ... no_such.txt"),
        # A pre-trained model has no task.
        ({"task": "sst-2"}, "model.ckpt-best ... task"),
        ({"labels": ["a", "b"]}, "model.ckpt-best ... labels"),
        ({"labels": []}, "model.ckpt-best ... labels"),
    ],
)
def test_bad_arguments(release, arguments, message):
    with refuses(message):
        albert_tf.load(**{"path": release} | arguments)


def write_without(copied, loaded, part):
    """Writes the weights of a model without those whose names contain a text."""
    named = name_table.named_variables(loaded.model)
    kept = {name: variable for name, variable in named.items() if part not in name}
    tiny.write_checkpoint(copied / "model.ckpt-best", kept)


def test_heads_that_are_missing_are_named(copied, loaded, capsys):
    write_without(copied, loaded, "cls/")
    found = albert_tf.load(copied)
    assert_says(capsys.readouterr().out, "model.ckpt-best")
    assert_same_model(found, loaded)
    for call in (lambda: found.fill_mask("a [MASK]"), lambda: found.sentence_order("a", "b")):
        with refuses("model.ckpt-best ... head"):
            call()
    with refuses("model.ckpt-best ... fine-tuned"):
        found.predict("a")
    write_without(copied, loaded, "seq_relationship")
    found = albert_tf.load(copied)
    assert_says(capsys.readouterr().out, "cls/seq_relationship")
    assert found.fill_mask("a [MASK]") == loaded.fill_mask("a [MASK]")
    with refuses("model.ckpt-best ... sentence_order"):
        found.sentence_order("a", "b")


def test_progress_can_be_switched_off_at_any_time(release, monkeypatch):
    loaded, shown = albert_tf.load(release), []

    def bar(*arguments):
        shown.append(arguments)
        return progress.LogLines(*arguments)

    monkeypatch.setattr(progress, "bar", bar)
    for shows_progress, count in ((True, 2), (False, 2), (True, 4)):
        loaded.shows_progress = shows_progress
        loaded.embed("a")
        loaded.score("a")
        assert len(shown) == count


# --- What a fine-tuned checkpoint is for ---------------------------------------------------------


@pytest.fixture
def classifier(tmp_path):
    return tiny.write_release(tmp_path, heads.ClassificationModel, num_outputs=2)


def test_a_classifier_without_labels_has_numbers(classifier):
    assert albert_tf.load(classifier).labels == ("0", "1")
    assert albert_tf.load(classifier, labels=["no", "yes"]).labels == ("no", "yes")
    assert albert_tf.load(classifier, labels=[3, 4]).labels == ("3", "4")
    assert albert_tf.load(classifier, task="RTE").labels == ("entailment", "not_entailment")
    assert isinstance(albert_tf.load(classifier, task="NER").model, heads.TokenClassificationModel)


def write_task(directory, name, labels):
    kind = run_directory.FinetunedTask(name, labels)
    run_directory.RunDirectory(str(directory)).write_task(kind)


def test_what_is_recorded_cannot_be_changed(classifier, capsys):
    write_task(classifier, "tsv", ("bad", "good"))
    for same in ({}, {"task": "tsv"}, {"labels": ["bad", "good"]}, {"task": "TSV", "labels": None}):
        assert albert_tf.load(classifier, **same).labels == ("bad", "good")
        assert "fine-tuned for tsv (labels bad, good)" in capsys.readouterr().out
    tasks = ("rte", "ner", "regression")
    rows = [({"task": name}, f"task={name!r}") for name in tasks]
    rows += [({"labels": names}, f"labels={names}") for names in (["good", "bad"], ["a", "b", "c"])]
    for arguments, message in [*rows, ({"labels": "abc"}, "'abc'")]:
        with refuses(message):
            albert_tf.load(classifier, **arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"labels": ["a", "b", "c"]}, "2 ... 3 ... task='tsv' ... labels="),
        ({"labels": []}, "2 ... 0 ... task='tsv' ... labels="),
        ({"task": "mnli"}, "2 ... 3 ... task='mnli'"),
        ({"task": "race"}, "2 ... 1 ... task='race'"),
        ({"task": "rte", "labels": ["no", "yes"]}, "labels=['no', 'yes']"),
        ({"task": "regression", "labels": ["a", "b"]}, "task='regression'"),
        ({"task": "regresion"}, "task='regresion'"),
    ],
)
def test_tasks_and_labels_that_do_not_fit(classifier, arguments, message):
    with refuses(message):
        albert_tf.load(classifier, **arguments)


def test_answers_have_no_labels(tmp_path):
    tiny.write_release(tmp_path, heads.SquadV1Model)
    for given in ({"labels": []}, {"labels": ["a"]}, {"task": "tsv"}):
        with refuses(f"{next(iter(given))}= ... model.ckpt-best"):
            albert_tf.load(tmp_path, **given)


@pytest.fixture
def recorded(tmp_path):
    """Writes a model and its record: recorded(class of the model, **text) -> its directory."""

    def write(model, **text):
        if not (tmp_path / "albert_config.json").exists():
            tiny.write_release(tmp_path, model)
        if model is heads.MultipleChoiceModel:
            write_task(tmp_path, "race", race.labels_of(4))
        values = {"text": text | {"do_lower_case": True}, "config": tiny.WIDE}
        (tmp_path / "run.json").write_text(json.dumps(values))
        return tmp_path

    return write


def test_the_longest_question_of_race_is_the_recorded_one(recorded):
    directory = recorded(heads.MultipleChoiceModel, max_seq_length=48, max_qa_length=40)
    for length, expected in ((None, 40), (44, 40), (43, 21), (6, 2), (5, 1)):
        assert albert_tf.load(directory, max_seq_length=length)._task.max_qa_length == expected


def test_the_windows_of_squad_fit_a_shorter_length(recorded):
    for text, length, expected in (
        ({}, 64, (21, 21)),
        ({"max_seq_length": 48, "doc_stride": 40, "max_query_length": 8}, 48, (40, 8)),
        ({"max_seq_length": 48, "doc_stride": 40, "max_query_length": 8}, 47, (15, 8)),
        ({"max_seq_length": 48, "doc_stride": 100}, 48, (45, 45)),  # of no training
    ):
        directory = recorded(heads.SquadV1Model, **text)
        windows = albert_tf.load(directory, max_seq_length=length)._task.window_settings
        assert (windows.doc_stride, windows.max_query_length) == expected


@pytest.mark.parametrize(
    ("model", "name"),
    [(heads.SquadV1Model, "doc_stride"), (heads.MultipleChoiceModel, "max_qa_length")],
)
def test_a_recorded_length_of_nothing_is_an_error(model, name, recorded):
    with refuses(f"--{name} ... 1 ... 0"):
        albert_tf.load(recorded(model, **{name: 0}))


def test_one_output_has_to_be_explained(tmp_path):
    tiny.write_release(tmp_path, heads.ClassificationModel, num_outputs=1)
    with refuses("task='regression' ... task='race'"):
        albert_tf.load(tmp_path)
    assert isinstance(albert_tf.load(tmp_path, task="race").model, heads.MultipleChoiceModel)
    assert set(albert_tf.load(tmp_path, task="regression").predict("a")) == {"predictions"}
    assert set(albert_tf.load(tmp_path, task="sts-b").predict("a", "b")) == {"predictions"}


def write_transformers(directory, model, without=(), **config):
    """What transformers writes of a model, with a vocabulary; returns the directory."""
    named = name_table.named_variables(model)
    tensors = {name: v.numpy() for name, v in named.items() if not name.startswith(without)}
    shapes = {name: list(value.shape) for name, value in tensors.items()}
    architecture = "AlbertModel" if "bert/pooler/dense/bias" in shapes else "AlbertForMaskedLM"
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    theirs = huggingface.to_their_config(model.config, architecture, ids) | config
    huggingface.write(str(directory), theirs, tensors, {})
    shutil.copy(tiny.VOCABULARY, directory / "spiece.model")
    return directory


CLASSES = {"architectures": ["AlbertForSequenceClassification"]}


@pytest.mark.parametrize(
    "content, outputs, task",
    [
        ({"architectures": ["AlbertForMultipleChoice"]}, 2, "race"),
        ({"architectures": ["AlbertForTokenClassification"]}, 2, "ner"),
        ({"architectures": ["AlbertModel"]}, 2, None),
        ({}, 2, None),
        (CLASSES, 1, "regression"),
        (CLASSES, 3, "tsv"),
        (CLASSES | {"problem_type": None}, 3, "tsv"),
        (CLASSES | {"problem_type": "single_label_classification"}, 3, "tsv"),
        (CLASSES | {"problem_type": "regression"}, 1, "regression"),
        (CLASSES | {"problem_type": "multi_label_classification"}, 3, "multi_label"),
        (
            CLASSES | {"problem_type": "regression"},
            3,
            UserError("problem_type ... 'regression' ... 3"),
        ),
        ({"architectures": ["AlbertCRF"]}, 3, UserError("config.json ... AlbertCRF")),
    ],
)
def test_the_task_of_a_directory_of_transformers(tmp_path, content, outputs, task):
    (tmp_path / "config.json").write_text(json.dumps(content))
    if isinstance(task, UserError):
        with refuses(str(task)):
            huggingface.read_task(str(tmp_path), outputs)
    else:
        assert huggingface.read_task(str(tmp_path), outputs) == task


def test_the_length_is_512_if_nothing_tells_it(tmp_path):
    config = tiny.WIDE | {"max_position_embeddings": 600}
    assert albert_tf.load(tiny.write_release(tmp_path, config=config)).max_seq_length == 512


def test_the_length_of_a_tokenizer_of_transformers_is_taken(tmp_path):
    model = heads.AlbertModel(AlbertConfig.from_dict(tiny.WIDE | {"max_position_embeddings": 48}))
    directory = write_transformers(tmp_path, model)
    for length, expected in ((24, 24), (10**30, 48), (1e30, 48), (512, 48)):
        (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
        assert albert_tf.load(directory).max_seq_length == expected
    (directory / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    assert albert_tf.load(directory).max_seq_length == 20


@pytest.mark.parametrize(
    "kind, mode, named",
    [
        ("Normalize", "mean_tokens", None),
        ("Dense", "mean_tokens", "Dense"),
        ("Normalize", "cls_token", "pooling_mode_cls_token"),
    ],
)
def test_modules_that_embed_leaves_out_are_named(kind, mode, named, tmp_path, capsys):
    model = heads.AlbertModel(AlbertConfig.from_dict(tiny.WIDE))
    directory = write_transformers(tmp_path, model)
    kinds = ("models.Transformer", "models.Pooling", f"models.{kind}")
    types = [{"type": f"sentence_transformers.{name}"} for name in kinds]
    (directory / "modules.json").write_text(json.dumps(types))
    (directory / "1_Pooling").mkdir()
    values = {"word_embedding_dimension": 8, f"pooling_mode_{mode}": True}
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(values))
    albert_tf.load(directory)
    said = capsys.readouterr().out
    assert named is None or named in said
    assert ("  embed" in said) == bool(named)


def test_layers_of_a_head_that_are_not_used_are_named(tmp_path, capsys):
    model = heads.ClassificationModel(AlbertConfig.from_dict(tiny.WIDE), 2)
    directory = write_transformers(tmp_path, model, **CLASSES)
    path = directory / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file(tensors | {"dense.weight": np.ones([2, 2], np.float32)}, path)
    albert_tf.load(directory)
    assert_names(capsys.readouterr().out, "not used ... dense.weight")


def test_a_moved_run_without_its_file_of_the_task_has_that_of_run_json(classifier, capsys):
    tiny.write_record(classifier, classifier / "30k-clean.model", max_seq_length=20)
    record = json.loads((classifier / "run.json").read_text())
    record["flags"] = {"task_name": "ner"}
    (classifier / "run.json").write_text(json.dumps(record))
    albert_tf.load(classifier)
    assert_names(capsys.readouterr().out, "fine-tuned for ner")


# --- Without a pooler ----------------------------------------------------------------------------


@pytest.fixture
def masked_lm(tmp_path):
    """A directory as AlbertForMaskedLM saves it, and the model in it."""
    model = heads.PretrainingModel(AlbertConfig.from_dict(tiny.WIDE))
    without = ("bert/pooler", "cls/seq_relationship")
    return write_transformers(tmp_path, model, without), model


def test_a_masked_lm_of_transformers_fills_masks(masked_lm):
    directory, model = masked_lm
    loaded = albert_tf.load(directory)
    text = "a [MASK] text"
    (found,) = loaded.fill_mask(text, top_k=1)
    features = loaded.tokenizer(text, return_tensors="tf")
    assert found[0]["piece"] in loaded.tokenizer.vocab
    given = features | {"masked_lm_positions": tf.constant([[0, 1]])}
    logits = [m(given)["masked_lm_logits"] for m in (loaded.model, model)]
    np.testing.assert_array_equal(*logits)
    assert loaded.embed(text, pooling="mean").shape == (model.config.hidden_size,)
    with refuses('pooling="mean"'):
        loaded.embed(text, pooling="pooled")
    with refuses("model.safetensors ... sentence_order"):
        loaded.sentence_order("a", "b")
    lines = "\n".join(inspect.describe(str(directory)))
    assert f"hidden_size {model.config.hidden_size}," in lines and "heads: masked_lm" in lines


@pytest.mark.parametrize(
    "kind, options",
    [
        (heads.AlbertModel, {}),
        (heads.PretrainingModel, {}),
        (heads.SquadV1Model, {}),
        (heads.SquadV2Model, {}),
        (heads.TokenClassificationModel, {"num_labels": 3}),
        (heads.ClassificationModel, {"num_outputs": 3}),
        (heads.MultipleChoiceModel, {}),
    ],
)
def test_only_models_that_read_the_pooler_need_it(kind, options, masked_lm, capsys):
    directory, model = masked_lm
    if kind in (heads.ClassificationModel, heads.MultipleChoiceModel):
        with refuses("model.safetensors ... pooler"):
            kind.from_checkpoint(directory, **options)
        return
    filled = kind.from_checkpoint(directory, **options)
    assert "initialized randomly: bert/pooler/dense/kernel, bert/pool" in capsys.readouterr().out
    encoder = getattr(filled, "encoder", filled)
    np.testing.assert_array_equal(encoder.embeddings.word, model.encoder.embeddings.word)


def test_a_checkpoint_without_the_pooler_fills_models_that_do_not_read_it(tmp_path):
    model = heads.SquadV1Model(AlbertConfig.from_dict(tiny.WIDE))
    named = name_table.named_variables(model)
    named = {name: v for name, v in named.items() if "pooler" not in name}
    tiny.write_checkpoint(tmp_path / "model.ckpt-best", named)
    loaded = heads.SquadV1Model.from_checkpoint(tmp_path, config=model.config)
    np.testing.assert_array_equal(loaded.squad.weights_, model.squad.weights_)
    with refuses("model.ckpt-best has no pooler"):
        heads.ClassificationModel.from_checkpoint(tmp_path, config=model.config, num_outputs=2)


@pytest.mark.parametrize(
    "kind, options, architecture",
    [
        (heads.SquadV1Model, {}, "AlbertForQuestionAnswering"),
        (heads.TokenClassificationModel, {"num_labels": 3}, "AlbertForTokenClassification"),
    ],
)
def test_fine_tuned_models_of_transformers_need_no_pooler(
    kind, options, architecture, tmp_path, capsys
):
    config = AlbertConfig.from_dict(tiny.WIDE | {"max_position_embeddings": 200})
    model = kind(config, **options)
    directory = write_transformers(tmp_path, model, ("bert/pooler",), architectures=[architecture])
    loaded = albert_tf.load(directory)
    ids = np.array([[2, 5, 6, 3]], np.int32)
    features = {"input_ids": ids, "input_mask": np.ones_like(ids)}
    ours, theirs = model(features, training=True), loaded.model(features, training=True)
    assert {*ours} == {*theirs}
    inputs = ["Who?", "It was he."] if kind is heads.SquadV1Model else ["one two"]
    assert loaded.predict(*inputs)
    assert "random" not in capsys.readouterr().out  # since nothing reads a pooler
    if kind is heads.SquadV1Model:
        return  # `save` refuses it
    loaded.save(tmp_path / "again")
    assert np.isfinite(albert_tf.load(tmp_path / "again").embed("one two")).all()


# --- Numbers -------------------------------------------------------------------------------------


def model_outputs(loaded, text, pair=None):
    """The pre-training model's own outputs for one text: encoder's, and logits at all pieces."""
    features = loaded.tokenizer(text, pair, return_tensors="tf")
    length = features["input_ids"].shape[1]
    positions = {"masked_lm_positions": tf.range(length)[tf.newaxis]}
    return loaded.model.encoder(features), loaded.model(features | positions)


@pytest.mark.usefixtures("in_graphs")
@pytest.mark.parametrize("pooling", ["pooled", "mean"])
def test_embeddings_are_the_encoders_without_padding(loaded, pooling):
    found = loaded.embed(TEXTS, pooling=pooling)
    assert found.shape == (3, 32) and found.dtype == np.float32
    for text, vector in zip(TEXTS, found, strict=True):
        outputs, _ = model_outputs(loaded, text)
        mean = np.mean(outputs["sequence_output"][0], axis=0)
        expected = mean if pooling == "mean" else outputs["pooled_output"][0]
        np.testing.assert_allclose(vector, expected, atol=CLOSE)
    np.testing.assert_allclose(loaded.embed(TEXTS[0], pooling=pooling), found[0], atol=CLOSE)
    assert loaded.embed([], pooling=pooling).shape == (0, 32)
    units = loaded.embed(TEXTS, pooling=pooling, normalize=True)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    np.testing.assert_allclose(units * lengths, found, atol=CLOSE)
    if pooling == "mean":
        np.testing.assert_array_equal(loaded.embed(TEXTS), found)
    layers = loaded.embed(["a"], pooling="layers")
    assert loaded.embed([], pooling="layers").shape == layers[:0].shape
    with refuses("'max'"):
        loaded.embed(TEXTS, pooling="max")


def test_the_order_of_sentences(loaded):
    first, second = TEXTS[2], TEXTS[0]
    _, outputs = model_outputs(loaded, first, second)
    expected = scipy.special.softmax(outputs["sentence_order_logits"][0])[0]
    assert loaded.sentence_order(first, second) == pytest.approx(expected, abs=CLOSE)
    found = loaded.sentence_order(TEXTS, list(reversed(TEXTS)))
    assert found.shape == (3,) and found[2] == pytest.approx(expected, abs=CLOSE)
    assert loaded.sentence_order([], []).shape == (0,)
    with refuses("sentence_order"):
        loaded.sentence_order("a")
    for texts in (("a", " "), ("", "a"), (["a", " "], ["a", "a"])):
        with refuses("sentence_order"):
            loaded.sentence_order(*texts)


@pytest.mark.usefixtures("in_graphs")
def test_masks_are_filled(loaded):
    texts = ["the [MASK] said that [MASK].", "a [MASK]"]
    found = loaded.fill_mask(texts, top_k=3)
    assert [[len(mask) for mask in text] for text in found] == [[3, 3], [3]]
    tokenizer = loaded.tokenizer
    pieces = ["[CLS]", "▁the", "[MASK]", "▁said", "▁that", "[MASK]", ".", "[SEP]"]
    ids = tf.constant([tokenizer.convert_tokens_to_ids(pieces)])
    features = {"input_ids": ids, "masked_lm_positions": tf.constant([[2, 5]])}
    probabilities = tf.nn.softmax(loaded.model(features)["masked_lm_logits"][0]).numpy()
    for mask, row in zip(found[0], probabilities, strict=True):
        best = np.argsort(-row)[:3]
        assert [entry["piece"] for entry in mask] == tokenizer.convert_ids_to_tokens(best)
        np.testing.assert_allclose([e["probability"] for e in mask], row[best], atol=CLOSE)
        assert all(entry["text"] == entry["piece"].replace("▁", " ").strip() for entry in mask)
    assert loaded.fill_mask(texts[1], top_k=1)[0][0]["piece"] == found[1][0][0]["piece"]
    assert loaded.fill_mask([]) == []


@pytest.mark.parametrize(
    ("part", "pieces"),
    [
        (" said that", ["▁said", "▁that"]), (".", ["."]), ("", []), (" ", []),
        ("s are", ["s", "▁are"]), (" 5.", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("add_dummy_prefix", [True, False])
def test_only_a_space_after_a_mask_is_marked(part, pieces, add_dummy_prefix, tmp_path):
    proto = ModelProto.FromString(tiny.VOCABULARY.read_bytes())
    proto.normalizer_spec.add_dummy_prefix = add_dummy_prefix
    (tmp_path / "spm.model").write_bytes(proto.SerializeToString())
    tokenizer = FullTokenizer(spm_model_file=str(tmp_path / "spm.model"))
    found = masked_text._pieces_after_mask(tokenizer, part)
    assert "".join(found).replace("▁", " ").rstrip() == part.rstrip()
    assert pieces is None or found == pieces


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("no mask", {}, "[MASK]"),
        ("word " * 70 + "[MASK]", {}, "[MASK] ... 62"),
        ("a [MASK]", {"top_k": 0}, "top_k ... 1 ... vocab_size=3000 ... 0"),
        ("a [MASK]", {"top_k": "3"}, "top_k ... 1 ... '3'"),
        (["a [MASK]", 1], {}, "1"),
    ],
)
def test_what_cannot_be_filled(loaded, text, options, message):
    with refuses(message):
        loaded.fill_mask(text, **options)


def test_weights_of_later_training_count(loaded, release):
    other = albert_tf.load(release)
    before = other.embed("a", pooling="pooled")
    bias = other.model.encoder.pooler.bias
    bias.assign(bias + 1.0)
    assert np.any(other.embed("a", pooling="pooled") != before)


def test_a_config_may_be_given(copied, loaded):
    (copied / "albert_config.json").unlink()
    config = dataclasses.replace(loaded.config, hidden_dropout_prob=0.1)
    assert albert_tf.load(copied, config=config).config is config


@pytest.mark.usefixtures("in_graphs")
def test_many_models_are_no_retracing(loaded, release, caplog):
    for top_k in range(1, 5):
        loaded.fill_mask("a [MASK]", top_k=top_k)
    for model in (albert_tf.load(release), albert_tf.load(release)):
        model.embed("a film")
        model.sentence_order("a", "b")
    assert "retracing" not in caplog.text
