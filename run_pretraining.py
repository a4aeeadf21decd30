# SPDX-License-Identifier: Apache-2.0
r"""Pre-trains ALBERT on TFRecords of `create_pretraining_data.py` and evaluates it.

python run_pretraining.py \
  --albert_config_file=albert_config.json --input_file='records/train-*' \
  --eval_input_file='records/heldout-*' --output_dir=output \
  --do_train --do_eval --train_batch_size=64 --num_train_steps=2000 --num_warmup_steps=200
"""

from absl import flags

from albert_tf import choices, options
from albert_tf.cli import flag_groups, launch, lazy, loop_flags, masking_flags, model_flags, paths
from albert_tf.errors import UserError

files = lazy.module("albert_tf.files")
pretraining = lazy.module("albert_tf.training.pretraining")
runs = lazy.module("albert_tf.training.runs")

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.PretrainingData,
        options.PretrainingUpdates,
        options.OnlineMasking,
        options.Optimizer,
        options.Checkpoints,
        options.Memory,
        options.Operations,
        options.Devices,
        options.TpuEstimator,
        save_checkpoints_steps=5000,
    )
    flags.mark_flags_as_required(["albert_config_file", "input_file", "output_dir"])


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    flag_groups.check_not_empty("output_dir")
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("nothing to do: give --do_train, --do_eval or both")
    masking_flags.check()
    paths.check_exist("albert_config_file", "input_file", "eval_input_file")
    paths.check_config(FLAGS.albert_config_file)
    if FLAGS.masked_lm_budget:
        paths.check_exist("spm_model_file" if FLAGS.spm_model_file else "vocab_file")
    if not paths.holds_run(FLAGS.output_dir):
        paths.check_exist("init_checkpoint")
    if not FLAGS.do_train:
        paths.check_run()


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
        runs.Recipe,
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
    settings = read_options(config)
    files.check_writable(FLAGS.output_dir, "output_dir")
    pretraining.pretrain(config, settings, launch.set_up_devices())


def run():
    """The command `albert-pretrain`."""
    define_flags()
    launch.run(main)


if __name__ == "__main__":
    run()
