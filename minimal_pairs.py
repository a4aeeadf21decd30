# SPDX-License-Identifier: Apache-2.0
"""Minimal pairs of sentences: `albert-minimal-pairs`. See albert_tf/cli/minimal_pairs.py."""

from albert_tf.cli.minimal_pairs import run

if __name__ == "__main__":
    run()
