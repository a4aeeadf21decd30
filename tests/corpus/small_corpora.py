# SPDX-License-Identifier: Apache-2.0
"""Small texts, and the records made of them."""

import numpy as np

from albert_tf.corpus import build
from albert_tf.corpus.instances import Settings
from albert_tf.records import schemas
from tests import tiny

MODEL = str(tiny.VOCABULARY)
SETTINGS = Settings(max_seq_length=24, max_predictions_per_seq=4, dupe_factor=3)
TEXT = "holmes said that 1990, was a {{ very bad year for the trade . naïve"
WORDS = np.array(TEXT.split(" "))


def write_text(path, rng, num_lines):
    """Writes lines of random words, with a blank line now and then; returns the path."""
    lines = []
    for _ in range(num_lines):
        lines.append(" ".join(rng.choice(WORDS, rng.integers(1, 30))))
        lines += [""] * (rng.random() < 0.1)
    path.write_text("\n".join(lines))
    return str(path)


def make(sources, directory, tokenizer, names="out@3", settings=SETTINGS, **options):
    """Makes records of a file or of several: (Summary, paths of the record files)."""
    sources = [sources] if isinstance(sources, str) else sources
    paths = [f"{directory}/{name}" for name in schemas.expand_shards(names)]
    summary = build.create(sources, paths, tokenizer, settings, **options)
    return summary, paths


def summary_of(text, directory, tokenizer, name="in.txt", **options):
    """The Summary of records made of a text, which is written into a file of a directory."""
    (directory / name).write_text(text, encoding="utf-8")
    return make(str(directory / name), directory, tokenizer, **options)[0]


def contents(paths):
    return [open(path, "rb").read() for path in paths]
