# SPDX-License-Identifier: Apache-2.0
"""What pre-training and fine-tuning share: building a run, starting it, training it."""

import dataclasses
import functools
import os

from albert_tf.checkpoints import name_table
from albert_tf.model import optimization
from albert_tf.options import ORIGINAL_OPTIMIZER, WINDOW, Optimizer
from albert_tf.records import input_pipeline, record_index
from albert_tf.training import devices, loop, run_settings


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to train; steps are updates, batches are of all replicas."""

    optimizer: str
    learning_rate: float
    warmup_steps: int
    batch_size: int
    start_warmup_step: int = 0
    poly_power: float = 1.0
    shuffle_buffer_size: int = WINDOW
    length_buckets: tuple | None = None  # lengths that batches are cut to, up to the longest
    constants: Optimizer = ORIGINAL_OPTIMIZER


def make_run(strategy, make_model, objective, settings, recipe=None, seed=0, flops=None):
    """Builds model, optimizer and run under a strategy.

    Args:
        strategy: tf.distribute.Strategy.
        make_model: callable, takes options of AlbertModel; returns the tf_keras.Model.
        objective: objectives.Objective.
        settings: loop.Settings.
        recipe: Recipe, or None for a run that does not train.
        seed: int, of dropout.
        flops: int or None, floating-point operations of an update on one sequence.

    Returns:
        loop.Run.
    """
    with strategy.scope():
        model = make_model(
            use_one_hot_embeddings=devices.is_tpu(strategy), recompute=settings.recompute
        )
        optimizer = None
        if recipe:
            schedule = optimization.PolynomialDecayWithWarmup(
                peak=recipe.learning_rate,
                train_steps=settings.train_steps,
                warmup_steps=recipe.warmup_steps,
                power=recipe.poly_power,
                start_warmup_step=recipe.start_warmup_step,
            )
            optimizer = optimization.create_optimizer(recipe.optimizer, schedule, recipe.constants)
            optimizer = devices.with_loss_scale(optimizer)
    task = loop.Task(model, name_table.named_variables(model), objective, flops)
    return loop.Run(strategy, task, optimizer, settings, seed)


def seeded(options, strategy):
    """Sets the seed of a training, or of the weights that an evaluation fills; the options with it.

    Args:
        options: finetuning.Options or pretraining.Options.
        strategy: tf.distribute.Strategy.
    """
    if options.do_train:
        seed = run_settings.seed_of(options.loop.output_dir, options.seed, strategy)
        options = dataclasses.replace(options, seed=seed)
    devices.set_seed(options.seed)
    return options


def start(run, options, input_files, **weights):
    """Fills the model, says from where, and writes down what the run is made with.

    Args:
        run: loop.Run.
        options: finetuning.Options or pretraining.Options.
        input_files: sequence of str, what is trained and evaluated on.
        **weights: of `loop.Run.initialize`.

    Raises:
        UserError: a checkpoint does not fit, or the run was started with other values.
    """
    directory = options.loop.output_dir
    settings = run_settings.describe(options.record, run, input_files, options.seed)
    run_settings.check_changes(directory, settings, run, options.allow_changes_on_resume)
    print(run.initialize(**weights))
    run.check_workers_agree()
    if run.is_chief:
        run_settings.write(directory, settings, run)


def train(run, options, paths, schema, evaluator, *, evaluates_step_0=False, remedy=None, **how):
    """Trains a run that was started, and evaluates what an earlier process did not any more.

    Args:
        run: loop.Run.
        options: finetuning.Options or pretraining.Options.
        paths: list of str, the records to train on.
        schema: dict from feature name to `FeatureSpec`.
        evaluator: evaluation.Evaluator, called after each checkpoint; or None.
        evaluates_step_0: bool, whether the untrained model is evaluated too.
        remedy: str or None, a sentence for the message about a damaged file.
        **how: of `input_pipeline.train_batches`.
    """
    if run.step == 0:
        run.save()
        run.wait_for_checkpoint()
    if evaluator:
        evaluator.make_up(first_step=0 if evaluates_step_0 else 1)
    index_file = os.path.join(options.loop.output_dir, record_index.FILE)
    batches_of = functools.partial(
        input_pipeline.train_batches,
        record_index.read(paths, index_file, save=run.is_chief, remedy=remedy),
        schema,
        options.recipe.batch_size,
        seed=options.seed,
        window=options.recipe.shuffle_buffer_size,
        first_step=run.step,
        **how,
    )
    run.train(batches_of, options.recipe.batch_size, evaluator)
