# SPDX-License-Identifier: Apache-2.0
"""What is said of a checkpoint, and checks of config and vocabulary beside it."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.api import description
from albert_tf.config import AlbertConfig
from tests.checkpoints.golden_models import BASE, MODELS, VARIANTS, golden_config, read, write


@pytest.fixture
def release(tmp_path):
    """A directory as the released ones: checkpoint, config, vocabulary."""
    write(tmp_path / "model.ckpt-best", read(BASE))
    values = golden_config().to_dict()
    (tmp_path / "albert_config.json").write_text(json.dumps(values))
    return tmp_path


@pytest.mark.parametrize("variant", VARIANTS)
def test_shapes_tell_the_config(variant):
    config = golden_config(variant)
    shapes = {
        name: list(value.shape) for name, value in read(MODELS / variant / "model.ckpt").items()
    }
    guessed = description.guess_config(shapes)
    assert guessed.pop("num_attention_heads") == max(config.hidden_size // 64, 1)
    assert guessed == {key: getattr(config, key) for key in guessed}


@pytest.mark.parametrize(
    "changes, name",
    [
        ({"hidden_size": 768, "num_attention_heads": 12}, "ALBERT-base, version 2"),
        (
            {"hidden_size": 768, "num_attention_heads": 12, "hidden_dropout_prob": 0.1},
            "ALBERT-base, version 1",
        ),
        (
            {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24,
             "vocab_size": 21128},
            "ALBERT-large, Chinese",
        ),
        ({"hidden_size": 4096}, "ALBERT-xxlarge, version 1 or 2"),
        ({"hidden_size": 768, "num_attention_heads": 12, "vocab_size": 8000}, None),
        ({"hidden_size": 768, "num_attention_heads": 12, "num_hidden_groups": 2}, None),
        ({"hidden_size": 512, "num_attention_heads": 8}, None),
    ],
)  # fmt: skip
def test_names_of_releases(changes, name):
    config = AlbertConfig(**{"vocab_size": 30000, "num_hidden_layers": 12} | changes)
    assert description.name_of_release(config) == name


def test_a_whole_release(release, capsys):
    assert description.main([str(release)]) == 0
    out = capsys.readouterr().out
    tensors = read(BASE)
    count = sum(np.size(value) for name, value in tensors.items() if name != "global_step")
    assert f"{count:,} parameters, step" in out
    assert "moments of the optimizer: no" in out
    assert "no released model; the shapes fit. Only the config says that there are" in out
    assert "perhaps 1 (a guess: 64 features a head)" in out and "vocabulary: none next to it" in out
    assert "heads: masked_lm, sentence_order" in out
    assert "forward pass: all values finite" in out
    assert "fill masks" in out and "SQuAD" not in out


def test_of_a_run_the_best_checkpoint_is_described(release):
    write(release / "model.ckpt-7", read(BASE))
    assert description.describe(str(release))[0].startswith(f"{release}/model.ckpt-best: ")


def enlarge_vocabulary(directory):
    (directory / "vocab.txt").write_text("".join(f"word{n}\n" for n in range(5000)))


def change_config(directory):
    config = golden_config(num_hidden_groups=2, num_hidden_layers=4)
    (directory / "albert_config.json").write_text(config.to_json_string())


def write_nan(directory):
    name = "bert/pooler/dense/bias"
    write(directory / "model.ckpt-best", read(BASE) | {name: np.full([32], np.nan, np.float32)})


def write_more_groups(directory):
    write(directory / "model.ckpt-best", read(MODELS / "groups2" / "model.ckpt"))


def write_another_model(directory):
    write(directory / "model.ckpt-best", {"weights": np.zeros(3, np.float32)})


@pytest.mark.parametrize(
    "damage, message",
    [
        (enlarge_vocabulary, "has 5000 pieces"),
        (change_config, "group_1"),
        (write_nan, "bert/pooler/dense/bias"),
        (write_more_groups, "holds variables that the config has no place for"),
        (write_another_model, "no encoder of ALBERT"),
        (shutil.rmtree, "no checkpoint at"),
    ],
)
def test_what_cannot_be_used_is_an_error(damage, message, release, capsys):
    damage(release)
    assert description.main([str(release)]) == 1
    assert message in capsys.readouterr().err
