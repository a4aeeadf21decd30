# SPDX-License-Identifier: Apache-2.0
"""Time of making pre-training records, against SentencePiece's own encoding of the same text.

Both take the same text in turns, on one core each, and processor time is compared, so that other
processes affect both. What counts is the ratio: everything at --dupe_factor passes, reading and
writing included, over the batch encoding of the whole text to ids on one thread. The smallest of
several rounds is taken of each.

python benchmarks/create_pretraining_data.py --input_file=books.txt --spm_model_file=30k-clean.model
"""

import argparse
import functools
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import processes

from albert_tf.corpus import build, instances
from albert_tf.text import tokenization


def parse_args():
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_file", required=True, help="UTF-8 text, a sentence a line")
    parser.add_argument("--spm_model_file", help="SentencePiece model")
    parser.add_argument("--vocab_file", help="WordPiece vocabulary, instead")
    parser.add_argument("--max_seq_length", type=int, default=512)
    parser.add_argument("--max_predictions_per_seq", type=int, default=20)
    parser.add_argument("--dupe_factor", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.dupe_factor < 2:
        parser.error("--dupe_factor must be at least 2: the time of a pass is a difference")
    return args


def make(args, tokenizer, passes):
    """Makes the records of so many passes."""
    settings = instances.Settings(
        max_seq_length=args.max_seq_length,
        max_predictions_per_seq=args.max_predictions_per_seq,
        dupe_factor=passes,
    )
    with tempfile.TemporaryDirectory() as directory:
        output = os.path.join(directory, "out")
        build.create([args.input_file], [output], tokenizer, settings)


def main():
    """Measures in turns and prints the smallest times and the ratios."""
    args = parse_args()
    tokenizer = tokenization.FullTokenizer(args.vocab_file, spm_model_file=args.spm_model_file)
    text = Path(args.input_file).read_bytes()
    megabytes = len(text) / 1e6
    lines = [tokenizer.normalize(line.strip()) for line in text.decode().split("\n")]
    encode = tokenizer.encode_batch
    if args.spm_model_file:  # as its users call it
        processor = tokenization.load_sentencepiece(args.spm_model_file)
        encode = functools.partial(processor.encode, num_threads=1)
    rounds = []
    for _ in range(args.rounds):
        calls = [(encode, lines)]
        calls += [(make, args, tokenizer, passes) for passes in (1, args.dupe_factor)]
        rounds.append([processes.processor_seconds(*call) for call in calls])
    base, one, many = map(min, zip(*rounds, strict=True))
    each = (many - one) / (args.dupe_factor - 1)
    name = "SentencePiece, ids in one batch" if args.spm_model_file else "WordPiece"
    print(f"{megabytes:.1f} MB, T={args.max_seq_length}, smallest of {args.rounds} rounds")
    print(f"{name}: {base / megabytes:.3f} s/MB")
    print(f"once: {(one - each) / megabytes:.3f} s/MB; each pass: {each / megabytes:.3f} s/MB")
    print(f"everything at dupe_factor {args.dupe_factor}: {many / base:.1f} times that encoding")


if __name__ == "__main__":
    main()
