# SPDX-License-Identifier: Apache-2.0
"""Command `python -m albert_tf.checkpoints.inspect PATH`; its code is in `api.inspect`."""

import sys

from albert_tf.api.inspect import main

if __name__ == "__main__":
    sys.exit(main())
