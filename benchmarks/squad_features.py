# SPDX-License-Identifier: Apache-2.0
"""How fast SQuAD questions become features, and how much faster than by the plain algorithm.

The plain algorithm, which the tests compare with, fills the table of the alignment cell by cell,
again for every question, as the original does. It runs only on the first questions of the file.

python benchmarks/squad_features.py --data_file=dev-v1.1.json --spm_model_file=30k-clean.model
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from processes import processor_seconds

from albert_tf.tasks.squad import alignment as squad_alignment
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.text.tokenization import FullTokenizer, preprocess_text
from tests.tasks.squad.test_features import reference_links


def convert(examples, tokenizer, settings):
    """Alignment, windows and sequences of all questions; returns the number of features."""
    features = squad_features.convert_examples(examples, tokenizer, settings, training=False)
    return sum(len(batch["input_ids"]) for batch in features.batches())


def align_plainly(examples, tokenizer, do_lower_case):
    """The plain alignment of each question, on normalised characters that come for free."""
    for example in examples:
        text = example.paragraph_text
        pieces = tokenizer.tokenize(preprocess_text(text, lower=do_lower_case), is_normalized=True)
        characters = squad_alignment.normalized_characters(text, tokenizer.clean_up)
        reference_links(characters, "".join(pieces).replace("▁", " "))


def main():
    """Reads the arguments, prints the speed and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_file", required=True, help="SQuAD JSON")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--sample", type=int, default=100, help="questions for the plain algorithm")
    args = parser.parse_args()
    settings = squad_features.WindowSettings()
    tokenizer = FullTokenizer(spm_model_file=args.spm_model_file)
    examples = squad_questions.read_examples(args.data_file, training=False)
    sample = examples[: args.sample]

    whole = processor_seconds(convert, examples, tokenizer, settings)
    print(f"{len(examples)} questions: {len(examples) / whole:.0f} per second, ", end="")
    print(f"{1000 * whole / len(examples):.3f} s per 1,000")
    plain = processor_seconds(align_plainly, sample, tokenizer, tokenizer.do_lower_case)
    ours = processor_seconds(convert, sample, tokenizer, settings)
    print(f"the first {len(sample)} of them:")
    print(f"  only the plain alignment {1000 * plain / len(sample):.2f} s per 1,000")
    print(f"  ours with features {1000 * ours / len(sample):.3f} s per 1,000: ", end="")
    print(f"{plain / ours:.0f} times faster")


if __name__ == "__main__":
    main()
