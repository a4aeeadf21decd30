# SPDX-License-Identifier: Apache-2.0
"""Flags of fine-tunings of two steps, on the original's tiny files; reading what they write."""

import json
import re

from tests import GOLDEN, TINY_CONFIG

GLUE_DATA, SQUAD_DATA = GOLDEN / "finetune" / "glue_data", GOLDEN / "finetune" / "squad_data"
VOCABULARY = GOLDEN / "tokenization" / "spm_uncased.model"
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
EVALUATE = {"do_train": False, "do_predict": False}
PREDICT = {"do_train": False, "do_eval": False}
COMMON = {
    "spm_model_file": VOCABULARY,
    "do_train": True,
    "do_predict": True,
    "max_seq_length": 64,
    "save_checkpoints_steps": 1,
    "allow_random_init": True,
    "seed": 1,
}
CLASSIFIER = COMMON | {
    "data_dir": GLUE_DATA,
    "task_name": "RTE",
    "do_eval": True,
    "train_step": 2,
    "train_batch_size": 2,
}
RACE = COMMON | {
    "data_dir": GLUE_DATA,
    "do_eval": True,
    "max_qa_length": 24,
    "train_step": 2,
    "warmup_step": 0,
    "train_batch_size": 2,
}
SQUAD = COMMON | {  # version 2
    "train_file": SQUAD_DATA / "train_v2.0.json",
    "predict_file": SQUAD_DATA / "dev_v2.0.json",
    "doc_stride": 40,
    "max_query_length": 12,
    "train_batch_size": 13,
    "predict_batch_size": 16,
    "num_train_epochs": 0.5,  # 52 questions: 2 steps
}


def write_config(path, **changes):
    """Writes the config of a tiny model; returns its path."""
    path.write_text(json.dumps(TINY_CONFIG | changes))
    return path


def blocks(directory):
    """The blocks of eval_results.txt, and what follows the last one."""
    return (directory / "eval_results.txt").read_text().split("=" * 50 + "\n")


def values_of(text):
    """Dict of the lines `name = number`."""
    return {key: float(value) for key, value in re.findall(r"^(\w+) = (\S+)$", text, re.M)}


def table(path):
    """The rows of a tab-separated file."""
    return [line.split("\t") for line in path.read_text().splitlines()]
