# SPDX-License-Identifier: Apache-2.0
"""Small record files."""

import itertools

import numpy as np
import tensorflow as tf

from albert_tf.records import input_pipeline, record_files, schemas
from albert_tf.records.schemas import FeatureSpec

SCHEMA = {"ids": FeatureSpec(tf.int64, 3), "weight": FeatureSpec(tf.float32, 1)}


def example(number):
    return {"ids": np.array([number, -1, 0]), "weight": np.array([number / 2], np.float32)}


def encode(arrays, schema):
    """One serialised record: `schemas.encode_rows` of a single row."""
    rows = {name: np.asarray(values)[np.newaxis] for name, values in arrays.items()}
    (record,) = schemas.encode_rows(rows, schema)
    return record


def write(path, numbers, schema=SCHEMA, make=example):
    with schemas.record_writer(str(path)) as writer:
        for number in numbers:
            writer.write(encode(make(number), schema))
    return str(path)


def train_batches(paths, batch_size, *, seed=1, schema=SCHEMA, **options):
    """`input_pipeline.train_batches` of files that are counted now."""
    files = record_files.read_index(paths)
    return input_pipeline.train_batches(files, schema, batch_size, seed=seed, **options)


def first_ids(dataset, batches=None):
    return [batch["ids"][:, 0].numpy().tolist() for batch in itertools.islice(dataset, batches)]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))
