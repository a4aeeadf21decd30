# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on GLUE tasks or one's own tab-separated files.

python run_classifier.py \
  --data_dir=glue --task_name=SST-2 --output_dir=sst-2 --albert_config_file=albert_config.json \
  --spm_model_file=30k-clean.model --init_checkpoint=albert_base --do_train --do_eval --do_predict \
  --max_seq_length=128 --train_step=2000 --warmup_step=200 --learning_rate=1e-5
"""

import dataclasses
import functools
import math
import os
import statistics

from absl import flags

from albert_tf import files
from albert_tf.checkpoints import run_directory
from albert_tf.cli import launch
from albert_tf.config import AlbertConfig
from albert_tf.data import feature_cache, input_pipeline, records
from albert_tf.errors import UserError
from albert_tf.model import heads, optimization
from albert_tf.publish import classifier_functions, saved_models, text_inputs
from albert_tf.tasks import glue
from albert_tf.training import devices, finetuning, loop, progress_line, results

FLAGS = flags.FLAGS
HEAD_DROPOUT = 0.1  # fixed in the original, whatever the config says
RULE = "=" * 50  # between the blocks of eval_results.txt
TSV_FLAGS = ("text_column", "text_pair_column", "label_column", "labels", "regression")


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flags.DEFINE_string("data_dir", None, "Directory of the GLUE data, a folder for each task.")
    flags.DEFINE_string(
        "task_name",
        None,
        f"One of {', '.join(glue.TASKS)}; or tsv: train.tsv, dev.tsv and test.tsv in --data_dir.",
    )
    flags.DEFINE_string(
        "cached_dir", None, "Where the TFRecords of features are kept; --output_dir by default."
    )
    flags.DEFINE_string("text_column", "0", "tsv: column of the text, a name or a number from 0.")
    flags.DEFINE_string("text_pair_column", None, "tsv: column of a second text.")
    flags.DEFINE_string("label_column", None, "tsv: column of the label.")
    flags.DEFINE_list("labels", None, "tsv: the classes; those of train.tsv by default.")
    flags.DEFINE_bool("regression", False, "tsv: whether labels are numbers to be predicted.")
    flags.DEFINE_integer("train_step", 1000, "Updates in all; the decay ends there.")
    flags.DEFINE_integer("warmup_step", 0, "Updates of the linear warm-up.")
    flags.DEFINE_enum("optimizer", "adamw", sorted(optimization.OPTIMIZERS), "Optimizer.")
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Checkpoints to keep of those that were evaluated, beside the best; 0 for all.",
    )
    flags.DEFINE_integer(
        "num_trials",
        1,
        "Runs with seeds of their own, in folders of their own; the best is kept. The paper "
        "reports the median of five.",
    )
    flags.DEFINE_string(
        "glue_submission_dir", None, "Where to write predictions as the GLUE server takes them."
    )
    flags.DEFINE_float(
        "threshold_to_export", math.nan, "A number to give back with the export's predictions."
    )
    launch.define_export_flags()
    launch.define_finetuning_flags(
        max_seq_length=512, learning_rate=5e-5, save_checkpoints_steps=1000
    )
    flags.mark_flags_as_required(["data_dir", "task_name", "output_dir"])


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    launch.check_not_empty("output_dir", "export_dir")
    launch.check_export_flags()
    if not math.isnan(FLAGS.threshold_to_export) and not FLAGS.export_dir:
        raise UserError("--threshold_to_export needs --export_dir")
    if math.isinf(FLAGS.threshold_to_export):
        raise UserError(f"--threshold_to_export={FLAGS.threshold_to_export} is not finite")
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict or FLAGS.export_dir):
        raise UserError("nothing to do: give --do_train, --do_eval, --do_predict or --export_dir")
    launch.check_at_least(
        1, "train_batch_size", "eval_batch_size", "predict_batch_size", "train_step",
        "save_checkpoints_steps", "iterations_per_loop", "steps_per_loop", "num_trials",
        "shuffle_buffer_size",
    )  # fmt: skip
    launch.check_at_least(
        0, "warmup_step", "keep_checkpoint_max", "learning_rate", "continuous_eval_timeout"
    )
    finetuning.check_strategy(FLAGS.distribution_strategy)
    glue.check_max_seq_length(FLAGS.max_seq_length)
    if FLAGS.num_trials > 1 and not (FLAGS.do_train and FLAGS.do_eval):
        raise UserError("--num_trials compares runs: it needs --do_train and --do_eval")
    if any("\t" in label or "\n" in label for label in FLAGS.labels or ()):
        raise UserError(f"--labels={FLAGS.labels}: a column's values hold no tabs and no line ends")
    given = [f"--{name}" for name in TSV_FLAGS if FLAGS[name].value != FLAGS[name].default]
    if given and FLAGS.task_name.lower() != "tsv":
        raise UserError(
            f"{', '.join(given)}: for --task_name=tsv alone. Received: {FLAGS.task_name}"
        )


def find_task():
    """The row of the task in question."""
    if FLAGS.task_name.lower() != "tsv":
        return glue.find_task(FLAGS.task_name)
    return glue.tsv_task(
        FLAGS.text_column,
        FLAGS.text_pair_column,
        FLAGS.label_column,
        labels=FLAGS.labels,
        regression=FLAGS.regression,
        data_dir=FLAGS.data_dir,
    )


@dataclasses.dataclass(frozen=True)
class Data:
    """A task's splits as examples and as record files.

    Attributes:
        task: GlueTask.
        tokenizer: FullTokenizer.
        config: AlbertConfig.
    """

    task: glue.GlueTask
    tokenizer: object
    config: AlbertConfig

    @property
    def head(self):
        """finetuning.Head of a model for it."""
        return finetuning.Head(glue.model_task(FLAGS.task_name), self.task.labels)

    @property
    def schema(self):
        """Schema of the records."""
        return self.task.schema(
            FLAGS.max_seq_length,
            vocab_size=self.config.vocab_size,
            type_vocab_size=self.config.type_vocab_size,
        )

    def examples(self, split):
        """Reads a split; returns its examples and what is to be said of it."""
        examples, left_out = glue.read_examples(self.task, FLAGS.data_dir, split, self.tokenizer)
        return examples, {
            "left_out": left_out,
            "without_text": sum(not (example.text_a or example.text_b) for example in examples),
            "sorted_by_label": glue.num_sorted(self.task, examples) if split == "train" else 0,
        }

    def records(self, split, name):
        """Makes the record file of a split, unless it is there and made of the same; its path."""
        file_name = f"{FLAGS.task_name.lower()}{name}.tf_record"
        path = os.path.join(FLAGS.cached_dir or FLAGS.output_dir, file_name)
        source = glue.input_file(self.task, FLAGS.data_dir, split)

        def make(cache):
            examples, counts = self.examples(split)
            cache.counts.update(counts)
            return self.batches(examples)

        cache = feature_cache.cached_records(
            path,
            self.schema,
            {
                "task": dataclasses.asdict(self.task) | dict.fromkeys(("guid", "test_guid")),
                "do_lower_case": launch.do_lower_case(),
                "max_seq_length": FLAGS.max_seq_length,
            },
            [source, launch.vocabulary_file()],
            make,
            add_key=True,
        )
        say_counts(split, cache.counts)
        return cache.path

    def batches(self, examples):
        """Feature arrays of examples, some at a time."""
        for chunk in records.in_chunks(examples):
            yield glue.features(chunk, self.task, self.tokenizer, FLAGS.max_seq_length)


def say_counts(split, counts):
    """Prints what is noteworthy of a split (`Data.examples`), whether it was read now or before."""
    if counts["left_out"]:
        print(f"{split}: {counts['left_out']} rows without the columns needed are left out")
    if counts["without_text"]:
        print(f"{split}: {counts['without_text']} rows have no text and are taken as they are")
    warning = glue.order_warning(counts["sorted_by_label"], FLAGS.shuffle_buffer_size)
    if warning:
        print(f"Warning: {warning}.")


def input_files(task):
    """Paths of the files that a run of the task trains and evaluates on."""
    splits = ["train"] + ["dev"] * FLAGS.do_eval
    return [glue.input_file(task, FLAGS.data_dir, split) for split in splits]


def make_run(task, config, strategy, output_dir, recipe):
    """Model, optimizer and run of a trial."""
    make_model = functools.partial(
        heads.ClassificationModel,
        config,
        task.num_outputs,
        dropout_prob=HEAD_DROPOUT,
        use_one_hot_embeddings=devices.is_tpu(strategy),
    )
    settings = loop.Settings(
        output_dir=output_dir,
        train_steps=FLAGS.train_step,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        steps_per_loop=FLAGS.steps_per_loop or FLAGS.iterations_per_loop,
        # Another process may evaluate later: until then all have to stay.
        keep_checkpoint_max=FLAGS.keep_checkpoint_max if FLAGS.do_eval else None,
    )
    terms = heads.regression_terms if task.is_regression else heads.classification_terms
    return finetuning.make_run(strategy, make_model, terms, settings, recipe)


def development_sets(data):
    """Records of the development sets, of which the task may have several.

    Returns:
        dict from suffix ("" for the task's own) to (GlueTask, dict of arrays).
    """
    sets = {}
    for suffix, task in glue.with_companions(data.task, FLAGS.data_dir, "dev").items():
        one = dataclasses.replace(data, task=task)
        path = one.records("dev", f"{suffix}_eval")
        sets[suffix] = (task, input_pipeline.load_arrays(path, one.schema))
    return sets


def test_sets(data):
    """Examples of the test sets: dict from suffix to (Data, list of Example)."""
    tasks = glue.with_companions(data.task, FLAGS.data_dir, "test")
    sets = {}
    for suffix, task in tasks.items():
        one = dataclasses.replace(data, task=task)
        examples, counts = one.examples("test")
        say_counts("test", counts)
        sets[suffix] = (one, examples)
    return sets


def evaluate(run, sets, warner, prefix):
    """Evaluates the weights at hand on the development sets; records and prints the figures."""
    figures, warnings = {"global_step": run.step}, []
    for suffix, (task, arrays) in sets.items():
        outputs, found = figures_of(run, task, arrays)
        figures |= {f"{name}{suffix}": value for name, value in found.items()}
        warnings.append(finetuning.collapse_warning(task.labels, outputs))
    best = run.is_chief and results.record(
        run.settings.output_dir,
        run.step,
        figures,
        prefix,
        sets[""][0].key_metric,
        initial_best=-1,
        block=results_block,
    )
    shown = ", ".join(f"{k} {v:.4f}" for k, v in figures.items() if k != "global_step")
    progress_line.say(f"Evaluation at step {run.step}: {shown}{' (best so far)' if best else ''}")
    if run.step:  # before training it is no news
        warner.say(warnings)


def figures_of(run, task, arrays):
    """Outputs for a development set and its figures, the original's `loss` among them."""
    outputs = finetuning.model_outputs(run, arrays, FLAGS.eval_batch_size, FLAGS.max_seq_length)
    labels = arrays["label_ids"][:, 0]
    losses = glue.example_losses(task, outputs, labels)
    loss = finetuning.mean_over_batches(losses, FLAGS.eval_batch_size)
    return outputs, glue.evaluate(task, outputs, labels) | {"loss": loss}


def results_block(figures, state, _):
    """Lines of `eval_results.txt`; the original shows the best before this evaluation."""
    return [*results.sorted_lines(figures), f"best = {state.best}", RULE]


def predict(run, sets):
    """Predicts the test sets with the best checkpoint."""
    prefix = finetuning.load_best(run, FLAGS.init_checkpoint)
    for suffix, (data, examples) in sets.items():
        paths = predict_set(run, data, examples, suffix)
        print(f"Predicted {len(examples)} examples with {prefix}: {', '.join(paths)}")


def predict_set(run, data, examples, suffix):
    """Writes the predictions for a test set in the original's two files, and for the GLUE server.

    Returns:
        list of the files' paths.
    """
    directory, task = run.settings.output_dir, data.task
    path = os.path.join(directory, f"predict{suffix}.tf_record")
    records.write_records(path, data.schema, data.batches(examples))
    arrays = input_pipeline.load_arrays(path, data.schema)
    outputs = finetuning.model_outputs(run, arrays, FLAGS.predict_batch_size, FLAGS.max_seq_length)
    finetuning.Warner().say([finetuning.collapse_warning(task.labels, outputs)])
    predicted = glue.predictions(task, outputs)
    texts = {
        f"{directory}/test_results{suffix}.tsv": glue.test_results(predicted),
        f"{directory}/submit_results{suffix}.tsv": glue.submit_results(task, examples, predicted),
    }
    if FLAGS.glue_submission_dir:
        path = os.path.join(FLAGS.glue_submission_dir, task.submission_file)
        texts[path] = glue.glue_submission(task, examples, predicted)
    for path, text in texts.items():
        files.write_text(path, text)
    return list(texts)


def run_trial(data, config, strategy, output_dir, seed):
    """Trains and evaluates once; returns the run."""
    files.check_writable(output_dir, "output_dir")
    recipe = None
    if FLAGS.do_train:
        recipe = finetuning.Recipe(
            optimizer=FLAGS.optimizer,
            learning_rate=FLAGS.learning_rate,
            train_steps=FLAGS.train_step,
            warmup_steps=FLAGS.warmup_step,
            batch_size=FLAGS.train_batch_size,
            seed=seed,
            shuffle_buffer_size=FLAGS.shuffle_buffer_size,
        )
    launch.set_seed(seed)
    task = data.task
    run = make_run(task, config, strategy, output_dir, recipe)
    if FLAGS.do_train:
        finetuning.check_head(data.head, output_dir)
        finetuning.start(run, finetuning.Source(launch.init_checkpoint(), FLAGS.allow_random_init))
        for directory in {output_dir, FLAGS.output_dir}:  # of a trial, and of all
            launch.record_run(directory, config, run, input_files(task))
            finetuning.write_head(directory, data.head)
    on_checkpoint = None
    if FLAGS.do_eval:
        on_checkpoint = functools.partial(
            evaluate, run, development_sets(data), finetuning.Warner()
        )
    if FLAGS.do_train:
        figures = ("eval_loss",) if task.is_regression else ("eval_loss", "eval_accuracy")
        train_files = [data.records("train", "_train")]
        finetuning.train(
            run, recipe, train_files, data.schema, FLAGS.max_seq_length, figures, on_checkpoint
        )
    elif FLAGS.do_eval:
        finetuning.evaluate_checkpoints(
            run, on_checkpoint, FLAGS.continuous_eval_timeout, FLAGS.init_checkpoint
        )
    if FLAGS.do_eval:
        finetuning.check_key_metric(output_dir, task.key_metric)
    return run


def run_trials(data, config, strategy):
    """Several trials in folders of their own; keeps the best in --output_dir and sums them up.

    One that fails is written down as such, and the others go on.
    """
    first_seed = FLAGS.seed or 0
    values, lines = {}, []
    for seed in range(first_seed, first_seed + FLAGS.num_trials):
        directory = os.path.join(FLAGS.output_dir, f"trial-{seed}")
        print(f"Trial with seed {seed}: {directory}")
        try:
            with launch.locked(directory, strategy):
                run_trial(data, config, strategy, directory, seed)
        except UserError as error:
            reason = " ".join(str(error).split())
            print(f"Trial with seed {seed} failed: {reason}")
            lines.append(f"{directory}\tfailed: {reason}")
        else:
            values[directory] = results.read_best(directory).best
            lines.append(f"{directory}\t{values[directory]}")
        write_trials(lines)
    if not values:
        raise UserError(f"all {FLAGS.num_trials} trials failed, the last one: {reason}")
    best = max(values, key=values.get)
    run_directory.copy(
        os.path.join(best, run_directory.BEST), os.path.join(FLAGS.output_dir, run_directory.BEST)
    )
    summary = trials_summary(data.task.key_metric, values)
    write_trials([*lines, summary])
    print(summary)
    return make_run(data.task, config, strategy, FLAGS.output_dir, recipe=None)


def write_trials(lines):
    """Writes what is known of the trials so far."""
    files.write_text(os.path.join(FLAGS.output_dir, "trials.txt"), "\n".join(lines) + "\n")


def trials_summary(metric, values):
    """A line on the trials that succeeded, from a dict of directory -> value; one at least."""
    scores, best = list(values.values()), max(values, key=values.get)
    failed = FLAGS.num_trials - len(scores)
    spread = statistics.stdev(scores) if len(scores) > 1 else math.nan
    return (
        f"{metric} of {len(scores)} trials{f' ({failed} failed)' if failed else ''}: "
        f"median {statistics.median(scores):.4f}, mean {statistics.fmean(scores):.4f}, "
        f"standard deviation {spread:.4f}, best {values[best]:.4f} in {best}"
    )


def export(task, config):
    """Writes the best checkpoint as a SavedModel."""
    prefix = finetuning.find_best(FLAGS.output_dir, FLAGS.init_checkpoint)
    devices.set_precision("fp32")
    model = heads.ClassificationModel(config, task.num_outputs)
    saved_models.load(model, prefix)
    tokenizer = launch.make_graph_tokenizer()
    texts = text_inputs.SentencePairs(tokenizer, FLAGS.max_seq_length, len(task.text) == 2)
    threshold = FLAGS.threshold_to_export
    functions = classifier_functions.ClassifierFunctions(
        model, texts, task.labels, None if math.isnan(threshold) else threshold
    )
    launch.export(model, functions, tokenizer, config, task.labels)


def main(_):
    """Reads flags, checks them and the input, then trains, evaluates, predicts and exports."""
    launch.note_obsolete_flags()
    check_flags()
    task = find_task()
    if FLAGS.export_dir and not FLAGS.do_train:
        launch.follow_run(finetuning.trained_in(FLAGS.output_dir) or FLAGS.init_checkpoint)
    if FLAGS.glue_submission_dir and task.submission_file is None:
        raise UserError("--glue_submission_dir is for GLUE tasks; the server knows no others")
    config, tokenizer = launch.read_config(), launch.make_tokenizer()
    launch.check_vocabulary(config, tokenizer)
    for flag in ("output_dir", "cached_dir", "glue_submission_dir", "export_dir"):
        if FLAGS[flag].value:
            files.check_writable(FLAGS[flag].value, flag)
    data = Data(task, tokenizer, config)
    given = None if FLAGS.do_train else FLAGS.init_checkpoint
    finetuning.check_head(data.head, FLAGS.output_dir, given)
    tests = test_sets(data) if FLAGS.do_predict else {}  # an error now rather than after training
    strategy = launch.set_up_devices()
    if FLAGS.do_train:
        devices.check_batch_size(strategy, FLAGS.train_batch_size, "train_batch_size")
    with launch.locked(FLAGS.output_dir, strategy):
        if FLAGS.num_trials > 1:
            run = run_trials(data, config, strategy)
        else:
            run = run_trial(data, config, strategy, FLAGS.output_dir, FLAGS.seed)
        if FLAGS.do_predict:
            predict(run, tests)
    if FLAGS.export_dir:
        export(task, config)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
