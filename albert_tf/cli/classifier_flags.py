# SPDX-License-Identifier: Apache-2.0
"""Flags of run_classifier.py for the task and its data; some can come from the run's record."""

import math

from absl import flags

from albert_tf import options
from albert_tf.cli import finetuning_flags, flag_groups
from albert_tf.errors import UserError

FLAGS = flags.FLAGS
TEXT_COLUMNS = ("text_column", "text_pair_column")
TSV_FLAGS = (*TEXT_COLUMNS, "label_column", "labels", "regression", "multi_label")
FLAGS_OF = {"tsv": TSV_FLAGS, "multi_label": TSV_FLAGS, "ner": ("labels",)}  # by --task_name


def require_flags():
    """Makes flags for data required where they are needed."""
    flags.mark_flag_as_required("output_dir")
    for name in ("data_dir", "task_name"):
        flags.register_validator(
            name,
            lambda value: value is not None or not _reads_data_set(),
            f"Flag --{name} must have a value other than None.",
        )


def _reads_data_set():
    predicts = FLAGS["do_predict"].value and not FLAGS["predict_file"].value
    works = FLAGS["predict_file"].value or FLAGS["export_dir"].value
    return FLAGS["do_train"].value or FLAGS["do_eval"].value or predicts or not works


# --- What the record of a run says ---------------------------------------------------------------


def follow_task():
    """Sets flags that were not given to those of the trained run; does nothing in training."""
    from albert_tf.checkpoints import run_directory

    if FLAGS.do_train:
        return
    checkpoint = finetuning_flags.trained_checkpoint()
    directory = run_directory.directory_of(checkpoint) if checkpoint else FLAGS.output_dir
    trained = run_directory.RunDirectory(directory)
    kind = trained.task
    if FLAGS.task_name is None:
        FLAGS.task_name = _name_of(kind, directory)
    task_name = FLAGS.task_name.lower()
    if kind is None or kind.task_name != task_name or task_name not in options.OWN_FILES:
        return
    if not (FLAGS.labels or FLAGS.regression):
        FLAGS.labels = list(kind.labels or ())
        FLAGS.regression = kind.labels is None
    if task_name != "ner" and trained.settings:
        _follow_columns(trained.settings.flags, trained.file(run_directory.SETTINGS))


def _name_of(kind, directory):
    from albert_tf.checkpoints import run_directory

    if kind is None:
        raise UserError(
            f"{directory} holds no {run_directory.TASK} with the model's task: give --task_name"
        )
    if kind.task_name not in (*options.GLUE_TASKS, *options.OWN_FILES):
        raise UserError(f"{directory} was trained for {kind}, which is not for run_classifier.py")
    return kind.task_name


def _follow_columns(trained, path):
    names = (*TEXT_COLUMNS, "label_column")
    if not trained.get("text_column"):  # the run is of an earlier version
        return
    if not any(FLAGS[name].present for name in names):
        for name in names:
            FLAGS[name].value = trained.get(name)
    _check_pair(bool(trained.get("text_pair_column")), f"the training ({path})")


def _check_pair(has_pair, what):
    if has_pair == bool(FLAGS.text_pair_column):
        return
    if has_pair:
        raise UserError(f"{what} has pairs of texts: give --text_pair_column")
    raise UserError(
        f"--text_pair_column={FLAGS.text_pair_column}: {what} has no second text. Leave it out"
    )


def texts_to_predict(row):
    """Attributes of predicted_file.FileClassification from --predict_file: dict.

    Args:
        row: GlueTask, of the model.

    Raises:
        UserError: the columns are unknown, or do not fit the model.
    """
    from albert_tf.tasks import glue

    if row.folder:  # a GLUE task
        if not FLAGS["text_column"].present:
            raise UserError(
                "--predict_file needs --text_column with a model of GLUE: the name of a column in "
                "its first line, or a number from 0 if it has no names"
            )
        _check_pair(len(row.text) == 2, f"--task_name={FLAGS.task_name}")
    return {
        "path": FLAGS.predict_file,
        "text_columns": glue.columns(FLAGS.text_column, FLAGS.text_pair_column),
        "id_columns": glue.columns(FLAGS.id_column),
    }


# --- Checks --------------------------------------------------------------------------------------


def check():
    """Raises UserError for invalid combinations of flags, before anything is read."""
    if FLAGS.multi_label:
        if FLAGS.num_trials > 1 or FLAGS.regression or FLAGS.task_name not in (None, "tsv"):
            raise UserError(
                "--multi_label is for --task_name=tsv, without --regression and --num_trials"
            )
        FLAGS.task_name = "multi_label"
    if FLAGS.task_name:  # otherwise it comes from the run's record
        check_task()
    if not math.isnan(FLAGS.threshold_to_export) and not FLAGS.export_dir:
        raise UserError("--threshold_to_export needs --export_dir")
    if math.isinf(FLAGS.threshold_to_export):
        raise UserError(f"--threshold_to_export={FLAGS.threshold_to_export} is not finite")
    options.check_pair_length(FLAGS.max_seq_length)
    if FLAGS.num_trials > 1 and not (FLAGS.do_train and FLAGS.do_eval):
        raise UserError("--num_trials compares runs: it needs --do_train and --do_eval")
    if any("\t" in label or "\n" in label for label in FLAGS.labels or ()):
        raise UserError(f"--labels={FLAGS.labels}: a column's values hold no tabs and no line ends")
    flag_groups.check_not_empty("predict_file")
    if FLAGS.predict_file:
        if not FLAGS.do_predict:
            raise UserError("--predict_file needs --do_predict")
        if FLAGS.glue_submission_dir:
            raise UserError(
                "--glue_submission_dir is for test sets: leave out this flag or --predict_file"
            )
        flag_groups.check_exist("predict_file")
    elif FLAGS.id_column:
        raise UserError("--id_column is a column of --predict_file: give that too")
    if _reads_data_set():
        flag_groups.check_exist("data_dir")


def check_task():
    """Raises UserError if the task is unknown or does not support some given flag."""
    options.check_task_name(FLAGS.task_name)
    task_name = FLAGS.task_name.lower()
    if FLAGS.do_train and task_name in ("tsv", "multi_label") and not FLAGS["text_column"].present:
        # The default, the first column, is often an id where columns have names.
        given = {name: FLAGS[name].value for name in ("text_pair_column", "label_column")}
        named = [
            f"--{name}={x}"
            for name, x in given.items()
            if x is not None and not x.replace(",", "").isdecimal()
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
