# SPDX-License-Identifier: Apache-2.0
"""Files that one run writes and another reads: what they hold, and what is refused of them."""

import json

import pytest

from albert_tf.checkpoints.run_directory import (
    FinetunedTask,
    NoAnswerThreshold,
    RunDirectory,
    RunSettings,
)
from tests import tiny
from tests.errors import refuses

VOCABULARY = {"flag": "vocab_file", "path": "vocab.txt", "sha256": "00"}
RUN = {"config": tiny.CONFIG, "text": {"do_lower_case": True}, "vocabulary": None}
TASK = {"task_name": "rte", "labels": ["yes", "no"]}
THRESHOLD = {"null_score_diff_threshold": 1, "tuned_on": "dev.json"}
STATES = {  # property of RunDirectory -> (file, content, values of keys that make it damaged)
    "settings": (
        "run.json",
        RUN,
        {
            "config": [None, 3, {}, {"vocab_size": -1}],
            "text": [None, [], {"max_seq_length": True}, {"do_lower_case": 1}],
            "vocabulary": [5, {"path": "x"}, VOCABULARY | {"flag": "x"}, VOCABULARY | {"path": 1}],
            "flags": [
                *(3, {"length_buckets": [16]}, {"max_seq_length": "64"}, {"text_column": 0}),
                {"null_score_diff_threshold": True},
            ],
            "seed": [True, "1"],
            "starts": [{}],
            "versions": [[]],
        },
    ),
    "task": (
        "finetuned_task.json",
        TASK,
        {"task_name": [None, 7, ["rte"]], "labels": ["ab", [0, 1], {}, 3]},
    ),
    "threshold": (
        "null_score_diff_threshold.json",
        THRESHOLD,
        {
            "null_score_diff_threshold": [None, True, "1", [[1]], 10**400, 1e999],
            "tuned_on": [None, 2],
        },
    ),
}
NOT_JSON = [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"3", b"[]", b"[1]", b"{}"]


def damaged():
    """Yields (property, content of its file)."""
    for name, (_, content, wrong) in STATES.items():
        for text in (*NOT_JSON, b'{"a": 1' + b"0" * 5000 + b"}"):
            yield name, text
        for key in sorted(content.keys() - {"vocabulary"}):
            yield name, json.dumps({k: v for k, v in content.items() if k != key}).encode()
        for key, values in wrong.items():
            for value in values:
                yield name, json.dumps(content | {key: value}).encode()


@pytest.mark.parametrize("name, content", list(damaged()), ids=lambda value: str(value)[:40])
def test_a_damaged_file_is_one_line_that_names_it(name, content, tmp_path):
    path = tmp_path / STATES[name][0]
    path.write_bytes(content)
    with refuses(path) as caught:
        getattr(RunDirectory(str(tmp_path)), name)
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", STATES)
def test_unknown_keys_and_absent_files_are_no_damage(name, tmp_path):
    folder = RunDirectory(str(tmp_path))
    assert getattr(folder, name) is None
    file, content, _ = STATES[name]
    (tmp_path / file).write_text(json.dumps(content | {"of_a_later_version": 1}))
    assert getattr(folder, name) is not None


def test_what_is_written_is_read_again(tmp_path):
    folder = RunDirectory(str(tmp_path))
    for task in (FinetunedTask("rte", ("yes", "no")), FinetunedTask("sts-b", None)):
        folder.write_task(task)
        assert folder.task == task
    folder.write_threshold(NoAnswerThreshold(-0.5, "dev.json"))
    assert folder.threshold == NoAnswerThreshold(-0.5, "dev.json")
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"vocabulary": VOCABULARY}))
    settings = folder.settings
    assert isinstance(settings, RunSettings) and settings.vocabulary.sha256 == "00"
    assert settings.flags == {} and settings.seed is None
