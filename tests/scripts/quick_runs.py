# SPDX-License-Identifier: Apache-2.0
"""Pre-training with steps of some milliseconds."""

import json

from albert_tf.records import schemas
from tests import TINY_CONFIG

LENGTH, PREDICTIONS = 32, 4


def flags_of_two_workers(directory):
    """Flags of a run of many quick steps, with records and config in a directory."""
    schema = schemas.pretraining_schema(LENGTH, PREDICTIONS)
    with schemas.open_writers([str(directory / f"{n}.tfrecord") for n in range(3)]) as writers:
        for number in range(90):
            row = {name: [number % 2] * feature.length for name, feature in schema.items()}
            row["input_ids"] = [(7 * number + k) % 2900 + 5 for k in range(LENGTH)]
            row |= {"input_mask": [1] * LENGTH, "masked_lm_weights": [1.0] * PREDICTIONS}
            writers[number % 3].write(schemas.encode(row, schema))
    config = directory / "albert_config.json"
    config.write_text(json.dumps(TINY_CONFIG))
    return {
        "albert_config_file": config,
        "input_file": directory / "*.tfrecord",
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
