# SPDX-License-Identifier: Apache-2.0
# The names of __init__.py for type checkers and editors; a test compares both.
from albert_tf.checkpoints.loading import load as load
from albert_tf.checkpoints.name_table import named_variables as named_variables
