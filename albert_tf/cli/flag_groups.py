# SPDX-License-Identifier: Apache-2.0
"""Flags made from groups of options, and checks of their values and of the files they name.

Nothing here imports TensorFlow. Only local paths are checked; remote ones when they are read.
"""

import dataclasses
import glob
import os
import sys

from absl import flags

from albert_tf import models, options
from albert_tf.config import CONFIG_FILE, AlbertConfig, is_of_transformers
from albert_tf.errors import UserError, decode, parse_json, read_local

FLAGS = flags.FLAGS
# Of a directory to export, in order of preference; the last is that of a TF Hub module.
_CONFIGS = (CONFIG_FILE, "config.json", os.path.join("assets", CONFIG_FILE))
_DEFINE = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    list: flags.DEFINE_list,
}


def own_flags():
    """List of the script's flags, without those of libraries, in the order of definition."""
    return [FLAGS[name] for name in FLAGS if hasattr(FLAGS[name], "subject")]


def given(names):
    """Values of those of the named flags that the user gave: dict."""
    return {name: FLAGS[name].value for name in names if name in FLAGS and FLAGS[name].present}


def requirement(flag):
    """Returns the sentence of --help about a flag that must be given; "" for any other flag."""
    for rule in flag.validators:
        _, must_be_given, exceptions = rule.message.partition("must have a value other than None")
        if must_be_given:
            return f"Required{exceptions}"
    return ""


def are_numbers(columns):
    """Whether a column, or several with commas between them, are given by number."""
    return columns.replace(",", "").isdecimal()


def note_obsolete_flags():
    """Prints a line for each given flag that has no effect: any more, or next to another one."""
    for flag in own_flags():
        if flag.subject == options.NO_EFFECT and flag.present:
            print(f"--{flag.name} has no effect any more: {flag.help[0].lower()}{flag.help[1:]}")
    vocabularies = given(("spm_model_file", "vocab_file"))
    if len(vocabularies) > 1 and all(vocabularies.values()):
        message = f"--vocab_file={FLAGS.vocab_file} is not used, as there is a --spm_model_file"
        print(message, file=sys.stderr)  # standard output may be for predictions


def define(*groups, **defaults):
    """Defines the flags of groups of options, each group under its heading.

    Args:
        *groups: classes of albert_tf.options.
        **defaults: default values that replace those of the options.
    """
    for group in groups:
        for field in options.options_of(group):
            name, text, choices = field.name, field.metadata["help"], field.metadata["choices"]
            default = defaults.pop(name, field.default)
            if field.metadata["repeated"] and choices:
                flags.DEFINE_multi_enum(name, default, choices, text)
            elif field.metadata["repeated"]:
                flags.DEFINE_multi_string(name, default, text)
            elif choices:
                flags.DEFINE_enum(name, default, list(choices), text, case_sensitive=False)
            else:
                _DEFINE[options.kind_of(field)](name, default, text)
            flag = FLAGS[name]
            if field.metadata["required"]:
                flags.mark_flag_as_required(name)
            flag.help = text  # without absl's notes on choices and repetition
            flag.option, flag.group, flag.subject = field, group, group.heading
    if defaults:
        raise TypeError(f"no options of these groups: {', '.join(defaults)}")


def check_values():
    """Raises UserError for invalid values and invalid combinations of values."""
    for group in dict.fromkeys(flag.group for flag in own_flags()):
        values_of(group)


def values_of(kind, **others):
    """Makes a dataclass from the flags with the names of its fields.

    Args:
        kind: the dataclass.
        **others: values of fields that are not taken from flags.

    Raises:
        UserError: the dataclass rejects a value.
    """
    names = {field.name for field in dataclasses.fields(kind)} - others.keys()
    return kind(**{name: FLAGS[name].value for name in names if name in FLAGS}, **others)


def check_not_empty(*names):
    """Raises UserError if a flag for a path is given and empty."""
    for name in names:
        if FLAGS[name].value == "":
            raise UserError(f"--{name} is empty: give a path, such as ./{name}")


def idle_flags():
    """Dict from flags that do nothing to the flag they need; those that are off are left out."""
    on = [flag for flag in own_flags() if not flag.value is flag.default is False]
    needs = {flag: flag.option.metadata["needs"] for flag in on}
    return {flag: needed for flag, needed in needs.items() if needed and not FLAGS[needed].value}


def check_needs():
    """Raises UserError if a flag is given that does nothing without another one."""
    for flag, needed in idle_flags().items():
        if flag.present:
            raise UserError(f"--{flag.name} does nothing without --{needed}: give both or none")


def check_synonyms():
    """Raises UserError if both names of the interval of the curves are given, and differ."""
    ours, theirs = FLAGS["iterations_per_loop"], FLAGS["steps_per_loop"]
    if ours.present and theirs.value not in (None, ours.value):
        raise UserError(
            f"--{ours.name}={ours.value} and --{theirs.name}={theirs.value} are the same setting: "
            "give one of them"
        )


# --- Files that flags name -----------------------------------------------------------------------


def check_exist(*names):
    """Raises UserError if a given flag names something that does not exist.

    Args:
        *names: str, names of flags for files, directories, patterns or checkpoints to read.
    """
    for name in names:
        value, kind = FLAGS[name].value, FLAGS[name].option.metadata["path"]
        paths = value.split(",") if kind == "files" and value else value
        for path in [paths] if isinstance(paths, str) else paths or ():
            problem = path and "://" not in path and _problem(kind, path.strip())
            if problem:
                raise UserError(f"--{name}{problem}")
            if kind == "config" and path:
                check_config(path)


def _problem(kind, path):
    """Returns the rest of a message if a path of some kind is wrong, else None."""
    exists, is_directory = os.path.exists(path), os.path.isdir(path)
    if kind == "directory" and not is_directory:
        return f"={path} is a file: give a directory" if exists else f"={path} is not a directory"
    is_file = kind in ("file", "config")
    if (is_file or kind == "output file") and is_directory:
        return f"={path} is a directory: give a file"
    if is_file and not exists:
        return f"={path}: there is no such file"
    is_there = path in models.paths() or glob.glob(f"{glob.escape(path)}*")
    if kind == "checkpoint" and not is_there:
        return f"={path}: there is no such checkpoint or directory{models.hint()}"
    # The libraries that read patterns differ on brackets and backslashes.
    if kind == "files" and path and not set(path) & set("[\\") and not glob.glob(path):
        return f": no file matches {path!r}"
    return None


def check_text(name):
    """Raises UserError if a flag names a local file that exists and is not UTF-8."""
    path = FLAGS[name].value
    if path and "://" not in path:
        decode(read_local(path), f"--{name}={path}")


def check_vocabulary(needed_for=None):
    """Raises UserError if the vocabulary that the flags name does not exist.

    Args:
        needed_for: str, what is impossible without a vocabulary; None if none need be given.
    """
    if needed_for and not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise UserError(f"{needed_for} needs a vocabulary: give --spm_model_file or --vocab_file")
    check_exist("spm_model_file" if FLAGS.spm_model_file else "vocab_file")


def check_config(path):
    """Raises UserError if a file is not a valid config.

    Args:
        path: str; remote paths are not checked.
    """
    if "://" not in path:
        content = read_local(path)
        if not is_of_transformers(parse_json(content, path)):
            AlbertConfig.from_json(content, path)


def holds_run(directory):
    """Whether a directory may hold checkpoints (bool); always True for remote ones."""
    folder = glob.escape(directory)
    found = glob.glob(f"{folder}/*.index") or glob.glob(f"{folder}/*/*.index")
    return "://" in directory or bool(found)


def check_run():
    """Raises UserError if --init_checkpoint does not exist, or there is nothing to evaluate.

    If --output_dir holds a run, --init_checkpoint is not read.
    """
    directory = FLAGS.output_dir
    if holds_run(directory):
        return
    check_exist("init_checkpoint")
    if FLAGS.do_train or FLAGS.init_checkpoint or FLAGS.continuous_eval_timeout:
        return
    what = "" if os.path.isdir(directory) else "does not exist, so it "
    raise UserError(
        f"--output_dir={directory} {what}holds no checkpoint to evaluate, predict with or export: "
        "give the directory of a training, or a trained model as --init_checkpoint"
    )


def check_albert_directory(reads_model=True):
    """Raises UserError if --albert_directory does not hold the model to export.

    Args:
        reads_model: bool, whether the config and a checkpoint are needed.
    """
    check_exist("albert_directory", "card_file")
    check_text("card_file")
    directory = FLAGS.albert_directory
    if "://" in directory or not reads_model:
        return
    found = [os.path.join(directory, name) for name in _CONFIGS]
    found = [path for path in found if os.path.exists(path)]
    if not found:
        raise UserError(f"--albert_directory={directory} holds no {_CONFIGS[0]}: put it there")
    check_config(found[0])
    path = os.path.normpath(os.path.join(directory, FLAGS.checkpoint_name))
    if not glob.glob(f"{glob.escape(path)}*"):
        raise UserError(f"no checkpoint at {path}: give another --checkpoint_name")
