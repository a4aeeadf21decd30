# SPDX-License-Identifier: Apache-2.0
"""cards: what the README.md of an export says of training, evaluation, data and licence."""

import json

import numpy as np
import pytest

from albert_tf.checkpoints import writers
from albert_tf.publish import cards
from tests import ROOT, tiny
from tests.errors import refuses

VALUES = tiny.CONFIG | {
    "architecture": "AlbertModel", "parameters": "5", "dtype": "fp32", "example": "",
    "path": "/home/me/exports/out/", "max_seq_length": 30,
}  # fmt: skip
RECORD = {
    "flags": {
        "task_name": "RTE", "init_checkpoint": "/home/me/models/albert_base/", "train_step": 3,
        "learning_rate": 3e-5, "masked_lm_budget": 0, "vocab_file": "", "do_train": True,
    },
    "config": tiny.CONFIG,
    "text": {},
    "versions": {"python": "3.11.7", "tensorflow": "2.20.0"},
    "devices": ["/job:localhost/replica:0/task:0/device:CPU:0"],
    "input_files": {f"/data/glue/RTE/part-{i}.tsv": 10 * i for i in range(12)},
    "seed": 7,
}  # fmt: skip
RESULTS = """\
eval_accuracy = 0.5
global_step = 0
loss = 0.9
best = -1
==================================================
eval_accuracy = 0.75
global_step = 3
saved a to b
loss = 0.5
best = 0.5
==================================================
eval_accuracy = 0.25
global_step = 6
loss = 0.7
best = 0.75
"""


@pytest.fixture
def prefix(tmp_path):
    """A checkpoint of step 3."""
    path = str(tmp_path / "model.ckpt-best")
    writers.WRITERS["tf1"](path, {"global_step": np.int64(3)})
    return path


def made(prefix=None, card_file=None):
    """The sections of a card: dict of heading -> text."""
    text = cards.card("transformers_card.md", prefix, card_file, **VALUES)
    parts = (part.partition("\n\n") for part in text.split("\n## ")[1:])
    return {heading: body for heading, _, body in parts}


def test_what_was_recorded_is_shown(prefix, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RECORD))
    (tmp_path / "eval_results.txt").write_text(RESULTS)
    found = made(prefix)
    for line in (
        "| steps | 3 |",
        "| `--task_name` | RTE |",
        "| `--init_checkpoint` | models/albert_base |",  # tells nothing of the user's machine
        "| `--learning_rate` | 3e-05 |",
        "| seed | 7 |",
        "| devices | CPU:0 |",
        "| versions | python 3.11.7, tensorflow 2.20.0 |",
    ):
        assert line in found["Training"]
    assert "RTE/part-9.tsv (90 bytes), 2 more |" in found["Training"]
    assert "masked_lm_budget" not in found["Training"]  # 0: not used
    assert "vocab_file" not in found["Training"] and "/home" not in found["Training"]
    *_, text, table = found["Evaluation"].rstrip().split("\n\n")
    assert text.endswith("(step 3). The data are those that the training evaluates on.")
    assert table.splitlines()[2:] == ["| eval_accuracy | 0.75 |", "| loss | 0.5 |"]


@pytest.mark.parametrize("record", [None, {"versions": {}, "seed": None}])
def test_what_is_not_known_is_to_be_filled_in(record, prefix, tmp_path):
    if record:  # of a model that was saved without a training
        (tmp_path / "run.json").write_text(json.dumps(RECORD | record))
    found = made(prefix)
    assert "no `run.json` of a training" in found["Training"] and "|" not in found["Training"]
    assert "was not evaluated" in found["Evaluation"]
    assert "Not recorded. Describe" in found["Data and licence"]
    assert "Test it on your own data" in found["Intended use and limits"]


def test_the_user_describes_the_data(prefix, tmp_path):
    path = tmp_path / "about.md"
    path.write_text("English Wikipedia, CC BY-SA 4.0; costs $5.\n")
    assert made(prefix, str(path))["Data and licence"] == path.read_text()
    about = path.read_text()
    given = "license: mit\ntags: [film,\n  albert]\nlibrary_name: x\nmodel-index:\n- name: a"
    path.write_text(f"\ufeff---\r\n{given}\n---\n\n{about}")
    text = cards.card("transformers_card.md", prefix, str(path), **VALUES)
    _, header, body = text.split("---\n", 2)
    assert header.splitlines() == [
        "library_name: transformers", "license: mit", "tags: [film,", "  albert]", "model-index:",
        "- name: a",
    ]  # fmt: skip
    assert body.startswith("\n# AlbertModel\n") and body.endswith(f"licence\n\n{about}")
    assert "license" not in body and "/home" not in body
    assert cards.card_header.merge({}, {}) == ""


@pytest.mark.parametrize("path", ["albert_tf/models/english-small/README.md", "README.md"])
def test_files_with_and_without_a_header(path):
    text = (ROOT / path).read_text()
    header, body = cards.card_header.split(text)
    assert (header.get("license"), "license: " in body) == (
        (["license: apache-2.0"], False) if "models" in path else (None, False)
    )


@pytest.mark.parametrize(
    ("text", "line"), [("license: mit\n\nTrained on films.\n---\n", 4), ("license: mit", 3)]
)
def test_a_header_that_is_not_closed(text, line):
    with refuses(f"--card_file=x ... line {line} ... ---"):
        cards.card_header.split(f"---\n{text}", "--card_file=x")


def test_metrics_of_a_head_that_is_not_in_the_export(prefix, tmp_path):
    (tmp_path / "eval_results.txt").write_text(RESULTS)
    text = cards.card("transformers_card.md", prefix, None, ["output_bias"], **VALUES)
    assert "of a head that is not in this export" in text and "eval_accuracy" not in text


def test_bars_in_names_do_not_end_a_cell():
    assert cards.listed(["R|B", "2, or 3"]) == r"`R\|B`, `2, or 3`"
    assert cards.table(("a", "b"), ("f1_R|B", 1)).endswith(r"| f1_R\|B | 1 |")


def test_an_export_without_weights_has_no_training():
    assert list(made()) == ["Use", "Intended use and limits", "Data and licence"]


def test_metrics_are_those_of_the_last_evaluation_of_the_step():
    again = RESULTS + "eval_accuracy = 0.8\nglobal_step = 3\nloss = 0.4\n"
    assert cards._metrics(again, 3) == {"eval_accuracy": "0.8", "loss": "0.4"}
    assert cards._metrics(RESULTS, 4) == {} == cards._metrics("damaged", 0)


@pytest.mark.parametrize(
    "architecture, lines", [("AlbertModel", 1), (cards.huggingface.MULTIPLE_CHOICE, 2)]
)
def test_the_example_fits_the_head(architecture, lines):
    example = cards.transformers_example(architecture)
    values = VALUES | {"architecture": architecture, "example": example}
    text = cards.card("transformers_card.md", **values)
    assert 'path = "out"' in text and f".from_pretrained(path)\n{example}\n```" in text
    assert ("[1, choices, T]" in example) == (lines == 2) == ("\n" in example)
    assert "truncation=True" in example and "| longest sequence | 30 tokens |" in text
    compile(example, "card", "exec")
