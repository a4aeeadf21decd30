# SPDX-License-Identifier: Apache-2.0
"""Config, vocabulary and text settings of a command's model, from flags, run or directory."""

import contextlib

from absl import flags

from albert_tf import options
from albert_tf.checkpoints import run_directory, source
from albert_tf.checkpoints.run_directory import CASING, TEXT_FLAGS, VOCABULARY_FLAGS, RunDirectory
from albert_tf.cli import flag_groups
from albert_tf.errors import UserError
from albert_tf.tasks import base
from albert_tf.text import tokenization

FLAGS = flags.FLAGS
_OF_EVALUATION = (  # flags of a pre-training that its evaluations share, besides the masking
    "sentence_loss_weight", "max_seq_length", "max_predictions_per_seq", "max_eval_steps",
    "eval_batch_size", "num_train_steps",
)  # fmt: skip


# --- Settings from flags -------------------------------------------------------------------------


def read_config():
    """Reads the config of a pre-training, from a flag or its weights; checks --max_seq_length."""
    checkpoint = trained_checkpoint()
    found = source.find(checkpoint) if checkpoint else None
    choice = source.Choice(found, **given_settings(), may_differ=FLAGS.do_train)
    check_length(choice.config, choice.config_path or found.directory)
    if not choice.given_config:
        FLAGS.albert_config_file = found.config_file()  # for the record of the run
    return choice.config


def check_length(config, path):
    """Raises UserError if --max_seq_length exceeds the positions of an AlbertConfig at a path."""
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={FLAGS.max_seq_length} exceeds max_position_embeddings="
            f"{config.max_position_embeddings} of {path}"
        )


def given_settings():
    """Settings of a model from the flags and a hub module: dict of arguments of source.Choice.

    The module's vocabulary comes first, as in the original, where --spm_model_file is then often a
    placeholder such as `from_tf_hub`.
    """
    path = FLAGS["albert_config_file"].value
    given = {
        "text": flag_groups.given(TEXT_FLAGS),
        "vocabulary_flag": "spm_model_file" if FLAGS.spm_model_file else "vocab_file",
        "vocabulary_path": FLAGS.spm_model_file or FLAGS.vocab_file,
        "given_config": source.read_config(path) if path else None,
        "config_path": path,
    }
    if "albert_hub_module_handle" in FLAGS and FLAGS.albert_hub_module_handle:
        module = source.Source(FLAGS.albert_hub_module_handle)
        given["text"] |= _casing_of(module, given["text"])
        vocabulary = module.vocabulary_file()
        if vocabulary:
            kind = source.vocabulary_flag(vocabulary)
            given |= {"vocabulary_flag": kind, "vocabulary_path": vocabulary}
        if not path:
            given |= {"given_config": module.read_config(), "config_path": module.directory}
    return given


def _casing_of(module, typed):
    """Settings of a hub module for casing and accents: dict.

    If --do_lower_case differs, the module's value is used and a line is printed.
    """
    told = {"strip_accents": source.Choice(module, typed).setting("strip_accents")}
    lower, _ = module.setting_and_path("do_lower_case")
    if lower is not None:
        told["do_lower_case"] = lower
        given = typed.get("do_lower_case", lower)
        if given != lower:
            print(
                f"{source.as_flag('do_lower_case', given)} is ignored: {module.directory} was made "
                f"for {'lower-cased text' if lower else 'text with its capitals'}."
            )
    return told


# --- Settings from the run -----------------------------------------------------------------------


def follow(found, names, given=None, may_differ=False):
    """Sets flags that were not given to the values of a source.

    Args:
        found: source.Source; None if the weights are random or from a hub module.
        names: iterable of str, those of TEXT_FLAGS that the source decides.
        given: dict, as from `given_settings`; None to read the flags.
        may_differ: bool, whether a flag may contradict the source.

    Returns:
        source.Choice.

    Raises:
        UserError: a flag contradicts the source, or something is missing.
    """
    choice = source.Choice(found, **(given or given_settings()), may_differ=may_differ)
    for name in names:
        value = choice.setting(name) if name in FLAGS else None
        if value is not None:
            FLAGS[name].value = value
    config, (kind, path) = choice.config, choice.vocabulary
    config_path = choice.config_path or found.config_file()
    config_path = config_path or (found.settings_file if found.settings else found.directory)
    check_length(config, config_path)
    if found and not found.settings:
        taken = [path] * (not choice.vocabulary_path) + [config_path] * (not choice.given_config)
        if taken:
            print(f"Using {' and '.join(taken)}, next to the weights.")
        _warn_of_vocabulary(found, path)
    FLAGS[kind].value = path  # for the record of the run
    if not choice.given_config:
        FLAGS.albert_config_file = found.config_file()
    return choice


def _warn_of_vocabulary(found, used):
    """Prints a warning if a vocabulary is not the one next to the weights."""
    with contextlib.suppress(UserError):  # there are several vocabularies
        other = found.vocabulary_file()
        if other in (None, used):
            return
        if run_directory.sha256(other) != run_directory.sha256(used):
            print(
                f"Warning: {used} is used, but {other} is next to the weights: the ids of one "
                "vocabulary mean nothing to a model of the other."
            )


def follow_all(sources):
    """Applies `follow` to models that predict together on the same windows of text.

    Args:
        sources: list of source.Source, each with its own config.

    Returns:
        list of source.Choice.

    Raises:
        UserError: two of them were trained with different vocabularies, casing or lengths.
    """
    given = given_settings() | {"given_config": None, "config_path": None}
    choices = [follow(found, TEXT_FLAGS, given) for found in sources]
    recorded = [found for found in sources if found.settings]
    for found in recorded[1:]:
        for name in TEXT_FLAGS:
            first, value = recorded[0].recorded(name), found.recorded(name)
            if None not in (first, value) and first != value:
                raise UserError(
                    f"{recorded[0].settings_file} has {source.as_flag(name, first)} and "
                    f"{found.settings_file} {source.as_flag(name, value)}: models of an "
                    "ensemble must be trained on the same windows of text"
                )
        first, other = recorded[0].settings.vocabulary, found.settings.vocabulary
        if first and other and first.sha256 != other.sha256:
            raise UserError(
                f"{recorded[0].settings_file} has the vocabulary {first.path} and "
                f"{found.settings_file} another one, {other.path}: models of an "
                "ensemble must have the same vocabulary"
            )
    return choices


def follow_recorded(sources, names):
    """Sets flags that were not given to the values that trainings have recorded.

    Args:
        sources: list of source.Source; those without `run.json` are left out.
        names: sequence of str, flags whose values may differ from the training's.

    Raises:
        UserError: two records differ.
    """
    for name in names:
        known = [found for found in sources if found.settings and name in found.settings.flags]
        if FLAGS[name].present or not known:
            continue
        first, value = known[0].settings_file, known[0].settings.flags[name]
        for found in known[1:]:
            other = found.settings.flags[name]
            if other != value:
                raise UserError(
                    f"{first} has --{name}={value} and {found.settings_file} --{name}={other}: "
                    f"give --{name}"
                )
        FLAGS[name].value = value


def follow_pretraining():
    """Sets flags of an evaluation to those of the pre-training, unless they were given."""
    checkpoint = trained_checkpoint()
    if FLAGS.init_checkpoint:
        _say_if_not_read(RunDirectory(FLAGS.output_dir).latest)
    found = source.find(checkpoint) if checkpoint else source.Source(FLAGS.output_dir)
    masking = [option.name for option in options.options_of(options.OnlineMasking)]
    names = [*{*masking} - {*VOCABULARY_FLAGS}, *_OF_EVALUATION]
    follow_recorded([found], names)
    if FLAGS.masked_lm_budget and found.settings and not flag_groups.given(VOCABULARY_FLAGS):
        kind, path = source.Choice(found).vocabulary
        FLAGS[kind].value = path


def directory_tokenizer():
    """Makes the FullTokenizer of the vocabulary in --albert_directory, or of its run.json.

    Raises:
        UserError: there is no vocabulary, or there are several.
    """
    found = source.Source(FLAGS.albert_directory)
    path = found.vocabulary_file()
    if path is None and not (found.settings and found.settings.vocabulary):
        raise UserError(
            f"--albert_directory={FLAGS.albert_directory} holds no vocabulary: put the "
            "SentencePiece model (*.model) or vocab.txt there"
        )
    kind = path and source.vocabulary_flag(path)  # else the one of run.json, where it lies
    choice = source.Choice(found, flag_groups.given(CASING), kind, path)
    return tokenization.FullTokenizer(**choice.tokenizer_arguments)


def text_input(choices):
    """Makes the converter from text of a task to the model's input.

    Args:
        choices: list of source.Choice, of the models that read the text.

    Returns:
        TextInput.

    Raises:
        UserError: the vocabulary cannot be read, or has ids that a model has no embedding for.
    """
    configs = [choice.config for choice in choices]
    return base.text_input(configs, choices[0].tokenizer_arguments, FLAGS.max_seq_length)


def follow_run():
    """Sets flags that were not given to those of the command's model.

    The model is the run in --output_dir or, if it holds none, --init_checkpoint. A training that
    starts from --init_checkpoint has its own lengths.

    Returns:
        source.Choice.
    """
    run = RunDirectory(FLAGS.output_dir)
    if FLAGS.do_train:
        if run.latest:
            return follow(source.Source(FLAGS.output_dir), TEXT_FLAGS, may_differ=True)
        return follow(source.find(FLAGS.init_checkpoint) if FLAGS.init_checkpoint else None, CASING)
    checkpoint = trained_checkpoint()
    if FLAGS.init_checkpoint:
        _say_if_not_read(run.trained)
    found = source.find(checkpoint) if checkpoint else None
    if found is None and run.settings:  # evaluation has begun before training
        found = source.Source(FLAGS.output_dir)
    return follow(found, TEXT_FLAGS)


def trained_checkpoint():
    """Trained checkpoint in --output_dir, or else --init_checkpoint; None if there is neither."""
    return RunDirectory(FLAGS.output_dir).trained or FLAGS.init_checkpoint


def _say_if_not_read(trained):
    """Prints that a checkpoint of --output_dir takes the place of --init_checkpoint, if it does."""
    if trained:
        print(f"--init_checkpoint is not read: --output_dir holds a trained model, {trained}.")
