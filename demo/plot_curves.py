# SPDX-License-Identifier: Apache-2.0
"""Plot the curves of a pre-training run from its history, and sum the run up.

python -m demo.plot_curves --run_dir=<output_dir of the run> --png_file=curves.png
"""

import sys

from absl import app, flags

from albert_tf import files, plot
from albert_tf.checkpoints import run_directory
from albert_tf.errors import UserError
from albert_tf.training import history

_RUN_DIR = flags.DEFINE_string("run_dir", None, "--output_dir of run_pretraining.py")
_PNG_FILE = flags.DEFINE_string("png_file", None, "picture to write")
_SUMMARY_FILE = flags.DEFINE_string(
    "summary_file", None, "text file for what is printed; unset: only printed"
)

FIGURES = {
    "loss": "Loss (masked LM + sentence order)",
    "masked_lm_accuracy": "Masked LM accuracy",
    "sentence_order_accuracy": "Sentence order accuracy",
}


def read_curves(run_dir):
    """The curves of a run, as `history.read` gives them.

    Raises:
        UserError: a figure is missing in training or evaluation.
    """
    curves = history.read(run_dir)
    for kind in ("train", "eval"):
        missing = [name for name in FIGURES if name not in curves.get(kind, {})]
        if missing:
            raise UserError(
                f"--run_dir={run_dir}: no {', '.join(missing)} among the rows of {kind} in "
                f"{history.FILE}. Name the output_dir of a run_pretraining.py with --do_train and "
                "--do_eval."
            )
    return curves


def summary(curves, run_dir, png_file):
    """Returns the last held-out figures and where the files are, as lines of text."""
    lines = []
    for name, title in FIGURES.items():
        steps, values = curves["eval"][name]
        lines.append(f"{title + ', held-out':44}{values[-1]:.4f}  (step {steps[-1]})")
    lines.append(f"{'Checkpoint':44}{run_directory.latest_in(run_dir) or 'none'}")
    lines.append(f"{'Curves':44}{png_file}")
    return "\n".join(lines) + "\n"


def main(_):
    """Reads the flags, plots and prints."""
    try:
        curves = read_curves(_RUN_DIR.value)
    except UserError as error:
        sys.exit(f"plot_curves: {error}")
    plot.draw({_RUN_DIR.value: curves}, _PNG_FILE.value)
    text = summary(curves, _RUN_DIR.value, _PNG_FILE.value)
    if _SUMMARY_FILE.value:
        files.write_text(_SUMMARY_FILE.value, text)
    print(text, end="")


if __name__ == "__main__":
    flags.mark_flags_as_required(["run_dir", "png_file"])
    app.run(main)
