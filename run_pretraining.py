# SPDX-License-Identifier: Apache-2.0
r"""Pre-trains ALBERT on TFRecords of `create_pretraining_data.py` and evaluates it.

python run_pretraining.py \
  --albert_config_file=albert_config.json --input_file='records/train-*' \
  --eval_input_file='records/heldout-*' --output_dir=output \
  --do_train --do_eval --train_batch_size=64 --num_train_steps=2000 --num_warmup_steps=200
"""

from absl import flags

from albert_tf import choices
from albert_tf.cli import flag_groups, launch, lazy, loop_flags, masking_flags, model_flags
from albert_tf.errors import UserError

files = lazy.module("albert_tf.files")
pretraining = lazy.module("albert_tf.training.pretraining")

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    _define_data_flags()
    _define_training_flags()
    masking_flags.define()
    loop_flags.define(save_checkpoints_steps=5000, counts_operations=True)
    flag_groups.define_device_flags()
    flag_groups.define_obsolete_flags("master", "num_tpu_cores")
    flags.mark_flags_as_required(["albert_config_file", "input_file", "output_dir"])


@flag_groups.subject("Model and data")
def _define_data_flags():
    flags.DEFINE_string("albert_config_file", None, "JSON file with the model's architecture.")
    flags.DEFINE_string("input_file", None, "Comma-separated globs of TFRecords to train on.")
    flags.DEFINE_string(
        "eval_input_file",
        None,
        "Comma-separated globs of held-out TFRecords. Unset, --input_file is evaluated on, as in "
        "the original, which says little about other text.",
    )
    flags.DEFINE_string("output_dir", None, "Directory for checkpoints and results.")
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Weights to start from: a prefix, its .index file or a directory. Step and moments are not "
        "taken. Not read if --output_dir holds a run to resume.",
    )
    flags.DEFINE_bool(
        "init_from_group0", False, "Fill every parameter group from the checkpoint's group 0."
    )
    flags.DEFINE_integer(
        "max_seq_length", 512, "Length of the records, as given to create_pretraining_data.py."
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Predictions per record, as given to create_pretraining_data.py; twice that for data of "
        "--do_permutation. With --masked_lm_budget, pieces to mask per record at most.",
    )


@flag_groups.subject("Training and evaluation")
def _define_training_flags():
    flags.DEFINE_float(
        "sentence_loss_weight", 1.0, "Weight of the sentence-order loss; 0 leaves it out."
    )
    flags.DEFINE_bool("do_train", True, "Train.")
    flags.DEFINE_bool(
        "do_eval",
        False,
        "Evaluate every checkpoint when written; without --do_train, the newest of --output_dir.",
    )
    flags.DEFINE_integer("train_batch_size", 4096, "Sequences of an update, over all replicas.")
    flags.DEFINE_integer("eval_batch_size", 64, "Sequences of an evaluation batch.")
    flags.DEFINE_enum("optimizer", "lamb", choices.OPTIMIZERS, "Optimizer.")
    flags.DEFINE_float("learning_rate", 0.00176, "Peak learning rate, for a batch of 4096.")
    flags.DEFINE_float("poly_power", 1.0, "Exponent of the polynomial decay.")
    flags.DEFINE_integer("num_train_steps", 125000, "Updates in all; the decay ends there.")
    flags.DEFINE_integer("num_warmup_steps", 3125, "Updates of the linear warm-up.")
    flags.DEFINE_integer("start_warmup_step", 0, "Step at which the warm-up begins.")
    flags.DEFINE_integer("keep_checkpoint_max", 5, "Newest checkpoints to keep; 0 for all.")
    flags.DEFINE_integer("max_eval_steps", 100, "Most batches of an evaluation.")
    flags.DEFINE_integer(
        "shuffle_buffer_size",
        choices.WINDOW,
        "Records that are shuffled together, after the files; twice as many are in memory. 1 "
        "keeps the order of files and records.",
    )


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    flag_groups.check_not_empty("output_dir")
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("nothing to do: give --do_train, --do_eval or both")
    masking_flags.check()
    flag_groups.check_at_least(
        1, "max_seq_length", "max_predictions_per_seq", "train_batch_size", "eval_batch_size",
        "num_train_steps", "save_checkpoints_steps", "iterations_per_loop", "steps_per_loop",
        "max_eval_steps", "shuffle_buffer_size",
    )  # fmt: skip
    flag_groups.check_at_least(
        0, "num_warmup_steps", "start_warmup_step", "keep_checkpoint_max", "learning_rate",
        "continuous_eval_timeout", "poly_power", "sentence_loss_weight",
    )  # fmt: skip
    loop_flags.check()


def warn():
    """Warns about valid but probably unintended values."""
    if FLAGS.start_warmup_step:
        print(
            f"Warning: the learning rate is negative before --start_warmup_step="
            f"{FLAGS.start_warmup_step}, as in the original: it is for runs that begin there."
        )
    loop_flags.warn_of_warmup(FLAGS.num_warmup_steps, FLAGS.num_train_steps)
    loop_flags.warn_of_batch_size()


def read_options(config):
    """What the flags ask for.

    Args:
        config: AlbertConfig.
    """
    recipe = flag_groups.values_of(
        pretraining.Recipe,
        warmup_steps=FLAGS.num_warmup_steps,
        batch_size=FLAGS.train_batch_size,
        length_buckets=masking_flags.read_length_buckets(),
        constants=flag_groups.values_of(choices.OptimizerConstants),
    )
    return flag_groups.values_of(
        pretraining.Options,
        recipe=recipe,
        loop=loop_flags.read_settings(FLAGS.num_train_steps, FLAGS.keep_checkpoint_max),
        eval_timeout=FLAGS.continuous_eval_timeout,
        record=model_flags.record_of_flags() if FLAGS.do_train else None,
        masking=masking_flags.read_masking(config),
    )


def main(_):
    """Makes values of the flags, then trains and evaluates."""
    flag_groups.note_obsolete_flags()
    check_flags()
    if FLAGS.do_train:
        warn()
    config = model_flags.read_config()
    options = read_options(config)
    files.check_writable(FLAGS.output_dir, "output_dir")
    pretraining.pretrain(config, options, launch.set_up_devices())


def run():
    """The command `albert-pretrain`."""
    define_flags()
    launch.run(main)


if __name__ == "__main__":
    run()
