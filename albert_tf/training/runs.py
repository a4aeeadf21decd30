# SPDX-License-Identifier: Apache-2.0
"""Code shared by pre-training and fine-tuning: building, starting and training a run."""

import contextlib
import dataclasses
import functools
import os
import secrets

import tf_keras

from albert_tf import locks
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError
from albert_tf.model import optimization
from albert_tf.records import input_pipeline, record_files
from albert_tf.training import devices, loop, run_record, stopping


def make_run(strategy, make_model, config, objective, options, *, trains):
    """Builds model, optimizer and run under a strategy.

    Args:
        strategy: tf.distribute.Strategy.
        make_model: callable, (config, **options of AlbertModel) -> tf_keras.Model.
        config: AlbertConfig.
        objective: objectives.Objective.
        options: options.FineTuning or options.Pretraining.
        trains: bool, whether the run needs an optimizer.

    Returns:
        loop.Run.
    """
    with strategy.scope():
        model = make_model(
            config, use_one_hot_embeddings=devices.is_tpu(strategy), recompute=options.recompute
        )
        optimizer = None
        if trains:
            schedule = optimization.PolynomialDecayWithWarmup(
                peak=options.learning_rate,
                train_steps=options.train_steps,
                warmup_steps=options.warmup_steps,
                power=options.poly_power,
                start_warmup_step=options.start_warmup_step,
                decay_steps=options.decay_steps,
            )
            optimizer = optimization.create_optimizer(options.optimizer, schedule, options)
            optimizer = devices.with_loss_scale(optimizer)
    return loop.Run(strategy, model, objective, optimizer, options)


def check_batches(options, strategy):
    """Raises UserError if the devices cannot take batches of these sizes and lengths."""
    if options.do_train:
        if options.length_buckets and devices.is_tpu(strategy):
            raise UserError("--length_buckets: a TPU takes batches of one length; leave it out")
        parts = options.gradient_accumulation_steps
        devices.check_batch_size(strategy, options.train_batch_size, "train_batch_size", parts)
    if options.do_predict and devices.is_tpu(strategy):
        devices.check_batch_size(strategy, options.predict_batch_size, "predict_batch_size")


def locked(options, strategy):
    """Context that keeps other processes from doing the same in the run's directory."""
    evaluates = options.do_eval or options.do_predict
    purposes = ("training",) * options.do_train + ("evaluating",) * evaluates
    chief = devices.is_chief(strategy)
    return locks.locked(options.output_dir, *purposes) if chief else contextlib.nullcontext()


def seeded(options, strategy):
    """Sets the random seed for training or evaluation, and returns the options with it.

    Args:
        options: options.FineTuning or options.Pretraining.
        strategy: tf.distribute.Strategy.
    """
    if options.do_train and options.seed is None:  # all workers need the same
        drawn = secrets.randbelow(2**31) if devices.is_chief(strategy) else 0
        (seed,) = devices.sum_over_workers(strategy, [drawn])
        options = dataclasses.replace(options, seed=seed)
    if options.seed is not None:
        tf_keras.utils.set_random_seed(options.seed)
    return options


def start(run, input_files, **weights):
    """Initializes the model, prints where the weights come from, and writes the run's settings.

    Args:
        run: loop.Run.
        input_files: sequence of str, files to train and evaluate on.
        **weights: arguments of `loop.Run.initialize`.

    Raises:
        UserError: a checkpoint does not fit, or the run was started with other values.
    """
    before = RunDirectory(run.settings.output_dir).resumed
    described = run_record.describe(run, input_files, before)
    print(run.initialize(**weights))
    if run.is_chief and not run.is_done:  # before the workers meet and look for evaluations
        run_record.forget_evaluations(run.settings.output_dir, before, described)
    if len(set(devices.gather(run.strategy, str(run.step)).values())) > 1:
        raise UserError(
            f"the workers do not resume from the same step, this one from {run.step}: "
            f"--output_dir={run.settings.output_dir} must be a directory that all workers share"
        )
    if run.is_done:
        print(f"Nothing left to train: step {run.step} of {run.settings.train_steps} is done.")
        run_record.warn_of_changed_files(before, described)
    elif run.is_chief:
        run_record.say_changes(before, described)
        run_record.write(run, described)


def train(run, paths, schema, evaluator, *, evaluates_step_0=False, lengths=None, **how):
    """Trains a started run; first evaluates checkpoints that an earlier process left out.

    Args:
        run: loop.Run.
        paths: list of str, the records to train on.
        schema: dict from feature name to `FeatureSpec`.
        evaluator: evaluation.Evaluator, called after each checkpoint; or None.
        evaluates_step_0: bool, whether the untrained model is evaluated too.
        lengths: the argument of `input_pipeline.train_batches`, for a run without length buckets.
        **how: other arguments of `input_pipeline.train_batches`.
    """
    if run.step == 0:
        run.save()
        run.saver.wait()
    if evaluator:
        with stopping.naming_the_cause(run.strategy, run.settings.output_dir):
            evaluator.make_up(first_step=0 if evaluates_step_0 else 1)
    if run.is_done:
        return
    options = run.settings
    index_file = os.path.join(options.output_dir, record_files.INDEX)
    batches_of = functools.partial(
        input_pipeline.train_batches,
        record_files.read_index(paths, index_file, save=run.is_chief),
        schema,
        options.train_batch_size,
        seed=options.seed,
        window=options.shuffle_buffer_size,
        first_step=run.step,
        lengths=options.length_buckets or lengths,
        grouped=bool(options.length_buckets),
        **how,
    )
    run.train(batches_of, options.train_batch_size, evaluator)
