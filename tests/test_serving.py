# SPDX-License-Identifier: Apache-2.0
"""Exports of fine-tuned models: the scripts' own predictions again, from ids and from text."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from conftest import TINY_CONFIG

import run_classifier
import run_race
import run_squad
from albert_tf import checkpoints, glue, heads, predict, race, records, serving, squad_features
from albert_tf.config import AlbertConfig
from albert_tf.errors import UserError
from albert_tf.tokenization import FullTokenizer

GOLDEN = Path(__file__).parent / "golden"
GLUE = GOLDEN / "finetune" / "glue_data"
SQUAD = GOLDEN / "finetune" / "squad_data"
SPM = GOLDEN / "tokenization" / "spm_uncased.model"
WORDPIECE = GOLDEN / "tokenization" / "vocab.txt"
CLOSE = 1e-5  # between two graphs of one model, absolute
CONFIG = TINY_CONFIG | {
    "initializer_range": 0.5,  # so that random models tell texts apart
}
RUN = {
    "spm_model_file": SPM,
    "do_train": True,
    "do_predict": True,
    "max_seq_length": 40,
    "learning_rate": 0.05,
    "allow_random_init": True,
    "save_checkpoints_steps": 2,
    "seed": 1,
}
# A rate at which models still tell texts apart, by more than CLOSE.
CLASSIFIER = RUN | {
    "data_dir": GLUE,
    "train_step": 2,
    "train_batch_size": 2,
    "learning_rate": 1e-4,
}
RACE = CLASSIFIER | {"max_qa_length": 12, "warmup_step": 0, "do_eval": False, "max_seq_length": 64}
# Windows of a few pieces, so that paragraphs have several.
SQUAD_RUN = RUN | {
    "max_seq_length": 48,
    "doc_stride": 16,
    "max_query_length": 12,
    "train_batch_size": 8,
    "num_train_epochs": 0.5,
    "max_answer_length": 9,
    "n_best_size": 5,
    "save_checkpoints_steps": 1000,
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory, run_main):
    """Runs a script once with --export_dir: exported(script, **flags) -> (output_dir, export)."""
    made = {}

    def make(script, **flags):
        key = (script.__name__, *sorted(map(str, flags.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp(script.__name__)
            (folder / "config.json").write_text(json.dumps(CONFIG))
            run_main(
                script,
                **flags,
                albert_config_file=folder / "config.json",
                output_dir=folder / "out",
                export_dir=folder / "export",
            )
            made[key] = folder / "out", Path(predict.find_export(str(folder / "export")))
        return made[key]

    return make


@pytest.fixture(scope="module")
def classifier(exported):
    """Trains and exports a GLUE task: classifier(task) -> (output_dir, export)."""
    return lambda name: exported(run_classifier, **CLASSIFIER | TASKS[name] | {"task_name": name})


@pytest.fixture
def predicted(run_main, tmp_path):
    """Runs predict.py on JSON lines: predicted(export, examples, **flags) -> list of dicts."""

    def run(export, examples, **flags):
        source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_text("".join(json.dumps(example) + "\n" for example in examples))
        run_main(predict, saved_model=export, input_file=source, output_file=target, **flags)
        return [json.loads(line) for line in target.read_text().splitlines()]

    return run


def glue_texts(name):
    """Test examples of a task as inputs of its export."""
    task = glue.find_task(name)
    lines = (GLUE / task.folder / task.files["test"]).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    names = ("text", "text_pair")[: len(task.text)]
    return [
        {key: row[column] for key, column in zip(names, task.test_text, strict=True)}
        for row in rows
    ]


def written_probabilities(directory):
    return np.loadtxt(directory / "test_results.tsv", delimiter="\t", ndmin=2)


def assert_chosen(indices, probabilities):
    """The most probable class was chosen, or one that rounding may put before it."""
    rows = np.asarray(probabilities)
    chosen = rows[np.arange(len(rows)), indices]
    np.testing.assert_allclose(chosen, rows.max(axis=1), rtol=0, atol=CLOSE)


def serialized(path):
    return tf.constant([record.numpy() for record in tf.data.TFRecordDataset(str(path))])


# --- Classifiers ---


TASKS = {  # one or two texts, classes or scores, both kinds of vocabulary
    "CoLA": {"spm_model_file": "", "vocab_file": WORDPIECE},
    "RTE": {"threshold_to_export": 0.25},
    "STS-B": {},
}


@pytest.mark.parametrize("name", TASKS)
def test_a_classifier_gives_the_scripts_predictions(name, classifier, predicted):
    directory, export = classifier(name)
    expected, labels = written_probabilities(directory), glue.find_task(name).labels
    assert expected.std(axis=0).max() > 100 * CLOSE  # else the test shows little

    model = tf.saved_model.load(str(export))
    found = model.signatures["serving_default"](input=serialized(directory / "predict.tf_record"))
    np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=CLOSE)
    if labels is None:
        np.testing.assert_array_equal(found["predictions"], found["probabilities"][:, 0])
    else:
        assert found["predictions"].dtype == tf.int32
        assert_chosen(found["predictions"], expected)
        assert (export / "assets" / "labels.txt").read_text().split() == list(labels)

    lines = predicted(export, glue_texts(name), predict_batch_size=5)
    assert len(lines) == len(expected)
    for line, row in zip(lines, expected, strict=True):
        if labels is None:
            np.testing.assert_allclose(line["predictions"], row[0], rtol=0, atol=CLOSE)
        else:
            assert_chosen([labels.index(line["label"])], [row])
            found = [line["probabilities"][label] for label in labels]
            np.testing.assert_allclose(found, row, rtol=0, atol=CLOSE)


def test_an_empty_second_text_is_none(classifier, predicted):
    _, export = classifier("RTE")
    long = "a text that is far longer than what the model may read " * 5
    examples = [{"text": long, "text_pair": second} for second in ("", "  ", "another")]
    without, blank, other, absent = predicted(export, [*examples, {"text": long}])
    for line in (blank, absent):  # not the same row of the batch, so up to rounding
        assert line["probabilities"] == pytest.approx(without["probabilities"], abs=CLOSE)
    assert without["probabilities"] != pytest.approx(other["probabilities"], abs=100 * CLOSE)


def shortened(path, choices):
    """Serialized examples whose sequences are cut to the longest of their own example."""
    for record in tf.data.TFRecordDataset(str(path)):
        example = tf.train.Example.FromString(record.numpy())
        lists = {n: example.features.feature[n].int64_list for n in serving.IDS}
        used = np.reshape(lists["input_mask"].value, [choices, -1]).sum(axis=1).max()
        for values in lists.values():
            values.value[:] = np.reshape(values.value, [choices, -1])[:, :used].ravel().tolist()
        yield example.SerializeToString()


@pytest.mark.parametrize("name", ["RTE", "RACE"])
def test_examples_may_be_of_any_length(name, classifier, exported):
    directory, export = exported(run_race, **RACE) if name == "RACE" else classifier(name)
    function = tf.saved_model.load(str(export)).signatures["serving_default"]
    records_file = directory / "predict.tf_record"
    short = list(shortened(records_file, 4 if name == "RACE" else 1))
    assert len(set(map(len, short))) > 2
    expected = function(input=serialized(records_file))["probabilities"]
    found = function(input=tf.constant(short))["probabilities"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    assert function(input=tf.constant([], tf.string))["probabilities"].shape[0] == 0
    broken = tf.train.Example.FromString(short[0])
    del broken.features.feature["input_mask"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be equally long"):
        function(input=tf.constant([short[1], broken.SerializeToString()]))


def test_ids_and_threshold(classifier):
    directory, export = classifier("RTE")
    signatures = tf.saved_model.load(str(export)).signatures
    schema = records.classification_schema(CLASSIFIER["max_seq_length"], tf.int64)
    arrays = records.load_arrays(str(directory / "predict.tf_record"), schema)
    ids = {
        name: tf.constant(arrays[name], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    found = signatures["ids"](**ids)
    np.testing.assert_allclose(
        found["probabilities"], written_probabilities(directory), rtol=0, atol=CLOSE
    )
    assert found["threshold"].shape == () and found["threshold"] == 0.25
    text = signatures["text"](text=tf.constant(["a"]), text_pair=tf.constant(["b"]))
    assert text["threshold"] == 0.25


def test_embeddings_are_the_encoders(classifier, predicted):
    directory, export = classifier("CoLA")
    texts = ["they drank the pub dry .", "no"]
    model = heads.ClassificationModel(AlbertConfig.from_dict(CONFIG), 2)
    checkpoints.load_all(str(directory / "model.ckpt-2"), checkpoints.named_variables(model))
    tokenizer = FullTokenizer(vocab_file=str(WORDPIECE))
    special = tokenizer.special_ids(with_mask=False)
    for name in ("pooled_output", "sequence_output"):
        lines = predicted(export, [{"text": text} for text in texts], embeddings=name)
        for text, line in zip(texts, lines, strict=True):
            ids = tokenizer.encode_ids(tokenizer.normalize(text))
            expected = model.encoder(tf.constant([[special.cls, *ids, special.sep]]))[name][0]
            assert set(line) == {name}
            np.testing.assert_allclose(line[name], expected, rtol=0, atol=CLOSE)


def test_mixed_precision_is_left_behind(classifier, run_main, tmp_path):
    directory, export = classifier("CoLA")
    off = {"do_train": False, "do_predict": False}
    run_main(
        run_classifier,
        **CLASSIFIER | TASKS["CoLA"] | off | {"task_name": "CoLA", "dtype": "bf16"},
        albert_config_file=directory.parent / "config.json",
        output_dir=directory,
        export_dir=tmp_path,
    )
    again = predict.find_export(str(tmp_path))
    first, second = (
        tf.saved_model.load(str(path)).signatures["text"](text=tf.constant(["a", "text"]))
        for path in (export, again)
    )
    np.testing.assert_allclose(first["probabilities"], second["probabilities"], rtol=0, atol=1e-6)


# --- RACE ---


def race_texts():
    """The questions of the test set, raw, in the order of the script."""
    examples = []
    for _, path in race.input_files(str(GLUE), "test"):
        for line in filter(None, Path(path).read_text(encoding="utf-8").split("\n")):
            passage = json.loads(line)
            for question, options in zip(passage["questions"], passage["options"], strict=True):
                examples.append(
                    {"article": passage["article"], "question": question, "options": options}
                )
    return examples


def test_race_gives_the_scripts_predictions(exported, predicted):
    directory, export = exported(run_race, **RACE)
    rows = [line.split("\t") for line in (directory / "predictions.tsv").read_text().splitlines()]
    expected = np.array([row[4:] for row in rows[1:]], float)
    assert expected.std(axis=0).max() > 100 * CLOSE

    function = tf.saved_model.load(str(export)).signatures["serving_default"]
    found = function(input=serialized(directory / "predict.tf_record"))["probabilities"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)

    lines = predicted(export, race_texts(), predict_batch_size=3)
    assert_chosen([race.LETTERS.index(line["label"]) for line in lines], expected)
    found = [[line["probabilities"][letter] for letter in race.LETTERS] for line in lines]
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)


def test_blanks_take_the_option(exported, predicted, tmp_path, run_main):
    """Also several, and characters that become an underscore; an option may be empty."""
    passage = {
        "id": "high1.txt",
        "article": "The cat sat on the mat. " * 9,
        "questions": ["The _ sat on the _.", "The ＿ sat", "pre_x", "Who sat?", "__ sat"],
        "options": [["cat \u2003", " mat\n", "", "dog and a longer option than fits into it"]] * 5,
        "answers": ["A"] * 5,
    }
    folder = tmp_path / "data" / "RACE" / "test" / "high"
    folder.mkdir(parents=True)
    (folder / "all.txt").write_text(json.dumps(passage) + "\n")
    directory, export = exported(run_race, **RACE)
    out = Path(shutil.copytree(directory, tmp_path / "out"))
    config = directory.parent / "config.json"
    flags = RACE | {"do_train": False, "data_dir": tmp_path / "data", "high_only": True}
    run_main(run_race, **flags, albert_config_file=config, output_dir=out)
    rows = [line.split("\t") for line in (out / "predictions.tsv").read_text().splitlines()[1:]]
    examples = [
        {"article": passage["article"], "question": question, "options": options}
        for question, options in zip(passage["questions"], passage["options"], strict=True)
    ]
    lines = predicted(export, examples)
    found = [list(line["probabilities"].values()) for line in lines]
    np.testing.assert_allclose(
        found, np.array([row[4:] for row in rows], float), rtol=0, atol=CLOSE
    )


def test_embeddings_of_options(exported):
    _, export = exported(run_race, **RACE)
    function = tf.saved_model.load(str(export)).signatures["embeddings"]
    example = race_texts()[0]
    found = function(**{name: tf.constant([value]) for name, value in example.items()})
    rows, options, pieces, hidden = found["sequence_output"].shape
    assert (rows, options, hidden) == (1, 4, CONFIG["hidden_size"])
    assert found["pooled_output"].shape == (1, 4, hidden)
    assert found["input_mask"].shape == (1, 4, pieces)


# --- SQuAD ---

VERSIONS = {
    "1.1": {"train_file": SQUAD / "train_v1.1.json", "predict_file": SQUAD / "dev_v1.1.json"},
    "2.0": {"train_file": SQUAD / "train_v2.0.json", "predict_file": SQUAD / "dev_v2.0.json"},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_squad_gives_the_scripts_answers(version, exported, predicted):
    flags = VERSIONS[version]
    directory, export = exported(run_squad, **SQUAD_RUN, **flags)
    expected = json.loads((directory / "predictions.json").read_text())
    examples = squad_features.read_examples(str(flags["predict_file"]), training=False)
    texts = [{"question": e.question_text, "context": e.paragraph_text} for e in examples]
    lines = predicted(export, texts, predict_batch_size=7)
    assert len(lines) == len(expected) > 20
    # The script has no answer where the pieces cannot be aligned with the text; a graph always has.
    skipped = (directory / "squad_predict.tf_record.skipped.txt").read_text().split()
    for example, line in zip(examples, lines, strict=True):
        assert line["answer"] == expected[example.qas_id] or example.qas_id in skipped
        assert example.paragraph_text[line["start"] : line["end"]] == line["answer"]
    windows = tf.saved_model.load(str(export)).signatures["embeddings"](
        **{name: tf.constant([text[name] for text in texts]) for name in ("question", "context")}
    )["example"]
    assert len(windows) > 1.5 * len(texts)  # else the test shows little
    function = tf.saved_model.load(str(export)).signatures["text"]
    none = tf.constant([], tf.string)
    assert function(question=none, context=none)["answer"].shape == (0,)
    if version == "1.1":
        nbest = json.loads((directory / "nbest_predictions.json").read_text())
        aligned = [
            (e, line) for e, line in zip(examples, lines, strict=True) if e.qas_id not in skipped
        ]
        for example, line in aligned:
            best = nbest[example.qas_id][0]
            total = best["start_log_prob"] + best["end_log_prob"]
            np.testing.assert_allclose(line["score"], total, rtol=0, atol=1e-4)
        return
    odds = json.loads((directory / "null_odds.json").read_text())
    tuned = json.loads((directory / "null_score_diff_threshold.json").read_text())
    for example, line in zip(examples, lines, strict=True):
        if example.qas_id not in skipped:
            np.testing.assert_allclose(
                line["no_answer_score"], odds[example.qas_id], rtol=0, atol=CLOSE
            )
        np.testing.assert_allclose(line["threshold"], tuned["null_score_diff_threshold"], rtol=1e-6)


def test_squad_signature_of_ids(exported):
    _, export = exported(run_squad, **SQUAD_RUN, **VERSIONS["1.1"])
    function = tf.saved_model.load(str(export)).signatures["serving_default"]
    ids = tf.ones([3, 17], tf.int32)
    found = function(input_ids=ids, input_mask=ids, segment_ids=0 * ids)
    assert {name: tuple(values.shape) for name, values in found.items()} == {
        "start_log_prob": (3, 17),
        "end_log_prob": (3, 17),
    }
    assert export.parent.name == "saved_model"


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_to_read_gives_no_answer(version, exported, predicted):
    _, export = exported(run_squad, **SQUAD_RUN, **VERSIONS[version])
    texts = [
        {"question": "Who?", "context": ""},
        {"question": "", "context": "Nobody."},
        {"question": "Who? " * 99, "context": " \n"},
    ]
    empty, _, blank = predicted(export, texts)
    for line in (empty, blank):
        assert (line["answer"], line["start"], line["end"], line["score"]) == ("", 0, 0, None)
    assert predicted(export, texts, predict_batch_size=1)[0]["answer"] == ""


# --- Elsewhere ---


def test_exports_load_where_the_project_is_not(exported, tmp_path):
    race_export = exported(run_race, **RACE)[1]
    squad_exports = [exported(run_squad, **SQUAD_RUN, **VERSIONS[v])[1] for v in VERSIONS]
    code = f"""
import sys
sys.modules["albert_tf"] = None  # any import of it fails
import tensorflow as tf, tensorflow_text
def text(path, **inputs):
    function = tf.saved_model.load(path).signatures["text"]
    return function(**{{name: tf.constant([value]) for name, value in inputs.items()}})
print(text({str(race_export)!r}, article="a", question="_", options=list("wxyz"))["label"].shape)
for path in {list(map(str, squad_exports))!r}:
    print(text(path, question="Who?", context="They did.")["answer"].shape)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["(1,)"] * 3, done.stderr[-2000:]


def test_saved_model_cli_shows_the_signatures(classifier):
    _, export = classifier("RTE")
    tool = Path(sys.executable).with_name("saved_model_cli")
    done = subprocess.run(
        [tool, "show", "--dir", export, "--tag_set", "serve", "--all"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown = done.stdout
    assert set(re.findall(r"signature_def\['(\w+)'\]", shown)) == {
        "__saved_model_init_op", "serving_default", "ids", "text", "embeddings",
    }  # fmt: skip
    default = shown.split("signature_def['serving_default']")[1].split("signature_def[")[0]
    assert re.findall(r"(?:in|out)puts\['(\w+)'\]", default) == [
        "input", "predictions", "probabilities", "threshold",
    ]  # fmt: skip
    assert "shape: (-1, 2)" in default and "Method name is: tensorflow/serving/predict" in default


@pytest.mark.parametrize(
    ("script", "flags", "outputs"),
    [
        (run_classifier, CLASSIFIER | {"task_name": "STS-B"}, {"predictions", "probabilities"}),
        (run_race, RACE, {"predictions", "probabilities"}),
        (run_squad, SQUAD_RUN | VERSIONS["1.1"], {"start_logits", "end_logits"}),
    ],
)
def test_tflite(script, flags, outputs, exported, run_main, tmp_path, capsys):
    directory, _ = exported(script, **flags)
    again = {name: value for name, value in flags.items() if not name.startswith("do_")}
    off = {"do_train": False, "do_predict": False}
    if "do_eval" in flags:
        off["do_eval"] = False
    run_main(
        script, **again, **off, albert_config_file=directory.parent / "config.json",
        output_dir=directory, export_dir=tmp_path / "export", export_tflite=True,
    )  # fmt: skip
    printed = capsys.readouterr().out
    sizes, limits = {}, {"": 1e-4, "_float16": 0.02, "_int8": 0.5}
    for suffix in limits:
        path = tmp_path / "export" / f"albert_model{suffix}.tflite"
        line = next(line for line in printed.splitlines() if f"{path}," in line)
        difference = float(re.search(r"from the model (\S+)$", line)[1])
        assert difference <= limits[suffix]
        sizes[suffix] = path.stat().st_size
        runner = tf.lite.Interpreter(str(path)).get_signature_runner()
        assert set(runner.get_output_details()) == outputs
    assert sizes["_int8"] < sizes["_float16"] < sizes[""]


# --- Bad input ---


@pytest.mark.parametrize(
    ("script", "flags", "message"),
    [
        (
            run_classifier,
            {"export_tflite": True, "task_name": "RTE", "do_predict": True},
            "needs --export_dir",
        ),
        (run_classifier, {"threshold_to_export": 1, "task_name": "RTE"}, "needs --export_dir"),
        (
            run_classifier,
            {"threshold_to_export": "inf", "task_name": "RTE", "export_dir": "x"},
            "--threshold_to_export=inf is not finite",
        ),
        (
            run_squad,
            {"null_score_diff_threshold": "nan", "export_dir": "x"},
            "--null_score_diff_threshold must be a number",
        ),
        (run_squad, {"export_dir": "x", "ensemble_dirs": "a,b"}, "without --export_dir"),
    ],
)
def test_flags_that_do_not_go_together(script, flags, message, run_main, tmp_path):
    with pytest.raises(ValueError, match=message):
        run_main(script, **{"data_dir": GLUE} if script is run_classifier else {},
                 output_dir=tmp_path / "out", **flags)  # fmt: skip


def test_no_checkpoint_to_export(run_main, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(ValueError, match="holds no fine-tuned checkpoint"):
        run_main(
            run_classifier, task_name="RTE", data_dir=GLUE, spm_model_file=SPM, max_seq_length=40,
            output_dir=tmp_path / "out", albert_config_file=tmp_path / "config.json",
            export_dir=tmp_path / "export",
        )  # fmt: skip
    assert list((tmp_path / "export").iterdir()) == []


def test_padding_is_no_embedding(exported, predicted):
    """Neither that of a window of several, nor that of a shorter question of the batch."""
    _, export = exported(run_squad, **SQUAD_RUN, **VERSIONS["1.1"])
    long = {"question": "Who?", "context": "the cat sat on the mat . " * 12}
    lines = predicted(
        export, [long, {"question": "Who?", "context": "a cat"}], embeddings="sequence_output"
    )
    lengths = [len(window) for window in lines[0]["sequence_output"]]
    assert len(lengths) > 2 and set(lengths[:-1]) == {48} and lengths[-1] < 48
    (window,) = lines[1]["sequence_output"]  # a list of windows, even of one
    assert np.shape(window)[1:] == (CONFIG["hidden_size"],) and len(window) < 48


def test_variables_of_another_task(classifier, exported, run_main, tmp_path):
    """Shapes differ, or names."""
    race_export, squad_export = (
        exported(run_race, **RACE)[1],
        exported(run_squad, **SQUAD_RUN, **VERSIONS["1.1"])[1],
    )
    for number, other in enumerate((race_export, squad_export)):
        export = Path(shutil.copytree(classifier("RTE")[1], tmp_path / str(number)))
        shutil.rmtree(export / "variables")
        shutil.copytree(other / "variables", export / "variables")
        with pytest.raises(UserError, match=f"{re.escape(str(export))} cannot be loaded"):
            run_main(predict, saved_model=export, text="a")
