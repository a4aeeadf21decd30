# SPDX-License-Identifier: Apache-2.0
"""Checks of the flags that the fine-tuning scripts share."""

from absl import flags

from albert_tf import options
from albert_tf.cli import flag_groups
from albert_tf.errors import UserError

FLAGS = flags.FLAGS


def check():
    """Raises UserError for invalid combinations of shared flags, before anything is read."""
    flag_groups.check_not_empty("output_dir", "export_dir")
    wanted = [name for name in ("do_train", "do_eval", "do_predict") if name in FLAGS]
    if not (FLAGS.export_dir or any(FLAGS[name].value for name in wanted)):
        names = [f"--{name}" for name in wanted]
        raise UserError(f"nothing to do: give {', '.join(names)} or --export_dir")
    flag_groups.check_needs()
    flag_groups.check_synonyms()
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
    flag_groups.check_text("card_file")
    if not FLAGS.albert_hub_module_handle:  # a hub module has its own vocabulary
        flag_groups.check_vocabulary()
    if "ensemble_dirs" in FLAGS and FLAGS.ensemble_dirs:
        return
    flag_groups.check_run()
    has_weights = FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle
    if has_weights or not FLAGS.do_train or flag_groups.holds_run(FLAGS.output_dir):
        return
    if not FLAGS.allow_random_init:
        raise UserError(options.NO_WEIGHTS)
    if not FLAGS.albert_config_file:
        raise UserError("give --albert_config_file or --albert_hub_module_handle")
    flag_groups.check_vocabulary("training")
