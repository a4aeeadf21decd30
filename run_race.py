# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on RACE, or on your own questions with options.

python run_race.py --data_dir=data --output_dir=output/race --init_checkpoint=albert_base \
  --do_train --do_eval --do_predict --max_seq_length=512 --max_qa_length=128 \
  --train_step=12000 --warmup_step=1000 --learning_rate=1e-5
"""

from albert_tf import options
from albert_tf.cli import flag_groups, launch

V2_LEARNING_RATE = 1e-5  # the original's for version 2; higher ones diverge
RECORD_FLAGS = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}  # by split


def warn_of_version(settings, config):
    """Prints a warning where version 1's settings meet a version 2 model."""
    has_dropout = config.hidden_dropout_prob or config.attention_probs_dropout_prob
    # The folder counts as well: albert_base_v2/model.ckpt-best.
    weights = settings.init_checkpoint or settings.albert_hub_module_handle or ""
    name = "/".join(weights.split("/")[-2:])
    if has_dropout and "v2" in name:
        print(f"Warning: {name} seems to be version 2: set both dropout rates of the config to 0.")
    if not has_dropout and settings.learning_rate > V2_LEARNING_RATE:
        print(
            f"Warning: --learning_rate={settings.learning_rate} may diverge: "
            f"{V2_LEARNING_RATE} is usual for version 2, without dropout."
        )


def main(given):
    """Checks the flags; then trains, evaluates, predicts and exports."""
    given = given.with_typed(task_name="race")
    flag_groups.check_run(given, "export_dir")

    from albert_tf.cli import model_flags, training_flags
    from albert_tf.tasks import race

    models = model_flags.of_fine_tuning(given)
    settings = models[0].settings
    levels = race.LEVELS
    if settings.high_only or settings.middle_only:
        levels = ("high",) if settings.high_only else ("middle",)
    if given.do_train:
        choices = race.count_options(given.data_dir, levels)
    else:
        choices = race.trained_options(given.output_dir, given.init_checkpoint, given.ensemble_dirs)
    task = race.RaceTask(
        model_flags.text_input(models), settings.max_qa_length, settings.dropout_prob, choices
    )
    data = race.RaceData(
        task,
        given.data_dir or "",
        given.output_dir,
        cached_dir=given.output_dir,
        levels=levels,
        record_files={split: given.get(flag) for split, flag in RECORD_FLAGS.items()},
    )
    if given.do_train:
        warn_of_version(settings, models[0].config)
    training_flags.fine_tune(
        data,
        models,
        record_flags=RECORD_FLAGS,
        do_eval=given.do_eval,
        keep_checkpoint_max=settings.num_keep_checkpoint,
    )


run = launch.command(  # albert-race
    main,
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


if __name__ == "__main__":
    run()
