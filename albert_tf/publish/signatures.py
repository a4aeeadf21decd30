# SPDX-License-Identifier: Apache-2.0
"""Serving signatures of fine-tuned models, for ids, records and text.

The first dimension of every output is the batch and no value is infinite, so that servers can join
requests and answer in JSON.

B examples, T tokens, C classes, H hidden, W words of a text or windows of a paragraph, F windows of
all paragraphs, s starts and e ends of a window.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.model import heads
from albert_tf.publish.graph_inputs import FEATURES
from albert_tf.publish.graph_tokenization import STRINGS

SEQUENCES_AT_ONCE = 8  # of long texts, so that memory does not grow with their length


def traced(call, specs):
    """A concrete function of named tensors.

    Args:
        call: callable of these names -> structure of tensors.
        specs: dict of name -> tf.TensorSpec.
    """
    specs = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()}
    return tf.function(call, autograph=False).get_concrete_function(**specs)


def id_specs(names, shape=(None, None)):
    """Specs of int32 tensors, by default [B, T]: dict of name -> tf.TensorSpec."""
    return {name: tf.TensorSpec(shape, tf.int32, name) for name in names}


def encoded(encoder, features):
    """Pooled output [B, H] and sequence output [B, T, H], with the mask of the padding."""
    found = encoder(features)
    outputs = {name: found[name] for name in ("pooled_output", "sequence_output")}
    return outputs | {"input_mask": features["input_mask"]}


def some_at_a_time(call, features):
    """Outputs for all sequences of texts, SEQUENCES_AT_ONCE computed together.

    Args:
        call: function of a dict of features, int32 [n, T], to a structure of tensors [n, ...].
        features: dict of int32 [F, T].

    Returns:
        The same structure of tensors [F, ...].
    """
    specs = {name: tf.TensorSpec([None, None], values.dtype) for name, values in features.items()}
    call = tf.function(call, autograph=False).get_concrete_function(specs)
    outputs, count = call.structured_outputs, tf.shape(features["input_ids"])[0]
    rounds = tf.maximum(-(-count // SEQUENCES_AT_ONCE), 1)  # at least one: its outputs tell shapes

    def compute(i, arrays):
        rows = slice(i * SEQUENCES_AT_ONCE, (i + 1) * SEQUENCES_AT_ONCE)
        found = tf.nest.flatten(call({name: values[rows] for name, values in features.items()}))
        return i + 1, [array.write(i, part) for array, part in zip(arrays, found, strict=True)]

    arrays = [
        tf.TensorArray(x.dtype, rounds, infer_shape=False, element_shape=x.shape)
        for x in tf.nest.flatten(outputs)
    ]
    _, arrays = tf.while_loop(
        lambda i, _: i < rounds, compute, (tf.constant(0), arrays), parallel_iterations=1
    )
    return tf.nest.pack_sequence_as(outputs, [array.concat() for array in arrays])


class ServedFunctions:
    """Serving functions of a model; a subclass has `of_text`, `embeddings` and functions of ids.

    Args:
        model: one of `heads` with its weights.
        texts: graph_inputs.Texts.
        labels: sequence of str; None if there are none.
    """

    def __init__(self, model, texts, labels=None):
        self.model, self.texts, self.labels = model, texts, labels

    def signatures(self, with_text=True):
        """Dict of name -> concrete function; those that take text need tensorflow-text."""
        found = self.id_signatures()
        calls = {"text": self.of_text, "embeddings": self.embeddings} if with_text else {}
        return found | {name: traced(call, self.texts.signature) for name, call in calls.items()}

    def embeddings(self, **texts):
        """The encoder's outputs for the sequences of each text: [B, W, ...], padded with 0."""
        found = self.texts(**texts)
        features = {name: found.features[name] for name in FEATURES}
        outputs = some_at_a_time(functools.partial(encoded, self.model.encoder), features)
        return {
            name: tf.RaggedTensor.from_row_lengths(values, found.counts).to_tensor()
            for name, values in outputs.items()
        }


# --- Classifiers ---------------------------------------------------------------------------------


class ClassifierFunctions(ServedFunctions):
    """Serving functions of a classifier, a regressor or a choice among options.

    `serving_default` takes `input`, serialized tf.Examples with int64 input_ids, input_mask and
    segment_ids; `ids` takes these as int32 [B, T], of options [B, 4 * T]; `text` takes what `texts`
    does. They return `predictions` int32 [B] and `probabilities` float32 [B, C]; in regression the
    score under both names, [B] and [B, 1]. `text` names the `label`, string [B], too. `embeddings`
    returns `pooled_output` [B, H], `sequence_output` [B, T, H] and `input_mask` [B, T]; of options
    [B, 4, ...].

    Args:
        model: heads.ClassificationModel or heads.MultipleChoiceModel with its weights.
        texts: graph_inputs.SentencePairs or graph_inputs.Choices.
        labels: sequence of C str; None in regression.
        threshold: float or None; returned as `threshold` [B], for callers that need it.
    """

    ids = FEATURES

    def __init__(self, model, texts, labels, threshold=None):
        super().__init__(model, texts, labels)
        self._threshold = threshold

    def id_signatures(self):
        """Dict of name -> concrete function: records and ids."""
        return {
            "serving_default": traced(self._of_serialized, {"input": STRINGS}),
            "ids": traced(self.of_ids, id_specs(FEATURES)),
        }

    def of_ids(self, **features):
        """Predictions for ids."""
        logits = self.model(features, training=False)["logits"]
        if self.labels is None:
            scores = logits[:, 0] if logits.shape[1] == 1 else logits
            found = {"predictions": scores, "probabilities": logits}
        else:
            found = {
                "predictions": tf.argmax(logits, axis=-1, output_type=tf.int32),
                "probabilities": tf.nn.softmax(logits),
            }
        if self._threshold is not None:
            found["threshold"] = tf.fill(tf.shape(logits)[:1], self._threshold)
        return found

    def _of_serialized(self, input):  # the original's name
        rows = {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in FEATURES}
        parsed = tf.io.parse_example(input, rows)
        lengths = parsed["input_ids"].row_lengths()
        same = [
            tf.debugging.assert_equal(
                parsed[name].row_lengths(),
                lengths // self.texts.choices * self.texts.choices,
                "input_ids, input_mask and segment_ids of an example must be equally long, and "
                f"hold {self.texts.choices} sequence(s) of one length",
            )
            for name in FEATURES
        ]
        with tf.control_dependencies(same):
            return self.of_ids(**{name: self._batched(parsed[name]) for name in FEATURES})

    def _batched(self, rows):
        """Rows of one or more sequences (ragged [B, (choices * T)]), each padded: int32."""
        choices = self.texts.choices
        lengths = tf.repeat(rows.row_lengths() // choices, choices)
        longest = tf.reduce_max(tf.concat([lengths, [1]], axis=0))
        sequences = tf.RaggedTensor.from_row_lengths(rows.values, lengths)
        padded = sequences.to_tensor(shape=tf.stack([-1, longest]))
        return tf.cast(tf.reshape(padded, tf.stack([rows.nrows(), choices * longest])), tf.int32)

    def of_text(self, **texts):
        """Predictions for texts."""
        found = self.of_ids(**self.texts(**texts))
        if self.labels is not None:
            found["label"] = tf.gather(tf.constant(self.labels), found["predictions"])
        return found

    def embeddings(self, **texts):
        """The encoder's outputs for texts."""
        features = self.texts(**texts)
        rows = tf.shape(features["input_ids"])[0]
        choices = self.texts.choices
        each = {n: tf.reshape(values, [rows * choices, -1]) for n, values in features.items()}
        found, length = encoded(self.model.encoder, each), tf.shape(each["input_ids"])[1]
        if choices == 1:
            return found
        return {
            name: tf.reshape(values, [rows, choices, *(n or length for n in values.shape[1:])])
            for name, values in found.items()
        }


class TokenFunctions(ClassifierFunctions):
    """Serving functions of a token classifier.

    `serving_default` and `ids` take what a classifier's do and return `predictions` int32 [B, T]
    and `probabilities` float32 [B, T, C] of every token; those of padding are meaningless. `text`
    takes `text`, string [B], splits it into words as in training, and returns `words` and `labels`,
    string [B, W], and `scores`, float32 [B, W], the probability of the label; "" and 0 fill up
    texts with fewer words than others. Texts of more than T - 2 tokens are split as in training.
    `embeddings` returns `pooled_output` [B, P, H], `sequence_output` [B, P, T, H] and `input_mask`
    [B, P, T] of the P parts of each text; the mask of a part that a text does not have is all 0.

    Args:
        model: heads.TokenClassificationModel (without predicted_length) with its weights.
        texts: graph_inputs.WordLists.
        labels: sequence of C str.
    """

    def of_text(self, text):
        """The label of each word of texts."""
        found = self.texts(text)
        best = some_at_a_time(lambda features: self.of_ids(**features), found.features)
        predictions, probabilities = (
            tf.gather_nd(best[name], found.places) for name in ("predictions", "probabilities")
        )
        labels = tf.gather(tf.constant(self.labels), predictions)
        scores = tf.reduce_max(probabilities, axis=-1)
        return {
            "words": found.words.to_tensor(""),
            "labels": found.words.with_values(labels).to_tensor(""),
            "scores": found.words.with_values(scores).to_tensor(0.0),
        }

    embeddings = ServedFunctions.embeddings


# --- SQuAD ---------------------------------------------------------------------------------------

NO_ANSWER = tf.float32.min  # score where no span answers: below any other, and finite


class _Spans(NamedTuple):
    """Spans of windows: starts and their scores [F, s], ends and theirs [F, s or 1, e].

    In version 2 also the no-answer logits [F]; in version 1 zeros.
    """

    starts: tf.Tensor
    start_scores: tf.Tensor
    ends: tf.Tensor
    end_scores: tf.Tensor
    no_answer_scores: tf.Tensor


class SquadFunctions(ServedFunctions):
    """Serving functions of a SQuAD model of either version.

    `serving_default` takes int32 [B, T] input_ids, input_mask and segment_ids, in version 2 p_mask
    as well, and returns the outputs of the model's head, in version 1 under the original's names,
    `start_log_prob` and `end_log_prob` [B, T]. `text` takes `question` and `context`, string [B],
    cuts long contexts into windows and returns `answer` string [B], where it stands in the context
    (`start` and `end`, int32 [B], characters, the end exclusive) and its `score` float32 [B], which
    is NO_ANSWER where no span can answer; in version 2 also `no_answer_score` and `threshold` [B]:
    an answer is "" where the former is not below the latter. `embeddings` returns `pooled_output`
    [B, W, H], `sequence_output` [B, W, T, H] and `input_mask` [B, W, T]. If a question has fewer
    windows than others, the mask of the windows that it lacks is all 0.

    Args:
        model: heads.SquadV1Model (without predicted_length) or heads.SquadV2Model.
        texts: graph_inputs.Paragraphs.
        n_best_size: int, starts and ends of a window in version 1; version 2 has the model's beams.
        max_answer_length: int, in tokens.
        null_threshold: float or None; questions whose no-answer logit is not below it get "".
        no_window_score: float, the no-answer logit of a context without a token.
    """

    def __init__(
        self, model, texts, n_best_size, max_answer_length, null_threshold, no_window_score
    ):
        super().__init__(model, texts)
        self._n_best_size, self._max_answer_length = n_best_size, max_answer_length
        self._null_threshold, self._no_window_score = null_threshold, no_window_score
        self._has_negatives = isinstance(model, heads.SquadV2Model)
        self.ids = (*FEATURES, "p_mask") if self._has_negatives else FEATURES

    def id_signatures(self):
        """Dict of name -> concrete function: ids."""
        return {"serving_default": traced(self._of_ids_renamed, id_specs(self.ids))}

    def of_ids(self, **features):
        """The head's outputs for ids."""
        return self.model(features, training=False)

    def _of_ids_renamed(self, **features):
        found = self.of_ids(**features)
        if self._has_negatives:
            return found
        return {name.replace("_logits", "_log_prob"): values for name, values in found.items()}

    def of_text(self, question, context):
        """Answers to questions."""
        windows = self.texts(question, context)
        spans = some_at_a_time(self._spans, {n: windows.features[n] for n in self.ids})
        is_valid = _is_valid(spans, windows, self._max_answer_length)
        best, score = _best_of_questions(spans, is_valid, windows)
        start, end, has_answer = _characters(windows, best, score)
        answer, start, end = self.texts.answers(context, start, end)
        score = tf.where(has_answer, tf.cast(score, tf.float32), NO_ANSWER)
        found = {"answer": answer, "start": start, "end": end, "score": score}
        if not self._has_negatives:
            return found
        lowest = tf.math.unsorted_segment_min(
            spans.no_answer_scores, windows.example, tf.size(question)
        )
        lowest = tf.where(windows.char_starts.row_lengths() > 0, lowest, self._no_window_score)
        threshold = tf.fill(tf.shape(lowest), self._null_threshold)
        is_without = lowest >= threshold
        return found | {
            "answer": tf.where(is_without, "", answer),
            "start": tf.where(is_without, 0, start),
            "end": tf.where(is_without, 0, end),
            "no_answer_score": lowest,
            "threshold": threshold,
        }

    def _spans(self, features):
        outputs = self.of_ids(**features)
        if self._has_negatives:
            starts = outputs["start_top_index"]
            shape = [-1, starts.shape[1], outputs["end_top_index"].shape[1] // starts.shape[1]]
            ends = tf.reshape(outputs["end_top_index"], shape)
            end_scores = tf.reshape(outputs["end_top_log_probs"], shape)
            start_scores = outputs["start_top_log_probs"]
            return _Spans(starts, start_scores, ends, end_scores, outputs["cls_logits"])
        is_piece = features["input_mask"] > 0  # the amount of padding must not matter
        (start_scores, starts), (end_scores, ends) = (
            heads.top(tf.where(is_piece, outputs[f"{side}_logits"], -np.inf), self._n_best_size)
            for side in ("start", "end")
        )
        ends, end_scores = ends[:, tf.newaxis], end_scores[:, tf.newaxis]
        return _Spans(starts, start_scores, ends, end_scores, tf.zeros_like(start_scores[:, 0]))


def _is_valid(spans, windows, max_answer_length):
    """Whether spans can be answers: in the paragraph, in order, short, and of the best window.

    Returns:
        bool [F, s, e].
    """
    starts = (spans.starts - windows.offset[:, tf.newaxis])[..., tf.newaxis]
    ends = spans.ends - windows.offset[:, tf.newaxis, tf.newaxis]
    length = windows.length[:, tf.newaxis, tf.newaxis]
    in_order = (ends >= starts) & (ends - starts < max_answer_length)
    inside = (starts >= 0) & (starts < length) & (ends < length)
    most = _have_most_context(windows)
    known = tf.minimum(spans.starts, tf.shape(most)[1] - 1)  # `top` may point beyond the sequence
    return inside & in_order & tf.gather(most, known, batch_dims=1)[..., tf.newaxis]


def _have_most_context(windows):
    """Whether a token has the most context in a window; among equals, only in the first one.

    Returns:
        bool [F, T], meaningless for tokens that are not of the paragraph.
    """
    positions = tf.range(tf.shape(windows.features["input_ids"])[1])
    place = positions - windows.offset[:, tf.newaxis]  # [F, T], from the window's first token
    length = windows.length[:, tf.newaxis]
    context = tf.minimum(place, length - 1 - place)
    score = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)

    row_starts = tf.cast(windows.char_starts.row_starts(), tf.int32)
    first_piece = tf.gather(row_starts, windows.example) + windows.first_piece
    count, rows = tf.size(windows.char_starts.values), tf.size(windows.example)
    piece = tf.where(context >= 0, first_piece[:, tf.newaxis] + place, count)  # of all paragraphs
    best = tf.gather(tf.math.unsorted_segment_max(score, piece, count + 1), piece)
    window = tf.where(score == best, tf.range(rows)[:, tf.newaxis], rows)
    first = tf.gather(tf.math.unsorted_segment_min(window, piece, count + 1), piece)
    return first == tf.range(rows)[:, tf.newaxis]


def _best_of_questions(spans, is_valid, windows):
    """The best span of each question; among equals, the first one.

    Returns:
        (int32 [B, 2]: first and last token in the paragraph; float64 [B]: score, minus infinity
        where there is no span).
    """
    # In float64, as in `tasks.squad.answers`, where the order decides ties.
    start_scores, end_scores = (
        tf.cast(scores, tf.float64) for scores in (spans.start_scores, spans.end_scores)
    )
    scores = tf.where(is_valid, start_scores[..., tf.newaxis] + end_scores, -np.inf)  # [F, s, e]
    _, starts, ends = tf.unstack(tf.shape(scores))
    by_question = tf.RaggedTensor.from_row_lengths(
        tf.reshape(scores, [-1]), windows.counts * starts * ends
    )
    columns = tf.maximum(tf.reduce_max(by_question.row_lengths()), 1)  # argmax needs one
    padded = by_question.to_tensor(-np.inf, shape=tf.stack([-1, columns]))
    best = tf.argmax(padded, axis=1, output_type=tf.int32)
    place = by_question.row_starts() + best  # [B], among the spans of all windows
    row = place // (starts * ends)
    start = tf.gather_nd(spans.starts, tf.stack([row, place // ends % starts], axis=1))
    end = tf.gather(tf.reshape(tf.broadcast_to(spans.ends, tf.shape(scores)), [-1]), place)
    shift = tf.gather(windows.first_piece - windows.offset, row)
    return tf.stack([start + shift, end + shift], axis=1), tf.gather(by_question.values, place)


def _characters(windows, best, score):
    """First and last character of answers (int32 [B]; 0 without an answer), and which exist."""
    has_answer = score > -np.inf
    row_starts = tf.cast(windows.char_starts.row_starts(), tf.int32)[:, tf.newaxis]
    none = tf.size(windows.char_starts.values)
    first, last = tf.unstack(tf.where(has_answer[:, tf.newaxis], row_starts + best, none), axis=1)
    start, end = (
        tf.gather(tf.concat([chars.values, [0]], axis=0), indices)
        for chars, indices in ((windows.char_starts, first), (windows.char_ends, last))
    )
    return start, end, has_answer
