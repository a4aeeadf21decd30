# SPDX-License-Identifier: Apache-2.0
"""Weights from and to files of the original, of ours and of other libraries."""

from albert_tf.checkpoints.loading import load
from albert_tf.checkpoints.name_table import named_variables

__all__ = ["load", "named_variables"]
