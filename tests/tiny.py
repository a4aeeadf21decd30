# SPDX-License-Identifier: Apache-2.0
"""The catalogue of tiny runs: their config, vocabularies, data and flags, and what they write.

A script trains with these flags in about a second. A test takes a row of flags and changes what it
is about. Functions that need TensorFlow import it themselves.
"""

import json
import re
import shutil

import numpy as np

from tests import GOLDEN

CONFIG = {  # of a model for the vocabularies of golden/tokenization
    "vocab_size": 3000,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
WIDE = CONFIG | {"initializer_range": 0.3}  # a random model that tells texts apart
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
GLUE_DATA, SQUAD_DATA = GOLDEN / "finetune" / "glue_data", GOLDEN / "finetune" / "squad_data"
VOCABULARY = GOLDEN / "tokenization" / "spm_uncased.model"
CASED_VOCABULARY = GOLDEN / "tokenization" / "spm_cased.model"
WORDPIECE = GOLDEN / "tokenization" / "vocab.txt"

# --- Flags ---------------------------------------------------------------------------------------

EVALUATE = {"do_train": False, "do_predict": False}
PREDICT = {"do_train": False, "do_eval": False}
TRAIN = {
    "spm_model_file": VOCABULARY,
    "do_train": True,
    "max_seq_length": 64,
    "save_checkpoints_steps": 1,
    "allow_random_init": True,
    "seed": 1,
}
COMMON = TRAIN | {"do_predict": True}
TWO_STEPS = {"data_dir": GLUE_DATA, "train_step": 2, "train_batch_size": 2}
CLASSIFIER = COMMON | TWO_STEPS | {"task_name": "RTE", "do_eval": True}
RACE = COMMON | TWO_STEPS | {"do_eval": True, "max_qa_length": 24, "warmup_step": 0}
SQUAD_FILES = {
    version: {
        "train_file": SQUAD_DATA / f"train_v{version}.json",
        "predict_file": SQUAD_DATA / f"dev_v{version}.json",
    }
    for version in ("1.1", "2.0")
}
WINDOWS = {"max_seq_length": 48, "doc_stride": 16, "max_query_length": 12}  # several a paragraph
SQUAD = COMMON | SQUAD_FILES["2.0"] | {
    "doc_stride": 40,
    "max_query_length": 12,
    "train_batch_size": 13,
    "predict_batch_size": 16,
    "num_train_epochs": 0.5,  # 52 questions: 2 steps
}  # fmt: skip
PRETRAINING = {
    "train_batch_size": 4,
    "eval_batch_size": 4,
    "num_warmup_steps": 0,
    "learning_rate": 0.001,
    "iterations_per_loop": 1,
    "seed": 1,
}
LENGTH, PREDICTIONS = 32, 4
CLS, SEP = 2, 3


def write_config(path, **changes):
    """Writes the config of a tiny model; returns its path."""
    path.write_text(json.dumps(CONFIG | changes))
    return path


def many_steps(directory):
    """Flags of a pre-training of many quick steps of two workers; writes its files.

    It draws what a run can draw: dropout, and masks while the records are read.
    """
    from albert_tf.records import schemas
    from tests.records.small_records import write

    schema = schemas.pretraining_schema(LENGTH, PREDICTIONS)

    def row_of(number):
        row = {name: [number % 2] * feature.length for name, feature in schema.items()}
        pieces = [(7 * number + k) % 2900 + 5 for k in range(LENGTH - 2)]
        row["input_ids"] = [CLS, *pieces, SEP]
        row |= {"input_mask": [1] * LENGTH, "masked_lm_weights": [0.0] * PREDICTIONS}
        return row | {"token_boundary": [0, *[1] * (LENGTH - 2), 0]}

    for n in range(3):
        write(directory / f"{n}.tfrecord", range(n, 90, 3), schema, row_of)
    words = [f"word{number}" for number in range(CONFIG["vocab_size"] - 5)]
    vocabulary = directory / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    dropout = dict.fromkeys(NO_DROPOUT, 0.1)
    return PRETRAINING | {
        "albert_config_file": write_config(directory / "albert_config.json", **dropout),
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
        "save_checkpoints_steps": 200,
        "do_eval": True,
        "distribution_strategy": "multi_worker_mirrored",
    }


# --- Sources of weights --------------------------------------------------------------------------


def write_checkpoint(prefix, named, step=0):
    """Writes the variables of a model in the original's form."""
    from albert_tf.checkpoints import name_table, writers

    tensors = {name: v.numpy() for name, v in named.items()}
    writers.write(str(prefix), tensors | {name_table.GLOBAL_STEP: np.int64(step)}, "tf1")


def write_release(directory, kind=None, config=WIDE, **options):
    """An unpacked release with random weights; returns its directory."""
    from albert_tf.checkpoints import name_table
    from albert_tf.config import AlbertConfig
    from albert_tf.model import heads

    (directory / "albert_config.json").write_text(json.dumps(config))
    shutil.copy(VOCABULARY, directory / "30k-clean.model")
    model = (kind or heads.PretrainingModel)(AlbertConfig.from_dict(config), **options)
    write_checkpoint(directory / "model.ckpt-best", name_table.named_variables(model))
    return directory


def write_record(directory, vocabulary, config=WIDE, **text):
    """Writes the run.json of a training with this SentencePiece model; returns its content."""
    from albert_tf import files

    path = str(vocabulary)
    sha256 = files.sha256(path)
    of_vocabulary = {"flag": "spm_model_file", "path": path, "sha256": sha256}
    record = {"config": config, "text": text, "vocabulary": of_vocabulary}
    (directory / "run.json").write_text(json.dumps(record))
    return record


# --- Results -------------------------------------------------------------------------------------


def blocks(directory):
    """The blocks of eval_results.txt, and what follows the last one."""
    return (directory / "eval_results.txt").read_text().split("=" * 50 + "\n")


def values_of(text):
    """Dict of the lines `name = number`."""
    return {key: float(value) for key, value in re.findall(r"^(\w+) = (\S+)$", text, re.M)}


def table(path):
    """The rows of a tab-separated file."""
    return [line.split("\t") for line in path.read_text().splitlines()]
