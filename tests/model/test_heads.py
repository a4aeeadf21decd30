# SPDX-License-Identifier: Apache-2.0
"""The pre-training heads: the original's logits, losses, gradients and metrics."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import loading, name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import fused, heads, objectives
from tests import GOLDEN

VARIANTS = ["base", "groups2", "groups3_layers5", "inner2", "noproj", "relu", "tanh_heads2"]
FORWARD, GRADIENT = 2e-5, 1e-5  # absolute, as tests/golden/README.md says


def golden_model(directory, config_path=None, **kwargs):
    """The pre-training model with the original's weights, and its variables by name."""
    path = config_path or directory / "albert_config.json"
    model = heads.PretrainingModel(AlbertConfig.from_json_file(str(path)), **kwargs)
    named = name_table.named_variables(model)
    assert not loading.load(str(directory / "model.ckpt"), named).missing
    return model, named


def features_of(path, prefix=""):
    arrays = np.load(path)
    names = (name for name in arrays.files if name.startswith(prefix))
    return {name.removeprefix(prefix): tf.constant(arrays[name]) for name in names}


def golden_features(variant):
    return features_of(GOLDEN / "model" / variant / "inputs.npz")


def loss_and_gradients(model, named, features, **kwargs):
    with tf.GradientTape() as tape:
        terms = objectives.pretraining_terms(features, model(features, training=True))
        loss = objectives.pretraining_loss(terms, **kwargs)
    gradients = tape.gradient(loss, list(named.values()))
    dense = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
    return loss, dict(zip(named, dense, strict=True))


def assert_close(actual, expected, atol):
    assert tuple(actual.shape) == tuple(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


# --- The original's figures ---------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_losses_are_the_originals(variant):
    expected = np.load(GOLDEN / "model" / variant / "outputs.npz")
    model, _ = golden_model(GOLDEN / "model" / variant)
    features = golden_features(variant)
    outputs = model(features)
    masked, order = outputs["masked_lm_logits"], outputs["sentence_order_logits"]
    assert masked.shape == [4, 6, 300]
    flat = tf.reshape(masked, [24, 300])
    assert_close(flat, expected["mlm_logits"], FORWARD)
    assert_close(tf.nn.log_softmax(flat), expected["mlm_log_probs"], FORWARD)
    assert_close(order, expected["sop_logits"], FORWARD)
    assert_close(tf.nn.log_softmax(order), expected["sop_log_probs"], FORWARD)

    terms = objectives.pretraining_terms(features, outputs)
    masked_losses, order_losses = terms["masked_lm_loss"][0], terms["sentence_order_loss"][0]
    assert_close(tf.reshape(masked_losses, [-1]), expected["mlm_per_example_loss"], FORWARD)
    assert_close(order_losses, expected["sop_per_example_loss"], FORWARD)
    assert_close(objectives.pretraining_loss(terms), expected["total_loss"], FORWARD)
    alone = objectives.pretraining_loss(terms, sentence_loss_weight=0)
    assert_close(alone, expected["mlm_loss"], FORWARD)
    half = objectives.pretraining_loss(terms, sentence_loss_weight=0.5)
    assert_close(half, expected["mlm_loss"] + 0.5 * expected["sop_loss"], FORWARD)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_are_the_originals(variant):
    expected = np.load(GOLDEN / "model" / variant / "gradients.npz")
    model, named = golden_model(GOLDEN / "model" / variant)
    _, gradients = loss_and_gradients(model, named, golden_features(variant))
    names = {name for name in expected.files if not name.startswith("__")}
    assert set(gradients) == names
    for name in names:
        assert_close(gradients[name], expected[name], GRADIENT)
    norm = tf.linalg.global_norm(list(gradients.values()))
    np.testing.assert_allclose(norm, expected["__global_norm_dense"], rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"recompute": False}, {"recompute": True}])
def test_compiled_forms_and_recompute_have_the_originals_gradients(changes, monkeypatch):
    monkeypatch.setattr(fused, "SMALLEST", 0)
    expected = np.load(GOLDEN / "model" / "base" / "gradients.npz")
    model, named = golden_model(GOLDEN / "model" / "base", **changes)
    with fused.compiled():
        _, gradients = loss_and_gradients(model, named, golden_features("base"))
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name], GRADIENT)


def test_one_hot_look_up_has_the_same_gradients():
    expected = np.load(GOLDEN / "model" / "base" / "gradients.npz")
    model, named = golden_model(GOLDEN / "model" / "base", use_one_hot_embeddings=True)
    _, gradients = loss_and_gradients(model, named, golden_features("base"))
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name], GRADIENT)


def test_a_row_without_any_token_gives_the_originals_loss():
    expected = np.load(GOLDEN / "model" / "base" / "allmasked_row.npz")
    model, _ = golden_model(GOLDEN / "model" / "base")
    features = {**golden_features("base"), "input_mask": tf.constant(expected["input_mask"])}
    loss = objectives.pretraining_loss(objectives.pretraining_terms(features, model(features)))
    assert_close(loss, expected["total_loss"], 5e-3)


def test_evaluation_metrics_are_the_originals():
    directory = GOLDEN / "heads" / "pretrain_eval"
    expected = json.loads((directory / "metrics.json").read_text())
    model, _ = golden_model(directory, GOLDEN / "heads" / "albert_config.json")
    means = {name: tf_keras.metrics.Mean() for name in expected if name != "batch_total_losses"}
    for index, total in enumerate(expected["batch_total_losses"]):
        features = features_of(directory / "inputs.npz", f"{index}/")
        terms = objectives.pretraining_terms(features, model(features))
        assert_close(objectives.pretraining_loss(terms), np.float32(total), FORWARD)
        assert terms.keys() == means.keys()
        for name, (values, weights) in terms.items():
            means[name].update_state(values, sample_weight=weights)
    for name, mean in means.items():
        assert mean.result().numpy() == pytest.approx(expected[name], abs=FORWARD), name


# --- The loss -----------------------------------------------------------------------------------


def test_a_batch_without_predictions_leaves_the_sentence_loss():
    model, named = golden_model(GOLDEN / "model" / "base")
    features = golden_features("base")
    features["masked_lm_weights"] = tf.zeros_like(features["masked_lm_weights"])
    loss, gradients = loss_and_gradients(model, named, features)
    assert_close(loss, np.load(GOLDEN / "model" / "base" / "outputs.npz")["sop_loss"], FORWARD)
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())
    assert not np.any(gradients["cls/predictions/output_bias"])
    assert np.any(gradients["cls/seq_relationship/output_weights"])


def test_without_sentence_loss_its_head_and_the_pooler_get_no_gradient():
    model, named = golden_model(GOLDEN / "model" / "base")
    features = golden_features("base")
    _, gradients = loss_and_gradients(model, named, features, sentence_loss_weight=0.0)
    without = {name for name, gradient in gradients.items() if gradient is None}
    assert without == {
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_replicas_add_up_to_the_whole_batch(weight):
    model, named = golden_model(GOLDEN / "model" / "base")
    whole = golden_features("base")
    # 1 row and 3: halves of unequal size and weight, where a mean of means would be another number.
    parts = [{n: v[:1] for n, v in whole.items()}, {n: v[1:] for n, v in whole.items()}]
    counts = [float(tf.reduce_sum(part["masked_lm_weights"])) for part in parts]
    assert counts[0] != counts[1] / 3

    totals = objectives.totals_of(objectives.pretraining_weights(whole))
    shares = [
        loss_and_gradients(model, named, part, totals=totals, sentence_loss_weight=weight)
        for part in parts
    ]

    loss, gradients = loss_and_gradients(model, named, whole, sentence_loss_weight=weight)
    assert_close(shares[0][0] + shares[1][0], loss, 1e-6)
    for name, gradient in gradients.items():
        assert_close(shares[0][1][name] + shares[1][1][name], gradient, 2e-6)


# --- The heads ----------------------------------------------------------------------------------


def test_masked_lm_is_tied_to_the_word_embeddings():
    model, _ = golden_model(GOLDEN / "model" / "base")
    features = golden_features("base")
    before = model(features)["masked_lm_logits"]
    # A row of the table that no input holds moves the logits of only that word.
    word = next(i for i in range(300) if i not in features["input_ids"].numpy())
    model.encoder.embedding_table[word].assign(tf.ones([16]))
    moved = np.abs(model(features)["masked_lm_logits"] - before) > 1e-3
    assert moved[..., word].any()
    moved[..., word] = False
    assert not moved.any()


@pytest.mark.parametrize("name", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_logits_are_float32_and_near(name):
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(name)
    try:
        model, named = golden_model(GOLDEN / "model" / "base")
    finally:
        tf_keras.mixed_precision.set_global_policy(before)
    features = golden_features("base")
    outputs = model(features)
    assert {output.dtype for output in outputs.values()} == {tf.float32}
    loss, gradients = loss_and_gradients(model, named, features)
    expected = np.load(GOLDEN / "model" / "base" / "outputs.npz")["total_loss"]
    assert loss.dtype == tf.float32
    assert float(loss) == pytest.approx(float(expected), rel=5e-3)
    assert float(loss) != pytest.approx(float(expected), rel=1e-7)
    assert {gradient.dtype for gradient in gradients.values()} == {tf.float32}


def test_token_classifier_on_the_sequence_output():
    config = AlbertConfig.from_json_file(str(GOLDEN / "model" / "base" / "albert_config.json"))
    inputs = {
        name: golden_features("base")[name] for name in ("input_ids", "input_mask", "segment_ids")
    }
    model, padded = (
        heads.TokenClassificationModel(config, 5, predicted_length=length) for length in (None, 40)
    )
    named, others = name_table.named_variables(model), name_table.named_variables(padded)
    random = np.random.RandomState(0)
    for name in ("output_weights", "output_bias"):
        named[name].assign(random.standard_normal(named[name].shape))
    for name, variable in others.items():
        variable.assign(named[name])
    x = model.encoder(
        inputs["input_ids"], input_mask=inputs["input_mask"], token_type_ids=inputs["segment_ids"]
    )["sequence_output"]
    expected = np.einsum("bth,ch->btc", x, named["output_weights"]) + named["output_bias"].numpy()
    logits = model(inputs)["logits"]
    assert_close(logits, expected, FORWARD)
    # Outputs of prediction have one shape; training pays for no padding.
    longer = padded(inputs)["logits"].numpy()
    length = logits.shape[1]
    assert longer.shape[1] == 40 > length and not longer[:, length:].any()
    assert_close(longer[:, :length], expected, FORWARD)
    assert padded(inputs, training=True)["logits"].shape[1] == length


def test_tokens_with_a_label_alone_count():
    logits = np.zeros([2, 3, 4], np.float32)
    logits[0, 1, 2] = logits[1, 0, 1] = np.log(5)  # of 4 classes, one has probability 5/8
    features = {  # longer than the logits, which are of a trimmed batch
        "label_ids": tf.constant([[0, 2, 0, 0, 0], [3, 0, 0, 0, 0]]),
        "label_mask": tf.constant([[0, 1, 0, 0, 0], [1, 1, 0, 0, 0]]),
    }
    terms = objectives.token_classification_terms(features, {"logits": tf.constant(logits)})
    losses, weights = terms["eval_loss"]
    np.testing.assert_array_equal(weights, [[0, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(terms["eval_accuracy"][0] * weights, [[0, 1, 0], [0, 1, 0]])
    wanted = [np.log(8 / 5), np.log(8), np.log(4)]
    np.testing.assert_allclose(losses.numpy()[weights.numpy() > 0], wanted, atol=1e-6)
    assert float(objectives.mean_loss(terms)) == pytest.approx(np.mean(wanted), abs=1e-6)
