# SPDX-License-Identifier: Apache-2.0
"""What was made of a text: a page for people, and a JSON file beside the records."""

import collections
import dataclasses

import numpy as np

from albert_tf.errors import as_called

_MANY_SINGLE_SENTENCES = 0.5  # of the documents
_MANY_IN_LONG_SENTENCES = 0.05  # of the tokens
_MANY_UNKNOWN = 0.03  # of the tokens


@dataclasses.dataclass
class Summary:
    """What was made; `str` of it is a text for people.

    Args:
        documents, sentences, tokens: int, of the text.
        single_sentences: int, documents of a single sentence.
        unknown: Counter of the pieces in it that are not in the vocabulary.
        lines_dropped: int, lines of the whole text, also of documents left out, without any piece.
        documents_dropped, near_duplicates: int, documents left out because they repeat an earlier
            one, exactly or nearly.
        lines_skipped: int, lines left out because they are not UTF-8.
        first_skipped: list of str, where the first of them are.
        long_sentences, tokens_of_long_sentences: int, sentences far longer than an instance.
        splits_words, merges_words: bool, whether the rule of word starts splits the words of this
            language, or takes many of them for one.
        kinds: int array [3], instances in order, swapped, and with a random document.
        tokens_cut: int, tokens that truncation took from the segments.
        instance_tokens: int, tokens of all instances, specials included.
        predictions: int, tokens to predict.
        seconds: float, of this run.
        is_split: bool, whether the text was split into sentences; else each line is one.
        kept: int, output files of an earlier run that were kept.
        held_out: Summary of the documents that were held out, or None.
    """

    documents: int
    sentences: int
    tokens: int
    single_sentences: int
    unknown: collections.Counter
    lines_dropped: int
    documents_dropped: int = 0
    near_duplicates: int = 0
    lines_skipped: int = 0
    first_skipped: list = dataclasses.field(default_factory=list)
    long_sentences: int = 0
    tokens_of_long_sentences: int = 0
    splits_words: bool = False
    merges_words: bool = False
    kinds: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3, np.int64))
    tokens_cut: int = 0
    instance_tokens: int = 0
    predictions: int = 0
    seconds: float = 0.0
    is_split: bool = False
    kept: int = 0
    held_out: "Summary | None" = None

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

    def as_json(self):
        """The figures as values that JSON has."""
        in_order, swapped, random = self.kinds.tolist()
        return {
            "documents": self.documents,
            "documents_of_one_sentence": self.single_sentences,
            "sentences": self.sentences,
            "tokens": self.tokens,
            "unknown_share": self.unknown_share,
            "unknown_most_common": dict(self.unknown.most_common(20)),
            "sentences_far_too_long": self.long_sentences,
            "lines_dropped": self.lines_dropped,
            "documents_dropped": self.documents_dropped,
            "near_duplicates_dropped": self.near_duplicates,
            "lines_skipped": self.lines_skipped,
            "instances": self.instances,
            "instances_in_order": in_order,
            "instances_swapped": swapped,
            "instances_with_random_document": random,
            "instance_tokens": self.instance_tokens,
            "tokens_cut_by_truncation": self.tokens_cut,
            "predictions": self.predictions,
            "masked_share": self.masked_share,
            "seconds": round(self.seconds, 1),
        }

    def __str__(self):
        in_order, swapped, random = self.kinds / self.instances
        to_predict = f"{self.masked_share:.2%} of them to predict"
        if not self.predictions:
            to_predict = "none of them to predict: train with --masked_lm_budget"
        lines = [
            f"text: {self.documents} documents, {self.sentences} sentences, {self.tokens} tokens, "
            f"{self.unknown_share:.3%} unknown",
            f"instances: {self.instances}, {self.instance_tokens / self.instances:.1f} tokens "
            f"each, {to_predict}",
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
        if self.documents_dropped:
            lines.append(f"dropped: {self.documents_dropped} documents that repeat an earlier one")
        if self.near_duplicates:
            lines.append(f"dropped: {self.near_duplicates} documents that nearly repeat another")
        if self.lines_skipped:
            lines.append(
                f"skipped: {self.lines_skipped} lines that are not UTF-8, first "
                + "; ".join(self.first_skipped)
            )
        if self.kept:
            lines.append(f"kept: {self.kept} finished output files of an earlier run")
        lines += self._warnings()
        if self.held_out:
            lines += ["held out:", str(self.held_out)]
        return "\n".join(lines)

    def _warnings(self):
        single = self.single_sentences / self.documents
        if self.documents == 1:
            yield (
                "warning: this is a single document, so segments of a random document come from "
                "the same; put a blank line between documents"
            )
        elif single > _MANY_SINGLE_SENTENCES:
            yield (
                f"warning: {single:.1%} of the documents are a single sentence, which cannot be "
                "split: the second segment is of a random document, and the label always 1. "
                + self._advice("a blank line only between documents")
            )
        if (share := self.tokens_of_long_sentences / self.tokens) > _MANY_IN_LONG_SENTENCES:
            yield (
                f"warning: {self.long_sentences} sentences are far longer than --max_seq_length, "
                f"with {share:.1%} of the tokens, and only a part of each is used. "
                + self._advice("no text without ends of sentences")
            )
        if self.unknown_share > _MANY_UNKNOWN:
            yield (
                f"warning: {self.unknown_share:.1%} of the tokens are unknown: the vocabulary does "
                "not fit the text. Check --do_lower_case, take a vocabulary of this language, or "
                f"train one with {as_called('train_sentencepiece.py')}"
            )
        if self.splits_words:
            yield (
                "warning: the original's rule takes pieces with letters other than a-z for words, "
                "so words of this language are masked in parts; give --word_start=piece"
            )
        if self.merges_words:
            yield (
                "warning: hardly a piece begins with a space, so with --word_start=piece a word is "
                "a run of many pieces, too long for most masks; give --word_start=original"
            )

    def _advice(self, wanted):
        if self.is_split:
            return f"Check that --language is that of the text, and that there is {wanted}"
        return (
            f"Write one sentence per line, and see that there is {wanted}, or let "
            "--input_format=documents split the text into sentences"
        )
