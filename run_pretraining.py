# SPDX-License-Identifier: Apache-2.0
r"""Pre-trains ALBERT on TFRecords of `create_pretraining_data.py` and evaluates it.

python run_pretraining.py \
  --albert_config_file=albert_config.json --input_file='records/train-*' \
  --eval_input_file='records/heldout-*' --output_dir=output \
  --do_train --do_eval --train_batch_size=64 --optimizer=adamw --learning_rate=4e-4 \
  --num_train_steps=2000 --num_warmup_steps=200
"""

from albert_tf import options, resolve
from albert_tf.cli import flag_groups, launch

PAPER_BATCH = 4096  # batch size for the default learning rate, section 4.1 of the paper


def warn(given, first_step):
    """Warns about valid but probably unintended values of a training that begins at a step."""
    step = given.start_warmup_step
    if step > first_step:
        print(
            f"Warning: the learning rate is negative before --start_warmup_step={step}: the flag "
            "is for trainings that go on from that step."
        )
    is_default = given.origin("learning_rate") == resolve.DEFAULT
    rate, size = given.learning_rate, given.train_batch_size
    if size < PAPER_BATCH and is_default:
        scaled = rate * (size / PAPER_BATCH) ** 0.5
        print(
            f"Warning: --learning_rate={rate} is for batches of {PAPER_BATCH}; {scaled:.2g} fits "
            f"--train_batch_size={size}."
        )


def main(given):
    """Checks the flags, then trains and evaluates."""
    flag_groups.check_run(given)

    from albert_tf.checkpoints import run_directory
    from albert_tf.cli import model_flags, training_flags
    from albert_tf.training import pretraining

    # The held-out files of the run do not belong to other files: those are evaluated themselves.
    unknown = {"eval_input_file": None} if given.input_file else {}
    model = model_flags.of_run(given, **unknown)
    settings = model.settings
    if settings.do_train:
        step = run_directory.step_of(model.source.checkpoint) if model.resumes else None
        warn(settings, step or 0)
    records = [path for paths in pretraining.find_files(settings) for path in paths]
    made = training_flags.made_with(records, settings)
    training_flags.check_records(model, made)
    run_options = training_flags.options_of(
        options.Pretraining,
        model,
        made,
        train_steps=settings.num_train_steps,
        warmup_steps=settings.num_warmup_steps,
        length_buckets=training_flags.length_buckets(settings),
        masking=training_flags.masking(model, made),
    )
    training_flags.check_directory(settings)
    pretraining.pretrain(model.config, run_options, launch.set_up_devices(settings))


run = launch.command(  # albert-pretrain
    main,
    options.PretrainingData,
    options.PretrainingUpdates,
    options.OnlineMasking,
    *options.TRAINING,
    save_checkpoints_steps=5000,
)


if __name__ == "__main__":
    run()
