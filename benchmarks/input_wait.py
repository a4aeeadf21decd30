# SPDX-License-Identifier: Apache-2.0
"""How long training steps wait for their input.

Training steps of the library (`albert_tf.training.steps`) read batches from three sources, in
turns in one process: one batch in memory, masked records, and unmasked records that are masked
while they are read. A clock inside the step's graph runs from before `next(iterator)` until the
batch is there. "waiting" is the sum of these times as a share of the steps' time; the batch in
memory needs no waiting, so its share is the time of TensorFlow itself. "step" is the median step as
a ratio to that with the batch in memory; "CPU" is the same of the processor time that all threads
of the process use meanwhile, those of the input too. Where other processes run, the times by the
clock say little.

Both files are made of the same text with create_pretraining_data.py --max_seq_length=128, the
second one with --masked_lm_prob=0.

python benchmarks/input_wait.py --input_file=masked --unmasked_file=unmasked \
  --spm_model_file=30k-clean.model --sizes=tiny,mini
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import processes
import tensorflow as tf
import train_step

from albert_tf import options
from albert_tf.checkpoints import name_table
from albert_tf.corpus import instances
from albert_tf.model import heads, objectives, optimization
from albert_tf.records import graph_masking, input_pipeline, record_files, schemas
from albert_tf.text import tokenization
from albert_tf.training import devices, steps

WARM_UP = 3  # steps of a turn before the clock runs


class TimedStep(steps.TrainStep):
    """A training step that measures how long it waits for its batch.

    Attributes:
        waited: tf.Variable, float64, seconds so far.
    """

    def __init__(self, *args, **options):
        self.waited = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        super().__init__(*args, **options)

    def _step(self, iterator):
        before = tf.timestamp()
        with tf.control_dependencies([before]):
            batch = next(iterator)
        with tf.control_dependencies(list(batch.values())):
            self.waited.assign_add(tf.timestamp() - before)
        row = self._strategy.run(self._replica_step, args=(batch,))
        return self._strategy.experimental_local_results(row)[0]


def sources_of(args, batch_size):
    """Endless batches: dict from a name to a tf.data.Dataset."""
    schema = schemas.pretraining_schema(args.max_seq_length, args.max_predictions_per_seq)
    masked = {name: schema[name] for name in schema if name != "token_boundary"}
    unmasked = {name: schema[name] for name in schema if not name.startswith("masked_lm_")}
    settings = instances.Settings(
        max_seq_length=args.max_seq_length,
        max_predictions_per_seq=args.max_predictions_per_seq,
    )
    tokenizer = tokenization.FullTokenizer(spm_model_file=args.spm_model_file)
    masking = graph_masking.Masking(settings, tokenizer.special_ids(), tokenizer.vocab_size)

    def batches(path, schema, **options):
        files = record_files.read_index([path])
        return input_pipeline.train_batches(files, schema, batch_size, seed=1, **options)

    reading = batches(args.input_file, masked)
    return {
        "a batch in memory": tf.data.Dataset.from_tensors(next(iter(reading))).repeat(),
        "records": reading,
        "records, masked while reading": batches(args.unmasked_file, unmasked, masking=masking),
    }


def make_step(strategy, config):
    """A TimedStep of pre-training with LAMB, as run_pretraining.py makes it."""
    with strategy.scope():
        model = heads.PretrainingModel(config)
        optimizer = optimization.LAMB(1e-4)
        optimizer.build(list(name_table.named_variables(model).values()))
        settings = options.Loop(output_dir="", train_steps=0)
        return TimedStep(strategy, model, objectives.PRETRAINING, optimizer, settings, seed=1)


def measure(args, size, batch_size):
    """Rows of the table for one size."""
    case = train_step.CASE | {"size": size}
    strategy = devices.create_strategy("one_device")
    step = make_step(strategy, train_step.config_of(case))
    iterators = {
        name: iter(strategy.distribute_datasets_from_function(lambda _, made=source: made))
        for name, source in sources_of(args, batch_size).items()
    }
    times = {name: [] for name in iterators}
    waited = dict.fromkeys(iterators, 0.0)
    for _ in range(args.turns):
        for name, iterator in iterators.items():
            for _ in range(WARM_UP):
                step(iterator, 1).numpy()
            waited_before = step.waited.numpy()
            for _ in range(args.steps):
                start = processes.clocks()
                step(iterator, 1).numpy()
                times[name].append(processes.clocks() - start)
            waited[name] += step.waited.numpy() - waited_before
    medians = {name: np.median(pairs, axis=0) for name, pairs in times.items()}
    memory = next(iter(medians.values()))
    for name, median in medians.items():
        clock_ratio, cpu_ratio = median / memory
        yield {
            "size": size,
            "batch": f"{batch_size} x {args.max_seq_length}",
            "dtype": args.dtype,
            "input": name,
            "step ms": f"{1000 * median[0]:.1f}",
            "step": f"{clock_ratio:.3f}",
            "CPU": f"{cpu_ratio:.3f}",
            "waiting": f"{waited[name] / np.sum(times[name], axis=0)[0]:.2%}",
        }


def main():
    """Measures all sizes and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input_file", required=True, help="masked records")
    parser.add_argument("--unmasked_file", required=True, help="records without masks")
    parser.add_argument("--spm_model_file", required=True, help="of the records")
    parser.add_argument("--max_seq_length", type=int, default=128, help="of the records")
    parser.add_argument(
        "--max_predictions_per_seq", type=int, default=20, help="of the masked records"
    )
    parser.add_argument("--sizes", default="tiny,mini", help=", ".join(train_step.SIZES))
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--dtype", default="fp32", help="fp32 or bf16")
    parser.add_argument("--steps", type=int, default=20, help="of each turn")
    parser.add_argument("--turns", type=int, default=5, help="of each input")
    args = parser.parse_args()
    devices.set_precision(args.dtype)
    rows = [row for size in args.sizes.split(",") for row in measure(args, size, args.batch_size)]
    print(train_step.table_of(rows))


if __name__ == "__main__":
    main()
