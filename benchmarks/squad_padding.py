# SPDX-License-Identifier: Apache-2.0
"""How much faster SQuAD prediction is when padding is skipped.

It measures windows per second of a model with random weights, in batches of similar length that are
cut to the longest window, and in batches that are always padded to --max_seq_length, as in the
original.

python benchmarks/squad_padding.py --data_file=dev-v1.1.json --spm_model_file=30k-clean.model \
  --albert_config_file=albert_config.json
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from albert_tf import options
from albert_tf.config import AlbertConfig
from albert_tf.model import heads, objectives
from albert_tf.records import input_pipeline
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training import devices, finetuning


def read_windows(args):
    """Arrays of --windows windows, picked evenly over the file so that lengths are its own."""
    examples = squad_questions.read_examples(args.data_file, training=False)
    tokenizer = FullTokenizer(spm_model_file=args.spm_model_file)
    settings = squad_features.WindowSettings(args.max_seq_length, args.doc_stride)
    features = squad_features.convert_examples(examples, tokenizer, settings, training=False)
    names = ("input_ids", "input_mask", "segment_ids", "p_mask")
    batches = list(features.batches())
    arrays = {name: np.concatenate([batch[name] for batch in batches]) for name in names}
    count = min(args.windows, len(features))
    rows = np.linspace(0, len(features) - 1, count).astype(int)
    lengths = arrays["input_mask"].sum(axis=1, dtype=int)
    print(f"{len(features)} windows, {lengths.mean():.0f} pieces on average; {count} are measured")
    return {name: values[rows].astype(np.int32) for name, values in arrays.items()}


def make_run(args):
    """A model of --version with random weights."""
    config = AlbertConfig.from_json_file(args.albert_config_file)
    devices.set_precision(args.dtype)
    if args.version == 1:
        kind, objective = heads.SquadV1Model, objectives.SQUAD_V1
        given = {"predicted_length": args.max_seq_length}
    else:
        kind, objective, given = heads.SquadV2Model, objectives.SQUAD_V2, {}

    def make_model(config, **_):
        return kind(config, **given)

    task = SimpleNamespace(make_model=make_model, objective=objective)
    settings = options.FineTuning(output_dir=tempfile.mkdtemp(), train_steps=1)
    return finetuning.make_run(task, config, devices.create_strategy("one_device"), settings)


def windows_per_second(run, arrays, args, always_padded):
    """Speed of prediction, without the time of the first batches, which prepare."""

    def batches(rows):
        part = {name: values[rows] for name, values in arrays.items()}
        return input_pipeline.prediction_batches(
            part, args.batch_size, args.max_seq_length, fixed_shape=always_padded
        )

    count = len(arrays["input_ids"])
    run.predict(batches(slice(2 * args.batch_size)), 2 * args.batch_size)
    start = time.perf_counter()
    run.predict(batches(slice(None)), count)
    return count / (time.perf_counter() - start)


def main():
    """Reads the arguments, prints both speeds and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_file", required=True, help="SQuAD JSON")
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--albert_config_file", required=True)
    parser.add_argument("--version", type=int, default=1, choices=(1, 2), help="of the head")
    parser.add_argument("--max_seq_length", type=int, default=384)
    parser.add_argument("--doc_stride", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--windows", type=int, default=500, help="how many to measure")
    parser.add_argument("--dtype", default="fp32", choices=sorted(options.PRECISIONS))
    args = parser.parse_args()
    arrays, run = read_windows(args), make_run(args)
    padded, skipped = (windows_per_second(run, arrays, args, padded) for padded in (True, False))
    print(f"always padded to {args.max_seq_length}: {padded:.2f} windows per second")
    print(f"padding skipped: {skipped:.2f} windows per second")
    print(f"ratio: {skipped / padded:.2f}")


if __name__ == "__main__":
    main()
