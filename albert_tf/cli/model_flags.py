# SPDX-License-Identifier: Apache-2.0
"""The model of a command: its settings, config and text, from flags, source and run.json."""

import contextlib
import os
from typing import NamedTuple

from albert_tf import files, resolve
from albert_tf.api import load
from albert_tf.checkpoints import run_directory, source
from albert_tf.checkpoints.run_directory import VOCABULARY_FLAGS, RunDirectory
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.tasks import base
from albert_tf.text import text_losses, tokenization


class Model(NamedTuple):
    """What a command means, and the model that it means.

    Attributes:
        settings: resolve.Resolved.
        config: AlbertConfig.
        config_path: str, the file or directory that it is from.
        source: source.Source of the weights; None if they are random.
        resumes: bool, whether a training goes on.
    """

    settings: resolve.Resolved
    config: AlbertConfig
    config_path: str
    source: source.Source | None
    resumes: bool = False

    @property
    def record(self):
        """RunSettings of the training that goes on or is used; None if there is none."""
        is_new = self.settings.do_train and not self.resumes
        return self.source.settings if self.source and not is_new else None


def of_run(given, **more):
    """The Model of a training or evaluation.

    It is the run in --output_dir or, if it holds none, --init_checkpoint. A training that starts
    from --init_checkpoint has its own lengths and task.

    Args:
        given: resolve.Resolved, of flags alone.
        **more: resolve.Fact, further facts by name.

    Raises:
        UserError: a flag contradicts the model, or something is missing.
    """
    found, relation = _source_of(given)
    typed, module = given.typed(), None
    facts = _facts(found, relation, given.rows, typed)
    if given.get("albert_hub_module_handle") and relation != source.RESUME:
        module = source.Source(given.albert_hub_module_handle)
        others = {name: typed[name] for name in typed if name not in VOCABULARY_FLAGS}
        facts = _facts(module, source.START, given.rows, others) | facts
        typed = _without_placeholders(typed, module, facts)
    how = {}
    if relation == source.RESUME:
        of_task = {
            name
            for name, fact in facts.items()
            if fact and os.path.basename(fact.where) == run_directory.TASK
        }
        remedy = "give the values from before or another --output_dir"
        how = {"may_differ": facts.keys() - of_task, "remedy": remedy}
    settings = resolve.resolve(given.rows, typed, facts | more, key=source.key, **how)
    for note in (note for note in settings.notes if note not in given.notes):
        print(f"{note}.")
    config, path = source.config_of(settings, found or module)
    settings = _fitted(settings, config, path)
    return Model(settings, config, path, found, relation == source.RESUME)


def _fitted(settings, config, path):
    """The settings with defaults that fit a model; prints which defaults they replace."""
    settings, replaced = resolve.fitted(settings, config, path)
    if replaced:
        length = config.max_position_embeddings
        print(f"{path} has max_position_embeddings={length}: {', '.join(replaced)} by default.")
    return settings


def _facts(found, relation, rows, typed):
    """Facts of a Source or, without one, of a typed vocabulary.

    What a run only has at its start, such as its first weights, holds for it alone: it is left out
    unless the run goes on.
    """
    facts = source.facts(found, relation, typed) if found else source.of_vocabulary(typed)
    if relation == source.RESUME:
        return facts
    of_start = {name for name, row in rows.items() if row.columns["on_record"] == "start"}
    return {name: fact for name, fact in facts.items() if name not in of_start}


def _source_of(given):
    """The Source of a command, or None, and the relation to it."""
    run = RunDirectory(given.output_dir)
    if given.do_train:
        if given.get("num_trials") not in (None, 1):  # each has its own directory
            run = RunDirectory(run.file(f"trial-{given.seed or 0}"))
        if run.latest:
            _say_if_not_read(given, run.latest)
            return source.Source(run.path, run.latest), source.RESUME
        return given.init_checkpoint and source.find(given.init_checkpoint), source.START
    _say_if_not_read(given, run.trained)
    checkpoint = run.trained or given.init_checkpoint
    if checkpoint:
        return source.find(checkpoint), source.USE
    # Evaluation may have begun before training.
    return source.Source(run.path) if run.settings else None, source.USE


def _say_if_not_read(given, trained):
    """Prints that a checkpoint of --output_dir takes the place of --init_checkpoint, if it does."""
    if trained and given.init_checkpoint:
        print(
            f"--init_checkpoint is not read: --output_dir holds a trained model, {trained}. For "
            f"{given.init_checkpoint}, give another --output_dir."
        )


def _without_placeholders(typed, module, facts):
    """Typed values without those that a hub module replaces: its vocabulary comes first.

    As in the original, --spm_model_file is then often a placeholder such as `from_tf_hub`. If
    --do_lower_case differs, the module's value is used and a line is printed.
    """
    kept = dict(typed)
    if any(facts[name].value for name in VOCABULARY_FLAGS if name in facts):
        for name in VOCABULARY_FLAGS:
            kept.pop(name, None)
    lower = facts.get("do_lower_case")
    if lower and kept.get("do_lower_case") not in (None, lower.value):
        ignored = resolve.as_flag("do_lower_case", kept.pop("do_lower_case"))
        print(f"{ignored} is ignored: {module.directory} was trained with the opposite.")
    return kept


def members_of(given):
    """Prefixes of the checkpoints in --ensemble_dirs: list of str.

    Raises:
        UserError: a directory has none.
    """
    return [RunDirectory(each).trained_or(None) for each in given.ensemble_dirs]


def of_fine_tuning(given, **more):
    """The Models of a fine-tuning: one, or those of --ensemble_dirs, each with its own config.

    Args:
        given: resolve.Resolved, of flags alone.
        **more: resolve.Fact, further facts by name.

    Raises:
        UserError: two of them were trained with different settings, or a flag contradicts them.
    """
    if not given.ensemble_dirs:
        return [of_run(given, **more)]
    typed, sources = given.typed(), [*map(source.find, members_of(given))]
    found = [_facts(each, source.USE, given.rows, typed) for each in sources]
    for facts in found:
        facts.pop("albert_config_file", None)
    facts = resolve.agreed(given.rows, typed, found) | more
    settings = resolve.resolve(given.rows, typed, facts, key=source.key)
    models = [Model(settings, each.read_config(), each.directory, each) for each in sources]
    for model in models:
        settings = _fitted(settings, model.config, model.config_path)
    return [model._replace(settings=settings) for model in models]


def text_input(models):
    """Makes the converter from text of a task to the model's input.

    Args:
        models: list of Model, which read the same text.

    Returns:
        TextInput.

    Raises:
        UserError: the vocabulary cannot be read, or has ids that a model has no embedding for.
    """
    settings, found = models[0].settings, models[0].source
    arguments = source.tokenizer_arguments(settings, found)
    names = (*VOCABULARY_FLAGS, "albert_config_file")
    taken = [settings.get(name) for name in names if settings.origin(name) == resolve.SOURCE]
    if taken:
        print(f"Using {' and '.join(taken)}, next to the weights.")
    if found and not found.settings:
        _warn_of_vocabulary(found, next(iter(arguments.values())))
    configs = [model.config for model in models]
    text = base.text_input(configs, arguments, settings.max_seq_length)
    if settings.get("do_train"):
        text_losses.Sample(text.tokenizer)
    return text


def _warn_of_vocabulary(found, used):
    """Prints a warning if a vocabulary is not the one next to the weights."""
    with contextlib.suppress(UserError):  # there are several vocabularies
        other = found.vocabulary_file()
        if other and files.sha256(other) != files.sha256(used):
            print(f"Warning: {used} is used, and not {other}, which is next to the weights.")


def directory_tokenizer(given):
    """Makes the FullTokenizer of the vocabulary in --albert_directory, or of its run.json.

    Args:
        given: resolve.Resolved.

    Raises:
        UserError: there is no vocabulary, or there are several.
    """
    found = source.Source(given.albert_directory)
    path = found.vocabulary_file()
    if path is None and not (found.settings and found.settings.vocabulary):
        raise UserError(
            f"--albert_directory={given.albert_directory} has no vocabulary: put the SentencePiece "
            "model (*.model) or vocab.txt there"
        )
    typed = given.typed() | ({source.vocabulary_flag(path): path} if path else {})
    rows = given.rows | {name: load.ROWS[name] for name in VOCABULARY_FLAGS}
    facts = source.facts(found, source.START, typed)
    settings = resolve.resolve(rows, typed, facts, key=source.key)
    return tokenization.FullTokenizer(**source.tokenizer_arguments(settings, found))
