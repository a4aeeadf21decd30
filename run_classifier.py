# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on GLUE tasks, or one's own texts or words with labels.

python run_classifier.py \
  --data_dir=glue --task_name=SST-2 --output_dir=sst-2 --albert_config_file=albert_config.json \
  --spm_model_file=30k-clean.model --init_checkpoint=albert_base --do_train --do_eval --do_predict \
  --max_seq_length=128 --train_step=2000 --warmup_step=200 --learning_rate=1e-5
"""

import functools
import math

from absl import flags

from albert_tf.cli import finetuning_flags, flag_groups, launch, model_flags
from albert_tf.errors import UserError
from albert_tf.tasks import classification_features, glue, ner
from albert_tf.tasks.classification import ClassificationTask
from albert_tf.training import finetuned_task, finetuning

FLAGS = flags.FLAGS
TSV_FLAGS = ("text_column", "text_pair_column", "label_column", "labels", "regression")
FLAGS_OF = {"tsv": TSV_FLAGS, "ner": ("labels",)}  # --task_name -> flags that others do not have


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flags.DEFINE_string("data_dir", None, "Directory of the GLUE data, a folder for each task.")
    flags.DEFINE_string(
        "task_name",
        None,
        f"One of {', '.join(glue.TASKS)}; or tsv: train.tsv, dev.tsv and test.tsv in --data_dir; "
        "or ner: train.conll, dev.conll and test.conll there, a word and its label on each line.",
    )
    flags.DEFINE_string(
        "cached_dir", None, "Where the TFRecords of features are kept; --output_dir by default."
    )
    flags.DEFINE_string("text_column", "0", "tsv: column of the text, a name or a number from 0.")
    flags.DEFINE_string("text_pair_column", None, "tsv: column of a second text.")
    flags.DEFINE_string("label_column", None, "tsv: column of the label.")
    flags.DEFINE_list("labels", None, "tsv, ner: the classes; the training file's by default.")
    flags.DEFINE_bool("regression", False, "tsv: whether labels are numbers to be predicted.")
    flags.DEFINE_integer(
        "num_trials",
        1,
        "Runs with seeds of their own, in folders of their own; the best is kept. The paper "
        "reports the median of five.",
    )
    flags.DEFINE_string(
        "glue_submission_dir", None, "Where to write predictions as the GLUE server takes them."
    )
    flags.DEFINE_float(
        "threshold_to_export", math.nan, "A number to give back with the export's predictions."
    )
    finetuning_flags.define_steps(train_step=1000, warmup_step=0, keep_flag="keep_checkpoint_max")
    finetuning_flags.define_flags(
        max_seq_length=512, learning_rate=5e-5, save_checkpoints_steps=1000
    )
    flags.mark_flags_as_required(["data_dir", "task_name", "output_dir"])


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    finetuning_flags.check()
    if not math.isnan(FLAGS.threshold_to_export) and not FLAGS.export_dir:
        raise UserError("--threshold_to_export needs --export_dir")
    if not math.isnan(FLAGS.threshold_to_export) and FLAGS.task_name.lower() == "ner":
        raise UserError("--threshold_to_export is not for --task_name=ner")
    if math.isinf(FLAGS.threshold_to_export):
        raise UserError(f"--threshold_to_export={FLAGS.threshold_to_export} is not finite")
    classification_features.check_max_seq_length(FLAGS.max_seq_length)
    if FLAGS.num_trials > 1 and not (FLAGS.do_train and FLAGS.do_eval):
        raise UserError("--num_trials compares runs: it needs --do_train and --do_eval")
    if any("\t" in label or "\n" in label for label in FLAGS.labels or ()):
        raise UserError(f"--labels={FLAGS.labels}: a column's values hold no tabs and no line ends")
    task_name = FLAGS.task_name.lower()
    if FLAGS.glue_submission_dir and task_name in TASKS:
        raise UserError("--glue_submission_dir is for GLUE tasks; the server knows no others")
    given = [name for name in TSV_FLAGS if FLAGS[name].value != FLAGS[name].default]
    tasks = [task for task, names in FLAGS_OF.items() if set(given) <= set(names)]
    if given and task_name not in tasks:
        raise UserError(
            f"{', '.join(f'--{name}' for name in given)}: for --task_name={' or '.join(tasks)} "
            f"alone. Received: {FLAGS.task_name}"
        )


def glue_task(row=None):
    """What makes the task of a GlueTask, by default the one that --task_name names."""
    return functools.partial(
        ClassificationTask,
        name=FLAGS.task_name.lower(),
        row=row or glue.find_task(FLAGS.task_name),
        submission_dir=FLAGS.glue_submission_dir,
        shuffle_buffer_size=FLAGS.shuffle_buffer_size,
        threshold=None if math.isnan(FLAGS.threshold_to_export) else FLAGS.threshold_to_export,
    )


def tsv_task():
    """What makes the task of one's own texts with labels or scores."""
    columns = (FLAGS.text_column, FLAGS.text_pair_column, FLAGS.label_column)
    return glue_task(glue.tsv_task(*columns, FLAGS.labels, FLAGS.regression, FLAGS.data_dir))


def ner_task():
    """What makes the task of words with labels."""
    return functools.partial(ner.NerTask, ner.find_labels(FLAGS.data_dir, FLAGS.labels))


TASKS = {"tsv": tsv_task, "ner": ner_task}  # --task_name -> what makes the task; else GLUE's


def main(_):
    """Makes values of the flags; then trains, evaluates, predicts and exports."""
    flag_groups.note_obsolete_flags()
    check_flags()
    make_task = TASKS.get(FLAGS.task_name.lower(), glue_task)()
    finetuning_flags.follow_run()
    config = model_flags.read_config()
    task = make_task(
        text=model_flags.text_input([config]),
        data_dir=FLAGS.data_dir,
        output_dir=FLAGS.output_dir,
        cached_dir=FLAGS.cached_dir or FLAGS.output_dir,
    )
    finetuning_flags.check_writable("cached_dir", "glue_submission_dir")
    finetuned_task.check(task.kind, FLAGS.output_dir, finetuning_flags.given_checkpoint())
    options = finetuning_flags.read_options(
        FLAGS.train_step,
        FLAGS.warmup_step,
        # Without evaluation, another process may evaluate later: until then all have to stay.
        FLAGS.keep_checkpoint_max if FLAGS.do_eval else None,
        num_trials=FLAGS.num_trials,
    )
    finetuning.fine_tune(task, config, options, launch.set_up_devices())


if __name__ == "__main__":
    define_flags()
    launch.run(main)
