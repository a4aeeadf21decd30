# SPDX-License-Identifier: Apache-2.0
"""Examples per second with padding cut off, against sequences that are always of full length.

Both kinds have the same rows in the same updates. Their batches take turns, so that other work of
the machine affects both. In prediction, rows of similar length also come together.

python benchmarks/padding.py --data_dir=glue --squad_file=dev-v1.1.json \
  --spm_model_file=30k-clean.model --albert_config_file=albert_base/albert_config.json
"""

import argparse
import atexit
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tensorflow as tf
import train_step

from albert_tf.checkpoints import loading, name_table
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, objectives, optimization
from albert_tf.records import input_pipeline, record_files, schemas
from albert_tf.tasks import classification, glue, reading
from albert_tf.tasks.base import TextInput
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions
from albert_tf.text.tokenization import FullTokenizer

KINDS = ("cut", "padded")
INPUTS = ("input_ids", "input_mask", "segment_ids")
WINDOWS = 500  # of SQuAD
WARM_UP = 2  # batches of each kind before the clock runs, for tracing and first allocations


def training_batches(arrays, schema, args):
    """The same endless batches of both kinds: dict from kind to iterator."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # the iterators read on
    path = os.path.join(folder, "train.tf_record")
    schemas.write_records(path, schema, [arrays])
    files = record_files.read_index([path])
    return {
        kind: iter(
            input_pipeline.train_batches(files, schema, args.batch_size, seed=1, lengths=lengths)
        )
        for kind, lengths in zip(
            KINDS, (input_pipeline.lengths_up_to(args.max_seq_length), None), strict=True
        )
    }


def prediction_batches(arrays, max_seq_length, args):
    """All rows in batches of both kinds: dict from kind to iterator."""
    arrays = {name: arrays[name].astype("int32") for name in INPUTS}
    return {
        kind: (
            features
            for _, features in input_pipeline.prediction_batches(
                arrays, args.predict_batch_size, max_seq_length, fixed_shape=fixed
            )
        )
        for kind, fixed in zip(KINDS, (False, True), strict=True)
    }


def compiled(function, names):
    """A tf.function of a batch with one trace for all lengths, as the loop has."""
    signature = {name: tf.TensorSpec([None, None], tf.int32) for name in names}
    return tf.function(function, input_signature=[signature])


def make_update(model, names):
    """One update as in training: AdamW, gradients clipped."""
    optimizer = optimization.create_optimizer("adamw", 1e-5)
    variables = list(name_table.named_variables(model).values())
    optimizer.build(variables)

    def update(features):
        with tf.GradientTape() as tape:
            terms = objectives.classification_terms(features, model(features, training=True))
            loss = objectives.mean_loss(terms)
        train_step.apply_clipped(tape.gradient(loss, variables), variables, optimizer)
        return loss

    return compiled(update, names)


def seconds(step, sources, batches):
    """Seconds per kind for so many batches of each, in turns; reading them is counted too.

    Args:
        step: callable, takes a batch and returns a tensor.
        sources: dict from kind to iterator.
        batches: int.
    """
    totals = dict.fromkeys(sources, 0.0)
    for turn in range(WARM_UP + batches):
        for kind, source in sources.items():
            start = time.perf_counter()
            step(next(source)).numpy()
            if turn >= WARM_UP:
                totals[kind] += time.perf_counter() - start
    return totals


def report(name, rows, totals):
    """Prints a line: examples per second of both kinds, and their ratio."""
    cut, padded = (rows / totals[kind] for kind in KINDS)
    print(f"{name:<22} {cut:>10.1f} {padded:>10.1f} {cut / padded:>8.2f}", flush=True)


def measure_training(name, model, schema, arrays, args):
    """Measures updates of a classifier."""
    sources = training_batches(arrays, schema, args)
    totals = seconds(make_update(model, schema), sources, args.batches)
    report(f"{name} training", args.batches * args.batch_size, totals)


def measure_prediction(name, model, output, arrays, max_seq_length, args):
    """Measures an output of a model for rows of features."""
    sources = prediction_batches(arrays, max_seq_length, args)
    forward = compiled(lambda features: model(features, training=False)[output], INPUTS)
    # Whole batches, and all of them but those that warm up: the short rows come first.
    batches = len(arrays["input_ids"]) // args.predict_batch_size - WARM_UP
    totals = seconds(forward, sources, batches)
    report(f"{name} prediction", batches * args.predict_batch_size, totals)


def measure_glue(row, config, tokenizer, args):
    """Measures training and prediction of a row of `glue.TASKS`."""
    text = TextInput(tokenizer, args.max_seq_length, {})
    task = classification.ClassificationTask("any", row, text)
    model = heads.ClassificationModel(config, row.num_outputs)
    if args.init_checkpoint:
        named = name_table.named_variables(model)
        encoder = {key: value for key, value in named.items() if name_table.is_encoder(key)}
        loading.load(args.init_checkpoint, encoder)
    examples, _ = reading.read_examples(row, args.data_dir, "train", tokenizer)
    arrays = task.features(examples[: (WARM_UP + args.batches) * args.batch_size])
    measure_training(row.folder, model, task.schema, arrays, args)
    examples, _ = reading.read_examples(row, args.data_dir, "dev", tokenizer)
    arrays = task.features(examples)
    measure_prediction(row.folder, model, "logits", arrays, args.max_seq_length, args)


def measure_squad(config, tokenizer, args):
    """Measures prediction of SQuAD, on windows evenly from the whole file."""
    examples = questions.read_examples(args.squad_file, training=False)
    settings = squad_features.WindowSettings()
    windows = squad_features.convert_examples(examples, tokenizer, settings, training=False)
    chosen = np.linspace(0, len(windows) - 1, min(WINDOWS, len(windows))).astype(int)
    arrays, length = windows.arrays(chosen), settings.max_seq_length
    model = heads.SquadV1Model(config)
    measure_prediction(f"SQuAD, {length}:", model, "start_logits", arrays, length, args)


def main():
    """Reads the arguments, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data_dir", help="directory of the GLUE data; without it, only SQuAD")
    parser.add_argument("--squad_file", help="SQuAD JSON; without it, only GLUE")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--albert_config_file", required=True)
    parser.add_argument("--init_checkpoint", help="encoder weights; at random by default")
    parser.add_argument("--tasks", default="SST-2,RTE")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=32, help="of training")
    parser.add_argument("--predict_batch_size", type=int, default=8)
    parser.add_argument("--batches", type=int, default=20, help="of training, of each kind")
    args = parser.parse_args()
    tokenizer = FullTokenizer(spm_model_file=args.spm_model_file)
    config = AlbertConfig.from_json_file(args.albert_config_file)
    print(f"{'examples per second':<22} {'cut':>10} {'padded':>10} {'ratio':>8}")
    if args.data_dir:
        for name in args.tasks.split(","):
            measure_glue(glue.find_task(name), config, tokenizer, args)
    if args.squad_file:
        measure_squad(config, tokenizer, args)


if __name__ == "__main__":
    main()
