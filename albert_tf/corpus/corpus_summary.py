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
_FEW_MASKED = 0.5  # of the predictions that the settings ask for
# The original's rule splits words of the text if two shares of the tokens are above this limit:
# those that begin with a space, and those that begin without one but count as words because of
# their letters. With 3,000 pieces, the second share is 0% in English, 24% in Russian and 6% in
# Polish with accents.
_SPLIT_WORDS = 0.05
_MARKED = 0.1  # at least this share of the tokens begins with a space in a language with spaces
KINDS = (  # of pairs, in the order of their numbers in `segment_pairs`
    "instances_in_order",
    "instances_swapped",
    "instances_with_random_document",
    "instances_of_one_segment",
)
_ON_PURPOSE = {
    "words_joined": text_files.JOINED,
    "documents_dropped": "dropped: {} documents that repeat an earlier one",
    "near_duplicates_dropped": "dropped: {} documents that nearly repeat another",
    "files_kept": "kept: {} finished output files of an earlier run",
}
_WARNING = "warning: {}"
_REMEDIES = {  # for sentences and documents that are too long or too short
    "sentences": "write one sentence per line and a blank line only between documents, or give "
    "--input_format=documents",
    "documents": "check --language, and that a blank line is only between documents",
    "jsonl": "check --language, and that --text_key has whole documents",
}
_NAMES = (  # of the values in JSON
    "documents", "documents_of_one_sentence", "sentences", "tokens", "unknown_share",
    "unknown_most_common", "sentences_far_too_long", "documents_dropped", "near_duplicates_dropped",
    *text_files.LEFT_OUT, "words_joined", "instances", *KINDS, "instance_tokens",
    "tokens_cut_by_truncation", "predictions", "masked_share", "text_losses", "seconds",
)  # fmt: skip


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
        input_format: str, as in text_files.Format.
        pairs: str, one of options.SENTENCE_PAIRS.
        seconds: float, of this run.
        held_out: Summary of the documents that were held out, or None.
        num_wanted: float, least number of predictions that the settings ask for if whole words are
            masked; 0 if they are not, or if nothing is.
    """

    counts: collections.Counter
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    first_skipped: dict = dataclasses.field(default_factory=dict)
    word_start: str = "original"
    input_format: str = "sentences"
    pairs: str = "order"
    seconds: float = 0.0
    held_out: "Summary | None" = None
    num_wanted: float = 0.0

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
        lines = [self._page()]
        for reason, text in text_files.LEFT_OUT.items():
            if count := self.counts[reason]:
                first, total = self.first_skipped.get(reason, ()), self.counts["text_lines"]
                if reason == "lines_dropped":  # a line of a file may have several sentences
                    total = max(total, self.counts["sentences"] + count)
                lines.append(text_files.left_out(count, total, text, first))
        lines += map(_WARNING.format, self._on_text())
        if self.held_out:  # of the same text, whose warnings are printed above
            lines += ["held out:", self.held_out._page()]
        return "\n".join(lines)

    def _page(self):
        """What depends on the documents used."""
        counts, instances = self.counts, self.counts["instances"]
        to_predict = f"{self.masked_share:.2%} of them to predict"
        if not counts["predictions"]:
            to_predict = "none of them to predict"
            if not self.num_wanted:
                to_predict += ": train with --masked_lm_budget"
        labels = "one segment each, without labels: train with --sentence_loss_weight=0"
        if self.pairs != "none":
            in_order, swapped, random, _ = (counts[name] / instances for name in KINDS)
            labels = (
                f"next_sentence_labels: 0 in order {in_order:.1%}; 1 swapped {swapped:.1%}, "
                f"1 random document {random:.1%}"
            )
        lines = [
            f"text: {counts['documents']} documents, {counts['sentences']} sentences, "
            f"{counts['tokens']} tokens, {self.unknown_share:.3%} unknown",
            f"instances: {instances}, {counts['instance_tokens'] / instances:.1f} tokens each, "
            + to_predict,
            labels,
            f"time: {self.seconds:.1f} s",
        ]
        if self.unknown:
            most = ", ".join(f"{piece!r} {count}" for piece, count in self.unknown.most_common(5))
            lines.append(f"unknown pieces: {self.unknown.total()}, most often {most}")
        lines += [text.format(counts[key]) for key, text in _ON_PURPOSE.items() if counts[key]]
        return "\n".join([*lines, *map(_WARNING.format, self._on_documents())])

    def _on_documents(self):
        """What is wrong with the documents used, and a remedy: yields str."""
        counts = self.counts
        remedy = _REMEDIES[self.input_format]
        random = counts["instances_with_random_document"] / counts["instances"]
        if counts["documents"] == 1 and (self.pairs != "none" or counts["sentences"] > 1):
            yield (
                "this is a single document, so an instance can have lines of different texts, and "
                "each random document is the same: put a blank line between documents, or give "
                "--input_format=documents --document_per_line if each line is one"
            )
        elif random > _MANY_RANDOM[self.pairs]:
            yield (
                f"{random:.1%} of the instances have a second segment of a random document, since "
                f"{counts['documents_of_one_sentence']} of {counts['documents']} documents have "
                "one sentence, or since sentences fill an instance. Short texts need "
                f"--sentence_pairs=none, long sentences --max_line_length. Otherwise, {remedy}"
            )
        share = counts["tokens_of_long_sentences"] / counts["tokens"]
        if share > _MANY_IN_LONG_SENTENCES:
            yield (
                f"of {counts['sentences_far_too_long']} sentences far longer than "
                f"--max_seq_length, with {share:.1%} of the tokens, only a part is used. Text "
                "without ends of sentences needs --max_line_length or --sentence_pairs=none. "
                f"Otherwise, {remedy}"
            )
        if counts["predictions"] < self.num_wanted * _FEW_MASKED:
            yield (
                f"only {self.masked_share:.2%} of the tokens are to predict, since most words have "
                "more tokens than a mask: give --do_whole_word_mask=false, or put spaces between "
                "words"
            )
        if self.unknown_share > _MANY_UNKNOWN:
            yield (
                f"{self.unknown_share:.1%} of the tokens are unknown to the vocabulary: check "
                "--do_lower_case, or take a vocabulary of this language, such as one from "
                + as_called("train_sentencepiece.py")
            )

    def _on_text(self):
        """What is wrong with the whole text, also if documents are held out: yields str."""
        counts = self.counts
        read = counts["tokens_read"]
        marks_and_letters = min(counts["inner_letters"], counts["marked"])
        if self.word_start == "original" and marks_and_letters > _SPLIT_WORDS * read:
            yield "words of this language are masked in parts; give --word_start=piece"
        if self.word_start == "piece" and counts["marked"] < _MARKED * read:
            yield (
                "with --word_start=piece, words have many tokens, too many for most masks, since "
                "hardly any piece begins with a space; give --word_start=original"
            )
        unknown = collections.Counter(self.unknown)
        if self.held_out:
            unknown += self.held_out.unknown
        yield from text_losses.warnings(counts, unknown)
