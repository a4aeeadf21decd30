# SPDX-License-Identifier: Apache-2.0
"""Loads checkpoints into models, and reports which variables were loaded.

A file that does not fill the whole encoder is rejected. Variables that stay random are reported.
"""

import dataclasses
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import name_table, readers, run_directory
from albert_tf.errors import UserError

_LAYER = re.compile(r"layer|LayerNorm|embedding", re.IGNORECASE)  # in names of other encoders


@dataclasses.dataclass(frozen=True)
class Report:
    """Result of loading a checkpoint into a model; names are the original's."""

    prefix: str
    loaded: tuple
    missing: tuple
    unused: tuple
    wrong_shape: tuple  # of (name, shape in the file, shape in the model)

    @property
    def not_loaded(self):
        """Variables of the model that the file lacks or has in another shape: list of str."""
        return [*self.missing, *(name for name, _, _ in self.wrong_shape)]

    @property
    def unused_weights(self):
        """Unused variables that are neither optimizer slots nor the state of a run: list of str."""
        return [name for name in self.unused if name_table.is_weight(name)]

    def __str__(self):
        slots = sum(map(name_table.is_slot, self.unused))
        lines = [f"loaded {len(self.loaded)} variables from {self.prefix}"]
        if self.missing:
            lines.append(f"  not in it, initialized randomly: {', '.join(self.missing)}")
        lines += [
            f"  not loaded, shape {shape} in the file and {wanted} in the model: {name}"
            for name, shape, wanted in self.wrong_shape
        ]
        if slots:
            lines.append(f"  not read: {slots} optimizer slots, which only resuming needs")
        if self.unused_weights:
            lines.append(f"  not used: {', '.join(self.unused_weights)}")
        return "\n".join(lines)


def load(
    path: str | os.PathLike[str],
    named: dict[str, Any],
    init_from_group0: bool = False,
    reads_pooler: bool = True,
) -> Report:
    """Loads the weights of a checkpoint from any source; moments and step are not changed.

    Args:
        path: str or os.PathLike, anything that `run_directory.find` takes.
        named: dict from `named_variables`.
        init_from_group0: bool, whether to fill every parameter group from group 0 of the file.
        reads_pooler: bool, whether the model's head reads the pooler. If not, the file may lack
            the pooler, as with some classes of transformers, and the pooler stays as it is.

    Returns:
        Report.

    Raises:
        UserError: the file lacks part of the encoder, holds it in other shapes, or holds something
            other than finite numbers.
    """
    reader = readers.open_reader(run_directory.find(os.fspath(path)))
    sources = {name: name_table.in_group0(name) if init_from_group0 else name for name in named}
    report = _compare(reader, _shapes(named), sources)
    _check_weights(report, reads_pooler)
    _assign(reader, sources, {name: named[name] for name in report.loaded})
    return report


def load_all(path, named, reads_pooler=True):
    """Loads all variables of a model, including heads, from one of its own checkpoints.

    Args:
        path: str, anything that `run_directory.find` takes.
        named: dict from `named_variables`.
        reads_pooler: bool, as in `load`.

    Returns:
        Report.

    Raises:
        UserError: a variable is missing, has another shape or holds values that are not finite; or
            the checkpoint holds variables of an encoder that the model does not have.
    """
    report = load(path, named, reads_pooler=reads_pooler)
    absent = report.not_loaded
    if {*absent} - {*name_table.POOLER}:
        raise UserError(f"{path} lacks {', '.join(absent)}: give a complete checkpoint")
    check_fit(report)
    return report


def check_fit(report, wrong=()):
    """Raises UserError if a checkpoint holds variables of an encoder that the model does not have.

    Args:
        report: Report.
        wrong: sequence of str, other variables that do not fit.
    """
    names = [*wrong, *filter(name_table.is_encoder, report.unused_weights)]
    if names:
        raise UserError(
            f"{report.prefix} is of another config: this one has no place for {', '.join(names)}"
        )


class WeightsOnlyError(UserError):
    """A checkpoint holds no moments, such as one that is kept for evaluation."""


def restore(prefix, state, optional=None):
    """Restores the complete state of a training: variables, moments and step.

    Args:
        prefix: str, from `run_directory.find`; of this project or a training run of the original.
        state: dict from `training_variables`.
        optional: dict of name -> variable, variables that the file may lack.

    Raises:
        WeightsOnlyError: the checkpoint holds no moments.
        UserError: something else is missing, has another shape or is not a finite number.
    """
    reader = readers.TensorFlowReader(prefix)
    optional = optional or {}
    state = {
        name: variable
        for name, variable in (state | optional).items()
        if name not in optional or name in reader.shapes
    }
    same = {name: name for name in state}
    report = _compare(reader, _shapes(state), same)
    missing = report.missing
    if missing:
        only_weights = missing == tuple(filter(name_table.is_slot, state))
        error = WeightsOnlyError if only_weights else UserError
        raise error(
            f"training cannot resume from {prefix}: it lacks {len(missing)} of {len(state)} "
            f"variables ({', '.join(missing[:3])}{', ...' if missing[3:] else ''}). To start from "
            "its weights, give it as --init_checkpoint, and another --output_dir"
        )
    if report.wrong_shape:
        name, shape, wanted = report.wrong_shape[0]
        raise UserError(
            f"training cannot resume from {prefix}: {name} has shape {shape} there and {wanted} in "
            "this model. Check --albert_config_file"
        )
    _assign(reader, same, state)


# --- Reading weights for export ------------------------------------------------------------------


def read_weights(path, named):
    """Reads all weights of a checkpoint of any source.

    Args:
        path: str, anything that `run_directory.find` takes.
        named: dict from `named_variables` of a `heads.PretrainingModel`, which tells the shapes.

    Returns:
        (dict of original name -> float32 array, a complete encoder and any heads; Report, in which
        weights are unused only if the name table does not know them).

    Raises:
        UserError: the encoder is incomplete or does not fit the config, or a weight is not finite.
    """
    reader = readers.open_reader(run_directory.find(path))
    shapes = _shapes(named)
    others = (name_table.OF_HEADS & reader.shapes.keys()) - shapes.keys()
    shapes |= {name: reader.shapes[name] for name in sorted(others)}
    report = _compare(reader, shapes, {name: name for name in shapes})
    _check_weights(report)
    check_fit(report, [name for name, _, _ in report.wrong_shape])
    return {name: _read_weight(reader, name) for name in report.loaded}, report


# --- Values and shapes ---------------------------------------------------------------------------


def step_in(prefix):
    """Step of a checkpoint, from its content or else from its name; 0 if unknown."""
    reader = readers.open_reader(prefix)
    if name_table.GLOBAL_STEP in reader.shapes:
        return _read_whole_number(reader, name_table.GLOBAL_STEP)
    return run_directory.step_of(prefix) or 0


def seed_in(prefix):
    """Seed of the run that wrote a checkpoint (int); None if unknown or the file is damaged."""
    try:
        reader = readers.open_reader(prefix)
        return _read_whole_number(reader, "seed") if "seed" in reader.shapes else None
    except readers.DamagedError:
        return None


def _read_weight(reader, name):
    """Reads a weight as float32; raises UserError if it is not finite floating-point numbers."""
    value = reader[name]
    dtype = tf.as_dtype(value.dtype)
    if not dtype.is_floating:
        raise UserError(
            f"{name} in {reader.prefix} is of type {dtype.name} and so no weight: give another file"
        )
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite
        value = value.astype(np.float32)
    if not np.isfinite(value).all():
        raise UserError(
            f"{name} in {reader.prefix} holds nan or infinite values: give an earlier checkpoint"
        )
    return value


def _read_whole_number(reader, name):
    """Reads a whole number (int); raises UserError if the value is something else."""
    value = reader[name]
    dtype = tf.as_dtype(value.dtype)
    number = value.item() if value.size == 1 and (dtype.is_integer or dtype.is_floating) else -1
    if value.ndim or not (0 <= number < 2**63 and number == int(number)):
        raise UserError(
            f"{name} in {reader.prefix} must be a whole number of at least 0. Received: "
            f"{str(value)[:80]} of type {dtype.name}, shape {list(value.shape)}"
        )
    return int(number)


def _assign(reader, sources, variables):
    """Assigns values of a file to variables, after a check of all values.

    Values are read twice: a rejected file must not change anything, and keeping all values would
    double the memory.
    """

    def read(name, variable):
        read_one = _read_whole_number if variable.dtype.is_integer else _read_weight
        return read_one(reader, sources[name])

    for name, variable in {sources[item[0]]: item for item in variables.items()}.values():
        read(name, variable)
    for name, variable in variables.items():
        variable.assign(read(name, variable))


def _shapes(variables):
    return {name: variable.shape.as_list() for name, variable in variables.items()}


def _compare(reader, shapes, sources):
    found = {name: reader.shapes.get(source) for name, source in sources.items()}
    return Report(
        prefix=reader.prefix,
        loaded=tuple(name for name in shapes if found[name] == shapes[name]),
        missing=tuple(name for name in shapes if found[name] is None),
        unused=tuple(sorted(reader.shapes.keys() - sources.values())),
        wrong_shape=tuple(
            (name, found[name], shapes[name])
            for name in shapes
            if found[name] not in (None, shapes[name])
        ),
    )


def _check_weights(report, reads_pooler=True):
    """Raises UserError if the encoder is not complete, or the masked-LM head is none of ALBERT."""
    _check_encoder_complete(report, reads_pooler)
    has_masked_lm = not {*name_table.HEAD_NAMES["masked_lm"]}.isdisjoint(report.loaded)
    if has_masked_lm and readers.DECODER in report.unused:
        raise UserError(
            f"{report.prefix} has output weights of its own, {readers.DECODER}, and ALBERT takes "
            "the word embeddings: start a fine-tuning from it, or set tie_word_embeddings = True "
            "in transformers, call model.tie_weights(), save it, and go on with pre-training"
        )


def _check_encoder_complete(report, reads_pooler):
    if not any(map(name_table.is_known, (*report.loaded, *report.unused))):
        names = ", ".join(report.unused_weights[:3])
        raise UserError(
            f"{report.prefix} has no variable of ALBERT by a name that albert_tf knows. It has "
            f"{names or 'none'}. Give a checkpoint of google-research/albert, TensorFlow Hub, "
            "transformers or albert_tf. If Keras saved your own model, model.load_weights reads "
            "this file; `save` of albert_tf.load(path) makes a directory with all that is needed"
        )
    missing = [name for name in report.missing if name_table.is_encoder(name)]
    reshaped = [row for row in report.wrong_shape if name_table.is_encoder(row[0])]
    if {*missing} == {*name_table.POOLER} and not reshaped:
        has_order = not {*name_table.HEAD_NAMES["sentence_order"]}.isdisjoint(report.loaded)
        if not (reads_pooler or has_order):
            return
        raise UserError(
            f"{report.prefix} has no pooler, which this model needs: give a checkpoint of a "
            "pre-training. In transformers, AlbertModel and AlbertForPreTraining have a pooler"
        )
    if missing or reshaped:
        raise UserError(_on_misfits(report, missing, reshaped))


def _on_misfits(report, missing, reshaped):
    """What a file lacks of the encoder, or has in another shape, with a remedy: str."""
    found = sum(name_table.is_encoder(name) for name in report.loaded)
    lines = [
        f"{report.prefix} does not fill the encoder of this config: {found} variables fit, "
        f"{len(missing)} are missing, {len(reshaped)} have another shape."
    ]
    lines += [f"  missing: {name}" for name in missing]
    lines += [f"  shape {shape} in the file, {want} here: {name}" for name, shape, want in reshaped]
    from_group0 = [name for name in missing if name_table.in_group0(name) in report.loaded]
    others = [n for n in report.unused_weights if _LAYER.search(n) and not name_table.is_known(n)]
    if missing == from_group0 and not reshaped:
        remedy = "run_pretraining.py --init_from_group0 fills every parameter group from group 0."
    elif missing and others:
        remedy = (
            f"It has other layers, such as {others[0]}: give one of google-research/albert, "
            "such as those of download_model.py."
        )
    else:
        remedy = "Check that --albert_config_file belongs to this checkpoint."
    return "\n".join([*lines, remedy])
