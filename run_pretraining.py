# SPDX-License-Identifier: Apache-2.0
r"""Pre-trains ALBERT on TFRecords of `create_pretraining_data.py` and evaluates it.

python run_pretraining.py \
  --albert_config_file=albert_config.json --input_file='records/train-*' \
  --eval_input_file='records/heldout-*' --output_dir=output \
  --do_train --do_eval --train_batch_size=64 --num_train_steps=2000 --num_warmup_steps=200
"""

from absl import flags

from albert_tf import options
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError

FLAGS = flags.FLAGS
PAPER_BATCH = 4096  # batch size for the default learning rate, section 4.1 of the paper


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.PretrainingData,
        options.PretrainingUpdates,
        options.OnlineMasking,
        options.TrainingPairs,
        *options.TRAINING,
        options.Operations,
        save_checkpoints_steps=5000,
    )


def check_flags():
    """Raises UserError for invalid combinations of flags, before anything is read."""
    flag_groups.check_not_empty("output_dir")
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("nothing to do: give --do_train, --do_eval or both")
    flag_groups.check_exist(
        "albert_config_file", "input_file", "eval_input_file", "minimal_pairs_file"
    )
    if FLAGS.minimal_pairs_file and not FLAGS.do_train:
        raise UserError(
            "--minimal_pairs_file is for --do_train: minimal_pairs.py measures a trained model"
        )
    if FLAGS.do_train:
        check_masking()
    flag_groups.check_synonyms()
    flag_groups.check_run()


def check_masking():
    """Raises UserError for invalid combinations of flags that an evaluation takes from its run."""
    flag_groups.check_needs()
    budget = FLAGS.masked_lm_budget
    flag_groups.check_vocabulary(budget and f"--masked_lm_budget={budget}")


def warn():
    """Warns about valid but probably unintended values."""
    unread = {"continuous_eval_timeout": "without --do_train"}
    if not FLAGS.do_eval:
        of_evaluations = "eval_input_file", "eval_batch_size", "max_eval_steps"
        unread |= dict.fromkeys((*of_evaluations, "save_moments_for_best"), "with --do_eval")
    for name, when in unread.items():
        if FLAGS[name].value != FLAGS[name].default:
            print(f"Warning: --{name} is only read {when}.")
    if FLAGS.start_warmup_step:
        print(
            f"Warning: the learning rate is negative before --start_warmup_step="
            f"{FLAGS.start_warmup_step}, as in the original: it is for runs that begin there."
        )
    if FLAGS.train_batch_size < PAPER_BATCH and FLAGS["learning_rate"].using_default_value:
        scaled = FLAGS.learning_rate * (FLAGS.train_batch_size / PAPER_BATCH) ** 0.5
        print(
            f"Warning: --learning_rate={FLAGS.learning_rate} is meant for batches of "
            f"{PAPER_BATCH}; for --train_batch_size={FLAGS.train_batch_size}, its square root rule "
            f"gives {scaled:.2g}."
        )


def main(_):
    """Checks the flags, then trains and evaluates."""
    check_flags()
    if FLAGS.do_train:
        warn()

    from albert_tf import files
    from albert_tf.cli import model_flags, training_flags
    from albert_tf.records import record_files
    from albert_tf.training import pretraining

    if not FLAGS.do_train:
        model_flags.follow_pretraining()
        check_masking()
    config = model_flags.read_config()
    records = record_files.expand_patterns(FLAGS.input_file, "input_file")
    if FLAGS.eval_input_file:
        records += record_files.expand_patterns(FLAGS.eval_input_file, "eval_input_file")
    tokenizer = training_flags.tokenizer_of_records(records)
    training_flags.check_weights(tokenizer)
    settings = training_flags.settings_of(
        options.Pretraining,
        config,
        tokenizer,
        train_steps=FLAGS.num_train_steps,
        warmup_steps=FLAGS.num_warmup_steps,
        length_buckets=training_flags.read_length_buckets(),
        masking=training_flags.read_masking(config, tokenizer),
    )
    training_flags.check_directory()
    files.check_writable(FLAGS.output_dir, "output_dir")
    strategy = launch.set_up_devices()
    measure = training_flags.read_pairs(config, tokenizer)
    pretraining.pretrain(config, settings, strategy, measure)


def run():
    """The command `albert-pretrain`."""
    launch.run(main, define_flags)


if __name__ == "__main__":
    run()
