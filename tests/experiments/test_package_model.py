# SPDX-License-Identifier: Apache-2.0
"""Scripts from a tiny text to a model; the models of the package have the metrics they state."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import albert_tf
from albert_tf import models
from albert_tf.api import minimal_pairs
from albert_tf.checkpoints import run_directory
from experiments import package_model
from tests import ROOT, tiny
from tests.errors import refuses

CARD = ROOT / "experiments" / "english_small_card.md"
# What each model of the package must reach: part of metrics.json -> metric -> least value.
AT_LEAST = {
    "english-small": {
        "heldout": {"masked_lm_accuracy": 0.42, "sentence_order_accuracy": 0.64},
        "sample": {"minimal_pairs": 0.79, "word_accuracy": 0.48},
    }
}
TOLERANCE = 0.03  # of metrics on the sample, two pairs: other graphs and processors round otherwise
FILES = {
    "README.md", "config.json", "metrics.json", "model.safetensors", "spiece.model",
    "tokenizer.json", "tokenizer_config.json",
}  # fmt: skip
SENTENCES = (package_model.SAMPLE / "sentences.txt").read_text().splitlines()
STUDY = """\
title = "A tiny training"
script = "run_pretraining.py"
metrics = ["masked_lm_accuracy"]

[config]
vocab_size = 300
embedding_size = 16
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 2
intermediate_size = 64
max_position_embeddings = 64

[flags]
spm_model_file = "{output}/spm.model"
do_train = true
do_eval = true
masked_lm_budget = 0.2
train_batch_size = 8
optimizer = "adamw"
num_warmup_steps = 0
input_file = "{output}/records/*-train-64.tfrecord"
eval_input_file = "{output}/records/*-heldout-64.tfrecord"
max_seq_length = 64
max_predictions_per_seq = 13

[rows.short.flags]
input_file = "{output}/records/*-train-32.tfrecord"
eval_input_file = "{output}/records/*-heldout-32.tfrecord"
max_seq_length = 32
max_predictions_per_seq = 7
num_train_steps = 40
learning_rate = 0.01

[rows.long.flags]
init_checkpoint = "{output}/longer"
num_train_steps = 5
learning_rate = 0.001

[rows.grouped.config]
num_hidden_groups = 2
intermediate_size = 48
[rows.grouped.flags]
init_checkpoint = "{output}/grouped"
num_train_steps = 7
learning_rate = 0.002
"""


def write_text(directory):
    """JSON lines of Wikipedia and books, a document of random sentences each."""
    rng = random.Random(1)
    for source in ("wikipedia", "books"):
        (directory / source).mkdir(parents=True)
        for part, count in (("train", 12), ("heldout", 6)):
            with gzip.open(directory / source / f"{part}-0.jsonl.gz", "wt") as file:
                for _ in range(count):
                    text = " ".join(rng.sample(SENTENCES, 12))
                    file.write(json.dumps({"text": text}) + "\n")


def check_files(directory):
    """Checks the files of a packaged model, but not its metrics."""
    assert {path.name for path in directory.iterdir()} == FILES
    weights = safetensors.numpy.load_file(directory / "model.safetensors").values()
    assert {array.dtype for array in weights} == {np.dtype(np.float16)}
    card = (directory / "README.md").read_text(encoding="utf-8")
    assert f'albert_tf.load("{directory.name}")' in card
    assert "CC BY-SA 3.0" in card and not re.search(r"\$[a-z{]", card)
    metrics = json.loads((directory / "metrics.json").read_text())
    half, whole = (metrics[key]["masked_lm_accuracy"] for key in ("heldout", "heldout_float32"))
    assert abs(half - whole) <= package_model.LARGEST_DIFFERENCE
    assert f"{100 * half:.1f}% ({100 * whole:.1f}%)" in card
    return metrics


def check_model(directory):
    """Checks that a packaged model is deterministic and has the metrics that it states."""
    metrics = check_files(directory)
    loaded = albert_tf.load(directory)
    found = package_model.sample_metrics(loaded)
    assert found == pytest.approx(metrics["sample"], abs=TOLERANCE)
    assert loaded.embed(SENTENCES).shape == (60, loaded.config.hidden_size)
    text = "The [MASK] was closed."
    assert loaded.fill_mask(text) == albert_tf.load(directory).fill_mask(text)
    return metrics


@pytest.mark.long
def test_the_models_of_the_package():
    for name, path in models.paths().items():
        metrics = check_model(Path(path))
        assert name in AT_LEAST, f"say in AT_LEAST what {name} must reach"
        for part, least in AT_LEAST[name].items():
            for metric, value in least.items():
                assert metrics[part][metric] >= value, (name, part, metric)
        assert sum(file.stat().st_size for file in Path(path).iterdir()) < 12e6, name


def shell(*words, **environment):
    """Output of a script of experiments/ with variables of the environment."""
    environment = os.environ | {"PYTHON": sys.executable} | environment
    words = ["bash", *map(str, words)]
    return subprocess.run(
        words, cwd=ROOT, env=environment, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


@pytest.mark.slow  # it starts some twenty processes
def test_a_text_becomes_a_packaged_model(tmp_path):
    write_text(tmp_path / "text")
    (tmp_path / "study.toml").write_text(STUDY)

    def run():
        given = {"STUDY": f"{tmp_path}/study.toml", "VOCAB_SIZE": "300", "LENGTHS": "32 64"}
        words = "experiments/english_small.sh", tmp_path / "text", tmp_path / "output"
        return shell(*words, UNITS="48", **given)

    assert "wrote" in run()
    directory = tmp_path / "output" / "english-small"
    check_model(directory)
    card = (directory / "README.md").read_text()
    assert "| 1 | 32 | 8 | 40 | adamw | 0.01 | 0.2 | 3 | True | 1.0 |" in card
    assert "| 2 | 64 | 8 | 5 | adamw | 0.001 |" in card
    assert "| 3 | 64 | 8 | 7 | adamw | 0.002 |" in card
    assert json.loads((directory / "config.json").read_text())["num_hidden_groups"] == 2
    records = tmp_path / "output" / "records" / "books-train-64.tfrecord"
    before = records.stat().st_mtime_ns
    (directory / "README.md").unlink()
    again = run()  # only the last step is done again
    assert "short, seed 1" not in again
    assert before == records.stat().st_mtime_ns
    check_files(directory)


@pytest.mark.slow  # it starts five processes
def test_books_become_a_model_and_more_steps_continue_it(tmp_path):
    data, output = tmp_path / "data", tmp_path / "output"
    (data / "corpus").mkdir(parents=True)
    for name in ("books-00", "books-01", "books-heldout"):
        (data / "corpus" / f"{name}.txt").write_text("\n".join(SENTENCES), encoding="utf-8")
    (data / "spm").mkdir()
    shutil.copy(tiny.VOCABULARY, data / "spm" / "30k-clean.model")
    tokenizer = albert_tf.FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    config = json.loads((ROOT / "experiments" / "books_config.json").read_text())
    config |= {"vocab_size": len(tokenizer.vocab), "hidden_size": 16, "intermediate_size": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))

    def run(steps):
        given = {"CONFIG": f"{tmp_path}/config.json", "STEPS": str(steps), "WARMUP": "1"}
        return shell("experiments/books.sh", data, output, **given)

    assert "global_step = 2" in run(2)
    records = output / "train-0.tfrecord"
    before = records.stat().st_mtime_ns
    checkpoint = output / "model" / "model.ckpt-3.index"
    assert not checkpoint.exists()
    assert "global_step = 3" in run(3)
    assert checkpoint.exists()
    assert records.stat().st_mtime_ns == before


# --- Parts ---------------------------------------------------------------------------------------


def test_the_sample_has_a_pair_of_each_paradigm():
    paradigms = minimal_pairs.read([str(package_model.SAMPLE / "pairs.jsonl")])
    assert len(paradigms) == 67
    assert {len(paradigm.sentences) for paradigm in paradigms} == {2}
    assert all(good != bad for good, bad in (paradigm.sentences for paradigm in paradigms))
    assert len(SENTENCES) == len(set(SENTENCES)) == 60


class Knowing:
    """Stands for a model that knows some words: `fill_mask` gives one of them for each mask."""

    def __init__(self, tokenizer, text, right):
        self.tokenizer, self._words, self._right = tokenizer, text.split(), right

    def fill_mask(self, texts, top_k):
        assert top_k == 1
        found = []
        for text in texts:
            (number,) = (i for i, word in enumerate(text.split()) if "[MASK]" in word)
            bare = self._words[number].strip('.,"')
            piece = "▁" + (bare.lower() if bare in self._right else "x")
            found.append([[{"piece": piece}]])
        return found


def test_word_accuracy_counts_words_of_one_piece(tmp_path, monkeypatch):
    text = 'The man said, "Zyxwvut."'
    (tmp_path / "sentences.txt").write_text(text)
    monkeypatch.setattr(package_model, "SAMPLE", tmp_path)
    monkeypatch.setattr(minimal_pairs, "read", lambda paths: [])
    accuracy = {"overall": {"accuracy": 0.75}}
    monkeypatch.setattr(minimal_pairs, "evaluate", lambda *_: accuracy)
    tokenizer = albert_tf.FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    assert [len(tokenizer.tokenize(word)) > 1 for word in ("The", "man", "said", "Zyxwvut")] == [
        False, False, False, True
    ]  # fmt: skip
    found = package_model.sample_metrics(Knowing(tokenizer, text, {"The", "man"}))
    assert found == {"minimal_pairs": 0.75, "word_accuracy": pytest.approx(2 / 3)}


def test_heldout_files_count_the_same_and_are_masked_as_in_the_training(tmp_path, monkeypatch):
    for name in ("books", "wiki"):
        (tmp_path / name).touch()

    def evaluate(script, input_file, output_dir, **flags):
        assert script == "run_pretraining.py" and flags.pop("init_checkpoint") == "model"
        assert flags.items() >= given.items() and "vocab_file" not in flags
        assert flags["max_eval_steps"] > 1000  # all records, whatever the training looked at
        accuracy = {"books": 0.25, "wiki": 0.5}[Path(input_file).name]
        Path(output_dir).mkdir(parents=True)
        (Path(output_dir) / "eval_results.txt").write_text(
            f"***** Eval results *****\nglobal_step = 0\nmasked_lm_accuracy = {accuracy}\n"
        )

    monkeypatch.setattr(package_model, "run_script", evaluate)
    given = {"max_seq_length": 64, "masked_lm_budget": 0.2, "ngram": 1, "spm_model_file": "spm"}
    flags = given | {"eval_input_file": f"{tmp_path}/books,{tmp_path}/wiki", "init_checkpoint": "x"}
    flags["max_eval_steps"] = 25
    found = package_model.heldout_metrics("model", "config.json", flags, str(tmp_path / "work"))
    assert found == {"masked_lm_accuracy": 0.375}


def test_the_card_has_the_steps_that_a_phase_had():
    phases = [
        run_directory.RunSettings(flags=flags, config=tiny.WIDE, text={}, parameter_count=3_100_000)
        for flags in (
            {"num_train_steps": 120000, "max_seq_length": 64},
            {"num_train_steps": 300, "init_checkpoint": "output/model.ckpt-26000"},
            {"num_train_steps": 40, "init_checkpoint": "output/model.ckpt-300"},
            {"num_train_steps": 7, "init_checkpoint": "output/model.ckpt-20.index"},
        )
    ]
    metrics = {"heldout": {"a": 0.5}, "sample": {}, "heldout_float32": {package_model.KEY: 0.5}}
    config = albert_tf.AlbertConfig.from_dict(tiny.WIDE)
    text = package_model.card("$name $parameters\n$phases", "small", config, phases, metrics)
    steps = [line.split(" | ")[3] for line in text.splitlines()[1:]]
    assert text.startswith("small 3.1\n")
    assert steps == ["steps", "---", "26000 of 120000", "300", "20 of 40", "7"]


def test_nothing_is_written_if_half_precision_changes_the_accuracy(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    record = {"config": tiny.WIDE, "text": {}, "flags": {"eval_input_file": "x"}}
    (run / "run.json").write_text(json.dumps(record))
    monkeypatch.setattr(package_model, "run_script", lambda *_, **flags: None)
    metrics = iter([{"masked_lm_accuracy": value} for value in (0.4215, 0.42)])
    monkeypatch.setattr(package_model, "heldout_metrics", lambda *_: next(metrics))
    with refuses("42.00% ... float32 ... 42.15%"):
        package_model.main([str(run), str(tmp_path / "model"), f"--card={CARD}"])
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "there, card, message",
    [
        ([], None, "run.json"),  # what is packaged is no training
        (["metrics.json"], None, "{}/mine"),  # of another model or a row of a study: it stays
        ([], "$costs", "--card ... costs"),  # before anything is measured
        ([], "5 $", "--card"),
    ],
)
def test_what_is_not_packaged(there, card, message, tmp_path):
    for name in there:
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / name).touch()
    (tmp_path / "card.md").write_text(card or CARD.read_text())
    with refuses(message.format(tmp_path)):
        package_model.main([str(tmp_path), f"{tmp_path}/mine", f"--card={tmp_path}/card.md"])
    assert all((tmp_path / "mine" / name).exists() for name in there)


def test_phases_are_the_trainings_with_a_record(tmp_path):
    starts = {"first": "english-small", "second": f"{tmp_path}/first", "loop": f"{tmp_path}/loop"}
    for name, start in starts.items():
        (tmp_path / name).mkdir()
        record = {"config": tiny.WIDE, "text": {}, "flags": {"init_checkpoint": start}}
        (tmp_path / name / "run.json").write_text(json.dumps(record))
    phases = package_model.phases_of(f"{tmp_path}/second")
    found = [settings.flags["init_checkpoint"] for settings in phases]
    assert found == [starts["first"], starts["second"]]
    with refuses("run.json"):  # it began with itself
        package_model.phases_of(starts["loop"])


def test_a_missing_card_is_an_error(tmp_path):
    with refuses(f"--card={tmp_path}/missing.md"):
        package_model.main(["run", "model", f"--card={tmp_path}/missing.md"])
