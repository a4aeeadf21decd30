# SPDX-License-Identifier: Apache-2.0
"""SQuAD answers from model outputs: against the original's files and a plain reference."""

import functools
import gzip
import json
import re

import numpy as np
import pytest

from albert_tf.tasks.squad import answers as squad_predictions
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.tasks.squad.features import WindowSettings
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN, read_arrays, tiny
from tests.tasks.squad.original_features import original_features

POSTPROCESS = GOLDEN / "finetune" / "squad_postprocess"
WINDOWS = {"L64_S24_Q12": (64, 24, 12), "L384_S128_Q64": (384, 128, 64)}


def golden_text(name):
    return gzip.decompress((POSTPROCESS / f"{name}.json.gz").read_bytes()).decode()


def golden_arrays(name):
    """Outputs in the order of the features."""
    arrays = read_arrays(POSTPROCESS / f"{name}.npz")
    rows, order = np.unique(arrays.pop("unique_ids"), return_index=True)
    assert rows[0] == 1_000_000_000 and np.all(np.diff(rows) == 1)
    return {name: values[order] for name, values in arrays.items()}


@pytest.fixture(scope="module")
def dev(tokenizer):
    """Returns a function (version, window) -> (examples, features), made once each."""

    @functools.cache
    def convert(version, window="L64_S24_Q12"):
        path = tiny.SQUAD_DATA / f"dev_{version}.json"
        examples = squad_questions.read_examples(str(path), training=False)
        settings = WindowSettings(*WINDOWS[window])
        return examples, squad_features.convert_examples(examples, tokenizer, settings, False)

    return convert


NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def assert_same_file(found, expected):
    """Same up to the rounding of numbers: from Python 3.12 on, `sum` rounds less."""
    assert NUMBER.sub("0", found) == NUMBER.sub("0", expected)
    numbers = [np.array(NUMBER.findall(text), float) for text in (found, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-12, atol=0)


# === The original's files ===


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("suffix, n_best, longest", [("", 20, 30), ("_n3_a4", 3, 4)])
def test_v1_files_are_the_originals(dev, window, suffix, n_best, longest):
    examples, features = dev("v1.1", window)
    run = golden_arrays(f"v1_{window}_logits")
    found = squad_predictions.predict_v1(examples, features, [run], n_best, longest)
    name = f"v1_{window}{suffix}"
    predictions, nbest = found.files().values()
    assert_same_file(predictions, golden_text(f"{name}_predictions"))
    assert_same_file(nbest, golden_text(f"{name}_nbest"))
    assert found.null_odds is None


def test_v2_files_are_the_originals(dev):
    examples, features = dev("v2.0")
    name = "v2_L64_S24_Q12"
    run = golden_arrays(f"{name}_outputs")
    found = squad_predictions.predict_v2(examples, features, [run], 20, 30)
    predictions, nbest, null_odds = found.files().values()
    assert_same_file(predictions, golden_text(f"{name}_nothresh_predictions"))
    assert_same_file(nbest, golden_text(f"{name}_nbest"))
    assert_same_file(null_odds, golden_text(f"{name}_null_odds"))
    threshold = json.loads(golden_text(f"{name}_eval"))["final"]["null_score_diff_threshold"]
    final = found.texts(threshold)
    final_file = found.files(threshold)["predictions.json"]
    assert final_file == golden_text(f"{name}_final_predictions")
    # The question that has the threshold as its own score is not below it.
    (at_threshold,) = [q for q, odds in found.null_odds.items() if odds == threshold]
    assert final[at_threshold] == "" != found.texts()[at_threshold]
    # The threshold that is kept equals no score, and gives the same answers.
    kept = found.robust_threshold(threshold)
    assert kept < threshold and kept not in found.null_odds.values()
    assert found.texts(kept) == final


# === A plain reference, for several runs ===


def reference(examples, features, runs, n_best, longest, pairs_of, empty):
    """N-best texts and scores of each question, pair by pair as the specification words it."""
    processor = FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    scores = {}
    windows = list(original_features(features, processor))
    for run in runs:
        for window in windows:
            offset = window["tokens"].index("[SEP]") + 1
            length = len(window["tok_start_to_orig_index"])
            of_example = scores.setdefault(window["example_index"], {})
            of_window = of_example.setdefault(window["unique_id"], {})
            for start, end, *both in pairs_of(run, window["unique_id"] - 1_000_000_000):
                if (
                    window["token_is_max_context"].get(start)
                    and end - offset < length
                    and 0 <= end - start < longest
                ):
                    of_window.setdefault((start - offset, end - offset), []).append(both)
    lists = {}
    for number, example in enumerate(examples):
        candidates = []
        for unique_id, spans in scores.get(number, {}).items():
            window = windows[unique_id - 1_000_000_000]
            for (start, end), found in spans.items():
                begin = window["tok_start_to_orig_index"][start]
                stop = window["tok_end_to_orig_index"][end] + 1
                means = [sum(column) / len(found) for column in zip(*found, strict=True)]
                candidates.append((example.paragraph_text[begin:stop].strip(), *means))
        candidates.sort(key=lambda candidate: candidate[1] + candidate[2], reverse=True)
        kept = {}
        for text, *means in candidates:
            if len(kept) < n_best:
                kept.setdefault(text, means)
        lists[example.qas_id] = list(kept.items()) or [empty]
    return lists


def pairs_v1(n_best):
    def pairs(run, row):
        def best(logits):
            return sorted(range(len(logits)), key=lambda i: logits[i], reverse=True)[:n_best]

        starts, ends = run["start_logits"][row].tolist(), run["end_logits"][row].tolist()
        return [(s, e, starts[s], ends[e]) for s in best(starts) for e in best(ends)]

    return pairs


def pairs_v2(run, row):
    width = run["end_top_index"].shape[1] // run["start_top_index"].shape[1]
    ends, end_scores = run["end_top_index"][row], run["end_top_log_probs"][row]
    starts = zip(run["start_top_index"][row], run["start_top_log_probs"][row], strict=True)
    return [
        (int(start), int(ends[k]), float(score), float(end_scores[k]))
        for i, (start, score) in enumerate(starts)
        for k in range(i * width, (i + 1) * width)
    ]


def assert_same_lists(found, expected):
    assert list(found) == list(expected)
    for qas_id, entries in found.items():
        assert [
            (entry["text"], [entry["start_log_prob"], entry["end_log_prob"]]) for entry in entries
        ] == expected[qas_id], qas_id


@pytest.mark.parametrize("run_count", [1, 3])
def test_v1_runs_are_averaged(dev, run_count):
    examples, features = dev("v1.1")
    random = np.random.RandomState(5)
    shape = len(features), 64
    names = ("start_logits", "end_logits")  # of whole numbers: ties
    runs = [
        {name: random.randint(-4, 5, shape).astype(np.float32) for name in names}
        for _ in range(run_count)
    ]
    found = squad_predictions.predict_v1(examples, features, runs, 6, 9)
    expected = reference(examples, features, runs, 6, 9, pairs_v1(6), ("empty", [0.0, 0.0]))
    assert_same_lists(found.nbest, expected)


def test_v2_runs_are_averaged(dev):
    examples, features = dev("v2.0")
    random = np.random.RandomState(6)
    golden = golden_arrays("v2_L64_S24_Q12_outputs")
    rows = len(features)
    other = {name: values.copy() for name, values in golden.items()}
    other["start_top_index"] = np.array([random.permutation(64)[:5] for _ in range(rows)])
    other["end_top_index"] = np.array(
        [np.concatenate([random.permutation(64)[:5] for _ in range(5)]) for _ in range(rows)]
    )
    other["cls_logits"] = random.normal(size=rows).astype(np.float32)
    runs = [golden, other]
    found = squad_predictions.predict_v2(examples, features, runs, 20, 30)
    expected = reference(examples, features, runs, 20, 30, pairs_v2, ("", [-1e6, -1e6]))
    assert_same_lists(found.nbest, expected)
    for number, example in enumerate(examples):
        rows = np.flatnonzero(features.example_index == number)
        lowest = [float(run["cls_logits"][rows].min()) if rows.size else 1e6 for run in runs]
        assert found.null_odds[example.qas_id] == sum(lowest) / 2


def test_many_windows_are_taken_in_parts(dev, monkeypatch):
    examples, features = dev("v1.1")
    run = golden_arrays("v1_L64_S24_Q12_logits")
    whole = squad_predictions.predict_v1(examples, features, [run], 20, 30)
    monkeypatch.setattr(squad_predictions, "PAIRS_AT_ONCE", 7 * 20 * 20)
    assert squad_predictions.predict_v1(examples, features, [run], 20, 30) == whole


# === The threshold to keep ===


def answers_at(odds, threshold):
    return [value < threshold for value in odds]


@pytest.mark.parametrize(
    "odds, official, expected",
    [
        ([-3.0, -1.0, 2.0], -1.0, -2.0),  # the question at the threshold gets no answer
        ([2.0, -1.0, -1.0, -3.0], -1.0, -2.0),  # nor do two of them
        ([-3.0, -1.0, 2.0], -3.0, -4.0),  # the first: nobody is answered
        ([1.5, 3.0], 0.0, 0.0),  # it is best to answer nobody, and 0 is far from all of them
        ([0.25, 3.0], 0.0, -0.75),
        ([0.0, 3.0], 0.0, -1.0),
        ([-0.5, 3.0], 0.0, 1.25),  # and yet negative logits are answered
        ([-7.0, -2.0], 0.0, 0.0),
        ([-7.0, -0.5], 0.0, 0.5),
        ([-7.0, -0.5, 1e6], 0.0, 0.5),  # a question without a window has no logit
        ([-7.0, -0.5, 1e6], 1e6, 1e6),
        ([1e6], 0.0, 0.0),
    ],
)
def test_the_threshold_to_keep_lies_between_logits(odds, official, expected):
    predictions = squad_predictions.Predictions({}, dict(enumerate(odds)))
    threshold = predictions.robust_threshold(official)
    assert threshold == expected
    assert answers_at(odds, threshold) == answers_at(odds, official)
    rounded = [value + sign * 2e-5 for value in odds if value < 1e6 for sign in (1, -1)]
    exact = [value for value in odds if value < 1e6 for _ in range(2)]
    assert answers_at(rounded, threshold) == answers_at(exact, threshold)


def test_logits_that_are_nearly_the_same_are_not_told_apart():
    odds = [-2.0, 1.0, 1.00001, 1.00002, 3.0]
    predictions = squad_predictions.Predictions({}, dict(enumerate(odds)))
    assert predictions.robust_threshold(1.00002) == -0.5
    assert predictions.robust_threshold(3.0) == pytest.approx(2.00001)
    lowest = squad_predictions.Predictions({}, dict(enumerate(odds[1:])))
    assert lowest.robust_threshold(1.00002) == 0.0
    for gap, threshold in ((9e-5, -1.0), (1.1e-4, 5.5e-5)):
        two = squad_predictions.Predictions({}, {0: 0.0, 1: gap})
        assert two.robust_threshold(gap) == threshold
