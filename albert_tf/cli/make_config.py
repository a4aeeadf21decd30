# SPDX-License-Identifier: Apache-2.0
r"""Writes the config of a model of a usual size for a vocabulary.

python make_config.py --size=small --vocab=my-30k.model --output_file=albert_config.json

base to xxlarge are the sizes of the paper (Table 1), as released in version 2, without dropout.
tiny, mini and small have the layers and hidden sizes of small BERT models (Turc et al., 2019, Table
1). Once the project is installed, `albert-config` is the same command.
"""

import os

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, about

# Small models learn faster with 0.05 than with the original's 0.02: with 2 layers of 128 units, the
# held-out masked-LM accuracy after 4000 steps is 18.1% instead of 16.1% (docs/results.md, demo).
INITIALIZER_RANGES = {"tiny": 0.05, "mini": 0.05, "small": 0.05}


def config_of(size, vocab_size, max_position_embeddings):
    """Makes the config of a size.

    Args:
        size: str, a key of options.SIZES.
        vocab_size: int, number of pieces.
        max_position_embeddings: int, longest sequence in tokens.

    Returns:
        AlbertConfig.
    """
    layers, hidden, heads = options.SIZES[size]
    return AlbertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=max_position_embeddings,
        initializer_range=INITIALIZER_RANGES.get(size, 0.02),
    )


def main(given):
    """Reads the vocabulary and writes the config."""
    flag_groups.check_filled(given, "output_file")
    flag_groups.check_paths(given)

    from albert_tf import files
    from albert_tf.checkpoints import source
    from albert_tf.text import tokenization

    vocabulary = {source.vocabulary_flag(given.vocab): given.vocab}
    with about(f"--vocab={given.vocab}"):
        vocab_size = tokenization.FullTokenizer(**vocabulary).vocab_size
    config = config_of(given.size, vocab_size, given.max_position_embeddings)
    files.check_file_writable(given.output_file, "output_file")
    text, before = config.to_json_string(), files.read_text(given.output_file)
    if before and before != text:
        raise UserError(f"--output_file={given.output_file} holds another config: give a new name")
    files.write_text(given.output_file, text)
    name = os.path.basename(given.vocab)
    print(
        f"{given.output_file}: ALBERT-{given.size} for the {vocab_size:,} pieces of {name}, "
        f"{config.num_parameters:,} parameters"
    )
    if config.embedding_size == config.hidden_size:
        print(
            f"embedding_size is hidden_size, {config.hidden_size}: transformers cannot read such a "
            f"model. If you need it there, write {config.hidden_size // 2} into this file."
        )


run = launch.command(main, options.ConfigFile)  # albert-config
