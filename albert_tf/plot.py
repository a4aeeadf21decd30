# SPDX-License-Identifier: Apache-2.0
"""Draws training curves from `history.csv`: `python -m albert_tf.plot DIR...`."""

import argparse
import math
import sys

from albert_tf import files, options
from albert_tf.checkpoints import run_directory
from albert_tf.errors import UserError, exit_code, import_extra
from albert_tf.training import history

_LAST = "learning_rate"
_NOT_SHOWN = {
    "gradient_norm", "seconds", "sequences_per_second", "model_tflops_per_second",
    "model_flops_utilization", _LAST, "minimal_pairs_error",  # of version 0.1.0
}  # fmt: skip
_OF_CLASSES = ("count_", "precision_", "recall_", "f1_")  # metrics of single classes
_LINES = {  # kind -> label, style
    "train": ("training", {"linewidth": 1}),
    "eval": ("evaluation", {"linestyle": "--", "marker": "o", "markersize": 4}),
}


def shown_metrics(runs):
    """Names of the metrics to draw, `loss` first and `learning_rate` last.

    Args:
        runs: dict of str -> curves, as `history.read` gives them.

    Returns:
        list of str, without the parts of the loss.
    """
    names = {name: None for run in runs.values() for curves in run.values() for name in curves}
    others = [
        name
        for name in names  # those of single kinds of minimal pairs, of 0.1.0, have a slash
        if not ("loss" in name or "/" in name or name in _NOT_SHOWN or name.startswith(_OF_CLASSES))
    ]
    return [name for name in ("loss", *others, _LAST) if name in names]


def by_pieces(directory, curves):
    """Curves against the tokens that a training has read, with their padding, in millions.

    Args:
        directory: str, of the training.
        curves: dict, as `history.read` gives it, against steps.

    Raises:
        UserError: the directory has no run.json, or its batches may have several lengths.
    """
    settings = run_directory.RunDirectory(directory).settings
    flags = settings.flags if settings else {}
    if flags.get("length_buckets") or "num_train_steps" not in flags:
        raise UserError(
            f"--pieces needs pre-trainings without --length_buckets: {directory}/"
            f"{run_directory.SETTINGS} records none"
        )
    pieces = flags["train_batch_size"] * flags["max_seq_length"] / 1e6
    return {
        kind: {name: ([step * pieces for step in x], y) for name, (x, y) in metrics.items()}
        for kind, metrics in curves.items()
    }


def draw(runs, png_file, unit="step"):
    """Draws the runs into a PNG file: a panel for each metric, a curve for each run and kind.

    Args:
        runs: dict of label -> curves, as `history.read` gives them.
        png_file: str.
        unit: str, label of the horizontal axis.

    Raises:
        UserError: there is nothing to draw, or matplotlib is not installed.
    """
    names = shown_metrics(runs)
    if not names:
        raise UserError(f"no metrics yet in {history.FILE} of {', '.join(runs)}")
    columns = math.ceil(math.sqrt(len(names)))
    rows = math.ceil(len(names) / columns)
    pictures = import_extra("matplotlib.figure", "albert_tf.plot")
    figure = pictures.Figure(figsize=(5 * columns, 4 * rows), layout="tight")
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for axis, name in zip(axes, names, strict=False):
        _draw_panel(axis, name, runs)
        axis.set_xlabel(unit)
    for axis in axes[len(names) :]:
        axis.set_axis_off()
    with files.replacing(png_file) as (temporary,):
        figure.savefig(temporary, format="png", dpi=120)


def _draw_panel(axis, name, runs):
    several = len(runs) > 1  # then each run has a color, otherwise each kind
    for number, (run, curves) in enumerate(runs.items()):
        run = run.replace("$", r"\$")  # without the backslash, it begins a formula
        for color, (kind, (label, style)) in enumerate(_LINES.items()):
            if name in curves.get(kind, {}):
                label = f"{run}, {label}" if several else label
                color = f"C{(number if several else color) % 10}"
                axis.plot(*curves[kind][name], label=label, color=color, **style)
    axis.set_title(name)
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: list of str, or None for those of the command line.

    Returns:
        int, the exit code: 1 on bad input.
    """
    parser = argparse.ArgumentParser(
        prog="python -m albert_tf.plot",
        description="Draws loss, other metrics and learning rate of one or several trainings from "
        f"their {history.FILE} into a PNG.",
    )
    parser.add_argument("directories", nargs="+", metavar="DIR", help="--output_dir of a training.")
    parser.add_argument(
        "--png_file", default="curves.png", help="Picture to write (default: %(default)s)."
    )
    parser.add_argument(
        "--pieces",
        action="store_true",
        help="Draw against the tokens that were read, in millions, to compare batches and lengths.",
    )
    return exit_code("plot", lambda: _plot(**vars(parser.parse_args(arguments))))


def _plot(directories, png_file, pieces):
    for directory in directories:
        options.check_path("DIR", directory)
    runs = {directory: history.read(directory) for directory in directories}
    files.check_file_writable(png_file, "png_file")
    if pieces:
        runs = {directory: by_pieces(directory, curves) for directory, curves in runs.items()}
    draw(runs, png_file, "million tokens" if pieces else "step")
    return f"{png_file}: {', '.join(shown_metrics(runs))}"


if __name__ == "__main__":
    sys.exit(main())
