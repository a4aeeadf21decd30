# SPDX-License-Identifier: Apache-2.0
"""Checks of the files that flags name, before TensorFlow is imported.

Only local paths are checked. Remote paths are checked when they are read.
"""

import glob
import os

from absl import flags

from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError, parse_json

FLAGS = flags.FLAGS


def check_exist(*names):
    """Raises UserError if a given flag names something that does not exist.

    Args:
        *names: str, names of flags for files, directories, patterns or checkpoints to read.
    """
    for name in names:
        value, kind = FLAGS[name].value, FLAGS[name].option.metadata["path"]
        paths = value.split(",") if kind == "files" and value else value
        for path in [paths] if isinstance(paths, str) else paths or ():
            if path and "://" not in path:
                _CHECKS[kind](f"--{name}={path}", path.strip())


def _check_file(given, path):
    if os.path.isdir(path):
        raise UserError(f"{given} is a directory: give a file")
    if not os.path.exists(path):
        raise UserError(f"{given}: there is no such file")


def _check_directory(given, path):
    if not os.path.isdir(path):
        what = "is a file: give a directory" if os.path.exists(path) else "is no directory"
        raise UserError(f"{given} {what}")


def _check_pattern(given, path):
    # The libraries that read patterns differ on brackets and backslashes.
    if path and not set(path) & set("[\\") and not glob.glob(path):
        name = given.partition("=")[0]
        raise UserError(f"{name}: no file matches {path!r}")


def _check_checkpoint(given, path):
    if not glob.glob(f"{glob.escape(path)}*"):
        raise UserError(f"{given}: there is no such checkpoint or directory")


_CHECKS = {
    "file": _check_file,
    "directory": _check_directory,
    "files": _check_pattern,
    "checkpoint": _check_checkpoint,
}


def check_config(path):
    """Raises UserError if a file is not a valid config.

    Args:
        path: str; None and remote paths are not checked.
    """
    if path and "://" not in path and os.path.isfile(path):
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        values = parse_json(content, path)
        if not isinstance(values, dict) or "model_type" not in values:  # of transformers
            AlbertConfig.from_json(content, path)


def holds_run(directory):
    """Whether a directory may hold checkpoints (bool); always True for remote ones."""
    folder = glob.escape(directory)
    found = glob.glob(f"{folder}/*.index") or glob.glob(f"{folder}/*/*.index")
    return "://" in directory or bool(found)


def check_run():
    """Raises UserError if there is neither a run in --output_dir nor --init_checkpoint."""
    directory = FLAGS.output_dir
    if FLAGS.init_checkpoint or FLAGS.continuous_eval_timeout or holds_run(directory):
        return
    what = "" if os.path.isdir(directory) else "does not exist, so it "
    predicts = "do_predict" in FLAGS and FLAGS.do_predict
    evaluates = "do_eval" in FLAGS and FLAGS.do_eval
    needs = "predict with" if predicts else "evaluate" if evaluates else "export"
    raise UserError(
        f"--output_dir={directory} {what}holds no checkpoint to {needs}: give the directory of a "
        "training, or a trained model as --init_checkpoint"
    )


def check_albert_directory(configs):
    """Raises UserError if --albert_directory does not hold the model to export.

    Args:
        configs: sequence of str, possible names of the config; empty if none is needed.
    """
    directory = FLAGS.albert_directory
    if os.path.isfile(directory):
        raise UserError(
            f"--albert_directory={directory} is a file: give the directory that holds it"
        )
    check_exist("albert_directory")
    if "://" in directory or not configs:
        return
    found = [os.path.join(directory, name) for name in configs]
    found = [path for path in found if os.path.exists(path)]
    if not found:
        raise UserError(f"--albert_directory={directory} holds no {configs[0]}: put it there")
    check_config(found[0])
    path = os.path.normpath(os.path.join(directory, FLAGS.checkpoint_name))
    if not glob.glob(f"{glob.escape(path)}*"):
        raise UserError(f"no checkpoint at {path}: give another --checkpoint_name")
