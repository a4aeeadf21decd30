# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on GLUE tasks, or your own texts or words with labels.

python run_classifier.py --data_dir=glue --task_name=SST-2 --output_dir=output/sst-2 \
  --init_checkpoint=albert_base --do_train --do_eval --do_predict --max_seq_length=128 \
  --train_step=2000 --warmup_step=200 --learning_rate=1e-5
"""

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError


def with_task(given):
    """The settings with the task that they mean, checked.

    Raises:
        UserError: they name no work, no model or no file, or labels that no file can have.
    """
    if given.multi_label and (given.task_name or "tsv").lower() == "tsv":
        given = given.with_typed(task_name=options.MULTI_LABEL)
    flag_groups.check_run(given, "export_dir", "text_column")
    labels = given.labels or ()
    if any("\t" in label or "\n" in label for label in labels):
        raise UserError(f"--labels={labels}: a column's values hold no tabs and no line ends")
    if given.multi_label:
        labels, separator = labels or (given.label_column or "").split(","), options.LABEL_SEPARATOR
        if len(labels) > 1 and separator in "".join(labels):  # a single column may have any name
            raise UserError(
                f"--multi_label: {separator} separates labels, so give other --labels than "
                f"{', '.join(labels)}"
            )
    return given


def main(given):
    """Checks the flags; then trains, evaluates, predicts and exports."""
    given = with_task(given)

    from albert_tf.cli import model_flags, training_flags
    from albert_tf.tasks import known

    models = model_flags.of_fine_tuning(given)
    text = model_flags.text_input(models)
    data = known.data_set(models[0].settings, text, models[0].record)
    training_flags.fine_tune(data, models, record_flags={}, do_eval=given.do_eval)


run = launch.command(  # albert-classify
    main, options.ClassifierData, options.ClassifierSteps, *options.FINE_TUNING
)


if __name__ == "__main__":
    run()
