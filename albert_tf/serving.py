# SPDX-License-Identifier: Apache-2.0
"""Fine-tuned models as SavedModels and TFLite files: ids in or text in, predictions out.

Signatures: `serving_default` (what the original's has), `text`, and `embeddings`, the encoder's
output for text; classifiers have `ids` besides.

B examples, T pieces, C classes, F windows of paragraphs, of each s starts and e ends, H hidden.
"""

import os
import tempfile
import time
import warnings
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import checkpoints, export, files, heads

IDS = ("input_ids", "input_mask", "segment_ids")
LABELS_FILE = "labels.txt"
TFLITE_NAMES = {  # the first one is the original's
    "float": "albert_model.tflite",
    "float16": "albert_model_float16.tflite",
    "int8": "albert_model_int8.tflite",
}

SAMPLES = 8  # sequences on which a TFLite file is compared with the model


# --- Signatures --------------------------------------------------------------------------------


def _function(call, signature):
    """A function of named tensors, traced."""
    specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in signature.items()}
    return tf.function(call, autograph=False).get_concrete_function(**specs)


def _ids(names, shape=(None, None)):
    return {name: tf.TensorSpec(shape, tf.int32) for name in names}


def _encoded(encoder, features):
    """Pooled output [B, H] and sequence output [B, T, H], with the mask that tells the padding."""
    found = encoder(
        features["input_ids"],
        input_mask=features["input_mask"],
        token_type_ids=features["segment_ids"],
        training=False,
    )
    outputs = {name: found[name] for name in ("pooled_output", "sequence_output")}
    return outputs | {"input_mask": features["input_mask"]}


class ClassifierFunctions:
    """What is served of a classifier, a regressor or a choice among options (section g.6).

    `serving_default` takes `input`, serialized tf.Examples with int64 input_ids, input_mask and
    segment_ids; `ids` takes these as int32 [B, T], of options [B, 4 * T]; `text` takes what `texts`
    does. They return `predictions` int32 [B] and `probabilities` float32 [B, C]; in regression the
    score under both names, [B] and [B, 1]. `text` names the `label`, string [B], too.

    Args:
        model: heads.ClassificationModel or heads.MultipleChoiceModel with its weights.
        texts: text_inputs.SentencePairs or text_inputs.Options.
        labels: sequence of C str; None in regression.
        threshold: float or None; given back as `threshold`, for those who decide by it.
    """

    ids = IDS

    def __init__(self, model, texts, labels, threshold=None):
        self._model, self.texts, self._labels, self._threshold = model, texts, labels, threshold

    def signatures(self):
        """Dict of name -> concrete function."""
        serialized = {"input": tf.TensorSpec([None], tf.string)}
        return {
            "serving_default": _function(self._of_serialized, serialized),
            "ids": _function(self.of_ids, _ids(IDS)),
            "text": _function(self._of_text, self.texts.signature),
            "embeddings": _function(self._embeddings, self.texts.signature),
        }

    def of_ids(self, **features):
        """Predictions for ids."""
        logits = self._model(features, training=False)["logits"]
        if self._labels is None:
            found = {"predictions": logits[:, 0], "probabilities": logits}
        else:
            found = {
                "predictions": tf.argmax(logits, axis=-1, output_type=tf.int32),
                "probabilities": tf.nn.softmax(logits),
            }
        if self._threshold is not None:
            found["threshold"] = tf.constant(self._threshold, tf.float32)
        return found

    def _of_serialized(self, input):  # the original's name
        rows = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in IDS}
        parsed = tf.io.parse_example(input, rows)
        lengths = parsed["input_ids"].row_lengths()
        same = [
            tf.debugging.assert_equal(
                parsed[name].row_lengths(),
                lengths // self.texts.choices * self.texts.choices,
                "input_ids, input_mask and segment_ids of an example must be equally long, and "
                f"hold {self.texts.choices} sequence(s) of one length",
            )
            for name in IDS
        ]
        with tf.control_dependencies(same):
            return self.of_ids(**{name: self._batched(parsed[name]) for name in IDS})

    def _batched(self, rows):
        """Rows of one or more sequences (ragged [B, (choices * T)]), each padded: int32."""
        choices = self.texts.choices
        lengths = tf.repeat(rows.row_lengths() // choices, choices)
        longest = tf.reduce_max(tf.concat([lengths, [1]], axis=0))
        sequences = tf.RaggedTensor.from_row_lengths(rows.values, lengths)
        padded = sequences.to_tensor(shape=tf.stack([-1, longest]))
        return tf.cast(tf.reshape(padded, tf.stack([rows.nrows(), choices * longest])), tf.int32)

    def _of_text(self, **texts):
        found = self.of_ids(**self.texts(**texts))
        if self._labels is not None:
            found["label"] = tf.gather(tf.constant(self._labels), found["predictions"])
        return found

    def _embeddings(self, **texts):
        features = self.texts(**texts)
        rows = tf.shape(features["input_ids"])[0]
        each = {
            name: tf.reshape(values, [rows * self.texts.choices, -1])
            for name, values in features.items()
        }
        found = _encoded(self._model.encoder, each)
        if self.texts.choices == 1:
            return found
        return {
            name: tf.reshape(values, [rows, self.texts.choices, *_sizes(values)[1:]])
            for name, values in found.items()
        }


def _sizes(tensor):
    """Sizes of a tensor, numbers where they are known."""
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]


class AnswerSettings(NamedTuple):
    """How an answer is chosen, named as the flags.

    Attributes:
        n_best_size: int, starts and ends of a window; in version 2 the model's beams say.
        max_answer_length: int, in pieces.
        null_threshold: float or None; questions whose no-answer logit is not below it get "".
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    null_threshold: float | None = None


class _Spans(NamedTuple):
    """Spans of windows: starts and their scores [F, s], ends and theirs [F, s or 1, e]."""

    starts: tf.Tensor
    start_scores: tf.Tensor
    ends: tf.Tensor
    end_scores: tf.Tensor


class SquadFunctions:
    """What is served of a SQuAD model of either version (section j.3).

    `serving_default` takes int32 [B, T] input_ids, input_mask and segment_ids, in version 2 p_mask
    as well, and returns what the model's head does; in version 1 under the original's names,
    `start_log_prob` and `end_log_prob` [B, T]. `text` takes `question` and `context`, string [B],
    cuts long contexts into windows and returns `answer` string [B], where it stands in the context
    (`start` and `end`, int32 [B], characters, the end exclusive) and its `score` float32 [B]; in
    version 2 also `no_answer_score` [B] and `threshold`: an answer is "" where the former is not
    below the latter. `embeddings` has a row for each window, of question `example`.

    Args:
        model: heads.SquadV1Model (without predicted_length) or heads.SquadV2Model.
        texts: text_inputs.Paragraphs.
        settings: AnswerSettings.
    """

    def __init__(self, model, texts, settings):
        self._model, self.texts, self._settings = model, texts, settings
        self._has_negatives = isinstance(model, heads.SquadV2Model)
        self.ids = (*IDS, "p_mask") if self._has_negatives else IDS

    def signatures(self):
        """Dict of name -> concrete function."""
        return {
            "serving_default": _function(self._of_ids_renamed, _ids(self.ids)),
            "text": _function(self._of_text, self.texts.signature),
            "embeddings": _function(self._embeddings, self.texts.signature),
        }

    def of_ids(self, **features):
        """The head's outputs for ids."""
        return self._model(features, training=False)

    def _of_ids_renamed(self, **features):
        found = self.of_ids(**features)
        return {
            name.replace("_logits", "_log_prob") if not self._has_negatives else name: values
            for name, values in found.items()
        }

    def _of_text(self, question, context):
        windows = self.texts(question, context)
        outputs = self.of_ids(**{name: windows.features[name] for name in self.ids})
        spans = self._spans(outputs, windows.features["input_mask"])
        is_valid = _is_valid(spans, windows, self._settings.max_answer_length)
        best, score = _best_of_questions(spans, is_valid, windows, tf.size(question))
        start, end, has_answer = _characters(windows, best, score)
        answer, start, end = self.texts.answers(context, start, end)
        found = {"answer": answer, "start": start, "end": end, "score": score}
        found = _without_answer(found, ~has_answer)
        if not self._has_negatives:
            return found
        lowest = tf.math.unsorted_segment_min(
            outputs["cls_logits"], windows.example, tf.size(question)
        )
        threshold = tf.constant(self._settings.null_threshold, tf.float32)
        found = _without_answer(found, lowest >= threshold)
        return found | {"no_answer_score": lowest, "threshold": threshold}

    def _spans(self, outputs, input_mask):
        if self._has_negatives:
            starts = outputs["start_top_index"]
            shape = [tf.shape(starts)[0], starts.shape[1], -1]
            ends = tf.reshape(outputs["end_top_index"], shape)
            end_scores = tf.reshape(outputs["end_top_log_probs"], shape)
            return _Spans(starts, outputs["start_top_log_probs"], ends, end_scores)
        count = self._settings.n_best_size
        (start_scores, starts), (end_scores, ends) = (
            # How much padding there is must not matter.
            heads.top(tf.where(input_mask > 0, outputs[f"{side}_logits"], -np.inf), count)
            for side in ("start", "end")
        )
        return _Spans(starts, start_scores, ends[:, tf.newaxis], end_scores[:, tf.newaxis])

    def _embeddings(self, question, context):
        windows = self.texts(question, context)
        return _encoded(self._model.encoder, windows.features) | {"example": windows.example}


def _is_valid(spans, windows, max_answer_length):
    """Which spans answer: inside the paragraph, in order, short, most context at the start.

    Returns:
        bool [F, s, e].
    """
    starts = (spans.starts - windows.offset[:, tf.newaxis])[..., tf.newaxis]
    ends = spans.ends - windows.offset[:, tf.newaxis, tf.newaxis]
    length = windows.length[:, tf.newaxis, tf.newaxis]
    in_order = (ends >= starts) & (ends - starts < max_answer_length)
    inside = (starts >= 0) & (starts < length) & (ends < length)
    return inside & in_order & _has_most_context(starts[..., 0], windows)[..., tf.newaxis]


def _has_most_context(pieces, windows):
    """Whether no other window shows a piece with more context; of equals, the first does.

    Args:
        pieces: int32 [F, s], from the window's first one.
        windows: text_inputs.Windows.
    """
    count = 1 + tf.reduce_max(tf.concat([windows.example, [0]], axis=0))
    by_question = tf.RaggedTensor.from_value_rowids(
        tf.range(tf.size(windows.example)), windows.example, count
    )
    others = _one_at_least(by_question, -1)
    others = tf.gather(others, windows.example)[:, tf.newaxis]  # [F, 1, most]
    safe = tf.maximum(others, 0)
    first, length = tf.gather(windows.first_piece, safe), tf.gather(windows.length, safe)
    absolute = (pieces + windows.first_piece[:, tf.newaxis])[..., tf.newaxis]  # [F, s, 1]
    context = tf.minimum(absolute - first, first + length - 1 - absolute)
    score = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)
    score = tf.where((context >= 0) & (others >= 0), score, -np.inf)
    best = tf.gather(others[:, 0], tf.argmax(score, axis=-1), batch_dims=1)  # [F, s]
    return best == tf.range(tf.size(windows.example))[:, tf.newaxis]


def _one_at_least(rows, filling):
    """Rows as a tensor that has a column even where there is no row to fill it."""
    return tf.pad(rows.to_tensor(filling), [[0, 0], [0, 1]], constant_values=filling)


def _best_of_questions(spans, is_valid, windows, count):
    """The best span of each question, the first of equals.

    Returns:
        (int32 [B, 3]: window, first and last piece in the paragraph; float32 [B]: score, minus
        infinity where there is no span).
    """
    # In float64, as `squad_predictions`: ties are decided by the order.
    start_scores, end_scores = (
        tf.cast(scores, tf.float64) for scores in (spans.start_scores, spans.end_scores)
    )
    scores = start_scores[..., tf.newaxis] + end_scores
    scores = tf.where(is_valid, scores, -np.inf)  # [F, s, e]
    number_of_ends = tf.shape(scores)[2]
    flat = tf.reshape(scores, [tf.shape(scores)[0], -1])
    place = tf.argmax(flat, axis=1, output_type=tf.int32)  # [F]
    rank, end_rank = place // number_of_ends, place % number_of_ends
    start = tf.gather(spans.starts, rank, batch_dims=1)
    ends = tf.broadcast_to(spans.ends, tf.shape(scores))
    end = tf.gather(tf.gather(ends, rank, batch_dims=1), end_rank, batch_dims=1)
    shift = windows.first_piece - windows.offset
    found = tf.stack([tf.range(tf.size(shift)), start + shift, end + shift], axis=1)
    by_question = tf.RaggedTensor.from_value_rowids(
        tf.reduce_max(flat, axis=1), windows.example, count
    )
    best_window = tf.argmax(_one_at_least(by_question, -np.inf), axis=1, output_type=tf.int32)
    row = by_question.row_starts() + best_window
    return tf.gather(found, row), tf.cast(tf.gather(by_question.values, row), tf.float32)


def _characters(windows, best, score):
    """Where answers start and end (int32 [B]; 0 where there is none), and which exist (bool)."""
    _, first, last = tf.unstack(best, axis=1)
    has_answer = score > -np.inf
    start = _of_pieces(windows.starts, first, has_answer)
    end = _of_pieces(windows.ends, last, has_answer)
    return start, end, has_answer


def _of_pieces(ragged, piece, is_there):
    """Value of a piece of each row (int32 [B]); 0 where there is none."""
    beyond = tf.size(ragged.values)
    index = tf.where(is_there, tf.cast(ragged.row_starts(), tf.int32) + piece, beyond)
    return tf.gather(tf.concat([ragged.values, [0]], axis=0), index)


def _without_answer(found, is_without):
    """Answers, emptied where `is_without` (bool [B])."""
    return found | {
        "answer": tf.where(is_without, "", found["answer"]),
        "start": tf.where(is_without, 0, found["start"]),
        "end": tf.where(is_without, 0, found["end"]),
    }


# --- Files ---------------------------------------------------------------------------------------


class _Kept(tf.Module):
    """What a SavedModel keeps beside its functions: weights by the original's names, files."""

    def __init__(self, model, tokenizer=None, assets=None):
        super().__init__()
        self.named_variables = checkpoints.named_variables(model)
        self.tokenizer = tokenizer
        for name, path in (assets or {}).items():
            setattr(self, name, tf.saved_model.Asset(path))


def new_directory(parent):
    """Path of a directory that is not there yet, named after the time in seconds, as Estimators'.

    Args:
        parent: str, directory of a model's versions.
    """
    number = int(time.time())
    while tf.io.gfile.exists(os.path.join(parent, str(number))):
        number += 1
    return os.path.join(parent, str(number))


def save(path, model, functions, tokenizer, assets, texts):
    """Writes a SavedModel, whole or not at all.

    Args:
        path: str, directory to make.
        model: one of `heads`, with its weights.
        functions: ClassifierFunctions or SquadFunctions of it.
        tokenizer: the GraphTokenizer of its texts.
        assets: dict of attribute -> path of a file to go along.
        texts: dict of file name -> content of further assets.
    """
    with tempfile.TemporaryDirectory() as directory:
        for name, content in texts.items():
            assets = assets | {name.partition(".")[0]: os.path.join(directory, name)}
            files.write_text(os.path.join(directory, name), content)
        module = _Kept(model, tokenizer, assets)
        export.save_module(module, path, functions.signatures())


class TFLiteFile(NamedTuple):
    """A TFLite file: its path, bytes, and largest difference from the model's outputs."""

    path: str
    size: int
    difference: float


def save_tflite(directory, model, functions, max_seq_length, vocab_size):
    """Writes the model of ids as TFLite: float32, float16, and weights in int8 (dynamic range).

    Inputs are int32 [1, max_seq_length], of options [1, 4 * max_seq_length]; call the file by
    `get_signature_runner()`.

    Args:
        directory: str.
        model: one of `heads`, with its weights.
        functions: ClassifierFunctions or SquadFunctions of it.
        max_seq_length: int.
        vocab_size: int, for the ids on which the files are compared with the model.

    Returns:
        dict from "float", "float16", "int8" to TFLiteFile.
    """
    shape = (1, functions.texts.choices * max_seq_length)
    function = _function(functions.of_ids, _ids(functions.ids, shape))
    module = _Kept(model)
    contents = {kind: _converted(function, module, kind) for kind in TFLITE_NAMES}
    random = np.random.default_rng(0)
    samples = [
        _sample(functions.ids, shape, max_seq_length, vocab_size, random) for _ in range(SAMPLES)
    ]
    expected = [_as_numpy(function(**sample)) for sample in samples]
    paths = [os.path.join(directory, name) for name in TFLITE_NAMES.values()]
    with files.replacing(*paths) as temporary:
        for name, content in zip(temporary, contents.values(), strict=True):
            with tf.io.gfile.GFile(name, "wb") as file:
                file.write(content)
    return {
        kind: TFLiteFile(path, len(content), _largest_difference(content, samples, expected))
        for path, (kind, content) in zip(paths, contents.items(), strict=True)
    }


def _converted(function, module, kind):
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], module)
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _sample(names, shape, max_seq_length, vocab_size, random):
    """Sequences of random ids, the last quarter padding, half of the rest of segment 1."""
    part = np.arange(shape[1]) % max_seq_length * 8 // max_seq_length
    used = part < 6
    values = {
        "input_ids": np.where(used, random.integers(0, vocab_size, shape), 0),
        "input_mask": used,
        "segment_ids": used & (part >= 3),
        "p_mask": ~used,
    }
    return {name: tf.constant(np.broadcast_to(values[name], shape), tf.int32) for name in names}


def _as_numpy(outputs):
    return {name: np.array(values) for name, values in outputs.items()}


def _largest_difference(content, samples, expected):
    """Of the floating-point outputs, over all samples; NaN if there is one.

    Scores of a beam are compared in their order: two that change places make no other beam.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it will live elsewhere one day
        interpreter = tf.lite.Interpreter(model_content=content)
    runner = interpreter.get_signature_runner()
    differences = [
        np.max(np.abs(_in_order(name, found[name]) - _in_order(name, values)))
        for sample, outputs in zip(samples, expected, strict=True)
        for found in [_as_numpy(runner(**sample))]
        for name, values in outputs.items()
        if np.issubdtype(values.dtype, np.floating)
    ]
    return float(np.max(differences))


def _in_order(name, values):
    return np.sort(values, axis=-1) if name.endswith("_top_log_probs") else values
