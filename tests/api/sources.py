# SPDX-License-Identifier: Apache-2.0
"""Small sources of weights, of each kind."""

import json
import shutil

import numpy as np

from albert_tf.checkpoints import name_table, run_directory, writers
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from tests import GOLDEN, TINY_CONFIG

VOCABULARY = GOLDEN / "tokenization" / "spm_uncased.model"
WIDE = TINY_CONFIG | {"initializer_range": 0.3}  # a random model that tells texts apart


def write_checkpoint(prefix, named, step=0):
    """Writes the variables of a model in the original's form."""
    tensors = {name: v.numpy() for name, v in named.items()}
    writers.write(str(prefix), tensors | {name_table.GLOBAL_STEP: np.int64(step)}, "tf1")


def write_release(directory, kind=heads.PretrainingModel, config=WIDE, **options):
    """An unpacked release with random weights; returns its directory."""
    (directory / "albert_config.json").write_text(json.dumps(config))
    shutil.copy(VOCABULARY, directory / "30k-clean.model")
    model = kind(AlbertConfig.from_dict(config), **options)
    write_checkpoint(directory / "model.ckpt-best", name_table.named_variables(model))
    return directory


def write_record(directory, vocabulary, config=WIDE, **text):
    """Writes the run.json of a training with this SentencePiece model; returns its content."""
    path = str(vocabulary)
    sha256 = run_directory.sha256(path)
    of_vocabulary = {"flag": "spm_model_file", "path": path, "sha256": sha256}
    record = {"config": config, "text": text, "vocabulary": of_vocabulary}
    (directory / "run.json").write_text(json.dumps(record))
    return record
