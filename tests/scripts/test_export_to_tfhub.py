# SPDX-License-Identifier: Apache-2.0
"""export_to_tfhub.py through its real main: metrics, reuse elsewhere, the card, bad input."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import export_to_tfhub
from albert_tf import files, models
from albert_tf.checkpoints import run_directory, source
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.publish import graph_inputs, hub, saved_models
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN, read_arrays
from tests.checkpoints.golden_models import assert_close, golden_config, read, write
from tests.errors import assert_names, assert_says, refuses
from tests.processes import lines_of_code

POSITIONS = 40  # of the golden models
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "an", "answer", "a", "question", "?", "."]


def make_directory(path, variant):
    shutil.copytree(GOLDEN / "model" / variant, path)
    (path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return path


def export_module(run_main, source, export_path, checkpoint_name="model.ckpt", **values):
    values |= {"export_path": export_path, "checkpoint_name": checkpoint_name}
    run_main(export_to_tfhub, albert_directory=source, **values)
    return export_path


@pytest.fixture
def directory(tmp_path):
    """Makes a model's directory of a golden variant: directory(variant) -> path."""
    return lambda variant="base": make_directory(tmp_path / "albert", variant)


@pytest.fixture
def run(run_main, tmp_path):
    """Exports a directory: run(directory, flag=value, ...) -> path of the module."""

    def call(source, export_path=tmp_path / "module", **values):
        return export_module(run_main, source, export_path, **values)

    return call


@pytest.fixture(scope="module")
def exported(run_main, tmp_path_factory):
    """Exports a golden variant once, to be read: exported(variant) -> path of the module."""

    @functools.cache
    def export(variant="base"):
        folder = tmp_path_factory.mktemp(variant)
        source = make_directory(folder / "albert", variant)
        return export_module(run_main, source, export_path=folder / "module")

    return export


def golden(variant):
    """Inputs under the Hub's names, and the original's outputs."""
    arrays = read_arrays(GOLDEN / "model" / variant / "inputs.npz")
    names = graph_inputs.HUB_NAMES | {graph_inputs.POSITIONS: graph_inputs.POSITIONS}
    inputs = {name: tf.constant(arrays[old], tf.int32) for old, name in names.items()}
    return inputs, read_arrays(GOLDEN / "model" / variant / "outputs.npz")


def example_of(module):
    """The Python example of a module's card, called from elsewhere."""
    code = re.search(r"```python\n(.*?)```", (module / "README.md").read_text(), re.DOTALL)[1]
    return code.replace(f'"{module.name}"', repr(str(module)))


# Loading and the model have all variants among the default tests; here some are enough.
@pytest.mark.parametrize("variant", ["base", pytest.param("groups2", marks=pytest.mark.long)])
def test_metrics_of_the_original(variant, exported):
    module = tf.saved_model.load(str(exported(variant)))
    inputs, expected = golden(variant)
    positions = inputs.pop(graph_inputs.POSITIONS)
    found = module(inputs)
    assert found.keys() == {"pooled_output", "default", "sequence_output", "encoder_outputs"}
    for name in ("pooled_output", "sequence_output"):
        assert_close(found[name], expected[name])
    np.testing.assert_array_equal(found["default"], found["pooled_output"])
    layers = [expected[key] for key in sorted(expected) if key.startswith("encoder_layer_")]
    assert len(found["encoder_outputs"]) == len(layers)
    for actual, layer in zip(found["encoder_outputs"], layers, strict=True):
        assert_close(actual, layer)

    flat = expected["mlm_logits"]
    of_mlm = module.mlm(inputs | {graph_inputs.POSITIONS: positions})
    assert_close(of_mlm["mlm_logits"], flat.reshape(4, 6, -1))
    assert_close(of_mlm["pooled_output"], expected["pooled_output"])
    assert_close(module.sop(inputs)["sop_log_probs"], expected["sop_log_probs"])

    renamed = {name: inputs[hub_name] for name, hub_name in graph_inputs.HUB_NAMES.items()}
    signatures = module.signatures
    assert_close(signatures["tokens"](**renamed)["sequence_output"], expected["sequence_output"])
    assert_close(signatures["sop"](**renamed)["sop_log_probs"], expected["sop_log_probs"])
    assert_close(signatures["mlm"](**renamed, mlm_positions=positions)["mlm_logits"], flat)


@pytest.mark.long
def test_layers_that_share_nothing(tmp_path):
    model = heads.PretrainingModel(golden_config(parameter_sharing="none"))
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    assets = {"vocab_file": str(tmp_path / "vocab.txt")}
    module = hub.HubModule(model, (), assets, do_lower_case=True, strip_accents=True)
    saved_models.save_module(module, str(tmp_path / "module"), module.signatures())
    loaded = tf.saved_model.load(str(tmp_path / "module"))
    inputs, _ = golden("base")
    del inputs[graph_inputs.POSITIONS]
    expected = model.encoder(*inputs.values())
    found = loaded(inputs)
    assert_close(found["sequence_output"], expected["sequence_output"].numpy(), atol=1e-6)
    assert len(loaded.trainable_variables) == len(model.encoder.trainable_variables)
    assert not hasattr(loaded, "mlm") and not hasattr(loaded, "sop")
    assert set(loaded.signatures) == {"tokens", "tokenization_info"}


@pytest.mark.long
def test_dropout_is_of_training_alone(directory, run):
    path = directory()
    config = golden_config(hidden_dropout_prob=0.5)
    (path / "albert_config.json").write_text(config.to_json_string())
    module = tf.saved_model.load(str(run(path)))
    inputs, expected = golden("base")
    inputs.pop(graph_inputs.POSITIONS)
    assert_close(module(inputs, training=False)["pooled_output"], expected["pooled_output"])
    difference = module(inputs, training=True)["pooled_output"] - expected["pooled_output"]
    assert np.abs(difference).max() > 0.1


ELSEWHERE = """
import importlib.util
assert importlib.util.find_spec("albert_tf") is None
import numpy as np, tensorflow as tf, tensorflow_hub as hub, tf_keras
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
module = hub.load(PATH)
ids = tf.constant([[2, 5, 6, 3], [2, 7, 8, 3]])
inputs = {"input_word_ids": ids, "input_mask": tf.ones_like(ids), "input_type_ids": 0 * ids}

with tf.GradientTape(persistent=True) as tape:
    loss = tf.reduce_sum(module(inputs, training=True)["pooled_output"] ** 2)
for _ in range(2):
    gradients = tape.gradient(loss, module.trainable_variables)
    assert all(gradient is not None for gradient in gradients)
print(len(module.variables), len(module.trainable_variables), len(module.regularization_losses))
print(len(module.mlm.trainable_variables), bool(module.do_lower_case.numpy()))
info = module.signatures["tokenization_info"]()
print(open(info["vocab_file"].numpy()).read().split()[2], bool(info["do_lower_case"]))

tf_keras.utils.set_random_seed(1)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    layer = hub.KerasLayer(PATH, trainable=True)
    given = {name: tf_keras.Input([None], dtype=tf.int32, name=name) for name in inputs}
    model = tf_keras.Model(given, tf_keras.layers.Dense(2)(layer(given)["pooled_output"]))
    cost = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.Adam(0.001), loss=cost)
before = [v.numpy() for v in layer.trainable_variables]
history = model.fit(inputs, tf.constant([0, 1]), epochs=8, verbose=0).history["loss"]
after = [v.numpy() for v in layer.trainable_variables]
moved = sum(not np.array_equal(a, b) for a, b in zip(before, after))
print(len(before), moved >= len(before) - 1, history[-1] < history[0])
"""


@pytest.mark.long
def test_elsewhere(exported, tmp_path):
    module = exported()
    code = ELSEWHERE.replace("PATH", repr(str(module))) + example_of(module)
    # 25 variables of the encoder; 5 more of the masked-LM head. Key biases have no gradient.
    assert lines_of_code(code, tmp_path)[-5:] == [
        "25 25 0", "30 True", "[CLS] True", "25 True True", "(1, 32)",
    ]  # fmt: skip


@pytest.mark.long
def test_what_a_server_sees(exported):
    module, load = str(exported()), tf.compat.v1.saved_model.loader.load
    signatures = tf.saved_model.load(module).signatures
    ids = np.array([[2, 5, 6, 3], [2, 7, 8, 3]], np.int32)
    values = {"input_ids": ids, "input_mask": ids // ids, "segment_ids": 0 * ids}
    values["mlm_positions"] = ids[:, :1]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        served = load(session, ["serve"], module).signature_def
        found = {}
        for name in ("tokens", "sop", "mlm", "tokenization_info"):
            fetched = {key: tensor.name for key, tensor in served[name].outputs.items()}
            fed = {tensor.name: values[key] for key, tensor in served[name].inputs.items()}
            found[name] = session.run(fetched, fed)
    for name, inputs, outputs in (
        ("tokens", 3, ["pooled_output", "sequence_output"]),
        ("sop", 3, ["pooled_output", "sequence_output", "sop_log_probs"]),
        ("mlm", 4, ["mlm_logits", "pooled_output", "sequence_output"]),
        ("tokenization_info", 0, ["do_lower_case", "vocab_file"]),
    ):
        given = served[name].inputs
        kinds = [tensor.dtype for tensor in given.values()]
        shapes = [tf.TensorShape(tensor.tensor_shape).as_list() for tensor in given.values()]
        assert kinds == [tf.int32.as_datatype_enum] * inputs and shapes == [[None, None]] * inputs
        assert sorted(found[name]) == outputs
        if given:
            expected = signatures[name](**{key: tf.constant(values[key]) for key in given})
            for output in outputs:
                assert_close(found[name][output], expected[output].numpy())
    with open(found["tokenization_info"]["vocab_file"]) as file:
        assert file.read().split()[2] == "[CLS]"


@pytest.mark.long
def test_a_directory_of_transformers(run_main, tmp_path):
    """Its config is written into the module as the original's."""
    model, module = models.paths()["english-small"], tmp_path / "module"
    export_module(run_main, model, module, "model.safetensors")
    config = AlbertConfig.from_json_file(str(module / "assets" / "albert_config.json"))
    assert config == source.Source(model).read_config()
    assert (module / "assets" / "spiece.model").exists()


@pytest.mark.long
def test_card(directory, run, tmp_path):
    (tmp_path / "about.md").write_text("Trained on books.")
    module = run(directory("inner2"), card_file=tmp_path / "about.md")
    card = (module / "README.md").read_text()
    assert card.endswith("## Data and licence\n\nTrained on books.\n")
    for line in (
        "| embedding E, hidden H | 16, 32 |",
        "| layers L, heads N | 2, 4 |",
        "| parameters shared | all; 1 group(s), 2 block(s) in a layer |",
        "| vocabulary V | 300, `assets/vocab.txt` |",
        "| text | lower-cased; accents are dropped |",
    ):
        assert line in card
    count = re.search(r"parameters of the encoder \| ([\d,]+)", card)[1]
    tensors = read(GOLDEN / "model" / "inner2" / "model.ckpt")
    sizes = [values.size for name, values in tensors.items() if name.startswith("bert/")]
    assert int(count.replace(",", "")) == sum(sizes)


@pytest.mark.long
def test_preprocessing(run_main, tmp_path, capsys):
    """Of both kinds of vocabulary, loaded by the examples of the cards."""
    texts = ["A question, with 9,000 Words?", "", "Ünder the  table"]
    code, expected = "", []
    kinds = ("spm_uncased.model", {}, 128), ("vocab.txt", {"max_seq_length": 20}, 20)
    for kind, flags, length in kinds:
        source, module = tmp_path / kind / "vocabulary", tmp_path / kind / "module"
        source.mkdir(parents=True)
        shutil.copy(GOLDEN / "tokenization" / kind, source)
        places = {"albert_directory": source, "export_path": module}
        run_main(export_to_tfhub, **places, export_type="preprocessing", **flags)
        # Where texts may be cut otherwise, both the script and the card say so.
        said = [capsys.readouterr().out, (module / "README.md").read_text()]
        is_sentencepiece = kind.endswith("model")
        assert [hub.EQUAL_SPLITS in text for text in said] == [is_sentencepiece] * 2
        argument = {"spm_model_file" if is_sentencepiece else "vocab_file": str(source / kind)}
        tokenizer = FullTokenizer(**argument)
        ids = [tokenizer.encode_ids(text) for text in texts]
        assert_names(said[1], f"int32 ... [B, {length}]")
        expected += ["(1, 16)", str(ids), f"(3, {length})"]
        code += f"""
{example_of(module)}
print(module.tokenize(tf.constant({texts!r})).to_list())
print(module(tf.constant({texts!r}))["input_word_ids"].shape)
"""
    assert lines_of_code(code, tmp_path)[-6:] == expected


@pytest.mark.long
def test_sequences_longer_than_the_positions(exported):
    module = tf.saved_model.load(str(exported()))
    ids = tf.ones([1, POSITIONS + 1], tf.int32)
    message = rf"longer than max_position_embeddings:\W+{POSITIONS + 1}\W+{POSITIONS}"
    names = graph_inputs.HUB_INPUTS, graph_inputs.FEATURES
    inputs, renamed = (dict.fromkeys(some, ids) for some in names)
    # Where TensorFlow knows the length when it builds the call, it refuses that itself.
    message += f"|Dimensions must be equal, but are {POSITIONS + 1} and {POSITIONS} for"
    for call in (
        lambda: module(inputs),
        lambda: module(inputs, training=True),
        lambda: module.sop(inputs),
        lambda: module.signatures["tokens"](**renamed),
        lambda: module.signatures["mlm"](**renamed, mlm_positions=ids[:, :1]),
    ):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
            call()
    # A graph that knows the length is refused by TensorFlow itself, when it is built.
    with refuses(f"{POSITIONS + 1} ... {POSITIONS}", error=ValueError):
        tf.function(module)(inputs)


@pytest.mark.long
def test_a_checkpoint_without_heads(directory, run, capsys):
    path = directory()
    tensors = read(path / "model.ckpt")
    write(path / "bare", {n: v for n, v in tensors.items() if n.startswith("bert/")})
    module = tf.saved_model.load(str(run(path, checkpoint_name="bare")))
    assert not hasattr(module, "mlm") and not hasattr(module, "sop")
    printed = capsys.readouterr().out
    assert_says(printed, "no sentence-order head", "masked-LM")
    assert "randomly" not in printed  # nothing random is in the module


def damage_encoder(path):
    write(path / "model.ckpt", {"cls/x": np.zeros([2], np.float32)})


def more_groups(path):
    """As if the config had fewer than the checkpoint."""
    tensors = read(path / "model.ckpt")
    groups = {name.replace("/group_0/", "/group_1/"): v for name, v in tensors.items()}
    write(path / "model.ckpt", tensors | groups)


def record(**values):
    """A fine-tuning run's record beside the checkpoint."""

    def write(path):
        sha256 = files.sha256(str(path / "vocab.txt"))
        vocabulary = {"flag": "vocab_file", "path": "vocab.txt", "sha256": sha256}
        config = json.loads((path / "albert_config.json").read_text())
        content = {"config": config, "text": {"do_lower_case": True}, "vocabulary": vocabulary}
        (path / run_directory.SETTINGS).write_text(json.dumps(content | values))

    return write


def enlarge_vocabulary(path):
    (path / "vocab.txt").write_text("\n".join([*PIECES, *(f"word{n}" for n in range(300))]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "albert_config.json").unlink(), "albert_config.json"),
        (lambda path: (path / "vocab.txt").unlink(), "SentencePiece"),
        (damage_encoder, "model.ckpt ... cls/x"),
        (enlarge_vocabulary, "311 ... vocab_size=300"),
        (more_groups, "group_1"),
        (record(text={"do_lower_case": False}), "do_lower_case=true ... --do_lower_case=false"),
        (
            record(vocabulary={"flag": "vocab_file", "path": "other.txt", "sha256": "00"}),
            "vocab.txt ... other.txt",
        ),
        (record(vocabulary=5), "run.json"),
    ],
)
def test_bad_directories(damage, message, directory, run, tmp_path):
    path = directory()
    damage(path)
    with refuses(message):
        run(path, do_lower_case=True)
    assert not list(tmp_path.glob("module*"))


@pytest.mark.long
def test_clean_up_is_the_trainings(directory, run):
    path = directory()
    for flag, card in (
        ("do_lower_case", "with its capitals; accents are dropped"),
        ("strip_accents", "lower-cased; accents are kept"),
    ):
        record(text={flag: False})(path)
        module = run(path, export_path=path / flag)
        for name in ("do_lower_case", "strip_accents"):
            assert source.Source(str(module)).casing(name).value is (name != flag)
        assert card in (module / "README.md").read_text()
    told = source.Source(str(module))
    facts = source.facts(told, source.START, {})
    assert (facts["do_lower_case"].value, facts["strip_accents"].value) == (True, False)
    run(path, export_type="preprocessing", export_path=path / "preprocessing")
    assert "accents are kept." in (path / "preprocessing" / "README.md").read_text()


def test_an_export_path_that_is_not_empty(directory, run, tmp_path):
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "mine").write_text("kept")
    with refuses("--export_path="):
        run(directory())
    (kept,) = (tmp_path / "module").iterdir()
    assert kept.read_text() == "kept"


@pytest.mark.long
def test_nothing_half_written(directory, run, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(saved_models.files, "write_text", fail)
    with pytest.raises(OSError, match="disk full"):
        run(directory())
    assert not list(tmp_path.glob("module*"))
