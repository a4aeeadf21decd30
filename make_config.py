# SPDX-License-Identifier: Apache-2.0
"""Writes a model's config, as `albert-config` does. See albert_tf/cli/make_config.py."""

from albert_tf.cli.make_config import run

if __name__ == "__main__":
    run()
