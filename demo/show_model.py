# SPDX-License-Identifier: Apache-2.0
"""Show what a pre-trained model does: its held-out metrics, masks it fills, sentences it orders.

python -m demo.show_model --run_dir=<output_dir of the run> --spm_model_file=spm.model
"""

import sys

from absl import app, flags

import albert_tf
from albert_tf import files
from albert_tf.errors import UserError
from albert_tf.training import history

_RUN_DIR = flags.DEFINE_string("run_dir", None, "--output_dir of run_pretraining.py")
_SPM_MODEL_FILE = flags.DEFINE_string("spm_model_file", None, "its SentencePiece model")
_SUMMARY_FILE = flags.DEFINE_string(
    "summary_file", None, "text file for what is printed; unset: only printed"
)

METRICS = {  # name -> title
    "loss": "Loss (masked LM + sentence order)",
    "masked_lm_accuracy": "Masked LM accuracy",
    "sentence_order_accuracy": "Sentence order accuracy",
}
MASKED = (
    "Returns the [MASK] of the list.",
    "If the file does not [MASK], an error is raised.",
    "This method is called [MASK] the object is created.",
    "The number [MASK] rows in the table.",
    "The default is to use all of [MASK] values.",
)
ORDERED = (  # in the order in which they stand in a docstring
    ("Return the sum of the elements.", "If the array is empty, this is zero."),
    ("Open a file for reading.", "It is closed when the block ends."),
)
_TOP = 4  # fillings shown for a mask


def heldout_metrics(run_dir):
    """The last metrics of evaluation, as lines of text.

    Raises:
        UserError: the run has not been evaluated.
    """
    curves = history.read(run_dir).get("eval", {})
    missing = [name for name in METRICS if name not in curves]
    if missing:
        raise UserError(
            f"--run_dir={run_dir}: no {', '.join(missing)} among the rows of eval in "
            f"{history.FILE}. Name the output_dir of a run_pretraining.py with --do_train and "
            "--do_eval"
        )
    lines = []
    for name, title in METRICS.items():
        steps, values = curves[name]
        lines.append(f"{title + ', held-out':44}{values[-1]:.4f}  (step {steps[-1]})")
    return lines


def filled_masks(model):
    """The best pieces for each mask of MASKED, as lines of text."""
    lines = ["Fill [MASK]"]
    for text, ((*found,),) in zip(MASKED, model.fill_mask(list(MASKED), top_k=_TOP), strict=True):
        words = ", ".join(f"{filling['text']} {filling['probability']:.0%}" for filling in found)
        lines.append(f"  {text:55}{words}")
    return lines


def ordered_sentences(model):
    """The probability that pairs are in order, each both ways, as lines of text."""
    pairs = [pair for first, second in ORDERED for pair in ((first, second), (second, first))]
    lines = ["Does the second sentence follow the first one?"]
    for pair, probability in zip(
        pairs, model.sentence_order(*(list(texts) for texts in zip(*pairs, strict=True))),
        strict=True,
    ):  # fmt: skip
        lines.append(f"  {' '.join(pair):80}{probability:.0%}")
    return lines


def main(_):
    """Reads the flags, asks the model and prints."""
    try:
        metrics = heldout_metrics(_RUN_DIR.value)
        model = albert_tf.load(_RUN_DIR.value, spm_model_file=_SPM_MODEL_FILE.value)
    except UserError as error:
        sys.exit(f"show_model: {error}")
    lines = [*metrics, f"{'Checkpoint':44}{model.checkpoint}"]
    text = "\n".join([*lines, "", *filled_masks(model), "", *ordered_sentences(model)]) + "\n"
    if _SUMMARY_FILE.value:
        files.write_text(_SUMMARY_FILE.value, text)
    print(text, end="")


if __name__ == "__main__":
    flags.mark_flags_as_required(["run_dir"])
    app.run(main)
