# SPDX-License-Identifier: Apache-2.0
"""What the flags say of a model: its architecture, its vocabulary, how text becomes its input."""

import contextlib
import dataclasses
import functools
import json
import os

from absl import flags

from albert_tf.cli import flag_groups, lazy
from albert_tf.errors import UserError

tf = lazy.module("tensorflow")
albert_config = lazy.module("albert_tf.config")
files = lazy.module("albert_tf.files")
hub_modules = lazy.module("albert_tf.checkpoints.hub_modules")
run_directory = lazy.module("albert_tf.checkpoints.run_directory")
huggingface = lazy.module("albert_tf.checkpoints.huggingface")
record_index = lazy.module("albert_tf.records.record_index")
task_text = lazy.module("albert_tf.tasks.text_input")
tokenization = lazy.module("albert_tf.text.tokenization")
run_record = lazy.module("albert_tf.training.run_record")

FLAGS = flags.FLAGS


def read_config():
    """The model's config, from --albert_config_file or the hub module, checked for its length.

    Raises:
        UserError: there is none, or it has fewer positions than --max_seq_length.
    """
    path, module = FLAGS.albert_config_file, hub_module()
    if not path and not module:
        raise UserError("give --albert_config_file or --albert_hub_module_handle")
    config = huggingface.read_config(path) if path else hub_modules.read_config(module)
    _check_length(config, path or module)
    return config


def read_configs(prefixes, are_ensemble):
    """Configs of the models that predict: of the flags, or those beside the checkpoints.

    Args:
        prefixes: list of str, the checkpoints; none to train.
        are_ensemble: bool, whether each has its own config for sure.

    Returns:
        list of AlbertConfig, one at least.
    """
    from_flags = FLAGS.albert_config_file or FLAGS.albert_hub_module_handle
    if not prefixes or (from_flags and not are_ensemble):
        return [read_config()]
    return [_config_beside(prefix, are_ensemble) for prefix in prefixes]


def _config_beside(prefix, is_of_ensemble):
    path = os.path.join(os.path.dirname(prefix), run_record.CONFIG_FILE)
    if not files.read_text(path):
        raise UserError(
            f"there is no {path} to tell the architecture of {os.path.basename(prefix)}: put the "
            "file there" + ("" if is_of_ensemble else ", or give --albert_config_file")
        )
    config = albert_config.AlbertConfig.from_json_file(path)
    _check_length(config, path)
    return config


def _check_length(config, source):
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={FLAGS.max_seq_length} exceeds max_position_embeddings="
            f"{config.max_position_embeddings} of {source}"
        )


def hub_module():
    """The directory of --albert_hub_module_handle; None if the flag is not given or not known.

    Raises:
        UserError: it is no directory.
    """
    # run_pretraining.py shares functions of this file and has no such flag.
    handle = "albert_hub_module_handle" in FLAGS and FLAGS.albert_hub_module_handle
    if handle and not tf.io.gfile.isdir(handle):
        raise UserError(
            f"--albert_hub_module_handle={handle} is no directory: download the module and give "
            "the directory that holds its saved_model.pb"
        )
    return handle or None


def vocabulary_file():
    """Path of the vocabulary in use: the SentencePiece model, or vocab.txt.

    That of a hub module comes first, as in the original, whose users give a mere word such as
    `from_tf_hub` as --spm_model_file then.
    """
    module = hub_module()
    return (
        (module and hub_modules.vocabulary_file(module)) or FLAGS.spm_model_file or FLAGS.vocab_file
    )


def do_lower_case():
    """Whether text is lower-cased: as the hub module says or, if there is none, --do_lower_case.

    A flag that was given and says otherwise than the module is not followed, and a line says so.
    """
    module = hub_module()
    given = FLAGS["do_lower_case"]
    return _casing(module, given.value, given.present > 0) if module else given.value


@functools.cache  # so that the line comes once
def _casing(module, flag, is_given):
    told = hub_modules.lower_case(module)
    if told is None:
        return flag
    if is_given and flag != told:
        print(
            f"--do_lower_case={str(flag).lower()} is not followed: {module} was made for "
            f"{'lower-cased text' if told else 'text with its capitals'}."
        )
    return told


def strip_accents():
    """Whether letters lose their marks: as the hub module says or, if it does not, the flag."""
    module = hub_module()
    given = FLAGS["strip_accents"]
    told = hub_modules.strips_accents(module) if module else None
    if told not in (None, given.value) and given.present:
        raise UserError(
            f"--strip_accents={str(given.value).lower()}, but {module} was made with "
            f"--strip_accents={str(told).lower()}: leave the flag out"
        )
    return given.value if told is None else told


def vocabulary_arguments():
    """Arguments of FullTokenizer and GraphTokenizer: dict.

    Raises:
        UserError: no vocabulary is given.
    """
    path = vocabulary_file()
    if not path:
        raise UserError("give --spm_model_file or --vocab_file")
    kind = "vocab_file" if path == FLAGS.vocab_file else tokenization.vocabulary_argument(path)
    return {kind: path, "do_lower_case": do_lower_case(), "strip_accents": strip_accents()}


def directory_vocabulary():
    """The vocabulary in --albert_directory.

    Returns:
        (str, dict): its path, and the arguments of FullTokenizer and its likes.

    Raises:
        UserError: there is none, or several.
    """
    path = hub_modules.vocabulary_in(FLAGS.albert_directory)
    if path is None:
        raise UserError(
            f"--albert_directory={FLAGS.albert_directory} holds no vocabulary: put the "
            "SentencePiece model (*.model) or vocab.txt there"
        )
    record = run_record.read(FLAGS.albert_directory)
    if record:
        _follow_flag("do_lower_case", record)
        _follow_flag("strip_accents", record)
        _check_same_vocabulary(path, record)
    kind = tokenization.vocabulary_argument(path)
    clean_up = {name: FLAGS[name].value for name in ("do_lower_case", "strip_accents")}
    return path, {kind: path} | clean_up


def init_checkpoint():
    """Where to take weights from: --init_checkpoint, or the hub module's variables; or None."""
    return FLAGS.init_checkpoint or hub_module()


def warn_of_vocabulary():
    """Prints a warning if the vocabulary is of another kind than that beside the weights."""
    directory = run_directory.directory_of(FLAGS.init_checkpoint or "")
    with contextlib.suppress(UserError):  # several, and none is meant
        beside, used = directory and hub_modules.vocabulary_in(directory), vocabulary_file()
        if beside and beside.endswith(".txt") != used.endswith(".txt"):
            print(
                f"Warning: {used} is used, but {beside} stands beside the weights: the ids of one "
                "kind of vocabulary mean nothing to a model of the other."
            )


def follow_run(checkpoint):
    """Sets the flags of a model's text, vocabulary and config to those of its training (D24).

    Where the run left no record, as those of the original, the flags hold.

    Args:
        checkpoint: str, prefix or directory; or None.

    Raises:
        UserError: a flag was given and says otherwise, or the vocabulary is gone.
    """
    record = run_record.read(run_directory.directory_of(checkpoint)) if checkpoint else None
    if record is None:
        return
    for name in record.text:
        if name in FLAGS:
            _follow_flag(name, record)
    if vocabulary_file():
        _check_same_vocabulary(vocabulary_file(), record)
    elif record.vocabulary:
        flag, path, expected = (record.vocabulary[name] for name in ("flag", "path", "sha256"))
        if not tf.io.gfile.exists(path) or run_record.sha256(path) != expected:
            raise UserError(
                f"{path}, the vocabulary according to {record.path}, is gone or another file now: "
                f"give the right one as --{flag}"
            )
        FLAGS[flag].value = path
    beside = os.path.join(os.path.dirname(record.path), run_record.CONFIG_FILE)
    if not (FLAGS.albert_config_file or hub_module()) and tf.io.gfile.exists(beside):
        FLAGS.albert_config_file = beside
    if FLAGS.albert_config_file or hub_module():
        _check_same_config(read_config(), record)


def _follow_flag(name, record):
    flag, value = FLAGS[name], record.text.get(name)
    if value is None:
        return
    if flag.present and flag.value != value:
        raise UserError(
            f"--{name}={json.dumps(flag.value)}, but the model was trained with "
            f"--{name}={json.dumps(value)} ({record.path}): leave the flag out"
        )
    flag.value = value


def _check_same_vocabulary(path, record):
    expected = record.vocabulary
    if expected and run_record.sha256(path) != expected["sha256"]:
        raise UserError(
            f"{path} is not the vocabulary that the model was trained with, {expected['path']} "
            f"with sha256 {expected['sha256'][:12]}... ({record.path}): give that file"
        )


def _check_same_config(config, record):
    chance = {"hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"}
    keys = {field.name for field in dataclasses.fields(albert_config.AlbertConfig)} - chance
    ours = config.to_dict()
    for key in sorted(keys):
        if ours.get(key) != record.config.get(key):
            raise UserError(
                f"{FLAGS.albert_config_file or hub_module()} has {key}={ours.get(key)!r}, but the "
                f"model was trained with {record.config.get(key)!r} ({record.path}): give the "
                "config of the training"
            )


def text_input(configs):
    """How the text of a task becomes the model's input.

    Args:
        configs: list of AlbertConfig, of the models that read it.

    Returns:
        TextInput.

    Raises:
        UserError: the vocabulary cannot be read, or has ids that a model has no embedding for.
    """
    arguments = vocabulary_arguments()
    tokenizer = tokenization.FullTokenizer(**arguments)
    for config in configs:
        task_text.check_vocabulary(config, tokenizer, vocabulary_file())
    return task_text.TextInput(
        tokenizer,
        vocabulary_file(),
        arguments["do_lower_case"],
        FLAGS.max_seq_length,
        vocab_size=min(config.vocab_size for config in configs),
        type_vocab_size=min(config.type_vocab_size for config in configs),
        strip_accents=arguments["strip_accents"],
    )


def record_of_flags():
    """What is recorded of a training run's flags: run_record.Given."""
    own = sorted(flag_groups.own_flags(), key=lambda flag: flag.name)
    given = {flag.name: flag.value for flag in own if flag.value is not None}
    text = {name: FLAGS[name].value for name in run_record.TEXT_FLAGS if name in FLAGS}
    # Pre-training reads no text, but what is made of the model does.
    if "do_lower_case" in FLAGS:
        arguments = vocabulary_arguments()
    else:
        paths = record_index.expand_patterns(FLAGS.input_file, "input_file")
        arguments = arguments_of_records(paths[0])
    if not arguments:
        return run_record.Given(given, text, None)
    ((flag, path),) = ((name, path) for name, path in arguments.items() if name.endswith("_file"))
    vocabulary = {
        "flag": flag,
        "path": path if "://" in path else os.path.abspath(path),
        "sha256": run_record.sha256(path),
    }
    text |= {name: arguments[name] for name in ("do_lower_case", "strip_accents")}
    return run_record.Given(given, text, vocabulary)


def arguments_of_records(path):
    """The arguments of the tokenizer that made a record file; None if unknown, gone or changed.

    Args:
        path: str.
    """
    arguments, fingerprint = record_index.tokenizer_of(path) or (None, None)
    try:
        is_same = arguments and tokenization.FullTokenizer(**arguments).fingerprint == fingerprint
    except (UserError, TypeError):  # the file is gone, or the summary is damaged
        return None
    return arguments if is_same else None
