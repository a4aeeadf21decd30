# SPDX-License-Identifier: Apache-2.0
"""Settings of a training run from flags; for pre-training also masks and vocabulary."""

import contextlib
import itertools
import os
import sys

from absl import flags

from albert_tf import files, models, options
from albert_tf.api import minimal_pairs
from albert_tf.checkpoints import run_directory, source
from albert_tf.cli import flag_groups, launch
from albert_tf.errors import UserError
from albert_tf.records import graph_masking, record_files
from albert_tf.text import tokenization
from albert_tf.training import finetuning

FLAGS = flags.FLAGS
POINTS = 100  # least number of points of a curve if the interval is not given
_BATCHES_PER_BUCKET = 10  # in a shuffle window, so that few batches mix lengths


def settings_of(kind, config, tokenizer, *, train_steps, warmup_steps, **others):
    """Makes the settings of a run from the flags, with the content of run.json if it trains.

    Args:
        kind: class, options.FineTuning or options.Pretraining.
        config: AlbertConfig.
        tokenizer: FullTokenizer; None if unknown.
        train_steps: int, updates to train for, or the step that ends a wait for checkpoints.
        warmup_steps: int.
        **others: further values, or replacements for values of flags.
    """
    values = {"train_steps": train_steps, "warmup_steps": warmup_steps} | others
    if FLAGS.steps_per_loop is None and FLAGS["iterations_per_loop"].using_default_value:
        interval = min(max(train_steps // POINTS, 1), FLAGS.iterations_per_loop)
        values["steps_per_loop"] = interval
    if FLAGS.do_train:
        values["record"] = _record(config, tokenizer)
        if warmup_steps >= train_steps:
            print(
                f"Warning: the warm-up of {warmup_steps} updates does not end before the training, "
                f"of {train_steps}: --learning_rate is never reached."
            )
    return flag_groups.values_of(kind, **values)


def _record(config, tokenizer):
    """Makes the RunSettings of the flags, a config and a tokenizer, which may be None."""
    own = sorted(flag_groups.own_flags(), key=lambda flag: flag.name)
    own = [flag for flag in own if flag.subject != options.NO_EFFECT and flag.value is not None]
    given = {flag.name: flag.value for flag in own if flag.value == flag.value}  # JSON has no nan
    # Without flags whose defaults do nothing in this run: a script may refuse them if typed.
    idle = [flag.name for flag in flag_groups.idle_flags()]
    idle += ["train_step"] * ("num_train_epochs" in given)
    if FLAGS["iterations_per_loop"].using_default_value:  # `settings_of` takes another interval
        idle.append("iterations_per_loop")
    for name in idle:
        given.pop(name, None)
    text = {name: FLAGS[name].value for name in run_directory.TEXT_FLAGS if name in FLAGS}
    vocabulary, path = None, FLAGS.spm_model_file or FLAGS.vocab_file
    is_sentencepiece = bool(FLAGS.spm_model_file)
    if tokenizer:
        text |= tokenizer.casing
        path, is_sentencepiece = tokenizer.path, tokenizer.is_sentencepiece
    if path:
        path = path if "://" in path else os.path.abspath(path)
        flag = "spm_model_file" if is_sentencepiece else "vocab_file"
        vocabulary = run_directory.Vocabulary(flag, path, run_directory.sha256(path))
    return run_directory.RunSettings(
        flags=given, config=config.to_dict(), text=text, vocabulary=vocabulary
    )


def check_directory():
    """Raises UserError if a training in --output_dir would mix with another model."""
    if FLAGS.output_dir.rstrip("/") in models.paths():
        raise UserError(
            f"--output_dir={FLAGS.output_dir} is the name of a packaged model, and later commands "
            f"could mean either: give another directory, such as output/{FLAGS.output_dir}"
        )
    folder = run_directory.RunDirectory(FLAGS.output_dir)
    has_trials = "num_trials" in FLAGS and FLAGS.num_trials > 1  # each has its own directory
    if FLAGS.do_train and not has_trials and not folder.latest and (folder.best or folder.results):
        raise UserError(
            f"--output_dir={FLAGS.output_dir} holds the results of a training or evaluation, but "
            "no checkpoint to resume from: give another directory, or delete this one"
        )
    trials = folder.file(finetuning.TRIALS)
    if has_trials and (folder.latest or (folder.best and not files.read_text(trials))):
        raise UserError(
            f"--output_dir={FLAGS.output_dir} holds a training without --num_trials, and the best "
            "trial would take the place of its best checkpoint: give another directory"
        )


def read_length_buckets():
    """Lengths to which batches are cut: tuple of int that ends in --max_seq_length; or None.

    A resumed training without the flag takes the lengths of its record.

    Raises:
        UserError: --length_buckets is invalid.
    """
    if FLAGS.do_train and FLAGS.length_buckets is None:
        resumed = run_directory.RunDirectory(FLAGS.output_dir).resumed
        FLAGS.length_buckets = resumed and resumed.flags.get("length_buckets")
    if not FLAGS.length_buckets:
        return None
    given = ",".join(FLAGS.length_buckets)
    if not all(part.isdecimal() for part in FLAGS.length_buckets):
        raise UserError(f"--length_buckets={given} must be whole numbers with commas between")
    bounds = (*map(int, FLAGS.length_buckets), FLAGS.max_seq_length)
    if bounds[-2] == bounds[-1]:
        bounds = bounds[:-1]
    if bounds[0] < 1 or any(low >= high for low, high in itertools.pairwise(bounds)):
        raise UserError(
            f"--length_buckets={given} must be ascending, above 0 and at most --max_seq_length="
            f"{FLAGS.max_seq_length}"
        )
    wanted = _BATCHES_PER_BUCKET * len(bounds) * FLAGS.train_batch_size
    if FLAGS.shuffle_buffer_size == 1:
        raise UserError(
            "--length_buckets groups the records that are shuffled together: give a larger "
            f"--shuffle_buffer_size than 1, such as {wanted}"
        )
    if FLAGS.shuffle_buffer_size < wanted:
        print(
            f"Warning: --shuffle_buffer_size={FLAGS.shuffle_buffer_size} holds few batches of each "
            f"length, so that many batches are of several: at least {wanted} is better."
        )
    return bounds


# --- Pre-training --------------------------------------------------------------------------------


def read_pairs(config, tokenizer):
    """A callable that measures the model on --minimal_pairs_file; None without the flag.

    Args:
        config: AlbertConfig.
        tokenizer: FullTokenizer that made the records; None if unknown.
    """
    if not FLAGS.minimal_pairs_file:
        return None

    tokenizer = _checked_tokenizer(config, tokenizer)
    if not tokenizer:
        raise UserError(
            "--minimal_pairs_file needs the vocabulary of the records, which their summary does "
            "not tell: give --spm_model_file or --vocab_file"
        )
    paths = files.expand_patterns(FLAGS.minimal_pairs_file, "minimal_pairs_file")
    paradigms = minimal_pairs.read(paths, FLAGS.pairs_per_paradigm)
    return minimal_pairs.of_training(config, tokenizer, FLAGS.max_seq_length, paradigms)


def read_masking(config, made_by):
    """Makes a graph_masking.Masking from the flags; None without --masked_lm_budget.

    Args:
        config: AlbertConfig, whose vocabulary must be large enough for the records.
        made_by: FullTokenizer that made the records; None if unknown.

    Raises:
        UserError: the vocabulary is too large for the model, or has no [MASK].
    """
    if not FLAGS.masked_lm_budget:
        return None
    tokenizer = _checked_tokenizer(config, made_by)
    wanted = round(FLAGS.masked_lm_budget * FLAGS.max_seq_length)
    if wanted > FLAGS.max_predictions_per_seq:
        print(
            f"Of a whole sequence, {FLAGS.max_predictions_per_seq} pieces are masked, and not "
            f"--masked_lm_budget={FLAGS.masked_lm_budget} of them: --max_predictions_per_seq="
            f"{wanted} would do."
        )
    return graph_masking.Masking(
        flag_groups.values_of(options.Instances, masked_lm_prob=FLAGS.masked_lm_budget),
        tokenizer.special_ids(with_mask=True),
        tokenizer.vocab_size,
    )


def _checked_tokenizer(config, made_by):
    """The FullTokenizer of the records, or else of the flags; None if neither is known.

    Args:
        config: AlbertConfig, whose vocabulary must be large enough.
        made_by: FullTokenizer that made the records; None if unknown.

    Raises:
        UserError: the vocabulary is too large, or has no [MASK].
    """
    if not (made_by or FLAGS.spm_model_file or FLAGS.vocab_file):
        return None
    tokenizer = made_by or tokenization.FullTokenizer(
        vocab_file=FLAGS.vocab_file, spm_model_file=FLAGS.spm_model_file
    )
    config.check_vocabulary(tokenizer)
    tokenizer.special_ids(with_mask=True)  # raises if the vocabulary has none
    return tokenizer


def tokenizer_of_records(paths):
    """The FullTokenizer that made record files; None if unknown, gone or changed.

    A vocabulary that the flags name takes the place of the one in the summary, which may be gone.

    Args:
        paths: list of str.

    Raises:
        UserError: two files were made with different vocabularies or casing, or the flags name
            another vocabulary.
    """
    made = {}  # fingerprint -> (the first file, arguments)
    for path, (arguments, fingerprint) in record_files.tokenizers_of(paths).items():
        made.setdefault(fingerprint, (path, arguments))
    if len(made) > 1:
        (first, ours), (other, theirs), *_ = made.values()
        raise UserError(
            f"{first} was made with {ours} and {other} with {theirs}: one model reads records of "
            "one vocabulary and one casing. Make them again with the same flags"
        )
    names = run_directory.VOCABULARY_FLAGS
    given = {name: value for name, value in flag_groups.given(names).items() if value}
    replaced = dict.fromkeys(names) | given if given else {}
    for fingerprint, (path, arguments) in made.items():
        with contextlib.suppress(UserError, TypeError):  # vocabulary gone, or summary damaged
            tokenizer = tokenization.FullTokenizer(**arguments | replaced)
            if tokenizer.fingerprint == fingerprint:
                return tokenizer
        if given:
            raise UserError(
                f"{', '.join(given.values())} is not the vocabulary of {path}, which was made with "
                f"{arguments}: give that file"
            )
    return None


def check_weights(tokenizer):
    """Raises UserError if the weights to start from or to evaluate have another vocabulary.

    The settings of a run that goes on are compared when it is resumed.

    Args:
        tokenizer: FullTokenizer of the records; None if unknown.
    """
    trained = run_directory.RunDirectory(FLAGS.output_dir).trained
    path = trained or FLAGS.init_checkpoint
    if not (tokenizer and path) or (trained and FLAGS.do_train):
        return
    found = source.find(path)
    choice = source.Choice(found, tokenizer.casing, vocabulary_path=tokenizer.path)
    try:
        _ = choice.tokenizer_arguments
    except UserError as error:
        raise UserError(
            f"--input_file does not fit {found.directory}: {error}. Make the records with the "
            "vocabulary and casing of the model"
        ) from error


# --- Fine-tuning ---------------------------------------------------------------------------------


def fine_tune(data, config, *, record_flags, do_eval, **values):
    """Trains, evaluates, predicts and exports as the flags say.

    Args:
        data: tasks.base.DataSet.
        config: AlbertConfig.
        record_flags: dict of split -> name of the flag for the file of its records.
        do_eval: bool, whether to evaluate.
        **values: values that are not flags, and replacements for flags, as in
            `settings_of`; by default the number of updates is that of --train_step
            or --num_train_epochs.

    Raises:
        UserError: the model was trained for another task, or an output cannot be written.
    """
    if data.task.kind:
        given = None if FLAGS.do_train else FLAGS.init_checkpoint
        source.check_task(data.task.kind, FLAGS.output_dir, given)
    check_directory()
    for flag in ("output_dir", "export_dir", "cached_dir", "glue_submission_dir"):
        if flag in FLAGS and FLAGS[flag].value:
            files.check_writable(FLAGS[flag].value, flag)
    for split, flag in record_flags.items():
        files.check_file_writable(data.record_file(split), flag)
    values["length_buckets"] = read_length_buckets()  # before features are made
    strategy = launch.set_up_devices()
    if "train_steps" not in values:
        values |= {"train_steps": _train_steps(data), "warmup_steps": FLAGS.warmup_step}
    if FLAGS.do_train:
        values["init_checkpoint"] = FLAGS.init_checkpoint or FLAGS.albert_hub_module_handle
    tokenizer = data.task.text.tokenizer
    if not do_eval:  # another process may evaluate later, and until then all checkpoints stay
        values["keep_checkpoint_max"] = None
    settings = settings_of(options.FineTuning, config, tokenizer, do_eval=do_eval, **values)
    finetuning.fine_tune(data, config, settings, strategy)


def _train_steps(data):
    """Number of updates according to --train_step or --num_train_epochs."""
    if FLAGS.num_train_epochs is None:
        return FLAGS.train_step
    if not FLAGS.do_train:
        return sys.maxsize  # only the timeout ends a wait for checkpoints
    count = sum(file.count for file in record_files.read_index(data.training_records.paths))
    return finetuning.steps_of_epochs(count, FLAGS.train_batch_size, FLAGS.num_train_epochs)
