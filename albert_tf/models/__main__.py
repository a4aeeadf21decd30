# SPDX-License-Identifier: Apache-2.0
"""Command `python -m albert_tf.models [NAME]`: the directories of the packaged models."""

import argparse

from albert_tf import models

if __name__ == "__main__":
    found = models.paths()
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.models", description="Prints where the packaged models are."
    )
    parser.add_argument("name", nargs="?", choices=list(found), metavar="NAME", help="one of them")
    name = parser.parse_args().name
    print(found[name] if name else "\n".join(f"{name}  {path}" for name, path in found.items()))
