# SPDX-License-Identifier: Apache-2.0
"""Exports of fine-tuned models: the scripts' own predictions again, from ids and from text."""

import functools
import json
import re
import shutil
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import run_classifier
import run_race
import run_squad
from albert_tf import files
from albert_tf.checkpoints import loading, name_table, readers
from albert_tf.cli import predict
from albert_tf.config import AlbertConfig
from albert_tf.model import heads
from albert_tf.publish import graph_inputs, signatures, tflite_files
from albert_tf.records import input_pipeline, schemas
from albert_tf.tasks import glue, race
from albert_tf.tasks.squad import features as squad_features
from albert_tf.tasks.squad import questions as squad_questions
from albert_tf.text.tokenization import FullTokenizer
from tests import tiny
from tests.docs import markdown
from tests.errors import refuses
from tests.processes import lines_of_code

pytestmark = pytest.mark.long  # each export takes a training

GLUE, SQUAD, SPM, WORDPIECE = tiny.GLUE_DATA, tiny.SQUAD_DATA, tiny.VOCABULARY, tiny.WORDPIECE
CLOSE = 1e-5  # between two graphs of one model, absolute: probabilities and scores
CLOSE_ENCODED = 1e-4  # the same of the encoder's outputs, which are larger
assert_close = functools.partial(np.testing.assert_allclose, rtol=0, atol=CLOSE)
CONFIG = tiny.CONFIG | {"initializer_range": 0.5}  # so that random models tell texts apart
RUN = tiny.COMMON | {"max_seq_length": 40, "learning_rate": 0.05, "save_checkpoints_steps": 2}
# A rate at which models still tell texts apart, by more than CLOSE.
CLASSIFIER = RUN | tiny.TWO_STEPS | {"learning_rate": 1e-4}
RACE = CLASSIFIER | {"max_qa_length": 12, "max_seq_length": 64, "warmup_step": 0}
RACE |= {"do_eval": False, "export_tflite": True}
SQUAD_RUN = RUN | tiny.WINDOWS | {
    "train_batch_size": 8,
    "num_train_epochs": 0.5,
    "max_answer_length": 9,
    "n_best_size": 5,
    "save_checkpoints_steps": 1000,
    "export_tflite": True,
}  # fmt: skip
TASKS = {  # one or two texts, classes or scores, both kinds of vocabulary
    "CoLA": {"spm_model_file": "", "vocab_file": WORDPIECE},
    "RTE": {"threshold_to_export": 0.25},
    "STS-B": {"export_tflite": True},
}
RUNS = {  # name -> script, flags
    **{
        name: (run_classifier, CLASSIFIER | flags | {"task_name": name})
        for name, flags in TASKS.items()
    },
    "RACE": (run_race, RACE),
    **{name: (run_squad, SQUAD_RUN | flags) for name, flags in tiny.SQUAD_FILES.items()},
}


@pytest.fixture(scope="module")
def exported(run_once):
    """Trains and exports one of RUNS, once: exported(name) -> (output_dir, export)."""

    def make(name):
        script, flags = RUNS[name]
        folder = run_once(script, CONFIG, export=True, **flags)
        return folder / "out", Path(predict.find_export(str(folder / "export")))

    return make


@pytest.fixture
def export_again(run_main, tmp_path):
    """Exports a trained GLUE task once more: export_again(task, output_dir, **flags) -> export."""

    def run(name, directory, **flags):
        flags = {"albert_config_file": directory.parent / "config.json"} | flags
        flags |= {"task_name": name, "data_dir": GLUE, "output_dir": directory}
        run_main(run_classifier, **flags, export_dir=tmp_path / "export")
        return Path(predict.find_export(str(tmp_path / "export")))

    return run


@pytest.fixture(scope="module")
def signatures_of():
    """Loads each export once: signatures_of(export) -> dict of functions."""
    load = functools.cache(lambda path: tf.saved_model.load(str(path)))
    return lambda export: load(export).signatures


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
    lines = (GLUE / task.folder / task.files["test"][0]).read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    names = ("text", "text_pair")[: len(task.text)]
    return [
        {key: row[column] for key, column in zip(names, task.text_of("test"), strict=True)}
        for row in rows
    ]


def written_probabilities(directory):
    if (directory / "predictions.tsv").exists():  # of RACE
        return np.array([row[4:] for row in tiny.table(directory / "predictions.tsv")[1:]], float)
    return np.array(tiny.table(directory / "test_results.tsv"), float)


def assert_best(indices, probabilities):
    """Each index is that of the highest; two that are equal but for rounding may change places."""
    chosen = np.take_along_axis(np.asarray(probabilities), np.array(indices)[:, np.newaxis], 1)
    assert_close(chosen[:, 0], np.max(probabilities, axis=1))


def serialized(path):
    return tf.constant([record.numpy() for record in tf.data.TFRecordDataset(str(path))])


# --- Classifiers ---


@pytest.mark.parametrize("name", [*TASKS, "RACE"])
def test_a_classifier_gives_the_scripts_predictions(name, exported, predicted, signatures_of):
    directory, export = exported(name)
    expected, is_race = written_probabilities(directory), name == "RACE"
    labels = race.labels_of(race.NUM_OPTIONS) if is_race else glue.find_task(name).labels
    assert expected.std(axis=0).max() > 100 * CLOSE  # else the test shows little

    functions = signatures_of(export)
    assert {*functions} == {"serving_default", "ids", "text", "embeddings"}
    found = functions["serving_default"](input=serialized(directory / "predict.tf_record"))
    assert_close(found["probabilities"], expected)
    if labels is None:
        np.testing.assert_array_equal(found["predictions"], found["probabilities"][:, 0])
    else:
        assert found["predictions"].dtype == tf.int32
        assert_best(found["predictions"], expected)
        assert (export / "assets" / "labels.txt").read_text().split() == list(labels)

    texts = race_texts() if is_race else glue_texts(name)
    lines = predicted(export, texts, predict_batch_size=5)
    assert len(lines) == len(expected)
    for line, row in zip(lines, expected, strict=True):
        if labels is None:
            assert_close(line["predictions"], row[0])
        else:
            assert_best([labels.index(line["label"])], [row])
            found = [line["probabilities"][label] for label in labels]
            assert_close(found, row)


def test_an_empty_second_text_is_none(exported, predicted):
    _, export = exported("RTE")
    long = "a text that is far longer than what the model may read " * 5
    examples = [{"text": long, "text_pair": second} for second in ("", "  ", "another")]
    without, blank, other, absent = (
        line["sequence_output"]
        for line in predicted(export, [*examples, {"text": long}], embeddings="sequence_output")
    )
    for same in (blank, absent):
        assert_close(same, without)
    assert np.abs(np.subtract(other, without)).max() > 0.1


def shortened(path, choices):
    """Serialized examples whose sequences are cut to the longest of their own example."""
    for record in tf.data.TFRecordDataset(str(path)):
        example = tf.train.Example.FromString(record.numpy())
        lists = {n: example.features.feature[n].int64_list for n in graph_inputs.FEATURES}
        used = np.reshape(lists["input_mask"].value, [choices, -1]).sum(axis=1).max()
        for values in lists.values():
            values.value[:] = np.reshape(values.value, [choices, -1])[:, :used].ravel().tolist()
        yield example.SerializeToString()


@pytest.mark.parametrize("name", ["RTE", "RACE"])
def test_examples_may_be_of_any_length(name, exported, signatures_of):
    directory, export = exported(name)
    function = signatures_of(export)["serving_default"]
    records_file = directory / "predict.tf_record"
    short = list(shortened(records_file, 4 if name == "RACE" else 1))
    assert len(set(map(len, short))) > 2
    expected = function(input=serialized(records_file))["probabilities"]
    found = function(input=tf.constant(short))["probabilities"]
    assert_close(found, expected)
    assert function(input=tf.constant([], tf.string))["probabilities"].shape[0] == 0
    broken = tf.train.Example.FromString(short[0])
    del broken.features.feature["input_mask"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be equally long"):
        function(input=tf.constant([short[1], broken.SerializeToString()]))


def test_ids_and_threshold(exported, signatures_of):
    directory, export = exported("RTE")
    schema = schemas.classification_schema(CLASSIFIER["max_seq_length"], tf.int64)
    arrays = input_pipeline.load_arrays(str(directory / "predict.tf_record"), schema)
    ids = {name: tf.constant(arrays[name], tf.int32) for name in graph_inputs.FEATURES}
    found = signatures_of(export)["ids"](**ids)
    assert found.keys() == {"predictions", "probabilities", "threshold"}
    assert_close(found["probabilities"], written_probabilities(directory))
    np.testing.assert_array_equal(found["threshold"], [0.25] * len(arrays["input_ids"]))


def test_embeddings_are_the_encoders(exported, predicted):
    directory, export = exported("CoLA")
    texts = ["they drank the pub dry .", "no"]
    model = heads.ClassificationModel(AlbertConfig.from_dict(CONFIG), 2)
    loading.load_all(str(directory / "model.ckpt-2"), name_table.named_variables(model))
    tokenizer = FullTokenizer(vocab_file=str(WORDPIECE))
    special = tokenizer.special_ids(with_mask=False)
    for name in ("pooled_output", "sequence_output"):
        lines = predicted(export, [{"text": text} for text in texts], embeddings=name)
        for text, line in zip(texts, lines, strict=True):
            ids = tokenizer.encode_ids(text)
            expected = model.encoder(tf.constant([[special.cls, *ids, special.sep]]))[name][0]
            assert set(line) == {name}
            assert_close(line[name], expected, atol=CLOSE_ENCODED)


def test_exports_follow_the_training(exported, export_again, signatures_of):
    """Length and vocabulary are those of the training, its precision is not."""
    directory, export = exported("CoLA")
    again = export_again("CoLA", directory, dtype="bf16")
    texts = tf.constant(["a", "one word after the other " * 20])  # one is cut
    first, second = (signatures_of(path)["text"](text=texts) for path in (export, again))
    assert_close(first["probabilities"], second["probabilities"])
    vocabulary = again / "assets" / WORDPIECE.name
    assert vocabulary.read_bytes() == WORDPIECE.read_bytes()


def test_exports_keep_the_accents_of_a_run(exported, export_again, tmp_path, signatures_of):
    directory, _ = exported("CoLA")
    trained = shutil.copytree(directory, tmp_path / "trained")
    config = directory.parent / "config.json"
    record = json.loads((trained / "run.json").read_text())
    record["text"]["strip_accents"] = False
    (trained / "run.json").write_text(json.dumps(record))
    export = export_again("CoLA", trained, albert_config_file=config)
    texts = tf.constant(["the end", "thé end"])  # an unknown word
    plain, marked = signatures_of(export)["text"](text=texts)["probabilities"].numpy()
    assert abs(plain - marked).max() > CLOSE


def test_the_record_of_a_run(exported):
    directory, _ = exported("CoLA")
    record = json.loads((directory / "run.json").read_text())
    assert record["text"] == {"do_lower_case": True, "strip_accents": True, "max_seq_length": 40}
    assert record["vocabulary"] == {
        "flag": "vocab_file",
        "path": str(WORDPIECE),
        "sha256": files.sha256(str(WORDPIECE)),
    }
    assert record["config"] == AlbertConfig.from_dict(CONFIG).to_dict()
    assert record["versions"]["tensorflow"] == tf.__version__
    weights = readers.TensorFlowReader(str(directory / "model.ckpt-2")).shapes
    sizes = [np.prod(shape, dtype=int) for n, shape in weights.items() if name_table.is_weight(n)]
    assert record["parameter_count"] == sum(sizes)
    assert len(record["devices"]) == 1
    train = GLUE / "CoLA" / "train.tsv"
    assert record["input_files"] == {str(train): train.stat().st_size}


def test_an_export_for_ids_alone(exported, export_again, tmp_path, signatures_of, monkeypatch):
    """Is written and loads where tensorflow-text is not."""
    directory, export = exported("RTE")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "tensorflow_text", None)
        path = str(export_again("RTE", directory, export_text=False))
    code = f"""
import sys
sys.modules["tensorflow_text"] = None  # any import of it fails
import tensorflow as tf
signatures = tf.saved_model.load({path!r}).signatures
print(*signatures)
ids = tf.constant([[2, 5, 6, 3]])
found = signatures["ids"](input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=0 * ids)
print(*found["probabilities"].numpy()[0])
"""
    names, probabilities = lines_of_code(code, tmp_path)[-2:]
    assert set(names.split()) == {"serving_default", "ids"}
    ids = tf.constant([[2, 5, 6, 3]])
    found = signatures_of(export)["ids"](
        input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=0 * ids
    )
    assert_close(np.array(probabilities.split(), float), found["probabilities"][0])


# --- RACE ---


def race_texts(data_dir=GLUE):
    """The questions of the test set, raw, in the order of the script."""
    examples = []
    for _, path in race.input_files(str(data_dir), "test"):
        for line in filter(None, Path(path).read_text(encoding="utf-8").split("\n")):
            passage = json.loads(line)
            for question, options in zip(passage["questions"], passage["options"], strict=True):
                examples.append(
                    {"article": passage["article"], "question": question, "options": options}
                )
    return examples


def test_blanks_take_the_option(exported, predicted, tmp_path, run_main):
    """Also several, and characters that become an underscore or a letter; options may be empty."""
    passage = {
        "id": "high1.txt",
        "article": "The cat sat on the mat. " * 9,
        "questions": [
            "The _ sat on _ _.",
            "The ＿_ sat",
            "pre_x a_{1}",
            "Who sat?",
            "__ sat on_",
            "The _écoute _ sat",
            "It ___über __İt _１２ _½ _µ",
        ],
        "options": [["cat \u2003", " mat\n", "", "dog and a longer option than fits into it"]] * 7,
        "answers": ["A"] * 7,
    }
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.jsonl").write_text(json.dumps(passage) + "\n")
    directory, export = exported("RACE")
    out = Path(shutil.copytree(directory, tmp_path / "out"))
    config = directory.parent / "config.json"
    flags = RACE | {"do_train": False, "data_dir": tmp_path / "data"}
    del flags["export_tflite"]
    run_main(run_race, **flags, albert_config_file=config, output_dir=out)
    lines = predicted(export, race_texts(tmp_path / "data"))
    found = [list(line["probabilities"].values()) for line in lines]
    assert_close(found, written_probabilities(out))


# --- SQuAD ---


def without_marks(text):
    """A text without combining marks; the graph leaves them at a letter, the script cuts them."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def kept_answers(directory):
    """The script's answers; in version 2 those of the threshold that it keeps for later use."""
    answers = json.loads((directory / "predictions.json").read_text())
    if not (directory / "null_odds.json").exists():
        return answers
    kept = json.loads((directory / "null_score_diff_threshold.json").read_text())
    nbest = json.loads((directory / "nbest_predictions.json").read_text())
    odds = json.loads((directory / "null_odds.json").read_text())
    return {
        qas_id: nbest[qas_id][0]["text"] if odds[qas_id] < kept["null_score_diff_threshold"] else ""
        for qas_id in answers
    }


@pytest.mark.parametrize("version", tiny.SQUAD_FILES)
def test_squad_gives_the_scripts_answers(version, exported, predicted, signatures_of):
    directory, export = exported(version)
    expected = kept_answers(directory)
    examples = squad_questions.read_examples(str(tiny.SQUAD_FILES[version]["predict_file"]), False)
    texts = [{"question": e.question_text, "context": e.paragraph_text} for e in examples]
    lines = predicted(export, texts, predict_batch_size=7)
    assert len(lines) == len(expected) > 20
    # Where the tokens cannot be aligned with the text, the script has a stand-in for an answer.
    (listing,) = directory.glob("squad_predict.tf_record.skipped.txt")
    skipped = listing.read_text().split()
    nbest = json.loads((directory / "nbest_predictions.json").read_text())
    for example, line in zip(examples, lines, strict=True):
        if example.qas_id in skipped:
            assert line["answer"] == "" and line.get("no_answer_score", 1e6) == 1e6
        elif line["answer"] != expected[example.qas_id]:
            # Two graphs may round differently: another answer is as good as the script's.
            totals = {
                without_marks(e["text"]): e["start_log_prob"] + e["end_log_prob"]
                for e in nbest[example.qas_id]
            }
            answers = without_marks(line["answer"]), without_marks(expected[example.qas_id])
            assert all(answers)
            assert abs(totals[answers[0]] - totals[answers[1]]) < 1e-4
        assert example.paragraph_text[line["start"] : line["end"]] == line["answer"]
    none = tf.constant([], tf.string)
    assert signatures_of(export)["text"](question=none, context=none)["answer"].shape == (0,)
    if version == "1.1":
        aligned = [
            (e, line) for e, line in zip(examples, lines, strict=True) if e.qas_id not in skipped
        ]
        for example, line in aligned:
            best = nbest[example.qas_id][0]
            total = best["start_log_prob"] + best["end_log_prob"]
            assert_close(line["score"], total, atol=1e-4)
        return
    odds = json.loads((directory / "null_odds.json").read_text())
    tuned = json.loads((directory / "null_score_diff_threshold.json").read_text())
    for example, line in zip(examples, lines, strict=True):
        if example.qas_id not in skipped:
            assert_close(line["no_answer_score"], odds[example.qas_id])
        np.testing.assert_allclose(line["threshold"], tuned["null_score_diff_threshold"], rtol=1e-6)


def test_squad_signature_of_ids(exported, signatures_of):
    _, export = exported("1.1")
    function = signatures_of(export)["serving_default"]
    ids = tf.ones([3, 17], tf.int32)
    found = function(input_ids=ids, input_mask=ids, segment_ids=0 * ids)
    assert {name: tuple(values.shape) for name, values in found.items()} == {
        "start_log_prob": (3, 17),
        "end_log_prob": (3, 17),
    }
    assert export.parent.name == "saved_model"


@pytest.mark.parametrize("version", tiny.SQUAD_FILES)
def test_nothing_to_read_gives_no_answer(version, exported, signatures_of):
    _, export = exported(version)
    questions, contexts = ["Who?", "", "Who? " * 99], ["", "Nobody.", " \n"]
    for rows in ([0, 1, 2], [0], [2]):
        found = signatures_of(export)["text"](
            question=tf.gather(questions, rows), context=tf.gather(contexts, rows)
        )
        for i, row in enumerate(rows):
            line = [found[name][i].numpy() for name in ("answer", "start", "end", "score")]
            assert (line == [b"", 0, 0, signatures.NO_ANSWER]) == (row != 1)


def test_the_window_with_most_context_is_the_scripts():
    """Whatever the stride; a window before the neighbour's may show a piece too."""
    for width, stride, pieces in ((9, 1, 30), (9, 2, 31), (9, 4, 10), (9, 9, 40)):
        counts = [pieces, 0, 5]
        parts = squad_features._windows(np.array(counts), np.full(3, width), stride)
        example, _, length = parts
        features = squad_features.Features(None, None, [[]] * 3, [], None, *parts, {})
        ids = tf.zeros([len(example), width + 2], tf.int32)
        chars = tf.RaggedTensor.from_row_lengths(tf.zeros([sum(counts)], tf.int32), counts)
        windows = graph_inputs.Windows(
            {"input_ids": ids}, None, *parts, np.full_like(length, 2), chars, chars
        )
        found = signatures._have_most_context(windows)[:, 2:].numpy()
        inside = np.arange(width) < length[:, np.newaxis]
        expected = np.zeros_like(inside)
        expected[:, : features.max_context.shape[1]] = features.max_context
        np.testing.assert_array_equal(found & inside, expected)


# --- The card ---


@pytest.mark.parametrize("name", ["RTE", "2.0"])
def test_the_card_shows_how_to_call_the_export(name, exported, monkeypatch):
    out, export = exported(name)
    card = (export / "README.md").read_text()
    seed = json.loads((out / "run.json").read_text())["seed"]
    assert f"| seed | {seed} |" in card and "| steps | " in card
    assert "## Evaluation" in card and "|  |" not in card
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1]
    names = {}
    monkeypatch.chdir(export.parent)
    exec(code, names)
    assert "text" in names["signatures"]


# --- Elsewhere ---


QUESTIONS = {  # of one window, of several, and of none
    "question": ["Who sat?", "Who sat there?", "Who?"],
    "context": ["The cat sat.", "The cat sat on the mat. " * 15, ""],
}
SERVED = {  # run -> rows of text
    "RTE": {
        "text": ["one text", "a longer text of several words", ""],
        "text_pair": ["a", "", "b c"],
    },
    "RACE": {
        "article": ["The cat sat. " * 20, "A dog.", ""],
        "question": ["The _ sat.", "Who?", "_"],
        "options": [["cat", "dog", "", "mat"]] * 3,
    },
    "1.1": QUESTIONS,
    "2.0": QUESTIONS,
}


def assert_same_outputs(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if np.issubdtype(values.dtype, np.floating):
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=CLOSE, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], values, err_msg=name)


def called(function, inputs):
    """Outputs of a signature: dict of arrays."""
    outputs = function(**{name: tf.constant(values) for name, values in inputs.items()})
    return {name: values.numpy() for name, values in outputs.items()}


@pytest.mark.parametrize("name", SERVED)
def test_a_batch_is_its_rows(name, exported, signatures_of):
    """The first dimension of every output is the batch, and numbers are finite, as JSON wants."""
    texts, functions = SERVED[name], signatures_of(exported(name)[1])
    for signature in ("text", "embeddings"):
        whole = called(functions[signature], texts)
        rows = [
            called(functions[signature], {k: v[i : i + 1] for k, v in texts.items()})
            for i in range(3)
        ]
        for i, row in enumerate(rows):
            assert all(len(values) == 1 for values in row.values())
            for output, values in row.items():
                assert values.ndim == whole[output].ndim and len(whole[output]) == 3
                if values.dtype.kind == "f":
                    assert np.isfinite(values).all() and np.isfinite(whole[output]).all()
                if values.ndim > 1 and signature == "embeddings":
                    sizes = tuple(map(slice, values.shape[1:]))  # without the others' padding
                    is_used = row["input_mask"][0] > 0
                    if output == "pooled_output":
                        is_used = is_used.any(axis=-1)
                    ours = whole[output][i][sizes][is_used]
                    assert not whole["input_mask"][i].sum() > row["input_mask"].sum()
                    assert_close(ours, values[0][is_used], atol=CLOSE_ENCODED)
        if signature == "text":
            joined = {k: np.concatenate([row[k] for row in rows]) for k in whole}
            assert_same_outputs(whole, joined)
        elif name == "RACE":
            assert whole["pooled_output"].shape == (3, 4, CONFIG["hidden_size"])
        elif name in tiny.SQUAD_FILES:
            assert whole["input_mask"].any(axis=-1).sum(axis=-1).tolist()[::2] == [1, 1]
            assert whole["input_mask"].shape[1] > 2


def test_exports_load_elsewhere(exported, signatures_of, tmp_path):
    """Without the project: as today's users load them, and as servers do; long contexts too."""
    paths, expected = {}, {}
    for name, texts in SERVED.items():
        paths[name] = str(exported(name)[1])
        for signature in ("text", "embeddings"):
            expected[name, signature] = called(signatures_of(paths[name])[signature], texts)
    code = f"""
import resource, sys
sys.modules["albert_tf"] = None  # any import of it fails
import numpy as np, tensorflow as tf, tensorflow_text

texts = {SERVED!r}
for name, path in {paths!r}.items():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        served = tf.compat.v1.saved_model.loader.load(session, ["serve"], path).signature_def
        for signature in ("text", "embeddings"):
            tensors = {{k: v.name for k, v in served[signature].outputs.items()}}
            inputs = served[signature].inputs
            fed = {{inputs[k].name: np.array(v, object) for k, v in texts[name].items()}}
            found = session.run(tensors, fed)
            np.savez(f"{{name}}_{{signature}}.npz",
                     **{{k: v.astype(bytes) if v.dtype == object else v for k, v in found.items()}})
function = tf.saved_model.load({paths["1.1"]!r}).signatures["text"]

def answered(context):
    function(question=tf.constant(["Who sat?"]), context=tf.constant([context]))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

before = answered("The cat sat.")
print(answered("The cat sat on the mat. " * 4000) - before)
"""
    grown = int(lines_of_code(code, tmp_path)[-1])
    for (name, signature), outputs in expected.items():
        with np.load(tmp_path / f"{name}_{signature}.npz") as found:
            strings = {k: v.astype(bytes) if v.dtype == object else v for k, v in outputs.items()}
            assert_same_outputs(dict(found), strings)
    assert grown < 300, f"100 kB of context take {grown} MiB"


@pytest.mark.parametrize("name", SERVED)
def test_sequences_longer_than_the_positions(name, exported, signatures_of):
    functions = signatures_of(exported(name)[1])
    choices = 4 if name == "RACE" else 1
    function = functions.get("ids", functions["serving_default"])
    inputs = function.structured_input_signature[1]
    ids = tf.ones([1, choices * 65], tf.int32)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"longer than max_position_embeddings:\W+65\W+64"
    ):
        function(**dict.fromkeys(inputs, ids))


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("STS-B", {"predictions", "probabilities"}),
        ("RACE", {"predictions", "probabilities"}),
        ("1.1", {"start_logits", "end_logits"}),
        ("2.0", {"start_top_index", "start_top_log_probs", "end_top_index", "end_top_log_probs",
                 "cls_logits"}),
    ],
)  # fmt: skip
def test_tflite(name, outputs, exported, signatures_of):
    directory, export = exported(name)
    served = signatures_of(export)
    function = served.get("ids", served["serving_default"])
    length = RUNS[name][1]["max_seq_length"]
    width = length * (4 if name == "RACE" else 1)
    ids = np.arange(width, dtype=np.int32)[np.newaxis] + 5
    mask = (np.arange(width) % length < length - 4).astype(np.int32)[np.newaxis]
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids, "p_mask": 1 - mask}
    inputs = {name: inputs[name] for name in function.structured_input_signature[1]}
    expected = called(function, inputs)
    sizes = []
    for suffix, limit in (("", 1e-4), ("_float16", 0.02), ("_int8", 0.5)):
        # Where the original put it: next to `saved_model`, in SQuAD.
        path = directory.parent / "export" / f"albert_model{suffix}.tflite"
        sizes.append(path.stat().st_size)
        runner = tf.lite.Interpreter(str(path)).get_signature_runner()
        found = runner(**inputs)
        assert set(found) == outputs
        for name in outputs & {"probabilities", "start_logits", "end_logits", "cls_logits"}:
            values = expected[name.replace("_logits", "_log_prob") if name.endswith("t_logits")
                              or name.startswith("end") else name]  # fmt: skip
            scale = max(1, np.abs(values).max())
            assert_close(found[name] / scale, values / scale, atol=limit)
        if "start_top_log_probs" in outputs:
            best = expected["start_top_log_probs"].max(axis=-1)
            found = found["start_top_log_probs"].max(axis=-1)
            np.testing.assert_allclose(found, best, rtol=limit, atol=limit)
    assert sizes[2] < sizes[1] < sizes[0]
    named = directory.parent / "export" / "labels.txt"
    assert named.exists() == (export / "assets" / "labels.txt").exists()
    if named.exists():
        assert named.read_text() == (export / "assets" / "labels.txt").read_text()


def test_a_tflite_file_that_differs(exported, run_main, tmp_path, monkeypatch):
    """Neither it nor anything else is published then."""
    directory, _ = exported("2.0")
    monkeypatch.setitem(tflite_files.TFLITE_LIMITS, "float", -1.0)
    with refuses("--export_tflite ... float ... -1"):
        run_main(
            run_squad, albert_config_file=directory.parent / "config.json", output_dir=directory,
            export_dir=tmp_path / "export", export_tflite=True,
        )  # fmt: skip
    assert not list(tmp_path.glob("export/*"))


# --- Requests of TensorFlow Serving ---

REQUESTS = [
    json.loads(block.text)
    for block in markdown.blocks("docs/serving.md")
    if block.language == "json"
]


@pytest.mark.parametrize("name", [*RUNS])
def test_requests_of_the_documentation(name, exported, signatures_of):
    functions, answered = signatures_of(exported(name)[1]), set()
    for request in REQUESTS:
        function, given = functions.get(request["signature_name"]), request["inputs"]
        wanted = function.structured_input_signature[1] if function else {}
        is_of_race = len(given.get("input_ids", [[]])[0]) == 12
        if wanted.keys() != given.keys() or (
            "input_ids" in given and is_of_race != (name == "RACE")
        ):
            continue
        values = {key: tf.constant(value, wanted[key].dtype) for key, value in given.items()}
        outputs = function(**values)
        assert {len(output) for output in outputs.values()} == {len(next(iter(given.values())))}
        answered.add(request["signature_name"])
    # Serialized examples are shown in Python; embeddings take what `text` takes.
    assert functions.keys() - answered <= {"serving_default", "embeddings"}


# --- Bad input ---


def test_no_checkpoint_to_export(export_again, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "out").mkdir()
    with refuses(f"--output_dir={tmp_path}/out"):
        export_again("RTE", tmp_path / "out", spm_model_file=SPM, max_seq_length=40)
    assert not list(tmp_path.glob("export/*"))


def test_padding_is_no_embedding(exported, predicted):
    """Neither that of a window of several, nor that of a shorter question of the batch."""
    _, export = exported("1.1")
    long = {"question": "Who?", "context": "the cat sat on the mat . " * 12}
    lines = predicted(
        export, [long, {"question": "Who?", "context": "a cat"}], embeddings="sequence_output"
    )
    lengths = [len(window) for window in lines[0]["sequence_output"]]
    assert len(lengths) > 2 and set(lengths[:-1]) == {48} and lengths[-1] < 48
    (window,) = lines[1]["sequence_output"]  # a list of windows, even of one
    assert np.shape(window)[1:] == (CONFIG["hidden_size"],) and len(window) < 48


def test_variables_of_another_task(exported, run_main, tmp_path):
    """Shapes differ, or names."""
    for name in ("RACE", "1.1"):
        export = Path(shutil.copytree(exported("RTE")[1], tmp_path / name))
        shutil.rmtree(export / "variables")
        shutil.copytree(exported(name)[1] / "variables", export / "variables")
        with refuses(f"{export!s}"):
            run_main(predict, saved_model=export, text="a")
