# SPDX-License-Identifier: Apache-2.0
"""Reads and writes weights in the formats of the original, this project and other libraries."""

from albert_tf.checkpoints.loading import load
from albert_tf.checkpoints.name_table import named_variables

__all__ = ["load", "named_variables"]
