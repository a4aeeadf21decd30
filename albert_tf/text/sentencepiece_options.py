# SPDX-License-Identifier: Apache-2.0
"""What a SentencePiece model shall be; apart from the training, so that --help is quick."""

import dataclasses

from albert_tf.errors import UserError

# The original's README, section on training SentencePiece. The comma is none: there it parts them.
SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]
_SMALLEST = 5 + len(SYMBOLS) + 1  # with the special pieces, and a space


@dataclasses.dataclass(frozen=True)
class Options:
    """What the model shall be; names and defaults are those of the script's flags.

    Args:
        vocab_size: int, pieces with the special ones.
        character_coverage: float, share of the text's characters that get a piece.
        input_sentence_size: int, sentences to train on; of more, random ones.
        max_sentence_length: int, bytes in UTF-8; longer sentences are left out.
        seed: int, of the random choice of sentences.

    Raises:
        UserError: a value makes no sense.
    """

    vocab_size: int = 30000
    character_coverage: float = 0.99995
    input_sentence_size: int = 10_000_000
    max_sentence_length: int = 4192
    seed: int = 12345

    def __post_init__(self):
        bounds = {
            "vocab_size": (_SMALLEST, 2**31 - 1),
            "character_coverage": (0.98, 1),  # SentencePiece's
            "input_sentence_size": (101, 2**31 - 1),  # SentencePiece's; its 0 is for all
            "max_sentence_length": (10, 2**30),
            "seed": (0, 2**32 - 1),
        }
        for name, (smallest, largest) in bounds.items():
            value = getattr(self, name)
            if not smallest <= value <= largest:  # nan is not
                raise UserError(f"--{name}={value}: must lie between {smallest} and {largest}")
