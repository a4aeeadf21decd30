# SPDX-License-Identifier: Apache-2.0
"""What pre-training and fine-tuning share: building a run, starting it, training it."""

import contextlib
import dataclasses
import functools
import os

from albert_tf import locks
from albert_tf.checkpoints import name_table, run_directory
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to do, where and how.

    Attributes:
        do_train, do_eval, do_predict: bool, the parts of the work.
        recipe: Recipe; only training reads it.
        loop: loop.Settings.
        max_seq_length: int, T.
        eval_batch_size: int.
        eval_timeout: float, seconds to wait for the next checkpoint of a run elsewhere.
        init_checkpoint: str or None, where weights come from if output_dir holds no run.
        seed: int or None; to train, None for the seed of the run that is resumed, or a new one.
        record: run_directory.RunSettings; None without training.
        allow_changes_on_resume: bool, whether optimizer, architecture and batch size may change.
    """

    do_train: bool
    do_eval: bool
    do_predict: bool = False
    recipe: Recipe | None
    loop: loop.Settings
    max_seq_length: int
    eval_batch_size: int
    eval_timeout: float = 0.0
    init_checkpoint: str | None = None
    seed: int | None = None
    record: run_directory.RunSettings | None = None
    allow_changes_on_resume: bool = False

    @property
    def output_dir(self):
        """The run's directory (str)."""
        return self.loop.output_dir

    def locked(self, strategy):
        """A context in which no other process does the same in the run's directory."""
        evaluates = self.do_eval or self.do_predict
        purposes = ("training",) * self.do_train + ("evaluating",) * evaluates
        chief = devices.is_chief(strategy)
        return locks.locked(self.output_dir, *purposes) if chief else contextlib.nullcontext()

    def check_batch_size(self, strategy):
        """Raises UserError if a training cannot deal its batches out to the devices."""
        if self.do_train:
            devices.check_batch_size(
                strategy,
                self.recipe.batch_size,
                "train_batch_size",
                self.loop.gradient_accumulation_steps,
            )

    def seeded(self, strategy):
        """Sets the seed; returns the options with that of the training, if they had none."""
        seed = self.seed
        if self.do_train:
            seed = run_settings.seed_of(self.output_dir, seed, strategy)
        devices.set_seed(seed)
        return dataclasses.replace(self, seed=seed)


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


def start(run, options, input_files, **weights):
    """Fills the model, says from where, and writes down what the run is made with.

    Args:
        run: loop.Run.
        options: Options.
        input_files: sequence of str, what is trained and evaluated on.
        **weights: of `loop.Run.initialize`.

    Raises:
        UserError: a checkpoint does not fit, or the run was started with other values.
    """
    directory = options.output_dir
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
        options: Options.
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
    index_file = os.path.join(options.output_dir, record_index.FILE)
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
