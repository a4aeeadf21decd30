# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on GLUE tasks, or your own texts or words with labels.

python run_classifier.py \
  --data_dir=glue --task_name=SST-2 --output_dir=sst-2 --albert_config_file=albert_config.json \
  --spm_model_file=30k-clean.model --init_checkpoint=albert_base --do_train --do_eval --do_predict \
  --max_seq_length=128 --train_step=2000 --warmup_step=200 --learning_rate=1e-5
"""

import math

from absl import flags

from albert_tf import options
from albert_tf.cli import finetuning_flags, flag_groups, launch
from albert_tf.errors import UserError

FLAGS = flags.FLAGS
TEXT_COLUMNS = ("text_column", "text_pair_column")
TSV_FLAGS = (*TEXT_COLUMNS, "label_column", "labels", "regression", "multi_label")
FLAGS_OF = {"tsv": TSV_FLAGS, "multi_label": TSV_FLAGS, "ner": ("labels",)}  # by --task_name


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.ClassifierData,
        options.ClassifierSteps,
        *options.FINE_TUNING,
        options.PredictedFile,
    )
    for name in ("data_dir", "task_name"):
        flags.register_validator(
            name,
            lambda value: value is not None or not reads_data_set(),
            f"Flag --{name} must have a value other than None, except to predict --predict_file "
            "or to export.",
        )


def reads_data_set():
    """Whether the files of the task are needed (bool)."""
    predicts = FLAGS["do_predict"].value and not FLAGS["predict_file"].value
    works = FLAGS["predict_file"].value or FLAGS["export_dir"].value
    return FLAGS["do_train"].value or FLAGS["do_eval"].value or predicts or not works


def check_flags():
    """Raises UserError for invalid combinations of flags, before anything is read."""
    finetuning_flags.check()
    if FLAGS.multi_label and (FLAGS.task_name or "tsv").lower() == "tsv":
        FLAGS.task_name = "multi_label"
    if FLAGS.task_name:  # otherwise it comes from the run's record
        check_task()
    if abs(FLAGS.threshold_to_export) > options.LARGEST_THRESHOLD:  # nan, the default, is not
        raise UserError(
            f"--threshold_to_export={FLAGS.threshold_to_export} is not finite in float32"
        )
    options.check_pair_length(FLAGS.max_seq_length)
    if FLAGS.num_trials > 1 and not (FLAGS.do_train and FLAGS.do_eval):
        raise UserError("--num_trials compares runs: it needs --do_train and --do_eval")
    if any("\t" in label or "\n" in label for label in FLAGS.labels or ()):
        raise UserError(f"--labels={FLAGS.labels}: a column's values hold no tabs and no line ends")
    if (FLAGS.task_name or "").lower() == "multi_label":
        labels = FLAGS.labels or (FLAGS.label_column or "").split(",")
        separator = options.LABEL_SEPARATOR
        if len(labels) > 1 and separator in "".join(labels):  # a single column may have any name
            raise UserError(
                f"--multi_label: a label cannot hold {separator}, which separates the labels of a "
                "text. Rename the column, or give other names for all columns of 0 and 1 as "
                f"--labels. Received: {', '.join(labels)}"
            )
    flag_groups.check_not_empty("predict_file")
    if FLAGS.text_column == "":
        raise UserError("--text_column is empty: give the name of a column, or its number from 0")
    if FLAGS.predict_file:
        if FLAGS.glue_submission_dir:
            raise UserError(
                "--glue_submission_dir is for test sets: leave out this flag or --predict_file"
            )
        flag_groups.check_exist("predict_file")
    if reads_data_set():
        flag_groups.check_exist("data_dir")
    finetuning_flags.check_model()


def check_task():
    """Raises UserError if the task is unknown or does not support some given flag."""
    options.check_task_name(FLAGS.task_name)
    task_name = FLAGS.task_name.lower()
    is_multi_label = task_name == "multi_label"
    excluded = FLAGS.regression or FLAGS.num_trials > 1
    if (FLAGS.multi_label and not is_multi_label) or (is_multi_label and excluded):
        raise UserError(
            "--multi_label is for --task_name=tsv, without --regression and --num_trials"
        )
    if FLAGS.do_train and task_name in ("tsv", "multi_label") and not FLAGS["text_column"].present:
        # The default, the first column, is often an id where columns have names.
        named = [
            f"--{name}={FLAGS[name].value}"
            for name in ("text_pair_column", "label_column")
            if FLAGS[name].value and not flag_groups.are_numbers(FLAGS[name].value)
        ]
        if named:
            raise UserError(
                f"{' '.join(named)}: the columns have names, so give --text_column too, the name "
                "of the column with the text"
            )
    if not math.isnan(FLAGS.threshold_to_export) and task_name in ("ner", "multi_label"):
        raise UserError(f"--threshold_to_export is not for --task_name={task_name}")
    if FLAGS.id_column and task_name == "ner":
        raise UserError("--id_column is a column of --predict_file, of texts and not of words")
    if FLAGS.glue_submission_dir and task_name in options.OWN_FILES:
        raise UserError("--glue_submission_dir is for GLUE tasks; the server knows no others")
    allowed = FLAGS_OF.get(task_name, ())
    if FLAGS.predict_file and task_name != "ner":
        allowed += TEXT_COLUMNS
    given = [name for name in TSV_FLAGS if FLAGS[name].present and name not in allowed]
    given = [name for name in given if FLAGS[name].value != FLAGS[name].default]
    if given:
        known = "tsv or ner" if given == ["labels"] else "tsv"
        raise UserError(
            f"{', '.join(f'--{name}' for name in given)}: for --task_name={known} only. Received: "
            f"{FLAGS.task_name}"
        )


def main(_):
    """Checks the flags; then trains, evaluates, predicts and exports."""
    check_flags()

    from albert_tf.cli import classifier_flags, model_flags, training_flags

    classifier_flags.follow_task()
    check_task()
    choice = model_flags.follow_run()
    text = model_flags.text_input([choice])
    data = classifier_flags.data_set(FLAGS.task_name.lower(), text)
    training_flags.fine_tune(data, choice.config, record_flags={}, do_eval=FLAGS.do_eval)


def run():
    """The command `albert-classify`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
