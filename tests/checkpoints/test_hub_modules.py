# SPDX-License-Identifier: Apache-2.0
"""Modules of three generations: what they tell, and fine-tuning from them."""

import contextlib
import dataclasses
import functools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2
from tf_keras.protobuf import saved_metadata_pb2

import albert_tf
import run_classifier
import run_squad
from albert_tf.checkpoints import loading, name_table, readers, source
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.records import input_pipeline, schemas
from tests import GOLDEN, read_arrays, tiny
from tests.errors import assert_says, refuses

pytestmark = pytest.mark.long

official = functools.partial(pytest.importorskip, reason="needs tf-models-official")
encoders = official("official.nlp.configs.encoders")
models = official("official.nlp.modeling.models")
export_tfhub_lib = official("official.nlp.tools.export_tfhub_lib")

DATA = GOLDEN / "finetune"
SENTENCEPIECE, CASED, WORDPIECE = tiny.VOCABULARY, tiny.CASED_VOCABULARY, tiny.WORDPIECE
CONFIG = AlbertConfig.from_dict(
    tiny.CONFIG
    | {"num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 72}
    | {"hidden_dropout_prob": 0.125, "attention_probs_dropout_prob": 0.25}
)
TOLERANCE = 2e-5


def scatter(variables, seed=1):
    """Gives every variable other values, so that no two can be mistaken for each other."""
    values = np.random.RandomState(seed)
    for variable in variables:
        variable.assign(0.2 * values.standard_normal(variable.shape) + 0.1)


def weights_of(config=CONFIG, seed=2):
    named = name_table.named_variables(heads.PretrainingModel(config))
    scatter(named.values(), seed)
    return {name: variable.numpy() for name, variable in named.items()}


# --- A module of each generation -----------------------------------------------------------------


@pytest.fixture(scope="session")
def garden_config():
    values = {
        "embedding_width": CONFIG.embedding_size,
        "num_layers": CONFIG.num_hidden_layers,
        "dropout_rate": CONFIG.hidden_dropout_prob,
        "attention_dropout_rate": CONFIG.attention_probs_dropout_prob,
    }
    same = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size")
    values |= {name: getattr(CONFIG, name) for name in (*same, "max_position_embeddings")}
    return encoders.EncoderConfig(type="albert", albert=encoders.AlbertEncoderConfig(**values))


def export_of_garden(folder, config, checkpoint, **files):
    """Exports with the Model Garden's own code; returns the module."""
    module, prefix = folder / "module", checkpoint.save(str(folder / "ckpt"))
    export_tfhub_lib.export_model(
        str(module), encoder_config=config, model_checkpoint_path=prefix, **files
    )
    return module


@pytest.fixture(scope="session")
def garden(tmp_path_factory, garden_config):
    """The Model Garden's own export of its ALBERT encoder, with `.mlm` and SentencePiece."""
    folder = tmp_path_factory.mktemp("garden")
    encoder = encoders.build_encoder(garden_config)
    gelu = lambda x: tf_keras.activations.gelu(x, approximate=True)  # noqa: E731
    pretrainer = models.BertPretrainerV2(encoder_network=encoder, mlm_activation=gelu)
    pretrainer({tensor.name: tensor for tensor in pretrainer.inputs})  # makes the variables
    scatter(pretrainer.variables)
    checkpoint = tf.train.Checkpoint(**pretrainer.checkpoint_items)
    shutil.copy(SENTENCEPIECE, folder / "30k-clean.model")
    files = {"with_mlm": True, "sp_model_file": str(folder / "30k-clean.model")}
    return export_of_garden(folder, garden_config, checkpoint, **files)


@pytest.fixture(scope="session")
def garden_wordpiece(tmp_path_factory, garden_config):
    """Another, of the encoder alone, with vocab.txt and `do_lower_case`."""
    encoder = encoders.build_encoder(garden_config)
    checkpoint = tf.train.Checkpoint(model=encoder, encoder=encoder)
    files = {"with_mlm": False, "vocab_file": str(WORDPIECE), "do_lower_case": False}
    folder = tmp_path_factory.mktemp("garden_wordpiece")
    return export_of_garden(folder, garden_config, checkpoint, **files)


@pytest.fixture
def first_generation(tmp_path):
    """Makes a module as the original's export lays it out: names, signatures, assets."""

    def make(do_lower_case, vocabulary=SENTENCEPIECE, scope="module/"):
        module, weights = tmp_path / "module", weights_of()
        builder = tf.compat.v1.saved_model.Builder(str(module))
        for tags in ([], ["train"]):
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                for name, value in weights.items():
                    tf.compat.v1.get_variable(scope + name, initializer=value)
                session.run(tf.compat.v1.global_variables_initializer())
                info = {
                    "vocab_file": tf.constant("30k-clean.model"),
                    "do_lower_case": tf.identity(tf.constant(do_lower_case)),
                }
                info = {n: tf.compat.v1.saved_model.build_tensor_info(t) for n, t in info.items()}
                signature = tf.compat.v1.saved_model.build_signature_def(outputs=info)
                arguments = {"signature_def_map": {"tokenization_info": signature}}
                if tags:
                    builder.add_meta_graph(tags, **arguments)
                else:
                    builder.add_meta_graph_and_variables(session, tags, **arguments)
        builder.save()
        (module / "tfhub_module.pb").write_bytes(b"\x08\x03")
        (module / "assets").mkdir()
        shutil.copy(vocabulary, module / "assets" / "30k-clean.model")
        (module / "assets" / "albert_config.json").write_text(CONFIG.to_json_string())
        return module, weights

    return make


# --- What they tell ------------------------------------------------------------------------------


def read_config(module):
    return source.Source(str(module)).read_config()


def casing(module):
    found = source.Source(str(module)).casing("do_lower_case")
    return found and found.value


def test_the_garden_tells_the_whole_config(garden):
    assert read_config(garden) == CONFIG


def test_the_garden_of_old_told_it_elsewhere(garden, tmp_path):
    """Keras used to write its metadata into the objects of saved_model.pb."""
    metadata = saved_metadata_pb2.SavedMetadata()
    metadata.ParseFromString((garden / "keras_metadata.pb").read_bytes())
    model = saved_model_pb2.SavedModel()
    nodes = model.meta_graphs.add().object_graph_def.nodes
    for one in metadata.nodes:
        values = json.loads(one.metadata)
        if "num_layers" in values.get("config", {}):
            values["config"]["activation"] = "Text>gelu"
        nodes.add().user_object.metadata = json.dumps(values)
    (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
    assert read_config(tmp_path) == CONFIG


def test_a_module_that_tells_no_config(first_generation):
    module, _ = first_generation(True)
    (module / "assets" / "albert_config.json").unlink()
    with refuses("--albert_config_file"):
        read_config(module)


def write_metadata(directory, text):
    """Writes the files of a module whose Keras says this."""
    metadata = saved_metadata_pb2.SavedMetadata()
    metadata.nodes.add().metadata = text
    (directory / "keras_metadata.pb").write_bytes(metadata.SerializeToString())
    (directory / "saved_model.pb").write_bytes(b"")


def encoder_metadata(**changes):
    """What Keras writes of the Model Garden's encoder, as text."""
    values = {theirs: getattr(CONFIG, ours) for theirs, ours in source._GARDEN_KEYS.items()}
    return json.dumps({"config": {**values, "activation": "gelu", **changes}})


def test_the_metadata_is_enough(tmp_path):
    write_metadata(tmp_path, encoder_metadata())
    assert read_config(tmp_path) == CONFIG


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"config":', "JSON"),
        ('{"config": ["vocab_size"]}', "--albert_config_file"),
        (encoder_metadata(activation="Text>swish"), "'Text>swish' ... --albert_c"),
        (encoder_metadata(activation={"config": {"a": 1}}), "{'a' ... 1}"),
        (encoder_metadata(activation=None), "activation ... None"),
        (encoder_metadata(hidden_size="32"), "hidden_size"),
        (encoder_metadata(num_layers=[3]), "num_hidden_layers"),
    ],
)
def test_damaged_metadata_is_named(text, message, tmp_path):
    write_metadata(tmp_path, text)
    with refuses(message) as error:
        read_config(tmp_path)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["keras_metadata.pb", "saved_model.pb"])
def test_files_that_are_no_messages_are_named(name, tmp_path):
    write_metadata(tmp_path, "")
    (tmp_path / "keras_metadata.pb").unlink()
    (tmp_path / name).write_bytes(b"\xff" * 20)
    with refuses(f"{tmp_path}/{name}"):
        read_config(tmp_path)


def with_constant(module, change):
    """Changes the graph behind a module's `do_lower_case`."""
    model = saved_model_pb2.SavedModel.FromString((module / "saved_model.pb").read_bytes())
    for graph in model.meta_graphs:
        (output,) = (
            info.name.partition(":")[0]
            for name, info in graph.signature_def["tokenization_info"].outputs.items()
            if name == "do_lower_case"
        )
        nodes = {node.name: node for node in graph.graph_def.node}
        change(nodes[output], nodes[nodes[output].input[0]])
    (module / "saved_model.pb").write_bytes(model.SerializeToString())


def constant(value):
    proto = tf.make_tensor_proto(value)
    return lambda _, node: node.attr["value"].tensor.CopyFrom(proto)


def damaged(_, node):
    node.attr["value"].tensor.tensor_shape.dim.add(size=3)
    node.attr["value"].tensor.tensor_content = b"\1\1"


def circle(output, _):
    output.input[0] = output.name


@pytest.mark.parametrize(
    "change, message",
    [
        *((constant(value), "do_lower_case ... {}") for value in (b"a", [True, False], 0.5)),
        (damaged, "do_lower_case ... {}/saved_model.pb"),
        (circle, None),  # of nodes: the casing is not told
    ],
)
def test_a_casing_that_is_no_truth_value(change, message, first_generation):
    module, _ = first_generation(True)
    with_constant(module, change)
    with refuses(message.format(module)) if message else contextlib.nullcontext():
        assert casing(module) is None


@pytest.mark.parametrize("value", [True, False])
def test_casing(value, first_generation, garden, garden_wordpiece):
    assert casing(first_generation(value)[0]) is value
    assert casing(garden_wordpiece) is False
    assert casing(garden) is None


def test_vocabulary(garden, garden_wordpiece):
    for module, name in ((garden, "30k-clean.model"), (garden_wordpiece, "vocab.txt")):
        assert source.Source(str(module)).vocabulary_file() == f"{module}/assets/{name}"


# --- Their weights -------------------------------------------------------------------------------


def test_the_gardens_weights_compute_what_its_module_computes(garden):
    values = np.random.RandomState(0)
    word_ids = values.randint(5, 3000, [3, 20]).astype(np.int32)
    mask = (np.arange(20) < [[20], [13], [4]]).astype(np.int32)
    types = (np.arange(20) >= 9).astype(np.int32) * mask
    positions = values.randint(0, 4, [3, 5]).astype(np.int32)
    inputs = {"input_word_ids": word_ids, "input_mask": mask, "input_type_ids": types}
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    module = tf.saved_model.load(str(garden))
    expected = module.mlm({**inputs, "masked_lm_positions": tf.constant(positions)})

    model = heads.PretrainingModel(CONFIG)
    report = loading.load(str(garden), name_table.named_variables(model))
    missing = ("cls/seq_relationship/output_weights", "cls/seq_relationship/output_bias")
    assert report.missing == missing and report.unused == ()
    encoded = model.encoder(word_ids, mask, types)
    masked = tf.gather(encoded["sequence_output"], positions, batch_dims=1)
    logits = model.masked_lm(masked, model.encoder.embeddings.word)
    outputs = {**encoded, "mlm_logits": logits}
    for name in ("sequence_output", "pooled_output", "encoder_outputs", "mlm_logits"):
        ours, theirs = tf.nest.flatten(outputs[name]), tf.nest.flatten(expected[name])
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, atol=TOLERANCE, err_msg=name)


# --- In Python ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lower, normalized, scope", [(True, "the", "module/"), (False, "The", "")])
def test_the_first_generation_is_loaded(lower, normalized, scope, first_generation, capsys):
    module, weights = first_generation(lower, scope=scope)
    loaded = albert_tf.load(module)
    assert capsys.readouterr().out == f"Loaded {module}/variables/variables: pre-trained\n"
    assert loaded.config == CONFIG and loaded.tokenizer.normalize("The") == normalized
    for name, variable in name_table.named_variables(loaded.model).items():
        np.testing.assert_array_equal(variable, weights[name], err_msg=name)


def test_the_garden_is_loaded_without_the_head_that_it_lacks(garden, capsys):
    loaded = albert_tf.load(garden)
    assert_says(capsys.readouterr().out, "cls/seq_relationship")
    assert len(loaded.fill_mask("the [MASK]")[0][0]["piece"]) > 0
    with refuses("sentence_order"):
        loaded.sentence_order("a", "b")
    encoder = albert_tf.AlbertModel.from_checkpoint(garden)
    pooled = encoder(loaded.tokenizer("the man"))["pooled_output"][0]
    expected = loaded.embed("the man", pooling="pooled")
    np.testing.assert_allclose(pooled, expected, atol=TOLERANCE)


# --- Fine-tuning ---------------------------------------------------------------------------------


@pytest.fixture
def fine_tune(run_main, tmp_path):
    """Trains for a step from a module: fine_tune(script, module, ...) -> weights before, after."""

    def train(script, module, **flags):
        common = {"do_train": True, "save_checkpoints_steps": 1, "max_seq_length": 64, "seed": 1}
        common |= {"learning_rate": 1e-2, "output_dir": tmp_path / "out"}
        run_main(script, albert_hub_module_handle=module, **common | flags)
        return [
            readers.TensorFlowReader(str(tmp_path / f"out/model.ckpt-{step}")) for step in (0, 1)
        ]

    return train


RTE = {"data_dir": DATA / "glue_data", "task_name": "RTE", "train_step": 1, "warmup_step": 0}
RTE |= {"train_batch_size": 2}
SQUAD = {
    "train_file": DATA / "squad_data" / "train_v1.1.json",
    "max_query_length": 12,
    "doc_stride": 40,
    "train_batch_size": 13,
    "num_train_epochs": 0.34,
    "warmup_proportion": 0,
}


def assert_all_trained(before, after, weights, without=()):
    """The encoder began with the module's weights, and each of them has moved."""
    names = [name for name in weights if name_table.is_encoder(name)]
    assert len(names) == 25
    for name in names:
        np.testing.assert_array_equal(before[name], weights[name], err_msg=name)
        moved = not np.array_equal(before[name], after[name])
        assert moved == (name not in without), name


def module_weights(module):
    reader = readers.TensorFlowReader(f"{module}/variables/variables")
    return {name: reader[name] for name in reader.shapes}


def test_classifier_from_the_garden(garden, fine_tune, capsys):
    before, after = fine_tune(run_classifier, garden, **RTE, spm_model_file="from_tf_hub")
    assert_all_trained(before, after, module_weights(garden))
    assert f"loaded 25 variables from {garden}/variables/variables" in capsys.readouterr().out


def test_squad_from_the_first_generation(first_generation, fine_tune, capsys, tmp_path):
    """With a config file of one's own, which comes before the module's; its casing does not."""
    module, weights = first_generation(False, CASED)
    config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0)
    (tmp_path / "config.json").write_text(config.to_json_string())
    flags = SQUAD | {"albert_config_file": tmp_path / "config.json", "do_lower_case": True}
    before, after = fine_tune(run_squad, module, **flags)
    pooler = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")  # SQuAD's heads don't read it
    assert_all_trained(before, after, weights, without=pooler)
    assert_says(capsys.readouterr().out, f"--do_lower_case=true ... {module}")
    kept = AlbertConfig.from_json_file(str(tmp_path / "out" / "albert_config.json"))
    assert kept == config


def test_the_modules_casing_and_vocabulary_make_the_records(
    first_generation, fine_tune, capsys, tmp_path
):
    module, _ = first_generation(False, CASED)
    fine_tune(run_classifier, module, **RTE)
    assert "--do_lower_case=true" not in capsys.readouterr().out  # nothing is ignored
    golden = read_arrays(DATA / "glue_features.npz")["rte/spm_cased/train/input_ids"]
    schema = schemas.classification_schema(64)
    (path,) = (tmp_path / "out").glob("rte_train-*.tf_record")
    rows = input_pipeline.load_arrays(str(path), schema)["input_ids"]
    short = (golden[: len(rows), -1] == 0) & (rows[:, 23] == 0)
    assert short.any()
    np.testing.assert_array_equal(rows[short, :24], golden[: len(rows)][short])
