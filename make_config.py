# SPDX-License-Identifier: Apache-2.0
"""Writes a model's config, as `albert-config` does. See albert_tf/cli/make_config.py."""

from albert_tf.cli.make_config import define_flags, main, run

__all__ = ["define_flags", "main", "run"]

if __name__ == "__main__":
    run()
