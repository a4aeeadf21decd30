# SPDX-License-Identifier: Apache-2.0
r"""Pre-trains ALBERT on TFRecords of `create_pretraining_data.py` and evaluates it.

python run_pretraining.py \
  --albert_config_file=albert_config.json --input_file='records/train-*' \
  --eval_input_file='records/heldout-*' --output_dir=output \
  --do_train --do_eval --train_batch_size=64 --num_train_steps=2000 --num_warmup_steps=200
"""

from absl import flags

from albert_tf import options
from albert_tf.cli import flag_groups, launch, loop_flags, masking_flags, model_flags, paths
from albert_tf.errors import UserError

FLAGS = flags.FLAGS


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flag_groups.define(
        options.PretrainingData,
        options.PretrainingUpdates,
        options.OnlineMasking,
        options.Optimizer,
        options.Clipping,
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


def read_options(config, arguments):
    """What the flags ask for.

    Args:
        config: AlbertConfig.
        arguments: dict or None, of the tokenizer that made the records.
    """
    return flag_groups.values_of(
        options.Pretraining,
        train_steps=FLAGS.num_train_steps,
        warmup_steps=FLAGS.num_warmup_steps,
        steps_per_loop=loop_flags.curve_steps(FLAGS.num_train_steps),
        length_buckets=masking_flags.read_length_buckets(),
        record=model_flags.settings_to_record(config, arguments) if FLAGS.do_train else None,
        masking=masking_flags.read_masking(config),
    )


def earlier_run():
    """Where weights come from, if other than from a run that goes on: source.Source or None.

    What a run that goes on was made with is compared when it is resumed.
    """
    from albert_tf.checkpoints import run_directory, source

    trained = run_directory.RunDirectory(FLAGS.output_dir).trained
    if trained and FLAGS.do_train:
        return None
    path = trained or FLAGS.init_checkpoint
    return source.find(path) if path else None


def check_masking(path, arguments):
    """Raises UserError if --masked_lm_budget is to mask with another vocabulary than the records'.

    Args:
        path: str, one of the record files.
        arguments: dict or None, of the tokenizer that made them.
    """
    from albert_tf.checkpoints import run_directory

    given = FLAGS.spm_model_file or FLAGS.vocab_file
    if not (FLAGS.masked_lm_budget and given and arguments):
        return
    flag = next(name for name in run_directory.VOCABULARY_FLAGS if arguments.get(name))
    if run_directory.sha256(given) != run_directory.sha256(arguments[flag]):
        raise UserError(
            f"{given} is not the vocabulary of {path}, which was made with {arguments[flag]}: give "
            f"--{flag}={arguments[flag]}"
        )


def main(_):
    """Makes values of the flags, then trains and evaluates."""
    flag_groups.note_obsolete_flags()
    check_flags()
    if FLAGS.do_train:
        warn()

    from albert_tf import files
    from albert_tf.records import record_index
    from albert_tf.training import pretraining

    config = model_flags.read_config()
    records = record_index.expand_patterns(FLAGS.input_file, "input_file")
    if FLAGS.eval_input_file:
        records += record_index.expand_patterns(FLAGS.eval_input_file, "eval_input_file")
    arguments = model_flags.tokenizer_of_records(records)
    model_flags.check_vocabulary_of(earlier_run(), arguments)
    settings = read_options(config, arguments)
    check_masking(records[0], arguments)
    files.check_writable(FLAGS.output_dir, "output_dir")
    pretraining.pretrain(config, settings, launch.set_up_devices())


def run():
    """The command `albert-pretrain`."""
    define_flags()
    launch.run(main)


if __name__ == "__main__":
    run()
