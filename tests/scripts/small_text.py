# SPDX-License-Identifier: Apache-2.0
"""Records of a small text, and their vocabulary."""

import create_pretraining_data

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d", "##e", "."]
TEXT = "\n\n".join("\n".join(["a bd c .", "c b a bde b", "b"] * 5) for _ in range(3))
LENGTH = 24


def make_records(run_main, directory, name, **given):
    """Writes a file of records, with in.txt and vocab.txt next to it."""
    files = {"input_file": directory / "in.txt", "vocab_file": directory / "vocab.txt"}
    files["input_file"].write_text(TEXT)
    files["vocab_file"].write_text("\n".join(PIECES) + "\n")
    sizes = {"max_seq_length": LENGTH, "max_predictions_per_seq": 4}
    run_main(create_pretraining_data, **files | sizes | given, output_file=directory / name)
