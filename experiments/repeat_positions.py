# SPDX-License-Identifier: Apache-2.0
"""Copies a training whose sequences were short, with its position embeddings repeated.

python experiments/repeat_positions.py output/short 64 output/longer

The positions after the first 64 were never trained. Each gets the embedding of the position 64
places before it, as in Longformer (Beltagy et al., 2020), so that a training on longer sequences
does not start with random ones. Position 0 is always that of [CLS]: where it would be repeated,
the middle one is taken instead. The copy holds the weights, run.json and the config.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from albert_tf import files
from albert_tf.checkpoints import run_directory, writers
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import UserError, exit_code

NAME = "bert/embeddings/position_embeddings"


def repeated(positions, length):
    """Position embeddings that repeat the trained ones.

    Args:
        positions: array of shape [P, E].
        length: int, the number of trained positions.

    Returns:
        Array of shape [P, E].

    Raises:
        UserError: there are not more than `length` positions.
    """
    if not 1 < length < len(positions):
        raise UserError(
            f"LENGTH={length}: give 2 to {len(positions) - 1}, because the model has "
            f"{len(positions)} positions"
        )
    places = [*range(length)]
    while len(places) < len(positions):
        places += [length // 2, *range(1, length)]  # the first place is that of [CLS]: not again
    return positions[places[: len(positions)]]


def copy(run, length, output, checkpoint_name):
    """Writes the copy; returns a line that says so."""
    tensors, form = writers.read(os.path.join(run, checkpoint_name))
    tensors[NAME] = repeated(tensors[NAME], length)
    with files.replacing_directory(output) as directory:
        writers.write(os.path.join(directory, checkpoint_name), tensors, form)
        for name in (run_directory.SETTINGS, CONFIG_FILE):
            shutil.copy(os.path.join(run, name), directory)
    return f"wrote {output}/{checkpoint_name}: positions from {length} on repeat those before"


def main(arguments=None):
    """Runs the command; returns what it prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="--output_dir of the training")
    parser.add_argument("length", type=int, help="its --max_seq_length")
    parser.add_argument("output", help="directory to make")
    parser.add_argument("--checkpoint_name", default=run_directory.BEST, help="checkpoint in it")
    given = parser.parse_args(arguments)
    return copy(given.run, given.length, given.output, given.checkpoint_name)


if __name__ == "__main__":
    sys.exit(exit_code("experiments/repeat_positions.py", main))
