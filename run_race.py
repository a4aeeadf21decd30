# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on RACE, questions with four answers about a passage.

python run_race.py \
  --data_dir=data --output_dir=output/race --albert_config_file=albert_config.json \
  --spm_model_file=30k-clean.model --init_checkpoint=albert_base --do_train --do_eval --do_predict \
  --max_seq_length=512 --max_qa_length=128 --train_step=12000 --warmup_step=1000 \
  --learning_rate=1e-5
"""

from absl import flags

from albert_tf import options
from albert_tf.cli import finetuning_flags, flag_groups, launch

FLAGS = flags.FLAGS
V2_LEARNING_RATE = 1e-5  # the original's for version 2; higher ones diverge
RECORD_FLAGS = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}  # by split


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.Race,
        options.RaceSteps,
        *options.FINE_TUNING,
        train_step=12000,
        warmup_step=1000,
        learning_rate=1e-5,
        save_checkpoints_steps=100,
        do_train=True,
        do_eval=True,
    )


def check_flags():
    """Raises UserError for invalid combinations of flags, before anything is read."""
    finetuning_flags.check()
    if FLAGS.do_train:
        options.check_race_lengths(FLAGS.max_seq_length, FLAGS.max_qa_length)
    flag_groups.check_exist("data_dir")
    finetuning_flags.check_model()


def warn_of_version(config):
    """Prints a warning where version 1's settings meet a version 2 model."""
    has_dropout = config.hidden_dropout_prob or config.attention_probs_dropout_prob
    # The folder counts as well: albert_base_v2/model.ckpt-best.
    weights = FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle or ""
    names = weights.split("/")[-2:]
    if has_dropout and any("v2" in name for name in names):
        print(
            f"Warning: the config has dropout, but {'/'.join(names)} sounds like version 2, which "
            "was trained without: fine-tuning diverges. Set both dropout rates of the config to 0."
        )
    if not has_dropout and FLAGS.learning_rate > V2_LEARNING_RATE:
        print(
            f"Warning: a config without dropout is version 2's, whose fine-tuning on RACE may "
            f"diverge with --learning_rate={FLAGS.learning_rate}: the recipe is {V2_LEARNING_RATE}."
        )


def main(_):
    """Checks the flags; then trains, evaluates, predicts and exports."""
    check_flags()

    from albert_tf.cli import model_flags, training_flags
    from albert_tf.tasks import race

    levels = ("middle",) * FLAGS.middle_only or ("high",) * FLAGS.high_only or race.LEVELS
    choice = model_flags.follow_run()
    text = model_flags.text_input([choice])
    task = race.RaceTask(text, FLAGS.max_qa_length, FLAGS.dropout_prob)
    data = race.RaceData(
        task,
        FLAGS.data_dir,
        FLAGS.output_dir,
        cached_dir=FLAGS.output_dir,
        levels=levels,
        record_files={split: FLAGS[flag].value for split, flag in RECORD_FLAGS.items()},
    )
    if FLAGS.do_train:
        warn_of_version(choice.config)
    training_flags.fine_tune(
        data,
        choice.config,
        record_flags=RECORD_FLAGS,
        do_eval=FLAGS.do_eval,
        keep_checkpoint_max=FLAGS.num_keep_checkpoint,
    )


def run():
    """The command `albert-race`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
