# SPDX-License-Identifier: Apache-2.0
"""A loaded model with its tokenizer: embeddings, masks, sentence order and predictions."""

import collections
import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from albert_tf.api import masked_text, saving, scoring
from albert_tf.config import AlbertConfig
from albert_tf.errors import CalledElsewhere, UserError, check_choice, check_whole
from albert_tf.model.keras_model import ConfiguredModel
from albert_tf.options import MULTI_LABEL, NUM_SPECIALS_OF_ONE, OF_WORDS, SCORE_METHODS
from albert_tf.records import input_pipeline
from albert_tf.tasks import data_report, glue, tables
from albert_tf.text import sequences
from albert_tf.text.sequences import Texts
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.splits_and_results import Split
from albert_tf.training.steps import Predictor

POOLINGS = ("mean", "layers", "pooled")
# Input of a model -> argument of `predict`, where the names differ.
_ARGUMENTS = {"text": "texts", "text_pair": "pairs"}


class Loaded:
    """A model with its tokenizer, as `albert_tf.load` returns it.

    Every method takes one str or a list of them. It returns one result for a str, and a list (or an
    array of numbers) with a result for each item of a list.

    Attributes:
        model: AlbertModel, or one of `albert_tf.heads`: a tf_keras model.
        tokenizer: FullTokenizer.
        config: AlbertConfig.
        checkpoint: str, the source of the weights.
        task: str or None, the name of the task of a fine-tuned model.
        labels: tuple of str or None, the classes of a fine-tuned model.
        max_seq_length: int, longest sequence in tokens; longer ones are cut.
        shows_progress: bool, whether the progress of long work, and texts that are cut, are shown
            on stderr.
        cut: dict with the number of `sequences` of all calls so far, how many of them were `cut`,
            and `max_seq_length`; after a call also `limit`, what they were cut to, for messages.
    """

    encode = CalledElsewhere("embed(texts) for vectors, tokenizer(texts) for ids")
    fit = CalledElsewhere("model.fit(features, labels)")
    evaluate = CalledElsewhere("predict(texts), and compare the labels")
    generate = CalledElsewhere("fill_mask(texts): ALBERT fills masks and writes no text")
    from_pretrained = CalledElsewhere("albert_tf.load(path)")
    save_pretrained = CalledElsewhere("save(directory)")

    def __init__(
        self,
        model: Any,
        text: Any,
        checkpoint: str,
        task: Any,
        absent: set[str],
        batch_size: int,
        record: Any,
    ) -> None:
        self.model: Any = model
        self.config: AlbertConfig = model.config
        self.checkpoint: str = checkpoint
        self.tokenizer: FullTokenizer = text.tokenizer
        self.max_seq_length: int = text.max_seq_length
        self.task: str | None = task.name if task else None
        self.labels: tuple[str, ...] | None = task.labels if task else None
        self._text, self._record = text, record
        self._task, self._absent, self._batch_size = task, absent, batch_size
        self._strategy = tf.distribute.get_strategy()
        self.shows_progress: bool = True
        self.cut: dict[str, Any] = {"sequences": 0, "cut": 0, "max_seq_length": self.max_seq_length}
        self._predictors: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<{type(self.model).__name__} of {self.checkpoint}>"

    def save(
        self,
        directory: str | os.PathLike[str],
        model: Any = None,
        labels: Sequence[str] | None = None,
        task: str | None = None,
    ) -> None:
        """Writes the model as a directory that `albert_tf.load`, predict.py and the scripts read.

        It holds the weights as they are now, also after `loaded.model.fit`, and config, vocabulary,
        casing, lengths, task and threshold.

        Args:
            directory: str, a new or empty directory.
            model: one of `albert_tf.heads` to save in place of this model, with the same config and
                vocabulary, such as a ClassificationModel that was trained with `fit`.
            labels: list of str, the classes of `model` in the order of its outputs; None for a
                score, or for those of this model.
            task: str, "multi_label" if a text may have several of these labels; by default it has
                one, if `model` is not this one.

        Raises:
            UserError: the directory is not empty or cannot be written, or the labels do not fit.
        """
        directory = os.fspath(directory)
        if model is None:
            if labels is not None or task is not None:
                raise UserError(
                    "labels and task are those of model: give save(directory, model, labels, task)"
                )
            model = self.model
        if not isinstance(model, ConfiguredModel):
            raise UserError(f"model must be one of albert_tf.heads. Received: {model!r:.80}")
        more: dict[str, Any] = {}
        if model is self.model:
            more = {"task": self._task, "absent": self._absent}
            task = task or (MULTI_LABEL if self.task == MULTI_LABEL else None)
        is_same = labels is None or (*labels,) == self.labels
        if more and is_same and task in (None, self.task):
            kind, more["record"] = self._task and self._task.kind, self._record
        else:
            kind = saving.kind_of(model, labels, task)
        saving.save(directory, model, self._text, kind, **more)

    def embed(
        self,
        texts: str | Texts,
        pairs: str | Texts | None = None,
        pooling: str = "mean",
        normalize: bool = False,
    ) -> npt.NDArray[np.float32]:
        """Embeddings of texts.

        Args:
            texts: str or list of n str.
            pairs: None, or as many second texts.
            pooling: str, "mean" for the mean of the last layer over all tokens with [CLS] and
                [SEP], but no padding, or "layers" for such means of all L layers, or "pooled" for
                the pooler's output, computed from the first token.
            normalize: bool, whether vectors get the length 1, so that their products are cosines.

        Returns:
            float32 array [n, H], or [H] for a str; of "layers" [n, L, H] or [L, H].

        Raises:
            UserError: an argument is invalid, or the checkpoint has no pooler for "pooled".
        """
        check_choice("pooling", pooling, POOLINGS)
        if pooling == "pooled" and not self.has_pooler:
            raise UserError(f'{self.checkpoint} has no pooler: give pooling="mean"')
        keeps_ends = getattr(self._task, "long_texts", "head") == "head_tail"
        features = self._packed(texts, pairs, keeps_ends)
        found = self._run(features, _embedding, pooling == "layers")
        layers = [self.config.num_hidden_layers * self.config.inner_group_num]
        shape = [0, *layers * (pooling == "layers"), self.config.hidden_size]
        vectors = found.get(pooling, np.zeros(shape, np.float32))
        if normalize:
            lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
            vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
        return vectors[0] if isinstance(texts, str) else vectors

    @overload
    def fill_mask(self, texts: str, top_k: int = 5) -> list[list[dict[str, Any]]]: ...
    @overload
    def fill_mask(self, texts: Texts, top_k: int = 5) -> list[list[list[dict[str, Any]]]]: ...

    def fill_mask(self, texts: str | Texts, top_k: int = 5) -> list[Any]:
        """Predicts the most probable tokens for each [MASK].

        Args:
            texts: str or list of n str, each with one or more [MASK].
            top_k: int, number of tokens for each [MASK].

        Returns:
            For each text a list with an entry for each [MASK]: a list of `top_k` dicts, best first,
            with `text`, `piece` (with "▁" if it starts a word) and `probability`.

        Raises:
            UserError: the model has no masked-LM head, or a text has no [MASK] or has one beyond
                the longest sequence.
        """
        self.check_head("masked_lm", "fill_mask")
        check_whole("top_k", top_k, 1, self.config.vocab_size, "vocab_size")
        found = masked_text.features(self.tokenizer, texts, self.max_seq_length)
        features, counts, lengths = found
        self._add_lengths(lengths)
        outputs = self._run(features, masked_text.fill, top_k)
        filled = masked_text.fillings(self.tokenizer, outputs, counts)
        return filled[0] if isinstance(texts, str) else filled

    @overload
    def score(
        self, texts: str, method: str = ..., per_piece: bool = ..., places: list[str] | None = ...
    ) -> dict[str, Any]: ...
    @overload
    def score(
        self, texts: Texts, method: str = ..., per_piece: bool = ..., places: list[str] | None = ...
    ) -> list[dict[str, Any]]: ...

    def score(
        self,
        texts: str | Texts,
        method: str = "within_word_l2r",
        per_piece: bool = False,
        places: list[str] | None = None,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """The pseudo-log-likelihood of texts: how likely the model finds them.

        Each token is masked in turn, and the log-probabilities of the masked tokens are summed
        (Salazar et al., ACL 2020).

        Args:
            texts: str or list of n str. Special tokens in them are text.
            method: str, "within_word_l2r": the later tokens of the same word are masked too, so
                that they do not give a rare word away (Kauf and Ivanova, ACL 2023); "original":
                they are not. A word is what stands between white space or, with a WordPiece
                vocabulary, between punctuation marks too.
            per_piece: bool, whether to return the log-probability of each token too.
            places: list of n str, where the texts are, for messages; by default their numbers.

        Returns:
            For each text a dict: `log_prob`, a natural logarithm; `num_pieces`; `num_words`;
            `num_unknown`, tokens that the vocabulary lacks; with `per_piece`, `pieces` and
            `log_probs`, lists.

        Raises:
            UserError: there is no masked-LM head, or a text is empty or longer than
                `max_seq_length`.
        """
        self.check_head("masked_lm", "score")
        check_choice("method", method, SCORE_METHODS)
        pieces = scoring.pieces_of(
            self.tokenizer, sequences.as_texts(texts), self.max_seq_length, places
        )
        found = scoring.scores(self._predictor(scoring.log_probs), pieces, method)
        if per_piece:
            for score, ids in zip(found, pieces.ids, strict=True):
                score["pieces"] = self.tokenizer.convert_ids_to_tokens(ids.tolist())
        else:
            for score in found:
                del score["log_probs"]
        return found[0] if isinstance(texts, str) else found

    def pseudo_perplexity(
        self, texts: str | Texts, method: str = "within_word_l2r"
    ) -> dict[str, float]:
        """The pseudo-perplexity of all texts together, from their scores.

        Args:
            texts: list of str.
            method: str, as of `score`.

        Returns:
            dict: `pseudo_perplexity`, exp(-log_prob / num_pieces); `word_pseudo_perplexity`, with
            num_words in its place; `log_prob`, `num_pieces`, `num_words` and `num_unknown`, sums.

        Raises:
            UserError: as `score`, or there is no text.
        """
        return scoring.total(self.score(sequences.as_texts(texts), method))

    @overload
    def sentence_order(self, firsts: str, seconds: str) -> float: ...
    @overload
    def sentence_order(self, firsts: Texts, seconds: Texts) -> npt.NDArray[np.float32]: ...

    def sentence_order(
        self, firsts: str | Texts, seconds: str | Texts | None = None
    ) -> float | npt.NDArray[np.float32]:
        """Probability that the second text follows the first, rather than the reverse.

        Args:
            firsts: str or list of n str.
            seconds: str or list of n str.

        Returns:
            float32 array [n], or float for two str.

        Raises:
            UserError: the model has no sentence-order head, or a second text is missing or empty.
        """
        self.check_head("sentence_order", "sentence_order")
        if seconds is None:
            raise UserError("sentence_order compares two texts: sentence_order(firsts, seconds)")
        features = self._packed(firsts, seconds)
        in_second, in_any = (features[name].sum(axis=1) for name in ("segment_ids", "input_mask"))
        if (in_second == 0).any() or (in_any - in_second <= NUM_SPECIALS_OF_ONE).any():
            raise UserError("sentence_order compares two texts, and one of them is empty")
        values = self._run(features, _in_order).get("in_order", np.zeros([0], np.float32))
        return float(values[0]) if isinstance(firsts, str) else values

    # A type checker takes the first that fits: one str, or a list of options, is one example.
    @overload
    def predict(self, *inputs: str, **named: str) -> dict[str, Any]: ...  # type: ignore[overload-overlap]
    @overload
    def predict(  # type: ignore[overload-overlap]
        self, article: str, question: str, options: Texts
    ) -> dict[str, Any]: ...
    @overload
    def predict(
        self, *inputs: str | Texts | Sequence[Texts], **named: str | Texts | Sequence[Texts] | None
    ) -> list[dict[str, Any]]: ...

    def predict(self, *inputs: Any, **named: Any) -> dict[str, Any] | list[dict[str, Any]]:
        """Predictions of a fine-tuned model.

        Classification and regression: `predict(texts)`, or `predict(texts, pairs)` for pairs. Named
        entities: `predict(texts)`, where each of several texts may be a list of words. SQuAD:
        `predict(question, context)`. RACE: `predict(article, question, options)`, with a list of
        options for each question. A str next to lists is used for each of their entries, such as
        one context for several questions. Lists may be Series of pandas; a DataFrame gives all
        inputs, by the names of its columns (`text`, `text_pair`, ...) or those of the training.

        Returns:
            dict for inputs of type str, list of dicts for lists.
            Classification: `label` and `probabilities` by label; regression: `predictions`, the
            score; named entities: `words`, `labels` and `scores`; RACE: `label` (A, B, ...) and
            `probabilities` by letter; SQuAD: `answer` ("" for none), `probability` (its share among
            the best answers to the question), and in version 2 `no_answer_score`, which is high if
            there is no answer.

        Raises:
            UserError: the model is not fine-tuned, or the inputs do not fit its task.
        """
        self._check_finetuned()
        table = inputs[0] if len(inputs) == 1 else None
        if hasattr(table, "columns"):  # a DataFrame of pandas
            inputs, named = (), self._of_table(table) | named
        examples, is_single = self._examples(inputs, named)
        found = self.answers(examples)
        return found[0] if is_single else found

    def answers(self, examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Predictions for examples.

        Args:
            examples: list of dicts with the names in `inputs` as keys.

        Returns:
            list of as many dicts, as in `predict`.

        Raises:
            UserError: an example lacks an input.
        """
        self._check_finetuned()
        if not examples:
            return []
        for example in examples:
            if not isinstance(example, Mapping):
                inputs = ", ".join(self.inputs)
                raise UserError(f"an example is a dict of {inputs}. Received: {example!r:.80}")
            self._check_inputs(example, {name: name for name in self.inputs})
            for name in self.inputs:
                is_text = isinstance(example.get(name, ""), str) or self._is_words(example[name])
                if name != "options" and not is_text:
                    raise UserError(f"{name} must be a str. Received: {example[name]!r:.80}")
        task = self._task
        content, counts = task.examples(examples), collections.Counter[str]()
        split = Split(task.features(content, counts), content)
        self._add_cut(counts, task.windows)
        arrays = {name: split.arrays[name] for name in task.inputs}
        return task.answers(split, self._run(arrays))

    def _is_words(self, value):
        """Whether a value is a list of words, which a model that labels words takes as a text."""
        is_list = self.task == OF_WORDS and isinstance(value, list | tuple)
        return is_list and all(isinstance(word, str) for word in value)

    def _check_finetuned(self):
        if self._task is None:
            raise UserError(f"{self.checkpoint} is not fine-tuned: load the run of a fine-tuning")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs of an example: tuple of str; () if the model is not fine-tuned."""
        return self._task.input_names if self._task else ()

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        """Names of the `inputs` that an example may lack: tuple of str."""
        return getattr(self._task, "optional_inputs", ())

    def _of_table(self, table):
        """The arguments of `predict` in the columns of a DataFrame: dict."""
        is_of_words, optional = self.task == OF_WORDS, self.optional_inputs
        flags, data = (self._record.flags, self._record.data) if self._record else ({}, {})
        flags = glue.columns_of(self.task) | flags
        trained = tables.trained_columns(self.inputs, flags, is_of_words)
        required = [name for name in self.inputs if name not in optional]
        possible = tables.candidates(required, trained, data.get("header", ()))
        possible += [{"text": name} for name in tables.WORD_LISTS if is_of_words]
        names = {str(name): name for name in table.columns}
        found, _ = tables.first_in(possible, [*names])
        if not found:
            sought = " or ".join(dict.fromkeys(", ".join(each.values()) for each in possible))
            arguments = ", ".join(_ARGUMENTS.get(name, name) for name in self.inputs)
            raise UserError(
                f"the table has no column {sought}, but {', '.join(names)}: rename its columns, or "
                f"give one for each argument: predict({arguments})"
            )
        for name in optional:
            found = tables.first_in([{name: name}], [*names])[0] | found
        return {_ARGUMENTS.get(name, name): table[names[each]] for name, each in found.items()}

    def _examples(self, inputs, named):
        """Arguments of `predict` as a list of dicts, and whether they are of one example."""
        names = {_ARGUMENTS.get(name, name): name for name in self.inputs}
        given, count = dict(zip(names, inputs, strict=False)) | named, len(inputs) + len(named)
        is_too_much = len(given) < count  # there are too many, or one is given twice
        needed = [a for a, name in names.items() if name not in self.optional_inputs]
        given = {a: value for a, value in given.items() if value is not None or a in needed}
        wrong = ", ".join(argument for argument in given if argument not in names)
        if wrong or is_too_much:
            received = wrong or f"{count} arguments"
            raise UserError(f"this model takes {', '.join(names)}. Received: {received}")
        is_single = all(isinstance(v, str) for a, v in given.items() if a != "options")
        lists = {a: self._listed(a, value, is_single) for a, value in given.items()}
        if not lists or any(lists.values()):
            self._check_inputs(given, names)
        counts = {a: len(found) for a, found in lists.items() if not isinstance(given[a], str)}
        if len(set(counts.values())) > 1:
            received = ", ".join(f"{count} {argument}" for argument, count in counts.items())
            raise UserError(f"lists must be equally long. Received: {received}")
        return [
            {names[a]: found[i if a in counts else 0] for a, found in lists.items()}
            for i in range(next(iter(counts.values()), 1))
        ], is_single

    def _listed(self, argument, value, is_single):
        """An argument of `predict` as a list with a value for each example."""
        are_options = argument == "options"
        found = [value] if are_options and is_single else value  # a list of str for one question
        found = found.tolist() if hasattr(found, "tolist") else found
        if isinstance(found, list | tuple):  # of NumPy arrays, as tables of Parquet files have them
            found = [item.tolist() if hasattr(item, "tolist") else item for item in found]
        is_list = isinstance(found, list | tuple)
        if are_options and not is_list:
            raise UserError(
                f"options must be a list of str for each question. Received: {value!r:.80}"
            )
        if are_options or (is_list and found and all(map(self._is_words, found))):
            return found
        return sequences.as_texts(value, argument)

    def _check_inputs(self, given, names):
        """Raises UserError if an input is not given; `names` are keys of `given` -> inputs."""
        optional = self.optional_inputs
        missing = [key for key, name in names.items() if key not in given and name not in optional]
        if missing:
            raise UserError(
                f"this model takes {', '.join(names)}. Missing: {', '.join(missing)}. Received: "
                f"{', '.join(map(str, given)) or 'nothing'}"
            )

    @property
    def has_pooler(self) -> bool:
        """Whether the checkpoint has the pooler (bool); otherwise it is random."""
        return "pooler" not in self._absent

    def check_head(self, head: str, method: str) -> None:
        """Raises UserError if the model lacks a head, `masked_lm` or `sentence_order`."""
        if not hasattr(self.model, head) or head in self._absent:
            raise UserError(
                f"{method}: {self.checkpoint} has no {head} head: give a pre-trained model"
            )

    def _packed(self, texts, pairs, keeps_ends=False):
        """Texts as features, as `sequences.packed`; those that are cut are counted."""
        lengths = []
        features = sequences.packed(
            self.tokenizer, texts, pairs, self.max_seq_length, lengths, keeps_ends
        )
        self._add_lengths(lengths)
        return features

    def _add_lengths(self, lengths):
        counts = collections.Counter()
        data_report.add_lengths(counts, lengths)
        self._add_cut(counts)

    def _add_cut(self, counts, windows=1):
        """Adds to `cut` what was counted in a call, and warns of it."""
        report = data_report.of_split(counts, self.max_seq_length, windows=windows)
        if report.get("cut") and self.shows_progress:
            said = data_report.on_cut(report).replace("--", "")
            warnings.warn(f"{said}: split them, or load with a larger number", stacklevel=4)
        for name in ("sequences", "cut"):
            self.cut[name] += report.get(name, 0)
        self.cut["limit"] = report.get("limit", "")

    def _run(self, arrays, function=None, *options):
        """Applies the model, or a function of it and of options, to all rows: dict of arrays."""
        rows = len(arrays["input_ids"])
        if not rows:
            return {}
        arrays = {n: np.asarray(values, np.int32).reshape(rows, -1) for n, values in arrays.items()}
        width = arrays["input_ids"].shape[1]
        choices = 1 if function else self._task.choices
        batches = input_pipeline.prediction_batches(arrays, self._batch_size, width // choices)
        return self._predictor(function, *options)(batches, rows)

    def _predictor(self, function, *options):
        """The Predictor of `_run`, with the graphs of earlier calls."""
        key = (function, *options)
        if key not in self._predictors:
            model = functools.partial(function, self.model, *options) if function else self.model
            self._predictors[key] = Predictor(self._strategy, model)
        self._predictors[key].shows_progress = self.shows_progress
        return self._predictors[key]


def _embedding(model, of_layers, features, training=False):
    encoded = getattr(model, "encoder", model)(features, training=training)
    mask = tf.cast(features["input_mask"], tf.float32)
    mask /= tf.reduce_sum(mask, axis=1, keepdims=True)
    outputs = encoded["encoder_outputs"] if of_layers else [encoded["sequence_output"]]
    means = [tf.linalg.matvec(output, mask, transpose_a=True) for output in outputs]  # [B, H]
    if of_layers:
        return {"layers": tf.stack(means, axis=1)}
    return {"pooled": encoded["pooled_output"], "mean": means[0]}


def _in_order(model, features, training=False):
    pooled = model.encoder(features, training=training)["pooled_output"]
    return {"in_order": tf.nn.softmax(model.sentence_order(pooled))[:, 0]}  # class 1 is swapped
