# SPDX-License-Identifier: Apache-2.0
"""Directories of the transformers library: names, config, files, and its own outputs."""

import base64
import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

import run_classifier
import run_squad
from albert_tf import checkpoints, heads, huggingface
from albert_tf.config import AlbertConfig
from albert_tf.tokenization import FullTokenizer

GOLDEN = Path(__file__).parent / "golden"
MODELS = GOLDEN / "model"
VOCABULARIES = GOLDEN / "tokenization"
EXPRESSIBLE = ["base", "groups2", "groups3_layers5", "inner2", "relu", "tanh_heads2"]
SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
TOLERANCE = 2e-5

needs_transformers = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("torch", "transformers")),
    reason="needs torch and transformers, which are no requirements of this project",
)


def config_of(variant="base", **overrides):
    config = AlbertConfig.from_json_file(str(MODELS / variant / "albert_config.json"))
    return dataclasses.replace(config, **overrides)


def tensors_of(variant="base"):
    return checkpoints.read_weights(
        str(MODELS / variant / "model.ckpt"), config_of(variant)
    ).tensors


def write(directory, config, tensors, tokenizer_files=()):
    directory.mkdir(exist_ok=True)
    return huggingface.write(str(directory), config, tensors, SPECIAL_IDS, dict(tokenizer_files))


@pytest.fixture
def written(tmp_path):
    """Writes a golden variant for transformers; returns its directory."""

    def make(variant="base", without=()):
        tensors = {
            name: value
            for name, value in tensors_of(variant).items()
            if not name.startswith(without)
        }
        write(tmp_path / "hf", config_of(variant), tensors)
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
    "albert.embeddings.word_embeddings.weight": (300, 16),
    "albert.embeddings.token_type_embeddings.weight": (2, 16),
    "albert.embeddings.position_embeddings.weight": (40, 16),
    "albert.embeddings.LayerNorm.weight": (16,),
    "albert.embeddings.LayerNorm.bias": (16,),
    "albert.encoder.embedding_hidden_mapping_in.weight": (32, 16),
    "albert.encoder.embedding_hidden_mapping_in.bias": (32,),
    LAYER + "attention.query.weight": (32, 32),
    LAYER + "attention.query.bias": (32,),
    LAYER + "attention.key.weight": (32, 32),
    LAYER + "attention.key.bias": (32,),
    LAYER + "attention.value.weight": (32, 32),
    LAYER + "attention.value.bias": (32,),
    LAYER + "attention.dense.weight": (32, 32),
    LAYER + "attention.dense.bias": (32,),
    LAYER + "attention.LayerNorm.weight": (32,),
    LAYER + "attention.LayerNorm.bias": (32,),
    LAYER + "ffn.weight": (64, 32),
    LAYER + "ffn.bias": (64,),
    LAYER + "ffn_output.weight": (32, 64),
    LAYER + "ffn_output.bias": (32,),
    LAYER + "full_layer_layer_norm.weight": (32,),
    LAYER + "full_layer_layer_norm.bias": (32,),
    "albert.pooler.weight": (32, 32),
    "albert.pooler.bias": (32,),
    "predictions.dense.weight": (16, 32),
    "predictions.dense.bias": (16,),
    "predictions.LayerNorm.weight": (16,),
    "predictions.LayerNorm.bias": (16,),
    "predictions.bias": (300,),
    "sop_classifier.classifier.weight": (2, 32),
    "sop_classifier.classifier.bias": (2,),
}


def test_names_and_shapes_are_those_of_transformers(written):
    assert {name: value.shape for name, value in stored(written()).items()} == NAMES_OF_BASE


@pytest.mark.parametrize("variant", EXPRESSIBLE)
def test_every_variable_has_a_name_there_and_back(variant):
    named = tensors_of(variant)
    theirs = [huggingface.their_name(name) for name in named]
    assert len(set(theirs)) == len(named) and None not in theirs
    assert [huggingface.original_name(name) for name in theirs] == list(named)


def test_groups_and_inner_groups_in_a_name():
    original = "bert/encoder/transformer/group_3/inner_group_12/LayerNorm_1/gamma"
    theirs = "albert.encoder.albert_layer_groups.3.albert_layers.12.full_layer_layer_norm.weight"
    assert huggingface.their_name(original) == theirs
    assert huggingface.original_name(theirs) == original
    assert huggingface.their_name("cls/squad/output_weights") is None
    assert huggingface.original_name("albert.embeddings.position_ids") is None


def test_kernels_are_turned_and_nothing_else(written):
    ours, theirs = tensors_of(), stored(written())
    name = "bert/encoder/transformer/group_0/inner_group_0/attention_1/self/query/kernel"
    np.testing.assert_array_equal(theirs[LAYER + "attention.query.weight"], ours[name].T)
    weights = "cls/seq_relationship/output_weights"
    np.testing.assert_array_equal(theirs["sop_classifier.classifier.weight"], ours[weights])


# --- There and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", EXPRESSIBLE)
def test_weights_come_back_bit_by_bit(variant, written):
    directory = written(variant)
    model = heads.PretrainingModel(huggingface.read_config(str(directory / "config.json")))
    named = checkpoints.named_variables(model)
    report = checkpoints.load(str(directory), named)
    assert report.missing == report.unused == report.wrong_shape == ()
    for name, value in tensors_of(variant).items():
        np.testing.assert_array_equal(named[name], value, err_msg=name)


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
    tensors, reader = tensors_of(), huggingface.Reader(str(directory / "model.safetensors"))
    assert len(reader.shapes) == count
    for name, shape in reader.shapes.items():
        assert shape == list(tensors[name].shape)
        np.testing.assert_array_equal(reader[name], tensors[name], err_msg=name)


def test_what_transformers_has_no_place_for_is_told(tmp_path):
    tensors = tensors_of() | {"output_weights": np.zeros([3, 32], np.float32)}
    _, names = write(tmp_path / "hf", config_of(), tensors)
    assert set(tensors) - set(names) == {"output_weights"}
    assert len(stored(tmp_path / "hf")) == 32


# --- Config ---------------------------------------------------------------------------------------


def test_config_of_transformers():
    config = config_of("groups2", hidden_dropout_prob=0.1, unknown_keys={"gap_size": 0})
    assert huggingface.to_their_config(config, "AlbertForPreTraining", SPECIAL_IDS) == {
        "architectures": ["AlbertForPreTraining"],
        "model_type": "albert",
        "vocab_size": 300,
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_hidden_groups": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "inner_group_num": 1,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": config.attention_probs_dropout_prob,
        "classifier_dropout_prob": 0.1,
        "max_position_embeddings": 40,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }


@pytest.mark.parametrize(
    "ours, theirs",
    [("gelu", "gelu_new"), ("GELU", "gelu_new"), ("relu", "relu"), ("tanh", "tanh"),
     ("linear", "linear"), ("", "linear")],
)  # fmt: skip
def test_activations(ours, theirs):
    values = huggingface.to_their_config(config_of(hidden_act=ours), "AlbertModel", SPECIAL_IDS)
    assert values["hidden_act"] == theirs
    back = huggingface.from_their_config(values).hidden_act
    assert back == {"GELU": "gelu", "": "linear"}.get(ours, ours)


def test_the_exact_gelu_is_read_with_a_warning(caplog):
    values = {"model_type": "albert", "vocab_size": 300, "hidden_act": "gelu"}
    assert huggingface.from_their_config(values).hidden_act == "gelu"
    assert "is the exact form; the tanh form is used" in caplog.text


def test_layers_of_their_own_are_groups_of_one():
    config = config_of(parameter_sharing="none")
    huggingface.check_expressible(config)
    values = huggingface.to_their_config(config, "AlbertModel", SPECIAL_IDS)
    assert values["num_hidden_groups"] == 3
    back = huggingface.from_their_config(values)
    assert [back.group_of_layer(layer) for layer in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"embedding_size": 32},
            "embedding_size = hidden_size = 32 this model has no such mapping",
        ),
        ({"parameter_sharing": "attention"}, "not as parameter_sharing='attention' does"),
        ({"parameter_sharing": "ffn"}, "not as parameter_sharing='ffn' does"),
        # int(15 / 22 * 22) is 14
        (
            {"num_hidden_layers": 22, "num_hidden_groups": 22},
            "takes group 15 for layer 15 of 22 in 22 groups, and the original's rounding gives "
            "group 14",
        ),
    ],
)
def test_what_transformers_cannot_compute_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        huggingface.check_expressible(config_of(**change))


@pytest.mark.parametrize("sharing", ["attention", "ffn"])
def test_unequal_sharing_that_is_none_passes(sharing):
    huggingface.check_expressible(config_of(parameter_sharing=sharing, num_hidden_groups=3))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "bert"}, "model_type must be albert. Received: 'bert'"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps must be 1e-12. Received: 1e-05"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type must be absolute"),
        ({"hidden_act": "silu"}, "hidden_act must be one of gelu_new, .*Received: 'silu'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be a whole number"),
        ({"embedding_size": 32}, "always maps embeddings"),
    ],
)
def test_a_config_that_this_project_cannot_compute(change, message, tmp_path):
    values = huggingface.to_their_config(config_of(), "AlbertModel", SPECIAL_IDS) | change
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=message) as error:
        huggingface.read_config(str(tmp_path / "config.json"))
    assert str(error.value).startswith(f"{tmp_path}/config.json: ")


def test_the_originals_config_is_read_as_ever(tmp_path):
    path = str(MODELS / "groups2" / "albert_config.json")
    assert huggingface.read_config(path) == config_of("groups2")
    for text in ("[]", "3", "no JSON"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"config\.json"):
            huggingface.read_config(str(tmp_path / "config.json"))
    with pytest.raises(ValueError, match="nowhere"):
        huggingface.read_config("nowhere.json")


# --- Reading what others wrote --------------------------------------------------------------------


def read_all(path):
    reader = huggingface.Reader(str(path))
    return {name: reader[name] for name in reader.shapes}


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_tied_weights_that_are_repeated_are_no_news(written, tmp_path):
    tensors = stored(written())
    tensors["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"]
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"]
    assert_same(read_all(store(tmp_path / "a", tensors)), tensors_of())
    del tensors["predictions.bias"]  # an older release keeps the other name of the two
    assert_same(read_all(store(tmp_path / "b", tensors)), tensors_of())


def test_output_weights_of_their_own_are_reported(written, tmp_path):
    tensors = stored(written())
    tensors["predictions.decoder.weight"] = np.zeros([300, 16], np.float32)
    path = store(tmp_path / "a", tensors)
    report = checkpoints.load(
        path, checkpoints.named_variables(heads.PretrainingModel(config_of()))
    )
    assert report.unused == ("predictions.decoder.weight",)
    assert "not used: predictions.decoder.weight" in str(report)


def test_old_files_hold_positions_too(written, tmp_path):
    tensors = stored(written()) | {"albert.embeddings.position_ids": np.arange(40)[np.newaxis]}
    weights = checkpoints.read_weights(store(tmp_path / "a", tensors), config_of())
    assert_same(weights.tensors, tensors_of())
    assert weights.left_out == ("albert.embeddings.position_ids",)


@pytest.mark.parametrize("dtype", [np.float16, tf.bfloat16.as_numpy_dtype, np.float64])
def test_files_of_another_precision(dtype, written, tmp_path):
    tensors = {name: value.astype(dtype) for name, value in stored(written()).items()}
    rounded = {n: v.astype(dtype).astype(np.float32) for n, v in tensors_of().items()}
    assert_same(read_all(store(tmp_path / "a", tensors)), rounded)


def test_a_type_that_is_no_weight(written, tmp_path):
    tensors = stored(written())
    tensors["albert.pooler.bias"] = np.zeros([32], np.uint8)
    with pytest.raises(ValueError, match=r"cannot read bert/pooler/dense/bias of .*type is U8"):
        read_all(store(tmp_path / "a", tensors))


def test_a_mapping_between_equal_sizes_is_refused(written, tmp_path):
    tensors = stored(written())
    tensors["albert.encoder.embedding_hidden_mapping_in.weight"] = np.eye(32, dtype=np.float32)
    path = store(tmp_path / "a", tensors)
    with pytest.raises(ValueError, match="maps embeddings of 32 features to a hidden size of the"):
        huggingface.Reader(path)


@pytest.mark.parametrize("damage", ["short", "header", "empty"])
def test_a_damaged_file_is_named(damage, written):
    path = written() / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes({"short": content[:-9], "header": b"x" * 99, "empty": b""}[damage])
    with pytest.raises(ValueError, match=rf"cannot read {path}"):
        checkpoints.load(str(path.parent), {})


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors.index.json"])
def test_other_forms_of_weights_are_named_with_the_remedy(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x80\x04.")
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(
            ValueError, match=rf"{name} .*: give model\.safetensors.*save_pretrained"
        ):
            checkpoints.find(str(path))


def test_finding(written, tmp_path):
    directory = written()
    path = str(directory / "model.safetensors")
    (directory / "pytorch_model.bin").write_bytes(b"\x80\x04.")  # beside it, and not looked at
    for given in (directory, f"{directory}/", path):
        assert checkpoints.find(str(given)) == path
    assert isinstance(checkpoints.open_reader(path), huggingface.Reader)
    assert checkpoints.step_in(path) == 0
    with pytest.raises(ValueError, match="no checkpoint at"):
        checkpoints.find(str(tmp_path / "none.safetensors"))


@pytest.fixture
def small_directory(tmp_path):
    """A directory of transformers with as many pieces as the vocabulary of the tests."""
    config = config_of(vocab_size=3000, max_position_embeddings=64)
    model = heads.PretrainingModel(config)
    tensors = {n: v.numpy() for n, v in checkpoints.named_variables(model).items()}
    write(tmp_path / "hf", config, tensors)
    return tmp_path / "hf", tensors


def test_fine_tuning_from_a_directory_of_transformers(small_directory, run_main, tmp_path, capsys):
    directory, tensors = small_directory
    run_main(
        run_classifier,
        data_dir=GOLDEN / "finetune" / "glue_data",
        task_name="RTE",
        albert_config_file=directory / "config.json",
        init_checkpoint=directory,
        spm_model_file=VOCABULARIES / "spm_uncased.model",
        output_dir=tmp_path / "out",
        do_train=True,
        max_seq_length=64,
        train_step=1,
        train_batch_size=2,
    )
    assert f"loaded 25 variables from {directory}/model.safetensors" in capsys.readouterr().out
    before = checkpoints.Reader(str(tmp_path / "out" / "model.ckpt-0"))
    for name, value in tensors.items():
        if checkpoints.is_encoder(name):
            np.testing.assert_array_equal(before[name], value, err_msg=name)
    config = AlbertConfig.from_json_file(str(tmp_path / "out" / "albert_config.json"))
    assert config == huggingface.read_config(str(directory / "config.json"))


def test_no_answers_from_a_directory_of_transformers(small_directory, run_main, tmp_path):
    with pytest.raises(ValueError, match=r"model\.safetensors has no SQuAD head"):
        run_main(
            run_squad,
            do_predict=True,
            predict_file=GOLDEN / "finetune" / "squad_data" / "dev_v1.1.json",
            init_checkpoint=small_directory[0],
            output_dir=tmp_path / "out",
        )


# --- Tokenizer ------------------------------------------------------------------------------------


def test_pieces_of_a_sentencepiece_tokenizer():
    model = (VOCABULARIES / "spm_uncased.model").read_bytes()
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    contents = huggingface.sentencepiece_files(model, True, 40)
    assert contents["spiece.model"] == model
    values = json.loads(contents["tokenizer.json"])
    special = {token["id"]: token["content"] for token in values["added_tokens"]}
    # Not the user-defined ones, before which transformers would start a new word.
    assert special == {0: "<pad>", 1: "<unk>", 2: "[CLS]", 3: "[SEP]", 4: "[MASK]"}
    assert [piece for piece, _ in values["model"]["vocab"]] == [p.piece for p in proto.pieces]
    pairs = zip(proto.pieces, values["model"]["vocab"], strict=True)
    lowered = [piece.piece for piece, (_, score) in pairs if score < piece.score]
    assert lowered and all(p.endswith(",") and p[-2].isdigit() for p in lowered)
    charsmap = values["normalizer"]["normalizers"][-1]["precompiled_charsmap"]
    assert base64.b64decode(charsmap) == proto.normalizer_spec.precompiled_charsmap
    config = json.loads(contents["tokenizer_config.json"])
    assert config["tokenizer_class"] == "AlbertTokenizer" and config["model_max_length"] == 40


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_casing_of_a_tokenizer(do_lower_case):
    model = (VOCABULARIES / "spm_cased.model").read_bytes()
    contents = huggingface.sentencepiece_files(model, do_lower_case, 40)
    normalizers = json.loads(contents["tokenizer.json"])["normalizer"]["normalizers"]
    assert ({"type": "Lowercase"} in normalizers) == do_lower_case
    for one in (contents, huggingface.wordpiece_files(["[PAD]"], do_lower_case, 40)):
        config = json.loads(one["tokenizer_config.json"])
        assert config["do_lower_case"] == do_lower_case


def test_words_are_numbered_as_lines():
    """Where the original leaves out a line that it has seen, transformers would count it."""
    tokenizer = FullTokenizer(vocab_file=str(VOCABULARIES / "vocab_quirks.txt"))
    contents = huggingface.wordpiece_files(list(tokenizer.vocab), True, 40)
    lines = contents["vocab.txt"].decode().split("\n")
    assert lines == [*tokenizer.vocab, ""]
    assert json.loads(contents["tokenizer_config.json"])["pad_token"] == lines[0]


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
    inputs = np.load(MODELS / variant / "inputs.npz")
    golden = np.load(MODELS / variant / "outputs.npz")
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
    }
    arguments = {new: torch.tensor(inputs[name]).long() for name, new in names.items()}
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
    model = heads.PretrainingModel(config_of(variant))
    named = checkpoints.named_variables(model)
    checkpoints.load(str(MODELS / variant / "model.ckpt"), named)
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
@pytest.mark.parametrize("part", ["the whole", "the encoder"])
def test_what_transformers_saves_is_read(part, written, tmp_path):
    import transformers

    model = transformers.AlbertForPreTraining.from_pretrained(str(written("groups2")))
    (model if part == "the whole" else model.albert).save_pretrained(str(tmp_path / "again"))
    tensors = tensors_of("groups2")
    if part == "the encoder":
        tensors = {name: value for name, value in tensors.items() if name.startswith("bert/")}
    assert_same(read_all(tmp_path / "again" / "model.safetensors"), tensors)
    assert huggingface.read_config(str(tmp_path / "again/config.json")) == config_of("groups2")


# What transformers does otherwise whatever is written: it makes `` and '' to ", takes the names of
# special pieces in a text for these, and knows no space but the usual ones.
THEIR_OWN = ("``", "''", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "<pad>", "\x0b", "\ue000", "a" * 150)


@needs_transformers
@pytest.mark.parametrize(
    "name, do_lower_case",
    [
        ("spm_uncased.model", True),
        ("spm_cased.model", False),
        ("vocab.txt", True),
        ("vocab.txt", False),
    ],
)
def test_ids_of_the_tokenizer(name, do_lower_case, tmp_path):
    import transformers

    if name.endswith(".model"):
        tokenizer = FullTokenizer(None, do_lower_case, str(VOCABULARIES / name))
        model = (VOCABULARIES / name).read_bytes()
        contents = huggingface.sentencepiece_files(model, do_lower_case, 40)
    else:
        tokenizer = FullTokenizer(str(VOCABULARIES / name), do_lower_case)
        contents = huggingface.wordpiece_files(list(tokenizer.vocab), do_lower_case, 40)
    config = config_of(vocab_size=tokenizer.vocab_size, max_position_embeddings=40)
    write(tmp_path / "hf", config, tensors_of(), contents)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "hf"))
    assert theirs.is_fast and len(theirs) == tokenizer.vocab_size
    strings = json.loads((VOCABULARIES / "table.json").read_text())["strings"]
    strings = [text for text in strings if not any(odd in text for odd in THEIR_OWN)]
    different = [
        text
        for text in strings
        if theirs(text, add_special_tokens=False).input_ids
        != tokenizer.encode_ids(tokenizer.normalize(text))
    ]
    assert len(strings) > 200
    # The original splits a digit and its comma once more; only short rows of digits show it.
    assert all("," in text for text in different) and len(different) <= 5, different
    ids = theirs("My name", "is.").input_ids
    cls, sep = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    first, second = (tokenizer.encode_ids(tokenizer.normalize(t)) for t in ("My name", "is."))
    assert ids == [cls, *first, sep, *second, sep]
    assert theirs.model_max_length == 40 and theirs.pad_token_id == 0
