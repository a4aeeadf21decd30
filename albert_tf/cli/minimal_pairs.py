# SPDX-License-Identifier: Apache-2.0
r"""Measures how often a pre-trained model finds the grammatical sentence of a pair more likely.

python minimal_pairs.py --model=output --input_file='blimp/*.jsonl' --output_file=blimp.json
python minimal_pairs.py --model=output --input_file='blimp/*.jsonl' --pairs_per_paradigm=100
python minimal_pairs.py --model=albert_base --input_file=my-pairs.tsv

A sentence's score is the sum of the log-probabilities of its tokens, each masked in turn. The
command prints the accuracy of each paradigm, phenomenon and field and of all pairs, with standard
errors, in percent; a tie counts half. Chance is 50. With --output_file, the same command resumes a
stopped run. Once the project is installed, `albert-minimal-pairs` is the same command.
"""

from albert_tf import options
from albert_tf.cli import flag_groups, launch, predict


def main(given):
    """Reads the pairs, loads the model, scores the sentences and prints a table."""
    flag_groups.check_filled(given, "output_file")
    flag_groups.check_paths(given)

    from albert_tf import files
    from albert_tf.api import minimal_pairs

    found = files.expand_patterns(given.input_file, "input_file")
    if given.output_file:
        taken = set(map(files.real_path, found))
        files.check_file_writable(given.output_file, "output_file", taken)
    paradigms = minimal_pairs.read(found, given.pairs_per_paradigm)
    loaded, _ = predict.load(given)
    metrics = minimal_pairs.evaluate(loaded, paradigms, given.method, given.output_file)
    print(minimal_pairs.table(metrics))


run = launch.command(main, options.MinimalPairs, options.TrainedModel)  # albert-minimal-pairs
