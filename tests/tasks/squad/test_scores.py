# SPDX-License-Identifier: Apache-2.0
"""SQuAD scores: against the golden figures and the Model Garden's official scripts."""

import functools
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from albert_tf import squad_metrics
from albert_tf.tasks.squad import scores
from tests import GOLDEN
from tests.errors import assert_names, refuses
from tests.processes import run_python, run_with_closed_output

official = functools.partial(pytest.importorskip, reason="needs tf-models-official")
squad_evaluate_v1_1 = official("official.nlp.tools.squad_evaluate_v1_1")
squad_evaluate_v2_0 = official("official.nlp.tools.squad_evaluate_v2_0")
FINETUNE = GOLDEN / "finetune"

# Sums of floats: Python's `sum` rounds less from 3.12 on.
close = functools.partial(pytest.approx, rel=1e-12, abs=1e-12)


def golden_json(name):
    return json.loads(gzip.decompress((FINETUNE / "squad_postprocess" / f"{name}.gz").read_bytes()))


def data_file(version):
    return str(FINETUNE / "squad_data" / f"dev_{version}.json")


def articles(version):
    return json.loads(Path(data_file(version)).read_text())["data"]


@pytest.fixture
def v2():
    """Golden run of version 2: gold answers, texts without threshold, null odds."""
    gold, is_v2 = scores.read_gold(data_file("v2.0"))
    assert is_v2
    name = "v2_L64_S24_Q12"
    texts = golden_json(f"{name}_nothresh_predictions.json")
    return gold, texts, golden_json(f"{name}_null_odds.json")


# === One answer ===


def test_answers_score_as_in_the_original():
    rows = golden_json("answer_metric_table.json")
    assert len(rows) > 100
    for prediction, gold, normalized, f1_v1, exact_v1, f1_v2, exact_v2 in rows:
        assert scores.normalize_answer(prediction) == normalized
        assert scores.f1_score(prediction, gold, 0.0) == f1_v1
        assert scores.exact_score(prediction, gold) == exact_v1 == bool(exact_v2)
        assert scores.f1_score(prediction, gold, 1.0) == f1_v2


def test_words_of_answers():
    # Punctuation goes before articles do, so "a-n" is one; only ASCII punctuation goes.
    assert scores.normalize_answer(" The  “Cat’s”, a-n\tAN u.s.a. ") == "“cat’s” usa"
    # Repeated words count once each: 2 words in common of 3 and of 4.
    expected = 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)
    assert scores.f1_score("cat cat dog", "cat cat cat bird", 0.0) == expected


# === Files ===


@pytest.mark.parametrize("window", ["L64_S24_Q12", "L384_S128_Q64"])
@pytest.mark.parametrize(
    "suffix, name", [("", "n_best_size_20_max_answer_30"), ("_n3_a4", "n_best_size_3_max_answer_4")]
)
def test_v1_scores_are_the_originals(window, suffix, name):
    gold, is_v2 = scores.read_gold(data_file("v1.1"))
    predictions = golden_json(f"v1_{window}{suffix}_predictions.json")
    result = scores.evaluate_v1(gold, predictions)
    assert result == close(golden_json(f"v1_{window}_eval.json")[name])
    assert not is_v2
    official = squad_evaluate_v1_1.evaluate(articles("v1.1"), predictions)
    assert result["exact_match"] == pytest.approx(100 * official["exact_match"], abs=1e-9)
    assert result["f1"] == pytest.approx(100 * official["final_f1"], abs=1e-9)


def test_v1_missing_prediction_scores_zero(capsys):
    gold = {"a": ("cat",), "b": ("dog", "the dog"), "c": ("bird",)}
    result = scores.evaluate_v1(gold, {"a": "A cat!", "b": "dog house", "z": "x"})
    assert result == close({"exact_match": 100 / 3, "f1": 100 * (1 + 2 / 3) / 3})
    assert capsys.readouterr().err == "Unanswered question c will receive score 0.\n"  # official


def test_v2_run_is_scored_as_in_the_original(v2):
    gold, texts, null_odds = v2
    golden = golden_json("v2_L64_S24_Q12_eval.json")
    raw = {"exact": golden["raw_exact"], "f1": golden["raw_f1"]}
    assert scores.raw_scores_v2(gold, texts) == raw

    def texts_at(threshold):
        return {
            qas_id: text if threshold is None or null_odds[qas_id] < threshold else ""
            for qas_id, text in texts.items()
        }

    result = scores.evaluate_run_v2(gold, texts_at, null_odds)
    expected = golden["final"]
    assert {name: result[name] for name in expected} == close(expected)
    assert texts_at(expected["null_score_diff_threshold"]) == golden_json(
        "v2_L64_S24_Q12_final_predictions.json"
    )
    # best_* belong to the answers without threshold.
    free = scores.evaluate_v2(gold, texts, null_odds)
    best = {name: value for name, value in free.items() if name.startswith("best_")}
    assert len(best) == 4
    assert {name: result[name] for name in best} == best
    # A threshold that is given is used, and none is looked for.
    given = scores.evaluate_run_v2(gold, texts_at, null_odds, -100.0)
    nothing = scores.evaluate_v2(gold, dict.fromkeys(texts, ""), null_odds)
    assert given == {**nothing, **best, "null_score_diff_threshold": -100.0}
    assert given["NoAns_exact"] == 100.0


def assert_agrees_with_official(data, gold, predictions, na_scores):
    result = scores.evaluate_v2(gold, predictions, na_scores)
    official = squad_evaluate_v2_0.evaluate(data, predictions, na_scores)
    shared = ["exact", "f1", "total"]
    shared += [name for name in official if name.startswith(("HasAns_", "NoAns_"))]
    assert {name: result[name] for name in shared} == close(
        {name: official[name] for name in shared}
    )
    for ours, theirs in (("best_exact", "final_exact"), ("best_f1", "final_f1")):
        assert result[ours] == close(official[theirs])
        assert result[f"{ours}_thresh"] == official[f"{theirs}_thresh"]
    assert len(result) == len(shared) + 4


def test_v2_agrees_with_the_official_script(v2):
    gold, texts, null_odds = v2
    data = articles("v2.0")
    assert_agrees_with_official(data, gold, texts, null_odds)
    random = np.random.RandomState(4)
    for _ in range(20):
        predictions = {
            qas_id: text if random.rand() < 0.6 else "" for qas_id, text in texts.items()
        }
        # Rounded: ties. Up to 2: some are above 1.0.
        na_scores = {qas_id: round(2 * random.rand(), 1) for qas_id in texts}
        assert_agrees_with_official(data, gold, predictions, na_scores)
        some = {qas_id: text for qas_id, text in predictions.items() if random.rand() < 0.5}
        assert_agrees_with_official(data, gold, some, {q: na_scores[q] for q in some})


def test_v2_by_hand(capsys):
    gold = {"a": ("cat",), "b": ("dog", "the"), "c": (), "d": (), "e": ("x",)}
    predictions = {"a": "cat", "b": "dog house", "c": "something", "d": ""}
    na_scores = {"a": 0.1, "c": 0.3, "b": 0.2, "d": 1.5, "e": 9.0}
    result = scores.evaluate_v2(gold, predictions, na_scores)
    assert capsys.readouterr().err == "Missing prediction for e\n"
    f1_of_all, f1_of_answered = 100 * (1 + 2 / 3 + 0 + 1) / 4, 100 * (1 + 2 / 3) / 2
    wanted = {"exact": 50.0, "f1": f1_of_all, "total": 4}  # a, d
    wanted |= {"HasAns_exact": 50.0, "HasAns_f1": f1_of_answered, "HasAns_total": 2}
    wanted |= {"NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2}
    wanted |= {"best_exact": 75.0, "best_exact_thresh": 0.1}  # a answered, c and d not
    wanted |= {"best_f1": 100 * (2 + 1 + 2 / 3) / 4, "best_f1_thresh": 0.2}
    assert result == pytest.approx(wanted)
    # Above its threshold, a question counts as unanswered.
    strict = scores.evaluate_v2(gold, predictions, na_scores, na_threshold=0.15)
    assert (strict["exact"], strict["HasAns_exact"], strict["NoAns_exact"]) == (75.0, 50.0, 100.0)
    plain = scores.evaluate_v2(gold, predictions)
    assert plain == {name: result[name] for name in plain}
    assert not any(name.startswith("best") for name in plain)


def test_v2_nothing_worth_answering_gives_threshold_zero():
    gold, predictions = {"a": (), "b": ("x",)}, {"a": "y", "b": "z"}
    result = scores.evaluate_v2(gold, predictions, {"a": -3.0, "b": -2.0})
    assert (result["best_f1"], result["best_f1_thresh"]) == (50.0, 0.0)


def test_bad_input():
    with refuses("question b"):
        scores.evaluate_v1({"a": ("x",), "b": ()}, {"a": "x"})
    with refuses("1"):
        scores.evaluate_v2({"a": (), "b": ()}, {"a": "", "b": ""}, {"a": 0.0})


# === The command ===


@pytest.fixture
def score(tmp_path, capsys):
    """Runs the command: score(*flags, flag=golden name or content) -> (code, out, err)."""

    def run(*flags, data_file, **contents):
        flags = [*flags, f"--data_file={data_file}"]
        for flag, content in contents.items():
            path = tmp_path / f"{flag}.json"
            path.write_text(json.dumps(golden_json(content)) if ".json" in content else content)
            flags.append(f"--{flag}={path}")
        return squad_metrics.main(flags), *capsys.readouterr()

    return run


V1 = {"data_file": data_file("v1.1"), "predictions_file": "v1_L64_S24_Q12_predictions.json"}
V2_PREDICTIONS = "v2_L64_S24_Q12_nothresh_predictions.json"
V2 = {"data_file": data_file("v2.0"), "predictions_file": V2_PREDICTIONS}


def test_command_v1(score):
    code, out, _ = score(**V1)
    expected = golden_json("v1_L64_S24_Q12_eval.json")["n_best_size_20_max_answer_30"]
    assert (code, json.loads(out)) == (0, expected)


def test_command_v2(score, v2):
    gold, texts, null_odds = v2
    _, out, _ = score(**V2)
    assert json.loads(out) == scores.evaluate_v2(gold, texts)
    with_odds = V2 | {"na_prob_file": "v2_L64_S24_Q12_null_odds.json"}
    _, out, _ = score(**with_odds)
    assert json.loads(out) == scores.evaluate_v2(gold, texts, null_odds)
    assert list(json.loads(out)) == [
        *("exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total"),
        *("NoAns_exact", "NoAns_f1", "NoAns_total"),
        *("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"),
    ]
    _, out, _ = score("--na_prob_thresh=-1.5", **with_odds)
    assert json.loads(out) == scores.evaluate_v2(gold, texts, null_odds, -1.5)


def one_paragraph(*answers):
    questions = [{"id": "a", "answers": [*answers]}, {"id": "b"}]
    return json.dumps({"data": [{"paragraphs": [{"qas": questions[: 1 + (not answers)]}]}]})


ONE = one_paragraph({"text": "x"})


def test_command_as_a_module(tmp_path):
    """It needs no TensorFlow, and ends quietly if its output is closed."""
    for name, content in (("data", ONE), ("found", '{"a": "x"}')):
        (tmp_path / name).write_text(content)
    words = "albert_tf.squad_metrics", "--data_file", tmp_path / "data"
    words = *words, "--predictions_file", tmp_path / "found"
    done = run_python("-X", "importtime", "-m", *words, check=True)
    assert set(json.loads(done.stdout)) == {"exact_match", "f1"}
    assert "tensorflow" not in done.stderr  # in the list of imported modules
    done = run_with_closed_output("-m", *words)
    assert (done.returncode, done.stderr) == (0, "")


UNANSWERED = {"id": "a", "answers": [], "is_impossible": True}
OF_VERSION_2 = json.dumps({"data": [{"paragraphs": [{"qas": [UNANSWERED]}]}]})


@pytest.mark.parametrize(
    "data, predictions, odds, message",
    [
        (None, "{}", None, "data.json"),
        ("{}", "{}", None, "data.json ... question"),
        (one_paragraph({"span": 5}), "{}", None, "data.json ... 'text' ... 5"),
        (ONE, '{"b": "x"}', None, "predictions_file.json ... data.json"),
        ('{"data": []}', "{}", None, "data.json ... question"),
        (one_paragraph(), "{}", None, "'answers'"),
        (ONE, "[]", None, "JSON"),
        (ONE, "id,answer\na,x\n", None, "predictions_file.json ... JSON"),
        (ONE, '{"a": "x", "b": 1}', None, "predictions_file.json ... 'b' ... 1"),
        (ONE, '{"a": [["x"]]}', None, "predictions_file.json ... 'a' ... [['x']]"),
        (ONE, "[" * 100_000, None, "predictions_file.json ... JSON"),
        *(
            (OF_VERSION_2, '{"a": ""}', odds, f"na_prob_file.json ... {message}")
            for odds, message in (
                ('{"a": NaN}', "JSON ... NaN"),
                ('{"a": 0.5, "b": -Infinity}', "JSON ... -Infinity"),
                ("{}", "predictions"),
                ('{"a": true}', "'a'"),
                ('{"a": 1' + "0" * 400 + "}", "'a'"),
                ('{"a": 1' + "0" * 5000 + "}", "JSON"),
                ('{"a": [[[1]]]}', "'a' ... [[[1]]]"),
            )
        ),
    ],
)
def test_command_on_bad_files(score, tmp_path, data, predictions, odds, message):
    path = tmp_path / "data.json"
    if data is not None:
        path.write_text(data)
    given = {"na_prob_file": odds} if odds else {}
    code, out, err = score(data_file=path, predictions_file=predictions, **given)
    assert (code, out) == (1, "")
    assert err.startswith("squad_metrics: error: ") and err.count("\n") == 1 and len(err) < 400
    assert_names(err, message)


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--na_prob_thresh=nan", "--na_prob_thresh"),
        ("--na_prob_thresh=0.5", "--na_prob_thresh ... --na_prob_file"),
        ("--na_prob_file=odds.json", "--na_prob_file ... 2"),
    ],
)
def test_command_on_flags_that_do_not_fit(score, flag, message):
    code, _, err = score(flag, **V1)
    assert code == 1
    assert_names(err, message)
