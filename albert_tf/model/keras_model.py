# SPDX-License-Identifier: Apache-2.0
"""Base class of all models, which Keras can save and load, and checkpoints can fill."""

import os
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.checkpoints import loading, name_table, readers, source
from albert_tf.config import AlbertConfig
from albert_tf.errors import CalledElsewhere, UserError

PACKAGE = "albert_tf"  # prefix of class names in Keras files
# Input -> its names here, in the original's records or transformers, in TF Hub, and in KerasHub.
_NAMES = {
    "input_ids": ("input_ids", "input_word_ids", "token_ids"),
    "input_mask": ("input_mask", "attention_mask", "padding_mask"),
    "token_type_ids": ("token_type_ids", "segment_ids", "input_type_ids"),
}


def serializable(kind):
    """Registers a class or function, so that `tf_keras.models.load_model` knows it."""
    return tf_keras.saving.register_keras_serializable(PACKAGE)(kind)


class ConfiguredModel(tf_keras.Model):
    """A model made from an AlbertConfig and a few options; it has its variables from the start.

    Args:
        config: AlbertConfig.
        options: dict, the other arguments of the constructor by name.
        **kwargs: arguments of tf_keras.Model: name, trainable, dtype.

    Attributes:
        reads_pooler: bool, whether the outputs of the head depend on the pooler.
        classes_option: str or None, the argument that sets the number of a classifier's outputs.
    """

    from_pretrained = CalledElsewhere("from_checkpoint(path)")
    save_pretrained = CalledElsewhere("albert_tf.load(path).save(directory, model, labels)")
    reads_pooler = False
    classes_option: str | None = None

    def __init__(self, config: AlbertConfig, options: Mapping[str, Any], **kwargs: Any) -> None:
        if not isinstance(config, AlbertConfig):
            raise UserError(
                f"config must be an AlbertConfig; for the weights of a path, write "
                f"{type(self).__name__}.from_checkpoint(path). Received: {config!r:.80}"
            )
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self._options = tuple(options.items())
        self._frozen: tuple[int, ...] | None = None
        self.built = True  # the constructors of the layers make all variables

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Like `fit` of tf_keras.Model, but refuses texts, which would fail deep in a graph.

        It warns of a loss that takes probabilities. `compile` does not: Keras compiles no model
        that it loads if this method is not its own.
        """
        _refuse_texts(x)
        for each in tf.nest.flatten(getattr(self, "loss", None)):
            name = each if isinstance(each, str) else getattr(each, "name", "") or ""
            takes_logits = getattr(each, "_fn_kwargs", {}).get("from_logits")
            if name.endswith("crossentropy") and not takes_logits:
                kind = "".join(word.capitalize() for word in name.split("_"))
                warnings.warn(
                    f"loss={name} takes probabilities, but this model gives logits, so it would "
                    f"learn badly: give tf_keras.losses.{kind}(from_logits=True)",
                    stacklevel=2,
                )
        return super().fit(x, *args, **kwargs)

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Like `evaluate` of tf_keras.Model, but refuses texts."""
        _refuse_texts(x)
        return super().evaluate(x, *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Like `predict` of tf_keras.Model, but refuses texts."""
        _refuse_texts(x)
        return super().predict(x, *args, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        """Does nothing: the variables exist already."""

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON values."""
        return {
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self.dtype_policy.name,
            "config": self.config.to_dict(),
            **dict(self._options),
            "frozen": [number for number, part in enumerate(self._parts()) if not part.trainable],
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a model from the result of `get_config`, with random weights."""
        config = config | {"config": AlbertConfig.from_dict(config["config"])}
        frozen = config.pop("frozen", ())
        model = cls(**config)
        model._freeze(frozen)
        model._frozen = tuple(frozen)
        return model

    def finalize_state(self) -> None:
        """Freezes layers again: for a SavedModel, Keras sets `trainable` after `from_config`."""
        if hasattr(self, "_serialized_attributes") and self._frozen is not None:
            self._freeze(self._frozen)
            self._frozen = None

    def _freeze(self, frozen):
        for number, part in enumerate(self._parts()):
            part.trainable = number not in frozen  # also sets its sublayers, which come later

    def _parts(self):
        """All layers, each before its sublayers, in the order of the constructors."""
        layers = [layer for own in self.layers for layer in (own, *own.submodules)]
        return [
            layer
            for layer in layers
            if isinstance(layer, tf_keras.layers.Layer)
            and not isinstance(layer, tf_keras.metrics.Metric)
        ]

    @classmethod
    def from_checkpoint(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """Makes a model with the weights of any source; prints which weights are loaded.

        Args:
            path: str, a release or training directory, a checkpoint's prefix, or the directory of a
                hub module or of the transformers library. In a fine-tuned directory, the best
                checkpoint is used.
            **options: arguments of the constructor. `config` (AlbertConfig) is needed if the source
                has none, and the number of outputs if the source has no such head.

        Returns:
            The model. A head that the source lacks starts from random weights.

        Raises:
            UserError: there is no checkpoint or no config, or the encoder does not fit.
        """
        found = source.find(path)
        config = options.pop("config", None) or found.read_config()
        shapes = readers.open_reader(found.checkpoint).shapes
        weights = shapes.get(name_table.HEAD_NAMES["classifier"][0])
        if weights and cls.classes_option:
            options = {cls.classes_option: weights[0]} | options
        elif cls.classes_option and cls.classes_option not in options:
            raise UserError(f"{found.checkpoint} has no such head: give {cls.classes_option}")
        model = cls(config, **options)
        named = name_table.named_variables(model)
        print(loading.load(found.checkpoint, named, reads_pooler=cls.reads_pooler))
        return model


def _refuse_texts(x):
    """Raises UserError if the argument of `fit` or `predict` has no input of a model."""
    spec = getattr(x, "element_spec", x)  # of a tf.data.Dataset
    spec = spec[0] if isinstance(spec, tuple) and spec else spec
    if isinstance(spec, str | list | tuple | np.ndarray | tf.Tensor | tf.TensorSpec):
        model_inputs(spec)


def model_inputs(features, may_be_apart=False):
    """The ids, mask and token types in a dict of features, by AlbertModel's names.

    Args:
        features: dict of tensors or arrays [B, T] of any type of numbers: input_ids, input_mask and
            token_type_ids, or other names for them; the last two may be None or have one row.
        may_be_apart: bool, whether they may be [B, N, T] too, for N sequences in a row.

    Returns:
        dict of input_ids int32, input_mask float32 and token_type_ids int32, of the given shapes;
        the last two may be None.

    Raises:
        UserError: there are no input_ids, or a feature has another shape.
    """
    found = {"input_ids": required(features, "input_ids")}
    shape = found["input_ids"].shape
    for name in ("input_mask", "token_type_ids"):
        found[name] = _feature(features, name)
    for name, values in found.items():
        if values is None:
            continue
        is_row = shape.rank in (None, 2) or (may_be_apart and shape.rank == 3)
        rows, row = values.shape[:1], values.shape[1:]
        has_rows = rows.is_compatible_with(shape[:1]) or rows.is_compatible_with([1])
        if not (is_row and has_rows and row.is_compatible_with(shape[1:])):
            raise UserError(
                f"{name} must have the shape [batch, length], as input_ids; a batch may have one "
                f"row, and .batch(32) makes batches of a tf.data.Dataset. Received: {values.shape}"
            )
    return found


def required(features, name):
    """A feature that a model cannot do without: a tensor, as of `_feature`.

    Args:
        features: dict of tensors or arrays.
        name: str.

    Raises:
        UserError: `features` is no dict, or has no such feature.
    """
    is_mapping = isinstance(features, Mapping)
    found = _feature(features, name) if is_mapping else None
    if found is not None:
        return found
    received = ", ".join(map(str, features)) if is_mapping else type(features).__name__
    raise UserError(
        f"there is no {name}: a model takes a dict of input_ids, input_mask and token_type_ids, "
        "as FullTokenizer gives it; the methods of albert_tf.load(path) take texts. "
        f"Received: {received}"
    )


def _feature(features, name):
    """A feature as a tensor, int32 or (`input_mask`) float32; None if there is none.

    NumPy and TFRecords have int64.
    """
    names = _NAMES.get(name, (name,))
    found = next((features[each] for each in names if features.get(each) is not None), None)
    if isinstance(found, tf.RaggedTensor):
        raise UserError(f"{name} is ragged: give {name}.to_tensor(), and input_mask")
    if found is None:
        return None
    return tf.cast(found, tf.float32 if name == "input_mask" else tf.int32)
