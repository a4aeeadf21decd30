# SPDX-License-Identifier: Apache-2.0
"""Pre-training data: documents -> segment pairs -> n-gram masks -> records.

Paper: section 3.1 (sentence-order prediction) and section 4.1 (n-gram masking). The text is
tokenised once into one flat array. Of a pass over the documents only a plan is held in memory (four
offsets and a kind for each instance); the plan is shuffled, then every instance is masked and
written on its own. So memory does not grow with `dupe_factor`. Each document and each instance of a
pass draws from a generator of its own, derived from the seed: the records would be the same
whoever makes which of them in which order.
"""

import collections
import dataclasses
import functools
import os
import time

import numpy as np
from absl import logging

from albert_tf import files
from albert_tf.data import corpus_reader, masking, records, segment_pairs
from albert_tf.errors import UserError
from albert_tf.text.tokenization import NUM_SPECIALS

_PAIR_DRAWS, _ORDER_DRAW, _INSTANCE_DRAWS = range(3)  # streams of random numbers of a pass
_NUM_LOGGED = 20
_LONGEST = 2**16  # far beyond any model; a record of this size takes megabytes while it is made
_MOST_PASSES = 10_000


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the records shall look like; names and defaults are those of the script's flags.

    Raises:
        UserError: a value makes no sense.
    """

    max_seq_length: int = 512  # tokens, with [CLS] and both [SEP]
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15  # share of the tokens, specials counted
    ngram: int = 3  # longest n-gram, in words
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    do_permutation: bool = False
    random_next_sentence: bool = False
    short_seq_prob: float = 0.1  # per document and pass
    dupe_factor: int = 40  # passes over the documents
    random_seed: int = 12345

    def __post_init__(self):
        # [CLS], [SEP], [SEP] and two tokens: the shortest target a short sequence may get
        bounds = {
            "max_seq_length": (NUM_SPECIALS + 2, _LONGEST),
            "max_predictions_per_seq": (1, _LONGEST),
            "ngram": (1, _LONGEST),
            "dupe_factor": (1, _MOST_PASSES),
            "random_seed": (0, 2**64 - 1),
            "masked_lm_prob": (0, 1),
            "short_seq_prob": (0, 1),
        }
        for name, (minimum, maximum) in bounds.items():
            value = getattr(self, name)
            if not minimum <= value <= maximum:  # nan is not
                raise UserError(f"--{name}={value}: must lie between {minimum} and {maximum}")

    @property
    def max_pair_length(self):
        """Longest A and B together, in tokens."""
        return self.max_seq_length - NUM_SPECIALS

    @functools.cached_property
    def schema(self):
        """Schema of the records; permuted tokens are predicted as well, so they need as much."""
        masked_lists = 2 if self.do_permutation else 1
        return records.pretraining_schema(
            self.max_seq_length, masked_lists * self.max_predictions_per_seq
        )

    @functools.cached_property
    def ngram_length_cdf(self):
        """Distribution function of n-gram lengths: p(n) ~ 1/n (paper, section 4.1), or reversed."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        cdf = np.cumsum(weights if self.favor_shorter_ngram else weights[::-1])
        return cdf / cdf[-1]

    def num_to_predict(self, length):
        """Tokens to mask in a sequence; halves are rounded to even, as the original's are."""
        wanted = max(1, round(length * self.masked_lm_prob))
        return min(self.max_predictions_per_seq, wanted)

    def generator(self, pass_index, stream, index=0):
        """np.random.Generator for one thing of one pass, independent of all others."""
        key = (pass_index, stream, index)
        return np.random.default_rng(np.random.SeedSequence(self.random_seed, spawn_key=key))


def plan_pass(corpus, settings, pass_index):
    """Pairs of one pass over all documents, shuffled.

    The original shuffles the finished instances of all passes together, which is what needs so much
    memory; a plan of one pass is small, and each pass holds all of the text anyway.

    Args:
        corpus: corpus_reader.Corpus.
        settings: Settings.
        pass_index: int.

    Returns:
        int64 array [instances, 5], the columns of `segment_pairs.Pair`.
    """
    plans = []
    for document in range(corpus.num_documents):
        rng = settings.generator(pass_index, _PAIR_DRAWS, document)
        pairs = segment_pairs.document_pairs(corpus, document, settings, rng)
        plans.append(np.array(list(pairs), np.int64))
    plan = np.concatenate(plans)
    settings.generator(pass_index, _ORDER_DRAW).shuffle(plan)
    return plan


# === Records ===


def instance(corpus, pair, settings, special_ids, vocab_size, rng):
    """Arrays of one record: [CLS] A [SEP] B [SEP], masked and padded with zeros.

    Args:
        corpus: corpus_reader.Corpus.
        pair: segment_pairs.Pair.
        settings: Settings.
        special_ids: SpecialIds of the tokenizer, with [MASK].
        vocab_size: int.
        rng: np.random.Generator.

    Returns:
        dict from feature name to array, as `settings.schema` says.
    """
    a, b = slice(pair.a_start, pair.a_end), slice(pair.b_start, pair.b_end)
    cls, sep = [special_ids.cls], [special_ids.sep]
    ids = np.concatenate([cls, corpus.ids[a], sep, corpus.ids[b], sep])
    a_opens, b_opens = corpus.opens_word[a], corpus.opens_word[b]
    opens_word = np.concatenate([[True], a_opens, [True], b_opens, [True]])
    is_special = (ids == special_ids.cls) | (ids == special_ids.sep)
    new_ids, predicted = masking.masked(
        ids, opens_word, is_special, settings, special_ids.mask, vocab_size, rng
    )

    filled = {
        "input_ids": new_ids,
        "input_mask": np.ones(len(ids), np.int64),
        "segment_ids": np.arange(len(ids)) >= 2 + pair.a_end - pair.a_start,
        "token_boundary": opens_word | is_special,
        "masked_lm_positions": predicted,
        "masked_lm_ids": ids[predicted],
        "masked_lm_weights": np.ones(len(predicted), np.float32),
        "next_sentence_labels": np.array([pair.kind != segment_pairs.IN_ORDER]),
    }
    arrays = {}
    for name, feature in settings.schema.items():
        arrays[name] = np.zeros(feature.length, feature.dtype.as_numpy_dtype)
        arrays[name][: len(filled[name])] = filled[name]
    return arrays


@dataclasses.dataclass
class Summary:
    """What was made; `str` of it is a text for people.

    Args:
        documents, sentences, tokens: int, of the text.
        unknown: Counter of the pieces of the text that are not in the vocabulary.
        lines_dropped: int, lines with text but without any piece.
        kinds: int array [3], instances in order, swapped, and with a random document.
        instance_tokens: int, tokens of all instances, specials included.
        predictions: int, tokens to predict.
        seconds: float.
    """

    documents: int
    sentences: int
    tokens: int
    unknown: collections.Counter
    lines_dropped: int
    kinds: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3, np.int64))
    instance_tokens: int = 0
    predictions: int = 0
    seconds: float = 0.0

    @property
    def instances(self):
        """Number of records."""
        return int(self.kinds.sum())

    @property
    def masked_share(self):
        """Tokens to predict per token, specials included."""
        return self.predictions / self.instance_tokens

    @property
    def unknown_share(self):
        """Unknown pieces per token of the text."""
        return self.unknown.total() / self.tokens

    def __str__(self):
        in_order, swapped, random = self.kinds / self.instances
        lines = [
            f"text: {self.documents} documents, {self.sentences} sentences, {self.tokens} tokens, "
            f"{self.unknown_share:.3%} unknown",
            f"instances: {self.instances}, {self.instance_tokens / self.instances:.1f} tokens "
            f"each, {self.masked_share:.2%} of them to predict",
            f"next_sentence_labels: 0 in order {in_order:.1%}; 1 swapped {swapped:.1%}, "
            f"1 random document {random:.1%}",
            f"time: {self.seconds:.1f} s",
        ]
        if self.unknown:
            most = ", ".join(f"{piece!a} {count}" for piece, count in self.unknown.most_common(5))
            lines.append(f"unknown pieces: {self.unknown.total()}, most often {most}")
        if self.lines_dropped:
            lines.append(
                f"dropped: {self.lines_dropped} lines in which the tokenizer finds nothing"
            )
        if self.documents == 1:
            lines.append(
                "warning: this is a single document, so segments of a random document come from "
                "the same; put a blank line between documents"
            )
        return "\n".join(lines)


def create(inputs, outputs, tokenizer, settings):
    """Makes the pre-training records of text files.

    Instance k of all passes goes to file k modulo the number of files.

    Args:
        inputs: list of str, text files of one sentence per line, with blank lines between
            documents.
        outputs: list of str, TFRecord files to write; they appear when all is done.
        tokenizer: FullTokenizer.
        settings: Settings.

    Returns:
        Summary.

    Raises:
        UserError: text that cannot be read or is empty, a vocabulary without the special pieces,
            or outputs that cannot be written.
    """
    started = time.monotonic()
    special_ids = tokenizer.special_ids(with_mask=True)
    _check_outputs(inputs, outputs)
    corpus = corpus_reader.read_corpus(inputs, tokenizer, corpus_reader.count_lines(inputs))
    summary = Summary(
        documents=corpus.num_documents,
        sentences=corpus.num_sentences,
        tokens=len(corpus.ids),
        unknown=corpus.unknown,
        lines_dropped=corpus.lines_dropped,
    )
    bar = corpus_reader.progress(None, "writing", "instance", None)
    with records.open_writers(outputs) as writers, bar:
        for pass_index in range(settings.dupe_factor):
            plan = plan_pass(corpus, settings, pass_index)
            bar.total = summary.instances + len(plan) * (settings.dupe_factor - pass_index)
            bar.set_postfix_str(f"pass {pass_index + 1} of {settings.dupe_factor}")
            first = summary.instances
            for index, row in enumerate(plan.tolist()):
                number, pair = first + index, segment_pairs.Pair(*row)
                # Each depends on its index alone.
                rng = settings.generator(pass_index, _INSTANCE_DRAWS, index)
                arrays = instance(corpus, pair, settings, special_ids, tokenizer.vocab_size, rng)
                if number < _NUM_LOGGED:
                    _log(number, arrays, tokenizer)
                writers[number % len(writers)].write(records.encode(arrays, settings.schema))
                summary.predictions += int(arrays["masked_lm_weights"].sum())
                summary.instance_tokens += int(arrays["input_mask"].sum())
                bar.update()
            summary.kinds += np.bincount(plan[:, -1], minlength=3)
    summary.seconds = time.monotonic() - started
    return summary


def _check_outputs(inputs, outputs):
    taken = set(map(_same_path, inputs))
    for path in outputs:
        if _same_path(path) in taken:
            raise UserError(
                f"--output_file: {path} is an input file too, or named twice; choose another name"
            )
        taken.add(_same_path(path))
        files.check_file_writable(path, "output_file")


def _same_path(path):
    return path if "://" in path else os.path.realpath(path)


def _log(number, arrays, tokenizer):
    """Shows an instance, for --verbosity=0."""
    length = int(arrays["input_mask"].sum())
    count = int(arrays["masked_lm_weights"].sum())
    logging.info(
        "instance %d: next_sentence_labels %d; %s; to predict: %s",
        number,
        arrays["next_sentence_labels"][0],
        " ".join(tokenizer.convert_ids_to_tokens(arrays["input_ids"][:length].tolist())),
        " ".join(tokenizer.convert_ids_to_tokens(arrays["masked_lm_ids"][:count].tolist())),
    )
