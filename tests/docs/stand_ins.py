# SPDX-License-Identifier: Apache-2.0
"""Small files under the names that the pages use: weights, vocabulary, text and data sets."""

import itertools
import json
import shutil

from tests import tiny
from tests.fuzz import corpus
from tests.text import languages

CONFIG = corpus.CONFIG | {"max_position_embeddings": 512}  # the lengths of the pages fit
MODEL = "albert_base"
COPIES = {  # name in the pages -> name in the corpus of tests/fuzz
    "text/train-0.txt": "text.txt",
    "text/heldout.txt": "text.txt",
    "text/all.txt": "text.txt",
    f"{MODEL}/30k-clean.model": "spm.model",
    "data/RACE": "race/RACE",
    "wnut17": "conll",
    "train-v1.1.json": "squad1.json",
    "dev-v1.1.json": "squad1.json",
    "train-v2.0.json": "squad2.json",
    "dev-v2.0.json": "squad2.json",
}
COLUMNS = "review\tsummary\tliked"  # of the pages' example of a user's own data


def write(directory):
    """Writes them into a directory (Path) that is empty or absent.

    `albert_base` stands for an unpacked archive of the original release: a tiny model with random
    weights, in its form.
    """
    source = directory.parent / f"{directory.name}-corpus"
    corpus.write_files(source)
    for name, original in COPIES.items():
        path, found = directory / name, source / original
        path.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if found.is_dir() else shutil.copy)(found, path)

    # Russian in place of the others too, which have too many characters for the lowered vocab_size.
    def groups_of(language, size=2):
        return itertools.permutations(languages.TEXTS[language].split("\n"), size)

    for name, size in {"russian": 2, "chinese": 2, "turkish": 2, "finnish": 3}.items():
        (directory / name).mkdir()
        documents = "\n\n".join(map("\n".join, groups_of("russian", size)))
        (directory / name / "train.txt").write_text(documents, encoding="utf-8")
    segmented = [[" ".join(line) for line in pair] for pair in groups_of("chinese")]
    (directory / "segmented").mkdir()
    text = "\n\n".join(map("\n".join, segmented))
    (directory / "segmented" / "train.txt").write_text(text, encoding="utf-8")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(set(text))]
    (directory / "segmented" / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    shutil.copytree(tiny.GLUE_DATA, directory / "glue")
    messages = "text\tid\tlabel"
    tables = {"reviews": COLUMNS, "turkish-messages": messages, "finnish-messages": messages}
    for name, columns in tables.items():
        (directory / name).mkdir()
        for split in ("train", "dev", "test"):
            _, _, rows = (source / "tsv" / f"{split}.tsv").read_text().partition("\n")
            (directory / name / f"{split}.tsv").write_text(f"{columns}\n{rows}")
    (directory / "new-reviews.tsv").write_text("id\treview\n1\tA good film.\n\n2\tA bad film.\n")
    (directory / "new-words.txt").write_text("John\nlives\nin\nLondon\n")
    pair = {"sentence_good": "The cats sleep.", "sentence_bad": "The cats sleeps."}
    pair |= {"UID": "agreement", "field": "morphology", "linguistics_term": "agreement"}
    (directory / "blimp").mkdir()
    (directory / "blimp" / "agreement.jsonl").write_text(f"{json.dumps(pair)}\n" * 3)
    shutil.rmtree(source)
    questions = json.loads((directory / "dev-v1.1.json").read_text())
    for article in questions["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                del question["answers"]
    (directory / "questions.json").write_text(json.dumps(questions))
    (directory / MODEL / "albert_config.json").write_text(json.dumps(CONFIG))


def write_weights(directory):
    """Writes the checkpoint of `albert_base`; imports TensorFlow."""
    from albert_tf.model import heads

    _write_model(directory / MODEL, heads.PretrainingModel)


def write_finetuned(directory):
    """Writes `output/sst-2`, what a fine-tuning leaves; imports TensorFlow."""
    from albert_tf.checkpoints.run_directory import FinetunedTask, RunDirectory
    from albert_tf.model import heads

    folder = directory / "output" / "sst-2"
    folder.mkdir(parents=True)
    for name in ("albert_config.json", "30k-clean.model"):
        shutil.copy(directory / MODEL / name, folder / name)
    _write_model(folder, heads.ClassificationModel, 2)
    RunDirectory(str(folder)).write_task(FinetunedTask("sst-2", ("0", "1")))


def _write_model(folder, kind, *sizes):
    from albert_tf.checkpoints import name_table, writers
    from albert_tf.config import AlbertConfig

    named = name_table.named_variables(kind(AlbertConfig.from_dict(CONFIG), *sizes))
    tensors = {name: variable.numpy() for name, variable in named.items()}
    writers.write(str(folder / "model.ckpt-best"), tensors, "tf1")
