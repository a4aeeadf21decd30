# SPDX-License-Identifier: Apache-2.0
"""Trains a SentencePiece model, as `albert-spm` does. See albert_tf/cli/train_sentencepiece.py."""

from albert_tf.cli.train_sentencepiece import run

if __name__ == "__main__":
    run()
