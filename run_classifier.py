# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on GLUE tasks, or your own texts or words with labels.

python run_classifier.py \
  --data_dir=glue --task_name=SST-2 --output_dir=sst-2 --albert_config_file=albert_config.json \
  --spm_model_file=30k-clean.model --init_checkpoint=albert_base --do_train --do_eval --do_predict \
  --max_seq_length=128 --train_step=2000 --warmup_step=200 --learning_rate=1e-5
"""

import functools
import math

from absl import flags

from albert_tf import options
from albert_tf.cli import classifier_flags, finetuning_flags, flag_groups, launch, model_flags

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.ClassifierData,
        options.FineTuningSteps,
        options.ClassifierCheckpoints,
        *options.FINE_TUNING,
        options.PredictedFile,
    )
    classifier_flags.require_flags()


def glue_task(name):
    """Makes a task of texts, of GLUE or one's own, and its data set, but for text and directories.

    Args:
        name: str, --task_name in lower case.
    """
    from albert_tf.checkpoints import run_directory
    from albert_tf.tasks import classification, glue, multi_label, predicted_file

    if name in options.OWN_FILES:
        row = glue.tsv_task(
            *(FLAGS.text_column, FLAGS.text_pair_column, FLAGS.label_column),
            *(FLAGS.labels, FLAGS.regression, FLAGS.data_dir or ""),
            multi_label=name == "multi_label",
        )
    else:
        row = glue.find_task(name)
    threshold = None if math.isnan(FLAGS.threshold_to_export) else FLAGS.threshold_to_export
    task = functools.partial(classification.ClassificationTask, name, row, threshold=threshold)
    if name == "multi_label":
        # An evaluation keeps its threshold in the run's own directory.
        evaluates = FLAGS.do_train or FLAGS.do_eval
        trained = None if evaluates else finetuning_flags.trained_checkpoint()
        directory = run_directory.directory_of(trained) if trained else FLAGS.output_dir
        task = functools.partial(multi_label.MultiLabelTask, name, row, directory=directory)
    data, file = classification.GlueData, {}
    if FLAGS.predict_file:
        data, file = predicted_file.FileClassification, classifier_flags.texts_to_predict(row)
    return task, functools.partial(
        data,
        row=row,
        submission_dir=FLAGS.glue_submission_dir,
        shuffle_buffer_size=FLAGS.shuffle_buffer_size,
        **file,
    )


def ner_task():
    """Makes the task of words with labels, and its data set, in the same way."""
    from albert_tf.tasks import ner, predicted_file

    task = functools.partial(ner.NerTask, ner.find_labels(FLAGS.data_dir or "", FLAGS.labels))
    if FLAGS.predict_file:
        return task, functools.partial(predicted_file.FileOfWords, path=FLAGS.predict_file)
    return task, ner.NerData


def main(_):
    """Makes values of the flags; then trains, evaluates, predicts and exports."""
    flag_groups.note_obsolete_flags()
    finetuning_flags.check()
    classifier_flags.check()
    finetuning_flags.check_model()

    classifier_flags.follow_task()
    classifier_flags.check_task()
    name = FLAGS.task_name.lower()
    make_task, make_data = ner_task() if name == "ner" else glue_task(name)
    choice = finetuning_flags.follow_run()
    task = make_task(text=model_flags.text_input([choice]))
    cached_dir = FLAGS.cached_dir or FLAGS.output_dir
    data = make_data(task, FLAGS.data_dir or "", FLAGS.output_dir, cached_dir)
    finetuning_flags.check_writable("cached_dir", "glue_submission_dir")
    finetuning_flags.check_task(task.kind)
    keep = FLAGS.keep_checkpoint_max if FLAGS.do_eval else None
    finetuning_flags.fine_tune(data, choice.config, keep_checkpoint_max=keep)


def run():
    """The command `albert-classify`."""
    define_flags()
    launch.run(main)


if __name__ == "__main__":
    run()
