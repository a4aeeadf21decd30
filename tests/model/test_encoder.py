# SPDX-License-Identifier: Apache-2.0
"""The encoder: the original's outputs, the paper's counts, sharing, dropout, precision."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.eager import context

from albert_tf.checkpoints import name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import encoder, fused
from albert_tf.model.heads import PretrainingModel
from tests import read_arrays
from tests.checkpoints.golden_models import MODELS, VARIANTS, assert_close
from tests.errors import refuses
from tests.model.small_config import PLAIN
from tests.model.test_heads import golden_model

TINY = dataclasses.replace(PLAIN, num_hidden_layers=4)


def golden_encoder(variant, **kwargs):
    """The encoder of a variant with the original's weights."""
    return golden_model(MODELS / variant, **kwargs)[0].encoder


def encode_golden(encoder, variant, **overrides):
    inputs = read_arrays(MODELS / variant / "inputs.npz")
    given = {"input_mask": inputs["input_mask"], "token_type_ids": inputs["segment_ids"]}
    return encoder(inputs["input_ids"], **{**given, **overrides})


def tiny_ids(batch=3, length=10):
    return np.random.RandomState(0).randint(0, TINY.vocab_size, [batch, length]).astype(np.int32)


def record_calls(monkeypatch, *kinds):
    """Records each call of layer classes: the layer and its arguments."""
    calls = []
    for kind in kinds:

        def call(self, *args, _original=kind.call, **kwargs):
            calls.append((self, *args))
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(kind, "call", call)
    return calls


def randomise(model, seed=0):
    """Weights of any size in every variable, so that nothing is 0 or 1 by chance."""
    state = np.random.RandomState(seed)
    for variable in model.trainable_variables:
        variable.assign(state.standard_normal(variable.shape).astype(np.float32) * 0.3)


# --- The golden figures ---------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_output_is_the_originals(variant):
    expected, encoder = read_arrays(MODELS / variant / "outputs.npz"), golden_encoder(variant)
    outputs = encode_golden(encoder, variant)
    for name in ("word_embedding_output", "embedding_output", "sequence_output", "pooled_output"):
        assert_close(outputs[name], expected[name])
    layers = [name for name in expected if name.startswith("encoder_layer_")]
    meta = json.loads((MODELS / variant / "variables.json").read_text())
    assert len(outputs["encoder_outputs"]) == len(layers) == meta["num_encoder_layer_outputs"]
    for index, output in enumerate(outputs["encoder_outputs"]):
        assert_close(output, expected[f"encoder_layer_{index}"])
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    for name, values in read_arrays(MODELS / variant / "outputs_noeinsum.npz").items():
        if name in outputs:  # the loss is compared in test_heads.py
            assert_close(outputs[name], values)
    # Without mask and types:
    outputs = encode_golden(encoder, variant, input_mask=None, token_type_ids=None)
    for name, values in read_arrays(MODELS / variant / "outputs_nomask_notypes.npz").items():
        assert_close(outputs[name], values)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("recompute", [False, True])
def test_chosen_pieces_are_the_originals(variant, recompute, monkeypatch):
    expected = read_arrays(MODELS / variant / "outputs.npz")
    encoder_of_variant = golden_encoder(variant, recompute=recompute)
    places = np.array([[3, 1], [5, 0], [1, 1], [0, 2]], np.int32)[: len(expected["pooled_output"])]
    calls = record_calls(monkeypatch, encoder.FeedForwardBlock)
    outputs = encode_golden(encoder_of_variant, variant, positions=places, training=recompute)
    chosen = tf.gather(expected["sequence_output"], places, batch_dims=1)
    assert_close(outputs["sequence_output"], chosen)
    assert_close(outputs["encoder_outputs"][-1], chosen)
    assert_close(outputs["pooled_output"], expected["pooled_output"])
    # The last block computed two pieces and the first of each sequence, and no other block did.
    *others, last = [call[1].shape[0] for call in calls]
    assert last == 3 * len(places) and set(others) == {expected["sequence_output"][..., 0].size}


def test_a_row_without_any_token_is_the_originals():
    expected = read_arrays(MODELS / "base" / "allmasked_row.npz")
    assert not expected["input_mask"][3].any()
    outputs = encode_golden(golden_encoder("base"), "base", input_mask=expected["input_mask"])
    outputs["encoder_layer_0"] = outputs["encoder_outputs"][0]
    for name in ("encoder_layer_0", "sequence_output", "pooled_output"):
        assert_close(outputs[name][:3], expected[name][:3])
        assert_close(outputs[name][3], expected[name][3], atol=5e-3)


def test_a_mask_of_other_values_scales_linearly(monkeypatch):
    calls = record_calls(monkeypatch, encoder.AttentionBlock)
    encoder.AlbertModel(TINY)(tiny_ids(1, 4), input_mask=tf.constant([[1, 0.5, 0, 2]]))
    mask_adder = calls[0][2]
    np.testing.assert_array_equal(mask_adder, [[[[0, -5000, -10000, 10000]]]])


@pytest.mark.parametrize(
    "name, expected",
    [("RELU", [0, 0, 0, 1, 3]), ("linear", [-2, -1, 0, 1, 3]), ("", [-2, -1, 0, 1, 3])],
)
def test_activations(name, expected):
    """Those of which the golden figures have no model."""
    actual = encoder.get_activation(name)(tf.constant([-2.0, -1, 0, 1, 3]))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


def test_layer_norm_takes_a_tiny_epsilon():
    # Deviations of 1e-5 are still normalised; with the usual epsilon of 1e-3 they would vanish.
    norm = encoder.LayerNorm(4)
    norm.gamma.assign([1, 2, 1, 1])
    norm.beta.assign([0, 0, 5, 0])
    x = tf.constant([[1e-5, -1e-5, 1e-5, -1e-5]])
    np.testing.assert_allclose(norm(x), [[0.995037, -1.990074, 5.995037, -0.995037]], rtol=1e-5)


# --- Parameter counts ---------------------------------------------------------------------------

SIZES = {  # H, L, I, N
    "base": (768, 12, 3072, 12),
    "large": (1024, 24, 4096, 16),
    "xlarge": (2048, 24, 8192, 16),
    "xxlarge": (4096, 12, 16384, 64),
}


def sized_config(size, **overrides):
    names = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads")
    sizes = dict(zip(names, SIZES[size], strict=True))
    return AlbertConfig(vocab_size=30000, **sizes | overrides)


@pytest.mark.parametrize(
    "size, encoder, masked_lm, sentence_order, total",
    [
        ("base", 11_683_584, 128_688, 1_538, 11_813_810),
        ("large", 17_683_968, 161_456, 2_050, 17_847_474),
        ("xlarge", 58_724_864, 292_528, 4_098, 59_021_490),
        ("xxlarge", 222_595_584, 554_672, 8_194, 223_158_450),
    ],
)
def test_parameter_counts_of_the_released_sizes(size, encoder, masked_lm, sentence_order, total):
    config = sized_config(size)
    with tf.Graph().as_default():  # where variables have a shape and no memory
        model = PretrainingModel(config)
    parts = (model.encoder, model.masked_lm, model.sentence_order, model)
    counts = [sum(int(np.prod(v.shape)) for v in part.trainable_variables) for part in parts]
    assert counts == [encoder, masked_lm, sentence_order, total]
    assert config.num_parameters == encoder


@pytest.mark.parametrize(
    "size, embedding_size, sharing, millions",
    [
        ("base", 768, "all", 31),
        ("base", 768, "attention", 83),
        ("base", 768, "ffn", 57),
        ("base", 768, "none", 108),  # BERT
        ("large", 1024, "none", 334),
        ("base", 128, "all", 12),
        ("base", 128, "attention", 64),
        ("base", 128, "ffn", 38),
        ("base", 128, "none", 89),
    ],
)
def test_parameter_counts_of_the_papers_table_4(size, embedding_size, sharing, millions):
    config = sized_config(size, embedding_size=embedding_size, parameter_sharing=sharing)
    # That these are the numbers of the model is in tests/checkpoints/test_name_table.py. The paper
    # gives whole millions and does not say whether it counts the pooler: it does in the rows with
    # sharing, and does not in those without. Nothing else is left open.
    pooler = config.hidden_size * (config.hidden_size + 1)
    counts = (config.num_parameters, config.num_parameters - pooler)
    assert millions in [round(count / 1e6) for count in counts]


# --- Sharing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sharing, attention, ffn",
    [
        ("all", [0, 0, 1, 1], [0, 0, 1, 1]),
        ("attention", [0, 0, 1, 1], [0, 1, 2, 3]),
        ("ffn", [0, 1, 2, 3], [0, 0, 1, 1]),
        ("none", [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("inner", [1, 2])
def test_layers_use_the_groups_of_their_strategy(sharing, attention, ffn, inner, monkeypatch):
    config = dataclasses.replace(
        TINY, num_hidden_groups=2, inner_group_num=inner, parameter_sharing=sharing
    )
    model = encoder.AlbertModel(config)
    assert len(model.attention_blocks) == inner * len(set(attention))
    assert len(model.ffn_blocks) == inner * len(set(ffn))
    calls = record_calls(monkeypatch, encoder.AttentionBlock, encoder.FeedForwardBlock)
    outputs = encoder.AlbertModel.call(model, tiny_ids())
    expected = [
        id(block)
        for a, f in zip(attention, ffn, strict=True)
        for j in range(inner)
        for block in (model.attention_blocks[a * inner + j], model.ffn_blocks[f * inner + j])
    ]
    assert [id(block) for block, *_ in calls] == expected
    assert len(outputs["encoder_outputs"]) == 4 * inner


def test_a_group_without_a_layer_has_no_blocks():
    model = encoder.AlbertModel(
        dataclasses.replace(TINY, num_hidden_layers=22, num_hidden_groups=22)
    )
    parts = zip(*model._blocks(), strict=True)
    for used, made in zip(parts, (model.attention_blocks, model.ffn_blocks), strict=True):
        assert [*map(id, used)] == [*map(id, made[:15] + made[14:])]


# --- Initialisation -----------------------------------------------------------------------------


@pytest.mark.parametrize("stddev", [0.02, 0.5])
def test_initial_values(stddev):
    tf_keras.utils.set_random_seed(1)
    config = dataclasses.replace(TINY, vocab_size=300, initializer_range=stddev)
    named = name_table.named_variables(PretrainingModel(config))
    for name, variable in named.items():
        if variable.shape.rank == 2:
            # Nothing beyond 2 sigma, and no correction for the cut: its deviation is 0.88 sigma.
            assert np.abs(variable.numpy()).max() <= 2 * stddev, name
        else:
            expected = 1.0 if name.endswith("gamma") else 0.0
            np.testing.assert_array_equal(variable, np.full(variable.shape, expected), name)
    values = np.concatenate([np.ravel(v) for v in named.values() if v.shape.rank == 2])
    assert values.size > 4000
    assert np.std(values) == pytest.approx(0.8796 * stddev, rel=0.04)
    assert np.mean(values) == pytest.approx(0, abs=0.05 * stddev)


@pytest.mark.parametrize("seed", [None, 7])
def test_no_two_variables_begin_alike(seed):
    # All tables and all square kernels have one shape here, so equal streams would show.
    if seed is not None:
        tf_keras.utils.set_random_seed(seed)
    names = ("vocab", "embedding", "intermediate", "type_vocab")
    sizes = dict.fromkeys([f"{name}_size" for name in names] + ["max_position_embeddings"], 16)
    config = dataclasses.replace(PLAIN, num_hidden_layers=3, parameter_sharing="none", **sizes)
    named = name_table.named_variables(PretrainingModel(config))
    kernels = {name: v.numpy() for name, v in named.items() if v.shape == [16, 16]}
    assert len(kernels) == 3 + 3 * 6 + 1 + 1
    for (one, a), (other, b) in itertools.combinations(kernels.items(), 2):
        assert np.mean(np.isclose(a, b)) < 0.1, f"{one} = {other}"


def test_a_seed_fixes_the_initial_values():
    def values(seed):
        tf_keras.utils.set_random_seed(seed)
        return [v.numpy() for v in encoder.AlbertModel(TINY).trainable_variables]

    first, again, other = values(3), values(3), values(4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


# --- Dropout ------------------------------------------------------------------------------------

RATE = 0.25


def dropping_model(**rates):
    model = encoder.AlbertModel(dataclasses.replace(TINY, **rates))
    randomise(model)
    return model


def assert_dropped(actual, full):
    """A share RATE of `full` is 0 in `actual`, and the rest is scaled up; 5 sigma."""
    actual, full = np.ravel(actual), np.ravel(full)
    kept = actual != 0
    np.testing.assert_allclose(actual[kept], full[kept] / (1 - RATE), rtol=1e-4, atol=1e-5)
    sigma = np.sqrt(RATE * (1 - RATE) / full.size)
    assert np.mean(~kept) == pytest.approx(RATE, abs=5 * sigma)


def test_embeddings_are_dropped_after_their_norm():
    model = dropping_model(hidden_dropout_prob=RATE)
    ids = tiny_ids(batch=50)
    trained, plain = model(ids, training=True), model(ids)
    assert_dropped(trained["embedding_output"], plain["embedding_output"])
    np.testing.assert_array_equal(trained["word_embedding_output"], plain["word_embedding_output"])


def test_neither_mapping_nor_pooler_is_followed_by_dropout(monkeypatch):
    calls = record_calls(monkeypatch, encoder.AttentionBlock)
    model = dropping_model(hidden_dropout_prob=RATE, attention_probs_dropout_prob=RATE)
    outputs = model(tiny_ids(), training=True)
    mapped = model.embedding_hidden_mapping_in(outputs["embedding_output"])
    np.testing.assert_allclose(calls[0][1], tf.reshape(mapped, [-1, 16]), atol=1e-6)
    pooled = tf.tanh(model.pooler(outputs["sequence_output"][:, 0]))
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=1e-6)


@pytest.fixture
def no_norm(monkeypatch):
    """Takes the layer norm of blocks away."""
    monkeypatch.setattr(fused, "layer_norm", lambda x, gamma, beta: x)


@pytest.mark.parametrize("kind", [encoder.AttentionBlock, encoder.FeedForwardBlock])
def test_output_of_each_block_is_dropped_before_the_residual(kind, no_norm):
    block = kind(dataclasses.replace(TINY, hidden_dropout_prob=RATE))
    randomise(block)
    x = tf.constant(np.random.RandomState(2).standard_normal([400, 16]), tf.float32)
    mask = [tf.zeros([40, 1, 1, 10])] if kind is encoder.AttentionBlock else []
    full = block(x, *mask) - x
    dropped = (block(x, *mask, training=True) - x).numpy()
    dropped[np.abs(dropped) < 1e-5] = 0  # what is left of (0 + x) - x
    assert_dropped(dropped, full)


def test_attention_probabilities_are_dropped_one_by_one(no_norm):
    # Queries of 0 attend to all of T keys alike; values and output pass 1 through. So what is left
    # of a context is the number of weights that were kept, times 1 / (T (1 - rate)).
    config = dataclasses.replace(TINY, attention_probs_dropout_prob=RATE)
    block, length = encoder.AttentionBlock(config), 10
    for dense in (block.query, block.key, block.value):
        dense.kernel.assign(tf.zeros([16, 16]))
    block.value.bias.assign(tf.ones([16]))
    block.output_dense.kernel.assign(tf.eye(16))
    x, mask = tf.zeros([60 * length, 16]), tf.zeros([60, 1, 1, length])
    np.testing.assert_allclose(block(x, mask), np.ones([600, 16]), rtol=1e-5)
    kept = block(x, mask, training=True).numpy() * length * (1 - RATE)
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-4)
    heads = np.round(kept).reshape(600, 2, 8)
    assert (heads == heads[:, :, :1]).all()  # one weight for all features of a head
    assert not np.array_equal(heads[:, 0, 0], heads[:, 1, 0])  # each head has its own
    share = heads[:, :, 0].mean() / length
    assert share == pytest.approx(1 - RATE, abs=5 * np.sqrt(RATE * (1 - RATE) / 12000))
    assert heads[:, :, 0].std() == pytest.approx(np.sqrt(10 * RATE * (1 - RATE)), rel=0.15)


# --- Precision ----------------------------------------------------------------------------------


# Relative errors of the root mean square; one rounding of bfloat16 is 4e-3, of float16 5e-4.
@pytest.mark.parametrize("name, error", [("mixed_bfloat16", 1.5e-2), ("mixed_float16", 2e-3)])
def test_mixed_precision_is_near_and_gives_float32(name, error):
    tf_keras.mixed_precision.set_global_policy(name)
    outputs = encode_golden(golden_encoder("base"), "base")
    expected = read_arrays(MODELS / "base" / "outputs.npz")
    for key in ("embedding_output", "sequence_output", "pooled_output"):
        assert outputs[key].dtype == tf.float32
        difference = np.sqrt(np.mean((outputs[key] - expected[key]) ** 2))
        assert difference < error * np.sqrt(np.mean(expected[key] ** 2)), key
    assert {output.dtype for output in outputs["encoder_outputs"]} == {tf.float32}
    # It did compute in the smaller type.
    assert np.abs(outputs["sequence_output"] - expected["sequence_output"]).max() > 1e-4


# --- Mistakes -----------------------------------------------------------------------------------


def test_a_sequence_may_be_as_long_as_there_are_positions():
    model = encoder.AlbertModel(TINY)
    assert model(tiny_ids(length=12))["sequence_output"].shape == [3, 12, 16]
    with refuses("max_position_embeddings ... 13 ... 12 ... --max_seq_length"):
        model(tiny_ids(length=13))


def test_onednn_computes_the_activation_with_its_dense_layer(optimized):
    model = encoder.AlbertModel(PLAIN)
    forward = tf.function(lambda ids: model(ids)["pooled_output"])
    ids = tf.ones([2, 4], tf.int32)
    recorder = context.context()
    recorder.enable_run_metadata()
    try:
        forward(ids)
        graphs = recorder.export_run_metadata().partition_graphs
    finally:
        recorder.disable_run_metadata()
    nodes = [node for graph in graphs for node in graph.node if "fused_ops" in node.attr]
    fused_ops = [tuple(node.attr["fused_ops"].list.s) for node in nodes]
    assert any(ops[0] == b"BiasAdd" for ops in fused_ops)
    if any("Mkl" in node.op for node in nodes):  # not on every processor
        assert fused_ops.count((b"BiasAdd", b"GeluApproximate")) == PLAIN.num_hidden_layers
