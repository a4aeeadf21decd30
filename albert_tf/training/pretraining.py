# SPDX-License-Identifier: Apache-2.0
"""Pre-training: masked words and sentence order, from record files (paper, section 3)."""

import functools
from typing import NamedTuple

import numpy as np
import scipy

from albert_tf import progress
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import RunDirectory
from albert_tf.errors import UserError
from albert_tf.model import flops, heads, objectives
from albert_tf.records import graph_masking, input_pipeline, record_files, schemas
from albert_tf.training import devices, evaluation, runs
from albert_tf.training.splits_and_results import Evaluation

KEY_METRIC = "masked_lm_accuracy"
# How many records are read before the training. Of each file: a record in which no word fits into
# the budget of masks is rare. Of all files: these records show how frequent tokens are.
_OF_FILE, _OF_ALL = 16, 1000
# The loss should be below the plateau after this share of the steps, but at least this many.
_PLATEAU_SHARE, _PLATEAU_STEPS = 0.2, 500
_PLATEAU_WIDTH = 0.05  # nats, by which the loss on the plateau may be below its estimate


def pretrain(config, options, strategy):
    """Trains and evaluates, as the options ask for.

    Args:
        config: AlbertConfig.
        options: options.Pretraining.
        strategy: tf.distribute.Strategy.

    Raises:
        UserError: a file, checkpoint or record does not fit, or the training diverges.
    """
    runs.check_batches(options, strategy)
    with runs.locked(options, strategy):
        _train_and_evaluate(config, runs.seeded(options, strategy), strategy)


class _Source(NamedTuple):
    """Record files, and how they are read.

    Attributes:
        files: list of str.
        schema: dict from feature name to `FeatureSpec`.
        masking: graph_masking.Masking, or None if the records are masked.
        entropy: float, of the tokens to predict, in nats.
    """

    files: list
    schema: dict
    masking: graph_masking.Masking | None
    entropy: float


def _train_and_evaluate(config, options, strategy):
    source, eval_source = _find_inputs(config, options)
    objective = objectives.PRETRAINING
    if not all(schemas.ORDER_LABEL in some.schema for some in (source, eval_source)):
        objective = objectives.MASKED_LM
        for some in (source, eval_source):
            some.schema.pop(schemas.ORDER_LABEL, None)
    loss = functools.partial(
        objectives.pretraining_loss, sentence_loss_weight=options.sentence_loss_weight
    )
    run = runs.make_run(
        strategy,
        heads.PretrainingModel,
        config,
        objective._replace(loss=loss),
        options,
        trains=options.do_train,
    )
    if not options.length_buckets:  # the operations of batches of several lengths are not known
        length, predictions = options.max_seq_length, options.max_predictions_per_seq
        run.metrics.flops = flops.training_flops(config, 1, length, predictions)
    evaluator = _make_evaluator(run, eval_source) if options.do_eval else None
    naming = record_files.naming_bad_records
    with naming(source.files, source.schema), naming(eval_source.files, eval_source.schema):
        if options.do_train:
            _train(run, source, evaluator)
        else:
            evaluator.evaluate_directory(
                options.continuous_eval_timeout, options.init_checkpoint, newest_only=True
            )


def find_files(options):
    """The files to train on, and those to evaluate on: a list with one or two lists of str.

    Args:
        options: options.Pretraining or resolve.Resolved.
    """
    held_out = "eval_input_file" if options.eval_input_file else "input_file"
    names = ["input_file"] * options.do_train + [held_out] * options.do_eval
    return [record_files.expand_patterns(getattr(options, name), name) for name in names]


def _find_inputs(config, options):
    """Finds and checks the files: (_Source to train on, _Source to evaluate on)."""
    found = find_files(options)
    paths, eval_paths = found[0], found[-1]
    before = RunDirectory(options.output_dir).settings
    trained_on = [*before.input_files] if before else []
    if options.do_eval and {*eval_paths} & {*trained_on, *(paths if options.do_train else ())}:
        print("Evaluating on files of the training: give held-out ones as --eval_input_file.")
    record_files.say_shards([*paths, *eval_paths])
    source = _source_of(config, options, paths, may_be_masked=not options.do_train)
    if eval_paths == paths:
        return source, source
    return source, _source_of(config, options, eval_paths, may_be_masked=True)


def _source_of(config, options, paths, *, may_be_masked):
    """The _Source of some files.

    Args:
        config: AlbertConfig.
        options: options.Pretraining.
        paths: list of str.
        may_be_masked: bool, whether records that have masks keep them, instead of those of
            `options.masking`. This is so in an evaluation, whose files have not been counted
            before, so that the lengths of their records are checked here.
    """
    if may_be_masked:
        record_files.check_lengths(paths)
    schema = schemas.pretraining_schema(
        options.max_seq_length,
        options.max_predictions_per_seq,
        vocab_size=config.vocab_size,
        type_vocab_size=config.type_vocab_size,
    )
    first, masked, pieces = {}, [], []
    for path in paths:  # each is opened once
        records = record_files.first_records(path, max(_OF_FILE, _OF_ALL // len(paths)))
        if not first:
            schema = schemas.as_stored(schema, records[0])
        first[path] = records[0]
        masked += [path] * any(map(_is_masked, records))
        ids_name = schemas.stored_name(schema, "input_ids")
        pieces += (_pieces_to_predict(record, ids_name) for record in records)
    boundary = {"token_boundary": schema.pop("token_boundary")}  # the model does not read it
    order = {schemas.ORDER_LABEL: schema.pop(schemas.ORDER_LABEL)}
    unmasked = {name: schema[name] for name in schema if not name.startswith("masked_lm_")}
    has_order = all(schemas.ORDER_LABEL in record for record in first.values())
    if has_order or options.sentence_loss_weight:
        schema, unmasked = schema | order, unmasked | order
    record_files.check_first(first, unmasked)
    masking = None if may_be_masked and masked == paths else options.masking
    _check_masks(paths, masked, masking)
    if masking:
        schema = unmasked | (boundary if masking.settings.do_whole_word_mask else {})
        found = first[paths[0]][ids_name].int64_list.value[0]
        if found != masking.special_ids.cls:
            raise UserError(
                f"record 1 of {paths[0]} begins with the id {found}, and [CLS] of --spm_model_file "
                f"or --vocab_file has {masking.special_ids.cls}: give the vocabulary of the records"
            )
    record_files.check_first(first, schema)
    _, counts = np.unique(np.concatenate(pieces), return_counts=True)
    return _Source(paths, schema, masking, scipy.special.entr(counts / counts.sum()).sum())


def _check_masks(paths, masked, masking):
    """Raises UserError if records lack masks that nothing makes, or have masks beside those made.

    Args:
        paths: list of str, the record files.
        masked: list of str, those of them that have masks.
        masking: graph_masking.Masking, or None if no masks are made.
    """
    if masking is None and masked != paths:
        path = next(path for path in paths if path not in masked)
        raise UserError(
            f"{path} has no masks (--masked_lm_prob=0): give --masked_lm_budget, such as 0.15"
        )
    if masking and masked:
        raise UserError(
            f"{masked[0]} has masks: leave out --masked_lm_budget={masking.settings.masked_lm_prob}"
            ", or make records with --masked_lm_prob=0"
        )


def _is_masked(features):
    """Whether a record has tokens to predict."""
    name = "masked_lm_weights"
    return name in features and any(features[name].float_list.value)


def _pieces_to_predict(features, ids_name="input_ids"):
    """Ids that are masked in a record, or that can be: int array. The record may be damaged.

    Args:
        features: as in tf.train.Features.
        ids_name: str, name of the feature of the ids.
    """
    if _is_masked(features):
        labels = features["masked_lm_ids"].int64_list.value
        weights = features["masked_lm_weights"].float_list.value
        pairs = zip(labels, weights, strict=False)
        return np.array([piece for piece, weight in pairs if weight], int)
    ids = np.trim_zeros(np.array(features[ids_name].int64_list.value, int), "b")[1:]
    return ids[ids != ids[-1:]]  # without [CLS] and [SEP]


class PlateauNotice:
    """Says so, once, if a training still knows only how frequent each token is.

    Pre-trainings begin with such a plateau. It is one of the writers of `metrics.Metrics`.

    Args:
        entropy: float, of the tokens to predict, in nats: the loss on the plateau.
        train_steps: int, steps of the whole training.
    """

    def __init__(self, entropy, train_steps):
        self._entropy, self._steps = entropy, train_steps
        self._first = max(_PLATEAU_SHARE * train_steps, _PLATEAU_STEPS)
        self._last = -1  # step of the previous metrics

    def write(self, kind, step, metrics):
        """Looks at the first metrics that are means over steps after a share of the training."""
        if kind != "train":
            return
        begin, self._last = self._last, step
        if begin < self._first:
            return
        loss, self._first = metrics["masked_lm_loss"], np.inf
        if loss > self._entropy - _PLATEAU_WIDTH:
            progress.say(
                f"Warning: the masked-LM loss is still {loss:.2f} after {step} of {self._steps} "
                f"steps. A model that only knows how frequent each token is has "
                f"{self._entropy:.2f}. If this lasts, start again with a third of --learning_rate, "
                "or a longer warm-up"
            )


def _train(run, source, evaluator):
    options = run.settings
    runs.start(
        run,
        source.files,
        init_checkpoint=options.init_checkpoint,
        init_from_group0=options.init_from_group0,
    )
    if run.is_chief:
        run.metrics.writers.append(PlateauNotice(source.entropy, options.train_steps))
    runs.train(run, source.files, source.schema, evaluator, masking=source.masking)
    latest = run_directory.latest_in(options.output_dir)
    print(f"Trained to step {run.step}" + (f"; checkpoint {latest}" if run.is_chief else ""))


def _make_evaluator(run, source):
    """evaluation.Evaluator of a run on records."""
    options = run.settings
    most = options.max_eval_steps * options.eval_batch_size
    dataset = input_pipeline.eval_dataset(
        source.files,
        source.schema,
        options.eval_batch_size,
        drop_remainder=devices.is_tpu(run.strategy),
        masking=source.masking,
    )

    def evaluate():
        metrics = run.evaluate(dataset, options.max_eval_steps)
        order_loss = options.sentence_loss_weight * metrics.get("sentence_order_loss", 0.0)
        return Evaluation(metrics, weighted={"loss": metrics["masked_lm_loss"] + order_loss})

    return evaluation.Evaluator(
        run,
        evaluate,
        KEY_METRIC,
        "{first}{saved}{rest}",  # of the original
        evaluation.evaluated_on(
            source.files,
            masking=source.masking and source.masking.described,
            rows=record_files.count_up_to(most, source.files),
        ),
        shown=("loss", *run.objective.metrics),
        initial_best=0.0,
    )
