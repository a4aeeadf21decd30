# SPDX-License-Identifier: Apache-2.0
"""What a masked language model has to beat: guessing from piece frequencies only.

It counts the masked pieces of training records and predicts the held-out ones from the counts. It
prints the accuracy of always naming the most frequent piece, and the loss of the smoothed unigram
model.

python benchmarks/unigram_baseline.py --train='records/train-*' --heldout='records/heldout-*' \
  --max_predictions_per_seq=20 --vocab_size=30000
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from albert_tf.records import input_pipeline, record_files, schemas


def masked_pieces(pattern, flag, max_predictions_per_seq):
    """Ids of all masked pieces of the files that match, int array [n]."""
    full = schemas.pretraining_schema(1, max_predictions_per_seq)
    schema = {name: full[name] for name in ("masked_lm_ids", "masked_lm_weights")}
    paths = record_files.expand_patterns(pattern, flag)
    batches = input_pipeline.eval_dataset(paths, schema, 4096).as_numpy_iterator()
    return np.concatenate([b["masked_lm_ids"][b["masked_lm_weights"] > 0] for b in batches])


def unigram_scores(train_ids, heldout_ids, vocab_size):
    """Accuracy and loss (nats) on held-out ids of a unigram model with add-one smoothing."""
    counts = np.bincount(train_ids, minlength=vocab_size) + 1.0
    log_probabilities = np.log(counts / counts.sum())
    accuracy = np.mean(heldout_ids == counts.argmax())
    return accuracy, -log_probabilities[heldout_ids].mean()


def main():
    """Reads the arguments, prints both scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True, help="globs of training records")
    parser.add_argument("--heldout", required=True, help="globs of held-out records")
    parser.add_argument("--max_predictions_per_seq", type=int, default=20)
    parser.add_argument("--vocab_size", type=int, default=30000)
    args = parser.parse_args()
    train = masked_pieces(args.train, "train", args.max_predictions_per_seq)
    heldout = masked_pieces(args.heldout, "heldout", args.max_predictions_per_seq)
    accuracy, loss = unigram_scores(train, heldout, args.vocab_size)
    print(f"unigram baseline, {heldout.size} pieces: accuracy {accuracy:.4f}, loss {loss:.4f}")


if __name__ == "__main__":
    main()
