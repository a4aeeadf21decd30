# SPDX-License-Identifier: Apache-2.0
"""`python -m albert_tf.squad_metrics`: scores a file of SQuAD predictions (see --help)."""

import sys

from albert_tf.tasks.squad.scores import main

if __name__ == "__main__":
    sys.exit(main())
