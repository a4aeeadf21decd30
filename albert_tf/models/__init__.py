# SPDX-License-Identifier: Apache-2.0
"""Models that come with the package: a directory each, with config, vocabulary, weights and card.

The name of a directory is the name of its model. `python -m albert_tf.models` prints their paths.
"""

import os

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
CONFIG = "config.json"


def paths():
    """The directory of each model: dict of name -> str, in alphabetical order."""
    names = sorted(os.listdir(DIRECTORY))
    found = [name for name in names if os.path.exists(os.path.join(DIRECTORY, name, CONFIG))]
    return {name: os.path.join(DIRECTORY, name) for name in found}


def hint():
    """End of the message for a path that does not exist: lists the packaged models."""
    names = ", ".join(paths())
    return f", or the name of a packaged model: {names}" if names else ""
