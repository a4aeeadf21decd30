# SPDX-License-Identifier: Apache-2.0
"""Options of a training run from settings; for pre-training also masks and vocabulary."""

import contextlib
import math
import os
import sys

from albert_tf import files, models, options, resolve
from albert_tf.checkpoints import run_directory, source
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError, about
from albert_tf.records import feature_cache, graph_masking, record_files
from albert_tf.text import tokenization
from albert_tf.training import evaluation, finetuning, run_record

POINTS = 100  # least number of points of a curve if the interval is not given
HIGH_RATE = 0.1  # of a learning rate, far above those of any optimizer here
_BATCHES_PER_BUCKET = 10  # in a shuffle window, so that few batches mix lengths


def options_of(kind, model, tokenizer, *, train_steps, warmup_steps, **others):
    """Makes the options of a run, with the content of run.json if it trains.

    Args:
        kind: class, options.FineTuning or options.Pretraining.
        model: model_flags.Model.
        tokenizer: FullTokenizer; None if unknown.
        train_steps: int, updates to train for, or the step that ends a wait for checkpoints.
        warmup_steps: int.
        **others: further values, or replacements for settings.
    """
    settings = model.settings
    values = {"train_steps": train_steps, "warmup_steps": warmup_steps}
    if settings.origin("iterations_per_loop") == resolve.DEFAULT:
        interval = min(max(train_steps // POINTS, 1), settings.iterations_per_loop)
        values["iterations_per_loop"] = interval
    if settings.do_train and _evaluates_by_epoch(settings):
        interval = math.ceil(train_steps / settings.num_train_epochs)
        values["save_checkpoints_steps"] = interval
        print(f"A checkpoint is written after each epoch, every {interval} updates.")
    if settings.do_train:
        values["record"] = record = _record(settings, model, tokenizer)
        if model.resumes:
            step = run_directory.step_of(model.source.checkpoint)
            run_record.check_done(model.source, step, train_steps, settings, record)
        if settings.learning_rate > HIGH_RATE:
            print(f"Warning: --learning_rate={settings.learning_rate} is far above the usual 1e-2.")
        if warmup_steps >= train_steps:
            print(
                f"Warning: training ends after {train_steps} updates, within the warm-up of "
                f"{warmup_steps}: --learning_rate is never reached."
            )
    return settings.values_of(kind, **values | others)


def _evaluates_by_epoch(settings):
    """Whether epochs are given, and no interval of checkpoints with them or later (bool)."""
    if not settings.get("num_train_epochs"):
        return False
    epochs, interval = map(settings.origin, ("num_train_epochs", "save_checkpoints_steps"))
    if epochs == resolve.TYPED:
        return interval != resolve.TYPED
    return epochs == resolve.RECORD and interval == resolve.DEFAULT


def _record(settings, model, tokenizer):
    """Makes the RunSettings of a command with a model and a tokenizer, which may be None."""
    flags, before = settings.effective(), model.resumes and model.source.settings
    if before:  # what nobody typed, neither now nor before, is no change
        kept = before.flags.keys() | settings.typed()
        flags = {name: value for name, value in flags.items() if name in kept}
    if settings.origin("iterations_per_loop") == resolve.DEFAULT:  # another interval is taken
        flags.pop("iterations_per_loop", None)
    if _evaluates_by_epoch(settings):
        flags.pop("save_checkpoints_steps", None)
    text = {name: settings.get(name) for name in run_directory.TEXT_FLAGS if name in settings}
    given = {name: settings.get(name) for name in run_directory.VOCABULARY_FLAGS}
    if tokenizer:
        text, given = text | tokenizer.casing, tokenizer.arguments
    name, vocabulary = next(filter(given.get, run_directory.VOCABULARY_FLAGS), None), None
    if name:
        path = files.absolute_path(given[name])
        vocabulary = run_directory.Vocabulary(name, path, files.sha256(path))
    return run_directory.RunSettings(
        flags=flags, config=model.config.to_dict(), text=text, vocabulary=vocabulary
    )


def check_directory(settings):
    """Raises UserError if a training in --output_dir would mix with another model."""
    output_dir = settings.output_dir
    if output_dir.rstrip("/") in models.paths():
        raise UserError(f"--output_dir={output_dir} is a packaged model: give output/{output_dir}")
    folder, found = run_directory.RunDirectory(output_dir), None
    count, seed = settings.get("num_trials") or 1, settings.get("seed") or 0
    if count > 1:  # each has its own directory
        is_other = folder.best and not files.read_text(folder.file(finetuning.TRIALS))
        ours = {f"trial-{n}" for n in range(seed, seed + count)}
        there = map(os.path.basename, files.matches_in(output_dir.rstrip("/"), "trial-*"))
        others = sorted({*there} - ours)
        if folder.latest or is_other:
            found = "a training without --num_trials"
        elif others:
            found = f"trials of other seeds too, such as {others[0]}"
    elif settings.do_train and not folder.latest and (folder.best or folder.results):
        what = "results" if folder.results else "weights"
        found = f"{what}, but no checkpoint to resume from"
    if found:
        raise UserError(f"--output_dir={output_dir} holds {found}: give another directory")
    if any(settings.get(name) for name in options.WORK.split("|")):  # an export writes elsewhere
        files.check_writable(output_dir, "output_dir")


def length_buckets(settings):
    """Lengths to which batches are cut: ascending tuple that ends in --max_seq_length; or None.

    Args:
        settings: resolve.Resolved.

    Raises:
        UserError: --length_buckets has other texts than numbers, or records are not shuffled.
    """
    lengths, longest = settings.length_buckets, settings.max_seq_length
    if not lengths:
        return None
    if not all(part.isdecimal() for part in lengths):
        raise UserError(
            f"{resolve.as_flag('length_buckets', lengths)}: give whole numbers with commas between"
        )
    bounds = (*sorted({n for n in map(int, lengths) if 0 < n < longest}), longest)
    wanted = _BATCHES_PER_BUCKET * len(bounds) * settings.train_batch_size
    if settings.shuffle_buffer_size == 1:
        raise UserError(f"--length_buckets needs --shuffle_buffer_size={wanted} or so, and not 1")
    if settings.shuffle_buffer_size < wanted:
        print(
            f"Warning: --shuffle_buffer_size={settings.shuffle_buffer_size} is small: for "
            f"--length_buckets, {wanted} or more is better."
        )
    return bounds


# --- Pre-training --------------------------------------------------------------------------------


def masking(model, made_by):
    """Makes a graph_masking.Masking; None without --masked_lm_budget.

    Args:
        model: model_flags.Model, whose vocabulary must be large enough for the records.
        made_by: FullTokenizer that made the records; None if unknown.

    Raises:
        UserError: the vocabulary is too large for the model, or has no [MASK].
    """
    settings = model.settings
    budget = settings.masked_lm_budget
    if not budget:
        return None
    if not made_by:
        flag_groups.need_vocabulary(settings, resolve.as_flag("masked_lm_budget", budget))
    tokenizer = made_by or tokenization.FullTokenizer(
        vocab_file=settings.vocab_file, spm_model_file=settings.spm_model_file
    )
    model.config.check_vocabulary(tokenizer)
    wanted = round(budget * settings.max_seq_length)
    if wanted > settings.max_predictions_per_seq:
        most = settings.max_predictions_per_seq
        print(
            f"--max_predictions_per_seq={most} allows fewer masks than "
            f"--masked_lm_budget={budget}: give {wanted} for all of them."
        )
    return graph_masking.Masking(
        settings.values_of(options.Instances, masked_lm_prob=budget),
        tokenizer.special_ids(with_mask=True),  # raises if the vocabulary has none
        tokenizer.vocab_size,
    )


def tokenizer_of_records(paths, typed):
    """The FullTokenizer that made record files; None if unknown, gone or changed.

    A vocabulary that is typed takes the place of the one in the summary, which may be gone.

    Args:
        paths: list of str.
        typed: dict of name in VOCABULARY_FLAGS -> path.

    Raises:
        UserError: two files were made with different vocabularies or casing, or another
            vocabulary is typed.
    """
    made = {}  # fingerprint -> (the first file, arguments)
    for path, (arguments, fingerprint) in record_files.tokenizers_of(paths).items():
        made.setdefault(fingerprint, (path, arguments))
    if len(made) > 1:
        (first, ours), (other, theirs), *_ = made.values()
        raise UserError(
            f"{first} was made with {_shown(ours)}, and {other} with {_shown(theirs)}: make the "
            "records with one vocabulary and one casing"
        )
    given = {name: value for name, value in typed.items() if value}
    replaced = dict.fromkeys(run_directory.VOCABULARY_FLAGS) | given if given else {}
    for fingerprint, (path, arguments) in made.items():
        with contextlib.suppress(UserError, TypeError):  # vocabulary gone, or summary damaged
            tokenizer = tokenization.FullTokenizer(**arguments | replaced)
            if tokenizer.fingerprint == fingerprint:
                return tokenizer
        if given:
            raise UserError(
                f"{', '.join(given.values())} is not the vocabulary of {path}, which was made with "
                f"{_shown(arguments)}"
            )
    return None


def _shown(arguments):
    return " ".join(resolve.as_flag(*item) for item in arguments.items() if item[1] is not None)


def check_records(model, tokenizer):
    """Raises UserError if the weights have another vocabulary or casing than the records.

    Args:
        model: model_flags.Model.
        tokenizer: FullTokenizer of the records; None if unknown.
    """
    settings, found = model.settings, model.source
    if not (tokenizer and found):
        return
    made = tokenizer.casing | {source.vocabulary_flag(tokenizer.path): tokenizer.path}
    wrong = resolve.contradictions(made, settings.facts, key=source.key)
    if wrong and not settings.allow_changes_on_resume:
        raise UserError(
            f"--input_file: {'; '.join(wrong)}: make the records with the vocabulary and casing of "
            f"the model; {resolve.TO_GO_ON}"
        )


# --- Fine-tuning ---------------------------------------------------------------------------------


def fine_tune(data, models, *, record_flags, do_eval, **values):
    """Trains, evaluates, predicts and exports as the settings say.

    Args:
        data: tasks.base.DataSet.
        models: list of model_flags.Model, which are evaluated or predict together; a training has
            one.
        record_flags: dict of split -> name of the flag for the file of its records.
        do_eval: bool, whether to evaluate.
        **values: values that are not flags, and replacements for settings, as in `options_of`; by
            default the number of updates is that of --train_step or --num_train_epochs.

    Raises:
        UserError: the model was trained for other labels, or an output cannot be written.
    """
    model, kind = models[0], data.task.kind
    settings = model.settings
    if kind:
        wrong = resolve.contradictions({"labels": kind.labels}, settings.facts)
        if wrong and settings.facts["labels"].origin == resolve.SOURCE:
            raise UserError(
                f"{wrong[0]}: if they mean the same in the same order, write the labels of the "
                "task into id2label of this file"
            )
        if wrong:
            raise UserError(f"{wrong[0]}: give these labels, or another --output_dir")
    if settings.best_metric and do_eval:
        evaluation.check_metric(settings.best_metric, data.metric_names())
    _check_outputs(data, settings, record_flags)
    values["length_buckets"] = length_buckets(settings)  # before features are made
    if settings.distribution_strategy == "multi_worker_mirrored":
        raise UserError(
            "--distribution_strategy=multi_worker_mirrored is only for run_pretraining.py: give "
            "mirrored, or leave it out"
        )
    strategy = launch.set_up_devices(settings)
    if "train_steps" not in values:
        values["train_steps"] = _train_steps(data, settings)
        values["warmup_steps"] = settings.warmup_step
    if settings.origin("init_checkpoint") == resolve.TYPED and model.source:
        values["init_checkpoint"] = model.source.checkpoint
    elif settings.do_train:
        values["init_checkpoint"] = settings.init_checkpoint or settings.albert_hub_module_handle
    if not do_eval:  # another process may evaluate later, and until then all checkpoints stay
        values["keep_checkpoint_max"] = None
    if settings.ensemble_dirs:
        values["ensemble"] = tuple((each.config, each.source.checkpoint) for each in models)
    tokenizer = data.task.text.tokenizer
    made = options_of(options.FineTuning, model, tokenizer, do_eval=do_eval, **values)
    if settings.do_train and do_eval and made.save_checkpoints_steps >= made.train_steps:
        print(
            "Warning: the training has only one evaluation, at its end; "
            f"--save_checkpoints_steps={max(made.train_steps // 5, 1)} makes five."
        )
    finetuning.fine_tune(data, model.config, made, strategy)


def _check_outputs(data, settings, record_flags):
    """Raises UserError if a directory or a file of records cannot be written."""
    check_directory(settings)
    for name, row in settings.rows.items():
        if row.columns["path"] == "output" and name.endswith("_dir") and settings.get(name):
            files.check_writable(settings.get(name), name)
    for split, flag in record_flags.items():
        files.check_file_writable(data.record_file(split), flag)
        with about(f"--{flag}"):
            feature_cache.check_replaceable(data.record_file(split))


def _train_steps(data, settings):
    """Number of updates according to --train_step or --num_train_epochs."""
    if settings.num_train_epochs is None:
        return settings.train_step
    if not settings.do_train:
        return sys.maxsize  # only the timeout ends a wait for checkpoints
    count = sum(file.count for file in record_files.read_index(data.training_records.paths))
    return finetuning.steps_of_epochs(count, settings.train_batch_size, settings.num_train_epochs)
