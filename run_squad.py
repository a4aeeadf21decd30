# SPDX-License-Identifier: Apache-2.0
r"""Fine-tunes, evaluates and predicts on SQuAD 1.1 and 2.0, or on questions of one's own.

python run_squad.py \
  --albert_config_file=albert_config.json --spm_model_file=30k-clean.model \
  --init_checkpoint=albert_base --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
  --output_dir=output/squad --do_train --do_predict --train_batch_size=48 --learning_rate=5e-5 \
  --num_train_epochs=2 --warmup_proportion=0.1 --save_checkpoints_steps=1000
"""

import dataclasses
import functools
import json
import os
import reprlib
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf import files
from albert_tf.checkpoints import readers, run_directory
from albert_tf.cli import launch
from albert_tf.config import AlbertConfig
from albert_tf.data import input_pipeline, records
from albert_tf.errors import UserError
from albert_tf.model import heads, optimization
from albert_tf.publish import saved_models, squad_functions, text_inputs
from albert_tf.tasks import squad_features, squad_metrics, squad_predictions
from albert_tf.training import devices, finetuning, loop, progress_line, results

FLAGS = flags.FLAGS
KEY_METRIC = "f1"
RULE = "=" * 50  # between the blocks of eval_results.txt
KEEP_CHECKPOINTS = 3  # of those that were evaluated, beside the best, as the original
CONFIG = "albert_config.json"
THRESHOLD = "null_score_diff_threshold.json"
INT32_MAX = 2**31 - 1
EVEN_CHANCE = 0.0  # the no-answer logit at which an answer is as likely as none
DEFAULT_FILES = {  # flag -> name in --output_dir
    "train_feature_file": "squad_train.tf_record",
    "predict_feature_file": "squad_predict.tf_record",
}
LABELS = ("start_positions", "end_positions", "is_impossible")


class Version(NamedTuple):
    """What differs between the versions of SQuAD.

    Attributes:
        has_negatives: bool, whether questions may have no answer.
        variable: str, name of one in checkpoints of this version's head alone.
        inputs: tuple of str, features that the model reads.
        model: class in `heads`.
        options: dict from argument of the model to the flag that gives its value.
        served_options: dict of arguments in place of those when the model is exported.
        terms: callable in `heads`, the loss.
        predict: callable in `squad_predictions`.
    """

    has_negatives: bool
    variable: str
    inputs: tuple
    model: type
    options: dict
    served_options: dict
    terms: Callable
    predict: Callable


VERSION_1 = Version(
    has_negatives=False,
    variable="cls/squad/output_weights",
    inputs=("input_ids", "input_mask", "segment_ids"),
    model=heads.SquadV1Model,
    options={"predicted_length": "max_seq_length"},
    served_options={"predicted_length": None},
    terms=heads.squad_v1_terms,
    predict=squad_predictions.predict_v1,
)
VERSION_2 = Version(
    has_negatives=True,
    variable="answer_class/dense_1/kernel",
    inputs=("input_ids", "input_mask", "segment_ids", "p_mask"),
    model=heads.SquadV2Model,
    options={name: name for name in ("start_n_top", "end_n_top", "dropout_prob")},
    served_options={},
    terms=heads.squad_v2_terms,
    predict=squad_predictions.predict_v2,
)


def define_flags():
    """Defines the script's flags; names and defaults are those of the original's two."""
    flags.DEFINE_string("train_file", None, "SQuAD JSON to train on.")
    flags.DEFINE_string(
        "predict_file",
        None,
        "SQuAD JSON to answer. With answers in it, every checkpoint is evaluated on it and the one "
        "with the best f1 is kept.",
    )
    for name, what in (
        ("train_feature_file", "TFRecord file for the training features"),
        ("predict_feature_file", "TFRecord file for the features to predict"),
    ):
        flags.DEFINE_string(name, None, f"{what}; in --output_dir by default.")
    flags.DEFINE_bool(
        "version_2_with_negative",
        None,
        "Whether questions may have no answer (SQuAD 2.0). Read from --train_file by default or, "
        "without --do_train, from the checkpoint.",
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "Version 2: questions whose no-answer logit is not below it get no answer. By default it "
        "is tuned where --predict_file has answers, and else the one tuned last is taken.",
    )
    flags.DEFINE_list(
        "ensemble_dirs",
        [],
        "Directories of trained runs to predict with together: their scores are averaged. Each "
        f"with its {CONFIG}; in place of --albert_config_file and --init_checkpoint.",
    )
    flags.DEFINE_integer("doc_stride", 128, "Pieces from one window of a paragraph to the next.")
    flags.DEFINE_integer("max_query_length", 64, "Pieces of a question; the rest is cut off.")
    flags.DEFINE_integer("n_best_size", 20, "Longest list of answers to a question.")
    flags.DEFINE_integer("max_answer_length", 30, "Longest answer, in pieces.")
    flags.DEFINE_integer("start_n_top", 5, "Version 2: starts in the beam.")
    flags.DEFINE_integer("end_n_top", 5, "Version 2: ends in the beam of each start.")
    flags.DEFINE_float("dropout_prob", 0.1, "Version 2: dropout before the no-answer logit.")
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes, counted in questions and not in windows.")
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the updates for the linear warm-up.")
    flags.DEFINE_enum("optimizer", "adamw", sorted(optimization.OPTIMIZERS), "Optimizer.")
    launch.define_obsolete_flags("use_einsum", "predict_feature_left_file")
    launch.define_export_flags()
    launch.define_finetuning_flags(
        max_seq_length=384, learning_rate=5e-5, save_checkpoints_steps=1000
    )
    FLAGS["init_checkpoint"].help = (
        "Weights to start from, the head among them if they are of a SQuAD model: a prefix, its "
        ".index file or a directory. Not read if --output_dir holds a run."
    )
    for name in ("do_eval", "eval_batch_size"):  # prediction is evaluation here
        delattr(FLAGS, name)
    flags.mark_flags_as_required(["output_dir"])


# --- What the flags ask for ----------------------------------------------------------------------


def check_flags():
    """Raises UserError for values that make no run, before anything is read."""
    launch.check_not_empty("output_dir", "export_dir")
    if not (FLAGS.do_train or FLAGS.do_predict or FLAGS.export_dir):
        raise UserError("nothing to do: give --do_train, --do_predict or --export_dir")
    if FLAGS.ensemble_dirs and FLAGS.export_dir:
        raise UserError("an ensemble is no single model: --ensemble_dirs goes without --export_dir")
    if not squad_metrics.is_number(FLAGS.null_score_diff_threshold or 0.0):
        raise UserError(
            "--null_score_diff_threshold must be a number, such as -1e9 for no answers and 1e9 for "
            f"answers everywhere. Received: {FLAGS.null_score_diff_threshold}"
        )
    if FLAGS.do_train and not FLAGS.train_file:
        raise UserError("--do_train needs --train_file")
    if FLAGS.do_predict and not FLAGS.predict_file:
        raise UserError("--do_predict needs --predict_file")
    if FLAGS.ensemble_dirs and FLAGS.do_train:
        raise UserError("--ensemble_dirs are to predict with: they do not go with --do_train")
    launch.check_export_flags()
    launch.check_at_least(
        1, "train_batch_size", "predict_batch_size", "save_checkpoints_steps",
        "iterations_per_loop", "steps_per_loop", "shuffle_buffer_size",
    )  # fmt: skip
    launch.check_at_least(0, "learning_rate", "continuous_eval_timeout")
    finetuning.check_strategy(FLAGS.distribution_strategy)
    check_bounds()


def check_bounds():
    """Raises UserError for numbers beyond sense, some of which would fail after training only."""
    for names, smallest, largest in (
        (("num_train_epochs",), 0, INT32_MAX),
        (("warmup_proportion",), 0, 1.0),
        (("dropout_prob",), 0, 0.999),
        (("start_n_top", "end_n_top"), 1, FLAGS.max_seq_length),
        (("n_best_size", "max_answer_length", "max_query_length"), 1, INT32_MAX),
    ):
        for name in names:
            if not smallest <= FLAGS[name].value <= largest:
                raise UserError(
                    f"--{name} must lie between {smallest} and {largest}. "
                    f"Received: {FLAGS[name].value}"
                )
    window_settings()


def window_settings(do_lower_case=True):
    """How questions and paragraphs are cut (WindowSettings); UserError where no window fits."""
    return squad_features.WindowSettings(
        FLAGS.max_seq_length, FLAGS.doc_stride, FLAGS.max_query_length, do_lower_case
    )


def feature_file(flag):
    """Path of a feature file: what its flag says, or the default."""
    return FLAGS[flag].value or os.path.join(FLAGS.output_dir, DEFAULT_FILES[flag])


def trained_checkpoints():
    """Prefixes of the checkpoints to predict with: one, or one of each ensemble directory.

    Raises:
        UserError: there is none, or one of them is no checkpoint.
    """
    directories = FLAGS.ensemble_dirs or [FLAGS.output_dir]
    found = [finetuning.trained_in(directory) for directory in directories]
    if found == [None] and not FLAGS.ensemble_dirs and launch.init_checkpoint():
        return [run_directory.find(finetuning.prefer_best(launch.init_checkpoint()))]
    for directory, prefix in zip(directories, found, strict=True):
        if prefix is None:
            raise UserError(
                f"{directory} holds no checkpoint to predict with: train first, or give a trained "
                "model as --init_checkpoint"
            )
    return found


def choose_version(prefixes):
    """The version that the flag says, or else the data or the checkpoints.

    Args:
        prefixes: list of str, checkpoints to predict with; none to train.

    Returns:
        Version.

    Raises:
        UserError: a checkpoint has no SQuAD head, or they disagree with each other or the flag.
    """
    wanted = FLAGS.version_2_with_negative
    if prefixes:
        version = _version_of(prefixes)
        if wanted not in (None, version.has_negatives):
            raise UserError(
                f"--version_2_with_negative={str(wanted).lower()}, but {prefixes[0]} was trained "
                f"for version {1 + version.has_negatives} of SQuAD"
            )
    else:
        has_negatives = squad_features.is_v2(FLAGS.train_file) if wanted is None else wanted
        version = VERSION_2 if has_negatives else VERSION_1
    if FLAGS.null_score_diff_threshold is not None and not version.has_negatives:
        raise UserError("--null_score_diff_threshold is for version 2, and the model is of 1.1")
    return version


def _version_of(prefixes):
    """The version for which all these checkpoints were trained."""
    versions = []
    for prefix in prefixes:
        shapes = readers.open_reader(prefix).shapes
        found = [version for version in (VERSION_1, VERSION_2) if version.variable in shapes]
        if not found:
            raise UserError(
                f"{prefix} has no SQuAD head, so it cannot answer questions: train first, or give "
                "a checkpoint that was trained on SQuAD"
            )
        versions += found
    if versions.count(versions[0]) != len(versions):
        raise UserError("--ensemble_dirs must all be of the same version of SQuAD")
    return versions[0]


def read_configs(prefixes):
    """Configs of the models: of the flags, or those beside the checkpoints.

    Args:
        prefixes: list of str, checkpoints to predict with; none to train.

    Returns:
        list of AlbertConfig, one at least.
    """
    from_flags = FLAGS.albert_config_file or FLAGS.albert_hub_module_handle
    if not prefixes or (from_flags and not FLAGS.ensemble_dirs):
        return [launch.read_config()]
    return [_config_beside(prefix) for prefix in prefixes]


def _config_beside(prefix):
    path = os.path.join(os.path.dirname(prefix), CONFIG)
    if not files.read_text(path):
        raise UserError(
            f"there is no {path} to tell the architecture of {os.path.basename(prefix)}: put the "
            "file there" + ("" if FLAGS.ensemble_dirs else ", or give --albert_config_file")
        )
    config = AlbertConfig.from_json_file(path)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={FLAGS.max_seq_length} exceeds max_position_embeddings="
            f"{config.max_position_embeddings} of {path}"
        )
    return config


def make_recipe(num_questions):
    """How to train; an epoch is as many examples as there are questions, as in the original."""
    steps = int(num_questions / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if steps < 1:
        raise UserError(
            f"{num_questions} questions, --train_batch_size={FLAGS.train_batch_size} and "
            f"--num_train_epochs={FLAGS.num_train_epochs} make no single update: lower the former "
            "or raise the latter"
        )
    return finetuning.Recipe(
        optimizer=FLAGS.optimizer,
        learning_rate=FLAGS.learning_rate,
        train_steps=steps,
        warmup_steps=int(steps * FLAGS.warmup_proportion),
        batch_size=FLAGS.train_batch_size,
        seed=FLAGS.seed,
        shuffle_buffer_size=FLAGS.shuffle_buffer_size,
    )


@dataclasses.dataclass(frozen=True)
class Data:
    """What is read of files, all checked.

    Attributes:
        version: Version.
        tokenizer: FullTokenizer.
        windows: squad_features.WindowSettings.
        train_examples: list of SquadExample, empty without --do_train.
        examples: list of SquadExample to predict, empty without --do_predict.
    """

    version: Version
    tokenizer: object
    windows: squad_features.WindowSettings
    train_examples: list
    examples: list


def read_data(version, configs):
    """Reads vocabulary and questions, so that errors in them come now and not after training."""
    tokenizer = launch.make_tokenizer()
    for config in configs:
        launch.check_vocabulary(config, tokenizer)
    read = squad_features.read_examples
    train_examples = read(FLAGS.train_file, training=True) if FLAGS.do_train else []
    examples = read(FLAGS.predict_file, training=False) if FLAGS.do_predict else []
    for path, found in ((FLAGS.train_file, train_examples), (FLAGS.predict_file, examples)):
        squad_features.report_oddities(found, path)
    windows = window_settings(launch.do_lower_case())
    return Data(version, tokenizer, windows, train_examples, examples)


def check_outputs():
    """Raises UserError if results or feature files cannot be written."""
    for flag in ("output_dir", "export_dir"):
        if FLAGS[flag].value:
            files.check_writable(FLAGS[flag].value, flag)
    for flag in DEFAULT_FILES:
        files.check_file_writable(feature_file(flag), flag)


def check_batch_sizes(strategy):
    """Raises UserError for batches that do not divide among the replicas."""
    if FLAGS.do_train:
        devices.check_batch_size(strategy, FLAGS.train_batch_size, "train_batch_size")
    if FLAGS.do_predict and devices.is_tpu(strategy):
        devices.check_batch_size(strategy, FLAGS.predict_batch_size, "predict_batch_size")


# --- Model ---------------------------------------------------------------------------------------


def make_run(config, version, strategy, directory, recipe=None):
    """Model, optimizer and run; to predict where there is no recipe."""
    settings = loop.Settings(
        output_dir=directory,
        train_steps=recipe.train_steps if recipe else _last_step(directory),
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        steps_per_loop=FLAGS.steps_per_loop or FLAGS.iterations_per_loop,
        # Another process may evaluate later: until then all have to stay.
        keep_checkpoint_max=KEEP_CHECKPOINTS if FLAGS.do_predict else None,
    )
    make_model = functools.partial(
        version.model,
        config,
        use_one_hot_embeddings=devices.is_tpu(strategy),
        **{argument: FLAGS[flag].value for argument, flag in version.options.items()},
    )
    return finetuning.make_run(strategy, make_model, version.terms, settings, recipe)


def _last_step(directory):
    """The step after which evaluation need not wait for another checkpoint."""
    numbered = run_directory.numbered_in(directory)
    if FLAGS.continuous_eval_timeout or not numbered:
        return sys.maxsize  # nobody can tell, so the timeout ends it
    return numbered[-1][0]


# --- Questions -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Questions:
    """The questions of --predict_file and how they are answered and scored.

    Attributes:
        examples: list of SquadExample.
        version: Version.
        features: squad_features.Features.
        arrays: dict of numpy arrays [F, ...], the records of the features.
        is_labelled: bool, whether all of them can be scored.
    """

    examples: list
    version: Version
    features: squad_features.Features
    arrays: dict
    is_labelled: bool

    def outputs(self, run):
        """What a model, its weights loaded, makes of all windows: a run of `squad_predictions`."""
        inputs = {name: self.arrays[name] for name in self.version.inputs}
        batches = input_pipeline.prediction_batches(
            inputs,
            FLAGS.predict_batch_size,
            FLAGS.max_seq_length,
            fixed_shape=devices.is_tpu(run.strategy),
        )
        return {
            **run.predict(batches, len(self.features)),
            "unique_ids": self.arrays["unique_ids"],
        }

    def answers(self, outputs):
        """Predictions from the outputs of one model, or of several to be averaged."""
        return self.version.predict(
            self.examples, self.features, outputs, FLAGS.n_best_size, FLAGS.max_answer_length
        )

    def scores(self, predictions):
        """Figures of labelled questions, null_score_diff_threshold among them in version 2."""
        gold = {example.qas_id: example.answers for example in self.examples}
        if not self.version.has_negatives:
            return squad_metrics.evaluate_v1(gold, predictions.texts())
        return squad_metrics.evaluate_run_v2(
            gold, predictions.texts, predictions.null_odds, FLAGS.null_score_diff_threshold
        )


def record_schema(configs, training):
    """Schema of the records, for models of these configs."""
    return records.squad_schema(
        FLAGS.max_seq_length,
        training,
        vocab_size=min(config.vocab_size for config in configs),
        type_vocab_size=min(config.type_vocab_size for config in configs),
    )


def make_questions(data, configs):
    """Makes the features of --predict_file, or takes those that are there."""
    features, path = squad_features.prediction_features(
        feature_file("predict_feature_file"),
        data.examples,
        data.tokenizer,
        data.windows,
        [FLAGS.predict_file, launch.vocabulary_file()],
        add_key=not FLAGS.predict_feature_file,
    )
    schema = record_schema(configs, training=False)
    wanted = {name: schema[name] for name in ("unique_ids", *data.version.inputs)}
    arrays = input_pipeline.load_arrays(path, wanted)
    without = squad_features.unlabelled(data.examples, data.version.has_negatives)
    if without:
        print(f"{len(without)} of {len(data.examples)} questions have no gold answers: no scores.")
    return Questions(data.examples, data.version, features, arrays, not without)


# --- Thresholds ----------------------------------------------------------------------------------


def write_threshold(predictions, figures):
    """Keeps the threshold that was tuned in an evaluation, for files without answers.

    The figures' own is one of the logits, as in the official script; the one to keep gives the same
    answers and is none of them.
    """
    if "null_score_diff_threshold" not in figures or FLAGS.null_score_diff_threshold is not None:
        return
    threshold = predictions.robust_threshold(figures["null_score_diff_threshold"])
    content = {"null_score_diff_threshold": threshold, "tuned_on": FLAGS.predict_file}
    path = os.path.join(FLAGS.output_dir, THRESHOLD)
    files.write_text(path, json.dumps(content, indent=2) + "\n")


def read_threshold(directory):
    """The (threshold, file it was tuned on) of a directory, or None.

    Raises:
        UserError: the file is there and holds something else.
    """
    path = os.path.join(directory, THRESHOLD)
    if not tf.io.gfile.exists(path):
        return None
    content = files.read_json(path)
    found = [
        content.get(name) if isinstance(content, dict) else None
        for name in ("null_score_diff_threshold", "tuned_on")
    ]
    if not squad_metrics.is_number(found[0]) or not isinstance(found[1], str):
        raise UserError(
            f"{path} is damaged: it must hold a finite number null_score_diff_threshold and a text "
            f"tuned_on, not {reprlib.repr(content)}. Delete it, or give --null_score_diff_threshold"
        )
    return float(found[0]), found[1]


def check_thresholds(version, prefixes):
    """Raises UserError for a damaged file with a threshold, which may be read after hours only."""
    if version.has_negatives and FLAGS.null_score_diff_threshold is None:
        for directory in (FLAGS.output_dir, *map(os.path.dirname, prefixes)):
            read_threshold(directory)


def known_threshold(prefixes):
    """The threshold for questions without gold answers; says where it is from.

    Args:
        prefixes: list of str, the checkpoints that predict. Where several models were tuned one by
            one, their thresholds are averaged as their scores are.

    Returns:
        float.
    """
    if FLAGS.null_score_diff_threshold is not None:
        return FLAGS.null_score_diff_threshold
    own = read_threshold(FLAGS.output_dir)
    tuned = [own] if own else [read_threshold(os.path.dirname(prefix)) for prefix in prefixes]
    if None in tuned:
        threshold, source = EVEN_CHANCE, "none was tuned: an even chance"
    else:
        threshold = float(np.mean([value for value, _ in tuned]))
        source = "tuned on " + ", ".join(dict.fromkeys(file for _, file in tuned))
    print(f"null_score_diff_threshold = {threshold} ({source})")
    return threshold


# --- Evaluating and predicting -------------------------------------------------------------------


def evaluate(run, questions, prefix):
    """Evaluates the weights at hand; records and prints the figures, writes the best's answers."""
    predictions = questions.answers([questions.outputs(run)])
    figures = questions.scores(predictions)
    best = run.is_chief and results.record(
        FLAGS.output_dir,
        run.step,
        {"global_step": run.step, **figures},
        prefix,
        KEY_METRIC,
        initial_best=-1,
        block=results_block,
    )
    if best:
        write_answers(predictions, figures.get("null_score_diff_threshold"))
        write_threshold(predictions, figures)
    progress_line.say(
        f"Evaluation at step {run.step}: {shown(figures)}{' (best so far)' if best else ''}"
    )


def results_block(figures, state, saved):
    """Lines of `eval_results.txt`; the original shows the best after this evaluation."""
    best = max(figures[KEY_METRIC], state.best)
    return [*results.sorted_lines(figures), *saved, f"best f1 = {best}", RULE]


def shown(figures):
    """The main figures, for the terminal."""
    names = ("exact_match", "exact", "f1", "null_score_diff_threshold")
    return ", ".join(f"{name} {figures[name]:.4f}" for name in names if name in figures)


def write_answers(predictions, null_threshold):
    """Writes the original's files of answers."""
    named = {
        "predictions.json": predictions.texts(null_threshold),
        "nbest_predictions.json": predictions.nbest,
    }
    if predictions.null_odds is not None:
        named["null_odds.json"] = predictions.null_odds
    for name, values in named.items():
        squad_predictions.write_json(os.path.join(FLAGS.output_dir, name), values)


def predict(questions, runs):
    """Answers the questions, and scores the answers where that can be.

    Args:
        questions: Questions.
        runs: iterable of (Run, prefix of its checkpoint), made and read one after the other.
    """
    threshold = None
    if questions.version.has_negatives and not questions.is_labelled:
        threshold = known_threshold(trained_checkpoints())
    outputs = []
    for run, prefix in runs:
        run.load_weights_and_step(prefix)
        print(f"Predicting with {prefix} (step {run.step})")
        outputs.append(questions.outputs(run))
    predictions = questions.answers(outputs)
    if questions.is_labelled:
        figures = questions.scores(predictions)
        threshold = figures.get("null_score_diff_threshold")
        write_threshold(predictions, figures)
        add_final_results(figures, run.step if len(outputs) == 1 else None)
    write_answers(predictions, threshold)
    print(f"Answered {len(questions.examples)} questions: {FLAGS.output_dir}/predictions.json")


def add_final_results(figures, step):
    """Adds the best checkpoint's figures to `eval_results.txt`; `step` None is an ensemble's."""
    lines = results.sorted_lines(figures)
    if step is not None:
        lines.append(f"best perf happened at step: {step}")
    path = os.path.join(FLAGS.output_dir, results.EVAL_RESULTS)
    files.write_text(path, files.read_text(path) + "\n".join(lines) + "\n")
    print("\n".join(lines))


# --- The run -------------------------------------------------------------------------------------


def start(run, config):
    """Fills the model, its head too if the checkpoint has that; writes flags and config down."""
    source = launch.init_checkpoint() and finetuning.prefer_best(launch.init_checkpoint())
    print(run.initialize(source, allow_random_init=FLAGS.allow_random_init, save=False))
    if run.is_chief:
        inputs = [FLAGS.train_file] + [FLAGS.predict_file] * FLAGS.do_predict
        launch.record_run(FLAGS.output_dir, config, run, inputs)


def train(run, recipe, data, config, on_checkpoint):
    """Makes the training records, or takes those that are there, and trains."""
    path = squad_features.write_training_records(
        feature_file("train_feature_file"),
        squad_features.shuffled(data.train_examples),
        data.tokenizer,
        data.windows,
        [FLAGS.train_file, launch.vocabulary_file()],
        add_key=not FLAGS.train_feature_file,
    )
    schema = record_schema([config], training=True)
    wanted = {name: schema[name] for name in (*data.version.inputs, *LABELS)}
    figures = ("eval_loss",)
    finetuning.train(run, recipe, [path], wanted, FLAGS.max_seq_length, figures, on_checkpoint)


def export(version, config, windows):
    """Writes the best checkpoint as a SavedModel."""
    prefix = trained_checkpoints()[0]
    devices.set_precision("fp32")
    options = {name: FLAGS[flag].value for name, flag in version.options.items()}
    model = version.model(config, **options | version.served_options)
    saved_models.load(model, prefix)
    tokenizer = launch.make_graph_tokenizer()
    settings = squad_functions.AnswerSettings(
        # No window has more starts, ends or pieces in an answer.
        min(FLAGS.n_best_size, FLAGS.max_seq_length),
        min(FLAGS.max_answer_length, FLAGS.max_seq_length),
        known_threshold([prefix]) if version.has_negatives else None,
    )
    texts = text_inputs.Paragraphs(tokenizer, windows)
    functions = squad_functions.SquadFunctions(model, texts, settings)
    launch.export(model, functions, tokenizer, config, folder="saved_model")


def members(run, configs, version, strategy):
    """Yields (run, prefix) of each model to predict with; those of an ensemble one after another.

    Args:
        run: training.Run, or None for an ensemble.
        configs: list of AlbertConfig.
        version: Version.
        strategy: tf.distribute.Strategy.
    """
    for config, prefix in zip(configs, trained_checkpoints(), strict=True):
        yield run or make_run(config, version, strategy, os.path.dirname(prefix)), prefix


def main(_):
    """Reads flags, checks them and the input, then trains, evaluates, predicts and exports."""
    launch.note_obsolete_flags()
    check_flags()
    prefixes = [] if FLAGS.do_train else trained_checkpoints()
    if FLAGS.export_dir and prefixes:
        launch.follow_run(prefixes[0])
    version, configs = choose_version(prefixes), read_configs(prefixes)
    data = read_data(version, configs)
    check_thresholds(version, prefixes)
    recipe = make_recipe(len(data.train_examples)) if FLAGS.do_train else None
    check_outputs()
    strategy = launch.set_up_devices()
    check_batch_sizes(strategy)
    with launch.locked(FLAGS.output_dir, strategy):
        run_all(data, configs, version, strategy, recipe)
    if FLAGS.export_dir and devices.is_chief(strategy):
        export(version, configs[0], data.windows)


def run_all(data, configs, version, strategy, recipe):
    """Trains, evaluates and predicts, as the flags ask for."""
    run, questions, on_checkpoint = None, None, None
    if not FLAGS.ensemble_dirs:
        run = make_run(configs[0], version, strategy, FLAGS.output_dir, recipe)
    if FLAGS.do_train:
        start(run, configs[0])
    if FLAGS.do_predict:
        questions = make_questions(data, configs)
        if run and questions.is_labelled:
            on_checkpoint = functools.partial(evaluate, run, questions)
    if FLAGS.do_train:
        train(run, recipe, data, configs[0], on_checkpoint)
    elif on_checkpoint and finetuning.trained_in(FLAGS.output_dir):
        finetuning.evaluate_checkpoints(run, on_checkpoint, FLAGS.continuous_eval_timeout)
    if questions and devices.is_chief(strategy):
        predict(questions, members(run, configs, version, strategy))


if __name__ == "__main__":
    define_flags()
    launch.run(main)
