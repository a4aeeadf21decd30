# SPDX-License-Identifier: Apache-2.0
"""predict.py --model: directories of weights without an export."""

import json
import shutil

import pytest

import albert_tf
from albert_tf.checkpoints import run_directory
from albert_tf.checkpoints.run_directory import FinetunedTask
from albert_tf.cli import predict
from albert_tf.model import heads
from tests import tiny
from tests.errors import assert_names, refuses

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A model fine-tuned for pairs of texts."""
    folder = tmp_path_factory.mktemp("classifier")
    tiny.write_release(folder, heads.ClassificationModel, num_outputs=2)
    run_directory.RunDirectory(str(folder)).write_task(FinetunedTask("rte", ("no", "yes")))
    return folder


@pytest.fixture
def run(run_main, capsys):
    """Runs predict.py: run(**flags) -> the objects on standard output."""

    def run(**flags):
        capsys.readouterr()
        run_main(predict, **flags)
        out, error = capsys.readouterr()
        assert "Loaded " in error
        return [json.loads(line) if line else None for line in out.splitlines()]

    return run


def test_files_of_glue(classifier, run, tmp_path):
    texts = {"text": "A cat, a dog.", "text_pair": "No."}
    (expected,) = run(model=classifier, **texts)
    lines = {
        "test.tsv": "index\tsentence1\tsentence2\tlabel\n7\tA cat, a dog.\tNo.\tno\n",
        "test.jsonl": '{"sentence1": "A cat, a dog.", "sentence2": "No.", "idx": 7}\n',
    }
    for name, content in lines.items():
        (tmp_path / name).write_text(content)
        assert run(model=classifier, input_file=tmp_path / name) == [expected]
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"Sentence1": [texts["text"]], "sentence2": [texts["text_pair"]]})
    assert [found["label"] for found in albert_tf.load(classifier).predict(table)] == [
        expected["label"]
    ]


def test_what_a_pretrained_model_is_asked(release, run):
    loaded, text = albert_tf.load(release), "The [MASK] of the [MASK]."
    texts = ["He came.", "Then he left."]
    (found,) = run(model=release, fill_mask=text, top_k=3)
    assert found == {"text": text, "masks": loaded.fill_mask(text, top_k=3)}
    assert [len(mask) for mask in found["masks"]] == [3, 3]
    (found,) = run(model=release, sentence_order=texts)
    expected = pytest.approx(loaded.sentence_order(*texts))
    assert found == {"text": texts[0], "text_pair": texts[1], "in_order": expected}
    (found,) = run(model=release, text="a film", embeddings="pooled_output")
    expected = loaded.embed("a film", pooling="pooled").tolist()
    assert found == {"pooled_output": pytest.approx(expected, abs=1e-5)}


def test_scores(release, run, run_main, capsys, tmp_path):
    texts = ["The painter showed it.", "It rains, and [MASK] of it."]
    path = tmp_path / "texts.txt"
    path.write_text(f"{texts[0]}\n\n{texts[1]}\n")
    run_main(predict, model=release, score=True, input_file=path)
    out, error = capsys.readouterr()
    loaded = albert_tf.load(release)
    first, second = (pytest.approx(score, rel=1e-5) for score in loaded.score(texts))
    found = [json.loads(line) if line else None for line in out.splitlines()]
    assert found == [first, None, second]
    total = loaded.pseudo_perplexity(texts)
    line, counts = error.splitlines()[-1], [total[name] for name in ("num_pieces", "num_unknown")]
    assert line.startswith("2 texts, {} tokens ({} unknown), 10 words: ".format(*counts))
    assert f"pseudo-perplexity {total['pseudo_perplexity']:.4f} per token" in line
    (found,) = run(model=release, score=True, text=texts[0], method="original")
    assert found == pytest.approx(loaded.score(texts[0], "original"), rel=1e-5)
    path.write_text(f"id\ttext\n7\t{texts[0]}\n")
    (found,) = run(model=release, score=True, input_file=path)
    assert found.pop("id") == "7" and found == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "texts.txt"),
        ("of\n\n" + "of " * 63 + "\n", "texts.txt, line 3 ... 63 ... max_seq_length=64"),
    ],
    ids=["no text", "a text that is too long"],
)
def test_files_that_have_no_score(text, message, release, run_main, tmp_path):
    (tmp_path / "texts.txt").write_text(text)
    with refuses(message):
        run_main(predict, model=release, score=True, input_file=tmp_path / "texts.txt")


SUN = '{"id": "8", "text": "Sun", "text_pair": null}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.csv", "id,text,text_pair\n7,,\n8,Sun,\n"),
        ("in.tsv", "id\ttext\ttext_pair\n7\t\u200b \tRain\n8\tSun\t\n"),
        ("in.jsonl", '{"id": "7", "text": null, "text_pair": ""}\n' + SUN),
        ("in.json", '[{"id": "7", "text": "", "text_pair": "b"}, ' + SUN + "]"),
    ],
)
def test_rows_without_text_are_predicted(name, content, classifier, run_main, capsys, tmp_path):
    (tmp_path / name).write_text(content, encoding="utf-8")
    run_main(predict, model=classifier, input_file=tmp_path / name)
    found, error = capsys.readouterr()
    assert [json.loads(line)["id"] for line in found.splitlines()] == ["7", "8"]
    assert error.splitlines()[-1].startswith("1 ")
    with refuses(f"{name}, line"):
        run_main(predict, model=classifier, input_file=tmp_path / name, score=True)


def test_texts_that_are_cut_are_counted(classifier, run_main, capsys):
    texts = ["Rain " * 500, "Sun"]
    run_main(predict, model=classifier, text=texts, text_pair="Water")
    loaded = albert_tf.load(classifier)
    message = f"1 of 2 sequences ... max_seq_length={loaded.max_seq_length}"
    assert_names(capsys.readouterr().err.splitlines()[-1], message)
    for call in (loaded.predict, loaded.embed):
        with pytest.warns(UserWarning) as found:
            call(texts, ["Water", ""])
        assert_names(found[0].message, message)
        assert "--" not in str(found[0].message)  # no flag
    assert loaded.cut["cut"] == 2 and loaded.cut["sequences"] == 4


def test_what_nothing_tells_is_asked(tmp_path, run_main):
    """A directory without records may have one text or two; tables have to say which."""
    tiny.write_release(tmp_path, heads.ClassificationModel, num_outputs=2)
    table, out = tmp_path / "in.tsv", tmp_path / "out.jsonl"
    flags = {"model": tmp_path, "input_file": table, "output_file": out}
    table.write_text("id\ttext\n7\tA film\n")
    run_main(predict, **flags)
    found = json.loads(out.read_text())
    loaded = albert_tf.load(tmp_path, strip_accents=False)

    def expected(text):
        return pytest.approx(loaded.predict(text)["probabilities"], abs=1e-5)

    assert (found["id"], found["probabilities"]) == ("7", expected("A film"))
    table.write_text("caf\u00e9 cr\u00e8me\n")
    run_main(predict, **flags, strip_accents=False)
    with_accents = json.loads(out.read_text())["probabilities"]
    assert with_accents == expected("caf\u00e9 cr\u00e8me")
    run_main(predict, **flags)
    assert json.loads(out.read_text())["probabilities"] != with_accents


def test_options_of_what_the_directory_does_not_tell(release, run, tmp_path):
    copied = shutil.copytree(release, tmp_path / "copy")
    vocabulary = (copied / "30k-clean.model").rename(tmp_path / "other.model")
    asked = {"model": copied, "fill_mask": "A [MASK]."}
    with refuses("--spm_model_file ... --vocab_file"):
        run(**asked)
    given = {"max_seq_length": 8, "albert_config_file": release / "albert_config.json"}
    (found,) = run(**asked, **given, spm_model_file=vocabulary)
    assert len(found["masks"]) == 1


def test_what_contradicts_the_record_is_named_as_a_flag(release, run, tmp_path):
    copied = shutil.copytree(release, tmp_path / "copy")
    tiny.write_record(copied, tiny.VOCABULARY, do_lower_case=True)
    with refuses("--do_lower_case=false ... --do_lower_case=true"):
        run(model=copied, fill_mask="A [MASK].", do_lower_case=False)


def test_embeddings_need_a_pooler(release, run_main, monkeypatch):
    monkeypatch.setattr("albert_tf.api.loaded.Loaded.has_pooler", False)
    with refuses(f"--embeddings= ... {release}"):
        run_main(predict, model=release, text="a", embeddings="pooled_output")


POOLED = {"embeddings": "pooled_output"}


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("release", {"text": "a"}, "--fill"),
        ("release", {"sentence_order": "a"}, "--sentence_order"),
        ("release", {"fill_mask": "a", "text": "b"}, "--text ... --fill_mask"),
        ("release", {"fill_mask": "a"} | POOLED, "--fill_mask ... --embeddings"),
        ("release", {"text": "a", "embeddings": "sequence_output"}, "--saved_model"),
        ("release", {"score": True, "fill_mask": "a"}, "--score ... --fill_mask"),
        ("release", {"score": True, "text": "a"} | POOLED, "--score ... --embeddings"),
        ("release", {"score": True, "text": "a", "text_pair": "b"}, "text ... text_pair"),
        ("release", {"score": True, "text": ""}, "--text"),
        ("classifier", {"score": True, "text": "a"}, "masked_lm head"),
        ("classifier", {"question": "a"}, "text_pair"),
        ("classifier", {"text": "a", "task_name": "SST-2"}, "--task_name=SST-2"),
        ("release", {"text": "a", "task_name": "rte"}, "--task_name=rte"),
    ],
)
def test_mistakes(name, flags, message, request, run_main):
    directory = request.getfixturevalue(name)
    with refuses(message) as caught:
        run_main(predict, model=directory, **flags)
    assert "\n" not in str(caught.value)


def test_a_training_is_no_export(release, run_main):
    with refuses(f"--saved_model={release} ... --model={release}"):
        run_main(predict, saved_model=release, text="a")
