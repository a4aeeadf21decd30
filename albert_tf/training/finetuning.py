# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning of any task: trains, evaluates every checkpoint, predicts with the best, exports."""

import dataclasses
import math
import os
import shlex
import statistics

from albert_tf import files
from albert_tf.checkpoints import loading, name_table, run_directory, writers
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError, as_called
from albert_tf.publish import graph_tokenization, saved_models
from albert_tf.records import input_pipeline, record_files
from albert_tf.training import devices, evaluation, run_record, runs
from albert_tf.training.splits_and_results import Predicted

_MOST_SHOWN = 20  # classes in a line
_MOST_PIECES = 40  # of an example
TRIALS = "trials.txt"  # summary of several trials
# Files of the best trial that are copied next to its checkpoint.
_KEPT = (
    *run_record.FILES,
    run_directory.TASK,
    run_directory.BEST_STATE,
    run_directory.EVALUATED_ON,
    run_directory.EVAL_RESULTS,
    evaluation.REPORT,
)


def fine_tune(data, config, options, strategy):
    """Trains, evaluates, predicts and exports, as the options ask for.

    Args:
        data: tasks.base.DataSet, with its task.
        config: AlbertConfig.
        options: options.FineTuning.
        strategy: tf.distribute.Strategy.

    Raises:
        UserError: a file, checkpoint or record does not fit, or the training diverges.
    """
    runs.check_batches(options, strategy)
    if options.best_metric:
        data.task.key_metric = data.task.chosen_metric = options.best_metric
    if options.export_dir:
        if options.export_text:
            graph_tokenization.operations()  # before the training
        data.task.check_export(options.export_text)
    if options.do_predict:
        data.read_test_set()
    with runs.locked(options, strategy):
        run = None
        if options.class_weights and options.do_train:  # once for all trials
            data.task.weigh_classes(options.class_weights, data)
        if options.num_trials > 1:
            _run_trials(data, config, options, strategy)
        elif options.ensemble and options.do_eval:
            _evaluate_together(data, options, strategy)
        elif options.do_train or options.do_eval:
            run = train_and_evaluate(data, config, options, strategy)
        if options.export_dir or (options.do_predict and not options.ensemble):
            prefix = evaluation.find_best(options.output_dir, options.init_checkpoint)
        if options.do_predict:
            models = options.ensemble or [(config, prefix)]
            splits, size = data.prediction_splits(), options.predict_batch_size
            members = _predicted(data.task, splits, models, size, options, strategy, run)
            data.write_predictions(splits, members, size)
    if options.export_dir:
        _export(data.task, config, options, prefix)
    if options.do_train or options.do_eval:
        _say_end(data, options)


def _say_end(data, options):
    """Prints where the model is, and the command that predicts with it."""
    task, folder = data.task, RunDirectory(options.output_dir)
    prefix = folder.trained
    if prefix is None:  # a checkpoint of another directory was evaluated
        return
    is_best = os.path.basename(prefix) == run_directory.BEST
    report = files.read_text(folder.file(evaluation.REPORT))
    has_report = options.do_eval and is_best and bool(report)
    if has_report and evaluation.are_same(folder.evaluated_on, data.evaluated_on()):
        print(report)
    source = evaluation.describe(prefix, task.key_metric)
    print(f"The {'best' if is_best else 'newest'} model is {source}")
    if folder.settings:  # a directory of the original lacks config and vocabulary
        counts = {"options": task.choices}
        names = [name for name in task.input_names for _ in range(counts.get(name, 1))]
        given = " ".join(f'--{name}="some {name}"' for name in names)
        print(as_called("Next: python predict.py"), f"--model={shlex.quote(folder.path)} {given}")


def steps_of_epochs(count, batch_size, epochs):
    """Updates of a training, as the original counts them.

    Args:
        count: int, examples of an epoch.
        batch_size: int.
        epochs: float.

    Raises:
        UserError: there are too few examples for one step.
    """
    steps = int(count / batch_size * epochs)
    if steps < 1:
        raise UserError(
            f"{count} examples, --train_batch_size={batch_size} and --num_train_epochs={epochs} "
            "give less than one step: lower the batch size or raise the number of epochs"
        )
    return steps


# --- Training ------------------------------------------------------------------------------------


def make_run(task, config, strategy, options, *, trains=False):
    """The loop.Run of a task (`runs.make_run`)."""
    return runs.make_run(strategy, task.make_model, config, task.objective, options, trains=trains)


def _run_trials(data, config, options, strategy):
    """Runs each trial in its own folder, keeps the best in output_dir and summarizes all.

    A trial that fails is recorded as failed, and the others go on.
    """
    folder, key_metric = RunDirectory(options.output_dir), data.task.key_metric
    lines, values = [], {}
    sign = evaluation.sign_of(key_metric)
    first = options.seed or 0
    for seed in range(first, first + options.num_trials):
        directory = folder.file(f"trial-{seed}")
        print(f"Trial with seed {seed}: {directory}")
        try:
            before = RunDirectory(directory).results
            trial = dataclasses.replace(options, output_dir=directory, seed=seed)
            files.check_writable(directory, "output_dir")
            with runs.locked(trial, strategy):
                train_and_evaluate(data, config, trial, strategy)
        except UserError as error:
            reason = " ".join(str(error).split())
            print(f"Trial with seed {seed} failed: {reason}")
            lines.append(f"{directory}\tfailed: {reason}\n")
        else:
            state, note = RunDirectory(directory).results, ""
            values[directory] = sign * state.best
            if state == before:
                note = "\tof an earlier start"
                print(
                    f"Trial with seed {seed} was finished before, with {key_metric} "
                    f"{sign * state.best:.4f}. For a new one, give another --output_dir or --seed"
                )
            lines.append(f"{directory}\t{sign * state.best}{note}\n")
        files.write_text(folder.file(TRIALS), "".join(lines))
    if not values:
        raise UserError(f"all {len(lines)} trials failed, the last one: {reason}")
    chosen = max(values, key=lambda directory: sign * values[directory])
    _copy_best(RunDirectory(chosen), folder)
    summary = _summary_of_trials(values, len(lines) - len(values), key_metric, chosen)
    files.write_text(folder.file(TRIALS), "".join([*lines, f"{summary}\n"]))
    print(summary)


def _copy_best(trial, folder):
    """Copies the best checkpoint of a RunDirectory to another one, with the files next to it."""
    for name in _KEPT:
        text = files.read_text(trial.file(name))
        if text:
            files.write_text(folder.file(name), text)
    content = writers.read(trial.best, with_moments=True)
    writers.write(folder.file(run_directory.BEST), *content)


def _summary_of_trials(values, failed, key_metric, best):
    scores = list(values.values())
    spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
    return (
        f"{key_metric} of {len(scores)} trials{f' ({failed} failed)' if failed else ''}: "
        f"median {statistics.median(scores):.4f}, mean {statistics.fmean(scores):.4f}, "
        f"standard deviation {spread:.4f}, best {values[best]:.4f} in {best}"
    )


def train_and_evaluate(data, config, options, strategy):
    """Trains and evaluates one run, and returns it."""
    task, options = data.task, runs.seeded(options, strategy)
    run = make_run(task, config, strategy, options, trains=options.do_train)
    given = options.init_checkpoint and run_directory.prefer_best(options.init_checkpoint)
    if options.do_train:
        runs.start(
            run,
            data.input_files(options.do_eval),
            init_checkpoint=given,
            take_heads=task.takes_head,
            allow_random_init=options.allow_random_init,
        )
        if task.kind and not run.is_done:
            RunDirectory(options.output_dir).write_task(task.kind)
    evaluator = make_evaluator(run, data) if options.do_eval else None
    if options.do_train:
        _train(run, data, evaluator)
    else:
        evaluator.evaluate_directory(options.continuous_eval_timeout, given)
    if evaluator:
        evaluation.check_key_metric(options.output_dir, task.key_metric)
    return run


def _train(run, data, evaluator):
    records, options = data.training_records, run.settings
    if not run.is_done:
        _say_data(records, data.task)
        report = data.report(options.do_eval)
        if run.is_chief:
            report |= {"source": records.described, "header": [*data.header]}
            report["word_pattern"] = data.task.word_pattern
            run_record.add_data(options.output_dir, report)
    lengths = None
    if not devices.is_tpu(run.strategy):
        # XLA compiles the step for each length.
        lengths = input_pipeline.lengths_up_to(options.max_seq_length, few=options.enable_xla)
    with record_files.naming_bad_records(records.paths, records.schema):
        runs.train(
            run,
            records.paths,
            records.schema,
            evaluator,
            evaluates_step_0=True,
            lengths=lengths,
        )


def make_evaluator(run, data):
    """evaluation.Evaluator of a run on the development set, which is read once."""
    task, splits, batch_size = data.task, data.evaluation_splits(), run.settings.eval_batch_size

    def evaluate():
        found = RunDirectory(run.settings.output_dir).task
        if task.kind and found not in (None, task.kind):  # another process has begun a training
            raise UserError(
                f"--output_dir={run.settings.output_dir} was trained for {found} and not for "
                f"{task.kind}: give another directory"
            )
        return data.evaluate(splits, model_outputs(run, task, splits, batch_size), batch_size)

    return evaluation.Evaluator(
        run,
        evaluate,
        task.key_metric,
        task.results_layout,
        data.evaluated_on(),
        shown=task.shown_metrics,
        keep=run.settings.keep_checkpoint_max,
    )


def _say_data(records, task):
    """Prints the columns and classes of the training data, and one example as pieces."""
    print(f"Training on {records.described}")
    counted = [f"{label} ({count:,})" for label, count in records.labels.items()]
    if counted:
        more = f" and {len(counted) - _MOST_SHOWN} more" * (len(counted) > _MOST_SHOWN)
        print(f"Classes: {', '.join(counted[:_MOST_SHOWN])}{more}")
    dataset = input_pipeline.eval_dataset(records.paths[:1], records.schema, 1)
    row = {name: values[0] for name, values in next(dataset.as_numpy_iterator()).items()}
    # If there are several choices, show the right one.
    choice = row["label_ids"][0] if "options" in task.input_names else 0
    ids, mask = (row[name].reshape(task.choices, -1)[choice] for name in task.inputs[:2])
    ids = ids[mask > 0].tolist()
    tokenizer = task.text.tokenizer
    pieces = tokenizer.convert_ids_to_tokens(ids)
    shown = " ".join(pieces[:_MOST_PIECES]) + " ..." * (len(pieces) > _MOST_PIECES)
    if tokenizer.sample:
        for warning in tokenizer.sample.warnings():
            print(f"Warning: {warning}")
    print(f"First example: {shown} = {task.target(row)}; vocabulary: {tokenizer.path}")


# --- Prediction ----------------------------------------------------------------------------------


def _evaluate_together(data, options, strategy):
    """Evaluates an ensemble on the development set, and prints its metrics."""
    splits, size = data.evaluation_splits(), options.eval_batch_size
    members = _predicted(data.task, splits, options.ensemble, size, options, strategy)
    found = data.evaluate(splits, data.combined(members).outputs, size)
    for warning in filter(None, found.warnings):
        print(f"Warning: {warning}")
    text = "\n".join(evaluation.sorted_lines(found.metrics)) + "\n"
    evaluation.add(options.output_dir, text)
    print(f"{len(members)} models together:\n{text}", end="")


def _predicted(task, splits, models, batch_size, options, strategy, run=None):
    """The outputs of each of the models: list of Predicted.

    Args:
        task: tasks.base.Task.
        splits: dict of key -> Split.
        models: list of (AlbertConfig, prefix).
        batch_size: int.
        options: options.FineTuning.
        strategy: tf.distribute.Strategy.
        run: loop.Run of the training; None if there was none.
    """
    members = []
    for config, prefix in models:
        if run is None or options.ensemble:
            run = make_run(task, config, strategy, options)
        run.load_weights_and_step(prefix)
        source = evaluation.describe(prefix, task.key_metric)
        print(f"Predicting with {source}")
        outputs = model_outputs(run, task, splits, batch_size)
        members.append(Predicted(prefix, run.step, outputs, source))
    return members


def _export(task, config, options, prefix):
    """Writes a checkpoint as a SavedModel."""
    devices.set_precision("fp32")
    model = task.make_served_model(config)
    loading.load_all(prefix, name_table.named_variables(model))
    tokenizer = graph_tokenization.GraphTokenizer(task.text.tokenizer, options.export_text)
    functions = task.served_functions(model, tokenizer, prefix)
    source = evaluation.describe(prefix, task.key_metric)
    saved_models.export(functions, options, task, prefix, source)


def model_outputs(run, task, splits, batch_size):
    """Outputs of the model for all rows of the splits, in order.

    Args:
        run: loop.Run, its weights loaded.
        task: tasks.base.Task.
        splits: dict of key -> Split.
        batch_size: int.

    Returns:
        dict of key -> dict of numpy arrays [n, ...].
    """
    outputs = {}
    for key, split in splits.items():
        inputs = {name: split.arrays[name] for name in task.inputs}
        length, on_tpu = run.settings.max_seq_length, devices.is_tpu(run.strategy)
        batches = input_pipeline.prediction_batches(inputs, batch_size, length, fixed_shape=on_tpu)
        outputs[key] = run.predict(batches, len(inputs["input_ids"]))
    return outputs
