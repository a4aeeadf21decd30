# SPDX-License-Identifier: Apache-2.0
"""Sequences per second of the training input, against a shuffle buffer; seconds until it starts.

The alternative is the original's pipeline: files in random order, four of them read side by side,
records drawn from a buffer of 100. Both read, shuffle, parse and check the same made-up
pre-training records, in turns, so that other work of the machine affects both. Sequences per second
of processor time are less affected by other processes than those per second of the clock. The files
are kept with --directory and used again.

A third pipeline masks the sequences as run_pretraining.py --masked_lm_budget=0.15 does. With
--train_steps, training steps of ALBERT-base take turns with the pipelines.

python benchmarks/input_pipeline.py --gigabytes=1 --max_seq_length=512
python benchmarks/input_pipeline.py --gigabytes=0.2 --batches=50 --train_steps=2 --dtype=bf16
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import processes
import tensorflow as tf
import train_step

from albert_tf.corpus import instances
from albert_tf.records import graph_masking, input_pipeline, record_files, schemas
from albert_tf.text.tokenization import SpecialIds

FILES, PREDICTIONS = 5, 20
TRAIN_BATCH = 4  # sequences of a training step
SPECIAL_IDS = SpecialIds(0, 2, 3, 4)
WARM_UP = 3  # batches before the clock runs
TRAINING = "training steps"


def make_files(directory, args):
    """Writes files of made-up records, if they are not there; returns their paths."""
    os.makedirs(directory, exist_ok=True)
    paths = [os.path.join(directory, f"{n:03}.tfrecord") for n in range(FILES)]
    if all(map(os.path.exists, paths)):
        return paths
    length, rng = args.max_seq_length, np.random.default_rng(0)
    schema = schemas.pretraining_schema(length, PREDICTIONS)

    def example():
        used = rng.integers(length // 8, length + 1)
        mask = (np.arange(length) < used).astype(int)
        ids = rng.integers(5, 30000, length)
        ids[[0, used // 2, used - 1]] = SPECIAL_IDS.cls, SPECIAL_IDS.sep, SPECIAL_IDS.sep
        return {
            "input_ids": ids * mask,
            "input_mask": mask,
            "segment_ids": mask * (np.arange(length) > used // 2),
            "token_boundary": (rng.random(length) < 0.8) * mask,
            "masked_lm_positions": rng.integers(0, used, PREDICTIONS),
            "masked_lm_ids": rng.integers(5, 30000, PREDICTIONS),
            "masked_lm_weights": np.ones(PREDICTIONS),
            "next_sentence_labels": [0],
        }

    rows = [example() for _ in range(1000)]
    columns = {name: np.stack([row[name] for row in rows]) for name in schema}
    some = schemas.encode_rows(columns, schema)
    per_file = int(args.gigabytes * 1e9 / FILES / np.mean([len(record) for record in some]))
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for n in range(per_file):
                writer.write(some[(n + number) % len(some)])
    return paths


def buffered_batches(paths, schema, batch_size):
    """The alternative: endless batches of the original's pipeline."""
    names = tf.data.Dataset.from_tensor_slices(paths).repeat().shuffle(len(paths), seed=1)
    drawn = names.interleave(
        tf.data.TFRecordDataset,
        cycle_length=min(4, len(paths)),
        block_length=1,
        num_parallel_calls=tf.data.AUTOTUNE,
    ).shuffle(100, seed=1)
    batches = input_pipeline.parsed_batches(drawn, schema, batch_size, drop_remainder=True)
    return batches.prefetch(tf.data.AUTOTUNE)


def rates(sources, args, worker):
    """Sequences per second of the clock and of processor time, of each source and of training.

    Args:
        sources: dict from name to tf.data.Dataset.
        args: of the command line.
        worker: processes.Worker that does steps, or None.
    """
    totals = {name: np.zeros(2) for name in sources}
    reports = []
    for _ in range(args.turns):
        reports += [worker.ask() for _ in range(args.train_steps)] if worker else []
        for name, source in sources.items():
            # Made again: one that waits for its turn would read ahead meanwhile.
            iterator = iter(source)
            for _ in range(WARM_UP):
                next(iterator)
            start = processes.clocks()
            for _ in range(args.batches):
                next(iterator)
            totals[name] += processes.clocks() - start
            del iterator
    sequences = args.turns * args.batches * args.batch_size
    found = {name: sequences / seconds for name, seconds in totals.items()}
    if reports:
        seconds = [sum(report[key] for report in reports) for key in ("seconds", "cpu")]
        found[TRAINING] = len(reports) * TRAIN_BATCH / np.array(seconds)
    return found


def show(found):
    """Prints the rates, and the ratios that matter."""
    print(f"{'sequences per second of':<24} {'clock':>10} {'processor':>10}")
    for name, (clock, processor) in found.items():
        print(f"{name:<24} {clock:>10.1f} {processor:>10.1f}")
    pairs = [("windows", "buffer"), ("masked", "windows")]
    pairs += [("masked", TRAINING)] if TRAINING in found else []
    for name, other in pairs:
        clock, processor = found[name] / found[other]
        print(f"{f'{name} / {other}':<24} {clock:>10.2f} {processor:>10.2f}")


def main():
    """Reads the arguments and prints the rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", help="for the files; a temporary one by default")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--max_seq_length", type=int, default=512)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--batches", type=int, default=1000, help="of each turn")
    parser.add_argument("--turns", type=int, default=3, help="of each kind")
    parser.add_argument("--train_steps", type=int, default=0, help="of each turn")
    parser.add_argument("--dtype", default="bf16", help="of these: fp32 or bf16")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        paths = make_files(args.directory or temporary, args)
        (seconds, _), files = processes.timed(record_files.read_index, paths)
        total, size = sum(file.count for file in files), sum(map(os.path.getsize, paths))
        print(f"{total} records, {size / 1e9:.1f} GB, counted in {seconds:.1f} s")
        whole = schemas.pretraining_schema(args.max_seq_length, PREDICTIONS)
        schema = {name: whole[name] for name in whole if name != "token_boundary"}
        unmasked = {name: whole[name] for name in whole if not name.startswith("masked_lm_")}
        settings = instances.Settings(
            max_seq_length=args.max_seq_length, max_predictions_per_seq=PREDICTIONS
        )
        masking = graph_masking.Masking(settings, SPECIAL_IDS, vocab_size=30000)

        def batches(schema, **options):
            return input_pipeline.train_batches(files, schema, args.batch_size, seed=1, **options)

        for part in (0, 0.33, 0.5, 0.99, 20.7):
            start = time.perf_counter()
            next(iter(batches(schema, first_step=int(part * total / args.batch_size))))
            print(f"first batch from epoch {part:<5}: {time.perf_counter() - start:.2f} s")
        sources = {
            "windows": batches(schema),
            "buffer": buffered_batches(paths, schema, args.batch_size),
            "masked": batches(unmasked, masking=masking),
        }
        worker = None
        if args.train_steps:
            case = {"size": "base", "length": args.max_seq_length, "predictions": PREDICTIONS}
            case |= {"batch": TRAIN_BATCH, "dtype": args.dtype}
            worker = stack.enter_context(train_step.start("ours", train_step.CASE | case))
        show(rates(sources, args, worker))


if __name__ == "__main__":
    main()
