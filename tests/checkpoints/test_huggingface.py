# SPDX-License-Identifier: Apache-2.0
"""Directories of the transformers library: names, config, files, and its own outputs."""

import contextlib
import importlib.util
import json
import re
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

import albert_tf
import run_classifier
import run_squad
from albert_tf import models
from albert_tf.checkpoints import huggingface, loading, name_table, readers, run_directory, source
from albert_tf.cli import flag_groups
from albert_tf.model import heads
from tests import GOLDEN, read_arrays, tiny
from tests.checkpoints.golden_models import (
    MODELS,
    assert_same,
    golden_config,
    named_model,
    values_of,
)
from tests.errors import assert_names, refuses

VOCABULARIES = GOLDEN / "tokenization"
EXPRESSIBLE = ["base", "groups2", "groups3_layers5", "inner2", "relu", "tanh_heads2"]
SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
TOLERANCE = 2e-5
THEIR_NAMES = {"input_ids": "input_ids"}
THEIR_NAMES |= {"input_mask": "attention_mask", "segment_ids": "token_type_ids"}

needs_transformers = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "transformers")),
    reason="needs torch and transformers, which are no requirements of this project",
)


def tensors_of(variant="base"):
    prefix = str(MODELS / variant / "model.ckpt")
    return loading.read_weights(prefix, named_model(golden_config(variant)))[0]


def write(directory, config, tensors, head=None):
    """Writes tensors for transformers; returns the class and what was written."""
    directory.mkdir(exist_ok=True)
    shapes = {name: list(value.shape) for name, value in tensors.items()}
    architecture, outputs = huggingface.architecture_of(shapes, config.hidden_size, head)
    values = huggingface.to_their_config(config, architecture, SPECIAL_IDS, outputs)
    return architecture, huggingface.write(str(directory), values, tensors, {})


@pytest.fixture
def written(tmp_path):
    """Writes a golden variant for transformers; returns its directory."""

    def make(variant="base", without=()):
        tensors = tensors_of(variant)
        kept = {name: tensors[name] for name in tensors if not name.startswith(without)}
        write(tmp_path / "hf", golden_config(variant), kept)
        return tmp_path / "hf"

    return make


def stored(directory):
    return safetensors.numpy.load((directory / "model.safetensors").read_bytes())


def store(directory, tensors):
    directory.mkdir(exist_ok=True)
    path = directory / "model.safetensors"
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"format": "pt"}))
    return str(path)


# --- Names ----------------------------------------------------------------------------------------

LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0."
NAMES_OF_BASE = {  # as transformers 5.23 has them; V=300, E=16, H=32, I=64
    **{
        f"albert.embeddings.{kind}_embeddings.weight": (rows, 16)
        for kind, rows in (("word", 300), ("token_type", 2), ("position", 40))
    },
    **{
        f"{module}.{kind}": shape if kind == "weight" else shape[:1]
        for module, shape in {
            "albert.embeddings.LayerNorm": (16,),
            "albert.encoder.embedding_hidden_mapping_in": (32, 16),
            LAYER + "attention.query": (32, 32),
            LAYER + "attention.key": (32, 32),
            LAYER + "attention.value": (32, 32),
            LAYER + "attention.dense": (32, 32),
            LAYER + "attention.LayerNorm": (32,),
            LAYER + "ffn": (64, 32),
            LAYER + "ffn_output": (32, 64),
            LAYER + "full_layer_layer_norm": (32,),
            "albert.pooler": (32, 32),
            "predictions.dense": (16, 32),
            "predictions.LayerNorm": (16,),
            "sop_classifier.classifier": (2, 32),
        }.items()
        for kind in ("weight", "bias")
    },
    "predictions.bias": (300,),
}


def test_names_and_shapes_are_those_of_transformers(written):
    """Kernels are turned, and nothing else."""
    ours, theirs = tensors_of(), stored(written())
    assert {name: value.shape for name, value in theirs.items()} == NAMES_OF_BASE
    name = "bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/kernel"
    np.testing.assert_array_equal(theirs[LAYER + "attention.query.weight"], ours[name].T)
    weights = "cls/seq_relationship/output_weights"
    np.testing.assert_array_equal(theirs["sop_classifier.classifier.weight"], ours[weights])


def test_groups_and_inner_groups_in_a_name():
    original = "bert/encoder/transformer/group_3/inner_group_12/LayerNorm_1/gamma"
    theirs = "albert.encoder.albert_layer_groups.3.albert_layers.12.full_layer_layer_norm.weight"
    assert name_table.to_transformers(original) == theirs
    assert name_table.from_transformers(theirs) == original
    assert name_table.to_transformers("answer_class/dense_0/kernel") is None
    assert name_table.from_transformers("albert.embeddings.position_ids") is None


# --- There and back -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "without, architecture, count",
    [
        ((), "AlbertForPreTraining", 32),
        (("cls/seq_relationship",), "AlbertForMaskedLM", 30),
        (("cls/predictions",), "AlbertModel", 25),
        (("cls/",), "AlbertModel", 25),
    ],
)
def test_heads_decide_the_class(without, architecture, count, written):
    directory = written(without=without)
    values = json.loads((directory / "config.json").read_text())
    assert values["architectures"] == [architecture]
    names = list(stored(directory))
    assert len(names) == count
    assert any(name.startswith("albert.") for name in names) == (architecture != "AlbertModel")
    tensors, found = tensors_of(), read_all(directory / "model.safetensors")
    assert len(found) == count
    assert_same(found, {name: tensors[name] for name in found})


REGRESSION = run_directory.FinetunedTask("sts-b", None)
THREE = run_directory.FinetunedTask("mnli", ("contradiction", "entailment", "neutral"))
RACE = run_directory.FinetunedTask("race", ("A", "B", "C", "D"))
NER = run_directory.FinetunedTask("ner", ("O", "B-LOC", "I-LOC"))


def classifier(outputs):
    return lambda config: heads.ClassificationModel(config, outputs)


def tagger(config):
    return heads.TokenClassificationModel(config, 3)


ONE_LABEL = "single_label_classification"
UNNAMED = ("LABEL_0", "LABEL_1", "LABEL_2")
# kind -> (model, what finetuned_task.json tells, class in transformers; problem_type and labels in
# the config)
FINE_TUNED = {
    "labels": (classifier(3), THREE, "SequenceClassification", ONE_LABEL, THREE.labels),
    "no names": (classifier(3), None, "SequenceClassification", ONE_LABEL, UNNAMED),
    "scores": (classifier(1), REGRESSION, "SequenceClassification", "regression", ("LABEL_0",)),
    "race": (heads.MultipleChoiceModel, RACE, "MultipleChoice", None, None),
    "words": (tagger, NER, "TokenClassification", None, NER.labels),
    "squad1": (heads.SquadV1Model, None, "QuestionAnswering", None, None),
}


def fine_tuned(kind):
    """A model with the golden encoder and a head of random numbers; and its tensors."""
    model = FINE_TUNED[kind][0](golden_config())
    named = name_table.named_variables(model)
    loading.load(str(MODELS / "base" / "model.ckpt"), named)
    random = np.random.RandomState(1)
    for name, variable in named.items():
        if not name_table.is_encoder(name):
            variable.assign(random.standard_normal(variable.shape))
    return model, values_of(named)


@pytest.mark.parametrize("kind", FINE_TUNED)
def test_heads_of_fine_tuning_come_back_bit_by_bit(kind, tmp_path):
    make, head, architecture, problem, labels = FINE_TUNED[kind]
    _, tensors = fine_tuned(kind)
    assert write(tmp_path / "hf", golden_config(), tensors, head)[0] == f"AlbertFor{architecture}"
    named = name_table.named_variables(make(golden_config()))
    loading.load_all(str(tmp_path / "hf"), named)
    assert_same(values_of(named), tensors)
    values = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert values.get("problem_type") == problem
    names = labels and {str(number): label for number, label in enumerate(labels)}
    assert values.get("id2label") == names
    assert values.get("label2id") == (names and {v: int(k) for k, v in names.items()})
    known = labels if kind in ("labels", "words") else None
    assert huggingface.read_labels(str(tmp_path / "hf")) == known


@pytest.mark.parametrize(
    "names", [None, 3, [], {"0": "a", "2": "b"}, {"0": "LABEL_0"}, {"1": ["b"]}, "ab"]
)
def test_configs_that_tell_no_labels(names, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"id2label": names}))
    assert huggingface.read_labels(str(tmp_path)) is None
    assert huggingface.read_labels(str(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    "weights, bias, head, message",
    [
        ([1, 32], [1], None, "output_weights ... finetuned_task.json"),
        ([2, 32], [2], THREE, "output_weights ... 2"),
        ([2, 32], [2], REGRESSION, "2 ... (scores)"),
        ([4, 32], [4], RACE, "4"),
        ([2, 32], [2], NER, "2"),
        ([3, 16], [3], THREE, "output_weights ... [3, 16] ... [3] ... H=32"),
        ([3, 32], [2], THREE, "[2]"),
        ([], [], THREE, "output_weights"),
    ],
)
def test_heads_that_do_not_fit_are_refused(weights, bias, head, message):
    shapes = {"output_weights": weights, "output_bias": bias}
    with refuses(message):
        huggingface.architecture_of(shapes, 32, head)


def test_what_transformers_has_no_place_for_is_told(tmp_path):
    config = golden_config()
    named = name_table.named_variables(heads.SquadV2Model(config))
    tensors = values_of(named)
    architecture, names = write(tmp_path / "hf", config, tensors)
    assert architecture == "AlbertModel"
    assert set(tensors) - set(names) == {n for n in tensors if not name_table.is_encoder(n)}
    assert len(stored(tmp_path / "hf")) == 25


# --- Config ---------------------------------------------------------------------------------------


UNUSED = {"net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor"}


def test_config_of_transformers():
    config = golden_config("groups2", hidden_dropout_prob=0.1, unknown_keys={"gap_size": 0})
    original = json.loads((MODELS / "groups2" / "albert_config.json").read_text())
    wanted = {name: value for name, value in original.items() if name not in UNUSED} | {
        "architectures": ["AlbertForPreTraining"],
        "model_type": "albert",
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.1,
        "classifier_dropout_prob": 0.1,
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    found = huggingface.to_their_config(config, "AlbertForPreTraining", SPECIAL_IDS)
    assert found == wanted | SPECIAL_IDS


@pytest.mark.parametrize(
    "ours, theirs",
    [("gelu", "gelu_new"), ("GELU", "gelu_new"), ("relu", "relu"), ("tanh", "tanh"),
     ("linear", "linear"), ("", "linear")],
)  # fmt: skip
def test_activations(ours, theirs):
    values = huggingface.to_their_config(golden_config(hidden_act=ours), "AlbertModel", SPECIAL_IDS)
    assert values["hidden_act"] == theirs
    back = huggingface.from_their_config(values).hidden_act
    assert back == {"GELU": "gelu", "": "linear"}.get(ours, ours)


def test_the_exact_gelu_is_read_with_a_warning(caplog):
    values = {"model_type": "albert", "vocab_size": 300, "hidden_act": "gelu"}
    assert huggingface.from_their_config(values).hidden_act == "gelu"
    assert_names(caplog.text, 'hidden_act "gelu"')


def test_layers_of_their_own_are_groups_of_one():
    for sharing in ("attention", "ffn"):  # unequal sharing that is none passes too
        groups = golden_config(parameter_sharing=sharing, num_hidden_groups=3)
        huggingface.check_expressible(groups)
    config = golden_config(parameter_sharing="none")
    huggingface.check_expressible(config)
    values = huggingface.to_their_config(config, "AlbertModel", SPECIAL_IDS)
    assert values["num_hidden_groups"] == 3
    back = huggingface.from_their_config(values)
    assert [back.group_of_layer(layer) for layer in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"embedding_size": 32}, "embedding_size ... hidden_size ... 32"),
        ({"parameter_sharing": "attention"}, "parameter_sharing='attention'"),
        ({"parameter_sharing": "ffn"}, "parameter_sharing='ffn'"),
        # int(15 / 22 * 22) is 14
        ({"num_hidden_layers": 22, "num_hidden_groups": 22}, "15 ... 22 ... 14"),
    ],
)
def test_what_transformers_cannot_compute_is_refused(change, message):
    with refuses(message):
        huggingface.check_expressible(golden_config(**change))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "bert"}, "model_type ... 'bert'"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps ... 1e-12 ... 1e-05"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"hidden_act": "silu"}, "hidden_act ... gelu_new ... 'silu'"),
        ({"hidden_act": ["gelu_new"]}, "hidden_act ... ['gelu_new']"),
        ({"model_type": {}}, "model_type"),
        ({"embedding_size": None}, "embedding_size"),
        ({"embedding_size": 32}, "embedding_size"),
    ],
)
def test_a_config_that_this_project_cannot_compute(change, message, tmp_path):
    values = huggingface.to_their_config(golden_config(), "AlbertModel", SPECIAL_IDS) | change
    (tmp_path / "config.json").write_text(json.dumps(values))
    with refuses(message) as error:
        source.read_config(str(tmp_path / "config.json"))
    assert str(error.value).startswith(f"{tmp_path}/config.json: ")


def test_configs_without_a_model_type(tmp_path):
    """That of early transformers, and the original's."""
    values = huggingface.to_their_config(golden_config(), "AlbertModel", SPECIAL_IDS)
    del values["model_type"]
    path = str(tmp_path / "config.json")
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert source.read_config(path) == golden_config()
    flag_groups.check_config(path)
    original = str(MODELS / "groups2" / "albert_config.json")
    assert source.read_config(original) == golden_config("groups2")
    for text in ("[]", "3", "no JSON", "[" * 100_000):
        (tmp_path / "config.json").write_text(text)
        with refuses("config.json"):
            source.read_config(path)
    with refuses("nowhere.json"):
        source.read_config("nowhere.json")


# --- Reading what others wrote --------------------------------------------------------------------


def read_all(path):
    reader = readers.SafetensorsReader(str(path))
    tensors = {name: reader[name] for name in reader.shapes}
    assert reader.shapes == {name: list(value.shape) for name, value in tensors.items()}
    assert {value.dtype for value in tensors.values()} == {np.dtype(np.float32)}
    return tensors


def test_tied_weights_that_are_repeated_are_no_news(written, tmp_path):
    tensors = stored(written())
    tensors["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"]
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"]
    assert_same(read_all(store(tmp_path / "a", tensors)), tensors_of())
    del tensors["predictions.bias"]  # an older release keeps the other name of the two
    assert_same(read_all(store(tmp_path / "b", tensors)), tensors_of())


def test_output_weights_of_their_own(written, tmp_path):
    """Fine-tuning reads the encoder; a masked-LM head without them would be another model."""
    tensors = stored(written())
    tensors["predictions.decoder.weight"] = np.zeros([300, 16], np.float32)
    path = store(tmp_path / "a", tensors)
    named = name_table.named_variables(heads.PretrainingModel(golden_config()))
    encoder = {name: value for name, value in named.items() if name_table.is_encoder(name)}
    report = loading.load(path, encoder)
    assert "predictions.decoder.weight" in report.unused_weights
    for read in (loading.load, loading.load_all, loading.read_weights):
        with refuses(f"{path} ... predictions.decoder.weight ... tie_word_embeddings"):
            read(path, named)


@pytest.mark.parametrize("of_base", [False, True])
@pytest.mark.parametrize("wrapper", ["module.{}", "_orig_mod.{}", "model._orig_mod.{}", "inside"])
def test_names_with_the_wrappers_of_pytorch(wrapper, of_base, written, tmp_path):
    tensors, wanted = stored(written()), tensors_of()
    if of_base:
        start = "albert."
        tensors = {n.removeprefix(start): v for n, v in tensors.items() if n.startswith(start)}
        wanted = {name: value for name, value in wanted.items() if name_table.is_encoder(name)}
    if wrapper == "inside":
        wrapped = {n.replace("encoder.", "encoder._orig_mod."): v for n, v in tensors.items()}
    else:
        wrapped = {wrapper.format(name): value for name, value in tensors.items()}
    assert_same(read_all(store(tmp_path / "a", wrapped)), wanted)


@pytest.mark.parametrize("name", ["predictions.decoder.bias", "module.predictions.bias"])
def test_two_tensors_for_one_variable(name, written, tmp_path):
    tensors = stored(written())
    tensors[name] = tensors["predictions.bias"]
    assert_same(read_all(store(tmp_path / "a", tensors)), tensors_of())
    tensors[name] = tensors[name] + 1
    with refuses(f"{tmp_path} ... predictions.bias"):
        read_all(store(tmp_path / "a", tensors))


def test_old_files_hold_positions_too(written, tmp_path):
    tensors = stored(written()) | {"albert.embeddings.position_ids": np.arange(40)[np.newaxis]}
    found, report = loading.read_weights(
        store(tmp_path / "a", tensors), named_model(golden_config())
    )
    assert_same(found, tensors_of())
    assert report.unused_weights == []


def test_early_files_call_layer_norms_otherwise(written, tmp_path):
    tensors = {
        re.sub(r"(LayerNorm\.|layer_norm\.)weight", r"\1gamma", name): values
        for name, values in stored(written()).items()
    }
    tensors = {
        re.sub(r"(LayerNorm\.|layer_norm\.)bias", r"\1beta", name): values
        for name, values in tensors.items()
    }
    assert any(name.endswith("LayerNorm.gamma") for name in tensors)
    assert_same(read_all(store(tmp_path / "a", tensors)), tensors_of())


def test_added_weights_inside_the_encoder_are_refused(written, tmp_path):
    added = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.query.lora_A.weight"
    path = store(tmp_path / "a", stored(written()) | {added: np.zeros([2, 2], np.float32)})
    with refuses(f"model.safetensors ... {added}"):
        loading.read_weights(path, named_model(golden_config()))


@pytest.mark.parametrize("key", ["cls_token", "sep_token", "mask_token"])
def test_other_special_tokens_are_refused(key, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({key: {"content": f"[{key[:4].rstrip('_').upper()}]"}}))
    huggingface.check_tokenizer(str(tmp_path), str(tmp_path / "vocab.txt"))
    path.write_text(json.dumps({key: "<s>"}))
    with refuses(f"{path} has {key} ... <s>"):
        huggingface.check_tokenizer(str(tmp_path), str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize("dtype", [np.float16, tf.bfloat16.as_numpy_dtype, np.float64])
def test_files_of_another_precision(dtype, written, tmp_path):
    tensors = {name: value.astype(dtype) for name, value in stored(written()).items()}
    rounded = {n: v.astype(dtype).astype(np.float32) for n, v in tensors_of().items()}
    assert_same(read_all(store(tmp_path / "a", tensors)), rounded)


@pytest.mark.parametrize(
    "value, message",
    [
        (np.zeros([32], np.uint8), "U8"),
        (np.zeros([32], bool), "BOOL"),
        *((np.full([32], value, np.float32), "nan") for value in (np.nan, -np.inf)),
        (np.eye(32, dtype=np.float32), "embedding_size"),
    ],
)
def test_values_that_are_no_weights_are_refused(value, message, written, tmp_path):
    name = "pooler.bias" if value.ndim == 1 else "encoder.embedding_hidden_mapping_in.weight"
    path = store(tmp_path / "a", stored(written()) | {f"albert.{name}": value})
    with refuses(f"bert/pooler/dense/bias ... {message}" if value.ndim == 1 else message):
        loading.read_weights(path, named_model(golden_config()))


@pytest.mark.parametrize(
    "content",
    [None, b"x" * 99, b"", (100_000).to_bytes(8, "little") + b'{"a":' * 20_000],
    ids=["short", "header", "empty", "deep"],
)
def test_a_damaged_file_is_named(content, written):
    path = written() / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with refuses(path):
        loading.load(str(path.parent), {})


OTHER_FORMS = "pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"
INDEXES = "pytorch_model.bin.index.json", "model.safetensors.index.json"


@pytest.mark.parametrize("name", [*OTHER_FORMS, *INDEXES])
def test_other_forms_of_weights_are_named_with_the_remedy(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x80\x04.")
    for path in (tmp_path, tmp_path / name):
        with refuses(f"{name} ... model.safetensors ... save_pretrained"):
            run_directory.find(str(path))


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.weights.h5"])
def test_files_of_keras_are_named_with_the_remedy(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK")
    with refuses(f"{name} ... load_model ... load_weights ... save"):
        run_directory.find(str(tmp_path / name))


def test_a_directory_of_exports(tmp_path):
    (tmp_path / "1796034471").mkdir()
    (tmp_path / "1796034471/saved_model.pb").write_bytes(b"")
    with refuses(f"{tmp_path} ... the training ... --saved_model"):
        run_directory.find(str(tmp_path))


def test_a_directory_with_only_tokenizer_json(written):
    directory = written()
    (directory / "tokenizer.json").write_text("{}")
    assert not list(directory.glob("*.model"))
    with refuses(f"{directory} ... tokenizer.json ... spiece.model ... spm_model_file"):
        albert_tf.load(str(directory))


def test_finding(written, tmp_path):
    directory = written()
    path = str(directory / "model.safetensors")
    (directory / "pytorch_model.bin").write_bytes(b"\x80\x04.")  # beside it, and not looked at
    for given in (directory, f"{directory}/", path):
        assert run_directory.find(str(given)) == path
    assert isinstance(readers.open_reader(path), readers.SafetensorsReader)
    assert loading.step_in(path) == 0
    with refuses(f"{tmp_path}/none.safetensors"):
        run_directory.find(str(tmp_path / "none.safetensors"))


def test_no_answers_from_a_directory_of_transformers(written, run_main, tmp_path):
    files = {"predict_file": tiny.SQUAD_DATA / "dev_v1.1.json", "output_dir": tmp_path / "out"}
    with refuses("model.safetensors ... SQuAD"):
        run_main(run_squad, do_predict=True, init_checkpoint=written(), **files)


OTHER_ORDER = "entailment,neutral,contradiction"


@pytest.mark.parametrize("refused", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_classifier_with_labels_in_the_order_of_its_task_predicts(refused, run_main, tmp_path):
    config = golden_config(vocab_size=3000, max_position_embeddings=64)
    tensors = values_of(name_table.named_variables(heads.ClassificationModel(config, 3)))
    labels = tuple(OTHER_ORDER.split(",")) if refused else THREE.labels
    write(tmp_path / "hf", config, tensors, run_directory.FinetunedTask("mnli", labels))
    flags = tiny.CLASSIFIER | tiny.PREDICT | {"task_name": "MNLI", "allow_random_init": False}
    flags |= {"albert_config_file": tmp_path / "hf/config.json", "init_checkpoint": tmp_path / "hf"}
    with refuses(f"--labels={OTHER_ORDER}") if refused else contextlib.nullcontext():
        run_main(run_classifier, output_dir=tmp_path / "out", **flags)
    assert (tmp_path / "out" / "test_results.tsv").exists() is not refused


# --- What transformers itself makes of it ---------------------------------------------------------


@needs_transformers
@pytest.mark.parametrize("variant", EXPRESSIBLE)
def test_outputs_of_transformers(variant, written, record_property):
    import torch
    import transformers

    model, info = transformers.AlbertForPreTraining.from_pretrained(
        str(written(variant)), output_loading_info=True
    )
    assert not any(info.values()), info
    inputs = read_arrays(MODELS / variant / "inputs.npz")
    golden = read_arrays(MODELS / variant / "outputs.npz")
    arguments = {new: torch.tensor(inputs[name]).long() for name, new in THEIR_NAMES.items()}
    with torch.no_grad():
        encoded, outputs = model.eval().albert(**arguments), model(**arguments)
    positions = inputs["masked_lm_positions"][..., np.newaxis]
    logits = np.take_along_axis(outputs.prediction_logits.numpy(), positions, axis=1)
    theirs = {
        "sequence_output": encoded.last_hidden_state.numpy(),
        "pooled_output": encoded.pooler_output.numpy(),
        "mlm_logits": logits.reshape(golden["mlm_logits"].shape),
        "sop_logits": outputs.sop_logits.numpy(),
    }
    ours = our_outputs(variant, inputs)
    for name, value in theirs.items():
        record_property(name, float(np.abs(value - ours[name]).max()))
        np.testing.assert_allclose(value, ours[name], atol=TOLERANCE, rtol=0, err_msg=name)
        np.testing.assert_allclose(value, golden[name], atol=TOLERANCE, rtol=0, err_msg=name)


def our_outputs(variant, inputs):
    model = heads.PretrainingModel(golden_config(variant))
    named = name_table.named_variables(model)
    loading.load(str(MODELS / variant / "model.ckpt"), named)
    encoded = model.encoder(inputs["input_ids"], inputs["input_mask"], inputs["segment_ids"])
    outputs = model({name: tf.constant(value) for name, value in inputs.items()})
    logits = outputs["masked_lm_logits"].numpy()
    return {
        "sequence_output": encoded["sequence_output"].numpy(),
        "pooled_output": encoded["pooled_output"].numpy(),
        "mlm_logits": logits.reshape(-1, logits.shape[-1]),
        "sop_logits": outputs["sentence_order_logits"].numpy(),
    }


@needs_transformers
@pytest.mark.parametrize("kind", FINE_TUNED)
def test_outputs_of_fine_tuned_heads(kind, tmp_path, record_property):
    import torch
    import transformers

    ours, tensors = fine_tuned(kind)
    _, head, architecture, _, labels = FINE_TUNED[kind]
    write(tmp_path / "hf", golden_config(), tensors, head)
    kind_of_model = getattr(transformers, f"AlbertFor{architecture}")
    model, info = kind_of_model.from_pretrained(str(tmp_path / "hf"), output_loading_info=True)
    # The class has no pooler, and ours has one that its answers do not depend on.
    has_pooler = kind not in ("squad1", "words")
    unexpected = set() if has_pooler else {"albert.pooler.weight", "albert.pooler.bias"}
    assert set(info.pop("unexpected_keys")) == unexpected and not any(info.values())
    inputs = read_arrays(MODELS / "base" / "inputs.npz")
    named = {name: inputs[name] for name in THEIR_NAMES}
    given = {THEIR_NAMES[name]: torch.tensor(value).long() for name, value in named.items()}
    if kind == "race":  # B=1: its four rows are the options of one question
        named = {name: value.reshape(1, -1) for name, value in named.items()}
        given = {name: value[None] for name, value in given.items()}
    with torch.no_grad():
        outputs = model.eval()(**given)
    for name, expected in ours({name: tf.constant(value) for name, value in named.items()}).items():
        actual = outputs[name].numpy()
        record_property(name, float(np.abs(actual - expected).max()))
        np.testing.assert_allclose(actual, expected, atol=TOLERANCE, rtol=0, err_msg=name)
    if architecture == "SequenceClassification":
        assert tuple(model.config.id2label.values()) == labels
        assert model.num_labels == len(labels)


@needs_transformers
@pytest.mark.parametrize("part", ["the whole", "the encoder"])
def test_what_transformers_saves_is_read(part, written, tmp_path):
    import transformers

    model = transformers.AlbertForPreTraining.from_pretrained(str(written("groups2")))
    (model if part == "the whole" else model.albert).save_pretrained(str(tmp_path / "again"))
    tensors = tensors_of("groups2")
    if part == "the encoder":
        tensors = {name: value for name, value in tensors.items() if name.startswith("bert/")}
    assert_same(read_all(tmp_path / "again" / "model.safetensors"), tensors)
    assert source.read_config(str(tmp_path / "again/config.json")) == golden_config("groups2")


@pytest.mark.parametrize(
    ("told", "lines", "message"),
    [
        ({"word_tokenizer_type": "mecab"}, "a b", "tokenizer_config.json ... mecab"),
        ({"tokenize_chinese_chars": False}, "a b", "tokenizer_config.json ... false"),
        ({"do_basic_tokenize": False}, "a b", "tokenizer_config.json ... false"),
        ({"strip_accents": True, "do_lower_case": False}, "a b", "strip_accents=true"),
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "a b", "tokenizer_config.json ... Japanese"),
        ({"tokenizer_class": "BertTokenizerFast"}, "a b", None),
        ({}, "a b a", None),  # no directory of transformers
        ({"do_lower_case": True}, "a b a", "vocab.txt, line 3 ... 'a'"),
        ({"strip_accents": None, "word_tokenizer_type": "basic"}, "a b \u2028", None),
        ({"added_tokens_decoder": {"1": {"content": "b"}}}, "a b", None),
        ({"added_tokens_decoder": {"2": {"content": "[N]"}}}, "a b", "vocab.txt ... [N]"),
        ({"added_tokens_decoder": {"1": {"content": "[N]"}}}, "a b", "vocab.txt ... [N]"),
    ],
)
def test_tokenizers_that_make_other_pieces_are_refused(told, lines, message, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(lines.split(" ")) + "\n", encoding="utf-8")
    with refuses(message) if message else contextlib.nullcontext():
        huggingface.check_tokenizer(str(tmp_path), str(vocabulary))
    if "tokenizer_class" in told:  # the config of the model may tell it
        (tmp_path / "tokenizer_config.json").rename(tmp_path / "config.json")
        with refuses("/config.json ... Japanese") if message else contextlib.nullcontext():
            huggingface.check_tokenizer(str(tmp_path), str(vocabulary))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("added_tokens.json", {"[N]": 8000, "[CLS]": 2}),
        ("tokenizer.json", {"added_tokens": [{"content": "[N]", "id": 5}]}),
        ("tokenizer.json", {"added_tokens": [{"content": "[N]"}]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5": "[N]"}}),
    ],
)
def test_added_tokens_are_refused(name, content, tmp_path):
    shutil.copytree(models.paths()["english-small"], tmp_path, dirs_exist_ok=True)
    assert albert_tf.load(tmp_path).tokenizer is not None
    (tmp_path / name).write_text(json.dumps(content))
    with refuses(f"{tmp_path} ... tokens"):
        albert_tf.load(tmp_path)
