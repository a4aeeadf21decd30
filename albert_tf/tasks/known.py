# SPDX-License-Identifier: Apache-2.0
"""The tasks by name, as flags and the directories of runs have it."""

import math

from albert_tf import options
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import FinetunedTask, RunDirectory
from albert_tf.errors import UserError
from albert_tf.options import MULTI_LABEL, OF_WORDS
from albert_tf.tasks import (
    classification,
    glue,
    multi_label,
    ner,
    own_tables,
    race,
    tables,
    word_files,
)
from albert_tf.tasks.squad import squad
from albert_tf.text.sequences import NUM_SPECIALS

REGRESSION = "regression"
LENGTH_OF_SQUAD = 384  # as run_squad.py has it


# --- For flags -----------------------------------------------------------------------------------


def data_set(settings, text, record=None):
    """Makes the data set of a task of run_classifier.py.

    Args:
        settings: resolve.Resolved, of its options.
        text: TextInput.
        record: RunSettings of the model's training; None before it, or if it is not known.

    Returns:
        tasks.base.DataSet.

    Raises:
        UserError: the columns do not fit the task, or the labels cannot be read.
    """
    output_dir, data_dir = settings.output_dir, settings.data_dir or ""
    directories = data_dir, output_dir, settings.cached_dir or output_dir
    name = settings.task_name.lower()
    if name == OF_WORDS:
        # The default, 0, stands for the column that is found; run.json has it too.
        is_found = settings.text_column == "0" and not settings.typed("text_column")
        word = None if is_found else settings.text_column
        given = (tables.column_of(column or None) for column in (word, settings.label_column))
        columns = word_files.Columns(*given)
        labels = word_files.find_labels(data_dir, settings.labels, columns)
        task = ner.NerTask(labels, text, ner.word_pattern_of(record, text.tokenizer))
        data = ner.NerData(task, *directories, columns=columns)
        if settings.do_train and not (record and record.data):
            task.word_pattern = data.of_training[2]
        return data
    task = _task_of_texts(name, settings, text, record)
    return classification.GlueData(
        task,
        *directories,
        row=task.row,
        submission_dir=settings.glue_submission_dir,
        shuffle_buffer_size=settings.shuffle_buffer_size,
        says_columns=task.row.is_own and not settings.do_train,
    )


def _task_of_texts(name, settings, text, record):
    """Makes the task of GLUE, or of one's own texts with labels."""
    if name not in options.OWN_FILES:
        row = glue.find_task(name)
    else:
        _check_text_column(settings)
        given = settings.values_of(options.ClassifierData, multi_label=name == MULTI_LABEL)
        row = own_tables.tsv_task(given, record and record.data.get("header"))
    cut = {"long_texts": settings.long_texts, "max_windows": settings.max_windows}
    if row.is_own and row.is_regression:
        cut["scale"] = _scale(row, settings)
    if name == MULTI_LABEL:
        places = {"directory": settings.output_dir, "given": settings.init_checkpoint}
        return multi_label.MultiLabelTask(name, row, text, **places, **cut)
    threshold = settings.threshold_to_export
    threshold = None if math.isnan(threshold) else threshold
    return classification.ClassificationTask(name, row, text, threshold, **cut)


def _scale(row, settings):
    """Means and standard deviations with which scores are trained; None for a score as it is.

    They are those of the run, else of the training file, else of the model from elsewhere.
    """
    folder, given = RunDirectory(settings.output_dir), settings.init_checkpoint
    if not folder.task and settings.do_train:
        return own_tables.label_scale(row, settings.data_dir)
    kinds = [RunDirectory(each).task for each in settings.ensemble_dirs]
    if len({kind and kind.scale for kind in kinds}) > 1:
        raise UserError(
            f"--ensemble_dirs={','.join(settings.ensemble_dirs)} must be trained on the same scores"
        )
    kinds += [folder.task or (given and RunDirectory(run_directory.directory_of(given)).task)]
    kind = kinds[0]
    theirs, ours = (kind and kind.scores) or (), row.label_names
    is_mixed = theirs != ours and sorted(theirs) == sorted(ours)
    if kind and (kind.num_outputs != row.num_outputs or is_mixed):
        raise UserError(
            f"--label_column={settings.label_column}: give {kind.num_outputs} columns, one for "
            f"each score of the model, in its order: {', '.join(theirs) or 'not known'}"
        )
    return kind.scale if kind else None


def _check_text_column(settings):
    """Raises UserError if columns have names and the text is the first by default, often an id."""
    others = settings.typed("text_pair_column", "label_column")
    named = [
        f"--{name}={value}"
        for name, value in others.items()
        if value and not value.replace(",", "").isdecimal()
    ]
    if named and settings.origin("text_column") == "default":
        raise UserError(f"{' '.join(named)}: give the name of the text too, as --text_column")


# --- For the directory of a run ------------------------------------------------------------------


def find_kind(name, given_labels, shown):
    """The FinetunedTask of a name that a caller gives; None if its labels are not known.

    Args:
        name: str, in any case.
        given_labels: tuple of str or None, which must be those of the task.
        shown: callable, `resolve.as_flag` or `resolve.as_argument`.

    Raises:
        UserError: there is no such task, or it has other labels.
    """
    if name in ("tsv", OF_WORDS, MULTI_LABEL):
        return None
    num_options = len(given_labels or ()) or race.NUM_OPTIONS
    fixed = {REGRESSION: None, race.RaceTask.name: race.labels_of(num_options)}
    options.check_task_name(name, shown("task_name", name), [*fixed])
    labels = fixed[name] if name in fixed else glue.find_task(name).labels
    if given_labels not in (None, labels):
        theirs = shown("labels", list(labels)) if labels else "no labels"
        raise UserError(
            f"{shown('labels', list(given_labels))}: {shown('task_name', name)} has {theirs}"
        )
    return FinetunedTask(name, labels)


def make_task(kind, text, found):
    """Makes the tasks.base.Task of a checkpoint.

    Args:
        kind: FinetunedTask.
        text: TextInput.
        found: checkpoints.source.Source.
    """
    record, name = found.settings, kind.task_name
    recorded = record.flags | record.text if record else {}
    if name == squad.SquadTask.name:
        return _squad_task(text, found, recorded)
    if name == OF_WORDS:
        return ner.NerTask(kind.labels, text, ner.word_pattern_of(record, text.tokenizer))
    if name == race.RaceTask.name:
        given = {key: recorded[key] for key in ("max_qa_length",) if key in recorded}
        longest = options.Race(**given).max_qa_length  # checked
        if longest >= text.max_seq_length - NUM_SPECIALS:  # shorter than in training
            longest = min(text.max_seq_length // 2, text.max_seq_length - NUM_SPECIALS - 1)
        return race.RaceTask(text, longest, choices=len(kind.labels))
    row = glue.TASKS.get(name.lower())
    optional = () if row or "text_column" in recorded else ("text_pair",)
    cut = {key: recorded[key] for key in ("long_texts", "max_windows") if key in recorded}
    cut["scale"] = kind.scale
    if row is None:
        scores = range(kind.num_outputs) if kind.labels is None else ()
        given = options.ClassifierData(
            text_pair_column="1" if optional or recorded.get("text_pair_column") else None,
            label_column=",".join(map(str, scores)),
            labels=kind.labels,
            regression=kind.labels is None,
            multi_label=name == MULTI_LABEL,
        )
        row = own_tables.tsv_task(given)
        if given.multi_label:
            return multi_label.MultiLabelTask(
                name, row, text, None, optional, directory=found.directory, **cut
            )
    return classification.ClassificationTask(name, row, text, optional_inputs=optional, **cut)


def _squad_task(text, found, recorded):
    version, _ = squad.choose_version([found.checkpoint])
    values = {name: recorded[name] for name in version.answer_settings if name in recorded}
    longest = text.max_seq_length - NUM_SPECIALS
    if text.max_seq_length < recorded.get("max_seq_length", LENGTH_OF_SQUAD):
        # Shorter than in training: the question must leave room, and windows must overlap.
        longest = max(text.max_seq_length // 3, 1)
    for name in ("doc_stride", "max_query_length"):
        values[name] = min(recorded.get(name, getattr(options.Squad, name)), longest)
    if version.has_negatives:
        values[squad.THRESHOLD] = squad.tuned_threshold(found.directory, [found.checkpoint])
    task = version(text, options.Squad(**values), found.directory)
    task.reads_cls = squad.is_read_at_cls([found.checkpoint])
    return task
