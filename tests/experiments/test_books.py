# SPDX-License-Identifier: Apache-2.0
"""experiments/books.sh, with a tiny model and text."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import albert_tf
from tests import ROOT, tiny

TEXT = (ROOT / "experiments" / "sample" / "sentences.txt").read_text(encoding="utf-8")


@pytest.mark.slow  # it starts five processes
def test_books_become_a_model_and_more_steps_continue_it(tmp_path):
    data, output = tmp_path / "data", tmp_path / "output"
    (data / "corpus").mkdir(parents=True)
    for name in ("books-00", "books-01", "books-heldout"):
        (data / "corpus" / f"{name}.txt").write_text(TEXT, encoding="utf-8")
    (data / "spm").mkdir()
    shutil.copy(tiny.VOCABULARY, data / "spm" / "30k-clean.model")
    tokenizer = albert_tf.FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    config = json.loads((ROOT / "experiments" / "books_config.json").read_text())
    config |= {"vocab_size": len(tokenizer.vocab), "hidden_size": 16, "intermediate_size": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))

    def run(steps):
        environment = {"PYTHON": sys.executable, "CONFIG": str(tmp_path / "config.json")}
        environment |= {"STEPS": str(steps), "WARMUP": "1"}
        return subprocess.run(
            ["experiments/books.sh", data, output],
            cwd=ROOT, env=os.environ | environment, check=True, text=True, stdout=subprocess.PIPE,
        ).stdout  # fmt: skip

    assert "global_step = 2" in run(2)
    records = output / "train-0.tfrecord"
    before = records.stat().st_mtime_ns
    checkpoint = output / "model" / "model.ckpt-3.index"
    assert not checkpoint.exists()
    assert "global_step = 3" in run(3)
    assert checkpoint.exists()
    assert records.stat().st_mtime_ns == before
