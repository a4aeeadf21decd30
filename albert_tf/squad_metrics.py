# SPDX-License-Identifier: Apache-2.0
"""Scores a file of SQuAD predictions: `python -m albert_tf.squad_metrics --help`."""

import sys

from albert_tf.tasks.squad.scores import main

if __name__ == "__main__":
    sys.exit(main())
