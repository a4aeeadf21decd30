# SPDX-License-Identifier: Apache-2.0
"""Flags made from groups of options, and checks of their values and of the files they name.

Nothing here imports TensorFlow. Only local paths are checked; remote ones when they are read.
"""

import glob
import os
import sys

from absl import flags

from albert_tf import models, options, resolve
from albert_tf.config import CONFIG_FILE, AlbertConfig, is_of_transformers
from albert_tf.errors import UserError, decode, parse_json, read_local
from albert_tf.publish import card_header

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


def read():
    """The settings of the parsed flags: resolve.Resolved, before any fact is known."""
    own = own_flags()
    rows = {
        flag.name: resolve.Row(
            flag.name, flag.default, flag.option.metadata | {"heading": flag.subject}
        )
        for flag in own
    }
    typed = {flag.name: _at_home(flag) for flag in own if flag.present}
    if typed.get("spm_model_file") and typed.get("vocab_file"):
        replaced = typed.pop("vocab_file")
        message = f"--vocab_file={replaced} is not used, as there is a --spm_model_file"
        print(message, file=sys.stderr)  # standard output may be for predictions
    return resolve.resolve(rows, typed)


def _at_home(flag):
    """The value of a flag; a shell does not expand the ~ of a path behind an equals sign."""
    value = flag.value
    if not flag.option.metadata["path"] or "~" not in str(value):
        return value
    if isinstance(value, list):
        return [*map(os.path.expanduser, value)]
    return ",".join(map(os.path.expanduser, value.split(",")))


def requirement(flag):
    """Returns the sentence of --help about a flag that must be given; "" for any other flag."""
    wanted = flag.option.metadata["required"]
    if wanted is True:
        return "Required."
    if wanted:
        *others, last = [f"--{name}" for name in wanted.split("|")]
        return f"Required for {', '.join(others)} or {last}." if others else f"Required for {last}."
    return ""


def note_obsolete_flags():
    """Prints a line for each given flag that has no effect: any more, or next to another one."""
    for flag in own_flags():
        if flag.subject == options.NO_EFFECT and flag.present:
            print(f"--{flag.name} has no effect any more: {flag.help[0].lower()}{flag.help[1:]}")


def define(*groups, without=(), **defaults):
    """Defines the flags of groups of options, each group under its heading.

    Args:
        *groups: classes of albert_tf.options.
        without: names of options that are left out.
        **defaults: default values that replace those of the options.
    """
    for group in groups:
        for field in options.options_of(group):
            if field.name in without:
                continue
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
            if field.metadata["required"] is True:
                flags.mark_flag_as_required(name)
            flag.help = text  # without absl's notes on choices and repetition
            flag.option, flag.group, flag.subject = field, group, group.heading
    assert not defaults, f"no options of these groups: {', '.join(defaults)}"


def check_values():
    """Raises UserError for invalid values and invalid combinations of values."""
    for group in dict.fromkeys(flag.group for flag in own_flags()):
        names = {field.name for field in options.options_of(group)}
        group(**{name: FLAGS[name].value for name in names if name in FLAGS})


# --- Files that flags name -----------------------------------------------------------------------


def check_filled(given, *names):
    """Raises UserError if a flag that is required, or one of those named, is typed and empty."""
    for name, value in given.typed().items():
        if value == "" and (name in names or given.rows[name].columns["required"] is True):
            raise UserError(f"--{name} is empty: give a value, such as ./{name}")


def check_paths(given, skip=()):
    """Raises UserError if a typed path that is read is of another kind, or not there.

    Args:
        given: resolve.Resolved.
        skip: sequence of str, names of flags that are not checked.
    """
    for name, value in given.typed().items():
        columns = given.rows[name].columns
        if not columns["path"] or name in skip or not given.is_read(name):
            continue
        paths = value.split(",") if columns["path"] == "files" else value
        for path in [paths] if isinstance(paths, str) else paths or ():
            if not path or "://" in path:
                continue
            if problem := _problem(columns["path"], path.strip()):
                raise UserError(f"--{name}{problem}")
            if columns["path"] == "config":
                check_config(path)
            if name == "card_file":
                card_header.split(decode(read_local(path), where := f"--{name}={path}"), where)


def _problem(kind, path):
    """Returns the rest of a message if a path of some kind is wrong, else None."""
    exists, is_directory = os.path.exists(path), os.path.isdir(path)
    packaged = models.paths().get(path)
    if packaged and not exists and kind in ("directory", "file", "config"):
        return f"={path} is a packaged model: its files are in {packaged}, so give their path"
    if kind == "directory" and not is_directory:
        return f"={path} is a file: give a directory" if exists else f"={path} is not a directory"
    is_file = kind in ("file", "config")
    if (is_file or kind == "output file") and is_directory:
        return f"={path} is a directory: give a file"
    if is_file and not exists:
        return f"={path}: there is no such file"
    is_there = path in models.paths() or glob.glob(f"{glob.escape(path)}*")
    if kind == "checkpoint" and not is_there:
        return f"={path}: there is no such checkpoint or directory{models.hint(path)}"
    # The libraries that read patterns differ on brackets and backslashes.
    if kind == "files" and path and not set(path) & set("[\\") and not glob.glob(path):
        return f": no file matches {path!r}"
    return None


def need_vocabulary(given, what):
    """Raises UserError if no vocabulary is typed.

    Args:
        given: resolve.Resolved.
        what: str, what is impossible without a vocabulary.
    """
    if not (given.spm_model_file or given.vocab_file):
        raise UserError(f"{what} needs a vocabulary: give --spm_model_file or --vocab_file")


def check_config(path):
    """Raises UserError if a local file is not a valid config."""
    content = read_local(path)
    if not is_of_transformers(parse_json(content, path)):
        AlbertConfig.from_json(content, path)


def holds_run(directory):
    """Whether a directory may hold checkpoints (bool); always True for remote ones."""
    folder = glob.escape(directory)
    found = glob.glob(f"{folder}/*.index") or glob.glob(f"{folder}/*/*.index")
    return "://" in directory or bool(found)


def check_run(given, *filled):
    """Raises UserError if the flags of a training or evaluation name no work or no model.

    If --output_dir holds a run, --init_checkpoint is not read.

    Args:
        given: resolve.Resolved.
        *filled: str, names of flags that may not be empty, besides those that are required.
    """
    check_filled(given, *filled)
    works = [name for name in (*options.WORK.split("|"), "export_dir") if name in given]
    if not any(given.get(name) for name in works):
        raise UserError(f"nothing to do: give {' or '.join(f'--{name}' for name in works)}")
    directory, module = given.output_dir, given.get("albert_hub_module_handle")
    is_run, ensemble = holds_run(directory), given.get("ensemble_dirs")
    for note in given.notes:
        print(f"{note}.")
    # A hub module has its own vocabulary, and the flags of one are then often placeholders.
    skip = ("init_checkpoint",) * is_run + ("spm_model_file", "vocab_file") * bool(module)
    check_paths(given, skip)
    if given.do_train and not is_run:  # otherwise the lengths are those of the run
        resolve.fitted(given)
    if is_run or ensemble or given.init_checkpoint:
        return
    if not given.do_train and not given.continuous_eval_timeout:
        what = "holds no checkpoint" if os.path.isdir(directory) else "does not exist"
        raise UserError(f"--output_dir={directory} {what}: give a training, or --init_checkpoint")
    if not module:
        resolve.resolve(given.rows, given.typed(), facts={})  # no file decides more
    if not given.do_train or module or "allow_random_init" not in given:
        return
    if not given.allow_random_init:
        raise UserError(options.NO_WEIGHTS)
    if not given.albert_config_file:
        raise UserError("give --albert_config_file or --albert_hub_module_handle")
    need_vocabulary(given, "training")


def check_albert_directory(given, reads_model=True):
    """Raises UserError if --albert_directory does not hold the model to export.

    Args:
        given: resolve.Resolved.
        reads_model: bool, whether the config and a checkpoint are needed.
    """
    check_filled(given, "checkpoint_name")
    check_paths(given)
    directory = given.albert_directory
    if "://" in directory or not reads_model:
        return
    found = [os.path.join(directory, name) for name in _CONFIGS]
    found = [path for path in found if os.path.exists(path)]
    if not found:
        raise UserError(f"--albert_directory={directory} holds no {_CONFIGS[0]}: put it there")
    check_config(found[0])
    path = os.path.normpath(os.path.join(directory, given.checkpoint_name))
    patterns = [f"{glob.escape(path)}*"]
    if given.origin("checkpoint_name") == resolve.DEFAULT:
        patterns = [f"{glob.escape(directory)}/*{ending}" for ending in (".index", ".safetensors")]
    if not any(map(glob.glob, patterns)):
        raise UserError(f"no checkpoint at {path}: give another --checkpoint_name")


def exported_checkpoint(given):
    """Path of --checkpoint_name; by default the best of a training, or else its newest one."""
    from albert_tf.checkpoints import source

    if given.origin("checkpoint_name") == resolve.DEFAULT:
        return source.find(given.albert_directory, takes_exports=True).checkpoint
    return os.path.join(given.albert_directory, given.checkpoint_name)
