# SPDX-License-Identifier: Apache-2.0
"""Options of a training run from settings; for pre-training also masks and vocabulary."""

import contextlib
import math
import os
import sys
from typing import NamedTuple

from albert_tf import files, models, options, resolve
from albert_tf.checkpoints import run_directory
from albert_tf.cli import launch
from albert_tf.errors import UserError, about
from albert_tf.records import feature_cache, graph_masking, record_files
from albert_tf.text import tokenization
from albert_tf.training import evaluation, finetuning, run_record

POINTS = 100  # least number of points of a curve if the interval is not given
HIGH_RATE = 0.1  # of a learning rate, far above those of any optimizer here
_BATCHES_PER_BUCKET = 10  # in a shuffle window, so that few batches mix lengths


class MadeWith(NamedTuple):
    """What records or features are made with, as far as it is known.

    Attributes:
        tokenizer: FullTokenizer; None if its vocabulary is gone or another file now.
        casing: dict of name in CASING -> bool.
        vocabulary: run_directory.Vocabulary.
        lost: str, a sentence on a vocabulary that is gone or another file now.
    """

    tokenizer: tokenization.FullTokenizer | None
    casing: dict
    vocabulary: run_directory.Vocabulary | None
    lost: str = ""

    @classmethod
    def of(cls, tokenizer):
        """The MadeWith of a FullTokenizer."""
        name = "spm_model_file" if tokenizer.is_sentencepiece else "vocab_file"
        path = tokenizer.arguments[name]
        vocabulary = run_directory.Vocabulary(name, path, files.sha256(path))
        return cls(tokenizer, tokenizer.casing, vocabulary)


def options_of(kind, model, made, *, train_steps, warmup_steps, **others):
    """Makes the options of a run, with the content of run.json if it trains.

    Args:
        kind: class, options.FineTuning or options.Pretraining.
        model: model_flags.Model.
        made: MadeWith.
        train_steps: int, steps to train for, or the step that ends a wait for checkpoints.
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
        print(f"A checkpoint is written after each epoch, every {interval} steps.")
    if settings.do_train:
        values["record"] = record = _record(settings, model, made)
        if model.resumes:
            step = run_directory.step_of(model.source.checkpoint)
            run_record.check_done(model.source, step, train_steps, settings, record)
        if settings.learning_rate > HIGH_RATE:
            print(f"Warning: --learning_rate={settings.learning_rate} is far above the usual 1e-2.")
        if warmup_steps >= train_steps:
            print(
                f"Warning: training ends after {train_steps} steps, within the warm-up of "
                f"{warmup_steps}: --learning_rate is never reached."
            )
    return settings.values_of(kind, **values | others)


def _evaluates_by_epoch(settings):
    """Whether epochs are given, and no interval of checkpoints with them or later (bool)."""
    if not settings.get("num_train_epochs"):
        return False
    names, order = ("num_train_epochs", "save_checkpoints_steps"), resolve.ORIGINS
    epochs, interval = (order.index(settings.origin(name)) for name in names)
    return epochs > interval


def _record(settings, model, made):
    """Makes the RunSettings of a command with a model and a MadeWith."""
    flags, before = settings.effective(), model.resumes and model.source.settings
    if before:  # what nobody typed, neither now nor before, is no change
        kept = before.flags.keys() | settings.typed()
        flags = {name: value for name, value in flags.items() if name in kept}
    if settings.origin("iterations_per_loop") == resolve.DEFAULT:  # another interval is taken
        flags.pop("iterations_per_loop", None)
    if _evaluates_by_epoch(settings):
        flags.pop("save_checkpoints_steps", None)
    text = {name: settings.get(name) for name in run_directory.TEXT_FLAGS if name in settings}
    text, config, vocabulary = text | made.casing, model.config.to_dict(), made.vocabulary
    return run_directory.RunSettings(flags=flags, config=config, text=text, vocabulary=vocabulary)


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


def masking(model, made):
    """Makes a graph_masking.Masking; None without --masked_lm_budget.

    Args:
        model: model_flags.Model, whose vocabulary must be large enough for the records.
        made: MadeWith, of the records.

    Raises:
        UserError: the vocabulary is too large for the model, or has no [MASK].
    """
    settings = model.settings
    budget = settings.masked_lm_budget
    if not budget:
        return None
    if not (tokenizer := made.tokenizer):
        lost = f", and {made.lost}" if made.lost else ": give --spm_model_file or --vocab_file"
        raise UserError(f"--masked_lm_budget={budget} needs a vocabulary{lost}")
    model.config.check_vocabulary(tokenizer)
    wanted = settings.values_of(options.Instances, masked_lm_prob=budget)
    graph_masking.say_limit(wanted, "masked_lm_budget")
    special_ids = tokenizer.special_ids(with_mask=True)  # raises if the vocabulary has none
    return graph_masking.Masking(wanted, special_ids, tokenizer.vocab_size)


def made_with(paths, settings):
    """The MadeWith of record files, from their summaries.

    A vocabulary in the settings takes the place of the one in the summary, which may be gone.

    Args:
        paths: list of str.
        settings: resolve.Resolved.

    Raises:
        UserError: two files were made with different vocabularies or casing, or another
            vocabulary is typed.
    """
    path, summary = _common_summary(paths, bool(settings.get("sentence_loss_weight")))
    names = run_directory.VOCABULARY_FLAGS
    typed = {name: path for name, path in settings.typed(*names).items() if path}
    given = typed or {name: settings.get(name) for name in names if settings.get(name)}
    if not summary:
        tokenizer = tokenization.FullTokenizer(**given) if given else None
        return MadeWith.of(tokenizer)._replace(casing={}) if given else MadeWith(None, {}, None)
    arguments, sha256 = summary["tokenizer"], summary.get("vocabulary_sha256")
    candidates = [arguments | dict.fromkeys(names) | given] if given else []
    for candidate in candidates if typed else [*candidates, arguments]:
        with contextlib.suppress(UserError, TypeError):  # vocabulary gone, or summary damaged
            tokenizer = tokenization.FullTokenizer(**candidate)
            if tokenizer.fingerprint == summary["vocabulary"]:
                return MadeWith.of(tokenizer)
    name = next(filter(arguments.get, names), names[0])
    file = str(arguments.get(name))
    if typed:
        other = next(iter(typed.values()))
        raise UserError(
            f"{other} is not the vocabulary of {path}, which was made with {file} "
            + resolve.hashes(sha256, files.sha256(other))
        )
    lost = (
        f"{path} was made with {file}, which {run_directory.change_of(file, sha256)}: give a copy "
        f"of the old file as --{name}, or make the records again"
    )
    vocabulary = sha256 and run_directory.Vocabulary(name, file, sha256)
    casing = {name: arguments[name] for name in run_directory.CASING if name in arguments}
    return MadeWith(None, casing, vocabulary, lost)


def _common_summary(paths, labels_matter):
    """The first record file with a summary, and this; (None, None) if no file has one.

    Args:
        paths: list of str.
        labels_matter: bool, whether the labels of sentence pairs are trained.

    Raises:
        UserError: another file was made with another vocabulary or casing, or for another task.
    """
    made = {}
    for path, summary in record_files.summaries_of(paths).items():
        recorded = summary["settings"]
        pairs = "next" if recorded.get("random_next_sentence") else recorded.get("sentence_pairs")
        of_task = {"sentence_pairs": pairs, "do_permutation": recorded.get("do_permutation")}
        kind = summary["vocabulary"], labels_matter and pairs == "next", of_task["do_permutation"]
        made.setdefault(kind, (path, summary, summary["tokenizer"] | of_task))
    if len(made) > 1:
        (first, _, ours), (other, _, theirs), *_ = made.values()
        raise UserError(
            f"{first} was made with {_shown(ours)}, and {other} with {_shown(theirs)}: make the "
            "records with one vocabulary and casing, for one task, or give --sentence_loss_weight=0"
        )
    return next(((path, summary) for path, summary, _ in made.values()), (None, None))


def _shown(given):
    return " ".join(resolve.as_flag(*item) for item in given.items() if item[1] is not None)


def check_records(model, made):
    """Raises UserError if the weights have another vocabulary or casing than the records.

    Args:
        model: model_flags.Model.
        made: MadeWith, of the records.
    """
    settings, vocabulary = model.settings, made.vocabulary
    if made.lost and settings.do_train and not settings.masked_lm_budget:
        print(f"Warning: {made.lost}.")
    values = made.casing | ({vocabulary.flag: vocabulary.path} if vocabulary else {})
    wrong = resolve.contradictions(
        values, settings.facts, key=lambda n, v: v if n in made.casing else vocabulary.sha256
    )
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
            default the number of steps is that of --train_step or --num_train_epochs.

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
    text = MadeWith.of(data.task.text.tokenizer)
    made = options_of(options.FineTuning, model, text, do_eval=do_eval, **values)
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
    """Number of steps according to --train_step or --num_train_epochs."""
    if settings.num_train_epochs is None:
        return settings.train_step
    if not settings.do_train:
        return sys.maxsize  # only the timeout ends a wait for checkpoints
    count = sum(file.count for file in record_files.read_index(data.training_records.paths))
    return finetuning.steps_of_epochs(count, settings.train_batch_size, settings.num_train_epochs)
