# SPDX-License-Identifier: Apache-2.0
"""Pre-training data: documents -> segment pairs -> n-gram masks -> records.

Paper: section 3.1 (sentence-order prediction) and section 4.1 (n-gram masking). The text is
tokenised once into one flat array. Of a pass over the documents only a plan is held in memory (four
offsets and a kind for each instance); the plan is shuffled, then every instance is masked and
written on its own. So memory does not grow with `dupe_factor`. Each document and each instance of a
pass draws from a generator of its own, derived from the seed: the records would be the same
whoever makes which of them in which order.
"""

import array
import collections
import dataclasses
import functools
import os
import sys
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from albert_tf.data import records
from albert_tf.errors import UserError
from albert_tf.text.tokenization import NUM_SPECIALS

IN_ORDER, SWAPPED, RANDOM_DOCUMENT = range(3)  # kinds of pairs; the label is 0, 1, 1
_PAIR_DRAWS, _ORDER_DRAW, _INSTANCE_DRAWS = range(3)  # streams of random numbers of a pass
_TRIES_FOR_OTHER_DOCUMENT = 10
_NUM_LOGGED = 20
_LONGEST = 2**16  # far beyond any model; a record of this size takes megabytes while it is made
_MOST_PASSES = 10_000
_UNKNOWN_PIECES = {"<unk>", "[UNK]"}


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


# === Documents ===


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Tokenised documents in flat arrays.

    Args:
        ids: int32 [tokens].
        starts: bool [tokens], whether the piece starts a word.
        sentences: int64 [number of sentences + 1], offsets into `ids`; the last one is its length.
        documents: int64 [number of documents + 1], offsets into `sentences`.
        unknown: Counter of the pieces that are not in the vocabulary.
        lines_dropped: int, lines with text in which the tokenizer found no piece.
    """

    ids: np.ndarray
    starts: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lines_dropped: int = 0

    @property
    def num_documents(self):
        """Documents with at least one sentence."""
        return len(self.documents) - 1

    @property
    def num_sentences(self):
        """Sentences with at least one token."""
        return len(self.sentences) - 1


def count_lines(files):
    """Number of lines of text files, read to the end so that a bad one is found before any work.

    Args:
        files: list of str.

    Raises:
        UserError: a file cannot be read or is not UTF-8; says which file and line.
    """
    return sum(1 for _ in _lines(files))


def _lines(files):
    """Yields the lines of all files. A file's end is no document's end, as in the original."""
    for path in files:
        try:
            with tf.io.gfile.GFile(path, "rb") as file:
                for number, line in enumerate(file, start=1):  # noqa: B007 (named in the error)
                    yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}); "
                "convert the file, or remove the line"
            ) from error
        except tf.errors.OpError as error:
            raise UserError(f"{path} cannot be read: {error.message}") from error


def read_corpus(files, tokenizer, num_lines=None):
    """Tokenises text files: one sentence per line, blank lines between documents.

    Args:
        files: list of str.
        tokenizer: FullTokenizer.
        num_lines: int or None, lines of all files, for the progress bar.

    Returns:
        Corpus.

    Raises:
        UserError: a file cannot be read, or there is no text in any.
    """
    ids, starts = array.array("i"), array.array("b")
    sentences, documents = array.array("q", [0]), array.array("q", [0])
    unknown, lines_dropped = collections.Counter(), 0
    known = tokenizer.vocab.keys() - _UNKNOWN_PIECES
    # By the piece and not by its id: an unknown piece still has the text that decides.
    is_start_piece = functools.lru_cache(maxsize=1 << 16)(tokenizer.is_start_piece)

    for line in _progress(_lines(files), "tokenising", "line", num_lines):
        text = tokenizer.normalize(line.strip())
        if not text:
            if documents[-1] < len(sentences) - 1:
                documents.append(len(sentences) - 1)
            continue
        pieces = tokenizer.tokenize(text)
        if not pieces:
            lines_dropped += 1
            continue
        ids.extend(tokenizer.convert_tokens_to_ids(pieces))
        starts.extend(map(is_start_piece, pieces))
        sentences.append(len(ids))
        unknown.update(piece for piece in pieces if piece not in known)
    if documents[-1] < len(sentences) - 1:
        documents.append(len(sentences) - 1)
    if len(documents) == 1:
        raise UserError(f"no text in {', '.join(files)}: no instance can be made")

    return Corpus(
        np.frombuffer(ids, np.int32),
        np.frombuffer(starts, bool),
        np.frombuffer(sentences, np.int64),
        np.frombuffer(documents, np.int64),
        unknown,
        lines_dropped,
    )


# === Segment pairs ===


class Pair(NamedTuple):
    """Segments A and B as token offsets into a corpus, and the kind of pair."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    kind: int


def plan_pass(corpus, settings, pass_index):
    """Pairs of one pass over all documents, shuffled.

    The original shuffles the finished instances of all passes together, which is what needs so much
    memory; a plan of one pass is small, and each pass holds all of the text anyway.

    Args:
        corpus: Corpus.
        settings: Settings.
        pass_index: int.

    Returns:
        int64 array [instances, 5], the columns of `Pair`.
    """
    plans = []
    for document in range(corpus.num_documents):
        rng = settings.generator(pass_index, _PAIR_DRAWS, document)
        plans.append(np.array(list(document_pairs(corpus, document, settings, rng)), np.int64))
    plan = np.concatenate(plans)
    settings.generator(pass_index, _ORDER_DRAW).shuffle(plan)
    return plan


def document_pairs(corpus, document, settings, rng):
    """Yields the pairs of one document in one pass (paper, section 3.1).

    Sentences are gathered up to a target length and split at a random sentence into A and B. The
    pair is in order, or swapped, or B is from another document: always so for a single sentence,
    which cannot be split, and with `random_next_sentence` half of the time instead of swapping.

    Args:
        corpus: Corpus.
        document: int, index of the document.
        settings: Settings.
        rng: np.random.Generator.
    """
    sentences = corpus.sentences
    begin, stop = corpus.documents[document : document + 2].tolist()
    target = _target_length(settings, rng)
    while begin < stop:
        end = _sentences_reaching(sentences, begin, stop, target)
        split = begin + 1 if end - begin == 1 else int(rng.integers(begin + 1, end))
        a = int(sentences[begin]), int(sentences[split])
        if end - begin == 1 or (settings.random_next_sentence and rng.random() < 0.5):
            b = random_segment(corpus, document, target - (a[1] - a[0]), rng)
            pair = Pair(*a, *b, RANDOM_DOCUMENT)
            begin = split  # what B would have been goes back
        else:
            b = int(sentences[split]), int(sentences[end])
            if not settings.random_next_sentence and rng.random() < 0.5:
                pair = Pair(*b, *a, SWAPPED)
            else:
                pair = Pair(*a, *b, IN_ORDER)
            begin = end
        yield truncate(pair, settings.max_pair_length, rng)


def _target_length(settings, rng):
    """Tokens to gather. Some are short, so that fine-tuning on short inputs is no surprise."""
    if rng.random() < settings.short_seq_prob:
        return int(rng.integers(2, settings.max_pair_length, endpoint=True))
    return settings.max_pair_length


def _sentences_reaching(sentences, begin, stop, length):
    """End of the fewest sentences from `begin`, at least one, that hold `length` tokens."""
    enough = np.searchsorted(sentences[begin : stop + 1], sentences[begin] + length)
    return min(begin + max(1, int(enough)), stop)


def random_segment(corpus, document, length, rng):
    """Sentences from a random place of, if possible, another document.

    Args:
        corpus: Corpus.
        document: int, the document to avoid; after ten draws that hit it, it is taken.
        length: int, tokens wanted; the end of the document may come first.
        rng: np.random.Generator.

    Returns:
        (start, end), token offsets into the corpus.
    """
    for _ in range(_TRIES_FOR_OTHER_DOCUMENT):
        other = int(rng.integers(corpus.num_documents))
        if other != document:
            break
    first, stop = corpus.documents[other : other + 2].tolist()
    begin = int(rng.integers(first, stop))
    end = _sentences_reaching(corpus.sentences, begin, stop, length)
    return int(corpus.sentences[begin]), int(corpus.sentences[end])


def truncate(pair, max_length, rng):
    """Shortens a pair to `max_length` tokens.

    One by one, the longer segment (B of equal ones) loses its first or its last token with equal
    chance. So the difference goes first, then B and A lose in turn, B first; and how many of a
    segment's lost tokens come off its front is binomial.

    Args:
        pair: Pair.
        max_length: int, tokens of both segments.
        rng: np.random.Generator.

    Returns:
        Pair.
    """
    a_length, b_length = pair.a_end - pair.a_start, pair.b_end - pair.b_start
    excess = a_length + b_length - max_length
    if excess <= 0:
        return pair
    from_longer = min(excess, abs(a_length - b_length))
    a_loses, b_loses = (from_longer, 0) if a_length > b_length else (0, from_longer)
    in_turn = excess - from_longer
    a_loses, b_loses = a_loses + in_turn // 2, b_loses + in_turn - in_turn // 2
    a_front, b_front = int(rng.binomial(a_loses, 0.5)), int(rng.binomial(b_loses, 0.5))
    return Pair(
        pair.a_start + a_front,
        pair.a_end - (a_loses - a_front),
        pair.b_start + b_front,
        pair.b_end - (b_loses - b_front),
        pair.kind,
    )


# === Masks ===


def word_groups(starts, is_special, whole_words):
    """Groups the tokens that may be masked into words.

    A piece that starts no word joins the one before it, even across [SEP] (where truncation cut a
    word), as in the original.

    Args:
        starts: bool array [length], whether a piece starts a word.
        is_special: bool array [length], [CLS] and [SEP]; they are never masked.
        whole_words: bool; if False, each token is a group.

    Returns:
        (positions, bounds): int array of the tokens that may be masked, and a list of offsets into
        it: group k is positions[bounds[k]:bounds[k + 1]].
    """
    positions = np.flatnonzero(~is_special)
    if not whole_words:
        return positions, list(range(len(positions) + 1))
    opens = starts[positions]
    opens[:1] = True  # there is no word before it to join
    return positions, [*np.flatnonzero(opens).tolist(), len(positions)]


def choose_ngrams(bounds, covered, budget, length_cdf, rng):
    """Chooses random n-grams of words until a number of tokens is reached (paper, section 4.1).

    The words are visited in random order. From each, an n-gram of random n begins: as many words
    fewer as fit into what is left to choose, and none at all if even one word does not fit, or if
    some of it is covered. Near the end of the text, n-grams are shorter than n.

    Args:
        bounds: list of int, offsets of the words, from `word_groups`.
        covered: bytearray, 1 for tokens already taken; chosen ones are marked.
        budget: int, tokens to choose at most.
        length_cdf: float array [n], distribution function of n-gram lengths.
        rng: np.random.Generator.

    Returns:
        list of int, the chosen tokens, in no order.
    """
    num_words = len(bounds) - 1
    bounds = bounds + bounds[-1:] * len(length_cdf)
    lengths = 1 + np.searchsorted(length_cdf, rng.random(num_words), side="right")
    chosen = []
    for first, n in zip(rng.permutation(num_words).tolist(), lengths.tolist(), strict=True):
        left = budget - len(chosen)
        if left == 0:
            break
        begin = bounds[first]
        while n > 1 and bounds[first + n] - begin > left:
            n -= 1
        end = bounds[first + n]
        if end - begin > left or any(covered[begin:end]):
            continue
        covered[begin:end] = b"\1" * (end - begin)
        chosen.extend(range(begin, end))
    return chosen


def mask_tokens(ids, positions, mask_id, vocab_size, rng):
    """Replaces tokens in place: 80% by [MASK], 10% by any piece, 10% by themselves (as BERT).

    Args:
        ids: int array [length].
        positions: int array of the tokens to predict.
        mask_id: int.
        vocab_size: int; a random piece may be any, special ones too.
        rng: np.random.Generator.
    """
    draws = rng.random(len(positions))
    ids[positions[draws < 0.8]] = mask_id
    random = positions[draws >= 0.9]
    ids[random] = rng.integers(vocab_size, size=len(random))


def masked(ids, starts, is_special, settings, vocabulary, rng):
    """Masks, and with `do_permutation` also shuffles, tokens of one sequence.

    Args:
        ids: int array [length].
        starts: bool array [length], whether a piece starts a word.
        is_special: bool array [length].
        settings: Settings.
        vocabulary: Vocabulary.
        rng: np.random.Generator.

    Returns:
        (new ids [length], positions to predict, ascending).
    """
    if settings.masked_lm_prob == 0:
        return ids, np.zeros(0, np.int64)
    positions, bounds = word_groups(starts, is_special, settings.do_whole_word_mask)
    covered = bytearray(len(positions))
    budget = settings.num_to_predict(len(ids))
    choose = functools.partial(
        choose_ngrams, bounds, covered, budget, settings.ngram_length_cdf, rng
    )
    new_ids = ids.copy()
    to_predict = positions[choose()]
    mask_tokens(new_ids, to_predict, vocabulary.mask, vocabulary.size, rng)
    if settings.do_permutation:
        shuffled = positions[choose()]
        new_ids[shuffled] = rng.permutation(new_ids[shuffled])
        to_predict = np.concatenate([to_predict, shuffled])
    return new_ids, np.sort(to_predict)


# === Records ===


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The ids masking needs, and the number of pieces."""

    cls: int
    sep: int
    mask: int
    size: int

    @classmethod
    def of(cls, tokenizer):
        """Vocabulary of a FullTokenizer.

        Raises:
            UserError: it lacks [CLS], [SEP] or [MASK].
        """
        special = tokenizer.special_ids(with_mask=True)
        return cls(special.cls, special.sep, special.mask, tokenizer.vocab_size)


def instance(corpus, pair, settings, vocabulary, rng):
    """Arrays of one record: [CLS] A [SEP] B [SEP], masked and padded with zeros.

    Args:
        corpus: Corpus.
        pair: Pair.
        settings: Settings.
        vocabulary: Vocabulary.
        rng: np.random.Generator.

    Returns:
        dict from feature name to array, as `settings.schema` says.
    """
    a, b = slice(pair.a_start, pair.a_end), slice(pair.b_start, pair.b_end)
    cls, sep = [vocabulary.cls], [vocabulary.sep]
    ids = np.concatenate([cls, corpus.ids[a], sep, corpus.ids[b], sep])
    starts = np.concatenate([[True], corpus.starts[a], [True], corpus.starts[b], [True]])
    is_special = (ids == vocabulary.cls) | (ids == vocabulary.sep)
    new_ids, predicted = masked(ids, starts, is_special, settings, vocabulary, rng)

    filled = {
        "input_ids": new_ids,
        "input_mask": np.ones(len(ids), np.int64),
        "segment_ids": np.arange(len(ids)) >= 2 + pair.a_end - pair.a_start,
        "token_boundary": starts | is_special,
        "masked_lm_positions": predicted,
        "masked_lm_ids": ids[predicted],
        "masked_lm_weights": np.ones(len(predicted), np.float32),
        "next_sentence_labels": np.array([pair.kind != IN_ORDER]),
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
    def label_mean(self):
        """Share of the instances whose next_sentence_labels is 1."""
        return float(1 - self.kinds[IN_ORDER] / self.instances)

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


def create(files, outputs, tokenizer, settings):
    """Makes the pre-training records of text files.

    Instance k of all passes goes to file k modulo the number of files.

    Args:
        files: list of str, text with one sentence per line and blank lines between documents.
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
    vocabulary = Vocabulary.of(tokenizer)
    _check_outputs(files, outputs)
    corpus = read_corpus(files, tokenizer, count_lines(files))
    summary = Summary(
        documents=corpus.num_documents,
        sentences=corpus.num_sentences,
        tokens=len(corpus.ids),
        unknown=corpus.unknown,
        lines_dropped=corpus.lines_dropped,
    )
    bar = _progress(None, "writing", "instance", None)
    with records.open_writers(outputs) as writers, bar:
        for pass_index in range(settings.dupe_factor):
            plan = plan_pass(corpus, settings, pass_index)
            bar.total = summary.instances + len(plan) * (settings.dupe_factor - pass_index)
            bar.set_postfix_str(f"pass {pass_index + 1} of {settings.dupe_factor}")
            first = summary.instances
            for number, arrays in enumerate(
                _instances(corpus, plan, pass_index, settings, vocabulary), start=first
            ):
                if number < _NUM_LOGGED:
                    _log(number, arrays, tokenizer)
                writers[number % len(writers)].write(records.encode(arrays, settings.schema))
                summary.predictions += int(arrays["masked_lm_weights"].sum())
                summary.instance_tokens += int(arrays["input_mask"].sum())
                bar.update()
            summary.kinds += np.bincount(plan[:, -1], minlength=3)
    summary.seconds = time.monotonic() - started
    return summary


def _instances(corpus, plan, pass_index, settings, vocabulary):
    """Yields the arrays of the planned instances of a pass; each depends on its index alone."""
    for index, row in enumerate(plan.tolist()):
        rng = settings.generator(pass_index, _INSTANCE_DRAWS, index)
        yield instance(corpus, Pair(*row), settings, vocabulary, rng)


def _check_outputs(files, outputs):
    taken = set(map(_same_path, files))
    for path in outputs:
        if _same_path(path) in taken:
            raise UserError(
                f"--output_file: {path} is an input file too, or named twice; choose another name"
            )
        taken.add(_same_path(path))
        records.check_writable(path, "output_file")


def _same_path(path):
    return path if "://" in path else os.path.realpath(path)


def _progress(iterable, what, unit, total):
    """Progress on stderr; where that is no terminal, a line now and then is enough."""
    seconds = 0.5 if sys.stderr.isatty() else 30
    return tqdm(iterable, what, total, unit=f" {unit}s", unit_scale=True, mininterval=seconds)


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
