# SPDX-License-Identifier: Apache-2.0
"""Plot the curves of a pre-training run from its TensorBoard events, and sum the run up.

    python -m demo.plot_curves --run_dir=<output_dir of the run> --png_file=curves.png

Folders on this machine alone: it is a demo.
"""

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")  # no display

from absl import app, flags, logging
from matplotlib import pyplot
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from albert_tf import files

_RUN_DIR = flags.DEFINE_string("run_dir", None, "--output_dir of run_pretraining.py")
_PNG_FILE = flags.DEFINE_string("png_file", None, "picture to write")
_SUMMARY_FILE = flags.DEFINE_string(
    "summary_file", None, "text file for what is printed; unset: only printed"
)

# (folder of the events, label, line)
RUNS = (
    ("train", "training", {"color": "tab:blue", "linewidth": 1}),
    ("eval", "held-out", {"color": "tab:orange", "marker": "o", "markersize": 4}),
)
# (tag, title of the panel)
PANELS = (
    ("loss", "Loss (masked LM + sentence order)"),
    ("masked_lm_accuracy", "Masked LM accuracy"),
    ("sentence_order_accuracy", "Sentence order accuracy"),
)


def read_curves(folder):
    """Returns the plotted curves in a folder of events as {tag: (steps, values)}."""
    if not pathlib.Path(folder).is_dir():
        return {}
    # Zero: keep every point. TensorFlow 2 writes a scalar as a tensor.
    events = event_accumulator.EventAccumulator(
        str(folder), size_guidance={event_accumulator.TENSORS: 0}
    ).Reload()
    curves = {}
    for tag in {tag for tag, _ in PANELS} & set(events.Tags()["tensors"]):
        points = sorted(
            (event.step, tensor_util.make_ndarray(event.tensor_proto).item())
            for event in events.Tensors(tag)
        )
        curves[tag] = ([step for step, _ in points], [value for _, value in points])
    return curves


def read_runs(run_dir):
    """Returns {folder of RUNS: its curves}.

    Raises:
        ValueError: if a curve that is plotted is missing.
    """
    runs = {folder: read_curves(pathlib.Path(run_dir, folder)) for folder, _, _ in RUNS}
    for folder, curves in runs.items():
        missing = [tag for tag, _ in PANELS if tag not in curves]
        if missing:
            raise ValueError(
                f"--run_dir={run_dir}: no {', '.join(missing)} among the events in {folder}/. "
                "Name the output_dir of a run_pretraining.py with --do_train and --do_eval."
            )
    return runs


def plot(runs, png_file):
    """Draws the panels, training and held-out in each, into a PNG."""
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(5 * len(PANELS), 4), layout="tight")
    for axis, (tag, title) in zip(axes, PANELS, strict=True):
        for folder, label, line in RUNS:
            axis.plot(*runs[folder][tag], label=label, **line)
        axis.set(title=title, xlabel="step")
        axis.grid(alpha=0.3)
        axis.legend()
    with files.replacing(png_file) as (name,):
        figure.savefig(name, format="png", dpi=120)
    pyplot.close(figure)


def last_checkpoint(run_dir):
    """Returns the prefix of the newest checkpoint, which the last figures belong to; or None."""
    prefixes = [path.with_suffix("") for path in pathlib.Path(run_dir).glob("model.ckpt-*.index")]
    steps = {prefix.name.removeprefix("model.ckpt-"): prefix for prefix in prefixes}
    numbers = [int(step) for step in steps if step.isdigit()]  # model.ckpt-best has none
    return str(steps[str(max(numbers))]) if numbers else None


def summary(runs, run_dir, png_file):
    """Returns the last held-out figures and where the files are, as lines of text."""
    lines = []
    for tag, title in PANELS:
        steps, values = runs["eval"][tag]
        lines.append(f"{title + ', held-out':44}{values[-1]:.4f}  (step {steps[-1]})")
    lines.append(f"{'Checkpoint':44}{last_checkpoint(run_dir) or 'none'}")
    lines.append(f"{'Curves':44}{png_file}")
    return "\n".join(lines) + "\n"


def main(_):
    """Reads the flags, plots and prints."""
    logging.set_verbosity(logging.WARNING)  # TensorBoard tells of every file it reads
    try:
        runs = read_runs(_RUN_DIR.value)
    except ValueError as error:
        sys.exit(f"plot_curves: {error}")
    plot(runs, _PNG_FILE.value)
    text = summary(runs, _RUN_DIR.value, _PNG_FILE.value)
    if _SUMMARY_FILE.value:
        files.write_text(_SUMMARY_FILE.value, text)
    print(text, end="")


if __name__ == "__main__":
    flags.mark_flags_as_required(["run_dir", "png_file"])
    app.run(main)
