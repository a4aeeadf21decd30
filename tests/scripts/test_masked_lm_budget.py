# SPDX-License-Identifier: Apache-2.0
"""From text to unmasked records to a training that masks them: the same weights after any stop."""

import json
import re
import shutil

import pytest

import albert_tf
from albert_tf.checkpoints import run_directory
from albert_tf.cli import training_flags
from albert_tf.records import record_files
from albert_tf.text.tokenization import FullTokenizer
from tests import GOLDEN, tiny
from tests.errors import assert_says, refuses
from tests.scripts.small_text import LENGTH, PIECES, make_records
from tests.scripts.test_run_pretraining import assert_same_when_stopped

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def made(tmp_path_factory, run_main):
    """Directory with a vocabulary, and masked and unmasked records of a text."""
    directory = tmp_path_factory.mktemp("records")
    for name, prob in (("masked", 0.15), ("unmasked", 0)):
        make_records(run_main, directory, name, masked_lm_prob=prob, dupe_factor=1)
    return directory


@pytest.fixture
def flags(made, tmp_path):
    config = GOLDEN / "optimizers" / "albert_config.json"
    files = {"albert_config_file": config, "input_file": made / "unmasked"}
    files |= {"vocab_file": made / "vocab.txt", "output_dir": tmp_path / "out"}
    sizes = {"max_seq_length": LENGTH, "max_predictions_per_seq": 6, "masked_lm_budget": 0.2}
    steps = {"num_train_steps": 6, "save_checkpoints_steps": 3, "max_eval_steps": 1}
    return tiny.PRETRAINING | files | sizes | steps | {"shuffle_buffer_size": 8}


def records_in(directory):
    summary = json.loads((directory / "summary-unmasked.json").read_text())
    return summary["instances"]


@pytest.mark.long
def test_a_run_that_was_stopped_ends_with_the_same_weights(pretrain, flags, made, tmp_path):
    count = records_in(made)
    assert count < 3 * 4 < 2 * count < 6 * 4  # it is stopped within the second of three epochs
    flags |= {"length_buckets": "8,16", "do_eval": True}
    assert_same_when_stopped(pretrain, tmp_path, 3, 6)
    # An evaluation by a process of its own, with no seed or another one, has the same masks.
    pretrain(do_train=False, seed=5)
    first, second = (evaluations_in(tmp_path / name) for name in ("out", "halted"))
    assert [step for step, _ in first] == [3, 6, 6] and first[2] == first[1]
    assert second == first[:2]  # that of step 3 is made up for


@pytest.mark.slow
@pytest.mark.usefixtures("in_graphs")
def test_a_run_compiled_by_xla_that_was_stopped_ends_with_the_same_weights(
    pretrain, flags, tmp_path
):
    flags |= {"length_buckets": "16", "enable_xla": True}  # of two lengths: each is compiled
    assert_same_when_stopped(pretrain, tmp_path, 3, 6)


def evaluations_in(directory):
    """(step, masked-LM loss) of each evaluation."""
    text = (directory / "eval_results.txt").read_text()
    steps = map(int, re.findall(r"^global_step = (\d+)", text, re.M))
    return list(zip(steps, re.findall(r"^masked_lm_loss = (\S+)", text, re.M), strict=True))


@pytest.mark.long
def test_evaluation_takes_the_masks_of_masked_records(pretrain, flags, made, tmp_path):
    """So that one held-out file serves runs of either kind."""
    flags |= {"num_train_steps": 1, "max_predictions_per_seq": 4}
    pretrain(do_eval=True, eval_input_file=made / "masked")
    for name in ("masked_lm_budget", "vocab_file"):
        del flags[name]
    flags |= {"do_train": False, "do_eval": True, "input_file": made / "masked"}
    pretrain()
    first, second = evaluations_in(tmp_path / "out")
    assert first == second


def test_records_that_do_not_fit_the_flags(pretrain, flags, made, tmp_path):
    def refused(message, **values):
        with refuses(message):
            pretrain(**values)
        assert not (tmp_path / "out" / "checkpoint").exists()

    refused("--masked_lm_budget=0.2 ... /masked", input_file=made / "masked")
    both = f"{made / 'masked'},{made / 'unmasked'}"
    refused("/masked ... --masked_lm_prob=0", do_eval=True, eval_input_file=both)
    other = tmp_path / "other.txt"
    other.write_text("[PAD]\n[SEP]\n[MASK]\n[CLS]\n")
    flags["input_file"] = shutil.copy(made / "unmasked", tmp_path / "records")  # without summary
    refused("2 ... [CLS] ... 3", vocab_file=other)
    other.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    refused("other.txt ... [MASK]", vocab_file=other)
    other.write_text("".join(f"{n}\n" for n in range(301)))
    refused("301 ... vocab_size=300", vocab_file=other)
    del flags["vocab_file"], flags["masked_lm_budget"]
    flags["input_file"] = made / "unmasked"
    for predictions in (4, 6):
        message = "unmasked ... --masked_lm_prob=0 ... --masked_lm_budget"
        refused(message, max_predictions_per_seq=predictions)


def test_what_limits_the_budget_is_said(pretrain, flags, made, capsys):
    flags |= {"input_file": made / "masked", "max_predictions_per_seq": 4}
    with refuses("--masked_lm_budget=0.2 ... /masked"):
        pretrain()
    assert_says(capsys.readouterr().out, "4 ... --masked_lm_budget=0.2")


def test_many_passes_without_masks_are_questioned(run_main, tmp_path, capsys):
    make_records(run_main, tmp_path, "out", masked_lm_prob=0)
    assert_says(capsys.readouterr().out, "--dupe_factor=1")
    make_records(run_main, tmp_path, "out", masked_lm_prob=0, dupe_factor=2)
    out = capsys.readouterr().out
    assert "--dupe_factor" not in out
    assert_says(out, "--masked_lm_budget")


@pytest.mark.parametrize("given", [{"do_permutation": True}, {"ngram": 1}])
def test_flags_about_masks_need_masks(given, run_main, tmp_path):
    (name,) = given
    with refuses(f"--{name} ... --masked_lm_prob"):
        make_records(run_main, tmp_path, "out", masked_lm_prob=0, **given)


def test_the_run_knows_the_vocabulary_of_its_records(pretrain, flags, made, tmp_path):
    """So that the model can be loaded with its tokenizer, without any flag."""
    del flags["vocab_file"], flags["masked_lm_budget"]
    flags |= {"input_file": made / "masked", "num_train_steps": 1, "max_predictions_per_seq": 4}
    pretrain()
    record = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert record.vocabulary.flag == "vocab_file"
    assert record.vocabulary.path == str(made / "vocab.txt")
    assert record.text["do_lower_case"] is True
    loaded = albert_tf.load(str(tmp_path / "out"))
    assert len(loaded.fill_mask("a b [MASK] c", top_k=2)[0]) == 2


@pytest.mark.long
def test_a_vocabulary_that_has_moved_can_be_given(pretrain, flags, made, tmp_path):
    del flags["masked_lm_budget"]
    for name in ("masked", "summary-masked.json"):
        shutil.copy(made / name, tmp_path / name)
    summary = tmp_path / "summary-masked.json"
    summary.write_text(summary.read_text().replace("vocab.txt", "gone.txt"))
    flags |= {"input_file": tmp_path / "masked", "num_train_steps": 1, "max_predictions_per_seq": 4}
    pretrain()
    record = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert record.vocabulary.path == str(made / "vocab.txt")
    assert record.text["strip_accents"] is True
    del flags["vocab_file"]  # and a resumed run keeps it
    pretrain(num_train_steps=2)
    resumed = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert (resumed.vocabulary, resumed.text) == (record.vocabulary, record.text)


@pytest.mark.long
def test_records_without_a_summary_have_the_given_vocabulary(pretrain, flags, made, tmp_path):
    flags["input_file"] = shutil.copy(made / "unmasked", tmp_path / "records")
    pretrain(num_train_steps=1)
    record = run_directory.RunDirectory(str(tmp_path / "out")).settings
    assert record.vocabulary.flag == "vocab_file"
    assert record.vocabulary.path == str(made / "vocab.txt")
    assert "do_lower_case" not in record.text  # nobody has said it
    assert albert_tf.load(str(tmp_path / "out")).tokenizer.vocab_size == len(PIECES)


@pytest.mark.parametrize("use", ["masks", "record"])
def test_another_vocabulary_of_the_same_size_is_an_error(use, pretrain, flags, made, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("\n".join([*PIECES[:5], *PIECES[:4:-1]]) + "\n")
    if use != "masks":
        del flags["masked_lm_budget"]
        flags |= {"input_file": made / "masked", "max_predictions_per_seq": 4}
    with refuses("other.txt ... vocab.txt"):
        pretrain(vocab_file=other)


def test_a_wordpiece_vocabulary_does_not_belong_to_records_of_sentencepiece(made, monkeypatch):
    model = FullTokenizer(spm_model_file=str(tiny.VOCABULARY))
    known = {"a": (model.arguments, model.fingerprint)}
    monkeypatch.setattr(record_files, "tokenizers_of", lambda paths: known)
    with refuses("vocab.txt"):
        training_flags.tokenizer_of_records(["a"], {"vocab_file": str(made / "vocab.txt")})
    for typed in ({}, {"vocab_file": ""}):
        found = training_flags.tokenizer_of_records(["a"], typed)
        assert found.fingerprint == model.fingerprint


def test_a_changed_vocabulary_is_not_taken(made, tmp_path):
    for name in ("vocab.txt", "masked", "summary-masked.json"):
        shutil.copy(made / name, tmp_path / name)
    summary = tmp_path / "summary-masked.json"
    summary.write_text(summary.read_text().replace(str(made), str(tmp_path)))
    arguments = {"vocab_file": str(tmp_path / "vocab.txt"), "do_lower_case": True}
    arguments |= {"strip_accents": True}
    path = str(tmp_path / "masked")
    assert record_files.tokenizers_of([path])[path][0] == arguments
    assert training_flags.tokenizer_of_records([path], {}).arguments == arguments
    (tmp_path / "vocab.txt").write_text("\n".join([*PIECES, "f"]) + "\n")
    assert training_flags.tokenizer_of_records([path], {}) is None
    (tmp_path / "vocab.txt").unlink()
    assert training_flags.tokenizer_of_records([path], {}) is None
    summary.unlink()
    assert training_flags.tokenizer_of_records([path], {}) is None
