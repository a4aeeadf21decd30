# SPDX-License-Identifier: Apache-2.0
"""Configs of the usual sizes."""

import dataclasses

import pytest

from albert_tf import options
from albert_tf.checkpoints import huggingface
from albert_tf.cli import make_config
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from tests import tiny
from tests.errors import assert_names, refuses

# Parameters in millions of Table 1, which counts the encoder.
TABLE_1 = {"base": 12, "large": 18, "xlarge": 60, "xxlarge": 235}


@pytest.mark.parametrize("size", options.SIZES)
def test_sizes(size):
    config = make_config.config_of(size, 30000, 512)
    assert config.head_size == (128 if size == "xlarge" else 64)
    assert config.intermediate_size == 4 * config.hidden_size
    assert config.initializer_range == (0.05 if size in ("tiny", "mini", "small") else 0.02)
    if size in TABLE_1:
        assert config.num_parameters / 1e6 == pytest.approx(TABLE_1[size], rel=0.06)


def test_a_config_for_a_vocabulary(run_main, tmp_path, capsys):
    vocabulary, path = tmp_path / "vocab.txt", tmp_path / "config.json"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    flags = {"size": "tiny", "vocab": vocabulary, "output_file": path}
    run_main(make_config, **flags)
    config = AlbertConfig.from_json_file(str(path))
    assert (config.vocab_size, config.num_hidden_layers, config.hidden_size) == (7, 2, 128)
    said = capsys.readouterr().out
    assert_names(said, "ALBERT-tiny ... 7 ... vocab.txt")
    assert_names(said, "embedding_size ... 128 ... 64")
    assert_names(said, "embedding_size ... 64")
    with pytest.raises(UserError):
        huggingface.check_expressible(config)
    huggingface.check_expressible(dataclasses.replace(config, embedding_size=64))
    run_main(make_config, **flags)  # the same once more
    with refuses(f"--output_file={path}"):
        run_main(make_config, **flags | {"max_position_embeddings": 64})
    assert AlbertConfig.from_json_file(str(path)) == config


def test_a_list_of_pieces_is_no_vocabulary(run_main, tmp_path):
    (tmp_path / "spm.vocab").write_text("<pad>\t0\n<unk>\t0\n▁a\t-1\n", "utf-8")
    with refuses(f"--vocab={tmp_path / 'spm.vocab'} ... '▁' ... .model"):
        run_main(make_config, vocab=tmp_path / "spm.vocab", output_file=tmp_path / "config.json")


def test_a_sentencepiece_model(run_main, tmp_path, capsys):
    model = tiny.VOCABULARY
    path = tmp_path / "config.json"
    run_main(make_config, vocab=model, output_file=path)
    assert "hf" not in capsys.readouterr().out
    assert AlbertConfig.from_json_file(str(path)).num_hidden_layers == 12
