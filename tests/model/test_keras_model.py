# SPDX-License-Identifier: Apache-2.0
"""The models in tf_keras: summary, fit, saving, loading, without a warning."""

import dataclasses
import logging
import os
import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import albert_tf
from albert_tf.checkpoints import name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, optimization
from albert_tf.model.encoder import AlbertModel
from tests import tiny
from tests.errors import assert_names, refuses
from tests.model.small_config import PLAIN
from tests.model.test_muon import no_variable
from tests.processes import run_python

CONFIG = dataclasses.replace(PLAIN, num_hidden_groups=2, inner_group_num=2, initializer_range=0.3)
ONE_BLOCK = dataclasses.replace(  # tracing its training takes less time
    CONFIG, num_hidden_layers=1, num_hidden_groups=1, inner_group_num=1
)
MODELS = {
    "encoder": (AlbertModel, {}),
    "pretraining": (heads.PretrainingModel, {}),
    "classifier": (heads.ClassificationModel, {"num_outputs": 3, "dropout_prob": 0.2}),
    "choice": (heads.MultipleChoiceModel, {"choices": 2}),
    "tokens": (heads.TokenClassificationModel, {"num_labels": 5, "predicted_length": 11}),
    "squad_v1": (heads.SquadV1Model, {"predicted_length": 11}),
    "squad_v2": (heads.SquadV2Model, {"start_n_top": 2, "end_n_top": 3}),
}
POLICIES = [
    "float32",
    *(pytest.param(f"mixed_{name}", marks=pytest.mark.long) for name in ("bfloat16", "float16")),
]


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Fails a test in which Python, absl or TensorFlow warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert not [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def features(rows=8, length=10):
    random = np.random.RandomState(0)
    return {
        "input_ids": random.randint(0, 40, [rows, length]).astype(np.int32),
        "input_mask": (np.arange(length) < random.randint(4, length, [rows, 1])).astype(np.int32),
        "token_type_ids": random.randint(0, 2, [rows, length]).astype(np.int32),
    }


def inputs_of(name):
    more = {"p_mask": np.zeros([8, 10], np.int32)} if name == "squad_v2" else {}
    if name == "pretraining":
        more = {"masked_lm_positions": np.array([[1, 3]] * 8, np.int32)}
    return features() | more


def make(kind, config=CONFIG, **options):
    model, own = MODELS[kind]
    return model(config, **own, **options)


def assert_same(found, expected):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def compiled(model, rate=1e-2):
    model.compile(
        optimization.AdamW(rate, global_clipnorm=1.0),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        ["accuracy"],
    )
    return model


def batches():
    given = features()
    labels = given["input_ids"][:, 1] % 2
    return tf.data.Dataset.from_tensor_slices((given, labels)).batch(4)


# --- Saving --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("encoder", "pretraining", "classifier", "squad_v2"),
        *(pytest.param(name, marks=pytest.mark.long) for name in ("choice", "tokens", "squad_v1")),
    ],
)
def test_a_saved_model_is_the_same_again(name, tmp_path):
    model, given = make(name), inputs_of(name)
    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert loaded.config == CONFIG
    assert_same(loaded(given), model(given))
    for ending in (".weights.h5", ".h5", ""):  # every weight is in files of weights
        path = str(tmp_path / f"file{ending}")
        model.save_weights(path)
        for variable in loaded.variables:
            variable.assign(tf.zeros_like(variable))
        status = loaded.load_weights(path)
        if not ending:
            status.assert_consumed()
        assert_same(loaded.variables, model.variables)


@pytest.mark.parametrize("form", ["model.keras", pytest.param("directory", marks=pytest.mark.long)])
def test_what_is_frozen_stays_frozen(form, tmp_path):
    model = make("classifier", ONE_BLOCK)
    model.encoder.trainable = False
    model.encoder.pooler.trainable = True
    model.compile(metrics=["accuracy"])
    model(features())  # a directory needs the shapes
    model.save(tmp_path / form)
    loaded = tf_keras.models.load_model(tmp_path / form)
    assert_same(loaded.trainable_variables, model.trainable_variables)
    assert not loaded.encoder.trainable and loaded.encoder.pooler.trainable
    assert loaded.get_config() == model.get_config()


def test_a_frozen_encoder_inside_another_model_stays_frozen(tmp_path):
    names = ("input_ids", "input_mask", "token_type_ids")
    given = {name: tf_keras.Input([None], dtype=tf.int32, name=name) for name in names}
    encoder = AlbertModel(ONE_BLOCK, trainable=False)
    encoder.embeddings.trainable = False
    model = tf_keras.Model(given, tf_keras.layers.Dense(2)(encoder(given)["pooled_output"]))
    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(features()), model(features()))
    assert len(loaded.trainable_variables) == 2
    (inner,) = (layer for layer in loaded.layers if isinstance(layer, AlbertModel))
    inner.trainable = True
    assert len(loaded.trainable_variables) == len(model.variables)


@pytest.mark.parametrize("name", MODELS)
def test_a_config_makes_the_same_architecture(name):
    options = {"name": "one", "dtype": "mixed_bfloat16", "recompute": True}
    model = make(name, **options)
    config = model.get_config()
    assert options.items() <= config.items()
    other = type(model).from_config(config)
    assert getattr(other, "encoder", other)._recompute
    assert other.get_config() == config
    shapes = [variable.shape for variable in model.variables]
    assert [variable.shape for variable in other.variables] == shapes
    lines = []
    model.summary(print_fn=lines.append)
    count = sum(shape.num_elements() for shape in shapes)
    assert f"Total params: {count} " in "\n".join(lines)


def test_the_precision_of_a_model_holds_for_its_parts(tmp_path):
    model = make("classifier", dtype="mixed_bfloat16")
    kinds = {layer.compute_dtype for layer in model.submodules if hasattr(layer, "compute_dtype")}
    assert kinds == {"bfloat16"}
    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    assert loaded.encoder.attention_blocks[0].query.compute_dtype == "bfloat16"
    assert_same(loaded(features()), model(features()))


@pytest.mark.long
@pytest.mark.parametrize("kind", optimization.OPTIMIZERS.values())
@pytest.mark.parametrize("form", [".keras", ".h5", ""])
def test_a_model_around_the_encoder_is_saved_with_its_optimizer(kind, form, tmp_path):
    ids = tf_keras.Input([None], dtype="int32")
    pooled = make("encoder", ONE_BLOCK)(ids)["pooled_output"]
    model = tf_keras.Model(ids, tf_keras.layers.Dense(2)(pooled))
    model.compile(kind(1e-3), tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    given = features()["input_ids"]
    model.fit(given, given[:, 1] % 2, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras calls .h5 a legacy format
        model.save(tmp_path / f"model{form}")
    loaded = tf_keras.models.load_model(tmp_path / f"model{form}")
    np.testing.assert_allclose(loaded(given), model(given), atol=1e-6)
    assert loaded.optimizer.decayed is optimization.is_decayed


# --- Training ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("policy_name", POLICIES)
def test_fit_learns_and_goes_on_after_loading(policy_name, tmp_path):
    tf_keras.mixed_precision.set_global_policy(policy_name)
    tf_keras.utils.set_random_seed(0)
    model = compiled(make("classifier", ONE_BLOCK))
    history = model.fit(batches(), epochs=15, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.save(tmp_path / "model.keras")
    loaded = tf_keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded.optimizer.variables, model.optimizer.variables)
    assert loaded.evaluate(batches(), verbose=0) == model.evaluate(batches(), verbose=0)
    loaded.fit(batches(), verbose=0)


@pytest.mark.long
def test_fit_on_two_replicas(tmp_path):
    words = ["-W", "error", "-m", "tests.model.test_keras_model", tmp_path / "model.keras"]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}  # TensorFlow looks for GPUs, and says so
    ran = run_python(*words, env=quiet)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "2 replicas\n", "")


def fit_on_two_replicas(path):
    """Fits, saves and loads on two virtual devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        tf_keras.utils.set_random_seed(0)
        model = compiled(make("classifier", ONE_BLOCK))
    before = [variable.numpy() for variable in model.trainable_variables]
    model.fit(batches(), epochs=2, verbose=0)
    changed = [np.any(v != old) for v, old in zip(model.trainable_variables, before, strict=True)]
    assert all(changed)
    model.save(path)
    loaded = tf_keras.models.load_model(path)
    assert_same(loaded(features()), model(features()))
    print(strategy.num_replicas_in_sync, "replicas")


@pytest.mark.long
def test_variables_without_a_gradient_stay_without_a_warning():
    model = make("squad_v1", ONE_BLOCK)
    model.compile(
        optimization.LAMB(optimization.PolynomialDecayWithWarmup(1e-2, 10)),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    pooler = model.encoder.pooler.kernel.numpy()
    labels = dict.fromkeys(("start_logits", "end_logits"), np.ones([8], np.int32))
    model.fit(features(), labels, verbose=0)
    np.testing.assert_array_equal(model.encoder.pooler.kernel, pooler)


def test_the_gradient_is_clipped_as_a_dense_one():
    table = tf.Variable(np.zeros([4, 2], np.float32))
    twice = tf.IndexedSlices(tf.constant([[3.0, 0.0], [3.0, 0.0]]), tf.constant([1, 1]), [4, 2])
    model = optimization.AdamW(1.0, weight_decay_rate=0.0, beta_1=0.0, beta_2=0.0)
    model.global_clipnorm = 1.0
    model.apply_gradients([(twice, table)])
    np.testing.assert_array_equal(model.adam_m[0], [[0, 0], [1, 0], [0, 0], [0, 0]])


@pytest.mark.parametrize("kind", optimization.OPTIMIZERS.values())
def test_an_optimizer_is_made_again_of_its_config(kind):
    schedule = optimization.PolynomialDecayWithWarmup(1e-3, 100, 10, 2.0, 3)
    given = {"weight_decay_rate": 0.1, "beta_1": 0.8, "epsilon": 1e-7, "global_clipnorm": 2.0}
    if kind is optimization.Muon:
        given |= {"momentum": 0.5, "orthogonalized": no_variable, "product_dtype": "float32"}
    first = kind(schedule, **given)
    config = tf_keras.saving.serialize_keras_object(first)
    other = tf_keras.saving.deserialize_keras_object(config)
    assert type(other) is kind and other.decayed is optimization.is_decayed
    assert config["config"]["decayed"] == "albert_tf>is_decayed"
    rule = tf_keras.saving.serialize_keras_object(optimization.is_decayed)  # of version 0.1.0
    earlier = first.get_config() | {"decayed": rule, "weight_decay": 0.5}
    again = kind.from_config(earlier)
    assert again.decayed is first.decayed and again.weight_decay_rate == first.weight_decay_rate
    with pytest.warns(UserWarning, match="lambda"):  # of Keras
        config = kind(schedule, decayed=lambda variable: True).get_config()
    assert config["decayed"]["class_name"] == "__lambda__"
    assert {name: getattr(other, name) for name in given} == given
    assert other.get_config() == first.get_config()
    for step in (0, 5, 50):
        assert float(other._learning_rate(step)) == float(schedule(step))


# --- Features and checkpoints --------------------------------------------------------------------


def test_features_may_have_the_names_of_records_or_of_a_tokenizer():
    model, given = make("classifier"), features()
    names = ("input_ids", "attention_mask", "segment_ids")
    renamed = dict(zip(names, given.values(), strict=True))
    np.testing.assert_array_equal(model(renamed)["logits"], model(given)["logits"])
    encoder = model.encoder
    assert_same(encoder(given), encoder(*(given[n] for n in given)))
    ids = {"input_ids": given["input_ids"]}
    assert_same(encoder(ids), encoder(given["input_ids"]))
    for names in (
        ("input_word_ids", "input_mask", "input_type_ids"),  # of TF Hub
        ("token_ids", "padding_mask", "segment_ids"),  # of KerasHub
    ):
        assert_same(model(dict(zip(names, given.values(), strict=True))), model(given))
    with refuses("input_ids ... input_mask ... token_type_ids"):
        model({"ids": given["input_ids"]})


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float32, bool, list])
@pytest.mark.parametrize("name", MODELS)
def test_numbers_of_any_type_are_ids(name, kind):
    given = inputs_of(name)
    if name == "squad_v2":
        given["start_positions"] = np.array([[3]] * 8, np.int32)
    masks = {"input_mask", "p_mask"} if kind is bool else {*given}
    others = {
        key: (values.tolist() if kind is list else values.astype(kind)) if key in masks else values
        for key, values in given.items()
    }
    model = make(name)
    for training in (False, True):
        found, expected = (
            (tf_keras.utils.set_random_seed(0), model(each, training=training))[1]
            for each in (others, given)
        )
        assert_same(found, expected)


def test_features_may_have_one_row_or_options_apart():
    given, model = features(), make("encoder")
    whole = given | {"input_mask": np.repeat(given["input_mask"][:1], 8, axis=0)}
    assert_same(model(given | {"input_mask": given["input_mask"][:1]}), model(whole))
    apart = {name: values.reshape([8, 2, 5]) for name, values in given.items()}
    model = make("choice")
    assert_same(model(apart), model(given))


@pytest.mark.parametrize(
    "name, values",
    [
        ("input_ids", np.ones([10], np.int32)),
        ("input_ids", np.ones([8, 2, 10], np.int32)),
        ("input_mask", np.ones([8, 9], np.int32)),
        ("token_type_ids", np.ones([7, 10], np.int32)),
        ("input_ids", [[1, 2], [3]]),  # ragged
    ],
)
def test_features_of_other_shapes(name, values):
    values = tf.ragged.constant(values) if isinstance(values, list) else values
    for model in (make("classifier"), make("encoder")):
        with refuses(name):
            model(features() | {name: values})


@pytest.mark.parametrize(
    "name, missing, training",
    [
        ("pretraining", "masked_lm_positions", False),
        ("squad_v2", "p_mask", False),
        ("squad_v2", "start_positions", True),
    ],
)
def test_a_feature_that_only_one_model_needs_is_named(name, missing, training):
    given = {key: value for key, value in inputs_of(name).items() if key != missing}
    with refuses(f"{missing} ... input_ids ... input_mask ... token_type"):
        make(name)(given, training=training)


def test_from_checkpoint(tmp_path, capsys):
    directory = tiny.write_release(tmp_path)
    model = albert_tf.PretrainingModel.from_checkpoint(directory)
    capsys.readouterr()
    encoder = AlbertModel.from_checkpoint(directory, recompute=True)
    assert f"from {directory}/model.ckpt-best" in capsys.readouterr().out
    assert_same(encoder(features()), model.encoder(features()))
    assert encoder.get_config()["recompute"] is True
    with refuses("num_outputs"):
        heads.ClassificationModel.from_checkpoint(directory)
    classifier = heads.ClassificationModel.from_checkpoint(directory, num_outputs=3)
    assert "initialized randomly: output_weights, output_bias" in capsys.readouterr().out
    named = name_table.named_variables(classifier)
    tiny.write_checkpoint(directory / "model.ckpt-best", named)
    again = heads.ClassificationModel.from_checkpoint(str(directory / "model.ckpt-best"))
    assert_same(again(features()), classifier(features()))
    (directory / "albert_config.json").unlink()
    with refuses("albert_config.json ... config.json"):
        AlbertModel.from_checkpoint(directory)
    assert AlbertModel.from_checkpoint(directory, config=model.config).config == model.config


@pytest.mark.parametrize("outputs", [0, -1, 2.0, None])
def test_a_classifier_has_outputs(outputs):
    for kind in (heads.ClassificationModel, heads.TokenClassificationModel):
        with refuses(f"{kind.classes_option} ... 1 ... {outputs}"):
            kind(CONFIG, outputs)


@pytest.mark.parametrize("config", ["english-small", None, {}])
def test_what_is_no_config(config):
    with refuses("config ... AlbertModel.from_checkpoint", repr(config)):
        AlbertModel(config)


def test_texts_are_no_features():
    model = heads.ClassificationModel(AlbertConfig.from_dict(tiny.WIDE), 2)
    texts, labels = ["a film", "a train"], np.array([0, 1])
    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(2)
    model.compile("sgd", "mse")
    for given in ((texts, labels), (np.array(texts), labels), (data,)):
        with refuses("input_ids ... FullTokenizer"):
            model.fit(*given)
        for method in (model.predict, model.evaluate):
            with refuses("input_ids ... albert_tf.load"):
                method(given[0])


LOSS = tf_keras.losses.SparseCategoricalCrossentropy
LOSSES = {"probabilities": LOSS(), "logits": LOSS(from_logits=True)}


@pytest.mark.parametrize("name", ["sparse_categorical_crossentropy", *LOSSES])
def test_a_loss_of_probabilities(name, recwarn):
    model = make("classifier", ONE_BLOCK)
    model.compile("sgd", LOSSES.get(name, name), ["accuracy"], run_eagerly=True)
    model.fit(batches(), verbose=0)
    said = [str(each.message) for each in recwarn if "from_logits" in str(each.message)]
    assert len(said) == (name != "logits")
    for message in said:
        assert_names(message, "SparseCategoricalCrossentropy(from_logits=True)")


if __name__ == "__main__":
    fit_on_two_replicas(sys.argv[1])
