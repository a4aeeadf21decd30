# SPDX-License-Identifier: Apache-2.0
"""Flags that several scripts share, and the checks of their values."""

import contextlib
import dataclasses
import sys

from absl import flags

from albert_tf.choices import PRECISIONS, STRATEGIES
from albert_tf.errors import UserError

FLAGS = flags.FLAGS

INT32_MAX = 2**31 - 1  # what TensorFlow's loops count in

# The original's flags without any meaning left (D20): name -> (default, what to know instead).
_OBSOLETE = {
    "master": (None, "--tpu_name takes a TPU's grpc address"),
    "num_tpu_cores": (8, "all cores of the TPU are used"),
    "predict_feature_left_file": (None, "what it held is computed in every run"),
    "use_einsum": (True, "there is one implementation, with the same results"),
}


@contextlib.contextmanager
def subject(title):
    """Puts the flags that are defined within it under a heading of --help.

    Args:
        title: str.
    """
    before = set(FLAGS)
    yield
    for name in FLAGS:
        if name not in before and not hasattr(FLAGS[name], "subject"):
            FLAGS[name].subject = title


def own_flags():
    """The script's flags, and none of the libraries: list of flags, in the order of definition."""
    return [FLAGS[name] for name in FLAGS if hasattr(FLAGS[name], "subject")]


def is_required(flag):
    """Whether a script ends with an error where the flag is not given."""
    return any("must have a value" in rule.message for rule in flag.validators)


@subject("Accepted and without effect")
def define_obsolete_flags(*names):
    """Defines flags that are accepted and do nothing; `note_obsolete_flags` says so."""
    for name in names:
        default, instead = _OBSOLETE[name]
        define = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer}
        text = f"{instead[0].upper()}{instead[1:]}."
        define.get(type(default), flags.DEFINE_string)(name, default, text)


def note_obsolete_flags():
    """Prints a line for each flag without effect that the user gave."""
    for name, (_, instead) in _OBSOLETE.items():
        if name in FLAGS and FLAGS[name].present:
            print(f"--{name} has no effect any more: {instead}.")


@subject("Devices and seed")
def define_device_flags():
    """Flags on devices, precision and chance, with the Model Garden's names."""
    flags.DEFINE_enum(
        "distribution_strategy",
        "one_device",
        STRATEGIES,
        "Where to train: one_device (a GPU if there is one), mirrored (all GPUs of this machine), "
        "multi_worker_mirrored (machines named in TF_CONFIG), tpu, or off.",
    )
    flags.DEFINE_integer("num_gpus", None, "GPUs to use; all by default.")
    flags.DEFINE_bool("use_tpu", False, "Same as --distribution_strategy=tpu.")
    flags.DEFINE_string("tpu_name", None, "Cloud TPU name or grpc address; none for a local TPU.")
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU, if it cannot be found out.")
    flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU, if it cannot be found out.")
    flags.DEFINE_enum(
        "dtype",
        "fp32",
        PRECISIONS,
        "Computation type; variables stay in fp32. bf16 for TPUs and new CPUs, fp16 for GPUs; tf32 "
        "is fp32 with faster, less exact products on GPUs.",
    )
    flags.DEFINE_bool(
        "enable_xla", False, "Compile the step of training with XLA; a TPU always does."
    )
    flags.DEFINE_integer(
        "seed",
        None,
        "Fixes weights, dropout and the order of records. By default the seed of the run that is "
        "resumed, or a new one.",
    )


def values_of(kind, **others):
    """A dataclass with the values of the flags that are named as its fields.

    Args:
        kind: the dataclass.
        **others: values of fields that have no flag of their name.

    Raises:
        UserError: the dataclass refuses a value.
    """
    names = {field.name for field in dataclasses.fields(kind)} - others.keys()
    return kind(**{name: FLAGS[name].value for name in names}, **others)


def check_at_least(smallest, *names):
    """Raises UserError for a flag with a smaller value, infinity or beyond int32; None is none."""
    for name in names:
        value = FLAGS[name].value
        if value is not None and not value >= smallest:  # nan is neither
            raise UserError(f"--{name} must be at least {smallest}. Received: {value}")
        largest = INT32_MAX if isinstance(value, int) else sys.float_info.max
        if value is not None and value > largest:
            raise UserError(f"--{name} must be at most {largest}. Received: {value}")


def check_between(smallest, largest, *names):
    """Raises UserError for a flag whose value lies outside the two."""
    for name in names:
        if not smallest <= FLAGS[name].value <= largest:  # nan is not between
            raise UserError(
                f"--{name} must lie between {smallest} and {largest}. Received: {FLAGS[name].value}"
            )


def check_not_empty(*names):
    """Raises UserError for a flag of a path that is given and empty."""
    for name in names:
        if FLAGS[name].value == "":
            raise UserError(f"--{name} is empty: give a path, such as ./{name}")
