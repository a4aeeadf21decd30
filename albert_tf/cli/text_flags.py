# SPDX-License-Identifier: Apache-2.0
"""Flags of the scripts that read raw text: which files, and their form."""

from absl import flags

from albert_tf import choices
from albert_tf.cli import flag_groups


@flag_groups.subject("Text")
def define():
    """Defines the flags; names and defaults of the original's are the original's."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Comma-separated glob patterns of UTF-8 text files, plain, .gz or .bz2: one sentence per "
        "line, a blank line between documents. See --input_format for other forms.",
    )
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text. True for the published models.")
    define_strip_accents()
    flags.DEFINE_enum(
        "input_format",
        "sentences",
        choices.TEXT_FORMATS,
        "sentences: one per line, and a blank line between documents. documents: a blank line "
        "between them, or see --document_per_line. jsonl: one JSON object per line. Documents are "
        "split into sentences by the package sentence-splitter.",
    )
    flags.DEFINE_bool(
        "document_per_line", False, "With --input_format=documents: every line is a document."
    )
    flags.DEFINE_string("text_key", "text", "With --input_format=jsonl: the key of the text.")
    flags.DEFINE_string("language", "en", "Language of the documents to split, two letters.")
    flags.DEFINE_bool(
        "file_is_document", False, "The end of a file ends a document. It does not in the original."
    )
    flags.DEFINE_enum(
        "on_decode_error",
        "stop",
        choices.ON_DECODE_ERROR,
        "What to do with a line that is not UTF-8: stop, or skip it; the summary counts them.",
    )


def define_strip_accents():
    """Defines --strip_accents, which every script has that reads text or exports what does."""
    flags.DEFINE_bool(
        "strip_accents",
        True,
        "Drop the marks of letters, as the published models need: \u00e9 becomes e, \u0439 becomes "
        "\u0438. With a WordPiece vocabulary, only if --do_lower_case is set too.",
    )
