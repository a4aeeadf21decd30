# SPDX-License-Identifier: Apache-2.0
"""Runs an exported model on text: `albert-predict` from a checkout. See albert_tf/predict.py."""

from albert_tf import cli
from albert_tf.predict import define_flags, main

if __name__ == "__main__":
    define_flags()
    cli.run(main)
