# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on RACE, questions with four answers about a passage.

python run_race.py \
  --data_dir=data --output_dir=output/race --albert_config_file=albert_config.json \
  --spm_model_file=30k-clean.model --init_checkpoint=albert_base --do_train --do_eval --do_predict \
  --max_seq_length=512 --max_qa_length=128 --train_step=12000 --warmup_step=1000 \
  --learning_rate=1e-5
"""

import dataclasses
import functools
import os

from absl import flags

from albert_tf import files
from albert_tf.cli import launch
from albert_tf.data import feature_cache, input_pipeline, records
from albert_tf.errors import UserError
from albert_tf.model import heads, optimization
from albert_tf.publish import classifier_functions, saved_models, text_inputs
from albert_tf.tasks import race
from albert_tf.training import devices, finetuning, loop, progress_line, results

FLAGS = flags.FLAGS
KEY_METRIC = "eval_accuracy"
HEAD = finetuning.Head("race", tuple(race.LETTERS))
RULE = "=" * 50  # between the blocks of eval_results.txt
V2_LEARNING_RATE = 1e-5  # the original's for version 2; higher ones diverge
DEFAULT_RECORDS = {  # flag -> name in --output_dir
    "train_file": "race_train.tf_record",
    "eval_file": "race_eval.tf_record",
    "predict_file": "predict.tf_record",
}


def define_flags():
    """Defines the script's flags; names and defaults are the original's."""
    flags.DEFINE_string("data_dir", None, "Directory that holds the folder RACE.")
    flags.DEFINE_enum("task_name", "race", ["race"], "There is no other.", case_sensitive=False)
    for split, name in (("training", "train"), ("development", "eval"), ("test", "predict")):
        flags.DEFINE_string(
            f"{name}_file",
            None,
            f"TFRecord file for the {split} features; in --output_dir by default.",
        )
    flags.DEFINE_float("dropout_prob", 0.1, "Dropout of the pooled output, in training.")
    flags.DEFINE_integer(
        "max_qa_length", 128, "Longest question and option; its last pieces are kept."
    )
    flags.DEFINE_integer(
        "num_keep_checkpoint",
        5,
        "Checkpoints to keep of those that were evaluated, beside the best; 0 for all.",
    )
    flags.DEFINE_bool("high_only", False, "Only the high school's questions.")
    flags.DEFINE_bool("middle_only", False, "Only the middle school's questions.")
    flags.DEFINE_integer("train_step", 12000, "Updates in all; the decay ends there.")
    flags.DEFINE_integer("warmup_step", 1000, "Updates of the linear warm-up.")
    flags.DEFINE_enum("optimizer", "adamw", sorted(optimization.OPTIMIZERS), "Optimizer.")
    launch.define_export_flags()
    launch.define_finetuning_flags(
        max_seq_length=512,
        learning_rate=1e-5,
        save_checkpoints_steps=100,
        do_train=True,
        do_eval=True,
    )
    flags.mark_flags_as_required(["data_dir", "output_dir"])


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    launch.check_not_empty("output_dir", "export_dir")
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict or FLAGS.export_dir):
        raise UserError("nothing to do: give --do_train, --do_eval, --do_predict or --export_dir")
    launch.check_export_flags()
    launch.check_at_least(
        1, "train_batch_size", "eval_batch_size", "predict_batch_size", "train_step",
        "save_checkpoints_steps", "iterations_per_loop", "steps_per_loop",
        "shuffle_buffer_size",
    )  # fmt: skip
    launch.check_at_least(
        0, "warmup_step", "num_keep_checkpoint", "learning_rate", "continuous_eval_timeout"
    )
    if not 0 <= FLAGS.dropout_prob < 1:
        raise UserError(
            f"--dropout_prob must be at least 0 and below 1. Received: {FLAGS.dropout_prob}"
        )
    finetuning.check_strategy(FLAGS.distribution_strategy)
    race.check_lengths(FLAGS.max_seq_length, FLAGS.max_qa_length)


def version_warning(config):
    """A warning where version 1's settings meet a version 2 model; or None."""
    has_dropout = config.hidden_dropout_prob or config.attention_probs_dropout_prob
    # The folder counts as well: albert_base_v2/model.ckpt-best.
    names = (launch.init_checkpoint() or "").split("/")[-2:]
    if has_dropout and any("v2" in name for name in names):
        return (
            f"the config has dropout, but {'/'.join(names)} sounds like version 2, which was "
            "trained without: fine-tuning diverges. Set both dropout rates of the config to 0"
        )
    if not has_dropout and FLAGS.learning_rate > V2_LEARNING_RATE:
        return (
            f"a config without dropout is version 2's, whose fine-tuning on RACE may diverge with "
            f"--learning_rate={FLAGS.learning_rate}: the recipe is {V2_LEARNING_RATE}"
        )
    return None


@dataclasses.dataclass(frozen=True)
class Data:
    """RACE as record files.

    Attributes:
        tokenizer: FullTokenizer.
        levels: tuple of str, of race.LEVELS.
        schema: dict from feature name to `records.FeatureSpec`.
    """

    tokenizer: object
    levels: tuple
    schema: dict

    def input_files(self):
        """Paths of the files that a run trains and evaluates on."""
        splits = ["train"] + ["dev"] * FLAGS.do_eval
        found = [race.input_files(FLAGS.data_dir, split, self.levels) for split in splits]
        return [path for split in found for _, path in split]

    def examples(self, split):
        """Reads the questions of a split."""
        return race.read_examples(FLAGS.data_dir, split, self.tokenizer, self.levels)

    def records(self, split, flag, examples=None):
        """Makes the record file of a split, unless it is there and made of the same; its path.

        Args:
            split: str.
            flag: str, the flag that may name the file.
            examples: list of Example, or None to read them if they are needed.
        """
        sources = [source for _, source in race.input_files(FLAGS.data_dir, split, self.levels)]
        cache = feature_cache.cached_records(
            record_file(flag),
            self.schema,
            {
                "levels": self.levels,
                "do_lower_case": launch.do_lower_case(),
                "max_seq_length": FLAGS.max_seq_length,
                "max_qa_length": FLAGS.max_qa_length,
            },
            [*sources, launch.vocabulary_file()],
            lambda _: self.batches(examples or self.examples(split)),
            add_key=not FLAGS[flag].value,
        )
        return cache.path

    def batches(self, examples):
        """Feature arrays of questions, some at a time."""
        for chunk in records.in_chunks(examples):
            yield race.features(chunk, self.tokenizer, FLAGS.max_seq_length, FLAGS.max_qa_length)


def record_file(flag):
    """Path of a record file: what --train_file, --eval_file or --predict_file says, or default."""
    return FLAGS[flag].value or os.path.join(FLAGS.output_dir, DEFAULT_RECORDS[flag])


def make_run(config, strategy):
    """Model, optimizer and run."""
    make_model = functools.partial(
        heads.MultipleChoiceModel,
        config,
        dropout_prob=FLAGS.dropout_prob,
        choices=len(race.LETTERS),
        use_one_hot_embeddings=devices.is_tpu(strategy),
    )
    settings = loop.Settings(
        output_dir=FLAGS.output_dir,
        train_steps=FLAGS.train_step,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        steps_per_loop=FLAGS.steps_per_loop or FLAGS.iterations_per_loop,
        # Another process may evaluate later: until then all have to stay.
        keep_checkpoint_max=FLAGS.num_keep_checkpoint if FLAGS.do_eval else None,
    )
    recipe = None
    if FLAGS.do_train:
        recipe = finetuning.Recipe(
            optimizer=FLAGS.optimizer,
            learning_rate=FLAGS.learning_rate,
            train_steps=FLAGS.train_step,
            warmup_steps=FLAGS.warmup_step,
            batch_size=FLAGS.train_batch_size,
            seed=FLAGS.seed,
            shuffle_buffer_size=FLAGS.shuffle_buffer_size,
        )
    terms = heads.classification_terms
    return finetuning.make_run(strategy, make_model, terms, settings, recipe), recipe


def figures_of(run, examples, arrays, batch_size):
    """Logits of a split and its figures, the original's `loss` and step among them."""
    logits = finetuning.model_outputs(run, arrays, batch_size, FLAGS.max_seq_length)
    figures = race.evaluate(examples, logits)
    if figures:
        losses = race.example_losses(examples, logits)
        figures["loss"] = finetuning.mean_over_batches(losses, batch_size)
        figures["global_step"] = run.step
    return logits, figures


def development_set(run, data):
    """Reads the development set; returns what evaluates a checkpoint on it."""
    examples = data.examples("dev")
    arrays = input_pipeline.load_arrays(data.records("dev", "eval_file", examples), data.schema)
    return functools.partial(evaluate, run, examples, arrays, finetuning.Warner())


def evaluate(run, examples, arrays, warner, prefix):
    """Evaluates the weights at hand on the development set; records and prints the figures."""
    logits, figures = figures_of(run, examples, arrays, FLAGS.eval_batch_size)
    best = run.is_chief and results.record(
        FLAGS.output_dir,
        run.step,
        figures,
        prefix,
        KEY_METRIC,
        initial_best=-1,
        block=results_block,
    )
    shown = ", ".join(f"{k} {v:.4f}" for k, v in figures.items() if k != "global_step")
    progress_line.say(f"Evaluation at step {run.step}: {shown}{' (best so far)' if best else ''}")
    if run.step:  # before training it is no news
        warner.say([finetuning.collapse_warning(race.LETTERS, logits)])


def results_block(figures, state, saved):
    """Lines of `eval_results.txt`; the original shows the best before this evaluation."""
    return [*results.sorted_lines(figures), f"best = {state.best}", *saved, RULE]


def predict(run, data, examples):
    """Answers the test questions with the best checkpoint."""
    prefix = finetuning.load_best(run, FLAGS.init_checkpoint)
    path = record_file("predict_file")
    records.write_records(path, data.schema, data.batches(examples))
    arrays = input_pipeline.load_arrays(path, data.schema)
    logits, figures = figures_of(run, examples, arrays, FLAGS.predict_batch_size)
    finetuning.Warner().say([finetuning.collapse_warning(race.LETTERS, logits)])
    answers = os.path.join(FLAGS.output_dir, "predictions.tsv")
    files.write_text(answers, race.answers_table(examples, logits))
    print(f"Answered {len(examples)} questions with {prefix}: {answers}")
    if not figures:
        print("The test set has no answers, so there are no figures.")
        return
    state = results.read_best(FLAGS.output_dir)
    lines = ["***** Predict results *****", *results.sorted_lines(figures)]
    lines.append(f"best = {state.best if state else -1}")
    files.write_text(os.path.join(FLAGS.output_dir, "predict_results.txt"), "\n".join(lines) + "\n")
    print("\n".join(lines))


def export(config):
    """Writes the best checkpoint as a SavedModel."""
    prefix = finetuning.find_best(FLAGS.output_dir, FLAGS.init_checkpoint)
    devices.set_precision("fp32")
    model = heads.MultipleChoiceModel(config, choices=len(race.LETTERS))
    saved_models.load(model, prefix)
    tokenizer = launch.make_graph_tokenizer()
    texts = text_inputs.Options(tokenizer, FLAGS.max_seq_length, FLAGS.max_qa_length)
    functions = classifier_functions.ClassifierFunctions(model, texts, list(race.LETTERS))
    launch.export(model, functions, tokenizer, config, race.LETTERS)


def main(_):
    """Reads flags, checks them and the input, then trains, evaluates, predicts and exports."""
    launch.note_obsolete_flags()
    check_flags()
    levels = race.choose_levels(FLAGS.middle_only, FLAGS.high_only)
    if FLAGS.export_dir and not FLAGS.do_train:
        launch.follow_run(finetuning.trained_in(FLAGS.output_dir) or FLAGS.init_checkpoint)
    config, tokenizer = launch.read_config(), launch.make_tokenizer()
    launch.check_vocabulary(config, tokenizer)
    schema = race.schema(
        FLAGS.max_seq_length, vocab_size=config.vocab_size, type_vocab_size=config.type_vocab_size
    )
    data = Data(tokenizer, levels, schema)
    given = None if FLAGS.do_train else FLAGS.init_checkpoint
    finetuning.check_head(HEAD, FLAGS.output_dir, given)
    for flag in ("output_dir", "export_dir"):
        if FLAGS[flag].value:
            files.check_writable(FLAGS[flag].value, flag)
    for flag in DEFAULT_RECORDS:
        files.check_file_writable(record_file(flag), flag)
    # Errors in the test set come now rather than after training.
    test_examples = data.examples("test") if FLAGS.do_predict else None
    warning = version_warning(config) if FLAGS.do_train else None
    if warning:
        print(f"Warning: {warning}.")
    strategy = launch.set_up_devices()
    if FLAGS.do_train:
        devices.check_batch_size(strategy, FLAGS.train_batch_size, "train_batch_size")
    with launch.locked(FLAGS.output_dir, strategy):
        run_all(data, config, strategy, test_examples)
    if FLAGS.export_dir:
        export(config)


def run_all(data, config, strategy, test_examples):
    """Trains, evaluates and predicts, as the flags ask for."""
    run, recipe = make_run(config, strategy)
    if FLAGS.do_train:
        finetuning.start(run, finetuning.Source(launch.init_checkpoint(), FLAGS.allow_random_init))
        launch.record_run(FLAGS.output_dir, config, run, data.input_files())
        finetuning.write_head(FLAGS.output_dir, HEAD)
    on_checkpoint = development_set(run, data) if FLAGS.do_eval else None
    if FLAGS.do_train:
        path = data.records("train", "train_file")
        figures = ("eval_loss", "eval_accuracy")
        finetuning.train(
            run, recipe, [path], data.schema, FLAGS.max_seq_length, figures, on_checkpoint
        )
    elif FLAGS.do_eval:
        finetuning.evaluate_checkpoints(
            run, on_checkpoint, FLAGS.continuous_eval_timeout, FLAGS.init_checkpoint
        )
    if FLAGS.do_predict:
        predict(run, data, test_examples)


if __name__ == "__main__":
    define_flags()
    launch.run(main)
