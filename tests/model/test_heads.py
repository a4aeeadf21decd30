# SPDX-License-Identifier: Apache-2.0
"""The heads: the original's logits, losses, gradients and metrics."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import loading, name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import fused, heads, objectives
from tests import GOLDEN, read_arrays, tiny
from tests.checkpoints.golden_models import (
    FORWARD,
    TYPES,
    VARIANTS,
    WORDS,
    assert_close,
    golden_config,
    gradients_and_norm,
    record_look_ups,
)

GRADIENT = 1e-5  # absolute, as tests/golden/README.md says


def golden_model(directory, config_path=None, **kwargs):
    """The pre-training model with the original's weights, and its variables by name."""
    path = config_path or directory / "albert_config.json"
    model = heads.PretrainingModel(AlbertConfig.from_json_file(str(path)), **kwargs)
    named = name_table.named_variables(model)
    assert not loading.load(str(directory / "model.ckpt"), named).missing
    return model, named


def features_of(path, prefix=""):
    arrays = read_arrays(path)
    names = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): tf.constant(arrays[name]) for name in names}


def golden_features(variant):
    return features_of(GOLDEN / "model" / variant / "inputs.npz")


def loss_gradients_and_norm(model, named, features, by_rows=(), **kwargs):
    looked_up = record_look_ups(model)
    with tf.GradientTape() as tape:
        terms = objectives.pretraining_terms(features, model(features, training=True))
        loss = objectives.pretraining_loss(terms, **kwargs)
    return loss, *gradients_and_norm(tape, loss, named, looked_up[-1], by_rows)


# --- The golden figures ---------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_losses_are_the_originals(variant):
    expected = read_arrays(GOLDEN / "model" / variant / "outputs.npz")
    model, _ = golden_model(GOLDEN / "model" / variant)
    features = golden_features(variant)
    outputs = model(features)
    masked, order = outputs["masked_lm_logits"], outputs["sentence_order_logits"]
    assert masked.shape == [4, 6, 300]
    flat = tf.reshape(masked, [24, 300])
    assert_close(flat, expected["mlm_logits"])
    assert_close(tf.nn.log_softmax(flat), expected["mlm_log_probs"])
    assert_close(order, expected["sop_logits"])
    assert_close(tf.nn.log_softmax(order), expected["sop_log_probs"])

    terms = objectives.pretraining_terms(features, outputs)
    masked_losses, order_losses = terms["masked_lm_loss"][0], terms["sentence_order_loss"][0]
    assert_close(tf.reshape(masked_losses, [-1]), expected["mlm_per_example_loss"])
    assert_close(order_losses, expected["sop_per_example_loss"])
    assert_close(objectives.pretraining_loss(terms), expected["total_loss"])
    same = read_arrays(GOLDEN / "model" / variant / "outputs_noeinsum.npz")
    assert_close(objectives.pretraining_loss(terms), same["total_loss"])
    alone = objectives.pretraining_loss(terms, sentence_loss_weight=0)
    assert_close(alone, expected["mlm_loss"])
    half = objectives.pretraining_loss(terms, sentence_loss_weight=0.5)
    assert_close(half, expected["mlm_loss"] + 0.5 * expected["sop_loss"])


@pytest.mark.parametrize(
    "variant, options, compiled",
    [
        *((variant, {}, False) for variant in VARIANTS),
        ("base", {"use_one_hot_embeddings": True}, False),
        pytest.param("base", {}, True, marks=pytest.mark.long),
        pytest.param("base", {"recompute": True}, True, marks=pytest.mark.long),
    ],
)
def test_gradients_are_the_originals(variant, options, compiled, monkeypatch):
    monkeypatch.setattr(fused, "SMALLEST", 0)
    folder = GOLDEN / "model" / variant
    expected = read_arrays(folder / "gradients.npz")
    kinds = json.loads((folder / "variables.json").read_text())["gradient_kinds"]
    by_rows = [name for name, kind in kinds.items() if kind == "IndexedSlices"]
    model, named = golden_model(folder, **options)
    with fused.compiled(compiled):
        _, gradients, norm = loss_gradients_and_norm(
            model, named, golden_features(variant), by_rows
        )
    assert set(gradients) == {name for name in expected if not name.startswith("__")}
    for name, gradient in gradients.items():
        assert_close(gradient, expected[name], GRADIENT)
    dense = tf.linalg.global_norm(list(gradients.values()))
    expected |= json.loads((folder / "global_norms.json").read_text())
    for key in ("__global_norm_dense", "dense_true_norm", "original_one_hot_path"):
        np.testing.assert_allclose(dense, expected[key], rtol=1e-5)
    for key in ("__global_norm_original_indexedslices", "original_lookup_path_unaggregated"):
        np.testing.assert_allclose(norm, expected[key], rtol=1e-5)


def test_a_row_without_any_token_gives_the_originals_loss():
    expected = read_arrays(GOLDEN / "model" / "base" / "allmasked_row.npz")
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
        assert_close(objectives.pretraining_loss(terms), np.float32(total))
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
    loss, gradients, _ = loss_gradients_and_norm(model, named, features)
    assert_close(loss, read_arrays(GOLDEN / "model" / "base" / "outputs.npz")["sop_loss"])
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())
    assert not np.any(gradients["cls/predictions/output_bias"])
    assert np.any(gradients["cls/seq_relationship/output_weights"])
    terms = {"masked_lm_loss": (tf.constant([3.0]), tf.constant([1e-5]))}
    alone = objectives.pretraining_loss(terms, sentence_loss_weight=0)
    assert float(alone) == pytest.approx(1.5)  # 3e-5 / 2e-5


def test_without_sentence_loss_its_head_and_the_pooler_get_no_gradient():
    model, named = golden_model(GOLDEN / "model" / "base")
    features = golden_features("base")
    _, gradients, _ = loss_gradients_and_norm(model, named, features, sentence_loss_weight=0.0)
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
    given = {"sentence_loss_weight": weight}
    shares = [loss_gradients_and_norm(model, named, p, totals=totals, **given) for p in parts]

    loss, gradients, _ = loss_gradients_and_norm(model, named, whole, **given)
    assert_close(shares[0][0] + shares[1][0], loss, 1e-6)
    for name, gradient in gradients.items():
        assert_close(shares[0][1][name] + shares[1][1][name], gradient, 2e-6)


# --- The heads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_logits_are_float32_and_near(name):
    tf_keras.mixed_precision.set_global_policy(name)
    model, named = golden_model(GOLDEN / "model" / "base")
    tf_keras.mixed_precision.set_global_policy("float32")  # a model keeps that of its making
    features = golden_features("base")
    outputs = model(features)
    assert {output.dtype for output in outputs.values()} == {tf.float32}
    loss, gradients, _ = loss_gradients_and_norm(model, named, features)
    expected = read_arrays(GOLDEN / "model" / "base" / "outputs.npz")["total_loss"]
    assert loss.dtype == tf.float32
    assert float(loss) == pytest.approx(float(expected), rel=5e-3)
    assert float(loss) != pytest.approx(float(expected), rel=1e-7)
    assert {gradient.dtype for gradient in gradients.values()} == {tf.float32}


def test_token_classifier_on_the_sequence_output():
    inputs = golden_features("base")
    model, padded = (
        heads.TokenClassificationModel(golden_config(), 5, predicted_length=length)
        for length in (None, 40)
    )
    named, others = name_table.named_variables(model), name_table.named_variables(padded)
    random = np.random.RandomState(0)
    for name in ("output_weights", "output_bias"):
        named[name].assign(random.standard_normal(named[name].shape))
    for name, variable in others.items():
        variable.assign(named[name])
    x = model.encoder(inputs)["sequence_output"]
    expected = np.einsum("bth,ch->btc", x, named["output_weights"]) + named["output_bias"].numpy()
    logits = model(inputs)["logits"]
    assert_close(logits, expected)
    # Outputs of prediction have one shape; training pays for no padding.
    longer = padded(inputs)["logits"].numpy()
    length = logits.shape[1]
    assert longer.shape[1] == 40 > length and not longer[:, length:].any()
    assert_close(longer[:, :length], expected)
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


# --- Classification and multiple choice ---------------------------------------------------------


NONE = {"dropout_prob": 0.0}
FINE_TUNED = {  # class, its options, terms
    **{
        name: (
            heads.ClassificationModel, NONE | {"num_outputs": n}, objectives.classification_terms
        )
        for name, n in (("classifier2_cola", 2), ("classifier3_mnli", 3))
    },
    "squad_v1": (heads.SquadV1Model, {}, objectives.squad_v1_terms),
    "squad_v2": (
        heads.SquadV2Model, NONE | {"start_n_top": 3, "end_n_top": 4}, objectives.squad_v2_terms
    ),
}  # fmt: skip


def fine_tuned_model(name, **options):
    """The model with the original's weights, its variables by name, and the inputs."""
    config = AlbertConfig.from_json_file(str(GOLDEN / "heads" / "albert_config.json"))
    kind, own, _ = FINE_TUNED[name]
    model = kind(config, **own | options)
    named = name_table.named_variables(model)
    report = loading.load(str(GOLDEN / "heads" / name), named)
    assert not report.missing and not report.unused
    table = json.loads((GOLDEN / "heads" / name / "variables.json").read_text())
    assert [[key, variable.shape.as_list()] for key, variable in named.items()] == table
    arrays = read_arrays(GOLDEN / "heads" / name / "inputs.npz")
    return model, named, {key: tf.constant(value) for key, value in arrays.items()}


@pytest.mark.parametrize("name", FINE_TUNED)
def test_losses_and_gradients_are_the_originals(name):
    model, named, features = fine_tuned_model(name)
    expected = read_arrays(GOLDEN / "heads" / name / "outputs.npz")
    golden = read_arrays(GOLDEN / "heads" / name / "gradients.npz")
    looked_up = record_look_ups(model)
    with tf.GradientTape() as tape:
        outputs = model(features, training=True)
        terms = FINE_TUNED[name][2](features, outputs)
        loss = objectives.mean_loss(terms)
    found, norm = gradients_and_norm(tape, loss, named, looked_up[-1], [TYPES, WORDS])
    np.testing.assert_allclose(norm, golden["__global_norm_original_indexedslices"], rtol=1e-5)
    without = {key for key, gradient in found.items() if gradient is None}
    if name in SQUAD:
        assert_close(loss, expected["total_loss"])
        assert without == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    else:
        assert_close(loss, expected["loss"])
        assert_close(outputs["logits"], expected["logits"])
        assert_close(tf.nn.softmax(outputs["logits"]), expected["probabilities"])
        np.testing.assert_array_equal(tf.argmax(outputs["logits"], 1), expected["predictions"])
        assert_close(terms["eval_loss"][0], expected["per_example_loss"])
        assert not without
    if name == "squad_v1":
        assert_predicts(outputs, squad_outputs(name, "outputs"))
    if name == "squad_v2":
        for side in ("start", "end"):
            log_probs = tf.nn.log_softmax(outputs[f"{side}_logits"])
            assert_close(log_probs, expected[f"train_{side}_log_probs"])
        assert_close(outputs["cls_logits"], expected["train_cls_logits"])
    dense = {key: gradient for key, gradient in found.items() if gradient is not None}
    for key, gradient in dense.items():
        assert_close(gradient, golden[key], GRADIENT)
    norm = tf.linalg.global_norm(list(dense.values()))
    np.testing.assert_allclose(norm, golden["__global_norm_dense"], rtol=1e-5)


@pytest.mark.parametrize("shape", [[3, 1], [3]])
def test_regression_terms(shape):
    predicted, labels = np.float32([[0.5], [-1.0], [4.0]]), np.float32([0.0, 3.0, 4.25])
    features = {"label_ids": labels.reshape(shape)}
    terms = objectives.regression_terms(features, {"logits": predicted})
    assert terms.keys() == {"eval_loss"}
    losses, weights = terms["eval_loss"]
    np.testing.assert_allclose(losses, [0.25, 16.0, 0.0625])
    np.testing.assert_array_equal(weights, np.ones(3))
    np.testing.assert_allclose(objectives.mean_loss(terms), (0.25 + 16.0 + 0.0625) / 3)
    np.testing.assert_allclose(objectives.mean_loss(terms, {"eval_loss": 5.0}), 16.3125 / 5)


def test_each_option_is_scored_as_a_text_of_its_own():
    """12 rows by hand: options are not mixed up, neither with each other nor among questions."""
    config = AlbertConfig.from_dict(tiny.CONFIG | tiny.NO_DROPOUT)
    model = heads.MultipleChoiceModel(config)
    rng = np.random.default_rng(0)
    length = rng.integers(4, 16, size=(12, 1))
    mask = (np.arange(16) < length).astype(np.int32)
    rows = {
        "input_ids": rng.integers(5, 3000, size=(12, 16), dtype=np.int32) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(16) >= length // 2).astype(np.int32) * mask,
    }
    questions = {name: tf.constant(values.reshape(3, 64)) for name, values in rows.items()}
    logits = model(questions)["logits"].numpy()
    single = heads.ClassificationModel(config, 1)
    ours, theirs = map(name_table.named_variables, (single, model))
    assert ours.keys() == theirs.keys()
    for name, variable in ours.items():
        variable.assign(theirs[name])
    wanted = single({name: tf.constant(values) for name, values in rows.items()})["logits"]
    assert logits.shape == (3, 4) and len(np.unique(logits)) == 12
    np.testing.assert_allclose(logits, wanted.numpy().reshape(3, 4), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (heads.ClassificationModel, {"num_outputs": 2}),
        (heads.MultipleChoiceModel, {}),
        (heads.TokenClassificationModel, {"num_labels": 2}),
    ],
)
def test_a_tenth_of_what_a_classifier_reads_is_dropped_in_training(kind, options, monkeypatch):
    read, call = [], heads.OutputWeights.call
    monkeypatch.setattr(
        heads.OutputWeights, "call", lambda self, x: read.append(x) or call(self, x)
    )
    tf_keras.utils.set_random_seed(1)
    model = kind(AlbertConfig.from_dict(tiny.CONFIG | tiny.NO_DROPOUT), **options)
    features = {"input_ids": tf.ones([64, 16], tf.int32)}
    for training, share in ((False, 0.0), (True, 0.1)):
        model(features, training=training)
        assert np.mean(read.pop() == 0) == pytest.approx(share, abs=0.03)


def test_the_heads_of_tasks_begin_with_the_originals_deviations():
    tf_keras.utils.set_random_seed(1)
    config = AlbertConfig.from_dict(tiny.CONFIG | {"initializer_range": 0.5})
    models = heads.ClassificationModel(config, 9), heads.SquadV1Model(config)
    for model in (*models, heads.SquadV2Model(config)):
        for name, variable in name_table.named_variables(model).items():
            if variable.shape.rank == 2 and not name_table.is_encoder(name):
                stddev = 0.02 if name.endswith("output_weights") else 0.5
                assert np.abs(variable).max() <= 2 * stddev, name
                assert np.std(variable) > 0.5 * stddev, name


# --- SQuAD --------------------------------------------------------------------------------------


SQUAD = ("squad_v1", "squad_v2")


def squad_outputs(name, kind):
    outputs = read_arrays(GOLDEN / "heads" / name / f"{kind}.npz")
    # Under its own names; what the original calls log_prob here are logits.
    renamed = {"start_log_prob": "start_logits", "end_log_prob": "end_logits"}
    return {renamed.get(key, key): value for key, value in outputs.items()}


def assert_predicts(outputs, expected):
    for name, values in outputs.items():
        if name.endswith("index"):
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
        else:
            assert values.dtype == tf.float32
            np.testing.assert_allclose(values, expected[name], rtol=0, atol=FORWARD, err_msg=name)


@pytest.mark.parametrize(
    "name, kind",
    [*((name, "predict_outputs") for name in SQUAD), ("squad_v1", "predict_outputs_noeinsum")],
)
def test_predictions_are_the_originals_in_any_batch(name, kind):
    model, _, features = fine_tuned_model(name)
    outputs, expected = model(features), squad_outputs(name, kind)
    assert outputs.keys() == {
        "squad_v1": {"start_logits", "end_logits"},
        "squad_v2": {"start_top_index", "start_top_log_probs", "end_top_index",
                     "end_top_log_probs", "cls_logits"},
    }[name]  # fmt: skip
    assert_predicts(outputs, expected)
    for row in (0, 5):
        one = {key: values[row : row + 1] for key, values in features.items()}
        assert_predicts(model(one), {key: v[row : row + 1] for key, v in expected.items()})


@pytest.mark.parametrize("side", ["start", "end"])
def test_scores_of_v2_outside_of_the_beams_are_the_originals(side):
    model, _, features = fine_tuned_model("squad_v2", **{f"{side}_n_top": 24})
    outputs, expected = model(features), squad_outputs("squad_v2", "predict_outputs")
    expected = expected[f"{side}_log_probs_all"]
    places, scores = (
        np.reshape(outputs[f"{side}_top_{kind}"], expected.shape) for kind in ("index", "log_probs")
    )
    assert_close(np.take_along_axis(scores, np.argsort(places), -1), expected)


def test_v2_dropout_is_on_in_training_alone():
    usual = heads.SquadV2Model(golden_config()).get_config()
    assert {"start_n_top": 5, "end_n_top": 5, "dropout_prob": 0.1}.items() <= usual.items()
    model, _, features = fine_tuned_model("squad_v2", dropout_prob=0.5)
    expected = squad_outputs("squad_v2", "outputs")["train_cls_logits"]
    np.testing.assert_allclose(model(features)["cls_logits"], expected, atol=FORWARD)
    assert np.abs(model(features, training=True)["cls_logits"] - expected).max() > 1e-2


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", SQUAD)
def test_mixed_precision_scores_are_float32_finite_and_near(name, precision):
    tf_keras.mixed_precision.set_global_policy(precision)
    model, named, features = fine_tuned_model(name)
    tf_keras.mixed_precision.set_global_policy("float32")  # a model keeps that of its making
    with tf.GradientTape() as tape:
        loss = objectives.mean_loss(FINE_TUNED[name][2](features, model(features, training=True)))
    expected = float(read_arrays(GOLDEN / "heads" / name / "outputs.npz")["total_loss"])
    assert float(loss) == pytest.approx(expected, rel=2e-2)
    assert float(loss) != pytest.approx(expected, rel=1e-7)
    for gradient in tape.gradient(loss, list(named.values())):
        assert gradient is None or np.isfinite(tf.convert_to_tensor(gradient)).all()
    outputs, expected = model(features), squad_outputs(name, "predict_outputs")
    for key, values in outputs.items():
        assert values.dtype in (tf.float32, tf.int32) and np.isfinite(values).all()
        if key.startswith("start") and values.dtype == tf.float32:
            np.testing.assert_allclose(values, expected[key], rtol=0, atol=0.1)


def test_v2_beams_longer_than_the_sequence_hold_what_is_possible_first():
    model, _, features = fine_tuned_model("squad_v2", start_n_top=5, end_n_top=6)
    short = {key: values[:1, :4] for key, values in features.items() if values.shape.rank == 2}
    short["input_mask"], short["p_mask"] = tf.ones([1, 4], tf.int32), tf.constant([[0, 1, 0, 0]])
    padded = {key: tf.pad(values, [[0, 0], [0, 8]]) for key, values in short.items()}
    padded["p_mask"] = tf.pad(short["p_mask"], [[0, 0], [0, 8]], constant_values=1)
    found, expected = model(short), model(padded)
    assert found["start_top_index"].shape == [1, 5] and found["end_top_index"].shape == [1, 30]
    names = ("start_top_index", "start_top_log_probs")
    assert_predicts(*({key: each[key][:, :3] for key in names} for each in (found, expected)))
    # The three possible ends of the three possible starts; the rest has no probability.
    ends, wanted = (tf.reshape(each["end_top_log_probs"], [5, 6]) for each in (found, expected))
    np.testing.assert_allclose(ends[:3, :3], wanted[:3, :3], atol=1e-6)
    assert np.all(ends[:, 3:] < -1e29)


def test_v1_padding_has_no_score():
    model, _, features = fine_tuned_model("squad_v1", predicted_length=30)
    outputs, expected = model(features), squad_outputs("squad_v1", "predict_outputs")
    real = np.pad(features["input_mask"], [(0, 0), (0, 6)]) > 0
    assert not real.all(axis=1).any() and real.any(axis=1).all()
    for name, logits in outputs.items():
        assert logits.shape == [6, 30]
        np.testing.assert_allclose(
            logits.numpy()[real], expected[name][real[:, :24]], atol=FORWARD, err_msg=name
        )
        assert (logits.numpy()[~real] == -np.inf).all()
    assert model(features, training=True)["start_logits"].shape == [6, 24]
