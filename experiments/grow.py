# SPDX-License-Identifier: Apache-2.0
"""Copies a training as the start of another one, of longer sequences or with two groups of layers.

python experiments/grow.py positions output/short output/longer
python experiments/grow.py groups output/shared output/grouped --units=1280

positions: with --max_seq_length=64, the positions after the first 64 were never trained. Each gets
the embedding of the position 64 places before it, as in Longformer (Beltagy et al., 2020). Position
0 is always that of [CLS]: where it would be repeated, the middle one is taken instead.

groups: the first and the second half of the layers get parameters of their own. Both begin with
those that all layers shared, but for the units of the feed-forward block: each half keeps the
units that contribute most to its layers, on the sentences of experiments/sample/.

The copy holds the weights, run.json and the config.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tensorflow as tf

import albert_tf
from albert_tf import files
from albert_tf.api import inspect
from albert_tf.checkpoints import name_table, run_directory, writers
from albert_tf.config import CONFIG_FILE
from albert_tf.errors import UserError, exit_code
from albert_tf.model import encoder

POSITIONS = "bert/embeddings/position_embeddings"
SENTENCES = Path(__file__).resolve().parent / "sample" / "sentences.txt"
GROUPS = 2


def repeated(positions, length):
    """Position embeddings that repeat the trained ones.

    Args:
        positions: array of shape [P, E].
        length: int or None, the number of trained positions, if it is recorded.

    Returns:
        Array of shape [P, E].

    Raises:
        UserError: there are not more than `length` positions, or it is None.
    """
    if not (length and length < len(positions)):
        raise UserError(
            f"run.json records max_seq_length={length}, and the model has {len(positions)} "
            "positions: it needs more"
        )
    places = [*range(length)]
    while len(places) < len(positions):
        places += [length // 2, *range(1, length)]  # the first place is that of [CLS]: not again
    return positions[places[: len(positions)]]


def contributions(loaded, texts):
    """How much each unit of the feed-forward block adds to each layer.

    Args:
        loaded: albert_tf.api.loaded.Loaded, a model whose layers share all parameters.
        texts: list of str.

    Returns:
        array [L, I]: mean square of a unit's activation, times the squares of its output weights.
    """
    model, config = getattr(loaded.model, "encoder", loaded.model), loaded.config
    attention, block = model.attention_blocks[0], model.ffn_blocks[0]
    activation = encoder.get_activation(config.hidden_act)
    totals = np.zeros([config.num_hidden_layers, config.intermediate_size])
    for text in texts:
        states = inspect.states_of_layers(loaded, text)
        everything = tf.zeros([1, 1, 1, states.shape[1]])  # no key is masked
        for layer, x in enumerate(states[:-1]):
            units = activation(block.intermediate(attention(x, everything)))  # [T, I]
            totals[layer] += tf.reduce_sum(tf.square(units), axis=0)
    return totals * np.square(block.output_dense.kernel.numpy()).sum(axis=1)


def grouped(tensors, kept):
    """Weights of two groups of layers from those of one.

    Args:
        tensors: dict of original name -> array.
        kept: int array [2, units], the feed-forward units that each group keeps.

    Returns:
        dict of original name -> array.
    """
    result = {}
    for name, values in tensors.items():
        if "/group_0/" not in name:
            result[name] = values
            continue
        for group, units in enumerate(kept):
            own = values
            if "/intermediate/dense/" in name:
                own = values[..., units]
            elif name.endswith("/intermediate/output/dense/kernel"):
                own = values[units]
            result[name.replace("/group_0/", f"/group_{group}/")] = own
    return result


def longer(run, tensors):
    """Weights for longer sequences, and what changes in the config."""
    trained = run_directory.RunDirectory(run).settings.text.get("max_seq_length")
    return tensors | {POSITIONS: repeated(tensors[POSITIONS], trained)}, {}


def in_groups(run, tensors, units):
    """Weights of two groups of layers, and what changes in the config.

    Raises:
        UserError: the model has several groups or one layer, or not as many units.
    """
    loaded = albert_tf.load(run)
    sizes = loaded.config
    if len(sizes.blocks("attention")) > 1 or len(sizes.blocks("ffn")) > 1:
        raise UserError(f"{run}: the layers do not share all parameters")
    if sizes.num_hidden_layers < GROUPS or not 0 < units <= sizes.intermediate_size:
        raise UserError(
            f"--units={units}: give 1 to intermediate_size, {sizes.intermediate_size}, and a "
            f"model of at least {GROUPS} layers. {run} has {sizes.num_hidden_layers}"
        )
    found = contributions(loaded, SENTENCES.read_text().splitlines())
    halves = (half.sum(axis=0) for half in np.array_split(found, GROUPS))
    kept = np.array([np.sort(np.argsort(-half, kind="stable")[:units]) for half in halves])
    return grouped(tensors, kept), {"num_hidden_groups": GROUPS, "intermediate_size": units}


def copy(run, output, change, **sizes):
    """Writes a changed copy of a training; returns a line that says so.

    Args:
        run: str, directory of a training.
        output: str, directory to make.
        change: `longer` or `in_groups`.
        **sizes: int, its other arguments.
    """
    folder = run_directory.RunDirectory(run)
    if not (folder.best and folder.settings and os.path.exists(folder.file(CONFIG_FILE))):
        needed = f"{run_directory.BEST}, {run_directory.SETTINGS} and {CONFIG_FILE}"
        raise UserError(f"{run} must be the --output_dir of a training, with {needed}")
    if os.path.exists(output):
        raise UserError(f"{output} is there already: give another directory")
    tensors, form = writers.read(folder.best)
    tensors, changes = change(run, tensors, **sizes)
    config, record = (
        files.read_json(folder.file(name)) for name in (CONFIG_FILE, run_directory.SETTINGS)
    )
    weights = [values for name, values in tensors.items() if name_table.is_weight(name)]
    record["config"] |= changes
    record["parameter_count"] = sum(values.size for values in weights)
    with files.replacing_directory(output) as directory:
        writers.write(os.path.join(directory, run_directory.BEST), tensors, form)
        for name, content in ((CONFIG_FILE, config | changes), (run_directory.SETTINGS, record)):
            files.write_text(os.path.join(directory, name), json.dumps(content, indent=2) + "\n")
    return f"wrote {output}/{run_directory.BEST}"


def main(arguments=None):
    """Runs the command; returns what it prints."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    kinds = parser.add_subparsers(required=True)
    for name, change in (("positions", longer), ("groups", in_groups)):
        kind = kinds.add_parser(name, help="see above")
        kind.add_argument("run", help="--output_dir of the training")
        kind.add_argument("output", help="directory to make")
        kind.set_defaults(change=change)
    kind.add_argument("--units", type=int, required=True, help="feed-forward units of a group")
    return copy(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(exit_code("experiments/grow.py", main))
