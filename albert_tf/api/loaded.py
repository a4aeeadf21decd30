# SPDX-License-Identifier: Apache-2.0
"""A loaded model with its tokenizer: masks, embeddings, the order of sentences, predictions."""

import functools

import numpy as np
import tensorflow as tf

from albert_tf.api import masked_text, predictions
from albert_tf.errors import UserError
from albert_tf.model import heads
from albert_tf.records import input_pipeline
from albert_tf.text import sequences
from albert_tf.training.prediction import Predictor

POOLINGS = ("pooled", "mean")


class Loaded:
    """What `albert_tf.load` returns.

    Every method takes a str, or a list of any number of them, and answers with one result or a
    list (an array, for numbers) of as many.

    Attributes:
        model: AlbertModel, or one of `albert_tf.heads`: a tf_keras model.
        tokenizer: FullTokenizer.
        config: AlbertConfig.
        checkpoint: str, where the weights are from.
        labels: tuple of str or None, the classes of a fine-tuned model.
        max_seq_length: int, longest sequence in pieces; what is longer is cut.
    """

    def __init__(self, model, text, config, checkpoint, task, absent, batch_size):
        self.model, self.config, self.checkpoint = model, config, checkpoint
        self.tokenizer, self.max_seq_length = text.tokenizer, text.max_seq_length
        self.labels = task.labels if task else None
        self._task, self._absent, self._batch_size = task, absent, batch_size
        self._strategy = tf.distribute.get_strategy()
        self._predictors = {}

    def __repr__(self):
        return f"<{type(self.model).__name__} of {self.checkpoint}>"

    def embed(self, texts, pairs=None, pooling="pooled"):
        """Embeddings of texts.

        Args:
            texts: str or list of n str.
            pairs: None, or as many second texts.
            pooling: str, "pooled": the pooler's output, made of the first piece; "mean": the mean
                of the last layer's outputs over all pieces, [CLS] and [SEP] included, padding not.

        Returns:
            float32 array [n, H]; [H] of a str.

        Raises:
            UserError: an argument is none of these.
        """
        if pooling not in POOLINGS:
            raise UserError(f"pooling must be one of {', '.join(POOLINGS)}. Received: {pooling!r}")
        if pooling == "pooled" and "pooler" in self._absent:
            raise UserError(f'{self.checkpoint} has no pooler: give pooling="mean"')
        features = sequences.packed(self.tokenizer, texts, pairs, self.max_seq_length)
        found = self._run("embed", functools.partial(_embedding, self._encoder), features)
        vectors = found.get(pooling, np.zeros([0, self.config.hidden_size], np.float32))
        return vectors[0] if isinstance(texts, str) else vectors

    def fill_mask(self, texts, top_k=5):
        """The pieces that fit best in place of each [MASK].

        Args:
            texts: str or list of n str, each with one [MASK] or several.
            top_k: int, pieces for each.

        Returns:
            For each text a list with an entry for each [MASK], a list of `top_k` dicts, the best
            first: `text`, `piece` (with "▁" where it starts a word) and `probability`.

        Raises:
            UserError: there is no masked-LM head, a text has no [MASK], or one beyond the longest
                sequence.
        """
        self._check_head("masked_lm", "fill_mask")
        if not 1 <= top_k <= self.config.vocab_size:
            raise UserError(
                f"top_k must lie between 1 and vocab_size={self.config.vocab_size}. "
                f"Received: {top_k}"
            )
        features, counts = masked_text.features(self.tokenizer, texts, self.max_seq_length)
        fill = functools.partial(masked_text.fill, self.model, top_k)
        found = masked_text.fillings(
            self.tokenizer, self._run(("masks", top_k), fill, features), counts
        )
        return found[0] if isinstance(texts, str) else found

    def sentence_order(self, firsts, seconds):
        """The probability that the second text follows the first, and not the other way round.

        Args:
            firsts: str or list of n str.
            seconds: as many.

        Returns:
            float32 array [n]; float of two str.

        Raises:
            UserError: there is no sentence-order head, or a text is empty.
        """
        self._check_head("sentence_order", "sentence_order")
        features = sequences.packed(self.tokenizer, firsts, seconds, self.max_seq_length)
        if not features["segment_ids"].any(axis=1).all():
            raise UserError("sentence_order compares two texts, and a second one is empty")
        found = self._run("order", functools.partial(_in_order, self.model), features)
        values = found.get("in_order", np.zeros([0], np.float32))
        return float(values[0]) if isinstance(firsts, str) else values

    def predict(self, *inputs, **named):
        """What a fine-tuned model is for; `albert_tf.api.predictions` has the arguments.

        Classification and regression: `predict(texts, pairs=None)`. Named entities:
        `predict(texts)`. SQuAD: `predict(question, context)`. RACE: `predict(article, question,
        options)`.

        Returns:
            dict for str, a list of them for lists.

        Raises:
            UserError: the model is not fine-tuned, or the inputs are not those of its task.
        """
        if self._task is None:
            raise UserError(
                f"{self.checkpoint} is not fine-tuned, so it predicts nothing: use fill_mask, "
                "sentence_order or embed, or give the directory of a fine-tuning"
            )
        run = functools.partial(self._run, "task", self.model)
        return predictions.of_task(self._task)(self._task, run, *inputs, **named)

    @property
    def inputs(self):
        """Names of what `predict` takes, in its order: tuple of str; () if not fine-tuned."""
        return predictions.inputs_of(self._task) if self._task else ()

    @property
    def _encoder(self):
        return getattr(self.model, "encoder", self.model)

    def _check_head(self, head, method):
        if not hasattr(self.model, head) or head in self._absent:
            raise UserError(
                f"{self.checkpoint} has no {head.replace('_', '-')} head, which {method} needs: "
                "load a pre-trained model"
            )

    def _run(self, key, function, arrays):
        """The outputs of a function of features for all rows: dict of arrays [n, ...]."""
        arrays = {name: np.asarray(values, np.int32) for name, values in arrays.items()}
        rows, width = arrays["input_ids"].shape
        if not rows:
            return {}
        if key not in self._predictors:  # with the graph that it traces
            self._predictors[key] = Predictor(self._strategy, function)
        choices = self._task.choices if key == "task" else 1
        batches = input_pipeline.prediction_batches(arrays, self._batch_size, width // choices)
        return self._predictors[key](batches, rows)


def _embedding(encoder, features, training=False):
    encoded = heads.encode(encoder, features, training)
    mask = tf.cast(features["input_mask"], tf.float32)
    total = tf.linalg.matvec(encoded["sequence_output"], mask, transpose_a=True)  # [B, H]
    mean = total / tf.reduce_sum(mask, axis=1, keepdims=True)
    return {"pooled": encoded["pooled_output"], "mean": mean}


def _in_order(model, features, training=False):
    pooled = heads.encode(model.encoder, features, training)["pooled_output"]
    return {"in_order": tf.nn.softmax(model.sentence_order(pooled))[:, 0]}  # class 1 is swapped
