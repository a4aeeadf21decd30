# SPDX-License-Identifier: Apache-2.0
import collections
import json

import numpy as np
import pytest

from albert_tf import options
from albert_tf.records import schemas
from albert_tf.tasks import classification, glue, reading, split_files
from albert_tf.tasks.reading import Example
from albert_tf.text.tokenization import FullTokenizer
from albert_tf.training.splits_and_results import Split
from tests import GOLDEN, read_arrays, tiny
from tests.errors import assert_says, refuses
from tests.tasks.task_files import examples_in, row_of, task_of, write

DATA = tiny.GLUE_DATA
EXAMPLES = json.loads((GOLDEN / "finetune" / "glue_examples.json").read_text(encoding="utf-8"))
FEATURES = read_arrays(GOLDEN / "finetune" / "glue_features.npz")
METRICS = json.loads((GOLDEN / "finetune" / "classifier_metrics.json").read_text())
METRICS_INPUTS = read_arrays(GOLDEN / "finetune" / "classifier_metrics_inputs.npz")

LENGTHS = {"spm_uncased": 24, "spm_cased": 24, "wordpiece": 40}
CASES = [key for key in EXAMPLES if not key.endswith("/labels")]


def read(task, folder, split, tokenizer):
    return reading.read_examples(glue.TASKS[task], str(folder), split, tokenizer)


def features(examples, row, tokenizer, max_seq_length):
    return task_of(row, tokenizer, max_seq_length).features(examples)


def metrics(name, outputs, labels):
    """Metrics over examples."""
    split = Split({"label_ids": labels}, None)
    found = task_of(glue.TASKS[name]).metrics(split, {"logits": outputs}, batch_size=8)
    assert found.pop("loss") > 0
    return found


# --- The table ---


def test_the_table():
    assert (*glue.TASKS,) == options.GLUE_TASKS
    assert len(CASES) == 8 * 3 * 3  # all tasks but mrpc, qnli and ax
    for name in ("cola", "mnli", "mismnli", "sst-2", "sts-b", "qqp", "rte", "wnli"):
        golden = EXAMPLES[f"{name}/labels"]
        assert list(glue.TASKS[name].labels or [None]) == golden
        assert glue.TASKS[name].num_outputs == len(golden)
    key_metrics = {"cola": "matthew_corr", "sts-b": "pearson"}
    for name, row in glue.TASKS.items():
        assert task_of(row).key_metric == key_metrics.get(name, "eval_accuracy")
        assert {*row.metrics} <= {*classification.METRICS}
        assert all(glue.TASKS[other].labels == row.labels for _, other in row.companions)
    assert {name: task.submission_file for name, task in glue.TASKS.items()} == {
        "cola": "CoLA.tsv", "mnli": "MNLI-m.tsv", "mismnli": "MNLI-mm.tsv", "mrpc": "MRPC.tsv",
        "sst-2": "SST-2.tsv", "sts-b": "STS-B.tsv", "qqp": "QQP.tsv", "qnli": "QNLI.tsv",
        "rte": "RTE.tsv", "wnli": "WNLI.tsv", "ax": "AX.tsv",
    }  # fmt: skip
    companions = {o: name for name, row in glue.TASKS.items() for _, o in row.companions}
    assert companions == options.MODEL_TASKS


# --- The original's examples, features and records ---


@pytest.mark.parametrize("case", CASES)
def test_examples_and_features(case, tokenizers):
    name, mode, split = case.split("/")
    task, tokenizer = glue.TASKS[name], tokenizers[mode]
    examples, counts = read(name, DATA, split, tokenizer)
    assert [example._asdict() for example in examples] == EXAMPLES[case]
    assert counts["left_out"] == (name == "qqp" and split != "test")

    arrays = features(examples, task, tokenizer, LENGTHS[mode])
    for feature, values in arrays.items():
        golden = FEATURES[f"{case}/{feature}"]
        # The last row of the original's fills a batch up and is no real example.
        assert len(golden) == len(examples) + 1
        np.testing.assert_array_equal(values, golden[:-1], err_msg=feature)


@pytest.mark.parametrize("name", ["cola", "mnli", "sts-b"])
def test_records(name, tokenizer, tmp_path):
    task = glue.TASKS[name]
    examples, _ = read(name, DATA, "train", tokenizer)
    path, arrays = str(tmp_path / "train.tf_record"), features(examples, task, tokenizer, 24)
    written = schemas.write_records(path, task_of(task, tokenizer, 24).schema, [arrays])
    assert written == len(examples)
    golden = GOLDEN / "finetune" / f"glue_{name}_train.tfrecord"
    assert examples_in(path) == examples_in(golden)


# Written by hand after the table of the specification, as the golden figures are held back.


PAID = "she paid £2,000, in cash, for the “blue boar” inn.", "nobody paid anything."
CLERK = "the old clerk closed the ledger and went home.", "a clerk went home."


@pytest.mark.parametrize(
    ("name", "split", "count", "number", "example", "labels"),
    [
        ("mrpc", "train", None, 1, ("train-2", *PAID, "1"), None),
        ("mrpc", "dev", None, 0, ("dev-1", "a clerk went home."), None),
        ("mrpc", "test", 5, 4, ("4",), {"0"}),  # the label stands in
        ("qnli", "train", None, 0, ("0", *CLERK, "entailment"), None),
        ("qnli", "test", 5, 0, ("0",), {"entailment"}),
        ("ax", "test", 8, 0, ("0", *CLERK, "contradiction"), None),
    ],
)
def test_tasks_without_golden_examples(name, split, count, number, example, labels, tokenizer):
    found, _ = read(name, DATA, split, tokenizer)
    assert found[number][: len(example)] == example and count in (None, len(found))
    assert labels is None or {row.label for row in found} == labels
    if (name, split) == ("qnli", "train"):
        assert [row.label for row in found[1:3]] == ["not_entailment"] * 2


# --- Bad input ---


def test_find_task():
    assert glue.find_task("MisMNLI") is glue.TASKS["mismnli"]
    messages = {"mnly": "--task_name=mnly", "SST2": "sst-2", "something": "something ... tsv"}
    for name, message in messages.items():
        with refuses(message):
            glue.find_task(name)


def test_missing_file(tokenizer, tmp_path):
    with refuses("diagnostic ... train ... --task_name"):
        read("ax", DATA, "train", tokenizer)
    with refuses("RTE/dev.tsv ... --do_eval ... --data_dir"):
        read("rte", tmp_path, "dev", tokenizer)
    path = write(tmp_path, "RTE/dev.tsv", "header")
    with refuses("--data_dir= ... dev.tsv"):
        read("rte", path, "dev", tokenizer)
    with refuses("--data_dir="):
        read("rte", tmp_path / "nowhere", "dev", tokenizer)
    (tmp_path / "RTE/train.tsv").mkdir()
    with refuses("RTE/train.tsv"):
        read("rte", tmp_path, "train", tokenizer)


SCORE, GOOD = "0\tg\tf\ty\to\ts\ts\ta\tb\t", "0\ta\tb\tentailment"
BAD_FILES = {  # what is wrong -> file of a task, its lines, message
    "empty": ("RTE/dev", [], ""),
    "no example": ("RTE/dev", ["header", ""], ""),
    # With three columns, the last would be taken for both the second text and the label.
    "short row": ("RTE/dev", ["header", GOOD, "1\ta\tentailment"], "line 3 ... 3 ... 4"),
    "short row of a test file": ("QQP/test", ["header", "0\ta"], "line 2 ... 2 ... 3"),
    "unknown label": ("RTE/train", ["header", GOOD, "1\ta\tb\tneutral"],
                      "line 3 ... 'neutral' ... entailment, not_entailment"),
    "not UTF-8": ("RTE/dev", ["header", GOOD, "1\tcaf\udce9\tb\tentailment"], "line 3 ... UTF-8"),
    # As files of the Hugging Face hub are: some names are those of GLUE, and the last is the index.
    "other names": ("STS-B/train", ["sentence1\tsentence2\tlabel\tidx", "a\tb\t4.8\t0"],
                    "'score' ... sentence1, sentence2, label, idx"),
    "other names, short": ("QQP/train", ["question1\tquestion2\tlabel\tidx", "a\tb\t1\t0"],
                           "'is_duplicate'"),
    "only short rows": ("QQP/train", ["header", "0\t1\t2\ta"], "6"),
    "long label": ("RTE/train", ["header", "0\ta\tb\t" + "maybe " * 100_000], "line 2 ... 'maybe"),
} | {
    f"score {label!r}": ("STS-B/dev", ["header", f"{SCORE}2.5", SCORE + label],
                         f"line 3 ... '{label}'")
    for label in ("high", "nan", "inf", "1e39", "")  # 1e39 is infinite in float32
}  # fmt: skip


@pytest.mark.parametrize(("file", "lines", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_named(file, lines, message, tokenizer, tmp_path):
    content = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
    write(tmp_path, f"{file}.tsv", content)
    folder, split = file.split("/")
    with refuses(f"{file}.tsv ... {message}") as error:
        read(folder.lower(), tmp_path, split, tokenizer)
    assert "--labels" not in str(error.value)  # which GLUE does not take
    assert len(str(error.value)) < 1000


def test_short_rows_of_qqp_count(tokenizer, tmp_path):
    good, short = "0\t1\t2\ta\tb\t1", "0\t1\t2\ta\tb"
    write(tmp_path, "QQP/dev.tsv", "header", short, good, short)
    examples, counts = read("qqp", tmp_path, "dev", tokenizer)
    assert (examples, counts["left_out"]) == ([Example("0", "a", "b", "1")], 2)


def test_a_copy_of_a_development_set_has_no_ids(tokenizer, tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    write(tmp_path, "MRPC/test.tsv", header, "1\t7\t8\ta\tb", "1\t7\t8\ta\tb")
    examples, _ = read("mrpc", tmp_path, "test", tokenizer)
    assert [example.guid for example in examples] == ["0", "1"]


def test_blank_lines_count_and_texts_have_any_character_and_length(tokenizer, tmp_path):
    odd = f"0\tnul \0 bell \a no-break\xa0\t{'long ' * 200_000}\tentailment"
    write(tmp_path, "RTE/dev.tsv", "header", "", odd, "")
    examples, counts = read("rte", tmp_path, "dev", tokenizer)
    assert (len(examples), counts["left_out"]) == (1, 2)
    arrays = features(examples, glue.TASKS["rte"], tokenizer, 64)
    assert arrays["input_mask"].sum() == 64


ROW_WITHOUT_HEADER = {  # (task, split) -> an example where the header belongs
    ("rte", "dev"): "0\ta\tb\tentailment",
    ("mnli", "train"): "0\t1\t2\t3\t4\t5\t6\t7\ta\tb\tx\tneutral",
    ("sts-b", "dev"): "0\tg\tf\ty\t4\ts\ts\ta\tb\t2.5",
    ("cola", "test"): "0\ta",
}


@pytest.mark.parametrize(("name", "split"), ROW_WITHOUT_HEADER)
def test_file_without_its_header(name, split, tokenizer, tmp_path):
    task, row = glue.TASKS[name], ROW_WITHOUT_HEADER[name, split]
    (file,) = task.files[split]
    write(tmp_path, f"{task.folder}/{file}", row, row)
    with refuses(f"{file}, line 1"):
        read(name, tmp_path, split, tokenizer)
    write(tmp_path, f"{task.folder}/{file}", "anything else", row)
    assert len(read(name, tmp_path, split, tokenizer)[0]) == 1


# --- Metrics ---


def outputs_of(case):
    """Logits and labels of the real examples of a golden case."""
    real = METRICS_INPUTS[f"{case}/is_real_example"] == 1
    return METRICS_INPUTS[f"{case}/logits"][real], METRICS_INPUTS[f"{case}/label_ids"][real]


@pytest.mark.parametrize("case", ["cola", "sst-2", "mnli", "sts-b", "cola_allpos"])
def test_metrics(case):
    name = case.removesuffix("_allpos")
    results = metrics(name, *outputs_of(case))
    golden = {name: value for name, value in METRICS[case].items() if name[0] != "_"}
    assert {name: results[name] for name in golden} == pytest.approx(golden, rel=1e-6, abs=1e-7)
    assert glue.TASKS[name].metrics[0] in golden
    assert set(results) - set(golden) == ({"spearman"} if case == "sts-b" else set())
    references = {"matthew_corr": "_reference_sklearn_mcc", "pearson": "_reference_scipy_pearson"}
    for metric in references.keys() & golden:
        assert results[metric] == pytest.approx(METRICS[case][references[metric]], abs=1e-7)


def test_metrics_that_the_original_lacks():
    for name in ("mrpc", "qqp"):
        results = metrics(name, *outputs_of("sst-2"))
        assert results["f1"] == pytest.approx(METRICS["sst-2"]["_reference_sklearn_f1"], abs=1e-12)
        assert set(results) == {"eval_accuracy", "eval_loss", "f1"}
    scores, labels = outputs_of("sts-b")
    results = metrics("sts-b", scores[:, np.newaxis], labels[:, np.newaxis])
    expected = METRICS["sts-b"]["_reference_scipy_spearman"]
    assert results["spearman"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("scores", "labels", "error"),
    [([2.0, 2.0, 2.0], [1.0, 2.0, 3.0], 2 / 3), ([[1.0]], [3.0], 4.0)],
    ids=["constant", "one example"],
)
def test_scores_without_a_correlation(scores, labels, error):
    results = metrics("sts-b", np.float32(scores), np.float32(labels))
    assert np.isnan(results["pearson"]) and np.isnan(results["spearman"])
    assert results["MSE"] == pytest.approx(error)


# --- Predictions ---


def files_of(row, names, answers):
    """Contents of test_results.tsv, submit_results.tsv and the GLUE server's file."""
    data = classification.GlueData(task_of(row), "", "out", "", row=row, submission_dir="glue")
    examples = [Example(name, "text", None, "0") for name in names]
    texts = data.prediction_files(examples, answers)
    assert list(texts) == [
        "out/test_results.tsv", "out/submit_results.tsv",
        *(["out/test_results.labels.txt"] if row.labels else []), f"glue/{row.submission_file}",
    ]  # fmt: skip
    labels = texts.pop("out/test_results.labels.txt", "")
    assert labels.split() == list(row.labels or ())
    return list(texts.values())


def answers_of(labels, probabilities):
    """Answers with exactly these probabilities."""
    named = [dict(zip(labels, row.tolist(), strict=True)) for row in probabilities]
    return [{"label": max(row, key=row.get), "probabilities": row} for row in named]


def test_prediction_files_of_classes():
    task = glue.TASKS["mnli"]
    logits = np.log([[0.25, 0.5, 0.25], [0.125, 0.125, 0.75]])
    probabilities = task_of(task).probabilities(logits)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities, [[0.25, 0.5, 0.25], [0.125, 0.125, 0.75]], rtol=1e-6)
    (first, _) = task_of(task).answers(None, {"logits": logits})
    wanted = dict(zip(task.labels, probabilities[0].tolist(), strict=True))
    assert first == {"label": "entailment", "probabilities": wanted}
    exact = np.float32([[0.25, 0.5, 0.25], [0.125, 0.1, 0.775]])
    assert files_of(task, ["7", "08"], answers_of(task.labels, exact)) == [
        "0.25\t0.5\t0.25\n0.125\t0.1\t0.775\n",
        "index\tprediction\n7\tentailment\n08\tneutral\n",
        "index\tprediction\n7\tentailment\n8\tneutral\n",
    ]


def test_the_label_is_that_of_the_metrics_where_probabilities_are_equal():
    logits = np.float32([[0.0, 1e-9], [1e-9, 0.0]])
    answers = task_of(glue.TASKS["cola"]).answers(None, {"logits": logits})
    wanted = [{"label": label, "probabilities": {"0": 0.5, "1": 0.5}} for label in "10"]
    assert answers == wanted
    assert metrics("cola", logits, np.array([1, 0]))["eval_accuracy"] == 1.0


def test_labels_of_csv_files_stay_in_their_cells():
    probabilities = np.float32([[0.75, 0.25], [0.25, 0.75]])
    answers = answers_of(("one\ttab", "two\nlines"), probabilities)
    submit = files_of(glue.TASKS["rte"], ["0", "1"], answers)[1]
    assert submit == "index\tprediction\n0\tone tab\n1\ttwo lines\n"


def test_prediction_files_of_scores():
    task = glue.TASKS["sts-b"]
    scores = np.float32([5.1, 3.14159, -0.25])
    for logits in (scores, scores[:, np.newaxis]):
        answers = task_of(task).answers(None, {"logits": logits})
        assert files_of(task, ["0", "1", "2"], answers) == [
            "5.1\n3.14159\n-0.25\n",
            "index\tprediction\n0\t5.1\n1\t3.14159\n2\t-0.25\n",
            "index\tprediction\n0\t5.000\n1\t3.142\n2\t0.000\n",
        ]


def test_no_submission():
    answers = [{"label": "0", "probabilities": {"0": 1.0}}]
    with refuses("'x'"):
        files_of(glue.TASKS["cola"], ["x"], answers)


@pytest.mark.parametrize(
    ("name", "labels", "is_sorted"),
    [
        ("rte", ["not_entailment"] * 3 + ["entailment"] * 3, True),
        ("rte", ["entailment", "not_entailment"] * 3, False),
        ("rte", ["entailment"] * 6, False),
        ("sts-b", [5.0, 4.0, 4.0, 1.0, 0.5, 0.0], True),
        ("sts-b", [5.0, 4.0, 4.5, 1.0, 0.5, 0.0], False),
    ],
)
def test_examples_that_are_sorted_are_counted(name, labels, is_sorted):
    examples = [Example(str(i), "a", "b", label) for i, label in enumerate(labels)]
    count = classification.num_sorted(task_of(glue.TASKS[name]), examples)
    assert count == (6 if is_sorted else 0)


@pytest.mark.parametrize("count", [7, 8])
def test_sorted_examples_that_exceed_the_window_of_shuffling_are_a_warning(count, capsys):
    row = row_of("t", "x", ["0", "1"])
    data = classification.GlueData(task_of(row), "", "", "", row=row, shuffle_buffer_size=7)
    data._say("train", collections.Counter(sorted_by_label=count, left_out=3, without_text=2))
    said = capsys.readouterr().out
    assert_says(said, "train: ... 3", "train: ... 2")
    assert ("Warning" in said) == (count == 8)


def test_metrics_of_another_label_column_or_of_corrected_labels_are_others(tmp_path):
    def evaluated_on(column, label="0"):
        (tmp_path / "dev.tsv").write_text(f"t\tx\ty\na\t{label}\t0\n")
        row = row_of("t", column, ["0", "1"])
        data = classification.GlueData(task_of(row), str(tmp_path), "", "", row=row)
        return data.evaluated_on()

    assert evaluated_on("x") == evaluated_on("x")
    assert evaluated_on("x") not in (evaluated_on("y"), evaluated_on("x", "1"))


# --- The real data ---

# rows of train, dev and test as the GLUE benchmark gives them
ROWS = {"cola": (8551, 1043, 1063), "sst-2": (67349, 872, 1821), "mrpc": (3668, 408, 1725)}
ROWS |= {"rte": (2490, 277, 3000), "sts-b": (5749, 1500, 1379)}


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n == "sst-2")) for n in ROWS]
)
def test_real_data(name, shared_data):
    tokenizer = FullTokenizer(spm_model_file=str(shared_data / "spm" / "30k-clean.model"))
    task = glue.TASKS[name]
    for split, rows in zip(split_files.SPLITS, ROWS[name], strict=True):
        examples, counts = read(name, shared_data / "glue", split, tokenizer)
        assert (len(examples), counts["left_out"]) == (rows, 0)
        arrays = features(examples[:200], task, tokenizer, 64)
        assert arrays["input_mask"].sum(axis=1).min() >= 3
        unknown = (arrays["input_ids"] == 1).sum() / arrays["input_mask"].sum()
        assert unknown < 0.01
