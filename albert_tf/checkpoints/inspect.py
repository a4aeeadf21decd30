# SPDX-License-Identifier: Apache-2.0
"""Command `python -m albert_tf.checkpoints.inspect PATH`; its code is in `api.description`."""

import sys

from albert_tf.api.description import main

if __name__ == "__main__":
    sys.exit(main())
