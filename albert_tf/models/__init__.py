# SPDX-License-Identifier: Apache-2.0
"""Models that come with the package: a directory each, with config, vocabulary, weights and card.

The name of a directory is the name of its model. `python -m albert_tf.models` prints their paths.
"""

import os

from albert_tf.models import released

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
CONFIG = "config.json"


def paths():
    """The directory of each model: dict of name -> str, in alphabetical order."""
    names = sorted(os.listdir(DIRECTORY))
    found = [name for name in names if os.path.exists(os.path.join(DIRECTORY, name, CONFIG))]
    return {name: os.path.join(DIRECTORY, name) for name in found}


def hint(path):
    """End of a message on a path that does not exist: the packaged models, and how to get others.

    Args:
        path: str, which may be the name of a published model.
    """
    packaged = ", ".join(paths())
    packaged = f". The package has {packaged}, and" if packaged else "."
    return f"{packaged} {released.hint(path)}"
