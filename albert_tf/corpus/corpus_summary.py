# SPDX-License-Identifier: Apache-2.0
"""The summary of the records made: a page for people, and a JSON file next to the records."""

import collections
import dataclasses

from albert_tf.corpus import text_files
from albert_tf.errors import as_called
from albert_tf.text import text_losses

# Of the instances, by the pairs: those whose second segment is of a random document.
_MANY_RANDOM = {"order": 0.5, "next": 0.75, "none": 0.0}
_MANY_IN_LONG_SENTENCES = 0.05  # of the tokens
_MANY_UNKNOWN = 0.03  # of the tokens
# The original's rule splits words of the text if two shares of the tokens are above this limit:
# those that begin with a space, and those that begin without one but count as words because of
# their letters. With 3,000 pieces, the second share is 0% in English, 24% in Russian and 6% in
# Polish with accents.
_SPLIT_WORDS = 0.05
_MARKED = 0.1  # at least this share of the tokens begins with a space in a language with spaces
KINDS = (
    "instances_in_order",
    "instances_swapped",
    "instances_with_random_document",
    "instances_of_one_segment",
)
_LEFT_OUT = {
    "lines_dropped": "dropped: {count} lines in which the tokenizer finds nothing",
    "documents_dropped": "dropped: {count} documents that repeat an earlier one",
    "near_duplicates_dropped": "dropped: {count} documents that nearly repeat another",
    **{
        reason: f"skipped: {{count}} {text}, first {{first}}"
        for reason, text in text_files.LEFT_OUT.items()
    },
    "files_kept": "kept: {count} finished output files of an earlier run",
}
_NAMES = (
    *("documents", "documents_of_one_sentence", "sentences", "tokens", "unknown_share"),
    *("unknown_most_common", "sentences_far_too_long", "lines_dropped", "documents_dropped"),
    *("near_duplicates_dropped", *text_files.LEFT_OUT, "instances", *KINDS, "instance_tokens"),
    *("tokens_cut_by_truncation", "predictions", "masked_share", "text_losses", "seconds"),
)  # names of the values in JSON


@dataclasses.dataclass
class Summary:
    """Counts of the text and its records; `str` gives a readable page.

    Args:
        counts: Counter. For the text read, it holds the counts of line_encoder.EncodedLines,
            documents_dropped and near_duplicates_dropped; for the documents used, the `sizes` of
            corpus_files.Corpus; for the records, instances, the KINDS of instances,
            instance_tokens (with specials), predictions and tokens_cut_by_truncation. files_kept
            is the number of output files kept from an earlier run.
        unknown: Counter of the pieces that are not in the vocabulary, in the documents used.
        first_skipped: dict from the name of a count of lines that were left out to list of str, the
            places of the first of them.
        word_start: str, one of options.WORD_STARTS.
        is_split: bool, whether the text was split into sentences; if not, each line is a sentence.
        pairs: str, one of options.SENTENCE_PAIRS.
        seconds: float, of this run.
        held_out: Summary of the documents that were held out, or None.
    """

    counts: collections.Counter
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    first_skipped: dict = dataclasses.field(default_factory=dict)
    word_start: str = "original"
    is_split: bool = False
    pairs: str = "order"
    seconds: float = 0.0
    held_out: "Summary | None" = None

    @property
    def masked_share(self):
        """Predictions per token, with special tokens counted."""
        return self.counts["predictions"] / self.counts["instance_tokens"]

    @property
    def unknown_share(self):
        """Unknown pieces per token of the text."""
        return self.unknown.total() / self.counts["tokens"]

    def as_json(self):
        """The counts and settings as JSON values."""
        others = {
            "unknown_share": self.unknown_share,
            "unknown_most_common": dict(self.unknown.most_common(20)),
            "masked_share": self.masked_share,
            "text_losses": text_losses.as_json(self.counts, self.unknown),
            "seconds": round(self.seconds, 1),
        }
        return {name: others.get(name, self.counts[name]) for name in _NAMES}

    def __str__(self):
        lines = [self._page(), *self._warnings_of_text()]
        if self.held_out:  # whose counts of the text read are the same
            lines += ["held out:", self.held_out._page()]
        return "\n".join(lines)

    def _page(self):
        """What depends on the documents used."""
        counts, instances = self.counts, self.counts["instances"]
        to_predict = f"{self.masked_share:.2%} of them to predict"
        if not counts["predictions"]:
            to_predict = "none of them to predict: train with --masked_lm_budget"
        lines = [
            f"text: {counts['documents']} documents, {counts['sentences']} sentences, "
            f"{counts['tokens']} tokens, "
            f"{self.unknown_share:.3%} unknown",
            f"instances: {instances}, {counts['instance_tokens'] / instances:.1f} tokens "
            f"each, {to_predict}",
            self._labels(),
            f"time: {self.seconds:.1f} s",
        ]
        if self.unknown:
            most = ", ".join(f"{piece!a} {count}" for piece, count in self.unknown.most_common(5))
            lines.append(f"unknown pieces: {self.unknown.total()}, most often {most}")
        for name, text in _LEFT_OUT.items():
            if count := counts[name]:
                first = "; ".join(self.first_skipped.get(name, ()))
                lines.append(text.format(count=count, first=first))
        return "\n".join([*lines, *self._warnings()])

    def _labels(self):
        if self.pairs == "none":
            return (
                "one segment each, without next_sentence_labels: train with "
                "--sentence_loss_weight=0"
            )
        in_order, swapped, random, _ = (
            self.counts[name] / self.counts["instances"] for name in KINDS
        )
        return (
            f"next_sentence_labels: 0 in order {in_order:.1%}; 1 swapped {swapped:.1%}, "
            f"1 random document {random:.1%}"
        )

    def _warnings(self):
        counts = self.counts
        yield from self._warnings_of_pairs()
        share = counts["tokens_of_long_sentences"] / counts["tokens"]
        if share > _MANY_IN_LONG_SENTENCES:
            yield (
                f"warning: {counts['sentences_far_too_long']} sentences are far longer than "
                f"--max_seq_length, with {share:.1%} of the tokens, and only a part of each "
                "is used. Text without ends of sentences needs --max_line_length or "
                "--sentence_pairs=none. Otherwise: "
                + self._advice("no text without ends of sentences")
            )
        if self.unknown_share > _MANY_UNKNOWN:
            yield (
                f"warning: {self.unknown_share:.1%} of the tokens are unknown: the vocabulary does "
                "not fit the text. Check --do_lower_case, take a vocabulary of this language, or "
                f"train one with {as_called('train_sentencepiece.py')}"
            )

    def _warnings_of_text(self):
        """Warnings that depend on the whole text read, also on documents that are held out."""
        counts = self.counts
        read = counts["tokens_read"]
        marks_and_letters = min(counts["inner_letters"], counts["marked"])
        if self.word_start == "original" and marks_and_letters > _SPLIT_WORDS * read:
            yield (
                "warning: the original's rule takes pieces with letters other than a-z for words, "
                "so words of this language are masked in parts; give --word_start=piece"
            )
        if self.word_start == "piece" and counts["marked"] < _MARKED * read:
            yield (
                "warning: hardly any piece begins with a space, so with --word_start=piece a word "
                "is a run of many pieces, too long for most masks; give --word_start=original"
            )
        unknown = collections.Counter(self.unknown)
        if self.held_out:
            unknown += self.held_out.unknown
        for sentence in text_losses.sentences(counts, unknown):
            yield f"warning: {sentence}"

    def _warnings_of_pairs(self):
        counts = self.counts
        random = counts["instances_with_random_document"] / counts["instances"]
        if counts["documents"] == 1 and self.pairs != "none":
            yield (
                "warning: this is a single document, so segments of a random document come from "
                "the same; put a blank line between documents"
            )
        elif random > _MANY_RANDOM[self.pairs]:
            yield (
                f"warning: {random:.1%} of the instances have a second segment of a random "
                "document, with the label 1, because one sentence cannot be split: "
                f"{counts['documents_of_one_sentence']} of {counts['documents']} documents have "
                "only one, and the others may have sentences that fill an instance. For short "
                "texts, give --sentence_pairs=none, and for long sentences, --max_line_length. "
                "Otherwise: " + self._advice("a blank line only between documents")
            )

    def _advice(self, wanted):
        if self.is_split:
            return f"Check that --language is that of the text, and that there is {wanted}"
        return (
            f"Write one sentence per line, and make sure that there is {wanted}, or let "
            "--input_format=documents split the text into sentences"
        )
