# SPDX-License-Identifier: Apache-2.0
"""The task and data set of run_classifier.py, from its flags and from the record of a run."""

import math

from absl import flags

from albert_tf import options
from albert_tf.checkpoints import run_directory, source
from albert_tf.cli import flag_groups, model_flags
from albert_tf.errors import UserError
from albert_tf.tasks import classification, glue, multi_label, ner, predicted_file

FLAGS = flags.FLAGS


def follow_task():
    """Sets flags that were not given to those of the trained run; does nothing in training."""
    if FLAGS.do_train:
        return
    checkpoint = model_flags.trained_checkpoint()
    directory = run_directory.directory_of(checkpoint) if checkpoint else FLAGS.output_dir
    trained = run_directory.RunDirectory(directory)
    kind = trained.task
    if FLAGS.task_name is None:
        FLAGS.task_name = _name_of(kind, directory)
    task_name = FLAGS.task_name.lower()
    if kind is None or task_name not in options.OWN_FILES:
        return
    if kind.task_name != task_name:
        if not checkpoint:  # a start that failed has recorded the other task
            return
        raise UserError(
            f"{directory} was trained for {kind} and not for {task_name}: change --task_name"
        )
    recorded = {"regression": kind.labels is None, "multi_label": task_name == multi_label.NAME}
    for name, value in recorded.items():
        if FLAGS[name].present and FLAGS[name].value != value:
            raise UserError(
                f"{source.as_flag(name, FLAGS[name].value)}, but {directory} was trained for "
                f"{kind}: leave it out"
            )
    if not FLAGS.labels:
        FLAGS.labels = list(kind.labels or ())
        FLAGS.regression = kind.labels is None
    if task_name != "ner" and trained.settings:
        _follow_columns(trained.settings.flags, trained.file(run_directory.SETTINGS))


def _name_of(kind, directory):
    if kind is None:
        raise UserError(
            f"{directory} holds no {run_directory.TASK} with the model's task: give --task_name"
        )
    if kind.task_name not in (*options.GLUE_TASKS, *options.OWN_FILES):
        raise UserError(f"{directory} was trained for {kind}, which is not for run_classifier.py")
    return kind.task_name


def _follow_columns(trained, path):
    if not trained.get("text_column"):  # the run is of an earlier version
        return
    names = ("text_column", "text_pair_column", "label_column")
    given = flag_groups.given(names)
    kinds = {flag_groups.are_numbers(column) for column in given.values()}
    for name in [name for name in names if name not in given]:
        column = trained.get(name)
        # Numbers of the training may be other columns of a file whose columns are named here.
        if column and kinds - {flag_groups.are_numbers(column)}:
            column = None
        FLAGS[name].value = column
    _check_pair(bool(trained.get("text_pair_column")), f"the training ({path})")
    if FLAGS.text_column is None:
        raise UserError(
            f"give --text_column too: the training ({path}) has {trained['text_column']}, but "
            "names and numbers of columns cannot be mixed"
        )


def _check_pair(has_pair, what):
    if has_pair == bool(FLAGS.text_pair_column):
        return
    if has_pair:
        raise UserError(f"{what} has pairs of texts: give --text_pair_column")
    raise UserError(
        f"--text_pair_column={FLAGS.text_pair_column}: {what} has no second text. Leave it out"
    )


def data_set(name, text):
    """Makes the data set of the task.

    Args:
        name: str, --task_name in lower case.
        text: TextInput.

    Returns:
        tasks.base.DataSet.

    Raises:
        UserError: the columns of --predict_file are unknown, or do not fit the model.
    """
    data_dir = FLAGS.data_dir or ""
    directories = data_dir, FLAGS.output_dir, FLAGS.cached_dir or FLAGS.output_dir
    path = FLAGS.predict_file
    if name == "ner":
        task = ner.NerTask(ner.find_labels(data_dir, FLAGS.labels), text)
        if path:
            return predicted_file.FileOfWords(task, *directories, path=path)
        return ner.NerData(task, *directories)
    task = _task_of_texts(name, text)
    given = {"row": task.row, "shuffle_buffer_size": FLAGS.shuffle_buffer_size}
    if path:
        given |= {"path": path, **_columns_to_predict(task.row)}
        return predicted_file.FileClassification(task, *directories, **given)
    given["submission_dir"] = FLAGS.glue_submission_dir
    return classification.GlueData(task, *directories, **given)


def _task_of_texts(name, text):
    """Makes the task of GLUE, or of one's own texts with labels."""
    if name in options.OWN_FILES:
        row = glue.tsv_task(
            *(FLAGS.text_column, FLAGS.text_pair_column, FLAGS.label_column),
            *(FLAGS.labels, FLAGS.regression, FLAGS.data_dir or ""),
            multi_label=name == "multi_label",
        )
    else:
        row = glue.find_task(name)
    if name == "multi_label":
        places = {"directory": FLAGS.output_dir, "given": FLAGS.init_checkpoint}
        return multi_label.MultiLabelTask(name, row, text, **places)
    threshold = None if math.isnan(FLAGS.threshold_to_export) else FLAGS.threshold_to_export
    return classification.ClassificationTask(name, row, text, threshold)


def _columns_to_predict(row):
    """Columns of --predict_file, for the GlueTask of the model: dict."""
    if row.folder:  # a GLUE task
        if not FLAGS["text_column"].present:
            raise UserError(
                "--predict_file needs --text_column with a model of GLUE: the name of a column in "
                "its first line, or a number from 0 if it has no names"
            )
        _check_pair(len(row.text) == 2, f"--task_name={FLAGS.task_name}")
    return {
        "text_columns": glue.columns(FLAGS.text_column, FLAGS.text_pair_column),
        "id_columns": glue.columns(FLAGS.id_column),
    }
