# SPDX-License-Identifier: Apache-2.0
"""Runs an exported model on text, as `albert-predict` does. See albert_tf/cli/predict.py."""

from albert_tf.cli.predict import run

if __name__ == "__main__":
    run()
