# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on SQuAD 1.1 and 2.0, or on your own questions.

python run_squad.py --init_checkpoint=albert_base --output_dir=output/squad \
  --train_file=train-v2.0.json --predict_file=dev-v2.0.json --do_train --do_predict \
  --train_batch_size=48 --learning_rate=5e-5 --num_train_epochs=2 --warmup_proportion=0.1 \
  --save_checkpoints_steps=1000
"""

import sys

from albert_tf import options
from albert_tf.cli import flag_groups, launch

KEEP_CHECKPOINTS = 3  # of those that were evaluated, besides the best, as in the original
RECORD_FLAGS = {"train": "train_feature_file", "dev": "predict_feature_file"}


def main(given):
    """Checks the flags; then trains, evaluates, predicts and exports."""
    flag_groups.check_run(given, "export_dir")

    from albert_tf.checkpoints import run_directory
    from albert_tf.cli import model_flags, training_flags
    from albert_tf.tasks.squad import squad
    from albert_tf.training import finetuning

    directory = run_directory.RunDirectory(given.output_dir)
    prefixes = model_flags.members_of(given)
    if not (prefixes or given.do_train):
        prefixes = [directory.trained_or(given.init_checkpoint)]
    version, fact = squad.choose_version(prefixes, given.train_file, given.version_2_with_negative)
    models = model_flags.of_fine_tuning(given, version_2_with_negative=fact)
    settings = models[0].settings
    text = model_flags.text_input(models)
    task = version(text, settings.values_of(options.Squad), given.output_dir)
    task.reads_cls = squad.is_read_at_cls(prefixes)
    data = squad.data_set(task, given.output_dir)
    data.check_thresholds(prefixes)
    steps = sys.maxsize  # without training, only the timeout ends a wait for checkpoints
    if given.do_train:
        # An epoch is as many examples as questions, as in the original; windows are more.
        steps = finetuning.steps_of_epochs(
            len(data.train_examples), settings.train_batch_size, settings.num_train_epochs
        )
    can_evaluate = given.do_predict and data.is_labelled and not given.ensemble_dirs
    training_flags.fine_tune(
        data,
        models,
        record_flags=RECORD_FLAGS,
        do_eval=can_evaluate and bool(given.do_train or directory.trained),
        train_steps=steps,
        warmup_steps=int(steps * settings.warmup_proportion),
        keep_checkpoint_max=KEEP_CHECKPOINTS,
        eval_batch_size=given.predict_batch_size,
    )


run = launch.command(  # albert-squad
    main,
    options.Squad,
    *options.FINE_TUNING,
    options.SquadLeftovers,
    without=("do_eval", "eval_batch_size"),  # prediction is evaluation here
    max_seq_length=384,
)


if __name__ == "__main__":
    run()
