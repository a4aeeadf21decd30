# SPDX-License-Identifier: Apache-2.0
r"""Pre-trains ALBERT on TFRecords of `create_pretraining_data.py` and evaluates it.

python run_pretraining.py \
  --albert_config_file=albert_config.json --input_file='records/train-*' \
  --eval_input_file='records/heldout-*' --output_dir=output \
  --do_train --do_eval --train_batch_size=64 --num_train_steps=2000 --num_warmup_steps=200
"""

import functools

from absl import flags

from albert_tf import files
from albert_tf.checkpoints import name_table, run_directory
from albert_tf.cli import launch
from albert_tf.data import input_pipeline, record_checks, records
from albert_tf.errors import UserError
from albert_tf.model import heads, optimization
from albert_tf.training import devices, loop, progress_line, results, runners

FLAGS = flags.FLAGS
METRICS = (
    "masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy", "sentence_order_loss",
)  # fmt: skip
KEY_METRIC = "masked_lm_accuracy"
PAPER_BATCH = 4096  # what the default learning rate belongs to, section 4.1


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
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
    flags.DEFINE_integer("max_seq_length", 512, "Pieces of a record, as it was made with.")
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Predictions of a record, as it was made with; twice that for data of --do_permutation.",
    )
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
    flags.DEFINE_enum("optimizer", "lamb", sorted(optimization.OPTIMIZERS), "Optimizer.")
    flags.DEFINE_float("learning_rate", 0.00176, "Peak learning rate, for a batch of 4096.")
    flags.DEFINE_float("poly_power", 1.0, "Exponent of the polynomial decay.")
    flags.DEFINE_integer("num_train_steps", 125000, "Updates in all; the decay ends there.")
    flags.DEFINE_integer("num_warmup_steps", 3125, "Updates of the linear warm-up.")
    flags.DEFINE_integer("start_warmup_step", 0, "Step at which the warm-up begins.")
    flags.DEFINE_integer("save_checkpoints_steps", 5000, "Updates between checkpoints.")
    flags.DEFINE_integer("keep_checkpoint_max", 5, "Newest checkpoints to keep; 0 for all.")
    flags.DEFINE_integer(
        "iterations_per_loop", 1000, "Updates between two points of the TensorBoard curves."
    )
    flags.DEFINE_integer(
        "steps_per_loop", None, "The Model Garden's name of --iterations_per_loop."
    )
    flags.DEFINE_integer("max_eval_steps", 100, "Most batches of an evaluation.")
    flags.DEFINE_integer(
        "shuffle_buffer_size", 100, "Records to shuffle among; 1 keeps the order of the files."
    )
    flags.DEFINE_float(
        "continuous_eval_timeout",
        0.0,
        "Without --do_train: seconds to wait for a newer checkpoint of a run that goes on "
        "elsewhere.",
    )
    flags.DEFINE_float("masked_lm_budget", 0.0, "The original's masking on the fly; must be 0.")
    launch.define_device_flags()
    flags.mark_flags_as_required(["albert_config_file", "input_file", "output_dir"])


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    launch.check_not_empty("output_dir")
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("nothing to do: give --do_train, --do_eval or both")
    if FLAGS.masked_lm_budget:
        raise UserError(
            f"--masked_lm_budget={FLAGS.masked_lm_budget}: masking on the fly does not exist, in "
            "the original neither. Leave it at 0; create_pretraining_data.py masks"
        )
    launch.check_at_least(
        1, "max_seq_length", "max_predictions_per_seq", "train_batch_size", "eval_batch_size",
        "num_train_steps", "save_checkpoints_steps", "iterations_per_loop", "steps_per_loop",
        "max_eval_steps", "shuffle_buffer_size",
    )  # fmt: skip
    launch.check_at_least(
        0, "num_warmup_steps", "start_warmup_step", "keep_checkpoint_max", "learning_rate",
        "continuous_eval_timeout", "poly_power", "sentence_loss_weight",
    )  # fmt: skip


def warn():
    """Prints what is allowed and rarely meant."""
    if FLAGS.start_warmup_step:
        print(
            f"Warning: the learning rate is negative before --start_warmup_step="
            f"{FLAGS.start_warmup_step}, as in the original: it is for runs that begin there."
        )
    if FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
        print(
            f"Warning: --num_warmup_steps={FLAGS.num_warmup_steps} does not end before "
            f"--num_train_steps={FLAGS.num_train_steps}: --learning_rate is never reached."
        )
    if FLAGS.train_batch_size < PAPER_BATCH and FLAGS["learning_rate"].using_default_value:
        scaled = FLAGS.learning_rate * (FLAGS.train_batch_size / PAPER_BATCH) ** 0.5
        print(
            f"Warning: --learning_rate={FLAGS.learning_rate} is meant for batches of "
            f"{PAPER_BATCH}; for --train_batch_size={FLAGS.train_batch_size}, its square root rule "
            f"gives {scaled:.2g}."
        )


def find_inputs(config):
    """Schema and checked files: (schema, training files, evaluation files)."""
    schema = records.pretraining_schema(
        FLAGS.max_seq_length,
        FLAGS.max_predictions_per_seq,
        vocab_size=config.vocab_size,
        type_vocab_size=config.type_vocab_size,
    )
    del schema["token_boundary"]  # written for other uses; the model does not read it
    train_files = files.expand_patterns(FLAGS.input_file, "input_file")
    eval_files = train_files
    if FLAGS.eval_input_file:
        eval_files = files.expand_patterns(FLAGS.eval_input_file, "eval_input_file")
    elif FLAGS.do_eval:
        print("Evaluating on the training files: give --eval_input_file for held-out text.")
    wanted = {*(train_files if FLAGS.do_train else ()), *(eval_files if FLAGS.do_eval else ())}
    record_checks.check_records(sorted(wanted), schema, record_flags(schema))
    return schema, train_files, eval_files


def record_flags(schema):
    """Which flag sets the length of a feature, for messages."""
    return {
        name: "max_predictions_per_seq" if name.startswith("masked_lm") else "max_seq_length"
        for name in schema
        if name != "next_sentence_labels"
    }


def make_run(config, strategy):
    """Model, optimizer and run under the strategy."""
    with strategy.scope():
        model = heads.PretrainingModel(config, use_one_hot_embeddings=devices.is_tpu(strategy))
        schedule = optimization.PolynomialDecayWithWarmup(
            peak=FLAGS.learning_rate,
            train_steps=FLAGS.num_train_steps,
            warmup_steps=FLAGS.num_warmup_steps,
            power=FLAGS.poly_power,
            start_warmup_step=FLAGS.start_warmup_step,
        )
        optimizer = runners.create_optimizer(FLAGS.optimizer, schedule) if FLAGS.do_train else None
    task = loop.Task(
        model=model,
        variables=name_table.named_variables(model),
        terms=heads.pretraining_terms,
        loss=functools.partial(
            heads.pretraining_loss, sentence_loss_weight=FLAGS.sentence_loss_weight
        ),
    )
    settings = loop.Settings(
        output_dir=FLAGS.output_dir,
        train_steps=FLAGS.num_train_steps,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        steps_per_loop=FLAGS.steps_per_loop or FLAGS.iterations_per_loop,
        keep_checkpoint_max=FLAGS.keep_checkpoint_max,
    )
    return loop.Run(strategy, task, optimizer, settings)


def train(run, config, schema, train_files, on_checkpoint):
    """Trains from where the run stands, or from the weights given."""
    print(run.initialize(FLAGS.init_checkpoint, FLAGS.init_from_group0))
    if run.is_chief:
        launch.record_run(FLAGS.output_dir, config, run, train_files)
    # A resumed run goes on with other records than it began with, whatever the seed.
    seed = None if FLAGS.seed is None else FLAGS.seed + run.step
    dataset = input_pipeline.train_dataset(
        train_files,
        schema,
        FLAGS.train_batch_size,
        seed=seed,
        shuffle_buffer_size=FLAGS.shuffle_buffer_size,
    )
    run.train(dataset, FLAGS.train_batch_size, METRICS, on_checkpoint)
    print(f"Trained to step {run.step}; checkpoint {run_directory.latest_in(FLAGS.output_dir)}")


def evaluate(run, dataset, prefix):
    """Evaluates the weights at hand, prints and records the figures, keeps the best."""
    figures = run.evaluate(dataset, METRICS, FLAGS.max_eval_steps)
    best = run.is_chief and results.record(
        FLAGS.output_dir,
        run.step,
        {"global_step": run.step, **figures},
        prefix,
        KEY_METRIC,
        initial_best=0.0,
        block=results_block,
    )
    shown = ", ".join(f"{name} {figures[name]:.4f}" for name in ("loss", *METRICS))
    progress_line.say(f"Evaluation at step {run.step}: {shown}{' (best so far)' if best else ''}")


def results_block(figures, _, saved):
    """Lines of `eval_results.txt`; the original has the copied files after the first key."""
    first, *rest = results.sorted_lines(figures)
    return [first, *saved, *rest]


def evaluate_directory(run, dataset):
    """Evaluates the newest checkpoint of output_dir, and newer ones while they come.

    Where there is none, --init_checkpoint is evaluated: released weights, on one's own text.
    """
    evaluated = 0
    for prefix in results.follow(
        FLAGS.output_dir, FLAGS.num_train_steps, FLAGS.continuous_eval_timeout
    ):
        run.load_weights_and_step(prefix)
        evaluate(run, dataset, prefix)
        evaluated += 1
    if not evaluated and FLAGS.init_checkpoint:
        prefix = run_directory.find(FLAGS.init_checkpoint)
        print(f"--output_dir={FLAGS.output_dir} holds no checkpoint: evaluating {prefix}")
        run.load_weights_and_step(prefix)
        evaluate(run, dataset, prefix)
    elif not evaluated:
        raise UserError(f"--output_dir={FLAGS.output_dir} holds no checkpoint to evaluate")
    elif run.step < FLAGS.num_train_steps:
        print(
            f"No checkpoint after step {run.step} of --num_train_steps={FLAGS.num_train_steps}. "
            "To follow a run that goes on, set --continuous_eval_timeout."
        )


def main(_):
    """Reads flags, checks them, then trains and evaluates."""
    launch.note_obsolete_flags()
    check_flags()
    if FLAGS.do_train:
        warn()
    config = launch.read_config()
    files.check_writable(FLAGS.output_dir, "output_dir")
    strategy = launch.set_up_devices()
    if FLAGS.do_train:
        devices.check_batch_size(strategy, FLAGS.train_batch_size, "train_batch_size")
    with launch.locked(FLAGS.output_dir, strategy):
        train_and_evaluate(config, strategy)


def train_and_evaluate(config, strategy):
    """What the flags ask for."""
    schema, train_files, eval_files = find_inputs(config)
    run = make_run(config, strategy)
    eval_dataset = input_pipeline.eval_dataset(
        eval_files, schema, FLAGS.eval_batch_size, drop_remainder=devices.is_tpu(strategy)
    )
    read = sorted({*train_files, *eval_files})
    with record_checks.naming_bad_records(read, schema, record_flags(schema)):
        if FLAGS.do_train:
            on_checkpoint = functools.partial(evaluate, run, eval_dataset)
            train(run, config, schema, train_files, on_checkpoint if FLAGS.do_eval else None)
        else:
            evaluate_directory(run, eval_dataset)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
