# SPDX-License-Identifier: Apache-2.0
"""What is said of a checkpoint, and checks of config and vocabulary beside it."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.api import inspect
from albert_tf.config import AlbertConfig
from tests import tiny
from tests.checkpoints.golden_models import BASE, MODELS, VARIANTS, golden_config, read, write
from tests.errors import assert_names, assert_says


@pytest.fixture
def release(tmp_path):
    """A directory as the released ones: checkpoint, config, vocabulary."""
    write(tmp_path / "model.ckpt-best", read(BASE))
    (tmp_path / "albert_config.json").write_text(golden_config().to_json_string())
    return tmp_path


@pytest.mark.parametrize("variant", VARIANTS)
def test_shapes_tell_the_config(variant):
    config = golden_config(variant)
    tensors = read(MODELS / variant / "model.ckpt")
    shapes = {name: list(value.shape) for name, value in tensors.items()}
    guessed = inspect.guess_config(shapes)
    assert guessed == {key: getattr(config, key) for key in guessed}


BASE_SIZES = {"hidden_size": 768, "num_attention_heads": 12}
LARGE_SIZES = {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24}


@pytest.mark.parametrize(
    "changes, name",
    [
        (BASE_SIZES, "ALBERT-base, version 2"),
        (BASE_SIZES | {"hidden_dropout_prob": 0.1}, "ALBERT-base, version 1"),
        (LARGE_SIZES | {"vocab_size": 21128}, "ALBERT-large, Chinese"),
        ({"hidden_size": 4096}, "ALBERT-xxlarge, version 1 or 2"),
        (BASE_SIZES | {"vocab_size": 8000}, None),
        (BASE_SIZES | {"num_hidden_groups": 2}, None),
        ({"hidden_size": 512, "num_attention_heads": 8}, None),
    ],
)
def test_names_of_releases(changes, name):
    config = AlbertConfig(**{"vocab_size": 30000, "num_hidden_layers": 12} | changes)
    assert inspect.name_of_release(config) == name


def test_a_whole_release(release, capsys):
    assert inspect.main([str(release)]) == 0
    out = capsys.readouterr().out
    tensors = read(BASE)
    count = sum(np.size(value) for name, value in tensors.items() if name != "global_step")
    assert f"{count:,} parameters, step" in out
    assert "moments of the optimizer: no" in out
    assert "no released model; the shapes fit. Only the config says that there are" in out
    assert "vocabulary: none next to it" in out
    assert_says(out, "1 ... 64")
    assert "heads: masked_lm, sentence_order" in out
    assert "forward pass: all values finite" in out
    assert "fill masks" in out and "SQuAD" not in out


def test_the_number_of_heads_is_guessed(tmp_path):
    config = tiny.WIDE | {"hidden_size": 192}
    lines = inspect.describe(str(tiny.write_release(tmp_path, config=config)))
    assert_says("\n".join(lines), "num_attention_heads ... 3 ... 64")


def test_of_a_run_the_best_checkpoint_is_described(release):
    write(release / "model.ckpt-7", read(BASE))
    assert inspect.describe(str(release))[0].startswith(f"{release}/model.ckpt-best: ")


TWO_GROUPS = golden_config(num_hidden_groups=2, num_hidden_layers=4).to_json_string()
NAN = read(BASE) | {"bert/pooler/dense/bias": np.full([32], np.nan, np.float32)}
MORE_WORDS = "".join(f"word{n}\n" for n in range(5000))


@pytest.mark.parametrize(
    "damage, message",
    [
        ({"vocab.txt": MORE_WORDS}, "5000"),
        ({"albert_config.json": TWO_GROUPS}, "group_1"),
        ({"model.ckpt-best": NAN}, "bert/pooler/dense/bias"),
        ({"model.ckpt-best": read(MODELS / "groups2" / "model.ckpt")}, "group_1"),
        ({"model.ckpt-best": {"weights": np.zeros(3, np.float32)}}, "ALBERT"),
        (None, ".index"),  # nothing is there
    ],
)
def test_what_cannot_be_used_is_an_error(damage, message, release, capsys):
    if damage is None:
        shutil.rmtree(release)
    for name, content in (damage or {}).items():
        if isinstance(content, dict):
            write(release / name, content)
        else:
            (release / name).write_text(content)
    assert inspect.main([str(release)]) == 1
    assert_names(capsys.readouterr().err, message)


@pytest.mark.long
def test_how_far_the_layers_move(tmp_path, capsys):
    import albert_tf

    text, found = tmp_path / "text.txt", tmp_path / "layers.json"
    text.write_text("The cat sleeps on the sill.\n\nIt rains.\n")
    command = ["english-small", f"--text_file={text}", f"--layers_file={found}"]
    assert inspect.main(command) == 0
    out = capsys.readouterr().out
    layers = json.loads(found.read_text())
    assert len(layers["distance"]) == len(layers["angle"]) == 4
    assert layers["first_distance"] == layers["distance"][0] != layers["last_distance"]
    assert f"layer 4: L2 distance {layers['distance'][3]:.3f}" in out
    # The second line alone, from the outputs of the public encoder.
    loaded = albert_tf.load("english-small")
    text.write_text("It rains.\n")
    assert inspect.main(command) == 0
    pieces = ["[CLS]", *loaded.tokenizer.tokenize("It rains."), "[SEP]"]
    ids = np.array([loaded.tokenizer.convert_tokens_to_ids(pieces)])
    second, third = (x[0].numpy() for x in loaded.model.encoder(ids)["encoder_outputs"][1:3])
    expected = np.linalg.norm(third - second, axis=1).mean()
    layers = json.loads(found.read_text())
    np.testing.assert_allclose(layers["distance"][2], expected, rtol=1e-5)
    units = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (second, third)]
    angle = np.degrees(np.arccos((units[0] * units[1]).sum(axis=1))).mean()
    np.testing.assert_allclose(layers["angle"][2], angle, rtol=1e-3)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--text_file={0}/none.txt"], "none.txt"),
        (["--text_file={0}/empty.txt"], "--text_file ... empty.txt ... text"),
        (["--layers_file={0}/x.json"], "--layers_file ... --text_file"),
    ],
)
def test_wrong_files_of_layers(words, message, tmp_path, capsys):
    (tmp_path / "empty.txt").write_text("\n")
    words = [word.format(tmp_path) for word in words]
    assert inspect.main(["english-small", *words]) == 1
    assert_names(capsys.readouterr().err, message)
