# SPDX-License-Identifier: Apache-2.0
"""Downloads a model, as `albert-download` does. See albert_tf/cli/download_model.py."""

from albert_tf.cli.download_model import run

if __name__ == "__main__":
    run()
