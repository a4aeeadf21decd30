# SPDX-License-Identifier: Apache-2.0
"""Loaded fine-tuned models give the numbers of the files that the scripts write."""

import csv
import json
import sys

import numpy as np
import pytest

import albert_tf
import run_classifier
import run_race
import run_squad
from albert_tf.errors import UserError
from tests import GOLDEN
from tests.api import sources

pytestmark = pytest.mark.usefixtures("eagerly")

DATA = GOLDEN / "finetune" / "glue_data"
SQUAD = GOLDEN / "finetune" / "squad_data"
CLOSE = 1e-5  # between batches of other shapes, absolute
LENGTH = 48
FLAGS = {
    "spm_model_file": sources.VOCABULARY,
    "max_seq_length": LENGTH,
    "do_train": True,
    "do_predict": True,
    "save_checkpoints_steps": 1,
    "train_batch_size": 2,
    "allow_random_init": True,
    "seed": 1,
}
STEPS = {"train_step": 1, "warmup_step": 0}
TAGGED = "Holmes\tB-PER\nsaid\tO\nWatson,\tB-PER\nunbelievably\tO\n\nThe\tO\ndoctor\tO\n"


def read(path):
    """Rows of a tab-separated file."""
    with path.open(encoding="utf-8") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def run(eagerly, tmp_path_factory, run_main):
    """Trains one update and predicts, once for each name: run(name, script, flags) -> directory."""
    done = {}

    def make(name, script, **flags):
        if name not in done:
            folder = tmp_path_factory.mktemp("run")
            (folder / "config.json").write_text(json.dumps(sources.WIDE))
            run_main(
                script,
                **FLAGS | flags,
                albert_config_file=folder / "config.json",
                output_dir=folder / "out",
            )
            done[name] = folder / "out"
        return done[name]

    return make


def glue(run, task):
    return run(task, run_classifier, task_name=task, data_dir=DATA, **STEPS)


def test_pairs_have_the_probabilities_of_the_script(run, capsys):
    directory = glue(run, "RTE")
    loaded = albert_tf.load(str(directory), batch_size=3)
    printed = capsys.readouterr().out
    assert f"Loaded {directory}/model.ckpt-1 (step 1): fine-tuned for rte" in printed
    assert loaded.labels == ("entailment", "not_entailment")
    rows = read(DATA / "RTE" / "test.tsv")[1:]
    found = loaded.predict([row[1] for row in rows], [row[2] for row in rows])
    expected = np.array(read(directory / "test_results.tsv"), float)
    probabilities = [list(row["probabilities"].values()) for row in found]
    np.testing.assert_allclose(probabilities, expected, atol=CLOSE)
    assert list(found[0]["probabilities"]) == list(loaded.labels)
    submitted = read(directory / "submit_results.tsv")[1:]
    assert [row["label"] for row in found] == [label for _, label in submitted]
    assert np.ptp(expected[:, 0]) > 0.01  # of different texts
    assert loaded.predict(rows[0][1], rows[0][2])["label"] == found[0]["label"]
    assert loaded.predict([]) == []


def test_one_second_text_goes_with_many_first_ones(run):
    loaded = albert_tf.load(str(glue(run, "RTE")))
    both = loaded.predict(["one", "two"], "three")
    assert both[1]["probabilities"] == pytest.approx(
        loaded.predict("two", "three")["probabilities"], abs=CLOSE
    )
    with pytest.raises(UserError, match=r"equally long. Received: 2 texts, 1 pairs"):
        loaded.predict(["one", "two"], ["three"])


@pytest.mark.long
def test_scores_are_those_of_the_script(run):
    directory = glue(run, "STS-B")
    loaded = albert_tf.load(str(directory))
    rows = read(DATA / "STS-B" / "test.tsv")[1:]
    found = loaded.predict([row[7] for row in rows], [row[8] for row in rows])
    expected = np.array(read(directory / "test_results.tsv"), float)[:, 0]
    np.testing.assert_allclose([row["predictions"] for row in found], expected, atol=CLOSE)


def test_words_have_the_labels_of_the_script(run, tmp_path_factory):
    data = tmp_path_factory.mktemp("ner")
    for split in ("train", "dev", "test"):
        (data / f"{split}.conll").write_text(TAGGED)
    directory = run("ner", run_classifier, task_name="ner", data_dir=data, **STEPS)
    loaded = albert_tf.load(str(directory))
    sentences = [
        " ".join(line.split("\t")[0] for line in block.splitlines())
        for block in TAGGED.split("\n\n")
    ]
    found = loaded.predict(sentences)
    expected = [row for row in read(directory / "test_results.conll") if row]
    words = [pair for row in found for pair in zip(row["words"], row["labels"], strict=True)]
    assert [list(pair) for pair in words] == expected
    assert all(1 / 2 <= score <= 1 for row in found for score in row["scores"])
    assert loaded.predict(["", "Holmes"])[0] == {"words": [], "labels": [], "scores": []}


def test_options_have_the_probabilities_of_the_script(run):
    flags = {"data_dir": DATA, "max_qa_length": 20, "do_eval": False}
    directory = run("race", run_race, **flags, **STEPS)
    loaded = albert_tf.load(str(directory))
    articles, questions, options = [], [], []
    for level in ("middle", "high"):
        for line in (DATA / "RACE" / "test" / level / "all.txt").read_text().splitlines():
            passage = json.loads(line)
            for question, choices in zip(passage["questions"], passage["options"], strict=True):
                articles.append(passage["article"])
                questions.append(question)
                options.append(choices)
    found = loaded.predict(articles, questions, options)
    expected = read(directory / "predictions.tsv")[1:]
    assert [row["label"] for row in found] == [row[2] for row in expected]
    probabilities = [list(row["probabilities"].values()) for row in found]
    np.testing.assert_allclose(
        probabilities, np.array([row[4:] for row in expected], float), atol=CLOSE
    )
    one = loaded.predict(articles[0], questions[0], options[0])
    assert one["label"] == expected[0][2]
    with pytest.raises(UserError, match="4 options are expected"):
        loaded.predict("Passage", "Question?", ["a", "b"])


@pytest.mark.long
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_answers_are_those_of_the_script(run, version, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_squad"])  # whose flags are recorded
    path = SQUAD / f"dev_{version}.json"
    directory = run(
        version,
        run_squad,
        train_file=SQUAD / f"train_{version}.json",
        predict_file=path,
        num_train_epochs=1,
        doc_stride=16,
        max_query_length=12,
        max_answer_length=7,
        n_best_size=4,
        train_batch_size=26,  # one update of 39 questions, two of 52
        save_checkpoints_steps=100,
    )
    loaded = albert_tf.load(str(directory))
    assert "fine-tuned for squad" in capsys.readouterr().out
    ids, questions, contexts = [], [], []
    for article in json.loads(path.read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                ids.append(question["id"])
                questions.append(question["question"])
                contexts.append(paragraph["context"])
    found = dict(zip(ids, loaded.predict(questions, contexts), strict=True))
    expected = json.loads((directory / "predictions.json").read_text())
    assert {id_: row["answer"] for id_, row in found.items()} == expected
    best = json.loads((directory / "nbest_predictions.json").read_text())
    for id_, row in found.items():
        assert row["probability"] == pytest.approx(best[id_][0]["probability"], abs=1e-4)
    if version == "v2.0":
        odds = json.loads((directory / "null_odds.json").read_text())
        scores = {id_: row["no_answer_score"] for id_, row in found.items()}
        assert scores == pytest.approx(odds, abs=1e-4)
    assert loaded.predict(questions[0], contexts[0])["answer"] == expected[ids[0]]
