# SPDX-License-Identifier: Apache-2.0
"""Predictions of a classifier of base size: one text, a batch, a file, the first answer.

Each implementation runs in a process of its own and they take turns, so that other work of the
machine affects all of them. "load" is `albert_tf.load(...).predict`, "export" the SavedModel; both
take text. Peers get ids, so they tokenize nothing. All have random weights.

python benchmarks/predict.py --spm_model_file=30k-clean.model --input_file=SST-2/dev.tsv \
  --peers=transformers,official --peer_python=peers/bin/python
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import processes

ROOT = Path(__file__).resolve().parents[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
SIZES = {
    "num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072,
    "num_attention_heads": 12, "embedding_size": 128, "vocab_size": 30000,
}  # fmt: skip
CASES = {"1 x 32": (1, 32), "1 x 128": (1, 128), "32 x 128": (32, 128), "file": None}
BATCH = 32
PAD = 0
TASK = "SST-2"


# --- What is measured: each returns a function of texts and their ids -----------------------------


def load(directory, dtype):
    """albert_tf.load(...).predict."""
    import albert_tf
    from albert_tf.training import devices

    devices.set_precision(dtype)
    loaded = albert_tf.load(directory, task=TASK, batch_size=BATCH)
    loaded.shows_progress = False
    return lambda texts, _: loaded.predict(texts)


def export(directory, _):
    """The signature "text" of an export, with batches in the order of length."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    function = tf.saved_model.load(f"{directory}/export").signatures["text"]

    def predict(texts, _):
        texts = sorted(texts, key=len)
        for start in range(0, len(texts), BATCH):
            function(text=tf.constant(texts[start : start + BATCH]))["label"].numpy()

    return predict


def batches(rows):
    """Yields lists of rows of like length, padded to the longest."""
    rows = sorted(rows, key=len)
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        yield [row + [PAD] * (len(batch[-1]) - len(row)) for row in batch]


def transformers(directory, dtype):
    """AlbertForSequenceClassification on PyTorch; bfloat16 by autocast."""
    import torch
    import transformers as library

    path = Path(directory, "hf")
    if not path.exists():
        config = library.AlbertConfig(**SIZES, hidden_act="gelu_new")
        library.AlbertForSequenceClassification(config).save_pretrained(path)
    model = library.AlbertForSequenceClassification.from_pretrained(path).eval()

    def predict(_, rows):
        for batch in batches(rows):
            ids = torch.tensor(batch)
            with torch.inference_mode(), torch.autocast("cpu", enabled=dtype == "bf16"):
                model(input_ids=ids, attention_mask=(ids != PAD).long()).logits.float().numpy()

    return predict


def official(_, dtype):
    """BertClassifier with AlbertEncoder of the TensorFlow Model Garden."""
    import numpy as np
    import tensorflow as tf
    from official.nlp.modeling import models, networks

    sys.path.insert(0, str(ROOT))
    from albert_tf.training import devices

    devices.set_precision(dtype)
    network = networks.AlbertEncoder(
        vocab_size=SIZES["vocab_size"],
        embedding_width=SIZES["embedding_size"],
        hidden_size=SIZES["hidden_size"],
        num_layers=SIZES["num_hidden_layers"],
        num_attention_heads=SIZES["num_attention_heads"],
        intermediate_size=SIZES["intermediate_size"],
    )
    model = models.BertClassifier(network, 2)
    forward = tf.function(
        lambda ids: model(
            {
                "input_word_ids": ids,
                "input_mask": tf.cast(ids != PAD, tf.int32),
                "input_type_ids": tf.zeros_like(ids),
            }
        ),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )

    def predict(_, rows):
        for batch in batches(rows):
            forward(np.array(batch, np.int32)).numpy()

    return predict


KINDS = {function.__name__: function for function in (load, export, transformers, official)}


# --- Measuring ------------------------------------------------------------------------------------


def serve(who, directory, dtype):
    """Answers the name of a case with the seconds that its prediction takes."""

    def prepare_seconds():
        if who in ("load", "export"):
            sys.path.insert(0, str(ROOT))
        predict = KINDS[who](directory, dtype)
        cases = json.loads(Path(directory, "cases.json").read_text())
        return lambda case: processes.timed(predict, *cases[case])[0][0]

    processes.serve(prepare_seconds)


def prepare(directory, spm_model_file, input_file, names):
    """Writes a model with random weights, its export, and the cases; in a process of its own."""
    sys.path.insert(0, str(ROOT))
    from albert_tf import AlbertConfig, heads
    from albert_tf.api import load as api
    from albert_tf.checkpoints import name_table, writers
    from albert_tf.publish import saved_models
    from albert_tf.publish.graph_tokenization import GraphTokenizer

    config = AlbertConfig(**SIZES)
    Path(directory, "albert_config.json").write_text(config.to_json_string())
    shutil.copy(spm_model_file, Path(directory, "30k-clean.model"))
    model = heads.ClassificationModel(config, 2)
    tensors = {name: v.numpy() for name, v in name_table.named_variables(model).items()}
    writers.write(f"{directory}/model.ckpt-best", tensors, "tf1")
    loaded = api.load(directory, task=TASK)
    functions = loaded._task.served_functions(
        loaded.model, GraphTokenizer(loaded.tokenizer), loaded.checkpoint
    )
    holder = saved_models.Holder(loaded.model, functions.texts.tokenizer)
    saved_models.save_module(holder, f"{directory}/export", functions.signatures())
    special, cases = loaded.tokenizer.special_ids(), {}
    for name in names:
        if CASES[name]:
            count, length = CASES[name]
            texts = [" ".join(["film"] * (length - 2))] * count
        else:
            lines = Path(input_file).read_text(encoding="utf-8").splitlines()[1:]
            texts = [line.split("\t")[0] for line in lines]
        rows = [[special.cls, *loaded.tokenizer.encode_ids(text), special.sep] for text in texts]
        assert not CASES[name] or {len(row) for row in rows} == {CASES[name][1]}
        cases[name] = texts, rows
    Path(directory, "cases.json").write_text(json.dumps(cases))


def command_of(args, who, directory, dtype, first=False):
    """A process that serves predictions; or the shell's way to a first answer."""
    if first and who == "load":
        flags = [f"--model={directory}", f"--task_name={TASK}", "--text=A film."]
    elif first and who == "export":
        flags = [f"--saved_model={directory}/export", "--text=A film."]
    else:
        python = args.peer_python if who == "transformers" else sys.executable
        return [python, __file__, "--serve", who, directory, dtype]
    return [sys.executable, str(ROOT / "predict.py"), *flags]


def measure(args, directory, dtype, who, cases):
    """Rows of the table: shortest seconds of each case by implementation."""
    who = [name for name in who if dtype == "fp32" or name != "export"]  # exports are in float32
    best = {}
    with contextlib.ExitStack() as stack:
        commands = [command_of(args, name, directory, dtype) for name in who]
        workers = [stack.enter_context(processes.Worker(command)) for command in commands]
        for case in cases:  # the first turn traces
            turns = [[worker.ask(case) for worker in workers] for _ in range(args.rounds + 1)]
            best[case] = dict(zip(who, map(min, zip(*turns[1:], strict=True)), strict=True))
    return best


def first_answers(args, directory, who):
    """Seconds from a command in the shell to the end of its first answer; the shortest of all."""
    found = {name: [] for name in who}
    for _ in range(args.rounds):
        for name in who:
            command = command_of(args, name, directory, "fp32", first=True)
            (seconds, _), _ = processes.timed(
                subprocess.run, command, input=b'"1 x 32"', capture_output=True, check=True
            )
            found[name].append(seconds)
    return {name: min(seconds) for name, seconds in found.items()}


def main():
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spm_model_file", required=True)
    parser.add_argument("--input_file", help="texts in the first column, below a header")
    parser.add_argument("--peers", default="transformers")
    parser.add_argument("--peer_python", default=sys.executable, help="Python with transformers")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    who = ["load", "export", *filter(None, args.peers.split(","))]
    cases = [name for name in CASES if CASES[name] or args.input_file]
    with tempfile.TemporaryDirectory() as directory:
        given = [directory, args.spm_model_file, args.input_file or "", *cases]
        subprocess.run([sys.executable, __file__, "--prepare", *given], stdout=-3, check=True)
        print(f"| dtype | texts x pieces | {' | '.join(f'{name}, s' for name in who)} |")
        print("| --- " * (len(who) + 2) + "|")
        for dtype in args.dtypes.split(","):
            for case, best in measure(args, directory, dtype, who, cases).items():
                cells = [f"{best[name]:.4f}" if name in best else "" for name in who]
                print(f"| {dtype} | {case} | {' | '.join(cells)} |", flush=True)
        best = first_answers(args, directory, who)
        print(f"| fp32 | first answer | {' | '.join(f'{best[name]:.1f}' for name in who)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:])
    elif sys.argv[1:2] == ["--prepare"]:
        prepare(*sys.argv[2:5], sys.argv[5:])
    else:
        main()
