# SPDX-License-Identifier: Apache-2.0
"""Pre-training with steps of some milliseconds."""

import json

from albert_tf.records import schemas
from tests import TINY_CONFIG
from tests.records.small_records import encode

LENGTH, PREDICTIONS = 32, 4
CLS, SEP = 2, 3


def flags_of_two_workers(directory):
    """Flags of a run of many quick steps, with records, vocabulary and config in a directory.

    It draws what a run can draw: dropout, and masks while the records are read.
    """
    schema = schemas.pretraining_schema(LENGTH, PREDICTIONS)
    with schemas.open_writers([str(directory / f"{n}.tfrecord") for n in range(3)]) as writers:
        for number in range(90):
            row = {name: [number % 2] * feature.length for name, feature in schema.items()}
            pieces = [(7 * number + k) % 2900 + 5 for k in range(LENGTH - 2)]
            row["input_ids"] = [CLS, *pieces, SEP]
            row |= {"input_mask": [1] * LENGTH, "masked_lm_weights": [0.0] * PREDICTIONS}
            row |= {"token_boundary": [0, *[1] * (LENGTH - 2), 0]}
            writers[number % 3].write(encode(row, schema))
    words = [f"word{number}" for number in range(TINY_CONFIG["vocab_size"] - 5)]
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    config = directory / "albert_config.json"
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    config.write_text(json.dumps(TINY_CONFIG | dropout))
    return {
        "albert_config_file": config,
        "input_file": directory / "*.tfrecord",
        "vocab_file": vocabulary,
        "masked_lm_budget": 0.15,
        "output_dir": directory / "out",
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "max_eval_steps": 2,
        "num_train_steps": 10**6,
        "num_warmup_steps": 0,
        "learning_rate": 0.001,
        "save_checkpoints_steps": 200,
        "do_eval": True,
        "distribution_strategy": "multi_worker_mirrored",
        "seed": 1,
    }
