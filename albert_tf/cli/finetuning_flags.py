# SPDX-License-Identifier: Apache-2.0
"""Flags of the fine-tuning scripts: checks, and the run that they describe."""

import sys

from absl import flags

from albert_tf import options
from albert_tf.cli import flag_groups, launch, model_flags, training_flags
from albert_tf.errors import UserError

FLAGS = flags.FLAGS


def check():
    """Raises UserError for invalid combinations of shared flags, before anything is read."""
    flag_groups.check_not_empty("output_dir", "export_dir")
    wanted = [name for name in ("do_train", "do_eval", "do_predict") if name in FLAGS]
    if not (FLAGS.export_dir or any(FLAGS[name].value for name in wanted)):
        names = [f"--{name}" for name in wanted]
        raise UserError(f"nothing to do: give {', '.join(names)} or --export_dir")
    counts_steps = "train_step" in FLAGS and not FLAGS["train_step"].using_default_value
    if counts_steps and FLAGS.num_train_epochs is not None:
        raise UserError(
            f"--train_step={FLAGS.train_step} and --num_train_epochs={FLAGS.num_train_epochs} both "
            "say how long to train: give one of them"
        )
    if FLAGS.distribution_strategy == "multi_worker_mirrored":
        raise UserError(
            f"--distribution_strategy={FLAGS.distribution_strategy} is for run_pretraining.py: "
            "fine-tune on one machine, with mirrored if it has several GPUs"
        )


def check_model():
    """Raises UserError if the flags name no model, or one that does not exist."""
    flag_groups.check_exist("albert_config_file", "albert_hub_module_handle", "card_file")
    if not FLAGS.albert_hub_module_handle:  # a hub module has its own vocabulary
        flag_groups.check_vocabulary()
    if "ensemble_dirs" in FLAGS and FLAGS.ensemble_dirs:
        return
    flag_groups.check_run()
    has_weights = FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle
    if has_weights or not FLAGS.do_train or flag_groups.holds_run(FLAGS.output_dir):
        return
    if not FLAGS.allow_random_init:
        raise UserError(
            "no weights to start from: give --init_checkpoint (or, to train from random "
            "weights on purpose, --allow_random_init)"
        )
    if not FLAGS.albert_config_file:
        raise UserError("give --albert_config_file or --albert_hub_module_handle")
    if not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise UserError("give --spm_model_file or --vocab_file")


def check_writable(*directories, **record_files):
    """Raises UserError if an output cannot be written.

    Args:
        *directories: str, names of flags for directories.
        **record_files: str, path of each record file, by the name of its flag.
    """
    from albert_tf import files

    for flag in ("output_dir", "export_dir", *directories):
        if FLAGS[flag].value:
            files.check_writable(FLAGS[flag].value, flag)
    for flag, path in record_files.items():
        files.check_file_writable(path, flag)


def follow_run():
    """Sets flags that were not given to those of the command's model.

    The model is the run in --output_dir or, if it holds none, --init_checkpoint. A training that
    starts from --init_checkpoint has its own lengths.

    Returns:
        source.Choice.
    """
    from albert_tf.checkpoints import run_directory, source

    run = run_directory.RunDirectory(FLAGS.output_dir)
    if FLAGS.do_train:
        resumed = source.Source(FLAGS.output_dir) if run.latest else None
        if resumed:
            return model_flags.follow(resumed, run_directory.TEXT_FLAGS, may_differ=True)
        given = FLAGS.init_checkpoint and source.find(FLAGS.init_checkpoint)
        return model_flags.follow(given or None, run_directory.CASING)
    checkpoint = trained_checkpoint()
    found = source.find(checkpoint) if checkpoint else None
    if found is None and run.settings:  # evaluation has begun before training
        found = source.Source(FLAGS.output_dir)
    return model_flags.follow(found, run_directory.TEXT_FLAGS)


def trained_checkpoint():
    """Trained checkpoint in --output_dir, or else --init_checkpoint; None if there is neither."""
    from albert_tf.checkpoints import run_directory

    return run_directory.RunDirectory(FLAGS.output_dir).trained or FLAGS.init_checkpoint


def check_task(kind):
    """Raises UserError if the command's model was trained for another task than a FinetunedTask."""
    from albert_tf.checkpoints import source

    source.check_task(kind, FLAGS.output_dir, None if FLAGS.do_train else FLAGS.init_checkpoint)


def fine_tune(data, config, **values):
    """Trains, evaluates, predicts and exports as the flags say.

    Args:
        data: tasks.base.DataSet.
        config: AlbertConfig.
        **values: values that are not flags, and replacements for flags, as in
            `training_flags.settings_of`; by default the number of updates is that of --train_step
            or --num_train_epochs. `keep_checkpoint_max` must be None without evaluation: another
            process may evaluate later, and until then all checkpoints have to stay.
    """
    from albert_tf.training import finetuning

    strategy = launch.set_up_devices()
    if "train_steps" not in values:
        values |= {"train_steps": _train_steps(data), "warmup_steps": FLAGS.warmup_step}
    if FLAGS.do_train:
        values["init_checkpoint"] = FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle
    tokenizer = data.task.text.tokenizer
    settings = training_flags.settings_of(options.FineTuning, config, tokenizer, **values)
    finetuning.fine_tune(data, config, settings, strategy)


def _train_steps(data):
    """Number of updates according to --train_step or --num_train_epochs."""
    from albert_tf.records import record_files
    from albert_tf.training import finetuning

    if FLAGS.num_train_epochs is None:
        return FLAGS.train_step
    if not FLAGS.do_train:
        return sys.maxsize  # only the timeout ends a wait for checkpoints
    count = sum(file.count for file in record_files.read_index(data.training_records().paths))
    return finetuning.steps_of_epochs(count, FLAGS.train_batch_size, FLAGS.num_train_epochs)
